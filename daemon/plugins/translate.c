/* SPDX-License-Identifier: Apache-2.0
 *
 * translate.c: a recursive descent over an extended regular expression that writes hyperscan's words for it.
 * Owns the texts of a translation; knows nothing of files, jobs or hyperscan's calls.
 *
 * Nothing that it writes matches a newline, so that many lines can be searched at once. What hyperscan cannot say
 * becomes something wider, and the translation is not exact: back references, and \< and \> unless a word character
 * stands beside them. Sets are written out by bytes, as the C locale has them. */
#include "translate.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define REPEAT_MAX 0x7fffu /* RE_DUP_MAX of glibc and grep */
#define UNBOUNDED  UINT32_MAX

/* With what a match may begin or end. */
enum { WORD = 1, OTHER = 2 };

/* What is known of a part of the pattern. */
struct facts {
    bool empty;  /* it may match no byte */
    bool always; /* ... wherever it stands */
    bool plain;  /* bytes only */
    unsigned first, last;
    uint64_t positions;
};

struct set {
    bool has[256];
};

struct translator {
    const char *p;
    bool fold;
    char *out;
    size_t n, allocated;
    size_t n_texts, n_rich;
    bool exact;
    unsigned opened, depth;
    uint32_t closed; /* groups that a back reference may name */
};

/* ---- text ---- */

static int put_text(struct translator *t, const char *text, size_t size)
{
    if (t->n + size > t->allocated) {
        size_t allocated = 2 * (t->n + size);
        char *out = realloc(t->out, allocated);

        if (!out)
            return -ENOMEM;
        t->out = out;
        t->allocated = allocated;
    }
    memcpy(t->out + t->n, text, size);
    t->n += size;
    return 0;
}

static int put(struct translator *t, const char *text)
{
    return put_text(t, text, strlen(text));
}

static int put_byte(struct translator *t, unsigned char c)
{
    char text[8];

    sprintf(text, isalnum(c) && c < 128 ? "%c" : "\\x%02x", c);
    return put(t, text);
}

/* What stands from `at` on becomes one thing that an operator can repeat. */
static int enclose(struct translator *t, size_t at)
{
    int r = put(t, "(?:)");

    if (r)
        return r;
    memmove(t->out + at + 3, t->out + at, t->n - 4 - at);
    memcpy(t->out + at, "(?:", 3);
    return 0;
}

/* ---- sets ---- */

static bool is_word(unsigned char c)
{
    return c == '_' || (c < 128 && isalnum(c));
}

static uint64_t grown(uint64_t positions, uint64_t by)
{
    return MIN(positions * by, UINT32_MAX);
}

static int put_set(struct translator *t, const struct set *set, bool but)
{
    int r = put(t, but ? "[^" : "[");

    for (unsigned c = 0, end; c < 256 && !r; c = end) {
        for (end = c; end < 256 && set->has[end] != but; end++)
            ;
        if (end == c) {
            end++;
            continue;
        }
        r = put_byte(t, (unsigned char)c);
        if (!r && end - c > 1) {
            r = put(t, "-");
            r = r ? r : put_byte(t, (unsigned char)(end - 1));
        }
    }
    return r ? r : put(t, "]");
}

/* Any byte of the set but a newline. */
static int put_any(struct translator *t, struct set *set, struct facts *ret_facts)
{
    unsigned n = 0, kinds = 0;

    set->has['\n'] = false;
    for (unsigned c = 0; c < 256; c++) {
        n += set->has[c];
        kinds |= !set->has[c] ? 0 : is_word((unsigned char)c) ? WORD : OTHER;
    }
    if (!n)
        return TRANSLATION_E_SYNTAX;
    *ret_facts = (struct facts){.first = kinds, .last = kinds, .positions = 1};
    return n == 255 ? put(t, ".") : put_set(t, set, n > 128);
}

static void fold_set(struct set *set)
{
    for (unsigned c = 'a'; c <= 'z'; c++)
        set->has[c] = set->has[toupper((int)c)] = set->has[c] || set->has[toupper((int)c)];
}

static void invert_set(struct set *set)
{
    for (unsigned c = 0; c < 256; c++)
        set->has[c] = !set->has[c];
}

static int add_class(struct set *set, const char *name, size_t size)
{
    static const struct {
        const char *name;
        int (*is)(int c);
    } classes[] = {
        {"alpha", isalpha}, {"digit", isdigit}, {"alnum", isalnum}, {"upper", isupper},
        {"lower", islower}, {"space", isspace}, {"blank", isblank}, {"punct", ispunct},
        {"print", isprint}, {"graph", isgraph}, {"cntrl", iscntrl}, {"xdigit", isxdigit},
    };

    for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
        if (strlen(classes[i].name) == size && memcmp(classes[i].name, name, size) == 0) {
            for (int c = 0; c < 128; c++)
                set->has[c] |= classes[i].is(c) != 0;
            return 0;
        }
    return TRANSLATION_E_SYNTAX;
}

