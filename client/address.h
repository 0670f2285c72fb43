/* SPDX-License-Identifier: Apache-2.0
 *
 * address.h: the way to a wsd on this machine: its socket. [any]
 */
#pragma once

#include <stdint.h>
#include <sys/un.h>

#include "failure.h"
#include "waiting.h"

/* The socket, by the rule of wsctl(1), OPTIONS. 0 or -ENAMETOOLONG, with words. */
int address_find(const char *given, struct sockaddr_un *ret, struct failure *failure);
/* Returns a descriptor that does not block, or a negative errno with words. */
int address_connect(const struct sockaddr_un *address, const struct waiting *waiting, uint64_t deadline_usec,
                    struct failure *failure);
/* The same without waiting; -EAGAIN also where too many wait for wsd to accept them. */
int address_begin(const struct sockaddr_un *address, struct failure *failure);
