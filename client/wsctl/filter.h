/* SPDX-License-Identifier: Apache-2.0
 *
 * filter.h: the options that say which jobs are meant: of `wsctl list` and `wsctl cancel`.
 */
#pragma once

#include <getopt.h>

#include "wsd/client.h"

enum { OPT_STATE = 300, OPT_USER, OPT_PLUGIN, OPT_SINCE, OPT_OLDER_THAN, OPT_BATCH };

#define FILTER_OPTIONS                                                                                                 \
    {"state", required_argument, NULL, OPT_STATE}, {"user", required_argument, NULL, OPT_USER},                        \
        {"plugin", required_argument, NULL, OPT_PLUGIN}, {"since", required_argument, NULL, OPT_SINCE},                \
        {"older-than", required_argument, NULL, OPT_OLDER_THAN},                                                       \
    {                                                                                                                  \
        "batch", required_argument, NULL, OPT_BATCH                                                                    \
    }

#define FILTER_HELP                                                                                                    \
    "      --state STATE     in this state, or in one of several with commas between\n"                                \
    "      --user USER       of this user: a name or a number\n"                                                       \
    "      --plugin PLUGIN   of this plugin, or PLUGIN:FUNCTION\n"                                                     \
    "      --since TIME      submitted within the last 30, 1.5s, 2min, 1h, 7d\n"                                       \
    "      --older-than TIME  submitted before that\n"                                                                 \
    "      --batch ID        of this batch\n"

#define FILTER_OPEN (1u << WSD_JOB_HELD | 1u << WSD_JOB_DELAYED | 1u << WSD_JOB_QUEUED | 1u << WSD_JOB_RUNNING)

/* One of the options above, with optarg, which may be changed. 0 or the exit code, said. */
int filter_option(struct wsd_filter *filter, int option);
