/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.c: direct lanes: calls that come straight from clients, and their answers.
 * Owns the mappings and the private half of each call. The control thread opens, binds and closes lanes on wsd's word;
 * everything else [worker].
 * Keeps: a call runs on private copies of all that its client wrote, and is answered once. No more calls run at a time
 * than wsd allows, and none that wsd has not bound. A lane's memory stays mapped while any thread uses it.
 * Does not know users, and waits for no client. */
#include "executor/lane.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wsd/task.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "executor/commands.h"
#include "executor/work.h"
#include "host/cputime.h"
#include "host/files.h"

/* A client that rings this often in a row without a call is shut out. If another worker took the call for which this
 * one was woken, there was a call. */
#define ALARMS_MAX 1000u

#define TAKEN_USEC 300u /* a yield takes this long only if unrelated threads want the CPU */
#define CALM       256u /* number of yields that are left out after that */

#define SLOT_USEC 1000u /* no call of a slot begins later than this after the first */

/* This worker's last job was a direct call: the next one may come at once. */
static _Thread_local bool spins;
/* This worker was woken, and has run nothing since. */
static _Thread_local bool was_asleep;
static _Thread_local uint32_t n_calm; /* yields still to be left out */
static _Thread_local uint32_t turn;   /* which lane is looked at first */
/* The next call of this thread's slot has its turn. Not kept in the slot, which may be another call's once its last
 * call has ended. */
static _Thread_local bool goes_on;
/* The lane of the last call that this worker ran: it will look there again, and has told the client so. Counts as a
 * user of the lane. */
static _Thread_local struct lane *looks_at;

/* --- whose memory ------------------------------------------------------------------------------------------------- */

static bool lane_get(struct lane *l)
{
    uint32_t n = atomic_load_explicit(&l->users, memory_order_relaxed);

    do {
        if (n == 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&l->users, &n, n + 1, memory_order_acq_rel, memory_order_relaxed));
    return true;
}

static int tell(struct work *w, uint32_t number, uint32_t bind, int error)
{
    struct control c = {.kind = CONTROL_LANED, .number = number, .functions = bind, .error = (uint32_t)error};

    return control_send(w->control_fd, &c, -1);
}

static void take_down(struct lane *l)
{
    struct work *w = l->work;
    uint32_t number = l->number;

    for (uint32_t i = 0; l->calls && i < LANE_SLOTS; i++)
        if (l->calls[i].initialised)
            host_job_deinit(&l->calls[i].job);
    free(l->calls);
    l->calls = NULL;
    free(l->directory);
    l->directory = NULL;
    lane_back_deinit(&l->back);
    /* release: partner is the acquire in lane_open(); nothing of it is touched after */
    atomic_store_explicit(&l->taken, false, memory_order_release);
    tell(w, number, LANED_CLOSED, 0);
}

static void lane_put(struct lane *l)
{
    if (atomic_fetch_sub_explicit(&l->users, 1, memory_order_acq_rel) == 1)
        take_down(l);
}

void lanes_leave(void *work)
{
    struct lane *l = TAKE(looks_at);

    if (!l)
        return;
    lane_back_look(&l->back, false);
    lane_put(l);
}

/* Takes over the caller's use of the lane. */
static void look_on(struct lane *l)
{
    if (looks_at == l) {
        lane_put(l);
        return;
    }
    lanes_leave(NULL);
    lane_back_look(&l->back, true);
    looks_at = l;
}

/* True: other workers look and are enough, and this worker has stopped looking. */
static bool is_cared_for(struct lane *l)
{
    if (looks_at != l)
        return lane_back_cared_for(&l->back);
    if (!lane_back_yield(&l->back))
        return false;
    looks_at = NULL;
    spins = false;
    lane_put(l); /* the caller still has a use of it */
    return true;
}

static void wake_all(struct work *w)
{
    eventcount_notify(&w->back.up->doorbell, UINT32_MAX, true);
}

/* --- control ------------------------------------------------------------------------------------------------------ */

