/* SPDX-License-Identifier: Apache-2.0
 *
 * direct-loop.c: submits jobs with WSD_SUBMIT_DIRECT in a loop of epoll(7), and counts how they ended.
 *
 * Usage:
 *     direct-loop [-n CALLS] [-a AHEAD] [-r ROOM] [-s] [-w] [-o] [-b] [-c K] [-f K] [-i K] [-m K] [-F K] [-A N]
 *                 [-d USEC] [-t MSEC] [-u FILE] [-y USEC] [-g] [-G] [-k] [-L FILE]
 *                 PLUGIN:FUNCTION [ARG...]
 *
 * Without arguments each job is sent bytes that no other one has, and its output is to be those.
 * -a so many are under way (64). -r is output_size. With -s they go by the socket.
 * With -w it first submits the function with `ok` until such a job went by the lane (30 s at most).
 * With -o each has a callback for output, else the library gathers it.
 * With -b it uses wsd_client_wait() in place of epoll.
 * With -m only each K-th has the arguments.
 * With -c each K-th is cancelled at once, with -f it is freed, with -i its callback waits for the next one.
 * With -y it makes a wsd_call() of the function `again` with `ok` between its turns, and gives it up after so many
 * microseconds.
 * The deadline of each is -d, the time limit of its run is -t.
 * With -F each K-th forks a child, which frees its handle, or only exits.
 * With -A it forks after so many, and the child adopts the handle and goes on; what was in the lane is lost then.
 * With -u it goes on until FILE is there, whatever ends, and connects again.
 * With -g it submits with WSD_SUBMIT_AGAIN, with -G with WSD_SUBMIT_TWICE, with -k durable jobs, each with a key.
 * With -L the arguments of each job are that file and its number.
 *
 * Prints one line of NAME=COUNT, and the last error. Exits 0 where each job was told once and each echo was right. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wsd/adapters/epoll.h>

struct job {
    struct wsd_call *call;
    unsigned long number;
    unsigned told;
    bool freed;
    struct job *next; /* of those that are freed: a second end would find them */
    size_t size;      /* of the output that has come by callback */
    char output[8192], input[64], name[64];
};

#define ROOM_WARM 64ul /* for what `ok` says: it goes by the lane, whatever room is asked for later */

static unsigned long n_calls = 1, ahead = 64, room, cancels, frees, nests, each = 1, forks, adopts, beside_usec,
                     deadline_usec, timeout_msec;
static unsigned long n_forked, n_begun, n_open, n_told, n_direct, n_wrong, n_twice, by_state[16], n_errors, n_lost,
    n_large, n_late, n_unrun;
static uint32_t more_flags;
static bool keyed, by_socket, warm, by_callback, blocking, warming;
static const char *ledger, *enough, *plugin, *function;
static const char *const *arguments;
static size_t n_arguments;
static char last_error[300];
static struct wsd_client *client;
static struct wsd_epoll loop;
static struct job *newest, *freed;

static bool is_enough(void)
{
    return !enough || access(enough, F_OK) == 0;
}

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct job *j = userdata;

    if (size <= sizeof(j->output) - j->size)
        memcpy(j->output + j->size, data, size);
    j->size += size;
    return 0;
}

static void look_at_output(struct job *j)
{
    const char *output = j->output;
    size_t size = j->size;

    if (!by_callback)
        output = wsd_call_output(j->call, &size);
    if (size != strlen(j->input) || memcmp(output, j->input, size) != 0)
        n_wrong++;
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    static const struct wsd_id none;
    struct job *j = userdata;

    n_twice += j->told++ > 0 || j->freed;
    n_told++;
    n_open--;
    if (error) {
        n_errors++;
        n_lost += error == -ECONNRESET;
        n_unrun += error == -ECONNRESET && wsd_client_exit(client) != 125;
        n_large += error == -EMSGSIZE;
        n_late += error == -ETIMEDOUT;
        snprintf(last_error, sizeof(last_error), "%s", text);
    } else {
        by_state[info->state & 15]++;
        if (*info->error)
            snprintf(last_error, sizeof(last_error), "%s", info->error);
        n_direct += memcmp(&info->id, &none, sizeof(none)) == 0;
        if (info->state == WSD_JOB_SUCCEEDED && *j->input)
            look_at_output(j);
    }
    if (nests && j->number % nests == 0 && newest && newest != j && !newest->told)
        (void)wsd_call_wait(newest->call, 10000000, NULL);
    if (newest == j)
        newest = NULL;
    wsd_call_free(call);
    free(j);
}

