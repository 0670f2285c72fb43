/* SPDX-License-Identifier: Apache-2.0
 *
 * hash-xxhash.c: XXH64 and both widths of XXH3, for `checksum`.
 * Owns nothing between calls. Does not choose an algorithm. */
#include "hash.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/cleanup.h"

enum kind { KIND_XXH3, KIND_XXH64, KIND_XXH128 };

static const struct method {
    const char *name;
    enum kind kind;
} methods[] = {{"xxh3", KIND_XXH3}, {"xxh64", KIND_XXH64}, {"xxh128", KIND_XXH128}};

struct state {
    enum kind kind;
    XXH64_state_t *xxh64; /* of KIND_XXH64 */
    XXH3_state_t *xxh3;   /* of the others */
};

static int method_new(const char *name, void **ret_method)
{
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        if (strcmp(methods[i].name, name) == 0) {
            *ret_method = (void *)&methods[i];
            return 0;
        }
    }
    return -ENOTSUP;
}

static void method_free(void *method)
{
}

static void state_free(void *p)
{
    struct state *state = p;

    if (!state)
        return;
    XXH64_freeState(state->xxh64);
    XXH3_freeState(state->xxh3);
    free(state);
}

static bool is_ready(const struct state *state)
{
    if (state->kind == KIND_XXH64)
        return state->xxh64 && XXH64_reset(state->xxh64, 0) == XXH_OK;
    if (!state->xxh3)
        return false;
    return (state->kind == KIND_XXH3 ? XXH3_64bits_reset : XXH3_128bits_reset)(state->xxh3) == XXH_OK;
}

static void *state_new(void *p)
{
    const struct method *method = p;
    struct state *state = calloc(1, sizeof(*state));

    if (!state)
        return NULL;
    state->kind = method->kind;
    if (state->kind == KIND_XXH64)
        state->xxh64 = XXH64_createState();
    else
        state->xxh3 = XXH3_createState();
    if (is_ready(state))
        return state;
    state_free(state);
    return NULL;
}

static int update(void *p, const void *data, size_t size)
{
    struct state *state = p;
    XXH_errorcode r;

    if (state->kind == KIND_XXH64)
        r = XXH64_update(state->xxh64, data, size);
    else
        r = (state->kind == KIND_XXH3 ? XXH3_64bits_update : XXH3_128bits_update)(state->xxh3, data, size);
    return r == XXH_OK ? 0 : -ENOMEM;
}

static int digest(void *p, uint8_t ret_digest[HASH_SIZE_MAX])
{
    struct state *state = p;
    XXH64_canonical_t canonical;

    if (state->kind == KIND_XXH128) {
        XXH128_canonical_t both;

        XXH128_canonicalFromHash(&both, XXH3_128bits_digest(state->xxh3));
        memcpy(ret_digest, both.digest, sizeof(both.digest));
        return sizeof(both.digest);
    }
    XXH64_canonicalFromHash(&canonical,
                            state->kind == KIND_XXH64 ? XXH64_digest(state->xxh64) : XXH3_64bits_digest(state->xxh3));
    memcpy(ret_digest, canonical.digest, sizeof(canonical.digest));
    return sizeof(canonical.digest);
}

const struct hash_family hash_xxhash = {.method_new = method_new,
                                        .method_free = method_free,
                                        .state_new = state_new,
                                        .state_free = state_free,
                                        .update = update,
                                        .digest = digest};
