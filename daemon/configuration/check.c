/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c: what a configuration says that this machine cannot do: names that are not there, times that never come.
 * Owns nothing. [before the loop, and in it at a reload]
 * Keeps: waits for nothing; changes nothing.
 * Does not know syntax: what is wrong by itself was refused when it was read. */
#include "configuration/check.h"

#include <errno.h>
#include <linux/limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/accounts.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/socket.h"
#include "calendar/calendar.h"
#include "config.h"

struct examination {
    const struct config *config;
    void (*say)(bool warning, const char *text, void *userdata);
    void *userdata;
    unsigned n_errors;
    bool unknown; /* something could not be looked at */
};

static void __attribute__((format(printf, 4, 5)))
tell(struct examination *x, bool warning, struct config_origin origin, const char *format, ...)
{
    char what[CONFIG_ERROR], text[CONFIG_ERROR + 320];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    if (origin.file)
        snprintf(text, sizeof(text), "%.300s:%u: %s", origin.file, origin.line, what);
    else
        snprintf(text, sizeof(text), "%s", what);
    x->n_errors += !warning;
    x->say(warning, text, x->userdata);
}

static void tell_silence(struct examination *x, struct config_origin origin, const char *key, const char *name,
                         int error)
{
    tell(x, true, origin, "%s: %.64s: " ACCOUNTS_SILENT, key, name, strerror(-error));
    x->unknown = true;
}

/* Takes the next path of a list with colons. One that is too long stays so. Returns false at the end. */
static bool next_path(const char **at, char path[static PATH_MAX + 1])
{
    while (**at == ':')
        ++*at;
    size_t n = strcspn(*at, ":");

    snprintf(path, PATH_MAX + 1, "%.*s", (int)MIN(n, (size_t)PATH_MAX), *at);
    *at += n;
    return n > 0;
}

