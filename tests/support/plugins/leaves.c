/* SPDX-License-Identifier: Apache-2.0
 *
 * leaves.c: test plugin: jobs that leave their thread or process other than they found it, and jobs that tell what they
 * found. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <wsd/plugin.h>
#include <wsd/task.h>

static volatile uintptr_t nowhere = 0x1238;

/* --- what a fault needs --- */

static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

static int handlers(struct wsd_job *job, struct wsd_worker *self)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        signal(faults[i], SIG_DFL);
    return 0;
}

static int mask(struct wsd_job *job, struct wsd_worker *self)
{
    sigset_t all;

    sigfillset(&all);
    return pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static int altstack(struct wsd_job *job, struct wsd_worker *self)
{
    const stack_t none = {.ss_flags = SS_DISABLE};

    return sigaltstack(&none, NULL) < 0;
}

static int segv(struct wsd_job *job, struct wsd_worker *self)
{
    *(volatile uint64_t *)nowhere = 1;
    return 0;
}

__attribute__((noinline)) static int deeper(volatile char *above, int depth)
{
    volatile char here[4096];

    here[0] = *above;
    return depth < 0 ? here[0] : deeper(here, depth + 1) + here[0];
}

static int overflow(struct wsd_job *job, struct wsd_worker *self)
{
    char top = 0;

    return deeper(&top, 0);
}

/* No note is left of this one. */
static int unnoted(struct wsd_job *job, struct wsd_worker *self)
{
    handlers(job, self);
    return segv(job, self);
}

/* Computes for 50 ms, and crashes. */
static int works(struct wsd_job *job, struct wsd_worker *self)
{
    for (clock_t end = clock() + CLOCKS_PER_SEC / 20; clock() < end;)
        ;
    return segv(job, self);
}

/* Computes, whatever it is told. */
static int deaf(struct wsd_job *job, struct wsd_worker *self)
{
    while (nowhere)
        ;
    return 0;
}

/* --- the thread --- */

static int thread_exit(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_exit(NULL);
}

static int cancel(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_cancel(pthread_self());
    pthread_testcancel();
    return 0;
}

/* As no library tells of. */
static int thread_gone(struct wsd_job *job, struct wsd_worker *self)
{
    return (int)syscall(SYS_exit, 0);
}

WSD_VOID_TASK_2(gone_child, struct wsd_worker *, parent, atomic_int *, started)
{
    if (self != parent)
        thread_gone(NULL, self);
    atomic_store(started, 1);
}

static int stolen_gone(struct wsd_job *job, struct wsd_worker *self)
{
    atomic_int started = 0;

    WSD_SPAWN(gone_child, self, &started);
    while (!atomic_load(&started) && !wsd_job_cancelled(job))
        ;
    WSD_SYNC(gone_child);
    return 0;
}

WSD_VOID_TASK_2(leaving_child, struct wsd_worker *, parent, atomic_int *, started)
{
    if (self != parent)
        pthread_exit(NULL);
    atomic_store(started, 1);
}

/* Ends the thread of another worker, in a task that it has stolen; needs two workers. */
static int stolen_exit(struct wsd_job *job, struct wsd_worker *self)
{
    atomic_int started = 0;

    WSD_SPAWN(leaving_child, self, &started);
    while (!atomic_load(&started) && !wsd_job_cancelled(job))
        ;
    WSD_SYNC(leaving_child);
    return 0;
}

/* --- the process --- */

static int files(struct wsd_job *job, struct wsd_worker *self)
{
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        ;
    return 0;
}

static int limit(struct wsd_job *job, struct wsd_worker *self)
{
    const struct rlimit few = {4, 4};

    return setrlimit(RLIMIT_NOFILE, &few) < 0;
}

static int space(struct wsd_job *job, struct wsd_worker *self)
{
    const struct rlimit few = {1 << 20, 1 << 20};

    return setrlimit(RLIMIT_AS, &few) < 0;
}

/* NAME: lowers this limit to what nothing here reaches. */
static int lower(struct wsd_job *job, struct wsd_worker *self)
{
    static const struct {
        const char *name;
        __rlimit_resource_t resource;
        rlim_t least;
    } limits[] = {{"NPROC", RLIMIT_NPROC, 500},     {"FSIZE", RLIMIT_FSIZE, 1 << 30},  {"CPU", RLIMIT_CPU, 100000},
                  {"STACK", RLIMIT_STACK, 4 << 20}, {"MEMLOCK", RLIMIT_MEMLOCK, 4096}, {"DATA", RLIMIT_DATA, 1 << 30},
                  {"NOFILE", RLIMIT_NOFILE, 100}};
    struct rlimit limit;

    for (size_t i = 0; job->argc > 1 && i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (strcmp(limits[i].name, job->argv[1]) != 0)
            continue;
        if (getrlimit(limits[i].resource, &limit) < 0)
            return 1;
        limit.rlim_cur = limits[i].least;
        return setrlimit(limits[i].resource, &limit) < 0;
    }
    return 2;
}

/* All that there is, by pieces. */
static int memory(struct wsd_job *job, struct wsd_worker *self)
{
    while (mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        ;
    return 0;
}

#define PIECE (1u << 20)

/* "ok": nothing. FILE: all that there is but two pieces, as long as FILE is missing; and gives it back. */
static int borrows(struct wsd_job *job, struct wsd_worker *self)
{
    void *all = NULL, *next;

    if (strcmp(job->argv[1], "ok") == 0)
        return 0;
    for (void *at; (at = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED;
         all = at)
        memcpy(at, &all, sizeof(all));
    for (int i = 0; all; i++) {
        while (i == 2 && access(job->argv[1], F_OK) != 0)
            usleep(1000);
        memcpy(&next, all, sizeof(next));
        munmap(all, PIECE);
        all = next;
    }
    return 0;
}

static void *idle(void *arg)
{
    for (;;)
        pause();
    return arg;
}

/* As many as there can be. */
static int idlers(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_attr_t small;
    pthread_t t;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    for (int n = 0; n < 2000 && pthread_create(&t, &small, idle, NULL) == 0; n++)
        ;
    pthread_attr_destroy(&small);
    return 0;
}

static int new_umask(struct wsd_job *job, struct wsd_worker *self)
{
    umask(0);
    return 0;
}

static int directory(struct wsd_job *job, struct wsd_worker *self)
{
    return chdir("/tmp") < 0;
}

static int nicer(struct wsd_job *job, struct wsd_worker *self)
{
    return setpriority(PRIO_PROCESS, 0, 19) < 0;
}

static int affinity(struct wsd_job *job, struct wsd_worker *self)
{
    cpu_set_t one, all;
    size_t cpu = 0;

    if (sched_getaffinity(0, sizeof(all), &all) < 0)
        return 1;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof(one), &one) < 0;
}

/* What a job finds: descriptors, umask, directory, nice value, CPUs, and the process. */
static int state(struct wsd_job *job, struct wsd_worker *self)
{
    mode_t was = umask(077);
    struct rlimit n = {0}, as = {0};
    cpu_set_t cpus;
    char here[64] = "";

    umask(was);
    getrlimit(RLIMIT_NOFILE, &n);
    getrlimit(RLIMIT_AS, &as);
    sched_getaffinity(0, sizeof(cpus), &cpus);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return wsd_job_print(job, "files=%s limit=%s space=%s umask=%03o directory=%s nice=%d cpus=%d\n",
                         fd >= 0 ? "yes" : "no", n.rlim_cur > 4 ? "high" : "low",
                         as.rlim_cur > 1 << 20 ? "high" : "low", (unsigned)was, getcwd(here, sizeof(here)),
                         getpriority(PRIO_PROCESS, 0), CPU_COUNT(&cpus)) < 0;
}

/* --- locks of the C library --- */

static int locks(struct wsd_job *job, struct wsd_worker *self)
{
    flockfile(stderr);
    return 0;
}

static void *print_line(void *arg)
{
    fprintf(stderr, "this one has the lock\n");
    return NULL;
}

/* On a thread that has not got it yet. */
static int prints(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_t t;

    return pthread_create(&t, NULL, print_line, NULL) != 0 || pthread_join(t, NULL) != 0;
}

/* --- words --- */

/* N [WHERE]: N lines on stderr, and one on stdout. */
static int says(struct wsd_job *job, struct wsd_worker *self)
{
    int n = job->argc > 1 ? atoi(job->argv[1]) : 1;

    for (int i = 0; i < n; i++) {
        fprintf(stderr, "line %d of nobody\n", i);
        if (i == 0)
            printf("this one is for stdout\n"), fflush(stdout);
    }
    return 0;
}

/* As the C++ library does it. */
static int last_words(struct wsd_job *job, struct wsd_worker *self)
{
    fprintf(stderr,
            "terminate called after throwing an instance of 'std::runtime_error'\n  what():  the moon is no cheese\n");
    abort();
}

/* As abort(), and has nothing to say. */
static int silent(struct wsd_job *job, struct wsd_worker *self)
{
    abort();
}

WSD_TASK_1(long, child, int, n)
{
    return n;
}

static int forgets_sync(struct wsd_job *job, struct wsd_worker *self)
{
    WSD_SPAWN(child, 1);
    return 0;
}

/* --- a thread --- */

static struct {
    _Atomic(struct wsd_job *) job; /* that it writes for */
    pthread_t thread;
    sem_t write;
    bool there;
    pthread_mutex_t turn; /* held by the job that has to do with it: one that waits for a thread gets a spare worker */
} other = {.turn = PTHREAD_MUTEX_INITIALIZER};

static void *write_on(void *arg)
{
    size_t room;

    while (sem_wait(&other.write) < 0)
        ;
    struct wsd_job *job = atomic_load(&other.job);
    char *to = wsd_job_reserve(job, 8, &room);
    if (to)
        memcpy(to, "reserved", 8), wsd_job_commit(job, 8);
    wsd_job_print(job, "not for\nyou\n");
    wsd_job_flush(job);
    wsd_job_progress(job, 77, 99);
    wsd_job_status(job, "not your status");
    wsd_job_log(job, WSD_LOG_ERROR, "not your line");
    (void)wsd_job_fail(job, 3, "not your error");
    return NULL;
}

static int write_c11(void *arg)
{
    write_on(arg);
    return 0;
}

/* Has the thread write that is there, and waits until it has. [turn] */
static int listen_to(struct wsd_job *job)
{
    if (other.there && (sem_post(&other.write) < 0 || pthread_join(other.thread, NULL) != 0))
        return 1;
    other.there = false;
    return wsd_job_print(job, "mine\n") < 0;
}

static int listen_alone(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_mutex_lock(&other.turn);
    int r = listen_to(job);
    pthread_mutex_unlock(&other.turn);
    return r;
}

/* Leaves a thread; the one before it ends. */
static int thread(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_mutex_lock(&other.turn);
    int r = listen_to(job);

    sem_init(&other.write, 0, 0);
    atomic_store(&other.job, job);
    r += job->argc > 1 && strcmp(job->argv[1], "c11") == 0 ? thrd_create(&other.thread, write_c11, NULL) != thrd_success
                                                           : pthread_create(&other.thread, NULL, write_on, NULL) != 0;
    other.there = r == 0;
    pthread_mutex_unlock(&other.turn);
    return r;
}

/* Has made no thread itself, but the one that is there writes for this job. */
static int lend(struct wsd_job *job, struct wsd_worker *self)
{
    atomic_store(&other.job, job);
    return 0;
}

static void *make_thread(void *job)
{
    return (void *)(intptr_t)thread(job, NULL);
}

/* A thread's thread. */
static int grandchild(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_t t;
    void *r;

    return pthread_create(&t, NULL, make_thread, job) != 0 || pthread_join(t, &r) != 0 || r != NULL;
}

static void *write_beside(void *job)
{
    return (void *)(intptr_t)wsd_job_print(job, "from a thread\n");
}

/* One that it waits for: all that it says is the job's. */
static int joined(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_t t;

    return pthread_create(&t, NULL, write_beside, job) != 0 || pthread_join(t, NULL) != 0;
}

static void *write_at_the_end(void *job)
{
    while (!wsd_job_cancelled(job))
        sched_yield();
    wsd_job_print(job, "too late\n");
    return NULL;
}

static void *fault(void *arg)
{
    *(volatile uint64_t *)nowhere = 1;
    return NULL;
}

static sem_t ending;

static void write_on_at_the_end(void *value)
{
    sem_post(&ending);
    write_on(value);
}

static void *write_by_destructor(void *job)
{
    static pthread_key_t key;

    return (void *)(intptr_t)(pthread_key_create(&key, write_on_at_the_end) != 0 || pthread_setspecific(key, job) != 0);
}

/* Leaves a thread that ends, but is kept by a destructor of its key that does not return. */
static int destructor(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_mutex_lock(&other.turn);
    int r = listen_to(job);

    sem_init(&other.write, 0, 0);
    atomic_store(&other.job, job);
    sem_init(&ending, 0, 0);
    r += pthread_create(&other.thread, NULL, write_by_destructor, job) != 0;
    other.there = r == 0;
    while (other.there && sem_wait(&ending) < 0)
        ;
    pthread_mutex_unlock(&other.turn);
    return r;
}

/* Its thread crashes. */
static int thread_segv(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_t t;

    return pthread_create(&t, NULL, fault, NULL) != 0 || pthread_join(t, NULL) != 0;
}

/* Leaves one that says something as soon as the job is over. */
static int at_the_end(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_t t;

    return pthread_create(&t, NULL, write_at_the_end, job) != 0 || pthread_detach(t) != 0 ||
           wsd_job_print(job, "mine\n") < 0;
}

/* --- processes --- */

static _Noreturn void stay(const char *mark)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    prctl(PR_SET_NAME, mark);
    for (;;)
        pause();
}

/* One more, which stays, in a session of its own or not; its parent stays or not. */
static int child_of(bool session, bool orphan, const char *mark)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid < 0 ? -1 : orphan ? waitpid(pid, NULL, 0) > 0 ? 0 : -1 : 0;
    if (session)
        setsid();
    if (orphan && fork() != 0)
        _exit(0);
    stay(mark);
}

