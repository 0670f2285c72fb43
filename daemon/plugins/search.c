/* SPDX-License-Identifier: Apache-2.0
 *
 * search.c: the plugin `search`, equal to LC_ALL=C grep -E -n.
 * Owns the compiled patterns (one set for each task that runs at once, since regexec() locks its pattern) and one
 * window of a file. Small files are searched many at a time, a big one window by window, each in pieces that end at
 * lines. Matches leave in the order of the arguments.
 * Keeps: a line is in one piece, and its number is the sum of the pieces before it. As in grep 3.8, bytes are read 96
 * KiB at a time. From the read with the first NUL on, the file is binary: NULs end lines, no line is printed, and a
 * match is one message. */
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "plugins/pattern.h"
#include "wsd/task.h"

#define READ        (96u * 1024)  /* grep's: decides what is printed of a file that turns out to be binary */
#define WINDOW      (32u * READ)  /* of a big file in memory */
#define PIECE       (128u * 1024) /* for one task */
#define SMALL       (256u * 1024) /* a file searched by one task */
#define SMALL_FILES 64u           /* in memory at once */
#define POLL_LINES  1024u         /* between two looks at the cancel flag */
#define CHECK_BYTES (16u * 1024)  /* between two looks at what matching costs */
#define LONG_LINE   (64u << 20)

/* regexec() keeps each state of its automaton, of 2 KiB and more, as long as the pattern. It makes at most one for each
 * byte, in microseconds, so that CPU time is what tells how many there are: nothing else does. */
#define SLOW_BYTE_NSEC 50u
#define SLOW_NSEC      UINT64_C(1000000000)

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
    struct pattern *patterns;
    size_t n_patterns;
    bool fold, invert, prefix;
    bool nothing; /* each line matches, and lines that do not are wanted: like grep, no file is opened */
    struct cache compiled;
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

/* ---- patterns ---- */

static int compile(const struct run *run, regex_t *set, size_t *ret_n)
{
    size_t n;
    int r = 0;

    for (n = 0; n < run->n_patterns; n++) {
        r = regcomp(&set[n], run->patterns[n].source, REG_EXTENDED | REG_NOSUB | (run->fold ? REG_ICASE : 0));
        if (r)
            break;
    }
    *ret_n = n;
    return r;
}

/* A set ends with the number of patterns, so that it can be freed without the run. */
struct set {
    size_t n;
    uint64_t compiled_nsec; /* what it took to compile */
    uint64_t slow_nsec;     /* what matching took where it was slow, since then */
    regex_t patterns[];
};

static void set_free(void *object)
{
    struct set *set = object;

    if (!set)
        return;
    for (size_t i = 0; i < set->n; i++)
        regfree(&set->patterns[i]);
    free(set);
}

