/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c: what wsd costs a client, through a wsd of our own.
 *
 * Usage:
 *     bench-calls call|pipeline|runner|clients|payload|queue|connections|start|idle|shell|durable WORKERS WSD EXECUTOR WSCTL
 *     DIRECTORY
 *
 * DIRECTORY: of the plugin work.so. Its function echo does what the workers of peer-service.c do. The sizes, numbers
 * and ways of measuring are those of peer-service.c. CPU is of wsd and its executor.
 * Queue: all functions are paused, so only queueing is measured. Idle: how often any thread of wsd ran in ten seconds
 * with 1,000 connections open, after a job. Durable: acknowledged when the job is on disk. The jobs are paused as in
 * queue, or (ends=yes) they run and their ends are on disk. Shell: `wsctl submit` from fork to its end. Beside it, fork
 * and exec of a program that does nothing. */
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <wsd/client.h>
#include <wsd/runner.h>

#include "process.h"

#define CALLS     20000u
#define FLIGHT    256u
#define DIRECT_N  4096u
#define MAP_N     100000u
#define PIPE_NSEC 2000000000u
#define CLIENTS   64u
#define SMALL     16u
#define SHELLS    300u

static const char *workers, *wsd_path, *executor_path, *wsctl_path, *plugins;
static char dir[] = BENCH_DIR "bench.XXXXXX";
static char socket_path[64];
static uint64_t started;
static const char *target = "work"; /* the plugin or runner that has the function echo */

static void start_wsd(void)
{
    char config[64], state[64];
    FILE *f;

    memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
    if (!mkdtemp(dir))
        give_up("no directory");
    snprintf(socket_path, sizeof(socket_path), "%s/s", dir);
    snprintf(config, sizeof(config), "%s/conf", dir);
    snprintf(state, sizeof(state), "%s/state", dir);
    f = fopen(config, "we");
    if (!f ||
        fputs("[limits]\nmax-jobs = 20000000\nmax-jobs-per-user = 20000000\nmax-bytes = 64G\nmax-bytes-per-user = 64G\n"
              "max-connections = 20000\nmax-connections-per-user = 20000\n",
              f) < 0 ||
        fclose(f) != 0)
        give_up("no configuration");
    started = now_nsec();
    if (fork_server() == 0)
        exec_server((const char *[]){wsd_path, "--socket", socket_path, "--config", config, "--executor", executor_path,
                                     "--state-dir", state, "--plugin-dir", plugins, "--workers", workers, "--log-level",
                                     "err", NULL});
}

static void stop_wsd(void)
{
    char command[64];

    end_servers();
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    if (system(command) != 0)
        give_up("rm");
}

static struct wsd_client *open_client(void)
{
    struct wsd_client *client;

    for (int i = 0; i < 20000; i++) {
        int r = wsd_client_open(&client, socket_path, 0);
        if (r == 0)
            return client;
        if (r != -ENOENT && r != -ECONNREFUSED)
            give_up(client ? wsd_client_error(client) : strerror(-r));
        wsd_client_free(client);
        usleep(500);
    }
    give_up("wsd does not answer");
}

static struct wsd_call *submit(struct wsd_client *client, const char *input, size_t size, uint32_t flags,
                               const struct wsd_callbacks *callbacks)
{
    struct wsd_submit s = {
        .size = sizeof(s), .plugin = target, .function = "echo", .input = input, .input_size = size, .flags = flags};
    struct wsd_call *call;

    if (wsd_client_submit(client, &s, callbacks, &call) < 0)
        give_up(wsd_client_error(client));
    return call;
}

static void one(struct wsd_client *client, const char *input, size_t size)
{
    struct wsd_call *call = submit(client, input, size, 0, NULL);
    const struct wsd_job_info *info;
    size_t got;

    if (wsd_call_wait(call, UINT64_MAX, &info) < 0 || info->state != WSD_JOB_SUCCEEDED)
        give_up(wsd_client_error(client));
    const char *output = wsd_call_output(call, &got);
    if (got != size || memcmp(output, input, size) != 0)
        give_up("wrong answer");
    wsd_call_free(call);
}

