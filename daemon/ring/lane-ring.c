/* SPDX-License-Identifier: Apache-2.0
 *
 * lane-ring.c: the three ends of a direct lane.
 * Owns the mappings; each end owns its private cursor and generations. lane-ring.h says which thread may call what.
 * Keeps: each call is claimed at most once and answered at most once. No size, offset or index that another process
 * wrote is used before it was copied and checked.
 * Does not know plugins, sockets or users. */
#include "ring/lane-ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/async-close.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/relax.h"
#include "ring/region.h"

#define SPIN_MAX_NSEC 50000u
#define SPIN_MIN_NSEC 2000u  /* a worker that is awake has answered a small call by then */
#define SPIN_PROBE    256u   /* after this many misses the full time is used again */
#define BURST_NSEC    50000u /* a call this soon after the end of the last is one of many */
#define SPIN_LOOKS    32     /* between looks at the clock */

#define MEMORY_SIZE page_up(sizeof(struct lane_memory))
#define GRANT_SIZE  page_up(sizeof(struct lane_grant))

/* --- front -------------------------------------------------------------------------------------------------------- */

int lane_front_init(struct lane_front *f)
{
    void *map;

    *f = (struct lane_front){.memory_fd = -1, .grant_fd = -1, .notice_fd = -1, .notify_fd = -1};
    int r = region_new("wsd-lane", MEMORY_SIZE, 0, &f->memory_fd, &map);
    if (r < 0)
        return r;
    f->memory = map;
    /* our writable mapping stays, no other process gets one */
    r = region_new("wsd-grant", GRANT_SIZE, F_SEAL_FUTURE_WRITE, &f->grant_fd, &map);
    if (r < 0) {
        lane_front_deinit(f);
        return r;
    }
    f->grant = map;
    f->memory->magic = f->grant->magic = LANE_MAGIC;
    f->memory->version = f->grant->version = LANE_VERSION;
    eventcount_init(&f->memory->bell);
    eventcount_init(&f->memory->done);
    return 0;
}

/* A socket and no eventfd, and sent to with MSG_DONTWAIT: a client could make an eventfd that it shares block. A socket
 * and no pipe: a reader of a pipe can keep it locked for as long as it likes. */
int lane_front_add_notice(struct lane_front *f, uint64_t owner)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    f->notice_fd = pair[0];
    f->notify_fd = pair[1];
    f->owner = owner;
    /* the client cannot put anything into the executor's end */
    return shutdown(f->notify_fd, SHUT_RD) < 0 ? -errno : 0;
}

void lane_front_handed(struct lane_front *f)
{
    f->memory_fd = close_fd(f->memory_fd);
    f->grant_fd = close_fd(f->grant_fd);
    f->notice_fd = async_close(f->notice_fd, f->owner);
    f->notify_fd = close_fd(f->notify_fd); /* nothing can be in there */
}

void lane_front_deinit(struct lane_front *f)
{
    lane_front_handed(f);
    if (f->memory)
        munmap(f->memory, MEMORY_SIZE);
    if (f->grant)
        munmap(f->grant, GRANT_SIZE);
    f->memory = NULL;
    f->grant = NULL;
}

void lane_front_credit(struct lane_front *f, uint32_t credit)
{
    /* seq_cst: 0 is stored before wsd looks whether a call runs; partner is lane_back_credit() */
    atomic_store_explicit(&f->grant->credit, credit, memory_order_seq_cst);
}

void lane_front_allow(struct lane_front *f, uint32_t bind, bool yes)
{
    atomic_store_explicit(&f->grant->allowed[bind], yes, memory_order_release);
}

void lane_front_cancel(struct lane_front *f)
{
    for (uint32_t i = 0; i < LANE_SLOTS; i++)
        atomic_store_explicit(&f->memory->slots[i].cancel, 1, memory_order_relaxed);
}

void lane_front_lost(struct lane_front *f)
{
    /* seq_cst RMW before the slots are looked at: partner is the load in lane_client_push(), after it has made its slot
     * QUEUED. One of the two sees the other. */
    atomic_exchange_explicit(&f->grant->lost, 1, memory_order_seq_cst);
}

bool lane_front_kept(const struct lane_front *f)
{
    return atomic_load_explicit(&f->memory->kept, memory_order_relaxed) != 0;
}

