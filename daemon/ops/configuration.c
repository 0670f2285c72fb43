/* SPDX-License-Identifier: Apache-2.0
 *
 * configuration.c: reads, checks and prints the configuration. syntax.c splits the lines; the table below says what
 * they mean.
 * Owns the strings of a struct config. [loop]
 * Keeps: an unknown section, key or value is an error with file and line, never ignored.
 * Does not apply anything. */
#include "ops/configuration.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/accounts.h"
#include "base/buffer.h"
#include "base/calendar.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/trust.h"
#include "config.h"
#include "ops/syntax.h"

enum kind {
    KIND_TEXT,
    KIND_COUNT,
    KIND_SIZE,
    KIND_TIME,
    KIND_WORKERS,
    KIND_LEVEL,
    KIND_BOOL,
    KIND_TRUST,
    KIND_STACK,
    KIND_TLS,
    KIND_CORE,
    KIND_MEMORY,
    KIND_CALLS,
    KIND_WRITABLE,
    KIND_AUTO,
    KIND_ID,
    KIND_TASKS,
    KIND_PEOPLE
};

/* When a changed value takes effect at a reload. */
enum applies { APPLIES_NOW = 1, APPLIES_START };

struct key {
    const char *section, *name;
    enum kind kind;
    enum applies applies;
    size_t at;
};

#define AT(member) offsetof(struct config, member)

static const struct key keys[] = {
    {"daemon", "socket", KIND_TEXT, APPLIES_START, AT(socket)},
    {"daemon", "socket-group", KIND_TEXT, APPLIES_START, AT(socket_group)},
    {"daemon", "state-dir", KIND_TEXT, APPLIES_START, AT(state_dir)},
    {"daemon", "executor", KIND_TEXT, APPLIES_START, AT(executor)},
    {"daemon", "spawner", KIND_TEXT, APPLIES_START, AT(spawner)},
    {"daemon", "workers", KIND_WORKERS, APPLIES_NOW, AT(workers)},
    {"daemon", "log-level", KIND_LEVEL, APPLIES_NOW, AT(log_level)},
    {"daemon", "system", KIND_BOOL, APPLIES_START, AT(is_system)},
    {"daemon", "drain-timeout", KIND_TIME, APPLIES_NOW, AT(drain_usec)},
    {"pool", "keep-awake", KIND_AUTO, APPLIES_START, AT(keep_awake)},
    {"pool", "pin", KIND_BOOL, APPLIES_START, AT(pin)},
    {"pool", "stack", KIND_STACK, APPLIES_START, AT(stack_size)},
    {"plugins", "directories", KIND_TEXT, APPLIES_START, AT(plugin_dirs)},
    {"executor", "core-size", KIND_CORE, APPLIES_START, AT(core_size)},
    {"executor", "user-ids", KIND_AUTO, APPLIES_START, AT(user_ids)},
    {"executor", "first-user-id", KIND_ID, APPLIES_START, AT(first_user_id)},
    {"executor", "cgroups", KIND_AUTO, APPLIES_START, AT(cgroups)},
    {"sandbox", "required", KIND_BOOL, APPLIES_START, AT(sandbox_required)},
    {"sandbox", "deny", KIND_CALLS, APPLIES_START, AT(deny)},
    {"sandbox", "writable", KIND_WRITABLE, APPLIES_START, AT(writable)},
    {"domains", "trust", KIND_TRUST, APPLIES_START, AT(one_domain)},
    {"access", "submit", KIND_PEOPLE, APPLIES_NOW, AT(access.lists[ACCESS_SUBMIT])},
    {"access", "see", KIND_PEOPLE, APPLIES_NOW, AT(access.lists[ACCESS_SEE])},
    {"access", "cancel", KIND_PEOPLE, APPLIES_NOW, AT(access.lists[ACCESS_CANCEL])},
    {"access", "administer", KIND_PEOPLE, APPLIES_NOW, AT(access.lists[ACCESS_ADMINISTER])},
    {"executor", "static-tls", KIND_TLS, APPLIES_START, AT(static_tls)},
    {"executor", "recycle-jobs", KIND_COUNT, APPLIES_NOW, AT(limits.recycle_jobs)},
    {"executor", "recycle-growth", KIND_SIZE, APPLIES_NOW, AT(limits.recycle_growth)},
    {"tls", "listen", KIND_TEXT, APPLIES_START, AT(tls_listen)},
    {"tls", "certificate", KIND_TEXT, APPLIES_NOW, AT(tls_certificate)},
    {"tls", "key", KIND_TEXT, APPLIES_NOW, AT(tls_key)},
    {"tls", "ca", KIND_TEXT, APPLIES_NOW, AT(tls_ca)},
    {"tls", "crl", KIND_TEXT, APPLIES_NOW, AT(tls_crl)},
    {"tls", "user-map", KIND_TEXT, APPLIES_NOW, AT(tls_user_map)},
    {"tls", "max-handshakes", KIND_COUNT, APPLIES_NOW, AT(frontend_limits.handshakes)},
    {"tls", "handshake-timeout", KIND_TIME, APPLIES_NOW, AT(frontend_limits.handshake_usec)},
    {"limits", "max-connections", KIND_COUNT, APPLIES_NOW, AT(frontend_limits.connections)},
    {"limits", "max-connections-per-user", KIND_COUNT, APPLIES_NOW, AT(frontend_limits.connections_per_user)},
    {"limits", "max-requests-per-user", KIND_COUNT, APPLIES_NOW, AT(frontend_limits.requests_per_user)},
    {"limits", "max-unread-per-user", KIND_SIZE, APPLIES_NOW, AT(frontend_limits.unread_per_user)},
    {"limits", "max-jobs", KIND_COUNT, APPLIES_NOW, AT(limits.jobs)},
    {"limits", "max-jobs-per-user", KIND_COUNT, APPLIES_NOW, AT(limits.jobs_per_user)},
    {"limits", "max-rate", KIND_COUNT, APPLIES_NOW, AT(limits.rate)},
    {"limits", "max-rate-per-user", KIND_COUNT, APPLIES_NOW, AT(limits.rate_per_user)},
    {"limits", "rate-burst", KIND_COUNT, APPLIES_NOW, AT(limits.rate_burst)},
    {"limits", "max-running", KIND_COUNT, APPLIES_NOW, AT(limits.running)},
    {"limits", "max-running-per-user", KIND_COUNT, APPLIES_NOW, AT(limits.running_per_user)},
    {"limits", "max-schedules-per-user", KIND_COUNT, APPLIES_NOW, AT(limits.schedules_per_user)},
    {"limits", "max-bytes", KIND_SIZE, APPLIES_NOW, AT(limits.bytes)},
    {"limits", "max-bytes-per-user", KIND_SIZE, APPLIES_NOW, AT(limits.bytes_per_user)},
    {"limits", "max-input", KIND_SIZE, APPLIES_NOW, AT(limits.input)},
    {"limits", "max-result", KIND_SIZE, APPLIES_NOW, AT(limits.result)},
    {"limits", "keep-results", KIND_TIME, APPLIES_NOW, AT(limits.keep_usec)},
    {"limits", "cancel-grace", KIND_TIME, APPLIES_NOW, AT(limits.grace_usec)},
    {"limits", "frame-timeout", KIND_TIME, APPLIES_NOW, AT(frontend_limits.frame_usec)},
    {"limits", "executor-idle", KIND_TIME, APPLIES_NOW, AT(limits.idle_usec)},
    {"limits", "executor-memory", KIND_MEMORY, APPLIES_START, AT(executor_memory)},
    {"limits", "executor-tasks", KIND_TASKS, APPLIES_START, AT(executor_tasks)},
    {"limits", "plugin-load", KIND_TIME, APPLIES_NOW, AT(limits.load_usec)},
    {"limits", "executor-answer", KIND_TIME, APPLIES_NOW, AT(limits.hang_usec)},
    {"limits", "max-run", KIND_TIME, APPLIES_NOW, AT(limits.max_run_usec)},
    {"limits", "max-wait", KIND_TIME, APPLIES_NOW, AT(limits.max_wait_usec)},
    {"limits", "quarantine-after", KIND_COUNT, APPLIES_NOW, AT(limits.quarantine_after)},
    {"limits", "quarantine-max", KIND_TIME, APPLIES_NOW, AT(limits.quarantine_max_usec)},
    {"limits", "ageing", KIND_TIME, APPLIES_NOW, AT(limits.ageing_usec)},
    {"store", "keep", KIND_TIME, APPLIES_NOW, AT(limits.store_keep_usec)},
    {"store", "max-size", KIND_SIZE, APPLIES_NOW, AT(limits.store_bytes)},
};

