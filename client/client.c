/* SPDX-License-Identifier: Apache-2.0
 *
 * client.c: the connection: handshake, bytes in and out, which request a frame belongs to.
 * Owns the socket, both buffers, descriptors on their way out, and the table of open requests. One thread a handle.
 * Keeps: every open request is told exactly once that the connection is over. No descriptor that wsd sends stays open.
 * SIGPIPE never comes. Nothing that wsd sends is trusted before it is checked.
 * Does not know jobs (call.c) or questions (query.c). */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/code.h"
#include "base/escape.h"
#include "base/socket.h"
#include "config.h"

#define READ_SIZE      (128u * 1024u)
#define RECONNECT_MSEC 20 /* between two tries */
#define FEATURES                                                                                                       \
    (FEATURE_LANE | FEATURE_FORGET | FEATURE_PAYLOAD | FEATURE_BRIEF | FEATURE_STORE | FEATURE_TIME | FEATURE_ORDER |  \
     FEATURE_WHERE | FEATURE_ARRAY | FEATURE_LIMITS | FEATURE_ALIKE | FEATURE_ENDS)
#define READ_MAX 16 /* receives before the caller gets its turn again */

/* --- words -------------------------------------------------------------------------------------------------------- */

int client_wants_store(struct wsd_client *client)
{
    if (client->features & FEATURE_STORE)
        return 0;
    return failure_set(&client->failure, -EOPNOTSUPP, CODE_PROTOCOL, "%s has no durable jobs, keys and retries",
                       client->daemon_version);
}

int client_wants_where(struct wsd_client *client)
{
    if (client->features & FEATURE_WHERE)
        return 0;
    return failure_set(&client->failure, -EOPNOTSUPP, CODE_PROTOCOL,
                       "%s knows no filters: list all, and choose from that", client->daemon_version);
}

int client_wants_batches(struct wsd_client *client)
{
    if (client->features & FEATURE_ARRAY)
        return 0;
    return failure_set(&client->failure, -EOPNOTSUPP, CODE_PROTOCOL, "%s knows no batches", client->daemon_version);
}

int client_wants_time(struct wsd_client *client)
{
    if (client->features & FEATURE_TIME)
        return 0;
    return failure_set(&client->failure, -EOPNOTSUPP, CODE_PROTOCOL,
                       "%s has no delays, times in the queue and schedules", client->daemon_version);
}

int client_wants_order(struct wsd_client *client)
{
    if (client->features & FEATURE_ORDER)
        return 0;
    return failure_set(&client->failure, -EOPNOTSUPP, CODE_PROTOCOL,
                       "%s knows neither jobs that run after others nor tags", client->daemon_version);
}

int client_wants_limits(struct wsd_client *client)
{
    if (client->features & FEATURE_LIMITS)
        return 0;
    return failure_set(&client->failure, -EOPNOTSUPP, CODE_PROTOCOL, "%s has no limits that can be shown or moved",
                       client->daemon_version);
}

uint64_t wsd_client_retry_usec(const struct wsd_client *client)
{
    return client ? client->failure.retry_usec : 0;
}

const char *wsd_client_error(const struct wsd_client *client)
{
    return client ? client->failure.text : "out of memory";
}

int wsd_client_exit(const struct wsd_client *client)
{
    return client ? client->failure.exit : CODE_IO;
}

static int broken_error(struct wsd_client *client)
{
    return failure_set(&client->failure, client->broken, client->broken_exit, "%s", client->reason);
}

void client_break(struct wsd_client *client, int error, int exit, const char *format, ...)
{
    va_list args;

    if (client->broken)
        return;
    char text[sizeof(client->reason)];

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    escape_text(client->reason, sizeof(client->reason), text);
    client->broken = error;
    client->broken_exit = exit;
    broken_error(client);
    while (!list_empty(&client->open)) {
        struct request *request = container_of(client->open.next, struct request, open);

        request->broken(client, request);
    }
    broken_error(client); /* callbacks may have had failures of their own */
}

