/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.c: a client that breaks the rules of the wire, one rule a case. Each case has a connection of its own. wsd must
 * answer with ERROR, tag 0, code 76 and words, and close that connection. Another connection, opened before, must be
 * served as ever. Prints `ok NAME: words` or `FAIL NAME: why` for each. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <wsd/client.h>

#include "proto/codec.h"
#include "proto/frame.h"

static struct codec *codec;

static int connect_raw(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", getenv("WSD_SOCKET"));
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
        perror("wire: connect");
        exit(70);
    }
    return fd;
}

static void put(int fd, const void *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = send(fd, (const char *)data + at, size - at, MSG_NOSIGNAL);

        if (n < 0)
            return; /* closed on us: what it said is still to be read */
        at += (size_t)n;
    }
}

static void put_msg(int fd, const struct msg *m, uint32_t tag, const void *body, size_t body_size)
{
    uint8_t bytes[FRAME_MAX];
    size_t n = codec_encode(m, tag, body_size, bytes, sizeof(bytes));

    if (!n)
        abort();
    if (body_size)
        memcpy(bytes + n, body, body_size);
    put(fd, bytes, n + body_size);
}

static void hello(int fd, uint32_t min, uint32_t max)
{
    put_msg(fd, &(struct msg){.type = FRAME_HELLO, .hello = {.version_min = min, .version_max = max, .window = 65536}},
            0, NULL, 0);
}

static void submit(int fd, uint32_t tag, uint32_t flags)
{
    put_msg(fd, &(struct msg){.type = FRAME_SUBMIT, .submit = {.plugin = {"echo", 4}, .flags = flags}}, tag, NULL, 0);
}

static void bad_magic(int fd)
{
    put(fd, "GET / HTTP/1.1\r\n\r\n", 18);
}

static void bad_header_version(int fd)
{
    put(fd, "\x57\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
}

static void too_large(int fd)
{
    uint8_t header[FRAME_HEADER_SIZE];

    frame_put_header(header, FRAME_HELLO, 0, FRAME_PAYLOAD_MAX + 1, 0);
    put(fd, header, sizeof(header));
}

static void both_lengths_huge(int fd)
{
    uint8_t header[FRAME_HEADER_SIZE];

    frame_put_header(header, FRAME_PING, 1, UINT32_MAX, UINT32_MAX);
    put(fd, header, sizeof(header));
}

static void no_hello(int fd)
{
    submit(fd, 1, 0);
}

static void no_version_in_common(int fd)
{
    hello(fd, 2, 9);
}

static void second_hello(int fd)
{
    hello(fd, 1, 1);
    hello(fd, 1, 1);
}

static void unknown_type(int fd)
{
    uint8_t header[FRAME_HEADER_SIZE];

    hello(fd, 1, 1);
    frame_put_header(header, 999, 1, 0, 0);
    put(fd, header, sizeof(header));
}

static void type_of_the_other_side(int fd)
{
    hello(fd, 1, 1);
    put_msg(fd, &(struct msg){.type = FRAME_GOODBYE}, 1, NULL, 0);
}

static void bytes_that_are_no_protobuf(int fd)
{
    uint8_t frame[FRAME_HEADER_SIZE + 8];

    hello(fd, 1, 1);
    frame_put_header(frame, FRAME_SUBMIT, 1, 8, 0);
    memset(frame + FRAME_HEADER_SIZE, 0xff, 8);
    put(fd, frame, sizeof(frame));
}

static void tag_zero(int fd)
{
    hello(fd, 1, 1);
    submit(fd, 0, 0);
}

static void tag_twice(int fd)
{
    hello(fd, 1, 1);
    submit(fd, 7, SUBMIT_MORE);
    submit(fd, 7, SUBMIT_MORE);
}

static void input_at_a_wrong_offset(int fd)
{
    hello(fd, 1, 1);
    submit(fd, 7, SUBMIT_MORE);
    put_msg(fd, &(struct msg){.type = FRAME_INPUT, .chunk = {.offset = 1}}, 7, "x", 1);
}

static void input_that_was_not_announced(int fd)
{
    hello(fd, 1, 1);
    put_msg(fd,
            &(struct msg){.type = FRAME_SUBMIT, .submit = {.plugin = {"sleep", 5}, .args = {"60000", 6}, .argc = 1}}, 7,
            NULL, 0);
    put_msg(fd, &(struct msg){.type = FRAME_INPUT}, 7, "x", 1);
}

static void opened_that_was_not_asked_for(int fd)
{
    hello(fd, 1, 1);
    put_msg(fd, &(struct msg){.type = FRAME_OPENED, .opened = {.serial = 1, .error = 2}}, 1, NULL, 0);
}

static void put_descriptor(int fd, int other)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec v = {.iov_base = (char[]){0x57}, .iov_len = 1};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &other, sizeof(int));
    if (sendmsg(fd, &h, MSG_NOSIGNAL) < 0)
        perror("wire: sendmsg");
}

