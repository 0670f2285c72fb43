/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds.c: a program that does in random order what the library allows, while another process kills, stops and starts
 * its wsd. Each round makes some of: submits by socket and lane, blocking calls with deadlines, maps, batches, posts,
 * questions, forks, handles that are freed and opened again. Callbacks throw, fork, call and free the handle.
 *
 *     rounds [-s SEED] [-b FIRST] [-n ROUNDS] [-F] PLUGIN
 *     rounds -p FILE
 *
 * With -p it only sleeps for 1 ms, again and again, until FILE is there. Then it prints by how many milliseconds that
 * came late within half a second, at worst: so much of a time by the wall clock is the machine's.
 *
 * PLUGIN is the test plugin `direct`. Round i depends on SEED and i only, as far as wsd does the same. -F: no forks.
 *
 * Checks that each call is told once, that outputs are right, and that a child of fork() can do nothing with the
 * handle. Checks that no blocking call lasts longer than its deadline and 50 ms (times TIME_SCALE), nor ends with
 * -ETIMEDOUT before.
 *
 * That time is not the wall clock's. A process beside sleeps for 1 ms, again and again, and counts what has passed, but
 * at most 2 ms each time: this clock stands still while the machine does. The time for which the thread was ready to
 * run and had no CPU (schedstat) is taken off, and that of callbacks which call or fork.
 *
 * Prints one line of NAME=COUNT, and a line for each fault on stderr. Exits 0 where there was none. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wsd/client.h>

#include "tests/support/thrower.h"

#define SLOTS     16384u /* jobs that are remembered: an end that is told too often finds one that has it */
#define MAP_MAX   300u
#define CALLS_MAX 100u
#define LATE_USEC 50000u
#define HANG_USEC 30000000u
#define TICK_USEC 2000u
#define DEPTH_MAX 3u /* of calls in callbacks */
#define THROWN    1000

enum job_state { NONE, OPEN, TOLD, FREED };

struct job {
    enum job_state state;
    unsigned long number;
    struct wsd_call *call;
    uint64_t begun, own_usec, deadline_usec; /* own_usec: on the clock of measured times */
    bool echoes, keeps, watched;             /* watched: nothing but the loop runs until it is told */
    size_t size;                             /* of the output that has come by callback */
    char input[64], output[2048];
};

static struct job jobs[SLOTS];
static struct wsd_client *client;
static unsigned handle_number; /* another one: calls of the last handle are gone */
static bool again, flying, settled, forks = true;
static const char *plugin;
static unsigned depth, chance_throw, chance_nest, chance_fork, chance_free;
static uint64_t scale = 1;
static unsigned long number, n_begun, n_open, n_told, n_freed, n_direct, n_succeeded, n_errors, n_thrown, n_forked,
    n_handles, n_blocking, n_late, n_interrupted, n_faults;
static uint64_t longest_usec;
static _Atomic uint64_t *pulse_usec;
static pid_t pulse_pid;

#define fault(...)                                                                                                     \
    (n_faults++, fprintf(stderr, "round %lu: ", number), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))

/* --- chance ------------------------------------------------------------------------------------------------------- */

static uint64_t chance_state;

static uint32_t draw(void)
{
    chance_state = chance_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(chance_state >> 33);
}

static uint32_t below(uint32_t n)
{
    return draw() % n;
}

static bool once_in(uint32_t n)
{
    return n && below(n) == 0;
}

