/* SPDX-License-Identifier: Apache-2.0
 *
 * admission.c: who may have how much, and the names that jobs share.
 * Owns the table of users. [loop]
 * Keeps: what was charged is refunded once, by the same amount.
 * Does not decide who may connect; that is the frontend's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "jobs/job.h"

#define NSEC     1000000000ull
#define RATE_MAX NSEC /* a second, and so a burst: beyond it a clock says nothing */

struct user *user_get(struct jobs *jobs, uint32_t uid)
{
    uint64_t key = hash_mix(uid);

    for (struct hash_link *l = hash_first(&jobs->users, key); l; l = hash_next(l)) {
        struct user *u = container_of(l, struct user, by_uid);

        if (u->uid == uid)
            return u;
    }
    struct user *u = calloc(1, sizeof(*u));
    if (!u)
        return NULL;
    u->uid = uid;
    list_init(&u->kept);
    if (hash_insert(&jobs->users, &u->by_uid, key) < 0) {
        free(u);
        return NULL;
    }
    return u;
}

const struct jobs_limits *user_limits(const struct jobs *jobs, const struct user *user)
{
    return user->own_limits ? user->own_limits : &jobs->options.limits;
}

static uint64_t interval(uint64_t rate)
{
    return rate ? NSEC / rate : 0;
}

uint64_t rate_wait(uint64_t at, uint64_t rate, uint64_t burst, uint64_t now_nsec)
{
    uint64_t ahead = MIN(burst ? burst : rate, (uint64_t)RATE_MAX);

    if (interval(rate) == 0)
        return 0;
    ahead = (ahead - 1) * interval(rate);
    return at > now_nsec + ahead ? (at - now_nsec - ahead + 999) / 1000 : 0;
}

void rate_take(uint64_t *at, uint64_t rate, uint64_t now_nsec)
{
    *at = MAX(*at, now_nsec) + interval(rate);
}

bool user_evict(struct user *user)
{
    list_for_each(l, &user->kept)
    {
        struct job *job = container_of(l, struct job, link);

        if (!job->watches) {
            job_free(job);
            return true;
        }
    }
    return false;
}

int user_charge(struct jobs *jobs, struct user *user, uint64_t bytes)
{
    const uint64_t most = user_limits(jobs, user)->bytes_per_user;

    /* what is kept for later gives way to what is wanted now, oldest first */
    while (user->n_bytes + bytes > most && user_evict(user))
        ;
    if (user->n_bytes + bytes > most)
        return -ENOSPC;
    user->n_bytes += bytes;
    jobs->counters.n_bytes += bytes;
    return 0;
}

void user_refund(struct jobs *jobs, struct user *user, uint64_t bytes)
{
    jobs->counters.n_bytes -= bytes;
    user->n_bytes -= bytes;
}

struct directory *directory_new(const char *path)
{
    size_t size = strlen(path) + 1;
    struct directory *d = malloc(sizeof(*d) + size);

    if (d) {
        d->n_refs = 1;
        memcpy(d->path, path, size);
    }
    return d;
}

struct directory *directory_ref(struct directory *d)
{
    if (d)
        d->n_refs++;
    return d;
}

struct directory *directory_unref(struct directory *d)
{
    if (d && --d->n_refs == 0)
        free(d);
    return NULL;
}

const char *directory_path(const struct directory *d)
{
    return d->path;
}
