/* SPDX-License-Identifier: Apache-2.0
 *
 * pattern.c: from the language of `grep -E` to that of regcomp(REG_EXTENDED).
 * Owns the strings of a pattern; knows nothing of files or jobs.
 *
 * The two languages differ if an operator has nothing to repeat: grep ignores it, or repeats the anchor before it;
 * regcomp refuses. They differ if braces hold no interval: grep takes them literally. The pass over the pattern also
 * finds the longest run of bytes that each match must have. Does not warn about what it ignores, as grep 3.8 does. */
#include "pattern.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define REPEAT_MAX 0x7fffu /* RE_DUP_MAX of glibc and grep */
#define UNBOUNDED  UINT64_MAX
/* A translation is at most so many times as long: a byte becomes two with a \ before it; of operators ?? grows most, to
 * {0,1}. */
#define GROWTH 3

struct repeat {
    uint64_t min, max;
};

/* Something that an operator could repeat. */
struct piece {
    uint64_t positions; /* bytes and sets, with repeats written out */
    uint64_t empty;     /* in a row of what may match nothing, written out; an anchor is PATTERN_ANCHOR_WEIGHT */
    unsigned nested;    /* repeats in repeats */
    bool consumes;      /* each match of it has a byte */
};

/* What a group, or the whole, has so far, without its last piece. */
struct frame {
    struct piece sum, last;
    uint64_t row;  /* the row of empty ones at its end */
    bool consumes; /* its branch so far */
    bool has_empty_branch;
};

struct parser {
    const char *p, *end;
    char *out;        /* the translation */
    char *run, *must; /* bytes in a row now, and the longest such run */
    size_t n_run, n_must;
    struct frame *frames; /* one for the whole, and for each group that is open */
    uint64_t atoms;       /* bytes and sets as they stand */
    unsigned depth;       /* of groups */
    bool start;           /* nothing here that an operator could repeat */
    bool swallowed;       /* ... and the last was dropped: glibc takes a ) behind it as a byte */
    bool alternatives;    /* a | outside of groups */
    bool plain;           /* bytes only so far */
    bool colons;          /* [:space:] */
    bool deep;            /* more groups in groups than PATTERN_DEPTH_MAX */
};

static void end_run(struct parser *parser)
{
    if (parser->n_run > parser->n_must) {
        memcpy(parser->must, parser->run, parser->n_run);
        parser->n_must = parser->n_run;
    }
    parser->n_run = 0;
}

static struct frame *frame_of(const struct parser *parser)
{
    return &parser->frames[MIN(parser->depth, PATTERN_DEPTH_MAX)];
}

static uint64_t cap(uint64_t n)
{
    return MIN(n, UINT32_MAX);
}

static void begin_piece(struct parser *parser, struct piece piece)
{
    struct frame *frame = frame_of(parser);
    const struct piece *last = &frame->last;

    frame->sum.positions = cap(frame->sum.positions + last->positions);
    frame->sum.nested = MAX(frame->sum.nested, last->nested);
    frame->row = cap(frame->row + last->empty);
    frame->sum.empty = MAX(frame->sum.empty, frame->row);
    if (last->consumes) {
        frame->row = last->empty; /* of which some may be behind its last byte */
        frame->consumes = true;
    }
    frame->last = piece;
}

static void begin_atom(struct parser *parser)
{
    parser->atoms++;
    begin_piece(parser, (struct piece){.positions = 1, .consumes = true});
}

/* One that may match nothing. */
static void begin_empty(struct parser *parser, uint64_t weight)
{
    parser->atoms++;
    begin_piece(parser, (struct piece){.positions = 1, .empty = weight});
}

static void open_group(struct parser *parser)
{
    parser->deep |= ++parser->depth > PATTERN_DEPTH_MAX;
    *frame_of(parser) = (struct frame){.row = 0};
}

/* All branches begin at the same place, so a row goes on in the next one. */
static void end_branch(struct parser *parser)
{
    struct frame *frame = frame_of(parser);

    begin_piece(parser, (struct piece){.positions = 0});
    frame->has_empty_branch |= !frame->consumes;
    frame->consumes = false;
}

