/* SPDX-License-Identifier: Apache-2.0
 *
 * resample.c: separable resampling, one output row a step.
 * Owns the weights of both axes while it runs. A row is blended from rows of the source first, which is work along
 * memory, and then squeezed or stretched along itself. So no picture of an intermediate size exists. Where that order
 * takes much more work than the other, as from wide to tall, the picture is transposed before and after.
 * Keeps: weights of one output sample add up to 1. Work is bounded, and so is what is done between two looks at the cancel
 * flag. Does not know formats. */
#include "resample.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "wsd/forms.h"

#define LOBES 3.0
#define BLOCK 16u /* samples that are blended together */

#define BAND_WORK (4u << 20) /* samples of the source that are blended between two looks at the cancel flag */
#define MOVE_WORK 4u         /* transposing takes as long as so many multiplications of each pixel */

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_unaligned __attribute__((vector_size(16), aligned(4)));

/* How the middle of `whole` samples is made of `source` ones, of which the last may reach beyond the picture: its length
 * is `span`. */
struct axis_plan {
    uint32_t source, n;
    uint64_t whole;
    double factor, scale;
    uint32_t taps; /* room for the samples that make one */
};

/* Which samples of the source, and how much of each, make each sample of the output. */
struct axis {
    uint32_t n;      /* samples of the output */
    uint32_t taps;   /* room for each */
    uint32_t *first; /* in the source */
    uint32_t *count;
    float *weights; /* taps for each */
};

struct resampling {
    struct wsd_job *job;
    const struct picture *from;
    struct picture *to;
    struct axis columns, rows;
};

/* ---- the order ---- */

static struct axis_plan plan_axis(uint32_t source, double span, uint64_t whole, uint32_t n)
{
    double factor = (double)whole / span, scale = MAX(1 / factor, 1.0);

    return (struct axis_plan){.source = source,
                              .n = n,
                              .whole = whole,
                              .factor = factor,
                              .scale = scale,
                              .taps = (uint32_t)MIN(2 * LOBES * scale + 2, source)};
}

static struct axis_plan plan_columns(const struct picture *picture, const struct frame *frame)
{
    return plan_axis(picture->width, (double)picture->full_width / picture->divisor, frame->whole_width, frame->width);
}

static struct axis_plan plan_rows(const struct picture *picture, const struct frame *frame)
{
    return plan_axis(picture->height, (double)picture->full_height / picture->divisor, frame->whole_height,
                     frame->height);
}

/* Each line of the output is blended of lines of the source, and then resampled along itself. */
static uint64_t line_work(const struct axis_plan *along, const struct axis_plan *across)
{
    return across->n * ((uint64_t)along->source * across->taps + (uint64_t)along->n * along->taps);
}

/* Returns the work, and whether the picture has to be transposed for it. That takes memory for a second one, so it has to
 * be worth it. */
static uint64_t choose_order(const struct picture *picture, const struct frame *frame, bool *ret_transpose)
{
    struct axis_plan columns = plan_columns(picture, frame), rows = plan_rows(picture, frame);
    uint64_t straight = line_work(&columns, &rows), transposed = line_work(&rows, &columns);

    transposed += MOVE_WORK * ((uint64_t)columns.source * rows.source + (uint64_t)columns.n * rows.n);
    *ret_transpose = transposed < straight / 2;
    return *ret_transpose ? transposed : straight;
}

uint64_t resample_work(const struct picture *picture, const struct frame *frame)
{
    bool transpose;

    return choose_order(picture, frame, &transpose);
}

/* ---- weights ---- */

static double lanczos(double x)
{
    double a = M_PI * x;

    if (x == 0)
        return 1;
    return fabs(x) >= LOBES ? 0 : LOBES * sin(a) * sin(a / LOBES) / (a * a);
}

/* Fills one sample of the output. The middle of the sample lies at `centre` of the source. */
static void weigh(struct axis *axis, uint32_t i, double centre, double scale, uint32_t source)
{
    double support = LOBES * scale, sum = 0;
    uint32_t first = (uint32_t)MIN(MAX(centre - support + 0.5, 0), source - 1);
    uint32_t end = (uint32_t)MIN(MAX(centre + support + 0.5, first + 1), source);
    uint32_t count = MIN(end - first, axis->taps);
    float *weights = axis->weights + (size_t)i * axis->taps;

    for (uint32_t k = 0; k < count; k++)
        sum += lanczos((first + k + 0.5 - centre) / scale);
    for (uint32_t k = 0; k < count; k++)
        weights[k] = (float)(lanczos((first + k + 0.5 - centre) / scale) / sum);
    axis->first[i] = first;
    axis->count[i] = count;
}

/* 0 or -ENOMEM. */
static int axis_init(struct axis *axis, struct axis_plan plan)
{
    uint64_t begin = (plan.whole - plan.n) / 2;

    axis->n = plan.n;
    axis->taps = plan.taps;
    axis->first = calloc(plan.n, sizeof(*axis->first));
    axis->count = calloc(plan.n, sizeof(*axis->count));
    axis->weights = calloc(plan.n, plan.taps * sizeof(*axis->weights));
    if (!axis->first || !axis->count || !axis->weights)
        return -ENOMEM;
    for (uint32_t i = 0; i < plan.n; i++)
        weigh(axis, i, ((double)(begin + i) + 0.5) / plan.factor, plan.scale, plan.source);
    return 0;
}

static void axis_deinit(struct axis *axis)
{
    free(axis->first);
    free(axis->count);
    free(axis->weights);
}

/* ---- rows of the source, blended to one ---- */

