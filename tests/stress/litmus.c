/* SPDX-License-Identifier: Apache-2.0
 *
 * litmus.c: the deque's smallest races, one at a time and very often. Each round sets the deque up and starts an
 * owner and one or two thieves at the same tick, with a small random offset. Then it checks the result. Each task was
 * taken exactly once, with the contents and the context that were written for it. Private tasks are not hidden: public
 * tasks exist, or the owner's next push and pop ask. A lead for one side is adjusted by the outcomes, so that both
 * sides win about as often. The outcomes are tallied and printed, which shows that the race took place. */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/cleanup.h"
#include "pool-stress.h"
#include "pool/deque.h"

#define TASKS_MAX    8
#define THIEVES_MAX  2
#define OUTCOMES_MAX 64
#define SLOT         WSD_SLOT_(struct wsd_plain_)
#define SPINS        4000
#define ROUNDS_USEC  20000000u /* of one litmus */
#define FEWER        4         /* an ordinary run plays one round in so many, and has that much less time */
#define TRIES        200
/* In ticks: from the barrier to the start; the most that one side is ahead; a step of it, more where the
 * same side wins again and again; by chance. */
#define START  2000
#define LEAD   60000
#define STEP   4
#define CHANCE 128

/* What a party does, and what it saw. */
struct party {
    struct wsd_worker self; /* of a thief: only to be told from the owner's */
    pthread_t thread;
    void (*act)(struct party *p); /* [owner, before the barrier] */
    uint32_t seed;
    uint32_t took[TASKS_MAX]; /* how often it took the task of that number */
};

struct litmus {
    const char *name;
    uint32_t thieves, rounds, contested; /* the task that both sides are to win about as often */
    void (*set_up)(void);                /* [owner] no thief runs */
    void (*owner)(struct party *p);
    void (*thief)(struct party *p);
    bool revokes; /* not where deques are eager */
};

static struct deque d;
static struct party owner, thieves[THIEVES_MAX];
static uint32_t n_thieves;
static uint64_t round_number;     /* [owner, before the barrier] */
static uint32_t n_tasks;          /* spawned in this round [owner] */
static char contexts[4];          /* two for this round, two for the next */
static void *expected[TASKS_MAX]; /* [owner, before the task is published] */
/* Written by both sides: keeps the owner's stores waiting for the line, so that its pops are invisible for a moment. */
static _Alignas(64) _Atomic uint32_t noise;
static _Alignas(64) _Atomic uint64_t go;   /* [atomic: release by the owner, acquire by thieves] */
static _Alignas(64) _Atomic uint32_t back; /* [atomic: release by thieves, acquire by the owner] */
static uint64_t start;                     /* [owner, before the barrier] in ticks */
static int64_t lead;                       /* of the thieves before the owner [owner, before the barrier] */
static int32_t streak;                     /* so many rounds in a row, negative where the owner won them [owner] */
static _Atomic bool stop, owner_back;
static cpu_set_t cpus; /* [const] */

/* --- tasks --- */

static void taken_twice(struct wsd_worker *self, struct wsd_task *t)
{
    fprintf(stderr, "litmus: round %llu: a slot was run that had been taken\n", (unsigned long long)round_number);
    abort();
}

static const struct wsd_task_type taken_type = {taken_twice, SLOT, 0};

static void poison(struct wsd_task *t)
{
    memset(t + 1, 0xdd, SLOT - sizeof(*t));
    __atomic_store_n(&t->word, (uintptr_t)&taken_type, __ATOMIC_RELAXED); /* the owner polls it */
}

static void take(struct wsd_worker *self, void *arg)
{
    uint64_t value = (uintptr_t)arg;
    struct party *p = (struct party *)(void *)self;

    CHECK(value / TASKS_MAX == round_number);
    p->took[value % TASKS_MAX]++;
}

static void push(void)
{
    CHECK(n_tasks < TASKS_MAX);
    expected[n_tasks] = owner.self.context;
    wsd_spawn(&owner.self, take, (void *)(uintptr_t)(round_number * TASKS_MAX + n_tasks++));
}

static void pop(void)
{
    atomic_store_explicit(&noise, 1, memory_order_relaxed);
    wsd_sync(&owner.self);
    poison(owner.self.top);
}

