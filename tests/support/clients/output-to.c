/* SPDX-License-Identifier: Apache-2.0
 *
 * output-to.c: a job that writes into our stdout by itself, by libwsclient.
 *
 *     output-to HOW PLUGIN FUNCTION [ARG...]     its error on stderr, and its exit code. What came by the callback
 *                                                is counted on stderr: `N by callback, N placed`
 *
 * HOW: plain; either: by the callback where it cannot be; callback: we write it; socket: into a socket; or what it does not go with: detach,
 * durable, key, retries, read-only, batch. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <wsd/client.h>

struct came {
    size_t size;
    bool shown;
};

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct came *came = userdata;

    came->size += size;
    return came->shown && write(STDOUT_FILENO, data, size) != (ssize_t)size;
}

/* Why, and its exit code. The client is gone after. */
static int refused(struct wsd_client *client)
{
    int code = wsd_client_exit(client);

    fprintf(stderr, "%s\n", wsd_client_error(client));
    wsd_client_free(client);
    return code;
}

int main(int argc, char **argv)
{
    const char *how = argc > 3 ? argv[1] : "";
    struct came came = {0};
    struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .output = on_output, .userdata = &came};
    struct wsd_submit s = {.size = sizeof(s),
                           .plugin = argv[2],
                           .function = argv[3],
                           .args = (const char *const *)argv + 4,
                           .n_args = argc > 4 ? (size_t)argc - 4 : 0,
                           .flags = WSD_SUBMIT_OUTPUT,
                           .output_fd = STDOUT_FILENO};
    const struct wsd_job_info *info;
    struct wsd_client *client;
    struct wsd_batch *batch;
    struct wsd_call *call = NULL;
    int pair[2];

    if (strcmp(how, "either") == 0)
        s.flags |= WSD_SUBMIT_EITHER;
    else if (strcmp(how, "callback") == 0)
        s.flags = 0, came.shown = true;
    else if (strcmp(how, "detach") == 0)
        s.flags |= WSD_SUBMIT_DETACH;
    else if (strcmp(how, "durable") == 0)
        s.flags |= WSD_SUBMIT_DURABLE;
    else if (strcmp(how, "key") == 0)
        s.key = "key";
    else if (strcmp(how, "retries") == 0)
        s.retries = 1;
    else if (strcmp(how, "read-only") == 0)
        s.output_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    else if (strcmp(how, "socket") == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0)
        s.output_fd = pair[0];
    else if (strcmp(how, "plain") != 0 && strcmp(how, "batch") != 0)
        return 64;
    int r = wsd_client_open(&client, NULL, 0);
    if (r == 0 && strcmp(how, "batch") == 0)
        r = wsd_batch_open(client, &s, 0, &batch);
    else if (r == 0)
        r = wsd_client_submit(client, &s, &callbacks, &call);
    if (r < 0 || wsd_call_wait(call, UINT64_MAX, &info) < 0)
        return refused(client);
    if (info->exit)
        fprintf(stderr, "%s\n", info->error);
    else
        fprintf(stderr, "%zu by callback, %llu placed\n", came.size, (unsigned long long)info->placed);
    int code = info->exit;
    wsd_client_free(client);
    return code;
}
