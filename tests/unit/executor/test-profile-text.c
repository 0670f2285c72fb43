/* SPDX-License-Identifier: Apache-2.0
 *
 * test-profile-text.c: samples as folded stacks. Samples, and the names of addresses, are the test's own. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "executor/profile-text.h"
#include "executor/profile.h"
#include "host/backtrace.h"
#include "host/run.h"
#include "pool/trace.h"
#include "tests/unit/suite.h"

#define ROOM 400u /* samples */

/* Addresses: letters are functions of a plugin, digits those of a library, these two are wsd's and of no file. */
#define ENGINE  '+'
#define NOWHERE '?'

static struct {
    uintptr_t words[SAMPLE_FRAMES + PROFILE_FRAMES];
    uint32_t worker;
} samples[ROOM];
static size_t n_samples;
static uint64_t n_lost;
static size_t n_named; /* names that were looked up */
static struct buffer said;

/* --- what profile-text.c calls ------------------------------------------------------------------------------------ */

int profile_read(int (*each)(const uintptr_t *sample, uint32_t worker, void *userdata), void *userdata,
                 uint64_t *ret_lost)
{
    int r = 0;

    for (size_t i = 0; i < n_samples && r == 0; i++)
        r = each(samples[i].words, samples[i].worker, userdata);
    *ret_lost = n_lost;
    return r;
}

enum backtrace_where backtrace_name(uintptr_t address, char *name, size_t size)
{
    n_named++;
    if (address == ENGINE || address == NOWHERE) {
        snprintf(name, size, address == ENGINE ? "[wsd-executor]" : "[no file]");
        return address == ENGINE ? BACKTRACE_OWN : BACKTRACE_NOWHERE;
    }
    if (address >= 0x1000) { /* all of these have one name */
        snprintf(name, size, "same");
        return BACKTRACE_PLUGIN;
    }
    if (address == 'L') {
        memset(name, 'l', size - 1);
        name[size - 1] = 0;
        return BACKTRACE_PLUGIN;
    }
    snprintf(name, size, "%c", (int)address);
    return address >= '0' && address <= '9' ? BACKTRACE_LIBRARY : BACKTRACE_PLUGIN;
}