void lanes_init(struct work *w)
{
    w->lanes.available = eventcount_set_available();
    w->lanes.lone_cpu = cpus_affinity() < 2;
    w->lanes.grant_fd = -1;
}

static int lane_open(struct work *w, const struct control *c, int memory_fd)
{
    _cleanup_(close_fdp) int grant_fd = TAKE_FD(w->lanes.grant_fd);
    struct lane *l = c->number < RING_LANES ? &w->lanes.at[c->number] : NULL;

    if (!w->lanes.available)
        return -ENOSYS;
    if (!l || memory_fd < 0 || grant_fd < 0 || atomic_load_explicit(&l->taken, memory_order_acquire))
        return -EBADMSG;
    l->number = c->number;
    l->work = w;
    l->up = &w->back.up->lanes[c->number];
    l->same_user = c->flags & DOWN_SAME_USER;
    atomic_store_explicit(&l->alarms, 0, memory_order_relaxed);
    l->directory = c->text_size > 1 ? strdup(c->text) : NULL;
    l->calls = calloc(LANE_SLOTS, sizeof(*l->calls)); /* zero pages until they are used */
    int r = l->calls && (l->directory || c->text_size <= 1) ? lane_back_init(&l->back, memory_fd, grant_fd) : -ENOMEM;
    if (r < 0) {
        free(l->calls);
        free(l->directory);
        l->calls = NULL;
        l->directory = NULL;
        return r;
    }
    atomic_store_explicit(&l->taken, true, memory_order_relaxed);
    /* release: partner is the acquire in lane_get() */
    atomic_store_explicit(&l->users, 1, memory_order_release);
    atomic_fetch_or_explicit(&w->lanes.open, UINT64_C(1) << c->number, memory_order_seq_cst);
    wake_all(w); /* sleeping workers do not wait on this lane's bell yet */
    return 0;
}

/* No more calls; running ones are asked to end. */
static void lane_shut(struct lane *l)
{
    uint64_t bit = UINT64_C(1) << l->number;

    if (!(atomic_fetch_and_explicit(&l->work->lanes.open, ~bit, memory_order_seq_cst) & bit))
        return;
    wake_all(l->work);
    lane_put(l);
}

static void lane_bind(struct lane *l, const struct control *c)
{
    uint32_t bind = c->slot;

    if (bind >= LANE_BINDS)
        return;
    atomic_store_explicit(&l->binds[bind].target, (uint64_t)c->generation << 32 | c->functions, memory_order_relaxed);
    atomic_store_explicit(&l->binds[bind].max_run_usec, c->flags, memory_order_relaxed);
}

int lanes_control(struct work *w, const struct control *c, int fd)
{
    _cleanup_(close_fdp) int received = fd;
    struct lane *l = c->number < RING_LANES ? &w->lanes.at[c->number] : NULL;

    switch (c->kind) {
    case CONTROL_LANE_GRANT:
        close_fd(w->lanes.grant_fd);
        w->lanes.grant_fd = TAKE_FD(received);
        return 0;
    case CONTROL_LANE:
        return tell(w, c->number, LANED_OPEN, -lane_open(w, c, received));
    case CONTROL_LANE_BIND:
        if (l)
            lane_bind(l, c);
        return tell(w, c->number, c->slot, l ? 0 : EBADMSG);
    default:
        if (l)
            lane_shut(l);
        return 0;
    }
}

/* --- the transport of a call -------------------------------------------------------------------------------------- */

static struct direct_call *from_job(struct host_job *job)
{
    return container_of(job, struct direct_call, job);
}

static void *direct_reserve(struct host_job *job, size_t min, size_t *ret_size)
{
    struct direct_call *d = from_job(job);

    if (d->overflow)
        return NULL;
    free(d->scratch);
    d->scratch = NULL;
    if (min <= sizeof(d->output) - d->used) {
        *ret_size = sizeof(d->output) - d->used;
        return d->output + d->used;
    }
    d->scratch = malloc(min);
    *ret_size = min;
    return d->scratch;
}

