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

#include <stdarg.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/freelist.h"
#include "failure.h"
#include "proto/codec.h"
#include "text.h"
#include "tls/tls.h"
#include "wsd/client.h"

#define PROTOCOL_VERSION_MIN 1u
#define PROTOCOL_VERSION_MAX 1u
#define OUTPUT_WINDOW        (1024u * 1024u)     /* bytes of output that wsd may send ahead, a call */
#define OUTPUT_CREDIT        (OUTPUT_WINDOW / 4) /* granted in pieces of at least this */
#define LARGE_OUTPUT         (256u * 1024u)      /* its room is kept for the next output as large, .. */
#define SPARE_OUTPUT_MAX     (64u << 20)         /* .. if it is at most this */
#define OUT_HIGH             (1024u * 1024u)     /* bytes waiting to be sent above which no input is taken */
#define OPENED_MAX           64u                 /* descriptors waiting to be sent */
#define OPENED_ANSWERS_MAX   4096u /* unsent answers to OPEN: a wsd that asks on without reading is broken */
#define CALL_ROOM            64u
#define QUERY_TIMEOUT_USEC   (30u * 1000000u)
#define CONNECT_TIMEOUT_USEC (5u * 1000000u)

/* Something that waits for frames with its tag. */
struct request {
    struct hash_link link; /* in client->requests, by tag, while `listed` */
    struct list open;      /* in client->open */
    uint32_t tag;
    bool listed;
    void (*frame)(struct wsd_client *client, struct request *request, const struct frame *frame, const struct msg *msg);
    void (*broken)(struct wsd_client *client, struct request *request); /* must close it */
};

/* Storage that a frame in the hands of a callback still points to. */
struct pin {
    struct pin *next;
    struct buffer in;
    struct codec *codec;
};

struct wsd_arena {
    struct request request;    /* ARENA_OPEN, while wsd has it */
    struct wsd_client *client; /* NULL: wsd has dropped it */
    void *data;
    size_t size;
    bool there;
    int error; /* why it is gone */
};

struct opened {
    uint64_t at; /* position in the stream of sent bytes of the frame that it goes with */
    int fd;
};

/* Calls of one description, gathered until something else is sent. They then go in one ARRAY, or as a SUBMIT if there
 * is only one. */
struct gathering {
    struct wsd_batch *batch; /* NULL: of none */
    struct msg submit;       /* of the ARRAY, but for QUIET and the number of items */
    size_t body_max;
    bool leaves;           /* WSD_SUBMIT_LEAVE */
    struct map *map;       /* the map that its items belong to; they are no calls then. NULL: none */
    struct array *pending; /* NULL: there is none */
};

struct wsd_client {
    int fd, directory_fd;
    char directory[CODEC_PATH_MAX];
    struct buffer in, out;
    uint64_t sent;     /* bytes, since the beginning */
    uint64_t n_frames; /* handled, since the beginning */
    struct opened opened[OPENED_MAX];
    size_t n_opened, n_answers;
    struct codec *codec;
    bool busy; /* a frame that is being handled points into in or codec */
    struct pin *pins;
    struct hash requests;
    struct list open;       /* struct request, oldest first */
    struct list calls;      /* struct wsd_call: all but the graves */
    struct list feeding;    /* calls with input left that the library sends by itself */
    struct list batches;    /* struct wsd_batch */
    struct list unsent;     /* struct array, as they began */
    struct gathering plain; /* of wsd_client_submit() */
    char *plain_texts;      /* that it points to */
    struct freelist free_calls;
    struct buffer spare_output; /* room of a large output, without bytes, until a call ends that had no use for it */
    struct array *spare_array;  /* with its room; NULL */
    struct list graveyard;      /* freed calls, destroyed by client_reap() */
    unsigned depth;             /* callbacks under way, and waits that look at a call */
    uint32_t next_tag;
    uint64_t n_lost;                     /* connections before this one: what was opened on one of them is no more */
    bool welcomed, send_failed, leaving; /* leaving: wsd said GOODBYE */
    uint32_t window;                     /* of input */
    int broken;                          /* negative errno once the connection is over */
    int broken_exit;
    char reason[512]; /* words for that */
    struct failure failure;
    char daemon_version[CODEC_TEXT_MAX];
    char *job_texts;   /* of the last wsd_client_job() */
    uint64_t features; /* of both */
    struct lane *lane; /* NULL until the first wsd_call() */
    int received[2];   /* descriptors that came for it */
    size_t n_received;
    bool remote; /* where it is: on another machine, by the texts of tls_place; else at this address */
    struct sockaddr_un address;
    struct wsd_tls tls_place;      /* owned; NULL: by the environment */
    const struct tls_ops *tls_ops; /* of a wsd on another machine; else NULL, as are these: */
    struct tls_context *tls_context;
    struct tls *tls;
};

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
    struct wsd_batch *batch; /* that it belongs to; NULL: none, or it has left it */
    uint64_t order;          /* in that */
    struct array *array;     /* it is in this one, as item `index`, and has no request of its own; NULL */
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

