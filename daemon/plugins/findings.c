/* SPDX-License-Identifier: Apache-2.0
 *
 * findings.c: the lines of `search` from a matcher to the output, as grep -n prints them.
 * Owns the matches of a piece until the caller frees them.
 * Keeps: a piece costs one pass of the matcher and one of counting newlines, and a line is copied once, to the output. */
#include "findings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* ---- searching ---- */

struct finding {
    struct matcher *matcher;
    const struct manner *manner;
    struct piece *piece;
    size_t at; /* lines before it are counted */
};

static bool keeps_places(const struct finding *finding)
{
    return !finding->piece->any && !finding->manner->count && !finding->manner->list;
}

static int add_match(struct piece *piece, size_t begin, size_t end)
{
    if (piece->n_matches == piece->n_allocated) {
        size_t n = MAX(16, 2 * piece->n_allocated);
        struct match *matches = reallocarray(piece->matches, n, sizeof(*matches));

        if (!matches)
            return -ENOMEM;
        piece->matches = matches;
        piece->n_allocated = n;
    }
    piece->matches[piece->n_matches++] = (struct match){.line = piece->lines, .begin = begin, .end = end};
    return 0;
}

/* A line: the places in it are added. */
struct line {
    struct piece *piece;
    size_t begin;
};

static int add_place(void *arg, size_t begin, size_t end)
{
    const struct line *line = arg;

    return add_match(line->piece, line->begin + begin, line->begin + end);
}

static int add_places(struct finding *finding, size_t begin, size_t end)
{
    struct line line = {.piece = finding->piece, .begin = begin};

    return matcher_places(finding->matcher, finding->piece->data + begin, end - begin, add_place, &line);
}

static int add_line(struct finding *finding, size_t begin, size_t end)
{
    finding->piece->matched++;
    if (!keeps_places(finding))
        return 0;
    if (!finding->manner->only)
        return add_match(finding->piece, begin, end);
    return finding->manner->invert ? 0 : add_places(finding, begin, end);
}

static int add_lines(struct finding *finding, size_t to)
{
    struct piece *piece = finding->piece;
    int r = 0;

    for (size_t at = finding->at; at < to && !r;) {
        const char *newline = memchr(piece->data + at, '\n', to - at);
        size_t end = newline ? (size_t)(newline - piece->data) : to;

        r = add_line(finding, at, end);
        piece->lines++;
        at = end + 1;
    }
    return r;
}

/* Newlines, and one more for a last line without. */
static uint64_t count_lines(const char *data, size_t size)
{
    return count_newlines(data, size) + (size && data[size - 1] != '\n');
}

/* Lines between two that match are counted, or are what is wanted. */
static int skip_to(struct finding *finding, size_t to)
{
    struct piece *piece = finding->piece;
    const char *from = piece->data + finding->at;
    uint64_t n;

    if (finding->manner->invert && keeps_places(finding))
        return add_lines(finding, to);
    if (!finding->manner->invert && !keeps_places(finding))
        return 0;
    n = count_lines(from, to - finding->at);
    piece->lines += n;
    piece->matched += finding->manner->invert ? n : 0;
    return 0;
}

static int found(void *arg, size_t begin, size_t end)
{
    struct finding *finding = arg;
    struct piece *piece = finding->piece;
    int r;

    begin += piece->begin;
    end += piece->begin;
    r = skip_to(finding, begin);
    if (!r && !finding->manner->invert)
        r = add_line(finding, begin, end);
    piece->lines++;
    finding->at = MIN(end + 1, piece->end);
    return r ? r : piece->any && piece->matched;
}

void findings_search(struct matcher *matcher, const struct manner *manner, struct piece *piece)
{
    struct finding finding = {.matcher = matcher, .manner = manner, .piece = piece, .at = piece->begin};
    int r = matcher_search(matcher, piece->data + piece->begin, piece->end - piece->begin, found, &finding);

    piece->error = r < 0 ? r : r ? 0 : skip_to(&finding, piece->end);
}

/* ---- printing ---- */

