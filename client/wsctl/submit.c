/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.c: `wsctl submit`: one job from its input to its exit code.
 * Owns the connection, the call and both streams for the time of the job. One thread, one poll loop.
 * Keeps: output goes out as it comes. A job is never left running behind a wsctl that has ended, unless it is detached,
 * or durable and the connection ended. Then it is followed again by its id when wsd is back.
 * Does not run plugins (local.c loads what does). */
#include "submit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "connect.h"
#include "ctl.h"
#include "json-write.h"
#include "local.h"
#include "options.h"
#include "print.h"
#include "progress.h"
#include "proto/codec.h"
#include "signals.h"
#include "stream.h"
#include "trace-file.h"

/* Moments of a submit, for its trace. */
enum mark {
    MARK_BEGUN,
    MARK_CONNECTED,
    MARK_TRACED, /* the trace has begun */
    MARK_SENT,   /* as far as the socket takes it */
    MARK_ACCEPTED,
    MARK_OUTPUT, /* the first of it has come */
    MARK_DONE,
    MARK_WRITTEN,
    N_MARKS,
};

struct submit {
    const struct ctl *ctl;
    const struct submit_options *options;
    struct wsd_client *client;
    struct wsd_call *call;
    struct input input;
    bool by_pipe; /* the input is in a pipe, which the job may read itself */
    struct output output;
    struct buffer gathered; /* with --json */
    struct wsd_id id;
    bool accepted, done, interrupted, succeeded;
    struct room room;
    bool refused; /* for now: it is to be made again */
    bool lost;    /* durable, and the connection ended: it goes on */
    /* CLOCK_MONOTONIC: the first of a row of losses, the last time that it was followed */
    uint64_t lost_usec, attached_usec;
    uint64_t written, skip; /* bytes of output; those that come once more */
    int exit;
    struct trace_file *trace; /* NULL: none */
    uint64_t marks[N_MARKS];  /* nanoseconds of CLOCK_MONOTONIC; 0: it has not come to that */
};

#define BACK_MAX_USEC (60u * 1000000u) /* for a wsd that was ended to be there again */
#define BACK_MSEC     100

static void mark(struct submit *submit, enum mark at)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    submit->marks[at] = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    struct submit *submit = userdata;

    mark(submit, MARK_ACCEPTED);
    submit->accepted = true;
    submit->id = *id;
}

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct submit *submit = userdata;

    if (submit_detaches(submit->options))
        return 0; /* it ended before this client left: the output stays for `wsctl await` */
    if (!submit->marks[MARK_OUTPUT])
        mark(submit, MARK_OUTPUT);
    if (submit->skip) {
        size_t again = (size_t)MIN(submit->skip, (uint64_t)size);

        submit->skip -= again;
        data = (const char *)data + again;
        size -= again;
    }
    submit->written += size;
    progress_clear_for_stdout();
    if (submit->ctl->json && !submit->options->output) {
        if (buffer_put(&submit->gathered, data, size) == 0)
            return 0;
        submit->exit = ctl_error(CODE_IO, submit->options->name, "out of memory for the output");
    } else {
        submit->exit = output_write(&submit->output, data, size);
    }
    return submit->exit; /* the flow stops, and the loop ends */
}

static void on_message(struct wsd_call *call, int level, const char *text, void *userdata)
{
    const struct submit *submit = userdata;

    if (!submit->ctl->quiet && !submit_detaches(submit->options))
        print_message(NULL, text);
}

static void on_progress(struct wsd_call *call, uint64_t done, uint64_t total, void *userdata)
{
    progress_draw(((struct submit *)userdata)->options->job.plugin, done, total, 0);
}

/* Ctrl-C reaches the writer of a pipe, too. The job may have seen the end of its input, and succeeded, before it could
 * be cancelled. */
