/* SPDX-License-Identifier: Apache-2.0
 *
 * bigoutput.c: test plugin: much output, of a pattern that shows lost, doubled and swapped bytes. */
#include <wsd/plugin.h>

#include <stdlib.h>

/* BYTES: byte i is the i-th of an endless row of 8-byte numbers (little-endian i / 8 * 8). */
static void fill(unsigned char *to, size_t size, uint64_t at)
{
    for (size_t i = 0; i < size; i++)
        to[i] = (unsigned char)((at + i) / 8 * 8 >> (at + i) % 8 * 8);
}

static uint64_t wanted(const struct wsd_job *job)
{
    return job->argc > 1 ? strtoull(job->argv[1], NULL, 10) : 1000000;
}

static int reserved(struct wsd_job *job, struct wsd_worker *self)
{
    uint64_t size = wanted(job);

    for (uint64_t at = 0; at < size;) {
        size_t room;
        unsigned char *to = wsd_job_reserve(job, 1, &room);
        if (!to)
            return wsd_job_fail(job, 1, "nobody reads");
        if (room > size - at)
            room = size - at;
        fill(to, room, at);
        if (wsd_job_commit(job, room) < 0)
            return 2;
        at += room;
    }
    return 0;
}

static int written(struct wsd_job *job, struct wsd_worker *self)
{
    unsigned char piece[5003];
    uint64_t size = wanted(job);

    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < sizeof(piece) ? (size_t)(size - at) : sizeof(piece);
        fill(piece, n, at);
        if (wsd_job_write(job, piece, n) < 0)
            return wsd_job_fail(job, 1, "nobody reads");
        if (at / 1000000 != (at + n) / 1000000 && wsd_job_flush(job) < 0)
            return wsd_job_fail(job, 1, "nobody reads");
        at += n;
    }
    return 0;
}

/* The same pattern by reservations of all sizes, of which not all is used, and some given up. */
static int sizes(struct wsd_job *job, struct wsd_worker *self)
{
    static const size_t min[] = {1, 100, 4000, 5000, 65536, 65537, 200000, WSD_RESERVE_MAX, 1, WSD_RESERVE_MAX, 70000};
    uint64_t at = 0;
    size_t room;

    if (wsd_job_reserve(job, WSD_RESERVE_MAX + 1, &room))
        return wsd_job_fail(job, 1, "too large a reservation was met");
    for (size_t i = 0; i < sizeof(min) / sizeof(*min); i++) {
        if (!wsd_job_reserve(job, 50000, &room)) /* given up */
            return wsd_job_fail(job, 2, "nobody reads");
        unsigned char *to = wsd_job_reserve(job, min[i], &room);
        if (!to || room < min[i])
            return wsd_job_fail(job, 3, "asked for %zu, got %zu", min[i], room);
        if (wsd_job_commit(job, room + 1) == 0)
            return wsd_job_fail(job, 4, "more could be committed than was reserved");
        fill(to, min[i] - min[i] / 7, at);
        if (wsd_job_commit(job, min[i] - min[i] / 7) < 0)
            return wsd_job_fail(job, 5, "it could not be committed");
        at += min[i] - min[i] / 7;
        if (i % 3 == 2 && wsd_job_flush(job) < 0)
            return wsd_job_fail(job, 6, "nobody reads");
        if (wsd_job_commit(job, 1) == 0)
            return wsd_job_fail(job, 7, "more could be committed than was reserved");
    }
    return 0;
}

/* The largest reservations, behind a few bytes, each filled to its last byte. */
static int largest(struct wsd_job *job, struct wsd_worker *self)
{
    unsigned char little[8];
    uint64_t at = sizeof(little);

    fill(little, sizeof(little), 0);
    if (wsd_job_write(job, little, sizeof(little)) < 0)
        return 1;
    for (int i = 0; i < 2; i++, at += WSD_RESERVE_MAX) {
        size_t room;
        unsigned char *to = wsd_job_reserve(job, WSD_RESERVE_MAX, &room);
        if (!to)
            return 2;
        fill(to, WSD_RESERVE_MAX, at);
        if (wsd_job_commit(job, WSD_RESERVE_MAX) < 0)
            return 3;
    }
    return 0;
}

static const struct wsd_function functions[] = {
    {.name = "bigoutput", .help = "BYTES: reserved and committed", .flags = WSD_FN_IDEMPOTENT, .run = reserved},
    {.name = "written", .help = "BYTES: written in odd pieces", .flags = WSD_FN_IDEMPOTENT, .run = written},
    {.name = "largest", .help = "largest reservations", .flags = WSD_FN_IDEMPOTENT, .run = largest},
    {.name = "sizes", .help = "reservations of all sizes", .flags = WSD_FN_IDEMPOTENT, .run = sizes},
};
WSD_PLUGIN(.n_functions = 4, .functions = functions, .name = "bigoutput", .version = "1", .help = "much output");
