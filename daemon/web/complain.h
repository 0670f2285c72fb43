/* SPDX-License-Identifier: Apache-2.0
 *
 * complain.h: what wsd-web says on stderr before it runs: one line, escaped. [any]
 */
#pragma once

__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);
