/* SPDX-License-Identifier: Apache-2.0
 *
 * test-back.c: the executor's end, against regions that the test drives by hand as wsd would, or as a wsd gone mad. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "ring/back.h"
#include "ring/front.h"
#include "tests/unit/suite.h"

static struct down *down;
static struct up *up;
static int down_fd, up_fd, bell_fd;
static struct back *back;

static void *region(const char *name, uint64_t size, int *ret_fd)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    *ret_fd = fd;
    return map;
}

static uint64_t page_up(uint64_t n)
{
    return (n + 4095) & ~4095ull;
}

static void seal(void)
{
    ck_assert_int_eq(fcntl(down_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    ck_assert_int_eq(fcntl(up_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
}

static void make_regions(void)
{
    uint64_t down_arena = page_up(sizeof(*down)), up_arena = page_up(sizeof(*up));

    down = region("down", down_arena + RING_ARENA_SIZE, &down_fd);
    up = region("up", up_arena + RING_UP_TAIL, &up_fd);
    bell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    down->magic = up->magic = RING_MAGIC;
    down->version = up->version = RING_VERSION;
    down->arena = down_arena;
    up->arena = up_arena;
    down->size = down_arena + RING_ARENA_SIZE;
    up->size = up_arena + RING_UP_TAIL;
    back = aligned_alloc(64, sizeof(*back));
}

static void setup(void)
{
    make_regions();
    seal();
    ck_assert_int_eq(back_init(back, down_fd, up_fd, bell_fd), 0);
}

static void teardown(void)
{
    back_deinit(back);
    free(back);
}

/* What wsd does to hand over a slot that it expects to take so long. */
static void submit_brief(uint32_t slot, uint32_t generation, uint32_t expected_usec)
{
    uint64_t tail = atomic_load(&down->tail);

    down->slots[slot].generation = generation;
    down->slots[slot].blob = (uint32_t)ring_small(down->arena, slot);
    atomic_store(&up->slots[slot].state, ring_word(generation, RING_QUEUED));
    atomic_store(&down->ring[tail % RING_SLOTS], ring_entry(generation, slot, expected_usec));
    atomic_store(&down->tail, tail + 1);
}

static void submit(uint32_t slot, uint32_t generation)
{
    submit_brief(slot, generation, RING_WORTH_USEC);
}

static bool bell_rang(void)
{
    uint64_t n;

    return read(bell_fd, &n, sizeof(n)) == sizeof(n);
}

/* --- mapping --- */

START_TEST(regions_of_another_making_are_refused)
{
    static struct back b; /* not on the stack: gcc's fake stack does not align it to its 64 bytes */
    int fd;

    make_regions();
    ck_assert_int_eq(back_init(&b, down_fd, up_fd, bell_fd), -EBADMSG); /* not sealed */
    seal();
    ck_assert_int_eq(back_init(&b, bell_fd, up_fd, bell_fd), -EBADMSG);
    ck_assert_int_eq(back_init(&b, down_fd, 0, bell_fd), -EBADMSG);
    ck_assert_int_eq(back_init(&b, down_fd, -1, bell_fd), -EBADMSG);
    (void)region("short", 4096, &fd);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    ck_assert_int_eq(back_init(&b, fd, up_fd, bell_fd), -EBADMSG);
    ck_assert_int_eq(back_init(&b, down_fd, fd, bell_fd), -EBADMSG);
    for (int i = 0; i < 10; i++) {
        struct {
            uint32_t magic, version;
            uint64_t size, arena;
        } was = {up->magic, up->version, up->size, up->arena};
        switch (i) {
        case 0:
            up->magic++;
            break;
        case 1:
            up->version++;
            break;
        case 2:
            up->size++;
            break;
        case 3:
            up->arena = 0;
            break;
        case 4:
            up->arena += 64;
            break; /* no room for all of it */
        case 5:
            up->arena = sizeof(*up) - 64;
            break;
        case 6:
            up->arena = UINT64_MAX - 63;
            break;
        case 7:
            up->arena -= 1;
            break;
        case 8:
            up->size = 0;
            break;
        case 9:
            up->arena = UINT64_MAX;
            break;
        }
        ck_assert_int_eq(back_init(&b, down_fd, up_fd, bell_fd), -EBADMSG);
        up->magic = was.magic;
        up->version = was.version;
        up->size = was.size;
        up->arena = was.arena;
    }
    ck_assert_int_eq(back_init(&b, down_fd, up_fd, bell_fd), 0);
    back_deinit(&b);
    back_deinit(&b);
}
END_TEST

