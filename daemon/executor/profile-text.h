/* SPDX-License-Identifier: Apache-2.0
 *
 * profile-text.h: a profile as text, one line a stack: SUBJECT;FRAME;FRAME... COUNT, the outermost frame first, as
 * flamegraph.pl takes it. [control thread]
 *
 * SUBJECT is PLUGIN:FUNCTION, or [wsd] for what no job did. COUNT is in periods of the rate. Frames in brackets are no
 * functions: [wsd] is the engine between two functions, [FILE] is code without a name. The outer frames of a stack that
 * is deeper than PROFILE_FRAMES are [cut off]. Those that could not be found are [no unwind table]. The place where a
 * stolen task is joined to the stack of its spawner is [stolen].
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Writes the profile. put returns 0 or a negative errno, which ends the writing. *ret_lost: samples that found no room.
 * 0, -ENOMEM, or what put returned. After profile_stop(). */
int profile_text(int (*put)(const char *text, size_t size, void *userdata), void *userdata, uint64_t *ret_lost);
