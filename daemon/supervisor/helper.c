/* SPDX-License-Identifier: Apache-2.0
 *
 * helper.c: asks wsd-spawn for executors, and learns of their ends.
 * Owns the helper's process, if wsd starts it. Owns the socket, and the list of children that were requested. [loop]
 * Keeps: the end of each started child is reported once. The helper reports it. Where the helper is gone, the pidfd
 * does, since the child died with the helper. A child that was not requested yet is requested of the next helper. A
 * helper that does not answer is replaced: one that wsd started is killed; one of a unit is left to its watchdog.
 * Does not wait for the helper: requests that it does not take now are sent when it can take them. */
#include "supervisor/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/accounts.h"
#include "base/cleanup.h"
#include "base/inherit.h"
#include "base/log.h"
#include "base/socket.h"
#include "supervisor/identity.h"
#include "supervisor/orphans.h"

#define REPLIES      64 /* taken a wake-up */
#define LOOKS        4u /* in the time that it has to answer: a machine that stood still has had one of them */
#define EXIT_NO_EXEC 127

struct helper {
    struct helper_options options;
    int file_fd; /* held, so that an upgrade on disk cannot mix versions */
    int fd;      /* -1: none is there */
    pid_t pid;   /* 0: none is there, or it is the service manager's */
    bool is_unit;
    bool ready;              /* it may be asked */
    struct cgroups *cgroups; /* of a unit; NULL: none */
    struct event *readable, *writable;
    struct event *deadline;       /* pending: it is to answer a PING, or to say that it is ready */
    uint32_t n_silent;            /* looks without an answer */
    bool wants_ping, asked_since; /* asked_since: it was asked something behind the PING */
    struct list children;
    uint64_t last_serial;
};

/* --- rights ------------------------------------------------------------------------------------------------------- */

/* A wsd that is not root's has a unit for its helper: a wsd that other users can reach holds and passes on no
 * rights. */
static bool is_allowed(void)
{
    const uint32_t needed = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

    return geteuid() == 0 && syscall(SYS_capget, &header, sets) == 0 && (sets[0].effective & needed) == needed;
}

static bool is_socket(const char *file)
{
    struct stat s;

    return stat(file, &s) == 0 && S_ISSOCK(s.st_mode);
}

bool helper_possible(const char *file)
{
    return is_socket(file) || is_allowed();
}

/* --- its process -------------------------------------------------------------------------------------------------- */

struct arguments {
    struct child_program_arguments executors;
    char name[sizeof("wsd-spawn")];
    char first_id[16];
    char *argv[9];
};

static void program_arguments(const struct helper_options *o, struct arguments *ret)
{
    struct child_program_arguments *a = &ret->executors;

    child_program_arguments(o->program, a);
    memcpy(ret->name, "wsd-spawn", sizeof(ret->name)); /* lives as long as what points to it */
    snprintf(ret->first_id, sizeof(ret->first_id), "%u", o->first_id);
    memcpy(ret->argv,
           (char *[]){ret->name, ret->first_id, a->argv[0], a->argv[1], a->argv[2], a->argv[3], a->argv[4],
                      (char *)(uintptr_t)o->program->sandbox, NULL},
           sizeof(ret->argv));
}

int helper_become(const struct helper_options *options, int socket, int cgroups_fd)
{
    const int fds[] = {socket, options->program->binary_fd, cgroups_fd};
    struct arguments a;

    program_arguments(options, &a);
    return child_program_become(options->program, fds, cgroups_fd < 0 ? 2 : 3, options->file, a.argv);
}

