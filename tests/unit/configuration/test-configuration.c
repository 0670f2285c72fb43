/* SPDX-License-Identifier: Apache-2.0
 *
 * test-configuration.c: what wsd.conf may say, and what is said back where it may not. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ops/awake.h"
#include "configuration/configuration.h"
#include "configuration/print.h"
#include "configuration/effects.h"
#include "tests/unit/suite.h"

static char directory[] = "/tmp/wsd-test-configuration.XXXXXX";
static struct config config;
static char error[CONFIG_ERROR];

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(directory));
    ck_assert_int_eq(config_init(&config), 0);
}

static void teardown(void)
{
    char command[256];

    config_deinit(&config);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

static const char *file(const char *name, const char *text)
{
    static char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    return path;
}

static int read_text(const char *text)
{
    return config_read(&config, file("wsd.conf", text), error);
}

START_TEST(every_kind_of_value_is_read)
{
    ck_assert_int_eq(
        read_text("# a comment\n[daemon]\nworkers = 3\nlog-level = debug\ndrain-timeout = 2min\nsystem = yes\n"
                  "socket = /x y\n[plugins]\ndirectories = /a:/b\n[domains]\ntrust = all\n"
                  "[pool]\npin = yes\nstack = 512K\n"
                  "[limits]\nmax-connections = 9\nmax-connections-per-user = 8\nmax-requests-per-user = "
                  "6\nmax-unread-per-user = 5K\nmax-input = 2M\nmax-jobs = 7\nmax-running = 5\nmax-running-per-user = "
                  "4\nmax-bytes = 3G\nmax-bytes-per-user = 2G\ncancel-grace = 250ms\nplugin-load = 3s\n"
                  "[plugin exec]\nenabled = yes\n"),
        0);
    ck_assert_uint_eq(config.workers, 3);
    ck_assert_int_eq(config.log_level, 7);
    ck_assert_uint_eq(config.drain_usec, 120000000);
    ck_assert_int_eq(config.is_system, 1);
    ck_assert_str_eq(config.socket, "/x y");
    ck_assert_str_eq(config.plugin_dirs, "/a:/b");
    ck_assert(config.one_domain);
    ck_assert_int_eq(config.pin, 1);
    ck_assert_uint_eq(config.stack_size, 512 << 10);
    ck_assert_uint_eq(config.limits.input, 2 << 20);
    ck_assert_uint_eq(config.frontend_limits.connections, 9);
    ck_assert_uint_eq(config.frontend_limits.connections_per_user, 8);
    ck_assert_uint_eq(config.frontend_limits.requests_per_user, 6);
    ck_assert_uint_eq(config.frontend_limits.unread_per_user, 5 << 10);
    ck_assert_uint_eq(config.limits.jobs, 7);
    ck_assert_uint_eq(config.limits.running, 5);
    ck_assert_uint_eq(config.limits.running_per_user, 4);
    ck_assert_uint_eq(config.limits.bytes, 3ull << 30);
    ck_assert_uint_eq(config.limits.bytes_per_user, 2ull << 30);
    ck_assert_uint_eq(config.limits.grace_usec, 250000);
    ck_assert_uint_eq(config.limits.load_usec, 3000000);
    ck_assert(config_plugin_enabled(&config, "exec", true));
}
END_TEST

static void sandbox_is(bool is_system, const char *expected)
{
    char *text = config_sandbox(&config, is_system);

    ck_assert_str_eq(text, expected);
    free(text);
}

START_TEST(executors_are_told_of_their_sandbox)
{
    sandbox_is(false, "required=1,commands=1,children=0,core=0,deny=,writable=/");
    sandbox_is(true, "required=1,commands=0,children=0,core=0,deny=,writable=");
    ck_assert_int_eq(read_text("[sandbox]\nrequired = no\nwritable = /var/tmp:/x\n[executor]\ncore-size = unlimited\n"
                               "[limits]\nexecutor-memory = 1G\n[plugin exec]\nenabled = yes\n"),
                     0);
    sandbox_is(true, "required=0,commands=1,children=1,core=18446744073709551615,deny=,writable=/var/tmp:/x");
    ck_assert_int_eq(read_text("[sandbox]\nwritable = none\n[executor]\ncore-size = none\n[limits]\n"
                               "executor-memory = none\n"),
                     0);
    sandbox_is(false, "required=0,commands=1,children=1,core=0,deny=,writable=");
}
END_TEST

START_TEST(each_line_of_denied_calls_adds)
{
    char text[CONFIG_DENY_MAX + 64];

    ck_assert_int_eq(read_text("[sandbox]\ndeny = socket\tconnect\ndeny = times\n"), 0);
    ck_assert_str_eq(config.deny, "socket connect times");
    /* a bad one changes nothing */
    ck_assert_int_eq(config_set(&config, "sandbox", "deny", "bind nosuch", error), -EINVAL);
    ck_assert_str_eq(config.deny, "socket connect times");
    size_t used = strlen(config.deny);
    memset(text, ' ', sizeof(text));
    memcpy(text, "bind", 4);
    text[CONFIG_DENY_MAX - used] = 0; /* with the blank between: one too many */
    ck_assert_int_eq(config_set(&config, "sandbox", "deny", text, error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error, "at most 4096 bytes"));
    text[CONFIG_DENY_MAX - used - 1] = 0;
    ck_assert_int_eq(config_set(&config, "sandbox", "deny", text, error), 0);
    ck_assert_uint_eq(strlen(config.deny), CONFIG_DENY_MAX);
}
END_TEST

START_TEST(memory_of_executors_is_limited_below_at_and_above)
{
    char text[64];

    ck_assert_uint_eq(config.executor_memory, 0);
    for (int i = -1; i <= 1; i++) {
        snprintf(text, sizeof(text), "%llu", CONFIG_MEMORY_MIN + (unsigned long long)i);
        ck_assert_int_eq(config_set(&config, "limits", "executor-memory", text, error), i >= 0 ? 0 : -EINVAL);
        snprintf(text, sizeof(text), "%llu", CONFIG_MEMORY_MAX + (unsigned long long)i);
        ck_assert_int_eq(config_set(&config, "limits", "executor-memory", text, error), i <= 0 ? 0 : -EINVAL);
    }
    ck_assert_uint_eq(config.executor_memory, CONFIG_MEMORY_MIN + 1);
}
END_TEST

