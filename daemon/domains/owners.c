/* SPDX-License-Identifier: Apache-2.0
 *
 * owners.c: which users share an executor.
 * Owns nothing: the configuration says it. [loop]
 * Does not make a domain (domain.c). */
#include "domains/owners.h"

#include <string.h>

#include "domains/domain.h"
#include "domains/plugin-query.h"

uint64_t domain_owner(const struct jobs *jobs, uint32_t uid)
{
    const struct jobs_options *o = &jobs->options;

    for (uint32_t i = 1; i < o->n_domains; i++)
        for (uint32_t j = 0; j < o->domains[i].n_uids; j++)
            if (o->domains[i].uids[j] == uid)
                return o->domains[i].n_uids > 1 ? OWNER_SHARED + i : uid;
    return o->one_domain ? OWNER_SHARED : uid;
}

uint32_t jobs_owner_uid(const struct jobs *jobs, uint64_t owner)
{
    return owner >= OWNER_SHARED ? UINT32_MAX : (uint32_t)owner;
}

const struct jobs_domain *owner_settings(const struct jobs *jobs, uint64_t owner)
{
    const struct jobs_options *o = &jobs->options;

    if (owner >= OWNER_SHARED)
        return &o->domains[owner - OWNER_SHARED];
    for (uint32_t i = 1; i < o->n_domains; i++)
        if (o->domains[i].n_uids == 1 && o->domains[i].uids[0] == (uint32_t)owner)
            return &o->domains[i];
    return &o->domains[0];
}

struct domain *domain_find(const struct jobs *jobs, uint64_t owner, const char *own)
{
    if (jobs->by_key.n == 0)
        return NULL;
    for (struct hash_link *l = hash_first(&jobs->by_key, hash_number(owner)); l; l = hash_next(l)) {
        struct domain *d = container_of(l, struct domain, by_key);

        if (d->key == owner && (own ? d->priv->own && strcmp(d->priv->own, own) == 0 : !d->priv->own))
            return d;
    }
    return NULL;
}
