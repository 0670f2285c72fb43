/* SPDX-License-Identifier: Apache-2.0
 *
 * heap.c: the pairing heap of Fredman, Sedgewick, Sleator and Tarjan (1986).
 * Owns nothing; whoever owns the nodes. One thread.
 * Keeps: no node's key is smaller than its parent's.
 * Rejected: a binary heap in an array, which is a little quicker, but has to grow where what is timed must not fail. */
#include "base/heap.h"

/* Two heaps become one; neither top has siblings. */
static struct heap_node *meld(struct heap_node *a, struct heap_node *b)
{
    if (!a || !b)
        return a ? a : b;
    if (b->key < a->key) {
        struct heap_node *c = a;

        a = b;
        b = c;
    }
    b->next = a->child;
    b->before = a;
    if (a->child)
        a->child->before = b;
    a->child = b;
    return a;
}

/* A row of siblings becomes one heap: in pairs from the left, then all of them from the right. */
static struct heap_node *meld_row(struct heap_node *first)
{
    struct heap_node *pairs = NULL, *all = NULL;

    while (first) {
        struct heap_node *a = first, *b = a->next;

        first = b ? b->next : NULL;
        a->next = NULL;
        if (b)
            b->next = NULL;
        a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs) {
        struct heap_node *a = pairs;

        pairs = a->next;
        a->next = NULL;
        all = meld(all, a);
    }
    return all;
}

void heap_put(struct heap *h, struct heap_node *node, uint64_t key)
{
    *node = (struct heap_node){.key = key};
    h->top = meld(h->top, node);
    h->top->before = h->top;
    h->n++;
}

void heap_take(struct heap *h, struct heap_node *node)
{
    struct heap_node *rest = meld_row(node->child);

    if (node == h->top) {
        h->top = rest;
    } else {
        if (node->before->child == node)
            node->before->child = node->next;
        else
            node->before->next = node->next;
        if (node->next)
            node->next->before = node->before;
        h->top = meld(h->top, rest);
    }
    if (h->top)
        h->top->before = h->top;
    *node = (struct heap_node){.key = node->key};
    h->n--;
}