START_TEST(a_domain_has_what_it_says_and_else_what_all_have)
{
    uint32_t n = 0;

    ck_assert_int_eq(
        read_text("[domain team]\nusers = root 1001\nusers = 1002\nworkers = 3\ncpu-weight = 400\n"
                  "[domain guest]\nusers = 1003\nexecutor-memory = 64M\nexecutor-tasks = 5\n"
                  "[domain free]\nexecutor-memory = none\n[limits]\nexecutor-memory = 1G\nexecutor-tasks = 50\n"),
        0);
    struct jobs_domain *all = config_domains(&config, &n);
    ck_assert_uint_eq(n, 4);
    ck_assert_ptr_null(all[0].name);
    ck_assert_uint_eq(all[0].memory, 1u << 30);
    ck_assert_uint_eq(all[0].tasks, 50);
    ck_assert_str_eq(all[1].name, "team");
    ck_assert_uint_eq(all[1].n_uids, 3);
    ck_assert_uint_eq(all[1].uids[0], 0);
    ck_assert_uint_eq(all[1].uids[2], 1002);
    ck_assert_uint_eq(all[1].workers, 3);
    ck_assert_uint_eq(all[1].cpu_weight, 400);
    ck_assert(all[1].memory == 1u << 30 && !all[1].own_memory && all[1].tasks == 50);
    ck_assert(all[2].memory == 64u << 20 && all[2].own_memory && all[2].tasks == 5);
    ck_assert(all[3].memory == 0 && all[3].own_memory && all[3].n_uids == 0);
    free(all);
}
END_TEST

START_TEST(a_plugin_apart_has_what_it_says_and_else_what_its_domain_has)
{
    struct jobs_domain all = {.memory = 1u << 30, .tasks = 50, .workers = 7, .cpu_weight = 9}, s = all;

    ck_assert_int_eq(
        read_text(
            "[plugin a]\nworkers = 3\ncpu-weight = 400\n[plugin b]\nexecutor-memory = none\nexecutor-tasks = 5\n"),
        0);
    config_plugin_share(&config, "a", &s);
    ck_assert(s.workers == 3 && s.cpu_weight == 400 && s.tasks == 50 && s.memory == 1u << 30 && !s.plugin_memory);
    s = all;
    config_plugin_share(&config, "b", &s);
    ck_assert(s.workers == 7 && s.cpu_weight == 9 && s.tasks == 5 && s.memory == 0 && s.plugin_memory);
    s = all;
    config_plugin_share(&config, "c", &s);
    ck_assert_int_eq(memcmp(&s, &all, sizeof(s)), 0);
}
END_TEST

START_TEST(what_a_domain_cannot_be_is_refused)
{
    static const char *const bad[][3] = {
        {"users", "no-such-user", "users: no-such-user: there is no such user"},
        {"users", "4294967295", "there is no such user"},
        {"users", "-1", "there is no such user"},
        {"users", "1002 1001", "users: 1001 is in [domain one] already"},
        {"workers", "0", "workers from 1"},
        {"executor-memory", "1", "1M"},
        {"executor-tasks", "0", "at least 1"},
        {"cpu-weight", "0", "from 1 to 10000"},
        {"cpu-weight", "10001", "from 1 to 10000"},
        {"nosuch", "1", "it has: users workers executor-memory executor-tasks cpu-weight"},
    };
    char name[32];

    ck_assert_int_eq(config_set(&config, "domain one", "users", "1001", error), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        ck_assert_int_eq(config_set(&config, "domain two", bad[i][0], bad[i][1], error), -EINVAL);
        ck_assert_msg(strstr(error, bad[i][2]) != NULL, "%s", error);
    }
    ck_assert_int_eq(config_set(&config, "domain ", "workers", "1", error), -EINVAL);
    for (unsigned i = 2; i < CONFIG_DOMAINS_MAX; i++) { /* below, and at the limit */
        snprintf(name, sizeof(name), "domain %u", i);
        ck_assert_int_eq(config_set(&config, name, "workers", "1", error), 0);
    }
    ck_assert_int_eq(config_set(&config, "domain more", "workers", "1", error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error, "at most 64 domains"));
}
END_TEST

START_TEST(users_of_a_domain_are_limited_at_and_above)
{
    char uid[16];

    for (unsigned i = 0; i < CONFIG_USERS_MAX; i++) {
        snprintf(uid, sizeof(uid), "%u", 5000 + i);
        ck_assert_int_eq(config_set(&config, "domain many", "users", uid, error), 0);
    }
    ck_assert_int_eq(config_set(&config, "domain many", "users", "1", error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error, "at most 1024"));
}
END_TEST

static const struct access_list *submitters(void)
{
    return &config.access.lists[ACCESS_SUBMIT];
}

START_TEST(the_first_line_of_people_replaces_the_default_and_others_add)
{
    const uint32_t groups[] = {5, 77};

    ck_assert(access_listed(submitters(), 1234, NULL, 0));
    ck_assert(!access_listed(&config.access.lists[ACCESS_SEE], 1234, groups, 2));
    ck_assert_int_eq(read_text("[access]\nsubmit = 1001  root\t@77\nsubmit = 1002\nsee = *\n"), 0);
    ck_assert(access_listed(submitters(), 1001, NULL, 0) && access_listed(submitters(), 1002, NULL, 0));
    ck_assert(access_listed(submitters(), 0, NULL, 0));
    ck_assert(!access_listed(submitters(), 77, groups, 1)); /* a group is no user */
    ck_assert(access_listed(submitters(), 1003, groups, 2));
    ck_assert(access_listed(&config.access.lists[ACCESS_SEE], 1003, NULL, 0));
    ck_assert_int_eq(config_set(&config, "access", "submit", "", error), 0);
    ck_assert(!access_listed(submitters(), 1001, groups, 2));
    ck_assert_int_eq(config_set(&config, "access", "submit", "1004", error), 0);
    ck_assert(access_listed(submitters(), 1004, NULL, 0));
    ck_assert(!access_listed(&config.access.lists[ACCESS_CANCEL], 1004, groups, 2));
}
END_TEST

START_TEST(a_plugin_is_for_all_users_until_it_is_said)
{
    ck_assert_ptr_null(config_plugin_users(&config, "x"));
    ck_assert_int_eq(config_set(&config, "plugin x", "enabled", "yes", error), 0);
    ck_assert_ptr_null(config_plugin_users(&config, "x"));
    ck_assert_int_eq(config_set(&config, "plugin x", "users", "", error), 0);
    ck_assert(!access_listed(config_plugin_users(&config, "x"), 1001, NULL, 0));
    ck_assert_int_eq(config_set(&config, "plugin x", "users", "1001", error), 0);
    ck_assert(access_listed(config_plugin_users(&config, "x"), 1001, NULL, 0));
    ck_assert_ptr_null(config_plugin_users(&config, "y"));
}
END_TEST

