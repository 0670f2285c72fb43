/* SPDX-License-Identifier: Apache-2.0
 *
 * client.c: what libwsclient costs a real program: a service of HTTP on libuv that answers each request when a job has
 * ended. By uv_queue_work(), the program's own threads, and by wsd: through the socket and through the direct lane.
 *
 *     bench-client client WORKERS WSD EXECUTOR DIRECTORY     DIRECTORY: of the plugin work.so.
 *     bench-client load SOCKET PATH CONNECTIONS              of any service: requests a second
 *
 * A client with 16 connections, each with one request at a time, loads the service for SECONDS. Of the service counts
 * what it answers, and its own CPU time; jobs that it hands to wsd are not in that. Then 64 jobs of 5 us in flight,
 * without HTTP. */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <uv.h>
#include <wsd/adapters/libuv.h>

#include "daemon.h"

#define SECONDS     2u
#define CONNECTIONS 16u
#define FLIGHT      64u
#define FLIGHT_USEC 5u

enum way { BY_THREADS, BY_SOCKET, BY_LANE, N_WAYS };
static const char *const ways[N_WAYS] = {"threads", "socket", "direct"};

/* --- the load ----------------------------------------------------------------------------------------------------- */

static int connect_to(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    for (int i = 0; i < 500; i++, usleep(10000))
        if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
            return fd;
    give_up("the service does not answer");
    return -1;
}

/* One at a time is on its way, and it is so small that it comes whole. */
static bool is_answer(const char *data, size_t size)
{
    return memmem(data, size, "\r\n\r\n", 4) && strncmp(data, "HTTP/1.1 200", 12) == 0;
}

/* Requests a second. */
static double load(const char *path, const char *where, unsigned n, unsigned seconds)
{
    char request[128], data[4096];
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC), fds[256];
    size_t size = (size_t)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", where);
    struct epoll_event events[64];
    uint64_t answers = 0, begin = 0, end = 0;

    for (unsigned i = 0; i < n; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};

        fds[i] = connect_to(path);
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fds[i], &e);
        if (write(fds[i], request, size) != (ssize_t)size)
            give_up("write");
    }
    for (uint64_t now = 0; !end || now < end; now = now_nsec()) {
        int k = epoll_wait(epoll_fd, events, 64, 5000);

        if (k <= 0)
            give_up("the service stands still");
        for (int i = 0; i < k; i++) {
            int fd = fds[events[i].data.u32];
            ssize_t got = read(fd, data, sizeof(data));

            if (got <= 0 || !is_answer(data, (size_t)got))
                give_up("the service gives no answer");
            answers++;
            if (write(fd, request, size) != (ssize_t)size)
                give_up("write");
        }
        if (!end && answers >= 2000) { /* warm: it has its lane */
            begin = now_nsec();
            end = begin + seconds * 1000000000ull;
            answers = 0;
        }
    }
    double rate = (double)answers * 1e9 / (double)(now_nsec() - begin);
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
    close(epoll_fd);
    return rate;
}

/* --- the service -------------------------------------------------------------------------------------------------- */

static enum way way;
static unsigned job_usec;
static char job_text[16];

struct visitor {
    uv_pipe_t pipe;
    uv_work_t work;
    uv_write_t write;
    char data[1024];
    size_t size;
    bool busy, left;
};

static void burn(unsigned usec)
{
    for (uint64_t until = usec ? now_nsec() + usec * 1000u : 0; usec && now_nsec() < until;)
        ;
}

static void gone(uv_handle_t *handle)
{
    struct visitor *v = handle->data;

    v->left = true;
    if (!v->busy)
        free(v);
}

static void answer(struct visitor *v)
{
    v->busy = false;
    if (v->left || uv_is_closing((uv_handle_t *)&v->pipe)) {
        if (v->left)
            free(v);
        return;
    }

    static char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    uv_buf_t b = uv_buf_init(text, sizeof(text) - 1);

    uv_write(&v->write, (uv_stream_t *)&v->pipe, &b, 1, NULL);
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    if (error || info->state != WSD_JOB_SUCCEEDED)
        give_up(text);
    wsd_call_free(call);
    if (userdata)
        answer(userdata);
}

static void submit(void *userdata, void (*done)(struct wsd_call *call, int error, const struct wsd_job_info *info,
                                                const char *text, void *userdata))
{
    const char *const args[] = {job_text};
    const struct wsd_submit job = {.size = sizeof(job),
                                   .plugin = "work",
                                   .function = "spin",
                                   .args = args,
                                   .n_args = 1,
                                   .output_size = way == BY_LANE ? 16 : 0,
                                   .flags = way == BY_LANE ? WSD_SUBMIT_DIRECT : 0};
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = done, .userdata = userdata};

    if (wsd_client_submit(client, &job, &callbacks, NULL) < 0)
        give_up("submit");
}

static void in_thread(uv_work_t *work)
{
    burn(job_usec);
}

static void after_thread(uv_work_t *work, int status)
{
    answer(work->data);
}

