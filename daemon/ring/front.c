/* SPDX-License-Identifier: Apache-2.0
 *
 * front.c: wsd's end of the shared memory.
 * Owns both mappings and their descriptors. Owns the private truth about them: cursors, generations, the job that holds
 * each slot and chunk. [loop]
 * Keeps: what is read from `up` is first copied. It is used only after a check against the private truth. A slot is
 * used again only after its completion.
 * Does not know jobs or processes, and never waits. */
#include "ring/front.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/escape.h"
#include "ring/region.h"

int front_init(struct front *f)
{
    uint64_t down_arena = page_up(sizeof(struct down)), up_arena = page_up(sizeof(struct up));
    void *map;
    int r;

    memset(f, 0, sizeof(*f));
    f->down_fd = f->up_fd = f->bell_fd = -1;
    /* F_SEAL_FUTURE_WRITE: our writable mapping stays, no other process gets one */
    r = region_new("wsd-down", down_arena + RING_ARENA_SIZE, F_SEAL_FUTURE_WRITE, &f->down_fd, &map);
    if (r < 0)
        return r;
    f->down = map;
    r = region_new("wsd-up", up_arena + RING_UP_TAIL, 0, &f->up_fd, &map);
    if (r >= 0) {
        f->up = map;
        f->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (f->bell_fd < 0)
            r = -errno;
    }
    if (r < 0) {
        front_deinit(f);
        return r;
    }
    f->down->magic = f->up->magic = RING_MAGIC;
    f->down->version = f->up->version = RING_VERSION;
    f->down->arena = down_arena;
    f->up->arena = up_arena;
    f->down->size = down_arena + RING_ARENA_SIZE;
    f->up->size = up_arena + RING_UP_TAIL;
    eventcount_init(&f->up->doorbell);
    atomic_init(&f->up->searchers, 0);
    atomic_init(&f->up->hold, 0);
    eventcount_init(&f->up->space);
    f->n_free = RING_SLOTS;
    for (uint32_t i = 0; i < RING_SLOTS; i++) {
        f->free_slots[i] = RING_SLOTS - 1 - i; /* the lowest first: few pages are touched while little is in flight */
        f->generation[i] = 1;
    }
    return 0;
}

void front_deinit(struct front *f)
{
    if (f->down)
        munmap(f->down, page_up(sizeof(struct down)) + RING_ARENA_SIZE);
    if (f->up)
        munmap(f->up, page_up(sizeof(struct up)) + RING_UP_TAIL);
    f->down = NULL;
    f->up = NULL;
    f->down_fd = close_fd(f->down_fd);
    f->up_fd = close_fd(f->up_fd);
    f->bell_fd = close_fd(f->bell_fd);
}

struct up_called *front_called(const struct front *f, uint32_t lane, uint32_t bind)
{
    return (struct up_called *)(void *)((uint8_t *)f->up + ring_called(page_up(sizeof(struct up)), lane, bind));
}

/* The lowest run of n free chunks of the down arena: chunks that were used before have their pages on both sides.
 * RING_NONE: there is none. */
static uint32_t chunks_take(struct front *f, uint32_t n)
{
    uint32_t run = 0;

    for (uint32_t at = 0; at < RING_CHUNKS; at++) {
        run = f->chunk_used[at] ? 0 : run + 1;
        if (run == n) {
            memset(f->chunk_used + at + 1 - n, 1, n);
            return at + 1 - n;
        }
    }
    return RING_NONE;
}

static void chunks_give(struct front *f, uint32_t slot)
{
    memset(f->chunk_used + f->first_chunk[slot], 0, f->n_chunks[slot]);
    f->n_chunks[slot] = 0;
}

