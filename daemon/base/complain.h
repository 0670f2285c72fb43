/* SPDX-License-Identifier: Apache-2.0
 *
 * complain.h: what a program says on stderr before it runs: one line, with its name before it, escaped. [any]
 */
#pragma once

__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);
