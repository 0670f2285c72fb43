/* SPDX-License-Identifier: Apache-2.0
 *
 * plain.c: jobs that go by the socket: those of one description that nothing else comes between are gathered.
 * Owns that description. One thread a handle.
 * Keeps: what a plain call may not have, or has too much of, goes by itself. */
#include "plain.h"

#include <errno.h>
#include <string.h>

#include "base/code.h"
#include "client.h"
#include "submit.h"

void plain_forget(struct wsd_client *client)
{
    free(TAKE(client->plain.texts));
}

static bool same_text(const char *text, struct span span)
{
    return !span.size ? !text || !*text : text && strncmp(text, span.data, span.size) == 0 && !text[span.size];
}

/* What jobs of one description may have: each its own arguments, and the rest alike, as describe_plain() sees to. */
#define BIT(kind, name, ...) BIT_##name,
enum { SUBMIT_FIELDS(BIT, BIT, BIT, SUBMIT_NOTHING) };
#define PLAIN    (1u << BIT_plugin | 1u << BIT_function | 1u << BIT_args | 1u << BIT_timeout_usec | 1u << BIT_priority)
#define IS(name) (PLAIN >> BIT_##name & 1)

static bool has_more(const struct wsd_submit *s)
{
#define OR_TEXT(kind, name, ...)   || (!IS(name) && SUBMIT_HAS_TEXT(s, name))
#define OR_NUMBER(kind, name, ...) || (!IS(name) && SUBMIT_HAS_NUMBER(s, name))
#define OR_LIST(kind, name, ...)   || (!IS(name) && SUBMIT_HAS_LIST(s, name))
    return false SUBMIT_FIELDS(OR_TEXT, OR_NUMBER, OR_LIST, SUBMIT_NOTHING);
}

bool plain_fits(const struct wsd_submit *s)
{
    bool placed = s->arena || s->output_size || s->flags & ~(uint32_t)(WSD_SUBMIT_DETACH | WSD_SUBMIT_LEAVE);

    /* an empty traceparent is refused by submit_message() */
    return s->plugin && s->plugin[0] && !placed && !has_more(s) && !s->traceparent;
}

static int describe_plain(struct wsd_client *client, const struct wsd_submit *submit)
{
    struct gathering *g = &client->plain.gathering;
    bool detached = submit->flags & WSD_SUBMIT_DETACH, leaves = submit->flags & WSD_SUBMIT_LEAVE;
    const struct msg_submit *m = &g->submit.submit;
    char tags[CODEC_TAGS_MAX], *texts;
    int r;

    if (client->plain.texts && same_text(submit->plugin, m->plugin) && same_text(submit->function, m->function) &&
        m->timeout_usec == submit->timeout_usec && m->priority == submit->priority &&
        !(m->flags & SUBMIT_DETACH) == !detached && g->leaves == leaves)
        return 0;
    r = arrays_send(client);
    if (r < 0)
        return connection_failed(&client->connection, r);
    free(TAKE(client->plain.texts));
    const struct wsd_submit common = {.plugin = submit->plugin,
                                      .function = submit->function,
                                      .timeout_usec = submit->timeout_usec,
                                      .priority = submit->priority,
                                      .flags = submit->flags};
    r = gathering_describe(g, client, &common, tags);
    if (r < 0)
        return r;
    texts = malloc(m->plugin.size + m->function.size + 1);
    if (!texts)
        return failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    memcpy(texts, m->plugin.data, m->plugin.size);
    if (m->function.size)
        memcpy(texts + m->plugin.size, m->function.data, m->function.size);
    g->submit.submit.plugin.data = client->plain.texts = texts;
    g->submit.submit.function.data = texts + m->plugin.size;
    g->submit.submit.tags.data = "";
    return 0;
}

/* With others, if it is similar enough to them. 1: it is not, or wsd knows no arrays. Else 0 or an error, said. */
static int submit_plain(struct wsd_call *call, const struct wsd_submit *submit)
{
    struct wsd_client *client = call->client;
    int r;

    if (client->connection.broken ||
        (client->connection.features & (FEATURE_ARRAY | FEATURE_BRIEF)) != (FEATURE_ARRAY | FEATURE_BRIEF) ||
        !plain_fits(submit))
        return 1;
    r = describe_plain(client, submit);
    if (r < 0)
        return r;
    return array_holds(&client->plain.gathering, submit) ? array_submit(&client->plain.gathering, submit, call) : 1;
}

int plain_submit(struct wsd_call *call, const struct wsd_submit *submit)
{
    int r = submit_plain(call, submit);

    return r > 0 ? submit_alone(call, submit, 0) : r;
}
