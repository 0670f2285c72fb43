/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin-query.h: questions about plugins: what they are, their reload and their release. [loop]
 */
#pragma once

#include "table/interface.h"

/* A query about plugins, embedded in the asker's object. Each answer is a call; the last has info NULL. */
struct plugin_info {
    const char *name, *version, *help, *path, *error;
    const struct plugin_function_info {
        const char *name, *help;
        uint64_t flags;
        const char *why; /* of the last crash; NULL: no recent one */
        uint32_t crashes;
        bool in_quarantine, on_probe;
        uint64_t quarantine_usec; /* time left */
    } * functions;
    size_t n_functions;
    uint32_t apart;    /* has an executor of its own: 1 by configuration, 2 because it has crashed; 0: no */
    const char *build; /* build id of the file, or "" */
    enum plugin_reloaded {
        RELOADED_NOT = 0, /* not asked for; or the load failed (error), and no older file is in use */
        RELOADED_FIRST,   /* nothing was loaded before */
        RELOADED_SAME,    /* the file has not changed */
        RELOADED_CHANGED,
        RELOADED_KEPT, /* the new file cannot be loaded (error): the old one stays in use */
    } reloaded;
    const char *old_version, *old_build; /* with CHANGED, SAME and KEPT */
    bool runs;                           /* it is a name of runners */
    uint64_t waiting;                    /* jobs that no runner has */
    const struct plugin_runner_info {
        uint32_t uid, credit, running;
        int32_t pid;
        uint64_t since_usec; /* since the epoch */
        bool leaving;
    } * runners;
    size_t n_runners; /* at most PLUGIN_RUNNERS_SHOWN */
};
#define PLUGIN_RUNNERS_SHOWN 256u
struct plugin_query {
    struct list link; /* in no list once answered */
    void (*answer)(struct plugin_query *q, const struct plugin_info *info, int error);
};
/* Returns 0, and q->answer is called; or -EACCES (a path where only names are allowed), -ENAMETOOLONG or -ENOMEM
 * without an answer. directory: the base of a relative path; NULL: not known. */
int jobs_plugin(struct jobs *jobs, uint32_t uid, const char *plugin, const struct directory *directory,
                struct plugin_query *q);
void jobs_plugin_forget(struct plugin_query *q);
/* Loads the plugin's file now, for the users that have `owner` as their executor (see jobs_plugin_users()). If that
 * succeeds, jobs submitted after the answer use it. Returns as jobs_plugin(), or -EBUSY: another reload of this plugin
 * is under way, or JOBS_RELOADS others are. */
int jobs_plugin_reload(struct jobs *jobs, uint32_t uid, uint64_t owner, const char *plugin,
                       const struct directory *directory, struct plugin_query *q);
/* Returns the owners of the executors that a reload by uid affects: those that have the plugin, of this user or (all)
 * of all users. Where none has it, the user's own. The caller frees. Errors: as jobs_plugin(). */
int jobs_plugin_users(struct jobs *jobs, uint32_t uid, bool all, const char *plugin, const struct directory *directory,
                      uint64_t **ret_owners, size_t *ret_n);
uint32_t jobs_owner_uid(const struct jobs *jobs, uint64_t owner); /* UINT32_MAX: several users share that executor */
/* Ends the quarantine of a function ("": all of the plugin), for this user or for all. Returns 0; -ENOENT: no crash of
 * it is recorded; -ENAMETOOLONG, -ENOMEM. */
int jobs_plugin_release(struct jobs *jobs, uint32_t uid, bool all, const char *plugin, const char *function,
                        const struct directory *directory);
/* The crashes of a function, by the names that its jobs have, for this user. False: there are none, and *ret stays as it
 * was. */
bool jobs_breaker(const struct jobs *jobs, uint32_t uid, const char *plugin, const char *function,
                  struct plugin_function_info *ret);
/* Returns the names of the plugins in the plugin directories, sorted, one after the other, each with its NUL. The
 * caller frees. */
int jobs_plugin_names(struct jobs *jobs, char **ret_names, size_t *ret_size);
