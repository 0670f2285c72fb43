/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c: random operations on a real wsd, compared with a simple model of a job.
 *
 * Usage:
 *     model STEPS SEED DIRECTORY WSD [ARGUMENT...]
 *         Starts wsd with these arguments and does STEPS operations. WSD_SOCKET is its socket.
 *         Submit has priorities, retries, timeouts, tags, jobs after others, durable jobs, and input that comes later.
 *         Release lets a running job end as it is told. Other operations are input, cancel, await, pause, resume and
 *         limit, and requeue and drop of dead jobs. The executor is killed with -9, and so is wsd; a new one follows.
 *
 *         After each operation the state of every open job, and of jobs that have just ended, is that of the model. As
 *         many jobs run as may: no worker is idle while a job could run, and no limit is passed. Exits 0 where that was
 *         so. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <wsd/client.h>

#include "tests/support/children.h"

#define WORKERS 3u
#define OPEN    24u   /* jobs at a time */
#define JOBS    4096u /* records; the oldest is used again */
#define EDGES   3u
#define GATES   4u

enum model { NONE, HELD, DELAYED, READY, ENDED };

struct job {
    enum model m;
    enum wsd_job_state end; /* ENDED */
    struct wsd_id id;
    bool once, durable, timed, quick, fed, streamed, dead;
    unsigned tags, retries, retried, attempts; /* attempts: before this try */
    struct job *on[EDGES];
    bool any[EDGES], met[EDGES]; /* met: what it waited for has ended, and runs again, or was dropped */
    unsigned n_on, number;
    bool bad;              /* one that was met has not ended well */
    struct wsd_call *call; /* while its input is not whole */
    bool maybe;            /* wsd was killed while it may have been marked: interrupted, or not */
    bool unsure;           /* that may have cost a retry: its pause is too short to be seen */
    enum wsd_job_state seen;
    unsigned seen_attempts;
    uint64_t seen_run_usec;
};

static const struct gate {
    const char *function, *tag;
} gates[GATES] = {{"again", NULL}, {"once", NULL}, {NULL, "x"}, {NULL, "y"}};

static struct job jobs[JOBS];
static struct {
    bool paused;
    unsigned limit;
} closed[GATES];
static struct wsd_client *client;
static const char *directory;
static char **command;
static pid_t wsd;
static unsigned number, step;
static uint64_t state;
static const char *doing = "";

static unsigned dice(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 33) % n);
}

/* By the model, and by wsd when it was asked last. */
static void show(const struct job *j)
{
    static const char *const words[] = {[NONE] = "new", [HELD] = "held", [DELAYED] = "delayed", [READY] = "ready"};
    char id[WSD_ID_TEXT];

    wsd_id_text(&j->id, id);
    fprintf(
        stderr, "model: job %u %s %s%s%s%s%s%s%s, tags %u, after %u, retries %u of %u, tries %u and %u: ", j->number,
        id, j->once ? "once" : "again", j->durable ? " durable" : "", j->timed ? " timed" : "",
        j->quick ? " quick" : "", j->streamed ? " streamed" : "", j->maybe ? " maybe" : "", j->unsure ? " unsure" : "",
        j->tags, j->n_on, j->retried, j->retries, j->attempts, j->seen_attempts - j->attempts);
    fprintf(stderr, "model %s, wsd %s for %llu us\n", j->m == ENDED ? wsd_job_state_name(j->end) : words[j->m],
            wsd_job_state_name(j->seen), (unsigned long long)j->seen_run_usec);
}

/* Shows the one that it is about, all that are open, and the gates. */
static void die(const struct job *about, const char *what)
{
    fprintf(stderr, "model: step %u, %s: %s; %s\n", step, doing, what, client ? wsd_client_error(client) : "");
    if (about)
        show(about);
    fprintf(stderr, "model: open:\n");
    for (const struct job *j = jobs; j < jobs + JOBS; j++)
        if (j->m != NONE && j->m != ENDED && j != about)
            show(j);
    for (unsigned g = 0; g < GATES; g++)
        fprintf(stderr, "model: %s: limit %u%s\n", gates[g].function ? gates[g].function : gates[g].tag,
                closed[g].limit, closed[g].paused ? ", paused" : "");
    if (wsd > 0)
        kill(wsd, SIGKILL);
    exit(1);
}

static void pause_msec(long n)
{
    nanosleep(&(struct timespec){.tv_nsec = n * 1000000}, NULL);
}

