/* SPDX-License-Identifier: Apache-2.0
 *
 * many.c: queues a great many detached jobs: `many N`. fib must be paused: this program does not wait for them. */
#include <stdio.h>
#include <stdlib.h>

#include "wsd/client.h"

static unsigned long n_accepted, n_refused;

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    n_accepted++;
    wsd_call_free(call);
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_refused++;
    fprintf(stderr, "many: %s\n", text);
}

int main(int argc, char **argv)
{
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    static const char *const args[] = {"1"};
    const struct wsd_submit submit = {
        .size = sizeof(submit), .plugin = "fib", .args = args, .n_args = 1, .flags = WSD_SUBMIT_DETACH};
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .accepted = on_accepted, .done = on_done};
    struct wsd_client *client;
    int r = wsd_client_open(&client, NULL, 0);

    for (unsigned long begun = 0; r == 0 && n_refused == 0 && n_accepted < n;) {
        for (; r == 0 && begun < n && begun - n_accepted < 1000; begun++)
            r = wsd_client_submit(client, &submit, &callbacks, NULL);
        if (r == 0)
            r = wsd_client_wait(client, UINT64_MAX);
    }
    if (r < 0)
        fprintf(stderr, "many: %s\n", wsd_client_error(client));
    wsd_client_free(client);
    return r < 0 || n_refused;
}
