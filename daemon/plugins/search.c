/* SPDX-License-Identifier: Apache-2.0
 *
 * search.c: the plugin `search`, equal to LC_ALL=C grep -E -n.
 * Owns the files of one job, and what it prints of them. Small files are searched many at a time, a big one window by
 * window, each in pieces that end at lines. The task that searches a piece has also read it, so that it lies in the
 * cache. Matches leave in the order of the arguments.
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
#include "plugins/findings.h"
#include "plugins/matcher.h"
#include "plugins/walk.h"
#include "wsd/task.h"

#define READ        (96u * 1024) /* grep's: decides what is printed of a file that turns out to be binary */
#define SEGMENT     (4u * READ)  /* read and searched by one task */
#define SEGMENTS    8u           /* in a window */
#define WINDOW      (SEGMENTS * SEGMENT)
#define SMALL       (256u * 1024) /* a file searched by one task */
#define SMALL_FILES 64u           /* in memory at once */
#define CONTEXT_MAX 10000u        /* lines, of -A, -B and -C */

struct run {
    struct wsd_job *job;
    struct matcher matcher;
    struct printer printer;
    size_t lines_after, lines_before, lines_around; /* of -A, -B and -C, or NOWHERE */
    bool recurse;                                   /* -r */
    bool walks_all;                                 /* it, and no name: one that was found is a file's, also `-` */
    bool skip;                                      /* -I: binary files have no match */
    bool nothing; /* each line matches, and lines that do not are wanted: like grep, no file is opened */
    bool matched, failed;
    uint64_t bytes_done;
};

/* A small file, searched ahead of its turn. */
struct small {
    const char *name;
    bool second;
    bool big; /* too big: when its turn comes, by windows */
    int error;
    char *data;
    size_t size;
    struct state state;
    struct piece piece;
};

/* A part of a window: what came of reading and searching it. */
struct segment {
    int64_t size; /* bytes, or a negative errno */
    bool nul;
    size_t first, last; /* in the window, behind its first and its last newline; both 0 where it has none */
    struct piece piece; /* the lines between */
};

struct window {
    struct source *source;
    char *buffer; /* not used as long as the input, which lies in memory, is searched where it lies */
    size_t allocated;
    const char *data;   /* of the window: what was kept, then what is fresh */
    size_t kept, fresh; /* bytes */
    size_t searched;    /* of those kept: they may still be printed as context */
    uint64_t offset;    /* of the fresh bytes, in the file */
    bool eof;
    struct segment segments[SEGMENTS];
};

/* ---- text and binary ---- */

/* One match of a binary file is enough, unless its lines are counted. */
static bool any_will_do(const struct run *run, bool binary)
{
    const struct manner *manner = &run->printer.manner;

    return manner->list || (binary && !manner->count);
}

static void search_piece(struct run *run, struct piece *piece)
{
    findings_search(&run->matcher, &run->printer.manner, piece);
}

/* Searches lines of the window by this task, and prints them. */
static int search_here(struct run *run, struct state *state, const char *data, size_t begin, size_t end, bool binary)
{
    struct piece piece = {.data = data, .begin = begin, .end = end, .any = any_will_do(run, binary)};

    if (begin == end || state->done)
        return 0;
    search_piece(run, &piece);
    if (binary)
        piece.lines = 0; /* nothing behind it has a number */
    if (!piece.error)
        findings_print(&run->printer, state, &piece);
    state->done |= piece.any && state->matched;
    free(piece.matches);
    return piece.error ? piece.error : run->printer.output.error;
}

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

/* What comes from the first NUL's read on. With -I the file has no match then. */
static int search_binary(struct run *run, struct state *state, const char *data, size_t begin, size_t end)
{
    uint64_t before = state->matched;
    int r;

    if (state->done)
        return 0;
    if (run->skip) {
        state->skipped = state->done = true;
        return 0;
    }
    r = search_here(run, state, data, begin, end, true);
    state->binary_matched |= state->matched > before;
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
    return hole >= 0 && hole < st.st_size;
}

/* ---- windows ---- */

static bool is_in_place(const struct window *window)
{
    return window->data != window->buffer;
}

