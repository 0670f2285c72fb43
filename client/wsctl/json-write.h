/* SPDX-License-Identifier: Apache-2.0
 *
 * json-write.h: one object, one line. Zero-initialised is an object that has not begun; every call but json_end() adds to it.
 * Memory that runs out is told by json_end().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"
#include "wsd/client.h"

struct json {
    struct buffer out;
    bool failed;
    unsigned n; /* members so far in the innermost object or array */
};

void json_string(struct json *json, const char *key, const char *value); /* key NULL: in an array */
void json_number(struct json *json, const char *key, uint64_t value);
void json_real(struct json *json, const char *key, double value); /* finite; two decimals */
void json_bool(struct json *json, const char *key, bool value);
void json_base64(struct json *json, const char *key, const void *data, size_t size);
/* All members of a job that wsctl(1) names, without `output`. */
void json_job(struct json *json, const struct wsd_job_info *info);
/* All members of a gate. */
void json_batch(struct json *json, const struct wsd_batch_info *info);
void json_gate(struct json *json, const struct wsd_gate_info *info);
void json_open(struct json *json, const char *key, char bracket); /* [ or { inside */
void json_close(struct json *json, char bracket);
/* Closes the object, writes the line to stdout's buffer, and starts anew. 0 or the exit code, said. */
int json_end(struct json *json);
/* The same to this stream, without words. 0 or a negative errno. */
int json_end_to(struct json *json, FILE *stream);