static void print_name(struct printer *printer, const struct state *state)
{
    output_text(&printer->output, state->name ? state->name : "(standard input)");
}

#define NUMBER_MAX 20u /* digits of a uint64_t */

/* Digits in front of `end`; returns where they begin. */
static char *put_number(char *end, uint64_t number)
{
    do
        *--end = (char)('0' + number % 10);
    while (number /= 10);
    return end;
}

/* sep: ':' for what matches, '-' for context. */
static void print_line(struct printer *printer, const struct state *state, char sep, uint64_t number, const char *line,
                       size_t size)
{
    struct output *output = &printer->output;
    char head[NUMBER_MAX + 1], *end = head + sizeof(head), *begin = put_number(end - 1, number), *room;
    size_t n = (size_t)(end - begin);

    end[-1] = sep;
    if (printer->manner.prefix) {
        print_name(printer, state);
        output_write(output, &sep, 1);
    }
    room = output_room(output, n + size + 1);
    if (room) {
        memcpy(room, begin, n);
        memcpy(room + n, line, size);
        room[n + size] = '\n';
        output_put(output, n + size + 1);
        return;
    }
    output_write(output, begin, n);
    output_write(output, line, size);
    output_write(output, "\n", 1);
}

/* Lines of context, at most n of them. */
static void print_context(struct printer *printer, struct state *state, const char *data, size_t begin, size_t end,
                          size_t n)
{
    for (; begin < end && n; n--) {
        const char *newline = memchr(data + begin, '\n', end - begin);
        size_t line_end = newline ? (size_t)(newline - data) : end;

        print_line(printer, state, '-', ++state->number, data + begin, line_end - begin);
        begin = state->shown = line_end + 1;
    }
}

void findings_print_after(struct printer *printer, struct state *state, const char *data, size_t end)
{
    uint64_t before = state->number;

    if (!state->after || state->shown == NOWHERE)
        return;
    print_context(printer, state, data, state->shown, end, state->after);
    state->after -= state->number - before;
}

size_t context_begin(const char *data, size_t from, size_t at, size_t n_max, size_t *ret_n)
{
    size_t n = 0;

    for (; n < n_max && at > from; n++) {
        const char *newline = memrchr(data + from, '\n', at - 1 - from);

        at = newline ? (size_t)(newline - data) + 1 : from;
    }
    *ret_n = n;
    return at;
}

static void print_before(struct printer *printer, struct state *state, const char *data, size_t begin, uint64_t number)
{
    size_t n, at;

    findings_print_after(printer, state, data, begin);
    at = context_begin(data, state->shown == NOWHERE ? 0 : state->shown, begin, printer->manner.before, &n);
    if (printer->separate && at != state->shown)
        output_write(&printer->output, "--\n", 3);
    state->number = number - n - 1;
    print_context(printer, state, data, at, begin, n);
}

static void print_match(struct printer *printer, struct state *state, const char *data, const struct match *match)
{
    uint64_t number = state->lines + match->line + 1;

    if (printer->manner.context)
        print_before(printer, state, data, match->begin, number);
    print_line(printer, state, ':', number, data + match->begin, match->end - match->begin);
    printer->separate = printer->manner.context;
    state->shown = match->end + 1;
    state->number = number;
    state->after = printer->manner.after;
}

void findings_print(struct printer *printer, struct state *state, const struct piece *piece)
{
    for (size_t i = 0; i < piece->n_matches && !printer->output.error; i++)
        print_match(printer, state, piece->data, &piece->matches[i]);
    state->matched += piece->matched;
    state->lines += piece->lines;
    state->done |= printer->manner.list && state->matched;
}

void findings_end(struct printer *printer, const struct state *state)
{
    struct output *output = &printer->output;

    if (printer->manner.list && state->matched) {
        print_name(printer, state);
        output_write(output, "\n", 1);
    }
    if (printer->manner.list || !printer->manner.count)
        return;
    if (printer->manner.prefix) {
        print_name(printer, state);
        output_write(output, ":", 1);
    }
    output_number(output, state->matched);
    output_write(output, "\n", 1);
}
