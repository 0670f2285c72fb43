/* SPDX-License-Identifier: Apache-2.0
 *
 * people.h: users and groups, by name or number. [before the loop, and beside it at a reload]
 */
#pragma once

#include <stdio.h>

#include "configuration/configuration.h"

/* 0, -ENOENT, or another negative errno: it is not known whether there is one. */
int uid_of(const char *user, uint32_t *ret);
/* Returns -EAGAIN, with the words: the user database gave this error instead of an answer. */
int accounts_silent(const char *key, const char *name, int r, char error[static CONFIG_ERROR]);
int id_add(uint32_t **ids, uint32_t *n, uint32_t id); /* 0; -E2BIG: CONFIG_USERS_MAX are there; -ENOMEM */

/* The first line replaces the default, and later lines add to it; an empty one clears the list. Returns 0, or a
 * negative errno with the words. */
int people_set(struct access_list *l, const char *key, const char *value, char error[static CONFIG_ERROR]);
void people_free(struct access_list *l);
/* A line for each: those of a file have their limit. The first has its key already. */
void people_print(const struct access_list *l, const char *key, FILE *to);
