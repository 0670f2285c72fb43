/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c: `wsctl run`: a graph of jobs from a file. Owns the graph, the batch and the mapped inputs. One thread, one
 * poll loop. Keeps: a node is submitted when wsd has accepted all that it runs after. So wsd holds the order, and a
 * node begins without us. A node that runs after more than a job may name waits until at most so many of those have not
 * ended. The whole is cancelled with its first failure (unless --keep-going) or at Ctrl-C. A job that is not detached
 * is forgotten when its end is told. So a node is refused if its predecessors end while it is on its way; it is
 * submitted again with those that have not ended. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/code.h"
#include "batch.h"
#include "connect.h"
#include "ctl.h"
#include "graph.h"
#include "options.h"
#include "print.h"
#include "progress.h"
#include "signals.h"
#include "stream.h"
#include "submit.h"

struct run {
    struct submission batch;
    struct graph graph;
    const char *output_dir, *dot_to;
    bool keep_going, stopping, interrupted, dot;
    size_t n_open;         /* nodes that are not submitted yet */
    uint64_t done_at_look; /* of the batch, when it was looked for nodes that may go */
    void (*batch_done)(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text,
                       void *userdata);
};

static struct run *run_of(struct batch_item *item)
{
    return container_of(item->batch, struct run, batch);
}

static struct graph_node *node_of(struct batch_item *item)
{
    return &run_of(item)->graph.nodes[item->index];
}

/* --- callbacks: they note ----------------------------------------------------------------------------------------- */

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    struct graph_node *node = node_of(userdata);

    node->accepted = true;
    node->id = *id;
}

/* Where the error of a job names another one by its id, its name in the graph is better. */
static void name_origin(const struct run *run, char *text, size_t size)
{
    char *at = strstr(text, "after job "), id[WSD_ID_TEXT], rest[256];

    if (!at || strlen(at += 6) < 4 + WSD_ID_TEXT)
        return;
    for (size_t i = 0; i < run->graph.n_nodes; i++) {
        wsd_id_text(&run->graph.nodes[i].id, id);
        if (!run->graph.nodes[i].accepted || strncmp(at + 4, id, WSD_ID_TEXT - 1) != 0)
            continue;
        snprintf(rest, sizeof(rest), "%s", at + 4 + WSD_ID_TEXT - 1);
        snprintf(at, size - (size_t)(at - text), "%s%s", run->graph.nodes[i].name, rest);
        return;
    }
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct batch_item *item = userdata;
    struct graph_node *node = node_of(item);
    struct run *run = run_of(item);

    run->batch_done(call, error, info, text, userdata);
    if (error == 0) {
        node->state = info->state;
        item->follows = info->state == WSD_JOB_CANCELLED && strncmp(info->error, "not run: ", 9) == 0;
        if (item->follows)
            name_origin(run, item->error, sizeof(item->error));
    } else if (!item->refused) {
        node->state = WSD_JOB_INTERRUPTED;
    } else {
        node->at_once = error != -EAGAIN; /* is_too_late() */
    }
}

/* One that it runs after may have ended while it was on its way: then it can be said without that one. */
static bool is_too_late(struct batch_item *item, int error)
{
    const struct run *run = run_of(item);
    const struct graph_node *node = node_of(item);
    size_t n = 0;

    for (size_t i = 0; i < node->n_edges; i++)
        n += run->graph.nodes[node->edges[i].node].state != 0;
    return error == -ENOENT && !node->accepted && n > node->n_known;
}

/* --- submitting --------------------------------------------------------------------------------------------------- */

/* Whether it may go, or (*ret_bad) never can, because this one has not ended as it should. */
static bool may_go(const struct run *run, const struct graph_node *node, const struct graph_node **ret_bad)
{
    size_t n_left = 0;
    bool all = true;

    *ret_bad = NULL;
    for (size_t i = 0; i < node->n_edges; i++) {
        const struct graph_node *on = &run->graph.nodes[node->edges[i].node];

        if (on->state && on->state != WSD_JOB_SUCCEEDED && !node->edges[i].any)
            *ret_bad = on;
        all = all && (on->accepted || on->state);
        n_left += !on->state;
    }
    return all && n_left <= CODEC_AFTER_MAX;
}