/* What was kept, and room behind it, in a buffer of its own. */
static int window_reserve(struct window *window)
{
    bool in_place = is_in_place(window);
    size_t wanted = window->kept + WINDOW;

    if (wanted > window->allocated) {
        char *grown = realloc(window->buffer, wanted + window->kept);

        if (!grown)
            return -ENOMEM;
        window->buffer = grown;
        window->allocated = wanted + window->kept;
    }
    if (in_place)
        memcpy(window->buffer, window->data, window->kept);
    window->data = window->buffer;
    return 0;
}

/* Of the input: its next bytes, where they lie or behind what was kept. */
static int window_take(struct window *window)
{
    struct source *source = window->source;
    const char *fresh = (const char *)source->data;
    int r;

    window->fresh = (size_t)MIN(source->size, WINDOW);
    source->data += window->fresh;
    source->size -= window->fresh;
    if (!window->fresh || is_in_place(window))
        return 0;
    r = window_reserve(window);
    if (!r)
        memcpy(window->buffer + window->kept, fresh, window->fresh);
    return r;
}

/* Reads its bytes, where they are not in memory. */
static int64_t segment_read(struct window *window, size_t i)
{
    const struct source *source = window->source;
    size_t at = i * SEGMENT;

    if (source->fd >= 0)
        return pread_full(source->fd, window->buffer + window->kept + at, SEGMENT, window->offset + at);
    return at >= window->fresh ? 0 : (int64_t)MIN(window->fresh - at, SEGMENT);
}

struct reading {
    struct run *run;
    struct window *window;
    bool text; /* no NUL so far, so that lines are worth a search */
};

static void segment_search(struct reading *reading, size_t i)
{
    struct window *window = reading->window;
    struct segment *segment = &window->segments[i];
    size_t begin = window->kept + i * SEGMENT;
    const char *data = window->data + begin, *newline;

    *segment = (struct segment){.size = wsd_job_cancelled(reading->run->job) ? -ECANCELED : segment_read(window, i)};
    if (segment->size <= 0 || !reading->text)
        return;
    segment->nul = memchr(data, '\0', (size_t)segment->size);
    newline = segment->nul ? NULL : memchr(data, '\n', (size_t)segment->size);
    if (!newline)
        return;
    segment->first = begin + (size_t)(newline - data) + 1;
    newline = memrchr(data, '\n', (size_t)segment->size);
    if (!newline) { /* others write to the file */
        segment->first = 0;
        return;
    }
    segment->last = begin + (size_t)(newline - data) + 1;
    segment->piece = (struct piece){
        .data = window->data, .begin = segment->first, .end = segment->last, .any = any_will_do(reading->run, false)};
    search_piece(reading->run, &segment->piece);
}

static void search_segments(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    for (uint64_t i = begin; i < end; i++)
        segment_search(arg, i);
}

/* A file that ends, or that fails, in a segment has nothing behind it. */
static int window_measure(struct window *window, bool *ret_nul)
{
    window->fresh = 0;
    *ret_nul = false;
    for (size_t i = 0; i < SEGMENTS && !window->eof; i++) {
        struct segment *segment = &window->segments[i];

        if (segment->size < 0)
            return (int)segment->size;
        window->fresh += (size_t)segment->size;
        window->eof = segment->size < SEGMENT;
        *ret_nul |= segment->nul;
    }
    return 0;
}

/* Lines that no segment has as a whole, and what was found in the segments, in order. */
static int window_print(struct run *run, struct state *state, struct window *window)
{
    size_t at = window->searched, end = window->kept + window->fresh;
    int r = 0;

    for (size_t i = 0; i < SEGMENTS && !r && !state->done; i++) {
        struct segment *segment = &window->segments[i];

        if (!segment->first || segment->first > end)
            continue;
        r = search_here(run, state, window->data, at, segment->first, false);
        if (!r && !state->done)
            r = segment->piece.error;
        if (!r && !state->done)
            findings_print(&run->printer, state, &segment->piece);
        at = segment->last;
    }
    if (!r && window->eof)
        r = search_here(run, state, window->data, at, end, false);
    window->searched = window->eof ? end : at;
    return r ? r : run->printer.output.error;
}

