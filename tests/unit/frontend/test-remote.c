/* SPDX-License-Identifier: Apache-2.0
 *
 * test-remote.c: what TLS costs, and which user is charged. A frontend, and a client of another machine by real TLS.
 * Units are those of share.h, so nothing here is measured. */
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "frontend/peer.h"
#include "tests/support/clients/tls-client.h"
#include "tests/unit/suite.h"
#include "tls/load.h"

#define MANY      2000u   /* records */
#define SIGNATURE 500000u /* units: what a message of the handshake costs; */
#define REKEY     20000u  /* one behind it; */
#define READ      1000u   /* and a read of the socket */
#define TURNS_MAX 10000u

extern const struct tls_ops wsd_tls;

static char map_file[] = "/tmp/wsd-tls-map-XXXXXX";
static const struct access_rules rules = {.lists[ACCESS_SUBMIT].all = true};
static struct frontend *frontend;
static struct event_base *base;
static struct peer *peer;
static struct tls_client client;

/* The module itself, in place of what looks for its file. */
const struct tls_ops *tls_load(char error[TLS_ERROR])
{
    return &wsd_tls;
}

static void make_map(void)
{
    FILE *f = fdopen(mkstemp(map_file), "w");

    need(f && fputs("CN:both = nobody\n", f) >= 0 && fclose(f) == 0);
}

static void setup(void)
{
    const struct remote_options files = {
        .certificate = certificate_file, .key = key_file, .ca = certificate_file, .user_map = map_file};
    struct frontend_options o = {.own_uid = UINT32_MAX - 1, .limits = FRONTEND_LIMITS_DEFAULT, .rules = &rules};
    char error[REMOTE_ERROR];
    struct remote *r;
    int fds[2];

    base = o.base = event_base_new();
    ck_assert_int_eq(frontend_new(&frontend, &o), 0);
    ck_assert_msg(remote_load(&r, &files, error) == 0, "%s", error);
    frontend_set_remote(frontend, r);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    ck_assert_int_eq(peer_new(frontend, fds[0], true, &peer), 0);
    client = (struct tls_client){.context = NULL};
    client_open(&client, fds[1]);
}

static void teardown(void)
{
    client_close(&client);
    frontend_free(frontend);
    event_base_free(base);
}

static void turn(void)
{
    event_base_loop(base, EVLOOP_NONBLOCK);
    frontend_serve(frontend);
    ck_assert(!peer->failed);
    frontend_flush(frontend);
    hear(&client);
}

/* Until everything that the client has sent is handled. */
static void turns(void)
{
    int left = 1;

    for (unsigned i = 0; left || !list_empty(&peer->ready); i++) {
        ck_assert_uint_lt(i, TURNS_MAX);
        turn();
        ck_assert_int_eq(ioctl(peer->fd, FIONREAD, &left), 0);
    }
    turn();
}

static void shake_hands(void)
{
    for (unsigned i = 0; !SSL_is_init_finished(client.ssl) || !peer->remote->user; i++) {
        ck_assert_uint_lt(i, TURNS_MAX);
        (void)SSL_do_handshake(client.ssl);
        deliver(&client);
        turn();
    }
}

START_TEST(a_handshake_is_charged_to_strangers)
{
    const struct share *strangers = &frontend->shares.strangers;
    uint64_t before = frontend->shares.units;

    ck_assert_ptr_eq(peer->share, strangers);
    shake_hands();
    ck_assert_ptr_ne(peer->share, strangers);
    ck_assert_uint_ge(frontend->shares.units - before, 4 * SIGNATURE + (uint32_t)i2d_X509(certificate, NULL) * 900u);
    ck_assert_int_le(strangers->left, -(int64_t)SIGNATURE); /* the last flight, beyond what they had */
    ck_assert_int_ge(peer->share->left, -(int64_t)READ);
    ck_assert_uint_eq(frontend->handshakes.n + frontend->handshakes.n_heard, 0);
}
END_TEST

/* However it comes, it costs reads until it is whole. */
START_TEST(half_a_message_costs_no_signature)
{
    uint64_t before;
    uint8_t hello[4096];
    int n;

    (void)SSL_do_handshake(client.ssl);
    n = BIO_read(SSL_get_wbio(client.ssl), hello, sizeof(hello));
    ck_assert_int_gt(n, 100);
    before = frontend->shares.units;
    for (int i = 0; i < n - 1; i++) {
        ck_assert_int_eq(send(client.fd, hello + i, 1, 0), 1);
        turns();
    }
    ck_assert_uint_lt(frontend->shares.units - before, (uint64_t)n * 10 * READ + SIGNATURE);
    ck_assert_uint_ge(frontend->shares.units - before, (uint64_t)(n - 1) * 2 * READ);
    ck_assert_uint_eq(frontend->handshakes.n, 1);
    ck_assert_uint_eq(frontend->handshakes.n_heard, 0);
    before = frontend->shares.units;
    ck_assert_int_eq(send(client.fd, hello + n - 1, 1, 0), 1);
    turns();
    ck_assert_uint_ge(frontend->shares.units - before, SIGNATURE);
    ck_assert_uint_eq(frontend->handshakes.n_heard, 1);
}
END_TEST

static const struct {
    void (*say)(SSL *client);
    uint32_t units; /* of each record, at least */
} floods[] = {{say_keys, REKEY + 2 * READ}, {ask_for_keys, REKEY + 2 * READ}, {say_a_byte, 2 * READ}};

/* So that single bytes behind it are waited for, and no frame. */
static void say_half_a_frame(void)
{
    uint8_t header[FRAME_HEADER_SIZE];

    frame_put_header(header, FRAME_HELLO, 0, 0, MANY + 1);
    ck_assert_int_eq(SSL_write(client.ssl, header, sizeof(header)), sizeof(header));
    deliver(&client);
    turns();
}

/* Bytes after the handshake are charged to that user, and nothing to the share of strangers, the only other one. */
START_TEST(what_a_user_makes_tls_do_is_charged_to_that_user)
{
    int64_t strangers;
    uint64_t before;

    shake_hands();
    say_half_a_frame();
    strangers = frontend->shares.strangers.left;
    before = frontend->shares.units;
    for (unsigned i = 0; i < MANY; i++)
        floods[_i].say(client.ssl);
    deliver(&client);
    turns();
    ck_assert_uint_ge(frontend->shares.units - before, (uint64_t)MANY * floods[_i].units);
    ck_assert_int_eq(frontend->shares.strangers.left, strangers);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("remote");
    Suite *s = suite_create("frontend");

    make_certificate();
    make_map();
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_handshake_is_charged_to_strangers);
    tcase_add_test(tc, half_a_message_costs_no_signature);
    tcase_add_loop_test(tc, what_a_user_makes_tls_do_is_charged_to_that_user, 0, ARRAY_SIZE(floods));
    suite_add_tcase(s, tc);
    int status = run_suite(s);
    unlink(map_file);
    remove_certificate();
    return status;
}
