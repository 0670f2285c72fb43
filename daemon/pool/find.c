/* SPDX-License-Identifier: Apache-2.0
 *
 * find.c: what a worker does next: own ready list, steal, ready lists of others, injector, source.
 * Owns nothing. Everything here is for the owner of the worker that it gets, but pool_has_*(). [any]
 * Keeps: this order. A worker that finds work and was the last searcher sees to it that the next one wakes, if that
 * pays.
 * Does not sleep, except for a yield. */
#include "pool/find.h"

#include <sched.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/relax.h"
#include "base/ticks.h"
#include "pool/crew.h"
#include "pool/worker.h"

/* Ticks are nanoseconds, or a third of one. A task below TINY_TICKS is tiny. After TINY_STREAK of them in a row a thief
 * holds back, for HOLD_TICKS_MIN to HOLD_TICKS_MAX. */
#define TINY_TICKS     600u
#define TINY_STREAK    8u
#define HOLD_TICKS_MIN 1000u
#define HOLD_TICKS_MAX 40000u
/* How long the only searching worker continues while others run tasks. */
#define SEARCH_SPIN_USEC 20
/* After this time it looks for hidden tasks: an owner that has not answered by then is in a long leaf. */
#define SEARCH_LOOK_USEC 10
/* The shortest time of lingering. The time doubles after a hit, up to WORKER_LINGER_USEC, and halves after a miss. */
#define LINGER_MIN_USEC 2u
#define LINGER_PROBE    256u /* after this many misses the full time is used again */
/* Between two looks a worker does nothing: after so long another thread has had its CPU. It looks awake no more for so
 * many searches: the client may be that thread. */
#define LINGER_GAP_USEC 8u
#define LINGER_CALM     16u
/* After this many takes of its own, a worker checks whether another worker's roots wait behind a long one. */
#define LEFT_BEHIND 32u

void worker_relax(void)
{
    cpu_relax();
}

/* A steal costs thief and owner about a hundred nanoseconds each, for cache lines that move between them. If task after
 * task is not worth that, the thief holds back, longer each time: the owner is faster alone. The limit is below what
 * README.md promises for hidden tasks. */
void worker_weigh(struct worker *w, uint64_t ticks)
{
    if (ticks >= TINY_TICKS) {
        w->tiny = 0;
        return;
    }
    if (++w->tiny >= TINY_STREAK)
        w->not_before = ticks_now() + MIN(HOLD_TICKS_MIN << MIN(w->tiny - TINY_STREAK, 16u), HOLD_TICKS_MAX);
}

static bool holds_back(const struct worker *w)
{
    return w->tiny >= TINY_STREAK && ticks_now() < w->not_before;
}

static uint32_t next_random(struct worker *w)
{
    /* xorshift32: one state a worker, never 0 */
    uint32_t x = w->random;

    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return w->random = x;
}

/* --- stealing --- */

static bool has_roots(struct pool *pool, bool (*source)(void *context))
{
    if (injector_any(&pool->injector) || (source && source(pool->options.source.context)))
        return true;
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire);
    for_each_active(i, pool, n) if (batch_has_any(&pool->all[i]->batch) || ready_any(&pool->all[i]->ready)) return true;
    return false;
}

bool pool_has_roots(struct pool *pool)
{
    return has_roots(pool, pool->options.source.ready);
}

bool pool_has_tasks(struct pool *pool)
{
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire);

    for_each_active(i, pool, n) if (deque_has_public_any(&pool->all[i]->deque)) return true;
    return false;
}

/* Makes the hints about private tasks exact, if any worker but w may have some. For a worker, or the monitor (w NULL),
 * that has announced its sleep, or has stopped searching. */
static void settle_hints(struct pool *pool, const struct worker *w)
{
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire), self = w ? 1 : 0;

    if (pool->eager || atomic_load_explicit(&pool->busy, memory_order_seq_cst) <= self)
        return;
    for_each_active(i, pool, n) if (pool->all[i] != w && !deque_is_empty_any(&pool->all[i]->deque))
    {
        deque_settle();
        return;
    }
}

