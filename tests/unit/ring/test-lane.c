/* SPDX-License-Identifier: Apache-2.0
 *
 * test-lane.c: the three ends of a direct lane, and what each makes of nonsense of another. */
#include "ring/lane.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"

static struct lane_front front;
static struct lane_back back;
static struct lane_client client;

static void setup(void)
{
    ck_assert_int_eq(lane_front_init(&front), 0);
    ck_assert_int_eq(lane_back_init(&back, front.memory_fd, front.grant_fd), 0);
    ck_assert_int_eq(lane_client_init(&client, front.memory_fd, front.grant_fd, false), 0);
    lane_front_handed(&front);
    lane_front_credit(&front, LANE_SLOTS);
    lane_front_allow(&front, 3, true);
}

static void teardown(void)
{
    lane_client_deinit(&client);
    lane_back_deinit(&back);
    lane_front_deinit(&front);
}

static uint32_t push(const char *input)
{
    const char args[] = "one\0two";
    struct lane_call call = {.bind = 3, .argc = 2, .args = args, .args_size = sizeof(args), .input = input,
                             .input_size = strlen(input), .room = 100, .timeout_usec = 7};
    bool spin;

    return lane_client_push(&client, &call, &spin);
}

static void answer(uint32_t slot, uint32_t generation, enum lane_outcome outcome, const char *output)
{
    lane_back_answer(&back, slot, generation,
                     &(struct lane_answer){.outcome = outcome, .exit = 5, .worker = 1, .run_usec = 2, .cpu_usec = 3,
                                           .output = output, .output_size = (uint32_t)strlen(output), .error = "why",
                                           .status = "so"});
}

START_TEST(a_call_goes_there_and_back)
{
    struct lane_request q;
    struct lane_result r;
    uint32_t generation, slot = push("input");
    bool more;

    ck_assert(lane_back_ready(&back));
    ck_assert_uint_eq(lane_back_take(&back, &generation, &more), slot);
    ck_assert(!more && !lane_back_ready(&back));
    ck_assert(lane_back_claim(&back, slot, generation));
    ck_assert(!lane_client_ended(&client, slot));
    ck_assert_int_eq(lane_back_read(&back, slot, &q), 0);
    ck_assert_uint_eq(q.bind, 3);
    ck_assert_uint_eq(q.argc, 2);
    ck_assert_uint_eq(q.timeout_usec, 7);
    ck_assert_uint_eq(q.room, 100);
    ck_assert_mem_eq(q.bytes, "one\0two", 8);
    ck_assert_mem_eq(q.bytes + q.input_at, "input", 5);
    answer(slot, generation, LANE_ENDED, "output");
    ck_assert(lane_client_wait(&client, slot, true, 0));
    lane_client_result(&client, slot, &r);
    ck_assert_int_eq(r.outcome, LANE_ENDED);
    ck_assert_int_eq(r.exit, 5);
    ck_assert_uint_eq(r.output_size, 6);
    ck_assert_mem_eq(r.output, "output", 6);
    ck_assert_str_eq(r.error, "why");
    ck_assert_str_eq(r.status, "so");
    lane_client_free_slot(&client, slot);
    ck_assert_uint_eq(client.n_free, LANE_SLOTS);
}
END_TEST

START_TEST(a_call_is_claimed_and_answered_once)
{
    uint32_t generation, slot = push("");
    struct lane_result r;
    bool more;

    lane_back_take(&back, &generation, &more);
    ck_assert(lane_back_claim(&back, slot, generation));
    ck_assert(!lane_back_claim(&back, slot, generation));
    answer(slot, generation, LANE_ENDED, "first");
    answer(slot, generation, LANE_ENDED, "second");
    ck_assert(!lane_front_judge(&front, slot, generation, LANE_RUNNING, LANE_CRASHED, "x"));
    lane_client_result(&client, slot, &r);
    ck_assert_int_eq(r.outcome, LANE_ENDED);
}
END_TEST

START_TEST(as_many_as_there_are_slots_and_credit)
{
    for (uint32_t i = 0; i < LANE_SLOTS; i++) {
        ck_assert(lane_client_fits(&client, 8, 1, 100));
        push("x");
    }
    ck_assert(!lane_client_fits(&client, 8, 1, 100));
    uint32_t generation, n = 0;
    bool more = true;
    for (; lane_back_take(&back, &generation, &more) != RING_NONE; n++)
        ck_assert(more == (n + 1 < LANE_SLOTS));
    ck_assert_uint_eq(n, LANE_SLOTS);
}
END_TEST

