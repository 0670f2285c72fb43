/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c: wsd-web, which shows the local wsd as a page and as metrics. Builds the parts, turns the loop. wsd-web(8) says
 * what it is for. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "base/log.h"
#include "base/complain.h"
#include "web/history.h"
#include "web/listen.h"
#include "web/server.h"
#include "web/settings.h"

#define LISTEN "127.0.0.1:9473"

static void on_signal(evutil_socket_t number, short what, void *userdata)
{
    sd_notify(0, "STOPPING=1");
    event_base_loopbreak(userdata);
}

static char way[4096]; /* a file that leads the browser to the page; "": there is none */

/* Shows the page in the browser of the user that sits here. The address goes by a private file: all users of the
 * machine see the arguments of a process, and the token is in it. */
static void browse(const char *url)
{
    const char *dir = getenv("XDG_RUNTIME_DIR");

    if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY") && !getenv("BROWSER"))
        return;
    snprintf(way, sizeof(way), "%s/wsd-web-XXXXXX.html", dir ? dir : "/tmp");
    int fd = mkostemps(way, 5, O_CLOEXEC);
    if (fd < 0 || dprintf(fd, "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=%s\">\n", url) < 0)
        complain("%s: no browser is opened: %s", way, strerror(errno));
    else if (fork() == 0) {
        if (fork() == 0)
            execlp("xdg-open", "xdg-open", way, (char *)NULL);
        _exit(0);
    }
    if (fd >= 0)
        close(fd);
    else
        *way = 0;
}

static int listen_at(const struct settings *s, struct server *server, const char *where)
{
    char address[LISTEN_ADDRESS], url[LISTEN_ADDRESS + GUARD_TOKEN + 16];
    bool has_token = *s->guard.token;
    int fd = listen_open(where, has_token, address);

    if (fd < 0)
        return -fd;
    if (server_listen(server, fd) < 0)
        return CODE_SOFTWARE;
    snprintf(url, sizeof(url), has_token ? "%s#token=%s" : "%s", address, s->guard.token);
    printf("%s\n", *address ? url : where);
    fflush(stdout);
    if (s->browse && *address)
        browse(url);
    return 0;
}

/* 0 or an exit status. Sockets that systemd has opened are taken instead of those that were named. */
static int listen_everywhere(const struct settings *s, struct server *server)
{
    int n = sd_listen_fds(1), r = 0;

    for (int i = 0; r == 0 && i < n; i++)
        r = server_listen(server, SD_LISTEN_FDS_START + i) < 0 ? CODE_SOFTWARE : 0;
    for (uint32_t i = 0; r == 0 && n <= 0 && i < s->n_listen; i++)
        r = listen_at(s, server, s->listen[i]);
    return r == 0 && n <= 0 && s->n_listen == 0 ? listen_at(s, server, LISTEN) : r;
}

/* 0 or an exit status. */
static int open_history(const struct settings *s, struct history **ret)
{
    int r = history_open(ret, s->history, SERVER_SERIES, clock_realtime_usec() / 1000000);

    if (r == 0)
        return 0;
    complain("%s: %s", s->history ? s->history : "history",
             r == -EWOULDBLOCK ? "another wsd-web keeps its history there: name another file"
             : r == -EINVAL    ? "it is no regular file: name another one"
                               : strerror(-r));
    return r == -EWOULDBLOCK ? CODE_BUSY : r == -ENOENT ? CODE_NOT_FOUND : r == -EACCES ? CODE_DENIED : CODE_IO;
}

static int run(struct settings *s)
{
    struct history *history = NULL;
    int r = open_history(s, &history);

    if (r)
        return r;
    struct event_base *base = event_base_new();
    struct event *term = base ? evsignal_new(base, SIGTERM, on_signal, base) : NULL;
    struct event *interrupt = base ? evsignal_new(base, SIGINT, on_signal, base) : NULL;
    struct server *server = NULL;
    const struct server_options options = {.base = base,
                                           .guard = &s->guard,
                                           .socket = s->socket,
                                           .chart = s->chart,
                                           .fleet = s->shows_fleet ? &s->fleet : NULL,
                                           .history = history,
                                           .always = s->always};
    r = term && interrupt && event_add(term, NULL) == 0 && event_add(interrupt, NULL) == 0 &&
                server_new(&server, &options) == 0
            ? 0
            : CODE_SOFTWARE;

    if (r)
        complain("out of memory");
    r = r ? r : listen_everywhere(s, server);
    if (r == 0) {
        sd_notify(0, "READY=1");
        event_base_dispatch(base);
    }
    server_free(server);
    history_close(history);
    if (*way)
        unlink(way);
    if (term)
        event_free(term);
    if (interrupt)
        event_free(interrupt);
    if (base)
        event_base_free(base);
    return r;
}

int main(int argc, char **argv)
{
    struct settings s;
    int r = settings_load(&s, argc, argv);

    signal(SIGPIPE, SIG_IGN);
    return r < 0 ? run(&s) : r;
}
