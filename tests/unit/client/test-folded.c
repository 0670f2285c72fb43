/* SPDX-License-Identifier: Apache-2.0
 *
 * test-folded.c: stacks as a hostile executor may write them: what is kept, within which limits, and how it is drawn. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "client/wsctl/flame.h"
#include "client/wsctl/folded.h"
#include "tests/unit/suite.h"

static struct folded folded;

static void teardown(void)
{
    folded_deinit(&folded);
    folded = (struct folded){.n = 0};
}

static void add(const char *text)
{
    ck_assert_int_eq(folded_add(&folded, text, strlen(text)), 0);
}

static void is_written(const char *wanted)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    folded_write(&folded, to);
    fclose(to);
    ck_assert_str_eq(text, wanted);
    free(text);
}

START_TEST(same_stacks_are_added_up)
{
    add("a:b;x;y 1\na:b;x 2\na:");
    add("b;x;y 3\n");
    ck_assert_int_eq(folded_end(&folded), 0);
    ck_assert_uint_eq(folded.samples, 6);
    ck_assert_uint_eq(folded.n_bad, 0);
    is_written("a:b;x 2\na:b;x;y 4\n");
}
END_TEST

START_TEST(what_is_no_stack_is_left_out)
{
    static const char *const bad[] = {
        "",     "a",    "a ",    " 1",          "a 0",     "a -1",       "a 1x",  "a;;b 1",
        ";a 1", "a; 1", "a\t 1", "a\x1b[31m 1", "a\x7f 1", "\xc2\x9b 1", "a 1e3", "a 99999999999999999999",
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        add(bad[i]);
        add("\n");
        ck_assert_msg(folded.n_bad == i + 1 && folded.n == 0, "it was taken: %s", bad[i]);
    }
}
END_TEST

START_TEST(half_a_line_of_the_executor_before_is_dropped)
{
    add("a;b 1");
    folded_break(&folded);
    add("c;d 2\n");
    ck_assert_int_eq(folded_end(&folded), 0);
    is_written("c;d 2\n");
}
END_TEST

static void add_long(size_t size, size_t frames)
{
    char *line = malloc(size + 1);

    memset(line, 'x', size);
    for (size_t i = 1; i < frames; i++)
        line[2 * i - 1] = ';';
    memcpy(line + size - 3, " 1\n", 3);
    line[size] = 0;
    add(line);
    free(line);
}

START_TEST(limits_hold)
{
    add_long(FOLDED_LINE, 1);
    add_long(FOLDED_LINE + 1, 1); /* its newline does not count */
    ck_assert(folded.n == 2 && folded.n_bad == 0);
    add_long(FOLDED_LINE + 2, 1);
    ck_assert(folded.n == 2 && folded.n_bad == 1);
    add_long(4 * FOLDED_FRAMES, FOLDED_FRAMES - 1);
    add_long(4 * FOLDED_FRAMES, FOLDED_FRAMES);
    ck_assert(folded.n == 4 && folded.n_bad == 1);
    add_long(4 * FOLDED_FRAMES, FOLDED_FRAMES + 1);
    ck_assert(folded.n == 4 && folded.n_bad == 2);
    add("c 8589934593\n");
    ck_assert(folded.n == 4 && folded.n_bad == 3);
    for (size_t i = 0; i <= FOLDED_LINE; i += 64)
        add("................................................................");
    ck_assert_uint_eq(folded.n_bad, 4); /* that is no line any more */
    folded_break(&folded);
    for (size_t i = folded.n; i < FOLDED_STACKS; i++) {
        char line[32];

        snprintf(line, sizeof(line), "%zu 1\n", i);
        add(line);
    }
    ck_assert(folded.n == FOLDED_STACKS && folded.n_bad == 4);
    add("one-more 1\n");
    ck_assert(folded.n == FOLDED_STACKS && folded.n_bad == 5);
}
END_TEST

