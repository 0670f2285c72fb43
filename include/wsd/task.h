/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd/task.h: fork and join inside a job, over all workers of the pool.
 *
 *     WSD_TASK_1(long, fib, int, n)
 *     {
 *         if (n < 2)
 *             return n;
 *         WSD_SPAWN(fib, n - 1);
 *         long b = WSD_CALL(fib, n - 2);
 *         return WSD_SYNC(fib) + b;
 *     }
 *
 *     static int run(struct wsd_job *job, struct wsd_worker *self)
 *     {
 *         return wsd_job_print(job, "%ld\n", WSD_CALL(fib, 32)) ? 1 : 0;
 *     }
 *
 * Spawns and syncs pair up like brackets. A sync joins the youngest spawn of this task that was not joined yet; a task
 * joins every child before it returns. A spawned task may run on this worker or on another one, before or at its sync.
 * If the child was stolen, the sync runs other tasks meanwhile; it never blocks a worker that has something to do. So a
 * task must not hold a lock across a sync, except between wsd_own_begin() and wsd_own_end().
 *
 * `self` is the worker that runs the task. The macros take it from the scope, under this name. It is valid only for
 * this task on this thread: never keep it, and never give it to a child, which gets its own.
 *
 * A task carries its arguments by value: at most WSD_TASK_DATA bytes together, aligned to WSD_TASK_ALIGN. So does its
 * result. Pass larger data by pointer. A pointer to a local of the spawning task is valid until the sync. C++:
 * arguments and results are trivially copyable. Tasks and the bodies of wsd_spawn() and wsd_for() are noexcept: an
 * exception that leaves one ends the process (std::terminate()), whether it was stolen or not.
 *
 * Only memory limits the number of tasks; the worker's stack limits their depth, as with calls. A spawn never
 * fails: if the worker's task stack is full, the child runs at once, inside the spawn.
 *
 * Works in C11 and C++17, with gcc and clang. Only tasks may call any of it. A plugin links against nothing
 * for it. Other languages call the table in `self->ops`: spawn_word and sync_word, for_range.
 */
#ifndef WSD_TASK_H
#define WSD_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef WSD_CHECKS
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#endif

#ifdef __cplusplus
#define WSD_STATIC_ASSERT_(x, why) static_assert(x, why)
#define WSD_FITS_(type, what)                                                                                          \
    WSD_STATIC_ASSERT_(sizeof(type) <= WSD_TASK_DATA && alignof(type) <= WSD_TASK_ALIGN,                               \
                       "the " what " of a task may take at most 48 bytes, aligned to 8: point to a structure");        \
    WSD_STATIC_ASSERT_(__is_trivially_copyable(type), "the " what " of a task must be trivially copyable")