static int start_process(struct helper *h)
{
    _cleanup_(close_fdp) int other = -1;
    struct arguments a;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    h->fd = pair[0];
    other = pair[1];
    /* ours must never block the loop; the helper has nothing else to do */
    if (fcntl(h->fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    const int fds[] = {other, h->options.program->binary_fd, h->options.program->predecessor_fd};
    program_arguments(&h->options, &a);
    int r = child_program_spawn(h->options.program, fds, fds[2] < 0 ? 2 : 3, -1, h->file_fd, a.argv, &h->pid);
    h->ready = r == 0;
    return r;
}

/* Connects, which makes the service manager start the helper; the helper reports when it is ready. */
static int connect_unit(struct helper *h)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    if (strlen(h->options.file) > SOCKET_PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(a.sun_path, h->options.file, strlen(h->options.file));
    h->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (h->fd < 0 || connect(h->fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
        return errno == EAGAIN ? -EBUSY : -errno;
    return 0;
}

static void on_readable(evutil_socket_t fd, short what, void *userdata);
static void on_writable(evutil_socket_t fd, short what, void *userdata);
static void on_deadline(evutil_socket_t fd, short what, void *userdata);

static void helper_down(struct helper *h)
{
    if (h->readable)
        event_free(h->readable);
    if (h->writable)
        event_free(h->writable);
    if (h->deadline)
        event_free(h->deadline);
    h->readable = h->writable = h->deadline = NULL;
    h->wants_ping = h->asked_since = false;
    h->n_silent = 0;
    h->fd = close_fd(h->fd);
    h->ready = false;
    h->cgroups = cgroups_unref(h->cgroups);
    if (h->pid > 0)
        orphans_bury(h->pid);
    h->pid = 0;
}

static int wait_for_answer(struct helper *h)
{
    uint64_t usec = MAX(*h->options.answer_usec / 2 / LOOKS, (uint64_t)1000);
    struct timeval t = {.tv_sec = (time_t)(usec / 1000000), .tv_usec = (suseconds_t)(usec % 1000000)};

    return event_add(h->deadline, &t);
}

/* Sends a PING after a request; its answer shows that the request was taken. */
static void expect_answer(struct helper *h)
{
    if (h->fd < 0 || !h->ready)
        return;
    h->asked_since = true;
    if (evtimer_pending(h->deadline, NULL))
        return;
    h->asked_since = false;
    h->n_silent = 0;
    h->wants_ping = wait_for_answer(h) == 0; /* no memory: with the next request */
}

static int helper_up(struct helper *h)
{
    if (h->fd >= 0)
        return 0;
    int r = h->is_unit ? connect_unit(h) : start_process(h);
    if (r == 0) {
        h->readable = event_new(h->options.base, h->fd, EV_READ | EV_PERSIST, on_readable, h);
        h->writable = event_new(h->options.base, h->fd, EV_WRITE | EV_PERSIST, on_writable, h);
        h->deadline = evtimer_new(h->options.base, on_deadline, h);
        if (!h->readable || !h->writable || !h->deadline || event_add(h->readable, NULL) < 0 ||
            (!h->ready && wait_for_answer(h) < 0))
            r = -ENOMEM;
    }
    if (r < 0)
        helper_down(h);
    return r;
}

/* --- telling ------------------------------------------------------------------------------------------------------ */

static void on_told(evutil_socket_t fd, short what, void *userdata)
{
    struct child *c = userdata;

    child_gone(c, c->code, c->status);
}

static void tell_end(struct child *c, int code, int status)
{
    if (c->telling)
        return;
    c->telling = true;
    c->code = code;
    c->status = status;
    event_active(c->told, EV_READ, 0);
}

static void flush_requests(struct helper *h);

static void on_ended(struct child *c)
{
    c->exited = true;
    event_del(c->event); /* the helper tells how it ended, once it has reaped it */
    if (c->orphan) {
        tell_end(c, CLD_KILLED, SIGKILL);
        return;
    }
    expect_answer(c->helper);
    flush_requests(c->helper);
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

static int send_request(struct helper *h, const struct spawn_request *q, const int *fds, unsigned n_fds)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(SPAWN_FDS_MAX * sizeof(int))];
    } ancillary = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)q, .iov_len = sizeof(*q)};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (n_fds) {
        m.msg_control = &ancillary;
        m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        ancillary.header.cmsg_level = SOL_SOCKET;
        ancillary.header.cmsg_type = SCM_RIGHTS;
        ancillary.header.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(&ancillary.header), fds, n_fds * sizeof(int));
    }
    do
        n = sendmsg(h->fd, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* The cgroup for executors of the helper's. wsd cannot move a process from the cgroup of another unit into its own. */
static int make_cgroup(struct helper *h, struct child *c)
{
    struct cgroups *g = h->is_unit ? h->cgroups : c->cgroups;

    if (!g || c->cgroup)
        return 0;
    int r = cgroup_new(g, c->number, &c->limits, &c->cgroup);
    if (r < 0)
        return r;
    c->request.flags |= SPAWN_CGROUP;
    c->fds[SPAWN_FDS] = fcntl(cgroup_procs(c->cgroup), F_DUPFD_CLOEXEC, 0);
    return c->fds[SPAWN_FDS] < 0 ? -errno : 0;
}

/* It was the helper's, and the next one makes another. */
static void lose_cgroup(struct child *c)
{
    c->request.flags &= ~(uint32_t)SPAWN_CGROUP;
    c->fds[SPAWN_FDS] = close_fd(c->fds[SPAWN_FDS]);
    c->cgroup = cgroup_free(c->cgroup);
}

/* Returns 0; -EAGAIN: later, when the socket reports something; also where the helper is ending, which a read shows.
 * Any other failure ends this child. */
static int send_start(struct helper *h, struct child *c)
{
    int r = helper_up(h);

    if (r == 0 && !h->ready)
        return -EAGAIN;
    if (r == 0)
        r = make_cgroup(h, c);
    if (r == 0) {
        r = send_request(h, &c->request, c->fds, SPAWN_FDS + (c->request.flags & SPAWN_CGROUP ? 1u : 0u));
        if (r == -EAGAIN || r == -EPIPE || r == -ECONNRESET)
            return -EAGAIN;
    }
    c->wants_start = false;
    for (size_t i = 0; i < ARRAY_SIZE(c->fds); i++)
        c->fds[i] = close_fd(c->fds[i]);
    if (r < 0) {
        char words[INHERIT_ERROR];

        snprintf(c->why, sizeof(c->why), "%s%s%s", strerror(-r), child_lacks(r), inherit_blame(r, words));
        log_error("cannot start an executor for user %u: %s%s%s", c->request.uid, strerror(-r), child_lacks(r),
                  inherit_blame(r, words));
        tell_end(c, CLD_EXITED, EXIT_NO_EXEC);
    } else {
        c->started = true;
        expect_answer(h);
    }
    return 0;
}

static int send_kill(struct helper *h, struct child *c)
{
    const struct spawn_request q = {.kind = SPAWN_KILL, .serial = c->request.serial};
    int r = h->fd < 0 || c->orphan ? 0 : send_request(h, &q, NULL, 0);

    if (r < 0)
        return -EAGAIN;
    c->wants_kill = false;
    expect_answer(h);
    return 0;
}

static int send_ping(struct helper *h)
{
    const struct spawn_request q = {.kind = SPAWN_PING, .serial = ++h->last_serial};
    int r = h->fd < 0 ? 0 : send_request(h, &q, NULL, 0);

    if (r < 0)
        return -EAGAIN;
    h->wants_ping = false;
    return 0;
}

static void flush_requests(struct helper *h)
{
    int r = 0;

    list_for_each_entry (struct child, c, &h->children, link) {
        if (r == 0 && c->wants_start)
            r = send_start(h, c);
        if (r == 0 && c->wants_kill && c->started)
            r = send_kill(h, c);
    }
    if (r == 0 && h->wants_ping)
        r = send_ping(h);
    if (h->fd < 0)
        return;
    if (r == 0 || !h->ready)
        event_del(h->writable);
    else
        event_add(h->writable, NULL);
}

static void on_writable(evutil_socket_t fd, short what, void *userdata)
{
    flush_requests(userdata);
}

static void on_identity(const struct identity *i, void *context)
{
    struct child *c = context;

    c->question = NULL;
    if (i->error < 0) {
        snprintf(c->why, sizeof(c->why), ACCOUNTS_SILENT, strerror(-i->error));
        tell_end(c, CLD_EXITED, EXIT_NO_EXEC);
        return;
    }
    if (i->n_groups > SPAWN_GROUPS_MAX) {
        snprintf(c->why, sizeof(c->why), "user %u is in %u groups, and an executor can be in %u: take him out of some",
                 c->request.uid, i->n_groups, SPAWN_GROUPS_MAX);
        log_error("cannot start an executor: %s", c->why);
        tell_end(c, CLD_EXITED, EXIT_NO_EXEC);
        return;
    }
    c->request.gid = i->gid;
    c->request.n_groups = i->n_groups;
    memcpy(c->request.groups, i->groups, sizeof(i->groups));
    c->wants_start = true;
    flush_requests(c->helper);
}

static int begin_start(struct helper *h, struct child *c, const struct child_options *options)
{
    c->request = (struct spawn_request){.kind = SPAWN_START,
                                        .serial = ++h->last_serial,
                                        .memory = options->memory,
                                        .workers = options->workers,
                                        .uid = options->uid};
    c->told = event_new(options->base, -1, 0, on_told, c);
    if (!c->told)
        return -ENOMEM;
    for (size_t i = 0; i < SPAWN_FDS; i++) {
        c->fds[i] = fcntl(options->fds[i], F_DUPFD_CLOEXEC, 0);
        if (c->fds[i] < 0)
            return -errno;
    }
    c->cgroups = options->cgroups;
    c->limits = options->limits;
    int r = identity_ask(options->base, options->uid, h->options.first_id, on_identity, c, &c->question);
    if (r < 0)
        return r;
    c->helper = h;
    list_push_back(&h->children, &c->link);
    return 0;
}

static void kill_child(struct child *c)
{
    if (c->started) {
        bool killed = c->pidfd >= 0 && pidfd_send_signal(c->pidfd, SIGKILL, NULL, 0) == 0; /* where wsd may */

        if (c->orphan && !killed) { /* whatever becomes of it, it is not waited for */
            tell_end(c, CLD_KILLED, SIGKILL);
            return;
        }
        c->wants_kill = !c->orphan;
        flush_requests(c->helper);
        return;
    }
    if (c->question)
        snprintf(c->why, sizeof(c->why), ACCOUNTS_SILENT, "no answer in the time of executor-answer");
    c->late = c->question;
    c->wants_start = false;
    c->question = identity_forget(c->question);
    tell_end(c, CLD_KILLED, SIGKILL);
}

static const struct child_ops child_ops = {.kill = kill_child, .ended = on_ended};

int helper_start(struct helper *h, struct child **ret_child, const struct child_options *options)
{
    struct child *c = child_new(options, &child_ops);
    int r = c ? begin_start(h, c, options) : -ENOMEM;

    if (r < 0) {
        child_free(c);
        return r;
    }
    *ret_child = c;
    return 0;
}

/* --- hearing ------------------------------------------------------------------------------------------------------ */

static struct child *child_of(struct helper *h, uint64_t serial)
{
    list_for_each_entry (struct child, c, &h->children, link) {
        if (c->request.serial == serial && c->started && !c->telling)
            return c;
    }
    return NULL;
}

static void on_started(struct child *c, const struct spawn_reply *a, int pidfd)
{
    if (a->error || pidfd < 0 || a->pid <= 0 || c->pid) {
        snprintf(c->why, sizeof(c->why), "wsd-spawn: %s", strerror(a->error ? (int)a->error : EBADMSG));
        log_error("wsd-spawn cannot start an executor for user %u: %s", c->request.uid,
                  strerror(a->error ? (int)a->error : EBADMSG));
        close_fd(pidfd);
        tell_end(c, CLD_EXITED, EXIT_NO_EXEC);
        return;
    }
    c->pid = a->pid;
    c->pidfd = pidfd;
    log_debug("executor %u is process %d of user %u", c->number, (int)c->pid, c->request.uid);
    if (child_watch(c, event_get_base(c->told)) < 0)
        kill_child(c);
}

static int on_ready(struct helper *h, int cgroups_fd)
{
    if (cgroups_fd >= 0 && !(h->cgroups = cgroups_taken(cgroups_fd)))
        return -ENOMEM;
    h->ready = true;
    event_del(h->deadline);
    flush_requests(h);
    return 0;
}

static void on_pong(struct helper *h)
{
    event_del(h->deadline);
    if (!h->asked_since)
        return;
    expect_answer(h);
    flush_requests(h);
}

/* 0: one was taken; a negative errno. */
static int take_reply(struct helper *h)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } ancillary;
    struct spawn_reply a;
    struct iovec iov = {.iov_base = &a, .iov_len = sizeof(a)};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof(ancillary)};
    _cleanup_(close_fdp) int fd = -1;

    ssize_t n = recvmsg(h->fd, &m, MSG_CMSG_CLOEXEC);
    if (n < 0)
        return -errno;
    struct cmsghdr *rights = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(rights), sizeof(int));
    if (n != sizeof(a))
        return -ECONNRESET;
    if (!h->ready)
        return a.kind == SPAWN_READY ? on_ready(h, TAKE_FD(fd)) : -EPROTO;
    h->n_silent = 0;
    if (a.kind == SPAWN_PONG) {
        on_pong(h);
        return 0;
    }
    struct child *c = child_of(h, a.serial);
    if (c && a.kind == SPAWN_STARTED)
        on_started(c, &a, TAKE_FD(fd));
    else if (c && a.kind == SPAWN_EXITED)
        child_gone(c, a.code, a.status);
    return 0;
}

