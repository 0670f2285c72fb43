/* SPDX-License-Identifier: Apache-2.0
 *
 * submit-options.c: the options of `wsctl submit`, some of which map, schedule and the nodes of a graph have, too.
 * Owns the one table of them: how each is written, its help, and where its value goes. getopt, --help, completions and
 * the members of a node come from it. What is given points into the command line.
 * Keeps: what is wrong is said in one line. */
#include "submit-options.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "parse.h"
#include "print.h"
#include "when.h"

#define FLEET_PLACE "@fleet/"     /* of wsd-fleet's place */
#define STACK_MIN   (256ll << 10) /* of --local: JOBS_STACK_MIN and JOBS_STACK_MAX of wsd */
#define STACK_MAX   (1ll << 30)

#define OPT_FIRST 600  /* getopt's value of an option without a letter: this, and its place in the table */
#define OPT_WIDTH 24   /* columns of an option in a help */
#define HELP_MAX  8192 /* bytes */

/* --- values: each returns 0 or the exit code, said ---------------------------------------------------------------- */

/* `failed,crashed` */
static int set_retry_on(struct submit_options *o, const char *text)
{
    uint32_t *ret = &o->job.retry_on;

    *ret = 0;
    for (const char *at = text; at; at = *at ? at + 1 : NULL) {
        size_t n = strcspn(at, ",");
        uint32_t bit = 0;

        for (int state = WSD_JOB_SUCCEEDED; state <= WSD_JOB_INTERRUPTED; state++) {
            const char *name = wsd_job_state_name((enum wsd_job_state)state);

            if (strlen(name) == n && strncmp(name, at, n) == 0)
                bit = 1u << state & CODEC_RETRY_ON;
        }
        if (!bit)
            return ctl_error(CODE_USAGE, text, "not ends of jobs; write some of failed,timed-out,crashed,interrupted");
        *ret |= bit;
        at += n;
    }
    return 0;
}

static int span(const char *text, uint64_t *ret)
{
    return parse_duration(text, ret) == 0 && *ret <= CODEC_SPAN_MAX
               ? 0
               : ctl_error(CODE_USAGE, text,
                           "not a duration of at most ten years; write 30, 1.5s, 500ms, 2min, 1h or 7d");
}

/* `ID,ID`, behind those that are there. */
static int add_ids(const char *text, struct wsd_id **ids, size_t *n)
{
    char one[WSD_ID_TEXT];
    int r = 0;

    for (const char *at = text; r == 0 && at; at = *at ? at + 1 : NULL) {
        size_t size = strcspn(at, ",");
        struct wsd_id *more = realloc(*ids, (*n + 1) * sizeof(*more));

        if (!more)
            return ctl_error(CODE_IO, "submit", "out of memory");
        *ids = more;
        snprintf(one, sizeof(one), "%.*s", (int)MIN(size, sizeof(one)), at);
        if (size != WSD_ID_TEXT - 1 || wsd_id_parse(one, &more[*n]) < 0)
            r = ctl_error(CODE_USAGE, text, "not the ids of jobs: 32 hexadecimal digits each, with commas between");
        ++*n;
        at += size;
    }
    return r;
}

/* As [pool] stack of wsd.conf. 0 or -1. */
static int stack_size(const char *text, size_t *ret)
{
    char number[16] = "";
    size_t n = strlen(text);
    const char *unit = n ? strchr("KMG", text[n - 1]) : NULL;
    int shift = unit && *unit ? *unit == 'K' ? 10 : *unit == 'M' ? 20 : 30 : 0;
    long long count;

    n -= shift != 0;
    if (n >= sizeof(number))
        return -1;
    memcpy(number, text, n);
    if (parse_number(number, 1, STACK_MAX >> shift, &count) < 0 || count << shift < STACK_MIN)
        return -1;
    *ret = (size_t)(count << shift);
    return 0;
}

static int set_input(struct submit_options *o, const char *text)
{
    o->input = text;
    return 0;
}

static int set_output(struct submit_options *o, const char *text)
{
    o->output = strcmp(text, "-") == 0 ? NULL : text; /* stdout, as without it */
    return 0;
}

