/* SPDX-License-Identifier: Apache-2.0
 *
 * client.h: a handle, of the parts that its files look after. One thread a handle; no locks, no globals.
 *
 * Each file needs those before it in this list only. What it has to know of later ones it asks through the struct
 * ..._ops that they give it.
 *
 *   text, failure             names, numbers, copies; the words of the last failure
 *   address, remote           the ways to a wsd: on this machine, on another one
 *   connection                bytes, frames, tags, what both sides know
 *   open, arena, lane         files for wsd, shared memory, the direct lane
 *   query, schedule           questions that are waited for
 *   call, submit              jobs in flight, and how one is begun
 *   array, plain, batch       jobs that go in one frame: of a batch, or submitted one after the other
 *   client                    the handle: its beginning and end, its event loop's calls
 *   calls, map                jobs that are waited for: by the lane, in a batch
 */
#pragma once

#include "base/cleanup.h"
#include "base/list.h"
#include "call.h"
#include "connection.h"
#include "failure.h"
#include "plain.h"

struct lane;

struct wsd_client {
    struct failure failure; /* the last one */
    struct connection connection;
    struct call_set calls;
    struct array *spare_array; /* array.c: with its room; NULL */
    struct plain plain;
    struct list batches; /* struct wsd_batch */
    struct lane *lane;   /* NULL until the first wsd_call() */
    char *job_texts;     /* query.c: of the last wsd_client_job() */
};

static inline struct wsd_client *client_of(struct connection *c)
{
    return container_of(c, struct wsd_client, connection);
}
