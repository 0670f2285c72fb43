/* SPDX-License-Identifier: Apache-2.0
 *
 * fleet-look.c: asks wsd-fleet how the fleet is.
 * Owns a process of `wsd-fleet --status`, one at a time, the pipe of what it prints, and what the last one has told.
 * That process speaks to other machines, wsd-web itself to none. [thread of the collector]
 * Keeps: no call waits for the process. One that takes too long is killed, and is an error. */
#include "web/fleet-look.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define EVERY_USEC  5000000u   /* from the start of one process to that of the next */
#define ANSWER_USEC 15000000u  /* for an answer: servers that are not there take wsd-fleet some seconds */
#define TOLD_MAX    (4u << 20) /* of a thousand machines that take many plugins each */

struct fleet_look {
    struct fleet_look_options options;
    pid_t pid; /* 0: none runs */
    int fd;    /* what it prints; -1: none runs */
    uint64_t started_usec;
    char *told; /* TOLD_MAX + 1 bytes */
    size_t n_told;
    json_t *last;
};

extern char **environ;

static void keep(struct fleet_look *f, json_t *answer)
{
    json_decref(f->last);
    f->last = answer;
}

static void keep_error(struct fleet_look *f, const char *words)
{
    json_t *j = json_pack("{s:s}", "error", words);

    keep(f, j ? j : json_pack("{s:s}", "error", "wsd-fleet says something that is no UTF-8"));
}

static int spawn_it(struct fleet_look *f, int out)
{
    const char *args[] = {"wsd-fleet",        "--status", "--json", f->options.servers ? "--servers" : NULL,
                          f->options.servers, NULL};
    posix_spawn_file_actions_t actions;
    int r = posix_spawn_file_actions_init(&actions);

    if (r)
        return -r;
    r = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    r = r ? r : posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    r = r ? r : posix_spawn(&f->pid, f->options.program, &actions, NULL, (char *const *)args, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (r)
        f->pid = 0;
    return -r;
}

static void start(struct fleet_look *f)
{
    char words[512];
    int fds[2], r;

    f->started_usec = clock_monotonic_usec();
    f->n_told = 0;
    r = pipe2(fds, O_CLOEXEC) < 0 ? -errno : 0;
    if (r == 0) {
        r = spawn_it(f, fds[1]);
        close(fds[1]);
        f->fd = fds[0];
        (void)fcntl(f->fd, F_SETFL, O_NONBLOCK);
    }
    if (r == 0)
        return;
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    snprintf(words, sizeof(words), "%s: %s%s", f->options.program, strerror(-r),
             r == -ENOENT ? ": install wsd-fleet" : "");
    keep_error(f, words);
}

static bool has_ended(const struct fleet_look *f)
{
    siginfo_t gone = {0};

    return waitid(P_PID, (id_t)f->pid, &gone, WEXITED | WNOHANG | WNOWAIT) < 0 || gone.si_pid;
}

/* Ends the process, where it runs. Returns whether it had ended well by itself. */
static bool end(struct fleet_look *f)
{
    int status = 0;
    bool ended = f->pid && has_ended(f);

    if (f->pid && !ended)
        kill(f->pid, SIGKILL);
    if (f->pid)
        (void)waitpid(f->pid, &status, 0);
    f->pid = 0;
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* It has printed all: JSON in the last line, or words. */
static void take(struct fleet_look *f, bool well)
{
    f->told[f->n_told] = 0;
    while (f->n_told && f->told[f->n_told - 1] == '\n')
        f->told[--f->n_told] = 0;

    const char *last = strrchr(f->told, '\n');
    last = last ? last + 1 : f->told;
    json_t *answer = well ? json_loads(last, JSON_REJECT_DUPLICATES, NULL) : NULL;

    if (json_is_object(answer)) {
        keep(f, answer);
        return;
    }
    json_decref(answer);
    keep_error(f, *last ? last : "wsd-fleet --status has failed, and says nothing");
}

/* What is there of the answer. False: it ended, or is too long. */
static bool read_some(struct fleet_look *f)
{
    for (;;) {
        ssize_t n = read(f->fd, f->told + f->n_told, TOLD_MAX - f->n_told);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
        f->n_told += (size_t)n;
    }
}

/* Its end of the pipe is closed a moment before it is gone: then a later look takes the answer. */
static void look_at_answer(struct fleet_look *f)
{
    if (read_some(f))
        return;
    if (f->n_told == TOLD_MAX) {
        end(f);
        keep_error(f, "wsd-fleet --status says more than four megabytes");
    } else if (has_ended(f)) {
        take(f, end(f));
    }
}

/* Drops the process and what it has told: nothing has asked for a while, or there is no answer. */
static void forget(struct fleet_look *f)
{
    bool runs = f->pid && !has_ended(f);

    end(f);
    keep(f, NULL);
    if (runs)
        keep_error(f, "wsd-fleet --status does not answer: is a server of NATS there?");
}

json_t *fleet_look_now(struct fleet_look *f)
{
    uint64_t age = clock_monotonic_usec() - f->started_usec;

    if (f->started_usec && age > ANSWER_USEC)
        forget(f);
    else if (f->pid)
        look_at_answer(f);
    if (!f->pid && (!f->started_usec || age > EVERY_USEC))
        start(f);
    return json_incref(f->last);
}

int fleet_look_new(struct fleet_look **ret, const struct fleet_look_options *options)
{
    struct fleet_look *f = calloc(1, sizeof(*f));

    if (!f)
        return -ENOMEM;
    f->options = *options;
    f->fd = -1;
    f->told = malloc(TOLD_MAX + 1);
    if (!f->told) {
        free(f);
        return -ENOMEM;
    }
    *ret = f;
    return 0;
}

struct fleet_look *fleet_look_free(struct fleet_look *f)
{
    if (!f)
        return NULL;
    end(f);
    json_decref(f->last);
    free(f->told);
    free(f);
    return NULL;
}
