/* SPDX-License-Identifier: Apache-2.0
 *
 * profile.c: samples of the workers' stacks.
 * Owns SIGPROF and a timer for each sampled thread, and the samples: a buffer a thread, which its own handler fills and
 * the control thread reads.
 * Keeps: the handler allocates nothing, takes no lock and loses no errno. A sample that finds no room is counted. Where
 * samples are not taken, no thread has a timer.
 * Does not sample threads that plugins make, or guests. */
#include "executor/profile.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/ticks.h"
#include "host/backtrace.h"
#include "host/run.h"
#include "pool/trace.h"

#define SIGNAL     SIGPROF
#define STACK_TEXT 8192u
/* Of a thread's CPU time: what pthread_getcpuclockid() makes of the thread itself. */
#define THREAD_CLOCK(tid) ((clockid_t)(~(unsigned)(tid) << 3 | 6u))

/* One worker's samples. Kept for the life of the process: a new thread of the same worker takes them over. */
struct samples {
    size_t room;           /* words [lock; const while a timer runs] */
    _Atomic size_t used;   /* words [atomic: the thread's release; acquire by the reader] */
    _Atomic uint64_t lost; /* [atomic: relaxed] */
    uintptr_t *words;      /* NULL: no memory yet */
};

struct thread {
    struct list link;
    uint32_t worker;
    pid_t tid;
    bool timed; /* it has a timer */
    timer_t timer;
    struct samples samples;
};

