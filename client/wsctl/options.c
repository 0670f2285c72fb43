/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c: command lines: the options that every verb has.
 * Owns nothing but getopt's own state. One thread.
 * Keeps: what is wrong is said in one line, with where to look.
 * Does not know what verbs do. */
#include "options.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/code.h"
#include "config.h"
#include "ctl.h"
#include "print.h"
#include "submit-options.h"

#define OPTIONS_MAX 64

enum {
    OPT_SOCKET = 1000,
    OPT_HOST,
    OPT_CERT,
    OPT_KEY,
    OPT_CA,
    OPT_JSON,
    OPT_QUIET,
    OPT_NO_PROGRESS,
    OPT_HELP,
    OPT_VERSION
};

static const struct option common[] = {
    {"socket", required_argument, NULL, OPT_SOCKET}, {"json", no_argument, NULL, OPT_JSON},
    {"quiet", no_argument, NULL, OPT_QUIET},         {"no-progress", no_argument, NULL, OPT_NO_PROGRESS},
    {"host", required_argument, NULL, OPT_HOST},     {"tls-cert", required_argument, NULL, OPT_CERT},
    {"tls-key", required_argument, NULL, OPT_KEY},   {"tls-ca", required_argument, NULL, OPT_CA},
    {"help", no_argument, NULL, OPT_HELP},           {"version", no_argument, NULL, OPT_VERSION},
};

const char ctl_common_help[] = "      --socket PATH   where wsd is (else WSD_SOCKET, your own wsd, the system's)\n"
                               "      --host HOST:PORT  a wsd on another machine, by TLS (else WSD_HOST)\n"
                               "      --tls-cert FILE   your certificate (else WSD_TLS_CERT)\n"
                               "      --tls-key FILE    its key (else WSD_TLS_KEY)\n"
                               "      --tls-ca FILE     who signs the certificate of that wsd (else WSD_TLS_CA)\n"
                               "      --json          one JSON object a line on stdout\n"
                               "  -q, --quiet         no messages of jobs, no headings\n"
                               "      --no-progress   no progress bar\n"
                               "  -h, --help          this, or wsctl VERB --help\n"
                               "  -V, --version       of wsctl\n";

void ctl_help(const struct verb *verb)
{
    printf("usage: wsctl [OPTION...] %s %s\n\n%s.\n%s%s%s\n"
           "Everywhere: --socket PATH, --host HOST:PORT, --tls-cert FILE, --tls-key FILE, --tls-ca FILE,\n            "
           "--json, --quiet, --no-progress, --help, --version\n",
           verb->name, verb->usage, verb->help ? verb->help : "For the completions of shells",
           verb->details[0] ? "\n" : "", verb->details, submit_options_help(verb->takes));
}

/* Says what getopt did not like. A letter that is unknown may stand before others: then getopt is not behind its
 * argument yet. */
static int bad_option(const struct ctl *ctl, int c, char **argv, const char *letters)
{
    char letter[3] = {'-', (char)optopt, 0};
    bool unknown_letter = c == '?' && optopt > 0 && optopt < 256 && !strchr(letters, optopt);
    const char *last = argv[optind - 1], *what = strncmp(last, "--", 2) == 0 && !unknown_letter ? last : letter;
    const char *verb = ctl->verb ? ctl->verb->name : "";

    if (c == ':')
        return ctl_error(CODE_USAGE, what, "needs a value; see wsctl %s%s--help", verb, *verb ? " " : "");
    if (optopt != 0 && what != letter)
        return ctl_error(CODE_USAGE, what, "takes no value; see wsctl %s%s--help", verb, *verb ? " " : "");
    return ctl_error(CODE_USAGE, what, "no such option; see wsctl %s%s--help", verb, *verb ? " " : "");
}

#define TAKEN (-3) /* one that all verbs have */

