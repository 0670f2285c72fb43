/* SPDX-License-Identifier: Apache-2.0
 *
 * schema.h: the keys of the sections without a name. [any]
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "configuration/configuration.h"

/* What values of one kind are. `at` is where the value is kept. One of number, set and add is there. */
struct config_kind {
    const char *wanted;                                       /* what would have been right, for errors */
    int (*number)(const char *value, uint64_t *ret);          /* a uint64_t. Returns 0, or -EINVAL */
    int (*set)(void *at, const char *value);                  /* anything else. Returns 0, or -EINVAL */
    void (*print)(const void *at, const char *key, FILE *to); /* in the syntax of the file */
    bool (*is_unset)(const void *at);                         /* NULL: it never is */
    /* each line adds to those before it. Returns 0, or a negative errno with words of its own */
    int (*add)(void *at, const char *key, const char *value, char error[static CONFIG_ERROR]);
};

/* When a changed value takes effect: at a reload, at the next start, at the next start of wsd-fleet. */
enum applies { APPLIES_NOW = 1, APPLIES_START, APPLIES_FLEET };

struct config_key {
    const char *section, *name;
    const struct config_kind *kind;
    enum applies applies;
    size_t at; /* in struct config */
};

extern const struct config_key config_keys[];
extern const size_t config_n_keys;

const struct config_key *config_key_find(const char *section, const char *name); /* NULL: there is none */
/* It may change while wsd runs. own: for one user. */
bool config_key_is_limit(const struct config_key *key, bool own);
/* Returns 0, or a negative errno with the words. */
int config_key_set(struct config *c, const struct config_key *key, const char *value, char error[static CONFIG_ERROR]);
void config_key_print(const struct config *c, const struct config_key *key, FILE *to);
bool config_key_is_unset(const struct config *c, const struct config_key *key);
