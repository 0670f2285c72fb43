/* SPDX-License-Identifier: Apache-2.0
 *
 * bundle.c: brief jobs of an array travel together in wsd; here they are held to what each would have been by itself.
 * One case a run, with the plugin fickle. Prints what was wrong, exits 1 then.
 *   bundle CASE FUNCTION [ARGUMENT]
 * FUNCTION is one of fickle's. Each row of jobs comes behind many numbers, so that wsd takes it for brief. The row is
 * repeated until wsd's own counter says that it went in bundles, since it proves nothing otherwise. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <wsd/client.h>

#define ROW     40u  /* jobs */
#define SLOW    100u /* in a row of such that are slow */
#define ALONE   8u   /* of a row that need not be in a bundle: its first and its last ones */
#define WARM    300u /* numbers before it */
#define TRIES   300u /* until a row has gone in bundles */
#define SECONDS 60u  /* for all, against hanging */
#define OK      (1u << WSD_JOB_SUCCEEDED)
#define NOT_RUN (1u << WSD_JOB_CANCELLED)

struct item {
    char *input;
    size_t size;
    const char *args[3];
    size_t n_args;
    uint32_t states;  /* 1u << state: how it may end */
    bool refusable;   /* it may be refused, or lost with the connection before it was accepted */
    int status;       /* of one that is to fail */
    const char *text; /* of its message, or status text */
    char *output;
    size_t output_size;
    struct wsd_call *call;
    struct wsd_id id;
    bool accepted;
    unsigned ended, messages;
    enum wsd_job_state state;
    char worker[32];
};

static struct wsd_client *client, *other;
static const char *function, *argument;
static struct item *row;
static size_t n_row, n_room, n_open, n_wrong;
static struct wsd_batch *batch;
static unsigned n_workers; /* of wsd */
static bool by_submit;     /* wsd_client_submit(), else wsd_batch_submit() */
static bool holds_output;  /* what comes is not taken before resume() */
static uint32_t batch_flags = WSD_BATCH_KEEP_GOING, submit_flags;
static char what[128] = ""; /* the current step, for messages of failures */

