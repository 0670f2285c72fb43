/* SPDX-License-Identifier: Apache-2.0
 *
 * gate-control.c: what an administrator or the configuration asks of gates, and what they show.
 * Owns nothing; the gates are those of gate.c. [loop]
 * Does not know why: it gets only the uid of the user that closes a gate. */
#include "jobs/jobs.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "domains/direct-lane.h"
#include "table/gate.h"
#include "table/job.h"

static void log_gate(const struct jobs_gate_request *r)
{
    static const char *const words[] = {"", "paused", "resumed", "drained", "limited to"};
    char who[32] = "the configuration", limit[16] = "";

    if (r->uid != JOBS_BY_CONFIGURATION)
        snprintf(who, sizeof(who), "user %u", r->uid);
    if (r->action == JOBS_GATE_LIMIT && r->limit)
        snprintf(limit, sizeof(limit), " %u", r->limit);
    const struct log_about about = {.plugin = *r->plugin ? r->plugin : NULL,
                                    .function = r->function,
                                    .uid = r->uid == JOBS_BY_CONFIGURATION ? NULL : &r->uid};
    log_event(LOG_KIND_ADMINISTRATOR, LOG_NOTICE, &about, "%s%s%s%s: %s%s by %s", *r->tag ? "tag " : "",
              *r->tag      ? r->tag
              : *r->plugin ? r->plugin
                           : "all functions",
              *r->function ? ":" : "", r->function,
              r->action == JOBS_GATE_LIMIT && !r->limit ? "limited no more" : words[r->action], limit, who);
}

int jobs_gate(struct jobs *jobs, const struct jobs_gate_request *r)
{
    int n = 0;

    bool of_all = !*r->plugin && !*r->tag;
    if (!of_all && r->action != JOBS_GATE_DRAIN) {
        n = gate_set(jobs, r);
    } else if (!of_all || r->action == JOBS_GATE_LIMIT) {
        return -EINVAL;
    } else if (r->action == JOBS_GATE_DRAIN) {
        jobs->gates.drained = true;
    } else {
        jobs->gates.paused = r->action == JOBS_GATE_PAUSE;
        jobs->gates.drained &= jobs->gates.paused;
    }
    if (n < 0)
        return n;
    log_gate(r);
    lanes_review(jobs);
    jobs->gates.due = true; /* also where there is none: all domains look at their queues */
    return 0;
}

void jobs_gates(struct jobs *jobs, void (*each)(const struct jobs_gate_info *info, void *userdata), void *userdata)
{
    struct jobs_counters n;

    jobs_counters(jobs, &n);
    const struct jobs_gate_info all = {.plugin = "",
                                       .function = "",
                                       .tag = "",
                                       .paused = jobs->gates.paused,
                                       .drained = jobs->gates.drained || jobs->draining,
                                       .limit = (uint32_t)MIN(jobs->options.limits.running, (uint64_t)UINT32_MAX),
                                       .running = n.n_handed + n.direct_running,
                                       .waiting = n.n_open - n.n_handed};

    each(&all, userdata);
    gates_each(jobs, each, userdata);
}