#define WANTED_TIME "a time of at least 1, up to a year, such as 90s (ms, s, min, h, d)"
#define TIME_MAX    (366ull * 24 * 3600 * 1000000)

int config_init(struct config *c)
{
    *c = (struct config){.access.lists[ACCESS_SUBMIT].all = true, /* all users that the socket lets in */
                         .log_level = LOG_INFO,
                         .sandbox_required = 1,
                         .is_system = -1,
                         .drain_usec = 90ull * 1000000,
                         .first_user_id = JOBS_FIRST_USER_ID,
                         .frontend_limits = FRONTEND_LIMITS_DEFAULT,
                         .stack_size = JOBS_STACK_DEFAULT,
                         .static_tls = JOBS_TLS_DEFAULT,
                         .limits = JOBS_LIMITS_DEFAULT};
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) /* a new one cannot forget it */
        assert(keys[i].applies == APPLIES_NOW || keys[i].applies == APPLIES_START);
    c->plugin_dirs = strdup(WSD_PLUGIN_DIR);
    c->executor = strdup(WSD_EXECUTOR);
    c->spawner = strdup(WSD_SPAWNER);
    c->domains = calloc(1, sizeof(*c->domains));
    c->origins = calloc(ARRAY_SIZE(keys), sizeof(*c->origins));
    return c->plugin_dirs && c->executor && c->spawner && c->domains && c->origins ? 0 : -ENOMEM;
}

static void people_free(struct access_list *l)
{
    free(l->uids);
    free(l->gids);
    *l = (struct access_list){0};
}

static void schedule_clear(struct config_schedule *s)
{
    free(s->on);
    free(s->plugin);
    free(s->function);
    free(s->args);
}

