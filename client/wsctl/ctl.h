/* SPDX-License-Identifier: Apache-2.0
 *
 * ctl.h: verbs. A verb is one file with one function, listed in main.c's table.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wsd/client.h"

struct ctl;

struct verb {
    const char *name;
    const char *usage; /* what follows the name; completion reads it, and the options in details */
    const char *help;  /* one line; NULL: not for people */
    const char *details;
    int (*run)(struct ctl *ctl, int argc, char **argv);
    /* options stop at the first argument: what comes then may be a job's. Else they may stand anywhere */
    bool in_order;
    unsigned takes; /* enum submit_verbs: the options of submit-options.h that it has, too, behind those in details */
};

/* The common options. */
struct ctl {
    const struct verb *verb;
    const char *socket;
    struct wsd_tls tls; /* what was given of a wsd on another machine */
    bool json, quiet, no_progress;
};

int verb_submit(struct ctl *ctl, int argc, char **argv);
int verb_run(struct ctl *ctl, int argc, char **argv);
int verb_map(struct ctl *ctl, int argc, char **argv);
int verb_await(struct ctl *ctl, int argc, char **argv);
int verb_attach(struct ctl *ctl, int argc, char **argv);
int verb_status(struct ctl *ctl, int argc, char **argv);
int verb_list(struct ctl *ctl, int argc, char **argv);
int verb_cancel(struct ctl *ctl, int argc, char **argv);
int verb_dead(struct ctl *ctl, int argc, char **argv);
int verb_schedule(struct ctl *ctl, int argc, char **argv);
int verb_web(struct ctl *ctl, int argc, char **argv);
int verb_fleet(struct ctl *ctl, int argc, char **argv);
int verb_runner(struct ctl *ctl, int argc, char **argv);
int verb_plugin(struct ctl *ctl, int argc, char **argv);
int verb_bench(struct ctl *ctl, int argc, char **argv);
int verb_ping(struct ctl *ctl, int argc, char **argv);
int verb_stats(struct ctl *ctl, int argc, char **argv);
int verb_pause(struct ctl *ctl, int argc, char **argv);
int verb_resume(struct ctl *ctl, int argc, char **argv);
int verb_drain(struct ctl *ctl, int argc, char **argv);
int verb_limit(struct ctl *ctl, int argc, char **argv);
int verb_limits(struct ctl *ctl, int argc, char **argv);
int verb_actions(struct ctl *ctl, int argc, char **argv);
int verb_workers(struct ctl *ctl, int argc, char **argv);
int verb_top(struct ctl *ctl, int argc, char **argv);
int verb_profile(struct ctl *ctl, int argc, char **argv);
int verb_trace(struct ctl *ctl, int argc, char **argv);
int verb_version(struct ctl *ctl, int argc, char **argv);
int verb_complete(struct ctl *ctl, int argc, char **argv);

/* NULL where there is none. */
const struct verb *ctl_verb(const char *name);
const struct verb *ctl_verb_at(size_t index);
