/* SPDX-License-Identifier: Apache-2.0
 *
 * chaos-valid.c: clients that send valid frames in any order, hang up, come back, read or do not read. Each answer is
 * checked: it belongs to an open request, ACCEPTED comes once and first, the last frame comes once. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "chaos.h"

#define TAGS 512
#define IDS  256

enum kind { NONE, JOB, FOLLOW, LIST, PLUGINS, ONE };

struct call {
    enum kind kind;
    bool accepted, more;
    uint64_t in_sent, in_allowed, out;
    uint8_t id[16]; /* once it is known */
};

struct calls {
    uint32_t next_tag;
    struct call of[TAGS]; /* tags 1..TAGS-1 of this connection's life */
};

char **plugins;
int n_plugins;
static uint8_t ids[IDS][16];
static uint32_t n_ids;
static struct {
    uint64_t frames, submitted, accepted, done, errors, hangups, states[11];
} counts;

static struct calls *calls(struct conn *c)
{
    return c->state;
}

static void put(struct conn *c, const struct msg *m, uint32_t tag, size_t body_size)
{
    static const uint8_t body[FRAME_MAX];
    size_t size = codec_room(m);

    if (!size || c->out_size + size + body_size > OUT_MAX)
        return;
    size = codec_encode(m, tag, body_size, c->out + c->out_size, size);
    if (!size)
        return;
    memcpy(c->out + c->out_size + size, body, body_size);
    c->out_size += size + body_size;
    counts.frames++;
}

static void begin(struct conn *c)
{
    calls(c)->next_tag = 1;
    c->deaf = dice(10) == 0;
    put(c,
        &(struct msg){.type = FRAME_HELLO,
                      .hello = {.version_min = 1,
                                .version_max = 1,
                                .directory = {"/", 1},
                                .window = (uint32_t)(dice(3) ? dice(1 << 20) : 0)}},
        0, 0);
}

static void hang_up(struct conn *c)
{
    counts.hangups++;
    again(c);
}

/* --- what wsd says ------------------------------------------------------------------------------------------------ */

static void end_call(struct conn *c, uint32_t tag)
{
    calls(c)->of[tag].kind = NONE;
}

static void check(struct conn *c, const struct frame *f, const struct msg *m)
{
    struct call *call = f->tag < TAGS ? &calls(c)->of[f->tag] : NULL;

    if (f->tag == 0) {
        if (m->type == FRAME_ERROR && !c->unruly)
            fail("wsd closes: %s", m->error.text.data);
        return;
    }
    if (!call || call->kind == NONE)
        fail("%s for tag %u, which is not open", codec_type_name(m->type), f->tag);
    switch (m->type) {
    case FRAME_ACCEPTED:
        if (call->kind != JOB || call->accepted)
            fail("ACCEPTED for a call of kind %d", call->kind);
        call->accepted = true;
        counts.accepted++;
        memcpy(ids[n_ids++ % IDS], m->id.id, 16);
        memcpy(call->id, m->id.id, 16);
        break;
    case FRAME_OUTPUT:
        if (m->chunk.offset != call->out || (call->kind == JOB && !call->accepted))
            fail("output at %llu where %llu was expected", (unsigned long long)m->chunk.offset,
                 (unsigned long long)call->out);
        call->out += f->body_size;
        break;
    case FRAME_CREDIT:
        call->in_allowed += m->credit.bytes;
        break;
    case FRAME_MESSAGE:
    case FRAME_PROGRESS:
    case FRAME_JOB:
        if (m->type == FRAME_JOB && call->kind == ONE)
            end_call(c, f->tag);
        break;
    case FRAME_PLUGIN:
    case FRAME_EXECUTOR:
    case FRAME_WORKER:
        break;
    case FRAME_PIECE:
        if (m->chunk.offset % FRAME_BODY_CHUNK)
            fail("a piece at %llu", (unsigned long long)m->chunk.offset);
        break;
    case FRAME_OPEN:
        put(c, &(struct msg){.type = FRAME_OPENED, .opened = {.serial = m->open.serial, .error = EPERM}}, f->tag, 0);
        break;
    case FRAME_DONE:
        if (call->kind != FOLLOW && (call->kind != JOB || !call->accepted))
            fail("DONE for a call of kind %d", call->kind);
        if (memcmp(call->id, m->job.id, 16) != 0)
            fail("DONE of another job than was asked for");
        counts.done += call->kind == JOB;
        counts.states[m->job.state]++;
        end_call(c, f->tag);
        break;
    case FRAME_ERROR:
        if (call->accepted)
            fail("ERROR behind ACCEPTED: %s", m->error.text.data);
        counts.errors++;
        end_call(c, f->tag);
        break;
    default:
        end_call(c, f->tag);
        break;
    }
}

/* --- what it is asked --------------------------------------------------------------------------------------------- */

static uint32_t tag_new(struct conn *c, enum kind kind)
{
    if (calls(c)->next_tag >= TAGS)
        return 0;
    calls(c)->of[calls(c)->next_tag] = (struct call){.kind = kind};
    return calls(c)->next_tag++;
}

