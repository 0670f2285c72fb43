/* SPDX-License-Identifier: Apache-2.0
 *
 * roll.c: which machines there are. Owns nothing.
 * Keeps: an answer goes to nothing but a subject of the roll, whatever the question wants. */
#include "fleet/roll.h"

#include <jansson.h>
#include <nats/nats.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "fleet/bus.h"
#include "fleet/in.h"
#include "fleet/out.h"

/* The names of the first plugins that it takes jobs for, and how many there are. */
static json_t *names_of(const struct in *in, uint32_t *ret_n)
{
    json_t *names = json_array();
    const char *name;

    for (*ret_n = 0; (name = in_plugin(in, *ret_n)); ++*ret_n)
        if (*ret_n < ROLL_NAMES)
            json_array_append_new(names, json_string(name));
    return names;
}

static json_t *describe(const struct roll *r)
{
    json_t *j = json_pack("{s:s, s:s, s:b}", "node", r->node, "version", WSD_VERSION, "leaving", r->leaving);

    if (j && r->out)
        json_object_set_new(j, "elsewhere", json_integer((json_int_t)out_count(r->out).held));
    if (j && r->in) {
        struct in_counters c = in_count(r->in);
        uint32_t n;

        json_object_set_new(j, "takes", names_of(r->in, &n));
        json_object_set_new(j, "plugins", json_integer(n));
        json_object_set_new(j, "held", json_integer((json_int_t)c.held));
        json_object_set_new(j, "most", json_integer(r->held_most));
        json_object_set_new(j, "ended", json_integer((json_int_t)c.ended));
    }
    return j;
}

static void on_question(natsMsg *msg, void *context)
{
    const struct roll *r = context;
    const char *reply = natsMsg_GetReply(msg);

    if (reply && strncmp(reply, ROLL_SUBJECT ".", sizeof(ROLL_SUBJECT)) == 0) {
        json_t *j = describe(r);
        char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

        if (text)
            bus_tell(r->bus, reply, NULL, text, strlen(text));
        free(text);
        json_decref(j);
    }
    natsMsg_Destroy(msg);
}

int roll_open(struct roll *r)
{
    return bus_subscribe(r->bus, ROLL_SUBJECT, on_question, r);
}