enum lane_state lane_front_look(struct lane_front *f, uint32_t slot, uint32_t *ret_generation)
{
    uint64_t word = atomic_load_explicit(&f->memory->slots[slot].state, memory_order_seq_cst);

    *ret_generation = (uint32_t)(word >> 32);
    return (uint32_t)word <= LANE_LOST ? (enum lane_state)(uint32_t)word : LANE_FREE;
}

bool lane_front_judge(struct lane_front *f, uint32_t slot, uint32_t generation, enum lane_state seen,
                      enum lane_outcome outcome, const char *error)
{
    struct lane_slot *s = &f->memory->slots[slot];
    struct lane_verdict *v = &f->grant->verdicts[slot];
    uint64_t word = ring_word(generation, seen);
    size_t n = error ? strnlen(error, sizeof(v->error) - 1) : 0;

    v->generation = generation;
    v->outcome = outcome;
    if (n)
        memcpy(v->error, error, n);
    v->error[n] = 0;
    /* release: partner is the acquire load in lane_client_ended(), after which the verdict is read */
    if (!atomic_compare_exchange_strong_explicit(&s->state, &word, ring_word(generation, LANE_LOST),
                                                 memory_order_acq_rel, memory_order_relaxed))
        return false;
    eventcount_notify(&f->memory->done, 1, true);
    return true;
}

/* --- mapping by the others ---------------------------------------------------------------------------------------- */

static int both_map(int memory_fd, int grant_fd, struct lane_memory **ret_memory, const struct lane_grant **ret_grant)
{
    uint64_t memory_size, grant_size;
    void *memory, *grant;
    int r = region_map(memory_fd, PROT_READ | PROT_WRITE, MEMORY_SIZE, &memory, &memory_size);

    if (r < 0)
        return r;
    r = region_map(grant_fd, PROT_READ, GRANT_SIZE, &grant, &grant_size);
    if (r < 0) {
        munmap(memory, memory_size);
        return r;
    }
    const struct lane_memory *m = memory;
    const struct lane_grant *g = grant;
    if (memory_size != MEMORY_SIZE || grant_size != GRANT_SIZE || m->magic != LANE_MAGIC ||
        m->version != LANE_VERSION || g->magic != LANE_MAGIC || g->version != LANE_VERSION) {
        munmap(memory, memory_size);
        munmap(grant, grant_size);
        return -EBADMSG;
    }
    *ret_memory = memory;
    *ret_grant = grant;
    return 0;
}

static void both_unmap(struct lane_memory *memory, const struct lane_grant *grant)
{
    if (memory)
        munmap(memory, MEMORY_SIZE);
    if (grant)
        munmap((void *)(uintptr_t)grant, GRANT_SIZE);
}

/* --- back --------------------------------------------------------------------------------------------------------- */

int lane_back_init(struct lane_back *b, int memory_fd, int grant_fd)
{
    b->memory = NULL;
    b->grant = NULL;
    atomic_store_explicit(&b->head, 0, memory_order_relaxed);
    return both_map(memory_fd, grant_fd, &b->memory, &b->grant);
}

void lane_back_deinit(struct lane_back *b)
{
    both_unmap(b->memory, b->grant);
    b->memory = NULL;
    b->grant = NULL;
}

/* seq_cst: partner is the store in lane_client_push(), after lane_back_look(false). A tail further ahead than the ring
 * is long is malformed, and there is nothing to take. */
static uint64_t waiting(struct lane_back *b, uint64_t head)
{
    uint64_t n = atomic_load_explicit(&b->memory->tail, memory_order_seq_cst) - head;

    return n <= LANE_SLOTS ? n : 0;
}

bool lane_back_ready(struct lane_back *b)
{
    return waiting(b, atomic_load_explicit(&b->head, memory_order_relaxed)) > 0;
}

void lane_back_look(struct lane_back *b, bool yes)
{
    /* seq_cst: before the next look at the tail; partner is the load in lane_client_ring() */
    atomic_fetch_add_explicit(&b->memory->looking, yes ? 1 : UINT32_MAX, memory_order_seq_cst);
}

bool lane_back_brief(struct lane_back *b)
{
    return atomic_load_explicit(&b->memory->brief, memory_order_relaxed) != 0;
}

