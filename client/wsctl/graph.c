/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.c: reads a graph of jobs, and draws it.
 * Owns what it has read. One thread.
 * Keeps: what graph_parse() gives can be submitted: every name is known, and there is an order in which each node comes
 * after those that it runs after. What is wrong is said in one line, with its place.
 * Does not run it (run.c). */
#include "graph.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/code.h"
#include "parse.h"
#include "print.h"
#include "stream.h"

static int refuse_value(const char *path, const struct json_value *v, const char *what)
{
    char where[400];

    snprintf(where, sizeof(where), "%.300s:%u:%u", path, v->line, v->column);
    return ctl_error(CODE_USAGE, where, "%s", what);
}

static const struct json_value *member(const struct json_value *object, const char *name)
{
    for (const struct json_value *v = object->first; v; v = v->next)
        if (strcmp(v->name, name) == 0)
            return v;
    return NULL;
}

static size_t count_elements(const struct json_value *array)
{
    size_t n = 0;

    for (const struct json_value *v = array->first; v; v = v->next)
        n++;
    return n;
}

/* --- members of a node -------------------------------------------------------------------------------------------- */

struct reading {
    const char *path;
    struct graph *graph;
    const struct json_value **by_name; /* index_names() */
};

static int wants(const struct reading *r, const struct json_value *v, enum json_type type)
{
    static const char *const what[] = {[JSON_BOOL] = "true or false is wanted",
                                       [JSON_STRING] = "a string is wanted",
                                       [JSON_ARRAY] = "an array is wanted",
                                       [JSON_OBJECT] = "an object is wanted"};

    return v->type == type ? 0 : refuse_value(r->path, v, what[type]);
}

static int strings(const struct reading *r, const struct json_value *v)
{
    int error = wants(r, v, JSON_ARRAY);

    for (const struct json_value *s = v->first; s && error == 0; s = s->next)
        error = wants(r, s, JSON_STRING);
    return error;
}

static int set_args(const struct reading *r, struct graph_node *node, const struct json_value *v)
{
    int error = strings(r, v);

    if (error)
        return error;
    node->args = calloc(count_elements(v) + 1, sizeof(*node->args));
    if (!node->args)
        return ctl_error(CODE_IO, r->path, "out of memory");
    for (const struct json_value *s = v->first; s; s = s->next)
        node->args[node->options.job.n_args++] = s->text;
    node->options.job.args = (const char *const *)node->args;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp((*(const struct json_value *const *)a)->text, (*(const struct json_value *const *)b)->text);
}

/* Of that name; its column is the number of the node. NULL: there is none. */
static const struct json_value *find_name(const struct reading *r, const struct json_value *name)
{
    const struct json_value **at = bsearch(&name, r->by_name, r->graph->n_nodes, sizeof(*at), by_text);

    return at ? *at : NULL;
}

static int set_edges(const struct reading *r, struct graph_node *node, const struct json_value *v, bool any)
{
    char text[200];
    int error = strings(r, v);
    struct graph_edge *more;

    if (error)
        return error;
    more = realloc(node->edges, (node->n_edges + count_elements(v) + 1) * sizeof(*more));
    if (!more)
        return ctl_error(CODE_IO, r->path, "out of memory");
    node->edges = more;
    for (const struct json_value *s = v->first; s; s = s->next) {
        const struct json_value *name = find_name(r, s);

        if (!name) {
            snprintf(text, sizeof(text), "there is no node `%.100s`", s->text);
            return refuse_value(r->path, s, text);
        }
        node->edges[node->n_edges++] = (struct graph_edge){.node = (size_t)name->column, .any = any};
    }
    return 0;
}

/* Options of `wsctl submit`, under the same names; a number may stand for the text of it. */
static int set_option(const struct reading *r, struct graph_node *node, const struct json_value *v, bool flag)
{
    char where[400];
    int error;

    if (flag) {
        error = wants(r, v, JSON_BOOL);
        return error == 0 && strcmp(v->text, "true") == 0 ? submit_set_member(&node->options, v->name, NULL) : error;
    }
    if (v->type != JSON_NUMBER && (error = wants(r, v, JSON_STRING)) != 0)
        return error;
    snprintf(where, sizeof(where), "%.300s:%u:%u: %.60s", r->path, v->line, v->column, v->name);
    ctl_error_where(where);
    error = submit_set_member(&node->options, v->name, v->text);
    ctl_error_where(NULL);
    return error;
}

static int set_tags(const struct reading *r, struct graph_node *node, const struct json_value *v)
{
    int error = strings(r, v);

    for (const struct json_value *s = v->first; s && error == 0; s = s->next) {
        if (node->options.job.n_tags == CODEC_TAGS || !codec_is_tag(s->text, strlen(s->text)))
            return refuse_value(r->path, s,
                                "at most 3 tags, each of 1 to 63 letters, digits, dots, underscores and hyphens");
        error = submit_add_tag(&node->options, s->text);
    }
    return error;
}

