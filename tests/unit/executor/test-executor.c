/* SPDX-License-Identifier: Apache-2.0
 *
 * test-executor.c: a real wsd-executor, driven through its rings and its control socket as wsd does it. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wsd/plugin.h>

#include "base/async-close.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "ring/control.h"
#include "ring/front.h"
#include "tests/unit/suite.h"

#define WAIT_USEC 60000000u /* nothing here takes so long: a longer wait means a lost message */

static struct front front;
static int control = -1;
static pid_t pid;
static uint32_t n_loaded;
static const char *sandbox = "required=1,commands=1,children=0,core=0,memory=0,deny=,writable=/";
static char functions[16][64][64]; /* names of the functions, by plugin number */

/* --- the executor ------------------------------------------------------------------------------------------------- */

static void start(const char *workers, const char *paths)
{
    int pair[2], null;

    ck_assert_int_eq(front_init(&front), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        int fds[4] = {front.down_fd, front.up_fd, front.bell_fd, pair[1]};
        for (int i = 0; i < 4; i++)
            fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 50);
        for (int i = 0; i < 4; i++)
            dup2(fds[i], 3 + i);
        null = open("/dev/null", O_RDONLY); /* one that must not stay */
        dup2(null, 40);
        execl(getenv("TEST_EXECUTOR"), "wsd-executor", workers, getenv("TEST_PLUGINS"), paths, "err", "free", "8388608",
              sandbox, (char *)NULL);
        _exit(126);
    }
    close(pair[1]);
    control = pair[0];
    n_loaded = 0;
}

static void receive(struct control *c)
{
    struct pollfd p = {.fd = control, .events = POLLIN};
    int fd;

    ck_assert_int_eq(poll(&p, 1, WAIT_USEC / 1000), 1);
    ck_assert_int_eq(control_receive(control, ASYNC_CLOSE_OWN, c, &fd), 0);
    ck_assert_int_eq(fd, -1);
}

static void start_ready(const char *workers, const char *paths)
{
    struct control c;

    start(workers, paths);
    receive(&c);
    ck_assert_uint_eq(c.kind, CONTROL_READY);
    ck_assert_uint_eq(c.number, (unsigned)atoi(workers));
}

/* The way it ended: exit status, or 1000 and the signal. */
static int reap(void)
{
    uint64_t end = clock_monotonic_usec() + WAIT_USEC;
    int status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        ck_assert_msg(clock_monotonic_usec() < end, "the executor does not end");
        usleep(1000);
    }
    pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void finish(void)
{
    ck_assert_int_eq(control_send(control, &(struct control){.kind = CONTROL_FINISH}, -1), 0);
    ck_assert_int_eq(reap(), 0);
}

static void teardown(void)
{
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

static void ask_load(const char *name)
{
    struct control c = {.kind = CONTROL_LOAD, .number = n_loaded++, .text_size = (uint32_t)strlen(name) + 1};

    strcpy(c.text, name);
    ck_assert_int_eq(control_send(control, &c, -1), 0);
}

/* The executor says when it begins, and then how it went. */
static void receive_loaded(struct control *ret)
{
    receive(ret);
    ck_assert_uint_eq(ret->kind, CONTROL_LOADING);
    ck_assert_uint_eq(ret->number, n_loaded - 1);
    receive(ret);
    ck_assert_uint_eq(ret->kind, CONTROL_LOADED);
    ck_assert_uint_eq(ret->number, n_loaded - 1);
}

/* Loads and returns the number. */
static uint32_t load(const char *name)
{
    struct control c, f;

    ask_load(name);
    receive_loaded(&c);
    ck_assert_msg(c.error == 0, "%s: %s", name, c.text);
    for (uint32_t i = 0; i < c.functions; i++) {
        receive(&f);
        ck_assert_uint_eq(f.kind, CONTROL_FUNCTION);
        ck_assert_uint_eq(f.number, c.number);
        ck_assert_uint_eq(f.functions, i);
        snprintf(functions[c.number][i], sizeof(functions[c.number][i]), "%.63s", f.text);
    }
    return c.number;
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

struct call {
    uint32_t plugin, flags;
    const char *function; /* NULL: the first; else its name, or # and a number */
    const char *args;     /* each with its NUL; args_size */
    size_t args_size;
    uint32_t argc;
    const void *input;
    uint64_t input_size, timeout_usec;
    const char *directory;
    uint32_t arena; /* with DOWN_ARENA: both its parts are there, output_at behind the input */
    uint64_t output_size;
};

static uint32_t find(uint32_t plugin, const char *name)
{
    if (!name)
        return 0;
    if (*name == '#')
        return (uint32_t)atoi(name + 1);
    for (uint32_t i = 0; i < 64; i++)
        if (strcmp(functions[plugin][i], name) == 0)
            return i;
    ck_abort_msg("no function %s", name);
}

static uint32_t prepare(const struct call *call, uint32_t *ret_generation)
{
    static uint8_t id[16];
    struct front_job job = {.id = id,
                            .plugin = call->plugin,
                            .function = find(call->plugin, call->function),
                            .argc = call->argc,
                            .flags = call->flags,
                            .directory = call->directory,
                            .args = call->args,
                            .args_size = call->args_size,
                            .input = call->input,
                            .input_size = call->input_size,
                            .arena = call->arena,
                            .output_at = call->input_size,
                            .output_size = call->output_size,
                            .timeout_usec = call->timeout_usec};
    uint32_t slot;

    id[0]++;
    int r = front_prepare(&front, &job, &slot, ret_generation);
    if (r == FRONT_E_FULL)
        return RING_NONE;
    ck_assert_int_eq(r, 0);
    return slot;
}

static uint32_t submit(const struct call *call)
{
    uint32_t generation, slot = prepare(call, &generation);

    if (slot != RING_NONE) {
        front_submit(&front, slot, UINT32_MAX);
        front_ring(&front);
    }
    return slot;
}

#define CALL(n, f, ...) ((struct call){.plugin = (n), .function = (f), __VA_ARGS__})
#define ARGS(text, n)   .args = text, .args_size = sizeof(text), .argc = (n)

/* Waits for the next completion; false: the executor died first. */
static bool next(struct front_completion *c)
{
    uint64_t end = clock_monotonic_usec() + WAIT_USEC, n;
    struct pollfd p = {.fd = front.bell_fd, .events = POLLIN};

    for (;;) {
        int r = front_next(&front, c);
        ck_assert_int_ne(r, FRONT_E_LIES);
        if (r == 0)
            return true;
        ck_assert_msg(clock_monotonic_usec() < end, "a completion is missing");
        if (front_asleep(&front))
            continue;
        poll(&p, 1, 100);
        front_awake(&front);
        if (p.revents && read(front.bell_fd, &n, sizeof(n)) < 0)
            ck_assert_int_eq(errno, EAGAIN);
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid &&
            front_next(&front, c) == FRONT_NONE)
            return false;
    }
}

/* Runs to DONE; output is gathered in out (of room bytes, may be NULL), all but what is in an arena. The slot is
 * retired. */
static struct front_completion wait_end(uint32_t slot, char *out, size_t room, uint64_t in_arena)
{
    struct front_completion c;
    uint64_t got = in_arena;

    for (;;) {
        ck_assert_msg(next(&c), "the executor died");
        ck_assert_uint_eq(c.slot, slot);
        if (out && got + c.size <= room)
            memcpy(out + got, c.data, c.size);
        got += c.size;
        if (c.kind == COMPLETION_DONE)
            break;
        ck_assert_int_eq(c.kind, COMPLETION_OUTPUT);
        front_release(&front, c.chunk, c.run);
    }
    ck_assert_uint_eq(got, c.output_size);
    if (out && got < room)
        out[got] = 0;
    front_retire(&front, slot);
    return c;
}

static struct front_completion wait_done(uint32_t slot, char *out, size_t room)
{
    return wait_end(slot, out, room, 0);
}

static struct front_completion run(const struct call *call, char *out, size_t room)
{
    return wait_done(submit(call), out, room);
}

static void wait_running(uint32_t slot)
{
    uint64_t started, end = clock_monotonic_usec() + WAIT_USEC;

    while (!front_running(&front, slot, &started)) {
        ck_assert_msg(clock_monotonic_usec() < end, "the job does not start");
        usleep(1000);
    }
}

static void send_fd(enum control_kind kind, uint32_t slot, uint32_t generation, uint32_t number, uint32_t error, int fd)
{
    struct control c = {.kind = kind, .slot = slot, .generation = generation, .number = number, .error = error};

    ck_assert_int_eq(control_send(control, &c, fd), 0);
}

/* --- loading ------------------------------------------------------------------------------------------------------ */

START_TEST(plugin_is_loaded_and_described)
{
    struct control c;

    start_ready("1", "any");
    ask_load("echo");
    receive_loaded(&c);
    ck_assert_uint_eq(c.error, 0);
    uint32_t n_functions = c.functions;
    const char *version = c.text + strlen(c.text) + 1, *help = version + strlen(version) + 1,
               *path = help + strlen(help) + 1;
    ck_assert_str_eq(c.text, "echo");
    ck_assert_str_eq(version, "1");
    ck_assert_str_eq(help, "gives back what it was given");
    ck_assert_ptr_nonnull(strstr(path, "/echo.so"));
    const char *build = path + strlen(path) + 1;
    ck_assert_uint_eq(strspn(build, "0123456789abcdef"), strlen(build));
    ck_assert_uint_eq(c.text_size, (size_t)(build - c.text) + strlen(build) + 1);
    receive(&c);
    ck_assert_uint_eq(c.kind, CONTROL_FUNCTION);
    ck_assert_str_eq(c.text, "echo");
    ck_assert_uint_eq(c.flags, WSD_FN_IDEMPOTENT);
    ck_assert_str_eq(c.text + 5, "gives back its arguments or input");
    for (uint32_t i = 1; i < n_functions; i++)
        receive(&c);
    finish();
}
END_TEST

START_TEST(plugin_that_cannot_be_loaded_harms_no_other)
{
    static const struct {
        const char *name;
        uint32_t error;
        const char *words;
    } bad[] = {{"nosuch", ENOENT, "not found in"},
               {"wrong-abi", ENOEXEC, "built for plugin ABI 7"},
               {"not-a-plugin", ENOEXEC, "not a plugin"},
               {"bad-init", ELIBBAD, "init failed with 3"},
               {"unresolved", ELIBBAD, "nobody_has_this_function"},
               {"./echo.so", ENOENT, "not an absolute path"},
               {"/dev/null", ENOEXEC, "not a regular file"},
               {"", ENOENT, "empty"}};
    struct control c;
    char out[64];

    start_ready("1", "any");
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        ask_load(bad[i].name);
        receive_loaded(&c);
        ck_assert_uint_eq(c.number, i);
        ck_assert_uint_eq(c.error, bad[i].error);
        ck_assert_msg(strstr(c.text, bad[i].words) != NULL, "%s", c.text);
    }
    send_fd(CONTROL_LOAD, 0, 0, 70000, 0, -1);
    receive(&c);
    ck_assert_uint_eq(c.error, EINVAL);
    ck_assert_int_eq(run(&CALL(load("echo"), NULL, ARGS("hi", 1)), out, sizeof(out)).exit, 0);
    ck_assert_str_eq(out, "hi\n");
    finish();
}
END_TEST

