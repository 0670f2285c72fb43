/* SPDX-License-Identifier: Apache-2.0
 *
 * mark.h: that a job has begun: a record in WSD_RES. Everything here is [loop].
 *
 * It says which try has begun, which process has begun it, and how often nodes have begun the job. The server stores it
 * only behind the record that its node has read, or where there is none: so one node gets it. The stream keeps a record
 * for LETTER_KEPT_USEC. While a node has a job that it has marked, it stores the mark anew each MARK_RENEW_USEC.
 */
#pragma once

#include <nats/nats.h>
#include <stdbool.h>
#include <stdint.h>

#include "fleet/bus.h"
#include "fleet/letter.h"

#define MARK_NODE "begun" /* what marks are under in the stream of ends: no node may have that name */
#define MARK_TAG  17u     /* of a process, with NUL */

#define MARK_RENEW_USEC (LETTER_KEPT_USEC / 6)
#define MARK_AGAIN_USEC 5000000u /* before a mark that could not be renewed is renewed again */

/* What a record says. */
struct mark_record {
    uint32_t attempt; /* the try that has begun; 0: none has, or it was given back */
    uint32_t times;   /* that nodes have begun the job */
    char tag[MARK_TAG];
};
/* Of an answer to mark_look(), which is BUS_FOUND or BUS_NONE. */
void mark_read(natsMsg *msg, struct mark_record *ret);

/* Embedded in the job's object. Zeroed: this node has made none. */
struct mark {
    struct bus *bus;
    const char *id, *tag; /* the job's, and this process's. Live as long as it */
    uint32_t attempt, times;
    bool stands, looks; /* this node has made it; and has to see which record there is, before it renews it */
    uint64_t number;    /* in the stream, where it stands */
    uint64_t due_usec;  /* when it is renewed, by CLOCK_BOOTTIME: it ages while this machine sleeps */
    struct bus_question question;
};

void mark_init(struct mark *m, struct bus *bus, const char *id, const char *tag, uint32_t attempt);
/* Asks which record there is. */
void mark_look(const struct mark *m, struct bus_question *q);
/* Asks to store the mark behind the record of this number; 0: there is none. The answer is as for bus_ask_behind(). */
void mark_put(const struct mark *m, struct bus_question *q, uint64_t behind);
/* The same over whatever there is: of a job that may run twice. */
void mark_count(const struct mark *m, struct bus_question *q);
/* It is stored, and is this number: from now on it is renewed. */
void mark_stands(struct mark *m, uint64_t number);
void mark_tick(struct mark *m, uint64_t now_usec); /* to be called often; by CLOCK_BOOTTIME */
void mark_release(struct mark *m); /* the job is given back: where the mark stands, another node may begin */
void mark_forget(struct mark *m);  /* it is renewed no more */