int front_prepare(struct front *f, const struct front_job *job, uint32_t *ret_slot, uint32_t *ret_generation)
{
    size_t directory_size = job->directory ? strlen(job->directory) + 1 : 0;
    size_t traceparent_size = job->traceparent ? RING_TRACEPARENT : 0;
    uint64_t head_size = ring_aligned(directory_size + job->args_size + traceparent_size);
    uint64_t size = head_size + (job->input ? job->input_size : 0);

    if (size > (uint64_t)RING_RUN_MAX * RING_CHUNK)
        return FRONT_E_LARGE;
    if (f->n_free == 0)
        return FRONT_E_FULL;
    uint32_t slot = f->free_slots[f->n_free - 1];
    bool tiny = size <= RING_TINY && !(job->flags & DOWN_ELSEWHERE);
    uint64_t blob = tiny ? ring_tiny(slot) : ring_small(f->down->arena, slot);
    f->n_chunks[slot] = 0;
    if (size > RING_SMALL) {
        uint32_t n = (uint32_t)((size + RING_CHUNK - 1) / RING_CHUNK), first = chunks_take(f, n);

        if (first == RING_NONE)
            return FRONT_E_FULL;
        f->first_chunk[slot] = (uint16_t)first;
        f->n_chunks[slot] = (uint16_t)n;
        blob = ring_chunk(f->down->arena, first);
    }
    f->n_free--;
    f->n_items[slot] = (uint8_t)MAX(job->n_items, 1u);
    f->begun[slot] = f->closed[slot] = f->turn[slot] = 0;

    struct down_slot *d = &f->down->slots[slot];
    uint8_t *p = (uint8_t *)f->down + blob;
    memcpy(d->id, job->id, sizeof(d->id));
    d->generation = f->generation[slot];
    d->plugin = job->plugin;
    d->function = (uint16_t)job->function;
    d->argc = (uint16_t)job->argc;
    d->flags = (uint16_t)(job->flags | (job->traceparent ? DOWN_TRACEPARENT : 0u));
    d->n_items = (uint16_t)job->n_items;
    d->directory_size = (uint32_t)directory_size;
    d->args_size = (uint32_t)job->args_size;
    d->input_size = job->input_size;
    if (job->flags & DOWN_ELSEWHERE) {
        d->input_at = job->input_at;
        d->output_at = job->output_at;
        d->output_size = job->output_size;
        d->arena = job->arena;
    }
    if (job->flags & DOWN_OUTPUT_FD) /* relaxed: ordered by the state */
        atomic_store_explicit(&f->up->slots[slot].output_state, ring_word(f->generation[slot], RING_OUTPUT_NONE),
                              memory_order_relaxed);
    d->blob = (uint32_t)blob;
    d->timeout_usec = job->timeout_usec;
    atomic_store_explicit(&d->cancel, 0, memory_order_relaxed);
    if (directory_size)
        memcpy(p, job->directory, directory_size);
    if (job->args_size)
        memcpy(p + directory_size, job->args, job->args_size);
    if (job->traceparent)
        memcpy(p + directory_size + job->args_size, job->traceparent, RING_TRACEPARENT);
    if (job->input)
        ring_put(p + head_size, job->input, job->input_size);
    *ret_slot = slot;
    *ret_generation = f->generation[slot];
    return 0;
}

void front_submit(struct front *f, uint32_t slot, uint32_t expected_usec)
{
    struct up_slot *u = &f->up->slots[slot];
    uint64_t entry = ring_entry(f->generation[slot], slot, MIN(expected_usec, RING_WORTH_USEC));

    f->handed[slot] = 1;
    /* relaxed: ordered by the state */
    if (f->n_items[slot] > 1)
        atomic_store_explicit(&f->up->bundles[slot].at, ring_word(f->generation[slot], 0), memory_order_relaxed);
    /* release: partner is the acquire CAS in back_claim(), which reads the down slot after it */
    atomic_store_explicit(&u->state, ring_word(f->generation[slot], RING_QUEUED), memory_order_release);
    atomic_store_explicit(&f->down->ring[f->tail % RING_SLOTS], entry, memory_order_relaxed);
    f->tail++;
    /* release: partner is the acquire load of tail in back_take() */
    atomic_store_explicit(&f->down->tail, f->tail, memory_order_release);
}

void front_abandon(struct front *f, uint32_t slot)
{
    chunks_give(f, slot);
    f->generation[slot]++;
    f->free_slots[f->n_free++] = slot;
}