static void spawn_slow(struct wsd_worker *self, struct wsd_task *t)
{
    bool published;

    CHECK(deque_pushed_owner(&d, t, &published));
}

static struct wsd_task *sync_slow(struct wsd_worker *self, struct wsd_task *t, const struct wsd_task_type *type)
{
    bool published;

    if (deque_popped_owner(&d, t, wsd_task_at_(t, (ptrdiff_t)type->size), &published))
        return NULL;
    for (uint32_t i = 0; __atomic_load_n(&t->word, __ATOMIC_ACQUIRE) != TASK_DONE; i++)
        if (i > SPINS)
            sched_yield();
    deque_joined_owner(&d, t);
    return t;
}

static const struct wsd_task_ops ops = {.size = sizeof(ops), .spawn = spawn_slow, .sync = sync_slow};

static bool steal(struct party *p)
{
    bool more;
    struct deque_entry *e = deque_steal_any(&d, &more);

    if (!e)
        return false;
    uint32_t before[TASKS_MAX];
    memcpy(before, p->took, sizeof(before));
    ((const struct wsd_task_type *)e->task->word)->run(&p->self, e->task);
    for (uint32_t i = 0; i < TASKS_MAX; i++)
        CHECK(p->took[i] == before[i] || e->context == expected[i]);
    poison(e->task);
    __atomic_store_n(&e->task->word, TASK_DONE, __ATOMIC_RELEASE);
    return true;
}

/* --- the races --- */

/* Task 0 is public: the first push is. */
static void one_public(void)
{
    push();
}

static void nothing(void)
{
}

static void one_private(void)
{
    push();
    push();
}

static void two_private(void)
{
    push();
    push();
    push();
}

/* Nothing is public, two are private, and the trap is set. */
static void trapped(void)
{
    two_private();
    CHECK(steal(&thieves[0]));
}

static void many_trapped(void)
{
    two_private();
    push();
    push();
    CHECK(steal(&thieves[0]));
}

static void six_public(void)
{
    for (int i = 0; i < 6; i++)
        push();
    /* In an eager deque all are public already. */
    CHECK(d.eager || steal(&thieves[0]));
    CHECK(d.eager || deque_revoke_any(&d));
}

static void pop_one(struct party *p)
{
    pop();
}

static void pop_two(struct party *p)
{
    pop();
    pop();
}

static void pop_three(struct party *p)
{
    pop_two(p);
    pop();
}

static void push_one(struct party *p)
{
    push();
}

static void push_and_pop(struct party *p)
{
    push();
    pop();
}

static void push_two_pop_one(struct party *p)
{
    push();
    push();
    pop();
}

/* The slot is used again, by a task with another context, and so is the value of the word. */
static void pop_and_push_another(struct party *p)
{
    pop();
    CHECK(owner.self.top == d.base);
    owner.self.context = &contexts[round_number % 2 * 2 + 1];
    push();
    pop();
}

static void steal_one(struct party *p)
{
    atomic_store_explicit(&noise, 2, memory_order_relaxed);
    steal(p);
}

/* Until the owner is through, or nearly so. */
static void steal_some(struct party *p)
{
    atomic_store_explicit(&noise, 2, memory_order_relaxed);
    for (uint32_t i = 0; i < TRIES && !atomic_load_explicit(&owner_back, memory_order_relaxed); i++)
        steal(p);
}

static void revoke_and_steal(struct party *p)
{
    atomic_store_explicit(&noise, 3, memory_order_relaxed);
    if (deque_revoke_any(&d))
        while (steal(p))
            ;
}

/* As a worker that is about to sleep: takes what is public, and then has the rest published. */
static void steal_and_revoke(struct party *p)
{
    steal_one(p);
    revoke_and_steal(p);
}

/* One revokes while the other steals what the owner publishes meanwhile. */
static void revoke_or_steal(struct party *p)
{
    if (p == &thieves[0])
        revoke_and_steal(p);
    else
        steal_some(p);
}

