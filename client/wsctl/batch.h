/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.h: many calls at once, with outputs that are written one after the other: what map and await have in common.
 *
 * One item owns stdout and streams to it. Others gather their output, and are held once they have gathered much. In
 * order, the oldest item that has not ended owns stdout; otherwise, the first one that ends or overflows.
 */
#pragma once

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "ctl.h"
#include "json-write.h"
#include "stream.h"

struct batch_item;

struct submission {
    const struct ctl *ctl;
    struct wsd_client *client;
    struct output output;
    struct buffer ready; /* for the output, in order; empty between two turns */
    bool unordered;
    bool named;    /* errors and messages name the item */
    bool item_key; /* JSON has a member `item` */
    bool stops;    /* what is behind one that has failed is cancelled: how it ends is of no interest */
    bool unheld;   /* none is held: one may be waited for by another, which comes before it */
    bool asks;     /* whether wsd takes an item is told as soon as it is known, and not with its end */
    /* Whether an item that was refused so is to be `refused` for now, too; NULL: none but -EAGAIN. */
    bool (*again)(struct batch_item *item, int error);
    bool has_refused;   /* an item may be `refused`; cleared by an owner that has found none */
    const char *plugin; /* for the hint where it is not found */
    struct list items;  /* oldest first */
    struct batch_item *owner;
    size_t n_items, n_running;
    size_t n_unsure;           /* where it asks: of n_running, neither taken nor refused yet */
    uint64_t n_taken, n_left;  /* and how many were taken, and have ended after that */
    uint64_t n_done, n_failed; /* ended, whether their turn has come or not; for the progress bar */
    uint64_t noticed;          /* index of the first that is known to have failed, before its turn */
    uint64_t first_failed;     /* index of the first item, in the order of arguments, that failed */
    int exit;                  /* its code */
    bool lost;                 /* the connection is over; it was said */
};

struct batch_item {
    struct list link;
    struct submission *batch;
    uint64_t index;
    char *name;
    struct wsd_call *call;
    struct buffer output;
    struct json json;
    struct output to; /* where has_to: instead of stdout; closed with the job's end */
    void *input;      /* mapped; NULL: none */
    size_t input_size;
    bool has_to;
    bool follows; /* its failure is that of another, which is counted */
    bool done, refused, held, ignored;
    bool sure;           /* taken, or refused */
    bool noted;          /* refused: the owner of the batch has seen it */
    uint64_t retry_usec; /* refused: what wsd says of another try */
    int exit;
    char error[512]; /* said when its turn comes */
};

void batch_init(struct submission *batch, const struct ctl *ctl, struct wsd_client *client);
/* Adds an item behind all others; name is copied. NULL: no memory. */
struct batch_item *batch_add(struct submission *batch, const char *name, uint64_t index);
/* The callbacks with which its call is to be made; then item->call is set by the caller, and batch_began() called. */
struct wsd_callbacks batch_callbacks(struct batch_item *item);
void batch_began(struct batch_item *item);
/* The item ends without a job, or its job did not succeed. */
void batch_item_fail(struct batch_item *item, int exit, const char *text);
/* After each turn of the loop: puts out what can be, frees what has ended. Items that were refused for now stay, with
 * `refused` set and not done. */
void batch_settle(struct submission *batch);
/* Cancels one, and forgets how it ends. */
void batch_ignore(struct batch_item *item);
/* Cancels what runs, from this index on, and forgets how it ends. */
void batch_cancel(struct submission *batch, uint64_t from);
void batch_deinit(struct submission *batch);
