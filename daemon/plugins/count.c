/* SPDX-License-Identifier: Apache-2.0
 *
 * count.c: the plugin `count`, equal to LC_ALL=C wc.
 * Owns one record a file while its job runs. Files are counted at the same time, a big one in pieces, each by a task
 * with a buffer of its own. The sums of pieces add up whatever byte they were cut at.
 * Keeps: at most one buffer a worker, and one open file for each file being counted.
 * Does not count characters or widths of lines (-m, -L). Prints when all is counted, since the columns' width depends
 * on every file. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "wsd/task.h"

#define BUFFER (128u * 1024)
#define PIECE  (1024u * 1024)

enum { LINES = 1, WORDS = 2, BYTES = 4 };

/* What some bytes hold. A word is a run of bytes between separators that has a printable one, so at both ends it
 * must be known whether a word may go on there. */
struct tally {
    uint64_t lines, words, bytes; /* words: those that a separator of these bytes ended, but for the head */
    bool head;                    /* a printable byte before the first separator */
    bool separated;               /* there is a separator */
    bool tail;                    /* a printable byte after the last separator */
};

struct file {
    const char *name;
    bool second; /* a further `-` */
    bool no_stat;
    int error;
    struct stat st;
    struct tally tally;
};

struct run {
    struct wsd_job *job;
    unsigned what;
    struct file *files;
    size_t n_files;
    atomic_uint_fast64_t bytes_done; /* [any, relaxed] for the progress */
};

/* One big file. */
struct pieces {
    struct run *run;
    int fd;
    uint64_t size, piece;
    struct tally *tallies;
    atomic_int error; /* [any] the first one */
};

static void tally_lines(struct tally *tally, const uint8_t *data, size_t size)
{
    uint64_t lines = 0;

    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    tally->lines += lines;
}

