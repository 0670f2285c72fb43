/* SPDX-License-Identifier: Apache-2.0
 *
 * arena.c: arenas: memory that a client shares with the jobs of its connection, for their inputs and outputs.
 * Owns each arena's descriptor, its parts in use, and the list of executors that have it mapped. [loop]
 * Keeps: an arena cannot shrink or grow. No two jobs write the same bytes, and none writes what another reads. A part
 * is in use until its job has ended. A part that an executor wrote to when it died is not written to again, since
 * threads of the dying process may still write. An executor has an arena until its client has closed it, or another one
 * takes its place; never while a job that uses it is handed over.
 * Does not map anything: wsd never looks at what a client writes. */
#include "domains/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <wsd/plugin.h>

#include "base/async-close.h"
#include "base/cleanup.h"
#include "domains/arenas.h"
#include "domains/domain.h"
#include "ring/control.h"
#include "supervisor/executor.h"
#include "table/admission.h"
#include "table/arena-use.h"

#define ARENA_USES 1024u /* jobs at once that use one */

struct arena {
    struct jobs *jobs;
    struct user *user;
    uint32_t n_refs; /* its connection, and each job that uses it */
    int fd;
    uint64_t size;
    struct list uses, shown;
    uint32_t n_uses;
    bool lost; /* written to by an executor that died */
};

/* An executor has it. */
struct arena_shown {
    struct list link, of_domain;
    struct arena *arena;
    struct domain *domain;
    uint32_t number;   /* it is called that there */
    uint32_t n_handed; /* jobs */
};