/* MARK [stay]: four processes of that name. */
static int family(struct wsd_job *job, struct wsd_worker *self)
{
    if (job->argc < 2)
        return wsd_job_fail(job, 2, "MARK [stay]");
    for (int i = 0; i < 4; i++)
        if (child_of(i & 1, i & 2, job->argv[1]) < 0)
            return wsd_job_fail(job, 1, "no process");
    while (job->argc > 2 && !wsd_job_cancelled(job))
        usleep(1000);
    return 0;
}

/* Leaves a child that has ended and is not waited for. */
static int zombie(struct wsd_job *job, struct wsd_worker *self)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    return pid < 0;
}

#define F(text, what)                                                                                                  \
    {                                                                                                                  \
        .name = text, .help = "leaves something, or tells what there is", .run = what                                  \
    }

static const struct wsd_function functions[] = {
    F("handlers", handlers),
    F("mask", mask),
    F("altstack", altstack),
    F("segv", segv),
    F("overflow", overflow),
    F("unnoted", unnoted),
    F("thread-exit", thread_exit),
    F("cancel", cancel),
    F("stolen-exit", stolen_exit),
    F("thread-gone", thread_gone),
    F("stolen-gone", stolen_gone),
    F("files", files),
    F("limit", limit),
    F("space", space),
    F("lower", lower),
    F("memory", memory),
    F("borrows", borrows),
    F("idlers", idlers),
    F("umask", new_umask),
    F("directory", directory),
    F("nice", nicer),
    F("affinity", affinity),
    F("works", works),
    F("deaf", deaf),
    F("state", state),
    F("says", says),
    F("last-words", last_words),
    F("silent", silent),
    F("forgets-sync", forgets_sync),
    F("thread", thread),
    F("listen", listen_alone),
    F("family", family),
    F("zombie", zombie),
    F("locks", locks),
    F("prints", prints),
    F("lend", lend),
    F("grandchild", grandchild),
    F("joined", joined),
    F("thread-segv", thread_segv),
    F("destructor", destructor),
    F("at-the-end", at_the_end),
};
WSD_PLUGIN(.n_functions = sizeof(functions) / sizeof(*functions), .functions = functions, .name = "leaves",
           .version = "1", .help = "leaves its process other than it found it");
