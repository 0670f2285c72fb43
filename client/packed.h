/* SPDX-License-Identifier: Apache-2.0
 *
 * packed.h: copies of submits that are done later. [any thread]
 */
#pragma once

#include "wsd/client.h"

/* Bytes of all that it points to, but for the input and the arena. */
size_t packed_size(const struct wsd_submit *from);
/* Copies that into room, which is aligned for anything and has so many bytes. *ret points there. */
void packed_put(const struct wsd_submit *from, void *room, struct wsd_submit *ret);
/* Gives it a descriptor of its own for the input by file, if it has one. 0 or a negative errno. */
int packed_hold(struct wsd_submit *submit);
/* Closes that. */
void packed_drop(const struct wsd_submit *submit);
