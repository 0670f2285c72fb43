/* SPDX-License-Identifier: Apache-2.0
 *
 * unresolved.c: test plugin: needs a function that does not exist. */
#include <wsd/plugin.h>

int nobody_has_this_function(void);

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    return nobody_has_this_function();
}

static const struct wsd_function functions[] = {{.name = "run", .help = "never runs", .run = run}};
WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "unresolved", .version = "1", .help = "cannot be linked");