static int set_detach(struct submit_options *o, const char *text)
{
    o->job.flags |= WSD_SUBMIT_DETACH;
    return 0;
}

static int set_timeout(struct submit_options *o, const char *text)
{
    return parse_duration(text, &o->job.timeout_usec) == 0
               ? 0
               : ctl_error(CODE_USAGE, text, "not a duration above 0; write 30, 1.5s, 500ms, 2min or 1h");
}

static int set_priority(struct submit_options *o, const char *text)
{
    long long number;

    if (parse_number(text, -100, 100, &number) < 0)
        return ctl_error(CODE_USAGE, text, "not a priority; write -100 to 100");
    o->job.priority = (int)number;
    return 0;
}

static int set_delay(struct submit_options *o, const char *text)
{
    return span(text, &o->job.delay_usec);
}

static int set_at(struct submit_options *o, const char *text)
{
    return parse_when(text, clock_realtime_usec(), &o->job.at_usec) == 0
               ? 0
               : ctl_error(CODE_USAGE, text,
                           "not a time; write now, +5min, 18:30, noon, tomorrow 08:00, 2031-05-17 08:00 "
                           "[Europe/Berlin] or @1937001600");
}

static int set_max_wait(struct submit_options *o, const char *text)
{
    return span(text, &o->job.queue_usec);
}

static int set_durable(struct submit_options *o, const char *text)
{
    o->job.flags |= WSD_SUBMIT_DURABLE;
    return 0;
}

static int set_wait_runner(struct submit_options *o, const char *text)
{
    o->job.flags |= WSD_SUBMIT_WAIT_RUNNER;
    return 0;
}

static int set_fleet(struct submit_options *o, const char *text)
{
    o->fleet = true;
    return 0;
}

static int set_key(struct submit_options *o, const char *text)
{
    if (!*text || strlen(text) >= CODEC_KEY_MAX)
        return ctl_error(CODE_USAGE, "--key", "1 to %u bytes", CODEC_KEY_MAX - 1);
    o->job.key = text;
    return 0;
}

static int set_retries(struct submit_options *o, const char *text)
{
    long long number;

    if (parse_number(text, 0, CODEC_RETRIES_MAX, &number) < 0)
        return ctl_error(CODE_USAGE, text, "not a number of retries; write 0 to %u", CODEC_RETRIES_MAX);
    o->job.retries = (uint32_t)number;
    return 0;
}

static int set_retry_delay(struct submit_options *o, const char *text)
{
    return parse_duration(text, &o->job.retry_usec) == 0 && o->job.retry_usec <= CODEC_RETRY_MAX
               ? 0
               : ctl_error(CODE_USAGE, text, "not a duration of at most a day; write 30, 1.5s, 500ms, 2min or 1h");
}

static int set_wait_for_room(struct submit_options *o, const char *text)
{
    return room_option(&o->room, text);
}

static int set_after(struct submit_options *o, const char *text)
{
    int r = add_ids(text, &o->after, &o->job.n_after);

    o->job.after = o->after;
    return r;
}

static int set_after_any(struct submit_options *o, const char *text)
{
    int r = add_ids(text, &o->after_any, &o->job.n_after_any);

    o->job.after_any = o->after_any;
    return r;
}

int submit_add_tag(struct submit_options *o, const char *text)
{
    if (o->job.n_tags == CODEC_TAGS || !codec_is_tag(text, strlen(text)))
        return ctl_error(CODE_USAGE, "--tag", "at most %u, each of 1 to %u letters, digits, dots, underscores, hyphens",
                         CODEC_TAGS, CODEC_TAG_MAX - 1);
    o->tags[o->job.n_tags++] = text;
    o->job.tags = o->tags;
    return 0;
}

static int set_traceparent(struct submit_options *o, const char *text)
{
    o->job.traceparent = text;
    return codec_is_traceparent(text, strlen(text)) ? 0 : ctl_error(CODE_USAGE, text, TRACEPARENT_WORDS);
}

