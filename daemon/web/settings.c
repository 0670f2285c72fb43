/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c: the command line.
 * Owns nothing. */
#include "web/settings.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "base/complain.h"
#include "config.h"

#define FLEET WSD_LIBEXEC_DIR "/wsd-fleet"
#define CHART "/usr/share/javascript/chart.js/chart.min.js"

static const char usage[] =
    "usage: wsd-web [OPTION]...\n"
    "\n"
    "Shows the local wsd as a page, and as metrics for Prometheus. See wsd-web(8).\n"
    "\n"
    "  -l, --listen WHERE     ADDRESS:PORT of this machine, port 0: any; or the path of a socket (127.0.0.1:9473);\n"
    "                         up to 8 times\n"
    "  -s, --socket PATH      the socket of wsd\n"
    "      --token            only those who know a token are let in: it is drawn, and printed with the address\n"
    "      --token-file FILE  the token is the first line of this file\n"
    "      --name HOST        a name of this host, as it stands in the address; up to 15 times\n"
    "      --act              jobs can be cancelled and the like, with the rights of wsd-web's user; with a token "
    "only,\n"
    "                         or with --person-header\n"
    "      --person-header H  the header in which a proxy names the person; it counts by a Unix socket only\n"
    "      --person NAME      only these may cancel and the like; up to 64 times\n"
    "      --history[=FILE]   looks at wsd each second, whether a page is open or not; FILE keeps what was seen\n"
    "      --fleet[=URL,...]  shows the other machines, too, by these servers of NATS ([fleet] servers of wsd.conf)\n"
    "      --fleet-program FILE  the program that asks them (" FLEET ")\n"
    "      --open             shows the page in the browser\n"
    "      --chart FILE       Chart.js (" CHART ")\n"
    "  -h, --help\n"
    "  -V, --version\n";

enum long_option {
    OPTION_TOKEN = 256,
    OPTION_TOKEN_FILE,
    OPTION_NAME,
    OPTION_ACT,
    OPTION_PERSON_HEADER,
    OPTION_PERSON,
    OPTION_HISTORY,
    OPTION_FLEET,
    OPTION_FLEET_PROGRAM,
    OPTION_OPEN,
    OPTION_CHART
};

static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
                                        {"socket", required_argument, NULL, 's'},
                                        {"token", no_argument, NULL, OPTION_TOKEN},
                                        {"token-file", required_argument, NULL, OPTION_TOKEN_FILE},
                                        {"name", required_argument, NULL, OPTION_NAME},
                                        {"act", no_argument, NULL, OPTION_ACT},
                                        {"person-header", required_argument, NULL, OPTION_PERSON_HEADER},
                                        {"person", required_argument, NULL, OPTION_PERSON},
                                        {"history", optional_argument, NULL, OPTION_HISTORY},
                                        {"fleet", optional_argument, NULL, OPTION_FLEET},
                                        {"fleet-program", required_argument, NULL, OPTION_FLEET_PROGRAM},
                                        {"open", no_argument, NULL, OPTION_OPEN},
                                        {"chart", required_argument, NULL, OPTION_CHART},
                                        {"help", no_argument, NULL, 'h'},
                                        {"version", no_argument, NULL, 'V'},
                                        {0}};

static int wrong(const char *words, const char *value)
{
    complain("%s: %s", value, words);
    return CODE_USAGE;
}

static int read_token(struct settings *s, const char *path)
{
    FILE *f = fopen(path, "re");
    char line[sizeof(s->guard.token) + 2] = ""; /* with its end, so that a longer one is seen */
    bool whole = f && fgets(line, sizeof(line), f);
    size_t n = strcspn(line, "\r\n");

    if (!f) {
        complain("%s: %s", path, strerror(errno));
        return CODE_NOT_FOUND;
    }
    fclose(f);
    if (!whole || n < 16 || n >= sizeof(s->guard.token))
        return wrong("a token of 16 to 64 characters is wanted in its first line", path);
    line[n] = 0;
    memcpy(s->guard.token, line, n + 1);
    return -1;
}

static int draw_token(struct settings *s)
{
    if (guard_draw(&s->guard) == 0)
        return -1;
    complain("getrandom: no random numbers");
    return CODE_SOFTWARE;
}

static int add_name(struct settings *s, const char *name)
{
    uint32_t n = 0;

    while (s->guard.names[n])
        n++;
    if (n + 1 == GUARD_NAMES)
        return wrong("15 names are given already", name);
    s->guard.names[n] = name;
    return -1;
}

static int add_person(struct settings *s, const char *name)
{
    uint32_t n = 0;

    while (s->guard.persons[n])
        n++;
    if (n + 1 == GUARD_PERSONS)
        return wrong("64 persons are given already", name);
    s->guard.persons[n] = name;
    return -1;
}

/* -1: go on; else an exit status. */
static int set(struct settings *s, int c, char **argv)
{
    switch (c) {
    case 'l':
        if (s->n_listen == SETTINGS_LISTEN)
            return wrong("8 places to listen are given already", optarg);
        s->listen[s->n_listen++] = optarg;
        return -1;
    case 's':
        s->socket = optarg;
        return -1;
    case OPTION_TOKEN:
        return draw_token(s);
    case OPTION_TOKEN_FILE:
        return read_token(s, optarg);
    case OPTION_NAME:
        return add_name(s, optarg);
    case OPTION_ACT:
        s->guard.acts = true;
        return -1;
    case OPTION_PERSON_HEADER:
        s->guard.person_header = optarg;
        return -1;
    case OPTION_PERSON:
        return add_person(s, optarg);
    case OPTION_HISTORY:
        s->always = true;
        s->history = optarg;
        return -1;
    case OPTION_FLEET:
        s->shows_fleet = true;
        s->fleet.servers = optarg;
        return -1;
    case OPTION_FLEET_PROGRAM:
        s->fleet.program = optarg;
        return -1;
    case OPTION_OPEN:
        s->browse = true;
        return -1;
    case OPTION_CHART:
        s->chart = optarg;
        return -1;
    case 'h':
        fputs(usage, stdout);
        return 0;
    case 'V':
        puts("wsd-web " WSD_VERSION);
        return 0;
    case ':':
        return wrong("this option wants a value", argv[optind - 1]);
    default:
        return wrong("no such option: wsd-web --help says what there is", argv[optind - 1]);
    }
}

int settings_load(struct settings *s, int argc, char **argv)
{
    int r = -1;

    *s = (struct settings){.chart = CHART, .fleet.program = FLEET};
    opterr = 0;
    for (int c; r < 0 && (c = getopt_long(argc, argv, ":l:s:hV", options, NULL)) != -1;)
        r = set(s, c, argv);
    if (r < 0 && optind < argc)
        r = wrong("an argument that is no option", argv[optind]);
    if (r < 0 && s->guard.acts && !*s->guard.token && !s->guard.person_header)
        r = wrong("it wants --token, --token-file or --person-header, or anybody here could act", "--act");
    if (r < 0 && s->guard.persons[0] && !s->guard.person_header)
        r = wrong("it wants --person-header, by which a proxy names them", "--person");
    return r;
}
