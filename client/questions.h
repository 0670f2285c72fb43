/* SPDX-License-Identifier: Apache-2.0
 *
 * questions.h: questions as messages. One thread a handle.
 */
#pragma once

#include "proto/codec.h"
#include "wsd/client.h"

struct msg id_message(uint16_t type, const struct wsd_id *id);
/* What a filter of the user's says, which *ret points into. 0, or a negative errno, said. */
int filter_message(struct wsd_client *client, const struct wsd_filter *given, uint16_t type, struct msg *ret);
