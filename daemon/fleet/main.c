/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c: wsd-fleet, which hands jobs of the local wsd to other machines, and takes theirs, by way of NATS JetStream.
 * Builds the parts, turns the loop. A man page says what it is for: wsd-fleet(8). */
#include <errno.h>
#include <event2/event.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "base/hash.h"
#include "base/log.h"
#include "fleet/bus.h"
#include "fleet/complain.h"
#include "fleet/in.h"
#include "fleet/letter.h"
#include "fleet/out.h"
#include "fleet/setup.h"

#define ACK_USEC 5000000u
#define HELD     128u
#define JOBS_MAX 1000000u

struct fleet {
    struct event_base *base;
    struct bus *bus;
    struct out *out;
    struct in *in;
    bool leaving;
    int exit;
};

struct arguments {
    const char *socket, *plugins;
    char node[LETTER_NAME];
    struct login login;
    struct setup_options setup;
    uint32_t held;
    uint64_t ack_usec;
    bool no_in, no_out, init, status;
};

static const char usage[] =
    "usage: wsd-fleet [OPTION]...\n"
    "\n"
    "Hands jobs of the local wsd to other machines, and takes theirs. See wsd-fleet(8).\n"
    "\n"
    "  -n, --servers URL,...    NATS servers (nats://localhost:4222)\n"
    "  -s, --socket PATH        the socket of wsd\n"
    "  -N, --node NAME          this node's name: letters, digits, _ and - (the host's name)\n"
    "  -p, --plugins NAME,...   takes jobs for these plugins (all that wsd has)\n"
    "  -k, --held N             takes at most N jobs at once (128)\n"
    "  -a, --ack-wait SECONDS   how long the servers wait before they take a silent node for dead (5)\n"
    "      --no-in, --no-out    takes no jobs; hands none out\n"
    "      --init               makes the streams on the servers, says so, and ends\n"
    "      --replicas N         with --init: so many servers keep each message (1)\n"
    "      --jobs-max N         with --init: jobs that wait or run, of all nodes (1000000)\n"
    "      --status [--json]    says how the streams are, and ends\n"
    "      --tls-ca FILE        servers must have a certificate of one of these\n"
    "      --tls-cert FILE, --tls-key FILE    this node's own certificate, and its key\n"
    "      --creds FILE         the credentials of a user of the servers\n"
    "  -h, --help\n";

static int wrong(const char *words, const char *value)
{
    complain("%s: %s", value, words);
    return CODE_USAGE;
}

static bool number(const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
    char *end;

    errno = 0;
    *ret = strtoull(text, &end, 10);
    return !errno && end != text && !*end && *text != '-' && *ret >= least && *ret <= most;
}

/* The host's name, with `-` for what no subject may have. */
static void host_name(char ret[static LETTER_NAME])
{
    char host[256] = "node";

    (void)gethostname(host, sizeof(host) - 1);
    for (char *c = host; *c; c++)
        if (!letter_is_name(c, 1, 2))
            *c = '-';
    snprintf(ret, LETTER_NAME, "%.31s", *host ? host : "node");
}

