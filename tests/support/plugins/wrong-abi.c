/* SPDX-License-Identifier: Apache-2.0
 *
 * wrong-abi.c: test plugin: built for another plugin ABI. Loading it would end the process. */
#include <stdlib.h>

#include <wsd/plugin.h>
#undef WSD_PLUGIN_ABI
#define WSD_PLUGIN_ABI 7

__attribute__((constructor)) static void never(void)
{
    abort();
}

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    return 0;
}

static const struct wsd_function functions[] = {{.name = "run", .help = "never runs", .run = run}};
WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "wrong-abi", .version = "1", .help = "of another ABI");
