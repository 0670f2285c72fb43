/* SPDX-License-Identifier: Apache-2.0
 *
 * schema.c: the keys of the sections without a name: the kind of each, and where its value is kept.
 * Owns nothing. [any]
 * Keeps: a key stands once, here; a value that is refused changes nothing.
 * Does not know files. */
#include "configuration/schema.h"

#include <errno.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/accounts.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "configuration/people.h"
#include "configuration/scalars.h"
#include "configuration/syntax.h"

/* --- kinds of values ---------------------------------------------------------------------------------------------- */

static int replace_text(void *at, const char *value)
{
    char *copy = *value ? strdup(value) : NULL;

    if (!copy)
        return -EINVAL;
    free(*(char **)at);
    *(char **)at = copy;
    return 0;
}

static void print_text(const void *at, const char *key, FILE *to)
{
    syntax_print_value(*(char *const *)at ? *(char *const *)at : "", to);
}

static bool text_is_unset(const void *at)
{
    return !*(char *const *)at;
}

static const struct config_kind kind_text = {
    .wanted = "a text", .set = replace_text, .print = print_text, .is_unset = text_is_unset};

static void print_u64(const void *at, const char *key, FILE *to)
{
    fprintf(to, "%llu", (unsigned long long)*(const uint64_t *)at);
}

static bool u64_is_unset(const void *at)
{
    return !*(const uint64_t *)at;
}

static const struct config_kind kind_count = {
    .wanted = "a whole number of at least 1", .number = scalar_count, .print = print_u64, .is_unset = u64_is_unset};

static const struct config_kind kind_size = {.wanted = "a size of at least 1, such as 64M (B, K, M, G, T)",
                                             .number = scalar_size,
                                             .print = print_u64,
                                             .is_unset = u64_is_unset};

static void print_time(const void *at, const char *key, FILE *to)
{
    fprintf(to, "%llums", (unsigned long long)*(const uint64_t *)at / 1000);
}

static const struct config_kind kind_time = {
    .wanted = WANTED_TIME, .number = scalar_time, .print = print_time, .is_unset = u64_is_unset};

static const struct config_kind kind_tasks = {
    .wanted = WANTED_TASKS, .number = scalar_tasks, .print = print_u64, .is_unset = u64_is_unset};

static const struct config_kind kind_id = {
    .wanted = "a user id of at least 1", .number = scalar_id, .print = print_u64};

static int set_within(void *at, const char *value, uint64_t least, uint64_t most)
{
    uint64_t number;

    if (scalar_size(value, &number) < 0 || number < least || number > most)
        return -EINVAL;
    *(uint64_t *)at = number;
    return 0;
}

static int set_stack(void *at, const char *value)
{
    return set_within(at, value, JOBS_STACK_MIN, JOBS_STACK_MAX);
}

static const struct config_kind kind_stack = {
    .wanted = "a size from 256K to 1G, such as 8M", .set = set_stack, .print = print_u64};

static int set_tls(void *at, const char *value)
{
    return set_within(at, value, 0, JOBS_TLS_MAX);
}

static const struct config_kind kind_tls = {
    .wanted = "a size of at most 256K, such as 64K", .set = set_tls, .print = print_u64};

static void print_bound(const void *at, const char *key, FILE *to)
{
    scalar_print_bound(*(const uint64_t *)at, to);
}

static int set_core(void *at, const char *value)
{
    if (strcmp(value, "none") != 0 && strcmp(value, "unlimited") != 0)
        return scalar_size(value, at);
    *(uint64_t *)at = *value == 'n' ? 0 : UINT64_MAX;
    return 0;
}

static const struct config_kind kind_core = {
    .wanted = "none, unlimited, or a size such as 512M", .set = set_core, .print = print_bound};

static const struct config_kind kind_memory = {.wanted = WANTED_MEMORY, .number = scalar_memory, .print = print_bound};

static int set_workers(void *at, const char *value)
{
    return scalar_workers(value, at);
}

static void print_workers(const void *at, const char *key, FILE *to)
{
    fprintf(to, "%u", *(const uint32_t *)at);
}

static bool workers_are_unset(const void *at)
{
    return !*(const uint32_t *)at;
}

static const struct config_kind kind_workers = {
    .wanted = WANTED_WORKERS, .set = set_workers, .print = print_workers, .is_unset = workers_are_unset};

static int set_level(void *at, const char *value)
{
    int level = log_level_parse(value);

    if (level < 0)
        return -EINVAL;
    *(int *)at = level;
    return 0;
}

static void print_level(const void *at, const char *key, FILE *to)
{
    fprintf(to, "%d", *(const int *)at);
}