/* One call behind the other, through a wsd that has just been started. */
static void closed_loop(const char *lane, const char *pinned)
{
    static double all[CALLS];
    struct wsd_client *client = open_client();
    char params[96];

    for (unsigned i = 0; i < CALLS / 10; i++)
        one(client, "0123456789abcdef", SMALL);
    uint64_t cpu = servers_sum(1);
    for (unsigned i = 0; i < CALLS; i++) {
        uint64_t begin = now_nsec();
        one(client, "0123456789abcdef", SMALL);
        all[i] = (double)(now_nsec() - begin) / 1e3;
    }
    cpu = servers_sum(1) - cpu;
    snprintf(params, sizeof(params), "lane=%s,pinned=%s,quantile=p50", lane, pinned);
    say(params, "us", quantile(all, CALLS, 0.5));
    snprintf(params, sizeof(params), "lane=%s,pinned=%s,quantile=p99", lane, pinned);
    say(params, "us", quantile(all, CALLS, 0.99));
    snprintf(params, sizeof(params), "lane=%s,pinned=%s,cpu=server", lane, pinned);
    say(params, "us/job", (double)cpu / 1e3 / CALLS);
    wsd_client_free(client);
}

static void bench_call(void)
{
    for (int pinned = 0; pinned < 2; pinned++) {
        if (pinned)
            pin_all();
        start_wsd();
        closed_loop("socket", pinned ? "yes" : "no");
        stop_wsd();
    }
}

/* --- many in flight ----------------------------------------------------------------------------------------------- */

struct flight {
    struct wsd_client *client;
    uint64_t n, begin;
    bool ending;
    double *all;
    size_t n_all;
};

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct flight *f = userdata;

    if (!f->ending && (error || info->state != WSD_JOB_SUCCEEDED))
        give_up(text ? text : "a job did not succeed");
    f->n++;
    wsd_call_free(call);
}

/* FLIGHT jobs under way, one by one, or as arrays of at least half of that; through a wsd that has just been started. */
static void fill_pipeline(const char *lane, bool arrays)
{
    const struct wsd_submit common = {.size = sizeof(common), .plugin = "work", .function = "echo"};
    const struct wsd_item item = {.size = sizeof(item), .input = "0123456789abcdef", .input_size = SMALL};
    struct flight f = {0};
    struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done, .userdata = &f};
    struct wsd_batch *batch = NULL;
    uint64_t begin, now, cpu, sent = 0;
    char params[64];

    f.client = open_client();
    one(f.client, "0123456789abcdef", SMALL);
    if (arrays && wsd_batch_open(f.client, &common, 0, &batch) < 0)
        give_up(wsd_client_error(f.client));
    cpu = servers_sum(1);
    begin = now_nsec();
    do {
        for (bool fill = !batch || sent - f.n <= FLIGHT / 2; fill && sent - f.n < FLIGHT; sent++)
            if (!batch)
                submit(f.client, "0123456789abcdef", SMALL, 0, &callbacks);
            else if (wsd_batch_submit(batch, &item, &callbacks, NULL) < 0)
                give_up(wsd_client_error(f.client));
        if (wsd_client_wait(f.client, UINT64_MAX) < 0)
            give_up(wsd_client_error(f.client));
        now = now_nsec();
    } while (now - begin < PIPE_NSEC);
    snprintf(params, sizeof(params), "lane=%s,flight=256", lane);
    say(params, "ns/job", (double)(now - begin) / (double)f.n);
    strcat(params, ",cpu=server");
    say(params, "ns/job", (double)(servers_sum(1) - cpu) / (double)f.n);
    f.ending = true;
    wsd_client_free(f.client);
}

static void bench_pipeline(bool arrays)
{
    start_wsd();
    fill_pipeline(arrays ? "array" : "socket", arrays);
    stop_wsd();
}

static int on_item(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t output_size,
                   const char *text, void *userdata)
{
    if (error || info->state != WSD_JOB_SUCCEEDED || output_size != SMALL ||
        memcmp(output, "0123456789abcdef", SMALL) != 0)
        give_up(error ? text : "wrong answer");
    return 0;
}

