/* SPDX-License-Identifier: Apache-2.0
 *
 * array.c: ARRAY and BATCH, frame by frame, as only a client meets them that speaks the wire itself. One case a run. */
#include <fcntl.h>

#include "conn.h"
#include "proto/records.h"

#define WINDOW 65536u

static struct {
    uint32_t state, exit, n;
    uint64_t retry_usec;
    char output[64], error[CODEC_TEXT_MAX];
    size_t size;
} items[CODEC_ITEMS_MAX];

static uint8_t body[FRAME_MAX];
static size_t body_size;

/* Adds an item with text as its argument and its input; NULL: none. */
static void add(const char *arg, const char *input)
{
    const struct msg_item item = {
        .args = {arg, arg ? strlen(arg) + 1 : 0}, .argc = arg != NULL, .input = {input, input ? strlen(input) : 0}};

    codec_put_item(&item, body + body_size);
    body_size += CODEC_ITEM_SIZE;
    if (arg)
        memcpy(body + body_size, arg, item.args.size);
    if (input)
        memcpy(body + body_size + item.args.size, input, item.input.size);
    body_size += item.args.size + item.input.size;
}

static void array(struct conn *c, uint32_t tag, uint32_t batch, const char *plugin, const char *function, uint32_t n,
                  uint32_t flags)
{
    const struct msg m = {.type = FRAME_ARRAY,
                          .submit = {.plugin = {plugin, strlen(plugin)},
                                     .function = {function, strlen(function)},
                                     .flags = flags,
                                     .batch = batch,
                                     .items = n}};

    put(c, &m, tag, body, body_size);
    body_size = 0;
}

static void batch(struct conn *c, uint32_t tag, uint32_t action, uint32_t flags, const uint8_t *id)
{
    struct msg m = {.type = FRAME_BATCH, .batch = {.action = action, .flags = flags, .id = {.has_id = id}}};

    if (id)
        memcpy(m.batch.id.id, id, 16);
    put(c, &m, tag, NULL, 0);
}

/* first: of items[], for item 0. */
static void take_ends_at(struct conn *c, uint32_t first)
{
    struct span left = {(const char *)c->frame.body, c->frame.body_size};
    struct msg_end end;

    while (codec_next_end(&left, &end)) {
        end.index += first;
        if (items[end.index].n && items[end.index].state != 4)
            fail("a second end of item %u", end.index);
        for (uint32_t i = end.index; i < end.index + end.n; i++) {
            items[i].state = end.state;
            items[i].exit = end.exit;
            items[i].n = 1;
            items[i].retry_usec = end.queued_usec;
            snprintf(items[i].error, sizeof(items[i].error), "%.*s", (int)end.error.size, end.error.data);
        }
        if (items[end.index].size + end.output.size < sizeof(items[0].output))
            memcpy(items[end.index].output + items[end.index].size, end.output.data, end.output.size);
        items[end.index].size += end.output.size;
    }
}

static void take_ends(struct conn *c)
{
    take_ends_at(c, 0);
}

/* To the end of this ARRAY; others' frames are passed over, but for the state of a batch, which is the last one
 * then. */
static struct msg_batch_state seen;

static void finish(struct conn *c, uint32_t tag)
{
    for (bool last = false; !last;) {
        next(c);
        if (c->msg.type == FRAME_BATCH_STATE)
            seen = c->msg.batch_state;
        if (c->msg.type == FRAME_ERROR)
            fail("%s", c->msg.error.text.data);
        if (c->msg.type != FRAME_ENDS || c->frame.tag != tag)
            continue;
        take_ends(c);
        last = c->msg.ends.last;
    }
}

static void batch_end(struct conn *c, uint32_t tag)
{
    while (!(seen.flags & BATCH_ENDED)) {
        expect(c, FRAME_BATCH_STATE, tag);
        seen = c->msg.batch_state;
    }
}

static void want(uint32_t i, uint32_t state, uint32_t exit)
{
    if (items[i].state != state || items[i].exit != exit)
        fail("item %u: state %u, exit %u (%s)", i, items[i].state, items[i].exit, items[i].error);
}

static struct conn *open_array(uint32_t window)
{
    return open_with(window, "/", FEATURE_ARRAY);
}