bool lane_back_cared_for(struct lane_back *b)
{
    /* seq_cst: after the look at the tail; partner is lane_back_look(false), after which that worker looks itself */
    return lane_back_brief(b) && atomic_load_explicit(&b->memory->looking, memory_order_seq_cst) != 0;
}

bool lane_back_yield(struct lane_back *b)
{
    uint32_t n = atomic_load_explicit(&b->memory->looking, memory_order_relaxed);

    return n > 1 && lane_back_brief(b) &&
           atomic_compare_exchange_strong_explicit(&b->memory->looking, &n, n - 1, memory_order_seq_cst,
                                                   memory_order_relaxed);
}

uint32_t lane_back_take(struct lane_back *b, uint32_t *ret_generation)
{
    uint64_t head = atomic_load_explicit(&b->head, memory_order_relaxed);

    /* bounded: a client can push as fast as we take */
    for (uint32_t i = 0; i < LANE_SLOTS; i++) {
        if (waiting(b, head) == 0)
            return RING_NONE;
        /* relaxed: ordered by the tail; an entry that is overwritten meanwhile is its client's loss */
        uint64_t word = atomic_load_explicit(&b->memory->ring[head % LANE_SLOTS], memory_order_relaxed);
        /* acq_rel: partner is itself, in the other workers */
        if (!atomic_compare_exchange_strong_explicit(&b->head, &head, head + 1, memory_order_acq_rel,
                                                     memory_order_relaxed))
            continue;
        if ((uint32_t)word < LANE_SLOTS) {
            *ret_generation = (uint32_t)(word >> 32);
            return (uint32_t)word;
        }
        head++;
    }
    return RING_NONE;
}

uint32_t lane_back_bind(const struct lane_back *b, uint32_t slot)
{
    const volatile struct lane_slot *s = &b->memory->slots[slot];

    return s->bind;
}

bool lane_back_claim(struct lane_back *b, uint32_t slot, uint32_t generation)
{
    uint64_t word = ring_word(generation, LANE_QUEUED);

    /* acquire: partner is the release store in lane_client_push(), after the request */
    return atomic_compare_exchange_strong_explicit(&b->memory->slots[slot].state, &word,
                                                   ring_word(generation, LANE_RUNNING), memory_order_acq_rel,
                                                   memory_order_relaxed);
}

bool lane_back_cancelled(const struct lane_back *b, uint32_t slot)
{
    /* relaxed: the claim has acquired what lane_client_cancel() has released, if that came first */
    return atomic_load_explicit(&b->memory->slots[slot].cancel, memory_order_relaxed) != 0;
}

static uint32_t aligned(uint32_t size)
{
    return (size + LANE_ALIGN - 1) & ~(LANE_ALIGN - 1);
}

/* Reads the call at `at` of the copy; *ret_next: where the next one is. */
static int part_of(const struct lane_request *q, uint32_t at, uint32_t output_at, struct lane_part *ret,
                   uint32_t *ret_next)
{
    uint32_t size = q->size;
    struct lane_item item;

    if (at > size || size - at < sizeof(item))
        return -EBADMSG;
    memcpy(&item, q->bytes + at, sizeof(item));
    uint32_t args_at = at + (uint32_t)sizeof(item);
    if (item.args_size > size - args_at || output_at > LANE_OUTPUT || item.room > LANE_OUTPUT - output_at)
        return -EBADMSG;
    uint32_t input_at = aligned(args_at + item.args_size);
    if (input_at > size || item.input_size > size - input_at ||
        (item.args_size && q->bytes[args_at + item.args_size - 1] != 0))
        return -EBADMSG;
    *ret = (struct lane_part){.argc = item.argc,
                              .args_size = item.args_size,
                              .input_size = item.input_size,
                              .room = item.room,
                              .args_at = args_at,
                              .input_at = input_at,
                              .output_at = output_at};
    *ret_next = aligned(input_at + item.input_size);
    return 0;
}

static int next_part(const struct lane_request *q, const struct lane_part *p, struct lane_part *ret)
{
    uint32_t next;

    return part_of(q, aligned(p->input_at + p->input_size), aligned(p->output_at + p->room), ret, &next);
}

