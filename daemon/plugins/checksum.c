/* SPDX-License-Identifier: Apache-2.0
 *
 * checksum.c: the plugin `checksum`, equal to sha256sum and its siblings, and to xxhsum.
 * Owns one record a file while its job runs. One task a file, any number at once; lines leave in the order of the
 * arguments, as soon as all before them are done, by whichever task finds them ready.
 * Keeps: the emitter is one task at a time, and no file that is done waits for another to start.
 * Does not check lists (-c), and does not split one file: a hash is sequential. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "plugins/hash.h"
#include "plugins/walk.h"
#include "wsd/task.h"

#define PIECE_LEAST 4096u
#define PIECE       (64u * 1024)

/* How a tool prints its lines. */
enum style {
    STYLE_COREUTILS, /* "HASH  NAME", with escapes; the input is "-" */
    STYLE_XXHSUM,    /* "HASH  NAME", without; the input is "stdin" */
    STYLE_TAGGED,    /* "XXH3 (NAME) = HASH", by xxhsum too */
};

static const struct algorithm {
    const char *name;
    const struct hash_family *family;
    const char *method;
    enum style style;
} algorithms[] = {
    {"sha256", &hash_openssl, "SHA2-256", STYLE_COREUTILS}, {"md5", &hash_openssl, "MD5", STYLE_COREUTILS},
    {"sha1", &hash_openssl, "SHA1", STYLE_COREUTILS},       {"sha224", &hash_openssl, "SHA2-224", STYLE_COREUTILS},
    {"sha384", &hash_openssl, "SHA2-384", STYLE_COREUTILS}, {"sha512", &hash_openssl, "SHA2-512", STYLE_COREUTILS},
    {"b2", &hash_openssl, "BLAKE2B-512", STYLE_COREUTILS},  {"xxh3", &hash_xxhash, "xxh3", STYLE_TAGGED},
    {"xxh64", &hash_xxhash, "xxh64", STYLE_XXHSUM},         {"xxh128", &hash_xxhash, "xxh128", STYLE_XXHSUM},
};

struct file {
    const char *name; /* NULL: the input */
    bool second;      /* a further `-`: the input was read before */
    int error;
    unsigned size;
    uint8_t digest[HASH_SIZE_MAX];
    atomic_bool done; /* [atomic: release by its task, acquire by the emitter] */
};

struct run {
    struct wsd_job *job;
    const struct algorithm *algorithm;
    bool recurse;       /* -r */
    struct names names; /* of the files */
    void *method;
    struct file *files;
    size_t n_files;
    atomic_size_t next;   /* first that was not emitted; written by the emitter */
    atomic_bool emitting; /* a task is emitting */
    bool failed;          /* [emitter] a file or folder could not be read */
    int error;            /* [emitter] of the output */
};

/* A file goes into one piece with a byte to spare, which shows its end. */
static size_t piece_of(const struct source *source)
{
    return source->fd < 0 || source->size >= PIECE ? PIECE : MAX((size_t)source->size + 1, PIECE_LEAST);
}

static int hash_source(const struct hash_family *family, struct source *source, void *state, struct file *file)
{
    size_t piece = piece_of(source);
    _cleanup_(freep) void *data = malloc(piece);

    if (!data)
        return -ENOMEM;
    for (;;) {
        int64_t n = source_read(source, data, piece);
        int r = n < 0 ? (int)n : family->update(state, data, (size_t)n);

        if (r)
            return r;
        if ((size_t)n == piece)
            continue;
        r = family->digest(state, file->digest);
        file->size = r < 0 ? 0 : (unsigned)r;
        return MIN(r, 0);
    }
}

static void hash_file(struct run *run, struct file *file)
{
    const struct hash_family *family = run->algorithm->family;
    void *state = family->state_new(run->method);
    struct source source;

    if (file->second)
        source_open_empty(&source, run->job);
    else
        file->error = source_open(&source, run->job, file->name);
    if (!state)
        file->error = -ENOMEM;
    if (!file->error)
        file->error = hash_source(family, &source, state, file);
    source_close(&source);
    family->state_free(state);
}

