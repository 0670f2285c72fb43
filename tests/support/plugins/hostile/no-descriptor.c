/* SPDX-License-Identifier: Apache-2.0
 *
 * no-descriptor.c: test plugin: has the note of WSD_PLUGIN(), and nothing that the note speaks of. */
#include <stdint.h>

__attribute__((section(".note.wsd"), used, aligned(4))) static const struct {
    uint32_t name_size, size, type;
    char name[4];
    uint32_t abi;
} note = {4, 4, 1, "wsd", 1};
