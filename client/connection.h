/* SPDX-License-Identifier: Apache-2.0
 *
 * connection.h: the connection of a handle to wsd: bytes, frames, tags, and what both sides know. One thread a handle.
 *
 * Callbacks of the user may call the library, which may process the connection again. So what a frame under way points
 * to (input buffer, codec) is pinned. What callbacks free is kept until no caller uses it: connection_reap().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/list.h"
#include "failure.h"
#include "proto/codec.h"
#include "proto/frame.h"
#include "remote.h"
#include "waiting.h"

#define CONNECTION_VERSION_MIN 1u
#define CONNECTION_VERSION_MAX 1u

#define OUTPUT_WINDOW       (1024u * 1024u)  /* bytes of output that wsd may send ahead, a call */
#define FRAME_FDS           2u               /* descriptors of one frame */
#define OPENED_MAX          64u              /* descriptors waiting to be sent */
#define ANSWER_TIMEOUT_USEC (30u * 1000000u) /* of a question without a time of its own */

struct connection;
struct request;

/* What a kind of request does. */
struct request_ops {
    void (*frame)(struct connection *c, struct request *request, const struct frame *frame, const struct msg *msg);
    void (*broken)(struct connection *c, struct request *request); /* the connection is over; must close it */
};

/* Something that waits for frames with its tag. */
struct request {
    struct hash_link link; /* in requests, by tag, while `listed` */
    struct list open;      /* in the list of that name */
    uint32_t tag;
    bool listed;
    const struct request_ops *ops;
};

/* What a connection does not know: calls. */
struct connection_ops {
    int (*gathered)(struct connection *c); /* sends what is in `gathered`. 0, -ENOMEM, or what ended the connection */
    void (*room)(struct connection *c);    /* the output has room again */
    /* Handles what has come by another way than the socket. True: there may be more at once. False: the notice socket
     * will be readable when there is. */
    bool (*beside)(struct connection *c);
    uint64_t (*beside_due)(struct connection *c); /* when that has to be called in any case (CLOCK_MONOTONIC) */
    /* Does what comes behind callbacks that did not return, if there are any; NULL: they all return. */
    void (*mend)(struct connection *c);
    /* connection_step(), or its like where something waits for the next connection; NULL: nothing ever does. */
    int (*step)(struct connection *c, uint64_t deadline_usec);
    void (*stray)(struct connection *c, uint32_t tag, const struct msg *msg); /* a frame of no open request */
    void (*reap)(struct connection *c);    /* no callback and no wait is under way: frees what was kept for one */
    void (*closing)(struct connection *c); /* its descriptor is about to be closed; NULL: nothing watches it */
    void (*gone)(struct connection *c);    /* frees what was of this connection only, which is about to be closed */
};

/* Storage that a frame in the hands of a callback still points to. */
struct pin {
    struct pin *next;
    struct buffer in;
    struct codec *codec;
};

struct opened {
    uint64_t at; /* position in the stream of sent bytes of the frame that it goes with */
    int fd;
};

struct connection {
    const struct connection_ops *ops;
    struct failure *failure; /* the handle's */
    struct waiting waiting;
    int fd, directory_fd;
    int notice_fd;     /* direct.c: readable when something has come beside the socket; -1: there is none */
    int epoll_fd;      /* of both, which is what the program waits for then; -1: that is fd */
    short in_epoll;    /* the events of fd there */
    bool beside_first; /* in the next turn: the frames of the last one have left no time */
    char directory[CODEC_PATH_MAX];
    char user[CODEC_TEXT_MAX]; /* that it acts for; empty: the own one */
    struct buffer in, out;
    uint64_t sent;     /* bytes, since the beginning */
    uint64_t n_frames; /* handled, since the beginning */
    uint64_t n_told;   /* the same, and callbacks of calls */
    uint64_t stop_at;  /* no further frame is handled when n_told is this; UINT64_MAX: all are */
    bool left;         /* `in` has whole frames, because of that */
    struct opened opened[OPENED_MAX];
    size_t n_opened;
    size_t n_answers; /* open.c: answers since the output was empty */
    struct codec *codec;
    bool busy; /* a frame that is being handled points into in or codec */
    struct pin *pins;
    struct hash requests;
    struct list open;     /* struct request, oldest first */
    struct list gathered; /* array.c: what goes before anything that is sent from now on */
    unsigned depth;       /* callbacks under way, and waits with something of this connection on their stack */
    unsigned n_waits;     /* other waits, which look at a call */
    uint32_t next_tag;
    uint64_t n_lost;                     /* connections before this one: what was opened on one of them is no more */
    bool connecting;                     /* TCP is not connected yet: nothing was said */
    bool welcomed, send_failed, leaving; /* leaving: wsd said GOODBYE */
    uint64_t connect_deadline_usec;      /* of connection_begin(), until it is welcomed */
    uint32_t window;                     /* of input */
    int broken;                          /* negative errno once the connection is over */
    int broken_exit;
    char reason[512]; /* words for that */
    char daemon_version[CODEC_TEXT_MAX];
    uint64_t features; /* of both */
    bool awaits_fds;   /* lane-binding.c: descriptors are to come, */
    int received[3];   /* and these have */
    size_t n_received;
    struct sockaddr_un address; /* where wsd is, unless remote.there */
    struct remote_wsd remote;
};

