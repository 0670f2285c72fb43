/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-runner.c: any bytes from a peer that claims to be wsd, through the runner of the client library.
 * Input: a byte of flags, the size of the script (a byte), the script, the stream. Flag bit 0: a right WELCOME and
 * RUNNER come first. The script says how the stream is cut, where descriptors come, and what the jobs do. The linker
 * puts stand-ins where the library asks the kernel, so that nothing waits.
 * Keeps: a job has arguments as main() has, is one of the functions that are offered, and its input can be read to its
 * end. Everything that is sent is frames of the protocol, and no run sends more output than it was allowed. */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/codec.h"
#include "wsd/runner.h"

#define JOBS_MAX   32
#define RUNS_MAX   64
#define STREAM_MAX (70u * 1024u)
#define WINDOW     (128u * 1024u)
#define BEYOND     4096u

int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_shutdown(int fd, int how);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *header, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask);

static const uint8_t *script, *stream;
static size_t script_size, stream_size, alone_size; /* alone_size: of WELCOME, which comes by itself */

static unsigned choice(void)
{
    if (script_size == 0)
        return 0;
    script_size--;
    return *script++;
}

/* --- what is sent ------------------------------------------------------------------------------------------------- */

/* A run of which something was said. */
static struct said {
    uint64_t run, sent;
} said[RUNS_MAX];
static size_t n_said;
static uint8_t sent[4u << 20];
static size_t sent_size;
static uint64_t allowed; /* beyond the window: all that the stream allows any run */
static bool repeats;     /* the stream begins a run twice: then it is not known which one a frame is of */

static struct said *said_of(uint64_t run)
{
    for (size_t i = 0; i < n_said; i++)
        if (said[i].run == run)
            return &said[i];
    if (n_said == RUNS_MAX)
        return NULL;
    said[n_said] = (struct said){.run = run};
    return &said[n_said++];
}

static void check_said(const struct frame *frame, const struct msg *msg)
{
    bool ends = msg->type == FRAME_RUN_END;
    struct said *s = ends                            ? said_of(msg->run_end.run)
                     : msg->type == FRAME_RUN_OUTPUT ? said_of(msg->run_chunk.run)
                                                     : NULL;

    if (!s || repeats)
        return;
    FUZZ_CHECK(ends || msg->run_chunk.offset == s->sent);
    s->sent += frame->body_size;
    FUZZ_CHECK(s->sent <= WINDOW + allowed + (ends ? BEYOND : 0));
}

/* All whole frames. */
static void check_sent(void)
{
    struct codec *codec = NULL;
    size_t at = 0, size = 0;
    struct frame frame;
    struct msg msg;

    FUZZ_CHECK(codec_new(&codec) == 0);
    for (int r; (r = frame_parse(sent + at, sent_size - at, &frame, &size)) != FRAME_MORE; at += size) {
        FUZZ_CHECK(r == 0 && codec_decode(codec, &frame, &msg) == 0);
        check_said(&frame, &msg);
    }
    codec_free(codec);
}

/* What the whole frames of the stream allow, and whether a run is there twice. */
static void foresee(const uint8_t *from, size_t left)
{
    struct codec *codec = NULL;
    size_t size = 0;
    struct frame frame;
    struct msg msg;

    allowed = 0;
    repeats = false;
    FUZZ_CHECK(codec_new(&codec) == 0);
    for (; frame_parse(from, left, &frame, &size) == 0; from += size, left -= size) {
        if (codec_decode(codec, &frame, &msg) != 0)
            break;
        if (msg.type == FRAME_RUN_CREDIT)
            allowed += msg.run_credit.bytes > UINT32_MAX ? UINT32_MAX : msg.run_credit.bytes;
        if (msg.type == FRAME_RUN) {
            size_t before = n_said;
            repeats |= !said_of(msg.run.run) || n_said == before;
        }
    }
    codec_free(codec);
}

/* --- the kernel --------------------------------------------------------------------------------------------------- */

int __wrap_socket(int domain, int type, int protocol)
{
    return open("/dev/null", O_RDWR | O_CLOEXEC);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size)
{
    return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    return 0;
}

int __wrap_shutdown(int fd, int how)
{
    return 0;
}

ssize_t __wrap_recv(int fd, void *data, size_t size, int flags)
{
    unsigned cut = alone_size ? 0 : choice();
    size_t n = cut == 0 ? stream_size : cut < 128 ? cut : 16 * (size_t)cut;

    if (alone_size) {
        n = alone_size;
        alone_size = 0;
    } else if (cut == 255) {
        errno = EAGAIN;
        return -1;
    }
    n = n < stream_size ? n : stream_size;
    n = n < size ? n : size;
    memcpy(data, stream, n);
    stream += n;
    stream_size -= n;
    return (ssize_t)n;
}

/* A memory file: sealed, so that it is mapped, or not. */
static int some_file(unsigned how)
{
    int fd = memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && (ftruncate(fd, how & 1 ? 4000 : 100000) < 0 ||
                    (how & 2 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE) < 0)))
        close(fd), fd = -1;
    return fd;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *header, int flags)
{
    unsigned how = choice();
    int brought = how > 128 ? some_file(how) : -1;
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(header);

    header->msg_controllen = 0;
    header->msg_flags = 0;
    if (brought >= 0) {
        *cmsg =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(brought))};
        memcpy(CMSG_DATA(cmsg), &brought, sizeof(brought));
        header->msg_controllen = CMSG_SPACE(sizeof(brought));
    }
    ssize_t n = __wrap_recv(fd, header->msg_iov->iov_base, header->msg_iov->iov_len, flags);
    if (n <= 0 && brought >= 0)
        close(brought);
    return n;
}

ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    unsigned how = choice();
    size_t n = how == 0 || how > size ? size : how;

    if (how >= 250 || n > sizeof(sent) - sent_size) {
        errno = how == 250 ? EPIPE : EAGAIN;
        return -1;
    }
    memcpy(sent + sent_size, data, n);
    sent_size += n;
    return (ssize_t)n;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
    if (n == 0)
        return 0;
    fds->revents = fds->events;
    return 1;
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    for (nfds_t i = 0; i < n; i++)
        fds[i].revents = 0;
    fds->revents = (short)(POLLIN | (fds->events & POLLOUT));
    return 1;
}

