/* SPDX-License-Identifier: Apache-2.0
 *
 * share.c: chooses the connection that is served next, and for how long.
 * Owns the order of users, and of those connections of theirs that have something to handle. [loop]
 * Keeps: a user waits for at most one quantum of each other user. How many connections those have does not matter. A
 * turn ends when its units are used up, at most one request late. A request that costs more than its user has left is
 * paid back from the user's next quanta. A user that asks without end has no turn for a while.
 * Deficit round robin (Shreedhar and Varghese, 1995), with users as flows.
 * Does not know what a request is, or what it costs. */
#include "frontend/share.h"

#include <event2/event.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "frontend/peer.h"

void share_init(struct share *s)
{
    list_init(&s->turn);
    list_init(&s->ready);
    list_init(&s->mark_turn);
    list_init(&s->marked);
    s->left = 0;
    s->asked = 0;
    s->asked_usec = s->rest_usec = 0;
}

void shares_init(struct shares *s)
{
    list_init(&s->waiting);
    list_init(&s->resting);
    list_init(&s->marking);
    share_init(&s->strangers);
}

void share_want(struct peer *p)
{
    struct share *s = p->share;

    if (!list_empty(&p->ready) || p->closed)
        return;
    list_push_back(&s->ready, &p->ready);
    if (list_empty(&s->turn) && !s->rest_usec)
        list_push_back(&p->frontend->shares.waiting, &s->turn);
}

void share_drop(struct peer *p)
{
    struct share *s = p->share;

    list_remove(&p->ready);
    if (!list_empty(&s->ready))
        return;
    if (!s->rest_usec)
        list_remove(&s->turn);
    s->left = s->left < 0 ? s->left : 0;
}

void share_end(struct share *s)
{
    list_remove(&s->turn);
    list_remove(&s->mark_turn);
}

void share_move(struct peer *p, struct share *to)
{
    bool ready = !list_empty(&p->ready), marked = !list_empty(&p->dirty);

    if (ready)
        share_drop(p);
    share_unmark(p);
    p->share = to;
    if (ready)
        share_want(p);
    if (marked)
        share_mark(p);
}

void share_mark(struct peer *p)
{
    struct share *s = p->share;

    if (!list_empty(&p->dirty) || p->closed)
        return;
    list_push_back(&s->marked, &p->dirty);
    p->frontend->shares.n_marked++;
    if (list_empty(&s->mark_turn))
        list_push_back(&p->frontend->shares.marking, &s->mark_turn);
}

void share_unmark(struct peer *p)
{
    if (list_empty(&p->dirty))
        return;
    list_remove(&p->dirty);
    p->frontend->shares.n_marked--;
    if (list_empty(&p->share->marked))
        list_remove(&p->share->mark_turn);
}

struct peer *shares_next_marked(struct shares *all)
{
    struct list *l = list_pop_front(&all->marking);

    if (!l)
        return NULL;
    struct share *s = container_of(l, struct share, mark_turn);
    struct peer *p = container_of(list_pop_front(&s->marked), struct peer, dirty);

    all->n_marked--;
    if (!list_empty(&s->marked))
        list_push_back(&all->marking, &s->mark_turn);
    return p;
}

void share_charge(struct peer *p, uint32_t units)
{
    p->share->left = MAX(p->share->left - units, (int64_t)-SHARE_DEBT);
    p->frontend->shares.left -= units;
    p->frontend->shares.units += units;
}

/* An earlier time that is set stays. */
static void wake_in(struct shares *all, uint64_t usec)
{
    const struct timeval t = {.tv_sec = (time_t)(usec / 1000000), .tv_usec = (suseconds_t)(usec % 1000000)};

    if (all->timer && !evtimer_pending(all->timer, NULL))
        evtimer_add(all->timer, &t);
}

void share_ask(struct peer *p, uint32_t units)
{
    struct share *s = p->share;
    struct shares *all = &p->frontend->shares;

    s->asked += units;
    if (s->asked <= SHARE_ASKED || s->rest_usec)
        return;
    uint64_t now = clock_monotonic_usec(), paid = MIN(now - s->asked_usec, (uint64_t)INT32_MAX) * SHARE_ASKS;

    s->asked = MAX(s->asked - (int64_t)paid, (int64_t)0);
    s->asked_usec = now;
    if (s->asked <= SHARE_ASKED)
        return;
    s->rest_usec = now + (uint64_t)s->asked / SHARE_ASKS;
    list_remove(&s->turn);
    list_push_back(&all->resting, &s->turn);
    all->n_rests++;
    wake_in(all, s->rest_usec - now);
}

void shares_wake(struct shares *all, uint64_t now_usec)
{
    uint64_t next = UINT64_MAX;

    list_for_each_safe (l, n, &all->resting) {
        struct share *s = container_of(l, struct share, turn);

        if (s->rest_usec > now_usec) {
            next = MIN(next, s->rest_usec);
            continue;
        }
        s->rest_usec = 0;
        list_remove(&s->turn);
        if (!list_empty(&s->ready))
            list_push_back(&all->waiting, &s->turn);
    }
    if (next != UINT64_MAX)
        wake_in(all, next - now_usec);
}

bool share_spent(const struct peer *p)
{
    return p->share->rest_usec || p->share->left <= 0 || p->frontend->shares.left <= 0;
}

void share_alone(struct peer *p)
{
    p->frontend->shares.left = p->share->left = SHARE_QUANTUM;
}

/* Serves until the user's units, those of the turn, or the user's connections are used up. */
static void serve_share(struct shares *all, struct share *s, bool (*one)(struct peer *p))
{
    while (!list_empty(&s->ready) && s->left > 0 && all->left > 0 && !s->rest_usec) {
        struct peer *p = container_of(s->ready.next, struct peer, ready);

        if (one(p) && !p->held) { /* one that was stopped between two frames goes on first */
            list_remove(&p->ready);
            list_push_back(&s->ready, &p->ready);
        }
    }
}

bool shares_serve(struct shares *all, bool (*one)(struct peer *p))
{
    all->left = SHARE_TURN;
    while (all->left > 0 && !list_empty(&all->waiting)) {
        struct share *s = container_of(all->waiting.next, struct share, turn);

        if (s->left <= 0)
            s->left += SHARE_QUANTUM;
        serve_share(all, s, one);
        if (s->left <= 0 && !list_empty(&s->ready) && !s->rest_usec) {
            list_remove(&s->turn);
            list_push_back(&all->waiting, &s->turn);
        }
    }
    all->most = MAX(all->most, (uint64_t)(SHARE_TURN - all->left));
    return !list_empty(&all->waiting);
}