static void a_descriptor_that_nobody_asked_for(int fd)
{
    hello(fd, 1, 1);
    put_descriptor(fd, 0);
}

static bool is_stopped(pid_t pid)
{
    char path[64], line[256] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f || !fgets(line, sizeof(line), f))
        line[0] = 0;
    if (f)
        fclose(f);
    const char *name_end = strrchr(line, ')');
    return !name_end || name_end[2] == 'T';
}

/* Its last close() lasts for five minutes, because data is left to send and the other side reads none. The program
 * stops wsd until our copy is closed, so that the last close is wsd's. */
static void a_descriptor_whose_close_blocks(int fd)
{
    static const char data[65536];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger linger = {.l_onoff = 1, .l_linger = 300};
    struct ucred wsd;
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* lives as long as this program */
    int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) < 0 ||
        (connect(other, (struct sockaddr *)&address, size) < 0 && errno != EINPROGRESS))
        perror("wire: a socket that lingers");
    while (send(other, data, sizeof(data), MSG_NOSIGNAL) > 0)
        ;
    setsockopt(other, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    hello(fd, 1, 1);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &wsd, &(socklen_t){sizeof(wsd)}) < 0 || kill(wsd.pid, SIGSTOP) < 0)
        exit(70);
    while (!is_stopped(wsd.pid))
        usleep(1000);
    put_descriptor(fd, other);
    close(other);
    kill(wsd.pid, SIGCONT);
}

static void half_a_frame(int fd)
{
    hello(fd, 1, 1);
    put(fd, "\x57\x01", 2);
}

static void nothing_at_all(int fd)
{
}

static void relative_directory(int fd)
{
    put_msg(fd,
            &(struct msg){.type = FRAME_HELLO, .hello = {.version_min = 1, .version_max = 1, .directory = {"tmp", 3}}},
            0, NULL, 0);
}

/* An ARRAY of one item, or what it says it is; features: of HELLO. */
static void array(int fd, uint64_t features, uint32_t items, const char *body, size_t body_size)
{
    put_msg(fd, &(struct msg){.type = FRAME_HELLO, .hello = {.version_max = 1, .version_min = 1, .features = features}},
            0, NULL, 0);
    put_msg(fd, &(struct msg){.type = FRAME_ARRAY, .submit = {.plugin = {"echo", 4}, .items = items}}, 5, body,
            body_size);
}

static const char item[] = "\1\0\2\0\3\0\0\0a\0xyz"; /* an argument, and three bytes of input */
#define ITEM (sizeof(item) - 1)

static void array_that_was_not_agreed(int fd)
{
    array(fd, 0, 1, item, ITEM);
}

static void batch_that_was_not_agreed(int fd)
{
    hello(fd, 1, 1);
    put_msg(fd, &(struct msg){.type = FRAME_BATCH, .batch = {.action = BATCH_OPEN}}, 5, NULL, 0);
}

static void array_without_items(int fd)
{
    uint8_t frame[FRAME_HEADER_SIZE + 3] = {0};

    put_msg(
        fd,
        &(struct msg){.type = FRAME_HELLO, .hello = {.version_max = 1, .version_min = 1, .features = FEATURE_ARRAY}}, 0,
        NULL, 0);
    frame_put_header(frame, FRAME_ARRAY, 5, 3, 0);
    memcpy(frame + FRAME_HEADER_SIZE, "\x0a\1e", 3); /* plugin */
    put(fd, frame, sizeof(frame));
}

