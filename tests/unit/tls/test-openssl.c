/* SPDX-License-Identifier: Apache-2.0
 *
 * A server's connection, and a client that says what the library would not. Both have the same certificate, which signs itself. */
#include <check.h>
#include <errno.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tls/tls.h"

extern const struct tls_ops wsd_tls;

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

/* --- both ends --- */

struct ends {
    struct tls_context *context;
    struct tls *server;
    SSL_CTX *client_context;
    X509 *shown; /* the client's certificate */
    X509 *more;  /* NULL, or what it sends behind it */
    SSL *client; /* writes into memory: what it says goes to the server when deliver() says so */
    int fds[2];  /* the server's, the client's */
};

static size_t deliver(struct ends *e)
{
    char *data;
    long n = BIO_get_mem_data(SSL_get_wbio(e->client), &data);

    if (n > 0)
        ck_assert_int_eq(send(e->fds[1], data, (size_t)n, MSG_DONTWAIT), n);
    (void)BIO_reset(SSL_get_wbio(e->client));
    return (size_t)n;
}

static void hear(struct ends *e)
{
    char data[16384];
    ssize_t n = recv(e->fds[1], data, sizeof(data), MSG_DONTWAIT);

    if (n > 0)
        BIO_write(SSL_get_rbio(e->client), data, (int)n);
}

/* One that the first one has signed, with the key of both. kind: of the string. */
static X509 *sign(const char *cn, int n, int kind, const char *names, const char *comment)
{
    X509 *x = X509_new();

    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 2);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 86400);
    ck_assert_int_eq(X509_NAME_add_entry_by_NID(X509_get_subject_name(x), NID_commonName, kind, (const unsigned char *)cn, n, -1, 0), 1);
    X509_set_issuer_name(x, X509_get_subject_name(certificate));
    X509_set_pubkey(x, key);
    if (names)
        add_extension(x, NID_subject_alt_name, names);
    if (comment)
        add_extension(x, NID_netscape_comment, comment);
    ck_assert_int_ne(X509_sign(x, key, NULL), 0);
    return x;
}

