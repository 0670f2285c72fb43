/* SPDX-License-Identifier: Apache-2.0
 *
 * unique.c: `text:unique`, equal to LC_ALL=C uniq.
 * Owns, while its job runs, the blocks on their way and one line. A block's task writes what its lines give into the
 * block, but for its first and its last group of equal lines. Those may go on in the blocks beside it. They are joined
 * when the block is written.
 * Keeps: blocks are written in order, and memory is bounded whatever the size of the input. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "plugins/blocks.h"
#include "plugins/common.h"
#include "plugins/text.h"
#include "wsd/forms.h"

/* Equal lines, one behind the other. */
struct group {
    const char *line;
    size_t size; /* without the newline */
    uint64_t n;
};

struct part {
    struct block block;
    struct group first, last;
    bool several;       /* first and last are two groups */
    struct buffer text; /* what the groups between them give */
};

struct run {
    struct wsd_job *job;
    bool count, no_single, no_repeated; /* -c, -d, -u */
    struct block_reader reader;
    struct cache parts;
    struct group open; /* n 0: none. The last group so far, which may go on */
    struct buffer open_line;
    struct buffer text; /* what the group that is done gives */
    uint64_t bytes_done;
};

static void *part_new(void *context)
{
    return calloc(1, sizeof(struct part));
}

static void part_free(void *object)
{
    struct part *part = object;

    block_deinit(&part->block);
    buffer_deinit(&part->text);
    free(part);
}

/* ---- groups ---- */

static bool group_has(const struct group *group, const char *line, size_t size)
{
    return group->n && group->size == size && memcmp(group->line, line, size) == 0;
}

/* Appends what a group that is over gives. */
static int group_put(const struct run *run, const struct group *group, struct buffer *text)
{
    if (!group->n || (run->no_single && group->n == 1) || (run->no_repeated && group->n > 1))
        return 0;
    return text_put_line(text, run->count ? group->n : 0, group->line, group->size);
}

/* ---- stages ---- */

static int read_part(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct run *run = arg;
    struct part *part = cache_take(&run->parts);
    int r = part ? block_read(&run->reader, &part->block) : -ENOMEM;

    if (part && (r || !part->block.size)) {
        cache_give(&run->parts, part);
        return r;
    }
    *item = part;
    return r;
}

static int find_groups(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    const struct run *run = arg;
    struct part *part = *item;
    const char *at = part->block.data, *end = at + part->block.size;
    struct group last = {.n = 0};
    int r = 0;

    part->several = false;
    part->text.size = 0;
    while (at < end && !r) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((newline ? newline : end) - at);

        if (group_has(&last, at, size)) {
            last.n++;
        } else {
            if (part->several)
                r = group_put(run, &last, &part->text);
            else
                part->first = last;
            part->several = last.n;
            last = (struct group){.line = at, .size = size, .n = 1};
        }
        at += size + 1;
    }
    part->last = last;
    return r;
}

/* Makes a copy of the group, since its block will be read into again. */
static int open_group(struct run *run, const struct group *group)
{
    char *line = buffer_room(&run->open_line, group->size + 1); /* never NULL for an empty line */

    if (!line)
        return -ENOMEM;
    memcpy(line, group->line, group->size);
    run->open = (struct group){.line = line, .size = group->size, .n = group->n};
    return 0;
}

/* Writes the open group, which is over. */
static int close_group(struct run *run)
{
    int r;

    run->text.size = 0;
    r = group_put(run, &run->open, &run->text);
    run->open.n = 0;
    return r ? r : wsd_job_write(run->job, run->text.data, run->text.size);
}

/* One more group behind the open one, which it may continue. */
static int add_group(struct run *run, const struct group *group)
{
    int r;

    if (group_has(&run->open, group->line, group->size)) {
        run->open.n += group->n;
        return 0;
    }
    r = close_group(run);
    return r ? r : open_group(run, group);
}

static int write_part(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct run *run = arg;
    struct part *part = *item;
    int r = add_group(run, part->several ? &part->first : &part->last);

    if (!r && part->several) {
        r = close_group(run);
        if (!r)
            r = wsd_job_write(run->job, part->text.data, part->text.size);
        if (!r)
            r = open_group(run, &part->last);
    }
    run->bytes_done += part->block.size;
    wsd_job_progress(run->job, run->bytes_done, run->job->input_size);
    if (!r)
        cache_give(&run->parts, part);
    return r;
}

static void drop_part(void *item, uint32_t stage, void *arg)
{
    part_free(item);
}

/* ---- arguments ---- */

static int take_arguments(struct run *run, const char **ret_name)
{
    static const char usage[] = "usage: text:unique [-cdu] [FILE]";
    struct wsd_job *job = run->job;
    bool operands = false, named = false;

    for (uint32_t i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i];

        if (!operands && strcmp(arg, "--") == 0) {
            operands = true;
        } else if (!operands && arg[0] == '-' && arg[1]) {
            if (strspn(arg + 1, "cdu") != strlen(arg + 1))
                return wsd_job_fail(job, 1, "unrecognized option '%s'; %s", arg, usage);
            run->count |= strchr(arg, 'c') != NULL;
            run->no_single |= strchr(arg, 'd') != NULL;
            run->no_repeated |= strchr(arg, 'u') != NULL;
        } else if (named) {
            return wsd_job_fail(job, 1, "more than one file; %s", usage);
        } else {
            named = true;
            *ret_name = strcmp(arg, "-") == 0 ? NULL : arg;
        }
    }
    return 0;
}

static int fail(struct wsd_job *job, const char *name, int error)
{
    _cleanup_(freep) char *quoted = name ? name_quote(name) : NULL;

    if (error == -ECANCELED)
        return 1;
    return wsd_job_fail(job, 1, "%s%s: %s", error == -EISDIR ? "error reading " : "",
                        quoted ? quoted
                        : name ? name
                               : "input",
                        error_text(error));
}

int text_unique(struct wsd_job *job, struct wsd_worker *self)
{
    struct run run = {.job = job, .reader = {.source = {.fd = -1}}};
    const struct wsd_stage stages[] = {
        {.run = read_part, .arg = &run, .kind = WSD_STAGE_ORDERED},
        {.run = find_groups, .arg = &run},
        {.run = write_part, .arg = &run, .kind = WSD_STAGE_ORDERED},
    };
    const char *name = NULL;
    int r = take_arguments(&run, &name);

    if (r)
        return r;
    cache_init(&run.parts, part_new, part_free, NULL);
    r = source_open(&run.reader.source, job, name);
    if (!r)
        r = wsd_pipeline(self, NULL, stages, ARRAY_SIZE(stages), 0, drop_part, NULL);
    if (!r)
        r = close_group(&run);
    block_reader_deinit(&run.reader);
    cache_deinit(&run.parts);
    buffer_deinit(&run.open_line);
    buffer_deinit(&run.text);
    return r ? fail(job, name, r) : 0;
}
