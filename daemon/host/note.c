/* SPDX-License-Identifier: Apache-2.0
 *
 * note.c: the ABI note and the build id of a plugin, read from the file's bytes.
 * Owns nothing; the bytes are the caller's and must not change meanwhile (a sealed memfd, or memory). [any]
 * Keeps: no read outside [data, data + size), whatever the bytes say.
 * Does not judge the ABI number, and does not vouch for what the dynamic loader makes of the rest of the file. */
#include "host/note.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <wsd/plugin.h>

#include "base/hash.h"

#if __ELF_NATIVE_CLASS == 64
#define NATIVE_CLASS ELFCLASS64
#else
#define NATIVE_CLASS ELFCLASS32
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE_DATA ELFDATA2LSB
#else
#define NATIVE_DATA ELFDATA2MSB
#endif

#if defined __x86_64__
#define NATIVE_MACHINE EM_X86_64
#elif defined __aarch64__
#define NATIVE_MACHINE EM_AARCH64
#elif defined __riscv
#define NATIVE_MACHINE EM_RISCV
#elif defined __powerpc64__
#define NATIVE_MACHINE EM_PPC64
#elif defined __s390x__
#define NATIVE_MACHINE EM_S390
#elif defined __i386__
#define NATIVE_MACHINE EM_386
#elif defined __arm__
#define NATIVE_MACHINE EM_ARM
#endif

struct bytes {
    const uint8_t *data;
    uint64_t size;
};

static bool inside(const struct bytes *b, uint64_t offset, uint64_t size)
{
    return offset <= b->size && size <= b->size - offset;
}

/* The next multiple; the callers' values stay far below overflow because they are checked against the size first. */
static uint64_t align_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) & ~(align - 1);
}

/* Looks through the notes of one PT_NOTE segment. */
static int scan_notes(const struct bytes *notes, uint64_t align, bool *found, uint32_t *abi)
{
    uint64_t at = 0;

    while (inside(notes, at, sizeof(ElfW(Nhdr)))) {
        ElfW(Nhdr) note;
        uint32_t value;

        memcpy(&note, notes->data + at, sizeof(note));
        uint64_t name = at + sizeof(note);
        uint64_t desc = align_up(name + note.n_namesz, align);
        if (!inside(notes, desc, note.n_descsz)) /* so the name is inside too */
            return NOTE_E_TRUNCATED;
        if (note.n_type == WSD_ABI_NOTE_TYPE && note.n_namesz == 4 && memcmp(notes->data + name, "wsd", 4) == 0 &&
            note.n_descsz == sizeof(value)) {
            memcpy(&value, notes->data + desc, sizeof(value));
            if (*found && *abi != value)
                return NOTE_E_NOTES;
            *found = true;
            *abi = value;
        }
        at = align_up(desc + note.n_descsz, align);
    }
    return 0;
}

static int check_header(const struct bytes *file, ElfW(Ehdr) * ret)
{
    ElfW(Ehdr) header;

    if (file->size < SELFMAG || memcmp(file->data, ELFMAG, SELFMAG) != 0)
        return NOTE_E_NOT_ELF;
    if (file->size < sizeof(header))
        return NOTE_E_TRUNCATED;
    memcpy(&header, file->data, sizeof(header));
    if (header.e_ident[EI_CLASS] != NATIVE_CLASS || header.e_ident[EI_DATA] != NATIVE_DATA || header.e_type != ET_DYN)
        return NOTE_E_FOREIGN;
#ifdef NATIVE_MACHINE
    if (header.e_machine != NATIVE_MACHINE)
        return NOTE_E_FOREIGN;
#endif
    if (header.e_phentsize != sizeof(ElfW(Phdr)) ||
        !inside(file, header.e_phoff, (uint64_t)header.e_phnum * sizeof(ElfW(Phdr))))
        return NOTE_E_TRUNCATED;
    *ret = header;
    return 0;
}