static uint32_t between(uint32_t from, uint32_t to)
{
    return from + below(to - from + 1);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

static int schedstat_fd = -1;
static uint64_t excused_usec; /* spent in callbacks */

static uint64_t now_usec(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

_Noreturn static void pulse(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint64_t then = now_usec(), now;; then = now) {
        nanosleep(&pause, NULL);
        now = now_usec();
        atomic_fetch_add(pulse_usec, now - then < TICK_USEC ? now - then : TICK_USEC);
    }
}

static void begin_clock(void)
{
    pulse_usec = mmap(NULL, sizeof(*pulse_usec), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pulse_usec == MAP_FAILED || (pulse_pid = fork()) < 0)
        exit(71);
    if (pulse_pid == 0)
        pulse();
    schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

/* The time that this process has had: see above. */
static uint64_t own_usec(void)
{
    char text[128];
    uint64_t waited = 0;
    ssize_t n = schedstat_fd < 0 ? -1 : pread(schedstat_fd, text, sizeof(text) - 1, 0);

    if (n > 0) {
        text[n] = 0;
        char *space = strchr(text, ' ');
        waited = space ? strtoull(space, NULL, 10) / 1000 : 0;
    }
    return atomic_load(pulse_usec) - waited - excused_usec;
}

/* --- blocking calls ----------------------------------------------------------------------------------------------- */

static struct wsd_call *the_call;
static uint64_t the_time, the_begin; /* the_begin: of the deadline, before the call; 0: it begins with that */
static struct wsd_call_request requests[CALLS_MAX];
static struct wsd_call_result results[CALLS_MAX];
static size_t the_n;

/* The call, which a callback may leave: THROWN. */
static int guarded(int (*call)(void))
{
    int r = 0;

    if (!thrower_catches(call, &r))
        return r;
    flying = false;
    return THROWN;
}

/* The same for one that ends in that time at the latest (0: within none worth naming). */
static int measured(const char *what, uint64_t limit_usec, int (*call)(void))
{
    uint64_t begun = own_usec(), wall = the_begin ? the_begin : now_usec();
    int r = guarded(call);
    uint64_t took = own_usec() - begun;

    the_begin = 0;
    settled = false;
    n_blocking++;
    n_late += r == -ETIMEDOUT;
    n_interrupted += r == -EINTR;
    if ((int64_t)took < 0)
        took = 0;
    if (took > limit_usec && took - limit_usec > longest_usec)
        longest_usec = took - limit_usec;
    if (took > limit_usec + LATE_USEC * scale)
        fault("%s with a deadline of %lu us took %lu us (%lu us of the wall clock), and returned %d", what,
              (unsigned long)limit_usec, (unsigned long)took, (unsigned long)(now_usec() - wall), r);
    /* A handle that could not connect in time says so again, with each call. */
    if (r == -ETIMEDOUT && client && wsd_client_connected(client) && now_usec() - wall + 1000 < limit_usec)
        fault("%s with a deadline of %lu us ended with it after %lu us", what, (unsigned long)limit_usec,
              (unsigned long)(now_usec() - wall));
    return r;
}

static int interrupted(void *userdata)
{
    return !depth && once_in(300);
}

static int call_one(void)
{
    return wsd_call(client, &requests[0], &results[0]);
}

static int call_many(void)
{
    return wsd_calls(client, requests, results, the_n);
}

static int call_ping(void)
{
    return wsd_client_ping(client, NULL);
}

static int each_job(const struct wsd_job_info *info, void *userdata)
{
    return 0;
}

static int each_counter(const char *name, uint64_t value, void *userdata)
{
    return 0;
}

static int call_list(void)
{
    return wsd_client_list(client, each_job, NULL);
}

static int call_stats(void)
{
    return wsd_client_stats(client, each_counter, NULL);
}

static int call_lane(void)
{
    return wsd_client_lane(client, WSD_LANE_OPEN);
}

static int call_wait(void)
{
    return wsd_call_wait(the_call, the_time, NULL);
}

static int call_client_wait(void)
{
    return wsd_client_wait(client, the_time);
}

static int call_process(void)
{
    return wsd_client_process(client);
}

static int call_process_some(void)
{
    return wsd_client_process_some(client, 7);
}

static int call_reconnect(void)
{
    return wsd_client_reconnect(client, the_time);
}

static int call_free(void)
{
    struct wsd_client *c = client;

    client = NULL;
    handle_number++;
    wsd_client_free(c);
    return 0;
}

/* --- fork --------------------------------------------------------------------------------------------------------- */

/* 0, or which of the calls did not fail at once. */
static int child(void)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = plugin, .function = "direct"};
    const struct wsd_item item = {.size = sizeof(item)};
    const struct wsd_call_request q = {.size = sizeof(q), .plugin = plugin, .function = "direct"};
    struct wsd_call_result r = {.size = sizeof(r)};
    struct wsd_call *call;

    alarm((unsigned)(20 * scale));
    if (once_in(4))
        return 0;
    const int codes[] = {
        wsd_call(client, &q, &r),
        wsd_client_ping(client, NULL),
        wsd_client_submit(client, &job, NULL, &call),
        wsd_map(client, &job, 0, &item, 1, NULL, NULL),
        wsd_client_process(client),
        wsd_client_reconnect(client, 0),
        wsd_client_wait(client, UINT64_MAX),
        wsd_client_lane(client, WSD_LANE_OPEN),
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (codes[i] != -ECHILD)
            return 1 + (int)i;
    if (once_in(2))
        wsd_client_free(client);
    if (once_in(3)) { /* whatever becomes of it */
        struct wsd_client *own = NULL;
        struct wsd_call_request of_own = q;

        of_own.deadline_usec = 100000;
        if (wsd_client_open(&own, NULL, 100000) == 0)
            (void)wsd_call(own, &of_own, &r);
        wsd_client_free(own);
    }
    return 0;
}

static void fork_one(int (*in_child)(void))
{
    uint64_t begun = now_usec();
    int status = 0;

    if (!forks)
        return;
    n_forked++;
    pid_t pid = fork();
    if (pid == 0)
        _exit(in_child());
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
        fault("child: status %x", (unsigned)status);
    excused_usec += now_usec() - begun;
}

static void adopted_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text,
                         void *userdata)
{
    ++*(unsigned *)userdata;
}

