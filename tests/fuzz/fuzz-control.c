/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-control.c: any packets through control_receive(). Input: packets, each a byte of descriptors that go with it (0
 * to 7), two bytes of size, and that many bytes (or what is left).
 * Keeps: what is received is what was sent, whole, its text ending in NUL; at most one descriptor is handed over and no
 * other one stays open. */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/async-close.h"
#include "ring/control.h"

#define FDS 7

static int pair[2] = {-1, -1}, null_fd;

static void send_packet(const uint8_t *data, size_t size, size_t n_fds)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(FDS * sizeof(int))];
    } ancillary = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n_fds) {
        m.msg_control = &ancillary;
        m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        ancillary.header.cmsg_level = SOL_SOCKET;
        ancillary.header.cmsg_type = SCM_RIGHTS;
        ancillary.header.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        for (size_t i = 0; i < n_fds; i++)
            memcpy(CMSG_DATA(&ancillary.header) + i * sizeof(int), &null_fd, sizeof(int));
    }
    FUZZ_CHECK(sendmsg(pair[0], &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size);
}

/* The number that the next descriptor would have: the same as long as none is left open. */
static int next_fd(void)
{
    int fd = dup(null_fd);

    close(fd);
    return fd;
}

static void receive_packet(const uint8_t *data, size_t size, size_t n_fds)
{
    static struct control c;
    int fd = -1, r;

    memset(&c, 0xa5, sizeof(c));
    r = control_receive(pair[1], ASYNC_CLOSE_OWN, &c, &fd);
    if (size == 0) {
        FUZZ_CHECK(r == -ECONNRESET && fd == -1);
        return;
    }
    FUZZ_CHECK(r == 0 || r == -EBADMSG);
    if (r != 0) {
        FUZZ_CHECK(fd == -1);
        return;
    }
    FUZZ_CHECK(size >= CONTROL_HEADER && size == CONTROL_HEADER + c.text_size && c.text_size <= CONTROL_TEXT);
    FUZZ_CHECK(memcmp(&c, data, size) == 0 && memchr(c.text, 0, sizeof(c.text)));
    FUZZ_CHECK(c.text_size == 0 ? !c.text[0] : !c.text[c.text_size - 1]);
    FUZZ_CHECK(n_fds <= 1 && (fd >= 0) == (n_fds == 1));
    if (fd >= 0) {
        FUZZ_CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        close(fd);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int before;

    if (pair[0] < 0) {
        null_fd = memfd_create("fuzz", MFD_CLOEXEC); /* what async_close() closes at once */
        FUZZ_CHECK(null_fd >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        FUZZ_CHECK(fcntl(pair[1], F_SETFL, O_NONBLOCK) == 0);
    }
    before = next_fd();
    while (size >= 3) {
        size_t n_fds = data[0] % (FDS + 1), n = (size_t)data[1] | (size_t)data[2] << 8;

        data += 3;
        size -= 3;
        n = n < size ? n : size;
        send_packet(data, n, n_fds);
        receive_packet(data, n, n_fds);
        FUZZ_CHECK(next_fd() == before);
        data += n;
        size -= n;
    }
    return 0;
}