START_TEST(init_that_crashes_takes_only_its_executor)
{
    struct fault_note note;

    start_ready("1", "any");
    ask_load("crash-init");
    ck_assert_int_eq(reap(), 1000 + SIGSEGV);
    ck_assert(front_fault(&front, &note));
    ck_assert_uint_eq(note.slot, RING_NONE);
    ck_assert_int_eq(note.signal, SIGSEGV);
}
END_TEST

START_TEST(fini_runs_at_the_orderly_end)
{
    char out[16], name[] = "/tmp/wsd-test-fini-XXXXXX", text[16] = "";
    int fd = mkstemp(name);

    setenv("LIFETIME_FILE", name, 1);
    start_ready("2", "any");
    uint32_t n = load("lifetime");
    ck_assert_uint_ne(load("lifetime.so"), n);
    run(&CALL(n, NULL, ), out, sizeof(out));
    ck_assert_str_eq(out, "1\n");
    finish();
    ck_assert_int_eq(read(fd, text, sizeof(text)), 5);
    ck_assert_str_eq(text, "fini\n");
    close(fd);
    unlink(name);
}
END_TEST

/* --- running ------------------------------------------------------------------------------------------------------ */

START_TEST(arguments_output_texts_and_times_come_back)
{
    char out[256];
    struct control c;
    uint64_t done, total;

    start_ready("1", "any");
    uint32_t n = load("echo");
    struct front_completion d = run(&CALL(n, NULL, ARGS("a\0\0b c\0d\0e\0f\0g\0h\0i", 9)), out, sizeof(out));
    ck_assert_str_eq(out, "a\n\nb c\nd\ne\nf\ng\nh\ni\n");
    ck_assert_int_eq(d.exit, 0);
    ck_assert_uint_ge(d.ended_usec, d.started_usec);
    ck_assert_uint_gt(d.started_usec, clock_monotonic_usec() - WAIT_USEC);
    ck_assert_uint_eq(d.worker, 0);

    d = run(&CALL(n, "status", ARGS("7\0it is bad", 2)), out, sizeof(out));
    ck_assert_int_eq(d.exit, 7);
    ck_assert_str_eq(d.error, "it is bad");
    ck_assert_str_eq(d.status, "asked for 7");
    front_progress(&front, d.slot, &done, &total); /* the slot is another job's by now */
    ck_assert(done == 0 && total == 0);
    const struct up_slot *u = &front.up->slots[d.slot];
    ck_assert_uint_eq(u->progress_of, d.generation);
    ck_assert(u->progress_done == 1 && u->progress_total == 2);
    receive(&c);
    ck_assert_uint_eq(c.kind, CONTROL_MESSAGE);
    ck_assert_uint_eq(c.slot, d.slot);
    ck_assert_uint_eq(c.generation, d.generation);
    ck_assert_uint_eq(c.number, WSD_LOG_INFO);
    ck_assert_str_eq(c.text, "ends with 7");

    d = run(&CALL(n, "status", ARGS("64", 1)), out, sizeof(out));
    ck_assert_int_eq(d.exit, 63);
    ck_assert_str_eq(d.error, "returned 64, which is not a status");
    d = run(&CALL(n, NULL, .input = "some input", .input_size = 10), out, sizeof(out));
    ck_assert_str_eq(out, "some input");
    d = run(&CALL(n, "stream", .input = "some input", .input_size = 10), out, sizeof(out));
    ck_assert_str_eq(out, "some input");
    finish();
}
END_TEST

