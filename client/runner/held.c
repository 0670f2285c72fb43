/* SPDX-License-Identifier: Apache-2.0
 *
 * held.c: a job that a runner has: its input, and the services of wsd/plugin.h as frames.
 * Owns the job, its input and the output that is not sent yet.
 * Keeps: wsd never gets more output than its window allows. Nothing is sent for a job when its connection is over. What
 * a function is given stays as it is while it runs: of memory that its submitter may change it gets a copy, unless it
 * says WSD_FN_SHARED.
 * Does not choose which job runs, or on which thread. */
#include "held.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/open.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "wire.h"

#define LOOK_USEC     1000u  /* between two looks at the connection, by jobs that no thread attends */
#define PROGRESS_USEC 20000u /* between two frames that tell how far a job is */
#define READ_ROOM     (64u * 1024u)
#define SCRATCH       (256u * 1024u) /* of output that is then copied into an arena */
#define WAIT_MSEC     100            /* between two looks at `stop` of a job that reads a pipe */

static struct held *held_of(struct wsd_job *job)
{
    return container_of(job, struct held, job);
}

static bool is_stopped(const struct held *h)
{
    return atomic_load_explicit(&h->stop, memory_order_relaxed) != 0;
}

static bool is_lost(const struct held *h)
{
    return h->n_connection != h->runner->n_connection || !h->runner->stands;
}

void held_stop(struct held *h, uint32_t why)
{
    atomic_store_explicit(&h->stop, why, memory_order_relaxed);
    if (h->runner->n_waiting)
        pthread_cond_broadcast(&h->runner->changed);
}

/* --- output ------------------------------------------------------------------------------------------------------- */

static bool may_send(const void *arg)
{
    const struct held *h = arg;

    return h->sent < h->allowed || is_stopped(h) || is_lost(h);
}

/* Sends output until at most `keep` bytes are left; waits for the window. 0 or -ECANCELED. [output_lock and the lock of
 * the runner, which it leaves while it waits] */
static int push(struct held *h, size_t keep)
{
    struct wsd_runner *r = h->runner;

    while (buffer_size(&h->out) > keep) {
        wire_wait(r, UINT64_MAX, false, may_send, h);
        if (is_stopped(h) || is_lost(h))
            return -ECANCELED;
        size_t n = MIN(MIN(buffer_size(&h->out), FRAME_BODY_CHUNK), h->allowed - h->sent);
        const struct msg msg = {.type = FRAME_RUN_OUTPUT, .run_chunk = {.run = h->run, .offset = h->sent}};
        if (wire_put(r, &msg, buffer_data(&h->out), n) < 0)
            return -ECANCELED;
        buffer_drop(&h->out, n);
        h->sent += n;
        wire_drain(r);
    }
    return 0;
}

/* [output_lock] */
static int push_all_but(struct held *h, size_t keep)
{
    if (is_stopped(h))
        return -ECANCELED;
    if (buffer_size(&h->out) <= keep)
        return 0;
    pthread_mutex_lock(&h->runner->lock);
    int r = push(h, keep);
    pthread_mutex_unlock(&h->runner->lock);
    return r;
}

size_t held_room(struct held *h)
{
    size_t room = SIZE_MAX;

    pthread_mutex_lock(&h->output_lock);
    pthread_mutex_lock(&h->runner->lock);
    if (!h->place && !is_stopped(h) && !is_lost(h))
        room = (size_t)(h->allowed - h->sent) - MIN(buffer_size(&h->out), (size_t)(h->allowed - h->sent));
    pthread_mutex_unlock(&h->runner->lock);
    pthread_mutex_unlock(&h->output_lock);
    return room;
}

/* [output_lock] NULL: no memory, or it is to stop. */
static uint8_t *reserve_to_send(struct held *h, size_t min)
{
    uint8_t *room = push_all_but(h, FRAME_BODY_CHUNK - 1) == 0 ? buffer_reserve(&h->out, MAX(min, 4096u)) : NULL;

    if (room)
        h->reserved = MIN(h->out.room - h->out.end, WSD_RESERVE_MAX);
    return room;
}

