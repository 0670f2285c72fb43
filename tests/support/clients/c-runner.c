/* SPDX-License-Identifier: Apache-2.0
 *
 * c-runner.c: offers the functions of a plugin as a runner. The plugin's source is linked with it, as it is.
 *
 *     c-runner [-n NAME] [-t THREADS] [-c CREDIT] [-l]
 *
 * With a NAME that begins with @ it is a place. Prints `ready` once it is connected. Leaves in order at SIGTERM. -l: by a loop of its own (wsd_runner_next()), which
 * prints `closed` where its connection ends. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wsd/runner.h>

extern const struct wsd_plugin wsd_plugin;

static struct wsd_runner *runner;

static void leave(int signal)
{
    wsd_runner_leave(runner);
}

/* What a place does with each job. */
static int tell(struct wsd_job *job, struct wsd_worker *self)
{
    for (uint32_t i = 0; i < job->argc; i++)
        wsd_job_print(job, "%s%s", i ? "|" : "", job->argv[i]);
    return 0;
}

static const struct wsd_function all = {.name = "*", .help = "tells what it is", .run = tell};

static int loop(void)
{
    struct wsd_job *job;
    int r = 0;

    while (r >= 0) {
        struct pollfd p = {.fd = wsd_runner_fd(runner), .events = wsd_runner_events(runner)};

        poll(&p, 1, -1); /* a signal ends it, too */
        while ((r = wsd_runner_next(runner, 0, &job)) == 1)
            wsd_runner_finish(runner, job, wsd_runner_call(runner, job));
    }
    if (r == -ECONNRESET)
        puts("closed");
    return r == -ESHUTDOWN ? 0 : r;
}

int main(int argc, char **argv)
{
    struct wsd_runner_options options = WSD_INIT(struct wsd_runner_options);
    struct sigaction action = {.sa_handler = leave};
    struct wsd_plugin offer = wsd_plugin;
    unsigned threads = 4;
    bool by_loop = false;
    int c;

    while ((c = getopt(argc, argv, "n:t:c:l")) != -1) {
        if (c == 'n')
            offer.name = optarg;
        else if (c == 't')
            threads = (unsigned)atoi(optarg);
        else if (c == 'c')
            options.credit = (uint32_t)atoi(optarg);
        else
            by_loop = true;
    }
    if (offer.name[0] == '@') {
        offer.functions = &all;
        offer.n_functions = 1;
    }
    if (!options.credit)
        options.credit = threads;
    setvbuf(stdout, NULL, _IOLBF, 0);
    int r = wsd_runner_new(&runner, &options);
    sigaction(SIGTERM, &action, NULL);
    r = r < 0 ? r : wsd_runner_offer(runner, &offer);
    r = r < 0 ? r : wsd_runner_connect(runner, 0);
    if (r == 0)
        puts("ready");
    r = r < 0 ? r : by_loop ? loop() : wsd_runner_run(runner, threads);
    if (r < 0)
        fprintf(stderr, "%s\n", wsd_runner_error(runner));
    else
        puts("left");
    wsd_runner_free(runner);
    return r < 0;
}
