/* SPDX-License-Identifier: Apache-2.0
 *
 * frames.c: zstd frames, each by itself.
 * Owns zstd's contexts, one for each frame that is made at the same time. Does not cut what is compressed. */
#include "plugins/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/cleanup.h"

#define AT_ONCE_MIN   4u
#define BLOCK_SIZE    (4u * 1024 * 1024)
#define BLOCK_SIZE_HI (8u * 1024 * 1024) /* at levels that look further back */
#define LEVEL_HI      7

int frame_level(const char *option)
{
    unsigned long n = 0;

    if (option[0] == '-' && option[1] && option[1 + strspn(option + 1, "0123456789")] == '\0')
        n = strtoul(option + 1, NULL, 10);
    return n <= FRAME_LEVEL_MAX ? (int)n : 0;
}

size_t frames_at_once(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    return cpus < (long)AT_ONCE_MIN ? AT_ONCE_MIN : MIN((size_t)cpus, FRAMES_AT_ONCE_MAX);
}

static void *context_new(void *level)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();

    if (context && (ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, *(const int *)level)) ||
                    ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)))) {
        ZSTD_freeCCtx(context);
        return NULL;
    }
    return context;
}

static void context_free(void *context)
{
    ZSTD_freeCCtx(context);
}

void frames_init(struct frames *frames, int level)
{
    frames->level = level;
    frames->block_size = level < LEVEL_HI ? BLOCK_SIZE : BLOCK_SIZE_HI;
    cache_init(&frames->contexts, context_new, context_free, &frames->level);
}

int frame_make(struct frames *frames, const void *data, size_t size, void **out, size_t *ret_size)
{
    size_t bound = ZSTD_compressBound(frames->block_size), made = 0;
    ZSTD_CCtx *context = cache_take(&frames->contexts);
    int r;

    if (!*out)
        *out = malloc(bound);
    r = context && *out ? 0 : -ENOMEM;
    if (!r) {
        made = ZSTD_compress2(context, *out, bound, data, size);
        if (ZSTD_isError(made))
            r = -ENOMEM; /* with room for the bound nothing else is left to fail */
    }
    if (context)
        cache_give(&frames->contexts, context);
    if (!r)
        *ret_size = made;
    return r;
}

void frames_deinit(struct frames *frames)
{
    cache_deinit(&frames->contexts);
}