/* A window with a NUL in it, or behind one. */
static int window_binary(struct run *run, struct state *state, struct window *window)
{
    size_t text, end, size = window->kept + window->fresh;
    int r = 0;

    if (is_in_place(window)) {
        const char *fresh = window->data + window->kept;

        r = window_reserve(window);
        if (r)
            return r;
        memcpy(window->buffer + window->kept, fresh, window->fresh);
    }
    split(state, window->buffer, size, window->kept, window->eof, &text, &end);
    if (text > window->searched)
        r = search_here(run, state, window->data, window->searched, text, false);
    findings_print_after(&run->printer, state, window->data, text);
    state->after = 0;
    text = MAX(text, window->searched);
    if (!r && end > text)
        r = search_binary(run, state, window->data, text, end);
    window->searched = end;
    return r;
}

/* What is kept for the next window: an unfinished line, and lines that may be context of the next match. */
static void window_keep(struct run *run, struct state *state, struct window *window)
{
    size_t n, from = window->searched;

    if (!state->binary) {
        findings_print_after(&run->printer, state, window->data, from);
        from = context_begin(window->data, 0, from, run->printer.manner.before, &n);
    }
    state->shown = state->shown == NOWHERE || state->shown < from ? NOWHERE : state->shown - from;
    window->searched -= from;
    window->kept = window->kept + window->fresh - from;
    window->offset += window->fresh;
    if (is_in_place(window))
        window->data += from;
    else if (window->kept)
        memmove(window->buffer, window->buffer + from, window->kept);
}

/* Reads and searches the next bytes of a file; or of the input, where it lies. */
static int window_next(struct run *run, struct wsd_worker *self, struct state *state, struct window *window)
{
    struct source *source = window->source;
    struct reading reading = {.run = run, .window = window, .text = !state->binary};
    bool nul;
    int r = source->fd >= 0 ? window_reserve(window) : window_take(window);

    if (r)
        return r;
    wsd_for(self, 0, SEGMENTS, 1, search_segments, &reading);
    r = window_measure(window, &nul);
    if (!r && (nul || state->binary))
        r = window_binary(run, state, window);
    else if (!r)
        r = window_print(run, state, window);
    for (size_t i = 0; i < SEGMENTS; i++)
        free(window->segments[i].piece.matches);
    return r;
}

static int search_source(struct run *run, struct wsd_worker *self, struct state *state, struct source *source)
{
    struct window window = {.source = source, .data = source->empty ? NULL : (const char *)source->data};
    int r = 0;

    if (!window.data)
        source->size = 0;
    state->binary = has_hole(source->fd);
    while (!r && !window.eof && !state->done) {
        r = window_next(run, self, state, &window);
        run->bytes_done += window.fresh;
        if (!r)
            window_keep(run, state, &window);
        wsd_job_progress(run->job, run->bytes_done, 0);
    }
    free(window.buffer);
    return r;
}

/* ---- files ---- */

static void end_file(struct run *run, struct state *state, int error)
{
    const struct manner *manner = &run->printer.manner;
    const char *name = state->name ? state->name : "(standard input)";

    if (error && error != -ECANCELED) {
        wsd_job_log(run->job, WSD_LOG_ERROR, "%s: %s: %s", run->job->argv[0], name, error_text(error));
        run->failed = true;
    }
    if (state->binary_matched && !manner->count && !manner->list)
        wsd_job_log(run->job, WSD_LOG_INFO, "%s: %s: binary file matches", run->job->argv[0], name);
    run->printer.separate |= state->binary_matched && manner->context; /* as if it had been printed */
    if (state->skipped)
        state->matched = 0;
    if (!error || error == -EISDIR)
        findings_end(&run->printer, state);
    run->matched |= state->matched > 0;
}

static int read_small(struct small *small, struct source *source)
{
    struct stat st;
    size_t room;
    int64_t n;

    if (fstat(source->fd, &st) < 0)
        return -errno;
    small->big = st.st_size > (off_t)SMALL;
    if (small->big)
        return 0;
    room = st.st_size ? (size_t)st.st_size + 1 : SMALL + 1; /* those of /proc have no size */
    small->data = malloc(room);
    if (!small->data)
        return -ENOMEM;
    n = source_read(source, small->data, room);
    if (n < 0)
        return (int)n;
    small->big = n == (int64_t)room;
    small->size = (size_t)n;
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
    split(&small->state, small->data, small->size, 0, true, &text, &end);
    small->piece = (struct piece){.data = small->data, .end = text, .any = any_will_do(run, false)};
    search_piece(run, &small->piece);
    if (small->piece.error || text == end || (small->piece.any && small->piece.matched))
        return small->piece.error;
    return search_binary(run, &small->state, small->data, text, end);
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

        small->state = (struct state){.name = small->name, .shown = NOWHERE};
        small->big = !small->name;
        if (small->name && !wsd_job_cancelled(work->run->job))
            small->error = search_small(work->run, small);
    }
}