static void direct_commit(struct host_job *job, size_t size)
{
    struct direct_call *d = from_job(job);

    /* a part of the output must never pass for all of it */
    if (size > d->request.call.room - d->used) {
        d->overflow = true;
        return;
    }
    if (d->scratch)
        memcpy(d->output + d->used, d->scratch, size);
    d->used += (uint32_t)size;
}

static int direct_flush(struct host_job *job)
{
    return from_job(job)->overflow ? -ECANCELED : 0;
}

static int64_t direct_read(struct host_job *job, void *data, size_t size)
{
    return 0; /* what there is, is in memory */
}

static int direct_open(struct host_job *job, const char *path)
{
    struct direct_call *d = from_job(job);

    if (!d->lane->same_user)
        return -ENOTCONN; /* a function that asks for files says so, and is called by the socket */
    if (path[0] != '/' && !d->lane->directory)
        return -ENOENT;
    return files_open(d->lane->directory, path);
}

static const char *direct_directory(struct host_job *job)
{
    struct direct_call *d = from_job(job);

    return !d->lane->same_user ? NULL : d->lane->directory ? d->lane->directory : "";
}

static int direct_command(struct host_job *job, const struct wsd_command *command)
{
    return executor_command(command);
}

static void direct_message(struct host_job *job, int level, const char *text)
{
    /* messages of a direct call have no reader */
}

static void direct_progress(struct host_job *job, uint64_t done, uint64_t total)
{
}

/* Whether it has used up its time, whatever it returns. */
static bool is_late(const struct direct_call *d)
{
    return d->deadline_usec && d->job.ended_usec >= d->deadline_usec;
}

static enum lane_outcome outcome_of(const struct direct_call *d)
{
    const struct host_job *job = &d->job;

    if (d->overflow)
        return LANE_OVERFLOW;
    if (is_late(d))
        return LANE_TIMED_OUT;
    return atomic_load_explicit(job->cancel, memory_order_relaxed) ? LANE_CANCELLED : LANE_ENDED;
}

static void begin_call(struct direct_call *d)
{
    struct up_direct *u = &d->lane->up->calls[d->number];

    d->overflow = false;
    d->used = 0;
    d->started_usec = cputime_recent_nsec() / 1000u;
    d->deadline_usec = d->limit_usec ? d->started_usec + d->limit_usec : 0;
    atomic_store_explicit(&u->deadline_usec, d->deadline_usec, memory_order_relaxed);
}

/* Tells wsd what a slot calls, from before the claim until after the answer. So wsd knows of each call that runs when
 * the executor dies. */
static void mark(struct lane *l, uint32_t slot, uint32_t generation)
{
    struct up_direct *u = &l->up->calls[slot];

    atomic_store_explicit(&u->deadline_usec, 0, memory_order_relaxed);
    atomic_store_explicit(&u->bind, lane_back_bind(&l->back, slot), memory_order_relaxed);
    /* release: partner is wsd's acquire load, which reads the others after */
    atomic_store_explicit(&u->word, ring_word(generation, 1), memory_order_release);
}

/* Withdraws that, unless the slot is another call's already. */
static void unmark(struct lane *l, uint32_t slot, uint32_t generation)
{
    uint64_t word = ring_word(generation, 1);

    atomic_compare_exchange_strong_explicit(&l->up->calls[slot].word, &word, 0, memory_order_release,
                                            memory_order_relaxed);
}

/* Whether this slot must stop: others have their turn now, or wsd allows no more of its calls. */
static bool is_over(const struct direct_call *d)
{
    return d->job.ended_usec - d->begun_usec >= SLOT_USEC || !lane_back_allowed(&d->lane->back, d->request.bind) ||
           lane_back_credit(&d->lane->back) == 0;
}

