/* SPDX-License-Identifier: Apache-2.0
 *
 * heap.h: an intrusive pairing heap: the smallest key first, equal keys in no order. The node is embedded in the user's object,
 * so that nothing here can fail for want of memory. Put and first are O(1), take is O(log n), amortized; no recursion.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    struct heap_node *child, *next;
    struct heap_node *before; /* the sibling before it, or the parent of a first child; itself: in no heap or at the top */
    uint64_t key;
};

struct heap {
    struct heap_node *top; /* NULL: empty */
    size_t n;
};

static inline bool heap_empty(const struct heap *h)
{
    return !h->top;
}

void heap_put(struct heap *h, struct heap_node *node, uint64_t key);
void heap_take(struct heap *h, struct heap_node *node); /* is in this heap */