static void blend_block(float *out, const uint8_t *in, size_t stride, const float *weights, uint32_t n)
{
    float sum[BLOCK] = {0};

    for (uint32_t k = 0; k < n; k++, in += stride) {
        float weight = weights[k];

        for (unsigned i = 0; i < BLOCK; i++)
            sum[i] += weight * (float)in[i];
    }
    memcpy(out, sum, sizeof(sum));
}

static void blend_samples(float *out, const uint8_t *in, size_t size, size_t stride, const float *weights, uint32_t n)
{
    size_t i = 0;

    for (; i + BLOCK <= size; i += BLOCK)
        blend_block(out + i, in + i, stride, weights, n);
    for (; i < size; i++) {
        const uint8_t *p = in + i;

        out[i] = 0;
        for (uint32_t k = 0; k < n; k++, p += stride)
            out[i] += weights[k] * (float)*p;
    }
}

/* Colours are multiplied with their alpha on the way. */
static void blend_pixels(float *out, const uint8_t *in, size_t size, size_t stride, const float *weights, uint32_t n)
{
    for (size_t i = 0; i < size; i += 4) {
        const uint8_t *p = in + i;
        v4 sum = {0, 0, 0, 0};

        for (uint32_t k = 0; k < n; k++, p += stride) {
            float weight = weights[k] * (float)p[3] / 255;

            sum += (v4){(float)p[0], (float)p[1], (float)p[2], 255} * weight;
        }
        *(v4_unaligned *)(out + i) = sum;
    }
}

/* Blends the rows of the source that make row y, one band of columns after the other. 0 or -ECANCELED. */
static int blend_row(const struct resampling *resampling, uint32_t y, float *row)
{
    const struct picture *from = resampling->from;
    const struct axis *rows = &resampling->rows;
    const uint8_t *in = picture_row(from, rows->first[y]);
    const float *weights = rows->weights + (size_t)y * rows->taps;
    size_t stride = picture_stride(from), band = MAX(BAND_WORK / rows->count[y] / BLOCK, 1) * BLOCK;

    for (size_t at = 0; at < stride; at += band) {
        if (wsd_job_cancelled(resampling->job))
            return -ECANCELED;
        (from->channels == 4 ? blend_pixels : blend_samples)(row + at, in + at, MIN(band, stride - at), stride, weights,
                                                             rows->count[y]);
    }
    return 0;
}

/* ---- one row of the output ---- */

static uint8_t to_sample(float value)
{
    return (uint8_t)(MIN(MAX(value, 0.0f), 255.0f) + 0.5f);
}

static void put_pixel(uint8_t *out, v4 sum, unsigned channels)
{
    float unalpha = 1;

    if (channels == 4) {
        unalpha = sum[3] > 0 ? 255 / sum[3] : 0;
        out[3] = to_sample(sum[3]);
    }
    for (unsigned i = 0; i < MIN(channels, 3); i++)
        out[i] = to_sample(sum[i] * unalpha);
}

/* Four lanes are taken whatever the number of channels; the row has room behind it. */
static void squeeze(const struct axis *axis, const float *row, unsigned channels, uint8_t *out)
{
    for (uint32_t x = 0; x < axis->n; x++, out += channels) {
        const float *weights = axis->weights + (size_t)x * axis->taps;
        const float *in = row + (size_t)axis->first[x] * channels;
        v4 sum = {0, 0, 0, 0};

        for (uint32_t k = 0; k < axis->count[x]; k++, in += channels)
            sum += weights[k] * *(const v4_unaligned *)in;
        put_pixel(out, sum, channels);
    }
}

static int resample_rows(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    struct resampling *resampling = arg;
    unsigned channels = resampling->from->channels;
    _cleanup_(freep) float *row = calloc(picture_stride(resampling->from) + 4, sizeof(*row));
    int r = row ? 0 : -ENOMEM;

    for (uint64_t y = begin; y < end && !r; y++) {
        r = blend_row(resampling, (uint32_t)y, row);
        if (!r)
            squeeze(&resampling->columns, row, channels, picture_row(resampling->to, (uint32_t)y));
    }
    return r;
}

/* Row by row, whatever that takes. */
static int resample_lines(struct wsd_worker *self, struct wsd_job *job, struct picture *picture,
                          const struct frame *frame)
{
    struct picture to;
    struct resampling resampling = {.job = job, .from = picture, .to = &to};
    int r = picture_init(&to, frame->width, frame->height, picture->channels);

    if (!r)
        r = axis_init(&resampling.columns, plan_columns(picture, frame));
    if (!r)
        r = axis_init(&resampling.rows, plan_rows(picture, frame));
    if (!r)
        r = wsd_for_each(self, NULL, 0, frame->height, 0, resample_rows, &resampling);
    axis_deinit(&resampling.columns);
    axis_deinit(&resampling.rows);
    to.orientation = picture->orientation;
    to.lossless = picture->lossless;
    SWAP(*picture, to);
    picture_deinit(&to);
    return r;
}

int resample(struct wsd_worker *self, struct wsd_job *job, struct picture *picture, const struct frame *frame)
{
    struct frame lying = {.whole_width = frame->whole_height,
                          .whole_height = frame->whole_width,
                          .width = frame->height,
                          .height = frame->width};
    bool transpose;
    int r;

    choose_order(picture, frame, &transpose);
    if (!transpose)
        return resample_lines(self, job, picture, frame);
    r = picture_transpose(self, job, picture);
    if (!r)
        r = resample_lines(self, job, picture, &lying);
    return r ? r : picture_transpose(self, job, picture);
}