/* --- the model ---------------------------------------------------------------------------------------------------- */

static void end(struct job *j, enum wsd_job_state how);

static bool passes(const struct job *j, unsigned g)
{
    return g < 2 ? j->once == (g == 1) : j->tags >> (g - 2) & 1;
}

/* What it is, from what it waits for. */
static void look(struct job *j)
{
    bool waits = false, bad = j->bad;

    if (j->m != HELD || !j->fed)
        return;
    for (unsigned i = 0; i < j->n_on; i++) {
        const struct job *on = j->on[i];

        if (j->met[i])
            continue;
        bad |= on->m == ENDED && on->end != WSD_JOB_SUCCEEDED && !j->any[i];
        waits |= on->m != ENDED;
    }
    if (bad)
        end(j, WSD_JOB_CANCELLED);
    else if (!waits)
        j->m = READY;
}

/* It has ended badly, and is to be something else under its id: those that were to run after it have met its end. */
static void met(const struct job *on)
{
    for (struct job *j = jobs; j < jobs + JOBS; j++)
        for (unsigned i = 0; j->m == HELD && i < j->n_on; i++)
            if (j->on[i] == on && !j->met[i]) {
                j->met[i] = true;
                j->bad |= !j->any[i];
            }
}

static void end(struct job *j, enum wsd_job_state how)
{
    bool counts = how == WSD_JOB_FAILED || how == WSD_JOB_TIMED_OUT || how == WSD_JOB_INTERRUPTED;

    j->maybe = false;
    if (counts && j->retried < j->retries) {
        j->retried++;
        j->attempts = j->seen_attempts;
        j->m = j->quick ? READY : DELAYED;
        return;
    }
    j->m = ENDED;
    j->end = how;
    j->dead = j->durable && j->retries && counts;
    for (struct job *k = jobs; k < jobs + JOBS; k++)
        for (unsigned i = 0; i < k->n_on; i++)
            if (k->m == HELD && k->on[i] == j) {
                look(k);
                break;
            }
}

/* --- against wsd -------------------------------------------------------------------------------------------------- */

static void see(struct job *j)
{
    struct wsd_job_info info = {.size = sizeof(info)};
    int r = wsd_client_job(client, &j->id, &info);

    if (r < 0)
        die(j, "it is not known");
    j->seen = info.state;
    j->seen_attempts = info.attempts;
    j->seen_run_usec = info.run_usec;
}

/* Whether it is as it should be; where wsd may choose, the model follows. */
static bool agrees(struct job *j)
{
    see(j);
    bool timed_out = j->m == READY && j->timed && j->seen == WSD_JOB_TIMED_OUT;
    bool interrupted = j->m == READY && (j->maybe || j->unsure) && j->seen == WSD_JOB_INTERRUPTED;
    bool pauses = j->m == READY && j->seen == WSD_JOB_DELAYED && !j->quick;

    /* the try that was told to fail, and no other after it: the one that it would have had went unseen */
    bool failed = j->m == READY && j->unsure && j->seen == WSD_JOB_FAILED && j->seen_attempts == j->attempts;

    if (timed_out || interrupted || failed)
        j->retried = j->retries; /* what is told as the end was the last try */
    if (timed_out || (pauses && j->timed))
        end(j, WSD_JOB_TIMED_OUT);
    else if (interrupted || (pauses && j->maybe))
        end(j, WSD_JOB_INTERRUPTED);
    else if (failed)
        end(j, WSD_JOB_FAILED);
    switch (j->m) {
    case HELD:
        return j->seen == WSD_JOB_HELD;
    case DELAYED:
        return j->seen == WSD_JOB_DELAYED;
    case READY:
        /* not the try before this one, which has been told to end and has not heard it yet */
        return j->seen == WSD_JOB_RUNNING ? j->seen_attempts > j->attempts : j->seen == WSD_JOB_QUEUED;
    default:
        return j->seen == j->end;
    }
}

/* Returns whether as many jobs run as may, and no more. A job with input in pieces gets it by a descriptor. On a busy
 * machine the descriptor may come later than the job. While the job waits for it a spare worker takes its place, and a
 * job that the spare has begun runs on beside it. */