enum long_option {
    OPTION_NO_IN = 256,
    OPTION_NO_OUT,
    OPTION_INIT,
    OPTION_REPLICAS,
    OPTION_JOBS_MAX,
    OPTION_STATUS,
    OPTION_JSON,
    OPTION_CA,
    OPTION_CERTIFICATE,
    OPTION_KEY,
    OPTION_CREDENTIALS
};
static const struct option options[] = {{"servers", required_argument, NULL, 'n'},
                                        {"socket", required_argument, NULL, 's'},
                                        {"node", required_argument, NULL, 'N'},
                                        {"plugins", required_argument, NULL, 'p'},
                                        {"held", required_argument, NULL, 'k'},
                                        {"ack-wait", required_argument, NULL, 'a'},
                                        {"no-in", no_argument, NULL, OPTION_NO_IN},
                                        {"no-out", no_argument, NULL, OPTION_NO_OUT},
                                        {"init", no_argument, NULL, OPTION_INIT},
                                        {"replicas", required_argument, NULL, OPTION_REPLICAS},
                                        {"jobs-max", required_argument, NULL, OPTION_JOBS_MAX},
                                        {"status", no_argument, NULL, OPTION_STATUS},
                                        {"json", no_argument, NULL, OPTION_JSON},
                                        {"tls-ca", required_argument, NULL, OPTION_CA},
                                        {"tls-cert", required_argument, NULL, OPTION_CERTIFICATE},
                                        {"tls-key", required_argument, NULL, OPTION_KEY},
                                        {"creds", required_argument, NULL, OPTION_CREDENTIALS},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

/* -1: go on; else an exit status. */
static int set(struct arguments *a, int c, char **argv)
{
    uint64_t n;

    switch (c) {
    case 'n':
        a->login.servers = optarg;
        return -1;
    case 's':
        a->socket = optarg;
        return -1;
    case 'p':
        a->plugins = optarg;
        return -1;
    case 'N':
        if (!letter_is_name(optarg, strlen(optarg), LETTER_NAME) || strcmp(optarg, "begun") == 0)
            return wrong("the name of a node is 1 to 31 letters, digits, _ and -", optarg);
        snprintf(a->node, sizeof(a->node), "%s", optarg);
        return -1;
    case 'k':
        if (!number(optarg, 1, IN_HELD_MAX, &n))
            return wrong("a number of jobs from 1 to 4096 is wanted", optarg);
        a->held = (uint32_t)n;
        return -1;
    case 'a':
        if (!number(optarg, 1, 3600, &n))
            return wrong("seconds from 1 to 3600 are wanted", optarg);
        a->ack_usec = n * 1000000;
        return -1;
    case OPTION_REPLICAS:
        if (!number(optarg, 1, 5, &n))
            return wrong("a number of servers from 1 to 5 is wanted", optarg);
        a->setup.replicas = (uint32_t)n;
        return -1;
    case OPTION_JOBS_MAX:
        if (!number(optarg, 1, UINT32_MAX, &a->setup.jobs_max))
            return wrong("a number of jobs from 1 on is wanted", optarg);
        return -1;
    case OPTION_CA:
        a->login.ca = optarg;
        return -1;
    case OPTION_CERTIFICATE:
        a->login.certificate = optarg;
        return -1;
    case OPTION_KEY:
        a->login.key = optarg;
        return -1;
    case OPTION_CREDENTIALS:
        a->login.credentials = optarg;
        return -1;
    case OPTION_NO_IN:
        a->no_in = true;
        return -1;
    case OPTION_NO_OUT:
        a->no_out = true;
        return -1;
    case OPTION_INIT:
        a->init = true;
        return -1;
    case OPTION_STATUS:
        a->status = true;
        return -1;
    case OPTION_JSON:
        a->setup.json = true;
        return -1;
    case 'h':
        fputs(usage, stdout);
        return 0;
    case ':':
        return wrong("this option wants a value", argv[optind - 1]);
    default:
        return wrong("no such option: wsd-fleet --help says what there is", argv[optind - 1]);
    }
}

static int parse(struct arguments *a, int argc, char **argv)
{
    int r = -1;

    opterr = 0; /* it would print anything */
    for (int c; r < 0 && (c = getopt_long(argc, argv, ":n:s:N:p:k:a:h", options, NULL)) != -1;)
        r = set(a, c, argv);
    if (r < 0 && optind < argc)
        r = wrong("an argument that is no option", argv[optind]);
    if (r < 0 && !a->login.certificate != !a->login.key)
        r = wrong("a certificate and its key go together", a->login.key ? a->login.key : a->login.certificate);
    if (r < 0 && a->no_in && a->no_out)
        r = wrong("nothing is left to do", "--no-in --no-out");
    return r;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void end(struct fleet *f, int code)
{
    f->exit = code;
    event_base_loopbreak(f->base);
}

static void look_whether_over(struct fleet *f)
{
    if (f->leaving && !f->out && !f->in)
        end(f, 0);
}

static void out_ended(int error, const char *why, void *context)
{
    struct fleet *f = context;

    if (error) {
        log_error("wsd-fleet: %s", why);
        end(f, CODE_NO_DAEMON);
        return;
    }
    f->out = NULL; /* freed by main */
    look_whether_over(f);
}

static void in_ended(void *context)
{
    struct fleet *f = context;

    f->in = NULL;
    look_whether_over(f);
}

static void on_state(bool up, void *context)
{
    struct fleet *f = context;

    log_notice("wsd-fleet: %s", up ? "connected to NATS" : "no connection to NATS: trying again");
    if (f->out)
        out_state(f->out, up);
    if (f->in)
        in_state(f->in, up);
}

static void on_closed(const char *why, void *context)
{
    struct fleet *f = context;

    if (f->leaving)
        return;
    log_error("wsd-fleet: NATS has closed the connection: %s", why);
    end(f, CODE_NO_DAEMON);
}

/* In order, at the first one; at once, at the second. */
static void on_signal(evutil_socket_t number, short what, void *userdata)
{
    struct fleet *f = userdata;

    if (f->leaving) {
        end(f, CODE_INTERRUPTED);
        return;
    }
    f->leaving = true;
    sd_notify(0, "STOPPING=1");
    if (f->in)
        in_leave(f->in);
    if (f->out)
        out_leave(f->out);
    look_whether_over(f);
}

static void on_counters(evutil_socket_t number, short what, void *userdata)
{
    const struct fleet *f = userdata;
    struct out_counters o = f->out ? out_count(f->out) : (struct out_counters){0};
    struct in_counters i = f->in ? in_count(f->in) : (struct in_counters){0};

    log_notice("wsd-fleet: out: held %" PRIu64 " sent %" PRIu64 " again %" PRIu64 " ended %" PRIu64 " second %" PRIu64
               " cancelled %" PRIu64 "; in: held %" PRIu64 " most %" PRIu64 " taken %" PRIu64 " back %" PRIu64
               " ended %" PRIu64 " redelivered %" PRIu64 " interrupted %" PRIu64 " dead %" PRIu64,
               o.held, o.sent, o.sent_again, o.ended, o.second_ends, o.cancelled, i.held, i.held_most, i.taken,
               i.given_back, i.ended, i.redelivered, i.interrupted, i.dead);
}

static int run(const struct arguments *a)
{
    struct fleet f = {.base = event_base_new()};
    struct event *signals[3] = {0};
    static const int numbers[3] = {SIGTERM, SIGINT, SIGUSR1};
    struct out *out = NULL;
    struct in *in = NULL;
    char why[256] = "out of memory";
    int r = f.base ? 0 : -ENOMEM;

    const struct bus_options bus = {
        .base = f.base, .login = &a->login, .name = a->node, .state = on_state, .closed = on_closed, .context = &f};
    for (size_t i = 0; r == 0 && i < 3; i++) {
        signals[i] = evsignal_new(f.base, numbers[i], i < 2 ? on_signal : on_counters, &f);
        r = !signals[i] || event_add(signals[i], NULL) < 0 ? -ENOMEM : 0;
    }
    r = r ? r : bus_new(&f.bus, &bus, why);
    const struct out_options to = {
        .base = f.base, .bus = f.bus, .socket = a->socket, .node = a->node, .ended = out_ended, .context = &f};
    const struct in_options from = {.base = f.base,
                                    .bus = f.bus,
                                    .socket = a->socket,
                                    .node = a->node,
                                    .plugins = a->plugins,
                                    .held = a->held,
                                    .ack_usec = a->ack_usec,
                                    .ended = in_ended,
                                    .context = &f};
    if (r == 0 && !a->no_out)
        r = out_new(&out, &to);
    if (r == 0 && !a->no_in)
        r = in_new(&in, &from);
    f.out = out;
    f.in = in;
    if (r == 0) {
        sd_notify(0, "READY=1");
        event_base_dispatch(f.base);
    } else {
        log_error("wsd-fleet: %s", why);
        f.exit = CODE_NO_DAEMON;
    }
    in_free(in);
    out_free(out);
    bus_free(f.bus);
    for (size_t i = 0; i < 3; i++)
        if (signals[i])
            event_free(signals[i]);
    if (f.base)
        event_base_free(f.base);
    return f.exit;
}

int main(int argc, char **argv)
{
    struct arguments a = {.login = {.servers = "nats://localhost:4222"},
                          .setup = {.replicas = 1, .jobs_max = JOBS_MAX},
                          .held = HELD,
                          .ack_usec = ACK_USEC};
    int r;

    a.setup.login = &a.login;
    host_name(a.node);
    r = parse(&a, argc, argv);
    if (r >= 0)
        return r;
    signal(SIGPIPE, SIG_IGN);
    if (hash_seed() < 0)
        return wrong("no random numbers", "getrandom");
    return a.init ? setup_init(&a.setup) : a.status ? setup_status(&a.setup) : run(&a);
}