START_TEST(credit_and_sizes_have_their_limits)
{
    lane_front_credit(&front, 1);
    ck_assert(lane_client_fits(&client, 0, 0, LANE_OUTPUT));
    ck_assert(!lane_client_fits(&client, 0, 0, LANE_OUTPUT + 1));
    ck_assert(lane_client_fits(&client, LANE_ROOM - 16, 0, 0));
    ck_assert(lane_client_fits(&client, LANE_ROOM - 17, 1, 0));
    ck_assert(!lane_client_fits(&client, LANE_ROOM - 16, 1, 0));
    ck_assert(!lane_client_fits(&client, 0, SIZE_MAX, 0));
    push("x");
    ck_assert(!lane_client_fits(&client, 0, 0, 0));
    lane_front_credit(&front, 0);
    ck_assert(lane_client_dry(&client));
    ck_assert_uint_eq(lane_back_credit(&back), 0);
}
END_TEST

START_TEST(only_what_wsd_allows_may_be_called)
{
    ck_assert(lane_back_allowed(&back, 3) && lane_client_allowed(&client, 3));
    ck_assert(!lane_back_allowed(&back, 4));
    ck_assert(!lane_back_allowed(&back, LANE_BINDS));
    ck_assert(!lane_back_allowed(&back, UINT32_MAX));
    lane_front_allow(&front, 3, false);
    ck_assert(!lane_back_allowed(&back, 3));
}
END_TEST

START_TEST(the_grant_cannot_be_written_by_others)
{
    struct lane_front f;

    ck_assert_int_eq(lane_front_init(&f), 0);
    ck_assert(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f.grant_fd, 0) == MAP_FAILED);
    ck_assert_int_eq(ftruncate(f.memory_fd, 0), -1);
    lane_front_deinit(&f);
}
END_TEST

START_TEST(what_cannot_be_a_lane_is_not_mapped)
{
    _cleanup_(close_fdp) int fd = memfd_create("x", MFD_ALLOW_SEALING);
    struct lane_front f;
    struct lane_back b;

    ck_assert_int_eq(lane_front_init(&f), 0);
    ck_assert_int_eq(lane_back_init(&b, fd, f.grant_fd), -EBADMSG); /* not sealed */
    ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    ck_assert_int_eq(lane_back_init(&b, fd, f.grant_fd), -EBADMSG); /* another size */
    ck_assert_int_eq(lane_back_init(&b, f.memory_fd, fd), -EBADMSG);
    ck_assert(b.memory == NULL);
    lane_front_deinit(&f);
}
END_TEST

START_TEST(requests_that_lie_about_their_size_are_refused)
{
    static const struct {
        uint32_t args, input, room;
    } lies[] = {{LANE_ROOM + 1, 0, 0}, {UINT32_MAX, 0, 0}, {0, LANE_ROOM + 1, 0}, {0, UINT32_MAX, 0},
                {LANE_ROOM - 1, 1, 0}, {8, LANE_ROOM - 8, 0}, {8, 0, LANE_OUTPUT + 1}, {7, 0, 0}};
    struct lane_request q;
    uint32_t slot = push("");
    struct lane_slot *s = &client.memory->slots[slot];

    s->args_size = lies[_i].args;
    s->input_size = lies[_i].input;
    s->room = lies[_i].room;
    memset(s->bytes, 'x', sizeof(s->bytes));
    s->bytes[7] = 0;
    ck_assert_int_eq(lane_back_read(&back, slot, &q), -EBADMSG);
}
END_TEST

START_TEST(a_ring_that_lies_gives_nothing)
{
    uint32_t generation;
    bool more;

    atomic_store(&client.memory->tail, LANE_SLOTS + 1);
    ck_assert(!lane_back_ready(&back));
    ck_assert_uint_eq(lane_back_take(&back, &generation, &more), RING_NONE);
    for (uint32_t i = 0; i < LANE_SLOTS; i++)
        atomic_store(&client.memory->ring[i], ring_word(1, LANE_SLOTS + i));
    atomic_store(&client.memory->tail, LANE_SLOTS);
    ck_assert_uint_eq(lane_back_take(&back, &generation, &more), RING_NONE);
}
END_TEST