/* The group becomes the last piece of what is around it. */
static void close_group(struct parser *parser)
{
    end_branch(parser);
    const struct frame *frame = frame_of(parser);
    struct piece group = frame->sum;

    group.consumes = !frame->has_empty_branch;
    if (!group.consumes)
        group.empty = MAX(group.empty, 1u);
    parser->depth--;
    begin_piece(parser, group);
}

/* The libraries write a{2,} as aaa*, and a+ as aa*. */
static void repeat_piece(struct parser *parser, const struct repeat *repeat)
{
    struct piece *last = &frame_of(parser)->last;
    uint64_t by = MAX(repeat->max == UNBOUNDED ? repeat->min + 1 : repeat->max, 1u);
    uint64_t optional = repeat->max == UNBOUNDED ? 1 : by - MIN(repeat->min, by);

    last->positions = cap(last->positions * by);
    last->nested++;
    if (!last->consumes)
        last->empty = cap(last->empty * by);
    else
        last->empty = cap(2 * last->empty + (last->empty + 1) * optional);
    last->consumes &= repeat->min > 0;
}

static void put_text(struct parser *parser, const char *text, size_t size)
{
    memcpy(parser->out, text, size);
    parser->out += size;
}

static void put_byte(struct parser *parser, char c)
{
    if (strchr("\\.[]{}()*+?^$|", c))
        *parser->out++ = '\\';
    *parser->out++ = c;
    parser->start = false;
    begin_atom(parser);
    if (parser->depth == 0)
        parser->run[parser->n_run++] = c;
}

/* No byte of a match. */
static void put_mark(struct parser *parser, const char *text, size_t size)
{
    put_text(parser, text, size);
    parser->plain = parser->start = false;
    end_run(parser);
}

/* Something that matches more than one byte or none. */
static void put_other(struct parser *parser, const char *text, size_t size)
{
    put_mark(parser, text, size);
    begin_atom(parser);
}

/* The length of {N}, {N,}, {,M} or {N,M} at p, or 0. */
static size_t interval_size(const char *p, const char *end, bool *ret_none)
{
    const char *s = p;
    bool digits = false, none = true;

    if (s == end || *s != '{')
        return 0;
    for (s++; s < end && isdigit((unsigned char)*s); s++) {
        digits = true;
        none &= *s == '0';
    }
    if (s < end && *s == ',') {
        for (s++; s < end && isdigit((unsigned char)*s); s++)
            ;
        digits = true;
    }
    if (!digits || s == end || *s != '}')
        return 0;
    *ret_none = none;
    return (size_t)(s + 1 - p);
}

/* The length of the operator at p, or 0; whether it allows for no repetition at all. */
static size_t operator_size(const struct parser *parser, bool *ret_none)
{
    if (parser->p == parser->end)
        return 0;
    *ret_none = *parser->p != '+';
    if (strchr("*+?", *parser->p))
        return 1;
    return interval_size(parser->p, parser->end, ret_none);
}

/* An anchor and the operators behind it: it stands or falls. */
static void parse_anchor(struct parser *parser, size_t size)
{
    const char *text = parser->p;
    bool none, optional = false;
    size_t n;

    parser->p += size;
    while ((n = operator_size(parser, &none))) {
        optional |= none;
        parser->p += n;
    }
    put_mark(parser, text, optional ? 0 : size);
    begin_empty(parser, PATTERN_ANCHOR_WEIGHT);
}

/* What the operator at p, which is one, asks for. False: regcomp() is to complain of it. */
static bool take_repeat(const char *p, struct repeat *ret_repeat)
{
    char *end;

    *ret_repeat = (struct repeat){.min = *p == '+', .max = *p == '?' ? 1 : UNBOUNDED};
    if (*p != '{')
        return true;
    ret_repeat->min = ret_repeat->max = MIN(strtoul(p + 1, &end, 10), REPEAT_MAX + 1);
    if (*end == ',')
        ret_repeat->max = end[1] == '}' ? UNBOUNDED : MIN(strtoul(end + 1, NULL, 10), REPEAT_MAX + 1);
    return ret_repeat->min <= REPEAT_MAX && ret_repeat->min <= ret_repeat->max &&
           (ret_repeat->max <= REPEAT_MAX || ret_repeat->max == UNBOUNDED);
}