START_TEST(people_are_limited_at_and_above)
{
    char text[16];

    for (unsigned i = 0; i < CONFIG_USERS_MAX; i++) {
        snprintf(text, sizeof(text), "%u @%u", 5000 + i, 5000 + i);
        ck_assert_int_eq(config_set(&config, "access", "see", text, error), 0);
    }
    ck_assert_int_eq(config_set(&config, "access", "see", "1", error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error, "at most 1024"));
    ck_assert_int_eq(config_set(&config, "access", "see", "@1", error), -EINVAL);
    ck_assert_int_eq(config_set(&config, "access", "see", "@no-such-group", error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error, "@no-such-group: there is no such group"));
    ck_assert_int_eq(config_set(&config, "access", "see", "no-such-user", error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error, "no-such-user: there is no such user"));
    ck_assert_int_eq(config_set(&config, "access", "see", "4294967295", error), -EINVAL);
    ck_assert_int_eq(config_set(&config, "access", "see", "@", error), -EINVAL);
}
END_TEST

START_TEST(first_user_and_switches_have_their_words)
{
    ck_assert_uint_eq(config.first_user_id, JOBS_FIRST_USER_ID);
    ck_assert_int_eq(config.user_ids, JOBS_USER_IDS_AUTO);
    ck_assert_int_eq(config_set(&config, "executor", "user-ids", "yes", error), 0);
    ck_assert_int_eq(config.user_ids, JOBS_USER_IDS_YES);
    ck_assert_int_eq(config_set(&config, "executor", "cgroups", "no", error), 0);
    ck_assert_int_eq(config.cgroups, JOBS_CGROUPS_NO);
    ck_assert_int_eq(config.keep_awake, AWAKE_AUTO);
    ck_assert_int_eq(config_set(&config, "pool", "keep-awake", "yes", error), 0);
    ck_assert_int_eq(config.keep_awake, AWAKE_YES);
    ck_assert_int_eq(config_set(&config, "executor", "cgroups", "maybe", error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error, "auto, yes or no"));
    ck_assert_int_eq(config_set(&config, "executor", "first-user-id", "0", error), -EINVAL);
    ck_assert_int_eq(config_set(&config, "executor", "first-user-id", "4294967295", error), -EINVAL);
    ck_assert_int_eq(config_set(&config, "executor", "first-user-id", "4294967294", error), 0);
}
END_TEST

START_TEST(stacks_are_limited_below_at_and_above)
{
    char text[64];

    ck_assert_int_eq(config.pin, 0);
    ck_assert_uint_eq(config.stack_size, JOBS_STACK_DEFAULT);
    for (int i = -1; i <= 1; i++) {
        snprintf(text, sizeof(text), "[pool]\nstack = %llu\n", JOBS_STACK_MIN + (unsigned long long)i);
        ck_assert_int_eq(read_text(text), i >= 0 ? 0 : -EINVAL);
        snprintf(text, sizeof(text), "[pool]\nstack = %llu\n", JOBS_STACK_MAX + (unsigned long long)i);
        ck_assert_int_eq(read_text(text), i <= 0 ? 0 : -EINVAL);
    }
    ck_assert_int_eq(read_text("[pool]\nstack = 1G\n"), 0);
    ck_assert_uint_eq(config.stack_size, JOBS_STACK_MAX);
    ck_assert_int_eq(read_text("[pool]\nstack = 256K\npin = no\n"), 0);
    ck_assert_uint_eq(config.stack_size, JOBS_STACK_MIN);
}
END_TEST

START_TEST(a_plugin_that_is_not_named_is_on_unless_it_opts_in)
{
    ck_assert(config_plugin_enabled(&config, "any", false));
    ck_assert(!config_plugin_enabled(&config, "any", true));
    ck_assert_int_eq(read_text("[plugin any]\nenabled = no\n"), 0);
    ck_assert(!config_plugin_enabled(&config, "any", false));
}
END_TEST

START_TEST(runners_have_rules)
{
    char text[64];

    ck_assert_int_eq(read_text("[runner a]\noffer = 7\noffer = @8\nusers = 9\nwait = 90s\nmax = 4294967295\n"
                               "[runner b]\nwait = 0\n[runner c]\noffer =\n"),
                     0);
    struct runner_rules a = config_runner_rules(&config, "a"), b = config_runner_rules(&config, "b"),
                        c = config_runner_rules(&config, "c"), none = config_runner_rules(&config, "d");
    ck_assert(a.configured && a.shared && a.wait_usec == 90000000 && a.max == UINT32_MAX);
    ck_assert(b.configured && !b.shared && !b.wait_usec && !b.max);
    ck_assert(c.configured && c.shared && c.wait_usec == RUNNER_ABSENT_USEC);
    ck_assert(!none.configured && !none.shared && none.wait_usec == RUNNER_ABSENT_USEC && !none.max);
    const struct access_list *offer = config_runner_offer(&config, "a");
    ck_assert(offer->n_uids == 1 && offer->uids[0] == 7 && offer->n_gids == 1 && offer->gids[0] == 8);
    ck_assert_ptr_null(config_runner_offer(&config, "b"));
    ck_assert_uint_eq(config_plugin_users(&config, "a")->uids[0], 9);
    ck_assert_ptr_null(config_plugin_users(&config, "c"));
    for (uint32_t i = config.n_runners; i < CONFIG_RUNNERS_MAX; i++) {
        snprintf(text, sizeof(text), "runner n%u", i);
        ck_assert_int_eq(config_set(&config, text, "max", "1", error), 0);
    }
    ck_assert_int_eq(config_set(&config, "runner one-more", "max", "1", error), -EINVAL);
}
END_TEST

/* A value that is the last one taken, and the one beyond it. */
static void limit_of_fleet(const char *key, const char *last, const char *beyond)
{
    ck_assert_msg(config_set(&config, "fleet", key, last, error) == 0, "%s", error);
    ck_assert_msg(config_set(&config, "fleet", key, beyond, error) == -EINVAL, "%s = %s", key, beyond);
}

