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
 * Spawns and syncs pair up like brackets: a sync joins the youngest spawn of this task that was not joined yet, and a
 * task joins every child before it returns. A spawned task may run on this worker or on another one, before or at its
 * sync. A sync whose child was stolen runs other tasks meanwhile; it never blocks a worker that has something to do.
 * So a task must not hold a lock across a sync.
 *
 * `self` is the worker that runs the task: the macros take it from the scope, under this name. It is good for this task
 * on this thread only: never keep it, never give it to a child (the child gets its own).
 *
 * A task carries its arguments by value, at most WSD_TASK_DATA bytes together; so does its result. What is larger is
 * passed by pointer. A pointer to a local of the spawning task is fine until the sync. C++: arguments and results are
 * trivially copyable, and no exception leaves a task.
 *
 * Depth and number of tasks have no limit but memory. A spawn never fails: where the worker's task stack is full, the
 * child runs at once, inside the spawn.
 *
 * Works in C11 and C++17, gcc and clang. All of it may be called from tasks only. A plugin links against nothing
 * for it.
 */
#ifndef WSD_TASK_H
#define WSD_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WSD_STATIC_ASSERT_(x, why) static_assert(x, why)
#define WSD_FITS_(type, what)                                                                                          \
    WSD_STATIC_ASSERT_(sizeof(type) <= WSD_TASK_DATA && alignof(type) <= WSD_TASK_ALIGN,                               \
                       "the " what " of a task may take at most 48 bytes: put it into a structure and pass a pointer");\
    WSD_STATIC_ASSERT_(__is_trivially_copyable(type), "the " what " of a task must be trivially copyable")
