/* SPDX-License-Identifier: Apache-2.0
 *
 * test-far-end.c: sockets and pipes of a stranger that has many waiters at the far end. Tests what the loop takes from
 * them, what it leaves to the thread, and that nothing is lost or changes its order between the two. */
#include "far-end/far-end.h"
#include "base/cleanup.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define STRANGER 1001u
#define DUPS     500u    /* descriptors of the far end, and epolls at most */
#define WAITERS  250000u /* at most: a call takes long before */
#define LONG     (300u * 1024u)

static struct event_base *base;
static struct far_ends *all;
static struct far_end *end;
static int near_fd, far_fd; /* near_fd is end's */
static int waiters[2 * DUPS];
static unsigned n_waiters, n_ready;

static void on_ready(void *context)
{
    n_ready++;
}

static void open_pair(int type, bool strange)
{
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    near_fd = pair[0];
    far_fd = pair[1];
    ck_assert_int_eq(far_end_new(&end, strange ? all : NULL, STRANGER, near_fd, on_ready, NULL), 0);
    ck_assert_int_eq(far_end_strange(end), strange);
}

static void setup(void)
{
    base = event_base_new();
    ck_assert_ptr_nonnull(base);
    ck_assert_int_eq(far_ends_new(&all, base), 0);
    end = NULL;
    far_fd = -1;
    n_waiters = n_ready = 0;
}

static void teardown(void)
{
    far_end_close(end, false);
    while (n_waiters)
        close(waiters[--n_waiters]);
    if (far_fd >= 0)
        close(far_fd);
    far_ends_free(all);
    event_base_free(base);
}

static void turn(void)
{
    event_base_loop(base, EVLOOP_ONCE);
}

static ssize_t look(void *to, size_t size)
{
    struct iovec v = {.iov_base = to, .iov_len = size};

    return far_end_receive(end, &(struct msghdr){.msg_iov = &v, .msg_iovlen = 1});
}

static ssize_t say(const void *from, size_t size)
{
    struct iovec v = {.iov_base = (void *)(uintptr_t)from, .iov_len = size};

    return far_end_send(end, &(struct msghdr){.msg_iov = &v, .msg_iovlen = 1});
}

static int left_in(int fd)
{
    int n;

    ck_assert_int_eq(ioctl(fd, FIONREAD, &n), 0);
    return n;
}

/* So many waiters that one call of the loop's was slow. */
static void make_slow(void)
{
    int dups[DUPS];

    for (unsigned i = 0; i < DUPS; i++)
        dups[i] = waiters[n_waiters++] = dup(far_fd);
    for (unsigned i = 0; i < DUPS && !far_ends_slow(all, STRANGER); i++) {
        int e = waiters[n_waiters++] = epoll_create1(EPOLL_CLOEXEC);

        for (unsigned j = 0; j < DUPS; j++)
            ck_assert_int_eq(epoll_ctl(e, EPOLL_CTL_ADD, dups[j], &(struct epoll_event){.events = EPOLLIN}), 0);
        if (i % 10 == 9)
            ck_assert_int_eq(say("x", 1), 1);
    }
    ck_assert(far_ends_slow(all, STRANGER));
    ck_assert_uint_eq(far_ends_slow_calls(all), 1);
}

START_TEST(what_nobody_distrusts_is_read_at_once)
{
    char got[8];

    open_pair(SOCK_STREAM, false);
    ck_assert_int_eq(write(far_fd, "hello", 5), 5);
    ck_assert_int_eq(look(got, sizeof(got)), 5);
    ck_assert_int_eq(left_in(near_fd), 0);
    ck_assert_int_eq(say("answer", 6), 6);
    ck_assert_uint_eq(far_ends_threaded(all), 0);
}
END_TEST

/* A look leaves it there, and the next one sees what is behind. After so many, or so many bytes, or a while, the thread
 * takes it. */
