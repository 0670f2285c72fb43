/* SPDX-License-Identifier: Apache-2.0
 *
 * back.c: the executor's end of the shared memory.
 * Owns both mappings and the cursor of the submission ring. Owns the record of which chunks of the `up` arena are
 * allocated. [any worker; back_fault() also in signal handlers]
 * Keeps: no submitted entry is taken twice. Each claimed or recalled slot is completed once. No offset or index that
 * wsd wrote is used before it was checked.
 * Does not know plugins, and never waits. */
#include "ring/back.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "ring/region.h"

#define FAULT_WAIT_MSEC 1000
#define ITEM_AHEAD      256 /* bytes */

/* --- mapping ------------------------------------------------------------------------------------------------------ */

static bool header_ok(uint32_t magic, uint32_t version, uint64_t said, uint64_t size, uint64_t arena, uint64_t least,
                      uint64_t tail)
{
    return magic == RING_MAGIC && version == RING_VERSION && said == size && arena >= least && arena % 64 == 0 &&
           arena <= size && size - arena >= tail;
}

int back_init(struct back *b, int down_fd, int up_fd, int bell_fd)
{
    void *map;
    int r;

    memset(b, 0, sizeof(*b));
    b->bell_fd = bell_fd;
    r = region_map(down_fd, PROT_READ, sizeof(struct down), &map, &b->down_size);
    if (r < 0)
        return r;
    b->down = map;
    r = region_map(up_fd, PROT_READ | PROT_WRITE, sizeof(struct up), &map, &b->up_size);
    if (r == 0) {
        b->up = map;
        b->down_arena = b->down->arena;
        b->up_arena = b->up->arena;
        if (!header_ok(b->down->magic, b->down->version, b->down->size, b->down_size, b->down_arena,
                       sizeof(struct down), RING_ARENA_SIZE) ||
            !header_ok(b->up->magic, b->up->version, b->up->size, b->up_size, b->up_arena, sizeof(struct up),
                       RING_UP_TAIL))
            r = -EBADMSG;
    }
    pthread_mutex_init(&b->chunk_lock, NULL);
    if (r < 0)
        back_deinit(b);
    return r;
}

void back_deinit(struct back *b)
{
    if (b->down)
        munmap((void *)(uintptr_t)b->down, b->down_size);
    if (b->up)
        munmap(b->up, b->up_size);
    b->down = NULL;
    b->up = NULL;
    pthread_mutex_destroy(&b->chunk_lock);
}

struct up_called *back_called(const struct back *b, uint32_t lane, uint32_t bind)
{
    return (struct up_called *)(void *)((uint8_t *)b->up + ring_called(b->up_arena, lane, bind));
}

/* --- completions -------------------------------------------------------------------------------------------------- */

void back_bell(const struct back *b)
{
    static const uint64_t one = 1;
    ssize_t r = write(b->bell_fd, &one, sizeof(one));

    (void)r; /* full: it has been rung already */
}

