/* SPDX-License-Identifier: Apache-2.0
 *
 * daemon.h: a wsd of a benchmark's own, with quarantine off, and a connection to it.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wsd/client.h>

#include "bench.h"

static const char *workers, *wsd_path, *executor_path, *plugins;
static char socket_path[64];
static pid_t daemon_pid;
static struct wsd_client *client;

static void give_up(const char *what)
{
    fprintf(stderr, "bench: %s%s%s\n", what, client ? ": " : "", client ? wsd_client_error(client) : "");
    if (daemon_pid > 0)
        kill(daemon_pid, SIGTERM);
    exit(1);
}

static void connect_client(void)
{
    for (int i = 0; i < 500; i++) {
        if (wsd_client_open(&client, socket_path, 0) == 0)
            return;
        wsd_client_free(client);
        client = NULL;
        usleep(10000);
    }
    give_up("wsd does not answer");
}

/* arguments: WORKERS WSD EXECUTOR DIRECTORY of the plugins. more: of the configuration. */
static void start_wsd(char **arguments, const char *more)
{
    char dir[] = "/tmp/wsd-bench.XXXXXX", config[64], state[64];
    FILE *f;

    workers = arguments[0];
    wsd_path = arguments[1];
    executor_path = arguments[2];
    plugins = arguments[3];
    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(dir))
        give_up("no directory");
    snprintf(socket_path, sizeof(socket_path), "%s/s", dir);
    snprintf(config, sizeof(config), "%s/conf", dir);
    snprintf(state, sizeof(state), "%s/state", dir);
    f = fopen(config, "we");
    if (!f || fprintf(f, "[limits]\nquarantine-after = 1000000\n%s", more) < 0 || fclose(f) != 0)
        give_up("no configuration");
    daemon_pid = fork();
    if (daemon_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execl(wsd_path, wsd_path, "--socket", socket_path, "--config", config, "--executor", executor_path,
              "--state-dir", state, "--plugin-dir", plugins, "--workers", workers, "--log-level", "err", (char *)NULL);
        _exit(127);
    }
    connect_client();
}

static void stop_wsd(void)
{
    wsd_client_free(client);
    kill(daemon_pid, SIGTERM);
    waitpid(daemon_pid, NULL, 0);
    *strrchr(socket_path, '/') = 0;
    execlp("rm", "rm", "-rf", socket_path, (char *)NULL);
}