/* A process that opens a handle, submits, and becomes a daemon. */
static int become_daemon(void)
{
    const struct wsd_submit job = {
        .size = sizeof(job), .plugin = plugin, .function = "direct", .flags = once_in(2) ? WSD_SUBMIT_DIRECT : 0u};
    const uint64_t until = now_usec() + HANG_USEC * scale;
    unsigned told[20] = {0}, n = 0;
    int status;

    alarm((unsigned)(2 * HANG_USEC / 1000000 * scale));
    client = NULL;
    if (wsd_client_open(&client, NULL, 1000000) < 0)
        return 0;
    for (unsigned i = 0; i < 20; i++) {
        const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = adopted_done, .userdata = &told[i]};

        if (wsd_client_submit(client, &job, &callbacks, NULL) < 0)
            break;
        n++;
        if (once_in(3))
            wsd_client_process(client);
    }
    pid_t pid = fork();
    if (pid != 0)
        return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 100;
    alarm((unsigned)(2 * HANG_USEC / 1000000 * scale));
    if (wsd_client_adopt(client) < 0)
        _exit(101);
    for (unsigned i = 0; i < n; i++)
        while (!told[i] && now_usec() < until)
            if (wsd_client_wait(client, 20000) == -ECONNRESET)
                break;
    wsd_client_free(client);
    for (unsigned i = 0; i < n; i++)
        if (told[i] != 1)
            _exit(102);
    _exit(0);
}

/* --- callbacks ---------------------------------------------------------------------------------------------------- */

