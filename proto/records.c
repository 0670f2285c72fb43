/* SPDX-License-Identifier: Apache-2.0
 *
 * records.c: the bodies of ARRAY, ENDS and FUNCTION_STATS: many records, little endian, by hand, since there are many.
 * Owns nothing. [any]
 * Keeps: a body that codec_records_problem() has passed can be taken apart.
 * Does not know frames. */
#include "proto/records.h"

#include <endian.h>
#include <string.h>

#include "proto/frame.h"

const char *codec_args_problem(struct span args, uint32_t argc)
{
    uint32_t n = 0;

    if (argc > CODEC_ARGS_MAX)
        return "number of arguments";
    if (args.size > CODEC_ARGS_SIZE)
        return "size of the arguments";
    for (size_t i = 0; i < args.size; i++)
        n += args.data[i] == 0;
    return n != argc || (args.size > 0 && args.data[args.size - 1] != 0) ? "NUL inside an argument" : NULL;
}

static void put_le(uint8_t *ret, uint64_t value, unsigned bytes)
{
    value = htole64(value);
    memcpy(ret, &value, bytes);
}

static uint64_t get_le(const char *data, unsigned bytes)
{
    uint64_t value = 0;

    memcpy(&value, data, bytes);
    return le64toh(value);
}

static bool cut(struct span *from, size_t size, struct span *ret)
{
    if (from->size < size)
        return false;
    *ret = (struct span){from->data, size};
    *from = (struct span){from->data + size, from->size - size};
    return true;
}

bool codec_next_item(struct span *body, struct msg_item *ret)
{
    struct span head;

    if (!cut(body, CODEC_ITEM_SIZE, &head))
        return false;
    ret->argc = (uint32_t)get_le(head.data, 2);
    return cut(body, get_le(head.data + 2, 2), &ret->args) && cut(body, get_le(head.data + 4, 4), &ret->input);
}

void codec_put_item(const struct msg_item *item, uint8_t ret[static CODEC_ITEM_SIZE])
{
    put_le(ret, item->argc, 2);
    put_le(ret + 2, item->args.size, 2);
    put_le(ret + 4, item->input.size, 4);
}

/* The sum of what is cut so has been looked at. */
static const char *cut_known(const char *from, uint64_t size, struct span *ret)
{
    *ret = (struct span){from, (size_t)size};
    return from + size;
}

/* index 4, n 4, state 1, exit 1, attempts 2, sizes of worker, error, status and backtrace 2 each, of output 4; three
 * times 8 */
bool codec_next_end(struct span *body, struct msg_end *ret)
{
    struct span head;

    if (!cut(body, CODEC_END_SIZE, &head))
        return false;
    uint64_t worker = get_le(head.data + 12, 2), error = get_le(head.data + 14, 2), status = get_le(head.data + 16, 2);
    uint64_t backtrace = get_le(head.data + 18, 2), output = get_le(head.data + 20, 4);
    if (body->size < worker + error + status + backtrace + output)
        return false;
    ret->index = (uint32_t)get_le(head.data, 4);
    ret->n = (uint32_t)get_le(head.data + 4, 4);
    ret->state = (uint8_t)head.data[8];
    ret->exit = (uint8_t)head.data[9];
    ret->attempts = (uint32_t)get_le(head.data + 10, 2);
    ret->queued_usec = get_le(head.data + 24, 8);
    ret->run_usec = get_le(head.data + 32, 8);
    ret->cpu_usec = get_le(head.data + 40, 8);
    const char *at = cut_known(body->data, worker, &ret->worker);
    at = cut_known(at, error, &ret->error);
    at = cut_known(at, status, &ret->status);
    at = cut_known(at, backtrace, &ret->backtrace);
    at = cut_known(at, output, &ret->output);
    *body = (struct span){at, body->size - (size_t)(at - body->data)};
    return true;
}

size_t codec_end_size(const struct msg_end *end)
{
    return CODEC_END_SIZE + end->worker.size + end->error.size + end->status.size + end->backtrace.size +
           end->output.size;
}

static uint8_t *put_span(uint8_t *ret, struct span span)
{
    if (span.size && span.data)
        memcpy(ret, span.data, span.size);
    return ret + span.size;
}

