/* SPDX-License-Identifier: Apache-2.0
 *
 * peer.h: the other end, scripted: a real Unix socket and real frames, played by the test itself. The handshake runs in
 * a thread, since wsd_client_open() blocks; from then on one thread plays both ends: peer_expect() lets the library
 * process until the frame is there.
 */
#pragma once

#include <check.h>
#include <pthread.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "proto/codec.h"
#include "wsd/client.h"

#define PEER_TIMEOUT_USEC 10000000u

enum peer_greeting {
    PEER_WELCOME,
    PEER_WRONG_VERSION,  /* WELCOME with a version that the client did not offer */
    PEER_REFUSE_VERSION, /* ERROR 76 */
    PEER_REFUSE_BUSY,    /* ERROR 75 */
    PEER_GARBAGE,
    PEER_OTHER_HEADER, /* magic right, another version of the fixed header */
    PEER_CLOSE,
    PEER_SILENCE,
    PEER_WRONG_FRAME, /* a JOB in place of WELCOME */
    PEER_WELCOME_BYTEWISE,
};

struct peer {
    char directory[64], path[96];
    int listen_fd, fd;
    pthread_t thread;
    enum peer_greeting greeting;
    uint32_t window;   /* of input, in WELCOME */
    uint64_t features; /* there too; 0 where nothing else is said */
    struct buffer in;
    size_t used; /* of in, by the frame that is in hand */
    struct codec *codec;
    struct frame frame; /* the last one expected */
    struct msg msg;
    int received_fd; /* of the last frame; -1: none came with it */
    int fds[64];     /* arrived, their frames are not taken yet */
    size_t n_fds;
    struct wsd_client *client; /* the other end, where it is open */
    struct msg hello;
    char hello_directory[CODEC_PATH_MAX], hello_user[CODEC_TEXT_MAX];
};

void peer_init(struct peer *peer, enum peer_greeting greeting, uint32_t window);
void peer_deinit(struct peer *peer);
/* wsd_client_open() with the peer at the other end. */
int peer_open(struct peer *peer, struct wsd_client **ret_client, uint64_t timeout_usec);
/* Both, of a wsd with these features, which must succeed. */
void peer_start(struct peer *peer, struct wsd_client **ret_client, uint32_t window, uint64_t features);
/* Accepts a client that is connecting (NULL: in another thread), takes its HELLO, and greets it. */
void peer_accept(struct peer *peer, struct wsd_client *client);

void peer_send(struct peer *peer, const struct msg *msg, uint32_t tag, const void *body, size_t body_size);
void peer_send_raw(struct peer *peer, const void *data, size_t size);
void peer_send_empty(struct peer *peer, uint16_t type, uint32_t tag);
void peer_send_error(struct peer *peer, uint32_t tag, uint32_t code, const char *text);
void peer_send_accepted(struct peer *peer, uint32_t tag);
void peer_send_output(struct peer *peer, uint32_t tag, uint64_t offset, const void *data, size_t size);
void peer_send_done(struct peer *peer, uint32_t tag, uint32_t state, uint32_t exit, const char *error);
void peer_close(struct peer *peer);

/* Processes the client (if any) until a frame of this type is there; it stays in peer->frame and peer->msg until the
 * next call. */
void peer_expect(struct peer *peer, struct wsd_client *client, uint16_t type);
/* Whether there is any frame after the client had its turn. */
bool peer_quiet(struct peer *peer, struct wsd_client *client);

/* How many descriptors this process has. */
unsigned count_fds(void);
