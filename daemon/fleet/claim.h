/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.h: a key that belongs to one job of the fleet. [loop]
 *
 * The key of a user is a record in WSD_RES, which names the job and its node. The server makes it only where there is
 * none. So of jobs of several machines that have the same key one goes on, and the others know which job's end is
 * theirs. It stays for as long as ends do, an hour.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fleet/bus.h"
#include "fleet/letter.h"

#define CLAIM_NODE "key" /* what records are under in the stream of ends: no node may have that name */

/* Embedded. Zeroed: nothing is claimed. */
struct claim {
    struct bus *bus;
    struct bus_question question;
    uint64_t due_usec, pause_usec;
    bool asks;                                                    /* which job has it, not for it */
    bool is_own;                                                  /* the job has it */
    char subject[LETTER_SUBJECT], owner[LETTER_NAME + LETTER_ID]; /* owner: "NODE ID" of this job */
    char node[LETTER_NAME], id[LETTER_ID];                        /* of the other job that has it */
    void (*told)(struct claim *c); /* is_own, or the other one is known. It may be asked for again */
};

/* Asks for the key until there is an answer. */
void claim_begin(struct claim *c, struct bus *bus, const char *user, const char *key, const char *node, const char *id,
                 void (*told)(struct claim *c));
void claim_again_later(struct claim *c); /* the other one has no end yet: asks again, ever more rarely */
void claim_tick(struct claim *c, uint64_t now_usec);
void claim_release(struct claim *c); /* its job has no end that is stored: another one may have the key */
void claim_forget(struct claim *c);
