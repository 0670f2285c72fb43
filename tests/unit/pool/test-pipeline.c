/* SPDX-License-Identifier: Apache-2.0
 *
 * test-pipeline.c: wsd_pipeline(): order, turns, tokens, and what becomes of items. Built twice: the second time with
 * limits so small that the runners come back all the time. */
#include "forms.h"

#define MOST 3000

enum state { UNMADE, MADE, USED, DROPPED };

struct item {
    _Atomic uint32_t state;
    uint32_t number, seen; /* seen: a bit a stage */
};

/* One run. */
struct run {
    struct item items[MOST];
    uint32_t n, tokens, n_stages;
    uint64_t next[8];           /* what an ordered stage expects [its turn] */
    _Atomic uint32_t inside[8]; /* how many a stage has at once */
    _Atomic uint64_t under_way, most_under_way, made, used, dropped, wrong, calls;
    bool gap;            /* each third item ends at stage 1 */
    int fails;           /* at item 1,000: the stage that does, or -1 */
    uint32_t dropped_at; /* the stage of the failed item's drop */
    struct wsd_stage stages[8];
    struct {
        struct run *run;
        uint32_t stage;
    } args[8];
};

static int make(struct run *r, struct item **item)
{
    uint64_t now, most;

    if (r->next[0] == r->n)
        return 0;
    *item = &r->items[r->next[0] % MOST];
    **item = (struct item){.state = MADE, .number = (uint32_t)r->next[0]++};
    r->made++;
    now = ++r->under_way;
    most = r->most_under_way;
    while (now > most && !atomic_compare_exchange_weak(&r->most_under_way, &most, now))
        ;
    return 0;
}

static int stage(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct run *r = *(struct run **)arg;
    uint32_t which = *(uint32_t *)((struct run **)arg + 1), kind = r->stages[which].kind;
    bool last = which + 1 == r->n_stages;
    int error = 0;

    r->calls++;
    if (kind != WSD_STAGE_PARALLEL && r->inside[which]++ != 0)
        r->wrong++;
    if (which == 0)
        error = make(r, (struct item **)item);
    struct item *i = *item;
    if (which == 0 && !i)
        goto out;
    if (i->state != MADE || i->seen != (1u << which) - 1)
        r->wrong++;
    i->seen |= 1u << which;
    if (kind == WSD_STAGE_ORDERED && which > 0) {
        while (r->gap && which > 1 && r->next[which] % 3 == 0)
            r->next[which]++;
        if (i->number != r->next[which]++)
            r->wrong++;
    }
    if (kind == WSD_STAGE_PARALLEL)
        for (volatile uint32_t spin = i->number * 7919 % 500; spin > 0; spin--)
            ;
    if (r->fails == (int)which && i->number == 1000) {
        error = 31;
    } else if (last || (r->gap && which == 1 && i->number % 3 == 0)) {
        i->state = USED;
        r->used++;
        r->under_way--;
        if (which > 0)
            *item = NULL;
    }
out:
    if (kind != WSD_STAGE_PARALLEL)
        r->inside[which]--;
    return error;
}

static void drop(void *item, uint32_t stage, void *arg)
{
    struct item *i = item;
    struct run *r = arg;

    if (atomic_exchange(&i->state, DROPPED) != MADE)
        r->wrong++;
    if (i->number == 1000)
        r->dropped_at = stage;
    r->dropped++;
}

static struct run *run_new(const uint32_t *kinds, uint32_t n_stages, uint32_t n, uint32_t tokens)
{
    struct run *r = calloc(1, sizeof(*r));

    ck_assert_ptr_nonnull(r);
    r->n = n;
    r->tokens = tokens;
    r->n_stages = n_stages;
    r->fails = -1;
    for (uint32_t i = 0; i < n_stages; i++) {
        r->args[i].run = r;
        r->args[i].stage = i;
        r->stages[i] = (struct wsd_stage){.run = stage, .arg = &r->args[i], .kind = kinds[i]};
    }
    return r;
}

static int run_it(struct wsd_worker *self, struct wsd_group *group, struct run *r)
{
    return wsd_pipeline(self, group, r->stages, r->n_stages, r->tokens, drop, r);
}

enum { P = WSD_STAGE_PARALLEL, O = WSD_STAGE_ORDERED, S = WSD_STAGE_SERIAL };
static const uint32_t shapes[][6] = {
    {O}, {S}, {O, P}, {S, O}, {O, S}, {O, P, O}, {S, P, S}, {O, P, P, O, P, O}, {S, O, P, S, P, O}};
static const uint32_t lengths[] = {1, 1, 2, 2, 2, 3, 3, 6, 6};
#define SHAPES 9

