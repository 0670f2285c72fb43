/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-dispatch.c: whole connections through the frontend and the job table, with a store and an executor
 * (tests/support/shims/liar.c, which answers every job).
 * Input: two bytes of features that the client agrees to, beside all from the 17th on, then frames. A frame is a type, a
 * tag, the size of the header (a byte), the size of the body (a byte, times 16), and both. They are shorter where the
 * input ends. Bit 7 of a tag cuts the frame after its header. A HELLO comes first, unless the first frame is one.
 * Type 255 lets the executor work for a moment. Type 254 has no frame: the next one brings descriptors, which the halves
 * of the tag name (see enum given).
 * An id of ID_FILL, but for the last byte, stands for one that wsd has told: the last byte says which. So does a run
 * below RUNS of a frame of a runner.
 * Keeps: Whatever wsd answers is whole frames that decode. No connection and no call is left behind.
 * One wsd serves WSD_INPUTS inputs, so that what one leaves (detached jobs, gates, schedules) meets the next. An input
 * alone may therefore not do what it did behind others. */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "frontend/peer.h"
#include "configuration/configuration.h"
#include "configuration/effects.h"

#define WSD_INPUTS  256
#define TURNS_MAX   100
#define MOMENT_USEC 3000
#define TYPE_LAST   53
#define TYPE_GIVE   254
#define TYPE_WAIT   255
#define FILE_SIZE   65536
#define ID_SIZE     16
#define ID_FILL     0xda
#define IDS         16u
#define RUNS        8u

static struct config config;
static struct event_base *base;
static struct event *moment;
static struct jobs *jobs;
static struct frontend *frontend;
static struct jobs_domain *domains;
static struct codec *codec;
static char state[64];
static unsigned n_inputs;
static uint8_t said[4u << 20];
static size_t n_said, n_heard;    /* of them, what was looked at for ids */
static uint8_t ids[IDS][ID_SIZE]; /* that were told, the latest ones, as are the runs */
static uint64_t runs[RUNS];
static unsigned n_ids, n_runs;

/* Descriptors that a client may send. */
enum given {
    GIVE_NONE,
    GIVE_FILE,
    GIVE_ARENA,
    GIVE_PIPE_OUT,
    GIVE_PIPE_IN,
    GIVE_DIRECTORY,
    GIVE_NULL,
    GIVE_SOCKET,
    GIVEN
};
static enum given gives[2]; /* with the next frame */
static int given[GIVEN];

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path);
}

static bool enabled(const char *plugin, bool opt_in, void *context)
{
    return strcmp(plugin, "off") != 0;
}

static void on_moment(evutil_socket_t fd, short what, void *userdata)
{
}

/* Until something comes, but not for long. */
static void wait_a_moment(void)
{
    event_add(moment, &(struct timeval){.tv_usec = MOMENT_USEC});
    event_base_loop(base, EVLOOP_ONCE);
    event_del(moment);
}

