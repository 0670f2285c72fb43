/* SPDX-License-Identifier: Apache-2.0
 *
 * test-memory.c: what a call in flight costs at most: all bytes of the heap that the library holds for it. */
#include "peer.h"
#include "tests/unit/suite.h"

#include <malloc.h>
#include <stdio.h>
#include <sys/socket.h>

#define SECOND   1000000u
#define CALLS    100000u
#define WARM     1000u /* before the first look: what the handle has once */
#define CALL_MAX 512u  /* bytes */

static struct peer peer;
static struct wsd_client *client;
static unsigned n_done;

static void setup_with(uint64_t features)
{
    n_done = 0;
    peer_start(&peer, &client, 1 << 20, features);
}

static void setup(void)
{
    setup_with(FEATURE_ARRAY | FEATURE_BRIEF);
}

static void setup_old(void)
{
    setup_with(0);
}

static void teardown(void)
{
    client = wsd_client_free(client);
    ck_assert_uint_eq(n_done, CALLS + WARM);
    peer_deinit(&peer);
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_done++;
    wsd_call_free(call);
}

static const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done};

/* With what malloc adds, and with large blocks, which are mappings. */
static size_t heap_bytes(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* Sends all of it to the peer, which ends no job. */
static void flush(void)
{
    static char room[1 << 16];

    while (wsd_client_unsent(client)) {
        ck_assert_int_eq(wsd_client_flush(client), 0);
        while (recv(peer.fd, room, sizeof(room), MSG_DONTWAIT) > 0)
            ;
    }
}

static void submit(struct wsd_batch *batch, size_t n, uint64_t deadline_usec)
{
    const char *const args[] = {"sixteen bytes..."};
    const struct wsd_submit job = {
        .size = sizeof(job), .plugin = "p", .args = args, .n_args = 1, .deadline_usec = deadline_usec};
    const struct wsd_item item = {.size = sizeof(item), .args = args, .n_args = 1};

    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(batch ? wsd_batch_submit(batch, &item, &callbacks, NULL)
                               : wsd_client_submit(client, &job, &callbacks, NULL),
                         0);
        if (i % WARM == WARM - 1)
            flush();
    }
}

static void check_calls(struct wsd_batch *batch, uint64_t deadline_usec)
{
    submit(batch, WARM, deadline_usec);
    size_t before = heap_bytes();
    submit(batch, CALLS, deadline_usec);
    size_t bytes = (heap_bytes() - before) / CALLS;

    ck_assert_uint_eq(wsd_client_open_calls(client), CALLS + WARM);
    printf("a call in flight: %zu bytes\n", bytes);
    ck_assert_uint_le(bytes, CALL_MAX);
    if (before) /* the malloc of a sanitizer does not tell */
        ck_assert_uint_ge(bytes, sizeof(callbacks));
}

START_TEST(a_call_is_small)
{
    check_calls(NULL, 0);
}
END_TEST

START_TEST(a_call_with_a_deadline_is_small)
{
    check_calls(NULL, 3600ull * SECOND);
}
END_TEST

START_TEST(a_call_of_a_batch_is_small)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p"};
    struct wsd_batch *batch;

    ck_assert_int_eq(wsd_batch_open(client, &job, 0, &batch), 0);
    check_calls(batch, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *live = tcase_create("live"), *old = tcase_create("old");

    tcase_add_checked_fixture(live, setup, teardown);
    tcase_add_checked_fixture(old, setup_old, teardown);
    tcase_set_timeout(live, 60);
    tcase_set_timeout(old, 60);
    suite_add_tcase(suite, live);
    suite_add_tcase(suite, old);
    tcase_add_test(live, a_call_is_small);
    tcase_add_test(live, a_call_with_a_deadline_is_small);
    tcase_add_test(live, a_call_of_a_batch_is_small);
    tcase_add_test(old, a_call_is_small);
    tcase_add_test(old, a_call_with_a_deadline_is_small);
    return run_suite(suite);
}
