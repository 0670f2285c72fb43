/* SPDX-License-Identifier: Apache-2.0
 *
 * handshakes.c: chooses the handshake that a new one replaces when the limit is reached.
 * Owns the numbers by origin; not the connections. [loop]
 * Keeps: a new handshake always gets in. It replaces one of the origin that has the most, if that is more than a share
 * of all; among equals, one of its own origin. So a few clients of one origin do not replace each other. Where no
 * origin has more than its share, it replaces one of all. A silent one goes before one that has sent a message, unless
 * the latter are more. So connections that stand still keep out no other, whatever their address, and an honest client
 * is safe from them once its first message is here.
 * Does not know the limit, or close anything. */
#include "frontend/handshakes.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define SHARE 16u /* of all handshakes, an origin's part: 4 of 64 */

struct origin {
    struct hash_link by_key;
    uint64_t key, n, n_heard;
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

/* The keys are hashes with a secret, so no client can find two origins with one key. */
static struct origin *origin_find(const struct handshakes *h, uint64_t key)
{
    struct hash_link *l = hash_first(&h->origins, key);

    return l ? container_of(l, struct origin, by_key) : NULL;
}

static struct origin *origin_find_or_make(struct handshakes *h, uint64_t key)
{
    struct origin *o = origin_find(h, key);

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
    struct origin *o = origin_find_or_make(h, origin);

    if (!o)
        return -ENOMEM;
    *one = (struct handshake){.origin = o, .peer = p};
    list_push_back(&h->all, &one->link);
    o->n++;
    h->n++;
    return 0;
}

void handshake_heard(struct handshakes *h, struct handshake *one)
{
    if (!one->origin || one->heard)
        return;
    one->heard = true;
    one->origin->n_heard++;
    h->n_heard++;
}

void handshake_end(struct handshakes *h, struct handshake *one)
{
    struct origin *o = TAKE(one->origin);

    if (!o)
        return;
    list_remove(&one->link);
    h->n--;
    h->n_heard -= one->heard;
    o->n_heard -= one->heard;
    if (--o->n > 0)
        return;
    hash_remove(&h->origins, &o->by_key);
    free(o);
}

/* The origin that has the most, the new one counted; in a tie its own. NULL: none has more than its share. */
static const struct origin *largest(const struct handshakes *h, const struct origin *own)
{
    uint64_t share = MAX(h->n / SHARE, 1u), most = own ? own->n + 1 : 1;
    const struct origin *found = most > share ? own : NULL;

    most = MAX(most, share);

    list_for_each_entry (const struct handshake, one, &h->all, link) {
        if (one->origin->n <= most)
            continue;
        most = one->origin->n;
        found = one->origin;
    }
    return found;
}

/* Of those of the origin; NULL: of all. */
static struct handshake *oldest(const struct handshakes *h, const struct origin *o, bool heard)
{
    list_for_each_entry (struct handshake, one, &h->all, link) {
        if ((!o || one->origin == o) && one->heard == heard)
            return one;
    }
    return NULL;
}

struct handshake *handshakes_give_way(const struct handshakes *h, uint64_t origin)
{
    const struct origin *o = largest(h, origin_find(h, origin));
    bool heard = o ? 2 * o->n_heard > o->n : 2 * h->n_heard > h->n;

    return oldest(h, o, heard);
}