bool front_ring(struct front *f)
{
    uint32_t nobody = 0;

    /* acq_rel, an RMW of zero: partner is the RMW by which a worker stops searching, after which it looks at the ring
     * once more. Either that worker sees the tail then, or we see that it has stopped. A worker that is being woken, or
     * has begun to search since, has that look still ahead. */
    if (atomic_fetch_add_explicit(&f->up->searchers, 0, memory_order_acq_rel) != 0 ||
        !atomic_compare_exchange_strong_explicit(&f->up->searchers, &nobody, RING_WAKE_PENDING, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    /* Wakes one sleeper, which wakes the next itself while there is more. If there is no sleeper, each worker will
     * search before it sleeps, and a search clears the bit. */
    return eventcount_notify(&f->up->doorbell, 1, true);
}

void front_submitted(struct front *f)
{
    /* seq_cst RMW of zero: partner is the one in eventcount_prepare(). If that one is later, its worker looks at the
     * ring after it, and sees the tail. If it was earlier, so was the end of the worker's slot, and we see that. */
    atomic_fetch_add_explicit(&f->up->doorbell.waiters, 0, memory_order_seq_cst);
}

bool front_recall(struct front *f, uint32_t slot)
{
    uint64_t word = ring_word(f->generation[slot], RING_QUEUED);

    if (f->recalled[slot])
        return true;
    if (f->begun[slot])
        return false;
    /* relaxed: it hands nothing over; the worker's CAS fails or ours does */
    if (!atomic_compare_exchange_strong_explicit(&f->up->slots[slot].state, &word,
                                                 ring_word(f->generation[slot], RING_RECALLED), memory_order_relaxed,
                                                 memory_order_relaxed))
        return false;
    f->recalled[slot] = 1;
    return true;
}

uint32_t front_close(struct front *f, uint32_t slot)
{
    f->begun[slot] = 1;
    if (f->n_items[slot] == 1 || f->closed[slot]) /* whatever `at` says now */
        return f->turn[slot];
    /* acquire: partner is the release CAS in back_turn(), so the records of the jobs before are there; its next CAS
     * fails */
    uint64_t word = atomic_fetch_or_explicit(&f->up->bundles[slot].at, BUNDLE_CLOSED, memory_order_acquire);
    uint32_t at = (uint32_t)word & ~BUNDLE_CLOSED;

    if (word >> 32 != f->generation[slot] || at >= f->n_items[slot])
        at = 0; /* malformed: jobs that cannot be accounted for are begun again */
    f->closed[slot] = 1;
    return f->turn[slot] = (uint8_t)at;
}

void front_go_on(struct front *f, uint32_t slot)
{
    if (front_close(f, slot) + 1 >= f->n_items[slot])
        return;
    /* release: partner is the acquire load in back_take(); what was recalled meanwhile is not begun. A worker that had
     * looked sleeps, or will look once more, as for new work. */
    atomic_fetch_sub_explicit(&f->up->hold, 1, memory_order_release);
    front_ring(f);
}

int front_ended(struct front *f, uint32_t slot, uint32_t item, struct front_end *ret)
{
    const volatile struct up_end *e = &f->up->bundles[slot].ends[item];
    uint32_t at = e->output_at, size = e->output_size;

    if (at > RING_SMALL || size > RING_SMALL - at)
        return FRONT_E_LIES;
    ret->data = (const uint8_t *)f->up + ring_small(page_up(sizeof(struct up)), slot) + at;
    ret->size = size;
    ret->run_usec = e->run_usec;
    ret->cpu_usec = e->cpu_usec;
    ret->started_usec = ((const volatile struct up_bundle *)&f->up->bundles[slot])->started_usec + e->later_usec;
    __builtin_prefetch(ret->data); /* it was written on another CPU, and is read soon */
    return 0;
}

int front_ended_whole(struct front *f, uint32_t slot, uint32_t item, struct front_completion *ret)
{
    struct front_end end;

    if (front_ended(f, slot, item, &end) != 0)
        return FRONT_E_LIES;
    ret->kind = COMPLETION_DONE;
    ret->slot = slot;
    ret->generation = f->generation[slot];
    ret->data = end.data;
    ret->size = ret->output_size = end.size;
    ret->worker = ((const volatile struct up_slot *)&f->up->slots[slot])->worker;
    ret->exit = 0;
    ret->messages = 0;
    ret->started_usec = end.started_usec;
    ret->ended_usec = end.started_usec + end.run_usec;
    ret->cpu_usec = end.cpu_usec;
    ret->done = ret->total = 0; /* a job that reports progress is the last of its slot */
    *ret->error = *ret->status = 0;
    return 0;
}

void front_cancel(struct front *f, uint32_t slot)
{
    atomic_store_explicit(&f->down->slots[slot].cancel, 1, memory_order_relaxed);
    eventcount_notify(&f->up->space, UINT32_MAX, true); /* it may be waiting for room */
}

void front_progress(struct front *f, uint32_t slot, uint64_t *ret_done, uint64_t *ret_total)
{
    const struct up_slot *u = &f->up->slots[slot];

    *ret_done = *ret_total = 0;
    /* acquire: partner is the release store in back_progress(); the numbers are not older than the mark */
    if (atomic_load_explicit(&u->progress_of, memory_order_acquire) != f->generation[slot])
        return;
    *ret_done = atomic_load_explicit(&u->progress_done, memory_order_relaxed);
    *ret_total = atomic_load_explicit(&u->progress_total, memory_order_relaxed);
}

bool front_waiting(struct front *f, uint32_t slot)
{
    /* Relaxed: nothing is read after it. */
    return atomic_load_explicit(&f->up->slots[slot].state, memory_order_relaxed) ==
           ring_word(f->generation[slot], RING_QUEUED);
}

bool front_sealed(struct front *f, uint32_t slot)
{
    /* Relaxed: nothing is read after it. */
    return atomic_load_explicit(&f->up->slots[slot].state, memory_order_relaxed) ==
           ring_word(f->generation[slot], RING_DONE);
}

bool front_running(struct front *f, uint32_t slot, uint64_t *ret_started_usec)
{
    struct up_slot *u = &f->up->slots[slot];

    /* acquire: partner is the CAS in back_claim(), which comes after the time was written; in the other order it could
     * be the time of the slot's job before */
    bool running =
        atomic_load_explicit(&u->state, memory_order_acquire) == ring_word(f->generation[slot], RING_RUNNING);
    *ret_started_usec = atomic_load_explicit(&u->started_usec, memory_order_relaxed);
    return running;
}

bool front_running_bundle(struct front *f, uint32_t slot, uint64_t *ret_started_usec)
{
    const struct up_bundle *b = &f->up->bundles[slot];

    if (!front_running(f, slot, ret_started_usec))
        return false;
    /* acquire: partner is the release CAS in back_turn(), which comes after the time was written */
    uint64_t word = atomic_load_explicit(&b->at, memory_order_acquire);
    if (word >> 32 == f->generation[slot] && ((uint32_t)word & ~BUNDLE_CLOSED) != 0)
        *ret_started_usec = ((const volatile struct up_bundle *)b)->started_usec;
    return true;
}

/* Copies a text that may change while it is copied. */
static void text_copy(char *to, const volatile char *from, size_t size)
{
    size_t n = 0;

    for (char c; n + 1 < size && (c = from[n]) != 0; n++)
        to[n] = c;
    to[n] = 0;
}

/* Makes the text safe to display: the other side may write anything. */
static void line_copy(char ret[RING_TEXT], const volatile char from[RING_TEXT])
{
    char text[RING_TEXT];

    text_copy(text, from, sizeof(text));
    escape_text(ret, RING_TEXT, text);
}

/* Copies the answer half. The worker is done with it, but a malicious executor may still write: each field is read
 * once. */
static int answer_copy(struct front *f, uint32_t slot, struct front_completion *ret)
{
    volatile struct up_slot *u = &f->up->slots[slot];
    uint32_t small_size = u->small_size, small_at = u->small_at;

    if (small_at > RING_SMALL || small_size > RING_SMALL - small_at)
        return FRONT_E_LIES;
    ret->kind = COMPLETION_DONE;
    ret->slot = slot;
    ret->generation = f->generation[slot];
    ret->data = (const uint8_t *)f->up + ring_small(page_up(sizeof(struct up)), slot) + small_at;
    ret->size = small_size;
    ret->worker = u->worker;
    ret->exit = u->exit;
    ret->messages = u->messages;
    ret->started_usec = u->started_usec;
    ret->ended_usec = u->ended_usec;
    ret->cpu_usec = u->cpu_usec;
    ret->output_size = u->output_size;
    ret->done = ret->total = 0;
    *ret->error = *ret->status = 0;
    uint32_t texts = u->texts;
    if (texts & UP_PROGRESS)
        front_progress(f, slot, &ret->done, &ret->total);
    if (texts & UP_TEXTS) {
        line_copy(ret->error, u->error);
        line_copy(ret->status, u->status);
    }
    return 0;
}

static int output_check(struct front *f, uint32_t chunk, uint32_t generation, struct front_completion *ret)
{
    if (chunk >= RING_CHUNKS)
        return FRONT_E_LIES;
    volatile struct up_chunk *c = &f->up->chunks[chunk];
    uint32_t slot = c->slot, size = c->size, run = c->run;

    if (slot >= RING_SLOTS || !f->handed[slot] || f->generation[slot] != generation || run < 1 || run > RING_RUN_MAX ||
        chunk + run > RING_CHUNKS || size > run * RING_CHUNK)
        return FRONT_E_LIES;
    f->begun[slot] = 1;
    ret->kind = COMPLETION_OUTPUT;
    ret->slot = slot;
    ret->generation = generation;
    ret->data = (const uint8_t *)f->up + ring_chunk(page_up(sizeof(struct up)), chunk);
    ret->size = size;
    ret->chunk = chunk;
    ret->run = run;
    return 0;
}

/* Reads one entry of the ring at the private cursor, and moves the cursor on. */
static int completion_read(struct front *f, struct front_completion *ret)
{
    struct completion *c = &f->up->completions[f->head % RING_COMPLETIONS];
    uint64_t value = atomic_load_explicit(&c->value, memory_order_relaxed);
    uint32_t kind = (uint32_t)(value >> 56), index = (uint32_t)(value >> 32) & 0xffffffu, generation = (uint32_t)value;

    f->head++;
    if (kind == COMPLETION_OUTPUT)
        return output_check(f, index, generation, ret);
    if (index >= RING_SLOTS || !f->handed[index] || f->generation[index] != generation)
        return FRONT_E_LIES;
    /* acquire: partner is the release store in back_done() */
    uint64_t word = atomic_load_explicit(&f->up->slots[index].state, memory_order_acquire);
    if (kind == COMPLETION_DONE && word == ring_word(generation, RING_DONE) && !f->recalled[index]) {
        f->begun[index] = 1;
        return answer_copy(f, index, ret);
    }
    if (kind != COMPLETION_RECALLED || word != ring_word(generation, RING_RECALLED) || !f->recalled[index])
        return FRONT_E_LIES;
    ret->kind = COMPLETION_RECALLED;
    ret->slot = index;
    ret->generation = generation;
    ret->data = NULL;
    ret->size = 0;
    return 0;
}

/* acquire: partner is the release store of seq by the worker that pushed the entry */
static bool completion_there(struct front *f, uint64_t position)
{
    return atomic_load_explicit(&f->up->completions[position % RING_COMPLETIONS].seq, memory_order_acquire) ==
           position + 1;
}

/* Prefetches what the entry after the next will need, since it comes from another core. Any value there gives a slot's
 * address. */
static void fetch_ahead(const struct front *f)
{
    uint64_t value =
        atomic_load_explicit(&f->up->completions[(f->head + 2) % RING_COMPLETIONS].value, memory_order_relaxed);
    uint32_t slot = (uint32_t)(value >> 32) % RING_SLOTS;

    __builtin_prefetch(&f->up->slots[slot]);
    if (f->n_items[slot] > 1)
        __builtin_prefetch(&f->up->bundles[slot]);
    __builtin_prefetch((const uint8_t *)f->up + ring_small(page_up(sizeof(struct up)), slot));
}

int front_next(struct front *f, struct front_completion *ret)
{
    if (!completion_there(f, f->head))
        return FRONT_NONE;
    fetch_ahead(f);
    return completion_read(f, ret);
}

int front_next_behind_hole(struct front *f, struct front_completion *ret)
{
    for (uint64_t i = 0; i < RING_COMPLETIONS; i++)
        if (completion_there(f, f->head + i)) {
            f->head += i;
            return completion_read(f, ret);
        }
    return FRONT_NONE;
}

void front_retire(struct front *f, uint32_t slot)
{
    f->handed[slot] = 0;
    f->recalled[slot] = 0;
    front_abandon(f, slot);
}

void front_release(struct front *f, uint32_t chunk, uint32_t run)
{
    /* release: partner is the acquire load in back_alloc(); we have read the bytes */
    for (uint32_t i = 0; i < run; i++)
        atomic_store_explicit(&f->up->chunks[chunk + i].used, 0, memory_order_release);
    eventcount_notify(&f->up->space, UINT32_MAX, true);
}

bool front_asleep(struct front *f)
{
    /* seq_cst, both the RMW and the look after it: partners are the executor's RMW that pushes, and its look after
     * that. One of the two sees the other, so no completion is left while the loop sleeps */
    atomic_exchange_explicit(&f->up->asleep, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&f->up->completions[f->head % RING_COMPLETIONS].seq, memory_order_seq_cst) != f->head + 1)
        return false;
    front_awake(f);
    return true;
}

void front_awake(struct front *f)
{
    if (atomic_load_explicit(&f->up->asleep, memory_order_relaxed))
        atomic_store_explicit(&f->up->asleep, 0, memory_order_relaxed);
}

enum ring_state front_autopsy(struct front *f, uint32_t slot, struct front_completion *ret)
{
    uint64_t word = atomic_load_explicit(&f->up->slots[slot].state, memory_order_acquire);

    if (word >> 32 != f->generation[slot])
        return RING_RUNNING; /* scribbled over: nothing is known, so this is the careful answer */
    switch ((uint32_t)word) {
    case RING_QUEUED:
        return RING_QUEUED;
    case RING_RECALLED:
        return f->recalled[slot] ? RING_RECALLED : RING_RUNNING;
    case RING_DONE:
        return answer_copy(f, slot, ret) == 0 ? RING_DONE : RING_RUNNING;
    default:
        return RING_RUNNING;
    }
}

enum ring_output front_close_output(struct front *f, uint32_t slot, struct ring_written *ret)
{
    struct up_slot *u = &f->up->slots[slot];
    uint32_t generation = f->generation[slot];
    uint64_t none = ring_word(generation, RING_OUTPUT_NONE), file = ring_word(generation, RING_OUTPUT_FILE);
    uint64_t word = none;

    /* acq_rel: partner is the CAS in back_claim_output() */
    while (!atomic_compare_exchange_strong_explicit(&u->output_state, &word, ring_word(generation, RING_OUTPUT_CLOSED),
                                                    memory_order_acq_rel, memory_order_acquire))
        if (word != none && word != file)
            return RING_OUTPUT_GIVEN; /* or scribbled over: the careful answer */
    if (word == none)
        return RING_OUTPUT_NONE;
    ret->begin = atomic_load_explicit(&u->output_begin, memory_order_relaxed);
    ret->size = atomic_load_explicit(&u->output_written, memory_order_relaxed);
    return RING_OUTPUT_FILE;
}

bool front_dying(const struct front *f)
{
    /* acquire: partner is the release store in back_fault_told() */
    return atomic_load_explicit(&f->up->fault.told, memory_order_acquire) == 1;
}

bool front_fault(struct front *f, struct fault_note *ret)
{
    volatile struct fault_note *n = &f->up->fault;
    char backtrace[FAULT_TRACE];

    /* acquire: partner is the release store at the end of back_fault() */
    if (atomic_load_explicit(&f->up->fault.written, memory_order_acquire) != 1)
        return false;
    ret->slot = n->slot;
    ret->generation = n->generation;
    ret->signal = n->signal;
    ret->code = n->code;
    ret->worker = n->worker;
    ret->address = n->address;
    ret->cpu_usec = n->cpu_usec;
    text_copy(backtrace, f->up->fault.backtrace, FAULT_TRACE);
    escape_lines(ret->backtrace, FAULT_TRACE, backtrace);
    if (ret->slot >= RING_SLOTS && ret->slot < ring_lane_slot(RING_LANES, 0))
        return true; /* of a direct lane: the code that opened the lane knows the rest */
    if (ret->slot >= RING_SLOTS || !f->handed[ret->slot] || f->generation[ret->slot] != ret->generation)
        ret->slot = RING_NONE;
    return true;
}
