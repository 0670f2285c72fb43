/* SPDX-License-Identifier: Apache-2.0
 *
 * test-hash.c: the keyed hashes: SipHash-1-3, held against OpenSSL's; what collides under one secret does not under
 * another. */
#include <check.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "tests/unit/suite.h"

/* SipHash-1-3 of eight bytes of `seed` and the text, under the key of zeros. */
static uint64_t by_openssl(uint64_t seed, const char *text, size_t n)
{
    uint8_t key[16] = {0}, out[8], head[8];
    unsigned compress = 1, finalize = 3;
    size_t size = sizeof(out), length = 0;
    uint64_t h = 0;
    OSSL_PARAM params[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                           OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_C_ROUNDS, &compress),
                           OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_D_ROUNDS, &finalize), OSSL_PARAM_construct_end()};
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(mac);

    for (int i = 0; i < 8; i++)
        head[i] = (uint8_t)(seed >> 8 * i);
    ck_assert_int_eq(EVP_MAC_init(context, key, sizeof(key), params), 1);
    ck_assert_int_eq(EVP_MAC_update(context, head, sizeof(head)), 1);
    ck_assert_int_eq(EVP_MAC_update(context, (const uint8_t *)text, n), 1);
    ck_assert_int_eq(EVP_MAC_final(context, out, &length, sizeof(out)), 1);
    ck_assert_uint_eq(length, sizeof(out));
    for (int i = 0; i < 8; i++)
        h |= (uint64_t)out[i] << 8 * i;
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(mac);
    return h;
}

START_TEST(the_hash_is_siphash_1_3)
{
    static const char text[] =
        "\xff\x00\x80 the quick brown fox jumps over the lazy dog, and 300 bytes are more than one length byte holds";

    for (size_t n = 0; n < sizeof(text); n++) {
        ck_assert_uint_eq(hash_text(n * 0x0123456789abcdefu, text, n), by_openssl(n * 0x0123456789abcdefu, text, n));
        ck_assert_uint_eq(hash_number(n << 50), by_openssl(n << 50, "", 0));
    }
}
END_TEST

/* The longest chain of a table of these, at the table's own load. */
static unsigned longest(const uint64_t *numbers, size_t n)
{
    struct hash_link *links = calloc(n, sizeof(*links));
    struct hash h = {0};
    size_t cursor = 0;
    unsigned most = 0;

    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(hash_insert(&h, &links[i], hash_number(numbers[i])), 0);
    do {
        unsigned length = 0;

        for (struct hash_link *l = hash_walk(&h, &cursor); l; l = l->next)
            length++;
        most = length > most ? length : most;
    } while (cursor);
    hash_deinit(&h);
    free(links);
    return most;
}

/* Keys that all fall into one bucket under a secret that is known spread evenly under the one that the kernel gave. */
START_TEST(keys_made_for_one_secret_are_nothing_special_to_another)
{
    enum { N = 1000 };
    static uint64_t bad[N];
    uint64_t before = hash_number(1);
    size_t n = 0;

    for (uint64_t x = 0; n < N; x++) /* the table has 512 buckets in the end */
        if ((hash_number(x) & 511) == 7)
            bad[n++] = x;
    ck_assert_uint_ge(longest(bad, N), N / 2);
    ck_assert_int_eq(hash_seed(), 0);
    ck_assert_uint_ne(hash_number(1), before);
    ck_assert_uint_le(longest(bad, N), 20); /* two a bucket; that many come once in 10^12 seeds */
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hash");
    TCase *t = tcase_create("keyed");

    tcase_add_test(t, the_hash_is_siphash_1_3);
    tcase_add_test(t, keys_made_for_one_secret_are_nothing_special_to_another);
    suite_add_tcase(s, t);
    return run_suite(s);
}
