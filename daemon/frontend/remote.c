/* SPDX-License-Identifier: Apache-2.0
 *
 * remote.c: clients of other machines: TCP, never without TLS, and the local user of each.
 * Owns certificates and user map as last read. Owns the fields that only connections of other machines have. [loop]
 * Keeps: nothing that came before the end of the handshake is dispatched. A client without a line in the map has no
 * user; none is root. Certificates that are revoked or expired, and users taken out of the map, end with the next
 * reading of the files, on open connections too.
 * The bytes go through peer.c's own buffers, like those of local clients. Bufferevents would be a second pair of
 * buffers, with limits of their own, behind each of them.
 * Does not decide what a user may do (access.c). */
#include "frontend/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/accounts.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "frontend/peer.h"
#include "tls/load.h"

#define LINE_MAX_BYTES 1024u

struct remote_user {
    char certificate[TLS_NAME_MAX]; /* a name as tls_ops.names() gives it */
    struct local_user local;
};

static const struct remote_user nobody = {.local = {.uid = UINT32_MAX, .gid = UINT32_MAX}};

struct remote {
    const struct tls_ops *ops;
    struct tls_context *context;
    uint64_t number;           /* of this reading */
    struct remote_user *users; /* in the order of the file */
    uint32_t n_users;
};

/* --- the user map ------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static int refuse_line(char error[REMOTE_ERROR], const char *file, unsigned line,
                                                             const char *format, ...)
{
    size_t n = (size_t)snprintf(error, REMOTE_ERROR, line ? "%.200s:%u: " : "%.200s: ", file, line);
    va_list args;

    va_start(args, format);
    vsnprintf(error + n, REMOTE_ERROR - n, format, args);
    va_end(args);
    return -EINVAL;
}

static char *trim(char *text)
{
    char *end;

    text += strspn(text, " \t");
    for (end = text + strlen(text); end > text && strchr(" \t\r\n", end[-1]);)
        *--end = 0;
    return text;
}

static bool is_certificate_name(const char *name)
{
    static const char *const kinds[] = {"CN:", "DNS:", "URI:", "email:"};

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (strncmp(name, kinds[i], strlen(kinds[i])) == 0)
            return name[strlen(kinds[i])] && strlen(name) < TLS_NAME_MAX;
    return false;
}

/* NAME = USER, the last `=` counts: a name may have some. */
static int add_line(struct remote *r, const char *file, unsigned number, char *line, char error[REMOTE_ERROR])
{
    struct remote_user u = {.local = {.uid = 0}}, *more;
    char *equal, *name, *user;

    line = trim(line);
    if (!*line || *line == '#')
        return 0;
    equal = strrchr(line, '=');
    if (equal)
        *equal = 0;
    name = trim(line);
    user = equal ? trim(equal + 1) : line;
    if (!equal || !is_certificate_name(name))
        return refuse_line(error, file, number,
                           "not `NAME = USER`, with CN:, DNS:, URI: or email: before NAME, of at most %u bytes",
                           TLS_NAME_MAX - 1);
    if (r->n_users == REMOTE_USERS_MAX)
        return refuse_line(error, file, number, "at most %u lines", REMOTE_USERS_MAX);
    more = realloc(r->users, (r->n_users + 1) * sizeof(*more));
    if (!more)
        return refuse_line(error, file, number, "out of memory"), -ENOMEM;
    r->users = more;
    snprintf(u.certificate, sizeof(u.certificate), "%s", name);
    int result = local_user_find(user, &u.local);
    if (result == -ENOENT)
        return refuse_line(error, file, number, "%.64s: there is no such user", user);
    if (result == -EPERM)
        return refuse_line(error, file, number, "%.64s: nobody is root from another machine", user);
    if (result < 0)
        return refuse_line(error, file, number, "%.64s: " ACCOUNTS_SILENT, user, strerror(-result)), -EAGAIN;
    r->users[r->n_users++] = u;
    return 0;
}

/* A process that can write the map can become any user. */
static int check_map(FILE *f, const char *file, char error[REMOTE_ERROR])
{
    struct stat st;

    if (fstat(fileno(f), &st) < 0)
        return refuse_line(error, file, 0, "%s", strerror(errno));
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH))
        return refuse_line(error, file, 0, "others than root and the user of wsd could have written it");
    return 0;
}

