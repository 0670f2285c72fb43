/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.h: whether a request of HTTP may be served: those of pages of other sites, and those without the token, may
 * not. [any]
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GUARD_TOKEN   65u /* room for a token: 64 hexadecimal digits, with NUL */
#define GUARD_NAMES   16u
#define GUARD_PERSONS 65u

/* What is let in. */
struct guard {
    char token[GUARD_TOKEN]; /* "": all that reach the listener */
    const char
        *names[GUARD_NAMES]; /* by which this host is called, beside localhost and its addresses; NULL-terminated */
    bool acts;               /* requests that change something are served */
    /* The header in which a proxy names the person; NULL: no person is named. Then only persons may change something,
     * and of these, where `persons` has any, only those. */
    const char *person_header;
    const char *persons[GUARD_PERSONS]; /* NULL-terminated */
};

/* Headers of a request; NULL: it has none. */
struct guard_request {
    bool changes;   /* it is a POST */
    bool is_public; /* a file of the page, which all may read */
    const char *host, *origin, *authorization;
    const char *marker; /* X-Wsd-Web, which a page of another site cannot set */
    const char *person; /* that a proxy that may be believed has named */
};

/* Draws a token. Returns 0 or a negative errno. */
int guard_draw(struct guard *g);
/* Returns 0, or a status of HTTP with words. */
int guard_check(const struct guard *g, const struct guard_request *r, const char **ret_why);
