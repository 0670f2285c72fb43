/* SPDX-License-Identifier: Apache-2.0
 *
 * common.h: what several shipped plugins need: words of errors, quoted names, reading to the end, bytes that grow, and a
 * place for costly objects that concurrent tasks share. Linked statically into each plugin. All calls [any].
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wsd/plugin.h"

/* The C locale's text of an errno, positive or negative, with an own text for the ENXIO of wsd_job_open(). Never NULL,
 * thread-safe. */
const char *error_text(int error);

/* A file name as coreutils 9 prints it in messages under LC_ALL=C: unchanged if a shell would take it so, else
 * 'quoted', "it's", or 'a'$'\n''b'. NULL: out of memory. The caller frees it. */
char *name_quote(const char *name);

/* Logs "FUNCTION: NAME: what went wrong", the name quoted as above. */
void log_file_error(struct wsd_job *job, const char *name, int error);

/* Where bytes come from: one of the submitter's files, or the job's input. Embedded. [one task at a time] */
struct source {
    struct wsd_job *job;
    int fd;              /* -1: the input */
    bool empty;          /* the input was given to another source already, as with a second `-` */
    const uint8_t *data; /* what is left of the input where it is in memory */
    uint64_t size;       /* of that, or of the file: as it said when it was opened */
};

/* Opens name; the input where name is NULL. Directories give -EISDIR. 0 or a negative errno. */
int source_open(struct source *source, struct wsd_job *job, const char *name);

/* Opens an input that another source has read: it ends at once. */
void source_open_empty(struct source *source, struct wsd_job *job);

/* Fills the buffer; fewer bytes than size mean the end. Returns the number of bytes, or a negative errno: -ECANCELED if
 * the job should end. */
int64_t source_read(struct source *source, void *data, size_t size);

void source_close(struct source *source);
static inline void source_closep(struct source *source)
{
    source_close(source);
}

/* pread() to the end of the buffer or of the file. */
int64_t pread_full(int fd, void *data, size_t size, uint64_t offset);

/* Objects that are costly to make (compression contexts, compiled patterns): as many as are in use at once, that is at
 * most one a worker. The lock is held for two instructions, never across a call. */
struct cache {
    pthread_mutex_t lock;
    void *objects[64];
    unsigned n_objects;
    void *(*make)(void *context);
    void (*destroy)(void *object);
    void *context;
};

void cache_init(struct cache *cache, void *(*make)(void *context), void (*destroy)(void *object), void *context);
/* NULL: make() failed. */
void *cache_take(struct cache *cache);
void cache_give(struct cache *cache, void *object);
void cache_deinit(struct cache *cache);

/* Asks that memory which was allocated, and not used yet, gets large pages: fewer faults, and fewer misses where it is
 * read out of order. Small memory and NULL are left as they are. It is no error where there are no such pages. */
void prefer_large_pages(void *data, size_t size);

/* Bytes that grow. Embedded; {.data = NULL} is an empty one. [one task] */
struct buffer {
    char *data;
    size_t size, allocated;
};

/* Where n more bytes may be put, for the caller to add to size; NULL: out of memory. */
char *buffer_room(struct buffer *buffer, size_t n);

/* 0 or -ENOMEM. */
int buffer_add(struct buffer *buffer, const void *data, size_t size);

void buffer_deinit(struct buffer *buffer);

/* Appends to the output through reservations; keeps its first error and does nothing afterwards. [one task] */
struct output {
    struct wsd_job *job;
    char *data;
    size_t used, size;
    int error;
};

void output_write(struct output *output, const void *data, size_t size);
/* Where size bytes may be put, to be called output_put() of; NULL: only output_write() takes them. */
static inline char *output_room(struct output *output, size_t size)
{
    return output->size - output->used >= size ? output->data + output->used : NULL;
}
static inline void output_put(struct output *output, size_t size)
{
    output->used += size;
}
void output_text(struct output *output, const char *text);
void output_number(struct output *output, uint64_t number);
/* What is left, and the first error. */
int output_end(struct output *output);
