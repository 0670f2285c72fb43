/* SPDX-License-Identifier: Apache-2.0
 *
 * test-graph-limits.c: graphs with as many nodes and edges as there may be; built with small limits. */
#include "graph.h"

static void do_limits(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *g = new_graph(self);
    struct wsd_node *n = NULL, *first = NULL, *none = NULL;

    ran = 0;
    for (uint32_t i = 0; i < GRAPH_NODES_MAX; i++) {
        n = add(g, NULL, count_one, NULL);
        first = first ? first : n;
    }
    ck_assert_int_eq(wsd_graph_add(g, NULL, count_one, NULL, &none), -E2BIG);
    ck_assert_ptr_null(none);
    for (uint32_t i = 0; i < GRAPH_EDGES_MAX; i++)
        edge(first, n);
    ck_assert_int_eq(wsd_graph_precede(first, n), -E2BIG);
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0);
    ck_assert_uint_eq(ran, GRAPH_NODES_MAX);
    wsd_graph_free(g);
}

START_TEST(nodes_and_edges_have_a_limit)
{
    on_workers(_i, do_limits, NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("graph-limits");
    TCase *t = tcase_create("graph-limits");

    tcase_set_timeout(t, SLOW ? 300 : 60);
    tcase_add_loop_test(t, nodes_and_edges_have_a_limit, 0, N_SIZES);
    suite_add_tcase(s, t);
    return run_suite(s);
}