static const struct config_kind kind_level = {
    .wanted = "emerg, alert, crit, err, warning, notice, info or debug", .set = set_level, .print = print_level};

static int set_boolean(void *at, const char *value)
{
    int yes = scalar_bool(value);

    if (yes < 0)
        return -EINVAL;
    *(int *)at = yes;
    return 0;
}

static void print_boolean(const void *at, const char *key, FILE *to)
{
    fputs(*(const int *)at ? "yes" : "no", to);
}

static bool boolean_is_unset(const void *at)
{
    return *(const int *)at < 0;
}

static const struct config_kind kind_boolean = {
    .wanted = WANTED_BOOL, .set = set_boolean, .print = print_boolean, .is_unset = boolean_is_unset};

/* In the order of enum jobs_user_ids, enum jobs_cgroups and enum awake_mode. */
static const char *const autos[] = {"auto", "yes", "no"};

static int set_automatic(void *at, const char *value)
{
    for (size_t i = 0; i < ARRAY_SIZE(autos); i++)
        if (strcmp(autos[i], value) == 0) {
            *(int *)at = (int)i;
            return 0;
        }
    return -EINVAL;
}

static void print_automatic(const void *at, const char *key, FILE *to)
{
    fputs(autos[*(const int *)at], to);
}

static const struct config_kind kind_automatic = {
    .wanted = "auto, yes or no", .set = set_automatic, .print = print_automatic};

static int set_trust(void *at, const char *value)
{
    if (strcmp(value, "user") != 0 && strcmp(value, "all") != 0)
        return -EINVAL;
    *(bool *)at = *value == 'a';
    return 0;
}

static void print_trust(const void *at, const char *key, FILE *to)
{
    fputs(*(const bool *)at ? "all" : "user", to);
}

static const struct config_kind kind_trust = {
    .wanted = "user (each user apart) or all (everybody in one executor)", .set = set_trust, .print = print_trust};

static bool is_writable_list(const char *value)
{
    if (strcmp(value, "none") == 0)
        return true;
    for (const char *at = value; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL)
        if (*at != '/')
            return false;
    return true;
}

static int set_writable(void *at, const char *value)
{
    return is_writable_list(value) ? replace_text(at, value) : -EINVAL;
}