START_TEST(a_fleet_is_told_by_the_same_files)
{
    ck_assert(config.fleet.held == 128 && config.fleet.ack_usec == 5000000 && config.fleet.wait_usec == UINT64_MAX &&
              config.fleet.in && config.fleet.out);
    ck_assert_ptr_null(config.fleet.servers);
    ck_assert_int_eq(read_text("[fleet]\nservers = nats://a:4222,tls://[::1]:1,b:3\nnode = n_1\nplugins = fib,echo\n"
                               "held = 7\nack-wait = 90s\nin = no\ntls-ca = /ca\ntls-cert = /c\ntls-key = /k\n"
                               "creds = /x y\n"),
                     0);
    ck_assert_str_eq(config.fleet.servers, "nats://a:4222,tls://[::1]:1,b:3");
    ck_assert_str_eq(config.fleet.node, "n_1");
    ck_assert_str_eq(config.fleet.plugins, "fib,echo");
    ck_assert_uint_eq(config.fleet.held, 7);
    ck_assert_uint_eq(config.fleet.ack_usec, 90000000);
    ck_assert(!config.fleet.in && config.fleet.out);
    ck_assert_str_eq(config.fleet.credentials, "/x y");
    ck_assert_uint_eq(config_origin(&config, "fleet", "tls-cert").line, 9);
}
END_TEST

START_TEST(what_a_fleet_is_told_has_limits_at_and_above)
{
    limit_of_fleet("servers", "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a");
    limit_of_fleet("node", "a123456789012345678901234567890", "a1234567890123456789012345678901");
    char longest[257];
    memset(longest, 'x', 256);
    longest[256] = 0;
    limit_of_fleet("user", longest + 1, longest);
    limit_of_fleet("run-as", "same", "a user");
    limit_of_fleet("held", "1", "0");
    limit_of_fleet("held", "4096", "4097");
    limit_of_fleet("ack-wait", "1s", "999ms");
    limit_of_fleet("ack-wait", "1h", "3601");
    limit_of_fleet("wait", "1s", "999ms");
    limit_of_fleet("wait", "24h", "86401");
    ck_assert_uint_eq(config.fleet.wait_usec, 86400000000);
    limit_of_fleet("wait", "forever", "never");
    ck_assert_uint_eq(config.fleet.wait_usec, UINT64_MAX);
    /* what was refused has changed nothing */
    ck_assert_str_eq(config.fleet.node, "a123456789012345678901234567890");
    ck_assert_uint_eq(config.fleet.held, 4096);
    ck_assert_uint_eq(config.fleet.ack_usec, 3600000000);
}
END_TEST

START_TEST(the_user_of_wsd_fleet_is_looked_up_where_somebody_is_acted_for)
{
    ck_assert(!access_listed(&config.access.submit_as, 1001, NULL, 0));
    ck_assert_int_eq(read_text("[fleet]\nuser = no-such-user\n"), 0);
    ck_assert_int_eq(config_check(&config, error), 0);
    ck_assert_uint_eq(config.access.agent, UINT32_MAX);
    ck_assert_int_eq(read_text("[access]\nsubmit-as = 1001\n\n[fleet]\nuser = no-such-user\n"), 0);
    ck_assert(access_listed(&config.access.submit_as, 1001, NULL, 0));
    ck_assert_int_eq(config_check(&config, error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error, "wsd.conf:5: user: no-such-user: there is no such user"));
    ck_assert_int_eq(config_set(&config, "fleet", "user", "nobody", error), 0);
    ck_assert_int_eq(config_check(&config, error), 0);
    ck_assert_uint_eq(config.access.agent, 65534);
}
END_TEST

START_TEST(what_cannot_go_together_in_a_fleet_is_said)
{
    const char *key;

    ck_assert_ptr_null(config_fleet_contradiction(&config, &key));
    ck_assert_int_eq(config_set(&config, "fleet", "tls-key", "/k", error), 0);
    ck_assert_ptr_nonnull(config_fleet_contradiction(&config, &key));
    ck_assert_str_eq(key, "tls-key");
    ck_assert_int_eq(config_set(&config, "fleet", "tls-cert", "/c", error), 0);
    ck_assert_int_eq(config_set(&config, "fleet", "in", "no", error), 0);
    ck_assert_ptr_null(config_fleet_contradiction(&config, &key));
    ck_assert_int_eq(config_set(&config, "fleet", "out", "no", error), 0);
    ck_assert_ptr_nonnull(config_fleet_contradiction(&config, &key));
    ck_assert_str_eq(key, "out");
}
END_TEST

START_TEST(a_plugin_has_keys_of_its_own)
{
    const char *of = "";

    ck_assert_int_eq(
        read_text(
            "[plugin a]\nisolation = own\nmax-run = 5s\nmax-running = 4294967295\n[plugin b]\nisolation = shared\n"),
        0);
    ck_assert(config_plugin_own(&config, "a") && !config_plugin_own(&config, "b") && !config_plugin_own(&config, "c"));
    /* what is not said stays by default */
    ck_assert(config_plugin_enabled(&config, "a", false) && !config_plugin_enabled(&config, "a", true));
    ck_assert_uint_eq(config_plugin_max_run(&config, "a", &of), 5000000);
    ck_assert_str_eq(of, "a");
    ck_assert_uint_eq(config.plugins[0].max_running, UINT32_MAX);
    ck_assert_uint_eq(config.plugins[1].max_running, 0);
    ck_assert_uint_eq(config_plugin_max_run(&config, "b", &of), 0);
    ck_assert_ptr_null(of);
    ck_assert_int_eq(read_text("[limits]\nmax-run = 1min\nquarantine-after = 9\nquarantine-max = 2min\n"), 0);
    ck_assert_uint_eq(config_plugin_max_run(&config, "a", &of), 5000000);
    ck_assert_uint_eq(config_plugin_max_run(&config, "b", &of), 60000000);
    ck_assert_ptr_null(of);
    ck_assert_uint_eq(config.limits.quarantine_after, 9);
    ck_assert_uint_eq(config.limits.quarantine_max_usec, 120000000);
}
END_TEST

