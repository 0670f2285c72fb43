/* SPDX-License-Identifier: Apache-2.0
 *
 * starter.c: starts programs from a thread with a table of descriptors of its own.
 * Owns the thread. Owns the socket by which descriptors get into its table. [loop, and the thread]
 * Keeps: the thread has descriptors 0 to 2 and its end of the socket only. While a program starts, it has those for the
 * program, too. The loop and the thread never run at once: each waits for the other's semaphore.
 * Does not reap, or know what it starts. */
#include "supervisor/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define FD_FIRST 3  /* of a program */
#define FD_HIGH  16 /* above every number that a program gets, so that no dup2 tramples on a source */

struct starter {
    pthread_t thread;
    sem_t asked, answered;
    int loops_fd;                          /* in the loop's table */
    int own_fd;                            /* [const after init] in the thread's */
    const struct starter_program *program; /* NULL: the thread ends */
    pid_t pid;
    int result;
};

union rights {
    struct cmsghdr header;
    char room[CMSG_SPACE(STARTER_FDS * sizeof(int))];
};

static void wait_for(sem_t *s)
{
    while (sem_wait(s) < 0)
        ;
}

/* --- the thread ----------------------------------------------------------------------------------------------------
 * It makes system calls by number where a sanitizer would take its descriptors for those of the loop. */

static int close_others(const struct starter *s, unsigned flags)
{
    if (close_range((unsigned)s->own_fd + 1, ~0u, (int)flags) < 0)
        return -errno;
    return s->own_fd > FD_FIRST && close_range(FD_FIRST, (unsigned)s->own_fd - 1, 0) < 0 ? -errno : 0;
}

/* The descriptors of the request, in its order; the last one is the program's file. 0 or a negative errno. */
static int receive(const struct starter *s, int fds[static STARTER_FDS])
{
    union rights rights;
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof(rights.room)};
    size_t size = (s->program->n + 1) * sizeof(int);

    if (syscall(SYS_recvmsg, s->own_fd, &m, MSG_CMSG_CLOEXEC) < 0)
        return -errno;
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (!h || h->cmsg_len != CMSG_LEN(size) || m.msg_flags & MSG_CTRUNC)
        return -EMFILE;
    memcpy(fds, CMSG_DATA(h), size);
    return 0;
}

/* What was sent and could not be received is not the next program's. */
static void drop_rest(const struct starter *s)
{
    char byte;

    while (syscall(SYS_recvfrom, s->own_fd, &byte, 1, MSG_DONTWAIT, NULL, NULL) > 0)
        ;
}

/* 0 or a positive errno. */
static int place(posix_spawn_file_actions_t *actions, const struct starter_program *p, int fds[static STARTER_FDS])
{
    int r = 0;

    /* the last one is not inherited, but the child still needs its number to find the program */
    for (size_t i = 0; i <= p->n && r == 0; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FD_HIGH);
        r = fds[i] < 0 ? errno : i < p->n ? posix_spawn_file_actions_adddup2(actions, fds[i], FD_FIRST + (int)i) : 0;
    }
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO && p->words >= 0 && r == 0; fd++)
        r = posix_spawn_file_actions_adddup2(actions, fds[p->words], fd);
    return r;
}

/* 0 or a negative errno. */
static int spawn_program(struct starter *s)
{
    const struct starter_program *p = s->program;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int fds[STARTER_FDS];
    char binary[32];

    int r = receive(s, fds);
    if (r < 0)
        return r;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    r = place(&actions, p, fds);
    snprintf(binary, sizeof(binary), "/proc/self/fd/%d", fds[p->n]);
    if (r == 0)
        r = posix_spawn(&s->pid, binary, &actions, &attr, p->argv, p->environment);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

static void *starter_main(void *userdata)
{
    struct starter *s = userdata;

    s->result = close_others(s, CLOSE_RANGE_UNSHARE);
    sem_post(&s->answered);
    for (;;) {
        wait_for(&s->asked);
        if (!s->program)
            break;
        s->result = spawn_program(s);
        drop_rest(s);
        (void)close_others(s, 0);
        sem_post(&s->answered);
    }
    (void)close_range((unsigned)s->own_fd, (unsigned)s->own_fd, 0);
    return NULL;
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

/* Signals are the other threads'. */
static int thread_start(struct starter *s)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&s->thread, NULL, starter_main, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -r;
}

int starter_new(struct starter **ret_starter)
{
    struct starter *s = calloc(1, sizeof(*s));
    int pair[2];

    if (!s)
        return -ENOMEM;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        int r = -errno;

        free(s);
        return r;
    }
    s->loops_fd = pair[0];
    s->own_fd = pair[1];
    sem_init(&s->asked, 0, 0);
    sem_init(&s->answered, 0, 0);
    int r = thread_start(s);
    bool runs = r == 0;
    if (runs)
        wait_for(&s->answered);
    close_fd(pair[1]); /* the thread has another one */
    if (runs && s->result == 0) {
        *ret_starter = s;
        return 0;
    }
    r = runs ? s->result : r;
    if (runs) {
        starter_free(s);
    } else {
        close_fd(s->loops_fd);
        free(s);
    }
    return r;
}

struct starter *starter_free(struct starter *s)
{
    if (!s)
        return NULL;
    s->program = NULL;
    sem_post(&s->asked);
    pthread_join(s->thread, NULL);
    close_fd(s->loops_fd);
    sem_destroy(&s->asked);
    sem_destroy(&s->answered);
    free(s);
    return NULL;
}

static int send_descriptors(const struct starter *s, const struct starter_program *p)
{
    union rights rights = {.room = {0}};
    size_t size = (p->n + 1) * sizeof(int);
    struct iovec iov = {.iov_base = (char[]){0}, .iov_len = 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = CMSG_SPACE(size)};

    rights.header.cmsg_level = SOL_SOCKET;
    rights.header.cmsg_type = SCM_RIGHTS;
    rights.header.cmsg_len = CMSG_LEN(size);
    if (p->n)
        memcpy(CMSG_DATA(&rights.header), p->fds, p->n * sizeof(int));
    memcpy(CMSG_DATA(&rights.header) + p->n * sizeof(int), &p->binary_fd, sizeof(int));
    return sendmsg(s->loops_fd, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int starter_start(struct starter *s, const struct starter_program *program, pid_t *ret_pid)
{
    if (program->n + 1 > STARTER_FDS)
        return -E2BIG;
    int r = send_descriptors(s, program);
    if (r < 0)
        return r;
    s->program = program;
    sem_post(&s->asked);
    wait_for(&s->answered);
    if (s->result == 0)
        *ret_pid = s->pid;
    return s->result;
}
