/* SPDX-License-Identifier: Apache-2.0
 *
 * questions.h: questions to executors: counters, number of workers, traces (query.c). [loop]
 */
#pragma once

#include "table/interface.h"

#define JOBS_ASK_USEC 10000000u /* an executor that has not answered by then is skipped */
#define JOBS_ASKS     64u       /* unanswered questions of one executor */

enum jobs_query {
    JOBS_WORKERS = 1, /* the counters of each worker */
    /* sets the number of workers to `argument`, in new executors too; the caller checks for an administrator */
    JOBS_SET_WORKERS = 2,
    /* Traces the user's executor, present and future; uid 0: all executors. `argument` is 0 for events, else the rate of
     * a profile. Sets q->trace */
    JOBS_TRACE_START = 3,
    /* Ends the trace that this user has started, and returns it. `argument` is 0 for events, else any rate. */
    JOBS_TRACE_STOP = 4,
};

extern const char *const jobs_counter_names[]; /* names of a worker's counters, in the order of worker_info.counters */
extern const size_t jobs_n_counters;

struct worker_info {
    uint32_t worker;
    uint32_t kind; /* enum control_worker_kind */
    uint32_t cpu;  /* CPU number plus 1; 0: not pinned */
    const uint64_t *counters;
};

/* The text of a trace, profile or stack as an executor wrote it; not to be trusted. Or wsd's own part of a trace. */
struct trace_report;
/* Reads at most size bytes from offset, which is the end of what was read before. size is a PIECE's. Returns how many;
 * 0 at the end. */
size_t trace_report_read(const struct trace_report *r, uint64_t offset, void *data, size_t size);
struct trace_report *trace_report_free(struct trace_report *r);

/* What is known of an executor's process. 0: not known. */
struct executor_process {
    uint32_t pid, descriptors;
    uint64_t age_usec, memory; /* memory: private resident bytes */
};

/* One executor's answer. It lives for the time of the call, except for report. */
struct executor_answer {
    uint32_t executor; /* 0 with a report: this is wsd's own part of a trace */
    uint32_t uid;      /* of the user that the executor serves; UINT32_MAX: several users */
    /* 0 or a positive errno: ETIMEDOUT, ESRCH (it ended), EBADMSG (invalid answer), or the executor's own */
    int error;
    uint32_t workers;
    uint64_t lost;                   /* events of a trace that were overwritten; samples that found no room */
    struct executor_process process; /* WORKERS */
    struct trace_report *report;     /* NULL, or owned by the receiver, which frees it */
};

/* A query, embedded in the asker's object, zeroed except for the calls. */
struct executor_query {
    struct list parts;
    struct event *timer;
    bool asking;    /* done has not been called */
    uint32_t trace; /* TRACE_START: number of the trace, for jobs_trace_drop() */
    void (*worker)(struct executor_query *q, uint32_t executor, const struct worker_info *info); /* WORKERS */
    /* after the calls of worker for this executor */
    void (*answer)(struct executor_query *q, const struct executor_answer *a);
    void (*done)(struct executor_query *q); /* the last call, perhaps from jobs_query() itself */
};

/* Returns 0: done will be called; -EACCES; -EBUSY (another trace is under way, or not read yet); -ENOENT (this user has
 * no trace); -EINVAL; -ENOMEM. */
int jobs_query(struct jobs *jobs, uint32_t uid, enum jobs_query what, uint32_t argument, struct executor_query *q);
/* Asks the executor of a running job where the job's workers stand: a report of text. Returns 0: done will be called;
 * -ENOENT (this user has no such job); -ESRCH (it does not run now); -EOPNOTSUPP (a runner has it); -EAGAIN; -ENOMEM. */
int jobs_query_stack(struct jobs *jobs, const uint8_t id[16], uint32_t uid, struct executor_query *q);
/* Ends the query now: executors that have not answered are told with ETIMEDOUT, then done is called. */
void jobs_query_hurry(struct executor_query *q);
/* Forgets the query: no more calls. */
void jobs_query_forget(struct executor_query *q);
/* Ends this trace, if it is still under way, and discards it. */
void jobs_trace_drop(struct jobs *jobs, uint32_t number);
/* For the configuration: as JOBS_SET_WORKERS, without an answer. */
void jobs_set_workers(struct jobs *jobs, uint32_t workers);
