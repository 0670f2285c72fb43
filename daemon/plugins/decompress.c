/* SPDX-License-Identifier: Apache-2.0
 *
 * decompress.c: the plugin `decompress`: any zstd stream.
 * Owns a window of the input while its job runs. Frames that are whole in the window and not large, such as those of
 * `compress`, pzstd and the seekable format, are decompressed in parallel, a batch at a time. One is
 * written while the next is made. Other frames are decompressed as a stream, so neither input nor output need fit into
 * memory.
 * Keeps: what was written is right as far as it goes; what is broken or cut off ends with an error, after it.
 * Does not pass through what is not zstd (zstd -f), nor read the formats before 1.0. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "wsd/task.h"

#define WINDOW     (32u * 1024 * 1024)
#define FRAMES     256u               /* in a batch */
#define FRAME_SIZE (8u * 1024 * 1024) /* decompressed; larger ones are streamed */
#define CPU_SIZE   (8u * 1024 * 1024) /* decompressed, in a batch, for each CPU */
#define CPUS_MIN   2u
#define CPUS_MAX   16u
#define OUT_SIZE   (256u * 1024) /* of a stream, at a time */

struct frame {
    const uint8_t *in;
    size_t in_size;
    uint8_t *out;
    size_t out_size;
    bool unknown;  /* it does not say its size, so that it has room for FRAME_SIZE */
    bool large;    /* that was not enough */
    size_t result; /* of zstd */
    int error;
};

/* What is decompressed while the batch before it is written. */
struct batch {
    struct run *run;
    uint8_t *out; /* batch_size; its pages are there from their first use on */
    size_t used;
    struct frame frames[FRAMES];
    size_t n_frames;
};

struct run {
    struct wsd_job *job;
    struct cache contexts;
    struct source source;
    uint8_t *data; /* the window */
    size_t begin, end;
    bool eof;
    uint64_t bytes_done;
    size_t batch_size;
    struct batch *now, *before; /* being decompressed, being written */
    bool stopped;               /* output has ended early */
    const char *why;            /* what is wrong with the input */
};

static void *context_new(void *unused)
{
    return ZSTD_createDCtx();
}

static void context_free(void *context)
{
    ZSTD_freeDCtx(context);
}

/* Moves what is left to the front and reads behind it. */
static int fill_input(struct run *run)
{
    int64_t n;

    if (run->eof)
        return 0;
    memmove(run->data, run->data + run->begin, run->end - run->begin);
    run->end -= run->begin;
    run->begin = 0;
    n = source_read(&run->source, run->data + run->end, WINDOW - run->end);
    if (n < 0)
        return (int)n;
    run->end += (size_t)n;
    run->eof = run->end < WINDOW;
    return 0;
}

static int broken(struct run *run, const char *why)
{
    run->why = why;
    return -EBADMSG;
}

/* The library may know formats before 1.0, of which it gives wrong bytes when they are broken. */
static bool is_foreign(const uint8_t *in, size_t size)
{
    uint32_t magic;

    if (size < sizeof(magic))
        return false;
    memcpy(&magic, in, sizeof(magic));
    magic = le32toh(magic);
    return magic != ZSTD_MAGICNUMBER && (magic & ZSTD_MAGIC_SKIPPABLE_MASK) != ZSTD_MAGIC_SKIPPABLE_START;
}

/* ---- whole frames ---- */

/* False: the frame is not for this batch. */
static bool add_frame(struct batch *batch, const uint8_t *in, size_t size)
{
    unsigned long long content = ZSTD_getFrameContentSize(in, size);
    bool unknown = content == ZSTD_CONTENTSIZE_UNKNOWN;
    size_t room = unknown ? FRAME_SIZE : (size_t)MIN(content, FRAME_SIZE + 1);

    if (room > FRAME_SIZE || batch->used + room > batch->run->batch_size)
        return false;
    batch->frames[batch->n_frames++] = (struct frame){
        .in = in, .in_size = size, .unknown = unknown, .out = batch->out + batch->used, .out_size = room};
    batch->used += room;
    return true;
}

