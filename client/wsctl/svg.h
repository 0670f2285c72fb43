/* SPDX-License-Identifier: Apache-2.0
 *
 * svg.h: what the drawings of wsctl share.
 */
#pragma once

#include <stdio.h>

/* Writes text that is no markup, whatever it says. What is not printable ASCII is ?. */
void svg_escape(FILE *to, const char *text, size_t size);
