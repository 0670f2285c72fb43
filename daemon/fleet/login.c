/* SPDX-License-Identifier: Apache-2.0
 *
 * login.c: where the servers are, and how a node shows them who it is.
 * Owns nothing. */
#include "fleet/login.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define SERVERS_MAX 16

static natsStatus set_servers(const struct login *l, natsOptions *o)
{
    _cleanup_(freep) char *copy = strdup(l->servers);
    const char *urls[SERVERS_MAX];
    int n = 0;

    if (!copy)
        return NATS_NO_MEMORY;
    for (char *state, *url = strtok_r(copy, ", ", &state); url; url = strtok_r(NULL, ", ", &state)) {
        if (n == SERVERS_MAX)
            return NATS_INVALID_ARG;
        urls[n++] = url;
    }
    return n ? natsOptions_SetServers(o, urls, n) : NATS_INVALID_ARG;
}

natsStatus login_apply(const struct login *l, natsOptions *o)
{
    natsStatus s = set_servers(l, o);

    if (s == NATS_OK && (l->ca || l->certificate))
        s = natsOptions_SetSecure(o, true);
    if (s == NATS_OK && l->ca)
        s = natsOptions_LoadCATrustedCertificates(o, l->ca);
    if (s == NATS_OK && l->certificate)
        s = natsOptions_LoadCertificatesChain(o, l->certificate, l->key);
    if (s == NATS_OK && l->credentials)
        s = natsOptions_SetUserCredentialsFromFiles(o, l->credentials, NULL);
    return s;
}