#define MUST(it)                                                                                                       \
    do {                                                                                                               \
        if (!(it)) {                                                                                                   \
            printf("line %d: %s: %s (%s; %s)\n", __LINE__, what, #it, wsd_client_error(client),                        \
                   wsd_client_error(other));                                                                           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* --- what wsd says ------------------------------------------------------------------------------------------------ */

struct counter {
    const char *name;
    uint64_t value;
};

static int one_counter(const char *name, uint64_t value, void *userdata)
{
    struct counter *c = userdata;

    if (strcmp(name, c->name) == 0)
        c->value = value;
    return 0;
}

/* By the other connection: what is gathered on the first one stays together. */
static uint64_t counter(const char *name)
{
    struct counter c = {.name = name};

    MUST(wsd_client_stats(other, one_counter, &c) == 0);
    return c.value;
}

static void nap(void)
{
    const struct timespec shortly = {.tv_nsec = 2000000};

    nanosleep(&shortly, NULL);
}

static void until_counter(const char *name, uint64_t value)
{
    while (counter(name) != value)
        nap();
}

static void release(void)
{
    int r = wsd_client_plugin_release(other, "fickle", NULL);

    MUST(r == 0 || r == -ENOENT);
}

/* --- a row of jobs ------------------------------------------------------------------------------------------------ */

/* As fickle.c has it. */
static char pattern(size_t i)
{
    return (char)('a' + i % 23);
}

static char *copy(const void *data, size_t size)
{
    char *to = malloc(size + 1);

    if (!to)
        exit(74);
    if (size)
        memcpy(to, data, size);
    to[size] = 0;
    return to;
}

static struct item *add_bytes(const void *input, size_t size, size_t n_args)
{
    static const char *const args[] = {"", "two words",
                                       "a longer argument, so that there is something to be put in the wrong place"};
    char output[1024];
    size_t n = size;

    if (n_row == n_room) {
        n_room = n_room * 2 + 64;
        row = realloc(row, n_room * sizeof(*row));
        if (!row)
            exit(74);
    }
    struct item *item = &row[n_row];
    *item = (struct item){.input = copy(input, size), .size = size, .n_args = n_args, .states = OK};
    if (size)
        memcpy(output, input, size);
    for (size_t i = 0; i < n_args; i++) {
        item->args[i] = args[(i + n_row) % 3];
        n += (size_t)snprintf(output + n, sizeof(output) - n, "|%s", item->args[i]);
    }
    item->output = copy(output, n);
    item->output_size = n;
    n_row++;
    return item;
}

/* Its place in the row, and as many bytes as come to mind; some have none at all. */
static void add_number(void)
{
    char input[320];
    size_t size = n_row * 37 % 301;
    int n = snprintf(input, sizeof(input), "%zu ", n_row);

    for (size_t i = (size_t)n; i < size; i++)
        input[i] = (char)('A' + (i + n_row) % 26);
    if (size && size < (size_t)n)
        size = (size_t)n;
    add_bytes(input, size, n_row % 7 < 4 ? 0 : n_row % 7 - 3);
}

static void add_small_number(void)
{
    char input[24];

    add_bytes(input, (size_t)snprintf(input, sizeof(input), "%zu", n_row), 0);
}

static void wants(struct item *item, const char *output, size_t size)
{
    free(item->output);
    item->output = copy(output, size);
    item->output_size = size;
}

static bool is(const char *input, const char *word)
{
    size_t n = strlen(word);

    return strncmp(input, word, n) == 0 && (!input[n] || input[n] == ' ');
}

/* What becomes of one that is no number. */
static void predict(struct item *item)
{
    static const char *const outputs[][2] = {{"say", "said"},
                                             {"progress", "half"},
                                             {"reserve", "kept"},
                                             {"flush", "beforeafter"},
                                             {"open", "what is in it\n"},
                                             {"meet", "met"},
                                             {"met", "there"},
                                             {"spawn", "610"}};
    const char *input = item->input, *rest = strchr(input, ' ');

    wants(item, "", 0);
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++)
        if (is(input, outputs[i][0]))
            wants(item, outputs[i][1], strlen(outputs[i][1]));
    if (is(input, "big")) {
        size_t size = strtoull(rest, NULL, 10);
        char *bytes = malloc(size + 1);

        for (size_t i = 0; bytes && i < size; i++)
            bytes[i] = pattern(i);
        wants(item, bytes, size);
        free(bytes);
    } else if (is(input, "fail")) {
        item->states = 1u << WSD_JOB_FAILED;
        item->status = atoi(rest);
    } else if (is(input, "crash")) {
        item->states = 1u << WSD_JOB_CRASHED;
    } else if (is(input, "hang")) {
        item->states = 1u << WSD_JOB_CANCELLED;
    } else if (is(input, "say") || is(input, "status")) {
        item->text = rest + 1;
    }
}

static struct item *add_odd(const char *words)
{
    struct item *item = add_bytes(words, strlen(words), 0);

    if (is(words, "open")) { /* a sandboxed executor asks its client for files that an argument names */
        item->args[0] = words + 5;
        item->n_args = 1;
    }
    predict(item);
    return item;
}

static void wrong(const struct item *item, const char *format, ...)
{
    va_list args;

    if (n_wrong++ >= 20)
        return;
    printf("%s: job %zu (\"%.20s\"): ", what, (size_t)(item - row), item->input);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    struct item *item = &row[(uintptr_t)userdata];

    if (item->accepted)
        wrong(item, "accepted twice");
    item->accepted = true;
    item->id = *id;
}

static void on_message(struct wsd_call *call, int level, const char *text, void *userdata)
{
    struct item *item = &row[(uintptr_t)userdata];

    item->messages++;
    if (!is(item->input, "say") || strcmp(text, item->text) != 0 || level != 4)
        wrong(item, "says \"%s\"", text);
}

static void judge_end(const struct item *item, const struct wsd_job_info *info, const char *output, size_t size)
{
    if (!(item->states & 1u << info->state))
        wrong(item, "%s: %s", wsd_job_state_name(info->state), info->error);
    if (item->accepted && memcmp(&info->id, &item->id, sizeof(info->id)) != 0)
        wrong(item, "another id than it had");
    if (is(item->input, "say") && item->messages != (info->state == WSD_JOB_SUCCEEDED))
        wrong(item, "%u messages", item->messages);
    if (info->state == WSD_JOB_SUCCEEDED) {
        if (size != item->output_size || memcmp(output, item->output, size) != 0)
            wrong(item, "%zu bytes of output, \"%.40s\", where %zu are wanted", size, output, item->output_size);
        if (*info->error || info->exit || strcmp(info->status, is(item->input, "status") ? item->text : "") != 0)
            wrong(item, "well, with exit %d, error \"%s\", status \"%s\"", info->exit, info->error, info->status);
        if (info->attempts < 1 || !*info->worker)
            wrong(item, "%u attempts, by worker \"%s\"", info->attempts, info->worker);
    } else if (info->state == WSD_JOB_FAILED &&
               (info->exit != item->status || strncmp(info->error, "failed with", 11) != 0)) {
        wrong(item, "status %d, \"%s\"", info->exit, info->error);
    } else if (item->status == 0 && size &&
               (info->state != WSD_JOB_CANCELLED || size > item->output_size ||
                memcmp(output, item->output, size) != 0)) {
        wrong(item, "%s, with %zu bytes of output", wsd_job_state_name(info->state), size);
    }
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct item *item = &row[(uintptr_t)userdata];
    size_t size = 0;
    const char *output = wsd_call_output(call, &size);

    n_open--;
    if (item->ended++)
        wrong(item, "ended twice");
    if (!error) {
        item->state = info->state;
        snprintf(item->worker, sizeof(item->worker), "%s", info->worker);
    }
    if (error && (!item->refusable || item->accepted))
        wrong(item, "%s%s", item->accepted ? "accepted, and then: " : "", text);
    if (!error && is(item->input, "id"))
        wants(item, (const char *)&info->id, sizeof(info->id));
    if (!error)
        judge_end(item, info, output, size);
}

static struct wsd_submit like(void)
{
    return (struct wsd_submit){
        .size = sizeof(struct wsd_submit), .plugin = "fickle", .function = function, .flags = submit_flags};
}

/* What leaves with the first message stays in it: nothing is processed meanwhile. */
static void submit(void)
{
    struct wsd_submit common = like();

    if (!by_submit)
        MUST(wsd_batch_open(client, &common, batch_flags, &batch) == 0);
    n_open = n_row;
    for (size_t i = 0; i < n_row; i++) {
        struct item *item = &row[i];
        const struct wsd_callbacks callbacks = {.size = sizeof(callbacks),
                                                .accepted = on_accepted,
                                                .message = on_message,
                                                .done = on_done,
                                                .userdata = (void *)(uintptr_t)i};
        const struct wsd_item given = {.size = sizeof(given),
                                       .args = item->args,
                                       .n_args = item->n_args,
                                       .input = item->input,
                                       .input_size = item->size};
        struct wsd_submit alone = common;

        alone.args = item->args;
        alone.n_args = item->n_args;
        alone.input = item->input;
        alone.input_size = item->size;
        MUST((by_submit ? wsd_client_submit(client, &alone, &callbacks, &item->call)
                        : wsd_batch_submit(batch, &given, &callbacks, &item->call)) == 0);
    }
    int r = wsd_client_flush(client);
    MUST(r == 0 || r == -ECONNRESET);
}

static void process(void)
{
    int r = wsd_client_wait(client, 100000);

    MUST(r == 0 || r == -ETIMEDOUT || (r == -ECONNRESET && !n_open));
}

static void until_ended(size_t i)
{
    while (!row[i].ended)
        process();
}

static void forget(void)
{
    for (size_t i = 0; i < n_row; i++) {
        wsd_call_free(row[i].call);
        free(row[i].input);
        free(row[i].output);
    }
    batch = wsd_batch_free(batch);
    n_row = 0;
}

/* Until all have ended; then it is forgotten. */
static void finish(void)
{
    struct wsd_batch_info info = {.size = sizeof(info)};

    while (n_open)
        process();
    if (batch && wsd_batch_wait(batch, UINT64_MAX, &info) == 0 && info.total + info.queued + info.running != info.done)
        wrong(row, "a batch of %llu, of which %llu have ended", (unsigned long long)info.total,
              (unsigned long long)info.done);
    for (size_t i = 0; i < n_row; i++)
        if (row[i].ended != 1)
            wrong(&row[i], "ended %u times", row[i].ended);
    forget();
}

/* --- bundles that are bundles ------------------------------------------------------------------------------------- */

static uint64_t n_bundled;

static void begin_count(void)
{
    n_bundled = counter("jobs_bundled");
}

/* Of that many. */
static bool were_bundled(size_t n)
{
    return counter("jobs_bundled") - n_bundled + ALONE >= n;
}

/* The function is known to be brief. */
static void warm(void)
{
    const uint32_t flags = batch_flags, own = submit_flags;

    batch_flags = WSD_BATCH_KEEP_GOING;
    submit_flags = 0;
    for (unsigned i = 0, n_good = 0; i < TRIES && n_good < 2; i++) {
        begin_count();
        for (unsigned k = 0; k < WARM; k++)
            add_small_number();
        submit();
        finish();
        n_good += were_bundled(WARM - 2 * ALONE);
    }
    batch_flags = flags;
    submit_flags = own;
}

/* A row of numbers, some of which are odd: each of places[], up to SIZE_MAX, has odd[] of the same index. */
static void make_row(size_t n, const size_t *places, const char *const *odd)
{
    for (size_t i = 0; i < n; i++) {
        if (*places == i) {
            add_odd(*odd);
            places++;
            odd++;
        } else {
            add_number();
        }
    }
}

static bool one_cpu(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1;
}

/* Does it until wsd says that it went in bundles. begin: submits a row of `size`; end: sees to its end. */
static void prove(void (*begin)(void), void (*end)(void), size_t size)
{
    unsigned n = 0;

    for (bool good = false; !good && !n_wrong; n++) {
        /* on one CPU the submitter interrupts each job, so that no job is brief: the answers were right */
        if (n == TRIES && one_cpu())
            return;
        if (n == TRIES) {
            printf("%s: never went in bundles: nothing is proved\n", what);
            exit(1);
        }
        release();
        warm();
        begin_count();
        begin();
        good = were_bundled(size);
        end();
    }
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

#define NUMBERS 3000u

static void begin_numbers(void)
{
    for (unsigned i = 0; i < NUMBERS; i++)
        add_number();
    submit();
}

/* Those that say their id, and those that look at what lies behind their input. */
static void begin_inside(void)
{
    static const char letters[] = "rest of which there is more here, and less there";

    for (size_t i = 0; i < NUMBERS; i++) {
        size_t size = 4 + i % (sizeof(letters) - 4);
        struct item *item = i % 3 ? add_bytes(letters, size, 0) : add_bytes("id", 2, 0);

        predict(item);
    }
    submit();
}

/* What a job sees of itself and of the others. */
static int inside(void)
{
    snprintf(what, sizeof(what), "seen by the job");
    prove(begin_inside, finish, NUMBERS / 2);
    return 0;
}

/* However many bytes they have, there is more than one to a bundle. */
static int numbers(void)
{
    for (by_submit = false;; by_submit = true) {
        snprintf(what, sizeof(what), "numbers by %s", by_submit ? "wsd_client_submit()" : "wsd_batch_submit()");
        prove(begin_numbers, finish, NUMBERS / 2);
        if (by_submit)
            return 0;
    }
}

/* --- odd ones ----------------------------------------------------------------------------------------------------- */

static size_t places[8];
static const char *odd[8];

static void begin_row(void)
{
    make_row(ROW, places, odd);
    submit();
}

static void at_places(const char *words, const size_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        places[i] = at[i];
        odd[i] = words;
    }
    places[n] = SIZE_MAX;
    snprintf(what, sizeof(what), "%.40s at %zu%s", words, at[0], n > 1 ? " and others" : "");
    prove(begin_row, finish, ROW);
}

static int odd_ones(void)
{
    char path[200], open_words[240];
    const char *kinds[] = {
        "fail 7",     "say something to one", "progress",     "status all is well", "big 3000", "big 5000",
        "big 300000", "reserve 900",          "reserve 4096", "reserve 200000",     "flush",    open_words,
        "spawn"};
    FILE *f;

    snprintf(path, sizeof(path), "%s/read-me", argument);
    snprintf(open_words, sizeof(open_words), "open %s", path);
    f = fopen(path, "w");
    MUST(f && fputs("what is in it\n", f) >= 0 && fclose(f) == 0);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        /* bundles get shorter to the end of a row: so it is now first in one, now last */
        for (size_t at = k % 3; at < ROW; at += 3)
            at_places(kinds[k], &at, 1);
        at_places(kinds[k], (const size_t[]){ROW - 1}, 1);
        for (size_t at = 1; at < ROW - 1; at += 5)
            at_places(kinds[k], (const size_t[]){at, at + 1}, 2);
        at_places(kinds[k], (const size_t[]){1, 4, 5, 9, 20, 22, 38}, 7);
    }
    /* one of each, in turn */
    for (size_t at = 0; at < ROW - 7; at++) {
        for (size_t i = 0; i < 7; i++) {
            places[i] = at + i;
            odd[i] = kinds[(at + i * 2) % (sizeof(kinds) / sizeof(kinds[0]))];
        }
        places[7] = SIZE_MAX;
        snprintf(what, sizeof(what), "all kinds from %zu on", at);
        prove(begin_row, finish, ROW);
    }
    return 0;
}

