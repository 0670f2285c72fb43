/* SPDX-License-Identifier: Apache-2.0
 *
 * history.c: rings of samples, in which each time has one place. So what was not looked at leaves a gap, and an old sample
 * is told from a new one by its time. A file holds the rings as they are, mapped: what was noted is there, whichever way
 * the process ends.
 * Owns the mapping. The lock on the file, and with it the descriptor, lasts as long as the process. */
#include "web/history.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static void put(struct sample *at, uint64_t time, const float *values, uint32_t n)
{
    at->time = time;
    memcpy(at->values, values, n * sizeof(*values));
}

/* Takes the values into the mean of the minute. */
static void add_to_minute(struct history *h, uint64_t minute, const float *values)
{
    struct sample *at = &h->minutes[minute % HISTORY_MINUTES];

    if (at->time != minute) {
        memset(h->n_in_minute, 0, sizeof(h->n_in_minute));
        at->time = minute;
        for (uint32_t i = 0; i < h->n_series; i++)
            at->values[i] = NAN;
    }
    for (uint32_t i = 0; i < h->n_series; i++) {
        if (isnan(values[i]))
            continue;
        uint32_t n = ++h->n_in_minute[i];
        at->values[i] = n == 1 ? values[i] : at->values[i] + (values[i] - at->values[i]) / (float)n;
    }
}

static uint64_t latest(const struct sample *ring, uint32_t n)
{
    uint64_t time = 0;

    for (uint32_t i = 0; i < n; i++)
        time = ring[i].time > time ? ring[i].time : time;
    return time;
}

static void drop_from(struct sample *ring, uint32_t n, uint64_t time)
{
    for (uint32_t i = 0; i < n; i++)
        if (ring[i].time >= time)
            ring[i] = (struct sample){0};
}

void history_add(struct history *h, uint64_t seconds, const float values[static HISTORY_SERIES])
{
    struct sample *at = &h->seconds[seconds % HISTORY_SECONDS];
    uint64_t last = latest(h->seconds, HISTORY_SECONDS);

    if (seconds + HISTORY_BACK < last) {
        drop_from(h->seconds, HISTORY_SECONDS, seconds + 1);
        drop_from(h->minutes, HISTORY_MINUTES, seconds / 60); /* n_in_minute is of another one */
    } else if (seconds < last) {
        return;
    }
    bool again = at->time == seconds;
    put(at, seconds, values, h->n_series);
    if (!again)
        add_to_minute(h, seconds / 60, values);
}

void history_each(const struct history *h, enum history_span span,
                  void (*each)(uint64_t time, const float *values, void *context), void *context)
{
    const struct sample *ring = span == HISTORY_HOUR ? h->seconds : h->minutes;
    uint32_t n = span == HISTORY_HOUR ? HISTORY_SECONDS : HISTORY_MINUTES, step = span == HISTORY_HOUR ? 1 : 60;
    uint64_t last = latest(ring, n);

    for (uint64_t time = last >= n ? last - n + 1 : 1; last && time <= last; time++) {
        const struct sample *at = &ring[time % n];

        if (at->time == time)
            each(time * step, at->values, context);
    }
}

/* --- its file ----------------------------------------------------------------------------------------------------- */

/* The file, locked, with room on its disk. Returns the descriptor or a negative errno. */
static int open_file(const char *path)
{
    _cleanup_(close_fdp) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    if (st.st_size != sizeof(struct history) && ftruncate(fd, 0) < 0)
        return -errno;
    int r = posix_fallocate(fd, 0, sizeof(struct history)); /* a hole on a full disk would be a SIGBUS */
    return r ? -r : TAKE_FD(fd);
}

int history_open(struct history **ret, const char *path, uint32_t n_series, uint64_t now_seconds)
{
    int fd = path ? open_file(path) : -1;

    if (path && fd < 0)
        return fd;
    struct history *h =
        mmap(NULL, sizeof(*h), PROT_READ | PROT_WRITE, path ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    if (h == MAP_FAILED) {
        int error = errno;

        close_fd(fd);
        return -error;
    }
    if (memcmp(h->magic, HISTORY_MAGIC, sizeof(h->magic)) != 0 || h->n_series != n_series) {
        memset(h, 0, sizeof(*h));
        h->n_series = n_series;
        memcpy(h->magic, HISTORY_MAGIC, sizeof(h->magic));
    }
    drop_from(h->seconds, HISTORY_SECONDS, now_seconds + 1);
    drop_from(h->minutes, HISTORY_MINUTES, now_seconds / 60 + 1);
    *ret = h;
    return 0;
}

struct history *history_close(struct history *h)
{
    if (h)
        munmap(h, sizeof(*h));
    return NULL;
}
