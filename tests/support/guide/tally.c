/* tally.c: lines, words and the longest word of the input, counted at the same time, by a graph. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <wsd/graph.h>
#include <wsd/plugin.h>

struct tally {
    struct wsd_job *job;
    unsigned long lines, words, longest;
};

static int count_lines(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    struct tally *t = arg;
    const char *text = t->job->input;

    for (uint64_t i = 0; i < t->job->input_size; i++)
        t->lines += text[i] == '\n';
    return 0;
}

static int count_words(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    struct tally *t = arg;
    const unsigned char *text = t->job->input;
    unsigned long length = 0;

    for (uint64_t i = 0; i < t->job->input_size; i++) {
        length = isspace(text[i]) ? 0 : length + 1;
        t->words += length == 1;
        t->longest = length > t->longest ? length : t->longest;
    }
    return 0;
}

/* A condition: the index of the successor that runs. */
static int any(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    struct tally *t = arg;

    return t->words > 0 ? 0 : 1;
}

static int report(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    struct tally *t = arg;

    return wsd_job_print(t->job, "%lu lines, %lu words, the longest of %lu bytes\n", t->lines, t->words, t->longest);
}

static int report_none(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    struct tally *t = arg;

    return wsd_job_print(t->job, "%lu lines, no words\n", t->lines);
}

static int put(const char *text, size_t size, void *arg)
{
    return wsd_job_write(arg, text, size);
}

static int build(struct wsd_graph *graph, struct tally *t)
{
    struct wsd_node *lines, *words, *condition, *some, *none;
    int error;

    if ((error = wsd_graph_add(graph, "lines", count_lines, t, &lines)) ||
        (error = wsd_graph_add(graph, "words", count_words, t, &words)) ||
        (error = wsd_graph_add_condition(graph, "any?", any, t, &condition)) ||
        (error = wsd_graph_add(graph, "report", report, t, &some)) ||
        (error = wsd_graph_add(graph, "report none", report_none, t, &none)) ||
        (error = wsd_graph_precede(lines, condition)) || (error = wsd_graph_precede(words, condition)) ||
        (error = wsd_graph_precede(condition, some)) || (error = wsd_graph_precede(condition, none)))
        return error;
    return 0;
}

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    struct tally t = {.job = job};
    struct wsd_graph *graph = NULL;
    int error = wsd_graph_new(self, &graph);

    if (!error)
        error = build(graph, &t);
    if (!error && job->argc > 1 && strcmp(job->argv[1], "dot") == 0)
        error = wsd_graph_dump(graph, put, job);
    else if (!error)
        error = wsd_graph_run(self, NULL, graph);
    wsd_graph_free(graph);
    return error ? wsd_job_fail(job, 1, "%s", strerror(abs(error))) : 0;
}

static const struct wsd_function functions[] = {
    {.name = "tally", .help = "[dot]: counts lines and words", .flags = WSD_FN_IDEMPOTENT, .run = run},
};

WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "tally", .version = "1", .help = "an example of a graph");