static struct {
    pthread_mutex_t lock;
    struct list threads; /* [lock] */
    struct list ended;   /* those of threads that have ended, with samples that were not read [lock] */
    uint32_t rate;       /* 0: off [lock] */
    bool there;          /* [control thread] */
    uint64_t lost;       /* of threads that could not be sampled [lock] */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct thread *mine __attribute__((tls_model("initial-exec")));

/* --- where one worker stands -------------------------------------------------------------------------------------- */

#define NO_THREAD 0u
#define WRITING   UINT32_MAX

static struct {
    /* the number of the thread that is asked, NO_THREAD, or WRITING [atomic: acq_rel RMW, between asker and asked] */
    _Atomic uint32_t state;
    sem_t written;
    char text[STACK_TEXT];
} ask;

static void tell_stack(const void *context)
{
    uint32_t asked = (uint32_t)mine->tid;

    if (!atomic_compare_exchange_strong_explicit(&ask.state, &asked, WRITING, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return;
    backtrace_stack(ask.text, sizeof(ask.text), context);
    sem_post(&ask.written);
}

static bool wait_written(void)
{
    struct timespec t;
    int r;

    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += PROFILE_STACK_WAIT / 1000000000u;
    do
        r = sem_timedwait(&ask.written, &t);
    while (r < 0 && errno == EINTR);
    return r == 0;
}

static pid_t tid_of(uint32_t worker)
{
    pid_t tid = 0;

    pthread_mutex_lock(&all.lock);
    list_for_each_entry (const struct thread, t, &all.threads, link)
        if (t->worker == worker)
            tid = t->tid;
    pthread_mutex_unlock(&all.lock);
    return tid;
}

static const char *state_words(pid_t tid)
{
    char path[64], text[512], state = '?';
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
    f = fopen(path, "re");
    const char *at = f && fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
    if (at)
        sscanf(at, ") %c", &state);
    if (f)
        fclose(f);
    return state == 'R' ? "it runs" : state == 'S' ? "it sleeps" : state == 'D' ? "it waits in the kernel" : "";
}

static void on_signal(int number, siginfo_t *info, void *context);

static int install(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

    sigemptyset(&action.sa_mask);
    return sigaction(SIGNAL, &action, NULL) < 0 ? -errno : 0;
}

int profile_stack(uint32_t worker, char *text, size_t size)
{
    pid_t tid = tid_of(worker);
    siginfo_t info = {.si_signo = SIGNAL, .si_code = SI_QUEUE};
    const char *state;
    uint32_t asked = (uint32_t)tid;

    if (tid == 0)
        return -ESRCH;
    int r = install(); /* a job may have put its own there, or the default, which ends the process */
    if (r < 0)
        return r;
    state = state_words(tid);
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = &ask;
    atomic_store_explicit(&ask.state, asked, memory_order_release);
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, SIGNAL, &info) < 0) {
        atomic_store_explicit(&ask.state, NO_THREAD, memory_order_release);
        return -errno;
    }
    if (!wait_written() && atomic_compare_exchange_strong_explicit(&ask.state, &asked, NO_THREAD, memory_order_acq_rel,
                                                                   memory_order_relaxed))
        return -ETIMEDOUT;
    /* else it has begun to write: that ends soon */
    if (asked == WRITING)
        while (sem_wait(&ask.written) < 0)
            ;
    snprintf(text, size, "worker %u%s%s:\n%s", worker, *state ? ", " : "", state, ask.text);
    atomic_store_explicit(&ask.state, NO_THREAD, memory_order_release);
    return 0;
}

/* --- samples ------------------------------------------------------------------------------------------------------ */

static void take_sample(struct samples *s, uint32_t weight, const void *context)
{
    size_t used = atomic_load_explicit(&s->used, memory_order_relaxed);
    struct pool_standing standing = {.victim = TRACE_NOBODY};
    const struct host_job *job = host_current();

    if (!s->words || s->room - used < SAMPLE_FRAMES + PROFILE_FRAMES) {
        atomic_fetch_add_explicit(&s->lost, weight, memory_order_relaxed);
        return;
    }
    uintptr_t *at = s->words + used;
    size_t n = backtrace_take(at + SAMPLE_FRAMES, PROFILE_FRAMES, context);
    pool_standing(&standing);
    at[SAMPLE_SIZE] = n | (uintptr_t)weight << 16;
    at[SAMPLE_SUBJECT] = (uintptr_t)(job ? job->function : NULL);
    at[SAMPLE_TICKS] = ticks_now();
    at[SAMPLE_ORIGIN] = standing.origin;
    at[SAMPLE_VICTIM] = standing.victim;
    at[SAMPLE_VICTIM_ORIGIN] = standing.victim_origin;
    at[SAMPLE_SINCE] = standing.since;
    atomic_store_explicit(&s->used, used + SAMPLE_FRAMES + n, memory_order_release);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    int error = errno;

    if (info->si_code == SI_TIMER && mine && info->si_value.sival_ptr == mine)
        take_sample(&mine->samples, 1 + (uint32_t)MIN(MAX(info->si_overrun, 0), 4096), context);
    else if (info->si_code == SI_QUEUE && mine && info->si_pid == getpid() && info->si_value.sival_ptr == &ask)
        tell_stack(context);
    errno = error;
}

/* --- timers ------------------------------------------------------------------------------------------------------- */

static uint32_t n_threads(void)
{
    uint32_t n = 0;

    list_for_each_entry (const struct thread, t, &all.threads, link)
        n += t->tid != 0;
    return n;
}

/* Memory that is only touched as far as it is used. [lock] */
static int samples_make(struct samples *s)
{
    size_t bytes = MIN(MAX(PROFILE_BYTES_ALL / MAX(n_threads(), 1u), PROFILE_BYTES_MIN), PROFILE_BYTES);

    if (s->words)
        return 0;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return -ENOMEM;
    s->room = bytes / sizeof(*s->words);
    s->words = map;
    return 0;
}

static void samples_drop(struct samples *s)
{
    if (s->words)
        munmap(s->words, s->room * sizeof(*s->words));
    s->words = NULL;
    s->room = 0;
    atomic_store_explicit(&s->used, 0, memory_order_relaxed);
    atomic_store_explicit(&s->lost, 0, memory_order_relaxed);
}

/* [lock] */
static int thread_arm(struct thread *t)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGNAL, .sigev_value.sival_ptr = t};
    uint64_t period = 1000000000u / all.rate;
    struct itimerspec every = {
        .it_interval = {.tv_sec = (time_t)(period / 1000000000u), .tv_nsec = (long)(period % 1000000000u)}};
    int r = samples_make(&t->samples);

    if (r < 0)
        return r;
    event._sigev_un._tid = t->tid;
    if (timer_create(THREAD_CLOCK(t->tid), &event, &t->timer) < 0)
        return -errno;
    every.it_value = every.it_interval;
    if (timer_settime(t->timer, 0, &every, NULL) < 0) {
        r = -errno;
        timer_delete(t->timer);
        return r;
    }
    t->timed = true;
    return 0;
}

