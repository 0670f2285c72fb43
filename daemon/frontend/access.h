/* SPDX-License-Identifier: Apache-2.0
 *
 * access.h: access rights. Everything here is [loop].
 *
 * The job table knows users by uid, and takes ACCESS_ALL for a user that may reach the jobs of all. Only this file
 * decides which users those are, and which may submit at all. It has one function for each right, and decides anew for
 * each request: rules that were read again hold from the next request on, on open connections too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ACCESS_WHY 512u /* bytes of the words of a refusal */
#define ACCESS_ALL 0u   /* in place of a uid: the jobs of all users, as root sees them */

struct frontend;
struct local_user;
struct peer;

/* Users and groups, by number. Its owner frees the arrays. */
struct access_list {
    uint32_t *uids, *gids;
    uint32_t n_uids, n_gids;
    bool all;  /* all users */
    bool said; /* set in the configuration; false: a default */
};

enum access_right {
    ACCESS_SUBMIT,     /* submit jobs, ask for plugins */
    ACCESS_SEE,        /* see jobs of all users, with their results, executors and traces; a user's own need no right */
    ACCESS_WATCH,      /* see states and counters of jobs of all users, and nothing that these users wrote */
    ACCESS_CANCEL,     /* cancel jobs of all users */
    ACCESS_ADMINISTER, /* pause, limit, drain, workers; reload and release for all users */
};
#define ACCESS_RIGHTS 5u

/* A connection that acts for another user has the right to submit at most. Otherwise, root may do everything, and so may the user of a user's own wsd. In a wsd for all users, the user under which it runs
 * may submit and administer. */
struct access_rules {
    struct access_list lists[ACCESS_RIGHTS]; /* by enum access_right */
    struct access_list submit_as;            /* the users that a connection may act for */
    uint32_t agent;                          /* connections of this uid may, and root's; UINT32_MAX: root's only */
    /* The users of this plugin, or of this name of runners. NULL: every submitter. */
    const struct access_list *(*plugin)(const char *name, void *context);
    /* The users that may have runners of this name. NULL: every submitter. */
    const struct access_list *(*offer)(const char *name, void *context);
    void *context;
};

/* Whether a user with this uid and these groups is in the list. */
bool access_listed(const struct access_list *list, uint32_t uid, const uint32_t *gids, uint32_t n_gids);

/* Each returns NULL, or the words of a refusal (exit code 77), which name the key that would allow it. */
const char *access_connect(struct peer *p);
const char *access_submit(struct peer *p);
const char *access_administer(struct peer *p);
/* Whether connections of the user `by` may act for the user of that name. user NULL: it was not looked up yet. False: why
 * not. */
bool access_acts(const struct frontend *f, uint32_t by, const char *name, const struct local_user *user,
                 char why[static ACCESS_WHY]);
/* A client of another machine, or one that acts for another user, may not name a file of this one. */
const char *access_path(const struct peer *p, const char *plugin);
/* Whether the client may use the plugin of this name, in addition to access_submit(). */
bool access_plugin(struct peer *p, const char *plugin);
/* Whether its runner may have this name, likewise. */
bool access_offer(struct peer *p, const char *name);

/* The uid as which the client reaches jobs, executors and so on: its own, or ACCESS_ALL. */
uint32_t access_sees(struct peer *p);    /* jobs with all that belongs to them */
uint32_t access_watches(struct peer *p); /* states and counters; access_reads() says of which users it has more */
uint32_t access_counts(struct peer *p);  /* executors, workers and functions, which administrators see, too */
uint32_t access_traces(struct peer *p);  /* traces, likewise */
uint32_t access_cancels(struct peer *p);
/* Whether the client may read what the user with this uid gave a job, and what the job wrote. */
bool access_reads(struct peer *p, uint32_t uid);
