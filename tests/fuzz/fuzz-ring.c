/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-ring.c: wsd's end of the rings against an executor that writes anything. Input: a script of steps, each a byte
 * and its arguments. Steps hand over jobs, write words into `up` (anywhere, or where they do harm), answer honestly, or
 * have wsd read it all.
 * Keeps: A completion is of a job that is with the executor, and DONE or RECALLED comes once for each. What is handed
 * to the caller lies inside the mapping and within the limits. A fault note names such a job, a direct call, or none.
 * The mappings are made once; what a script wrote is put back. */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "ring/back.h"
#include "ring/front.h"

#define STEPS_MAX 512
#define HOLES_MAX 2 /* looks behind a hole, each of which goes through the whole ring */

static struct front f, fresh;
static bool handed[RING_SLOTS], recalled[RING_SLOTS];
static uint32_t generations[RING_SLOTS], n_items[RING_SLOTS]; /* beside the first */
static uint32_t slots[STEPS_MAX], n_slots;                    /* ever handed in this script */
static struct poke {
    uint8_t *at;
    uint64_t was;
    size_t size;
} pokes[8 * STEPS_MAX];
static size_t n_pokes;
static unsigned n_holes;
static const uint8_t *script;
static size_t script_size;

static uint64_t take(size_t n)
{
    uint64_t value = 0;

    n = MIN(n, script_size);
    memcpy(&value, script, n);
    script += n;
    script_size -= n;
    return value;
}

/* --- the executor ------------------------------------------------------------------------------------------------- */

static void poke(volatile void *at, uint64_t value, size_t size)
{
    struct poke *p = &pokes[n_pokes++];

    FUZZ_CHECK(n_pokes < sizeof(pokes) / sizeof(*pokes));
    *p = (struct poke){.at = (uint8_t *)(uintptr_t)at, .size = size};
    memcpy(&p->was, p->at, size);
    memcpy(p->at, &value, size);
}

static uint32_t some_slot(void)
{
    uint32_t i = (uint32_t)take(1);

    return n_slots && i < 224 ? slots[i % n_slots] : i < 240 ? i : (uint32_t)take(4);
}

static uint32_t some_generation(uint32_t slot)
{
    uint32_t i = (uint32_t)take(1);

    return slot >= RING_SLOTS || i > 250 ? (uint32_t)take(4) : generations[slot] + (i & 128 ? i % 3 : 0);
}

static void push(uint64_t value)
{
    uint32_t how = (uint32_t)take(1);
    uint64_t at = f.head + (how < 128 ? 0 : how % 16);
    struct completion *c = &f.up->completions[at % RING_COMPLETIONS];

    poke(&c->value, value, 8);
    poke(&c->seq, how % 16 == 15 ? take(8) : at + 1, 8);
}

static void push_any(void)
{
    uint32_t kind = (uint32_t)take(1), slot = some_slot();

    push((uint64_t)(kind < 192 ? 1 + kind % 3 : kind) << 56 | (uint64_t)(slot & 0xffffffu) << 32 |
         some_generation(slot));
}

static void answer(void)
{
    uint32_t slot = some_slot() % RING_SLOTS, generation = some_generation(slot);

    poke(&f.up->slots[slot].small_size, take(2), 4);
    poke(&f.up->slots[slot].state, ring_word(generation, take(1) & 1 ? RING_DONE : RING_RECALLED), 8);
    push(completion_word(take(1) & 1 ? COMPLETION_DONE : COMPLETION_RECALLED, slot, generation));
}

static void output(void)
{
    uint32_t slot = some_slot(), chunk = (uint32_t)take(2), run = (uint32_t)take(1);
    struct up_chunk *c = &f.up->chunks[chunk % RING_CHUNKS];

    poke(&c->slot, slot, 4);
    poke(&c->run, run < 250 ? run % 20 : take(4), 4);
    poke(&c->size, run & 1 ? take(2) : take(4), 4);
    push(completion_word(COMPLETION_OUTPUT, chunk, some_generation(slot)));
}

static void poke_slot(void)
{
    struct up_slot *u = &f.up->slots[some_slot() % RING_SLOTS];
    size_t at = take(2) % (sizeof(*u) / 4) * 4;

    poke((uint8_t *)u + at, take(4), 4);
}

