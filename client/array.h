/* SPDX-License-Identifier: Apache-2.0
 *
 * array.h: jobs of one description that go in one frame, and come back in few. One thread a handle.
 */
#pragma once

#include "call.h"

struct array;
struct item_owner;

/* What arrays do not know of items that are no calls. */
struct item_owner_ops {
    /* It has succeeded; info and output live only during this call. */
    void (*ended)(struct item_owner *owner, size_t place, const struct wsd_job_info *info, const void *output,
                  size_t size);
    void (*failed)(struct item_owner *owner, size_t place, int error); /* the words are the handle's */
    /* Makes it a call. 0 or an error, said. */
    int (*call)(struct item_owner *owner, size_t place, struct wsd_call **ret_call);
};

/* Owns items that are no calls: a map. */
struct item_owner {
    const struct item_owner_ops *ops;
};

/* Calls of one description, gathered until something else is sent. They then go in one ARRAY, or as a SUBMIT if there
 * is only one. */
struct gathering {
    struct call_unit *batch; /* NULL: of none */
    struct msg submit;       /* of the ARRAY, but for QUIET and the number of items */
    size_t body_max;
    bool leaves;              /* WSD_SUBMIT_LEAVE */
    struct item_owner *owner; /* of its items, which are no calls then; NULL */
    struct array *pending;    /* NULL: there is none */
};

/* The description of all of its calls; lives as long as common's texts and tags. 0 or an error, said. */
int gathering_describe(struct gathering *g, struct wsd_client *client, const struct wsd_submit *common,
                       char tags[static CODEC_TAGS_MAX]);
bool array_holds(const struct gathering *g, const struct wsd_submit *submit); /* else it goes by itself */
/* Into the array that is gathered. */
int array_submit(struct gathering *g, const struct wsd_submit *submit, struct wsd_call *call);
/* The same for the item at this place of g->owner. 1: it has to be a call. Else 0 or an error, said. */
int array_submit_bare(struct wsd_client *client, struct gathering *g, const struct wsd_item *item, size_t place);
/* No caller waits for the items of this owner any longer: each that is open has failed with that error, with the words
 * that the handle has now. What wsd says of them from now on has no reader. */
void arrays_give_up(struct wsd_client *client, struct item_owner *owner, int error);
/* A callback was left by an exception or longjmp(): what is left of the frame that it was in is kept. */
void arrays_keep(struct wsd_client *client);
/* The same, and no callback is under way any more. */
void arrays_tear(struct wsd_client *client);
void arrays_mend(struct wsd_client *client);           /* does what comes behind those */
size_t arrays_unsent(const struct wsd_client *client); /* bytes that are gathered */
void arrays_forget(struct wsd_client *client);         /* the room that is kept */
int arrays_send(struct wsd_client *client);            /* what was gathered. 0, -ENOMEM, or what ended the connection */
