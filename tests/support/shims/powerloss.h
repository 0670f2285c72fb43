/* SPDX-License-Identifier: Apache-2.0
 *
 * powerloss.h: see powerloss.c.
 */
#pragma once

#include <stdint.h>

void powerloss_register(void);                      /* called before main(), too */
unsigned powerloss_syncs(void);                     /* so far */
void powerloss_dice(uint64_t seed, uint64_t early); /* as the environment says otherwise */
void powerloss_room(uint64_t bytes);                /* how large a file may become; 0: any */
void powerloss_at_write(void (*f)(void));           /* called once, in the thread of the next write, before it */
void powerloss_fail(int code);                      /* what each write and sync answers from now on; 0: they go well */