static void many_items(void)
{
    struct conn *c = open_array(WINDOW);
    char text[16];

    for (uint32_t i = 0; i < 2000; i++) {
        snprintf(text, sizeof(text), "%u", i);
        add(i % 2 ? text : NULL, i % 2 ? NULL : text);
    }
    array(c, 3, 0, "echo", "", 2000, 0);
    next(c);
    if (c->msg.type != FRAME_ACCEPTED || c->msg.id.items != 2000)
        fail("%s of %u items", codec_type_name(c->msg.type), c->msg.id.items);
    uint8_t id[16];
    memcpy(id, c->msg.id.id, sizeof(id));
    finish(c, 3);
    if (memcmp(id, c->msg.ends.id, sizeof(id)) != 0 || strcmp(c->msg.ends.plugin.data, "echo") != 0)
        fail("of another job");
    for (uint32_t i = 0; i < 2000; i++) {
        snprintf(text, sizeof(text), i % 2 ? "%u\n" : "%u", i);
        want(i, 5, 0);
        if (strcmp(items[i].output, text) != 0)
            fail("item %u: \"%s\"", i, items[i].output);
    }
    hang_up(c);
}

/* They speak while others are still being taken. */
static void items_that_speak(void)
{
    struct conn *c = open_array(WINDOW);

    for (uint32_t i = 0; i < 4000; i++)
        add("3", NULL);
    array(c, 3, 0, "echo", "status", 4000, 0);
    expect(c, FRAME_ACCEPTED, 3);
    uint32_t n = 0;
    for (next(c); c->msg.type != FRAME_ENDS || !c->msg.ends.last; next(c))
        n += c->msg.type == FRAME_MESSAGE;
    if (!n)
        fail("none was heard");
    hang_up(c);
}

static void quiet_items(void)
{
    struct conn *c = open_array(WINDOW);

    add("1", NULL);
    array(c, 3, 0, "echo", "", 1, SUBMIT_QUIET);
    expect(c, FRAME_ENDS, 3);
    take_ends(c);
    want(0, 5, 0);
    hang_up(c);
}

/* An item that does not get credit holds up no other; each has a window of its own. */
static void output_beyond_the_window(void)
{
    static char text[20001];
    struct conn *c = open_array(4096);

    memset(text, 'x', sizeof(text) - 1);
    add(NULL, text);
    add(NULL, "small");
    array(c, 3, 0, "echo", "", 2, 0);
    for (items[1].n = 0; !items[1].n || items[0].size < 4096;) {
        next(c);
        if (c->msg.type == FRAME_ENDS)
            take_ends(c);
    }
    if (items[0].size != 4096 || items[0].state != 4)
        fail("%zu bytes of the first, state %u", items[0].size, items[0].state);
    /* there is none */
    put(c, &(struct msg){.type = FRAME_CREDIT, .credit = {.bytes = 1 << 20, .item = 9}}, 3, NULL, 0);
    put(c, &(struct msg){.type = FRAME_CREDIT, .credit = {.bytes = 1 << 20}}, 3, NULL, 0);
    finish(c, 3);
    want(0, 5, 0);
    if (items[0].size != sizeof(text) - 1)
        fail("%zu bytes", items[0].size);
    hang_up(c);
}

static void nothing_that_can_be_called(void)
{
    struct conn *c = open_array(WINDOW);

    for (int i = 0; i < 3; i++)
        add(NULL, NULL);
    array(c, 3, 0, "no-such-plugin", "", 3, 0);
    expect(c, FRAME_ENDS, 3);
    if (!c->msg.ends.last || c->msg.ends.records < 1)
        fail("%u records", c->msg.ends.records);
    take_ends(c);
    for (uint32_t i = 0; i < 3; i++)
        want(i, 0, 66);
    hang_up(c);
}

/* max-jobs-per-user = 5. */
static void quota_in_the_middle(void)
{
    for (uint32_t n = 4; n <= 6; n++) {
        struct conn *c = open_array(WINDOW);

        memset(items, 0, sizeof(items));
        for (uint32_t i = 0; i < n; i++)
            add("300", NULL);
        array(c, 3, 0, "sleep", "", n, 0);
        if (n == 6) { /* first what is not accepted */
            expect(c, FRAME_ENDS, 3);
            take_ends(c);
            expect(c, FRAME_ACCEPTED, 3);
        }
        finish(c, 3);
        for (uint32_t i = 0; i < n; i++)
            want(i, i < 5 ? 5 : 0, i < 5 ? 0 : 75);
        hang_up(c);
    }
}

