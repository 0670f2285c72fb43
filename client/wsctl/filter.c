/* SPDX-License-Identifier: Apache-2.0
 *
 * filter.c: which jobs are meant.
 * Owns the id of a batch; names point into the command line. One thread. */
#include "filter.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>

#include "base/code.h"
#include "connect.h"
#include "parse.h"
#include "print.h"

static int add_states(struct wsd_filter *filter, const char *text)
{
    for (const char *at = text; at; at = *at ? at + 1 : NULL) {
        size_t n = strcspn(at, ",");
        uint32_t bit = 0;

        for (int state = WSD_JOB_HELD; state <= WSD_JOB_INTERRUPTED; state++) {
            const char *name = wsd_job_state_name((enum wsd_job_state)state);

            if (strlen(name) == n && strncmp(name, at, n) == 0)
                bit = 1u << state;
        }
        if (!bit)
            return ctl_error(
                CODE_USAGE, text,
                "not states; write some of held,delayed,queued,running,succeeded,failed,cancelled,timed-out,"
                "crashed,interrupted");
        filter->states |= bit;
        at += n;
    }
    return 0;
}

static int set_user(struct wsd_filter *filter, const char *text)
{
    const struct passwd *user;
    long long number;

    filter->by_uid = true;
    if (parse_number(text, 0, UINT32_MAX - 1, &number) == 0) {
        filter->uid = (uint32_t)number;
        return 0;
    }
    errno = 0;
    user = getpwnam(text);
    if (!user && errno && errno != ENOENT && errno != ESRCH)
        return ctl_error(CODE_BUSY, text, "the user database could not be asked (%s): try again when it answers",
                         strerror(errno));
    if (!user)
        return ctl_error(CODE_NOT_FOUND, text, "there is no such user");
    filter->uid = user->pw_uid;
    return 0;
}

int filter_option(struct wsd_filter *filter, int option)
{
    static struct wsd_id batch; /* there is one command line */

    switch (option) {
    case OPT_STATE:
        return add_states(filter, optarg);
    case OPT_USER:
        return set_user(filter, optarg);
    case OPT_PLUGIN:
        filter->plugin = optarg;
        return parse_plugin(optarg, &filter->function) == 0
                   ? 0
                   : ctl_error(CODE_USAGE, optarg, "not the name of a plugin; write PLUGIN or PLUGIN:FUNCTION");
    case OPT_BATCH:
        filter->batch = &batch;
        return ctl_id(optarg, &batch);
    default:
        return parse_duration(optarg, option == OPT_SINCE ? &filter->newer_usec : &filter->older_usec) == 0
                   ? 0
                   : ctl_error(CODE_USAGE, optarg, "not a duration above 0; write 30, 1.5s, 2min, 1h or 7d");
    }
}
