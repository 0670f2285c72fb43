/* SPDX-License-Identifier: Apache-2.0
 *
 * search.c: the plugin `search`, equal to LC_ALL=C grep -E -n.
 * Owns one window of a file. Small files are searched many at a time, a big one window by window, each in pieces that end at
 * lines. Matches leave in the order of the arguments.
 * Keeps: a line is in one piece, and its number is the sum of the pieces before it. As in grep 3.8, bytes are read 96
 * KiB at a time. From the read with the first NUL on, the file is binary: NULs end lines, no line is printed, and a
 * match is one message. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "plugins/matcher.h"
#include "wsd/task.h"

#define READ        (96u * 1024)  /* grep's: decides what is printed of a file that turns out to be binary */
#define WINDOW      (32u * READ)  /* of a big file in memory */
#define PIECE       (128u * 1024) /* for one task */
#define SMALL       (256u * 1024) /* a file searched by one task */
#define SMALL_FILES 64u           /* in memory at once */
struct match {
    uint64_t line; /* from 0, in its piece */
    size_t begin, end;
};

/* Whole lines, searched by one task. */
struct piece {
    const char *data;
    size_t size;
    bool any;       /* one match is enough */
    uint64_t lines; /* in the piece */
    struct match *matches;
    size_t n_matches, n_allocated;
    int error;
};

struct run {
    struct wsd_job *job;
    struct matcher matcher;
    bool invert, prefix;
    bool nothing; /* each line matches, and lines that do not are wanted: like grep, no file is opened */
    struct output output;
    bool matched, failed;
    uint64_t bytes_done;
};

/* What is known of one file between two windows. */
struct state {
    const char *name; /* NULL: the input */
    bool binary;
    bool binary_matched;
    uint64_t lines;
};

/* A small file, searched ahead of its turn. */
struct small {
    const char *name;
    bool second;
    bool big; /* too big: when its turn comes, by windows */
    int error;
    char *data;
    struct state state;
    struct piece piece;
};

/* ---- one piece ---- */

static int piece_add(struct piece *piece, size_t begin, size_t end)
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

static int add_lines(struct piece *piece, size_t at, size_t to)
{
    int r = 0;

    while (at < to && !r) {
        const char *newline = memchr(piece->data + at, '\n', to - at);
        size_t end = newline ? (size_t)(newline - piece->data) : to;

        r = piece_add(piece, at, end);
        piece->lines++;
        at = end + 1;
    }
    return r;
}

struct finding {
    const struct run *run;
    struct piece *piece;
    size_t at; /* lines before it are counted */
};

/* Lines between two that match are counted, or are what is wanted. */
static int skip_to(struct finding *finding, size_t to)
{
    struct piece *piece = finding->piece;

    if (finding->run->invert)
        return add_lines(piece, finding->at, to);
    piece->lines += count_newlines(piece->data + finding->at, to - finding->at);
    return 0;
}

static int found(void *arg, size_t begin, size_t end)
{
    struct finding *finding = arg;
    struct piece *piece = finding->piece;
    int r = skip_to(finding, begin);

    if (!r && !finding->run->invert)
        r = piece_add(piece, begin, end);
    piece->lines++;
    finding->at = MIN(end + 1, piece->size);
    return r ? r : piece->any && piece->n_matches;
}

static void search_piece(struct run *run, struct piece *piece)
{
    struct finding finding = {.run = run, .piece = piece};
    int r = matcher_search(&run->matcher, piece->data, piece->size, found, &finding);

    piece->error = r < 0 ? r : r ? 0 : skip_to(&finding, piece->size);
}

static void print_piece(struct run *run, struct state *state, const struct piece *piece)
{
    struct output *output = &run->output;

    for (size_t i = 0; i < piece->n_matches && !output->error; i++) {
        const struct match *match = &piece->matches[i];

        if (run->prefix) {
            output_text(output, state->name ? state->name : "(standard input)");
            output_write(output, ":", 1);
        }
        output_number(output, state->lines + match->line + 1);
        output_write(output, ":", 1);
        output_write(output, piece->data + match->begin, match->end - match->begin);
        output_write(output, "\n", 1);
    }
    run->matched |= piece->n_matches > 0;
    state->lines += piece->lines;
}

/* ---- windows ---- */

/* Splits what is in memory. *ret_text bytes are lines of text. From there to *ret_end are binary lines; their NULs
 * become newlines. The rest is the beginning of an unfinished line. `fresh`: where the bytes of the last read begin. */
static void split(struct state *state, char *data, size_t size, size_t fresh, bool eof, size_t *ret_text,
                  size_t *ret_end)
{
    size_t text = size;
    char *nul = state->binary ? data + fresh : memchr(data + fresh, '\0', size - fresh);
    char *newline;

    if (nul) {
        size_t begin = state->binary ? fresh : fresh + ((size_t)(nul - data) - fresh) / READ * READ;

        newline = state->binary ? NULL : memrchr(data, '\n', begin);
        text = newline ? (size_t)(newline - data) + 1 : 0;
        for (size_t i = begin; i < size; i++)
            if (!data[i])
                data[i] = '\n';
        state->binary = true;
    }
    newline = eof ? NULL : memrchr(data, '\n', size);
    *ret_end = eof ? size : newline ? (size_t)(newline - data) + 1 : 0;
    *ret_text = MIN(text, *ret_end);
}

