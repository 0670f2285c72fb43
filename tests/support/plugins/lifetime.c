/* SPDX-License-Identifier: Apache-2.0
 *
 * lifetime.c: test plugin: tells how often it was initialised; fini leaves a file where LIFETIME_FILE says. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <wsd/plugin.h>

static int inits;

static int init(void)
{
    inits++;
    return 0;
}

static void fini(void)
{
    const char *file = getenv("LIFETIME_FILE");
    int fd = file ? open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

    if (fd < 0)
        return;
    if (write(fd, "fini\n", 5) != 5)
        abort();
    close(fd);
}

static int count(struct wsd_job *job, struct wsd_worker *self)
{
    return wsd_job_print(job, "%d\n", inits) < 0;
}

static const struct wsd_function functions[] = {{.name = "inits", .help = "how often init ran", .run = count}};
WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "lifetime", .version = "1", .help = "init and fini",
           .init = init, .fini = fini);
