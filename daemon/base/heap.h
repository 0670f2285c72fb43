/* SPDX-License-Identifier: Apache-2.0
 *
 * heap.h: an intrusive leftist heap: the smallest key first, equal keys in no order. The node is embedded in the user's
 * object, so that nothing here can fail for want of memory. First is O(1); put and take are O(log n), each of them; no
 * recursion.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    struct heap_node *left, *right, *parent;
    uint64_t key;
    uint32_t rank; /* nodes on the way along right sides, with this one */
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
