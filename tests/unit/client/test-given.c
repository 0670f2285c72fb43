/* SPDX-License-Identifier: Apache-2.0
 *
 * test-given.c: structures of programs that were built with another version of the header. Each call refuses unknown
 * members that are set, and a size that was forgotten. */
#include "client/given.h"
#include "peer.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <stdio.h>

#define SECOND 1000000u

static struct peer peer;
static struct wsd_client *client, *opened;

static void setup(void)
{
    opened = NULL;
    peer_start(&peer, &client, 100000, ~(uint64_t)FEATURE_LANE);
    ck_assert_int_eq(wsd_client_set_deadline(client, 1), 0); /* what is sent has no answer */
}

static void teardown(void)
{
    wsd_client_free(opened);
    wsd_client_free(client);
    peer_deinit(&peer);
}

/* --- by itself ---------------------------------------------------------------------------------------------------- */

struct known {
    size_t size;
    uint32_t a, b;
};

START_TEST(what_is_known_is_taken_and_the_rest_is_zero)
{
    struct failure f = {.exit = 0};
    struct {
        struct known known;
        uint8_t more[GIVEN_MAX];
    } given = {.known = {.a = 1, .b = 2}};
    struct known room;
    int error = 0;
    const struct known *k;

    for (size_t size = sizeof(size_t); size <= GIVEN_MAX; size += sizeof(k->a)) {
        given.known.size = size;
        k = GIVEN(&f, known, &given, &room, &error);
        ck_assert_ptr_nonnull(k);
        ck_assert_uint_eq(k->a, size >= 12 ? 1 : 0);
        ck_assert_uint_eq(k->b, size >= 16 ? 2 : 0);
    }
    given.known.size = GIVEN_MAX + 1;
    ck_assert_ptr_null(GIVEN(&f, known, &given, &room, &error));
    ck_assert_int_eq(error, -E2BIG);
    for (size_t size = 0; size < sizeof(size_t); size++) {
        given.known.size = size;
        ck_assert_ptr_null(GIVEN(&f, known, &given, &room, &error));
        ck_assert_int_eq(error, -EINVAL);
        ck_assert_str_eq(f.text, "the size of struct known is not set");
    }
}
END_TEST

START_TEST(each_unknown_byte_counts_that_is_not_zero)
{
    struct failure f = {.exit = 0};
    struct {
        struct known known;
        uint8_t more[32];
    } given = {.known = {.size = sizeof(given)}};
    struct known room;
    int error;

    for (size_t i = 0; i < sizeof(given.more); i++) {
        given.more[i] = 1;
        ck_assert_ptr_null(GIVEN(&f, known, &given, &room, &error));
        ck_assert_int_eq(error, -E2BIG);
        given.known.size = sizeof(given.known) + i; /* it is behind the end */
        ck_assert_ptr_nonnull(GIVEN(&f, known, &given, &room, &error));
        given.known.size = sizeof(given);
        given.more[i] = 0;
    }
    ck_assert_ptr_nonnull(strstr(f.text, "struct known has 48 bytes"));
}
END_TEST

START_TEST(of_many_each_is_looked_at)
{
    struct failure f = {.exit = 0};
    struct {
        struct known known;
        uint64_t more;
    } given[3] = {{.known = {.size = sizeof(*given)}}};

    ck_assert_int_eq(given_all(&f, "known", given, 3, sizeof(struct known)), 0);
    given[2].more = 1;
    ck_assert_int_eq(given_all(&f, "known", given, 2, sizeof(struct known)), 0);
    ck_assert_int_eq(given_all(&f, "known", given, 3, sizeof(struct known)), -E2BIG);
    given[0].known.size = 4;
    ck_assert_int_eq(given_all(&f, "known", given, 3, sizeof(struct known)), -EINVAL);
    given[0].known.size = 12; /* an older one: nothing of it is unknown, and the others lie elsewhere */
    ck_assert_int_eq(given_all(&f, "known", given, 3, sizeof(struct known)), 0);
}
END_TEST

/* --- in each call ------------------------------------------------------------------------------------------------- */

/* A structure with a field more, which is the caller's to set. */
#define NEWER(type)                                                                                                    \
    struct {                                                                                                           \
        struct type s;                                                                                                 \
        uint64_t more;                                                                                                 \
    }

static NEWER(wsd_submit) job;
static NEWER(wsd_callbacks) callbacks;
static NEWER(wsd_item) items[2];
static NEWER(wsd_call_request) requests[2];
static NEWER(wsd_filter) filter;
static NEWER(wsd_schedule) schedule;
static NEWER(wsd_open) how;
static NEWER(wsd_tls) tls;