static bool is_cut(const struct submit *submit)
{
    return submit->by_pipe && (submit->interrupted || signals_take());
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct submit *submit = userdata;
    struct json json = {0};
    char words[128];

    submit->done = true;
    mark(submit, MARK_DONE);
    progress_clear();
    if (error && submit_is_durable(submit->options) && submit->accepted && !submit->interrupted &&
        !submit_detaches(submit->options) && (error == -ECONNRESET || error == -EAGAIN)) {
        uint64_t now = clock_monotonic_usec();

        if (!submit->lost_usec || now - submit->attached_usec > BACK_MAX_USEC)
            submit->lost_usec = now;
        submit->lost = true;
        return;
    }
    if (error == -EAGAIN && !submit->accepted && !submit->interrupted &&
        room_refused(&submit->room, wsd_client_retry_usec(submit->client))) {
        submit->refused = true;
        return;
    }
    if (error) {
        submit->exit = ctl_client_error(submit->client, submit->options->name, submit->options->job.plugin);
        return;
    }
    if (submit_detaches(submit->options))
        return;
    if (info->state == WSD_JOB_SUCCEEDED && is_cut(submit)) {
        submit->exit = ctl_error(CODE_CANCELLED, submit->options->name,
                                 "cancelled: the end that its input had may be that of its writer");
        return;
    }
    submit->exit = info->exit;
    submit->succeeded = info->state == WSD_JOB_SUCCEEDED;
    if (submit->ctl->json) {
        json_job(&json, info);
        if (!submit->options->output)
            json_base64(&json, "output", submit->gathered.data ? buffer_data(&submit->gathered) : NULL,
                        buffer_size(&submit->gathered));
        if (json_end(&json) != 0)
            submit->exit = CODE_IO;
    }
    if (!submit->succeeded)
        ctl_error(info->exit, submit->options->name, "%s", job_error_text(info, words, sizeof(words)));
}

/* A detached job can be left alone when wsd has it and all its input is on the way. */
static bool may_leave(const struct submit *submit)
{
    return submit_detaches(submit->options) && submit->accepted && !submit->interrupted &&
           (submit->input.fd < 0 || submit->input.whole || submit->input.ended) &&
           !(wsd_client_events(submit->client) & POLLOUT);
}

static char leaving[160]; /* what the second Ctrl-C says */

/* In a signal handler. */
static void say_leaving(void)
{
    if (write(STDERR_FILENO, leaving, strlen(leaving)) < 0)
        return; /* no reader */
}

static void interrupted(struct submit *submit)
{
    char id[WSD_ID_TEXT] = "";

    if (submit->accepted)
        wsd_id_text(&submit->id, id);
    if (!submit->ctl->quiet)
        snprintf(leaving, sizeof(leaving), "wsctl: detached at once; the job was told to end%s%s\n",
                 *id ? ": wsctl status " : "", id);
    signals_before_quitting(say_leaving);
    if (!submit->ctl->quiet)
        print_message("wsctl", "cancelling; once more to detach at once");
    submit->interrupted = true;
    if (submit->refused)
        submit->exit = CODE_CANCELLED;
    wsd_call_cancel(submit->call);
    submit->input.ended = submit->input.eof = true;
}

/* What may be refused and made again must not have had any of the input. */
static int feed(struct submit *submit)
{
    return submit->refused || (submit->room.wanted && !submit->accepted)
               ? 0
               : input_feed(&submit->input, submit->client, submit->call);
}

/* What wsctl reads from a pipe the job would miss. */
static bool wants_input(const struct submit *submit)
{
    return input_wants(&submit->input) && (!submit->by_pipe || wsd_call_window(submit->call) > 0);
}

/* One turn. Returns 0, or what ends the loop. */
static int submit_turn(struct submit *submit)
{
    /* Before the wait: the credit for it may have come with what was processed last, and nothing would wake us for it
     * again. What is fed here makes POLLOUT wake us at once. */
    int r = feed(submit);
    struct pollfd fds[] = {
        {.fd = wsd_client_fd(submit->client), .events = wsd_client_events(submit->client)},
        {.fd = signals_fd(), .events = POLLIN},
        {.fd = wants_input(submit) ? submit->input.fd : -1, .events = POLLIN},
    };

    if (r != 0)
        return r;
    if (poll(fds, 3, progress_timeout(submit->refused ? room_timeout(&submit->room) : -1)) < 0)
        return errno == EINTR ? 0 : ctl_error(CODE_IO, "poll", "%s", strerror(errno));
    if (fds[1].revents && signals_take())
        interrupted(submit);
    if (fds[2].revents && wants_input(submit))
        r = input_read(&submit->input);
    if (r == 0)
        wsd_client_process(submit->client); /* where it fails, done has been told */
    return r;
}