struct job_pieces {
    struct run *run;
    struct piece *pieces;
};

static void search_pieces(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    struct job_pieces *work = arg;

    for (uint64_t i = begin; i < end; i++)
        search_piece(work->run, &work->pieces[i]);
}

/* Lines of text in memory: in parallel, then printed in order. */
static int search_text(struct run *run, struct wsd_worker *self, struct state *state, const char *data, size_t size)
{
    size_t n = 0, n_max = size / PIECE + 1;
    struct piece *pieces = calloc(n_max, sizeof(*pieces));
    int r = 0;

    if (!pieces)
        return -ENOMEM;
    for (size_t at = 0; at < size;) {
        size_t wanted = at + PIECE;
        const char *newline = wanted < size ? memchr(data + wanted, '\n', size - wanted) : NULL;
        size_t end = newline ? (size_t)(newline - data) + 1 : size;

        pieces[n++] = (struct piece){.data = data + at, .size = end - at};
        at = end;
    }
    wsd_for(self, 0, n, 1, search_pieces, &(struct job_pieces){.run = run, .pieces = pieces});
    for (size_t i = 0; i < n; i++) {
        if (!r)
            r = pieces[i].error;
        if (!r)
            print_piece(run, state, &pieces[i]);
        free(pieces[i].matches);
    }
    free(pieces);
    return r ? r : run->output.error;
}

static int search_binary(struct run *run, struct state *state, const char *data, size_t size)
{
    struct piece piece = {.data = data, .size = size, .any = true};

    if (state->binary_matched || !size)
        return 0;
    search_piece(run, &piece);
    state->binary_matched = piece.n_matches > 0;
    free(piece.matches);
    return piece.error;
}

static int search_window(struct run *run, struct wsd_worker *self, struct state *state, char *data, size_t size,
                         size_t fresh, bool eof, size_t *ret_end)
{
    size_t text;
    int r;

    split(state, data, size, fresh, eof, &text, ret_end);
    r = search_text(run, self, state, data, text);
    if (!r)
        r = search_binary(run, state, data + text, *ret_end - text);
    return r;
}

/* A hole is a NUL: grep asks for it before it has read that far. */
static bool has_hole(int fd)
{
    struct stat st;
    off_t hole;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= (off_t)READ)
        return false;
    hole = lseek(fd, READ, SEEK_HOLE);
    lseek(fd, 0, SEEK_SET);
    return hole >= 0 && hole < st.st_size;
}

static int search_source(struct run *run, struct wsd_worker *self, struct state *state, struct source *source)
{
    size_t kept = 0, allocated = 0;
    _cleanup_(freep) char *data = NULL;
    bool eof = false;

    state->binary = has_hole(source->fd);
    while (!eof && !state->binary_matched) {
        if (kept + WINDOW > allocated) {
            allocated = 2 * kept + WINDOW;

            char *grown = realloc(data, allocated);

            if (!grown)
                return -ENOMEM;
            data = grown;
        }

        int64_t n = source_read(source, data + kept, WINDOW);
        size_t end;

        if (n < 0)
            return (int)n;
        eof = n < WINDOW;

        int r = search_window(run, self, state, data, kept + (size_t)n, kept, eof, &end);

        if (r)
            return r;
        kept += (size_t)n - end;
        memmove(data, data + end, kept);
        run->bytes_done += (uint64_t)n;
        wsd_job_progress(run->job, run->bytes_done, 0);
    }
    return 0;
}

/* ---- files ---- */

static void end_file(struct run *run, const struct state *state, int error)
{
    const char *name = state->name ? state->name : "(standard input)";

    if (error && error != -ECANCELED) {
        wsd_job_log(run->job, WSD_LOG_ERROR, "%s: %s: %s", run->job->argv[0], name, error_text(error));
        run->failed = true;
    }
    if (state->binary_matched) {
        wsd_job_log(run->job, WSD_LOG_INFO, "%s: %s: binary file matches", run->job->argv[0], name);
        run->matched = true;
    }
}

static int read_small(struct small *small, struct source *source)
{
    struct stat st;
    int64_t n;

    if (fstat(source->fd, &st) == 0 && st.st_size > (off_t)SMALL) {
        small->big = true;
        return 0;
    }
    small->data = malloc(SMALL + 1);
    if (!small->data)
        return -ENOMEM;
    n = source_read(source, small->data, SMALL + 1);
    if (n < 0)
        return (int)n;
    small->big = n > (int64_t)SMALL;
    small->piece.size = (size_t)n;
    return 0;
}

