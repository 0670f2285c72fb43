/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-client.c: any bytes from a peer that claims to be wsd, through the client library.
 * Input: a byte of flags, the size of the script (a byte), the script, the stream. Flag bit 0: a right WELCOME comes
 * first. Bit 1: that WELCOME offers all features, so that calls go in arrays and batches. The script says how the
 * stream is cut and what the user does when. The linker puts stand-ins where the library asks the kernel, so that
 * nothing waits.
 * Keeps: Each call that is not freed is told its end exactly once, and nothing after it. Nothing is told after a call
 * is freed. Output comes in order. Texts are valid texts, and wsd_client_error() returns one line. */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/escape.h"
#include "proto/codec.h"
#include "wsd/client.h"

#define CALLS      16
#define PLAIN      5 /* from here on: gathered into one array */
#define IN_BATCH   8
#define LEFT       13
#define TURNS_MAX  64
#define STREAM_MAX (70u * 1024u)

int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
ssize_t __wrap_recv(int fd, void *data, size_t size, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *header, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *header, int flags);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask);

struct user {
    struct wsd_call *call;
    unsigned n_done;
    bool freed;
};

static struct wsd_client *client;
static struct user users[CALLS];
static struct wsd_batch *batch;
static const uint8_t *script, *stream;
static size_t script_size, stream_size, welcome_size;
static bool opened;

static unsigned choice(void)
{
    if (script_size == 0)
        return 0;
    script_size--;
    return *script++;
}

/* --- the kernel --------------------------------------------------------------------------------------------------- */

int __wrap_socket(int domain, int type, int protocol)
{
    return open("/dev/null", O_RDWR | O_CLOEXEC);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size)
{
    return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    return 0;
}

ssize_t __wrap_recv(int fd, void *data, size_t size, int flags)
{
    unsigned cut = welcome_size ? 0 : choice();
    size_t n = cut == 0 ? stream_size : cut < 128 ? cut : 16 * (size_t)cut;

    if (cut == 255) {
        errno = EAGAIN;
        return -1;
    }
    if (welcome_size) { /* alone: what is behind it is for calls that are not made yet */
        n = welcome_size;
        welcome_size = 0;
    }
    n = n < stream_size ? n : stream_size;
    n = n < size ? n : size;
    memcpy(data, stream, n);
    stream += n;
    stream_size -= n;
    return (ssize_t)n;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *header, int flags)
{
    header->msg_controllen = 0;
    header->msg_flags = 0;
    return __wrap_recv(fd, header->msg_iov->iov_base, header->msg_iov->iov_len, flags);
}

ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    unsigned how = choice();

    if (how >= 250) {
        errno = how == 250 ? EPIPE : EAGAIN;
        return -1;
    }
    return (ssize_t)(how == 0 || how > size ? size : how);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *header, int flags)
{
    return __wrap_send(fd, header->msg_iov->iov_base, header->msg_iov->iov_len, flags);
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
    if (n == 0 || choice() & 1)
        return 0;
    fds->revents = POLLIN;
    return 1;
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    fds->revents = (short)(POLLIN | (fds->events & POLLOUT));
    if (choice() < 255)
        return 1;
    fds->revents = 0;
    if (timeout)
        return 0;
    errno = EINTR;
    return -1;
}

/* --- the user ----------------------------------------------------------------------------------------------------- */

static void act(void);

static void check_words(void)
{
    const char *words = wsd_client_error(client);
    char shown[512];

    FUZZ_CHECK(strlen(words) < sizeof(shown) && wsd_client_exit(client) < 256);
    escape_text(shown, sizeof(shown), words);
    FUZZ_CHECK(strcmp(shown, words) == 0);
}

static void check_info(const struct wsd_job_info *info)
{
    FUZZ_CHECK(strlen(info->plugin) < CODEC_PATH_MAX && strlen(info->function) < CODEC_NAME_MAX);
    FUZZ_CHECK(strlen(info->error) < CODEC_TEXT_MAX && strlen(info->status) < CODEC_TEXT_MAX);
    FUZZ_CHECK(strlen(info->worker) < CODEC_NAME_MAX && wsd_job_state_name(info->state));
}

static struct user *told(void *userdata)
{
    struct user *u = userdata;

    FUZZ_CHECK(!u->freed && u->n_done == 0);
    return u;
}

static void free_call(struct user *u)
{
    if (!u->call)
        return;
    u->freed = true;
    u->call = wsd_call_free(u->call);
}