/* The connection is lost. If the helper has ended or was killed, the kernel ends its children, too. A helper of a unit
 * that only does not answer (lives) has children that go on: wsd learns of their ends by the pidfds. */
static void lost(struct helper *h, bool lives)
{
    helper_down(h);
    list_for_each_entry (struct child, c, &h->children, link) {
        if (!c->started) {
            lose_cgroup(c);
            continue;
        }
        if (c->orphan)
            continue;
        c->orphan = true;
        c->wants_kill = false;
        if (c->pidfd < 0 || c->exited)
            tell_end(c, CLD_KILLED, SIGKILL);
        else if (!lives)
            (void)pidfd_send_signal(c->pidfd, SIGKILL, NULL, 0); /* where wsd may */
    }
    flush_requests(h); /* what was not asked of it is asked of the next one, or told that there is none */
}

static void on_deadline(evutil_socket_t fd, short what, void *userdata)
{
    struct helper *h = userdata;
    unsigned long long msec = (unsigned long long)*h->options.answer_usec / 2 / 1000;

    if (++h->n_silent < LOOKS && wait_for_answer(h) == 0)
        return;
    if (h->is_unit)
        log_warning("wsd-spawn of %s has not answered for %llu ms (half of executor-answer in wsd.conf): wsd connects "
                    "to the next one",
                    h->options.file, msec);
    else
        log_warning("wsd-spawn (process %d) has not answered for %llu ms (half of executor-answer in wsd.conf): it is "
                    "killed with "
                    "the executors that it had started, and replaced",
                    (int)h->pid, msec);
    lost(h, h->is_unit);
}

