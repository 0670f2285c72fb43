/* SPDX-License-Identifier: Apache-2.0
 *
 * cancels.c: durable jobs that one request has cancelled.
 * Owns a watch of each. [loop]
 * Keeps: what is acknowledged as cancelled does not run in the next wsd.
 * Does not send the answer. */
#include "frontend/cancels.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/code.h"

struct cancelled {
    struct list link;
    struct cancels *of;
    struct watch watch;
};

void cancels_init(struct cancels *c, void (*over)(struct cancels *c))
{
    *c = (struct cancels){.over = over};
    list_init(&c->waiting);
}

static void unwritten(struct cancels *c, const char *why)
{
    if (!c->n_unwritten++)
        c->why = strdup(why);
}

static void gone(struct cancelled *j)
{
    struct cancels *c = j->of;

    list_remove(&j->link);
    free(j);
    if (list_empty(&c->waiting))
        c->over(c);
}

static void on_accepted(struct watch *w, const uint8_t id[16])
{
}

static void on_refused(struct watch *w, int code, const char *text, uint64_t retry_usec)
{
    struct cancelled *j = container_of(w, struct cancelled, watch);

    if (code != CODE_CANCELLED) /* else it was never on disk */
        unwritten(j->of, text);
    gone(j);
}

static size_t on_output(struct watch *w, const void *data, size_t size)
{
    return size;
}

static bool on_takes_rest(struct watch *w, size_t size)
{
    return true;
}

static void on_done(struct watch *w, const struct job_info *info)
{
    gone(container_of(w, struct cancelled, watch));
}

static const struct watch_ops ops = {
    .accepted = on_accepted, .refused = on_refused, .output = on_output, .takes_rest = on_takes_rest, .done = on_done};

void cancels_add(struct cancels *c, struct jobs *jobs, const uint8_t id[16], uint32_t uid)
{
    struct cancelled *j = calloc(1, sizeof(*j));

    if (!j) {
        unwritten(c, "no memory to wait until it is on disk that the job was cancelled");
        return;
    }
    j->of = c;
    j->watch.ops = &ops;
    list_push_back(&c->waiting, &j->link);
    if (jobs_watch_cancelled(jobs, id, uid, &j->watch))
        return;
    unwritten(c, "too many requests wait for the end of the job: try again");
    list_remove(&j->link);
    free(j);
}

void cancels_deinit(struct cancels *c)
{
    for (struct list *l; (l = list_pop_front(&c->waiting));) {
        struct cancelled *j = container_of(l, struct cancelled, link);

        jobs_unwatch(&j->watch);
        free(j);
    }
    free(TAKE(c->why));
}

const char *cancels_words(const struct cancels *c)
{
    return c->why ? c->why : "out of memory";
}
