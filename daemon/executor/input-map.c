/* SPDX-License-Identifier: Apache-2.0
 *
 * input-map.c: inputs by descriptor, where jobs read them: a sealed memfd, a file in place, or a copy of it.
 * Owns the mappings, and the descriptor of a file until its job is over. input_map_mend() in the handler of SIGBUS;
 * everything else [worker].
 * Keeps: a file that is truncated while a job reads it costs only that job: the rest becomes zeros, and the job fails.
 * Does not see a change that leaves the file's length as it was: the job reads what any reader might. */
#include "executor/input-map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ring/layout.h"

/* Files that are mapped. [atomic: release by the job's worker, acquire by the handler on its or another thread] */
static struct input_map *_Atomic files[RING_SLOTS];

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE); /* a constant of the process: async-signal-safe */
}

void input_map_init(struct input_map *m)
{
    m->base = NULL;
    m->room = 0;
    m->input = NULL;
    m->end = 0;
    m->fd = -1;
    atomic_store_explicit(&m->cut, false, memory_order_relaxed);
}

static int place(struct input_map *m, size_t room, int flags, int prot, int fd, uint64_t at)
{
    void *base = mmap(NULL, room, prot, flags, fd, (off_t)at);

    if (base == MAP_FAILED)
        return -errno;
    m->base = base;
    m->room = room;
    return 0;
}

int input_map_sealed(struct input_map *m, int fd, uint64_t size)
{
    int seals = fcntl(fd, F_GET_SEALS), r = 0;
    struct stat st;

    if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_WRITE)) != (F_SEAL_SHRINK | F_SEAL_WRITE))
        return -EBADMSG;
    if (fstat(fd, &st) < 0)
        return -errno;
    if ((uint64_t)st.st_size != size)
        return -EBADMSG;
    if (size)
        r = place(m, size, MAP_SHARED, PROT_READ, fd, 0);
    m->input = m->base;
    return r;
}

/* 1: the file has at least that size; 0: it has not; or a negative errno. */
static int reaches(int fd, uint64_t end)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    return st.st_size >= 0 && (uint64_t)st.st_size >= end;
}

/* Shared and anonymous: as the memfd that it stands for, it does not count as the process's data. Populated, since all
 * of it is written. */
static int place_copy(struct input_map *m, size_t size)
{
    int r = place(m, size, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, PROT_READ | PROT_WRITE, -1, 0);

    m->input = m->base;
    return r;
}

static int copy_in(struct input_map *m, uint64_t at, size_t size)
{
    int r = place_copy(m, size);

    for (size_t n = 0; r == 0 && n < size;) {
        ssize_t got = pread(m->fd, (char *)m->base + n, size - n, (off_t)(at + n));

        if (got < 0 && errno != EINTR)
            r = -errno;
        if (got == 0)
            r = -ESTALE;
        n += got > 0 ? (size_t)got : 0;
    }
    m->fd = close_fd(m->fd); /* what happens to the file now does not matter */
    return r;
}

int input_map_file(struct input_map *m, uint32_t slot, int fd, uint64_t at, uint64_t size, bool copy)
{
    uint64_t skip = at % page();
    int r;

    m->fd = fd;
    if (at > INT64_MAX || size > INT64_MAX - at || size > SIZE_MAX - skip)
        return -EBADMSG;
    r = reaches(fd, at + size);
    if (r <= 0)
        return r < 0 ? r : -ESTALE;
    if (size == 0)
        return 0;
    m->end = at + size;
    if (copy)
        return copy_in(m, at, size);
    r = place(m, size + skip, MAP_PRIVATE, PROT_READ, fd, at - skip);
    if (r == -ENODEV) /* some file systems map nothing */
        return copy_in(m, at, size);
    if (r < 0)
        return r;
    m->input = (const char *)m->base + skip;
    atomic_store_explicit(&files[slot], m, memory_order_release);
    return 0;
}

int input_map_copy(struct input_map *m, const void *from, size_t size)
{
    int r = place_copy(m, size);

    if (r == 0)
        memcpy(m->base, from, size);
    return r;
}

bool input_map_drop(struct input_map *m, uint32_t slot, struct input_map_rest *ret_rest)
{
    bool whole = !atomic_load_explicit(&m->cut, memory_order_relaxed);

    /* a cut within the last page makes zeros and no fault; nor does a system call that reads from there fault */
    if (m->base && m->fd >= 0 && reaches(m->fd, m->end) != 1)
        whole = false;
    atomic_store_explicit(&files[slot], NULL, memory_order_release);
    *ret_rest = (struct input_map_rest){.base = m->base, .room = m->room};
    close_fd(m->fd);
    input_map_init(m);
    return whole;
}

bool input_map_unmap(const struct input_map_rest *rest)
{
    return rest->base && munmap(rest->base, rest->room) == 0;
}

bool input_map_mend(const void *address)
{
    uintptr_t at = (uintptr_t)address, first = at - at % page();

    for (uint32_t i = 0; i < RING_SLOTS; i++) {
        struct input_map *m = atomic_load_explicit(&files[i], memory_order_acquire);
        uintptr_t base = m ? (uintptr_t)m->base : 0;

        if (!m || at < base || at - base >= m->room)
            continue;
        if (mmap((void *)first, base + m->room - first, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            MAP_FAILED)
            return false;
        atomic_store_explicit(&m->cut, true, memory_order_relaxed);
        return true;
    }
    return false;
}
