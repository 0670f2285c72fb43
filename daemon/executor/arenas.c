/* SPDX-License-Identifier: Apache-2.0
 *
 * arenas.c: arenas of clients in this process.
 * Owns the mappings, under one lock that is held for moments. [control thread, workers]
 * Keeps: an arena is mapped whole, once. So only the first job that touches a page has to fault it in. What a job uses
 * stays mapped. Nothing is mapped that could be cut.
 * Does not decide when one goes: wsd does, which knows the clients. */
#include "executor/arenas.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"

void arenas_init(struct arena_table *a)
{
    pthread_mutex_init(&a->lock, NULL);
}

/* NULL where it cannot be, or must not. */
static void *map(int fd, uint64_t *ret_size)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 || st.st_size <= 0)
        return NULL;
    void *base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return NULL;
    (void)madvise(base, (size_t)st.st_size, MADV_DONTDUMP); /* a core would have those of all clients */
    *ret_size = (uint64_t)st.st_size;
    return base;
}

int arenas_put(struct arena_table *a, uint32_t number, int fd)
{
    _cleanup_(close_fdp) int mine = fd;
    struct mapped_arena *arena = &a->at[ring_arena_place(number)];
    uint64_t size = 0;
    void *base = map(mine, &size);

    pthread_mutex_lock(&a->lock);
    bool there = arena->there;
    if (!there)
        *arena = (struct mapped_arena){.there = true, .number = number, .base = base, .size = size};
    pthread_mutex_unlock(&a->lock);
    if (there && base)
        munmap(base, size);
    return there ? -EBADMSG : 0;
}

int arenas_drop(struct arena_table *a, uint32_t number)
{
    struct mapped_arena *arena = &a->at[ring_arena_place(number)], gone = {.there = false};
    int r = -EBADMSG;

    pthread_mutex_lock(&a->lock);
    if (arena->there && arena->number == number && arena->n_users == 0) {
        gone = *arena;
        *arena = (struct mapped_arena){.there = false};
        r = 0;
    }
    pthread_mutex_unlock(&a->lock);
    if (gone.base)
        /* which takes long where it is large: no worker waits, but what else comes by the control socket does */
        munmap(gone.base, gone.size);
    return r;
}

struct mapped_arena *arenas_use(struct arena_table *a, uint32_t number)
{
    struct mapped_arena *arena = &a->at[ring_arena_place(number)];

    pthread_mutex_lock(&a->lock);
    if (arena->there && arena->number == number)
        arena->n_users++;
    else
        arena = NULL;
    pthread_mutex_unlock(&a->lock);
    return arena;
}

void arenas_leave(struct arena_table *a, struct mapped_arena *arena)
{
    pthread_mutex_lock(&a->lock);
    arena->n_users--;
    pthread_mutex_unlock(&a->lock);
}

void *arena_part(const struct mapped_arena *arena, uint64_t at, uint64_t size)
{
    if (!arena->base || at > arena->size || size > arena->size - at)
        return NULL;
    return (char *)arena->base + at;
}
