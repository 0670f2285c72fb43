/* SPDX-License-Identifier: Apache-2.0
 *
 * test-stop.c: what a batch costs that wsd does not know, where its jobs fail: in calls that are cancelled, which are
 * counted. */
#include "peer.h"
#include "tests/unit/suite.h"

#include <stdio.h>

#define SECOND 1000000u
#define ITEMS  64u

static struct peer peer;
static struct wsd_client *client;
static struct wsd_batch *batch;
static uint32_t tags[ITEMS];
static unsigned n_done, n_looks;

int __real_wsd_call_cancel(struct wsd_call *call);
int __wrap_wsd_call_cancel(struct wsd_call *call);

int __wrap_wsd_call_cancel(struct wsd_call *call)
{
    n_looks++;
    return __real_wsd_call_cancel(call);
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_done++;
}

static void setup(void)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done};
    const struct wsd_submit common = {.size = sizeof(common), .plugin = "p", .function = "f"};
    const struct wsd_item item = {.size = sizeof(item)};

    n_done = n_looks = 0;
    peer_start(&peer, &client, 100000, 0);
    ck_assert_int_eq(wsd_batch_open(client, &common, 0, &batch), 0);
    for (uint32_t i = 0; i < ITEMS; i++) {
        ck_assert_int_eq(wsd_batch_submit(batch, &item, &callbacks, NULL), 0);
        peer_expect(&peer, client, FRAME_SUBMIT);
        tags[i] = peer.frame.tag;
        peer_send_accepted(&peer, tags[i]);
    }
}

static void teardown(void)
{
    wsd_batch_free(batch);
    wsd_client_free(client);
    peer_deinit(&peer);
}

static void job_fails(uint32_t i)
{
    unsigned before = n_done;

    peer_send_done(&peer, tags[i], 6, 9, "no");
    while (n_done == before)
        ck_assert_int_eq(wsd_client_wait(client, SECOND * 5), 0);
}

START_TEST(each_call_is_cancelled_once_at_most)
{
    struct wsd_batch_info info = {.size = sizeof(info)};

    for (uint32_t i = 0; i < ITEMS / 2; i++) /* those behind are open still */
        job_fails(_i == 0 ? ITEMS / 2 - 1 - i : i);
    ck_assert_uint_eq(n_looks, _i == 0 ? ITEMS / 2 : ITEMS - 1);
    for (uint32_t i = ITEMS / 2; i < ITEMS; i++)
        job_fails(i);
    ck_assert_uint_eq(n_looks, _i == 0 ? ITEMS / 2 : ITEMS - 1);
    ck_assert_int_eq(wsd_batch_wait(batch, SECOND * 5, &info), 0);
    ck_assert(info.stopped && info.failed == ITEMS && info.done == ITEMS && info.exit == 9);
}
END_TEST

START_TEST(an_order_to_stop_is_done_once)
{
    job_fails(ITEMS - 2);
    ck_assert_uint_eq(n_looks, 1);
    peer_expect(&peer, client, FRAME_CANCEL);
    ck_assert_uint_eq(peer.frame.tag, tags[ITEMS - 1]);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(wsd_batch_cancel(batch), 0);
    ck_assert_uint_eq(n_looks, ITEMS - 1);
    for (uint32_t i = 1; i < ITEMS - 1; i++)
        peer_expect(&peer, client, FRAME_CANCEL);
    ck_assert(peer_quiet(&peer, client));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stop");
    TCase *tcase = tcase_create("stop");

    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, each_call_is_cancelled_once_at_most, 0, 2);
    tcase_add_test(tcase, an_order_to_stop_is_done_once);
    return run_suite(suite);
}
