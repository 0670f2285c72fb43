/* SPDX-License-Identifier: Apache-2.0
 *
 * configuration.c: reads, checks and prints the configuration. inih splits the lines; the table below says what they mean.
 * Owns the strings of a struct config. [loop]
 * Keeps: an unknown section, key or value is an error with file and line, never ignored.
 * Does not apply anything. */
#include "ops/configuration.h"

#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "config.h"

enum kind { KIND_TEXT, KIND_COUNT, KIND_SIZE, KIND_TIME, KIND_WORKERS, KIND_LEVEL, KIND_BOOL, KIND_TRUST, KIND_STACK };

struct key {
    const char *section, *name;
    enum kind kind;
    size_t at;
};

#define AT(member) offsetof(struct config, member)

static const struct key keys[] = {
    {"daemon", "socket", KIND_TEXT, AT(socket)},
    {"daemon", "socket-group", KIND_TEXT, AT(socket_group)},
    {"daemon", "state-dir", KIND_TEXT, AT(state_dir)},
    {"daemon", "executor", KIND_TEXT, AT(executor)},
    {"daemon", "workers", KIND_WORKERS, AT(workers)},
    {"daemon", "log-level", KIND_LEVEL, AT(log_level)},
    {"daemon", "system", KIND_BOOL, AT(is_system)},
    {"daemon", "drain-timeout", KIND_TIME, AT(drain_usec)},
    {"pool", "pin", KIND_BOOL, AT(pin)},
    {"pool", "stack", KIND_STACK, AT(stack_size)},
    {"plugins", "directories", KIND_TEXT, AT(plugin_dirs)},
    {"domains", "trust", KIND_TRUST, AT(one_domain)},
    {"executor", "recycle-jobs", KIND_COUNT, AT(limits.recycle_jobs)},
    {"executor", "recycle-growth", KIND_SIZE, AT(limits.recycle_growth)},
    {"limits", "max-jobs", KIND_COUNT, AT(limits.jobs)},
    {"limits", "max-jobs-per-user", KIND_COUNT, AT(limits.jobs_per_user)},
    {"limits", "max-bytes-per-user", KIND_SIZE, AT(limits.bytes_per_user)},
    {"limits", "max-input", KIND_SIZE, AT(limits.input)},
    {"limits", "max-result", KIND_SIZE, AT(limits.result)},
    {"limits", "keep-results", KIND_TIME, AT(limits.keep_usec)},
    {"limits", "cancel-grace", KIND_TIME, AT(limits.grace_usec)},
    {"limits", "frame-timeout", KIND_TIME, AT(frame_usec)},
    {"limits", "executor-idle", KIND_TIME, AT(limits.idle_usec)},
    {"limits", "executor-answer", KIND_TIME, AT(limits.hang_usec)},
    {"limits", "max-run", KIND_TIME, AT(limits.max_run_usec)},
    {"limits", "quarantine-after", KIND_COUNT, AT(limits.quarantine_after)},
    {"limits", "quarantine-max", KIND_TIME, AT(limits.quarantine_max_usec)},
};

#define WANTED_TIME "a time of at least 1, up to a year, such as 90s (ms, s, min, h, d)"
#define TIME_MAX (366ull * 24 * 3600 * 1000000)

int config_init(struct config *c)
{
    *c = (struct config){
        .log_level = LOG_INFO, .is_system = -1, .drain_usec = 90ull * 1000000,
        .frame_usec = 30ull * 1000000, .stack_size = JOBS_STACK_DEFAULT, .limits = JOBS_LIMITS_DEFAULT};
    c->plugin_dirs = strdup(WSD_PLUGIN_DIR);
    c->executor = strdup(WSD_EXECUTOR);
    return c->plugin_dirs && c->executor ? 0 : -ENOMEM;
}

void config_deinit(struct config *c)
{
    free(c->socket);
    free(c->socket_group);
    free(c->state_dir);
    free(c->plugin_dirs);
    free(c->executor);
    *c = (struct config){0};
}

static int parse_bool(const char *value)
{
    static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false", "off", "0"};

    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        if (strcmp(value, yes[i]) == 0)
            return 1;
        if (strcmp(value, no[i]) == 0)
            return 0;
    }
    return -EINVAL;
}

