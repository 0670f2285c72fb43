/* SPDX-License-Identifier: Apache-2.0
 *
 * test-lane-ring.c: the three ends of a direct lane, and what each makes of nonsense of another. */
#include "ring/lane-ring.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/relax.h"

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

static bool slot_ended(void *arg)
{
    return lane_client_ended(&client, *(const uint32_t *)arg);
}

static bool slot_sleep(uint32_t slot)
{
    return lane_client_sleep(&client, slot_ended, &slot, 10000000);
}

static bool add(uint32_t slot, const char *input, size_t room)
{
    const char *const args[] = {"one", "two"};

    return lane_client_add(
        &client, slot,
        &(struct lane_call){.args = args, .n_args = 2, .input = input, .input_size = strlen(input), .room = room});
}

static uint32_t push(const char *input)
{
    uint32_t slot = lane_client_begin(&client);

    ck_assert(add(slot, input, 100));
    lane_client_push(&client, slot, 3, 7);
    lane_client_ring(&client, 1, false);
    return slot;
}

/* Pushes a call for each character of inputs, with that as its input and room for 8 bytes of output. */
static uint32_t push_many(const char *inputs)
{
    uint32_t slot = lane_client_begin(&client);

    for (; *inputs; inputs++)
        ck_assert(add(slot, (const char[]){*inputs, 0}, 8));
    lane_client_push(&client, slot, 3, 7);
    lane_client_ring(&client, 1, false);
    return slot;
}

static uint32_t take(struct lane_request *q, uint32_t *ret_generation)
{
    uint32_t slot = lane_back_take(&back, ret_generation);

    ck_assert(lane_back_claim(&back, slot, *ret_generation));
    ck_assert_int_eq(lane_back_read(&back, slot, q), 0);
    return slot;
}

/* Its output is what is given, and it ran as many usec. */
static bool turn(uint32_t slot, struct lane_request *q, const char *output)
{
    uint32_t size = (uint32_t)strlen(output);

    return lane_back_turn(&back, slot, q, &(struct lane_end){.run_usec = size, .cpu_usec = 1, .output_size = size},
                          output);
}

static bool answer(uint32_t slot, uint32_t generation, enum lane_outcome outcome, const char *output)
{
    return lane_back_answer(&back, slot, generation, 0,
                            &(struct lane_answer){.outcome = outcome,
                                                  .exit = 5,
                                                  .worker = 1,
                                                  .run_usec = 2,
                                                  .cpu_usec = 3,
                                                  .output = output,
                                                  .output_size = (uint32_t)strlen(output),
                                                  .error = "why",
                                                  .status = "so"});
}

START_TEST(a_call_goes_there_and_back)
{
    struct lane_request q;
    struct lane_result r;
    uint32_t generation, slot = push("input");

    ck_assert(lane_back_ready(&back));
    ck_assert_uint_eq(lane_back_take(&back, &generation), slot);
    ck_assert(!lane_back_ready(&back));
    ck_assert(lane_back_claim(&back, slot, generation));
    ck_assert(!lane_client_ended(&client, slot));
    ck_assert_int_eq(lane_back_read(&back, slot, &q), 0);
    ck_assert_uint_eq(q.bind, 3);
    ck_assert_uint_eq(q.call.argc, 2);
    ck_assert_uint_eq(q.timeout_usec, 7);
    ck_assert_uint_eq(q.call.room, 100);
    ck_assert_mem_eq(q.bytes + q.call.args_at, "one\0two", 8);
    ck_assert_mem_eq(q.bytes + q.call.input_at, "input", 5);
    answer(slot, generation, LANE_ENDED, "output");
    ck_assert(slot_sleep(slot));
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

    lane_back_take(&back, &generation);
    ck_assert(lane_back_claim(&back, slot, generation));
    ck_assert(!lane_back_claim(&back, slot, generation));
    answer(slot, generation, LANE_ENDED, "first");
    answer(slot, generation, LANE_ENDED, "second");
    ck_assert(!lane_front_judge(&front, slot, generation, LANE_RUNNING, LANE_CRASHED, "x"));
    lane_client_result(&client, slot, &r);
    ck_assert_int_eq(r.outcome, LANE_ENDED);
}
END_TEST

