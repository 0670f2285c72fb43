/* SPDX-License-Identifier: Apache-2.0
 *
 * post.h: the server's side of a bus, and the clock, in a test of one thread. What is asked and told is kept, and is
 * answered when the test says so. The linker puts these in place of the functions of bus.c that send (--wrap). All
 * others are the real ones. */
#pragma once

#include <nats/nats.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "fleet/bus.h"
#include "tests/unit/suite.h"

#define POST_MAX 11000u

/* One message that was sent. */
struct post {
    struct bus_question *question; /* NULL: no answer is wanted */
    char subject[BUS_SUBJECT], id[64], header[16], text[64];
    void *data;
    size_t size;
};

static struct post posts[POST_MAX];
static uint32_t n_posts;
static uint64_t now_usec = 1000000;
static uint32_t connection = 1; /* of the bus */
static bool up = true;

static inline struct post *post_keep(const char *subject, const char *id, const char *header, const void *data,
                                     size_t size)
{
    ck_assert_uint_lt(n_posts, POST_MAX);
    struct post *p = &posts[n_posts++];

    *p = (struct post){.size = size, .data = malloc(size + 1)};
    ck_assert_ptr_nonnull(p->data);
    if (size)
        memcpy(p->data, data, size);
    snprintf(p->subject, sizeof(p->subject), "%s", subject);
    snprintf(p->id, sizeof(p->id), "%s", id ? id : "");
    snprintf(p->header, sizeof(p->header), "%s", header ? header : "");
    snprintf(p->text, sizeof(p->text), "%.*s", (int)MIN(size, (size_t)63), size ? (const char *)data : "");
    return p;
}

static inline void post_ask(struct bus *b, struct bus_question *q, struct post *p)
{
    bus_forget(q);
    q->bus = b;
    q->slot = UINT32_MAX;
    list_init(&q->link);
    p->question = q;
}

void __wrap_bus_ask(struct bus *b, struct bus_question *q, const char *subject, const char *id, const void *data,
                    size_t size);
void __wrap_bus_ask_saying(struct bus *b, struct bus_question *q, const char *subject, const char *id,
                           const char *header, const char *value, const void *data, size_t size);
void __wrap_bus_ask_behind(struct bus *b, struct bus_question *q, const char *subject, uint64_t number,
                           const void *data, size_t size);
void __wrap_bus_ask_last(struct bus *b, struct bus_question *q, const char *stream, const char *subject);
bool __wrap_bus_tell(struct bus *b, const char *subject, const char *reply, const void *data, size_t size);
uint32_t __wrap_bus_connection(const struct bus *b);
bool __wrap_bus_is_up(const struct bus *b);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);

void __wrap_bus_ask(struct bus *b, struct bus_question *q, const char *subject, const char *id, const void *data,
                    size_t size)
{
    post_ask(b, q, post_keep(subject, id, NULL, data, size));
}

void __wrap_bus_ask_saying(struct bus *b, struct bus_question *q, const char *subject, const char *id,
                           const char *header, const char *value, const void *data, size_t size)
{
    post_ask(b, q, post_keep(subject, id, value, data, size));
}

void __wrap_bus_ask_behind(struct bus *b, struct bus_question *q, const char *subject, uint64_t number,
                           const void *data, size_t size)
{
    char text[16];

    snprintf(text, sizeof(text), "behind %u", (unsigned)number);
    post_ask(b, q, post_keep(subject, NULL, text, data, size));
}

void __wrap_bus_ask_last(struct bus *b, struct bus_question *q, const char *stream, const char *subject)
{
    post_ask(b, q, post_keep(subject, "last", NULL, NULL, 0));
}

bool __wrap_bus_tell(struct bus *b, const char *subject, const char *reply, const void *data, size_t size)
{
    if (up)
        (void)post_keep(subject, NULL, NULL, data, size);
    return up;
}

bool __wrap_bus_is_up(const struct bus *b)
{
    return up;
}

uint32_t __wrap_bus_connection(const struct bus *b)
{
    return connection;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    *ret = (struct timespec){.tv_sec = (time_t)(now_usec / 1000000), .tv_nsec = (long)(now_usec % 1000000) * 1000};
    return 0;
}

/* Answers the question of that message, with a header; value NULL: without. data NULL: no answer came. */
static inline void post_answer_saying(const struct post *p, const void *data, size_t size, const char *header,
                                      const char *value)
{
    struct bus_question *q = p->question;
    natsMsg *msg = NULL;

    ck_assert_ptr_nonnull(q);
    ck_assert_ptr_nonnull(q->bus);
    bus_forget(q);
    if (data)
        ck_assert_int_eq(natsMsg_Create(&msg, "answer", NULL, data, (int)size), NATS_OK);
    if (msg && value)
        ck_assert_int_eq(natsMsgHeader_Set(msg, header, value), NATS_OK);
    q->answered(q, msg);
    natsMsg_Destroy(msg);
}

static inline void post_answer_data(const struct post *p, const void *data, size_t size, const char *together)
{
    post_answer_saying(p, data, size, "Wsd-Parcel", together);
}

/* As the server itself does, such as "503". */
static inline void post_answer_status(const struct post *p, const char *status)
{
    post_answer_saying(p, "", 0, "Status", status);
}

/* With the message of a stream that has this number. */
static inline void post_answer_found(const struct post *p, const char *text, const char *number)
{
    post_answer_saying(p, text, strlen(text), "Nats-Sequence", number);
}

static inline void post_answer(const struct post *p, const char *text)
{
    post_answer_data(p, text, text ? strlen(text) : 0, NULL);
}

/* Answers to a look that tell nothing: none at all, no responder, and an error of the server. */
static const char *const post_unknown[] = {NULL, "503", "500"};

static inline void post_answer_unknown(const struct post *p, int which)
{
    if (post_unknown[which])
        post_answer_status(p, post_unknown[which]);
    else
        post_answer_data(p, NULL, 0, NULL);
}

#define POST_STORED "{\"stream\":\"WSD\",\"seq\":7}"
#define POST_FULL                                                                                                      \
    "{\"error\":{\"code\":503,\"description\":\"maximum messages exceeded\"},\"stream\":\"WSD\",\"seq\":0}"

/* To be called first, by each test: messages of libnats need it. */
static inline void post_open(void)
{
    ck_assert_int_eq(nats_Open(-1), NATS_OK);
}

static inline void post_clear(void)
{
    for (uint32_t i = 0; i < n_posts; i++)
        free(posts[i].data);
    n_posts = 0;
}
