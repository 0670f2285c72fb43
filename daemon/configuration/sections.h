/* SPDX-License-Identifier: Apache-2.0
 *
 * sections.h: the sections with a name. [before the loop, and beside it at a reload]
 */
#pragma once

#include <stdio.h>

#include "configuration/configuration.h"

/* Sets a key of such a section. Returns 0; -ENOENT: it is none of them; or a negative errno with the words. */
int sections_set(struct config *c, const char *section, const char *key, const char *value,
                 char error[static CONFIG_ERROR]);
int sections_print(const struct config *c, FILE *to); /* all of them. 0, or -ENOMEM: the output is incomplete */
void sections_print_domain(const struct config_domain *d, FILE *to);
void sections_free(struct config *c);
