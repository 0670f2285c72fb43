/* SPDX-License-Identifier: Apache-2.0
 *
 * scanner.h: many translated patterns (translate.h) in one pass over many lines, by hyperscan. scanner-none.c stands in
 * its place where wsd was built without: it takes no pattern.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "plugins/translate.h"

struct scanner; /* constant once it was made: any number of tasks may scan, each with a scratch of its own */
struct scratch;

/* The most bytes that one scan takes. */
#define SCANNER_SIZE_MAX 0x7fffffffu

/* Texts that are more than bytes, of all translations together: hyperscan compiles so many in half a second, and twice as
 * many in four times that. */
#define SCANNER_RICH_MAX 500u

/* What the scanner does not take. */
enum { SCANNER_E_REFUSED = 1 };

/* 0, SCANNER_E_REFUSED or -ENOMEM. [any] */
int scanner_new(const struct translation *translations, size_t n, bool fold, struct scanner **ret_scanner);
struct scanner *scanner_free(struct scanner *scanner);

/* What one scan at a time needs. NULL: out of memory. [any] */
struct scratch *scratch_new(const struct scanner *scanner);
struct scratch *scratch_free(struct scratch *scratch);

/* A match ends at `at`, which never falls; exact as in struct translation. Other than 0 ends the scan. */
typedef int (*scanner_found)(void *arg, size_t at, bool exact);

/* Scans whole lines. 0, what `found` returned, or -ENOMEM. Requires size <= SCANNER_SIZE_MAX. [one task a scratch] */
int scanner_scan(const struct scanner *scanner, struct scratch *scratch, const char *data, size_t size,
                 scanner_found found, void *arg);