static bool are_busy(void)
{
    unsigned running = 0, spares = 0, inside[GATES] = {0};
    bool could = false;

    for (const struct job *j = jobs; j < jobs + JOBS; j++)
        if (j->m == READY && j->seen == WSD_JOB_RUNNING) {
            running++;
            spares += j->streamed;
            for (unsigned g = 0; g < GATES; g++)
                inside[g] += passes(j, g);
        }
    for (const struct job *j = jobs; j < jobs + JOBS; j++) {
        bool open = j->m == READY && j->seen == WSD_JOB_QUEUED;

        for (unsigned g = 0; g < GATES; g++)
            open = open && !(passes(j, g) && (closed[g].paused || (closed[g].limit && inside[g] >= closed[g].limit)));
        could |= open;
    }
    return running <= WORKERS + spares && (running >= WORKERS || !could);
}

/* Each is looked at, whatever the others are: records are used again, so one may come before those that it is to run
 * after, and is what becomes of them. */
static bool settled(struct job **ret_bad)
{
    *ret_bad = NULL;
    for (struct job *j = jobs; j < jobs + JOBS; j++)
        if ((j->m != NONE && j->m != ENDED) || (j->m == ENDED && j->number + OPEN * 4 > number && j->seen != j->end))
            if (!agrees(j) && !*ret_bad)
                *ret_bad = j;
    return !*ret_bad && are_busy();
}

static void settle(void)
{
    struct timespec t;
    struct job *bad;
    time_t until;

    clock_gettime(CLOCK_MONOTONIC, &t);
    until = t.tv_sec + 20; /* far more than anything takes */
    while (!settled(&bad)) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        if (t.tv_sec > until)
            die(bad, bad ? "is something else" : "a worker is idle, or a limit is passed");
        pause_msec(1);
    }
}

/* --- wsd ---------------------------------------------------------------------------------------------------------- */

static void start(void)
{
    wsd = fork();
    if (wsd == 0) {
        execv(command[0], command);
        _exit(127);
    }
    for (int i = 0; wsd_client_open(&client, NULL, 0) < 0; i++) {
        int status = 0;

        client = wsd_client_free(client);
        if (waitpid(wsd, &status, WNOHANG) == wsd)
            fprintf(stderr, "model: wsd ended with status %#x\n", (unsigned)status);
        if (i > 3000 || status)
            die(NULL, "wsd does not start");
        pause_msec(10);
    }
}

static bool is_stopped(pid_t pid)
{
    char path[320], how = 'T';
    bool stopped = true;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (const struct dirent *e; tasks && stopped && (e = readdir(tasks));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", (int)pid, e->d_name);
        FILE *f = fopen(path, "re");
        if (f && fscanf(f, "%*d %*s %c", &how) == 1)
            stopped = how == 'T' || how == 'Z' || how == 'X';
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return stopped;
}

/* Stops the executors before it looks at the jobs: a job that runs out of time makes room for another at any moment.
 * Then it waits until wsd has noticed, since wsd shows the old runs until then. */
static void kill_executors(void)
{
    pid_t killed[OPEN], there[OPEN];
    unsigned n = children_of(wsd, killed, OPEN);

    for (unsigned i = 0; i < n; i++)
        for (kill(killed[i], SIGSTOP); !is_stopped(killed[i]);)
            pause_msec(1);
    for (struct job *j = jobs; j < jobs + JOBS; j++)
        if (j->m == READY)
            see(j);
    for (unsigned i = 0; i < n; i++)
        kill(killed[i], SIGKILL);
    for (bool gone = false; !gone; pause_msec(1)) {
        unsigned left = children_of(wsd, there, OPEN);

        gone = true;
        for (unsigned i = 0; i < left; i++)
            for (unsigned k = 0; k < n; k++)
                gone = gone && there[i] != killed[k];
    }
}

static void tell(const struct job *j, int status)
{
    char path[512], temporary[520];

    snprintf(path, sizeof(path), "%s/%u", directory, j->number);
    snprintf(temporary, sizeof(temporary), "%s.new", path);
    FILE *f = fopen(temporary, "we");
    if (!f || fprintf(f, "%d\n", status) < 0 || fclose(f) != 0 || rename(temporary, path) < 0)
        die(j, strerror(errno));
}

/* --- operations --------------------------------------------------------------------------------------------------- */

static struct job *pick(bool (*is)(const struct job *j))
{
    struct job *some[JOBS];
    unsigned n = 0;

    for (struct job *j = jobs; j < jobs + JOBS; j++)
        if (j->m != NONE && is(j))
            some[n++] = j;
    return n ? some[dice(n)] : NULL;
}

static bool is_open(const struct job *j)
{
    return j->m != ENDED;
}
static bool is_running(const struct job *j)
{
    return j->m == READY && j->seen == WSD_JOB_RUNNING && !j->timed;
}
static bool is_unfed(const struct job *j)
{
    return j->m == HELD && !j->fed;
}
static bool is_dead(const struct job *j)
{
    return j->m == ENDED && j->dead;
}
static bool is_recent(const struct job *j)
{
    return j->number + OPEN * 4 > number && (j->m != ENDED || j->end);
}
static bool is_recent_durable(const struct job *j)
{
    return is_recent(j) && j->durable;
}

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    ((struct job *)userdata)->id = *id;
    ((struct job *)userdata)->m = HELD;
}