static int map_input(const char *path, void **ret, size_t *ret_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), r = 0; /* a FIFO has no writer yet */
    struct stat st;

    *ret = NULL;
    *ret_size = 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        r = ctl_error(open_exit(errno), path, "%s", strerror(errno));
    else if (!S_ISREG(st.st_mode))
        r = ctl_error(CODE_NOT_FOUND, path, "the input of a node is a regular file");
    else if (st.st_size > 0 && (*ret = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        r = ctl_error(CODE_IO, path, "%s", strerror(errno));
    else
        *ret_size = (size_t)st.st_size;
    close_fd(fd);
    if (*ret == MAP_FAILED)
        *ret = NULL;
    return r;
}

static int submit_node(struct run *run, struct graph_node *node)
{
    const struct submit_options *o = &node->options;
    struct wsd_callbacks callbacks = batch_callbacks(node->item);
    _cleanup_(freep) struct wsd_id *ids = calloc(node->n_edges + 1, 2 * sizeof(*ids));
    struct wsd_id *after = ids, *any = ids ? ids + node->n_edges : NULL;
    struct wsd_submit request = o->job;
    struct batch_item *item = node->item;

    if (!ids)
        return ctl_error(CODE_IO, node->name, "out of memory");
    int r = o->input && !item->input ? map_input(o->input, &item->input, &item->input_size) : 0;
    if (r != 0)
        return r;
    node->n_known = 0;
    for (size_t i = 0; i < node->n_edges; i++) {
        const struct graph_node *on = &run->graph.nodes[node->edges[i].node];

        if (on->state)
            node->n_known++;
        else if (node->edges[i].any)
            any[request.n_after_any++] = on->id;
        else
            after[request.n_after++] = on->id;
    }
    request.size = sizeof(request);
    request.after = after;
    request.after_any = any;
    request.input = item->input;
    request.input_size = item->input_size;
    run->batch_done = callbacks.done;
    callbacks.accepted = on_accepted;
    callbacks.done = on_done;
    item->call = wsd_call_free(item->call);
    node->submitted = true;
    if (wsd_client_submit(run->batch.client, &request, &callbacks, &item->call) == 0) {
        batch_began(item);
        return 0;
    }
    node->state = WSD_JOB_INTERRUPTED;
    batch_item_fail(item, wsd_client_exit(run->batch.client),
                    run->batch.lost ? "" : wsd_client_error(run->batch.client));
    return 0;
}

static void not_run(struct graph_node *node, const struct graph_node *bad)
{
    char text[160];

    snprintf(text, sizeof(text), "not run: it was to run after %s", bad->name);
    node->submitted = true;
    node->state = WSD_JOB_CANCELLED;
    node->item->follows = true;
    batch_item_fail(node->item, CODE_CANCELLED, text);
}

/* Those that wsd refused for now go again when another one has ended, or their predecessors have. */
static int submit_all(struct run *run)
{
    bool ended = run->batch.n_done != run->done_at_look;
    int r = 0;

    run->done_at_look = run->batch.n_done;
    for (size_t i = 0; i < run->graph.n_nodes && r == 0; i++) {
        struct graph_node *node = &run->graph.nodes[i];
        const struct graph_node *bad;
        bool again = node->submitted && node->item && node->item->refused;

        if (node->submitted && !again)
            continue;
        bool now = ended || node->at_once;
        if (again && !now && run->batch.n_running == 0) {
            node->item->refused = false;
            node->state = WSD_JOB_INTERRUPTED;
            batch_item_fail(node->item, CODE_BUSY, node->item->error);
            continue;
        }
        bool may = may_go(run, node, &bad);
        if (bad) {
            if (node->item)
                node->item->refused = false;
            not_run(node, bad);
        } else if (may && (!again || now)) {
            node->item->refused = node->at_once = false;
            r = submit_node(run, node);
        }
    }
    return r;
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static void look_for_failures(struct run *run)
{
    if (run->stopping || run->batch.noticed == UINT64_MAX || (run->keep_going && !run->batch.lost))
        return;
    run->stopping = true;
    list_for_each_entry (struct batch_item, item, &run->batch.items, link) {
        if (!item->done && !item->ignored)
            batch_ignore(item);
    }
}

static int run_turn(struct run *run)
{
    struct pollfd fds[] = {
        {.fd = wsd_client_fd(run->batch.client), .events = wsd_client_events(run->batch.client)},
        {.fd = signals_fd(), .events = POLLIN},
    };

    if (run->batch.n_running > 0) {
        if (poll(fds, 2, progress_timeout(-1)) < 0)
            return errno == EINTR ? 0 : ctl_error(CODE_IO, "poll", "%s", strerror(errno));
        if (fds[1].revents && signals_take()) {
            run->stopping = run->interrupted = true;
            batch_cancel(&run->batch, 0);
        }
        wsd_client_process(run->batch.client);
    }
    look_for_failures(run);
    return 0;
}

/* Forgets the item of a node when its turn is over: it is not used after that. */
static void forget_items(struct run *run)
{
    for (size_t i = 0; i < run->graph.n_nodes; i++)
        if (run->graph.nodes[i].item && run->graph.nodes[i].item->done)
            run->graph.nodes[i].submitted = true;
    list_for_each_entry (const struct batch_item, item, &run->batch.items, link) {
        if (!item->done)
            return; /* the first that has not ended: those behind it stay, too */
        run->graph.nodes[item->index].item = NULL;
    }
}

static int run_nodes(struct run *run)
{
    int r = 0;

    while (r == 0 && !run->batch.output.failed && run->batch.n_items > 0) {
        if (!run->stopping)
            r = submit_all(run);
        if (r == 0)
            r = run_turn(run);
        forget_items(run);
        batch_settle(&run->batch);
        progress_draw("run", run->batch.n_done, run->graph.n_nodes, run->batch.n_failed);
    }
    progress_clear();
    if (r == 0)
        r = run->interrupted ? CODE_CANCELLED : run->batch.output.failed ? CODE_IO : run->batch.exit;
    return r;
}

/* The output of each node is open until that node has ended. */
static void raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int add_items(struct run *run)
{
    char path[PATH_MAX];
    int r = 0;

    if (run->output_dir)
        raise_descriptors();
    for (size_t i = 0; i < run->graph.n_nodes && r == 0; i++) {
        struct graph_node *node = &run->graph.nodes[i];

        node->item = batch_add(&run->batch, node->name, i);
        if (!node->item)
            return CODE_IO;
        if (!run->output_dir)
            continue;
        snprintf(path, sizeof(path), "%s/%s", run->output_dir, node->name);
        node->options.output = strdup(path);
        r = node->options.output ? output_open_job(&node->item->to, &node->options, -1)
                                 : ctl_error(CODE_IO, path, "out of memory");
        node->item->has_to = r == 0;
    }
    return r;
}

static int write_dot(const struct run *run)
{
    struct output output;
    int r = output_open(&output, run->dot_to, NULL);

    if (r != 0)
        return r;
    FILE *to = output_stream(&output);
    if (!to)
        r = CODE_IO;
    else
        graph_dot(&run->graph, to);
    if (to && output_stream_end(&output, to) != 0)
        r = CODE_IO;
    return output_close(&output, r == 0) ? CODE_IO : r;
}

/* --- options ------------------------------------------------------------------------------------------------------ */

enum { OPT_DOT = 256, OPT_DOT_TO };

static const struct option long_options[] = {
    {"output-dir", required_argument, NULL, 'd'},
    {"keep-going", no_argument, NULL, 'k'},
    {"dot", no_argument, NULL, OPT_DOT},
    {"dot-to", required_argument, NULL, OPT_DOT_TO},
    {0},
};

static int parse_options(struct run *run, struct ctl *ctl, int argc, char **argv, int *ret_exit)
{
    int c;

    while ((c = ctl_getopt(ctl, argc, argv, "d:k", long_options, ret_exit)) != CTL_END) {
        if (c == CTL_EXIT)
            return c;
        if (c == 'd')
            run->output_dir = optarg;
        else if (c == OPT_DOT_TO)
            run->dot_to = optarg;
        else
            *(c == 'k' ? &run->keep_going : &run->dot) = true;
    }
    if (optind + 1 == argc)
        return CTL_END;
    *ret_exit = ctl_error(CODE_USAGE, "run", "%s; usage: wsctl run %s",
                          optind == argc ? "no file is named" : "too many arguments", ctl->verb->usage);
    return CTL_EXIT;
}

int verb_run(struct ctl *ctl, int argc, char **argv)
{
    struct run run = {.keep_going = false};
    int r, end;

    if (parse_options(&run, ctl, argc, argv, &r) == CTL_EXIT || (r = graph_read(argv[optind], &run.graph)) != 0)
        return r;
    if (run.dot) {
        graph_dot(&run.graph, stdout);
        graph_deinit(&run.graph);
        return print_end();
    }
    batch_init(&run.batch, ctl, NULL);
    run.batch.named = run.batch.item_key = run.batch.unheld = true;
    run.batch.again = is_too_late;
    if (run.output_dir && mkdir(run.output_dir, 0777) < 0 && errno != EEXIST)
        r = ctl_error(CODE_IO, run.output_dir, "%s", strerror(errno));
    if (r == 0)
        r = ctl_connect(ctl, &run.batch.client);
    if (r == 0) {
        output_open(&run.batch.output, NULL, NULL);
        progress_init(!ctl->no_progress && !ctl->quiet);
        signals_init();
        r = add_items(&run);
    }
    if (r == 0)
        r = run_nodes(&run);
    if (run.dot_to && run.batch.client) {
        int dot = write_dot(&run);

        r = r ? r : dot;
    }
    batch_deinit(&run.batch);
    wsd_client_free(run.batch.client);
    graph_deinit(&run.graph);
    end = print_end();
    return r ? r : end;
}
