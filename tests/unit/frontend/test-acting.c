/* SPDX-License-Identifier: Apache-2.0
 *
 * test-acting.c: connections that act for another user. A frontend, and clients by socket pairs, with a user database
 * that answers when it is told to. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "frontend/handover.h"
#include "frontend/peer.h"
#include "tests/unit/suite.h"

#define ALICE   1001u
#define FRIENDS 77u
#define OTHER   1009u /* an account that no user has here */
#define AGENT   990u
#define MANY    (ACTING_LOOKUPS + 2)

static struct access_rules rules;
static uint32_t listed[] = {ALICE}, listed_groups[] = {FRIENDS};
static struct frontend *frontend;
static struct event_base *base;
static struct peer *peers[MANY];
static int clients[MANY];
static int answers[2]; /* a byte in this pipe is an answer of the user database */
static struct codec *codec;

/* In place of the user database. alice is in FRIENDS. */
int local_user_find(const char *name, struct local_user *ret)
{
    char c;

    while (read(answers[0], &c, 1) < 0 && errno == EINTR)
        ;
    if (strcmp(name, "root") == 0)
        return -EPERM;
    if (strcmp(name, "silent") == 0)
        return -EIO;
    if (strcmp(name, "alice") != 0)
        return -ENOENT;
    *ret = (struct local_user){.uid = ALICE, .gid = ALICE, .n_gids = 2, .gids = calloc(2, sizeof(uint32_t))};
    ck_assert_ptr_nonnull(ret->gids);
    ret->gids[0] = ALICE;
    ret->gids[1] = FRIENDS;
    return 0;
}

static void answer(size_t n)
{
    for (; n; n--)
        ck_assert_int_eq(write(answers[1], "", 1), 1);
}

