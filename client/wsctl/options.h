/* SPDX-License-Identifier: Apache-2.0
 *
 * options.h: the options of a command line.
 */
#pragma once

#include <getopt.h>

#include "ctl.h"

#define CTL_END  (-1) /* no more options: optind is the first argument */
#define CTL_EXIT (-2) /* --help or --version was answered, or something was wrong: return *ret_exit */

/* The next option of a verb: its own (values above 0, short ones by their letter) or one of the above. The common
 * options are dealt with. `own` ends with zeros. Options stop at the first argument where the verb is in_order, and may
 * be asked for again behind it. */
int ctl_getopt(struct ctl *ctl, int argc, char **argv, const char *letters, const struct option *own, int *ret_exit);
/* The same directly behind the plugin, where only long options, spelled out, are ours; anything else, `--` too, begins
 * the plugin's own arguments. Not to be called where `--` stood before the plugin: that ended our options. */
int ctl_getopt_behind(struct ctl *ctl, int argc, char **argv, const char *letters, const struct option *own,
                      int *ret_exit);
/* For verbs without options of their own: parses, and checks the number of arguments. Returns CTL_END or CTL_EXIT. */
int ctl_arguments(struct ctl *ctl, int argc, char **argv, int min, int max, int *ret_exit);
void ctl_help(const struct verb *verb);
extern const char ctl_common_help[]; /* a line an option */
