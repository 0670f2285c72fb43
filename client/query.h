/* SPDX-License-Identifier: Apache-2.0
 *
 * query.h: asks a question, and waits for the answer or has it told. One thread a handle.
 */
#pragma once

#include "connection.h"
#include "wsd/client.h"

struct query {
    struct request request;
    bool done;
    int result;
    uint16_t each;         /* frames of this type are shown */
    uint16_t also[2];      /* so are those of these types */
    uint16_t end;          /* a frame of this type ends the answer (the same as `each`: one frame is the answer) */
    uint64_t timeout_usec; /* 0: that of any question */
    uint64_t deadline;
    bool hurries;                /* where its wait is interrupted, wsd ends the answer with what there is */
    const struct frame *current; /* while it is shown */
    unsigned n_shown;            /* frames that are being shown, each in show() of the one before */
    /* asked.c: it is done, and nothing of it is shown; frees it. NULL: query_run() waits for it */
    void (*over)(struct wsd_client *client, struct query *query);
    char *words; /* of an end that is told later, for over; NULL: the failure's */
    int (*show)(struct wsd_client *client, struct query *query, const struct msg *msg);
    void *wanted; /* the caller's: what show fills or calls */
};

/* Asks. From now on show and over may be called. 0, or a negative errno, said: nothing was asked. */
int query_begin(struct wsd_client *client, const struct msg *msg, struct query *query);
/* Ends it before its answer has. */
void query_end(struct wsd_client *client, struct query *query, int result);
/* Asks, and calls show for each frame until the end of the answer. 0, what show returned, or a negative errno with its
 * words said. */
int query_run(struct wsd_client *client, const struct msg *msg, struct query *query);