START_TEST(request_half_cannot_be_written)
{
    signal(SIGSEGV, SIG_DFL); /* not a sanitizer's */
    *(volatile uint32_t *)(uintptr_t)&back->down->magic = 0;
}
END_TEST

/* --- taking --- */

START_TEST(slots_are_taken_in_order_and_once)
{
    uint32_t generation, usec;

    ck_assert(!back_ready(back));
    ck_assert_uint_eq(back_take(back, &generation, &usec), RING_NONE);
    submit(5, 1);
    submit(3, 9);
    ck_assert(back_ready(back));
    ck_assert_uint_eq(back_take(back, &generation, &usec), 5);
    ck_assert_uint_eq(generation, 1);
    ck_assert_uint_eq(back_take(back, &generation, &usec), 3);
    ck_assert_uint_eq(generation, 9);
    ck_assert(!back_ready(back));
    ck_assert_uint_eq(back_take(back, &generation, &usec), RING_NONE);
}
END_TEST

START_TEST(what_is_soon_over_is_worth_no_worker)
{
    uint32_t generation, usec;

    ck_assert(!back_worth_waking(back));
    submit_brief(0, 1, RING_WORTH_USEC - 1);
    ck_assert(!back_worth_waking(back));
    submit_brief(1, 1, 1); /* together they are */
    ck_assert(back_worth_waking(back));
    ck_assert_uint_eq(back_take(back, &generation, &usec), 0);
    ck_assert_uint_eq(usec, RING_WORTH_USEC - 1);
    ck_assert(!back_worth_waking(back));
    ck_assert(back_ready(back));
    submit(2, 1); /* unknown length */
    ck_assert(back_worth_waking(back));
    ck_assert_uint_eq(back_take(back, &generation, &usec), 1);
    ck_assert_uint_eq(usec, 1);
    ck_assert(back_worth_waking(back));
    ck_assert_uint_eq(back_take(back, &generation, &usec), 2);
    ck_assert_uint_eq(usec, RING_WORTH_USEC);
    ck_assert(!back_worth_waking(back));
}
END_TEST

START_TEST(ring_goes_round)
{
    uint32_t generation, usec;

    for (uint32_t i = 0; i < 3 * RING_SLOTS; i++) {
        submit(i % RING_SLOTS, i / RING_SLOTS + 1);
        if (i % 2 == 0)
            continue;
        for (uint32_t k = i - 1; k <= i; k++) {
            ck_assert_uint_eq(back_take(back, &generation, &usec), k % RING_SLOTS);
            ck_assert_uint_eq(generation, k / RING_SLOTS + 1);
        }
    }
    for (uint32_t i = 0; i < RING_SLOTS; i++)
        submit(i, 9);
    for (uint32_t i = 0; i < RING_SLOTS; i++)
        ck_assert_uint_eq(back_take(back, &generation, &usec), i);
    ck_assert(!back_ready(back));
}
END_TEST

START_TEST(nonsense_in_the_ring_is_passed_over)
{
    uint32_t generation, usec;

    atomic_store(&down->tail, RING_SLOTS + 1);
    ck_assert(!back_ready(back));
    ck_assert_uint_eq(back_take(back, &generation, &usec), RING_NONE);
    atomic_store(&down->tail, UINT64_MAX);
    ck_assert_uint_eq(back_take(back, &generation, &usec), RING_NONE);
    atomic_store(&down->tail, 0);
    atomic_store(&down->ring[0], ring_entry(1, RING_SLOTS, 0));
    atomic_store(&down->ring[1], UINT64_MAX);
    atomic_store(&down->tail, 2);
    submit(7, 2);
    ck_assert_uint_eq(back_take(back, &generation, &usec), 7);
    ck_assert_uint_eq(back_take(back, &generation, &usec), RING_NONE);
}
END_TEST

