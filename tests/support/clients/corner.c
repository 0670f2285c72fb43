/* SPDX-License-Identifier: Apache-2.0
 *
 * corner.c: corners of the job table, each by a client that speaks the wire itself: it grants output when the case
 * wants it, and not before. One case a run: prints `ok NAME` or `FAIL NAME: why`, exits 0 or 1.
 *
 *     corner CASE        WSD_SOCKET: where; WSD_PID: of that wsd; some cases kill its executors */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conn.h"

static void submit_input(struct conn *c, uint32_t tag, const char *plugin, const char *function, const char *arg,
                         uint32_t flags, const void *input, size_t size)
{
    put(c,
        &(struct msg){.type = FRAME_SUBMIT,
                      .submit = {.plugin = {plugin, strlen(plugin)},
                                 .function = {function, strlen(function)},
                                 .args = {arg ? arg : "", arg ? strlen(arg) + 1 : 0},
                                 .argc = arg ? 1 : 0,
                                 .flags = flags}},
        tag, input, size);
}

static void submit(struct conn *c, uint32_t tag, const char *plugin, const char *function, const char *arg,
                   uint32_t flags)
{
    submit_input(c, tag, plugin, function, arg, flags, NULL, 0);
}

static void by_id(struct conn *c, uint16_t type, uint32_t tag, const uint8_t id[16])
{
    struct msg m = {.type = type, .id = {.has_id = id != NULL}};

    if (id)
        memcpy(m.id.id, id, 16);
    put(c, &m, tag, NULL, 0);
}

static void accepted(struct conn *c, uint32_t tag, uint8_t ret_id[16])
{
    expect(c, FRAME_ACCEPTED, tag);
    memcpy(ret_id, c->msg.id.id, 16);
}

static void credit(struct conn *c, uint32_t tag, uint64_t bytes)
{
    put(c, &(struct msg){.type = FRAME_CREDIT, .credit = {.bytes = bytes}}, tag, NULL, 0);
}

static uint64_t counter(struct conn *c, uint32_t tag, const char *counter_name)
{
    put(c, &(struct msg){.type = FRAME_STATS}, tag, NULL, 0);
    expect(c, FRAME_COUNTERS, tag);
    for (size_t i = 0; i < c->msg.stats.n_counters; i++)
        if (strcmp(c->msg.stats.counters[i].name.data, counter_name) == 0)
            return c->msg.stats.counters[i].value;
    fail("there is no counter %s", counter_name);
}

static void pause_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static void wait_for_counter(const char *counter_name, uint64_t value)
{
    struct conn *c = open_conn(0);
    uint32_t tag = 1;

    for (int i = 0; counter(c, tag, counter_name) != value; i++, tag++) {
        if (i > WAIT_MSEC / 10)
            fail("%s does not become %llu: it is %llu", counter_name, (unsigned long long)value,
                 (unsigned long long)counter(c, tag + 1, counter_name));
        pause_a_little();
    }
    hang_up(c);
}

static void wait_for_running(const uint8_t id[16], uint64_t usec)
{
    struct conn *c = open_conn(0);

    for (uint32_t tag = 1;; tag++) {
        by_id(c, FRAME_STATUS, tag, id);
        expect(c, FRAME_JOB, tag);
        if (c->msg.job.state == 4 && c->msg.job.run_usec >= usec)
            break;
        if (tag > WAIT_MSEC / 10)
            fail("the job does not run");
        pause_a_little();
    }
    hang_up(c);
}

static void kill_executors(void)
{
    char command[64];

    snprintf(command, sizeof(command), "pkill -KILL -P %d", atoi(getenv("WSD_PID")));
    if (system(command) != 0)
        fail("there is no executor to kill");
}

/* --- output that is taken ------------------------------------------------------------------------------------------
 */

struct taken {
    uint64_t bytes;
    bool done;
    uint32_t state;
};

static uint8_t pattern(uint64_t at)
{
    return (uint8_t)(at / 8 * 8 >> at % 8 * 8);
}