START_TEST(a_stranger_s_bytes_are_looked_at)
{
    char got[FAR_END_SEEN];

    open_pair(SOCK_STREAM, true);
    for (unsigned i = 1; i < FAR_END_LOOKS; i++) {
        char byte = (char)i;

        ck_assert_int_eq(write(far_fd, &byte, 1), 1);
        ck_assert_int_eq(look(got, sizeof(got)), 1);
        ck_assert_int_eq(got[0], byte);
        ck_assert_int_eq(left_in(near_fd), (int)i);
    }
    ck_assert_int_eq(look(got, sizeof(got)), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_eq(far_ends_threaded(all), 0);
    ck_assert(!far_end_wait(end));

    ck_assert_int_eq(write(far_fd, "!", 1), 1);
    ck_assert_int_eq(look(got, sizeof(got)), 1);
    ck_assert_uint_eq(far_ends_threaded(all), 1);
    ck_assert_int_eq(look(got, sizeof(got)), -1); /* it is the thread's */
    ck_assert_int_eq(errno, EAGAIN);
    while (!n_ready)
        turn();
    ck_assert_int_eq(left_in(near_fd), 0);
    ck_assert(!far_end_wait(end));

    memset(got, 'a', sizeof(got));
    ck_assert_int_eq(write(far_fd, got, sizeof(got)), sizeof(got));
    ck_assert_int_eq(look(got, sizeof(got) - 1), sizeof(got) - 1);
    ck_assert_uint_eq(far_ends_threaded(all), 1);
    ck_assert_int_eq(look(got, sizeof(got)), 1);
    ck_assert_uint_eq(far_ends_threaded(all), 2);
    while (far_end_wait(end))
        turn();

    ck_assert_int_eq(write(far_fd, "z", 1), 1);
    ck_assert_int_eq(look(got, sizeof(got)), 1);
    while (far_ends_threaded(all) < 3 || far_end_wait(end)) /* the timer */
        turn();
    ck_assert_int_eq(left_in(near_fd), 0);
}
END_TEST

/* Sending needs no turn of the thread's, also while that takes what was seen. */
START_TEST(a_fast_stranger_is_answered_by_the_loop)
{
    char got[FAR_END_SEEN];

    open_pair(SOCK_STREAM, true);
    memset(got, 'a', sizeof(got));
    ck_assert_int_eq(write(far_fd, got, sizeof(got)), sizeof(got));
    ck_assert_int_eq(look(got, sizeof(got)), sizeof(got));
    ck_assert(far_end_wait(end));
    ck_assert_int_eq(say("answer", 6), 6);
    ck_assert_int_eq(left_in(far_fd), 6);
    ck_assert(!far_end_sending(end));
}
END_TEST

START_TEST(packets_are_looked_at_one_by_one)
{
    char got[8];

    open_pair(SOCK_SEQPACKET, true);
    for (char c = 'a'; c < 'f'; c++)
        ck_assert_int_eq(write(far_fd, (char[]){c, c}, (size_t)(c - 'a' + 1) % 2 + 1), (c - 'a' + 1) % 2 + 1);
    for (char c = 'a'; c < 'f'; c++) {
        ck_assert_int_eq(look(got, sizeof(got)), (c - 'a' + 1) % 2 + 1);
        ck_assert_int_eq(got[0], c);
    }
    ck_assert(!far_end_settled(end));
    while (!n_ready)
        turn();
    ck_assert(far_end_settled(end));
    ck_assert_int_eq(left_in(near_fd), 0);
    ck_assert_int_eq(write(far_fd, "g", 1), 1);
    ck_assert_int_eq(look(got, sizeof(got)), 1);
    ck_assert_int_eq(got[0], 'g');
}
END_TEST

/* A piece with a descriptor is taken at once: a look into its middle would give another copy. */
START_TEST(descriptors_come_once)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}}, got_control;
    static char text[2 * FAR_END_LEAST] = "abc", got[FAR_END_LEAST];
    struct iovec v = {.iov_base = text, .iov_len = sizeof(text)};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    struct stat one, other;
    int fd = -1, pipes[2];

    open_pair(SOCK_STREAM, true);
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    control.align =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(&control.align), &pipes[1], sizeof(int));
    memset(text + sizeof(got), 'x', sizeof(got));
    ck_assert_int_eq(sendmsg(far_fd, &m, 0), sizeof(text));
    close(pipes[1]);
    for (int i = 0; i < 2; i++) {
        v = (struct iovec){.iov_base = got, .iov_len = sizeof(got)};
        m = (struct msghdr){.msg_iov = &v,
                            .msg_iovlen = 1,
                            .msg_control = got_control.bytes,
                            .msg_controllen = sizeof(got_control.bytes)};
        while (far_end_receive(end, &m) < 0)
            turn();
        ck_assert_int_eq(m.msg_controllen > 0, i == 0);
        ck_assert_int_eq(m.msg_flags & MSG_CTRUNC, 0);
        if (i == 0)
            memcpy(&fd, CMSG_DATA(&got_control.align), sizeof(int));
    }
    ck_assert_int_eq(memcmp(got, text + sizeof(got), sizeof(got)), 0);
    ck_assert_int_eq(fstat(fd, &one), 0);
    ck_assert_int_eq(fstat(pipes[0], &other), 0);
    ck_assert_uint_eq(one.st_ino, other.st_ino);
    while (!far_end_settled(end))
        turn();
    close(fd);
    ck_assert_int_eq(read(pipes[0], got, 1), 0); /* there was no other copy */
    close(pipes[0]);
}
END_TEST

