/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/async-close.h"
#include "tests/unit/suite.h"

#define NUMBERS 2048
#define OTHER   (ASYNC_CLOSERS / ASYNC_CLOSERS_EACH + 1) /* owner: has none of those that all_block() gives */
#define GREEDY  77u

/* --- close() of this program: records which thread closes what, and can hold up threads --- */

static _Atomic pid_t closes[NUMBERS]; /* the thread that closes or has closed it */
static _Atomic unsigned n_closing;    /* calls that have not returned */
static _Atomic bool held;             /* threads wait in their close() */

int close(int fd)
{
    if (fd >= 0 && fd < NUMBERS)
        atomic_store(&closes[fd], gettid());
    atomic_fetch_add(&n_closing, 1);
    while (gettid() != getpid() && atomic_load(&held))
        usleep(1000);
    int r = (int)syscall(SYS_close, fd);
    atomic_fetch_sub(&n_closing, 1);
    return r;
}

static pid_t until_begun(int fd)
{
    pid_t who;

    while ((who = atomic_load(&closes[fd])) == 0)
        usleep(1000);
    return who;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void until_closed(int fd)
{
    while (is_open(fd))
        usleep(1000);
}

/* Its number is a new one for `closes`. */
static int memory_file(off_t size, off_t in_pages)
{
    int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_lt(fd, NUMBERS);
    ck_assert_int_eq(ftruncate(fd, size), 0);
    if (in_pages)
        ck_assert_int_eq(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, in_pages), 0);
    atomic_store(&closes[fd], 0);
    return fd;
}

/* --- what blocks --- */

/* Of buffers: hundreds of sockets with all that they may have are a gigabyte of the kernel's, and once took 20
 * seconds. */
static const int small = 4096;

/* A socket that close() would wait for: it lingers, and the other side reads nothing of what is left to send. */
static int lingering(int listener)
{
    static const char data[65536];
    struct sockaddr_in address;
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct linger linger = {.l_onoff = 1, .l_linger = 300};

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while (write(fd, data, sizeof(data)) > 0)
        ;
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    return fd;
}

static int listener_new(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0); /* accepted sockets inherit it */
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(fd, 512), 0);
    return fd;
}

/* With close() in the same thread this would take five minutes. */
START_TEST(a_close_that_blocks_holds_up_no_other)
{
    int listener = listener_new(), pipes[2], slow;

    slow = lingering(listener);
    ck_assert_int_eq(async_close(slow, OTHER), -1);
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    async_close(pipes[0], OTHER);
    async_close(pipes[1], OTHER);
    until_closed(pipes[0]);
    until_closed(pipes[1]);
}
END_TEST

/* As many closes that block as there may be threads for them. */
static void all_block(int listener, int slow[static ASYNC_CLOSERS], int peers[static ASYNC_CLOSERS])
{
    for (unsigned i = 0; i < ASYNC_CLOSERS; i++) {
        slow[i] = lingering(listener);
        peers[i] = accept(listener, NULL, NULL);
        async_close(slow[i], i / ASYNC_CLOSERS_EACH);
    }
    while (atomic_load(&n_closing) < ASYNC_CLOSERS)
        usleep(1000);
}

START_TEST(more_than_there_may_be_threads_are_closed_when_one_is_free)
{
    int listener = listener_new(), pipes[2], slow[ASYNC_CLOSERS], peers[ASYNC_CLOSERS];

    all_block(listener, slow, peers);
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    async_close(pipes[0], OTHER);
    for (unsigned i = 0; i < ASYNC_CLOSERS; i++)
        close(peers[i]); /* resets: nothing is left to send */
    until_closed(pipes[0]);
    ck_assert_int_ge(fcntl(pipes[1], F_GETFD), 0);
    close(pipes[1]);
}
END_TEST

/* Closes of one owner that block: one less than it may have threads, as many, and one more. */
START_TEST(one_owner_takes_no_more_than_its_threads)
{
    const unsigned n = ASYNC_CLOSERS_EACH - 1 + (unsigned)_i;
    int listener = listener_new(), slow[ASYNC_CLOSERS_EACH + 1], peers[ASYNC_CLOSERS_EACH + 1], pipes[2];

    for (unsigned i = 0; i < n; i++) {
        slow[i] = lingering(listener);
        peers[i] = accept(listener, NULL, NULL);
        async_close(slow[i], GREEDY);
    }
    ck_assert_uint_eq(async_close_pending(GREEDY), n);
    while (atomic_load(&n_closing) < n && atomic_load(&n_closing) < ASYNC_CLOSERS_EACH)
        usleep(1000);
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    async_close(pipes[0], GREEDY); /* waits where all threads of this owner are taken */
    async_close(pipes[1], OTHER);
    until_closed(pipes[1]);
    ck_assert_uint_le(atomic_load(&n_closing), ASYNC_CLOSERS_EACH);
    if (n >= ASYNC_CLOSERS_EACH) {
        ck_assert(is_open(pipes[0]));
        ck_assert_uint_eq(async_close_pending(GREEDY), n + 1);
    }
    for (unsigned i = 0; i < n; i++)
        close(peers[i]); /* resets: nothing is left to send */
    until_closed(pipes[0]);
    while (async_close_pending(GREEDY) || async_close_pending(OTHER))
        usleep(1000);
}
END_TEST

