/* SPDX-License-Identifier: Apache-2.0
 *
 * common.c: words, names, reading and shared objects for the shipped plugins.
 * Owns nothing but what its structures say; every call may be made on any worker.
 * Keeps: no state outside of what the caller passes. Does not print anything but through the job. */
#include "common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define LARGE (8u * 1024 * 1024) /* bytes for which large pages are worth a call */

const char *error_text(int error)
{
    const char *text = strerrordesc_np(error < 0 ? -error : error);

    if (error == ENXIO || error == -ENXIO)
        return "Not a regular file; --input takes it"; /* what wsd_job_open() means by it */
    return text ? text : "Unknown error";
}

static bool is_printable(unsigned char c)
{
    return c >= 0x20 && c < 0x7f;
}

/* What a shell takes as more than itself at this place of a word. */
static bool needs_quotes(const char *name, size_t i)
{
    char c = name[i];

    if (!is_printable((unsigned char)c))
        return true;
    if (c == '{' || c == '}')
        return i == 0 && !name[1];
    if (c == '#' || c == '~')
        return i == 0;
    return strchr(" !\"$&()*:;<=>[^`|'\\?", c);
}

/* What means itself inside of double quotes too, by the reckoning of the tools. */
static bool fits_double_quotes(const char *name, size_t i)
{
    char c = name[i];

    if (c == ' ' || c == '\'')
        return true;
    if (strchr("{}#~@", c))
        return c == '@' || needs_quotes(name, i);
    return is_printable((unsigned char)c) && !strchr("!\"$&()*;<=>[^`|\\?", c);
}

/* Writes c the way it stands in $'...'. */
static char *put_escape(char *out, unsigned char c)
{
    static const char from[] = "\a\b\f\n\r\t\v", to[] = "abfnrtv";
    const char *found = c ? strchr(from, c) : NULL;

    *out++ = '\\';
    if (found) {
        *out++ = to[found - from];
        return out;
    }
    *out++ = (char)('0' + (c >> 6));
    *out++ = (char)('0' + (c >> 3 & 7));
    *out++ = (char)('0' + (c & 7));
    return out;
}

/* out has room for the longest form: "'$'\ooo''" for each byte and a quote at both ends. */
static void put_quoted(char *out, const char *name)
{
    bool escaping = false;

    *out++ = '\'';
    for (; *name; name++) {
        if (!is_printable((unsigned char)*name)) {
            if (!escaping)
                out = stpcpy(out, "'$'");
            escaping = true;
            out = put_escape(out, (unsigned char)*name);
        } else if (*name == '\'') {
            escaping = false;
            out = stpcpy(out, "'\\''");
        } else {
            if (escaping)
                out = stpcpy(out, "''");
            escaping = false;
            *out++ = *name;
        }
    }
    *out++ = '\'';
    *out = '\0';
}

char *name_quote(const char *name)
{
    bool quotes = !*name, apostrophe = false, fits = true;
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++) {
        quotes |= needs_quotes(name, i);
        apostrophe |= name[i] == '\'';
        fits &= fits_double_quotes(name, i);
    }
    if (!quotes)
        return strdup(name);

    char *out = malloc(n * 9 + 3);

    if (!out)
        return NULL;
    if (apostrophe && fits)
        sprintf(out, "\"%s\"", name);
    else
        put_quoted(out, name);
    return out;
}

void log_file_error(struct wsd_job *job, const char *name, int error)
{
    _cleanup_(freep) char *quoted = name ? name_quote(name) : NULL;

    wsd_job_log(job, WSD_LOG_ERROR, "%s: %s: %s", job->argv[0], quoted ? quoted : name ? name : "-", error_text(error));
}

int source_open(struct source *source, struct wsd_job *job, const char *name)
{
    struct stat st;

    *source = (struct source){.job = job, .fd = -1, .data = job->input, .size = job->input_size};
    if (!name)
        return 0;
    *source = (struct source){.job = job, .fd = wsd_job_open(job, name)};
    if (source->fd < 0 || fstat(source->fd, &st) < 0)
        return MIN(source->fd, 0);
    source->size = (uint64_t)st.st_size;
    /* read() would say so too, but only after buffers and pieces were made. */
    if (S_ISDIR(st.st_mode)) {
        source_close(source);
        return -EISDIR;
    }
    return 0;
}

void source_open_empty(struct source *source, struct wsd_job *job)
{
    *source = (struct source){.job = job, .fd = -1, .empty = true};
}

/* One step of source_read(): 0 at the end. */
static int64_t read_some(struct source *source, void *data, size_t size)
{
    if (source->fd >= 0) {
        ssize_t n;

        do
            n = read(source->fd, data, size);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
    }
    if (source->empty)
        return 0;
    if (!source->data)
        return wsd_job_read(source->job, data, size);
    size = (size_t)MIN(size, source->size);
    memcpy(data, source->data, size);
    source->data += size;
    source->size -= size;
    source->empty = source->size == 0;
    return (int64_t)size;
}