/* wsd_map(), with as many under way as it has. */
static void bench_map(void)
{
    static struct wsd_item items[MAP_N];
    const struct wsd_submit common = {.size = sizeof(common), .plugin = "work", .function = "echo"};
    uint64_t begin, now, cpu, n = 0;

    start_wsd();
    struct wsd_client *client = open_client();
    one(client, "0123456789abcdef", SMALL);
    for (size_t i = 0; i < MAP_N; i++)
        items[i] = (struct wsd_item){.size = sizeof(items[i]), .input = "0123456789abcdef", .input_size = SMALL};
    cpu = servers_sum(1);
    begin = now_nsec();
    do {
        if (wsd_map(client, &common, 0, items, MAP_N, on_item, NULL) < 0)
            give_up(wsd_client_error(client));
        n += MAP_N;
        now = now_nsec();
    } while (now - begin < PIPE_NSEC);
    say("lane=map,flight=8192", "ns/job", (double)(now - begin) / (double)n);
    say("lane=map,flight=8192,cpu=server", "ns/job", (double)(servers_sum(1) - cpu) / (double)n);
    wsd_client_free(client);
    stop_wsd();
}

/* By a direct lane: 256 are under way as long as there are so many. Each answer is looked at. */
static void bench_direct(void)
{
    static struct wsd_call_request requests[DIRECT_N];
    static struct wsd_call_result results[DIRECT_N];
    static char outputs[DIRECT_N][SMALL];
    uint64_t begin, now, cpu, n = 0, n_direct = 0;

    start_wsd();
    struct wsd_client *client = open_client();
    for (size_t i = 0; i < DIRECT_N; i++) {
        requests[i] = (struct wsd_call_request){.size = sizeof(requests[i]),
                                                .plugin = "work",
                                                .function = "echo",
                                                .input = "0123456789abcdef",
                                                .input_size = SMALL,
                                                .output = outputs[i],
                                                .output_room = SMALL};
        results[i].size = sizeof(results[i]);
    }
    for (int i = 0; i < 100000 && !(results[0].direct && results[0].code == 0); i++)
        wsd_call(client, requests, results);
    cpu = servers_sum(1);
    begin = now_nsec();
    do {
        if (wsd_calls(client, requests, results, DIRECT_N) < 0)
            give_up(wsd_client_error(client));
        for (size_t i = 0; i < DIRECT_N; i++) {
            if (results[i].state != WSD_JOB_SUCCEEDED || results[i].output_size != SMALL ||
                memcmp(outputs[i], "0123456789abcdef", SMALL) != 0)
                give_up("wrong answer");
            n_direct += results[i].direct;
        }
        n += DIRECT_N;
        now = now_nsec();
    } while (now - begin < PIPE_NSEC);
    if (n_direct < n - n / 100)
        give_up("calls went by the socket");
    say("lane=direct,flight=256", "ns/job", (double)(now - begin) / (double)n);
    say("lane=direct,flight=256,cpu=server", "ns/job", (double)(servers_sum(1) - cpu) / (double)n);
    wsd_client_free(client);
    stop_wsd();
}

/* --- runners ------------------------------------------------------------------------------------------------------ */

static int echo(struct wsd_job *job, struct wsd_worker *self)
{
    return wsd_job_write(job, job->input, job->input_size) < 0;
}

