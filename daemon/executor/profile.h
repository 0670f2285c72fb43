/* SPDX-License-Identifier: Apache-2.0
 *
 * profile.h: where the workers spend their CPU time, by samples of their stacks; and where the workers of one job stand.
 *
 * Off, it costs nothing: there is no timer, and no signal comes. On, each worker has a timer of its own CPU time. So a
 * worker that sleeps in a system call is not disturbed, and the samples are of work.
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

/* A sample, in words: what is here, then its frames, the innermost first. A victim is a worker's number, or TRACE_NOBODY
 * where the innermost thing that ran was no stolen task. Then the next two say what pool_standing() says. */
enum sample_word {
    SAMPLE_SIZE,    /* number of frames; from bit 16 on its weight, in periods of the rate */
    SAMPLE_SUBJECT, /* a struct plugin_function; 0: no job */
    SAMPLE_TICKS,   /* when */
    SAMPLE_ORIGIN,
    SAMPLE_VICTIM,
    SAMPLE_VICTIM_ORIGIN,
    SAMPLE_SINCE,
    SAMPLE_FRAMES,
};

static inline size_t sample_frames(const uintptr_t *sample)
{
    return sample[SAMPLE_SIZE] & 0xffffu;
}

static inline uint64_t sample_weight(const uintptr_t *sample)
{
    return sample[SAMPLE_SIZE] >> 16;
}

/* Calls `each` for all samples, those of one thread in the order of time. They stay until profile_forget(). Returns 0, or
 * what `each` returned, which ends it. After profile_stop(). *ret_lost: samples that found no room. [control thread] */
int profile_read(int (*each)(const uintptr_t *sample, uint32_t worker, void *userdata), void *userdata,
                 uint64_t *ret_lost);

/* Writes where this worker stands, as a crash's backtrace does, with the state of its thread in the first line. Returns
 * 0, -ETIMEDOUT (it blocks the signal, or is stuck in the kernel), -ESRCH (it has no thread now). [control thread] */
int profile_stack(uint32_t worker, char *text, size_t size);
