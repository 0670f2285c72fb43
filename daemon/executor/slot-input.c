/* SPDX-License-Identifier: Apache-2.0
 *
 * slot-input.c: the input of a job that does not lie in the ring: it comes by descriptor, or is in an arena. So may be
 * the part of an arena that the job's output goes to.
 * Owns the descriptor, the map and the use of the arena, from slot_input_fetch() until slot_input_drop(). [worker]
 * Keeps: what has come for a job is given back once. This holds for jobs that did not run, too. A wait ends when the
 * job is cancelled.
 * Does not receive (main.c), or run anything. */
#include "executor/slot-input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <wsd/plugin.h>

#include "base/cleanup.h"
#include "executor/pipe-end.h"
#include "pool/pool.h"

#define DOWN_DESCRIPTOR (DOWN_INPUT_FD | DOWN_INPUT_PIPE)
#define PIPE_LOOK_MSEC  20 /* how often a wait for streamed input looks at the cancel flag */

static bool input_there(struct slot *s, void *arg)
{
    int *fd = arg;

    *fd = inputs_take(&s->shared->inputs, s->number, s->generation);
    return *fd >= 0;
}

/* Maps the input. NULL, or why it cannot be read in place. A streaming function sees only copies anyway. */
static const char *map_input(struct slot *s, int fd, bool streaming)
{
    const struct back_request *q = &s->request;
    int r = q->flags & DOWN_INPUT_FILE ? input_map_file(&s->map, s->number, fd, q->input_at, q->input_size,
                                                        q->flags & DOWN_INPUT_COPY && !streaming)
                                       : input_map_sealed(&s->map, fd, q->input_size);

    if (!(q->flags & DOWN_INPUT_FILE))
        close_fd(fd);
    s->request.input = s->map.input;
    return r == 0 ? NULL : r == -ESTALE ? "its input was cut before it began" : "its input cannot be mapped";
}

/* Takes an input that came by descriptor. NULL, or why it is not there. */
static const char *fetch_descriptor(struct slot *s, const struct plugin_function *function)
{
    _cleanup_(close_fdp) int fd = -1;

    if (!slot_wait(s, input_there, &fd))
        return "cancelled before its input came";
    if (s->request.flags & DOWN_INPUT_FD)
        return map_input(s, TAKE_FD(fd), function->flags & WSD_FN_STREAMING);
    if (!(function->flags & WSD_FN_STREAMING))
        return "its input came as a stream, which this function does not take";
    /* Of a pipe whose writer is still to come, a new open file would tell the end: such a descriptor does not block. */
    int own = fcntl(fd, F_GETFL) & O_NONBLOCK ? -1 : pipe_end_open(fd, O_RDONLY);

    s->input_blocks = own < 0;
    s->input_pipe = own >= 0 ? own : TAKE_FD(fd);
    return NULL;
}

static bool arena_there(struct slot *s, void *unused)
{
    s->arena = arenas_use(&s->shared->arenas, s->request.arena);
    return s->arena;
}

/* Takes what lies in an arena. NULL, or why it is not there. */
static const char *fetch_parts(struct slot *s, const struct plugin_function *function)
{
    struct back_request *q = &s->request;

    if (!slot_wait(s, arena_there, NULL))
        return "cancelled before its arena came";
    void *output = arena_part(s->arena, q->output_at, q->output_size),
         *input = arena_part(s->arena, q->input_at, q->input_size);
    if ((q->flags & DOWN_OUTPUT_PART && !output) || (q->flags & DOWN_INPUT_PART && !input))
        return "its part of the arena cannot be mapped";
    if (q->flags & DOWN_OUTPUT_PART)
        output_place(&s->output, output, q->output_size, function->flags & WSD_FN_SHARED);
    if (!(q->flags & DOWN_INPUT_PART))
        return NULL;
    q->input = input;
    if (!(q->flags & DOWN_INPUT_COPY) || function->flags & WSD_FN_STREAMING)
        return NULL; /* streaming, it sees only copies anyway */
    int r = input_map_copy(&s->map, input, q->input_size);
    q->input = s->map.input;
    return r == 0 ? NULL : "there is no memory for a copy of its input";
}

const char *slot_input_fetch(struct slot *s, const struct plugin_function *function)
{
    return s->request.flags & DOWN_ARENA ? fetch_parts(s, function) : fetch_descriptor(s, function);
}

/* Waits until there is something to read, the end of the input, or a cancel. */
static void await_input(struct slot *s)
{
    const struct timespec shortly = {.tv_nsec = POOL_BLOCKS_AFTER_USEC * 1000L};
    struct pollfd p = {.fd = s->input_pipe, .events = POLLIN};

    if (ppoll(&p, 1, &shortly, NULL) > 0)
        return;
    pool_blocking_begin();
    while (!slot_is_cancelled(s) && poll(&p, 1, PIPE_LOOK_MSEC) <= 0)
        ;
    pool_blocking_end();
}

int64_t slot_input_read(struct slot *s, void *data, size_t size)
{
    if (s->input_pipe < 0)
        return 0;
    for (bool await = s->input_blocks;; await = true) {
        if (await)
            await_input(s);
        if (slot_is_cancelled(s))
            return -ECANCELED;
        ssize_t n = read(s->input_pipe, data, size);
        /* an end that comes with a cancel is no end */
        if (n > 0 || (n == 0 && !slot_is_cancelled(s)))
            return n;
        if (n == 0 || (errno != EINTR && errno != EAGAIN))
            return -ECANCELED;
    }
}

bool slot_input_drop(struct slot *s, struct input_map_rest *ret_rest)
{
    bool whole = input_map_drop(&s->map, s->number, ret_rest);

    close_fd(s->input_pipe);
    if (s->arena)
        arenas_leave(&s->shared->arenas, s->arena);
    if (s->request.flags & DOWN_DESCRIPTOR)
        inputs_drop(&s->shared->inputs, s->number, s->generation);
    return whole;
}