/* What a program does in a callback that it had better not. */
static void misbehave(void)
{
    if (depth >= DEPTH_MAX || flying)
        return;
    if (once_in(chance_fork) && client)
        fork_one(child);
    if (once_in(chance_nest) && client) {
        const char *const ok[] = {"ok"};
        struct wsd_call_request q = {
            .size = sizeof(q), .plugin = plugin, .function = "again", .args = ok, .n_args = 1, .deadline_usec = 20000};
        struct wsd_call_result r = {.size = sizeof(r)};
        uint64_t begun = now_usec(), before = excused_usec;
        unsigned throws = chance_throw;

        depth++;
        chance_throw = 0; /* q and r are on the stack */
        (void)wsd_call(client, &q, &r);
        chance_throw = throws;
        depth--;
        excused_usec = before + (now_usec() - begun);
    }
    if (once_in(chance_free) && client)
        call_free();
    if (once_in(chance_throw)) {
        n_thrown++;
        flying = true;
        thrower_throw();
    }
}

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct job *j = userdata;

    if (j->state != OPEN)
        fault("output of job %lu, which is not open (%d)", j->number, (int)j->state);
    if (size <= sizeof(j->output) - j->size)
        memcpy(j->output + j->size, data, size);
    j->size += size;
    misbehave();
    return 0;
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    static const struct wsd_id none;
    struct job *j = userdata;

    if (j->state != OPEN) {
        fault("job %lu is told its end, but is not open (%d): %s", j->number, (int)j->state, error ? text : "");
        return;
    }
    j->state = TOLD;
    n_open--;
    n_told++;
    n_errors += error != 0;
    if (!error && info->state == WSD_JOB_SUCCEEDED) {
        const char *output = j->output;
        size_t size = j->size;

        n_succeeded++;
        n_direct += memcmp(&info->id, &none, sizeof(none)) == 0;
        if (j->echoes && !size)
            output = wsd_call_output(call, &size);
        if (j->echoes && (size != strlen(j->input) || memcmp(output, j->input, size) != 0))
            fault("job %lu has the output '%.*s'", j->number, (int)size, output ? output : "");
    }
    if (j->watched && settled && j->deadline_usec) {
        uint64_t took = own_usec() - j->own_usec;

        if ((int64_t)took > (int64_t)(j->deadline_usec + LATE_USEC * scale))
            fault("job %lu with a deadline of %lu us was told after %lu us: %s", j->number,
                  (unsigned long)j->deadline_usec, (unsigned long)took, error ? text : "its end");
        if (error == -ETIMEDOUT && now_usec() - j->begun + 1000 < j->deadline_usec)
            fault("job %lu was late too early", j->number);
    }
    if (error == -ETIMEDOUT && !j->deadline_usec)
        fault("job %lu without a deadline is late", j->number);
    if (!j->keeps)
        wsd_call_free(call);
    misbehave();
}

static void on_state(int error, void *userdata)
{
    misbehave();
}

static void on_room(void *userdata)
{
    misbehave();
}

static void on_answer(int error, const char *text, void *userdata)
{
    --*(unsigned *)userdata;
    misbehave();
}

static void on_wake(void *userdata)
{
}

/* --- a round ------------------------------------------------------------------------------------------------------ */

static unsigned n_asked; /* questions without an answer */

static int call_open(void)
{
    const struct wsd_open how = {.size = sizeof(how),
                                 .timeout_usec = the_time,
                                 .flags = again        ? WSD_OPEN_AGAIN
                                          : once_in(4) ? WSD_OPEN_LATER
                                                       : 0,
                                 .interrupted = once_in(2) ? interrupted : NULL,
                                 .state = on_state};

    return wsd_client_open_with(&client, &how);
}

static void open_handle(void)
{
    int r;

    again = once_in(2);
    the_time = between(5, 300) * 1000u;
    handle_number++;
    n_handles++;
    r = measured("open", the_time, call_open);
    if (r < 0 && r != THROWN && again)
        fault("a handle that connects again did not open: %d", r);
    if (r < 0) {
        client = wsd_client_free(client);
        return;
    }
    wsd_client_set_wake(client, on_wake, NULL);
    if (once_in(4))
        wsd_client_set_bounds(client, once_in(2) ? 4096 : 0, once_in(2) ? 16 : 0, on_room, NULL);
}

static struct job *begin_job(struct wsd_submit *s, struct wsd_callbacks *callbacks, const char **args)
{
    struct job *j = &jobs[n_begun % SLOTS];
    static char msec[16];

