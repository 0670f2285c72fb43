/* SPDX-License-Identifier: Apache-2.0
 *
 * configuration.c: reads and checks the configuration. syntax.c splits the lines; schema.c and sections.c say what
 * they mean.
 * Owns the strings of a struct config. [before the loop, and beside it at a reload]
 * Keeps: no unknown section, key or value is ignored. It is an error with file and line.
 * Does not apply anything. */
#include "configuration/configuration.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/accounts.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/trust.h"
#include "config.h"
#include "configuration/people.h"
#include "configuration/schema.h"
#include "configuration/sections.h"
#include "configuration/syntax.h"

int config_init(struct config *c)
{
    *c = (struct config){.access.lists[ACCESS_SUBMIT].all = true, /* all users that the socket lets in */
                         .access.agent = UINT32_MAX,
                         .log_level = LOG_INFO,
                         .sandbox_required = 1,
                         .is_system = -1,
                         .drain_usec = 90ull * 1000000,
                         .first_user_id = JOBS_FIRST_USER_ID,
                         .frontend_limits = FRONTEND_LIMITS_DEFAULT,
                         .stack_size = JOBS_STACK_DEFAULT,
                         .static_tls = JOBS_TLS_DEFAULT,
                         .limits = JOBS_LIMITS_DEFAULT,
                         .fleet = {.held = 128, .ack_usec = 5000000, .wait_usec = UINT64_MAX, .in = 1, .out = 1}};
    for (size_t i = 0; i < config_n_keys; i++) /* a new one cannot forget it */
        assert(config_keys[i].applies >= APPLIES_NOW && config_keys[i].applies <= APPLIES_FLEET);
    c->plugin_dirs = strdup(WSD_PLUGIN_DIR);
    c->executor = strdup(WSD_EXECUTOR);
    c->spawner = strdup(WSD_SPAWNER);
    c->domains = calloc(1, sizeof(*c->domains));
    c->origins = calloc(config_n_keys, sizeof(*c->origins));
    return c->plugin_dirs && c->executor && c->spawner && c->domains && c->origins ? 0 : -ENOMEM;
}

void config_deinit(struct config *c)
{
    free(c->socket);
    free(c->socket_group);
    free(c->state_dir);
    free(c->plugin_dirs);
    free(c->executor);
    free(c->spawner);
    sections_free(c);
    for (unsigned i = 0; i < ACCESS_RIGHTS; i++)
        people_free(&c->access.lists[i]);
    people_free(&c->access.submit_as);
    free(c->tls_listen);
    free(c->tls_certificate);
    free(c->tls_key);
    free(c->tls_ca);
    free(c->tls_crl);
    free(c->tls_user_map);
    free(c->fleet.servers);
    free(c->fleet.user);
    free(c->fleet.run_as);
    free(c->fleet.node);
    free(c->fleet.plugins);
    free(c->fleet.tls_ca);
    free(c->fleet.tls_certificate);
    free(c->fleet.tls_key);
    free(c->fleet.credentials);
    free(c->deny);
    free(c->writable);
    free(c->origins);
    for (uint32_t i = 0; i < c->n_files; i++)
        free(c->files[i]);
    free(c->files);
    *c = (struct config){0};
}

/* Says where the key stands, too. */
static int find_agent(struct config *c, char error[static CONFIG_ERROR])
{
    const struct access_list *l = &c->access.submit_as;
    struct config_origin o = config_origin(c, "fleet", "user");
    char where[320] = "";

    if (!l->all && l->n_uids + l->n_gids == 0)
        return 0;
    int r = uid_of(c->fleet.user ? c->fleet.user : CONFIG_FLEET_USER, &c->access.agent);
    if (r == 0 || (r == -ENOENT && !c->fleet.user))
        return 0;
    if (o.file)
        snprintf(where, sizeof(where), "%.300s:%u: ", o.file, o.line);
    if (r == -ENOENT)
        snprintf(error, CONFIG_ERROR, "%suser: %.64s: there is no such user", where, c->fleet.user);
    else
        snprintf(error, CONFIG_ERROR, "%suser: %.64s: " ACCOUNTS_SILENT, where,
                 c->fleet.user ? c->fleet.user : CONFIG_FLEET_USER, strerror(-r));
    return r == -ENOENT ? -EINVAL : -EAGAIN;
}

