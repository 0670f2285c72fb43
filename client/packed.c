/* SPDX-License-Identifier: Apache-2.0
 *
 * packed.c: copies of submits that are done later: all but the input and the arena, which stay the program's.
 * Owns nothing. [any thread] */
#include "packed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/submit-options.h"

/* Where the copies go. base NULL: they are only measured. */
struct packing {
    char *base;
    size_t used;
};

static void *put(struct packing *p, const void *from, size_t size)
{
    size_t at = p->used;

    p->used += (size + 7) & ~(size_t)7;
    return p->base && size ? memcpy(p->base + at, from, size) : NULL;
}

static const char *put_text(struct packing *p, const char *text)
{
    return text ? put(p, text, strlen(text) + 1) : NULL;
}

static const char *const *put_texts(struct packing *p, const char *const *texts, size_t n)
{
    const char **copies = put(p, texts, n * sizeof(*texts));

    for (size_t i = 0; i < n; i++) {
        const char *copy = put_text(p, texts[i]);

        if (copies)
            copies[i] = copy;
    }
    return copies;
}

/* Rows of submit-options.h. */
#define PUT_TEXT(kind, name, ...) to->name = put_text(p, from->name);
#define PUT_LIST(kind, name, ...) PUT_##kind(name)
#define PUT_ARGS(name)            to->name = put_texts(p, from->name, from->n_##name);
#define PUT_TAGS(name)            to->name = put_texts(p, from->name, from->n_##name);
#define PUT_IDS(name)             to->name = put(p, from->name, from->n_##name * sizeof(*from->name));

static void pack(struct packing *p, const struct wsd_submit *from, struct wsd_submit *to)
{
    *to = *from;
    to->size = sizeof(*to);
    SUBMIT_FIELDS(PUT_TEXT, SUBMIT_NOTHING, PUT_LIST, SUBMIT_NOTHING)
}

size_t packed_size(const struct wsd_submit *from)
{
    struct packing p = {0};
    struct wsd_submit unused;

    pack(&p, from, &unused);
    return p.used;
}

void packed_put(const struct wsd_submit *from, void *room, struct wsd_submit *ret)
{
    pack(&(struct packing){.base = room}, from, ret);
}

static int hold(int *fd)
{
    int copy = fcntl(*fd, F_DUPFD_CLOEXEC, 0);

    if (copy < 0)
        return -errno;
    *fd = copy;
    return 0;
}

static bool has_input_fd(const struct wsd_submit *submit)
{
    return submit->flags & (WSD_SUBMIT_FILE | WSD_SUBMIT_PIPE);
}

int packed_hold(struct wsd_submit *submit)
{
    int r = has_input_fd(submit) ? hold(&submit->input_fd) : 0;

    if (r < 0 || !(submit->flags & WSD_SUBMIT_OUTPUT))
        return r;
    r = hold(&submit->output_fd);
    if (r < 0 && has_input_fd(submit))
        close_fd(submit->input_fd);
    return r;
}

void packed_drop(const struct wsd_submit *submit)
{
    if (has_input_fd(submit))
        close_fd(submit->input_fd);
    if (submit->flags & WSD_SUBMIT_OUTPUT)
        close_fd(submit->output_fd);
}
