/* SPDX-License-Identifier: Apache-2.0
 *
 * trespass.c: requests by hand-written frames, about a job that most likely is another user's.
 *
 *     trespass ID REQUEST=CODE...
 *
 * Sends one REQUEST after the other on one connection. CODE is the exit code that wsd must refuse it with; 0: it is
 * done. A question that is answered with nothing (no job, no executor) counts as 66. A submit that is answered with
 * that very job counts as 1. `stop` in the place of a request prints a line and goes on when it has read one. Prints
 * `FAIL REQUEST: why` for each that was answered otherwise. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/codec.h"
#include "proto/records.h"
#include "proto/frame.h"

static struct codec *codec;
static uint8_t in[FRAME_MAX * 2];
static size_t size;
static int fd;
static uint32_t tag;
static uint8_t of_whom[16]; /* ID */

static void put_with(const struct msg *m, uint32_t of, const void *body, size_t body_size, int descriptor)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    uint8_t bytes[FRAME_MAX];
    size_t n = codec_encode(m, of, body_size, bytes, sizeof(bytes));
    struct iovec v = {bytes, n + body_size};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};

    if (body_size)
        memcpy(bytes + n, body, body_size);
    if (descriptor >= 0) {
        h.msg_control = control.bytes;
        h.msg_controllen = sizeof(control.bytes);
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.align), &descriptor, sizeof(int));
    }
    if (!n || sendmsg(fd, &h, MSG_NOSIGNAL) != (ssize_t)v.iov_len)
        perror("trespass: send");
}

static void put(const struct msg *m, uint32_t of)
{
    put_with(m, of, NULL, 0, -1);
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
        if (n < 0 && errno == EINTR) /* it was stopped, and goes on: with a time limit that is told */
            continue;
        if (n <= 0) {
            used = 0;
            return false;
        }
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
        if (m.type == FRAME_COUNT)
            return m.count.n ? 0 : 66;
        if (m.type == FRAME_ENDS) { /* of the one item of an ARRAY */
            struct span body = {(const char *)f.body, f.body_size};
            struct msg_end end;

            return codec_next_end(&body, &end) && end.state == 0 ? (int)end.exit : 0;
        }
        if (m.type == FRAME_ACCEPTED && memcmp(m.id.id, of_whom, sizeof(of_whom)) == 0)
            return 1;
        if (m.type == FRAME_ACCEPTED)
            continue;
        told = true;
        if (!question)
            return 0;
    }
    return -1;
}

#define NONE                                                                                                           \
    {                                                                                                                  \
        "", 0                                                                                                          \
    }
#define ANY  .plugin = NONE, .function = NONE
#define ECHO .plugin = {"echo", 4}, .function = NONE

