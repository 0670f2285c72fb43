/* SPDX-License-Identifier: Apache-2.0
 *
 * id.h: job ids: 16 bytes, of which the second half is a number; those of one array follow each other. [any]
 */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void id_add(uint8_t id[static 16], uint64_t n)
{
    uint64_t number;

    memcpy(&number, id + 8, sizeof(number));
    number = htole64(le64toh(number) + n);
    memcpy(id + 8, &number, sizeof(number));
}
