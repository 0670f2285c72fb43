/* SPDX-License-Identifier: Apache-2.0
 *
 * handle.c: one handle of the library. It does what the lines of stdin say, and answers each with one line:
 *
 *     open MSEC [USER]                   connects within that time, to act for that user: code=CODE
 *     again                              connects again
 *     deadline MSEC                      of all calls from now on; 0: none
 *     alarm MSEC                         the next line's wait is ended by a signal and its flag, so long after that line
 *     call MSEC FLAGS PLUGIN:FUNCTION [ARG...]        wsd_call() with that deadline
 *     calls N MSEC FLAGS PLUGIN:FUNCTION [ARG...]     wsd_calls(): the counts of codes
 *     warm PLUGIN:FUNCTION [ARG...]                   calls it until a call was direct (30 s)
 *     wait MSEC PLUGIN:FUNCTION [ARG...]              submits with that deadline, waits, frees
 *     map N MSEC PLUGIN:FUNCTION [ARG...]             wsd_map() with that deadline
 *     ping, list, stats
 *     free                               the handle
 *     begin PLUGIN:FUNCTION [ARG...]                  submits, and does not wait: until
 *     end                                             waits for that one, and frees it
 *     doom PLUGIN:FUNCTION [ARG...]                   submits; its end frees the handle, in whatever call that comes
 *     fork LINE                          a child does what the line says, and answers
 *     daemon                             a child takes over the handle, and reads the rest of stdin
 *     quit
 *
 * An answer has code=, exit=, usec= (how long it took) and error=, which is the rest of the line; that of a call also
 * state=, direct= and output=. Exits 0 at the end of stdin. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <wsd/client.h>

#define N_MAX    1024
#define ARGS_MAX 16
#define OUTPUT   2048

static struct wsd_client *client;
static struct wsd_call *begun_call;
static volatile sig_atomic_t flag;
static char *words[ARGS_MAX + 8];
static size_t n_words;
static uint64_t begun;

static uint64_t now_usec(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static int interrupted(void *userdata)
{
    return flag;
}

static void on_alarm(int number)
{
    flag = 1;
}

static uint64_t number(size_t i)
{
    return i < n_words ? strtoull(words[i], NULL, 10) : 0;
}

/* "PLUGIN:FUNCTION" in word i, with its arguments behind. */
static struct wsd_submit job(size_t i, uint64_t deadline_usec)
{
    static const char *args[ARGS_MAX];
    struct wsd_submit s = {.size = sizeof(s), .plugin = "", .args = args, .deadline_usec = deadline_usec};
    char *colon;

    if (i >= n_words)
        return s;
    s.plugin = words[i];
    colon = strrchr(words[i], ':');
    if (colon) {
        *colon = 0;
        s.function = colon + 1;
    }
    for (s.n_args = 0; i + 1 + s.n_args < n_words && s.n_args < ARGS_MAX; s.n_args++)
        args[s.n_args] = words[i + 1 + s.n_args];
    return s;
}

static void say(int code)
{
    printf("code=%d exit=%d usec=%" PRIu64 " error=%s\n", code, code ? wsd_client_exit(client) : 0, now_usec() - begun,
           code ? wsd_client_error(client) : "");
}

static struct wsd_call_request request(const struct wsd_submit *s, uint32_t flags, char output[OUTPUT])
{
    return (struct wsd_call_request){.size = sizeof(struct wsd_call_request),
                                     .plugin = s->plugin,
                                     .function = s->function,
                                     .args = s->args,
                                     .n_args = s->n_args,
                                     .output = output,
                                     .output_room = OUTPUT,
                                     .flags = flags,
                                     .deadline_usec = s->deadline_usec};
}