void config_deinit(struct config *c)
{
    free(c->socket);
    free(c->socket_group);
    free(c->state_dir);
    free(c->plugin_dirs);
    free(c->executor);
    free(c->spawner);
    for (uint32_t i = 0; c->domains && i < c->domains->n; i++)
        free(c->domains->list[i].uids);
    free(c->domains);
    for (unsigned i = 0; i < ACCESS_RIGHTS; i++)
        people_free(&c->access.lists[i]);
    for (uint32_t i = 0; i < c->n_plugins; i++)
        people_free(&c->plugins[i].users);
    free(c->tls_listen);
    free(c->tls_certificate);
    free(c->tls_key);
    free(c->tls_ca);
    free(c->tls_crl);
    free(c->tls_user_map);
    for (uint32_t i = 0; i < c->n_schedules; i++)
        schedule_clear(&c->schedules[i]);
    free(c->schedules);
    free(c->deny);
    free(c->writable);
    free(c->tags);
    free(c->origins);
    for (uint32_t i = 0; i < c->n_files; i++)
        free(c->files[i]);
    free(c->files);
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

/* Why a system call cannot be denied: without some no executor would start. NULL: it can. */
static const char *check_call(const char *name)
{
    static const char *const needed[] = {"brk",          "clone",
                                         "close",        "exit",
                                         "exit_group",   "fcntl",
                                         "fstat",        "ftruncate",
                                         "futex",        "getpid",
                                         "gettid",       "lseek",
                                         "madvise",      "membarrier",
                                         "memfd_create", "mmap",
                                         "mprotect",     "munmap",
                                         "newfstatat",   "openat",
                                         "poll",         "ppoll",
                                         "prctl",        "pread64",
                                         "prlimit64",    "read",
                                         "recvmsg",      "rseq",
                                         "rt_sigaction", "rt_sigprocmask",
                                         "rt_sigreturn", "sched_getaffinity",
                                         "sendmsg",      "set_robust_list",
                                         "sigaltstack",  "tgkill",
                                         "write",        "writev"};

    for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
        if (strcmp(needed[i], name) == 0)
            return "executors themselves cannot do without it";
    return seccomp_syscall_resolve_name(name) == __NR_SCMP_ERROR
               ? "there is no such system call; syscalls(2) names them"
               : NULL;
}

/* Each line adds to those before it, so that files of wsd.conf.d can. */
static int set_calls(char **at, const char *key, const char *value, char error[static CONFIG_ERROR])
{
    _cleanup_(freep) char *copy = strdup(value), *all = NULL;
    char *save = NULL;

    if (!copy || asprintf(&all, "%s%s%s", *at ? *at : "", *at ? " " : "", value) < 0)
        return -ENOMEM;
    if (!*value || strlen(all) > CONFIG_DENY_MAX) {
        snprintf(error, CONFIG_ERROR, "%s: names of system calls with blanks between are wanted, at most %u bytes", key,
                 CONFIG_DENY_MAX);
        return -EINVAL;
    }
    for (char *name = strtok_r(copy, " \t", &save); name; name = strtok_r(NULL, " \t", &save)) {
        const char *wanted = check_call(name);

        if (wanted) {
            snprintf(error, CONFIG_ERROR, "%s: %.64s: %s", key, name, wanted);
            return -EINVAL;
        }
    }
    for (char *tab = all; (tab = strchr(tab, '\t'));)
        *tab = ' ';
    free(*at);
    *at = TAKE(all);
    return 0;
}

/* In the order of enum jobs_user_ids, enum jobs_cgroups and enum awake_mode. */
static const char *const autos[] = {"auto", "yes", "no"};

static int index_of(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -EINVAL;
}

static bool is_writable_list(const char *value)
{
    if (strcmp(value, "none") == 0)
        return true;
    for (const char *at = value; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL)
        if (*at != '/')
            return false;
    return true;
}

static const char wanted_workers[] = "a number of workers from 1 to 1024",
                  wanted_tasks[] = "a number of processes and threads of at least 1",
                  wanted_memory[] = "none, or a size from 1M to 1024T, such as 4G";

static int parse_workers(const char *value, uint32_t *ret)
{
    uint64_t number;

    if (parse_number(value, (const char *const[]){""}, (const uint64_t[]){1}, 1, &number) < 0 ||
        number > JOBS_WORKERS_MAX)
        return -EINVAL;
    *ret = (uint32_t)number;
    return 0;
}

static int parse_tasks(const char *value, uint64_t *ret)
{
    uint64_t number;

    if (parse_number(value, (const char *const[]){""}, (const uint64_t[]){1}, 1, &number) < 0 || number > INT32_MAX / 2)
        return -EINVAL;
    *ret = number;
    return 0;
}

static int parse_weight(const char *value, uint32_t *ret)
{
    uint64_t number;

    if (parse_number(value, (const char *const[]){""}, (const uint64_t[]){1}, 1, &number) < 0 ||
        number > JOBS_CPU_WEIGHT_MAX)
        return -EINVAL;
    *ret = (uint32_t)number;
    return 0;
}

static int parse_memory(const char *value, uint64_t *ret)
{
    uint64_t number = 0;

    if (strcmp(value, "none") != 0 &&
        (parse_size(value, &number) < 0 || number < CONFIG_MEMORY_MIN || number > CONFIG_MEMORY_MAX))
        return -EINVAL;
    *ret = number;
    return 0;
}

/* Sets the value. Returns NULL, or what would have been right. */
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
    case KIND_TLS:
        if (parse_size(value, &number) < 0 || number > JOBS_TLS_MAX)
            return "a size of at most 256K, such as 64K";
        *(uint64_t *)at = number;
        return NULL;
    case KIND_TIME:
        return parse_time(value, at) < 0 ? WANTED_TIME : NULL;
    case KIND_WORKERS:
        return parse_workers(value, at) < 0 ? wanted_workers : NULL;
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
    case KIND_CORE:
        if (strcmp(value, "none") == 0)
            *(uint64_t *)at = 0;
        else if (strcmp(value, "unlimited") == 0)
            *(uint64_t *)at = UINT64_MAX;
        else if (parse_size(value, at) < 0)
            return "none, unlimited, or a size such as 512M";
        return NULL;
    case KIND_MEMORY:
        return parse_memory(value, at) < 0 ? wanted_memory : NULL;
    case KIND_ID:
        if (parse_number(value, (const char *const[]){""}, (const uint64_t[]){1}, 1, &number) < 0 ||
            number >= UINT32_MAX)
            return "a user id of at least 1";
        *(uint64_t *)at = number;
        return NULL;
    case KIND_TASKS:
        return parse_tasks(value, at) < 0 ? wanted_tasks : NULL;
    case KIND_AUTO:
        r = index_of(autos, ARRAY_SIZE(autos), value);
        if (r < 0)
            return "auto, yes or no";
        *(int *)at = r;
        return NULL;
    case KIND_CALLS:
    case KIND_PEOPLE:
        break; /* set_calls(), set_people() */
    case KIND_WRITABLE:
        copy = is_writable_list(value) ? strdup(value) : NULL;
        if (!copy)
            return "none, or absolute directories with colons between";
        free(*(char **)at);
        *(char **)at = copy;
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
    *p = (struct config_plugin){.enabled = -1, .origin = c->now};
    snprintf(p->name, sizeof(p->name), "%s", name);
    return p;
}

#define SHARE_KEYS "workers executor-memory executor-tasks cpu-weight"

/* False: it has no such key. */
static bool set_share(struct config_share *s, const char *key, const char *value, const char **ret_wanted)
{
    if (strcmp(key, "workers") == 0) {
        *ret_wanted = parse_workers(value, &s->workers) < 0 ? wanted_workers : NULL;
    } else if (strcmp(key, "executor-memory") == 0) {
        *ret_wanted = parse_memory(value, &s->memory) < 0 ? wanted_memory : NULL;
        s->has_memory = true;
    } else if (strcmp(key, "executor-tasks") == 0) {
        *ret_wanted = parse_tasks(value, &s->tasks) < 0 ? wanted_tasks : NULL;
    } else if (strcmp(key, "cpu-weight") == 0) {
        *ret_wanted = parse_weight(value, &s->cpu_weight) < 0 ? "a weight from 1 to 10000 (others have 100)" : NULL;
    } else {
        return false;
    }
    return true;
}

static int number_of(const char *text, uint32_t *ret)
{
    char *end;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno || *end || end == text || text[0] < '0' || text[0] > '9' || number >= UINT32_MAX)
        return -ENOENT;
    *ret = (uint32_t)number;
    return 0;
}

