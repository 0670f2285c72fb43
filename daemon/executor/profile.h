/* SPDX-License-Identifier: Apache-2.0
 *
 * profile.h: where the workers spend their CPU time, by samples of their stacks; and where the workers of one job stand.
 *
 * Off, it costs nothing: there is no timer, and no signal comes. On, each worker has a timer of its own CPU time. So a
 * worker that sleeps in a system call is not disturbed, and the samples are of work.
 *
 * A profile is text, one line a stack: SUBJECT;FRAME;FRAME... COUNT, the outermost frame first, as flamegraph.pl takes
 * it. SUBJECT is PLUGIN:FUNCTION, or [wsd] for what no job did. COUNT is in periods of the rate. Frames in brackets are
 * no functions: [wsd] the engine between two functions, [FILE] a library's code without a name, [cut off] a stack that is
 * deeper than PROFILE_FRAMES, [no unwind table] one whose outer part could not be found.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <stdint.h>

#include "pool/pool.h"

#define PROFILE_RATE_MAX   999u
#define PROFILE_FRAMES     128u       /* of one sample */
#define PROFILE_BYTES      (4u << 20) /* of samples of one worker; with many workers each has less */
#define PROFILE_BYTES_MIN  (64u << 10)
#define PROFILE_BYTES_ALL  (64u << 20)
#define PROFILE_STACK_WAIT 1000000000u /* nanoseconds: how long a worker may take to say where it stands */

/* Installs the handler. [main, before threads] 0 or a negative errno. */
int profile_init(void);

/* Around the life of a worker's thread: after its mask is set, and before fault_thread_begin() notes it. [the thread] */
void profile_thread_begin(uint32_t worker);
void profile_thread_end(void);

/* Samples all workers, present and future, `rate` times in a second of their CPU time. Drops what an earlier profile
 * has. 0, -EINVAL, or what timer_create() said; then nothing is sampled. [control thread] */
int profile_start(uint32_t rate);
/* No more samples. They stay for profile_write(). [control thread] */
void profile_stop(void);
/* Whether samples are there, or are being taken. [control thread] */
bool profile_is_there(void);
/* Gives back the memory of the samples. [control thread] */
void profile_forget(void);

/* Writes the profile. put returns 0 or a negative errno, which ends the writing. *ret_lost: samples that found no room.
 * 0, -ENOMEM, or what put returned. After profile_stop(). [control thread] */
int profile_write(int (*put)(const char *text, size_t size, void *userdata), void *userdata, uint64_t *ret_lost);

/* Writes where this worker stands, as a crash's backtrace does, with the state of its thread in the first line. 0,
 * -ETIMEDOUT (it blocks the signal, or is stuck in the kernel), -ESRCH (it has no thread now). [control thread] */
int profile_stack(uint32_t worker, char *text, size_t size);
