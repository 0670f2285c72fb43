/* SPDX-License-Identifier: Apache-2.0
 *
 * still.h: whether the number of a message of WSD_JOBS is still that message's. [loop]
 *
 * A server removes whatever message has the number that is acknowledged. One that was killed may begin its stream at 1 again
 * (renew.h). So a node that had another connection when it was given a job asks before it acknowledges that one.
 */
#pragma once

#include <nats/nats.h>

#include "fleet/bus.h"

#define STILL_ID 64u /* of a message id that is compared, with NUL */

enum still {
    STILL_THERE,
    STILL_GONE,    /* it is there no more, or the number is another one's */
    STILL_UNKNOWN, /* no answer, or a server that cannot tell */
};

/* The question is to have `answered` set. receipt: the subject of its answers. */
void still_ask_number(struct bus *bus, struct bus_question *q, uint64_t sequence);
void still_ask(struct bus *bus, struct bus_question *q, const char *receipt);
/* What the answer says. message_id: that of the message; "": it had none. */
enum still still_answer(natsMsg *answer, const char *message_id);