static int set_plugin(const struct reading *r, struct graph_node *node, const struct json_value *v)
{
    char where[400];
    int error = wants(r, v, JSON_STRING);

    if (error)
        return error;
    snprintf(where, sizeof(where), "%.300s:%u:%u", r->path, v->line, v->column);
    ctl_error_where(where);
    error = submit_set_plugin(&node->options, v->text, &node->plugin);
    ctl_error_where(NULL);
    return error;
}

static int set_member(const struct reading *r, struct graph_node *node, const struct json_value *v)
{
    char options[256], text[400];
    bool flag;
    int error;

    if (strcmp(v->name, "name") == 0)
        return 0;
    if (strcmp(v->name, "plugin") == 0)
        return set_plugin(r, node, v);
    if (strcmp(v->name, "args") == 0)
        return set_args(r, node, v);
    if (strcmp(v->name, "after") == 0 || strcmp(v->name, "after-any") == 0)
        return set_edges(r, node, v, v->name[5]);
    if (strcmp(v->name, "tags") == 0)
        return set_tags(r, node, v);
    if (submit_member(v->name, &flag))
        return set_option(r, node, v, flag);
    if (strcmp(v->name, "function") != 0 && strcmp(v->name, "input") != 0) {
        submit_member_names(options, sizeof(options));
        snprintf(text, sizeof(text),
                 "no such member of a node; there are: name plugin function args input after after-any tags %s",
                 options);
        return refuse_value(r->path, v, text);
    }
    error = wants(r, v, JSON_STRING);
    if (*v->name == 'f')
        node->options.job.function = v->text;
    else
        node->options.input = v->text;
    return error;
}

static int set_node(const struct reading *r, struct graph_node *node, const struct json_value *object)
{
    const struct json_value *fleet = member(object, "fleet");
    int error = fleet ? set_member(r, node, fleet) : 0; /* first: it says what the plugin's name means */

    node->name = member(object, "name")->text;
    for (const struct json_value *v = object->first; v && error == 0; v = v->next)
        error = set_member(r, node, v);
    if (error == 0 && !node->plugin)
        error = refuse_value(r->path, object, "a node needs a plugin");
    if (error == 0)
        error = submit_take_environment(&node->options);
    node->options.name = node->name;
    return error ? error : submit_options_check(&node->options);
}

/* --- names and order ---------------------------------------------------------------------------------------------- */

/* A name is also that of a file and of a node in DOT. */
static int check_name(const char *path, const struct json_value *object)
{
    const struct json_value *name = object->type == JSON_OBJECT ? member(object, "name") : NULL;

    if (object->type != JSON_OBJECT)
        return refuse_value(path, object, "a node, which is an object, is wanted");
    if (!name)
        return refuse_value(path, object, "a node needs a name");
    if (name->type != JSON_STRING || !codec_is_tag(name->text, strlen(name->text)) || name->text[0] == '.')
        return refuse_value(path, name,
                            "a name is 1 to 63 letters, digits, dots, underscores and hyphens, and begins with no dot");
    return 0;
}

/* by_name: copies of the names' values, sorted; the column of each is the number of its node. */
static int index_names(struct reading *r, struct json_value *names, const struct json_value *nodes)
{
    size_t n = 0;
    int error = 0;

    for (const struct json_value *v = nodes->first; v && error == 0; v = v->next) {
        error = check_name(r->path, v);
        if (error)
            return error;
        names[n] = (struct json_value){.text = member(v, "name")->text, .column = (unsigned)n};
        r->by_name[n] = &names[n];
        n++;
    }
    qsort(r->by_name, n, sizeof(*r->by_name), by_text);
    for (size_t i = 1; i < n; i++)
        if (strcmp(r->by_name[i - 1]->text, r->by_name[i]->text) == 0) {
            size_t second = MAX(r->by_name[i - 1]->column, r->by_name[i]->column);
            const struct json_value *v = nodes->first;

            while (second--)
                v = v->next;
            return refuse_value(r->path, member(v, "name"), "another node has that name already");
        }
    return 0;
}

