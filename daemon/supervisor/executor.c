/* SPDX-License-Identifier: Apache-2.0
 *
 * executor.c: starts, watches and ends executor processes.
 * Owns the control socket and the rings of one executor; its process is child.c's. [loop]
 * Keeps: `dead` is called exactly once for each executor that was started. It comes at its fault note; or when its end
 * has begun and takes time, so that nothing waits while the kernel ends it; else after it was reaped. It comes only
 * when nothing is left of the commands that the executor had started.
 * Does not know jobs, and does not decide whether another one is started. */
#include "supervisor/executor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/async-close.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "far-end/far-end.h"
#include "supervisor/child.h"
#include "supervisor/helper.h"
#include "supervisor/orphans.h"

#define CONTROL_BATCH 64   /* packets taken a wake-up, so that a chatty executor cannot hold the loop */
#define CONTROL_QUEUE 1024 /* above what a socket's buffer holds: all that was there when it was asked for */

/* packets that wait: an executor that reads none of them is of no use, and must not cost memory */
#define OUTBOX_MAX 4096

struct packet {
    struct list link;
    int fd;
    struct control c;
};

static bool control_take(struct executor *e);

static void tell_dead(void *context)
{
    struct executor *e = context;

    orphans_end(); /* after the end of its reapers, so that no process is one */
    e->ops->dead(e, e->code, e->status, e->context);
}

/* Takes its last packets first: they may report a reaper that wsd did not know of. */
static void last_packets(struct executor *e)
{
    while (e->n_last < CONTROL_QUEUE && control_take(e))
        e->n_last++;
    if (e->n_last < CONTROL_QUEUE && !executor_hears(e))
        return; /* on_ready() comes back */
    e->heard = true;
    if (remains_end(&e->remains))
        tell_dead(e);
}

static void executor_ends(struct executor *e, int code, int status)
{
    e->dying = true;
    event_del(e->bell_event);
    event_del(e->control_event);
    e->code = code;
    e->status = status;
    last_packets(e);
}

