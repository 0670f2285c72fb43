/* SPDX-License-Identifier: Apache-2.0
 *
 * texts.c: files and the input as a whole.
 * Owns the bytes of files; the input is used where it lies. Does not look at what is in them. */
#include "plugins/texts.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "plugins/common.h"

static int read_all(struct text *text, struct source *source)
{
    struct stat st;
    size_t allocated = 64u * 1024;

    /* One byte more than the file has shows its end. */
    if (source->fd >= 0 && fstat(source->fd, &st) == 0 && st.st_size >= (off_t)allocated)
        allocated = (size_t)st.st_size + 1;
    for (;;) {
        char *grown = realloc(text->owned, allocated);

        if (!grown)
            return -ENOMEM;
        text->data = text->owned = grown;
        prefer_large_pages(grown, allocated);

        int64_t n = source_read(source, grown + text->size, allocated - text->size);

        if (n < 0)
            return (int)n;
        text->size += (size_t)n;
        if (text->size < allocated)
            return 0;
        allocated += allocated / 2;
    }
}

int text_read(struct text *text, struct wsd_job *job, const char *name)
{
    _cleanup_(source_closep) struct source source = {.fd = -1};
    int r;

    *text = (struct text){.data = NULL};
    if (!name && job->input) {
        text->data = job->input;
        text->size = job->input_size;
        return 0;
    }
    r = source_open(&source, job, name);
    return r ? r : read_all(text, &source);
}

void text_deinit(struct text *text)
{
    free(text->owned);
    *text = (struct text){.data = NULL};
}
