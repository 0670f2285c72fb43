/* SPDX-License-Identifier: Apache-2.0
 *
 * given.h: structures that a program passes, of whatever version it was built with: each begins with its size. [any]
 */
#pragma once

#include <stddef.h>
#include <string.h>

#include "failure.h"

#define GIVEN_MAX 4096u /* bytes; what says more is no structure of any version */

/* Returns the structure as this library knows it: from itself if it has all of `known` bytes, else `to`, with zeros for
 * what it lacks. NULL, said: its size is not set (-EINVAL), or what this library does not know in it is not all zeros
 * (-E2BIG): the program wants something that would be ignored. */
static inline const void *given_view(struct failure *f, const char *name, const void *from, void *to, size_t known,
                                     int *ret_error);

/* The same for n that have the size of the first. 0 or an error, said. */
static inline int given_all(struct failure *f, const char *name, const void *first, size_t n, size_t known);

/* The same for one of a type, with room for it. NULL: *ret_error is set. */
#define GIVEN(f, type, from, to, ret_error)                                                                            \
    ((const struct type *)given_view(f, #type, from, to, sizeof(*(to)), ret_error))

/* --- of other versions -------------------------------------------------------------------------------------------- */

const void *given_view_other(struct failure *f, const char *name, const void *from, void *to, size_t known,
                             int *ret_error);
int given_all_other(struct failure *f, const char *name, const void *first, size_t n, size_t known);

static inline size_t given_size(const void *from)
{
    size_t size;

    memcpy(&size, from, sizeof(size));
    return size;
}

static inline const void *given_view(struct failure *f, const char *name, const void *from, void *to, size_t known,
                                     int *ret_error)
{
    return given_size(from) == known ? from : given_view_other(f, name, from, to, known, ret_error);
}

static inline int given_all(struct failure *f, const char *name, const void *first, size_t n, size_t known)
{
    return given_size(first) == known ? 0 : given_all_other(f, name, first, n, known);
}
