/* SPDX-License-Identifier: Apache-2.0
 *
 * map.c: `wsctl map`: one job an item.
 * Owns the batch, wsd's and ours, and the items of stdin that are not begun yet. One thread, one poll loop.
 * Keeps: at most --jobs in flight; after a failure nothing new is begun (unless --keep-going) and what comes after the
 * failed item is cancelled; what wsd refuses for now is submitted again when another job has ended, or, with
 * --wait-for-room, when wsd has said.
 * Does not read items faster than it needs them. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/code.h"
#include "batch.h"
#include "connect.h"
#include "ctl.h"
#include "options.h"
#include "parse.h"
#include "print.h"
#include "progress.h"
#include "signals.h"
#include "submit-options.h"

struct map {
    struct submission batch;
    struct wsd_batch *group;
    struct ctl *ctl;
    const char *name; /* of the plugin and its function as they were given */
    char *plugin;
    char **args; /* before ::: */
    size_t n_args;
    char **items; /* after it; NULL: stdin */
    size_t n_items;
    struct buffer lines;
    uint64_t n_begun, done_at_refusal;
    uint64_t taken_before, left_before; /* of the batch's, at the last look */
    struct submit_options options;      /* of its room, due_usec: when there may be some again; 0: now */
    /* how many are submitted at once, to find out how much there is; 0: wsd has not refused any yet */
    size_t window;
    size_t places;        /* of ours that have ended, which leave one each */
    bool taking, taken;   /* those places are being asked for; they were not free, so wait until due_usec */
    char id[WSD_ID_TEXT]; /* of the batch, with detach */
    size_t jobs;
    bool detach, null; /* null: items of stdin end in NUL */
    bool placeholder, keep_going, stdin_eof, stopping, interrupted;
    bool starved; /* no whole line is left */
};

/* --- items ---------------------------------------------------------------------------------------------------------
 */

/* The next item of stdin, without the byte that ends it; *ret is NULL where none is whole. Valid until the next read.
 * 0 or the exit code, said. */
static int next_of_stdin(struct map *map, const char **ret)
{
    const char ends_with = map->null ? 0 : '\n';
    size_t size = buffer_size(&map->lines);
    char *data = (char *)map->lines.data + map->lines.start, *end, where[64];

    *ret = NULL;
    if (size == 0)
        return 0;
    end = memchr(data, ends_with, size);
    if (!end) {
        if (!map->stdin_eof)
            return 0;
        if (buffer_put(&map->lines, &ends_with, 1) < 0)
            return ctl_error(CODE_IO, "stdin", "out of memory");
        data = (char *)map->lines.data + map->lines.start;
        end = data + size;
    }
    *end = 0;
    if (strlen(data) != (size_t)(end - data)) {
        snprintf(where, sizeof(where), "stdin:%" PRIu64, map->n_begun + 1);
        return ctl_error(CODE_USAGE, where, "a NUL in the line; where items end in NUL, write --null");
    }
    map->lines.start += (size_t)(end - data) + 1; /* not dropped: the bytes stay in place */
    *ret = data;
    return 0;
}

/* *ret is NULL where there is none yet. 0 or the exit code, said. */
static int next_item(struct map *map, const char **ret)
{
    if (!map->items)
        return next_of_stdin(map, ret);
    *ret = map->n_begun < map->n_items ? map->items[map->n_begun] : NULL;
    return 0;
}

static bool more_items(const struct map *map)
{
    if (map->stopping)
        return false;
    return map->items ? map->n_begun < map->n_items : !map->stdin_eof || buffer_size(&map->lines) > 0;
}

static bool wants_stdin(const struct map *map)
{
    return map->starved && !map->items && !map->stopping && !map->stdin_eof && map->batch.n_running < map->jobs;
}

static int read_stdin(struct map *map)
{
    const size_t room = 65536;
    uint8_t *p = buffer_reserve(&map->lines, room);
    ssize_t n = p ? read(STDIN_FILENO, p, room) : -1;

    if (!p)
        return ctl_error(CODE_IO, "stdin", "out of memory");
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return ctl_error(CODE_IO, "stdin", "%s", strerror(errno));
    if (n == 0)
        map->stdin_eof = true;
    if (n > 0)
        buffer_commit(&map->lines, (size_t)n);
    return 0;
}