    *j = (struct job){.number = n_begun, .begun = now_usec()};
    *s = (struct wsd_submit){.size = sizeof(*s), .plugin = plugin, .function = once_in(2) ? "direct" : "again"};
    *callbacks = (struct wsd_callbacks){
        .size = sizeof(*callbacks), .output = once_in(3) ? on_output : NULL, .done = on_done, .userdata = j};
    s->args = args;
    switch (below(40)) {
    case 0:
    case 1:
    case 2:
    case 3:
        args[0] = "nap";
        snprintf(msec, sizeof(msec), "%u", between(0, 3));
        args[1] = msec;
        s->n_args = 2;
        break;
    case 4:
        args[0] = "nap"; /* until its deadline, or its end */
        args[1] = "60000";
        s->n_args = 2;
        if (once_in(2))
            s->deadline_usec = between(1, 30) * 1000u;
        else
            s->timeout_usec = between(1, 30) * 1000u;
        break;
    case 5:
    case 6:
        args[0] = "fail";
        args[1] = "7";
        s->n_args = 2;
        break;
    default:
        snprintf(j->input, sizeof(j->input), "job %lu of round %lu", n_begun, number);
        j->echoes = true;
        s->input = j->input;
        s->input_size = strlen(j->input);
        if (once_in(5))
            s->deadline_usec = between(1, 100) * 1000u;
    }
    if (once_in(2))
        s->flags |= WSD_SUBMIT_DIRECT;
    if (s->flags && once_in(2))
        s->output_size = 64;
    if (again && once_in(3))
        s->flags |= once_in(2) ? WSD_SUBMIT_AGAIN : WSD_SUBMIT_TWICE;
    j->deadline_usec = s->deadline_usec;
    return j;
}

static void began(struct job *j)
{
    n_begun++;
    n_open++;
    j->state = OPEN;
    j->watched = settled;
    j->own_usec = own_usec();
}

static struct job *submit_one(bool keeps)
{
    struct wsd_submit s;
    struct wsd_callbacks callbacks;
    const char *args[2];
    struct job *j = begin_job(&s, &callbacks, args);

    j->keeps = keeps;
    if (wsd_client_submit(client, &s, &callbacks, &j->call) < 0)
        return NULL;
    began(j);
    return j;
}

static void forget(struct job *j)
{
    wsd_call_free(j->call);
    j->state = FREED;
    n_open--;
    n_freed++;
}

static void act_submit(void)
{
    for (unsigned n = between(1, 32); n; n--) {
        struct job *j = submit_one(false);

        if (!j)
            return;
        if (once_in(12))
            wsd_call_cancel(j->call);
        if (once_in(12) && j->state == OPEN)
            forget(j);
    }
}

static void act_post(void)
{
    for (unsigned n = between(1, 8); n; n--) {
        struct wsd_submit s;
        struct wsd_callbacks callbacks;
        const char *args[2];
        struct job *j = begin_job(&s, &callbacks, args);

        if (wsd_client_post(client, &s, &callbacks) < 0)
            return;
        began(j);
    }
}

static void act_wait(void)
{
    struct job *j = submit_one(true);
    unsigned handle = handle_number;

    if (!j)
        return;
    the_call = j->call;
    the_time = between(0, 40) * 1000u;
    uint64_t limit = j->deadline_usec && j->deadline_usec < the_time ? j->deadline_usec : the_time;
    the_begin = j->begun;
    int r = measured("wait", limit, call_wait);
    if (r == 0 && j->state != TOLD)
        fault("job %lu was awaited and not told", j->number);
    if (handle != handle_number)
        return;
    if (j->state == OPEN)
        forget(j);
    else
        wsd_call_free(j->call);
}

static char inputs[CALLS_MAX][64], outputs[CALLS_MAX][64];

