/* SPDX-License-Identifier: Apache-2.0
 *
 * resample.c: separable resampling, one output row a step.
 * Owns the weights of both axes while it runs. A row is blended from rows of the source first, which is work along
 * memory, and then squeezed or stretched along itself. So no picture of an intermediate size exists.
 * Keeps: weights of one output sample add up to 1. Does not know formats, or turn anything. */
#include "resample.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "wsd/forms.h"

#define LOBES 3.0
#define BLOCK 16u /* samples that are blended together */

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_unaligned __attribute__((vector_size(16), aligned(4)));

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

/* ---- weights ---- */

static double lanczos(double x)
{
    double a = M_PI * x;

    if (x == 0)
        return 1;
    return fabs(x) >= LOBES ? 0 : LOBES * sin(a) * sin(a / LOBES) / (a * a);
}

/* Fills one sample of the output, whose middle lies at `centre` of the source. */
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

/* The middle n of `whole` samples that `source` ones become, of which the last may reach beyond the picture: its length
 * is `span`. 0 or -ENOMEM. */
static int axis_init(struct axis *axis, uint32_t source, double span, uint64_t whole, uint32_t n)
{
    double factor = (double)whole / span, scale = MAX(1 / factor, 1.0);
    uint64_t begin = (whole - n) / 2;

    axis->n = n;
    axis->taps = (uint32_t)MIN(2 * LOBES * scale + 2, source);
    axis->first = calloc(n, sizeof(*axis->first));
    axis->count = calloc(n, sizeof(*axis->count));
    axis->weights = calloc(n, axis->taps * sizeof(*axis->weights));
    if (!axis->first || !axis->count || !axis->weights)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        weigh(axis, i, ((double)(begin + i) + 0.5) / factor, scale, source);
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

static void blend_samples(float *out, const uint8_t *in, size_t stride, const float *weights, uint32_t n)
{
    size_t i = 0;

    for (; i + BLOCK <= stride; i += BLOCK)
        blend_block(out + i, in + i, stride, weights, n);
    for (; i < stride; i++) {
        const uint8_t *p = in + i;

        out[i] = 0;
        for (uint32_t k = 0; k < n; k++, p += stride)
            out[i] += weights[k] * (float)*p;
    }
}

/* Colours are multiplied with their alpha on the way. */
static void blend_pixels(float *out, const uint8_t *in, size_t stride, const float *weights, uint32_t n)
{
    for (size_t i = 0; i < stride; i += 4) {
        const uint8_t *p = in + i;
        v4 sum = {0, 0, 0, 0};

        for (uint32_t k = 0; k < n; k++, p += stride) {
            float weight = weights[k] * (float)p[3] / 255;

            sum += (v4){(float)p[0], (float)p[1], (float)p[2], 255} * weight;
        }
        *(v4_unaligned *)(out + i) = sum;
    }
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
    const struct picture *from = resampling->from;
    const struct axis *rows = &resampling->rows;
    size_t stride = picture_stride(from);
    _cleanup_(freep) float *row = calloc(stride + 4, sizeof(*row));

    if (!row)
        return -ENOMEM;
    for (uint64_t y = begin; y < end; y++) {
        if (wsd_job_cancelled(resampling->job))
            return -ECANCELED;
        (from->channels == 4 ? blend_pixels : blend_samples)(row, picture_row(from, rows->first[y]), stride,
                                                             rows->weights + y * rows->taps, rows->count[y]);
        squeeze(&resampling->columns, row, from->channels, picture_row(resampling->to, (uint32_t)y));
    }
    return 0;
}

int resample(struct wsd_worker *self, struct wsd_job *job, const struct picture *picture, const struct frame *frame,
             struct picture *ret)
{
    struct resampling resampling = {.job = job, .from = picture, .to = ret};
    double divisor = picture->divisor;
    int r = picture_init(ret, frame->width, frame->height, picture->channels);

    if (!r)
        r = axis_init(&resampling.columns, picture->width, picture->full_width / divisor, frame->whole_width,
                      frame->width);
    if (!r)
        r = axis_init(&resampling.rows, picture->height, picture->full_height / divisor, frame->whole_height,
                      frame->height);
    if (!r)
        r = wsd_for_each(self, NULL, 0, frame->height, 0, resample_rows, &resampling);
    axis_deinit(&resampling.columns);
    axis_deinit(&resampling.rows);
    ret->orientation = picture->orientation;
    ret->lossless = picture->lossless;
    return r;
}
