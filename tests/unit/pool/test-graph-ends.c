/* SPDX-License-Identifier: Apache-2.0
 *
 * test-graph-ends.c: task graphs of wsd/graph.h: errors, cancelling, what is refused, DOT. */
#include <stdio.h>
#include <unistd.h>

#include "graph.h"

/* --- errors and cancelling --- */

static int nothing(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    return 0;
}

static int nine_when_cancelled(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    atomic_fetch_add(&ran, 1);
    while (!wsd_group_cancelled(group))
        sched_yield();
    return 9;
}

static void do_fail(struct wsd_worker *self, void *arg)
{
    enum { LENGTH = 100 };
    struct wsd_graph *g = new_graph(self);
    struct wsd_node *last = NULL;
    int error = 7;

    for (int i = 0; i < LENGTH; i++) {
        struct wsd_node *n = i == 40 ? add(g, NULL, fails, &error) : add(g, NULL, count_one, NULL);
        if (last)
            edge(last, n);
        last = n;
    }
    for (int i = 0; i < 10; i++) {
        error = i % 2 ? 7 : 0;
        ran = 0;
        ck_assert_int_eq(wsd_graph_run_n(self, NULL, g, 3), error);
        ck_assert_uint_eq(ran, error ? 41 : 3 * LENGTH);
    }
    wsd_graph_free(g);
}

START_TEST(nothing_after_a_node_that_fails_runs_and_the_next_run_is_whole)
{
    on_workers(_i, do_fail, NULL);
}
END_TEST

static int five_beside_others(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    while (atomic_load(&ran) < *(uint64_t *)arg)
        sched_yield();
    return 5;
}

/* Those that run when one fails see the flag; their errors come too late. */
static void do_first(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *g = new_graph(self);
    uint64_t others = *(uint64_t *)arg;
    struct wsd_node *begin = add(g, NULL, nothing, NULL);

    edge(begin, add(g, NULL, five_beside_others, &others)); /* given first, so it is run next */
    for (int i = 0; i < 20; i++)
        edge(begin, add(g, NULL, nine_when_cancelled, NULL));
    for (int i = 0; i < 100; i++) {
        ran = 0;
        ck_assert_int_eq(wsd_graph_run(self, NULL, g), 5);
        ck_assert_uint_ge(ran, others);
        ck_assert_uint_le(ran, others ? 20 : 0);
    }
    wsd_graph_free(g);
}

START_TEST(the_first_error_wins_over_those_that_it_causes)
{
    uint64_t others = sizes[_i] - 1;

    on_workers(_i, do_first, &others);
}
END_TEST

static int cancel_own(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    wsd_graph_cancel(arg);
    ck_assert(wsd_group_cancelled(group));
    return 0;
}

static void do_cancel(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *g = new_graph(self);
    struct wsd_node *a = add(g, NULL, count_one, NULL), *b = add(g, NULL, cancel_own, g),
                    *c = add(g, NULL, count_one, NULL);
    struct wsd_group group;

    edge(a, b);
    edge(b, c);
    wsd_graph_cancel(g); /* no run: nothing */
    ran = 0;
    ck_assert_int_eq(wsd_graph_run_n(self, NULL, g, 5), -ECANCELED);
    ck_assert_uint_eq(ran, 1);
    wsd_group_begin(self, &group, NULL);
    wsd_group_cancel(&group);
    ck_assert_int_eq(wsd_graph_run(self, &group, g), -ECANCELED);
    ck_assert_uint_eq(ran, 1);
    ck_assert_int_eq(wsd_group_end(self, &group), -ECANCELED);
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), -ECANCELED);
    ck_assert_uint_eq(ran, 2);
    wsd_graph_free(g);
}

START_TEST(a_cancelled_run_begins_nothing_more)
{
    on_workers(_i, do_cancel, NULL);
}
END_TEST

struct outside {
    pthread_t thread;
    struct wsd_graph *graph;
};

static void *cancel_outside(void *arg)
{
    struct outside *o = arg;

    while (atomic_load(&ran) < 1000)
        sched_yield();
    wsd_graph_cancel(o->graph);
    return NULL;
}

