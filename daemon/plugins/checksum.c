/* SPDX-License-Identifier: Apache-2.0
 *
 * checksum.c: the plugin `checksum`, equal to sha256sum and its siblings.
 * Owns one record a file while its job runs. One task a file, any number at once; lines leave in the order of the
 * arguments, as soon as all before them are done, by whichever task finds them ready.
 * Keeps: the emitter is one task at a time, and no file that is done waits for another to start.
 * Does not check lists (-c), and does not split one file: a hash is sequential. */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "wsd/task.h"

#define PIECE (64u * 1024)

static const struct {
    const char *name, *evp;
} algorithms[] = {
    {"sha256", "SHA2-256"}, {"md5", "MD5"},         {"sha1", "SHA1"},      {"sha224", "SHA2-224"},
    {"sha384", "SHA2-384"}, {"sha512", "SHA2-512"}, {"b2", "BLAKE2B-512"},
};

struct file {
    const char *name; /* NULL: the input */
    bool second;      /* a further `-`: the input was read before */
    int error;
    unsigned size;
    unsigned char digest[EVP_MAX_MD_SIZE];
    atomic_bool done; /* [atomic: release by its task, acquire by the emitter] */
};

struct run {
    struct wsd_job *job;
    const EVP_MD *md;
    struct file *files;
    size_t n_files;
    atomic_size_t next;   /* first that was not emitted; written by the emitter */
    atomic_bool emitting; /* a task is emitting */
    bool failed;          /* [emitter] a file could not be read */
    int error;            /* [emitter] of the output */
};

static int hash_source(struct run *run, struct source *source, EVP_MD_CTX *context, struct file *file)
{
    _cleanup_(freep) void *data = malloc(PIECE);

    if (!data || !EVP_DigestInit_ex2(context, run->md, NULL))
        return -ENOMEM;
    for (;;) {
        int64_t n = source_read(source, data, PIECE);

        if (n < 0)
            return (int)n;
        if (!EVP_DigestUpdate(context, data, (size_t)n))
            return -ENOMEM;
        if ((size_t)n < PIECE)
            return EVP_DigestFinal_ex(context, file->digest, &file->size) ? 0 : -ENOMEM;
    }
}

static void hash_file(struct run *run, struct file *file)
{
    struct source source;
    EVP_MD_CTX *context = EVP_MD_CTX_new();

    if (file->second)
        source_open_empty(&source, run->job);
    else
        file->error = source_open(&source, run->job, file->name);
    if (!context)
        file->error = -ENOMEM;
    if (!file->error)
        file->error = hash_source(run, &source, context, file);
    source_close(&source);
    EVP_MD_CTX_free(context);
}

/* "HASH  NAME\n", and where the name has a backslash, newline or carriage return a backslash before the whole. */
static void emit_line(struct run *run, const struct file *file)
{
    static const char hex[] = "0123456789abcdef";
    const char *name = file->name ? file->name : "-";
    bool escape = strpbrk(name, "\\\n\r");
    _cleanup_(freep) char *line = malloc(1 + 2 * EVP_MAX_MD_SIZE + 2 + 2 * strlen(name) + 1);
    char *p = line;

    if (!line) {
        run->error = -ENOMEM;
        return;
    }
    if (escape)
        *p++ = '\\';
    for (unsigned i = 0; i < file->size; i++) {
        *p++ = hex[file->digest[i] >> 4];
        *p++ = hex[file->digest[i] & 15];
    }
    *p++ = ' ';
    *p++ = ' ';
    for (; *name; name++) {
        if (strchr("\\\n\r", *name)) {
            *p++ = '\\';
            *p++ = *name == '\n' ? 'n' : *name == '\r' ? 'r' : '\\';
        } else {
            *p++ = *name;
        }
    }
    *p++ = '\n';
    run->error = wsd_job_write(run->job, line, (size_t)(p - line));
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

static const char *find_algorithm(const char *word)
{
    for (size_t i = 0; i < ARRAY_SIZE(algorithms); i++)
        if (strcmp(algorithms[i].name, word) == 0)
            return algorithms[i].evp;
    return NULL;
}

/* Fills run->files from the arguments after the algorithm. */
static int take_names(struct run *run, uint32_t first)
{
    struct wsd_job *job = run->job;
    bool operands = false, input = false;

    run->files = calloc(job->argc, sizeof(*run->files));
    if (!run->files)
        return wsd_job_fail(job, 1, "out of memory");
    for (uint32_t i = first; i < job->argc; i++) {
        const char *arg = job->argv[i];
        struct file *file = &run->files[run->n_files];

        if (!operands && strcmp(arg, "--") == 0) {
            operands = true;
        } else if (!operands && arg[0] == '-' && arg[1]) {
            return wsd_job_fail(job, 1, "unrecognized option '%s'; usage: checksum [ALGORITHM] [FILE]...", arg);
        } else {
            bool dash = strcmp(arg, "-") == 0;

            file->name = dash ? NULL : arg;
            file->second = dash && input;
            input |= dash;
            run->n_files++;
        }
    }
    if (!run->n_files)
        run->n_files = 1;
    return 0;
}

static int checksum(struct wsd_job *job, struct wsd_worker *self)
{
    struct run run = {.job = job};
    const char *evp = job->argc > 1 ? find_algorithm(job->argv[1]) : NULL;
    int status = take_names(&run, evp ? 2 : 1);
    EVP_MD *md = NULL;

    if (!status) {
        evp = evp ? evp : algorithms[0].evp;
        /* Where its context could not be made, EVP_MD_fetch() dereferences NULL. */
        if (OSSL_LIB_CTX_get0_global_default())
            md = EVP_MD_fetch(NULL, evp, NULL);
        if (!md)
            status = wsd_job_fail(job, 1, "%s: not offered by this machine's OpenSSL, or out of memory", evp);
    }
    if (!status) {
        run.md = md;
        wsd_for(self, 0, run.n_files, 1, hash_files, &run);
        if (run.error && run.error != -ECANCELED)
            status = wsd_job_fail(job, 1, "output: %s", error_text(run.error));
        else if (run.failed)
            status = wsd_job_fail(job, 1, "some files could not be read");
        else if (run.error || atomic_load(&run.next) < run.n_files)
            status = 1;
    }
    EVP_MD_free(md);
    free(run.files);
    return status;
}

static const struct wsd_function functions[] = {
    {.name = "checksum",
     .help = "[ALGORITHM] [FILE]...: like sha256sum; ALGORITHM: md5 sha1 sha224 sha256 sha384 sha512 b2 "
             "(write ./sha256 for a file of such a name)",
     .flags = WSD_FN_IDEMPOTENT | WSD_FN_SHARED, /* each byte is looked at once */
     .run = checksum},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "checksum", .version = "0.1.0",
           .help = "hashes files or the input, as sha256sum and its siblings do");