static void poke_anywhere(void)
{
    size_t at = take(3) % (sizeof(*f.up) / 8) * 8;

    poke((uint8_t *)f.up + at, take(8), 8);
}

static void poke_fault(void)
{
    struct fault_note *n = &f.up->fault;
    uint32_t slot = some_slot();

    poke(&n->slot, slot, 4);
    poke(&n->generation, some_generation(slot), 4);
    poke(&n->written, take(1) % 4, 4);
}

/* --- wsd ---------------------------------------------------------------------------------------------------------- */

static void check_data(const struct front_completion *c, uint64_t offset, size_t room)
{
    const uint8_t *begin = (const uint8_t *)f.up, *data = c->data;
    size_t whole = ((sizeof(*f.up) + 4095) & ~(size_t)4095) + RING_ARENA_SIZE;

    FUZZ_CHECK(c->size <= room && data >= begin && data + c->size <= begin + whole);
    FUZZ_CHECK(data == begin + ((sizeof(*f.up) + 4095) & ~(size_t)4095) + offset);
    if (c->size) /* it is mapped */
        FUZZ_CHECK(((volatile const uint8_t *)data)[0] + ((volatile const uint8_t *)data)[c->size - 1] < 512);
}

/* It begins behind what the jobs before it in a bundle have there. */
static void check_answer(const struct front_completion *c)
{
    uint64_t small = ((sizeof(*f.up) + 4095) & ~(size_t)4095) + ring_small(0, c->slot);
    uint64_t at = (uint64_t)((const uint8_t *)c->data - (const uint8_t *)f.up) - small;

    FUZZ_CHECK(at <= RING_SMALL);
    check_data(c, ring_small(0, c->slot) + at, RING_SMALL - at);
    FUZZ_CHECK(memchr(c->error, 0, sizeof(c->error)) && memchr(c->status, 0, sizeof(c->status)));
}

static void taken(const struct front_completion *c)
{
    FUZZ_CHECK(c->slot < RING_SLOTS && handed[c->slot] && c->generation == generations[c->slot]);
    if (c->kind == COMPLETION_OUTPUT) {
        FUZZ_CHECK(c->run >= 1 && c->run <= RING_RUN_MAX && c->chunk < RING_CHUNKS && c->chunk + c->run <= RING_CHUNKS);
        check_data(c, ring_chunk(0, c->chunk), (size_t)c->run * RING_CHUNK);
        front_release(&f, c->chunk, c->run);
        return;
    }
    FUZZ_CHECK(c->kind == (recalled[c->slot] ? COMPLETION_RECALLED : COMPLETION_DONE));
    if (c->kind == COMPLETION_DONE)
        check_answer(c);
    handed[c->slot] = recalled[c->slot] = false;
    front_retire(&f, c->slot);
}

static void look(int (*next)(struct front *f, struct front_completion *ret))
{
    struct front_completion c = {0};
    int r = next(&f, &c);

    FUZZ_CHECK(r == 0 || r == FRONT_NONE || r == FRONT_E_LIES);
    if (r == 0)
        taken(&c);
}

static void hand_over(void)
{
    static const char bytes[70000];
    uint32_t how = (uint32_t)take(1), size = how < 240 ? how : (uint32_t)take(2), slot, generation;
    struct front_job job = {.id = (const uint8_t *)"0123456789abcdef",
                            .args = bytes,
                            .args_size = size,
                            .directory = size & 1 ? "/" : NULL,
                            .input = bytes,
                            .input_size = size / 2,
                            .n_items = size % 16 == 5 ? size / 16 % (RING_BUNDLE + 1) : 0};
    int r = front_prepare(&f, &job, &slot, &generation);

    FUZZ_CHECK(r == 0 || r == FRONT_E_FULL);
    if (r != 0)
        return;
    FUZZ_CHECK(slot < RING_SLOTS && !handed[slot] && generation != generations[slot]);
    generations[slot] = generation;
    n_items[slot] = MAX(job.n_items, 1u) - 1;
    if (size % 16 == 7) {
        front_abandon(&f, slot);
        return;
    }
    handed[slot] = true;
    slots[n_slots++] = slot;
    front_submit(&f, slot, (uint32_t)take(1));
    front_ring(&f);
}