START_TEST(other_subjects_are_left_out)
{
    folded.only = "a";
    add("a:b;x 1\na;x 2\nab:c;x 4\nb:a;x 8\n[wsd] 16\n");
    ck_assert_uint_eq(folded.samples, 3);
    teardown();
    folded.only = "a:b";
    add("a:b;x 1\na:bc;x 2\na:b 4\n");
    ck_assert_uint_eq(folded.samples, 5);
    ck_assert_uint_eq(folded.n_bad, 0);
}
END_TEST

START_TEST(tree_has_each_frame_once)
{
    struct call_frame *all;

    add("a;b 1\na!;c 2\na;b;d 4\na 8\n");
    ck_assert_int_eq(folded_end(&folded), 0);
    ck_assert_int_eq(folded_tree(&folded, &all), 0);
    ck_assert_uint_eq(all->total, 15);
    size_t n = 0;
    for (const struct call_frame *f = all->child; f; f = f->next, n++) {
        if (f->size != 1)
            continue;
        ck_assert(f->total == 13 && f->self == 8 && f->child && !f->child->next);
        ck_assert(f->child->total == 5 && f->child->self == 1);
    }
    ck_assert_uint_eq(n, 2);
    call_frame_free(all);
}
END_TEST

START_TEST(recursion_counts_once_in_a_total)
{
    struct hot *hot;
    size_t n;

    add("s;f;f;f;g 3\ns;f 2\ns 7\n");
    ck_assert_int_eq(folded_end(&folded), 0);
    ck_assert_int_eq(folded_hot(&folded, &hot, &n), 0);
    ck_assert_uint_eq(n, 2);
    ck_assert(hot[0].name[0] == 'g' && hot[0].self == 3 && hot[0].total == 3);
    ck_assert(hot[1].name[0] == 'f' && hot[1].self == 2 && hot[1].total == 5);
    free(hot);
}
END_TEST

START_TEST(names_are_no_markup)
{
    struct call_frame *all;
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    add("a:b;</title><script>alert(1)</script>;\"&' 9\n");
    ck_assert_int_eq(folded_end(&folded), 0);
    ck_assert_int_eq(folded_tree(&folded, &all), 0);
    flame_write(all, "<b>\x1b", to);
    call_frame_free(all);
    fclose(to);
    ck_assert_ptr_null(strstr(text, "<script>alert"));
    ck_assert_ptr_null(strstr(text, "<b>"));
    ck_assert_ptr_null(strchr(text, '\x1b'));
    ck_assert_ptr_nonnull(strstr(text, "&lt;script&gt;alert(1)&lt;/script&gt;"));
    ck_assert_ptr_nonnull(strstr(text, "&quot;&amp;'"));
    free(text);
}
END_TEST

START_TEST(nothing_is_drawn_of_nothing)
{
    struct call_frame *all;
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    ck_assert_int_eq(folded_end(&folded), 0);
    ck_assert_int_eq(folded_tree(&folded, &all), 0);
    flame_write(all, "none", to);
    call_frame_free(all);
    fclose(to);
    ck_assert_ptr_nonnull(strstr(text, "</svg>"));
    free(text);
}
END_TEST

START_TEST(counts_are_bounded_together)
{
    add("a 8589934591\n");
    ck_assert(folded.n == 1 && folded.n_bad == 0);
    add("b 2\n");
    ck_assert(folded.n == 1 && folded.n_bad == 1);
    add("b 1\n");
    ck_assert(folded.n == 2 && folded.n_bad == 1 && folded.samples == FOLDED_COUNT);
    add("a 1\n");
    ck_assert(folded.n == 2 && folded.n_bad == 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("folded");
    TCase *cases = tcase_create("folded");

    tcase_add_checked_fixture(cases, NULL, teardown);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, same_stacks_are_added_up);
    tcase_add_test(cases, what_is_no_stack_is_left_out);
    tcase_add_test(cases, half_a_line_of_the_executor_before_is_dropped);
    tcase_add_test(cases, limits_hold);
    tcase_add_test(cases, counts_are_bounded_together);
    tcase_add_test(cases, other_subjects_are_left_out);
    tcase_add_test(cases, tree_has_each_frame_once);
    tcase_add_test(cases, recursion_counts_once_in_a_total);
    tcase_add_test(cases, names_are_no_markup);
    tcase_add_test(cases, nothing_is_drawn_of_nothing);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
