/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c: wsd. Builds the parts, gives each its options, turns the loop, tears down in reverse.
 * Owns the life of every part. [loop]
 * Keeps: a part is told what it needs and nothing of the others. Only this file exits.
 * Holds no logic of its own but the order of things. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/accounts.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/escape.h"
#include "base/hash.h"
#include "base/inherit.h"
#include "base/journal.h"
#include "base/log.h"
#include "base/socket.h"
#include "config.h"
#include "frontend/address.h"
#include "frontend/frontend.h"
#include "frontend/handover.h"
#include "frontend/listener.h"
#include "jobs/jobs.h"
#include "ops/awake.h"
#include "ops/check.h"
#include "ops/configuration.h"
#include "ops/limits.h"
#include "ops/reread.h"
#include "ops/service.h"
#include "ops/trim.h"

#define SYSTEM_SOCKETS  "/run/wsd/" /* root alone can make sockets there: a wsd that listens there serves all users */
#define SYSTEM_SOCKET   SYSTEM_SOCKETS "wsd.sock"
#define SYSTEM_STATE    "/var/lib/wsd"
#define SERVICE_USER    "wsd"     /* of wsd.service */
#define FLUSH_MAX_USEC  1000000u  /* for the last answers to be read, at the end */
#define FINISH_MAX_USEC 2000000u  /* for executors to end in order */
#define END_MAX_USEC    10000000u /* for all else at the end */
#define READS_A_TURN    32        /* of a client that is alone, before the kernel is asked for others */
#define TICK_USEC       50000u
#define LANDLOCK_LEAST  2          /* as executor/landlock.c */
#define HEAP_BLOCK      (16 << 20) /* bytes; what is larger comes from the kernel, and goes back to it at once */
#define HEAP_SPARE      (16 << 20) /* that are kept when they are free at the heap's end */
#define HEAP_STEP       (1 << 20)  /* by which the heap grows */

struct daemon {
    struct config config;
    struct limits limits; /* moved since it was read */
    const char *config_file;
    struct event_base *base;
    struct jobs *jobs;
    struct frontend *frontend;
    struct service *service;
    struct reread *reread;
    struct awake *awake; /* NULL: CPUs without work are left to the kernel */
    struct trim *trim;
    struct event *drain_timer;
    char *sandbox;    /* as executors are told */
    char *at_start;   /* what of the configuration takes effect with the next start only, as it is in force */
    uint32_t workers; /* in force, but for what was moved by hand */
    struct jobs_domain *domains;
    uint32_t n_domains;
    char *state;                     /* where durable jobs are */
    char *socket;                    /* that was bound, and is removed at the end */
    struct frontend_address address; /* of it */
    int executor_fd;
    struct service_kept kept; /* by the service manager, from the last wsd */
    bool keeps;               /* it keeps ours for the next one */
    bool draining, ending, is_system;
    bool listens_remote; /* to clients of other machines */
    uint64_t ending_usec;
    int argc;
    char **argv;
};

static const char help[] =
    "wsd - one resident work-stealing pool that every process can hand native work to\n"
    "\n"
    "usage: wsd [options]\n"
    "\n"
    "  --socket PATH       where to listen (default: WSD_SOCKET, else a user's own socket, else " SYSTEM_SOCKET ")\n"
    "  --config FILE       read this file instead of " WSD_SYSCONFDIR "/wsd/wsd.conf and wsd.conf.d/*.conf\n"
    "  --workers N         workers in each executor (default: the CPUs that wsd may use)\n"
    "  --plugin-dir DIR    where plugins are looked up; may be given several times\n"
    "  --state-dir DIR     where durable jobs are kept (default: STATE_DIRECTORY, else a user's own place, else\n"
    "                      " SYSTEM_STATE ")\n"
    "  --executor FILE     the wsd-executor to run (default: the installed one)\n"
    "  --spawner FILE      the wsd-spawn to run (default: the installed one), or the socket of wsd-spawn.service\n"
    "  --log-level LEVEL   emerg, alert, crit, err, warning, notice, info (default) or debug\n"
    "  --check-config      check the configuration and exit\n"
    "  --print-config      print the configuration in force and exit\n"
    "  --spawn             become wsd-spawn, for the wsd that all else is for: wsd-spawn.service does\n"
    "  --version, --help\n"
    "\n"
    "SIGTERM drains: no new jobs, the others end, then wsd exits; a second one ends at once. SIGHUP re-reads the\n"
    "configuration. See wsd(8) and wsd.conf(5).\n";

enum { OPT_CHECK = 256, OPT_PRINT, OPT_SPAWN, OPT_VERSION, OPT_HELP, OPT_SET };

struct flag {
    const char *name, *section, *key;
};