static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    told(userdata);
    act();
}

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    unsigned sum = 0;

    told(userdata);
    for (size_t i = 0; i < size; i++)
        sum += ((const uint8_t *)data)[i];
    act();
    for (size_t i = 0; i < size; i++) /* valid until we return, whatever we did */
        sum -= ((const uint8_t *)data)[i];
    FUZZ_CHECK(sum == 0);
    return choice() > 200;
}

static void on_message(struct wsd_call *call, int level, const char *text, void *userdata)
{
    char was[CODEC_TEXT_MAX];

    told(userdata);
    FUZZ_CHECK(strlen(text) < CODEC_TEXT_MAX && level >= 0 && level < 8);
    strcpy(was, text);
    act();
    FUZZ_CHECK(strcmp(text, was) == 0);
}

static void on_progress(struct wsd_call *call, uint64_t done, uint64_t total, void *userdata)
{
    told(userdata);
    act();
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct user *u = told(userdata);
    size_t size;

    /* done as soon as it is accepted: then nothing is known of its end; a wsd that tells that one first is strange, but
     * understood */
    bool left = u >= &users[LEFT] && u < &users[CALLS - 1];

    FUZZ_CHECK(error <= 0 && text && (error ? !info : info || left));
    if (info) {
        check_info(info);
        FUZZ_CHECK(info->state >= (enum wsd_job_state)CODEC_STATE_FINAL);
    }
    FUZZ_CHECK(wsd_call_output(call, &size));
    u->n_done++;
    act();
}

static int each_job(const struct wsd_job_info *info, void *userdata)
{
    char plugin[CODEC_PATH_MAX], worker[CODEC_NAME_MAX];

    check_info(info);
    strcpy(plugin, info->plugin);
    strcpy(worker, info->worker);
    act();
    FUZZ_CHECK(strcmp(info->plugin, plugin) == 0 && strcmp(info->worker, worker) == 0);
    return choice() == 1;
}

static int each_plugin(const struct wsd_plugin_info *info, void *userdata)
{
    char name[CODEC_NAME_MAX];

    strcpy(name, info->name);
    act();
    FUZZ_CHECK(strcmp(info->name, name) == 0);
    for (size_t i = 0; i < info->n_functions; i++)
        FUZZ_CHECK(strlen(info->functions[i].name) < CODEC_NAME_MAX && info->functions[i].help);
    return strlen(info->name) + strlen(info->error) > 4000;
}

static int each_reload(const struct wsd_reload_info *info, void *userdata)
{
    char name[CODEC_NAME_MAX];

    strcpy(name, info->name);
    act();
    FUZZ_CHECK(strcmp(info->name, name) == 0 && strlen(info->build) < CODEC_BUILD_MAX &&
               strlen(info->old_build) < CODEC_BUILD_MAX && strlen(info->version) < CODEC_NAME_MAX &&
               info->outcome >= WSD_RELOAD_FIRST && info->outcome <= WSD_RELOAD_KEPT);
    return strlen(info->error) > 1000;
}

static int each_counter(const char *name, uint64_t value, void *userdata)
{
    return strlen(name) > 1000;
}

static int each_worker(const struct wsd_worker_info *info, void *userdata)
{
    for (size_t i = 0; i < info->n_counters; i++)
        FUZZ_CHECK(strlen(info->counters[i].name) < CODEC_NAME_MAX);
    return 0;
}

static int each_function(const struct wsd_function_stats *stats, void *userdata)
{
    const struct wsd_histogram *h = &stats->run_usec;

    FUZZ_CHECK(strlen(stats->plugin) < CODEC_PATH_MAX && strlen(stats->function) < CODEC_NAME_MAX);
    FUZZ_CHECK(wsd_histogram_quantile(h, 0.5) <= h->max && wsd_histogram_quantile(h, 1) == h->max);
    for (size_t i = 0; i < h->n_buckets; i++)
        FUZZ_CHECK(h->buckets[i].low <= h->buckets[i].high && h->buckets[i].count);
    act();
    return 0;
}

static int each_action(const struct wsd_action_info *info, void *userdata)
{
    FUZZ_CHECK(strlen(info->person) < CODEC_PERSON_MAX && strlen(info->action) < CODEC_NAME_MAX &&
               strlen(info->object) < CODEC_TEXT_MAX && info->exit >= 0 && info->exit <= 255);
    act();
    return 0;
}