/* --- what ends the executor --------------------------------------------------------------------------------------- */

static int crash(void)
{
    for (size_t at = 1; at < ROW - 4; at += 7)
        at_places("crash", &at, 1);
    return 0;
}

static char hang_path[200], hang_words[240];

static void hang_at(size_t at)
{
    snprintf(hang_path, sizeof(hang_path), "%s/hangs", argument);
    snprintf(hang_words, sizeof(hang_words), "hang %s", hang_path);
    unlink(hang_path);
    places[0] = at;
    places[1] = SIZE_MAX;
    odd[0] = hang_words;
    begin_row();
}

/* It has begun; its process. */
static pid_t until_it_hangs(void)
{
    int pid = 0;

    for (FILE *f; !pid; nap()) {
        f = fopen(hang_path, "r");
        if (!f)
            continue;
        if (fscanf(f, "%d", &pid) != 1)
            pid = 0;
        fclose(f);
    }
    return pid;
}

static size_t place;

static void begin_hang(void)
{
    hang_at(place);
}

static void kill_at_once(void)
{
    bool again = strcmp(function, "again") == 0;
    pid_t pid = until_it_hangs();

    for (size_t i = 0; !again && i < n_row; i++) /* what another worker ran at that moment, too */
        row[i].states = i == place ? 1u << WSD_JOB_INTERRUPTED : row[i].states | 1u << WSD_JOB_INTERRUPTED;
    unlink(hang_path);
    MUST(kill(pid, SIGKILL) == 0);
    if (again) { /* and there it hangs again */
        MUST(until_it_hangs() != pid);
        MUST(wsd_call_cancel(row[place].call) == 0);
    }
    while (n_open)
        process();
    size_t n_interrupted = 0;

    for (size_t i = 0; i < n_row; i++)
        n_interrupted += row[i].state == WSD_JOB_INTERRUPTED;
    MUST(n_interrupted == 0 || (!again && n_interrupted <= n_workers));
    finish();
}