START_TEST(an_answer_says_whether_its_client_slept)
{
    struct eventcount *done = &client.memory->done;
    uint32_t generation, slot = push("x");

    ck_assert_uint_eq(lane_back_take(&back, &generation), slot);
    ck_assert(lane_back_claim(&back, slot, generation));
    eventcount_prepare(done);
    ck_assert(answer(slot, generation, LANE_ENDED, ""));
    ck_assert(!answer(slot, generation, LANE_ENDED, "")); /* it is no answer */
    eventcount_cancel(done);
    lane_client_free_slot(&client, slot);
    slot = push("x");
    ck_assert_uint_eq(lane_back_take(&back, &generation), slot);
    ck_assert(lane_back_claim(&back, slot, generation));
    ck_assert(!answer(slot, generation, LANE_ENDED, ""));
    ck_assert(lane_client_ended(&client, slot));
}
END_TEST

START_TEST(as_many_as_there_are_slots_and_credit)
{
    for (uint32_t i = 0; i < LANE_SLOTS; i++) {
        ck_assert(lane_client_has_room(&client));
        push("x");
    }
    ck_assert(!lane_client_has_room(&client));
    uint32_t generation, n = 0;
    for (; lane_back_take(&back, &generation) != RING_NONE; n++)
        ck_assert(lane_back_ready(&back) == (n + 1 < LANE_SLOTS));
    ck_assert_uint_eq(n, LANE_SLOTS);
}
END_TEST

