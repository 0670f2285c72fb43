/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c: test plugin for files that change while they are loaded. Its two versions differ in SAYS.
 *   says        Says SAYS.
 *   when FILE   Waits until FILE is there. Then it reads every page of its own code and data, and says SAYS and their
 *               sum. */
#include <unistd.h>

#include <wsd/plugin.h>

#define TABLE_SIZE (1u << 20)

/* None of its pages has been looked at when the job begins to wait. */
static const unsigned char table[TABLE_SIZE] = {[0 ... TABLE_SIZE - 1] = 7};

static int says(struct wsd_job *job, struct wsd_worker *self)
{
    return wsd_job_print(job, "%s\n", SAYS) < 0;
}

static int when(struct wsd_job *job, struct wsd_worker *self)
{
    volatile const unsigned char *p = table;
    unsigned long sum = 0;

    if (job->argc != 2)
        return 2;
    while (access(job->argv[1], F_OK) != 0) {
        if (wsd_job_cancelled(job))
            return 1;
        usleep(1000);
    }
    for (unsigned i = 0; i < TABLE_SIZE; i++)
        sum += p[i];
    return wsd_job_print(job, "%s %lu\n", SAYS, sum) < 0;
}

static const struct wsd_function functions[] = {
    {.name = "says", .help = "says which one it is", .flags = WSD_FN_IDEMPOTENT, .run = says},
    {.name = "when", .help = "waits for a file, then reads itself", .run = when},
};
WSD_PLUGIN(.n_functions = 2, .functions = functions, .name = "file", .version = SAYS, .help = "one of two versions");
