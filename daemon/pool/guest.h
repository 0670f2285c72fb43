/* SPDX-License-Identifier: Apache-2.0
 *
 * guest.h: outside threads that run what workers would; for the files of this folder only.
 */
#pragma once

#include "pool/worker.h"

/* Takes a piece out of its list and runs it on the calling outside thread. False: the piece was gone, or too many
 * threads do so already. [any but workers] */
bool guest_run_ready(struct pool *pool, struct ready *r);