/* [:name:], [.c.] or [=c=], where p stands at the inner bracket. *ret_c is the byte, or -1 for a class. */
static int take_named(struct translator *t, struct set *set, int *ret_c)
{
    const char end[] = {t->p[1], ']', '\0'};
    const char *name = t->p + 2, *close = strstr(name, end);

    if (!close)
        return TRANSLATION_E_SYNTAX;
    t->p = close + 2;
    if (end[0] == ':') {
        *ret_c = -1;
        return add_class(set, name, (size_t)(close - name));
    }
    *ret_c = (unsigned char)*name;
    return close - name == 1 ? 0 : TRANSLATION_E_SYNTAX;
}

/* One byte, or what stands for one, in a bracket expression. */
static int take_member(struct translator *t, struct set *set, int *ret_c)
{
    if (!*t->p)
        return TRANSLATION_E_SYNTAX;
    if (*t->p == '[' && t->p[1] && strchr(":.=", t->p[1]))
        return take_named(t, set, ret_c);
    *ret_c = (unsigned char)*t->p++;
    return 0;
}

/* A byte, a class or a range. [=c=] ends no range, and none begins right behind one. */
static int take_members(struct translator *t, struct set *set)
{
    bool equals = strncmp(t->p, "[=", 2) == 0;
    int from, to, r = take_member(t, set, &from);

    if (r)
        return r;
    to = from;
    if (*t->p == '-' && t->p[1] != ']') {
        t->p++;
        equals |= strncmp(t->p, "[=", 2) == 0;
        r = take_member(t, set, &to);
        if (r)
            return r;
        if (equals || from < 0 || to < from || (*t->p == '-' && t->p[1] != ']'))
            return TRANSLATION_E_SYNTAX;
    }
    for (int c = from; c >= 0 && c <= to; c++)
        set->has[c] = true;
    return 0;
}

static int parse_bracket(struct translator *t, struct facts *ret_facts)
{
    struct set set = {.has = {false}};
    bool but = t->p[1] == '^';
    int r;

    t->p += 1 + but;
    do
        r = take_members(t, &set);
    while (!r && *t->p != ']');
    if (r)
        return r;
    t->p++;
    if (t->fold)
        fold_set(&set);
    if (but)
        invert_set(&set);
    return put_any(t, &set, ret_facts);
}

static int put_class(struct translator *t, bool (*is)(unsigned char c), bool but, struct facts *ret_facts)
{
    struct set set;

    for (unsigned c = 0; c < 256; c++)
        set.has[c] = is((unsigned char)c) != but;
    return put_any(t, &set, ret_facts);
}

static bool is_space(unsigned char c)
{
    return c < 128 && isspace(c);
}

static bool is_any(unsigned char c)
{
    return true;
}

/* ---- atoms ---- */

static int put_literal(struct translator *t, char c, struct facts *ret_facts)
{
    unsigned kind = is_word((unsigned char)c) ? WORD : OTHER;

    *ret_facts = (struct facts){.plain = true, .first = kind, .last = kind, .positions = 1};
    return put_byte(t, (unsigned char)c);
}

static int put_assertion(struct translator *t, const char *text, struct facts *ret_facts)
{
    *ret_facts = (struct facts){.empty = true};
    return put(t, text);
}

static int put_reference(struct translator *t, unsigned group, struct facts *ret_facts)
{
    if (!(t->closed & 1u << group))
        return TRANSLATION_E_SYNTAX;
    t->exact = false;
    *ret_facts = (struct facts){.empty = true, .first = WORD | OTHER, .last = WORD | OTHER, .positions = 1};
    return put(t, ".*");
}

static int parse_backslash(struct translator *t, struct facts *ret_facts)
{
    char c = t->p[1];

    if (!c)
        return TRANSLATION_E_SYNTAX;
    t->p += 2;
    if (c >= '1' && c <= '9')
        return put_reference(t, (unsigned)(c - '0'), ret_facts);
    switch (c) {
    case 'w':
    case 'W':
        return put_class(t, is_word, c == 'W', ret_facts);
    case 's':
    case 'S':
        return put_class(t, is_space, c == 'S', ret_facts);
    case '`':
    case '\'':
        return put_assertion(t, c == '`' ? "^" : "$", ret_facts);
    case 'B':
        return put_assertion(t, "\\B", ret_facts);
    case '<':
    case '>':
    case 'b':
        return put_assertion(t, "\\b", ret_facts);
    default:
        return put_literal(t, c, ret_facts);
    }
}