/* --- jobs ------------------------------------------------------------------------------------------------------------
 */

/* arg with every {} replaced; to be freed. */
static char *substitute(const char *arg, const char *item)
{
    struct buffer out = {0};
    bool failed = false;

    for (const char *here; !failed && (here = strstr(arg, "{}")); arg = here + 2)
        failed = buffer_put(&out, arg, (size_t)(here - arg)) < 0 || buffer_put(&out, item, strlen(item)) < 0;
    if (failed || buffer_put(&out, arg, strlen(arg) + 1) < 0) {
        buffer_deinit(&out);
        return NULL;
    }
    return (char *)out.data;
}

static int submit_args(struct map *map, struct batch_item *item, const char *const *args, size_t n_args)
{
    struct wsd_callbacks callbacks = batch_callbacks(item);
    const struct wsd_item one = {.size = sizeof(one), .args = args, .n_args = n_args};
    int r;

    item->call = wsd_call_free(item->call); /* of an earlier attempt */
    r = wsd_batch_submit(map->group, &one, &callbacks, &item->call);
    if (r == 0)
        batch_began(item);
    else if (r == -ECANCELED && map->batch.noticed < item->index)
        batch_ignore(item);
    else
        batch_item_fail(item, wsd_client_exit(map->batch.client),
                        map->batch.lost ? "" : wsd_client_error(map->batch.client));
    if (r == -ECONNRESET)
        map->batch.lost = true;
    return 0;
}

static int submit_item(struct map *map, struct batch_item *item)
{
    size_t n = map->n_args + !map->placeholder;
    char **args = calloc(n + 1, sizeof(*args));
    int r = 0;

    for (size_t i = 0; args && i < n && r == 0; i++) {
        args[i] = i < map->n_args ? substitute(map->args[i], item->name) : strdup(item->name);
        r = args[i] ? 0 : -ENOMEM;
    }
    if (args && r == 0)
        r = submit_args(map, item, (const char *const *)args, n);
    else
        r = ctl_error(CODE_IO, item->name, "out of memory");
    for (size_t i = 0; args && i < n; i++)
        free(args[i]);
    free(args);
    return r;
}

/* Those that wsd refused: again when another has ended; where none of ours runs it is the end. */
static int retry(struct map *map)
{
    bool again = map->batch.n_done != map->done_at_refusal;
    int r = 0;

    map->done_at_refusal = map->batch.n_done;
    if (!map->batch.has_refused)
        return 0;
    list_for_each_entry (struct batch_item, item, &map->batch.items, link) {
        if (!item->refused || r != 0)
            continue;
        if (map->batch.n_running == 0 && !again) {
            item->refused = false;
            batch_item_fail(item, CODE_BUSY, item->error);
        } else if (again && map->batch.n_running < map->jobs) {
            item->refused = false;
            r = submit_item(map, item);
        }
    }
    return r;
}

/* How many wait for another attempt; that lowers --jobs to what wsd takes. */
static size_t count_refused(struct map *map)
{
    size_t n = 0;

    if (!map->batch.has_refused)
        return 0;
    list_for_each_entry (struct batch_item, batch_item, &map->batch.items, link)
        n += batch_item->refused;
    map->batch.has_refused = n > 0;
    if (n > 0)
        map->jobs = MAX(1, MIN(map->jobs, map->batch.n_running));
    return n;
}

/* At most so many. */
static int begin_jobs(struct map *map, size_t max)
{
    const char *name;
    int r = 0;

    /* Items that wait for their turn to be printed count too, generously: their output is in memory. */
    for (; r == 0 && max && !map->stopping && map->batch.n_running < map->jobs &&
           map->batch.n_items < map->jobs * 16 + 64;
         max--) {
        r = next_item(map, &name);
        map->starved = !name;
        if (!name)
            break;

        struct batch_item *item = batch_add(&map->batch, name, map->n_begun);

        map->n_begun++;
        r = item ? submit_item(map, item) : CODE_IO;
    }
    return r;
}