static const struct config_kind kind_writable = {.wanted = "none, or absolute directories with colons between",
                                                 .set = set_writable,
                                                 .print = print_text,
                                                 .is_unset = text_is_unset};

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
static int add_calls(void *to, const char *key, const char *value, char error[static CONFIG_ERROR])
{
    char **at = to;
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

static const struct config_kind kind_calls = {.add = add_calls, .print = print_text, .is_unset = text_is_unset};

static int add_people(void *at, const char *key, const char *value, char error[static CONFIG_ERROR])
{
    return people_set(at, key, value, error);
}

static void print_people(const void *at, const char *key, FILE *to)
{
    people_print(at, key, to);
}

static bool people_are_unset(const void *at)
{
    return !((const struct access_list *)at)->said;
}

static const struct config_kind kind_people = {.add = add_people, .print = print_people, .is_unset = people_are_unset};

/* --- kinds of [fleet] --------------------------------------------------------------------------------------------- */

#define NAME_SIGNS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

#define URL_SIGNS NAME_SIGNS ".~:/?#[]@!$&()*+=%"

/* Whether each of them, with commas between, is good. *ret_n: how many. */
static bool each_listed(const char *list, bool (*good)(const char *item, size_t size), size_t *ret_n)
{
    for (*ret_n = 0;; list++) {
        size_t size = strcspn(list, ",");

        if (!good(list, size))
            return false;
        ++*ret_n;
        list += size;
        if (!*list)
            return true;
    }
}

static bool is_server(const char *item, size_t size)
{
    const char *scheme = memmem(item, size, "://", 3), *host = scheme ? scheme + 3 : item;
    size_t n = (size_t)(host - item);

    return (n == 0 || (n == 7 && memcmp(item, "nats", 4) == 0) || (n == 6 && memcmp(item, "tls", 3) == 0)) &&
           n < size && strspn(item, URL_SIGNS) >= size;
}

static int set_servers(void *at, const char *value)
{
    size_t n;

    return each_listed(value, is_server, &n) && n <= CONFIG_SERVERS_MAX ? replace_text(at, value) : -EINVAL;
}

static const struct config_kind kind_servers = {
    .wanted = "1 to 16 servers with commas between, such as nats://one:4222,nats://two:4222,",
    .set = set_servers,
    .print = print_text,
    .is_unset = text_is_unset};

static bool is_plain_name(const char *item, size_t size)
{
    return size > 0 && strspn(item, NAME_SIGNS) >= size;
}

static int set_names(void *at, const char *value)
{
    size_t n;

    return each_listed(value, is_plain_name, &n) ? replace_text(at, value) : -EINVAL;
}

static const struct config_kind kind_names = {
    .wanted = "names with commas between, of letters, digits, _ and -, such as fib,checksum,",
    .set = set_names,
    .print = print_text,
    .is_unset = text_is_unset};

/* `begun` and `key` are what other records are under in the stream of ends. */
static int set_node(void *at, const char *value)
{
    size_t n = strlen(value);

    return is_plain_name(value, n) && n < CONFIG_NODE && strcmp(value, "begun") != 0 && strcmp(value, "key") != 0
               ? replace_text(at, value)
               : -EINVAL;
}

static const struct config_kind kind_node = {
    .wanted = "a name of 1 to 31 letters, digits, _ and -, other than `begun` and `key`,",
    .set = set_node,
    .print = print_text,
    .is_unset = text_is_unset};

/* Who that is, is not asked here: it may be for another machine. */
static int set_account(void *at, const char *value)
{
    size_t n = strlen(value);

    return n > 0 && n < ACCOUNT_NAME_MAX && strcspn(value, " \t:/") == n ? replace_text(at, value) : -EINVAL;
}

static const struct config_kind kind_account = {
    .wanted = "the name of a user", .set = set_account, .print = print_text, .is_unset = text_is_unset};

static int set_held(void *at, const char *value)
{
    uint64_t n;

    if (scalar_count(value, &n) < 0 || n > CONFIG_HELD_MAX)
        return -EINVAL;
    *(uint64_t *)at = n;
    return 0;
}

static const struct config_kind kind_held = {
    .wanted = "a number of jobs from 1 to 4096", .set = set_held, .print = print_u64};

static int set_ack_wait(void *at, const char *value)
{
    uint64_t usec;

    if (scalar_time(value, &usec) < 0 || usec < CONFIG_ACK_WAIT_MIN || usec > CONFIG_ACK_WAIT_MAX)
        return -EINVAL;
    *(uint64_t *)at = usec;
    return 0;
}

static const struct config_kind kind_ack_wait = {
    .wanted = "a time from 1s to 1h, such as 5s", .set = set_ack_wait, .print = print_time};

#define FOREVER "forever"

static int set_wait(void *at, const char *value)
{
    uint64_t usec = UINT64_MAX;

    if (strcmp(value, FOREVER) != 0 &&
        (scalar_time(value, &usec) < 0 || usec < CONFIG_WAIT_MIN || usec > CONFIG_WAIT_MAX))
        return -EINVAL;
    *(uint64_t *)at = usec;
    return 0;
}

static void print_wait(const void *at, const char *key, FILE *to)
{
    if (*(const uint64_t *)at == UINT64_MAX)
        fputs(FOREVER, to);
    else
        print_time(at, key, to);
}

static const struct config_kind kind_wait = {
    .wanted = FOREVER ", or a time from 1s to a day, such as 30s", .set = set_wait, .print = print_wait};

/* --- keys --------------------------------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct config, member)

const struct config_key config_keys[] = {
    {"daemon", "socket", &kind_text, APPLIES_START, AT(socket)},
    {"daemon", "socket-group", &kind_text, APPLIES_START, AT(socket_group)},
    {"daemon", "state-dir", &kind_text, APPLIES_START, AT(state_dir)},
    {"daemon", "executor", &kind_text, APPLIES_START, AT(executor)},
    {"daemon", "spawner", &kind_text, APPLIES_START, AT(spawner)},
    {"daemon", "workers", &kind_workers, APPLIES_NOW, AT(workers)},
    {"daemon", "log-level", &kind_level, APPLIES_NOW, AT(log_level)},
    {"daemon", "system", &kind_boolean, APPLIES_START, AT(is_system)},
    {"daemon", "drain-timeout", &kind_time, APPLIES_NOW, AT(drain_usec)},
    {"pool", "keep-awake", &kind_automatic, APPLIES_START, AT(keep_awake)},
    {"pool", "pin", &kind_boolean, APPLIES_START, AT(pin)},
    {"pool", "stack", &kind_stack, APPLIES_START, AT(stack_size)},
    {"plugins", "directories", &kind_text, APPLIES_START, AT(plugin_dirs)},
    {"executor", "core-size", &kind_core, APPLIES_START, AT(core_size)},
    {"executor", "user-ids", &kind_automatic, APPLIES_START, AT(user_ids)},
    {"executor", "first-user-id", &kind_id, APPLIES_START, AT(first_user_id)},
    {"executor", "cgroups", &kind_automatic, APPLIES_START, AT(cgroups)},
    {"sandbox", "required", &kind_boolean, APPLIES_START, AT(sandbox_required)},
    {"sandbox", "deny", &kind_calls, APPLIES_START, AT(deny)},
    {"sandbox", "writable", &kind_writable, APPLIES_START, AT(writable)},
    {"domains", "trust", &kind_trust, APPLIES_START, AT(one_domain)},
    {"access", "submit", &kind_people, APPLIES_NOW, AT(access.lists[ACCESS_SUBMIT])},
    {"access", "see", &kind_people, APPLIES_NOW, AT(access.lists[ACCESS_SEE])},
    {"access", "watch", &kind_people, APPLIES_NOW, AT(access.lists[ACCESS_WATCH])},
    {"access", "cancel", &kind_people, APPLIES_NOW, AT(access.lists[ACCESS_CANCEL])},
    {"access", "administer", &kind_people, APPLIES_NOW, AT(access.lists[ACCESS_ADMINISTER])},
    {"access", "submit-as", &kind_people, APPLIES_NOW, AT(access.submit_as)},
    {"executor", "static-tls", &kind_tls, APPLIES_START, AT(static_tls)},
    {"executor", "recycle-jobs", &kind_count, APPLIES_NOW, AT(limits.recycle_jobs)},
    {"executor", "recycle-growth", &kind_size, APPLIES_NOW, AT(limits.recycle_growth)},
    {"tls", "listen", &kind_text, APPLIES_START, AT(tls_listen)},
    {"tls", "certificate", &kind_text, APPLIES_NOW, AT(tls_certificate)},
    {"tls", "key", &kind_text, APPLIES_NOW, AT(tls_key)},
    {"tls", "ca", &kind_text, APPLIES_NOW, AT(tls_ca)},
    {"tls", "crl", &kind_text, APPLIES_NOW, AT(tls_crl)},
    {"tls", "user-map", &kind_text, APPLIES_NOW, AT(tls_user_map)},
    {"tls", "max-handshakes", &kind_count, APPLIES_NOW, AT(frontend_limits.handshakes)},
    {"tls", "handshake-timeout", &kind_time, APPLIES_NOW, AT(frontend_limits.handshake_usec)},
    {"limits", "max-connections", &kind_count, APPLIES_NOW, AT(frontend_limits.connections)},
    {"limits", "max-connections-per-user", &kind_count, APPLIES_NOW, AT(frontend_limits.connections_per_user)},
    {"limits", "max-requests-per-user", &kind_count, APPLIES_NOW, AT(frontend_limits.requests_per_user)},
    {"limits", "max-unread-per-user", &kind_size, APPLIES_NOW, AT(frontend_limits.unread_per_user)},
    {"limits", "max-jobs", &kind_count, APPLIES_NOW, AT(limits.jobs)},
    {"limits", "max-jobs-per-user", &kind_count, APPLIES_NOW, AT(limits.jobs_per_user)},
    {"limits", "max-rate", &kind_count, APPLIES_NOW, AT(limits.rate)},
    {"limits", "max-rate-per-user", &kind_count, APPLIES_NOW, AT(limits.rate_per_user)},
    {"limits", "rate-burst", &kind_count, APPLIES_NOW, AT(limits.rate_burst)},
    {"limits", "max-running", &kind_count, APPLIES_NOW, AT(limits.running)},
    {"limits", "max-running-per-user", &kind_count, APPLIES_NOW, AT(limits.running_per_user)},
    {"limits", "max-schedules-per-user", &kind_count, APPLIES_NOW, AT(limits.schedules_per_user)},
    {"limits", "max-lanes-per-user", &kind_count, APPLIES_NOW, AT(limits.lanes_per_user)},
    {"limits", "max-bytes", &kind_size, APPLIES_NOW, AT(limits.bytes)},
    {"limits", "max-bytes-per-user", &kind_size, APPLIES_NOW, AT(limits.bytes_per_user)},
    {"limits", "max-input", &kind_size, APPLIES_NOW, AT(limits.input)},
    {"limits", "max-result", &kind_size, APPLIES_NOW, AT(limits.result)},
    {"limits", "keep-results", &kind_time, APPLIES_NOW, AT(limits.keep_usec)},
    {"limits", "cancel-grace", &kind_time, APPLIES_NOW, AT(limits.grace_usec)},
    {"limits", "frame-timeout", &kind_time, APPLIES_NOW, AT(frontend_limits.frame_usec)},
    {"limits", "executor-idle", &kind_time, APPLIES_NOW, AT(limits.idle_usec)},
    {"limits", "executor-memory", &kind_memory, APPLIES_START, AT(executor_memory)},
    {"limits", "executor-tasks", &kind_tasks, APPLIES_START, AT(executor_tasks)},
    {"limits", "plugin-load", &kind_time, APPLIES_NOW, AT(limits.load_usec)},
    {"limits", "executor-answer", &kind_time, APPLIES_NOW, AT(limits.hang_usec)},
    {"limits", "max-run", &kind_time, APPLIES_NOW, AT(limits.max_run_usec)},
    {"limits", "max-wait", &kind_time, APPLIES_NOW, AT(limits.max_wait_usec)},
    {"limits", "quarantine-after", &kind_count, APPLIES_NOW, AT(limits.quarantine_after)},
    {"limits", "quarantine-max", &kind_time, APPLIES_NOW, AT(limits.quarantine_max_usec)},
    {"limits", "ageing", &kind_time, APPLIES_NOW, AT(limits.ageing_usec)},
    {"store", "keep", &kind_time, APPLIES_NOW, AT(limits.store_keep_usec)},
    {"store", "max-size", &kind_size, APPLIES_NOW, AT(limits.store_bytes)},
    {"fleet", "user", &kind_account, APPLIES_NOW, AT(fleet.user)},
    {"fleet", "run-as", &kind_account, APPLIES_FLEET, AT(fleet.run_as)},
    {"fleet", "servers", &kind_servers, APPLIES_FLEET, AT(fleet.servers)},
    {"fleet", "node", &kind_node, APPLIES_FLEET, AT(fleet.node)},
    {"fleet", "plugins", &kind_names, APPLIES_FLEET, AT(fleet.plugins)},
    {"fleet", "held", &kind_held, APPLIES_FLEET, AT(fleet.held)},
    {"fleet", "ack-wait", &kind_ack_wait, APPLIES_FLEET, AT(fleet.ack_usec)},
    {"fleet", "wait", &kind_wait, APPLIES_FLEET, AT(fleet.wait_usec)},
    {"fleet", "builds", &kind_boolean, APPLIES_FLEET, AT(fleet.builds)},
    {"fleet", "in", &kind_boolean, APPLIES_FLEET, AT(fleet.in)},
    {"fleet", "out", &kind_boolean, APPLIES_FLEET, AT(fleet.out)},
    {"fleet", "tls-ca", &kind_text, APPLIES_FLEET, AT(fleet.tls_ca)},
    {"fleet", "tls-cert", &kind_text, APPLIES_FLEET, AT(fleet.tls_certificate)},
    {"fleet", "tls-key", &kind_text, APPLIES_FLEET, AT(fleet.tls_key)},
    {"fleet", "creds", &kind_text, APPLIES_FLEET, AT(fleet.credentials)},
};
const size_t config_n_keys = ARRAY_SIZE(config_keys);

const struct config_key *config_key_find(const char *section, const char *name)
{
    for (size_t i = 0; i < config_n_keys; i++)
        if (strcmp(config_keys[i].section, section) == 0 && strcmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    return NULL;
}

static bool is_in(const struct config_key *key, size_t at, size_t size_of)
{
    return key->at >= at && key->at < at + size_of;
}

bool config_key_is_limit(const struct config_key *key, bool own)
{
    static const char of_each[] = "-per-user";
    size_t n = strlen(key->name);

    if (own)
        return is_in(key, AT(limits), sizeof(struct jobs_limits)) && n > sizeof(of_each) &&
               strcmp(key->name + n - (sizeof(of_each) - 1), of_each) == 0;
    return is_in(key, AT(limits), sizeof(struct jobs_limits)) ||
           is_in(key, AT(frontend_limits), sizeof(struct frontend_limits));
}

int config_key_set(struct config *c, const struct config_key *key, const char *value, char error[static CONFIG_ERROR])
{
    void *at = (char *)c + key->at;

    if (key->kind->add)
        return key->kind->add(at, key->name, value, error);
    if ((key->kind->number ? key->kind->number(value, at) : key->kind->set(at, value)) == 0)
        return 0;
    snprintf(error, CONFIG_ERROR, "%s = %.128s: %s is wanted", key->name, value, key->kind->wanted);
    return -EINVAL;
}

void config_key_print(const struct config *c, const struct config_key *key, FILE *to)
{
    key->kind->print((const char *)c + key->at, key->name, to);
}

bool config_key_is_unset(const struct config *c, const struct config_key *key)
{
    return key->kind->is_unset && key->kind->is_unset((const char *)c + key->at);
}
