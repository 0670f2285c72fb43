/* SPDX-License-Identifier: Apache-2.0
 *
 * reconnect.c: a client that loses its wsd twice: while its durable job runs, and in a wsd_map(). It says "accepted"
 * and "mapping" when wsd may be killed. It connects again with the same handle when there is a wsd again, and does
 * there all that a new handle can do. What was opened before is over, and says so. Exits with 0, or says what went
 * wrong. Argument: a file, for which its job waits. */
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
    struct wsd_call_request request = {.size = sizeof(request),
                                       .plugin = "echo",
                                       .args = args,
                                       .n_args = 1,
                                       .output = room,
                                       .output_room = sizeof(room)};
    struct wsd_call_result result = {.size = sizeof(result)};
    struct wsd_batch *batch;
    struct wsd_arena *arena;
    struct wsd_call *call;

    if (wsd_client_ping(client, NULL) < 0 || wsd_client_submit(client, &submit, NULL, &call) < 0)
        fail("a job");
    succeeds(call, "hello\n");
    for (int i = 0; i < 100; i++)
        if (wsd_call(client, &request, &result) < 0 || result.state != WSD_JOB_SUCCEEDED ||
            memcmp(room, "hello\n", 6) != 0)
            fail("wsd_call");
    if (wsd_client_takes_files(client) && wsd_arena_new(client, 4096, &arena) < 0)
        fail("an arena");
    if (wsd_client_takes_files(client))
        wsd_arena_free(arena);
    submit.n_args = 0;
    if (wsd_batch_open(client, &submit, 0, &batch) < 0)
        fail("a batch");
    wsd_batch_free(batch);
}

/* --- what is open when the connection ends ------------------------------------------------------------------------ */

#define OPEN 3u
#define MANY 9000u /* more than a wsd_map() has under way */

static struct wsd_batch *batch, *by_itself, *ended; /* by_itself: wsd does not know it */
static struct wsd_arena *arena;
static unsigned n_ended, n_told;

static void on_end(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    if (error != -ECONNRESET)
        fail("the end of an item");
    n_ended++;
}

static void open_some(void)
{
    const char *args[] = {"1"}, *hello[] = {"hello"};
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_end};
    const struct wsd_item item = {.size = sizeof(item), .args = args, .n_args = 1},
                          short_item = {.size = sizeof(item), .args = hello, .n_args = 1};
    struct wsd_submit common = {.size = sizeof(common),
                                .plugin = "sleep",
                                .function = "sleep",
                                .delay_usec = 3600000000},
                      echo = {.size = sizeof(echo), .plugin = "echo"};
    struct wsd_batch_info info = {.size = sizeof(info)};

    if (wsd_batch_open(client, &common, 0, &batch) < 0)
        fail("a batch");
    for (unsigned i = 0; i < OPEN; i++)
        if (wsd_batch_submit(batch, &item, &callbacks, NULL) < 0)
            fail("an item");
    while (info.total < OPEN)
        if (wsd_client_ping(client, NULL) < 0 || wsd_batch_look(batch, &info) < 0)
            fail("a look");
    common.flags = WSD_SUBMIT_DURABLE | WSD_SUBMIT_DETACH;
    if (wsd_batch_open(client, &common, 0, &by_itself) < 0)
        fail("a durable batch");
    if (wsd_batch_open(client, &echo, 0, &ended) < 0 || wsd_batch_submit(ended, &short_item, NULL, NULL) < 0 ||
        wsd_batch_wait(ended, 20000000, NULL) < 0)
        fail("a batch that ends");
    if (wsd_client_takes_files(client) && wsd_arena_new(client, 4096, &arena) < 0)
        fail("an arena");
}

static void is_reset(int r, const char *words, const char *what)
{
    if (r != -ECONNRESET || !strstr(wsd_client_error(client), words))
        fail(what);
}