static bool is_separator(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void tally_words(struct tally *tally, const uint8_t *data, size_t size)
{
    size_t i = 0;
    uint64_t words = 0;
    bool in_word;

    if (!tally->separated) {
        while (i < size && !is_separator(data[i])) {
            tally->head |= data[i] > ' ' && data[i] < 0x7f;
            i++;
        }
        if (i == size)
            return;
        tally->separated = true;
    }
    in_word = tally->tail;
    for (; i < size; i++) {
        bool separator = is_separator(data[i]);

        words += in_word & separator;
        in_word = (in_word & !separator) | (data[i] > ' ' && data[i] < 0x7f);
    }
    tally->tail = in_word;
    tally->words += words;
}

static void tally_add(struct tally *tally, unsigned what, const uint8_t *data, size_t size)
{
    tally->bytes += size;
    if (what & LINES)
        tally_lines(tally, data, size);
    if (what & WORDS)
        tally_words(tally, data, size);
}

/* Appends what comes behind. */
static void tally_join(struct tally *tally, const struct tally *next)
{
    tally->lines += next->lines;
    tally->bytes += next->bytes;
    if (!next->separated) {
        if (tally->separated)
            tally->tail |= next->head;
        else
            tally->head |= next->head;
        return;
    }
    tally->words += next->words;
    if (tally->separated)
        tally->words += tally->tail | next->head;
    else
        tally->head |= next->head;
    tally->separated = true;
    tally->tail = next->tail;
}

static uint64_t tally_all_words(const struct tally *tally)
{
    return tally->words + tally->head + tally->tail;
}

static void count_piece(struct pieces *pieces, size_t i)
{
    struct run *run = pieces->run;
    uint64_t offset = i * pieces->piece, end = MIN(offset + pieces->piece, pieces->size);
    _cleanup_(freep) uint8_t *data = malloc(BUFFER);

    if (!data) {
        atomic_store(&pieces->error, -ENOMEM);
        return;
    }
    while (offset < end) {
        size_t wanted = (size_t)MIN(BUFFER, end - offset);
        int64_t n = wsd_job_cancelled(run->job) ? -ECANCELED : pread_full(pieces->fd, data, wanted, offset);

        if (n <= 0) {
            if (n < 0)
                atomic_store(&pieces->error, (int)n);
            return;
        }
        tally_add(&pieces->tallies[i], run->what, data, (size_t)n);
        offset += (uint64_t)n;
        atomic_fetch_add_explicit(&run->bytes_done, (uint64_t)n, memory_order_relaxed);
    }
}

static void count_pieces(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    for (uint64_t i = begin; i < end; i++)
        count_piece(arg, i);
}

/* The first `size` bytes of a regular file, by several tasks; what was counted goes to file->tally. */
static int count_parallel(struct run *run, struct wsd_worker *self, struct file *file, int fd, uint64_t size)
{
    struct pieces pieces = {.run = run, .fd = fd, .size = size, .piece = MAX(PIECE, size / 4096 + 1)};
    size_t n = (size_t)((size + pieces.piece - 1) / pieces.piece);

    pieces.tallies = calloc(n, sizeof(*pieces.tallies));
    if (!pieces.tallies)
        return -ENOMEM;
    wsd_for(self, 0, n, 1, count_pieces, &pieces);
    for (size_t i = 0; i < n; i++) {
        tally_join(&file->tally, &pieces.tallies[i]);
        if (pieces.tallies[i].bytes < pieces.piece)
            break;
    }
    free(pieces.tallies);
    return atomic_load(&pieces.error);
}

static int count_sequential(struct run *run, struct file *file, struct source *source)
{
    _cleanup_(freep) uint8_t *data = malloc(BUFFER);
    int64_t n;

    if (!data)
        return -ENOMEM;
    do {
        n = source_read(source, data, BUFFER);
        if (n < 0)
            return (int)n;
        tally_add(&file->tally, run->what, data, (size_t)n);
        atomic_fetch_add_explicit(&run->bytes_done, (uint64_t)n, memory_order_relaxed);
    } while (n == BUFFER);
    return 0;
}

struct memory {
    struct run *run;
    const uint8_t *data;
    uint64_t size;
    struct tally *tallies;
};

static void count_memory_pieces(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    struct memory *memory = arg;

    for (uint64_t i = begin; i < end && !wsd_job_cancelled(memory->run->job); i++) {
        uint64_t offset = i * (uint64_t)PIECE, size = MIN(PIECE, memory->size - offset);

        tally_add(&memory->tallies[i], memory->run->what, memory->data + offset, (size_t)size);
    }
}

/* The job's input where all of it is in memory. */
static int count_memory(struct run *run, struct wsd_worker *self, struct file *file)
{
    struct memory memory = {.run = run, .data = run->job->input, .size = run->job->input_size};
    size_t n = (size_t)((memory.size + PIECE - 1) / PIECE);

    memory.tallies = calloc(n + 1, sizeof(*memory.tallies));
    if (!memory.tallies)
        return -ENOMEM;
    wsd_for(self, 0, n, 1, count_memory_pieces, &memory);
    for (size_t i = 0; i < n; i++)
        tally_join(&file->tally, &memory.tallies[i]);
    free(memory.tallies);
    return 0;
}

/* wc uses stat() for the columns, which works for files that cannot be opened too. */
static void stat_closed(struct run *run, struct file *file)
{
    const char *directory = wsd_job_directory(run->job);
    _cleanup_(freep) char *path = NULL;

    file->no_stat = true;
    if (!directory || !*file->name)
        return;
    if (asprintf(&path, "%s/%s", *file->name == '/' ? "" : directory, file->name) < 0)
        path = NULL;
    else
        file->no_stat = stat(path, &file->st) < 0;
}

static int count_open_file(struct run *run, struct wsd_worker *self, struct file *file, struct source *source)
{
    uint64_t size;

    if (fstat(source->fd, &file->st) < 0) {
        file->no_stat = true;
        return -errno;
    }
    if (S_ISDIR(file->st.st_mode))
        return -EISDIR;
    size = S_ISREG(file->st.st_mode) ? (uint64_t)file->st.st_size : 0;
    if (size > PIECE) {
        /* Sizes of files in /proc and /sys say nothing, but they are never as big. */
        if (run->what == BYTES) {
            file->tally.bytes = size;
        } else {
            int r = count_parallel(run, self, file, source->fd, size);

            if (r || file->tally.bytes < size)
                return r;
        }
        if (lseek(source->fd, (off_t)size, SEEK_SET) < 0)
            return -errno;
    }
    return count_sequential(run, file, source);
}

static void count_file(struct run *run, struct wsd_worker *self, struct file *file)
{
    struct source source = {.job = run->job, .fd = -1};

    if (file->name) {
        source.fd = wsd_job_open(run->job, file->name);
        if (source.fd < 0) {
            file->error = source.fd;
            stat_closed(run, file);
        } else {
            file->error = count_open_file(run, self, file, &source);
        }
    } else if (file->second) {
        file->error = 0;
    } else if (run->job->input) {
        file->error = count_memory(run, self, file);
    } else {
        source_open(&source, run->job, NULL);
        file->error = count_sequential(run, file, &source);
    }
    source_close(&source);
    wsd_job_progress(run->job, atomic_load_explicit(&run->bytes_done, memory_order_relaxed), 0);
}

static void count_files(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    struct run *run = arg;

    for (uint64_t i = begin; i < end && !wsd_job_cancelled(run->job); i++)
        count_file(run, self, &run->files[i]);
}

/* As wc reckons: the digits of the sum of all sizes, at least 7 where one is no regular file. The input counts as
 * a regular file, as in `wc < FILE`. */
static int column_width(const struct run *run)
{
    uint64_t total = 0;
    uint64_t input = run->job->input ? run->job->input_size : 0;
    int minimum = 1, width = 1;
    bool single = run->what == LINES || run->what == WORDS || run->what == BYTES;

    if (run->n_files == 1 && single)
        return 1;
    for (size_t i = 0; i < run->n_files; i++) {
        const struct file *file = &run->files[i];

        if (!file->name)
            total += MAX(input, file->tally.bytes);
        else if (file->no_stat)
            continue;
        else if (S_ISREG(file->st.st_mode))
            total += (uint64_t)file->st.st_size;
        else
            minimum = 7;
    }
    for (; total >= 10; total /= 10)
        width++;
    return MAX(width, minimum);
}

static void print_counts(struct output *output, unsigned what, int width, const struct tally *tally, const char *name)
{
    const uint64_t numbers[] = {tally->lines, tally_all_words(tally), tally->bytes};
    const char *space = "";
    char text[32];

    for (unsigned i = 0; i < ARRAY_SIZE(numbers); i++) {
        if (!(what & 1u << i))
            continue;
        snprintf(text, sizeof(text), "%s%*llu", space, width, (unsigned long long)numbers[i]);
        output_text(output, text);
        space = " ";
    }
    if (name) {
        /* Only names with a newline are quoted here: wc's rule. */
        bool quotes = strchr(name, '\n');
        _cleanup_(freep) char *quoted = quotes ? name_quote(name) : NULL;

        output_text(output, " ");
        if (!quotes || quoted)
            output_text(output, quotes ? quoted : name);
        else if (!output->error)
            output->error = -ENOMEM;
    }
    output_text(output, "\n");
}

/* Counts, messages and the total; true where a file failed. */
static bool print_files(struct run *run, struct output *output, bool named)
{
    struct tally total = {.lines = 0};
    int width = column_width(run);
    bool failed = false;

    for (size_t i = 0; i < run->n_files; i++) {
        struct file *file = &run->files[i];

        if (file->error) {
            if (!file->name || *file->name)
                log_file_error(run->job, file->name, file->error);
            else
                wsd_job_log(run->job, WSD_LOG_ERROR, "%s: invalid zero-length file name", run->job->argv[0]);
            failed = true;
            if (file->error != -EISDIR && !file->tally.bytes)
                continue;
        }
        print_counts(output, run->what, width, &file->tally, file->name ? file->name : named ? "-" : NULL);
        total.lines += file->tally.lines;
        total.words += tally_all_words(&file->tally);
        total.bytes += file->tally.bytes;
    }
    if (run->n_files > 1)
        print_counts(output, run->what, width, &total, "total");
    return failed;
}

static unsigned parse_option(const char *arg)
{
    static const char *const names[] = {"--lines", "--words", "--bytes"};
    unsigned what = 0;

    for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(arg, names[i]) == 0)
            return 1u << i;
    while (*++arg) {
        const char *found = strchr("lwc", *arg);

        if (!found)
            return 0;
        what |= 1u << (found - "lwc");
    }
    return what;
}

