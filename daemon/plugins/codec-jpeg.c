/* SPDX-License-Identifier: Apache-2.0
 *
 * codec-jpeg.c: JPEG by libjpeg-turbo: grey and colour, baseline and progressive.
 * Owns the library's object while a call runs. The library reports errors by longjmp(), from its own frames to the
 * function that has called it; no task is spawned between.
 * Keeps: where the library notices that pixels are lost, that is an error, never a picture with grey in it. Does not
 * know CMYK. */
#include "codec.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h before it */

#include <jerror.h> /* needs jpeglib.h before it */

#include "base/cleanup.h"
#include "plugins/exif.h"

/* Coefficients of a progressive picture are kept until its last scan, and while one is encoded. */
#define MEMORY_MAX (512L << 20)
/* Each scan of a progressive picture costs time for all its pixels, and may be a few bytes. */
#define SCANS_MAX      100
#define QUALITY        85
#define QUALITY_CHROMA 90 /* from here on colours have all pixels */
#define PIECE          (16u * 1024)

/* The library's callbacks, and what they need. */
struct errors {
    struct jpeg_error_mgr manager; /* first: the library keeps a pointer to it */
    struct coding *coding;
    int error;
    jmp_buf jump;
};

_Noreturn static void give_up(j_common_ptr common, int error)
{
    struct errors *errors = (struct errors *)(void *)common->err;

    errors->error = error;
    longjmp(errors->jump, 1);
}

static bool is_of_another_kind(int code)
{
    return code == JERR_SOF_UNSUPPORTED || code == JERR_BAD_PRECISION || code == JERR_CONVERSION_NOTIMPL ||
           code == JERR_ARITH_NOTIMPL;
}

/* Replaces error_exit() of the library. */
_Noreturn static void on_error(j_common_ptr common)
{
    struct errors *errors = (struct errors *)(void *)common->err;
    char text[JMSG_LENGTH_MAX];

    if (common->err->msg_code == JERR_OUT_OF_MEMORY)
        give_up(common, -ENOMEM);
    if (common->err->msg_code == JERR_NO_BACKING_STORE)
        give_up(common,
                coding_fail(errors->coding, "decoding takes more than %ld MiB; save it as a baseline JPEG first",
                            MEMORY_MAX >> 20));
    common->err->format_message(common, text);
    if (is_of_another_kind(common->err->msg_code))
        give_up(common,
                coding_fail(errors->coding,
                            "a JPEG of a kind that is not taken (%.100s); save it as a baseline one of 8 bits first",
                            text));
    give_up(common, coding_fail(errors->coding, "damaged JPEG (%.100s); take an intact copy", text));
}

/* Replaces emit_message(): of the warnings those count that mean lost pixels. */
static void on_message(j_common_ptr common, int level)
{
    switch (level < 0 ? common->err->msg_code : 0) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
        on_error(common);
    default:
        break;
    }
}

static struct jpeg_error_mgr *errors_init(struct errors *errors, struct coding *coding)
{
    *errors = (struct errors){.coding = coding};
    jpeg_std_error(&errors->manager);
    errors->manager.error_exit = on_error;
    errors->manager.emit_message = on_message;
    return &errors->manager;
}

/* ---- decoding ---- */

struct decoder {
    struct jpeg_decompress_struct library;
    struct jpeg_progress_mgr progress;
    struct errors errors;
    const uint8_t *data;
    size_t size;
    const struct box *box;
};

static bool recognises(const uint8_t *data, size_t size)
{
    return size >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0;
}

/* Called by the library for each row of blocks, of each scan. */
static void on_progress(j_common_ptr common)
{
    struct errors *errors = (struct errors *)(void *)common->err;

    if (wsd_job_cancelled(errors->coding->job))
        give_up(common, -ECANCELED);
    if (common->is_decompressor && ((j_decompress_ptr)(void *)common)->input_scan_number > SCANS_MAX)
        give_up(common, coding_fail(errors->coding, "more than %d scans; save it as a baseline JPEG first", SCANS_MAX));
}

static int check_header(struct decoder *decoder)
{
    struct jpeg_decompress_struct *library = &decoder->library;

    if (library->jpeg_color_space == JCS_CMYK || library->jpeg_color_space == JCS_YCCK)
        return coding_fail(decoder->errors.coding,
                           "a CMYK JPEG, made for print; convert it to sRGB first, with its colour profile");
    return coding_check_size(decoder->errors.coding, library->image_width, library->image_height);
}

/* The library divides while it decodes, for less than nothing. */
static void choose_scale(struct decoder *decoder, unsigned orientation)
{
    struct jpeg_decompress_struct *library = &decoder->library;

    library->scale_num = 1;
    library->scale_denom = fit_divisor(library->image_width, library->image_height, orientation, decoder->box);
}

