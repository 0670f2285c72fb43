/* SPDX-License-Identifier: Apache-2.0
 *
 * start.c: opens the store, and takes up what it has; and closes it.
 * Owns the store, and the event of its answers. [loop]
 * Keeps: each acknowledged job is there before the first client asks.
 * Does not make jobs of rows (restore.c). */
#include "jobs/start.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "domains/executors.h"
#include "domains/hand-over.h"
#include "durable/durable.h"
#include "durable/restore.h"
#include "jobs/jobs.h"
#include "jobs/schedule.h"
#include "supervisor/predecessor.h"
#include "table/policy.h"

static void log_says(struct store *store)
{
    char text[STORE_SAYS];

    if (store_says(store, text))
        log_event(LOG_KIND_STORE, LOG_ERR, NULL, "%s", text);
}

static void on_answers(evutil_socket_t fd, short what, void *userdata)
{
    struct jobs *jobs = userdata;

    log_says(jobs->durable->store);
    store_answers(jobs->durable->store);
}

int jobs_start(struct jobs *jobs)
{
    struct restored reading = {.jobs = jobs};
    struct store *store;
    int r;

    /* Waits, so that no run of a durable job begins beside the processes of the last run. Before the store is opened:
     * the kernel releases this lock of a killed wsd after those of its database. */
    if (jobs->executors->program.predecessor_fd >= 0)
        predecessor_wait(jobs->executors->program.predecessor_fd);
    r = store_open(&store, jobs->options.state_dir, restore_row, &reading);
    if (r < 0) {
        if (r != -ENOMEM)
            log_error("cannot start the thread of durable jobs: %s", strerror(-r));
        return r;
    }
    jobs->durable->store = store;
    r = store_schedules(store, schedule_restore, jobs);
    if (r < 0)
        return r;
    jobs->durable->store_event = event_new(jobs->options.base, store_fd(store), EV_READ | EV_PERSIST, on_answers, jobs);
    if (!jobs->durable->store_event || event_add(jobs->durable->store_event, NULL) < 0)
        return -ENOMEM;
    if (store_problem(store))
        log_event(LOG_KIND_STORE, jobs->options.state_dir ? LOG_ERR : LOG_WARNING, NULL, "no durable jobs: %s",
                  store_problem(store));
    log_says(store);
    if (reading.n)
        log_info("%llu durable jobs are on disk, %llu of them to be done", (unsigned long long)reading.n,
                 (unsigned long long)jobs->counters.n_open);
    restore_look_again(jobs);
    store_finish(store); /* so no client is told that a job runs which has been interrupted */
    schedules_start(jobs);
    list_for_each_entry (struct domain, domain, &jobs->domains, link)
        domain_pump(domain);
    return 0;
}

static void unanswered(struct store_request *r)
{
    struct disk_request *q = container_of(r, struct disk_request, r);

    (void)disk_request_done(q);
    if (q->schedule)
        schedule_unanswered(q->schedule);
    free(r->reply);
    close_fd(r->reply_fd);
    disk_request_free(q);
}

void start_end(struct jobs *jobs)
{
    if (jobs->durable->store_event)
        event_free(jobs->durable->store_event);
    jobs->durable->store_event = NULL;
    jobs->durable->store = store_free(jobs->durable->store, unanswered);
}