/* Whether the victim has tasks, public or not. The caller has settled. */
static bool has_any(const struct worker *victim)
{
    return deque_has_public_any(&victim->deque) || deque_has_private_any(&victim->deque);
}

bool pool_has_work(struct pool *pool)
{
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire);

    settle_hints(pool, NULL);
    for_each_active(i, pool, n) if (has_any(pool->all[i])) return true;
    return pool_has_roots(pool);
}

/* Wakes the next worker if work is left for it: others have relied on this worker. */
void worker_wake_if_left(struct worker *w)
{
    struct pool *pool = w->pool;
    const struct pool_source *s = &pool->options.source;
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire);

    if (!park_has_sleepers(&pool->park) && !crew_short(pool))
        return;
    settle_hints(w->pool, w);
    for_each_active(i, pool, n) if (pool->all[i] != w && has_any(pool->all[i]))
    {
        pool_tell_task(pool);
        return;
    }
    if (has_roots(pool, s->worth_waking ? s->worth_waking : s->ready))
        pool_tell_root(pool);
}

/* A task was taken from the victim. */
static void note_stolen(struct worker *w, struct worker *victim, bool more)
{
    COUNT(w, stolen);
    w->last_victim = victim->public.index;
    if (!park_has_sleepers(&w->pool->park) && !crew_short(w->pool))
        return;
    if (!more) {
        /* The owner was just told to publish, but may be in a long leaf by now, with more tasks that are hidden. */
        settle_hints(w->pool, w);
        more = deque_has_private_any(&victim->deque);
    }
    if (more)
        pool_tell_task(w->pool);
}

static bool steal_from(struct worker *w, struct worker *victim, struct stolen *ret)
{
    bool more;

    *ret = (struct stolen){.victim = victim, .entry = deque_steal_any(&victim->deque, &more)};
    if (ret->entry)
        note_stolen(w, victim, more);
    else
        COUNT(w, failed_steals);
    return ret->entry;
}

static bool try_victim(struct worker *w, uint32_t index, struct stolen *ret)
{
    struct worker *victim = w->pool->all[index];

    return victim != w && deque_has_public_any(&victim->deque) && steal_from(w, victim, ret);
}

/* Of pinned workers: nearest first. */
static bool steal_near(struct worker *w, uint32_t n, uint32_t random, struct stolen *ret)
{
    const struct topology *t = w->pool->topology;

    for (uint32_t k = 0; k < topology_steps(t, n); k++) {
        uint32_t i = topology_victim(t, w->public.index, n, k, random);
        if (i < n && pool_next_active(w->pool, i, n) == i && try_victim(w, i, ret))
            return true;
    }
    return false;
}

bool worker_steal(struct worker *w, struct stolen *ret)
{
    struct pool *pool = w->pool;
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire), self = w->public.index;

    if (w->last_victim == self && n > 1)
        w->last_victim = self == 0; /* of two, the other one */
    if (try_victim(w, w->last_victim, ret))
        return true;
    if (n == (uint32_t)(self < n) + (w->last_victim != self)) /* there is no other worker */
        return false;
    uint32_t start = (uint32_t)((uint64_t)next_random(w) * n >> 32);
    if (pool->topology)
        return steal_near(w, n, start, ret);
    for (uint32_t i = pool_next_active(pool, start, n); i < n; i = pool_next_active(pool, i + 1, n))
        if (try_victim(w, i, ret))
            return true;
    for_each_active(i, pool, start) if (try_victim(w, i, ret)) return true;
    return false;
}

bool worker_steal_origin(struct worker *w, struct worker *thief, uint64_t origin, struct stolen *ret)
{
    bool more;

    *ret = (struct stolen){.victim = thief, .entry = deque_steal_origin_any(&thief->deque, origin, &more)};
    if (ret->entry)
        note_stolen(w, thief, more);
    return ret->entry;
}

