/* SPDX-License-Identifier: Apache-2.0
 *
 * trespass.c: requests by hand-written frames, about a job that most likely is somebody else's.
 *
 *     trespass ID REQUEST=CODE...
 *
 * sends one REQUEST after the other on one connection and wants the exit code that wsd refuses it with; 0: it is done. A
 * question that is answered with nothing (no job, no executor) counts as 66. `stop` in the place of a request prints a line
 * and goes on when it has read one. Prints `FAIL REQUEST: why` for each that was answered otherwise. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/codec.h"
#include "proto/frame.h"

static struct codec *codec;
static uint8_t in[FRAME_MAX * 2];
static size_t size;
static int fd;
static uint32_t tag;

static void put(const struct msg *m, uint32_t of)
{
    uint8_t bytes[FRAME_MAX];
    size_t n = codec_encode(m, of, 0, bytes, sizeof(bytes));

    if (!n || send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        perror("trespass: send");
}

/* The next frame; false at the end of the stream. */
static bool get(struct frame *f, struct msg *m)
{
    static size_t used;
    ssize_t n;

    memmove(in, in + used, size - used);
    size -= used;
    used = 0;
    while (frame_parse(in, size, f, &used) != 0) {
        n = recv(fd, in + size, sizeof(in) - size, 0);
        if (n <= 0)
            return false;
        size += (size_t)n;
    }
    return codec_decode(codec, f, m) == 0;
}

/* What became of the request: 0, the code of its ERROR, 66 where nothing was told, -1 where the connection went. */
static int outcome(bool question)
{
    struct frame f;
    struct msg m;
    bool told = false;

    while (get(&f, &m)) {
        if (m.type == FRAME_ERROR && (f.tag == tag || f.tag == 0))
            return (int)m.error.code;
        if (f.tag != tag)
            continue;
        if (m.type == FRAME_END)
            return question && !told ? 66 : 0;
        if (m.type == FRAME_ACCEPTED)
            continue;
        told = true;
        if (!question)
            return 0;
    }
    return -1;
}

static const struct {
    const char *name;
    struct msg msg;
    bool has_id, question;
} requests[] = {
    {"status", {.type = FRAME_STATUS}, .has_id = true},
    {"await", {.type = FRAME_AWAIT}, .has_id = true},
    {"cancel", {.type = FRAME_CANCEL}, .has_id = true},
    {"requeue", {.type = FRAME_DEAD, .dead = {.action = DEAD_REQUEUE}}, .has_id = true},
    {"drop", {.type = FRAME_DEAD, .dead = {.action = DEAD_DROP}}, .has_id = true},
    {"list", {.type = FRAME_LIST}, .question = true},
    {"dead", {.type = FRAME_DEAD, .dead = {.action = DEAD_LIST}}, .question = true},
    {"pause", {.type = FRAME_GATE, .gate = {.action = GATE_PAUSE, .plugin = {"", 0}, .function = {"", 0}}}},
    {"resume", {.type = FRAME_GATE, .gate = {.action = GATE_RESUME, .plugin = {"", 0}, .function = {"", 0}}}},
    {"drain", {.type = FRAME_GATE, .gate = {.action = GATE_DRAIN, .plugin = {"", 0}, .function = {"", 0}}}},
    {"limit", {.type = FRAME_GATE, .gate = {.action = GATE_LIMIT, .plugin = {"spin", 4}, .function = {"", 0}, .limit = 1}}},
    {"set-workers", {.type = FRAME_WORKERS, .workers = {.set = 3}}},
    {"workers", {.type = FRAME_WORKERS}, .question = true},
    {"submit", {.type = FRAME_SUBMIT, .submit = {.plugin = {"echo", 4}, .function = {"", 0}, .args = {"x", 2}, .argc = 1, .key = {"", 0}}}},
    {"plugins", {.type = FRAME_PLUGINS, .plugins = {.name = {"echo", 4}}}, .question = true},
    {"reload", {.type = FRAME_RELOAD, .reload = {.name = {"echo", 4}}}, .question = true},
    {"release", {.type = FRAME_RELEASE, .release = {.name = {"echo", 4}, .function = {"", 0}}}},
    {"lane", {.type = FRAME_LANE_OPEN}},
    {"trace", {.type = FRAME_TRACE, .trace = {.action = TRACE_ACTION_START}}},
    {"stats", {.type = FRAME_STATS}},
    {"ping", {.type = FRAME_PING}},
};
#define N_REQUESTS (sizeof(requests) / sizeof(requests[0]))

