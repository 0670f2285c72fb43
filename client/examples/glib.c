/* SPDX-License-Identifier: Apache-2.0
 *
 * glib.c: N jobs in a loop of GLib, 64 at a time, each with a deadline.
 * Usage: glib PLUGIN FUNCTION N
 * Connects again where wsd ends meanwhile; calls that were open then count as failed. */
#include <stdio.h>
#include <stdlib.h>
#include <wsd/adapters/glib.h>

static struct wsd_client *client;
static const char *plugin, *function;
static unsigned n_left, n_told, n_ok, n_all;
static GMainLoop *loop;

static void submit_more(void *userdata);

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_told++;
    n_ok += error == 0 && info->state == WSD_JOB_SUCCEEDED;
    wsd_call_free(call);
    submit_more(NULL);
    if (n_told == n_all)
        g_main_loop_quit(loop);
}

/* As many as may be open. When there is room again, it is called again. */
static void submit_more(void *userdata)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done};
    const struct wsd_submit job = {
        .size = sizeof(job), .plugin = plugin, .function = function, .deadline_usec = 5000000};

    while (n_left && wsd_client_submit(client, &job, &callbacks, NULL) == 0)
        n_left--;
}

int main(int argc, char *argv[])
{
    const struct wsd_open how = {.size = sizeof(how), .flags = WSD_OPEN_AGAIN};
    GSource *source;

    if (argc != 4)
        return 64;
    plugin = argv[1];
    function = argv[2];
    n_left = n_all = (unsigned)atoi(argv[3]);
    if (wsd_client_open_with(&client, &how) < 0 || wsd_client_set_bounds(client, 1 << 20, 64, submit_more, NULL) < 0)
        return 69;
    loop = g_main_loop_new(NULL, FALSE);
    source = wsd_glib_attach(NULL, client);
    submit_more(NULL);
    g_main_loop_run(loop);
    wsd_glib_detach(source);
    wsd_client_free(client);
    g_main_loop_unref(loop);
    printf("%u calls, %u succeeded\n", n_told, n_ok);
    return n_ok == n_all ? 0 : 1;
}