/* clang-format off */
static const struct litmus all[] = {
    {"pop of the last, against a thief", 1, 40000, 0, one_public, pop_one, steal_one, false},
    {"pop of the last, against two thieves", 2, 10000, 0, one_public, pop_one, steal_one, false},
    {"push, against a steal of the one before", 1, 40000, 1, one_public, push_one, steal_some, false},
    {"push, against two thieves", 2, 10000, 1, one_public, push_one, steal_some, false},
    {"push into a trap, against a thief", 1, 40000, 2, trapped, push_one, steal_some, false},
    {"pop into a trap, against a thief", 1, 40000, 1, trapped, pop_one, steal_some, false},
    {"push and pop in a trap, against two thieves", 2, 10000, 3, trapped, push_and_pop, steal_some, false},
    {"reclaim, against a thief", 1, 40000, 3, six_public, pop_three, steal_some, false},
    {"reclaim, against two thieves", 2, 10000, 2, six_public, pop_three, steal_some, false},
    {"joined and used again, against two thieves", 2, 20000, 0, one_public, pop_and_push_another, steal_some, false},
    {"pop, against steal and revoke", 1, 40000, 1, one_private, pop_one, steal_and_revoke, true},
    {"two pops, against steal and revoke", 1, 40000, 1, two_private, pop_two, steal_and_revoke, true},
    {"pops into a trap, against a revoke", 1, 40000, 1, trapped, pop_two, revoke_and_steal, true},
    {"pops of many into a trap, against a revoke", 1, 40000, 2, many_trapped, pop_three, revoke_and_steal, true},
    {"pop, against two that steal and revoke", 2, 10000, 1, one_private, pop_one, steal_and_revoke, true},
    {"two pushes and a pop, against revoke and thief", 2, 20000, 0, nothing, push_two_pop_one, revoke_or_steal, true},
    {"push and pop in a trap, against two that revoke", 2, 10000, 2, trapped, push_and_pop, revoke_and_steal, true},
};
/* clang-format on */

/* --- rounds --- */

static uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}

static void wait_start(uint32_t *seed, int64_t behind)
{
    uint64_t at = start + (behind > 0 ? (uint64_t)behind : 0) + stress_random(seed) % CHANCE;

    while (ticks() < at)
        ;
}

/* To the n-th CPU that we may use, else to all: on a busy machine two would share one, and never meet. */
static void pin(uint32_t n)
{
    cpu_set_t to = cpus;

    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &cpus) && n-- == 0) {
            CPU_ZERO(&to);
            CPU_SET(i, &to);
        }
    sched_setaffinity(0, sizeof(to), &to);
}

static void *thief_main(void *arg)
{
    struct party *p = arg;

    pin((uint32_t)(p - thieves) + 1);
    for (uint64_t seen = 0;;) {
        for (uint32_t i = 0; atomic_load_explicit(&go, memory_order_acquire) == seen; i++)
            if (i > SPINS)
                sched_yield();
        seen++;
        if (atomic_load_explicit(&stop, memory_order_relaxed))
            return NULL;
        wait_start(&p->seed, -lead);
        p->act(p);
        atomic_fetch_add_explicit(&back, 1, memory_order_release);
    }
}

static struct {
    char who[TASKS_MAX + 8];
    uint32_t count;
} outcomes[OUTCOMES_MAX];

static void tally(const char *who)
{
    uint32_t i = 0;

    while (outcomes[i].count && strcmp(outcomes[i].who, who) != 0)
        CHECK(++i < OUTCOMES_MAX);
    strcpy(outcomes[i].who, who);
    outcomes[i].count++;
}

/* Called when all threads are back. Returns whether a thief has the contested task. */
static bool look(uint32_t contested)
{
    char who[TASKS_MAX + 8];
    bool hidden = deque_has_private_any(&d);
    size_t n = 0;

    if (hidden && !deque_has_public_any(&d)) {
        CHECK(owner.self.hi <= owner.self.top);                                /* the next push asks */
        CHECK(wsd_task_at_(owner.self.top, -(ptrdiff_t)SLOT) < owner.self.lo); /* the next pop asks */
    }
    for (uint32_t i = 0; i < n_tasks; i++) {
        uint32_t times = owner.took[i];
        who[n] = owner.took[i] ? 'o' : '-';
        for (uint32_t k = 0; k < n_thieves; k++) {
            times += thieves[k].took[i];
            if (thieves[k].took[i])
                who[n] = (char)('a' + k);
        }
        CHECK(times <= 1);
        n++;
    }
    who[n] = '\0';
    tally(who);
    /* What is left is the owner's. */
    while (owner.self.top != d.base)
        pop();
    for (uint32_t i = 0; i < n_tasks; i++) {
        uint32_t times = owner.took[i];
        for (uint32_t k = 0; k < n_thieves; k++)
            times += thieves[k].took[i];
        CHECK(times == 1);
    }
    CHECK(!deque_has_public_any(&d) && !deque_has_private_any(&d));
    return who[contested] >= 'a' && who[contested] < 'o';
}