/* The timer has had its turn, where that is of any use. */
static void kill_later(void)
{
    for (int i = 0; i < 25; i++)
        nap();
    kill_at_once();
}

static int killed(void)
{
    for (place = 1; place < ROW - 4; place += 9) {
        snprintf(what, sizeof(what), "killed while it hangs at %zu", place);
        prove(begin_hang, kill_at_once, ROW);
        snprintf(what, sizeof(what), "killed when it has hung at %zu", place);
        prove(begin_hang, kill_later, ROW);
    }
    return 0;
}

/* --- those that wait for another ---------------------------------------------------------------------------------- */

static void begin_meeting(void)
{
    static char words[8][24];
    static unsigned serial;

    for (size_t i = 0; places[i] != SIZE_MAX; i++) {
        serial += i % 2 == 0;
        snprintf(words[i], sizeof(words[i]), "%s %u", (i % 2 == 0) == (*argument == 'a') ? "meet" : "met", serial);
        odd[i] = words[i];
    }
    begin_row();
}

/* All are slow, where they were brief: no one of them takes so long that it would be noticed by itself. */
static void begin_slow(void)
{
    for (size_t i = 0; i < SLOW; i++)
        add_odd("late");
    submit();
}

/* Workers have taken turns at them: not each a bundle of its own, of which there are no more than two for each. */
static void end_slow(void)
{
    unsigned turns = 0;

    while (n_open)
        process();
    for (size_t i = 1; i < SLOW; i++)
        turns += strcmp(row[i].worker, row[i - 1].worker) != 0;
    if (turns <= 4 * n_workers)
        wrong(row, "workers have taken %u turns at %u jobs", turns, SLOW);
    finish();
}

