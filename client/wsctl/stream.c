/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.c: input and output of jobs.
 * Owns the descriptors that it opened and one buffer of input. One thread.
 * Keeps: an error of a file is said once, with its name; what cannot be written is never passed over in silence.
 * Writing blocks: a slow reader of stdout is how flow control begins. */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/code.h"
#include "connect.h"
#include "print.h"

#define READ_SIZE (256u * 1024u)

int open_exit(int error)
{
    return error == ENOENT || error == ENOTDIR ? CODE_NOT_FOUND
           : error == EACCES || error == EPERM ? CODE_DENIED
                                               : CODE_IO;
}

int output_open(struct output *output, const char *path, const struct outfile_reads *reads)
{
    int r;

    *output = (struct output){.fd = STDOUT_FILENO, .name = "stdout"};
    if (!path || strcmp(path, "-") == 0)
        return 0;
    output->name = path;
    r = outfile_open(&output->file, path, reads);
    output->fd = output->file.fd;
    output->failed = r < 0;
    return r == 0 ? 0 : ctl_error(r == -EACCES || r == -EPERM ? CODE_DENIED : CODE_IO, path, "%s", strerror(-r));
}

static int output_failed(struct output *output)
{
    if (!output->failed)
        ctl_error(CODE_IO, output->name, "%s%s", strerror(errno),
                  errno == ENOSPC ? "; the output is not complete" : "");
    output->failed = true;
    return CODE_IO;
}

FILE *output_stream(struct output *output)
{
    int fd = output->fd == STDOUT_FILENO ? -1 : fcntl(output->fd, F_DUPFD_CLOEXEC, 0);
    FILE *stream = output->fd == STDOUT_FILENO ? stdout : fd >= 0 ? fdopen(fd, "w") : NULL;

    if (!stream) {
        output_failed(output);
        if (fd >= 0)
            close(fd);
    }
    return stream;
}

int output_stream_end(struct output *output, FILE *stream)
{
    bool failed = fflush(stream) != 0 || ferror(stream);

    if (failed)
        output_failed(output);
    if (stream != stdout && fclose(stream) != 0 && !failed)
        failed = output_failed(output);
    return failed ? CODE_IO : 0;
}

bool output_takes_writers(const struct output *output, bool pipes)
{
    int flags = fcntl(output->fd, F_GETFL);
    struct rlimit most;
    struct stat st;

    if (getrlimit(RLIMIT_FSIZE, &most) < 0 ||
        most.rlim_cur != RLIM_INFINITY) /* the other one does not have our limit */
        return false;
    if (flags < 0 || flags & O_DIRECT || (flags & O_ACCMODE) == O_RDONLY || fstat(output->fd, &st) < 0)
        return false;
    return S_ISREG(st.st_mode) || (pipes && S_ISFIFO(st.st_mode));
}

int output_write(struct output *output, const void *data, size_t size)
{
    if (output->failed)
        return CODE_IO;
    for (size_t at = 0; at < size;) {
        ssize_t n = write(output->fd, (const char *)data + at, size - at);

        if (n >= 0) {
            at += (size_t)n;
        } else if (errno == EAGAIN) { /* another process made our stdout non-blocking */
            struct pollfd poll_fd = {.fd = output->fd, .events = POLLOUT};

            poll(&poll_fd, 1, -1);
        } else if (errno != EINTR) {
            return output_failed(output);
        }
    }
    return 0;
}

int output_close(struct output *output, bool complete)
{
    int fd = output->fd, r = 0;

    output->fd = -1;
    if (fd > STDOUT_FILENO && complete && !output->failed)
        r = outfile_commit(&output->file);
    else if (fd > STDOUT_FILENO)
        outfile_abandon(&output->file);
    errno = -r;
    return r < 0 ? output_failed(output) : output->failed ? CODE_IO : 0;
}

int input_open_fd(struct input *input, const char *path)
{
    *input = (struct input){.fd = -1, .name = path};
    if (!path)
        return 0;
    if (strcmp(path, "-") == 0) {
        input->fd = STDIN_FILENO;
        input->name = "stdin";
        return 0;
    }
    input->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return input->fd >= 0 ? 0 : ctl_error(open_exit(errno), path, "%s", strerror(errno));
}

int input_open(struct input *input, const char *path)
{
    struct stat st;
    int r = input_open_fd(input, path);

    if (r != 0 || input->fd < 0)
        return r;
    input->data = malloc(READ_SIZE);
    if (!input->data)
        return ctl_error(CODE_IO, input->name, "%s", strerror(errno));
    off_t at = lseek(input->fd, 0, SEEK_CUR); /* stdin may have been read from before */
    if (at < 0 || fstat(input->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    if (st.st_size - at > INLINE_MAX) {
        input->large = true;
        input->offset = (uint64_t)at;
        input->size = (uint64_t)(st.st_size - at);
        return 0;
    }
    while (!input->eof && input->end <= INLINE_MAX) {
        ssize_t n = read(input->fd, input->data + input->end, INLINE_MAX + 1 - input->end);

        if (n < 0)
            return ctl_error(CODE_IO, input->name, "%s", strerror(errno));
        input->eof = n == 0;
        input->end += (size_t)n;
    }
    input->whole = input->eof; /* else it has grown meanwhile, and goes on as a stream */
    return 0;
}

bool input_wants(const struct input *input)
{
    return input->fd >= 0 && !input->eof && input->at == input->end;
}

bool input_is_pipe(const struct input *input)
{
    struct stat st;

    return fstat(input->fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

int input_read(struct input *input)
{
    ssize_t n = read(input->fd, input->data, READ_SIZE);

    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return ctl_error(CODE_IO, input->name, "%s", strerror(errno));
    if (n == 0)
        input->eof = true;
    input->at = 0;
    input->end = n > 0 ? (size_t)n : 0;
    return 0;
}

void input_given(struct input *input)
{
    lseek(input->fd, (off_t)(input->offset + input->size), SEEK_SET);
    input->ended = input->eof = true;
}

int input_feed(struct input *input, const struct wsd_client *client, struct wsd_call *call)
{
    int64_t n;

    if (input->fd < 0 || input->whole || input->ended || (input->at == input->end && !input->eof))
        return 0;
    n = wsd_call_feed(call, input->data + input->at, input->end - input->at, input->eof);
    if (n == -EPIPE) {
        input->ended = input->eof = true; /* the call is over; its end has the words */
        return 0;
    }
    if (n < 0)
        return ctl_client_error(client, input->name, NULL);
    input->at += (size_t)n;
    input->ended = input->eof && input->at == input->end;
    return 0;
}

void input_close(struct input *input)
{
    if (input->fd > STDIN_FILENO)
        close(input->fd);
    free(input->data);
    *input = (struct input){.fd = -1};
}
