/* SPDX-License-Identifier: Apache-2.0
 *
 * query.c: questions to executors: counters, number of workers, traces, stacks.
 * Owns the parts of each question, one for each executor that was asked. Owns the reports of traces, too. [loop]
 * Keeps: each query ends once, whatever becomes of the executors. An executor's answer is checked word by word. One
 * without a query is invalid.
 * Does not wait: an executor that does not answer in time is skipped. */
#include "domains/query.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/domain.h"
#include "domains/executors.h"
#include "domains/job-trace-text.h"
#include "domains/owners.h"
#include "domains/plugin-query.h"
#include "domains/questions.h"
#include "table/find.h"
#include "table/job-trace.h"

struct part {
    struct list of_question, of_domain;
    struct executor_query *query; /* NULL: the answer is not needed now */
    struct domain *domain;
    uint32_t serial, executor;
    enum control_ask what;
    uint64_t room; /* of fd */
    int fd;        /* -1: none */
};

struct trace_report {
    struct job_trace_text *own; /* wsd's part; NULL: an executor's, which is all below */
    struct domain *domain;      /* of a trace, which must be read before the next one begins; NULL: of a stack */
    uint64_t size;
    int fd;
};

#define NAME_(name) #name,
const char *const jobs_counter_names[] = {CONTROL_COUNTERS(NAME_)};
#undef NAME_
const size_t jobs_n_counters = ARRAY_SIZE(jobs_counter_names);

static uint32_t uid_of(const struct domain *d)
{
    return jobs_owner_uid(d->jobs, d->key);
}

static bool is_own(const struct domain *d, uint32_t uid)
{
    return uid == 0 || uid_of(d) == uid;
}

/* --- reports ---------------------------------------------------------------------------------------------------- */

size_t trace_report_read(const struct trace_report *r, uint64_t offset, void *data, size_t size)
{
    if (r->own)
        return job_trace_text_read(r->own, data, size);
    ssize_t n = offset < r->size ? pread(r->fd, data, MIN(size, r->size - offset), (off_t)offset) : 0;

    return n > 0 ? (size_t)n : 0;
}

struct trace_report *trace_report_free(struct trace_report *r)
{
    if (!r)
        return NULL;
    job_trace_text_free(r->own);
    if (r->domain)
        r->domain->priv->trace.n_reports--;
    close_fd(r->fd);
    free(r);
    return NULL;
}

static struct trace_report *report_new(struct part *p, uint64_t size)
{
    struct trace_report *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    *r = (struct trace_report){.size = size, .fd = TAKE_FD(p->fd)};
    if (p->what == ASK_TRACE_STOP) {
        r->domain = p->domain;
        r->domain->priv->trace.n_reports++;
    }
    return r;
}

/* Takes the trace. NULL: no memory. */
static struct trace_report *own_report_new(struct job_trace *t)
{
    struct job_trace_text *text = job_trace_text_new(t);
    struct trace_report *r = text ? calloc(1, sizeof(*r)) : NULL;

    if (!r) {
        job_trace_text_free(text);
        return NULL;
    }
    *r = (struct trace_report){.own = text, .fd = -1};
    return r;
}

/* --- parts ------------------------------------------------------------------------------------------------------ */