static int search_big(struct run *run, struct wsd_worker *self, struct small *small)
{
    _cleanup_(source_closep) struct source source = {.fd = -1};
    int r = 0;

    small->state = (struct state){.name = small->name, .shown = NOWHERE};
    if (small->second)
        source_open_empty(&source, run->job);
    else
        r = source_open(&source, run->job, small->name);
    return r ? r : search_source(run, self, &small->state, &source);
}

static void print_small(struct run *run, struct small *small)
{
    findings_print(&run->printer, &small->state, &small->piece);
    findings_print_after(&run->printer, &small->state, small->data, small->piece.end);
}

/* The next few files: small ones together, then each in its turn. */
static void search_files(struct run *run, struct wsd_worker *self, struct small *files, size_t n)
{
    wsd_for(self, 0, n, 1, search_small_files, &(struct job_files){.run = run, .files = files});
    for (size_t i = 0; i < n; i++) {
        struct small *small = &files[i];

        if (small->big && !small->error && !run->printer.output.error && !wsd_job_cancelled(run->job))
            small->error = search_big(run, self, small);
        else if (!small->error)
            print_small(run, small);
        end_file(run, &small->state, small->error);
        run->bytes_done += small->size;
        free(small->piece.matches);
        free(small->data);
    }
    wsd_job_progress(run->job, run->bytes_done, 0);
}

/* ---- arguments ---- */

static const char usage[] = "usage: search [-EFIcilorvw] [-A LINES] [-B LINES] [-C LINES] PATTERN [FILE]...";

static bool set_option(struct run *run, char letter)
{
    struct manner *manner = &run->printer.manner;

    switch (letter) {
    case 'E':
    case 'F':
        run->matcher.fixed = letter == 'F';
        return true;
    case 'I':
        return run->skip = true;
    case 'c':
        return manner->count = true;
    case 'i':
        return run->matcher.fold = true;
    case 'l':
        return manner->list = true;
    case 'n':
        return true;
    case 'o':
        return manner->only = true;
    case 'r':
        return run->recurse = run->skip = true;
    case 'v':
        return manner->invert = true;
    case 'w':
        return run->matcher.words = true;
    default:
        return false;
    }
}

/* LINES of -A, -B and -C, in the same argument or the next. 0 or an exit code. */
static int set_context(struct run *run, char letter, const char *text)
{
    struct manner *manner = &run->printer.manner;
    unsigned long n =
        text && *text && strspn(text, "0123456789") == strlen(text) ? strtoul(text, NULL, 10) : CONTEXT_MAX + 1;

    if (n > CONTEXT_MAX)
        return wsd_job_fail(run->job, 2, "-%c needs a number of lines from 0 to %u; %s", letter, CONTEXT_MAX, usage);
    manner->context = true;
    *(letter == 'A' ? &run->lines_after : letter == 'B' ? &run->lines_before : &run->lines_around) = n;
    return 0;
}

/* The letters of argv[*i]. 0 or an exit code. */
static int parse_option(struct run *run, uint32_t *i)
{
    const struct wsd_job *job = run->job;
    const char *arg = job->argv[*i];

    for (const char *p = arg + 1; *p; p++) {
        if (strchr("ABC", *p))
            return set_context(run, *p, p[1] ? p + 1 : ++*i < job->argc ? job->argv[*i] : NULL);
        if (!set_option(run, *p))
            return wsd_job_fail(run->job, 2, "unrecognized option '%s'; %s", arg, usage);
    }
    return 0;
}

static size_t context_lines(const struct run *run, size_t own)
{
    size_t n = own != NOWHERE ? own : run->lines_around;

    return n == NOWHERE || !run->printer.manner.context ? 0 : n;
}

/* -c and -l print no lines, as in grep. -C is for what -A and -B leave open. */
static int settle(struct run *run)
{
    struct manner *manner = &run->printer.manner;

    if (manner->context && manner->only)
        return wsd_job_fail(run->job, 2, "-o prints no context: leave it out, or -A, -B and -C");
    if (manner->count || manner->list)
        manner->context = manner->only = false;
    manner->after = context_lines(run, run->lines_after);
    manner->before = context_lines(run, run->lines_before);
    run->matcher.places = manner->only && !manner->invert;
    return 0;
}

