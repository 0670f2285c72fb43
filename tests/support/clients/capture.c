/* SPDX-License-Identifier: Apache-2.0
 *
 * capture.c: without arguments: writes the bytes of HELLO and a SUBMIT to stdout. With a socket: sends stdin to it in
 * one piece and closes at once. */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/codec.h"

int main(int argc, char **argv)
{
    struct msg hello = {.type = FRAME_HELLO,
                        .hello = {.version_min = 1, .version_max = 1, .directory = {"/", 1}, .window = 65536}};
    struct msg submit = {
        .type = FRAME_SUBMIT,
        .submit = {.plugin = {"echo", 4}, .args = {"one\0two", 8}, .argc = 2, .flags = SUBMIT_PROGRESS}};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    uint8_t bytes[FRAME_MAX];
    size_t size;

    if (argc == 1) {
        size = codec_encode(&hello, 0, 0, bytes, sizeof(bytes));
        size += codec_encode(&submit, 1, 0, bytes + size, sizeof(bytes) - size);
        return fwrite(bytes, 1, size, stdout) == size ? 0 : 74;
    }
    size = fread(bytes, 1, sizeof(bytes), stdin);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", argv[1]);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        return 69;
    return send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size ? 0 : 74;
}
