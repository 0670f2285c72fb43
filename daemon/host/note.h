/* SPDX-License-Identifier: Apache-2.0
 *
 * note.h: what can be said of a plugin from its bytes alone, before any of it is loaded. Pure functions over memory;
 * every offset and length in the bytes is checked, so hostile bytes give an answer and nothing worse. [any]
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    NOTE_E_NOT_ELF = 1,   /* not an ELF file at all */
    NOTE_E_FOREIGN = 2,   /* ELF, but no shared object for this machine */
    NOTE_E_TRUNCATED = 3, /* tables or segments point outside the file */
    NOTE_E_NO_NOTE = 4,   /* a shared object without the note of WSD_PLUGIN() */
    NOTE_E_NOTES = 5,     /* several notes that contradict each other */
    NOTE_E_STACK = 6,     /* a plugin that would have the stacks of the whole executor executable */
};

/* Reads the ABI number from the note that WSD_PLUGIN() leaves, and checks that every segment that the dynamic loader
 * would map lies inside the bytes. 0 or NOTE_E_*. */
int note_read(const void *data, size_t size, uint32_t *ret_abi);

/* The build id that the linker left (NT_GNU_BUILD_ID), in hexadecimal; "" if there is none, or none that fits. Accepts
 * any bytes. */
#define NOTE_BUILD 65u /* room: 32 bytes and a NUL */
void note_build_id(const void *data, size_t size, char ret[static NOTE_BUILD]);

/* A hash that tells two builds of a file apart. It gives no protection against deliberate collisions. */
uint64_t note_digest(const void *data, size_t size);

/* One line for an NOTE_E_*. */
const char *note_strerror(int answer);