/* If the call has succeeded and gave nothing but output, gives the next one of its slot its turn. */
static bool turn_over(struct direct_call *d)
{
    const struct host_job *job = &d->job;
    uint64_t run_usec = job->ended_usec - job->started_usec, cpu_usec = host_job_cpu_usec(job);
    struct lane_end end = {.run_usec = (uint32_t)run_usec, .cpu_usec = (uint32_t)cpu_usec, .output_size = d->used};

    if (job->exit != 0 || *job->status || d->overflow || is_late(d) || run_usec > UINT32_MAX || cpu_usec > UINT32_MAX ||
        is_over(d) || !lane_back_turn(&d->lane->back, d->number, &d->request, &end, d->output))
        return false;
    free(d->scratch);
    d->scratch = NULL;
    d->cpu_usec += cpu_usec;
    begin_call(d);
    return true;
}

/* A client that does not sleep when its just woken worker has answered may have been interrupted on this CPU by that.
 * It would get the CPU back only after this worker has looked for more and sleeps (13 us for a call instead of 9). */
static void give_back(bool told)
{
    bool first = was_asleep;

    was_asleep = false;
    if (!first || told)
        return;
    if (n_calm) {
        n_calm--;
        return;
    }
    uint64_t begin = clock_monotonic_usec();
    sched_yield();
    if (clock_monotonic_usec() - begin >= TAKEN_USEC)
        n_calm = CALM;
}

static void direct_finished(struct host_job *job, struct wsd_worker *self)
{
    struct direct_call *d = from_job(job);
    struct lane *l = d->lane;

    goes_on = turn_over(d);
    if (goes_on)
        return;
    uint32_t number = d->number, generation = d->generation, output_at = d->request.call.output_at;
    uint64_t cpu_usec = d->cpu_usec;
    uint8_t output[LANE_OUTPUT];
    char error[WSD_TEXT_MAX], status[WSD_TEXT_MAX];
    struct lane_answer a = {.outcome = outcome_of(d),
                            .exit = job->exit,
                            .worker = self->index,
                            .run_usec = job->ended_usec - job->started_usec,
                            .cpu_usec = host_job_cpu_usec(job),
                            .output = output,
                            .output_size = d->used,
                            .error = error,
                            .status = status};

    if (a.outcome == LANE_TIMED_OUT)
        snprintf(job->error, sizeof(job->error), "its time was up");
    memcpy(output, d->output, d->used);
    memcpy(error, job->error, strlen(job->error) + 1);
    memcpy(status, job->status, strlen(job->status) + 1);
    free(d->scratch);
    d->scratch = NULL;
    atomic_fetch_add_explicit(&l->up->begun, d->request.item, memory_order_relaxed); /* beside the first one */
    atomic_fetch_add_explicit(&l->up->cpu_usec, cpu_usec + a.cpu_usec, memory_order_relaxed);
    /* release: partner is the acquire in lanes_take(). Before the answer, after which the client may use the slot
     * again. */
    atomic_store_explicit(&d->busy, false, memory_order_release);
    atomic_fetch_sub_explicit(&l->up->running, 1, memory_order_seq_cst);
    spins = true;
    lane_get(l); /* the client may shut it after the answer */
    look_on(l);
    bool told = lane_back_answer(&l->back, number, generation, output_at, &a);
    unmark(l, number, generation);
    lane_put(l);
    give_back(told);
}

static const struct host_transport transport = {
    .reserve = direct_reserve,
    .commit = direct_commit,
    .flush = direct_flush,
    .read = direct_read,
    .open = direct_open,
    .directory = direct_directory,
    .command = direct_command,
    .message = direct_message,
    .progress = direct_progress,
    .finished = direct_finished,
};

bool lanes_place(const struct host_job *job, uint32_t *ret_slot, uint32_t *ret_generation)
{
    if (job->transport != &transport)
        return false;
    const struct direct_call *d = container_of(job, struct direct_call, job);
    *ret_slot = ring_lane_slot(d->lane->number, d->number);
    *ret_generation = d->generation;
    return true;
}

/* --- one call ----------------------------------------------------------------------------------------------------- */

static const struct plugin_function *find_function(struct lane *l, uint32_t bind)
{
    return bind < LANE_BINDS
               ? work_function(l->work, atomic_load_explicit(&l->binds[bind].target, memory_order_relaxed))
               : NULL;
}