static void do_outside(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *inner = new_graph(self), *outer = new_graph(self);
    struct wsd_node *a = add(inner, NULL, count_one, NULL), *b = add(inner, NULL, count_one, NULL),
                    *c = add_condition(inner, NULL, nothing, NULL), *n;

    edge(a, b);
    edge(b, c);
    edge(c, b); /* for ever */
    ck_assert_int_eq(wsd_graph_add_graph(outer, NULL, inner, &n), 0);
    for (int i = 0; i < 2; i++) {
        struct outside o = {.graph = i ? outer : inner};
        ran = 0;
        ck_assert_int_eq(pthread_create(&o.thread, NULL, cancel_outside, &o), 0);
        ck_assert_int_eq(wsd_graph_run(self, NULL, o.graph), -ECANCELED);
        ck_assert_int_eq(pthread_join(o.thread, NULL), 0);
        ck_assert_uint_ge(ran, 1000);
    }
    wsd_graph_free(outer);
    wsd_graph_free(inner);
}

START_TEST(another_thread_cancels_a_loop_without_end)
{
    on_workers(_i, do_outside, NULL);
}
END_TEST

/* --- what is refused --- */

static int refused_in_run(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    struct wsd_graph *g = arg;
    struct wsd_node *n = NULL;

    ck_assert_int_eq(wsd_graph_add(g, NULL, count_one, NULL, &n), -EBUSY);
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), -EBUSY);
    ck_assert_ptr_null(n);
    return 0;
}

static void do_refused(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *g = new_graph(self), *other = new_graph(self);
    struct wsd_node *a, *b, *c, *n = NULL;
    char name[WSD_NODE_NAME_MAX + 2];
    int zero = 0;

    ran = 0;
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0); /* empty */
    memset(name, 'x', sizeof(name) - 1);
    name[WSD_NODE_NAME_MAX + 1] = '\0';
    ck_assert_int_eq(wsd_graph_add(g, name, count_one, NULL, &n), -ENAMETOOLONG);
    ck_assert_int_eq(wsd_graph_add(g, NULL, NULL, NULL, &n), -EINVAL);
    ck_assert_int_eq(wsd_graph_add_graph(g, NULL, NULL, &n), -EINVAL);
    ck_assert_int_eq(wsd_graph_add_graph(g, NULL, g, &n), -EINVAL);
    ck_assert_int_eq(g->ops->graph_add(g, 3, NULL, count_one, NULL, &n), -EINVAL);
    ck_assert_ptr_null(n);
    name[WSD_NODE_NAME_MAX] = '\0';
    a = add(g, name, count_one, NULL);
    name[WSD_NODE_NAME_MAX - 1] = '\0';
    b = add(g, name, count_one, NULL);
    ck_assert_int_eq(wsd_graph_precede(a, add(other, NULL, refused_in_run, other)), -EINVAL);
    ck_assert_int_eq(wsd_graph_run(self, NULL, other), 0);
    ck_assert_uint_eq(ran, 0);
    c = add_condition(g, NULL, fails, &zero);
    edge(a, c);
    edge(c, a);
    edge(c, b);
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), -EINVAL); /* none is the first */
    n = add(g, NULL, count_one, NULL);
    edge(n, n);
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), -ELOOP);
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), -ELOOP);
    ck_assert_uint_eq(ran, 0);
    wsd_graph_free(g);
    g = new_graph(self);
    a = add(g, NULL, count_one, NULL);
    b = add(g, NULL, count_one, NULL);
    c = add(g, NULL, count_one, NULL);
    add(g, NULL, count_one, NULL);
    edge(a, b);
    edge(b, c);
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0);
    ck_assert_uint_eq(ran, 4);
    edge(c, b);
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), -ELOOP); /* further on */
    ck_assert_uint_eq(ran, 4);
    wsd_graph_free(g);
    wsd_graph_free(other);
    wsd_graph_free(NULL);
}

START_TEST(what_cannot_run_is_refused_before_anything_runs)
{
    on_workers(_i, do_refused, NULL);
}
END_TEST

static int broken_node(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    if (*(int *)arg == 0)
        WSD_SPAWN(fib, 3);
    else if (*(int *)arg == 1)
        wsd_group_spawn(self, group, NULL, NULL);
    else
        wsd_graph_free(((struct wsd_graph **)arg)[1]);
    return 0;
}