static int read_map(struct remote *r, const char *file, char error[REMOTE_ERROR])
{
    FILE *f = fopen(file, "re");
    char line[LINE_MAX_BYTES];
    int result;

    if (!f)
        return refuse_line(error, file, 0, "%s", strerror(errno));
    result = check_map(f, file, error);
    for (unsigned n = 1; result == 0 && fgets(line, sizeof(line), f); n++)
        result = strlen(line) == sizeof(line) - 1 && line[sizeof(line) - 2] != '\n'
                     ? refuse_line(error, file, n, "the line is longer than %u bytes", LINE_MAX_BYTES - 2)
                     : add_line(r, file, n, line, error);
    if (result == 0 && ferror(f))
        result = refuse_line(error, file, 0, "cannot be read");
    fclose(f);
    return result;
}

struct remote *remote_free(struct remote *r)
{
    if (!r)
        return NULL;
    for (uint32_t i = 0; i < r->n_users; i++)
        free(r->users[i].local.gids);
    free(r->users);
    if (r->ops)
        r->ops->context_free(r->context);
    free(r);
    return NULL;
}
DEFINE_CLEANUP(struct remote, remote_free)

/* To read a FIFO is to wait for what writes to it. */
static int check_file(const char *key, const char *file, char error[REMOTE_ERROR])
{
    struct stat st;

    if (!file || stat(file, &st) < 0 || S_ISREG(st.st_mode))
        return 0; /* what cannot be read says so */
    snprintf(error, REMOTE_ERROR, "[tls] %s: %.300s: it is no regular file", key, file);
    return -EINVAL;
}

int remote_load(struct remote **ret, const struct remote_options *o, char error[REMOTE_ERROR])
{
    const struct tls_options files = {
        .server = true, .certificate = o->certificate, .key = o->key, .ca = o->ca, .crl = o->crl};
    _cleanup_(remote_freep) struct remote *r = calloc(1, sizeof(*r));
    static uint64_t n_readings;
    int result;

    if (!r)
        return -ENOMEM;
    if (!o->certificate || !o->key || !o->ca || !o->user_map) {
        snprintf(error, REMOTE_ERROR, "[tls] listen needs certificate, key, ca and user-map");
        return -EINVAL;
    }
    if (check_file("certificate", o->certificate, error) < 0 || check_file("key", o->key, error) < 0 ||
        check_file("ca", o->ca, error) < 0 || check_file("crl", o->crl, error) < 0 ||
        check_file("user-map", o->user_map, error) < 0)
        return -EINVAL;
    r->ops = tls_load(error);
    if (!r->ops)
        return -EOPNOTSUPP;
    r->number = ++n_readings;
    result = r->ops->context_new(&r->context, &files, error);
    if (result == 0)
        result = read_map(r, o->user_map, error);
    if (result < 0)
        return result;
    *ret = TAKE(r);
    return 0;
}

/* --- connections -------------------------------------------------------------------------------------------------- */

bool remote_has_room(struct frontend *f, const struct sockaddr_storage *from)
{
    struct handshake *one;

    if (f->handshakes.n < f->options.limits.handshakes)
        return true;
    one = handshakes_give_way(&f->handshakes, handshake_origin(from));
    if (!one)
        return false;
    log_debug("too many handshakes (max-handshakes in wsd.conf): that of %s is closed", one->peer->remote->address);
    handshake_end(&f->handshakes, one);
    one->peer->failed = true;
    share_mark(one->peer);
    return true;
}

