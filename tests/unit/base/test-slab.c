/* SPDX-License-Identifier: Apache-2.0
 *
 * test-slab.c: cells are apart, come again, and their blocks are freed. */
#include <check.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/slab.h"
#include "tests/unit/suite.h"

#define MANY 5000u

static struct slab slab;
static char *cells[MANY];

static void take_all(size_t size)
{
    for (uint32_t i = 0; i < MANY; i++) {
        cells[i] = slab_take(&slab, size);
        ck_assert_ptr_nonnull(cells[i]);
        ck_assert_uint_eq((uintptr_t)cells[i] % 8, 0);
        memset(cells[i], (int)(i % 251), size);
    }
}

static void has_its_own(uint32_t i, size_t size)
{
    for (size_t at = 0; at < size; at++)
        ck_assert_int_eq((unsigned char)cells[i][at], (int)(i % 251));
}

static void give_all(void)
{
    for (uint32_t i = 0; i < MANY; i++)
        slab_give(cells[i]);
}

START_TEST(cells_of_each_size_are_apart)
{
    static const size_t sizes[] = {0, 1, 8, 9, 120, 129, 480, 1016, 2040, 5000};

    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        take_all(sizes[s]);
        for (uint32_t i = 0; i < MANY; i++)
            has_its_own(i, sizes[s]);
        give_all();
        slab_trim(&slab);
        ck_assert_ptr_null(slab.partial);
        ck_assert_ptr_null(slab.empty);
    }
}
END_TEST

START_TEST(a_cell_comes_again_before_a_new_block_is_cut)
{
    take_all(120);
    /* in no order of theirs: each third, then what is left in its holes */
    for (uint32_t i = 0; i < MANY; i += 3)
        slab_give(cells[i]);
#ifndef __SANITIZE_ADDRESS__
    size_t before = mallinfo2().uordblks;
#endif
    for (uint32_t i = 0; i < MANY; i += 3) {
        cells[i] = slab_take(&slab, 120);
        memset(cells[i], (int)(i % 251), 120);
    }
#ifndef __SANITIZE_ADDRESS__
    ck_assert_uint_eq(mallinfo2().uordblks, before);
#endif
    for (uint32_t i = 0; i < MANY; i++)
        has_its_own(i, 120);
    give_all();
    slab_trim(&slab);
}
END_TEST

START_TEST(no_more_than_some_are_kept_when_all_come_back)
{
    take_all(120);
    give_all();
    ck_assert_ptr_null(slab.partial);
    ck_assert_uint_le(slab.n_kept, SLAB_KEPT);
    if (SLAB_MOST)
        ck_assert_uint_gt(slab.n_kept, SLAB_KEPT - SLAB_MOST / 120); /* and no fewer */
    slab_trim(&slab);
    ck_assert_uint_eq(slab.n_kept, 0);
    ck_assert_ptr_null(slab.empty);
}
END_TEST

START_TEST(a_cell_of_no_slab_is_a_block_of_its_own)
{
    char *cell = slab_take(NULL, 3000);

    ck_assert_ptr_nonnull(cell);
    memset(cell, 1, 3000);
    slab_give(cell);
    slab_give(NULL);
}
END_TEST

#ifndef __SANITIZE_ADDRESS__
START_TEST(a_cell_costs_a_word)
{
    size_t before = mallinfo2().uordblks;

    take_all(120);
    ck_assert_uint_le((mallinfo2().uordblks - before) / MANY, 128 + 5);
    give_all();
    slab_trim(&slab);
    ck_assert_uint_eq(mallinfo2().uordblks, before);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("slab");
    TCase *c = tcase_create("slab");

    tcase_add_test(c, cells_of_each_size_are_apart);
    tcase_add_test(c, a_cell_comes_again_before_a_new_block_is_cut);
    tcase_add_test(c, no_more_than_some_are_kept_when_all_come_back);
    tcase_add_test(c, a_cell_of_no_slab_is_a_block_of_its_own);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_test(c, a_cell_costs_a_word);
#endif
    suite_add_tcase(s, c);
    return run_suite(s);
}