extern "C" {
#else
#define WSD_STATIC_ASSERT_(x, why) _Static_assert(x, why)
#define WSD_FITS_(type, what)                                                                                          \
    WSD_STATIC_ASSERT_(sizeof(type) <= WSD_TASK_DATA && _Alignof(type) <= WSD_TASK_ALIGN,                              \
                       "the " what " of a task may take at most 48 bytes: put it into a structure and pass a pointer")
#endif

/* The bytes that the arguments of a task may take together, and its result; and their largest alignment. Since 0. */
#define WSD_TASK_DATA  48
#define WSD_TASK_ALIGN 16

struct wsd_worker;
struct wsd_task;

/* A task without type, for wsd_spawn(). Since 0. */
typedef void wsd_task_fn(struct wsd_worker *self, void *arg);

/* A piece of a wsd_for(): runs begin <= i < end. Since 0. */
typedef void wsd_for_fn(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg);

/* One slot of a task stack: 64 bytes. Not for use by hand. */
struct wsd_task {
    /* Takes the arguments from data, leaves the result there. */
    void (*run)(struct wsd_worker *self, struct wsd_task *task);
    uintptr_t state; /* the pool's: 0, who stole it, or done */
    __attribute__((aligned(WSD_TASK_ALIGN))) unsigned char data[WSD_TASK_DATA];
};

/* The slow paths, in the pool. Not for use by hand. Fields are appended, never moved. Since 0. */
struct wsd_task_ops {
    uint32_t size; /* bytes of this structure that the pool fills */
    uint32_t reserved;
    /* The task was pushed, and hi said to ask. */
    void (*spawn)(struct wsd_worker *self, struct wsd_task *task, uint32_t result_size);
    /* The task was popped, and lo said to ask: NULL where the caller is to run it himself, else where its result is. */
    struct wsd_task *(*sync)(struct wsd_worker *self, struct wsd_task *task, uint32_t result_size);
    void (*for_range)(struct wsd_worker *self, uint64_t begin, uint64_t end, uint64_t grain, wsd_for_fn *body,
                      void *arg);
};

/* One worker. A plugin uses the macros and `context`; the rest is between the macros and the pool. Fields are appended,
 * never moved. Since 0.
 *
 * Between the owner (the macros, one thread) and thieves (the pool, any thread):
 *   top  written by the owner only, with release (partner: a revoking thief's acquire, which then reads the slots
 *        below). Popping stores top, then loads lo: a revoking thief stores lo, then has every CPU
 *        of the process pass a barrier (membarrier), then loads top. So one of the two sees the other.
 *   hi   a spawn asks the pool when its slot is at or above hi. Relaxed; 0 is a trap that anybody may set.
 *   lo   a sync asks the pool when its slot is below lo. Relaxed; all ones is a trap that anybody may set. */
struct wsd_worker {
    uint32_t size;                  /* bytes of this structure that the pool fills [const] */
    uint32_t index;                 /* 0 to workers - 1, or above for a guest [const] */
    struct wsd_task *top;           /* the next free slot [atomic: see above] */
    struct wsd_task *hi;            /* [atomic: see above] */
    struct wsd_task *lo;            /* [atomic: see above] */
    const struct wsd_task_ops *ops; /* [const] */
    void *context;                  /* what the running root belongs to: the host's [owner] */
};

#define WSD_UNUSED_       __attribute__((unused))
#define WSD_TASK_FN_      __attribute__((unused)) static inline
#define WSD_TASK_INLINE_  __attribute__((unused, always_inline)) static inline
#define WSD_TASK_SLOW_    __attribute__((unused, noinline, cold)) static
#define WSD_UNLIKELY_(x)  __builtin_expect(!!(x), 0)
/* A last argument that nobody looks at: ISO C and C++17 want one for `...`, also where a task has none. */
#define WSD_END_             __attribute__((unused)) int wsd_end_
#define WSD_SPAWN_(name, ...) name##_wsd_spawn(self, __VA_ARGS__)
#define WSD_CALL_(name, ...)  name##_wsd_call(self, __VA_ARGS__)
#define WSD_DATA_(task)   ((void *)(task)->data)

/* How the owner touches top, hi and lo. The stack is balanced, so that a task knows where top is without reading it
 * again: the value stays in a register, and what it calls leaves top as it was. On x86-64, where stores become visible
 * in program order, only the compiler has to be held: each asm says which stores are due before it, and that a bound
 * may have changed; unlike an atomic access it lets the compiler go on knowing the value of top. Elsewhere, and for
 * ThreadSanitizer, these are the atomics that the table above speaks of. The slow paths are functions of their own
 * that end in a tail call: what is left is small enough for gcc to inline a recursion into itself, and no frame stays. */
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

WSD_TASK_SLOW_ void wsd_task_pushed_(struct wsd_worker *self, struct wsd_task *task, uint32_t result_size)
{
    self->ops->spawn(self, task, result_size);
}

#if WSD_TASK_ATOMIC_

static inline void wsd_task_push_(struct wsd_worker *self, struct wsd_task *task,
                                  void (*run)(struct wsd_worker *self, struct wsd_task *task), uint32_t result_size)
{
    task->run = run;
    __atomic_store_n(&self->top, task + 1, __ATOMIC_RELEASE);
    if (WSD_UNLIKELY_(task >= __atomic_load_n(&self->hi, __ATOMIC_RELAXED)))
        wsd_task_pushed_(self, task, result_size);
}

static inline struct wsd_task *wsd_task_pop_(struct wsd_worker *self)
{
    struct wsd_task *task = self->top - 1;

    __atomic_store_n(&self->top, task, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the compiler keeps the order, membarrier the CPU */
    return task;
}

static inline bool wsd_task_shared_(const struct wsd_worker *self, const struct wsd_task *task)
{
    return task < __atomic_load_n(&self->lo, __ATOMIC_RELAXED);
}

static inline void wsd_task_back_(struct wsd_worker *self, struct wsd_task *top)
{
    (void)self;
    (void)top;
}

#else

static inline void wsd_task_push_(struct wsd_worker *self, struct wsd_task *task,
                                  void (*run)(struct wsd_worker *self, struct wsd_task *task), uint32_t result_size)
{
    struct wsd_task *next = task + 1;

    task->run = run;
    __asm__ volatile("" : "+r"(next) : "m"(*task)); /* the slot, then top */
    self->top = next;
    __asm__ volatile("" : "+m"(self->hi) : "m"(self->top)); /* top, then hi; nor may top be kept back */
    if (WSD_UNLIKELY_(task >= self->hi)) {
        wsd_task_pushed_(self, task, result_size);
        next = self->top; /* not task + 1 where the stack was full */
    }
    if (self->top != next)
        __builtin_unreachable();
}

static inline struct wsd_task *wsd_task_pop_(struct wsd_worker *self)
{
    struct wsd_task *task = self->top - 1;

    self->top = task;
    __asm__ volatile("" : "+m"(self->lo) : "m"(self->top)); /* top, then lo; membarrier has the CPU do the same */
    return task;
}

static inline bool wsd_task_shared_(const struct wsd_worker *self, const struct wsd_task *task)
{
    return task < self->lo;
}

/* What was called has returned. A store that changes nothing, and spares gcc a load that would have to wait for the
 * last store of the callee: 1.4 against 0.9 ns a call of fib. (clang: 1.7 without, 3.1 with it.) */
static inline void wsd_task_back_(struct wsd_worker *self, struct wsd_task *top)
{
#ifdef __clang__
    (void)self;
    (void)top;
#else
    self->top = top;
#endif
}

#endif

struct wsd_plain_ {
    wsd_task_fn *fn;
    void *arg;
};

WSD_TASK_FN_ void wsd_plain_run_(struct wsd_worker *self, struct wsd_task *task)
{
    struct wsd_plain_ p = *(struct wsd_plain_ *)WSD_DATA_(task);

    p.fn(self, p.arg);
}

/* Spawns fn(arg) as a child. Since 0. */
static inline void wsd_spawn(struct wsd_worker *self, wsd_task_fn *fn, void *arg)
{
    struct wsd_task *task = self->top;
    struct wsd_plain_ *p = (struct wsd_plain_ *)WSD_DATA_(task);

    p->fn = fn;
    p->arg = arg;
    wsd_task_push_(self, task, wsd_plain_run_, 0);
}

WSD_TASK_SLOW_ void wsd_plain_slow_(struct wsd_worker *self, struct wsd_task *task)
{
    if (self->ops->sync(self, task, 0))
        return;
    struct wsd_plain_ p = *(struct wsd_plain_ *)WSD_DATA_(task);
    p.fn(self, p.arg);
}

/* Joins the youngest child, which was spawned with wsd_spawn(). Since 0. */
static inline void wsd_sync(struct wsd_worker *self)
{
    struct wsd_task *task = wsd_task_pop_(self);

    if (WSD_UNLIKELY_(wsd_task_shared_(self, task))) {
        wsd_plain_slow_(self, task);
    } else {
        struct wsd_plain_ p = *(struct wsd_plain_ *)WSD_DATA_(task);
        p.fn(self, p.arg);
        wsd_task_back_(self, task);
    }
}

/* Runs body over begin <= i < end, in pieces of at most grain that may run in parallel and in any order; returns when
 * all are done. Halves the range until a piece is small enough. grain 0: chosen so that every worker gets several
 * pieces. An empty range (end <= begin) does nothing. Since 0. */
static inline void wsd_for(struct wsd_worker *self, uint64_t begin, uint64_t end, uint64_t grain, wsd_for_fn *body,
                           void *arg)
{
    self->ops->for_range(self, begin, end, grain, body, arg);
}

/* WSD_SPAWN(NAME, arguments...): spawns the task NAME with these arguments as a child. Since 0. */
#define WSD_SPAWN(...) WSD_SPAWN_(__VA_ARGS__, 0)

/* WSD_CALL(NAME, arguments...): runs it here and now, as an ordinary call, and gives its result. Since 0. */
#define WSD_CALL(...) WSD_CALL_(__VA_ARGS__, 0)

/* WSD_SYNC(NAME): joins the youngest child, which was spawned as NAME, and gives its result. Since 0. */
#define WSD_SYNC(name) name##_wsd_sync(self)

/* WSD_TASK_n(type, name, type1, argument1, ...) { body }      defines a task with n arguments and a result, and
 * WSD_VOID_TASK_n(name, type1, argument1, ...) { body }       one without a result.
 *
 * Where tasks use one another, or one is used above its body, declare first and define later:
 *
 *     WSD_TASK_DECL_1(bool, odd, unsigned);
 *     WSD_TASK_1(bool, even, unsigned, n) { ... WSD_SPAWN(odd, n - 1); ... WSD_SYNC(odd) ... }
 *     WSD_TASK_IMPL_1(bool, odd, unsigned, n) { ... }
 *
 * and WSD_VOID_TASK_DECL_n, WSD_VOID_TASK_IMPL_n. A task is local to its source file. Since 0. */

#define WSD_TASK_DECL_0(type, name)                                                                                    \
    struct name##_wsd_result {                                                                                         \
        type value;                                                                                                    \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_result, "result");                                                                     \
    WSD_TASK_FN_ type name##_wsd_body(struct wsd_worker *self);                                                        \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        ((struct name##_wsd_result *)WSD_DATA_(wsd_t_))->value = name##_wsd_body(self);                                \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, WSD_END_)                                          \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, (uint32_t)sizeof(struct name##_wsd_result));                      \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_call(struct wsd_worker *self, WSD_END_)                                           \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        type wsd_value_ = name##_wsd_body(self);                                                                       \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_TASK_SLOW_ type name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        struct wsd_task *wsd_done_ = self->ops->sync(self, wsd_t_, (uint32_t)sizeof(struct name##_wsd_result));        \
        if (wsd_done_)                                                                                                 \
            return ((struct name##_wsd_result *)WSD_DATA_(wsd_done_))->value;                                          \
        return name##_wsd_body(self);                                                                                  \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_)))                                                             \
            return name##_wsd_slow(self, wsd_t_);                                                                      \
        type wsd_value_ = name##_wsd_body(self);                                                                       \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_TASK_IMPL_0(type, name)                                                                                    \
    WSD_TASK_FN_ type name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self)

#define WSD_TASK_0(type, name)                                                                                         \
    WSD_TASK_DECL_0(type, name);                                                                                       \
    WSD_TASK_IMPL_0(type, name)

#define WSD_VOID_TASK_DECL_0(name)                                                                                     \
    WSD_TASK_FN_ void name##_wsd_body(struct wsd_worker *self);                                                        \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        (void)wsd_t_;                                                                                                  \
        name##_wsd_body(self);                                                                                         \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, WSD_END_)                                          \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, 0);                                                               \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_call(struct wsd_worker *self, WSD_END_)                                           \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        name##_wsd_body(self);                                                                                         \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_TASK_SLOW_ void name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        if (self->ops->sync(self, wsd_t_, 0))                                                                          \
            return;                                                                                                    \
        name##_wsd_body(self);                                                                                         \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_))) {                                                           \
            name##_wsd_slow(self, wsd_t_);                                                                             \
            return;                                                                                                    \
        }                                                                                                              \
        name##_wsd_body(self);                                                                                         \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_VOID_TASK_IMPL_0(name)                                                                                     \
    WSD_TASK_FN_ void name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self)