START_TEST(an_answer_that_lies_does_not_lead_outside)
{
    struct lane_result r;
    uint32_t slot = push("");
    struct lane_slot *s = &client.memory->slots[slot];

    s->output_size = UINT32_MAX;
    s->outcome = 1000;
    memset(s->error, 'x', sizeof(s->error));
    atomic_store(&s->state, ring_word(client.generation[slot], LANE_DONE));
    lane_client_result(&client, slot, &r);
    ck_assert_uint_le(r.output_size, LANE_OUTPUT);
    ck_assert_int_eq(r.outcome, LANE_INTERRUPTED);
    ck_assert_uint_eq(strlen(r.error), RING_TEXT - 1);
    atomic_store(&s->state, 12345);
    ck_assert(lane_client_ended(&client, slot));
    lane_client_result(&client, slot, &r);
    ck_assert_int_eq(r.outcome, LANE_INTERRUPTED);
}
END_TEST

START_TEST(a_death_gives_each_call_a_verdict)
{
    uint32_t queued = push("a"), running = push("b"), generation, slot, seen;
    struct lane_result r;
    bool more;

    slot = lane_back_take(&back, &generation, &more);
    ck_assert_uint_eq(slot, queued);
    slot = lane_back_take(&back, &generation, &more);
    ck_assert(lane_back_claim(&back, slot, generation));
    lane_front_lost(&front);
    ck_assert_int_eq(lane_front_look(&front, queued, &seen), LANE_QUEUED);
    ck_assert(lane_front_judge(&front, queued, seen, LANE_QUEUED, LANE_UNTOUCHED, NULL));
    ck_assert_int_eq(lane_front_look(&front, running, &seen), LANE_RUNNING);
    ck_assert(lane_front_judge(&front, running, seen, LANE_RUNNING, LANE_CRASHED, "it crashed"));
    answer(running, generation, LANE_ENDED, "too late");
    lane_client_result(&client, queued, &r);
    ck_assert_int_eq(r.outcome, LANE_UNTOUCHED);
    lane_client_result(&client, running, &r);
    ck_assert_int_eq(r.outcome, LANE_CRASHED);
    ck_assert_str_eq(r.error, "it crashed");
    ck_assert(lane_client_lost(&client) && !lane_client_fits(&client, 0, 0, 0));
}
END_TEST

START_TEST(what_is_pushed_into_a_dead_lane_comes_back_untouched)
{
    struct lane_result r;

    lane_front_lost(&front);
    uint32_t slot = push("x");
    ck_assert(lane_client_ended(&client, slot));
    lane_client_result(&client, slot, &r);
    ck_assert_int_eq(r.outcome, LANE_UNTOUCHED);
}
END_TEST

static void *take_and_answer(void *arg)
{
    struct event *bell = &back.memory->bell;

    for (uint32_t done = 0, generation; done < *(uint32_t *)arg;) {
        uint32_t epoch = event_prepare(bell);
        bool more;

        if (!lane_back_ready(&back)) {
            event_wait(bell, epoch, UINT64_MAX, true);
            continue;
        }
        event_cancel(bell);
        uint32_t slot = lane_back_take(&back, &generation, &more);
        if (slot == RING_NONE || !lane_back_claim(&back, slot, generation))
            continue;
        done++;
        answer(slot, generation, LANE_ENDED, "x");
    }
    return NULL;
}

START_TEST(nobody_sleeps_for_ever)
{
    uint32_t n = 20000;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, take_and_answer, &n), 0);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = push("");

        while (!lane_client_wait(&client, slot, false, 10000000))
            ;
        lane_client_free_slot(&client, slot);
    }
    pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lane");
    TCase *c = tcase_create("lane");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, a_call_goes_there_and_back);
    tcase_add_test(c, a_call_is_claimed_and_answered_once);
    tcase_add_test(c, as_many_as_there_are_slots_and_credit);
    tcase_add_test(c, credit_and_sizes_have_their_limits);
    tcase_add_test(c, only_what_wsd_allows_may_be_called);
    tcase_add_test(c, the_grant_cannot_be_written_by_others);
    tcase_add_test(c, what_cannot_be_a_lane_is_not_mapped);
    tcase_add_loop_test(c, requests_that_lie_about_their_size_are_refused, 0, 8);
    tcase_add_test(c, a_ring_that_lies_gives_nothing);
    tcase_add_test(c, an_answer_that_lies_does_not_lead_outside);
    tcase_add_test(c, a_death_gives_each_call_a_verdict);
    tcase_add_test(c, what_is_pushed_into_a_dead_lane_comes_back_untouched);
    tcase_add_test(c, nobody_sleeps_for_ever);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