static const struct flag flags[] = {
    {"socket", "daemon", "socket"},           {"workers", "daemon", "workers"}, {"state-dir", "daemon", "state-dir"},
    {"executor", "daemon", "executor"},       {"spawner", "daemon", "spawner"}, {"log-level", "daemon", "log-level"},
    {"plugin-dir", "plugins", "directories"},
};

#define N_FLAGS (sizeof(flags) / sizeof(flags[0]))

enum mode { MODE_RUN, MODE_CHECK, MODE_PRINT, MODE_SPAWN };

/* Writes a line for the user that has started it. */
__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    char text[2048], line[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    escape_text(line, sizeof(line), text);
    fprintf(stderr, "wsd: %s\n", line);
}

static int usage_error(const char *what, const char *why)
{
    tell("%s: %s; see `wsd --help`", what, why);
    return CODE_USAGE;
}

/* Reports what getopt rejected: a long option as given, or the letter of a short one. */
static int option_error(int o, char **argv)
{
    char letter[3] = {'-', (char)optopt, 0};

    if (o == ':')
        return usage_error(argv[optind - 1], "wants a value");
    if (optopt == 0)
        return usage_error(argv[optind - 1], "no such option");
    return optopt >= OPT_CHECK ? usage_error(argv[optind - 1], "takes no value")
                               : usage_error(letter, "no such option");
}

/* Applies the command line over the files. Returns 0 or the exit code. */
static int apply_flags(struct config *c, int argc, char **argv, const char **ret_file, enum mode *ret_mode)
{
    struct option options[N_FLAGS + 7] = {
        {"config", required_argument, NULL, 'c'},       {"check-config", no_argument, NULL, OPT_CHECK},
        {"print-config", no_argument, NULL, OPT_PRINT}, {"spawn", no_argument, NULL, OPT_SPAWN},
        {"version", no_argument, NULL, OPT_VERSION},    {"help", no_argument, NULL, OPT_HELP}};
    char error[CONFIG_ERROR];
    bool first_dir = true;
    int o;

    for (size_t i = 0; i < N_FLAGS; i++)
        options[6 + i] = (struct option){flags[i].name, required_argument, NULL, OPT_SET + (int)i};
    optind = 0;
    opterr = 0;
    while ((o = getopt_long(argc, argv, "+:", options, NULL)) != -1) {
        if (o == 'c') {
            *ret_file = optarg;
        } else if (o == OPT_CHECK || o == OPT_PRINT || o == OPT_SPAWN) {
            *ret_mode = o == OPT_CHECK ? MODE_CHECK : o == OPT_PRINT ? MODE_PRINT : MODE_SPAWN;
        } else if (o == OPT_VERSION) {
            puts("wsd " WSD_VERSION);
            return -1;
        } else if (o == OPT_HELP) {
            fputs(help, stdout);
            return -1;
        } else if (o == ':' || o == '?') {
            return option_error(o, argv);
        } else {
            const struct flag *f = &flags[o - OPT_SET];
            _cleanup_(freep) char *joined = NULL;

            if (strcmp(f->name, "plugin-dir") == 0 && !first_dir &&
                asprintf(&joined, "%s:%s", c->plugin_dirs, optarg) < 0)
                return CODE_SOFTWARE;
            first_dir = first_dir && strcmp(f->name, "plugin-dir") != 0;
            if (config_set(c, f->section, f->key, joined ? joined : optarg, error) < 0) {
                tell("--%s: %s", f->name, error);
                return CODE_USAGE;
            }
        }
    }
    return optind < argc ? usage_error(argv[optind], "no such argument") : 0;
}

/* Reads the files, then the command line. Returns 0, or the exit code with the words on stderr; -1: nothing more to
 * do. */
static int load_config(struct config *c, int argc, char **argv, const char **ret_file, enum mode *ret_mode)
{
    char error[CONFIG_ERROR] = "";
    struct config scratch;

    /* first pass, for --config: the other options override its file */
    if (config_init(&scratch) < 0)
        return CODE_SOFTWARE;
    int r = apply_flags(&scratch, argc, argv, ret_file, ret_mode);
    config_deinit(&scratch);
    if (r != 0)
        return r;
    if (config_init(c) < 0)
        return CODE_SOFTWARE;
    r = *ret_file ? config_read(c, *ret_file, error) : config_read_standard(c, WSD_SYSCONFDIR "/wsd", error);
    if (r == 0)
        r = config_check(c, error);
    if (r < 0) {
        tell("%s", *error ? error : strerror(-r));
        return r == -ENOENT ? CODE_NOT_FOUND : r == -EAGAIN ? CODE_BUSY : r == -ENOMEM ? CODE_SOFTWARE : CODE_USAGE;
    }
    return apply_flags(c, argc, argv, ret_file, ret_mode);
}

