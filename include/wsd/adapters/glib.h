/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd/adapters/glib.h: a handle of libwsclient in a main loop of GLib. Header only: link wsclient and glib-2.0.
 * Since 0.1.
 *
 *     GSource *source = wsd_glib_attach(NULL, client);
 *
 *     g_main_loop_run(loop);
 *     wsd_glib_detach(source);
 *
 * What is submitted in a turn leaves together, before the loop waits. Deadlines and connecting again (WSD_OPEN_AGAIN)
 * need nothing else. One thread: that of the context and of the handle.
 */
#ifndef WSD_ADAPTERS_GLIB_H
#define WSD_ADAPTERS_GLIB_H

#include <glib.h>
#include <poll.h>
#include <wsd/client.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wsd_glib_ {
    GSource source;
    struct wsd_client *client; /* NULL: detached */
    gpointer tag;              /* of the descriptor; NULL: there is none */
    short events;
};

static inline void wsd_glib_watch_(int fd, short events, uint64_t timeout_usec, void *userdata)
{
    struct wsd_glib_ *w = (struct wsd_glib_ *)userdata;

    (void)timeout_usec;
    if (events || fd < 0 || !w->tag)
        return; /* each turn looks at the handle before it waits */
    g_source_remove_unix_fd(&w->source, w->tag);
    w->tag = NULL;
}

static inline gboolean wsd_glib_prepare_(GSource *source, gint *timeout)
{
    struct wsd_glib_ *w = (struct wsd_glib_ *)source;
    uint64_t usec;
    short events;
    int fd;

    *timeout = -1;
    wsd_client_flush(w->client);
    if (!w->client)
        return FALSE;
    fd = wsd_client_fd(w->client);
    events = wsd_client_events(w->client);
    if (fd >= 0 && !w->tag)
        w->tag = g_source_add_unix_fd(source, fd, (GIOCondition)events); /* its numbers are those of poll(2) */
    else if (fd >= 0 && events != w->events)
        g_source_modify_unix_fd(source, w->tag, (GIOCondition)events);
    w->events = events;
    usec = wsd_client_timeout_usec(w->client);
    g_source_set_ready_time(source, usec == UINT64_MAX ? -1 : g_get_monotonic_time() + (gint64)usec);
    return FALSE;
}

static inline gboolean wsd_glib_dispatch_(GSource *source, GSourceFunc unused, gpointer unused_data)
{
    struct wsd_glib_ *w = (struct wsd_glib_ *)source;

    (void)unused;
    (void)unused_data;
    wsd_client_process(w->client);
    return G_SOURCE_CONTINUE;
}

static GSourceFuncs wsd_glib_funcs_ = {wsd_glib_prepare_, NULL, wsd_glib_dispatch_, NULL, NULL, NULL};

/* Begins. context NULL: the default one. Returns the source, or NULL if the handle is another process's. */
static inline GSource *wsd_glib_attach(GMainContext *context, struct wsd_client *client)
{
    struct wsd_glib_ *w = (struct wsd_glib_ *)g_source_new(&wsd_glib_funcs_, sizeof(*w));

    w->client = client;
    w->tag = NULL;
    w->events = 0;
    if (wsd_client_set_watch(client, wsd_glib_watch_, w) < 0) {
        g_source_unref(&w->source);
        return NULL;
    }
    g_source_set_name(&w->source, "wsd");
    g_source_attach(&w->source, context);
    return &w->source;
}

/* Ends it, before the handle is freed; also in a callback. Its memory goes when the loop is done with it. */
static inline void wsd_glib_detach(GSource *source)
{
    struct wsd_glib_ *w = (struct wsd_glib_ *)source;

    wsd_client_set_watch(w->client, NULL, NULL);
    w->client = NULL;
    g_source_destroy(source);
    g_source_unref(source);
}

#ifdef __cplusplus
}
#endif

#endif
