/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c: wsd-executor: joins ring, pool and host. Started by wsd only; ring/control.h says how.
 * Owns the parts. The main thread is the control thread: it loads plugins and passes descriptors on; jobs run on the
 * pool's workers.
 * Keeps: what can hang or crash in a plugin's constructors or init, hangs or crashes here and nowhere else.
 * Does not decide anything about jobs: wsd does. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <wsd/task.h>

#include "base/async-close.h"
#include "base/cleanup.h"
#include "base/code.h"
#include "base/descendants.h"
#include "base/inherit.h"
#include "base/log.h"
#include "executor/fault.h"
#include "executor/guard.h"
#include "executor/process.h"
#include "executor/profile.h"
#include "executor/query.h"
#include "executor/sandbox.h"
#include "executor/slice.h"
#include "executor/thread.h"
#include "executor/work.h"
#include "host/backtrace.h"
#include "host/loader.h"
#include "host/note.h"
#include "host/reaper.h"
#include "ring/control.h"

struct arguments {
    uint32_t workers;
    bool pin;
    size_t stack_size;
    const char *dirs[LOADER_DIRS_MAX];
    size_t n_dirs;
    bool any_path;
    int log_level;
    struct sandbox sandbox;
};

static struct work work;

/* --- start -------------------------------------------------------------------------------------------------------- */

