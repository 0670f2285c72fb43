/* SPDX-License-Identifier: Apache-2.0
 *
 * test-containers.c: list, hash table, heap, buffer. */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/copy.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "tests/unit/suite.h"

START_TEST(list_keeps_its_order)
{
    struct list head, a, b, c;

    list_init(&head);
    ck_assert(list_empty(&head));
    ck_assert_ptr_null(list_pop_front(&head));
    list_push_back(&head, &b);
    list_push_back(&head, &c);
    list_push_front(&head, &a);
    ck_assert_ptr_eq(list_pop_front(&head), &a);
    list_remove(&c);
    list_remove(&c); /* also where it is in no list */
    ck_assert_ptr_eq(list_pop_front(&head), &b);
    ck_assert(list_empty(&head));
}
END_TEST

START_TEST(hash_finds_what_was_put_in_and_no_more)
{
    enum { N = 10000 };
    struct hash h = {0};
    struct hash_link *links = calloc(N, sizeof(*links));

    ck_assert_ptr_null(hash_first(&h, 1));
    for (uint64_t i = 0; i < N; i++)
        ck_assert_int_eq(hash_insert(&h, &links[i], hash_mix(i)), 0);
    for (uint64_t i = 0; i < N; i += 2)
        hash_remove(&h, &links[i]);
    for (uint64_t i = 0; i < N; i++)
        ck_assert_ptr_eq(hash_first(&h, hash_mix(i)), i % 2 ? &links[i] : NULL);
    ck_assert_uint_eq(h.n, N / 2);
    hash_deinit(&h);
    free(links);
}
END_TEST

/* The table does not touch an entry that was removed, even in a bucket that was about to be split. */
START_TEST(hash_forgets_what_is_removed_while_it_grows)
{
    enum { N = 100000 };
    struct hash_link *links = calloc(N, sizeof(*links));
    struct hash h = {0};
    uint64_t next = 0;

    for (uint64_t i = 0; i < N; i++) {
        ck_assert_int_eq(hash_insert(&h, &links[i], i), 0);
        for (unsigned k = 0; k < 3 && i % 4 == 3; k++, next++) {
            uint64_t gone = hash_mix(next) % i;

            if (links[gone].next == (struct hash_link *)1)
                continue;
            hash_remove(&h, &links[gone]);
            links[gone].next = (struct hash_link *)1; /* following it crashes */
        }
    }
    for (uint64_t i = 0; i < N; i++)
        ck_assert_ptr_eq(hash_first(&h, i), links[i].next == (struct hash_link *)1 ? NULL : &links[i]);
    hash_deinit(&h);
    free(links);
}
END_TEST