static int slow(void)
{
    snprintf(what, sizeof(what), "slow all of a sudden");
    prove(begin_slow, end_slow, SLOW);
    return 0;
}

static int meetings(void)
{
    static const char *const orders[] = {"a", "b"};

    for (size_t k = 0; k < 2; k++) {
        argument = orders[k];
        for (size_t at = 0; at < ROW - 4; at += 3) {
            places[0] = at;
            places[1] = at + 1;
            places[2] = SIZE_MAX;
            snprintf(what, sizeof(what), "%s at %zu", k ? "met and meet" : "meet and met", at);
            prove(begin_meeting, finish, ROW);
        }
    }
    return 0;
}

/* --- while one hangs ---------------------------------------------------------------------------------------------- */

static void by_handle(size_t i)
{
    MUST(wsd_call_cancel(row[i].call) == 0);
}

static void by_id(size_t i)
{
    MUST(row[i].accepted);
    int r = wsd_client_cancel(other, &row[i].id);
    MUST(r == 0 || (r == -ENOENT && (i < place || n_workers > 1)));
}

static void by_wsctl(size_t i)
{
    char id[WSD_ID_TEXT], command[100];

    MUST(row[i].accepted);
    wsd_id_text(&row[i].id, id);
    snprintf(command, sizeof(command), "wsctl cancel %s 2>/dev/null", id);
    int status = system(command);
    MUST(WIFEXITED(status) &&
         (WEXITSTATUS(status) == 0 || (WEXITSTATUS(status) == 66 && (i < place || n_workers > 1))));
}

static void (*cancel)(size_t i);
static bool late;

/* All accepted, and one of them hangs. */
static void settle(void)
{
    until_it_hangs();
    while (!row[n_row - 1].accepted)
        process();
    for (int i = 0; late && i < 20; i++)
        nap();
}

/* The last one first, so that each is still there; one that other workers have had by then has succeeded. */
static void cancel_all_sorts(void)
{
    size_t behind[] = {ROW - 1, ROW - 5, place + 2, place + 1};

    settle();
    for (size_t i = 0; i < 4; i++) {
        if (behind[i] <= place || behind[i] >= ROW)
            continue;
        row[behind[i]].states = n_workers == 1 ? NOT_RUN : NOT_RUN | OK;
        cancel(behind[i]);
    }
    if (place > 0)
        cancel(place - 1); /* too late: it has ended; where the other worker has it it may not have */
    if (place > 0 && n_workers > 1)
        row[place - 1].states |= NOT_RUN;
    cancel(place);
    finish();
}

static int cancels(void)
{
    static void (*const ways[])(size_t) = {by_handle, by_id, by_wsctl};
    static const char *const names[] = {"its handle", "its id", "wsctl"};

    for (size_t way = 0; way < 3; way++)
        for (size_t i = 0; i < 6; i++) {
            cancel = ways[way];
            late = i % 2;
            place = (const size_t[]){1, 2, 6, 11, 17, 30}[i];
            snprintf(what, sizeof(what), "cancel by %s while one hangs at %zu%s", names[way], place,
                     late ? ", later" : "");
            prove(begin_hang, cancel_all_sorts, ROW);
        }
    return 0;
}

/* The other connection cancels one that hangs when the one before it has been told its end. */
static void cancel_when_told(void)
{
    for (size_t i = 0; i < place; i++)
        until_ended(i);
    by_handle(place);
    finish();
}

static int told(void)
{
    for (place = 1; place < ROW - 4; place += 6) {
        snprintf(what, sizeof(what), "what was before one that hangs at %zu is told", place);
        prove(begin_hang, cancel_when_told, ROW);
    }
    return 0;
}

struct seen {
    unsigned running, queued, others, hanging;
};

static void see(struct seen *seen, const struct wsd_job_info *info)
{
    seen->running += info->state == WSD_JOB_RUNNING;
    seen->queued += info->state == WSD_JOB_QUEUED;
    seen->others += info->state != WSD_JOB_RUNNING && info->state != WSD_JOB_QUEUED;
    seen->hanging += info->state == WSD_JOB_RUNNING && memcmp(&info->id, &row[place].id, sizeof(info->id)) == 0;
}

static int on_listed(const struct wsd_job_info *info, void *userdata)
{
    see(userdata, info);
    return 0;
}

/* On one worker: it runs, those behind it are queued, and those before it are gone, or about to. */
static void look_at(const char *how, const struct seen *seen)
{
    size_t behind = ROW - 1 - place;

    if (seen->running == 1 && seen->hanging == 1 && seen->others == 0 && seen->queued >= behind &&
        seen->queued <= behind + place)
        return;
    wrong(&row[place], "%s: %u run, it among them %u, %u are queued, %u are something else", how, seen->running,
          seen->hanging, seen->queued, seen->others);
}

