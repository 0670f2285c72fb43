/* SPDX-License-Identifier: Apache-2.0
 *
 * test-control.c: packets arrive whole with their descriptor; malformed ones are refused and leak nothing. */
#include "base/async-close.h"
#include "ring/control.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int ours, theirs;

static void setup(void)
{
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    ours = pair[0];
    theirs = pair[1];
}

static int n_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Sends size bytes with n_fds copies of a memory file, which async_close() closes at once. */
static void send_raw(const void *data, size_t size, int n_fds)
{
    char room[CMSG_SPACE(253 * sizeof(int))] __attribute__((aligned(8))) = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    int memory = memfd_create("test", MFD_CLOEXEC);

    if (n_fds) {
        m.msg_control = room;
        m.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
        for (int i = 0; i < n_fds; i++)
            memcpy(CMSG_DATA(h) + (size_t)i * sizeof(int), &memory, sizeof(int));
    }
    ck_assert_int_eq(sendmsg(theirs, &m, 0), (ssize_t)size);
    close(memory);
}

static int receive_bad(void)
{
    struct control c = {.kind = 42};
    int fd = -7, before = n_descriptors(), r = control_receive(ours, ASYNC_CLOSE_OWN, &c, &fd);

    ck_assert_int_lt(r, 0);
    ck_assert_uint_eq(c.kind, 42);
    ck_assert_int_eq(fd, -7);
    ck_assert_int_eq(n_descriptors(), before);
    return r;
}

START_TEST(packet_arrives_as_it_was_sent)
{
    struct control c = {.kind = CONTROL_LOAD,
                        .slot = 1,
                        .generation = 2,
                        .number = 3,
                        .error = 4,
                        .functions = 5,
                        .flags = 6,
                        .text_size = 6,
                        .text = "hello"},
                   got;
    int fd;

    ck_assert_int_eq(control_send(theirs, &c, -1), 0);
    ck_assert_int_eq(control_receive(ours, ASYNC_CLOSE_OWN, &got, &fd), 0);
    ck_assert_int_eq(fd, -1);
    ck_assert_int_eq(memcmp(&c, &got, CONTROL_HEADER + 6), 0);
}
END_TEST

START_TEST(texts_of_no_and_full_length_arrive)
{
    static struct control c, got;
    int fd;

    ck_assert_int_eq(control_send(theirs, &c, -1), 0);
    ck_assert_int_eq(control_receive(ours, ASYNC_CLOSE_OWN, &got, &fd), 0);
    ck_assert_uint_eq(got.text_size, 0);
    memset(c.text, 'x', CONTROL_TEXT - 1);
    c.text_size = CONTROL_TEXT;
    ck_assert_int_eq(control_send(theirs, &c, -1), 0);
    ck_assert_int_eq(control_receive(ours, ASYNC_CLOSE_OWN, &got, &fd), 0);
    ck_assert_uint_eq(strlen(got.text), CONTROL_TEXT - 1);
}
END_TEST

START_TEST(descriptor_arrives_closed_on_exec)
{
    struct control got;
    struct stat a, b;
    int fd;

    ck_assert_int_eq(control_send(theirs, &(struct control){.kind = CONTROL_INPUT}, 0), 0);
    ck_assert_int_eq(control_receive(ours, ASYNC_CLOSE_OWN, &got, &fd), 0);
    ck_assert_int_gt(fd, 2);
    ck_assert_int_eq(fstat(0, &a), 0);
    ck_assert_int_eq(fstat(fd, &b), 0);
    ck_assert_uint_eq(a.st_ino, b.st_ino);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
}
END_TEST

START_TEST(what_could_not_be_received_is_not_sent)
{
    static struct control c = {.text_size = CONTROL_TEXT + 1};

    ck_assert_int_eq(control_send(theirs, &c, -1), -EINVAL);
    c.text_size = 3;
    memcpy(c.text, "abc", 3);
    ck_assert_int_eq(control_send(theirs, &c, -1), -EINVAL);
    ck_assert_int_eq(receive_bad(), -EAGAIN);
}
END_TEST

START_TEST(malformed_packets_are_refused)
{
    struct control c = {.kind = CONTROL_LOAD, .text_size = 6, .text = "hello"};
    static char large[sizeof(struct control) + 100];

    send_raw(&c, 1, 0);
    ck_assert_int_eq(receive_bad(), -EBADMSG);
    send_raw(&c, CONTROL_HEADER - 1, 0);
    ck_assert_int_eq(receive_bad(), -EBADMSG);
    send_raw(&c, CONTROL_HEADER + 5, 0);
    ck_assert_int_eq(receive_bad(), -EBADMSG);
    send_raw(&c, CONTROL_HEADER + 7, 0);
    ck_assert_int_eq(receive_bad(), -EBADMSG);
    send_raw(&c, CONTROL_HEADER, 0);
    ck_assert_int_eq(receive_bad(), -EBADMSG);
    c.text_size = 5; /* not ending in NUL */
    send_raw(&c, CONTROL_HEADER + 5, 0);
    ck_assert_int_eq(receive_bad(), -EBADMSG);
    c.text_size = UINT32_MAX;
    send_raw(&c, CONTROL_HEADER + 6, 0);
    ck_assert_int_eq(receive_bad(), -EBADMSG);
    send_raw(large, sizeof(large), 0);
    ck_assert_int_eq(receive_bad(), -EBADMSG);
}
END_TEST

START_TEST(descriptors_of_malformed_packets_are_closed)
{
    struct control c = {.kind = CONTROL_INPUT};

    send_raw(&c, CONTROL_HEADER, 2);
    ck_assert_int_eq(receive_bad(), -EBADMSG);
    send_raw(&c, CONTROL_HEADER, 16);
    ck_assert_int_eq(receive_bad(), -EBADMSG);
    send_raw(&c, CONTROL_HEADER, 253); /* as many as the kernel lets pass */
    ck_assert_int_eq(receive_bad(), -EBADMSG);
    send_raw(&c, CONTROL_HEADER - 1, 1);
    ck_assert_int_eq(receive_bad(), -EBADMSG);
}
END_TEST

START_TEST(end_and_nothing_are_told_apart)
{
    ck_assert_int_eq(receive_bad(), -EAGAIN);
    close(theirs);
    ck_assert_int_eq(receive_bad(), -ECONNRESET);
    ck_assert_int_eq(control_send(ours, &(struct control){.kind = 1}, -1), -EPIPE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ring/control");
    TCase *t = tcase_create("control");

    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, packet_arrives_as_it_was_sent);
    tcase_add_test(t, texts_of_no_and_full_length_arrive);
    tcase_add_test(t, descriptor_arrives_closed_on_exec);
    tcase_add_test(t, what_could_not_be_received_is_not_sent);
    tcase_add_test(t, malformed_packets_are_refused);
    tcase_add_test(t, descriptors_of_malformed_packets_are_closed);
    tcase_add_test(t, end_and_nothing_are_told_apart);
    suite_add_tcase(s, t);
    return run_suite(s);
}
