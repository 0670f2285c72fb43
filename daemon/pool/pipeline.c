/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline.c: items through stages, some of which take one at a time.
 * Owns, during a call, the tokens (one for each item under way) and where they wait. An item is its token's.
 *
 * A runner is a task that takes an item that can go on. This is the first one that waits at a free stage, with the last
 * stage asked first. If none waits, it is a new item of the first stage. It takes the item through the stages until the
 * item has to wait or is through. It repeats this until no item can go on. A runner that makes more items ready than it
 * takes itself spawns one more runner, unless one is already spawned and has not begun. If no runner is stolen, the
 * first does it all.
 *
 * Keeps: a stage that is not parallel has one runner at a time. No runner waits for a turn. An item that can go on is
 * seen by a runner that has not ended. For the last point: the item is marked in `open` (seq_cst), then `waiting` is
 * read; a runner that begins lowers `waiting`, then reads `open`. So either that runner sees the mark, or a new one is
 * spawned.
 * Runners are children of runners, so their depth and number would grow with the number of steals. To bound them, all
 * runners come back when one is at its limit, and the first begins again. Items under way wait at their stages
 * meanwhile. Runners also come back after some thousand items. A worker may wait in the middle of an item, within a
 * stage that has children, and steal a runner meanwhile. That item goes on only when the runner has ended.
 * After an error or a cancel all goes on as before, but no stage is called and items are dropped. */

#include "pool/pipeline.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "pool/group.h"
#include "pool/worker.h"

#define TOKENS_A_WORKER 4
#ifndef DEPTH_MOST /* a test has small ones */
#define DEPTH_MOST    64
#define CHILDREN_MOST 1024
#define TURNS_MOST    4096
#endif

struct token {
    void *item;      /* NULL: goes on without a call of the stages, so that no order has a gap */
    uint64_t ticket; /* its place in the order of items */
};

/* A stage that takes one item at a time. A token that has to wait is put at the place of its ticket. The token with the
 * next ticket has the turn if it does not wait there. */
struct gate {
    _Alignas(CACHE_LINE) pthread_mutex_t lock; /* a leaf; held for some instructions */
    bool ordered;                              /* [const] tickets are those of the items, else of arrivals */
    uint64_t next, last;                       /* tickets: the one that has the turn, the next to give out [lock] */
    struct token **places;                     /* one for each token [lock] */
};

struct pipeline {
    struct wsd_group group;
    const struct wsd_stage *stages;
    uint32_t n_stages, n_tokens;
    wsd_drop_fn *drop;
    void *arg;
    struct gate *gates;
    struct token *tokens;
    /* The first stage. [lock of gates[0]] */
    struct token **unused;
    uint32_t n_unused;
    bool busy, ended;
    /* all members above are only read; gcc 12 with ASan does not align such a local */
    unsigned char line[CACHE_LINE];
    /* A bit for each stage at which an item can go on; changed under its gate's lock. [atomic: seq_cst, see above] */
    _Atomic uint64_t open;
    /* Runners that were spawned and have not begun. [atomic: seq_cst, see above] */
    _Atomic uint32_t waiting;
    _Atomic bool back; /* all runners are to come back [atomic: relaxed; joins order the rest] */
};

struct runner {
    struct pipeline *p;
    uint32_t depth, spawned;
};

WSD_VOID_TASK_DECL_2(pipeline_run, struct pipeline *, uint32_t);

static void runner_offer(struct wsd_worker *self, struct runner *r)
{
    if (atomic_load(&r->p->waiting))
        return;
    if (r->depth == DEPTH_MOST || r->spawned == CHILDREN_MOST) {
        atomic_store_explicit(&r->p->back, true, memory_order_relaxed);
        return;
    }
    atomic_fetch_add(&r->p->waiting, 1);
    r->spawned++;
    WSD_SPAWN(pipeline_run, r->p, r->depth + 1);
}

