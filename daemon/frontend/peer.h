/* SPDX-License-Identifier: Apache-2.0
 *
 * peer.h: one connection and its open calls. [loop]
 */
#pragma once

#include "base/buffer.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/slab.h"
#include "far-end/far-end.h"

#include "frontend/acting.h"
#include "frontend/actions.h"
#include "frontend/frontend.h"
#include "frontend/handshakes.h"
#include "frontend/refusals.h"
#include "frontend/share.h"
#include "proto/codec.h"
#include "proto/frame.h"

#define PEER_OPENS  1024u /* OPEN sent and not answered */
#define PEER_ARENAS 8u
/* descriptors of one frame: SUBMIT brings them for input and output */
#define PEER_FRAME_FDS 2u
#define PEER_FDS       16u /* descriptors received that no frame has claimed yet */
/* bytes that were read and not handled: half a frame, and one read */
#define PEER_IN_MAX (FRAME_MAX + 256u * 1024u)
/* SCM_MAX_FD: the most that come with one message; the kernel would close those beyond on the loop */
#define PEER_FDS_AT_ONCE 253u

/* What connections do not know: requests. */
struct peer_ops {
    bool (*asks)(uint16_t type);     /* see share_ask() */
    uint32_t (*cost)(uint16_t type); /* least cost in units of share.h, without that of its bytes and of the answer */
    /* False: it has only begun, and the next share of its user goes on with it, before any other frame. */
    bool (*request)(struct peer *p, const struct frame *frame);
    void (*gathered)(struct peer *p); /* puts what was gathered into the output */
    void (*room)(struct peer *p);     /* the output has room again */
    void (*later)(struct peer *p);    /* does a piece of a request that has much to do, if there is one */
    bool (*forget)(struct peer *p, uint32_t *budget); /* frees at most *budget of its requests. True: none is left */
};

struct frontend {
    struct frontend_options options;
    const struct peer_ops *ops;
    struct codec *codec;
    struct list peers, listeners;
    struct list closing; /* peers that have lost their connection while some of their calls are open */
    uint64_t n_closing;
    /* the only peer that was written to, completely, and that has nothing open; NULL: none since */
    struct peer *answered;
    /* frontend_read_on(). backoff: answers to skip after the last miss; n_backoff: those still to skip */
    uint32_t backoff, n_backoff;
    uint32_t n_peers;
    struct shares shares; /* share.c: the shares of this turn */
    struct hash users;    /* quota.c: users that have a connection */
    uint64_t n_admitted;  /* peers counted there; the others are about to be refused, being too many */
    uint64_t n_unread;    /* bytes in the outputs of counted peers */
    uint64_t next_peer;
    struct hash calls; /* by peer and tag */
    struct slab call_cells;
    struct refusals refusals;
    struct event *accept_timer;   /* no descriptors left: a pause before accepting again */
    struct buffer spare;          /* for the next connection that writes; an idle one has no buffer */
    uint8_t *scratch;             /* reads go here first; a connection keeps only half frames */
    uint64_t n_rules;             /* number of sets of access rules so far; 1: those of the start */
    struct remote *remote;        /* NULL: no clients of other machines */
    struct handshakes handshakes; /* connections that are not authenticated yet */
    struct actions actions;       /* the last ones of administrators and of persons */
    struct actings actings;       /* look-ups of users that connections are to act for */
    int max_fd;                   /* the highest descriptor that a connection may have; executors need some too */
};

/* Descriptors on their way to a client, with the first byte of their frame. */
#define PEER_SENDING     4u
#define PEER_SENDING_FDS 3u
struct peer_sending {
    uint64_t at; /* position in the stream of sent bytes */
    uint32_t n;
    int fds[PEER_SENDING_FDS];
};

#define PEER_CANCELLED 8u

