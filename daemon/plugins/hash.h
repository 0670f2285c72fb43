/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.h: the algorithms of `checksum`, by two libraries behind the same calls. All calls [any]; a state has one task at
 * a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HASH_SIZE_MAX 64u /* bytes, of any algorithm */

struct hash_family {
    /* Makes what all states of one algorithm share. 0; -ENOTSUP: it is not offered here, or memory is out. */
    int (*method_new)(const char *name, void **ret_method);
    void (*method_free)(void *method);
    /* NULL: out of memory. The method outlives its states. */
    void *(*state_new)(void *method);
    void (*state_free)(void *state);
    /* 0 or -ENOMEM. */
    int (*update)(void *state, const void *data, size_t size);
    /* Ends a state, once. Returns the bytes of the digest, or -ENOMEM. */
    int (*digest)(void *state, uint8_t ret_digest[HASH_SIZE_MAX]);
};

/* Names are those of EVP_MD_fetch(3). */
extern const struct hash_family hash_openssl;

/* Names are "xxh3", "xxh64" and "xxh128". Digests are big-endian, as the tool prints them. */
extern const struct hash_family hash_xxhash;
