/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch.h: frames of clients become requests. [loop]
 */
#pragma once

#include "frontend/peer.h"

extern const struct peer_ops dispatch_ops;