/* Makes one of two in a row. False: they stand for more than one interval can say. */
static bool join_repeats(struct repeat *first, const struct repeat *then)
{
    bool none = !first->max || !then->max, open = first->max == UNBOUNDED || then->max == UNBOUNDED;
    struct repeat joined = {.min = first->min * then->min, .max = none ? 0 : open ? UNBOUNDED : first->max * then->max};

    /* with two at least, such as {2,3}{1,5}, numbers may be left out between */
    if ((first->min > 1 && then->min != then->max) || joined.min > REPEAT_MAX || (!open && joined.max > REPEAT_MAX))
        return false;
    *first = joined;
    return true;
}

static void put_repeat(struct parser *parser, const struct repeat *repeat)
{
    char text[32];

    if (repeat->min < 2 && repeat->max == UNBOUNDED)
        sprintf(text, repeat->min ? "+" : "*");
    else if (repeat->max == UNBOUNDED)
        sprintf(text, "{%u,}", (unsigned)repeat->min);
    else
        sprintf(text, "{%u,%u}", (unsigned)repeat->min, (unsigned)repeat->max);
    put_text(parser, text, strlen(text));
}

/* The operator at parser->p, of n bytes. It is written as one with the last, which begins at `last`, where it can be:
 * each of them costs the libraries twice as much as without. */
static void put_operator(struct parser *parser, size_t n, char **last, struct repeat *repeat)
{
    struct repeat then;
    bool right = take_repeat(parser->p, &then);

    if (right && *last && join_repeats(repeat, &then)) {
        parser->out = *last;
        put_repeat(parser, repeat);
        return;
    }
    if (*last)
        repeat_piece(parser, repeat);
    *last = right ? parser->out : NULL;
    *repeat = then;
    put_text(parser, parser->p, n);
}

/* One or more operators in a row; the last of them may make optional what the first did not. Where there is nothing to
 * repeat they are dropped. */
static void parse_operators(struct parser *parser)
{
    bool none, optional = false, dropped = parser->start;
    struct repeat repeat = {.max = 0};
    char *last = NULL;
    size_t n;

    parser->plain = false;
    for (; (n = operator_size(parser, &none)); parser->p += n) {
        optional |= none;
        if (!dropped)
            put_operator(parser, n, &last, &repeat);
        else
            parser->swallowed = *parser->p != '{';
    }
    if (dropped)
        return;
    if (last)
        repeat_piece(parser, &repeat);
    if (optional && parser->n_run)
        parser->n_run--;
    end_run(parser);
}

/* A bracket expression; an unfinished one is left to regcomp() to complain of. */
static void parse_bracket(struct parser *parser)
{
    const char *first = parser->p + 1, *s;
    bool only_bytes = true, other = false;

    if (first < parser->end && *first == '^')
        first++;
    for (s = first; s < parser->end && (*s != ']' || s == first); s++) {
        other |= *s != ':';
        only_bytes &= *s != '-' || s == first;
        if (*s != '[' || s + 1 == parser->end || !strchr(":.=", s[1]))
            continue;

        char kind = s[1];

        only_bytes = false;
        for (s += 2; s + 1 < parser->end && !(s[0] == kind && s[1] == ']'); s++)
            ;
        if (s + 1 >= parser->end)
            break;
        s++;
    }
    parser->colons |= only_bytes && other && s < parser->end && *s == ']' && *first == ':' && s[-1] == ':';
    s = s < parser->end ? s + 1 : parser->end;
    put_other(parser, parser->p, (size_t)(s - parser->p));
    parser->p = s;
}

static void parse_backslash(struct parser *parser)
{
    const char *p = parser->p;

    if (p + 1 == parser->end) {
        put_other(parser, p, 1);
        parser->p++;
    } else if (strchr("bB<>`'", p[1])) {
        parse_anchor(parser, 2);
    } else if (strchr("wWsS", p[1])) {
        put_other(parser, p, 2);
        parser->p += 2;
    } else if (strchr("123456789", p[1])) {
        put_mark(parser, p, 2);
        begin_empty(parser, 1);
        parser->p += 2;
    } else {
        /* A stray one means nothing; glibc would never find its letter where case is folded. */
        put_byte(parser, p[1]);
        parser->p += 2;
    }
}