static void room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct visitor *v = handle->data;

    *ret = uv_buf_init(v->data + v->size, (unsigned)(sizeof(v->data) - v->size));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct visitor *v = stream->data;

    if (n < 0) {
        uv_close((uv_handle_t *)stream, gone);
        return;
    }
    v->size += (size_t)n;
    if (!memmem(v->data, v->size, "\r\n\r\n", 4))
        return;
    v->size = 0;
    v->busy = true;
    if (way == BY_THREADS)
        uv_queue_work(stream->loop, &v->work, in_thread, after_thread);
    else
        submit(v, on_done);
}

static void on_visitor(uv_stream_t *server, int status)
{
    struct visitor *v = calloc(1, sizeof(*v));

    uv_pipe_init(server->loop, &v->pipe, 0);
    v->pipe.data = v->work.data = v;
    if (uv_accept(server, (uv_stream_t *)&v->pipe) < 0 || uv_read_start((uv_stream_t *)&v->pipe, room, on_read) < 0)
        give_up("accept");
}

static void on_signal(uv_signal_t *signal, int number)
{
    uv_stop(signal->loop);
}

_Noreturn static void serve(const char *path)
{
    uv_loop_t *loop = uv_default_loop();
    struct wsd_libuv *w = NULL;
    uv_signal_t term;
    uv_pipe_t server;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    client = NULL;
    if (way != BY_THREADS) {
        connect_client();
        if (wsd_libuv_attach(&w, loop, client) < 0)
            give_up("attach");
    }
    uv_signal_init(loop, &term);
    uv_signal_start(&term, on_signal, SIGTERM);
    uv_pipe_init(loop, &server, 0);
    if (uv_pipe_bind(&server, path) < 0 || uv_listen((uv_stream_t *)&server, 64, on_visitor) < 0)
        give_up("listen");
    uv_run(loop, UV_RUN_DEFAULT);
    _exit(0);
}

static double cpu_usec(pid_t pid)
{
    char path[64], line[512] = "";
    unsigned long user, system;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f || !fgets(line, sizeof(line), f) ||
        sscanf(strrchr(line, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        give_up("/proc");
    fclose(f);
    return (double)(user + system) * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

static void service(enum way of, unsigned usec)
{
    char path[80], params[80];

    way = of;
    job_usec = usec;
    snprintf(job_text, sizeof(job_text), "%u", usec);
    snprintf(path, sizeof(path), "%s.http-%s-%u", socket_path, ways[way], usec);
    pid_t pid = fork();
    if (pid == 0)
        serve(path);
    load(path, "/", CONNECTIONS, 1);
    double before = cpu_usec(pid), rate = load(path, "/", CONNECTIONS, SECONDS), used = cpu_usec(pid) - before;
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    snprintf(params, sizeof(params), "way=%s,job=%uus", ways[way], usec);
    say(params, "us/request", 1e6 / rate);
    snprintf(params, sizeof(params), "way=%s,job=%uus,cpu=application", ways[way], usec);
    say(params, "us/request", used / (rate * SECONDS));
}

/* --- without HTTP ------------------------------------------------------------------------------------------------- */

static uint64_t n_left, n_told;

static void on_next(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    on_done(call, error, info, text, NULL);
    n_told++;
    if (n_left) {
        n_left--;
        submit(NULL, on_next);
    }
}

static uint64_t own_cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void flight(enum way of, uint64_t n)
{
    char params[80];

    way = of;
    snprintf(job_text, sizeof(job_text), "%u", FLIGHT_USEC);
    for (int warm = 1; warm >= 0; warm--) {
        uint64_t begin = now_nsec(), cpu = own_cpu();

        n_told = 0;
        n_left = n - FLIGHT;
        for (unsigned i = 0; i < FLIGHT; i++)
            submit(NULL, on_next);
        while (n_told < n)
            if (wsd_client_wait(client, 5000000) < 0)
                give_up("wait");
        if (warm)
            continue;
        snprintf(params, sizeof(params), "way=%s,flight=%u,job=%uus", ways[way], FLIGHT, FLIGHT_USEC);
        say(params, "us/job", (double)(now_nsec() - begin) / 1e3 / (double)n);
        snprintf(params, sizeof(params), "way=%s,flight=%u,job=%uus,cpu=application", ways[way], FLIGHT, FLIGHT_USEC);
        say(params, "us/job", (double)(own_cpu() - cpu) / 1e3 / (double)n);
    }
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "load") == 0) {
        load(argv[2], argv[3], (unsigned)atoi(argv[4]), 1);
        say(argv[3], "us/request", 1e6 / load(argv[2], argv[3], (unsigned)atoi(argv[4]), SECONDS));
        return 0;
    }
    if (argc != 6)
        return 64;
    start_wsd(argv + 2, "");
    struct wsd_client *own = client;
    for (unsigned usec = 0; usec <= 100; usec += 100)
        for (unsigned i = 0; i < N_WAYS; i++)
            service((enum way)i, usec);
    client = own;
    flight(BY_SOCKET, 100000);
    flight(BY_LANE, 100000);
    stop_wsd();
}