/* --- client.c ---------------------------------------------------------------------------------------------------- */

/* Ends the connection: every open request hears of it. error is what process() returns from now on. */
__attribute__((format(printf, 4, 5))) void client_break(struct wsd_client *client, int error, int exit,
                                                        const char *format, ...);
/* client_break() because wsd does not keep to the protocol. */
void client_break_protocol(struct wsd_client *client, const char *what, uint16_t type);
/* 0, or -EOPNOTSUPP with words where wsd does not know of durable jobs, keys and retries. */
int client_wants_store(struct wsd_client *client);
/* 0, or -EOPNOTSUPP with words where wsd knows no filters. */
int client_wants_where(struct wsd_client *client);
int client_wants_batches(struct wsd_client *client);
int client_wants_time(struct wsd_client *client); /* the same for delays, times in the queue and schedules */
/* Likewise of jobs that run after others, and of tags. */
int client_wants_order(struct wsd_client *client);
int client_wants_limits(struct wsd_client *client);
/* Sets the error text for `error`, or that of the connection's end if it is over. Returns error. */
int client_failed(struct wsd_client *client, int error);
/* Puts a frame into the out buffer, behind what was gathered. 0, -ENOMEM, or what ended the connection. */
int client_send(struct wsd_client *client, const struct msg *msg, uint32_t tag, const void *body, size_t body_size);
/* The same, before what was gathered. */
int client_put(struct wsd_client *client, const struct msg *msg, uint32_t tag, const void *body, size_t body_size);
/* client_send() with a descriptor, which it takes in any case; -EAGAIN also where too many are on their way. */
int client_send_fd(struct wsd_client *client, const struct msg *msg, uint32_t tag, int fd);
/* Sends what was gathered, as far as the socket takes it. Makes no callback. */
void client_send_early(struct wsd_client *client);
/* Gives the request a tag and makes it heard. 0 or -ENOMEM. */
int client_request_open(struct wsd_client *client, struct request *request);
/* No more frames for it. */
void client_request_unlist(struct wsd_client *client, struct request *request);
/* Unlists it; the end of the connection does not reach it either. */
void client_request_close(struct wsd_client *client, struct request *request);
/* Sends, waits until the deadline (CLOCK_MONOTONIC; UINT64_MAX: none), receives. 0 (also after a signal), -ETIMEDOUT,
 * or what ended the connection. */
int client_step(struct wsd_client *client, uint64_t deadline_usec);
uint64_t client_deadline(uint64_t timeout_usec);
/* Destroys freed calls, unless a callback or a wait still uses them. */
void client_reap(struct wsd_client *client);

/* --- call.c ------------------------------------------------------------------------------------------------------ */

