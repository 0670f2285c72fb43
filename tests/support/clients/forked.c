/* SPDX-License-Identifier: Apache-2.0
 *
 * forked.c: a process that forks while its threads call, each by a handle of its own. The function echoes.
 *
 *     forked CHILDREN PLUGIN:FUNCTION
 *
 * Each child makes every call on each handle, which fails at once, and frees the handles. Each tenth child opens a
 * handle of its own and calls. The threads go on until the last child has ended. Prints one line of NAME=COUNT.
 * Exits 0 where each child and each call had what it wanted. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <wsd/client.h>

#define THREADS   3
#define MAP_ITEMS 64
#define PAYLOAD   64

static char plugin[256], *function;
static struct wsd_client *clients[THREADS];
static atomic_bool over;
static atomic_ulong n_calls, n_direct, n_items, n_wrong;

static bool echo(struct wsd_client *client, const char *text, uint32_t flags, bool *ret_direct)
{
    char output[PAYLOAD];
    const struct wsd_call_request q = {.size = sizeof(q),
                                       .plugin = plugin,
                                       .function = function,
                                       .input = text,
                                       .input_size = strlen(text),
                                       .output = output,
                                       .output_room = sizeof(output),
                                       .flags = flags};
    struct wsd_call_result r = {.size = sizeof(r)};

    if (wsd_call(client, &q, &r) < 0) {
        fprintf(stderr, "%s\n", wsd_client_error(client));
        return false;
    }
    *ret_direct = r.direct;
    return r.state == WSD_JOB_SUCCEEDED && r.output_size == q.input_size && memcmp(output, text, q.input_size) == 0;
}

static int on_item(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t size,
                   const char *text, void *userdata)
{
    bool right = !error && info->state == WSD_JOB_SUCCEEDED && size == sizeof(index) && !memcmp(output, &index, size);

    atomic_fetch_add(right ? &n_items : &n_wrong, 1);
    return 0;
}

static void map(struct wsd_client *client)
{
    const struct wsd_submit common = {.size = sizeof(common), .plugin = plugin, .function = function};
    struct wsd_item items[MAP_ITEMS];
    size_t numbers[MAP_ITEMS];

    for (size_t i = 0; i < MAP_ITEMS; i++) {
        numbers[i] = i;
        items[i] = (struct wsd_item){.size = sizeof(items[i]), .input = &numbers[i], .input_size = sizeof(numbers[i])};
    }
    if (wsd_map(client, &common, WSD_BATCH_WAIT, items, MAP_ITEMS, on_item, NULL) < 0)
        atomic_fetch_add(&n_wrong, 1);
}

static void *work(void *arg)
{
    struct wsd_client *client = *(struct wsd_client **)arg;

    for (unsigned long i = 0; !atomic_load(&over); i++) {
        char text[PAYLOAD];
        bool direct = false;

        snprintf(text, sizeof(text), "%p.%lu", (void *)client, i);
        if (!echo(client, text, i % 7 ? 0 : WSD_CALL_SOCKET, &direct))
            atomic_fetch_add(&n_wrong, 1);
        atomic_fetch_add(&n_calls, 1);
        atomic_fetch_add(&n_direct, direct);
        if (i % 50 == 0)
            map(client);
    }
    return NULL;
}

/* 0, or which of them did not fail. */
static int ask_all(struct wsd_client *client)
{
    const struct wsd_submit job = {.size = sizeof(job), .plugin = plugin, .function = function};
    const struct wsd_item item = {.size = sizeof(item)};
    const struct wsd_call_request q = {.size = sizeof(q), .plugin = plugin, .function = function};
    struct wsd_call_result r = {.size = sizeof(r)};
    struct wsd_call *call;
    const int codes[] = {
        wsd_call(client, &q, &r),
        wsd_client_ping(client, NULL),
        wsd_client_submit(client, &job, NULL, &call),
        wsd_map(client, &job, 0, &item, 1, NULL, NULL),
        wsd_client_process(client),
        wsd_client_reconnect(client, 0),
    };

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (codes[i] != -ECHILD)
            return 1 + (int)i;
    return 0;
}

static int child(int number)
{
    bool direct;
    int r = 0;

    alarm(60); /* it hangs */
    for (int i = 0; i < THREADS && r == 0; i++) {
        r = ask_all(clients[i]);
        clients[i] = wsd_client_free(clients[i]);
    }
    if (r || number % 10)
        return r;
    struct wsd_client *own = NULL;
    if (wsd_client_open(&own, NULL, 0) < 0 || !echo(own, "of its own", 0, &direct))
        r = 100;
    wsd_client_free(own);
    return r;
}

static bool fork_one(int number)
{
    const struct timespec pause = {.tv_nsec = (long)(rand() % 3000) * 1000};
    int status;

    nanosleep(&pause, NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(number));
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    if (status)
        fprintf(stderr, "child %d: status %x\n", number, (unsigned)status);
    return status == 0;
}

int main(int argc, char **argv)
{
    int children = argc > 2 ? atoi(argv[1]) : 0, n_bad = 0;
    pthread_t threads[THREADS];

    if (argc < 3 || !strchr(argv[2], ':'))
        return 64;
    snprintf(plugin, sizeof(plugin), "%s", argv[2]);
    function = strchr(plugin, ':');
    *function++ = 0;
    for (int i = 0; i < THREADS; i++)
        if (wsd_client_open(&clients[i], NULL, 0) < 0)
            return 69;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &clients[i]);
    for (int i = 0; i < children; i++)
        n_bad += !fork_one(i);
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        wsd_client_free(clients[i]);
    printf("children=%d bad=%d calls=%lu direct=%lu items=%lu wrong=%lu\n", children, n_bad, atomic_load(&n_calls),
           atomic_load(&n_direct), atomic_load(&n_items), atomic_load(&n_wrong));
    return n_bad || atomic_load(&n_wrong);
}