void host_subject_name(const void *name, char *ret, size_t size, void *context)
{
    snprintf(ret, size, "%s", (const char *)name);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void teardown(void)
{
    buffer_deinit(&said);
    n_samples = n_named = 0;
    n_lost = 0;
}

/* A sample at this time: its frames are letters, the innermost first. */
static uintptr_t *sample(uint32_t worker, uintptr_t ticks, const char *subject, const char *frames)
{
    uintptr_t *at = samples[n_samples].words;

    ck_assert_uint_lt(n_samples, ROOM);
    samples[n_samples++].worker = worker;
    memset(at, 0, SAMPLE_FRAMES * sizeof(*at));
    at[SAMPLE_SIZE] = strlen(frames) | (uintptr_t)1 << 16;
    at[SAMPLE_SUBJECT] = (uintptr_t)subject;
    at[SAMPLE_TICKS] = ticks;
    at[SAMPLE_ORIGIN] = 1;
    at[SAMPLE_VICTIM] = TRACE_NOBODY;
    for (size_t i = 0; frames[i]; i++)
        at[SAMPLE_FRAMES + i] = (uintptr_t)(unsigned char)frames[i];
    return at;
}

/* .. of a task that was stolen then. */
static void stolen(uint32_t worker, uintptr_t ticks, const char *subject, const char *frames, uint32_t victim,
                   uintptr_t since)
{
    uintptr_t *at = sample(worker, ticks, subject, frames);

    at[SAMPLE_VICTIM] = victim;
    at[SAMPLE_VICTIM_ORIGIN] = 1;
    at[SAMPLE_SINCE] = since;
}

static int put(const char *text, size_t size, void *userdata)
{
    return buffer_put(&said, text, size);
}

static void becomes(const char *wanted)
{
    uint64_t lost = 99;

    buffer_deinit(&said);
    ck_assert_int_eq(profile_text(put, NULL, &lost), 0);
    ck_assert_uint_eq(lost, n_lost);
    ck_assert_int_eq(buffer_put(&said, "", 1), 0);
    ck_assert_str_eq((const char *)buffer_data(&said), wanted);
}

static const char job[] = "p:f", other[] = "p:g";

START_TEST(nothing_becomes_of_nothing)
{
    n_lost = 7;
    becomes("");
}
END_TEST

START_TEST(the_outermost_frame_comes_first)
{
    sample(0, 1, job, "cba+");
    becomes("p:f;a;b;c 1\n");
}
END_TEST

START_TEST(the_same_stacks_are_one_line)
{
    sample(0, 1, job, "ba+");
    sample(1, 2, job, "ba+");
    sample(0, 3, job, "a+");
    sample(0, 4, job, "ba+")[SAMPLE_SIZE] += (uintptr_t)9 << 16; /* its timer ran out ten times */
    becomes("p:f;a 1\np:f;a;b 12\n");
    ck_assert_uint_eq(n_named, 3); /* each address once */
}
END_TEST

START_TEST(addresses_of_one_function_are_one_frame)
{
    sample(0, 1, job, "a+")[SAMPLE_FRAMES] = 0x1000;
    sample(0, 2, job, "a+")[SAMPLE_FRAMES] = 0x1001;
    becomes("p:f;same 2\n");
}
END_TEST

START_TEST(subjects_are_apart)
{
    sample(0, 1, job, "a+");
    sample(0, 2, other, "a+");
    becomes((uintptr_t)job < (uintptr_t)other ? "p:f;a 1\np:g;a 1\n" : "p:g;a 1\np:f;a 1\n");
}
END_TEST

START_TEST(what_no_job_did_is_wsds)
{
    sample(0, 1, NULL, "+++");
    sample(0, 2, NULL, "a+");
    becomes("[wsd] 2\n");
}
END_TEST

START_TEST(frames_of_the_engine_are_one_between_functions)
{
    sample(0, 1, job, "b++a++");
    becomes("p:f;a;[wsd];b 1\n");
}
END_TEST

START_TEST(the_engine_alone_is_told)
{
    sample(0, 1, job, "++");
    sample(0, 2, job, "++a+");
    becomes("p:f;[wsd] 1\np:f;a;[wsd] 1\n");
}
END_TEST

START_TEST(what_begins_a_thread_is_left_out)
{
    sample(0, 1, job, "ba+12");
    becomes("p:f;a;b 1\n");
}
END_TEST

START_TEST(a_library_that_a_job_calls_is_told)
{
    sample(0, 1, job, "1a+2");
    sample(0, 2, job, "?a+2");
    becomes("p:f;a;1 1\np:f;a;[no file] 1\n");
}
END_TEST

START_TEST(a_stack_without_its_end_says_so)
{
    char deep[PROFILE_FRAMES + 1];

    sample(0, 1, job, "ba");
    memset(deep, 'a', sizeof(deep) - 1);
    deep[PROFILE_FRAMES] = 0;
    sample(0, 2, job, deep);
    buffer_deinit(&said);
    uint64_t lost;
    ck_assert_int_eq(profile_text(put, NULL, &lost), 0);
    ck_assert_int_eq(buffer_put(&said, "", 1), 0);
    const char *text = (const char *)buffer_data(&said), *second = strchr(text, '\n') + 1;
    ck_assert_str_eq(second + strlen(second) - 5, ";a 1\n");
    ck_assert_int_eq(strncmp(text, "p:f;[no unwind table];a;b 1\n", 28), 0);
    ck_assert_int_eq(strncmp(second, "p:f;[cut off];a;a", 17), 0);
    size_t n = 0;
    for (const char *c = second; *c; c++)
        n += *c == ';';
    ck_assert_uint_eq(n, PROFILE_FRAMES + 1);
}
END_TEST

START_TEST(a_long_name_is_cut)
{
    char wanted[300];

    sample(0, 1, job, "La+");
    memset(wanted, 'l', sizeof(wanted));
    buffer_deinit(&said);
    uint64_t lost;
    ck_assert_int_eq(profile_text(put, NULL, &lost), 0);
    ck_assert_int_eq(buffer_put(&said, "", 1), 0);
    const char *text = (const char *)buffer_data(&said), *name = strstr(text, ";l") + 1;
    size_t n = strspn(name, "l");
    ck_assert_uint_eq(n, 254); /* and a ; before it, in 256 bytes with NUL */
    ck_assert_str_eq(name + n, " 1\n");
}
END_TEST

START_TEST(a_name_is_one_line_without_separators)
{
    sample(0, 1, "a\nb;c\x1b[1m\xff 1", "a+");
    becomes("a?b?c?[1m? 1;a 1\n");
}
END_TEST

/* --- stolen tasks ------------------------------------------------------------------------------------------------- */

START_TEST(a_stolen_task_stands_below_its_spawner)
{
    sample(0, 10, job, "xsa+");
    sample(0, 20, job, "ysa+");
    stolen(1, 20, job, "t+", 0, 10);
    becomes("p:f;a;s;x 1\np:f;a;s;y 1\np:f;a;s;[stolen];t 1\n");
}
END_TEST

START_TEST(what_the_spawner_may_have_called_since_is_left_out)
{
    sample(0, 10, job, "xsa+"); /* x may be a sibling of the task */
    stolen(1, 10, job, "t+", 0, 10);
    becomes("p:f;a;s;x 1\np:f;a;s;[stolen];t 1\n");
}
END_TEST

START_TEST(only_samples_of_that_time_are_witnesses)
{
    sample(0, 9, job, "zqa+");
    sample(0, 10, job, "xsa+");
    sample(0, 15, job, "ysa+");
    sample(0, 21, job, "zra+");
    stolen(1, 20, job, "t+", 0, 10);
    becomes("p:f;a;q;z 1\np:f;a;r;z 1\np:f;a;s;x 1\np:f;a;s;y 1\np:f;a;s;[stolen];t 1\n");
}
END_TEST

START_TEST(nor_are_those_of_another_job)
{
    sample(0, 10, other, "xo+");
    sample(0, 15, job, "ysa+");
    sample(0, 16, job, "zsa+");
    stolen(1, 20, job, "t+", 0, 10);
    uint64_t lost;
    ck_assert_int_eq(profile_text(put, NULL, &lost), 0);
    ck_assert_int_eq(buffer_put(&said, "", 1), 0);
    ck_assert_ptr_nonnull(strstr((const char *)buffer_data(&said), "p:f;a;s;[stolen];t 1\n"));
}
END_TEST

START_TEST(the_nearest_of_the_same_origin_takes_the_place_of_none)
{
    sample(0, 5, job, "xsa+");
    stolen(1, 20, job, "t+", 0, 10);
    becomes("p:f;a;s;x 1\np:f;a;s;[stolen];t 1\n");
    samples[0].words[SAMPLE_TICKS] = 25; /* afterwards */
    becomes("p:f;a;s;x 1\np:f;a;s;[stolen];t 1\n");
    samples[0].words[SAMPLE_ORIGIN] = 2; /* something else */
    becomes("p:f;[stolen];t 1\np:f;a;s;x 1\n");
}
END_TEST

START_TEST(a_task_of_a_stolen_task_stands_below_both)
{
    sample(0, 10, job, "xa+");
    sample(0, 20, job, "ya+");
    stolen(1, 12, job, "us+", 0, 10);
    stolen(1, 18, job, "vs+", 0, 10);
    stolen(2, 18, job, "t+", 1, 12);
    uint64_t lost;
    ck_assert_int_eq(profile_text(put, NULL, &lost), 0);
    ck_assert_int_eq(buffer_put(&said, "", 1), 0);
    ck_assert_ptr_nonnull(strstr((const char *)buffer_data(&said), ";[stolen];s;[stolen];t 1\n"));
}
END_TEST

START_TEST(thieves_of_each_other_come_to_an_end)
{
    for (uintptr_t i = 0; i < 100; i++) {
        stolen(0, i, job, "a+", 1, 0);
        stolen(1, i, job, "b+", 0, 0);
    }
    uint64_t lost;
    ck_assert_int_eq(profile_text(put, NULL, &lost), 0);
    ck_assert_uint_gt(buffer_size(&said), 0);
    size_t n = 0, most = 0;
    for (size_t i = 0; i < buffer_size(&said); i++) {
        uint8_t c = buffer_data(&said)[i];

        n = c == '\n' ? 0 : n + (c == ';');
        most = MAX(most, n);
    }
    ck_assert_uint_le(most, 384);
}
END_TEST

static int refuse(const char *text, size_t size, void *userdata)
{
    ++*(int *)userdata;
    return -ENOSPC;
}

START_TEST(what_put_returns_ends_it)
{
    int n = 0;
    uint64_t lost;

    sample(0, 1, job, "a+");
    sample(0, 2, job, "b+");
    ck_assert_int_eq(profile_text(refuse, &n, &lost), -ENOSPC);
    ck_assert_int_eq(n, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("profile-text");
    TCase *tcase = tcase_create("all");

    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, nothing_becomes_of_nothing);
    tcase_add_test(tcase, the_outermost_frame_comes_first);
    tcase_add_test(tcase, the_same_stacks_are_one_line);
    tcase_add_test(tcase, addresses_of_one_function_are_one_frame);
    tcase_add_test(tcase, subjects_are_apart);
    tcase_add_test(tcase, what_no_job_did_is_wsds);
    tcase_add_test(tcase, frames_of_the_engine_are_one_between_functions);
    tcase_add_test(tcase, the_engine_alone_is_told);
    tcase_add_test(tcase, what_begins_a_thread_is_left_out);
    tcase_add_test(tcase, a_library_that_a_job_calls_is_told);
    tcase_add_test(tcase, a_stack_without_its_end_says_so);
    tcase_add_test(tcase, a_long_name_is_cut);
    tcase_add_test(tcase, a_name_is_one_line_without_separators);
    tcase_add_test(tcase, a_stolen_task_stands_below_its_spawner);
    tcase_add_test(tcase, what_the_spawner_may_have_called_since_is_left_out);
    tcase_add_test(tcase, only_samples_of_that_time_are_witnesses);
    tcase_add_test(tcase, nor_are_those_of_another_job);
    tcase_add_test(tcase, the_nearest_of_the_same_origin_takes_the_place_of_none);
    tcase_add_test(tcase, a_task_of_a_stolen_task_stands_below_both);
    tcase_add_test(tcase, thieves_of_each_other_come_to_an_end);
    tcase_add_test(tcase, what_put_returns_ends_it);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