/* Whether there is something to steal. Publishes what the owner hides. */
static bool look_at(struct worker *w, struct worker *victim)
{
    if (victim == w)
        return false;
    if (deque_has_public_any(&victim->deque))
        return true;
    if (!deque_has_private_any(&victim->deque) || !deque_revoke_any(&victim->deque))
        return false;
    COUNT(w, revoked);
    trace_event(w, TRACE_REVOKE, victim->public.index);
    return true;
}

static bool look_at_all(struct worker *w, struct worker *only)
{
    uint32_t n = atomic_load_explicit(&w->pool->victims, memory_order_acquire);

    if (only)
        return look_at(w, only);
    for_each_active(i, w->pool, n) if (look_at(w, w->pool->all[i])) return true;
    return false;
}

/* Uses what the hints tell already without making them exact. That takes a third of the time of finding hidden
 * tasks. */
bool worker_look(struct worker *w, struct worker *only)
{
    if (look_at_all(w, only))
        return true;
    settle_hints(w->pool, w);
    return look_at_all(w, only);
}

/* --- a worker's turn --- */

/* Takes from the batch of a worker that has not used it since the last look: that worker is in a long root. Watches one
 * batch at a time. */
static struct pool_node *take_left_behind(struct worker *w, uint32_t n, bool *ret_more)
{
    struct pool *pool = w->pool;
    struct injector_batch *b = &pool->all[w->watched]->batch;

    if (batch_stands_any(b, &w->watched_word)) {
        struct pool_node *node = batch_take_any(b, ret_more);

        (void)batch_stands_any(b, &w->watched_word); /* what this worker took is not the owner's progress */
        return node;
    }
    w->watched = pool_next_active(pool, w->watched + 1, n);
    if (w->watched >= n)
        w->watched = pool_next_active(pool, 0, n);
    if (w->watched >= n)
        w->watched = w->public.index;
    (void)batch_stands_any(&pool->all[w->watched]->batch, &w->watched_word);
    return NULL;
}

/* Takes what another worker has in its batch and has not begun. */
static struct pool_node *take_of_others(struct worker *w, uint32_t n, bool *ret_more)
{
    struct pool *pool = w->pool;

    for_each_active(i, pool, n)
    {
        struct pool_node *node = batch_take_any(&pool->all[i]->batch, ret_more);

        if (node)
            return node;
    }
    return NULL;
}

/* Takes first what was put to the front. Then comes, now and then, a batch that stands still; then the worker's own
 * batch; then a new batch. If there is no new one, any batch will do. Always preferring other batches to a new one
 * would have all workers take from one batch. Each take moves that batch's cache line (40 instead of 28 ns a root, two
 * workers). */
static struct pool_node *take_injected(struct worker *w, bool *ret_more)
{
    struct pool *pool = w->pool;
    uint32_t n = atomic_load_explicit(&pool->victims, memory_order_acquire);
    struct pool_node *nodes[BATCH_MAX], *node = injector_take_front(&pool->injector, ret_more);

    if (!node && w->n_roots % LEFT_BEHIND == 0)
        node = take_left_behind(w, n, ret_more); /* and the next time again */
    if (!node) {
        w->n_roots++;
        node = batch_take_any(&w->batch, ret_more);
    }
    if (node)
        return node;
    /* A guest takes one: it runs no more. */
    uint32_t took = injector_take(&pool->injector, nodes, w->guest ? 1 : BATCH_MAX, pool_workers(pool), ret_more);
    if (took == 0 && (node = take_of_others(w, n, ret_more)))
        return node;
    if (took > 1) {
        batch_fill_owner(&w->batch, nodes + 1, took - 1);
        *ret_more = true;
    } else if (took == 0 && *ret_more) {
        sched_yield(); /* a push is under way, perhaps on this CPU */
    }
    return took ? nodes[0] : NULL;
}