/* [lock] */
static void thread_disarm(struct thread *t)
{
    if (t->timed)
        timer_delete(t->timer);
    t->timed = false;
}

static void thread_free(struct thread *t)
{
    samples_drop(&t->samples);
    list_remove(&t->link);
    free(t);
}

int profile_init(void)
{
    list_init(&all.threads);
    list_init(&all.ended);
    sem_init(&ask.written, 0, 0);
    return install();
}

void profile_thread_begin(uint32_t worker)
{
    struct thread *t = calloc(1, sizeof(*t));
    sigset_t set;

    if (!t)
        return; /* this worker is not sampled */
    t->worker = worker;
    t->tid = gettid();
    pthread_mutex_lock(&all.lock);
    mine = t;
    list_push_back(&all.threads, &t->link);
    if (all.rate && thread_arm(t) < 0)
        all.lost++;
    pthread_mutex_unlock(&all.lock);
    sigemptyset(&set);
    sigaddset(&set, SIGNAL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void profile_thread_end(void)
{
    struct thread *t = mine;
    sigset_t set;

    if (!t)
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGNAL);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    mine = NULL;
    pthread_mutex_lock(&all.lock);
    thread_disarm(t);
    list_remove(&t->link);
    list_push_back(&all.ended, &t->link);
    if (!all.rate)
        thread_free(t);
    pthread_mutex_unlock(&all.lock);
}

int profile_start(uint32_t rate)
{
    int r;

    if (rate < 1 || rate > PROFILE_RATE_MAX)
        return -EINVAL;
    profile_forget();
    r = install(); /* a job may have put its own there */
    if (r < 0)
        return r;
    pthread_mutex_lock(&all.lock);
    all.rate = rate;
    list_for_each_entry (struct thread, t, &all.threads, link)
        if (r == 0)
            r = thread_arm(t);
    pthread_mutex_unlock(&all.lock);
    all.there = r == 0;
    if (r < 0)
        profile_forget();
    return r;
}

void profile_stop(void)
{
    pthread_mutex_lock(&all.lock);
    all.rate = 0;
    list_for_each_entry (struct thread, t, &all.threads, link)
        thread_disarm(t);
    pthread_mutex_unlock(&all.lock);
}

bool profile_is_there(void)
{
    return all.there;
}

/* A handler that began before its timer was deleted may still write: into memory that stays. */
static void samples_forget(struct samples *s)
{
    if (s->words)
        madvise(s->words, s->room * sizeof(*s->words), MADV_DONTNEED);
    atomic_store_explicit(&s->used, 0, memory_order_relaxed);
    atomic_store_explicit(&s->lost, 0, memory_order_relaxed);
}

void profile_forget(void)
{
    profile_stop();
    pthread_mutex_lock(&all.lock);
    while (!list_empty(&all.ended))
        thread_free(container_of(all.ended.next, struct thread, link));
    list_for_each_entry (struct thread, t, &all.threads, link)
        samples_forget(&t->samples);
    all.lost = 0;
    pthread_mutex_unlock(&all.lock);
    all.there = false;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* [lock] */
static int read_all(const struct list *threads, int (*each)(const uintptr_t *sample, uint32_t worker, void *userdata),
                    void *userdata, uint64_t *lost)
{
    int r = 0;

    for (const struct list *l = threads->next; l != threads && r == 0; l = l->next) {
        const struct thread *t = container_of(l, struct thread, link);
        size_t used = atomic_load_explicit(&t->samples.used, memory_order_acquire);

        *lost += atomic_load_explicit(&t->samples.lost, memory_order_relaxed);
        for (size_t at = 0; at < used && r == 0; at += SAMPLE_FRAMES + sample_frames(t->samples.words + at))
            r = each(t->samples.words + at, t->worker, userdata);
    }
    return r;
}

int profile_read(int (*each)(const uintptr_t *sample, uint32_t worker, void *userdata), void *userdata,
                 uint64_t *ret_lost)
{
    uint64_t lost;

    pthread_mutex_lock(&all.lock);
    lost = all.lost;
    int r = read_all(&all.threads, each, userdata, &lost);
    if (r == 0)
        r = read_all(&all.ended, each, userdata, &lost);
    pthread_mutex_unlock(&all.lock);
    *ret_lost = lost;
    return r;
}
