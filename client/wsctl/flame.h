/* SPDX-License-Identifier: Apache-2.0
 *
 * flame.h: a flame graph as one SVG file.
 */
#pragma once

#include <stdio.h>

#include "folded.h"

/* Writes it. title is escaped; so are the names of frames. Errors are the stream's. */
void flame_write(const struct call_frame *all, const char *title, FILE *to);