/* In the arena. The same, or there is not so much room. [output_lock] */
static uint8_t *reserve_in_place(struct held *h, size_t min)
{
    uint64_t left = h->place_size - h->sent;
    bool direct = h->offered->function->flags & WSD_FN_SHARED;

    h->overflow |= min > left;
    if (h->overflow || is_stopped(h))
        return NULL;
    size_t most = (size_t)MIN(left, (uint64_t)WSD_RESERVE_MAX), wanted = MAX(min, MIN(most, SCRATCH));
    uint8_t *room = direct ? h->place + h->sent : buffer_reserve(&h->out, wanted);
    if (room)
        h->reserved = direct ? most : MIN(most, h->out.room - h->out.end);
    return room;
}

static void *service_reserve(struct wsd_job *job, size_t min, size_t *ret_size)
{
    struct held *h = held_of(job);

    if (min > WSD_RESERVE_MAX)
        return NULL;
    pthread_mutex_lock(&h->output_lock);
    h->reserved = 0;
    uint8_t *room = h->place ? reserve_in_place(h, min) : reserve_to_send(h, min);
    if (room)
        *ret_size = h->reserved;
    pthread_mutex_unlock(&h->output_lock);
    return room;
}

/* What was written to the memory that reserve_in_place() gave. [output_lock] */
static void commit_in_place(struct held *h, size_t size)
{
    if (!(h->offered->function->flags & WSD_FN_SHARED))
        memcpy(h->place + h->sent, h->out.data + h->out.end, size);
    h->sent += size;
}

static int service_commit(struct wsd_job *job, size_t size)
{
    struct held *h = held_of(job);
    int r = -EINVAL;

    pthread_mutex_lock(&h->output_lock);
    if (size <= h->reserved) {
        if (h->place)
            commit_in_place(h, size);
        else
            buffer_commit(&h->out, size);
        h->reserved = 0;
        r = 0;
    }
    pthread_mutex_unlock(&h->output_lock);
    return r;
}

/* [output_lock] As wsd_job_write(). */
static int write_to_send(struct held *h, const char *from, size_t size)
{
    int r = 0;

    while (r == 0 && size > 0) {
        size_t n = MIN(size, (size_t)FRAME_BODY_CHUNK);

        r = is_stopped(h) || buffer_put(&h->out, from, n) < 0 ? -ECANCELED : push_all_but(h, FRAME_BODY_CHUNK - 1);
        from += n;
        size -= n;
    }
    return r;
}

/* [output_lock] The same, into the arena. What is too much is left out. */
static int write_in_place(struct held *h, const char *from, size_t size)
{
    size_t n = (size_t)MIN((uint64_t)size, h->place_size - h->sent);

    if (h->overflow || is_stopped(h))
        return -ECANCELED;
    if (n > 0)
        memcpy(h->place + h->sent, from, n);
    h->sent += n;
    h->overflow = n < size;
    return h->overflow ? -ECANCELED : 0;
}

static int service_write(struct wsd_job *job, const void *data, size_t size)
{
    struct held *h = held_of(job);

    pthread_mutex_lock(&h->output_lock);
    h->reserved = 0;
    int r = h->place ? write_in_place(h, data, size) : write_to_send(h, data, size);
    pthread_mutex_unlock(&h->output_lock);
    return r;
}

static int service_flush(struct wsd_job *job)
{
    struct held *h = held_of(job);

    pthread_mutex_lock(&h->output_lock);
    h->reserved = 0;
    int r = push_all_but(h, 0);
    pthread_mutex_unlock(&h->output_lock);
    return r;
}

static int service_vprint(struct wsd_job *job, const char *format, va_list args)
{
    _cleanup_(freep) char *text = NULL;
    int n = vasprintf(&text, format, args);

    if (n < 0)
        text = NULL; /* it is undefined then */
    return n < 0 ? -ENOMEM : service_write(job, text, (size_t)n);
}

/* --- input -------------------------------------------------------------------------------------------------------- */

/* Where the program has its own loop, nothing else answers wsd, or hears that the job is to stop. [not with the
 * lock] */
static void look_after(struct held *h, uint64_t now_usec)
{
    struct wsd_runner *r = h->runner;

    if (h->attended || now_usec - atomic_load_explicit(&r->job_looked_usec, memory_order_relaxed) < LOOK_USEC)
        return;
    atomic_store_explicit(&r->job_looked_usec, now_usec, memory_order_relaxed);
    pthread_mutex_lock(&r->lock);
    wire_look(r);
    pthread_mutex_unlock(&r->lock);
}

