/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c: wsd. Starts the parts, turns the loop, tears down in reverse.
 * Owns the life of every part. [loop]
 * Keeps: a part is told what it needs and nothing of the others. Only this file exits.
 * Holds no logic of its own but the order of things. */
#include <errno.h>
#include <grp.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apply.h"
#include "arguments.h"
#include "base/accounts.h"
#include "base/cleanup.h"
#include "base/code.h"
#include "base/inherit.h"
#include "base/journal.h"
#include "base/log.h"
#include "configuration/check.h"
#include "configuration/print.h"
#include "daemon.h"
#include "drain.h"
#include "far-end/far-end.h"
#include "start.h"

#define SERVICE_USER "wsd"      /* of wsd.service */
#define READS_A_TURN 32         /* of a client that is alone, before the kernel is asked for others */
#define HEAP_BLOCK   (16 << 20) /* bytes; what is larger comes from the kernel, and goes back to it at once */
#define HEAP_SPARE   (16 << 20) /* that are kept when they are free at the heap's end */
#define HEAP_STEP    (1 << 20)  /* by which the heap grows */

/* One turn of work: requests of clients, completions of executors, and output. True: there is more to do. */
static bool work_once(struct daemon *d)
{
    bool more = frontend_serve(d->frontend);

    more = jobs_poll(d->jobs) || more;
    if (jobs_open(d->jobs))
        service_busy(d->service);
    return frontend_flush(d->frontend) || more;
}

static void run_turn(struct daemon *d)
{
    bool more = work_once(d), sleep;

    for (uint32_t i = 0; i < READS_A_TURN && frontend_read_on(d->frontend); i++)
        more = work_once(d);
    sleep = !more && jobs_asleep(d->jobs);
    if (finished(d))
        return;
    if (sleep)
        trim_look(d->trim);
    event_base_loop(d->base, EVLOOP_ONCE | (sleep ? 0 : EVLOOP_NONBLOCK));
    jobs_awake(d->jobs);
    if (!sleep)
        return;
    awake_woke(d->awake);
    const struct lane_pace lanes = jobs_lane_pace(d->jobs);
    awake_lanes(d->awake, lanes.usec, lanes.calls, lanes.wakes);
}

static void tear_down(struct daemon *d)
{
    d->service = service_free(d->service);
    d->reread = reread_free(d->reread);
    d->awake = awake_free(d->awake);
    if (d->socket)
        frontend_unbind(d->socket, &d->address);
    trim_free(d->trim);
    d->frontend = frontend_free(d->frontend);
    d->jobs = jobs_free(d->jobs);
    if (d->drain_timer)
        event_free(d->drain_timer);
    d->far_ends = far_ends_free(d->far_ends);
    if (d->base)
        event_base_free(d->base);
    free(d->socket);
    free(d->sandbox);
    free(d->at_start);
    free(d->domains);
    free(d->state);
    close_fd(d->executor_fd);
    service_kept_deinit(&d->kept);
    limits_deinit(&d->limits);
    config_deinit(&d->config);
}

static void print_fault(bool warning, const char *text, void *userdata)
{
    print_error("%s%s", warning ? "warning: " : "", text);
}

/* The standard files are those of wsd.service. So root checks with the rights of the service: files that only root can
 * read or reach are of no use to it. */
static int become_service_user(void)
{
    _cleanup_(freep) uint32_t *groups = NULL;
    struct account service;
    uint32_t n;
    int r = account_by_name(SERVICE_USER, &service);

    if (r == -ENOENT || (r == 0 && service.uid == 0))
        return 0;
    if (r == 0)
        r = account_groups(&service, &groups, &n);
    if (r < 0)
        return r;
    return setgroups(n, groups) < 0 || setgid(service.gid) < 0 || setuid(service.uid) < 0 ? -errno : 0;
}

/* Checks what the configuration names, in addition to its syntax. Returns 0 or the exit code. */
static int check_configuration(const struct daemon *d)
{
    char error[REMOTE_ERROR] = "out of memory";
    struct remote *remote = NULL;
    int r = geteuid() == 0 && !d->config_file ? become_service_user() : 0;

    if (r < 0) {
        print_error("cannot look as user " SERVICE_USER ": %s", strerror(-r));
        return r == -EPERM ? CODE_IO : CODE_BUSY;
    }
    r = config_examine(&d->config, print_fault, NULL);
    int of_remote = load_remote(&d->config, &remote, error);
    if (of_remote < 0)
        print_error("%s", error);
    remote_free(remote);
    return r == 0 && of_remote == 0                                               ? 0
           : (r == 0 || r == -EAGAIN) && (of_remote == 0 || of_remote == -EAGAIN) ? CODE_BUSY
                                                                                  : CODE_USAGE;
}

/* Keeps the memory of a large input or output for the next one. Otherwise malloc() may give it back to the kernel and
 * take it again, depending on how blocks lie: 285 to 440 page faults for each MiB. */
static void keep_pages(void)
{
    mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK);
    mallopt(M_TRIM_THRESHOLD, HEAP_SPARE);
    mallopt(M_TOP_PAD, HEAP_STEP);
    /* else what was freed in small pieces is put together at once, later: half a second for a million jobs */
    mallopt(M_MXFAST, 0);
}

static __attribute__((noinline)) int run(int argc, char **argv)
{
    struct daemon d = {.executor_fd = -1, .kept = {.state = -1}, .argc = argc, .argv = argv};
    enum mode mode = MODE_RUN;

    int r = arguments_load(&d.config, argc, argv, &d.config_file, &mode);
    if (r == CODE_SOFTWARE)
        fputs("wsd: cannot start: out of memory\n", stderr);
    if (r != 0 || (mode != MODE_RUN && mode != MODE_SPAWN)) {
        if (r == 0 && mode == MODE_PRINT && config_print(&d.config, stdout) < 0) {
            print_error("%s", strerror(ENOMEM));
            r = CODE_SOFTWARE;
        }
        if (r == 0 && mode == MODE_CHECK)
            r = check_configuration(&d);
        config_deinit(&d.config);
        return r > 0 ? r : fflush(stdout) == 0 && !ferror(stdout) ? 0 : CODE_IO;
    }
    log_init("wsd");
    journal_init();
    log_set_level(d.config.log_level);
    keep_pages();
    r = mode == MODE_SPAWN ? become_spawner(&d) : start(&d);
    if (r >= 0) {
        service_ready(d.service);
        while (!finished(&d))
            run_turn(&d);
        finish_executors(&d);
        if (d.keeps)
            leave_clients(&d);
        log_info("ended");
    } else if (r == -ENOMEM) {
        log_error("cannot start: out of memory"); /* of what else it was, has been told */
    }
    tear_down(&d);
    return r == -EADDRINUSE ? CODE_NO_DAEMON : r == -EAGAIN ? CODE_BUSY : r < 0 ? CODE_IO : 0;
}

/* A frame of its own, since run() has a large one. */
int main(int argc, char **argv)
{
    char error[INHERIT_ERROR];

    if (inherit_begin(INHERIT_DAEMON, error) < 0) {
        print_error("cannot start: %s", error);
        return CODE_IO;
    }
    inherit_widen_table();
    return run(argc, argv);
}