void client_break_protocol(struct wsd_client *client, const char *what, uint16_t type)
{
    client_break(client, client->welcomed ? -ECONNRESET : -EPROTO, CODE_PROTOCOL,
                 "wsd does not keep to the protocol: %s %s", what, codec_type_name(type));
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static struct request *request_find(struct wsd_client *client, uint32_t tag)
{
    struct hash_link *link = hash_first(&client->requests, hash_mix(tag));

    return link ? container_of(link, struct request, link) : NULL; /* the mix is one to one */
}

int client_request_open(struct wsd_client *client, struct request *request)
{
    do
        client->next_tag++;
    while (client->next_tag == 0 || request_find(client, client->next_tag));
    request->tag = client->next_tag;
    if (hash_insert(&client->requests, &request->link, hash_mix(request->tag)) < 0)
        return -ENOMEM;
    request->listed = true;
    list_push_back(&client->open, &request->open);
    return 0;
}

void client_request_unlist(struct wsd_client *client, struct request *request)
{
    if (request->listed)
        hash_remove(&client->requests, &request->link);
    request->listed = false;
}

void client_request_close(struct wsd_client *client, struct request *request)
{
    client_request_unlist(client, request);
    list_remove(&request->open);
}

/* --- frames in -----------------------------------------------------------------------------------------------------
 */

static void handle_welcome(struct wsd_client *client, const struct msg_welcome *welcome)
{
    if (welcome->version < PROTOCOL_VERSION_MIN || welcome->version > PROTOCOL_VERSION_MAX) {
        client_break(client, -EPROTONOSUPPORT, CODE_PROTOCOL, "wsd speaks protocol version %u, this library %u to %u",
                     welcome->version, PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX);
        return;
    }
    client->welcomed = true;
    client->window = welcome->window;
    client->features = welcome->features & FEATURES;
    escape_text(client->daemon_version, sizeof(client->daemon_version), (const char *)welcome->program.data);
}

/* Frames about the connection itself. */
static void handle_connection(struct wsd_client *client, const struct msg *msg)
{
    if (msg->type == FRAME_WELCOME && !client->welcomed) {
        handle_welcome(client, &msg->welcome);
    } else if (msg->type == FRAME_ERROR) {
        int error = error_of_exit(msg->error.code), exit = exit_of_error(error);

        if (error == -EPROTO)
            error = -EPROTONOSUPPORT; /* in the handshake: nothing in common */
        client_break(client, client->welcomed ? -ECONNRESET : error, exit, "%s",
                     msg->error.text.size ? msg->error.text.data : "wsd closed the connection");
    } else if (msg->type != FRAME_GOODBYE || !client->welcomed) {
        client_break_protocol(client, "unexpected", msg->type);
    }
    client->leaving |= msg->type == FRAME_GOODBYE;
    /* GOODBYE: open calls end as ever, new ones are refused by wsd with its own words. */
}

static void handle_frame(struct wsd_client *client, const struct frame *frame)
{
    struct request *request;
    struct msg msg;

    if (codec_decode(client->codec, frame, &msg) != 0) {
        client_break(client, client->welcomed ? -ECONNRESET : -EPROTO, CODE_PROTOCOL,
                     "wsd does not keep to the protocol: %s", codec_strerror(client->codec));
        return;
    }
    if (frame->tag == 0 || !client->welcomed) {
        handle_connection(client, &msg);
        return;
    }
    request = request_find(client, frame->tag);
    if (request)
        request->frame(client, request, frame, &msg);
    else if (msg.type == FRAME_OPEN)
        open_answer(client, NULL, frame->tag, &msg.open); /* every OPEN is answered */
}

/* We are inside a callback that still looks at a frame: leave its storage alone and go on with a copy of the rest. */
static int pin_storage(struct wsd_client *client)
{
    struct pin *pin = malloc(sizeof(*pin));
    struct codec *codec = NULL;
    struct buffer rest = {0};

    if (!pin || codec_new(&codec) < 0 ||
        buffer_put(&rest, client->in.data + client->in.start, buffer_size(&client->in)) < 0) {
        free(pin);
        codec_free(codec);
        buffer_deinit(&rest);
        client_break(client, -ECONNRESET, CODE_IO, "out of memory");
        return client->broken;
    }
    *pin = (struct pin){.next = client->pins, .in = client->in, .codec = client->codec};
    client->pins = pin;
    client->in = rest;
    client->codec = codec;
    client->busy = false;
    return 0;
}

static void unpin(struct wsd_client *client, struct pin *until)
{
    while (client->pins != until) {
        struct pin *pin = client->pins;

        client->pins = pin->next;
        buffer_deinit(&pin->in);
        codec_free(pin->codec);
        free(pin);
    }
}

static void client_process_frames(struct wsd_client *client)
{
    while (!client->broken && buffer_size(&client->in) > 0) {
        struct frame frame;
        size_t size = 0;
        int r = frame_parse(buffer_data(&client->in), buffer_size(&client->in), &frame, &size);

        if (r == FRAME_MORE)
            return;
        if (r == 0) {
            struct pin *mark = client->pins;

            /* Taken out first, so that a callback that processes the connection finds the next frame. The bytes stay in
             * place until the next receive, and that pins them. */
            buffer_drop(&client->in, size);
            client->busy = true;
            client->n_frames++;
            handle_frame(client, &frame);
            client->busy = false;
            unpin(client, mark);
        } else if (r == FRAME_E_VERSION) {
            client_break(client, client->welcomed ? -ECONNRESET : -EPROTONOSUPPORT, CODE_PROTOCOL, "wsd: %s",
                         frame_strerror(r));
        } else {
            client_break(client, client->welcomed ? -ECONNRESET : -EPROTO, CODE_PROTOCOL, "wsd: %s", frame_strerror(r));
        }
    }
}

/* --- bytes in ------------------------------------------------------------------------------------------------------
 */

/* Those of a lane that was asked for. */
static void keep_received(struct wsd_client *client, struct msghdr *header)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
            if (client->n_received < 2)
                client->received[client->n_received++] = fd;
            else
                close_fd(fd);
        }
    }
}