START_TEST(queued_slot_is_claimed_with_its_time)
{
    submit(4, 7);
    ck_assert(!back_claim(back, 4, 6, 1));
    ck_assert(back_claim(back, 4, 7, 12345));
    ck_assert_uint_eq(atomic_load(&up->slots[4].state), ring_word(7, RING_RUNNING));
    ck_assert_uint_eq(up->slots[4].started_usec, 12345);
    ck_assert(!back_claim(back, 4, 7, 1));
    ck_assert_uint_eq(atomic_load(&up->tail), 0);
}
END_TEST

START_TEST(recalled_slot_is_completed_as_such)
{
    submit(4, 7);
    atomic_store(&up->slots[4].state, ring_word(7, RING_RECALLED));
    ck_assert(!back_claim(back, 4, 7, 1));
    ck_assert_uint_eq(atomic_load(&up->tail), 1);
    ck_assert_uint_eq(atomic_load(&up->completions[0].seq), 1);
    ck_assert_uint_eq(atomic_load(&up->completions[0].value), completion_word(COMPLETION_RECALLED, 4, 7));
}
END_TEST

START_TEST(request_is_read_with_all_its_parts)
{
    struct back_request q;
    uint32_t slot = 11;

    submit(slot, 3);
    struct down_slot *d = &down->slots[slot];
    char *blob = (char *)down + d->blob;
    memset(d->id, 0xab, 16);
    d->plugin = 1;
    d->function = 2;
    d->argc = 2;
    d->flags = DOWN_SAME_USER;
    memcpy(blob, "/dir\0one\0two", 13);
    d->directory_size = 5;
    d->args_size = 8;
    d->input_size = 6;
    memcpy(blob + 16, "input!", 6);
    d->timeout_usec = 12345;
    ck_assert_int_eq(back_read(back, slot, 3, &q), 0);
    ck_assert_uint_eq(q.id[15], 0xab);
    ck_assert_uint_eq(q.plugin, 1);
    ck_assert_uint_eq(q.function, 2);
    ck_assert_uint_eq(q.argc, 2);
    ck_assert_str_eq(q.directory, "/dir");
    ck_assert_uint_eq(q.args_size, 8);
    ck_assert_int_eq(memcmp(q.args, "one\0two", 8), 0);
    ck_assert_uint_eq(q.input_size, 6);
    ck_assert_int_eq(memcmp(q.input, "input!", 6), 0);
    ck_assert_uint_eq(q.timeout_usec, 12345);
    ck_assert_uint_eq(*q.cancel, 0);
    atomic_store(&d->cancel, 1);
    ck_assert_uint_eq(*q.cancel, 1);
    d->flags |= DOWN_INPUT_FD;
    d->input_size = 1ull << 40;
    ck_assert_int_eq(back_read(back, slot, 3, &q), 0);
    ck_assert_ptr_null(q.input);
    ck_assert_uint_eq(q.input_size, 1ull << 40);
    ck_assert_int_eq(back_read(back, slot, 4, &q), -EBADMSG);
    ck_assert_ptr_nonnull(q.cancel);
    ck_assert_ptr_null(q.args);
}
END_TEST

static uint32_t output_state(uint32_t slot)
{
    return (uint32_t)atomic_load(&up->slots[slot].output_state);
}