static void open_ends(struct ends *e)
{
    const struct tls_options o = {.server = true, .certificate = certificate_file, .key = key_file, .ca = certificate_file};
    char error[TLS_ERROR];
    int size = 8 << 20;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, e->fds), 0);
    (void)setsockopt(e->fds[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    ck_assert_msg(wsd_tls.context_new(&e->context, &o, error) == 0, "%s", error);
    ck_assert_int_eq(wsd_tls.open(&e->server, e->context, e->fds[0], NULL), 0);
    e->client_context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_use_certificate(e->client_context, e->shown ? e->shown : certificate);
    if (e->more)
        ck_assert_int_eq(SSL_CTX_add1_chain_cert(e->client_context, e->more), 1);
    SSL_CTX_use_PrivateKey(e->client_context, key);
    e->client = SSL_new(e->client_context);
    SSL_set_bio(e->client, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(e->client);
}

static void shake_hands(struct ends *e)
{
    char byte;

    while (!SSL_is_init_finished(e->client) || !wsd_tls.established(e->server)) {
        (void)SSL_do_handshake(e->client);
        deliver(e);
        ck_assert(wsd_tls.recv(e->server, &byte, 1) < 0 && errno == EAGAIN);
        hear(e);
    }
}

static void close_ends(struct ends *e)
{
    wsd_tls.free(e->server);
    wsd_tls.context_free(e->context);
    X509_free(e->shown);
    X509_free(e->more);
    SSL_free(e->client);
    SSL_CTX_free(e->client_context);
    close(e->fds[0]);
    close(e->fds[1]);
}

/* --- what a client makes the server do --- */

#define MANY 2000u /* records */

START_TEST(a_handshake_is_counted)
{
    struct ends e = {0};
    struct tls_work w;

    open_ends(&e);
    shake_hands(&e);
    w = wsd_tls.work(e.server);
    ck_assert_uint_eq(w.handshakes, 4); /* ClientHello, Certificate, CertificateVerify, Finished */
    ck_assert_uint_gt(w.bytes, (uint32_t)i2d_X509(certificate, NULL));
    ck_assert_uint_ge(w.reads, 8);
    w = wsd_tls.work(e.server);
    ck_assert_uint_eq(w.handshakes + w.bytes + w.reads, 0);
    close_ends(&e);
}
END_TEST

/* A flood of new keys, of each kind, and of records of a byte. */
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

static const struct {
    void (*say)(SSL *client);
    uint32_t handshakes, bytes; /* of each record */
} floods[] = {{say_keys, 1, 0}, {ask_for_keys, 1, 0}, {say_a_byte, 0, 1}};

START_TEST(a_flood_of_records_is_taken_in_pieces)
{
    struct ends e = {0};
    char data[MANY + 1];
    uint32_t handshakes = 0, calls = 0;
    size_t bytes = 0;
    ssize_t n;

    open_ends(&e);
    shake_hands(&e);
    (void)wsd_tls.work(e.server);
    for (unsigned i = 0; i < MANY; i++)
        floods[_i].say(e.client);
    say_a_byte(e.client);
    deliver(&e);
    do {
        n = wsd_tls.recv(e.server, data, sizeof(data));
        ck_assert(n > 0 || (n < 0 && errno == EAGAIN));
        struct tls_work w = wsd_tls.work(e.server);
        ck_assert_uint_le(w.reads, TLS_READS_MAX);
        ck_assert_uint_le(w.handshakes, TLS_READS_MAX / 2);
        handshakes += w.handshakes;
        bytes += n > 0 ? (size_t)n : 0;
        ck_assert_uint_lt(++calls, MANY);
        hear(&e); /* a server that cannot answer a request for keys waits */
    } while (bytes < floods[_i].bytes * MANY + 1);
    ck_assert_uint_eq(handshakes, floods[_i].handshakes * MANY);
    ck_assert_uint_ge(calls, MANY / (TLS_READS_MAX / 2));
    close_ends(&e);
}
END_TEST

/* Large records are not cut. */
START_TEST(what_wsd_reads_at_once_comes_at_once)
{
    enum { SIZE = 256 * 1024 };
    static char data[SIZE];
    struct ends e = {0};

    open_ends(&e);
    shake_hands(&e);
    ck_assert_int_eq(SSL_write(e.client, data, SIZE), SIZE);
    deliver(&e);
    ck_assert_int_eq(wsd_tls.recv(e.server, data, SIZE), SIZE);
    close_ends(&e);
}
END_TEST

/* --- certificates --- */

/* Makes the message of certificates as long as that: below the limit, at it, and above. */
START_TEST(certificates_have_a_limit)
{
    const int wanted = (int)TLS_CHAIN_MAX - 1 + _i;
    struct ends e = {0};
    int size = 0;

    for (int n = (int)TLS_CHAIN_MAX - 1000; size != wanted && n > 0; n += wanted - size) {
        char *comment = calloc(1, (size_t)n + 1);

        X509_free(e.more);
        e.more = sign("more", 4, MBSTRING_ASC, NULL, memset(comment, 'x', (size_t)n));
        free(comment);
        size = 4 + 5 + i2d_X509(certificate, NULL) + 5 + i2d_X509(e.more, NULL); /* RFC 8446, 4.4.2 */
    }
    ck_assert_int_eq(size, wanted);
    open_ends(&e);
    if (wanted <= (int)TLS_CHAIN_MAX) {
        shake_hands(&e);
    } else {
        char byte;

        for (unsigned i = 0; i < 10 && !SSL_is_init_finished(e.client); i++) {
            (void)SSL_do_handshake(e.client);
            deliver(&e);
            if (wsd_tls.recv(e.server, &byte, 1) < 0)
                hear(&e);
        }
        ck_assert(wsd_tls.recv(e.server, &byte, 1) < 0 && errno == EPROTO);
        ck_assert_msg(strstr(wsd_tls.error(e.server), "excessive message size"), "%s", wsd_tls.error(e.server));
    }
    close_ends(&e);
}
END_TEST

static const struct {
    const char *cn;
    int n, kind;
    const char *names, *told; /* told: each with a `;` behind it */
} named[] = {
    {"alice", 5, V_ASN1_UTF8STRING, NULL, "CN:alice;"},
    {"alice", 5, V_ASN1_PRINTABLESTRING, NULL, "CN:alice;"},
    {"\0a\0l\0i\0c\0e", 10, V_ASN1_BMPSTRING, NULL, "CN:alice;"},
    {"\0\0\0a\0\0\0b", 8, V_ASN1_UNIVERSALSTRING, NULL, "CN:ab;"},
    {"al\xefve", 5, V_ASN1_T61STRING, NULL, "CN:al\xc3\xafve;"}, /* as Latin 1 */
    {"alice ", 6, V_ASN1_UTF8STRING, NULL, "CN:alice ;"}, /* no line of a map ends so */
    {"alice\0", 6, V_ASN1_UTF8STRING, NULL, ""},
    {"alice\0.evil", 11, V_ASN1_UTF8STRING, NULL, ""},
    {"\0alice", 6, V_ASN1_UTF8STRING, NULL, ""},
    {"\0a\0\0\0b", 6, V_ASN1_BMPSTRING, NULL, ""},
    {"alice\n", 6, V_ASN1_UTF8STRING, NULL, ""},
    {"\x1b[2Jalice", 9, V_ASN1_UTF8STRING, NULL, ""},
    {"alice\x7f", 6, V_ASN1_UTF8STRING, NULL, ""},
    {"alice\xc2\x9b", 7, V_ASN1_UTF8STRING, NULL, ""}, /* the CSI of terminals */
    {"alice\x9b", 6, V_ASN1_T61STRING, NULL, ""},
    {"alice\xc2\xa3", 7, V_ASN1_UTF8STRING, NULL, "CN:alice\xc2\xa3;"},
    {"DNS:alice", 9, V_ASN1_UTF8STRING, NULL, "CN:DNS:alice;"}, /* is no DNS name */
    {"x", 1, V_ASN1_UTF8STRING, "DNS:CN:alice,URI:CN:alice,email:a@b", "DNS:CN:alice;URI:CN:alice;email:a@b;CN:x;"},
    {"x", 1, V_ASN1_UTF8STRING, "IP:127.0.0.1,RID:1.2.3.4,otherName:1.2.3.4;UTF8:alice", "CN:x;"},
};

static bool collect(const char *one, void *userdata)
{
    strcat(strcat(userdata, one), ";");
    return false;
}

START_TEST(a_name_is_told_as_what_it_is_or_not_at_all)
{
    struct ends e = {.shown = sign(named[_i].cn, named[_i].n, named[_i].kind, named[_i].names, NULL)};
    char told[1024] = "";

    open_ends(&e);
    shake_hands(&e);
    ck_assert(!wsd_tls.names(e.server, collect, told));
    ck_assert_str_eq(told, named[_i].told);
    close_ends(&e);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("openssl");
    Suite *s = suite_create("tls");
    SRunner *r = srunner_create(s);

    make_certificate();
    tcase_add_test(tc, a_handshake_is_counted);
    tcase_add_loop_test(tc, a_flood_of_records_is_taken_in_pieces, 0, ARRAY_SIZE(floods));
    tcase_add_test(tc, what_wsd_reads_at_once_comes_at_once);
    tcase_add_loop_test(tc, certificates_have_a_limit, 0, 3);
    tcase_add_loop_test(tc, a_name_is_told_as_what_it_is_or_not_at_all, 0, ARRAY_SIZE(named));
    suite_add_tcase(s, tc);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    unlink(certificate_file);
    unlink(key_file);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