/* 0; -ENOTDIR; or another negative errno. */
static int look_for_directory(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return -errno;
    return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

static void examine_daemon(struct examination *x)
{
    const struct config *c = x->config;
    struct config_origin executor = config_origin(c, "daemon", "executor");

    if (c->socket && strlen(c->socket) > SOCKET_PATH_MAX)
        tell(x, false, config_origin(c, "daemon", "socket"),
             "[daemon] socket: the path has %zu bytes, and a socket's has at most %zu: %.120s...", strlen(c->socket),
             SOCKET_PATH_MAX, c->socket);
    uint32_t group;
    int r = c->socket_group ? group_by_name(c->socket_group, &group) : 0;
    if (r == -ENOENT)
        tell(x, false, config_origin(c, "daemon", "socket-group"),
             "[daemon] socket-group: there is no group %.64s: see `getent group`", c->socket_group);
    else if (r < 0)
        tell_silence(x, config_origin(c, "daemon", "socket-group"), "[daemon] socket-group", c->socket_group, r);
    /* the built-in one is not looked for: what is checked may be for another machine */
    if (strcmp(c->executor, WSD_EXECUTOR) != 0 && access(c->executor, X_OK) < 0)
        tell(x, false, executor, "[daemon] executor: %.200s: %s", c->executor, strerror(errno));
}

static void examine_writable(struct examination *x)
{
    const char *list = x->config->writable;
    const char *at = list && strcmp(list, "none") != 0 ? list : "";
    char d[PATH_MAX + 1];

    while (next_path(&at, d)) {
        struct stat st;
        int e = stat(d, &st) < 0 ? errno : 0;

        /* one that cannot be reached from here, an executor with the rights of its user may reach */
        if (e)
            tell(x, e == EACCES, config_origin(x->config, "sandbox", "writable"), "[sandbox] writable: %.200s: %s%s", d,
                 strerror(e), e == EACCES ? "" : ": make it, or take it out: no job runs without it");
    }
}

/* --- plugins --------------------------------------------------------------------------------------------------- */

/* n: bytes of the name. */
static bool has_plugin(const struct config *c, const char *name, size_t n)
{
    const char *at = c->plugin_dirs;
    char directory[PATH_MAX + 1], path[2 * PATH_MAX];

    while (next_path(&at, directory)) {
        snprintf(path, sizeof(path), "%s/%.*s.so", directory, (int)n, name);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

static void examine_directories(struct examination *x)
{
    struct config_origin origin = config_origin(x->config, "plugins", "directories");
    const char *at = strcmp(x->config->plugin_dirs, WSD_PLUGIN_DIR) != 0 ? x->config->plugin_dirs : "";
    char d[PATH_MAX + 1];

    while (next_path(&at, d)) {
        int r = look_for_directory(d);

        if (r < 0)
            tell(x, true, origin, "[plugins] directories: %.200s: %s", d, strerror(-r));
    }
}

static void examine_plugin(struct examination *x, const struct config_plugin *p)
{
    const char *slash = strrchr(p->name, '/'), *base = slash ? slash + 1 : p->name;
    size_t n = strlen(base);
    bool has_so = n > 3 && strcmp(base + n - 3, ".so") == 0;

    if (slash || has_so)
        tell(x, true, p->origin, "[plugin %s]: names of plugins have no directory and no .so: [plugin %.*s] is meant",
             p->name, (int)(has_so ? n - 3 : n), base);
    else if (!has_plugin(x->config, p->name, strlen(p->name)))
        tell(x, true, p->origin,
             "[plugin %s]: no plugin directory has a %s.so: see `wsctl plugin list` for the names (%.200s)", p->name,
             p->name, x->config->plugin_dirs);
}

static void examine_runner(struct examination *x, const struct config_runner *r)
{
    if (has_plugin(x->config, r->name, strlen(r->name)))
        tell(x, false, r->origin,
             "[runner %s]: a plugin directory has a plugin %s (%.200s): one of them needs another name, and no job for "
             "%s is taken until then",
             r->name, r->name, x->config->plugin_dirs, r->name);
}

/* --- schedules ------------------------------------------------------------------------------------------------- */

static bool comes_after(const struct calendar *c, uint64_t usec)
{
    uint64_t next;

    return calendar_next(c, usec, &next) == 0;
}

static void examine_schedule(struct examination *x, const struct config_schedule *s)
{
    struct calendar *calendar;
    int r = calendar_parse(&calendar, s->on);

    if (r < 0) {
        tell(x, true, s->on_origin, "[schedule %s] on = %.128s: it cannot be looked at: %s", s->name, s->on,
             strerror(-r));
        x->unknown = true;
    } else {
        bool comes = comes_after(calendar, 0);

        if (!comes || !comes_after(calendar, clock_realtime_usec()))
            tell(x, comes, s->on_origin,
                 "[schedule %s] on = %.128s: %s; `systemd-analyze calendar` shows what a time means", s->name, s->on,
                 comes ? "the last of its times is past" : "that time never comes");
        calendar_free(calendar);
    }
    size_t n = strlen(s->plugin);
    bool is_path = strchr(s->plugin, '/'), has_so = n > 3 && strcmp(s->plugin + n - 3, ".so") == 0;
    if (is_path ? access(s->plugin, F_OK) < 0 : !has_plugin(x->config, s->plugin, has_so ? n - 3 : n))
        tell(x, true, s->job_origin, "[schedule %s] job: there is no plugin %.200s: each run of it would fail", s->name,
             s->plugin);
}

static void examine_submit_as(struct examination *x)
{
    struct config_origin o = config_origin(x->config, "access", "submit-as");

    if (x->config->access.agent == UINT32_MAX)
        tell(x, true, o,
             "[access] submit-as: there is no user " CONFIG_FLEET_USER
             ", so only root may act for others: [fleet] user "
             "says which user wsd-fleet runs as");
    if (x->config->fleet.in && !x->config->fleet.run_as)
        tell(x, true, o,
             "[access] submit-as: jobs of other machines run as the user of wsd-fleet, and so could act for those "
             "users: set [fleet] run-as");
}

/* Warnings: wsd runs without. */
static void examine_fleet(struct examination *x)
{
    const struct config_fleet *f = &x->config->fleet;
    const char *key, *words = config_fleet_contradiction(x->config, &key);
    const struct {
        const char *key, *path;
    } files[] = {
        {"tls-ca", f->tls_ca}, {"tls-cert", f->tls_certificate}, {"tls-key", f->tls_key}, {"creds", f->credentials}};

    if (words)
        tell(x, true, config_origin(x->config, "fleet", key), "[fleet] %s: %s", key, words);
    const struct access_list *l = &x->config->access.submit_as;
    if (l->all || l->n_uids + l->n_gids > 0)
        examine_submit_as(x);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        if (files[i].path && access(files[i].path, F_OK) < 0 && errno != EACCES)
            tell(x, true, config_origin(x->config, "fleet", files[i].key), "[fleet] %s: %.200s: %s: wsd-fleet needs it",
                 files[i].key, files[i].path, strerror(errno));
}

int config_examine(const struct config *c, void (*say)(bool warning, const char *text, void *userdata), void *userdata)
{
    struct examination x = {.config = c, .say = say, .userdata = userdata};

    examine_daemon(&x);
    examine_writable(&x);
    examine_directories(&x);
    for (uint32_t i = 0; i < c->n_plugins; i++)
        examine_plugin(&x, &c->plugins[i]);
    for (uint32_t i = 0; i < c->n_runners; i++)
        examine_runner(&x, &c->runners[i]);
    for (uint32_t i = 0; i < c->n_schedules; i++)
        examine_schedule(&x, &c->schedules[i]);
    examine_fleet(&x);
    return x.n_errors ? -EINVAL : x.unknown ? -EAGAIN : 0;
}