START_TEST(credit_and_sizes_have_their_limits)
{
    static char long_one[LANE_ROOM];
    const char *const args[] = {long_one};
    const size_t most = LANE_ROOM - sizeof(struct lane_item);
    struct lane_call call = {.args = args, .input = long_one};
    struct {
        size_t arg, input, room;
        bool fits;
    } cases[] = {{0, 0, LANE_OUTPUT, true}, {0, 0, LANE_OUTPUT + 1, false}, {0, 0, SIZE_MAX, false},
                 {0, most, 0, true},        {0, most + 1, 0, false},        {0, SIZE_MAX, 0, false},
                 {most, 0, 0, true},        {most + 1, 0, 0, false},        {17, most - 32, 0, true},
                 {17, most - 31, 0, false}, {2000, 0, LANE_OUTPUT, true},   {1000, 1000, LANE_OUTPUT, true}};

    lane_front_credit(&front, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        ck_assert(lane_client_has_room(&client));
        uint32_t slot = lane_client_begin(&client);

        memset(long_one, 'x', sizeof(long_one));
        if (cases[i].arg)
            long_one[cases[i].arg - 1] = 0;
        call.n_args = cases[i].arg != 0;
        call.input_size = cases[i].input;
        call.room = cases[i].room;
        ck_assert_msg(lane_client_add(&client, slot, &call) == cases[i].fits, "case %zu", i);
        lane_client_free_slot(&client, slot);
    }
    push("x");
    ck_assert(!lane_client_has_room(&client));
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

START_TEST(each_wait_has_one_notice)
{
    ck_assert(!lane_back_notifies(&back)); /* no client waits */
    lane_client_want_notice(&client);
    lane_client_want_notice(&client);
    ck_assert(lane_back_notifies(&back));
    ck_assert(!lane_back_notifies(&back));
    ck_assert(lane_client_take_notice(&client));
    lane_client_want_notice(&client);
    ck_assert(!lane_client_take_notice(&client)); /* none was sent */
    ck_assert(!lane_back_notifies(&back));
}
END_TEST

START_TEST(the_executors_end_takes_nothing)
{
    struct lane_front f;
    char byte;

    ck_assert_int_eq(lane_front_init(&f), 0);
    ck_assert_int_eq(lane_front_add_notice(&f, 0), 0);
    ck_assert_int_eq(send(f.notice_fd, "x", 1, MSG_NOSIGNAL), -1);
    ck_assert_int_eq(errno, EPIPE);
    ck_assert_int_eq(send(f.notify_fd, "y", 1, MSG_NOSIGNAL), 1);
    ck_assert_int_eq(recv(f.notice_fd, &byte, 1, MSG_DONTWAIT), 1);
    lane_front_deinit(&f);
    ck_assert_int_eq(f.notice_fd, -1);
    ck_assert_int_eq(f.notify_fd, -1);
}
END_TEST

/* Nor can a child of the client: it does not have the memory at all. */
START_TEST(children_have_no_lane)
{
    void *const regions[] = {client.memory, (void *)(uintptr_t)client.grant};
    unsigned char seen[1];
    int status;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    for (size_t i = 0; i < ARRAY_SIZE(regions); i++) {
        bool there = mincore(regions[i], 4096, seen) == 0 || errno != ENOMEM;

        if (pid == 0 && there)
            _exit(1 + (int)i);
        ck_assert(pid == 0 || there);
    }
    if (pid == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
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
    const uint32_t most = LANE_ROOM - sizeof(struct lane_item), first = 32, ok = LANE_ROOM;
    const struct {
        uint32_t n, size, item; /* which one lies */
        uint32_t args, input, room;
    } lies[] = {{0, ok, 0, 8, 0, 0},
                {LANE_ITEMS + 1, ok, 0, 8, 0, 0},
                {UINT32_MAX, ok, 0, 8, 0, 0},
                {1, LANE_ROOM + 1, 0, 8, 0, 0},
                {1, UINT32_MAX, 0, 8, 0, 0},
                {1, 15, 0, 0, 0, 0},
                {1, 23, 0, 8, 0, 0},
                {2, first + 15, 1, 0, 0, 0},
                {1, ok, 0, most + 1, 0, 0},
                {1, ok, 0, UINT32_MAX, 0, 0},
                {1, ok, 0, 0, most + 1, 0},
                {1, ok, 0, 0, UINT32_MAX, 0},
                {1, ok, 0, 8, most - 15, 0},
                {1, ok, 0, 8, 0, LANE_OUTPUT + 1},
                {1, ok, 0, 7, 0, 0},
                {2, ok, 1, 8, UINT32_MAX, 0},
                {2, ok, 1, 8, 0, LANE_OUTPUT - 15},
                {2, ok, 1, 7, 0, 0}};
    struct lane_request q;
    uint32_t slot = push_many("ab");
    struct lane_slot *s = &client.memory->slots[slot];
    struct lane_item item;

    ck_assert_int_eq(lane_back_read(&back, slot, &q), 0);
    if (_i >= (int)(sizeof(lies) / sizeof(*lies)))
        return;
    s->n_items = lies[_i].n;
    s->size = lies[_i].size;
    uint8_t *at = s->bytes + lies[_i].item * 48; /* head, arguments, input: 16 bytes each */
    memcpy(&item, at, sizeof(item));
    ck_assert_uint_eq(item.args_size, 8);
    item =
        (struct lane_item){.argc = 2, .args_size = lies[_i].args, .input_size = lies[_i].input, .room = lies[_i].room};
    memcpy(at, &item, sizeof(item));
    ck_assert_int_eq(lane_back_read(&back, slot, &q), -EBADMSG);
}
END_TEST

START_TEST(a_ring_that_lies_gives_nothing)
{
    uint32_t generation;

    atomic_store(&client.memory->tail, LANE_SLOTS + 1);
    ck_assert(!lane_back_ready(&back));
    ck_assert_uint_eq(lane_back_take(&back, &generation), RING_NONE);
    for (uint32_t i = 0; i < LANE_SLOTS; i++)
        atomic_store(&client.memory->ring[i], ring_word(1, LANE_SLOTS + i));
    atomic_store(&client.memory->tail, LANE_SLOTS);
    ck_assert_uint_eq(lane_back_take(&back, &generation), RING_NONE);
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
    atomic_store(&s->turn, UINT32_MAX);
    ck_assert_uint_eq(lane_client_last(&client, slot), 0);
    atomic_store(&s->turn, 7);
    ck_assert_uint_eq(lane_client_close(&client, slot), 0);
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

    slot = lane_back_take(&back, &generation);
    ck_assert_uint_eq(slot, queued);
    slot = lane_back_take(&back, &generation);
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
    ck_assert(lane_client_lost(&client) && !lane_client_has_room(&client));
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

/* --- several calls in a slot -------------------------------------------------------------------------------------- */

static void check_end(uint32_t slot, uint32_t item, const char *output)
{
    const void *from;
    struct lane_end end;

    lane_client_end(&client, slot, item, &end, &from);
    ck_assert_uint_eq(end.output_size, strlen(output));
    ck_assert_mem_eq(from, output, strlen(output));
    ck_assert_uint_eq(end.run_usec, strlen(output));
    ck_assert_uint_eq(end.cpu_usec, 1);
}

START_TEST(calls_that_share_a_slot_have_their_turns)
{
    struct lane_request q;
    struct lane_result r;
    uint32_t generation, slot = push_many("abc");

    ck_assert_uint_eq(take(&q, &generation), slot);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(q.item, i);
        ck_assert_uint_eq(q.call.argc, 2);
        ck_assert_uint_eq(q.call.room, 8);
        ck_assert_uint_eq(q.call.input_size, 1);
        ck_assert_mem_eq(q.bytes + q.call.args_at, "one\0two", 8);
        ck_assert_uint_eq(q.bytes[q.call.input_at], (uint8_t) "abc"[i]);
        if (i < 2)
            ck_assert(turn(slot, &q, i ? "the 2nd" : "first"));
    }
    ck_assert(!turn(slot, &q, "x")); /* there is none */
    lane_back_answer(&back, slot, generation, q.call.output_at,
                     &(struct lane_answer){.exit = 5, .output = "last", .output_size = 4});
    ck_assert(lane_client_ended(&client, slot));
    ck_assert_uint_eq(lane_client_last(&client, slot), 2);
    check_end(slot, 0, "first");
    check_end(slot, 1, "the 2nd");
    lane_client_result(&client, slot, &r);
    ck_assert_int_eq(r.outcome, LANE_ENDED);
    ck_assert_int_eq(r.exit, 5);
    ck_assert_uint_eq(r.output_size, 4);
    ck_assert_mem_eq(r.output, "last", 4);
}
END_TEST

/* How many share one. */
static uint32_t fill(const char *input, size_t room)
{
    uint32_t slot = lane_client_begin(&client), n = 0;
    struct lane_request q;

    while (add(slot, input, room))
        n++;
    lane_client_push(&client, slot, 3, 7);
    ck_assert_int_eq(lane_back_read(&back, slot, &q), 0);
    ck_assert_uint_eq(q.n_items, n);
    return n;
}

START_TEST(as_many_share_a_slot_as_it_has_room_for)
{
    char much[480];

    memset(much, 'x', sizeof(much) - 1);
    much[sizeof(much) - 1] = 0;
    ck_assert_uint_eq(fill("x", 0), LANE_ITEMS);
    ck_assert_uint_eq(fill("x", LANE_OUTPUT / 4), 4);
    ck_assert_uint_eq(fill("x", LANE_OUTPUT / 16 + 1), 14); /* each takes up to the next 16 */
    ck_assert_uint_eq(fill(much, 1), 4);                    /* 16 + 16 + 480 bytes each */
}
END_TEST

START_TEST(what_is_closed_goes_no_further)
{
    struct lane_request q;
    struct lane_result r;
    uint32_t generation, slot = push_many("abcd");

    take(&q, &generation);
    ck_assert(turn(slot, &q, "x"));
    ck_assert_uint_eq(lane_client_close(&client, slot), 1);
    ck_assert(!turn(slot, &q, "y"));
    ck_assert_uint_eq(q.item, 1);
    lane_back_answer(&back, slot, generation, q.call.output_at, &(struct lane_answer){.output = "y", .output_size = 1});
    ck_assert_uint_eq(lane_client_last(&client, slot), 1);
    check_end(slot, 0, "x");
    lane_client_result(&client, slot, &r);
    ck_assert_mem_eq(r.output, "y", 1);
    lane_client_free_slot(&client, slot);
    slot = push_many("ab"); /* before it was begun */
    ck_assert_uint_eq(lane_client_close(&client, slot), 0);
    take(&q, &generation);
    ck_assert(!turn(slot, &q, "x"));
    lane_client_free_slot(&client, slot);
    slot = push_many("ab"); /* and for the next ones it is open again */
    take(&q, &generation);
    ck_assert(turn(slot, &q, "x"));
}
END_TEST

START_TEST(what_is_cancelled_goes_no_further)
{
    struct lane_request q;
    uint32_t generation, slot = push_many("abc");

    take(&q, &generation);
    lane_front_cancel(&front);
    ck_assert(!turn(slot, &q, "x"));
}
END_TEST

/* The worker comes before the client's cancel, or after it. */
START_TEST(what_its_client_cancels_is_known_to_have_begun_or_not)
{
    struct lane_request q;
    struct lane_result r;
    uint32_t generation, slot = push_many("ab");

    if (_i == 0)
        take(&q, &generation);
    ck_assert(lane_client_cancel(&client, slot) == (_i == 0));
    if (_i == 1)
        take(&q, &generation);
    ck_assert(lane_back_cancelled(&back, slot));
    ck_assert(!turn(slot, &q, "x"));
    ck_assert(!lane_client_ended(&client, slot)); /* a worker may still look at it */
    answer(slot, generation, _i ? LANE_REFUSED : LANE_ENDED, "");
    ck_assert(lane_client_ended(&client, slot));
    lane_client_result(&client, slot, &r);
    ck_assert_int_eq(r.outcome, _i ? LANE_REFUSED : LANE_CANCELLED);
    ck_assert(lane_client_cancel(&client, slot)); /* changes nothing */
    lane_client_free_slot(&client, slot);
    slot = push("again");
    ck_assert(!lane_back_cancelled(&back, slot));
    take(&q, &generation);
    ck_assert(answer(slot, generation, LANE_ENDED, "") || lane_client_ended(&client, slot));
}
END_TEST

#define RACES 30000u

/* By the worker, before it answers. Atomic, since both sides map the lane's memory in this process, and ThreadSanitizer
 * does not know that an address of one is an address of the other. */
static atomic_bool seen_cancelled[RACES];

static void *claim_all(void *arg)
{
    for (uint32_t i = 0; i < RACES; i++) {
        uint32_t generation, slot;

        while ((slot = lane_back_take(&back, &generation)) == RING_NONE)
            cpu_relax();
        ck_assert(lane_back_claim(&back, slot, generation));
        seen_cancelled[i] = lane_back_cancelled(&back, slot);
        answer(slot, generation, LANE_REFUSED, "");
    }
    return NULL;
}

/* At once: the worker sees that what the client takes for not begun is cancelled. */
START_TEST(no_call_begins_that_was_said_not_to)
{
    uint32_t slot;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, claim_all, NULL), 0);
    for (uint32_t i = 0; i < RACES; i++) {
        slot = push("x");
        for (uint32_t spin = i % 64; spin; spin--)
            cpu_relax();
        bool begun = lane_client_cancel(&client, slot);
        while (!lane_client_ended(&client, slot))
            slot_sleep(slot);
        ck_assert(begun || seen_cancelled[i]);
        lane_client_free_slot(&client, slot);
    }
    pthread_join(thread, NULL);
}
END_TEST

