/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.c: nodes of the Unbalanced Tree Search benchmark.
 * Owns nothing; every node follows from its parent's 20 bytes and its index alone, so tasks share nothing.
 * The SHA-1 here takes messages of one block only: seeds of 20 bytes, children of 24. Not for anything else. */
#include "plugins/tree.h"

#include <math.h>
#include <stddef.h>

#include "base/cleanup.h"

#define CHILDREN_MAX 100u /* the benchmark's bound for every node but a binomial root */

const struct tree trees[] = {
    {"T1", TREE_GEOMETRIC, SHAPE_FIXED, 4, 10, 0, 0, 19},
    {"T2", TREE_GEOMETRIC, SHAPE_CYCLIC, 6, 16, 0, 0, 502},
    {"T3", TREE_BINOMIAL, SHAPE_LINEAR, 2000, 0, 0.124875, 8, 42},
    {"T4", TREE_HYBRID, SHAPE_LINEAR, 6, 16, 0.234375, 4, 1},
    {"T5", TREE_GEOMETRIC, SHAPE_LINEAR, 4, 20, 0, 0, 34},
    {"T1L", TREE_GEOMETRIC, SHAPE_FIXED, 4, 13, 0, 0, 29},
    {"T2L", TREE_GEOMETRIC, SHAPE_CYCLIC, 7, 23, 0, 0, 220},
    {"T3L", TREE_BINOMIAL, SHAPE_LINEAR, 2000, 0, 0.200014, 5, 7},
    {NULL, TREE_BINOMIAL, SHAPE_LINEAR, 0, 0, 0, 0, 0},
};

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

/* SHA-1 of 5 or 6 big-endian words. */
static void hash(uint32_t digest[5], const uint32_t *message, unsigned n_words)
{
    uint32_t w[80] = {0};
    uint32_t a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476, e = 0xc3d2e1f0;

    for (unsigned i = 0; i < n_words; i++)
        w[i] = message[i];
    w[n_words] = 0x80000000;
    w[15] = n_words * 32;
    for (unsigned i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (unsigned i = 0; i < 80; i++) {
        uint32_t f, k;

        if (i < 20) {
            f = (b & c) | (~b & d);
            k = 0x5a827999;
        } else if (i < 40) {
            f = b ^ c ^ d;
            k = 0x6ed9eba1;
        } else if (i < 60) {
            f = (b & c) | (b & d) | (c & d);
            k = 0x8f1bbcdc;
        } else {
            f = b ^ c ^ d;
            k = 0xca62c1d6;
        }

        uint32_t next = rotate(a, 5) + f + e + k + w[i];

        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    digest[0] = a + 0x67452301;
    digest[1] = b + 0xefcdab89;
    digest[2] = c + 0x98badcfe;
    digest[3] = d + 0x10325476;
    digest[4] = e + 0xc3d2e1f0;
}

void node_root(struct node *node, const struct tree *tree)
{
    hash(node->state, (const uint32_t[]){0, 0, 0, 0, tree->seed}, 5);
    node->height = 0;
}

void node_child(struct node *node, const struct node *parent, uint32_t index)
{
    const uint32_t *s = parent->state;

    hash(node->state, (const uint32_t[]){s[0], s[1], s[2], s[3], s[4], index}, 6);
    node->height = parent->height + 1;
}

/* 0 <= x < 1 */
static double node_random(const struct node *node)
{
    return (double)(node->state[4] & 0x7fffffff) / 2147483648.0;
}

static unsigned binomial_children(const struct node *node, const struct tree *tree)
{
    return node_random(node) < tree->probability ? tree->children : 0;
}

static double mean_children(const struct node *node, const struct tree *tree)
{
    double depth = node->height, b = tree->branching;

    if (node->height == 0)
        return b;
    switch (tree->shape) {
    case SHAPE_EXPONENTIAL:
        return b * pow(depth, -log(b) / log((double)tree->depth));
    case SHAPE_CYCLIC:
        return node->height > 5 * tree->depth ? 0 : pow(b, sin(2.0 * 3.141592653589793 * depth / tree->depth));
    case SHAPE_FIXED:
        return node->height < tree->depth ? b : 0;
    case SHAPE_LINEAR:
        break;
    }
    return b * (1.0 - depth / tree->depth);
}

static unsigned geometric_children(const struct node *node, const struct tree *tree)
{
    double p = 1.0 / (1.0 + mean_children(node, tree));
    double n = floor(log(1 - node_random(node)) / log(1 - p));

    /* Above the end of the tree p is 1 or more, and n is 0, -0 or not a number. */
    return n > 0 ? n > CHILDREN_MAX ? CHILDREN_MAX : (unsigned)n : 0;
}

unsigned node_children(const struct node *node, const struct tree *tree)
{
    switch (tree->type) {
    case TREE_BINOMIAL:
        return node->height == 0 ? (unsigned)tree->branching : binomial_children(node, tree);
    case TREE_GEOMETRIC:
        return geometric_children(node, tree);
    case TREE_HYBRID:
        break;
    }
    return node->height < tree->depth / 2.0 ? geometric_children(node, tree) : binomial_children(node, tree);
}