static ssize_t receive_with_fds(struct wsd_client *client, void *room)
{
    union {
        char bytes[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = room, .iov_len = READ_SIZE};
    struct msghdr header = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(client->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n > 0)
        keep_received(client, &header);
    return n;
}

/* wsd has no descriptors for us but those of a lane; what comes all the same the kernel closes. */
static ssize_t receive_bytes(struct wsd_client *client, void *room)
{
    if (client->tls)
        return remote_receive(client, room, READ_SIZE);
    return lane_awaits(client) ? receive_with_fds(client, room) : recv(client->fd, room, READ_SIZE, MSG_DONTWAIT);
}

/* One receive. Returns the bytes, 0 where there are none now; breaks the connection at its end. */
static size_t receive_once(struct wsd_client *client)
{
    uint8_t *room = buffer_reserve(&client->in, READ_SIZE);
    ssize_t n;

    if (!room) {
        client_break(client, -ECONNRESET, CODE_IO, "out of memory");
        return 0;
    }
    n = receive_bytes(client, room);
    if (n > 0) {
        buffer_commit(&client->in, (size_t)n);
        return (size_t)n;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && !client->send_failed)
        return 0;
    if (n < 0 && client->tls && (errno == EACCES || errno == EPROTO))
        client_break(client, client->welcomed ? -ECONNRESET : -errno, errno == EACCES ? CODE_DENIED : CODE_PROTOCOL,
                     "connection to wsd: %s", client->tls_ops->error(client->tls));
    else if (n < 0 && errno != EAGAIN && errno != ECONNRESET && errno != EINTR)
        client_break(client, -ECONNRESET, CODE_NO_DAEMON, "connection to wsd: %s", strerror(errno));
    else
        client_break(client, -ECONNRESET, CODE_NO_DAEMON, "wsd closed the connection");
    return 0;
}

/* For a call inside a callback: first handles the frames that were received together with the callback's own, since no
 * event would report them. Returns whether there were any. */
static bool process_rest(struct wsd_client *client)
{
    uint64_t before = client->n_frames;

    if (!client->busy)
        return false;
    if (pin_storage(client) == 0)
        client_process_frames(client);
    return client->broken || client->n_frames != before;
}

static void receive(struct wsd_client *client)
{
    for (int i = 0; i < READ_MAX && !client->broken; i++) {
        size_t n;

        if (client->busy && pin_storage(client) < 0)
            return;
        n = receive_once(client);
        client_process_frames(client);
        if (n < READ_SIZE)
            return;
    }
}

/* --- bytes out ------------------------------------------------------------------------------------------------------
 */

int client_failed(struct wsd_client *client, int error)
{
    return client->broken ? failure_set(&client->failure, -ECONNRESET, client->broken_exit, "%s", client->reason)
                          : failure_set(&client->failure, error, exit_of_error(error), "%s", strerror(-error));
}

int client_send(struct wsd_client *client, const struct msg *msg, uint32_t tag, const void *body, size_t body_size)
{
    int r = list_empty(&client->unsent) ? 0 : arrays_send(client);

    return r < 0 ? r : client_put(client, msg, tag, body, body_size);
}

int client_put(struct wsd_client *client, const struct msg *msg, uint32_t tag, const void *body, size_t body_size)
{
    size_t size = codec_room(msg);
    uint8_t *room;

    if (client->broken)
        return client->broken;
    room = buffer_reserve(&client->out, size + body_size);
    if (!room)
        return -ENOMEM;
    size = codec_encode(msg, tag, body_size, room, size);
    if (size == 0)
        return -EINVAL;
    if (body_size > 0)
        memcpy(room + size, body, body_size);
    buffer_commit(&client->out, size + body_size);
    return 0;
}

static void drop_opened(struct wsd_client *client)
{
    close_fd(client->opened[0].fd);
    client->n_opened--;
    memmove(client->opened, client->opened + 1, client->n_opened * sizeof(client->opened[0]));
}

/* With the first of opened. */
static ssize_t send_with_fd(struct wsd_client *client, const void *data, size_t size)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr header = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&header);
    ssize_t n;

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &client->opened[0].fd, sizeof(int));
    n = sendmsg(client->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        drop_opened(client);
    return n;
}

