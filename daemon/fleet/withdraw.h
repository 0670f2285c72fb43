/* SPDX-License-Identifier: Apache-2.0
 *
 * withdraw.h: takes cancelled jobs from the servers and from the node that runs them. Everything here is [loop].
 *
 * A message is deleted by its number, and a server that was killed may have given that to another one since (still.h). So
 * behind another connection than the one of its answer the number is asked for first. A node that may not ask
 * ($JS.API.STREAM.MSG.GET.WSD_JOBS) lets the message be; then the job may run. What is cancelled while there is no
 * connection is kept until there is one, WITHDRAWALS_MAX of them: an older one gives way. WITHDRAWALS_AT_ONCE are asked
 * for at a time, since each answer has the whole message, and each WITHDRAWAL_TRIES times: servers that have just begun
 * know nothing of streams yet.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct bus;
struct withdrawals;

#define WITHDRAWALS_MAX       10000u
#define WITHDRAWALS_AT_ONCE   16u
#define WITHDRAWAL_TRIES      8u
#define WITHDRAWAL_PAUSE_USEC 1000000u

struct withdrawn {
    uint64_t sequence;      /* of its message in WSD_JOBS; 0: no server has said that it has it */
    uint32_t connection;    /* bus_connection() when that was said */
    const char *message_id; /* of that message */
    const char *job;        /* its id, for the node that has it; NULL: no node is told */
};

int withdrawals_new(struct withdrawals **ret_withdrawals, struct bus *bus); /* 0 or a negative errno */
struct withdrawals *withdrawals_free(struct withdrawals *w);                /* NULL is fine. Returns NULL */
void withdraw(struct withdrawals *w, const struct withdrawn *what);
/* To be called often. */
void withdrawals_tick(struct withdrawals *w, uint64_t now_usec);
