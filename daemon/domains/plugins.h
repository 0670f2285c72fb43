/* SPDX-License-Identifier: Apache-2.0
 *
 * plugins.h: the plugins of a domain, as its executor reports them. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct control;
struct domain;
struct job;
struct jobs;
struct plugin;
struct plugin_function;

/* The plugins of a domain. */
struct plugins {
    struct list all;
    uint64_t n_used;  /* counts uses */
    uint64_t n_loads; /* loads sent so far */
};

int plugins_init(struct domain *d); /* 0 */
void plugins_deinit(struct domain *d);
/* The entry for a name or path; made where there is none, or the file has changed. NULL: no memory, or too many (errno
 * EMFILE). */
struct plugin *plugin_get(struct domain *d, const char *request);
bool plugin_wanted(const struct plugin *p);      /* it is not loaded, and something waits for it */
struct plugin *plugin_loading(struct domain *d); /* the one that the executor is loading; NULL: none */
/* For a NEW job: starts the load of its plugin and lets the job wait. If the plugin is loaded already, returns as
 * job_resolve(). */
struct plugin_function *plugin_wait(struct job *job, const char *function);
void plugins_turn(struct jobs *jobs); /* once a turn: those that waited for loads that have ended go on */
void plugin_rearm(struct domain *d);  /* see timers.h */
void plugin_load(struct plugin *p);   /* sends LOAD to the executor; starts one if none runs */
void plugin_control(struct domain *d, const struct control *c); /* LOADED, FUNCTION */
/* The executor died. blame: nothing else explains it, so a plugin that was being loaded is suspected. */
void plugin_executor_gone(struct domain *d, bool blame);
void plugin_fail_waiting(struct domain *d, int error, const char *text); /* no executor can be started */
void plugin_load_wanted(struct domain *d);
/* The function of f's name in p; copied from f where p is not loaded yet. NULL: p has none, or no memory. */
struct plugin_function *plugin_function_copy(struct plugin *p, const struct plugin_function *f);
void plugin_free(struct plugin *p);

/* For reload.c. plugin_make() returns a new entry. plugin_forgettable(): whether an entry can be freed.
 * plugin_accept_file() takes the present file for the one that was loaded. */
struct plugin *plugin_make(struct domain *d, const char *request);
bool plugin_forgettable(const struct plugin *p);
void plugins_forget_looked(struct domain *d); /* frees entries that only questions have asked for */
void plugin_accept_file(struct plugin *p);
void plugin_begun(struct domain *d, const struct control *c); /* CONTROL_LOADING */
void plugin_unloaded(struct plugin *p);                       /* no executor of the domain has it any more */
void plugin_failed(struct plugin *p, int error, const char *text);
