/* SPDX-License-Identifier: Apache-2.0
 *
 * child.c: the process of an executor: starts wsd's own, watches and ends any.
 * Owns the process and its pidfd. [loop]
 * Keeps: each process that was started is reaped, and `gone` called at most once for it.
 * Does not know rings, what an executor says, or how the helper starts one (helper.c). */
#include "supervisor/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/descendants.h"
#include "base/log.h"
#include "ring/control.h"
#include "supervisor/identity.h"
#include "supervisor/orphans.h"

/* A child that may write a core is not killed when its note is there: it has to die of the fault by itself. At each
 * look the kernel must be writing the core. */
static const struct timeval core_look = {.tv_sec = 2};
#define CORE_LOOKS 150u /* until it is killed all the same */

/* The threads of a killed process end one after the other, mostly at once. The last one ends when the memory is gone,
 * which may take 100 ms for each GiB. */
static const struct timeval going_look = {.tv_usec = 1000};
#define GOING_LOOKS    100u /* for how it ends: until it is killed, and waited for */
#define THREAD_EXITING 4u   /* PF_EXITING of the kernel, in the flags of proc_pid_stat(5) */
#define STAT_FLAGS     9
#define STAT_STATUS    52 /* as waitpid(2) tells; 0 where the reader may not know */
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL /* Linux 6.9 */
#endif

static struct list remains = {&remains, &remains}; /* wsd's own children that were forgotten */

/* --- wsd's own ---------------------------------------------------------------------------------------------------- */

static int spawn_own(struct child *c, const struct child_options *o)
{
    _cleanup_(freep) char *sandbox = NULL;
    char workers[16];
    struct child_program_arguments a = {0};

    if (asprintf(&sandbox, "memory=%llu,%s", (unsigned long long)o->memory, o->program->sandbox) < 0)
        return -ENOMEM;
    child_program_arguments(o->program, &a);
    char *argv[] = {
        (char[]){"wsd-executor"}, workers, a.argv[0], a.argv[1], a.argv[2], a.argv[3], a.argv[4], sandbox, NULL};
    snprintf(workers, sizeof(workers), "%u", o->workers);
    int fds[SPAWN_FDS + 1] = {[SPAWN_FDS] = o->program->predecessor_fd};
    memcpy(fds, o->fds, sizeof(o->fds));
    int r = child_program_spawn(o->program, fds, SPAWN_FDS + (fds[SPAWN_FDS] >= 0), SPAWN_WORDS, o->program->binary_fd,
                                argv, &c->pid);
    if (r < 0)
        return r;
    c->pidfd = pidfd_open(c->pid, 0);
    return c->pidfd < 0 ? -errno : 0;
}

static bool reap_own(struct child *c, int *ret_code, int *ret_status)
{
    siginfo_t info = {0};

    int r = waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED | WNOHANG);
    if (r < 0 && errno == ECHILD) { /* cannot be; but one that was reaped elsewhere must not count as alive for ever */
        info.si_code = CLD_KILLED;
        info.si_status = SIGKILL;
    } else if (r < 0 || info.si_pid == 0) {
        return false;
    }
    *ret_code = info.si_code;
    *ret_status = info.si_status;
    c->pid = 0;
    return true;
}

static void look_for_core(struct child *c)
{
    /* the number is still its own: it has not been reaped; where it cannot be read, there is a next look */
    if (++c->n_looks < CORE_LOOKS && descendants_status_has(c->pid, "CoreDumping:\t1\n") != 0)
        return;
    log_notice("executor %u leaves no core, and stays: it is killed", c->number);
    child_kill(c);
}

static void kill_own(struct child *c)
{
    kill(c->pid, SIGKILL);
}

static void own_ended(struct child *c)
{
    int code, status;

    if (reap_own(c, &code, &status))
        child_gone(c, code, status);
}

static const struct child_ops own_ops = {.kill = kill_own, .ended = own_ended};

static void on_pid(evutil_socket_t fd, short what, void *userdata)
{
    struct child *c = userdata;

    if (what & EV_TIMEOUT)
        look_for_core(c);
    else
        c->ops->ended(c);
}

/* --- either ------------------------------------------------------------------------------------------------------- */