/* One frame of a call: OUTPUT is checked and, if wanted, granted again. first: where in the pattern it begins. */
static void take(struct conn *c, uint32_t tag, struct taken *t, uint64_t first, bool grant)
{
    if (c->frame.tag != tag)
        fail("a frame of tag %u", c->frame.tag);
    if (c->msg.type == FRAME_DONE) {
        t->done = true;
        t->state = c->msg.job.state;
    } else if (c->msg.type == FRAME_OUTPUT) {
        if (c->msg.chunk.offset != t->bytes)
            fail("output at offset %llu, where %llu bytes had come", (unsigned long long)c->msg.chunk.offset,
                 (unsigned long long)t->bytes);
        for (size_t i = 0; i < c->frame.body_size; i += 7)
            if (c->frame.body[i] != pattern(first + t->bytes + i))
                fail("a wrong byte at %llu", (unsigned long long)(t->bytes + i));
        t->bytes += c->frame.body_size;
        if (grant)
            credit(c, tag, c->frame.body_size);
    } else if (c->msg.type != FRAME_ACCEPTED) {
        fail("%s", codec_type_name(c->msg.type));
    }
}

/* Both connections until both calls are done. */
static void take_both(struct conn *a, struct taken *ta, uint64_t first_a, struct conn *b, struct taken *tb,
                      uint64_t first_b)
{
    for (int idle = 0; !ta->done || !tb->done;) {
        bool any = false;

        if (!ta->done && next_in(a, 5)) {
            take(a, 1, ta, first_a, true);
            any = true;
        }
        if (!tb->done && next_in(b, 5)) {
            take(b, 1, tb, first_b, true);
            any = true;
        }
        idle = any ? 0 : idle + 1;
        if (idle > WAIT_MSEC / 10)
            fail("both readers wait for ever: %llu and %llu bytes have come", (unsigned long long)ta->bytes,
                 (unsigned long long)tb->bytes);
    }
}

/* --- cases ---------------------------------------------------------------------------------------------------------
 */

/* Directory and relative plugin path are each within their limits; together they are longer than a path can be. */
static void a_path_longer_than_a_packet(void)
{
    static char directory[4000], plugin[4000];

    memset(directory, 'd', sizeof(directory) - 1);
    memset(plugin, 'p', sizeof(plugin) - 1);
    directory[0] = '/';
    plugin[1] = '/';
    struct conn *c = open_in(1 << 20, directory);
    submit(c, 1, plugin, "", NULL, 0);
    expect(c, FRAME_ERROR, 1);
    if (c->msg.error.code != 66 && c->msg.error.code != 77)
        fail("code %u", c->msg.error.code);
    hang_up(c);
    hang_up(open_conn(0));
}

/* A client that follows a job from its middle on gets the rest of its output; the submitter gets all of it. */
static void await_from_the_middle(void)
{
    struct conn *a = open_conn(65536), *b = open_conn(65536);
    struct taken ta = {0}, tb = {0};
    uint8_t id[16];

    submit(a, 1, "bigoutput", "", "40000000", 0);
    accepted(a, 1, id);
    while (ta.bytes < 4000000) {
        next(a);
        take(a, 1, &ta, 0, true);
    }
    by_id(b, FRAME_AWAIT, 1, id);
    /* it has joined when the job still runs and it is served: a question behind its AWAIT is answered */
    put(b, &(struct msg){.type = FRAME_PING}, 2, NULL, 0);
    for (;;) {
        next(b);
        if (b->msg.type == FRAME_PONG)
            break;
        if (b->msg.type != FRAME_OUTPUT || b->msg.chunk.offset != tb.bytes)
            fail("%s at %llu", codec_type_name(b->msg.type), (unsigned long long)b->msg.chunk.offset);
        tb.bytes += b->frame.body_size;
        credit(b, 1, b->frame.body_size);
    }
    /* from here on without the pattern: where it joined is not ours to know */
    for (int idle = 0; !ta.done || !tb.done;) {
        bool any = false;

        if (!ta.done && next_in(a, 5)) {
            take(a, 1, &ta, 0, true);
            any = true;
        }
        if (!tb.done && next_in(b, 5)) {
            any = true;
            if (b->msg.type == FRAME_DONE) {
                tb.done = true;
            } else {
                if (b->msg.type != FRAME_OUTPUT || b->msg.chunk.offset != tb.bytes)
                    fail("%s at %llu", codec_type_name(b->msg.type), (unsigned long long)b->msg.chunk.offset);
                tb.bytes += b->frame.body_size;
                credit(b, 1, b->frame.body_size);
            }
        }
        idle = any ? 0 : idle + 1;
        if (idle > WAIT_MSEC / 10)
            fail("both readers wait for ever: %llu and %llu bytes have come", (unsigned long long)ta.bytes,
                 (unsigned long long)tb.bytes);
    }
    if (ta.bytes != 40000000 || ta.state != 5)
        fail("the submitter has %llu bytes, state %u", (unsigned long long)ta.bytes, ta.state);
    if (tb.bytes == 0 || tb.bytes > 36000000)
        fail("who came later has %llu bytes", (unsigned long long)tb.bytes);
    hang_up(a);
    hang_up(b);
}

