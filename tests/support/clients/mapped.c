/* SPDX-License-Identifier: Apache-2.0
 *
 * mapped.c: wsd_map() and batches of the library, from a shell. Prints what went wrong; exits as wsctl would.
 *   mapped N FUNCTION [keep] [wait] [durable]   N items with their number as input (echo and its like): each comes
 *                                               back, once
 *   mapped statuses S...                        one item each that ends with that status: prints how they ended
 *   mapped handle                               the calls of a batch one by one, and by its id
 *   mapped large N                              an input of N bytes between small ones
 *   mapped mixed N [again]                      N items of the plugin `direct`, of all kinds: all that is told of each;
 *                                               again: the callback makes more calls on the connection */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wsd/client.h>

static struct wsd_client *client;

static struct state {
    size_t n;
    uint8_t *seen;
    size_t wrong, ended;
    const char *const *inputs;
} state;

static int check(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t size,
                 const char *text, void *userdata)
{
    char want[24];
    int n = snprintf(want, sizeof(want), "%zu", index);

    if (index >= state.n || state.seen[index]++) {
        printf("item %zu: ended %s\n", index, index < state.n ? "twice" : "and is none");
        state.wrong++;
        return 0;
    }
    state.ended++;
    if (!error && info->state == WSD_JOB_SUCCEEDED && (size != (size_t)n || memcmp(output, want, size) != 0)) {
        printf("item %zu: \"%.*s\"\n", index, (int)size, (const char *)output);
        state.wrong++;
    }
    if (error || info->state != WSD_JOB_SUCCEEDED)
        fprintf(stderr, "item %zu: %s\n", index,
                error            ? text
                : info->error[0] ? info->error
                                 : wsd_job_state_name(info->state));
    return 0;
}

static int numbers(size_t n, const char *plugin, char **options)
{
    struct wsd_submit common = {.size = sizeof(common), .plugin = plugin};
    struct wsd_item *items = calloc(n + 1, sizeof(*items));
    char(*inputs)[24] = calloc(n + 1, sizeof(*inputs)), *function = strchr(plugin, ':');
    uint32_t flags = 0;

    if (function) {
        *function = 0;
        common.function = function + 1;
    }
    for (; *options; options++) {
        if (strcmp(*options, "keep") == 0)
            flags |= WSD_BATCH_KEEP_GOING;
        if (strcmp(*options, "wait") == 0)
            flags |= WSD_BATCH_WAIT;
        if (strcmp(*options, "durable") == 0)
            common.flags |= WSD_SUBMIT_DURABLE;
    }
    state.n = n;
    state.seen = calloc(n + 1, 1);
    for (size_t i = 0; i < n; i++)
        items[i] = (struct wsd_item){.size = sizeof(items[i]),
                                     .input = inputs[i],
                                     .input_size = (size_t)snprintf(inputs[i], sizeof(inputs[i]), "%zu", i)};
    int r = wsd_map(client, &common, flags, items, n, check, NULL);
    if (state.ended != n || state.wrong) {
        printf("%zu of %zu ended, %zu wrong\n", state.ended, n, state.wrong);
        r = -EIO;
    } else if (r < 0) {
        fprintf(stderr, "%s\n", wsd_client_error(client));
    }
    free(items);
    free(inputs);
    free(state.seen);
    return r == -EIO ? 74 : r < 0 ? wsd_client_exit(client) : 0;
}

static int show(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t size,
                const char *text, void *userdata)
{
    printf("%zu %s\n", index, error ? "refused" : wsd_job_state_name(info->state));
    return 0;
}

static int statuses(size_t n, char **values)
{
    struct wsd_submit common = {.size = sizeof(common), .plugin = "echo", .function = "status"};
    struct wsd_item *items = calloc(n + 1, sizeof(*items));

    for (size_t i = 0; i < n; i++)
        items[i] = (struct wsd_item){.size = sizeof(items[i]), .args = (const char *const *)&values[i], .n_args = 1};
    int r = wsd_map(client, &common, WSD_BATCH_KEEP_GOING, items, n, show, NULL);
    if (r < 0)
        printf("%s\n", wsd_client_error(client));
    free(items);
    return r < 0 ? wsd_client_exit(client) : 0;
}

/* --- all kinds ---------------------------------------------------------------------------------------------------- */

static const struct kind {
    const char *args[3];
    size_t input, output;
    int exit;
    const char *error, *status;
} kinds[] = {
    {{NULL}, 4, 4, 0, "", ""},
    {{"say", "hello"}, 0, 0, 0, "", "hello"},
    {{"ok"}, 0, 0, 0, "", ""},
    {{"fail", "3", "because"}, 0, 0, 3, "because", ""},
    {{"big", "3000"}, 0, 3000, 0, "", ""},
    {{NULL}, 20000, 20000, 0, "", ""},
    {{"big", "100000"}, 0, 100000, 0, "", ""},
    {{NULL}, 40000, 40000, 0, "", ""},
};

static struct wsd_id *ids;
static unsigned depth; /* that callbacks may go to */

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct wsd_id));
}

