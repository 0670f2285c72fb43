/* SPDX-License-Identifier: Apache-2.0
 *
 * fickle.c: test plugin for brief jobs. The first word of its input says what it does:
 *   (none of these)  gives the input back, and each argument behind a `|`
 *   fail N           ends with that status
 *   crash            ends the process
 *   say TEXT         a message, and output
 *   progress         tells of some, and output
 *   status TEXT      ends well, and with that
 *   big N            N bytes of output, those of pattern()
 *   reserve N        room for N bytes at once, of which it uses four
 *   flush            output, which is flushed, and more
 *   open PATH        the bytes of that file
 *   hang [PATH]      until it is cancelled; PATH gets the process id first
 *   meet N, met N    the first one waits for the other one
 *   spawn            tasks, which other workers may run
 *   late             takes two milliseconds
 *   id               its own
 *   rest             fails where anything lies behind its input, up to the next place for one */
#include <wsd/plugin.h>
#include <wsd/task.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MEETINGS 65536u

static atomic_uchar met[MEETINGS];

WSD_TASK_1(long, fib, int, n)
{
    if (n < 2)
        return n;
    WSD_SPAWN(fib, n - 1);
    long b = WSD_CALL(fib, n - 2);
    return WSD_SYNC(fib) + b;
}

static void rest(void)
{
    const struct timespec shortly = {.tv_nsec = 100000};

    nanosleep(&shortly, NULL);
}

static int fail(struct wsd_job *job, struct wsd_worker *self, const char *rest_of_it)
{
    int status = atoi(rest_of_it);

    return wsd_job_fail(job, status, "failed with %d", status);
}

static int crash(struct wsd_job *job, struct wsd_worker *self, const char *rest_of_it)
{
    abort();
}

static int say(struct wsd_job *job, struct wsd_worker *self, const char *text)
{
    wsd_job_log(job, WSD_LOG_WARNING, "%s", text);
    return wsd_job_print(job, "said") < 0;
}

static int progress(struct wsd_job *job, struct wsd_worker *self, const char *rest_of_it)
{
    wsd_job_progress(job, 1, 2);
    return wsd_job_print(job, "half") < 0;
}

static int status(struct wsd_job *job, struct wsd_worker *self, const char *text)
{
    wsd_job_status(job, "%s", text);
    return 0;
}

/* As bundle.c has it. */
static char pattern(size_t i)
{
    return (char)('a' + i % 23);
}

static int big(struct wsd_job *job, struct wsd_worker *self, const char *number)
{
    size_t size = strtoull(number, NULL, 10);
    char bytes[999];

    for (size_t done = 0, n; done < size; done += n) {
        n = size - done < sizeof(bytes) ? size - done : sizeof(bytes);
        for (size_t i = 0; i < n; i++)
            bytes[i] = pattern(done + i);
        if (wsd_job_write(job, bytes, n) < 0)
            return 1;
    }
    return 0;
}

static int reserve(struct wsd_job *job, struct wsd_worker *self, const char *number)
{
    size_t want = strtoull(number, NULL, 10), size;
    char *room = wsd_job_reserve(job, want, &size);

    if (!room || size < want)
        return wsd_job_fail(job, 1, "no room for %zu bytes", want);
    memset(room, '-', size);
    memcpy(room, "kept", 4);
    return wsd_job_commit(job, 4) < 0;
}

static int flush(struct wsd_job *job, struct wsd_worker *self, const char *rest_of_it)
{
    return wsd_job_print(job, "before") < 0 || wsd_job_flush(job) < 0 || wsd_job_print(job, "after") < 0;
}

static int open_file(struct wsd_job *job, struct wsd_worker *self, const char *path)
{
    char bytes[4096];
    int fd = wsd_job_open(job, path);

    if (fd < 0)
        return wsd_job_fail(job, 1, "%s: %s", path, strerror(-fd));
    ssize_t n = read(fd, bytes, sizeof(bytes));
    close(fd);
    return n < 0 || wsd_job_write(job, bytes, (size_t)n) < 0;
}

