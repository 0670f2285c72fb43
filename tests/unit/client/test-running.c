/* SPDX-License-Identifier: Apache-2.0
 *
 * test-running.c: a runner and a scripted wsd (peer.h): what comes at a bad time, what is missing, and what lasts too
 * long. What is refused before wsd is asked is in test-runner.c, what needs a real wsd in
 * tests/integration/runner-c.sh. */
#include "peer.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <wsd/runner.h>

#include "base/clock.h"

#define TAG 1u /* of all frames of a runner */

static struct peer peer;
static struct wsd_runner *runner;
static struct wsd_function functions[2];
static struct wsd_plugin offer;
static struct wsd_runner_options options;
static sem_t went, goes;

static int stay(struct wsd_job *job, struct wsd_worker *self)
{
    sem_post(&went);
    sem_wait(&goes);
    return 0;
}

static void setup(void)
{
    functions[0] = (struct wsd_function){.name = "plain", .help = "", .run = stay};
    functions[1] = (struct wsd_function){.name = "stream", .help = "", .run = stay, .flags = WSD_FN_STREAMING};
    offer = (struct wsd_plugin){.size = sizeof(offer),
                                .abi = WSD_PLUGIN_ABI,
                                .function_size = sizeof(functions[0]),
                                .n_functions = 2,
                                .functions = functions,
                                .name = "r",
                                .version = "1",
                                .help = ""};
    peer_init(&peer, PEER_WELCOME, 65536);
    peer.features = FEATURES_ALL;
    sem_init(&went, 0, 0);
    sem_init(&goes, 0, 0);
    options = (struct wsd_runner_options){.size = sizeof(options), .socket = peer.path, .credit = 2};
    ck_assert_int_eq(wsd_runner_new(&runner, &options), 0);
    ck_assert_int_eq(wsd_runner_offer(runner, &offer), 0);
}

static void teardown(void)
{
    runner = wsd_runner_free(runner);
    peer_deinit(&peer);
}

/* --- a thread that calls the runner ------------------------------------------------------------------------------- */

static pthread_t thread;
static int result;

static void *connect_there(void *arg)
{
    result = wsd_runner_connect(runner, 0);
    return NULL;
}

static void begin(void *(*call)(void *arg))
{
    ck_assert_int_eq(pthread_create(&thread, NULL, call, NULL), 0);
}

static int end(void)
{
    pthread_join(thread, NULL);
    return result;
}

/* --- connecting --------------------------------------------------------------------------------------------------- */

START_TEST(two_threads_make_one_connection)
{
    struct pollfd p = {.events = POLLIN};

    begin(connect_there);
    ck_assert_int_ge(peer.fd = accept(peer.listen_fd, NULL, NULL), 0);
    ck_assert_int_eq(wsd_runner_connect(runner, 20000), -ETIMEDOUT); /* the other one is at it */
    ck_assert_str_eq(wsd_runner_error(runner), "another thread is connecting");
    p.fd = peer.listen_fd;
    ck_assert_int_eq(poll(&p, 1, 0), 0);
    peer_close(&peer);
    ck_assert_int_eq(end(), -ECONNRESET);
}
END_TEST

static struct span span(const char *text)
{
    return (struct span){.data = text, .size = strlen(text)};
}

static void *run_there(void *arg)
{
    result = wsd_runner_run(runner, 2);
    return NULL;
}

static void take_offer(void)
{
    peer_accept(&peer, NULL);
    peer_expect(&peer, NULL, FRAME_RUNNER_OPEN);
    peer_send_empty(&peer, FRAME_RUNNER, TAG);
}

/* The thread that is told finds no connection, and goes back to sleep. */
START_TEST(it_leaves_though_it_was_told_while_it_connected_again)
{
    begin(run_there);
    take_offer();
    peer_close(&peer);
    ck_assert_int_ge(peer.fd = accept(peer.listen_fd, NULL, NULL), 0);
    peer_expect(&peer, NULL, FRAME_HELLO);
    ck_assert_int_eq(wsd_runner_leave(runner), 0);
    poll(NULL, 0, 1500); /* until the keeper sleeps again; where it does not yet, this passes all the same */
    const struct msg welcome = {
        .type = FRAME_WELCOME,
        .welcome = {.version = 1, .features = FEATURES_ALL, .program = span("wsd 9.9"), .window = 65536}};
    peer_send(&peer, &welcome, 0, NULL, 0);
    peer_expect(&peer, NULL, FRAME_RUNNER_OPEN);
    peer_send_empty(&peer, FRAME_RUNNER, TAG);
    peer_expect(&peer, NULL, FRAME_RUNNER_CLOSE);
    peer_send_empty(&peer, FRAME_END, TAG);
    ck_assert_int_eq(end(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("running");
    TCase *c = tcase_create("running");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 30);
    tcase_add_test(c, two_threads_make_one_connection);
    tcase_add_test(c, it_leaves_though_it_was_told_while_it_connected_again);
    suite_add_tcase(suite, c);
    return run_suite(suite);
}