static void call(void)
{
    struct wsd_submit s = job(3, number(1) * 1000);
    char output[OUTPUT];
    struct wsd_call_request q = request(&s, (uint32_t)number(2), output);
    struct wsd_call_result r = {.size = sizeof(r), .code = 1};
    int code = wsd_call(client, &q, &r);

    output[r.output_size < OUTPUT ? r.output_size : OUTPUT - 1] = 0;
    output[strcspn(output, "\n")] = 0;
    printf("code=%d state=%s exit=%d direct=%d usec=%" PRIu64 " output=%s error=%s\n", code,
           r.state ? wsd_job_state_name(r.state) : "none", r.exit, r.direct, now_usec() - begun, output,
           client ? r.error : "the handle is freed");
}

static void calls(void)
{
    static struct wsd_call_request q[N_MAX];
    static struct wsd_call_result r[N_MAX];
    static char outputs[N_MAX][OUTPUT];
    size_t n = number(1) < N_MAX ? number(1) : N_MAX, ok = 0, late = 0, ended = 0, untouched = 0, direct = 0;
    struct wsd_submit s = job(4, number(2) * 1000);

    for (size_t i = 0; i < n; i++) {
        q[i] = request(&s, (uint32_t)number(3), outputs[i]);
        r[i] = (struct wsd_call_result){.size = sizeof(r[i]), .code = 1};
    }
    int code = wsd_calls(client, q, r, n);
    for (size_t i = 0; i < n; i++) {
        ok += r[i].code == 0 && r[i].state == WSD_JOB_SUCCEEDED;
        late += r[i].code == -ETIMEDOUT;
        ended += r[i].code == -EINTR;
        untouched += r[i].code && r[i].exit != 125;
        direct += r[i].direct;
    }
    printf("code=%d succeeded=%zu late=%zu interrupted=%zu untouched=%zu direct=%zu usec=%" PRIu64 " error=%s\n", code,
           ok, late, ended, untouched, direct, now_usec() - begun, code ? wsd_client_error(client) : "");
}

static void warm(void)
{
    struct wsd_submit s = job(1, 0);
    struct wsd_call_result r = {.size = sizeof(r)};
    char output[OUTPUT];
    int code = 0;

    while (code == 0 && !r.direct && now_usec() - begun < 30000000) {
        struct wsd_call_request q = request(&s, 0, output);

        code = wsd_call(client, &q, &r);
    }
    say(code ? code : r.direct ? 0 : -ENOENT);
}

static void await(void)
{
    struct wsd_submit s = job(2, number(1) * 1000);
    struct wsd_call *c;
    int code = wsd_client_submit(client, &s, NULL, &c);

    if (code == 0) {
        code = wsd_call_wait(c, UINT64_MAX, NULL);
        say(code);
        wsd_call_free(c);
    } else {
        say(code);
    }
}

static size_t n_told;

static int on_item(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t size,
                   const char *text, void *userdata)
{
    unsigned char *told = userdata;

    n_told += !told[index]++;
    return 0;
}

static void map(void)
{
    static struct wsd_item items[N_MAX];
    unsigned char told[N_MAX] = {0};
    size_t n = number(1) < N_MAX ? number(1) : N_MAX, twice = 0;
    struct wsd_submit s = job(3, number(2) * 1000);

    for (size_t i = 0; i < n; i++)
        items[i] = (struct wsd_item){.size = sizeof(items[i]), .args = s.args, .n_args = s.n_args};
    n_told = 0;
    int code = wsd_map(client, &s, WSD_BATCH_KEEP_GOING | WSD_BATCH_WAIT, items, n, on_item, told);
    for (size_t i = 0; i < n; i++)
        twice += told[i] > 1;
    printf("code=%d told=%zu twice=%zu usec=%" PRIu64 " error=%s\n", code, n_told, twice, now_usec() - begun,
           code ? wsd_client_error(client) : "");
}

static int on_job(const struct wsd_job_info *info, void *userdata)
{
    return 0;
}

static int on_counter(const char *name, uint64_t value, void *userdata)
{
    return 0;
}

static int open_handle(void)
{
    const struct wsd_open how = {.size = sizeof(how),
                                 .timeout_usec = number(1) * 1000,
                                 .interrupted = interrupted,
                                 .user = n_words > 2 ? words[2] : NULL};

    wsd_client_free(client);
    return wsd_client_open_with(&client, &how);
}

