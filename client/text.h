/* SPDX-License-Identifier: Apache-2.0
 *
 * text.h: what is known of a job, and errno against exit code. [any]
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/codec.h"
#include "wsd/client.h"

/* A text that the job lacks may be nowhere; the description then has an empty one.
 *
 * Copies a job with its texts, into the room where they fit, else into one block, *ret_texts, which the caller frees
 * (NULL: none). 0 or -ENOMEM. */
int job_info_copy(const struct msg_job *job, struct wsd_job_info *ret_info, char *room, size_t room_size,
                  char **ret_texts);
/* The same without a copy: lives as long as job. */
void job_info_view(const struct msg_job *job, struct wsd_job_info *ret_info);
/* The errno of an exit code of wsctl(1), and the code of an errno. */
int error_of_exit(uint32_t code);
int exit_of_error(int error);