/* False: not now. */
static bool submit_one(const char *const *args, size_t n_args)
{
    const struct wsd_callbacks callbacks = {
        .size = sizeof(callbacks), .output = by_callback ? on_output : NULL, .done = on_done};
    struct job *j = calloc(1, sizeof(*j));
    struct wsd_callbacks own = callbacks;

    own.userdata = j;
    j->number = n_begun + 1;
    snprintf(j->name, sizeof(j->name), "%lu.%d", j->number, (int)getpid());
    const char *const named[] = {ledger, j->name};
    if (ledger) {
        args = named;
        n_args = 2;
    }
    if (!n_args)
        snprintf(j->input, sizeof(j->input), "job %lu of process %d", j->number, (int)getpid());
    const struct wsd_submit submit = {.size = sizeof(submit),
                                      .plugin = plugin,
                                      .function = function,
                                      .args = args,
                                      .n_args = n_args,
                                      .input = j->input,
                                      .input_size = strlen(j->input),
                                      .timeout_usec = timeout_msec * 1000,
                                      .deadline_usec = deadline_usec,
                                      .output_size = by_socket                     ? 0
                                                     : warming && room > ROOM_WARM ? ROOM_WARM
                                                                                   : room,
                                      .key = keyed ? j->name : NULL,
                                      .flags = (by_socket ? 0 : WSD_SUBMIT_DIRECT) | more_flags};
    if (wsd_client_submit(client, &submit, &own, &j->call) < 0) {
        snprintf(last_error, sizeof(last_error), "%s", wsd_client_error(client));
        free(j);
        return false;
    }
    n_begun++;
    n_open++;
    newest = j;
    if (cancels && j->number % cancels == 0)
        wsd_call_cancel(j->call);
    if (frees && j->number % frees == 0) {
        wsd_call_free(j->call);
        newest = NULL;
        n_open--;
        n_told++; /* its end is not told */
        j->freed = true;
        j->next = freed;
        freed = j;
    }
    return true;
}

/* Whatever becomes of it. */
static void call_beside(void)
{
    const char *const ok[] = {"ok"};
    const struct wsd_call_request q = {.size = sizeof(q),
                                       .plugin = plugin,
                                       .function = "again",
                                       .args = ok,
                                       .n_args = 1,
                                       .deadline_usec = beside_usec};
    struct wsd_call_result r = {.size = sizeof(r)};

    wsd_client_flush(client);
    (void)wsd_call(client, &q, &r);
}

static void turn(void)
{
    struct epoll_event events[8];

    if (beside_usec && !warming)
        call_beside();

    if (blocking) {
        (void)wsd_client_wait(client, 1000000);
        return;
    }
    epoll_wait(loop.epoll_fd, events, 8, wsd_epoll_prepare(&loop, 1000));
    wsd_epoll_process(&loop);
}

/* In the child, wsd and the parent notice nothing. */
static void fork_one(void)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        alarm(20);
        if (wsd_client_process(client) != -ECHILD)
            _exit(1);
        if (n_begun / forks % 2)
            wsd_client_free(client);
        _exit(0);
    }
    n_wrong += waitpid(pid, &status, 0) != pid || status != 0;
}