/* --- the runner --------------------------------------------------------------------------------------------------- */

static const struct wsd_function functions[] = {
    {.name = "plain", .help = "", .flags = 0},
    {.name = "stream", .help = "", .flags = WSD_FN_STREAMING},
};
static const struct wsd_plugin offer = {.size = sizeof(offer),
                                        .abi = WSD_PLUGIN_ABI,
                                        .function_size = sizeof(struct wsd_function),
                                        .n_functions = 2,
                                        .functions = functions,
                                        .name = "fuzzed"};

static void check_job(struct wsd_job *job)
{
    size_t sum = 0;

    FUZZ_CHECK(job->argc >= 1 && !job->argv[job->argc]);
    FUZZ_CHECK(strcmp(job->argv[0], "plain") == 0 || strcmp(job->argv[0], "stream") == 0);
    for (uint32_t i = 0; i < job->argc; i++)
        sum += strlen(job->argv[i]);
    FUZZ_CHECK(!job->input || job->argv[0][0] == 'p');
    for (uint64_t i = 0; job->input && i < job->input_size; i += 97)
        sum += ((const uint8_t *)job->input)[i];
    FUZZ_CHECK(sum < UINT32_MAX);
}

static int do_something(struct wsd_job *job)
{
    static const char data[200000];
    static char room[70000];
    struct wsd_run_info info = {.size = sizeof(info)};
    unsigned what = choice();
    size_t n = 0;
    int fd;

    switch (what % 8) {
    case 0:
        while (wsd_job_read(job, room, sizeof(room)) > 0)
            ;
        break;
    case 1:
        wsd_job_write(job, data, what * 700);
        break;
    case 2:
        if (wsd_job_reserve(job, what * 20, &n)) {
            FUZZ_CHECK(n >= what * 20 && wsd_job_commit(job, n + 1) == -EINVAL);
            wsd_job_commit(job, what % 128 < n ? what % 128 : n);
        }
        break;
    case 3:
        fd = wsd_job_open(job, "some/file");
        if (fd >= 0)
            close(fd);
        break;
    case 4:
        wsd_job_progress(job, what, 256);
        wsd_job_log(job, WSD_LOG_INFO, "step %u\033", what);
        wsd_job_status(job, "%s", job->argv[job->argc - 1]);
        break;
    case 5:
        wsd_job_flush(job);
        break;
    default:
        (void)wsd_job_cancelled(job);
        FUZZ_CHECK(wsd_runner_info(job, &info) == 0);
    }
    return what > 200 ? wsd_job_fail(job, (int)what, "no good: %u", what) : 0;
}

static void serve(struct wsd_runner *runner)
{
    struct wsd_job *held[JOBS_MAX], *job;
    size_t n = 0;

    for (int turn = 0; turn < 200; turn++) {
        int r = wsd_runner_next(runner, choice() & 1 ? 1000 : 0, &job);
        if (r == 1) {
            check_job(job);
            held[n++] = job;
        }
        for (size_t i = 0; i < n; i++) {
            int status = do_something(held[i]);
            if (status == 0 && n < JOBS_MAX / 2 && r >= 0)
                continue;
            wsd_runner_finish(runner, held[i], status);
            held[i--] = held[--n];
        }
        if (r < 0)
            break;
        if (choice() == 77)
            wsd_runner_leave(runner);
    }
    while (n > 0 && choice() != 1)
        wsd_runner_finish(runner, held[--n], 0);
}

static size_t put(uint8_t *to, const struct msg *msg, uint32_t tag)
{
    return codec_encode(msg, tag, 0, to, codec_room(msg));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[STREAM_MAX + 4096];
    const struct wsd_runner_options options = {.size = sizeof(options), .socket = "/fuzz", .credit = 8};
    struct wsd_runner *runner = NULL;

    if (size < 2 || size > STREAM_MAX)
        return 0;
    bool greets = data[0] & 1;
    script = data + 2;
    script_size = data[1] < size - 2 ? data[1] : size - 2;
    stream = bytes;
    stream_size = alone_size = sent_size = n_said = 0;
    if (greets) {
        const struct msg welcome = {
            .type = FRAME_WELCOME,
            .welcome = {.version = 1, .features = FEATURES_ALL, .window = 65536, .program = {"wsd", 3}}};

        alone_size = stream_size = put(bytes, &welcome, 0);
        stream_size += put(bytes + stream_size, &(struct msg){.type = FRAME_RUNNER}, 1);
    }
    memcpy(bytes + stream_size, script + script_size, size - 2 - script_size);
    stream_size += size - 2 - script_size;
    foresee(bytes, stream_size);
    if (wsd_runner_new(&runner, &options) == 0 && wsd_runner_offer(runner, &offer) == 0 &&
        wsd_runner_connect(runner, 1000000) == 0)
        serve(runner);
    FUZZ_CHECK(!runner || strlen(wsd_runner_error(runner)) < 512);
    wsd_runner_free(runner);
    check_sent();
    return 0;
}