static void wsd_end(void)
{
    if (!base)
        return;
    frontend = frontend_free(frontend);
    jobs = jobs_free(jobs);
    event_free(TAKE(moment));
    free(TAKE(domains));
    event_base_free(TAKE(base));
    nftw(state, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Nothing reads from the pipe, nor from the socket. */
static void make_given(void)
{
    int ends[2];

    given[GIVE_FILE] = memfd_create("fuzz-file", MFD_CLOEXEC);
    given[GIVE_ARENA] = memfd_create("fuzz-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    FUZZ_CHECK(ftruncate(given[GIVE_FILE], FILE_SIZE) == 0 && ftruncate(given[GIVE_ARENA], FILE_SIZE) == 0);
    FUZZ_CHECK(fcntl(given[GIVE_ARENA], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    FUZZ_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    given[GIVE_PIPE_IN] = ends[0];
    given[GIVE_PIPE_OUT] = ends[1];
    given[GIVE_DIRECTORY] = open("/", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    given[GIVE_NULL] = open("/dev/null", O_RDWR | O_CLOEXEC);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    given[GIVE_SOCKET] = ends[0];
}

static void wsd_begin(void)
{
    static int executor = -1;
    uint32_t n_domains;

    snprintf(state, sizeof(state), "%s/fuzz-dispatch.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (executor < 0) {
        executor = open(WSD_LIAR, O_RDONLY | O_CLOEXEC);
        FUZZ_CHECK(executor >= 0 && config_init(&config) == 0 && codec_new(&codec) == 0);
        signal(SIGPIPE, SIG_IGN);
        log_set_level(-1);
        make_given();
        atexit(wsd_end);
    }
    FUZZ_CHECK(mkdtemp(state));
    base = event_base_new();
    domains = config_domains(&config, &n_domains);
    moment = evtimer_new(base, on_moment, NULL);
    FUZZ_CHECK(base && domains && moment);
    struct jobs_options options = {.base = base,
                                   .limits = config.limits,
                                   .executor_fd = executor,
                                   .workers = 1,
                                   .stack_size = config.stack_size,
                                   .plugin_dirs = "/nonexistent",
                                   .own_uid = geteuid(),
                                   .user_daemon = true,
                                   .log_level = 0,
                                   .state_dir = state,
                                   .sandbox = "",
                                   .domains = domains,
                                   .n_domains = n_domains,
                                   .spawner = "/nonexistent",
                                   .plugin_enabled = enabled};
    options.limits.jobs_per_user = 500;
    options.limits.bytes_per_user = 4u << 20;
    options.limits.store_bytes = 4u << 20;
    FUZZ_CHECK(jobs_new(&jobs, &options) == 0 && jobs_start(jobs) == 0);
    const struct frontend_options f = {.base = base,
                                       .jobs = jobs,
                                       .only_own_user = true,
                                       .own_uid = geteuid(),
                                       .limits = config.frontend_limits,
                                       .rules = &config.access};
    FUZZ_CHECK(frontend_new(&frontend, &f) == 0);
}

static bool turn(void)
{
    bool more = frontend_serve(frontend);

    more |= jobs_poll(jobs);
    more |= frontend_flush(frontend);
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    return more;
}

/* What wsd says. False: nothing now. */
static bool hear(int fd)
{
    ssize_t n = recv(fd, said + n_said, sizeof(said) - n_said, MSG_DONTWAIT);

    if (n > 0)
        n_said += (size_t)n;
    return n > 0;
}

static void turns(int fd)
{
    bool more = true;

    for (int i = 0; i < TURNS_MAX && more; i++) {
        more = turn();
        more |= hear(fd);
    }
}

/* As send(), with the descriptors that are to come with it. */
static ssize_t send_given(int fd, const uint8_t *data, size_t size)
{
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec v = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};
    int fds[2], n = 0;

    for (int i = 0; i < 2; i++)
        if (gives[i])
            fds[n++] = given[gives[i]];
    if (n) {
        h.msg_control = control.bytes;
        h.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
        memcpy(CMSG_DATA(&control.align), fds, (size_t)n * sizeof(int));
    }
    ssize_t sent = sendmsg(fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0)
        gives[0] = gives[1] = GIVE_NONE;
    return sent;
}

static void put(int fd, const uint8_t *data, size_t size)
{
    for (int i = 0; size && i < TURNS_MAX; i++) {
        ssize_t n = send_given(fd, data, size);

        if (n < 0 && errno != EAGAIN)
            return; /* it has been closed */
        n = MAX(n, 0);
        data += n;
        size -= (size_t)n;
        turns(fd);
    }
}

/* Notes the ids and runs of what wsd has said since. */
static void look_for_ids(void)
{
    struct frame frame;
    size_t used;

    for (; frame_parse(said + n_heard, n_said - n_heard, &frame, &used) == 0; n_heard += used) {
        const uint8_t *h = frame.header;

        if (frame.type == FRAME_RUN && frame.header_size > 0) {
            struct msg m;

            FUZZ_CHECK(codec_decode(codec, &frame, &m) == 0);
            runs[n_runs++ % RUNS] = m.run.run;
        } else if (frame.header_size >= ID_SIZE + 2 && h[0] == 0x0a && h[1] == ID_SIZE) {
            memcpy(ids[n_ids++ % IDS], h + 2, ID_SIZE); /* it is field 1 of all that have one */
        }
    }
}

static void fill_in_ids(uint8_t *header, size_t size)
{
    uint8_t fill[ID_SIZE - 1];

    memset(fill, ID_FILL, sizeof(fill));
    for (uint8_t *end = header + size, *at = header; (size_t)(end - at) >= ID_SIZE; at += ID_SIZE) {
        at = memmem(at, (size_t)(end - at) - 1, fill, sizeof(fill));
        if (!at)
            return;
        memcpy(at, ids[at[ID_SIZE - 1] % IDS], ID_SIZE);
    }
}

/* Writes the header of a frame of a runner, with the run as its field 1. Returns its size. */
static size_t fill_in_run(uint8_t *to, const uint8_t *header, size_t size)
{
    size_t n = 0;

    if (size < 2 || header[0] != 0x08 || header[1] >= RUNS) {
        memcpy(to, header, size);
        return size;
    }
    to[n++] = header[0];
    for (uint64_t run = runs[header[1]]; n == 1 || run; run >>= 7)
        to[n++] = (uint8_t)((run & 0x7f) | (run > 0x7f ? 0x80 : 0));
    memcpy(to + n, header + 2, size - 2);
    return n + size - 2;
}

/* A frame as it is in the input: its type, its tag, and where its parts are. */
struct part {
    uint8_t type, tag;
    const uint8_t *header, *body;
    size_t header_size, body_size;
};

static struct part take_part(const uint8_t **data, size_t *size)
{
    const uint8_t *p = *data;
    size_t left = *size - 4, header_size = MIN(p[2], left), body_size = MIN(p[3] * 16u, left - header_size);

    *data += 4 + header_size + body_size;
    *size -= 4 + header_size + body_size;
    return (struct part){.type = p[0] >= TYPE_GIVE ? p[0] : p[0] % TYPE_LAST,
                         .tag = p[1],
                         .header = p + 4,
                         .body = p + 4 + header_size,
                         .header_size = header_size,
                         .body_size = body_size};
}

static void put_frame(int fd, const struct part *f)
{
    static uint8_t bytes[FRAME_MAX];
    uint8_t *header = bytes + FRAME_HEADER_SIZE;
    size_t size = f->header_size;

    look_for_ids();
    if (f->type >= FRAME_RUN_OUTPUT && f->type <= FRAME_RUN_PONG)
        size = fill_in_run(header, f->header, size);
    else
        memcpy(header, f->header, size);
    fill_in_ids(header, size);
    memcpy(header + size, f->body, f->body_size);
    frame_put_header(bytes, f->type, f->tag & 0x7f, (uint32_t)size, (uint32_t)f->body_size);
    put(fd, bytes, FRAME_HEADER_SIZE + (f->tag & 0x80 ? size / 2 : size + f->body_size));
}

static void put_part(int fd, const struct part *f)
{
    if (f->type == TYPE_GIVE) {
        gives[0] = f->tag % 16 % GIVEN;
        gives[1] = f->tag / 16 % GIVEN;
        return;
    }
    if (f->type == TYPE_WAIT)
        wait_a_moment();
    else
        put_frame(fd, f);
    turns(fd);
}

static void check_said(void)
{
    const uint8_t *p = said;
    struct frame frame;
    struct msg msg;
    size_t used;

    for (size_t left = n_said; left; p += used, left -= used) {
        int r = frame_parse(p, left, &frame, &used);

        if (r == FRAME_MORE && n_said == sizeof(said))
            break; /* more than is looked at */
        FUZZ_CHECK(r == 0 && codec_decode(codec, &frame, &msg) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct msg hello = {.type = FRAME_HELLO,
                        .hello = {.version_min = 1, .version_max = 1, .window = 1 << 16, .directory = {"/", 1}}};
    uint8_t bytes[256];
    int pair[2];

    if (size < 2)
        return 0;
    if (n_inputs++ % WSD_INPUTS == 0) {
        wsd_end();
        wsd_begin();
    }
    n_said = n_heard = 0;
    gives[0] = gives[1] = GIVE_NONE;
    hello.hello.features = data[0] | (uint64_t)data[1] << 8 | (FEATURES_ALL & ~UINT64_C(0xffff));
    data += 2;
    size -= 2;
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    FUZZ_CHECK(peer_new(frontend, pair[1], false, NULL) == 0);
    if (size < 4 || data[0] != FRAME_HELLO)
        put(pair[0], bytes, codec_encode(&hello, 0, 0, bytes, sizeof(bytes)));
    while (size >= 4) {
        const struct part f = take_part(&data, &size);

        put_part(pair[0], &f);
    }
    turns(pair[0]);
    close(pair[0]);
    for (int i = 0; i < TURNS_MAX * 10 && frontend->n_peers; i++) {
        turn();
        if (i >= TURNS_MAX)
            poll(NULL, 0, 1); /* one that is refused too often is not read from for a while */
    }
    FUZZ_CHECK(frontend->n_peers == 0 && frontend->calls.n == 0 && frontend->users.n == 0);
    check_said();
    return 0;
}