uint8_t *codec_put_end(const struct msg_end *end, uint8_t *ret)
{
    put_le(ret, end->index, 4);
    put_le(ret + 4, end->n, 4);
    ret[8] = (uint8_t)end->state;
    ret[9] = (uint8_t)end->exit;
    put_le(ret + 10, end->attempts, 2);
    put_le(ret + 12, end->worker.size, 2);
    put_le(ret + 14, end->error.size, 2);
    put_le(ret + 16, end->status.size, 2);
    put_le(ret + 18, end->backtrace.size, 2);
    put_le(ret + 20, end->output.size, 4);
    put_le(ret + 24, end->queued_usec, 8);
    put_le(ret + 32, end->run_usec, 8);
    put_le(ret + 40, end->cpu_usec, 8);
    ret = put_span(ret + CODEC_END_SIZE, end->worker);
    ret = put_span(ret, end->error);
    ret = put_span(ret, end->status);
    ret = put_span(ret, end->backtrace);
    return put_span(ret, end->output);
}

bool codec_next_one(struct span *ones, struct msg_one *ret)
{
    struct span head;

    if (!cut(ones, CODEC_ONE_SIZE, &head))
        return false;
    ret->later_usec = (uint32_t)get_le(head.data, 4);
    ret->run_usec = (uint32_t)get_le(head.data + 4, 4);
    ret->cpu_usec = (uint32_t)get_le(head.data + 8, 4);
    return cut(ones, get_le(head.data + 12, 4), &ret->output);
}

uint8_t *codec_put_one(const struct msg_one *one, uint8_t *ret)
{
    put_le(ret, one->later_usec, 4);
    put_le(ret + 4, one->run_usec, 4);
    put_le(ret + 8, one->cpu_usec, 4);
    put_le(ret + 12, one->output.size, 4);
    return put_span(ret + CODEC_ONE_SIZE, one->output);
}

/* Of a record that is for several items which went well. */
static const char *check_ones(const struct msg_end *end)
{
    struct span left = end->output;
    struct msg_one one;

    if (end->exit || end->run_usec || end->cpu_usec || end->error.size || end->status.size || end->backtrace.size)
        return "end of several items";
    for (uint32_t i = 0; i < end->n; i++)
        if (!codec_next_one(&left, &one))
            return "size of an item";
    return left.size ? "number of items" : NULL;
}

static const char *check_end(const struct msg_end *end)
{
    const char *problem;

    if (end->state != 0 && (end->state < CODEC_STATE_FINAL - 1 || end->state > CODEC_STATE_MAX))
        return "state";
    if (end->index >= CODEC_ITEMS_MAX || end->n < 1 ||
        end->n > (end->state && end->state != CODEC_STATE_FINAL ? 1 : CODEC_ITEMS_MAX - end->index))
        return "index of an item";
    if (end->state && end->n > 1 && (problem = check_ones(end)))
        return problem;
    return !codec_is_text(end->worker, CODEC_NAME_MAX) || !codec_is_text(end->error, CODEC_TEXT_MAX) ||
                   !codec_is_text(end->status, CODEC_TEXT_MAX) || !codec_is_text(end->backtrace, CODEC_TRACE_MAX)
               ? "text"
               : NULL;
}

bool codec_next_bucket(struct span *body, struct msg_bucket *ret)
{
    struct span bucket;

    if (!cut(body, CODEC_BUCKET_SIZE, &bucket))
        return false;
    ret->index = (uint32_t)get_le(bucket.data, 2);
    ret->n = get_le(bucket.data + 2, 8);
    return true;
}

void codec_put_bucket(const struct msg_bucket *bucket, uint8_t ret[static CODEC_BUCKET_SIZE])
{
    put_le(ret, bucket->index, 2);
    put_le(ret + 2, bucket->n, 8);
}

/* Of one histogram: they rise, and none is empty. */
static const char *check_buckets(struct span *body, uint32_t n)
{
    struct msg_bucket b;
    uint32_t least = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (!codec_next_bucket(body, &b))
            return "number of buckets";
        if (b.index < least || b.index >= CODEC_BUCKETS || b.n == 0)
            return "bucket";
        least = b.index + 1;
    }
    return NULL;
}

static const char *check_histograms(const struct msg_function_stats *m, struct span body)
{
    const char *problem = NULL;

    for (size_t i = 0; i < m->n_histograms && !problem; i++)
        problem = check_buckets(&body, m->histograms[i].buckets);
    return !problem && body.size ? "number of buckets" : problem;
}

const char *codec_records_problem(const struct msg *msg, struct span body)
{
    if (msg->type == FRAME_FUNCTION_STATS)
        return check_histograms(&msg->function_stats, body);
    bool array = msg->type == FRAME_ARRAY;
    uint32_t n = array ? msg->submit.items : msg->ends.records;
    struct msg_item item;
    struct msg_end end;

    if (!array && msg->type != FRAME_ENDS)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        const char *problem = "size of an item";

        if (array ? codec_next_item(&body, &item) : codec_next_end(&body, &end))
            problem = array ? codec_args_problem(item.args, item.argc) : check_end(&end);
        if (problem)
            return problem;
    }
    return body.size ? "number of items" : NULL;
}
