/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-lane.c: a direct lane as the executor, wsd and the client library read it, while other code writes its memory.
 * Input: a script of steps, each a byte and its arguments. Steps are honest calls, words written anywhere or where they
 * do harm, and reads by all three.
 * Keeps: What is taken is a slot. A request that is read lies within its copy. What the client is told of lies inside
 * the slot. No read takes more than a round.
 * The mappings are made once; what a script wrote is put back. */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "ring/lane-ring.h"

#define STEPS_MAX 256

static struct lane_front front;
static struct lane_back back;
static struct lane_client client, fresh;
static struct lane_memory *clean;
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

static void begin(void)
{
    clean = calloc(1, sizeof(*clean));
    FUZZ_CHECK(clean && lane_front_init(&front) == 0);
    FUZZ_CHECK(lane_back_init(&back, front.memory_fd, front.grant_fd) == 0);
    FUZZ_CHECK(lane_client_init(&fresh, front.memory_fd, front.grant_fd, false) == 0);
    memcpy(clean, front.memory, sizeof(*clean));
    lane_front_credit(&front, LANE_SLOTS);
    lane_front_allow(&front, 1, true);
}

static void push(void)
{
    char bytes[64] = {0};
    const char *const args[] = {bytes, bytes + 8};
    uint32_t n = (uint32_t)take(1) % 5;
    bool any = false;

    if (!lane_client_has_room(&client))
        return;
    uint32_t slot = lane_client_begin(&client);
    while (n-- > 0)
        any |= lane_client_add(&client, slot,
                               &(struct lane_call){.args = args,
                                                   .n_args = take(1) % 3,
                                                   .input = bytes,
                                                   .input_size = take(1) % 32,
                                                   .room = take(2) % (LANE_OUTPUT + 1)});
    if (!any) {
        lane_client_free_slot(&client, slot);
        return;
    }
    lane_client_push(&client, slot, (uint32_t)take(1), 0);
    lane_client_ring(&client, 1, take(1) & 1);
}

static void poke(void)
{
    uint8_t *memory = (uint8_t *)front.memory;
    uint64_t where = take(3), value = take(8);
    struct lane_slot *s = &front.memory->slots[where % LANE_SLOTS];

    switch (where >> 20) {
    case 0:
        atomic_store(&front.memory->tail, value);
        break;
    case 1:
        atomic_store(&front.memory->tail, atomic_load(&back.head) + value % (2 * LANE_SLOTS));
        break;
    case 2:
        atomic_store(&front.memory->ring[where % LANE_SLOTS], value);
        break;
    case 3:
        atomic_store(&front.memory->ring[where % LANE_SLOTS], ring_word((uint32_t)value, (uint32_t)(value >> 32 & 63)));
        break;
    case 4:
        atomic_store(&s->state, value);
        break;
    case 5:
        atomic_store(&s->state, ring_word((uint32_t)(1 + (value >> 8) % 3), (uint32_t)(value % 5)));
        break;
    case 6:
        s->size = (uint32_t)value;
        break;
    case 7:
        s->n_items = (uint32_t)value;
        break;
    case 8:
        atomic_store(&s->turn, (uint32_t)value);
        break;
    case 9:
        s->output_size = (uint32_t)value;
        break;
    case 10:
        s->outcome = (uint32_t)value;
        break;
    case 11:
        memset(s->error, (int)value, sizeof(s->error));
        break;
    case 12:
        memset(s->bytes, (int)value, sizeof(s->bytes));
        break;
    case 13:
        memcpy(s->bytes + where % 128 * 16, &value, 8);
        break; /* where items are */
    case 14:
        s->ends[where % (LANE_ITEMS - 1)].output_size = (uint32_t)value;
        break;
    default:
        memcpy(memory + where % (sizeof(*clean) - 8), &value, 8);
    }
}

static void check_request(const struct lane_request *q)
{
    FUZZ_CHECK(q->item < q->n_items && q->n_items <= LANE_ITEMS);
    FUZZ_CHECK(q->call.args_at <= LANE_ROOM && q->call.args_size <= LANE_ROOM - q->call.args_at);
    FUZZ_CHECK(q->call.output_at <= LANE_OUTPUT && q->call.room <= LANE_OUTPUT - q->call.output_at);
    FUZZ_CHECK(q->call.input_at >= q->call.args_at + q->call.args_size && q->call.input_at <= LANE_ROOM &&
               q->call.input_size <= LANE_ROOM - q->call.input_at);
    FUZZ_CHECK(q->call.args_size == 0 || q->bytes[q->call.args_at + q->call.args_size - 1] == 0);
}