static void run_call(struct direct_call *d, struct wsd_worker *self)
{
    static const uint8_t no_id[16];
    const uint8_t *bytes = d->request.bytes;
    const struct lane_part *p = &d->request.call;
    struct host_request request = {.id = no_id,
                                   .function = d->function,
                                   .args = (const char *)bytes + p->args_at,
                                   .args_size = p->args_size,
                                   .argc = p->argc,
                                   .input = p->input_size ? bytes + p->input_at : NULL,
                                   .input_size = p->input_size,
                                   .started_usec = d->started_usec,
                                   .deadline_usec = d->deadline_usec,
                                   .cancel = &d->lane->back.memory->slots[d->number].cancel,
                                   .transport = &transport};

    if (host_job_begin(&d->job, &request) < 0)
        host_job_fail(&d->job, self, NULL);
    else
        host_job_run(&d->job, self);
}

static void run_direct(struct pool_node *node, struct wsd_worker *self)
{
    struct direct_call *d = from_job(container_of(node, struct host_job, node));

    work_begun();
    do {
        goes_on = false;
        run_call(d, self);
    } while (goes_on);
}

/* Frees it before the answer, since the client may use the slot again after that. */
static void refuse(struct lane *l, struct direct_call *d, uint32_t slot, uint32_t generation)
{
    atomic_fetch_sub_explicit(&l->up->running, 1, memory_order_seq_cst);
    atomic_store_explicit(&d->busy, false, memory_order_release);
    lane_back_answer(&l->back, slot, generation, 0, &(struct lane_answer){.outcome = LANE_REFUSED});
    unmark(l, slot, generation);
}

/* Tells wsd that a call runs, once until wsd stops looking. */
static void announce(struct work *w)
{
    struct up *up = w->back.up;

    /* seq_cst: after the RMW of running; partner is wsd, which stores 0 and then looks at running */
    if (atomic_load_explicit(&up->lanes_watched, memory_order_seq_cst) == 0 &&
        atomic_exchange_explicit(&up->lanes_watched, 1, memory_order_seq_cst) == 0)
        back_bell(&w->back);
}

/* Prepares the calls of a claimed slot. False: it is malformed, or may not be called. */
static bool prepare(struct lane *l, struct direct_call *d)
{
    uint64_t limit;

    if (lane_back_read(&l->back, d->number, &d->request) < 0 || !lane_back_allowed(&l->back, d->request.bind))
        return false;
    if (!d->initialised) {
        host_job_init(&d->job);
        d->job.node.run = run_direct;
        d->initialised = true;
    }
    limit = atomic_load_explicit(&l->binds[d->request.bind].max_run_usec, memory_order_relaxed);
    if (d->request.timeout_usec && (!limit || d->request.timeout_usec < limit))
        limit = d->request.timeout_usec;
    d->lane = l;
    d->limit_usec = limit < UINT64_MAX / 2 ? limit : 0;
    d->cpu_usec = 0;
    d->function = find_function(l, d->request.bind); /* for all of them, even if the number is bound anew meanwhile */
    begin_call(d);
    d->begun_usec = d->started_usec;
    atomic_store_explicit(&l->up->calls[d->number].bind, d->request.bind, memory_order_relaxed); /* as it was copied */
    atomic_fetch_add_explicit(&l->up->begun, 1, memory_order_relaxed);
    announce(l->work);
    return true;
}

/* Takes a call, with a use of the lane. NULL: there is none, and no use is kept. */
static struct pool_node *take_from(struct lane *l, uint32_t *ret_usec)
{
    uint32_t slot, generation;