/* Two readers have had no byte yet. The executor dies and the job runs again: both get all of the output. */
static void output_that_was_thrown_away(void)
{
    struct conn *a = open_conn(0), *b = open_conn(1 << 20);
    struct taken ta = {0}, tb = {0};
    uint8_t id[16];

    submit(a, 1, "bigoutput", "", "20000000", 0);
    accepted(a, 1, id);
    wait_for_running(id, 500000);
    by_id(b, FRAME_AWAIT, 1, id);
    put(b, &(struct msg){.type = FRAME_PING}, 2, NULL, 0);
    expect(b, FRAME_PONG, 2);
    kill_executors();
    wait_for_counter("jobs_run_again", 1);
    credit(a, 1, 65536);
    credit(b, 1, 65536);
    take_both(a, &ta, 0, b, &tb, 0);
    if (ta.bytes != 20000000 || ta.state != 5 || tb.bytes != 20000000)
        fail("%llu and %llu bytes, state %u", (unsigned long long)ta.bytes, (unsigned long long)tb.bytes, ta.state);
    hang_up(a);
    hang_up(b);
}

/* A streamed job that was handed over and not begun when the executor died: it runs on the next one, with its input.
 * For --workers 1. whole: the input had come to its end before. */
static void streamed_and_untouched(bool whole)
{
    struct conn *c = open_conn(1 << 20);
    uint8_t blocker[16], id[16];
    char got[64] = "";

    submit(c, 1, "sleep", "sleep", "60000", 0);
    accepted(c, 1, blocker);
    wait_for_running(blocker, 1);
    submit_input(c, 2, "echo", "stream", NULL, SUBMIT_MORE, "early ", 6);
    accepted(c, 2, id);
    if (whole)
        put(c, &(struct msg){.type = FRAME_INPUT, .chunk = {.offset = 6, .last = true}}, 2, "late", 4);
    wait_for_counter("jobs_handed_over", 2);
    kill_executors();
    bool first_done = false, done = false;
    if (!whole)
        put(c, &(struct msg){.type = FRAME_INPUT, .chunk = {.offset = 6, .last = true}}, 2, "late", 4);
    while (!first_done || !done) {
        next(c);
        if (c->msg.type == FRAME_OUTPUT && c->frame.tag == 2 && c->msg.chunk.offset + c->frame.body_size < sizeof(got))
            memcpy(got + c->msg.chunk.offset, c->frame.body, c->frame.body_size);
        if (c->msg.type != FRAME_DONE)
            continue;
        if (c->frame.tag == 1)
            first_done = true;
        else if (c->msg.job.state != 5)
            fail("it ends in state %u: %s", c->msg.job.state, c->msg.job.error.data);
        else
            done = true;
    }
    if (strcmp(got, "early late") != 0)
        fail("it had the input: %s", got);
    hang_up(c);
}

static void a_streamed_job_that_was_not_begun(void)
{
    streamed_and_untouched(true);
    streamed_and_untouched(false);
}

