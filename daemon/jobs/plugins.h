/* SPDX-License-Identifier: Apache-2.0
 *
 * plugins.h: what wsd knows of the plugins of a domain, by the word of its executor. [loop]
 */
#pragma once

#include "jobs/job.h"

/* What a plugin is asked for as: a relative path begins at its submitter's working directory (NULL: not known). 0,
 * -EACCES (a path, and this is no wsd of this user's own), -ENOMEM, -ENAMETOOLONG (it would not fit a LOAD). */
int plugin_request(const struct jobs *jobs, uint32_t uid, const char *plugin, const struct directory *directory,
                   char **ret_request);
/* The entry for a name or path, made where there is none or the file has changed. NULL: too many (errno EMFILE), or no
 * memory. */
struct plugin *plugin_get(struct domain *d, const char *request);
bool plugin_wanted(const struct plugin *p);      /* to be loaded, and somebody waits for it */
struct plugin *plugin_loading(struct domain *d); /* what the executor loads now, or NULL */
/* NEW: until its plugin is loaded, which begins, or was done before: then what job_resolve() says. */
struct plugin_function *plugin_wait(struct job *job, const char *function);
void plugin_rearm(struct domain *d); /* see jobs_rearm() */
void plugin_load(struct plugin *p);  /* sends LOAD to the executor, which is started where none runs */
void plugin_control(struct domain *d, const struct control *c); /* LOADED, FUNCTION */
/* The executor died; blame: nothing else explains it, so a plugin that was being loaded is suspected. */
void plugin_executor_gone(struct domain *d, bool blame);
void plugin_fail_waiting(struct domain *d, int error, const char *text); /* no executor can be had */
void plugin_load_wanted(struct domain *d);
struct plugin_function *plugin_find_function(struct plugin *p, const char *name);
/* The function of that name, made by this one's likeness where p is not loaded yet. NULL: it has none, or no memory. */
struct plugin_function *plugin_function_copy(struct plugin *p, const struct plugin_function *f);
/* What is asked for as ./dir/name.so is `name` there. Returns its length. */
size_t plugin_base_name(const char *request, const char **ret_name);
const char *plugin_title(const struct plugin *p); /* its own name, or what it was asked for as */
void plugin_free(struct plugin *p);

/* For reload.c. An entry that jobs find, where there is one; a new one; whether one can go; taking a file that is there
 * now for the one that was loaded. */
struct plugin *plugin_find(struct domain *d, const char *request);
struct plugin *plugin_make(struct domain *d, const char *request);
bool plugin_forgettable(const struct plugin *p);
void plugins_forget_looked(struct domain *d); /* which only questions have asked for */
void plugin_accept_file(struct plugin *p);
void plugin_failed(struct plugin *p, int error, const char *text);
