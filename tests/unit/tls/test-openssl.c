/* SPDX-License-Identifier: Apache-2.0
 *
 * A server's connection, and a client that says what the library would not. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/support/clients/tls-client.h"
#include "tests/unit/suite.h"
#include "tls/tls.h"

extern const struct tls_ops wsd_tls;

/* --- both ends --- */

struct ends {
    struct tls_context *context;
    struct tls *server;
    struct tls_client client;
    int fd; /* the server's */
};

/* One that the issuer has signed, with the key of all. kind: of the string. */
static X509 *sign_by(const X509 *issuer, const char *cn, int n, int kind, const char *constraints, const char *names,
                     const char *comment)
{
    X509 *x = X509_new();

    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 2);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 86400);
    ck_assert_int_eq(
        X509_NAME_add_entry_by_NID(X509_get_subject_name(x), NID_commonName, kind, (const unsigned char *)cn, n, -1, 0),
        1);
    X509_set_issuer_name(x, X509_get_subject_name(issuer));
    X509_set_pubkey(x, key);
    if (constraints)
        add_extension(x, NID_basic_constraints, constraints);
    if (names)
        add_extension(x, NID_subject_alt_name, names);
    if (comment)
        add_extension(x, NID_netscape_comment, comment);
    ck_assert_int_ne(X509_sign(x, key, NULL), 0);
    return x;
}

static X509 *sign(const char *cn, int n, int kind, const char *names, const char *comment)
{
    return sign_by(certificate, cn, n, kind, NULL, names, comment);
}