static void push_completion(struct back *b, uint64_t value)
{
    /* relaxed: it only gives out positions. The entry is free: the completion that it held was for a slot or chunk that
     * we could not have got again before wsd had read it (RING_COMPLETIONS) */
    uint64_t at = atomic_fetch_add_explicit(&b->up->tail, 1, memory_order_relaxed);
    struct completion *c = &b->up->completions[at % RING_COMPLETIONS];

    atomic_store_explicit(&c->value, value, memory_order_relaxed);
    /* An RMW in place of a store and the fence after it (see eventcount_notify()). This cache line is ours; `asleep` is
     * shared by all and is only read. Release: partner is the acquire load in front.c's completion_there(). This
     * exchange and the load after it are seq_cst. Their partners are the exchange in front_asleep() and its look. One
     * of the two sees the other. */
    atomic_exchange_explicit(&c->seq, at + 1, memory_order_seq_cst);
    if (atomic_load_explicit(&b->up->asleep, memory_order_seq_cst) &&
        atomic_exchange_explicit(&b->up->asleep, 0, memory_order_relaxed))
        back_bell(b);
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

/* acquire: partner is the release store in front_submit(); entries below the tail are there. A tail further ahead than
 * the ring is long is malformed, and there is nothing to take. */
static uint64_t waiting(struct back *b, uint64_t head)
{
    uint64_t n = atomic_load_explicit(&b->down->tail, memory_order_acquire) - head;

    /* acquire: partner is the release in front_go_on(), and in back_hold() of this thread, or of one that took
     * before */
    return n <= RING_SLOTS && atomic_load_explicit(&b->up->hold, memory_order_acquire) == 0 ? n : 0;
}

bool back_ready(struct back *b)
{
    return waiting(b, atomic_load_explicit(&b->head, memory_order_relaxed)) > 0;
}

bool back_worth_waking(struct back *b)
{
    uint64_t head = atomic_load_explicit(&b->head, memory_order_relaxed), n = waiting(b, head);
    uint32_t usec = 0;

    /* relaxed: as in back_take(); an entry that was taken meanwhile is another worker's */
    for (uint64_t i = 0; i < n && usec < RING_WORTH_USEC; i++)
        usec += ring_entry_usec(atomic_load_explicit(&b->down->ring[(head + i) % RING_SLOTS], memory_order_relaxed));
    return usec >= RING_WORTH_USEC;
}

uint32_t back_take(struct back *b, uint32_t *ret_generation, uint32_t *ret_usec)
{
    uint64_t head = atomic_load_explicit(&b->head, memory_order_relaxed);

    for (;;) {
        uint64_t n = waiting(b, head);
        if (n == 0)
            return RING_NONE;
        /* relaxed: ordered by the tail. The entry cannot be overwritten before it is taken: it holds its slot, and a
         * whole round of the ring would need one slot more than there are. */
        uint64_t entry = atomic_load_explicit(&b->down->ring[head % RING_SLOTS], memory_order_relaxed);
        /* acq_rel: partner is itself, in the other workers: what one worker saw of the ring, the next sees too */
        if (!atomic_compare_exchange_weak_explicit(&b->head, &head, head + 1, memory_order_acq_rel,
                                                   memory_order_relaxed))
            continue;
        if (n > 1) { /* prefetch what the next one needs: it comes from another core */
            uint32_t next =
                ring_entry_slot(atomic_load_explicit(&b->down->ring[(head + 1) % RING_SLOTS], memory_order_relaxed)) %
                RING_SLOTS;

            __builtin_prefetch(&b->down->slots[next]);
            __builtin_prefetch(b->down->slots[next].tiny);
        }
        if (ring_entry_slot(entry) < RING_SLOTS) {
            *ret_generation = (uint32_t)(entry >> 32);
            *ret_usec = ring_entry_usec(entry);
            return ring_entry_slot(entry);
        }
        head++;
    }
}

bool back_claim(struct back *b, uint32_t slot, uint32_t generation, uint64_t now_usec)
{
    struct up_slot *u = &b->up->slots[slot];
    uint64_t word = ring_word(generation, RING_QUEUED);

    /* Before the CAS: see layout.h. If the CAS fails, no thread reads it. */
    atomic_store_explicit(&u->started_usec, now_usec, memory_order_relaxed);
    /* acquire: partner is the release store in front_submit(), which was after the down slot was filled; release:
     * partner is the acquire load in front_running() */
    if (atomic_compare_exchange_strong_explicit(&u->state, &word, ring_word(generation, RING_RUNNING),
                                                memory_order_acq_rel, memory_order_relaxed))
        return true;
    if (word == ring_word(generation, RING_RECALLED))
        push_completion(b, completion_word(COMPLETION_RECALLED, slot, generation));
    return false;
}

int back_read(struct back *b, uint32_t slot, uint32_t generation, struct back_request *ret)
{
    const struct down_slot *d = &b->down->slots[slot];
    const char *base = (const char *)b->down;
    uint64_t blob = d->blob, input_size = d->input_size;
    uint32_t directory_size = d->directory_size, args_size = d->args_size;
    struct back_request q = {.plugin = d->plugin,
                             .function = d->function,
                             .argc = d->argc,
                             .flags = d->flags,
                             .timeout_usec = d->timeout_usec,
                             .cancel = &d->cancel};

    memcpy(q.id, d->id, sizeof(q.id));
    *ret = (struct back_request){.cancel = q.cancel};
    memcpy(ret->id, q.id, sizeof(q.id));
    uint64_t texts = (uint64_t)directory_size + args_size, more = q.flags & DOWN_TRACEPARENT ? RING_TRACEPARENT : 0;
    uint64_t head = ring_aligned(texts + more);
    bool by_fd = q.flags & (DOWN_INPUT_FD | DOWN_INPUT_PIPE | DOWN_INPUT_PART), tiny = blob == ring_tiny(slot);
    uint64_t end = tiny ? blob + RING_TINY : b->down_size;
    if (d->generation != generation || (blob < b->down_arena && !tiny) || blob > end || head > end - blob ||
        (!by_fd && input_size > end - blob - head))
        return -EBADMSG;
    if ((directory_size && base[blob + directory_size - 1] != 0) || (args_size && base[blob + texts - 1] != 0) ||
        (more && base[blob + texts + more - 1] != 0))
        return -EBADMSG;
    q.directory = directory_size ? base + blob : NULL;
    q.args = base + blob + directory_size;
    q.args_size = args_size;
    q.traceparent = more ? base + blob + texts : NULL;
    q.input = by_fd || input_size == 0 ? NULL : base + blob + head;
    q.input_size = input_size;
    q.n_items = d->n_items;
    q.items = q.input;
    q.items_size = q.input ? input_size : 0;
    if (q.flags & DOWN_ELSEWHERE) {
        q.input_at = d->input_at;
        q.output_at = d->output_at;
        q.output_size = d->output_size;
        q.arena = d->arena;
    }
    *ret = q;
    return 0;
}

int back_read_item(struct back_request *ret)
{
    struct down_item item;

    if (ret->items_size < sizeof(item))
        return -EBADMSG;
    memcpy(&item, ret->items, sizeof(item));
    uint64_t head = ring_aligned(sizeof(item) + (uint64_t)item.args_size), size = ring_aligned(head + item.input_size);
    const char *args = ret->items + sizeof(item);

    if (ret->item++) /* the first one's is in the slot */
        id_add(ret->id, 1);
    if (size > ret->items_size || (item.args_size && args[item.args_size - 1] != 0))
        return -EBADMSG;
    ret->argc = item.argc;
    ret->args = args;
    ret->args_size = item.args_size;
    ret->input = item.input_size ? ret->items + head : NULL;
    ret->input_size = item.input_size;
    ret->items += size;
    ret->items_size -= size;
    __builtin_prefetch(ret->items + ITEM_AHEAD); /* it was written on another CPU: 80 % of this function's time */
    return 0;
}

bool back_turn(struct back *b, uint32_t slot, uint32_t generation, uint32_t item, uint64_t started_usec,
               struct up_end end)
{
    struct up_bundle *bundle = &b->up->bundles[slot];
    struct up_slot *u = &b->up->slots[slot];
    uint64_t word = ring_word(generation, item), started = atomic_load_explicit(&u->started_usec, memory_order_relaxed);

    if (item == 0)
        bundle->started_usec = started_usec;
    uint64_t later = started_usec - bundle->started_usec;
    if (later > UINT32_MAX)
        return false;
    end.later_usec = (uint32_t)later;
    bundle->ends[item] = end;
    /* Before the CAS, as in back_claim(). */
    atomic_store_explicit(&u->started_usec, started_usec + end.run_usec, memory_order_relaxed);
    /* release: partner is the acquire in front_close(), front_running() and front_autopsy(), which read record and time
     * after it. Where it fails nothing is read but that it is closed. */
    if (atomic_compare_exchange_strong_explicit(&bundle->at, &word, ring_word(generation, item + 1),
                                                memory_order_release, memory_order_relaxed))
        return true;
    atomic_store_explicit(&u->started_usec, started, memory_order_relaxed);
    return false;
}

void back_close(struct back *b, uint32_t slot)
{
    /* relaxed: what the job says now comes later in the completion ring or on the control socket, which order it */
    atomic_fetch_or_explicit(&b->up->bundles[slot].at, BUNDLE_CLOSED, memory_order_relaxed);
}

struct up_slot *back_answer(struct back *b, uint32_t slot)
{
    return &b->up->slots[slot];
}

void back_progress(struct back *b, uint32_t slot, uint32_t generation, uint64_t done, uint64_t total)
{
    struct up_slot *u = &b->up->slots[slot];

    atomic_store_explicit(&u->progress_done, done, memory_order_relaxed);
    atomic_store_explicit(&u->progress_total, total, memory_order_relaxed);
    /* release: partner is the acquire load in front_progress() */
    atomic_store_explicit(&u->progress_of, generation, memory_order_release);
}

bool back_claim_output(struct back *b, uint32_t slot, uint32_t generation, enum ring_output as,
                       const struct ring_written *written)
{
    struct up_slot *u = &b->up->slots[slot];
    uint64_t word = ring_word(generation, as == RING_OUTPUT_FILE ? RING_OUTPUT_NONE : RING_OUTPUT_FILE);

    if (as == RING_OUTPUT_FILE) {
        /* relaxed: ordered by the state */
        atomic_store_explicit(&u->output_begin, written->begin, memory_order_relaxed);
        atomic_store_explicit(&u->output_written, written->size, memory_order_relaxed);
    }
    /* acq_rel: partner is the CAS in front_close_output() */
    while (!atomic_compare_exchange_strong_explicit(&u->output_state, &word, ring_word(generation, as),
                                                    memory_order_acq_rel, memory_order_acquire))
        if (as == RING_OUTPUT_FILE || word != ring_word(generation, RING_OUTPUT_NONE))
            return false;
    return true;
}

bool back_output_is_claimed(const struct back *b, uint32_t slot, uint32_t generation)
{
    /* acquire: partner is the CAS in front_close_output() */
    uint64_t word = atomic_load_explicit(&b->up->slots[slot].output_state, memory_order_acquire);

    return word == ring_word(generation, RING_OUTPUT_FILE) || word == ring_word(generation, RING_OUTPUT_GIVEN);
}

void back_wrote(struct back *b, uint32_t slot, uint64_t size)
{
    atomic_store_explicit(&b->up->slots[slot].output_written, size, memory_order_relaxed);
}

void *back_small(struct back *b, uint32_t slot)
{
    return (char *)b->up + ring_small(b->up_arena, slot);
}

void back_hold(struct back *b)
{
    atomic_fetch_add_explicit(&b->up->hold, 1, memory_order_release);
}

void back_done(struct back *b, uint32_t slot, uint32_t generation)
{
    /* release: partner is the acquire load in front.c's completion_read() and front_autopsy() */
    atomic_store_explicit(&b->up->slots[slot].state, ring_word(generation, RING_DONE), memory_order_release);
    push_completion(b, completion_word(COMPLETION_DONE, slot, generation));
}

/* --- chunks ------------------------------------------------------------------------------------------------------- */

/* The lowest run: chunks that were used before have their pages on both sides. [lock chunk_lock] */
static uint32_t find_run(struct back *b, uint32_t n)
{
    uint32_t run = 0;

    for (uint32_t at = 0; at < RING_CHUNKS; at++) {
        /* acquire: partner is the release store in front_release(), after the bytes were read, and in back_unalloc() */
        run = atomic_load_explicit(&b->up->chunks[at].used, memory_order_acquire) ? 0 : run + 1;
        if (run == n)
            return at + 1 - n;
    }
    return RING_NONE;
}

uint32_t back_alloc(struct back *b, uint32_t n, uint64_t *ret_serial)
{
    pthread_mutex_lock(&b->chunk_lock);
    uint32_t first = find_run(b, n);
    if (first != RING_NONE) {
        *ret_serial = ++b->last_serial;
        for (uint32_t i = 0; i < n; i++) {
            atomic_store_explicit(&b->serial[first + i], b->last_serial, memory_order_relaxed);
            /* release: partner is the acquire load in back_held(): a thread that sees this allocation sees its
             * serial */
            atomic_store_explicit(&b->up->chunks[first + i].used, 1, memory_order_release);
        }
    }
    pthread_mutex_unlock(&b->chunk_lock);
    return first;
}

bool back_held(struct back *b, uint32_t chunk, uint64_t serial)
{
    /* acquire: partner is the release store in back_alloc(). In this order: a 1 that belongs to the next allocation
     * brings that one's serial with it. */
    return atomic_load_explicit(&b->up->chunks[chunk].used, memory_order_acquire) != 0 &&
           atomic_load_explicit(&b->serial[chunk], memory_order_relaxed) == serial;
}

void *back_chunk(struct back *b, uint32_t chunk)
{
    return (char *)b->up + ring_chunk(b->up_arena, chunk);
}

void back_unalloc(struct back *b, uint32_t chunk, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        atomic_store_explicit(&b->up->chunks[chunk + i].used, 0, memory_order_release); /* partner: find_run() */
    eventcount_notify(&b->up->space, UINT32_MAX, true);
}

void back_output(struct back *b, uint32_t slot, uint32_t generation, uint32_t chunk, uint32_t n, uint32_t size)
{
    struct up_chunk *c = &b->up->chunks[chunk];

    /* only wsd is between this and the next user of the chunk; the lock orders the two in this process */
    pthread_mutex_lock(&b->chunk_lock);
    c->slot = slot;
    c->size = size;
    c->run = n;
    pthread_mutex_unlock(&b->chunk_lock);
    push_completion(b, completion_word(COMPLETION_OUTPUT, chunk, generation));
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

char *back_fault(struct back *b, uint32_t slot, uint32_t generation, uint32_t worker, int signal, int code,
                 const void *address)
{
    struct fault_note *n = &b->up->fault;
    uint32_t none = 0;

    if (!atomic_compare_exchange_strong_explicit(&n->written, &none, 2, memory_order_acq_rel, memory_order_relaxed)) {
        for (int i = 0; i < FAULT_WAIT_MSEC && atomic_load_explicit(&n->written, memory_order_relaxed) != 1; i++)
            poll(NULL, 0, 1);
        for (int i = 0; i < FAULT_WAIT_MSEC && atomic_load_explicit(&n->told, memory_order_relaxed) != 1; i++)
            poll(NULL, 0, 1);
        return NULL;
    }
    n->slot = slot;
    n->generation = generation;
    n->signal = signal;
    n->code = code;
    n->worker = worker;
    n->address = (uint64_t)(uintptr_t)address;
    /* release: partner is the acquire load in front_fault() */
    atomic_store_explicit(&n->written, 1, memory_order_release);
    return n->backtrace;
}

void back_fault_told(struct back *b)
{
    /* release: partner is the acquire load in front_dying() */
    atomic_store_explicit(&b->up->fault.told, 1, memory_order_release);
    back_bell(b);
}
