/* SPDX-License-Identifier: Apache-2.0
 *
 * service.c: what a client sees while executors die, through a wsd of our own.
 *
 * Usage:
 *     bench-service recover|storm WORKERS WSD EXECUTOR DIRECTORY     DIRECTORY: of the plugins work.so and crash.so.
 *
 * Recover: 1,024 jobs that may run twice are in flight all the time. It measures the time from an executor's death to
 * the first answer of a job that ran in the next executor. The result is the median of KILLS deaths. They are by a
 * fault (timed from the crash) and by kill -9 (timed from the kill), with and without 1 GiB resident in the executor.
 * The plugin has an executor of its own from the start (isolation = own). Otherwise its first crash would move it into
 * one, and two executors would answer for a while.
 * Storm: one job at a time, its answer awaited: p50 and p99. In turns, another user's plugin crashes all the time,
 * STORM_CRASHES at once, or does not run. Quarantine is off, so each of those is a crash. */
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wsd/client.h>

#include "daemon.h"

#define KILLS         30
#define IN_FLIGHT     1024u
#define BETWEEN       200u /* answers between two deaths */
#define RESIDENT_MIB  "1024"
#define CRASH_NSEC    300000000u /* ahead: later than what is queued before it takes */
#define STORM_TURNS   5
#define STORM_NSEC    2000000000u /* a turn */
#define STORM_CRASHES 8u
#define STORM_MAX     2000000u

static bool ending;

/* --- recover ------------------------------------------------------------------------------------------------------ */

static uint32_t in_flight;
static uint64_t n_answers;
static int executor_pid;       /* of the last answer */
static uint64_t answered_nsec; /* and when it came */

static void on_work(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    size_t size;
    const char *output = wsd_call_output(call, &size);

    in_flight--;
    if (!ending && (error || info->state != WSD_JOB_SUCCEEDED))
        give_up("a job that may run twice did not succeed");
    if (output && size) {
        executor_pid = atoi(output);
        answered_nsec = now_nsec();
        n_answers++;
    }
    wsd_call_free(call);
}

static void on_other(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text,
                     void *userdata)
{
    int *state = userdata;

    *state = error ? -1 : (int)info->state;
    wsd_call_free(call);
}

static void submit(const char *plugin, const char *function, const char *arg, int priority,
                   void (*done)(struct wsd_call *, int, const struct wsd_job_info *, const char *, void *),
                   void *userdata)
{
    const char *args[] = {arg};
    struct wsd_submit s = {.size = sizeof(s),
                           .plugin = plugin,
                           .function = function,
                           .args = args,
                           .n_args = arg != NULL,
                           .priority = priority};
    struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = done, .userdata = userdata};
    struct wsd_call *call;

    if (wsd_client_submit(client, &s, &callbacks, &call) < 0)
        give_up("submit");
}

static void turn(void)
{
    for (; in_flight < IN_FLIGHT; in_flight++)
        submit("work", "work", NULL, 0, on_work, NULL);
    if (wsd_client_wait(client, UINT64_MAX) < 0)
        give_up("wait");
}

static int other(const char *function, const char *arg)
{
    int state = 0;

    submit("work", function, arg, 100, on_other, &state);
    while (!state)
        turn();
    return state;
}

/* ms from one death to the first answer of the next executor; negative: it came to nothing. */
static double one_death(bool by_fault, bool is_fat)
{
    uint64_t from = n_answers, died;
    int before;

    while (n_answers - from < BETWEEN)
        turn();
    if (is_fat && other("fat", RESIDENT_MIB) != WSD_JOB_SUCCEEDED)
        give_up("no memory");
    for (from = n_answers; n_answers == from;)
        turn();
    before = executor_pid;
    if (by_fault) {
        char when[32];

        died = now_nsec() + CRASH_NSEC;
        snprintf(when, sizeof(when), "%llu", (unsigned long long)died);
        if (other("segv", when) != WSD_JOB_CRASHED)
            return -1;
    } else {
        died = now_nsec();
        kill(before, SIGKILL);
    }
    while (executor_pid == before)
        turn();
    return ((double)answered_nsec - (double)died) / 1e6;
}