int remote_open(struct peer *p)
{
    const struct remote *r = p->frontend->remote;
    struct remote_peer *q = calloc(1, sizeof(*q));
    struct sockaddr_storage a = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof(a);
    char host[48], port[8];

    if (!q)
        return -ENOMEM;
    q->ops = r->ops;
    q->reading = r->number;
    if (getpeername(p->fd, (struct sockaddr *)&a, &size) == 0 &&
        getnameinfo((struct sockaddr *)&a, size, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(q->address, sizeof(q->address), "%s port %s", host, port);
    if (handshake_begin(&p->frontend->handshakes, &q->handshake, p, handshake_origin(&a)) < 0 ||
        r->ops->open(&q->tls, r->context, p->fd, NULL) < 0) {
        handshake_end(&p->frontend->handshakes, &q->handshake);
        free(q);
        return -ENOMEM;
    }
    p->uid = p->gid = UINT32_MAX; /* no user yet */
    p->pid = 0;
    p->remote = q;
    return 0;
}

void remote_close(struct peer *p)
{
    struct remote_peer *q = TAKE(p->remote);

    if (!q)
        return;
    p->as = NULL;
    handshake_end(&p->frontend->handshakes, &q->handshake);
    q->ops->free(q->tls);
    free(q);
}

ssize_t remote_recv(struct peer *p, void *data, size_t size)
{
    const struct tls_ops *ops = p->remote->ops;
    struct tls *t = p->remote->tls;
    ssize_t n = ops->recv(t, data, size);

    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        int e = errno;

        log_event(LOG_KIND_CONNECTION, LOG_INFO, NULL, "connection of %s%s%s: %s", p->remote->address,
                  *p->remote->name ? ", " : "", p->remote->name,
                  e == EACCES || e == EPROTO ? ops->error(t) : strerror(e));
        errno = e;
    }
    return n;
}

ssize_t remote_send(struct peer *p, const void *data, size_t size)
{
    return p->remote->ops->send(p->remote->tls, data, size);
}

struct looking {
    const struct remote *in;
    const struct remote_user *found; /* the first in the file */
    char *name;                      /* that it was found by; or the first */
};

static bool look_up(const char *name, void *userdata)
{
    struct looking *l = userdata;

    for (uint32_t i = 0; i < l->in->n_users; i++) {
        const struct remote_user *u = &l->in->users[i];

        if (strcmp(u->certificate, name) == 0 && (!l->found || u < l->found)) {
            l->found = u;
            snprintf(l->name, TLS_NAME_MAX, "%s", name);
        }
    }
    if (!*l->name) /* for the log: the first will do */
        snprintf(l->name, TLS_NAME_MAX, "%s", name);
    return false; /* the order is that of the file, not of the certificate */
}

static const struct remote_user *user_of(struct remote_peer *q, const struct remote *r)
{
    struct looking l = {.in = r, .name = q->name};

    (void)q->ops->names(q->tls, look_up, &l);
    return l.found;
}

const char *remote_identify(struct peer *p)
{
    struct remote_peer *q = p->remote;
    const struct remote *r = p->frontend->remote;
    const struct remote_user *u = user_of(q, r);
    char error[TLS_ERROR];

    handshake_end(&p->frontend->handshakes, &q->handshake);
    q->user = u ? u : &nobody;
    p->as = &q->user->local;
    p->uid = p->as->uid;
    p->gid = p->as->gid;
    q->expires = q->ops->expires(q->tls);
    log_debug("connection of %s is %s, uid %u", q->address, q->name, p->uid);
    /* shaken hands by files that were read again meanwhile */
    if (q->reading != r->number && q->ops->recheck(q->tls, r->context, error) < 0)
        return "this certificate is good no more";
    return u ? NULL : "this certificate is no user here ([tls] user-map in wsd.conf)";
}

bool remote_expired(const struct peer *p)
{
    return clock_realtime_usec() / 1000000 > (uint64_t)p->remote->expires;
}

bool remote_stays(struct peer *p, const struct remote *r, char why[static REMOTE_WHY])
{
    struct remote_peer *q = p->remote;
    const struct remote_user *u = NULL;
    char error[TLS_ERROR] = "";

    if (!q || !q->user)
        return true;
    if (q->ops->recheck(q->tls, r->context, error) < 0) {
        snprintf(why, REMOTE_WHY, "%s is refused: %s", q->name, error);
    } else {
        u = user_of(q, r);
        if (!u || u->local.uid != p->uid)
            snprintf(why, REMOTE_WHY, "%s is %s here any more", q->name, u ? "not this user" : "no user");
    }
    if (!u || u->local.uid != p->uid) {
        q->user = &nobody; /* what it points to goes now */
        p->as = &nobody.local;
        return false;
    }
    q->user = u;
    p->as = &u->local;
    p->gid = p->as->gid;
    p->rights_of = 0; /* its groups may be others */
    return true;
}