/* Memory of a sealed size: what the executor writes to is bounded, and can be read at any time. */
static int sealed_memory(uint64_t size)
{
    _cleanup_(close_fdp) int fd = memfd_create("wsd-answer", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return -errno;
    return TAKE_FD(fd);
}

static struct part *part_free(struct part *p)
{
    list_remove(&p->of_question);
    list_remove(&p->of_domain);
    p->domain->priv->queries.n--;
    close_fd(p->fd);
    free(p);
    return NULL;
}

static uint64_t room_for(enum control_ask what)
{
    switch (what) {
    case ASK_WORKERS:
        return CONTROL_WORKERS_MAX * sizeof(struct control_worker);
    case ASK_TRACE_STOP:
        return CONTROL_TRACE_MAX;
    case ASK_STACK:
        return CONTROL_STACK_MAX;
    default:
        return 0;
    }
}

static bool has_report(enum control_ask what)
{
    return what == ASK_TRACE_STOP || what == ASK_STACK;
}

/* Asks the domain's executor, which is there. id: of a job, or NULL. */
static int part_ask_of(struct domain *d, enum control_ask what, uint64_t argument, const uint8_t *id,
                       struct executor_query *q)
{
    uint64_t room = room_for(what);
    struct control c = {.kind = CONTROL_ASK, .functions = what, .flags = argument};

    if (d->priv->queries.n >= JOBS_ASKS)
        return -EAGAIN; /* it does not answer, or is asked too much */
    if (id)
        c.text_size = (uint32_t)snprintf(c.text, sizeof(c.text), JOB_ID_FORMAT, JOB_ID_ARGS(id)) + 1;
    struct part *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    *p = (struct part){
        .query = q, .domain = d, .executor = d->priv->executor->number, .what = what, .room = room, .fd = -1};
    list_init(&p->of_question);
    list_push_back(&d->priv->queries.parts, &p->of_domain);
    d->priv->queries.n++;
    c.number = p->serial = ++d->jobs->executors->next_query;
    int r = room ? sealed_memory(room) : 0;
    if (room && r >= 0)
        p->fd = r;
    if (r >= 0)
        r = executor_send(d->priv->executor, &c, p->fd);
    if (r < 0) {
        part_free(p);
        return r;
    }
    if (q)
        list_push_back(&q->parts, &p->of_question);
    return 0;
}

static int part_ask(struct domain *d, enum control_ask what, uint64_t argument, struct executor_query *q)
{
    return part_ask_of(d, what, argument, NULL, q);
}

static void ended(struct executor_query *q)
{
    if (!q->asking || !list_empty(&q->parts))
        return;
    q->asking = false;
    if (q->timer)
        event_free(TAKE(q->timer));
    q->done(q);
}

static void tell(struct executor_query *q, const struct domain *d, uint32_t executor, int error)
{
    struct executor_answer a = {.executor = executor, .uid = uid_of(d), .error = error};

    q->answer(q, &a);
}

/* The executor will not answer this one. */
static void part_fail(struct part *p, int error)
{
    struct executor_query *q = p->query;

    if (q) {
        p->query = NULL;
        list_remove(&p->of_question);
        tell(q, p->domain, p->executor, error);
        ended(q);
    }
}

static void on_timeout(evutil_socket_t fd, short what, void *userdata)
{
    struct executor_query *q = userdata;

    while (!list_empty(&q->parts)) {
        struct part *p = container_of(q->parts.next, struct part, of_question);
        bool last = p->of_question.next == &q->parts;

        part_fail(p, ETIMEDOUT); /* it stays in the domain: the answer may still come */
        if (last)
            return; /* the query may be gone */
    }
}

/* --- answers ---------------------------------------------------------------------------------------------------- */

/* False: nonsense. Nothing has been told then. */
static bool tell_workers(struct part *p, uint64_t size)
{
    size_t n = (size_t)(size / sizeof(struct control_worker));
    _cleanup_(freep) struct control_worker *workers = malloc(size + 1);

    if (!workers || pread(p->fd, workers, size, 0) != (ssize_t)size)
        return false;
    for (size_t i = 0; i < n; i++)
        if (workers[i].index >= CONTROL_WORKERS_MAX || (i > 0 && workers[i].index <= workers[i - 1].index) ||
            workers[i].kind < CONTROL_WORKER || workers[i].kind > CONTROL_GUEST)
            return false;
    for (size_t i = 0; i < n; i++) {
        struct worker_info info = {.worker = workers[i].index,
                                   .kind = workers[i].kind,
                                   .cpu = workers[i].cpu,
                                   .counters = workers[i].counters};

        p->query->worker(p->query, p->executor, &info);
    }
    return true;
}

static bool is_sane(const struct part *p, const struct control *c)
{
    if (c->error > 4095 || c->flags > p->room)
        return false;
    if (has_report(p->what))
        return true;
    return c->functions <= CONTROL_WORKERS_MAX && c->flags % sizeof(struct control_worker) == 0;
}

static struct executor_process process_of(const struct domain *d, uint32_t descriptors)
{
    const struct executor *e = d->priv->executor;
    pid_t pid = e && e->child ? child_pid(e->child) : 0;

    if (pid <= 0)
        return (struct executor_process){0};
    return (struct executor_process){.pid = (uint32_t)pid,
                                     .descriptors = descriptors,
                                     .age_usec = clock_monotonic_usec() - e->started_usec,
                                     .memory = child_resident(e->child)};
}

bool query_answered(struct domain *d, const struct control *c)
{
    struct part *p =
        list_empty(&d->priv->queries.parts) ? NULL : container_of(d->priv->queries.parts.next, struct part, of_domain);

    if (!p || p->serial != c->number || !is_sane(p, c)) {
        domain_distrust(d, "an answer to nothing that it was asked");
        return false;
    }
    struct executor_query *q = p->query;
    struct executor_answer a = {.executor = p->executor, .uid = uid_of(d), .error = (int)c->error};
    if (!q) {
        part_free(p);
        return true;
    }
    if (has_report(p->what)) {
        a.lost = c->functions;
        a.report = report_new(p, c->flags);
        if (!a.report)
            a.error = ENOMEM;
    } else {
        a.workers = c->functions;
        if (p->what == ASK_WORKERS)
            a.process = process_of(p->domain, c->slot);
        if (p->what == ASK_WORKERS && !a.error && !tell_workers(p, c->flags)) {
            a.error = EBADMSG;
            domain_distrust(d, "workers that cannot be");
        }
    }
    part_free(p);
    q->answer(q, &a);
    ended(q);
    return true;
}

void query_executor_gone(struct domain *d)
{
    if (d->priv->trace.number && d->priv->executor && d->priv->trace.n_ended < TRACE_ENDED)
        d->priv->trace.ended[d->priv->trace.n_ended] = d->priv->executor->number;
    d->priv->trace.n_ended += d->priv->trace.number != 0;
    while (!list_empty(&d->priv->queries.parts)) {
        struct part *p = container_of(d->priv->queries.parts.next, struct part, of_domain);

        part_fail(p, ESRCH);
        part_free(p);
    }
}

/* --- asking ----------------------------------------------------------------------------------------------------- */

int query_init(struct domain *d)
{
    list_init(&d->priv->queries.parts);
    d->priv->trace.number = d->jobs->executors->trace.number;
    d->priv->trace.by = d->jobs->executors->trace.by;
    d->priv->trace.rate = d->jobs->executors->trace.rate;
    return 0;
}

void query_started(struct domain *d)
{
    if (d->priv->trace.number && part_ask(d, ASK_TRACE_START, d->priv->trace.rate, NULL) < 0)
        log_debug("executor %u cannot be traced", d->priv->executor->number);
}

static void move_parts(struct list *from, struct domain *to)
{
    while (!list_empty(from)) {
        struct part *p = container_of(list_pop_front(from), struct part, of_domain);

        p->domain = to;
        list_push_back(&to->priv->queries.parts, &p->of_domain);
    }
}

void query_swap(struct domain *a, struct domain *b)
{
    struct list between;
    uint32_t n = a->priv->queries.n;

    list_init(&between);
    while (!list_empty(&a->priv->queries.parts))
        list_push_back(&between, list_pop_front(&a->priv->queries.parts));
    move_parts(&b->priv->queries.parts, a);
    move_parts(&between, b);
    a->priv->queries.n = b->priv->queries.n;
    b->priv->queries.n = n;
}

int query_health(struct domain *d)
{
    return part_ask(d, ASK_HEALTH, 0, NULL);
}

/* One executor of many, where there is one. */
static void query_one(struct domain *d, enum control_ask what, uint64_t argument, struct executor_query *q)
{
    if (!d->priv->executor || d->priv->runner)
        return;
    int r = d->priv->distrusted ? -ESRCH : part_ask(d, what, argument, q);
    if (r < 0 && q)
        tell(q, d, d->priv->executor->number, -r);
}

static bool trace_is_free(const struct domain *d)
{
    return !d->priv->trace.number && d->priv->trace.n_reports == 0;
}

static int trace_start(struct jobs *jobs, uint32_t uid, uint32_t rate, struct executor_query *q)
{
    uint32_t number = ++jobs->executors->trace.next ? jobs->executors->trace.next : ++jobs->executors->trace.next;
    struct domain *d;

    if (uid == 0) {
        list_for_each_entry (struct domain, domain, &jobs->domains, link)
            if (!trace_is_free(domain))
                return -EBUSY;
        if (jobs->executors->trace.number)
            return -EBUSY;
        jobs->executors->trace.number = number;
        jobs->executors->trace.by = uid;
        jobs->executors->trace.rate = rate;
    } else {
        if (jobs_owner_uid(jobs, domain_owner(jobs, uid)) != uid)
            return -EACCES; /* this user may not see the jobs of others */
        d = domain_get(jobs, uid);
        if (!d)
            return -ENOMEM;
        if (!trace_is_free(d))
            return -EBUSY;
    }
    list_for_each (l, &jobs->domains) {
        d = container_of(l, struct domain, link);
        if (!is_own(d, uid) || d->successor || d->priv->recycling.standby_of || d->priv->probe)
            continue; /* domains in no table do not last, and a report must not outlive its domain */
        d->priv->trace.number = number;
        d->priv->trace.by = uid;
        d->priv->trace.rate = rate;
        d->priv->trace.n_ended = 0;
        query_one(d, ASK_TRACE_START, rate, q);
    }
    if (!rate && job_trace_start(jobs, number, uid, uid) < 0)
        log_debug("no memory: the trace has executors only");
    q->trace = number;
    return 0;
}

/* Which traces are to end. */
struct meant {
    uint32_t number; /* only the trace with this number; 0: those of this kind that this user may end */
    uint32_t uid, rate;
};

static bool is_meant(uint32_t traced, uint32_t traced_by, uint32_t traced_rate, const struct meant *m)
{
    if (!traced || m->number)
        return traced && traced == m->number;
    return (m->uid == 0 || traced_by == m->uid) && (m->rate != 0) == (traced_rate != 0);
}

static bool is_meant_own(const struct job_trace *t, const void *context)
{
    return is_meant(t->number, t->by, 0, context);
}

/* wsd's part. */
static void stop_own(struct jobs *jobs, const struct meant *meant, struct executor_query *q)
{
    struct job_trace *t;

    while ((t = job_trace_stop(jobs, is_meant_own, meant))) {
        struct executor_answer a = {.uid = t->uid ? t->uid : UINT32_MAX, .lost = t->lost};

        if (!q) {
            job_trace_free(t);
            continue;
        }
        a.report = own_report_new(t);
        if (a.report)
            q->answer(q, &a);
    }
}

static int trace_stop(struct jobs *jobs, const struct meant *meant, struct executor_query *q)
{
    const struct jobs_trace *all = &jobs->executors->trace;
    bool any = is_meant(all->number, all->by, all->rate, meant);

    if (any)
        jobs->executors->trace.number = 0;
    stop_own(jobs, meant, q);
    list_for_each_entry (struct domain, d, &jobs->domains, link) {
        if (!is_meant(d->priv->trace.number, d->priv->trace.by, d->priv->trace.rate, meant))
            continue;
        any = true;
        d->priv->trace.number = 0;
        for (uint32_t i = 0; q && i < d->priv->trace.n_ended; i++)
            tell(q, d, i < TRACE_ENDED ? d->priv->trace.ended[i] : 0, ESRCH);
        d->priv->trace.n_ended = 0;
        if (d->priv->executor)
            query_one(d, q ? ASK_TRACE_STOP : ASK_TRACE_DROP, d->priv->executor->number, q);
    }
    return any ? 0 : -ENOENT;
}

void jobs_trace_drop(struct jobs *jobs, uint32_t number)
{
    if (number)
        (void)trace_stop(jobs, &(struct meant){.number = number}, NULL);
}

uint64_t query_traces(const struct jobs *jobs)
{
    uint64_t n = 0;

    if (jobs->executors->trace.number)
        return 1;
    list_for_each_entry (struct domain, domain, &jobs->domains, link)
        n += domain->priv->trace.number != 0;
    return n;
}

static void set_workers(struct jobs *jobs, uint32_t workers, struct executor_query *q)
{
    jobs->options.workers = workers;
    list_for_each_entry (struct domain, d, &jobs->domains, link) {
        if (!d->priv->settings.workers)
            query_one(d, ASK_SET_WORKERS, workers, q);
    }
}

void jobs_set_workers(struct jobs *jobs, uint32_t workers)
{
    set_workers(jobs, workers, NULL);
}

static int query_all(struct jobs *jobs, uint32_t uid, enum jobs_query what, uint32_t argument, struct executor_query *q)
{
    switch (what) {
    case JOBS_WORKERS:
        list_for_each_entry (struct domain, d, &jobs->domains, link) {
            if (is_own(d, uid) || d->key == domain_owner(jobs, uid))
                query_one(d, ASK_WORKERS, 0, q);
        }
        return 0;
    case JOBS_SET_WORKERS:
        if (argument < 1 || argument > JOBS_WORKERS_MAX)
            return -EINVAL;
        log_event(LOG_KIND_ADMINISTRATOR, LOG_NOTICE, &(struct log_about){.uid = &uid},
                  "executors have %u workers: set by user %u", argument, uid);
        set_workers(jobs, argument, q);
        return 0;
    case JOBS_TRACE_START:
        return trace_start(jobs, uid, argument, q);
    case JOBS_TRACE_STOP:
        return trace_stop(jobs, &(struct meant){.uid = uid, .rate = argument}, q);
    }
    return -EINVAL;
}

/* Before anything is asked. 0 or -ENOMEM. */
static int query_begin(struct jobs *jobs, struct executor_query *q)
{
    struct timeval t = {.tv_sec = JOBS_ASK_USEC / 1000000};

    list_init(&q->parts);
    q->timer = evtimer_new(jobs->options.base, on_timeout, q);
    if (q->timer && evtimer_add(q->timer, &t) == 0)
        return 0;
    if (q->timer)
        event_free(TAKE(q->timer));
    return -ENOMEM;
}

/* r: whether it could be asked, which is returned. */
static int query_asked(struct executor_query *q, int r)
{
    if (r < 0) {
        event_free(TAKE(q->timer));
        return r;
    }
    q->asking = true;
    ended(q);
    return 0;
}

int jobs_query(struct jobs *jobs, uint32_t uid, enum jobs_query what, uint32_t argument, struct executor_query *q)
{
    int r = query_begin(jobs, q);

    return r < 0 ? r : query_asked(q, query_all(jobs, uid, what, argument, q));
}

int jobs_query_stack(struct jobs *jobs, const uint8_t id[16], uint32_t uid, struct executor_query *q)
{
    struct job *job = job_find_shown(jobs, id, uid);

    if (!job)
        return -ENOENT;
    struct domain *d = job->domain;
    if (job_told_state(job) != JOB_RUNNING || !d)
        return -ESRCH;
    if (d->priv->runner)
        return -EOPNOTSUPP;
    if (!d->priv->executor || d->priv->distrusted)
        return -ESRCH;
    if (!is_own(d, uid))
        return -EACCES; /* what a worker helps may be another user's */
    list_for_each_entry (const struct part, p, &d->priv->queries.parts, of_domain)
        if (p->what == ASK_STACK)
            return -EAGAIN; /* each may take a second of a thread that answers other questions, too */
    int r = query_begin(jobs, q);
    return r < 0 ? r : query_asked(q, part_ask_of(d, ASK_STACK, 0, id, q));
}

void jobs_query_hurry(struct executor_query *q)
{
    if (q->asking)
        on_timeout(-1, 0, q);
}

void jobs_query_forget(struct executor_query *q)
{
    if (!q->asking)
        return;
    q->asking = false;
    event_free(TAKE(q->timer));
    while (!list_empty(&q->parts)) {
        struct part *p = container_of(q->parts.next, struct part, of_question);

        p->query = NULL;
        list_remove(&p->of_question);
    }
}