/* now: the present number; 0: none yet. It stays where the right number cannot be found. */
static uint32_t workers_of(const struct config *c, uint32_t now)
{
    int error;
    uint32_t cpus = c->workers ? c->workers : cpus_usable(&error);

    if (c->workers || error == 0)
        return cpus;
    if (now)
        cpus = now;
    log_warning(
        "the CPU quota of wsd cannot be read: %s: each executor has %u workers; workers = N in wsd.conf says how many",
        strerror(-error), cpus);
    return cpus;
}

static bool plugin_enabled(const char *plugin, bool opt_in, void *context)
{
    struct daemon *d = context;

    return config_plugin_enabled(&d->config, plugin, opt_in);
}

static const struct access_list *plugin_users(const char *plugin, void *context)
{
    struct daemon *d = context;

    return config_plugin_users(&d->config, plugin);
}

static bool plugin_restricted(const char *plugin, void *context)
{
    return plugin_users(plugin, context) != NULL;
}

/* The rules belong to the configuration, which a reload replaces in the same place. */
static void apply_rules(struct daemon *d)
{
    d->config.access.plugin = plugin_users;
    d->config.access.context = d;
    frontend_set_rules(d->frontend, &d->config.access);
}

/* Reads the files for clients of other machines. Returns 0; *ret is NULL where there are to be none. */
static int load_remote(const struct config *c, struct remote **ret, char error[REMOTE_ERROR])
{
    const struct remote_options o = {.certificate = c->tls_certificate,
                                     .key = c->tls_key,
                                     .ca = c->tls_ca,
                                     .crl = c->tls_crl,
                                     .user_map = c->tls_user_map};

    *ret = NULL;
    return c->tls_listen ? remote_load(ret, &o, error) : 0;
}

static int listen_remote(struct daemon *d)
{
    char error[REMOTE_ERROR] = "out of memory";
    struct remote *remote;
    int r = load_remote(&d->config, &remote, error);

    if (r == 0 && remote) {
        frontend_set_remote(d->frontend, remote);
        r = frontend_listen_remote(d->frontend, d->config.tls_listen, error);
        d->listens_remote = r >= 0;
    }
    if (r < 0)
        log_error("%s", error);
    else if (remote)
        log_info("clients of other machines may connect by TLS at %s%s", d->config.tls_listen,
                 d->config.tls_crl ? "" : "; no certificate is ever revoked ([tls] crl in wsd.conf)");
    return r;
}

static bool plugin_own(const char *plugin, void *context)
{
    struct daemon *d = context;

    return config_plugin_own(&d->config, plugin);
}

static void plugin_share(const char *plugin, struct jobs_domain *settings, void *context)
{
    struct daemon *d = context;

    config_plugin_share(&d->config, plugin, settings);
}

static uint64_t plugin_max_run(const char *plugin, const char **ret_of, void *context)
{
    struct daemon *d = context;

    return config_plugin_max_run(&d->config, plugin, ret_of);
}

static void limit(struct daemon *d, const char *plugin, const char *tag, uint32_t n, bool off)
{
    const struct jobs_gate_request r = {.action = JOBS_GATE_LIMIT,
                                        .uid = JOBS_BY_CONFIGURATION,
                                        .plugin = plugin,
                                        .function = "",
                                        .tag = tag,
                                        .limit = off ? 0 : n};

    if (n && jobs_gate(d->jobs, &r) < 0 && !off)
        log_error("[%s %s] max-running could not be set", *tag ? "tag" : "plugin", *tag ? tag : plugin);
}

/* Sets the gates that sections configure, or (off) removes those that a section had set. */
static void set_gates(struct daemon *d, const struct config *c, bool off)
{
    for (uint32_t i = 0; i < c->n_plugins; i++)
        limit(d, c->plugins[i].name, "", c->plugins[i].max_running, off);
    for (uint32_t i = 0; i < c->n_tags; i++)
        limit(d, "", c->tags[i].name, c->tags[i].max_running, off);
}

