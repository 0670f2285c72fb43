/* SPDX-License-Identifier: Apache-2.0
 *
 * join.c: `text:join`, equal to LC_ALL=C join of two files.
 * Owns both texts while its job runs, and the parts on their way. Where both are in order, they are cut in front of the
 * same keys, and each pair of parts is merged by a task of its own. Where one is not, the answer depends on the way that
 * the merge takes, so that all is one part.
 * Keeps: what a task writes into memory is bounded; a part that gives more is merged on as it is written.
 * Does not use temporary files: both texts must fit into memory. */
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "plugins/fields.h"
#include "plugins/lines.h"
#include "plugins/text.h"
#include "plugins/texts.h"
#include "wsd/forms.h"
#include "wsd/task.h"

#define PIECE      (128u * 1024)  /* of the larger text, for one task */
#define OUTPUT_MAX (1024u * 1024) /* of a part in memory, and one line */
#define STEPS      4096u          /* lines between two looks at the cancel flag */

/* One of the two inputs, by what was asked for it. */
struct side {
    const char *name;
    struct text text;
    size_t field; /* of the key, from 0 */
    bool field_given;
    bool unpaired; /* its lines without a partner are wanted */
    bool in_order;
    int error; /* of reading */
};

struct run {
    struct wsd_job *job;
    struct side sides[2];
    int separator; /* for fields.h */
    char glue;     /* between the fields of the answer */
    bool no_pairs; /* -v */
    bool disorder; /* the tool's complaint was made */
    struct cache parts;
    size_t at[2]; /* where the next part begins */
    bool cut_all;
    uint64_t bytes_done;
};

/* A text's line, and its key. */
struct row {
    const char *line;
    size_t size;
    struct field key;
};

/* One text in a merge. */
struct walk {
    const char *next, *end; /* the line behind the row; the end of the part */
    struct row row;         /* the current one */
    bool valid;             /* there is one */
    uint64_t number;        /* of the row's line, from 1 */
    bool complained;
};

/* Where a merge stands. It can stop between any two lines that it gives. */
struct merge {
    struct walk walks[2];
    bool checks;   /* the texts may be out of order */
    bool unpaired; /* a line without a partner was seen: from here on the tool minds the order */
    /* Lines of one key: each row of the first side with each of the second. */
    bool pairing;
    struct row first, second;           /* the pair that is next */
    struct row second_begin;            /* the second side's first one */
    const char *first_end, *second_end; /* behind the last ones */
    bool done, cancelled;
};

struct part {
    const char *begin[2], *end[2];
    struct merge merge;
    struct buffer text;
    uint64_t bytes;
};

/* ---- rows ---- */

static struct row row_at(const struct run *run, unsigned i, const char *line, const char *end)
{
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    size_t size = (size_t)((newline ? newline : end) - line);

    return (struct row){.line = line, .size = size, .key = fields_at(line, size, run->separator, run->sides[i].field)};
}

/* Where the line behind the row begins: never behind the end. */
static const char *row_next(const struct row *row, const char *end)
{
    const char *next = row->line + row->size;

    return next < end ? next + 1 : end;
}

/* The fields but for the key, each behind the glue. */
static char *put_fields(const struct run *run, char *to, const struct row *row, size_t key)
{
    struct fields fields = fields_begin(row->line, row->size, run->separator);
    struct field field;

    for (size_t i = 0; fields_next(&fields, &field); i++) {
        if (i == key)
            continue;
        *to++ = run->glue;
        memcpy(to, field.data, field.size);
        to += field.size;
    }
    return to;
}

/* A line of the answer: of a pair, or of the side that has a row. */
static int put_rows(const struct run *run, struct buffer *text, const struct row *first, const struct row *second)
{
    const struct field *key = first ? &first->key : &second->key;
    /* No row gives more than itself and one glue. */
    char *to = buffer_room(text, (first ? first->size : 0) + (second ? second->size : 0) + key->size + 3);

    if (!to)
        return -ENOMEM;
    memcpy(to, key->data, key->size);
    to += key->size;
    if (first)
        to = put_fields(run, to, first, run->sides[0].field);
    if (second)
        to = put_fields(run, to, second, run->sides[1].field);
    *to++ = '\n';
    text->size = (size_t)(to - text->data);
    return 0;
}

