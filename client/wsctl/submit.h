/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.h: what the options of `wsctl submit` say.
 */
#pragma once

#include "ctl.h"
#include "proto/codec.h"

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
    struct wsd_id *after, *after_any; /* to be freed */
    size_t n_after, n_after_any;
    const char *tags[CODEC_TAGS];
    size_t n_tags;
    bool detach, local, durable;
    unsigned workers;
    const char *plugin_dirs[16];
    size_t n_plugin_dirs;
};

/* submit.c: one option by its long name. 0 or the exit code, said. */
int submit_option(struct submit_options *options, const char *name, const char *value);

/* local.c: runs it inside this process. Returns the exit code. */
int submit_local(const struct ctl *ctl, const struct submit_options *options);