/* Sends input of calls as far as windows and buffer allow. */
void call_pump(struct wsd_client *client);
void call_destroy(struct wsd_call *call);
/* Frees the spare room: the call had no use for it, or the handle is freed. */
void call_drop_spare(struct wsd_client *client);
/* All of wsd_client_submit(), as a job of a batch. batch->tag 0: of no batch that wsd knows. */
int call_submit(struct wsd_client *client, const struct wsd_submit *submit, const struct wsd_callbacks *callbacks,
                struct wsd_batch *batch, struct wsd_call **ret_call);
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
/* The same for a call of no batch, if it is similar enough to the others. 1: it is not, or wsd knows no arrays. */
int array_submit_plain(struct wsd_client *client, const struct wsd_submit *submit,
                       const struct wsd_callbacks *callbacks, struct wsd_call **ret_call);
/* The same for an item `place` of g->map. 1: it has to be a call. Else 0 or an error, said. */
int array_submit_bare(struct wsd_client *client, struct gathering *g, const struct wsd_item *item, size_t place);
void arrays_forget(struct wsd_client *client); /* the room that is kept */
int arrays_send(struct wsd_client *client);    /* what was gathered. 0, -ENOMEM, or what ended the connection */
void array_call_done(struct wsd_call *call);
uint32_t array_tag(struct wsd_call *call); /* of the frames about it, which it needs to be sent for */

/* --- batch.c ----------------------------------------------------------------------------------------------------- */

uint32_t batch_tag(const struct wsd_batch *batch); /* 0: wsd does not know it */
/* The call's end is about to be reported; error as for done. */
void batch_call_done(struct wsd_call *call, int error);
/* The same for an item of an array that is no call, and has ended. */
void batch_item_done(struct wsd_batch *batch);
/* Its items need be no calls: array_submit_bare() */
void batch_set_map(struct wsd_batch *batch, struct map *map);
/* Submits item `place` of that map, which is told its end. 0 or an error, said; 1: use wsd_batch_submit(). */
int batch_submit_bare(struct wsd_batch *batch, const struct wsd_item *item, size_t place);
void batch_describe(const struct wsd_batch *batch, struct msg_job *ret); /* what the records of its jobs leave out */
/* Fills in why an array of it was refused, if the batch itself was the reason. */
void batch_refusal(const struct wsd_batch *batch, struct msg_end *refusal);
void batches_free(struct wsd_client *client);

/* --- map.c ------------------------------------------------------------------------------------------------------- */

/* An item that was no call has succeeded; info and output live only during this call. */
void map_ended(struct map *map, size_t index, const struct wsd_job_info *info, const void *output, size_t size);
void map_failed(struct map *map, size_t index, int error); /* the words are the client's */
/* Makes the item a call. 0 or an error, said. */
int map_call(struct map *map, size_t index, struct wsd_call **ret_call);

/* --- remote.c ---------------------------------------------------------------------------------------------------- */

int remote_keep(struct wsd_client *client, const struct wsd_tls *tls); /* its texts; 0 or -ENOMEM */
void remote_forget(struct wsd_client *client);
/* As wsd_client_open_tls(), to the place given to remote_keep(). The handshake comes with the first bytes. */
int remote_connect(struct wsd_client *client, uint64_t deadline_usec);
void remote_disconnect(struct wsd_client *client);
ssize_t remote_receive(struct wsd_client *client, void *data, size_t size); /* as recv() */

/* --- open.c ------------------------------------------------------------------------------------------------------ */

/* Opens a file for wsd on behalf of this call and queues the answer. */
void open_answer(struct wsd_client *client, const struct wsd_call *call, uint32_t tag, const struct msg_open *open);

/* --- lane.c ------------------------------------------------------------------------------------------------------ */

/* Descriptors are awaited: close_received() keeps two. */
bool lane_awaits(const struct wsd_client *client);
void lane_free(struct wsd_client *client); /* the handle goes; every request has been closed */