/* ---- merging ---- */

/* What the tool says of a line that comes too late, once a file. */
static void complain(const struct run *run, unsigned i, struct walk *walk)
{
    wsd_job_log(run->job, WSD_LOG_ERROR, "%s: %s:%llu: is not sorted: %.*s", run->job->argv[0], run->sides[i].name,
                (unsigned long long)walk->number, (int)MIN(walk->row.size, (size_t)WSD_TEXT_MAX), walk->row.line);
    walk->complained = true;
}

static void walk_step(const struct run *run, struct merge *merge, unsigned i)
{
    struct walk *walk = &merge->walks[i];
    struct field before = walk->row.key;

    walk->valid = walk->next < walk->end;
    if (!walk->valid)
        return;
    walk->row = row_at(run, i, walk->next, walk->end);
    walk->next = row_next(&walk->row, walk->end);
    walk->number++;
    if (merge->checks && merge->unpaired && !walk->complained && walk->number > 1 &&
        field_compare(&before, &walk->row.key) > 0)
        complain(run, i, walk);
}

static void merge_begin(const struct run *run, struct merge *merge, const struct part *part, bool checks)
{
    *merge = (struct merge){.checks = checks};
    for (unsigned i = 0; i < 2; i++) {
        merge->walks[i].next = part->begin[i];
        merge->walks[i].end = part->end[i];
        walk_step(run, merge, i);
    }
}

static int give_unpaired(const struct run *run, struct merge *merge, unsigned i, struct buffer *text)
{
    const struct row *row = &merge->walks[i].row;
    int r = run->sides[i].unpaired ? put_rows(run, text, i ? NULL : row, i ? row : NULL) : 0;

    walk_step(run, merge, i);
    merge->unpaired |= merge->walks[!i].valid;
    return r;
}

/* Passes all rows of the current key; returns where the first one behind them begins. */
static const char *pass_key(const struct run *run, struct merge *merge, unsigned i)
{
    struct walk *walk = &merge->walks[i];
    const struct row first = walk->row;
    const char *end;
    size_t n = 0;

    do {
        end = walk->next;
        walk_step(run, merge, i);
        if (++n % STEPS == 0)
            merge->cancelled |= wsd_job_cancelled(run->job);
    } while (walk->valid && !merge->cancelled && field_compare(&first.key, &walk->row.key) == 0);
    return end;
}

static void begin_pairs(const struct run *run, struct merge *merge)
{
    merge->first = merge->walks[0].row;
    merge->second = merge->second_begin = merge->walks[1].row;
    merge->first_end = pass_key(run, merge, 0);
    merge->second_end = pass_key(run, merge, 1);
    merge->pairing = !run->no_pairs;
}

static int give_pair(const struct run *run, struct merge *merge, struct buffer *text)
{
    int r = put_rows(run, text, &merge->first, &merge->second);
    const char *first = row_next(&merge->first, merge->first_end);
    const char *second = row_next(&merge->second, merge->second_end);

    if (second < merge->second_end) {
        merge->second = row_at(run, 1, second, merge->second_end);
        return r;
    }
    merge->pairing = first < merge->first_end;
    if (merge->pairing) {
        merge->first = row_at(run, 0, first, merge->first_end);
        merge->second = merge->second_begin;
    }
    return r;
}

/* Whether a text that alone is left has still to be walked through: for its lines, or for their order. */
static bool minds_rest(const struct run *run, const struct merge *merge, unsigned i)
{
    return run->sides[i].unpaired || (merge->checks && !merge->walks[i].complained);
}

