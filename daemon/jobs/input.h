/* SPDX-License-Identifier: Apache-2.0
 *
 * input.h: input that does not come with the submit message: gathered, in wsd's memory as long as it fits into the
 * ring's, else in a memfd; passed through a pipe; or a file of the submitter's whose descriptor came. [loop]
 */
#pragma once

#include "jobs/job.h"

void input_begin(struct job *job); /* the function is known: early input moves on */
/* makes the pipe, or the memfd where there is to be one in any case */
int input_prepare(struct job *job, bool streaming);
/* Why a file is none that can be input. NULL: it can. */
const char *input_refuses(const struct job_file *file);
int input_hold(struct job *job, const struct job_file *file); /* NEW: takes its descriptor; 0 or a negative errno */
/* NEW, its function is known: charges what it holds. 0, or a negative errno; input_words() says why; as
 * user_admit(). */
int input_admit(struct job *job, bool streaming, uint64_t *ret_retry_usec);
void input_words(const struct job *job, int error, char text[static JOB_TEXT]);
int input_take(struct job *job, const void *data, size_t size, bool last);
void input_free(struct job *job);
