/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks.c: which plugins have been told of this thread.
 * Owns a list a thread. [worker, its own]
 * Keeps: worker_start before the first task of the plugin on this thread, once; worker_stop once for each of them.
 * Does not run where a process dies: that is no orderly end. */
#include "host/hooks.h"

#include <stdbool.h>
#include <stdlib.h>

/* A process has a few thousand plugins at most, and a worker mostly one after the other of the same. */
static _Thread_local struct {
    const struct host_plugin **started;
    uint32_t n, room;
    const struct host_plugin *last;
} mine __attribute__((tls_model("initial-exec")));

static bool is_started(const struct host_plugin *plugin)
{
    for (uint32_t i = 0; i < mine.n; i++)
        if (mine.started[i] == plugin)
            return true;
    return false;
}

void hooks_start(const struct host_plugin *plugin, uint32_t worker)
{
    if (mine.last == plugin)
        return;
    if (!is_started(plugin)) {
        if (mine.n == mine.room) {
            uint32_t room = mine.room ? 2 * mine.room : 8;
            const struct host_plugin **started = realloc(mine.started, room * sizeof(*started));

            if (!started)
                abort(); /* without its start the plugin's code must not run; the job that is named crashes */
            mine.started = started;
            mine.room = room;
        }
        mine.started[mine.n++] = plugin;
        if (plugin->worker_start)
            plugin->worker_start(worker);
    }
    mine.last = plugin;
}

void hooks_stop(uint32_t worker)
{
    while (mine.n > 0) {
        const struct host_plugin *plugin = mine.started[--mine.n];

        if (plugin->worker_stop)
            plugin->worker_stop(worker);
    }
    free(mine.started);
    mine.started = NULL;
    mine.room = 0;
    mine.last = NULL;
}
