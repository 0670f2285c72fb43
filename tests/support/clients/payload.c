/* SPDX-License-Identifier: Apache-2.0
 *
 * payload.c: input that is not bytes of the socket.
 *
 *     payload CASE                             hand-written frames; `FAIL CASE: why` and 1 where it went wrong
 *     payload file FILE OFFSET SIZE PLUGIN     by libwsclient: the job's output on stdout, its exit code, its error on
 *                                              stderr
 *     payload arena FILE PLUGIN TIMES          the same by an arena, TIMES times in the same one
 *     payload lent FILE PLUGIN TIMES           only the input in an arena
 *     payload arenas N BEGUN GO                a job in each of N arenas, and in each once more; BEGUN is made then,
 *                                              and GO waited for
 *     payload again SIZE CALLS PLUGIN          by the socket, gathered: `FAULTS USEC KIB KIB KIB`:
 *                                              page faults of one of those calls (mean, but for the first two), its
 *                                              time (median), and what a small call after one gave back: submitted,
 *                                              mapped, by a direct lane
 *     payload killed BEGUN GO                  a job in an arena; its executor is killed when BEGUN is there
 *     payload cases                            the names of all cases, one a line
 *
 * PAYLOAD_ECHO and PAYLOAD_READER name runners that take the place of the plugins, for jobs with an arena. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <wsd/client.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "conn.h"

#define SIZE 100000

/* --- by the library ----------------------------------------------------------------------------------------------- */

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    return fwrite(data, 1, size, stdout) != size;
}

/* Why, and its exit code. The client is gone after. */
static int refused(struct wsd_client *client)
{
    int code = wsd_client_exit(client);

    fprintf(stderr, "%s\n", wsd_client_error(client));
    wsd_client_free(client);
    return code;
}

static int by_library(char **argv)
{
    struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .output = on_output};
    struct wsd_submit s = {.size = sizeof(s),
                           .plugin = argv[3],
                           .flags = WSD_SUBMIT_FILE,
                           .input_fd = open(argv[0], O_RDONLY | O_CLOEXEC),
                           .input_offset = strtoull(argv[1], NULL, 10),
                           .input_size = strtoull(argv[2], NULL, 10)};
    const struct wsd_job_info *info;
    struct wsd_client *client;
    struct wsd_call *call;

    if (wsd_client_open(&client, NULL, 0) < 0 || wsd_client_submit(client, &s, &callbacks, &call) < 0)
        return refused(client);
    close(s.input_fd); /* the library has one of its own */
    int code = wsd_call_wait(call, UINT64_MAX, &info) < 0 ? wsd_client_exit(client) : info->exit;
    if (code)
        fprintf(stderr, "%s\n", wsd_client_error(client));
    wsd_client_free(client);
    return fflush(stdout) ? 74 : code;
}

static int by_arena(const char *file, char *plugin, int times, bool lent)
{
    struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .output = on_output};
    const struct wsd_job_info *info;
    struct wsd_client *client;
    struct wsd_arena *arena;
    struct wsd_call *call;
    struct stat st;
    int fd = open(file, O_RDONLY | O_CLOEXEC), code = 0;

    if (fd < 0 || fstat(fd, &st) < 0)
        return 66;
    const uint64_t size = (uint64_t)st.st_size;
    struct wsd_submit s = {.size = sizeof(s),
                           .plugin = strtok(plugin, ":"),
                           .function = strtok(NULL, ":"),
                           .flags = WSD_SUBMIT_ARENA,
                           .input_offset = 100,
                           .input_size = size,
                           .output_offset = lent ? 0 : 200 + size,
                           .output_size = lent ? 0 : size + 1};

    if (wsd_client_open(&client, NULL, 0) < 0 || wsd_arena_new(client, 2 * size + 1000, &arena) < 0)
        return refused(client);
    uint8_t *data = wsd_arena_data(arena);
    s.arena = arena;
    if (wsd_arena_size(arena) != 2 * size + 1000 || read(fd, data + 100, size) != st.st_size)
        return 74;
    for (int i = 0; i < times && !code; i++) {
        memset(data + 200 + size, 0, size + 1);
        code = wsd_client_submit(client, &s, &callbacks, &call) < 0 || wsd_call_wait(call, UINT64_MAX, &info) < 0
                   ? wsd_client_exit(client)
                   : info->exit;
        if (!lent && (code || info->placed != size || memcmp(data + 100, data + s.output_offset, size) != 0 ||
                      data[s.output_offset + size]))
            fprintf(stderr, "%d: %s\n", code, wsd_client_error(client)), code = code ? code : 1;
        wsd_call_free(call);
    }
    if (code && lent)
        fprintf(stderr, "%s\n", wsd_client_error(client));
    if (!lent)
        fwrite(data + s.output_offset, 1, size, stdout);
    wsd_client_free(client);
    data[0] = 1; /* still ours */
    wsd_arena_free(arena);
    return fflush(stdout) ? 74 : code;
}

