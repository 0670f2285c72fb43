/* SPDX-License-Identifier: Apache-2.0
 *
 * complete.c: `wsctl complete WORD...`: what could stand in the place of the last word, for the completions of all
 * shells (packaging/completions). The other words are those between `wsctl` and it.
 * The options and arguments of verbs are read from the text of their help, so they are written only once. Plugins,
 * functions and jobs come from wsd.
 * Prints one candidate a line, with a tab and some words about it. A line without a candidate asks the shell for file
 * names (`files`) or `directories`.
 * Keeps: never an error, never longer than a second, nothing if there is no wsd. Not in --help: users do not type it.
 */
#include <ctype.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "ctl.h"
#include "options.h"
#include "print.h"
#include "submit-options.h"

#define TOKENS_MAX   16
#define OPEN_USEC    500000u
#define PATIENCE_SEC 1u
#define WORD         256u

struct complete {
    struct wsd_client *client;
    const char *word; /* the last one */
    const char *lead; /* what stands before the candidate and is no part of it: `--name=` */
    size_t n_lead;
};

/* --- what comes out --------------------------------------------------------------------------------------------- */

static void offer(const struct complete *c, const char *candidate, const char *text)
{
    const char *begun = c->word + c->n_lead;
    char shown[WORD];

    if (!*candidate || strncmp(candidate, begun, strlen(begun)) != 0)
        return;
    escape_text(shown, sizeof(shown), candidate);
    if (strcmp(shown, candidate) != 0 || strchr(candidate, '\t'))
        return; /* a shell would put what is shown into the command, and that is another name */
    print_line("%.*s%s\t%.*s", (int)MIN(c->n_lead, (size_t)40), c->lead, candidate, (int)WORD, text);
}

/* --- options, as the help has them ------------------------------------------------------------------------------- */

struct help_option {
    char letter; /* 0: none */
    char name[32], value[16], text[128];
};

static const char *copy_word(char *to, size_t room, const char *from, const char *alphabet)
{
    size_t n = strspn(from, alphabet);

    snprintf(to, room, "%.*s", (int)n, from);
    return from + n;
}

/* `  -x, --name VALUE    words`, and the like; other lines are passed over. */
static bool next_option(const char **at, struct help_option *ret)
{
    for (const char *p = *at, *end; *p; p = *end ? end + 1 : end) {
        end = strchrnul(p, '\n');
        *ret = (struct help_option){.letter = 0};
        p += strspn(p, " ");
        if (p[0] == '-' && isalpha((unsigned char)p[1]) && p[2] == ',') {
            ret->letter = p[1];
            p += 4;
        }
        if (strncmp(p, "--", 2) != 0)
            continue;
        p = copy_word(ret->name, sizeof(ret->name), p + 2, "abcdefghijklmnopqrstuvwxyz-");
        if (p[0] == ' ' && isupper((unsigned char)p[1]))
            p = copy_word(ret->value, sizeof(ret->value), p + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        p += strspn(p, " ");
        snprintf(ret->text, sizeof(ret->text), "%.*s", (int)(end - p), p);
        *at = *end ? end + 1 : end;
        return true;
    }
    return false;
}

/* The option that this word is (in `--name`, `--name=value`, `-x`), among those of the verb and the common ones. */
static bool find_option(const struct verb *verb, const char *word, struct help_option *ret)
{
    const char *texts[] = {verb ? verb->details : "", submit_options_help(verb ? verb->takes : 0), ctl_common_help};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        for (const char *at = texts[i]; next_option(&at, ret);) {
            size_t n = strlen(ret->name);

            if (word[1] == '-' ? strncmp(word + 2, ret->name, n) == 0 && (!word[2 + n] || word[2 + n] == '=')
                               : word[1] && word[1] == ret->letter && !word[2])
                return true;
        }
    return false;
}

static void offer_options(const struct complete *c, const struct verb *verb)
{
    const char *texts[] = {verb ? verb->details : "", submit_options_help(verb ? verb->takes : 0), ctl_common_help};
    char name[40];

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct help_option o;

        for (const char *at = texts[i]; next_option(&at, &o);) {
            if (verb && texts[i] == ctl_common_help && strcmp(o.name, "version") == 0)
                continue; /* before the verb only */
            snprintf(name, sizeof(name), "--%s", o.name);
            offer(c, name, o.text);
        }
    }
}

/* --- what wsd knows ----------------------------------------------------------------------------------------------- */