/* Below, at and above what goes past the caches, from and to any place in a line, and not a byte beside it. */
START_TEST(copy_away_copies_what_memcpy_does)
{
    static const size_t sizes[] = {0,
                                   1,
                                   63,
                                   64,
                                   COPY_AWAY_LEAST - 1,
                                   COPY_AWAY_LEAST,
                                   COPY_AWAY_LEAST + 1,
                                   COPY_AWAY_LEAST + 63,
                                   2 * COPY_AWAY_LEAST + 100};
    enum { ROOM = 3 * COPY_AWAY_LEAST };
    uint8_t *from = malloc(ROOM), *to = malloc(ROOM), *wanted = malloc(ROOM);

    for (size_t i = 0; i < ROOM; i++)
        from[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        for (size_t at = 0; at < 2 * COPY_LINE; at += 7) {
            size_t source = at * 5 % 64;

            memset(to, 0xee, ROOM);
            memset(wanted, 0xee, ROOM);
            copy_away(to + at, from + source, sizes[i]);
            memcpy(wanted + at, from + source, sizes[i]);
            ck_assert_mem_eq(to, wanted, ROOM);
        }
    free(from);
    free(to);
    free(wanted);
}
END_TEST

/* Each way along right sides has at most log2(n + 1) nodes, and every put and take goes along one or two. */
static size_t heap_ranked(const struct heap *h)
{
    size_t n = 0;

    for (const struct heap_node *node = h->top, *from = NULL, *to; node; from = node, node = to) {
        to = node->parent;
        if (from != node->parent) { /* back from below */
            if (from == node->left && node->right)
                to = node->right;
            continue;
        }
        uint32_t left = node->left ? node->left->rank : 0, right = node->right ? node->right->rank : 0;

        ck_assert(left >= right && node->rank == right + 1);
        ck_assert(!node->parent || node->parent->key <= node->key);
        if (node->left)
            to = node->left;
        n++;
    }
    ck_assert(!h->top || (size_t)1 << h->top->rank <= h->n + 1);
    return n;
}

START_TEST(heap_keeps_its_ways_short)
{
    enum { N = 20000 };
    struct heap h = {.top = NULL};
    struct heap_node *nodes = calloc(N, sizeof(*nodes));

    ck_assert_ptr_nonnull(nodes);
    for (size_t i = 0; i < N; i++) /* as jobs come that are due in an hour each */
        heap_put(&h, &nodes[i], i);
    ck_assert_uint_eq(heap_ranked(&h), N);
    for (size_t i = 0; i < N / 4; i++)
        heap_take(&h, h.top);
    for (size_t i = N / 2; i < N; i += 3)
        heap_take(&h, &nodes[i]);
    ck_assert_uint_eq(heap_ranked(&h), h.n);
    for (size_t i = N / 2; i < N; i += 3)
        heap_put(&h, &nodes[i], N - i);
    ck_assert_uint_eq(heap_ranked(&h), h.n);
    while (!heap_empty(&h))
        heap_take(&h, h.top);
    ck_assert_uint_eq(h.n, 0);
    free(nodes);
}
END_TEST

START_TEST(heap_gives_the_smallest_whatever_is_put_in_and_taken)
{
    enum { N = 20000 };
    struct heap h = {.top = NULL};
    struct heap_node *nodes = calloc(N, sizeof(*nodes));
    uint64_t last = 0, n = 0;

    for (uint64_t i = 0; i < N; i++)
        heap_put(&h, &nodes[i], hash_mix(i) % 1000 + (i % 3 ? 0 : i)); /* many are equal */
    for (uint64_t i = 0; i < N; i += 3)                                /* from anywhere */
        heap_take(&h, &nodes[i]);
    for (uint64_t i = 0; i < N; i += 6)
        heap_put(&h, &nodes[i], N - i);
    ck_assert_uint_eq(h.n, N - (N + 2) / 3 + (N + 5) / 6);
    for (; !heap_empty(&h); n++) {
        struct heap_node *first = h.top;

        ck_assert_uint_ge(first->key, last);
        last = first->key;
        heap_take(&h, first);
    }
    ck_assert_uint_eq(n, N - (N + 2) / 3 + (N + 5) / 6);
    ck_assert_uint_eq(h.n, 0);
    free(nodes);
}
END_TEST

START_TEST(hash_holds_equal_keys_beside_each_other)
{
    struct hash h = {0};
    struct hash_link a, b, *first;

    hash_insert(&h, &a, 7);
    hash_insert(&h, &b, 7);
    first = hash_first(&h, 7);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_nonnull(hash_next(first));
    ck_assert_ptr_ne(hash_next(first), first);
    ck_assert_ptr_null(hash_next(hash_next(first)));
    hash_deinit(&h);
}
END_TEST

START_TEST(hash_walk_meets_each_once_while_the_table_grows)
{
    enum { N = 4000, LATER = 20000 };
    static struct hash_link links[N + LATER];
    static unsigned met[N];
    struct hash h = {0};
    size_t cursor = 0, step = 0;

    ck_assert_ptr_null(hash_walk(&h, &cursor));
    for (uint64_t i = 0; i < N; i++)
        ck_assert_int_eq(hash_insert(&h, &links[i], hash_mix(i)), 0);
    do {
        for (struct hash_link *l = hash_walk(&h, &cursor); l; l = l->next)
            if (l - links < N)
                met[l - links]++;
        for (unsigned k = 0; k < 7 && step < LATER; k++, step++)
            ck_assert_int_eq(hash_insert(&h, &links[N + step], hash_mix(N + step)), 0);
    } while (cursor);
    ck_assert_uint_gt(step, N); /* it has grown meanwhile */
    for (unsigned i = 0; i < N; i++)
        ck_assert_uint_eq(met[i], 1);
    hash_deinit(&h);
}
END_TEST

/* In pieces, and with insertions between them. */
START_TEST(hash_shrinks_and_grows_again)
{
    enum { N = 40000, LEFT = 700 };
    static struct hash_link links[N];
    struct hash h = {0};
    uint64_t found = 0;

    ck_assert(!hash_shrink(&h, 1000));
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = round ? LEFT + 50 : 0; i < N; i++)
            ck_assert_int_eq(hash_insert(&h, &links[i], hash_mix(i)), 0);
        size_t most = h.n_buckets;
        ck_assert(!hash_shrink(&h, 1000)); /* it needs them */
        ck_assert_uint_eq(h.n_buckets, most);
        for (uint64_t i = LEFT; i < N; i++)
            hash_remove(&h, &links[i]);
        uint64_t next = LEFT;
        while (hash_shrink(&h, 777) || next < LEFT + 50)
            if (next < LEFT + 50) {
                ck_assert_int_eq(hash_insert(&h, &links[next], hash_mix(next)), 0);
                next++;
            }
        ck_assert_uint_lt(h.n_buckets, most / 8);
        ck_assert_uint_ge(h.n_buckets, 64);
    }
    for (uint64_t i = 0; i < LEFT; i++)
        found += hash_first(&h, hash_mix(i)) == &links[i];
    ck_assert_uint_eq(found, LEFT);
    hash_deinit(&h);
}
END_TEST