/* The job has ended, its reader has not taken all of the output; wsd is told to stop and must not lose the rest. */
static void drain_waits_for_a_slow_reader(void)
{
    struct conn *c = open_conn(65536);
    struct taken t = {0};
    uint8_t id[16];

    submit(c, 1, "bigoutput", "", "2000000", 0);
    accepted(c, 1, id);
    while (t.bytes < 65536) {
        next(c);
        take(c, 1, &t, 0, false);
    }
    wait_for_counter("jobs_open", 0);
    kill(atoi(getenv("WSD_PID")), SIGTERM);
    expect(c, FRAME_GOODBYE, 0);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL); /* time to be wrong in */
    credit(c, 1, 65536);
    while (!t.done) {
        next(c);
        /* no more credit than is needed: when wsd has sent all, it ends, and sending to it fails */
        take(c, 1, &t, 0, t.bytes + 65536 < 2000000);
    }
    if (t.bytes != 2000000 || t.state != 5)
        fail("%llu bytes, state %u", (unsigned long long)t.bytes, t.state);
    hang_up(c);
}

/* More kept results than wsd keeps for a user. A client that stands still is reading all but the last of them. */
static void kept_results_that_are_being_read(void)
{
    struct conn *c = open_conn(0), *d = open_conn(1 << 20);
    uint8_t id[16];

    for (uint32_t tag = 1; tag <= 10010; tag++)
        submit(c, tag, "echo", "", "x", SUBMIT_DETACH);
    wait_for_counter("results_kept", 10010);
    for (uint32_t tag = 1; tag <= 20; tag++) {
        submit(d, tag, "echo", "", "y", SUBMIT_DETACH);
        accepted(d, tag, id);
        for (next(d); d->msg.type != FRAME_DONE; next(d))
            ;
        if (d->msg.job.state != 5)
            fail("state %u", d->msg.job.state);
    }
    hang_up(c);
    hang_up(d);
    hang_up(open_conn(0));
}

/* Submits to a liar (tests/support/shims/liar.c) and reads to the end of the call. Returns the final state, or 0 for an
 * ERROR. */
static uint32_t lie(struct conn *c, uint32_t tag, const char *mode, uint32_t flags)
{
    submit(c, tag, mode, "", NULL, flags);
    for (;;) {
        next(c);
        if (c->frame.tag == tag && (c->msg.type == FRAME_DONE || c->msg.type == FRAME_ERROR))
            return c->msg.type == FRAME_DONE ? c->msg.job.state : 0;
    }
}

static void expect_state(uint32_t is, uint32_t wanted)
{
    if (is != wanted)
        fail("it ends in state %u, where %u was expected", is, wanted);
}

static void state_that_changes_all_the_time(void)
{
    struct conn *c = open_conn(0);

    for (uint32_t tag = 1; tag <= 30; tag++)
        if (lie(c, tag, "toggle", SUBMIT_DETACH) == 5)
            fail("more was kept than may be");
    hang_up(c);
}

static void output_that_is_announced_for_ever(void)
{
    struct conn *c = open_conn(0);

    submit(c, 1, "held", "", NULL, 0);
    wait_for_counter("jobs_open", 0);
    hang_up(c);
}

static void answers_that_are_not_read(void)
{
    struct conn *c = open_conn(0);

    expect_state(lie(c, 1, "opens", 0), 10);
    hang_up(c);
}

static void files_asked_for_without_end(void)
{
    struct conn *c = open_conn(0);
    uint32_t asked = 0;

    submit(c, 1, "asks", "", NULL, 0);
    wait_for_counter("jobs_open", 0);
    for (next(c); c->msg.type != FRAME_DONE; next(c))
        asked += c->msg.type == FRAME_OPEN;
    if (asked > 2000)
        fail("%u questions", asked);
    hang_up(c);
}

static void a_child_that_goes_on_writing(void)
{
    struct conn *c = open_conn(0);
    uint32_t state = lie(c, 1, "fork", 0);

    if (state != 10 && state != 5)
        fail("state %u", state);
    hang_up(open_conn(0));
    hang_up(c);
}

static void a_message_without_text(void)
{
    struct conn *c = open_conn(0);

    submit(c, 1, "silent", "", NULL, 0);
    for (next(c); c->msg.type != FRAME_DONE; next(c))
        if (c->msg.type == FRAME_MESSAGE && c->msg.message.text.size)
            fail("it has %zu bytes of text", c->msg.message.text.size);
    hang_up(c);
}

