/* SPDX-License-Identifier: Apache-2.0
 *
 * fleet.c: what a job costs that runs on another machine, by wsd-fleet. All machines are this one.
 *
 * Usage:
 *     bench-fleet rate|one|map SERVERS NODES WSD EXECUTOR WSD-FLEET DIRECTORY
 *     bench-fleet beside fleet|bare 1 1 WSD EXECUTOR WSD-FLEET DIRECTORY PEER-FLEET
 *
 * A wsd and its wsd-fleet send; each node is a wsd with its wsd-fleet that takes. DIRECTORY: of the plugin work.so. Its
 * function echo gives 16 bytes back. rate, one: as in peer-fleet.c. map: wsd_map(), with jobs that go in parcels.
 * beside: a local job of a node while FLEET_RATE jobs a second come to it by the fleet, or go by the bare loop. */
#include <wsd/client.h>

#include "fleet.h"

#define SMALL    16u
#define MAP_N    200000u
#define MAP_HELD 1024u /* so that a parcel has as many jobs as it may */
#define LOCAL_N  5000u

static const char *wsd_path, *executor_path, *fleet_path, *plugins;
static const char payload[] = "0123456789abcdef";

/* --- machines ----------------------------------------------------------------------------------------------------- */

static void start_wsd(const char *name)
{
    char config[64], socket_path[64], state[64];
    FILE *f;

    snprintf(config, sizeof(config), "%s/%s.conf", fleet_dir, name);
    snprintf(socket_path, sizeof(socket_path), "%s/%s", fleet_dir, name);
    snprintf(state, sizeof(state), "%s/%s.state", fleet_dir, name);
    f = fopen(config, "we");
    if (!f || fputs("[limits]\nmax-jobs = 200000\nmax-jobs-per-user = 200000\n", f) < 0 || fclose(f) != 0)
        give_up("no configuration");
    if (fork_server() == 0)
        exec_server((const char *[]){wsd_path, "--socket", socket_path, "--config", config, "--executor", executor_path,
                                     "--state-dir", state, "--plugin-dir", plugins, "--workers", "2", "--log-level",
                                     "err", NULL});
}

/* half: --no-in or --no-out */
static void start_machine(const char *name, const char *half, unsigned n_held)
{
    char socket_path[64], held[8];

    start_wsd(name);
    snprintf(socket_path, sizeof(socket_path), "%s/%s", fleet_dir, name);
    snprintf(held, sizeof(held), "%u", n_held);
    if (fork_server() == 0)
        exec_server((const char *[]){fleet_path, "-n", fleet_urls, "-s", socket_path, "-N", name, "--plugins", "work",
                                     "--held", held, half, NULL});
}

static struct wsd_client *open_client(const char *name)
{
    char socket_path[64];
    struct wsd_client *client;

    snprintf(socket_path, sizeof(socket_path), "%s/%s", fleet_dir, name);
    for (int i = 0; i < 2000; i++) {
        int r = wsd_client_open(&client, socket_path, 0);
        if (r == 0)
            return client;
        if (r != -ENOENT && r != -ECONNREFUSED)
            give_up(client ? wsd_client_error(client) : strerror(-r));
        wsd_client_free(client);
        usleep(5000);
    }
    give_up("wsd does not answer");
}

static struct wsd_call *submit(struct wsd_client *client, const char *plugin, const struct wsd_callbacks *callbacks)
{
    struct wsd_submit s = {
        .size = sizeof(s), .plugin = plugin, .function = "echo", .input = payload, .input_size = SMALL};
    struct wsd_call *call;

    if (wsd_client_submit(client, &s, callbacks, &call) < 0)
        give_up(wsd_client_error(client));
    return call;
}

/* Whether it has succeeded. */
static bool one(struct wsd_client *client, const char *plugin)
{
    struct wsd_call *call = submit(client, plugin, NULL);
    const struct wsd_job_info *info;
    size_t size;
    bool good = wsd_call_wait(call, UINT64_MAX, &info) == 0 && info->state == WSD_JOB_SUCCEEDED;

    if (good && (memcmp(wsd_call_output(call, &size), payload, SMALL) != 0 || size != SMALL))
        give_up("wrong answer");
    wsd_call_free(call);
    return good;
}

