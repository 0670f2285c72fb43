/* SPDX-License-Identifier: Apache-2.0
 *
 * person.c: the person behind the requests of a connection: PERSON.
 * Owns the name, which is the peer's. [loop]
 * Keeps: a name is for the log alone, and gives no right: its client can say any.
 * Does not know whether a request is granted. */
#include "frontend/person.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "proto/codec.h"

#define WORDS 512u

void serve_person(struct request *r)
{
    struct span name = r->msg->person.name;
    char *copy = name.size ? strdup(name.data) : NULL;

    if (name.size && !copy)
        log_error("out of memory: a person is not named in the log");
    free(r->peer->person);
    r->peer->person = copy;
}

/* The verb for what a request changes; NULL: it changes nothing, or only what is of its own connection. */
static const char *verb_of(const struct msg *m)
{
    static const char *const gates[] = {
        [GATE_PAUSE] = "pause", [GATE_RESUME] = "resume", [GATE_DRAIN] = "drain", [GATE_LIMIT] = "limit"};

    switch (m->type) {
    case FRAME_CANCEL:
        return m->id.has_id ? "cancel" : NULL;
    case FRAME_CANCEL_WHERE:
        return "cancel many";
    case FRAME_DEAD:
        return m->dead.action == DEAD_REQUEUE ? "requeue" : m->dead.action == DEAD_DROP ? "drop" : NULL;
    case FRAME_SCHEDULE:
        return m->schedule.action == SCHEDULE_LIST ? NULL : "schedule";
    case FRAME_GATE:
        return m->gate.action == GATE_LIST ? NULL : gates[m->gate.action];
    case FRAME_LIMIT:
        return m->limit.flags & LIMIT_MOVED ? "limit" : NULL;
    case FRAME_RELEASE:
        return "release";
    case FRAME_RELOAD:
        return "reload";
    case FRAME_WORKERS:
        return m->workers.set ? "set workers" : NULL;
    default:
        return NULL;
    }
}

static void object_of(const struct msg *m, char words[static WORDS])
{
    const uint8_t *id = m->type == FRAME_CANCEL ? m->id.id : m->type == FRAME_DEAD ? m->dead.id.id : NULL;

    *words = 0;
    if (id)
        snprintf(words, WORDS, "job " JOB_ID_FORMAT, JOB_ID_ARGS(id));
    else if (m->type == FRAME_GATE)
        snprintf(words, WORDS, "%.300s%s%.64s%.64s", m->gate.plugin.data, m->gate.function.size ? ":" : "",
                 m->gate.function.data, m->gate.tag.data);
    else if (m->type == FRAME_RELEASE)
        snprintf(words, WORDS, "%.300s%s%.64s", m->release.name.data, m->release.function.size ? ":" : "",
                 m->release.function.data);
    else if (m->type == FRAME_RELOAD)
        snprintf(words, WORDS, "%.300s", m->reload.name.data);
    else if (m->type == FRAME_SCHEDULE)
        snprintf(words, WORDS, "%.64s", m->schedule.name.data);
    else if (m->type == FRAME_LIMIT)
        snprintf(words, WORDS, "%.64s = %.64s", m->limit.key.data, m->limit.value.data);
}

void person_note(const struct peer *p, const struct msg *m)
{
    const char *verb = p->person ? verb_of(m) : NULL;
    char object[WORDS];

    if (!verb)
        return;
    object_of(m, object);
    log_event(LOG_KIND_PERSON, LOG_NOTICE, &(struct log_about){.uid = &p->uid},
              "%s%s%s: asked for by user %u, who says for %s", verb, *object ? " " : "", object, p->uid, p->person);
}