static void batch_is_gone(struct wsd_batch *b, const char *words)
{
    const char *args[] = {"1"};
    const struct wsd_item item = {.size = sizeof(item), .args = args, .n_args = 1};

    is_reset(wsd_batch_submit(b, &item, NULL, NULL), words, "a submit to an old batch");
    is_reset(wsd_batch_wait(b, 20000000, NULL), words, "a wait for an old batch");
    is_reset(wsd_batch_cancel(b), words, "a cancel of an old batch");
    is_reset(wsd_batch_close(b), words, "a close of an old batch");
}

static void all_is_gone(void)
{
    struct wsd_batch_info info = {.size = sizeof(info)};
    struct wsd_submit submit = {
        .size = sizeof(submit), .plugin = "echo", .arena = arena, .input_size = 1, .flags = WSD_SUBMIT_ARENA};
    struct wsd_call *call;

    batch_is_gone(batch, "batch");
    batch_is_gone(by_itself, "batch");
    if (n_ended != OPEN || wsd_batch_look(batch, &info) != 0 || info.total != OPEN || info.ended)
        fail("a look at an old batch");
    if (wsd_batch_wait(ended, 20000000, NULL) != 0 || wsd_batch_close(ended) != 0)
        fail("a batch that had ended");
    if (arena && (memset(wsd_arena_data(arena), 1, wsd_arena_size(arena)),
                  wsd_client_submit(client, &submit, NULL, &call)) != -EAGAIN)
        fail("a job in an old arena");
    wsd_batch_free(batch);
    wsd_batch_free(by_itself);
    wsd_batch_free(ended);
    wsd_arena_free(arena);
    if (wsd_client_ping(client, NULL) < 0) /* nothing of that was sent */
        fail("a ping behind them");
}

static int on_item(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t output_size,
                   const char *text, void *userdata)
{
    if (error != -ECONNRESET && error != -ECANCELED)
        fail("the end of an item of wsd_map");
    if (wsd_client_reconnect(client, 0) != -EDEADLK)
        fail("reconnect in a callback of wsd_map");
    n_told++;
    return 0;
}

static void maps(void)
{
    static struct wsd_item items[MANY];
    static const char *args[] = {"600000"};
    const struct wsd_submit common = {.size = sizeof(common), .plugin = "sleep", .function = "sleep"};

    for (unsigned i = 0; i < MANY; i++)
        items[i] = (struct wsd_item){.size = sizeof(items[i]), .args = args, .n_args = 1};
    puts("mapping");
    fflush(stdout);
    is_reset(wsd_map(client, &common, WSD_BATCH_KEEP_GOING, items, MANY, on_item, NULL), "", "wsd_map");
    if (n_told != MANY)
        fail("each item is told");
    if (wsd_client_reconnect(client, 30000000) < 0)
        fail("reconnect behind wsd_map");
}

int main(int argc, char **argv)
{
    const char *args[] = {argc > 1 ? argv[1] : ""};
    const struct wsd_submit submit = {.size = sizeof(submit),
                                      .plugin = "ledger",
                                      .function = "gate",
                                      .args = args,
                                      .n_args = 1,
                                      .flags = WSD_SUBMIT_DURABLE | WSD_SUBMIT_DETACH};
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .accepted = on_accepted, .done = on_done};
    struct wsd_call *call;

    if (wsd_client_open(&client, NULL, 0) < 0)
        fail("open");
    all_works();
    open_some();
    if (wsd_client_submit(client, &submit, &callbacks, &call) < 0)
        fail("a durable job");
    if (wsd_call_wait(call, UINT64_MAX, NULL) != -ECONNRESET)
        fail("its wait");
    wsd_call_free(call);
    if (in_callback != -EDEADLK)
        fail("in a callback");
    if (wsd_client_ping(client, NULL) != -ECONNRESET)
        fail("a ping of nobody");
    batch_is_gone(batch, ""); /* in the words of the connection */
    if (wsd_client_reconnect(client, 30000000) < 0)
        fail("reconnect");
    all_is_gone();
    if (wsd_client_attach(client, &id, NULL, &call) < 0)
        fail("attach");
    succeeds(call, NULL);
    all_works();
    if (wsd_client_reconnect(client, 0) < 0)
        fail("a connection that stands");
    all_works();
    maps();
    all_works();
    wsd_client_free(client);
    puts("ok");
    return 0;
}