/* --- waiting for room --------------------------------------------------------------------------------------------- */

/* False: it has been waited for as long as may be. */
static bool waits_on(struct map *map, const struct batch_item *item)
{
    uint64_t due = map->options.room.due_usec;

    if (due && !item->retry_usec)
        return true; /* refused together with others: there is one pause for all */
    if (!room_refused(&map->options.room, item->retry_usec))
        return false;
    if (due)
        map->options.room.due_usec = MIN(due, map->options.room.due_usec);
    return true;
}

/* Those that were refused since the last look. */
static void note_refused(struct map *map)
{
    list_for_each_entry (struct batch_item, item, &map->batch.items, link) {
        if (!item->refused || item->noted)
            continue;
        item->noted = true;
        map->window = 1;
        map->places = 0;
        map->taken |= map->taking;
        if (waits_on(map, item))
            continue;
        item->refused = false;
        batch_item_fail(item, CODE_BUSY, item->error);
    }
}

/* Those that were refused, the oldest first, then new ones; *ret_left: for how many there was nothing. */
static int submit_some(struct map *map, size_t max, size_t *ret_left)
{
    uint64_t begun = map->n_begun;
    int r = 0;

    list_for_each_entry (struct batch_item, item, &map->batch.items, link) {
        if (!item->refused || !max || map->batch.n_running >= map->jobs || r != 0)
            continue;
        item->refused = false;
        max--;
        r = submit_item(map, item);
    }
    if (r == 0)
        r = begin_jobs(map, max);
    *ret_left = max - (size_t)(map->n_begun - begun);
    return r;
}

/* Submits as many as there is room for, which is unknown: twice as many each time, until wsd refuses one. wsd then says
 * when another try pays. Until then, as many are submitted as have ended of ours, unless other clients have been
 * faster. */
static int fill_room(struct map *map)
{
    uint64_t ends = map->batch.n_left - map->left_before;
    size_t n, left;
    int r;

    if (map->batch.n_taken != map->taken_before)
        map->options.room.since_usec = map->options.room.pause_usec = 0; /* there was some */
    map->taken_before = map->batch.n_taken;
    map->left_before = map->batch.n_left;
    note_refused(map);
    if (!map->window)
        return begin_jobs(map, SIZE_MAX);
    map->places += ends;
    if (map->batch.n_unsure)
        return 0; /* how that goes says how to go on */
    if (map->options.room.due_usec && room_timeout(&map->options.room) == 0) {
        map->options.room.due_usec = 0;
        map->taken = false;
    }
    map->taking = map->options.room.due_usec;
    n = !map->taking ? map->window : map->taken ? 0 : map->places;
    map->places = 0;
    if (!n)
        return 0;
    r = submit_some(map, n, &left);
    if (!map->taking && !left)
        map->window = MIN(map->window * 2, map->jobs);
    return r;
}

/* --- the loop
 * --------------------------------------------------------------------------------------------------------- */

static void look_for_failures(struct map *map)
{
    if (map->stopping || map->batch.noticed == UINT64_MAX || (map->keep_going && !map->batch.lost))
        return;
    map->stopping = true;
    batch_cancel(&map->batch, map->batch.noticed + 1);
}

static int map_turn(struct map *map)
{
    struct pollfd fds[] = {
        {.fd = wsd_client_fd(map->batch.client), .events = wsd_client_events(map->batch.client)},
        {.fd = signals_fd(), .events = POLLIN},
        {.fd = wants_stdin(map) ? STDIN_FILENO : -1, .events = POLLIN},
    };
    int r = 0;

    if (map->batch.n_running > 0 || fds[2].fd >= 0 || map->options.room.due_usec) {
        if (poll(fds, 3,
                 progress_timeout(map->options.room.due_usec && !map->stopping ? room_timeout(&map->options.room)
                                                                               : -1)) < 0)
            return errno == EINTR ? 0 : ctl_error(CODE_IO, "poll", "%s", strerror(errno));
        if (fds[1].revents && signals_take()) {
            map->stopping = map->interrupted = true;
            batch_cancel(&map->batch, 0);
        }
        if (fds[2].revents)
            r = read_stdin(map);
        wsd_client_process(map->batch.client);
    }
    look_for_failures(map);
    batch_settle(&map->batch);
    return r;
}