#define WSD_VOID_TASK_0(name)                                                                                          \
    WSD_VOID_TASK_DECL_0(name);                                                                                        \
    WSD_VOID_TASK_IMPL_0(name)

#define WSD_TASK_DECL_1(type, name, t1)                                                                                \
    struct name##_wsd_args {                                                                                           \
        t1 a1;                                                                                                         \
    };                                                                                                                 \
    struct name##_wsd_result {                                                                                         \
        type value;                                                                                                    \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_FITS_(struct name##_wsd_result, "result");                                                                     \
    WSD_TASK_FN_ type name##_wsd_body(struct wsd_worker *self, t1);                                                    \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        type wsd_value_ = name##_wsd_body(self, wsd_p_.a1);                                                            \
        ((struct name##_wsd_result *)WSD_DATA_(wsd_t_))->value = wsd_value_;                                           \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, t1 wsd_a1, WSD_END_)                               \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        wsd_p_->a1 = wsd_a1;                                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, (uint32_t)sizeof(struct name##_wsd_result));                      \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_call(struct wsd_worker *self, t1 wsd_a1, WSD_END_)                                \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        type wsd_value_ = name##_wsd_body(self, wsd_a1);                                                               \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_TASK_SLOW_ type name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        struct wsd_task *wsd_done_ = self->ops->sync(self, wsd_t_, (uint32_t)sizeof(struct name##_wsd_result));        \
        if (wsd_done_)                                                                                                 \
            return ((struct name##_wsd_result *)WSD_DATA_(wsd_done_))->value;                                          \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        return name##_wsd_body(self, wsd_p_.a1);                                                                       \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_)))                                                             \
            return name##_wsd_slow(self, wsd_t_);                                                                      \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        type wsd_value_ = name##_wsd_body(self, wsd_p_.a1);                                                            \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_TASK_IMPL_1(type, name, t1, a1)                                                                            \
    WSD_TASK_FN_ type name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self, t1 a1)

#define WSD_TASK_1(type, name, t1, a1)                                                                                 \
    WSD_TASK_DECL_1(type, name, t1);                                                                                   \
    WSD_TASK_IMPL_1(type, name, t1, a1)

#define WSD_VOID_TASK_DECL_1(name, t1)                                                                                 \
    struct name##_wsd_args {                                                                                           \
        t1 a1;                                                                                                         \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_TASK_FN_ void name##_wsd_body(struct wsd_worker *self, t1);                                                    \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1);                                                                              \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, t1 wsd_a1, WSD_END_)                               \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        wsd_p_->a1 = wsd_a1;                                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, 0);                                                               \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_call(struct wsd_worker *self, t1 wsd_a1, WSD_END_)                                \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        name##_wsd_body(self, wsd_a1);                                                                                 \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_TASK_SLOW_ void name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        if (self->ops->sync(self, wsd_t_, 0))                                                                          \
            return;                                                                                                    \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1);                                                                              \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_))) {                                                           \
            name##_wsd_slow(self, wsd_t_);                                                                             \
            return;                                                                                                    \
        }                                                                                                              \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1);                                                                              \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_VOID_TASK_IMPL_1(name, t1, a1)                                                                             \
    WSD_TASK_FN_ void name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self, t1 a1)