/* Until each node has asked for jobs. */
static void await_nodes(struct wsd_client *client, unsigned n_nodes)
{
    char command[512], text[4096], wanted[128];

    for (int i = 0; !one(client, "@fleet/work"); i++) {
        if (i == 300)
            give_up("no job runs elsewhere");
        usleep(100000);
    }
    snprintf(command, sizeof(command), "%s --status --json -n %s", fleet_path, fleet_urls);
    snprintf(wanted, sizeof(wanted), "\"plugin\":\"work\",\"waiting\":0,\"held\":0,\"redelivered\":0,\"requests\":%u}",
             n_nodes);
    for (int i = 0;; i++) {
        FILE *f = popen(command, "re");
        size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

        text[n] = 0;
        if (f && pclose(f) == 0 && strstr(text, wanted))
            return;
        if (i == 300)
            give_up("a node does not ask for jobs");
        usleep(100000);
    }
}

static struct wsd_client *start_fleet(unsigned n_nats, unsigned n_nodes, unsigned held)
{
    static const char *const names[FLEET_NODES_MAX] = {"a", "b"};

    start_nats(n_nats, fleet_path);
    start_machine("here", "--no-in", held);
    for (unsigned i = 0; i < n_nodes; i++)
        start_machine(names[i], "--no-out", held);
    struct wsd_client *client = open_client("here");
    await_nodes(client, n_nodes);
    return client;
}

static void end_fleet(void)
{
    end_servers();
    remove_fleet_dir();
}

/* --- what is measured --------------------------------------------------------------------------------------------- */

struct flight {
    struct wsd_client *client;
    uint64_t n_sent, n_ended;
    bool ending;
};

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct flight *f = userdata;

    if (!f->ending && (error || info->state != WSD_JOB_SUCCEEDED))
        give_up(text ? text : "a job did not succeed");
    f->n_ended++;
    wsd_call_free(call);
}

static void keep_full(struct flight *f, uint64_t nsec)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done, .userdata = f};

    for (uint64_t begin = now_nsec(); now_nsec() - begin < nsec;) {
        for (; f->n_sent - f->n_ended < 2 * (uint64_t)FLEET_FLIGHT; f->n_sent++)
            submit(f->client, "@fleet/work", &callbacks);
        if (wsd_client_wait(f->client, UINT64_MAX) < 0)
            give_up(wsd_client_error(f->client));
    }
}

/* CPU time of each kind of process, in the order in which start_fleet() starts them. */
static void add_cpu(unsigned n_nats, double *ret)
{
    for (unsigned i = 0; i < n_servers; i++) {
        unsigned kind = i < n_nats ? 0 : i < n_nats + 2 ? 1 + i - n_nats : 3 + (i - n_nats) % 2;

        ret[kind] += (double)tree_sum(servers[i], 1) / 1e3;
    }
}

/* What n jobs took since `before`. */
static void say_cpu(const char *what, unsigned n_nats, const double *before, double n)
{
    static const char *const kinds[] = {"nats", "sender-wsd", "sender-fleet", "node-wsd", "node-fleet"};
    double after[5] = {0};
    char params[96];

    add_cpu(n_nats, after);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        snprintf(params, sizeof(params), "%s,cpu=%s", what, kinds[i]);
        say(params, "us/job", (after[i] - before[i]) / n);
    }
}

static void measure_rate(struct wsd_client *client, unsigned n_nats, unsigned n_nodes)
{
    struct flight f = {.client = client};
    double before[5] = {0};
    char params[96];

    keep_full(&f, FLEET_WARM_NSEC);
    uint64_t begin = now_nsec(), from = f.n_ended;
    add_cpu(n_nats, before);
    keep_full(&f, FLEET_NSEC);
    double n = (double)(f.n_ended - from);
    snprintf(params, sizeof(params), "what=rate,servers=%u,nodes=%u", n_nats, n_nodes);
    say(params, "us/job", (double)(now_nsec() - begin) / 1e3 / n);
    say_cpu(params, n_nats, before, n);
    f.ending = true;
}

static void closed_loop(struct wsd_client *client, const char *plugin, unsigned n, const char *params)
{
    static double all[LOCAL_N];
    char which[96];

    for (unsigned i = 0; i < n / 10; i++)
        one(client, plugin);
    for (unsigned i = 0; i < n; i++) {
        uint64_t begin = now_nsec();
        if (!one(client, plugin))
            give_up("a job did not succeed");
        all[i] = (double)(now_nsec() - begin) / 1e3;
    }
    snprintf(which, sizeof(which), "%s,quantile=p50", params);
    say(which, "us", quantile(all, n, 0.5));
    snprintf(which, sizeof(which), "%s,quantile=p99", params);
    say(which, "us", quantile(all, n, 0.99));
}

