/* SPDX-License-Identifier: Apache-2.0
 *
 * names.h: names of users of this machine, by uid. The user database may be far away: no call waits for it. [loop]
 */
#pragma once

#include <stdint.h>

#define NAMES_MAX     256u /* users that are remembered, or looked up */
#define NAMES_LOOKUPS 8u   /* at once: each has a thread */

struct event_base;
struct names;

/* came(): what names_of() said -EAGAIN of may be known now. Returns 0 or -ENOMEM. */
int names_new(struct names **ret_names, struct event_base *base, void (*came)(void *context), void *context);
struct names *names_free(struct names *n); /* NULL is fine */
/* Returns 0 and the name, which lives until the next call: "" if the user has none, or the user database has failed.
 * Or -EAGAIN: it is being looked up, and came() is called later. */
int names_of(struct names *n, uint32_t uid, const char **ret_name);