#define WSD_VOID_TASK_1(name, t1, a1)                                                                                  \
    WSD_VOID_TASK_DECL_1(name, t1);                                                                                    \
    WSD_VOID_TASK_IMPL_1(name, t1, a1)

#define WSD_TASK_DECL_2(type, name, t1, t2)                                                                            \
    struct name##_wsd_args {                                                                                           \
        t1 a1; t2 a2;                                                                                                  \
    };                                                                                                                 \
    struct name##_wsd_result {                                                                                         \
        type value;                                                                                                    \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_FITS_(struct name##_wsd_result, "result");                                                                     \
    WSD_TASK_FN_ type name##_wsd_body(struct wsd_worker *self, t1, t2);                                                \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        type wsd_value_ = name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2);                                                 \
        ((struct name##_wsd_result *)WSD_DATA_(wsd_t_))->value = wsd_value_;                                           \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, WSD_END_)                    \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        wsd_p_->a1 = wsd_a1;                                                                                           \
        wsd_p_->a2 = wsd_a2;                                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, (uint32_t)sizeof(struct name##_wsd_result));                      \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_call(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, WSD_END_)                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        type wsd_value_ = name##_wsd_body(self, wsd_a1, wsd_a2);                                                       \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_TASK_SLOW_ type name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        struct wsd_task *wsd_done_ = self->ops->sync(self, wsd_t_, (uint32_t)sizeof(struct name##_wsd_result));        \
        if (wsd_done_)                                                                                                 \
            return ((struct name##_wsd_result *)WSD_DATA_(wsd_done_))->value;                                          \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        return name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2);                                                            \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_)))                                                             \
            return name##_wsd_slow(self, wsd_t_);                                                                      \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        type wsd_value_ = name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2);                                                 \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_TASK_IMPL_2(type, name, t1, a1, t2, a2)                                                                    \
    WSD_TASK_FN_ type name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self, t1 a1, t2 a2)

#define WSD_TASK_2(type, name, t1, a1, t2, a2)                                                                         \
    WSD_TASK_DECL_2(type, name, t1, t2);                                                                               \
    WSD_TASK_IMPL_2(type, name, t1, a1, t2, a2)

#define WSD_VOID_TASK_DECL_2(name, t1, t2)                                                                             \
    struct name##_wsd_args {                                                                                           \
        t1 a1; t2 a2;                                                                                                  \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_TASK_FN_ void name##_wsd_body(struct wsd_worker *self, t1, t2);                                                \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2);                                                                   \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, WSD_END_)                    \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        wsd_p_->a1 = wsd_a1;                                                                                           \
        wsd_p_->a2 = wsd_a2;                                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, 0);                                                               \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_call(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, WSD_END_)                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        name##_wsd_body(self, wsd_a1, wsd_a2);                                                                         \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_TASK_SLOW_ void name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        if (self->ops->sync(self, wsd_t_, 0))                                                                          \
            return;                                                                                                    \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2);                                                                   \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_))) {                                                           \
            name##_wsd_slow(self, wsd_t_);                                                                             \
            return;                                                                                                    \
        }                                                                                                              \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2);                                                                   \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_VOID_TASK_IMPL_2(name, t1, a1, t2, a2)                                                                     \
    WSD_TASK_FN_ void name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self, t1 a1, t2 a2)