int submit_take_environment(struct submit_options *o)
{
    const char *text = getenv("TRACEPARENT");

    if (!text || !*text || o->job.traceparent)
        return 0;
    o->job.traceparent = text;
    return codec_is_traceparent(text, strlen(text))
               ? 0
               : ctl_error(CODE_USAGE, "TRACEPARENT in the environment", TRACEPARENT_WORDS "; unset it, or correct it");
}

static int set_local(struct submit_options *o, const char *text)
{
    o->local = true;
    return 0;
}

/* Not stdout, where the output goes. */
static int set_trace(struct submit_options *o, const char *text)
{
    o->trace = text;
    return strcmp(text, "-") != 0 ? 0 : ctl_error(CODE_USAGE, "--trace", "name a file: stdout is for the output");
}

static int set_otlp(struct submit_options *o, const char *text)
{
    o->otlp = text;
    return strcmp(text, "-") != 0 ? 0 : ctl_error(CODE_USAGE, "--otlp", "name a file: stdout is for the output");
}

static int set_workers(struct submit_options *o, const char *text)
{
    long long number;

    if (parse_number(text, 1, 1024, &number) < 0)
        return ctl_error(CODE_USAGE, text, "not a number of workers; write 1 to 1024");
    o->workers = (unsigned)number;
    return 0;
}

static int set_stack(struct submit_options *o, const char *text)
{
    return stack_size(text, &o->stack_size) == 0
               ? 0
               : ctl_error(CODE_USAGE, text, "not the size of a stack; write 256K to 1G, such as 64M");
}