struct pool_node *worker_take_root(struct worker *w)
{
    struct pool *pool = w->pool;
    const struct pool_source *s = &pool->options.source;
    bool more = false;
    struct pool_node *node = take_injected(w, &more);

    if (node)
        worker_leave_source(w);
    else if (s->take)
        node = s->take(s->context, &more);
    if (node && more)
        pool_tell_root(pool);
    return node;
}

/* From other workers: the oldest. */
static struct ready *take_ready(struct worker *w)
{
    uint32_t n = atomic_load_explicit(&w->pool->victims, memory_order_acquire);

    for_each_active(i, w->pool, n)
    {
        struct ready *r = i != w->public.index ? ready_take_oldest(&w->pool->all[i]->ready) : NULL;
        if (r)
            return r;
    }
    return NULL;
}

bool worker_find(struct worker *w, struct found *f)
{
    *f = (struct found){.ready = ready_take_youngest(&w->ready)};
    if (f->ready || (!holds_back(w) && worker_steal(w, &f->task)))
        return true;
    f->ready = take_ready(w);
    if (!f->ready)
        f->root = worker_take_root(w);
    return f->ready || f->root;
}

/* Whether a worker keeps looking though no other runs. */
static bool may_spin(const struct pool *pool)
{
    const struct pool_source *s = &pool->options.source;

    return s->may_spin && !atomic_load_explicit(&pool->crowded, memory_order_relaxed) && s->may_spin(s->context);
}

/* How long to go on searching, in microseconds; 0: not at all. At most one worker spins. Relaxed: only a guess. */
static uint64_t search_usec(struct worker *w)
{
    struct pool *pool = w->pool;

    if (atomic_load_explicit(pool->park.searchers, memory_order_relaxed) != 1)
        return 0;
    if (!w->n_calm && may_spin(pool))
        return w->spin_usec;
    return atomic_load_explicit(&pool->busy, memory_order_relaxed) > 1 ? SEARCH_SPIN_USEC : 0;
}

static void lingered(struct worker *w, bool hit)
{
    if (hit)
        w->spin_usec = MIN(w->spin_usec * 2, WORKER_LINGER_USEC);
    else
        w->spin_usec = ++w->n_misses % LINGER_PROBE ? MAX(w->spin_usec / 2, LINGER_MIN_USEC) : WORKER_LINGER_USEC;
}

/* Looks for work as a counted searcher. Continues for a moment while others run tasks, which may spawn, or if the
 * source may spin. */
bool worker_search(struct worker *w, struct found *f)
{
    struct pool *pool = w->pool;
    uint64_t deadline = 0, look_usec = 0, last = 0;
    bool found, spins = false;

    if (w->n_calm)
        w->n_calm--;
    park_search_begin(&pool->park);
    while (!(found = worker_find(w, f))) {
        if (holds_back(w)) {
            if (pool->crowded)
                sched_yield();
            for (int i = 0; i < 16; i++)
                worker_relax();
            continue;
        }
        uint64_t usec = search_usec(w);
        if (usec == 0)
            break;
        uint64_t now = clock_monotonic_usec();
        if (deadline == 0) {
            deadline = now + usec;
            look_usec = now + SEARCH_LOOK_USEC;
            spins = !w->n_calm && may_spin(pool);
            last = now;
        }
        if (spins && now - last >= LINGER_GAP_USEC) {
            w->n_calm = LINGER_CALM;
            break;
        }
        last = now;
        if (now >= look_usec) {
            look_usec = UINT64_MAX;
            if (look_at_all(w, NULL))
                continue;
        }
        if (now >= deadline)
            break;
        for (int i = spins ? 15 : 0; i < 16; i++)
            worker_relax();
    }
    if (spins)
        lingered(w, found);
    if (!found)
        return false;
    if (park_search_end(&pool->park))
        worker_wake_if_left(w);
    return true;
}
