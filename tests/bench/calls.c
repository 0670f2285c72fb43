/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c: what wsd costs a client, through a wsd of our own:
 *
 *     bench-calls call|pipeline|clients|payload|queue|connections|start|idle|shell WORKERS WSD EXECUTOR WSCTL DIRECTORY
 *
 * DIRECTORY: of the plugin work.so, whose function echo is what the workers of peer-service.c do. The same sizes, numbers
 * and ways of measuring as there. CPU is of wsd and its executor.
 * queue: all is paused, so nothing but the queue is there. idle: how often any thread of wsd ran in ten seconds with 1,000
 * connections open, after a job. shell: `wsctl submit` from fork to its end, beside fork and exec of a program that does
 * nothing. */
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <wsd/client.h>

#include "process.h"

#define CALLS     20000u
#define FLIGHT    256u
#define PIPE_NSEC 2000000000u
#define CLIENTS   64u
#define SMALL     16u
#define SHELLS    300u

static const char *workers, *wsd_path, *executor_path, *wsctl_path, *plugins;
static char dir[] = "/tmp/wsd-bench.XXXXXX";
static char socket_path[64];
static uint64_t started;

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
    if (!f || fputs("[limits]\nmax-jobs = 20000000\nmax-jobs-per-user = 20000000\nmax-bytes-per-user = 64G\n"
                    "max-connections = 20000\nmax-connections-per-user = 20000\n", f) < 0 || fclose(f) != 0)
        give_up("no configuration");
    started = now_nsec();
    if (fork_server() == 0) {
        execl(wsd_path, wsd_path, "--socket", socket_path, "--config", config, "--executor", executor_path, "--state-dir",
              state, "--plugin-dir", plugins, "--workers", workers, "--log-level", "err", (char *)NULL);
        _exit(127);
    }
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
    struct wsd_submit s = {.size = sizeof(s), .plugin = "work", .function = "echo", .input = input, .input_size = size,
                           .flags = flags};
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

static void bench_call(void)
{
    static double all[CALLS];

    for (int pinned = 0; pinned < 2; pinned++) {
        char params[96];
        const char *p = pinned ? "yes" : "no";

        if (pinned)
            pin_all();
        start_wsd();
        struct wsd_client *client = open_client();
        for (unsigned i = 0; i < CALLS / 10; i++)
            one(client, "0123456789abcdef", SMALL);
        uint64_t cpu = servers_sum(1);
        for (unsigned i = 0; i < CALLS; i++) {
            uint64_t begin = now_nsec();
            one(client, "0123456789abcdef", SMALL);
            all[i] = (double)(now_nsec() - begin) / 1e3;
        }
        cpu = servers_sum(1) - cpu;
        snprintf(params, sizeof(params), "lane=socket,pinned=%s,quantile=p50", p);
        say(params, "us", quantile(all, CALLS, 0.5));
        snprintf(params, sizeof(params), "lane=socket,pinned=%s,quantile=p99", p);
        say(params, "us", quantile(all, CALLS, 0.99));
        snprintf(params, sizeof(params), "lane=socket,pinned=%s,cpu=server", p);
        say(params, "us/job", (double)cpu / 1e3 / CALLS);
        wsd_client_free(client);
        stop_wsd();
    }
}

/* --- many in flight -------------------------------------------------------------------------------------------------- */

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

static void bench_pipeline(void)
{
    struct flight f = {0};
    struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done, .userdata = &f};
    uint64_t begin, now, sent = 0;

    start_wsd();
    f.client = open_client();
    one(f.client, "0123456789abcdef", SMALL);
    begin = now_nsec();
    do {
        for (; sent - f.n < FLIGHT; sent++)
            submit(f.client, "0123456789abcdef", SMALL, 0, &callbacks);
        if (wsd_client_wait(f.client, UINT64_MAX) < 0)
            give_up(wsd_client_error(f.client));
        now = now_nsec();
    } while (now - begin < PIPE_NSEC);
    say("lane=socket,flight=256", "ns/job", (double)(now - begin) / (double)f.n);
    f.ending = true;
    wsd_client_free(f.client);
    stop_wsd();
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
        epoll_ctl(ep, EPOLL_CTL_ADD, wsd_client_fd(f[i].client), &(struct epoll_event){.events = EPOLLIN, .data.ptr = &f[i]});
    }
    uint64_t begin = now_nsec(), now = begin;
    for (unsigned i = 0; i < CLIENTS; i++) {
        f[i].begin = now_nsec();
        callbacks.userdata = &f[i];
        submit(f[i].client, "0123456789abcdef", SMALL, 0, &callbacks);
        wsd_client_process(f[i].client);
    }
    while (now - begin < PIPE_NSEC && n_latencies < 4000000) {
        struct epoll_event events[CLIENTS];
        int ready = epoll_wait(ep, events, CLIENTS, -1);

        for (int i = 0; i < ready; i++) {
            struct flight *c = events[i].data.ptr;
            uint64_t before = c->n;

            if (wsd_client_process(c->client) < 0)
                give_up(wsd_client_error(c->client));
            /* what is written may be answered before it returns */
            for (; c->n != before && n_latencies < 4000000; before++) {
                now = now_nsec();
                latencies[n_latencies++] = (double)(now - c->begin) / 1e3;
                c->begin = now;
                callbacks.userdata = c;
                submit(c->client, "0123456789abcdef", SMALL, 0, &callbacks);
                if (wsd_client_process(c->client) < 0)
                    give_up(wsd_client_error(c->client));
            }
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

static void bench_payload(void)
{
    static const size_t sizes[] = {1 << 20, 64 << 20};
    char *payload = malloc(sizes[1]);

    memset(payload, 'x', sizes[1]);
    start_wsd();
    struct wsd_client *client = open_client();
    for (int i = 0; i < 2; i++) {
        unsigned rounds = i ? 3 : 100;
        char params[64];

        one(client, payload, sizes[i] - 64);
        uint64_t begin = now_nsec();
        for (unsigned k = 0; k < rounds; k++)
            one(client, payload, sizes[i] - 64);
        snprintf(params, sizeof(params), "lane=socket,size=%zuMiB", sizes[i] >> 20);
        say(params, "ms", (double)(now_nsec() - begin) / 1e6 / rounds);
    }
    free(payload);
    wsd_client_free(client);
    stop_wsd();
}

/* --- the queue ------------------------------------------------------------------------------------------------------- */

static uint64_t n_accepted;

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    n_accepted++;
    wsd_call_free(call);
}

static void on_refused(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
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

/* --- connections ----------------------------------------------------------------------------------------------------- */

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

/* --- from a shell ---------------------------------------------------------------------------------------------------- */

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
    char *const submit_argv[] = {(char *)wsctl_path, (char *)"--socket", socket_path, (char *)"submit", (char *)"work:echo", NULL};
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
        bench_pipeline();
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
    else if (!strcmp(argv[1], "shell") && argc == 8)
        bench_shell(argv[7]);
    else
        return 64;
    return 0;
}