static void executors_that_die_at_once(void)
{
    struct conn *c = open_conn(0);

    submit(c, 1, "die", "", NULL, 0);
    wait_for_counter("jobs_open", 0);
    for (next(c); c->msg.type != FRAME_DONE; next(c))
        ;
    expect_state(c->msg.job.state, 10);
    uint64_t n = counter(c, 9, "executors_started");
    if (n > 100)
        fail("%llu executors were started", (unsigned long long)n);
    expect_state(lie(c, 10, "honest", 0), 5);
    hang_up(c);
}

/* For executor-idle = 200ms. */
static void an_executor_that_does_not_end(void)
{
    struct conn *c = open_conn(0);

    expect_state(lie(c, 1, "stay", 0), 5);
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL); /* it is told to end meanwhile */
    expect_state(lie(c, 2, "stay", 0), 5);
    expect_state(lie(c, 3, "honest", 0), 5);
    hang_up(c);
}

static void plugins_that_load_slowly_one_after_the_other(void)
{
    struct conn *c = open_conn(0);
    static const char *const names[] = {"slow1", "slow2", "slow3"};

    for (uint32_t i = 0; i < 3; i++)
        put(c, &(struct msg){.type = FRAME_PLUGINS, .plugins = {.name = {names[i], 5}}}, i + 1, NULL, 0);
    for (int n = 0; n < 3; n += c->msg.type == FRAME_END) {
        next(c);
        if (c->msg.type == FRAME_ERROR)
            fail("%s", c->msg.error.text.data);
    }
    hang_up(c);
}

static void an_executor_that_was_only_asked(void)
{
    struct conn *c = open_conn(0);

    put(c, &(struct msg){.type = FRAME_PLUGINS, .plugins = {.name = {"echo", 4}}}, 1, NULL, 0);
    expect(c, FRAME_PLUGIN, 1);
    expect(c, FRAME_END, 1);
    wait_for_counter("executors", 0);
    hang_up(c);
}

