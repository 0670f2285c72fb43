/* SPDX-License-Identifier: Apache-2.0
 *
 * access.h: who may do what. Everything here is [loop].
 *
 * The job table knows users by their uid, and takes ACCESS_ALL for one who may reach the jobs of all. Who that is, and
 * who may submit at all, is decided here and nowhere else, by one function for each right, anew for each request: so
 * rules that were read again hold for the next request of a connection that is open.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ACCESS_ALL 0u /* instead of a uid: the jobs of all users, as root sees them */

struct peer;

/* Users and groups, by number. Its owner frees the arrays. */
struct access_list {
    uint32_t *uids, *gids;
    uint32_t n_uids, n_gids;
    bool all;  /* everybody */
    bool said; /* in the configuration: else a default */
};

enum access_right {
    ACCESS_SUBMIT,     /* give jobs, ask for plugins */
    ACCESS_SEE,        /* jobs of all users, with their results, executors and traces; one's own need no right */
    ACCESS_CANCEL,     /* jobs of all users */
    ACCESS_ADMINISTER, /* pause, limit, drain, workers; reload and release for all users */
};
#define ACCESS_RIGHTS 4u

/* Root may do everything, and so may the one user of a user's own wsd. In a wsd of all users, the one that it runs as
 * may submit and administer. */
struct access_rules {
    struct access_list lists[ACCESS_RIGHTS]; /* by enum access_right */
    /* Who may use this plugin: NULL: whoever may submit. */
    const struct access_list *(*plugin)(const char *name, void *context);
    void *context;
};

/* Whether one with this uid, and these groups, is in it. */
bool access_listed(const struct access_list *list, uint32_t uid, const uint32_t *gids, uint32_t n_gids);

/* Each of these: NULL, or the words of a refusal (77), which name the key that would allow it. */
const char *access_connect(struct peer *p);
const char *access_submit(struct peer *p);
const char *access_administer(struct peer *p);
/* A file of this machine must not be named from another one. */
const char *access_path(const struct peer *p, const char *plugin);
/* Whether he may use the plugin of this name, beside what access_submit() says. */
bool access_plugin(struct peer *p, const char *plugin);

/* Whose jobs, executors and so on he reaches: his uid, or ACCESS_ALL. */
uint32_t access_sees(struct peer *p);
uint32_t access_watches(struct peer *p); /* executors and traces: administrators need those, too */
uint32_t access_cancels(struct peer *p);