START_TEST(a_verdict_is_that_of_the_one_that_had_its_turn)
{
    struct lane_request q;
    struct lane_result r;
    uint32_t generation, slot = push_many("abc");

    take(&q, &generation);
    ck_assert(turn(slot, &q, "x"));
    lane_front_lost(&front);
    ck_assert(lane_front_judge(&front, slot, generation, LANE_RUNNING, LANE_CRASHED, "it crashed"));
    ck_assert_uint_eq(lane_client_last(&client, slot), 1);
    check_end(slot, 0, "x");
    lane_client_result(&client, slot, &r);
    ck_assert_int_eq(r.outcome, LANE_CRASHED);
}
END_TEST

START_TEST(a_worker_believes_no_turn_of_its_client)
{
    struct lane_request q;
    uint32_t generation, slot = push_many("abc");
    struct lane_slot *s = &client.memory->slots[slot];

    take(&q, &generation);
    atomic_store(&s->turn, 2);
    s->n_items = 1000;
    memset(s->bytes, 0xff, sizeof(s->bytes));
    ck_assert(!turn(slot, &q, "x")); /* the client changed it */
    atomic_store(&s->turn, 0);
    ck_assert(turn(slot, &q, "x"));
    ck_assert(turn(slot, &q, "x"));
    ck_assert_uint_eq(q.bytes[q.call.input_at], 'c'); /* the worker has a copy */
    ck_assert(!turn(slot, &q, "x"));
}
END_TEST

