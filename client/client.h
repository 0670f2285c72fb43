/* SPDX-License-Identifier: Apache-2.0
 *
 * client.h: what the files of libwsclient share. One thread a handle; no locks, no globals.
 *
 * client.c owns the connection: bytes, frames, tags. call.c owns jobs in flight. array.c has jobs that go in one frame,
 * batch.c those that form a unit. arena.c shares memory with jobs. query.c asks and waits. remote.c connects to other
 * machines. open.c opens files at wsd's request. calls.c makes calls, directly by the lane of lane.c if it can. text.c
 * has names, numbers and copies.
 *
 * Callbacks of the user may call the library, which may process the connection again. So what a frame under way points
 * to (input buffer, codec) is pinned. What callbacks free is kept until no caller uses it: see client_process_frames()
 * and client_reap().
 */
#pragma once

#include <sys/types.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/freelist.h"
#include "connection.h"
#include "failure.h"
#include "open.h"
#include "proto/codec.h"
#include "text.h"
#include "wsd/client.h"

#define OUTPUT_CREDIT    (OUTPUT_WINDOW / 4) /* granted in pieces of at least this */
#define LARGE_OUTPUT     (256u * 1024u)      /* its room is kept for the next output as large, .. */
#define SPARE_OUTPUT_MAX (64u << 20)         /* .. if it is at most this */
#define OUT_HIGH         (1024u * 1024u)     /* bytes waiting to be sent above which no input is taken */
#define CALL_ROOM        64u

struct wsd_arena {
    struct request request;    /* ARENA_OPEN, while wsd has it */
    struct wsd_client *client; /* NULL: wsd has dropped it */
    void *data;
    size_t size;
    bool there;
    int error; /* why it is gone */
};

struct call_unit;

/* What calls and arrays do not know of what they are part of. A NULL: it never has to. */
struct call_unit_ops {
    /* An array: the tag of the frames about this call, which it is sent for. */
    uint32_t (*tag)(struct wsd_call *call);
    /* The call's end is about to be told; error as for done. It is no part from then on. */
    void (*done)(struct wsd_call *call, int error);
    /* A batch: the same for an item of an array that is no call. */
    void (*item_done)(struct call_unit *unit);
    /* A batch: what the records of its jobs leave out. */
    void (*describe)(const struct call_unit *unit, struct msg_job *ret);
    /* A batch: why an array of it was refused, if it was itself the reason. */
    void (*refusal)(const struct call_unit *unit, struct msg_end *refusal);
};

/* What a call may be part of: an array, a batch. */
struct call_unit {
    const struct call_unit_ops *ops;
};

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

struct wsd_client {
    struct failure failure; /* the last one */
    struct connection connection;
    struct list calls;      /* struct wsd_call: all but the graves */
    struct list feeding;    /* calls with input left that the library sends by itself */
    struct list batches;    /* struct wsd_batch */
    struct gathering plain; /* of wsd_client_submit() */
    char *plain_texts;      /* that it points to */
    struct freelist free_calls;
    struct buffer spare_output; /* room of a large output, without bytes, until a call ends that had no use for it */
    struct array *spare_array;  /* with its room; NULL */
    struct list graveyard;      /* freed calls, destroyed by calls_reap() */
    char *job_texts;            /* of the last wsd_client_job() */
    struct lane *lane;          /* NULL until the first wsd_call() */
};

static inline struct wsd_client *client_of(struct connection *c)
{
    return container_of(c, struct wsd_client, connection);
}

struct wsd_call {
    struct request request;
    struct list link, feeding;
    struct list stoppable; /* the list of that name of its batch */
    struct wsd_client *client;
    struct wsd_callbacks callbacks;
    bool attached, detached, durable, stream, accepted, input_ended, cancelled;
    bool held;       /* the user wants no output now */
    bool delivering; /* the user's output callback is running */
    bool has_job;    /* DONE has come; info is set */
    bool ending;     /* its last output is told, and then its end */
    bool done, freed;
    bool large;              /* LARGE_OUTPUT or more was gathered, or waited while held */
    bool forgotten;          /* wsd was told: END is the last frame */
    bool quiet;              /* wsd was asked for no ACCEPTED */
    bool leaves;             /* WSD_SUBMIT_LEAVE: it ends when the job is accepted */
    bool left;               /* wsd knows that */
    struct call_unit *batch; /* that it belongs to; NULL: none, or it has left it */
    uint64_t order;          /* in that */
    struct call_unit *array; /* it is in this one, as item `index`, and has no request of its own; NULL */
    uint32_t index;
    const char *args; /* one behind the other, each with its NUL: args_room, or owned */
    size_t args_size;
    uint32_t argc;
    const uint8_t *input; /* the user's; what is left to send */
    size_t input_size;
    uint64_t input_sent, input_limit;
    uint64_t output_received, output_taken, output_granted;
    struct buffer output; /* gathered, or waiting while held; or: */
    size_t small_output;  /* bytes in output_room */
    struct wsd_job_info info;
    char *info_texts;
    int error, exit;
    uint64_t retry_usec;
    uint64_t progress_done, progress_total; /* of an item, which come before its end */
    char *text;
    /* What is small needs no block of its own. Not zeroed. */
    char args_room[CALL_ROOM], texts_room[CALL_ROOM], output_room[CALL_ROOM];
};

