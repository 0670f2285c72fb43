/* SPDX-License-Identifier: Apache-2.0
 *
 * direct.c: makes calls by wsd_call(), from several processes, and counts how they ended.
 *
 * Usage:
 *     direct [-p PROCESSES] [-n CALLS, each] [-u FILE] [-c] [-m K] [-t TIMEOUT_MSEC] [-r ROOM] [-f FLAGS] [-w]
 *            [-l] [-K] [-k] [-o OTHER] [-h FILE] [-x] PLUGIN:FUNCTION [ARG...]
 *
 * Without arguments each call sends bytes that no other call has, and wants them back.
 * With -c all calls go by one wsd_calls().
 * With -u it makes as many calls again and again, until FILE is there.
 * With -m only each K-th call has the arguments.
 * With -w it first calls the function with `ok` until such a call was direct (30 s at most), and often enough that wsd
 * takes the function for brief.
 * With -o it does the same with another function of the plugin, and again behind -h. Then each of both is to say its
 * name.
 * With -f 4 (WSD_CALL_GROW) there is no room: each output has memory of its own.
 * With -l it has its lane opened first, with -K also kept, and with -k closed before it waits for FILE.
 * With -l -l it has it opened again when FILE is there.
 * With -k and with -l -l it then calls the function with `ok` until such a call was direct again.
 * With -x it only says whether this kernel can have lanes.
 * With -h it says "held" and then waits until FILE is there, before it calls.
 *
 * Prints one line of NAME=COUNT, and the last error. Exits 0 where each call had one end and each echo was right. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <wsd/client.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define ROOM_MAX (8u << 20)
#define PAYLOAD  64

static const char *const names[] = {"direct",  "succeeded",   "failed",  "cancelled", "timed-out",
                                    "crashed", "interrupted", "refused", "too-large", "lost",
                                    "strange", "wrong",       "calls"};
enum {
    DIRECT,
    SUCCEEDED,
    FAILED,
    CANCELLED,
    TIMED_OUT,
    CRASHED,
    INTERRUPTED,
    REFUSED,
    TOO_LARGE,
    LOST,
    STRANGE,
    WRONG,
    CALLS,
    N_COUNTS
};

struct shared {
    unsigned long counts[N_COUNTS];
    int last_exit;
    size_t last_size; /* of an output */
    char error[256], output[256];
};

static unsigned long processes = 1, n_calls = 1, timeout_msec, room = 2048, flags;
static unsigned long each = 1;
static bool warm, at_once, opens, reopens, keeps, closes;
static const char *hold, *other, *enough;
static char plugin[256], *function;
static char **arguments;
static size_t n_arguments;
static struct shared *shared;

static void count(int what)
{
    __atomic_fetch_add(&shared->counts[what], 1, __ATOMIC_RELAXED);
}

static int state_count(enum wsd_job_state state)
{
    return state < WSD_JOB_SUCCEEDED || state > WSD_JOB_INTERRUPTED ? STRANGE
                                                                    : SUCCEEDED + (int)(state - WSD_JOB_SUCCEEDED);
}

static struct wsd_call_request request(unsigned long number, char payload[PAYLOAD], char *output)
{
    struct wsd_call_request q = {.size = sizeof(q),
                                 .plugin = plugin,
                                 .function = function,
                                 .output = room ? output : NULL,
                                 .output_room = room,
                                 .timeout_usec = timeout_msec * 1000,
                                 .flags = (uint32_t)flags};

    if (n_arguments && number % each == each - 1) {
        q.args = (const char *const *)arguments;
        q.n_args = n_arguments;
    } else {
        q.input = payload;
        q.input_size = (size_t)snprintf(payload, PAYLOAD, "%d.%lu", (int)getpid(), number);
    }
    return q;
}

static void ended(struct wsd_client *client, const struct wsd_call_request *q, const struct wsd_call_result *r)
{
    const char *output = q->flags & WSD_CALL_GROW ? r->output : q->output;

    count(CALLS);
    if (r->code < 0) {
        count(r->code == -EMSGSIZE ? TOO_LARGE : r->code == -ECONNRESET ? LOST : REFUSED);
        snprintf(shared->error, sizeof(shared->error), "%s", wsd_client_error(client));
        shared->last_exit = wsd_client_exit(client);
        return;
    }
    count(state_count(r->state));
    if (r->direct)
        count(DIRECT);
    if (q->input && r->state == WSD_JOB_SUCCEEDED &&
        (r->output_size != q->input_size || memcmp(output, q->input, q->input_size) != 0))
        count(WRONG);
    shared->last_exit = r->exit;
    shared->last_size = r->output_size;
    if (*r->error)
        snprintf(shared->error, sizeof(shared->error), "%s", r->error);
    snprintf(shared->output, sizeof(shared->output), "%.*s", (int)(r->output_size < 200 ? r->output_size : 200),
             output ? output : "");
}

static int call_one_by_one(struct wsd_client *client, char *output)
{
    for (unsigned long i = 0; i < n_calls; i++) {
        struct wsd_call_result r = {.size = sizeof(r), .code = 1};
        char payload[PAYLOAD];
        struct wsd_call_request q = request(i, payload, output);

        if (wsd_call(client, &q, &r) != r.code)
            return 1;
        ended(client, &q, &r);
        free(r.output);
        if (r.code == -ECONNRESET)
            break;
    }
    return 0;
}

