/* SPDX-License-Identifier: Apache-2.0
 *
 * arena.c: memory that is shared with the jobs of a connection.
 * Owns the mapping, and the request that stays open while wsd has the arena. One thread a handle.
 * Keeps: the memory stays until wsd_arena_free(), whatever becomes of wsd and of the handle. All of it is allocated
 * from the beginning, and charged to this process: no page of it is charged to the process that touches it first.
 * Does not know which parts are in use: wsd refuses parts that overlap. */
#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/code.h"
#include "client.h"
#include "text.h"

static void arena_gone(struct wsd_client *client, struct wsd_arena *a, int error)
{
    request_close(&client->connection, &a->request);
    a->client = NULL;
    a->error = error;
}

static void arena_frame(struct connection *c, struct request *request, const struct frame *frame, const struct msg *msg)
{
    struct wsd_arena *a = container_of(request, struct wsd_arena, request);
    struct wsd_client *client = client_of(c);

    if (msg->type == FRAME_ARENA && !a->there)
        a->there = true;
    else if (msg->type == FRAME_ERROR)
        arena_gone(client, a, failure_remote(&client->failure, &msg->error));
    else
        connection_break_protocol(&client->connection, "unexpected for an arena:", msg->type);
}

static void arena_broken(struct connection *c, struct request *request)
{
    arena_gone(client_of(c), container_of(request, struct wsd_arena, request), c->broken);
}

static const struct request_ops arena_ops = {.frame = arena_frame, .broken = arena_broken};

/* The memory, sealed as wsd wants it. A descriptor or a negative errno. */
static int make_memory(struct wsd_arena *a)
{
    _cleanup_(close_fdp) int fd = memfd_create("wsd-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)a->size) < 0 || fallocate(fd, 0, 0, (off_t)a->size) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
    a->data = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (a->data == MAP_FAILED) {
        a->data = NULL;
        return -errno;
    }
    return TAKE_FD(fd);
}

static bool is_answered(const void *arg)
{
    const struct wsd_arena *a = arg;

    return !a->client || a->there;
}

/* Asks wsd, and waits for what it says. */
static int set_up(struct wsd_client *client, struct wsd_arena *a, int fd)
{
    uint64_t deadline = connection_answer_deadline(&client->connection);
    int r = request_open(&client->connection, &a->request);

    if (r < 0) {
        close_fd(fd);
        return failure_set(&client->failure, r, exit_of_error(r), "%s", strerror(-r));
    }
    a->client = client;
    r = connection_send_fd(&client->connection, &(struct msg){.type = FRAME_ARENA_OPEN}, a->request.tag, fd);
    if (r < 0)
        return failure_set(&client->failure, r, exit_of_error(r), "%s", strerror(-r));
    r = connection_await(&client->connection, &deadline, is_answered, a);
    return a->error ? a->error : r;
}

int wsd_arena_new(struct wsd_client *client, size_t size, struct wsd_arena **ret_arena)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);
    struct wsd_arena *a;

    if (!used)
        return -ECHILD;
    if (client_nests(used) < 0)
        return -EDEADLK;
    int r = connection_ready(&client->connection);
    if (r < 0)
        return r;
    if (size == 0 || size > INT64_MAX)
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "an arena has 1 byte to 2^63 - 1");
    if (!connection_takes_files(&client->connection))
        return failure_set(&client->failure, -EOPNOTSUPP, CODE_PROTOCOL, "%s has no arenas for this connection",
                           client->connection.daemon_version);
    a = calloc(1, sizeof(*a));
    if (!a)
        return failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    a->size = size;
    list_init(&a->request.open);
    a->request.ops = &arena_ops;
    r = make_memory(a);
    if (r < 0)
        failure_set(&client->failure, r, CODE_IO, "memory for an arena: %s", strerror(-r));
    else
        r = set_up(client, a, r);
    if (r < 0) {
        wsd_arena_free(a);
        return r;
    }
    *ret_arena = a;
    return 0;
}

void *wsd_arena_data(struct wsd_arena *a)
{
    return a->data;
}

size_t wsd_arena_size(const struct wsd_arena *a)
{
    return a->size;
}

struct wsd_arena *wsd_arena_free(struct wsd_arena *a)
{
    if (!a)
        return NULL;
    _cleanup_(client_leavep) struct wsd_client *used = a->client ? client_enter(a->client) : NULL;
    if (a->client && !used) { /* a child's copy: the handle, which is not to be touched, still points to it */
        munmap(a->data, a->size);
        return NULL;
    }
    if (a->client) {
        /* no request waits for its END; without memory for the frame wsd keeps the arena until the connection ends */
        (void)connection_send(&a->client->connection, &(struct msg){.type = FRAME_ARENA_CLOSE}, a->request.tag, NULL,
                              0);
        request_close(&a->client->connection, &a->request);
    }
    if (a->data)
        munmap(a->data, a->size);
    free(a);
    return NULL;
}