/* Why a descriptor cannot be an arena; NULL: it can. All of this is in memory. */
static const char *problem(int fd, uint64_t *ret_size)
{
    int seals = fcntl(fd, F_GET_SEALS), flags = fcntl(fd, F_GETFL);
    struct statfs fs;
    struct stat st;

    if (seals < 0 || flags < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC || fstat(fd, &st) < 0)
        return "an arena is a memfd (without MFD_HUGETLB)";
    if ((flags & O_ACCMODE) != O_RDWR || seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
        return "an arena has to be writable";
    if ((seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
        return "an arena has to be sealed against shrinking and growing";
    if (st.st_size <= 0)
        return "an arena has to have a size";
    *ret_size = (uint64_t)st.st_size;
    return NULL;
}

static struct arena_shown *shown_free(struct arena_shown *s)
{
    uint32_t place = ring_arena_place(s->number);

    s->domain->priv->arenas.used[place / 64] &= ~(UINT64_C(1) << place % 64);
    list_remove(&s->link);
    list_remove(&s->of_domain);
    free(s);
    return NULL;
}

/* No job uses it there. */
static void withdraw(struct arena_shown *s)
{
    struct executor *e = s->domain->priv->executor;
    int r = executor_send(e, &(struct control){.kind = CONTROL_ARENA_DROP, .number = s->number}, -1);

    /* where the executor cannot be told, it would keep this arena, and another would come into its place; a dying
     * executor needs nothing */
    if (r == -ENOMEM || r == -ENOBUFS)
        executor_kill(e);
    shown_free(s);
}

static struct arena *unref(struct arena *a)
{
    if (--a->n_refs > 0)
        return NULL;
    while (!list_empty(&a->shown))
        withdraw(container_of(a->shown.next, struct arena_shown, link));
    user_refund(a->jobs, a->user, a->size);
    a->user->n_fds--;
    async_close(a->fd, a->user->uid);
    free(a);
    return NULL;
}

int jobs_arena_new(struct jobs *jobs, uint32_t uid, int *fd, struct arena **ret_arena, int *ret_code,
                   const char **ret_refusal, uint64_t *ret_retry_usec)
{
    struct user *user = user_get(jobs, uid);
    struct arena *a;
    uint64_t size = 0;
    int charged;

    if (!user)
        return -ENOMEM;
    *ret_refusal = problem(*fd, &size);
    *ret_code = CODE_USAGE;
    if (*ret_refusal)
        return 0;
    *ret_code = CODE_BUSY;
    if (user->n_fds + async_close_pending(user->uid) >= jobs->max_fd / 2 || *fd > (int)jobs->max_fd)
        *ret_refusal = "too many descriptors of this user: close some, or try again later";
    else if ((charged = user_admit(jobs, user, size, ret_retry_usec)) < 0)
        *ret_refusal =
            charged == -EDQUOT
                ? "the arena is too much beside what others have here (max-bytes in wsd.conf): try again later"
                : "the arena exceeds the user's quota of bytes (max-bytes-per-user in wsd.conf)";
    if (*ret_refusal)
        return 0;
    a = malloc(sizeof(*a));
    if (!a) {
        user_refund(jobs, user, size);
        return -ENOMEM;
    }
    *a = (struct arena){.jobs = jobs, .user = user, .n_refs = 1, .fd = TAKE_FD(*fd), .size = size};
    list_init(&a->uses);
    list_init(&a->shown);
    user->n_fds++;
    *ret_arena = a;
    return 0;
}

struct arena *jobs_arena_drop(struct arena *a)
{
    return a ? unref(a) : NULL;
}

static bool lies_in(const struct arena *a, const struct job_part *p)
{
    return p->at <= a->size && p->size <= a->size - p->at;
}

/* Both lie in an arena, so nothing overflows. */
static bool overlap(const struct job_part *a, const struct job_part *b)
{
    return a->size && b->size && a->at < b->at + b->size && b->at < a->at + a->size;
}

const char *arena_refuses(const struct job_parts *p, int *ret_code)
{
    *ret_code = CODE_USAGE;
    if (!lies_in(p->arena, &p->input) || !lies_in(p->arena, &p->output))
        return "input or output beyond the end of the arena";
    if (overlap(&p->input, &p->output))
        return "input and output of the job overlap in the arena";
    *ret_code = CODE_BUSY;
    if (p->output.size && p->arena->lost)
        return "an executor or runner died while it wrote to this arena: set up another one";
    if (p->arena->n_uses >= ARENA_USES)
        return "too many jobs use this arena";
    list_for_each (l, &p->arena->uses) {
        const struct arena_use *u = container_of(l, const struct arena_use, link);

        if (overlap(&p->output, &u->output) || overlap(&p->output, &u->input) || overlap(&p->input, &u->output))
            return "that part of the arena is in use by a job that has not ended";
    }
    return NULL;
}

int arena_hold(struct job *job, const struct job_parts *p)
{
    if (!p->input.size && !p->output.size)
        return 0;
    struct job_more *m = job_more(job);
    struct arena_use *u = m ? malloc(sizeof(*u)) : NULL;

    if (!u)
        return -ENOMEM;
    *u = (struct arena_use){.arena = p->arena, .input = p->input, .output = p->output};
    list_init(&u->link);
    list_push_back(&p->arena->uses, &u->link);
    p->arena->n_uses++;
    p->arena->n_refs++;
    m->arena = u;
    return 0;
}

/* --- executors ---------------------------------------------------------------------------------------------------- */

int arenas_init(struct domain *d)
{
    list_init(&d->priv->arenas.all);
    return 0;
}

/* RING_ARENAS: there is none. */
static uint32_t free_place(const struct domain *d)
{
    for (uint32_t i = 0; i < ARRAY_SIZE(d->priv->arenas.used); i++)
        if (~d->priv->arenas.used[i])
            return i * 64 + (uint32_t)__builtin_ctzll(~d->priv->arenas.used[i]);
    return RING_ARENAS;
}

/* Drops the least recently used arena that no job uses now. There is one: the job that wants its place is at most one
 * of RING_SLOTS jobs. */
static void make_room(struct domain *d)
{
    list_for_each_entry (struct arena_shown, s, &d->priv->arenas.all, of_domain) {
        if (s->n_handed == 0) {
            withdraw(s);
            return;
        }
    }
}

/* 0 or a negative errno. */
static int show(struct domain *d, struct arena *a, struct arena_shown **ret)
{
    struct control c = {.kind = CONTROL_ARENA};
    uint32_t place;
    int r;

    list_for_each (l, &a->shown) {
        *ret = container_of(l, struct arena_shown, link);
        if ((*ret)->domain == d)
            return 0;
    }
    place = free_place(d);
    if (place == RING_ARENAS) {
        make_room(d);
        place = free_place(d);
    }
    if (place == RING_ARENAS)
        return ERROR_UNEXPECTED(-ENOSPC);
    struct arena_shown *s = malloc(sizeof(*s));
    if (!s)
        return -ENOMEM;
    c.number = d->priv->arenas.n_shown++ * RING_ARENAS + place;
    r = executor_send(d->priv->executor, &c, a->fd);
    if (r < 0) {
        free(s);
        return r;
    }
    *s = (struct arena_shown){.arena = a, .domain = d, .number = c.number};
    list_init(&s->link);
    list_init(&s->of_domain);
    list_push_back(&a->shown, &s->link);
    list_push_back(&d->priv->arenas.all, &s->of_domain);
    d->priv->arenas.used[place / 64] |= UINT64_C(1) << place % 64;
    *ret = s;
    return 0;
}

static void describe_output(const struct arena_use *u, struct front_job *ret)
{
    if (!u->output.size)
        return;
    ret->flags |= DOWN_OUTPUT_PART;
    ret->output_at = u->output.at;
    ret->output_size = u->output.size;
}

int arena_describe(struct domain *d, const struct job *job, struct front_job *ret)
{
    struct arena_use *u = job->more->arena;
    struct arena_shown *s;

    if (!u)
        return 0;
    int r = show(d, u->arena, &s);
    if (r != 0)
        return r;
    u->shown = s;
    s->n_handed++;
    list_remove(&s->of_domain);
    list_push_back(&d->priv->arenas.all, &s->of_domain);
    ret->arena = s->number;
    if (u->input.size) {
        ret->flags |= DOWN_INPUT_PART | (job_function(job)->flags & WSD_FN_SHARED ? 0 : DOWN_INPUT_COPY);
        ret->input = NULL;
        ret->input_at = u->input.at;
        ret->input_size = u->input.size;
    }
    describe_output(u, ret);
    return 0;
}

int arena_lend(const struct job *job, struct front_job *ret)
{
    const struct arena_use *u = job->more ? job->more->arena : NULL;

    if (!u)
        return -1;
    if (u->input.size) {
        ret->flags |= DOWN_INPUT_FD | DOWN_INPUT_FILE;
        ret->input = NULL;
        ret->input_at = u->input.at;
        ret->input_size = u->input.size;
    }
    describe_output(u, ret);
    return u->arena->fd;
}

void arena_returned(struct job *job)
{
    struct arena_use *u = job->more ? job->more->arena : NULL;
    struct arena_shown *s = u ? TAKE(u->shown) : NULL;

    if (s)
        s->n_handed--;
}

void arenas_swap(struct domain *d, struct domain *fresh)
{
    while (!list_empty(&d->priv->arenas.all)) {
        struct arena_shown *s = container_of(list_pop_front(&d->priv->arenas.all), struct arena_shown, of_domain);

        s->domain = fresh;
        list_push_back(&fresh->priv->arenas.all, &s->of_domain);
    }
    memcpy(fresh->priv->arenas.used, d->priv->arenas.used, sizeof(d->priv->arenas.used));
    memset(d->priv->arenas.used, 0, sizeof(d->priv->arenas.used));
}

void arenas_gone(struct domain *d)
{
    while (!list_empty(&d->priv->arenas.all)) {
        struct arena_shown *s = container_of(d->priv->arenas.all.next, struct arena_shown, of_domain);

        list_for_each_entry (struct arena_use, u, &s->arena->uses, link) {
            u->shown = u->shown == s ? NULL : u->shown;
        }
        shown_free(s);
    }
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

void arena_free(struct job *job)
{
    arena_returned(job);
    struct arena_use *u = TAKE(job->more->arena);

    if (!u)
        return;
    list_remove(&u->link);
    u->arena->n_uses--;
    unref(u->arena);
    free(u);
}

void arena_died(struct job *job)
{
    if (arena_writes(job))
        job->more->arena->arena->lost = true;
}