static void ask_for_each(void)
{
    struct seen seen = {0};

    for (size_t i = 0; i < ROW; i++) {
        struct wsd_job_info info = {.size = sizeof(info)};
        int r = wsd_client_job(other, &row[i].id, &info);

        MUST(r == 0 || (r == -ENOENT && i < place));
        if (r == 0)
            see(&seen, &info);
    }
    look_at("one by one", &seen);
}

static struct wsd_batch_info batch_info(void)
{
    struct wsd_batch_info info = {.size = sizeof(info)};

    do
        MUST(wsd_batch_look(batch, &info) == 0);
    while (!info.total && (process(), true));
    return info;
}

static void ask_for_list(void)
{
    const struct wsd_batch_info info = batch_info();
    const struct wsd_filter filter = {.size = sizeof(filter), .batch = &info.id};
    struct seen seen = {0};

    MUST(wsd_client_list_where(other, &filter, on_listed, &seen) == 0);
    look_at("the list", &seen);
}

static void ask_for_batch(void)
{
    struct wsd_batch_info info = batch_info();

    MUST(wsd_client_batch(other, &info.id, &info) == 0);
    if (info.total != ROW || info.running != 1 || info.failed || info.queued < ROW - 1 - place ||
        info.queued + info.done != ROW - 1)
        wrong(&row[place], "its batch: %u of %u run, %u are queued, %u done, %u failed", (unsigned)info.running,
              (unsigned)info.total, (unsigned)info.queued, (unsigned)info.done, (unsigned)info.failed);
}

static void ask_wsctl(void)
{
    char id[WSD_ID_TEXT], command[120];

    for (size_t i = place; i < place + 2; i++) {
        wsd_id_text(&row[i].id, id);
        snprintf(command, sizeof(command), "wsctl --json status %s | grep -q '\"state\":\"%s\"'", id,
                 i == place ? "running" : "queued");
        if (system(command) != 0)
            wrong(&row[i], "it is something else in wsctl status");
    }
}

static unsigned first_question;

static void ask(void)
{
    static void (*const questions[])(void) = {ask_for_batch, ask_wsctl, ask_for_each, ask_for_list};

    settle();
    for (unsigned i = 0; i < 4; i++)
        questions[(first_question + i) % 4]();
    by_id(place);
    finish();
}

static int asked(void)
{
    for (size_t i = 0; i < 16; i++) {
        first_question = (unsigned)i % 4;
        late = i / 4 % 2;
        place = 1 + i * 2;
        snprintf(what, sizeof(what), "asked while one hangs at %zu, question %u first%s", place, first_question,
                 late ? ", later" : "");
        prove(begin_hang, ask, ROW);
    }
    return 0;
}

/* Closes the client while its jobs are open. */
static void go_away(void)
{
    until_it_hangs();
    for (int i = 0; late && i < 20; i++)
        nap();
    for (size_t i = 0; i < n_row; i++) { /* what it is told then does not matter */
        row[i].refusable = true;
        row[i].accepted = false;
    }
    client = wsd_client_free(client);
    n_open = 0;
    batch = NULL;
    for (size_t i = 0; i < n_row; i++)
        row[i].call = NULL;
    forget();
    until_counter("jobs_open", 0);
    until_counter("jobs_queued", 0);
    until_counter("jobs_handed_over", 0);
    until_counter("bytes_charged", 0);
    MUST(wsd_client_open(&client, NULL, 0) == 0);
}

/* With many behind it, most of which are queued. */
static void begin_long_hang(void)
{
    snprintf(hang_path, sizeof(hang_path), "%s/hangs", argument);
    snprintf(hang_words, sizeof(hang_words), "hang %s", hang_path);
    unlink(hang_path);
    for (size_t i = 0; i < 4000; i++) {
        if (i == place)
            add_odd(hang_words);
        else
            add_number();
    }
    submit();
    while (counter("jobs_open") < 4000 / (n_workers == 1 ? 1 : 2) && access(hang_path, F_OK) != 0)
        process();
}

static int leaves(void)
{
    for (size_t i = 0; i < 8; i++) {
        late = i % 2;
        by_submit = i / 2 % 2;
        place = 1 + i * 4;
        snprintf(what, sizeof(what), "the client goes while one hangs at %zu%s", place, late ? ", later" : "");
        if (i < 4)
            prove(begin_hang, go_away, ROW);
        else
            prove(begin_long_hang, go_away, 1000);
    }
    return 0;
}

/* --- batches that stop -------------------------------------------------------------------------------------------- */

#define LONG 3000u

static void begin_stop(void)
{
    batch_flags = 0;
    for (size_t i = 0; i < LONG; i++) {
        if (i == place)
            add_odd("fail 9");
        else
            add_number();
        if (i > place) {
            row[i].states |= NOT_RUN;
            row[i].refusable = true;
        }
    }
    submit();
}

