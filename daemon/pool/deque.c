/* SPDX-License-Identifier: Apache-2.0
 *
 * deque.c: the task stack of one worker.
 * Owns the slots and entries; never what the arguments point to.
 * The owner pushes and pops inline (wsd/task.h), and calls this file when it reaches a bound. Thieves and revokers are
 * [any].
 * Keeps: a task leaves exactly once; tail <= split <= top. While private tasks exist, either public ones exist, or the
 * trap is set or being set.
 * Sleeps only for its own lock. Does not wake workers or run tasks. */
#include "pool/deque.h"

#include <assert.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

static inline uint32_t word_tail(uint64_t word)
{
    return (uint32_t)word;
}

static inline uint32_t word_split(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static inline uint64_t word_make(uint32_t tail, uint32_t split)
{
    return (uint64_t)split << 32 | tail;
}

static inline struct wsd_task *split_at(const struct deque *d)
{
    return atomic_load_explicit(&d->split_at, memory_order_relaxed);
}

static inline void set_split(struct deque *d, struct wsd_task *t)
{
    atomic_store_explicit(&d->split_at, t, memory_order_relaxed);
}

/* The slot after one that was not stolen. */
static inline struct wsd_task *next_of(struct wsd_task *t)
{
    const struct wsd_task_type *type = (const void *)__atomic_load_n(&t->word, __ATOMIC_RELAXED);

    return wsd_task_at_(t, (ptrdiff_t)type->size);
}

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

bool deque_revoke_available(void)
{
    return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

int deque_init(struct deque *d, struct wsd_worker *owner, size_t bytes, bool eager)
{
    size_t room = bytes ? bytes : DEQUE_BYTES;
    size_t slots = (room + DEQUE_SLOT_MAX + 4095) / 4096 * 4096;
    size_t mapped = slots + (room / DEQUE_SLOT_MIN + 1) * sizeof(struct deque_entry);
    void *map = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (map == MAP_FAILED)
        return -ENOMEM;
    *d = (struct deque){.owner = owner, .base = map, .mapped = mapped, .eager = eager};
    d->limit = wsd_task_at_(d->base, (ptrdiff_t)room);
    d->entries = (struct deque_entry *)(void *)((char *)map + slots);
    d->touched = d->base;
    pthread_mutex_init(&d->lock, NULL);
    atomic_init(&d->word, 0);
    atomic_init(&d->split_at, d->base);
    owner->top = d->base;
    owner->hi = DEQUE_TRAP_HI;
    owner->lo = d->base;
    return 0;
}

void deque_deinit(struct deque *d)
{
    if (!d->base)
        return;
    munmap(d->base, d->mapped);
    pthread_mutex_destroy(&d->lock);
    d->base = NULL;
}

/* The owner's side of the lock. Either the owner sees `revoking`, or the revoker, after its membarrier, sees
 * `owner_in`. */
static void enter_owner(struct deque *d)
{
    for (;;) {
        atomic_store_explicit(&d->owner_in, true, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        if (!atomic_load_explicit(&d->revoking, memory_order_acquire))
            return;
        atomic_store_explicit(&d->owner_in, false, memory_order_release);
        pthread_mutex_lock(&d->lock);
        pthread_mutex_unlock(&d->lock);
    }
}

static void leave_owner(struct deque *d)
{
    atomic_store_explicit(&d->owner_in, false, memory_order_release);
}

/* How many private tasks to publish, at most `most`: all, or the older half. */
static uint32_t count_private(const struct deque *d, const struct wsd_task *top, uint32_t most, bool all)
{
    uint32_t n = 0, end = all ? most : 2 * most;

    for (struct wsd_task *t = split_at(d); t < top && n < end; t = next_of(t))
        n++;
    return all ? n : (n + 1) / 2;
}

/* Publishes up to `most` private tasks. Returns whether there were any. [lock] */
static bool publish(struct deque *d, const struct wsd_task *top, uint32_t most, bool all)
{
    uint32_t n = count_private(d, top, most, all);
    struct wsd_task *t = split_at(d);

    if (n == 0)
        return false;
    /* Relaxed: only holders of the lock change the split. */
    uint64_t word = atomic_load_explicit(&d->word, memory_order_relaxed);
    uint32_t split = word_split(word);
    for (uint32_t i = 0; i < n; i++, t = next_of(t)) {
        struct deque_entry *e = &d->entries[split + i];
        e->task = t;
        e->context = d->owner->context;
        e->own = __atomic_load_n(&d->owner->own, __ATOMIC_RELAXED);
        __atomic_store_n(&e->origin, atomic_load_explicit(&d->origin, memory_order_relaxed), __ATOMIC_RELAXED);
    }
    set_split(d, t);
    /* A loop: thieves may move the tail meanwhile. seq_cst: partner is the thief's CAS. */
    while (!atomic_compare_exchange_weak_explicit(&d->word, &word, word_make(word_tail(word), split + n),
                                                  memory_order_seq_cst, memory_order_relaxed))
        ;
    return true;
}

/* Publishes the older half if nothing is public; in an eager deque, all. [lock] */
static bool publish_if_due(struct deque *d, const struct wsd_task *top)
{
    uint64_t word = atomic_load_explicit(&d->word, memory_order_relaxed);

    if (d->eager)
        return publish(d, top, UINT32_MAX, true);
    return word_tail(word) == word_split(word) && publish(d, top, DEQUE_PUBLISH_MAX, false);
}

/* Leaves a bound that is right already as it is: that erases no trap. */
static void set_bound(struct wsd_task **bound, struct wsd_task *value)
{
    if (__atomic_load_n(bound, __ATOMIC_RELAXED) != value)
        (void)__atomic_exchange_n(bound, value, __ATOMIC_SEQ_CST);
}

/* Sets the bounds for the present word, and publishes first if thieves have nothing. A thief that empties the public
 * part stores the trap after its CAS. Here the bounds are exchanged before the word is read again. So either this
 * exchange comes first and the trap stays, or this thread sees the thief's CAS and repeats the loop. A trap is never
 * erased without an answer. [lock, owner] */
static bool deque_bounds(struct deque *d, const struct wsd_task *top)
{
    bool published = false;

    d->owner->refuse = NULL;
    for (;;) {
        published |= publish_if_due(d, top);
        uint64_t word = atomic_load_explicit(&d->word, memory_order_seq_cst);
        bool empty = word_tail(word) == word_split(word);
        struct wsd_task *lo = MAX(split_at(d), d->owner->level);
        struct wsd_task *hi = d->eager || empty ? DEQUE_TRAP_HI : deque_bound_owner(d, word);

        set_bound(&d->owner->lo, lo);
        set_bound(&d->owner->hi, hi);
        uint64_t again = atomic_load_explicit(&d->word, memory_order_seq_cst);
        if (word_tail(again) < word_split(again))
            return published;
        if (hi == DEQUE_TRAP_HI && split_at(d) >= top)
            return published; /* nothing to give: the next push asks */
    }
}

bool deque_pushed_owner(struct deque *d, struct wsd_task *t, bool *ret_published)
{
    *ret_published = false;
    if (deque_refuses_owner(d, t))
        return false;
    enter_owner(d);
    uint64_t word = atomic_load_explicit(&d->word, memory_order_relaxed);
    if (t >= d->limit || (t >= deque_bound_owner(d, word) && split_at(d) <= t)) {
        /* If a revoker had published t, t would be below the split. At the limit a revoker never publishes. */
        __atomic_store_n(&d->owner->top, t, __ATOMIC_RELEASE);
        *ret_published = deque_bounds(d, t);
        leave_owner(d);
        return false;
    }
    struct wsd_task *top = d->owner->top;
    d->touched = MAX(d->touched, top);
    *ret_published = deque_bounds(d, top);
    d->touched = MAX(d->touched, __atomic_load_n(&d->owner->hi, __ATOMIC_RELAXED));
    leave_owner(d);
    return true;
}

/* Takes t, the youngest public task, back into the private part, with half of the others. False: it was stolen. [lock,
 * owner] */
static bool reclaim(struct deque *d, struct wsd_task *t)
{
    uint64_t word = atomic_load_explicit(&d->word, memory_order_relaxed);

    while (split_at(d) > t) {
        uint32_t tail = word_tail(word), last = word_split(word) - 1;
        assert(d->entries[last].task == t); /* fails if a sync is not that of the youngest spawn */
        if (tail > last)
            return false;
        /* Tasks below that something else has spawned stay public: publishing them again would give them the wrong
         * origin. */
        uint32_t split = last, least = tail + (last - tail + 1) / 2;
        while (split > least && d->entries[split - 1].origin == d->entries[last].origin)
            split--;
        /* acq_rel: partner is the thief's CAS; the first of the two has the task. */
        if (atomic_compare_exchange_weak_explicit(&d->word, &word, word_make(tail, split), memory_order_acq_rel,
                                                  memory_order_relaxed))
            set_split(d, d->entries[split].task);
    }
    return true;
}

bool deque_popped_owner(struct deque *d, struct wsd_task *t, struct wsd_task *next, bool *ret_published)
{
    bool mine;

    *ret_published = false;
    enter_owner(d);
    mine = reclaim(d, t);
    if (mine)
        *ret_published = deque_bounds(d, t);
    else
        __atomic_store_n(&d->owner->top, next, __ATOMIC_RELEASE); /* and a trap, if there is one, stays */
    leave_owner(d);
    return mine;
}

struct deque_entry *deque_stolen_owner(struct deque *d)
{
    uint64_t word = atomic_load_explicit(&d->word, memory_order_relaxed);

    assert(word_tail(word) == word_split(word) && word_tail(word) > 0);
    return &d->entries[word_tail(word) - 1];
}

void deque_joined_owner(struct deque *d, struct wsd_task *t)
{
    enter_owner(d);
    uint32_t i = word_tail(atomic_load_explicit(&d->word, memory_order_relaxed)) - 1;
    assert(deque_stolen_owner(d)->task == t);
    __atomic_store_n(&d->owner->top, t, __ATOMIC_RELEASE);
    set_split(d, t);
    /* No other thread changes an empty word: a thief's stale CAS fails, since it expects a word that is not empty. */
    atomic_store_explicit(&d->word, word_make(i, i), memory_order_seq_cst);
    deque_bounds(d, t);
    leave_owner(d);
}

void deque_lower_owner(struct deque *d)
{
    enter_owner(d);
    deque_bounds(d, d->owner->top);
    leave_owner(d);
}

void deque_set_level_owner(struct deque *d, struct wsd_task *level)
{
    enter_owner(d);
    d->owner->level = level;
    deque_bounds(d, d->owner->top);
    leave_owner(d);
}

bool deque_publish_owner(struct deque *d)
{
    enter_owner(d);
    publish(d, d->owner->top, UINT32_MAX, true);
    deque_bounds(d, d->owner->top);
    leave_owner(d);
    return deque_has_public_any(d);
}

void deque_trim_owner(struct deque *d)
{
    struct wsd_task *keep = MIN(wsd_task_at_(d->base, (ptrdiff_t)DEQUE_CHUNK), d->limit);

    if (d->touched <= keep)
        return;
    assert(d->owner->top == d->base);
    /* Page-aligned: the map is, and so is a chunk. The entries stay. */
    madvise(keep, (size_t)((char *)d->touched - (char *)keep) & ~(size_t)4095, MADV_DONTNEED);
    d->touched = keep;
}

static void trap(struct deque *d)
{
    /* Relaxed would do for the owner's own reads; seq_cst: partner is the exchange in deque_bounds(). */
    __atomic_store_n(&d->owner->lo, DEQUE_TRAP_LO, __ATOMIC_SEQ_CST);
    __atomic_store_n(&d->owner->hi, DEQUE_TRAP_HI, __ATOMIC_SEQ_CST);
}

static struct deque_entry *steal(struct deque *d, const uint64_t *origin, bool *ret_more)
{
    uint64_t word = atomic_load_explicit(&d->word, memory_order_relaxed);

    for (int i = 0; i < 4; i++) {
        uint32_t tail = word_tail(word), split = word_split(word);
        if (tail >= split || (origin && __atomic_load_n(&d->entries[tail].origin, __ATOMIC_RELAXED) != *origin))
            return NULL;
        /* The entry is read only after the CAS, so the word may have come back to this value any number of times. Why
         * seq_cst: the acquire is for slot and entry, the total order for the trap (deque_bounds()). */
        if (!atomic_compare_exchange_strong_explicit(&d->word, &word, word_make(tail + 1, split), memory_order_seq_cst,
                                                     memory_order_relaxed))
            continue;
        if (tail + 1 == split)
            trap(d);
        *ret_more = tail + 1 < split;
        return &d->entries[tail];
    }
    return NULL; /* other thieves are at work here: try another victim */
}

struct deque_entry *deque_steal_any(struct deque *d, bool *ret_more)
{
    return steal(d, NULL, ret_more);
}

struct deque_entry *deque_steal_origin_any(struct deque *d, uint64_t origin, bool *ret_more)
{
    return steal(d, &origin, ret_more);
}

void deque_settle(void)
{
    membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

bool deque_revoke_any(struct deque *d)
{
    bool published;

    if (d->eager)
        return false;
    pthread_mutex_lock(&d->lock);
    atomic_store_explicit(&d->revoking, true, memory_order_relaxed);
    /* From here on the owner sees `revoking` before it takes its slow path, and waits for the lock. If it is on that
     * path already, this thread sees that. */
    deque_settle();
    while (atomic_load_explicit(&d->owner_in, memory_order_acquire))
        sched_yield();
    /* Set the trap only now, and settle again: on its slow path the owner would erase the trap, since something is
     * public. It would then pop on while another thief takes that. From here on the owner sees the trap, or this thread
     * sees the owner's top. */
    trap(d);
    deque_settle();
    /* Acquire: partner is the release of a push or pop; the slots and the context below top are there to read. */
    struct wsd_task *top = __atomic_load_n(&d->owner->top, __ATOMIC_ACQUIRE);
    /* While the owner waits for the lock in a pop, top may be below the split. Publish all: the owner is away, and no
     * other thread will publish. */
    uint64_t word = atomic_load_explicit(&d->word, memory_order_relaxed);
    published = word_tail(word) == word_split(word) && publish(d, MIN(top, d->limit), DEQUE_PUBLISH_MAX, true);
    atomic_store_explicit(&d->revoking, false, memory_order_release);
    pthread_mutex_unlock(&d->lock);
    return published;
}

bool deque_is_empty_any(const struct deque *d)
{
    /* The owner reaches its base only by way of deque_bounds(), which leaves the trap there, or with the trap still
     * there. So the first push from the base publishes (seq_cst), then looks for sleepers. Why seq_cst: a caller that
     * announced itself too late for this look sees that publication here, or a later word. So it sees the top that was
     * stored before that publication, or a later top. (While a stolen task lies at the base, a pop shows the base for a
     * moment, perhaps with the thief's trap still on its way. The owner may then help with something else and hide
     * tasks above the base before it sees the trap. The thief sees those tasks: it looks for sleepers after setting its
     * trap, see note_stolen().) */
    uint64_t word = atomic_load_explicit(&d->word, memory_order_seq_cst);

    return word_tail(word) == word_split(word) && __atomic_load_n(&d->owner->top, __ATOMIC_ACQUIRE) == d->base;
}

bool deque_has_public_any(const struct deque *d)
{
    uint64_t word = atomic_load_explicit(&d->word, memory_order_acquire);

    return word_tail(word) < word_split(word);
}

bool deque_has_origin_any(const struct deque *d, uint64_t origin)
{
    uint64_t word = atomic_load_explicit(&d->word, memory_order_acquire);
    uint32_t tail = word_tail(word);

    return tail < word_split(word) && __atomic_load_n(&d->entries[tail].origin, __ATOMIC_RELAXED) == origin;
}

bool deque_has_private_any(const struct deque *d)
{
    return !d->eager && __atomic_load_n(&d->owner->top, __ATOMIC_RELAXED) > split_at(d);
}