static uint64_t memory_of_wsd(void)
{
    char path[64], line[128];
    unsigned long long kib = 0;

    snprintf(path, sizeof(path), "/proc/%d/status", atoi(getenv("WSD_PID")));
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "VmRSS: %llu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

/* Questions of sixteen bytes with answers of many kilobytes, from a client that does not read. */
static void questions_of_one_who_does_not_read(void)
{
    struct conn *c = open_conn(0);
    uint64_t before, most = 0;

    put(c, &(struct msg){.type = FRAME_PLUGINS}, 99999, NULL, 0); /* they are all loaded from here on */
    do
        next(c);
    while (c->msg.type != FRAME_END);
    before = memory_of_wsd();

    for (uint32_t tag = 1, waits = 0; tag <= 40000 && waits <= 10;) {
        static uint8_t many[4096 * FRAME_HEADER_SIZE];
        struct pollfd p = {.fd = c->fd, .events = POLLOUT};

        for (uint32_t i = 0; i < 4096; i++)
            frame_put_header(many + i * FRAME_HEADER_SIZE, FRAME_PLUGINS, tag++, 0, 0);
        for (size_t at = 0; at < sizeof(many) && waits <= 10;) {
            ssize_t n =
                poll(&p, 1, 100) > 0 ? send(c->fd, many + at, sizeof(many) - at, MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
            if (n > 0)
                at += (size_t)n;
            else
                waits++;
        }
    }
    hang_up(open_conn(0));
    most = memory_of_wsd();
    if (most > before + (100u << 20))
        fail("wsd has grown by %llu MiB", (unsigned long long)(most - before) >> 20);
    hang_up(c);
}

/* The same questions are all answered once the client reads. */
static void questions_of_one_who_reads_late(void)
{
    static uint8_t questions[2000 * FRAME_HEADER_SIZE]; /* fits the socket: this client does not read while it sends */
    struct conn *c = open_conn(0);
    uint32_t n = 2000, ends = 0;

    for (uint32_t tag = 1; tag <= n; tag++)
        frame_put_header(questions + (tag - 1) * FRAME_HEADER_SIZE, tag % 4 ? FRAME_STATS : FRAME_PLUGINS, tag, 0, 0);
    if (send(c->fd, questions, sizeof(questions), MSG_NOSIGNAL) != (ssize_t)sizeof(questions))
        fail("send: %s", strerror(errno));
    while (ends < n) {
        next(c);
        ends += c->msg.type == FRAME_END || c->msg.type == FRAME_COUNTERS;
    }
    hang_up(c);
}

static void names_that_are_no_plugins(void)
{
    struct conn *c = open_conn(1 << 20);
    char wrong[32];

    for (uint32_t tag = 1; tag <= 600; tag++) {
        snprintf(wrong, sizeof(wrong), "%snothing-%u", tag > 300 ? "/" : "", tag);
        submit(c, tag, wrong, "", NULL, 0);
        expect(c, FRAME_ERROR, tag);
        if (c->msg.error.code != 66)
            fail("name %u: code %u: %s", tag, c->msg.error.code, c->msg.error.text.data);
    }
    submit(c, 1000, "echo", "", "x", 0);
    for (next(c); c->msg.type != FRAME_DONE; next(c))
        if (c->msg.type == FRAME_ERROR)
            fail("%s", c->msg.error.text.data);
    hang_up(c);
}

/* For a wsd with 256 descriptors. Inputs that never end hold some of them, and leave enough for others. (The input of a
 * job with retries is in a memfd from the beginning.) */
static void inputs_without_end(void)
{
    struct conn *c = open_conn(0);
    uint32_t refused = 0;

    for (uint32_t tag = 1; tag <= 400; tag++) {
        put(c,
            &(struct msg){
                .type = FRAME_SUBMIT,
                .submit = {.plugin = {"echo", 4}, .args = {.data = ""}, .flags = SUBMIT_MORE, .retries = tag % 2}},
            tag, "x", 1);
        do
            next(c);
        while (c->frame.tag != tag || c->msg.type == FRAME_CREDIT);
        if (c->msg.type == FRAME_ERROR && c->msg.error.code != 75)
            fail("code %u: %s", c->msg.error.code, c->msg.error.text.data);
        refused += c->msg.type == FRAME_ERROR;
    }
    if (refused == 0 || refused == 400)
        fail("%u are refused", refused);
    kill_executors();
    struct conn *d = open_conn(1 << 20);
    submit(d, 1, "sleep", "sleep", "1", 0);
    for (next(d); d->msg.type != FRAME_DONE; next(d))
        ;
    expect_state(d->msg.job.state, 5);
    hang_up(d);
    hang_up(c);
}

/* Of a detached job that has ended only its output is charged. */
static void what_is_gone_is_not_charged(void)
{
    static uint8_t input[60000];
    struct conn *c = open_conn(1 << 20);
    uint8_t id[16];

    submit_input(c, 1, "echo", "", "x", SUBMIT_DETACH, input, sizeof(input));
    accepted(c, 1, id);
    for (next(c); c->msg.type != FRAME_DONE; next(c))
        ;
    uint64_t n = counter(c, 2, "bytes_charged");
    if (n > 100)
        fail("%llu bytes are charged", (unsigned long long)n);
    hang_up(c);
}

/* --- feature 8 ---------------------------------------------------------------------------------------------------- */

static void finished(struct conn *c, uint32_t tag, const char *output)
{
    expect(c, FRAME_FINISHED, tag);
    if (c->frame.body_size != strlen(output) || memcmp(c->frame.body, output, strlen(output)) != 0)
        fail("%u bytes where '%s' was expected", c->frame.body_size, output);
    if (strcmp(c->msg.finished.plugin.data, "echo") != 0 || c->msg.finished.attempts != 1 ||
        !c->msg.finished.worker.size)
        fail("it does not say what ended");
}

static void an_end_in_one_frame(void)
{
    struct conn *old = open_conn(1 << 20), *c = open_with(1 << 20, "/", FEATURE_BRIEF);
    uint8_t id[16];

    submit_input(old, 1, "echo", "", NULL, 0, "old", 3);
    accepted(old, 1, id);
    expect(old, FRAME_OUTPUT, 1);
    expect(old, FRAME_DONE, 1);
    submit_input(c, 1, "echo", "", NULL, 0, "hello", 5);
    accepted(c, 1, id);
    finished(c, 1, "hello");
    if (memcmp(c->msg.finished.id, id, 16) != 0)
        fail("it is another job's end");
    submit(c, 1, "echo", "", NULL, 0); /* the tag is free; no output */
    accepted(c, 1, id);
    finished(c, 1, "");
    submit(c, 2, "echo", "status", "3", 0); /* what has more to say says it */
    accepted(c, 2, id);
    for (next(c); c->msg.type == FRAME_OUTPUT || c->msg.type == FRAME_MESSAGE; next(c))
        ;
    if (c->msg.type != FRAME_DONE || c->msg.job.state != 6)
        fail("%s where DONE of a failed job was expected", codec_type_name(c->msg.type));
    hang_up(old);
    hang_up(c);
}

static void an_end_without_a_beginning(void)
{
    struct conn *c = open_with(1 << 20, "/", FEATURE_BRIEF);
    uint8_t id[16];

    submit_input(c, 1, "echo", "", NULL, SUBMIT_QUIET, "quiet", 5);
    finished(c, 1, "quiet");
    memcpy(id, c->msg.finished.id, 16);
    by_id(c, FRAME_STATUS, 2, id);
    expect(c, FRAME_ERROR, 2); /* it is over, and was not detached */
    submit(c, 3, "nonesuch", "", NULL, SUBMIT_QUIET);
    expect(c, FRAME_ERROR, 3);
    hang_up(c);
}

/* The window is never exceeded by what comes with the end. */
static void an_end_that_does_not_fit_the_window(void)
{
    struct conn *c = open_with(4, "/", FEATURE_BRIEF);

    submit_input(c, 1, "echo", "", NULL, SUBMIT_QUIET, "four", 4);
    finished(c, 1, "four");
    submit_input(c, 1, "echo", "", NULL, SUBMIT_QUIET, "five5", 5);
    expect(c, FRAME_OUTPUT, 1);
    if (c->frame.body_size != 4)
        fail("%u bytes in a window of 4", c->frame.body_size);
    if (next_in(c, 200))
        fail("%s without credit", codec_type_name(c->msg.type));
    put(c, &(struct msg){.type = FRAME_CREDIT, .credit = {.bytes = 4}}, 1, NULL, 0);
    expect(c, FRAME_OUTPUT, 1);
    expect(c, FRAME_FINISHED, 1);
    if (c->frame.body_size)
        fail("the rest came twice");
    hang_up(c);
}

static void a_job_that_is_left(void)
{
    static const uint32_t wrong[] = {SUBMIT_LEFT, SUBMIT_LEFT | SUBMIT_DETACH | SUBMIT_MORE,
                                     SUBMIT_LEFT | SUBMIT_DETACH | SUBMIT_QUIET};
    struct conn *c = open_with(1 << 20, "/", FEATURE_BRIEF);
    uint8_t id[16];

    for (uint32_t i = 0; i < 100; i++) { /* the same tag again and again: it is free when ACCEPTED is there */
        submit_input(c, 1, "echo", "", NULL, SUBMIT_DETACH | SUBMIT_LEFT, "left", 4);
        accepted(c, 1, id);
    }
    by_id(c, FRAME_AWAIT, 2, id);
    for (next(c); c->msg.type == FRAME_OUTPUT; next(c))
        if (c->frame.tag != 2 || c->frame.body_size != 4 || memcmp(c->frame.body, "left", 4) != 0)
            fail("its output is not what it should be");
    if (c->frame.tag != 2 || c->msg.type != FRAME_FINISHED)
        fail("%s of tag %u where its end was expected", codec_type_name(c->msg.type), c->frame.tag);
    for (uint32_t i = 0; i < 3; i++) {
        submit(c, 3, "echo", "", NULL, wrong[i]);
        expect(c, FRAME_ERROR, 3);
        if (c->msg.error.code != 64)
            fail("code %u", c->msg.error.code);
    }
    hang_up(c);
}

/* A question and a job are sent in one piece, while another connection of the same user leaves more unread than the
 * user may. The job is held back until the answer is written, and runs then, though nothing else happens. For
 * max-unread-per-user = 64K, executor-answer = 1h. */
static void a_job_that_was_held_back(void)
{
    static uint8_t questions[1000 * FRAME_HEADER_SIZE];
    struct conn *silent = open_conn(0), *c = open_with(1 << 20, "/", FEATURE_BRIEF);
    uint8_t both[2 * FRAME_MAX];
    size_t n;

    submit_input(c, 1, "echo", "", NULL, SUBMIT_QUIET, "first", 5);
    finished(c, 1, "first");
    for (uint32_t tag = 1; tag <= 1000; tag++)
        frame_put_header(questions + (tag - 1) * FRAME_HEADER_SIZE, FRAME_STATS, tag, 0, 0);
    conn_send(silent, questions, sizeof(questions));
    for (uint32_t tag = 2; counter(c, tag, "bytes_unread") < 65536; tag++) {
        if (tag > WAIT_MSEC / 10)
            fail("nothing is left unread");
        pause_a_little();
    }
    for (int i = 0; i < 10; i++) /* by then its worker sleeps, and so does wsd */
        pause_a_little();
    n = codec_encode(&(struct msg){.type = FRAME_PING}, 1, 0, both, sizeof(both));
    n += codec_encode(&(struct msg){.type = FRAME_SUBMIT, .submit = {.plugin = {"echo", 4}, .flags = SUBMIT_QUIET}},
                      1u << 20, 4, both + n, sizeof(both) - n);
    memcpy(both + n, "held", 4);
    conn_send(c, both, n + 4);
    expect(c, FRAME_PONG, 1);
    finished(c, 1u << 20, "held");
    hang_up(silent);
    hang_up(c);
}

/* It ends at once, and its call with it; of an array, the array with its last item. */
static void a_job_that_is_cancelled_before_it_begins(void)
{
    static const char item[] = "\0\0\0\0\0\0\0"; /* neither arguments nor input */
    struct conn *c = open_with(1 << 20, "/", FEATURE_BRIEF | FEATURE_TIME | FEATURE_ARRAY);
    struct msg m = {.type = FRAME_SUBMIT, .submit = {.plugin = {"echo", 4}, .delay_usec = 3600u * UINT64_C(1000000)}};
    uint8_t id[16];

    for (uint32_t tag = 1; tag <= 2; tag++) {
        put(c, &m, tag, item, m.type == FRAME_ARRAY ? sizeof(item) : 0);
        accepted(c, tag, id);
        by_id(c, FRAME_CANCEL, tag, NULL);
        expect(c, m.type == FRAME_ARRAY ? FRAME_ENDS : FRAME_DONE, tag);
        m.type = FRAME_ARRAY;
        m.submit.items = 1;
    }
    hang_up(c);
}

#define CASE(function)                                                                                                 \
    {                                                                                                                  \
#function, function                                                                                            \
    }
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    CASE(a_path_longer_than_a_packet),
    CASE(await_from_the_middle),
    CASE(output_that_was_thrown_away),
    CASE(a_streamed_job_that_was_not_begun),
    CASE(drain_waits_for_a_slow_reader),
    CASE(kept_results_that_are_being_read),
    CASE(state_that_changes_all_the_time),
    CASE(output_that_is_announced_for_ever),
    CASE(answers_that_are_not_read),
    CASE(files_asked_for_without_end),
    CASE(a_child_that_goes_on_writing),
    CASE(a_message_without_text),
    CASE(executors_that_die_at_once),
    CASE(an_executor_that_does_not_end),
    CASE(plugins_that_load_slowly_one_after_the_other),
    CASE(an_executor_that_was_only_asked),
    CASE(questions_of_one_who_does_not_read),
    CASE(questions_of_one_who_reads_late),
    CASE(names_that_are_no_plugins),
    CASE(inputs_without_end),
    CASE(what_is_gone_is_not_charged),
    CASE(an_end_in_one_frame),
    CASE(an_end_without_a_beginning),
    CASE(an_end_that_does_not_fit_the_window),
    CASE(a_job_that_is_left),
    CASE(a_job_that_was_held_back),
    CASE(a_job_that_is_cancelled_before_it_begins),
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            name = cases[i].name;
            alarm(120);
            cases[i].run();
            printf("ok %s\n", name);
            return 0;
        }
    fprintf(stderr, "usage: corner CASE\n");
    return 64;
}
