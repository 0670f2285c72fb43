/* SPDX-License-Identifier: Apache-2.0
 *
 * thread.h: the pthread_create() and thrd_create() that plugins get in place of the C library's. They note for which
 * job a thread was made, so that its struct wsd_job is given to no other job while the thread lives. [any]
 */
#pragma once

#include <stdbool.h>

/* False: the C library's cannot be found. [main, before threads] */
bool thread_init(void);