#define WSD_VOID_TASK_2(name, t1, a1, t2, a2)                                                                          \
    WSD_VOID_TASK_DECL_2(name, t1, t2);                                                                                \
    WSD_VOID_TASK_IMPL_2(name, t1, a1, t2, a2)

#define WSD_TASK_DECL_3(type, name, t1, t2, t3)                                                                        \
    struct name##_wsd_args {                                                                                           \
        t1 a1; t2 a2; t3 a3;                                                                                           \
    };                                                                                                                 \
    struct name##_wsd_result {                                                                                         \
        type value;                                                                                                    \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_FITS_(struct name##_wsd_result, "result");                                                                     \
    WSD_TASK_FN_ type name##_wsd_body(struct wsd_worker *self, t1, t2, t3);                                            \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        type wsd_value_ = name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3);                                      \
        ((struct name##_wsd_result *)WSD_DATA_(wsd_t_))->value = wsd_value_;                                           \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, WSD_END_)         \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        wsd_p_->a1 = wsd_a1;                                                                                           \
        wsd_p_->a2 = wsd_a2;                                                                                           \
        wsd_p_->a3 = wsd_a3;                                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, (uint32_t)sizeof(struct name##_wsd_result));                      \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_call(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, WSD_END_)          \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        type wsd_value_ = name##_wsd_body(self, wsd_a1, wsd_a2, wsd_a3);                                               \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_TASK_SLOW_ type name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        struct wsd_task *wsd_done_ = self->ops->sync(self, wsd_t_, (uint32_t)sizeof(struct name##_wsd_result));        \
        if (wsd_done_)                                                                                                 \
            return ((struct name##_wsd_result *)WSD_DATA_(wsd_done_))->value;                                          \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        return name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3);                                                 \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_)))                                                             \
            return name##_wsd_slow(self, wsd_t_);                                                                      \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        type wsd_value_ = name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3);                                      \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_TASK_IMPL_3(type, name, t1, a1, t2, a2, t3, a3)                                                            \
    WSD_TASK_FN_ type name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self, t1 a1, t2 a2, t3 a3)

#define WSD_TASK_3(type, name, t1, a1, t2, a2, t3, a3)                                                                 \
    WSD_TASK_DECL_3(type, name, t1, t2, t3);                                                                           \
    WSD_TASK_IMPL_3(type, name, t1, a1, t2, a2, t3, a3)

#define WSD_VOID_TASK_DECL_3(name, t1, t2, t3)                                                                         \
    struct name##_wsd_args {                                                                                           \
        t1 a1; t2 a2; t3 a3;                                                                                           \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_TASK_FN_ void name##_wsd_body(struct wsd_worker *self, t1, t2, t3);                                            \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3);                                                        \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, WSD_END_)         \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        wsd_p_->a1 = wsd_a1;                                                                                           \
        wsd_p_->a2 = wsd_a2;                                                                                           \
        wsd_p_->a3 = wsd_a3;                                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, 0);                                                               \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_call(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, WSD_END_)          \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        name##_wsd_body(self, wsd_a1, wsd_a2, wsd_a3);                                                                 \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_TASK_SLOW_ void name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        if (self->ops->sync(self, wsd_t_, 0))                                                                          \
            return;                                                                                                    \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3);                                                        \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_))) {                                                           \
            name##_wsd_slow(self, wsd_t_);                                                                             \
            return;                                                                                                    \
        }                                                                                                              \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3);                                                        \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_VOID_TASK_IMPL_3(name, t1, a1, t2, a2, t3, a3)                                                             \
    WSD_TASK_FN_ void name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self, t1 a1, t2 a2, t3 a3)

#define WSD_VOID_TASK_3(name, t1, a1, t2, a2, t3, a3)                                                                  \
    WSD_VOID_TASK_DECL_3(name, t1, t2, t3);                                                                            \
    WSD_VOID_TASK_IMPL_3(name, t1, a1, t2, a2, t3, a3)

