/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-note.c: any bytes as the file of a plugin, through note_read().
 * Keeps: Each file gets an answer with words. Where it is accepted, the header is of a shared object, and the note of
 * WSD_PLUGIN() with that number lies in the bytes. */
#include "fuzz.h"

#include <elf.h>
#include <string.h>

#include <wsd/plugin.h>

#include "host/note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t abi = 0xa5a5a5a5u;
    int r = note_read(data, size, &abi);
    struct {
        uint32_t name_size, size, type;
        char name[4];
        uint32_t abi;
    } note = {4, 4, WSD_ABI_NOTE_TYPE, "wsd", abi};

    char build[NOTE_BUILD];

    memset(build, 'x', sizeof(build));
    note_build_id(data, size, build);
    FUZZ_CHECK(strnlen(build, sizeof(build)) % 2 == 0 && strspn(build, "0123456789abcdef") == strlen(build));
    FUZZ_CHECK(note_digest(data, size) == note_digest(data, size));
    FUZZ_CHECK(r >= 0 && r <= NOTE_E_STACK && *note_strerror(r));
    if (r != 0)
        FUZZ_CHECK(abi == 0xa5a5a5a5u);
    else
        FUZZ_CHECK(size > EI_NIDENT && memcmp(data, ELFMAG, SELFMAG) == 0 && memmem(data, size, &note, sizeof(note)));
    return 0;
}
