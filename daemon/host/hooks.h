/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks.h: a plugin's worker_start and worker_stop, once a worker that its jobs reach.
 */
#pragma once

#include "host/plugin.h"

/* This thread, worker `worker`, is about to run something of the plugin's, on behalf of the job that host_current()
 * names. Only where the plugin has hooks. [worker] */
void hooks_start(const struct host_plugin *plugin, uint32_t worker);

/* This thread ends: worker_stop for each plugin that was started on it, the last started first. [worker] */
void hooks_stop(uint32_t worker);
