/* SPDX-License-Identifier: Apache-2.0
 *
 * test-note.c: the ABI note is found in good plugins, and nothing worse than an answer comes of bad bytes. The bytes
 * lie at the end of a page with nothing behind it, so that a read too far is a fault. */
#include "host/note.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wsd/plugin.h"

#define PAGE 4096u

static uint8_t *file;
static size_t file_size;
static uint8_t *arena; /* room for the file, then a page that cannot be touched */
static size_t arena_size;

static void load(const char *name)
{
    char path[4096];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s.so", getenv("TEST_PLUGINS"), name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    file_size = (size_t)st.st_size;
    free(file);
    file = malloc(file_size);
    ck_assert_int_eq(read(fd, file, file_size), (ssize_t)file_size);
    close(fd);
    arena_size = (file_size + PAGE - 1) / PAGE * PAGE;
    arena = mmap(NULL, arena_size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(arena, MAP_FAILED);
    ck_assert_int_eq(mprotect(arena + arena_size, PAGE, PROT_NONE), 0);
}

/* The first n bytes of the file, with nothing behind them. */
static uint8_t *placed(size_t n)
{
    return memcpy(arena + arena_size - n, file, n);
}

static void setup_echo(void)
{
    load("echo");
}

START_TEST(note_of_a_plugin_is_its_abi)
{
    uint32_t abi = 99;

    ck_assert_int_eq(note_read(file, file_size, &abi), 0);
    ck_assert_uint_eq(abi, WSD_PLUGIN_ABI);
}
END_TEST

START_TEST(note_of_another_abi_is_read_too)
{
    uint32_t abi = 99;

    load("wrong-abi");
    ck_assert_int_eq(note_read(file, file_size, &abi), 0);
    ck_assert_uint_eq(abi, 7);
}
END_TEST

/* The build id as the linker wrote it: where "GNU" stands behind its sizes and type. */
static uint8_t *find_build_id(void)
{
    static const uint8_t head[] = {20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0};
    uint8_t *at = memmem(file, file_size, head, sizeof(head));

    ck_assert_msg(at, "the test plugins are linked without --build-id=sha1");
    return at + sizeof(head);
}

START_TEST(build_id_is_told_in_hexadecimal)
{
    char build[NOTE_BUILD], wanted[3];

    uint8_t *id = find_build_id();
    id[0] = 0xa0;
    id[19] = 0x0b;
    note_build_id(file, file_size, build);
    ck_assert_uint_eq(strlen(build), 40);
    for (size_t i = 0; i < 20; i++) {
        snprintf(wanted, sizeof(wanted), "%02x", id[i]);
        ck_assert_mem_eq(build + 2 * i, wanted, 2);
    }
}
END_TEST

/* Below, at and above the limit. */
START_TEST(build_id_of_other_lengths)
{
    char build[NOTE_BUILD];
    uint8_t *size = find_build_id() - 12;

    *size = 0;
    note_build_id(file, file_size, build);
    ck_assert_str_eq(build, "");
    *size = 1;
    note_build_id(file, file_size, build);
    ck_assert_uint_eq(strlen(build), 2);
    *size = 32;
    note_build_id(file, file_size, build); /* where the segment goes on for so long */
    ck_assert(strlen(build) == 64 || strlen(build) == 0);
    *size = 33;
    note_build_id(file, file_size, build);
    ck_assert_str_eq(build, "");
}
END_TEST

START_TEST(build_id_of_anything_is_nothing)
{
    char build[NOTE_BUILD];

    for (size_t n = 0; n < file_size; n += 1 + file_size / 200)
        note_build_id(placed(n), n, build);
    note_build_id("", 0, build);
    ck_assert_str_eq(build, "");
    note_build_id("\177ELF", 4, build);
    ck_assert_str_eq(build, "");
}
END_TEST

START_TEST(digest_tells_bytes_and_lengths_apart)
{
    uint64_t digest = note_digest(file, file_size);

    ck_assert_uint_eq(note_digest(placed(file_size), file_size), digest); /* wherever they are */
    ck_assert_uint_ne(note_digest(file, file_size - 1), digest);
    for (size_t i = 0; i < file_size; i += 1 + file_size / 500) {
        file[i] ^= 1;
        ck_assert_uint_ne(note_digest(file, file_size), digest);
        file[i] ^= 1;
    }
    ck_assert_uint_ne(note_digest("", 0), note_digest("", 1));
    ck_assert_uint_ne(note_digest("\0", 1), note_digest("\0\0", 2));
}
END_TEST

START_TEST(shared_object_without_note_is_no_plugin)
{
    uint32_t abi = 99;

    load("not-a-plugin");
    ck_assert_int_eq(note_read(file, file_size, &abi), NOTE_E_NO_NOTE);
    ck_assert_uint_eq(abi, 99);
}
END_TEST

START_TEST(text_and_nothing_are_no_elf)
{
    uint32_t abi;

    ck_assert_int_eq(note_read("#!/bin/sh\nexit 0\n", 17, &abi), NOTE_E_NOT_ELF);
    ck_assert_int_eq(note_read("", 0, &abi), NOTE_E_NOT_ELF);
    ck_assert_int_eq(note_read("\177EL", 3, &abi), NOTE_E_NOT_ELF);
}
END_TEST

START_TEST(object_for_another_machine_is_foreign)
{
    uint32_t abi;

    ((Elf64_Ehdr *)(void *)file)->e_machine = EM_68K;
    ck_assert_int_eq(note_read(file, file_size, &abi), NOTE_E_FOREIGN);
    ((Elf64_Ehdr *)(void *)file)->e_machine = EM_X86_64;
    file[EI_CLASS] = ELFCLASS32;
    ck_assert_int_eq(note_read(file, file_size, &abi), NOTE_E_FOREIGN);
}
END_TEST

static uint8_t *find_note(void)
{
    uint8_t *note = memmem(file, file_size, "\4\0\0\0\4\0\0\0\1\0\0\0wsd\0", 16);

    ck_assert_ptr_nonnull(note);
    return note;
}

START_TEST(note_with_a_length_beyond_its_segment_is_damage)
{
    static const uint32_t lengths[] = {5000, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff};
    uint8_t *note = find_note();
    uint32_t abi;

    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
        for (size_t field = 0; field < 2; field++) {
            uint32_t before;
            memcpy(&before, note + 4 * field, 4);
            memcpy(note + 4 * field, &lengths[i], 4);
            ck_assert_int_eq(note_read(file, file_size, &abi), NOTE_E_TRUNCATED);
            memcpy(note + 4 * field, &before, 4);
        }
    ck_assert_int_eq(note_read(file, file_size, &abi), 0);
}
END_TEST

START_TEST(notes_that_contradict_each_other_are_refused)
{
    uint8_t *note = find_note();
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)file;
    Elf64_Phdr *segments = (Elf64_Phdr *)(void *)(file + header->e_phoff), *phdr = NULL, *wsd = NULL;
    uint32_t abi, other = WSD_PLUGIN_ABI + 1;

    for (size_t i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_GNU_EH_FRAME)
            phdr = &segments[i];
        if (segments[i].p_type == PT_NOTE && note >= file + segments[i].p_offset &&
            note < file + segments[i].p_offset + segments[i].p_filesz)
            wsd = &segments[i];
    }
    ck_assert(phdr && wsd);
    /* a second note segment, made of the file's last bytes */
    *phdr = *wsd;
    phdr->p_offset = file_size - 20;
    phdr->p_filesz = 20;
    memcpy(file + file_size - 20, note, 20);
    ck_assert_int_eq(note_read(file, file_size, &abi), 0);
    memcpy(file + file_size - 4, &other, 4);
    ck_assert_int_eq(note_read(file, file_size, &abi), NOTE_E_NOTES);
}
END_TEST