/* The CPU time of this thread. */
static uint64_t thread_nsec(void)
{
    struct timespec t = {.tv_sec = 0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* NULL and regcomp()'s error. */
static struct set *set_compile(const struct run *run, int *ret_error)
{
    uint64_t begin = thread_nsec();
    struct set *set = calloc(1, sizeof(*set) + run->n_patterns * sizeof(regex_t));

    *ret_error = set ? compile(run, set->patterns, &set->n) : REG_ESPACE;
    if (*ret_error) {
        set_free(set);
        return NULL;
    }
    set->compiled_nsec = thread_nsec() - begin;
    return set;
}

static void *set_new(void *context)
{
    int error;

    return set_compile(context, &error);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED                                                                                                      \
    (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer))
#else
#define SANITIZED 0
#endif

/* 1 yes, 0 no, or -ENOMEM. The line ends after size bytes, wherever a NUL may be. */
static int regex_searches(regex_t *pattern, const char *line, size_t size)
{
    regoff_t at = re_search(pattern, line, (regoff_t)size, 0, (regoff_t)size, NULL);

    return at >= 0 ? 1 : at == -1 ? 0 : -ENOMEM;
}

/* 1 yes, 0 no, or -ENOMEM. regexec() says REG_NOMATCH for its own failures too; re_search() tells them apart.
 * re_search() is slower, since it also finds the match's end. So it is called only if regexec() may have failed: a
 * failed allocation sets errno, and glibc's limit on its buffers is beyond LONG_LINE. The regexec() of the sanitizers
 * does not know REG_STARTEND and would read on. */
static int regex_matches(regex_t *pattern, const char *line, size_t size)
{
    regmatch_t range = {.rm_so = 0, .rm_eo = (regoff_t)size};

    if (SANITIZED || size > LONG_LINE)
        return regex_searches(pattern, line, size);
    errno = 0;
    if (regexec(pattern, line, 1, &range, REG_STARTEND) == 0)
        return 1;
    return errno ? regex_searches(pattern, line, size) : 0;
}

/* 1 yes, 0 no, or a negative errno. */
static int set_matches(const struct run *run, struct set *set, const char *line, size_t size)
{
    for (size_t i = 0; i < set->n; i++) {
        const struct pattern *pattern = &run->patterns[i];

        if (pattern->must_size && !memmem(line, size, pattern->must, pattern->must_size))
            continue;
        if (pattern->literal)
            return 1;

        int r = regex_matches(&set->patterns[i], line, size);

        if (r)
            return r;
    }
    return 0;
}

/* Compiles anew: the automaton that regexec() has built so far, and never shrinks, is given back first. */
static int renew(const struct run *run, struct set **set)
{
    set_free(*set);
    *set = set_new((void *)(uintptr_t)run);
    return *set ? 0 : -ENOMEM;
}

/* As set_matches(). If memory is short, gives back what the automaton has taken, and matches the line again. */
static int line_matches(const struct run *run, struct set **set, const char *line, size_t size)
{
    int r;

    if (size >= INT_MAX)
        return -ENOMEM; /* what regexec() can address; grep ends in the same way */
    r = set_matches(run, *set, line, size);
    if (r != -ENOMEM)
        return r;
    r = renew(run, set);
    return r ? r : set_matches(run, *set, line, size);
}

/* After so many bytes that took so long: an automaton that has grown for SLOW_NSEC is given back. Where bytes are
 * matched by an automaton that is there, they take a few nanoseconds each. */
static int limit_memory(const struct run *run, struct set **set, size_t bytes, uint64_t nsec)
{
    if (nsec < bytes * SLOW_BYTE_NSEC)
        return 0;
    (*set)->slow_nsec += nsec;
    if ((*set)->slow_nsec < MAX(SLOW_NSEC, 8 * (*set)->compiled_nsec))
        return 0;
    return renew(run, set);
}

/* ---- one piece ---- */

static uint64_t count_newlines(const char *data, size_t size)
{
    uint64_t n = 0;

    for (size_t i = 0; i < size; i++)
        n += data[i] == '\n';
    return n;
}

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

/* Where the first pattern says that no line before it can match: the line around the next place of its bytes. */
static size_t skip_lines(const struct pattern *pattern, const char *data, size_t size, size_t at)
{
    const char *found = memmem(data + at, size - at, pattern->must, pattern->must_size);
    const char *line;

    if (!found)
        return size;
    line = memrchr(data + at, '\n', (size_t)(found - data) - at);
    return line ? (size_t)(line - data) + 1 : at;
}

/* Of one piece: what was matched since the last look at its cost. */
struct meter {
    size_t bytes;
    uint64_t since_nsec;
};

/* Looks at the cancel flag, and at what matching costs, where it is time for that. */
static int check_run(const struct run *run, struct set **set, struct meter *meter, bool now)
{
    if (meter->bytes < CHECK_BYTES && !now)
        return 0;

    uint64_t at_nsec = thread_nsec();
    int r = limit_memory(run, set, meter->bytes, at_nsec - meter->since_nsec);

    *meter = (struct meter){.since_nsec = at_nsec};
    return r ? r : wsd_job_cancelled(run->job) ? -ECANCELED : 0;
}

static int search_lines(const struct run *run, struct set **set, struct piece *piece)
{
    const struct pattern *skip =
        run->n_patterns == 1 && !run->invert && run->patterns[0].must_size ? run->patterns : NULL;
    struct meter meter = {.since_nsec = thread_nsec()};
    unsigned polls = 0;

    for (size_t at = 0; at < piece->size;) {
        if (++polls % POLL_LINES == 0 && wsd_job_cancelled(run->job))
            return -ECANCELED;
        if (skip) {
            size_t next = skip_lines(skip, piece->data, piece->size, at);

            piece->lines += count_newlines(piece->data + at, next - at);
            at = next;
            if (at == piece->size)
                break;
        }

        const char *newline = memchr(piece->data + at, '\n', piece->size - at);
        size_t end = newline ? (size_t)(newline - piece->data) : piece->size;
        int r = skip && skip->literal ? 1 : line_matches(run, set, piece->data + at, end - at);

        if (r < 0)
            return r;
        if (r != run->invert) {
            r = piece_add(piece, at, end);
            if (r || piece->any)
                return r;
        }
        meter.bytes += end - at;
        r = check_run(run, set, &meter, false);
        if (r)
            return r;
        piece->lines++;
        at = newline ? end + 1 : end;
    }
    return check_run(run, set, &meter, true);
}

static void search_piece(struct run *run, struct piece *piece)
{
    struct set *set = cache_take(&run->compiled);

    piece->error = set ? search_lines(run, &set, piece) : -ENOMEM;
    if (set)
        cache_give(&run->compiled, set);
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
            run->fold = true;
        else if (*arg == 'v')
            run->invert = true;
        else if (!strchr("En", *arg))
            return false;
    }
    return true;
}

/* Each line of the argument is a pattern. */
static int take_patterns(struct run *run, const char *text)
{
    size_t n = 1 + count_newlines(text, strlen(text));

    run->patterns = calloc(n, sizeof(*run->patterns));
    if (!run->patterns)
        return wsd_job_fail(run->job, 2, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const char *end = strchrnul(text, '\n');

        int r = pattern_init(&run->patterns[i], text, (size_t)(end - text), run->fold);

        if (r == PATTERN_E_CLASS)
            return wsd_job_fail(run->job, 2, "character class syntax is [[:space:]], not [:space:]");
        if (r)
            return wsd_job_fail(run->job, 2, "out of memory");
        run->n_patterns++;
        text = end + 1;
    }

    /* Compiled once here for the message; the tasks take this one first. */
    int error;
    struct set *set = set_compile(run, &error);

    if (!set) {
        char why[128];

        regerror(error, NULL, why, sizeof(why));
        return wsd_job_fail(run->job, 2, "%s", why);
    }
    cache_give(&run->compiled, set);
    return 0;
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
    return take_patterns(run, pattern);
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
    struct run run = {.job = job, .output = {.job = job}};
    size_t n = 0;

    if (!names)
        return wsd_job_fail(job, 2, "out of memory");
    cache_init(&run.compiled, set_new, set_free, &run);

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
    cache_deinit(&run.compiled);
    for (size_t i = 0; i < run.n_patterns; i++)
        pattern_deinit(&run.patterns[i]);
    free(run.patterns);
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
