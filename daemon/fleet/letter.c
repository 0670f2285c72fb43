/* SPDX-License-Identifier: Apache-2.0
 *
 * letter.c: jobs and their ends as messages of NATS.
 * Owns nothing.
 * Keeps: nothing that a message says is believed: each frame goes through the codec, and pieces have to follow each
 * other.
 * Does not send (bus.c). */
#include "fleet/letter.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

#define BACK_NSEC     UINT64_C(500000000)   /* before a message that was given back is handed out again */
#define BACK_MAX_NSEC UINT64_C(30000000000) /* the same, at most */

const char *const letter_classes[N_CLASSES] = {"hi", "norm", "lo"};

/* --- subjects ----------------------------------------------------------------------------------------------------- */

void letter_id_text(const uint8_t id[static 16], char ret[static LETTER_ID])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < 16; i++) {
        ret[2 * i] = digits[id[i] >> 4];
        ret[2 * i + 1] = digits[id[i] & 15];
    }
    ret[32] = 0;
}

bool letter_is_name(const char *name, size_t size, size_t room)
{
    static const char signs[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

    return size > 0 && size < room && strspn(name, signs) >= size;
}

size_t letter_plugin(const char *name)
{
    return strcspn(name, ".:");
}

static bool is_build(const char *text, size_t size)
{
    return size == LETTER_BUILD && strspn(text, "0123456789abcdef") >= size;
}

bool letter_job_subject(char ret[static LETTER_SUBJECT], const char *name, int priority)
{
    size_t n = strcspn(name, ":"), plugin = letter_plugin(name);

    if (!letter_is_name(name, plugin, CODEC_NAME_MAX) || (plugin < n && !is_build(name + plugin + 1, n - plugin - 1)))
        return false;
    int size =
        snprintf(ret, LETTER_SUBJECT, "wsd.job.00.%s.%.*s", letter_classes[letter_class(priority)], (int)n, name);
    if (plugin < n)
        ret[(size_t)size - (n - plugin)] = '+';
    return true;
}

bool letter_parcel_subject(char ret[static LETTER_SUBJECT], const char *name, int priority, const char *id)
{
    bool good = letter_job_subject(ret, name, priority);
    size_t n = good ? strlen(ret) : 0;

    if (good)
        snprintf(ret + n, LETTER_SUBJECT - n, ".%s", id);
    return good;
}

bool letter_get_parcel_id(const char *subject, char ret[static LETTER_ID])
{
    const char *at = subject;

    for (unsigned dots = 0; dots < 5; dots++, at++) /* wsd.job.PART.CLASS.PLUGIN.ID */
        if (!(at = strchr(at, '.')))
            return false;
    bool good = letter_is_name(at, strlen(at), LETTER_ID);
    if (good)
        snprintf(ret, LETTER_ID, "%s", at);
    return good;
}

void letter_end_subject(char ret[static LETTER_SUBJECT], const char *node, const char *id)
{
    snprintf(ret, LETTER_SUBJECT, "wsd.res.%s.%s", node, id);
}

void letter_live_subject(char ret[static LETTER_SUBJECT], const char *node, const char *id)
{
    snprintf(ret, LETTER_SUBJECT, "wsd.live.%s.%s", node, id);
}

bool letter_get_sent(const char *message_id, char ret_id[static LETTER_ID], uint32_t *ret_attempt)
{
    char id[LETTER_ID];
    int n = 0;

    if (sscanf(message_id, "%32[0-9a-f]-%" SCNu32 "%n", id, ret_attempt, &n) != 2 || strlen(id) != LETTER_ID - 1 ||
        message_id[n])
        return false;
    memcpy(ret_id, id, LETTER_ID);
    return true;
}

void letter_parts_subject(char ret[static LETTER_SUBJECT], const char *home, const char *id, uint32_t attempt,
                          const char *way, const uint8_t mark[static LETTER_MARK])
{
    uint64_t number;

    memcpy(&number, mark, sizeof(number));
    snprintf(ret, LETTER_SUBJECT, "wsd.part.%s%s%s-%u.%s.%016" PRIx64, home ? home : "", home ? "." : "", id, attempt,
             way, number);
}

bool letter_get_receipt(const char *reply, struct letter_receipt *ret)
{
    char stream[128];

    /* $JS.ACK.STREAM.CONSUMER.DELIVERED.STREAM-SEQUENCE.CONSUMER-SEQUENCE.TIME.PENDING */
    return sscanf(reply, "$JS.ACK.%127[^.].%127[^.].%" SCNu64 ".%" SCNu64 ".", stream, ret->consumer, &ret->delivered,
                  &ret->sequence) == 4;
}

void letter_give_back(const char *reply, char ret[static LETTER_ANSWER])
{
    struct letter_receipt receipt = {.delivered = 1};
    uint64_t pause = BACK_NSEC;

    (void)letter_get_receipt(reply, &receipt);
    for (uint64_t i = 1; i < receipt.delivered && pause < BACK_MAX_NSEC; i++)
        pause *= 2;
    snprintf(ret, LETTER_ANSWER, "-NAK {\"delay\":%" PRIu64 "}", MIN(pause, BACK_MAX_NSEC));
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

static int put(struct buffer *to, const struct msg *m, const void *body, size_t size)
{
    size_t room = codec_room(m) + FRAME_HEADER_SIZE;
    uint8_t *at = buffer_reserve(to, room + size);

    if (!at)
        return -ENOMEM;
    size_t n = codec_encode(m, 1, (uint32_t)size, at, room);
    if (n == 0)
        return -EINVAL;
    buffer_commit(to, n);
    return buffer_put(to, body, size) < 0 ? -ENOMEM : buffer_size(to) > LETTER_MAX ? -E2BIG : 0;
}

/* The pieces that do not go with the frame itself. */
static int put_pieces(struct buffer *to, uint16_t type, uint64_t run, const char *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        size_t n = MIN(size - at, (size_t)FRAME_BODY_CHUNK);
        const struct msg m = {.type = type, .run_chunk = {.run = run, .offset = at, .last = at + n == size}};
        int r = put(to, &m, data + at, n);

        if (r < 0)
            return r;
        at += n;
    }
    return 0;
}

static int put_seal(struct buffer *to, uint16_t type, const struct letter_seal *seal)
{
    const struct msg m = {.type = type, .run_chunk = {.run = 1, .offset = seal->size, .last = 1}};
    uint8_t body[LETTER_MARK + LETTER_DIGEST];

    memcpy(body, seal->mark, LETTER_MARK);
    memcpy(body + LETTER_MARK, seal->digest, LETTER_DIGEST);
    return put(to, &m, body, sizeof(body));
}

/* The RUN of a job with an input of this size, for which the caller sets whether it follows. */
static struct msg run_of(const char *node, const struct msg_run *run, uint64_t input_size)
{
    struct msg m = {.type = FRAME_RUN, .run = *run};

    m.run.run = MAX(run->run, (uint64_t)1);
    m.run.job.flags = 0;
    m.run.job.input_from = 0;
    m.run.job.input_offset = 0;
    m.run.job.input_size = input_size;
    m.run.directory = (struct span){node, strlen(node)};
    return m;
}

int letter_put_sealed_job(struct buffer *to, const char *node, const struct msg_run *run,
                          const struct letter_seal *seal)
{
    struct msg m = run_of(node, run, seal->size);

    m.run.job.flags = RUN_MORE;
    int r = put(to, &m, NULL, 0);
    return r < 0 ? r : put_seal(to, FRAME_RUN_INPUT, seal);
}

int letter_put_output_seal(struct buffer *to, const struct letter_seal *seal)
{
    return put_seal(to, FRAME_RUN_OUTPUT, seal);
}

int letter_put_job(struct buffer *to, const char *node, const struct msg_run *run, const void *input, size_t size)
{
    struct msg m = run_of(node, run, size);
    size_t first = codec_room(&m) + FRAME_HEADER_SIZE + size <= FRAME_MAX ? size : 0;
    if (first < size)
        m.run.job.flags = RUN_MORE;
    int r = put(to, &m, input, first);
    return r < 0 ? r : put_pieces(to, FRAME_RUN_INPUT, m.run.run, (const char *)input + first, size - first);
}

int letter_put_end(struct buffer *to, const struct msg_run_end *end, const void *output, size_t size)
{
    const struct msg m = {.type = FRAME_RUN_END, .run_end = *end};
    int r = put_pieces(to, FRAME_RUN_OUTPUT, 1, output, size);

    return r < 0 ? r : put(to, &m, NULL, 0);
}

/* Undoes what was appended behind `size` bytes. */
static int undo(struct buffer *to, size_t size, int error)
{
    to->end = to->start + size;
    return error;
}

int parcel_put_job(struct buffer *to, const char *node, const struct msg_run *run, const void *input, size_t size)
{
    size_t before = buffer_size(to);
    int r = letter_put_job(to, node, run, input, size);

    return r < 0 ? undo(to, before, r) : 0;
}

/* A small output goes with the frame of the end. */
int parcel_put_end(struct buffer *to, const struct msg_run_end *end, const void *output, size_t size)
{
    const struct msg m = {.type = FRAME_RUN_END, .run_end = *end};
    size_t before = buffer_size(to), with = size <= FRAME_BODY_CHUNK ? size : 0;
    int r = put_pieces(to, FRAME_RUN_OUTPUT, end->run, output, size - with);

    r = r < 0 ? r : put(to, &m, output, with);
    return r < 0 ? undo(to, before, r) : 0;
}

/* Takes the next frame. Returns 0, or -EBADMSG with words. */
static int next(struct codec *codec, struct span *rest, struct frame *frame, struct msg *m, char why[static 160])
{
    size_t used;
    int r = frame_parse((const uint8_t *)rest->data, rest->size, frame, &used);

    if (r != 0) {
        snprintf(why, 160, "%s", r == FRAME_MORE ? "a message that ends in the middle of a frame" : frame_strerror(r));
        return -EBADMSG;
    }
    if (codec_decode(codec, frame, m) != 0) {
        snprintf(why, 160, "%s", codec_strerror(codec));
        return -EBADMSG;
    }
    rest->data += used;
    rest->size -= used;
    return 0;
}

static int put_live(struct buffer *to, const struct msg *m)
{
    size_t before = buffer_size(to);
    int r = put(to, m, NULL, 0);

    return r < 0 ? undo(to, before, r) : buffer_size(to) > LIVE_MAX ? undo(to, before, -E2BIG) : 0;
}

int live_put_message(struct buffer *to, uint32_t attempt, uint32_t level, const char *text)
{
    const struct msg m = {.type = FRAME_RUN_MESSAGE,
                          .run_message = {.run = attempt, .level = level, .text = {text, strlen(text)}}};

    return put_live(to, &m);
}

int live_put_progress(struct buffer *to, uint32_t attempt, uint64_t done, uint64_t total)
{
    const struct msg m = {.type = FRAME_RUN_PROGRESS, .run_progress = {.run = attempt, .done = done, .total = total}};

    return put_live(to, &m);
}

static int wrong(char why[static 160], const char *words)
{
    snprintf(why, 160, "%s", words);
    return -EBADMSG;
}

int live_get(struct codec *codec, struct span *rest, struct msg *ret, char ret_why[static 160])
{
    struct frame frame;
    int r = next(codec, rest, &frame, ret, ret_why);

    if (r < 0)
        return r;
    if ((ret->type != FRAME_RUN_MESSAGE && ret->type != FRAME_RUN_PROGRESS) || frame.body_size > 0)
        return wrong(ret_why, "neither a message nor a progress");
    return 0;
}

/* The first piece of what has `max` bytes at most stands beyond its end: it is a seal. */
static int get_seal(const struct msg *m, const struct frame *frame, uint64_t max, struct letter_seal *ret,
                    char why[static 160])
{
    if (frame->body_size != LETTER_MARK + LETTER_DIGEST || !m->run_chunk.last)
        return wrong(why, "a piece that does not follow the one before");
    if (m->run_chunk.offset > max)
        return wrong(why, "parts that are larger together than they may be");
    ret->size = m->run_chunk.offset;
    memcpy(ret->mark, frame->body, LETTER_MARK);
    memcpy(ret->digest, frame->body + LETTER_MARK, LETTER_DIGEST);
    return 0;
}

/* Takes pieces of this type, up to the last one, or until another frame comes. Or a seal. */
static int get_pieces(struct codec *codec, struct span *rest, uint16_t type, struct buffer *to,
                      struct letter_seal *seal, char why[static 160])
{
    uint64_t max = type == FRAME_RUN_INPUT ? LETTER_INPUT_MAX : LETTER_OUTPUT_MAX;
    struct frame frame;
    struct msg m;
    size_t used;

    for (bool last = false; !last;) {
        if (frame_parse((const uint8_t *)rest->data, rest->size, &frame, &used) != 0 || frame.type != type)
            return wrong(why, "a piece is missing");
        if (codec_decode(codec, &frame, &m) != 0)
            return wrong(why, codec_strerror(codec));
        int r = 0;
        if (m.run_chunk.offset > 0 && buffer_size(to) == 0)
            r = get_seal(&m, &frame, max, seal, why);
        else if (m.run_chunk.offset != buffer_size(to))
            r = wrong(why, "a piece that does not follow the one before");
        else if (buffer_put(to, frame.body, frame.body_size) < 0)
            r = -ENOMEM;
        if (r < 0)
            return r;
        rest->data += used;
        rest->size -= used;
        last = m.run_chunk.last;
    }
    return 0;
}

/* The first job. Its input has the size that it says. */
static int take_job(struct codec *codec, struct span *rest, struct letter_job *ret, char why[static 160])
{
    struct frame frame;
    struct msg m;
    int r = next(codec, rest, &frame, &m, why);

    if (r < 0)
        return r;
    if (m.type != FRAME_RUN || m.run.job.input_from != 0)
        return wrong(why, "it does not begin with a job");
    if (!letter_is_name(m.run.directory.data, m.run.directory.size, LETTER_NAME))
        return wrong(why, "no node that it comes from");
    bool more = m.run.job.flags & RUN_MORE;
    if (buffer_put(&ret->input, frame.body, frame.body_size) < 0)
        return -ENOMEM;
    if (more) { /* pieces are read by the same codec, so what the RUN says is decoded again behind them */
        const struct frame run = frame;

        r = get_pieces(codec, rest, FRAME_RUN_INPUT, &ret->input, &ret->seal, why);
        if (r < 0)
            return r;
        if (codec_decode_again(codec, &run, &m) != 0)
            return wrong(why, codec_strerror(codec));
    }
    ret->run = m.run;
    uint64_t input_size = ret->seal.size ? ret->seal.size : buffer_size(&ret->input);
    return m.run.job.input_size == input_size ? 0 : wrong(why, "an input of another size");
}

int letter_get_job(struct codec *codec, const void *data, size_t size, struct letter_job *ret, char ret_why[static 160])
{
    struct span rest = {data, size};
    int r = take_job(codec, &rest, ret, ret_why);

    return r < 0 || rest.size == 0 ? r : wrong(ret_why, "an input of another size");
}

int parcel_get_job(struct codec *codec, struct span *rest, struct letter_job *ret, char ret_why[static 160])
{
    int r = take_job(codec, rest, ret, ret_why);

    return r < 0 || ret->seal.size == 0 ? r : wrong(ret_why, "a parcel has no parts");
}

/* The first end; with_body: the last piece of its output may be there. */
static int take_end(struct codec *codec, struct span *rest, bool with_body, struct letter_end *ret,
                    char why[static 160])
{
    struct frame frame;
    struct msg m;
    size_t used;
    int r = 0;

    if (frame_parse((const uint8_t *)rest->data, rest->size, &frame, &used) == 0 && frame.type == FRAME_RUN_OUTPUT)
        r = get_pieces(codec, rest, FRAME_RUN_OUTPUT, &ret->output, &ret->seal, why);
    if (r == 0)
        r = next(codec, rest, &frame, &m, why);
    if (r < 0)
        return r;
    if (m.type != FRAME_RUN_END || (!with_body && frame.body_size > 0))
        return wrong(why, "it does not end with the end of a job");
    ret->end = m.run_end;
    return buffer_put(&ret->output, frame.body, frame.body_size) < 0 ? -ENOMEM : 0;
}

int letter_get_end(struct codec *codec, const void *data, size_t size, struct letter_end *ret, char ret_why[static 160])
{
    struct span rest = {data, size};
    int r = take_end(codec, &rest, false, ret, ret_why);

    return r < 0 || rest.size == 0 ? r : wrong(ret_why, "it does not end with the end of a job");
}

int parcel_get_end(struct codec *codec, struct span *rest, struct letter_end *ret, char ret_why[static 160])
{
    int r = take_end(codec, rest, true, ret, ret_why);

    return r < 0 || ret->seal.size == 0 ? r : wrong(ret_why, "a parcel has no parts");
}
