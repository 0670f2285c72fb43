/* SPDX-License-Identifier: Apache-2.0
 *
 * json-write.c: writes one object a line.
 * Owns the line until it is written. One thread.
 * Keeps: what comes out is valid JSON in valid UTF-8, whatever bytes went in (each that is no UTF-8 becomes U+FFFD); no
 * terminal that shows it is steered by it.
 * Does not read JSON (json-parse.c). */
#include "json-write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/code.h"
#include "base/escape.h"
#include "print.h"

static void put_bytes(struct json *json, const char *text, size_t size)
{
    if (buffer_put(&json->out, text, size) < 0)
        json->failed = true;
}

static void puts_json(struct json *json, const char *text)
{
    put_bytes(json, text, strlen(text));
}

/* A character that is not shown as it is: by its UTF-16. */
static void put_escaped(struct json *json, uint32_t character)
{
    char escape[16];

    if (character < 0x10000)
        snprintf(escape, sizeof(escape), "\\u%04x", character);
    else
        snprintf(escape, sizeof(escape), "\\u%04x\\u%04x", 0xd7c0 + (character >> 10), 0xdc00 + (character & 0x3ff));
    puts_json(json, escape);
}

static void put_string(struct json *json, const char *value)
{
    put_bytes(json, "\"", 1);
    for (const char *p = value; *p;) {
        uint32_t character;
        size_t n = escape_character(p, &character);

        if (n == 0) {
            puts_json(json, "\xef\xbf\xbd");
            n = 1;
        } else if (*p == '"' || *p == '\\') {
            put_bytes(json, "\\", 1);
            put_bytes(json, p, 1);
        } else if (*p == '\t' || !escape_printable(character)) {
            put_escaped(json, character);
        } else {
            put_bytes(json, p, n);
        }
        p += n;
    }
    put_bytes(json, "\"", 1);
}

static void put_key(struct json *json, const char *key)
{
    if (buffer_size(&json->out) == 0)
        put_bytes(json, "{", 1);
    if (json->n++ > 0)
        put_bytes(json, ",", 1);
    if (key) {
        put_string(json, key);
        put_bytes(json, ":", 1);
    }
}

void json_string(struct json *json, const char *key, const char *value)
{
    put_key(json, key);
    put_string(json, value);
}

void json_number(struct json *json, const char *key, uint64_t value)
{
    char text[24];

    put_key(json, key);
    snprintf(text, sizeof(text), "%" PRIu64, value);
    puts_json(json, text);
}

void json_real(struct json *json, const char *key, double value)
{
    char text[336];

    put_key(json, key);
    snprintf(text, sizeof(text), "%.2f", value);
    puts_json(json, text);
}

void json_bool(struct json *json, const char *key, bool value)
{
    put_key(json, key);
    puts_json(json, value ? "true" : "false");
}

void json_base64(struct json *json, const char *key, const void *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = data;

    put_key(json, key);
    put_bytes(json, "\"", 1);
    for (size_t i = 0; i < size; i += 3) {
        uint32_t bits =
            (uint32_t)p[i] << 16 | (uint32_t)(i + 1 < size ? p[i + 1] : 0) << 8 | (i + 2 < size ? p[i + 2] : 0);
        char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], i + 1 < size ? digits[bits >> 6 & 63] : '=',
                        i + 2 < size ? digits[bits & 63] : '='};

        put_bytes(json, four, sizeof(four));
    }
    put_bytes(json, "\"", 1);
}

/* An array of the parts of a text. */
static void put_list(struct json *json, const char *key, const char *text, char between)
{
    char line[512];

    json_open(json, key, '[');
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = strchrnul(text, between);
        snprintf(line, sizeof(line), "%.*s", (int)(end - text), text);
        json_string(json, NULL, line);
    }
    json_close(json, ']');
}

static void put_ids(struct json *json, const char *key, const struct wsd_id *ids, size_t n)
{
    char id[WSD_ID_TEXT];

    if (n == 0)
        return;
    json_open(json, key, '[');
    for (size_t i = 0; i < n; i++) {
        wsd_id_text(&ids[i], id);
        json_string(json, NULL, id);
    }
    json_close(json, ']');
}