START_TEST(output_is_claimed_once_and_only_before_it_is_closed)
{
    const struct ring_written none = {0};
    uint32_t slot = 6, generation = 5;
    _Atomic uint64_t *state = &up->slots[slot].output_state;

    atomic_store(state, ring_word(generation, RING_OUTPUT_NONE));
    ck_assert(back_claim_output(back, slot, generation, RING_OUTPUT_FILE, &(struct ring_written){100, 0}));
    ck_assert_uint_eq(output_state(slot), RING_OUTPUT_FILE);
    ck_assert(back_output_is_claimed(back, slot, generation));
    ck_assert(!back_output_is_claimed(back, slot, generation + 1));
    back_wrote(back, slot, 7);
    ck_assert_uint_eq(atomic_load(&up->slots[slot].output_begin), 100);
    ck_assert_uint_eq(atomic_load(&up->slots[slot].output_written), 7);
    ck_assert(back_claim_output(back, slot, generation, RING_OUTPUT_GIVEN, &none)); /* another writes to it */
    ck_assert_uint_eq(output_state(slot), RING_OUTPUT_GIVEN);
    ck_assert(!back_claim_output(back, slot, generation, RING_OUTPUT_FILE, &none));
    atomic_store(state, ring_word(generation, RING_OUTPUT_NONE));
    ck_assert(back_claim_output(back, slot, generation, RING_OUTPUT_GIVEN, &none)); /* a pipe */
    ck_assert(back_output_is_claimed(back, slot, generation));
    atomic_store(state, ring_word(generation, RING_OUTPUT_CLOSED));
    ck_assert(!back_output_is_claimed(back, slot, generation));
    ck_assert(!back_claim_output(back, slot, generation, RING_OUTPUT_FILE, &none));
    ck_assert(!back_claim_output(back, slot, generation, RING_OUTPUT_GIVEN, &none));
    atomic_store(state, ring_word(generation + 1, RING_OUTPUT_NONE)); /* the next job's */
    ck_assert(!back_claim_output(back, slot, generation, RING_OUTPUT_FILE, &none));
    ck_assert(!back_claim_output(back, slot, generation, RING_OUTPUT_GIVEN, &none));
    ck_assert_uint_eq(output_state(slot), RING_OUTPUT_NONE);
}
END_TEST

START_TEST(a_traceparent_stands_behind_the_arguments)
{
    struct back_request q;
    uint32_t slot = 4;

    submit(slot, 3);
    struct down_slot *d = &down->slots[slot];
    d->blob = (uint32_t)ring_tiny(slot);
    memset(d->tiny, 't', RING_TINY);
    memcpy(d->tiny, "one", 4);
    d->args_size = 4;
    d->argc = 1;
    d->flags = DOWN_TRACEPARENT;
    d->tiny[4 + RING_TRACEPARENT - 1] = 0;
    d->input_size = RING_TINY - 64;
    ck_assert_int_eq(back_read(back, slot, 3, &q), 0);
    ck_assert_ptr_eq(q.traceparent, q.args + 4);
    ck_assert_uint_eq(strlen(q.traceparent), RING_TRACEPARENT - 1);
    ck_assert_ptr_eq(q.input, q.args + 64);
    d->tiny[4 + RING_TRACEPARENT - 1] = 't'; /* not ended */
    ck_assert_int_eq(back_read(back, slot, 3, &q), -EBADMSG);
    d->tiny[4 + RING_TRACEPARENT - 1] = 0;
    d->input_size++; /* beyond the slot */
    ck_assert_int_eq(back_read(back, slot, 3, &q), -EBADMSG);
    d->input_size = 0;
    d->flags = 0;
    ck_assert_int_eq(back_read(back, slot, 3, &q), 0);
    ck_assert_ptr_null(q.traceparent);
}
END_TEST

START_TEST(what_the_slot_has_itself_ends_with_the_slot)
{
    struct back_request q;
    uint32_t slot = RING_SLOTS - 1;

    submit(slot, 3);
    struct down_slot *d = &down->slots[slot];
    d->blob = (uint32_t)ring_tiny(slot);
    memcpy(d->tiny, "/dir\0one", 9);
    d->directory_size = 5;
    d->args_size = 4;
    d->argc = 1;
    memset(d->tiny + 16, 'x', RING_TINY - 16);
    d->input_size = RING_TINY - 16;
    ck_assert_int_eq(back_read(back, slot, 3, &q), 0);
    ck_assert_int_eq(memcmp(q.args, "one", 4), 0);
    ck_assert_int_eq(memcmp(q.input, d->tiny + 16, RING_TINY - 16), 0);
    ck_assert_uint_eq(q.input_size, RING_TINY - 16);
    d->input_size = RING_TINY - 15;
    ck_assert_int_eq(back_read(back, slot, 3, &q), -EBADMSG);
    d->input_size = 0;
    d->args_size = RING_TINY - 4;
    ck_assert_int_eq(back_read(back, slot, 3, &q), -EBADMSG);
    /* another slot's */
    d->args_size = 4;
    d->blob = (uint32_t)ring_tiny(slot - 1);
    ck_assert_int_eq(back_read(back, slot, 3, &q), -EBADMSG);
}
END_TEST