static void mark_stage(struct pipeline *p, uint32_t stage, bool can_go_on)
{
    uint64_t bit = UINT64_C(1) << stage;
    bool marked = atomic_load_explicit(&p->open, memory_order_relaxed) & bit;

    if (marked == can_go_on)
        return;
    if (can_go_on)
        atomic_fetch_or(&p->open, bit);
    else
        atomic_fetch_and(&p->open, ~bit);
}

/* Whether an item can go on at this stage. [lock of the gate] */
static bool gate_is_open(const struct pipeline *p, uint32_t stage)
{
    const struct gate *g = &p->gates[stage];

    return stage == 0 ? !p->busy && !p->ended && p->n_unused : g->places[g->next % p->n_tokens] != NULL;
}

/* Takes the item that can go on there, with the turn. NULL: another runner was first. */
static struct token *gate_take(struct pipeline *p, uint32_t stage)
{
    struct gate *g = &p->gates[stage];
    struct token *t = NULL;

    pthread_mutex_lock(&g->lock);
    if (gate_is_open(p, stage)) {
        if (stage == 0) {
            p->busy = true;
            t = p->unused[--p->n_unused];
            *t = (struct token){.ticket = g->next};
        } else {
            t = g->places[g->next % p->n_tokens];
            g->places[g->next % p->n_tokens] = NULL;
        }
        mark_stage(p, stage, false);
    }
    pthread_mutex_unlock(&g->lock);
    return t;
}

/* True: t has the turn. False: it is put aside, and belongs to the runner that takes it. */
static bool gate_enter(struct pipeline *p, uint32_t stage, struct token *t)
{
    struct gate *g = &p->gates[stage];

    pthread_mutex_lock(&g->lock);
    uint64_t ticket = g->ordered ? t->ticket : g->last++;
    bool turn = ticket == g->next;
    if (!turn)
        g->places[ticket % p->n_tokens] = t;
    pthread_mutex_unlock(&g->lock);
    return turn;
}

/* Gives the turn up. Returns whether an item can go on there now. */
static bool gate_leave(struct pipeline *p, uint32_t stage)
{
    struct gate *g = &p->gates[stage];

    pthread_mutex_lock(&g->lock);
    g->next++;
    if (stage == 0)
        p->busy = false;
    bool open = gate_is_open(p, stage);
    mark_stage(p, stage, open);
    pthread_mutex_unlock(&g->lock);
    return open;
}

static void token_end(struct pipeline *p, struct token *t, bool no_more)
{
    struct gate *g = &p->gates[0];

    pthread_mutex_lock(&g->lock);
    p->unused[p->n_unused++] = t;
    p->ended |= no_more;
    mark_stage(p, 0, gate_is_open(p, 0));
    pthread_mutex_unlock(&g->lock);
}

static void stage_run(struct wsd_worker *self, struct pipeline *p, struct token *t, uint32_t stage)
{
    const struct wsd_stage *s = &p->stages[stage];
    int error = 0;

    if (stage > 0 && !t->item)
        return;
    bool stopped = wsd_group_cancelled(&p->group);
    if (!stopped)
        error = s->run(self, &p->group, &t->item, s->arg);
    if (error)
        group_fail(&p->group, error);
    if (!stopped && !error)
        return;
    if (t->item && p->drop)
        p->drop(t->item, stage, p->arg);
    t->item = NULL;
}

static bool takes_one(const struct pipeline *p, uint32_t stage)
{
    return p->stages[stage].kind != WSD_STAGE_PARALLEL;
}

/* Takes t through the stages, from one at which t has its turn, if that stage has turns. */
static void token_run(struct wsd_worker *self, struct runner *r, struct token *t, uint32_t stage)
{
    struct pipeline *p = r->p;

    for (;;) {
        stage_run(self, p, t, stage);
        bool no_more = stage == 0 && !t->item;
        if (no_more)
            token_end(p, t, true); /* before the turn is given up, so that no runner calls the first stage again */
        if (takes_one(p, stage) && gate_leave(p, stage))
            runner_offer(self, r);
        if (no_more)
            return;
        if (++stage == p->n_stages)
            break;
        if (takes_one(p, stage) && !gate_enter(p, stage, t))
            return;
    }
    token_end(p, t, false);
}