static int offer_job(const struct wsd_job_info *info, void *userdata)
{
    char id[WSD_ID_TEXT], text[WORD];

    wsd_id_text(&info->id, id);
    snprintf(text, sizeof(text), "%.80s:%.60s, %s", info->plugin, info->function, wsd_job_state_name(info->state));
    offer(userdata, id, text);
    return 0;
}

static int offer_open_job(const struct wsd_job_info *info, void *userdata)
{
    return info->state < WSD_JOB_SUCCEEDED ? offer_job(info, userdata) : 0;
}

/* And its functions, those that are more than its name where no colon stands yet. */
static int offer_plugin(const struct wsd_plugin_info *info, void *userdata)
{
    const struct complete *c = userdata;
    const bool colon = strchr(c->word, ':');
    char name[WORD];

    if (!colon)
        offer(c, info->name, info->error[0] ? info->error : info->help);
    for (size_t i = colon ? 0 : 1; i < info->n_functions; i++) { /* the first is what the bare name calls */
        snprintf(name, sizeof(name), "%.120s:%.120s", info->name, info->functions[i].name);
        offer(c, name, info->functions[i].help);
    }
    return 0;
}

static int offer_plugin_only(const struct wsd_plugin_info *info, void *userdata)
{
    offer(userdata, info->name, info->error[0] ? info->error : info->help);
    return 0;
}

static int offer_schedule(const struct wsd_schedule_info *info, void *userdata)
{
    char text[WORD];

    snprintf(text, sizeof(text), "%.80s, %.80s", info->plugin, info->calendar);
    offer(userdata, info->name, text);
    return 0;
}

static void out_of_patience(int signal)
{
    _exit(0);
}

static struct wsd_client *connected(struct complete *c, const char *socket)
{
    if (!c->client && wsd_client_open(&c->client, socket, OPEN_USEC) < 0)
        c->client = wsd_client_free(c->client);
    if (c->client) {
        struct sigaction action = {.sa_handler = out_of_patience};

        /* A daemon may accept and say nothing, while the user waits with a key pressed. */
        sigaction(SIGALRM, &action, NULL);
        alarm(PATIENCE_SEC);
    }
    return c->client;
}

/* --- arguments, as the usage has them ----------------------------------------------------------------------------- */

/* One of a usage's words, without its brackets and dots. */
struct token {
    char text[64];
    bool repeats;
};

/* The words of one alternative of a usage, but options. Returns where the next alternative begins, NULL: there is
 * none. */
