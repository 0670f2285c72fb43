/* SPDX-License-Identifier: Apache-2.0
 *
 * socket.h: the limit on the path of a Unix socket, and the words about it; that of a port. [any]
 */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define SOCKET_PATH_MAX  (sizeof(((struct sockaddr_un *)0)->sun_path) - 1) /* bytes, without the NUL */
#define SOCKET_PATH_LONG "path of the socket is too long: at most %zu bytes; give a shorter one" /* SOCKET_PATH_MAX */

#define SOCKET_PORT_MAX  65535
#define SOCKET_PORT_HIGH "a port is at most 65535"

/* False: a number beyond the highest port, of which getaddrinfo() would take the lower 16 bits. It judges names
 * itself. */
static inline bool socket_port_fits(const char *port)
{
    return !*port || port[strspn(port, "0123456789")] || (strlen(port) < 10 && atol(port) <= SOCKET_PORT_MAX);
}
