/* SPDX-License-Identifier: Apache-2.0
 *
 * listener.h: listening sockets. [loop]
 */
#pragma once

#include "frontend/frontend.h"

/* Accepts connections on a listening socket; takes its descriptor. remote: clients of other machines, by TLS. Returns 0
 * or a negative errno. */
int frontend_listen(struct frontend *f, int fd, bool remote);
/* Returns the descriptor of the only listening socket for clients of this machine; -1 where there are several, or
 * none. */
int frontend_listener(const struct frontend *f);
/* Listens at HOST:PORT, [ADDRESS]:PORT or :PORT (all addresses). Called after frontend_set_remote(). Returns 0, or a
 * negative errno with the words. */
int frontend_listen_remote(struct frontend *f, const char *where, char error[REMOTE_ERROR]);
void listeners_close(struct frontend *f);
