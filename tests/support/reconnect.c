/* SPDX-License-Identifier: Apache-2.0
 *
 * reconnect.c: a client whose wsd is killed while its durable job runs. Says "accepted" when that may be done, connects again with
 * the same handle when there is a wsd again, and does there all that a new one can. Exits with 0, or says what went wrong. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wsd/client.h>

static struct wsd_client *client;
static struct wsd_id id;
static int in_callback;

_Noreturn static void fail(const char *what)
{
    printf("FAIL %s: %s\n", what, client ? wsd_client_error(client) : "no memory");
    exit(1);
}

static void on_accepted(struct wsd_call *call, const struct wsd_id *given, void *userdata)
{
    id = *given;
    puts("accepted");
    fflush(stdout);
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    in_callback = wsd_client_reconnect(client, 0);
}

static void succeeds(struct wsd_call *call, const char *output)
{
    const struct wsd_job_info *info;
    size_t size;

    if (wsd_call_wait(call, 20000000, &info) < 0 || info->state != WSD_JOB_SUCCEEDED)
        fail("wsd_call_wait");
    const char *got = wsd_call_output(call, &size);
    if (output && (size != strlen(output) || memcmp(got, output, size) != 0))
        fail("another output");
    wsd_call_free(call);
}

static void all_works(void)
{
    const char *args[] = {"hello"};
    char room[16];
    struct wsd_submit submit = {.size = sizeof(submit), .plugin = "echo", .args = args, .n_args = 1};
    struct wsd_call_request request = {.size = sizeof(request), .plugin = "echo", .args = args, .n_args = 1, .output = room,
                                       .output_room = sizeof(room)};
    struct wsd_call_result result = {.size = sizeof(result)};
    struct wsd_batch *batch;
    struct wsd_arena *arena;
    struct wsd_call *call;

    if (wsd_client_ping(client, NULL) < 0 || wsd_client_submit(client, &submit, NULL, &call) < 0)
        fail("a job");
    succeeds(call, "hello\n");
    for (int i = 0; i < 100; i++)
        if (wsd_call(client, &request, &result) < 0 || result.state != WSD_JOB_SUCCEEDED || memcmp(room, "hello\n", 6) != 0)
            fail("wsd_call");
    if (wsd_arena_new(client, 4096, &arena) < 0)
        fail("an arena");
    wsd_arena_free(arena);
    submit.n_args = 0;
    if (wsd_batch_open(client, &submit, 0, &batch) < 0)
        fail("a batch");
    wsd_batch_free(batch);
}

int main(void)
{
    const char *args[] = {"300"};
    const struct wsd_submit submit = {.size = sizeof(submit), .plugin = "sleep", .function = "again", .args = args, .n_args = 1,
                                      .flags = WSD_SUBMIT_DURABLE | WSD_SUBMIT_DETACH};
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .accepted = on_accepted, .done = on_done};
    struct wsd_call *call;

    if (wsd_client_open(&client, NULL, 0) < 0)
        fail("open");
    all_works();
    if (wsd_client_submit(client, &submit, &callbacks, &call) < 0)
        fail("a durable job");
    if (wsd_call_wait(call, UINT64_MAX, NULL) != -ECONNRESET)
        fail("its wait");
    wsd_call_free(call);
    if (in_callback != -EDEADLK)
        fail("in a callback");
    if (wsd_client_ping(client, NULL) != -ECONNRESET)
        fail("a ping of nobody");
    if (wsd_client_reconnect(client, 30000000) < 0)
        fail("reconnect");
    if (wsd_client_attach(client, &id, NULL, &call) < 0)
        fail("attach");
    succeeds(call, NULL);
    all_works();
    if (wsd_client_reconnect(client, 0) < 0)
        fail("a connection that stands");
    all_works();
    wsd_client_free(client);
    puts("ok");
    return 0;
}
