/* SPDX-License-Identifier: Apache-2.0
 *
 * folded.c: folded stacks, from hostile text.
 * Owns the stacks.
 * Keeps: what is kept is printable ASCII, bounded in length, frames and number. All else is counted and left out. After
 * folded_end() names of C++ are as people write them.
 * Does not know what is drawn of it (flame.c, pprof.c). */
#include "folded.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/demangle.h"

/* --- reading ------------------------------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct folded_stack *)a)->text, ((const struct folded_stack *)b)->text);
}

static bool is_wanted(const struct folded *f, const char *text, size_t size)
{
    size_t n = f->only ? strlen(f->only) : 0;
    const char *end = memchr(text, ';', size);
    size_t subject = end ? (size_t)(end - text) : size;

    return !f->only || (subject >= n && memcmp(text, f->only, n) == 0 && (subject == n || text[n] == ':'));
}

/* Takes `TEXT COUNT` apart. False: it is none. */
static bool parse_line(const char *line, size_t size, size_t *ret_text, uint64_t *ret_count)
{
    const char *space = size <= FOLDED_LINE ? memrchr(line, ' ', size) : NULL;
    size_t text = space ? (size_t)(space - line) : 0, n_frames = 1;
    uint64_t count = 0;

    if (text == 0 || text + 1 == size)
        return false;
    for (size_t i = 0; i < text; i++) {
        if (line[i] < 0x20 || line[i] >= 0x7f || (line[i] == ';' && (i == 0 || i + 1 == text || line[i + 1] == ';')))
            return false;
        n_frames += line[i] == ';';
    }
    for (size_t i = text + 1; i < size; i++) {
        if (line[i] < '0' || line[i] > '9' || count > FOLDED_COUNT)
            return false;
        count = 10 * count + (uint64_t)(line[i] - '0');
    }
    *ret_text = text;
    *ret_count = count;
    return n_frames <= FOLDED_FRAMES && count > 0 && count <= FOLDED_COUNT;
}

static struct folded_stack *stack_new(const char *text, size_t size, uint64_t count)
{
    struct folded_stack *s = malloc(sizeof(*s) + size + 1);

    if (!s)
        return NULL;
    s->count = count;
    for (size_t i = 0; i < size; i++)
        s->text[i] = text[i] == ';' ? FOLDED_END : text[i];
    s->text[size] = 0;
    return s;
}

/* Takes it over; NULL: no memory. */
static int put_stack(struct folded *f, struct folded_stack *s)
{
    struct folded_stack **found;

    if (!s)
        return -ENOMEM;
    found = tsearch(s, &f->by_text, compare);
    if (found && *found != s) {
        (*found)->count += s->count;
        free(s);
        return 0;
    }
    if (found && f->n == f->room) {
        size_t room = f->room ? 2 * f->room : 256;
        struct folded_stack **stacks = realloc(f->stacks, room * sizeof(*stacks));

        if (!stacks) {
            tdelete(s, &f->by_text, compare);
            found = NULL;
        } else {
            f->stacks = stacks;
            f->room = room;
        }
    }
    if (!found) {
        free(s);
        return -ENOMEM;
    }
    f->stacks[f->n++] = s;
    return 0;
}

static int add_line(struct folded *f, const char *line, size_t size)
{
    uint64_t count;
    size_t text;

    if (!parse_line(line, size, &text, &count) || f->n == FOLDED_STACKS || count > FOLDED_COUNT - f->samples) {
        f->n_bad++;
        return 0;
    }
    if (!is_wanted(f, line, text))
        return 0;
    f->samples += count;
    return put_stack(f, stack_new(line, text, count));
}

int folded_add(struct folded *f, const void *data, size_t size)
{
    const char *end;
    int r = 0;

    if (buffer_put(&f->rest, data, size) < 0)
        return -ENOMEM;
    while (r == 0 && buffer_size(&f->rest) > 0 && (end = memchr(buffer_data(&f->rest), '\n', buffer_size(&f->rest)))) {
        const char *line = (const char *)buffer_data(&f->rest);

        r = add_line(f, line, (size_t)(end - line));
        buffer_drop(&f->rest, (size_t)(end - line) + 1);
    }
    if (r == 0 && buffer_size(&f->rest) > FOLDED_LINE) { /* that is no line */
        buffer_deinit(&f->rest);
        f->n_bad++;
    }
    return r;
}

void folded_break(struct folded *f)
{
    buffer_deinit(&f->rest);
}

static int compare_places(const void *a, const void *b)
{
    return compare(*(const void *const *)a, *(const void *const *)b);
}

static void leave(void *stack)
{
}

static void drop_stacks(struct folded *f)
{
    tdestroy(f->by_text, leave);
    for (size_t i = 0; i < f->n; i++)
        free(f->stacks[i]);
    free(f->stacks);
    f->by_text = NULL;
    f->stacks = NULL;
    f->n = f->room = 0;
}

void folded_deinit(struct folded *f)
{
    buffer_deinit(&f->rest);
    drop_stacks(f);
}

/* Puts it into `to` with other names. */
static int rename_stack(const struct demangle *names, const struct folded_stack *s, struct folded *to)
{
    _cleanup_(buffer_deinit) struct buffer text = {0};
    int r = demangle_put(names, s->text, &text);

    return r < 0 ? r : put_stack(to, stack_new((const char *)buffer_data(&text), buffer_size(&text), s->count));
}