#define WSD_TASK_DECL_4(type, name, t1, t2, t3, t4)                                                                    \
    struct name##_wsd_args {                                                                                           \
        t1 a1; t2 a2; t3 a3; t4 a4;                                                                                    \
    };                                                                                                                 \
    struct name##_wsd_result {                                                                                         \
        type value;                                                                                                    \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_FITS_(struct name##_wsd_result, "result");                                                                     \
    WSD_TASK_FN_ type name##_wsd_body(struct wsd_worker *self, t1, t2, t3, t4);                                        \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        type wsd_value_ = name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4);                           \
        ((struct name##_wsd_result *)WSD_DATA_(wsd_t_))->value = wsd_value_;                                           \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, t4 wsd_a4,        \
                                           WSD_END_)                                                                   \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        wsd_p_->a1 = wsd_a1;                                                                                           \
        wsd_p_->a2 = wsd_a2;                                                                                           \
        wsd_p_->a3 = wsd_a3;                                                                                           \
        wsd_p_->a4 = wsd_a4;                                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, (uint32_t)sizeof(struct name##_wsd_result));                      \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_call(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, t4 wsd_a4,         \
                                          WSD_END_)                                                                    \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        type wsd_value_ = name##_wsd_body(self, wsd_a1, wsd_a2, wsd_a3, wsd_a4);                                       \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_TASK_SLOW_ type name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        struct wsd_task *wsd_done_ = self->ops->sync(self, wsd_t_, (uint32_t)sizeof(struct name##_wsd_result));        \
        if (wsd_done_)                                                                                                 \
            return ((struct name##_wsd_result *)WSD_DATA_(wsd_done_))->value;                                          \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        return name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4);                                      \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_)))                                                             \
            return name##_wsd_slow(self, wsd_t_);                                                                      \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        type wsd_value_ = name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4);                           \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_TASK_IMPL_4(type, name, t1, a1, t2, a2, t3, a3, t4, a4)                                                    \
    WSD_TASK_FN_ type name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self, t1 a1, t2 a2, t3 a3, t4 a4)

#define WSD_TASK_4(type, name, t1, a1, t2, a2, t3, a3, t4, a4)                                                         \
    WSD_TASK_DECL_4(type, name, t1, t2, t3, t4);                                                                       \
    WSD_TASK_IMPL_4(type, name, t1, a1, t2, a2, t3, a3, t4, a4)

#define WSD_VOID_TASK_DECL_4(name, t1, t2, t3, t4)                                                                     \
    struct name##_wsd_args {                                                                                           \
        t1 a1; t2 a2; t3 a3; t4 a4;                                                                                    \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_TASK_FN_ void name##_wsd_body(struct wsd_worker *self, t1, t2, t3, t4);                                        \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4);                                             \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, t4 wsd_a4,        \
                                           WSD_END_)                                                                   \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        wsd_p_->a1 = wsd_a1;                                                                                           \
        wsd_p_->a2 = wsd_a2;                                                                                           \
        wsd_p_->a3 = wsd_a3;                                                                                           \
        wsd_p_->a4 = wsd_a4;                                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, 0);                                                               \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_call(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, t4 wsd_a4,         \
                                          WSD_END_)                                                                    \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        name##_wsd_body(self, wsd_a1, wsd_a2, wsd_a3, wsd_a4);                                                         \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_TASK_SLOW_ void name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        if (self->ops->sync(self, wsd_t_, 0))                                                                          \
            return;                                                                                                    \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4);                                             \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_))) {                                                           \
            name##_wsd_slow(self, wsd_t_);                                                                             \
            return;                                                                                                    \
        }                                                                                                              \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4);                                             \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_VOID_TASK_IMPL_4(name, t1, a1, t2, a2, t3, a3, t4, a4)                                                     \
    WSD_TASK_FN_ void name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self, t1 a1, t2 a2, t3 a3, t4 a4)

#define WSD_VOID_TASK_4(name, t1, a1, t2, a2, t3, a3, t4, a4)                                                          \
    WSD_VOID_TASK_DECL_4(name, t1, t2, t3, t4);                                                                        \
    WSD_VOID_TASK_IMPL_4(name, t1, a1, t2, a2, t3, a3, t4, a4)

