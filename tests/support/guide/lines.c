/* lines.c: the longest line of the input, and its first byte that is not ASCII. */
#include <errno.h>
#include <string.h>
#include <wsd/forms.h>
#include <wsd/plugin.h>

#define PIECE (1 << 20)

/* What is known of a piece of text: its length up to the first newline, that of its longest whole line, its length
 * after the last newline. Where there is no newline, first and last are both its length. */
struct lines {
    bool newline;
    uint64_t first, longest, last;
};

static uint64_t max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* left becomes left and right, one behind the other. */
static int join(struct wsd_worker *self, struct wsd_group *group, void *left, void *right, void *arg)
{
    struct lines *l = left, *r = right;

    if (l->newline && r->newline)
        l->longest = max(max(l->longest, r->longest), l->last + r->first);
    else if (r->newline)
        *l = (struct lines){true, l->last + r->first, r->longest, r->last};
    else if (!l->newline)
        l->first += r->first;
    l->last = r->newline ? r->last : l->last + r->last;
    return 0;
}

static int measure(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *value,
                   void *arg)
{
    struct wsd_job *job = arg;

    while (begin < end) {
        const char *text = (const char *)job->input + begin, *newline = memchr(text, '\n', end - begin);
        uint64_t size = newline ? (uint64_t)(newline - text) : end - begin;
        struct lines line = {newline != NULL, size, 0, newline ? 0 : size};

        join(self, group, value, &line, NULL);
        begin += size + (newline != NULL);
    }
    return wsd_job_cancelled(job) ? ECANCELED : 0;
}

static int find_other(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg,
                      uint64_t *ret_index)
{
    struct wsd_job *job = arg;
    const char *text = job->input;

    while (begin < end && !(text[begin] & 0x80))
        begin++;
    if (begin < end)
        *ret_index = begin;
    return wsd_job_cancelled(job) ? ECANCELED : 0;
}

/* What both children of the group are given, and where they leave what they have found. */
struct work {
    struct wsd_job *job;
    struct wsd_group group;
    struct lines lines;
    uint64_t other;
};

static int all_lines(struct wsd_worker *self, void *arg)
{
    static const struct lines nothing;
    struct work *w = arg;
    const struct wsd_reduction how = {
        .size = sizeof(nothing), .identity = &nothing, .body = measure, .combine = join, .arg = w->job};

    return wsd_reduce(self, &w->group, 0, w->job->input_size, PIECE, &how, &w->lines);
}

static int all_bytes(struct wsd_worker *self, void *arg)
{
    struct work *w = arg;

    return wsd_find_first(self, &w->group, 0, w->job->input_size, PIECE, find_other, w->job, &w->other);
}

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    struct work w = {.job = job};

    wsd_group_begin(self, &w.group, NULL);
    wsd_group_spawn(self, &w.group, all_lines, &w);
    wsd_group_spawn(self, &w.group, all_bytes, &w);
    int error = wsd_group_end(self, &w.group);

    if (error)
        return wsd_job_fail(job, 1, "%s", strerror(error < 0 ? -error : error));
    if (w.other < job->input_size)
        wsd_job_print(job, "not ASCII at %llu\n", (unsigned long long)w.other);
    return wsd_job_print(job, "longest line %llu\n",
                         (unsigned long long)max(w.lines.longest, max(w.lines.first, w.lines.last))) ? 1 : 0;
}

static const struct wsd_function functions[] = {
    {.name = "lines", .help = "the longest line, the first byte that is not ASCII", .flags = WSD_FN_IDEMPOTENT, .run = run},
};

WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "lines", .version = "1", .help = "an example of forms");
