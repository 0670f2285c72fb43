/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.c: names the job that a fault belongs to, then lets the process die of it.
 * Owns the handlers. They run on the faulting thread, and touch only its own thread-local words and shared memory,
 * nothing that could be locked.
 * Keeps: the process dies by the signal that hit it, after the note. A process that a plugin has forked leaves no note.
 * Does not try to continue, since only the process boundary is safe. The exception is a fault that is no plugin's: the
 * file that a job reads in place was truncated (input-map.c). */
#include "executor/fault.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "executor/input-map.h"
#include "host/backtrace.h"
#include "host/stack.h"

#define TRACE_SECONDS 2 /* for a backtrace: walking a destroyed stack may take for ever */

static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};

static struct back *noted_in; /* [const after init] */
static fault_place *place;    /* [const after init] */
static pid_t owner;           /* [const after init] the owner of the notes */
static _Atomic bool orderly;  /* [atomic: relaxed; main sets it before it exits itself] */

static _Thread_local struct {
    uint32_t worker;
    sigset_t mask; /* while no plugin code runs */
} mine __attribute__((tls_model("initial-exec"))) = {.worker = RING_NONE};

/* Writes the note without the backtrace. NULL: there is one already. */
static char *leave_note_of(const struct host_job *job, uint64_t cpu_usec, uint32_t worker, int signal, int code,
                           const void *address)
{
    uint32_t slot = RING_NONE, generation = 0;

    if (job)
        place(job, &slot, &generation);
    if (atomic_load_explicit(&noted_in->up->fault.written, memory_order_relaxed) == 0)
        noted_in->up->fault.cpu_usec = cpu_usec;
    return back_fault(noted_in, slot, generation, worker, signal, code, address);
}

static void leave_note(int signal, int code, const void *address, const void *context)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};

    if (getpid() != owner)
        return;
    const struct host_job *own = host_current(), *job = own ? own : handle_job_of_thread();
    uint64_t cpu_usec = own ? host_current_cpu_usec() : job ? host_job_cpu_usec(job) : 0;
    char *trace = leave_note_of(job, cpu_usec, mine.worker, signal, code, address);
    if (!trace)
        return;
    sigaction(SIGALRM, &by_default, NULL);
    alarm(TRACE_SECONDS);
    backtrace_write(trace, FAULT_TRACE, context);
    back_fault_told(noted_in);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    int error = errno;

    if (signal == SIGBUS && info->si_code > 0 && input_map_mend(info->si_addr)) {
        errno = error;
        return;
    }
    if (signal == SIGSEGV || signal == SIGBUS)
        backtrace_fault();
    size_t stack = stack_overflowed(signal, info, context);
    if (stack)
        leave_note(signal, FAULT_STACK, (void *)stack, context);
    else
        leave_note(signal, info->si_code, info->si_addr, context);
    sigaction(signal, &by_default, NULL);
    /* Blocked inside this handler, so it takes effect on return. A fault would recur by itself, a kill() would not. */
    raise(signal);
}

static void on_exit_of_plugin(void)
{
    if (atomic_load_explicit(&orderly, memory_order_relaxed))
        return;
    if (getpid() != owner)
        return;
    leave_note(0, FAULT_EXIT, NULL, NULL);
    /* Stop here: other workers use what the rest of exit() would take down. */
    fault_leave(CODE_CRASHED);
}

_Noreturn void fault_leave(int status)
{
    for (;;)
        syscall(SYS_exit_group, status);
}

/* Plugins get this in place of the C library's, which would call no hook. */
__attribute__((visibility("default"))) void _exit(int status)
{
    if (!noted_in || getpid() != owner)
        fault_leave(status);
    leave_note(0, FAULT_EXIT, NULL, NULL);
    fault_leave(CODE_CRASHED);
}

__attribute__((visibility("default"))) void _Exit(int status)
{
    _exit(status);
}

_Noreturn void fault_thread_left(void)
{
    leave_note(0, FAULT_THREAD, NULL, NULL);
    fault_leave(CODE_CRASHED);
}

_Noreturn void fault_thread_gone(const struct host_job *job, uint32_t worker)
{
    if (leave_note_of(job, job ? host_job_cpu_usec(job) : 0, worker, 0, FAULT_GONE, NULL))
        back_fault_told(noted_in);
    fault_leave(CODE_CRASHED);
}

/* A fault waits while another one is being reported. */
static struct sigaction handler(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        sigaddset(&action.sa_mask, signals[i]);
    sigaddset(&action.sa_mask, SIGPROF); /* a sample would walk a stack that is broken */
    return action;
}

static bool mend_handlers(void)
{
    bool mended = false;

    for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
        struct sigaction action, found;

        if (sigaction(signals[i], NULL, &found) < 0 || (found.sa_flags & SA_SIGINFO && found.sa_sigaction == on_fault))
            continue;
        action = handler();
        sigaction(signals[i], &action, NULL);
        mended = true;
    }
    return mended;
}

static bool mend_mask(void)
{
    sigset_t found;

    if (pthread_sigmask(SIG_SETMASK, &mine.mask, &found) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        if (sigismember(&found, signals[i]) == 1)
            return true;
    return false;
}

const char *fault_mend(bool handlers)
{
    bool mask = mend_mask(), stack = stack_mend();

    if (handlers && mend_handlers())
        return "the handler of a signal that faults raise";
    return stack ? "the stack for signal handlers" : mask ? "the signals that its thread blocks" : NULL;
}

int fault_init(struct back *back, fault_place *place_of_job)
{
    const struct sigaction action = handler();

    noted_in = back;
    place = place_of_job;
    owner = getpid();
    backtrace_init();
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        if (sigaction(signals[i], &action, NULL) < 0)
            return -errno;
    if (atexit(on_exit_of_plugin) != 0 || at_quick_exit(on_exit_of_plugin) != 0)
        return -ENOMEM;
    fault_thread_begin(RING_NONE);
    return 0;
}

void fault_block_signals(sigset_t *ret_before)
{
    sigset_t set;

    sigfillset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        sigdelset(&set, signals[i]); /* SIGABRT too: raised by a thread, it is a fault like the others */
    pthread_sigmask(SIG_SETMASK, &set, ret_before);
}

void fault_thread_begin(uint32_t worker)
{
    mine.worker = worker;
    pthread_sigmask(SIG_BLOCK, NULL, &mine.mask);
    stack_begin();
}

void fault_thread_end(void)
{
    stack_end();
}

void fault_wait(void)
{
    /* Relaxed: nothing is read after it. */
    while (noted_in && atomic_load_explicit(&noted_in->up->fault.written, memory_order_relaxed) != 0)
        pause();
}

void fault_orderly(void)
{
    atomic_store_explicit(&orderly, true, memory_order_relaxed);
}