static void do_shapes(struct wsd_worker *self, void *arg)
{
    static const uint32_t tokens[] = {0, 1, 2, 3, 16, 1000};
    static const uint32_t counts[] = {0, 1, 2, 17, MOST};

    for (int s = 0; s < SHAPES; s++)
        for (int t = 0; t < 6; t++)
            for (int c = 0; c < (SLOW ? 4 : 5); c++)
                for (int gap = 0; gap <= (lengths[s] > 2); gap++) {
                    struct run *r = run_new(shapes[s], lengths[s], counts[c], tokens[t]);
                    r->gap = gap;
                    ck_assert_int_eq(run_it(self, NULL, r), 0);
                    ck_assert_uint_eq(r->wrong, 0);
                    ck_assert_uint_eq(r->made, counts[c]);
                    ck_assert_uint_eq(r->used, lengths[s] == 1 ? r->used : counts[c]);
                    ck_assert_uint_eq(r->dropped, 0);
                    if (tokens[t])
                        ck_assert_uint_le(r->most_under_way, tokens[t]);
                    free(r);
                }
}

START_TEST(items_go_through_all_stages_in_the_order_that_they_ask_for)
{
    on_workers(_i, do_shapes, NULL);
}
END_TEST

/* With one item at a time no item is made behind the one that fails. With more, the worker that runs it may have lost
 * its CPU meanwhile, and the others go on: then later items are made, but not every time. */
static void do_errors(struct wsd_worker *self, void *arg)
{
    uint32_t n_stopped = 0;

    for (int s = 1; s < SHAPES; s++)
        for (uint32_t fails = 0; fails < lengths[s]; fails++)
            for (uint32_t tokens = 1; tokens <= 64; tokens *= count_for(4, 16)) {
                struct run *r = run_new(shapes[s], lengths[s], MOST, tokens);
                r->fails = (int)fails;
                ck_assert_int_eq(run_it(self, NULL, r), 31);
                ck_assert_uint_eq(r->wrong, 0);
                ck_assert_uint_eq(r->made, r->used + r->dropped);
                ck_assert_uint_le(r->dropped, tokens);
                if (lengths[s] > 1)
                    ck_assert_uint_eq(r->dropped_at, fails);
                if (tokens == 1)
                    ck_assert_uint_eq(r->made, 1001);
                else
                    n_stopped += r->made < MOST;
                free(r);
            }
    ck_assert_uint_gt(n_stopped, 0);
}

START_TEST(an_error_stops_all_and_drops_each_item_once)
{
    on_workers(_i, do_errors, NULL);
}
END_TEST

static void do_cancelled(struct wsd_worker *self, void *arg)
{
    struct wsd_group g;
    struct run *r = run_new(shapes[7], lengths[7], UINT32_MAX, 8);
    struct canceller c = {.group = &g, .count = &r->used, .enough = 1000};

    wsd_group_begin(self, &g, NULL);
    canceller_start(&c);
    ck_assert_int_eq(run_it(self, &g, r), -ECANCELED);
    canceller_join(&c);
    ck_assert_uint_eq(r->wrong, 0);
    ck_assert_uint_eq(r->made, r->used + r->dropped);
    r->calls = 0;
    ck_assert_int_eq(run_it(self, &g, r), -ECANCELED);
    ck_assert_uint_eq(r->calls, 0);
    ck_assert_int_eq(wsd_group_end(self, &g), -ECANCELED);
    free(r);
}

START_TEST(another_thread_may_cancel_an_endless_pipeline)
{
    on_workers(_i, do_cancelled, NULL);
}
END_TEST

static int cancels(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    if (((struct item *)*item)->number == 1000)
        wsd_group_cancel(group);
    return stage(self, group, item, arg);
}

static void do_stops(struct wsd_worker *self, void *arg)
{
    for (uint32_t kind = 0; kind < 3; kind++) {
        struct run *r = run_new(shapes[7], 3, MOST, 8);
        r->stages[1].run = cancels;
        r->stages[2].kind = kind;
        ck_assert_int_eq(run_it(self, NULL, r), -ECANCELED);
        ck_assert_uint_eq(r->wrong, 0);
        ck_assert_uint_eq(r->made, r->used + r->dropped);
        ck_assert_uint_eq(r->items[1000].seen, 3);
        ck_assert_uint_eq(r->items[1000].state, DROPPED);
        ck_assert_uint_eq(r->dropped_at, 2);
        free(r);
    }
}

START_TEST(no_stage_is_called_once_a_stage_has_cancelled)
{
    on_workers(_i, do_stops, NULL);
}
END_TEST

/* --- nesting --- */

