/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c: wsd-fleet, which hands jobs of the local wsd to other machines, and takes theirs, by way of NATS JetStream.
 * Builds the parts, turns the loop. A man page says what it is for: wsd-fleet(8). */
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "base/hash.h"
#include "base/log.h"
#include "fleet/bus.h"
#include "base/complain.h"
#include "fleet/in.h"
#include "fleet/out.h"
#include "fleet/roll.h"
#include "fleet/settings.h"
#include "fleet/setup.h"

struct fleet {
    struct event_base *base;
    struct bus *bus;
    struct out *out;
    struct in *in;
    struct roll roll;
    bool leaving;
    int exit;
};

/* --- life --------------------------------------------------------------------------------------------------------- */

static void end(struct fleet *f, int code)
{
    f->exit = code;
    event_base_loopbreak(f->base);
}

static void look_whether_over(struct fleet *f)
{
    if (f->leaving && !f->out && !f->in)
        end(f, 0);
}

static void out_ended(int error, const char *why, void *context)
{
    struct fleet *f = context;

    if (error) {
        log_error("wsd-fleet: %s", why);
        end(f, CODE_NO_DAEMON);
        return;
    }
    f->out = NULL; /* freed by main */
    look_whether_over(f);
}

static void in_ended(void *context)
{
    struct fleet *f = context;

    f->in = NULL;
    look_whether_over(f);
}

static void on_state(bool up, void *context)
{
    struct fleet *f = context;

    log_notice("wsd-fleet: %s", up ? "connected to NATS" : "no connection to NATS: trying again");
    if (f->out)
        out_state(f->out, up);
    if (f->in)
        in_state(f->in, up);
}

static void on_closed(const char *why, void *context)
{
    struct fleet *f = context;

    if (f->leaving)
        return;
    log_error("wsd-fleet: NATS has closed the connection: %s", why);
    end(f, CODE_NO_DAEMON);
}

/* In order, at the first one; at once, at the second. */
static void on_signal(evutil_socket_t number, short what, void *userdata)
{
    struct fleet *f = userdata;

    if (f->leaving) {
        end(f, CODE_INTERRUPTED);
        return;
    }
    f->leaving = f->roll.leaving = true;
    sd_notify(0, "STOPPING=1");
    if (f->in)
        in_leave(f->in);
    if (f->out)
        out_leave(f->out);
    look_whether_over(f);
}

static void on_counters(evutil_socket_t number, short what, void *userdata)
{
    const struct fleet *f = userdata;
    struct out_counters o = f->out ? out_count(f->out) : (struct out_counters){0};
    struct in_counters i = f->in ? in_count(f->in) : (struct in_counters){0};

    log_notice("wsd-fleet: out: held %" PRIu64 " sent %" PRIu64 " again %" PRIu64 " ended %" PRIu64 " second %" PRIu64
               " cancelled %" PRIu64 " parcels %" PRIu64 " bytes %" PRIu64 " waiting %" PRIu64 "; in: held %" PRIu64
               " most %" PRIu64 " taken %" PRIu64 " back %" PRIu64 " ended %" PRIu64 " redelivered %" PRIu64
               " interrupted %" PRIu64 " dead %" PRIu64 " parcels %" PRIu64 "; servers: looks %" PRIu64,
               o.held, o.sent, o.sent_again, o.ended, o.second_ends, o.cancelled, o.parcels, o.bytes, o.waiting, i.held,
               i.held_most, i.taken, i.given_back, i.ended, i.redelivered, i.interrupted, i.dead, i.parcels,
               bus_looks(f->bus));
}

static int run(const struct settings *s)
{
    const struct config_fleet *told = &s->config.fleet;
    struct fleet f = {.base = event_base_new()};
    struct event *signals[3] = {0};
    static const int numbers[3] = {SIGTERM, SIGINT, SIGUSR1};
    struct out *out = NULL;
    struct in *in = NULL;
    char why[256] = "out of memory";
    int r = f.base ? 0 : -ENOMEM;

    const struct bus_options bus = {
        .base = f.base, .login = &s->login, .name = s->node, .state = on_state, .closed = on_closed, .context = &f};
    for (size_t i = 0; r == 0 && i < 3; i++) {
        signals[i] = evsignal_new(f.base, numbers[i], i < 2 ? on_signal : on_counters, &f);
        r = !signals[i] || event_add(signals[i], NULL) < 0 ? -ENOMEM : 0;
    }
    r = r ? r : bus_new(&f.bus, &bus, why);
    const struct out_options to = {.base = f.base,
                                   .bus = f.bus,
                                   .socket = s->socket,
                                   .node = s->node,
                                   .wait_usec = told->wait_usec,
                                   .ended = out_ended,
                                   .context = &f};
    const struct in_options from = {.base = f.base,
                                    .bus = f.bus,
                                    .socket = s->socket,
                                    .node = s->node,
                                    .run_as = told->run_as,
                                    .plugins = told->plugins,
                                    .builds = told->builds,
                                    .held = (uint32_t)told->held,
                                    .ack_usec = told->ack_usec,
                                    .ended = in_ended,
                                    .context = &f};
    if (r == 0 && told->out)
        r = out_new(&out, &to);
    if (r == 0 && told->in)
        r = in_new(&in, &from);
    f.out = out;
    f.in = in;
    f.roll = (struct roll){.bus = f.bus, .node = s->node, .in = in, .out = out, .held_most = from.held};
    r = r ? r : roll_open(&f.roll);
    if (r == 0) {
        sd_notify(0, "READY=1");
        event_base_dispatch(f.base);
    } else {
        log_error("wsd-fleet: %s", why);
        f.exit = CODE_NO_DAEMON;
    }
    in_free(in);
    out_free(out);
    bus_free(f.bus);
    for (size_t i = 0; i < 3; i++)
        if (signals[i])
            event_free(signals[i]);
    if (f.base)
        event_base_free(f.base);
    return f.exit;
}

int main(int argc, char **argv)
{
    struct settings s;
    int r = settings_load(&s, argc, argv);

    if (r < 0) {
        signal(SIGPIPE, SIG_IGN);
        if (hash_seed() < 0) {
            complain("getrandom: no random numbers");
            r = CODE_SOFTWARE;
        }
    }
    if (r < 0)
        r = s.init ? setup_init(&s.setup) : s.status ? setup_status(&s.setup) : run(&s);
    settings_deinit(&s);
    return r;
}
