/* SPDX-License-Identifier: Apache-2.0
 *
 * test-glib.c: a handle in a main loop of GLib. */
#include "peer.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <sys/socket.h>
#include <wsd/adapters/glib.h>

#define SECOND 1000000u

static struct peer peer;
static struct wsd_client *client;
static GMainContext *context;
static GSource *source;
static unsigned n_polls, n_done, n_rooms;

static void setup(void)
{
    n_polls = n_done = n_rooms = 0;
    peer_init(&peer, PEER_WELCOME, 1 << 20);
    context = g_main_context_new();
    ck_assert_int_eq(peer_open(&peer, &client, SECOND), 0);
    source = wsd_glib_attach(context, client);
}

static void teardown(void)
{
    if (source)
        wsd_glib_detach(source);
    g_main_context_unref(context);
    client = wsd_client_free(client);
    peer_deinit(&peer);
}

static gint count_polls(GPollFD *fds, guint n, gint timeout)
{
    n_polls++;
    return g_poll(fds, n, timeout);
}

static void on_done(struct wsd_call *c, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_done++;
    ck_assert_int_eq(error, -ETIMEDOUT);
}

static int submit(uint64_t deadline_usec)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done};
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .deadline_usec = deadline_usec};

    return wsd_client_submit(client, &job, &callbacks, NULL);
}

START_TEST(a_deadline_is_slept_for)
{
    g_main_context_set_poll_func(context, count_polls);
    ck_assert_int_eq(submit(SECOND / 5), 0);
    while (!n_done)
        g_main_context_iteration(context, TRUE);
    ck_assert_uint_lt(n_polls, 20);
}
END_TEST

static void free_it(void *userdata)
{
    n_rooms++;
    wsd_glib_detach(source);
    source = NULL;
    client = wsd_client_free(client);
}

START_TEST(a_handle_may_be_freed_as_the_loop_prepares)
{
    static char input[4096];
    const struct wsd_submit job = {.size = sizeof(job), .plugin = "p", .input = input, .input_size = sizeof(input)};

    ck_assert_int_eq(wsd_client_set_bounds(client, 1, 0, free_it, NULL), 0);
    for (int i = 0; i < 10000 && wsd_client_submit(client, &job, NULL, NULL) == 0; i++)
        ;
    ck_assert_uint_gt(wsd_client_unsent(client), 0);
    for (int i = 0; i < 10000 && !n_rooms; i++) { /* what it takes, and then the loop's turn */
        char bytes[65536];

        while (recv(peer.fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
            ;
        g_main_context_iteration(context, FALSE);
    }
    ck_assert_uint_eq(n_rooms, 1);
    g_main_context_iteration(context, FALSE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("glib");
    TCase *t = tcase_create("glib");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_deadline_is_slept_for);
    tcase_add_test(t, a_handle_may_be_freed_as_the_loop_prepares);
    suite_add_tcase(s, t);
    return run_suite(s);
}
