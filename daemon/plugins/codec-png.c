/* SPDX-License-Identifier: Apache-2.0
 *
 * codec-png.c: PNG by libpng: every colour type, interlaced or not; 16 bits become 8.
 * Owns the library's objects while a call runs. The library reports errors by longjmp(), from its own frames to the
 * function that has called it; no task is spawned between.
 * Keeps: a damaged picture is an error. Does not read text, profiles or gamma. */
#include "codec.h"

#include <errno.h>
#include <png.h>
#include <string.h>

#include "base/cleanup.h"

#define SIGNATURE "\x89PNG\r\n\x1a\n"
#define LOOK      64u /* rows, between two looks at the cancel flag */

/* What the library's callbacks need. */
struct call {
    struct coding *coding;
    png_structp png;
    png_infop info;
    int error;
    /* of decoding */
    const uint8_t *data;
    size_t size;
    struct picture *to;
    /* of encoding */
    const struct picture *from;
    struct output *output;
};

_Noreturn static void give_up(png_structp png, int error)
{
    struct call *call = png_get_error_ptr(png);

    call->error = error;
    png_longjmp(png, 1);
}

_Noreturn static void on_error(png_structp png, png_const_charp text)
{
    struct call *call = png_get_error_ptr(png);

    if (strstr(text, "emory"))
        give_up(png, -ENOMEM);
    give_up(png, coding_fail(call->coding, "damaged PNG (%.100s); take an intact copy", text));
}

static void on_warning(png_structp png, png_const_charp text)
{
}

/* Does what may leave by the jump. */
static int guard(struct call *call, int (*work)(struct call *call))
{
    if (setjmp(png_jmpbuf(call->png)))
        return call->error;
    return work(call);
}

static void look(const struct call *call, uint32_t row)
{
    if (row % LOOK == 0 && wsd_job_cancelled(call->coding->job))
        give_up(call->png, -ECANCELED);
}

/* ---- decoding ---- */

static bool recognises(const uint8_t *data, size_t size)
{
    return size >= sizeof(SIGNATURE) - 1 && memcmp(data, SIGNATURE, sizeof(SIGNATURE) - 1) == 0;
}

static void take(png_structp png, png_bytep data, size_t size)
{
    struct call *call = png_get_io_ptr(png);

    if (size > call->size)
        png_error(png, "it is cut short");
    if (wsd_job_cancelled(call->coding->job)) /* there may be much beside the pixels */
        give_up(png, -ECANCELED);
    memcpy(data, call->data, size);
    call->data += size;
    call->size -= size;
}

/* Sets up the way from each colour type to 1, 3 or 4 channels of 8 bits. */
static void want_samples(png_structp png, png_infop info)
{
    int type = png_get_color_type(png, info);
    bool alpha = type & PNG_COLOR_MASK_ALPHA || png_get_valid(png, info, PNG_INFO_tRNS);

    png_set_scale_16(png);
    png_set_expand(png); /* palettes, less than 8 bits, the transparent colour */
    if (alpha && !(type & PNG_COLOR_MASK_COLOR))
        png_set_gray_to_rgb(png);
}

static void read_rows(const struct call *call, int passes)
{
    const struct picture *to = call->to;

    for (int pass = 0; pass < passes; pass++) {
        for (uint32_t y = 0; y < to->height; y++) {
            look(call, y);
            png_read_row(call->png, picture_row(to, y), NULL);
        }
    }
    png_read_end(call->png, NULL);
}

/* May leave by the jump, with call->error. */
static int decode_it(struct call *call)
{
    png_structp png = call->png;
    png_infop info = call->info;
    int r, passes;

    png_set_read_fn(png, call, take);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);         /* coding_make_room() has the words for it */
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* nothing is unpacked but what pixels need */
    png_read_info(png, info);
    r = coding_check_size(call->coding, png_get_image_width(png, info), png_get_image_height(png, info));
    if (r)
        return r;
    want_samples(png, info);
    passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    r = coding_make_room(call->coding, call->to, png_get_image_width(png, info), png_get_image_height(png, info),
                         png_get_channels(png, info));
    if (r)
        return r;
    call->to->lossless = true;
    if (png_get_rowbytes(png, info) != picture_stride(call->to))
        png_error(png, "rows of an unknown size");
    read_rows(call, passes);
    return 0;
}

static int decode(struct coding *coding, const uint8_t *data, size_t size, const struct box *box, struct picture *ret)
{
    struct call call = {.coding = coding, .data = data, .size = size, .to = ret};
    int r = -ENOMEM;

    *ret = (struct picture){.pixels = NULL};
    call.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &call, on_error, on_warning);
    call.info = call.png ? png_create_info_struct(call.png) : NULL;
    if (call.info)
        r = guard(&call, decode_it);
    png_destroy_read_struct(&call.png, &call.info, NULL);
    return r;
}

/* ---- encoding ---- */

static void put(png_structp png, png_bytep data, size_t size)
{
    struct call *call = png_get_io_ptr(png);

    output_write(call->output, data, size);
    if (call->output->error)
        give_up(png, call->output->error);
}

static void put_nothing(png_structp png)
{
}

/* May leave by the jump, with call->error. */
static int encode_it(struct call *call)
{
    static const int types[] = {[1] = PNG_COLOR_TYPE_GRAY, [3] = PNG_COLOR_TYPE_RGB, [4] = PNG_COLOR_TYPE_RGB_ALPHA};
    const struct picture *from = call->from;

    png_set_write_fn(call->png, call, put, put_nothing);
    png_set_user_limits(call->png, PICTURE_SIDE_MAX, PICTURE_SIDE_MAX);
    png_set_IHDR(call->png, call->info, from->width, from->height, 8, types[from->channels], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(call->png, call->info);
    for (uint32_t y = 0; y < from->height; y++) {
        look(call, y);
        png_write_row(call->png, picture_row(from, y));
    }
    png_write_end(call->png, NULL);
    return 0;
}

static int encode(struct coding *coding, const struct picture *picture, unsigned quality, struct output *output)
{
    struct call call = {.coding = coding, .from = picture, .output = output};
    int r = -ENOMEM;

    call.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &call, on_error, on_warning);
    call.info = call.png ? png_create_info_struct(call.png) : NULL;
    if (call.info)
        r = guard(&call, encode_it);
    png_destroy_write_struct(&call.png, &call.info);
    return r;
}

const struct codec codec_png = {.name = "png",
                                .side_max = PICTURE_SIDE_MAX,
                                .alpha = true,
                                .recognises = recognises,
                                .decode = decode,
                                .encode = encode};