static int run_map(struct map *map)
{
    uint64_t total;
    int r = 0;

    while (r == 0 && !map->batch.output.failed && (map->batch.n_items > 0 || more_items(map))) {
        map->starved = false;
        if (map->options.room.wanted && !map->stopping) {
            r = fill_room(map);
        } else {
            r = map->stopping ? 0 : retry(map);
            if (r == 0 && count_refused(map) == 0)
                r = begin_jobs(map, SIZE_MAX);
        }
        if (r == 0)
            r = map_turn(map);
        total = map->items ? map->n_items : map->stdin_eof ? map->n_begun : 0;
        progress_draw("map", map->batch.n_done, total, map->batch.n_failed);
    }
    progress_clear();
    if (r == 0)
        r = map->interrupted ? CODE_CANCELLED : map->batch.output.failed ? CODE_IO : map->batch.exit;
    return r;
}

/* --- options
 * ---------------------------------------------------------------------------------------------------------- */

static const struct option own[] = {
    {"jobs", required_argument, NULL, 'j'}, {"unordered", no_argument, NULL, 'u'},
    {"keep-going", no_argument, NULL, 'k'}, {"detach", no_argument, NULL, 'd'},
    {"null", no_argument, NULL, '0'},       {0},
};

static int set_option(struct map *map, int c)
{
    long long number;

    switch (c) {
    case 'j':
        if (parse_number(optarg, 1, 100000, &number) < 0)
            return ctl_error(CODE_USAGE, optarg, "not a number of jobs; write 1 to 100000");
        map->jobs = (size_t)number;
        return 0;
    case 'u':
        map->batch.unordered = true;
        return 0;
    case 'k':
        map->keep_going = true;
        return 0;
    case 'd':
        map->detach = true;
        return 0;
    case '0':
        map->null = true;
        return 0;
    default:
        return submit_option(&map->options, c);
    }
}

/* Returns CTL_END, or CTL_EXIT with *ret_exit. */
static int parse_options(struct map *map, int argc, char **argv, int *ret_exit)
{
    struct option_list list;
    bool ended;
    int c, at;

    submit_options_list(SUBMIT_MAP, own, "0j:ukd", &list);
    while ((c = ctl_getopt(map->ctl, argc, argv, list.letters, list.options, ret_exit)) != CTL_END)
        if (c == CTL_EXIT || (*ret_exit = set_option(map, c)) != 0)
            return CTL_EXIT;
    if (optind == argc || strcmp(argv[optind], ":::") == 0) {
        *ret_exit = ctl_error(CODE_USAGE, "map", "no plugin is named; usage: wsctl map %s", map->ctl->verb->usage);
        return CTL_EXIT;
    }
    ended = strcmp(argv[optind - 1], "--") == 0;
    map->batch.plugin = map->name = argv[optind++];
    while (!ended && (c = ctl_getopt_behind(map->ctl, argc, argv, list.letters, list.options, ret_exit)) != CTL_END)
        if (c == CTL_EXIT || (*ret_exit = set_option(map, c)) != 0)
            return CTL_EXIT;
    if (submit_is_durable(&map->options) && map->detach) {
        *ret_exit =
            ctl_error(CODE_USAGE, "map",
                      "--detach gives the id of a batch, and durable jobs have none: wsctl submit --durable --detach");
        return CTL_EXIT;
    }
    *ret_exit = submit_take_environment(&map->options);
    if (*ret_exit == 0)
        *ret_exit = submit_set_plugin(&map->options, map->name, &map->plugin);
    if (*ret_exit != 0)
        return CTL_EXIT;
    map->args = argv + optind;
    for (at = optind; at < argc && strcmp(argv[at], ":::") != 0; at++)
        map->placeholder = map->placeholder || strstr(argv[at], "{}");
    map->n_args = (size_t)(at - optind);
    if (at < argc) {
        map->items = argv + at + 1;
        map->n_items = (size_t)(argc - at - 1);
    }
    if (map->items && map->null) {
        *ret_exit = ctl_error(CODE_USAGE, "--null", "only for items of stdin, and these stand behind :::");
        return CTL_EXIT;
    }
    return CTL_END;
}

