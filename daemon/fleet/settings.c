/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c: what wsd-fleet is told: [fleet] of wsd.conf, then the command line.
 * Owns the texts. [before the loop]
 * Keeps: an option that is a key of [fleet] is checked and kept by the table of wsd.conf, and wins over the files. */
#include "fleet/settings.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "config.h"
#include "base/complain.h"
#include "configuration/scalars.h"
#include "fleet/in.h"
#include "fleet/letter.h"

#define SERVERS  "nats://localhost:4222"
#define JOBS_MAX 1000000u

static_assert(CONFIG_HELD_MAX == IN_HELD_MAX && CONFIG_NODE == LETTER_NAME,
              "wsd.conf and the fleet have the same limits");

static const char usage[] =
    "usage: wsd-fleet [OPTION]...\n"
    "\n"
    "Hands jobs of the local wsd to other machines, and takes theirs. See wsd-fleet(8).\n"
    "These are over [fleet] in wsd.conf(5):\n"
    "\n"
    "  -n, --servers URL,...    NATS servers (" SERVERS ")\n"
    "  -N, --node NAME          this node's name: letters, digits, _ and - (the host's name)\n"
    "  -p, --plugins NAME,...   takes jobs for these plugins (all that wsd has)\n"
    "  -k, --held N             takes at most N jobs at once (128)\n"
    "  -a, --ack-wait TIME      how long the servers wait before they take a silent node for dead (5s)\n"
    "  -w, --wait TIME          how long a job waits for a server that takes it, before it fails (forever)\n"
    "      --run-as USER        jobs of other machines run as this user; same: as that of the submitter's name\n"
    "      --builds             takes jobs for PLUGIN.BUILD, too, where that is its build of the plugin\n"
    "      --no-in, --no-out    takes no jobs; hands none out\n"
    "      --tls-ca FILE        servers must have a certificate of one of these\n"
    "      --tls-cert FILE, --tls-key FILE    this node's own certificate, and its key\n"
    "      --creds FILE         the credentials of a user of the servers\n"
    "\n"
    "  -c, --config FILE        reads this file instead of " WSD_SYSCONFDIR "/wsd/wsd.conf and wsd.conf.d/*.conf\n"
    "  -s, --socket PATH        the socket of wsd\n"
    "      --init               makes the streams on the servers, says so, and ends\n"
    "      --replicas N         with --init: so many servers keep each message (1)\n"
    "      --jobs-max N         with --init: jobs that wait or run, of all nodes (1000000)\n"
    "      --keep TIME          with --init: how long ends are there for a machine that is away (1h)\n"
    "      --status [--json]    says how the streams are, and ends\n"
    "  -h, --help\n"
    "  -V, --version\n";

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

/* --- the command line --------------------------------------------------------------------------------------------- */

enum long_option {
    OPTION_INIT = 256,
    OPTION_REPLICAS,
    OPTION_JOBS_MAX,
    OPTION_KEEP,
    OPTION_STATUS,
    OPTION_JSON,
    OPTION_KEY
};

/* Options that are keys of [fleet]: the option of each is OPTION_KEY and its place here, or the letter. */
static const struct {
    const char *option, *key, *value; /* NULL: the option's own */
    char letter;
} keys[] = {
    {"servers", "servers", NULL, 'n'}, {"node", "node", NULL, 'N'},         {"plugins", "plugins", NULL, 'p'},
    {"held", "held", NULL, 'k'},       {"ack-wait", "ack-wait", NULL, 'a'}, {"no-in", "in", "no", 0},
    {"wait", "wait", NULL, 'w'},       {"builds", "builds", "yes", 0},      {"no-out", "out", "no", 0},
    {"tls-ca", "tls-ca", NULL, 0},     {"tls-cert", "tls-cert", NULL, 0},   {"tls-key", "tls-key", NULL, 0},
    {"creds", "creds", NULL, 0},       {"run-as", "run-as", NULL, 0},
};

static const struct option others[] = {{"config", required_argument, NULL, 'c'},
                                       {"socket", required_argument, NULL, 's'},
                                       {"init", no_argument, NULL, OPTION_INIT},
                                       {"replicas", required_argument, NULL, OPTION_REPLICAS},
                                       {"jobs-max", required_argument, NULL, OPTION_JOBS_MAX},
                                       {"keep", required_argument, NULL, OPTION_KEEP},
                                       {"status", no_argument, NULL, OPTION_STATUS},
                                       {"json", no_argument, NULL, OPTION_JSON},
                                       {"help", no_argument, NULL, 'h'},
                                       {"version", no_argument, NULL, 'V'}};

static int set_key(struct settings *s, size_t i)
{
    char error[CONFIG_ERROR];

    if (config_set(&s->config, "fleet", keys[i].key, keys[i].value ? keys[i].value : optarg, error) == 0)
        return -1;
    complain("--%s: %s", keys[i].option, error);
    return CODE_USAGE;
}