/* A whole number of at least 1, with one of the suffixes. */
static int parse_number(const char *value, const char *const *suffixes, const uint64_t *factors, size_t n,
                        uint64_t *ret)
{
    char *end;

    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (errno || end == value || value[0] < '0' || value[0] > '9' || number == 0)
        return -EINVAL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(end, suffixes[i]) == 0) {
            if (number > UINT64_MAX / factors[i])
                return -EINVAL;
            *ret = number * factors[i];
            return 0;
        }
    return -EINVAL;
}

static int parse_size(const char *value, uint64_t *ret)
{
    static const char *const suffixes[] = {"", "B", "K", "M", "G", "T"};
    static const uint64_t factors[] = {1, 1, 1ull << 10, 1ull << 20, 1ull << 30, 1ull << 40};

    return parse_number(value, suffixes, factors, ARRAY_SIZE(suffixes), ret);
}

static int parse_time(const char *value, uint64_t *ret)
{
    static const char *const suffixes[] = {"", "s", "ms", "min", "h", "d"};
    static const uint64_t factors[] = {1000000, 1000000, 1000, 60000000, 3600000000u, 86400000000u};

    if (parse_number(value, suffixes, factors, ARRAY_SIZE(suffixes), ret) < 0 || *ret > TIME_MAX)
        return -EINVAL;
    return 0;
}

/* Puts the value in place. NULL, or what would have been right. */
static const char *set(struct config *c, const struct key *key, const char *value)
{
    void *at = (char *)c + key->at;
    uint64_t number;
    char *copy;
    int r;

    switch (key->kind) {
    case KIND_TEXT:
        copy = *value ? strdup(value) : NULL;
        if (!copy)
            return "a text";
        free(*(char **)at);
        *(char **)at = copy;
        return NULL;
    case KIND_COUNT:
        return parse_number(value, (const char *const[]){""}, (const uint64_t[]){1}, 1, at) < 0
                   ? "a whole number of at least 1"
                   : NULL;
    case KIND_SIZE:
        return parse_size(value, at) < 0 ? "a size of at least 1, such as 64M (B, K, M, G, T)" : NULL;
    case KIND_STACK:
        if (parse_size(value, &number) < 0 || number < JOBS_STACK_MIN || number > JOBS_STACK_MAX)
            return "a size from 256K to 1G, such as 8M";
        *(uint64_t *)at = number;
        return NULL;
    case KIND_TIME:
        return parse_time(value, at) < 0 ? WANTED_TIME : NULL;
    case KIND_WORKERS:
        r = parse_number(value, (const char *const[]){""}, (const uint64_t[]){1}, 1, &number);
        if (r < 0 || number > JOBS_WORKERS_MAX)
            return "a number of workers from 1 to 1024";
        *(uint32_t *)at = (uint32_t)number;
        return NULL;
    case KIND_LEVEL:
        r = log_level_parse(value);
        if (r < 0)
            return "emerg, alert, crit, err, warning, notice, info or debug";
        *(int *)at = r;
        return NULL;
    case KIND_BOOL:
        r = parse_bool(value);
        if (r < 0)
            return "yes or no";
        *(int *)at = r;
        return NULL;
    case KIND_TRUST:
        if (strcmp(value, "user") != 0 && strcmp(value, "all") != 0)
            return "user (each user apart) or all (everybody in one executor)";
        *(bool *)at = strcmp(value, "all") == 0;
        return NULL;
    }
    return "something else";
}

/* NULL: too many, or a bad name. */
static struct config_plugin *plugin_get(struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_plugins; i++)
        if (strcmp(c->plugins[i].name, name) == 0)
            return &c->plugins[i];
    if (c->n_plugins == CONFIG_PLUGINS_MAX || strlen(name) >= sizeof(c->plugins[0].name) || !*name)
        return NULL;
    struct config_plugin *p = &c->plugins[c->n_plugins++];
    *p = (struct config_plugin){.enabled = -1};
    snprintf(p->name, sizeof(p->name), "%s", name);
    return p;
}

