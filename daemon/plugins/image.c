/* SPDX-License-Identifier: Apache-2.0
 *
 * image.c: the plugin `image`: pictures of other sizes and formats.
 * Owns the picture of its job. A codec decodes and encodes it on one worker; between them rows are resampled in parallel.
 * Keeps: a picture lies as its EXIF orientation says, and has no metadata. Does not know colour profiles: samples are
 * taken as sRGB. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "plugins/codec.h"
#include "plugins/common.h"
#include "plugins/fit.h"
#include "plugins/resample.h"

#define NAME_SHOWN    80u          /* bytes of a name in an error, of the 255 that an error has */
#define FILE_SIZE_MAX (512u << 20) /* bytes */
#define QUALITY_MAX   100u

struct options {
    const char *usage;
    struct box box;
    const struct codec *format; /* NULL: that of the input */
    uint32_t quality;           /* 0: the format's */
    const char *name;           /* NULL: the input */
};

struct run {
    struct wsd_job *job;
    struct options options;
    struct coding coding;
    const struct codec *from;
    uint8_t *owned; /* what was read of a file */
    const uint8_t *data;
    size_t size;
    struct picture picture;
};

/* ---- options ---- */

static int usage_error(struct wsd_job *job, const struct options *options, const char *what, const char *text)
{
    return wsd_job_fail(job, 1, "%s '%.60s'; usage: %s", what, text, options->usage);
}

static bool parse_number(const char *text, uint32_t max, uint32_t *ret)
{
    unsigned long n =
        *text && strlen(text) <= 9 && strspn(text, "0123456789") == strlen(text) ? strtoul(text, NULL, 10) : 0;

    if (n < 1 || n > max)
        return false;
    *ret = (uint32_t)n;
    return true;
}

static bool parse_fit(const char *text, enum fit *ret)
{
    static const char *const names[] = {[FIT_INSIDE] = "inside", [FIT_COVER] = "cover", [FIT_FILL] = "fill"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (strcmp(names[i], text) == 0) {
            *ret = (enum fit)i;
            return true;
        }
    }
    return false;
}

/* 0 or an exit code. */
static int set_option(struct wsd_job *job, struct options *options, const char *name, const char *value)
{
    bool fine;

    if (strcmp(name, "width") == 0)
        fine = parse_number(value, PICTURE_SIDE_MAX, &options->box.width);
    else if (strcmp(name, "height") == 0)
        fine = parse_number(value, PICTURE_SIDE_MAX, &options->box.height);
    else if (strcmp(name, "quality") == 0)
        fine = parse_number(value, QUALITY_MAX, &options->quality);
    else if (strcmp(name, "fit") == 0)
        fine = parse_fit(value, &options->box.fit);
    else
        fine = (options->format = codec_find(value)) != NULL;
    if (fine)
        return 0;
    if (strcmp(name, "format") == 0)
        return wsd_job_fail(job, 1, "--format takes jpeg, png or webp, not '%.60s'", value);
    if (strcmp(name, "fit") == 0)
        return wsd_job_fail(job, 1, "--fit takes inside, cover or fill, not '%.60s'", value);
    return wsd_job_fail(job, 1, "--%s takes a number from 1 to %u, not '%.60s'", name,
                        strcmp(name, "quality") == 0 ? QUALITY_MAX : PICTURE_SIDE_MAX, value);
}

/* Takes --NAME VALUE or --NAME=VALUE at argv[*i], of the names in `known`, which ends with NULL. 0 or an exit code. */
static int take_option(struct wsd_job *job, struct options *options, const char *const *known, uint32_t *i)
{
    const char *arg = job->argv[*i];

    for (; *known; known++) {
        size_t size = strlen(*known);

        if (strncmp(arg, "--", 2) != 0 || strncmp(arg + 2, *known, size) != 0)
            continue;
        if (arg[2 + size] == '=')
            return set_option(job, options, *known, arg + 3 + size);
        if (arg[2 + size])
            continue;
        if (++*i == job->argc)
            return usage_error(job, options, "no value behind", arg);
        return set_option(job, options, *known, job->argv[*i]);
    }
    return usage_error(job, options, "unrecognized option", arg);
}

