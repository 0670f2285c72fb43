/* SPDX-License-Identifier: Apache-2.0
 *
 * bus.h: the connection to the NATS servers, for one loop. libnats reads on threads of its own; what has come is told on
 * the loop. [loop]
 */
#pragma once

#include <nats/nats.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "fleet/login.h"

struct bus;
struct event_base;

#define BUS_SUBJECT 256u /* of a subject, in bytes, with NUL */

struct bus_options {
    struct event_base *base;
    const struct login *login; /* lives as long as the bus */
    const char *name;          /* as the servers show it */
    /* Since now there is a connection (up), or there is none. What was asked before is asked again by its caller. */
    void (*state)(bool up, void *context);
    /* The handler ends it for ever: a wrong password, for example. */
    void (*closed)(const char *why, void *context);
    void *context;
};

/* Connects, and goes on trying. Waits for the first attempt, and says in the log why that has failed. Returns 0 or a
 * negative errno with words. */
int bus_new(struct bus **ret_bus, const struct bus_options *options, char ret_error[static 256]);
/* Sends what is buffered, for at most a second. NULL is fine. Returns NULL. */
struct bus *bus_free(struct bus *b);
bool bus_is_up(const struct bus *b);
/* Which connection that is, from 1 on. A server may have been another one at an earlier one. */
uint32_t bus_connection(const struct bus *b);

/* The messages of a subject, on the loop. The handler owns the message. Lives as long as the bus. Returns 0 or a
 * negative errno. */
int bus_subscribe(struct bus *b, const char *subject, void (*message)(natsMsg *msg, void *context), void *context);

/* A message that wants one answer. Embedded in the asker's object. */
struct bus_question {
    struct list link;
    uint32_t slot, generation;
    uint64_t due_usec;
    struct bus *bus; /* NULL: it is not under way */
    /* NULL: none came in time, or the connection is gone. The message stays the bus's. May ask again. */
    void (*answered)(struct bus_question *q, natsMsg *msg);
};

/* An answer that takes longer counts as none. */
#define BUS_PATIENCE_USEC 2000000u

/* Publishes it. id: of the message, for the server's deduplication; NULL: none. Where that is impossible now, the answer
 * is NULL, later. */
void bus_ask(struct bus *b, struct bus_question *q, const char *subject, const char *id, const void *data, size_t size);
/* The same, with a header of ours; value NULL: without. */
void bus_ask_saying(struct bus *b, struct bus_question *q, const char *subject, const char *id, const char *header,
                    const char *value, const void *data, size_t size);
/* Likewise, where the last message of the subject in its stream is the one of this number; 0: there is none. Else the
 * answer is one that bus_is_outdated(). It has no id: a cluster looks at the number first, and so would refuse a repeat,
 * not call it one. A caller that asks again looks with bus_ask_last() whether the message is its own. */
void bus_ask_behind(struct bus *b, struct bus_question *q, const char *subject, uint64_t number, const void *data,
                    size_t size);
/* Asks for the last message of a subject: bus_found() says what the answer is. The subject stands in the one that is
 * asked, so that permissions of the servers go by it. */
void bus_ask_last(struct bus *b, struct bus_question *q, const char *stream, const char *subject);
uint64_t bus_looks(const struct bus *b); /* how often that was asked */
void bus_forget(struct bus_question *q); /* its answer is not wanted any more. Allowed where there is no question */
/* Publishes without an answer, or with one to `reply`. False: it is not sent, as there is no connection. */
bool bus_tell(struct bus *b, const char *subject, const char *reply, const void *data, size_t size);
/* The beginning of subjects that lead here, without a dot at its end. */
const char *bus_inbox(const struct bus *b);
/* The status of a message that the server itself has made, such as 503; 0: it is an ordinary one. */
int bus_status(natsMsg *msg);
bool bus_says(natsMsg *msg, const char *words);         /* whether they are in it */
uint32_t bus_header(natsMsg *msg, const char *header);  /* the number in it; 0: there is none */
const char *bus_text(natsMsg *msg, const char *header); /* what is in it; "": there is none. Lives as long as msg */
/* Whether an answer says that a stream has what was published. NULL does not. */
bool bus_is_stored(natsMsg *msg);
/* What an answer to bus_ask_last() says. NULL is BUS_UNKNOWN. */
enum bus_found {
    BUS_FOUND,
    BUS_NONE,    /* the stream has no message of that subject */
    BUS_UNKNOWN, /* no server has looked: it is to be asked again */
};
enum bus_found bus_found(natsMsg *msg);
uint64_t bus_sequence(natsMsg *msg); /* of an answer that bus_is_stored(): the message's in its stream */
bool bus_is_outdated(natsMsg *msg);  /* whether it was refused for the number of bus_ask_behind() */
uint64_t bus_number(natsMsg *msg);   /* of an answer to bus_ask_last(): the message's in its stream; 0: it is none */
