/* SPDX-License-Identifier: Apache-2.0
 *
 * sort.c: the plugin `sort`, equal to LC_ALL=C sort.
 * Owns the texts of files while its job runs (the input is used where it lies) and two arrays with an entry a line.
 * Finding lines, sorting and merging all fork; the merge of two sorted halves is split at the median of the longer.
 * Keeps: lines are never copied before they are written.
 * Does not use temporary files: everything must fit into memory. Equal lines are the same bytes, so that neither -r
 * nor the merges need to be stable. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "plugins/lines.h"
#include "plugins/texts.h"
#include "wsd/task.h"

#define PIECE (1024u * 1024) /* of text, for one task that looks for lines */

struct piece {
    const char *data;
    size_t size;
    size_t first, n; /* lines */
};

struct run {
    struct wsd_job *job;
    bool reverse, unique;
    struct text *texts;
    size_t n_texts;
    struct piece *pieces;
    size_t n_pieces;
    struct line *lines, *spare;
    size_t n_lines;
    _Atomic bool changed; /* the text, while it was read [relaxed: the join of the loop orders it] */
};

/* ---- reading ---- */

static int read_texts(struct run *run, const char *const *names, size_t n)
{
    bool input = false;

    for (size_t i = 0; i < n; i++) {
        struct text *text = &run->texts[run->n_texts++];
        bool dash = strcmp(names[i], "-") == 0;
        int r = dash && input ? 0 : text_read(text, run->job, dash ? NULL : names[i]);

        if (r == -ECANCELED)
            return 2;
        if (r) {
            _cleanup_(freep) char *quoted = name_quote(names[i]);

            return wsd_job_fail(run->job, 2, "%s: %s: %s", r == -EISDIR ? "read failed" : "cannot read",
                                quoted ? quoted : names[i], error_text(r));
        }
        input |= dash;
    }
    return 0;
}

/* ---- lines ---- */

static int make_pieces(struct run *run)
{
    size_t n = 0;

    for (size_t i = 0; i < run->n_texts; i++)
        n += run->texts[i].size / PIECE + 1;
    run->pieces = calloc(n, sizeof(*run->pieces));
    if (!run->pieces)
        return -ENOMEM;
    for (size_t i = 0; i < run->n_texts; i++) {
        const struct text *text = &run->texts[i];

        for (size_t at = 0; at < text->size;) {
            size_t size = lines_cut(text->data + at, text->size - at, PIECE);

            run->pieces[run->n_pieces++] = (struct piece){.data = text->data + at, .size = size};
            at += size;
        }
    }
    return 0;
}

static void count_pieces(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    struct run *run = arg;

    for (uint64_t i = begin; i < end && !wsd_job_cancelled(run->job); i++)
        run->pieces[i].n = lines_count(run->pieces[i].data, run->pieces[i].size);
}

static void fill_pieces(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    struct run *run = arg;

    for (uint64_t i = begin; i < end && !wsd_job_cancelled(run->job); i++) {
        const struct piece *piece = &run->pieces[i];

        if (!lines_find(piece->data, piece->size, run->lines + piece->first, piece->n))
            atomic_store_explicit(&run->changed, true, memory_order_relaxed);
    }
}

static int find_lines(struct run *run, struct wsd_worker *self)
{
    int r = make_pieces(run);

    if (r)
        return r;
    wsd_for(self, 0, run->n_pieces, 1, count_pieces, run);
    if (wsd_job_cancelled(run->job))
        return -ECANCELED;
    for (size_t i = 0; i < run->n_pieces; i++) {
        run->pieces[i].first = run->n_lines;
        run->n_lines += run->pieces[i].n;
    }
    run->lines = lines_new(run->n_lines);
    run->spare = lines_new(run->n_lines);
    if (!run->lines || !run->spare)
        return -ENOMEM;
    wsd_for(self, 0, run->n_pieces, 1, fill_pieces, run);
    return wsd_job_cancelled(run->job)                                 ? -ECANCELED
           : atomic_load_explicit(&run->changed, memory_order_relaxed) ? -ESTALE
                                                                       : 0;
}

/* ---- writing ---- */

static int write_lines(struct run *run)
{
    struct output output = {.job = run->job};
    const struct line *last = NULL;

    for (size_t i = 0; i < run->n_lines && !output.error; i++) {
        const struct line *line = &run->lines[run->reverse ? run->n_lines - 1 - i : i];

        if (i % 65536 == 0)
            wsd_job_progress(run->job, i, run->n_lines);
        if (run->unique && last && line_compare(last, line) == 0)
            continue;
        output_write(&output, line->data, line->size);
        output_write(&output, "\n", 1);
        last = line;
    }
    return output_end(&output);
}

/* ---- arguments ---- */

static int take_arguments(struct run *run, const char **names, size_t *ret_n)
{
    struct wsd_job *job = run->job;
    bool operands = false;
    size_t n = 0;

    for (uint32_t i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i];

        if (!operands && strcmp(arg, "--") == 0) {
            operands = true;
        } else if (!operands && arg[0] == '-' && arg[1]) {
            if (strspn(arg + 1, "ru") != strlen(arg + 1))
                return wsd_job_fail(job, 2, "unrecognized option '%s'; usage: sort [-ru] [FILE]...", arg);
            run->reverse |= strchr(arg, 'r') != NULL;
            run->unique |= strchr(arg, 'u') != NULL;
        } else {
            names[n++] = arg;
        }
    }
    if (!n)
        names[n++] = "-";
    *ret_n = n;
    return 0;
}

static int sort_all(struct run *run, struct wsd_worker *self, const char *const *names, size_t n)
{
    int status = read_texts(run, names, n);
    int r;

    if (status)
        return status;
    r = find_lines(run, self);
    if (!r && lines_sort(self, run->job, run->lines, run->spare, run->n_lines))
        r = write_lines(run);
    if (r && r != -ECANCELED)
        return wsd_job_fail(run->job, 2, "%s", r == -ESTALE ? "its input changed while it was sorted" : error_text(r));
    return r || wsd_job_cancelled(run->job) ? 2 : 0;
}

static int sort(struct wsd_job *job, struct wsd_worker *self)
{
    struct run run = {.job = job};
    _cleanup_(freep) const char **names = calloc(job->argc + 1, sizeof(*names));
    size_t n = 0;
    int status;

    run.texts = calloc(job->argc + 1, sizeof(*run.texts));
    if (!names || !run.texts)
        status = wsd_job_fail(job, 2, "out of memory");
    else
        status = take_arguments(&run, names, &n);
    if (!status)
        status = sort_all(&run, self, names, n);
    for (size_t i = 0; i < run.n_texts; i++)
        text_deinit(&run.texts[i]);
    free(run.texts);
    free(run.pieces);
    free(run.lines);
    free(run.spare);
    return status;
}

static const struct wsd_function functions[] = {
    {.name = "sort",
     .help = "[-ru] [FILE]...: lines of all files or of the input, like sort in the C locale",
     .flags = WSD_FN_IDEMPOTENT,
     .run = sort},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "sort", .version = "0.1.0",
           .help = "sorts lines of files or the input, as sort does");
