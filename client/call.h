/* SPDX-License-Identifier: Apache-2.0
 *
 * call.h: jobs in flight: input out, output in, one end each. One thread a handle.
 */
#pragma once

#include "base/buffer.h"
#include "base/slab.h"
#include "base/heap.h"
#include "base/list.h"
#include "connection.h"
#include "wsd/client.h"
#include "proto/records.h"

#define CALL_ROOM        64u
#define LARGE_OUTPUT     (256u * 1024u) /* its room is kept for the next output as large, .. */
#define SPARE_OUTPUT_MAX (64u << 20)    /* .. if it is at most this */

struct call_unit;

/* What calls and arrays do not know of what they are part of. A NULL: it never has to. */
struct call_unit_ops {
    /* An array: the tag of the frames about this call, which it is sent for. */
    uint32_t (*tag)(struct wsd_call *call);
    /* A slot of the lane, in place of a frame: its job is to stop. */
    void (*cancel)(struct wsd_call *call);
    /* The call's end is about to be told; error as for done. It is no part from then on. */
    void (*done)(struct wsd_call *call, int error);
    /* A batch: the same for an item of an array that is no call. */
    void (*item_done)(struct call_unit *unit);
    /* A batch: what the records of its jobs leave out. */
    void (*describe)(const struct call_unit *unit, struct msg_job *ret);
    /* A batch: why an array of it was refused, if it was itself the reason. */
    void (*refusal)(const struct call_unit *unit, struct msg_end *refusal);
};

/* What a call may be part of: an array, a slot of the lane, a batch. */
struct call_unit {
    const struct call_unit_ops *ops;
};

/* When a job that has a deadline is given up. */
struct call_deadline {
    struct heap_node node; /* in deadlines, until that time or the end of the call; its key: the time */
    struct wsd_call *call;
    bool listed;
};

#define REPEATS_MAX 5u /* of a call that may have run each time before */

/* What a call that may be submitted again is submitted with. */
struct call_repeat {
    struct list link; /* call_set.parked, while it waits for a connection */
    uint64_t number;  /* it was parked as the how-maniest */
    struct wsd_call *call;
    struct wsd_submit submit; /* points into room; without the two flags that say so */
    size_t size;              /* of room */
    bool twice;               /* it may run twice, or wsd sees that it does not */
    bool may_have_run;        /* wsd may have had it on a connection before */
    uint32_t n;               /* connections on which that was so */
    char room[] __attribute__((aligned(16)));
};

/* What has come back of a job. */
struct call_result {
    struct wsd_job_info info; /* of its end; before that, of a call that leaves: the id */
    char *info_texts;
    uint64_t progress_done, progress_total; /* of an item, which come before its end */
    struct buffer output;                   /* gathered, or waiting while held; or: */
    size_t small_output;                    /* bytes in output_room */
    struct buffer telling;                  /* what the user's output callback is given, if it was kept */
    /* What is small needs no block of its own. Not zeroed. */
    char texts_room[CALL_ROOM], output_room[CALL_ROOM];
};

/* Programs have many in flight, so what only some have, or have late, is a block of its own. */
struct wsd_call {
    struct request request;
    struct list link, feeding;
    struct list stoppable; /* the list of that name of its batch */
    struct wsd_client *client;
    struct wsd_callbacks callbacks;
    bool attached, detached, durable, stream, accepted, input_ended, cancelled;
    bool held;       /* the user wants no output now */
    bool delivering; /* the user's output callback is running */
    bool has_job;    /* DONE has come; result has its info */
    bool torn;       /* a callback of it was left by an exception or longjmp(): what comes behind it is due */
    bool done, freed;
    bool given_up;  /* done was told of its deadline: the user hears no more of it */
    bool large;     /* LARGE_OUTPUT or more was gathered, or waited while held */
    bool forgotten; /* wsd was told: END is the last frame */
    bool quiet;     /* wsd was asked for no ACCEPTED */
    bool leaves;    /* WSD_SUBMIT_LEAVE: it ends when the job is accepted */
    bool left;      /* wsd knows that */
    bool over;      /* its output is larger than output_max */
    uint32_t argc;
    const char *args; /* one behind the other, each with its NUL: args_room, or owned */
    size_t args_size;
    struct call_unit *batch; /* that it belongs to; NULL: none, or it has left it */
    union {
        uint64_t order;             /* in that */
        struct call_repeat *repeat; /* with `repeats`, which those of batches do not have */
    };
    struct call_unit *unit; /* the array or slot that it is in as item `index`, without a request of its own; NULL */
    uint32_t index;
    int error, exit;
    bool repeats; /* it may be submitted again */
    bool shown;   /* the user has had a part of its output */
    bool spared;  /* result is a block without content, but for the id of a call that was accepted */
    uint64_t retry_usec;
    char *text;
    const uint8_t *input; /* the user's; what is left to send */
    size_t input_size;
    uint64_t sent_at; /* wsd may have the job when so much of the stream is sent; UINT64_MAX: it is not put there yet */
    uint64_t input_sent, input_limit;
    uint64_t output_received, output_taken, output_granted;
    uint64_t output_max;            /* 0: any */
    struct call_result *result;     /* NULL: nothing has come that is kept */
    struct call_deadline *deadline; /* NULL: as the handle says */
    char args_room[CALL_ROOM];      /* not zeroed */
};