extern "C" {
#else
#define WSD_STATIC_ASSERT_(x, why) _Static_assert(x, why)
#define WSD_FITS_(type, what)                                                                                          \
    WSD_STATIC_ASSERT_(sizeof(type) <= WSD_TASK_DATA && _Alignof(type) <= WSD_TASK_ALIGN,                              \
                       "the " what " of a task may take at most 48 bytes, aligned to 8: point to a structure")
#endif

/* The most bytes that the arguments of a task may take together, and its result; and their largest alignment. Since
 * 1. */
#define WSD_TASK_DATA  48
#define WSD_TASK_ALIGN 8

struct wsd_worker;
struct wsd_task;

/* A task without type, for wsd_spawn(). Since 1. */
typedef void wsd_task_fn(struct wsd_worker *self, void *arg);

/* A task for other languages: one word in, one word out. Since 1. */
typedef uint64_t wsd_word_fn(struct wsd_worker *self, uint64_t arg);

/* A piece of a wsd_for(): runs begin <= i < end. Since 1. */
typedef void wsd_for_fn(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg);

struct wsd_future;

/* What a future computes (wsd/future.h). Since 1. */
typedef int wsd_future_fn(struct wsd_worker *self, void *arg, void **ret_value);
/* Types for the forms of wsd/forms.h, which explains each. An int is 0, or an error of the user's own. Since 1. */
struct wsd_group;
struct wsd_reduction;
struct wsd_scan_args;
struct wsd_stage;
typedef int wsd_work_fn(struct wsd_worker *self, void *arg);
typedef int wsd_each_fn(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg);
typedef int wsd_find_fn(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg,
                        uint64_t *ret_index);
typedef int wsd_compare_fn(const void *a, const void *b, void *arg);
typedef void wsd_drop_fn(void *item, uint32_t stage, void *arg);
/* Types for the graphs of wsd/graph.h, which explains each. Since 1. */
struct wsd_graph;
struct wsd_node;
typedef int wsd_node_fn(struct wsd_worker *self, struct wsd_group *group, void *arg);
typedef bool wsd_until_fn(struct wsd_worker *self, uint64_t runs, void *arg);
typedef int wsd_text_fn(const char *text, size_t size, void *arg);

/* What all tasks of one name share. Not for use by hand. */
struct wsd_task_type {
    /* Takes the arguments from behind the slot's word, leaves the result there. */
    void (*run)(struct wsd_worker *self, struct wsd_task *task);
    uint32_t size;        /* bytes of a slot: word and data, a multiple of 8 */
    uint32_t result_size; /* 0: none */
};

/* One slot of a task stack; arguments, and later the result, follow. Not for use by hand. */
struct wsd_task {
    uintptr_t word; /* its struct wsd_task_type until it is stolen; then the pool's: the thief, or done */
};

/* Slow paths, and the table for other languages. Fields are appended, never moved. Since 1. */
struct wsd_task_ops {
    uint32_t size; /* bytes of this structure that the pool fills */
    uint32_t reserved;
    /* The task was pushed, and hi said to ask. Not for use by hand. */
    void (*spawn)(struct wsd_worker *self, struct wsd_task *task);
    /* The task was popped, and lo said to ask. Returns NULL if the caller is to run the task itself, else the address
     * of its result. Not for use by hand. */
    struct wsd_task *(*sync)(struct wsd_worker *self, struct wsd_task *task, const struct wsd_task_type *type);
    /* A child that ran inside its spawn has pushed above it. Not for use by hand. */
    void (*lower)(struct wsd_worker *self);
    /* wsd_for(). */
    void (*for_range)(struct wsd_worker *self, uint64_t begin, uint64_t end, uint64_t grain, wsd_for_fn *body,
                      void *arg);
    /* spawn_word spawns fn(arg) as a child. sync_word joins the youngest child, which was spawned so, and returns its
     * result. */
    void (*spawn_word)(struct wsd_worker *self, wsd_word_fn *fn, uint64_t arg);
    uint64_t (*sync_word)(struct wsd_worker *self);
    /* wsd_blocking_begin(), wsd_blocking_end(). */
    void (*blocking_begin)(struct wsd_worker *self);
    void (*blocking_end)(struct wsd_worker *self);
    /* wsd/future.h. */
    void (*future_begin)(struct wsd_worker *self, struct wsd_future *future);
    void (*future_start)(struct wsd_worker *self, struct wsd_future *future, wsd_future_fn *fn, void *arg);
    void (*future_set)(struct wsd_future *future, void *value, int error);
    int (*future_wait)(struct wsd_worker *self, struct wsd_future *future, void **ret_value);
    bool (*future_done)(const struct wsd_future *future);
    bool (*future_help)(struct wsd_future *future);
    /* The forms, for languages that do not read C: wsd/forms.h has a function of the same name and meaning for each. */
    void (*group_begin)(struct wsd_worker *self, struct wsd_group *group, struct wsd_group *parent);
    void (*group_spawn)(struct wsd_worker *self, struct wsd_group *group, wsd_work_fn *fn, void *arg);
    int (*group_end)(struct wsd_worker *self, struct wsd_group *group);
    void (*group_cancel)(struct wsd_group *group);
    bool (*group_cancelled)(const struct wsd_group *group);
    int (*for_each)(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, uint64_t grain,
                    wsd_each_fn *body, void *arg);
    int (*reduce)(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, uint64_t grain,
                  const struct wsd_reduction *reduction, void *ret_value);
    int (*scan)(struct wsd_worker *self, struct wsd_group *group, const struct wsd_scan_args *scan);
    int (*sort)(struct wsd_worker *self, struct wsd_group *group, void *base, uint64_t count, size_t size,
                wsd_compare_fn *compare, void *arg);
    int (*find_first)(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, uint64_t grain,
                      wsd_find_fn *find, void *arg, uint64_t *ret_index);
    int (*pipeline)(struct wsd_worker *self, struct wsd_group *group, const struct wsd_stage *stages, uint32_t n_stages,
                    uint32_t tokens, wsd_drop_fn *drop, void *arg);
    /* wsd/graph.h; kind is its enum wsd_node_kind, until NULL: `times` times. */
    int (*graph_new)(struct wsd_worker *self, struct wsd_graph **ret_graph);
    void (*graph_free)(struct wsd_graph *graph);
    int (*graph_add)(struct wsd_graph *graph, uint32_t kind, const char *name, wsd_node_fn *fn, void *arg,
                     struct wsd_node **ret_node);
    int (*graph_precede)(struct wsd_node *before, struct wsd_node *after);
    int (*graph_run)(struct wsd_worker *self, struct wsd_group *group, struct wsd_graph *graph, uint64_t times,
                     wsd_until_fn *until, void *arg);
    void (*graph_cancel)(struct wsd_graph *graph);
    int (*graph_dump)(const struct wsd_graph *graph, wsd_text_fn *put, void *arg);
};

/* One worker. A plugin uses the macros and `context`; the rest is between the macros and the pool. Fields are appended,
 * never moved. Since 1.
 *
 * Between the owner (the macros, one thread) and thieves (the pool, any thread):
 *   top  written by the owner only, with release (partner: a revoking thief's acquire, which then reads the slots
 *        below). Popping stores top, then loads lo. A revoking thief stores lo, makes every CPU of the process pass a
 *        barrier (membarrier), then loads top. So one of the two sees the other.
 *   hi   a spawn asks the pool when its slot is at or above hi. Relaxed; 0 is a trap that any worker may set.
 *   lo   a sync asks the pool when its slot is below lo. Relaxed; all ones is a trap that any worker may set, which
 *        then sets hi.
 * The rest is the owner's alone. If the stack is full, children run inside their spawn. `done` is how many of them lie
 * below slot `level`. While `refuse` is that slot, the macros do for tasks without result what the pool would do. */
struct wsd_worker {
    uint32_t size;                  /* bytes of this structure that the pool fills [const] */
    uint32_t index;                 /* 0 to workers - 1, or above for a guest [const] */
    struct wsd_task *top;           /* the next free slot [atomic: see above] */
    struct wsd_task *hi;            /* [atomic: see above] */
    struct wsd_task *lo;            /* [atomic: see above] */
    const struct wsd_task_ops *ops; /* [const] */
    void *context;                  /* what the running root belongs to: the host's [owner] */
    struct wsd_task *level;         /* [owner] */
    struct wsd_task *refuse;        /* [owner] */
    uint64_t done;                  /* [owner] */
    uint32_t inside;                /* children that run inside their spawn now [owner] */
    uint32_t own;                   /* wsd_own_begin() without its end [owner; relaxed: read by what publishes] */
};

/* An exception that leaves a task ends the process there and then, as on a thief, where no other task could catch
 * it. */
#ifdef __cplusplus
#define WSD_NOEXCEPT_ noexcept
#else
#define WSD_NOEXCEPT_
#endif
#define WSD_UNUSED_      __attribute__((unused))
#define WSD_TASK_FN_     __attribute__((unused)) static inline
#define WSD_TASK_INLINE_ __attribute__((unused, always_inline)) static inline
#define WSD_TASK_SLOW_   __attribute__((unused, noinline, cold)) static
#define WSD_TASK_FULL_   __attribute__((unused, noinline)) static
#define WSD_UNLIKELY_(x) __builtin_expect(!!(x), 0)
/* An unused last argument: ISO C and C++17 want one for `...`, even if a task has none. */
#define WSD_END_ __attribute__((unused)) int wsd_end_
#ifdef WSD_CHECKS
#define WSD_SPAWN_(name, ...)                                                                                          \
    (wsd_check_spawn_("WSD_SPAWN(" #name ")", &name##_wsd_type, __FILE__, __LINE__),                                   \
     name##_wsd_spawn(self, __VA_ARGS__))
#define WSD_SYNC_(name)                                                                                                \
    (wsd_check_sync_("WSD_SYNC(" #name ")", &name##_wsd_type, __FILE__, __LINE__), name##_wsd_sync(self WSD_LEVEL_))
#else
#define WSD_SPAWN_(name, ...) name##_wsd_spawn(self, __VA_ARGS__)
#define WSD_SYNC_(name)       name##_wsd_sync(self WSD_LEVEL_)
#endif
#define WSD_CALL_(name, ...) name##_wsd_call(self WSD_LEVEL_, __VA_ARGS__)
#define WSD_DATA_(task)      ((void *)((task) + 1))
#define WSD_SLOT_(type)      ((uint32_t)(sizeof(struct wsd_task) + (sizeof(type) + 7) / 8 * 8))

/* How the owner touches top, hi and lo. The stack is balanced: what a task calls leaves top as it was. So a task knows
 * where top is without reading it again. The value is handed on from caller to callee and stays in a register.
 *
 * On x86-64 stores become visible in program order, so only the compiler has to be held. Each asm says which stores are
 * due before it, and that a bound may have changed. Unlike an atomic access, it lets the compiler keep the known value
 * of top. Elsewhere, and for ThreadSanitizer, these are the atomics of the table above. The slow paths are functions of
 * their own: what is left is small enough to be inlined. */
#if defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
#define WSD_TASK_ATOMIC_ 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WSD_TASK_ATOMIC_ 1
#endif
#endif
#ifndef WSD_TASK_ATOMIC_
#define WSD_TASK_ATOMIC_ 0
#endif

static inline struct wsd_task *wsd_task_at_(struct wsd_task *task, ptrdiff_t bytes)
{
    return (struct wsd_task *)(void *)((char *)task + bytes);
}

#if WSD_TASK_ATOMIC_

static inline void wsd_task_type_(struct wsd_task *task, const struct wsd_task_type *type)
{
    __atomic_store_n(&task->word, (uintptr_t)type, __ATOMIC_RELAXED);
}

/* Whether the pool wants to be asked. */
static inline bool wsd_task_push_(struct wsd_worker *self, struct wsd_task *task, uint32_t size)
{
    __atomic_store_n(&self->top, wsd_task_at_(task, size), __ATOMIC_RELEASE);
    return task >= __atomic_load_n(&self->hi, __ATOMIC_RELAXED);
}

static inline void wsd_task_top_(struct wsd_worker *self, struct wsd_task *top)
{
    __atomic_store_n(&self->top, top, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the compiler keeps the order, membarrier the CPU */
}

static inline bool wsd_task_shared_(const struct wsd_worker *self, const struct wsd_task *task)
{
    return task < __atomic_load_n(&self->lo, __ATOMIC_RELAXED);
}

static inline void wsd_task_stored_(const void *arg)
{
    (void)arg;
}

static inline void wsd_task_back_(struct wsd_worker *self, struct wsd_task *top)
{
    (void)self;
    (void)top;
}

#define wsd_task_know_ wsd_task_back_

#else

/* Stores the slot's type. A type mostly follows itself, and a load is cheaper than a store: stores limit small tasks,
 * at one a cycle. The slot may have held an argument, of any type. */
typedef uintptr_t __attribute__((may_alias)) wsd_word_;

static inline void wsd_task_type_(struct wsd_task *task, const struct wsd_task_type *type)
{
    if (WSD_UNLIKELY_(*(const wsd_word_ *)&task->word != (uintptr_t)type))
        task->word = (uintptr_t)type;
}

/* What a thief reads of a slot. */
#define WSD_TASK_WHOLE_(task) (*(const char(*)[sizeof(*(task)) + WSD_TASK_DATA])(const void *)(task))

#ifdef __clang__

static inline bool wsd_task_push_(struct wsd_worker *self, struct wsd_task *task, uint32_t size)
{
    __asm__ volatile("" : "+m"(self->top) : "m"(WSD_TASK_WHOLE_(task))); /* the slot, then top */
    /* Volatile: in this order; unlike after an asm, clang goes on knowing top. */
    *(struct wsd_task *volatile *)&self->top = wsd_task_at_(task, size);
    return task >= *(struct wsd_task *volatile *)&self->hi;
}

/* The first step of a pop; also takes a task off the stack again. */
static inline void wsd_task_top_(struct wsd_worker *self, struct wsd_task *top)
{
    self->top = top;
    __asm__ volatile("" : "+m"(self->lo) : "m"(self->top)); /* top, then lo; membarrier has the CPU do the same */
}

static inline bool wsd_task_shared_(const struct wsd_worker *self, const struct wsd_task *task)
{
    return task < self->lo;
}

#else

/* gcc takes an asm that writes to memory for a store to anything, and forgets what it knew of top: 0.9 instead of 0.8
 * ns a call of fib. So the asms only read. They ask, too: what they read keeps its place among them, they read it in
 * memory, and a bound takes no register. */
static inline bool wsd_task_push_(struct wsd_worker *self, struct wsd_task *task, uint32_t size)
{
    bool ask;

    /* the slot, then top: reading it as it was keeps its next value behind */
    __asm__ volatile("" : : "m"(self->top), "m"(WSD_TASK_WHOLE_(task)));
    self->top = wsd_task_at_(task, size);
    /* top, then hi; nor may top be kept back. task >= hi */
    __asm__ volatile("cmp {%2, %1|%1, %2}" : "=@ccae"(ask) : "r"(task), "m"(self->hi), "m"(self->top));
    return ask;
}

static inline void wsd_task_top_(struct wsd_worker *self, struct wsd_task *top)
{
    self->top = top;
    __asm__ volatile("" : : "m"(self->top)); /* top, then lo; membarrier has the CPU do the same */
}

static inline bool wsd_task_shared_(const struct wsd_worker *self, const struct wsd_task *task)
{
    bool ask;

    __asm__ volatile("cmp {%2, %1|%1, %2}" : "=@ccb"(ask) : "r"(task), "m"(self->lo)); /* task < lo */
    return ask;
}

#endif

/* An argument is in its slot: each by a store of its own, not gathered in a vector register first. */
static inline void wsd_task_stored_(const void *arg)
{
    __asm__ volatile("" : : "m"(*(const char(*)[1])arg));
}

#ifdef __clang__

static inline void wsd_task_know_(struct wsd_worker *self, struct wsd_task *top)
{
    __builtin_assume(self->top == top);
}

#define wsd_task_back_ wsd_task_know_

#else

/* A macro: of a function gcc would throw the condition away before it is inlined. */
#define wsd_task_know_(self, top_is)                                                                                   \
    do {                                                                                                               \
        if ((self)->top != (top_is))                                                                                   \
            __builtin_unreachable();                                                                                   \
    } while (0)

/* The task that a sync without result has run has returned. This is a store that changes nothing. It vanishes if the
 * child was inlined; else it spares gcc a load that would have to wait for the last store of the callee. */
static inline void wsd_task_back_(struct wsd_worker *self, struct wsd_task *top)
{
    self->top = top;
}

#endif
#endif

/* Writes a slot of two words by one store, without reading what was there; returns whether the slot is one of two
 * words. In a loop of spawns this saves a branch, so nothing is lost if the loop crosses a line of code (1.2 -> 0.93 ns
 * a task). In a recursion the vector's register costs more (fib 0.52 -> 0.84), so this is for tasks without result. */
static inline bool wsd_task_at_once_(struct wsd_task *task, const struct wsd_task_type *type, const void *arg,
                                     size_t size)
{
#if WSD_TASK_ATOMIC_ || defined(__clang__)
    (void)task;
    (void)type;
    (void)arg;
    (void)size;
    return false;
#else
    typedef unsigned long long __attribute__((vector_size(16), aligned(8), may_alias)) two_words;
    unsigned long long word;

    if (size != sizeof(word) || sizeof(*task) != sizeof(word))
        return false;
    __builtin_memcpy(&word, arg, sizeof(word));
    const two_words slot = {(uintptr_t)type, word};
    *(two_words *)(void *)task = slot;
    return true;
#endif
}

/* The two ways of a sync without result meet here. With top in a register on both of them, gcc keeps it in one from one
 * sync of a loop to the next. */
static inline void wsd_task_both_(const struct wsd_worker *self)
{
#if WSD_TASK_ATOMIC_ || defined(__clang__)
    (void)self;
#else
    __asm__ volatile("" : : "r"(self->top));
#endif
}

/* A spawn was told to ask. Afterwards top is where it was before if the stack is full and the child has run. */
WSD_TASK_SLOW_ void wsd_task_pushed_(struct wsd_worker *self, struct wsd_task *task)
{
    self->ops->spawn(self, task);
}

/* The same for tasks without result, which need no place for it. begin takes the task off the stack and returns whether
 * the caller is to run it here. */
static inline bool wsd_task_full_begin_(struct wsd_worker *self, struct wsd_task *task, struct wsd_task *next)
{
    if (task != self->refuse)
        return false;
    wsd_task_top_(self, task);
    if (WSD_UNLIKELY_(wsd_task_shared_(self, next))) { /* a thief asks for more, and may have this one */
        wsd_task_top_(self, next);
        return false;
    }
    self->refuse = NULL;
    self->inside++;
    return true;
}

static inline void wsd_task_full_end_(struct wsd_worker *self, struct wsd_task *task)
{
    self->inside--;
    self->done++;
    self->refuse = task;
    if (WSD_UNLIKELY_(__atomic_load_n(&self->hi, __ATOMIC_RELAXED) > task))
        self->ops->lower(self);
}

/* A sync without result was told to ask. Returns whether its child has run inside its spawn, and others of that kind
 * remain. */
static inline bool wsd_task_done_(struct wsd_worker *self, struct wsd_task *next)
{
    if (next != self->level)
        return false;
    if (--self->done == 0) {
        self->done = 1; /* the last one: for the pool, which knows what lies below */
        return false;
    }
    wsd_task_top_(self, next);
    return true;
}

struct wsd_plain_ {
    wsd_task_fn *fn;
    void *arg;
};

WSD_UNUSED_ static void wsd_plain_run_(struct wsd_worker *self, struct wsd_task *task) WSD_NOEXCEPT_
{
    struct wsd_plain_ p = *(struct wsd_plain_ *)WSD_DATA_(task);

    p.fn(self, p.arg);
}

WSD_UNUSED_ static const struct wsd_task_type wsd_plain_type_ = {wsd_plain_run_, WSD_SLOT_(struct wsd_plain_), 0};

WSD_TASK_FULL_ void wsd_plain_pushed_(struct wsd_worker *self, struct wsd_task *task)
{
    if (wsd_task_full_begin_(self, task, wsd_task_at_(task, WSD_SLOT_(struct wsd_plain_)))) {
        wsd_plain_run_(self, task);
        wsd_task_full_end_(self, task);
    } else {
        wsd_task_pushed_(self, task);
    }
}

/* Spawns fn(arg) as a child. Since 1. */
static inline void wsd_spawn(struct wsd_worker *self, wsd_task_fn *fn, void *arg)
{
    struct wsd_task *task = self->top, *next = wsd_task_at_(task, WSD_SLOT_(struct wsd_plain_));
    struct wsd_plain_ *p = (struct wsd_plain_ *)WSD_DATA_(task);

    p->fn = fn;
    p->arg = arg;
    wsd_task_type_(task, &wsd_plain_type_);
    if (WSD_UNLIKELY_(wsd_task_push_(self, task, WSD_SLOT_(struct wsd_plain_))))
        next = (wsd_plain_pushed_(self, task), self->top);
    wsd_task_know_(self, next);
}

WSD_TASK_SLOW_ void wsd_plain_slow_(struct wsd_worker *self, struct wsd_task *task)
{
    if (!self->ops->sync(self, task, &wsd_plain_type_))
        wsd_plain_run_(self, task);
}

/* Joins the youngest child, which was spawned with wsd_spawn(). Since 1. */
static inline void wsd_sync(struct wsd_worker *self)
{
    struct wsd_task *next = self->top, *task = wsd_task_at_(next, -(ptrdiff_t)WSD_SLOT_(struct wsd_plain_));

    wsd_task_top_(self, task);
    if (WSD_UNLIKELY_(wsd_task_shared_(self, task))) {
        if (!wsd_task_done_(self, next))
            wsd_plain_slow_(self, task); /* top is next at the last of those */
    } else {
        wsd_plain_run_(self, task);
        wsd_task_back_(self, task);
    }
    wsd_task_both_(self);
}

#ifdef __cplusplus
struct wsd_for_ {
    wsd_for_fn *body;
    void *arg;
};

WSD_UNUSED_ static void wsd_for_piece_(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg) WSD_NOEXCEPT_
{
    const struct wsd_for_ *whole = (const struct wsd_for_ *)arg;

    whole->body(self, begin, end, whole->arg);
}
#endif

/* Runs body over begin <= i < end, and returns when all is done. The pieces have at most grain elements, and may run in
 * parallel and in any order. It halves the range until a piece is small enough. grain 0: chosen so that every worker
 * gets several pieces. An empty range (end <= begin) does nothing. Since 1. */
static inline void wsd_for(struct wsd_worker *self, uint64_t begin, uint64_t end, uint64_t grain, wsd_for_fn *body,
                           void *arg)
{
#ifdef __cplusplus
    struct wsd_for_ whole = {body, arg};

    self->ops->for_range(self, begin, end, grain, wsd_for_piece_, &whole);
#else
    self->ops->for_range(self, begin, end, grain, body, arg);
#endif
}

/* Between these calls a sync runs nothing but what it waits for: its own child and that child's descendants. If they
 * give it nothing to do, it sleeps, and another worker takes the CPU. The same holds for the syncs of what is spawned
 * here. So a lock may be held across such a sync: no task that wants the same lock runs on top of its holder, or of
 * what its holder waits for.
 *
 * Use them in pairs, in the same task; they nest. The sync costs more if the child was stolen. After TBB's
 * this_task_arena::isolate. Since 1. */
static inline void wsd_own_begin(struct wsd_worker *self)
{
    __atomic_store_n(&self->own, self->own + 1, __ATOMIC_RELAXED);
}

static inline void wsd_own_end(struct wsd_worker *self)
{
    __atomic_store_n(&self->own, self->own - 1, __ATOMIC_RELAXED);
}

/* Between these calls the task waits for something that is not a task: a child process, a descriptor, a lock that may
 * be held for long. Meanwhile another worker takes its CPU, and the tasks that this one has spawned can be stolen.
 * There are at most 256 such workers beyond the number asked for; above that the CPU stays idle.
 *
 * A wait without these calls is found out where work waits: see wsd-plugin(7). Until then it costs others 10 to 20
 * milliseconds.
 *
 * Afterwards this task goes on at once, and a worker stops where it would begin another task. Until then one more
 * worker computes for each task that was blocked.
 *
 * Use them in pairs, in the same task; they nest. Call nothing else of this file in between. They cost some
 * microseconds, so they are not worth it for shorter waits. After ForkJoinPool's ManagedBlocker. Since 1. */
static inline void wsd_blocking_begin(struct wsd_worker *self)
{
    self->ops->blocking_begin(self);
}

static inline void wsd_blocking_end(struct wsd_worker *self)
{
    self->ops->blocking_end(self);
}

/* WSD_CHECKS, if defined before this file is included (-DWSD_CHECKS), checks that each WSD_SYNC is that of the youngest
 * WSD_SPAWN. If that spawn is of another type, or there is none, the process is aborted, with the file and line of
 * both. The check costs some nanoseconds a spawn, and 32 bytes for each spawn that was not joined yet; without it,
 * nothing. Since 1.
 *
 * A task runs on one thread from its first spawn to its last sync. What that thread runs meanwhile spawns and joins in
 * pairs. So the spawns of a thread that were not joined are a stack, whichever worker runs the children. */
#ifdef WSD_CHECKS
struct wsd_check_ {
    const char *name, *file;
    const struct wsd_task_type *type;
    int line;
};

struct wsd_checks_ {
    struct wsd_checks_ *below;
    uint32_t n;
    struct wsd_check_ at[255];
};

/* The spawns of this thread, and of this source file, to which a task is local. Freed when the last of them is
 * joined. */
WSD_UNUSED_ static __thread struct wsd_checks_ *wsd_checks_top_;

WSD_TASK_SLOW_ void wsd_check_fail_(const char *name, const char *file, int line, const struct wsd_check_ *spawn)
{
    char text[512];

    if (spawn)
        snprintf(text, sizeof(text), "%s joins the child of %s at %s:%d", name, spawn->name, spawn->file, spawn->line);
    else
        snprintf(text, sizeof(text), "%s joins nothing: there is no spawn", name);
#if defined(__GLIBC__) && !defined(NDEBUG)
    __assert_fail(text, file, (unsigned)line, "WSD_CHECKS"); /* abort() with words that a core file has, too */
#else
    fprintf(stderr, "%s:%d: %s\n", file, line, text);
    abort();
#endif
}

WSD_UNUSED_ static inline void wsd_check_spawn_(const char *name, const struct wsd_task_type *type, const char *file,
                                                int line)
{
    struct wsd_checks_ *top = wsd_checks_top_;

    if (!top || top->n == sizeof(top->at) / sizeof(*top->at)) {
        top = (struct wsd_checks_ *)malloc(sizeof(*top));
        if (!top)
            abort();
        top->below = wsd_checks_top_;
        top->n = 0;
        wsd_checks_top_ = top;
    }

    struct wsd_check_ *check = &top->at[top->n++];

    check->name = name;
    check->file = file;
    check->type = type;
    check->line = line;
}

WSD_UNUSED_ static inline void wsd_check_sync_(const char *name, const struct wsd_task_type *type, const char *file,
                                               int line)
{
    struct wsd_checks_ *top = wsd_checks_top_;

    if (!top) {
        wsd_check_fail_(name, file, line, NULL);
        return;
    }

    const struct wsd_check_ *check = &top->at[top->n - 1];

    if (check->type != type)
        wsd_check_fail_(name, file, line, check);
    if (--top->n == 0) {
        wsd_checks_top_ = top->below;
        free(top);
    }
}

#define wsd_spawn(...) (wsd_check_spawn_("wsd_spawn()", &wsd_plain_type_, __FILE__, __LINE__), wsd_spawn(__VA_ARGS__))
#define wsd_sync(...)  (wsd_check_sync_("wsd_sync()", &wsd_plain_type_, __FILE__, __LINE__), wsd_sync(__VA_ARGS__))
#endif

/* WSD_SPAWN(NAME, arguments...): spawns the task NAME with these arguments as a child. Since 1. */
#define WSD_SPAWN(...) WSD_SPAWN_(__VA_ARGS__, 0)

/* WSD_CALL(NAME, arguments...): runs it here and now, as an ordinary call, and gives its result. Since 1. */
#define WSD_CALL(...) WSD_CALL_(__VA_ARGS__, 0)

/* WSD_SYNC(NAME): joins the youngest child, which was spawned as NAME, and gives its result. Since 1. */
#define WSD_SYNC(name) WSD_SYNC_(name)

/* WSD_TASK_n(type, name, type1, argument1, ...) { body }      defines a task with n arguments and a result, and
 * WSD_VOID_TASK_n(name, type1, argument1, ...) { body }       one without a result.
 *
 * Where tasks use one another, or one is used above its body, declare first and define later:
 *
 *     WSD_TASK_DECL_1(bool, odd, unsigned);
 *     WSD_TASK_1(bool, even, unsigned, n) { ... WSD_SPAWN(odd, n - 1); ... WSD_SYNC(odd) ... }
 *     WSD_TASK_IMPL_1(bool, odd, unsigned, n) { ... }
 *
 * and WSD_VOID_TASK_DECL_n, WSD_VOID_TASK_IMPL_n. A task is local to its source file. Since 1. */

/* WSD_TASK_COPIES, if defined before this file is included, is 1, 3 or 16: the number of copies of the body of a task
 * with a result. The default is 16. Each copy calls the next one where the task calls itself. So the compiler inlines
 * them as it inlines other functions, and small tasks get faster: fib 0.68 -> 0.56 ns a call by gcc, 1.3 -> 0.93 by
 * clang. (Recursion is never inlined by clang.) With 1, programs are smaller, and their compilation is shorter: a task
 * of 2 KiB is 30 KiB with 16. Since 1. */
#ifndef WSD_TASK_COPIES
#define WSD_TASK_COPIES 16
#endif

/* A copy's number, the end of its name, and the number of the next one. A body knows its copy by a parameter; code
 * outside of tasks sees the function of that name (a constant would be shadowed, and compilers may warn of that). Tasks
 * without result have one copy: with more, their leaves in a loop are slower. A sync that is the last call goes to the
 * same copy: compilers make a loop of it. Without no_icf, gcc would see that the copies are alike, and merge them
 * again. */
WSD_UNUSED_ static inline void wsd_level_(void)
{
}
#if WSD_TASK_COPIES == 1
#define WSD_COPIES_(x, ...) x(0, , , __VA_ARGS__)
#elif WSD_TASK_COPIES == 3
#define WSD_COPIES_(x, ...) x(0, , 1, __VA_ARGS__) x(1, 1, 2, __VA_ARGS__) x(2, 2, , __VA_ARGS__)
#elif WSD_TASK_COPIES == 16
#define WSD_COPIES_(x, ...)                                                                                            \
    x(0, , 1, __VA_ARGS__) x(1, 1, 2, __VA_ARGS__) x(2, 2, 3, __VA_ARGS__) x(3, 3, 4, __VA_ARGS__)                     \
        x(4, 4, 5, __VA_ARGS__) x(5, 5, 6, __VA_ARGS__) x(6, 6, 7, __VA_ARGS__) x(7, 7, 8, __VA_ARGS__)                \
            x(8, 8, 9, __VA_ARGS__) x(9, 9, 10, __VA_ARGS__) x(10, 10, 11, __VA_ARGS__) x(11, 11, 12, __VA_ARGS__)     \
                x(12, 12, 13, __VA_ARGS__) x(13, 13, 14, __VA_ARGS__) x(14, 14, 15, __VA_ARGS__)                       \
                    x(15, 15, , __VA_ARGS__)
#else
#error WSD_TASK_COPIES is 1, 3 or 16
#endif
#ifdef __clang__
#define WSD_COPY_FN_ WSD_TASK_FN_
/* clang treats functions that call one another in a ring together, and inlines before it makes loops. So the last copy
 * and the slow path do not name the first one. */
#define WSD_RING_(n, type, name, ...)                                                                                  \
    WSD_UNUSED_ static WSD_COPY_HEAD_(n, type, (*const volatile name##_wsd_first), __VA_ARGS__) = name##_wsd_enter;
#define WSD_FIRST_(name) name##_wsd_first
#else
#define WSD_COPY_FN_ __attribute__((no_icf)) WSD_TASK_FN_
#define WSD_RING_(n, type, name, ...)
#define WSD_FIRST_(name) name##_wsd_enter
#endif
#if defined(__clang__) && !WSD_TASK_ATOMIC_
/* clang makes a loop of a last call only if no other way leads to the end behind it. So a sync that has to ask calls,
 * too, with a place that no slot has, and zeros for arguments; the copy asks. */
WSD_UNUSED_ static const uint64_t wsd_zeros_[WSD_TASK_DATA / 8] = {0};
static inline void *wsd_no_args_(void)
{
    const void *none = wsd_zeros_;

    __asm__("" : "+r"(none)); /* of no type */
    return (void *)(uintptr_t)none;
}
#define WSD_ASK_(name, task, args)                                                                                     \
    (task) = wsd_task_at_(task, 1);                                                                                    \
    (args) = (struct name##_wsd_args *)wsd_no_args_();
#define WSD_IS_ASKED_(name, task)                                                                                      \
    if (WSD_UNLIKELY_((uintptr_t)(task)&1))                                                                            \
        return name##_wsd_slow(self, wsd_task_at_(task, -1));
#define WSD_IS_A_SLOT_(task) __builtin_assume(((uintptr_t)(task)&1) == 0)
#else
#define WSD_ASK_(name, task, args) return name##_wsd_slow(self, task);
#define WSD_IS_ASKED_(name, task)
#define WSD_IS_A_SLOT_(task) (void)(task)
#endif
#ifdef __cplusplus
extern "C++" {
static inline constexpr int wsd_level_of_(int level)
{
    return level;
}
static inline constexpr int wsd_level_of_(void (*)(void))
{
    return WSD_TASK_COPIES;
}
}
#define WSD_LEVEL_ , wsd_level_of_(wsd_level_)
#else
#define WSD_LEVEL_ , _Generic(wsd_level_, int : wsd_level_, default : WSD_TASK_COPIES)
#endif
#define WSD_SELF_ WSD_UNUSED_ struct wsd_worker *self, WSD_UNUSED_ int wsd_level_
#define WSD_COPY_HEAD_(n, type, name, ...)                                                                             \
    type name(struct wsd_worker *self, struct wsd_task *wsd_t_ WSD_PARAMS_##n##_(__VA_ARGS__)) WSD_NOEXCEPT_
#define WSD_COPY_SAID_(level, copy, next, n, type, name, ...)                                                          \
    WSD_COPY_FN_ WSD_COPY_HEAD_(n, type, name##_wsd_enter##copy, __VA_ARGS__);
#define WSD_COPY_MADE_(level, copy, next, n, type, name, ...)                                                          \
    WSD_COPY_FN_ WSD_COPY_HEAD_(n, type, name##_wsd_enter##copy, __VA_ARGS__)                                          \
    {                                                                                                                  \
        WSD_IS_ASKED_(name, wsd_t_)                                                                                    \
        wsd_task_know_(self, wsd_t_);                                                                                  \
        return name##_wsd_body(self, level WSD_PASS_##n##_);                                                           \
    }
#define WSD_TO_NEXT_(level, copy, next, n, name)                                                                       \
    if (wsd_level_ == level && level != WSD_TASK_COPIES - 1)                                                           \
        return name##_wsd_enter##next(self, wsd_t_ WSD_PASS_##n##_);
#define WSD_TO_SAME_(level, copy, next, n, name)                                                                       \
    if (wsd_level_ == level)                                                                                           \
        return name##_wsd_enter##copy(self, wsd_t_ WSD_PASS_##n##_);
#define WSD_ENTERS_(n, type, name, ...)                                                                                \
    WSD_TASK_SLOW_ type name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_) WSD_NOEXCEPT_;               \
    WSD_COPIES_(WSD_COPY_SAID_, n, type, name, __VA_ARGS__)                                                            \
    WSD_RING_(n, type, name, __VA_ARGS__)                                                                              \
    WSD_TASK_INLINE_ type name##_wsd_next(WSD_SELF_, struct wsd_task *wsd_t_ WSD_PARAMS_##n##_(__VA_ARGS__))           \
        WSD_NOEXCEPT_                                                                                                  \
    {                                                                                                                  \
        WSD_COPIES_(WSD_TO_NEXT_, n, name)                                                                             \
        if (wsd_level_ == WSD_TASK_COPIES - 1)                                                                         \
            return WSD_FIRST_(name)(self, wsd_t_ WSD_PASS_##n##_);                                                     \
        return name##_wsd_enter(self, wsd_t_ WSD_PASS_##n##_);                                                         \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_same(WSD_SELF_, struct wsd_task *wsd_t_ WSD_PARAMS_##n##_(__VA_ARGS__))           \
        WSD_NOEXCEPT_                                                                                                  \
    {                                                                                                                  \
        WSD_COPIES_(WSD_TO_SAME_, n, name)                                                                             \
        return name##_wsd_enter(self, wsd_t_ WSD_PASS_##n##_);                                                         \
    }                                                                                                                  \
    WSD_COPIES_(WSD_COPY_MADE_, n, type, name, __VA_ARGS__)

#define WSD_DECL_(n, type, name, ...)                                                                                  \
    struct name##_wsd_args {                                                                                           \
        WSD_FIELDS_##n##_(__VA_ARGS__)                                                                                 \
    };                                                                                                                 \
    struct name##_wsd_result {                                                                                         \
        type value;                                                                                                    \
    };                                                                                                                 \
    union name##_wsd_data {                                                                                            \
        struct name##_wsd_args args;                                                                                   \
        struct name##_wsd_result result;                                                                               \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_FITS_(struct name##_wsd_result, "result");                                                                     \
    WSD_TASK_INLINE_ type name##_wsd_body(WSD_SELF_ WSD_PARAMS_##n##_(__VA_ARGS__)) WSD_NOEXCEPT_;                     \
    WSD_ENTERS_(n, type, name, __VA_ARGS__)                                                                            \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_) WSD_NOEXCEPT_             \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        (void)wsd_p_;                                                                                                  \
        type wsd_value_ = name##_wsd_enter(self, self->top WSD_LOAD_##n##_);                                           \
        ((struct name##_wsd_result *)WSD_DATA_(wsd_t_))->value = wsd_value_;                                           \
    }                                                                                                                  \
    WSD_UNUSED_ static const struct wsd_task_type name##_wsd_type = {name##_wsd_run, WSD_SLOT_(union name##_wsd_data), \
                                                                     (uint32_t)sizeof(struct name##_wsd_result)};      \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self WSD_PARAMS_##n##_(__VA_ARGS__), WSD_END_)           \
        WSD_NOEXCEPT_                                                                                                  \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top, *wsd_next_ = wsd_task_at_(wsd_t_, WSD_SLOT_(union name##_wsd_data));      \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        (void)wsd_p_;                                                                                                  \
        WSD_STORE_##n##_ wsd_task_type_(wsd_t_, &name##_wsd_type);                                                     \
        if (WSD_UNLIKELY_(wsd_task_push_(self, wsd_t_, WSD_SLOT_(union name##_wsd_data))))                             \
            wsd_next_ = (wsd_task_pushed_(self, wsd_t_), self->top);                                                   \
        wsd_task_know_(self, wsd_next_);                                                                               \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_call(WSD_SELF_ WSD_PARAMS_##n##_(__VA_ARGS__), WSD_END_) WSD_NOEXCEPT_            \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        WSD_IS_A_SLOT_(wsd_t_);                                                                                        \
        type wsd_value_ = name##_wsd_next(self WSD_LEVEL_, wsd_t_ WSD_PASS_##n##_);                                    \
        wsd_task_know_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_TASK_SLOW_ type name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_) WSD_NOEXCEPT_                \
    {                                                                                                                  \
        struct wsd_task *wsd_done_ = self->ops->sync(self, wsd_t_, &name##_wsd_type);                                  \
        if (wsd_done_)                                                                                                 \
            return ((struct name##_wsd_result *)WSD_DATA_(wsd_done_))->value;                                          \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        (void)wsd_p_;                                                                                                  \
        return WSD_FIRST_(name)(self, wsd_t_ WSD_LOAD_##n##_);                                                         \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_sync(WSD_SELF_) WSD_NOEXCEPT_                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_at_(self->top, -(ptrdiff_t)WSD_SLOT_(union name##_wsd_data));               \
        struct name##_wsd_args *wsd_at_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                 \
        wsd_task_top_(self, wsd_t_);                                                                                   \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_))) {                                                           \
            WSD_ASK_(name, wsd_t_, wsd_at_)                                                                            \
        }                                                                                                              \
        struct name##_wsd_args wsd_p_ = *wsd_at_;                                                                      \
        (void)wsd_p_;                                                                                                  \
        /* No wsd_task_back_(): the last call of most tasks, which gcc makes a loop of where nothing follows. */       \
        return name##_wsd_same(self WSD_LEVEL_, wsd_t_ WSD_LOAD_##n##_);                                               \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_VOID_DECL_(n, name, ...)                                                                                   \
    struct name##_wsd_args {                                                                                           \
        WSD_FIELDS_##n##_(__VA_ARGS__)                                                                                 \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_TASK_INLINE_ void name##_wsd_body(WSD_SELF_ WSD_PARAMS_##n##_(__VA_ARGS__)) WSD_NOEXCEPT_;                     \
    WSD_TASK_FN_ void name##_wsd_enter(struct wsd_worker *self,                                                        \
                                       struct wsd_task *wsd_t_ WSD_PARAMS_##n##_(__VA_ARGS__)) WSD_NOEXCEPT_           \
    {                                                                                                                  \
        wsd_task_know_(self, wsd_t_);                                                                                  \
        name##_wsd_body(self WSD_LEVEL_ WSD_PASS_##n##_);                                                              \
    }                                                                                                                  \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_) WSD_NOEXCEPT_             \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        (void)wsd_p_;                                                                                                  \
        name##_wsd_enter(self, self->top WSD_LOAD_##n##_);                                                             \
    }                                                                                                                  \
    WSD_UNUSED_ static const struct wsd_task_type name##_wsd_type = {name##_wsd_run,                                   \
                                                                     WSD_SLOT_(struct name##_wsd_args), 0};            \
    WSD_TASK_FULL_ void name##_wsd_pushed(struct wsd_worker *self, struct wsd_task *wsd_t_) WSD_NOEXCEPT_              \
    {                                                                                                                  \
        if (wsd_task_full_begin_(self, wsd_t_, wsd_task_at_(wsd_t_, WSD_SLOT_(struct name##_wsd_args)))) {             \
            struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                              \
            (void)wsd_p_;                                                                                              \
            name##_wsd_enter(self, wsd_t_ WSD_LOAD_##n##_);                                                            \
            wsd_task_full_end_(self, wsd_t_);                                                                          \
        } else {                                                                                                       \
            wsd_task_pushed_(self, wsd_t_);                                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self WSD_PARAMS_##n##_(__VA_ARGS__), WSD_END_)           \
        WSD_NOEXCEPT_                                                                                                  \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top, *wsd_next_ = wsd_task_at_(wsd_t_, WSD_SLOT_(struct name##_wsd_args));     \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        (void)wsd_p_;                                                                                                  \
        if (!WSD_AT_ONCE_##n##_(wsd_t_, &name##_wsd_type)) {                                                           \
            WSD_STORE_##n##_ wsd_task_type_(wsd_t_, &name##_wsd_type);                                                 \
        }                                                                                                              \
        if (WSD_UNLIKELY_(wsd_task_push_(self, wsd_t_, WSD_SLOT_(struct name##_wsd_args))))                            \
            wsd_next_ = (name##_wsd_pushed(self, wsd_t_), self->top);                                                  \
        wsd_task_know_(self, wsd_next_);                                                                               \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_call(WSD_SELF_ WSD_PARAMS_##n##_(__VA_ARGS__), WSD_END_) WSD_NOEXCEPT_            \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        name##_wsd_enter(self, wsd_t_ WSD_PASS_##n##_);                                                                \
        wsd_task_know_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_TASK_SLOW_ void name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_) WSD_NOEXCEPT_                \
    {                                                                                                                  \
        if (self->ops->sync(self, wsd_t_, &name##_wsd_type))                                                           \
            return;                                                                                                    \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        (void)wsd_p_;                                                                                                  \
        name##_wsd_enter(self, wsd_t_ WSD_LOAD_##n##_);                                                                \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_sync(WSD_SELF_) WSD_NOEXCEPT_                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_next_ = self->top;                                                                        \
        struct wsd_task *wsd_t_ = wsd_task_at_(wsd_next_, -(ptrdiff_t)WSD_SLOT_(struct name##_wsd_args));              \
        wsd_task_top_(self, wsd_t_);                                                                                   \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_))) {                                                           \
            if (!wsd_task_done_(self, wsd_next_))                                                                      \
                name##_wsd_slow(self, wsd_t_); /* top is wsd_next_ at the last of them */                              \
        } else {                                                                                                       \
            struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                              \
            (void)wsd_p_;                                                                                              \
            name##_wsd_enter(self, wsd_t_ WSD_LOAD_##n##_);                                                            \
            wsd_task_back_(self, wsd_t_);                                                                              \
        }                                                                                                              \
        wsd_task_both_(self);                                                                                          \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

/* Lists for 0 to 6 arguments. AT_ONCE: whether one store has filled the slot. FIELDS: members of a structure. PARAMS:
 * parameters. PASS: arguments from these. STORE: stores into the slot. LOAD: arguments from a copy of it. */
#define WSD_AT_ONCE_0_(task, type) false
#define WSD_AT_ONCE_1_(task, type) wsd_task_at_once_(task, type, &wsd_a1, sizeof(wsd_a1))
#define WSD_AT_ONCE_2_             WSD_AT_ONCE_0_
#define WSD_AT_ONCE_3_             WSD_AT_ONCE_0_
#define WSD_AT_ONCE_4_             WSD_AT_ONCE_0_
#define WSD_AT_ONCE_5_             WSD_AT_ONCE_0_
#define WSD_AT_ONCE_6_             WSD_AT_ONCE_0_
#define WSD_FIELDS_0_()            char none;
#define WSD_PARAMS_0_()
#define WSD_PASS_0_
#define WSD_STORE_0_
#define WSD_LOAD_0_
#define WSD_FIELDS_1_(t1) t1 a1;
#define WSD_PARAMS_1_(t1) WSD_PARAMS_0_(), t1 wsd_a1
#define WSD_PASS_1_       WSD_PASS_0_, wsd_a1
#define WSD_STORE_1_                                                                                                   \
    WSD_STORE_0_ wsd_p_->a1 = wsd_a1;                                                                                  \
    wsd_task_stored_(&wsd_p_->a1);
#define WSD_LOAD_1_           WSD_LOAD_0_, wsd_p_.a1
#define WSD_FIELDS_2_(t1, t2) WSD_FIELDS_1_(t1) t2 a2;
#define WSD_PARAMS_2_(t1, t2) WSD_PARAMS_1_(t1), t2 wsd_a2
#define WSD_PASS_2_           WSD_PASS_1_, wsd_a2
#define WSD_STORE_2_                                                                                                   \
    WSD_STORE_1_ wsd_p_->a2 = wsd_a2;                                                                                  \
    wsd_task_stored_(&wsd_p_->a2);
#define WSD_LOAD_2_               WSD_LOAD_1_, wsd_p_.a2
#define WSD_FIELDS_3_(t1, t2, t3) WSD_FIELDS_2_(t1, t2) t3 a3;
#define WSD_PARAMS_3_(t1, t2, t3) WSD_PARAMS_2_(t1, t2), t3 wsd_a3
#define WSD_PASS_3_               WSD_PASS_2_, wsd_a3
#define WSD_STORE_3_                                                                                                   \
    WSD_STORE_2_ wsd_p_->a3 = wsd_a3;                                                                                  \
    wsd_task_stored_(&wsd_p_->a3);
#define WSD_LOAD_3_                   WSD_LOAD_2_, wsd_p_.a3
#define WSD_FIELDS_4_(t1, t2, t3, t4) WSD_FIELDS_3_(t1, t2, t3) t4 a4;
#define WSD_PARAMS_4_(t1, t2, t3, t4) WSD_PARAMS_3_(t1, t2, t3), t4 wsd_a4
#define WSD_PASS_4_                   WSD_PASS_3_, wsd_a4
#define WSD_STORE_4_                                                                                                   \
    WSD_STORE_3_ wsd_p_->a4 = wsd_a4;                                                                                  \
    wsd_task_stored_(&wsd_p_->a4);
#define WSD_LOAD_4_                       WSD_LOAD_3_, wsd_p_.a4
#define WSD_FIELDS_5_(t1, t2, t3, t4, t5) WSD_FIELDS_4_(t1, t2, t3, t4) t5 a5;
#define WSD_PARAMS_5_(t1, t2, t3, t4, t5) WSD_PARAMS_4_(t1, t2, t3, t4), t5 wsd_a5
#define WSD_PASS_5_                       WSD_PASS_4_, wsd_a5
#define WSD_STORE_5_                                                                                                   \
    WSD_STORE_4_ wsd_p_->a5 = wsd_a5;                                                                                  \
    wsd_task_stored_(&wsd_p_->a5);
#define WSD_LOAD_5_                           WSD_LOAD_4_, wsd_p_.a5
#define WSD_FIELDS_6_(t1, t2, t3, t4, t5, t6) WSD_FIELDS_5_(t1, t2, t3, t4, t5) t6 a6;
#define WSD_PARAMS_6_(t1, t2, t3, t4, t5, t6) WSD_PARAMS_5_(t1, t2, t3, t4, t5), t6 wsd_a6
#define WSD_PASS_6_                           WSD_PASS_5_, wsd_a6
#define WSD_STORE_6_                                                                                                   \
    WSD_STORE_5_ wsd_p_->a6 = wsd_a6;                                                                                  \
    wsd_task_stored_(&wsd_p_->a6);
#define WSD_LOAD_6_ WSD_LOAD_5_, wsd_p_.a6

#define WSD_TASK_DECL_0(type, name) WSD_DECL_(0, type, name, )
#define WSD_TASK_IMPL_0(type, name) WSD_TASK_INLINE_ type name##_wsd_body(WSD_SELF_) WSD_NOEXCEPT_
#define WSD_TASK_0(type, name)                                                                                         \
    WSD_TASK_DECL_0(type, name);                                                                                       \
    WSD_TASK_IMPL_0(type, name)
#define WSD_VOID_TASK_DECL_0(name) WSD_VOID_DECL_(0, name, )
#define WSD_VOID_TASK_IMPL_0(name) WSD_TASK_INLINE_ void name##_wsd_body(WSD_SELF_) WSD_NOEXCEPT_
#define WSD_VOID_TASK_0(name)                                                                                          \
    WSD_VOID_TASK_DECL_0(name);                                                                                        \
    WSD_VOID_TASK_IMPL_0(name)

#define WSD_TASK_DECL_1(type, name, ...)    WSD_DECL_(1, type, name, __VA_ARGS__)
#define WSD_TASK_IMPL_1(type, name, t1, a1) WSD_TASK_INLINE_ type name##_wsd_body(WSD_SELF_, t1 a1) WSD_NOEXCEPT_
#define WSD_TASK_1(type, name, t1, a1)                                                                                 \
    WSD_TASK_DECL_1(type, name, t1);                                                                                   \
    WSD_TASK_IMPL_1(type, name, t1, a1)
#define WSD_VOID_TASK_DECL_1(name, ...)    WSD_VOID_DECL_(1, name, __VA_ARGS__)
#define WSD_VOID_TASK_IMPL_1(name, t1, a1) WSD_TASK_INLINE_ void name##_wsd_body(WSD_SELF_, t1 a1) WSD_NOEXCEPT_
#define WSD_VOID_TASK_1(name, t1, a1)                                                                                  \
    WSD_VOID_TASK_DECL_1(name, t1);                                                                                    \
    WSD_VOID_TASK_IMPL_1(name, t1, a1)

#define WSD_TASK_DECL_2(type, name, ...) WSD_DECL_(2, type, name, __VA_ARGS__)
#define WSD_TASK_IMPL_2(type, name, t1, a1, t2, a2)                                                                    \
    WSD_TASK_INLINE_ type name##_wsd_body(WSD_SELF_, t1 a1, t2 a2) WSD_NOEXCEPT_
#define WSD_TASK_2(type, name, t1, a1, t2, a2)                                                                         \
    WSD_TASK_DECL_2(type, name, t1, t2);                                                                               \
    WSD_TASK_IMPL_2(type, name, t1, a1, t2, a2)
#define WSD_VOID_TASK_DECL_2(name, ...) WSD_VOID_DECL_(2, name, __VA_ARGS__)
#define WSD_VOID_TASK_IMPL_2(name, t1, a1, t2, a2)                                                                     \
    WSD_TASK_INLINE_ void name##_wsd_body(WSD_SELF_, t1 a1, t2 a2) WSD_NOEXCEPT_
#define WSD_VOID_TASK_2(name, t1, a1, t2, a2)                                                                          \
    WSD_VOID_TASK_DECL_2(name, t1, t2);                                                                                \
    WSD_VOID_TASK_IMPL_2(name, t1, a1, t2, a2)

#define WSD_TASK_DECL_3(type, name, ...) WSD_DECL_(3, type, name, __VA_ARGS__)
#define WSD_TASK_IMPL_3(type, name, t1, a1, t2, a2, t3, a3)                                                            \
    WSD_TASK_INLINE_ type name##_wsd_body(WSD_SELF_, t1 a1, t2 a2, t3 a3) WSD_NOEXCEPT_
#define WSD_TASK_3(type, name, t1, a1, t2, a2, t3, a3)                                                                 \
    WSD_TASK_DECL_3(type, name, t1, t2, t3);                                                                           \
    WSD_TASK_IMPL_3(type, name, t1, a1, t2, a2, t3, a3)
#define WSD_VOID_TASK_DECL_3(name, ...) WSD_VOID_DECL_(3, name, __VA_ARGS__)
#define WSD_VOID_TASK_IMPL_3(name, t1, a1, t2, a2, t3, a3)                                                             \
    WSD_TASK_INLINE_ void name##_wsd_body(WSD_SELF_, t1 a1, t2 a2, t3 a3) WSD_NOEXCEPT_
#define WSD_VOID_TASK_3(name, t1, a1, t2, a2, t3, a3)                                                                  \
    WSD_VOID_TASK_DECL_3(name, t1, t2, t3);                                                                            \
    WSD_VOID_TASK_IMPL_3(name, t1, a1, t2, a2, t3, a3)

#define WSD_TASK_DECL_4(type, name, ...) WSD_DECL_(4, type, name, __VA_ARGS__)
#define WSD_TASK_IMPL_4(type, name, t1, a1, t2, a2, t3, a3, t4, a4)                                                    \
    WSD_TASK_INLINE_ type name##_wsd_body(WSD_SELF_, t1 a1, t2 a2, t3 a3, t4 a4) WSD_NOEXCEPT_
#define WSD_TASK_4(type, name, t1, a1, t2, a2, t3, a3, t4, a4)                                                         \
    WSD_TASK_DECL_4(type, name, t1, t2, t3, t4);                                                                       \
    WSD_TASK_IMPL_4(type, name, t1, a1, t2, a2, t3, a3, t4, a4)
#define WSD_VOID_TASK_DECL_4(name, ...) WSD_VOID_DECL_(4, name, __VA_ARGS__)
#define WSD_VOID_TASK_IMPL_4(name, t1, a1, t2, a2, t3, a3, t4, a4)                                                     \
    WSD_TASK_INLINE_ void name##_wsd_body(WSD_SELF_, t1 a1, t2 a2, t3 a3, t4 a4) WSD_NOEXCEPT_
#define WSD_VOID_TASK_4(name, t1, a1, t2, a2, t3, a3, t4, a4)                                                          \
    WSD_VOID_TASK_DECL_4(name, t1, t2, t3, t4);                                                                        \
    WSD_VOID_TASK_IMPL_4(name, t1, a1, t2, a2, t3, a3, t4, a4)

#define WSD_TASK_DECL_5(type, name, ...) WSD_DECL_(5, type, name, __VA_ARGS__)
#define WSD_TASK_IMPL_5(type, name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5)                                            \
    WSD_TASK_INLINE_ type name##_wsd_body(WSD_SELF_, t1 a1, t2 a2, t3 a3, t4 a4, t5 a5) WSD_NOEXCEPT_
#define WSD_TASK_5(type, name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5)                                                 \
    WSD_TASK_DECL_5(type, name, t1, t2, t3, t4, t5);                                                                   \
    WSD_TASK_IMPL_5(type, name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5)
#define WSD_VOID_TASK_DECL_5(name, ...) WSD_VOID_DECL_(5, name, __VA_ARGS__)
#define WSD_VOID_TASK_IMPL_5(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5)                                             \
    WSD_TASK_INLINE_ void name##_wsd_body(WSD_SELF_, t1 a1, t2 a2, t3 a3, t4 a4, t5 a5) WSD_NOEXCEPT_
#define WSD_VOID_TASK_5(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5)                                                  \
    WSD_VOID_TASK_DECL_5(name, t1, t2, t3, t4, t5);                                                                    \
    WSD_VOID_TASK_IMPL_5(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5)

#define WSD_TASK_DECL_6(type, name, ...) WSD_DECL_(6, type, name, __VA_ARGS__)
#define WSD_TASK_IMPL_6(type, name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6)                                    \
    WSD_TASK_INLINE_ type name##_wsd_body(WSD_SELF_, t1 a1, t2 a2, t3 a3, t4 a4, t5 a5, t6 a6) WSD_NOEXCEPT_
#define WSD_TASK_6(type, name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6)                                         \
    WSD_TASK_DECL_6(type, name, t1, t2, t3, t4, t5, t6);                                                               \
    WSD_TASK_IMPL_6(type, name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6)
#define WSD_VOID_TASK_DECL_6(name, ...) WSD_VOID_DECL_(6, name, __VA_ARGS__)
#define WSD_VOID_TASK_IMPL_6(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6)                                     \
    WSD_TASK_INLINE_ void name##_wsd_body(WSD_SELF_, t1 a1, t2 a2, t3 a3, t4 a4, t5 a5, t6 a6) WSD_NOEXCEPT_
#define WSD_VOID_TASK_6(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6)                                          \
    WSD_VOID_TASK_DECL_6(name, t1, t2, t3, t4, t5, t6);                                                                \
    WSD_VOID_TASK_IMPL_6(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6)

#ifdef __cplusplus
}
#endif

#endif