static void answer_of_fib(const struct front_completion *c, const char *want)
{
    ck_assert_int_eq(c->exit, 0);
    ck_assert_uint_eq(c->size, strlen(want));
    ck_assert_int_eq(memcmp(c->data, want, c->size), 0);
}

START_TEST(many_jobs_are_each_answered_once)
{
    static const char *const workers[] = {"1", "2", "16"};
    enum { JOBS = 30000 };

    start_ready(workers[_i], "any");
    uint32_t n = load("fork"), submitted = 0, done = 0;
    static uint8_t is_out[RING_SLOTS];
    struct call call = CALL(n, NULL, ARGS("12", 1));
    while (done < JOBS) {
        struct front_completion c;
        uint32_t slot;
        while (submitted < JOBS && (slot = submit(&call)) != RING_NONE) {
            ck_assert(!is_out[slot]);
            is_out[slot] = 1;
            submitted++;
        }
        ck_assert(next(&c));
        do {
            ck_assert_int_eq(c.kind, COMPLETION_DONE);
            ck_assert(is_out[c.slot]);
            is_out[c.slot] = 0;
            answer_of_fib(&c, "144\n");
            front_retire(&front, c.slot);
            done++;
        } while (front_next(&front, &c) == 0);
    }
    ck_assert_uint_eq(submitted, done);
    finish();
}
END_TEST

START_TEST(one_job_spreads_over_all_workers)
{
    char out[64];

    start_ready("4", "any");
    uint32_t n = load("fork");
    struct front_completion c = run(&CALL(n, NULL, ARGS("27", 1)), out, sizeof(out));
    ck_assert_str_eq(out, "196418\n");
    /* 40 x 5 ms of CPU over all workers: charged to the job wherever they ran */
    c = run(&CALL(n, "burn", ARGS("40\0005000", 2)), out, sizeof(out));
    ck_assert_int_eq(c.exit, 0);
    ck_assert_uint_ge(c.cpu_usec, 195000);
    ck_assert_uint_le(c.cpu_usec, 320000);
    finish();
}
END_TEST

/* --- output ------------------------------------------------------------------------------------------------------- */

static uint64_t check_pattern(const uint8_t *data, size_t size, uint64_t at)
{
    for (size_t i = 0; i < size; i++, at++)
        if (data[i] != (uint8_t)(at / 8 * 8 >> at % 8 * 8))
            ck_abort_msg("byte %llu of the output is wrong", (unsigned long long)at);
    return at;
}

static void output_arrives(uint32_t n, const char *function, uint64_t size)
{
    struct front_completion c;
    char text[32];
    uint64_t at = 0;

    snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
    uint32_t slot = submit(&CALL(n, function, .args = text, .args_size = strlen(text) + 1, .argc = 1));
    do {
        ck_assert(next(&c));
        ck_assert_uint_eq(c.slot, slot);
        at = check_pattern(c.data, c.size, at);
        if (c.kind == COMPLETION_OUTPUT)
            front_release(&front, c.chunk, c.run);
    } while (c.kind != COMPLETION_DONE);
    ck_assert_int_eq(c.exit, 0);
    ck_assert_uint_eq(at, size);
    ck_assert_uint_eq(c.output_size, size);
    front_retire(&front, slot);
}

START_TEST(output_of_every_size_arrives_in_order)
{
    static const uint64_t sizes[] = {0,
                                     1,
                                     RING_SMALL - 1,
                                     RING_SMALL,
                                     RING_SMALL + 1,
                                     RING_CHUNK - 1,
                                     RING_CHUNK,
                                     RING_CHUNK + 1,
                                     3 * RING_CHUNK,
                                     3 * RING_CHUNK + RING_SMALL,
                                     5000000,
                                     (uint64_t)RING_CHUNK * RING_CHUNKS + 12345};

    start_ready("2", "any");
    uint32_t n = load("bigoutput");
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        output_arrives(n, "bigoutput", sizes[i]);
        output_arrives(n, "written", sizes[i]);
    }
    for (uint32_t i = 0; i < RING_CHUNKS; i++)
        ck_assert_uint_eq(front.up->chunks[i].used, 0);
    finish();
}
END_TEST

START_TEST(reservations_of_every_size_are_met)
{
    char *out = malloc(8u << 20);

    start_ready("1", "any");
    uint32_t n = load("bigoutput");
    struct front_completion c = run(&CALL(n, "sizes", ), out, 8u << 20);
    ck_assert_msg(c.exit == 0, "%s", c.error);
    uint64_t at = check_pattern((uint8_t *)out, c.output_size, 0);
    ck_assert_uint_eq(at, c.output_size);
    ck_assert_uint_gt(at, 2u << 20);
    c = run(&CALL(n, "largest", ), out, 8u << 20);
    ck_assert_int_eq(c.exit, 0);
    ck_assert_uint_eq(check_pattern((uint8_t *)out, c.output_size, 0), 8 + 2 * WSD_RESERVE_MAX);
    free(out);
    finish();
}
END_TEST

START_TEST(job_with_a_stalled_reader_waits_and_stops_no_other)
{
    struct front_completion c, held[RING_JOB_CHUNKS];
    uint32_t n_held = 0, chunks = 0;
    char out[64];

    start_ready("2", "any");
    uint32_t n = load("bigoutput"), echo = load("echo");
    uint32_t slow = submit(&CALL(n, NULL, ARGS("20000000", 1)));
    while (chunks < RING_JOB_CHUNKS) {
        ck_assert(next(&c));
        held[n_held++] = c;
        chunks += c.run;
    }
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(run(&CALL(echo, NULL, ARGS("hi", 1)), out, sizeof(out)).exit, 0);
        ck_assert_str_eq(out, "hi\n");
    }
    uint64_t at = 0;
    for (uint32_t i = 0; i < n_held; i++) {
        at = check_pattern(held[i].data, held[i].size, at);
        front_release(&front, held[i].chunk, held[i].run);
    }
    do {
        ck_assert(next(&c));
        ck_assert_uint_eq(c.slot, slow);
        at = check_pattern(c.data, c.size, at);
        if (c.kind == COMPLETION_OUTPUT)
            front_release(&front, c.chunk, c.run);
    } while (c.kind != COMPLETION_DONE);
    ck_assert_uint_eq(at, 20000000);
    front_retire(&front, slow);
    finish();
}
END_TEST