/* A look that ends where another piece begins: the kernel gives the descriptors of that piece, too. */
START_TEST(descriptors_come_with_their_own_piece)
{
    static char first[2 * FAR_END_LEAST], got[2 * FAR_END_LEAST];
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    union {
        char bytes[CMSG_SPACE(253 * sizeof(int))];
        struct cmsghdr align;
    } got_control;
    struct iovec v = {.iov_base = first, .iov_len = 5};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    size_t n = 0;
    int fd = -1, pipes[2];

    open_pair(SOCK_STREAM, true);
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    ck_assert_int_eq(write(far_fd, first, sizeof(first)), sizeof(first));
    control.align =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(&control.align), &pipes[1], sizeof(int));
    ck_assert_int_eq(sendmsg(far_fd, &m, 0), 5);
    close(pipes[1]);
    while (n < sizeof(first) + 5) {
        v = (struct iovec){.iov_base = got, .iov_len = sizeof(got)};
        m = (struct msghdr){.msg_iov = &v,
                            .msg_iovlen = 1,
                            .msg_control = got_control.bytes,
                            .msg_controllen = sizeof(got_control.bytes)};
        ssize_t r = far_end_receive(end, &m);
        if (r < 0) {
            ck_assert_int_eq(errno, EAGAIN);
            while (far_end_wait(end))
                turn();
            ck_assert(!far_end_settled(end)); /* the thread has read, and it is not received yet */
            continue;
        }
        n += (size_t)r;
        ck_assert_int_eq(m.msg_controllen > 0, n == sizeof(first) + 5);
        if (m.msg_controllen)
            memcpy(&fd, CMSG_DATA(&got_control.align), sizeof(int));
    }
    ck_assert_int_ge(fd, 0);
    close(fd);
    while (!far_end_settled(end))
        turn();
    ck_assert_int_eq(read(pipes[0], got, 1), 0); /* there is no other copy */
    close(pipes[0]);
}
END_TEST

/* All bytes, in order, however few the far end takes. */
START_TEST(a_slow_stranger_is_answered_by_the_thread)
{
    static uint8_t sent[LONG], got[LONG + WAITERS];
    size_t done = 0, n = 0, before;

    open_pair(SOCK_STREAM, true);
    make_slow();
    ck_assert(!far_end_sending(end));
    before = (size_t)left_in(far_fd);
    for (size_t i = 0; i < LONG; i++)
        sent[i] = (uint8_t)(i * 31 + i / 251);
    while (done < LONG) {
        ssize_t r = say(sent + done, LONG - done);

        ck_assert(r > 0 || errno == EAGAIN);
        if (r > 0) {
            ck_assert_int_le(r, (ssize_t)FAR_END_PIECE);
            ck_assert(far_end_sending(end));
            done += (size_t)r;
            continue;
        }
        n_ready = 0;
        while (!n_ready && far_end_sending(end))
            turn();
        if (far_end_full(end)) {
            r = read(far_fd, got + n, 50000);
            n += (size_t)MAX(r, 0);
            far_end_go_on(end);
        }
    }
    while (n < before + LONG) {
        ssize_t r = read(far_fd, got + n, sizeof(got) - n);

        n += (size_t)MAX(r, 0);
        if (r < 0)
            turn();
        far_end_go_on(end);
    }
    ck_assert_int_eq(memcmp(got + before, sent, LONG), 0);
    while (far_end_sending(end))
        turn();
}
END_TEST

