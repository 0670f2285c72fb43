/* SPDX-License-Identifier: Apache-2.0
 *
 * places.h: what the jobs of runners name: at a place, whatever plugin. [loop]
 */
#pragma once

#include "domains/runner-names.h"

#define PLACE_PLUGINS 64u /* plugins that the jobs of one user name at a place */

/* What this user's jobs call a plugin: the name itself, or a plugin at a place. The entry of a place's plugin is made
 * where `make` says so. NULL: there is none; or it cannot be made, for want of memory, or as many are in use as may be
 * (errno EMFILE). */
struct plugin *runners_plugin(struct runners *g, uint32_t uid, const char *request, bool make);
