/* SPDX-License-Identifier: Apache-2.0
 *
 * input.c: input that does not come with the SUBMIT message. Small input is gathered in wsd's memory, as long as it
 * fits into the ring. Larger input is gathered in a memfd. Input of a function that streams goes through a pipe. Or it
 * is a file of the submitter's, by descriptor.
 * Owns the job's descriptors, also that of its output, and the bytes on their way. [loop]
 * Keeps: bytes go on in order. The client is told of room only for bytes that have gone on. A memfd is sealed before an
 * executor sees it, and only wsd can write what goes through the ring.
 * Does not wait: a full pipe holds the client back. Does not read or map a file: it may be cut, or be on a file system
 * that does not answer. */
#include "table/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/async-close.h"
#include "base/cleanup.h"
#include "base/inherit.h"
#include "base/log.h"
#include "base/seal.h"
#include "table/admission.h"
#include "table/hooks.h"
#include "table/policy.h"
#include "table/watches.h"

#define PIPE_SIZE (1 << 20)

static void taken(struct job *job, size_t size)
{
    struct watch *w = job_owner(job);

    if (w && size && w->ops->input_taken)
        w->ops->input_taken(w, size);
}

static void pipe_close(struct job *job)
{
    struct job_more *m = job->more;

    if (m->pipe_event) {
        event_free(m->pipe_event);
        m->pipe_event = NULL;
        m->input_fd = close_fd(m->input_fd);
    }
    m->input_fd = async_close(m->input_fd, job->user->uid);
}

/* Moves what the pipe takes. */
static void pipe_pump(struct job *job)
{
    struct job_more *m = job->more;

    while (m->input_fd >= 0 && buffer_size(&m->early)) {
        ssize_t n = write(m->input_fd, buffer_data(&m->early), buffer_size(&m->early));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == ENOMEM)) { /* memory, too, may come back */
            event_add(m->pipe_event, NULL);
            return;
        }
        if (n < 0) { /* the function has ended without reading all: the rest is not wanted */
            n = (ssize_t)buffer_size(&m->early);
            m->input_broken = true;
        }
        buffer_drop(&m->early, (size_t)n);
        taken(job, (size_t)n);
    }
    if (m->input_last && !buffer_size(&m->early))
        pipe_close(job);
}

static void on_pipe(evutil_socket_t fd, short what, void *userdata)
{
    pipe_pump(userdata);
}