/* Writes the process id to the file. The file appears complete, by a rename. */
static void tell(const char *path)
{
    char part[300];

    snprintf(part, sizeof(part), "%s.part", path);
    FILE *f = fopen(part, "we");
    if (!f)
        return;
    fprintf(f, "%d\n", (int)getpid());
    fclose(f);
    rename(part, path);
}

static int hang(struct wsd_job *job, struct wsd_worker *self, const char *path)
{
    if (*path)
        tell(path);
    while (!wsd_job_cancelled(job))
        rest();
    return wsd_job_fail(job, 1, "cancelled");
}

static int meet(struct wsd_job *job, struct wsd_worker *self, const char *number)
{
    while (!atomic_exchange(&met[strtoul(number, NULL, 10) % MEETINGS], 0)) {
        if (wsd_job_cancelled(job))
            return wsd_job_fail(job, 1, "cancelled");
        rest();
    }
    return wsd_job_print(job, "met") < 0;
}

static int meets(struct wsd_job *job, struct wsd_worker *self, const char *number)
{
    atomic_store(&met[strtoul(number, NULL, 10) % MEETINGS], 1);
    return wsd_job_print(job, "there") < 0;
}

static int spawn(struct wsd_job *job, struct wsd_worker *self, const char *rest_of_it)
{
    return wsd_job_print(job, "%ld", WSD_CALL(fib, 15)) < 0;
}

static int late(struct wsd_job *job, struct wsd_worker *self, const char *rest_of_it)
{
    for (int i = 0; i < 20; i++)
        rest();
    return 0;
}

static int id(struct wsd_job *job, struct wsd_worker *self, const char *rest_of_it)
{
    return wsd_job_write(job, job->id, sizeof(job->id)) < 0;
}

static int look_behind(struct wsd_job *job, struct wsd_worker *self, const char *rest_of_it)
{
    const char *bytes = job->input;

    for (size_t i = job->input_size; i % 16; i++)
        if (bytes[i])
            return wsd_job_fail(job, 1, "byte %zu behind an input of %zu is %d", i, job->input_size, bytes[i]);
    return 0;
}

static const struct word {
    const char *word;
    int (*run)(struct wsd_job *job, struct wsd_worker *self, const char *rest_of_it);
} words[] = {
    {"fail", fail},      {"crash", crash}, {"say", say},          {"progress", progress},
    {"status", status},  {"big", big},     {"reserve", reserve},  {"flush", flush},
    {"open", open_file}, {"hang", hang},   {"meet", meet},        {"met", meets},
    {"spawn", spawn},    {"id", id},       {"rest", look_behind}, {"late", late},
};

static int give_back(struct wsd_job *job)
{
    if (job->input_size && wsd_job_write(job, job->input, job->input_size) < 0)
        return 1;
    for (uint32_t i = 1; i < job->argc; i++)
        if (wsd_job_print(job, "|%s", job->argv[i]) < 0)
            return 1;
    return 0;
}

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    char text[256], *behind;
    size_t n = job->input_size < sizeof(text) ? job->input_size : 0;

    if (!n || *(const char *)job->input < 'a')
        return give_back(job);
    memcpy(text, job->input, n);
    text[n] = 0;
    behind = text + strcspn(text, " ");
    if (*behind)
        *behind++ = 0;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].word, text) == 0)
            return words[i].run(job, self, behind);
    return give_back(job);
}

static const struct wsd_function functions[] = {
    {.name = "again", .help = "may run twice", .flags = WSD_FN_IDEMPOTENT, .run = run},
    {.name = "once", .help = "may not", .run = run},
};
WSD_PLUGIN(.n_functions = 2, .functions = functions, .name = "fickle", .version = "1",
           .help = "brief, unless told otherwise");
