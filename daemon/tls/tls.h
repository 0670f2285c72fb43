/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.h: TLS 1.3 with certificates of both sides over a socket that does not block. Of wsd and of libwsclient.
 *
 * OpenSSL is in a module of its own, which is loaded where TLS is asked for: whoever does not use it neither links nor
 * starts it, and a build without it only lacks that file. One thread a context and its connections.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TLS_MODULE    "wsd-tls.so"
#define TLS_VERSION   2u /* of struct tls_ops: a module of another one is not used */
#define TLS_ERROR     384u
#define TLS_NAMES_MAX 32u  /* of a certificate; the others are not looked at */
#define TLS_NAME_MAX  256u /* bytes of a name, with its kind and its NUL; longer ones are not looked at */
/* bytes of certificates that the other side may send: to parse small ones takes 15 ms */
#define TLS_CHAIN_MAX (16u * 1024u)
/* reads of the socket in a recv(), two a record: what the other side sends costs no more at once */
#define TLS_READS_MAX 64u
#define TLS_DEPTH_MAX 4 /* certificates between its own and the CA's */

struct tls_context; /* certificates, and what is trusted */
struct tls;         /* a connection */

/* Files in PEM. */
struct tls_options {
    bool server;
    const char *certificate; /* with those between it and the CA's behind it */
    const char *key;         /* which others than owner and group must not be able to read */
    const char *ca;          /* who may sign the certificates of the other side */
    const char *crl;         /* lists of revoked ones, of each CA: NULL: none is */
};

/* What calls of a connection have cost, beside the bytes that they returned. */
struct tls_work {
    uint32_t reads;      /* of the socket */
    uint32_t handshakes; /* messages that were received of the handshake, or behind it: new keys */
    uint32_t bytes;      /* in these: certificates, most of all */
};

struct tls_ops {
    uint32_t version;
    /* 0, or a negative errno with the words. */
    int (*context_new)(struct tls_context **ret, const struct tls_options *o, char error[TLS_ERROR]);
    struct tls_context *(*context_free)(struct tls_context *c); /* NULL is fine; connections keep what they need */
    /* On a connected socket that does not block, and stays the caller's. host: the server's, which its certificate must
     * name; NULL at the server. 0 or -ENOMEM. */
    int (*open)(struct tls **ret, struct tls_context *c, int fd, const char *host);
    struct tls *(*free)(struct tls *t); /* tells the other side; NULL is fine */
    /* As recv() and send(), which shake hands first. recv() takes what there is, in TLS_READS_MAX reads of the socket
     * at most; what it leaves there the socket tells of. errno EAGAIN: wait for the socket; EACCES: a certificate was
     * refused, ours or theirs; EPROTO: no TLS, or not ours. error() has words for the latter two. */
    ssize_t (*recv)(struct tls *t, void *data, size_t size);
    ssize_t (*send)(struct tls *t, const void *data, size_t size);
    /* recv() is to be called again when the socket can be written. */
    bool (*recv_waits_to_write)(const struct tls *t);
    /* recv() has more, of which the socket tells nothing. */
    bool (*pending)(const struct tls *t);
    /* The handshake is over: the other side has proved its certificate. */
    bool (*established)(const struct tls *t);
    const char *(*error)(const struct tls *t);
    /* Since it was asked last. */
    struct tls_work (*work)(struct tls *t);
    /* The names in the other side's certificate, `CN:`, `DNS:`, `URI:` or `email:` before each, until each says true.
     * Printable text only. True: each did. */
    bool (*names)(const struct tls *t, bool (*each)(const char *name, void *userdata), void *userdata);
    /* Whether the other side's certificate is good by this context too, and now. 0, -EACCES with the words, -ENOMEM. */
    int (*recheck)(const struct tls *t, struct tls_context *c, char error[TLS_ERROR]);
    /* When that ends, in seconds since the epoch. */
    int64_t (*expires)(const struct tls *t);
};

/* Loads the module, once. NULL: there is none, with the words. */
const struct tls_ops *tls_load(char error[TLS_ERROR]);