static void configure_schedules(struct daemon *d, const struct config *c)
{
    struct schedule_request *list = calloc(c->n_schedules + 1, sizeof(*list));
    struct directory *root = directory_new("/"); /* without one, jobs that need a place to run in could not */

    if (!list || !root) {
        log_error("no memory for the schedules of the configuration");
        directory_unref(root);
        free(list);
        return;
    }
    for (uint32_t i = 0; i < c->n_schedules; i++) {
        const struct config_schedule *s = &c->schedules[i];

        list[i] = (struct schedule_request){.name = s->name,
                                            .calendar = s->on,
                                            .persistent = s->persistent,
                                            .job = {.plugin = s->plugin,
                                                    .function = s->function,
                                                    .args = s->args,
                                                    .args_size = s->args_size,
                                                    .argc = s->argc,
                                                    .directory = root,
                                                    .uid = s->has_uid ? s->uid : geteuid()}};
    }
    jobs_schedules_configure(d->jobs, list, c->n_schedules);
    directory_unref(root);
    free(list);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

static void log_fault(bool warning, const char *text, void *userdata)
{
    log_event(LOG_KIND_CONFIGURATION, warning ? LOG_WARNING : LOG_ERR, NULL, "%s", text);
}

static void tell_of_restart(const char *key, void *userdata)
{
    log_event(LOG_KIND_CONFIGURATION, LOG_NOTICE, NULL, "%s changes with the next start", key);
}

/* What was read again, and not taken yet. */
struct fresh {
    struct config config;
    struct remote *remote;
    struct buffer faults; /* texts, each behind its level */
    char error[CONFIG_ERROR];
    int result;
};

static void keep_fault(bool warning, const char *text, void *userdata)
{
    struct fresh *f = userdata;
    char level = warning ? LOG_WARNING : LOG_ERR;

    if (buffer_put(&f->faults, &level, 1) == 0 && buffer_put(&f->faults, text, strlen(text) + 1) < 0)
        f->result = -ENOMEM;
}

static void tell_faults(const struct fresh *f)
{
    const char *at = (const char *)buffer_data(&f->faults), *end = at + buffer_size(&f->faults);

    for (; at < end; at += strlen(at) + 1)
        log_fault(*at == LOG_WARNING, at + 1, NULL);
}

static void fresh_free(void *what)
{
    struct fresh *f = what;

    config_deinit(&f->config);
    remote_free(f->remote);
    free(f->faults.data);
    free(f);
}

/* [a thread of its own] Of the daemon, only what is constant is looked at. */
static void *read_again(void *context)
{
    const struct daemon *d = context;
    const char *file = d->config_file;
    enum mode mode = MODE_RUN;
    struct fresh *f = calloc(1, sizeof(*f));

    if (!f)
        return NULL;
    int r = config_init(&f->config);
    if (r == 0)
        r = file ? config_read(&f->config, file, f->error)
                 : config_read_standard(&f->config, WSD_SYSCONFDIR "/wsd", f->error);
    if (r == 0)
        r = config_check(&f->config, f->error);
    if (r == 0 && apply_flags(&f->config, d->argc, d->argv, &file, &mode) != 0)
        r = -EINVAL;
    if (r == 0)
        r = config_examine(&f->config, keep_fault, f);
    if (r == 0)
        r = load_remote(&f->config, &f->remote, f->error);
    f->result = r == 0 ? f->result : r;
    return f;
}

static void stays(const char *why)
{
    log_event(LOG_KIND_CONFIGURATION, LOG_ERR, NULL, "the configuration stays as it was: %s", why);
}

static void on_late(void *context)
{
    struct daemon *d = context;

    stays("it could not be read in the time of executor-answer: the user database, or the disk, does not answer");
    service_ready(d->service);
}

static void put_in_force(struct daemon *d, struct fresh *f)
{
    _cleanup_(freep) char *at_start = config_at_start(&f->config);
    uint32_t workers = workers_of(&f->config, d->workers); /* the CPUs that it may use may have changed, too */

    if (at_start && d->at_start)
        config_each_changed(d->at_start, at_start, tell_of_restart, NULL);
    if (workers != d->workers) {
        log_info("each executor has %u workers from now on", workers);
        jobs_set_workers(d->jobs, workers);
        d->workers = workers;
    }
    /* those are in use by the parts: they stay */
    struct config_domains *domains = f->config.domains;
    f->config.domains = d->config.domains;
    d->config.domains = domains;
    char *dirs = f->config.plugin_dirs;
    f->config.plugin_dirs = d->config.plugin_dirs;
    d->config.plugin_dirs = dirs;
    set_gates(d, &d->config, true);
    config_deinit(&d->config);
    d->config = f->config;
    f->config = (struct config){0};
    log_set_level(d->config.log_level);
    limits_reset(&d->limits);
    apply_rules(d);
    if (f->remote && d->listens_remote)
        frontend_set_remote(d->frontend, TAKE(f->remote));
    set_gates(d, &d->config, false);
    configure_schedules(d, &d->config);
    log_info("the configuration was read again");
}

static void on_read(void *what, void *context)
{
    struct daemon *d = context;
    struct fresh *f = what;
    int r = f ? f->result : -ENOMEM;

    if (f)
        tell_faults(f);
    if (r < 0)
        stays(f && *f->error ? f->error : r == -EINVAL || r == -EAGAIN ? "see above" : strerror(-r));
    else
        put_in_force(d, f);
    if (f)
        fresh_free(f);
    service_ready(d->service);
}

static const struct reread_ops reread_ops = {.read = read_again, .take = on_read, .late = on_late, .drop = fresh_free};

static void on_reload(void *context)
{
    struct daemon *d = context;

    service_reloading(d->service);
    reread_ask(d->reread, d->config.limits.hang_usec);
}

static void tick(struct daemon *d)
{
    struct timeval t = {.tv_usec = TICK_USEC};

    evtimer_add(d->drain_timer, &t);
}

/* The drain has taken too long; later, a tick while waiting for the end. */
static void on_drain_over(evutil_socket_t fd, short what, void *context)
{
    struct daemon *d = context;

    tick(d);
    if (d->ending)
        return;
    log_warning("ending now: what still runs is interrupted");
    d->ending = true;
    d->ending_usec = clock_monotonic_usec();
    jobs_interrupt_all(d->jobs);
}

static void on_end(void *context)
{
    on_drain_over(-1, 0, context);
}

static void on_drain(void *context)
{
    struct daemon *d = context;
    struct timeval t = {.tv_sec = (time_t)(d->config.drain_usec / 1000000),
                        .tv_usec = (suseconds_t)(d->config.drain_usec % 1000000)};

    d->draining = true;
    service_stopping(d->service, d->config.drain_usec + FLUSH_MAX_USEC + FINISH_MAX_USEC + END_MAX_USEC);
    jobs_drain(d->jobs);
    frontend_goodbye(d->frontend);
    evtimer_add(d->drain_timer, &t);
    log_info("draining: running and queued jobs end, new ones are refused"); /* when it is so */
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static bool finished(struct daemon *d)
{
    struct jobs_counters n;

    if (!d->draining && !d->ending)
        return false;
    jobs_counters(d->jobs, &n);
    if (n.n_open > 0 || n.direct_running > 0)
        return false;
    if (jobs_have_told(d->jobs) && frontend_quiet(d->frontend))
        return true;
    /* a client does not read its answer */
    return d->ending && clock_monotonic_usec() - d->ending_usec > FLUSH_MAX_USEC;
}

static void load(void *context, uint64_t *ret_running, uint64_t *ret_waiting)
{
    jobs_load(((struct daemon *)context)->jobs, ret_running, ret_waiting);
}

/* One turn of work: requests of clients, completions of executors, and output. True: there is more to do. */
static bool work(struct daemon *d)
{
    bool more = frontend_serve(d->frontend);

    more = jobs_poll(d->jobs) || more;
    if (jobs_open(d->jobs))
        service_busy(d->service);
    return frontend_flush(d->frontend) || more;
}

static void turn(struct daemon *d)
{
    bool more = work(d), sleep;

    for (uint32_t i = 0; i < READS_A_TURN && frontend_read_on(d->frontend); i++)
        more = work(d);
    sleep = !more && jobs_asleep(d->jobs);
    if (finished(d))
        return;
    if (sleep)
        trim_look(d->trim);
    event_base_loop(d->base, EVLOOP_ONCE | (sleep ? 0 : EVLOOP_NONBLOCK));
    jobs_awake(d->jobs);
    if (sleep)
        awake_woke(d->awake);
}

/* Executors end in order, so that plugins can say goodbye; those that do not are killed. */
static void finish_executors(struct daemon *d)
{
    struct jobs_counters n;
    uint64_t until = clock_monotonic_usec() + FINISH_MAX_USEC;

    d->ending = true;
    tick(d);
    jobs_finish_executors(d->jobs);
    for (jobs_counters(d->jobs, &n); n.n_executors && clock_monotonic_usec() < until; jobs_counters(d->jobs, &n))
        event_base_loop(d->base, EVLOOP_ONCE);
}

/* The clients stay connected: the next wsd goes on with them. */
static void leave(struct daemon *d)
{
    _cleanup_(close_fdp) int state = -1;
    _cleanup_(freep) int *fds = NULL;
    size_t n = 0;
    int r = frontend_leave(d->frontend, &state, &fds, &n);

    if (r == 0)
        r = service_leave(state, fds, n, d->socket ? frontend_listener(d->frontend) : -1);
    if (r < 0) {
        log_warning("the connections do not outlive this wsd: %s", strerror(-r));
        return;
    }
    log_info("%zu connections are left for the next wsd", n);
    free(TAKE(d->socket)); /* nor is that removed */
}

/* Takes the connections that the last wsd left, once the jobs exist that their clients wait for. */
static void take(struct daemon *d)
{
    size_t n = 0;
    int r;

    if (d->kept.state < 0)
        return;
    r = frontend_take(d->frontend, TAKE_FD(d->kept.state), d->kept.connections, d->kept.n_connections, &n);
    if (r < 0)
        log_warning("not all connections that the last wsd left could be taken: %s", strerror(-r));
    log_info("%zu connections of the last wsd go on", n);
}

/* --- start -------------------------------------------------------------------------------------------------------- */

static char *socket_path(const struct config *c)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR"), *given = getenv("WSD_SOCKET");
    char *path = NULL;

    if (c->socket || (given && *given))
        return strdup(c->socket ? c->socket : given);
    if (geteuid() == 0 || !runtime || !*runtime)
        return strdup(SYSTEM_SOCKET);
    if (asprintf(&path, "%s/wsd", runtime) < 0)
        return NULL;
    mkdir(path, 0700);
    free(path);
    return asprintf(&path, "%s/wsd/wsd.sock", runtime) < 0 ? NULL : path;
}

/* By the rule in wsd(8). A user's own is at XDG's default place, too, where XDG_STATE_HOME is not set. */
static char *state_directory(const struct daemon *d)
{
    const char *given = getenv("STATE_DIRECTORY"), *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;

    if (d->config.state_dir)
        return strdup(d->config.state_dir);
    if (given && *given)
        return strndup(given, strcspn(given, ":")); /* systemd names all of them */
    if (!d->is_system && xdg && *xdg == '/')
        return asprintf(&path, "%s/wsd", xdg) < 0 ? NULL : path;
    if (!d->is_system && home && *home == '/')
        return asprintf(&path, "%s/.local/state/wsd", home) < 0 ? NULL : path;
    return strdup(SYSTEM_STATE);
}

static int group_id(const char *name, uint32_t *ret)
{
    *ret = (uint32_t)-1;
    int r = name ? group_by_name(name, ret) : 0;
    if (r == -ENOENT) {
        log_error("socket-group: there is no group %s", name);
        return -EINVAL;
    }
    if (r < 0)
        log_error("socket-group: %s: " ACCOUNTS_SILENT, name, strerror(-r));
    return r < 0 ? -EAGAIN : 0;
}

static int listen_all(struct daemon *d, const char *path)
{
    uint32_t group;
    int fd;

    if (d->kept.own_listener && d->kept.n_listeners == 1 && frontend_find(path, d->kept.listeners[0], &d->address) == 0)
        d->socket = strdup(path);
    for (size_t i = 0; i < d->kept.n_listeners; i++) {
        int r = sd_is_socket_unix(d->kept.listeners[i], SOCK_STREAM, 1, NULL, 0);

        if (r <= 0) {
            log_error("descriptor %d from systemd is no listening Unix stream socket", d->kept.listeners[i]);
            return r < 0 ? r : -EINVAL;
        }
        r = frontend_listen(d->frontend, TAKE_FD(d->kept.listeners[i]), false);
        if (r < 0)
            return r;
    }
    if (d->kept.n_listeners > 0)
        return 0;
    int r = group_id(d->config.socket_group, &group);
    if (r < 0)
        return r;
    r = frontend_bind(path, group, &fd, &d->address);
    if (r == -ENAMETOOLONG) {
        log_error("cannot listen at %.120s...: " SOCKET_PATH_LONG " with --socket, WSD_SOCKET or [daemon] socket", path,
                  SOCKET_PATH_MAX);
        return r;
    }
    if (r < 0) {
        log_error(
            "cannot listen at %s: %s%s", path, strerror(-r),
            r == -EADDRINUSE ? ": another wsd answers there"
            : r == -ENOENT   ? ": make its directory, or use --socket"
            : r == -EPERM
                ? ": others than root could write to its directory, or to one above it: chmod go-w, or use --socket"
                : "");
        return r;
    }
    d->socket = strdup(path);
    return frontend_listen(d->frontend, fd, false);
}

/* Keeps the memory of a large input or output for the next one. Otherwise malloc() may give it back to the kernel and
 * take it again, depending on how blocks lie: 285 to 440 page faults for each MiB. */
static void keep_pages(void)
{
    mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK);
    mallopt(M_TRIM_THRESHOLD, HEAP_SPARE);
    mallopt(M_TOP_PAD, HEAP_STEP);
    /* else what was freed in small pieces is put together at once, later: half a second for a million jobs */
    mallopt(M_MXFAST, 0);
}