/* max-bytes-per-user = 1000. */
static void bytes_in_the_middle(void)
{
    struct conn *c = open_array(WINDOW);
    static char text[301];

    memset(text, 'x', sizeof(text) - 1);
    for (uint32_t i = 0; i < 6; i++)
        add(NULL, text);
    array(c, 3, 0, "sleep", "", 6, 0);
    finish(c, 3);
    for (uint32_t i = 0; i < 6; i++)
        want(i, i < 3 ? 5 : 0, i < 3 ? 0 : 75);
    hang_up(c);
}

/* max-rate-per-user = 1, rate-burst = 5: another one a second later, however long wsd waits for a CPU in the middle. */
static void rate_in_the_middle(void)
{
    struct conn *c = open_array(WINDOW);

    for (uint32_t i = 0; i < 7; i++)
        add("x", NULL);
    array(c, 3, 0, "echo", "", 7, 0);
    expect(c, FRAME_ENDS, 3); /* what was refused, at once, and in one record */
    if (c->msg.ends.records != 1)
        fail("%u records", c->msg.ends.records);
    take_ends(c);
    finish(c, 3);
    for (uint32_t i = 0; i < 7; i++)
        want(i, i < 5 ? 5 : 0, i < 5 ? 0 : 75);
    if (!items[5].retry_usec || items[5].retry_usec > 1000000)
        fail("again in %llu us", (unsigned long long)items[5].retry_usec);
    hang_up(c);
}

static void flags_that_do_not_go(void)
{
    struct conn *c = open_array(WINDOW);

    for (uint32_t flag = 1; flag <= 32; flag *= 2) {
        if (flag == SUBMIT_DETACH || flag == SUBMIT_QUIET)
            continue;
        add("x", NULL);
        array(c, 3, 0, "echo", "", 1, flag);
        expect(c, FRAME_ERROR, 3);
        if (c->msg.error.code != 64)
            fail("code %u", c->msg.error.code);
    }
    add("x", NULL);
    array(c, 3, 99, "echo", "", 1, 0); /* of a batch that is none */
    expect(c, FRAME_ERROR, 3);
    if (c->msg.error.code != 64)
        fail("code %u", c->msg.error.code);
    hang_up(c);
}

static struct conn *begin(uint32_t flags)
{
    struct conn *c = open_array(WINDOW);

    batch(c, 2, BATCH_OPEN, flags, NULL);
    expect(c, FRAME_BATCH_STATE, 2);
    seen = c->msg.batch_state;
    return c;
}

static void expect_state(uint64_t total, uint64_t done, uint64_t failed, uint32_t flags, uint32_t exit)
{
    if (seen.total != total || seen.done != done || seen.failed != failed || seen.flags != flags || seen.exit != exit ||
        seen.queued + seen.running + seen.done != seen.total)
        fail("total %llu done %llu failed %llu queued %llu running %llu flags %u exit %u",
             (unsigned long long)seen.total, (unsigned long long)seen.done, (unsigned long long)seen.failed,
             (unsigned long long)seen.queued, (unsigned long long)seen.running, seen.flags, seen.exit);
}

/* Two frames, one batch. */
static void a_batch_that_goes_well(void)
{
    struct conn *c = begin(BATCH_PROGRESS);

    expect_state(0, 0, 0, 0, 0);
    for (uint32_t tag = 3; tag <= 4; tag++) {
        for (int i = 0; i < 100; i++)
            add("x", NULL);
        array(c, tag, 2, "echo", "", 100, SUBMIT_QUIET);
        finish(c, tag);
        memset(items, 0, sizeof(items));
    }
    batch(c, 2, BATCH_CLOSE, 0, NULL);
    batch_end(c, 2);
    expect_state(200, 200, 0, BATCH_CLOSED | BATCH_ENDED, 0);
    batch(c, 2, BATCH_STATUS, 0, seen.id); /* its tag is free; it is not kept */
    expect(c, FRAME_ERROR, 2);
    if (c->msg.error.code != 66)
        fail("code %u", c->msg.error.code);
    hang_up(c);
}