/* As a program does that becomes a daemon. */
static void move_to_child(void)
{
    pid_t pid = fork();
    int status;

    if (pid != 0) {
        waitpid(pid, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    alarm(60);
    wsd_epoll_detach(&loop); /* -ECHILD: it only forgets */
    if (wsd_client_adopt(client) < 0 || wsd_epoll_attach(&loop, epoll_create1(EPOLL_CLOEXEC), client) < 0)
        _exit(2);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void warm_up(void)
{
    static const char *const ok[] = {"ok"};
    double until = now() + 30;

    for (warming = true; n_direct < 100 && now() < until;) {
        submit_one(ok, 1);
        while (n_open)
            turn();
    }
    warming = false;
    n_begun = n_told = n_direct = n_errors = n_late = n_lost = n_unrun = 0;
    memset(by_state, 0, sizeof(by_state));
    *last_error = 0;
}

int main(int argc, char **argv)
{
    const struct wsd_open how = {.size = sizeof(how), .flags = WSD_OPEN_AGAIN};
    char *colon;

    for (int o; (o = getopt(argc, argv, "+n:a:r:swobc:f:i:m:F:A:d:t:u:y:gGkL:")) != -1;)
        switch (o) {
        case 'n':
            n_calls = strtoul(optarg, NULL, 0);
            break;
        case 'a':
            ahead = strtoul(optarg, NULL, 0);
            break;
        case 'r':
            room = strtoul(optarg, NULL, 0);
            break;
        case 's':
            by_socket = true;
            break;
        case 'w':
            warm = true;
            break;
        case 'o':
            by_callback = true;
            break;
        case 'b':
            blocking = true;
            break;
        case 'c':
            cancels = strtoul(optarg, NULL, 0);
            break;
        case 'f':
            frees = strtoul(optarg, NULL, 0);
            break;
        case 'i':
            nests = strtoul(optarg, NULL, 0);
            break;
        case 'm':
            each = strtoul(optarg, NULL, 0);
            break;
        case 'F':
            forks = strtoul(optarg, NULL, 0);
            break;
        case 'A':
            adopts = strtoul(optarg, NULL, 0);
            break;
        case 'd':
            deadline_usec = strtoul(optarg, NULL, 0);
            break;
        case 't':
            timeout_msec = strtoul(optarg, NULL, 0);
            break;
        case 'u':
            enough = optarg;
            break;
        case 'g':
            more_flags |= WSD_SUBMIT_AGAIN;
            break;
        case 'G':
            more_flags |= WSD_SUBMIT_TWICE;
            break;
        case 'k':
            keyed = true;
            more_flags |= WSD_SUBMIT_DURABLE;
            break;
        case 'L':
            ledger = optarg;
            break;
        case 'y':
            beside_usec = strtoul(optarg, NULL, 0);
            break;
        default:
            return 64;
        }
    if (optind == argc || !(colon = strchr(argv[optind], ':')))
        return 64;
    *colon = 0;
    plugin = argv[optind];
    function = colon + 1;
    arguments = (const char *const *)(argv + optind + 1);
    n_arguments = (size_t)(argc - optind - 1);
    if (wsd_client_open_with(&client, &how) < 0 || wsd_epoll_attach(&loop, epoll_create1(EPOLL_CLOEXEC), client) < 0)
        return 69;
    while (!wsd_client_connected(client))
        turn();
    if (warm)
        warm_up();
    double begun = now();
    while (n_told < n_calls || !is_enough()) {
        while (n_open < ahead && (n_begun < n_calls || !is_enough()))
            if (!submit_one(arguments, (n_begun + 1) % each ? 0 : n_arguments))
                break;
        if (forks && n_begun / forks > n_forked) {
            fork_one();
            n_forked++;
        }
        if (adopts && n_begun >= adopts) {
            move_to_child();
            adopts = 0;
        }
        turn();
    }
    double took = now() - begun;
    while (wsd_client_open_calls(client) && !frees)
        turn();
    printf("direct=%lu succeeded=%lu failed=%lu cancelled=%lu timed-out=%lu crashed=%lu interrupted=%lu errors=%lu "
           "lost=%lu unrun=%lu too-large=%lu late=%lu wrong=%lu twice=%lu told=%lu begun=%lu \n%s\n",
           n_direct, by_state[WSD_JOB_SUCCEEDED], by_state[WSD_JOB_FAILED], by_state[WSD_JOB_CANCELLED],
           by_state[WSD_JOB_TIMED_OUT], by_state[WSD_JOB_CRASHED], by_state[WSD_JOB_INTERRUPTED], n_errors, n_lost,
           n_unrun, n_large, n_late, n_wrong, n_twice, n_told, n_begun, last_error);
    fprintf(stderr, "%.3f us a job\n", took * 1e6 / (double)n_begun);
    wsd_epoll_detach(&loop);
    wsd_client_free(client);
    for (struct job *j; (j = freed); free(j))
        freed = j->next;
    return n_wrong || n_twice || n_told != n_begun;
}