static void submit(struct conn *c)
{
    char text[256], *function, *argument;
    uint32_t tag = tag_new(c, JOB);
    bool more = dice(4) == 0;
    size_t body = dice(3) ? 0 : dice(dice(2) ? 100 : 50000);

    if (!tag)
        return;
    snprintf(text, sizeof(text), "%s", plugins[dice((uint64_t)n_plugins)]);
    argument = strchr(text, '=');
    if (argument)
        *argument++ = 0;
    function = strchr(text, ':');
    if (function)
        *function++ = 0;
    struct msg m = {.type = FRAME_SUBMIT,
                    .submit = {.plugin = {text, strlen(text)},
                               .function = {function ? function : "", function ? strlen(function) : 0},
                               .args = {argument ? argument : "", argument ? strlen(argument) + 1 : 0},
                               .argc = argument ? 1 : 0,
                               .timeout_usec = dice(3) ? 0 : 1 + dice(200000),
                               .priority = (int32_t)dice(201) - 100,
                               .flags = (dice(3) ? 0 : SUBMIT_DETACH) | (dice(2) ? 0 : SUBMIT_PROGRESS) |
                                        (more ? SUBMIT_MORE : 0)}};
    counts.submitted++;
    calls(c)->of[tag].more = more;
    calls(c)->of[tag].in_sent = body;
    calls(c)->of[tag].in_allowed = 256 * 1024;
    put(c, &m, tag, body);
}

static void with_id(struct conn *c, uint16_t type, enum kind kind)
{
    uint32_t tag = n_ids ? tag_new(c, kind) : 0;
    struct msg m = {.type = type, .id = {.has_id = true}};

    if (!tag)
        return;
    memcpy(m.id.id, ids[dice(n_ids < IDS ? n_ids : IDS)], 16);
    if (!dice(20))
        m.id.id[15] ^= 1;
    memcpy(calls(c)->of[tag].id, m.id.id, 16);
    put(c, &m, tag, 0);
}

static void input(struct conn *c, uint32_t tag)
{
    struct call *call = &calls(c)->of[tag];
    size_t body = dice(60000);
    bool last = dice(4) == 0;

    if (call->kind != JOB || !call->more || call->in_sent + body > call->in_allowed ||
        c->out_size + body + 1000 > OUT_MAX)
        return;
    put(c, &(struct msg){.type = FRAME_INPUT, .chunk = {.offset = call->in_sent, .last = last}}, tag, body);
    call->in_sent += body;
    call->more = !last;
}

static void act(struct conn *c)
{
    uint32_t tag = 1 + (uint32_t)dice(calls(c)->next_tag), one;

    switch (dice(17)) {
    case 0:
    case 1:
    case 2:
        submit(c);
        break;
    case 3:
    case 4:
        input(c, tag % TAGS);
        break;
    case 5:
    case 6:
    case 7:
        put(c, &(struct msg){.type = FRAME_CREDIT, .credit = {.bytes = dice(1 << 20)}}, tag, 0);
        break;
    case 8:
        put(c, &(struct msg){.type = FRAME_CANCEL}, tag, 0);
        break;
    case 9:
        with_id(c, FRAME_CANCEL, ONE);
        break;
    case 10:
        with_id(c, FRAME_AWAIT, FOLLOW);
        break;
    case 11:
        with_id(c, FRAME_STATUS, ONE);
        break;
    case 12:
        one = tag_new(c, dice(4) ? ONE : LIST);
        if (one)
            put(c, &(struct msg){.type = calls(c)->of[one].kind == ONE ? FRAME_STATS : FRAME_LIST}, one, 0);
        break;
    case 13:
        one = dice(10) ? 0 : tag_new(c, PLUGINS);
        if (one)
            put(c, &(struct msg){.type = FRAME_PLUGINS, .plugins = {.name = {"echo", dice(2) ? 4 : 0}}}, one, 0);
        break;
    case 14:
        one = tag_new(c, ONE);
        if (one)
            put(c, &(struct msg){.type = FRAME_PING}, one, dice(5000));
        break;
    case 15:
        one = dice(4) ? 0 : tag_new(c, PLUGINS);
        if (one && dice(2))
            put(c, &(struct msg){.type = FRAME_WORKERS, .workers = {.set = (uint32_t)dice(4)}}, one, 0);
        else if (one)
            put(c, &(struct msg){.type = FRAME_TRACE, .trace = {.action = dice(2) ? 1 : 3}}, one, 0);
        break;
    default:
        if (dice(20) == 0) {
            c->unruly = true;
            put(c, &(struct msg){.type = FRAME_GOODBYE}, 1, 0);
        } else if (calls(c)->next_tag == TAGS || dice(60) == 0) {
            hang_up(c);
        } else if (dice(10) == 0) {
            c->deaf = !c->deaf;
        }
    }
}

static void send_some(struct conn *c)
{
    ssize_t n = c->out_size ? send(c->fd, c->out, c->out_size, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        if (!c->unruly)
            fail("send: %s", strerror(errno));
        hang_up(c);
        return;
    }
    if (n > 0)
        sent(c, (size_t)n);
}

static void turn(struct conn *c)
{
    if (c->out_size < FRAME_MAX && !c->unruly)
        for (uint64_t n = dice(8); n; n--)
            act(c);
    c->deaf = c->deaf && !c->unruly; /* it waits for the end */
    send_some(c);
}

static void print(void)
{
    printf("frames %llu submitted %llu accepted %llu done %llu errors %llu hangups %llu states",
           (unsigned long long)counts.frames, (unsigned long long)counts.submitted, (unsigned long long)counts.accepted,
           (unsigned long long)counts.done, (unsigned long long)counts.errors, (unsigned long long)counts.hangups);
    for (int i = 5; i <= 10; i++)
        printf(" %llu", (unsigned long long)counts.states[i]);
    putchar('\n');
}

const struct manner valid = {
    .state_size = sizeof(struct calls), .begin = begin, .turn = turn, .check = check, .print = print};