#define WSD_TASK_DECL_5(type, name, t1, t2, t3, t4, t5)                                                                \
    struct name##_wsd_args {                                                                                           \
        t1 a1; t2 a2; t3 a3; t4 a4; t5 a5;                                                                             \
    };                                                                                                                 \
    struct name##_wsd_result {                                                                                         \
        type value;                                                                                                    \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_FITS_(struct name##_wsd_result, "result");                                                                     \
    WSD_TASK_FN_ type name##_wsd_body(struct wsd_worker *self, t1, t2, t3, t4, t5);                                    \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        type wsd_value_ = name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4, wsd_p_.a5);                \
        ((struct name##_wsd_result *)WSD_DATA_(wsd_t_))->value = wsd_value_;                                           \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, t4 wsd_a4,        \
                                           t5 wsd_a5, WSD_END_)                                                        \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        wsd_p_->a1 = wsd_a1;                                                                                           \
        wsd_p_->a2 = wsd_a2;                                                                                           \
        wsd_p_->a3 = wsd_a3;                                                                                           \
        wsd_p_->a4 = wsd_a4;                                                                                           \
        wsd_p_->a5 = wsd_a5;                                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, (uint32_t)sizeof(struct name##_wsd_result));                      \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_call(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, t4 wsd_a4,         \
                                          t5 wsd_a5, WSD_END_)                                                         \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        type wsd_value_ = name##_wsd_body(self, wsd_a1, wsd_a2, wsd_a3, wsd_a4, wsd_a5);                               \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_TASK_SLOW_ type name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        struct wsd_task *wsd_done_ = self->ops->sync(self, wsd_t_, (uint32_t)sizeof(struct name##_wsd_result));        \
        if (wsd_done_)                                                                                                 \
            return ((struct name##_wsd_result *)WSD_DATA_(wsd_done_))->value;                                          \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        return name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4, wsd_p_.a5);                           \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_)))                                                             \
            return name##_wsd_slow(self, wsd_t_);                                                                      \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        type wsd_value_ = name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4, wsd_p_.a5);                \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_TASK_IMPL_5(type, name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5)                                            \
    WSD_TASK_FN_ type name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self, t1 a1, t2 a2, t3 a3, t4 a4, t5 a5)

#define WSD_TASK_5(type, name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5)                                                 \
    WSD_TASK_DECL_5(type, name, t1, t2, t3, t4, t5);                                                                   \
    WSD_TASK_IMPL_5(type, name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5)

#define WSD_VOID_TASK_DECL_5(name, t1, t2, t3, t4, t5)                                                                 \
    struct name##_wsd_args {                                                                                           \
        t1 a1; t2 a2; t3 a3; t4 a4; t5 a5;                                                                             \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_TASK_FN_ void name##_wsd_body(struct wsd_worker *self, t1, t2, t3, t4, t5);                                    \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4, wsd_p_.a5);                                  \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, t4 wsd_a4,        \
                                           t5 wsd_a5, WSD_END_)                                                        \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        wsd_p_->a1 = wsd_a1;                                                                                           \
        wsd_p_->a2 = wsd_a2;                                                                                           \
        wsd_p_->a3 = wsd_a3;                                                                                           \
        wsd_p_->a4 = wsd_a4;                                                                                           \
        wsd_p_->a5 = wsd_a5;                                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, 0);                                                               \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_call(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, t4 wsd_a4,         \
                                          t5 wsd_a5, WSD_END_)                                                         \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        name##_wsd_body(self, wsd_a1, wsd_a2, wsd_a3, wsd_a4, wsd_a5);                                                 \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_TASK_SLOW_ void name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        if (self->ops->sync(self, wsd_t_, 0))                                                                          \
            return;                                                                                                    \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4, wsd_p_.a5);                                  \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_))) {                                                           \
            name##_wsd_slow(self, wsd_t_);                                                                             \
            return;                                                                                                    \
        }                                                                                                              \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4, wsd_p_.a5);                                  \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_VOID_TASK_IMPL_5(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5)                                             \
    WSD_TASK_FN_ void name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self, t1 a1, t2 a2, t3 a3, t4 a4, t5 a5)

#define WSD_VOID_TASK_5(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5)                                                  \
    WSD_VOID_TASK_DECL_5(name, t1, t2, t3, t4, t5);                                                                    \
    WSD_VOID_TASK_IMPL_5(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5)

#define WSD_TASK_DECL_6(type, name, t1, t2, t3, t4, t5, t6)                                                            \
    struct name##_wsd_args {                                                                                           \
        t1 a1; t2 a2; t3 a3; t4 a4; t5 a5; t6 a6;                                                                      \
    };                                                                                                                 \
    struct name##_wsd_result {                                                                                         \
        type value;                                                                                                    \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_FITS_(struct name##_wsd_result, "result");                                                                     \
    WSD_TASK_FN_ type name##_wsd_body(struct wsd_worker *self, t1, t2, t3, t4, t5, t6);                                \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        type wsd_value_ = name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4, wsd_p_.a5, wsd_p_.a6);     \
        ((struct name##_wsd_result *)WSD_DATA_(wsd_t_))->value = wsd_value_;                                           \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, t4 wsd_a4,        \
                                           t5 wsd_a5, t6 wsd_a6, WSD_END_)                                             \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        wsd_p_->a1 = wsd_a1;                                                                                           \
        wsd_p_->a2 = wsd_a2;                                                                                           \
        wsd_p_->a3 = wsd_a3;                                                                                           \
        wsd_p_->a4 = wsd_a4;                                                                                           \
        wsd_p_->a5 = wsd_a5;                                                                                           \
        wsd_p_->a6 = wsd_a6;                                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, (uint32_t)sizeof(struct name##_wsd_result));                      \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_call(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, t4 wsd_a4,         \
                                          t5 wsd_a5, t6 wsd_a6, WSD_END_)                                              \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        type wsd_value_ = name##_wsd_body(self, wsd_a1, wsd_a2, wsd_a3, wsd_a4, wsd_a5, wsd_a6);                       \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_TASK_SLOW_ type name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        struct wsd_task *wsd_done_ = self->ops->sync(self, wsd_t_, (uint32_t)sizeof(struct name##_wsd_result));        \
        if (wsd_done_)                                                                                                 \
            return ((struct name##_wsd_result *)WSD_DATA_(wsd_done_))->value;                                          \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        return name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4, wsd_p_.a5, wsd_p_.a6);                \
    }                                                                                                                  \
    WSD_TASK_INLINE_ type name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_)))                                                             \
            return name##_wsd_slow(self, wsd_t_);                                                                      \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        type wsd_value_ = name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4, wsd_p_.a5, wsd_p_.a6);     \
        wsd_task_back_(self, wsd_t_);                                                                                  \
        return wsd_value_;                                                                                             \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_TASK_IMPL_6(type, name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6)                                    \
    WSD_TASK_FN_ type name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self, t1 a1, t2 a2, t3 a3, t4 a4, t5 a5, t6 a6)

