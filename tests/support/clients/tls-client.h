/* SPDX-License-Identifier: Apache-2.0
 *
 * tls-client.h: for unit tests, a client that says by TLS what the library would not. Server and client have the same
 * certificate, which signs itself.
 */
#pragma once

#include <check.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char certificate_file[] = "/tmp/wsd-tls-cert-XXXXXX", key_file[] = "/tmp/wsd-tls-key-XXXXXX";
static EVP_PKEY *key;
static X509 *certificate;

/* Before the first test. */
static void need(bool it)
{
    if (!it)
        abort();
}

static void add_extension(X509 *x, int kind, const char *value)
{
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, kind, value);

    need(X509_add_ext(x, e, -1) == 1);
    X509_EXTENSION_free(e);
}

static void make_certificate(void)
{
    X509_NAME *name;
    FILE *f;

    key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"); /* signatures of one size */
    certificate = X509_new();
    need(key && certificate);
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
    name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)"both", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_set_pubkey(certificate, key);
    add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
    need(X509_sign(certificate, key, NULL) != 0);
    f = fdopen(mkstemp(certificate_file), "w");
    need(f && PEM_write_X509(f, certificate) == 1 && fclose(f) == 0);
    f = fdopen(mkstemp(key_file), "w");
    need(f && PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1 && fclose(f) == 0);
}

static void remove_certificate(void)
{
    unlink(certificate_file);
    unlink(key_file);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

#define CHAIN_MAX 6u

struct tls_client {
    SSL_CTX *context;
    X509 *shown;           /* its certificate; NULL: that of both */
    X509 *more[CHAIN_MAX]; /* what it sends behind it, up to NULL */
    SSL *ssl;              /* writes into memory: what it says goes to the server when deliver() says so */
    int fd;
};

/* Takes the descriptor. */
static void client_open(struct tls_client *c, int fd)
{
    int size = 8 << 20;

    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    c->fd = fd;
    c->context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_use_certificate(c->context, c->shown ? c->shown : certificate);
    for (size_t i = 0; i < CHAIN_MAX && c->more[i]; i++)
        ck_assert_int_eq(SSL_CTX_add1_chain_cert(c->context, c->more[i]), 1);
    SSL_CTX_use_PrivateKey(c->context, key);
    c->ssl = SSL_new(c->context);
    SSL_set_bio(c->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(c->ssl);
}

static void client_close(struct tls_client *c)
{
    X509_free(c->shown);
    for (size_t i = 0; i < CHAIN_MAX; i++)
        X509_free(c->more[i]);
    SSL_free(c->ssl);
    SSL_CTX_free(c->context);
    close(c->fd);
}

static size_t deliver(struct tls_client *c)
{
    char *data;
    long n = BIO_get_mem_data(SSL_get_wbio(c->ssl), &data);

    if (n > 0)
        ck_assert_int_eq(send(c->fd, data, (size_t)n, MSG_DONTWAIT), n);
    (void)BIO_reset(SSL_get_wbio(c->ssl));
    return (size_t)n;
}

static void hear(struct tls_client *c)
{
    char data[16384];
    ssize_t n = recv(c->fd, data, sizeof(data), MSG_DONTWAIT);

    if (n > 0)
        BIO_write(SSL_get_rbio(c->ssl), data, (int)n);
}

/* New keys, of each kind, and a record of a byte. */
static void say_keys(SSL *client)
{
    ck_assert_int_eq(SSL_key_update(client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    ck_assert_int_eq(SSL_do_handshake(client), 1);
}

static void ask_for_keys(SSL *client)
{
    ck_assert_int_eq(SSL_key_update(client, SSL_KEY_UPDATE_REQUESTED), 1);
    ck_assert_int_eq(SSL_do_handshake(client), 1);
}

static void say_a_byte(SSL *client)
{
    ck_assert_int_eq(SSL_write(client, "x", 1), 1);
}