/* A process that takes jobs by <wsd/runner.h>, ready when this returns. */
static void start_runner(uint32_t credit)
{
    static const struct wsd_function functions[] = {
        {.name = "echo", .help = "gives its input back", .flags = WSD_FN_IDEMPOTENT, .run = echo}};
    static const struct wsd_plugin offer = {.size = sizeof(offer),
                                            .abi = WSD_PLUGIN_ABI,
                                            .function_size = sizeof(struct wsd_function),
                                            .n_functions = 1,
                                            .functions = functions,
                                            .name = "runner"};
    struct wsd_runner_options options = {.size = sizeof(options), .socket = socket_path, .credit = credit};
    struct wsd_runner *runner;
    int ready[2];
    char byte;

    target = "runner";
    wsd_client_free(open_client()); /* wsd is there */
    if (pipe(ready) < 0)
        give_up("pipe");
    if (fork_server() == 0) {
        if (wsd_runner_new(&runner, &options) < 0 || wsd_runner_offer(runner, &offer) < 0 ||
            wsd_runner_connect(runner, 0) < 0 || write(ready[1], "", 1) != 1)
            give_up(wsd_runner_error(runner));
        _exit(wsd_runner_run(runner, 1) < 0);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        give_up("no runner");
    close(ready[0]);
}

/* Passes on what comes. */
static void relay(int from, int to)
{
    char room[256];

    while (read(from, room, SMALL) == SMALL && write(to, room, SMALL) == SMALL)
        ;
    _exit(0);
}

/* The least that a job can cost that goes by unix sockets to a server, from there to a worker, and back. */
static void four_hops(void)
{
    static double all[CALLS];
    int client[2], worker[2];
    char room[SMALL] = "0123456789abcde";

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, client) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, worker) < 0)
        give_up("socketpair");
    if (fork_server() == 0)
        relay(worker[1], worker[1]);
    if (fork_server() == 0)
        for (;;)
            if (read(client[1], room, SMALL) != SMALL || write(worker[0], room, SMALL) != SMALL ||
                read(worker[0], room, SMALL) != SMALL || write(client[1], room, SMALL) != SMALL)
                _exit(0);
    for (unsigned i = 0; i < CALLS; i++) {
        uint64_t begin = now_nsec();
        if (write(client[0], room, SMALL) != SMALL || read(client[0], room, SMALL) != SMALL)
            give_up("hops");
        all[i] = (double)(now_nsec() - begin) / 1e3;
    }
    say("lane=hops,pinned=yes,quantile=p50", "us", quantile(all, CALLS, 0.5));
    kill_servers();
}

static void bench_runner(void)
{
    start_wsd();
    start_runner(1);
    closed_loop("runner", "no");
    stop_wsd();
    start_wsd();
    start_runner(FLIGHT);
    fill_pipeline("runner", false);
    stop_wsd();
    pin_all();
    start_wsd();
    start_runner(1);
    closed_loop("runner", "yes");
    stop_wsd();
    four_hops();
}

static double latencies[4000000];
static size_t n_latencies;

static void bench_clients(void)
{
    struct flight f[CLIENTS];
    struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done};
    int ep = epoll_create1(EPOLL_CLOEXEC);

    start_wsd();
    for (unsigned i = 0; i < CLIENTS; i++) {
        f[i] = (struct flight){.client = open_client()};
        one(f[i].client, "0123456789abcdef", SMALL);
        epoll_ctl(ep, EPOLL_CTL_ADD, wsd_client_fd(f[i].client),
                  &(struct epoll_event){.events = EPOLLIN, .data.ptr = &f[i]});
    }
    uint64_t begin = now_nsec(), now = begin;
    for (unsigned i = 0; i < CLIENTS; i++) {
        f[i].begin = now_nsec();
        callbacks.userdata = &f[i];
        submit(f[i].client, "0123456789abcdef", SMALL, 0, &callbacks);
        wsd_client_flush(f[i].client);
    }
    while (now - begin < PIPE_NSEC && n_latencies < 4000000) {
        struct epoll_event events[CLIENTS];
        int ready = epoll_wait(ep, events, CLIENTS, -1);

        for (int i = 0; i < ready; i++) {
            struct flight *c = events[i].data.ptr;
            uint64_t before = c->n;

            if (wsd_client_process(c->client) < 0)
                give_up(wsd_client_error(c->client));
            if (c->n == before || n_latencies == 4000000)
                continue;
            now = now_nsec();
            latencies[n_latencies++] = (double)(now - c->begin) / 1e3;
            c->begin = now;
            callbacks.userdata = c;
            submit(c->client, "0123456789abcdef", SMALL, 0, &callbacks);
            if (wsd_client_flush(c->client) < 0)
                give_up(wsd_client_error(c->client));
        }
    }
    say("clients=64", "ns/job", (double)(now - begin) / (double)n_latencies);
    say("clients=64,quantile=p99", "us", quantile(latencies, n_latencies, 0.99));
    for (unsigned i = 0; i < CLIENTS; i++) {
        f[i].ending = true;
        wsd_client_free(f[i].client);
    }
    stop_wsd();
}

#define PAYLOAD_MAX ((size_t)64 << 20)

/* What a round of each lane needs: the bytes, a file with them, and an arena with them, behind which there is as much
 * room. */
static struct {
    char *bytes;
    int fd;
    struct wsd_arena *arena;
} payload;