static const struct {
    const char *name;
    struct msg msg;
    bool has_id, question;
} requests[] = {
    /* those with a name in them are of what alice has: the schedule `nightly`, the key `report` */
    {"status", {.type = FRAME_STATUS}, .has_id = true},
    {"await", {.type = FRAME_AWAIT}, .has_id = true},
    {"cancel", {.type = FRAME_CANCEL}, .has_id = true},
    {"requeue", {.type = FRAME_DEAD, .dead = {.action = DEAD_REQUEUE}}, .has_id = true},
    {"drop", {.type = FRAME_DEAD, .dead = {.action = DEAD_DROP}}, .has_id = true},
    {"list", {.type = FRAME_LIST}, .question = true},
    {"dead", {.type = FRAME_DEAD, .dead = {.action = DEAD_LIST}}, .question = true},
    {"pause", {.type = FRAME_GATE, .gate = {.action = GATE_PAUSE, ANY}}},
    {"resume", {.type = FRAME_GATE, .gate = {.action = GATE_RESUME, ANY}}},
    {"drain", {.type = FRAME_GATE, .gate = {.action = GATE_DRAIN, ANY}}},
    {"limit",
     {.type = FRAME_GATE, .gate = {.action = GATE_LIMIT, .plugin = {"spin", 4}, .function = NONE, .limit = 1}}},
    {"set-workers", {.type = FRAME_WORKERS, .workers = {.set = 3}}},
    {"workers", {.type = FRAME_WORKERS}, .question = true},
    {"submit", {.type = FRAME_SUBMIT, .submit = {ECHO, .args = {"x", 2}, .argc = 1, .key = NONE}}},
    {"plugins", {.type = FRAME_PLUGINS, .plugins = {.name = {"echo", 4}}}, .question = true},
    {"reload", {.type = FRAME_RELOAD, .reload = {.name = {"echo", 4}}}, .question = true},
    {"release", {.type = FRAME_RELEASE, .release = {.name = {"echo", 4}, .function = NONE}}},
    {"lane", {.type = FRAME_LANE_OPEN}},
    {"trace", {.type = FRAME_TRACE, .trace = {.action = TRACE_ACTION_START}}},
    {"stats", {.type = FRAME_STATS}},
    {"ping", {.type = FRAME_PING}},
    {"list-all", {.type = FRAME_LIST_WHERE, .filter = {.states = CODEC_STATES, ANY, .batch = NONE}}, .question = true},
    {"cancel-all", {.type = FRAME_CANCEL_WHERE, .filter = {.states = CODEC_STATES, ANY, .batch = NONE}}},
    {"list-batch", {.type = FRAME_LIST_WHERE, .filter = {ANY}}, .has_id = true, .question = true},
    {"cancel-of-batch", {.type = FRAME_CANCEL_WHERE, .filter = {ANY}}, .has_id = true},
    {"batch-open", {.type = FRAME_BATCH, .batch = {.action = BATCH_OPEN}}},
    {"batch-status", {.type = FRAME_BATCH, .batch = {.action = BATCH_STATUS}}, .has_id = true},
    {"batch-await", {.type = FRAME_BATCH, .batch = {.action = BATCH_AWAIT}}, .has_id = true},
    {"batch-cancel", {.type = FRAME_BATCH, .batch = {.action = BATCH_CANCEL}}, .has_id = true},
    {"array", {.type = FRAME_ARRAY, .submit = {ECHO, .items = 1}}},
    {"array-after", {.type = FRAME_ARRAY, .submit = {ECHO, .items = 1}}, .has_id = true},
    {"after", {.type = FRAME_SUBMIT, .submit = {ECHO, .key = NONE}}, .has_id = true},
    {"after-any", {.type = FRAME_SUBMIT, .submit = {ECHO, .key = NONE}}, .has_id = true},
    {"key", {.type = FRAME_SUBMIT, .submit = {ECHO, .key = {"report", 6}}}},
    {"arena", {.type = FRAME_ARENA_OPEN}},
    {"input-file", {.type = FRAME_SUBMIT, .submit = {ECHO, .key = NONE, .input_from = INPUT_FILE, .input_size = 4096}}},
    {"limits", {.type = FRAME_LIMIT, .limit = {.key = NONE, .value = NONE}}, .question = true},
    {"functions", {.type = FRAME_FUNCTIONS, .functions = {.plugin = NONE, .function = NONE}}, .question = true},
    {"set-limit", {.type = FRAME_LIMIT, .limit = {.flags = LIMIT_MOVED, .key = {"max-run", 7}, .value = {"1h", 2}}}},
    {"set-own-limit",
     {.type = FRAME_LIMIT,
      .limit = {.flags = LIMIT_MOVED | LIMIT_OWN, .key = {"max-jobs-per-user", 17}, .value = {"9", 1}}}},
    {"pause-tag", {.type = FRAME_GATE, .gate = {.action = GATE_PAUSE, ANY, .tag = {"t", 1}}}},
    {"limit-tag", {.type = FRAME_GATE, .gate = {.action = GATE_LIMIT, ANY, .tag = {"t", 1}, .limit = 1}}},
    {"schedules", {.type = FRAME_SCHEDULE, .schedule = {.action = SCHEDULE_LIST}}, .question = true},
    {"schedule-run", {.type = FRAME_SCHEDULE, .schedule = {.action = SCHEDULE_RUN, .name = {"nightly", 7}}}},
    {"schedule-remove", {.type = FRAME_SCHEDULE, .schedule = {.action = SCHEDULE_REMOVE, .name = {"nightly", 7}}}},
    {"schedule-add",
     {.type = FRAME_SCHEDULE,
      .schedule =
          {.action = SCHEDULE_ADD, .name = {"bobs", 4}, .calendar = {"yearly", 6}, .job = {ECHO, .key = NONE}}}},
};
#define N_REQUESTS (sizeof(requests) / sizeof(requests[0]))

/* AWAIT by a user that may see the job, then CANCEL by the tag of the AWAIT. A CANCEL has no answer, so PING tells when
 * it was handled. patient: it is cancelled; waits for the job's end. */
static int cancel_by_tag(const uint8_t id[16], bool patient)
{
    struct msg await = {.type = FRAME_AWAIT, .id = {.has_id = true}}, cancel = {.type = FRAME_CANCEL};
    struct frame f;
    struct msg m;

    memcpy(await.id.id, id, 16);
    put(&await, tag);
    put(&cancel, tag);
    put(&(struct msg){.type = FRAME_PING}, tag + 1);
    while (get(&f, &m))
        if ((f.tag == tag + 1 && !patient) || m.type == FRAME_DONE)
            return m.type == FRAME_DONE ? (int)m.job.exit : 0;
    return -1;
}

/* A BATCH that is only awaited takes no jobs: a SUBMIT that names its tag is refused (64). A CANCEL with its tag
 * cancels the batch. PING tells when both were handled; 0: the batch has not ended by then. */