static void thread_forget(struct child_thread *t)
{
    if (t->event)
        event_free(t->event);
    t->event = NULL;
    t->fd = close_fd(t->fd);
    t->tid = 0;
}

struct child *child_free(struct child *c)
{
    if (!c)
        return NULL;
    list_remove(&c->link);
    identity_forget(c->question);
    if (c->event)
        event_free(c->event);
    if (c->told)
        event_free(c->told);
    thread_forget(&c->threads[0]);
    thread_forget(&c->threads[1]);
    if (c->going_timer)
        event_free(c->going_timer);
    for (size_t i = 0; i < ARRAY_SIZE(c->fds); i++)
        close_fd(c->fds[i]);
    close_fd(c->pidfd);
    cgroup_free(c->cgroup);
    free(c);
    return NULL;
}

void child_gone(struct child *c, int code, int status)
{
    char why[CHILD_WHY];
    const struct child_end end = {.code = code,
                                  .status = status,
                                  .orphan = c->orphan,
                                  .why = why,
                                  .late = c->late,
                                  .memory = cgroup_end(c->cgroup)};
    void (*gone)(const struct child_end *, void *) = c->gone;
    void *context = c->context;

    memcpy(why, c->why, sizeof(why));
    if (!gone && c->number)
        log_debug("executor %u: its process is gone", c->number);
    child_free(c);
    orphans_end();
    if (gone)
        gone(&end, context);
}

uint64_t child_resident(const struct child *c)
{
    unsigned long long all, shared;
    char path[40], text[128];

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)c->pid);
    _cleanup_(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (n <= 0)
        return 0;
    text[n] = 0;
    if (sscanf(text, "%*u %llu %llu", &all, &shared) != 2 || shared > all)
        return 0;
    return (all - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* *ret_status: as waitpid(2) tells; 0: it is not known, or it exits with 0. */
static bool is_going(const struct child *c, int *ret_status)
{
    char path[32], text[1024], *save;
    unsigned long flags = 0;
    int field = 3;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)c->pid);
    _cleanup_(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    text[MAX(n, 0)] = 0;
    char *name = strrchr(text, ')'); /* the process chooses it */
    *ret_status = 0;
    for (char *at = strtok_r(name ? name + 1 : text + MAX(n, 0), " \n", &save); at;
         at = strtok_r(NULL, " \n", &save), field++) {
        if (field == STAT_FLAGS)
            flags = strtoul(at, NULL, 10);
        else if (field == STAT_STATUS)
            *ret_status = atoi(at);
    }
    return flags & THREAD_EXITING;
}

static void watch_threads(struct child *c);

static void on_still_there(evutil_socket_t fd, short what, void *userdata)
{
    struct child *c = userdata;
    int status;

    if (!is_going(c, &status))
        watch_threads(c);
    else if (status == 0 && ++c->n_going < GOING_LOOKS)
        event_add(c->going_timer, &going_look); /* the kernel shows it to us when the thread has given its memory up */
    else if (status == 0)
        /* perhaps only some threads have ended, and no work is done there; of a whole that ends it changes nothing */
        child_kill(c);
    else if (c->gone && c->going && WIFSIGNALED(status))
        c->going(WCOREDUMP(status) ? CLD_DUMPED : CLD_KILLED, WTERMSIG(status), c->context);
    else if (c->gone && c->going)
        c->going(CLD_EXITED, WEXITSTATUS(status), c->context);
}

/* Of a pool that has become smaller, or of a process that ends. */
static void on_thread(evutil_socket_t fd, short what, void *userdata)
{
    struct child_thread *t = userdata;
    struct child *c = t->child;

    thread_forget(t);
    if (!c->going_timer)
        c->going_timer = evtimer_new(event_get_base(c->event), on_still_there, c);
    if (c->going_timer)
        event_add(c->going_timer, &going_look); /* else it is known when it is gone */
}

static void watch_thread(struct child *c, struct child_thread *t, pid_t tid)
{
    struct pollfd alive = {.fd = c->pidfd, .events = POLLIN};

    t->child = c;
    t->tid = tid;
    t->fd = pidfd_open(tid, PIDFD_THREAD);
    /* the helper may have reaped it: its numbers are its own as long as it is alive */
    if (t->fd >= 0 && poll(&alive, 1, 0) == 0)
        t->event = event_new(event_get_base(c->event), t->fd, EV_READ, on_thread, t);
    if (!t->event || event_add(t->event, NULL) < 0)
        thread_forget(t);
}

/* Watches two threads, not the first one: Linux reports that one's end only with that of the process. Where this fails,
 * all is known when the process is gone. */
static void watch_threads(struct child *c)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/%d/task", (int)c->pid);
    DIR *d = opendir(path);
    errno = d ? 0 : errno;
    for (struct dirent *e; d && (e = readdir(d)); errno = 0) {
        struct child_thread *a = &c->threads[0], *b = &c->threads[1];
        pid_t tid = atoi(e->d_name);

        if (tid > 0 && tid != c->pid && tid != a->tid && tid != b->tid && (!a->event || !b->event))
            watch_thread(c, a->event ? b : a, tid);
    }
    if (errno && errno != ENOENT && errno != ESRCH) /* it is not only gone */
        log_notice("executor %u: its threads cannot be listed: %s: that it ends is seen when all of it is gone",
                   c->number, strerror(errno));
    if (d)
        closedir(d);
}

