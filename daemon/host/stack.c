/* SPDX-License-Identifier: Apache-2.0
 *
 * stack.c: whether a fault is the end of a stack.
 * Owns a signal stack for each thread, and what the thread knows of its bounds. [the thread, also in its signal
 * handlers]
 * Keeps: not every fault is called an overflow. It has to lie in the guard below the stack, or in a large frame that
 * reaches beyond the guard.
 * Does not know of stacks that a plugin makes itself. */
#include "host/stack.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/cleanup.h"

#define SIGNAL_STACK ((size_t)64 * 1024)
/* So far below the stack pointer a function may write before it moves it, or a call does. */
#define RED_ZONE 4096u
/* A frame that is larger has a pointer that says nothing. */
#define FRAME_MAX ((uintptr_t)1 << 30)

static _Thread_local struct {
    uintptr_t low, guard; /* the lowest byte of the stack, 0: not known; and the bytes of the guard below it */
    size_t size;
    void *signal_stack;
    stack_t before;
} mine __attribute__((tls_model("initial-exec")));

static void find_bounds(void)
{
    pthread_attr_t attr;
    void *low;

    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &low, &mine.size) == 0 && pthread_attr_getguardsize(&attr, &mine.guard) == 0)
        mine.low = (uintptr_t)low;
    pthread_attr_destroy(&attr);
}

size_t stack_begin(void)
{
    stack_t stack = {.ss_size = SIGNAL_STACK};

    find_bounds();
    stack.ss_sp = mmap(NULL, SIGNAL_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Without it an overflow is a death without a note: no reason not to run. */
    if (stack.ss_sp == MAP_FAILED)
        return mine.size;
    if (sigaltstack(&stack, &mine.before) == 0)
        mine.signal_stack = stack.ss_sp;
    else
        munmap(stack.ss_sp, SIGNAL_STACK);
    return mine.size;
}

bool stack_mend(void)
{
    const stack_t stack = {.ss_sp = mine.signal_stack, .ss_size = SIGNAL_STACK};
    stack_t found;

    /* one call, which tells what was there */
    return mine.signal_stack && sigaltstack(&stack, &found) == 0 &&
           (found.ss_sp != mine.signal_stack || found.ss_flags & SS_DISABLE);
}

void stack_end(void)
{
    if (!mine.signal_stack)
        return;
    sigaltstack(&mine.before, NULL);
    munmap(mine.signal_stack, SIGNAL_STACK);
    mine.signal_stack = NULL;
}

/* 0 where this machine's is not known. */
static uintptr_t stack_pointer(const ucontext_t *c)
{
#if defined __x86_64__
    return (uintptr_t)c->uc_mcontext.gregs[REG_RSP];
#elif defined __aarch64__
    return (uintptr_t)c->uc_mcontext.sp;
#elif defined __riscv
    return (uintptr_t)c->uc_mcontext.__gregs[REG_SP];
#else
    (void)c;
    return 0;
#endif
}

size_t stack_overflowed(int signal, const siginfo_t *info, const void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr, sp;

    /* si_code above 0: of the kernel, so that si_addr is one */
    if ((signal != SIGSEGV && signal != SIGBUS) || info->si_code <= 0 || mine.low == 0 || at >= mine.low)
        return 0;
    if (mine.low - at <= mine.guard)
        return mine.size;
    /* A large frame may begin below the guard: then the pointer is below the stack, and the access in the frame. */
    sp = stack_pointer(context);
    return sp != 0 && sp < mine.low && mine.low - sp <= FRAME_MAX && at >= sp - MIN(sp, RED_ZONE) ? mine.size : 0;
}