static void fill(void)
{
    static char path[sizeof(peer.path)];

    memcpy(path, peer.path, sizeof(path));
    memset(&job, 0, sizeof(job));
    memset(&callbacks, 0, sizeof(callbacks));
    memset(items, 0, sizeof(items));
    memset(requests, 0, sizeof(requests));
    memset(&filter, 0, sizeof(filter));
    memset(&schedule, 0, sizeof(schedule));
    memset(&how, 0, sizeof(how));
    memset(&tls, 0, sizeof(tls));
    job.s.size = sizeof(job);
    job.s.plugin = "p";
    callbacks.s.size = sizeof(callbacks);
    filter.s.size = sizeof(filter);
    filter.s.states = 2;
    schedule.s.size = sizeof(schedule);
    schedule.s.name = "n";
    schedule.s.calendar = "daily";
    schedule.s.job = &job.s;
    how.s.size = sizeof(how);
    how.s.socket = path;
    how.s.timeout_usec = 1;
    tls.s.size = sizeof(tls);
    tls.s.host = "nowhere";
    for (int i = 0; i < 2; i++) {
        items[i].s.size = sizeof(items[i]);
        requests[i].s.size = sizeof(requests[i]);
        requests[i].s.plugin = "p";
    }
}

static int on_job(const struct wsd_job_info *info, void *userdata)
{
    return 0;
}

static int submit(void)
{
    return wsd_client_submit(client, &job.s, NULL, NULL);
}

static int submit_with_callbacks(void)
{
    return wsd_client_submit(client, &job.s, &callbacks.s, NULL);
}

static int attach(void)
{
    return wsd_client_attach(client, &(struct wsd_id){{1}}, &callbacks.s, NULL);
}

static int batch_open(void)
{
    struct wsd_batch *batch = NULL;
    int r = wsd_batch_open(client, &job.s, 0, &batch);

    wsd_batch_free(batch);
    return r;
}

static int batch_submit(void)
{
    struct wsd_batch *batch;

    ck_assert_int_eq(wsd_batch_open(client, &job.s, 0, &batch), 0);
    int r = wsd_batch_submit(batch, &items[0].s, NULL, NULL);
    wsd_batch_free(batch);
    return r;
}

static int map(void)
{
    return wsd_map(client, &job.s, 0, &items[0].s, 2, NULL, NULL);
}

static int call(void)
{
    struct wsd_call_result result = {.size = sizeof(result)};

    return wsd_call(client, &requests[0].s, &result);
}

static int calls(void)
{
    struct wsd_call_result results[2] = {{.size = sizeof(*results)}};

    return wsd_calls(client, &requests[0].s, results, 2);
}

static int list_where(void)
{
    return wsd_client_list_where(client, &filter.s, on_job, NULL);
}

static int ask_list(void)
{
    return wsd_client_ask_list(client, &filter.s, on_job, NULL, NULL);
}

static int schedule_add(void)
{
    return wsd_client_schedule_add(client, &schedule.s);
}

static int open_as_told(void)
{
    return wsd_client_open_with(&opened, &how.s);
}

static int open_tls(void)
{
    return wsd_client_open_tls(&opened, &tls.s, 1);
}

static const struct {
    int (*run)(void);
    void *newer;
    uint64_t *more;
    const char *name;
} uses[] = {
    {submit, &job, &job.more, "wsd_submit"},
    {submit_with_callbacks, &callbacks, &callbacks.more, "wsd_callbacks"},
    {attach, &callbacks, &callbacks.more, "wsd_callbacks"},
    {batch_open, &job, &job.more, "wsd_submit"},
    {batch_submit, &items[0], &items[0].more, "wsd_item"},
    {map, &job, &job.more, "wsd_submit"},
    {map, &items[0], &items[1].more, "wsd_item"},
    {call, &requests[0], &requests[0].more, "wsd_call_request"},
    {calls, &requests[0], &requests[1].more, "wsd_call_request"},
    {list_where, &filter, &filter.more, "wsd_filter"},
    {ask_list, &filter, &filter.more, "wsd_filter"},
    {schedule_add, &schedule, &schedule.more, "wsd_schedule"},
    {schedule_add, &job, &job.more, "wsd_submit"},
    {open_as_told, &how, &how.more, "wsd_open"},
    {open_tls, &tls, &tls.more, "wsd_tls"},
};

