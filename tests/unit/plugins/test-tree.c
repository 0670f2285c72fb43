/* SPDX-License-Identifier: Apache-2.0
 *
 * test-tree.c: SHA-1 nodes against OpenSSL, and a published count walked in sequence. */
#include "plugins/tree.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static void put_be32(unsigned char *bytes, uint32_t x)
{
    for (unsigned i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(x >> (24 - 8 * i));
}

static void assert_hash(const struct node *node, const unsigned char *message, size_t size)
{
    unsigned char digest[EVP_MAX_MD_SIZE], state[20];

    ck_assert(EVP_Digest(message, size, digest, NULL, EVP_sha1(), NULL));
    for (unsigned i = 0; i < 5; i++)
        put_be32(state + 4 * i, node->state[i]);
    ck_assert_mem_eq(state, digest, sizeof(state));
}

START_TEST(root_is_the_hash_of_the_seed)
{
    unsigned char message[20] = {0};
    struct node root;

    node_root(&root, &trees[0]);
    put_be32(message + 16, trees[0].seed);
    assert_hash(&root, message, sizeof(message));
    ck_assert_uint_eq(root.height, 0);
}
END_TEST

START_TEST(child_is_the_hash_of_parent_and_index)
{
    unsigned char message[24];
    struct node node, child;

    node_root(&node, &trees[0]);
    for (uint32_t i = 0; i < 1000; i++) {
        for (unsigned j = 0; j < 5; j++)
            put_be32(message + 4 * j, node.state[j]);
        put_be32(message + 20, i);
        node_child(&child, &node, i);
        assert_hash(&child, message, sizeof(message));
        ck_assert_uint_eq(child.height, node.height + 1);
        node = child;
    }
}
END_TEST

static uint64_t walk(const struct node *node, const struct tree *tree)
{
    uint64_t nodes = 1;
    unsigned n = node_children(node, tree);

    for (unsigned i = 0; i < n; i++) {
        struct node child;

        node_child(&child, node, i);
        nodes += walk(&child, tree);
    }
    return nodes;
}

START_TEST(first_tree_has_the_published_number_of_nodes)
{
    struct node root;

    ck_assert_str_eq(trees[0].name, "T1");
    node_root(&root, &trees[0]);
    ck_assert_uint_eq(walk(&root, &trees[0]), 4130071);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins/tree");
    TCase *tcase = tcase_create("tree");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, root_is_the_hash_of_the_seed);
    tcase_add_test(tcase, child_is_the_hash_of_parent_and_index);
    tcase_add_test(tcase, first_tree_has_the_published_number_of_nodes);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