static void look_at_slot(uint32_t how)
{
    uint32_t slot = some_slot() % RING_SLOTS;
    struct front_completion c = {0};
    uint64_t a, b;

    if (!handed[slot])
        return;
    switch (how) {
    case 0:
        if (front_recall(&f, slot))
            recalled[slot] = true;
        else
            FUZZ_CHECK(!recalled[slot]);
        break;
    case 1:
        front_cancel(&f, slot);
        front_progress(&f, slot, &a, &b);
        front_running(&f, slot, &a);
        break;
    default:
        c.slot = slot;
        if (front_autopsy(&f, slot, &c) == RING_DONE)
            check_answer(&c);
    }
}

/* Closes a bundle. What front_close() has returned stays the same, whatever is written after it. */
static void close_bundle(void)
{
    uint32_t slot = some_slot() % RING_SLOTS, turn;
    struct front_completion c = {0};

    if (!handed[slot] || recalled[slot])
        return;
    poke(&f.up->bundles[slot].at, ring_word(some_generation(slot), (uint32_t)take(1)), 8);
    poke(&f.up->bundles[slot].ends[0].output_at, take(2), 2);
    poke(&f.up->bundles[slot].ends[0].output_size, take(2), 2);
    turn = front_close(&f, slot);
    FUZZ_CHECK(turn <= n_items[slot]);
    poke(&f.up->bundles[slot].at, take(8), 8);
    poke(&f.up->slots[slot].state, ring_word(generations[slot], RING_QUEUED), 8);
    FUZZ_CHECK(front_close(&f, slot) == turn && !front_recall(&f, slot));
    for (uint32_t i = 0; i < turn; i++)
        if (front_ended_whole(&f, slot, i, &c) == 0)
            check_answer(&c);
}

static void look_at_rest(void)
{
    struct fault_note note;

    if (front_fault(&f, &note))
        FUZZ_CHECK(note.slot == RING_NONE || (note.slot >= RING_SLOTS && note.slot < ring_lane_slot(RING_LANES, 0)) ||
                   (note.slot < RING_SLOTS && handed[note.slot] && generations[note.slot] == note.generation));
    front_asleep(&f);
    front_awake(&f);
}

static void step(void)
{
    switch (take(1) % 16) {
    case 0:
    case 1:
        hand_over();
        break;
    case 2:
        push_any();
        break;
    case 3:
    case 4:
        answer();
        break;
    case 5:
    case 6:
        output();
        break;
    case 7:
        poke_slot();
        break;
    case 8:
        poke_anywhere();
        break;
    case 9:
        poke_fault();
        look_at_rest();
        break;
    case 10:
        look_at_slot(0);
        break;
    case 11:
        look_at_slot(1);
        break;
    case 12:
        look_at_slot(2);
        break;
    case 13:
        if (n_holes++ < HOLES_MAX)
            look(front_next_behind_hole);
        break;
    case 14:
        close_bundle();
        break;
    default:
        look(front_next);
    }
}

static void put_back(void)
{
    while (n_pokes > 0) {
        struct poke *p = &pokes[--n_pokes];

        memcpy(p->at, &p->was, p->size);
    }
    for (; n_slots > 0; n_slots--) {
        struct up_slot *u = &f.up->slots[slots[n_slots - 1]];

        u->state = u->progress_done = u->progress_total = 0;
        f.up->bundles[slots[n_slots - 1]].at = 0;
    }
    f.up->asleep = 0;
    memset(&f.up->doorbell, 0, sizeof(f.up->doorbell));
    memset(&f.up->space, 0, sizeof(f.up->space));
    memset(handed, 0, sizeof(handed));
    memset(recalled, 0, sizeof(recalled));
    memset(generations, 0, sizeof(generations));
    n_holes = 0;
    f = fresh;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t n = 0;

    if (!fresh.up) {
        FUZZ_CHECK(front_init(&fresh) == 0);
        f = fresh;
    }
    script = data;
    script_size = size;
    for (int i = 0; i < STEPS_MAX && script_size > 0; i++)
        step();
    for (uint32_t i = 0; i < RING_SLOTS; i++)
        n += handed[i];
    FUZZ_CHECK(f.n_free + n == RING_SLOTS);
    put_back();
    return 0;
}