START_TEST(cancelled_job_stops_waiting_for_room)
{
    struct front_completion c;
    uint32_t chunks = 0, first = RING_NONE;

    start_ready("1", "any");
    uint32_t slot = submit(&CALL(load("bigoutput"), NULL, ARGS("20000000", 1)));
    while (chunks < RING_JOB_CHUNKS) {
        ck_assert(next(&c));
        first = first == RING_NONE ? c.chunk : first;
        chunks += c.run;
    }
    usleep(20000);
    ck_assert_int_eq(front_next(&front, &c), FRONT_NONE);
    front_cancel(&front, slot);
    ck_assert(next(&c));
    ck_assert_int_eq(c.kind, COMPLETION_DONE);
    ck_assert_int_eq(c.exit, 1);
    ck_assert_str_eq(c.error, "nobody reads");
    finish();
}
END_TEST

/* --- cancel, recall, deadline ------------------------------------------------------------------------------------- */

START_TEST(cancelled_job_ends_and_waiting_one_is_recalled)
{
    struct front_completion c;

    start_ready("1", "any");
    uint32_t n = load("spin");
    uint32_t spins = submit(&CALL(n, NULL, )), waits = submit(&CALL(n, NULL, ));
    wait_running(spins);
    ck_assert(!front_recall(&front, spins));
    ck_assert(front_recall(&front, waits));
    front_cancel(&front, spins);
    ck_assert(next(&c));
    ck_assert_int_eq(c.kind, COMPLETION_DONE);
    ck_assert_uint_eq(c.slot, spins);
    ck_assert_int_eq(c.exit, 1);
    ck_assert_str_eq(c.error, "stopped");
    front_retire(&front, spins);
    ck_assert(next(&c));
    ck_assert_int_eq(c.kind, COMPLETION_RECALLED);
    ck_assert_uint_eq(c.slot, waits);
    front_retire(&front, waits);
    finish();
}
END_TEST

START_TEST(job_sees_that_its_time_is_up)
{
    start_ready("1", "any");
    struct front_completion c = run(&CALL(load("spin"), NULL, .timeout_usec = 50000), NULL, 0);
    ck_assert_int_eq(c.exit, 1);
    ck_assert_uint_ge(c.ended_usec - c.started_usec, 50000);
    finish();
}
END_TEST

/* --- inputs ------------------------------------------------------------------------------------------------------- */

static int input_memfd(size_t size, bool sealed)
{
    int fd = memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    for (size_t at = 0; at < size; at += 4096)
        ck_assert_int_eq(pwrite(fd, "abcdefgh", MIN(8, size - at), (off_t)at), (ssize_t)MIN(8, size - at));
    if (sealed)
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
    return fd;
}

START_TEST(input_by_descriptor_is_mapped_whenever_it_comes)
{
    enum { SIZE = 3000000 };
    char *out = malloc(SIZE);

    start_ready("2", "any");
    uint32_t n = load("upper");
    for (int late = 0; late < 2; late++) {
        int fd = input_memfd(SIZE, true);
        uint32_t generation, slot = prepare(&CALL(n, NULL, .flags = DOWN_INPUT_FD, .input_size = SIZE), &generation);
        if (!late)
            send_fd(CONTROL_INPUT, slot, generation, 0, 0, fd);
        front_submit(&front, slot, UINT32_MAX);
        front_ring(&front);
        if (late) {
            wait_running(slot);
            usleep(5000);
            send_fd(CONTROL_INPUT, slot, generation + 1, 0, 0, control); /* not this job's */
            usleep(5000);
            send_fd(CONTROL_INPUT, slot, generation, 0, 0, fd);
        }
        close(fd);
        struct front_completion c = wait_done(slot, out, SIZE);
        ck_assert_msg(c.exit == 0, "%s", c.error);
        ck_assert_uint_eq(c.output_size, SIZE);
        ck_assert_int_eq(memcmp(out, "ABCDEFGH\0", 9), 0);
        ck_assert_int_eq(memcmp(out + 4096, "ABCDEFGH\0", 9), 0);
    }
    free(out);
    finish();
}
END_TEST

START_TEST(input_that_could_change_is_refused)
{
    static const size_t sizes[] = {5000, 4999};

    start_ready("1", "any");
    uint32_t n = load("upper");
    for (int i = 0; i < 2; i++) { /* first not sealed, then not of the size that was said */
        int fd = input_memfd(5000, i == 1);
        uint32_t generation,
            slot = prepare(&CALL(n, NULL, .flags = DOWN_INPUT_FD, .input_size = sizes[i]), &generation);
        send_fd(CONTROL_INPUT, slot, generation, 0, 0, fd);
        close(fd);
        front_submit(&front, slot, UINT32_MAX);
        front_ring(&front);
        struct front_completion c = wait_done(slot, NULL, 0);
        ck_assert_int_eq(c.exit, 63);
        ck_assert_str_eq(c.error, "its input cannot be mapped");
    }
    finish();
}
END_TEST

START_TEST(job_that_waits_for_its_input_can_be_cancelled)
{
    uint32_t generation, slot;

    start_ready("1", "any");
    slot = prepare(&CALL(load("upper"), NULL, .flags = DOWN_INPUT_FD, .input_size = 5), &generation);
    front_submit(&front, slot, UINT32_MAX);
    front_ring(&front);
    wait_running(slot);
    front_cancel(&front, slot);
    struct front_completion c = wait_done(slot, NULL, 0);
    ck_assert_int_eq(c.exit, 63);
    ck_assert_str_eq(c.error, "cancelled before its input came");
    finish();
}
END_TEST

/* --- arenas ------------------------------------------------------------------------------------------------------- */

#define PARTS(n, a) CALL(n, "shared", .flags = DOWN_ARENA, .arena = (a), .input_size = 4096, .output_size = 4096)

static struct front_completion run_parts(uint32_t plugin, uint32_t arena)
{
    return wait_end(submit(&PARTS(plugin, arena)), NULL, 0, 4096);
}

