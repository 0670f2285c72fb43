/* SPDX-License-Identifier: Apache-2.0
 *
 * archive.c: the plugin `archive`: files and folders as a tar archive in zstd frames, for `tar --zstd`.
 * Owns the blocks on their way while its job runs, and the large files that several of them are parts of.
 * The first stage walks through the folders, makes the headers and decides what each block has. The second reads the
 * files of a block and compresses it, in parallel. The third writes frames and says what went wrong.
 * Keeps: what is written depends on the files alone, not on the number of workers. So does the order of messages about
 * files; that a leading slash is taken off may be said earlier. Memory is bounded, whatever the size of files. A file
 * has the size that its header says: what it lacks is zeros.
 * Does not extract. */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "plugins/frames.h"
#include "plugins/members.h"
#include "plugins/owners.h"
#include "plugins/tar.h"
#include "wsd/forms.h"

#define STATUS_CHANGED 1 /* some files changed, or had gone, while they were read: those of tar */
#define STATUS_FAILED  2 /* some files are not in the archive */

#define READ_MAX   (1024u * 1024) /* between two looks at the cancel flag */
#define NAME_SAID  150u           /* bytes of a name in a message, the last ones */
#define LARGE_PART 4u             /* a file that is larger than such a part of a block is cut where the block ends */

/* How reading went. Zeros are in place of what is missing. */
struct outcome {
    uint64_t missing; /* bytes */
    int error;        /* why, where it was not the end of the file */
};

/* A file that is cut, and is opened where blocks are planned. */
struct large {
    int fd;
    atomic_uint holders;    /* pieces, and the planning while it goes on; relaxed to add, acq_rel to let go */
    struct outcome outcome; /* of the pieces that were written [ordered stage] */
};

/* What a block has of a member: a header, data, or a problem alone. */
struct piece {
    struct member member;
    struct large *large;        /* NULL: the file is opened where it is read */
    size_t header, header_size; /* in the block's headers */
    uint64_t offset;            /* of a large file's data */
    size_t size;                /* of the data here */
    bool reads, last;           /* it has data to be read; the file ends here */
    struct outcome outcome;
    bool changed;
};

struct block {
    struct buffer headers;
    struct piece *pieces;
    size_t n, allocated;
    size_t planned; /* bytes, unless a file cannot be opened */
    char *data;     /* as large as a frame may be */
    size_t size;
    void *frame;
    size_t frame_size;
};

struct run {
    struct wsd_job *job;
    struct members members;
    struct owners owners;
    struct frames frames;
    struct cache blocks;
    /* [planning] */
    struct member next; /* path NULL: none was taken yet */
    bool ended;
    struct large *large; /* the file that is being cut, and is `next` */
    uint64_t offset;     /* where its next piece begins */
    size_t stripped;     /* length of the last prefix that was said to be removed */
    /* [ordered stage] */
    uint64_t written; /* bytes of the archive, not compressed */
    bool failed, changed;
};

/* ---- blocks ---- */

static void *block_new(void *context)
{
    const struct run *run = context;
    struct block *block = calloc(1, sizeof(*block));

    if (block)
        block->data = malloc(run->frames.block_size);
    if (block && !block->data) {
        free(block);
        return NULL;
    }
    return block;
}

static struct large *large_let_go(struct large *large)
{
    /* acq_rel: partner is each other holder's, so that the last one closes after all have read */
    if (large && atomic_fetch_sub_explicit(&large->holders, 1, memory_order_acq_rel) == 1) {
        close_fd(large->fd);
        free(large);
    }
    return NULL;
}

static void block_empty(struct block *block)
{
    for (size_t i = 0; i < block->n; i++) {
        large_let_go(block->pieces[i].large);
        member_deinit(&block->pieces[i].member);
    }
    block->n = block->planned = block->size = block->headers.size = 0;
}

static void block_free(void *object)
{
    struct block *block = object;

    block_empty(block);
    buffer_deinit(&block->headers);
    free(block->pieces);
    free(block->data);
    free(block->frame);
    free(block);
}

static struct piece *block_room(struct block *block)
{
    if (block->n == block->allocated) {
        size_t n = MAX(64, 2 * block->allocated);
        struct piece *grown = reallocarray(block->pieces, n, sizeof(*grown));

        if (!grown)
            return NULL;
        block->pieces = grown;
        block->allocated = n;
    }
    return &block->pieces[block->n];
}

/* ---- planning ---- */

