/* SPDX-License-Identifier: Apache-2.0
 *
 * handover.c: connections outlive wsd: the last one leaves them with its service manager, the next one takes them from
 * there.
 * Owns nothing that lasts. [loop]
 * Keeps: a connection is left only between two frames to its client, with all output written. Each open request is for
 * a durable job, or was answered before. The client's user is asked of the kernel again. The memory is checked like
 * input from a stranger: a connection that does not fit is closed, no other.
 * Does not know which process keeps the descriptors meanwhile. */
#include "frontend/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/async-close.h"
#include "base/code.h"
#include "base/log.h"
#include "base/seal.h"
#include "frontend/job-watch.h"
#include "frontend/serve-await.h"
#include "frontend/serve-session.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static uint64_t inode_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) ? (uint64_t)st.st_ino : 0;
}

/* --- leaving ------------------------------------------------------------------------------------------------------ */

static bool is_deferred(const struct call *c)
{
    return call_has_job(c) && c->job.deferred;
}

/* What the next wsd cannot answer is answered now. */
static void answer(struct peer *p)
{
    if (p->begun) { /* of its first request, some has been done */
        p->failed = true;
        return;
    }
    list_for_each_entry_safe (struct call, c, after_c, &p->calls, link) {
        if (is_deferred(c))
            continue;
        if (c->over) { /* it has had its last frame */
            call_free(c);
            continue;
        }
        if (call_has_job(c) && c->job.watch.job) { /* its client has not read what there is */
            p->failed = true;
            return;
        }
        call_refuse(c, CODE_BUSY, "wsd is being restarted: ask again");
    }
}

static bool can_stay(const struct peer *p)
{
    if (p->failed || p->begun || p->remote || p->acting || peer_sending(p) || !far_end_settled(p->far) || p->n_fds ||
        p->n_sending)
        return false; /* what TLS knows of a connection stays in this process, and what the user database said */
    list_for_each_entry (struct call, call, &p->calls, link)
        if (!is_deferred(call))
            return false;
    return true;
}

static int put_peer(struct buffer *b, const struct peer *p)
{
    size_t directory = p->directory ? strlen(directory_path(p->directory)) : 0;
    struct handover_peer k = {.inode = inode_of(p->fd),
                              .features = p->features,
                              .flags = p->greeted ? HANDOVER_GREETED : 0,
                              .window = p->window,
                              .n_opens = p->n_opens,
                              .directory_size = (uint32_t)directory,
                              .in_size = (uint32_t)buffer_size(&p->in)};
    int r;

    list_for_each (l, &p->calls)
        k.n_calls++;
    r = buffer_put(b, &k, sizeof(k));
    r |= buffer_put(b, directory ? directory_path(p->directory) : NULL, directory);
    r |= buffer_put(b, buffer_size(&p->in) ? buffer_data(&p->in) : NULL, buffer_size(&p->in));
    list_for_each_entry (const struct call, c, &p->calls, link) {
        struct handover_call kc = {.tag = c->tag,
                                   .out_allowed = c->job.out_allowed,
                                   .flags = (c->job.submits ? HANDOVER_SUBMIT : 0u) |
                                            (c->job.watch.wants_progress ? HANDOVER_PROGRESS : 0u) |
                                            (c->job.cancel ? HANDOVER_CANCEL : 0u)};

        memcpy(kc.id, c->job.id, sizeof(kc.id));
        r |= buffer_put(b, &kc, sizeof(kc));
    }
    return r < 0 ? -ENOMEM : 0;
}

