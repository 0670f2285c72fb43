/* SPDX-License-Identifier: Apache-2.0
 *
 * given.c: structures that a program passes, of whatever version it was built with.
 * Owns nothing. [any]
 * Keeps: no field that is set is ignored silently. */
#include "given.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/code.h"
#include "base/versioned.h"
#include "config.h"

/* One of that size. 0 or an error, said. */
static int check(struct failure *f, const char *name, const void *from, size_t size, size_t known)
{
    if (size < sizeof(size))
        return failure_set(f, -EINVAL, CODE_USAGE, "the size of struct %s is not set", name);
    if (size <= GIVEN_MAX && versioned_is_known(from, size, known))
        return 0;
    return failure_set(f, -E2BIG, CODE_USAGE,
                       "struct %s has %zu bytes, and sets something behind the %zu that libwsclient %s knows", name,
                       size, known, WSD_VERSION);
}

const void *given_view_other(struct failure *f, const char *name, const void *from, void *to, size_t known,
                             int *ret_error)
{
    size_t size = given_size(from);

    *ret_error = check(f, name, from, size, known);
    if (*ret_error)
        return NULL;
    if (size > known)
        return from;
    memset(to, 0, known);
    return memcpy(to, from, size);
}

int given_all_other(struct failure *f, const char *name, const void *first, size_t n, size_t known)
{
    size_t size = given_size(first);
    int r = 0;

    if (size > known && size <= GIVEN_MAX)
        for (size_t i = 0; i < n && r == 0; i++)
            r = check(f, name, (const uint8_t *)first + i * size, size, known);
    else
        r = check(f, name, first, size, known);
    return r;
}
