/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-dispatch.c: whole connections through the frontend and the job table, with a store and an executor
 * (tests/support/shims/liar.c, which answers every job).
 * Input: two bytes of features that the client agrees to, beside FUNCTIONS and PERSON, then frames. A frame is a type, a
 * tag, the size of the header (a byte), the size of the body (a byte, times 16), and both. They are shorter where the
 * input ends. Type 255 lets the executor work for a moment. Bit 7 of a tag cuts the frame after its header.
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "frontend/peer.h"
#include "configuration/configuration.h"
#include "configuration/effects.h"

#define WSD_INPUTS 256
#define TURNS_MAX  100
#define TYPE_LAST  52
#define TYPE_WAIT  255

static struct config config;
static struct event_base *base;
static struct jobs *jobs;
static struct frontend *frontend;
static struct jobs_domain *domains;
static struct codec *codec;
static char state[64];
static unsigned n_inputs;
static uint8_t said[4u << 20];
static size_t n_said;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path);
}

static bool enabled(const char *plugin, bool opt_in, void *context)
{
    return strcmp(plugin, "off") != 0;
}

static void wsd_end(void)
{
    if (!base)
        return;
    frontend = frontend_free(frontend);
    jobs = jobs_free(jobs);
    free(TAKE(domains));
    event_base_free(TAKE(base));
    nftw(state, remove_one, 8, FTW_DEPTH | FTW_PHYS);
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
        atexit(wsd_end);
    }
    FUZZ_CHECK(mkdtemp(state));
    base = event_base_new();
    domains = config_domains(&config, &n_domains);
    FUZZ_CHECK(base && domains);
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

static void put(int fd, const uint8_t *data, size_t size)
{
    for (int i = 0; size && i < TURNS_MAX; i++) {
        ssize_t n = send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno != EAGAIN)
            return; /* it has been closed */
        n = MAX(n, 0);
        data += n;
        size -= (size_t)n;
        turns(fd);
    }
}

static void put_frame(int fd, const uint8_t **data, size_t *size)
{
    static uint8_t bytes[FRAME_MAX];
    const uint8_t *p = *data;
    uint8_t type = p[0] == TYPE_WAIT ? p[0] : p[0] % TYPE_LAST, tag = p[1] & 0x7f;
    size_t header = p[2], body = p[3] * 16u, left = *size - 4;
    bool cut = p[1] & 0x80;

    header = MIN(header, left);
    body = MIN(body, left - header);
    frame_put_header(bytes, type, tag, (uint32_t)header, (uint32_t)body);
    memcpy(bytes + FRAME_HEADER_SIZE, p + 4, header + body);
    *data += 4 + header + body;
    *size -= 4 + header + body;
    if (type == TYPE_WAIT)
        poll(NULL, 0, 3);
    else
        put(fd, bytes, FRAME_HEADER_SIZE + (cut ? header / 2 : header + body));
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
    n_said = 0;
    hello.hello.features = data[0] | (uint64_t)data[1] << 8 | FEATURE_FUNCTIONS | FEATURE_PERSON;
    data += 2;
    size -= 2;
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    FUZZ_CHECK(peer_new(frontend, pair[1], false, NULL) == 0);
    put(pair[0], bytes, codec_encode(&hello, 0, 0, bytes, sizeof(bytes)));
    while (size >= 4)
        put_frame(pair[0], &data, &size);
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
