/* SPDX-License-Identifier: Apache-2.0
 *
 * output-to.c: output that goes to a descriptor of the submitter's.
 * Owns the descriptor from its arrival until output_to_end(), and what is gathered. [worker, under the job's
 * output_lock]
 * Keeps: bytes are written in their order, without holes. Before the first one wsd is told, so that it knows whether
 * the job may run again. A wait for a reader ends when the job is cancelled, and says that the worker blocks. The flags
 * of the open file stay as they are: a pipe is opened anew, or bytes for it pass a pipe of our own.
 * Does not know where else output may go (output.c). */
#include "executor/output-to.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <wsd/plugin.h>

#include "base/cleanup.h"
#include "executor/pipe-end.h"
#include "executor/slot.h"
#include "pool/pool.h"

#define THROUGH_SIZE (1 << 18) /* of our own pipe */
#define LOOK_MSEC    20        /* how often a wait for a reader looks at the cancel flag */

void output_to_init(struct output_to *to)
{
    *to = (struct output_to){.fd = -1, .through = {-1, -1}};
}

/* --- begin -------------------------------------------------------------------------------------------------------- */

static bool output_there(struct slot *s, void *arg)
{
    int *fd = arg;

    *fd = inputs_take(&s->shared->outputs, s->number, s->generation);
    return *fd >= 0;
}

/* A write must not block: a cancel would wait for the reader. NULL, or why it cannot be. */
static const char *begin_pipe(struct output_to *to)
{
    int own = pipe_end_open(to->fd, O_WRONLY);

    to->is_pipe = true;
    if (own >= 0) {
        close_fd(to->fd);
        to->fd = own;
        return NULL;
    }
    if (pipe2(to->through, O_CLOEXEC | O_NONBLOCK) < 0)
        return "there is no pipe to be had for its output: try again later";
    (void)fcntl(to->through[1], F_SETPIPE_SZ, THROUGH_SIZE); /* a larger one is only faster */
    return NULL;
}

/* An earlier try has written into the file: cuts that off. NULL, or why it cannot be. */
static const char *cut(struct slot *s, const struct stat *st)
{
    const struct back_request *q = &s->request;
    struct output_to *to = &s->output.to;
    const struct ring_written before = {.begin = q->output_at, .size = q->output_size};
    uint64_t size = (uint64_t)st->st_size, noted = before.begin + before.size;
    bool is_cut = size == before.begin && (to->begin == size || to->begin == noted); /* by a try that died then */

    /* What is more may be of another process with the same open file, or of a write that was not noted: it stays. */
    if (!is_cut && (size != noted || to->begin != size))
        return "its executor died, and others may have written into the file of its output: submit it again";
    to->begin = before.begin;
    to->claimed = back_claim_output(&s->shared->back, s->number, s->generation, RING_OUTPUT_FILE, &before);
    if (!to->claimed)
        return "cancelled before its output was cut";
    if (ftruncate(to->fd, (off_t)before.begin) < 0 || lseek(to->fd, (off_t)before.begin, SEEK_SET) < 0)
        return "its executor died, and the file of its output cannot be cut to begin anew: submit it again";
    back_wrote(&s->shared->back, s->number, 0);
    return NULL;
}

static const char *begin_file(struct slot *s, const struct stat *st, off_t at, int flags)
{
    struct output_to *to = &s->output.to;

    if (at < 0)
        return "the file of its output has no position";
    to->begin = (uint64_t)at;
    to->can_cut = !(flags & O_APPEND) && at == st->st_size;
    return s->request.flags & DOWN_OUTPUT_AGAIN ? cut(s, st) : NULL;
}