static const struct {
    const char *text, *expected;
} wrong[] = {
    {"[daemon]\n\nworker = 3\n", ":3: [daemon] has no key `worker`; it has: socket"},
    {"[demon]\nworkers = 3\n", ":2: there is no section [demon]; there are: [daemon]"},
    {"workers = 3\n", ":1: `workers` stands before the first [section]"},
    {"[daemon]\nworkers = 0\n", ":2: workers = 0: a number of workers from 1 to 1024 is wanted"},
    {"[daemon]\nworkers = 1025\n", ":2: workers = 1025"},
    {"[daemon]\nworkers = -1\n", ":2: workers = -1"},
    {"[daemon]\nworkers = 2x\n", ":2: workers = 2x"},
    {"[daemon]\nlog-level = loud\n", ":2: log-level = loud: emerg"},
    {"[daemon]\nsystem = maybe\n", ":2: system = maybe: yes or no"},
    {"[daemon]\nsocket =\n", ":2: socket = : a text is wanted"},
    {"[daemon]\nsocket = /x\n\n  workers = 3\n", ":4: the line begins with a blank"},
    {"[plugins]\ndirectories = /a\n\t:/b\n", ":3: the line begins with a blank"},
    {"[daemon]\n  socket = /x\n  [pool]\n", ":3: the line begins with a blank"},
    {"[limits]\nmax-job = 3\n", ":2: [limits] has no key `max-job`; it has: max-connections "},
    {"[daemon]\nsocket=;x\n", ":2: socket = : a text is wanted"},
    {"[daemon]\nsocket = \"/x\n", ":2: socket = \"/x: the quote has no end"},
    {"[daemon]\nsocket = \"/x\" y\n", ":2: socket = \"/x\" y: the quote has no end, or something stands behind it"},
    {"[daemon] x\n", ":1: something stands behind the ] of the section"},
    {"[daemon]\ndrain-timeout = 400d\n", ":2: drain-timeout = 400d: a time"},
    {"[limits]\nmax-input = 99999999999999999999\n", ":2: max-input"},
    {"[limits]\nmax-input = 17179869184T\n", ":2: max-input"},
    {"[limits]\nmax-connections-per-user = 0\n", ":2: max-connections-per-user = 0: a whole number"},
    {"[limits]\nmax-requests-per-user = none\n", ":2: max-requests-per-user = none: a whole number"},
    {"[limits]\nmax-unread-per-user = 0\n", ":2: max-unread-per-user = 0: a size"},
    {"[limits]\nmax-input = 1X\n", ":2: max-input = 1X: a size"},
    {"[sandbox]\n\ndeny = socket conect\n", ":3: deny: conect: there is no such system call"},
    {"[sandbox]\ndeny = futex\n", ":2: deny: futex: executors themselves cannot do without it"},
    {"[sandbox]\ndeny =\n", ":2: deny: names of system calls"},
    {"[sandbox]\nwritable = /a:b\n", ":2: writable = /a:b: none, or absolute directories"},
    {"[sandbox]\nwritable = /a:\n", ":2: writable = /a:: none, or absolute directories"},
    {"[sandbox]\nrequired = perhaps\n", ":2: required = perhaps: yes or no"},
    {"[executor]\ncore-size = large\n", ":2: core-size = large: none, unlimited, or a size"},
    {"[limits]\nexecutor-memory = 1K\n", ":2: executor-memory = 1K: none, or a size from 1M to 1024T"},
    {"[domains]\ntrust = none\n", ":2: trust = none: user"},
    {"[plugin exec]\nenable = yes\n", ":2: [plugin exec] has no key `enable`"},
    {"[plugin exec]\nenabled = perhaps\n", ":2: enabled = perhaps: yes or no"},
    {"[plugin exec]\nmax-running = 0\n", ":2: max-running = 0: a number of jobs from 1 on is wanted"},
    {"[plugin exec]\nmax-running = 4294967296\n", ":2: max-running = 4294967296: a number of jobs from 1 on is wanted"},
    {"[runner r]\nwaits = 1s\n", ":2: [runner r] has no key `waits`; it has: offer users wait max"},
    {"[runner r]\nwait = -1\n", ":2: wait = -1: 0, or a time"},
    {"[runner r]\nmax = 0\n", ":2: max = 0: a number of runners from 1 on is wanted"},
    {"[runner r]\nmax = 4294967296\n", ":2: max = 4294967296: a number of runners from 1 on is wanted"},
    {"[runner r]\noffer = no-such-user\n", ":2: offer: no-such-user: there is no such user"},
    {"[runner a/b]\nmax = 1\n", ":2: [runner a/b]: at most 256 runners, with names"},
    {"[runner .a]\nmax = 1\n", ":2: [runner .a]: at most 256 runners, with names"},
    {"[runner a.so]\nmax = 1\n", ":2: [runner a.so]: at most 256 runners, with names"},
    {"[plugin exec]\nisolation = none\n", ":2: isolation = none: own (an executor of its own) or shared"},
    {"[plugin exec]\nmax-run = 0\n", ":2: max-run = 0: a time"},
    {"[limits]\nquarantine-after = 0\n", ":2: quarantine-after = 0: a whole number"},
    {"[fleet]\nserver = a\n", ":2: [fleet] has no key `server`; it has: user run-as servers node plugins held ack-wait "
                              "wait builds in out tls-ca"},
    {"[fleet]\nservers =\n", ":2: servers = : 1 to 16 servers with commas between"},
    {"[fleet]\nservers = nats://a, nats://b\n", ":2: servers = nats://a, nats://b: 1 to 16 servers"},
    {"[fleet]\nservers = nats://a,\n", ":2: servers = nats://a,: 1 to 16 servers"},
    {"[fleet]\nservers = http://a\n", ":2: servers = http://a: 1 to 16 servers"},
    {"[fleet]\nservers = nats://\n", ":2: servers = nats://: 1 to 16 servers"},
    {"[fleet]\nnode = a.b\n", ":2: node = a.b: a name of 1 to 31 letters"},
    {"[fleet]\nnode = begun\n", ":2: node = begun: a name of 1 to 31 letters"},
    {"[fleet]\nplugins = fib,\n", ":2: plugins = fib,: names with commas between"},
    {"[fleet]\nplugins = fib echo\n", ":2: plugins = fib echo: names with commas between"},
    {"[fleet]\nin = perhaps\n", ":2: in = perhaps: yes or no"},
    {"[fleet]\ntls-ca =\n", ":2: tls-ca = : a text is wanted"},
    {"[daemon]\nnonsense\n", ":2: neither a [section] nor a `key = value`"},
    {"[daemon\nworkers = 3\n", ":1: neither a [section]"},
};

START_TEST(what_is_wrong_is_said_with_file_and_line)
{
    int r = read_text(wrong[_i].text);

    ck_assert_msg(r < 0, "accepted: %s", wrong[_i].text);
    ck_assert_msg(strstr(error, wrong[_i].expected) != NULL, "%s\n -> %s\nwanted %s", wrong[_i].text, error,
                  wrong[_i].expected);
    ck_assert(strstr(error, directory) == error);
}
END_TEST