static int use(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    *(_Atomic uint64_t *)arg += end - begin;
    return 0;
}

static _Atomic uint64_t used_inside;

static int inner_stage(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct run *r = run_new(shapes[5], 3, 20, 4);
    int error = wsd_for_each(self, group, 0, 100, 5, use, &used_inside);

    if (!error)
        error = run_it(self, group, r);
    if (r->wrong || r->used != 20)
        error = 1;
    free(r);
    return error;
}

static void do_nested(struct wsd_worker *self, void *arg)
{
    for (uint32_t kind = 0; kind < 3; kind++) {
        struct run *r = run_new(shapes[5], 3, 200, 8);
        r->stages[3] = r->stages[2];
        r->stages[2] = (struct wsd_stage){.run = inner_stage, .kind = kind};
        used_inside = 0;
        ck_assert_int_eq(wsd_pipeline(self, NULL, r->stages, 4, 8, drop, r), 0);
        ck_assert_uint_eq(r->wrong, 0);
        ck_assert_uint_eq(r->used, 200);
        ck_assert_uint_eq(used_inside, 20000);
        free(r);
    }
}

START_TEST(stages_may_hold_loops_and_pipelines)
{
    on_workers(_i, do_nested, NULL);
}
END_TEST

/* Item 0 waits in the parallel stage for item 1 to have been there. */
static _Atomic bool one_was_there;

static int meet(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct item *i = *item;

    while (i->number == 0 && !one_was_there)
        sched_yield();
    if (i->number == 1)
        one_was_there = true;
    return stage(self, group, item, arg);
}

static void do_meet(struct wsd_worker *self, void *arg)
{
    struct run *r = run_new(shapes[5], 3, 100, 4);

    one_was_there = false;
    r->stages[1].run = meet;
    ck_assert_int_eq(run_it(self, NULL, r), 0);
    ck_assert_uint_eq(r->wrong, 0);
    ck_assert_uint_eq(r->used, 100);
    free(r);
}

START_TEST(items_are_in_a_parallel_stage_at_once)
{
    struct pool *pool = new_pool(sizes[_i]);

    for (int i = 0; i < 100; i++)
        run_on(pool, do_meet, NULL);
    pool_free(pool);
}
END_TEST

static void do_limits(struct wsd_worker *self, void *arg)
{
    struct run *r = run_new(shapes[7], 6, 100, 4);
    struct wsd_stage many[WSD_STAGES_MAX + 1];

    ck_assert_int_eq(wsd_pipeline(self, NULL, r->stages, 0, 4, drop, r), -EINVAL);
    ck_assert_int_eq(wsd_pipeline(self, NULL, r->stages + 1, 5, 4, drop, r), -EINVAL);
    ck_assert_int_eq(wsd_pipeline(self, NULL, r->stages, 6, WSD_TOKENS_MAX + 1, drop, r), -EINVAL);
    r->stages[5].kind = 3;
    ck_assert_int_eq(run_it(self, NULL, r), -EINVAL);
    r->stages[5].kind = O;
    ck_assert_uint_eq(r->calls, 0);
    ck_assert_int_eq(wsd_pipeline(self, NULL, r->stages, 6, WSD_TOKENS_MAX, drop, r), 0);
    for (int i = 0; i <= WSD_STAGES_MAX; i++)
        many[i] = (struct wsd_stage){.run = inner_stage, .kind = O};
    ck_assert_int_eq(wsd_pipeline(self, NULL, many, WSD_STAGES_MAX + 1, 4, drop, r), -EINVAL);
    /* the first one makes nothing */
    ck_assert_int_eq(wsd_pipeline(self, NULL, many, WSD_STAGES_MAX, 4, NULL, NULL), 0);
    free(r);
}

START_TEST(limits_of_a_pipeline)
{
    on_workers(_i, do_limits, NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pipeline");
    TCase *t = tcase_create("pipeline");

    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, items_go_through_all_stages_in_the_order_that_they_ask_for, 0, N_SIZES);
    tcase_add_loop_test(t, an_error_stops_all_and_drops_each_item_once, 0, N_SIZES);
    tcase_add_loop_test(t, another_thread_may_cancel_an_endless_pipeline, 0, N_SIZES);
    tcase_add_loop_test(t, no_stage_is_called_once_a_stage_has_cancelled, 0, N_SIZES);
    tcase_add_loop_test(t, stages_may_hold_loops_and_pipelines, 0, N_SIZES);
    tcase_add_loop_test(t, items_are_in_a_parallel_stage_at_once, 1, N_SIZES);
    tcase_add_loop_test(t, limits_of_a_pipeline, 0, N_SIZES);
    suite_add_tcase(s, t);
    return run_suite(s);
}