static char *put_hash(char *p, const struct file *file)
{
    static const char hex[] = "0123456789abcdef";

    for (unsigned i = 0; i < file->size; i++) {
        *p++ = hex[file->digest[i] >> 4];
        *p++ = hex[file->digest[i] & 15];
    }
    return p;
}

/* "HASH  NAME\n", and where the name has a backslash, newline or carriage return a backslash before the whole. */
static char *put_line_escaped(char *p, const struct file *file, const char *name)
{
    if (strpbrk(name, "\\\n\r"))
        *p++ = '\\';
    p = stpcpy(put_hash(p, file), "  ");
    for (; *name; name++) {
        if (strchr("\\\n\r", *name)) {
            *p++ = '\\';
            *p++ = *name == '\n' ? 'n' : *name == '\r' ? 'r' : '\\';
        } else {
            *p++ = *name;
        }
    }
    return stpcpy(p, "\n");
}

static char *put_line_tagged(char *p, const struct file *file, const char *name)
{
    p = stpcpy(stpcpy(stpcpy(p, "XXH3 ("), name), ") = ");
    return stpcpy(put_hash(p, file), "\n");
}

static void emit_line(struct run *run, const struct file *file)
{
    enum style style = run->algorithm->style;
    const char *name = file->name ? file->name : style == STYLE_COREUTILS ? "-" : "stdin";
    _cleanup_(freep) char *line = malloc(2 * HASH_SIZE_MAX + 2 * strlen(name) + sizeof("\\XXH3 () = \n"));
    char *end;

    if (!line) {
        run->error = -ENOMEM;
        return;
    }
    if (style == STYLE_COREUTILS)
        end = put_line_escaped(line, file, name);
    else if (style == STYLE_TAGGED)
        end = put_line_tagged(line, file, name);
    else
        end = stpcpy(stpcpy(stpcpy(put_hash(line, file), "  "), name), "\n");
    run->error = wsd_job_write(run->job, line, (size_t)(end - line));
}

static void emit_file(struct run *run, const struct file *file)
{
    if (run->error || file->error == -ECANCELED)
        return;
    if (file->error) {
        log_file_error(run->job, file->name, file->error);
        run->failed = true;
    } else {
        emit_line(run, file);
    }
}

static bool is_ready(struct run *run)
{
    size_t next = atomic_load(&run->next);

    return next < run->n_files && atomic_load(&run->files[next].done);
}

/* A file that is done while another task emits is seen by that task: it looks again after it let go. */
static void emit_ready(struct run *run)
{
    while (is_ready(run)) {
        if (atomic_exchange(&run->emitting, true))
            return;
        while (is_ready(run)) {
            emit_file(run, &run->files[atomic_load(&run->next)]);
            atomic_fetch_add(&run->next, 1);
        }
        wsd_job_progress(run->job, atomic_load(&run->next), run->n_files);
        atomic_store(&run->emitting, false);
    }
}

static void hash_files(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    struct run *run = arg;

    for (uint64_t i = begin; i < end; i++) {
        if (wsd_job_cancelled(run->job))
            return;
        hash_file(run, &run->files[i]);
        atomic_store(&run->files[i].done, true);
        emit_ready(run);
    }
}

static const struct algorithm *find_algorithm(const char *word)
{
    for (size_t i = 0; i < ARRAY_SIZE(algorithms); i++)
        if (strcmp(algorithms[i].name, word) == 0)
            return &algorithms[i];
    return NULL;
}

/* One operand: a file, the input, or with -r a folder. */
static int take_operand(struct run *run, const char *name)
{
    bool folder;

    if (!run->recurse || strcmp(name, "-") == 0)
        return names_add(&run->names, name);
    return names_walk(&run->names, run->job, name, &folder);
}