static struct wsd_callbacks callbacks_of(struct submit *submit)
{
    return (struct wsd_callbacks){
        .size = sizeof(struct wsd_callbacks),
        .accepted = on_accepted,
        .output = on_output,
        .message = on_message,
        .progress = on_progress,
        .done = on_done,
        .userdata = submit,
    };
}

/* Whether the job may write there itself: what wsctl would write into as it comes. Into a pipe only where --output names
 * it, since a job that waits for a slow reader keeps its place among those that run. */
static bool writes_itself(const struct submit *submit)
{
    const struct submit_options *o = submit->options;
    bool gathers = submit->ctl->json && !o->output,
         lasts = submit_detaches(o) || submit_is_durable(o) || o->job.retries;

    return !gathers && !lasts && !(o->job.key && *o->job.key) && output_takes_writers(&submit->output, o->output);
}

static int submit_start(struct submit *submit)
{
    const struct submit_options *o = submit->options;
    bool file = submit->input.large && !submit_is_durable(o) && wsd_client_takes_files(submit->client);
    bool stream = submit->input.fd >= 0 && !submit->input.whole && !file;
    struct wsd_submit request = o->job;
    struct wsd_callbacks callbacks = callbacks_of(submit);

    submit->by_pipe = stream && input_is_pipe(&submit->input);
    request.size = sizeof(request);
    request.input = submit->input.whole ? submit->input.data : NULL;
    request.input_size = submit->input.whole ? submit->input.end : file ? submit->input.size : 0;
    request.input_fd = submit->input.fd;
    request.input_offset = submit->input.offset;
    request.output_fd = submit->output.fd;
    request.flags |= (writes_itself(submit) ? WSD_SUBMIT_OUTPUT | WSD_SUBMIT_EITHER : 0u) |
                     (stream ? WSD_SUBMIT_STREAM : 0u) | (submit->by_pipe ? WSD_SUBMIT_PIPE : 0u) |
                     (file ? WSD_SUBMIT_FILE : 0u) | (progress_on() ? WSD_SUBMIT_PROGRESS : 0u);
    if (wsd_client_submit(submit->client, &request, &callbacks, &submit->call) < 0) {
        const char *why = wsd_client_error(submit->client);

        return ctl_error(wsd_client_exit(submit->client), o->name, "%s%s", why,
                         strncmp(why, "arguments: ", 11) == 0 ? "; a list of items goes to wsctl map, on stdin" : "");
    }
    if (file)
        input_given(&submit->input);
    if (wsd_client_process(submit->client) == 0)
        feed(submit);
    mark(submit, MARK_SENT);
    return 0;
}

/* It is time for another try. */
static int start_again(struct submit *submit)
{
    submit->call = wsd_call_free(submit->call);
    submit->refused = submit->done = false;
    return submit_start(submit);
}

static int print_id(const struct submit *submit)
{
    char id[WSD_ID_TEXT];
    struct json json = {0};

    wsd_id_text(&submit->id, id);
    if (!submit->ctl->json) {
        print_line("%s", id);
        return print_end();
    }
    json_string(&json, "id", id);
    json_string(&json, "plugin", submit->options->job.plugin);
    json_string(&json, "function", submit->options->job.function ? submit->options->job.function : "");
    return json_end(&json) || print_end() ? CODE_IO : 0;
}

static int submit_leave(struct submit *submit)
{
    if (submit->interrupted)
        return ctl_error(CODE_CANCELLED, submit->options->name, "cancelled");
    /* What is in the socket is not yet with wsd, which may see that we are gone first. Frames are taken in order, so an
     * answer to one behind the input says that wsd has it all. */
    if (submit->input.fd >= 0 && !submit->input.whole && !submit->done && wsd_client_ping(submit->client, NULL) < 0)
        return ctl_client_error(submit->client, submit->options->name, NULL);
    return print_id(submit);
}