/* --- completions --- */

START_TEST(bell_rings_only_for_a_sleeper)
{
    submit(1, 1);
    submit(2, 1);
    submit(3, 1);
    back_claim(back, 1, 1, 1);
    back_done(back, 1, 1);
    ck_assert(!bell_rang());
    atomic_store(&up->asleep, 1);
    back_claim(back, 2, 1, 1);
    back_done(back, 2, 1);
    ck_assert(bell_rang());
    ck_assert_uint_eq(atomic_load(&up->asleep), 0);
    back_claim(back, 3, 1, 1);
    back_done(back, 3, 1);
    ck_assert(!bell_rang());
    ck_assert_uint_eq(atomic_load(&up->slots[2].state), ring_word(1, RING_DONE));
    for (uint64_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(atomic_load(&up->completions[i].seq), i + 1);
        ck_assert_uint_eq(atomic_load(&up->completions[i].value), completion_word(COMPLETION_DONE, (uint32_t)i + 1, 1));
    }
}
END_TEST

/* --- chunks --- */

START_TEST(every_chunk_is_given_out_once)
{
    uint8_t taken[RING_CHUNKS] = {0};
    uint64_t serial;
    uint32_t n = 0;

    for (uint32_t size = 1;; size = size % RING_RUN_MAX + 1) {
        uint32_t first = back_alloc(back, size, &serial);
        if (first == RING_NONE)
            break;
        ck_assert_uint_le(first + size, RING_CHUNKS);
        for (uint32_t i = first; i < first + size; i++) {
            ck_assert(!taken[i]);
            taken[i] = 1;
        }
        n += size;
    }
    while (back_alloc(back, 1, &serial) != RING_NONE)
        n++;
    ck_assert_uint_eq(n, RING_CHUNKS);
    back_unalloc(back, 1000, 3);
    ck_assert_uint_eq(back_alloc(back, 4, &serial), RING_NONE);
    ck_assert_uint_eq(back_alloc(back, 3, &serial), 1000);
    ck_assert_uint_eq(back_alloc(back, 1, &serial), RING_NONE);
}
END_TEST

START_TEST(run_does_not_go_round_the_end)
{
    uint64_t serial;

    while (back_alloc(back, 1, &serial) != RING_NONE)
        ;
    back_unalloc(back, RING_CHUNKS - 2, 2);
    back_unalloc(back, 0, 2);
    ck_assert_uint_eq(back_alloc(back, 3, &serial), RING_NONE);
    back_unalloc(back, 2, 1);
    ck_assert_uint_eq(back_alloc(back, 3, &serial), 0);
    ck_assert_uint_eq(back_alloc(back, 2, &serial), RING_CHUNKS - 2);
}
END_TEST

START_TEST(released_run_is_no_longer_held)
{
    uint64_t first, second;
    uint32_t chunk = back_alloc(back, 2, &first);

    ck_assert(back_held(back, chunk, first));
    back_output(back, 5, 6, chunk, 2, 100000);
    ck_assert_uint_eq(atomic_load(&up->completions[0].value), completion_word(COMPLETION_OUTPUT, chunk, 6));
    ck_assert_uint_eq(up->chunks[chunk].slot, 5);
    ck_assert_uint_eq(up->chunks[chunk].size, 100000);
    ck_assert_uint_eq(up->chunks[chunk].run, 2);
    ck_assert(back_held(back, chunk, first));
    atomic_store(&up->chunks[chunk].used, 0);
    atomic_store(&up->chunks[chunk + 1].used, 0);
    ck_assert(!back_held(back, chunk, first));
    while (back_alloc(back, 1, &second) != chunk)
        ;
    ck_assert(!back_held(back, chunk, first));
    ck_assert(back_held(back, chunk, second));
}
END_TEST

