/* SPDX-License-Identifier: Apache-2.0
 *
 * spin.c: test plugin: keeps its worker busy until it is told to stop. */
#include <wsd/plugin.h>

/* Burns CPU until the job is cancelled; progress counts the looks. */
static int spin(struct wsd_job *job, struct wsd_worker *self)
{
    uint64_t looks = 0;

    while (!wsd_job_cancelled(job))
        wsd_job_progress(job, ++looks, 0);
    return wsd_job_fail(job, 1, "stopped");
}

/* Heeds nothing: only a kill ends it. */
static int deaf(struct wsd_job *job, struct wsd_worker *self)
{
    for (volatile uint64_t i = 0;; i++)
        ;
    return 0;
}

static const struct wsd_function functions[] = {
    {.name = "spin", .help = "burns CPU until cancelled", .run = spin},
    {.name = "again", .help = "the same, and may run twice", .flags = WSD_FN_IDEMPOTENT, .run = spin},
    {.name = "deaf", .help = "burns CPU for ever", .run = deaf},
    {.name = "deaf-again", .help = "the same, and may run twice", .flags = WSD_FN_IDEMPOTENT, .run = deaf},
};
WSD_PLUGIN(.n_functions = 4, .functions = functions, .name = "spin", .version = "1", .help = "keeps a worker busy");