/* The algorithm, the options and, in *ret_n of operands, the rest. operands: room for argc. 0 or an exit code. */
static int take_arguments(struct run *run, const char **operands, size_t *ret_n)
{
    struct wsd_job *job = run->job;
    bool ended = false;

    for (uint32_t i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i];

        if (!ended && strcmp(arg, "--") == 0)
            ended = true;
        else if (!ended && strcmp(arg, "-r") == 0)
            run->recurse = true;
        else if (!ended && arg[0] == '-' && arg[1])
            return wsd_job_fail(job, 1, "unrecognized option '%s'; usage: checksum [ALGORITHM] [-r] [FILE]...", arg);
        else if (ended || *ret_n || run->algorithm || !(run->algorithm = find_algorithm(arg)))
            operands[(*ret_n)++] = arg;
    }
    if (!run->algorithm)
        run->algorithm = &algorithms[0];
    return 0;
}

/* A record for each name. */
static int make_files(struct run *run)
{
    bool input = false;

    run->files = calloc(run->names.n + 1, sizeof(*run->files));
    if (!run->files)
        return -ENOMEM;
    for (size_t i = 0; i < run->names.n; i++) {
        bool dash = strcmp(run->names.names[i], "-") == 0; /* of a folder's files none has this name */

        run->files[i] = (struct file){.name = dash ? NULL : run->names.names[i], .second = dash && input};
        input |= dash;
    }
    run->n_files = run->names.n;
    return 0;
}

static int take_files(struct run *run)
{
    _cleanup_(freep) const char **operands = calloc(run->job->argc + 1, sizeof(*operands));
    size_t n = 0;
    int status, r = 0;

    if (!operands)
        return wsd_job_fail(run->job, 1, "out of memory");
    status = take_arguments(run, operands, &n);
    if (status)
        return status;
    if (!n)
        operands[n++] = run->recurse ? "." : "-";
    for (size_t i = 0; i < n && !r; i++)
        r = take_operand(run, operands[i]);
    run->failed = run->names.failed;
    r = r ? r : make_files(run);
    return r == -ENOMEM ? wsd_job_fail(run->job, 1, "out of memory") : r ? 1 : 0;
}

static int hash_all(struct run *run, struct wsd_worker *self)
{
    const struct algorithm *algorithm = run->algorithm;

    if (algorithm->family->method_new(algorithm->method, &run->method))
        return wsd_job_fail(run->job, 1,
                            "%s: this machine's libraries do not offer it, or memory is out; try another algorithm",
                            algorithm->name);
    wsd_for(self, 0, run->n_files, 1, hash_files, run);
    algorithm->family->method_free(run->method);
    if (run->error && run->error != -ECANCELED)
        return wsd_job_fail(run->job, 1, "output: %s", error_text(run->error));
    if (run->failed)
        return wsd_job_fail(run->job, 1, "some files could not be read");
    return run->error || atomic_load(&run->next) < run->n_files;
}

static int checksum(struct wsd_job *job, struct wsd_worker *self)
{
    struct run run = {.job = job};
    int status = take_files(&run);

    if (!status)
        status = hash_all(&run, self);
    free(run.files);
    names_deinit(&run.names);
    return status;
}

static const struct wsd_function functions[] = {
    {.name = "checksum",
     .help = "[ALGORITHM] [-r] [FILE]...: like sha256sum; ALGORITHM: md5 sha1 sha224 sha256 sha384 sha512 b2 (BLAKE2b) "
             "xxh3 xxh64 xxh128 (write ./sha256 for a file of such a name); -r: files below folders, sorted",
     .flags = WSD_FN_IDEMPOTENT | WSD_FN_SHARED, /* each byte is looked at once */
     .run = checksum},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "checksum", .version = "0.1.0",
           .help = "hashes files or the input, as sha256sum and its siblings and xxhsum do");
