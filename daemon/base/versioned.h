/* SPDX-License-Identifier: Apache-2.0
 *
 * versioned.h: structures of programs and plugins that were built with newer headers. [any]
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether nothing is set behind what is known of a structure: then it asks for nothing that would be ignored (as
 * copy_struct_from_user() of Linux has it). */
static inline bool versioned_is_known(const void *from, size_t size, size_t known)
{
    const unsigned char *bytes = from;

    for (size_t i = known; i < size; i++)
        if (bytes[i])
            return false;
    return true;
}