/* Fills files and what; options may stand anywhere before `--`. */
static int take_arguments(struct run *run, bool *ret_named)
{
    struct wsd_job *job = run->job;
    bool operands = false, input = false;

    for (uint32_t i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i];
        bool dash = strcmp(arg, "-") == 0;

        if (!operands && strcmp(arg, "--") == 0) {
            operands = true;
        } else if (!operands && arg[0] == '-' && !dash) {
            unsigned what = parse_option(arg);

            if (!what)
                return wsd_job_fail(job, 1, "unrecognized option '%s'; usage: count [-lwc] [FILE]...", arg);
            run->what |= what;
        } else {
            run->files[run->n_files++] = (struct file){.name = dash ? NULL : arg, .second = dash && input};
            input |= dash;
        }
    }
    *ret_named = run->n_files > 0;
    if (!run->n_files)
        run->n_files = 1;
    if (!run->what)
        run->what = LINES | WORDS | BYTES;
    return 0;
}

static int count(struct wsd_job *job, struct wsd_worker *self)
{
    _cleanup_(freep) struct file *files = calloc(job->argc, sizeof(*files));
    struct run run = {.job = job, .files = files};
    struct output output = {.job = job};
    bool named = false, failed = false;

    if (!files)
        return wsd_job_fail(job, 1, "out of memory");

    int status = take_arguments(&run, &named);

    if (status)
        return status;
    wsd_for(self, 0, run.n_files, 1, count_files, &run);
    if (wsd_job_cancelled(job))
        return 1;
    failed = print_files(&run, &output, named);

    int r = output_end(&output);

    if (r && r != -ECANCELED)
        return wsd_job_fail(job, 1, "output: %s", error_text(r));
    if (failed)
        return wsd_job_fail(job, 1, "some files could not be read");
    return r ? 1 : 0;
}

static const struct wsd_function functions[] = {
    {.name = "count",
     .help = "[-lwc] [FILE]...: lines, words and bytes, like wc in the C locale",
     .flags = WSD_FN_IDEMPOTENT,
     .run = count},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "count", .version = "0.1.0",
           .help = "counts lines, words and bytes of files or the input, as wc does");