START_TEST(the_name_of_a_section_is_taken_whole_or_not_at_all)
{
    char name[64], text[128];

    for (size_t n = 41; n <= 43; n++) { /* with "plugin " before it: 48 to 50 bytes */
        memset(name, 'x', n);
        name[n] = 0;
        snprintf(text, sizeof(text), "[daemon]\n  [plugin %s]\nenabled = yes\n", name);
        ck_assert_int_eq(read_text(text), n <= 42 ? 0 : -EINVAL);
        ck_assert(n > 42 || config_plugin_enabled(&config, name, true));
    }
    ck_assert_msg(strstr(error, ":2: the name of the section is longer than 49 bytes"), "%s", error);
}
END_TEST

START_TEST(a_first_key_may_be_indented)
{
    ck_assert_int_eq(read_text("[daemon]\n  workers = 3\n[pool]\n  # and this\n\n  pin = yes\n"), 0);
    ck_assert_uint_eq(config.workers, 3);
    ck_assert_int_eq(config.pin, 1);
}
END_TEST

START_TEST(a_line_with_a_nul_byte_is_refused)
{
    static const char text[] = "[daemon]\nsocket = /run/wsd\0.sock\n";
    const char *path = file("wsd.conf", "");
    FILE *f = fopen(path, "w");

    fwrite(text, 1, sizeof(text) - 1, f);
    fclose(f);
    ck_assert_int_eq(config_read(&config, path, error), -EINVAL);
    ck_assert_msg(strstr(error, ":2: the line has a NUL byte"), "%s", error);
}
END_TEST

START_TEST(workers_at_the_limit_are_fine)
{
    ck_assert_int_eq(read_text("[daemon]\nworkers = 1024\n"), 0);
    ck_assert_int_eq(read_text("[daemon]\nworkers = 1\n"), 0);
}
END_TEST

START_TEST(a_line_that_is_too_long_is_refused_whole)
{
    size_t size = (1u << 20) + 2;
    char *text = malloc(size + 32);

    for (size_t more = 0; more < 2; more++) {
        size_t n = (size_t)sprintf(text, "[pool]\n"), line = (1u << 20) + more;

        memset(text + n, ' ', line);
        memcpy(text + n, "pin = yes", 9);
        text[n + line] = 0;
        ck_assert_int_eq(read_text(text), more ? -EINVAL : 0);
    }
    free(text);
    ck_assert_msg(strstr(error, ":2: the line is longer than 1048576 bytes"), "%s", error);
}
END_TEST

START_TEST(what_is_wrong_is_said_behind_a_long_value_too)
{
    size_t size = 100000;
    char *text = malloc(size + 64);

    memset(text, 'x', size);
    memcpy(text, "[pool]\npin = ", 13);
    text[size] = 0;
    ck_assert_int_eq(read_text(text), -EINVAL);
    ck_assert_msg(strstr(error, "xxx: yes or no is wanted"), "%s", error);
    memcpy(text, "[limits]\nx ", 11);
    strcat(text, "=\n");
    ck_assert_int_eq(read_text(text), -EINVAL);
    ck_assert_msg(strstr(error, " it has: max-connections ") && strstr(error, " ageing"), "%s", error);
    free(text);
}
END_TEST

START_TEST(what_is_no_regular_file_is_refused_and_not_waited_for)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/fifo", directory);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(config_read(&config, path, error), -EINVAL);
    ck_assert_msg(strstr(error, "it is no regular file"), "%s", error);
    ck_assert_int_eq(config_read(&config, directory, error), -EISDIR);
    ck_assert_int_eq(config_read(&config, "/dev/null", error), 0);
}
END_TEST

START_TEST(later_files_win_and_others_are_left_alone)
{
    char path[256];

    file("wsd.conf", "[daemon]\nworkers = 3\n[limits]\nmax-jobs = 5\n");
    snprintf(path, sizeof(path), "%s/wsd.conf.d", directory);
    mkdir(path, 0755);
    file("wsd.conf.d/20-b.conf", "[daemon]\nworkers = 5\n");
    file("wsd.conf.d/10-a.conf", "[daemon]\nworkers = 4\n");
    file("wsd.conf.d/30-c.conf.bak", "nonsense\n");
    ck_assert_int_eq(config_read_standard(&config, directory, error), 0);
    ck_assert_uint_eq(config.workers, 5);
    ck_assert_uint_eq(config.limits.jobs, 5);
}
END_TEST

START_TEST(drop_ins_that_cannot_be_looked_for_are_no_lack_of_them)
{
    file("wsd.conf", "[daemon]\nworkers = 3\n");
    file("wsd.conf.d", "no directory\n");
    ck_assert_int_eq(config_read_standard(&config, directory, error), -ENOTDIR);
    ck_assert_ptr_nonnull(strstr(error, "wsd.conf.d: Not a directory"));
}
END_TEST

START_TEST(no_files_at_all_are_fine_but_a_named_one_must_be_there)
{
    char path[256];

    ck_assert_int_eq(config_read_standard(&config, directory, error), 0);
    snprintf(path, sizeof(path), "%s/missing.conf", directory);
    ck_assert_int_eq(config_read(&config, path, error), -ENOENT);
    ck_assert_ptr_nonnull(strstr(error, "missing.conf"));
}
END_TEST

START_TEST(what_is_printed_reads_back_as_the_same)
{
    char path[256];
    struct config again;
    char first[8192] = "", second[8192] = "";
    FILE *f;

    ck_assert_int_eq(
        read_text(
            "[daemon]\nworkers = 3\nsocket = /s\n[domains]\ntrust = all\n[plugin exec]\nenabled = yes\n"
            "[sandbox]\ndeny = times socket\nwritable = none\n[executor]\ncore-size = unlimited\n"
            "[limits]\nexecutor-memory = 3M\nexecutor-tasks = 9\n"
            "[domain a b]\nusers = 1001 0\nworkers = 7\nexecutor-tasks = 1\ncpu-weight = 10000\n"
            "executor-memory = none\n[domain c]\nusers = 1003\n"
            "[executor]\nuser-ids = yes\nfirst-user-id = 1\ncgroups = no\n[pool]\nkeep-awake = no\n"
            "[access]\nsubmit = 0 1001 @77\nsee =\nadminister = *\n[plugin b]\nusers =\n[plugin c]\nusers = @9 8\n"
            "[tls]\nlisten = :1\ncrl = /x\nmax-handshakes = 3\nhandshake-timeout = 4s\n"
            "[plugin a]\nisolation = own\nmax-run = 1500ms\n[limits]\nmax-run = 2h\n"
            "[runner r]\noffer = 7 @8\nusers = *\nwait = 0\nmax = 3\n[runner s]\nwait = 1h\n"),
        0);
    snprintf(path, sizeof(path), "%s/printed.conf", directory);
    f = fopen(path, "w");
    ck_assert_int_eq(config_print(&config, f), 0);
    fclose(f);
    config_init(&again);
    ck_assert_msg(config_read(&again, path, error) == 0, "%s", error);
    f = fmemopen(first, sizeof(first), "w");
    ck_assert_int_eq(config_print(&config, f), 0);
    fclose(f);
    f = fmemopen(second, sizeof(second), "w");
    ck_assert_int_eq(config_print(&again, f), 0);
    fclose(f);
    ck_assert_str_eq(first, second);
    config_deinit(&again);
}
END_TEST