/* With a share for each there is a thread for the first one of others, however much one has brought. */
START_TEST(a_flood_of_one_owner_holds_up_no_other)
{
    int listener = listener_new(), pipes[2];

    for (unsigned i = 0; i < ASYNC_CLOSERS + 1; i++) {
        int fd = lingering(listener);

        (void)accept(listener, NULL, NULL);
        async_close(fd, GREEDY);
    }
    ck_assert_uint_eq(async_close_pending(GREEDY), ASYNC_CLOSERS + 1);
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    async_close(pipes[0], OTHER);
    until_closed(pipes[0]);
    ck_assert_uint_eq(async_close_pending(GREEDY), ASYNC_CLOSERS + 1);
}
END_TEST

/* --- memory --- */

START_TEST(small_memory_files_are_closed_at_once)
{
    int empty = memory_file(0, 0), full = memory_file(ASYNC_CLOSE_AT_ONCE, ASYNC_CLOSE_AT_ONCE);

    atomic_store(&held, true);
    ck_assert_int_eq(async_close(empty, OTHER), -1);
    ck_assert_int_eq(async_close(full, OTHER), -1);
    ck_assert(!is_open(empty) && !is_open(full));
    ck_assert_int_eq(closes[full], getpid());
    ck_assert_int_eq(async_close(-1, OTHER), -1);
}
END_TEST

static const struct {
    off_t size, in_pages;
} large[] = {
    {ASYNC_CLOSE_AT_ONCE + 1, 0},
    {ASYNC_CLOSE_AT_ONCE + 1, ASYNC_CLOSE_AT_ONCE + 1},
    {0, ASYNC_CLOSE_AT_ONCE + 1}, /* all of it beyond its end */
    {(off_t)1 << 40, 0},
};

START_TEST(large_memory_files_are_closed_by_a_thread)
{
    int fd = memory_file(large[_i].size, large[_i].in_pages);

    atomic_store(&held, true);
    ck_assert_int_eq(async_close(fd, OTHER), -1); /* and goes on, though the close does not */
    ck_assert_int_ne(until_begun(fd), getpid());
    ck_assert(is_open(fd));
    atomic_store(&held, false);
    until_closed(fd);
}
END_TEST

START_TEST(a_flood_of_memory_has_one_thread)
{
    int fds[64];

    atomic_store(&held, true);
    for (unsigned i = 0; i < 64; i++)
        fds[i] = memory_file(ASYNC_CLOSE_AT_ONCE + 1, 0);
    for (unsigned i = 0; i < 64; i++)
        async_close(fds[i], OTHER);
    for (unsigned i = 0; i < 64; i++)
        ck_assert(is_open(fds[i]));
    atomic_store(&held, false);
    for (unsigned i = 0; i < 64; i++)
        until_closed(fds[i]);
    for (unsigned i = 0; i < 64; i++) {
        ck_assert_int_eq(closes[fds[i]], closes[fds[0]]);
        ck_assert_int_ne(closes[fds[i]], getpid());
    }
}
END_TEST

START_TEST(memory_does_not_wait_for_what_blocks)
{
    int listener = listener_new(), slow[ASYNC_CLOSERS], peers[ASYNC_CLOSERS], fd;

    all_block(listener, slow, peers);
    for (int i = 0; i < 2; i++) { /* by a thread that ends, and by another one */
        fd = memory_file(ASYNC_CLOSE_AT_ONCE + 1, 0);
        async_close(fd, OTHER);
        until_closed(fd);
        ck_assert_int_ne(closes[fd], getpid());
    }
    ck_assert_uint_ge(n_closing, ASYNC_CLOSERS); /* they still do */
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("foreign");
    Suite *s = suite_create("async-close");

    tcase_add_test(tc, a_close_that_blocks_holds_up_no_other);
    tcase_add_test(tc, more_than_there_may_be_threads_are_closed_when_one_is_free);
    tcase_add_loop_test(tc, one_owner_takes_no_more_than_its_threads, 0, 3);
    tcase_add_test(tc, a_flood_of_one_owner_holds_up_no_other);
    tcase_add_test(tc, small_memory_files_are_closed_at_once);
    tcase_add_loop_test(tc, large_memory_files_are_closed_by_a_thread, 0, sizeof(large) / sizeof(*large));
    tcase_add_test(tc, a_flood_of_memory_has_one_thread);
    tcase_add_test(tc, memory_does_not_wait_for_what_blocks);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
