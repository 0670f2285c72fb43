/* SPDX-License-Identifier: Apache-2.0
 *
 * listen.c: opens sockets.
 * Owns nothing.
 * Keeps: what others of the network can reach wants a token. A path that a wsd-web which died has left is taken over. */
#include "web/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/code.h"
#include "base/complain.h"
#include "base/socket.h"

#define BACKLOG 128

static int fail(const char *where, const char *why)
{
    complain("%s: %s", where, why);
    return -CODE_USAGE;
}

static int fail_in_system(const char *where, int fd)
{
    complain("%s: %s", where, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -(errno == EACCES ? CODE_DENIED : CODE_BUSY);
}

static int open_path(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct stat st;

    if (strlen(path) >= sizeof(a.sun_path))
        return fail(path, "the path of a socket has at most 107 bytes");
    strcpy(a.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) && connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 &&
        errno == ECONNREFUSED)
        unlink(path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, BACKLOG) < 0)
        return fail_in_system(path, fd);
    return fd;
}

static bool is_loopback(const struct sockaddr *a)
{
    const struct sockaddr_in *four = (const void *)a;
    const struct sockaddr_in6 *six = (const void *)a;

    if (a->sa_family == AF_INET)
        return ntohl(four->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

static void write_address(int fd, const struct addrinfo *a, char ret[static LISTEN_ADDRESS])
{
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof(own);
    char host[128] = "", port[16] = "";

    if (getsockname(fd, (struct sockaddr *)&own, &size) == 0)
        (void)getnameinfo((struct sockaddr *)&own, size, host, sizeof(host), port, sizeof(port),
                          NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(ret, LISTEN_ADDRESS, a->ai_family == AF_INET6 ? "http://[%s]:%s/" : "http://%s:%s/", host, port);
}

static int open_address(const char *where, const struct addrinfo *a, bool has_token,
                        char ret_address[static LISTEN_ADDRESS])
{
    if (!has_token && !is_loopback(a->ai_addr))
        return fail(where, "others of the network can reach that: add --token or --token-file, or listen on 127.0.0.1");
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (fd < 0 || bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        return fail_in_system(where, fd);
    write_address(fd, a, ret_address);
    return fd;
}

int listen_open(const char *where, bool has_token, char ret_address[static LISTEN_ADDRESS])
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found = NULL;
    const char *colon = strrchr(where, ':');
    char host[128];

    *ret_address = 0;
    if (strchr(where, '/'))
        return open_path(where);
    size_t size = colon ? (size_t)(colon - where) : 0, skip = *where == '[';
    if (!colon || !colon[1] || size < 2 * skip || size - 2 * skip >= sizeof(host) || (skip && where[size - 1] != ']'))
        return fail(where, "ADDRESS:PORT is wanted, such as 127.0.0.1:9473, or a path with a slash");
    if (!socket_port_fits(colon + 1))
        return fail(where, SOCKET_PORT_HIGH);
    snprintf(host, sizeof(host), "%.*s", (int)(size - 2 * skip), where + skip);
    if (getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, colon + 1, &hints, &found) != 0)
        return fail(where, "an address of this machine and a port are wanted, such as 127.0.0.1:9473");
    int fd = open_address(where, found, has_token, ret_address);
    freeaddrinfo(found);
    return fd;
}