/* Where wsd is, which the caller sets, is unknown yet. 0 or -ENOMEM. */
int connection_init(struct connection *c, const struct connection_ops *ops, struct failure *failure);
/* Sends what is left, and ends it: every open request hears of it. */
void connection_close(struct connection *c);
/* The connection is another process's: closes the descriptors, and neither sends nor receives. */
void connection_forsake(struct connection *c);
/* No request is open. */
void connection_deinit(struct connection *c);
/* As before the first connection: closes what there is. No request is open. What is of the handle stays. */
void connection_reset(struct connection *c);
/* It cannot be connected, as the failure says: it is over. */
void connection_fail(struct connection *c, int error);

/* Ends the connection: every open request hears of it. error is what connection_process() returns from now on. */
__attribute__((format(printf, 4, 5))) void connection_break(struct connection *c, int error, int exit,
                                                            const char *format, ...);
/* Goes on with that, where a callback did not return. */
void connection_tell_end(struct connection *c);
/* No callback is under way any more: some were left by an exception or longjmp(). */
void connection_tear(struct connection *c);
/* The same because wsd does not keep to the protocol. */
void connection_break_protocol(struct connection *c, const char *what, uint16_t type);
/* Sets the words for `error`, or those of the connection's end if it is over. Returns error. */
int connection_failed(struct connection *c, int error);
/* The same for what ended it. Returns that. */
int connection_broken(struct connection *c);
/* -EAGAIN, said: it is not welcomed yet. */
int connection_not_yet(struct connection *c);
/* 0, or an error, said: it is over, or not welcomed yet. */
int connection_ready(struct connection *c);
/* 0, or -EOPNOTSUPP with words where wsd does not have this FEATURE_. */
int connection_wants(struct connection *c, uint64_t feature);
bool connection_takes_files(const struct connection *c);

/* Gives the request a tag and makes it heard. 0 or -ENOMEM. */
int request_open(struct connection *c, struct request *request);
/* No more frames for it. */
void request_unlist(struct connection *c, struct request *request);
/* Unlists it; the end of the connection does not reach it either. */
void request_close(struct connection *c, struct request *request);

/* Puts a frame into the output, behind what was gathered. 0, -ENOMEM, or what ended the connection. */
int connection_send(struct connection *c, const struct msg *msg, uint32_t tag, const void *body, size_t body_size);
/* The same, before what was gathered. */
int connection_put(struct connection *c, const struct msg *msg, uint32_t tag, const void *body, size_t body_size);
/* Where the stream of bytes ends that was put into the output; `sent` gets there. */
static inline uint64_t connection_position(const struct connection *c)
{
    return c->sent + buffer_size(&c->out);
}
/* connection_send() with a descriptor, which it takes in any case; -EAGAIN also where too many are on their way. */
int connection_send_fds(struct connection *c, const struct msg *msg, uint32_t tag, const void *body, size_t body_size,
                        const int *fds, size_t n);
int connection_send_fd(struct connection *c, const struct msg *msg, uint32_t tag, int fd);
/* Sends what was gathered, as far as the socket takes it. Makes no callback. */
void connection_send_early(struct connection *c);

/* From now on the program waits for a descriptor that stands for the socket and the notice socket. 0, or a negative
 * errno. */
int connection_widen(struct connection *c);
/* Waits for this one beside the socket, in place of the one before. Takes it in any case; -1: for none. notice_fd is -1
 * where that fails. */
void connection_set_notice(struct connection *c, int fd);
/* The contrary, without a word to the kernel: another process may share the two descriptors. */
void connection_narrow(struct connection *c);

/* wsd_client_fd(), _events(), _process() and _flush(). */
int connection_fd(const struct connection *c);
short connection_events(struct connection *c);
int connection_process(struct connection *c);
/* The same, for at most max frames and callbacks, and those behind in the last frame. 1: more is there. */
int connection_process_some(struct connection *c, uint64_t max);
int connection_flush(struct connection *c);
/* Sends, waits until the deadline (CLOCK_MONOTONIC; UINT64_MAX: none), receives. 0 (also after a signal), -ETIMEDOUT,
 * -EINTR (the program wants the wait to end), or what ended the connection. */
int connection_step(struct connection *c, uint64_t deadline_usec);
/* Steps until that is over. As connection_step(); -ETIMEDOUT also where something else comes all the time.
 * *deadline_usec may move meanwhile. */
int connection_await(struct connection *c, const uint64_t *deadline_usec, bool (*over)(const void *arg),
                     const void *arg);
/* When a question that is asked now has waited long enough for its answer. */
uint64_t connection_answer_deadline(const struct connection *c);
/* Sets the words for a wait that has ended with -ETIMEDOUT or -EINTR. Returns error. */
int connection_given_up(struct connection *c, int error);
/* No callback of the handle is under way. */
static inline bool connection_is_idle(const struct connection *c)
{
    return c->depth == 0 && !c->busy;
}
/* There is more to handle that the descriptor does not report. */
bool connection_has_more(const struct connection *c);
/* Has what was kept for callbacks and waits freed, unless one is under way. */
void connection_reap(struct connection *c);
