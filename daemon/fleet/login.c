/* SPDX-License-Identifier: Apache-2.0
 *
 * login.c: where the servers are, and how a node proves its identity to them.
 * Owns nothing. */
#include "fleet/login.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "configuration/configuration.h"

static natsStatus set_servers(const struct login *l, natsOptions *o)
{
    _cleanup_(freep) char *copy = strdup(l->servers);
    const char *urls[CONFIG_SERVERS_MAX];
    int n = 0;

    if (!copy)
        return NATS_NO_MEMORY;
    for (char *state, *url = strtok_r(copy, ", ", &state); url; url = strtok_r(NULL, ", ", &state)) {
        if (n == CONFIG_SERVERS_MAX)
            return NATS_INVALID_ARG;
        urls[n++] = url;
    }
    return n ? natsOptions_SetServers(o, urls, n) : NATS_INVALID_ARG;
}

const char *login_advice(const struct login *l, const char *words)
{
    const struct {
        const char *word, *advice;
    } all[] = {
        {"unable to get local issuer", l->ca ? "the certificates of [fleet] tls-ca have not signed that of the server"
                                             : "name the certificate that has signed the server's in [fleet] tls-ca"},
        {"self-signed", "[fleet] tls-ca has to name the certificate that has signed that of the server"},
        {"hostname mismatch", "[fleet] servers has to name the server as its certificate does"},
        {"IP address mismatch", "[fleet] servers has to name the server as its certificate does"},
        {"Expected 'PONG'", l->certificate ? "the server does not take the certificate of [fleet] tls-cert"
                                           : "if it wants a certificate of this node: [fleet] tls-cert and tls-key"},
        {"rror loading", "it has to be a file in PEM, and a key has to fit its certificate"},
        {"nkey", "[fleet] creds has to be a file as nsc writes it"},
        {"uthorization", "name a user of the servers in [fleet] creds"},
        {"uthentication", "name a user of the servers in [fleet] creds"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (strstr(words, all[i].word))
            return all[i].advice;
    return "start nats-server with JetStream (-js), or name another one in [fleet] servers";
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