/* Logs it once, here, and not in each executor. In place of Landlock, wsd then protects itself: no other process of its
 * user can look into it. */
static void tell_of_landlock(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* asks for the version */);

    if (version >= LANDLOCK_LEAST || (version < 0 && errno != ENOSYS && errno != EOPNOTSUPP))
        return;
    log_notice("this kernel has no Landlock, or too old a one: executors are confined by seccomp alone");
    (void)prctl(PR_SET_DUMPABLE, 0);
}

/* Prepares what wsd and wsd-spawn share: what executors are, and for which users. */
static int prepare(struct daemon *d, const char *path)
{
    if (!path)
        return -ENOMEM;
    d->executor_fd = open(d->config.executor, O_RDONLY | O_CLOEXEC);
    if (d->executor_fd < 0) {
        int r = -errno;

        log_error("cannot open the executor %s: %s; see --executor", d->config.executor, strerror(-r));
        return r;
    }
    d->is_system =
        d->config.is_system >= 0 ? d->config.is_system : strncmp(path, SYSTEM_SOCKETS, strlen(SYSTEM_SOCKETS)) == 0;
    d->sandbox = config_sandbox(&d->config, d->is_system);
    return d->sandbox ? 0 : -ENOMEM;
}

static struct jobs_options options_of(struct daemon *d)
{
    return (struct jobs_options){
        .base = d->base,
        .limits = d->config.limits,
        .executor_fd = d->executor_fd,
        .workers = d->workers ? d->workers : workers_of(&d->config, 0),
        .pin = d->config.pin,
        .stack_size = d->config.stack_size,
        .static_tls = d->config.static_tls,
        .plugin_dirs = d->config.plugin_dirs,
        .one_domain = d->config.one_domain,
        .own_uid = geteuid(),
        .user_daemon = !d->is_system,
        .log_level = d->config.log_level,
        .state_dir = d->state,
        .sandbox = d->sandbox,
        .leaves_core = d->config.core_size > 0,
        .domains = d->domains,
        .n_domains = d->n_domains,
        .user_ids = (enum jobs_user_ids)d->config.user_ids,
        .cgroups = (enum jobs_cgroups)d->config.cgroups,
        .first_user_id = (uint32_t)d->config.first_user_id,
        .spawner = d->config.spawner,
        .plugin_enabled = plugin_enabled,
        .plugin_restricted = plugin_restricted,
        .plugin_own = plugin_own,
        .plugin_share = plugin_share,
        .plugin_max_run = plugin_max_run,
        .context = d,
    };
}

