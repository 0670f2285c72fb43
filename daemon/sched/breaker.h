/* SPDX-License-Identifier: Apache-2.0
 *
 * breaker.h: circuit breakers: functions that crash again and again, and plugins that run apart until they prove
 * themselves. Everything here is [loop]. An entry is found by the names of a submission: owner (of a trust domain),
 * request (the plugin's name or path) and function.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

#define BREAKER_WINDOW_USEC 60000000u /* crashes further apart than this are not counted together */
#define BREAKER_FIRST_USEC  1000000u  /* the first quarantine; doubled each time up to the configured limit */
#define BREAKER_ENTRIES     4096u     /* functions and plugins that are remembered */
#define BREAKER_OWN         512u      /* likewise of one owner; above it, the owner's oldest entry goes */
#define BREAKER_PROOF       64u       /* successful jobs in an executor of its own that a plugin needs to leave it */
#define BREAKER_WHY         128u

struct breaker_rules {
    uint64_t after;    /* crashes until the first quarantine */
    uint64_t max_usec; /* the longest quarantine */
};

/* One function, or (function "") one plugin. */
struct breaker {
    struct hash_link link;
    uint64_t owner;
    char *request, *function;
    uint32_t n_crashes;    /* since the last quarantine, close enough to each other */
    uint32_t n_all;        /* since a job of it last went well */
    uint32_t n_silent;     /* executors that died without a note, since a job of it last went well */
    uint32_t n_pauses;     /* successive quarantines; each is twice as long */
    uint32_t n_good;       /* of a plugin: successful jobs since its last crash */
    uint64_t last_usec;    /* of the last crash */
    uint64_t until_usec;   /* end of the quarantine; 0: none */
    const void *probe;     /* the job that is let through as a probe; NULL: none */
    char why[BREAKER_WHY]; /* of the last crash */
    char *told;            /* what the last refusal said; NULL: nothing, or the entry has changed since */
    uint64_t told_sec;     /* seconds that were left then */
    bool told_of_probe;
};

struct breakers {
    struct hash all;
    uint64_t n_added; /* entries ever added; a name that was not found has no entry as long as this stays the same */
};

enum breaker_answer { BREAKER_CLOSED = 0, BREAKER_PROBE = 1, BREAKER_OPEN = 2 };

void breaker_deinit(struct breakers *q);

/* There is no entry, as is mostly so. */
static inline bool breaker_is_empty(const struct breakers *q)
{
    return q->all.n == 0;
}

struct breaker *breaker_find(const struct breakers *q, uint64_t owner, const char *request, const char *function);

/* This function has crashed in this job. True: it is in quarantine from now on, or again. */
bool breaker_crashed(struct breakers *q, const struct breaker_rules *rules, uint64_t owner, const char *request,
                     const char *function, const void *job, const char *why, uint64_t now_usec);

/* An executor died without a note during this job, while no other function was running. alone: nor had any other ever
 * run in it. From the second such death on, with no job of the function going well in between, its plugin is to run
 * apart. If alone, the function also goes into quarantine (returns true) after as many deaths as crashes are allowed,
 * at least two. So an executor that is killed by hand now and then has no effect. */
bool breaker_silent(struct breakers *q, const struct breaker_rules *rules, uint64_t owner, const char *request,
                    const char *function, const void *job, bool alone, const char *why, uint64_t now_usec);

/* This plugin has ended its executor without a crash of its own: it is to run apart. */
void breaker_mark(struct breakers *q, uint64_t owner, const char *request, uint64_t now_usec);

/* Whether this job may run: CLOSED; PROBE: only as the one probe, which breaker_try() makes it; or OPEN: it may not. */
enum breaker_answer breaker_ask(const struct breaker *s, const void *job, uint64_t now_usec);
void breaker_try(struct breaker *s, const void *job);

/* A job has ended without a crash. went_well: its function has returned. True: that ended the quarantine. */
bool breaker_ended(struct breakers *q, uint64_t owner, const char *request, const char *function, const void *job,
                   bool went_well);

/* Whether jobs of this plugin must run in an executor of its own, because it has crashed. */
bool breaker_apart(const struct breakers *q, uint64_t owner, const char *request);

/* Removes the entry of a plugin's function ("": of all, and of the plugin). any_owner: for all owners. Returns how many
 * functions had entries. */
size_t breaker_release(struct breakers *q, bool any_owner, uint64_t owner, const char *request, const char *function);