/* Files of /proc say that they are empty; what is unreadable is said even if it is empty. As tar does it. */
static bool needs_reading(const struct member *member)
{
    const struct stat *st = &member->st;

    return S_ISREG(st->st_mode) && !member->hard && (st->st_size > 0 || (st->st_mode & 0444) != 0444);
}

static uint64_t data_size(const struct member *member)
{
    return S_ISREG(member->st.st_mode) && !member->hard ? (uint64_t)member->st.st_size : 0;
}

/* Appends the member's header to the block's. 0 or a negative errno. */
static int put_header(struct run *run, struct block *block, const struct member *member)
{
    const struct stat *st = &member->st;
    struct tar_member m = {.name = member_name(member),
                           .link = member->link,
                           .hard = member->hard,
                           .mode = st->st_mode,
                           .uid = st->st_uid,
                           .gid = st->st_gid,
                           .size = data_size(member),
                           .mtime = st->st_mtim,
                           .device = st->st_rdev};
    int r = owners_user(&run->owners, m.uid, &m.user);

    if (!r)
        r = owners_group(&run->owners, m.gid, &m.group);
    return r ? r : tar_put_header(&block->headers, &m);
}

static int open_large(struct run *run)
{
    struct large *large = calloc(1, sizeof(*large));

    if (!large)
        return -ENOMEM;
    large->fd = member_open(&run->members, run->next.path, &run->next.st);
    if (large->fd < 0) {
        run->next.problem = PROBLEM_OPEN;
        run->next.error = large->fd;
        free(large);
        return 0;
    }
    atomic_init(&large->holders, 1);
    run->large = large;
    run->offset = 0;
    return 0;
}

/* Moves the next member, without data or with all of it, into the block. */
static int plan_whole(struct run *run, struct block *block, size_t header)
{
    struct piece *piece = block_room(block);
    bool problem = run->next.problem != PROBLEM_NONE;
    size_t size = problem ? 0 : (size_t)data_size(&run->next);

    if (!piece)
        return -ENOMEM;
    *piece = (struct piece){.member = run->next,
                            .header = header,
                            .header_size = problem ? 0 : block->headers.size - header,
                            .size = size,
                            .reads = !problem && needs_reading(&run->next),
                            .last = true};
    block->n++;
    run->next = (struct member){.path = NULL};
    block->planned += MAX(piece->header_size, TAR_BLOCK) + size + tar_padding(size);
    return problem ? 0 : members_add(&run->members, &piece->member);
}

/* As much of the large file as the block has room for. */
static int plan_part(struct run *run, struct block *block, size_t header)
{
    uint64_t left = data_size(&run->next) - run->offset;
    size_t header_size = block->headers.size - header;
    size_t size = (size_t)MIN(left, run->frames.block_size - block->planned - header_size);
    struct piece *piece = block_room(block);

    if (!piece)
        return -ENOMEM;
    *piece = (struct piece){.large = run->large,
                            .header = header,
                            .header_size = header_size,
                            .offset = run->offset,
                            .size = size,
                            .reads = true,
                            .last = size == left};
    atomic_fetch_add_explicit(&run->large->holders, 1, memory_order_relaxed);
    block->n++;
    block->planned += header_size + size + (piece->last ? tar_padding(data_size(&run->next)) : 0);
    run->offset += size;
    if (!piece->last)
        return 0;
    piece->member = run->next;
    run->next = (struct member){.path = NULL};
    run->large = large_let_go(run->large);
    return members_add(&run->members, &piece->member);
}

/* Whether the next file goes on in the next block: it does not fit, and too much of this one would be left. So a block has at
 * most one file that is cut at its end, and is open until its pieces are written. Others are open while they are read. */
static bool is_cut(const struct run *run, size_t header, size_t room)
{
    uint64_t size = data_size(&run->next);

    return needs_reading(&run->next) && size > run->frames.block_size / LARGE_PART &&
           header + size + tar_padding(size) > room;
}

/* Of a file with several names the others become links, if there is one in the archive that they can lead to. */
static void try_open(struct run *run)
{
    int fd = member_open(&run->members, run->next.path, &run->next.st);

    if (fd < 0) {
        run->next.problem = PROBLEM_OPEN;
        run->next.error = fd;
    }
    close_fd(fd);
}

/* Says once what is taken off the names, as tar does. */
static void say_stripped(struct run *run)
{
    const struct member *m = &run->next;
    size_t stripped = m->name - m->said;

    if (stripped && stripped != run->stripped)
        wsd_job_log(run->job, WSD_LOG_WARNING, "%s: Removing leading '%.*s' from member names", run->job->argv[0],
                    (int)stripped, m->path + m->said);
    run->stripped = stripped;
}