static void end_stop(void)
{
    struct wsd_batch_info info = {.size = sizeof(info)};
    size_t n_bad = 0;

    while (n_open)
        process();
    MUST(wsd_batch_wait(batch, UINT64_MAX, &info) == 0);
    for (size_t i = 0; i < n_row; i++)
        n_bad += row[i].state && row[i].state != WSD_JOB_SUCCEEDED;
    if (info.exit != 9 || info.done != info.total || info.failed != n_bad || !info.stopped || !info.ended)
        wrong(&row[place], "its batch: exit %d, %llu of %llu failed, where %zu have", info.exit,
              (unsigned long long)info.failed, (unsigned long long)info.total, n_bad);
    if (n_bad + (LONG - info.total) < 2)
        wrong(&row[place], "it stopped none of those behind it");
    finish();
    batch_flags = WSD_BATCH_KEEP_GOING;
}

#define FAR    6000u
#define HANDED 1024u /* RING_SLOTS: what an executor is handed ahead, which may have begun */

/* It is cancelled when all behind it have been accepted: more than an executor is handed. */
static void begin_cancel(void)
{
    batch_flags = 0;
    for (size_t i = 0; i < FAR; i++) {
        if (i == place)
            add_odd("hang");
        else
            add_small_number();
        row[i].states |= i > place ? NOT_RUN : 0;
    }
    submit();
    while (!row[FAR - 1].accepted)
        process();
    by_handle(place);
}

static void end_cancel(void)
{
    struct wsd_batch_info info = {.size = sizeof(info)};
    size_t n_stopped = 0;

    MUST(wsd_batch_wait(batch, UINT64_MAX, &info) == 0);
    for (size_t i = place + 1; i < FAR; i++)
        n_stopped += row[i].state == WSD_JOB_CANCELLED;
    if (info.exit != 130 || info.done != FAR || info.failed != n_stopped + 1 || !info.stopped)
        wrong(&row[place], "its batch: exit %d, %llu failed, where %zu were stopped", info.exit,
              (unsigned long long)info.failed, n_stopped);
    if (n_workers == 1 && n_stopped + HANDED < FAR - 1 - place)
        wrong(&row[place], "it stopped only %zu of those behind it", n_stopped);
    finish();
    batch_flags = WSD_BATCH_KEEP_GOING;
}

static int stops(void)
{
    for (place = 1; place < 30; place += 9) {
        snprintf(what, sizeof(what), "a cancel at %zu stops the batch", place);
        prove(begin_cancel, end_cancel, 100);
    }
    for (place = 0; place < 100; place += 9) {
        snprintf(what, sizeof(what), "a failure at %zu stops the batch", place);
        prove(begin_stop, end_stop, 100);
    }
    return 0;
}

/* --- detached jobs, outputs that are not read --------------------------------------------------------------------- */

/* Detached jobs are not bundled, and each ends. */
static int detached(void)
{
    for (int k = 0; k < 3; k++) {
        snprintf(what, sizeof(what), "detached, %s",
                 k == 0   ? "by wsd_client_submit()"
                 : k == 1 ? "in a batch"
                          : "left");
        warm();
        uint64_t before = counter("jobs_succeeded");
        submit_flags = WSD_SUBMIT_DETACH | (k == 2 ? WSD_SUBMIT_LEAVE : 0);
        by_submit = k != 1;
        batch_flags = WSD_BATCH_KEEP_GOING | (k == 1 ? WSD_BATCH_DETACH : 0);
        begin_count();
        for (unsigned i = 0; i < 500; i++)
            k == 2 ? add_small_number() : add_number();
        if (k < 2) {
            submit();
            finish();
        } else {
            struct wsd_submit common = like();

            for (size_t i = 0; i < n_row; i++) {
                common.input = row[i].input;
                common.input_size = row[i].size;
                MUST(wsd_client_submit(client, &common, NULL, &row[i].call) == 0);
            }
            for (size_t i = 0; i < n_row; i++)
                MUST(wsd_call_wait(row[i].call, UINT64_MAX, NULL) == 0);
            n_open = 0;
            forget();
        }
        until_counter("jobs_succeeded", before + 500);
        MUST(counter("jobs_bundled") == n_bundled);
        submit_flags = 0;
    }
    return 0;
}

#define MUCH 12000u /* jobs; their answers are more than wsd and the kernel keep for a client that does not read */

/* The first jobs occupy the workers until all are accepted. Then the rest ends, and the client does not read. */
static void begin_unread(void)
{
    for (unsigned i = 0; i < n_workers; i++)
        add_odd("hang");
    for (unsigned i = 0; i < MUCH; i++)
        add_odd("big 200");
    submit();
    while (!row[n_row - 1].accepted)
        process();
    place = n_workers;
    for (unsigned i = 0; i < n_workers; i++)
        by_id(i);
    for (uint64_t before = UINT64_MAX, now; (now = counter("jobs_succeeded")) != before; before = now)
        for (int i = 0; i < 20; i++)
            nap();
    if (counter("bytes_charged") == 0) /* what wsd keeps for its own part, where the connection has enough of it */
        wrong(row, "nothing waits for somebody who does not read");
    if (counter("bytes_unread") > 3u << 19) /* 1 MiB, and what comes with it */
        wrong(row, "wsd gathers what nobody reads");
}

static int unread(void)
{
    for (by_submit = false;; by_submit = true) {
        snprintf(what, sizeof(what), "a client that does not read");
        prove(begin_unread, finish, MUCH / 2);
        if (by_submit)
            return 0;
    }
}

