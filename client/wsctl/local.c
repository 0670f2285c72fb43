/* SPDX-License-Identifier: Apache-2.0
 *
 * local.c: `wsctl submit --local`: loads the module that hosts plugins, and runs one job in it.
 * Owns the module, which is never unloaded: plugins may have left threads and handlers in it.
 * Callbacks come on threads of the module's pool, one at a time.
 * Does not connect to anything. */
#include "local.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/code.h"
#include "config.h"
#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "module.h"
#include "print.h"
#include "progress.h"
#include "signals.h"
#include "stream.h"
#include "local-module.h"
#include "submit.h"

struct local {
    const struct ctl *ctl;
    struct output output;
    struct buffer gathered; /* with --json */
    const char *label;
    uint64_t done, total; /* the last progress */
    int unwritten;        /* the exit code, said: the output cannot be written */
};

static int on_output(const void *data, size_t size, void *userdata)
{
    struct local *local = userdata;

    progress_clear_for_stdout();
    if (!local->ctl->json || local->output.fd != STDOUT_FILENO)
        local->unwritten = output_write(&local->output, data, size);
    else if (buffer_put(&local->gathered, data, size) < 0)
        local->unwritten = ctl_error(CODE_IO, local->label, "out of memory for the output");
    return local->unwritten;
}

static void on_message(int level, const char *text, void *userdata)
{
    struct local *local = userdata;

    if (!local->ctl->quiet)
        print_message(NULL, text);
}

static void on_progress(uint64_t done, uint64_t total, void *userdata)
{
    struct local *local = userdata;

    local->done = done;
    local->total = total;
    progress_draw(local->label, done, total, 0);
}

static int on_begins(void *userdata)
{
    return signals_init() == 0 ? signals_fd() : -1;
}

static void on_cancelling(void *userdata)
{
    struct local *local = userdata;

    signals_take();
    if (!local->ctl->quiet)
        print_message("wsctl", "cancelling; once more to end at once");
}

/* The limits of wsd, which a job that is tested here is to meet later. Returns 0 or the exit code, said. */
static int check_arguments(const struct submit_options *o)
{
    size_t size = 0;

    for (size_t i = 0; i < o->job.n_args; i++)
        size += strlen(o->job.args[i]) + 1;
    if (o->job.n_args <= CODEC_ARGS_MAX && size <= CODEC_ARGS_SIZE)
        return 0;
    return ctl_error(CODE_USAGE, o->name,
                     "arguments: at most %u for one job, and %u KiB of them together, each with its NUL",
                     CODEC_ARGS_MAX, CODEC_ARGS_SIZE >> 10);
}

static __typeof__(&wsctl_local_run) load(void)
{
    void *entry = module_symbol("--local", "../../daemon/host/", "wsctl-local.so", "wsctl_local_run");
    __typeof__(&wsctl_local_run) run = NULL;

    memcpy(&run, &entry, sizeof(run)); /* what POSIX wants where ISO C has no conversion */
    return run;
}

static int error_exit(int error)
{
    switch (-error) {
    case ENOENT:
    case ENOEXEC:
    case ELIBBAD:
        return CODE_NOT_FOUND;
    case EACCES:
    case EPERM:
        return CODE_DENIED;
    case EINVAL:
        return CODE_USAGE;
    case EIO:
    case EBADF: /* the input's descriptor was closed */
    case EISDIR:
        return CODE_IO;
    default:
        return CODE_CRASHED;
    }
}

static int report(struct local *local, const struct submit_options *options, const struct local_result *result)
{
    struct wsd_job_info info = {
        .size = sizeof(info),
        .state = (enum wsd_job_state)result->state,
        .exit = result->exit,
        .attempts = 1,
        .uid = getuid(),
        .run_usec = result->run_usec,
        .cpu_usec = result->cpu_usec,
        .done = local->done,
        .total = local->total,
    };
    struct json json = {0};
    char text[128];

    job_clear_texts(&info);
    info.plugin = result->plugin;
    info.function = result->function;
    info.error = result->error;
    info.status = result->status;
    int r = output_close(&local->output, info.state == WSD_JOB_SUCCEEDED);

    if (local->ctl->json) {
        json_job(&json, &info);
        if (!options->output)
            json_base64(&json, "output", local->gathered.data, buffer_size(&local->gathered));
        r = json_end(&json) || print_end() || r ? CODE_IO : 0;
    }
    if (local->unwritten)
        return local->unwritten;
    if (info.state != WSD_JOB_SUCCEEDED)
        return ctl_error(info.exit, options->name, "%s", job_error_text(&info, text, sizeof(text)));
    return r;
}

