/* SPDX-License-Identifier: Apache-2.0
 *
 * peer.h: one connection, and the calls that are open on it. [loop]
 */
#pragma once

#include "base/buffer.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/freelist.h"
#include "frontend/frontend.h"
#include "frontend/handshakes.h"
#include "frontend/handover.h"
#include "frontend/share.h"
#include "proto/codec.h"
#include "proto/frame.h"

#define PEER_OPENS  1024u /* OPEN sent and not answered */
#define PEER_ARENAS 8u
#define PEER_FDS    16u /* descriptors received and not yet claimed by their frames */
/* bytes that were read and not handled: half a frame, and what one read brings */
#define PEER_IN_MAX (FRAME_MAX + 256u * 1024u)
/* SCM_MAX_FD: as many as come with one message, since the kernel would close those beyond on the loop */
#define PEER_FDS_AT_ONCE 253u

struct frontend {
    struct frontend_options options;
    struct codec *codec;
    struct list peers, listeners;
    struct list closing; /* peers whose connection has gone, while some of their calls are still open */
    uint64_t n_closing;
    uint32_t closes; /* calls, or items of arrays, that may be closed in this turn */
    /* the only one that was written to, all that there was, and it has nothing open; NULL: none since */
    struct peer *answered;
    uint32_t calm, n_calm; /* frontend_read_on(): so often it was left out after the last miss; so often it still is */
    uint32_t n_peers;
    struct shares shares; /* share.c: of this turn of the loop */
    struct hash users;    /* quota.c: those that have a connection */
    uint64_t n_admitted;  /* peers that are counted there; the others are about to be told that they are too many */
    uint64_t n_unread;    /* bytes in the outputs of those */
    uint64_t next_peer;
    struct hash calls; /* by peer and tag */
    struct freelist free_calls;
    struct list paused;           /* peers that were refused too much of late, */
    struct event *pause_timer;    /* and when they are looked after */
    struct event *accept_timer;   /* no descriptors left: a pause before accepting again */
    struct buffer spare;          /* for the next connection that writes: one that is idle has none of its own */
    uint8_t *scratch;             /* what is read goes here first; a connection keeps only half frames */
    uint64_t n_rules;             /* how often there were rules of access; 1: those of the start */
    struct remote *remote;        /* NULL: no clients of other machines */
    struct handshakes handshakes; /* connections of those that have not proved who they are */
    int max_fd;                   /* the highest descriptor that a connection may have: executors need some too */
};

/* Two descriptors on their way to a client, with the first byte of their frame. */
#define PEER_SENDING 4u
struct peer_sending {
    uint64_t at; /* position in the stream of sent bytes */
    int fds[2];
};

#define PEER_CANCELLED 8u

struct peer {
    struct list link;
    struct list dirty; /* share->marked */
    struct frontend *frontend;
    struct frontend_user *user; /* who it is counted for; NULL: for nobody */
    struct share *share;        /* of that user, or of strangers */
    struct list ready;          /* share->ready: it has something to handle */
    uint64_t number;
    int fd;
    uint32_t uid, gid;
    uint32_t rights;    /* 1 << enum access_right, */
    uint64_t rights_of; /* by these rules: access.c */
    int32_t pid;
    struct remote_peer *remote; /* NULL: of this machine */
    bool greeted, reading, failed, listing;
    bool closed;  /* in frontend->closing: nothing is sent */
    bool drained; /* all that the client sent has been read, and no more can come */
    bool timed;   /* half_timer runs */
    bool held;    /* `in` is not to be added to: a frame there waits for room in `out`, or for its user's share */
    bool readable, writable; /* the kernel has said so, and it was not served since */
    bool parked;             /* readable, and waits for its turn: the kernel is not asked meanwhile */
    bool watched;            /* read_event waits */
    bool blocked;            /* write_event waits, or it is writable: nothing is sent before its turn */
    struct directory *directory;
    uint32_t window;   /* of output, for new calls */
    uint64_t features; /* of both */
    uint64_t sent;     /* bytes, since the beginning */
    struct peer_sending sending[PEER_SENDING];
    uint32_t n_sending;
    struct buffer in, out;
    struct event *read_event, *write_event, *half_timer;
    struct list calls;
    uint64_t n_unread;    /* of `out`, as it is counted for the user */
    struct list stalled;  /* calls that wait for room in out, */
    struct list later;    /* and those that go on with their user's next share */
    struct list gathered; /* array.c: what is to be sent with the next write */
    int fds[PEER_FDS];
    uint32_t trace;          /* that ends with the connection; 0: none */
    uint32_t n_refused;      /* requests, since it was last read from */
    uint64_t refused_usec;   /* when those before would have had their turn, at one each REFUSAL_USEC; 0: long ago */
    struct list paused;      /* frontend->paused: nothing is read for a moment */
    uint32_t n_fds, n_opens; /* n_opens: OPEN sent and not answered */
    uint32_t n_arenas;
    /* tags of the last batches that ended by a cancel: SUBMITs may still come for them */
    uint32_t cancelled[PEER_CANCELLED], n_cancelled;
};