/* The next option, also one that all verbs have. */
static int next_option(struct ctl *ctl, int argc, char **argv, const char *letters, const struct option *own,
                       int *ret_exit)
{
    struct option all[OPTIONS_MAX] = {{0}};
    size_t n = 0;
    char short_options[64];

    for (; own && own[n].name && n < OPTIONS_MAX - sizeof(common) / sizeof(*common) - 1; n++)
        all[n] = own[n];
    assert(!own || !own[n].name); /* OPTIONS_MAX */
    memcpy(all + n, common, sizeof(common));
    snprintf(short_options, sizeof(short_options), "%s:qhV%s", !ctl->verb || ctl->verb->in_order ? "+" : "", letters);
    opterr = 0;
    int c = getopt_long(argc, argv, short_options, all, NULL);

    switch (c) {
    case OPT_SOCKET:
        ctl->socket = optarg;
        break;
    case OPT_HOST:
        ctl->tls.host = optarg;
        break;
    case OPT_CERT:
        ctl->tls.certificate = optarg;
        break;
    case OPT_KEY:
        ctl->tls.key = optarg;
        break;
    case OPT_CA:
        ctl->tls.ca = optarg;
        break;
    case OPT_JSON:
        ctl->json = true;
        break;
    case 'q':
    case OPT_QUIET:
        ctl->quiet = true;
        break;
    case OPT_NO_PROGRESS:
        ctl->no_progress = true;
        break;
    case 'h':
    case OPT_HELP:
        if (!ctl->verb)
            return 'h';
        ctl_help(ctl->verb);
        *ret_exit = print_end();
        return CTL_EXIT;
    case 'V':
    case OPT_VERSION:
        printf("wsctl %s\n", WSD_VERSION);
        *ret_exit = print_end();
        return CTL_EXIT;
    case '?':
    case ':':
        *ret_exit = bad_option(ctl, c, argv, short_options);
        return CTL_EXIT;
    default:
        return c; /* -1 is CTL_END */
    }
    return TAKEN;
}

int ctl_getopt(struct ctl *ctl, int argc, char **argv, const char *letters, const struct option *own, int *ret_exit)
{
    int c;

    while ((c = next_option(ctl, argc, argv, letters, own, ret_exit)) == TAKEN)
        ;
    return c;
}

static bool names(const char *arg, const struct option *o)
{
    size_t n = strlen(o->name);

    return strncmp(arg + 2, o->name, n) == 0 && (arg[2 + n] == 0 || arg[2 + n] == '=');
}

/* Whether the next argument is a long option of ours. */
static bool is_ours(const char *arg, const struct option *own)
{
    bool ours = false;

    if (strncmp(arg, "--", 2) != 0)
        return false;
    for (const struct option *o = own; o->name; o++)
        ours = ours || names(arg, o);
    for (size_t i = 0; i < sizeof(common) / sizeof(*common); i++)
        ours = ours || (common[i].val < OPT_HELP && names(arg, &common[i]));
    return ours;
}

int ctl_getopt_behind(struct ctl *ctl, int argc, char **argv, const char *letters, const struct option *own,
                      int *ret_exit)
{
    while (optind < argc && is_ours(argv[optind], own)) {
        int c = next_option(ctl, argc, argv, letters, own, ret_exit);

        if (c != TAKEN)
            return c;
    }
    return CTL_END;
}

int ctl_arguments(struct ctl *ctl, int argc, char **argv, int min, int max, int *ret_exit)
{
    int r = ctl_getopt(ctl, argc, argv, "", NULL, ret_exit);

    if (r == CTL_EXIT)
        return r;
    if (argc - optind < min || (max >= 0 && argc - optind > max)) {
        *ret_exit = ctl_error(CODE_USAGE, ctl->verb->name, "%s; usage: wsctl %s %s",
                              argc - optind < min ? "something is missing" : "too many arguments", ctl->verb->name,
                              ctl->verb->usage);
        return CTL_EXIT;
    }
    return CTL_END;
}