static int arena_memfd(const char *text)
{
    int fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_eq(ftruncate(fd, 8192), 0);
    ck_assert_int_eq(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    return fd;
}

/* A job waits for what the control thread has to bring. */
static void wait_waiting(void)
{
    uint64_t end = clock_monotonic_usec() + WAIT_USEC;

    while (atomic_load(&front.up->space.waiters) == 0) {
        ck_assert_msg(clock_monotonic_usec() < end, "no job waits");
        usleep(1000);
    }
}

static void expect_output(int fd, const char *text)
{
    char out[4096] = "";

    ck_assert_int_eq(pread(fd, out, sizeof(out), 4096), (ssize_t)sizeof(out));
    ck_assert_str_eq(out, text);
}

START_TEST(arena_is_waited_for_and_stays)
{
    int mine = arena_memfd("mine"), other = arena_memfd("other");
    uint32_t generation, slot;

    start_ready("1", "any");
    uint32_t n = load("echo");
    slot = prepare(&PARTS(n, 7), &generation);
    front_submit(&front, slot, UINT32_MAX);
    front_ring(&front);
    wait_waiting();
    send_fd(CONTROL_ARENA, 0, 0, 8, 0, other);
    send_fd(CONTROL_ARENA, 0, 0, 7, 0, mine);
    struct front_completion c = wait_end(slot, NULL, 0, 4096);
    ck_assert_msg(c.exit == 0, "%s", c.error);
    expect_output(mine, "mine");
    expect_output(other, "");
    ck_assert_int_eq(pwrite(mine, "more", 4, 0), 4);
    for (int i = 0; i < 2; i++) { /* nothing more has to come */
        c = run_parts(n, 7 + (uint32_t)i);
        ck_assert_int_eq(c.exit, 0);
    }
    expect_output(mine, "more");
    expect_output(other, "other");
    /* another one in its place; its job is taken before the executor hears of that */
    slot = prepare(&PARTS(n, 7 + RING_ARENAS), &generation);
    front_submit(&front, slot, UINT32_MAX);
    front_ring(&front);
    wait_waiting();
    ck_assert_int_eq(pwrite(other, "third", 5, 0), 5);
    send_fd(CONTROL_ARENA_DROP, 0, 0, 7, 0, -1);
    send_fd(CONTROL_ARENA, 0, 0, 7 + RING_ARENAS, 0, other);
    c = wait_end(slot, NULL, 0, 4096);
    ck_assert_int_eq(c.exit, 0);
    expect_output(other, "third");
    expect_output(mine, "more");
    close(mine);
    close(other);
    finish();
}
END_TEST

START_TEST(arena_without_such_a_part_fails_its_job)
{
    int fd = arena_memfd("text");
    struct front_completion c;

    start_ready("1", "any");
    uint32_t n = load("echo");
    send_fd(CONTROL_ARENA, 0, 0, 0, 0, fd);
    for (int i = 0; i < 2; i++) {
        c = run(&CALL(n, "shared", .flags = DOWN_ARENA, .input_size = i ? 4096 : 8193, .output_size = i ? 4097 : 0),
                NULL, 0);
        ck_assert_int_eq(c.exit, 63);
        ck_assert_str_eq(c.error, "its part of the arena cannot be mapped");
    }
    c = run_parts(n, 0);
    ck_assert_int_eq(c.exit, 0);
    close(fd);
    finish();
}
END_TEST

START_TEST(job_that_waits_for_its_arena_can_be_cancelled)
{
    uint32_t generation, slot;

    start_ready("1", "any");
    slot = prepare(&PARTS(load("echo"), 7), &generation);
    front_submit(&front, slot, UINT32_MAX);
    front_ring(&front);
    wait_waiting();
    front_cancel(&front, slot);
    struct front_completion c = wait_done(slot, NULL, 0);
    ck_assert_int_eq(c.exit, 63);
    ck_assert_str_eq(c.error, "cancelled before its arena came");
    finish();
}
END_TEST

/* The input of the job before is unmapped after its answer, and not charged to any job. */
START_TEST(job_does_not_pay_for_the_input_of_the_one_before)
{
    enum { SIZE = 64 << 20 };
    struct front_completion large, small;
    int fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_eq(ftruncate(fd, SIZE), 0);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    start_ready("1", "any");
    uint32_t n = load("echo"), generation;
    send_fd(CONTROL_ARENA, 0, 0, 0, 0, fd);
    small = wait_done(submit(&CALL(n, "cat", .flags = DOWN_INPUT_PART | DOWN_INPUT_COPY, .input_size = 1)), NULL, 0);
    ck_assert_msg(small.exit == 0, "%s", small.error); /* the arena is there */
    uint32_t before =
        prepare(&CALL(n, "cat", .flags = DOWN_INPUT_PART | DOWN_INPUT_COPY, .input_size = SIZE), &generation);
    uint32_t after = prepare(&CALL(n, "cat", .flags = DOWN_INPUT_PART | DOWN_INPUT_COPY, .input_size = 1), &generation);
    front_submit(&front, before, UINT32_MAX);
    front_submit(&front, after, UINT32_MAX);
    front_ring(&front);
    large = wait_done(before, NULL, 0);
    small = wait_done(after, NULL, 0);
    ck_assert_msg(large.exit == 0 && small.exit == 0, "%s%s", large.error, small.error);
    ck_assert_uint_gt(small.started_usec, large.ended_usec); /* else the same reading of the clock */
    close(fd);
    finish();
}
END_TEST

START_TEST(executor_that_is_told_nonsense_of_arenas_ends)
{
    static const struct {
        enum control_kind kind;
        uint32_t number;
    } nonsense[] = {{CONTROL_ARENA, 3 + RING_ARENAS},
                    {CONTROL_ARENA, 3},
                    {CONTROL_ARENA_DROP, 4},
                    {CONTROL_ARENA_DROP, UINT32_MAX}};
    int fd = arena_memfd("text");

    start_ready("1", "any");
    send_fd(CONTROL_ARENA, 0, 0, 3, 0, fd);
    send_fd(nonsense[_i].kind, 0, 0, nonsense[_i].number, 0, nonsense[_i].kind == CONTROL_ARENA ? fd : -1);
    ck_assert_int_eq(reap(), 1);
    close(fd);
}
END_TEST

/* A job of `echo` with output that goes to fd. written: with AGAIN, by an earlier try. */
static uint32_t submit_to(uint32_t plugin, uint32_t flags, int fd, uint64_t written)
{
    uint32_t generation,
        slot = prepare(&CALL(plugin, NULL, ARGS("word", 1), .flags = DOWN_OUTPUT_FD | flags, .output_size = written),
                       &generation);

    send_fd(CONTROL_OUTPUT, slot, generation, 0, 0, fd);
    front_submit(&front, slot, UINT32_MAX);
    front_ring(&front);
    return slot;
}

static void file_has(int fd, const char *text)
{
    char got[64];
    ssize_t n = pread(fd, got, sizeof(got), 0);

    ck_assert_int_eq(n, (ssize_t)strlen(text));
    ck_assert_int_eq(memcmp(got, text, (size_t)n), 0);
}

START_TEST(output_goes_to_a_file_and_can_be_cut_off_again)
{
    int fd = memfd_create("output", MFD_CLOEXEC);
    struct ring_written written = {0};
    struct front_completion c;
    uint32_t slot;

    start_ready("1", "any");
    uint32_t n = load("echo");
    ck_assert_int_eq(write(fd, "before ", 7), 7);
    slot = submit_to(n, 0, fd, 0);
    do
        ck_assert(next(&c));
    while (c.kind != COMPLETION_DONE);
    ck_assert_msg(c.exit == 0, "%s", c.error);
    ck_assert_uint_eq(c.output_size, 5);
    file_has(fd, "before word\n");
    ck_assert_int_eq(front_close_output(&front, slot, &written), RING_OUTPUT_FILE);
    ck_assert(written.begin == 7 && written.size == 5);
    ck_assert_int_eq(front_close_output(&front, slot, &written), RING_OUTPUT_GIVEN); /* closed: no cut by another */
    front_retire(&front, slot);
    /* at the end of what another try has written from 0 on */
    c = wait_end(submit_to(n, DOWN_OUTPUT_AGAIN, fd, 12), NULL, 0, 5);
    ck_assert_msg(c.exit == 0, "%s", c.error);
    file_has(fd, "word\n");
    ck_assert_int_eq(write(fd, "x", 1), 1); /* another's, by the same open file: it stays */
    c = wait_done(submit_to(n, DOWN_OUTPUT_AGAIN, fd, 5), NULL, 0);
    ck_assert_int_eq(c.exit, 63);
    ck_assert_ptr_nonnull(strstr(c.error, "others may have written into the file"));
    file_has(fd, "word\nx");
    ck_assert_int_eq(ftruncate(fd, 0), 0); /* as a try does that dies then: the position is behind the end */
    c = wait_end(submit_to(n, DOWN_OUTPUT_AGAIN, fd, 6), NULL, 0, 5);
    ck_assert_msg(c.exit == 0, "%s", c.error);
    file_has(fd, "word\n");
    close(fd);
    finish();
}
END_TEST

START_TEST(output_that_cannot_be_recalled_is_given)
{
    struct ring_written written;
    struct front_completion c;
    int pair[2], fd = memfd_create("output", MFD_CLOEXEC);

    start_ready("1", "any");
    uint32_t n = load("echo");
    ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
    ck_assert_int_eq(pwrite(fd, "behind it", 9, 0), 9);
    for (int i = 0; i < 2; i++) { /* a pipe; a file with content behind its position */
        uint32_t slot = submit_to(n, 0, i ? fd : pair[1], 0);
        do
            ck_assert(next(&c));
        while (c.kind != COMPLETION_DONE);
        ck_assert_msg(c.exit == 0, "%s", c.error);
        ck_assert_int_eq(front_close_output(&front, slot, &written), RING_OUTPUT_GIVEN);
        front_retire(&front, slot);
    }
    file_has(fd, "word\nd it");
    close(pair[0]);
    c = wait_done(submit_to(n, 0, pair[1], 0), NULL, 0);
    ck_assert_int_eq(c.exit, 63);
    ck_assert_ptr_nonnull(strstr(c.error, "the reader of its output has gone"));
    close(pair[1]);
    close(fd);
    finish();
}
END_TEST

START_TEST(input_is_streamed_through_a_pipe)
{
    char out[64];
    int pair[2];
    uint32_t generation;

    start_ready("1", "any");
    uint32_t n = load("echo");
    for (int cancel = 0; cancel < 2; cancel++) {
        uint32_t slot = prepare(&CALL(n, "stream", .flags = DOWN_INPUT_PIPE), &generation);
        ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
        send_fd(CONTROL_INPUT, slot, generation, 0, 0, pair[0]);
        close(pair[0]);
        front_submit(&front, slot, UINT32_MAX);
        front_ring(&front);
        ck_assert_int_eq(write(pair[1], "first ", 6), 6);
        wait_running(slot);
        usleep(30000);
        if (cancel) { /* while it waits for more */
            front_cancel(&front, slot);
        } else {
            ck_assert_int_eq(write(pair[1], "second", 6), 6);
            close(pair[1]);
        }
        struct front_completion c = wait_done(slot, out, sizeof(out));
        if (cancel) {
            ck_assert_int_ne(c.exit, 0);
            close(pair[1]);
        } else {
            ck_assert_int_eq(c.exit, 0);
            ck_assert_str_eq(out, "first second");
        }
    }
    finish();
}
END_TEST

/* --- files -------------------------------------------------------------------------------------------------------- */

START_TEST(files_are_opened_by_the_submitter_where_it_has_the_rights)
{
    struct control c;
    char out[64];
    int pair[2];

    start_ready("1", "any");
    uint32_t n = load("echo"), slot = submit(&CALL(n, "cat", ARGS("some/file", 1), .directory = "/home/him"));
    receive(&c);
    ck_assert_uint_eq(c.kind, CONTROL_OPEN);
    ck_assert_uint_eq(c.slot, slot);
    ck_assert_str_eq(c.text, "some/file");
    ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
    ck_assert_int_eq(write(pair[1], "bytes", 5), 5);
    close(pair[1]);
    send_fd(CONTROL_OPENED, slot, c.generation, c.number + 1, EPERM, -1);  /* not asked for */
    send_fd(CONTROL_OPENED, slot, c.generation + 1, c.number, EACCES, -1); /* another job's */
    send_fd(CONTROL_OPENED, slot, c.generation, c.number, 0, pair[0]);
    struct front_completion d = wait_done(slot, out, sizeof(out));
    ck_assert_int_eq(d.exit, 0);
    ck_assert_str_eq(out, "bytes");

    static const uint32_t errors[] = {ENOENT, EACCES, ENOTCONN, 0, 100000};
    for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
        slot = submit(&CALL(n, "cat", ARGS("some/file", 1)));
        receive(&c);
        send_fd(CONTROL_OPENED, slot, c.generation, errors[i] == ENOTCONN ? RING_NONE : c.number, errors[i], -1);
        d = wait_done(slot, out, sizeof(out));
        ck_assert_int_eq(d.exit, 1);
        ck_assert_ptr_nonnull(strstr(d.error, strerror(errors[i] && errors[i] < 4096 ? (int)errors[i] : EIO)));
    }
    slot = submit(&CALL(n, "cat", ARGS("some/file", 1)));
    receive(&c);
    front_cancel(&front, slot);
    ck_assert_int_eq(wait_done(slot, out, sizeof(out)).exit, 1);
    finish();
}
END_TEST