#define ARENAS 8u /* of one connection: daemon/frontend/peer.h */

static bool echoes(struct wsd_client *client, struct wsd_arena *arena, uint32_t number)
{
    struct wsd_submit s = {.size = sizeof(s),
                           .plugin = "echo",
                           .function = "shared",
                           .flags = WSD_SUBMIT_ARENA,
                           .arena = arena,
                           .input_size = 4,
                           .output_offset = 4096,
                           .output_size = 4};
    const struct wsd_job_info *info;
    struct wsd_call *call;
    uint8_t *data = wsd_arena_data(arena);

    memcpy(data, &number, 4);
    memset(data + 4096, 0, 4);
    if (wsd_client_submit(client, &s, NULL, &call) < 0 || wsd_call_wait(call, UINT64_MAX, &info) < 0 || info->exit) {
        fprintf(stderr, "arena %u: %s\n", number, wsd_client_error(client));
        return false;
    }
    wsd_call_free(call);
    if (memcmp(data + 4096, &number, 4) == 0)
        return true;
    fprintf(stderr, "arena %u: its output is another's\n", number);
    return false;
}

static void await_file(const char *path);

static int by_arenas(uint32_t n, const char *begun, const char *go)
{
    struct wsd_client **clients = calloc(n, sizeof(*clients));
    struct wsd_arena **arenas = calloc(n, sizeof(*arenas));
    struct rlimit l;

    getrlimit(RLIMIT_NOFILE, &l);
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
    for (uint32_t i = 0; i < n; i++) {
        if (i % ARENAS)
            clients[i] = clients[i - 1];
        else if (wsd_client_open(&clients[i], NULL, 0) < 0)
            return refused(clients[i]);
        if (wsd_arena_new(clients[i], 8192, &arenas[i]) < 0)
            return refused(clients[i]);
    }
    for (uint32_t i = 0; i < 2 * n; i++)
        if (!echoes(clients[i % n], arenas[i % n], i))
            return 1;
    close(open(begun, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    await_file(go);
    for (uint32_t i = 0; i < n; i++) {
        if (i % ARENAS == 0)
            wsd_client_free(clients[i]);
        wsd_arena_free(arenas[i]);
    }
    free(clients);
    free(arenas);
    return 0;
}

/* What the job gives back is what it was given. 0, or an exit code. */
static int gathered(struct wsd_client *client, const char *plugin, const char *function, const uint8_t *input,
                    size_t input_size)
{
    struct wsd_submit s = {
        .size = sizeof(s), .plugin = plugin, .function = function, .input = input, .input_size = input_size};
    const struct wsd_job_info *info;
    struct wsd_call *call;
    size_t size;

    if (wsd_client_submit(client, &s, NULL, &call) < 0 || wsd_call_wait(call, UINT64_MAX, &info) < 0)
        return wsd_client_exit(client);
    const void *output = wsd_call_output(call, &size);
    int code = info->exit ? info->exit : size == input_size && memcmp(output, input, size) == 0 ? 0 : 1;
    wsd_call_free(call);
    return code;
}

static long page_faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static long resident_kib(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    long pages = 0;

    if (!f || fscanf(f, "%*d %ld", &pages) != 1)
        fail("statm: %s", strerror(errno));
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* A small call: submitted, mapped, by a direct lane. 0, or an exit code. */
static int small(struct wsd_client *client, int way, const char *plugin, const char *function)
{
    const struct wsd_submit s = {.size = sizeof(s), .plugin = plugin, .function = function};
    const struct wsd_item item = {.size = sizeof(item), .input = "small", .input_size = 5};
    const struct wsd_call_request q = {
        .size = sizeof(q), .plugin = plugin, .function = function, .output = (char[16]){0}, .output_room = 16};
    struct wsd_call_result result = {.size = sizeof(result)};

    if (way == 0)
        return gathered(client, plugin, function, (const uint8_t *)"small", 5);
    if (way == 1)
        return wsd_map(client, &s, 0, &item, 1, NULL, NULL) < 0 ? wsd_client_exit(client) : 0;
    return wsd_call(client, &q, &result) < 0 ? wsd_client_exit(client)
           : result.exit                     ? result.exit
           : result.direct                   ? 0
                                             : 1;
}

static int again(size_t size, size_t n, char *names)
{
    const char *plugin = strtok(names, ":"), *function = strtok(NULL, ":");
    uint8_t *input = malloc(size);
    uint64_t usec[64];
    struct wsd_client *client;
    long faults = 0, kib[3];
    int code = 0;

    if (!input || n < 3 || n > ARRAY_SIZE(usec))
        return 64;
    for (size_t i = 0; i < size; i++)
        input[i] = (uint8_t)(i * 2654435761u >> 13);
    if (wsd_client_open(&client, NULL, 0) < 0)
        return refused(client);
    for (int i = 0; i < 100 && small(client, 2, plugin, function); i++) /* until there is a lane */
        usleep(1000);
    for (size_t i = 0; i < n && !code; i++) {
        long before = page_faults();

        usec[i] = clock_monotonic_usec();
        code = gathered(client, plugin, function, input, size);
        usec[i] = clock_monotonic_usec() - usec[i];
        faults += i < 2 ? 0 : page_faults() - before;
        input[i]++; /* no call has the bytes of another */
    }
    for (int way = 0; way < 3 && !code; way++) {
        code = gathered(client, plugin, function, input, size);
        kib[way] = resident_kib();
        code = code ? code : small(client, way, plugin, function);
        kib[way] -= resident_kib();
    }
    if (code)
        return refused(client), code;
    qsort(usec + 2, n - 2, sizeof(usec[0]), by_number);
    printf("%ld %llu %ld %ld %ld\n", faults / (long)(n - 2), (unsigned long long)usec[2 + (n - 2) / 2], kib[0], kib[1],
           kib[2]);
    wsd_client_free(client);
    free(input);
    return fflush(stdout) ? 74 : 0;
}

/* --- by hand ------------------------------------------------------------------------------------------------------ */

static uint8_t content[SIZE];

static int memory(int seals)
{
    int fd = memfd_create("payload", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    for (size_t i = 0; i < SIZE; i++)
        content[i] = (uint8_t)(i * 2654435761u >> 13);
    if (fd < 0 || write(fd, content, SIZE) != SIZE || (seals && fcntl(fd, F_ADD_SEALS, seals) < 0))
        fail("memfd: %s", strerror(errno));
    return fd;
}

static void put_fds(struct conn *c, const struct msg *m, uint32_t tag, const void *body, size_t body_size,
                    const int *fds, size_t n)
{
    union {
        char bytes[CMSG_SPACE(64 * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    uint8_t bytes[FRAME_MAX];
    size_t size = codec_encode(m, tag, body_size, bytes, sizeof(bytes));
    struct iovec v = {.iov_base = bytes, .iov_len = size + body_size};
    struct msghdr h = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(n * sizeof(int))};

    if (body_size)
        memcpy(bytes + size, body, body_size);
    control.align =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(n * sizeof(int))};
    memcpy(CMSG_DATA(&control.align), fds, n * sizeof(int));
    if (!size || sendmsg(c->fd, &h, MSG_NOSIGNAL) != (ssize_t)v.iov_len)
        fail("send: %s", strerror(errno));
}

static struct msg submit_of(uint64_t offset, uint64_t size)
{
    return (struct msg){
        .type = FRAME_SUBMIT,
        .submit = {.plugin = {"echo", 4}, .input_from = INPUT_FILE, .input_offset = offset, .input_size = size}};
}

static struct conn *open_payload(void)
{
    return open_with(1 << 20, "/", FEATURE_PAYLOAD | FEATURE_STORE);
}

/* The connection is closed, with words. */
static void expect_closed(struct conn *c, const char *words)
{
    enum next r;

    while ((r = conn_next(c, WAIT_MSEC)) == NEXT_FRAME)
        if (c->msg.type == FRAME_ERROR && c->frame.tag == 0) {
            if (c->msg.error.code != 76 || !strstr(c->msg.error.text.data, words))
                fail("closed with %u: %s", c->msg.error.code, c->msg.error.text.data);
            words = "";
        }
    if (r != NEXT_END || *words)
        fail("the connection is not closed, or without words");
}

static void expect_refused(struct conn *c, uint32_t tag, uint32_t code, const char *words)
{
    expect(c, FRAME_ERROR, tag);
    if (c->msg.error.code != code || !strstr(c->msg.error.text.data, words))
        fail("refused with %u: %s", c->msg.error.code, c->msg.error.text.data);
}

/* The job gives back this part of the content. */
static void expect_echo(struct conn *c, uint32_t tag, size_t at, size_t size)
{
    size_t got = 0;

    expect(c, FRAME_ACCEPTED, tag);
    for (next(c); c->msg.type == FRAME_OUTPUT; next(c)) {
        if (c->frame.body_size > size - got || memcmp(c->frame.body, content + at + got, c->frame.body_size) != 0)
            fail("other bytes came back, %zu from the beginning", got);
        got += c->frame.body_size;
    }
    if (c->msg.type != FRAME_DONE || c->msg.job.exit != 0 || got != size)
        fail("%s with %u of tag %u after %zu bytes: %s", codec_type_name(c->msg.type), c->msg.job.exit, c->frame.tag,
             got, c->msg.type == FRAME_DONE ? c->msg.job.error.data : "");
}

static void memfds(void)
{
    static const size_t at[] = {0, 1, 4095, 4096, 4097, 65535, SIZE - 1, SIZE};
    int fds[] = {memory(0), memory(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)};
    struct conn *c = open_payload();
    uint32_t tag = 0;

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        for (size_t j = 0; j < ARRAY_SIZE(at); j++) {
            struct msg m = submit_of(at[j], SIZE - at[j]);

            put_fds(c, &m, ++tag, NULL, 0, &fds[i], 1);
            expect_echo(c, tag, at[j], SIZE - at[j]);
            m.submit.input_size = at[j];
            m.submit.input_offset = 0;
            put_fds(c, &m, ++tag, NULL, 0, &fds[i], 1);
            expect_echo(c, tag, 0, at[j]);
        }
}

/* What comes behind goes on as ever. */
static void no_files(void)
{
    const char *fifo = "payload.fifo";
    int pipe_fds[2];
    struct conn *c = open_payload();
    struct msg m = submit_of(0, 0);

    unlink(fifo);
    if (mkfifo(fifo, 0600) < 0 || pipe(pipe_fds) < 0)
        fail("fifo: %s", strerror(errno));
    close(memory(0));
    int file = open("payload.file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    const struct {
        int fd;
        const char *words;
    } wrong[] = {
        {open("/", O_RDONLY | O_DIRECTORY), "no regular file"},
        {open(fifo, O_RDWR), "no regular file"},
        {pipe_fds[0], "no regular file"},
        {open("/dev/zero", O_RDONLY), "no regular file"},
        {socket(AF_UNIX, SOCK_STREAM, 0), "no regular file"},
        {open("payload.file", O_WRONLY), "not open for reading"},
        {open("payload.file", O_PATH), "not open for reading"},
    };
    for (uint32_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        put_fds(c, &m, i + 1, NULL, 0, &wrong[i].fd, 1);
        expect_refused(c, i + 1, 64, wrong[i].words);
    }
    put_fds(c, &m, 100, NULL, 0, &file, 1);
    expect_echo(c, 100, 0, 0);
    unlink(fifo);
    unlink("payload.file");
}

static void spans(void)
{
    struct conn *c = open_payload();
    const struct {
        uint64_t at, size;
    } wrong[] = {{0, SIZE + 1},  {SIZE, 1},      {SIZE + 1, 0},     {1, SIZE},
                 {INT64_MAX, 0}, {0, INT64_MAX}, {1, INT64_MAX - 1}};
    int fd = memory(0);

    for (uint32_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        struct msg m = submit_of(wrong[i].at, wrong[i].size);

        put_fds(c, &m, i + 1, NULL, 0, &fd, 1);
        expect_refused(c, i + 1, 64, "beyond the end");
    }
    struct msg m = submit_of(0, SIZE);
    put_fds(c, &m, 100, NULL, 0, &fd, 1);
    expect_echo(c, 100, 0, SIZE);
}

/* An offset that no file has: SUBMIT with a hand-written header, since the codec makes none. */
static void near_the_end_of_numbers(void)
{
    struct conn *c = open_payload();
    uint8_t frame[FRAME_HEADER_SIZE + 64], *p = frame + FRAME_HEADER_SIZE;
    static const uint8_t plugin[] = {0x0a, 4, 'e', 'c', 'h', 'o', 0x90, 2, 1 /* 34: input_from */,
                                     0x98, 2 /* 35: input_offset */};

    memcpy(p, plugin, sizeof(plugin));
    memset(p + sizeof(plugin), 0xff, 9);
    p[sizeof(plugin) + 9] = 1;
    frame_put_header(frame, FRAME_SUBMIT, 1, sizeof(plugin) + 10, 0);
    conn_send(c, frame, FRAME_HEADER_SIZE + sizeof(plugin) + 10);
    expect_closed(c, "input");
}

static void beside_other_input(void)
{
    struct conn *c = open_payload();
    struct msg m = submit_of(0, 1);
    int fd = memory(0);

    put_fds(c, &m, 1, "x", 1, &fd, 1);
    expect_refused(c, 1, 64, "without bytes");
    m.submit.flags = SUBMIT_MORE;
    put_fds(c, &m, 2, NULL, 0, &fd, 1);
    expect_refused(c, 2, 64, "without bytes");
    m.submit.flags = SUBMIT_DURABLE;
    put_fds(c, &m, 3, NULL, 0, &fd, 1);
    expect_refused(c, 3, 64, "durable");
}

static void two_descriptors(void)
{
    struct conn *c = open_payload();
    struct msg m = submit_of(0, 1);
    int fds[] = {memory(0), memory(0)};

    put_fds(c, &m, 1, NULL, 0, fds, 2);
    expect_closed(c, "a descriptor that its frame does not speak of");
}

static void sixty_descriptors(void)
{
    struct conn *c = open_payload();
    struct msg m = submit_of(0, 1);
    int fds[60];

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        fds[i] = STDIN_FILENO;
    put_fds(c, &m, 1, NULL, 0, fds, ARRAY_SIZE(fds));
    expect_closed(c, "descriptor");
}

static void descriptor_of_a_frame_that_has_none(void)
{
    struct conn *c = open_payload();
    int fd = memory(0);

    put_fds(c, &(struct msg){.type = FRAME_PING}, 1, NULL, 0, &fd, 1);
    expect_closed(c, "a descriptor that its frame does not speak of");
}

static void frame_without_its_descriptor(void)
{
    struct conn *c = open_payload();
    struct msg m = submit_of(0, 1);

    put(c, &m, 1, NULL, 0);
    expect_closed(c, "SUBMIT without its descriptor");
}

static void feature_not_agreed_upon(void)
{
    struct conn *c = open_with(1 << 20, "/", 0);
    struct msg m = submit_of(0, 1);
    int fd = memory(0);

    put_fds(c, &m, 1, NULL, 0, &fd, 1);
    expect_closed(c, "a descriptor that nobody asked for");
}

/* --- arenas ------------------------------------------------------------------------------------------------------ */

#define SEALED (F_SEAL_SHRINK | F_SEAL_GROW)

static void put_open(struct conn *c, uint32_t tag, int fd)
{
    put_fds(c, &(struct msg){.type = FRAME_ARENA_OPEN}, tag, NULL, 0, &fd, 1);
}

/* Tag 1000; its memory. */
static uint8_t *open_arena(struct conn *c)
{
    int fd = memory(SEALED);
    uint8_t *data = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    put_open(c, 1000, fd);
    expect(c, FRAME_ARENA, 1000);
    close(fd);
    if (data == MAP_FAILED)
        fail("mmap: %s", strerror(errno));
    return data;
}

/* The plugin, or the runner that has its functions. */
static struct span named(const char *variable, const char *otherwise)
{
    const char *said = getenv(variable), *text = said ? said : otherwise;

    return (struct span){text, strlen(text)};
}

static struct msg in_arena(const char *function, uint64_t at, uint64_t size, uint64_t output_at, uint64_t output_size)
{
    return (struct msg){.type = FRAME_SUBMIT,
                        .submit = {.plugin = named("PAYLOAD_ECHO", "echo"),
                                   .function = {function, strlen(function)},
                                   .input_from = INPUT_ARENA,
                                   .input_offset = at,
                                   .input_size = size,
                                   .arena = 1000,
                                   .output_offset = output_at,
                                   .output_size = output_size}};
}

static void expect_done(struct conn *c, uint32_t tag, uint32_t exit, uint64_t placed)
{
    expect(c, FRAME_ACCEPTED, tag);
    expect(c, FRAME_DONE, tag);
    if (c->msg.job.exit != exit || c->msg.job.placed != placed)
        fail("the job exits with %u and %llu bytes: %s", c->msg.job.exit, (unsigned long long)c->msg.job.placed,
             c->msg.job.error.data);
}

static void what_is_no_arena(void)
{
    struct conn *c = open_payload();
    int good = memory(SEALED), empty = memfd_create("empty", MFD_ALLOW_SEALING), pipe_fds[2];
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", good);
    if (pipe(pipe_fds) < 0 || fcntl(empty, F_ADD_SEALS, SEALED) < 0)
        fail("%s", strerror(errno));
    const struct {
        int fd;
        const char *words;
    } wrong[] = {
        {memory(0), "sealed against"},
        {memory(F_SEAL_SHRINK), "sealed against"},
        {memory(F_SEAL_GROW), "sealed against"},
        {memory(SEALED | F_SEAL_WRITE), "writable"},
        {memory(SEALED | F_SEAL_FUTURE_WRITE), "writable"},
        {open(path, O_RDONLY), "writable"},
        {open("/", O_PATH), "a memfd"},
        {open("/etc/passwd", O_RDONLY), "a memfd"},
        {pipe_fds[1], "a memfd"},
        {empty, "a size"},
    };
    for (uint32_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        put_open(c, i + 1, wrong[i].fd);
        expect_refused(c, i + 1, 64, wrong[i].words);
    }
    put_open(c, 100, good);
    expect(c, FRAME_ARENA, 100);
    put(c, &(struct msg){.type = FRAME_ARENA_OPEN}, 101, NULL, 0);
    expect_closed(c, "ARENA_OPEN without its descriptor");
}

static void so_many_arenas(void)
{
    struct conn *c = open_payload();
    uint32_t tag = 1;

    for (; tag <= 8; tag++) {
        put_open(c, tag, memory(SEALED));
        expect(c, FRAME_ARENA, tag);
    }
    put_open(c, tag, memory(SEALED));
    expect_refused(c, tag, 75, "too many arenas");
    put(c, &(struct msg){.type = FRAME_ARENA_CLOSE}, 3, NULL, 0);
    expect(c, FRAME_END, 3);
    put(c, &(struct msg){.type = FRAME_ARENA_CLOSE}, 3, NULL, 0); /* there is none */
    put_open(c, ++tag, memory(SEALED));
    expect(c, FRAME_ARENA, tag);
}

static void parts(void)
{
    struct conn *c = open_payload();
    uint8_t *data = open_arena(c);
    const struct {
        uint64_t at, size, output_at, output_size;
        const char *words;
    } wrong[] = {
        {0, SIZE + 1, 0, 0, "beyond"},  {SIZE, 1, 0, 0, "beyond"},          {SIZE + 1, 0, 0, 0, "beyond"},
        {INT64_MAX, 0, 0, 0, "beyond"}, {1, INT64_MAX - 1, 0, 0, "beyond"}, {0, 1, SIZE, 1, "beyond"},
        {0, 1, 1, SIZE, "beyond"},      {0, 1, INT64_MAX, 0, "beyond"},     {0, 1, 2, INT64_MAX - 2, "beyond"},
        {0, 100, 99, 100, "overlap"},   {99, 100, 0, 100, "overlap"},       {0, 100, 0, 100, "overlap"},
        {10, 1, 0, 100, "overlap"},
    };
    uint32_t tag = 1;

    for (uint32_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        struct msg m = in_arena("", wrong[i].at, wrong[i].size, wrong[i].output_at, wrong[i].output_size);

        put(c, &m, ++tag, NULL, 0);
        expect_refused(c, tag, 64, wrong[i].words);
    }
    for (int i = 0; i < 3; i++) { /* side by side, up to the end; by a copy, in place, and as it comes */
        const char *functions[] = {"", "shared", "stream"};
        struct msg m = in_arena(functions[i], 0, SIZE / 2, SIZE / 2, SIZE / 2);

        memset(data + SIZE / 2, 0, SIZE / 2);
        put(c, &m, ++tag, NULL, 0);
        expect_done(c, tag, 0, SIZE / 2);
        if (memcmp(data, data + SIZE / 2, SIZE / 2) != 0)
            fail("other bytes came back by %s", functions[i]);
    }
    memcpy(content, data, SIZE);
    struct msg m = in_arena("", 5, 3000, 0, 0); /* only the input */
    put(c, &m, ++tag, NULL, 0);
    expect_echo(c, tag, 5, 3000);
    m = in_arena("", 0, 0, 7, 5); /* only the output */
    m.submit.input_from = INPUT_BODY;
    put(c, &m, ++tag, "bytes", 5);
    expect_done(c, tag, 0, 5);
    if (memcmp(data + 7, "bytes", 5) != 0)
        fail("the input did not come back");
    m = in_arena("", 0, 0, 0, 0); /* neither */
    put(c, &m, ++tag, NULL, 0);
    expect_echo(c, tag, 0, 0);
}

static void too_little_room(void)
{
    struct conn *c = open_payload();
    uint8_t *data = open_arena(c);

    for (uint32_t i = 0; i < 2; i++) {
        struct msg m = in_arena(i ? "shared" : "", 0, 5000, 50000, 4999);

        memset(data + 50000, 'x', 10000);
        put(c, &m, i + 1, NULL, 0);
        expect_done(c, i + 1, 63, 4999);
        if (!strstr(c->msg.job.error.data, "larger than its part of the arena"))
            fail("it said: %s", c->msg.job.error.data);
        if (data[49999] == 'x' || data[50000 + 4999] != 'x')
            fail("bytes outside of its part were written");
    }
}

static void arenas_of_nobody(void)
{
    struct conn *c = open_payload();
    struct msg m = in_arena("", 0, 1, 0, 0);

    put(c, &m, 1, NULL, 0);
    expect_refused(c, 1, 64, "no such arena");
    open_arena(c);
    put(c, &(struct msg){.type = FRAME_ARENA_CLOSE}, 1000, NULL, 0);
    expect(c, FRAME_END, 1000);
    put(c, &m, 2, NULL, 0);
    expect_refused(c, 2, 64, "no such arena");
    m.submit.arena = 3; /* its own */
    put(c, &m, 3, NULL, 0);
    expect_refused(c, 3, 64, "no such arena");
}

static void what_outlives_the_connection(void)
{
    struct conn *c = open_payload();
    const uint32_t flags[] = {SUBMIT_DETACH, SUBMIT_DURABLE, SUBMIT_MORE};
    uint32_t tag = 0;

    open_arena(c);
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        struct msg m = in_arena("", 0, 1, 10, 10);

        m.submit.flags = flags[i];
        put(c, &m, ++tag, NULL, 0);
        expect_refused(c, tag, 64, "");
    }
    struct msg m = in_arena("", 0, 1, 10, 10);
    m.submit.key = (struct span){"key", 3};
    put(c, &m, ++tag, NULL, 0);
    expect_refused(c, tag, 64, "an arena ends with its connection");
    m.submit.key = (struct span){"", 0};
    m.submit.retries = 1;
    put(c, &m, ++tag, NULL, 0);
    expect_refused(c, tag, 64, "an arena ends with its connection");
}

/* reader: begins, and waits. */
static struct msg waiting(const char *function, const char *args, size_t size)
{
    struct msg m = in_arena(function, 0, 1000, 2000, 1000);

    m.submit.plugin = named("PAYLOAD_READER", "reader");
    m.submit.args = (struct span){args, size};
    m.submit.argc = 2;
    return m;
}

static void await_file(const char *path)
{
    for (int i = 0; access(path, F_OK) < 0; i++) {
        if (i > WAIT_MSEC)
            fail("the job does not begin");
        usleep(1000);
    }
}

/* A job has its part until its end. It goes on when its arena is closed, and whatever is done to the memory. */
static void busy_parts(void)
{
    struct conn *c = open_payload();
    uint8_t *data = open_arena(c);
    char args[256], *begun = args;
    size_t size = (size_t)sprintf(args, "%s/arena.begun%c%s/arena.go", getenv("WORK"), 0, getenv("WORK")) + 1;
    const char *go = args + strlen(args) + 1;
    struct msg m = waiting("once", args, size);
    const uint64_t busy[][4] = {{0, 1, 2000, 1}, {0, 1, 2999, 1000}, {0, 1, 1999, 2},
                                {0, 1, 0, 0},    {0, 1, 999, 1},     {2999, 1, 0, 0}};
    int fd = memfd_create("x", 0);

    unlink(begun);
    unlink(go);
    put(c, &m, 1, NULL, 0);
    expect(c, FRAME_ACCEPTED, 1);
    await_file(begun);
    for (uint32_t i = 0; i < ARRAY_SIZE(busy); i++) {
        m = in_arena("", busy[i][0], busy[i][1], busy[i][2], busy[i][3]);
        put(c, &m, 10 + i, NULL, 0);
        if (i != 3) {
            expect_refused(c, 10 + i, 75, "in use");
        } else { /* both read */
            memcpy(content, data, SIZE);
            expect_echo(c, 10 + i, 0, 1);
        }
    }
    m = in_arena("", 1000, 1000, 3000, 1000); /* beside it */
    put(c, &m, 20, NULL, 0);
    expect_done(c, 20, 0, 1000);
    put(c, &(struct msg){.type = FRAME_ARENA_CLOSE}, 1000, NULL, 0);
    expect(c, FRAME_END, 1000);
    memset(data, 0, SIZE);
    close(fd);
    close(open(go, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    expect(c, FRAME_DONE, 1);
    if (c->msg.job.exit != 0 || c->msg.job.placed != 1000)
        fail("the job did not end well: %s", c->msg.job.error.data);
    if (memcmp(data + 2000, content, 1000) != 0)
        fail("it did not get a copy of its input");
}

/* Holes are punched into what jobs read and write, in place. */
static void holes(void)
{
    struct conn *c = open_payload();
    int fd = memory(SEALED);
    uint32_t tag = 1000;

    put_open(c, tag, fd);
    expect(c, FRAME_ARENA, tag);
    for (uint32_t i = 1; i < 200; i++) {
        struct msg m = in_arena(i % 2 ? "shared" : "", 0, SIZE / 2, SIZE / 2, SIZE / 2);

        put(c, &m, i, NULL, 0);
        if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SIZE) < 0)
            fail("fallocate: %s", strerror(errno));
        expect_done(c, i, 0, SIZE / 2);
    }
    if (ftruncate(fd, 0) == 0)
        fail("it was cut");
}

/* No later job writes to an arena to which a dying executor may still write. */
static void killed(char **argv)
{
    struct conn *c = open_payload();
    uint8_t *data = open_arena(c);
    char args[512];
    size_t size = (size_t)snprintf(args, sizeof(args), "%s%c%s", argv[0], 0, argv[1]) + 1;
    struct msg m = waiting("reader", args, size); /* which may run twice otherwise */

    memcpy(content, data, SIZE);
    put(c, &m, 1, NULL, 0);
    expect(c, FRAME_ACCEPTED, 1);
    expect(c, FRAME_DONE, 1);
    if (c->msg.job.exit != 125 || c->msg.job.placed)
        fail("exit %u, %llu bytes", c->msg.job.exit, (unsigned long long)c->msg.job.placed);
    m = in_arena("", 0, 1, 50000, 10);
    put(c, &m, 2, NULL, 0);
    expect_refused(c, 2, 75, "set up another");
    m = in_arena("", 0, 100, 0, 0);
    put(c, &m, 3, NULL, 0);
    expect_echo(c, 3, 0, 100);
}

#define CASE(name)                                                                                                     \
    {                                                                                                                  \
#name, name                                                                                                    \
    }
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    CASE(memfds),
    CASE(no_files),
    CASE(spans),
    CASE(near_the_end_of_numbers),
    CASE(beside_other_input),
    CASE(two_descriptors),
    CASE(sixty_descriptors),
    CASE(descriptor_of_a_frame_that_has_none),
    CASE(frame_without_its_descriptor),
    CASE(feature_not_agreed_upon),
    CASE(what_is_no_arena),
    CASE(so_many_arenas),
    CASE(parts),
    CASE(too_little_room),
    CASE(arenas_of_nobody),
    CASE(what_outlives_the_connection),
    CASE(busy_parts),
    CASE(holes),
};

int main(int argc, char **argv)
{
    name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "file") == 0 && argc == 6)
        return by_library(argv + 2);
    if (strcmp(name, "arena") == 0 && argc == 5)
        return by_arena(argv[2], argv[3], atoi(argv[4]), false);
    if (strcmp(name, "lent") == 0 && argc == 5)
        return by_arena(argv[2], argv[3], atoi(argv[4]), true);
    if (strcmp(name, "arenas") == 0 && argc == 5)
        return by_arenas((uint32_t)atoi(argv[2]), argv[3], argv[4]);
    if (strcmp(name, "again") == 0 && argc == 5)
        return again(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10), argv[4]);
    if (strcmp(name, "killed") == 0 && argc == 4)
        return killed(argv + 2), 0;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (strcmp(name, "cases") == 0)
            puts(cases[i].name);
        if (strcmp(name, cases[i].name) == 0)
            return cases[i].run(), 0;
    }
    return strcmp(name, "cases") ? 64 : 0;
}