/* The next bytes of a pipe. */
static int64_t read_pipe(struct held *h, void *data, size_t size)
{
    struct pollfd p = {.fd = h->fd, .events = POLLIN};

    for (;;) {
        look_after(h, clock_monotonic_usec());
        if (is_stopped(h))
            return -ECANCELED;
        if (poll(&p, 1, WAIT_MSEC) <= 0)
            continue;
        ssize_t n = read(h->fd, data, size);
        if (n >= 0)
            return n;
        if (errno != EINTR && errno != EAGAIN)
            return -ECANCELED;
    }
}

/* The next bytes of a part of a file. */
static int64_t read_file(struct held *h, void *data, size_t size)
{
    uint64_t left = h->job.input_size - h->read_at;
    ssize_t n = pread(h->fd, data, MIN(size, left), (off_t)(h->file_at + h->read_at));

    if (n < 0 || (n == 0 && left > 0)) {
        h->cut = true;
        return -ECANCELED;
    }
    h->read_at += (uint64_t)n;
    return n;
}

static int64_t service_read(struct wsd_job *job, void *data, size_t size)
{
    struct held *h = held_of(job);

    if (size == 0)
        return 0;
    if (h->fd >= 0 && !h->job.input)
        return h->is_pipe ? read_pipe(h, data, size) : read_file(h, data, size);
    const struct buffer *b = &h->input;
    const char *from = h->job.input ? h->job.input : (const char *)buffer_data(b);
    size = MIN(size, h->job.input_size - h->read_at);
    if (size > 0)
        memcpy(data, from + h->read_at, size);
    h->read_at += size;
    return (int64_t)size;
}

static int fail(struct held *h, int error, const char *what)
{
    snprintf(h->error, sizeof(h->error), "%s: %s", what, strerror(-error));
    return error;
}

/* All that can be read from the descriptor. */
static int read_all(struct held *h)
{
    for (;;) {
        uint8_t *room = buffer_reserve(&h->input, READ_ROOM);
        int64_t n;

        if (!room)
            return fail(h, -ENOMEM, "its input");
        n = h->is_pipe ? read_pipe(h, room, READ_ROOM) : read_file(h, room, READ_ROOM);
        if (n < 0)
            return h->cut ? fail(h, -EIO, "its input was cut") : fail(h, -ECANCELED, "its input");
        if (n == 0)
            return 0;
        buffer_commit(&h->input, (size_t)n);
    }
}