static void work(void)
{
    static const char output[LANE_OUTPUT];
    static struct lane_request q;
    uint32_t generation = 0, slot;

    lane_back_ready(&back);
    slot = lane_back_take(&back, &generation);
    FUZZ_CHECK(slot == RING_NONE || slot < LANE_SLOTS);
    if (slot == RING_NONE || !lane_back_claim(&back, slot, generation))
        return;
    FUZZ_CHECK(!lane_back_claim(&back, slot, generation));
    if (lane_back_read(&back, slot, &q) < 0)
        return;
    check_request(&q);
    FUZZ_CHECK(!lane_back_allowed(&back, q.bind) || q.bind == 1);
    for (uint32_t turns = (uint32_t)take(1) % 6; turns--;) {
        uint32_t size = (uint32_t)take(2);
        struct lane_end end = {.output_size = MIN(q.call.room, size)};
        uint32_t item = q.item;

        if (!lane_back_turn(&back, slot, &q, &end, output))
            break;
        FUZZ_CHECK(q.item == item + 1);
        check_request(&q);
    }
    if (take(1) & 1) {
        uint32_t size = (uint32_t)take(2);

        lane_back_answer(&back, slot, generation, q.call.output_at,
                         &(struct lane_answer){.output = output, .output_size = MIN(q.call.room, size)});
    }
}

static void look(void)
{
    uint32_t slot = (uint32_t)take(1) % LANE_SLOTS, generation;
    enum lane_state state = lane_front_look(&front, slot, &generation);

    FUZZ_CHECK(state <= LANE_LOST);
    if (state == LANE_QUEUED || state == LANE_RUNNING) {
        FUZZ_CHECK(lane_front_judge(&front, slot, generation, state, LANE_CRASHED, "fuzz"));
        FUZZ_CHECK(!lane_front_judge(&front, slot, generation, state, LANE_AGAIN, "fuzz"));
    }
}

static void result(void)
{
    uint32_t slot = (uint32_t)take(1) % LANE_SLOTS;
    static struct lane_result r;

    if (!lane_client_ended(&client, slot))
        return;
    if (client.pushed[slot].n == 0)
        return;
    if (take(1) & 1)
        FUZZ_CHECK(lane_client_close(&client, slot) < client.pushed[slot].n);
    uint32_t last = lane_client_last(&client, slot);
    FUZZ_CHECK(last < client.pushed[slot].n);
    for (uint32_t i = 0; i < last; i++) {
        const void *from;
        struct lane_end end;

        lane_client_end(&client, slot, i, &end, &from);
        FUZZ_CHECK((const uint8_t *)from + end.output_size <= client.memory->slots[slot].output + LANE_OUTPUT);
        for (size_t k = 0; k < end.output_size; k++)
            (void)((const volatile uint8_t *)from)[k];
    }
    lane_client_result(&client, slot, &r);
    FUZZ_CHECK(r.output_size <= LANE_OUTPUT && r.outcome <= LANE_AGAIN);
    FUZZ_CHECK(memchr(r.error, 0, sizeof(r.error)) && memchr(r.status, 0, sizeof(r.status)));
    for (size_t i = 0; i < r.output_size; i++)
        (void)((const volatile uint8_t *)r.output)[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!clean)
        begin();
    script = data;
    script_size = size;
    client = fresh;
    memset(front.grant->verdicts, 0, sizeof(front.grant->verdicts));
    atomic_store(&front.memory->tail, 0);
    atomic_store(&back.head, 0);
    for (int i = 0; i < STEPS_MAX && script_size; i++)
        switch (take(1) % 6) {
        case 0:
            push();
            break;
        case 1:
        case 2:
            poke();
            break;
        case 3:
            work();
            break;
        case 4:
            look();
            break;
        default:
            result();
        }
    memcpy(front.memory, clean, sizeof(*clean));
    return 0;
}