/* Each way on a wsd of its own, which remembers no other way's deaths. */
static void recover(char **arguments, bool by_fault, bool is_fat)
{
    static double all[KILLS];
    char params[96];
    pid_t child = fork();

    if (child) {
        waitpid(child, NULL, 0);
        return;
    }
    start_wsd(arguments, "[plugin work]\nisolation = own\n");
    for (int i = 0; i < KILLS;) {
        all[i] = one_death(by_fault, is_fat);
        i += all[i] >= 0;
    }
    snprintf(params, sizeof(params), "by=%s,resident=%s,kills=%d,workers=%s", by_fault ? "fault" : "kill",
             is_fat ? "1GiB" : "0", KILLS, workers);
    say(params, "ms", median(all, KILLS));
    ending = true;
    stop_wsd();
}

/* --- storm -------------------------------------------------------------------------------------------------------- */

static void on_crash(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text,
                     void *userdata)
{
    if (error)
        _exit(1);
    in_flight--;
    ++*(volatile uint64_t *)userdata;
    wsd_call_free(call);
}

static pid_t begin_storm(uint64_t *crashes)
{
    pid_t child = fork();

    if (child)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    client = NULL; /* the parent's */
    connect_client();
    for (;;) {
        for (; in_flight < STORM_CRASHES; in_flight++)
            submit("crash", "segv", NULL, 0, on_crash, crashes);
        if (wsd_client_wait(client, UINT64_MAX) < 0)
            _exit(1);
    }
}

/* Appends the times of a turn's calls, in us. */
static size_t calls(double *all, size_t n)
{
    uint64_t end = now_nsec() + STORM_NSEC, begin;

    while ((begin = now_nsec()) < end && n < STORM_MAX) {
        uint64_t from = n_answers;

        submit("work", "work", NULL, 0, on_work, NULL);
        in_flight++;
        while (n_answers == from)
            if (wsd_client_wait(client, UINT64_MAX) < 0)
                give_up("wait");
        all[n++] = (double)(now_nsec() - begin) / 1e3;
    }
    return n;
}

static void storm(void)
{
    uint64_t *crashes = mmap(NULL, sizeof(*crashes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double *all[2] = {malloc(STORM_MAX * sizeof(double)), malloc(STORM_MAX * sizeof(double))};
    size_t n[2] = {0, 0};
    char params[96];

    if (crashes == MAP_FAILED || !all[0] || !all[1])
        give_up("no memory");
    for (int i = 0; i < STORM_TURNS; i++) {
        uint64_t before;

        n[0] = calls(all[0], n[0]);
        pid_t child = begin_storm(crashes);
        for (before = *(volatile uint64_t *)crashes; *(volatile uint64_t *)crashes - before < STORM_CRASHES;)
            usleep(1000);
        n[1] = calls(all[1], n[1]);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    for (int on = 0; on < 2; on++) {
        double p50 = median(all[on], n[on]), p99 = all[on][n[on] * 99 / 100]; /* median() sorts */

        snprintf(params, sizeof(params), "storm=%s,quantile=p50,workers=%s", on ? "on" : "off", workers);
        say(params, "us", p50);
        snprintf(params, sizeof(params), "storm=%s,quantile=p99,workers=%s", on ? "on" : "off", workers);
        say(params, "us", p99);
    }
    fprintf(stderr, "bench-service: %.0f crashes a second\n", (double)*crashes / (STORM_TURNS * (STORM_NSEC / 1e9)));
}

int main(int argc, char **argv)
{
    if (argc != 6 || (strcmp(argv[1], "recover") != 0 && strcmp(argv[1], "storm") != 0))
        return 64;
    if (*argv[1] == 'r') {
        for (int how = 0; how < 4; how++)
            recover(argv + 2, how % 2 == 0, how >= 2);
        return 0;
    }
    start_wsd(argv + 2, "");
    storm();
    ending = true;
    stop_wsd();
    return 1;
}
