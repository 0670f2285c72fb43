/* SPDX-License-Identifier: Apache-2.0
 *
 * list.h: the circular doubly linked list, embedded in its members. A list head is a struct list of its own, in no
 * member. A member that is in no list points to itself after list_init().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct list {
    struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_insert_before(struct list *at, struct list *l)
{
    l->prev = at->prev;
    l->next = at;
    at->prev->next = l;
    at->prev = l;
}

static inline void list_push_back(struct list *head, struct list *l)
{
    list_insert_before(head, l);
}

static inline void list_push_front(struct list *head, struct list *l)
{
    list_insert_before(head->next, l);
}

/* Also right for a member that is in no list. */
static inline void list_remove(struct list *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    list_init(l);
}

static inline struct list *list_pop_front(struct list *head)
{
    struct list *l = head->next;

    if (l == head)
        return NULL;
    list_remove(l);
    return l;
}

/* To the end of another list, in their order; `from` is empty then. */
static inline void list_move_all(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

/* Walks the members of a list, in order: struct TYPE *entry, linked by `member`. With _safe, `entry` may be removed
 * meanwhile. */
#define list_for_each_entry(TYPE, entry, head, member)                                                                 \
    for (TYPE *entry = container_of((head)->next, TYPE, member); &entry->member != (head);                             \
         entry = container_of(entry->member.next, TYPE, member))
#define list_for_each_entry_safe(TYPE, entry, after, head, member)                                                     \
    for (TYPE *entry = container_of((head)->next, TYPE, member),                                                       \
              *after = container_of(entry->member.next, TYPE, member);                                                 \
         &entry->member != (head); entry = after, after = container_of(after->member.next, TYPE, member))
#define list_for_each(l, head) for (struct list *l = (head)->next; l != (head); l = l->next)
#define list_for_each_safe(l, n, head)                                                                                 \
    for (struct list *l = (head)->next, *n = l->next; l != (head); l = n, n = l->next)