static int parse_arguments(int argc, char **argv, struct arguments *ret)
{
    char *end, *save = NULL;

    if (argc != 8)
        return -EINVAL;
    unsigned long workers = strtoul(argv[1], &end, 10);
    if (*end || workers < 1 || workers > POOL_WORKERS_MAX)
        return -EINVAL;
    ret->workers = (uint32_t)workers;
    for (char *dir = strtok_r(argv[2], ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
        if (ret->n_dirs == LOADER_DIRS_MAX)
            return -EINVAL;
        ret->dirs[ret->n_dirs++] = dir;
    }
    ret->any_path = strcmp(argv[3], "any") == 0;
    if (!ret->any_path && strcmp(argv[3], "dirs") != 0)
        return -EINVAL;
    ret->pin = strcmp(argv[5], "pin") == 0;
    if (!ret->pin && strcmp(argv[5], "free") != 0)
        return -EINVAL;
    ret->stack_size = strtoul(argv[6], &end, 10);
    if (*end || end == argv[6] || sandbox_parse(&ret->sandbox, argv[7]) < 0)
        return -EINVAL;
    ret->log_level = log_level_parse(argv[4]);
    return ret->log_level < 0 ? -EINVAL : 0;
}

static void worker_start(struct wsd_worker *self, uint32_t index, void *context)
{
    char name[16];

    snprintf(name, sizeof(name), "wsd-worker-%u", index % 10000);
    pthread_setname_np(pthread_self(), name);
    slice_shorten();
    profile_thread_begin(index);
    fault_thread_begin(index);
    guard_thread_begin();
}

static void worker_lost(struct wsd_worker *self, uint32_t index, bool gone, void *context)
{
    if (gone)
        fault_thread_gone(self->context, index);
    fault_thread_left();
}

static void worker_retire(struct wsd_worker *self, uint32_t index, void *context)
{
    guard_retire();
}

static void worker_stop(struct wsd_worker *self, uint32_t index, void *context)
{
    host_worker_stop(self, index, context);
    profile_thread_end();
    fault_thread_end();
}

/* A killed process has ended only when its last thread has given the memory back. That takes long if it is much. So wsd
 * looks at two threads besides the first. One of the two ends before the memory is given back. The pool has two at
 * least: a worker and the monitor. */
static int start_pool(const struct arguments *a, struct pool **ret_pool)
{
    const struct pool_options options = {
        .workers = a->workers,
        .pin = a->pin,
        .stack_size = a->stack_size,
        .event = &work.shared.back.up->doorbell,
        .event_shared = true,
        .searchers = &work.shared.back.up->searchers,
        .source = {.take = work_take,
                   .ready = work_ready,
                   .worth_waking = work_worth_waking,
                   .prepare = work_prepare,
                   .done = work_done,
                   .watch = work_watch,
                   .watched = work_watched,
                   .may_spin = work_may_spin,
                   .leave = work_leave,
                   .context = &work},
        .worker_start = worker_start,
        .worker_stop = worker_stop,
        .worker_retire = worker_retire,
        .worker_lost = worker_lost,
        .task_enter = host_task_enter,
        .task_leave = host_task_leave,
        .subject_name = host_subject_name,
    };
    sigset_t before;

    fault_block_signals(&before);
    int r = pool_new(ret_pool, &options);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

/* --- control ------------------------------------------------------------------------------------------------------ */

static void put_text(struct control *c, const char *text)
{
    size_t size = strlen(text) + 1;

    if (size > CONTROL_TEXT - c->text_size)
        return; /* cannot be: the limits of host/plugin.h fit together */
    memcpy(c->text + c->text_size, text, size);
    c->text_size += (uint32_t)size;
}

static int send_failure(uint32_t number, int error, const char *text)
{
    struct control c = {.kind = CONTROL_LOADED, .number = number, .error = (uint32_t)-error};

    put_text(&c, text);
    return control_send(work.shared.control_fd, &c, -1);
}

static int send_plugin(uint32_t number, const struct host_plugin *p)
{
    struct control c = {.kind = CONTROL_LOADED,
                        .number = number,
                        .functions = p->n_functions,
                        .flags = note_digest(p->image, p->image_size)};
    char build[NOTE_BUILD];

    note_build_id(p->image, p->image_size, build);
    put_text(&c, p->name);
    put_text(&c, p->version);
    put_text(&c, p->help);
    put_text(&c, p->path);
    put_text(&c, build);
    int r = control_send(work.shared.control_fd, &c, -1);
    for (uint32_t i = 0; i < p->n_functions && r == 0; i++) {
        const struct plugin_function *f = &p->functions[i];

        c = (struct control){.kind = CONTROL_FUNCTION, .number = number, .functions = i, .flags = f->flags};
        put_text(&c, f->name);
        put_text(&c, f->help);
        r = control_send(work.shared.control_fd, &c, -1);
    }
    return r;
}

static int on_load(struct loader *loader, const struct control *c)
{
    char error[LOADER_ERROR] = "";
    struct host_plugin *p;

    if (c->number >= SHARED_PLUGINS || c->text_size == 0)
        return send_failure(c->number, -EINVAL, "wsd asked for nonsense");
    const struct control begun = {.kind = CONTROL_LOADING, .number = c->number};
    int r = control_send(work.shared.control_fd, &begun, -1);
    if (r < 0)
        return r;
    guard_load_begin();
    r = loader_load(loader, c->text, &p, error, sizeof(error));
    guard_load_end();
    if (r < 0)
        return send_failure(c->number, r, error);
    backtrace_plugin(p);
    shared_add_plugin(&work.shared, c->number, p);
    return send_plugin(c->number, p);
}

/* Serves until FINISH. 0; -ECONNRESET: wsd is gone; or what broke. */
static int control_loop(struct loader *loader, struct pool *pool)
{
    struct control c;
    int r = 0;

    while (r == 0) {
        _cleanup_(close_fdp) int fd = -1;

        r = control_receive(work.shared.control_fd, ASYNC_CLOSE_OWN, &c, &fd);
        if (r < 0)
            break;
        switch (c.kind) {
        case CONTROL_LOAD:
            r = on_load(loader, &c);
            break;
        case CONTROL_INPUT:
            inputs_put(&work.shared.inputs, c.slot, c.generation, TAKE_FD(fd));
            shared_notify(&work.shared);
            break;
        case CONTROL_OUTPUT:
            inputs_put(&work.shared.outputs, c.slot, c.generation, TAKE_FD(fd));
            shared_notify(&work.shared);
            break;
        case CONTROL_ARENA:
            r = arenas_put(&work.shared.arenas, c.number, TAKE_FD(fd));
            shared_notify(&work.shared);
            break;
        case CONTROL_ARENA_DROP:
            r = arenas_drop(&work.shared.arenas, c.number);
            break;
        case CONTROL_OPENED:
            opens_answer(&work.shared.opens, c.slot, c.generation, c.number, c.error, TAKE_FD(fd));
            shared_notify(&work.shared);
            break;
        case CONTROL_ASK:
            r = ask_answer(pool, work.shared.control_fd, &c, fd);
            break;
        case CONTROL_LANE_GRANT:
        case CONTROL_LANE_NOTIFY:
        case CONTROL_LANE:
        case CONTROL_LANE_BIND:
        case CONTROL_LANE_CLOSE:
            r = lanes_control(&work.lanes, &c, TAKE_FD(fd));
            break;
        case CONTROL_FINISH:
            return 0;
        default:
            log_debug("control packet of unknown kind %u", c.kind);
        }
    }
    return r;
}

static void on_thread_left(void *unused)
{
    fault_thread_left();
}

/* A plugin's init may end its thread, which is this one. */
static int control_guarded(struct loader *loader, struct pool *pool)
{
    int r;

    pthread_cleanup_push(on_thread_left, NULL);
    r = control_loop(loader, pool);
    pthread_cleanup_pop(0);
    return r;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static int prepare_process(const struct arguments *a, struct loader **ret_loader)
{
    const struct loader_options options = {
        .dirs = a->dirs, .n_dirs = a->n_dirs, .flags = a->any_path ? LOADER_ANY_PATH : 0};
    int r = process_descriptors();

    if (r == 0)
        r = process_settle(CONTROL_FD_CONTROL);
    if (r == 0)
        r = back_init(&work.shared.back, CONTROL_FD_DOWN, CONTROL_FD_UP, CONTROL_FD_BELL);
    if (r < 0)
        return r;
    /* mapped: no job needs them as files */
    close(CONTROL_FD_DOWN);
    close(CONTROL_FD_UP);
    work_init(&work, CONTROL_FD_CONTROL);
    if (!thread_init())
        return -ENOSYS;
    r = fault_init(&work.shared.back, work_place);
    if (r == 0)
        r = profile_init();
    return r < 0 ? r : loader_new(ret_loader, &options);
}

static int confine(const struct sandbox *s)
{
    struct control c = {.kind = CONTROL_UNSAFE};
    char error[SANDBOX_ERROR];
    int r = sandbox_enter(s, error);

    if (r < 0) {
        put_text(&c, error);
        control_send(work.shared.control_fd, &c, -1);
    }
    return r;
}

/* Before READY: tells wsd, which waits for it. */
static void tell_failure(int error)
{
    struct control c = {.kind = CONTROL_FAILED, .error = (uint32_t)-error};
    char words[INHERIT_ERROR], why[INHERIT_ERROR + 64];

    snprintf(why, sizeof(why), "%s%s", strerror(-error), inherit_blame(error, words));
    log_error("cannot start: %s", why);
    put_text(&c, why);
    if (work.shared.control_fd == CONTROL_FD_CONTROL) /* else it has not come as far as to have one */
        control_send(work.shared.control_fd, &c, -1);
}

int main(int argc, char **argv)
{
    struct arguments a = {0};
    struct loader *loader = NULL;
    struct pool *pool = NULL;
    char error[INHERIT_ERROR];

    if (argc == 2 && strcmp(argv[0], REAPER_NAME) == 0) /* by commands.c */
        reaper_run(REAPER_FD_SOCKET, REAPER_FD_LIFE, atoi(argv[1]));
    prctl(PR_SET_NAME, "wsd-executor"); /* the kernel has it from the number of a descriptor */
    log_init("wsd-executor");
    if (inherit_begin(INHERIT_DAEMON, error) < 0) {
        log_error("cannot start: %s", error);
        return EXIT_FAILURE;
    }
    if (parse_arguments(argc, argv, &a) < 0) {
        log_error("started by wsd only: wsd-executor "
                  "WORKERS PLUGIN_DIR[:PLUGIN_DIR...] any|dirs LOG_LEVEL pin|free STACK SANDBOX");
        return CODE_USAGE;
    }
    log_set_level(a.log_level);
    int r = prepare_process(&a, &loader);
    if (r == 0 && confine(&a.sandbox) < 0)
        fault_leave(EXIT_FAILURE); /* wsd was told */
    if (r == 0)
        r = start_pool(&a, &pool);
    if (r == 0)
        r = sandbox_limit_memory(&a.sandbox);
    guard_init(work.shared.control_fd, work_running, &work);
    if (r == 0 && a.pin && !pool_is_pinned(pool))
        log_warning("the CPUs of this machine cannot be told apart: workers are not pinned");
    if (r < 0) {
        tell_failure(r);
        fault_leave(EXIT_FAILURE);
    }
    r = control_send(work.shared.control_fd, &(struct control){.kind = CONTROL_READY, .number = a.workers}, -1);
    if (r == 0)
        r = control_guarded(loader, pool);
    if (r < 0) {
        /* Work that still runs is for no client: it is not waited for. */
        fault_wait();
        process_end_children();
        if (r != -ECONNRESET && r != -EPIPE)
            log_error("cannot go on: %s",
                      r == -EAGAIN ? "no more threads: RLIMIT_NPROC, [limits] executor-tasks in wsd.conf, or "
                                     "TasksMax= of the service"
                                   : strerror(-r));
        fault_leave(EXIT_FAILURE);
    }
    pool_free(pool);
    loader_fini(loader);
    loader_free(loader);
    fault_orderly();
    return EXIT_SUCCESS;
}