/* Its descriptor is the frontend's, also where that fails. remote: of another machine. ret_peer may be NULL. */
int peer_new(struct frontend *f, int fd, bool remote, struct peer **ret_peer);
struct peer *peer_free(struct peer *p);
/* The connection ends now; the peer and its calls go in this turn of the loop and the next ones. */
void peer_close(struct peer *p);
/* Puts a frame into the output. */
void peer_send(struct peer *p, const struct msg *msg, uint32_t tag, const void *body, size_t body_size);
void peer_mark(struct peer *p); /* it is looked at before the end of the turn */
/* Does the next piece of work: a write, or the frames of one read. True: there is more. */
bool peer_serve(struct peer *p);
void peer_served(struct peer *p); /* it has nothing more to do: the kernel says when it has */
/* The same with two descriptors, which are copied. False: there is no room for them now, and nothing was sent. */
bool peer_send_fds(struct peer *p, const struct msg *msg, uint32_t tag, const int fds[2]);
/* The descriptor that came with the frame which is being handled; -1: none did. The caller's. */
int peer_take_fd(struct peer *p);
/* 0: when is not known */
void peer_refuse(struct peer *p, uint32_t tag, uint32_t code, const char *text, uint64_t retry_usec);
void peer_error(struct peer *p, uint32_t tag, uint32_t code, const char *text);
/* The connection broke a rule: it is told why, and closed at the end of the turn. */
__attribute__((format(printf, 2, 3))) void peer_fail(struct peer *p, const char *format, ...);
bool peer_full(const struct peer *p);
/* What another wsd had read of a frame that is not whole. */
void peer_take_input(struct peer *p, const uint8_t *data, size_t size);

void listeners_close(struct frontend *f); /* listener.c */

/* quota.c. Counts the connection, or gives the words of a refusal. 0 or -ENOMEM. */
int quota_take(struct peer *p, const char **ret_refusal);
void quota_give_back(struct peer *p);
/* Another open request of a connection that is counted: NULL, or the words of a refusal. */
const char *quota_request(struct peer *p);
void quota_request_ended(struct peer *p);
void quota_output(struct peer *p);       /* what is in its output has changed */
bool quota_unread(const struct peer *p); /* its user has not read as much as he may leave */

void arrays_flush(struct peer *p); /* array.c: puts into the output what was gathered */

/* dispatch.c */
uint32_t dispatch_cost(uint16_t type); /* units of share.h, at least, beside those of its bytes and of the answer */
void dispatch(struct peer *p, const struct frame *frame);
void dispatch_room(struct peer *p);    /* the output has room again */
void calls_deinit(struct frontend *f); /* none is open */
/* Its calls go, *budget of them at most. True: none is left. */
bool dispatch_closed(struct peer *p, uint32_t *budget);
void dispatch_later(struct peer *p); /* a piece of a call that has much to do, if there is one */
/* A connection that another wsd has greeted, and a request of it that is open. False: it cannot go on, and is
 * closed. */
bool dispatch_take(struct peer *p, const struct handover_peer *k, const char *directory);
void dispatch_take_call(struct peer *p, const struct handover_call *k);
