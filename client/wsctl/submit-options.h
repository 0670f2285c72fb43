/* SPDX-License-Identifier: Apache-2.0
 *
 * submit-options.h: the options that say what is submitted, of submit, map and schedule, and of the nodes of a graph. A
 * new one is a row of the table in submit-options.c, and nothing else in wsctl.
 */
#pragma once

#include <getopt.h>

#include "wsd/client.h"
#include "proto/codec.h"
#include "room.h"

/* Which verbs take an option. */
enum submit_verbs { SUBMIT_ALONE = 1, SUBMIT_MAP = 2, SUBMIT_SCHEDULE = 4, SUBMIT_GRAPH = 8 };

/* Zeroed, then given options. */
struct submit_options {
    struct wsd_submit job; /* what wsd gets; `size` is for the sender to set */
    const char *name;      /* of the plugin and its function as they were given, for errors */
    const char *input, *output;
    const char *trace, *otlp;         /* files; NULL: none */
    struct wsd_id *after, *after_any; /* of the job */
    const char *tags[CODEC_TAGS];
    struct room room;
    bool local;
    bool fleet; /* the plugin is one of another machine */
    unsigned workers;
    size_t stack_size;
    const char *plugin_dirs[16];
    size_t n_plugin_dirs;
    uint64_t given; /* a bit for each option of the table */
};

/* What ctl_getopt() wants. */
struct option_list {
    struct option options[48];
    char letters[48];
};

static inline bool submit_detaches(const struct submit_options *o)
{
    return o->job.flags & WSD_SUBMIT_DETACH;
}

static inline bool submit_is_durable(const struct submit_options *o)
{
    return o->job.flags & WSD_SUBMIT_DURABLE;
}

/* The verb's own options, which end with zeros, and their letters; then those that it takes of the table. */
void submit_options_list(unsigned verb, const struct option *own, const char *letters, struct option_list *ret);
/* A line for each that the verb takes. Valid until the next call. */
const char *submit_options_help(unsigned verb);

/* One of the table, with its value in optarg. Returns 0 or the exit code, said. */
int submit_option(struct submit_options *options, int c);
/* Takes what the environment says and no option has said: TRACEPARENT. Returns 0 or the exit code, said. */
int submit_take_environment(struct submit_options *options);
int submit_add_tag(struct submit_options *options, const char *text);
/* Whether there is an option of that name that a node of a graph may have, and whether it is one without a value. */
bool submit_member(const char *name, bool *ret_flag);
/* Sets it. Returns 0 or the exit code, said. */
int submit_set_member(struct submit_options *options, const char *name, const char *value);
/* All their names. */
void submit_member_names(char *ret, size_t size);

/* Takes the plugin, `PLUGIN` or `PLUGIN:FUNCTION`, behind the options: with --fleet it is one of another machine. The job
 * has the names; *ret_plugin is the caller's to free when the job is over. Returns 0 or the exit code, said. */
int submit_set_plugin(struct submit_options *options, const char *text, char **ret_plugin);
/* Whether what was given goes together. 0 or the exit code, said. */
int submit_options_check(const struct submit_options *options);
void submit_options_deinit(struct submit_options *options);
