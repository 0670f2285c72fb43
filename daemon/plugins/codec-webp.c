/* SPDX-License-Identifier: Apache-2.0
 *
 * codec-webp.c: WebP by libwebp: stills, lossy and lossless, with and without alpha.
 * Owns the library's objects while a call runs; its threads are never turned on.
 * Keeps: lossless pictures keep each pixel, also the colour of those that are not seen. Does not know animations. */
#include "codec.h"

#include <errno.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/encode.h>

#include "base/cleanup.h"

#define QUALITY         80
#define LOSSLESS_LEVEL  6            /* of 0 to 9: cwebp -z 6, which is its default, too */
#define PIECE           (64u * 1024) /* decoded before the first look at the cancel flag */
#define FORMAT_LOSSLESS 2            /* of WebPBitstreamFeatures.format */

/* ---- decoding ---- */

static bool recognises(const uint8_t *data, size_t size)
{
    return size >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0;
}

static int status_error(struct coding *coding, VP8StatusCode status)
{
    switch (status) {
    case VP8_STATUS_OK:
        return 0;
    case VP8_STATUS_OUT_OF_MEMORY:
        return -ENOMEM;
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
        return coding_fail(coding, "damaged WebP (it is cut short); take an intact copy");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return coding_fail(coding, "a WebP of a kind that libwebp does not know; save it as PNG first");
    default:
        return coding_fail(coding, "damaged WebP (its bits make no sense); take an intact copy");
    }
}

static int read_header(struct coding *coding, const uint8_t *data, size_t size, WebPBitstreamFeatures *ret)
{
    int r = status_error(coding, WebPGetFeatures(data, size, ret));

    if (r)
        return r;
    if (ret->has_animation)
        return coding_fail(coding, "an animated WebP; take one picture out of it first, with webpmux -get frame 1");
    return coding_check_size(coding, (uint32_t)ret->width, (uint32_t)ret->height);
}

/* Piece by piece, so that a job that is cancelled ends. Each is as large as all before it: the library may begin anew with
 * each, as long as it has not the whole header. */
static int feed(struct coding *coding, WebPIDecoder *decoder, const uint8_t *data, size_t size)
{
    VP8StatusCode status = VP8_STATUS_SUSPENDED;

    for (size_t known = 0; status == VP8_STATUS_SUSPENDED && known < size;) {
        if (wsd_job_cancelled(coding->job))
            return -ECANCELED;
        known = MIN(size, MAX(PIECE, 2 * known));
        status = WebPIUpdate(decoder, data, known);
    }
    return status_error(coding, status);
}

static int decode(struct coding *coding, const uint8_t *data, size_t size, const struct box *box, struct picture *ret)
{
    WebPDecoderConfig config;
    WebPIDecoder *decoder;
    int r;

    *ret = (struct picture){.pixels = NULL};
    WebPInitDecoderConfig(&config);
    r = read_header(coding, data, size, &config.input);
    if (r)
        return r;
    r = coding_make_room(coding, ret, (uint32_t)config.input.width, (uint32_t)config.input.height,
                         config.input.has_alpha ? 4 : 3);
    if (r)
        return r;
    ret->lossless = config.input.format == FORMAT_LOSSLESS;
    config.output.colorspace = ret->channels == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = (WebPRGBABuffer){
        .rgba = ret->pixels, .stride = (int)picture_stride(ret), .size = picture_stride(ret) * ret->height};
    decoder = WebPINewDecoder(&config.output);
    if (!decoder)
        return -ENOMEM;
    r = feed(coding, decoder, data, size);
    WebPIDelete(decoder);
    return r;
}

/* ---- encoding ---- */

struct encoder {
    struct coding *coding;
    struct output *output;
};

static int put(const uint8_t *data, size_t size, const WebPPicture *library)
{
    struct encoder *encoder = library->custom_ptr;

    output_write(encoder->output, data, size);
    return !encoder->output->error;
}

static int go_on(int percent, const WebPPicture *library)
{
    const struct encoder *encoder = library->user_data;

    return !wsd_job_cancelled(encoder->coding->job);
}

/* Grey has to be spread: the library knows colours only. */
static int import_grey(WebPPicture *library, const struct picture *picture)
{
    struct picture colours;
    int r = picture_init(&colours, picture->width, picture->height, 3);
    size_t n = (size_t)picture->width * picture->height;

    if (!r) {
        for (size_t i = 0; i < n; i++)
            memset(colours.pixels + 3 * i, picture->pixels[i], 3);
        r = WebPPictureImportRGB(library, colours.pixels, (int)picture_stride(&colours)) ? 0 : -ENOMEM;
    }
    picture_deinit(&colours);
    return r;
}

static int import(WebPPicture *library, const struct picture *picture)
{
    int stride = (int)picture_stride(picture);

    if (picture->channels == 1)
        return import_grey(library, picture);
    if (picture->channels == 3)
        return WebPPictureImportRGB(library, picture->pixels, stride) ? 0 : -ENOMEM;
    return WebPPictureImportRGBA(library, picture->pixels, stride) ? 0 : -ENOMEM;
}

static int encode_error(struct encoder *encoder, const WebPPicture *library)
{
    switch (library->error_code) {
    case VP8_ENC_ERROR_OUT_OF_MEMORY:
    case VP8_ENC_ERROR_BITSTREAM_OUT_OF_MEMORY:
        return -ENOMEM;
    case VP8_ENC_ERROR_BAD_WRITE:
        return encoder->output->error;
    case VP8_ENC_ERROR_USER_ABORT:
        return -ECANCELED;
    default:
        return coding_fail(encoder->coding, "libwebp cannot encode it (error %d); choose --format png",
                           (int)library->error_code);
    }
}

/* What loses nothing stays so, unless a quality is asked for. */
static bool configure(WebPConfig *config, const struct picture *picture, unsigned quality)
{
    if (!WebPConfigInit(config))
        return false;
    if (picture->lossless && !quality) {
        config->exact = 1;
        return WebPConfigLosslessPreset(config, LOSSLESS_LEVEL);
    }
    config->quality = (float)(quality ? quality : QUALITY);
    return true;
}

static int encode(struct coding *coding, const struct picture *picture, unsigned quality, struct output *output)
{
    struct encoder encoder = {.coding = coding, .output = output};
    WebPConfig config;
    WebPPicture library;
    int r;

    if (!configure(&config, picture, quality) || !WebPPictureInit(&library))
        return coding_fail(coding, "libwebp is of another version than wsd was built for; install that one");
    library.use_argb = config.lossless;
    library.width = (int)picture->width;
    library.height = (int)picture->height;
    library.writer = put;
    library.custom_ptr = &encoder;
    library.progress_hook = go_on;
    library.user_data = &encoder;
    r = import(&library, picture);
    if (!r && !WebPEncode(&config, &library))
        r = encode_error(&encoder, &library);
    WebPPictureFree(&library);
    return r;
}

const struct codec codec_webp = {.name = "webp",
                                 .quality_default = QUALITY,
                                 .side_max = WEBP_MAX_DIMENSION,
                                 .alpha = true,
                                 .recognises = recognises,
                                 .decode = decode,
                                 .encode = encode};