/* Takes the next member, if none was taken. */
static int plan_take(struct run *run)
{
    int r = run->next.path || run->ended ? 0 : members_next(&run->members, &run->next);

    if (r || !run->next.path) {
        run->ended = true;
        return r;
    }
    say_stripped(run);
    return 0;
}

/* Opens the next member, which was found to fit as far as it has to. */
static int plan_next(struct run *run, struct block *block, size_t header, bool cut)
{
    int r = cut ? open_large(run) : 0;

    if (!cut && needs_reading(&run->next) && run->next.st.st_nlink > 1)
        try_open(run);
    if (r)
        return r;
    return run->large ? plan_part(run, block, header) : plan_whole(run, block, header);
}

/* One more piece. *ret_full: the next one is for another block. */
static int plan_piece(struct run *run, struct block *block, bool *ret_full)
{
    size_t header = block->headers.size, room = run->frames.block_size - block->planned, size;
    int r = run->large ? 0 : plan_take(run);
    bool cut;

    if (r || run->ended)
        return r;
    if (run->large)
        return plan_part(run, block, header);
    if (run->next.problem != PROBLEM_NONE)
        return plan_whole(run, block, header);
    r = put_header(run, block, &run->next);
    size = block->headers.size - header;
    cut = is_cut(run, size, room);
    size += cut ? TAR_BLOCK : (size_t)data_size(&run->next) + tar_padding(data_size(&run->next));
    *ret_full = size > room;
    if (r || *ret_full) {
        block->headers.size = header;
        return r;
    }
    return plan_next(run, block, header, cut);
}

static int plan_block(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct run *run = arg;
    struct block *block = cache_take(&run->blocks);
    bool full = false;
    int r = block ? 0 : -ENOMEM;

    while (!r && !run->ended && !full && block->planned + TAR_BLOCK <= run->frames.block_size)
        r = plan_piece(run, block, &full);
    if (!r && block->n) {
        *item = block;
    } else if (block) {
        block_empty(block);
        cache_give(&run->blocks, block);
    }
    return r;
}

/* ---- reading and compressing ---- */

static void put_zeros(struct block *block, size_t size)
{
    memset(block->data + block->size, 0, size);
    block->size += size;
}

/* Reads a piece's data into the block; zeros are in place of what cannot be read. 0 or -ECANCELED. */
static int read_data(struct run *run, struct block *block, struct piece *piece, int fd)
{
    size_t done = 0;
    int64_t n = 1;

    while (done < piece->size && n > 0) {
        if (wsd_job_cancelled(run->job))
            return -ECANCELED;
        n = pread_full(fd, block->data + block->size, MIN(piece->size - done, READ_MAX), piece->offset + done);
        if (n > 0) {
            done += (size_t)n;
            block->size += (size_t)n;
        }
    }
    piece->outcome = (struct outcome){.missing = piece->size - done, .error = (int)MIN(n, 0)};
    put_zeros(block, piece->size - done);
    return 0;
}

static bool has_changed(int fd, const struct stat *before)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (st.st_size != before->st_size || st.st_ctim.tv_sec != before->st_ctim.tv_sec ||
                                   st.st_ctim.tv_nsec != before->st_ctim.tv_nsec);
}

/* A file that cannot be opened has no header either. */
static int fill_piece(struct run *run, struct block *block, struct piece *piece)
{
    _cleanup_(close_fdp) int opened = -1;
    int r = 0;

    if (piece->reads && !piece->large) {
        opened = member_open(&run->members, piece->member.path, &piece->member.st);
        if (opened < 0) {
            piece->member.problem = piece->member.st.st_nlink > 1 ? PROBLEM_LINKED : PROBLEM_OPEN;
            piece->member.error = opened;
            return opened == -ECANCELED ? opened : 0;
        }
    }
    if (piece->header_size) /* else there may be no headers at all */
        memcpy(block->data + block->size, block->headers.data + piece->header, piece->header_size);
    block->size += piece->header_size;
    if (piece->reads)
        r = read_data(run, block, piece, piece->large ? piece->large->fd : opened);
    if (piece->last)
        put_zeros(block, tar_padding(piece->offset + piece->size));
    piece->changed = !r && opened >= 0 && has_changed(opened, &piece->member.st);
    return r;
}

static int fill_block(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct run *run = arg;
    struct block *block = *item;
    int r = 0;

    for (size_t i = 0; i < block->n && !r; i++)
        r = wsd_job_cancelled(run->job) ? -ECANCELED : fill_piece(run, block, &block->pieces[i]);
    if (!r && block->size)
        r = frame_make(&run->frames, block->data, block->size, &block->frame, &block->frame_size);
    return r;
}