static int set_alarm(uint64_t msec)
{
    const struct itimerval t = {
        .it_value = {.tv_sec = (time_t)(msec / 1000), .tv_usec = (suseconds_t)(msec % 1000 * 1000)}};

    return setitimer(ITIMER_REAL, &t, NULL) < 0 ? -errno : 0;
}

static int begin(void)
{
    struct wsd_submit s = job(1, 0);
    int code = wsd_client_submit(client, &s, NULL, &begun_call);

    return code ? code : wsd_client_flush(client);
}

static void on_doom(struct wsd_call *of, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    client = wsd_client_free(client);
}

static int doom(void)
{
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_doom};
    struct wsd_submit s = job(1, 0);
    int code = wsd_client_submit(client, &s, &callbacks, NULL);

    return code ? code : wsd_client_flush(client);
}

static void end(void)
{
    const struct wsd_job_info *info = NULL;
    int code = wsd_call_wait(begun_call, UINT64_MAX, &info);

    printf("code=%d state=%s error=%s\n", code, info ? wsd_job_state_name(info->state) : "none",
           code ? wsd_client_error(client) : "");
    begun_call = wsd_call_free(begun_call);
}

static void obey(void);

/* A child obeys the rest of the line. */
static void fork_one(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        memmove(words, words + 1, --n_words * sizeof(*words));
        obey();
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

/* Goes on in a child. */
static void become_daemon(void)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        say(wsd_client_adopt(client));
        return;
    }
    waitpid(pid, &status, 0);
    _exit(status != 0);
}

static void obey(void)
{
    const char *what = words[0];

    if (strcmp(what, "call") == 0)
        call();
    else if (strcmp(what, "calls") == 0)
        calls();
    else if (strcmp(what, "warm") == 0)
        warm();
    else if (strcmp(what, "wait") == 0)
        await();
    else if (strcmp(what, "map") == 0)
        map();
    else if (strcmp(what, "open") == 0)
        say(open_handle());
    else if (strcmp(what, "again") == 0)
        say(wsd_client_reconnect(client, 0));
    else if (strcmp(what, "deadline") == 0)
        say(wsd_client_set_deadline(client, number(1) * 1000));
    else if (strcmp(what, "free") == 0)
        say((client = wsd_client_free(client)) ? -EINVAL : 0);
    else if (strcmp(what, "begin") == 0)
        say(begin());
    else if (strcmp(what, "end") == 0)
        end();
    else if (strcmp(what, "doom") == 0)
        say(doom());
    else if (strcmp(what, "fork") == 0)
        fork_one();
    else if (strcmp(what, "daemon") == 0)
        become_daemon();
    else if (strcmp(what, "ping") == 0)
        say(wsd_client_ping(client, NULL));
    else if (strcmp(what, "list") == 0)
        say(wsd_client_list(client, on_job, NULL));
    else if (strcmp(what, "stats") == 0)
        say(wsd_client_stats(client, on_counter, NULL));
    else
        printf("unknown: %s\n", what);
}

int main(void)
{
    const struct sigaction a = {.sa_handler = on_alarm};
    char line[4096], *rest;
    uint64_t alarm_msec = 0; /* of the next line */

    sigaction(SIGALRM, &a, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof(line), stdin)) {
        n_words = 0;
        for (char *w = strtok_r(line, " \n", &rest); w && n_words < ARGS_MAX + 8; w = strtok_r(NULL, " \n", &rest))
            words[n_words++] = w;
        if (n_words == 0 || strcmp(words[0], "quit") == 0)
            break;
        begun = now_usec();
        if (strcmp(words[0], "alarm") == 0) {
            alarm_msec = number(1);
            printf("code=0\n");
            continue;
        }
        set_alarm(alarm_msec);
        obey();
        set_alarm(0); /* nothing is left that would end the read of the next line */
        alarm_msec = 0;
        flag = 0;
    }
    wsd_client_free(client);
    return 0;
}
