/* SPDX-License-Identifier: Apache-2.0
 *
 * test-libuv.c: a handle in a loop of libuv. */
#include "peer.h"
#include "tests/unit/suite.h"

#include <wsd/adapters/libuv.h>

#define SECOND 1000000u

static struct peer peer;
static struct wsd_client *client;
static struct wsd_libuv *w;
static uv_loop_t loop;
static uv_timer_t end;
static unsigned n_done;
static size_t unsent; /* at the end of run_for(), before the loop has a turn */

static void setup(void)
{
    n_done = 0;
    peer_init(&peer, PEER_WELCOME, 1 << 20);
    uv_loop_init(&loop);
    uv_timer_init(&loop, &end);
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    ck_assert_int_eq(wsd_libuv_attach(&w, &loop, client), 0);
}

static void teardown(void)
{
    wsd_libuv_detach(w);
    uv_close((uv_handle_t *)&end, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    client = wsd_client_free(client);
    peer_deinit(&peer);
}

static void stop(uv_timer_t *timer)
{
    unsent = wsd_client_unsent(client);
    uv_stop(&loop);
}

static void run_for(unsigned msec)
{
    uv_timer_start(&end, stop, msec, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_timer_stop(&end);
}

static void on_done(struct wsd_call *c, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_done++;
}

static int submit(void)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done};
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p"};

    return wsd_client_submit(client, &job, &callbacks, NULL);
}

/* It has not read all: the kernel says POLLERR, and libuv watches no more. */
START_TEST(an_end_behind_a_frame_is_seen)
{
    ck_assert_int_eq(submit(), 0);
    run_for(1);
    peer_expect(&peer, NULL, FRAME_SUBMIT);
    ck_assert_int_eq(submit(), 0);
    run_for(1);
    peer_send_accepted(&peer, peer.frame.tag);
    peer_close(&peer);
    run_for(300);
    ck_assert_uint_eq(n_done, 2);
}
END_TEST

static void submit_late(uv_prepare_t *prepare)
{
    uv_prepare_stop(prepare);
    ck_assert_int_eq(submit(), 0);
}

START_TEST(what_is_submitted_as_the_loop_prepares_is_sent)
{
    uv_prepare_t prepare;

    run_for(1);
    uv_prepare_init(&loop, &prepare);
    uv_prepare_start(&prepare, submit_late);
    run_for(300);
    ck_assert_uint_eq(wsd_client_open_calls(client), 1);
    ck_assert_uint_eq(unsent, 0);
    uv_close((uv_handle_t *)&prepare, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("libuv");
    TCase *t = tcase_create("libuv");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, an_end_behind_a_frame_is_seen);
    tcase_add_test(t, what_is_submitted_as_the_loop_prepares_is_sent);
    suite_add_tcase(s, t);
    return run_suite(s);
}