/* -1: go on; else an exit status. */
static int set(struct settings *s, int c, char **argv, const char **ret_file)
{
    uint64_t n;

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (c == (keys[i].letter ? keys[i].letter : OPTION_KEY + (int)i))
            return set_key(s, i);
    switch (c) {
    case 'c':
        *ret_file = optarg;
        return -1;
    case 's':
        s->socket = optarg;
        return -1;
    case OPTION_REPLICAS:
        if (!number(optarg, 1, 5, &n))
            return wrong("a number of servers from 1 to 5 is wanted", optarg);
        s->setup.replicas = (uint32_t)n;
        return -1;
    case OPTION_JOBS_MAX:
        if (!number(optarg, 1, UINT32_MAX, &s->setup.jobs_max))
            return wrong("a number of jobs from 1 on is wanted", optarg);
        return -1;
    case OPTION_KEEP:
        if (scalar_time(optarg, &n) < 0 || n < LETTER_KEPT_USEC || n > LETTER_KEPT_MOST)
            return wrong("a time from 1h to 30d is wanted", optarg);
        s->setup.kept_usec = n;
        return -1;
    case OPTION_INIT:
        s->init = true;
        return -1;
    case OPTION_STATUS:
        s->status = true;
        return -1;
    case OPTION_JSON:
        s->setup.json = true;
        return -1;
    case 'h':
        fputs(usage, stdout);
        return 0;
    case 'V':
        puts("wsd-fleet " WSD_VERSION);
        return 0;
    case ':':
        return wrong("this option wants a value", argv[optind - 1]);
    default:
        return wrong("no such option: wsd-fleet --help says what there is", argv[optind - 1]);
    }
}

/* Applies the options over what is set. */
static int apply(struct settings *s, int argc, char **argv, const char **ret_file)
{
    struct option options[ARRAY_SIZE(others) + ARRAY_SIZE(keys) + 1] = {0};
    int r = -1;

    memcpy(options, others, sizeof(others));
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        options[ARRAY_SIZE(others) + i] =
            (struct option){keys[i].option, keys[i].value ? no_argument : required_argument, NULL,
                            keys[i].letter ? keys[i].letter : OPTION_KEY + (int)i};
    optind = 0;
    opterr = 0; /* it would print anything */
    for (int c; r < 0 && (c = getopt_long(argc, argv, ":n:s:N:p:k:a:w:c:hV", options, NULL)) != -1;)
        r = set(s, c, argv, ret_file);
    return r < 0 && optind < argc ? wrong("an argument that is no option", argv[optind]) : r;
}

/* --- both --------------------------------------------------------------------------------------------------------- */

/* Says what is wrong with a key, and where that is set. */
static int refuse(const struct settings *s, const char *key, const char *words, const char *more, int code)
{
    struct config_origin o = config_origin(&s->config, "fleet", key);

    if (o.file)
        complain("%.300s:%u: [fleet] %s: %s%s", o.file, o.line, key, words, more);
    else
        complain("--%s: %s%s", key, words, more);
    return code;
}

/* What libnats would only say when it connects, and not to the user. */
static int check(const struct settings *s)
{
    const struct config_fleet *f = &s->config.fleet;
    const char *key, *words = config_fleet_contradiction(&s->config, &key);
    const struct {
        const char *key, *path;
    } files[] = {
        {"tls-ca", f->tls_ca}, {"tls-cert", f->tls_certificate}, {"tls-key", f->tls_key}, {"creds", f->credentials}};
    char more[160];

    if (words)
        return refuse(s, key, words, "", CODE_USAGE);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        if (files[i].path && access(files[i].path, R_OK) < 0) {
            snprintf(more, sizeof(more), ": %s%s", strerror(errno),
                     errno == EACCES ? ": the user of wsd-fleet has to be able to read it" : "");
            return refuse(s, files[i].key, files[i].path, more, CODE_NOT_FOUND);
        }
    return -1;
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

static void use(struct settings *s)
{
    const struct config_fleet *f = &s->config.fleet;

    s->login = (struct login){.servers = f->servers ? f->servers : SERVERS,
                              .ca = f->tls_ca,
                              .certificate = f->tls_certificate,
                              .key = f->tls_key,
                              .credentials = f->credentials};
    s->setup.login = &s->login;
    if (f->node)
        snprintf(s->node, sizeof(s->node), "%s", f->node);
    else
        host_name(s->node);
}

static int read_files(struct settings *s, const char *file)
{
    char error[CONFIG_ERROR] = "";
    int r =
        file ? config_read(&s->config, file, error) : config_read_standard(&s->config, WSD_SYSCONFDIR "/wsd", error);

    if (r == 0)
        return -1;
    complain("%s", *error ? error : strerror(-r));
    return r == -ENOENT ? CODE_NOT_FOUND : r == -EAGAIN ? CODE_BUSY : r == -ENOMEM ? CODE_SOFTWARE : CODE_USAGE;
}

static int start_over(struct settings *s)
{
    *s = (struct settings){.setup = {.replicas = 1, .jobs_max = JOBS_MAX, .kept_usec = LETTER_KEPT_USEC}};
    return config_init(&s->config) < 0 ? CODE_SOFTWARE : -1;
}

int settings_load(struct settings *s, int argc, char **argv)
{
    const char *file = NULL;
    int r = start_over(s);

    r = r < 0 ? apply(s, argc, argv, &file) : r; /* for --config: the other options are over its file */
    config_deinit(&s->config);
    r = r < 0 ? start_over(s) : r;
    r = r < 0 ? read_files(s, file) : r;
    r = r < 0 ? apply(s, argc, argv, &file) : r;
    r = r < 0 ? check(s) : r;
    if (r < 0)
        use(s);
    return r;
}

void settings_deinit(struct settings *s)
{
    config_deinit(&s->config);
}
