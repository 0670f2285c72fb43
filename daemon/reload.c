/* SPDX-License-Identifier: Apache-2.0
 *
 * reload.c: reads the configuration again, and puts it in force.
 * Owns what was read and is not in force yet. [loop; reading: a thread of its own]
 * Keeps: a configuration that has a fault changes nothing. */
#include "reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "arguments.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "config.h"
#include "configuration/check.h"
#include "configuration/print.h"

void log_fault(bool warning, const char *text, void *userdata)
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
    size_t n = strlen(text) + 1;
    uint8_t *at = buffer_reserve(&f->faults, 1 + n);

    if (!at) {
        f->result = -ENOMEM;
        return;
    }
    *at = warning ? LOG_WARNING : LOG_ERR;
    memcpy(at + 1, text, n);
    buffer_commit(&f->faults, 1 + n);
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
    if (r == 0 && arguments_apply(&f->config, d->argc, d->argv, &file, &mode) != 0)
        r = -EINVAL;
    if (r == 0)
        r = config_examine(&f->config, keep_fault, f);
    if (f->result < 0) /* faults without words */
        r = f->result;
    if (r == 0)
        r = load_remote(&f->config, &f->remote, f->error);
    f->result = r;
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

/* Those that the parts point to stay. */
static void keep_parts(struct config *fresh, struct config *old)
{
    SWAP(fresh->domains, old->domains);
    SWAP(fresh->plugin_dirs, old->plugin_dirs);
}

static void set_workers(struct daemon *d, const struct config *c)
{
    uint32_t workers = workers_of(c, d->workers); /* the CPUs that it may use may have changed, too */

    if (workers == d->workers)
        return;
    log_info("each executor has %u workers from now on", workers);
    jobs_set_workers(d->jobs, workers);
    d->workers = workers;
}

static void tell_of_restarts(const struct daemon *d, const struct config *c)
{
    _cleanup_(freep) char *at_start = config_at_start(c);

    if (at_start && d->at_start)
        config_each_changed(d->at_start, at_start, tell_of_restart, NULL);
    else
        log_warning("no memory to tell which keys change with the next start");
}

static void put_in_force(struct daemon *d, struct fresh *f)
{
    tell_of_restarts(d, &f->config);
    set_workers(d, &f->config);
    keep_parts(&f->config, &d->config);
    apply_gates(d, &d->config, true);
    config_deinit(&d->config);
    d->config = f->config;
    f->config = (struct config){0};
    log_set_level(d->config.log_level);
    limits_reset(&d->limits);
    apply_rules(d);
    if (f->remote && d->listens_remote)
        frontend_set_remote(d->frontend, TAKE(f->remote));
    jobs_review_runners(d->jobs);
    apply_gates(d, &d->config, false);
    apply_schedules(d, &d->config);
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

const struct reread_ops reload_ops = {.read = read_again, .take = on_read, .late = on_late, .drop = fresh_free};

void on_reload(void *context)
{
    struct daemon *d = context;

    service_reloading(d->service);
    reread_ask(d->reread, d->config.limits.hang_usec);
}