static void open_ends(struct ends *e)
{
    const struct tls_options o = {
        .server = true, .certificate = certificate_file, .key = key_file, .ca = certificate_file};
    char error[TLS_ERROR];
    int fds[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    e->fd = fds[0];
    ck_assert_msg(wsd_tls.context_new(&e->context, &o, error) == 0, "%s", error);
    ck_assert_int_eq(wsd_tls.open(&e->server, e->context, e->fd, NULL), 0);
    client_open(&e->client, fds[1]);
}

static void shake_hands(struct ends *e)
{
    char byte;

    while (!SSL_is_init_finished(e->client.ssl) || !wsd_tls.established(e->server)) {
        (void)SSL_do_handshake(e->client.ssl);
        deliver(&e->client);
        ck_assert(wsd_tls.recv(e->server, &byte, 1) < 0 && errno == EAGAIN);
        hear(&e->client);
    }
}

/* errno of a handshake that the server refuses; 0: it does not. */
static int refusal(struct ends *e)
{
    char byte;

    while (!wsd_tls.established(e->server)) {
        (void)SSL_do_handshake(e->client.ssl);
        deliver(&e->client);
        if (wsd_tls.recv(e->server, &byte, 1) < 0 && errno != EAGAIN)
            return errno;
        hear(&e->client);
    }
    return 0;
}

static void close_ends(struct ends *e)
{
    wsd_tls.free(e->server);
    wsd_tls.context_free(e->context);
    client_close(&e->client);
    close(e->fd);
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
        floods[_i].say(e.client.ssl);
    say_a_byte(e.client.ssl);
    deliver(&e.client);
    do {
        n = wsd_tls.recv(e.server, data, sizeof(data));
        ck_assert(n > 0 || (n < 0 && errno == EAGAIN));
        struct tls_work w = wsd_tls.work(e.server);
        ck_assert_uint_le(w.reads, TLS_READS_MAX);
        ck_assert_uint_le(w.handshakes, TLS_READS_MAX / 2);
        handshakes += w.handshakes;
        bytes += n > 0 ? (size_t)n : 0;
        ck_assert_uint_lt(++calls, MANY);
        hear(&e.client); /* a server that cannot answer a request for keys waits */
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
    ck_assert_int_eq(SSL_write(e.client.ssl, data, SIZE), SIZE);
    deliver(&e.client);
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

        X509_free(e.client.more[0]);
        e.client.more[0] = sign("more", 4, MBSTRING_ASC, NULL, memset(comment, 'x', (size_t)n));
        free(comment);
        size = 4 + 5 + i2d_X509(certificate, NULL) + 5 + i2d_X509(e.client.more[0], NULL); /* RFC 8446, 4.4.2 */
    }
    ck_assert_int_eq(size, wanted);
    open_ends(&e);
    if (wanted <= (int)TLS_CHAIN_MAX) {
        shake_hands(&e);
    } else {
        ck_assert_int_eq(refusal(&e), EPROTO);
        ck_assert_msg(strstr(wsd_tls.error(e.server), "excessive message size"), "%s", wsd_tls.error(e.server));
    }
    close_ends(&e);
}
END_TEST

/* So many between the client's and ours, and one more. */
START_TEST(chains_have_a_limit)
{
    const unsigned n = TLS_DEPTH_MAX + (unsigned)_i;
    struct ends e = {0};
    const X509 *issuer = certificate;
    char error[TLS_ERROR];

    for (unsigned i = n; i-- > 0;)
        issuer = e.client.more[i] =
            sign_by(issuer, (const char[]){'a', (char)('0' + i)}, 2, MBSTRING_ASC, "critical,CA:TRUE", NULL, NULL);
    e.client.shown = sign_by(issuer, "alice", 5, MBSTRING_ASC, NULL, NULL, NULL);
    open_ends(&e);
    if (n <= TLS_DEPTH_MAX) {
        shake_hands(&e);
        ck_assert_int_eq(wsd_tls.recheck(e.server, e.context, error), 0);
    } else {
        ck_assert_int_eq(refusal(&e), EACCES);
        ck_assert_str_eq(wsd_tls.error(e.server), "its certificate is refused: certificate chain too long");
    }
    close_ends(&e);
}
END_TEST

/* The holder of a certificate cannot sign certificates for others. */
START_TEST(a_client_is_no_authority)
{
    static const char *const constraints[] = {NULL, "critical,CA:FALSE"};
    struct ends e = {.client.more = {sign_by(certificate, "alice", 5, MBSTRING_ASC, constraints[_i], NULL, NULL)}};

    e.client.shown = sign_by(e.client.more[0], "bob", 3, MBSTRING_ASC, NULL, NULL, NULL);
    open_ends(&e);
    ck_assert_int_eq(refusal(&e), EACCES);
    ck_assert_msg(strstr(wsd_tls.error(e.server), "invalid CA certificate"), "%s", wsd_tls.error(e.server));
    close_ends(&e);
}
END_TEST

#define X10  "xxxxxxxxxx"
#define X50  X10 X10 X10 X10 X10
#define X252 X50 X50 X50 X50 X50 "xx" /* with `CN:` and its NUL, TLS_NAME_MAX */

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
    {"alice ", 6, V_ASN1_UTF8STRING, NULL, "CN:alice ;"},        /* no line of a map ends so */
    {"", 0, V_ASN1_UTF8STRING, NULL, ""},
    {"", 0, V_ASN1_UTF8STRING, "DNS:alice", "DNS:alice;"},
    {X252, 252, V_ASN1_UTF8STRING, NULL, "CN:" X252 ";"},
    {X252 "x", 253, V_ASN1_UTF8STRING, NULL, ""},
    {X252 "x", 253, V_ASN1_UTF8STRING, "URI:" X252 ",URI:x", "URI:x;"},
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
    struct ends e = {.client.shown = sign(named[_i].cn, named[_i].n, named[_i].kind, named[_i].names, NULL)};
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

    make_certificate();
    tcase_add_test(tc, a_handshake_is_counted);
    tcase_add_loop_test(tc, a_flood_of_records_is_taken_in_pieces, 0, ARRAY_SIZE(floods));
    tcase_add_test(tc, what_wsd_reads_at_once_comes_at_once);
    tcase_add_loop_test(tc, certificates_have_a_limit, 0, 3);
    tcase_add_loop_test(tc, chains_have_a_limit, 0, 2);
    tcase_add_loop_test(tc, a_client_is_no_authority, 0, 2);
    tcase_add_loop_test(tc, a_name_is_told_as_what_it_is_or_not_at_all, 0, ARRAY_SIZE(named));
    suite_add_tcase(s, tc);
    int status = run_suite(s);
    remove_certificate();
    return status;
}