static const char *read_usage(const char *usage, struct token *tokens, size_t *ret_n)
{
    *ret_n = 0;
    for (const char *p = usage + strspn(usage, " "), *end; *p; p = end + strspn(end, " ")) {
        struct token t = {.repeats = false};
        size_t n = 0;

        end = p + strcspn(p, " ");
        if (end - p == 1 && *p == '|')
            return end;
        for (; p < end && n < sizeof(t.text) - 1; p++) {
            t.repeats |= *p == '.';
            if (!strchr("[].", *p))
                t.text[n++] = *p;
        }
        if (n > 0 && t.text[0] != '-' && strcmp(t.text, "OPTION") != 0 && *ret_n < TOKENS_MAX)
            tokens[(*ret_n)++] = t;
    }
    return NULL;
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* What a word of a usage, or an option's value, stands for. */
static void offer_kind(struct complete *c, const struct ctl *ctl, const char *kind)
{
    const char *begun = c->word + c->n_lead;

    if (strcmp(kind, "NAME") == 0 && strcmp(ctl->verb->name, "schedule") == 0) {
        if (connected(c, ctl->socket))
            wsd_client_schedules(c->client, offer_schedule, c);
    } else if (strcmp(kind, "NAME") == 0 && strcmp(ctl->verb->name, "runner") == 0) {
        if (connected(c, ctl->socket))
            wsd_client_runners(c->client, NULL, offer_plugin_only, c);
    } else if (starts(kind, "PLUGIN") || starts(kind, "NAME")) {
        if (strchr(begun, '/') || *begun == '.' || *begun == '~')
            print_line("\tfiles");
        else if (connected(c, ctl->socket))
            wsd_client_plugins(c->client, NULL, strstr(kind, ":FUNCTION") ? offer_plugin : offer_plugin_only, c);
    } else if (strcmp(kind, "ID") == 0) {
        if (connected(c, ctl->socket))
            wsd_client_list(c->client, strcmp(ctl->verb->name, "cancel") == 0 ? offer_open_job : offer_job, c);
    } else if (strcmp(kind, "STATE") == 0) {
        for (int state = WSD_JOB_HELD; state <= WSD_JOB_INTERRUPTED; state++)
            offer(c, wsd_job_state_name((enum wsd_job_state)state), "");
    } else if (strcmp(kind, "DIR") == 0) {
        print_line("\tdirectories");
    } else if (strcmp(kind, "ARG") == 0 || strcmp(kind, "ITEM") == 0 || strcmp(kind, "FILE") == 0 ||
               strcmp(kind, "PATH") == 0) {
        print_line("\tfiles");
    } else { /* words that stand for themselves, in small letters */
        char word[64];

        for (const char *p = kind; *p; p += *p == '|') {
            p = copy_word(word, sizeof(word), p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-:");
            if (islower((unsigned char)*word))
                offer(c, word, "");
            if (*p && *p != '|')
                break;
        }
    }
}

/* args: the n arguments before the word. */
static void offer_argument(struct complete *c, const struct ctl *ctl, char *const *args, size_t n)
{
    struct token tokens[TOKENS_MAX];
    size_t n_tokens;

    for (const char *usage = ctl->verb->usage; usage;) {
        bool fits = true;
        size_t at;

        usage = read_usage(usage, tokens, &n_tokens);
        for (at = 0; at < n && at < n_tokens; at++)
            fits &= !islower((unsigned char)tokens[at].text[0]) || strcmp(tokens[at].text, args[at]) == 0;
        for (at = 0; at < MIN(n, n_tokens) && !tokens[at].repeats; at++)
            ;
        if (fits && at < n_tokens)
            offer_kind(c, ctl, tokens[at].text);
    }
}

/* --- the line so far ---------------------------------------------------------------------------------------------- */

/* Behind this many arguments a verb has no more options: submit and map take theirs behind the plugin, too. */
static size_t last_options(const struct verb *verb)
{
    return strstr(verb->usage, "PLUGIN") && strstr(verb->usage, "ARG") ? 1 : 0;
}

static void offer_verbs(const struct complete *c)
{
    const struct verb *verb;

    for (size_t i = 0; (verb = ctl_verb_at(i)); i++)
        if (verb->help)
            offer(c, verb->name, verb->help);
}

static void complete(struct ctl *ctl, struct complete *c, int n, char **words)
{
    struct help_option option = {.value = ""};
    bool ended = false; /* no more options */
    const char *value = NULL, *equals;
    int first = n;

    ctl->verb = NULL;
    for (int i = 0; i < n; i++) {
        const char *word = words[i];

        if (value) {
            if (strcmp(option.name, "socket") == 0)
                ctl->socket = word;
            value = NULL;
        } else if (!ended && word[0] == '-' && word[1]) {
            ended = strcmp(word, "--") == 0;
            equals = strchr(word, '=');
            if (!ended && find_option(ctl->verb, word, &option) && *option.value) {
                value = equals ? NULL : option.value;
                if (equals && strcmp(option.name, "socket") == 0)
                    ctl->socket = equals + 1;
            }
        } else if (!ctl->verb) {
            ctl->verb = ctl_verb(word);
            if (!ctl->verb && strcmp(word, "help") == 0)
                offer_verbs(c);
            if (!ctl->verb)
                return;
        } else {
            first = MIN(first, i);
            ended = ended || (size_t)(i - first) >= last_options(ctl->verb);
        }
    }
    equals = strchr(c->word, '=');
    if (value) {
        offer_kind(c, ctl, value);
    } else if (!ended && starts(c->word, "--") && equals && find_option(ctl->verb, c->word, &option)) {
        c->lead = c->word;
        c->n_lead = (size_t)(equals + 1 - c->word);
        offer_kind(c, ctl, option.value);
    } else if (!ended && c->word[0] == '-') {
        offer_options(c, ctl->verb);
    } else if (!ctl->verb) {
        offer_verbs(c);
    } else {
        offer_argument(c, ctl, words + first, (size_t)(n - first));
    }
}

int verb_complete(struct ctl *ctl, int argc, char **argv)
{
    int first = argc > 1 && strcmp(argv[1], "--") == 0 ? 2 : 1;
    struct complete c = {.word = first < argc ? argv[argc - 1] : "", .lead = ""};

    complete(ctl, &c, MAX(argc - 1 - first, 0), argv + first);
    wsd_client_free(c.client);
    fflush(stdout); /* without a reader there is none to tell */
    return 0;
}
