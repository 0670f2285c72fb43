/* SPDX-License-Identifier: Apache-2.0
 *
 * print.h: the configuration as text: whole, its limits, and what only a start applies. [any]
 */
#pragma once

#include <stdio.h>

#include "configuration/configuration.h"

/* Prints all of it, in the syntax of the file. Returns 0, or -ENOMEM: the output is incomplete. */
int config_print(const struct config *c, FILE *to);
/* Lists each limit of config_set_limit() with its value, in the syntax of the file. Returns 0, or -ENOMEM: the list is
 * incomplete. */
int config_each_limit(const struct config *c, void (*each)(const char *key, const char *value, void *userdata),
                      void *userdata);
/* Returns the settings that only a start applies: pairs of key and value, each with its NUL. The caller frees. NULL: no
 * memory. */
char *config_at_start(const struct config *c);
/* Calls each for every key that differs in two results of config_at_start(). */
void config_each_changed(const char *started, const char *fresh, void (*each)(const char *key, void *userdata),
                         void *userdata);