#define WRONG(what) (printf("item %zu: %s\n", index, (what)), state.wrong++, 0)

static int look(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t size,
                const char *text, void *userdata)
{
    const struct kind *k = &kinds[index % (sizeof(kinds) / sizeof(*kinds))];

    state.ended++;
    if (error || state.seen[index]++)
        return WRONG(error ? text : "ended twice");
    if (depth) {
        depth--;
        if (wsd_client_process(client) < 0)
            return WRONG(wsd_client_error(client));
        depth++;
    }
    ids[index] = info->id;
    if (info->state != (k->exit ? WSD_JOB_FAILED : WSD_JOB_SUCCEEDED) || info->exit != k->exit ||
        strcmp(info->error, k->error) != 0)
        return WRONG("how it ended");
    if (size != k->output || (size && memcmp(output, *(const char *const *)userdata, k->input) != 0))
        return WRONG("output");
    if (strcmp(info->plugin, "direct") != 0 || strcmp(info->function, "direct") != 0 ||
        strcmp(info->status, k->status) != 0)
        return WRONG("names, status");
    if (!*info->worker || info->attempts != 1 || info->uid != getuid() || *info->backtrace || *info->key ||
        strcmp(info->tags, "kinds") != 0)
        return WRONG("worker, attempts, user, backtrace, key, tags");
    if (info->durable || info->dead || info->retries || info->due_usec || info->waits_for || info->placed ||
        info->done || info->total)
        return WRONG("what is nothing to it");
    if (info->size != sizeof(*info) || !info->submitted_usec || info->queued_usec > 60000000 ||
        info->run_usec > 60000000 || !info->in_batch)
        return WRONG("size, times, batch");
    return 0;
}