/* Everything but printing. */
static int search_small(struct run *run, struct small *small)
{
    _cleanup_(source_closep) struct source source = {.fd = -1};
    size_t text, end;
    int r = source_open(&source, run->job, small->name);

    if (!r)
        r = read_small(small, &source);
    if (r || small->big)
        return r;
    small->state.binary = has_hole(source.fd);
    split(&small->state, small->data, small->piece.size, 0, true, &text, &end);
    small->piece.data = small->data;
    small->piece.size = text;
    search_piece(run, &small->piece);
    return small->piece.error ? small->piece.error : search_binary(run, &small->state, small->data + text, end - text);
}

struct job_files {
    struct run *run;
    struct small *files;
};

static void search_small_files(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    struct job_files *work = arg;

    for (uint64_t i = begin; i < end; i++) {
        struct small *small = &work->files[i];

        small->state.name = small->name;
        small->big = !small->name;
        if (small->name && !wsd_job_cancelled(work->run->job))
            small->error = search_small(work->run, small);
    }
}

static int search_big(struct run *run, struct wsd_worker *self, struct small *small)
{
    _cleanup_(source_closep) struct source source = {.fd = -1};
    int r = 0;

    small->state = (struct state){.name = small->name};
    if (small->second)
        source_open_empty(&source, run->job);
    else
        r = source_open(&source, run->job, small->name);
    return r ? r : search_source(run, self, &small->state, &source);
}

/* The next few files: small ones together, then each in its turn. */
static void search_files(struct run *run, struct wsd_worker *self, struct small *files, size_t n)
{
    wsd_for(self, 0, n, 1, search_small_files, &(struct job_files){.run = run, .files = files});
    for (size_t i = 0; i < n; i++) {
        struct small *small = &files[i];

        if (small->big && !small->error && !run->output.error && !wsd_job_cancelled(run->job))
            small->error = search_big(run, self, small);
        else if (!small->error)
            print_piece(run, &small->state, &small->piece);
        end_file(run, &small->state, small->error);
        run->bytes_done += small->piece.size;
        free(small->piece.matches);
        free(small->data);
    }
    wsd_job_progress(run->job, run->bytes_done, 0);
}

/* ---- arguments ---- */

static bool parse_option(struct run *run, const char *arg)
{
    while (*++arg) {
        if (*arg == 'i')
            run->matcher.fold = true;
        else if (*arg == 'v')
            run->invert = true;
        else if (!strchr("En", *arg))
            return false;
    }
    return true;
}

/* names: the operands, room for argc. */
static int take_arguments(struct run *run, const char **names, size_t *ret_n)
{
    struct wsd_job *job = run->job;
    const char *pattern = NULL;
    bool operands = false;
    size_t n = 0;

    for (uint32_t i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i];

        if (!operands && strcmp(arg, "--") == 0) {
            operands = true;
        } else if (!operands && arg[0] == '-' && arg[1]) {
            if (!parse_option(run, arg))
                return wsd_job_fail(job, 2, "unrecognized option '%s'; usage: search [-iv] PATTERN [FILE]...", arg);
        } else if (!pattern) {
            pattern = arg;
        } else {
            names[n++] = arg;
        }
    }
    if (!pattern)
        return wsd_job_fail(job, 2, "no pattern; usage: search [-iv] PATTERN [FILE]...");
    if (!n)
        names[n++] = "-";
    run->prefix = n > 1;
    run->nothing = run->invert && strspn(pattern, "\n") == strlen(pattern);
    *ret_n = n;
    return matcher_init(&run->matcher, pattern);
}

static void search_all(struct run *run, struct wsd_worker *self, const char *const *names, size_t n)
{
    bool input = false;
    size_t i = 0;

    while (i < n && !run->output.error && !wsd_job_cancelled(run->job)) {
        struct small files[SMALL_FILES] = {{.name = NULL}};
        size_t m;

        for (m = 0; m < SMALL_FILES && i < n; m++, i++) {
            bool dash = strcmp(names[i], "-") == 0;

            files[m].name = dash ? NULL : names[i];
            files[m].second = dash && input;
            input |= dash;
        }
        search_files(run, self, files, m);
    }
}

static int search(struct wsd_job *job, struct wsd_worker *self)
{
    _cleanup_(freep) const char **names = calloc(job->argc + 1, sizeof(*names));
    struct run run = {.job = job, .matcher = {.job = job}, .output = {.job = job}};
    size_t n = 0;

    if (!names)
        return wsd_job_fail(job, 2, "out of memory");
    int status = take_arguments(&run, names, &n);

    if (!status) {
        if (!run.nothing)
            search_all(&run, self, names, n);

        int r = output_end(&run.output);

        if (r && r != -ECANCELED)
            status = wsd_job_fail(job, 2, "output: %s", error_text(r));
        else if (run.failed)
            status = wsd_job_fail(job, 2, "some files could not be searched");
        else
            status = r ? 2 : !run.matched;
    }
    matcher_deinit(&run.matcher);
    return status;
}

static const struct wsd_function functions[] = {
    {.name = "search",
     .help = "[-iv] PATTERN [FILE]...: numbered lines that match, like grep -E -n in the C locale",
     .flags = WSD_FN_IDEMPOTENT,
     .run = search},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "search", .version = "0.1.0",
           .help = "finds lines by an extended regular expression, as grep -E -n does");
