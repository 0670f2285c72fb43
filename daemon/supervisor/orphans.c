/* SPDX-License-Identifier: Apache-2.0
 *
 * orphans.c: reaps what wsd has not started.
 * Owns the list of what it has: those are reaped by what started them, which wants to know how they ended. [loop]
 * Keeps: no zombie stays; none that belongs to another file is reaped here.
 * Does not end orphans: they live as long as they like. */
#include "supervisor/orphans.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

/* What wsd has started and has not been seen to be reaped. */
static pid_t *own;
static size_t n_own, room;

struct orphans {
    struct event *signal;
    struct event *again; /* one of wsd's own has ended and hides those behind it until it is reaped */
};

static const struct timeval shortly = {.tv_usec = 20000};

int orphans_reserve(void)
{
    if (n_own < room)
        return 0;
    pid_t *more = reallocarray(own, room + 16, sizeof(*own));
    if (!more)
        return -ENOMEM;
    own = more;
    room += 16;
    return 0;
}

void orphans_spare(pid_t pid)
{
    own[n_own++] = pid;
}

/* Those that are no children any more were reaped, and their numbers may come again. */
static void forget_reaped(void)
{
    for (size_t i = 0; i < n_own;) {
        siginfo_t info;

        if (waitid(P_PID, (id_t)own[i], &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD)
            own[i] = own[--n_own];
        else
            i++;
    }
}

static bool is_own(pid_t pid)
{
    for (size_t i = 0; i < n_own; i++)
        if (own[i] == pid)
            return true;
    return false;
}

static void reap(evutil_socket_t fd, short what, void *userdata)
{
    struct orphans *o = userdata;

    forget_reaped();
    for (;;) {
        siginfo_t info = {0};

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        if (is_own(info.si_pid)) {
            evtimer_add(o->again, &shortly); /* no memory: at the next signal */
            return;
        }
        log_debug("process %d, whose parent had ended, is reaped", (int)info.si_pid);
        (void)waitid(P_PID, (id_t)info.si_pid, &info, WEXITED | WNOHANG);
    }
}

int orphans_new(struct orphans **ret_orphans, struct event_base *base)
{
    int subreaper = 0;

    *ret_orphans = NULL;
    if (getpid() != 1 && (prctl(PR_GET_CHILD_SUBREAPER, &subreaper) < 0 || !subreaper))
        return 0;
    struct orphans *o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    o->again = evtimer_new(base, reap, o);
    o->signal = evsignal_new(base, SIGCHLD, reap, o);
    /* the timer: some may have ended before */
    if (!o->again || !o->signal || event_add(o->signal, NULL) < 0 || evtimer_add(o->again, &shortly) < 0) {
        orphans_free(o);
        return -ENOMEM;
    }
    *ret_orphans = o;
    return 0;
}

struct orphans *orphans_free(struct orphans *o)
{
    if (!o)
        return NULL;
    if (o->signal)
        event_free(o->signal);
    if (o->again)
        event_free(o->again);
    free(o);
    return NULL;
}