/* Two stacks may be the same afterwards: of two constructors, for example. */
static int rename_all(struct folded *f, const struct demangle *names)
{
    struct folded to = {.n = 0};
    int r = 0;

    for (size_t i = 0; i < f->n && r == 0; i++)
        r = rename_stack(names, f->stacks[i], &to);
    if (r == 0) {
        SWAP(f->by_text, to.by_text);
        SWAP(f->stacks, to.stacks);
        SWAP(f->n, to.n);
        SWAP(f->room, to.room);
    }
    drop_stacks(&to);
    return r;
}

static int show_names(struct folded *f)
{
    struct demangle names = {.n = 0};
    int r = 0;

    for (size_t i = 0; i < f->n && r == 0; i++)
        r = demangle_note(&names, f->stacks[i]->text);
    if (r == 0)
        demangle_run(&names);
    if (r == 0 && demangle_has(&names))
        r = rename_all(f, &names);
    demangle_deinit(&names);
    return r;
}

int folded_end(struct folded *f)
{
    folded_break(f);
    int r = show_names(f);
    if (r == 0 && f->n > 0)
        qsort(f->stacks, f->n, sizeof(*f->stacks), compare_places);
    return r;
}

/* --- the tree ----------------------------------------------------------------------------------------------------- */

static struct call_frame *call_frame_new(const char *name, size_t size)
{
    struct call_frame *frame = calloc(1, sizeof(*frame));

    if (frame)
        *frame = (struct call_frame){.name = name, .size = size};
    return frame;
}

struct call_frame *call_frame_free(struct call_frame *frame)
{
    while (frame) {
        struct call_frame *next = frame->next;

        call_frame_free(frame->child);
        free(frame);
        frame = next;
    }
    return NULL;
}

/* The stacks are sorted, so this name is the last child's or that of a new one, which comes first in the list. */
static struct call_frame *call_frame_enter(struct call_frame *in, const char *name, size_t size)
{
    struct call_frame *last = in->child;

    if (last && last->size == size && memcmp(last->name, name, size) == 0)
        return last;
    struct call_frame *frame = call_frame_new(name, size);
    if (frame) {
        frame->next = in->child;
        in->child = frame;
    }
    return frame;
}

int folded_tree(const struct folded *f, struct call_frame **ret)
{
    struct call_frame *all = call_frame_new("all", 3);

    for (size_t i = 0; all && i < f->n; i++) {
        const struct folded_stack *s = f->stacks[i];
        struct call_frame *at = all;

        all->total += s->count;
        for (const char *name = s->text, *end; at && *name; name = *end ? end + 1 : end) {
            end = strchrnul(name, FOLDED_END);
            at = call_frame_enter(at, name, (size_t)(end - name));
            if (at)
                at->total += s->count;
        }
        if (!at)
            all = call_frame_free(all);
        else
            at->self += s->count;
    }
    if (!all)
        return -ENOMEM;
    *ret = all;
    return 0;
}

/* --- functions ---------------------------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    const struct hot *x = a, *y = b;
    int r = memcmp(x->name, y->name, MIN(x->size, y->size));

    return r ? r : x->size < y->size ? -1 : x->size > y->size;
}

static int compare_self(const void *a, const void *b)
{
    const struct hot *x = a, *y = b;

    if (x->self != y->self)
        return x->self > y->self ? -1 : 1;
    return x->total != y->total ? x->total > y->total ? -1 : 1 : compare_names(a, b);
}

struct hots {
    void *by_name;
    struct hot *found; /* of the last walk */
    size_t n;
};

static struct hot *hot_get(struct hots *hots, const char *name, size_t size)
{
    struct hot *h = malloc(sizeof(*h)), **found;

    if (!h)
        return NULL;
    *h = (struct hot){.name = name, .size = size};
    found = tsearch(h, &hots->by_name, compare_names);
    if (found && *found == h) {
        hots->n++;
        return h;
    }
    free(h);
    return found ? *found : NULL;
}

static int count_stack(struct hots *hots, const struct folded_stack *s, size_t number)
{
    const char *name = strchrnul(s->text, FOLDED_END), *end;
    struct hot *h = NULL;

    for (name += *name != 0; *name; name = *end ? end + 1 : end) {
        end = strchrnul(name, FOLDED_END);
        h = hot_get(hots, name, (size_t)(end - name));
        if (!h)
            return -ENOMEM;
        h->total += h->seen == number ? 0 : s->count;
        h->seen = number;
    }
    if (h)
        h->self += s->count;
    return 0;
}

static void collect(const void *node, VISIT which, void *to)
{
    struct hots *hots = to;

    if (which == postorder || which == leaf)
        hots->found[hots->n++] = **(struct hot *const *)node;
}

int folded_hot(const struct folded *f, struct hot **ret, size_t *ret_n)
{
    struct hots hots = {.n = 0};
    int r = 0;

    for (size_t i = 0; i < f->n && r == 0; i++)
        r = count_stack(&hots, f->stacks[i], i + 1);
    if (r == 0)
        hots.found = calloc(hots.n + 1, sizeof(*hots.found));
    if (hots.found) {
        hots.n = 0;
        twalk_r(hots.by_name, collect, &hots);
        qsort(hots.found, hots.n, sizeof(*hots.found), compare_self);
        *ret = hots.found;
        *ret_n = hots.n;
    }
    tdestroy(hots.by_name, free);
    return hots.found ? 0 : -ENOMEM;
}

void folded_write(const struct folded *f, FILE *to)
{
    for (size_t i = 0; i < f->n; i++) {
        for (const char *c = f->stacks[i]->text; *c; c++)
            putc(*c == FOLDED_END ? ';' : *c, to);
        fprintf(to, " %" PRIu64 "\n", f->stacks[i]->count);
    }
}