static void array_with_fewer_items_than_it_says(int fd)
{
    array(fd, FEATURE_ARRAY, 2, item, ITEM);
}

static void array_with_more_items_than_it_says(int fd)
{
    char body[2 * ITEM];

    memcpy(body, item, ITEM);
    memcpy(body + ITEM, item, ITEM);
    array(fd, FEATURE_ARRAY, 1, body, sizeof(body));
}

static void array_with_an_item_that_overruns(int fd)
{
    array(fd, FEATURE_ARRAY, 1, "\1\0\2\0\377\377\377\377a\0xyz", ITEM);
}

static void array_with_arguments_that_are_not_counted(int fd)
{
    array(fd, FEATURE_ARRAY, 1, "\2\0\2\0\3\0\0\0a\0xyz", ITEM);
}

static void array_with_half_an_item(int fd)
{
    array(fd, FEATURE_ARRAY, 1, item, 5);
}

#define CASE(name)                                                                                                     \
    {                                                                                                                  \
#name, name                                                                                                    \
    }
static const struct {
    const char *name;
    void (*run)(int fd);
} cases[] = {
    CASE(bad_magic),
    CASE(bad_header_version),
    CASE(too_large),
    CASE(both_lengths_huge),
    CASE(no_hello),
    CASE(no_version_in_common),
    CASE(second_hello),
    CASE(unknown_type),
    CASE(type_of_the_other_side),
    CASE(bytes_that_are_no_protobuf),
    CASE(tag_zero),
    CASE(tag_twice),
    CASE(input_at_a_wrong_offset),
    CASE(input_that_was_not_announced),
    CASE(opened_that_was_not_asked_for),
    CASE(a_descriptor_that_nobody_asked_for),
    CASE(a_descriptor_whose_close_blocks),
    CASE(relative_directory),
    CASE(array_that_was_not_agreed),
    CASE(batch_that_was_not_agreed),
    CASE(array_without_items),
    CASE(array_with_fewer_items_than_it_says),
    CASE(array_with_more_items_than_it_says),
    CASE(array_with_an_item_that_overruns),
    CASE(array_with_arguments_that_are_not_counted),
    CASE(array_with_half_an_item),
    CASE(half_a_frame),
    CASE(nothing_at_all),
};

/* Reads to the end of the stream; true where the last frame was ERROR, tag 0, code 76. */
static bool refused(int fd, char words[static CODEC_TEXT_MAX])
{
    static uint8_t bytes[FRAME_MAX * 4];
    struct frame f;
    struct msg m;
    size_t size = 0, used;
    ssize_t n;
    bool last = false;

    while ((n = recv(fd, bytes + size, sizeof(bytes) - size, 0)) > 0)
        size += (size_t)n;
    for (const uint8_t *at = bytes; size && frame_parse(at, size, &f, &used) == 0; at += used, size -= used) {
        last = codec_decode(codec, &f, &m) == 0 && m.type == FRAME_ERROR && f.tag == 0 && m.error.code == 76;
        if (last)
            snprintf(words, CODEC_TEXT_MAX, "%s", m.error.text.data);
    }
    return last && words[0];
}

int main(void)
{
    struct timeval patience = {.tv_sec = 20};
    struct wsd_client *bystander = NULL;
    int failed = 0;

    if (codec_new(&codec) < 0 || wsd_client_open(&bystander, NULL, 0) < 0) {
        printf("FAIL connect: %s\n", bystander ? wsd_client_error(bystander) : "no memory");
        return 1;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char words[CODEC_TEXT_MAX] = "";
        int fd = connect_raw();

        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        cases[i].run(fd);
        bool ok = refused(fd, words);
        close(fd);
        if (!ok || wsd_client_ping(bystander, NULL) < 0) {
            printf("FAIL %s: %s\n", cases[i].name, ok ? "another connection was hurt" : "no words, or the wrong ones");
            failed = 1;
        } else {
            printf("ok %s: %s\n", cases[i].name, words);
        }
    }
    wsd_client_free(bystander);
    codec_free(codec);
    return failed;
}
