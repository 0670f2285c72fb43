/* SPDX-License-Identifier: Apache-2.0
 *
 * start.h: opens the store, and takes up what it has; and closes it. [loop]
 */
#pragma once

struct jobs;

void start_end(struct jobs *jobs); /* at wsd's end: waits until all requests are on disk */
