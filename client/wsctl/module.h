/* SPDX-License-Identifier: Apache-2.0
 *
 * module.h: the parts of wsctl that are loaded on demand, so that a plain `wsctl submit` links none of them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The path of something in the build tree, relative to wsctl, where wsctl runs from there. */
bool module_in_build_tree(const char *relative, char *buffer, size_t size);

/* Loads `directory``name` of the build tree, else `name` where modules are installed, and finds the symbol. It is never
 * unloaded. NULL: said, with what wanted it (`--local`). */
void *module_symbol(const char *what, const char *directory, const char *name, const char *symbol);
