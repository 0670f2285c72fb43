/* SPDX-License-Identifier: Apache-2.0
 *
 * collector.h: asks wsd, on a thread of its own, as each question may take seconds. Answers are told on the loop. [loop]
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct collector;
struct event_base;
struct fleet_look_options;

#define COLLECTOR_ERRANDS 64u  /* that wait or are under way */
#define COLLECTOR_JOBS    500u /* of a look: the newest ones */
#define COLLECTOR_ACTIONS 100u /* likewise */

struct collector_options {
    struct event_base *base;
    const char *socket; /* NULL: as wsctl finds it. Lives as long as the collector, as does `fleet` */
    const struct fleet_look_options *fleet; /* NULL: no fleet is looked at */
    /* What wsd has now, or, where `why` is not empty, why that is not known. `look` stays the collector's. It has the keys
     * that looks[] in collector.c names, and `fleet`. */
    void (*looked)(const json_t *look, const char *why, void *context);
    void *context;
};

/* What is wanted of wsd once. */
enum errand_kind {
    ERRAND_JOB,     /* id: one job */
    ERRAND_CANCEL,  /* id */
    ERRAND_REQUEUE, /* id of a dead job */
    ERRAND_DROP,    /* the same */
    ERRAND_PAUSE,   /* plugin, function */
    ERRAND_RESUME,  /* the same */
    ERRAND_LIMIT,   /* plugin, function; number: jobs at once; 0: any */
    ERRAND_RELEASE, /* plugin, function: out of the circuit breaker */
    ERRAND_KINDS,
};

struct errand {
    enum errand_kind kind;
    char id[33], plugin[256], function[256], person[256]; /* person: behind it; "": not known */
    uint32_t number;
    /* error 0, or a negative errno with words. `answer`: the job; else NULL. It stays the collector's. */
    void (*done)(struct errand *e, int error, const char *words, const json_t *answer);
    void *context; /* of done() */
};

/* Returns 0 or a negative errno. */
int collector_new(struct collector **ret, const struct collector_options *options);
/* Waits for what is under way. Errands end without done(). NULL is fine. Returns NULL. */
struct collector *collector_free(struct collector *c);
/* Wants a look, soon. Does nothing where one is under way. */
void collector_look(struct collector *c);
/* Does an errand, which is copied. Returns 0; -EAGAIN: too many wait; -ENOMEM. */
int collector_do(struct collector *c, const struct errand *e);