struct peer {
    struct list link;
    struct list dirty; /* share->marked */
    struct frontend *frontend;
    struct frontend_user *user; /* the user that it counts for; NULL: not counted */
    struct share *share;        /* the share of that user, or of strangers */
    struct list ready;          /* in share->ready: it has something to handle */
    uint64_t number;
    struct far_end *far; /* NULL: of another machine */
    int fd;              /* the same */
    uint32_t uid, gid;
    uint32_t rights;    /* 1 << enum access_right */
    uint64_t rights_of; /* the set of rules that `rights` came from: access.c */
    int32_t pid;
    struct remote_peer *remote; /* NULL: of this machine */
    struct acting *acting;      /* the user that it acts for, or is to act for; NULL: it acts for its own */
    const struct local_user
        *as; /* its user, where that is not the one of its socket; NULL: the socket says its groups */
    bool greeted, reading, failed, listing;
    bool closed;             /* in frontend->closing: nothing is sent to it */
    bool drained;            /* everything that the client sent has been read, and no more can come */
    bool timed;              /* half_timer runs */
    bool held;               /* `in` must not grow: a frame there waits for room in `out`, or for its user's share */
    bool begun;              /* the frame there has begun */
    bool readable, writable; /* reported by the kernel and not served since */
    bool parked;             /* readable, and waits for its turn; the kernel is not asked meanwhile */
    bool watched;            /* read_event waits */
    bool looks;              /* the user that it is to act for is being looked up: nothing is handled meanwhile */
    bool blocked;            /* write_event waits, or it is writable; nothing is sent before its turn */
    struct directory *directory;
    char *person;      /* that its client names: serve-actions.c; NULL: none was named */
    uint32_t window;   /* of output, for new calls */
    uint64_t features; /* features of both sides */
    uint64_t sent;     /* bytes sent since the beginning */
    struct peer_sending sending[PEER_SENDING];
    uint32_t n_sending;
    struct buffer in, out;
    struct event *read_event, *write_event, *half_timer;
    struct list calls;
    uint64_t n_held;      /* bytes that wait for an ACCEPTED before them: serve-array.c */
    uint64_t n_unread;    /* bytes of `out` and held ones, as counted for the user */
    struct list stalled;  /* calls that wait for room in out */
    struct list later;    /* calls that continue with their user's next share */
    struct list gathered; /* serve-array.c: output for the next write */
    int fds[PEER_FDS];
    uint32_t trace;          /* number of a trace that ends with the connection; 0: none */
    uint32_t n_refused;      /* requests refused since it was last read from */
    uint64_t refused_usec;   /* when earlier refusals are paid off, at one each REFUSAL_USEC; 0: long ago */
    struct list paused;      /* in refusals.paused: nothing is read for a moment */
    uint32_t n_fds, n_opens; /* n_opens: OPEN sent and not answered */
    uint32_t n_arenas;
    /* tags of the last batches that a cancel ended: SUBMITs may still come for them */
    uint32_t cancelled[PEER_CANCELLED], n_cancelled;
};

/* Makes a connection. Takes the descriptor, on failure too. remote: of another machine. ret_peer may be NULL. */
int peer_new(struct frontend *f, int fd, bool remote, struct peer **ret_peer);
struct peer *peer_free(struct peer *p);
/* Ends the connection now, and frees it with at most *budget of its calls. False: that was not enough, and calling it
 * again goes on. */
bool peer_close(struct peer *p, uint32_t *budget);
/* Puts a frame into the output. */
void peer_send(struct peer *p, const struct msg *msg, uint32_t tag, const void *body, size_t body_size);
/* The same of whole frames that were encoded before. */
void peer_send_frames(struct peer *p, const void *data, size_t size);
/* Does the next piece of work: a write, or the frames of one read. True: there is more. False: nothing, until the
 * kernel reports something. */
bool peer_serve(struct peer *p);
/* Writes what there is, unless it waits for the socket already; then what waited for room goes on. */
void peer_flush(struct peer *p);
/* Reads outside of its turn. False: there was nothing. */
bool peer_read_on(struct peer *p);
/* As peer_send(), with n descriptors, at most PEER_SENDING_FDS, which are copied. False: there is no room for them now,
 * and nothing was sent. */
bool peer_send_fds(struct peer *p, const struct msg *msg, uint32_t tag, const int *fds, uint32_t n);
/* Returns the descriptor that came with the frame being handled, which the caller then owns; -1: none came. */
int peer_take_fd(struct peer *p);
/* retry_usec 0: the time is not known */
void peer_refuse(struct peer *p, uint32_t tag, uint32_t code, const char *text, uint64_t retry_usec);
void peer_error(struct peer *p, uint32_t tag, uint32_t code, const char *text);
/* Its user may not connect, or not any more: says so in the log, tells it, and closes it at the end of the turn. */
void peer_reject(struct peer *p, uint32_t code, const char *why);
/* Lets it in as the user that it is by now, or rejects it. Outside of a share. Returns 0 or -ENOMEM. */
int peer_admit(struct peer *p);
/* Handles what has come while it looked (looks), and what comes from now on. */
void peer_go_on(struct peer *p);
/* The connection broke a rule: tells it why, and closes it at the end of the turn. */
__attribute__((format(printf, 2, 3))) void peer_fail(struct peer *p, const char *format, ...);
bool peer_full(const struct peer *p);
/* There is something that the client has not got. */
bool peer_sending(const struct peer *p);
/* Adds what another wsd had read of an incomplete frame. */
void peer_take_input(struct peer *p, const uint8_t *data, size_t size);
