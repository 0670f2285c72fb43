/* SPDX-License-Identifier: Apache-2.0
 *
 * after.h: jobs that run after others (after.c). [loop]
 */
#pragma once

#include "table/job.h"

/* One awaited job. On disk, these stand one after the other. */
struct after_name {
    uint8_t any; /* 1: however it ends; 0: it must succeed */
    uint8_t id[16];
};
_Static_assert(sizeof(struct after_name) == 17, "as it is on disk");

struct after_edge {
    struct list link; /* in awaited->edges, until that has ended */
    struct awaiting *of;
};

/* The job or batch because of which a job is not run; in a chain, the first. */
struct after_origin {
    uint8_t id[16];
    uint8_t state; /* how it ended; 0: it left with wsd, and goes on after the next start */
    bool batch;    /* it is a batch */
};

/* What a job waits for. */
struct awaiting {
    struct job *job;
    uint32_t n, n_left; /* n_left: those that have not ended */
    bool holds;         /* the job waits for nothing else */
    bool bad;           /* one did not end as required; origin is the first */
    struct after_origin origin;
    struct after_name *names;
    struct after_edge edges[];
};

/* Shared by all jobs that wait for one job or batch. */
struct awaited {
    struct list link; /* in jobs->after_due: the job has ended, and the waiting jobs are to be told */
    struct list edges;
    struct job *job; /* NULL: it has gone, or is a batch */
    uint8_t state;   /* how it ended; 0: it left with wsd */
    struct after_origin origin;
};

/* bytes charged for each awaited job */
#define AFTER_BYTES (sizeof(struct after_edge) + sizeof(struct after_name) + sizeof(struct awaited))

/* Makes the struct awaiting of a request; *ret is NULL where it waits for nothing. *ret_text is NULL, or why the
 * request is refused (in `words` where it needs room). Returns 0 or -ENOMEM. */
int after_new(struct jobs *jobs, const struct job_request *r, struct awaiting **ret, const char **ret_text,
              int *ret_code, char words[static JOB_TEXT]);
/* What a job on disk waits for. */
struct after_row {
    const void *names; /* struct after_name */
    uint64_t size;
    uint64_t number; /* of the job on disk */
};
/* The same for a job on disk. An awaited job that is unknown now has ended as required; otherwise this job would have
 * ended, too. So has one that was dead and was queued again after this job came. Returns 0, -ENOMEM or -EBADMSG. */
int after_restore(struct jobs *jobs, const struct after_row *row, struct awaiting **ret);
struct awaiting *after_free(struct awaiting *a);
static inline void after_freep(struct awaiting **a)
{
    *a = after_free(*a);
}
/* The job could run otherwise. True: it is held, or was ended, instead. May free the job. */
bool after_holds(struct job *job);
void after_ended(struct job *job);  /* its end is told, and on disk if it is to be */
void after_forget(struct job *job); /* the job is being freed */
/* Tells the jobs that wait for this batch (d NULL: none does) of its end. Takes d. */
void after_batch_ended(struct jobs *jobs, struct awaited *d, const uint8_t id[16], enum job_state state);
void after_turn(struct jobs *jobs);        /* once a turn of the loop */
bool after_pending(const struct job *job); /* it has ended, and the jobs that wait for it were not told yet */
uint32_t after_left(const struct job *job);
void after_near(const struct job *job, struct job_near *ret); /* which have not ended */
uint64_t after_charge(const struct awaiting *a);
void after_deinit(struct jobs *jobs);
