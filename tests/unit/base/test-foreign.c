/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/foreign.h"

/* Of buffers: hundreds of sockets with all that they may have are a gigabyte of the kernel's, and once took 20 seconds. */
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
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0); /* theirs, whom it accepts */
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(fd, 512), 0);
    return fd;
}

static void until_closed(int fd)
{
    while (fcntl(fd, F_GETFD) >= 0)
        usleep(1000);
}

/* With close() in the same thread this would take five minutes. */
START_TEST(a_close_that_blocks_holds_up_nobody)
{
    int listener = listener_new(), pipes[2], slow;

    slow = lingering(listener);
    ck_assert_int_eq(close_foreign(slow), -1);
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    close_foreign(pipes[0]);
    close_foreign(pipes[1]);
    until_closed(pipes[0]);
    until_closed(pipes[1]);
}
END_TEST

START_TEST(more_than_there_may_be_threads_are_closed_when_one_is_free)
{
    int listener = listener_new(), pipes[2], slow[FOREIGN_CLOSERS], peers[FOREIGN_CLOSERS];

    for (unsigned i = 0; i < FOREIGN_CLOSERS; i++) {
        slow[i] = lingering(listener);
        peers[i] = accept(listener, NULL, NULL);
        close_foreign(slow[i]);
    }
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    close_foreign(pipes[0]);
    for (unsigned i = 0; i < FOREIGN_CLOSERS; i++)
        close(peers[i]); /* resets: nothing is left to send */
    until_closed(pipes[0]);
    ck_assert_int_ge(fcntl(pipes[1], F_GETFD), 0);
    close(pipes[1]);
}
END_TEST

START_TEST(memory_files_are_closed_at_once)
{
    int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(close_foreign(fd), -1);
    ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
    ck_assert_int_eq(close_foreign(-1), -1);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("foreign");
    Suite *s = suite_create("foreign");
    SRunner *r = srunner_create(s);

    tcase_add_test(tc, a_close_that_blocks_holds_up_nobody);
    tcase_add_test(tc, more_than_there_may_be_threads_are_closed_when_one_is_free);
    tcase_add_test(tc, memory_files_are_closed_at_once);
    suite_add_tcase(s, tc);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