/* The calls of a handle. */
struct call_set {
    struct list open;      /* struct wsd_call: all but the graves */
    struct list feeding;   /* those with input left that the library sends by itself */
    size_t n_open;         /* without their end, freed or not */
    struct list graveyard; /* freed ones, destroyed by calls_reap() */
    struct list parked;    /* struct call_repeat: they wait for a connection, oldest first */
    uint64_t n_parked;     /* calls, since the beginning */
    size_t parked_bytes;   /* of their copies */
    bool parked_ends;      /* some of them were cancelled, which is to be told */
    struct heap deadlines; /* struct call_deadline */
    struct slab cells, result_cells;
    struct buffer spare; /* room of a large output, without bytes, until a call ends that had no use for it */
};

void calls_init(struct wsd_client *client);
void calls_free(struct wsd_client *client);        /* as the user would, each that is left */
void calls_mute(struct wsd_client *client);        /* makes no callback any more */
void calls_lose_parked(struct wsd_client *client); /* ends them: there will be no connection */
void calls_deinit(struct wsd_client *client);
/* Sends input as far as windows and buffer allow. */
void calls_pump(struct wsd_client *client);
void calls_reap(struct wsd_client *client); /* destroys freed ones */
/* No callback is under way any more: some were left by an exception or longjmp(). */
void calls_tear(struct wsd_client *client);
void calls_mend(struct wsd_client *client); /* does what comes behind those */
/* Frees the spare room: a call had no use for it. */
void calls_drop_spare(struct wsd_client *client);

/* One that nothing is sent of yet, and that is in no list. 0, -EINVAL, -ENOMEM: said. */
int call_new(struct wsd_client *client, const struct wsd_callbacks *callbacks, struct wsd_call **ret_call);
void call_destroy(struct wsd_call *call);
/* Its result, which is there from now on. NULL: no memory. */
struct call_result *call_result(struct wsd_call *call);
/* Has the room for its result, so that call_result() does not fail. 0 or -ENOMEM. */
int call_spare_result(struct wsd_call *call);
/* NULL: nothing has come. */
static inline struct call_result *call_has_result(const struct wsd_call *call)
{
    return call->spared ? NULL : call->result;
}
/* It is given up at that time (CLOCK_MONOTONIC). 0 or -ENOMEM. */
int call_set_deadline(struct wsd_call *call, uint64_t usec);
uint64_t calls_deadline(const struct wsd_client *client); /* the first of them; UINT64_MAX: there is none */
/* Gives up the calls that are past their deadline: cancels each, and tells it, until so much was told of all
 * (n_told). */
void calls_expire(struct wsd_client *client, uint64_t stop_at);

/* It is in flight from now on. */
void call_is_open(struct wsd_call *call);
/* What frames say of it, its own or those of its array. */
void call_is_accepted(struct wsd_client *client, struct wsd_call *call, const struct msg_id *id);
void call_has_output(struct wsd_client *client, struct wsd_call *call, const void *data, size_t size);
/* With the last of its output. */
void call_has_ended(struct wsd_client *client, struct wsd_call *call, const struct msg_job *job, const void *data,
                    size_t size);
void call_is_refused(struct wsd_client *client, struct wsd_call *call, const struct msg_error *error);
/* Any other frame of a call. */
void call_told(struct wsd_client *client, struct wsd_call *call, const struct msg *msg);
void call_lost(struct wsd_client *client, struct wsd_call *call); /* the connection is over */
/* It has not ended, and never will as things are. True: it is submitted again on the next occasion, and is no part of
 * anything until then. */
bool call_again(struct wsd_call *call, bool may_have_run);
/* It waits for a connection. */
void call_park(struct wsd_call *call);
void call_unpark(struct wsd_call *call);
static inline bool call_is_parked(const struct wsd_call *call)
{
    return call->repeats && !list_empty(&call->repeat->link);
}
void call_fail(struct wsd_call *call, int error);  /* with the words of the client */
int call_say_too_large(struct wsd_client *client); /* more than output_max: returns what done is told */
/* The words for that, and what done is told. sent_at: of its submit */
int call_say_lost(struct wsd_client *client, uint64_t sent_at, bool durable);