/* Follows the job again when there is a wsd again. Returns 0 or the exit code, said. */
static int follow_again(struct submit *submit)
{
    struct wsd_callbacks callbacks = callbacks_of(submit);
    char id[WSD_ID_TEXT];

    submit->call = wsd_call_free(submit->call);
    input_close(&submit->input);
    wsd_id_text(&submit->id, id);
    if (!submit->ctl->quiet && !submit->attached_usec)
        print_message("wsctl", "wsd is gone; the job is durable: waiting for wsd to be back");
    do { /* the one that is ending may still answer: so there is a pause before the first try, too */
        struct pollfd fd = {.fd = signals_fd(), .events = POLLIN};

        submit->client = wsd_client_free(submit->client);
        if (clock_monotonic_usec() - submit->lost_usec > BACK_MAX_USEC ||
            (poll(&fd, 1, BACK_MSEC) > 0 && signals_take()))
            return ctl_error(CODE_INTERRUPTED, submit->options->name, "wsd is not back; later: wsctl await %s", id);
    } while (ctl_open(submit->ctl, &submit->client, 0) < 0);
    submit->attached_usec = clock_monotonic_usec();
    submit->lost = submit->done = false;
    submit->skip = submit->written;
    if (wsd_client_attach(submit->client, &submit->id, &callbacks, &submit->call) < 0)
        return ctl_client_error(submit->client, id, NULL);
    return 0;
}

int output_open_job(struct output *output, const struct submit_options *options, int input)
{
    const struct outfile_reads reads = {.input = input,
                                        .path = input < 0 ? options->input : NULL,
                                        .args = options->job.args,
                                        .n_args = options->job.n_args};

    return output_open(output, options->output, &reads);
}

/* --- its trace ---------------------------------------------------------------------------------------------------- */

static int begin_trace(struct submit *submit)
{
    const struct submit_options *o = submit->options;
    int r = 0;

    if (o->trace || o->otlp) /* spans alone: there is no picture */
        r = trace_file_open(submit->ctl, o->trace ? o->trace : "/dev/null", o->otlp, &submit->trace);

    mark(submit, MARK_CONNECTED);
    if (r == 0 && submit->trace && wsd_client_trace_start(submit->client, false) < 0)
        r = ctl_client_error(submit->client, "trace", NULL);
    mark(submit, MARK_TRACED);
    return r;
}

/* What wsctl did from one moment to the next. */
static struct trace_client client_spans(const struct submit *submit)
{
    static const char *const names[N_MARKS] = {
        [MARK_CONNECTED] = "connect",      [MARK_TRACED] = "begin the trace",  [MARK_SENT] = "submit",
        [MARK_ACCEPTED] = "wait for wsd",  [MARK_OUTPUT] = "wait for the job", [MARK_DONE] = "result",
        [MARK_WRITTEN] = "write the rest",
    };
    const uint64_t *marks = submit->marks;
    struct trace_client spans = {.submit = marks[MARK_TRACED], .done = marks[MARK_DONE]};
    uint64_t from = marks[MARK_BEGUN];

    for (int i = MARK_BEGUN + 1; i < N_MARKS; i++) {
        bool no_output = i == MARK_DONE && !marks[MARK_OUTPUT];

        if (marks[i] < from) /* it did not come to that, or before the one before */
            continue;
        spans.spans[spans.n].name = no_output ? "wait for the job" : names[i];
        spans.spans[spans.n].from = from;
        spans.spans[spans.n++].to = marks[i];
        from = marks[i];
    }
    return spans;
}

/* The job is over, or never was. Returns r or the exit code. */
static int end_trace(struct submit *submit, int r)
{
    int ended = CODE_NOT_FOUND; /* nothing of it is kept then */

    if (!submit->trace)
        return r;
    mark(submit, MARK_WRITTEN);
    if (submit->lost_usec) { /* the trace is one of the connection */
        ended = ctl_error(CODE_IO, "trace", "the connection to wsd has ended meanwhile: nothing of it is kept");
    } else if (submit->accepted && submit->done) {
        struct trace_client spans = client_spans(submit);

        trace_file_only(submit->trace, &submit->id);
        ended = trace_file_take(submit->trace, submit->client, &spans);
    }
    ended = trace_file_close(submit->trace, ended);
    return r || !submit->accepted ? r : ended;
}