START_TEST(ends_that_lie_do_not_lead_outside)
{
    uint32_t slot = push_many("abc");
    struct lane_slot *s = &client.memory->slots[slot];
    const void *from;
    struct lane_end end;

    s->ends[0].output_size = s->ends[1].output_size = UINT32_MAX;
    atomic_store(&s->turn, 2);
    for (uint32_t i = 0; i < 2; i++) {
        lane_client_end(&client, slot, i, &end, &from);
        ck_assert_uint_eq(end.output_size, 16); /* up to the next one's */
        ck_assert_ptr_eq(from, s->output + 16 * i);
    }
}
END_TEST

static void *take_and_answer(void *arg)
{
    struct eventcount *bell = &back.memory->bell;

    for (uint32_t done = 0, generation; done < *(uint32_t *)arg;) {
        uint32_t epoch = eventcount_prepare(bell);

        if (!lane_back_ready(&back)) {
            eventcount_wait(bell, epoch, UINT64_MAX, true);
            continue;
        }
        eventcount_cancel(bell);
        uint32_t slot = lane_back_take(&back, &generation);
        if (slot == RING_NONE || !lane_back_claim(&back, slot, generation))
            continue;
        done++;
        answer(slot, generation, LANE_ENDED, "x");
    }
    return NULL;
}

