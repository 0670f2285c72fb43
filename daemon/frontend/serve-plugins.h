/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-plugins.h: PLUGINS, RELOAD, RELEASE. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_plugins(struct request *r);
void serve_reload(struct request *r);
void serve_release(struct request *r);
