/* SPDX-License-Identifier: Apache-2.0
 *
 * call.c: one client that awaits each answer. The job is a no-op with 16 bytes in and out, by the socket and by a
 * direct lane.
 *
 *     bench-call call WORKERS WSD EXECUTOR DIRECTORY     DIRECTORY: of the plugin work.so.
 *
 * Awake: one call behind the other, so that both sides find each other awake where there are CPUs for both. Asleep:
 * GAP_USEC between two calls, so that both sides sleep. For comparison: two processes that only wake each other by a
 * futex, in the same two ways. Also a client and a server that spin on a word, which is the least possible. */
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "daemon.h"

#define AWAKE_N  20000u
#define ASLEEP_N 500u
#define GAP_USEC 2000u

static double samples[AWAKE_N];

static void say_quantiles(const char *way, const char *how, size_t n)
{
    char params[96];
    double p50 = median(samples, n);

    snprintf(params, sizeof(params), "way=%s,sides=%s,quantile=p50,workers=%s", way, how, workers);
    say(params, "us", p50);
    snprintf(params, sizeof(params), "way=%s,sides=%s,quantile=p99,workers=%s", way, how, workers);
    say(params, "us", samples[n * 99 / 100]); /* median() sorts */
}

/* --- wsd ---------------------------------------------------------------------------------------------------------- */

/* Whether it was direct. */
static bool call(uint32_t flags)
{
    char input[16] = "sixteen bytes..", output[16];
    struct wsd_call_request q = {.size = sizeof(q),
                                 .plugin = "work",
                                 .function = "echo",
                                 .input = input,
                                 .input_size = 16,
                                 .output = output,
                                 .output_room = 16,
                                 .flags = flags};
    struct wsd_call_result r = {.size = sizeof(r)};

    if (wsd_call(client, &q, &r) < 0 || r.state != WSD_JOB_SUCCEEDED || r.output_size != 16)
        give_up("a call did not succeed");
    return r.direct;
}

static void calls(const char *way, uint32_t flags, bool awake)
{
    size_t n = awake ? AWAKE_N : ASLEEP_N;

    for (int i = 0; i < 100000 && call(flags) != (flags == 0); i++)
        ;
    for (size_t i = 0; i < n; i++) {
        if (!awake)
            usleep(GAP_USEC);
        uint64_t begin = now_nsec();
        if (call(flags) != (flags == 0))
            give_up("a call went the other way");
        samples[i] = (double)(now_nsec() - begin) / 1e3;
    }
    say_quantiles(way, awake ? "awake" : "asleep", n);
}

/* --- the least that can be ---------------------------------------------------------------------------------------- */

struct words {
    _Atomic uint32_t there __attribute__((aligned(64))), back __attribute__((aligned(64)));
};

static void await(_Atomic uint32_t *word, uint32_t old, bool spin)
{
    while (atomic_load_explicit(word, memory_order_acquire) == old)
        if (!spin)
            syscall(SYS_futex, word, FUTEX_WAIT, old, NULL, NULL, 0);
}

static void bump(_Atomic uint32_t *word, bool spin)
{
    atomic_fetch_add_explicit(word, 1, memory_order_release);
    if (!spin)
        syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void ping_pong(const char *way, bool spin, bool awake)
{
    struct words *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t n = awake ? AWAKE_N : ASLEEP_N;

    if (w == MAP_FAILED)
        give_up("no memory");
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (uint32_t i = 0; i < n; i++) {
            await(&w->there, i, spin);
            bump(&w->back, spin);
        }
        _exit(0);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!awake)
            usleep(GAP_USEC);
        uint64_t begin = now_nsec();
        bump(&w->there, spin);
        await(&w->back, i, spin);
        samples[i] = (double)(now_nsec() - begin) / 1e3;
    }
    waitpid(child, NULL, 0);
    munmap(w, sizeof(*w));
    say_quantiles(way, awake ? "awake" : "asleep", n);
}

int main(int argc, char **argv)
{
    if (argc != 6 || strcmp(argv[1], "call") != 0)
        return 64;
    start_wsd(argv + 2, "");
    calls("socket", WSD_CALL_SOCKET, true);
    calls("socket", WSD_CALL_SOCKET, false);
    calls("lane", 0, true);
    calls("lane", 0, false);
    if (strcmp(workers, "1") == 0) { /* have none */
        ping_pong("spin", true, true);
        ping_pong("futex", false, true);
        ping_pong("futex", false, false);
    }
    stop_wsd();
    return 1;
}
