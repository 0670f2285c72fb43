/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.h: a graph of jobs, as its file says.
 */
#pragma once

#include <stdio.h>

#include "submit-options.h"
#include "json-parse.h"

#define GRAPH_NODES_MAX 10000u
#define GRAPH_FILE_MAX  (16u << 20) /* bytes */

struct graph_edge {
    size_t node; /* that it runs after */
    bool any;    /* however that ends */
};

struct graph_node {
    const char *name;
    struct submit_options options; /* run.c says output, which is freed */
    struct graph_edge *edges;
    size_t n_edges;
    char **args;  /* options.args */
    char *plugin; /* options.plugin */
    /* run.c */
    struct batch_item *item;
    struct wsd_id id;                  /* while accepted */
    enum wsd_job_state state;          /* 0: not known to have ended */
    bool submitted, accepted, at_once; /* at_once: it was refused, and is to be submitted again now */
    size_t n_known;                    /* of those that it runs after: how many had ended when it was submitted */
};

struct graph {
    struct json_value *file;
    struct graph_node *nodes; /* in the order of the file */
    size_t n_nodes;
};

/* Reads a file (`-`: stdin) and checks it. 0 or the exit code, said: one line, with the place. */
int graph_read(const char *path, struct graph *ret);
/* The same of bytes. */
int graph_parse(const char *path, const char *data, size_t size, struct graph *ret);
void graph_deinit(struct graph *graph);
/* In the language of Graphviz, with the states of those that have ended. */
void graph_dot(const struct graph *graph, FILE *to);
