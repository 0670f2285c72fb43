/* SPDX-License-Identifier: Apache-2.0
 *
 * listen.h: the sockets that wsd-web listens on. [before the loop]
 */
#pragma once

#include <stdbool.h>

#define LISTEN_ADDRESS 320u /* room for an address as it is printed */

/* Opens a listening socket. where: ADDRESS:PORT, [ADDRESS]:PORT, or a path. Only this machine can reach it, unless
 * `has_token`. Writes the address as a browser takes it, or "" for a path. Returns the descriptor; or a negative exit
 * status (base/code.h), and says what is wrong. */
int listen_open(const char *where, bool has_token, char ret_address[static LISTEN_ADDRESS]);
