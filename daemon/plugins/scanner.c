/* SPDX-License-Identifier: Apache-2.0
 *
 * scanner.c: hyperscan behind the four calls that `search` needs.
 * Owns the compiled patterns. Knows nothing of files or jobs.
 * Keeps: time is linear in what is scanned; memory is bounded by TRANSLATION_POSITIONS_MAX. */
#include "scanner.h"

#include <errno.h>
#include <hs/hs.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

struct scanner {
    hs_database_t *database;
    hs_scratch_t *scratch; /* to be cloned */
    bool *exact;           /* of each expression */
};

/* One expression for each text. */
struct expressions {
    const char **texts;
    unsigned *flags, *ids; /* each its own: hyperscan takes long to join those that have the same */
    bool *exact;
    unsigned n;
};

static void expressions_fill(struct expressions *expressions, const struct translation *translations, size_t n,
                             bool fold)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < translations[i].n_texts; j++) {
            expressions->texts[expressions->n] = translations[i].texts[j];
            expressions->flags[expressions->n] = HS_FLAG_MULTILINE | HS_FLAG_ALLOWEMPTY | (fold ? HS_FLAG_CASELESS : 0);
            expressions->exact[expressions->n] = translations[i].exact;
            expressions->ids[expressions->n] = expressions->n;
            expressions->n++;
        }
}

/* The library that was found when the program began may be another than that of the build. One of them, vectorscan, has
 * the name and the calls of hyperscan, and numbers from 5.4.3 on; it misses matches (decisions/0037). */
static bool is_hyperscan(void)
{
    unsigned major, minor, patch;

    return sscanf(hs_version(), "%u.%u.%u", &major, &minor, &patch) == 3 && major == 5 && minor == 4 && patch < 3;
}

/* Half made where it fails. */
static int compile(struct scanner *scanner, const struct translation *translations, size_t n, bool fold)
{
    size_t n_texts = 0, n_rich = 0;

    for (size_t i = 0; i < n; i++) {
        n_texts += translations[i].n_texts;
        n_rich += translations[i].n_rich;
    }
    if (n_rich > SCANNER_RICH_MAX || !is_hyperscan())
        return SCANNER_E_REFUSED;
    scanner->exact = calloc(n_texts, sizeof(*scanner->exact));

    _cleanup_(freep) const char **texts = calloc(n_texts, sizeof(*texts));
    _cleanup_(freep) unsigned *flags = calloc(n_texts, sizeof(*flags));
    _cleanup_(freep) unsigned *ids = calloc(n_texts, sizeof(*ids));
    struct expressions expressions = {.texts = texts, .flags = flags, .ids = ids, .exact = scanner->exact};
    hs_compile_error_t *error = NULL;

    if (!texts || !flags || !ids || !scanner->exact)
        return -ENOMEM;
    expressions_fill(&expressions, translations, n, fold);

    int r = hs_compile_multi(texts, flags, ids, expressions.n, HS_MODE_BLOCK, NULL, &scanner->database, &error);

    hs_free_compile_error(error);
    return r == HS_SUCCESS ? 0 : r == HS_NOMEM ? -ENOMEM : SCANNER_E_REFUSED;
}

int scanner_new(const struct translation *translations, size_t n, bool fold, struct scanner **ret_scanner)
{
    struct scanner *scanner = calloc(1, sizeof(*scanner));
    int r = scanner ? compile(scanner, translations, n, fold) : -ENOMEM;

    if (!r && hs_alloc_scratch(scanner->database, &scanner->scratch) != HS_SUCCESS)
        r = -ENOMEM;
    if (r)
        scanner_free(scanner);
    else
        *ret_scanner = scanner;
    return r;
}

struct scanner *scanner_free(struct scanner *scanner)
{
    if (scanner) {
        hs_free_scratch(scanner->scratch);
        hs_free_database(scanner->database);
        free(scanner->exact);
    }
    free(scanner);
    return NULL;
}

struct scratch *scratch_new(const struct scanner *scanner)
{
    hs_scratch_t *scratch = NULL;

    return hs_clone_scratch(scanner->scratch, &scratch) == HS_SUCCESS ? (struct scratch *)scratch : NULL;
}

struct scratch *scratch_free(struct scratch *scratch)
{
    hs_free_scratch((hs_scratch_t *)scratch);
    return NULL;
}

struct scan {
    const struct scanner *scanner;
    scanner_found found;
    void *arg;
    int result;
};

static int matched(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *arg)
{
    struct scan *scan = arg;

    scan->result = scan->found(scan->arg, (size_t)to, scan->scanner->exact[id]);
    return scan->result;
}

int scanner_scan(const struct scanner *scanner, struct scratch *scratch, const char *data, size_t size,
                 scanner_found found, void *arg)
{
    struct scan scan = {.scanner = scanner, .found = found, .arg = arg};
    hs_error_t r = hs_scan(scanner->database, data, (unsigned)size, 0, (hs_scratch_t *)scratch, matched, &scan);

    return r == HS_SUCCESS || r == HS_SCAN_TERMINATED ? scan.result : -ENOMEM;
}