/* operands: room for argc. */
static int take_arguments(struct run *run, const char **operands, size_t *ret_n, const char **ret_pattern)
{
    struct wsd_job *job = run->job;
    bool ended = false;

    for (uint32_t i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i];
        int status = 0;

        if (!ended && strcmp(arg, "--") == 0)
            ended = true;
        else if (!ended && arg[0] == '-' && arg[1])
            status = parse_option(run, &i);
        else if (!*ret_pattern)
            *ret_pattern = arg;
        else
            operands[(*ret_n)++] = arg;
        if (status)
            return status;
    }
    if (!*ret_pattern)
        return wsd_job_fail(job, 2, "no pattern; %s", usage);
    return settle(run);
}

/* The files, where -r says so below folders. 0 or an exit code. */
static int take_names(struct run *run, const char *const *operands, size_t n, struct names *names)
{
    bool folders = false, folder;
    int r = 0;

    for (size_t i = 0; i < n && !r; i++) {
        if (run->recurse && strcmp(operands[i], "-"))
            r = names_walk(names, run->job, operands[i], &folder);
        else
            r = names_add(names, operands[i]);
        folders |= run->recurse && strcmp(operands[i], "-") && folder;
    }
    run->walks_all = run->recurse && !n;
    if (!n)
        r = run->recurse ? names_walk(names, run->job, NULL, &folders) : names_add(names, "-");
    run->printer.manner.prefix = n > 1 || folders;
    run->failed |= names->failed;
    return r == -ENOMEM ? wsd_job_fail(run->job, 2, "out of memory") : r ? 2 : 0;
}

static void search_all(struct run *run, struct wsd_worker *self, const struct names *names)
{
    bool input = false;
    size_t i = 0;

    while (i < names->n && !run->printer.output.error && !wsd_job_cancelled(run->job)) {
        struct small files[SMALL_FILES] = {{.name = NULL}};
        size_t m;

        for (m = 0; m < SMALL_FILES && i < names->n; m++, i++) {
            bool dash = strcmp(names->names[i], "-") == 0 && !run->walks_all;

            files[m].name = dash ? NULL : names->names[i];
            files[m].second = dash && input;
            input |= dash;
        }
        search_files(run, self, files, m);
    }
}

/* Behind what was searched. */
static int conclude(struct run *run)
{
    int r = output_end(&run->printer.output);

    if (r && r != -ECANCELED)
        return wsd_job_fail(run->job, 2, "output: %s", error_text(r));
    if (run->failed)
        return wsd_job_fail(run->job, 2, "some files could not be searched");
    return r ? 2 : !run->matched;
}

static int search(struct wsd_job *job, struct wsd_worker *self)
{
    _cleanup_(freep) const char **operands = calloc(job->argc + 1, sizeof(*operands));
    struct run run = {.job = job,
                      .matcher = {.job = job},
                      .printer = {.output = {.job = job}},
                      .lines_after = NOWHERE,
                      .lines_before = NOWHERE,
                      .lines_around = NOWHERE};
    struct names names = {.names = NULL};
    const char *pattern = NULL;
    size_t n = 0;

    if (!operands)
        return wsd_job_fail(job, 2, "out of memory");

    int status = take_arguments(&run, operands, &n, &pattern);

    if (!status)
        status = matcher_init(&run.matcher, pattern);
    run.nothing =
        !status && run.printer.manner.invert && !run.matcher.words && strspn(pattern, "\n") == strlen(pattern);
    if (!status && !run.nothing)
        status = take_names(&run, operands, n, &names);
    if (!status) {
        search_all(&run, self, &names);
        status = conclude(&run);
    }
    names_deinit(&names);
    matcher_deinit(&run.matcher);
    return status;
}

static const struct wsd_function functions[] = {
    {.name = "search",
     .help = "[-EFIcilorvw] [-A N] [-B N] [-C N] PATTERN [FILE]...: numbered lines that match, like grep -E -n in the "
             "C locale",
     .flags = WSD_FN_IDEMPOTENT,
     .run = search},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "search", .version = "0.1.0",
           .help = "finds lines by an extended regular expression, as grep -E -n does");