START_TEST(no_side_sleeps_for_ever)
{
    uint32_t n = 20000;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, take_and_answer, &n), 0);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = push("");

        while (!slot_sleep(slot))
            ;
        lane_client_free_slot(&client, slot);
    }
    pthread_join(thread, NULL);
}
END_TEST

/* --- a worker that keeps looking ---------------------------------------------------------------------------------- */

static _Atomic bool over;

/* As executor/direct-call.c does it. */
static bool cared_for(bool *looks)
{
    if (!*looks)
        return lane_back_cared_for(&back);
    *looks = !lane_back_yield(&back);
    return !*looks;
}

static void *look_on(void *arg)
{
    struct eventcount *bell = &back.memory->bell;
    uint32_t patience = 0;
    bool looks = false;

    while (!atomic_load(&over)) {
        uint32_t generation, slot = cared_for(&looks) ? RING_NONE : lane_back_take(&back, &generation);

        if (slot != RING_NONE) {
            ck_assert(lane_back_claim(&back, slot, generation));
            if (!looks)
                lane_back_look(&back, looks = true);
            answer(slot, generation, LANE_ENDED, "x");
            patience = generation * 37 % 1000; /* so that the client comes at any time */
            continue;
        }
        if (patience && patience--)
            continue;
        if (looks)
            lane_back_look(&back, looks = false);
        uint32_t epoch = eventcount_prepare(bell);
        if (atomic_load(&over) || (lane_back_ready(&back) && !lane_back_cared_for(&back)))
            eventcount_cancel(bell);
        else
            eventcount_wait(bell, epoch, UINT64_MAX, true);
    }
    return NULL;
}

