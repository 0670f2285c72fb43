/* SPDX-License-Identifier: Apache-2.0
 *
 * after.h: jobs that run after others (after.c). [loop]
 */
#pragma once

#include "jobs/job.h"

/* On disk, too: one behind the other. */
struct after_name {
    uint8_t any; /* 1: however it ends; 0: it must succeed */
    uint8_t id[16];
};
_Static_assert(sizeof(struct after_name) == 17, "as it is on disk");

struct after_edge {
    struct list link; /* awaited->edges, while that has not ended */
    struct awaiting *of;
};

/* Because of which one a job is not run: the first, where one follows another. */
struct after_origin {
    uint8_t id[16];
    uint8_t state; /* how it ended; 0: it left with wsd, and goes on after the next start */
    bool batch;    /* it is no job */
};

/* What a job waits for. */
struct awaiting {
    struct job *job;
    uint32_t n, n_left; /* n_left: have not ended */
    bool holds;         /* nothing else is missing */
    bool bad;           /* one did not end as it should; the first: */
    struct after_origin origin;
    struct after_name *names;
    struct after_edge edges[];
};

/* What those have in common that wait for one job, or one batch. */
struct awaited {
    struct list link; /* jobs->after_due: its job has ended, and those that wait are to know */
    struct list edges;
    struct job *job; /* NULL: it has gone, or it is a batch */
    uint8_t state;   /* how it ended; 0: it left */
    struct after_origin origin;
};

/* of each, as charged */
#define AFTER_BYTES (sizeof(struct after_edge) + sizeof(struct after_name) + sizeof(struct awaited))

/* What a request waits for; *ret is NULL where that is nothing. *ret_text is NULL, or why it is refused (words has
 * room). 0 or -ENOMEM. */
int after_new(struct jobs *jobs, const struct job_request *r, struct awaiting **ret, const char **ret_text,
              int *ret_code, char words[static JOB_TEXT]);
/* The same of one that is on disk: whom nobody knows there any more has ended as he should, or this job would have
 * ended, too; so has who was dead and was queued again since this one came. 0, -ENOMEM, -EBADMSG. */
int after_restore(struct jobs *jobs, const struct store_row *row, struct awaiting **ret);
struct awaiting *after_free(struct awaiting *a);
static inline void after_freep(struct awaiting **a)
{
    *a = after_free(*a);
}
/* It could run: true where it is held (or was ended) instead. May free the job. */
bool after_holds(struct job *job);
void after_ended(struct job *job);  /* told, and on disk where it is to be */
void after_forget(struct job *job); /* it goes */
/* Those that wait for this batch (NULL: none does) are to know; takes d. */
void after_batch_ended(struct jobs *jobs, struct awaited *d, const uint8_t id[16], enum job_state state);
void after_turn(struct jobs *jobs);        /* once a turn of the loop */
bool after_pending(const struct job *job); /* has ended, and those that wait for it do not know yet */
uint32_t after_left(const struct job *job);
uint64_t after_charge(const struct awaiting *a);
void after_deinit(struct jobs *jobs);
