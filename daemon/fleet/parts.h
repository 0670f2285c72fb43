/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h: inputs and outputs that are too large for a letter: on their way in parts, each a message of WSD_PARTS.
 * Everything here is [loop].
 *
 * One part is under way at a time. So a transfer costs the loop, at once, what one message costs. The sender makes a seal
 * of what it has sent, and puts it into the letter. The receiver gets nothing that does not match the seal.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "fleet/bus.h"
#include "fleet/letter.h"

#define PARTS_SIZE  LETTER_MAX /* of a part; the last one may be smaller */
#define PARTS_TRIES 3u         /* times that a part is not there, until it counts as gone */

/* How many parts that many bytes are. [any] */
uint32_t parts_count(uint64_t size);
/* The size of part `n` of a whole of `size` bytes. Requires n < parts_count(size). [any] */
size_t parts_size(uint64_t size, uint32_t n);

/* The try of a job that the parts are of. `id` lives as long as the transfer. */
struct parts_name {
    struct bus *bus;
    const char *home; /* the node that alone may read them; NULL: any may */
    const char *id;   /* of the job */
    uint32_t attempt;
    const char *way; /* "in", "out" */
};

/* A transfer, embedded in its owner's object. Zero-initialised is none. Its fields are its own, but for `seal` and `why`
 * in done(). */
struct parts {
    struct bus_question question;
    struct bus *bus;
    char subject[LETTER_SUBJECT];
    struct letter_seal seal;
    const uint8_t *from; /* of a sender */
    struct buffer *to;   /* of a receiver */
    void *digest;
    uint32_t n;                /* the part that is under way */
    uint32_t n_silent, n_gone; /* times that no server could answer for it; and that it was not there */
    uint64_t due_usec; /* when it is asked for again; UINT64_MAX: an answer is awaited, or there is no transfer */
    char why[160];
    /* 0: the seal is complete, or all bytes are there. -ENOENT, -EBADMSG: the parts are not there or wrong, which `why`
     * says. -ENOMEM. */
    void (*done)(struct parts *p, int error);
};

/* Publishes the bytes, which stay the caller's, until the server has them all. Waits for the server as long as it takes.
 * Returns 0 or a negative errno. Then done() is called once, later. */
int parts_send(struct parts *p, const struct parts_name *name, const void *data, size_t size,
               void (*done)(struct parts *p, int error));
/* Appends what the seal stands for to the buffer. Likewise, and a server that cannot answer is waited for, too. */
int parts_fetch(struct parts *p, const struct parts_name *name, const struct letter_seal *seal, struct buffer *to,
                void (*done)(struct parts *p, int error));
void parts_tick(struct parts *p, uint64_t now_usec); /* to be called often. Fine where there is no transfer */
void parts_forget(struct parts *p);                  /* ends it without done(). Likewise */
/* The parts of a try of a job of this node's, both ways, are not needed any more. */
void parts_purge(struct bus *bus, const char *home, const char *id, uint32_t attempt);