/* One worker, which is busy until all of them are there: what is behind the failure is stopped, and nothing more is
 * taken. */
static void a_failure_stops_those_behind(void)
{
    struct conn *c = begin(0);
    char gate[256];

    snprintf(gate, sizeof(gate), "%s/behind", getenv("WORK"));
    add("/", NULL);
    array(c, 3, 0, "ledger", "gate", 1, 0); /* it is loaded then */
    finish(c, 3);
    memset(items, 0, sizeof(items));
    add(gate, NULL); /* of one worker, until all are there */
    array(c, 3, 2, "ledger", "gate", 1, 0);
    add("7", NULL);
    array(c, 4, 2, "echo", "status", 1, 0);
    for (int i = 0; i < 3000; i++)
        add("60000", NULL);
    array(c, 5, 2, "sleep", "", 3000, 0);
    for (int n = 0; n < 3;) {
        next(c);
        if (c->msg.type == FRAME_ACCEPTED && c->frame.tag == 5)
            close(open(gate, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        if (c->msg.type != FRAME_ENDS)
            continue;
        take_ends_at(c, c->frame.tag - 3);
        n += c->msg.ends.last;
    }
    want(0, 5, 0);
    want(1, 6, 7);
    for (uint32_t i = 2; i < 3002; i++)
        want(i, 7, 130);
    add("x", NULL);
    memset(items, 0, sizeof(items));
    array(c, 6, 2, "echo", "", 1, 0);
    finish(c, 6);
    want(0, 0, 130);
    batch(c, 2, BATCH_CLOSE, 0, NULL);
    batch_end(c, 2);
    expect_state(3002, 3002, 3001, BATCH_CLOSED | BATCH_ENDED | BATCH_STOPPED, 7);
    hang_up(c);
}

static void a_failure_that_stops_nothing(void)
{
    struct conn *c = begin(BATCH_KEEP_GOING);

    for (int i = 0; i < 100; i++)
        add(i == 50 ? "9" : i == 20 ? "7" : "0", NULL);
    array(c, 3, 2, "echo", "status", 100, 0);
    finish(c, 3);
    for (uint32_t i = 0; i < 100; i++)
        want(i, i == 20 || i == 50 ? 6 : 5, i == 20 ? 7 : i == 50 ? 9 : 0);
    batch(c, 2, BATCH_CLOSE, 0, NULL);
    batch_end(c, 2);
    expect_state(100, 100, 2, BATCH_CLOSED | BATCH_ENDED, 7);
    hang_up(c);
}

/* The answer to a question with tag 2; what is told meanwhile of the batch with tag 1 is passed over. */
static void expect_answer(struct conn *c)
{
    do
        next(c);
    while (c->msg.type == FRAME_BATCH_STATE && c->frame.tag == 1);
    if (c->msg.type != FRAME_BATCH_STATE || c->frame.tag != 2)
        fail("%s of tag %u", codec_type_name(c->msg.type), c->frame.tag);
}

/* By its id, from another connection, which awaits it meanwhile; and by its tag. */
static void cancel_all(void)
{
    for (int by_id = 0; by_id < 2; by_id++) {
        struct conn *c = begin(0), *other = open_array(WINDOW);

        memset(items, 0, sizeof(items));
        for (int i = 0; i < 3000; i++)
            add("60000", NULL);
        array(c, 3, 2, "sleep", "", 3000, SUBMIT_QUIET);
        batch(other, 1, BATCH_AWAIT, BATCH_PROGRESS, seen.id);
        do {
            batch(other, 2, BATCH_STATUS, 0, seen.id);
            expect_answer(other);
        } while (other->msg.batch_state.running < 1 || other->msg.batch_state.total != 3000);
        if (by_id) {
            batch(other, 2, BATCH_CANCEL, 0, seen.id);
            do
                next(other);
            while (other->msg.type == FRAME_BATCH_STATE && other->frame.tag == 1 &&
                   !(other->msg.batch_state.flags & BATCH_ENDED));
            if (other->msg.type != FRAME_END)
                fail("%s", codec_type_name(other->msg.type));
        } else {
            put(c, &(struct msg){.type = FRAME_CANCEL}, 2, NULL, 0);
        }
        finish(c, 3);
        for (uint32_t i = 0; i < 3000; i++)
            want(i, 7, 130);
        batch(c, 2, BATCH_CLOSE, 0, NULL);
        batch_end(c, 2);
        expect_state(3000, 3000, 3000, BATCH_CLOSED | BATCH_ENDED | BATCH_STOPPED, 130);
        do
            expect(other, FRAME_BATCH_STATE, 1);
        while (!(other->msg.batch_state.flags & BATCH_ENDED));
        hang_up(other);
        hang_up(c);
    }
}

/* A detached batch outlives its connection, can be asked for when it has ended, and its jobs be listed. */
static void a_batch_that_is_detached(void)
{
    struct conn *c = begin(BATCH_DETACH);
    uint32_t n = 0;

    for (int i = 0; i < 20; i++)
        add("20", NULL);
    array(c, 3, 2, "sleep", "", 20, SUBMIT_DETACH);
    expect(c, FRAME_ACCEPTED, 3);
    put(c, &(struct msg){.type = FRAME_FORGET}, 3, NULL, 0);
    do
        next(c);
    while (c->msg.type != FRAME_END);
    hang_up(c);
    c = open_array(WINDOW);
    batch(c, 1, BATCH_AWAIT, 0, seen.id);
    batch_end(c, 1);
    expect_state(20, 20, 0, BATCH_CLOSED | BATCH_ENDED, 0);
    put(c, &(struct msg){.type = FRAME_LIST_WHERE, .filter = {.batch = {(const char *)seen.id, 16}}}, 4, NULL, 0);
    for (next(c); c->msg.type == FRAME_JOB; next(c), n++)
        if (c->msg.job.batch.size != 16 || memcmp(c->msg.job.batch.data, seen.id, 16) != 0 || c->msg.job.state != 5)
            fail("a job that is not of the batch");
    if (n != 20)
        fail("%u jobs", n);
    batch(c, 5, BATCH_AWAIT, 0, seen.id); /* again, and at once */
    expect(c, FRAME_BATCH_STATE, 5);
    hang_up(c);
}

/* One that is not goes with its connection. */
static void a_connection_that_goes(void)
{
    struct conn *c = begin(0), *other = open_array(WINDOW);

    for (int i = 0; i < 20; i++)
        add("60000", NULL);
    array(c, 3, 2, "sleep", "", 20, 0);
    expect(c, FRAME_ACCEPTED, 3);
    batch(other, 1, BATCH_AWAIT, 0, seen.id);
    batch(other, 2, BATCH_STATUS, 0, seen.id);
    expect(other, FRAME_BATCH_STATE, 2); /* both have been seen */
    hang_up(c);
    batch_end(other, 1);
    expect_state(20, 20, 20, BATCH_CLOSED | BATCH_ENDED | BATCH_STOPPED, 130);
    hang_up(other);
}

static void too_many_batches(void)
{
    struct conn *c = open_array(WINDOW);

    for (uint32_t tag = 1; tag <= 1025; tag++) {
        batch(c, tag, BATCH_OPEN, 0, NULL);
        expect(c, tag <= 1024 ? FRAME_BATCH_STATE : FRAME_ERROR, tag);
    }
    if (c->msg.error.code != 75)
        fail("code %u", c->msg.error.code);
    batch(c, 7, BATCH_CLOSE, 0, NULL);
    expect(c, FRAME_BATCH_STATE, 7);
    batch(c, 2000, BATCH_OPEN, 0, NULL);
    expect(c, FRAME_BATCH_STATE, 2000);
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
    CASE(many_items),
    CASE(items_that_speak),
    CASE(quiet_items),
    CASE(output_beyond_the_window),
    CASE(nothing_that_can_be_called),
    CASE(quota_in_the_middle),
    CASE(bytes_in_the_middle),
    CASE(rate_in_the_middle),
    CASE(flags_that_do_not_go),
    CASE(a_batch_that_goes_well),
    CASE(a_failure_stops_those_behind),
    CASE(a_failure_that_stops_nothing),
    CASE(cancel_all),
    CASE(a_batch_that_is_detached),
    CASE(a_connection_that_goes),
    CASE(too_many_batches),
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            name = cases[i].name;
            alarm(60);
            cases[i].run();
            printf("ok %s\n", name);
            return 0;
        }
    fprintf(stderr, "usage: array CASE\n");
    return 64;
}
