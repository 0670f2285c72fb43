/* SPDX-License-Identifier: Apache-2.0
 *
 * scanner-none.c: scanner.h where hyperscan is not: every pattern goes to the C library. */
#include "scanner.h"

#include <errno.h>

int scanner_new(const struct translation *translations, size_t n, bool fold, struct scanner **ret_scanner)
{
    return SCANNER_E_REFUSED;
}

struct scanner *scanner_free(struct scanner *scanner)
{
    return NULL;
}

struct scratch *scratch_new(const struct scanner *scanner)
{
    return NULL;
}

struct scratch *scratch_free(struct scratch *scratch)
{
    return NULL;
}

int scanner_scan(const struct scanner *scanner, struct scratch *scratch, const char *data, size_t size,
                 scanner_found found, void *arg)
{
    return -ENOSYS;
}
