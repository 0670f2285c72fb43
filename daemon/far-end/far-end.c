/* SPDX-License-Identifier: Apache-2.0
 *
 * far-end.c: the calls on strangers' sockets that a loop must not make, and a thread for each stranger that makes them.
 * Owns the threads, and the descriptors of far ends. [loop; work() and thread_main(): the stranger's thread]
 * Keeps: a far end is the loop's or the thread's, never both. The loop waits for no thread. One stranger's thread never
 * works for another stranger. What was accepted for sending is sent in order, or the socket has failed.
 * Does not know what is sent. */
#include "far-end/far-end.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/async-close.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"

#define STACK           (256u * 1024u)
#define FAR_END_FDS_MAX 253u /* SCM_MAX_FD */
#define IDLE_SEC        10   /* a thread without work ends after it */

enum state {
    MINE,    /* the loop's */
    QUEUED,  /* in its stranger's `todo` */
    WORKED,  /* the thread is at it */
    RETURNED /* in `done` */
};

struct stranger {
    struct hash_link by_owner;
    struct list link; /* all->strangers [lock] */
    struct far_ends *all;
    uint64_t owner;
    bool slow;           /* a call of the loop's has taken long [lock; written by the loop] */
    unsigned n_ends;     /* [lock] */
    unsigned n_closing;  /* of these, that the loop knows no more [lock] */
    struct list todo;    /* of struct far_end [lock] */
    bool has_thread;     /* [lock] */
    pthread_cond_t rung; /* [lock] */
};

struct far_ends {
    pthread_mutex_t lock;
    struct event *done_event, *later_timer;
    int done_fd;           /* eventfd: `done` has become non-empty */
    struct list done;      /* of struct far_end [lock] */
    struct list later;     /* far ends that were looked at [loop] */
    struct list strangers; /* [lock]; */
    struct hash by_owner;  /* the same [lock] */
    unsigned n_refs;       /* of the loop, and of each thread [lock] */
    bool ending;           /* [lock] */
    uint64_t n_threaded;   /* [loop] */
    uint64_t n_slow;       /* [loop] */
};

/* What is written by the thread; data NULL: nothing. */
struct far_out {
    uint8_t *data;
    size_t size, done;
    int fds[FAR_END_FDS]; /* that go with its first byte */
    uint32_t n_fds;
};

/* What the thread is asked for. */
struct far_wish {
    size_t take; /* to take so many bytes, or packets, that were looked at */
    bool read;   /* to read a piece */
    bool shut;
    struct far_out out;
};

struct far_end {
    struct list link;          /* stranger->todo or all->done [lock] */
    struct list later;         /* all->later [loop] */
    struct stranger *stranger; /* NULL: none */
    uint64_t owner;
    int fd;
    bool packets, pipe; /* neither: bytes of a socket */

    enum state state;     /* [lock] */
    bool closing;         /* the loop knows it no more, and the thread frees it [lock] */
    struct far_wish wish; /* not begun [lock] */
    bool drained;         /* when it is closed: nothing that could block is left in it */
    bool given;           /* it was not MINE when the loop looked last; */
    bool sending;         /* with something to write; */
    bool waited_for;      /* a call gave EAGAIN for that; */
    uint32_t n_looks;     /* and */
    size_t seen;          /* bytes: looked at, and the thread was not told to take them [loop] */
    void (*ready)(void *context);
    void *context;

    /* of the thread while the state is WORKED, else of the loop */
    struct far_out out;
    uint8_t *in; /* what was read: of a pipe; of a socket with descriptors, all of which fits what asks for it */
    size_t in_size, in_done;
    int *in_fds;
    uint32_t n_in_fds;
    int in_flags;    /* of recvmsg() */
    bool ended, dry; /* a read gave the end of file; nothing */
    int error;       /* of a write; 0: none */
};

/* --- the thread --------------------------------------------------------------------------------------------------- */

static void close_fds(struct far_out *out, uint64_t owner)
{
    for (uint32_t i = 0; i < out->n_fds; i++)
        async_close(out->fds[i], owner);
    out->n_fds = 0;
}

static void drop_out(struct far_out *out, uint64_t owner)
{
    close_fds(out, owner);
    free(out->data);
    *out = (struct far_out){.data = NULL};
}

/* Takes n bytes or packets that were looked at. Each piece wakes the far end's waiters. None has descriptors: see
 * far_end_receive(). */
