/* SPDX-License-Identifier: Apache-2.0
 *
 * recover.c: recovers the jobs of an executor that died.
 * Owns nothing. Called once for each death, with the rings still mapped. Other threads of the dying process may still
 * run. So jobs that go back to the queue are taken from the rings first. [loop]
 * Keeps: finished answers are given. Untouched jobs go back to the head of the queue in their order. Only the job that
 * a fault note names is called crashed. Every other job that was running runs again or is interrupted.
 * Does not decide when the next executor starts (lifetime.c). */
#include "domains/recover.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <wsd/plugin.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/answer.h"
#include "domains/arena.h"
#include "domains/bundle.h"
#include "domains/completions.h"
#include "domains/direct-lane.h"
#include "domains/domain.h"
#include "domains/hand-over.h"
#include "domains/job-breaker.h"
#include "domains/lifetime.h"
#include "domains/plugins.h"
#include "domains/query.h"
#include "domains/recycle.h"
#include "domains/reload.h"
#include "domains/requeue.h"
#include "table/arena-use.h"
#include "table/output.h"
#include "table/plugin-names.h"

/* what an executor wrote within this time before its end counts as the direct call's words */
#define DIRECT_USEC 100000u
#define NULL_PAGE   0x1000u /* addresses below this: a NULL pointer that a plugin did not check */

struct death {
    struct fault_note note;
    bool noted;
    const struct job *alone; /* without a note: it died of a fault, and this one was all that ran; NULL */
    int signal;              /* that it died of, with `alone` */
    const char *how;         /* words for it */
};

static void finished_answers(struct domain *d)
{
    struct front_completion c;
    int r;

    /* no more than the ring holds: a child of the executor's may still be there, and write */
    for (uint32_t i = 0; i < RING_COMPLETIONS && !d->priv->distrusted; i++) {
        r = front_next(d->front, &c);
        if (r == FRONT_NONE)
            r = front_next_behind_hole(d->front, &c);
        if (r == FRONT_NONE)
            return;
        if (r == 0)
            domain_complete(d, &c);
    }
}

/* From the last to the first: each split takes back the jobs behind it first, so the order stays. */
static void split_bundles(struct domain *d)
{
    for (struct list *l = d->handed.prev; l != &d->handed;) {
        struct job *job = container_of(l, struct job, link);

        l = l->prev;
        if (!job->bundled)
            continue;
        bundle_split(job);
        l = d->handed.prev;
    }
}

static void words_of_stack(char text[static JOB_TEXT], uint64_t size)
{
    bool whole = size >= UINT64_C(1) << 20 && size % (UINT64_C(1) << 20) == 0;

    snprintf(text, JOB_TEXT,
             "stack overflow: needs more than %" PRIu64 " %s of stack; raise [pool] stack in wsd.conf, or recurse less",
             whole ? size >> 20 : size >> 10, whole ? "MiB" : "KiB");
}

/* The words for a death that fits a lack of memory; whether that was the cause is unknown. */
static void words_of_memory(char text[static JOB_TEXT], const struct domain *d)
{
    size_t n = strlen(text);

    if (d->priv->settings.memory)
        n += (size_t)snprintf(text + n, JOB_TEXT - n, "; perhaps for want of memory: ");
    if (d->priv->settings.memory)
        domain_memory_words(d, text + n, JOB_TEXT - n);
}

/* The words where the kernel has killed it because of its memory. */
static void words_of_end(char text[static JOB_TEXT], const struct domain *d)
{
    size_t n = (size_t)snprintf(text, JOB_TEXT, "out of memory: ");

    if (d->priv->executor->memory == CGROUP_END_LIMIT && d->priv->settings.memory)
        domain_memory_words(d, text + n, JOB_TEXT - n);
    else
        snprintf(text + n, JOB_TEXT - n, "the machine, or a cgroup that wsd is in, had no more");
}

static void log_lines(const struct job *job, const char *text)
{
    const struct log_about about = job_about(job);

    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = strchrnul(text, '\n');
        log_event(LOG_KIND_NONE, LOG_WARNING, &about, "%s:%s: %.*s", plugin_title(job->plugin), job_function(job)->name,
                  (int)MIN(end - text, JOB_TEXT), text);
    }
}

