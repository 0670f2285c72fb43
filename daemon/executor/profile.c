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
#include "host/backtrace.h"
#include "host/run.h"

#define SIGNAL     SIGPROF
#define HEADER     2u /* words of a sample before its frames: their number and its weight, its subject */
#define NAME_MAX_  160u
#define LINE_ROOM  (PROFILE_FRAMES * NAME_MAX_)
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
    struct list ended;   /* those whose thread has ended, with samples that were not read [lock] */
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
    backtrace_write(ask.text, sizeof(ask.text), context);
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

int profile_stack(uint32_t worker, char *text, size_t size)
{
    pid_t tid = tid_of(worker);
    siginfo_t info = {.si_signo = SIGNAL, .si_code = SI_QUEUE};
    const char *state;
    uint32_t asked = (uint32_t)tid;

    if (tid == 0)
        return -ESRCH;
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

/* A sample is n frames | its weight << 16, its subject, and the frames. */
static void take_sample(struct samples *s, uint32_t weight, const void *context)
{
    size_t used = atomic_load_explicit(&s->used, memory_order_relaxed);
    const struct host_job *job = host_current();

    if (!s->words || s->room - used < HEADER + PROFILE_FRAMES) {
        atomic_fetch_add_explicit(&s->lost, weight, memory_order_relaxed);
        return;
    }
    uintptr_t *at = s->words + used;
    size_t n = backtrace_take(at + HEADER, PROFILE_FRAMES, context);
    at[0] = n | (uintptr_t)weight << 16;
    at[1] = (uintptr_t)(job ? job->function : NULL);
    atomic_store_explicit(&s->used, used + HEADER + n, memory_order_release);
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

static int install(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

    sigemptyset(&action.sa_mask);
    return sigaction(SIGNAL, &action, NULL) < 0 ? -errno : 0;
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

/* --- writing ------------------------------------------------------------------------------------------------------ */

struct writer {
    int (*put)(const char *text, size_t size, void *userdata);
    void *userdata;
    const uintptr_t **samples;
    size_t n, room;
    uint64_t lost;
    char line[LINE_ROOM + 64];
    size_t used;
};

static size_t frames_of(const uintptr_t *sample)
{
    return sample[0] & 0xffffu;
}

/* [lock] */
static int gather(struct writer *w, struct list *threads)
{
    list_for_each_entry (struct thread, t, threads, link) {
        size_t used = atomic_load_explicit(&t->samples.used, memory_order_acquire);

        w->lost += atomic_load_explicit(&t->samples.lost, memory_order_relaxed);
        for (size_t at = 0; at < used; at += HEADER + frames_of(t->samples.words + at)) {
            if (w->n == w->room) {
                size_t room = w->room ? 2 * w->room : 1024;
                const uintptr_t **samples = realloc(w->samples, room * sizeof(*samples));

                if (!samples)
                    return -ENOMEM;
                w->samples = samples;
                w->room = room;
            }
            w->samples[w->n++] = t->samples.words + at;
        }
    }
    return 0;
}

/* By subject and frames. */
static int compare(const void *a, const void *b)
{
    const uintptr_t *x = *(const uintptr_t *const *)a, *y = *(const uintptr_t *const *)b;
    size_t n = frames_of(x), m = frames_of(y);

    if (n != m)
        return n < m ? -1 : 1;
    for (size_t i = 1; i < HEADER + n; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static void put_frame(struct writer *w, const char *name)
{
    size_t room = sizeof(w->line) - w->used - 64; /* for the count */
    int n = snprintf(w->line + w->used, room, "%s%s", w->used ? ";" : "", name);

    if (n > 0 && (size_t)n < room)
        w->used += (size_t)n;
}

/* Frames of the engine between two of a job's are one [wsd]; those outside the job's outermost are left out. */
static void put_frames(struct writer *w, const uintptr_t *sample)
{
    size_t n = frames_of(sample);
    bool engine = false, whole = false, any = false;
    char name[NAME_MAX_];

    for (size_t i = 0; i < n && !whole; i++)
        whole = backtrace_name(sample[HEADER + i], name, sizeof(name)) == BACKTRACE_OWN;
    if (n == PROFILE_FRAMES)
        put_frame(w, "[cut off]");
    else if (!whole)
        put_frame(w, "[no unwind table]");
    any = !whole || n == PROFILE_FRAMES;
    for (size_t i = n; i-- > 0;) {
        enum backtrace_where where = backtrace_name(sample[HEADER + i], name, sizeof(name));

        if (where == BACKTRACE_OWN) {
            engine = any;
            continue;
        }
        if (!any && where != BACKTRACE_PLUGIN)
            continue; /* the C library's frames that begin a thread */
        if (engine)
            put_frame(w, "[wsd]");
        engine = false;
        any = true;
        put_frame(w, name);
    }
    if (engine || !any)
        put_frame(w, "[wsd]");
}

static int put_stack(struct writer *w, const uintptr_t *sample, uint64_t count)
{
    char subject[NAME_MAX_] = "[wsd]";

    w->used = 0;
    if (sample[1])
        host_subject_name((const void *)sample[1], subject, sizeof(subject), NULL);
    for (char *c = subject; *c; c++)
        if (*c < 0x20 || *c >= 0x7f || *c == ';')
            *c = '?';
    put_frame(w, subject);
    if (sample[1])
        put_frames(w, sample);
    w->used += (size_t)snprintf(w->line + w->used, 64, " %llu\n", (unsigned long long)count);
    return w->put(w->line, w->used, w->userdata);
}

static int put_all(struct writer *w)
{
    int r = 0;

    if (w->n > 0)
        qsort(w->samples, w->n, sizeof(*w->samples), compare);
    for (size_t i = 0, next; i < w->n && r == 0; i = next) {
        uint64_t count = 0;

        for (next = i; next < w->n && compare(&w->samples[i], &w->samples[next]) == 0; next++)
            count += w->samples[next][0] >> 16;
        r = put_stack(w, w->samples[i], count);
    }
    return r;
}

int profile_write(int (*put)(const char *text, size_t size, void *userdata), void *userdata, uint64_t *ret_lost)
{
    struct writer *w = calloc(1, sizeof(*w));
    int r;

    if (!w)
        return -ENOMEM;
    w->put = put;
    w->userdata = userdata;
    pthread_mutex_lock(&all.lock);
    w->lost = all.lost;
    r = gather(w, &all.threads);
    if (r == 0)
        r = gather(w, &all.ended);
    if (r == 0)
        r = put_all(w);
    pthread_mutex_unlock(&all.lock);
    *ret_lost = w->lost;
    free(w->samples);
    free(w);
    return r;
}
