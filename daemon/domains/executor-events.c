/* SPDX-License-Identifier: Apache-2.0
 *
 * executor-events.c: what an executor reports, and its end.
 * Owns nothing. [loop]
 * Keeps: each packet goes to the file that knows it; one of no known kind ends the executor.
 * Does not judge what a packet says. */
#include "domains/executor-events.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/escape.h"
#include "base/log.h"
#include "domains/bundle.h"
#include "domains/completions.h"
#include "domains/direct-lane.h"
#include "domains/domain.h"
#include "domains/hand-over.h"
#include "domains/health.h"
#include "domains/lifetime.h"
#include "domains/plugins.h"
#include "domains/query.h"
#include "domains/recover.h"
#include "domains/recycle.h"
#include "table/watches.h"

/* Of those that follow a job, so many hear what it says: its owner, and those that came last. */
#define MESSAGE_WATCHES 128u

static void on_dead(struct executor *e, int code, int status, void *context)
{
    recover(context, code, status);
}

static void on_ready(struct executor *e, void *context)
{
    struct domain *d = context;

    free(d->priv->start_error);
    d->priv->start_error = NULL;
    if (d->priv->recycling.standby_of) {
        recycle_ready(d);
        return;
    }
    plugin_rearm(d);
    domain_pump(d);
    domain_rest(d);
}

static void on_bell(struct executor *e, void *context)
{
    lanes_belled(context);
    domain_poll(context);
}

static struct job *job_at(struct domain *d, uint32_t slot, uint32_t generation)
{
    struct job *job = slot < RING_SLOTS ? d->slots[slot] : NULL;

    return job && job->generation == generation ? bundle_alone(d, slot) : NULL;
}

static void open_answer(struct domain *d, uint32_t slot, uint32_t generation, uint32_t serial, int error, int fd)
{
    struct control c = {
        .kind = CONTROL_OPENED, .slot = slot, .generation = generation, .number = serial, .error = (uint32_t)error};

    if (d->priv->executor)
        executor_send(d->priv->executor, &c, fd);
}

static void open_ask(struct domain *d, const struct control *c)
{
    struct job *job = job_at(d, c->slot, c->generation);
    struct watch *w = job ? job_owner(job) : NULL;
    int r = !c->text[0] ? -ENOENT : w && w->ops->open ? w->ops->open(w, c->number, c->text) : -ENOTCONN;

    if (r < 0)
        open_answer(d, c->slot, c->generation, c->number, -r, -1);
}

void domain_opened(const struct job *job, uint32_t serial, int error, int fd)
{
    open_answer(job->domain, job->slot, job->generation, serial, error, fd);
}

void domain_forget_opens(const struct job *job)
{
    domain_opened(job, RING_NONE, ENOTCONN, -1);
}

static void job_says(struct domain *d, const struct control *c)
{
    struct job *job = job_at(d, c->slot, c->generation);
    char text[JOB_TEXT];

    if (!job)
        return;
    escape_text(text, sizeof(text), c->text);
    const struct log_about about = job_about(job);

    log_event(LOG_KIND_JOB_SAYS, (int)(c->number & 7), &about, "%s", text);
    uint32_t left = MESSAGE_WATCHES;
    for (struct watch *w = job->watches; w && left > 0; w = w->next, left--)
        if (w->ops->message)
            w->ops->message(w, (int)(c->number & 7), text);
}

/* The executor ends by itself, and no other is started: tells the waiting jobs why. */
static void executor_unconfined(struct domain *d, const char *why)
{
    char text[JOB_TEXT];

    log_event(LOG_KIND_UNCONFINED, LOG_ERR, NULL,
              "executor %u is not confined as it should be: %s: it runs no jobs; see [sandbox] in wsd.conf(5)",
              d->priv->executor->number, why);
    snprintf(text, sizeof(text), "wsd cannot confine its executors (%.128s): see its log, and [sandbox] in wsd.conf",
             why);
    job_words_free(d->priv->unconfined);
    d->priv->unconfined = job_words(text);
    executor_kill(d->priv->executor);
}

static void on_control(struct executor *e, const struct control *c, void *context)
{
    struct domain *d = context;
    char words[JOB_TEXT] = ""; /* the text, where it is for people */

    if (c->kind == CONTROL_UNSAFE || c->kind == CONTROL_FAILED || c->kind == CONTROL_SPOILT)
        escape_text(words, sizeof(words), c->text);
    switch (c->kind) {
    case CONTROL_LOADING:
        plugin_begun(d, c);
        return;
    case CONTROL_LOADED:
    case CONTROL_FUNCTION:
        if (d->priv->recycling.standby_of)
            recycle_control(d, c);
        else
            plugin_control(d, c);
        return;
    case CONTROL_OPEN:
        open_ask(d, c);
        return;
    case CONTROL_MESSAGE:
        job_says(d, c);
        return;
    case CONTROL_ASKED:
        if (query_answered(d, c))
            health_heard(d);
        return;
    case CONTROL_UNSAFE:
        executor_unconfined(d, words);
        return;
    case CONTROL_FAILED:
        domain_start_failed(d, words);
        return;
    case CONTROL_LANED:
        lanes_control(d, c);
        return;
    case CONTROL_SPOILT:
        recycle_spoilt(d, words);
        return;
    default:
        domain_distrust(d, "a packet of unknown kind");
    }
}

const struct executor_ops executor_events = {
    .ready = on_ready, .bell = on_bell, .control = on_control, .dead = on_dead};