/* The process's last words since the job began, before it ended itself: assert(), a C++ exception, the pool. */
static bool words_of_process(char text[static JOB_TEXT], const struct domain *d, uint64_t since_usec)
{
    size_t n = strlen(text);
    char said[JOB_TEXT];

    executor_last_words(d->priv->executor, since_usec, said, JOB_TEXT - n - 2);
    const char *from = strncmp(said, "wsd: ", 5) == 0 ? said + 5 : said;
    if (*from)
        snprintf(text + n, JOB_TEXT - n, ": %s", from);
    return *from;
}

/* NULL: it is no end of a worker's thread. */
static const char *thread_end(const struct fault_note *n)
{
    return n->signal != 0            ? NULL
           : n->code == FAULT_THREAD ? "pthread_exit() or pthread_cancel()"
           : n->code == FAULT_GONE   ? "the exit system call"
                                     : NULL;
}

static void words_of_fault(char text[static JOB_TEXT], const struct fault_note *n, const struct domain *d,
                           uint64_t since_usec)
{
    bool said = false;

    if (thread_end(n))
        snprintf(text, JOB_TEXT, "ended the thread of its worker (%s)", thread_end(n));
    else if (n->signal == 0)
        snprintf(text, JOB_TEXT, "called exit()");
    else if (n->code == FAULT_STACK)
        words_of_stack(text, n->address);
    else if (n->signal == SIGABRT || n->signal == SIGSYS)
        snprintf(text, JOB_TEXT, "%s", strsignal(n->signal));
    else
        snprintf(text, JOB_TEXT, "%s at address 0x%llx", strsignal(n->signal), (unsigned long long)n->address);
    if (n->signal == SIGABRT || (n->signal == 0 && !thread_end(n)))
        said = words_of_process(text, d, since_usec);
    if ((n->signal == SIGABRT && !said) || (n->signal == SIGSEGV && n->code != FAULT_STACK && n->address < NULL_PAGE))
        words_of_memory(text, d);
}

/* Describes a job that ends with its executor. Its CPU time, if not in the note, is at most the time that it ran, and
 * that of the process. */
static struct front_completion cut_short(const struct job *job, const struct death *death, bool named)
{
    struct executor *e = job->domain->priv->executor;
    struct front_completion c = {.kind = COMPLETION_DONE, .worker = RING_NONE};
    uint64_t now = clock_monotonic_usec();

    (void)front_running_bundle(&e->front, job->slot, &c.started_usec);
    if (c.started_usec > now || c.started_usec < job->accepted_usec) /* not its own */
        c.started_usec = now;
    c.ended_usec = now;
    c.cpu_usec = MIN(e->cpu_usec, now - c.started_usec);
    if (named && death->noted) {
        c.worker = death->note.worker;
        c.cpu_usec = death->note.cpu_usec;
    }
    front_progress(&e->front, job->slot, &c.done, &c.total);
    return c;
}

static void crashed(struct job *job, const struct death *death)
{
    const struct fault_note *n = &death->note;
    const struct log_about about = job_about(job);
    char text[JOB_TEXT];
    uint64_t started;

    (void)front_running_bundle(job->domain->front, job->slot, &started);
    if (death->noted) {
        words_of_fault(text, n, job->domain, started);
    } else {
        snprintf(text, sizeof(text), "%s", strsignal(death->signal));
        (void)words_of_process(text, job->domain, started);
    }
    bool logged = log_event(LOG_KIND_JOB_CRASHED, LOG_WARNING, &about, "%s:%s crashed: %s", plugin_title(job->plugin),
                            job_function(job)->name, text);
    if (death->noted && *n->backtrace && job_more(job)) {
        if (logged)
            log_lines(job, n->backtrace);
        job->more->backtrace = strdup(n->backtrace);
    }
    job_breaker_crashed(job, text);
    const struct front_completion c = cut_short(job, death, true);
    job_finish(job, JOB_CRASHED, CODE_CRASHED, text, &c);
}

/* No thread of the executor begins to write any longer. */
static void look_at_output(struct job *job)
{
    struct job_more *m = job->more;
    struct ring_written written;
    enum ring_output state =
        job->domain->priv->distrusted ? RING_OUTPUT_GIVEN : front_close_output(job->domain->front, job->slot, &written);

    if (state == RING_OUTPUT_GIVEN)
        job->flags |= JOB_DELIVERED;
    if (state != RING_OUTPUT_FILE)
        return;
    m->output_again = true;
    m->output_begin = written.begin;
    m->output_written = written.size;
}

static bool may_run_again(const struct job *job)
{
    return job_function(job)->flags & WSD_FN_IDEMPOTENT &&
           !(job->flags & (JOB_DELIVERED | JOB_CONSUMED | JOB_TRUNCATED)) && job->attempts < JOBS_ATTEMPTS &&
           (!job->more || job->more->stop == STOP_NONE) && !arena_writes(job);
}