static int open_group(struct map *map)
{
    struct wsd_submit common = map->options.job;
    uint32_t flags = (map->keep_going ? WSD_BATCH_KEEP_GOING : 0u) | (map->detach ? WSD_BATCH_DETACH : 0u);

    common.size = sizeof(common);
    common.flags |= map->detach ? WSD_SUBMIT_DETACH | WSD_SUBMIT_LEAVE : 0u;
    if (wsd_batch_open(map->batch.client, &common, flags, &map->group) < 0)
        return ctl_client_error(map->batch.client, map->name, NULL);
    map->batch.stops = !map->keep_going;
    return 0;
}

/* Of the batch, before anything is submitted: whatever comes then, it can be asked for. 0 or the exit code, said. */
static int print_id(struct map *map)
{
    struct wsd_batch_info info = {.size = sizeof(info)};
    static const struct wsd_id none;
    struct json json = {0};
    int r = wsd_client_ping(map->batch.client, NULL); /* frames are answered in their order */

    if (r < 0)
        return ctl_client_error(map->batch.client, "map", NULL);
    wsd_batch_look(map->group, &info);
    if (memcmp(&info.id, &none, sizeof(none)) == 0)
        return wsd_batch_wait(map->group, 0, NULL) < 0
                   ? ctl_client_error(map->batch.client, "map", NULL)
                   : ctl_error(CODE_PROTOCOL, "map", "this wsd gives no ids to batches");
    wsd_id_text(&info.id, map->id);
    if (!map->ctl->json) {
        print_line("%s", map->id);
        return print_end();
    }
    json_string(&json, "batch", map->id);
    return json_end(&json) || print_end() ? CODE_IO : 0;
}

/* Not all of what was to be left to wsd was accepted. Takes the rest back, so that a second try submits none twice. */
static void take_back(struct map *map)
{
    if (wsd_batch_cancel(map->group) == 0 && wsd_client_ping(map->batch.client, NULL) == 0)
        ctl_error(0, "map", "not all was accepted; what was is cancelled: wsctl status %s", map->id);
    else
        ctl_error(0, "map", "not all was accepted; what was may go on: wsctl cancel %s", map->id);
}

/* The exit code. */
static int map_all(struct map *map)
{
    int r = ctl_connect(map->ctl, &map->batch.client);

    if (r != 0 || (r = open_group(map)) != 0)
        return r;
    map->batch.asks = map->options.room.wanted;
    output_open(&map->batch.output, NULL, NULL);
    progress_init(!map->ctl->no_progress && !map->ctl->quiet);
    if (map->detach)
        r = print_id(map);
    if (r == 0) {
        signals_init();
        r = run_map(map);
        if (r != 0 && map->detach && (!map->keep_going || map->interrupted))
            take_back(map);
    }
    batch_deinit(&map->batch);
    wsd_batch_free(map->group);
    buffer_deinit(&map->lines);
    int end = print_end();
    return r ? r : end;
}

int verb_map(struct ctl *ctl, int argc, char **argv)
{
    struct map map = {.ctl = ctl, .jobs = 1000};
    int r;

    room_init(&map.options.room);
    batch_init(&map.batch, ctl, NULL);
    map.batch.named = map.batch.item_key = true;
    if (parse_options(&map, argc, argv, &r) != CTL_EXIT)
        r = map_all(&map);
    wsd_client_free(map.batch.client);
    free(map.plugin);
    return r;
}
