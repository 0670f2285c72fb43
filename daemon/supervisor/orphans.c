/* SPDX-License-Identifier: Apache-2.0
 *
 * orphans.c: reaps what wsd has not started, and ends what executors have left.
 * Owns the list of the children that wsd has started. The file that started a child reaps it, to learn how it ended.
 * [loop]
 * Keeps: no zombie stays. No child in the list is reaped here. */
#include "supervisor/orphans.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/descendants.h"
#include "base/log.h"
#include "supervisor/remains.h"

/* What wsd has started and has not been seen to be reaped. */
static pid_t *own;
static size_t n_own, room;

static struct orphans *current; /* NULL: none are looked after */

struct orphans {
    bool gets_others;  /* that have nothing to do with executors */
    bool is_like_them; /* no_new_privs, which executors and all below them have, is wsd's too */
    bool ends;         /* until nothing of executors is left */
    struct event *signal;
    struct event *again; /* one of wsd's own has ended and hides those behind it until it is reaped */
};

static const struct timeval shortly = {.tv_usec = 20000};

#define ROOM_FIRST 16u    /* doubled when it is full of those that are not reaped */
#define END_MSEC   10000u /* only what the kernel does not end takes longer */

/* Forgets processes that are not children now: they were reaped, and their numbers may be used again. */
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

int orphans_reserve(void)
{
    size_t wanted = room ? room * 2 : ROOM_FIRST;

    if (n_own == room)
        forget_reaped();
    if (n_own < room)
        return 0;
    pid_t *more = reallocarray(own, wanted, sizeof(*own));
    if (!more)
        return -ENOMEM;
    own = more;
    room = wanted;
    return 0;
}

void orphans_spare(pid_t pid)
{
    own[n_own++] = pid;
}

void orphans_bury(pid_t pid)
{
    kill(pid, SIGKILL);
    for (size_t i = 0; i < n_own; i++)
        if (own[i] == pid) {
            own[i] = own[--n_own];
            break;
        }
    orphans_end();
}

static bool is_own(pid_t pid)
{
    for (size_t i = 0; i < n_own; i++)
        if (own[i] == pid)
            return true;
    return false;
}

/* Each as descendants_spared has it. */

static int is_others(pid_t pid)
{
    if (!current->gets_others || current->is_like_them)
        return current->gets_others;
    int has = descendants_status_has(pid, "NoNewPrivs:\t1\n");
    return has < 0 ? has : !has;
}

static int is_spared(pid_t pid)
{
    int r = is_own(pid);

    if (r == 0 && remains_any())
        r = descendants_is_reaper(pid);
    return r ? r : is_others(pid);
}

static void end_some(struct orphans *o)
{
    o->ends = descendants_kill(is_spared) > 0;
    if (o->ends)
        evtimer_add(o->again, &shortly); /* no memory: at the next signal */
}

static void reap_all(struct orphans *o)
{
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

static void on_child_ended(evutil_socket_t fd, short what, void *userdata)
{
    struct orphans *o = userdata;

    reap_all(o);
    if (o->ends)
        end_some(o);
}

void orphans_end(void)
{
    if (!current)
        return;
    current->ends = true;
    end_some(current);
}

void orphans_end_wait(void)
{
    /* wsd's own among them: they are killed already, and what they have left is not wsd's before they are gone */
    if (current && !descendants_end(is_others, END_MSEC))
        log_warning("processes that plugins have started are still there");
}

/* Of the program that became wsd by exec. */
static bool has_children(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

int orphans_new(struct orphans **ret_orphans, struct event_base *base)
{
    int subreaper = 0;

    *ret_orphans = NULL;
    if (prctl(PR_GET_CHILD_SUBREAPER, &subreaper) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return -errno;
    struct orphans *o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    o->gets_others = getpid() == 1 || subreaper || has_children();
    o->is_like_them = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    o->again = evtimer_new(base, on_child_ended, o);
    o->signal = evsignal_new(base, SIGCHLD, on_child_ended, o);
    /* the timer: some may have ended before */
    if (!o->again || !o->signal || event_add(o->signal, NULL) < 0 || evtimer_add(o->again, &shortly) < 0) {
        orphans_free(o);
        return -ENOMEM;
    }
    *ret_orphans = current = o;
    return 0;
}

struct orphans *orphans_free(struct orphans *o)
{
    if (!o)
        return NULL;
    current = NULL;
    if (o->signal)
        event_free(o->signal);
    if (o->again)
        event_free(o->again);
    free(o);
    return NULL;
}