/* A bucket more with every second link: no insert moves more than one bucket, and none is lost on the way. */
START_TEST(hash_finds_each_at_every_size)
{
    enum { N = 1500 };
    static struct hash_link links[N];
    struct hash h = {0};

    for (uint64_t i = 0; i < N; i++) {
        size_t before = h.n_buckets;

        ck_assert_int_eq(hash_insert(&h, &links[i], hash_mix(i)), 0);
        ck_assert(h.n_buckets <= 64 || h.n_buckets - before <= 1);
        uint64_t found = 0; /* each assertion is a system call, and a million of them take seconds */
        for (uint64_t k = 0; k <= i; k++)
            found += hash_first(&h, hash_mix(k)) == &links[k];
        ck_assert_uint_eq(found, i + 1);
        ck_assert_ptr_null(hash_first(&h, hash_mix(i + 1)));
    }
    ck_assert_uint_eq(h.n_buckets, N / 2);
    for (uint64_t i = 0; i < N; i++) {
        hash_remove(&h, &links[i]);
        ck_assert_ptr_null(hash_first(&h, hash_mix(i)));
        ck_assert_uint_eq(h.n, N - i - 1);
    }
    hash_deinit(&h);
}
END_TEST

START_TEST(buffer_gives_back_what_was_put_in_however_it_is_cut)
{
    struct buffer b = {0};
    uint8_t in = 0, out = 0;
    unsigned seed = 1;

    for (int i = 0; i < 100000; i++) {
        uint8_t piece[97];
        size_t n = (size_t)rand_r(&seed) % sizeof(piece);

        for (size_t j = 0; j < n; j++)
            piece[j] = in++;
        ck_assert_int_eq(buffer_put(&b, piece, n), 0);
        n = (size_t)rand_r(&seed) % (buffer_size(&b) + 1);
        bool same = true;
        for (size_t j = 0; j < n; j++)
            same &= buffer_data(&b)[j] == out++;
        ck_assert(same);
        buffer_drop(&b, n);
    }
    ck_assert_uint_le(b.room, 65536); /* taken out means free again */
    buffer_deinit(&b);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("containers");
    Suite *s = suite_create("base");

    tcase_add_test(tc, list_keeps_its_order);
    tcase_add_test(tc, hash_finds_what_was_put_in_and_no_more);
    tcase_add_test(tc, hash_finds_each_at_every_size);
    tcase_add_test(tc, hash_walk_meets_each_once_while_the_table_grows);
    tcase_add_test(tc, hash_shrinks_and_grows_again);
    tcase_add_test(tc, hash_forgets_what_is_removed_while_it_grows);
    tcase_add_test(tc, hash_holds_equal_keys_beside_each_other);
    tcase_add_test(tc, copy_away_copies_what_memcpy_does);
    tcase_add_test(tc, heap_keeps_its_ways_short);
    tcase_add_test(tc, heap_gives_the_smallest_whatever_is_put_in_and_taken);
    tcase_add_test(tc, buffer_gives_back_what_was_put_in_however_it_is_cut);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