/* 0, -ENOENT, or another negative errno: it is not known whether there is one. */
static int uid_of(const char *user, uint32_t *ret)
{
    struct account found;

    if (number_of(user, ret) == 0)
        return 0;
    int r = account_by_name(user, &found);
    if (r == 0)
        *ret = found.uid;
    return r;
}

static int gid_of(const char *group, uint32_t *ret)
{
    return number_of(group, ret) == 0 ? 0 : group_by_name(group, ret);
}

/* -EAGAIN, with the words. */
static int no_answer(const char *key, const char *name, int r, char error[static CONFIG_ERROR])
{
    snprintf(error, CONFIG_ERROR, "%s: %.64s: " ACCOUNTS_SILENT, key, name, strerror(-r));
    return -EAGAIN;
}

static int id_add(uint32_t **ids, uint32_t *n, uint32_t id)
{
    uint32_t *more = *n < CONFIG_USERS_MAX ? realloc(*ids, (*n + 1) * sizeof(*more)) : NULL;

    if (!more)
        return *n < CONFIG_USERS_MAX ? -ENOMEM : -E2BIG;
    *ids = more;
    more[(*n)++] = id;
    return 0;
}

static int person_add(struct access_list *l, const char *who, const char *key, char error[static CONFIG_ERROR])
{
    bool is_group = *who == '@', everybody = strcmp(who, "*") == 0;
    uint32_t id;
    int r = everybody ? 0 : is_group ? gid_of(who + 1, &id) : uid_of(who, &id);

    if (r < 0 && r != -ENOENT)
        return no_answer(key, who, r, error);
    if (everybody)
        l->all = true;
    else if (r == 0 && is_group)
        r = id_add(&l->gids, &l->n_gids, id);
    else if (r == 0)
        r = id_add(&l->uids, &l->n_uids, id);
    if (r == -ENOENT)
        snprintf(error, CONFIG_ERROR, "%s: %.64s: there is no such %s; wanted are users, @groups, or * for everybody",
                 key, who, is_group ? "group" : "user");
    if (r == -E2BIG)
        snprintf(error, CONFIG_ERROR, "%s: at most %u users and as many groups", key, CONFIG_USERS_MAX);
    return r;
}

/* The first line replaces the default, and later lines add to it; an empty one clears the list. */
static int set_people(struct access_list *l, const char *key, const char *value, char error[static CONFIG_ERROR])
{
    _cleanup_(freep) char *copy = strdup(value);
    char *save = NULL;
    int r = 0;

    if (!copy)
        return -ENOMEM;
    if (!l->said || !*value)
        people_free(l);
    l->said = true;
    for (char *who = strtok_r(copy, " \t", &save); who && r == 0; who = strtok_r(NULL, " \t", &save))
        r = person_add(l, who, key, error);
    return r == -ENOMEM || r == -EAGAIN ? r : r < 0 ? -EINVAL : 0;
}

static const char *parse_running(const char *value, uint64_t *ret)
{
    return parse_number(value, (const char *const[]){""}, (const uint64_t[]){1}, 1, ret) < 0 || *ret > UINT32_MAX
               ? "a number of jobs from 1 on"
               : NULL;
}

static int set_plugin(struct config *c, const char *plugin, const char *key, const char *value,
                      char error[static CONFIG_ERROR])
{
    bool own = strcmp(value, "own") == 0;
    const char *wanted = NULL;
    struct config_share share = {0};
    uint64_t usec = 0, running = 0;
    int enabled = -1;

    if (strcmp(key, "users") == 0) {
        struct config_plugin *p = plugin_get(c, plugin);

        if (p)
            return set_people(&p->users, key, value, error);
    } else if (strcmp(key, "enabled") == 0) {
        enabled = parse_bool(value);
        wanted = enabled < 0 ? "yes or no" : NULL;
    } else if (strcmp(key, "isolation") == 0) {
        wanted = own || strcmp(value, "shared") == 0 ? NULL : "own (an executor of its own) or shared";
    } else if (strcmp(key, "max-run") == 0) {
        wanted = parse_time(value, &usec) < 0 ? WANTED_TIME : NULL;
    } else if (strcmp(key, "max-running") == 0) {
        wanted = parse_running(value, &running);
    } else if (!set_share(&share, key, value, &wanted)) {
        snprintf(error, CONFIG_ERROR,
                 "[plugin %s] has no key `%.64s`; it has: users enabled isolation max-run max-running " SHARE_KEYS,
                 plugin, key);
        return -EINVAL;
    }
    if (wanted) {
        snprintf(error, CONFIG_ERROR, "%s = %.128s: %s is wanted", key, value, wanted);
        return -EINVAL;
    }
    struct config_plugin *p = plugin_get(c, plugin);
    if (!p) {
        snprintf(error, CONFIG_ERROR, "[plugin %s]: at most %u plugins, with names of 1 to 42 bytes", plugin,
                 CONFIG_PLUGINS_MAX);
        return -EINVAL;
    }
    if (enabled >= 0)
        p->enabled = enabled;
    else if (*key == 'i')
        p->own = own;
    else if (running)
        p->max_running = (uint32_t)running;
    else if (usec)
        p->max_run_usec = usec;
    else
        (void)set_share(&p->share, key, value, &wanted);
    return 0;
}

static bool is_tag(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    return n > 0 && !name[n] && n < sizeof(((struct config_tag *)0)->name);
}

/* NULL: too many, or no memory. */
static struct config_tag *tag_get(struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_tags; i++)
        if (strcmp(c->tags[i].name, name) == 0)
            return &c->tags[i];
    if (!c->tags)
        c->tags = calloc(CONFIG_TAGS_MAX, sizeof(*c->tags));
    if (!c->tags || c->n_tags == CONFIG_TAGS_MAX)
        return NULL;
    snprintf(c->tags[c->n_tags].name, sizeof(c->tags[0].name), "%s", name);
    return &c->tags[c->n_tags++];
}

static int set_tag(struct config *c, const char *name, const char *key, const char *value,
                   char error[static CONFIG_ERROR])
{
    const char *wanted;
    uint64_t running = 0;

    if (strcmp(key, "max-running") != 0) {
        snprintf(error, CONFIG_ERROR, "[tag %s] has no key `%.64s`; it has: max-running", name, key);
        return -EINVAL;
    }
    wanted = parse_running(value, &running);
    if (wanted) {
        snprintf(error, CONFIG_ERROR, "%s = %.128s: %s is wanted", key, value, wanted);
        return -EINVAL;
    }
    struct config_tag *t = is_tag(name) ? tag_get(c, name) : NULL;
    if (!t) {
        snprintf(error, CONFIG_ERROR,
                 "[tag %s]: at most %u tags, with names of 1 to 45 letters, digits, dots, underscores and hyphens",
                 name, CONFIG_TAGS_MAX);
        return -EINVAL;
    }
    t->max_running = (uint32_t)running;
    return 0;
}

