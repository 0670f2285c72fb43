/* SPDX-License-Identifier: Apache-2.0
 *
 * test-tar.c: headers of tar archives, at the limits of ustar. That they are those of GNU tar is seen by
 * integration/plugins/archive.sh. */
#include "plugins/tar.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static struct buffer out;

static void start(void)
{
    out = (struct buffer){.data = NULL};
}

static void end(void)
{
    buffer_deinit(&out);
}

static struct tar_member plain(void)
{
    return (struct tar_member){.name = "a", .mode = S_IFREG | 0644, .mtime = {.tv_sec = 8}, .user = "u", .group = "g"};
}

static void put(const struct tar_member *member)
{
    out.size = 0;
    ck_assert_int_eq(tar_put_header(&out, member), 0);
    ck_assert_uint_eq(out.size % TAR_BLOCK, 0);
}

/* The records of the extended header; NULL: there is none. */
static const char *records(void)
{
    static char text[3 * 4096];
    size_t size;

    if (out.data[156] != 'x')
        return NULL;
    size = strtoul(out.data + 124, NULL, 8);
    ck_assert_uint_lt(size, sizeof(text));
    ck_assert_uint_eq(out.size, 2 * TAR_BLOCK + size + tar_padding(size));
    memcpy(text, out.data + TAR_BLOCK, size);
    text[size] = '\0';
    return text;
}

/* A field of the header proper, which is the last block. */
static const char *field(size_t at)
{
    return out.data + out.size - TAR_BLOCK + at;
}

static char *repeated(char c, size_t n)
{
    static char text[8192];

    memset(text, c, n);
    text[n] = '\0';
    return text;
}

START_TEST(a_plain_file_is_one_block)
{
    struct tar_member m = plain();

    put(&m);
    ck_assert_uint_eq(out.size, TAR_BLOCK);
    ck_assert_str_eq(field(0), "a");
    ck_assert_str_eq(field(100), "0000644");
    ck_assert_str_eq(field(136), "00000000010");
    ck_assert_int_eq(*field(156), '0');
    ck_assert_mem_eq(field(257), "ustar\00000", 8);
    ck_assert_str_eq(field(265), "u");
    ck_assert_str_eq(field(297), "g");
}
END_TEST

START_TEST(the_checksum_counts_itself_as_blanks)
{
    struct tar_member m = plain();
    unsigned sum = 8 * ' ';

    put(&m);
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += i < 148 || i >= 156 ? (unsigned char)out.data[i] : 0;
    ck_assert_uint_eq(strtoul(field(148), NULL, 8), sum);
    ck_assert_int_eq(*field(154), '\0');
    ck_assert_int_eq(*field(155), ' ');
}
END_TEST

START_TEST(a_name_of_100_bytes_fits)
{
    struct tar_member m = plain();

    m.name = repeated('n', TAR_NAME_MAX - 1);
    put(&m);
    ck_assert_ptr_null(records());
    m.name = repeated('n', TAR_NAME_MAX);
    put(&m);
    ck_assert_ptr_null(records());
    ck_assert_mem_eq(field(0), m.name, TAR_NAME_MAX);
    m.name = repeated('n', TAR_NAME_MAX + 1);
    put(&m);
    ck_assert_mem_eq(records(), "111 path=nnn", 12);
}
END_TEST

START_TEST(a_name_that_is_not_ascii_has_a_record)
{
    struct tar_member m = plain();

    m.name = "\xe9";
    put(&m);
    ck_assert_str_eq(records(), "9 path=\xe9\n");
}
END_TEST

START_TEST(a_link_of_100_bytes_fits)
{
    struct tar_member m = plain();

    m.mode = S_IFLNK | 0777;
    m.link = repeated('l', TAR_NAME_MAX);
    put(&m);
    ck_assert_ptr_null(records());
    ck_assert_int_eq(*field(156), '2');
    m.link = repeated('l', TAR_NAME_MAX + 1);
    put(&m);
    ck_assert_mem_eq(records(), "115 linkpath=lll", 16);
}
END_TEST

START_TEST(a_record_counts_its_own_digits)
{
    struct tar_member m = plain();

    /* "999 path=...\n" and "1001 path=...\n": no record has 1000 bytes */
    m.name = repeated('n', 989);
    put(&m);
    ck_assert_mem_eq(records(), "999 path=n", 10);
    ck_assert_uint_eq(strlen(records()), 999);
    m.name = repeated('n', 990);
    put(&m);
    ck_assert_mem_eq(records(), "1001 path=n", 11);
    ck_assert_uint_eq(strlen(records()), 1001);
}
END_TEST

START_TEST(a_size_of_11_octal_digits_fits)
{
    struct tar_member m = plain();

    m.size = TAR_SIZE_MAX;
    put(&m);
    ck_assert_ptr_null(records());
    ck_assert_str_eq(field(124), "77777777777");
    m.size = (uint64_t)TAR_SIZE_MAX + 1;
    put(&m);
    ck_assert_str_eq(records(), "19 size=8589934592\n");
    ck_assert_str_eq(field(124), "00000000000");
}
END_TEST