static void on_readable(evutil_socket_t fd, short what, void *userdata)
{
    struct helper *h = userdata;
    int r = 0;

    for (int i = 0; i < REPLIES && r == 0; i++)
        r = take_reply(h);
    if (r < 0 && r != -EAGAIN && r != -EINTR) {
        log_warning("wsd-spawn is gone, and the executors that it had started with it");
        lost(h, false);
    }
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

int helper_new(struct helper **ret_helper, const struct helper_options *options)
{
    bool is_unit = is_socket(options->file);

    if (!is_unit && !is_allowed())
        return -EPERM;
    struct helper *h = calloc(1, sizeof(*h));
    if (!h)
        return -ENOMEM;
    h->options = *options;
    h->is_unit = is_unit;
    h->fd = h->file_fd = -1;
    list_init(&h->children);
    if (!is_unit)
        h->file_fd = open(options->file, O_RDONLY | O_CLOEXEC);
    int r = h->file_fd < 0 && !is_unit ? -errno : helper_up(h);
    if (r < 0) {
        helper_free(h);
        return r;
    }
    *ret_helper = h;
    return 0;
}

struct helper *helper_free(struct helper *h)
{
    if (!h)
        return NULL;
    helper_down(h);
    while (!list_empty(&h->children))
        child_free(container_of(h->children.next, struct child, link));
    close_fd(h->file_fd);
    free(h);
    return NULL;
}

uint32_t helper_first_id(const struct helper *h)
{
    return h->options.first_id;
}