static uint64_t before_page(uint64_t at)
{
    return at % (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool is_sealed(int fd, int against)
{
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && seals & against;
}

/* Of a file that cannot be cut. NULL: it is none, or not so long, or cannot be mapped. */
static void *map_part(int fd, uint64_t at, uint64_t size, int protection)
{
    struct stat st;

    if (!is_sealed(fd, F_SEAL_SHRINK) || fstat(fd, &st) < 0 || (uint64_t)st.st_size < at ||
        (uint64_t)st.st_size - at < size)
        return NULL;
    char *map = mmap(NULL, (size_t)(size + before_page(at)), protection, MAP_SHARED, fd, (off_t)(at - before_page(at)));
    return map == MAP_FAILED ? NULL : map + before_page(at);
}

static void unmap_part(const void *part, uint64_t at, uint64_t size)
{
    if (part)
        munmap((char *)(uintptr_t)part - before_page(at), (size_t)(size + before_page(at)));
}

/* Where no process can cut or change it, or its function can cope with that, the pages are the submitter's own. */
static bool map_input(struct held *h)
{
    bool shared = h->offered->function->flags & WSD_FN_SHARED;

    if (h->is_pipe || h->job.input_size == 0 || !(shared || is_sealed(h->fd, F_SEAL_WRITE)))
        return false;
    h->job.input = h->map = map_part(h->fd, h->file_at, h->job.input_size, PROT_READ);
    return h->map;
}

/* 0 or a negative errno, with words. */
static int map_place(struct held *h)
{
    if (h->place_fd < 0)
        return 0;
    h->place = map_part(h->place_fd, h->place_at, h->place_size, PROT_READ | PROT_WRITE);
    return h->place ? 0 : fail(h, -ENOMEM, "its part of the arena");
}

static int settle_input(struct held *h)
{
    bool streams = h->offered->function->flags & WSD_FN_STREAMING;

    if (h->fd >= 0 && !streams && !map_input(h)) {
        int r = read_all(h);
        if (r < 0)
            return r;
    }
    h->read_at = 0;
    if (h->map || (streams && h->fd >= 0))
        return 0;
    if (buffer_size(&h->input) > 0 || h->fd >= 0) {
        h->job.input_size = buffer_size(&h->input);
        h->job.input = buffer_data(&h->input);
    }
    if (h->job.input_size == 0)
        h->job.input = NULL;
    if (streams) { /* service_read() has it all the same */
        if (h->job.input && buffer_size(&h->input) == 0 && buffer_put(&h->input, h->job.input, h->job.input_size) < 0)
            return fail(h, -ENOMEM, "its input");
        h->job.input = NULL;
    }
    return 0;
}

int held_settle(struct held *h)
{
    int r = map_place(h);

    return r < 0 ? r : settle_input(h);
}

int held_more_input(struct held *h, const struct frame *frame)
{
    return buffer_put(&h->input, frame->body, frame->body_size) < 0 ? -ENOMEM : 0;
}

/* --- the rest of the services ------------------------------------------------------------------------------------- */

static bool is_answered(const void *arg)
{
    const struct asked_file *f = arg;

    return f->answered || is_stopped(f->held); /* also if its connection is over, though there is another one now */
}

/* Through wsd, with the submitter's rights. */
static int ask_for_file(struct held *h, const char *path)
{
    struct wsd_runner *r = h->runner;
    struct asked_file f = {.held = h, .result = -ENOTCONN};
    struct msg msg = {.type = FRAME_RUN_OPEN, .run_open = {.run = h->run}};

    msg.run_open.path = (struct span){.data = path, .size = strlen(path)};
    if (msg.run_open.path.size >= CODEC_PATH_MAX)
        return -ENAMETOOLONG;
    pthread_mutex_lock(&r->lock);
    f.serial = msg.run_open.serial = ++r->serial;
    list_push_back(&h->files, &f.link);
    if (!is_lost(h) && wire_put(r, &msg, NULL, 0) == 0) {
        wire_drain(r);
        wire_wait(r, UINT64_MAX, false, is_answered, &f);
    }
    list_remove(&f.link);
    pthread_mutex_unlock(&r->lock);
    return f.result;
}

static int service_open(struct wsd_job *job, const char *path)
{
    struct held *h = held_of(job);
    _cleanup_(close_fdp) int at = -1;

    if (!*path)
        return -ENOENT;
    if (h->asks)
        return ask_for_file(h, path);
    if (path[0] == '/')
        return open_regular(AT_FDCWD, path);
    if (!h->directory)
        return -ENOENT;
    at = open(h->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return at < 0 ? -errno : open_regular(at, path);
}

static const char *service_directory(struct wsd_job *job)
{
    const struct held *h = held_of(job);

    return h->asks ? NULL : h->directory ? h->directory : "";
}

static bool service_cancelled(struct wsd_job *job)
{
    struct held *h = held_of(job);

    if (!h->attended || h->job.deadline_usec) {
        uint64_t now = clock_monotonic_usec();

        if (h->job.deadline_usec && now >= h->job.deadline_usec)
            return true;
        look_after(h, now);
    }
    return is_stopped(h);
}

/* [not with the lock] */
static void say(struct held *h, const struct msg *msg)
{
    struct wsd_runner *r = h->runner;

    pthread_mutex_lock(&r->lock);
    if (!is_lost(h) && wire_put(r, msg, NULL, 0) == 0)
        wire_drain(r);
    pthread_mutex_unlock(&r->lock);
}

/* [lock of the runner] */
static void tell_progress(struct held *h)
{
    const struct msg msg = {.type = FRAME_RUN_PROGRESS,
                            .run_progress = {.run = h->run, .done = h->done, .total = h->total}};

    if (h->progress_due && !is_lost(h))
        (void)wire_put(h->runner, &msg, NULL, 0); /* if it fails, the connection is over */
    h->progress_due = false;
}

/* A frame each PROGRESS_USEC at most. The last one goes with the end. */
static void service_progress(struct wsd_job *job, uint64_t done, uint64_t total)
{
    struct held *h = held_of(job);
    struct wsd_runner *r = h->runner;
    uint64_t now = clock_monotonic_usec();

    pthread_mutex_lock(&r->lock);
    h->done = done;
    h->total = total;
    h->progress_due = true;
    if (now - h->progress_usec >= PROGRESS_USEC) {
        h->progress_usec = now;
        tell_progress(h);
        wire_drain(r);
    }
    pthread_mutex_unlock(&r->lock);
}

static void service_vlog(struct wsd_job *job, int level, const char *format, va_list args)
{
    struct held *h = held_of(job);
    struct msg msg = {.type = FRAME_RUN_MESSAGE, .run_message = {.run = h->run, .level = (uint32_t)level & 7u}};
    char text[WSD_TEXT_MAX];

    escape_format(text, format, args);
    msg.run_message.text = (struct span){.data = text, .size = strlen(text)};
    say(h, &msg);
}

static void service_verror(struct wsd_job *job, const char *format, va_list args)
{
    struct held *h = held_of(job);

    pthread_mutex_lock(&h->runner->lock);
    escape_format(h->error, format, args);
    pthread_mutex_unlock(&h->runner->lock);
}

static void service_vstatus(struct wsd_job *job, const char *format, va_list args)
{
    struct held *h = held_of(job);

    pthread_mutex_lock(&h->runner->lock);
    escape_format(h->status, format, args);
    pthread_mutex_unlock(&h->runner->lock);
}

static int service_command(struct wsd_job *job, const struct wsd_command *command)
{
    return -ENOSYS;
}

static const char *service_traceparent(struct wsd_job *job)
{
    const struct held *h = container_of(job, struct held, job);

    return *h->traceparent ? h->traceparent : NULL;
}

static const struct wsd_job_ops services = {
    .size = sizeof(struct wsd_job_ops),
    .reserve = service_reserve,
    .commit = service_commit,
    .write = service_write,
    .flush = service_flush,
    .read = service_read,
    .open = service_open,
    .directory = service_directory,
    .cancelled = service_cancelled,
    .progress = service_progress,
    .vlog = service_vlog,
    .verror = service_verror,
    .vstatus = service_vstatus,
    .vprint = service_vprint,
    .command = service_command,
    .traceparent = service_traceparent,
};
_Static_assert(offsetof(struct wsd_job_ops, traceparent) + sizeof(services.traceparent) == sizeof(services),
               "each service is here");

/* --- beginning and end -------------------------------------------------------------------------------------------- */

static struct offered *find_offered(struct wsd_runner *r, struct span name)
{
    if (r->offer->name[0] == '@') /* a place, which offers one function for all */
        return &r->offered[0];
    for (uint32_t i = 0; i < r->offer->n_functions; i++) {
        const char *n = r->offered[i].function->name;

        if (strlen(n) == name.size && memcmp(n, name.data, name.size) == 0)
            return &r->offered[i];
    }
    return NULL;
}

/* argv points to what lies behind it: the arguments, the directory, the function's name, the key, the traceparent, the
 * input. */
static void lay_out(struct held *h, const struct msg_run *run, const struct frame *frame)
{
    const struct msg_submit *s = &run->job;
    const char **argv = (const char **)(void *)h->texts;
    char *at = (char *)(argv + s->argc + 2);

    if (s->args.size > 0)
        memcpy(at, s->args.data, s->args.size);
    for (uint32_t i = 0; i < s->argc; i++, at += strlen(at) + 1)
        argv[i + 1] = at;
    argv[s->argc + 1] = NULL;
    if (run->directory.size > 0) {
        memcpy(at, run->directory.data, run->directory.size);
        at[run->directory.size] = 0;
        h->directory = at;
        at += run->directory.size + 1;
    }
    memcpy(at, s->function.data, s->function.size);
    at[s->function.size] = 0;
    argv[0] = at;
    at += s->function.size + 1;
    memcpy(at, s->key.data, s->key.size);
    at[s->key.size] = 0;
    h->key = at;
    at += s->key.size + 1;
    memcpy(at, s->traceparent.data, s->traceparent.size);
    at[s->traceparent.size] = 0;
    h->traceparent = at;
    at += s->traceparent.size + 1;
    if (frame->body_size > 0)
        memcpy(at, frame->body, frame->body_size);
    h->job.argc = s->argc + 1;
    h->job.argv = argv;
    h->job.input = h->fd < 0 && frame->body_size ? at : NULL;
    h->job.input_size = h->fd >= 0 ? s->input_size : frame->body_size;
}

struct held *held_new(struct wsd_runner *r, const struct msg_run *run, const struct frame *frame, int fd)
{
    const struct msg_submit *s = &run->job;
    struct offered *o = find_offered(r, s->function);
    struct held *h = o ? malloc(sizeof(*h) + (s->argc + 2) * sizeof(char *) + s->args.size + run->directory.size + 1 +
                                s->function.size + 1 + s->key.size + 1 + s->traceparent.size + 1 + frame->body_size)
                       : NULL;

    if (!h) {
        close_fd(fd);
        return NULL;
    }
    memset(h, 0, sizeof(*h));
    h->runner = r;
    h->offered = o;
    h->run = run->run;
    h->n_connection = r->n_connection;
    h->uid = run->uid;
    h->attempt = run->attempt;
    h->priority = s->priority;
    h->asks = s->flags & RUN_ASKS;
    h->fd = s->input_from == RUN_INPUT_BODY ? -1 : fd;
    h->is_pipe = fd >= 0 && s->input_from == RUN_INPUT_PIPE;
    h->place_fd = s->output_size ? fd : -1;
    h->place_at = s->output_offset;
    h->place_size = s->output_size;
    h->file_at = s->input_offset;
    h->allowed = RUNNER_WINDOW;
    list_init(&h->link);
    list_init(&h->files);
    pthread_mutex_init(&h->output_lock, NULL);
    lay_out(h, run, frame);
    h->job.size = sizeof(h->job);
    h->job.deadline_usec = s->timeout_usec ? clock_monotonic_usec() + s->timeout_usec : 0;
    memcpy(h->job.id, run->id, sizeof(h->job.id));
    h->job.ops = &services;
    return h;
}

struct held *held_free(struct held *h)
{
    if (!h)
        return NULL;
    list_remove(&h->link);
    close_fd(h->fd);
    unmap_part(h->map, h->file_at, h->job.input_size);
    unmap_part(h->place, h->place_at, h->place_size);
    if (h->place_fd != h->fd)
        close_fd(h->place_fd);
    buffer_deinit(&h->input);
    buffer_deinit(&h->out);
    pthread_mutex_destroy(&h->output_lock);
    free(h);
    return NULL;
}

/* The output that goes with the end: beyond the window only a little may. */
static size_t send_rest(struct held *h)
{
    if (h->place)
        return 0;
    size_t most = MIN((size_t)FRAME_BODY_CHUNK, (size_t)(h->allowed - h->sent) + RUNNER_BEYOND);

    while (buffer_size(&h->out) > most && push(h, buffer_size(&h->out) - 1) == 0)
        most = MIN((size_t)FRAME_BODY_CHUNK, (size_t)(h->allowed - h->sent) + RUNNER_BEYOND);
    return MIN(buffer_size(&h->out), most); /* what a job that was stopped has beyond that is not sent */
}

static int tell_end(struct held *h, int status, uint64_t cpu_usec, bool flush)
{
    struct wsd_runner *r = h->runner;
    size_t rest = is_lost(h) ? 0 : send_rest(h);

    tell_progress(h);
    struct msg msg = {.type = FRAME_RUN_END,
                      .run_end = {.run = h->run, .cpu_usec = cpu_usec, .placed = h->place ? h->sent : 0}};

    if (h->overflow) {
        status = WSD_STATUS_MAX;
        snprintf(h->error, sizeof(h->error), "its output is larger than its part of the arena");
    }
    if (h->cut && status == 0) {
        status = WSD_STATUS_MAX;
        snprintf(h->error, sizeof(h->error), "its input was cut while it ran, or could not be read to its end");
    }
    msg.run_end.state = h->ends_as;
    msg.run_end.status = status < 0 || status > WSD_STATUS_MAX ? WSD_STATUS_MAX : (uint32_t)status;
    if (msg.run_end.status > 0)
        msg.run_end.error = (struct span){.data = h->error, .size = strlen(h->error)};
    msg.run_end.text = (struct span){.data = h->status, .size = strlen(h->status)};
    if (is_lost(h) || wire_put(r, &msg, buffer_data(&h->out), rest) < 0)
        return -ECONNRESET;
    if (flush)
        wire_drain(r);
    return 0;
}

int held_end(struct held *h, int status, uint64_t cpu_usec, bool flush)
{
    int r = tell_end(h, status, cpu_usec, flush);

    held_free(h);
    return r;
}