void child_ready(struct child *c)
{
    if (c->event && c->going)
        watch_threads(c);
}

int child_watch(struct child *c, struct event_base *base)
{
    c->event = event_new(base, c->pidfd, EV_READ | EV_PERSIST, on_pid, c);
    return c->event && event_add(c->event, NULL) == 0 ? 0 : -ENOMEM;
}

static int start_own(struct child *c, const struct child_options *o)
{
    int r = o->cgroups ? cgroup_new(o->cgroups, o->number, &o->limits, &c->cgroup) : 0;

    if (r == 0)
        r = spawn_own(c, o);
    if (r == 0)
        r = child_watch(c, o->base);
    if (r == 0 && c->cgroup) /* it is not ready yet, so that nothing was given to it */
        r = cgroup_enter(c->cgroup, c->pid);
    return r;
}

struct child *child_new(const struct child_options *options, const struct child_ops *ops)
{
    struct child *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->ops = ops;
    list_init(&c->link);
    c->pidfd = c->threads[0].fd = c->threads[1].fd = -1;
    for (size_t i = 0; i < ARRAY_SIZE(c->fds); i++)
        c->fds[i] = -1;
    c->number = options->number;
    c->gone = options->gone;
    c->going = options->going;
    c->context = options->context;
    return c;
}

int child_start(struct child **ret_child, const struct child_options *options)
{
    struct child *c = child_new(options, &own_ops);

    if (!c)
        return -ENOMEM;
    int r = start_own(c, options);
    if (r < 0) {
        if (c->pid > 0)
            orphans_bury(c->pid);
        child_free(c);
        return r;
    }
    *ret_child = c;
    return 0;
}

const char *child_lacks(int error)
{
    if (error == -ENOSPC) /* cgroup_new() */
        return ": no more cgroups may be made here; raise cgroup.max.descendants and cgroup.max.depth of wsd's cgroup "
               "and of those above it";
    if (error != -ENOENT) /* the program is open: it is there */
        return "";
    return access("/proc/self/fd", F_OK) < 0 ? ": wsd needs a /proc" : ": the program's dynamic loader";
}

void child_kill(struct child *c)
{
    c->ops->kill(c);
}

pid_t child_pid(const struct child *c)
{
    return c->pid;
}

bool child_orphan(const struct child *c)
{
    return c->orphan;
}

enum cgroup_end child_memory(const struct child *c)
{
    return cgroup_end(c->cgroup);
}

struct child *child_forget(struct child *c, bool writes_core)
{
    if (!c)
        return NULL;
    c->gone = NULL;
    if (!writes_core || !c->event || event_add(c->event, &core_look) < 0)
        child_kill(c);
    if (!c->helper) {
        list_remove(&c->link);
        list_push_back(&remains, &c->link);
    } else if (!c->started) {
        child_free(c);
    }
    return NULL;
}

void child_forget_remains(void)
{
    while (!list_empty(&remains))
        child_free(container_of(remains.next, struct child, link));
    identity_forget_all();
}