static void by_socket(struct wsd_client *client, size_t size)
{
    one(client, payload.bytes, size);
}

/* The job is done, and its output as it should be: through the socket, or in the arena. */
static void one_elsewhere(struct wsd_client *client, struct wsd_submit s)
{
    const struct wsd_job_info *info;
    struct wsd_call *call;
    size_t got;

    s.size = sizeof(s);
    s.plugin = "work";
    s.function = "echo";
    if (wsd_client_submit(client, &s, NULL, &call) < 0 || wsd_call_wait(call, UINT64_MAX, &info) < 0 ||
        info->state != WSD_JOB_SUCCEEDED)
        give_up(wsd_client_error(client));
    const char *output = wsd_call_output(call, &got);
    if (s.arena) {
        got = info->placed;
        output = (const char *)wsd_arena_data(s.arena) + s.output_offset;
    }
    if (got != s.input_size || memcmp(output, payload.bytes, got) != 0)
        give_up("wrong answer");
    wsd_call_free(call);
}

static void by_descriptor(struct wsd_client *client, size_t size)
{
    one_elsewhere(client, (struct wsd_submit){.flags = WSD_SUBMIT_FILE, .input_fd = payload.fd, .input_size = size});
}

static void by_arena(struct wsd_client *client, size_t size)
{
    one_elsewhere(client, (struct wsd_submit){.flags = WSD_SUBMIT_ARENA,
                                              .arena = payload.arena,
                                              .input_size = size,
                                              .output_offset = PAYLOAD_MAX,
                                              .output_size = size});
}

static void bench_payload(void)
{
    static const struct {
        const char *name;
        void (*one)(struct wsd_client *client, size_t size);
    } lanes[] = {{"socket", by_socket}, {"descriptor", by_descriptor}, {"arena", by_arena}};

    payload.bytes = malloc(PAYLOAD_MAX);
    memset(payload.bytes, 'x', PAYLOAD_MAX);
    payload.fd = memfd_create("payload", MFD_CLOEXEC);
    if (write(payload.fd, payload.bytes, PAYLOAD_MAX) != (ssize_t)PAYLOAD_MAX)
        give_up("no memory");
    start_wsd();
    struct wsd_client *client = open_client();
    if (wsd_arena_new(client, 2 * PAYLOAD_MAX, &payload.arena) < 0)
        give_up(wsd_client_error(client));
    memset(wsd_arena_data(payload.arena), 'x', PAYLOAD_MAX);
    for (size_t lane = 0; lane < sizeof(lanes) / sizeof(lanes[0]); lane++)
        for (size_t mib = 1; mib <= 64; mib *= 64) {
            size_t size = (mib << 20) - 64;
            unsigned rounds = mib > 1 ? 3 : 100;
            char params[64];

            lanes[lane].one(client, size);
            uint64_t begin = now_nsec();
            for (unsigned k = 0; k < rounds; k++)
                lanes[lane].one(client, size);
            snprintf(params, sizeof(params), "lane=%s,size=%zuMiB", lanes[lane].name, mib);
            say(params, "ms", (double)(now_nsec() - begin) / 1e6 / rounds);
        }
    wsd_arena_free(payload.arena);
    close(payload.fd);
    free(payload.bytes);
    wsd_client_free(client);
    stop_wsd();
}

/* --- the queue ---------------------------------------------------------------------------------------------------- */

static uint64_t n_accepted;

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    n_accepted++;
    wsd_call_free(call);
}

static void on_refused(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text,
                       void *userdata)
{
    give_up(text ? text : "refused");
}

