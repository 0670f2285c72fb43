/* SPDX-License-Identifier: Apache-2.0
 *
 * admission.c: users' limits and charges, and the directories that jobs share.
 * Owns the table of users. [loop]
 * Keeps: what was charged is refunded once, by the same amount.
 * Does not decide which user may connect; the frontend does. */
#include "table/admission.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* Looks at kept results for one job that comes: for one that no client reads, and at what they all take. */
#define EVICTION_LOOKS 128u
#define COUNT_LOOKS    1024u

struct user *user_get(struct jobs *jobs, uint32_t uid)
{
    uint64_t key = hash_number(uid);

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

bool user_evict(struct user *user)
{
    for (uint32_t left = MIN(EVICTION_LOOKS, user->n_kept); left > 0; left--) {
        struct job *job = container_of(user->kept.next, struct job, link);

        if (!job->watches) {
            job_free(job);
            return true;
        }
        list_remove(&job->link); /* it counts as the newest, so that the next look finds others */
        list_push_back(&user->kept, &job->link);
    }
    return false;
}

static bool fits(uint64_t n, uint64_t bytes, uint64_t most)
{
    return n <= most && bytes <= most - n;
}

/* Whether dropping kept results of this user can free so many bytes. Bytes of others cannot be dropped for that, so the
 * user's own are dropped only where that is enough. */
static bool could_evict(const struct user *user, uint64_t bytes)
{
    uint32_t left = COUNT_LOOKS;
    uint64_t sum = 0;

    list_for_each_entry (const struct job, job, &user->kept, link) {
        if (sum >= bytes || left-- == 0)
            break;
        if (!job->watches)
            sum += job_charged(job);
    }
    return sum >= bytes;
}

/* Drops kept results, oldest first, for what is needed now. Returns 0, or as user_charge(). */
static int make_room(struct jobs *jobs, struct user *user, uint64_t bytes, uint64_t most, uint64_t all)
{
    while (!fits(user->n_bytes, bytes, most) && user_evict(user))
        ;
    if (!fits(user->n_bytes, bytes, most))
        return -ENOSPC;
    if (!fits(jobs->counters.n_bytes, bytes, all) && !could_evict(user, jobs->counters.n_bytes + bytes - all))
        return -EDQUOT;
    while (!fits(jobs->counters.n_bytes, bytes, all) && user_evict(user))
        ;
    return fits(jobs->counters.n_bytes, bytes, all) ? 0 : -EDQUOT; /* as many as one look finds in use may be first */
}

int user_charge(struct jobs *jobs, struct user *user, uint64_t bytes)
{
    const uint64_t most = user_limits(jobs, user)->bytes_per_user, all = jobs->options.limits.bytes;
    bool there = fits(user->n_bytes, bytes, most) && fits(jobs->counters.n_bytes, bytes, all);
    int r = there ? 0 : make_room(jobs, user, bytes, most, all);

    if (r < 0)
        return r;
    user->n_bytes += bytes;
    jobs->counters.n_bytes += bytes;
    return 0;
}

/* If there is room for this request and for all that others wait for, no client need wait. */
static void look_for_room(struct retry_after *retry_after, uint64_t n, uint64_t bytes, uint64_t most)
{
    if (retry_after_is_wanted(retry_after) && fits(n, bytes, most))
        retry_after->due_usec = 0;
}

int user_admit(struct jobs *jobs, struct user *user, uint64_t bytes, uint64_t *ret_retry_usec)
{
    const uint64_t most = user_limits(jobs, user)->bytes_per_user, all = jobs->options.limits.bytes;
    int r = user_charge(jobs, user, bytes);

    if (r == 0) { /* another one of its size still has room */
        look_for_room(&user->bytes_retry_after, user->n_bytes, bytes, most);
        look_for_room(&jobs->bytes_retry_after, jobs->counters.n_bytes, bytes, all);
    } else if (bytes <= MIN(most, all)) { /* else there never will be */
        *ret_retry_usec = retry_after_refuse(r == -EDQUOT ? &jobs->bytes_retry_after : &user->bytes_retry_after,
                                             clock_monotonic_usec());
    }
    return r;
}

const char *user_charge_words(int error)
{
    return error == -EDQUOT ? "too many bytes of all users (max-bytes in wsd.conf): try again later"
                            : "too many bytes of this user (max-bytes-per-user in wsd.conf): try again later";
}

void user_refund(struct jobs *jobs, struct user *user, uint64_t bytes)
{
    jobs->counters.n_bytes -= bytes;
    user->n_bytes -= bytes;
    if (bytes && retry_after_is_wanted(&user->bytes_retry_after))
        retry_after_freed(&user->bytes_retry_after, clock_monotonic_usec());
    if (bytes && retry_after_is_wanted(&jobs->bytes_retry_after))
        retry_after_freed(&jobs->bytes_retry_after, clock_monotonic_usec());
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