/* NULL: too many, or a bad name. */
static struct config_domain *domain_get(struct config *c, const char *name)
{
    struct config_domains *all = c->domains;

    for (uint32_t i = 0; i < all->n; i++)
        if (strcmp(all->list[i].name, name) == 0)
            return &all->list[i];
    if (all->n == CONFIG_DOMAINS_MAX || strlen(name) >= sizeof(all->list[0].name) || !*name)
        return NULL;
    struct config_domain *d = &all->list[all->n++];
    *d = (struct config_domain){0};
    snprintf(d->name, sizeof(d->name), "%s", name);
    return d;
}

static const char *domain_of(const struct config *c, uint32_t uid)
{
    for (uint32_t i = 0; i < c->domains->n; i++)
        for (uint32_t j = 0; j < c->domains->list[i].n_uids; j++)
            if (c->domains->list[i].uids[j] == uid)
                return c->domains->list[i].name;
    return NULL;
}

/* Each line adds to those before it. */
static int set_users(struct config *c, struct config_domain *d, const char *value, char error[static CONFIG_ERROR])
{
    _cleanup_(freep) char *copy = strdup(value);
    char *save = NULL;

    for (char *user = copy ? strtok_r(copy, " \t", &save) : NULL; user; user = strtok_r(NULL, " \t", &save)) {
        const char *other;
        uint32_t uid;

        int r = uid_of(user, &uid);
        if (r < 0 && r != -ENOENT)
            return no_answer("users", user, r, error);
        if (r < 0) {
            snprintf(error, CONFIG_ERROR, "users: %.64s: there is no such user", user);
            return -EINVAL;
        }
        other = domain_of(c, uid);
        if (other) {
            snprintf(error, CONFIG_ERROR, "users: %.64s is in [domain %s] already", user, other);
            return -EINVAL;
        }
        if (d->n_uids == CONFIG_USERS_MAX) {
            snprintf(error, CONFIG_ERROR, "users: at most %u in a domain", CONFIG_USERS_MAX);
            return -EINVAL;
        }
        if (id_add(&d->uids, &d->n_uids, uid) < 0)
            return -ENOMEM;
    }
    return copy ? 0 : -ENOMEM;
}

static int set_domain(struct config *c, const char *name, const char *key, const char *value,
                      char error[static CONFIG_ERROR])
{
    struct config_domain *d = domain_get(c, name);
    const char *wanted = NULL;

    if (!d) {
        snprintf(error, CONFIG_ERROR, "[domain %s]: at most %u domains, with names of 1 to 42 bytes", name,
                 CONFIG_DOMAINS_MAX);
        return -EINVAL;
    }
    if (strcmp(key, "users") == 0)
        return set_users(c, d, value, error);
    if (!set_share(&d->share, key, value, &wanted)) {
        snprintf(error, CONFIG_ERROR, "[domain %s] has no key `%.64s`; it has: users " SHARE_KEYS, name, key);
        return -EINVAL;
    }
    if (!wanted)
        return 0;
    snprintf(error, CONFIG_ERROR, "%s = %.128s: %s is wanted", key, value, wanted);
    return -EINVAL;
}

/* NULL: too many, a bad name, or no memory. */
static struct config_schedule *schedule_get(struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_schedules; i++)
        if (strcmp(c->schedules[i].name, name) == 0)
            return &c->schedules[i];
    if (c->n_schedules == CONFIG_SCHEDULES_MAX || !jobs_schedule_is_name(name))
        return NULL;
    struct config_schedule *more = realloc(c->schedules, (c->n_schedules + 1) * sizeof(*more));
    if (!more)
        return NULL;
    c->schedules = more;
    struct config_schedule *s = &more[c->n_schedules++];
    *s = (struct config_schedule){.origin = c->now};
    snprintf(s->name, sizeof(s->name), "%s", name);
    return s;
}

/* PLUGIN[:FUNCTION] ARG... */
static int set_job(struct config_schedule *s, const char *value)
{
    _cleanup_(freep) char *words = NULL;
    size_t size;
    uint32_t n;
    int r = syntax_words(value, &words, &size, &n);

    if (r < 0 || n == 0 || !*words)
        return r < 0 ? r : -EINVAL;
    size_t first = strlen(words) + 1;
    char *colon = strrchr(words, ':');
    if (colon && !strchr(colon, '/'))
        *colon++ = 0;
    else
        colon = NULL;
    if (!*words || (colon && !*colon))
        return -EINVAL;
    char *plugin = strdup(words), *function = strdup(colon ? colon : ""), *args = malloc(size - first + 1);
    if (!plugin || !function || !args) {
        free(plugin);
        free(function);
        free(args);
        return -ENOMEM;
    }
    memcpy(args, words + first, size - first);
    free(s->plugin);
    free(s->function);
    free(s->args);
    s->plugin = plugin;
    s->function = function;
    s->args = args;
    s->args_size = size - first;
    s->argc = n - 1;
    return 0;
}

static int set_on(struct config_schedule *s, const char *value)
{
    struct calendar *calendar;
    int r = calendar_parse(&calendar, value);
    char *copy;

    if (r < 0)
        return r;
    calendar_free(calendar);
    copy = strdup(value);
    if (!copy)
        return -ENOMEM;
    free(s->on);
    s->on = copy;
    return 0;
}

