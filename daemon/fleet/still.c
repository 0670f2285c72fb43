/* SPDX-License-Identifier: Apache-2.0
 *
 * still.c: whether the number of a message is still that message's.
 * Owns nothing.
 * Keeps: a message is known by its id, which the server has with it.
 * Does not acknowledge (guest.c, parcel.c). */
#include "fleet/still.h"

#include <inttypes.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "fleet/letter.h"

#define HEADERS_MAX 1024u /* of a message of ours; larger ones are none */
#define NOT_FOUND   404   /* the code of the server's error where it has no such message, or no such stream */

void still_ask_number(struct bus *bus, struct bus_question *q, uint64_t sequence)
{
    char request[32];
    int n = snprintf(request, sizeof(request), "{\"seq\":%" PRIu64 "}", sequence);

    bus_ask(bus, q, "$JS.API.STREAM.MSG.GET." STREAM_JOBS, NULL, request, (size_t)n);
}

void still_ask(struct bus *bus, struct bus_question *q, const char *receipt)
{
    struct letter_receipt r = {0};

    (void)letter_get_receipt(receipt, &r);
    still_ask_number(bus, q, r.sequence);
}

/* The message id in headers that are base64; "": there is none. */
static void get_id(const char *base64, char ret[static STILL_ID])
{
    char text[HEADERS_MAX + 1] = "";
    size_t size = strlen(base64);

    *ret = 0;
    if (size <= HEADERS_MAX)
        (void)EVP_DecodeBlock((unsigned char *)text, (const unsigned char *)base64, (int)size);
    const char *at = strstr(text, "Nats-Msg-Id:");
    if (at)
        (void)sscanf(at, "Nats-Msg-Id: %63s", ret);
}

enum still still_answer(natsMsg *answer, const char *message_id)
{
    json_error_t error;
    char id[STILL_ID];

    if (!answer || bus_status(answer))
        return STILL_UNKNOWN;
    json_t *j = json_loadb(natsMsg_GetData(answer), (size_t)natsMsg_GetDataLength(answer), 0, &error);
    const json_t *message = json_object_get(j, "message"), *refused = json_object_get(j, "error");
    bool is_unable = refused && json_integer_value(json_object_get(refused, "code")) != NOT_FOUND;
    const char *headers = json_string_value(json_object_get(message, "hdrs"));
    get_id(headers ? headers : "", id);
    bool same = message && strcmp(id, message_id) == 0;
    json_decref(j);
    return is_unable ? STILL_UNKNOWN : same ? STILL_THERE : STILL_GONE;
}