/* Takes an item that has a turn at any stage, the furthest first: items under way end before more begin. */
static struct token *runner_take(struct wsd_worker *self, struct runner *r, uint32_t *ret_stage)
{
    struct pipeline *p = r->p;
    uint64_t open;

    while (!atomic_load_explicit(&p->back, memory_order_relaxed) && (open = atomic_load(&p->open)) != 0) {
        uint32_t stage = 63 - (uint32_t)__builtin_clzll(open);
        struct token *t = gate_take(p, stage);
        if (!t)
            continue;
        if (open & ~(UINT64_C(1) << stage))
            runner_offer(self, r);
        *ret_stage = stage;
        return t;
    }
    return NULL;
}

WSD_VOID_TASK_IMPL_2(pipeline_run, struct pipeline *, p, uint32_t, depth)
{
    struct runner r = {.p = p, .depth = depth};
    struct token *t;
    uint32_t stage;

    if (depth > 0)
        atomic_fetch_sub(&p->waiting, 1);
    for (uint32_t turns = 1; (t = runner_take(self, &r, &stage)); turns++) {
        token_run(self, &r, t, stage);
        if (depth > 0 && turns >= TURNS_MOST)
            atomic_store_explicit(&p->back, true, memory_order_relaxed);
    }
    while (r.spawned--)
        WSD_SYNC(pipeline_run);
}

static int pipeline_new(struct pipeline *p)
{
    size_t n = p->n_tokens;

    p->gates = lines_alloc(p->n_stages, sizeof(*p->gates));
    p->tokens = lines_alloc(n, sizeof(*p->tokens));
    p->unused = lines_alloc(n * (p->n_stages + 1), sizeof(*p->unused)); /* also for the places of each stage */
    if (!p->gates || !p->tokens || !p->unused)
        return -ENOMEM;
    memset(p->unused, 0, n * (p->n_stages + 1) * sizeof(*p->unused));
    for (uint32_t i = 0; i < p->n_stages; i++)
        p->gates[i] = (struct gate){.lock = PTHREAD_MUTEX_INITIALIZER,
                                    .ordered = p->stages[i].kind == WSD_STAGE_ORDERED,
                                    .places = p->unused + n * (i + 1)};
    for (; p->n_unused < n; p->n_unused++)
        p->unused[p->n_unused] = &p->tokens[p->n_unused];
    atomic_init(&p->open, 1);
    return 0;
}

int form_pipeline(struct wsd_worker *self, struct wsd_group *group, const struct wsd_stage *stages, uint32_t n_stages,
                  uint32_t tokens, wsd_drop_fn *drop, void *arg)
{
    struct pipeline p = {.stages = stages, .n_stages = n_stages, .n_tokens = tokens, .drop = drop, .arg = arg};

    if (n_stages == 0 || n_stages > WSD_STAGES_MAX || tokens > WSD_TOKENS_MAX || stages[0].kind == WSD_STAGE_PARALLEL)
        return -EINVAL;
    for (uint32_t i = 0; i < n_stages; i++)
        if (stages[i].kind > WSD_STAGE_SERIAL)
            return -EINVAL;
    if (tokens == 0)
        p.n_tokens = MAX(TOKENS_A_WORKER * forms_workers(self), TOKENS_A_WORKER);
    int error = pipeline_new(&p);
    if (!error) {
        wsd_group_begin(self, &p.group, group);
        do {
            atomic_store_explicit(&p.back, false, memory_order_relaxed);
            WSD_CALL(pipeline_run, &p, 0);
        } while (atomic_load_explicit(&p.open, memory_order_relaxed));
        if (p.n_unused != p.n_tokens)
            pool_broken("a pipeline ended with items under way");
        error = wsd_group_end(self, &p.group);
    }
    free(p.gates);
    free(p.tokens);
    free(p.unused);
    return error;
}
