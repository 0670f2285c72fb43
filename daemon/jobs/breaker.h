/* SPDX-License-Identifier: Apache-2.0
 *
 * breaker.h: functions that crash again and again, and plugins that have to prove themselves. Everything here is
 * [loop]. Names are those of a submission: owner (a trust domain's user), request (the plugin's name or path),
 * function.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

#define BREAKER_WINDOW_USEC 60000000u /* crashes that lie further apart than this are not counted together */
#define BREAKER_FIRST_USEC  1000000u  /* the first pause; doubled each time up to the configured limit */
#define BREAKER_ENTRIES     4096u     /* functions and plugins that are remembered, */
#define BREAKER_OWN         512u      /* and of one owner: then his oldest goes */
#define BREAKER_PROOF       64u       /* jobs that have to go well in an executor of its own */
#define BREAKER_WHY         128u

struct breaker_rules {
    uint64_t after;    /* crashes until the first pause */
    uint64_t max_usec; /* the longest pause */
};

/* One function, or (function "") one plugin. */
struct breaker {
    struct hash_link link;
    uint64_t owner;
    char *request, *function;
    uint32_t n_crashes;    /* since the last pause, close enough to each other */
    uint32_t n_all;        /* since it went well the last time */
    uint32_t n_silent;     /* deaths without a note, since one of its jobs went well */
    uint32_t n_pauses;     /* in a row: each is twice as long */
    uint32_t n_good;       /* of a plugin: jobs since its last crash */
    uint64_t last_usec;    /* of the last crash */
    uint64_t until_usec;   /* 0: free; else not before */
    const void *probe;     /* the job that is let through to see; NULL: none */
    char why[BREAKER_WHY]; /* of the last crash */
    char *told;            /* what the last refusal said; NULL: nothing since something of it changed */
    uint64_t told_sec;     /* that were left then */
    bool told_of_probe;
};

struct breakers {
    struct hash all;
    uint64_t n_added; /* ever: who was not among them when it was this is not, while it is */
};

enum breaker_answer { BREAKER_CLOSED = 0, BREAKER_PROBE = 1, BREAKER_OPEN = 2 };

void breaker_deinit(struct breakers *q);

/* NULL: nothing is known against it. Costs nothing while nothing is known against anybody. */
/* Nobody has crashed of late, as mostly: there is nothing to find. */
static inline bool breaker_is_empty(const struct breakers *q)
{
    return q->all.n == 0;
}

struct breaker *breaker_find(const struct breakers *q, uint64_t owner, const char *request, const char *function);

/* This function has crashed, in this job. True: it is in quarantine from now on, or again. */
bool breaker_crashed(struct breakers *q, const struct breaker_rules *rules, uint64_t owner, const char *request,
                     const char *function, const void *job, const char *why, uint64_t now_usec);

/* An executor has died in this job, left no word of why, and no other function was running; alone: or ever had, there.
 * The second time with no job of the function going well in between its plugin is to run apart, and where it was alone
 * it is in quarantine (true) as often as crashes are allowed: who is killed by hand now and then is not to blame. */
bool breaker_silent(struct breakers *q, const struct breaker_rules *rules, uint64_t owner, const char *request,
                    const char *function, const void *job, bool alone, const char *why, uint64_t now_usec);

/* This plugin has taken its executor down without a crash of its own: it is to run apart. */
void breaker_mark(struct breakers *q, uint64_t owner, const char *request, uint64_t now_usec);

/* Whether this job may go: CLOSED, PROBE (as the only one: breaker_try() makes it that) or OPEN. */
enum breaker_answer breaker_ask(const struct breaker *s, const void *job, uint64_t now_usec);
void breaker_try(struct breaker *s, const void *job);

/* A job has ended without a crash. went_well: its function has returned. True: that released the function. */
bool breaker_ended(struct breakers *q, uint64_t owner, const char *request, const char *function, const void *job,
                   bool went_well);

/* Whether jobs of this plugin belong into an executor of their own, because it has crashed. */
bool breaker_apart(const struct breakers *q, uint64_t owner, const char *request);

/* Forgets what is known against a plugin's function ("": all of them, and the plugin). any_owner: whoever it was.
 * Returns how many of its functions were known. */
size_t breaker_release(struct breakers *q, bool any_owner, uint64_t owner, const char *request, const char *function);