/* AWAIT by one who may see the job, then CANCEL by the tag of that: nothing answers that, so PING tells when it has been. */
static int cancel_by_tag(const uint8_t id[16])
{
    struct msg await = {.type = FRAME_AWAIT, .id = {.has_id = true}}, cancel = {.type = FRAME_CANCEL};
    struct frame f;
    struct msg m;

    memcpy(await.id.id, id, 16);
    put(&await, tag);
    put(&cancel, tag);
    put(&(struct msg){.type = FRAME_PING}, tag + 1);
    while (get(&f, &m))
        if (f.tag == tag + 1 || m.type == FRAME_DONE)
            return m.type == FRAME_DONE ? (int)m.job.exit : 0;
    return -1;
}

static int run(const char *name, size_t n, const uint8_t id[16])
{
    tag += 2;
    if (n == 13 && strncmp(name, "cancel-by-tag", n) == 0)
        return cancel_by_tag(id);
    for (size_t i = 0; i < N_REQUESTS; i++) {
        struct msg m = requests[i].msg;

        if (strlen(requests[i].name) != n || strncmp(requests[i].name, name, n) != 0)
            continue;
        if (requests[i].has_id && m.type == FRAME_DEAD)
            m.dead.id.has_id = true, memcpy(m.dead.id.id, id, 16);
        else if (requests[i].has_id)
            m.id.has_id = true, memcpy(m.id.id, id, 16);
        put(&m, tag);
        return outcome(requests[i].question);
    }
    return -2;
}

static bool connect_to(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct msg hello = {.type = FRAME_HELLO,
                        .hello = {.version_min = 1, .version_max = 1, .features = FEATURE_LANE | FEATURE_STORE,
                                  .directory = {"/", 1}, .program = {"trespass", 8}, .window = 65536}};

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        return false;
    put(&hello, 0);
    return true;
}

int main(int argc, char **argv)
{
    int failed = 0, first = connect_to(getenv("WSD_SOCKET")) ? 0 : -1;
    uint8_t id[16] = {0};
    struct frame f;
    struct msg m;

    if (argc < 3 || first < 0 || codec_new(&codec) < 0) {
        perror("trespass: connect");
        return 69;
    }
    for (unsigned i = 0, byte; i < 16 && sscanf(argv[1] + (size_t)2 * i, "%2x", &byte) == 1; i++)
        id[i] = (uint8_t)byte;
    if (!get(&f, &m) || m.type != FRAME_WELCOME)
        first = m.type == FRAME_ERROR ? (int)m.error.code : -1;
    for (int i = 2; i < argc; i++) {
        size_t n = strcspn(argv[i], "=");
        char line[8];
        int wanted = argv[i][n] ? atoi(argv[i] + n + 1) : 0, got;

        if (strcmp(argv[i], "stop") == 0) {
            puts("stopped");
            fflush(stdout);
            if (!fgets(line, sizeof(line), stdin))
                return 70;
            continue;
        }
        got = first ? first : run(argv[i], n, id);
        if (got != wanted) {
            printf("FAIL %.*s: %d where %d was expected\n", (int)n, argv[i], got, wanted);
            failed = 1;
        }
    }
    codec_free(codec);
    close(fd);
    return failed;
}