/* --- each key, printed and read again ----------------------------------------------------------------------------- */

static const char *const odd[] = {
    "1",
    "7",
    "0",
    "64K",
    "3M",
    "1024T",
    "90s",
    "1ms",
    "366d",
    "yes",
    "no",
    "auto",
    "none",
    "unlimited",
    "debug",
    "all",
    "own",
    "user",
    "/a b",
    "/a ;b",
    "/a;b",
    "/a\t;b",
    " /a",
    "/a ",
    "\"/q\"",
    "\"/q",
    "it's",
    "'",
    ";x",
    "; x",
    "#x",
    "/a\\b",
    "/a\\",
    "/a\nb",
    "\x01\x7f",
    "/\xc3\xa9",
    "a=b:c",
    "[x]",
    "]",
    "*",
    "0",
    "1001",
    "0 1001 @77 @0",
    "Mon..Fri 08:00",
    "daily",
    "socket times",
    "/x:/y ;z",
    "100",
    "echo",
    "echo:two words",
    "echo \";\"",
    "echo \"a ;b\" ;c",
    "echo ' ;' \"\" '' \\; \\x01 \\n",
    "./a:b/c",
    "\"a b\":c x",
};

static char *print_all(const struct config *c)
{
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    ck_assert_int_eq(config_print(c, to), 0);
    fclose(to);
    return text;
}

struct key {
    char section[64], name[64];
};

static size_t keys_of_printed(struct key *keys, size_t room)
{
    char *text = print_all(&config), *save, section[64] = "";
    size_t n = 0;

    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        line += strncmp(line, "# ", 2) == 0 ? 2 : 0;
        if (sscanf(line, "[%63[^]]]", section) == 1)
            continue;
        ck_assert_uint_lt(n, room);
        snprintf(keys[n].section, sizeof(keys[n].section), "%s", section);
        ck_assert_int_eq(sscanf(line, "%63s = ", keys[n++].name), 1);
    }
    free(text);
    return n;
}