static void measure_one(struct wsd_client *client, unsigned n_nats, unsigned n_nodes)
{
    char params[64];

    snprintf(params, sizeof(params), "what=one,servers=%u,nodes=%u", n_nats, n_nodes);
    closed_loop(client, "@fleet/work", FLEET_CALLS, params);
}

static int on_item(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t output_size,
                   const char *text, void *userdata)
{
    if (error || info->state != WSD_JOB_SUCCEEDED || output_size != SMALL || memcmp(output, payload, SMALL) != 0)
        give_up(error ? text : "wrong answer");
    return 0;
}

static void measure_map(struct wsd_client *client, unsigned n_nats, unsigned n_nodes)
{
    static struct wsd_item items[MAP_N];
    const struct wsd_submit common = {.size = sizeof(common), .plugin = "@fleet/work", .function = "echo"};
    double before[5] = {0};
    char params[64];

    for (size_t i = 0; i < MAP_N; i++)
        items[i] = (struct wsd_item){.size = sizeof(items[i]), .input = payload, .input_size = SMALL};
    add_cpu(n_nats, before);
    uint64_t begin = now_nsec();
    if (wsd_map(client, &common, 0, items, MAP_N, on_item, NULL) < 0)
        give_up(wsd_client_error(client));
    snprintf(params, sizeof(params), "what=map,servers=%u,nodes=%u", n_nats, n_nodes);
    say(params, "us/call", (double)(now_nsec() - begin) / 1e3 / MAP_N);
    say_cpu(params, n_nats, before, MAP_N);
}

/* Until it is killed. */
static void send_paced(void)
{
    struct flight f = {.client = open_client("here")};
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done, .userdata = &f};

    for (uint64_t begin = now_nsec();; usleep(1000)) {
        for (; f.n_sent < (now_nsec() - begin) * FLEET_RATE / 1000000000u; f.n_sent++)
            submit(f.client, "@fleet/work", &callbacks);
        if (wsd_client_process(f.client) < 0)
            give_up(wsd_client_error(f.client));
    }
}

static void measure_beside(bool fleet, const char *peer)
{
    struct wsd_client *client, *sender = NULL;

    if (fleet) {
        sender = start_fleet(1, 1, FLEET_HELD);
        if (fork_server() == 0)
            send_paced();
    } else {
        start_nats(1, fleet_path);
        start_wsd("a");
        if (fork_server() == 0)
            execv(peer, (char *const[]){(char *)peer, (char *)"load", fleet_urls, NULL});
    }
    client = open_client("a");
    usleep(FLEET_WARM_NSEC / 1000);
    closed_loop(client, "work", LOCAL_N, fleet ? "what=local,beside=fleet" : "what=local,beside=bare");
    wsd_client_free(client);
    wsd_client_free(sender);
}

int main(int argc, char **argv)
{
    bool beside = argc == 10 && strcmp(argv[1], "beside") == 0;
    char **at = argv + 2 + beside;

    if (argc != 8 && !beside) {
        fputs("usage: bench-fleet rate|one|map SERVERS NODES WSD EXECUTOR WSD-FLEET DIRECTORY\n"
              "       bench-fleet beside fleet|bare 1 1 WSD EXECUTOR WSD-FLEET DIRECTORY PEER-FLEET\n",
              stderr);
        return 64;
    }
    unsigned n_nats = (unsigned)atoi(at[0]), n_nodes = (unsigned)atoi(at[1]);
    wsd_path = at[2];
    executor_path = at[3];
    fleet_path = at[4];
    plugins = at[5];
    signal(SIGPIPE, SIG_IGN);
    if (n_nats < 1 || n_nats > FLEET_SERVERS_MAX || n_nodes < 1 || n_nodes > FLEET_NODES_MAX)
        return 64;
    if (beside) {
        measure_beside(strcmp(argv[2], "fleet") == 0, at[6]);
    } else {
        struct wsd_client *client = start_fleet(n_nats, n_nodes, strcmp(argv[1], "map") == 0 ? MAP_HELD : FLEET_HELD);

        if (strcmp(argv[1], "rate") == 0)
            measure_rate(client, n_nats, n_nodes);
        else if (strcmp(argv[1], "one") == 0)
            measure_one(client, n_nats, n_nodes);
        else
            measure_map(client, n_nats, n_nodes);
    }
    end_fleet();
    return 0;
}
