/* SPDX-License-Identifier: Apache-2.0
 *
 * print.c: the configuration as text: whole, its limits, and what only a start applies.
 * Owns nothing. [any]
 * Keeps: what is printed reads back as the same. */
#include "configuration/print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "configuration/effects.h"
#include "configuration/schema.h"
#include "configuration/sections.h"

/* Closes a stream in memory. Returns 0, or -ENOMEM: some output found no memory. */
static int close_text(FILE *to, char *const *text)
{
    bool failed = ferror(to);

    return fclose(to) == 0 && !failed && *text ? 0 : -ENOMEM;
}

int config_each_limit(const struct config *c, void (*each)(const char *key, const char *value, void *userdata),
                      void *userdata)
{
    for (size_t i = 0; i < config_n_keys; i++) {
        _cleanup_(freep) char *text = NULL;
        size_t size;

        if (!config_key_is_limit(&config_keys[i], false))
            continue;
        FILE *to = open_memstream(&text, &size);
        if (!to)
            return -ENOMEM;
        if (!config_key_is_unset(c, &config_keys[i]))
            config_key_print(c, &config_keys[i], to);
        int r = close_text(to, &text);
        if (r < 0)
            return r;
        each(config_keys[i].name, text, userdata);
    }
    return 0;
}

int config_print(const struct config *c, FILE *to)
{
    const char *section = "";

    for (size_t i = 0; i < config_n_keys; i++) {
        const struct config_key *key = &config_keys[i];

        if (strcmp(section, key->section) != 0)
            fprintf(to, "%s[%s]\n", *section ? "\n" : "", key->section);
        section = key->section;
        fprintf(to, "%s%s = ", config_key_is_unset(c, key) ? "# " : "", key->name);
        config_key_print(c, key, to);
        fputc('\n', to);
    }
    return sections_print(c, to);
}

char *config_at_start(const struct config *c)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    if (!to)
        return NULL;
    for (size_t i = 0; i < config_n_keys; i++) {
        const struct config_key *key = &config_keys[i];

        if (key->applies != APPLIES_START)
            continue;
        fprintf(to, "[%s] %s%c", key->section, key->name, 0);
        if (!config_key_is_unset(c, key))
            config_key_print(c, key, to);
        fputc(0, to);
    }
    /* what executors may is settled when the helper that starts them is */
    fprintf(to, "[plugin exec] enabled%c%d%c[domain NAME]%c", 0, config_plugin_enabled(c, "exec", true), 0, 0);
    for (uint32_t i = 0; i < c->domains->n; i++)
        sections_print_domain(&c->domains->list[i], to);
    fputc(0, to);
    fputc(0, to); /* no further key */
    if (close_text(to, &text) == 0)
        return text;
    free(text);
    return NULL;
}

void config_each_changed(const char *started, const char *fresh, void (*each)(const char *key, void *userdata),
                         void *userdata)
{
    while (*started && *fresh) {
        const char *value = started + strlen(started) + 1, *other = fresh + strlen(fresh) + 1;

        if (strcmp(value, other) != 0)
            each(started, userdata);
        started = value + strlen(value) + 1;
        fresh = other + strlen(other) + 1;
    }
}