static int parse_alternatives(struct translator *t, struct facts *ret_facts);

static int parse_group(struct translator *t, struct facts *ret_facts)
{
    unsigned number = ++t->opened;
    int r = ++t->depth > TRANSLATION_DEPTH_MAX ? TRANSLATION_E_SYNTAX : put(t, "(?:");

    t->p++;
    if (!r)
        r = parse_alternatives(t, ret_facts);
    if (!r && *t->p != ')')
        r = TRANSLATION_E_SYNTAX;
    if (r)
        return r;
    t->p++;
    t->depth--;
    if (number < 10)
        t->closed |= 1u << number;
    ret_facts->plain = false;
    return put(t, ")");
}

static int parse_atom(struct translator *t, struct facts *ret_facts)
{
    char c = *t->p;

    switch (c) {
    case '(':
        return parse_group(t, ret_facts);
    case '[':
        return parse_bracket(t, ret_facts);
    case '\\':
        return parse_backslash(t, ret_facts);
    case '.':
        t->p++;
        return put_class(t, is_any, false, ret_facts);
    case '^':
    case '$':
        t->p++;
        return put_assertion(t, c == '^' ? "^" : "$", ret_facts);
    case '*':
    case '+':
    case '?':
    case '{':
        return TRANSLATION_E_SYNTAX;
    default:
        t->p++;
        return put_literal(t, c, ret_facts);
    }
}

/* ---- operators ---- */

/* A number of at most REPEAT_MAX, or UNBOUNDED where it is larger. */
static uint32_t take_number(struct translator *t)
{
    uint32_t n = 0;

    for (; isdigit((unsigned char)*t->p); t->p++)
        n = n > REPEAT_MAX ? n : n * 10 + (uint32_t)(*t->p - '0');
    return n > REPEAT_MAX ? UNBOUNDED : n;
}

static int take_interval(struct translator *t, uint32_t *ret_min, uint32_t *ret_max)
{
    t->p++;
    *ret_min = *ret_max = take_number(t);
    if (*ret_min == UNBOUNDED)
        return TRANSLATION_E_SYNTAX;
    if (*t->p == ',') {
        bool open = *++t->p == '}';

        *ret_max = take_number(t);
        if (!open && (*ret_max == UNBOUNDED || *ret_max < *ret_min))
            return TRANSLATION_E_SYNTAX;
        *ret_max = open ? UNBOUNDED : *ret_max;
    }
    return *t->p++ == '}' ? 0 : TRANSLATION_E_SYNTAX;
}

static int take_operator(struct translator *t, uint32_t *ret_min, uint32_t *ret_max)
{
    if (*t->p == '{')
        return take_interval(t, ret_min, ret_max);
    *ret_min = *t->p == '+';
    *ret_max = *t->p == '?' ? 1 : UNBOUNDED;
    t->p++;
    return 0;
}

static int put_operator(struct translator *t, uint32_t min, uint32_t max)
{
    char text[32];

    if (max == UNBOUNDED && min < 2)
        return put(t, min ? "+" : "*");
    if (max == UNBOUNDED)
        sprintf(text, "{%u,}", min);
    else
        sprintf(text, "{%u,%u}", min, max);
    return put(t, text);
}

/* An atom and the operators behind it. */
static int parse_piece(struct translator *t, struct facts *ret_facts)
{
    size_t at = t->n;
    bool plain = *t->p != '(';
    int r = parse_atom(t, ret_facts);

    for (bool again = false; !r && *t->p && strchr("*+?{", *t->p); again = true) {
        uint32_t min, max;

        r = take_operator(t, &min, &max);
        if (!r && (again || (plain && ret_facts->empty)))
            r = enclose(t, at);
        if (r)
            return r;
        ret_facts->plain = false;
        if (!max) {
            t->n = at;
            *ret_facts = (struct facts){.empty = true, .always = true};
            r = put(t, "(?:)");
            continue;
        }
        ret_facts->empty |= !min;
        ret_facts->always |= !min;
        ret_facts->positions = grown(ret_facts->positions, max == UNBOUNDED ? MAX(min, 1u) : max);
        r = put_operator(t, min, max);
    }
    return r;
}

/* ---- branches ---- */