/* Of a section with a name: as its error says. */
static size_t keys_of_error(const char *section, struct key *keys, size_t room)
{
    char *save, *names;
    size_t n = 0;

    ck_assert_int_lt(config_set(&config, section, "nonsense", "", error), 0);
    names = strstr(error, "it has: ");
    ck_assert_ptr_nonnull(names);
    for (char *name = strtok_r(names + 8, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
        ck_assert_uint_lt(n, room);
        snprintf(keys[n].section, sizeof(keys[n].section), "%s", section);
        snprintf(keys[n++].name, sizeof(keys[0].name), "%s", name);
    }
    return n;
}

static void same_schedules(const struct config *a, const struct config *b)
{
    ck_assert_uint_eq(a->n_schedules, b->n_schedules);
    for (uint32_t i = 0; i < a->n_schedules; i++) {
        const struct config_schedule *x = &a->schedules[i], *y = &b->schedules[i];

        ck_assert_str_eq(x->on ? x->on : "", y->on ? y->on : "");
        ck_assert_str_eq(x->plugin ? x->plugin : "", y->plugin ? y->plugin : "");
        ck_assert_str_eq(x->function ? x->function : "", y->function ? y->function : "");
        ck_assert_uint_eq(x->argc, y->argc);
        ck_assert_uint_eq(x->args_size, y->args_size);
        ck_assert(x->args_size == 0 || memcmp(x->args, y->args, x->args_size) == 0);
    }
}

/* True: the value was taken. */
static bool survives(const struct key *key, const char *value, char **ret_printed)
{
    struct config one, again;
    char *first, *second, path[256];
    FILE *f;

    config_init(&one);
    config_init(&again);
    bool is_schedule = strncmp(key->section, "schedule ", 9) == 0;
    if (is_schedule) { /* neither may be missing */
        ck_assert_int_eq(config_set(&one, key->section, "on", "daily", error), 0);
        ck_assert_int_eq(config_set(&one, key->section, "job", "echo", error), 0);
    }
    if (config_set(&one, key->section, key->name, value, error) < 0) {
        config_deinit(&one);
        config_deinit(&again);
        return false;
    }
    first = print_all(&one);
    snprintf(path, sizeof(path), "%s/again.conf", directory);
    f = fopen(path, "w");
    fputs(first, f);
    fclose(f);
    ck_assert_msg(config_read(&again, path, error) == 0, "[%s] %s = %s\n%s", key->section, key->name, value, error);
    second = print_all(&again);
    ck_assert_msg(strcmp(first, second) == 0, "[%s] %s = %s\n%s\nwas read again as\n%s", key->section, key->name, value,
                  first, second);
    same_schedules(&one, &again);
    free(second);
    config_deinit(&one);
    config_deinit(&again);
    *ret_printed = first;
    return true;
}

START_TEST(each_key_survives_printing_and_reading)
{
    static const char *const named[] = {"plugin a b", "tag x", "domain d", "schedule s"};
    char *printed[sizeof(odd) / sizeof(odd[0])];
    struct key keys[256];
    size_t n = keys_of_printed(keys, 256);

    ck_assert_uint_gt(n, 60);
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
        n += keys_of_error(named[i], keys + n, 256 - n);
    for (size_t k = 0; k < n; k++) {
        size_t n_taken = 0;

        for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
            n_taken += survives(&keys[k], odd[i], &printed[n_taken]);
        ck_assert_msg(n_taken > 0, "[%s] %s takes none of these values", keys[k].section, keys[k].name);
        /* a text: other bytes are another text */
        for (size_t i = 0; n_taken == sizeof(odd) / sizeof(odd[0]) && i < n_taken; i++)
            for (size_t j = 0; j < i; j++)
                ck_assert_msg(strcmp(odd[i], odd[j]) == 0 || strcmp(printed[i], printed[j]) != 0, "%s: %s: as %s",
                              keys[k].name, odd[i], odd[j]);
        while (n_taken)
            free(printed[--n_taken]);
    }
}
END_TEST

static const struct {
    const char *line;
    const char *args[6];
} jobs[] = {
    {"echo a b", {"a", "b"}},
    {"echo\ta \t b ", {"a", "b"}},
    {"echo a ;b c", {"a"}},
    {"echo a;b #c", {"a;b", "#c"}},
    {"echo \"a ;b\" ;c", {"a ;b"}},
    {"echo 'a ;b' \";\" ';' c", {"a ;b", ";", ";", "c"}},
    {"echo \"it's\" 'a \"b\"' \"\" ''", {"it's", "a \"b\"", "", ""}},
    {"echo \"a\\\"b\" 'c\\'d' e\\ f", {"a\"b", "c'd", "e\\", "f"}}, /* a blank is \s */
    {"echo a\\sb a\\tb \\x41\\101 \\\\n", {"a b", "a\tb", "AA", "\\n"}},
    {"echo \\.c$ \\( \\x0g \\400", {"\\.c$", "\\(", "\\x0g", "\\400"}}, /* no escapes */
    {"echo pre\"a b\"post", {"prea bpost"}},
};

START_TEST(a_command_has_systemds_quotes)
{
    char text[256], *printed;
    struct key key = {.section = "schedule s", .name = "job"};

    snprintf(text, sizeof(text), "[schedule s]\non = daily\njob = %s\n", jobs[_i].line);
    ck_assert_msg(read_text(text) == 0, "%s", error);
    const struct config_schedule *s = &config.schedules[0];
    const char *at = s->args;
    uint32_t n = 0;
    for (; n < 6 && jobs[_i].args[n]; n++, at += strlen(at) + 1) {
        ck_assert_uint_lt(n, s->argc);
        ck_assert_str_eq(at, jobs[_i].args[n]);
    }
    ck_assert_uint_eq(n, s->argc);
    ck_assert_str_eq(s->plugin, "echo");
    ck_assert(survives(&key, jobs[_i].line, &printed));
    free(printed);
}
END_TEST

START_TEST(a_command_with_an_open_quote_is_refused)
{
    ck_assert_int_lt(read_text("[schedule s]\non = daily\njob = echo 'a ;b\n"), 0);
    ck_assert_msg(strstr(error, ":3: job = echo 'a ;b: "), "%s", error);
    ck_assert_int_lt(read_text("[schedule s]\non = daily\njob = echo a\\\n"), 0);
}
END_TEST

START_TEST(a_value_may_stand_in_quotes)
{
    ck_assert_int_eq(
        read_text("\xef\xbb\xbf[daemon] ; a mark of byte order before it\nsocket = \"/a ;b\\x41 \" ;c\nworkers = '3'\n"
                  "socket-group = it's ;c\nstate-dir: /x;y\n"),
        0);
    ck_assert_str_eq(config.socket, "/a ;bA ");
    ck_assert_uint_eq(config.workers, 3);
    ck_assert_str_eq(config.socket_group, "it's");
    ck_assert_str_eq(config.state_dir, "/x;y");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("configuration");
    Suite *s = suite_create("configuration");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, every_kind_of_value_is_read);
    tcase_add_test(tc, a_domain_has_what_it_says_and_else_what_all_have);
    tcase_add_test(tc, a_plugin_apart_has_what_it_says_and_else_what_its_domain_has);
    tcase_add_test(tc, what_a_domain_cannot_be_is_refused);
    tcase_add_test(tc, users_of_a_domain_are_limited_at_and_above);
    tcase_add_test(tc, the_first_line_of_people_replaces_the_default_and_others_add);
    tcase_add_test(tc, a_plugin_is_for_all_users_until_it_is_said);
    tcase_add_test(tc, people_are_limited_at_and_above);
    tcase_add_test(tc, first_user_and_switches_have_their_words);
    tcase_add_test(tc, stacks_are_limited_below_at_and_above);
    tcase_add_test(tc, executors_are_told_of_their_sandbox);
    tcase_add_test(tc, each_line_of_denied_calls_adds);
    tcase_add_test(tc, memory_of_executors_is_limited_below_at_and_above);
    tcase_add_test(tc, a_plugin_that_is_not_named_is_on_unless_it_opts_in);
    tcase_add_test(tc, runners_have_rules);
    tcase_add_test(tc, a_fleet_is_told_by_the_same_files);
    tcase_add_test(tc, what_a_fleet_is_told_has_limits_at_and_above);
    tcase_add_test(tc, the_user_of_wsd_fleet_is_looked_up_where_somebody_is_acted_for);
    tcase_add_test(tc, what_cannot_go_together_in_a_fleet_is_said);
    tcase_add_test(tc, a_plugin_has_keys_of_its_own);
    tcase_add_loop_test(tc, what_is_wrong_is_said_with_file_and_line, 0, sizeof(wrong) / sizeof(wrong[0]));
    tcase_add_test(tc, the_name_of_a_section_is_taken_whole_or_not_at_all);
    tcase_add_test(tc, a_first_key_may_be_indented);
    tcase_add_test(tc, a_line_with_a_nul_byte_is_refused);
    tcase_add_test(tc, workers_at_the_limit_are_fine);
    tcase_add_test(tc, a_line_that_is_too_long_is_refused_whole);
    tcase_add_test(tc, later_files_win_and_others_are_left_alone);
    tcase_add_test(tc, drop_ins_that_cannot_be_looked_for_are_no_lack_of_them);
    tcase_add_test(tc, no_files_at_all_are_fine_but_a_named_one_must_be_there);
    tcase_add_test(tc, what_is_printed_reads_back_as_the_same);
    tcase_add_test(tc, what_is_wrong_is_said_behind_a_long_value_too);
    tcase_add_test(tc, what_is_no_regular_file_is_refused_and_not_waited_for);
    tcase_add_test(tc, each_key_survives_printing_and_reading);
    tcase_add_loop_test(tc, a_command_has_systemds_quotes, 0, sizeof(jobs) / sizeof(jobs[0]));
    tcase_add_test(tc, a_command_with_an_open_quote_is_refused);
    tcase_add_test(tc, a_value_may_stand_in_quotes);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