static int mixed(size_t n, bool again)
{
    const char *const tags[] = {"kinds"};
    struct wsd_submit common = {
        .size = sizeof(common), .plugin = "direct", .function = "direct", .tags = tags, .n_tags = 1};
    struct wsd_item *items = calloc(n + 1, sizeof(*items));
    char *bytes = malloc(40000);

    depth = again ? 3 : 0;
    state.n = n;
    state.seen = calloc(n + 1, 1);
    ids = calloc(n + 1, sizeof(*ids));
    for (size_t i = 0; i < 40000; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    for (size_t i = 0; i < n; i++) {
        const struct kind *k = &kinds[i % (sizeof(kinds) / sizeof(*kinds))];

        items[i] = (struct wsd_item){.size = sizeof(items[i]), .args = k->args, .input = bytes, .input_size = k->input};
        while (items[i].n_args < 3 && k->args[items[i].n_args])
            items[i].n_args++;
    }
    int r = wsd_map(client, &common, WSD_BATCH_KEEP_GOING, items, n, look, &bytes);
    qsort(ids, n, sizeof(*ids), compare_ids);
    for (size_t i = 1; i < n; i++)
        if (compare_ids(&ids[i - 1], &ids[i]) == 0)
            printf("an id twice\n"), state.wrong++;
    if (state.ended != n || state.wrong || r != -EREMOTEIO || wsd_client_exit(client) != 3 ||
        !strstr(wsd_client_error(client), "item 3: because"))
        printf("%zu of %zu ended, %zu wrong, %d: %s\n", state.ended, n, state.wrong, r, wsd_client_error(client)),
            r = -EIO;
    free(ids);
    free(bytes);
    free(items);
    free(state.seen);
    return r == -EIO ? 74 : 0;
}

static int large(size_t size)
{
    struct wsd_submit common = {.size = sizeof(common), .plugin = "echo"};
    char *bytes = malloc(size + 1);
    struct wsd_batch_info info = {.size = sizeof(info)};
    struct wsd_call *calls[9];
    struct wsd_batch *batch;
    int r = bytes ? wsd_batch_open(client, &common, 0, &batch) : -ENOMEM;

    for (size_t i = 0; bytes && i < size; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    for (size_t i = 0; r == 0 && i < 9; i++) {
        struct wsd_item item = {.size = sizeof(item), .input = bytes, .input_size = i % 3 == 1 ? size : i};

        r = wsd_batch_submit(batch, &item, NULL, &calls[i]);
    }
    r = r < 0 ? r : wsd_batch_wait(batch, UINT64_MAX, &info);
    for (size_t i = 0; r == 0 && i < 9; i++) {
        size_t got;
        const void *output = wsd_call_output(calls[i], &got);

        if (got != (i % 3 == 1 ? size : i) || memcmp(output, bytes, got) != 0) {
            printf("item %zu: %zu bytes, not what was given\n", i, got);
            r = -EIO;
        }
        wsd_call_free(calls[i]);
    }
    if (r == 0 && (info.total != 9 || info.done != 9 || info.failed || !info.ended))
        r = -EIO;
    if (r == 0)
        wsd_batch_free(batch);
    else
        printf("%s\n", wsd_client_error(client));
    free(bytes);
    return r < 0 ? 74 : 0;
}

#define MUST(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            printf("line %d: %s (%s)\n", __LINE__, #what, wsd_client_error(client));                                   \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static unsigned n_progress;

static void on_progress(const struct wsd_batch_info *info, void *userdata)
{
    n_progress++;
}

static int one_job(const struct wsd_job_info *info, void *userdata)
{
    *(unsigned *)userdata += info->in_batch;
    return 0;
}

static int handle(void)
{
    static const char *const long_nap[] = {"60000"}, *const nap[] = {"1"};
    struct wsd_submit common = {.size = sizeof(common), .plugin = "sleep", .flags = WSD_SUBMIT_DETACH};
    struct wsd_item item = {.size = sizeof(item), .args = nap, .n_args = 1};
    struct wsd_batch_info info = {.size = sizeof(info)};
    struct wsd_filter filter = {.size = sizeof(filter)};
    struct wsd_batch *batch;
    struct wsd_call *call;
    unsigned listed = 0;

    MUST(wsd_batch_open(client, &common, WSD_BATCH_DETACH, &batch) == 0);
    for (int i = 0; i < 50; i++)
        MUST(wsd_batch_submit(batch, &item, NULL, NULL) == 0);
    MUST(wsd_batch_wait(batch, UINT64_MAX, &info) == 0 && info.total == 50 && info.done == 50 && !info.failed &&
         info.ended);
    MUST(wsd_batch_submit(batch, &item, NULL, NULL) == -EPIPE);
    struct wsd_id id = info.id;
    wsd_batch_free(batch);
    MUST(wsd_client_batch(client, &id, &info) == 0 && info.ended && info.total == 50);
    MUST(wsd_client_batch_await(client, &id, 1000000, NULL, NULL, &info) == 0 && info.done == 50);
    filter.batch = &id;
    MUST(wsd_client_list_where(client, &filter, one_job, &listed) == 0 && listed == 50);

    /* cancelled by its id while it runs */
    item.args = long_nap;
    common.flags = 0;
    MUST(wsd_batch_open(client, &common, 0, &batch) == 0);
    for (int i = 0; i < 5000; i++)
        MUST(wsd_batch_submit(batch, &item, NULL, i ? NULL : &call) == 0);
    do {
        MUST(wsd_client_wait(client, 10000000) == 0);
        wsd_batch_look(batch, &info);
    } while (!info.total);
    MUST(wsd_client_batch_await(client, &info.id, 1, on_progress, NULL, NULL) == -ETIMEDOUT);
    MUST(wsd_client_batch_cancel(client, &info.id) == 0);
    MUST(wsd_batch_wait(batch, UINT64_MAX, &info) == 0 && info.stopped && info.done == 5000 && info.failed == 5000 &&
         info.exit == 130);
    const struct wsd_job_info *job;
    MUST(wsd_call_wait(call, 0, &job) == 0 && job->state == WSD_JOB_CANCELLED && job->in_batch &&
         memcmp(&job->batch, &info.id, sizeof(info.id)) == 0);
    wsd_batch_free(batch);
    MUST(wsd_client_batch(client, &info.id, &info) == -ENOENT);

    /* one call of many, and a handle that goes */
    MUST(wsd_batch_open(client, &common, WSD_BATCH_KEEP_GOING, &batch) == 0);
    for (int i = 0; i < 20; i++)
        MUST(wsd_batch_submit(batch, &item, NULL, i != 7 ? NULL : &call) == 0);
    MUST(wsd_call_cancel(call) == 0 && wsd_call_wait(call, 10000000, &job) == 0 && job->state == WSD_JOB_CANCELLED);
    wsd_call_free(call);
    MUST(wsd_batch_look(batch, &info) == 0);
    while (info.done < 1) /* it may have come with the call's end */
        MUST(wsd_client_wait(client, 10000000) == 0 && wsd_batch_look(batch, &info) == 0);
    id = info.id;
    MUST(info.total == 20 && info.done == 1);
    wsd_batch_free(batch);
    MUST(wsd_client_batch_await(client, &id, 10000000, NULL, NULL, &info) == 0 || wsd_client_exit(client) == 66);
    return 0;
}

int main(int argc, char **argv)
{
    int r = 64;

    if (argc > 1 && wsd_client_open(&client, NULL, 0) < 0)
        fprintf(stderr, "mapped: %s\n", wsd_client_error(client));
    else if (argc > 2 && strcmp(argv[1], "statuses") == 0)
        r = statuses((size_t)argc - 2, argv + 2);
    else if (argc == 3 && strcmp(argv[1], "large") == 0)
        r = large(strtoull(argv[2], NULL, 10));
    else if (argc > 2 && strcmp(argv[1], "mixed") == 0)
        r = mixed(strtoull(argv[2], NULL, 10), argc > 3);
    else if (argc == 2 && strcmp(argv[1], "handle") == 0)
        r = handle();
    else if (argc > 2)
        r = numbers(strtoull(argv[1], NULL, 10), argv[2], argv + 3);
    wsd_client_free(client);
    return r;
}