#define WSD_TASK_6(type, name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6)                                         \
    WSD_TASK_DECL_6(type, name, t1, t2, t3, t4, t5, t6);                                                               \
    WSD_TASK_IMPL_6(type, name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6)

#define WSD_VOID_TASK_DECL_6(name, t1, t2, t3, t4, t5, t6)                                                             \
    struct name##_wsd_args {                                                                                           \
        t1 a1; t2 a2; t3 a3; t4 a4; t5 a5; t6 a6;                                                                      \
    };                                                                                                                 \
    WSD_FITS_(struct name##_wsd_args, "arguments");                                                                    \
    WSD_TASK_FN_ void name##_wsd_body(struct wsd_worker *self, t1, t2, t3, t4, t5, t6);                                \
    WSD_UNUSED_ static void name##_wsd_run(struct wsd_worker *self, struct wsd_task *wsd_t_)                           \
    {                                                                                                                  \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4, wsd_p_.a5, wsd_p_.a6);                       \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_spawn(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, t4 wsd_a4,        \
                                           t5 wsd_a5, t6 wsd_a6, WSD_END_)                                             \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        struct name##_wsd_args *wsd_p_ = (struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        wsd_p_->a1 = wsd_a1;                                                                                           \
        wsd_p_->a2 = wsd_a2;                                                                                           \
        wsd_p_->a3 = wsd_a3;                                                                                           \
        wsd_p_->a4 = wsd_a4;                                                                                           \
        wsd_p_->a5 = wsd_a5;                                                                                           \
        wsd_p_->a6 = wsd_a6;                                                                                           \
        wsd_task_push_(self, wsd_t_, name##_wsd_run, 0);                                                               \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_call(struct wsd_worker *self, t1 wsd_a1, t2 wsd_a2, t3 wsd_a3, t4 wsd_a4,         \
                                          t5 wsd_a5, t6 wsd_a6, WSD_END_)                                              \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = self->top;                                                                           \
        name##_wsd_body(self, wsd_a1, wsd_a2, wsd_a3, wsd_a4, wsd_a5, wsd_a6);                                         \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_TASK_SLOW_ void name##_wsd_slow(struct wsd_worker *self, struct wsd_task *wsd_t_)                              \
    {                                                                                                                  \
        if (self->ops->sync(self, wsd_t_, 0))                                                                          \
            return;                                                                                                    \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4, wsd_p_.a5, wsd_p_.a6);                       \
    }                                                                                                                  \
    WSD_TASK_INLINE_ void name##_wsd_sync(struct wsd_worker *self)                                                     \
    {                                                                                                                  \
        struct wsd_task *wsd_t_ = wsd_task_pop_(self);                                                                 \
        if (WSD_UNLIKELY_(wsd_task_shared_(self, wsd_t_))) {                                                           \
            name##_wsd_slow(self, wsd_t_);                                                                             \
            return;                                                                                                    \
        }                                                                                                              \
        struct name##_wsd_args wsd_p_ = *(struct name##_wsd_args *)WSD_DATA_(wsd_t_);                                  \
        name##_wsd_body(self, wsd_p_.a1, wsd_p_.a2, wsd_p_.a3, wsd_p_.a4, wsd_p_.a5, wsd_p_.a6);                       \
        wsd_task_back_(self, wsd_t_);                                                                                  \
    }                                                                                                                  \
    WSD_STATIC_ASSERT_(1, "")

#define WSD_VOID_TASK_IMPL_6(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6)                                     \
    WSD_TASK_FN_ void name##_wsd_body(WSD_UNUSED_ struct wsd_worker *self, t1 a1, t2 a2, t3 a3, t4 a4, t5 a5, t6 a6)

#define WSD_VOID_TASK_6(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6)                                          \
    WSD_VOID_TASK_DECL_6(name, t1, t2, t3, t4, t5, t6);                                                                \
    WSD_VOID_TASK_IMPL_6(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6)

#ifdef __cplusplus
}
#endif

#endif
