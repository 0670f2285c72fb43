/* SPDX-License-Identifier: Apache-2.0
 *
 * query.c: answers wsd's questions about the pool: counters, number of workers, traces, profiles, stacks.
 * Owns nothing. [control thread]
 * Keeps: one answer a question, after what it asked for has been done; nothing is written beyond the descriptor's size.
 * Does not check the right to ask: wsd does. */
#include "executor/query.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "executor/fault.h"
#include "executor/guard.h"
#include "executor/profile-text.h"
#include "executor/profile.h"
#include "pool/trace.h"

#define DESCRIPTORS_MAX     65536u /* that are counted */
#define DESCRIPTORS_AT_ONCE 512u
#define STACK_TEXT          16384u   /* of one worker */
#define STACKS_USEC         1000000u /* for all workers of a job: wsd waits for other answers of this thread, too */

struct file {
    int fd;
    uint64_t at, room;
};

static int file_put(const void *data, size_t size, struct file *f)
{
    size_t done = 0;

    if (size > f->room - f->at)
        return -ENOSPC;
    while (done < size) {
        ssize_t n = pwrite(f->fd, (const char *)data + done, size - done, (off_t)(f->at + done));

        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    f->at += size;
    return 0;
}

static int put_text(const char *text, size_t size, void *userdata)
{
    return file_put(text, size, userdata);
}

static int tell_workers(struct pool *pool, struct file *f)
{
    uint32_t n = MIN(pool_workers_seen(pool), CONTROL_WORKERS_MAX);
    int r = 0;

    _Static_assert((int)CONTROL_WORKER == POOL_WORKER && (int)CONTROL_RETIRED == POOL_RETIRED &&
                       (int)CONTROL_GUEST == POOL_GUEST,
                   "said as they are");
    for (uint32_t i = 0; i < n && r == 0; i++) {
        struct control_worker w = {.index = i, .kind = (uint32_t)pool_worker_kind(pool, i)};
        struct pool_counters count;

        pool_worker_counters(pool, i, &count);
        w.cpu = (uint32_t)(pool_worker_cpu(pool, i) + 1);
#define COUNTER_(name) w.counters[CONTROL_COUNT_##name] = count.name;
        CONTROL_COUNTERS(COUNTER_)
#undef COUNTER_
        r = file_put(&w, sizeof(w), f);
    }
    return r;
}

/* The sandbox lets it not see /proc. The first ones are asked for one by one; a call of poll(2) looks at many of the
 * others, but not at those of O_PATH. */
static uint32_t count_descriptors(void)
{
    struct pollfd some[DESCRIPTORS_AT_ONCE];
    struct rlimit limit = {0};
    uint32_t n = 0;

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    const uint32_t max = (uint32_t)MIN(limit.rlim_cur, (rlim_t)DESCRIPTORS_MAX);
    for (uint32_t fd = 0; fd < MIN(max, DESCRIPTORS_AT_ONCE); fd++)
        n += fcntl((int)fd, F_GETFD) >= 0;
    for (uint32_t fd = DESCRIPTORS_AT_ONCE; fd < max; fd += DESCRIPTORS_AT_ONCE) {
        const uint32_t n_some = MIN(max - fd, DESCRIPTORS_AT_ONCE);

        for (uint32_t i = 0; i < n_some; i++)
            some[i] = (struct pollfd){.fd = (int)(fd + i)};
        if (poll(some, n_some, 0) < 0)
            return 0;
        for (uint32_t i = 0; i < n_some; i++)
            n += !(some[i].revents & POLLNVAL);
    }
    return n;
}

static int start_trace(struct pool *pool, uint64_t rate)
{
    /* one of the other kind may be left: its end was not asked for */
    if (rate) {
        pool_trace_forget(pool);
        return profile_start((uint32_t)MIN(rate, (uint64_t)UINT32_MAX));
    }
    profile_forget();
    pool_trace_start(pool);
    return 0;
}

static int stop_trace(struct pool *pool, uint32_t executor, struct file *f, struct control *answer)
{
    struct pool_trace_output out = {.number = executor, .put = put_text, .userdata = f};
    uint64_t lost = 0;
    int r;

    if (profile_is_there()) {
        profile_stop();
        r = profile_text(put_text, f, &lost);
        profile_forget();
    } else {
        pool_trace_stop(pool);
        r = pool_trace_write(pool, &out, &lost);
        pool_trace_forget(pool);
    }
    answer->functions = (uint32_t)MIN(lost, (uint64_t)UINT32_MAX);
    return r;
}

/* Whether 32 hexadecimal digits are this id. */
static bool is_id(const char *text, const uint64_t id[2])
{
    uint8_t bytes[16];
    char own[33];

    memcpy(bytes, id, sizeof(bytes));
    for (int i = 0; i < 16; i++)
        snprintf(own + 2 * i, 3, "%02x", bytes[i]);
    return strcmp(text, own) == 0;
}

/* Where each worker stands that runs a part of this job. */
static int tell_stacks(struct pool *pool, const char *id, struct file *f)
{
    const uint64_t until = clock_monotonic_usec() + STACKS_USEC;
    uint32_t n = pool_workers_seen(pool), told = 0;
    char text[STACK_TEXT];
    int r = 0;

    for (uint32_t i = 0; i < n && r == 0; i++) {
        struct pool_subject subject;

        pool_worker_subject(pool, i, &subject);
        if (!subject.name || !is_id(id, subject.id))
            continue;
        r = clock_monotonic_usec() < until ? profile_stack(i, text, sizeof(text)) : -EAGAIN;
        if (r == -EAGAIN)
            snprintf(text, sizeof(text), "worker %u was not asked: those before it did not answer in time\n", i);
        else if (r == -ETIMEDOUT)
            snprintf(text, sizeof(text), "worker %u does not say: it blocks SIGPROF, or is stuck in the kernel\n", i);
        else if (r == -ESRCH)
            snprintf(text, sizeof(text), "worker %u is an outside thread, which is not asked\n", i);
        r = r == 0 || r == -EAGAIN || r == -ETIMEDOUT || r == -ESRCH ? file_put(text, strlen(text), f) : r;
        told++;
    }
    return r == 0 && told == 0 ? -ENOENT : r;
}

static int do_ask(struct pool *pool, const struct control *ask, struct file *f, struct control *answer)
{
    sigset_t before;
    int r = 0;

    switch (ask->functions) {
    case ASK_WORKERS:
        r = tell_workers(pool, f);
        answer->slot = count_descriptors();
        answer->slot -= answer->slot > 0; /* without that of the question */
        break;
    case ASK_SET_WORKERS:
        fault_block_signals(&before);
        r = pool_set_workers(pool, (uint32_t)MIN(ask->flags, (uint64_t)UINT32_MAX));
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        break;
    case ASK_TRACE_START:
        r = start_trace(pool, ask->flags);
        break;
    case ASK_TRACE_STOP:
        return stop_trace(pool, (uint32_t)ask->flags, f, answer);
    case ASK_TRACE_DROP:
        profile_forget();
        pool_trace_forget(pool);
        break;
    case ASK_STACK:
        return tell_stacks(pool, ask->text, f);
    case ASK_HEALTH:
        pool_look(pool);
        guard_health();
        break;
    default:
        return -EINVAL;
    }
    answer->functions = pool_workers(pool);
    return r;
}

int ask_answer(struct pool *pool, int control_fd, const struct control *ask, int fd)
{
    struct control answer = {.kind = CONTROL_ASKED, .number = ask->number};
    struct file f = {.fd = fd};
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0)
        f.room = (uint64_t)st.st_size;
    int r = do_ask(pool, ask, &f, &answer);
    answer.error = (uint32_t)-r;
    answer.flags = f.at;
    return control_send(control_fd, &answer, -1);
}