static void requeue(struct job *job)
{
    job->flags &= (uint8_t)~JOB_KILLED;
    domain_requeue(job);
}

/* has_slot: the job's own slot was running, so it is not one of several of which any may have run. */
static void was_running(struct job *job, bool has_slot, const struct death *death)
{
    job->domain->priv->useful = true; /* it ends, or has an attempt less */
    arena_died(job);
    if (output_goes_by(job))
        look_at_output(job);
    enum job_stop stop = job->more ? (enum job_stop)job->more->stop : STOP_NONE;
    char text[JOB_TEXT];

    bool named =
        death->noted ? death->note.slot == job->slot && death->note.generation == job->generation : job == death->alone;
    const struct front_completion c = cut_short(job, death, false), *known = has_slot ? &c : NULL;
    if (named && has_slot) {
        crashed(job, death);
    } else if (stop == STOP_TIMEOUT) {
        snprintf(text, sizeof(text), "%s, and it did not heed its cancel flag", job_time_words(job));
        job_finish(job, JOB_TIMED_OUT, CODE_TIMED_OUT, text, known);
    } else if (stop == STOP_CANCEL) {
        job_finish(job, JOB_CANCELLED, CODE_CANCELLED, NULL, known);
    } else if (may_run_again(job)) {
        output_discard(job);
        job->domain->jobs->counters.rerun++;
        requeue(job);
    } else {
        snprintf(text, sizeof(text), "the %s was ended while it ran: %s",
                 job->domain->priv->runner ? "runner" : "executor", death->how);
        job_finish(job, JOB_INTERRUPTED, CODE_INTERRUPTED, text, known);
    }
}

static void classify(struct domain *d, struct job *job, const struct death *death)
{
    struct front_completion c;
    enum ring_state state = d->priv->distrusted                 ? RING_RUNNING
                            : front_recall(d->front, job->slot) ? RING_QUEUED
                                                                : front_autopsy(d->front, job->slot, &c);

    bool has_slot = d->slots[job->slot] == job;
    list_remove(&job->link);
    if (has_slot)
        d->slots[job->slot] = NULL;
    /* a job that has sent output, or was told to stop, had begun, whatever its slot says */
    if (state == RING_QUEUED && !job_received(job) && !(job->more && (job->more->held_chunks || job->more->stop))) {
        job->attempts--; /* it was never touched */
        job->flags &= (uint8_t)~JOB_CONSUMED;
        requeue(job);
        return;
    }
    if (state == RING_DONE) {
        output_absorb(job);
        if (job->flags & JOB_TRUNCATED || output_adds_up(job, &c, c.size)) {
            domain_done(job, &c);
            return;
        }
    }
    was_running(job, has_slot, death);
}

static bool is_fault(int code, int status)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};

    for (size_t i = 0; i < ARRAY_SIZE(faults) && (code == CLD_KILLED || code == CLD_DUMPED); i++)
        if (status == faults[i])
            return true;
    return false;
}

/* For a process that died of a fault without a note, since a job has removed the handler. Returns the one job that ran,
 * or NULL. */
static const struct job *only_job(struct domain *d)
{
    const struct job *one = NULL;
    uint64_t started;

    if (plugin_loading(d) || lanes_running(d))
        return NULL;
    list_for_each_entry (struct job, job, &d->handed, link) {
        if (!front_running(d->front, job->slot, &started))
            continue;
        if (one)
            return NULL;
        one = job;
    }
    return one;
}

/* It died without a note. Where exactly one function was running, and nothing was being loaded, either that function
 * was the cause, or the process was killed by hand. */
static void suspect(struct domain *d, const struct death *death)
{
    struct job *one = NULL;
    uint64_t started;

    if (plugin_loading(d) || lanes_running(d))
        return;
    list_for_each_entry (struct job, job, &d->handed, link) {
        if (!front_running(d->front, job->slot, &started))
            continue;
        if ((job->more && job->more->stop) || (one && job_function(one) != job_function(job)))
            return;
        one = job;
    }
    if (one)
        job_breaker_silent(one, d->priv->only_function != DOMAIN_MIXED, death->how);
}

/* True: the executor was killed for one of its direct calls. */
static bool judge_direct(struct domain *d, const struct death *death)
{
    char text[JOB_TEXT] = "";

    if (death->noted)
        words_of_fault(text, &death->note, d, clock_monotonic_usec() - DIRECT_USEC);
    return lanes_gone(
        d, &(struct lanes_death){.note = death->noted ? &death->note : NULL, .crash = text, .how = death->how});
}