    /* bounded by what one client may have under way: other clients come next */
    for (uint32_t i = 0; i < LANE_SLOTS; i++) {
        slot = lane_back_take(&l->back, &generation);
        if (slot == RING_NONE)
            return NULL;
        struct direct_call *d = &l->calls[slot];
        /* acquire: partner is the release in direct_finished(). Busy only where a client pushes a slot twice. */
        if (atomic_exchange_explicit(&d->busy, true, memory_order_acquire))
            continue;
        mark(l, slot, generation);
        if (!lane_back_claim(&l->back, slot, generation)) {
            unmark(l, slot, generation);
            atomic_store_explicit(&d->busy, false, memory_order_release);
            continue;
        }
        uint32_t running = atomic_fetch_add_explicit(&l->up->running, 1, memory_order_seq_cst);

        atomic_store_explicit(&l->alarms, 0, memory_order_relaxed);
        d->number = slot;
        d->generation = generation;
        if (running >= lane_back_credit(&l->back) || !prepare(l, d)) {
            refuse(l, d, slot, generation);
            continue;
        }
        bool brief = lane_back_brief(&l->back);

        if (!brief)
            lanes_leave(NULL);
        else if (looks_at != l && lane_get(l))
            look_on(l);
        *ret_usec = brief ? 0 : RING_WORTH_USEC;
        return &d->job.node;
    }
    return NULL;
}

/* --- the pool's source -------------------------------------------------------------------------------------------- */

/* The open lanes, with lane `first` at the lowest bit. */
static uint64_t open_from(struct work *w, uint32_t first)
{
    uint64_t bits = atomic_load_explicit(&w->lanes.open, memory_order_seq_cst);

    first %= RING_LANES;
    return first ? bits >> first | bits << (RING_LANES - first) : bits;
}

/* Each open lane; one that is being closed may be among them: lane_get(). */
#define for_each_lane(l, w, first)                                                                                     \
    for (uint64_t bits_ = open_from(w, first); bits_; bits_ &= bits_ - 1)                                              \
        for (struct lane *l = &(w)->lanes.at[((first) + (uint32_t)__builtin_ctzll(bits_)) % RING_LANES]; l; l = NULL)

uint32_t lanes_running(struct work *w)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < RING_LANES; i++) {
        struct lane *l = &w->lanes.at[i];

        if (!lane_get(l)) /* a call that runs has a use of its lane */
            continue;
        n += atomic_load_explicit(&l->up->running, memory_order_relaxed); /* one that begins or ends may count or not */
        lane_put(l);
    }
    return n;
}

struct pool_node *lanes_take(struct work *w, uint32_t *ret_usec)
{
    uint32_t first = turn++;

    for_each_lane(l, w, first)
    {
        if (!lane_get(l))
            continue;
        struct pool_node *node = is_cared_for(l) ? NULL : take_from(l, ret_usec);
        if (node)
            return node; /* with the use */
        lane_put(l);
    }
    return NULL;
}

bool lanes_ready(struct work *w)
{
    bool ready = false;

    for_each_lane(l, w, 0)
    {
        if (ready || !lane_get(l))
            continue;
        ready = lane_back_ready(&l->back) && !lane_back_cared_for(&l->back);
        lane_put(l);
    }
    return ready;
}

void lanes_prepare(void *work, struct eventcount_set *set)
{
    struct work *w = work;

    cputime_sleeps();
    for_each_lane(l, w, 0) if (lane_get(l)) eventcount_set_add(set, &l->back.memory->bell, l);
}

void lanes_done(void *work, struct eventcount_set *set)
{
    cputime_slept();
    was_asleep = eventcount_set_rang(set, 0);
    for (uint32_t i = 1; i < set->n; i++) {
        struct lane *l = set->owners[i];

        was_asleep |= eventcount_set_rang(set, i);

        if (eventcount_set_rang(set, i) && !lane_back_ready(&l->back) &&
            atomic_fetch_add_explicit(&l->alarms, 1, memory_order_relaxed) == ALARMS_MAX) {
            tell(l->work, l->number, LANED_OPEN, EPROTO);
            lane_shut(l);
        }
        lane_put(l);
    }
}

bool lanes_may_spin(void *work)
{
    struct work *w = work;

    return spins && !w->lanes.lone_cpu && atomic_load_explicit(&w->lanes.open, memory_order_relaxed) != 0;
}

void lanes_cool(void)
{
    spins = false;
    was_asleep = false;
}
