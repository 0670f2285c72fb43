/* SPDX-License-Identifier: Apache-2.0
 *
 * query.h: a question that is asked and waited for. It lives on the stack of whoever asks.
 */
#pragma once

#include "client.h"

struct query {
    struct request request;
    bool done;
    int result;
    uint16_t each;         /* frames of this type are shown */
    uint16_t also[2];      /* so are those of these types */
    uint16_t end;          /* one of this type ends the answer (the same: one frame is the answer) */
    uint64_t timeout_usec; /* 0: QUERY_TIMEOUT_USEC */
    uint64_t deadline;
    const struct frame *current; /* while it is shown */
    int (*show)(struct wsd_client *client, struct query *query, const struct msg *msg);
    void *wanted; /* of the one who asks: what show fills or calls */
};

/* Asks, and shows what comes until the end of the answer. 0, what show returned, or a negative errno with its words
 * said. */
int query_run(struct wsd_client *client, const struct msg *msg, struct query *query);