static void setup(void)
{
    struct frontend_options o = {.own_uid = UINT32_MAX - 1, .limits = FRONTEND_LIMITS_DEFAULT, .rules = &rules};

    rules = (struct access_rules){.agent = geteuid()};
    rules.submit_as = (struct access_list){.uids = listed, .n_uids = 1};
    for (size_t i = 0; i < ACCESS_RIGHTS; i++)
        rules.lists[i].all = true;
    ck_assert_int_eq(pipe(answers), 0);
    ck_assert_int_eq(codec_new(&codec), 0);
    base = o.base = event_base_new();
    ck_assert_int_eq(frontend_new(&frontend, &o), 0);
    for (size_t i = 0; i < MANY; i++) {
        int fds[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
        ck_assert_int_eq(peer_new(frontend, fds[0], false, &peers[i]), 0);
        clients[i] = fds[1];
    }
}

/* Look-ups that no peer waits for end before their pipe does. */
static void teardown(void)
{
    answer(2 * MANY);
    while (frontend->actings.n_lookups)
        event_base_loop(base, EVLOOP_ONCE);
    frontend_free(frontend);
    event_base_free(base);
    codec_free(codec);
    for (size_t i = 0; i < MANY; i++)
        close_fd(clients[i]);
    close_fd(answers[0]);
    close_fd(answers[1]);
}

static void turn(void)
{
    event_base_loop(base, EVLOOP_NONBLOCK);
    (void)frontend_serve(frontend);
    (void)frontend_flush(frontend);
}

/* With a PING behind it, in the same piece: ping. */
static void say_hello_and(size_t i, const char *user, bool ping)
{
    uint8_t data[1024];
    const struct msg m = {
        .type = FRAME_HELLO,
        .hello = {
            .version_min = 1, .version_max = 1, .features = FEATURES_ALL, .window = 1, .user = {user, strlen(user)}}};

    const struct msg more = {.type = FRAME_PING};
    size_t n = codec_encode(&m, 0, 0, data, sizeof(data));

    ck_assert_uint_gt(n, 0);
    if (ping)
        n += codec_encode(&more, 7, 0, data + n, sizeof(data) - n);
    ck_assert_int_eq(send(clients[i], data, n, 0), (ssize_t)n);
    turn();
    turn();
}

static void say_hello(size_t i, const char *user)
{
    say_hello_and(i, user, false);
}

/* The next frame that the client gets. Its texts stay until the one after; NULL: none has come. */
static const struct msg *heard(size_t i)
{
    static uint8_t data[4096];
    static struct msg m;
    struct frame frame;
    size_t used;
    ssize_t n = recv(clients[i], data, sizeof(data), MSG_PEEK | MSG_DONTWAIT);

    if (n <= 0)
        return NULL;
    ck_assert_int_eq(frame_parse(data, (size_t)n, &frame, &used), 0);
    ck_assert_int_eq(codec_decode(codec, &frame, &m), 0);
    ck_assert_int_eq(recv(clients[i], data + sizeof(data) / 2, MIN(used, sizeof(data) / 2), 0), (ssize_t)used);
    return &m;
}

static const struct msg *wait_for(size_t i)
{
    const struct msg *m;

    while (!(m = heard(i)))
        turn();
    return m;
}

static void wait_refused(size_t i, uint32_t code, const char *words)
{
    const struct msg *m = wait_for(i);

    ck_assert_uint_eq(m->type, FRAME_ERROR);
    ck_assert_msg(m->error.code == code && strstr(m->error.text.data, words), "%u %s", m->error.code,
                  m->error.text.data);
}

START_TEST(it_is_the_users_from_welcome_on)
{
    struct share *share = peers[0]->share;

    say_hello_and(0, "alice", true); /* which is not answered before */
    turn();
    turn();
    ck_assert_ptr_null(heard(0));
    ck_assert_uint_eq(peers[0]->uid, geteuid());
    ck_assert(!peers[0]->reading);
    answer(1);
    const struct msg *m = wait_for(0);
    ck_assert_uint_eq(m->type, FRAME_WELCOME);
    ck_assert_uint_eq(m->welcome.features & (FEATURE_USER | FEATURE_LANE | FEATURE_NOTICE | FEATURE_PAYLOAD),
                      FEATURE_USER);
    ck_assert_uint_eq(wait_for(0)->type, FRAME_PONG);
    ck_assert_uint_eq(peers[0]->uid, ALICE);
    ck_assert_uint_eq(peers[0]->gid, ALICE);
    ck_assert_ptr_ne(peers[0]->share, share); /* which is the one of the others */
    ck_assert_ptr_eq(peers[1]->share, share);
    ck_assert_uint_eq(frontend->n_admitted, MANY);
}
END_TEST

START_TEST(it_has_the_right_to_submit_and_no_other)
{
    say_hello(0, "alice");
    answer(1);
    ck_assert_uint_eq(wait_for(0)->type, FRAME_WELCOME);
    ck_assert(!peers[0]->timed); /* it may be silent now */
    ck_assert_ptr_null(access_submit(peers[0]));
    ck_assert_ptr_nonnull(access_administer(peers[0]));
    ck_assert_uint_eq(access_sees(peers[0]), ALICE);
    ck_assert_uint_eq(access_watches(peers[0]), ALICE);
    ck_assert_uint_eq(access_counts(peers[0]), ALICE);
    ck_assert_uint_eq(access_cancels(peers[0]), ALICE);
    ck_assert_ptr_nonnull(access_path(peers[0], "./x.so"));
    ck_assert_ptr_null(access_path(peers[0], "x"));
    say_hello(1, "");
    ck_assert_uint_eq(wait_for(1)->type, FRAME_WELCOME);
    ck_assert_ptr_null(access_administer(peers[1]));
    ck_assert_ptr_null(access_path(peers[1], "./x.so"));
}
END_TEST

START_TEST(its_groups_are_those_of_the_user)
{
    rules.submit_as = (struct access_list){.gids = listed_groups, .n_gids = 1};
    rules.lists[ACCESS_SUBMIT] = (struct access_list){.gids = listed_groups, .n_gids = 1};
    say_hello(0, "alice");
    answer(1);
    ck_assert_uint_eq(wait_for(0)->type, FRAME_WELCOME);
    ck_assert_ptr_null(access_submit(peers[0]));
    rules.lists[ACCESS_SUBMIT] = (struct access_list){.n_gids = 0};
    frontend_set_rules(frontend, &rules);
    ck_assert_ptr_nonnull(access_submit(peers[0]));
}
END_TEST

START_TEST(a_user_who_may_not_submit_is_not_let_in)
{
    for (size_t i = 0; i < ACCESS_RIGHTS; i++)
        rules.lists[i].all = i != ACCESS_SUBMIT;
    frontend_set_rules(frontend, &rules);
    say_hello(0, "alice");
    answer(1);
    wait_refused(0, CODE_DENIED, "no business here ([access] submit in wsd.conf)");
}
END_TEST

static const struct {
    const char *user;
    uint32_t code;
    const char *words;
} refusals[] = {{"root", CODE_DENIED, "nobody acts for root"},
                {"bob", CODE_DENIED, "there is no user bob here"},
                {"silent", CODE_BUSY, "the user database could not be asked"}};

START_TEST(some_are_refused)
{
    rules.submit_as.all = true;
    say_hello(0, refusals[_i].user);
    answer(1);
    wait_refused(0, refusals[_i].code, refusals[_i].words);
}
END_TEST

START_TEST(only_some_act_and_only_for_those_listed)
{
    const struct local_user alice = {.uid = ALICE, .gid = ALICE}, stranger = {.uid = OTHER, .gid = OTHER},
                            own = {.uid = UINT32_MAX - 1};
    char why[ACCESS_WHY];

    rules.agent = AGENT;
    ck_assert(access_acts(frontend, AGENT, "alice", &alice, why));
    ck_assert(access_acts(frontend, 0, "alice", &alice, why));
    ck_assert(access_acts(frontend, AGENT, "alice", NULL, why));
    ck_assert(!access_acts(frontend, AGENT, "carol", &stranger, why));
    ck_assert_str_eq(why, "uid 990 may not act for carol: [access] submit-as in wsd.conf does not name this user");
    ck_assert(!access_acts(frontend, 0, "carol", &stranger, why));
    ck_assert(!access_acts(frontend, ALICE, "alice", NULL, why)); /* not even for oneself */
    ck_assert_str_eq(why, "uid 1001 may not act for alice: only root and the user of wsd-fleet act for others ([fleet] "
                          "user in wsd.conf)");
    rules.submit_as.all = true;
    ck_assert(access_acts(frontend, AGENT, "carol", &stranger, why));
    ck_assert(!access_acts(frontend, AGENT, "wsd", &own, why));
    rules.agent = UINT32_MAX; /* there is no such account */
    ck_assert(!access_acts(frontend, AGENT, "alice", &alice, why));
    ck_assert(!access_acts(frontend, UINT32_MAX, "alice", &alice, why));
    ck_assert(access_acts(frontend, 0, "alice", &alice, why));
}
END_TEST

START_TEST(the_right_may_be_taken_away)
{
    for (size_t i = 0; i < 2; i++)
        say_hello(i, "alice");
    answer(1);
    for (size_t i = 0; i < 2; i++) {
        while (!peers[0]->greeted && !peers[1]->greeted)
            turn();
    }
    size_t first = peers[1]->greeted;
    ck_assert_uint_eq(wait_for(first)->type, FRAME_WELCOME);
    frontend_set_rules(frontend, &rules); /* the same ones */
    turn();
    ck_assert_ptr_null(heard(first));
    rules.submit_as.n_uids = 0;
    frontend_set_rules(frontend, &rules);
    wait_refused(first, CODE_DENIED, "submit-as");
    answer(1); /* the other one is looked up still */
    wait_refused(!first, CODE_DENIED, "submit-as");
}
END_TEST

START_TEST(look_ups_are_limited_at_and_above)
{
    for (size_t i = 0; i < ACTING_LOOKUPS; i++)
        say_hello(i, "alice");
    ck_assert_uint_eq(frontend->actings.n_lookups, ACTING_LOOKUPS);
    say_hello(ACTING_LOOKUPS, "alice");
    wait_refused(ACTING_LOOKUPS, CODE_BUSY, "too many users are being looked up");
    peer_free(peers[0]); /* its thread is there still */
    turn();
    ck_assert_uint_eq(frontend->actings.n_lookups, ACTING_LOOKUPS);
    answer(ACTING_LOOKUPS);
    for (size_t i = 1; i < ACTING_LOOKUPS; i++)
        ck_assert_uint_eq(wait_for(i)->type, FRAME_WELCOME);
    while (frontend->actings.n_lookups)
        turn();
    answer(1);
    say_hello(ACTING_LOOKUPS + 1, "alice");
    ck_assert_uint_eq(wait_for(ACTING_LOOKUPS + 1)->type, FRAME_WELCOME);
}
END_TEST

START_TEST(it_is_not_left_to_the_next_wsd)
{
    size_t n;
    int state, *fds;

    say_hello(0, "alice");
    answer(1);
    ck_assert_uint_eq(wait_for(0)->type, FRAME_WELCOME);
    say_hello(1, "alice"); /* which is looked up still */
    ck_assert_int_eq(frontend_leave(frontend, &state, &fds, &n), 0);
    ck_assert_uint_eq(n, MANY - 2);
    free(fds);
    close_fd(state);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("frontend acting");
    TCase *c = tcase_create("acting");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, it_is_the_users_from_welcome_on);
    tcase_add_test(c, it_has_the_right_to_submit_and_no_other);
    tcase_add_test(c, its_groups_are_those_of_the_user);
    tcase_add_test(c, a_user_who_may_not_submit_is_not_let_in);
    tcase_add_loop_test(c, some_are_refused, 0, ARRAY_SIZE(refusals));
    tcase_add_test(c, only_some_act_and_only_for_those_listed);
    tcase_add_test(c, the_right_may_be_taken_away);
    tcase_add_test(c, it_is_not_left_to_the_next_wsd);
    tcase_add_test(c, look_ups_are_limited_at_and_above);
    suite_add_tcase(s, c);
    return run_suite(s);
}