static void *release_later(void *arg)
{
    usleep(20000);
    atomic_store(&up->chunks[17].used, 0);
    eventcount_notify(&up->space, UINT32_MAX, true);
    return NULL;
}

START_TEST(release_wakes_a_waiter_for_room)
{
    pthread_t thread;
    uint64_t serial;
    uint32_t chunk;

    while (back_alloc(back, 1, &serial) != RING_NONE)
        ;
    pthread_create(&thread, NULL, release_later, NULL);
    for (;;) {
        uint32_t epoch = eventcount_prepare(&up->space);
        chunk = back_alloc(back, 1, &serial);
        if (chunk != RING_NONE) {
            eventcount_cancel(&up->space);
            break;
        }
        ck_assert(eventcount_wait(&up->space, epoch, 30000000, true));
    }
    ck_assert_uint_eq(chunk, 17);
    pthread_join(thread, NULL);
}
END_TEST

/* --- several workers at once --- */

enum { THREADS = 4, JOBS = 200000 };

static _Atomic uint32_t taken_entries;

static void *worker(void *arg)
{
    _Atomic bool *stop = arg;

    for (;;) {
        uint32_t generation, usec;
        bool last = atomic_load(stop);
        uint32_t slot = back_take(back, &generation, &usec);
        if (slot == RING_NONE) {
            if (last)
                return NULL;
            continue;
        }
        atomic_fetch_add_explicit(&taken_entries, 1, memory_order_relaxed);
        if (!back_claim(back, slot, generation, 1))
            continue;
        uint64_t serial;
        uint32_t chunk = generation % 4 == 0 ? back_alloc(back, 1, &serial) : RING_NONE;
        if (chunk != RING_NONE) {
            *(uint32_t *)back_chunk(back, chunk) = generation ^ slot;
            back_output(back, slot, generation, chunk, 1, 4);
        }
        *(uint32_t *)back_small(back, slot) = generation;
        up->slots[slot].small_size = 4;
        back_done(back, slot, generation);
    }
}