static void note_cpu(struct executor *e)
{
    struct timespec t;
    clockid_t clock;

    if (e->child && child_pid(e->child) && clock_getcpuclockid(child_pid(e->child), &clock) == 0 &&
        clock_gettime(clock, &t) == 0)
        e->cpu_usec = (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Reports its end: how it ends is known, so nothing waits for the kernel to finish. */
static void executor_dies(struct executor *e, int code, int status)
{
    if (e->dying)
        return;
    note_cpu(e);
    if (!e->leaves_core) /* which takes its time, and nothing waits for it */
        child_kill(e->child);
    executor_ends(e, code, status);
}

/* By its note. */
static void dies_noted(struct executor *e)
{
    struct fault_note note = {.signal = SIGKILL}; /* one that cannot be read is a lie: what follows is that */

    (void)front_fault(&e->front, &note);
    executor_dies(e, note.signal ? CLD_KILLED : CLD_EXITED, note.signal);
}

static void on_bell(evutil_socket_t fd, short what, void *userdata)
{
    struct executor *e = userdata;

    if (e->child && front_dying(&e->front))
        dies_noted(e);
    else
        e->ops->bell(e, e->context);
}

static int receive_control(struct executor *e, struct control *c, int *ret_fd)
{
    struct control_packet p;
    ssize_t n;

    control_room(&p, c);
    do
        n = far_end_receive(e->control, &p.message);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : control_unpack(&p, n, e->owner, ret_fd);
}

static int send_control(struct executor *e, const struct control *c, int fd)
{
    struct control_packet p;
    ssize_t n;
    int r = control_pack(&p, c, fd);

    if (r < 0)
        return r;
    do
        n = far_end_send(e->control, &p.message);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* False: nothing more for now, or the executor is ending. */
static bool control_take(struct executor *e)
{
    struct control c;
    int fd = -1, r = receive_control(e, &c, &fd);

    if (r == 0 && c.kind == CONTROL_REAPER && remains_take(&e->remains, fd))
        return true;
    if (r != 0 || c.kind != CONTROL_REAPER)
        async_close(fd, e->owner); /* an executor has no other descriptor that wsd would want */
    if (r == -EAGAIN || r == -EINTR)
        return false;
    if (r < 0) { /* end of file, or nonsense: either way this life is over; pidfd will say how */
        event_del(e->control_event);
        if (e->child)
            child_kill(e->child);
        return false;
    }
    if (c.kind == CONTROL_READY) {
        if (!e->ready) {
            e->ready = true;
            if (e->child)
                child_ready(e->child);
            e->ops->ready(e, e->context);
        }
    } else {
        e->ops->control(e, &c, e->context);
    }
    return true;
}

static void on_control(evutil_socket_t fd, short what, void *userdata)
{
    struct executor *e = userdata;

    for (int i = 0; i < CONTROL_BATCH; i++)
        if (!control_take(e))
            return;
    if (far_end_strange(e->control)) /* the kernel does not say it again */
        event_active(e->control_event, EV_READ, 0);
}

void executor_take_control(struct executor *e)
{
    for (int i = 0; !e->runner && i < CONTROL_QUEUE && control_take(e); i++)
        ;
}

bool executor_hears(struct executor *e)
{
    return e->runner || !far_end_wait(e->control);
}

static void outbox_flush(struct executor *e)
{
    while (!list_empty(&e->outbox)) {
        struct packet *p = container_of(e->outbox.next, struct packet, link);
        int r = send_control(e, &p->c, p->fd);

        if (r == -EAGAIN)
            return;
        list_remove(&p->link);
        e->n_outbox--;
        async_close(p->fd, e->owner);
        free(p);
    }
    event_del(e->control_write_event);
}

static void on_control_writable(evutil_socket_t fd, short what, void *userdata)
{
    struct executor *e = userdata;

    far_end_go_on(e->control);
    outbox_flush(e);
}

/* The thread of its user is through with the control socket. */
static void on_ready(void *context)
{
    struct executor *e = context;

    if (e->dying && !e->heard) {
        last_packets(e);
        return;
    }
    if (e->dying)
        return;
    on_control(e->control_fd, EV_READ, e);
    if (!e->dying && far_end_full(e->control))
        event_add(e->control_write_event, NULL);
    else if (!e->dying)
        outbox_flush(e);
    if (!e->dying)
        on_bell(e->front.bell_fd, EV_READ, e); /* completions may have waited for packets */
}

static void on_gone(const struct child_end *end, void *context)
{
    struct executor *e = context;

    e->child = NULL;
    if (e->dying)
        return; /* its commands are waited for */
    e->memory = end->memory;
    e->orphan = end->orphan;
    snprintf(e->why, sizeof(e->why), "%s", end->why);
    e->late = end->late;
    executor_ends(e, end->code, end->status);
}

static void on_going(int code, int status, void *context)
{
    struct executor *e = context;

    if (e->finishing || e->leaves_core) /* then how it ends tells more than that it does */
        return;
    e->memory = child_memory(e->child);
    e->orphan = child_orphan(e->child);
    executor_dies(e, code, status);
}

static int start_child(struct executor *e, const struct executor_options *o, int control_child, int words_child)
{
    const struct child_options options = {
        .base = o->base,
        .program = o->program,
        .uid = o->uid,
        .number = o->number,
        .workers = o->workers,
        .memory = o->memory,
        .cgroups = o->cgroups,
        .limits = {.memory = o->memory, .tasks = o->tasks, .cpu_weight = o->cpu_weight},
        .fds = {e->front.down_fd, e->front.up_fd, e->front.bell_fd, control_child, words_child},
        .gone = on_gone,
        .going = on_going,
        .context = e,
    };

    return o->uid == CHILD_OWN ? child_start(&e->child, &options) : helper_start(o->helper, &e->child, &options);
}

static int watch_descriptors(struct executor *e, struct event_base *base)
{
    /* Edge-triggered: each write to an eventfd is an edge, so it need not be read. An executor that fills it up only
     * deafens its own bell. */
    e->bell_event = event_new(base, e->front.bell_fd, EV_READ | EV_PERSIST | EV_ET, on_bell, e);
    short edge = far_end_strange(e->control) ? EV_ET : 0;

    e->control_event = event_new(base, e->control_fd, EV_READ | EV_PERSIST | edge, on_control, e);
    e->control_write_event = event_new(base, e->control_fd, EV_WRITE | EV_PERSIST | edge, on_control_writable, e);
    if (!e->bell_event || !e->control_event || !e->control_write_event)
        return -ENOMEM;
    if (event_add(e->bell_event, NULL) < 0 || event_add(e->control_event, NULL) < 0)
        return -ENOMEM;
    return 0;
}

int executor_new(struct executor **ret_executor, const struct executor_options *options)
{
    struct executor *e = calloc(1, sizeof(*e));
    _cleanup_(close_fdp) int child = -1;
    _cleanup_(close_fdp) int words = -1;
    int pair[2];

    if (!e)
        return -ENOMEM;
    e->control_fd = e->words.fd = -1;
    e->number = options->number;
    e->owner = options->owner;
    e->started_usec = clock_monotonic_usec();
    e->leaves_core = options->leaves_core;
    e->ops = options->ops;
    e->context = options->context;
    list_init(&e->outbox);
    remains_init(&e->remains, options->base, options->far_ends, options->owner, tell_dead, e);
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
        r = far_end_new(&e->control, options->far_ends, e->owner, e->control_fd, on_ready, e);
    if (r >= 0)
        r = words_init(&e->words, options->base, options->far_ends, e->number,
                       options->uid == CHILD_OWN ? getuid() : options->uid, &words);
    if (r >= 0)
        r = start_child(e, options, child, words);
    if (r >= 0)
        r = watch_descriptors(e, options->base);
    if (r < 0) {
        executor_free(e);
        return r;
    }
    *ret_executor = e;
    return 0;
}

int executor_new_runner(struct executor **ret_executor, const struct executor_options *options,
                        const struct executor_runner *runner)
{
    struct executor *e = calloc(1, sizeof(*e));

    if (!e)
        return -ENOMEM;
    e->control_fd = e->words.fd = -1;
    e->number = options->number;
    e->owner = options->owner;
    e->started_usec = clock_monotonic_usec();
    e->ops = options->ops;
    e->context = options->context;
    e->runner = runner;
    e->ready = true;
    list_init(&e->outbox);
    remains_init(&e->remains, options->base, NULL, options->owner, tell_dead, e);
    int r = front_init(&e->front);
    if (r >= 0)
        e->bell_event = event_new(options->base, e->front.bell_fd, EV_READ | EV_PERSIST | EV_ET, on_bell, e);
    if (r >= 0 && (!e->bell_event || event_add(e->bell_event, NULL) < 0))
        r = -ENOMEM;
    if (r < 0) {
        executor_free(e);
        return r;
    }
    *ret_executor = e;
    return 0;
}

void executor_runner_gone(struct executor *e, const char *why)
{
    e->dying = true;
    event_del(e->bell_event);
    if (why)
        snprintf(e->why, sizeof(e->why), "%s", why);
    e->ops->dead(e, why ? CLD_KILLED : CLD_EXITED, why ? SIGKILL : 0, e->context);
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

        async_close(p->fd, e->owner);
        free(p);
    }
    remains_deinit(&e->remains);
    e->child = child_forget(e->child, e->dying && e->leaves_core);
    event_free_null(e->bell_event);
    event_free_null(e->control_event);
    event_free_null(e->control_write_event);
    if (e->control)
        e->control = far_end_close(e->control, false); /* what it has sent and was not received goes with it */
    else
        close_fd(e->control_fd);

    words_deinit(&e->words);
    if (e->front.up)
        front_deinit(&e->front);
    free(e);
    return NULL;
}

void executor_kill(struct executor *e)
{
    if (!e->dying) /* else it ended by itself, and its commands are waited for */
        e->killed = true;
    note_cpu(e);
    if (e->child)
        child_kill(e->child);
    if (e->runner && !e->dying)
        e->runner->kill(e->runner->context);
}

void executor_last_words(struct executor *e, uint64_t since_usec, char *ret, size_t size)
{
    words_last(&e->words, since_usec, ret, size);
}

void executor_finish(struct executor *e)
{
    struct control c = {.kind = CONTROL_FINISH};

    e->finishing = true;
    executor_send(e, &c, -1);
}

int executor_send(struct executor *e, const struct control *c, int fd)
{
    if (e->runner)
        return e->runner->packet(e->runner->context, c, fd);
    if (list_empty(&e->outbox)) {
        int r = send_control(e, c, fd);

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