/* Whether a read of n bytes, of wanted ones, has come to the end of a file: where its size says so, too. Files that grow
 * meanwhile, and those of /proc, are read until there is nothing. */
static bool file_ends(struct source *source, size_t n, size_t wanted)
{
    bool there = n == source->size && n < wanted;

    source->size -= MIN(n, source->size);
    return there;
}

#define READ_MAX (1024u * 1024) /* between two looks at the cancel flag */

int64_t source_read(struct source *source, void *data, size_t size)
{
    size_t done = 0;

    while (done < size) {
        if (wsd_job_cancelled(source->job))
            return -ECANCELED;

        size_t wanted = MIN(size - done, READ_MAX);
        int64_t n = read_some(source, (char *)data + done, wanted);

        if (n < 0)
            return n;
        done += (size_t)n;
        if (n == 0 || (source->fd >= 0 && file_ends(source, (size_t)n, wanted)))
            break;
    }
    return (int64_t)done;
}

void source_close(struct source *source)
{
    source->fd = close_fd(source->fd);
}

int64_t pread_full(int fd, void *data, size_t size, uint64_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = pread(fd, (char *)data + done, size - done, (off_t)(offset + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (int64_t)done;
}

void cache_init(struct cache *cache, void *(*make)(void *context), void (*destroy)(void *object), void *context)
{
    *cache = (struct cache){.lock = PTHREAD_MUTEX_INITIALIZER, .make = make, .destroy = destroy, .context = context};
}

void *cache_take(struct cache *cache)
{
    void *object = NULL;

    pthread_mutex_lock(&cache->lock);
    if (cache->n_objects)
        object = cache->objects[--cache->n_objects];
    pthread_mutex_unlock(&cache->lock);
    return object ? object : cache->make(cache->context);
}

void cache_give(struct cache *cache, void *object)
{
    pthread_mutex_lock(&cache->lock);
    if (cache->n_objects < ARRAY_SIZE(cache->objects))
        cache->objects[cache->n_objects++] = TAKE(object);
    pthread_mutex_unlock(&cache->lock);
    if (object)
        cache->destroy(object);
}

void cache_deinit(struct cache *cache)
{
    while (cache->n_objects)
        cache->destroy(cache->objects[--cache->n_objects]);
    pthread_mutex_destroy(&cache->lock);
}

void prefer_large_pages(void *data, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)data + page - 1) & ~(page - 1);

    if (data && size >= LARGE)
        madvise((void *)begin, ((uintptr_t)data + size - begin) & ~(page - 1), MADV_HUGEPAGE);
}

char *buffer_room(struct buffer *buffer, size_t n)
{
    if (buffer->allocated - buffer->size < n) {
        size_t wanted = MAX(buffer->size + n, 2 * buffer->allocated);
        char *grown = realloc(buffer->data, wanted);

        if (!grown)
            return NULL;
        buffer->data = grown;
        buffer->allocated = wanted;
    }
    return buffer->data + buffer->size;
}

int buffer_add(struct buffer *buffer, const void *data, size_t size)
{
    char *room;

    if (!size)
        return 0;
    room = buffer_room(buffer, size);
    if (!room)
        return -ENOMEM;
    memcpy(room, data, size);
    buffer->size += size;
    return 0;
}

void buffer_deinit(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){.data = NULL};
}

#define OUTPUT_PIECE (64u * 1024)

static void output_commit(struct output *output)
{
    if (!output->data)
        return;

    int r = wsd_job_commit(output->job, output->used);

    if (r && !output->error)
        output->error = r;
    output->data = NULL;
    output->used = output->size = 0;
}

void output_write(struct output *output, const void *data, size_t size)
{
    while (size && !output->error) {
        if (output->used == output->size) {
            output_commit(output);
            output->data = wsd_job_reserve(output->job, OUTPUT_PIECE, &output->size);
            if (!output->data) {
                output->error = -ECANCELED;
                return;
            }
        }

        size_t n = MIN(size, output->size - output->used);

        memcpy(output->data + output->used, data, n);
        output->used += n;
        data = (const char *)data + n;
        size -= n;
    }
}

void output_text(struct output *output, const char *text)
{
    output_write(output, text, strlen(text));
}

void output_number(struct output *output, uint64_t number)
{
    char text[20], *p = text + sizeof(text);

    do
        *--p = (char)('0' + number % 10);
    while (number /= 10);
    output_write(output, p, (size_t)(text + sizeof(text) - p));
}

int output_end(struct output *output)
{
    output_commit(output);
    return output->error;
}
