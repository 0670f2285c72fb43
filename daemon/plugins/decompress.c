/* SPDX-License-Identifier: Apache-2.0
 *
 * decompress.c: the plugin `decompress`: any zstd stream.
 * Owns a window of the input while its job runs. Frames that are whole in the window and say that they are small, such
 * as those of `compress`, are decompressed in parallel. Others are decompressed as a stream, so neither input nor
 * output need fit into memory.
 * Keeps: what was written is right as far as it goes; what is broken or cut off ends with an error, after it.
 * Does not pass through what is not zstd (zstd -f), nor read the formats before 1.0. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "wsd/task.h"

#define WINDOW     (32u * 1024 * 1024)
#define FRAMES     16u                /* in parallel */
#define FRAME_SIZE (8u * 1024 * 1024) /* decompressed; larger ones are streamed */
#define OUT_SIZE   (256u * 1024)

struct frame {
    const uint8_t *in;
    size_t in_size;
    void *out;
    size_t out_size;
    size_t result; /* of zstd */
    int error;
};

struct run {
    struct wsd_job *job;
    struct cache contexts;
    struct source source;
    uint8_t *data; /* the window */
    size_t begin, end;
    bool eof;
    uint64_t bytes_done;
    struct frame frames[FRAMES];
    size_t n_frames;
    const char *why; /* what is wrong with the input */
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

/* ---- whole frames ---- */

static void find_frames(struct run *run)
{
    size_t at = run->begin;

    for (run->n_frames = 0; run->n_frames < FRAMES && at < run->end; run->n_frames++) {
        const uint8_t *in = run->data + at;
        size_t size = ZSTD_findFrameCompressedSize(in, run->end - at);
        unsigned long long content = ZSTD_isError(size) ? ZSTD_CONTENTSIZE_UNKNOWN : ZSTD_getFrameContentSize(in, size);

        if (content > FRAME_SIZE)
            return;
        run->frames[run->n_frames] = (struct frame){.in = in, .in_size = size, .out_size = (size_t)content};
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
    frame->out = malloc(frame->out_size + 1);
    frame->error = context && frame->out ? 0 : -ENOMEM;
    if (!frame->error)
        frame->result = ZSTD_decompressDCtx(context, frame->out, frame->out_size, frame->in, frame->in_size);
    if (context)
        cache_give(&run->contexts, context);
}

static void decompress_frames(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    struct run *run = arg;

    for (uint64_t i = begin; i < end; i++)
        decompress_frame(run, &run->frames[i]);
}

static int take_frames(struct run *run, struct wsd_worker *self)
{
    int r = 0;

    wsd_for(self, 0, run->n_frames, 1, decompress_frames, run);
    for (size_t i = 0; i < run->n_frames; i++) {
        struct frame *frame = &run->frames[i];

        if (!r)
            r = frame->error;
        if (!r && ZSTD_isError(frame->result))
            r = broken(run, ZSTD_getErrorName(frame->result));
        if (!r)
            r = wsd_job_write(run->job, frame->out, frame->result);
        free(frame->out);
        run->begin += frame->in_size;
        run->bytes_done += frame->in_size;
    }
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

    int r = wsd_job_commit(run->job, out.pos);

    if (r)
        return r;
    if (ZSTD_isError(hint))
        return broken(run, ZSTD_getErrorName(hint));
    *ret_hint = hint;
    *ret_full = out.pos == out.size;
    return 0;
}

static int stream_frame(struct run *run)
{
    ZSTD_DCtx *context = cache_take(&run->contexts);
    size_t hint = 1;
    bool full = false;
    int r = context ? 0 : -ENOMEM;

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

static int decompress_all(struct run *run, struct wsd_worker *self)
{
    int r = fill_input(run);

    if (!r && run->begin == run->end)
        return broken(run, "unexpected end");
    while (!r) {
        find_frames(run);
        if (!run->n_frames && !run->eof && run->end - run->begin < WINDOW) {
            r = fill_input(run);
            if (r)
                break;
            find_frames(run);
        }
        if (run->begin == run->end)
            break;
        r = run->n_frames ? take_frames(run, self) : stream_frame(run);
        wsd_job_progress(run->job, run->bytes_done, run->job->input_size);
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

static int decompress(struct wsd_job *job, struct wsd_worker *self)
{
    _cleanup_(freep) uint8_t *data = malloc(WINDOW);
    struct run run = {.job = job, .data = data, .source = {.fd = -1}};
    const char *name = NULL;
    int status = take_arguments(job, &name);

    if (status)
        return status;
    if (!data)
        return wsd_job_fail(job, 1, "out of memory");
    cache_init(&run.contexts, context_new, context_free, NULL);

    int r = source_open(&run.source, job, name);

    if (!r)
        r = decompress_all(&run, self);
    source_close(&run.source);
    cache_deinit(&run.contexts);
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
