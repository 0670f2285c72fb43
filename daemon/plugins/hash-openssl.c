/* SPDX-License-Identifier: Apache-2.0
 *
 * hash-openssl.c: the cryptographic hashes of `checksum`.
 * Owns nothing between calls. Does not choose an algorithm. */
#include "hash.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

_Static_assert(HASH_SIZE_MAX >= EVP_MAX_MD_SIZE, "room for each digest");

static int method_new(const char *name, void **ret_method)
{
    /* Where its context could not be made, EVP_MD_fetch() dereferences NULL. */
    EVP_MD *md = OSSL_LIB_CTX_get0_global_default() ? EVP_MD_fetch(NULL, name, NULL) : NULL;

    if (!md)
        return -ENOTSUP;
    *ret_method = md;
    return 0;
}

static void method_free(void *method)
{
    EVP_MD_free(method);
}

static void *state_new(void *method)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();

    if (context && !EVP_DigestInit_ex2(context, method, NULL)) {
        EVP_MD_CTX_free(context);
        return NULL;
    }
    return context;
}

static void state_free(void *state)
{
    EVP_MD_CTX_free(state);
}

static int update(void *state, const void *data, size_t size)
{
    return EVP_DigestUpdate(state, data, size) ? 0 : -ENOMEM;
}

static int digest(void *state, uint8_t ret_digest[HASH_SIZE_MAX])
{
    unsigned size;

    return EVP_DigestFinal_ex(state, ret_digest, &size) ? (int)size : -ENOMEM;
}

const struct hash_family hash_openssl = {.method_new = method_new,
                                         .method_free = method_free,
                                         .state_new = state_new,
                                         .state_free = state_free,
                                         .update = update,
                                         .digest = digest};