const char *output_to_begin(struct slot *s)
{
    struct output_to *to = &s->output.to;
    struct stat st;

    if (!slot_wait(s, output_there, &to->fd))
        return "cancelled before the descriptor of its output came";
    to->on = true;
    int flags = fcntl(to->fd, F_GETFL);
    if (flags < 0 || flags & O_PATH || (flags & O_ACCMODE) == O_RDONLY)
        return "the descriptor of its output is not open for writing";
    off_t at = lseek(to->fd, 0, SEEK_CUR); /* before the size: a write in between leaves it behind */
    if (fstat(to->fd, &st) < 0)
        return "the descriptor of its output cannot be looked at";
    if (S_ISFIFO(st.st_mode))
        return begin_pipe(to);
    return S_ISREG(st.st_mode) ? begin_file(s, &st, at, flags)
                               : "the descriptor of its output is neither a regular file nor a pipe: have it by the "
                                 "connection";
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Tells wsd before the first byte, and where a file turns out to have another writer. 0 or -ECANCELED. */
static int claim(struct slot *s)
{
    struct output_to *to = &s->output.to;
    bool moved = to->can_cut && lseek(to->fd, 0, SEEK_CUR) != (off_t)(to->begin + to->written);

    const struct ring_written none = {.begin = to->begin};

    if (to->claimed && !moved) /* also where wsd has taken the job back meanwhile */
        return back_output_is_claimed(&s->shared->back, s->number, s->generation) ? 0 : -ECANCELED;
    to->can_cut = to->can_cut && !moved;
    to->claimed = true;
    return back_claim_output(&s->shared->back, s->number, s->generation,
                             to->can_cut ? RING_OUTPUT_FILE : RING_OUTPUT_GIVEN, &none)
               ? 0
               : -ECANCELED;
}

/* Waits until the pipe has room, its reader goes, or the job is cancelled. */
static void await_reader(struct slot *s)
{
    const struct timespec shortly = {.tv_nsec = POOL_BLOCKS_AFTER_USEC * 1000L};
    struct pollfd p = {.fd = s->output.to.fd, .events = POLLOUT};

    if (ppoll(&p, 1, &shortly, NULL) > 0)
        return;
    pool_blocking_begin();
    while (!slot_is_cancelled(s) && poll(&p, 1, LOOK_MSEC) <= 0)
        ;
    pool_blocking_end();
}

/* As much as there is room for, of what is in our own pipe or of data. As write(2). */
static ssize_t put_some(const struct output_to *to, const uint8_t *data, size_t size)
{
    return to->through[0] < 0 ? write(to->fd, data, size)
                              : splice(to->through[0], NULL, to->fd, NULL, size, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
}

/* 0 or a negative errno. */
static int put_all(struct slot *s, const uint8_t *data, size_t size)
{
    struct output_to *to = &s->output.to;

    while (size > 0) {
        if (slot_is_cancelled(s))
            return -ECANCELED;
        ssize_t n = put_some(to, data, size);

        if (n > 0) {
            data += n;
            size -= (size_t)n;
            to->written += (uint64_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            await_reader(s);
        } else if (n == 0 || errno != EINTR) {
            return n == 0 ? -EIO : -errno;
        }
    }
    return 0;
}

static int write_pipe(struct slot *s, const uint8_t *data, size_t size)
{
    struct output_to *to = &s->output.to;
    int r = claim(s);

    while (r == 0 && size > 0) {
        ssize_t n = to->through[1] < 0 ? (ssize_t)size : write(to->through[1], data, size); /* it is empty */

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        r = put_all(s, data, (size_t)n);
        data += n;
        size -= (size_t)n;
    }
    return r;
}

static int write_file(struct slot *s, const uint8_t *data, size_t size)
{
    struct output_to *to = &s->output.to;

    while (size > 0) {
        int r = slot_is_cancelled(s) ? -ECANCELED : claim(s);
        if (r < 0)
            return r;
        ssize_t n = write(to->fd, data, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? -EIO : -errno;
        data += n;
        size -= (size_t)n;
        to->written += (uint64_t)n;
        back_wrote(&s->shared->back, s->number, to->written);
    }
    return 0;
}

/* 0, or the negative errno with which the output has ended. */
static int put(struct slot *s, const uint8_t *data, size_t size)
{
    struct output_to *to = &s->output.to;

    if (to->error == 0 && size > 0)
        to->error = to->is_pipe ? write_pipe(s, data, size) : write_file(s, data, size);
    return to->error;
}

/* Writes what is gathered. Returns as put(). */
static int drain(struct slot *s)
{
    struct output_to *to = &s->output.to;
    size_t size = to->used;

    to->used = 0;
    return put(s, to->data, size);
}

size_t output_to_pass(struct slot *s, const void *data, size_t size)
{
    size_t n = size < WSD_RESERVE_MAX ? size : WSD_RESERVE_MAX; /* noted one by one */

    if (size < OUTPUT_TO_PASS || drain(s) < 0)
        return 0;
    return put(s, data, n) == 0 ? n : 0;
}

void *output_to_reserve(struct slot *s, size_t min, size_t *ret_size)
{
    struct output_to *to = &s->output.to;

    if (to->room - to->used < min && drain(s) < 0)
        return NULL;
    if (to->error)
        return NULL;
    if (to->room < min) {
        free(to->data);
        to->room = min > OUTPUT_TO_ROOM ? min : OUTPUT_TO_ROOM;
        to->data = malloc(to->room);
        if (!to->data) {
            to->room = 0;
            to->error = -ENOMEM;
            return NULL;
        }
    }
    *ret_size = to->room - to->used;
    return to->data + to->used;
}

void output_to_commit(struct slot *s, size_t size)
{
    struct output_to *to = &s->output.to;

    to->used += size;
    if (to->used == to->room)
        drain(s); /* output_to_reserve() has the error */
}

int output_to_flush(struct slot *s)
{
    return drain(s) < 0 ? -ECANCELED : 0;
}

/* --- end ---------------------------------------------------------------------------------------------------------- */

static void say(int error, char *words, size_t size)
{
    if (error == -EPIPE)
        snprintf(words, size, "the reader of its output has gone: the output is not complete");
    else if (error == -ECANCELED)
        snprintf(words, size, "cancelled before its output was written");
    else
        snprintf(words, size, "its output cannot be written: %s: it is not complete", strerror(-error));
}

bool output_to_end(struct slot *s, char *words, size_t size)
{
    struct output_to *to = &s->output.to;
    int error = to->on ? drain(s) : 0;

    if (to->fd >= 0 && close(to->fd) < 0 && error == 0 && errno != EINTR) /* some file systems write only now */
        error = -errno;
    to->fd = -1;
    close_fd(to->through[0]);
    close_fd(to->through[1]);
    free(to->data);
    to->data = NULL;
    to->room = 0;
    inputs_drop(&s->shared->outputs, s->number, s->generation);
    if (error)
        say(error, words, size);
    return error == 0;
}