/* Those at the front of the window. */
static void find_frames(struct run *run, struct batch *batch)
{
    size_t at = run->begin;

    batch->n_frames = batch->used = 0;
    while (batch->n_frames < FRAMES && at < run->end) {
        const uint8_t *in = run->data + at;
        size_t size;

        if (is_foreign(in, run->end - at))
            return;
        size = ZSTD_findFrameCompressedSize(in, run->end - at);
        if (ZSTD_isError(size) || !add_frame(batch, in, size))
            return;
        at += size;
    }
}

static void decompress_frame(struct run *run, struct frame *frame)
{
    ZSTD_DCtx *context;

    if (wsd_job_cancelled(run->job)) {
        frame->error = -ECANCELED;
        return;
    }
    context = cache_take(&run->contexts);
    frame->error = context ? 0 : -ENOMEM;
    if (!context)
        return;
    frame->result = ZSTD_decompressDCtx(context, frame->out, frame->out_size, frame->in, frame->in_size);
    frame->large = frame->unknown && ZSTD_getErrorCode(frame->result) == ZSTD_error_dstSize_tooSmall;
    cache_give(&run->contexts, context);
}

static void decompress_frames(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    struct batch *batch = arg;

    for (uint64_t i = begin; i < end; i++)
        decompress_frame(batch->run, &batch->frames[i]);
}

WSD_VOID_TASK_1(decompress_batch, struct batch *, batch)
{
    wsd_for(self, 0, batch->n_frames, 1, decompress_frames, batch);
}

static int write_frame(struct run *run, const struct frame *frame)
{
    if (frame->error)
        return frame->error;
    if (ZSTD_isError(frame->result))
        return broken(run, ZSTD_getErrorName(frame->result));
    return wsd_job_write(run->job, frame->out, frame->result);
}

/* Writes what the batch has, and empties it. */
static int write_batch(struct run *run, struct batch *batch)
{
    int r = 0;

    for (size_t i = 0; i < batch->n_frames && !r; i++)
        r = write_frame(run, &batch->frames[i]);
    batch->n_frames = batch->used = 0;
    run->stopped |= r != 0;
    return r;
}

/* What was found in the window is decompressed, while what came before is written. A frame that turned out to be large,
 * and what is behind it, stays in the window: *ret_large. */
static int take_frames(struct run *run, struct wsd_worker *self, bool *ret_large)
{
    struct batch *batch = run->now;
    size_t n = batch->n_frames;
    int r;

    WSD_SPAWN(decompress_batch, batch);
    r = write_batch(run, run->before);
    WSD_SYNC(decompress_batch);
    batch->n_frames = 0;
    *ret_large = false;
    for (size_t i = 0; i < n; i++) {
        struct frame *frame = &batch->frames[i];

        *ret_large = frame->large;
        if (frame->large)
            break;
        batch->n_frames++;
        run->begin += frame->in_size;
        run->bytes_done += frame->in_size;
    }
    batch->used = 0;
    SWAP(run->now, run->before);
    return r;
}

/* ---- a frame as a stream ---- */

/* One step; *ret_hint is 0 at the end of the frame. */
static int stream_step(struct run *run, ZSTD_DCtx *context, size_t *ret_hint, bool *ret_full)
{
    ZSTD_inBuffer in = {.src = run->data + run->begin, .size = run->end - run->begin};
    ZSTD_outBuffer out = {.dst = NULL};
    size_t hint;

    out.dst = wsd_job_reserve(run->job, OUT_SIZE, &out.size);
    if (!out.dst)
        return -ECANCELED;
    hint = ZSTD_decompressStream(context, &out, &in);
    run->begin += in.pos;
    run->bytes_done += in.pos;

    /* what a step gave that failed may be anything */
    int r = wsd_job_commit(run->job, ZSTD_isError(hint) ? 0 : out.pos);

    if (r)
        return r;
    if (ZSTD_isError(hint))
        return broken(run, ZSTD_getErrorName(hint));
    *ret_hint = hint;
    *ret_full = out.pos == out.size;
    return 0;
}

