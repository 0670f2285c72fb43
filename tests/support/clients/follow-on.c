/* SPDX-License-Identifier: Apache-2.0
 *
 * follow-on.c: many jobs that run after one another, on one connection.
 *
 *     follow-on star ID N
 *         N jobs that all run after ID, which is to succeed. Exits 0 where all of them have.
 *     follow-on row N
 *         N jobs in a row, each after the one before. The first one fails: all others are to be cancelled, and to name
 *         the first. Exits 0 where that is so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wsd/client.h>

static struct wsd_client *client;
static unsigned n_ended, n_right;
static struct wsd_id last;
static char first[WSD_ID_TEXT];
static bool accepted, is_row;

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    last = *id;
    accepted = true;
    if (!first[0])
        wsd_id_text(id, first);
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_ended++;
    if (error)
        fprintf(stderr, "follow-on: %s\n", text);
    else if (!is_row)
        n_right += info->state == WSD_JOB_SUCCEEDED;
    else if (userdata)
        n_right += info->state == WSD_JOB_FAILED;
    else
        n_right += info->state == WSD_JOB_CANCELLED && strstr(info->error, first);
}

static int submit(bool fails, const struct wsd_id *after)
{
    const struct wsd_callbacks callbacks = {
        .size = sizeof(callbacks), .accepted = on_accepted, .done = on_done, .userdata = fails ? &is_row : NULL};
    const char *argument = fails ? "3" : "0";
    const struct wsd_submit s = {.size = sizeof(s),
                                 .plugin = "echo",
                                 .function = "status",
                                 .args = &argument,
                                 .n_args = 1,
                                 .after = after,
                                 .n_after = after ? 1 : 0};

    accepted = false;
    return wsd_client_submit(client, &s, &callbacks, NULL);
}

int main(int argc, char **argv)
{
    unsigned n = argc > 2 ? (unsigned)atoi(argv[argc - 1]) : 0;
    struct wsd_id id;
    int r = wsd_client_open(&client, NULL, 0);

    is_row = argc == 3;
    if (is_row && r == 0) /* it fails, but not before the others are there */
        r = wsd_client_gate(client, WSD_GATE_PAUSE, "echo", NULL, 0);
    else if (argc == 4)
        r = wsd_id_parse(argv[2], &id);
    for (unsigned i = 0; i < n && r == 0; i++) {
        r = submit(is_row && i == 0, is_row && i == 0 ? NULL : is_row ? &last : &id);
        while (r == 0 && is_row && !accepted && n_ended == 0)
            r = wsd_client_wait(client, UINT64_MAX);
    }
    if (is_row && r == 0)
        r = wsd_client_gate(client, WSD_GATE_RESUME, "echo", NULL, 0);
    while (r == 0 && n_ended < n)
        r = wsd_client_wait(client, UINT64_MAX);
    printf("%u of %u as they should be\n", n_right, n);
    if (r < 0)
        fprintf(stderr, "follow-on: %s\n", wsd_client_error(client));
    wsd_client_free(client);
    return r < 0 || n_right != n || n == 0;
}
