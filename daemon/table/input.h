/* SPDX-License-Identifier: Apache-2.0
 *
 * input.h: input that does not come with the SUBMIT message. It is gathered in wsd's memory or in a memfd, goes through
 * a pipe, or is a file of the submitter's (input.c). [loop]
 */
#pragma once

#include "table/job.h"

void input_begin(struct job *job); /* the function is known: early input goes to its place */
/* Makes the pipe, or the memfd if one is needed in any case. A pipe of the submitter's is taken, and the input is whole
 * then, or let go. */
int input_prepare(struct job *job, bool streaming);
/* Why a file cannot be input, or a pipe. NULL: it can. */
const char *input_refuses(const struct job_file *file);
const char *input_refuses_pipe(int fd);
/* NEW: takes the file's descriptor; 0 or a negative errno */
int input_hold(struct job *job, const struct job_file *file);
/* The same for that of a pipe. It is not held where there are too many, or where it is not wanted. */
int input_hold_pipe(struct job *job, int *fd, bool wanted);
/* The same for a descriptor that output is to go to. One that may go elsewhere is not held where there are too many. */
const char *output_refuses(const struct job_output *output);
int output_hold(struct job *job, const struct job_output *output);
void output_let_go(struct job *job); /* closes it, if there is one: not needed any longer */
/* For a NEW job with its function: charges the input that it holds. Returns 0, or a negative errno as user_admit();
 * input_words() has the words for it. */
int input_admit(struct job *job, bool streaming, uint64_t *ret_retry_usec);
void input_words(const struct job *job, int error, char text[static JOB_TEXT]);
int input_take(struct job *job, const void *data, size_t size, bool last);
void input_free(struct job *job);

/* Whether descriptors of the job's input go to the executor. */
static inline bool job_by_descriptor(const struct job *job)
{
    return job->more && (job->more->input_fd >= 0 || job->more->pipe_fd >= 0);
}

/* The input that goes through the ring; NULL: none. */
static inline const void *job_input(const struct job *job)
{
    if (job->more && !(job->flags & JOB_PIPE) && buffer_size(&job->more->early))
        return buffer_data(&job->more->early);
    return job->input_size ? job_given(job) + job->args_size : NULL;
}