static int set_plugin(struct config *c, const char *plugin, const char *key, const char *value,
                      char error[static CONFIG_ERROR])
{
    bool own = strcmp(value, "own") == 0;
    const char *wanted = NULL;
    uint64_t usec = 0;
    int enabled = -1;

    if (strcmp(key, "enabled") == 0) {
        enabled = parse_bool(value);
        wanted = enabled < 0 ? "yes or no" : NULL;
    } else if (strcmp(key, "isolation") == 0) {
        wanted = own || strcmp(value, "shared") == 0 ? NULL : "own (an executor of its own) or shared";
    } else if (strcmp(key, "max-run") == 0) {
        wanted = parse_time(value, &usec) < 0 ? WANTED_TIME : NULL;
    } else {
        snprintf(error, CONFIG_ERROR, "[plugin %s] has no key `%s`; it has: enabled isolation max-run", plugin, key);
        return -EINVAL;
    }
    if (wanted) {
        snprintf(error, CONFIG_ERROR, "%s = %s: %s is wanted", key, value, wanted);
        return -EINVAL;
    }
    struct config_plugin *p = plugin_get(c, plugin);
    if (!p) {
        snprintf(error, CONFIG_ERROR, "[plugin %s]: at most %u plugins, with names of 1 to 63 bytes", plugin,
                 CONFIG_PLUGINS_MAX);
        return -EINVAL;
    }
    if (*key == 'e')
        p->enabled = enabled;
    else if (*key == 'i')
        p->own = own;
    else
        p->max_run_usec = usec;
    return 0;
}

static void unknown(const char *section, const char *key, char error[static CONFIG_ERROR])
{
    bool found = false;
    size_t n;

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        found |= strcmp(keys[i].section, section) == 0;
    if (!found) {
        snprintf(error, CONFIG_ERROR,
                 "there is no section [%s]; there are: "
                 "[daemon] [pool] [plugins] [domains] [executor] [limits] [plugin NAME]", section);
        return;
    }
    n = (size_t)snprintf(error, CONFIG_ERROR, "[%s] has no key `%s`; it has:", section, key);
    for (size_t i = 0; i < ARRAY_SIZE(keys) && n < CONFIG_ERROR; i++)
        if (strcmp(keys[i].section, section) == 0)
            n += (size_t)snprintf(error + n, CONFIG_ERROR - n, " %s", keys[i].name);
}

int config_set(struct config *c, const char *section, const char *key, const char *value,
               char error[static CONFIG_ERROR])
{
    if (strncmp(section, "plugin ", 7) == 0)
        return set_plugin(c, section + 7, key, value, error);
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (strcmp(keys[i].section, section) != 0 || strcmp(keys[i].name, key) != 0)
            continue;
        const char *wanted = set(c, &keys[i], value);
        if (!wanted)
            return 0;
        snprintf(error, CONFIG_ERROR, "%s = %s: %s is wanted", key, value, wanted);
        return -EINVAL;
    }
    unknown(section, key, error);
    return -EINVAL;
}

struct reading {
    struct config *config;
    FILE *file;
    const char *path;
    unsigned line, failed_line;
    bool failed;
    char *error;
};

/* Counts the lines, and refuses those that inih would cut in two. */
static char *next_line(char *to, int size, void *stream)
{
    struct reading *r = stream;

    if (r->failed || !fgets(to, size, r->file))
        return NULL;
    r->line++;
    if (strlen(to) + 1 == (size_t)size && to[size - 2] != '\n') {
        snprintf(r->error, CONFIG_ERROR, "%.300s:%u: the line is longer than %d bytes", r->path, r->line, size - 2);
        r->failed_line = r->line;
        r->failed = true;
        return NULL;
    }
    return to;
}

static int on_key(void *user, const char *section, const char *key, const char *value)
{
    struct reading *r = user;
    char why[CONFIG_ERROR];

    if (r->failed)
        return 0;
    if (config_set(r->config, section, key, value, why) == 0)
        return 1;
    snprintf(r->error, CONFIG_ERROR, "%.200s:%u: %.290s", r->path, r->line, why);
    r->failed_line = r->line;
    r->failed = true;
    return 0;
}

int config_read(struct config *c, const char *path, char error[static CONFIG_ERROR])
{
    FILE *file = fopen(path, "re");
    struct reading r = {.config = c, .file = file, .path = path, .error = error};

    if (!file) {
        int e = errno;

        snprintf(error, CONFIG_ERROR, "%.300s: %s", path, strerror(e));
        return -e;
    }
    int line = ini_parse_stream(next_line, &r, on_key, &r);
    bool broken = ferror(file);
    fclose(file);
    /* what inih itself could not read comes first where it stands first */
    if (r.failed && (line == 0 || r.failed_line <= (unsigned)line))
        return -EINVAL;
    if (broken) {
        snprintf(error, CONFIG_ERROR, "%.300s: cannot be read", path);
        return -EIO;
    }
    if (line != 0) {
        snprintf(error, CONFIG_ERROR, "%.300s:%d: neither a [section] nor a `key = value`", path, line);
        return -EINVAL;
    }
    return 0;
}

