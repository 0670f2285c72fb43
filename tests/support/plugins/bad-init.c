/* SPDX-License-Identifier: Apache-2.0
 *
 * bad-init.c: test plugin: its init does what BAD_INIT says. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <wsd/plugin.h>

#ifdef BAD_INIT_CRASHES
static int init(void)
{
    raise(SIGSEGV);
    return 0;
}
#else
static int init(void)
{
    return 3;
}
#endif

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    return 0;
}

static const struct wsd_function functions[] = {{.name = "run", .help = "never runs", .run = run}};
WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "bad-init", .version = "1", .help = "cannot start",
           .init = init);