/* The last words, and descriptors with them, reach it. */
START_TEST(what_was_accepted_is_sent_when_it_is_closed)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    char text[] = "words", got[200000];
    struct iovec v = {.iov_base = text, .iov_len = 5};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    int pipes[2];
    ssize_t n = 0, r;

    open_pair(SOCK_STREAM, true);
    make_slow();
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    control.align =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(&control.align), &pipes[1], sizeof(int));
    ck_assert_int_eq(far_end_send(end, &m), 5);
    close(pipes[1]); /* the thread has a copy */
    end = far_end_close(end, false);
    ck_assert_int_eq(fcntl(far_fd, F_SETFL, 0), 0);
    while ((r = read(far_fd, got + n, sizeof(got) - (size_t)n)) > 0)
        n += r;
    ck_assert_int_eq(r, 0); /* it was closed */
    ck_assert_int_eq(memcmp(got + n - 5, "words", 5), 0);
    ck_assert_int_eq(read(pipes[0], got, 1), 0); /* the one that was sent is gone, and the copy */
    close(pipes[0]);
    while (far_ends_closing(all, STRANGER))
        usleep(1000);
}
END_TEST

START_TEST(an_error_of_the_thread_s_is_told)
{
    open_pair(SOCK_STREAM, true);
    make_slow();
    while (n_waiters)
        close(waiters[--n_waiters]);
    close(far_fd);
    far_fd = -1;
    ck_assert_int_eq(say("words", 5), 5);
    while (say("words", 5) < 0 && errno == EAGAIN)
        turn();
    ck_assert_int_eq(errno, EPIPE);
    ck_assert(!far_end_sending(end));
}
END_TEST

START_TEST(a_slow_stranger_s_pipe_is_read_by_the_thread)
{
    char got[64];
    int pipes[2];

    open_pair(SOCK_STREAM, true);
    make_slow();
    end = far_end_close(end, false);
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_eq(far_end_new(&end, all, STRANGER, pipes[0], on_ready, NULL), 0);
    ck_assert_int_eq(write(pipes[1], "text", 4), 4);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(far_end_read(end, got, sizeof(got)), -1);
        ck_assert_int_eq(errno, EAGAIN);
        n_ready = 0;
        while (!n_ready)
            turn();
        if (i == 0) {
            ck_assert_int_eq(far_end_read(end, got, 3), 3);
            ck_assert_int_eq(far_end_read(end, got + 3, sizeof(got)), 1);
            ck_assert_int_eq(memcmp(got, "text", 4), 0);
        }
    }
    ck_assert_int_eq(far_end_read(end, got, sizeof(got)), -1); /* nothing came: it is not asked for again */
    ck_assert(!far_end_wait(end));
    close(pipes[1]);
    ck_assert_int_eq(far_end_read(end, got, sizeof(got)), -1);
    while (far_end_wait(end))
        turn();
    ck_assert_int_eq(far_end_read(end, got, sizeof(got)), 0);
}
END_TEST

/* As much work as another one has, in any order. */
START_TEST(it_may_be_closed_at_any_time)
{
    for (int i = 0; i < 500; i++) {
        char got[64];

        open_pair(i % 2 ? SOCK_STREAM : SOCK_SEQPACKET, true);
        ck_assert_int_eq(write(far_fd, "hello", 5), 5);
        ck_assert_int_eq(look(got, sizeof(got)), 5);
        if (i % 3)
            (void)far_end_settled(end);
        if (i % 3 == 2)
            event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        end = far_end_close(end, i % 5);
        close(far_fd);
    }
    far_fd = -1;
    while (far_ends_closing(all, STRANGER))
        usleep(1000);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("far-end");
    TCase *t = tcase_create("far-end");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, what_nobody_distrusts_is_read_at_once);
    tcase_add_test(t, a_stranger_s_bytes_are_looked_at);
    tcase_add_test(t, a_fast_stranger_is_answered_by_the_loop);
    tcase_add_test(t, packets_are_looked_at_one_by_one);
    tcase_add_test(t, descriptors_come_once);
    tcase_add_test(t, descriptors_come_with_their_own_piece);
    tcase_add_test(t, a_slow_stranger_is_answered_by_the_thread);
    tcase_add_test(t, what_was_accepted_is_sent_when_it_is_closed);
    tcase_add_test(t, an_error_of_the_thread_s_is_told);
    tcase_add_test(t, a_slow_stranger_s_pipe_is_read_by_the_thread);
    tcase_add_test(t, it_may_be_closed_at_any_time);
    suite_add_tcase(s, t);
    return run_suite(s);
}