static void bench_queue(void)
{
    static char payload[64];
    struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .accepted = on_accepted, .done = on_refused};
    uint64_t sent = 0, empty;

    memset(payload, 'x', sizeof(payload));
    start_wsd();
    struct wsd_client *client = open_client();
    one(client, payload, sizeof(payload));
    if (wsd_client_gate(client, WSD_GATE_PAUSE, NULL, NULL, 0) < 0)
        give_up(wsd_client_error(client));
    empty = server_memory();
    for (uint64_t step = 1000; step <= 10000000; step *= 10) {
        uint64_t begin = now_nsec(), from = n_accepted;
        char params[64];

        while (n_accepted < step) {
            for (; sent < step && sent - n_accepted < FLIGHT; sent++)
                submit(client, payload, sizeof(payload), WSD_SUBMIT_DETACH | WSD_SUBMIT_LEAVE, &callbacks);
            if (wsd_client_wait(client, UINT64_MAX) < 0)
                give_up(wsd_client_error(client));
        }
        snprintf(params, sizeof(params), "queued=%llu", (unsigned long long)step);
        say(params, "ns/job", (double)(now_nsec() - begin) / (double)(step - from));
        if (step >= 100000) {
            snprintf(params, sizeof(params), "queued=%llu,memory=server", (unsigned long long)step);
            say(params, "bytes", (double)(server_memory() - empty) / (double)step);
        }
    }
    wsd_client_free(client);
    kill(servers[0], SIGTERM); /* once: drain; twice: at once */
    stop_wsd();
}

/* --- durable ------------------------------------------------------------------------------------------------------ */

struct submitter {
    struct wsd_client *client;
    bool ends;
};

static double durable_each[DURABLE_MAX];
static uint64_t n_durable, durable_last;

static void durable_submit(struct submitter *s);

static void durable_one(struct wsd_call *call, struct submitter *s)
{
    uint64_t now = now_nsec();

    durable_each[n_durable++] = (double)(now - durable_last) / 1e3;
    durable_last = now;
    wsd_call_free(call);
    durable_submit(s);
}

static void durable_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    durable_one(call, userdata);
}

static void durable_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text,
                         void *userdata)
{
    struct submitter *s = userdata;

    if (!s->ends || error || info->state != WSD_JOB_SUCCEEDED)
        give_up(text ? text : "a job did not succeed");
    durable_one(call, s);
}

static void durable_submit(struct submitter *s)
{
    static char payload[DURABLE_SIZE];
    const struct wsd_callbacks callbacks = {
        .size = sizeof(callbacks), .accepted = s->ends ? NULL : durable_accepted, .done = durable_done, .userdata = s};

    if (n_durable < DURABLE_MAX)
        submit(s->client, payload, sizeof(payload),
               WSD_SUBMIT_DURABLE | (s->ends ? 0 : WSD_SUBMIT_DETACH | WSD_SUBMIT_LEAVE), &callbacks);
}

static void bench_durable(const struct durable_form *form, bool ends, const char *fsyncs)
{
    struct submitter submitters[64];
    int ep = epoll_create1(EPOLL_CLOEXEC);
    uint64_t begin;

    start_wsd();
    n_durable = 0;
    for (unsigned i = 0; i < form->submitters; i++) {
        submitters[i] = (struct submitter){.client = open_client(), .ends = ends};
        epoll_ctl(ep, EPOLL_CTL_ADD, wsd_client_fd(submitters[i].client),
                  &(struct epoll_event){.events = EPOLLIN, .data.ptr = &submitters[i]});
    }
    one(submitters[0].client, "0123456789abcdef", SMALL);
    if (!ends && wsd_client_gate(submitters[0].client, WSD_GATE_PAUSE, NULL, NULL, 0) < 0)
        give_up(wsd_client_error(submitters[0].client));
    begin = durable_last = now_nsec();
    for (unsigned i = 0; i < form->submitters; i++) {
        for (unsigned k = 0; k < form->flight; k++)
            durable_submit(&submitters[i]);
        wsd_client_process(submitters[i].client);
    }
    while (durable_last - begin < DURABLE_NSEC && n_durable < DURABLE_MAX) {
        struct epoll_event events[64];
        int ready = epoll_wait(ep, events, 64, -1);

        for (int i = 0; i < ready; i++) {
            struct wsd_client *client = ((struct submitter *)events[i].data.ptr)->client;

            if (wsd_client_process(client) < 0)
                give_up(wsd_client_error(client));
        }
    }
    kill_servers();
    say_durable(form, ends ? ",ends=yes" : "", durable_last - begin, n_durable, durable_each, fsyncs);
    stop_wsd();
}

/* --- connections -------------------------------------------------------------------------------------------------- */

/* Each in a process of its own, because a handle of libwsclient has two descriptors. */
static void hold_connections(unsigned n)
{
    int there[2];
    char c;

    if (pipe2(there, O_CLOEXEC) < 0)
        give_up("pipe");
    if (fork_server() == 0) {
        while (n--)
            open_client();
        if (write(there[1], "", 1) != 1)
            _exit(1);
        pause();
    }
    close(there[1]);
    if (read(there[0], &c, 1) != 1)
        give_up("a connection was refused");
    close(there[0]);
}

