/* SPDX-License-Identifier: Apache-2.0
 *
 * handshakes.c: who may still shake hands where there are as many handshakes as there may be.
 * Owns the numbers by origin; not the connections. [loop]
 * Keeps: who holds handshakes keeps out those of his own origin only.
 * Does not know the limit, or close anything. */
#include "frontend/handshakes.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct origin {
    struct hash_link by_key;
    uint64_t key, n;
};

void handshakes_init(struct handshakes *h)
{
    *h = (struct handshakes){.n = 0};
    list_init(&h->all);
}

void handshakes_deinit(struct handshakes *h)
{
    hash_deinit(&h->origins);
}

uint64_t handshake_origin(const struct sockaddr_storage *a)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    uint32_t address;

    if (a->ss_family == AF_INET6)
        return hash_text(AF_INET6, (const char *)&v6->sin6_addr, 8);
    if (a->ss_family != AF_INET)
        return 0;
    address = ntohl(v4->sin_addr.s_addr);
    return hash_text(AF_INET, "", 0) ^ hash_number(address >> 24 == IN_LOOPBACKNET ? INADDR_LOOPBACK : address);
}

/* The keys are hashes with a secret: nobody finds two origins of one key. */
static struct origin *find(const struct handshakes *h, uint64_t key)
{
    struct hash_link *l = hash_first(&h->origins, key);

    return l ? container_of(l, struct origin, by_key) : NULL;
}

static struct origin *find_or_make(struct handshakes *h, uint64_t key)
{
    struct origin *o = find(h, key);

    if (o)
        return o;
    o = calloc(1, sizeof(*o));
    if (!o || hash_insert(&h->origins, &o->by_key, key) < 0) {
        free(o);
        return NULL;
    }
    o->key = key;
    return o;
}

int handshake_begin(struct handshakes *h, struct handshake *one, struct peer *p, uint64_t origin)
{
    struct origin *o = find_or_make(h, origin);

    if (!o)
        return -ENOMEM;
    *one = (struct handshake){.origin = o, .peer = p};
    list_push_back(&h->all, &one->link);
    o->n++;
    h->n++;
    return 0;
}

void handshake_end(struct handshakes *h, struct handshake *one)
{
    struct origin *o = TAKE(one->origin);

    if (!o)
        return;
    list_remove(&one->link);
    h->n--;
    if (--o->n > 0)
        return;
    hash_remove(&h->origins, &o->by_key);
    free(o);
}

struct handshake *handshakes_give_way(struct handshakes *h, uint64_t origin)
{
    const struct origin *own = find(h, origin);
    uint64_t most = own ? own->n + 1 : 1;
    struct handshake *found = NULL;

    list_for_each(l, &h->all)
    {
        struct handshake *one = container_of(l, struct handshake, link);

        if (one->origin->n <= most)
            continue;
        most = one->origin->n;
        found = one;
    }
    return found;
}