/* What it returns is what the first one without a result has. */
static int call_at_once(struct wsd_client *client)
{
    struct wsd_call_request *requests = calloc(n_calls, sizeof(*requests));
    struct wsd_call_result *results = calloc(n_calls, sizeof(*results));
    char(*payloads)[PAYLOAD] = calloc(n_calls, sizeof(*payloads)), *outputs = calloc(n_calls, room ? room : 1);
    int code = 0;

    if (!requests || !results || !payloads || !outputs)
        return 1;
    for (unsigned long i = 0; i < n_calls; i++) {
        requests[i] = request(i, payloads[i], outputs + i * room);
        results[i].size = sizeof(results[i]);
        results[i].code = 1;
    }
    int r = wsd_calls(client, requests, results, n_calls);
    for (unsigned long i = 0; i < n_calls; i++) {
        if (!code)
            code = results[i].code;
        ended(client, &requests[i], &results[i]);
        free(results[i].output);
    }
    free(requests);
    free(results);
    free(payloads);
    free(outputs);
    return r != code;
}

static int become_direct(struct wsd_client *client, const char *name)
{
    const char *const ok[] = {"ok"};
    struct wsd_call_request q = {.size = sizeof(q), .plugin = plugin, .function = name, .args = ok, .n_args = 1};
    time_t until = time(NULL) + 30;

    for (int n_direct = 0; time(NULL) < until;) {
        struct wsd_call_result r = {.size = sizeof(r)};

        if (wsd_call(client, &q, &r) < 0)
            return -1;
        if (r.direct && ++n_direct == 20)
            return 0;
        if (!r.direct)
            usleep(1000);
    }
    return -1;
}

static void say_name(struct wsd_client *client, const char *name)
{
    const char *const args[] = {"name"};
    char output[64];
    struct wsd_call_request q = {.size = sizeof(q),
                                 .plugin = plugin,
                                 .function = name,
                                 .args = args,
                                 .n_args = 1,
                                 .output = output,
                                 .output_room = sizeof(output)};
    struct wsd_call_result r = {.size = sizeof(r)};

    if (wsd_call(client, &q, &r) < 0 || r.output_size != strlen(name) || memcmp(output, name, r.output_size) != 0)
        count(WRONG);
}

static int work(void)
{
    char *output = malloc(room ? room : 1);
    struct wsd_client *client;

    if (!output || wsd_client_open(&client, NULL, 0) < 0)
        return 1;
    if (opens && wsd_client_lane(client, keeps ? WSD_LANE_KEEP : WSD_LANE_OPEN) < 0) {
        fprintf(stderr, "direct: %d: %s\n", wsd_client_exit(client), wsd_client_error(client));
        return 1;
    }
    if (warm && (become_direct(client, function) < 0 || (other && become_direct(client, other) < 0))) {
        fprintf(stderr, "direct: no call was direct: %s\n", wsd_client_error(client));
        return 1;
    }
    if (closes && wsd_client_lane(client, WSD_LANE_CLOSE) < 0)
        return 1;
    if (hold) {
        puts("held");
        fflush(stdout);
        while (access(hold, F_OK) != 0)
            usleep(10000);
    }
    if (reopens && wsd_client_lane(client, WSD_LANE_OPEN) < 0)
        return 1;
    if ((closes || reopens) && become_direct(client, function) < 0) {
        fprintf(stderr, "direct: no call was direct again: %s\n", wsd_client_error(client));
        return 1;
    }
    if (other && become_direct(client, other) < 0)
        return 1;
    for (int i = 0; other && i < 10; i++) {
        say_name(client, function);
        say_name(client, other);
    }
    int r;
    do
        r = at_once ? call_at_once(client) : call_one_by_one(client, output);
    while (r == 0 && enough && access(enough, F_OK) != 0 && !shared->counts[LOST]);
    if (r != 0)
        fprintf(stderr, "direct: returned something else than its results say\n");
    wsd_client_free(client);
    free(output);
    return r;
}

int main(int argc, char **argv)
{
    int o, status, bad = 0;

    while ((o = getopt(argc, argv, "+p:n:u:t:r:f:m:o:cwlKkxh:")) != -1)
        switch (o) {
        case 'p':
            processes = strtoul(optarg, NULL, 10);
            break;
        case 'n':
            n_calls = strtoul(optarg, NULL, 10);
            break;
        case 'u':
            enough = optarg;
            break;
        case 't':
            timeout_msec = strtoul(optarg, NULL, 10);
            break;
        case 'r':
            room = strtoul(optarg, NULL, 10);
            break;
        case 'f':
            flags = strtoul(optarg, NULL, 10);
            break;
        case 'm':
            each = strtoul(optarg, NULL, 10);
            break;
        case 'o':
            other = optarg;
            break;
        case 'c':
            at_once = true;
            break;
        case 'w':
            warm = true;
            break;
        case 'l':
            reopens = opens; /* -l -l */
            opens = true;
            break;
        case 'K':
            opens = keeps = true;
            break;
        case 'k':
            closes = true;
            break;
        case 'x':
            if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno == EINVAL)
                return 0;
            puts("no futex_waitv");
            return 1;
        case 'h':
            hold = optarg;
            break;
        default:
            return 64;
        }
    if (optind >= argc || room > ROOM_MAX || each == 0)
        return 64;
    if (flags & WSD_CALL_GROW)
        room = 0;
    snprintf(plugin, sizeof(plugin), "%s", argv[optind]);
    function = strchr(plugin, ':');
    if (function)
        *function++ = 0;
    arguments = argv + optind + 1;
    n_arguments = (size_t)(argc - optind - 1);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    for (unsigned long i = 0; i < processes; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(work());
        }
    for (unsigned long i = 0; i < processes; i++)
        if (wait(&status) < 0 || status != 0)
            bad = 1;
    for (int i = 0; i < N_COUNTS; i++)
        printf("%s=%lu ", names[i], shared->counts[i]);
    printf("exit=%d bytes=%zu\nerror: %s\noutput: %s\n", shared->last_exit, shared->last_size, shared->error,
           shared->output);
    return bad || shared->counts[WRONG] || shared->counts[STRANGE];
}