static int seal(const struct buffer *b)
{
    _cleanup_(close_fdp) int fd = memfd_create("wsd-kept", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t done = 0, size = buffer_size(b);

    if (fd < 0)
        return -errno;
    while (done < size) {
        ssize_t n = pwrite(fd, buffer_data(b) + done, size - done, (off_t)done);

        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    int r = seal_memory(fd);
    return r < 0 ? r : TAKE_FD(fd);
}

int frontend_leave(struct frontend *f, int *ret_state, int **ret_fds, size_t *ret_n)
{
    struct handover_head head = {.magic = HANDOVER_MAGIC, .version = HANDOVER_VERSION};
    struct buffer b = {0};
    int *fds, r;

    list_for_each_entry (struct peer, peer, &f->peers, link)
        answer(peer);
    for (uint64_t turns = f->shares.n_marked / SHARE_MARKED + 1; turns; turns--)
        (void)frontend_flush(f);
    fds = malloc((f->n_peers + 1) * sizeof(*fds));
    r = fds && buffer_put(&b, &head, sizeof(head)) == 0 ? 0 : -ENOMEM;
    list_for_each_entry (struct peer, p, &f->peers, link) {
        if (r < 0 || !can_stay(p))
            continue;
        r = put_peer(&b, p);
        fds[head.n_peers++] = p->fd;
    }
    if (r == 0) {
        head.size = buffer_size(&b);
        memcpy(b.data + b.start, &head, sizeof(head));
        r = seal(&b);
    }
    buffer_deinit(&b);
    if (r < 0) {
        free(fds);
        return r;
    }
    *ret_state = r;
    *ret_fds = fds;
    *ret_n = head.n_peers;
    return 0;
}

/* --- taking ------------------------------------------------------------------------------------------------------- */

struct cursor {
    const uint8_t *at;
    size_t left;
};

static const void *cursor_take(struct cursor *c, uint64_t size)
{
    const uint8_t *at = c->at;

    if (size > c->left)
        return NULL;
    c->at += size;
    c->left -= size;
    return at;
}

static bool take_copy(struct cursor *c, void *to, size_t size)
{
    const void *from = cursor_take(c, size);

    if (from)
        memcpy(to, from, size);
    return from;
}

struct found {
    uint64_t inode;
    int fd;
};

static int by_inode(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    return (x->inode > y->inode) - (x->inode < y->inode);
}

/* One connection and its requests. False: nothing behind it can be read. */
static bool take_peer(struct frontend *f, struct cursor *c, struct found *found, size_t n_found, size_t *taken)
{
    struct handover_peer k;
    struct handover_call kc;
    struct found *at;
    struct peer *p = NULL;
    const char *directory;
    const uint8_t *in;

    if (!take_copy(c, &k, sizeof(k)))
        return false;
    directory = cursor_take(c, k.directory_size);
    in = cursor_take(c, k.in_size);
    if (!directory || !in || k.n_calls > c->left / sizeof(kc))
        return false;
    at = bsearch(&(struct found){.inode = k.inode}, found, n_found, sizeof(*found), by_inode);
    if (at && at->fd >= 0) {
        int fd = TAKE_FD(at->fd);

        if (peer_new(f, fd, false, &p) < 0)
            p = NULL;
    }
    if (p && !p->failed)
        (void)session_take(p, &k, directory);
    for (uint32_t i = 0; i < k.n_calls; i++) {
        if (!take_copy(c, &kc, sizeof(kc)))
            return false;
        if (p && !p->failed)
            await_take(p, &kc);
    }
    if (p && !p->failed) {
        peer_take_input(p, in, k.in_size);
        (*taken)++;
    } else if (p) {
        share_mark(p); /* it goes */
    }
    return true;
}

/* 0 or a negative errno. */
static int take_all(struct frontend *f, struct cursor *c, struct found *found, size_t n_found, size_t *taken)
{
    struct handover_head head;

    if (!take_copy(c, &head, sizeof(head)) || head.magic != HANDOVER_MAGIC || head.size != c->left + sizeof(head))
        return -EBADMSG;
    if (head.version != HANDOVER_VERSION)
        return -EPROTONOSUPPORT;
    for (uint32_t i = 0; i < head.n_peers; i++)
        if (!take_peer(f, c, found, n_found, taken))
            return -EBADMSG;
    return c->left ? -EBADMSG : 0;
}

/* Reads all of a sealed file. */
static int read_all(int fd, uint8_t **ret_data, size_t *ret_size)
{
    _cleanup_(freep) uint8_t *data = NULL;
    struct stat st;
    size_t size, done = 0;

    if (fcntl(fd, F_GET_SEALS) != SEALS || fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > HANDOVER_MAX)
        return -EBADMSG;
    size = (size_t)st.st_size;
    data = malloc(size);
    if (!data)
        return -ENOMEM;
    while (done < size) {
        ssize_t n = pread(fd, data + done, size - done, (off_t)done);

        if (n == 0 || (n < 0 && errno != EINTR))
            return n ? -errno : -EBADMSG;
        done += n > 0 ? (size_t)n : 0;
    }
    *ret_data = TAKE(data);
    *ret_size = size;
    return 0;
}

int frontend_take(struct frontend *f, int state, int *fds, size_t n, size_t *ret_taken)
{
    struct found *found = malloc((n + 1) * sizeof(*found));
    _cleanup_(freep) uint8_t *data = NULL;
    size_t size = 0, taken = 0;
    int r = found ? read_all(state, &data, &size) : -ENOMEM;

    for (size_t i = 0; i < n; i++) {
        if (r == 0)
            found[i] = (struct found){.inode = inode_of(fds[i]), .fd = TAKE_FD(fds[i])};
        else
            async_close(fds[i], ASYNC_CLOSE_OWN);
    }
    if (r == 0) {
        qsort(found, n, sizeof(*found), by_inode);
        r = take_all(f, &(struct cursor){data, size}, found, n, &taken);
        for (size_t i = 0; i < n; i++)
            async_close(found[i].fd, ASYNC_CLOSE_OWN);
    }
    close_fd(state);
    free(found);
    *ret_taken = taken;
    return r;
}