static int into_batch(const uint8_t id[16])
{
    struct msg await = {.type = FRAME_BATCH, .batch = {.action = BATCH_AWAIT, .id = {.has_id = true}}},
               cancel = {.type = FRAME_CANCEL};
    struct msg submit = {.type = FRAME_SUBMIT,
                         .submit = {.plugin = {"echo", 4}, .function = {"", 0}, .key = {"", 0}, .batch = tag}};
    struct frame f;
    struct msg m;
    int code = 0;

    memcpy(await.batch.id.id, id, 16);
    put(&await, tag);
    put(&submit, tag + 1);
    put(&cancel, tag);
    put(&(struct msg){.type = FRAME_PING}, tag + 2);
    while (get(&f, &m)) {
        if (m.type == FRAME_BATCH_STATE && m.batch_state.flags & BATCH_STOPPED)
            return 1;
        if (m.type == FRAME_ERROR && f.tag == tag + 1)
            code = (int)m.error.code;
        if (f.tag == tag + 2) {
            tag += 2;
            return code;
        }
    }
    return -1;
}

static int memory_file(void)
{
    int memfd = memfd_create("trespass", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (memfd < 0 || ftruncate(memfd, 4096) < 0 || fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        perror("trespass: memfd");
    return memfd;
}

/* The request, with all that goes with it. */
static void ask(const char *name, struct msg *m, const uint8_t id[16])
{
    static const uint8_t item[CODEC_ITEM_SIZE]; /* without arguments and input */
    const struct span wanted = {(const char *)id, 16};
    int memfd = -1;

    if (!id)
        ; /* it names nothing */
    else if (m->type == FRAME_DEAD)
        m->dead.id.has_id = true, memcpy(m->dead.id.id, id, 16);
    else if (m->type == FRAME_BATCH)
        m->batch.id.has_id = true, memcpy(m->batch.id.id, id, 16);
    else if (m->type == FRAME_LIST_WHERE || m->type == FRAME_CANCEL_WHERE)
        m->filter.batch = wanted;
    else if ((m->type == FRAME_SUBMIT || m->type == FRAME_ARRAY) && strncmp(name, "after-any", 9) == 0)
        m->submit.after_any = wanted;
    else if (m->type == FRAME_SUBMIT || m->type == FRAME_ARRAY)
        m->submit.after = wanted;
    else
        m->id.has_id = true, memcpy(m->id.id, id, 16);
    if (m->type == FRAME_ARENA_OPEN || (m->type == FRAME_SUBMIT && m->submit.input_from == INPUT_FILE))
        memfd = memory_file();
    put_with(m, tag, item, m->type == FRAME_ARRAY ? sizeof(item) : 0, memfd);
    if (memfd >= 0)
        close(memfd);
}

static int run(const char *name, size_t n, const uint8_t id[16])
{
    tag += 2;
    if (n == 13 && strncmp(name, "cancel-by-tag", n) == 0)
        return cancel_by_tag(id, false);
    if (n == 15 && strncmp(name, "cancel-followed", n) == 0)
        return cancel_by_tag(id, true);
    if (n == 10 && strncmp(name, "into-batch", n) == 0)
        return into_batch(id);
    for (size_t i = 0; i < N_REQUESTS; i++) {
        struct msg m = requests[i].msg;

        if (strlen(requests[i].name) != n || strncmp(requests[i].name, name, n) != 0)
            continue;
        ask(name, &m, requests[i].has_id ? id : NULL);
        return outcome(requests[i].question);
    }
    return -2;
}

static bool connect_to(const char *path)
{
    const struct timeval late = {.tv_sec = 20}; /* what is never answered is no answer */
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct msg hello = {.type = FRAME_HELLO,
                        .hello = {.version_min = 1,
                                  .version_max = 1,
                                  .features = FEATURE_LANE | FEATURE_STORE | FEATURE_PAYLOAD | FEATURE_TIME |
                                              FEATURE_ORDER | FEATURE_ARRAY | FEATURE_WHERE | FEATURE_LIMITS |
                                              FEATURE_FUNCTIONS,
                                  .directory = {"/", 1},
                                  .program = {"trespass", 8},
                                  .window = 65536}};

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &late, sizeof(late)) < 0 ||
        connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        return false;
    put(&hello, 0);
    return true;
}

int main(int argc, char **argv)
{
    int failed = 0, first = connect_to(getenv("WSD_SOCKET")) ? 0 : -1;
    struct frame f;
    struct msg m;

    if (argc < 3 || first < 0 || codec_new(&codec) < 0) {
        perror("trespass: connect");
        return 69;
    }
    for (unsigned i = 0, byte; i < 16 && sscanf(argv[1] + (size_t)2 * i, "%2x", &byte) == 1; i++)
        of_whom[i] = (uint8_t)byte;
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
        got = first ? first : run(argv[i], n, of_whom);
        if (got != wanted) {
            printf("FAIL %.*s: %d where %d was expected\n", (int)n, argv[i], got, wanted);
            failed = 1;
        }
    }
    codec_free(codec);
    close(fd);
    return failed;
}