static int each_executor(const struct wsd_executor_info *info, void *userdata)
{
    act();
    return 0;
}

static int each_event(const void *data, size_t size, void *userdata)
{
    act();
    return size && ((const uint8_t *)data)[size - 1] == 1;
}

static void submit(struct user *u, unsigned how)
{
    static const char input[100000];
    static const char *const args[] = {"-f", "file", "/dev/null"};
    struct wsd_callbacks callbacks = {.size = sizeof(callbacks),
                                      .accepted = on_accepted,
                                      .output = how & 1 ? on_output : NULL,
                                      .message = on_message,
                                      .progress = on_progress,
                                      .done = on_done,
                                      .userdata = u};
    struct wsd_submit request = {.size = sizeof(request),
                                 .plugin = "echo",
                                 .args = args,
                                 .n_args = 3,
                                 .input = input,
                                 .input_size = how & 2 ? sizeof(input) : 0,
                                 .flags = (how & 4 ? WSD_SUBMIT_STREAM : 0) | (how & 8 ? WSD_SUBMIT_DETACH : 0)};
    struct wsd_id id = {{0}};
    int r = how & 16 ? wsd_client_attach(client, &id, &callbacks, &u->call)
                     : wsd_client_submit(client, &request, &callbacks, &u->call);

    if (r < 0)
        u->call = NULL;
}

static void ask(unsigned what)
{
    struct wsd_job_info info = {.size = sizeof(info)};
    struct wsd_id id = {{1}};

    switch (what) {
    case 0:
        if (wsd_client_job(client, &id, &info) == 0)
            check_info(&info);
        break;
    case 1:
        wsd_client_list(client, each_job, NULL);
        break;
    case 2:
        wsd_client_plugins(client, "echo", each_plugin, NULL);
        break;
    case 3:
        wsd_client_stats(client, each_counter, NULL);
        break;
    case 4:
        wsd_client_workers(client, each_worker, each_executor, NULL);
        break;
    case 5:
        wsd_client_trace_stop(client, each_executor, each_event, NULL);
        break;
    case 6:
        wsd_client_cancel(client, &id);
        break;
    default:
        wsd_client_ping(client, NULL);
    }
}

/* --- arrays and batches --- */

static const struct wsd_submit common = {.size = sizeof(common), .plugin = "echo", .function = "echo"};

static struct wsd_item item_of(const char *const *args, size_t n_args)
{
    return (struct wsd_item){
        .size = sizeof(struct wsd_item), .args = args, .n_args = n_args, .input = "input", .input_size = 5};
}

/* Each in the array of its like: three plain ones, five of a batch, two detached ones, one that outlives us. */
static void submit_many(void)
{
    static const char *const args[] = {"one", "two"};
    const struct wsd_item item = item_of(args, 2);

    if (wsd_batch_open(client, &common, choice() & (WSD_BATCH_KEEP_GOING | WSD_BATCH_WAIT), &batch) < 0)
        batch = NULL;
    for (size_t i = PLAIN; i < CALLS; i++) {
        struct user *u = &users[i];
        struct wsd_callbacks callbacks = {.size = sizeof(callbacks),
                                          .output = i & 1 ? on_output : NULL,
                                          .message = on_message,
                                          .done = on_done,
                                          .userdata = u};
        struct wsd_submit request = common;
        int r;

        if (i % 3 == 0)
            callbacks.accepted = on_accepted;
        request.flags = i == CALLS - 1 ? WSD_SUBMIT_DETACH : i >= LEFT ? WSD_SUBMIT_DETACH | WSD_SUBMIT_LEAVE : 0;
        request.input = "input";
        request.input_size = 5;
        if (i < IN_BATCH || i >= LEFT)
            r = wsd_client_submit(client, &request, &callbacks, &u->call);
        else
            r = batch ? wsd_batch_submit(batch, &item, &callbacks, &u->call) : -1;
        if (r < 0)
            u->call = NULL;
    }
}

static int each_item(size_t index, int error, const struct wsd_job_info *info, const void *output, size_t output_size,
                     const char *text, void *userdata)
{
    unsigned *told = userdata;

    FUZZ_CHECK(index < 3 && !told[index]++ && error <= 0 && text && (error == 0) == (info != NULL) && output);
    if (info)
        check_info(info);
    act();
    return choice() == 2;
}