static int check_needs(struct daemon *d)
{
    const struct jobs_options jobs = options_of(d);
    char error[INHERIT_ERROR];
    int r = jobs_needs(&jobs, error);

    if (r < 0)
        log_error("cannot start: %s", error);
    return r < 0 ? -EPERM : 0; /* what it is has been told */
}

static int build(struct daemon *d)
{
    struct service_options service = {
        .reload = on_reload, .drain = on_drain, .end = on_end, .load = load, .context = d};
    _cleanup_(freep) char *path = socket_path(&d->config);
    int taken = service_take(&d->kept), r = prepare(d, path);

    if (r >= 0 && (r = hash_seed()) < 0)
        log_error("cannot start: the kernel gives no random bytes: %s", strerror(-r));
    if (r >= 0)
        r = check_needs(d);
    if (r < 0)
        return r;
    d->keeps = service_keeps();
    d->state = state_directory(d);
    d->domains = config_domains(&d->config, &d->n_domains);
    if (taken < 0 || !d->state || !d->domains)
        return -ENOMEM;
    tell_of_landlock();
    d->base = event_base_new();
    d->drain_timer = d->base ? evtimer_new(d->base, on_drain_over, d) : NULL;
    if (!d->drain_timer)
        return -ENOMEM;
    service.base = d->base;
    (void)config_examine(&d->config, log_fault, NULL); /* what the start cannot do without, fails by itself */
    d->at_start = config_at_start(&d->config);
    d->workers = workers_of(&d->config, 0);
    const struct jobs_options jobs = options_of(d);
    r = jobs_new(&d->jobs, &jobs);
    if (r < 0)
        return r;
    set_gates(d, &d->config, false);
    r = jobs_start(d->jobs);
    if (r < 0)
        return r;
    configure_schedules(d, &d->config);
    struct frontend_options frontend = {.base = d->base,
                                        .jobs = d->jobs,
                                        .only_own_user = !d->is_system,
                                        .own_uid = geteuid(),
                                        .limits = d->config.frontend_limits,
                                        .keeps = d->keeps,
                                        .rules = &d->config.access,
                                        .limits_ops = &limits_ops,
                                        .limits_userdata = &d->limits};
    r = frontend_new(&d->frontend, &frontend);
    limits_init(&d->limits, &d->config, d->jobs, d->frontend);
    if (r >= 0)
        apply_rules(d);
    if (r >= 0)
        take(d);
    if (r >= 0)
        r = listen_all(d, path);
    if (r >= 0)
        r = listen_remote(d);
    if (r >= 0)
        r = awake_new(&d->awake, d->base, (enum awake_mode)d->config.keep_awake);
    if (r >= 0)
        r = trim_new(&d->trim, d->base, d->jobs);
    if (r >= 0)
        r = reread_new(&d->reread, d->base, &reread_ops, d);
    if (r >= 0)
        r = service_new(&d->service, &service);
    if (r >= 0)
        log_info("wsd " WSD_VERSION " is ready at %s, %u workers, %s", d->kept.n_listeners ? "systemd's socket" : path,
                 jobs.workers, d->is_system ? "for all users" : "for its own user");
    return r;
}