/* Options and, in order, at most `max` operands. 0 or an exit code. */
static int take_arguments(struct wsd_job *job, struct options *options, const char *const *known, const char **operands,
                          size_t max, size_t *ret_n)
{
    bool ended = false;

    for (uint32_t i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i];
        int status = 0;

        if (!ended && strcmp(arg, "--") == 0)
            ended = true;
        else if (!ended && arg[0] == '-' && arg[1])
            status = take_option(job, options, known, &i);
        else if (*ret_n == max)
            status = usage_error(job, options, "more than is taken:", arg);
        else
            operands[(*ret_n)++] = arg;
        if (status)
            return status;
    }
    return 0;
}

static const char *file_name(const char *operand)
{
    return operand && strcmp(operand, "-") != 0 ? operand : NULL;
}

/* ---- reading ---- */

/* Says what is wrong with the picture. Returns the exit code. */
static int fail(struct run *run, int error)
{
    _cleanup_(freep) char *quoted = run->options.name ? name_quote(run->options.name) : NULL;
    const char *name = quoted ? quoted : run->options.name ? run->options.name : "input";
    size_t size = strlen(name);

    if (error == -ECANCELED)
        return 1;
    /* the end of a long name says more than its beginning, and the words have to have room */
    return wsd_job_fail(run->job, 1, "%s%s: %s", size > NAME_SHOWN ? "..." : "",
                        size > NAME_SHOWN ? name + size - NAME_SHOWN : name,
                        error == -EBADMSG ? run->coding.error : error_text(error));
}

static int too_large(struct run *run)
{
    return coding_fail(&run->coding, "more than %u MiB; save it smaller, or with more compression, first",
                       FILE_SIZE_MAX >> 20);
}

/* Reads to the end of a file, one byte more than it says it has. */
static int read_whole(struct run *run, struct source *source)
{
    struct stat st;
    size_t room;
    int64_t n;

    if (source->fd >= 0 && fstat(source->fd, &st) < 0)
        return -errno;
    if (source->fd >= 0 && (uint64_t)st.st_size > FILE_SIZE_MAX)
        return too_large(run);
    room = source->fd >= 0 ? (size_t)st.st_size + 1 : 1;
    run->data = run->owned = malloc(room);
    if (!run->owned)
        return -ENOMEM;
    prefer_large_pages(run->owned, room);
    n = source_read(source, run->owned, room);
    if (n == (int64_t)room)
        return st.st_size ? coding_fail(&run->coding, "it grows while it is read; try again when it is whole")
                          : coding_fail(&run->coding, "it does not say its size; give it as the input");
    run->size = n < 0 ? 0 : (size_t)n;
    return n < 0 ? (int)n : 0;
}

static int read_bytes(struct run *run)
{
    _cleanup_(source_closep) struct source source;
    int r = source_open(&source, run->job, run->options.name);

    if (r)
        return r;
    if (source.fd >= 0 || !source.data)
        return read_whole(run, &source);
    run->data = source.data;
    run->size = source.size;
    return source.size > FILE_SIZE_MAX ? too_large(run) : 0;
}

static int read_picture(struct run *run)
{
    int r = read_bytes(run);

    if (r)
        return r;
    run->from = codec_recognise(run->data, run->size);
    if (!run->from)
        return coding_fail(&run->coding, "%s; JPEG, PNG and WebP are taken",
                           run->size ? "a file of another kind" : "it is empty");
    return run->from->decode(&run->coding, run->data, run->size, &run->options.box, &run->picture);
}

/* ---- making ---- */

/* Puts the picture that the box wants in place of the job's. */
static int resize_picture(struct run *run, struct wsd_worker *self)
{
    struct picture *picture = &run->picture;
    struct frame frame = fit_into(picture->full_width, picture->full_height, picture->orientation, &run->options.box);

    if (!picture_fits(frame.width, frame.height))
        return coding_fail(&run->coding, "it would become %u x %u pixels; at most %u a side and %u altogether are made",
                           frame.width, frame.height, PICTURE_SIDE_MAX, PICTURE_PIXELS_MAX);
    if (frame.whole_width == picture->width && frame.whole_height == picture->height && frame.width == picture->width &&
        frame.height == picture->height)
        return 0;
    return resample(self, run->job, picture, &frame);
}