START_TEST(executable_stack_is_refused_and_so_is_none)
{
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)file;
    Elf64_Phdr *segments = (Elf64_Phdr *)(void *)(file + header->e_phoff), *stack = NULL;
    uint32_t abi;

    for (size_t i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_GNU_STACK)
            stack = &segments[i];
    ck_assert(stack);
    stack->p_flags = PF_R | PF_W | PF_X;
    ck_assert_int_eq(note_read(file, file_size, &abi), NOTE_E_STACK);
    stack->p_flags = PF_R | PF_W;
    ck_assert_int_eq(note_read(file, file_size, &abi), 0);
    stack->p_type = PT_NULL;
    ck_assert_int_eq(note_read(file, file_size, &abi), NOTE_E_STACK);
}
END_TEST

START_TEST(file_cut_off_anywhere_is_refused)
{
    uint32_t abi;
    size_t end = 0;
    Elf64_Ehdr header;

    /* behind the last loaded byte there are only tables for tools */
    memcpy(&header, file, sizeof(header));
    for (size_t i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr p;
        memcpy(&p, file + header.e_phoff + i * sizeof(p), sizeof(p));
        if (p.p_type == PT_LOAD && p.p_offset + p.p_filesz > end)
            end = p.p_offset + p.p_filesz;
    }
    for (size_t n = 0; n < file_size; n += n < 1024 ? 1 : 61) {
        int r = note_read(placed(n), n, &abi);
        if (n < end)
            ck_assert_int_ne(r, 0);
        ck_assert_str_ne(note_strerror(r), "not a plugin");
    }
}
END_TEST

START_TEST(mutated_bytes_give_an_answer)
{
    uint64_t state = 0x9e3779b97f4a7c15u;

    for (int round = 0; round < 200000; round++) {
        uint8_t *bytes = placed(file_size < 2048 ? file_size : 2048 + (size_t)round % (file_size - 2048));
        size_t size = (size_t)(arena + arena_size - bytes);
        uint32_t abi;
        for (int i = 0; i < 1 + round % 8; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            /* headers, segments and notes are in the first kilobyte */
            size_t at = (size_t)(state >> 33) % 1024;
            bytes[at] = (uint8_t)(state >> 25 & 3 ? state >> 17 : state >> 9 & 1 ? 0xff : 0);
        }
        (void)note_read(bytes, size, &abi);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("host/note");
    TCase *t = tcase_create("note");

    tcase_add_checked_fixture(t, setup_echo, NULL);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, note_of_a_plugin_is_its_abi);
    tcase_add_test(t, note_of_another_abi_is_read_too);
    tcase_add_test(t, build_id_is_told_in_hexadecimal);
    tcase_add_test(t, build_id_of_other_lengths);
    tcase_add_test(t, build_id_of_anything_is_nothing);
    tcase_add_test(t, digest_tells_bytes_and_lengths_apart);
    tcase_add_test(t, shared_object_without_note_is_no_plugin);
    tcase_add_test(t, text_and_nothing_are_no_elf);
    tcase_add_test(t, object_for_another_machine_is_foreign);
    tcase_add_test(t, note_with_a_length_beyond_its_segment_is_damage);
    tcase_add_test(t, notes_that_contradict_each_other_are_refused);
    tcase_add_test(t, executable_stack_is_refused_and_so_is_none);
    tcase_add_test(t, file_cut_off_anywhere_is_refused);
    tcase_add_test(t, mutated_bytes_give_an_answer);
    suite_add_tcase(s, t);
    return run_suite(s);
}