START_TEST(files_are_opened_here_where_the_executor_has_the_rights)
{
    char top[] = "/tmp/wsd-test-files-XXXXXX", path[64], out[64];

    ck_assert_ptr_nonnull(mkdtemp(top));
    snprintf(path, sizeof(path), "%s/file", top);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(fd, "content", 7), 7);
    close(fd);
    snprintf(path, sizeof(path), "%s/fifo", top);
    ck_assert_int_eq(mkfifo(path, 0600), 0);

    start_ready("1", "any");
    uint32_t n = load("echo");
    struct call call = CALL(n, "cat", ARGS("file", 1), .flags = DOWN_SAME_USER, .directory = top);
    ck_assert_int_eq(run(&call, out, sizeof(out)).exit, 0);
    ck_assert_str_eq(out, "content");
    call.directory = NULL;
    struct front_completion c = run(&call, out, sizeof(out));
    ck_assert_str_eq(c.error, "file: No such file or directory");
    c = run(&CALL(n, "cat", ARGS("fifo", 1), .flags = DOWN_SAME_USER, .directory = top), out, sizeof(out));
    ck_assert_str_eq(c.error, "fifo: No such device or address");
    c = run(&CALL(n, "cat", ARGS("/dev/zero", 1), .flags = DOWN_SAME_USER), out, sizeof(out));
    ck_assert_str_eq(c.error, "/dev/zero: No such device or address");
    run(&CALL(n, "directory", .flags = DOWN_SAME_USER, .directory = top), out, sizeof(out));
    ck_assert_int_eq(strncmp(out, top, strlen(top)), 0);
    run(&CALL(n, "directory", .directory = top), out, sizeof(out));
    ck_assert_str_eq(out, "(none)\n");
    finish();
    char command[128];
    snprintf(command, sizeof(command), "rm -r '%s'", top);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* --- nonsense ----------------------------------------------------------------------------------------------------- */