/* Gives one line of the answer, or passes some of the texts. */
static int merge_step(const struct run *run, struct merge *merge, struct buffer *text)
{
    const struct walk *walks = merge->walks;
    int order;

    if (merge->pairing)
        return give_pair(run, merge, text);
    if (!walks[0].valid || !walks[1].valid) {
        unsigned left = walks[1].valid;

        merge->done = !walks[left].valid || !minds_rest(run, merge, left);
        return merge->done ? 0 : give_unpaired(run, merge, left, text);
    }
    order = field_compare(&walks[0].row.key, &walks[1].row.key);
    if (order)
        return give_unpaired(run, merge, order > 0, text);
    begin_pairs(run, merge);
    return 0;
}

/* Merges until the part is done or the buffer is full. */
static int merge_some(const struct run *run, struct part *part)
{
    int r = 0;

    part->text.size = 0;
    for (size_t i = 0; !r && !part->merge.done && part->text.size < OUTPUT_MAX; i++) {
        if (part->merge.cancelled || (i % STEPS == 0 && wsd_job_cancelled(run->job)))
            return -ECANCELED;
        r = merge_step(run, &part->merge, &part->text);
    }
    return r;
}

/* ---- parts ---- */

static void *part_new(void *context)
{
    return calloc(1, sizeof(struct part));
}

static void part_free(void *object)
{
    struct part *part = object;

    buffer_deinit(&part->text);
    free(part);
}

/* The place of the first line with a key that is not below this one. Requires a text in order. */
static size_t lower_bound(const struct run *run, unsigned i, const struct field *key)
{
    const char *data = run->sides[i].text.data, *all = data + run->sides[i].text.size;
    size_t begin = 0, end = run->sides[i].text.size;

    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const char *newline = memrchr(data + begin, '\n', middle - begin);
        struct row row = row_at(run, i, newline ? newline + 1 : data + begin, all);

        if (field_compare(&row.key, key) < 0)
            begin = (size_t)(row_next(&row, all) - data);
        else
            end = (size_t)(row.line - data);
    }
    return begin;
}

/* Finds where both texts are cut next: in front of all lines of a key. */
static void find_cut(struct run *run, size_t ret_to[2])
{
    unsigned large = run->sides[1].text.size > run->sides[0].text.size;
    const struct text *text = &run->sides[large].text;
    size_t at = run->at[large];

    while (at < text->size) {
        at += lines_cut(text->data + at, text->size - at, PIECE);
        if (at == text->size)
            break;

        struct row row = row_at(run, large, text->data + at, text->data + text->size);
        size_t cut = lower_bound(run, large, &row.key);

        if (cut > run->at[large]) {
            ret_to[large] = cut;
            ret_to[!large] = lower_bound(run, !large, &row.key);
            return;
        }
    }
    ret_to[0] = run->sides[0].text.size;
    ret_to[1] = run->sides[1].text.size;
    run->cut_all = true;
}

static int cut_part(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct run *run = arg;
    struct part *part;
    size_t to[2] = {run->sides[0].text.size, run->sides[1].text.size};
    bool sorted = run->sides[0].in_order && run->sides[1].in_order;

    if (run->cut_all)
        return 0;
    if (wsd_job_cancelled(run->job))
        return -ECANCELED;
    part = cache_take(&run->parts);
    if (!part)
        return -ENOMEM;
    if (sorted)
        find_cut(run, to);
    else
        run->cut_all = true;
    part->bytes = 0;
    for (unsigned i = 0; i < 2; i++) {
        part->begin[i] = run->sides[i].text.data + run->at[i];
        part->end[i] = run->sides[i].text.data + to[i];
        part->bytes += to[i] - run->at[i];
        run->at[i] = to[i];
    }
    merge_begin(run, &part->merge, part, !sorted);
    *item = part;
    return 0;
}

static int merge_part(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    return merge_some(arg, *item);
}

static int write_part(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct run *run = arg;
    struct part *part = *item;
    int r = wsd_job_write(run->job, part->text.data, part->text.size);

    while (!r && !part->merge.done) {
        r = merge_some(run, part);
        if (!r)
            r = wsd_job_write(run->job, part->text.data, part->text.size);
    }
    run->disorder |= part->merge.walks[0].complained || part->merge.walks[1].complained;
    run->bytes_done += part->bytes;
    wsd_job_progress(run->job, run->bytes_done, run->sides[0].text.size + run->sides[1].text.size);
    if (!r)
        cache_give(&run->parts, part);
    return r;
}

