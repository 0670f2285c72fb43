/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.h: TLS 1.3 with certificates of both sides over a socket that does not block. For wsd and libwsclient.
 *
 * OpenSSL is in a module of its own, which is loaded where TLS is wanted. Other programs neither link nor start it, and
 * a build without it only lacks that file. One thread uses a context and its connections.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TLS_MODULE    "wsd-tls.so"
#define TLS_VERSION   2u /* of struct tls_ops: a module of another version is refused */
#define TLS_ERROR     384u
#define TLS_NAMES_MAX 32u  /* names of a certificate that are looked at */
#define TLS_NAME_MAX  256u /* bytes of a name, with its kind and its NUL; longer ones are ignored */
/* bytes of certificates that the other side may send: even small ones take 15 ms to parse */
#define TLS_CHAIN_MAX (16u * 1024u)
/* reads of the socket in one recv(), two for each record: limits the cost that the other side can cause at once */
#define TLS_READS_MAX 64u
#define TLS_DEPTH_MAX 4 /* certificates between the peer's own and the CA's */

struct tls_context; /* own certificates and trusted ones */
struct tls;         /* a connection */

/* Files in PEM. */
struct tls_options {
    bool server;
    const char *certificate; /* followed by those between it and the CA's */
    const char *key;         /* must be readable by owner and group only */
    const char *ca;          /* the CAs that may sign the other side's certificate */
    const char *crl;         /* lists of revoked certificates, one of each CA; NULL: none is revoked */
};

/* What calls of a connection cost, apart from the bytes that they returned. */
struct tls_work {
    uint32_t reads;      /* reads of the socket */
    uint32_t handshakes; /* messages received of the handshake, or after it: new keys */
    uint32_t bytes;      /* bytes of these messages: mostly certificates */
};

struct tls_ops {
    uint32_t version;
    /* Returns 0, or a negative errno with the words. */
    int (*context_new)(struct tls_context **ret, const struct tls_options *o, char error[TLS_ERROR]);
    struct tls_context *(*context_free)(struct tls_context *c); /* NULL is fine; connections keep what they need */
    /* Starts TLS on a connected socket that does not block and stays the caller's. host: the name of the server that
     * its certificate must have; NULL in the server. Returns 0 or -ENOMEM. */
    int (*open)(struct tls **ret, struct tls_context *c, int fd, const char *host);
    struct tls *(*free)(struct tls *t); /* tells the other side; NULL is fine */
    /* As recv() and send(); the first calls do the handshake. recv() takes what is there, with TLS_READS_MAX reads of
     * the socket at most. The socket reports the rest. errno EAGAIN: wait for the socket; EACCES: a certificate was
     * refused, one's own or the other's; EPROTO: no TLS, or not this kind. error() has words for the latter two. */
    ssize_t (*recv)(struct tls *t, void *data, size_t size);
    ssize_t (*send)(struct tls *t, const void *data, size_t size);
    /* recv() must be called again when the socket can be written. */
    bool (*recv_waits_to_write)(const struct tls *t);
    /* recv() has more, which the socket does not report. */
    bool (*pending)(const struct tls *t);
    /* The handshake is over: the other side has proved its certificate. */
    bool (*established)(const struct tls *t);
    const char *(*error)(const struct tls *t);
    /* The costs since the last call. */
    struct tls_work (*work)(struct tls *t);
    /* Calls each with the names in the other side's certificate, prefixed with `CN:`, `DNS:`, `URI:` or `email:`, until
     * one call returns true. Printable text only. Returns whether one did. */
    bool (*names)(const struct tls *t, bool (*each)(const char *name, void *userdata), void *userdata);
    /* Whether the other side's certificate is also good in this context, now. Returns 0, -EACCES with the words, or
     * -ENOMEM. */
    int (*recheck)(const struct tls *t, struct tls_context *c, char error[TLS_ERROR]);
    /* When the other side's certificate expires, in seconds since the epoch. */
    int64_t (*expires)(const struct tls *t);
};