/* naps: one of so many ends at its deadline only; 0: none does. */
static void prepare(size_t i, unsigned naps)
{
    static const char *const nap[] = {"nap", "60000"};

    snprintf(inputs[i], sizeof(inputs[i]), "call %zu of round %lu", i, number);
    memset(outputs[i], 0, sizeof(outputs[i]));
    requests[i] = (struct wsd_call_request){.size = sizeof(requests[i]),
                                            .plugin = plugin,
                                            .function = once_in(2) ? "direct" : "again",
                                            .input = inputs[i],
                                            .input_size = strlen(inputs[i]),
                                            .output = outputs[i],
                                            .output_room = sizeof(outputs[i]),
                                            .flags = once_in(3) ? WSD_CALL_SOCKET : 0};
    results[i] = (struct wsd_call_result){.size = sizeof(results[i])};
    if (once_in(naps)) {
        requests[i].args = nap;
        requests[i].n_args = 2;
    }
}

static void check_call(size_t i)
{
    if (results[i].code == 0 && results[i].state == WSD_JOB_SUCCEEDED && !requests[i].n_args &&
        (results[i].output_size != strlen(inputs[i]) || memcmp(inputs[i], outputs[i], results[i].output_size) != 0))
        fault("call %zu has the output '%.*s'", i, (int)results[i].output_size, outputs[i]);
}

static void act_call(void)
{
    for (unsigned n = between(1, 10); n && client; n--) {
        prepare(0, 20);
        requests[0].deadline_usec = between(1, 30) * 1000u;
        int r = measured("wsd_call", requests[0].deadline_usec, call_one);
        if (r == 0)
            check_call(0);
        n_direct += r == 0 && results[0].direct;
        if (r == -ECONNRESET || r == -ETIMEDOUT)
            break;
    }
}

static void act_calls(void)
{
    uint64_t deadline = between(1, 50) * 1000u;
    unsigned naps = once_in(3) ? 20 : 0;

    the_n = between(1, CALLS_MAX);
    for (size_t i = 0; i < the_n; i++) {
        prepare(i, naps);
        requests[i].deadline_usec = deadline;
    }
    if (measured("wsd_calls", deadline, call_many) == THROWN)
        return;
    for (size_t i = 0; i < the_n; i++)
        check_call(i);
}

static struct wsd_item items[MAP_MAX];
static unsigned told[MAP_MAX];
static uint64_t map_deadline;

static int on_item(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t size,
                   const char *text, void *userdata)
{
    if (index >= the_n) {
        fault("item %zu of %zu", index, the_n);
        return 0;
    }
    told[index]++;
    if (!error && info->state == WSD_JOB_SUCCEEDED && (size != 8 || memcmp(output, items[index].input, 8) != 0))
        fault("item %zu has another output", index);
    misbehave();
    return 0;
}

static int call_map(void)
{
    const struct wsd_submit common = {
        .size = sizeof(common), .plugin = plugin, .function = "direct", .deadline_usec = map_deadline};

    return wsd_map(client, &common, once_in(2) ? WSD_BATCH_KEEP_GOING : WSD_BATCH_WAIT, items, the_n, on_item, NULL);
}

static void act_map(void)
{
    static uint64_t values[MAP_MAX];
    static const char *const nap[] = {"nap", "60000"};
    unsigned n_told_once = 0;

    the_n = between(1, MAP_MAX);
    for (size_t i = 0; i < the_n; i++) {
        values[i] = number * MAP_MAX + i;
        items[i] = (struct wsd_item){.size = sizeof(items[i]), .input = &values[i], .input_size = sizeof(values[i])};
        if (once_in(1000)) {
            items[i].args = nap;
            items[i].n_args = 2;
        }
        told[i] = 0;
    }
    map_deadline = between(1, 80) * 1000u;
    bool connected = wsd_client_connected(client);
    int r = measured("wsd_map", map_deadline, call_map);
    for (size_t i = 0; i < the_n; i++) {
        n_told_once += told[i] == 1;
        if (told[i] > 1)
            fault("item %zu is told %u times", i, told[i]);
    }
    /* none: it has not begun, since the handle is not connected */
    if (r != THROWN && n_told_once != the_n && (n_told_once || connected))
        fault("wsd_map returned %d and has told %u of %zu items", r, n_told_once, the_n);
}