static int is_conf(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);

    return n > 5 && entry->d_name[0] != '.' && strcmp(entry->d_name + n - 5, ".conf") == 0;
}

int config_read_standard(struct config *c, const char *directory, char error[static CONFIG_ERROR])
{
    _cleanup_(freep) char *main_file = NULL, *more = NULL;
    struct dirent **entries;

    if (asprintf(&main_file, "%s/wsd.conf", directory) < 0 || asprintf(&more, "%s/wsd.conf.d", directory) < 0)
        return -ENOMEM;
    int r = config_read(c, main_file, error);
    if (r < 0 && r != -ENOENT)
        return r;
    int n = scandir(more, &entries, is_conf, alphasort);
    r = 0;
    for (int i = 0; i < n; i++) {
        _cleanup_(freep) char *file = NULL;

        if (r == 0)
            r = asprintf(&file, "%s/%s", more, entries[i]->d_name) < 0 ? -ENOMEM : config_read(c, file, error);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return r;
}

static void print_value(const struct config *c, const struct key *key, FILE *to)
{
    const void *at = (const char *)c + key->at;

    switch (key->kind) {
    case KIND_TEXT: fprintf(to, "%s", *(char *const *)at ? *(char *const *)at : ""); break;
    case KIND_COUNT:
    case KIND_STACK:
    case KIND_SIZE: fprintf(to, "%llu", *(const unsigned long long *)at); break;
    case KIND_TIME: fprintf(to, "%llums", *(const unsigned long long *)at / 1000); break;
    case KIND_WORKERS: fprintf(to, "%u", *(const uint32_t *)at); break;
    case KIND_LEVEL: fprintf(to, "%d", *(const int *)at); break;
    case KIND_BOOL: fprintf(to, "%s", *(const int *)at ? "yes" : "no"); break;
    case KIND_TRUST: fprintf(to, "%s", *(const bool *)at ? "all" : "user"); break;
    }
}

static bool is_unset(const struct config *c, const struct key *key)
{
    const void *at = (const char *)c + key->at;

    return (key->kind == KIND_TEXT && !*(char *const *)at) || (key->kind == KIND_WORKERS && !*(const uint32_t *)at) ||
           (key->kind == KIND_BOOL && *(const int *)at < 0) || ((key->kind == KIND_TIME || key->kind == KIND_COUNT || key->kind == KIND_SIZE) && !*(const uint64_t *)at);
}

void config_print(const struct config *c, FILE *to)
{
    const char *section = "";

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (strcmp(section, keys[i].section) != 0)
            fprintf(to, "%s[%s]\n", *section ? "\n" : "", keys[i].section);
        section = keys[i].section;
        fprintf(to, "%s%s = ", is_unset(c, &keys[i]) ? "# " : "", keys[i].name);
        print_value(c, &keys[i], to);
        fputc('\n', to);
    }
    for (uint32_t i = 0; i < c->n_plugins; i++) {
        const struct config_plugin *p = &c->plugins[i];

        fprintf(to, "\n[plugin %s]\n", p->name);
        if (p->enabled >= 0)
            fprintf(to, "enabled = %s\n", p->enabled ? "yes" : "no");
        fprintf(to, "isolation = %s\n", p->own ? "own" : "shared");
        if (p->max_run_usec)
            fprintf(to, "max-run = %llums\n", (unsigned long long)p->max_run_usec / 1000);
    }
}

static const struct config_plugin *plugin_find(const struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_plugins; i++)
        if (strcmp(c->plugins[i].name, name) == 0)
            return &c->plugins[i];
    return NULL;
}

bool config_plugin_enabled(const struct config *c, const char *name, bool opt_in)
{
    const struct config_plugin *p = plugin_find(c, name);

    return p && p->enabled >= 0 ? p->enabled : !opt_in;
}

bool config_plugin_own(const struct config *c, const char *name)
{
    const struct config_plugin *p = plugin_find(c, name);

    return p && p->own;
}

uint64_t config_plugin_max_run(const struct config *c, const char *name, const char **ret_of)
{
    const struct config_plugin *p = plugin_find(c, name);
    bool by_plugin = p && p->max_run_usec;

    *ret_of = by_plugin ? p->name : NULL;
    return by_plugin ? p->max_run_usec : c->limits.max_run_usec;
}