/* Output that is held in the library: wsd may send no more of it, but the rest goes on. */
static size_t n_held;

static int on_held(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct item *item = &row[(uintptr_t)userdata];

    if (size != item->output_size || memcmp(data, item->output, size) != 0)
        wrong(item, "%zu bytes of output where %zu are wanted", size, item->output_size);
    item->messages++;
    n_held += holds_output;
    return holds_output;
}

static void on_held_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text,
                         void *userdata)
{
    struct item *item = &row[(uintptr_t)userdata];

    n_open--;
    item->ended++;
    if (error || info->state != WSD_JOB_SUCCEEDED || item->messages != (item->output_size > 0))
        wrong(item, "%s", error ? text : "ended without its output");
}

static void begin_held(void)
{
    struct wsd_submit common = like();

    MUST(wsd_batch_open(client, &common, WSD_BATCH_KEEP_GOING, &batch) == 0);
    for (size_t i = 0; i < NUMBERS; i++) {
        add_number();
        const struct wsd_callbacks callbacks = {
            .size = sizeof(callbacks), .output = on_held, .done = on_held_done, .userdata = (void *)(uintptr_t)i};
        const struct wsd_item given = {.size = sizeof(given),
                                       .args = row[i].args,
                                       .n_args = row[i].n_args,
                                       .input = row[i].input,
                                       .input_size = row[i].size};

        MUST(wsd_batch_submit(batch, &given, &callbacks, &row[i].call) == 0);
    }
    n_open = n_row;
    holds_output = true;
}

static void end_held(void)
{
    while (n_held + 200 < NUMBERS && n_open > n_held)
        process();
    holds_output = false;
    n_held = 0;
    for (size_t i = 0; i < n_row; i++)
        MUST(wsd_call_resume(row[i].call) == 0);
    finish();
}

static int held(void)
{
    snprintf(what, sizeof(what), "output that is held");
    for (unsigned i = 0; i < 3 && !n_wrong; i++) {
        warm();
        begin_held();
        end_held();
    }
    return 0;
}

/* --- beside other things ------------------------------------------------------------------------------------------ */

static bool done_with(void)
{
    return access(argument, F_OK) == 0;
}

/* Maps numbers until the file `argument` is there. */
static int maps(void)
{
    uint64_t before = counter("jobs_bundled"), n = 0;

    snprintf(what, sizeof(what), "mapped");
    do {
        by_submit = !by_submit;
        for (unsigned i = 0; i < 5000; i++)
            add_number();
        submit();
        finish();
        n += 5000;
    } while (!done_with() && !n_wrong);
    n_bundled = counter("jobs_bundled") - before;
    printf("%llu jobs, %llu in bundles\n", (unsigned long long)n, (unsigned long long)n_bundled);
    MUST(n_bundled >= ROW);
    return 0;
}

/* Numbers until wsd takes no more: what it has taken comes to its end. */
static int drained(void)
{
    bool refused = false;

    snprintf(what, sizeof(what), "while wsd ends");
    while (!refused && !n_wrong) {
        for (unsigned i = 0; i < 5000; i++) {
            add_number();
            row[i].refusable = true;
        }
        by_submit = true;
        submit();
        while (n_open) {
            int r = wsd_client_wait(client, 100000);

            MUST(r == 0 || r == -ETIMEDOUT || !n_open);
        }
        for (size_t i = 0; i < n_row; i++)
            refused |= !row[i].state;
        finish();
    }
    return 0;
}

static void on_alarm(int signal)
{
    static const char words[] = "it hangs: ";

    if (write(STDOUT_FILENO, words, sizeof(words) - 1) < 0 || write(STDOUT_FILENO, what, strlen(what)) < 0 ||
        write(STDOUT_FILENO, "\n", 1) < 0)
        _exit(2);
    _exit(1);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } cases[] = {
        {"numbers", numbers},   {"inside", inside},     {"odd", odd_ones},  {"crash", crash}, {"killed", killed},
        {"meetings", meetings}, {"cancels", cancels},   {"told", told},     {"asked", asked}, {"leaves", leaves},
        {"stops", stops},       {"detached", detached}, {"unread", unread}, {"held", held},   {"maps", maps},
        {"drained", drained},   {"slow", slow},
    };
    const char *scale = getenv("TIME_SCALE"), *workers = getenv("WORKERS");

    if (argc < 3)
        return 64;
    function = argv[2];
    n_workers = workers ? (unsigned)atoi(workers) : 1;
    argument = argc > 3 ? argv[3] : "/tmp";
    signal(SIGALRM, on_alarm);
    signal(SIGPIPE, SIG_IGN);
    alarm(SECONDS * (scale && atoi(scale) > 0 ? (unsigned)atoi(scale) : 1));
    setvbuf(stdout, NULL, _IOLBF, 0);
    MUST(wsd_client_open(&client, NULL, 0) == 0);
    MUST(wsd_client_open(&other, NULL, 0) == 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, argv[1]) != 0)
            continue;
        cases[i].run();
        wsd_client_free(client);
        wsd_client_free(other);
        free(row);
        return n_wrong > 0;
    }
    return 64;
}