static int write_picture(struct run *run, struct wsd_worker *self)
{
    const struct codec *to = run->options.format ? run->options.format : run->from;
    struct output output = {.job = run->job};
    int r = picture_turn(self, run->job, &run->picture), end;

    if (r)
        return r;
    if (run->options.quality && !to->quality_default)
        return coding_fail(&run->coding, "%s loses nothing: leave out --quality, or choose another --format", to->name);
    if (run->picture.width > to->side_max || run->picture.height > to->side_max)
        return coding_fail(&run->coding, "%s has at most %u pixels a side; make it smaller, or choose --format png",
                           to->name, to->side_max);
    if (!to->alpha)
        picture_flatten(&run->picture);
    r = to->encode(&run->coding, &run->picture, run->options.quality, &output);
    end = output_end(&output);
    return r ? r : end;
}

/* Reads, resizes and writes. Returns the exit code. */
static int make(struct run *run, struct wsd_worker *self)
{
    int r = read_picture(run);

    if (!r)
        r = resize_picture(run, self);
    if (!r)
        r = write_picture(run, self);
    picture_deinit(&run->picture);
    free(run->owned);
    return r ? fail(run, r) : 0;
}

/* ---- functions ---- */

static int resize(struct wsd_job *job, struct wsd_worker *self)
{
    static const char *const known[] = {"width", "height", "fit", "format", "quality", NULL};
    struct run run = {
        .job = job,
        .coding = {.job = job},
        .options = {.usage =
                        "resize [--width W] [--height H] [--fit inside|cover|fill] [--format F] [--quality Q] [FILE]"}};
    const char *operands[1] = {NULL};
    size_t n = 0;
    int status = take_arguments(job, &run.options, known, operands, 1, &n);

    if (status)
        return status;
    if (!run.options.box.width && !run.options.box.height)
        return wsd_job_fail(job, 1, "no size: give --width, --height or both; usage: %s", run.options.usage);
    run.options.name = file_name(operands[0]);
    return make(&run, self);
}

static int convert(struct wsd_job *job, struct wsd_worker *self)
{
    static const char *const known[] = {"format", "quality", NULL};
    struct run run = {.job = job,
                      .coding = {.job = job},
                      .options = {.usage = "convert --format jpeg|png|webp [--quality Q] [FILE]"}};
    const char *operands[1] = {NULL};
    size_t n = 0;
    int status = take_arguments(job, &run.options, known, operands, 1, &n);

    if (status)
        return status;
    if (!run.options.format)
        return wsd_job_fail(job, 1, "no format: give --format; usage: %s", run.options.usage);
    run.options.name = file_name(operands[0]);
    return make(&run, self);
}

static int thumbnail(struct wsd_job *job, struct wsd_worker *self)
{
    static const char *const known[] = {"format", "quality", NULL};
    struct run run = {
        .job = job,
        .coding = {.job = job},
        .options = {.usage = "thumbnail SIZE [--format jpeg|png|webp] [--quality Q] [FILE]", .box = {.shrink = true}}};
    const char *operands[2] = {NULL, NULL};
    size_t n = 0;
    int status = take_arguments(job, &run.options, known, operands, 2, &n);

    if (status)
        return status;
    if (!n || !parse_number(operands[0], PICTURE_SIDE_MAX, &run.options.box.width))
        return wsd_job_fail(job, 1, "SIZE is a number from 1 to %u; usage: %s", PICTURE_SIDE_MAX, run.options.usage);
    run.options.box.height = run.options.box.width;
    run.options.name = file_name(operands[1]);
    return make(&run, self);
}

static const struct wsd_function functions[] = {
    {.name = "resize",
     .help =
         "[--width W] [--height H] [--fit inside|cover|fill] [--format jpeg|png|webp] [--quality 1..100] [FILE]: the "
         "picture in another size",
     .flags = WSD_FN_IDEMPOTENT,
     .run = resize},
    {.name = "convert",
     .help = "--format jpeg|png|webp [--quality 1..100] [FILE]: the picture in another format",
     .flags = WSD_FN_IDEMPOTENT,
     .run = convert},
    {.name = "thumbnail",
     .help = "SIZE [--format jpeg|png|webp] [--quality 1..100] [FILE]: the picture in a square of SIZE, fast",
     .flags = WSD_FN_IDEMPOTENT,
     .run = thumbnail},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "image", .version = "0.1.0",
           .help = "JPEG, PNG and WebP pictures of other sizes and formats");
