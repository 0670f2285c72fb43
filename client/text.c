/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c: names of states, ids as text, what is known of a job, errno against exit code.
 * Owns nothing. [any]
 * Does not touch a connection. */
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "config.h"

static const char *const state_names[] = {
    [WSD_JOB_HELD] = "held",           [WSD_JOB_DELAYED] = "delayed",
    [WSD_JOB_QUEUED] = "queued",       [WSD_JOB_RUNNING] = "running",
    [WSD_JOB_SUCCEEDED] = "succeeded", [WSD_JOB_FAILED] = "failed",
    [WSD_JOB_CANCELLED] = "cancelled", [WSD_JOB_TIMED_OUT] = "timed-out",
    [WSD_JOB_CRASHED] = "crashed",     [WSD_JOB_INTERRUPTED] = "interrupted",
};

const char *wsd_job_state_name(enum wsd_job_state state)
{
    return (unsigned)state < ARRAY_SIZE(state_names) && state_names[state] ? state_names[state] : "unknown";
}

const char *wsd_client_library_version(void)
{
    return WSD_VERSION;
}

void wsd_id_text(const struct wsd_id *id, char ret_text[WSD_ID_TEXT])
{
    for (size_t i = 0; i < sizeof(id->bytes); i++) {
        ret_text[2 * i] = "0123456789abcdef"[id->bytes[i] >> 4];
        ret_text[2 * i + 1] = "0123456789abcdef"[id->bytes[i] & 15];
    }
    ret_text[WSD_ID_TEXT - 1] = 0;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int wsd_id_parse(const char *text, struct wsd_id *ret_id)
{
    struct wsd_id id = {0};

    for (size_t i = 0; i < WSD_ID_TEXT - 1; i++) {
        int d = digit(text[i]); /* also stops at the NUL */

        if (d < 0)
            return -EINVAL;
        id.bytes[i / 2] = (uint8_t)(id.bytes[i / 2] << 4 | d);
    }
    if (text[WSD_ID_TEXT - 1])
        return -EINVAL;
    *ret_id = id;
    return 0;
}

static const char *text_of(struct span text)
{
    return text.data ? text.data : "";
}

/* They stand in the frame as they do in an array. */
static const struct wsd_id *ids_of(struct span ids, size_t *ret_n)
{
    _Static_assert(sizeof(struct wsd_id) == 16 && _Alignof(struct wsd_id) == 1, "bytes");
    *ret_n = ids.size / sizeof(struct wsd_id);
    return *ret_n ? (const struct wsd_id *)(const void *)ids.data : NULL;
}

void job_info_view(const struct msg_job *job, struct wsd_job_info *ret_info)
{
#define SEEN_TEXT(kind, name, ...)   .name = text_of(job->name),
#define SEEN_NUMBER(kind, name, ...) .name = (__typeof__(ret_info->name))job->name,
    *ret_info = (struct wsd_job_info){.size = sizeof(*ret_info),
                                      .in_batch = job->batch.size == sizeof(ret_info->batch),
                                      JOB_FIELDS(SEEN_TEXT, SEEN_NUMBER, SUBMIT_NOTHING)};
    memcpy(ret_info->id.bytes, job->id, sizeof(job->id));
    if (ret_info->in_batch)
        memcpy(ret_info->batch.bytes, job->batch.data, sizeof(ret_info->batch));
    ret_info->waits_on = ids_of(job->waits_on, &ret_info->n_waits_on);
    ret_info->awaited_by = ids_of(job->awaited_by, &ret_info->n_awaited_by);
}

static size_t text_size(struct span text)
{
    return text.size ? text.size + 1 : 0;
}

/* With a NUL behind it; returns where the next one goes. */
static char *text_copy(const char **ret, char *to, struct span text)
{
    *ret = "";
    if (!text.size)
        return to;
    *ret = memcpy(to, text.data, text.size);
    to[text.size] = 0;
    return to + text.size + 1;
}

static char *ids_copy(const struct wsd_id **ret, char *to, struct span ids)
{
    if (!ids.size)
        return to;
    *ret = memcpy(to, ids.data, ids.size);
    return to + ids.size;
}

int job_info_copy(const struct msg_job *job, struct wsd_job_info *ret_info, char *room, size_t room_size,
                  char **ret_texts)
{
#define PLUS_SIZE(kind, name, ...) +text_size(job->name)
#define COPY_TEXT(kind, name, ...) p = text_copy(&ret_info->name, p, job->name);
    size_t size = job->waits_on.size + job->awaited_by.size JOB_FIELDS(PLUS_SIZE, SUBMIT_NOTHING, SUBMIT_NOTHING);
    char *p = room;

    *ret_texts = size > room_size ? malloc(size) : NULL;
    if (size > room_size) {
        p = *ret_texts;
        if (!p)
            return -ENOMEM;
    }
    job_info_view(job, ret_info);
    JOB_FIELDS(COPY_TEXT, SUBMIT_NOTHING, SUBMIT_NOTHING)
    p = ids_copy(&ret_info->waits_on, p, job->waits_on);
    ids_copy(&ret_info->awaited_by, p, job->awaited_by);
    return 0;
}

static const struct {
    int error;
    int exit;
} errors[] = {
    /* The first with an exit code, or an errno, is the one taken. */
    {EINVAL, 64},     {ENOENT, 66},     {EREMOTEIO, 70},       {EIO, 74},        {EAGAIN, 75}, {EPROTO, 76},
    {EACCES, 77},     {ETIME, 124},     {EOWNERDEAD, 125},     {ECANCELED, 130}, {EINTR, 130}, {ECONNREFUSED, 69},
    {ECONNRESET, 69}, {ETIMEDOUT, 124}, {EPROTONOSUPPORT, 76}, {EPERM, 77},
};

int error_of_exit(uint32_t code)
{
    for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
        if ((uint32_t)errors[i].exit == code)
            return -errors[i].error;
    return -EREMOTEIO;
}

int exit_of_error(int error)
{
    for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
        if (errors[i].error == -error)
            return errors[i].exit;
    return CODE_IO;
}