START_TEST(no_client_relies_on_a_worker_that_has_stopped_looking)
{
    pthread_t threads[3];
    uint32_t quiet = 0;

    client.may_spin = true;
    atomic_store(&over, false);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, look_on, NULL), 0);
    for (uint32_t i = 0; i < 40000; i++) {
        uint32_t slots[4], n = 1 + i % 4;

        for (uint32_t k = 0; k < n; k++) {
            slots[k] = lane_client_begin(&client);
            ck_assert(add(slots[k], "x", 8));
            lane_client_push(&client, slots[k], 3, 0);
        }
        quiet += i % 64 && atomic_load(&client.memory->looking);
        lane_client_ring(&client, n, i % 64 != 0);
        for (uint32_t k = 0; k < n; k++) { /* without ringing again */
            while (!((i & 1 && lane_client_spin(&client, slot_ended, &slots[k])) || slot_sleep(slots[k])))
                ;
            lane_client_free_slot(&client, slots[k]);
        }
    }
    ck_assert_uint_gt(quiet, 0);
    atomic_store(&over, true);
    eventcount_notify(&back.memory->bell, UINT32_MAX, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
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
    tcase_add_test(c, an_answer_says_whether_its_client_slept);
    tcase_add_test(c, as_many_as_there_are_slots_and_credit);
    tcase_add_test(c, credit_and_sizes_have_their_limits);
    tcase_add_test(c, only_what_wsd_allows_may_be_called);
    tcase_add_test(c, the_grant_cannot_be_written_by_others);
    tcase_add_test(c, children_have_no_lane);
    tcase_add_test(c, each_wait_has_one_notice);
    tcase_add_test(c, the_executors_end_takes_nothing);
    tcase_add_test(c, what_cannot_be_a_lane_is_not_mapped);
    tcase_add_loop_test(c, requests_that_lie_about_their_size_are_refused, 0, 19);
    tcase_add_test(c, a_ring_that_lies_gives_nothing);
    tcase_add_test(c, an_answer_that_lies_does_not_lead_outside);
    tcase_add_test(c, a_death_gives_each_call_a_verdict);
    tcase_add_test(c, what_is_pushed_into_a_dead_lane_comes_back_untouched);
    tcase_add_test(c, no_side_sleeps_for_ever);
    tcase_add_test(c, no_client_relies_on_a_worker_that_has_stopped_looking);
    tcase_add_test(c, calls_that_share_a_slot_have_their_turns);
    tcase_add_test(c, as_many_share_a_slot_as_it_has_room_for);
    tcase_add_test(c, what_is_closed_goes_no_further);
    tcase_add_test(c, what_is_cancelled_goes_no_further);
    tcase_add_loop_test(c, what_its_client_cancels_is_known_to_have_begun_or_not, 0, 2);
    tcase_add_test(c, no_call_begins_that_was_said_not_to);
    tcase_add_test(c, a_verdict_is_that_of_the_one_that_had_its_turn);
    tcase_add_test(c, a_worker_believes_no_turn_of_its_client);
    tcase_add_test(c, ends_that_lie_do_not_lead_outside);
    suite_add_tcase(s, c);
    return run_suite(s);
}