/* One send: up to the frame of the next descriptor, or beginning with it and up to the one after. */
static ssize_t send_once(struct wsd_client *client)
{
    const uint8_t *data = buffer_data(&client->out);
    size_t size = buffer_size(&client->out), next;
    bool attach = client->n_opened > 0 && client->opened[0].at == client->sent;

    if (client->tls)
        return client->tls_ops->send(client->tls, data, size);
    next = attach ? 1 : 0;
    if (next < client->n_opened)
        size = MIN(size, (size_t)(client->opened[next].at - client->sent));
    return attach ? send_with_fd(client, data, size) : send(client->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void flush(struct wsd_client *client)
{
    while (!client->broken && !client->send_failed && buffer_size(&client->out) > 0) {
        ssize_t n = send_once(client);

        if (n > 0) {
            client->sent += (uint64_t)n;
            buffer_drop(&client->out, (size_t)n);
        } else if (errno == EAGAIN || errno == ETOOMANYREFS) {
            return; /* ETOOMANYREFS: descriptors in flight; they get fewer */
        } else if (errno != EINTR) {
            /* wsd may have said why before it closed: that is read first, and its end ends the connection. */
            client->send_failed = true;
        }
    }
    if (buffer_size(&client->out) == 0)
        client->n_answers = 0;
}

int client_send_fd(struct wsd_client *client, const struct msg *msg, uint32_t tag, int fd)
{
    uint64_t at;
    int r;

    if (client->n_opened == OPENED_MAX)
        flush(client);
    if (client->n_opened == OPENED_MAX) {
        close_fd(fd);
        return -EAGAIN;
    }
    r = arrays_send(client);
    at = client->sent + buffer_size(&client->out);
    r = r < 0 ? r : client_put(client, msg, tag, NULL, 0);
    if (r < 0)
        close_fd(fd);
    else
        client->opened[client->n_opened++] = (struct opened){.at = at, .fd = fd};
    return r;
}

bool wsd_client_takes_files(const struct wsd_client *client)
{
    return client->features & FEATURE_PAYLOAD && !client->tls;
}

void client_send_early(struct wsd_client *client)
{
    arrays_send(client); /* if either fails, the next turn repeats it, and reports it */
    flush(client);
}

static void flush_and_pump(struct wsd_client *client)
{
    for (;;) {
        flush(client);
        if (buffer_size(&client->out) > 0)
            return;          /* the socket is full */
        arrays_send(client); /* no memory now: the next turn repeats it */
        call_pump(client);
        if (buffer_size(&client->out) == 0)
            return;
    }
}

/* --- the event loop's calls -----------------------------------------------------------------------------------------
 */

int wsd_client_fd(const struct wsd_client *client)
{
    return client->fd;
}

short wsd_client_events(const struct wsd_client *client)
{
    bool writes = ((buffer_size(&client->out) > 0 || !list_empty(&client->unsent)) && !client->send_failed) ||
                  (client->tls && client->tls_ops->recv_waits_to_write(client->tls));

    return (short)(POLLIN | (writes ? POLLOUT : 0));
}

int wsd_client_process(struct wsd_client *client)
{
    if (!client->broken) {
        flush_and_pump(client);
        receive(client);
        flush_and_pump(client);
        if (client->send_failed && !client->broken)
            receive(client);
        client_reap(client);
    }
    return client->broken ? broken_error(client) : 0;
}

int wsd_client_flush(struct wsd_client *client)
{
    if (!client->broken) {
        flush_and_pump(client); /* where it fails, the descriptor is readable */
        client_reap(client);
    }
    return client->broken ? broken_error(client) : 0;
}

uint64_t client_deadline(uint64_t timeout_usec)
{
    if (timeout_usec == UINT64_MAX)
        return UINT64_MAX;
    uint64_t now = clock_monotonic_usec();

    return timeout_usec > UINT64_MAX - now ? UINT64_MAX : now + timeout_usec;
}

int client_step(struct wsd_client *client, uint64_t deadline_usec)
{
    struct pollfd poll_fd = {.fd = client->fd};
    struct timespec timeout = {0};
    int r;

    if (client->broken)
        return broken_error(client);
    if (process_rest(client))
        return client->broken ? broken_error(client) : 0;
    flush_and_pump(client);
    poll_fd.events = wsd_client_events(client);
    if (deadline_usec != UINT64_MAX) {
        uint64_t now = clock_monotonic_usec(), left = deadline_usec > now ? deadline_usec - now : 0;

        timeout = (struct timespec){.tv_sec = (time_t)(left / 1000000u), .tv_nsec = (long)(left % 1000000u) * 1000};
    }
    r = ppoll(&poll_fd, 1, deadline_usec == UINT64_MAX ? NULL : &timeout, NULL);
    if (r < 0)
        return errno == EINTR ? 0 : failure_set(&client->failure, -errno, CODE_IO, "poll: %s", strerror(errno));
    if (r == 0)
        return failure_set(&client->failure, -ETIMEDOUT, exit_of_error(-ETIMEDOUT), "no answer from wsd in time");
    if (poll_fd.revents & ~POLLOUT || (client->tls && client->tls_ops->recv_waits_to_write(client->tls)))
        receive(client);
    flush_and_pump(client);
    if (client->send_failed)
        receive(client);
    client_reap(client);
    return client->broken ? broken_error(client) : 0;
}

int wsd_client_wait(struct wsd_client *client, uint64_t timeout_usec)
{
    return client_step(client, client_deadline(timeout_usec));
}

void client_reap(struct wsd_client *client)
{
    if (client->depth > 0 || client->busy)
        return;
    for (struct list *l; (l = list_pop_front(&client->graveyard));)
        call_destroy(container_of(l, struct wsd_call, link));
}

/* --- beginning and end ----------------------------------------------------------------------------------------------
 */

/* Writes the path of the socket, by the rule of wsctl(1), OPTIONS. */
static int socket_path(const char *given, struct sockaddr_un *ret)
{
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
    int n;

    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!given)
        given = secure_getenv("WSD_SOCKET");
    if (given && *given) {
        n = snprintf(ret->sun_path, sizeof(ret->sun_path), "%s", given);
        return n < (int)sizeof(ret->sun_path) ? 0 : -ENAMETOOLONG;
    }
    if (runtime && *runtime) {
        n = snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/wsd/wsd.sock", runtime);
        if (n < (int)sizeof(ret->sun_path) && access(ret->sun_path, F_OK) == 0)
            return 0;
    }
    snprintf(ret->sun_path, sizeof(ret->sun_path), "/run/wsd/wsd.sock");
    return 0;
}

static int connect_socket(struct wsd_client *client, uint64_t deadline_usec)
{
    uint64_t now = clock_monotonic_usec(), left = deadline_usec > now ? deadline_usec - now : 1;
    struct timeval timeout = {.tv_sec = (time_t)(left / 1000000u), .tv_usec = (int)(left % 1000000u)};
    int r, flags, error;

    client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0)
        return failure_set(&client->failure, -errno, CODE_IO, "socket: %s", strerror(errno));
    /* Blocking, for a full backlog: poll cannot wait for that. The timeout of sending is also that of connecting. */
    setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    do
        r = connect(client->fd, (struct sockaddr *)&client->address, sizeof(client->address));
    while (r < 0 && errno == EINTR);
    if (r < 0) {
        error = errno == EAGAIN ? ETIMEDOUT : errno;
        return failure_set(&client->failure, -error, error == EACCES || error == EPERM ? CODE_DENIED : CODE_NO_DAEMON,
                           "%s: %s", client->address.sun_path, strerror(error));
    }
    flags = fcntl(client->fd, F_GETFL);
    if (flags < 0 || fcntl(client->fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return failure_set(&client->failure, -errno, CODE_IO, "socket: %s", strerror(errno));
    return 0;
}

static int send_hello(struct wsd_client *client)
{
    struct msg msg = {.type = FRAME_HELLO,
                      .hello = {
                          .version_min = PROTOCOL_VERSION_MIN,
                          .version_max = PROTOCOL_VERSION_MAX,
                          .features = client->tls ? FEATURES & ~(uint64_t)(FEATURE_LANE | FEATURE_PAYLOAD) : FEATURES,
                          .directory = {.data = client->directory},
                          .window = OUTPUT_WINDOW,
                      }};
    char program[64];
    int n = snprintf(program, sizeof(program), "%.40s libwsclient/%s", program_invocation_short_name, WSD_VERSION);

    client->directory_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (client->tls) /* nothing here is anything there */
        client->directory[0] = 0;
    else if (!getcwd(client->directory, sizeof(client->directory)) || client->directory[0] != '/')
        client->directory[0] =
            0; /* removed, unreachable or too long: wsd gets no name for it, files open all the same */
    msg.hello.directory.size = strlen(client->directory);
    msg.hello.program = (struct span){.data = program, .size = (size_t)MIN(n, (int)sizeof(program) - 1)};
    return client_send(client, &msg, 0, NULL, 0);
}

static struct wsd_client *client_new(void)
{
    struct wsd_client *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    client->fd = client->directory_fd = -1;
    list_init(&client->open);
    list_init(&client->calls);
    list_init(&client->feeding);
    list_init(&client->graveyard);
    list_init(&client->batches);
    list_init(&client->unsent);
    if (codec_new(&client->codec) < 0)
        return wsd_client_free(client);
    return client;
}

/* To where it was opened for. */
static int connect_client(struct wsd_client *client, uint64_t deadline)
{
    int r = client->remote ? remote_connect(client, deadline) : connect_socket(client, deadline);

    if (r == 0 && (r = send_hello(client)) < 0)
        failure_set(&client->failure, r, CODE_IO, "%s", strerror(-r));
    while (r == 0 && !client->welcomed)
        r = client_step(client, deadline);
    if (r == -ETIMEDOUT)
        client->failure.exit = CODE_NO_DAEMON;
    if (r < 0 && !client->broken) { /* no half-open handle is ever used */
        client->broken = r;
        client->broken_exit = client->failure.exit;
        memcpy(client->reason, client->failure.text, sizeof(client->reason));
    }
    return r;
}

/* Of the connection: what is of the handle stays. */
static void disconnect(struct wsd_client *client)
{
    lane_free(client);
    while (client->n_received > 0)
        close_fd(client->received[--client->n_received]);
    while (client->n_opened > 0)
        drop_opened(client);
    unpin(client, NULL);
    buffer_deinit(&client->in);
    buffer_deinit(&client->out);
    free(TAKE(client->plain_texts));
    remote_disconnect(client);
    client->directory_fd = close_fd(client->directory_fd);
    client->fd = close_fd(client->fd);
}

/* socket: where remote is false. */
static int open_client(struct wsd_client **ret_client, bool remote, const struct wsd_tls *tls, const char *socket,
                       uint64_t timeout_usec)
{
    uint64_t deadline = client_deadline(timeout_usec ? timeout_usec : CONNECT_TIMEOUT_USEC);
    struct wsd_client *client = *ret_client = client_new();
    int r;

    if (!client)
        return -ENOMEM;
    client->remote = remote;
    r = remote ? remote_keep(client, tls) : socket_path(socket, &client->address);
    if (r == -ENAMETOOLONG)
        failure_set(&client->failure, r, CODE_USAGE, "%s: " SOCKET_PATH_LONG, socket ? socket : "WSD_SOCKET",
                    SOCKET_PATH_MAX);
    else if (r < 0)
        failure_set(&client->failure, r, CODE_IO, "%s", strerror(-r));
    if (r == 0)
        return connect_client(client, deadline);
    client->broken = r; /* no half-open handle is ever used */
    client->broken_exit = client->failure.exit;
    memcpy(client->reason, client->failure.text, sizeof(client->reason));
    return r;
}

int wsd_client_reconnect(struct wsd_client *client, uint64_t timeout_usec)
{
    uint64_t deadline = client_deadline(timeout_usec ? timeout_usec : CONNECT_TIMEOUT_USEC);
    int r;

    if (!client->broken)
        return 0;
    if (client->depth > 0 || client->busy)
        return failure_set(&client->failure, -EDEADLK, CODE_USAGE,
                           "a callback of this handle is under way: reconnect when it has returned");
    for (;;) {
        disconnect(client);
        client->n_lost++;
        client->welcomed = client->send_failed = client->leaving = false;
        client->broken = 0;
        client->sent = client->features = 0;
        client->n_answers = 0;
        r = connect_client(client, deadline);
        if ((r != -ECONNREFUSED && r != -ENOENT && r != -ECONNRESET) || clock_monotonic_usec() >= deadline)
            return r;
        poll(NULL, 0, RECONNECT_MSEC); /* wsd is not there again yet */
    }
}

int wsd_client_open(struct wsd_client **ret_client, const char *socket, uint64_t timeout_usec)
{
    const char *host = socket ? NULL : secure_getenv("WSD_HOST");

    return open_client(ret_client, host && *host, NULL, socket, timeout_usec);
}

int wsd_client_open_tls(struct wsd_client **ret_client, const struct wsd_tls *tls, uint64_t timeout_usec)
{
    return open_client(ret_client, true, tls, NULL, timeout_usec);
}

struct wsd_client *wsd_client_free(struct wsd_client *client)
{
    if (!client)
        return NULL;
    if (!client->broken && client->welcomed) { /* what was asked for last, such as a cancel */
        arrays_send(client);
        flush(client);
    }
    client_break(client, -ECONNRESET, CODE_NO_DAEMON, "the connection was closed");
    while (!list_empty(&client->calls))
        wsd_call_free(container_of(client->calls.next, struct wsd_call, link));
    batches_free(client);
    client_reap(client);
    disconnect(client);
    remote_forget(client);
    hash_deinit(&client->requests);
    codec_free(client->codec);
    free(client->job_texts);
    arrays_forget(client);
    call_drop_spare(client);
    freelist_deinit(&client->free_calls);
    free(client);
    return NULL;
}

const char *wsd_client_daemon_version(const struct wsd_client *client)
{
    return client->daemon_version;
}
