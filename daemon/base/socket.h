/* SPDX-License-Identifier: Apache-2.0
 *
 * socket.h: the limit on the path of a Unix socket, and the words about it. [any]
 */
#pragma once

#include <sys/un.h>

#define SOCKET_PATH_MAX  (sizeof(((struct sockaddr_un *)0)->sun_path) - 1) /* bytes, without the NUL */
#define SOCKET_PATH_LONG "path of the socket is too long: at most %zu bytes; give a shorter one" /* SOCKET_PATH_MAX */
