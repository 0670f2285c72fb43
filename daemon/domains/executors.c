/* SPDX-License-Identifier: Apache-2.0
 *
 * executors.c: what the executors of all domains share: their program, and the processes that start and keep them.
 * Owns struct executors. [loop]
 * Keeps: the cgroups are there before the helper, which starts in wsd's cgroup of that moment.
 * Does not start an executor (lifetime.c). */
#include "domains/executors.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/inherit.h"
#include "base/log.h"
#include "domains/domain-parts.h"
#include "domains/executor-events.h"
#include "supervisor/predecessor.h"
#include "supervisor/starter.h"

/* Where that is wanted and can be. */
static int start_helper(struct jobs *jobs)
{
    const struct helper_options options = {.base = jobs->options.base,
                                           .file = jobs->options.spawner,
                                           .first_id = jobs->options.first_user_id,
                                           .answer_usec = &jobs->options.limits.hang_usec,
                                           .program = &jobs->executors->program};
    bool wanted = jobs->options.user_ids == JOBS_USER_IDS_YES;

    if (jobs->options.user_daemon || jobs->options.user_ids == JOBS_USER_IDS_NO ||
        (jobs->options.one_domain && jobs->options.n_domains == 1) ||
        (!wanted && !helper_possible(jobs->options.spawner)))
        return 0;
    int r = helper_new(&jobs->executors->helper, &options);
    if (r == -ENOMEM)
        return r;
    if (r < 0)
        log_write(wanted ? LOG_ERR : LOG_NOTICE, "executors do not run under the uids of users: %s: %s",
                  r == -EPERM ? "wsd is not root's, and no wsd-spawn.socket is there to ask (wsd(8))"
                              : jobs->options.spawner,
                  strerror(-r));
    return 0;
}

/* Before the helper, which starts in wsd's cgroup of that moment. */
static int start_cgroups(enum jobs_cgroups wanted, struct cgroups **ret_cgroups)
{
    char error[CGROUP_ERROR];

    if (wanted == JOBS_CGROUPS_NO)
        return 0;
    int r = cgroups_new(ret_cgroups, wanted == JOBS_CGROUPS_YES, error);
    if (r == 0)
        return 0;
    if (wanted == JOBS_CGROUPS_YES)
        log_error("no cgroups can be made for executors: %s", error);
    else
        log_write(r == -EOPNOTSUPP ? LOG_DEBUG : LOG_NOTICE, "executors have no cgroups: %s", error);
    return wanted == JOBS_CGROUPS_YES || r == -ENOMEM ? r : 0;
}

static int start_starter(struct jobs *jobs)
{
    char words[INHERIT_ERROR];
    int r = starter_new(&jobs->executors->program.starter);

    if (r < 0 && r != -ENOMEM)
        log_error("cannot start the thread that starts executors: %s%s", strerror(-r), inherit_blame(r, words));
    return r;
}

static struct child_program program_of(const struct jobs_options *o)
{
    return (struct child_program){.predecessor_fd = -1,
                                  .binary_fd = o->executor_fd,
                                  .plugin_dirs = o->plugin_dirs,
                                  .any_path = o->user_daemon,
                                  .pin = o->pin,
                                  .log_level = o->log_level,
                                  .stack_size = o->stack_size,
                                  .static_tls = o->static_tls,
                                  .sandbox = o->sandbox};
}

int executors_become_spawner(const struct jobs_options *options, int socket)
{
    const struct child_program program = program_of(options);
    const struct helper_options helper = {
        .file = options->spawner, .first_id = options->first_user_id, .program = &program};
    struct cgroups *cgroups = NULL;
    int r = start_cgroups(options->cgroups, &cgroups);

    if (r == 0)
        r = helper_become(&helper, socket, cgroups_fd(cgroups));
    cgroups_unref(cgroups);
    return r;
}

int executors_new(struct jobs *jobs, const char *state_dir)
{
    const struct jobs_options *o = &jobs->options;
    struct executors *e = jobs->executors;

    *e = (struct executors){.parts = domain_parts, .ops = &executor_events, .program = program_of(o)};
    int r = start_cgroups(o->cgroups, &e->cgroups);
    if (r == 0 && state_dir)
        e->program.predecessor_fd = predecessor_open(state_dir); /* which the helper has, too */
    if (r == 0)
        r = start_starter(jobs);
    if (r == 0)
        r = orphans_new(&e->orphans, o->base);
    if (r == 0)
        r = start_helper(jobs);
    if (r == 0)
        return 0;
    helper_free(e->helper);
    orphans_free(e->orphans);
    starter_free(e->program.starter);
    cgroups_unref(e->cgroups);
    close_fd(e->program.predecessor_fd);
    return r;
}

void executors_free(struct jobs *jobs)
{
    struct executors *e = jobs->executors;

    names_deinit(&e->names);
    remains_wait();
    helper_free(e->helper);
    child_forget_remains();
    orphans_end_wait();
    orphans_free(e->orphans);
    starter_free(e->program.starter);
    cgroups_unref(e->cgroups);
    close_fd(e->program.predecessor_fd);
}
