/* SPDX-License-Identifier: Apache-2.0
 *
 * test-actions.c: the last actions, as a client gets them from a wsd that it knows. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "peer.h"
#include "tests/unit/suite.h"
#include "wsd/client.h"

static struct peer peer;
static struct wsd_client *client;
static struct wsd_action_info last;
static char texts[3][300];
static unsigned n_shown;

static void begin(uint64_t features)
{
    n_shown = 0;
    peer_start(&peer, &client, 1 << 20, features);
}

static void teardown(void)
{
    client = wsd_client_free(client);
    peer_deinit(&peer);
}

static int keep(const struct wsd_action_info *info, void *userdata)
{
    last = *info;
    ck_assert_uint_eq(info->size, sizeof(*info));
    strcpy(texts[0], info->person);
    strcpy(texts[1], info->action);
    strcpy(texts[2], info->object);
    n_shown++;
    return userdata ? *(int *)userdata : 0;
}

static void send_action(void)
{
    const struct msg m = {
        .type = FRAME_ACTION,
        .action = {
            .time_usec = 5, .uid = 7, .code = 77, .person = {"anna", 4}, .verb = {"pause", 5}, .object = {"p:f", 3}}};

    peer_send(&peer, &m, 1, NULL, 0);
}

START_TEST(an_action_is_shown)
{
    begin(FEATURE_ACTIONS);
    send_action();
    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_actions(client, 9, keep, NULL), 0);
    ck_assert_uint_eq(n_shown, 1);
    ck_assert(last.time_usec == 5 && last.uid == 7 && last.exit == 77);
    ck_assert_str_eq(texts[0], "anna");
    ck_assert_str_eq(texts[1], "pause");
    ck_assert_str_eq(texts[2], "p:f");
    peer_expect(&peer, client, FRAME_ACTIONS);
    ck_assert_uint_eq(peer.msg.actions.limit, 9);
}
END_TEST

START_TEST(a_callback_ends_the_list)
{
    begin(FEATURE_ACTIONS);
    send_action();
    send_action();
    peer_send_empty(&peer, FRAME_END, 1);
    ck_assert_int_eq(wsd_client_actions(client, 0, keep, &(int){-7}), -7);
    ck_assert_uint_eq(n_shown, 1);
}
END_TEST

START_TEST(an_older_wsd_keeps_none)
{
    begin(FEATURES_ALL & ~(uint64_t)FEATURE_ACTIONS);
    ck_assert_int_eq(wsd_client_actions(client, 0, keep, NULL), -EOPNOTSUPP);
    ck_assert_str_eq(wsd_client_error(client), "wsd 9.9 keeps no actions: its log has them");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("actions");
    TCase *cases = tcase_create("all");

    tcase_add_checked_fixture(cases, NULL, teardown);
    tcase_add_test(cases, an_action_is_shown);
    tcase_add_test(cases, a_callback_ends_the_list);
    tcase_add_test(cases, an_older_wsd_keeps_none);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