/* Into the room that the output gives, so that nothing is copied. What came before is written first. */
static int stream_frame(struct run *run)
{
    ZSTD_DCtx *context = cache_take(&run->contexts);
    size_t hint = 1;
    bool full = false;
    int r = context ? write_batch(run, run->before) : -ENOMEM;

    if (context && ZSTD_isError(ZSTD_DCtx_reset(context, ZSTD_reset_session_only)))
        r = -ENOMEM;
    while (!r && hint) {
        if (run->begin == run->end && !full) {
            r = fill_input(run);
            if (!r && run->begin == run->end)
                r = broken(run, "unexpected end");
        }
        if (!r && wsd_job_cancelled(run->job))
            r = -ECANCELED;
        if (!r)
            r = stream_step(run, context, &hint, &full);
        wsd_job_progress(run->job, run->bytes_done, run->job->input_size);
    }
    if (context)
        cache_give(&run->contexts, context);
    return r;
}

/* ---- the whole ---- */

/* Frames at the front of the window, where a refill may be what makes them whole. What is no frame is refused. */
static int look(struct run *run)
{
    int r = 0;

    find_frames(run, run->now);
    if (!run->now->n_frames && !run->eof && run->end - run->begin < WINDOW) {
        r = fill_input(run);
        if (!r)
            find_frames(run, run->now);
    }
    if (!r && !run->now->n_frames && is_foreign(run->data + run->begin, run->end - run->begin))
        r = broken(run, ZSTD_getErrorString(ZSTD_error_prefix_unknown));
    return r;
}

static int decompress_all(struct run *run, struct wsd_worker *self)
{
    int r = fill_input(run), w;

    if (!r && run->begin == run->end)
        return broken(run, "unexpected end");
    while (!r) {
        bool large = false;

        r = look(run);
        if (r || run->begin == run->end)
            break;
        if (run->now->n_frames)
            r = take_frames(run, self, &large);
        else
            large = true;
        if (!r && large)
            r = stream_frame(run);
        wsd_job_progress(run->job, run->bytes_done, run->job->input_size);
    }
    if (!run->stopped) {
        w = write_batch(run, run->before);
        r = w ? w : r;
    }
    return r;
}

static int take_arguments(struct wsd_job *job, const char **name)
{
    uint32_t i = 1;

    if (i < job->argc && strcmp(job->argv[i], "--") == 0)
        i++;
    else if (i < job->argc && job->argv[i][0] == '-' && job->argv[i][1])
        return wsd_job_fail(job, 1, "unrecognized option '%s'; usage: decompress [FILE]", job->argv[i]);
    if (i + 1 < job->argc)
        return wsd_job_fail(job, 1, "more than one file; usage: decompress [FILE]");
    if (i < job->argc && strcmp(job->argv[i], "-"))
        *name = job->argv[i];
    return 0;
}

static int batches_new(struct run *run)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    run->batch_size = (size_t)MIN(MAX(cpus, (long)CPUS_MIN), (long)CPUS_MAX) * CPU_SIZE;
    for (struct batch **batch = &run->now; batch; batch = batch == &run->now ? &run->before : NULL) {
        *batch = calloc(1, sizeof(**batch));
        if (!*batch)
            return -ENOMEM;
        (*batch)->run = run;
        (*batch)->out = malloc(run->batch_size);
        if (!(*batch)->out)
            return -ENOMEM;
    }
    return 0;
}

static void batch_free(struct batch *batch)
{
    if (batch)
        free(batch->out);
    free(batch);
}

static int decompress(struct wsd_job *job, struct wsd_worker *self)
{
    _cleanup_(freep) uint8_t *data = malloc(WINDOW);
    struct run run = {.job = job, .data = data, .source = {.fd = -1}};
    const char *name = NULL;
    int status = take_arguments(job, &name), r;

    if (status)
        return status;
    cache_init(&run.contexts, context_new, context_free, NULL);
    r = data ? batches_new(&run) : -ENOMEM;
    if (!r)
        r = source_open(&run.source, job, name);
    if (!r)
        r = decompress_all(&run, self);
    source_close(&run.source);
    cache_deinit(&run.contexts);
    batch_free(run.now);
    batch_free(run.before);
    if (r && r != -ECANCELED)
        return wsd_job_fail(job, 1, "%s: %s", name ? name : "input", run.why ? run.why : error_text(r));
    return r ? 1 : 0;
}

static const struct wsd_function functions[] = {
    {.name = "decompress",
     .help = "[FILE]: any zstd stream, of one frame or many",
     .flags = WSD_FN_IDEMPOTENT | WSD_FN_STREAMING,
     .run = decompress},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "decompress", .version = "0.1.0",
           .help = "decompresses a zstd file or input, small frames in parallel");
