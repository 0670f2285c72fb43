/* SPDX-License-Identifier: Apache-2.0
 *
 * complain.h: what wsd-fleet says on stderr: one line of printable text, whatever is in it.
 */
#pragma once

__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);