static void drop_part(void *item, uint32_t stage, void *arg)
{
    part_free(item);
}

/* ---- the order of the texts ---- */

struct check {
    const struct run *run;
    unsigned side;
    atomic_bool disorder; /* [any, relaxed] only ever set */
};

/* Whether the lines that begin in this piece, and the first one behind it, are in order. */
static bool piece_in_order(const struct check *check, size_t begin, size_t end)
{
    const struct text *text = &check->run->sides[check->side].text;
    const char *all = text->data + text->size, *at = text->data + begin;
    struct row row, last;

    if (begin) {
        at = memchr(at - 1, '\n', end - begin);
        if (!at)
            return true; /* no line begins here */
        at++;
    }
    if (at >= text->data + end)
        return true;
    last = row_at(check->run, check->side, at, all);
    for (at = row_next(&last, all); at < all && last.line < text->data + end; at = row_next(&row, all)) {
        row = row_at(check->run, check->side, at, all);
        if (field_compare(&last.key, &row.key) > 0)
            return false;
        last = row;
    }
    return true;
}

static void check_pieces(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    struct check *check = arg;
    size_t size = check->run->sides[check->side].text.size;

    for (uint64_t i = begin; i < end && !wsd_job_cancelled(check->run->job); i++) {
        if (atomic_load_explicit(&check->disorder, memory_order_relaxed))
            return;
        if (!piece_in_order(check, (size_t)i * PIECE, (size_t)MIN((i + 1) * (uint64_t)PIECE, size)))
            atomic_store_explicit(&check->disorder, true, memory_order_relaxed);
    }
}

static void check_order(struct run *run, struct wsd_worker *self, unsigned side)
{
    struct check check = {.run = run, .side = side};

    wsd_for(self, 0, (run->sides[side].text.size + PIECE - 1) / PIECE, 1, check_pieces, &check);
    run->sides[side].in_order = !atomic_load_explicit(&check.disorder, memory_order_relaxed);
}

static int join_texts(struct run *run, struct wsd_worker *self)
{
    const struct wsd_stage stages[] = {
        {.run = cut_part, .arg = run, .kind = WSD_STAGE_ORDERED},
        {.run = merge_part, .arg = run},
        {.run = write_part, .arg = run, .kind = WSD_STAGE_ORDERED},
    };
    int r;

    check_order(run, self, 0);
    check_order(run, self, 1);
    if (wsd_job_cancelled(run->job))
        return -ECANCELED;
    cache_init(&run->parts, part_new, part_free, NULL);
    r = wsd_pipeline(self, NULL, stages, ARRAY_SIZE(stages), 0, drop_part, NULL);
    cache_deinit(&run->parts);
    return r;
}

/* ---- arguments ---- */

static const char usage[] = "usage: text:join [-a N] [-v N] [-t CHAR] [-1 FIELD] [-2 FIELD] FILE1 FILE2";

static int take_separator(struct run *run, const char *value)
{
    int byte = strcmp(value, "\\0") == 0 ? 0 : (unsigned char)value[0];

    if (byte && value[1])
        return wsd_job_fail(run->job, 1, "multi-character tab '%s'; -t takes one byte", value);
    if (!*value)
        byte = '\n';
    if (run->separator != FIELDS_BLANKS && (unsigned char)run->glue != byte)
        return wsd_job_fail(run->job, 1, "incompatible tabs; give -t once");
    run->separator = byte == '\n' ? FIELDS_WHOLE : byte;
    run->glue = (char)byte;
    return 0;
}

static int take_side(struct run *run, char option, const char *value)
{
    if (strcmp(value, "1") != 0 && strcmp(value, "2") != 0)
        return wsd_job_fail(run->job, 1, "invalid file number: '%s'; -%c takes 1 or 2", value, option);
    run->sides[value[0] - '1'].unpaired = true;
    run->no_pairs |= option == 'v';
    return 0;
}