static void map_some(unsigned flags)
{
    static const char *const args[] = {"one"};
    const struct wsd_item items[3] = {item_of(args, 1), item_of(NULL, 0), item_of(args, 1)};
    unsigned told[3] = {0};
    int r = wsd_map(client, &common, flags & WSD_BATCH_KEEP_GOING, items, 3, each_item, told);

    FUZZ_CHECK(r != 0 || (told[0] && told[1] && told[2]));
}

static void on_batch(const struct wsd_batch_info *info, void *userdata)
{
    act();
}

static void ask_batch(unsigned what)
{
    struct wsd_batch_info info = {.size = sizeof(info)};
    const struct wsd_id id = {{1}};

    if (what < 5 && !batch)
        return;
    switch (what) {
    case 0:
        wsd_batch_close(batch);
        break;
    case 1:
        wsd_batch_cancel(batch);
        break;
    case 2:
        wsd_batch_look(batch, &info);
        break;
    case 3:
        wsd_batch_wait(batch, 1000, &info);
        break;
    case 4: {
        struct wsd_batch *b = batch;

        batch = NULL; /* callbacks during the free find no batch */
        wsd_batch_free(b);
        break;
    }
    case 5:
        wsd_client_batch(client, &id, &info);
        break;
    case 6:
        wsd_client_batch_await(client, &id, 1000, on_batch, NULL, &info);
        break;
    default:
        wsd_client_batch_cancel(client, &id);
    }
}

/* Something, or (as the script says, and at its end) nothing. */
static void act(void)
{
    unsigned what = choice();
    struct user *u = &users[what % 8 + (what & 128 ? 8 : 0)];

    switch (what % 128 / 8) {
    case 1:
        free_call(u);
        break;
    case 2:
        if (u->call)
            wsd_call_resume(u->call);
        break;
    case 3:
        if (u->call)
            wsd_call_cancel(u->call);
        break;
    case 4:
        if (u->call)
            wsd_call_feed(u->call, "some more", 9, what & 1);
        break;
    case 5:
        if (u->call)
            wsd_call_wait(u->call, 1000, NULL);
        break;
    case 6:
        wsd_client_process(client);
        break;
    case 7:
        ask(what % 8);
        break;
    case 8:
        wsd_client_plugin_reload(client, "echo", each_reload, NULL);
        break;
    case 9:
        ask_batch(what % 8);
        break;
    case 10:
        map_some(what);
        break;
    case 11:
        wsd_client_functions(client, NULL, each_function, NULL);
        break;
    case 12:
        wsd_client_actions(client, what, each_action, NULL);
        break;
    default:
        return;
    }
    check_words();
}

static void use(bool many)
{
    static const unsigned hows[PLAIN] = {0, 1 | 2, 4, 1 | 16, 1 | 8};

    for (size_t i = 0; i < PLAIN; i++)
        submit(&users[i], hows[i]);
    if (many)
        submit_many();
    for (int i = 0; i < TURNS_MAX; i++) {
        act();
        if (wsd_client_process(client) < 0)
            break;
    }
    check_words();
}

static void run(const uint8_t *data, size_t size)
{
    static uint8_t bytes[STREAM_MAX + FRAME_MAX];
    struct msg welcome = {.type = FRAME_WELCOME, .welcome = {.version = 1, .program = {"wsd", 3}, .window = 65536}};
    size_t n = 0;

    opened = false;
    if (data[0] & 2)
        welcome.welcome.features = UINT64_MAX;
    if (data[0] & 1)
        n = codec_encode(&welcome, 0, 0, bytes, sizeof(bytes));
    script = data + 2;
    script_size = data[1] < size - 2 ? data[1] : size - 2;
    memcpy(bytes + n, script + script_size, size - 2 - script_size);
    stream = bytes;
    stream_size = n + size - 2 - script_size;
    welcome_size = n;
    memset(users, 0, sizeof(users));
    batch = NULL;
    opened = wsd_client_open(&client, "/nowhere", 1000000) == 0;
    if (opened)
        use(data[0] & 2);
    else
        check_words();
    client = wsd_client_free(client);
    for (size_t i = 0; i < CALLS; i++)
        FUZZ_CHECK(!users[i].call || users[i].freed || users[i].n_done == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool works;

    /* where the library asks the kernel by a call that has no stand-in, nothing is fuzzed at all */
    if (!works)
        run((const uint8_t[]){1, 0}, 2);
    FUZZ_CHECK(works || opened);
    works = true;
    if (size >= 2 && size <= STREAM_MAX)
        run(data, size);
    return 0;
}
