/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.h: the trees of the Unbalanced Tree Search benchmark (Olivier and others, LCPC 2006): a node is 20 bytes of
 * SHA-1, from which its number of children follows. All calls [any].
 */
#pragma once

#include <stdint.h>

enum tree_type { TREE_BINOMIAL, TREE_GEOMETRIC, TREE_HYBRID };
enum tree_shape { SHAPE_LINEAR, SHAPE_EXPONENTIAL, SHAPE_CYCLIC, SHAPE_FIXED };

/* One of the published parameter sets. */
struct tree {
    const char *name;
    enum tree_type type;
    enum tree_shape shape; /* geometric: how the mean branching changes with the depth */
    double branching;      /* b0: of the root */
    unsigned depth;        /* geometric: where it ends */
    double probability;    /* binomial, q: of having children */
    unsigned children;     /* binomial, m: how many then */
    uint32_t seed;
};

struct node {
    uint32_t state[5]; /* the 20 bytes as big-endian words */
    uint32_t height;
};

/* The trees with published counts, ending in one without a name. */
extern const struct tree trees[];

void node_root(struct node *node, const struct tree *tree);
void node_child(struct node *node, const struct node *parent, uint32_t index);
unsigned node_children(const struct node *node, const struct tree *tree);
