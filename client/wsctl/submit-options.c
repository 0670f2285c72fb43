/* SPDX-License-Identifier: Apache-2.0
 *
 * submit-options.c: reads the options of `wsctl submit`, which those of map, run and schedule are some of.
 * Owns nothing; what is given points into the command line.
 * Keeps: what is wrong is said in one line. */
#include "submit-options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define STACK_MIN (256ll << 10) /* of --local: JOBS_STACK_MIN and JOBS_STACK_MAX of wsd */
#define STACK_MAX (1ll << 30)

const struct option submit_long_options[] = {
    {"input", required_argument, NULL, 'i'},
    {"output", required_argument, NULL, 'o'},
    {"detach", no_argument, NULL, 'd'},
    {"timeout", required_argument, NULL, 't'},
    {"priority", required_argument, NULL, 'p'},
    {"durable", no_argument, NULL, OPT_DURABLE},
    {"key", required_argument, NULL, OPT_KEY},
    {"retries", required_argument, NULL, OPT_RETRIES},
    {"retry-delay", required_argument, NULL, OPT_RETRY_DELAY},
    {"retry-on", required_argument, NULL, OPT_RETRY_ON},
    {"wait-for-room", optional_argument, NULL, OPT_WAIT_FOR_ROOM},
    {"delay", required_argument, NULL, OPT_DELAY},
    {"at", required_argument, NULL, OPT_AT},
    {"max-wait", required_argument, NULL, OPT_MAX_WAIT},
    {"after", required_argument, NULL, OPT_AFTER},
    {"after-any", required_argument, NULL, OPT_AFTER_ANY},
    {"tag", required_argument, NULL, OPT_TAG},
    {"local", no_argument, NULL, OPT_LOCAL},
    {"workers", required_argument, NULL, OPT_WORKERS},
    {"stack", required_argument, NULL, OPT_STACK},
    {"plugin-dir", required_argument, NULL, OPT_PLUGIN_DIR},
    {0},
};

/* `failed,crashed`. Returns 0 or the exit code, said. */
static int retry_on(const char *text, uint32_t *ret)
{
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

/* `ID,ID`, behind those that are there. Returns 0 or the exit code, said. */
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

int submit_option(struct submit_options *o, int c)
{
    long long number;

    switch (c) {
    case 'i':
        o->input = optarg;
        return 0;
    case 'o':
        o->output = optarg;
        return 0;
    case 'd':
        o->detach = true;
        return 0;
    case 't':
        return parse_duration(optarg, &o->timeout_usec) == 0
                   ? 0
                   : ctl_error(CODE_USAGE, optarg, "not a duration; write 30, 1.5s, 500ms, 2min or 1h");
    case 'p':
        if (parse_number(optarg, -100, 100, &number) < 0)
            return ctl_error(CODE_USAGE, optarg, "not a priority; write -100 to 100");
        o->priority = (int)number;
        return 0;
    case OPT_DURABLE:
        o->durable = true;
        return 0;
    case OPT_KEY:
        if (!*optarg || strlen(optarg) >= CODEC_KEY_MAX)
            return ctl_error(CODE_USAGE, "--key", "1 to %u bytes", CODEC_KEY_MAX - 1);
        o->key = optarg;
        return 0;
    case OPT_RETRIES:
        if (parse_number(optarg, 0, CODEC_RETRIES_MAX, &number) < 0)
            return ctl_error(CODE_USAGE, optarg, "not a number of retries; write 0 to %u", CODEC_RETRIES_MAX);
        o->retries = (uint32_t)number;
        return 0;
    case OPT_RETRY_DELAY:
        return parse_duration(optarg, &o->retry_usec) == 0 && o->retry_usec <= CODEC_RETRY_MAX
                   ? 0
                   : ctl_error(CODE_USAGE, optarg,
                               "not a duration of at most a day; write 30, 1.5s, 500ms, 2min or 1h");
    case OPT_RETRY_ON:
        return retry_on(optarg, &o->retry_on);
    case OPT_WAIT_FOR_ROOM:
        return room_option(&o->room, optarg);
    case OPT_DELAY:
        return span(optarg, &o->delay_usec);
    case OPT_MAX_WAIT:
        return span(optarg, &o->queue_usec);
    case OPT_AT:
        return parse_when(optarg, clock_realtime_usec(), &o->at_usec) == 0
                   ? 0
                   : ctl_error(CODE_USAGE, optarg,
                               "not a time; write now, +5min, 18:30, noon, tomorrow 08:00, 2031-05-17 08:00 "
                               "[Europe/Berlin] or "
                               "@1937001600");
    case OPT_AFTER:
        return add_ids(optarg, &o->after, &o->n_after);
    case OPT_AFTER_ANY:
        return add_ids(optarg, &o->after_any, &o->n_after_any);
    case OPT_TAG:
        if (o->n_tags == CODEC_TAGS || !codec_is_tag(optarg, strlen(optarg)))
            return ctl_error(CODE_USAGE, "--tag",
                             "at most %u, each of 1 to %u letters, digits, dots, underscores, hyphens", CODEC_TAGS,
                             CODEC_TAG_MAX - 1);
        o->tags[o->n_tags++] = optarg;
        return 0;
    case OPT_LOCAL:
        o->local = true;
        return 0;
    case OPT_WORKERS:
        if (parse_number(optarg, 1, 1024, &number) < 0)
            return ctl_error(CODE_USAGE, optarg, "not a number of workers; write 1 to 1024");
        o->workers = (unsigned)number;
        return 0;
    case OPT_STACK:
        return stack_size(optarg, &o->stack_size) == 0
                   ? 0
                   : ctl_error(CODE_USAGE, optarg, "not the size of a stack; write 256K to 1G, such as 64M");
    default:
        if (o->n_plugin_dirs == sizeof(o->plugin_dirs) / sizeof(*o->plugin_dirs))
            return ctl_error(CODE_USAGE, "--plugin-dir", "too many");
        o->plugin_dirs[o->n_plugin_dirs++] = optarg;
        return 0;
    }
}

int submit_option_named(struct submit_options *options, const char *name, const char *value)
{
    for (const struct option *o = submit_long_options; o->name; o++)
        if (strcmp(o->name, name) == 0) {
            optarg = (char *)(uintptr_t)value;
            return submit_option(options, o->val);
        }
    return ctl_error(CODE_USAGE, name, "no such option");
}