static int pipe_begin(struct job *job)
{
    struct job_more *m = job->more;
    int pair[2];

    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    m->pipe_fd = pair[0];
    m->input_fd = pair[1];
    (void)fcntl(m->input_fd, F_SETPIPE_SZ, PIPE_SIZE); /* a larger one is only faster */
    if (fcntl(m->input_fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    m->pipe_event = event_new(job->domain->jobs->options.base, m->input_fd, EV_WRITE, on_pipe, job);
    if (!m->pipe_event)
        return -ENOMEM;
    job->flags |= JOB_PIPE;
    return 0;
}

/* Counts descriptors. Leaves some for connections, executors and other users. Returns 0 or -EMFILE. */
static int count_fds(struct job *job, uint8_t n)
{
    if (job->user->n_fds + n + async_close_pending(job->user->uid) > job->domain->jobs->max_fd / 2)
        return -EMFILE;
    job->more->n_fds = (uint8_t)(job->more->n_fds + n);
    job->user->n_fds += n;
    return 0;
}

/* The kernel gives the lowest number that is free. */
static int check_numbers(const struct job *job)
{
    const struct job_more *m = job->more;

    return MAX(MAX(m->input_fd, m->pipe_fd), m->output_fd) > (int)job->domain->jobs->max_fd ? -EMFILE : 0;
}

static int memfd_begin(struct job *job)
{
    struct job_more *m = job->more;
    int r = count_fds(job, 1);

    if (r < 0)
        return r;
    m->input_fd = memfd_create("wsd-input", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return m->input_fd < 0 ? -errno : check_numbers(job);
}

static int memfd_put(struct job_more *m, const void *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = write(m->input_fd, (const uint8_t *)data + at, size - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += (size_t)n;
    }
    return 0;
}

/* Input of up to this size goes with the job through the ring. A new memfd costs more at every size, for its pages and
 * its way to the executor. */
static size_t gather_room(const struct job *job)
{
    return RING_RUN_MAX * RING_CHUNK - job->args_size - (job->directory ? strlen(job->directory->path) + 1 : 0) -
           (job->more && job->more->traceparent ? JOB_TRACEPARENT : 0) - RING_ALIGN;
}

/* Behind what is there. */
static int put(struct job *job, const void *data, size_t size)
{
    struct job_more *m = job->more;

    if (m->input_fd < 0 && m->input_size + size <= gather_room(job))
        return buffer_put(&m->early, data, size) < 0 ? -ENOMEM : 0;
    if (m->input_fd < 0) {
        int r = memfd_begin(job);

        if (r == 0)
            r = memfd_put(m, buffer_data(&m->early), buffer_size(&m->early));
        if (r < 0)
            return r;
        buffer_deinit(&m->early);
    }
    return memfd_put(m, data, size);
}

static int append(struct job *job, const void *data, size_t size)
{
    struct jobs *jobs = job->domain->jobs;
    struct job_more *m = job->more;

    if (m->input_size + size > jobs->options.limits.input)
        return -EMSGSIZE;
    if (durable_unacknowledged(job) && m->input_size + size > DURABLE_INPUT_MAX)
        return -E2BIG;
    int r = user_charge(jobs, job->user, size);
    if (r < 0)
        return r;
    m->charged += size;
    r = put(job, data, size);
    if (r == 0)
        m->input_size += size;
    return r;
}

static void is_whole(struct job *job)
{
    struct job_more *m = job->more;

    if (m->input_fd >= 0 && seal_memory(m->input_fd) < 0) {
        job_finish(job, JOB_FAILED, WSD_STATUS_LAST, "cannot seal the input", NULL);
        return;
    }
    buffer_trim(&m->early); /* it may wait for long */
    job->flags &= (uint8_t)~JOB_MORE_INPUT;
    job_enqueue(job);
}

void input_words(const struct job *job, int error, char text[static JOB_TEXT])
{
    char words[INHERIT_ERROR];

    if (error == -EMSGSIZE)
        snprintf(text, JOB_TEXT, "the input is larger than the limit of %llu bytes (max-input in wsd.conf)",
                 (unsigned long long)job->domain->jobs->options.limits.input);
    else if (error == -E2BIG)
        snprintf(text, JOB_TEXT, "the input of a durable job is at most %llu MiB", DURABLE_INPUT_MAX >> 20);
    else if (error == -ENOSPC)
        snprintf(text, JOB_TEXT, "the input exceeds the user's quota of bytes (max-bytes-per-user in wsd.conf)");
    else if (error == -EDQUOT)
        snprintf(text, JOB_TEXT,
                 "the input is too much beside what others have here (max-bytes in wsd.conf): try again later");
    else
        snprintf(text, JOB_TEXT, "cannot keep its input or output: %s%.180s", strerror(-error),
                 inherit_blame(error, words));
}

static void input_fail(struct job *job, int error)
{
    char text[JOB_TEXT];

    input_words(job, error, text);
    job_finish(job, JOB_FAILED, WSD_STATUS_LAST, text, NULL);
}

void input_begin(struct job *job)
{
    struct job_more *m = job->more;
    struct buffer early = m->early;
    int r;

    memset(&m->early, 0, sizeof(m->early));
    if (m->by_pipe) /* it is to come as bytes */
        taken(job, JOBS_INPUT_WINDOW);
    if (job->flags & JOB_PIPE) {
        m->early = early;
        pipe_pump(job);
        return;
    }
    r = append(job, buffer_data(&early), buffer_size(&early));
    taken(job, buffer_size(&early));
    buffer_deinit(&early);
    if (r < 0)
        input_fail(job, r);
    else if (m->input_last)
        is_whole(job);
}

/* Looks at a descriptor that is to be read. Only what the kernel knows by itself: the loop must not wait for a file
 * system that does not answer. False: it is not of that kind (S_IFMT). */
static bool is_kind(int fd, mode_t kind, struct statx *ret)
{
    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_SIZE, ret) == 0 &&
           (ret->stx_mode & S_IFMT) == kind;
}

/* NULL: it is. */
static const char *not_readable(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    bool readable =
        flags >= 0 && !(flags & O_PATH) && ((flags & O_ACCMODE) == O_RDONLY || (flags & O_ACCMODE) == O_RDWR);

    return readable ? NULL : "the input's descriptor is not open for reading";
}

const char *input_refuses(const struct job_file *file)
{
    const char *problem = not_readable(*file->fd);
    struct statx st;

    if (problem)
        return problem;
    if (!is_kind(*file->fd, S_IFREG, &st))
        return "the input's descriptor is no regular file: send its bytes";
    if (file->offset > st.stx_size || file->size > st.stx_size - file->offset)
        return "the input goes beyond the end of its file";
    return NULL;
}

int input_hold(struct job *job, const struct job_file *file)
{
    struct job_more *m = job_more(job);
    int r = m ? count_fds(job, 1) : -ENOMEM;

    if (r < 0)
        return r;
    m->input_fd = TAKE_FD(*file->fd);
    m->input_at = file->offset;
    m->input_size = file->size;
    m->by_file = true;
    return check_numbers(job);
}

const char *input_refuses_pipe(int fd)
{
    const char *problem = not_readable(fd);
    struct statx st;

    return problem ? problem : is_kind(fd, S_IFIFO, &st) ? NULL : "the input's descriptor is no pipe: send its bytes";
}

static void pipe_let_go(struct job *job)
{
    struct job_more *m = job->more;

    if (m->pipe_fd < 0)
        return;
    m->pipe_fd = async_close(m->pipe_fd, job->user->uid); /* which counts it until then */
    m->n_fds--;
    job->user->n_fds--;
}

int input_hold_pipe(struct job *job, int *fd, bool wanted)
{
    struct job_more *m = job_more(job);
    int r = m ? 0 : -ENOMEM;

    if (r < 0)
        return r;
    m->by_pipe = true;
    if (!wanted || count_fds(job, 1) < 0)
        return 0;
    m->pipe_fd = TAKE_FD(*fd);
    if (check_numbers(job) < 0)
        pipe_let_go(job);
    return 0;
}

const char *output_refuses(const struct job_output *output)
{
    int flags = fcntl(*output->fd, F_GETFL);

    /* the executor looks at the rest: a file system that does not answer must not hold up the loop */
    return flags < 0 || flags & O_PATH || (flags & O_ACCMODE) == O_RDONLY
               ? "the output's descriptor is not open for writing"
               : NULL;
}

void output_let_go(struct job *job)
{
    job->more->output_fd = async_close(job->more->output_fd, job->user->uid);
}

int output_hold(struct job *job, const struct job_output *output)
{
    struct job_more *m = job_more(job);
    int r = m ? count_fds(job, 1) : -ENOMEM;

    if (r == 0) {
        m->output_fd = TAKE_FD(*output->fd);
        m->output_either = output->either;
        r = check_numbers(job);
    }
    if (r != -EMFILE || !output->either)
        return r;
    output_let_go(job);
    return 0;
}

int input_admit(struct job *job, bool streaming, uint64_t *ret_retry_usec)
{
    struct jobs *jobs = job->domain->jobs;
    struct job_more *m = job->more;

    /* a function that streams reads it in pieces, so it is not charged. For any other, the whole file counts, though
     * nothing is copied: a file that was removed, or was never on a disk, exists as long as wsd has it open */
    if (!m || !m->by_file || streaming)
        return 0;
    if (m->input_size > jobs->options.limits.input)
        return -EMSGSIZE;
    int r = user_admit(jobs, job->user, m->input_size, ret_retry_usec);
    if (r == 0)
        m->charged += m->input_size;
    return r;
}

int input_prepare(struct job *job, bool streaming)
{
    struct job_more *m = job->more;

    if (streaming && m->by_pipe && m->pipe_fd >= 0) {
        job->flags = (uint8_t)((job->flags | JOB_PIPE) & ~JOB_MORE_INPUT);
        return 0;
    }
    pipe_let_go(job);
    if (!streaming) /* what is to be on the disk goes there by its descriptor */
        return job_policy(job) ? memfd_begin(job) : 0;
    int r = count_fds(job, 2);
    if (r == 0)
        r = pipe_begin(job);
    return r < 0 ? r : check_numbers(job);
}

int input_take(struct job *job, const void *data, size_t size, bool last)
{
    struct job_more *m = job->more;

    if (!m || !(job->flags & JOB_MORE_INPUT) || m->input_last)
        return -EPROTO;
    m->input_last = last;
    if (job_final(job) || m->input_broken) { /* it ended meanwhile: what is on its way is let go */
        taken(job, size);
        return 0;
    }
    if (job->state == JOB_NEW || job->flags & JOB_PIPE) {
        if (buffer_size(&m->early) + size > JOBS_INPUT_WINDOW)
            return -EPROTO;
        if (buffer_put(&m->early, data, size) < 0)
            return -ENOMEM;
        if (job->state != JOB_NEW)
            pipe_pump(job);
        return 0;
    }
    int r = append(job, data, size);
    if (r < 0) {
        input_fail(job, r);
        return 0;
    }
    taken(job, size);
    if (last)
        is_whole(job);
    return 0;
}

void input_free(struct job *job)
{
    struct job_more *m = job->more;

    pipe_close(job);
    if (m->arena)
        job->domain->jobs->domain_hooks->arena_free(job);
    m->pipe_fd = m->by_pipe ? async_close(m->pipe_fd, job->user->uid) : close_fd(m->pipe_fd);
    output_let_go(job);
    buffer_deinit(&m->early);
    job->user->n_fds -= m->n_fds;
    m->n_fds = 0;
}