static void append(struct facts *facts, const struct facts *more)
{
    facts->first |= facts->empty ? more->first : 0;
    facts->last = more->last | (more->empty ? facts->last : 0);
    facts->empty &= more->empty;
    facts->always &= more->always;
    facts->plain &= more->plain;
    facts->positions = MIN(facts->positions + more->positions, UINT32_MAX);
}

/* \< and \> are written as \b, which is the same only beside what begins or ends with a word character. */
static int parse_branch(struct translator *t, struct facts *ret_facts)
{
    struct facts before = {.empty = true};
    bool pending = false; /* a \< waits for what follows */
    int r = 0;

    *ret_facts = (struct facts){.empty = true, .always = true, .plain = true};
    while (!r && *t->p && *t->p != '|' && (*t->p != ')' || !t->depth)) {
        bool begins = strncmp(t->p, "\\<", 2) == 0, ends = strncmp(t->p, "\\>", 2) == 0;
        struct facts piece = {.empty = false};

        r = parse_piece(t, &piece);
        if (r)
            break;
        if (ends && (before.empty || before.last != WORD))
            t->exact = false;
        if (pending && (piece.empty || piece.first != WORD))
            t->exact = false;
        pending = begins;
        before = piece;
        append(ret_facts, &piece);
    }
    if (pending)
        t->exact = false;
    return r;
}

static int parse_alternatives(struct translator *t, struct facts *ret_facts)
{
    struct facts branch;
    int r = parse_branch(t, ret_facts);

    while (!r && *t->p == '|') {
        t->p++;
        r = put(t, "|");
        if (!r)
            r = parse_branch(t, &branch);
        if (r)
            break;
        ret_facts->empty |= branch.empty;
        ret_facts->always |= branch.always;
        ret_facts->first |= branch.first;
        ret_facts->last |= branch.last;
        ret_facts->positions = MIN(ret_facts->positions + branch.positions, UINT32_MAX);
    }
    return r;
}

/* ---- the whole ---- */

/* Neither side of a match may be a word character: the same words as those of grep's own automaton. */
static int put_words(struct translator *t, size_t at, const struct facts *facts)
{
    static const char before[] = "(?:^|[^0-9A-Za-z_\\x0a])", behind[] = "(?:$|[^0-9A-Za-z_\\x0a])";
    bool simple = facts->first == WORD && facts->last == WORD && !facts->empty;
    const char *open = simple ? "\\b" : before, *close = simple ? "\\b" : behind;
    size_t n = strlen(open);
    int r;

    r = enclose(t, at);
    r = r ? r : put(t, close);
    r = r ? r : put(t, open); /* room */
    if (r)
        return r;
    memmove(t->out + at + n, t->out + at, t->n - n - at);
    memcpy(t->out + at, open, n);
    return 0;
}

/* Each alternative outside of groups ends with a NUL. */
static int parse_all(struct translator *t, bool words, struct facts *ret_facts)
{
    *ret_facts = (struct facts){.always = false};
    for (;; t->p++) {
        size_t at = t->n;
        struct facts branch;
        int r = parse_branch(t, &branch);

        if (!r && words)
            r = put_words(t, at, &branch);
        if (!r)
            r = put_text(t, "", 1);
        if (r)
            return r;
        t->n_texts++;
        t->n_rich += words || !branch.plain;
        ret_facts->always |= branch.always && !words;
        ret_facts->positions = MAX(ret_facts->positions, branch.positions);
        if (*t->p != '|')
            return *t->p ? TRANSLATION_E_SYNTAX : 0;
    }
}

int translation_init(struct translation *translation, const char *source, bool fold, bool words)
{
    struct translator t = {.p = source, .fold = fold, .exact = true};
    struct facts facts;
    int r = parse_all(&t, words, &facts);
    _cleanup_(freep) char *out = t.out;

    if (r)
        return r;
    if (facts.positions > TRANSLATION_POSITIONS_MAX)
        return TRANSLATION_E_LARGE;

    char **texts = calloc(t.n_texts, sizeof(*texts));

    if (!texts)
        return -ENOMEM;

    char *text = TAKE(out); /* the first text owns all */

    for (size_t i = 0; i < t.n_texts; i++, text += strlen(text) + 1)
        texts[i] = text;
    *translation = (struct translation){.texts = texts,
                                        .n_texts = t.n_texts,
                                        .n_rich = t.n_rich,
                                        .exact = t.exact,
                                        .always = facts.always,
                                        .positions = facts.positions};
    return 0;
}

void translation_deinit(struct translation *translation)
{
    if (translation->texts)
        free(translation->texts[0]);
    free(translation->texts);
    *translation = (struct translation){.texts = NULL};
}