static int set_schedule(struct config *c, const char *name, const char *key, const char *value,
                        char error[static CONFIG_ERROR])
{
    struct config_schedule *s = schedule_get(c, name);
    const char *wanted = NULL;
    int flag;

    if (!s) {
        snprintf(error, CONFIG_ERROR, "[schedule %s]: at most %u schedules, with names of letters, digits and _-.@+",
                 name, CONFIG_SCHEDULES_MAX);
        return -EINVAL;
    }
    if (strcmp(key, "on") == 0) {
        s->on_origin = c->now;
        wanted = set_on(s, value) < 0 ? "a calendar expression of systemd.time(7), such as Mon..Fri 08:00," : NULL;
    } else if (strcmp(key, "job") == 0) {
        s->job_origin = c->now;
        wanted = set_job(s, value) < 0 ? "PLUGIN[:FUNCTION] ARGUMENT..." : NULL;
    } else if (strcmp(key, "persistent") == 0) {
        flag = parse_bool(value);
        wanted = flag < 0 ? "yes or no" : NULL;
        s->persistent = flag > 0;
    } else if (strcmp(key, "user") == 0) {
        int r = uid_of(value, &s->uid);
        if (r < 0 && r != -ENOENT)
            return no_answer(key, value, r, error);
        wanted = r < 0 ? "the name or number of a user" : NULL;
        s->has_uid = true;
    } else {
        snprintf(error, CONFIG_ERROR, "[schedule %s] has no key `%.64s`; it has: on job persistent user", name, key);
        return -EINVAL;
    }
    if (!wanted)
        return 0;
    snprintf(error, CONFIG_ERROR, "%s = %.128s: %s is wanted", key, value, wanted);
    return -EINVAL;
}

int config_check(const struct config *c, char error[static CONFIG_ERROR])
{
    for (uint32_t i = 0; i < c->n_schedules; i++)
        if (!c->schedules[i].on || !c->schedules[i].plugin) {
            const struct config_origin *o = &c->schedules[i].origin;
            int n = o->file ? snprintf(error, CONFIG_ERROR, "%.300s:%u: ", o->file, o->line) : 0;

            snprintf(error + n, CONFIG_ERROR - (size_t)n, "[schedule %s] has no `%s`", c->schedules[i].name,
                     c->schedules[i].on ? "job" : "on");
            return -EINVAL;
        }
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
                 "[daemon] [pool] [plugins] [executor] [sandbox] [domains] [access] [tls] [limits] [store] [plugin "
                 "NAME] [tag NAME] "
                 "[domain NAME] [schedule NAME]",
                 section);
        return;
    }
    n = (size_t)snprintf(error, CONFIG_ERROR, "[%s] has no key `%.64s`; it has:", section, key);
    for (size_t i = 0; i < ARRAY_SIZE(keys) && n < CONFIG_ERROR; i++)
        if (strcmp(keys[i].section, section) == 0)
            n += (size_t)snprintf(error + n, CONFIG_ERROR - n, " %s", keys[i].name);
}

int config_set(struct config *c, const char *section, const char *key, const char *value,
               char error[static CONFIG_ERROR])
{
    if (strncmp(section, "plugin ", 7) == 0)
        return set_plugin(c, section + 7, key, value, error);
    if (strncmp(section, "tag ", 4) == 0)
        return set_tag(c, section + 4, key, value, error);
    if (strncmp(section, "domain ", 7) == 0)
        return set_domain(c, section + 7, key, value, error);
    if (strncmp(section, "schedule ", 9) == 0)
        return set_schedule(c, section + 9, key, value, error);
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (strcmp(keys[i].section, section) != 0 || strcmp(keys[i].name, key) != 0)
            continue;
        if (c->origins)
            c->origins[i] = c->now;
        if (keys[i].kind == KIND_CALLS)
            return set_calls((char **)(void *)((char *)c + keys[i].at), key, value, error);
        if (keys[i].kind == KIND_PEOPLE)
            return set_people((struct access_list *)(void *)((char *)c + keys[i].at), key, value, error);
        const char *wanted = set(c, &keys[i], value);
        if (!wanted)
            return 0;
        snprintf(error, CONFIG_ERROR, "%s = %.128s: %s is wanted", key, value, wanted);
        return -EINVAL;
    }
    unknown(section, key, error);
    return -EINVAL;
}

struct config_origin config_origin(const struct config *c, const char *section, const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (strcmp(keys[i].section, section) == 0 && strcmp(keys[i].name, key) == 0)
            return c->origins[i];
    return (struct config_origin){0};
}

static bool is_in(const struct key *key, size_t at, size_t size)
{
    return key->at >= at && key->at < at + size;
}

static bool is_limit(const struct key *key, bool own)
{
    static const char of_each[] = "-per-user";
    size_t n = strlen(key->name);

    if (own)
        return is_in(key, AT(limits), sizeof(struct jobs_limits)) && n > sizeof(of_each) &&
               strcmp(key->name + n - (sizeof(of_each) - 1), of_each) == 0;
    return is_in(key, AT(limits), sizeof(struct jobs_limits)) ||
           is_in(key, AT(frontend_limits), sizeof(struct frontend_limits));
}

int config_set_limit(struct config *c, const struct config *from, const char *key, const char *value, bool own,
                     char error[static CONFIG_ERROR])
{
    size_t n;

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (strcmp(keys[i].name, key) != 0 || !is_limit(&keys[i], own))
            continue;
        if (*value)
            return config_set(c, keys[i].section, key, value, error);
        memcpy((char *)c + keys[i].at, (const char *)from + keys[i].at, sizeof(uint64_t)); /* all of them are */
        return 0;
    }
    n = (size_t)snprintf(error, CONFIG_ERROR,
                         own ? "`%.64s` is no limit of one user; there are:"
                             : "`%.64s` is no limit that can be moved while wsd runs; see `wsctl limits`",
                         key);
    for (size_t i = 0; own && i < ARRAY_SIZE(keys) && n < CONFIG_ERROR; i++)
        if (is_limit(&keys[i], true))
            n += (size_t)snprintf(error + n, CONFIG_ERROR - n, " %s", keys[i].name);
    return -EINVAL;
}

static int on_key(void *userdata, unsigned line, const char *section, const char *key, char *value, char *why,
                  size_t size)
{
    struct config *c = userdata;
    bool is_command = strncmp(section, "schedule ", 9) == 0 && strcmp(key, "job") == 0;
    char error[CONFIG_ERROR];
    int r;

    c->now.line = line;
    syntax_trim(value, is_command);
    r = is_command ? 0 : syntax_unquote(value);
    if (r == -EINVAL)
        snprintf(error, sizeof(error), "%s = %.128s: the quote has no end, or something stands behind it", key, value);
    if (r == 0)
        r = config_set(c, section, key, value, error);
    if (r < 0)
        snprintf(why, size, "%s", r == -ENOMEM ? "out of memory" : error);
    return r;
}