int config_check(struct config *c, char error[static CONFIG_ERROR])
{
    for (uint32_t i = 0; i < c->n_schedules; i++)
        if (!c->schedules[i].on || !c->schedules[i].plugin) {
            const struct config_origin *o = &c->schedules[i].origin;
            int n = o->file ? snprintf(error, CONFIG_ERROR, "%.300s:%u: ", o->file, o->line) : 0;

            snprintf(error + n, CONFIG_ERROR - (size_t)n, "[schedule %s] has no `%s`", c->schedules[i].name,
                     c->schedules[i].on ? "job" : "on");
            return -EINVAL;
        }
    return find_agent(c, error);
}

const char *config_fleet_contradiction(const struct config *c, const char **ret_key)
{
    const struct config_fleet *f = &c->fleet;

    *ret_key = f->tls_certificate ? "tls-cert" : "tls-key";
    if (!f->tls_certificate != !f->tls_key)
        return f->tls_key ? "a key without its certificate: set tls-cert, too"
                          : "a certificate without its key: set tls-key, too";
    *ret_key = "out";
    return f->in || f->out ? NULL : "in = no and out = no leave nothing to do: set one of them to yes";
}

static void unknown(const char *section, const char *key, char error[static CONFIG_ERROR])
{
    bool found = false;
    size_t n;

    for (size_t i = 0; i < config_n_keys; i++)
        found |= strcmp(config_keys[i].section, section) == 0;
    if (!*section) {
        snprintf(error, CONFIG_ERROR, "`%.40s` stands before the first [section]", key);
        return;
    }
    if (!found) {
        snprintf(error, CONFIG_ERROR,
                 "there is no section [%s]; there are: "
                 "[daemon] [pool] [plugins] [executor] [sandbox] [domains] [access] [tls] [limits] [store] [fleet] "
                 "[plugin NAME] [tag NAME] [runner NAME] [domain NAME] [schedule NAME]",
                 section);
        return;
    }
    n = (size_t)snprintf(error, CONFIG_ERROR, "[%s] has no key `%.64s`; it has:", section, key);
    for (size_t i = 0; i < config_n_keys && n < CONFIG_ERROR; i++)
        if (strcmp(config_keys[i].section, section) == 0)
            n += (size_t)snprintf(error + n, CONFIG_ERROR - n, " %s", config_keys[i].name);
}

int config_set(struct config *c, const char *section, const char *key, const char *value,
               char error[static CONFIG_ERROR])
{
    const struct config_key *k = config_key_find(section, key);
    int r = sections_set(c, section, key, value, error);

    if (r != -ENOENT)
        return r;
    if (!k) {
        unknown(section, key, error);
        return -EINVAL;
    }
    if (c->origins)
        c->origins[k - config_keys] = c->now;
    return config_key_set(c, k, value, error);
}

struct config_origin config_origin(const struct config *c, const char *section, const char *key)
{
    const struct config_key *k = config_key_find(section, key);

    return k ? c->origins[k - config_keys] : (struct config_origin){0};
}

int config_set_limit(struct config *c, const struct config *from, const char *key, const char *value, bool own,
                     char error[static CONFIG_ERROR])
{
    size_t n;

    for (size_t i = 0; i < config_n_keys; i++) {
        if (strcmp(config_keys[i].name, key) != 0 || !config_key_is_limit(&config_keys[i], own))
            continue;
        if (*value)
            return config_set(c, config_keys[i].section, key, value, error);
        memcpy((char *)c + config_keys[i].at, (const char *)from + config_keys[i].at,
               sizeof(uint64_t)); /* all of them are */
        return 0;
    }
    n = (size_t)snprintf(error, CONFIG_ERROR,
                         own ? "`%.64s` is no limit of one user; there are:"
                             : "`%.64s` is no limit that can be moved while wsd runs; see `wsctl limits`",
                         key);
    for (size_t i = 0; own && i < config_n_keys && n < CONFIG_ERROR; i++)
        if (config_key_is_limit(&config_keys[i], true))
            n += (size_t)snprintf(error + n, CONFIG_ERROR - n, " %s", config_keys[i].name);
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
