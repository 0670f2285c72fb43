/* SPDX-License-Identifier: Apache-2.0
 *
 * login.h: where the servers are, and how a node proves its identity to them.
 */
#pragma once

#include <nats/nats.h>

/* NULL: not used. Lives as long as what is made by it. */
struct login {
    const char *servers; /* URLs with commas between */
    const char *ca;      /* file: authorities that must have signed the servers' certificates; then TLS is wanted */
    const char *certificate, *key; /* files: this node's own, both or none */
    const char *credentials;       /* file of a user, as `nsc` writes it */
};

/* What to do about that error of a connection, which libnats has put into these words. [any] */
const char *login_advice(const struct login *l, const char *words);
/* Sets these, and nothing else. [any] */
natsStatus login_apply(const struct login *l, natsOptions *o);