static void parse_group(struct parser *parser)
{
    char c = *parser->p++;

    if (c == ')' && (parser->depth == 0 || parser->swallowed)) {
        /* Nothing to close, or glibc's parser has just swallowed an operator and takes this as a byte. */
        put_byte(parser, c);
        return;
    }
    put_mark(parser, &c, 1);
    if (c == '(') {
        open_group(parser);
        parser->start = true;
    } else if (c == ')') {
        close_group(parser);
    } else {
        parser->alternatives |= parser->depth == 0;
        parser->start = true;
        end_branch(parser);
    }
}

static void parse_one(struct parser *parser)
{
    char c = *parser->p;
    bool none, start = parser->start;

    if (operator_size(parser, &none)) {
        parse_operators(parser);
        return;
    }
    if (strchr("()|", c))
        parse_group(parser);
    else if (c == '[')
        parse_bracket(parser);
    else if (c == '\\')
        parse_backslash(parser);
    else if (c == '^' || c == '$')
        parse_anchor(parser, 1);
    else if (c == '.' || (c == '{' && !start && parser->p + 1 < parser->end && parser->p[1] == '}'))
        put_other(parser, parser->p++, 1); /* regcomp() refuses {} as grep does */
    else
        put_byte(parser, *parser->p++);
    parser->swallowed = start && c == '{';
}

/* Each byte as it is. */
static void parse_fixed(struct parser *parser)
{
    while (parser->p < parser->end)
        put_byte(parser, *parser->p++);
}

static void parse(struct parser *parser)
{
    while (parser->p < parser->end)
        parse_one(parser);
}

/* 0 or PATTERN_E_*. A group that is open still is regcomp()'s to refuse, when it has written out what is before. */
static int check_limits(struct parser *parser)
{
    if (parser->deep)
        return PATTERN_E_DEPTH;
    while (parser->depth)
        close_group(parser);
    end_branch(parser);
    if (parser->frames->sum.positions > parser->atoms + PATTERN_ADDED_MAX)
        return PATTERN_E_LARGE;
    return parser->frames->sum.nested > PATTERN_NESTED_MAX ? PATTERN_E_NESTED : 0;
}

static int init(struct pattern *pattern, const char *text, size_t size, bool fold, void (*parse_all)(struct parser *))
{
    _cleanup_(freep) char *out = malloc(GROWTH * size + 1), *run = malloc(size + 1), *must = malloc(size + 1);
    _cleanup_(freep) struct frame *frames = calloc(MIN(size, PATTERN_DEPTH_MAX) + 1, sizeof(*frames));
    struct parser parser = {.p = text,
                            .end = text + size,
                            .out = out,
                            .run = run,
                            .must = must,
                            .frames = frames,
                            .start = true,
                            .plain = true};

    if (!out || !run || !must || !frames)
        return -ENOMEM;
    parse_all(&parser);

    int r = parser.colons ? PATTERN_E_CLASS : check_limits(&parser);

    if (r)
        return r;
    end_run(&parser);
    *parser.out = '\0';
    if (fold || parser.alternatives)
        parser.n_must = 0;
    must[parser.n_must] = '\0';
    *pattern = (struct pattern){
        .source = TAKE(out),
        .literal = parser.plain && !fold,
        .must = TAKE(must),
        .must_size = parser.n_must,
        .added = (uint32_t)(MAX(frames->sum.positions, parser.atoms) - parser.atoms),
        .empty = (uint32_t)frames->sum.empty,
    };
    return 0;
}

int pattern_init(struct pattern *pattern, const char *text, size_t size, bool fold)
{
    return init(pattern, text, size, fold, parse);
}

int pattern_init_fixed(struct pattern *pattern, const char *text, size_t size, bool fold)
{
    return init(pattern, text, size, fold, parse_fixed);
}

void pattern_deinit(struct pattern *pattern)
{
    free(pattern->source);
    free(pattern->must);
    *pattern = (struct pattern){.source = NULL};
}