START_TEST(workers_at_once_lose_and_double_nothing)
{
    pthread_t threads[THREADS];
    static _Atomic bool stop;
    static uint32_t generation[RING_SLOTS];
    static uint8_t out[RING_SLOTS];
    uint64_t head = 0;
    uint32_t submitted = 0, done = 0;

    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)&stop);
    while (done < JOBS) {
        for (uint32_t slot = 0; slot < RING_SLOTS && submitted < JOBS; slot++) {
            if (out[slot])
                continue;
            out[slot] = 1;
            submit(slot, ++generation[slot]);
            submitted++;
            if (submitted % 7 == 0) { /* some are taken back, where that comes in time */
                uint64_t word = ring_word(generation[slot], RING_QUEUED);
                if (atomic_compare_exchange_strong(&up->slots[slot].state, &word,
                                                   ring_word(generation[slot], RING_RECALLED)))
                    out[slot] = 2;
            }
        }
        struct completion *c = &up->completions[head % RING_COMPLETIONS];
        while (atomic_load_explicit(&c->seq, memory_order_acquire) == head + 1) {
            uint64_t value = atomic_load(&c->value);
            uint32_t index = (uint32_t)(value >> 32) & 0xffffff, kind = (uint32_t)(value >> 56), g = (uint32_t)value;
            if (kind == COMPLETION_OUTPUT) {
                ck_assert_uint_eq(*(uint32_t *)(void *)((char *)up + ring_chunk(up->arena, index)),
                                  g ^ up->chunks[index].slot);
                atomic_store_explicit(&up->chunks[index].used, 0, memory_order_release);
            } else {
                ck_assert_uint_eq(g, generation[index]);
                ck_assert_uint_eq(out[index], kind == COMPLETION_DONE ? 1 : 2);
                if (kind == COMPLETION_DONE)
                    ck_assert_uint_eq(*(uint32_t *)(void *)((char *)up + ring_small(up->arena, index)), g);
                out[index] = 0;
                done++;
            }
            c = &up->completions[++head % RING_COMPLETIONS];
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(atomic_load(&up->tail), head);
    ck_assert_uint_eq(taken_entries, JOBS);
}
END_TEST

/* --- faults --- */

START_TEST(first_fault_leaves_the_note)
{
    ck_assert_ptr_nonnull(back_fault(back, 5, 6, 2, SIGSEGV, 1, (void *)(uintptr_t)0x1234));
    ck_assert_uint_eq(atomic_load(&up->fault.written), 1);
    ck_assert(!bell_rang()); /* the backtrace comes first */
    back_fault_told(back);
    ck_assert_uint_eq(atomic_load(&up->fault.told), 1);
    ck_assert(bell_rang());
    ck_assert_ptr_null(back_fault(back, 7, 8, 3, SIGBUS, 2, NULL));
    ck_assert_uint_eq(up->fault.slot, 5);
    ck_assert_uint_eq(up->fault.generation, 6);
    ck_assert_uint_eq(up->fault.worker, 2);
    ck_assert_int_eq(up->fault.signal, SIGSEGV);
    ck_assert_int_eq(up->fault.code, 1);
    ck_assert_uint_eq(up->fault.address, 0x1234);
}
END_TEST

static void *write_note_later(void *arg)
{
    usleep(30000);
    up->fault.signal = SIGILL;
    atomic_store(&up->fault.written, 1);
    usleep(30000);
    atomic_store(&up->fault.told, 1);
    return NULL;
}

START_TEST(second_fault_waits_for_the_first_note)
{
    pthread_t thread;

    atomic_store(&up->fault.written, 2); /* another thread is writing it */
    pthread_create(&thread, NULL, write_note_later, NULL);
    back_fault(back, 7, 8, 3, SIGBUS, 2, NULL);
    ck_assert_uint_eq(atomic_load(&up->fault.written), 1);
    ck_assert_uint_eq(atomic_load(&up->fault.told), 1);
    pthread_join(thread, NULL);
    ck_assert_int_eq(up->fault.signal, SIGILL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ring/back");
    TCase *t = tcase_create("back"), *bare = tcase_create("bare");

    tcase_add_test(bare, regions_of_another_making_are_refused);
    suite_add_tcase(s, bare);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test_raise_signal(t, request_half_cannot_be_written, SIGSEGV);
    tcase_add_test(t, slots_are_taken_in_order_and_once);
    tcase_add_test(t, what_is_soon_over_is_worth_no_worker);
    tcase_add_test(t, ring_goes_round);
    tcase_add_test(t, nonsense_in_the_ring_is_passed_over);
    tcase_add_test(t, queued_slot_is_claimed_with_its_time);
    tcase_add_test(t, recalled_slot_is_completed_as_such);
    tcase_add_test(t, request_is_read_with_all_its_parts);
    tcase_add_test(t, output_is_claimed_once_and_only_before_it_is_closed);
    tcase_add_test(t, a_traceparent_stands_behind_the_arguments);
    tcase_add_test(t, what_the_slot_has_itself_ends_with_the_slot);
    tcase_add_test(t, bell_rings_only_for_a_sleeper);
    tcase_add_test(t, every_chunk_is_given_out_once);
    tcase_add_test(t, run_does_not_go_round_the_end);
    tcase_add_test(t, released_run_is_no_longer_held);
    tcase_add_test(t, release_wakes_a_waiter_for_room);
    tcase_add_test(t, workers_at_once_lose_and_double_nothing);
    tcase_add_test(t, first_fault_leaves_the_note);
    tcase_add_test(t, second_fault_waits_for_the_first_note);
    suite_add_tcase(s, t);
    return run_suite(s);
}