START_TEST(malformed_jobs_fail_and_harm_no_other)
{
    char out[64];

    start_ready("2", "any");
    uint32_t n = load("echo"), generation;
    struct front_completion c = run(&CALL(n, "#99", ), out, sizeof(out));
    ck_assert_int_eq(c.exit, 63);
    ck_assert_str_eq(c.error, "wsd handed over a job of an unknown function");
    ck_assert_int_eq(run(&CALL(n + 1, NULL, ), out, sizeof(out)).exit, 63);
    ck_assert_int_eq(run(&CALL(UINT32_MAX, NULL, ), out, sizeof(out)).exit, 63);

    for (int i = 0; i < 12; i++) {
        uint32_t slot = prepare(&CALL(n, NULL, ARGS("a\0b", 2), .directory = "/d"), &generation);
        struct down_slot *d = &front.down->slots[slot];
        switch (i) {
        case 0:
            d->blob = UINT32_MAX;
            break;
        case 1:
            d->blob = 0;
            break;
        case 2:
            d->blob = (uint32_t)front.down->size - 1;
            break;
        case 3:
            d->args_size = UINT32_MAX;
            break;
        case 4:
            d->directory_size = UINT32_MAX;
            break;
        case 5:
            d->input_size = UINT64_MAX;
            break;
        case 6:
            d->argc = 3;
            break;
        case 7:
            d->argc = UINT16_MAX;
            break;
        case 8:
            d->argc = 1;
            break;
        case 9:
            d->generation++;
            break;
        case 10:
            d->args_size = 3;
            break; /* does not end in NUL */
        case 11:
            d->directory_size = 2;
            break;
        }
        front_submit(&front, slot, UINT32_MAX);
        front_ring(&front);
        c = wait_done(slot, out, sizeof(out));
        ck_assert_msg(c.exit == 63, "case %d: %d", i, c.exit);
        ck_assert_ptr_nonnull(strstr(c.error, "malformed"));
    }
    /* entries that lead nowhere are passed over */
    atomic_store(&front.down->ring[front.tail % RING_SLOTS], UINT64_MAX);
    front.tail++;
    atomic_store(&front.down->tail, front.tail);
    atomic_store(&front.down->ring[front.tail % RING_SLOTS], ring_entry(77, 5, 0));
    front.tail++;
    atomic_store(&front.down->tail, front.tail);
    c = run(&CALL(n, NULL, ARGS("hi", 1)), out, sizeof(out));
    ck_assert_str_eq(out, "hi\n");
    /* a tail out of all bounds means that there is nothing */
    atomic_store(&front.down->tail, front.tail + 1000000);
    front_ring(&front);
    usleep(10000);
    atomic_store(&front.down->tail, front.tail);
    c = run(&CALL(n, NULL, ARGS("hi", 1)), out, sizeof(out));
    ck_assert_str_eq(out, "hi\n");
    /* packets about nothing */
    send_fd(CONTROL_INPUT, 99999, 1, 0, 0, front.bell_fd);
    send_fd(CONTROL_INPUT, 3, 1, 0, 0, -1);
    send_fd(CONTROL_OPENED, 99999, 1, 0, 0, front.bell_fd);
    send_fd((enum control_kind)200, 0, 0, 0, 0, front.bell_fd);
    c = run(&CALL(n, NULL, ARGS("hi", 1)), out, sizeof(out));
    ck_assert_str_eq(out, "hi\n");
    finish();
}
END_TEST

START_TEST(malformed_packet_ends_the_executor)
{
    start_ready("1", "any");
    ck_assert_int_eq(send(control, "x", 1, 0), 1);
    ck_assert_int_eq(reap(), 1);
}
END_TEST

/* --- faults ------------------------------------------------------------------------------------------------------- */

static struct fault_note crash(const char *function, int ended)
{
    bool stolen = strcmp(function, "stolen") == 0;
    struct front_completion c;
    struct fault_note note = {.signal = -1};

    start_ready("2", "any");
    uint32_t n = load("crash"), sleeper = load("sleep");
    uint32_t innocent = submit(&CALL(sleeper, NULL, ARGS("60000", 1)));
    wait_running(innocent);
    uint32_t guilty;
    if (stolen) { /* the innocent must not keep the thief busy */
        front_cancel(&front, innocent);
        wait_done(innocent, NULL, 0);
        /* a slot other than the first */
        uint32_t generation, unused = prepare(&CALL(n, function, ), &generation);
        guilty = submit(&CALL(n, function, ));
        front_abandon(&front, unused);
    } else {
        guilty = submit(&CALL(n, function, ));
    }
    ck_assert(!next(&c));
    ck_assert_int_eq(reap(), ended);
    bool noted = front_fault(&front, &note);
    ck_assert_int_eq(noted, strcmp(function, "kill") != 0);
    if (noted)
        ck_assert_uint_eq(note.slot, guilty);
    ck_assert_int_eq(front_autopsy(&front, guilty, &c), RING_RUNNING);
    if (!stolen)
        ck_assert_int_eq(front_autopsy(&front, innocent, &c), RING_RUNNING);
    return note;
}

START_TEST(segmentation_fault_names_its_job)
{
    struct fault_note note = crash("segv", 1000 + SIGSEGV);

    ck_assert_int_eq(note.signal, SIGSEGV);
    ck_assert_int_ne(note.code, FAULT_STACK);
    ck_assert_uint_eq(note.address, 0x1238);
    ck_assert_uint_lt(note.worker, 2);
}
END_TEST

START_TEST(abort_names_its_job)
{
    ck_assert_int_eq(crash("abort", 1000 + SIGABRT).signal, SIGABRT);
}
END_TEST

START_TEST(exit_out_of_a_plugin_names_its_job)
{
    struct fault_note note = crash("exit", 70);

    ck_assert_int_eq(note.signal, 0);
    ck_assert_int_eq(note.code, FAULT_EXIT);
}
END_TEST

START_TEST(kill_leaves_no_note)
{
    crash("kill", 1000 + SIGKILL);
}
END_TEST

START_TEST(stack_overflow_names_its_job)
{
    struct fault_note note = crash("overflow", 1000 + SIGSEGV);

    ck_assert_int_eq(note.signal, SIGSEGV);
    ck_assert_int_eq(note.code, FAULT_STACK);
    ck_assert_uint_eq(note.address, 8u << 20);
}
END_TEST

START_TEST(fault_in_a_stolen_task_names_its_job)
{
    ck_assert_int_eq(crash("stolen", 1000 + SIGSEGV).signal, SIGSEGV);
}
END_TEST

START_TEST(job_that_does_not_join_its_tasks_is_named)
{
    struct front_completion c;
    struct fault_note note;

    start_ready("1", "any");
    uint32_t slot = submit(&CALL(load("fork"), "unjoined", ));
    ck_assert(!next(&c));
    ck_assert_int_eq(reap(), 1000 + SIGABRT);
    ck_assert(front_fault(&front, &note));
    ck_assert_uint_eq(note.slot, slot);
}
END_TEST

/* --- the process -------------------------------------------------------------------------------------------------- */

