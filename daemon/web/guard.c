/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.c: the rules of who is let in.
 * A name of this host that is not its own is refused, so that a site cannot have its name lead here (DNS rebinding). The
 * token comes in a header, and never in a cookie: browsers send cookies to every port of a host. What changes something
 * wants a header that other sites cannot send without asking, which is never allowed (no CORS), and an Origin, where
 * there is one, of this host.
 * Owns nothing. */
#include "web/guard.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#define UNAUTHORIZED 401
#define FORBIDDEN    403
#define MISDIRECTED  421

int guard_draw(struct guard *g)
{
    uint8_t bytes[(GUARD_TOKEN - 1) / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return -errno;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(g->token + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

/* It takes as long for each text of one length. */
static bool is_token(const struct guard *g, const char *text)
{
    size_t size = strlen(text);
    unsigned differ = size != strlen(g->token);

    for (size_t i = 0; i < size; i++)
        differ |= (unsigned)((unsigned char)text[i] ^ (unsigned char)g->token[i % (GUARD_TOKEN - 1)]);
    return !differ;
}

static bool is_authorized(const struct guard *g, const struct guard_request *r)
{
    static const char bearer[] = "Bearer ";
    const size_t n = sizeof(bearer) - 1;

    if (!*g->token || r->is_public)
        return true;
    return r->authorization && strncasecmp(r->authorization, bearer, n) == 0 && is_token(g, r->authorization + n);
}

/* Whether `host`, which may have a port behind it, is a name of this host. */
static bool is_own_name(const struct guard *g, const char *host)
{
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *end = *host == '[' ? strchr(host, ']') : NULL;
    size_t size = end ? (size_t)(end - host) + 1 : strcspn(host, ":");

    if (host[size] && (host[size] != ':' || strspn(host + size + 1, "0123456789") != strlen(host + size + 1)))
        return false;
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
        if (strlen(own[i]) == size && strncasecmp(own[i], host, size) == 0)
            return true;
    for (size_t i = 0; i < GUARD_NAMES && g->names[i]; i++)
        if (strlen(g->names[i]) == size && strncasecmp(g->names[i], host, size) == 0)
            return true;
    return false;
}

/* Whether the page that sends it came from here. */
static bool is_own_page(const struct guard_request *r)
{
    const char *host = r->origin ? strstr(r->origin, "://") : NULL;

    return !r->origin || (host && strcmp(host + 3, r->host) == 0);
}

static bool may_act(const struct guard *g, const char *person)
{
    if (!g->person_header)
        return true;
    for (size_t i = 0; person && i < GUARD_PERSONS && g->persons[i]; i++)
        if (strcmp(g->persons[i], person) == 0)
            return true;
    return person && *person && !g->persons[0];
}

int guard_check(const struct guard *g, const struct guard_request *r, const char **ret_why)
{
    if (!r->host || !is_own_name(g, r->host)) {
        *ret_why = "this name is not one of wsd-web's: open it as localhost, or start it with --name";
        return MISDIRECTED;
    }
    if (!is_authorized(g, r)) {
        *ret_why = "open the address that `wsctl web` has printed, with its token, or send it as a Bearer";
        return UNAUTHORIZED;
    }
    if (!r->changes)
        return 0;
    *ret_why = "a page of another site may change nothing here";
    if (!r->marker || !is_own_page(r))
        return FORBIDDEN;
    *ret_why = "nothing can be changed by this wsd-web: `wsctl web` starts one with your rights";
    if (!g->acts)
        return FORBIDDEN;
    *ret_why = "only persons whom wsd-web's proxy names, and --person lists, may change something";
    return may_act(g, r->person) ? 0 : FORBIDDEN;
}