static struct wsd_batch *the_batch;

static int call_batch_wait(void)
{
    return wsd_batch_wait(the_batch, the_time, NULL);
}

static void act_batch(void)
{
    const struct wsd_submit common = {.size = sizeof(common), .plugin = plugin, .function = "direct"};
    unsigned handle = handle_number;

    if (wsd_batch_open(client, &common, once_in(2) ? WSD_BATCH_KEEP_GOING : 0, &the_batch) < 0)
        return;
    for (unsigned n = between(1, 60); n; n--) {
        struct wsd_submit s;
        struct wsd_callbacks callbacks;
        const char *args[2];
        struct job *j = begin_job(&s, &callbacks, args);
        const struct wsd_item item = {.size = sizeof(item),
                                      .args = s.args,
                                      .n_args = j->echoes ? 0 : s.n_args,
                                      .input = s.input,
                                      .input_size = s.input_size};

        j->deadline_usec = 0;
        if (wsd_batch_submit(the_batch, &item, &callbacks, &j->call) < 0)
            break;
        began(j);
    }
    the_time = between(0, 40) * 1000u;
    (void)measured("wsd_batch_wait", the_time, call_batch_wait);
    if (handle == handle_number)
        wsd_batch_free(the_batch);
}

static void act_ask(void)
{
    uint64_t deadline = between(1, 30) * 1000u;

    wsd_client_set_deadline(client, deadline);
    switch (below(5)) {
    case 0:
        (void)measured("ping", deadline, call_ping);
        break;
    case 1:
        (void)measured("list", deadline, call_list);
        break;
    case 2:
        (void)measured("stats", deadline, call_stats);
        break;
    case 3:
        (void)measured("lane", deadline, call_lane);
        break;
    default:
        n_asked += wsd_client_ask_ping(client, on_answer, &n_asked) == 0;
        n_asked += wsd_client_ask_stats(client, each_counter, on_answer, &n_asked) == 0;
    }
    if (client)
        wsd_client_set_deadline(client, 0);
}

static void act_reconnect(void)
{
    the_time = between(1, 100) * 1000u;
    (void)measured("reconnect", the_time, call_reconnect);
}

static void act_interruptible(void)
{
    wsd_client_set_interrupt(client, once_in(2) ? interrupted : NULL, NULL);
}

static void act_fork(void)
{
    fork_one(once_in(4) ? become_daemon : child);
}

static void act_free(void)
{
    (void)measured("free", 0, call_free);
    if (n_asked)
        fault("%u questions have no answer behind wsd_client_free()", n_asked);
    n_asked = 0;
}

/* As a loop does. */
static void turn(void)
{
    if (once_in(2)) {
        bool was = settled;

        the_time = 5000;
        (void)measured("wsd_client_wait", the_time, call_client_wait);
        settled = was;
        return;
    }
    struct pollfd p = {.fd = wsd_client_fd(client), .events = wsd_client_events(client)};
    uint64_t usec = wsd_client_timeout_usec(client);

    poll(&p, 1, usec < 5000 ? (int)(usec / 1000) + 1 : 5);
    (void)guarded(once_in(2) ? call_process : call_process_some);
}

static void drain(void)
{
    uint64_t begun = own_usec();

    while (client && (n_open || n_asked)) {
        uint64_t took = own_usec() - begun;

        if ((int64_t)took > (int64_t)(HANG_USEC * scale)) {
            for (size_t i = 0; i < SLOTS; i++)
                if (jobs[i].state == OPEN)
                    fault("job %lu is not told: hangs", jobs[i].number);
            return;
        }
        /* the next line does not wait for the library's next try to connect */
        if ((int64_t)took > 100000 && !wsd_client_connected(client) && once_in(20))
            act_free();
        else
            turn();
    }
    if (!client && n_open)
        fault("%lu jobs are not told behind wsd_client_free()", n_open);
}