static int take_field(struct run *run, struct side *side, const char *value)
{
    size_t digits = strspn(value, "0123456789");
    unsigned long number = digits && !value[digits] ? strtoul(value, NULL, 10) : 0;

    if (!number)
        return wsd_job_fail(run->job, 1, "invalid field number: '%s'; fields count from 1", value);
    if (side->field_given && side->field != number - 1)
        return wsd_job_fail(run->job, 1, "incompatible join fields %zu, %zu", side->field + 1, (size_t)number);
    side->field = number - 1;
    side->field_given = true;
    return 0;
}

/* One option and its value, which stands in the same word or in the next. */
static int take_option(struct run *run, uint32_t *i)
{
    struct wsd_job *job = run->job;
    const char *option = job->argv[*i] + 1, *value = option + 1;

    if (!strchr("avt12", *option))
        return wsd_job_fail(job, 1, "unrecognized option '-%s'; %s", option, usage);
    if (!*value) {
        if (*i + 1 == job->argc)
            return wsd_job_fail(job, 1, "option requires an argument -- '%c'; %s", *option, usage);
        value = job->argv[++*i];
    }
    if (*option == 't')
        return take_separator(run, value);
    if (*option == 'a' || *option == 'v')
        return take_side(run, *option, value);
    return take_field(run, &run->sides[*option - '1'], value);
}

static int take_arguments(struct run *run)
{
    struct wsd_job *job = run->job;
    bool operands = false;
    unsigned n = 0;

    for (uint32_t i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i];

        if (!operands && strcmp(arg, "--") == 0) {
            operands = true;
        } else if (!operands && arg[0] == '-' && arg[1]) {
            int status = take_option(run, &i);

            if (status)
                return status;
        } else if (n == 2) {
            return wsd_job_fail(job, 1, "extra operand '%s'; %s", arg, usage);
        } else {
            run->sides[n++].name = arg;
        }
    }
    return n == 2 ? 0 : wsd_job_fail(job, 1, "missing operand; %s", usage);
}

/* Both at once. */
static void read_sides(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    struct run *run = arg;

    for (uint64_t i = begin; i < end; i++) {
        struct side *side = &run->sides[i];

        side->error = text_read(&side->text, run->job, strcmp(side->name, "-") == 0 ? NULL : side->name);
        if (!side->text.data)
            side->text.data = ""; /* an empty input */
    }
}

/* Says what went wrong with one that was read. */
static int check_side(const struct run *run, const struct side *side)
{
    _cleanup_(freep) char *quoted = side->error ? name_quote(side->name) : NULL;

    if (!side->error || side->error == -ECANCELED)
        return side->error ? 1 : 0;
    return wsd_job_fail(run->job, 1, "%s%s: %s", side->error == -EISDIR ? "read error: " : "",
                        quoted ? quoted : side->name, error_text(side->error));
}

static int join_all(struct run *run, struct wsd_worker *self)
{
    int status = take_arguments(run);
    int r;

    if (status)
        return status;
    if (strcmp(run->sides[0].name, "-") == 0 && strcmp(run->sides[1].name, "-") == 0)
        return wsd_job_fail(run->job, 1, "both files cannot be standard input");
    wsd_for(self, 0, 2, 1, read_sides, run);
    for (unsigned i = 0; i < 2 && !status; i++)
        status = check_side(run, &run->sides[i]);
    if (status)
        return status;
    r = join_texts(run, self);
    if (r && r != -ECANCELED)
        return wsd_job_fail(run->job, 1, "%s", error_text(r));
    if (!r && run->disorder)
        return wsd_job_fail(run->job, 1, "input is not in sorted order");
    return r ? 1 : 0;
}

int text_join(struct wsd_job *job, struct wsd_worker *self)
{
    struct run run = {.job = job, .separator = FIELDS_BLANKS, .glue = ' '};
    int status = join_all(&run, self);

    text_deinit(&run.sides[0].text);
    text_deinit(&run.sides[1].text);
    return status;
}
