/* shapes.c: one function for each form. Numbers come as arguments, but for pipeline, which reads lines. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <wsd/forms.h>
#include <wsd/future.h>
#include <wsd/plugin.h>

/* The arguments as numbers; the caller frees them. */
static long *numbers(const struct wsd_job *job)
{
    long *n = calloc(job->argc, sizeof(*n));

    for (uint32_t i = 1; n && i < job->argc; i++)
        n[i - 1] = strtol(job->argv[i], NULL, 10);
    return n;
}

/* Prints what is in n, frees it, and ends the job. */
static int answer(struct wsd_job *job, int error, long *n, uint32_t count)
{
    if (!n || error == -ENOMEM)
        error = wsd_job_fail(job, 1, "out of memory");
    else if (error)
        error = wsd_job_fail(job, 1, "stopped with %d", error);
    for (uint32_t i = 0; !error && i < count; i++)
        error = wsd_job_print(job, "%ld%c", n[i], i + 1 == count ? '\n' : ' ') ? 1 : 0;
    free(n);
    return error;
}

/* --- group: children that end together, and stop one another --- */

static int square(struct wsd_worker *self, void *arg)
{
    long *n = arg;

    if (*n < 0)
        return 33; /* the group's error: children that have not begun are skipped */
    *n *= *n;
    return 0;
}

static int group(struct wsd_job *job, struct wsd_worker *self)
{
    long *n = numbers(job);
    struct wsd_group all;

    wsd_group_begin(self, &all, NULL);
    for (uint32_t i = 0; n && i + 1 < job->argc; i++)
        wsd_group_spawn(self, &all, square, &n[i]);
    return answer(job, wsd_group_end(self, &all), n, job->argc - 1);
}

/* --- sort and scan --- */

static int compare(const void *a, const void *b, void *arg)
{
    const long *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static int sort(struct wsd_job *job, struct wsd_worker *self)
{
    long *n = numbers(job);
    int error = n ? wsd_sort(self, NULL, n, job->argc - 1, sizeof(*n), compare, NULL) : 0;

    return answer(job, error, n, job->argc - 1);
}

static int add(void *left, const void *right, void *arg)
{
    *(long *)left += *(const long *)right;
    return wsd_job_cancelled(arg) ? -ECANCELED : 0; /* the job's cancel stops a form where a function says so */
}

static int scan(struct wsd_job *job, struct wsd_worker *self)
{
    long *n = numbers(job);
    const struct wsd_scan_args sums = {.in = n, .out = n, .count = job->argc - 1, .size = sizeof(*n), .combine = add, .arg = job};

    return answer(job, n ? wsd_scan(self, NULL, &sums) : 0, n, job->argc - 1);
}

/* --- future: values that wait for one another in any order --- */

static int half(struct wsd_worker *self, void *arg, void **ret_value)
{
    long *n = arg;

    if (*n % 2)
        return 33; /* the waiter gets that */
    *n /= 2;
    *ret_value = n;
    return 0;
}

static int future(struct wsd_job *job, struct wsd_worker *self)
{
    long *n = numbers(job), sum = 0;
    struct wsd_future halves[16];
    uint32_t count = job->argc - 1 < 16 ? job->argc - 1 : 16;
    int error = 0;

    for (uint32_t i = 0; n && i < count; i++) {
        wsd_future_begin(self, &halves[i]);
        wsd_future_start(self, &halves[i], half, &n[i]);
    }
    for (uint32_t i = 0; n && i < count; i++) { /* each one, also after an error: it must not run on */
        void *value;
        int r = wsd_future_wait(self, &halves[i], &value);

        if (r)
            error = error ? error : r;
        else
            sum += *(long *)value;
    }
    if (n)
        n[0] = sum;
    return answer(job, error, n, 1);
}

/* --- pipeline: lines are read in order, turned round by any worker, and written in order --- */

struct lines {
    struct wsd_job *job;
    const char *at, *end;
};

static int take(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct lines *l = arg;

    if (l->at == l->end)
        return 0; /* no item: there are no more */
    if (wsd_job_cancelled(l->job))
        return -ECANCELED;

    const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
    size_t size = (size_t)((newline ? newline : l->end) - l->at);

    char *text = malloc(size + 1);

    if (!text)
        return -ENOMEM;
    memcpy(text, l->at, size);
    text[size] = 0;
    *item = text;
    l->at += size + (newline != NULL);
    return 0;
}

static int turn(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    char *text = *item;

    for (size_t i = 0, n = strlen(text); i < n / 2; i++) {
        char c = text[i];

        text[i] = text[n - 1 - i];
        text[n - 1 - i] = c;
    }
    return 0;
}

static int put(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct lines *l = arg;
    int r = wsd_job_print(l->job, "%s\n", (char *)*item);

    free(*item);
    *item = NULL;
    return r;
}

static void drop(void *item, uint32_t stage, void *arg)
{
    free(item);
}

static int pipeline(struct wsd_job *job, struct wsd_worker *self)
{
    struct lines l = {.job = job, .at = job->input, .end = (const char *)job->input + job->input_size};
    const struct wsd_stage stages[] = {
        {.run = take, .arg = &l, .kind = WSD_STAGE_ORDERED},
        {.run = turn, .kind = WSD_STAGE_PARALLEL},
        {.run = put, .arg = &l, .kind = WSD_STAGE_ORDERED},
    };
    int error = job->input ? wsd_pipeline(self, NULL, stages, 3, 0, drop, NULL) : 0;

    return error ? wsd_job_fail(job, 1, "stopped with %d", error) : 0;
}

static const struct wsd_function functions[] = {
    {.name = "group", .help = "N...: their squares", .run = group},
    {.name = "sort", .help = "N...: in order", .run = sort},
    {.name = "scan", .help = "N...: running sums", .run = scan},
    {.name = "future", .help = "N...: the sum of their halves, of up to 16", .run = future},
    {.name = "pipeline", .help = "each line of the input, backwards", .run = pipeline},
};

WSD_PLUGIN(.n_functions = 5, .functions = functions, .name = "shapes", .version = "1", .help = "an example of each form");