/* Does not wait, as the open of a FIFO does. 0 or a negative errno. */
static int open_file(const char *path, FILE **ret)
{
    _cleanup_(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) && !(S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))) /* /dev/null */
        return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    if (st.st_size > CONFIG_FILE_MAX)
        return -EFBIG;
    *ret = fdopen(fd, "r");
    if (!*ret)
        return -ENOMEM;
    (void)TAKE_FD(fd);
    return 0;
}

/* Root's wsd does what the file says. */
static bool others_write(int fd, const char *path)
{
    char where[PATH_MAX];
    struct stat st;

    if (geteuid() != 0)
        return false;
    if (fstat(fd, &st) < 0)
        return true;
    if (!S_ISREG(st.st_mode))
        return false; /* /dev/null, a pipe of the process that started us */
    _cleanup_(close_fdp) int same = trust_open(path, where);
    return !trust_only_ours(&st) || (same == -EPERM && *where);
}

/* The copy of its name lives as long as the configuration. NULL: no memory. */
static const char *file_add(struct config *c, const char *path)
{
    char **files = reallocarray(c->files, c->n_files + 1, sizeof(*files)), *copy = strdup(path);

    if (files)
        c->files = files;
    if (!files || !copy) {
        free(copy);
        return NULL;
    }
    return c->files[c->n_files++] = copy;
}

int config_read(struct config *c, const char *path, char error[static CONFIG_ERROR])
{
    FILE *file = NULL;
    int r = open_file(path, &file);

    if (r < 0) {
        snprintf(error, CONFIG_ERROR, "%.300s: %s", path, r == -EINVAL ? "it is no regular file" : strerror(-r));
        return r;
    }
    if (others_write(fileno(file), path)) {
        fclose(file);
        snprintf(error, CONFIG_ERROR,
                 "%.300s: not permitted: others than root could write to it or to a directory above it", path);
        return -EACCES;
    }
    c->now = (struct config_origin){.file = file_add(c, path)};
    r = c->now.file ? syntax_read(file, path, on_key, c, error, CONFIG_ERROR) : -ENOMEM;
    c->now = (struct config_origin){0};
    fclose(file);
    return r;
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
    r = n < 0 && errno != ENOENT ? -errno : 0; /* what could not be read may be what restricts */
    if (r < 0)
        snprintf(error, CONFIG_ERROR, "%.300s: %s", more, strerror(-r));
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

static void print_bound(uint64_t bytes, FILE *to)
{
    if (bytes == 0 || bytes == UINT64_MAX)
        fputs(bytes ? "unlimited" : "none", to);
    else
        fprintf(to, "%llu", (unsigned long long)bytes);
}

/* A line for each: those of a file have their limit. The first has its key already. */
static void print_people(const struct access_list *l, const char *key, FILE *to)
{
    const char *between = "";
    char next[64];

    snprintf(next, sizeof(next), "\n%s = ", key);
    if (l->all) {
        fputs("*", to);
        between = next;
    }
    for (uint32_t i = 0; i < l->n_uids; i++, between = next)
        fprintf(to, "%s%u", between, l->uids[i]);
    for (uint32_t i = 0; i < l->n_gids; i++, between = next)
        fprintf(to, "%s@%u", between, l->gids[i]);
}

static void print_value(const struct config *c, const struct key *key, FILE *to)
{
    const void *at = (const char *)c + key->at;

    switch (key->kind) {
    case KIND_COUNT:
    case KIND_STACK:
    case KIND_TLS:
    case KIND_ID:
    case KIND_TASKS:
    case KIND_SIZE:
        fprintf(to, "%llu", *(const unsigned long long *)at);
        break;
    case KIND_TIME:
        fprintf(to, "%llums", *(const unsigned long long *)at / 1000);
        break;
    case KIND_WORKERS:
        fprintf(to, "%u", *(const uint32_t *)at);
        break;
    case KIND_LEVEL:
        fprintf(to, "%d", *(const int *)at);
        break;
    case KIND_BOOL:
        fprintf(to, "%s", *(const int *)at ? "yes" : "no");
        break;
    case KIND_TRUST:
        fprintf(to, "%s", *(const bool *)at ? "all" : "user");
        break;
    case KIND_AUTO:
        fprintf(to, "%s", autos[*(const int *)at]);
        break;
    case KIND_PEOPLE:
        print_people(at, key->name, to);
        break;
    case KIND_TEXT:
    case KIND_CALLS:
    case KIND_WRITABLE:
        syntax_print_value(*(char *const *)at ? *(char *const *)at : "", to);
        break;
    case KIND_CORE:
    case KIND_MEMORY:
        print_bound(*(const uint64_t *)at, to);
        break;
    }
}

static bool is_unset(const struct config *c, const struct key *key)
{
    const void *at = (const char *)c + key->at;

    switch (key->kind) {
    case KIND_TEXT:
    case KIND_CALLS:
    case KIND_WRITABLE:
        return !*(char *const *)at;
    case KIND_PEOPLE:
        return !((const struct access_list *)at)->said;
    case KIND_WORKERS:
        return !*(const uint32_t *)at;
    case KIND_BOOL:
        return *(const int *)at < 0;
    case KIND_TIME:
    case KIND_COUNT:
    case KIND_SIZE:
    case KIND_TASKS:
        return !*(const uint64_t *)at;
    default:
        return false;
    }
}

/* Closes a stream in memory. Returns 0, or -ENOMEM: some output found no memory. */
static int close_text(FILE *to, char *const *text)
{
    bool failed = ferror(to);

    return fclose(to) == 0 && !failed && *text ? 0 : -ENOMEM;
}

int config_each_limit(const struct config *c, void (*each)(const char *key, const char *value, void *userdata),
                      void *userdata)
{
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        _cleanup_(freep) char *text = NULL;
        size_t size;

        if (!is_limit(&keys[i], false))
            continue;
        FILE *to = open_memstream(&text, &size);
        if (!to)
            return -ENOMEM;
        if (!is_unset(c, &keys[i]))
            print_value(c, &keys[i], to);
        int r = close_text(to, &text);
        if (r < 0)
            return r;
        each(keys[i].name, text, userdata);
    }
    return 0;
}

static void print_share(const struct config_share *s, FILE *to)
{
    if (s->workers)
        fprintf(to, "workers = %u\n", s->workers);
    if (s->tasks)
        fprintf(to, "executor-tasks = %llu\n", (unsigned long long)s->tasks);
    if (s->cpu_weight)
        fprintf(to, "cpu-weight = %u\n", s->cpu_weight);
    if (s->has_memory) {
        fputs("executor-memory = ", to);
        print_bound(s->memory, to);
        fputc('\n', to);
    }
}

