/* SPDX-License-Identifier: Apache-2.0
 *
 * heap.c: the leftist heap of Crane (1972), with parents, so that any node can be taken.
 * Owns nothing; the caller owns the nodes. One thread.
 * Keeps: no node's key is smaller than its parent's. A node's right side is not the one of higher rank, and the node's
 * rank is one more than that side's. So the path along right sides is at most the logarithm of the heap's size, and
 * ranks grow on the way up.
 * Rejected: a pairing heap. Its first take after a million puts melds all of them, 0.1 s in one turn of the loop. Also
 * rejected: a binary heap in an array. It has to grow, while timing must not fail. */
#include "base/heap.h"

static uint32_t rank_of(const struct heap_node *n)
{
    return n ? n->rank : 0;
}

static void set_rank(struct heap_node *n)
{
    if (rank_of(n->left) < rank_of(n->right)) {
        struct heap_node *l = n->left;

        n->left = n->right;
        n->right = l;
    }
    n->rank = rank_of(n->right) + 1;
}

/* Two heaps become one: their ways along the right are merged by key, and ranked from the end up. */
static struct heap_node *meld(struct heap_node *a, struct heap_node *b)
{
    struct heap_node *top = NULL, *last = NULL;

    while (a && b) {
        struct heap_node *least = b->key < a->key ? b : a;

        if (least == b)
            b = a;
        a = least->right;
        least->parent = last;
        if (last)
            last->right = least;
        else
            top = least;
        last = least;
    }
    struct heap_node *rest = a ? a : b;
    if (rest)
        rest->parent = last;
    if (!last)
        return rest;
    last->right = rest;
    for (struct heap_node *n = last; n; n = n->parent)
        set_rank(n);
    return top;
}

void heap_put(struct heap *h, struct heap_node *node, uint64_t key)
{
    *node = (struct heap_node){.key = key, .rank = 1};
    h->top = meld(h->top, node);
    h->n++;
}

void heap_take(struct heap *h, struct heap_node *node)
{
    struct heap_node *up = node->parent, *rest = meld(node->left, node->right);

    if (rest)
        rest->parent = up;
    if (!up)
        h->top = rest;
    else if (up->left == node)
        up->left = rest;
    else
        up->right = rest;
    for (uint32_t before; up; up = up->parent) {
        before = up->rank;
        set_rank(up);
        if (up->rank == before)
            break;
    }
    *node = (struct heap_node){.key = node->key};
    h->n--;
}
