/* SPDX-License-Identifier: Apache-2.0
 *
 * start.c: builds the parts, in their order.
 * Owns the paths of socket and state. [before the loop]
 * Keeps: what the start cannot do without is told by its name, with what to do. */
#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "apply.h"
#include "base/accounts.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/inherit.h"
#include "base/log.h"
#include "base/socket.h"
#include "config.h"
#include "configuration/check.h"
#include "configuration/effects.h"
#include "configuration/print.h"
#include "drain.h"
#include "far-end/far-end.h"
#include "frontend/handover.h"
#include "frontend/listener.h"
#include "reload.h"

#define LANDLOCK_LEAST 2 /* as executor/landlock.c */

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
static int prepare_executors(struct daemon *d, const char *path)
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

/* Takes the connections that the last wsd left, once the jobs exist that their clients wait for. */
static void take_connections(struct daemon *d)
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

static int check_needs(struct daemon *d)
{
    const struct jobs_options jobs = options_of(d);
    char error[INHERIT_ERROR];
    int r = jobs_needs(&jobs, error);

    if (r < 0)
        log_error("cannot start: %s", error);
    return r < 0 ? -EPERM : 0; /* what it is has been told */
}

static void load_of_jobs(void *context, uint64_t *ret_running, uint64_t *ret_waiting)
{
    jobs_load(((struct daemon *)context)->jobs, ret_running, ret_waiting);
}

int start(struct daemon *d)
{
    struct service_options service = {
        .reload = on_reload, .drain = on_drain, .end = on_end, .load = load_of_jobs, .context = d};
    _cleanup_(freep) char *path = socket_path(&d->config);
    int taken = service_take(&d->kept), r = prepare_executors(d, path);

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
    if (d->is_system && (r = far_ends_new(&d->far_ends, d->base)) < 0)
        return r;
    service.base = d->base;
    (void)config_examine(&d->config, log_fault, NULL); /* what the start cannot do without, fails by itself */
    d->at_start = config_at_start(&d->config);
    d->workers = workers_of(&d->config, 0);
    const struct jobs_options jobs = options_of(d);
    r = jobs_new(&d->jobs, &jobs);
    if (r < 0)
        return r;
    apply_gates(d, &d->config, false);
    r = jobs_start(d->jobs);
    if (r < 0)
        return r;
    apply_schedules(d, &d->config);
    struct frontend_options frontend = {.base = d->base,
                                        .jobs = d->jobs,
                                        .only_own_user = !d->is_system,
                                        .own_uid = geteuid(),
                                        .far_ends = d->far_ends,
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
        take_connections(d);
    if (r >= 0)
        r = listen_all(d, path);
    if (r >= 0)
        r = listen_remote(d);
    if (r >= 0)
        r = awake_new(&d->awake, d->base, (enum awake_mode)d->config.keep_awake);
    if (r >= 0)
        r = trim_new(&d->trim, d->base, d->jobs);
    if (r >= 0)
        r = reread_new(&d->reread, d->base, &reload_ops, d);
    if (r >= 0)
        r = service_new(&d->service, &service);
    if (r >= 0)
        log_info("wsd " WSD_VERSION " is ready at %s, %u workers, %s", d->kept.n_listeners ? "systemd's socket" : path,
                 jobs.workers, d->is_system ? "for all users" : "for its own user");
    return r;
}

int become_spawner(struct daemon *d)
{
    _cleanup_(freep) char *path = socket_path(&d->config);
    int r = sd_listen_fds(1) != 1 ? 0 : sd_is_socket_unix(SD_LISTEN_FDS_START, SOCK_SEQPACKET, 1, NULL, 0);

    if (r <= 0) {
        log_error("--spawn: there is no socket to listen at: it is for wsd-spawn.service, which has wsd-spawn.socket");
        return -EINVAL;
    }
    r = prepare_executors(d, path);
    if (r == 0)
        r = check_needs(d);
    if (r < 0)
        return r;
    const struct jobs_options jobs = options_of(d);
    r = jobs_become_spawner(&jobs, SD_LISTEN_FDS_START);
    log_error("cannot become %s: %s", d->config.spawner, strerror(-r));
    return r;
}