static void print_domain(const struct config_domain *d, FILE *to)
{
    fprintf(to, "\n[domain %s]\n", d->name);
    for (uint32_t i = 0; i < d->n_uids; i++) /* a line of a file has its limit */
        fprintf(to, "users = %u\n", d->uids[i]);
    if (!d->n_uids)
        fputs("users =\n", to); /* a section without keys reads back as none */
    print_share(&d->share, to);
}

static int print_job(const struct config_schedule *s, FILE *to)
{
    _cleanup_(freep) char *name = NULL;
    bool has_function = s->function && *s->function;

    if (asprintf(&name, "%s%s%s", s->plugin ? s->plugin : "", has_function ? ":" : "",
                 has_function ? s->function : "") < 0)
        return -ENOMEM;
    syntax_print_word(name, to);
    for (size_t at = 0; at < s->args_size; at += strlen(s->args + at) + 1) {
        fputc(' ', to);
        syntax_print_word(s->args + at, to);
    }
    return 0;
}

static int print_schedule(const struct config_schedule *s, FILE *to)
{
    fprintf(to, "\n[schedule %s]\non = ", s->name);
    syntax_print_value(s->on ? s->on : "", to);
    fputs("\njob = ", to);
    int r = print_job(s, to);
    fprintf(to, "\npersistent = %s\n", s->persistent ? "yes" : "no");
    if (s->has_uid)
        fprintf(to, "user = %u\n", s->uid);
    return r;
}

int config_print(const struct config *c, FILE *to)
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
        if (p->max_running)
            fprintf(to, "max-running = %u\n", p->max_running);
        if (p->users.said) {
            fputs("users = ", to);
            print_people(&p->users, "users", to);
            fputc('\n', to);
        }
        print_share(&p->share, to);
    }
    for (uint32_t i = 0; i < c->n_tags; i++)
        fprintf(to, "\n[tag %s]\nmax-running = %u\n", c->tags[i].name, c->tags[i].max_running);
    for (uint32_t i = 0; i < c->domains->n; i++)
        print_domain(&c->domains->list[i], to);
    int r = 0;
    for (uint32_t i = 0; i < c->n_schedules && r == 0; i++)
        r = print_schedule(&c->schedules[i], to);
    return r;
}

char *config_at_start(const struct config *c)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    if (!to)
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (keys[i].applies != APPLIES_START)
            continue;
        fprintf(to, "[%s] %s%c", keys[i].section, keys[i].name, 0);
        if (!is_unset(c, &keys[i]))
            print_value(c, &keys[i], to);
        fputc(0, to);
    }
    /* what executors may is settled when the helper that starts them is */
    fprintf(to, "[plugin exec] enabled%c%d%c[domain NAME]%c", 0, config_plugin_enabled(c, "exec", true), 0, 0);
    for (uint32_t i = 0; i < c->domains->n; i++)
        print_domain(&c->domains->list[i], to);
    fputc(0, to);
    fputc(0, to); /* no further key */
    if (close_text(to, &text) == 0)
        return text;
    free(text);
    return NULL;
}

void config_each_changed(const char *started, const char *fresh, void (*each)(const char *key, void *userdata),
                         void *userdata)
{
    while (*started && *fresh) {
        const char *value = started + strlen(started) + 1, *other = fresh + strlen(fresh) + 1;

        if (strcmp(value, other) != 0)
            each(started, userdata);
        started = value + strlen(value) + 1;
        fresh = other + strlen(other) + 1;
    }
}

static void apply_share(const struct config_share *s, struct jobs_domain *to)
{
    if (s->workers)
        to->workers = s->workers;
    if (s->tasks)
        to->tasks = s->tasks;
    if (s->cpu_weight)
        to->cpu_weight = s->cpu_weight;
    if (s->has_memory) {
        to->memory = s->memory;
        to->own_memory = true;
    }
}

struct jobs_domain *config_domains(const struct config *c, uint32_t *ret_n)
{
    struct jobs_domain *all = calloc(c->domains->n + 1, sizeof(*all));

    if (!all)
        return NULL;
    all[0] = (struct jobs_domain){.memory = c->executor_memory, .tasks = c->executor_tasks};
    for (uint32_t i = 0; i < c->domains->n; i++) {
        const struct config_domain *d = &c->domains->list[i];

        all[i + 1] = (struct jobs_domain){.name = d->name,
                                          .uids = d->uids,
                                          .n_uids = d->n_uids,
                                          .tasks = c->executor_tasks,
                                          .memory = c->executor_memory};
        apply_share(&d->share, &all[i + 1]);
    }
    *ret_n = c->domains->n + 1;
    return all;
}

static const struct config_plugin *plugin_find(const struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_plugins; i++)
        if (strcmp(c->plugins[i].name, name) == 0)
            return &c->plugins[i];
    return NULL;
}

const struct access_list *config_plugin_users(const struct config *c, const char *name)
{
    const struct config_plugin *p = plugin_find(c, name);

    return p && p->users.said ? &p->users : NULL;
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

void config_plugin_share(const struct config *c, const char *name, struct jobs_domain *settings)
{
    const struct config_plugin *p = plugin_find(c, name);

    if (!p)
        return;
    apply_share(&p->share, settings);
    settings->plugin_memory = p->share.has_memory;
}

uint64_t config_plugin_max_run(const struct config *c, const char *name, const char **ret_of)
{
    const struct config_plugin *p = plugin_find(c, name);
    bool by_plugin = p && p->max_run_usec;

    *ret_of = by_plugin ? p->name : NULL;
    return by_plugin ? p->max_run_usec : c->limits.max_run_usec;
}

char *config_sandbox(const struct config *c, bool is_system)
{
    /* a user's own plugins may do what the user may; in a wsd for all users only what jobs need, unless it runs
     * commands */
    bool exec = config_plugin_enabled(c, "exec", true), commands = !is_system || exec;
    const char *writable = c->writable ? c->writable : commands ? "/" : "none";
    char *text;

    if (asprintf(&text, "required=%d,commands=%d,children=%d,core=%llu,deny=%s,writable=%s", c->sandbox_required,
                 commands, exec, (unsigned long long)c->core_size, c->deny ? c->deny : "",
                 strcmp(writable, "none") == 0 ? "" : writable) < 0)
        return NULL;
    return text;
}