/* There is an order, or a node is named that runs after itself. */
static int check_order(const char *path, const struct graph *graph)
{
    _cleanup_(freep) size_t *left = calloc(graph->n_nodes + 1, sizeof(*left));
    _cleanup_(freep) bool *done = calloc(graph->n_nodes + 1, sizeof(*done));
    const struct json_value *v = member(graph->file, "nodes")->first;
    bool moved = true;
    size_t at = 0, n = 0;
    char text[200];

    if (!left || !done)
        return ctl_error(CODE_IO, path, "out of memory");
    /* in most files each node comes behind those that it runs after: then this is one round, and one more */
    while (moved) {
        moved = false;
        for (size_t i = 0; i < graph->n_nodes; i++) {
            const struct graph_node *node = &graph->nodes[i];

            while (left[i] < node->n_edges && done[node->edges[left[i]].node])
                left[i]++;
            if (!done[i] && left[i] == node->n_edges)
                done[i] = moved = true;
        }
    }
    while (at < graph->n_nodes && done[at])
        at++;
    if (at == graph->n_nodes)
        return 0;
    while (n++ < graph->n_nodes) /* each has one that is not done before it: in the end this is on a cycle */
        at = graph->nodes[at].edges[left[at]].node;
    for (size_t i = 0; i < at; i++)
        v = v->next;
    snprintf(text, sizeof(text), "node `%.60s` runs after itself, by way of `%.60s`", graph->nodes[at].name,
             graph->nodes[graph->nodes[at].edges[left[at]].node].name);
    return refuse_value(path, v, text);
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

static int read_nodes(const char *path, struct graph *graph)
{
    const struct json_value *nodes = graph->file->type == JSON_OBJECT ? member(graph->file, "nodes") : NULL, *v;
    _cleanup_(freep) struct json_value *names = NULL;
    _cleanup_(freep) const struct json_value **by_name = NULL;
    struct reading r = {.path = path, .graph = graph};
    size_t i = 0;
    int error;

    if (!nodes || nodes->type != JSON_ARRAY)
        return refuse_value(path, nodes ? nodes : graph->file, "an object with an array `nodes` is wanted");
    for (v = graph->file->first; v; v = v->next)
        if (v != nodes)
            return refuse_value(path, v, "no such member; there is: nodes");
    size_t n = count_elements(nodes);
    if (n == 0 || n > GRAPH_NODES_MAX)
        return refuse_value(path, nodes, n ? "more than 10000 nodes" : "there are no nodes");
    graph->nodes = calloc(n, sizeof(*graph->nodes));
    names = calloc(n, sizeof(*names));
    r.by_name = by_name = calloc(n, sizeof(*by_name));
    if (!graph->nodes || !names || !by_name)
        return ctl_error(CODE_IO, path, "out of memory");
    graph->n_nodes = n;
    error = index_names(&r, names, nodes);
    for (v = nodes->first; v && error == 0; v = v->next)
        error = set_node(&r, &graph->nodes[i++], v);
    return error ? error : check_order(path, graph);
}

int graph_parse(const char *path, const char *data, size_t size, struct graph *ret)
{
    char error[JSON_ERROR], where[480];
    int r;

    *ret = (struct graph){.n_nodes = 0};
    r = json_parse(data, size, &ret->file, error);
    if (r < 0) {
        char *what = strstr(error, ": ");

        if (r == -ENOMEM || !what)
            return ctl_error(CODE_IO, path, "%s", error);
        *what = 0;
        snprintf(where, sizeof(where), "%.300s:%s", path, error);
        return ctl_error(CODE_USAGE, where, "%s", what + 2);
    }
    r = read_nodes(path, ret);
    if (r != 0)
        graph_deinit(ret);
    return r;
}

int graph_read(const char *path, struct graph *ret)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC), r = 0;
    struct buffer file = {0};
    ssize_t n = fd < 0 ? -1 : 1;

    while (n > 0 && buffer_size(&file) <= GRAPH_FILE_MAX) {
        uint8_t *p = buffer_reserve(&file, 65536);

        n = p ? read(fd, p, 65536) : -1;
        if (n > 0)
            buffer_commit(&file, (size_t)n);
    }
    if (n < 0)
        r = ctl_error(fd < 0 ? open_exit(errno) : CODE_IO, path, "%s", strerror(errno));
    else if (buffer_size(&file) > GRAPH_FILE_MAX)
        r = ctl_error(CODE_USAGE, path, "larger than %u MiB", GRAPH_FILE_MAX >> 20);
    if (r == 0)
        r = graph_parse(is_stdin ? "stdin" : path, file.data ? (const char *)buffer_data(&file) : "",
                        buffer_size(&file), ret);
    if (!is_stdin)
        close_fd(fd);
    buffer_deinit(&file);
    return r;
}

void graph_deinit(struct graph *graph)
{
    for (size_t i = 0; i < graph->n_nodes; i++) {
        free(graph->nodes[i].plugin);
        free((char *)(uintptr_t)graph->nodes[i].options.output);
        free(graph->nodes[i].args);
        free(graph->nodes[i].edges);
    }
    free(graph->nodes);
    json_free(graph->file);
    *graph = (struct graph){.n_nodes = 0};
}

void graph_dot(const struct graph *graph, FILE *to)
{
    fputs("digraph jobs {\n  node [shape=box, style=filled, fillcolor=white];\n", to);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct graph_node *node = &graph->nodes[i];
        const char *state = node->state ? wsd_job_state_name(node->state) : "",
                   *colour = node->state == WSD_JOB_SUCCEEDED   ? "palegreen"
                             : node->state == WSD_JOB_CANCELLED ? "lightgrey"
                                                                : "salmon";

        fprintf(to, "  \"%s\" [label=\"%s%s%s\"", node->name, node->name, *state ? "\\n" : "", state);
        if (*state)
            fprintf(to, ", fillcolor=%s", colour);
        fputs("];\n", to);
        for (size_t e = 0; e < node->n_edges; e++)
            fprintf(to, "  \"%s\" -> \"%s\"%s;\n", graph->nodes[node->edges[e].node].name, node->name,
                    node->edges[e].any ? " [style=dashed]" : "");
    }
    fputs("}\n", to);
}