static void describe(char text[static JOB_TEXT], struct domain *d, const struct death *death, int code, int status)
{
    if (death->noted && death->note.slot != RING_NONE)
        snprintf(text, JOB_TEXT, "a job crashed (%s)",
                 thread_end(&death->note)          ? "it ended its worker's thread"
                 : death->note.signal == 0         ? "it called exit()"
                 : death->note.code == FAULT_STACK ? "stack overflow"
                                                   : strsignal(death->note.signal));
    else if (d->priv->executor->memory != CGROUP_END_FINE)
        words_of_end(text, d);
    else if (*d->priv->executor->why)
        snprintf(text, JOB_TEXT, "%s", d->priv->executor->why);
    else if (*d->priv->health.why)
        snprintf(text, JOB_TEXT, "%s", d->priv->health.why);
    else if (d->priv->executor->orphan)
        snprintf(text, JOB_TEXT, "wsd-spawn had ended, which had started it");
    else if (d->priv->executor->killed)
        snprintf(text, JOB_TEXT, "wsd replaced it");
    else if (code == CLD_EXITED)
        snprintf(text, JOB_TEXT, "it exited with %d", status);
    else if (status == SIGKILL) /* no process of wsd's: an administrator, or the kernel for want of memory */
        snprintf(text, JOB_TEXT, "%s, by hand or for want of memory", strsignal(status));
    else
        snprintf(text, JOB_TEXT, "%s", strsignal(status));
}

void recover(struct domain *d, int code, int status)
{
    struct executor *e = d->priv->executor;
    struct death death = {.noted = front_fault(&e->front, &death.note)};
    /* an executor that was not told to end has died, whatever its exit code: a plugin may have called _exit() */
    bool unwanted = d->priv->recycling.standby_of && d->priv->recycling.standby_of->priv->recycling.standby != d;
    bool orderly = (d->priv->finishing && code == CLD_EXITED && status == 0 && !d->n_handed) || unwanted, blame;
    char how[JOB_TEXT];

    describe(how, d, &death, code, status);
    death.how = how;
    if (!orderly) {
        log_event(LOG_KIND_EXECUTOR_ENDED, LOG_WARNING, NULL, "%s %u ended: %s",
                  d->priv->runner ? "runner" : "executor", e->number, how);
        d->jobs->counters.executors_died += !d->priv->runner;
    }
    /* an executor that did not get ready has loaded nothing yet */
    blame = !orderly && e->ready && !(death.noted && death.note.slot != RING_NONE) && !d->priv->distrusted &&
            !d->priv->unconfined && !e->orphan;
    finished_answers(d);
    split_bundles(d);
    if (!orderly && e->ready && !death.noted && !d->priv->distrusted && !d->priv->unconfined && !e->killed &&
        !e->orphan) {
        if (is_fault(code, status) && (death.alone = only_job(d)))
            death.signal = status;
        else
            suspect(d, &death);
    }
    /* from the last handed to the first, each to the head of its queue: so the order stays */
    while (!list_empty(&d->handed)) {
        struct job *job = container_of(d->handed.prev, struct job, link);

        blame = blame && !(job->flags & JOB_KILLED);
        classify(d, job, &death);
    }
    blame = !judge_direct(d, &death) && blame;
    d->jobs->counters.n_handed -= d->n_handed;
    d->n_handed = 0;
    memset(d->slots, 0, sizeof(d->slots));
    query_executor_gone(d);
    arenas_gone(d);
    d->priv->executor = NULL;
    d->front = NULL;
    d->priv->recycling.starved = false; /* the next one is a fresh one */
    d->jobs->counters.n_executors -= !d->priv->runner;
    /* successive deaths without any progress need pauses, and an end. The suspicion of a plugin is progress: it is
     * counted, too. */
    const struct plugin *loading = plugin_loading(d);
    if (d->priv->useful || (blame && loading && !loading->excused))
        d->priv->n_deaths = 0;
    else if (domain_wanted(d) || loading)
        domain_fruitless(d, e);
    plugin_executor_gone(d, blame);
    if (!recycle_gone(d) && !reload_gone(d)) {
        recycle_abandon(d); /* the next one is started now */
        if (domain_wanted(d) && domain_start(d) == 0)
            domain_pump(d);
    }
    executor_free(e); /* to free its memory takes time: the next executor gets ready meanwhile */
}