static int submit_remote(const struct ctl *ctl, const struct submit_options *options)
{
    struct submit submit = {.ctl = ctl, .options = options, .output = {.fd = -1}, .room = options->room};
    int r, closed;

    mark(&submit, MARK_BEGUN);
    if ((r = input_open(&submit.input, options->input)) != 0 || (r = ctl_connect(ctl, &submit.client)) != 0)
        goto end;
    if ((r = output_open_job(&submit.output, options, submit.input.fd)) != 0)
        goto end;
    signals_init();
    r = begin_trace(&submit);
    if (r == 0)
        r = submit_start(&submit);
    while (r == 0 && (!submit.done || submit.lost || submit.refused) && submit.exit == 0 && !may_leave(&submit))
        r = submit.lost                                         ? follow_again(&submit)
            : submit.refused && room_timeout(&submit.room) == 0 ? start_again(&submit)
                                                                : submit_turn(&submit);
    if (r == 0)
        r = submit.exit;
    if (r == 0 && submit_detaches(options) && submit.accepted)
        r = submit_leave(&submit);
    progress_clear();
    closed = output_close(&submit.output, submit.succeeded);
    if (r == 0)
        r = closed;
    r = end_trace(&submit, r);
    if (r == 0)
        r = print_end();
end:
    submit.done = true;
    wsd_call_free(submit.call); /* first: no callback comes after that */
    wsd_client_free(submit.client);
    input_close(&submit.input);
    buffer_deinit(&submit.gathered);
    return r;
}

/* The options before the plugin or directly behind it. CTL_END, or CTL_EXIT with the exit code. */
static int take_options(struct ctl *ctl, int argc, char **argv, bool behind, struct submit_options *o, int *ret_exit)
{
    static const struct option none[] = {{0}};
    struct option_list list;
    int c;

    submit_options_list(SUBMIT_ALONE, none, "", &list);
    while ((c = (behind ? ctl_getopt_behind : ctl_getopt)(ctl, argc, argv, list.letters, list.options, ret_exit)) !=
           CTL_END)
        if (c == CTL_EXIT || (*ret_exit = submit_option(o, c)) != 0)
            return CTL_EXIT;
    return CTL_END;
}

/* CTL_END, or CTL_EXIT with the exit code, said. */
static int parse_options(struct ctl *ctl, int argc, char **argv, struct submit_options *o, char **ret_plugin,
                         int *ret_exit)
{
    if (take_options(ctl, argc, argv, false, o, ret_exit) == CTL_EXIT)
        return CTL_EXIT;
    if (optind == argc) {
        *ret_exit = ctl_error(CODE_USAGE, "submit", "no plugin is named; usage: wsctl submit %s", ctl->verb->usage);
        return CTL_EXIT;
    }
    bool ended = strcmp(argv[optind - 1], "--") == 0;
    o->name = argv[optind++];
    if (!ended && take_options(ctl, argc, argv, true, o, ret_exit) == CTL_EXIT)
        return CTL_EXIT;
    o->job.args = (const char *const *)argv + optind;
    o->job.n_args = (size_t)(argc - optind);
    *ret_exit = submit_options_check(o);
    if (*ret_exit == 0)
        *ret_exit = submit_take_environment(o);
    if (*ret_exit != 0)
        return CTL_EXIT;
    *ret_exit = submit_set_plugin(o, o->name, ret_plugin);
    return *ret_exit == 0 ? CTL_END : CTL_EXIT;
}

int verb_submit(struct ctl *ctl, int argc, char **argv)
{
    struct submit_options options = {.name = NULL};
    char *plugin = NULL;
    int r;

    room_init(&options.room);
    if (parse_options(ctl, argc, argv, &options, &plugin, &r) == CTL_END) {
        progress_init(!ctl->no_progress && !ctl->quiet && !ctl->json && !submit_detaches(&options));
        r = options.local ? submit_local(ctl, &options) : submit_remote(ctl, &options);
    }
    free(plugin);
    submit_options_deinit(&options);
    return r;
}
