/* SPDX-License-Identifier: Apache-2.0
 *
 * slice.c: how soon a waking worker gets a CPU that other threads use.
 *
 * With the ordinary slice wsd, which wakes a worker for a job, stays on their common CPU until it sleeps. The worker
 * then has to wake wsd for the answer. That takes two system calls and a sleep more than if the answer is there when
 * wsd looks for it. The slice is a request to EEVDF (Stoica and Abdel-Wahab 1995; sched_setattr(2), sched_runtime with
 * SCHED_OTHER since Linux 6.12): the shorter the slice, the earlier the deadline. */
#include "executor/slice.h"

#include <linux/sched.h>
#include <linux/sched/types.h> /* not beside <sched.h>: both have struct sched_param */
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NSEC 300000u /* 0.1 ms is the least that the kernel takes, and is no faster */

void slice_shorten(void)
{
    struct sched_attr a = {0};

    if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) < 0 || a.sched_policy != SCHED_NORMAL)
        return;
    if (a.sched_runtime == 0) /* this kernel knows no slices */
        return;
    if (a.sched_nice < 0) /* what resets the slice on fork resets that, too */
        return;
    a.sched_runtime = SLICE_NSEC;
    a.sched_flags |= SCHED_FLAG_RESET_ON_FORK;
    (void)syscall(SYS_sched_setattr, 0, &a, 0);
}
