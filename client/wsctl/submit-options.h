/* SPDX-License-Identifier: Apache-2.0
 *
 * submit-options.h: what the options of `wsctl submit` say.
 */
#pragma once

#include "ctl.h"
#include "proto/codec.h"
#include "room.h"

struct submit_options {
    const char *plugin, *function; /* function NULL: the main one */
    const char *name;              /* as it was given, for errors */
    const char *input, *output;
    char *const *args;
    size_t n_args;
    uint64_t timeout_usec;
    int priority;
    const char *key;
    uint32_t retries, retry_on;
    uint64_t retry_usec;
    uint64_t delay_usec, at_usec, queue_usec;
    struct wsd_id *after, *after_any; /* to be freed */
    size_t n_after, n_after_any;
    const char *tags[CODEC_TAGS];
    size_t n_tags;
    bool detach, local, durable;
    struct room room;
    unsigned workers;
    size_t stack_size;
    const char *plugin_dirs[16];
    size_t n_plugin_dirs;
};

enum {
    OPT_WAIT_FOR_ROOM = 255,
    OPT_LOCAL,
    OPT_WORKERS,
    OPT_PLUGIN_DIR,
    OPT_DURABLE,
    OPT_KEY,
    OPT_RETRIES,
    OPT_RETRY_DELAY,
    OPT_RETRY_ON,
    OPT_DELAY,
    OPT_AT,
    OPT_MAX_WAIT,
    OPT_AFTER,
    OPT_AFTER_ANY,
    OPT_TAG,
    OPT_STACK
};

extern const struct option submit_long_options[];

/* Handles one option of submit, with its value in optarg. Returns 0 or the exit code, said. */
int submit_option(struct submit_options *options, int c);
/* The same by its long name. */
int submit_option_named(struct submit_options *options, const char *name, const char *value);