/* No later frame would wake us: the job is as good as lost. */
static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    const struct job *j = userdata;

    if (error && j->m == NONE)
        die(j, text);
}

static void submit(void)
{
    const struct wsd_callbacks callbacks = {
        .size = sizeof(callbacks), .accepted = on_accepted, .done = on_done, .userdata = &jobs[number % JOBS]};
    struct job *j = &jobs[number % JOBS];
    const char *tags[2], *arg;
    struct wsd_id after[EDGES], any[EDGES];
    char path[512];
    struct wsd_submit s = {.size = sizeof(s),
                           .plugin = "puppet",
                           .args = &arg,
                           .n_args = 1,
                           .tags = tags,
                           .after = after,
                           .after_any = any,
                           .flags = WSD_SUBMIT_DETACH};
    struct wsd_call *call;
    unsigned open = 0;

    for (const struct job *k = jobs; k < jobs + JOBS; k++)
        open += k->m != NONE && k->m != ENDED;
    if (open >= OPEN || (j->m != NONE && j->m != ENDED))
        return;
    *j = (struct job){.number = number,
                      .once = dice(2),
                      .durable = dice(3) == 0,
                      .timed = dice(10) == 0,
                      .quick = dice(2),
                      .tags = dice(4),
                      .retries = dice(4) == 0 ? 1 + dice(2) : 0,
                      .fed = true};
    for (unsigned n = dice(2) ? dice(EDGES + 1) : 0; n > 0; n--) {
        struct job *on = pick(j->durable ? is_recent_durable : is_recent);

        if (!on || on == j)
            continue;
        j->on[j->n_on] = on;
        j->any[j->n_on] = dice(2);
        if (j->any[j->n_on])
            any[s.n_after_any++] = on->id;
        else
            after[s.n_after++] = on->id;
        j->n_on++;
    }
    if (!j->durable && dice(6) == 0) {
        j->fed = false;
        j->streamed = true;
        s.flags |= WSD_SUBMIT_STREAM;
    }
    for (unsigned i = 0; i < 2; i++)
        if (j->tags >> i & 1)
            tags[s.n_tags++] = gates[2 + i].tag;
    snprintf(path, sizeof(path), "%s/%u", directory, number++);
    arg = path;
    s.function = j->once ? "once" : "again";
    s.priority = (int)dice(3) - 1;
    s.timeout_usec = j->timed ? 20000 : 0;
    s.retries = j->retries;
    s.retry_usec = j->quick ? 1000 : 3600ull * 1000000;
    s.flags |= j->durable ? WSD_SUBMIT_DURABLE : 0;
    if (wsd_client_submit(client, &s, &callbacks, &call) < 0)
        die(j, "not submitted");
    while (j->m == NONE)
        if (wsd_client_wait(client, 60000000) < 0)
            die(j, "not accepted");
    if (j->fed)
        wsd_call_free(call);
    else
        j->call = call;
    look(j);
}

static void restart(void)
{
    kill(wsd, SIGKILL);
    waitpid(wsd, NULL, 0);
    client = wsd_client_free(client); /* and the calls of jobs without input */
    memset(closed, 0, sizeof(closed));
    for (struct job *j = jobs; j < jobs + JOBS; j++)
        if (!j->durable)
            *j = (struct job){.m = NONE};
    start();
    for (struct job *j = jobs; j < jobs + JOBS; j++)
        /* which try of a timed one that was is not known */
        if (j->m == READY && j->once && !j->timed && j->seen == WSD_JOB_RUNNING)
            end(j, WSD_JOB_INTERRUPTED);
        else if (j->m == READY) {
            j->maybe = j->once || j->timed;
            j->unsure = j->unsure || (j->maybe && j->quick && j->retries);
        }
}

