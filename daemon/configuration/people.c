/* SPDX-License-Identifier: Apache-2.0
 *
 * people.c: users and groups, by name or number.
 * Owns nothing. [before the loop, and beside it at a reload]
 * Keeps: a name that is unknown is an error; where the user database does not answer, nothing is known. */
#include "configuration/people.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/accounts.h"
#include "base/cleanup.h"

void people_free(struct access_list *l)
{
    free(l->uids);
    free(l->gids);
    *l = (struct access_list){0};
}

static int number_of(const char *text, uint32_t *ret)
{
    char *end;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno || *end || end == text || text[0] < '0' || text[0] > '9' || number >= UINT32_MAX)
        return -ENOENT;
    *ret = (uint32_t)number;
    return 0;
}

int uid_of(const char *user, uint32_t *ret)
{
    struct account found;

    if (number_of(user, ret) == 0)
        return 0;
    int r = account_by_name(user, &found);
    if (r == 0)
        *ret = found.uid;
    return r;
}

static int gid_of(const char *group, uint32_t *ret)
{
    return number_of(group, ret) == 0 ? 0 : group_by_name(group, ret);
}

int accounts_silent(const char *key, const char *name, int r, char error[static CONFIG_ERROR])
{
    snprintf(error, CONFIG_ERROR, "%s: %.64s: " ACCOUNTS_SILENT, key, name, strerror(-r));
    return -EAGAIN;
}

int id_add(uint32_t **ids, uint32_t *n, uint32_t id)
{
    uint32_t *more = *n < CONFIG_USERS_MAX ? realloc(*ids, (*n + 1) * sizeof(*more)) : NULL;

    if (!more)
        return *n < CONFIG_USERS_MAX ? -ENOMEM : -E2BIG;
    *ids = more;
    more[(*n)++] = id;
    return 0;
}

static int person_add(struct access_list *l, const char *who, const char *key, char error[static CONFIG_ERROR])
{
    bool is_group = *who == '@', everybody = strcmp(who, "*") == 0;
    uint32_t id;
    int r = everybody ? 0 : is_group ? gid_of(who + 1, &id) : uid_of(who, &id);

    if (r < 0 && r != -ENOENT)
        return accounts_silent(key, who, r, error);
    if (everybody)
        l->all = true;
    else if (r == 0 && is_group)
        r = id_add(&l->gids, &l->n_gids, id);
    else if (r == 0)
        r = id_add(&l->uids, &l->n_uids, id);
    if (r == -ENOENT)
        snprintf(error, CONFIG_ERROR, "%s: %.64s: there is no such %s; wanted are users, @groups, or * for everybody",
                 key, who, is_group ? "group" : "user");
    if (r == -E2BIG)
        snprintf(error, CONFIG_ERROR, "%s: at most %u users and as many groups", key, CONFIG_USERS_MAX);
    return r;
}

int people_set(struct access_list *l, const char *key, const char *value, char error[static CONFIG_ERROR])
{
    _cleanup_(freep) char *copy = strdup(value);
    char *save = NULL;
    int r = 0;

    if (!copy)
        return -ENOMEM;
    if (!l->said || !*value)
        people_free(l);
    l->said = true;
    for (char *who = strtok_r(copy, " \t", &save); who && r == 0; who = strtok_r(NULL, " \t", &save))
        r = person_add(l, who, key, error);
    return r == -ENOMEM || r == -EAGAIN ? r : r < 0 ? -EINVAL : 0;
}

void people_print(const struct access_list *l, const char *key, FILE *to)
{
    const char *between = "";
    char next[64];

    snprintf(next, sizeof(next), "\n%s = ", key);
    if (l->all) {
        fputs("*", to);
        between = next;
    }
    for (uint32_t i = 0; i < l->n_uids; i++, between = next)
        fprintf(to, "%s%u", between, l->uids[i]);
    for (uint32_t i = 0; i < l->n_gids; i++, between = next)
        fprintf(to, "%s@%u", between, l->gids[i]);
}