/* --- call.c ------------------------------------------------------------------------------------------------------ */

/* Sends input of calls as far as windows and buffer allow. */
void call_pump(struct wsd_client *client);
void calls_reap(struct wsd_client *client); /* destroys freed ones */
void call_destroy(struct wsd_call *call);
/* Frees the spare room: the call had no use for it, or the handle is freed. */
void call_drop_spare(struct wsd_client *client);
/* A job by itself: with input of any size, in a request of its own. batch: that it belongs to, which wsd knows by this
 * tag; NULL and 0. 0 or an error, said. */
int call_submit(struct wsd_client *client, const struct wsd_submit *submit, const struct wsd_callbacks *callbacks,
                struct call_unit *batch, uint32_t batch_tag, struct wsd_call **ret_call);
/* A call that gets its frames through an array: by the four that follow. 0, -EINVAL, -ENOMEM: said. */
int call_new(struct wsd_client *client, const struct wsd_submit *submit, const struct wsd_callbacks *callbacks,
             struct wsd_call **ret_call);
/* SUBMIT without input; lives as long as submit, call and tags. 0 or an error, said. */
int call_make_submit(const struct wsd_submit *submit, const struct wsd_call *call, char tags[static CODEC_TAGS_MAX],
                     struct msg *ret);
void call_is_accepted(struct wsd_client *client, struct wsd_call *call, const struct msg_id *id);
void call_has_output(struct wsd_client *client, struct wsd_call *call, const void *data, size_t size);
void call_has_ended(struct wsd_client *client, struct wsd_call *call, const struct msg_job *job);
void call_is_refused(struct wsd_client *client, struct wsd_call *call, const struct msg_error *error);
/* Any other frame of a call. */
void call_told(struct wsd_client *client, struct wsd_call *call, const struct msg *msg);
void call_lost(struct wsd_client *client, struct wsd_call *call); /* the connection is over */
/* The words for that, and what done is told. */
int call_say_lost(struct wsd_client *client, bool accepted, bool durable);

/* --- array.c ----------------------------------------------------------------------------------------------------- */

/* The description of all of its calls; lives as long as common's texts and tags. 0 or an error, said. */
int gathering_describe(struct gathering *g, struct wsd_client *client, const struct wsd_submit *common,
                       char tags[static CODEC_TAGS_MAX]);
bool array_holds(const struct gathering *g, const struct wsd_submit *submit); /* else it goes by itself */
/* Into the array that is gathered. */
int array_submit(struct wsd_client *client, struct gathering *g, const struct wsd_submit *submit,
                 const struct wsd_callbacks *callbacks, struct wsd_call **ret_call);
/* The same for the item at this place of g->owner. 1: it has to be a call. Else 0 or an error, said. */
int array_submit_bare(struct wsd_client *client, struct gathering *g, const struct wsd_item *item, size_t place);
void arrays_forget(struct wsd_client *client); /* the room that is kept */
int arrays_send(struct wsd_client *client);    /* what was gathered. 0, -ENOMEM, or what ended the connection */

/* --- batch.c ----------------------------------------------------------------------------------------------------- */

/* Its items need be no calls: array_submit_bare() */
void batch_set_owner(struct wsd_batch *batch, struct item_owner *owner);
/* Submits the item at this place of that owner, which is told its end. 0 or an error, said; 1: use wsd_batch_submit(). */
int batch_submit_bare(struct wsd_batch *batch, const struct wsd_item *item, size_t place);
void batches_free(struct wsd_client *client);

/* --- plain.c ----------------------------------------------------------------------------------------------------- */

void plain_forget(struct wsd_client *client); /* what was gathered is never sent: the connection is over */

/* --- lane.c ------------------------------------------------------------------------------------------------------ */

void lane_free(struct wsd_client *client); /* the handle goes; every request has been closed */