static void kill_executor(void)
{
    kill_executors();
    for (struct job *j = jobs; j < jobs + JOBS; j++)
        if (j->m == READY && j->timed)
            j->maybe = j->unsure = true; /* it may have run, or have ended */
        else if (j->m == READY && j->seen == WSD_JOB_RUNNING && (j->once || j->seen_attempts - j->attempts >= 3))
            end(j, WSD_JOB_INTERRUPTED);
}

static void gate(void)
{
    unsigned g = dice(GATES), limit = dice(3);
    enum wsd_gate_action action = dice(3) == 0       ? WSD_GATE_LIMIT
                                  : closed[g].paused ? WSD_GATE_RESUME
                                  : dice(4) == 0     ? WSD_GATE_PAUSE
                                                     : WSD_GATE_LIMIT;
    int r = gates[g].tag ? wsd_client_gate_tag(client, action, gates[g].tag, limit)
                         : wsd_client_gate(client, action, "puppet", gates[g].function, limit);

    if (r < 0 && r != -ENOENT)
        die(NULL, "gate");
    if (action == WSD_GATE_LIMIT)
        closed[g].limit = limit;
    else
        closed[g].paused = action == WSD_GATE_PAUSE;
}

static void act(void)
{
    const struct wsd_job_info *info;
    unsigned what = dice(100);
    struct wsd_call *call;
    struct job *j;

    if (what < 38) {
        doing = "submit";
        submit();
    } else if (what < 72) {
        doing = "release";
        if ((j = pick(is_running))) {
            unsigned bad = dice(3) == 0;

            tell(j, bad ? 9 : 0);
            end(j, bad ? WSD_JOB_FAILED : WSD_JOB_SUCCEEDED);
        }
    } else if (what < 80) {
        doing = "cancel";
        if ((j = pick(is_open))) {
            bool may_have_ended = j->timed || j->maybe; /* just before, by itself: then there is nothing to cancel */

            if (wsd_client_cancel(client, &j->id) < 0 && !may_have_ended)
                die(j, "not cancelled");
            see(j);
            if (may_have_ended) {
                while (j->seen < WSD_JOB_SUCCEEDED) {
                    pause_msec(1);
                    see(j);
                }
                j->retries = 0;
                end(j, j->seen);
            } else {
                end(j, WSD_JOB_CANCELLED);
            }
            j->call = wsd_call_free(j->call);
        }
    } else if (what < 86) {
        doing = "input";
        if ((j = pick(is_unfed))) {
            if (wsd_call_feed(j->call, "x", 1, true) != 1)
                die(j, "no input taken");
            j->fed = true;
            wsd_call_free(j->call);
            j->call = NULL;
            look(j);
        }
    } else if (what < 93) {
        doing = "gate";
        gate();
    } else if (what < 95) {
        doing = "await";
        if ((j = pick(is_recent)) && j->m == ENDED) {
            if (wsd_client_attach(client, &j->id, NULL, &call) < 0 || wsd_call_wait(call, 60000000, &info) < 0 ||
                info->state != j->end)
                die(j, "awaited");
            wsd_call_free(call);
        }
    } else if (what < 97) {
        doing = "dead";
        if ((j = pick(is_dead))) {
            bool again = dice(2);
            int r;

            while ((r = again ? wsd_client_dead_requeue(client, &j->id) : wsd_client_dead_drop(client, &j->id)) ==
                   -EAGAIN)
                pause_msec(1);
            if (r < 0)
                die(j, "not requeued or dropped");
            met(j);
            if (again) {
                j->m = READY;
                j->end = 0;
                j->dead = false;
                j->retried = j->attempts = j->n_on = 0;
            } else {
                j->m = NONE;
            }
        }
    } else if (what < 99) {
        doing = "kill of the executor";
        kill_executor();
    } else {
        doing = "kill of wsd";
        restart();
    }
}

int main(int argc, char **argv)
{
    unsigned steps = argc > 4 ? (unsigned)atoi(argv[1]) : 0;

    if (!steps)
        return 64;
    state = strtoull(argv[2], NULL, 10) * 2 + 1;
    directory = argv[3];
    command = argv + 4;
    number = 1;
    start();
    for (step = 1; step <= steps; step++) {
        act();
        settle();
    }
    printf("%u steps, %u jobs\n", steps, number - 1);
    wsd_client_free(client);
    kill(wsd, SIGKILL); /* a drain would wait for jobs that are never released */
    waitpid(wsd, NULL, 0);
    return 0;
}