int lane_back_read(struct lane_back *b, uint32_t slot, struct lane_request *ret)
{
    const volatile struct lane_slot *s = &b->memory->slots[slot];
    struct lane_part part;
    uint32_t at;

    ret->bind = s->bind;
    ret->n_items = s->n_items;
    ret->timeout_usec = s->timeout_usec;
    ret->size = s->size;
    ret->item = 0;
    if (ret->size > LANE_ROOM || ret->n_items == 0 || ret->n_items > LANE_ITEMS)
        return -EBADMSG;
    memcpy(ret->bytes, (const void *)(uintptr_t)s->bytes, ret->size);
    if (part_of(ret, 0, 0, &ret->call, &at) < 0)
        return -EBADMSG;
    part = ret->call; /* checks all of them, so that none begins if one is malformed */
    for (uint32_t i = 1; i < ret->n_items; i++)
        if (next_part(ret, &part, &part) < 0)
            return -EBADMSG;
    return 0;
}

bool lane_back_turn(struct lane_back *b, uint32_t slot, struct lane_request *q, const struct lane_end *end,
                    const void *output)
{
    struct lane_slot *s = &b->memory->slots[slot];
    uint32_t turn = q->item;
    struct lane_part next;

    if (q->item + 1 >= q->n_items || atomic_load_explicit(&s->cancel, memory_order_relaxed) ||
        next_part(q, &q->call, &next) < 0)
        return false;
    s->ends[q->item] = *end;
    if (end->output_size)
        memcpy(s->output + q->call.output_at, output, end->output_size);
    /* release: partner is the acquire load in lane_client_last() */
    if (!atomic_compare_exchange_strong_explicit(&s->turn, &turn, q->item + 1, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    q->item++;
    q->call = next;
    return true;
}

/* Writes nothing where there is none before and after, as with most calls: the client keeps its copy of the line. */
static void text_put(char *to, const char *text)
{
    size_t n = text ? strnlen(text, RING_TEXT - 1) : 0;

    if (n == 0 && *(const volatile char *)to == 0)
        return;
    if (n)
        memcpy(to, text, n);
    to[n] = 0;
}

bool lane_back_answer(struct lane_back *b, uint32_t slot, uint32_t generation, uint32_t output_at,
                      const struct lane_answer *a)
{
    struct lane_slot *s = &b->memory->slots[slot];
    uint64_t word = ring_word(generation, LANE_RUNNING);

    s->exit = a->exit;
    s->worker = a->worker;
    s->run_usec = a->run_usec;
    s->cpu_usec = a->cpu_usec;
    s->output_size = a->output_size;
    if (a->output_size)
        memcpy(s->output + output_at, a->output, a->output_size);
    text_put(s->error, a->error);
    text_put(s->status, a->status);
    /* Last: the client polls the line of `cancel`, and the CAS needs it next. Looked at earlier, it moves twice. */
    bool cancelled = a->outcome == LANE_ENDED && lane_back_cancelled(b, slot);
    s->outcome = cancelled ? LANE_CANCELLED : a->outcome;
    /* release: partner is the acquire load in lane_client_ended() */
    if (atomic_compare_exchange_strong_explicit(&s->state, &word, ring_word(generation, LANE_DONE),
                                                memory_order_acq_rel, memory_order_relaxed))
        return eventcount_notify(&b->memory->done, 1, true);
    return false;
}

bool lane_back_notifies(struct lane_back *b)
{
    /* acq_rel: partner is the exchange in lane_client_want_notice(). If this one is first, that one sees the answer. */
    return atomic_exchange_explicit(&b->memory->notice, 0, memory_order_acq_rel) != 0;
}

uint32_t lane_back_credit(const struct lane_back *b)
{
    /* seq_cst: after the caller has counted its call among those that run */
    return atomic_load_explicit(&b->grant->credit, memory_order_seq_cst);
}

bool lane_back_allowed(const struct lane_back *b, uint32_t bind)
{
    return bind < LANE_BINDS && atomic_load_explicit(&b->grant->allowed[bind], memory_order_acquire) == 1;
}

/* --- client ------------------------------------------------------------------------------------------------------- */

int lane_client_init(struct lane_client *c, int memory_fd, int grant_fd, bool may_spin)
{
    *c = (struct lane_client){.may_spin = may_spin, .spin_nsec = SPIN_MAX_NSEC, .n_free = LANE_SLOTS};
    for (uint32_t i = 0; i < LANE_SLOTS; i++) {
        c->free_slots[i] = LANE_SLOTS - 1 - i;
        c->generation[i] = 1;
    }
    int r = both_map(memory_fd, grant_fd, &c->memory, &c->grant);
    if (r == 0) { /* a child that writes there, or sleeps there, would do it to its parent's calls */
        madvise(c->memory, MEMORY_SIZE, MADV_DONTFORK);
        madvise((void *)(uintptr_t)c->grant, GRANT_SIZE, MADV_DONTFORK);
    }
    return r;
}

void lane_client_deinit(struct lane_client *c)
{
    both_unmap(c->memory, c->grant);
    c->memory = NULL;
    c->grant = NULL;
}

void lane_client_keep(struct lane_client *c, bool kept)
{
    /* relaxed: wsd may look before or after */
    atomic_store_explicit(&c->memory->kept, kept, memory_order_relaxed);
}

bool lane_client_lost(const struct lane_client *c)
{
    return atomic_load_explicit(&c->grant->lost, memory_order_seq_cst) != 0;
}

bool lane_client_has_room(const struct lane_client *c)
{
    uint32_t credit = atomic_load_explicit(&c->grant->credit, memory_order_relaxed);

    return c->n_free > 0 && LANE_SLOTS - c->n_free < credit && !lane_client_lost(c);
}

bool lane_client_dry(const struct lane_client *c)
{
    return atomic_load_explicit(&c->grant->credit, memory_order_relaxed) == 0;
}

bool lane_client_allowed(const struct lane_client *c, uint32_t bind)
{
    return atomic_load_explicit(&c->grant->allowed[bind], memory_order_relaxed) == 1;
}

static uint64_t now_nsec(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint32_t lane_client_begin(struct lane_client *c)
{
    uint32_t slot = c->free_slots[--c->n_free];

    c->pushed[slot].n = c->pushed[slot].size = c->pushed[slot].room = 0;
    return slot;
}

bool lane_client_add(struct lane_client *c, uint32_t slot, const struct lane_call *call)
{
    struct lane_pushed *p = &c->pushed[slot];
    uint8_t *bytes = c->memory->slots[slot].bytes;
    struct lane_item item = {
        .argc = (uint32_t)call->n_args, .input_size = (uint32_t)call->input_size, .room = (uint32_t)call->room};
    uint32_t at = p->size + (uint32_t)sizeof(item);

    if (p->n == LANE_ITEMS || at > LANE_ROOM || call->room > LANE_OUTPUT - p->room)
        return false;
    for (size_t i = 0; i < call->n_args; i++) {
        size_t size = strlen(call->args[i]) + 1;

        if (size > LANE_ROOM - at)
            return false;
        memcpy(bytes + at, call->args[i], size);
        at += (uint32_t)size;
    }
    item.args_size = at - p->size - (uint32_t)sizeof(item);
    at = aligned(at);
    if (call->input_size > LANE_ROOM - at)
        return false;
    if (call->input_size)
        memcpy(bytes + at, call->input, call->input_size);
    memcpy(bytes + p->size, &item, sizeof(item));
    p->size = aligned(at + item.input_size);
    p->output_at[p->n++] = (uint16_t)p->room;
    p->room = MIN(aligned(p->room + item.room), LANE_OUTPUT);
    return true;
}

void lane_client_push(struct lane_client *c, uint32_t slot, uint32_t bind, uint64_t timeout_usec)
{
    uint32_t generation = c->generation[slot];
    struct lane_slot *s = &c->memory->slots[slot];

    atomic_store_explicit(&s->cancel, 0, memory_order_relaxed);
    /* where it is 0 already the worker keeps its line, and no store is waited for */
    if (atomic_load_explicit(&s->turn, memory_order_relaxed) != 0)
        atomic_store_explicit(&s->turn, 0, memory_order_relaxed);
    s->bind = bind;
    s->n_items = c->pushed[slot].n;
    s->size = c->pushed[slot].size;
    s->timeout_usec = timeout_usec;
    /* release: partner is the CAS in lane_back_claim(); seq_cst: before the look at `lost` */
    atomic_store_explicit(&s->state, ring_word(generation, LANE_QUEUED), memory_order_seq_cst);
    atomic_store_explicit(&c->memory->ring[c->tail % LANE_SLOTS], ring_word(generation, slot), memory_order_relaxed);
    c->tail++;
    /* release: partner is the load in waiting(); seq_cst: before the look in lane_client_ring() */
    atomic_store_explicit(&c->memory->tail, c->tail, memory_order_seq_cst);
    if (lane_client_lost(c)) {
        uint64_t word = ring_word(generation, LANE_QUEUED);

        /* No worker will look: as if the client had been told so. If the CAS fails, wsd has given its verdict, or the
         * call still runs. */
        atomic_compare_exchange_strong_explicit(&s->state, &word, ring_word(generation, LANE_LOST),
                                                memory_order_acq_rel, memory_order_relaxed);
    }
}

bool lane_client_ring(struct lane_client *c, uint32_t n, bool brief)
{
    if (c->brief != brief)
        atomic_store_explicit(&c->memory->brief, c->brief = brief, memory_order_relaxed);
    /* seq_cst: after the tail; partner is lane_back_look(): a worker seen here looks at the tail after it has announced
     * that it looks no more */
    if (brief && atomic_load_explicit(&c->memory->looking, memory_order_seq_cst) != 0)
        return true;
    return !eventcount_notify(&c->memory->bell, brief ? 1 : n, true) || now_nsec() - c->ended_nsec < BURST_NSEC;
}

void lane_client_press(struct lane_client *c)
{
    c->brief = false;
    atomic_store_explicit(&c->memory->brief, 0, memory_order_relaxed);
    eventcount_notify(&c->memory->bell, UINT32_MAX, true); /* its fence is between the two */
}

bool lane_client_ended(struct lane_client *c, uint32_t slot)
{
    /* acquire: partners are the CASes in lane_back_answer() and lane_front_judge(). A word of another generation can
     * only come from scribbling, and counts as an end, too. */
    uint64_t word = atomic_load_explicit(&c->memory->slots[slot].state, memory_order_acquire);

    return word != ring_word(c->generation[slot], LANE_QUEUED) && word != ring_word(c->generation[slot], LANE_RUNNING);
}

void lane_client_want_notice(struct lane_client *c)
{
    /* acq_rel: partner is the exchange in lane_back_notifies(). If this one is first, that one sees the 1. */
    atomic_exchange_explicit(&c->memory->notice, 1, memory_order_acq_rel);
}

bool lane_client_take_notice(struct lane_client *c)
{
    return atomic_exchange_explicit(&c->memory->notice, 0, memory_order_acq_rel) == 0;
}

/* Spins for as long as has paid lately: the time doubles after a hit, and halves after a miss. */
bool lane_client_spin(struct lane_client *c, bool (*ended)(void *arg), void *arg)
{
    uint64_t end = 0;

    if (!c->may_spin)
        return false;
    for (;;) {
        for (int i = 0; i < SPIN_LOOKS; i++) {
            if (ended(arg)) {
                c->spin_nsec = MIN(c->spin_nsec * 2, (uint64_t)SPIN_MAX_NSEC);
                return true;
            }
            cpu_relax();
        }
        uint64_t now = now_nsec();
        if (end == 0)
            end = now + c->spin_nsec;
        if (now >= end)
            break;
    }
    c->spin_nsec = ++c->n_misses % SPIN_PROBE ? MAX(c->spin_nsec / 2, (uint64_t)SPIN_MIN_NSEC) : SPIN_MAX_NSEC;
    return false;
}

bool lane_client_sleep(struct lane_client *c, bool (*ended)(void *arg), void *arg, uint64_t timeout_usec)
{
    struct eventcount *done = &c->memory->done;
    uint32_t epoch = eventcount_prepare(done);

    if (ended(arg)) {
        eventcount_cancel(done);
        return true;
    }
    eventcount_wait(done, epoch, timeout_usec, true);
    return ended(arg);
}

uint32_t lane_client_close(struct lane_client *c, uint32_t slot)
{
    /* RMW: partner is the compare-and-swap in lane_back_turn(): one of the two is first */
    uint32_t turn = atomic_fetch_or_explicit(&c->memory->slots[slot].turn, LANE_CLOSED, memory_order_acq_rel);

    return MIN(turn & ~LANE_CLOSED, c->pushed[slot].n - 1);
}

bool lane_client_cancel(struct lane_client *c, uint32_t slot)
{
    struct lane_slot *s = &c->memory->slots[slot];
    uint64_t queued = ring_word(c->generation[slot], LANE_QUEUED), word = queued;

    atomic_store_explicit(&s->cancel, 1, memory_order_relaxed);
    /* release: partner is the CAS in lane_back_claim(). If this one finds QUEUED, that one comes after it, and then
     * lane_back_cancelled() is true. */
    return !atomic_compare_exchange_strong_explicit(&s->state, &word, queued, memory_order_acq_rel,
                                                    memory_order_relaxed);
}

uint32_t lane_client_last(struct lane_client *c, uint32_t slot)
{
    /* acquire: partner is the compare-and-swap in lane_back_turn() */
    uint32_t turn = atomic_load_explicit(&c->memory->slots[slot].turn, memory_order_acquire);

    return MIN(turn & ~LANE_CLOSED, c->pushed[slot].n - 1);
}

static size_t room_of(const struct lane_client *c, uint32_t slot, uint32_t item)
{
    const struct lane_pushed *p = &c->pushed[slot];

    return (item + 1 < p->n ? p->output_at[item + 1] : LANE_OUTPUT) - p->output_at[item];
}

void lane_client_end(struct lane_client *c, uint32_t slot, uint32_t item, struct lane_end *ret, const void **ret_output)
{
    const volatile struct lane_end *end = &c->memory->slots[slot].ends[item];

    ret->run_usec = end->run_usec;
    ret->cpu_usec = end->cpu_usec;
    ret->output_size = end->output_size;
    ret->output_size = MIN(ret->output_size, (uint32_t)room_of(c, slot, item));
    *ret_output = c->memory->slots[slot].output + c->pushed[slot].output_at[item];
}

/* Copies a text that may change meanwhile, made safe to display. */
static void text_take(char to[RING_TEXT], const char *text)
{
    const volatile char *from = text;
    char copy[RING_TEXT];
    size_t n = 0;

    to[0] = 0;
    if (!*from) /* as most are */
        return;
    for (char c; n + 1 < RING_TEXT && (c = from[n]) != 0; n++)
        copy[n] = c;
    copy[n] = 0;
    escape_text(to, RING_TEXT, copy);
}

void lane_client_result(struct lane_client *c, uint32_t slot, struct lane_result *ret)
{
    const volatile struct lane_slot *s = &c->memory->slots[slot];
    const struct lane_verdict *v = &c->grant->verdicts[slot];
    uint32_t item = lane_client_last(c, slot);
    uint64_t word = s->state;

    ret->exit = 0;
    ret->worker = 0;
    ret->run_usec = ret->cpu_usec = 0;
    ret->output = NULL;
    ret->output_size = 0;
    ret->error[0] = ret->status[0] = 0;
    if (word == ring_word(c->generation[slot], LANE_DONE)) {
        uint32_t outcome = s->outcome, size = s->output_size;

        ret->outcome = outcome <= LANE_OVERFLOW ? (enum lane_outcome)outcome : LANE_INTERRUPTED;
        ret->exit = s->exit;
        ret->worker = s->worker;
        ret->run_usec = s->run_usec;
        ret->cpu_usec = s->cpu_usec;
        ret->output = (const void *)(uintptr_t)(s->output + c->pushed[slot].output_at[item]);
        ret->output_size = MIN((size_t)size, room_of(c, slot, item));
        text_take(ret->error, (const char *)(uintptr_t)s->error);
        text_take(ret->status, (const char *)(uintptr_t)s->status);
    } else if (word == ring_word(c->generation[slot], LANE_LOST)) {
        /* withdrawn in lane_client_push(), where wsd has said nothing */
        ret->outcome = v->generation == c->generation[slot] ? (enum lane_outcome)v->outcome : LANE_UNTOUCHED;
        text_take(ret->error, v->error);
    } else {
        ret->outcome = LANE_INTERRUPTED;
    }
}

void lane_client_free_slot(struct lane_client *c, uint32_t slot)
{
    c->generation[slot]++;
    if (c->pushed[slot].n)
        c->ended_nsec = now_nsec();
    atomic_store_explicit(&c->memory->slots[slot].state, ring_word(c->generation[slot], LANE_FREE),
                          memory_order_relaxed);
    c->free_slots[c->n_free++] = slot;
}