/* Behind the header. */
static int read_pixels(struct decoder *decoder, unsigned orientation, struct picture *ret)
{
    struct jpeg_decompress_struct *library = &decoder->library;
    int r;

    jpeg_start_decompress(library);
    r = coding_make_room(decoder->errors.coding, ret, library->output_width, library->output_height,
                         (unsigned)library->output_components);
    if (r)
        return r;
    while (library->output_scanline < library->output_height) {
        JSAMPROW row = picture_row(ret, library->output_scanline);

        jpeg_read_scanlines(library, &row, 1);
    }
    ret->orientation = orientation;
    ret->full_width = library->image_width;
    ret->full_height = library->image_height;
    ret->divisor = library->scale_denom;
    jpeg_finish_decompress(library);
    return 0;
}

/* May leave by the jump, with errors.error. */
static int decode_it(struct decoder *decoder, struct picture *ret)
{
    struct jpeg_decompress_struct *library = &decoder->library;
    unsigned orientation;
    int r;

    jpeg_create_decompress(library);
    library->mem->max_memory_to_use = MEMORY_MAX;
    library->progress = &decoder->progress;
    jpeg_mem_src(library, decoder->data, decoder->size);
    jpeg_read_header(library, TRUE);
    r = check_header(decoder);
    if (r)
        return r;
    library->out_color_space = library->jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    orientation = exif_of_jpeg(decoder->data, decoder->size);
    choose_scale(decoder, orientation);
    return read_pixels(decoder, orientation, ret);
}

static int decode(struct coding *coding, const uint8_t *data, size_t size, const struct box *box, struct picture *ret)
{
    struct decoder decoder = {.progress = {.progress_monitor = on_progress}, .data = data, .size = size, .box = box};
    int r;

    *ret = (struct picture){.pixels = NULL};
    decoder.library.err = errors_init(&decoder.errors, coding);
    if (setjmp(decoder.errors.jump))
        r = decoder.errors.error;
    else
        r = decode_it(&decoder, ret);
    jpeg_destroy_decompress(&decoder.library);
    return r;
}

/* ---- encoding ---- */

struct encoder {
    struct jpeg_compress_struct library;
    struct jpeg_progress_mgr progress;
    struct jpeg_destination_mgr destination;
    struct errors errors;
    struct output *output;
    const struct picture *picture;
    unsigned quality;
    uint8_t piece[PIECE];
};

static struct encoder *encoder_of(j_compress_ptr library)
{
    return container_of(library->dest, struct encoder, destination);
}

static void begin_piece(j_compress_ptr library)
{
    library->dest->next_output_byte = encoder_of(library)->piece;
    library->dest->free_in_buffer = PIECE;
}

static void put(j_compress_ptr library, size_t size)
{
    struct encoder *encoder = encoder_of(library);

    output_write(encoder->output, encoder->piece, size);
    if (encoder->output->error)
        give_up((j_common_ptr)library, encoder->output->error);
}

/* The library means the whole piece, whatever free_in_buffer says. */
static boolean put_piece(j_compress_ptr library)
{
    put(library, PIECE);
    begin_piece(library);
    return TRUE;
}

static void put_rest(j_compress_ptr library)
{
    put(library, PIECE - library->dest->free_in_buffer);
}

/* May leave by the jump, with errors.error. */
static int encode_it(struct encoder *encoder)
{
    struct jpeg_compress_struct *library = &encoder->library;
    const struct picture *picture = encoder->picture;

    jpeg_create_compress(library);
    library->dest = &encoder->destination;
    library->progress = &encoder->progress;
    library->image_width = picture->width;
    library->image_height = picture->height;
    library->input_components = (int)picture->channels;
    library->in_color_space = picture->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(library);
    jpeg_set_quality(library, (int)encoder->quality, TRUE);
    library->optimize_coding = TRUE;
    if (encoder->quality >= QUALITY_CHROMA)
        library->comp_info[0].h_samp_factor = library->comp_info[0].v_samp_factor = 1;
    jpeg_start_compress(library, TRUE);
    while (library->next_scanline < library->image_height) {
        JSAMPROW row = picture_row(picture, library->next_scanline);

        jpeg_write_scanlines(library, &row, 1);
    }
    jpeg_finish_compress(library);
    return 0;
}

static int encode(struct coding *coding, const struct picture *picture, unsigned quality, struct output *output)
{
    struct encoder encoder = {.progress = {.progress_monitor = on_progress},
                              .destination = {.init_destination = begin_piece,
                                              .empty_output_buffer = put_piece,
                                              .term_destination = put_rest},
                              .output = output,
                              .picture = picture,
                              .quality = quality ? quality : QUALITY};
    int r;

    encoder.library.err = errors_init(&encoder.errors, coding);
    if (setjmp(encoder.errors.jump))
        r = encoder.errors.error;
    else
        r = encode_it(&encoder);
    jpeg_destroy_compress(&encoder.library);
    return r;
}

const struct codec codec_jpeg = {.name = "jpeg",
                                 .quality_default = QUALITY,
                                 .side_max = JPEG_MAX_DIMENSION,
                                 .recognises = recognises,
                                 .decode = decode,
                                 .encode = encode};
