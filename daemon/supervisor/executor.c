/* SPDX-License-Identifier: Apache-2.0
 *
 * executor.c: starts, watches and ends executor processes.
 * Owns the process, its pidfd, the control socket and the rings that go with one life of it. [loop]
 * Keeps: `dead` is called exactly once for each executor that was started: at its fault note, so that nobody waits while
 * the kernel takes it down, or else after it was reaped. Each process that was started is reaped.
 * Does not know jobs, and does not decide whether another one is started. */
#include "supervisor/executor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

#define FD_HIGH       16 /* above every number that the child gets, so that no dup2 tramples on a source */
#define CONTROL_BATCH 64   /* packets taken a wake-up, so that a chatty executor cannot hold the loop */
#define CONTROL_QUEUE 1024 /* above what a socket's buffer holds: all that was there when it was asked for */

#define OUTBOX_MAX    4096 /* packets that wait: an executor that reads none of them is of no use, and must not cost memory */

extern char **environ;

struct packet {
    struct list link;
    int fd;
    struct control c;
};

/* The executor inherits nothing of wsd's environment but what the machine's owner may have set for its runtime. */
static bool environment_passes(const char *entry)
{
    static const char *const names[] = {"PATH=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "TSAN_OPTIONS=", "LSAN_OPTIONS=",
                                        "LD_LIBRARY_PATH=", "MALLOC_"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static char **environment_new(void)
{
    size_t n = 0;

    while (environ[n])
        n++;
    char **ret = calloc(n + 1, sizeof(char *));
    if (!ret)
        return NULL;
    for (size_t i = 0, at = 0; i < n; i++)
        if (environment_passes(environ[i]))
            ret[at++] = environ[i];
    return ret;
}

static int spawn(struct executor *e, const struct executor_options *o, int control_child)
{
    _cleanup_(freep) char **environment = environment_new();
    char binary[32], workers[16], level[16], stack[24];
    char *argv[] = {(char[]){"wsd-executor"}, workers, NULL, o->any_path ? (char[]){"any"} : (char[]){"dirs"}, level,
                    o->pin ? (char[]){"pin"} : (char[]){"free"}, stack, NULL, NULL};
    /* the last one is not inherited, but the child still needs its number to find the program */
    int sources[5] = {e->front.down_fd, e->front.up_fd, e->front.bell_fd, control_child, o->binary_fd};
    int high[5] = {-1, -1, -1, -1, -1};
    _cleanup_(freep) char *dirs = strdup(o->plugin_dirs), *sandbox = strdup(o->sandbox);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int r = 0;

    if (!environment || !dirs || !sandbox)
        return -ENOMEM;
    argv[2] = dirs;
    argv[7] = sandbox;
    snprintf(workers, sizeof(workers), "%u", o->workers);
    snprintf(stack, sizeof(stack), "%llu", (unsigned long long)o->stack_size);
    snprintf(level, sizeof(level), "%d", o->log_level);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    for (int i = 0; i < 5 && r == 0; i++) {
        high[i] = fcntl(sources[i], F_DUPFD_CLOEXEC, FD_HIGH);
        r = high[i] < 0 ? errno : i < 4 ? posix_spawn_file_actions_adddup2(&actions, high[i], CONTROL_FD_DOWN + i) : 0;
    }
    snprintf(binary, sizeof(binary), "/proc/self/fd/%d", high[4]);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (r == 0)
        r = posix_spawn(&e->pid, binary, &actions, &attr, argv, environment);
    for (int i = 0; i < 5; i++)
        close_fd(high[i]);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    if (r != 0) {
        e->pid = 0;
        return -r;
    }
    e->pidfd = pidfd_open(e->pid, 0);
    return e->pidfd < 0 ? -errno : 0;
}

/* What is left of an executor that is not there any more. */
struct remains {
    struct list link;
    struct event *event;
    uint32_t number;
    pid_t pid;
    int pidfd;
    uint32_t n_looks; /* at which it was still there */
};

/* One that may leave a core is not killed when its note is there. So it has to die of the fault by itself: at each look the
 * kernel must be writing the core. */
static const struct timeval core_look = {.tv_sec = 2};
#define CORE_LOOKS 150u /* until it is killed all the same */
static struct list remains = {&remains, &remains};

static struct remains *remains_free(struct remains *r)
{
    list_remove(&r->link);
    if (r->event)
        event_free(r->event);
    close_fd(r->pidfd);
    free(r);
    return NULL;
}

/* The number is still its own: it has not been reaped. */
static bool dumps_core(pid_t pid)
{
    char path[32], line[256];
    bool dumps = false;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && !dumps && fgets(line, sizeof(line), f))
        dumps = strcmp(line, "CoreDumping:\t1\n") == 0;
    if (f)
        fclose(f);
    return dumps;
}

static void on_gone(evutil_socket_t fd, short what, void *userdata)
{
    struct remains *r = userdata;
    siginfo_t info = {0};

    if (what & EV_TIMEOUT && (++r->n_looks >= CORE_LOOKS || !dumps_core(r->pid))) {
        log_notice("executor %u leaves no core, and stays: it is killed", r->number);
        pidfd_send_signal(r->pidfd, SIGKILL, NULL, 0);
    }
    if (waitid(P_PIDFD, (id_t)r->pidfd, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0)
        return;
    log_debug("executor %u: its process is gone", r->number);
    remains_free(r);
}

/* Lets go of a process that was killed. False: no memory. */
static bool bury(struct executor *e)
{
    struct remains *r = e->pid_event ? calloc(1, sizeof(*r)) : NULL;

    if (!r)
        return false;
    list_push_back(&remains, &r->link);
    r->number = e->number;
    r->pid = e->pid;
    r->pidfd = TAKE_FD(e->pidfd);
    r->event = event_new(event_get_base(e->pid_event), r->pidfd, EV_READ | EV_PERSIST, on_gone, r);
    if (!r->event || event_add(r->event, e->leaves_core ? &core_look : NULL) < 0) {
        e->pidfd = TAKE_FD(r->pidfd);
        remains_free(r);
        return false;
    }
    return true;
}

void executor_forget_remains(void)
{
    while (!list_empty(&remains))
        remains_free(container_of(remains.next, struct remains, link));
}

/* It has left its note: whatever the kernel still has to do with it, there is nothing to wait for. */
static void died_of_fault(struct executor *e)
{
    struct fault_note note = {.signal = SIGKILL};

    if (e->dying)
        return;
    e->dying = true;
    if (!e->leaves_core) /* which takes its time, and nobody waits for it */
        kill(e->pid, SIGKILL);
    (void)front_fault(&e->front, &note);
    event_del(e->pid_event);
    event_del(e->bell_event);
    event_del(e->control_event);
    executor_take_control(e); /* what it said last */
    e->ops->dead(e, note.signal ? CLD_KILLED : CLD_EXITED, note.signal, e->context);
}

static void on_bell(evutil_socket_t fd, short what, void *userdata)
{
    struct executor *e = userdata;
    uint64_t n;

    if (read(e->front.bell_fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
        log_debug("eventfd of executor %u: %s", e->number, strerror(errno));
    if (e->pid > 0 && front_dying(&e->front))
        died_of_fault(e);
    else
        e->ops->bell(e, e->context);
}

/* False: nothing more for now, or the executor is ending. */
static bool control_take(struct executor *e)
{
    struct control c;
    int fd = -1, r = control_receive(e->control_fd, &c, &fd);

    close_fd(fd); /* an executor has no descriptor that wsd would want */
    if (r == -EAGAIN || r == -EINTR)
        return false;
    if (r < 0) { /* end of file, or nonsense: either way this life is over; pidfd will say how */
        event_del(e->control_event);
        if (e->pid > 0)
            kill(e->pid, SIGKILL);
        return false;
    }
    if (c.kind == CONTROL_READY) {
        if (!e->ready) {
            e->ready = true;
            e->ops->ready(e, e->context);
        }
    } else {
        e->ops->control(e, &c, e->context);
    }
    return true;
}

static void on_control(evutil_socket_t fd, short what, void *userdata)
{
    for (int i = 0; i < CONTROL_BATCH; i++)
        if (!control_take(userdata))
            return;
}

void executor_take_control(struct executor *e)
{
    for (int i = 0; i < CONTROL_QUEUE && control_take(e); i++)
        ;
}

static void outbox_flush(struct executor *e)
{
    while (!list_empty(&e->outbox)) {
        struct packet *p = container_of(e->outbox.next, struct packet, link);
        int r = control_send(e->control_fd, &p->c, p->fd);

        if (r == -EAGAIN)
            return;
        list_remove(&p->link);
        e->n_outbox--;
        close_fd(p->fd);
        free(p);
    }
    event_del(e->control_write_event);
}

static void on_control_writable(evutil_socket_t fd, short what, void *userdata)
{
    outbox_flush(userdata);
}

static void on_pid(evutil_socket_t fd, short what, void *userdata)
{
    struct executor *e = userdata;
    siginfo_t info = {0};

    if (waitid(P_PIDFD, (id_t)e->pidfd, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0)
        return;
    e->pid = 0;
    event_del(e->pid_event);
    executor_take_control(e); /* what it said last */
    e->ops->dead(e, info.si_code, info.si_status, e->context);
}

static int watch(struct executor *e, struct event_base *base)
{
    e->pid_event = event_new(base, e->pidfd, EV_READ | EV_PERSIST, on_pid, e);
    e->bell_event = event_new(base, e->front.bell_fd, EV_READ | EV_PERSIST, on_bell, e);
    e->control_event = event_new(base, e->control_fd, EV_READ | EV_PERSIST, on_control, e);
    e->control_write_event = event_new(base, e->control_fd, EV_WRITE | EV_PERSIST, on_control_writable, e);
    if (!e->pid_event || !e->bell_event || !e->control_event || !e->control_write_event)
        return -ENOMEM;
    if (event_add(e->pid_event, NULL) < 0 || event_add(e->bell_event, NULL) < 0 ||
        event_add(e->control_event, NULL) < 0)
        return -ENOMEM;
    return 0;
}

int executor_new(struct executor **ret_executor, const struct executor_options *options)
{
    struct executor *e = calloc(1, sizeof(*e));
    _cleanup_(close_fdp) int child = -1;
    int pair[2];

    if (!e)
        return -ENOMEM;
    e->pidfd = e->control_fd = -1;
    e->number = options->number;
    e->leaves_core = options->leaves_core;
    e->ops = options->ops;
    e->context = options->context;
    list_init(&e->outbox);
    int r = front_init(&e->front);
    if (r >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        r = -errno;
    if (r >= 0) {
        e->control_fd = pair[0];
        child = pair[1];
        /* ours must never block the loop; the executor's end may block its thread */
        if (fcntl(e->control_fd, F_SETFL, O_NONBLOCK) < 0)
            r = -errno;
    }
    if (r >= 0)
        r = spawn(e, options, child);
    if (r >= 0)
        r = watch(e, options->base);
    if (r < 0) {
        executor_free(e);
        return r;
    }
    *ret_executor = e;
    return 0;
}

static void event_free_null(struct event *event)
{
    if (event)
        event_free(event);
}

struct executor *executor_free(struct executor *e)
{
    if (!e)
        return NULL;
    for (struct list *l; (l = list_pop_front(&e->outbox));) {
        struct packet *p = container_of(l, struct packet, link);

        close_fd(p->fd);
        free(p);
    }
    if (e->pid > 0) {
        if (!(e->dying && e->leaves_core))
            kill(e->pid, SIGKILL);
        if (!bury(e))
            waitpid(e->pid, NULL, 0);
    }
    event_free_null(e->pid_event);
    event_free_null(e->bell_event);
    event_free_null(e->control_event);
    event_free_null(e->control_write_event);
    close_fd(e->pidfd);
    close_fd(e->control_fd);
    if (e->front.up)
        front_deinit(&e->front);
    free(e);
    return NULL;
}

void executor_kill(struct executor *e)
{
    e->killed = true;
    if (e->pid > 0)
        kill(e->pid, SIGKILL);
}

void executor_finish(struct executor *e)
{
    struct control c = {.kind = CONTROL_FINISH};

    executor_send(e, &c, -1);
}

int executor_send(struct executor *e, const struct control *c, int fd)
{
    if (list_empty(&e->outbox)) {
        int r = control_send(e->control_fd, c, fd);

        if (r != -EAGAIN)
            return r;
    }
    if (e->n_outbox >= OUTBOX_MAX) {
        if (!e->killed)
            log_warning("executor %u does not read what it is told: it is replaced", e->number);
        executor_kill(e);
        return -ENOBUFS;
    }
    struct packet *p = malloc(offsetof(struct packet, c) + CONTROL_HEADER + c->text_size);
    if (!p)
        return -ENOMEM;
    memcpy(&p->c, c, CONTROL_HEADER + c->text_size);
    p->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0 && p->fd < 0) {
        int r = -errno;

        free(p);
        return r;
    }
    list_push_back(&e->outbox, &p->link);
    e->n_outbox++;
    if (event_add(e->control_write_event, NULL) == 0)
        return 0;
    executor_kill(e); /* what waits would wait for ever */
    return -ENOMEM;
}