/* ---- writing ---- */

/* The end of a long name is what tells members apart, and the reason has to fit into the line, too. */
static const char *end_of_name(const char *quoted, const char **ret_dots)
{
    size_t n = strlen(quoted);

    *ret_dots = n > NAME_SAID ? "..." : "";
    return quoted + (n > NAME_SAID ? n - NAME_SAID : 0);
}

/* One line about a member. */
__attribute__((format(printf, 4, 5))) static void say(struct run *run, const struct member *member, int level,
                                                      const char *format, ...)
{
    _cleanup_(freep) char *name = strdup(member->path + member->said), *quoted = NULL;
    const char *dots, *quoted_end;
    char what[WSD_TEXT_MAX];
    size_t n = name ? strlen(name) : 0;
    va_list args;

    if (n > 1 && name[n - 1] == '/')
        name[n - 1] = '\0';
    quoted = name ? name_quote(name) : NULL;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    quoted_end = end_of_name(quoted ? quoted : member->path + member->said, &dots);
    wsd_job_log(run->job, level, "%s: %s%s: %s", run->job->argv[0], dots, quoted_end, what);
}

static void say_changed(struct run *run, const struct member *member, const char *what)
{
    say(run, member, WSD_LOG_WARNING, "%s", what);
    run->changed = true;
}

static void say_failed(struct run *run, const struct member *member, const char *what)
{
    say(run, member, WSD_LOG_ERROR, "%s: %s", what, error_text(member->error));
    run->failed = true;
}

static void say_problem(struct run *run, const struct member *member)
{
    switch (member->problem) {
    case PROBLEM_NONE:
        break;
    case PROBLEM_SOCKET:
        say(run, member, WSD_LOG_WARNING, "socket ignored");
        break;
    case PROBLEM_LOOK:
    case PROBLEM_LINK:
        say_failed(run, member, member->problem == PROBLEM_LINK ? "Cannot readlink" : "Cannot stat");
        break;
    case PROBLEM_READ:
        say_failed(run, member, "Cannot read");
        break;
    case PROBLEM_OPEN:
        if (member->error == -ENOENT)
            say_changed(run, member, "File removed before we read it");
        else if (member->error == -ESTALE)
            say_changed(run, member, "Another file has taken its place, and is not archived; archive it again");
        else
            say_failed(run, member, "Cannot open");
        break;
    case PROBLEM_LINKED:
        say_failed(run, member, "Cannot open, and links to it in the archive lead nowhere; archive it again");
    }
}

/* How reading the file went, which is there as a whole now. */
static void say_outcome(struct run *run, struct piece *piece)
{
    const struct outcome *outcome = piece->large ? &piece->large->outcome : &piece->outcome;
    bool changed = piece->large ? has_changed(piece->large->fd, &piece->member.st) : piece->changed;

    if (outcome->error) {
        piece->member.error = outcome->error;
        say_failed(run, &piece->member, "Read error; there are zeros in place of the rest");
    } else if (outcome->missing) {
        say(run, &piece->member, WSD_LOG_WARNING, "File shrank by %llu bytes; padding with zeros",
            (unsigned long long)outcome->missing);
        run->changed = true;
    } else if (changed) {
        say_changed(run, &piece->member, "file changed as we read it");
    }
}

static void say_piece(struct run *run, struct piece *piece)
{
    if (piece->large) {
        struct outcome *all = &piece->large->outcome;

        all->missing += piece->outcome.missing;
        all->error = all->error ? all->error : piece->outcome.error;
    }
    if (piece->last && piece->member.problem != PROBLEM_NONE)
        say_problem(run, &piece->member);
    else if (piece->last && piece->reads)
        say_outcome(run, piece);
}

static int write_block(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct run *run = arg;
    struct block *block = *item;
    int r = block->size ? wsd_job_write(run->job, block->frame, block->frame_size) : 0;

    if (r)
        return r;
    for (size_t i = 0; i < block->n; i++)
        say_piece(run, &block->pieces[i]);
    run->written += block->size;
    wsd_job_progress(run->job, run->written, 0);
    block_empty(block);
    cache_give(&run->blocks, block);
    return 0;
}

static void drop_block(void *item, uint32_t stage, void *arg)
{
    block_free(item);
}