static int add_plugin_dir(struct submit_options *o, const char *text)
{
    if (o->n_plugin_dirs == ARRAY_SIZE(o->plugin_dirs))
        return ctl_error(CODE_USAGE, "--plugin-dir", "too many");
    o->plugin_dirs[o->n_plugin_dirs++] = text;
    return 0;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* Short, so that a row is a line. */
#define S SUBMIT_ALONE
#define M SUBMIT_MAP
#define P SUBMIT_SCHEDULE
#define G SUBMIT_GRAPH

enum local { EITHER, NOT_LOCAL, LOCAL_ONLY };

struct submit_option {
    char letter; /* 0: none */
    const char *name;
    const char *value; /* as the help has it: ` TIME`, `[=TIME]` where it may be left out; NULL: none */
    unsigned verbs;    /* which take it */
    enum local local;
    int (*set)(struct submit_options *o, const char *text); /* NULL: only in the help */
    const char *help;
};

/* In the order of the help. */
static const struct submit_option table[] = {
    {'i', "input", " FILE", S, EITHER, set_input, "bytes for the job; - is stdin"},
    {'o', "output", " FILE", S, EITHER, set_output,
     "where the output goes, instead of stdout; FILE is as it was until the job has succeeded"},
    {'d', "detach", NULL, S, NOT_LOCAL, set_detach, "print the job's id and leave; see wsctl await"},
    {'t', "timeout", " TIME", S | M | P | G, EITHER, set_timeout, "of its run time: 30, 1.5s, 500ms, 2min, 1h"},
    {'p', "priority", " N", S | M | P | G, EITHER, set_priority, "-100 to 100, higher first"},
    {0, "delay", " TIME", S, NOT_LOCAL, set_delay, "not before so long"},
    {0, "at", " WHEN", S, NOT_LOCAL, set_at,
     "not before: +5min, 18:30, noon, tomorrow 08:00, '2031-05-17 08:00 Europe/Berlin', @SECONDS"},
    {0, "max-wait", " TIME", S | P, NOT_LOCAL, set_max_wait,
     "the longest time in the queue; beyond it the job ends (124) and has not run"},
    {0, "durable", NULL, S | M | P | G, NOT_LOCAL, set_durable,
     "accepted when it is on disk; it and its result outlive wsd"},
    {0, "key", " KEY", S | G, NOT_LOCAL, set_key, "a second submit with the same key is the same job"},
    {0, "retries", " N", S | P | G, NOT_LOCAL, set_retries,
     "tried again so often after it ended badly, with growing pauses"},
    {0, "retry-delay", " TIME", S | P | G, NOT_LOCAL, set_retry_delay, "the first of them (1s)"},
    {0, "retry-on", " LIST", S | P | G, NOT_LOCAL, set_retry_on,
     "what counts as badly (failed,timed-out,crashed,interrupted)"},
    {0, "wait-for-room", "[=TIME]", S | M, NOT_LOCAL, set_wait_for_room,
     "where it is refused for now (75): wait for room, at most so long"},
    {0, "wait-runner", NULL, S | M | P | G, NOT_LOCAL, set_wait_runner,
     "where no runner of the name is connected: wait in the queue until one is"},
    {0, "fleet", NULL, S | M | P | G, NOT_LOCAL, set_fleet,
     "on whichever machine of the fleet has the plugin and room"},
    {0, "after", " ID[,ID...]", S, NOT_LOCAL, set_after,
     "held until these jobs or batches have succeeded; cancelled where one has not"},
    {0, "after-any", " ID[,ID...]", S, NOT_LOCAL, set_after_any, "held until these jobs have ended, however"},
    {0, "tag", " TAG", S, NOT_LOCAL, submit_add_tag, "a name for limits and pauses; may be repeated, at most 3"},
    {0, "traceparent", " TEXT", S | M | G, EITHER, set_traceparent,
     "the trace that it belongs to, as W3C Trace Context writes it (TRACEPARENT)"},
    {0, "traceparent", " TEXT", P, NOT_LOCAL, set_traceparent, /* the variable is of a moment */
     "the trace that each run belongs to, as W3C Trace Context writes it"},
    {0, "trace", " FILE", S, NOT_LOCAL, set_trace,
     "record the job's way into FILE, for ui.perfetto.dev; see wsctl trace"},
    {0, "otlp", " FILE", S, NOT_LOCAL, set_otlp, "write the spans of the job's way, as JSON lines for OpenTelemetry"},
    {0, "local", NULL, S, EITHER, set_local, "run it inside wsctl, without a daemon (for debuggers and authors)"},
    {0, "workers", " N", S, LOCAL_ONLY, set_workers, "with --local: so many workers"},
    {0, "stack", " SIZE", S, LOCAL_ONLY, set_stack, "with --local: of a worker's stack (8M)"},
    {0, "plugin-dir", " DIR", S, LOCAL_ONLY, add_plugin_dir, "with --local: look here; may be repeated"},
    {0, "json", NULL, S, EITHER, NULL, "one object: the job, and its output in base64"},
};

static int value_of(const struct submit_option *row)
{
    return row->letter ? row->letter : OPT_FIRST + (int)(row - table);
}

void submit_options_list(unsigned verb, const struct option *own, const char *letters, struct option_list *ret)
{
    size_t n = 0;
    char *at = stpcpy(ret->letters, letters);

    for (; own[n].name; n++)
        ret->options[n] = own[n];
    for (const struct submit_option *row = table; row < table + ARRAY_SIZE(table); row++) {
        if (!(row->verbs & verb) || !row->set)
            continue;
        assert(n + 1 < ARRAY_SIZE(ret->options));
        ret->options[n++] = (struct option){.name = row->name,
                                            .has_arg = !row->value            ? no_argument
                                                       : row->value[0] == '[' ? optional_argument
                                                                              : required_argument,
                                            .val = value_of(row)};
        if (row->letter) {
            *at++ = row->letter;
            at = stpcpy(at, row->value ? ":" : "");
        }
    }
    ret->options[n] = (struct option){.name = NULL};
}

const char *submit_options_help(unsigned verb)
{
    static char text[HELP_MAX];
    size_t n = 0;

    text[0] = 0;
    for (const struct submit_option *row = table; row < table + ARRAY_SIZE(table); row++) {
        char option[64];

        if (!(row->verbs & verb))
            continue;
        snprintf(option, sizeof(option), row->letter ? "  -%c, --%s%s" : "     %c--%s%s",
                 row->letter ? row->letter : ' ', row->name, row->value ? row->value : "");
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%-*s%s%s\n", OPT_WIDTH - 2, option, "  ", row->help);
        assert(n < sizeof(text));
    }
    return text;
}

static int set(struct submit_options *o, const struct submit_option *row, const char *value)
{
    o->given |= UINT64_C(1) << (row - table);
    return row->set(o, value);
}

int submit_option(struct submit_options *o, int c)
{
    for (const struct submit_option *row = table; row < table + ARRAY_SIZE(table); row++)
        if (row->set && value_of(row) == c)
            return set(o, row, optarg);
    assert(false); /* getopt knows only those of the table */
    return CODE_USAGE;
}

static const struct submit_option *find_member(const char *name)
{
    for (const struct submit_option *row = table; row < table + ARRAY_SIZE(table); row++)
        if (row->verbs & SUBMIT_GRAPH && strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

bool submit_member(const char *name, bool *ret_flag)
{
    const struct submit_option *row = find_member(name);

    if (row)
        *ret_flag = !row->value;
    return row;
}

int submit_set_member(struct submit_options *o, const char *name, const char *value)
{
    return set(o, find_member(name), value);
}

void submit_member_names(char *ret, size_t size)
{
    size_t n = 0;

    *ret = 0;
    for (const struct submit_option *row = table; row < table + ARRAY_SIZE(table); row++)
        if (row->verbs & SUBMIT_GRAPH && n < size)
            n += (size_t)snprintf(ret + n, size - n, "%s%s", n ? " " : "", row->name);
}

/* --- what goes together ------------------------------------------------------------------------------------------- */

int submit_set_plugin(struct submit_options *o, const char *text, char **ret_plugin)
{
    const char *function = NULL;

    *ret_plugin = NULL;
    if (o->fleet && (*text == '@' || strchr(text, '/')))
        return ctl_error(CODE_USAGE, text, "with --fleet write the PLUGIN or PLUGIN:FUNCTION alone, without a path");
    char *plugin = *text ? malloc(sizeof(FLEET_PLACE) + strlen(text)) : NULL;
    if (*text && !plugin)
        return ctl_error(CODE_IO, text, "out of memory");
    if (plugin)
        stpcpy(stpcpy(plugin, o->fleet ? FLEET_PLACE : ""), text);
    if (!plugin || *text == ':' || parse_plugin(plugin, &function) < 0) {
        free(plugin);
        return ctl_error(CODE_USAGE, text, "not the name of a plugin; write PLUGIN or PLUGIN:FUNCTION");
    }
    o->job.plugin = *ret_plugin = plugin;
    if (function)
        o->job.function = function;
    return 0;
}

int submit_options_check(const struct submit_options *o)
{
    const struct wsd_submit *job = &o->job;
    char option[40];

    for (const struct submit_option *row = table; row < table + ARRAY_SIZE(table); row++) {
        bool none = row->set == set_retries && !job->retries;

        if (!(o->given >> (row - table) & 1) || none || row->local != (o->local ? NOT_LOCAL : LOCAL_ONLY))
            continue;
        snprintf(option, sizeof(option), "--%s", row->name);
        return ctl_error(CODE_USAGE, option,
                         o->local ? "not with --local" : "only with --local; else it is wsd's to say");
    }
    if (job->delay_usec && job->at_usec)
        return ctl_error(CODE_USAGE, "--at", "not with --delay");
    if (job->n_after + job->n_after_any > CODEC_AFTER_MAX)
        return ctl_error(CODE_USAGE, "--after", "at most %u jobs in all", CODEC_AFTER_MAX);
    if ((job->retry_usec || job->retry_on) && !job->retries)
        return ctl_error(CODE_USAGE, job->retry_on ? "--retry-on" : "--retry-delay", "only with --retries");
    if (o->otlp && o->trace && strcmp(o->otlp, o->trace) == 0)
        return ctl_error(CODE_USAGE, "--otlp", "the trace goes there, too; name another file");
    if ((o->trace || o->otlp) && submit_detaches(o))
        return ctl_error(CODE_USAGE, o->trace ? "--trace" : "--otlp", "not with --detach: later, wsctl trace --job ID");
    if (o->output && submit_detaches(o))
        return ctl_error(CODE_USAGE, "--output", "not with --detach: the output is for wsctl await");
    return 0;
}

void submit_options_deinit(struct submit_options *o)
{
    free(TAKE(o->after));
    free(TAKE(o->after_any));
}