/* Where plugins are looked for. */
struct places {
    char built[4096];
    const char *dirs[2];
};

static void fill_request(const struct submit_options *o, struct places *places, struct local_request *ret)
{
    bool in_tree = module_in_build_tree("../../daemon/plugins", places->built, sizeof(places->built));

    places->dirs[0] = places->built;
    places->dirs[1] = WSD_PLUGIN_DIR;
    *ret = (struct local_request){
        .size = sizeof(*ret),
        .plugin = o->job.plugin,
        .function = o->job.function,
        .args = o->job.args,
        .n_args = o->job.n_args,
        .input_fd = -1,
        .workers = o->workers,
        .plugin_dirs = o->n_plugin_dirs ? o->plugin_dirs
                       : in_tree        ? places->dirs
                                        : places->dirs + 1,
        .n_plugin_dirs = o->n_plugin_dirs ? o->n_plugin_dirs
                         : in_tree        ? 2
                                          : 1,
        .traceparent = o->job.traceparent,
        .timeout_usec = o->job.timeout_usec,
        .stack_size = o->stack_size,
        .message = on_message,
        .progress = on_progress,
        .begins = on_begins,
        .cancelling = on_cancelling,
    };
}

/* Runs it. 0, or the exit code, said. */
static int run_local(const struct submit_options *o, struct local_request *request, struct local_result *result)
{
    __typeof__(&wsctl_local_run) run = load();
    char hint[640];
    int r;

    if (!run)
        return CODE_NOT_FOUND;
    r = run(request, result);
    progress_clear();
    if (r == 0)
        return 0;
    return ctl_error(error_exit(r), o->name, "%s%s", result->error[0] ? result->error : strerror(-r),
                     r == -ENOENT ? plugin_hint(o->job.plugin, hint, sizeof(hint)) : "");
}

static int drop_output(const void *data, size_t size, void *userdata)
{
    return 0;
}

int local_probe(const struct ctl *ctl, const struct submit_options *options, struct local_measure *measure,
                uint64_t *ret_usec)
{
    struct local local = {.ctl = ctl, .label = options->job.plugin};
    struct local_result result = {.error = ""};
    struct local_request request;
    struct places places;
    int r = check_arguments(options);

    if (r != 0)
        return r;
    fill_request(options, &places, &request);
    request.output = drop_output;
    request.measure = measure;
    request.userdata = &local;
    r = run_local(options, &request, &result);
    if (r == 0 && result.state != WSD_JOB_SUCCEEDED)
        r = ctl_error(result.exit, options->name, "%s", result.error[0] ? result.error : "the job failed");
    if (r == 0)
        *ret_usec = result.run_usec;
    return r;
}

int submit_local(const struct ctl *ctl, const struct submit_options *options)
{
    struct local local = {.ctl = ctl, .label = options->job.plugin};
    struct local_result result = {.error = ""};
    struct local_request request;
    struct places places;
    struct input input;
    int r;

    if ((r = check_arguments(options)) != 0)
        return r;
    if ((r = input_open_fd(&input, options->input)) != 0 ||
        (r = output_open_job(&local.output, options, input.fd)) != 0)
        return r;
    fill_request(options, &places, &request);
    request.input_fd = input.fd;
    request.output = on_output;
    request.userdata = &local;
    r = run_local(options, &request, &result);
    if (r == 0)
        r = report(&local, options, &result);
    output_close(&local.output, false); /* where there is nothing to report */
    input_close(&input);
    buffer_deinit(&local.gathered);
    return r;
}