static void take_seen(const struct far_end *e, size_t n)
{
    uint8_t scratch[16384];

    while (n) {
        ssize_t r = recv(e->fd, scratch, e->packets ? 1 : MIN(n, sizeof(scratch)), MSG_DONTWAIT);

        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0 || (r == 0 && !e->packets))
            return; /* the socket has failed: a look will say so */
        n -= e->packets ? 1 : (size_t)r;
    }
}

static ssize_t send_out(const struct far_end *e)
{
    const struct far_out *out = &e->out;
    union {
        char bytes[CMSG_SPACE(FAR_END_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec v = {.iov_base = out->data + out->done, .iov_len = out->size - out->done};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

    if (out->n_fds) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(out->n_fds * sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(out->n_fds * sizeof(int));
        memcpy(CMSG_DATA(&control.align), out->fds, out->n_fds * sizeof(int));
    }
    return sendmsg(e->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Writes what fits; the rest stays. */
static void write_out(struct far_end *e)
{
    struct far_out *out = &e->out;

    while (out->data && out->done < out->size) {
        ssize_t n = send_out(e);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            e->error = errno;
            break;
        }
        close_fds(out, e->owner);
        out->done += (size_t)n;
    }
    drop_out(out, e->owner);
}

/* As recvmsg(); the descriptors are put into in_fds. */
static ssize_t receive_in(struct far_end *e)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * FAR_END_FDS_MAX)];
        struct cmsghdr align;
    } control;
    struct iovec v = {.iov_base = e->in, .iov_len = e->packets ? FAR_END_PIECE : FAR_END_LEAST};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(e->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

    e->in_flags = m.msg_flags;
    if (!c)
        return n;
    size_t size = c->cmsg_len - CMSG_LEN(0);
    e->in_fds = malloc(size);
    if (e->in_fds) {
        memcpy(e->in_fds, CMSG_DATA(c), size);
        e->n_in_fds = (uint32_t)(size / sizeof(int));
        return n;
    }
    e->in_flags |= MSG_CTRUNC; /* as the kernel has it */
    for (size_t i = 0; i < size / sizeof(int); i++) {
        int fd;

        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
        async_close(fd, e->owner);
    }
    return n;
}

static void drop_in(struct far_end *e)
{
    for (uint32_t i = 0; i < e->n_in_fds; i++)
        async_close(e->in_fds[i], e->owner);
    e->n_in_fds = 0;
    free(TAKE(e->in_fds));
    free(TAKE(e->in));
}

static void read_in(struct far_end *e)
{
    ssize_t n;

    e->in = malloc(FAR_END_PIECE);
    do
        n = !e->in ? -1 : e->pipe ? read(e->fd, e->in, FAR_END_PIECE) : receive_in(e);
    while (n < 0 && errno == EINTR);
    e->ended = n == 0;
    e->dry = n < 0;
    e->in_size = n > 0 ? (size_t)n : 0;
    e->in_done = 0;
    if (n <= 0)
        free(TAKE(e->in));
}

/* The wish of a far end that is WORKED. */
static void work(struct far_end *e, struct far_wish *wish)
{
    if (wish->out.data)
        e->out = wish->out;
    write_out(e);
    take_seen(e, wish->take);
    if (wish->read)
        read_in(e);
    if (wish->shut)
        shutdown(e->fd, SHUT_WR);
}

static void far_end_free(struct far_end *e)
{
    drop_out(&e->out, e->owner);
    drop_out(&e->wish.out, e->owner);
    drop_in(e);
    if (e->drained)
        close_fd(e->fd);
    else
        async_close(e->fd, e->owner);
    free(e);
}

/* Frees a stranger without far ends and thread, unless it was slow: that is remembered. [lock] */
static void stranger_settle(struct stranger *s)
{
    if (s->n_ends || s->has_thread || s->slow)
        return;
    hash_remove(&s->all->by_owner, &s->by_owner);
    list_remove(&s->link);
    pthread_cond_destroy(&s->rung);
    free(s);
}

/* [lock] It is unlocked. */
static void unref(struct far_ends *all)
{
    bool last = --all->n_refs == 0;

    pthread_mutex_unlock(&all->lock);
    if (!last)
        return;
    for (struct list *l; (l = list_pop_front(&all->strangers));) {
        struct stranger *s = container_of(l, struct stranger, link);

        pthread_cond_destroy(&s->rung);
        free(s);
    }
    hash_deinit(&all->by_owner);
    close_fd(all->done_fd);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

static bool wished(const struct far_wish *w)
{
    return w->take || w->read || w->shut || w->out.data;
}

/* The thread is through with this far end. [lock] */
static void give_back(struct far_ends *all, struct far_end *e)
{
    if (wished(&e->wish)) { /* for more, meanwhile */
        e->state = QUEUED;
        list_push_back(&e->stranger->todo, &e->link);
        return;
    }
    if (e->closing) {
        struct stranger *s = e->stranger;

        pthread_mutex_unlock(&all->lock);
        far_end_free(e);
        pthread_mutex_lock(&all->lock);
        s->n_closing--;
        s->n_ends--;
        return;
    }
    bool first = list_empty(&all->done);
    e->state = RETURNED;
    list_push_back(&all->done, &e->link);
    if (first)
        (void)eventfd_write(all->done_fd, 1);
}

/* Waits for work. False: there was none for a while, or there will be none. [lock] */
static bool wait_for_work(struct far_ends *all, struct stranger *s)
{
    struct timespec until;
    int r = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_SEC;
    while (list_empty(&s->todo) && !all->ending && r == 0)
        r = pthread_cond_timedwait(&s->rung, &all->lock, &until);
    return !list_empty(&s->todo);
}

static void *thread_main(void *userdata)
{
    struct stranger *s = userdata;
    struct far_ends *all = s->all;

    pthread_mutex_lock(&all->lock);
    while (wait_for_work(all, s)) {
        struct far_end *e = container_of(list_pop_front(&s->todo), struct far_end, link);
        struct far_wish wish = e->wish;

        e->wish = (struct far_wish){.take = 0};
        e->state = WORKED;
        pthread_mutex_unlock(&all->lock);
        work(e, &wish);
        pthread_mutex_lock(&all->lock);
        give_back(all, e);
    }
    s->has_thread = false;
    stranger_settle(s);
    unref(all);
    return NULL;
}

/* Signals are the other threads'. [lock] */
static bool start_thread(struct stranger *s)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;

    if (s->has_thread)
        return true;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s->has_thread = pthread_create(&thread, &attributes, thread_main, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    s->all->n_refs += s->has_thread;
    return s->has_thread;
}

/* --- strangers ---------------------------------------------------------------------------------------------------- */

/* [lock] */
static struct stranger *stranger_find(const struct far_ends *all, uint64_t owner)
{
    for (struct hash_link *l = hash_first(&all->by_owner, hash_number(owner)); l; l = hash_next(l)) {
        struct stranger *s = container_of(l, struct stranger, by_owner);

        if (s->owner == owner)
            return s;
    }
    return NULL;
}

/* [lock] */
static struct stranger *stranger_find_or_make(struct far_ends *all, uint64_t owner)
{
    pthread_condattr_t monotonic;
    struct stranger *s = stranger_find(all, owner);

    if (s)
        return s;
    s = calloc(1, sizeof(*s));
    if (!s || hash_insert(&all->by_owner, &s->by_owner, hash_number(owner)) < 0) {
        free(s);
        return NULL;
    }
    s->all = all;
    s->owner = owner;
    list_init(&s->todo);
    list_push_back(&all->strangers, &s->link);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->rung, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return s;
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

/* Gives the thread a wish. If there is no thread, for want of memory, the loop does the work. */
static void give(struct far_end *e, const struct far_wish *more)
{
    struct stranger *s = e->stranger;
    struct far_ends *all = s->all;
    struct far_wish *w = &e->wish;

    pthread_mutex_lock(&all->lock);
    w->take += e->packets ? e->n_looks : e->seen;
    w->read |= more->read;
    w->shut |= more->shut;
    if (more->out.data)
        w->out = more->out;
    e->given = start_thread(s) || e->state == QUEUED || e->state == WORKED;
    if (e->state == RETURNED)
        list_remove(&e->link);
    if (e->given && e->state != QUEUED && e->state != WORKED) {
        e->state = QUEUED;
        list_push_back(&s->todo, &e->link);
        pthread_cond_signal(&s->rung);
    }
    pthread_mutex_unlock(&all->lock);
    list_remove(&e->later);
    e->n_looks = 0;
    e->seen = 0;
    e->sending |= more->out.data != NULL;
    all->n_threaded++;
    if (e->given)
        return;
    e->state = MINE;
    struct far_wish all_of_it = *w;
    *w = (struct far_wish){.take = 0};
    work(e, &all_of_it);
    e->sending = e->out.data;
}

/* `ready` may close it. */
static void take_back(struct far_end *e)
{
    e->given = false;
    e->sending = e->out.data;
    bool tell = e->waited_for || e->sending;
    e->waited_for = false;
    if (tell)
        e->ready(e->context);
}

static void on_done(evutil_socket_t fd, short what, void *userdata)
{
    struct far_ends *all = userdata;
    eventfd_t n;
    uint64_t limit = 0;

    (void)eventfd_read(all->done_fd, &n);
    pthread_mutex_lock(&all->lock);
    for (struct list *l = all->done.next; l != &all->done; l = l->next)
        limit++;
    for (struct list *l; limit && (l = list_pop_front(&all->done)); limit--) {
        struct far_end *e = container_of(l, struct far_end, link);

        e->state = MINE;
        pthread_mutex_unlock(&all->lock);
        take_back(e); /* which may close it */
        pthread_mutex_lock(&all->lock);
    }
    if (!list_empty(&all->done))
        (void)eventfd_write(all->done_fd, 1);
    pthread_mutex_unlock(&all->lock);
}

static void on_later(evutil_socket_t fd, short what, void *userdata)
{
    struct far_ends *all = userdata;

    while (!list_empty(&all->later))
        give(container_of(all->later.next, struct far_end, later), &(struct far_wish){.take = 0});
}

int far_ends_new(struct far_ends **ret, struct event_base *base)
{
    struct far_ends *all = calloc(1, sizeof(*all));

    if (!all)
        return -ENOMEM;
    pthread_mutex_init(&all->lock, NULL);
    list_init(&all->done);
    list_init(&all->later);
    list_init(&all->strangers);
    all->n_refs = 1;
    all->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = all->done_fd < 0 ? -errno : 0;
    all->done_event = r == 0 ? event_new(base, all->done_fd, EV_READ | EV_PERSIST, on_done, all) : NULL;
    all->later_timer = evtimer_new(base, on_later, all);
    if (r == 0 && (!all->done_event || !all->later_timer || event_add(all->done_event, NULL) < 0))
        r = -ENOMEM;
    if (r < 0) {
        far_ends_free(all);
        return r;
    }
    *ret = all;
    return 0;
}

struct far_ends *far_ends_free(struct far_ends *all)
{
    if (!all)
        return NULL;
    if (all->done_event)
        event_free(all->done_event);
    if (all->later_timer)
        event_free(all->later_timer);
    pthread_mutex_lock(&all->lock);
    all->ending = true;
    list_for_each_entry (struct stranger, s, &all->strangers, link)
        pthread_cond_signal(&s->rung);
    unref(all);
    return NULL;
}

bool far_ends_slow(struct far_ends *all, uint64_t owner)
{
    pthread_mutex_lock(&all->lock);
    const struct stranger *s = stranger_find(all, owner);
    bool slow = s && s->slow;
    pthread_mutex_unlock(&all->lock);
    return slow;
}

uint64_t far_ends_threaded(const struct far_ends *all)
{
    return all->n_threaded;
}

uint64_t far_ends_slow_calls(const struct far_ends *all)
{
    return all->n_slow;
}

/* Whether each look goes on where the last one ended; true for a pipe, too. Sets *ret_packets if packets come from it,
 * and *ret_pipe if it is a pipe. */
static bool can_look(int fd, bool *ret_packets, bool *ret_pipe)
{
    int type = 0, zero = 0;
    socklen_t size = sizeof(type);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
        return *ret_pipe = errno == ENOTSOCK;
    *ret_packets = type == SOCK_SEQPACKET;
    return setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &zero, sizeof(zero)) == 0;
}

int far_end_new(struct far_end **ret, struct far_ends *all, uint64_t owner, int fd, void (*ready)(void *context),
                void *context)
{
    struct far_end *e = calloc(1, sizeof(*e));

    if (!e)
        return -ENOMEM;
    list_init(&e->link);
    list_init(&e->later);
    e->owner = owner;
    e->ready = ready;
    e->context = context;
    if (all && can_look(fd, &e->packets, &e->pipe)) {
        pthread_mutex_lock(&all->lock);
        e->stranger = stranger_find_or_make(all, owner);
        if (e->stranger)
            e->stranger->n_ends++;
        pthread_mutex_unlock(&all->lock);
        if (!e->stranger) {
            free(e);
            return -ENOMEM;
        }
    }
    e->fd = fd;
    *ret = e;
    return 0;
}

struct far_end *far_end_close(struct far_end *e, bool drained)
{
    struct stranger *s = e ? e->stranger : NULL;

    if (!e)
        return NULL;
    list_remove(&e->later);
    e->drained = drained;
    if (!s) {
        far_end_free(e);
        return NULL;
    }
    struct far_ends *all = s->all;

    pthread_mutex_lock(&all->lock);
    bool at_work = e->state == QUEUED || e->state == WORKED, of_thread = at_work || start_thread(s);
    if (of_thread && !at_work) {
        list_remove(&e->link);
        e->state = QUEUED;
        list_push_back(&s->todo, &e->link);
        pthread_cond_signal(&s->rung);
    }
    e->closing = of_thread;
    s->n_closing += of_thread;
    s->n_ends -= !of_thread;
    stranger_settle(s);
    pthread_mutex_unlock(&all->lock);
    if (!of_thread)
        far_end_free(e);
    return NULL;
}

size_t far_ends_closing(struct far_ends *all, uint64_t owner)
{
    size_t n = 0;

    if (!all)
        return 0;
    pthread_mutex_lock(&all->lock);
    const struct stranger *s = stranger_find(all, owner);
    if (s)
        n = s->n_closing;
    pthread_mutex_unlock(&all->lock);
    return n;
}

bool far_end_strange(const struct far_end *e)
{
    return e->stranger;
}

bool far_end_wait(struct far_end *e)
{
    e->waited_for |= e->given;
    return e->given;
}

bool far_end_sending(const struct far_end *e)
{
    return e->sending;
}

bool far_end_full(const struct far_end *e)
{
    return e->sending && !e->given;
}

/* The same as EAGAIN of a socket. */
static ssize_t later(struct far_end *e)
{
    e->waited_for = true;
    errno = EAGAIN;
    return -1;
}

/* Called when a call of the loop has returned, which began at begun_usec. Keeps errno. */
static void watch_time(struct far_end *e, uint64_t begun_usec)
{
    struct stranger *s = e->stranger;
    uint64_t usec = clock_monotonic_usec() - begun_usec;
    int error = errno;

    if (usec < FAR_END_SLOW_USEC)
        return;
    s->all->n_slow++;
    pthread_mutex_lock(&s->all->lock);
    s->slow = true;
    pthread_mutex_unlock(&s->all->lock);
    log_debug("a call on a socket of user %u took %u us: from now on a thread makes them", (unsigned)s->owner,
              (unsigned)usec);
    errno = error;
}

/* What the thread has read. */
static ssize_t receive_from_in(struct far_end *e, struct msghdr *m)
{
    size_t n = MIN(m->msg_iov[0].iov_len, e->in_size), size = e->n_in_fds * sizeof(int);

    if (e->ended)
        return 0;
    if (e->dry) {
        e->dry = false;
        errno = EAGAIN;
        return -1;
    }
    memcpy(m->msg_iov[0].iov_base, e->in, n);
    m->msg_flags = e->in_flags | (n < e->in_size ? MSG_TRUNC : 0); /* of a packet */
    if (!size || m->msg_controllen < CMSG_SPACE(size)) {
        m->msg_controllen = 0;
    } else {
        struct cmsghdr *c = CMSG_FIRSTHDR(m);

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(c), e->in_fds, size);
        m->msg_controllen = CMSG_SPACE(size);
        e->n_in_fds = 0;
    }
    drop_in(e);
    return (ssize_t)n;
}

/* Leaves a piece with descriptors to the thread. A look has no room for descriptors: it would get copies, which would
 * have to be closed, and each close may block, not only the last one. The kernel says that there are some (MSG_CTRUNC).
 * Besides, a look that fills its room would bring the descriptors of the piece behind it (unix_stream_read_generic(),
 * Linux 6.18). */
static ssize_t leave_to_thread(struct far_end *e, struct msghdr *m)
{
    int before = (int)e->seen;

    (void)setsockopt(e->fd, SOL_SOCKET, SO_PEEK_OFF, &before, sizeof(before));
    give(e, &(struct far_wish){.read = true});
    return e->given ? later(e) : receive_from_in(e, m); /* without a thread it is done */
}

ssize_t far_end_receive(struct far_end *e, struct msghdr *m)
{
    const struct timeval soon = {.tv_usec = FAR_END_LATER};
    struct stranger *s = e->stranger;

    if (!s)
        return recvmsg(e->fd, m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (e->given)
        return later(e);
    if (e->in || e->ended || e->dry)
        return receive_from_in(e, m);
    struct msghdr look = {.msg_iov = m->msg_iov, .msg_iovlen = m->msg_iovlen};
    ssize_t n = recvmsg(e->fd, &look, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0 && look.msg_flags & MSG_CTRUNC)
        return leave_to_thread(e, m);
    m->msg_controllen = 0;
    m->msg_flags = look.msg_flags;
    if (n < 0 || (n == 0 && !e->packets))
        return n;
    e->seen += (size_t)n;
    e->n_looks++;
    if (e->seen >= FAR_END_SEEN || e->n_looks >= FAR_END_LOOKS) {
        give(e, &(struct far_wish){.take = 0});
    } else if (list_empty(&e->later)) {
        bool first = list_empty(&s->all->later);

        list_push_back(&s->all->later, &e->later);
        if (first && event_add(s->all->later_timer, &soon) < 0)
            give(e, &(struct far_wish){.take = 0});
    }
    return n;
}

/* Copies it for the thread. Returns 0 or a negative errno. */
static int copy_message(const struct far_end *e, struct far_out *out, const struct msghdr *m)
{
    const struct cmsghdr *c = CMSG_FIRSTHDR(m);
    size_t n = c ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0, size = m->msg_iov[0].iov_len;

    if (n > FAR_END_FDS)
        return -EINVAL;
    size = e->packets ? size : MIN(size, (size_t)FAR_END_PIECE);
    *out = (struct far_out){.data = malloc(MAX(size, (size_t)1)), .size = size};
    if (!out->data)
        return -ENOMEM;
    memcpy(out->data, m->msg_iov[0].iov_base, size);
    for (; out->n_fds < n; out->n_fds++) {
        int fd;

        memcpy(&fd, CMSG_DATA(c) + out->n_fds * sizeof(int), sizeof(int));
        out->fds[out->n_fds] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (out->fds[out->n_fds] < 0) {
            int r = -errno;

            drop_out(out, e->owner);
            return r;
        }
    }
    return 0;
}

ssize_t far_end_send(struct far_end *e, const struct msghdr *m)
{
    struct far_wish wish = {.take = 0};

    if (!e->stranger)
        return sendmsg(e->fd, m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (e->sending)
        return later(e);
    if (e->stranger->slow) {
        int r = e->given || !e->error ? copy_message(e, &wish.out, m) : -e->error;

        if (r < 0) {
            errno = -r;
            return -1;
        }
        ssize_t size = (ssize_t)wish.out.size;
        give(e, &wish);
        return size;
    }
    uint64_t begun = clock_monotonic_usec();
    ssize_t n = sendmsg(e->fd, m, MSG_NOSIGNAL | MSG_DONTWAIT);
    watch_time(e, begun);
    return n;
}

/* What the thread has read of a pipe. */
static ssize_t read_from_in(struct far_end *e, void *to, size_t size)
{
    if (e->in) {
        size_t n = MIN(size, e->in_size - e->in_done);

        memcpy(to, e->in + e->in_done, n);
        e->in_done += n;
        if (e->in_done == e->in_size)
            free(TAKE(e->in));
        return (ssize_t)n;
    }
    if (e->ended)
        return 0;
    e->dry = false;
    errno = EAGAIN;
    return -1;
}

ssize_t far_end_read(struct far_end *e, void *to, size_t size)
{
    if (!e->stranger)
        return read(e->fd, to, size);
    if (e->given)
        return later(e);
    if (e->in || e->ended || e->dry)
        return read_from_in(e, to, size);
    if (e->stranger->slow) {
        give(e, &(struct far_wish){.read = true});
        return e->given ? later(e) : read_from_in(e, to, size);
    }
    uint64_t begun = clock_monotonic_usec();
    ssize_t n = read(e->fd, to, size);
    watch_time(e, begun);
    return n;
}

void far_end_go_on(struct far_end *e)
{
    if (far_end_full(e))
        give(e, &(struct far_wish){.take = 0});
}

void far_end_shut(struct far_ends *all, uint64_t owner, int fd)
{
    struct far_end *e = NULL;
    int other = all ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;

    if (other < 0 || far_end_new(&e, all, owner, other, NULL, NULL) < 0 || !e->stranger)
        shutdown(fd, SHUT_WR);
    else
        give(e, &(struct far_wish){.shut = true});
    if (!e)
        close_fd(other);
    far_end_close(e, false);
}

bool far_end_settled(struct far_end *e)
{
    if (e->stranger && !e->given && (e->n_looks || e->sending))
        give(e, &(struct far_wish){.take = 0});
    e->waited_for |= e->given;
    return !e->given && !e->sending && !e->in;
}