START_TEST(owners_of_7_octal_digits_fit)
{
    struct tar_member m = plain();

    m.uid = m.gid = TAR_OWNER_MAX;
    put(&m);
    ck_assert_ptr_null(records());
    ck_assert_str_eq(field(108), "7777777");
    m.uid = m.gid = TAR_OWNER_MAX + 1;
    put(&m);
    ck_assert_str_eq(records(), "15 uid=2097152\n15 gid=2097152\n");
    ck_assert_str_eq(field(116), "0000000");
}
END_TEST

START_TEST(names_of_owners_of_32_bytes_fit)
{
    struct tar_member m = plain();

    m.user = repeated('u', TAR_PEOPLE_MAX);
    put(&m);
    ck_assert_ptr_null(records());
    m.user = repeated('u', TAR_PEOPLE_MAX + 1);
    put(&m);
    ck_assert_mem_eq(records(), "43 uname=uuu", 12);
    m.user = "";
    m.group = "\xc3\xa4";
    put(&m);
    ck_assert_str_eq(records(), "12 gname=\xc3\xa4\n");
}
END_TEST

START_TEST(times_have_as_many_decimals_as_they_need)
{
    static const struct {
        struct timespec t;
        const char *record;
    } times[] = {
        {{.tv_sec = 8589934591}, NULL},
        {{.tv_sec = 8589934592}, "20 mtime=8589934592\n"},
        {{.tv_sec = 0, .tv_nsec = 1}, "21 mtime=0.000000001\n"},
        {{.tv_sec = 1, .tv_nsec = 500000000}, "13 mtime=1.5\n"},
        {{.tv_sec = -1}, "12 mtime=-1\n"},
        {{.tv_sec = -1, .tv_nsec = 250000000}, "15 mtime=-0.75\n"},
        {{.tv_sec = -2, .tv_nsec = 500000000}, "14 mtime=-1.5\n"},
    };

    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
        struct tar_member m = plain();

        m.mtime = times[i].t;
        put(&m);
        if (times[i].record)
            ck_assert_str_eq(records(), times[i].record);
        else
            ck_assert_ptr_null(records());
    }
}
END_TEST

START_TEST(each_kind_has_its_letter)
{
    static const struct {
        mode_t mode;
        char type;
    } kinds[] = {{S_IFDIR, '5'}, {S_IFCHR, '3'}, {S_IFBLK, '4'}, {S_IFIFO, '6'}, {S_IFREG, '0'}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct tar_member m = plain();

        m.mode = kinds[i].mode | 0600;
        m.device = makedev(7, 8);
        put(&m);
        ck_assert_int_eq(*field(156), kinds[i].type);
        ck_assert_str_eq(field(329), i == 1 || i == 2 ? "0000007" : "0000000");
        ck_assert_str_eq(field(337), i == 1 || i == 2 ? "0000010" : "0000000");
        m.hard = true;
        put(&m);
        ck_assert_int_eq(*field(156), '1');
    }
}
END_TEST

START_TEST(data_is_filled_up_to_a_block)
{
    ck_assert_uint_eq(tar_padding(0), 0);
    ck_assert_uint_eq(tar_padding(1), 511);
    ck_assert_uint_eq(tar_padding(511), 1);
    ck_assert_uint_eq(tar_padding(512), 0);
    ck_assert_uint_eq(tar_padding(513), 511);
    ck_assert_uint_eq(tar_padding(UINT64_C(1) << 40), 0);
    ck_assert_int_eq(tar_put_data(&out, "abc", 3), 0);
    ck_assert_uint_eq(out.size, TAR_BLOCK);
    ck_assert_mem_eq(out.data, "abc\0\0", 5);
}
END_TEST

START_TEST(names_stay_below_where_they_are_extracted)
{
    static const struct {
        const char *path;
        size_t begin;
    } paths[] = {{"a/b", 0}, {"./a", 0},     {"/a", 1},     {"//a", 2},   {"../a", 3},
                 {"..", 2},  {"a/../b", 5},  {"a/..", 4},   {"/../a", 4}, {"..a/b", 0},
                 {"a..", 0}, {"a/..b/c", 0}, {"a..//b", 0}, {"", 0},      {"a/../../..//b/c", 12}};

    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
        ck_assert_msg(tar_name_begin(paths[i].path) == paths[i].begin, "%s", paths[i].path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tar");
    TCase *tests = tcase_create("headers");

    tcase_add_checked_fixture(tests, start, end);
    tcase_add_test(tests, a_plain_file_is_one_block);
    tcase_add_test(tests, the_checksum_counts_itself_as_blanks);
    tcase_add_test(tests, a_name_of_100_bytes_fits);
    tcase_add_test(tests, a_name_that_is_not_ascii_has_a_record);
    tcase_add_test(tests, a_link_of_100_bytes_fits);
    tcase_add_test(tests, a_record_counts_its_own_digits);
    tcase_add_test(tests, a_size_of_11_octal_digits_fits);
    tcase_add_test(tests, owners_of_7_octal_digits_fit);
    tcase_add_test(tests, names_of_owners_of_32_bytes_fit);
    tcase_add_test(tests, times_have_as_many_decimals_as_they_need);
    tcase_add_test(tests, each_kind_has_its_letter);
    tcase_add_test(tests, data_is_filled_up_to_a_block);
    tcase_add_test(tests, names_stay_below_where_they_are_extracted);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
