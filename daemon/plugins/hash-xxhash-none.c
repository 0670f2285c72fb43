/* SPDX-License-Identifier: Apache-2.0
 *
 * hash-xxhash-none.c: takes the place of hash-xxhash.c in a build without libxxhash: no algorithm is offered. */
#include "hash.h"

#include <errno.h>

static int method_new(const char *name, void **ret_method)
{
    return -ENOTSUP;
}

const struct hash_family hash_xxhash = {.method_new = method_new};