static void (*const acts[])(void) = {
    act_submit, act_submit, act_submit, act_submit, act_submit, act_submit, act_call,      act_call,
    act_call,   act_calls,  act_calls,  act_map,    act_wait,   act_wait,   act_batch,     act_post,
    act_ask,    act_ask,    act_fork,   act_free,   act_fork,   act_wait,   act_reconnect, act_interruptible,
};

static void one_round(void)
{
    settled = true;
    chance_throw = once_in(2) ? 40 : 0;
    chance_nest = once_in(3) ? 60 : 0;
    chance_fork = once_in(4) ? 60 : 0;
    chance_free = once_in(6) ? 60 : 0;
    for (unsigned n = between(1, 4); n; n--) {
        for (unsigned tries = 0; !client && tries < 50; tries++)
            open_handle();
        if (!client)
            break;
        acts[below(sizeof(acts) / sizeof(*acts))]();
        if (client && once_in(3))
            turn();
    }
    drain();
}

#define WINDOW 512u

static int tell_lateness(const char *file)
{
    static uint64_t times[WINDOW], lates[WINDOW]; /* the last ones */
    const struct timespec pause = {.tv_nsec = 1000000};
    uint64_t worst = 0;
    unsigned n = 0;

    for (uint64_t then = now_usec(), now; n % 16 || access(file, F_OK) != 0; then = now) {
        uint64_t sum = 0;

        nanosleep(&pause, NULL);
        now = now_usec();
        times[n % WINDOW] = now;
        lates[n++ % WINDOW] = now - then > 1200 ? now - then - 1200 : 0;
        for (unsigned i = 0; i < WINDOW && i < n; i++)
            sum += now - times[i] < 500000 ? lates[i] : 0;
        worst = sum > worst ? sum : worst;
    }
    printf("%lu\n", (unsigned long)(worst / 1000 + 1));
    return 0;
}

int main(int argc, char **argv)
{
    unsigned long n_rounds = 100, first = 0, seed = 1;

    for (int o; (o = getopt(argc, argv, "+s:b:n:Fp:")) != -1;)
        switch (o) {
        case 's':
            seed = strtoul(optarg, NULL, 0);
            break;
        case 'b':
            first = strtoul(optarg, NULL, 0);
            break;
        case 'n':
            n_rounds = strtoul(optarg, NULL, 0);
            break;
        case 'p':
            return tell_lateness(optarg);
        case 'F':
            forks = false;
            break;
        default:
            return 64;
        }
    if (optind + 1 != argc)
        return 64;
    plugin = argv[optind];
    if (getenv("TIME_SCALE"))
        scale = strtoull(getenv("TIME_SCALE"), NULL, 0);
    begin_clock();
    for (number = first; number < first + n_rounds && n_faults < 20; number++) {
        chance_state = seed * 1000003u + number;
        draw();
        one_round();
    }
    if (client)
        act_free();
    kill(pulse_pid, SIGKILL);
    waitpid(pulse_pid, NULL, 0);
    printf("rounds=%lu begun=%lu told=%lu freed=%lu succeeded=%lu direct=%lu errors=%lu thrown=%lu forked=%lu "
           "handles=%lu blocking=%lu late=%lu interrupted=%lu longest=%lu us faults=%lu \n",
           number - first, n_begun, n_told, n_freed, n_succeeded, n_direct, n_errors, n_thrown, n_forked, n_handles,
           n_blocking, n_late, n_interrupted, (unsigned long)longest_usec, n_faults);
    if (n_told + n_freed != n_begun)
        fault("%lu begun, %lu told, %lu freed", n_begun, n_told, n_freed);
    return n_faults != 0;
}