static void follow(bool thief_won)
{
    if (thief_won != (streak > 0))
        streak = 0;
    streak += thief_won ? 1 : -1;
    int64_t step = (int64_t)STEP << MIN(abs(streak) / 8, 8);
    lead += thief_won ? -step : step;
    lead = MAX(MIN(lead, LEAD), -LEAD);
}

static void play(const struct litmus *l)
{
    round_number++;
    n_tasks = 0;
    memset(owner.took, 0, sizeof(owner.took));
    for (uint32_t k = 0; k < n_thieves; k++) {
        memset(thieves[k].took, 0, sizeof(thieves[k].took));
        thieves[k].act = l->thief;
    }
    owner.self.context = &contexts[round_number % 2 * 2];
    l->set_up();
    atomic_store_explicit(&back, 0, memory_order_relaxed);
    atomic_store_explicit(&owner_back, false, memory_order_relaxed);
    start = ticks() + START;
    atomic_fetch_add_explicit(&go, 1, memory_order_release);
    wait_start(&owner.seed, lead);
    l->owner(&owner);
    atomic_store_explicit(&owner_back, true, memory_order_relaxed);
    for (uint32_t i = 0; atomic_load_explicit(&back, memory_order_acquire) < n_thieves; i++)
        if (i > SPINS)
            sched_yield();
    follow(look(l->contested));
}

static void run(const struct litmus *l, bool eager)
{
    uint32_t fewer = SLOW || thorough() ? 1 : FEWER;
    uint32_t rounds = stress_count(l->rounds) / fewer;

    n_thieves = l->thieves;
    round_number = 0;
    lead = streak = 0;
    memset(outcomes, 0, sizeof(outcomes));
    owner = (struct party){.self = {.size = sizeof(owner.self), .ops = &ops}, .seed = 1};
    CHECK(deque_init(&d, &owner.self, 4096, eager) == 0);
    atomic_store(&go, 0);
    atomic_store(&stop, false);
    for (uint32_t k = 0; k < n_thieves; k++) {
        thieves[k] = (struct party){.self = {.size = sizeof(owner.self)}, .seed = k + 2};
        CHECK(pthread_create(&thieves[k].thread, NULL, thief_main, &thieves[k]) == 0);
    }
    /* Beside other load each round costs both sides a turn of the scheduler: fewer do then. */
    uint64_t deadline = clock_monotonic_usec() + ROUNDS_USEC / fewer;
    stress_start();
    while (round_number < rounds && (round_number < rounds / 10 || clock_monotonic_usec() < deadline))
        play(l);
    atomic_store(&stop, true);
    atomic_fetch_add(&go, 1);
    for (uint32_t k = 0; k < n_thieves; k++)
        pthread_join(thieves[k].thread, NULL);
    deque_deinit(&d);
    printf("%s%s, %llu rounds:", l->name, eager ? ", eager" : "", (unsigned long long)round_number);
    for (uint32_t i = 0; i < OUTCOMES_MAX && outcomes[i].count; i++)
        printf("  %s %u", outcomes[i].who, outcomes[i].count);
    printf("\n");
}

int main(void)
{
    stress_start();
    CHECK(sched_getaffinity(0, sizeof(cpus), &cpus) == 0);
    pin(0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("for each task in turn who took it, o the owner, a and b thieves, - nobody yet, and how often:\n");
    bool revoke = deque_revoke_available();
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        for (int eager = !revoke; eager < 2 - all[i].revokes; eager++)
            run(&all[i], eager);
    return EXIT_SUCCESS;
}