static void bench_connections(void)
{
    unsigned n = 0;

    start_wsd();
    wsd_client_free(open_client());
    for (unsigned step = 1000; step <= 10000; step *= 10) {
        uint64_t before = server_memory();
        unsigned from = n;
        char params[64];

        for (; n < step; n += 1000)
            hold_connections(1000);
        snprintf(params, sizeof(params), "connections=%u", step);
        say(params, "KiB", (double)(server_memory() - before) / 1024 / (step - from));
    }
    stop_wsd();
}

static void bench_start(void)
{
    start_wsd();
    struct wsd_client *client = open_client();
    one(client, "0123456789abcdef", SMALL);
    say("first=job", "ms", (double)(now_nsec() - started) / 1e6);
    wsd_client_free(client);
    stop_wsd();
}

static void bench_idle(void)
{
    start_wsd();
    struct wsd_client *client = open_client();
    one(client, "0123456789abcdef", SMALL);
    for (int i = 0; i < 999; i++)
        open_client();
    sleep(1);
    uint64_t ran = servers_sum(3), cpu = servers_sum(1);
    sleep(10);
    say("connections=1000,seconds=10", "runs", (double)(servers_sum(3) - ran));
    say("connections=1000,seconds=10,cpu=server", "us", (double)(servers_sum(1) - cpu) / 1e3);
    stop_wsd();
}

/* --- from a shell ------------------------------------------------------------------------------------------------- */

static double run(char *const argv[])
{
    uint64_t begin = now_nsec();
    int status;
    pid_t pid = vfork();

    if (pid == 0) {
        execv(argv[0], argv);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    if (status != 0)
        give_up(argv[0]);
    return (double)(now_nsec() - begin) / 1e3;
}

static void bench_shell(const char *nothing)
{
    static double submitted[SHELLS], bare[SHELLS];
    char *const submit_argv[] = {(char *)wsctl_path, (char *)"--socket",  socket_path,
                                 (char *)"submit",   (char *)"work:echo", NULL};
    char *const bare_argv[] = {(char *)nothing, NULL};

    start_wsd();
    wsd_client_free(open_client());
    run(submit_argv);
    for (unsigned i = 0; i < SHELLS; i++) {
        submitted[i] = run(submit_argv);
        bare[i] = run(bare_argv);
    }
    say("what=submit", "us", quantile(submitted, SHELLS, 0.5));
    say("what=nothing", "us", quantile(bare, SHELLS, 0.5));
    stop_wsd();
}

int main(int argc, char **argv)
{
    if (argc < 7) {
        fputs("usage: bench-calls BENCH WORKERS WSD EXECUTOR WSCTL DIRECTORY [NOTHING]\n", stderr);
        return 64;
    }
    workers = argv[2];
    wsd_path = argv[3];
    executor_path = argv[4];
    wsctl_path = argv[5];
    plugins = argv[6];
    raise_descriptors();
    if (!strcmp(argv[1], "call"))
        bench_call();
    else if (!strcmp(argv[1], "pipeline"))
        bench_pipeline(false), bench_pipeline(true), bench_map(), bench_direct();
    else if (!strcmp(argv[1], "runner"))
        bench_runner();
    else if (!strcmp(argv[1], "clients"))
        bench_clients();
    else if (!strcmp(argv[1], "payload"))
        bench_payload();
    else if (!strcmp(argv[1], "queue"))
        bench_queue();
    else if (!strcmp(argv[1], "connections"))
        bench_connections();
    else if (!strcmp(argv[1], "start"))
        bench_start();
    else if (!strcmp(argv[1], "idle"))
        bench_idle();
    else if (!strcmp(argv[1], "durable"))
        for (unsigned i = 0; i < 4 * DURABLE_FORMS; i++)
            bench_durable(&durable_forms[i / 4], i / 2 % 2, count_fsyncs(i % 2));
    else if (!strcmp(argv[1], "shell") && argc == 8)
        bench_shell(argv[7]);
    else
        return 64;
    return 0;
}