void json_job(struct json *json, const struct wsd_job_info *info)
{
    char id[WSD_ID_TEXT];

    wsd_id_text(&info->id, id);
    json_string(json, "id", id);
    json_string(json, "plugin", info->plugin);
    json_string(json, "function", info->function);
    json_string(json, "state", wsd_job_state_name(info->state));
    json_number(json, "exit", (uint64_t)info->exit);
    json_string(json, "error", info->error);
    json_number(json, "attempts", info->attempts);
    json_string(json, "worker", info->worker);
    json_number(json, "queued_usec", info->queued_usec);
    json_number(json, "run_usec", info->run_usec);
    json_number(json, "cpu_usec", info->cpu_usec);
    json_string(json, "status", info->status);
    json_number(json, "uid", info->uid);
    json_number(json, "submitted_usec", info->submitted_usec);
    json_number(json, "done", info->done);
    json_number(json, "total", info->total);
    json_bool(json, "durable", info->durable);
    if (info->key[0])
        json_string(json, "key", info->key);
    if (info->retries)
        json_number(json, "retries", info->retries);
    if (info->waits_for)
        json_number(json, "waits_for", info->waits_for);
    put_ids(json, "waits_on", info->waits_on, info->n_waits_on);
    put_ids(json, "awaited_by", info->awaited_by, info->n_awaited_by);
    if (info->tags[0])
        put_list(json, "tags", info->tags, ',');
    if (info->in_batch) {
        wsd_id_text(&info->batch, id);
        json_string(json, "batch", id);
    }
    if (info->state == WSD_JOB_DELAYED)
        json_number(json, "due_usec", info->due_usec);
    if (info->dead)
        json_bool(json, "dead", true);
    if (info->backtrace[0])
        put_list(json, "backtrace", info->backtrace, '\n');
}

void json_batch(struct json *json, const struct wsd_batch_info *info)
{
    char id[WSD_ID_TEXT];

    wsd_id_text(&info->id, id);
    json_string(json, "batch", id);
    json_bool(json, "closed", info->closed);
    json_bool(json, "ended", info->ended);
    json_bool(json, "stopped", info->stopped);
    json_number(json, "exit", (uint64_t)info->exit);
    json_number(json, "total", info->total);
    json_number(json, "queued", info->queued);
    json_number(json, "running", info->running);
    json_number(json, "done", info->done);
    json_number(json, "failed", info->failed);
    json_number(json, "uid", info->uid);
    json_number(json, "submitted_usec", info->submitted_usec);
}

void json_gate(struct json *json, const struct wsd_gate_info *info)
{
    if (*info->tag) {
        json_string(json, "tag", info->tag);
    } else {
        json_string(json, "plugin", info->plugin);
        json_string(json, "function", info->function);
    }
    json_bool(json, "paused", info->paused);
    json_bool(json, "drained", info->drained);
    json_number(json, "limit", info->limit);
    json_number(json, "running", info->running);
    json_number(json, "waiting", info->waiting);
}

void json_open(struct json *json, const char *key, char bracket)
{
    put_key(json, key);
    put_bytes(json, &bracket, 1);
    json->n = 0;
}

void json_close(struct json *json, char bracket)
{
    put_bytes(json, &bracket, 1);
    json->n = 1; /* whatever follows is not the first */
}

int json_end_to(struct json *json, FILE *stream)
{
    if (buffer_size(&json->out) == 0)
        put_bytes(json, "{", 1);
    put_bytes(json, "}\n", 2);
    size_t size = buffer_size(&json->out);
    int r = json->failed ? -ENOMEM : fwrite(buffer_data(&json->out), 1, size, stream) != size ? -errno : 0;
    buffer_deinit(&json->out);
    *json = (struct json){.n = 0};
    return r;
}

int json_end(struct json *json)
{
    int r = json_end_to(json, stdout);

    return r == -ENOMEM ? ctl_error(CODE_IO, "json", "out of memory")
           : r < 0      ? ctl_error(CODE_IO, "stdout", "%s", strerror(-r))
                        : 0;
}