/* Two blocks of zeros, and more up to a whole record. */
static int write_end(struct run *run)
{
    static const char zeros[TAR_RECORD + 2 * TAR_BLOCK];
    size_t size = 2 * TAR_BLOCK, frame_size;
    _cleanup_(freep) void *frame = NULL;
    int r;

    size += (size_t)(TAR_RECORD - 1 - (run->written + size + TAR_RECORD - 1) % TAR_RECORD);
    r = frame_make(&run->frames, zeros, size, &frame, &frame_size);
    return r ? r : wsd_job_write(run->job, frame, frame_size);
}

/* ---- arguments ---- */

#define USAGE "usage: archive [-1..-19] [-C FOLDER] [--exclude PATTERN]... PATH..."

/* The value of an option, in the next word or behind a `=`. NULL: it is another option, or has no value. */
static const char *option_value(const struct wsd_job *job, uint32_t *i, const char *option)
{
    const char *arg = job->argv[*i];
    size_t n = strlen(option);

    if (strncmp(arg, option, n) != 0)
        return NULL;
    if (!arg[n])
        return *i + 1 < job->argc ? job->argv[++*i] : NULL;
    return arg[n] == '=' ? arg + n + 1 : NULL;
}

/* words: room for twice argc; the first half gets the paths, the second the patterns. 0 or an exit code. */
static int take_arguments(struct run *run, const char **words, int *ret_level)
{
    struct members *m = &run->members;
    struct wsd_job *job = run->job;
    bool ended = false;

    m->paths = words;
    m->excluded = words + job->argc;
    for (uint32_t i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i], *value;

        if (ended || arg[0] != '-' || !arg[1])
            words[m->n_paths++] = arg;
        else if (strcmp(arg, "--") == 0)
            ended = true;
        else if (frame_level(arg))
            *ret_level = frame_level(arg);
        else if ((value = option_value(job, &i, "--exclude")))
            words[job->argc + m->n_excluded++] = value;
        else if ((value = option_value(job, &i, "-C")) && *value)
            m->base = value;
        else if (value)
            return wsd_job_fail(job, STATUS_FAILED,
                                "-C '': no folder has an empty name; leave -C out, or name a folder");
        else
            return wsd_job_fail(job, STATUS_FAILED, "unrecognized option '%s', or its value is missing; " USAGE, arg);
    }
    if (!m->n_paths)
        return wsd_job_fail(job, STATUS_FAILED, "nothing to archive: name files or folders; " USAGE);
    return 0;
}

static int archive_all(struct run *run, struct wsd_worker *self)
{
    const struct wsd_stage stages[] = {
        {.run = plan_block, .arg = run, .kind = WSD_STAGE_ORDERED},
        {.run = fill_block, .arg = run},
        {.run = write_block, .arg = run, .kind = WSD_STAGE_ORDERED},
    };
    uint32_t tokens = (uint32_t)(2 * frames_at_once());
    int r = wsd_pipeline(self, NULL, stages, ARRAY_SIZE(stages), tokens, drop_block, NULL);

    if (!r)
        r = write_end(run);
    if (r == -ECANCELED)
        return STATUS_FAILED;
    if (r)
        return wsd_job_fail(run->job, STATUS_FAILED, "%s", r == -ENOMEM ? "out of memory" : error_text(r));
    if (run->failed)
        return wsd_job_fail(run->job, STATUS_FAILED, "some files are not in the archive, or not as a whole");
    if (run->changed)
        return wsd_job_fail(run->job, STATUS_CHANGED, "some files changed while they were read");
    return 0;
}

static int archive(struct wsd_job *job, struct wsd_worker *self)
{
    struct run run = {.job = job, .members = {.job = job}};
    _cleanup_(freep) const char **words = calloc(2 * (size_t)job->argc, sizeof(*words));
    int level = FRAME_LEVEL_DEFAULT, status;

    if (!words)
        return wsd_job_fail(job, STATUS_FAILED, "out of memory");
    status = take_arguments(&run, words, &level);
    if (status)
        return status;
    frames_init(&run.frames, level);
    cache_init(&run.blocks, block_new, block_free, &run);
    status = archive_all(&run, self);
    cache_deinit(&run.blocks);
    frames_deinit(&run.frames);
    large_let_go(run.large);
    member_deinit(&run.next);
    members_deinit(&run.members);
    owners_deinit(&run.owners);
    return status;
}

static const struct wsd_function functions[] = {
    {.name = "archive",
     .help = "[-1..-19] [-C FOLDER] [--exclude PATTERN]... PATH...: a tar archive of files and folders in zstd frames, "
             "for tar --zstd (default level 3)",
     .flags = WSD_FN_IDEMPOTENT,
     .run = archive},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "archive", .version = "0.1.0",
           .help = "makes a .tar.zst of files and folders, in parallel");
