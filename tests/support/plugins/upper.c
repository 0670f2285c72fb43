/* SPDX-License-Identifier: Apache-2.0
 *
 * upper.c: test plugin: the input in capitals, reserved and committed in place. */
#include <wsd/plugin.h>

#include <ctype.h>
#include <string.h>

static int upper(struct wsd_job *job, struct wsd_worker *self)
{
    const unsigned char *from = job->input;
    uint64_t left = job->input_size;

    while (left > 0) {
        size_t room;
        char *to = wsd_job_reserve(job, 1, &room);
        if (!to)
            return 1;
        if (room > left)
            room = left;
        for (size_t i = 0; i < room; i++)
            to[i] = (char)toupper(from[i]);
        if (wsd_job_commit(job, room) < 0)
            return 2;
        from += room;
        left -= room;
    }
    return 0;
}

static const struct wsd_function functions[] = {
    {.name = "upper", .help = "the input in capitals", .flags = WSD_FN_IDEMPOTENT, .run = upper},
};
WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "upper", .version = "1", .help = "the input in capitals");