/* Runs wsd-spawn on the socket of the service manager, to which a wsd with the same options and configuration connects.
 * These settle what its executors may do, before anything is received. */
static int become_spawner(struct daemon *d)
{
    _cleanup_(freep) char *path = socket_path(&d->config);
    int r = sd_listen_fds(1) != 1 ? 0 : sd_is_socket_unix(SD_LISTEN_FDS_START, SOCK_SEQPACKET, 1, NULL, 0);

    if (r <= 0) {
        log_error("--spawn: there is no socket to listen at: it is for wsd-spawn.service, which has wsd-spawn.socket");
        return -EINVAL;
    }
    r = prepare(d, path);
    if (r == 0)
        r = check_needs(d);
    if (r < 0)
        return r;
    const struct jobs_options jobs = options_of(d);
    r = jobs_become_spawner(&jobs, SD_LISTEN_FDS_START);
    log_error("cannot become %s: %s", d->config.spawner, strerror(-r));
    return r;
}

static void tear_down(struct daemon *d)
{
    d->service = service_free(d->service);
    d->reread = reread_free(d->reread);
    d->awake = awake_free(d->awake);
    if (d->socket)
        frontend_unbind(d->socket, &d->address);
    trim_free(d->trim);
    d->frontend = frontend_free(d->frontend);
    d->jobs = jobs_free(d->jobs);
    if (d->drain_timer)
        event_free(d->drain_timer);
    if (d->base)
        event_base_free(d->base);
    free(d->socket);
    free(d->sandbox);
    free(d->at_start);
    free(d->domains);
    free(d->state);
    close_fd(d->executor_fd);
    service_kept_deinit(&d->kept);
    limits_deinit(&d->limits);
    config_deinit(&d->config);
}