START_TEST(everything_accepted_runs_before_the_end)
{
    struct front_completion c;
    uint32_t done = 0;

    start_ready("2", "any");
    uint32_t n = load("sleep");
    for (int i = 0; i < 20; i++)
        submit(&CALL(n, NULL, ARGS("10", 1)));
    finish();
    while (front_next(&front, &c) == 0) {
        ck_assert_int_eq(c.kind, COMPLETION_DONE);
        ck_assert_int_eq(c.exit, 0);
        done++;
    }
    ck_assert_uint_eq(done, 20);
}
END_TEST

START_TEST(end_of_the_control_socket_is_the_end)
{
    start_ready("2", "any");
    uint32_t slot = submit(&CALL(load("spin"), "deaf", ));
    wait_running(slot);
    close(control);
    ck_assert_int_eq(reap(), 1);
}
END_TEST

START_TEST(death_of_the_parent_is_the_end)
{
    int pair[2];

    /* a child is the parent; it tells the executor's pid and dies, but we keep the control socket open */
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    pid_t parent = fork();
    if (parent == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        start_ready("1", "any");
        uint32_t slot = submit(&CALL(load("spin"), "deaf", ));
        wait_running(slot);
        char data = 0;
        struct iovec iov = {.iov_base = &data, .iov_len = 1};
        union {
            struct cmsghdr header;
            char room[CMSG_SPACE(sizeof(int))];
        } u = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof(u)};
        memcpy(CMSG_DATA(&u.header), &control, sizeof(int));
        if (sendmsg(pair[1], &m, 0) != 1 || write(pair[1], &pid, sizeof(pid)) != sizeof(pid))
            _exit(1);
        _exit(0);
    }
    char data, room[64];
    struct iovec iov = {.iov_base = &data, .iov_len = 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    ck_assert_int_eq(recvmsg(pair[0], &m, MSG_CMSG_CLOEXEC), 1);
    ck_assert_int_eq(read(pair[0], &pid, sizeof(pid)), sizeof(pid));
    waitpid(parent, NULL, 0);
    ck_assert_int_eq(reap(), 1000 + SIGKILL);
}
END_TEST

static bool status_has(const char *line)
{
    char path[64], text[4096];

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    ck_assert_int_gt(n, 0);
    text[n] = 0;
    return strstr(text, line) != NULL;
}

START_TEST(process_is_settled)
{
    char path[64];
    struct stat st;

    start_ready("1", "any");
    ck_assert(status_has("NoNewPrivs:\t1\n"));
    ck_assert(status_has("Umask:\t0077\n"));
    /* descriptors not passed on purpose are closed, and those used up at start */
    static const int gone[] = {3, 4, 40, 50, 51, 52, 53};
    for (size_t i = 0; i < ARRAY_SIZE(gone); i++) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, gone[i]);
        /* one of its threads may have opened something for a moment: what was given stays, until check ends the case */
        while (lstat(path, &st) == 0)
            usleep(1000);
    }
    /* it ends by its control socket, whatever a terminal or systemd sends to the whole group */
    kill(pid, SIGTERM);
    kill(pid, SIGINT);
    kill(pid, SIGHUP);
    char out[16];
    ck_assert_int_eq(run(&CALL(load("echo"), NULL, ARGS("hi", 1)), out, sizeof(out)).exit, 0);
    finish();
}
END_TEST

START_TEST(wrong_start_is_refused)
{
    pid = fork();
    if (pid == 0) {
        for (int fd = 2; fd < 10; fd++)
            close(fd);
        execl(getenv("TEST_EXECUTOR"), "wsd-executor", "1", "/tmp", "any", "err", "free", "8388608", sandbox,
              (char *)NULL);
        _exit(126);
    }
    ck_assert_int_eq(reap(), 1);
    pid = fork();
    if (pid == 0) {
        close(2);
        execl(getenv("TEST_EXECUTOR"), "wsd-executor", "0", "/tmp", "any", "err", "free", "8388608", sandbox,
              (char *)NULL);
        _exit(126);
    }
    ck_assert_int_eq(reap(), 64);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("executor");
    TCase *t = tcase_create("executor");

    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, plugin_is_loaded_and_described);
    tcase_add_test(t, plugin_that_cannot_be_loaded_harms_no_other);
    tcase_add_test(t, init_that_crashes_takes_only_its_executor);
    tcase_add_test(t, fini_runs_at_the_orderly_end);
    tcase_add_test(t, arguments_output_texts_and_times_come_back);
    tcase_add_loop_test(t, many_jobs_are_each_answered_once, 0, 3);
    tcase_add_test(t, one_job_spreads_over_all_workers);
    tcase_add_test(t, output_of_every_size_arrives_in_order);
    tcase_add_test(t, reservations_of_every_size_are_met);
    tcase_add_test(t, job_with_a_stalled_reader_waits_and_stops_no_other);
    tcase_add_test(t, cancelled_job_stops_waiting_for_room);
    tcase_add_test(t, cancelled_job_ends_and_waiting_one_is_recalled);
    tcase_add_test(t, job_sees_that_its_time_is_up);
    tcase_add_test(t, input_by_descriptor_is_mapped_whenever_it_comes);
    tcase_add_test(t, input_that_could_change_is_refused);
    tcase_add_test(t, job_that_waits_for_its_input_can_be_cancelled);
    tcase_add_test(t, arena_is_waited_for_and_stays);
    tcase_add_test(t, arena_without_such_a_part_fails_its_job);
    tcase_add_test(t, job_that_waits_for_its_arena_can_be_cancelled);
    tcase_add_test(t, job_does_not_pay_for_the_input_of_the_one_before);
    tcase_add_loop_test(t, executor_that_is_told_nonsense_of_arenas_ends, 0, 4);
    tcase_add_test(t, output_goes_to_a_file_and_can_be_cut_off_again);
    tcase_add_test(t, output_that_cannot_be_recalled_is_given);
    tcase_add_test(t, input_is_streamed_through_a_pipe);
    tcase_add_test(t, files_are_opened_by_the_submitter_where_it_has_the_rights);
    tcase_add_test(t, files_are_opened_here_where_the_executor_has_the_rights);
    tcase_add_test(t, malformed_jobs_fail_and_harm_no_other);
    tcase_add_test(t, malformed_packet_ends_the_executor);
    tcase_add_test(t, segmentation_fault_names_its_job);
    tcase_add_test(t, abort_names_its_job);
    tcase_add_test(t, exit_out_of_a_plugin_names_its_job);
    tcase_add_test(t, kill_leaves_no_note);
    tcase_add_test(t, stack_overflow_names_its_job);
    tcase_add_test(t, fault_in_a_stolen_task_names_its_job);
    tcase_add_test(t, job_that_does_not_join_its_tasks_is_named);
    tcase_add_test(t, everything_accepted_runs_before_the_end);
    tcase_add_test(t, end_of_the_control_socket_is_the_end);
    tcase_add_test(t, death_of_the_parent_is_the_end);
    tcase_add_test(t, process_is_settled);
    tcase_add_test(t, wrong_start_is_refused);
    suite_add_tcase(s, t);
    return run_suite(s);
}