START_TEST(no_call_ignores_what_it_does_not_know)
{
    const struct wsd_client **used =
        (const struct wsd_client **)(uses[_i].more == &how.more || uses[_i].more == &tls.more ? &opened : &client);
    char words[64];

    fill();
    int r = uses[_i].run(); /* a newer program that sets nothing new */
    ck_assert(r != -E2BIG && (r == 0 || r == -ETIMEDOUT || r == -EINVAL));
    opened = wsd_client_free(opened);
    *uses[_i].more = 1;
    ck_assert_int_eq(uses[_i].run(), -E2BIG);
    ck_assert_int_eq(wsd_client_exit(*used), 64);
    snprintf(words, sizeof(words), "struct %s has ", uses[_i].name);
    ck_assert_ptr_nonnull(strstr(wsd_client_error(*used), words));
    opened = wsd_client_free(opened);
    memset(uses[_i].newer, 0, sizeof(size_t));
    ck_assert_int_eq(uses[_i].run(), -EINVAL);
    snprintf(words, sizeof(words), "the size of struct %s is not set", uses[_i].name);
    ck_assert_str_eq(wsd_client_error(*used), words);
}
END_TEST

START_TEST(a_traceparent_of_a_schedule_is_one)
{
    fill();
    job.s.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g";
    ck_assert_int_eq(schedule_add(), -EINVAL);
    ck_assert_int_eq(wsd_client_exit(client), 64);
    ck_assert_int_eq(strncmp(wsd_client_error(client), "not a traceparent: ", 19), 0);
}
END_TEST

/* A result of an older program has no place for it. */
START_TEST(what_grows_goes_where_there_is_a_place_for_it)
{
    char room[8];
    struct wsd_call_request q = {.size = sizeof(q), .plugin = "p", .flags = WSD_CALL_GROW, .deadline_usec = 1000};
    struct wsd_call_result r = {.size = sizeof(r), .output = room};

    ck_assert_int_eq(wsd_call(client, &q, &r), -ETIMEDOUT);
    ck_assert_ptr_null(r.output);
    r = (struct wsd_call_result){.size = offsetof(struct wsd_call_result, output)};
    ck_assert_int_eq(wsd_call(client, &q, &r), -EINVAL);
    ck_assert_ptr_nonnull(strstr(wsd_client_error(client), "the size of struct wsd_call_result"));
    r.size = sizeof(r);
    q.output = room;
    ck_assert_int_eq(wsd_call(client, &q, &r), -EINVAL);
    q.output = NULL;
    q.output_room = sizeof(room);
    ck_assert_int_eq(wsd_call(client, &q, &r), -EINVAL);
    q.output_room = 0;
    q.flags |= 8;
    ck_assert_int_eq(wsd_call(client, &q, &r), -EINVAL);
    ck_assert_str_eq(wsd_client_error(client), "unknown flags");
    q.plugin = NULL;
    ck_assert_int_eq(wsd_call(client, &q, &r), -EINVAL);
    ck_assert_str_eq(wsd_client_error(client), "no plugin is named");
}
END_TEST

/* --- the version -------------------------------------------------------------------------------------------------- */

START_TEST(the_header_says_which_version_it_is)
{
    char version[32];

    snprintf(version, sizeof(version), "%d.%d.%d", WSD_CLIENT_VERSION / 10000, WSD_CLIENT_VERSION / 100 % 100,
             WSD_CLIENT_VERSION % 100);
    ck_assert_str_eq(version, wsd_client_library_version());
}
END_TEST

START_TEST(an_initialiser_sets_the_size_and_zeros)
{
    struct wsd_submit s = WSD_INIT(struct wsd_submit);
    const struct wsd_submit zero = {.size = sizeof(zero)};

    ck_assert_mem_eq(&s, &zero, sizeof(s));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("given");
    TCase *alone = tcase_create("alone"), *live = tcase_create("live");

    tcase_add_checked_fixture(live, setup, teardown);
    suite_add_tcase(suite, alone);
    suite_add_tcase(suite, live);
    tcase_add_test(alone, what_is_known_is_taken_and_the_rest_is_zero);
    tcase_add_test(alone, each_unknown_byte_counts_that_is_not_zero);
    tcase_add_test(alone, of_many_each_is_looked_at);
    tcase_add_loop_test(live, no_call_ignores_what_it_does_not_know, 0, ARRAY_SIZE(uses));
    tcase_add_test(live, a_traceparent_of_a_schedule_is_one);
    tcase_add_test(live, what_grows_goes_where_there_is_a_place_for_it);
    tcase_add_test(alone, the_header_says_which_version_it_is);
    tcase_add_test(alone, an_initialiser_sets_the_size_and_zeros);
    return run_suite(suite);
}
