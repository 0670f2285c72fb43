/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-pattern.c: any bytes as a pattern of `search`, by its two parsers, one behind the other.
 * Keeps: what a match must have is in the pattern's size. A text for hyperscan is printable ASCII, so that it has no
 * newline. Limits hold. A pattern of fixed bytes is always translated, to one plain text, unless words are wanted. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "plugins/pattern.h"
#include "plugins/translate.h"

#define TEXT_MAX 512u

enum { FOLD = 1, WORDS = 2, FIXED = 4 };

static void check_texts(const struct translation *translation)
{
    FUZZ_CHECK(translation->n_texts > 0 && translation->n_rich <= translation->n_texts);
    FUZZ_CHECK(translation->positions <= TRANSLATION_POSITIONS_MAX);
    for (size_t i = 0; i < translation->n_texts; i++)
        for (const char *p = translation->texts[i]; *p; p++)
            FUZZ_CHECK(*p > ' ' && *p < 0x7f);
}

static void check_pattern(const struct pattern *pattern, unsigned flags)
{
    struct translation translation;
    int r = translation_init(&translation, pattern->source, flags & FOLD, flags & WORDS);

    FUZZ_CHECK(r == 0 || r == TRANSLATION_E_SYNTAX || r == TRANSLATION_E_LARGE);
    FUZZ_CHECK(r == 0 || !(flags & FIXED));
    if (r)
        return;
    check_texts(&translation);
    FUZZ_CHECK(!(flags & FIXED) || translation.n_texts == 1);
    FUZZ_CHECK(!(flags & FIXED) || flags & WORDS || (translation.exact && !translation.n_rich));
    translation_deinit(&translation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_MAX];
    struct pattern pattern;
    unsigned flags;
    int r;

    if (size < 1 || size > TEXT_MAX)
        return 0;
    flags = data[0] & 7u;
    memcpy(text, data + 1, size - 1);
    if (memchr(text, '\0', size - 1) || memchr(text, '\n', size - 1))
        return 0; /* an argument has no NUL, and each of its lines is a pattern */
    r = flags & FIXED ? pattern_init_fixed(&pattern, text, size - 1, flags & FOLD)
                      : pattern_init(&pattern, text, size - 1, flags & FOLD);
    FUZZ_CHECK(r == 0 || r == PATTERN_E_CLASS || r == PATTERN_E_DEPTH || r == PATTERN_E_NESTED || r == PATTERN_E_LARGE);
    if (r)
        return 0;
    FUZZ_CHECK(strlen(pattern.source) <= 3 * size); /* there is no more room for it */
    FUZZ_CHECK(pattern.must_size < size && strlen(pattern.must) == pattern.must_size);
    check_pattern(&pattern, flags);
    pattern_deinit(&pattern);
    return 0;
}
