/* SPDX-License-Identifier: Apache-2.0
 *
 * other-version.c: a wsd of a later time, which speaks version 2 of the protocol only: answers HELLO as PROTOCOL.md
 * says, and closes. Argument: the socket. Runs until it is killed. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/codec.h"

int main(int argc, char **argv)
{
    static const char text[] = "no protocol version in common: this is wsd 9.0, which speaks version 2";
    struct msg m = {.type = FRAME_ERROR, .error = {.code = 76, .text = {text, sizeof(text) - 1}}};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    uint8_t hello[FRAME_MAX], answer[FRAME_MAX];
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    if (argc != 2)
        return 64;
    snprintf(a.sun_path, sizeof(a.sun_path), "%s.new", argv[1]); /* what bears the name is listening */
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 8) < 0 ||
        rename(a.sun_path, argv[1]) < 0)
        return 74;
    size_t size = codec_encode(&m, 0, 0, answer, sizeof(answer));
    for (int peer; (peer = accept(fd, NULL, NULL)) >= 0; close(peer))
        if (read(peer, hello, sizeof(hello)) > 0 && write(peer, answer, size) < 0)
            return 74;
    return 74;
}