static void print_fault(bool warning, const char *text, void *userdata)
{
    tell("%s%s", warning ? "warning: " : "", text);
}

/* The standard files are those of wsd.service. So root checks with the rights of the service: files that only root can
 * read or reach are of no use to it. */
static int become_service_user(void)
{
    _cleanup_(freep) uint32_t *groups = NULL;
    struct account service;
    uint32_t n;
    int r = account_by_name(SERVICE_USER, &service);

    if (r == -ENOENT || (r == 0 && service.uid == 0))
        return 0;
    if (r == 0)
        r = account_groups(&service, &groups, &n);
    if (r < 0)
        return r;
    return setgroups(n, groups) < 0 || setgid(service.gid) < 0 || setuid(service.uid) < 0 ? -errno : 0;
}

/* Checks what the configuration names, in addition to its syntax. Returns 0 or the exit code. */
static int check(const struct daemon *d)
{
    char error[REMOTE_ERROR] = "out of memory";
    struct remote *remote = NULL;
    int r = geteuid() == 0 && !d->config_file ? become_service_user() : 0;

    if (r < 0) {
        tell("cannot look as user " SERVICE_USER ": %s", strerror(-r));
        return r == -EPERM ? CODE_IO : CODE_BUSY;
    }
    r = config_examine(&d->config, print_fault, NULL);
    int of_remote = load_remote(&d->config, &remote, error);
    if (of_remote < 0)
        tell("%s", error);
    remote_free(remote);
    return r == 0 && of_remote == 0                                               ? 0
           : (r == 0 || r == -EAGAIN) && (of_remote == 0 || of_remote == -EAGAIN) ? CODE_BUSY
                                                                                  : CODE_USAGE;
}

static __attribute__((noinline)) int run(int argc, char **argv)
{
    struct daemon d = {.executor_fd = -1, .kept = {.state = -1}, .argc = argc, .argv = argv};
    enum mode mode = MODE_RUN;

    int r = load_config(&d.config, argc, argv, &d.config_file, &mode);
    if (r == CODE_SOFTWARE)
        fputs("wsd: cannot start: out of memory\n", stderr);
    if (r != 0 || (mode != MODE_RUN && mode != MODE_SPAWN)) {
        if (r == 0 && mode == MODE_PRINT && config_print(&d.config, stdout) < 0) {
            tell("%s", strerror(ENOMEM));
            r = CODE_SOFTWARE;
        }
        if (r == 0 && mode == MODE_CHECK)
            r = check(&d);
        config_deinit(&d.config);
        return r > 0 ? r : fflush(stdout) == 0 && !ferror(stdout) ? 0 : CODE_IO;
    }
    log_init("wsd");
    journal_init();
    log_set_level(d.config.log_level);
    keep_pages();
    r = mode == MODE_SPAWN ? become_spawner(&d) : build(&d);
    if (r >= 0) {
        service_ready(d.service);
        while (!finished(&d))
            turn(&d);
        finish_executors(&d);
        if (d.keeps)
            leave(&d);
        log_info("ended");
    } else if (r == -ENOMEM) {
        log_error("cannot start: out of memory"); /* of what else it was, has been told */
    }
    tear_down(&d);
    return r == -EADDRINUSE ? CODE_NO_DAEMON : r == -EAGAIN ? CODE_BUSY : r < 0 ? CODE_IO : 0;
}

/* A frame of its own, since run() has a large one. */
int main(int argc, char **argv)
{
    char error[INHERIT_ERROR];

    if (inherit_begin(INHERIT_DAEMON, error) < 0) {
        tell("cannot start: %s", error);
        return CODE_IO;
    }
    return run(argc, argv);
}