static void do_broken(struct wsd_worker *self, void *arg)
{
    struct {
        int which;
        struct wsd_graph *graph;
    } a = {.which = *(int *)arg, .graph = new_graph(self)};

    add(a.graph, NULL, broken_node, &a);
    wsd_graph_run(self, NULL, a.graph);
    _exit(0); /* it was not */
}

START_TEST(a_program_that_breaks_the_rules_is_stopped)
{
    on_workers(0, do_broken, &_i);
}
END_TEST

/* --- looking --- */

struct text {
    char text[4096];
    size_t size, lines;
};

static int put(const char *text, size_t size, void *arg)
{
    struct text *t = arg;

    ck_assert_uint_lt(t->size + size, sizeof(t->text));
    ck_assert_uint_eq(strnlen(text, size), size);
    ck_assert_int_eq(text[size - 1], '\n');
    memcpy(t->text + t->size, text, size);
    t->size += size;
    return ++t->lines == 3 && t->size == 0 ? 1 : 0;
}

static int put_two(const char *text, size_t size, void *arg)
{
    return ++*(int *)arg == 2 ? -EPIPE : 0;
}

static void do_dump(struct wsd_worker *self, void *arg)
{
    static const char expected[] = "digraph wsd {\n"
                                   "  n0 [label=\"read\"];\n"
                                   "  n1 [label=\"done?\" shape=diamond];\n"
                                   "  n2 [label=\"a \\\"b\\\" \\\\N &amp;lt; ?x\\ny\"];\n"
                                   "  n3 [label=\"inner\" shape=box3d];\n"
                                   "  n4 [label=\"4\"];\n"
                                   "  n0 -> n1;\n"
                                   "  n1 -> n0 [style=dashed label=\"0\"];\n"
                                   "  n1 -> n2 [style=dashed label=\"1\"];\n"
                                   "  n1 -> n3 [style=dashed label=\"2\"];\n"
                                   "  n3 -> n4;\n"
                                   "}\n";
    struct wsd_graph *g = new_graph(self), *inner = new_graph(self);
    struct text t = {.size = 0};
    struct wsd_node *n[5];
    int lines = 0;

    n[0] = add(g, "read", count_one, NULL);
    n[1] = add_condition(g, "done?", count_one, NULL);
    n[2] = add(g, "a \"b\" \\N &lt; \tx\ny", count_one, NULL);
    ck_assert_int_eq(wsd_graph_add_graph(g, "inner", inner, &n[3]), 0);
    n[4] = add(g, NULL, count_one, NULL);
    edge(n[0], n[1]);
    edge(n[3], n[4]);
    edge(n[1], n[0]);
    edge(n[1], n[2]);
    edge(n[1], n[3]);
    ck_assert_int_eq(wsd_graph_dump(g, put, &t), 0);
    ck_assert_str_eq(t.text, expected);
    ck_assert_int_eq(wsd_graph_dump(g, put_two, &lines), -EPIPE);
    ck_assert_int_eq(lines, 2);
    if (system("command -v dot >/dev/null 2>&1") == 0) {
        FILE *dot = popen("dot -Tsvg >/dev/null", "w");
        ck_assert_ptr_nonnull(dot);
        fputs(t.text, dot);
        ck_assert_int_eq(pclose(dot), 0);
    }
    wsd_graph_free(g);
    wsd_graph_free(inner);
}

START_TEST(a_dump_is_what_dot_reads)
{
    on_workers(0, do_dump, NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("graph-ends");
    TCase *t = tcase_create("graph-ends");

    tcase_set_timeout(t, SLOW ? 300 : 60);
    tcase_add_loop_test(t, what_cannot_run_is_refused_before_anything_runs, 0, N_SIZES);
    tcase_add_loop_test(t, nothing_after_a_node_that_fails_runs_and_the_next_run_is_whole, 0, N_SIZES);
    tcase_add_loop_test(t, the_first_error_wins_over_those_that_it_causes, 0, N_SIZES);
    tcase_add_loop_test(t, a_cancelled_run_begins_nothing_more, 0, N_SIZES);
    tcase_add_loop_test(t, another_thread_cancels_a_loop_without_end, 0, N_SIZES);
    tcase_add_loop_test_raise_signal(t, a_program_that_breaks_the_rules_is_stopped, SIGABRT, 0, 3);
    tcase_add_test(t, a_dump_is_what_dot_reads);
    suite_add_tcase(s, t);
    return run_suite(s);
}
