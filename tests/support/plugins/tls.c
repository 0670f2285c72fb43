/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.c: test plugin: has thread-local variables of TLS_BYTES, in the model initial-exec. */
#include <wsd/plugin.h>

static _Thread_local volatile char mine[TLS_BYTES] __attribute__((tls_model("initial-exec")));

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    mine[TLS_BYTES - 1]++;
    return wsd_job_print(job, "there\n") < 0;
}

static const struct wsd_function functions[] = {{.name = "run", .help = "says that it is there", .run = run}};
WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "tls", .version = TLS_NAME,
           .help = "has thread-local variables");