int note_read(const void *data, size_t size, uint32_t *ret_abi)
{
    const struct bytes file = {data, size};
    ElfW(Ehdr) header;
    bool found = false, plain_stack = false;
    uint32_t abi = 0;
    int r = check_header(&file, &header);

    if (r != 0)
        return r;
    for (uint32_t i = 0; i < header.e_phnum; i++) {
        ElfW(Phdr) segment;

        memcpy(&segment, file.data + header.e_phoff + (uint64_t)i * sizeof(segment), sizeof(segment));
        /* A segment beyond the end would be a SIGBUS inside the dynamic loader. */
        if ((segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC || segment.p_type == PT_NOTE) &&
            !inside(&file, segment.p_offset, segment.p_filesz))
            return NOTE_E_TRUNCATED;
        if (segment.p_type == PT_GNU_STACK) /* where there is none, the dynamic loader takes it for executable */
            plain_stack = !(segment.p_flags & PF_X);
        if (segment.p_type != PT_NOTE)
            continue;
        r = scan_notes(&(struct bytes){file.data + segment.p_offset, segment.p_filesz}, segment.p_align == 8 ? 8 : 4,
                       &found, &abi);
        if (r != 0)
            return r;
    }
    if (!found)
        return NOTE_E_NO_NOTE;
    if (!plain_stack)
        return NOTE_E_STACK;
    *ret_abi = abi;
    return 0;
}

/* Writes the first build id among these notes. */
static bool scan_build_id(const struct bytes *notes, uint64_t align, char ret[static NOTE_BUILD])
{
    uint64_t at = 0;

    while (inside(notes, at, sizeof(ElfW(Nhdr)))) {
        ElfW(Nhdr) note;

        memcpy(&note, notes->data + at, sizeof(note));
        uint64_t name = at + sizeof(note);
        uint64_t desc = align_up(name + note.n_namesz, align);
        if (!inside(notes, desc, note.n_descsz))
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes->data + name, "GNU", 4) == 0 &&
            note.n_descsz > 0 && note.n_descsz <= (NOTE_BUILD - 1) / 2) {
            for (uint32_t i = 0; i < note.n_descsz; i++)
                snprintf(ret + (size_t)2 * i, 3, "%02x", notes->data[desc + i]);
            return true;
        }
        at = align_up(desc + note.n_descsz, align);
    }
    return false;
}

void note_build_id(const void *data, size_t size, char ret[static NOTE_BUILD])
{
    const struct bytes file = {data, size};
    ElfW(Ehdr) header;

    ret[0] = 0;
    if (check_header(&file, &header) != 0)
        return;
    for (uint32_t i = 0; i < header.e_phnum; i++) {
        ElfW(Phdr) segment;

        memcpy(&segment, file.data + header.e_phoff + (uint64_t)i * sizeof(segment), sizeof(segment));
        if (segment.p_type == PT_NOTE && inside(&file, segment.p_offset, segment.p_filesz) &&
            scan_build_id(&(struct bytes){file.data + segment.p_offset, segment.p_filesz}, segment.p_align == 8 ? 8 : 4,
                          ret))
            return;
    }
}

uint64_t note_digest(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint64_t digest = hash_mix(size + 1), word;

    for (; size >= sizeof(word); size -= sizeof(word), bytes += sizeof(word)) {
        memcpy(&word, bytes, sizeof(word));
        digest = hash_mix(digest + word) + 0x9e3779b97f4a7c15u;
    }
    word = 0;
    if (size)
        memcpy(&word, bytes, size);
    return hash_mix(digest + word);
}

const char *note_strerror(int answer)
{
    switch (answer) {
    case 0:
        return "fine";
    case NOTE_E_NOT_ELF:
        return "not a plugin: not a shared object (ELF) file";
    case NOTE_E_FOREIGN:
        return "not a plugin: not a shared object for this machine";
    case NOTE_E_TRUNCATED:
        return "not a plugin: the file is damaged or cut off";
    case NOTE_E_NO_NOTE:
        return "not a plugin: it has no WSD_PLUGIN() descriptor";
    case NOTE_E_NOTES:
        return "not a plugin: built from parts of different plugin ABIs";
    case NOTE_E_STACK:
        return "refused: it wants an executable stack; link it with -Wl,-z,noexecstack";
    default:
        return "not a plugin";
    }
}
