/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c: the store's thread, and the way to it and back.
 * Owns the thread, the two queues and, through database.c, the file. store_open() and store_free() have the database while
 * no thread runs; in between only the thread touches it.
 * Keeps: requests are done in the order in which they were posted and answered once, on the loop; what is answered with 0
 * is on disk. A request that fails takes no other one down: a transaction that could not be is done again in pieces. Whoever
 * comes before a transaction is over shares it, so the loop takes in jobs while the thread writes others.
 * Does not log or decide; it does not know what becomes of a job. */
#include "store/store.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "store/database.h"
#include "store/record.h"

struct store {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t rung;
    struct list posted;   /* [loop] since the last store_ring() */
    uint32_t n_posted;    /* [loop] of them */
    uint64_t n_open;      /* [loop] posted and not answered */
    struct buffer record; /* [loop] that is being made */
    struct list waiting;  /* [lock] not looked at */
    struct list done;     /* [lock] not answered */
    bool ending;          /* [lock] */
    bool running;         /* [loop] there is a thread */
    bool lost;            /* [const after store_open] what is there cannot be read: it is left alone */
    int fd;               /* eventfd */
    int lost_error;
    char why[STORE_WHY];  /* [const after store_open] of lost, or of there being no directory */
    char *directory, *path;
    struct database *db;  /* [thread, while it runs] */
};

/* --- the thread --------------------------------------------------------------------------------------------------- */

static void take_words(struct store_request *r, int result, const char *why)
{
    r->result = result;
    snprintf(r->why, sizeof(r->why), "%s", why);
}

/* The directory and those above it, as far as they are missing. */
static int make_directory(const char *path)
{
    char part[PATH_MAX];

    if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
        return -ENAMETOOLONG;
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(part, 0700); /* the last one tells what is wrong */
        *slash = '/';
    }
    return mkdir(part, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int open_now(struct store *s, char why[static STORE_WHY])
{
    char text[STORE_WHY];
    int r = make_directory(s->directory);

    if (r < 0)
        snprintf(text, sizeof(text), "%s", strerror(-r));
    else
        r = database_open(&s->db, s->path, true, text);
    if (r < 0)
        snprintf(why, STORE_WHY, "%.80s: %.70s", s->directory, text);
    return r;
}

static void move(struct list *from, struct list *to, uint32_t max)
{
    for (uint32_t n = 0; n < max && !list_empty(from); n++)
        list_push_back(to, list_pop_front(from));
}

/* What came while the others were done goes into the same transaction: whoever is there before the disk is asked shares it. */
static void join(struct store *s, struct list *batch, uint32_t max)
{
    pthread_mutex_lock(&s->lock);
    move(&s->waiting, batch, max);
    pthread_mutex_unlock(&s->lock);
}

/* In one transaction, of max requests at most. False: nothing of it is on disk, and result and why of the requests say so. */
static bool do_all(struct store *s, struct list *batch, uint32_t max)
{
    char why[STORE_WHY];
    int r = database_begin(s->db, why);
    bool whole = r == 0;
    uint32_t n = 0;

    for (struct list *l = batch->next; whole && l != batch; l = l->next) {
        struct store_request *q = container_of(l, struct store_request, link);

        if (!database_do(s->db, q)) {
            whole = false;
            r = q->result;
            memcpy(why, q->why, sizeof(why));
        }
        if (whole && ++n < max && l->next == batch)
            join(s, batch, max - n);
    }
    if (whole) {
        r = database_commit(s->db, why);
        whole = r == 0;
    }
    if (whole)
        return true;
    database_rollback(s->db);
    list_for_each(l, batch)
    {
        struct store_request *q = container_of(l, struct store_request, link);

        database_undo_reply(q);
        take_words(q, r, why);
    }
    return false;
}

static void do_batch(struct store *s, struct list *batch)
{
    char why[STORE_WHY];
    int r = s->lost ? s->lost_error : s->db ? 0 : open_now(s, why);
    if (r < 0) {
        list_for_each(l, batch) take_words(container_of(l, struct store_request, link), r, s->lost ? s->why : why);
        return;
    }
    if (do_all(s, batch, STORE_BATCH) || batch->next == batch->prev)
        return;
    /* one of them has no room, perhaps: the others need not suffer for it */
    struct list one, tried;
    list_init(&one);
    list_init(&tried);
    for (struct list *l; (l = list_pop_front(batch));) {
        list_push_back(&one, l);
        (void)do_all(s, &one, 1);
        list_remove(l);
        list_push_back(&tried, l);
    }
    while (!list_empty(&tried))
        list_push_back(batch, list_pop_front(&tried));
}

static void *thread(void *context)
{
    struct store *s = context;
    struct list batch;

    list_init(&batch);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (list_empty(&s->waiting) && !s->ending)
            pthread_cond_wait(&s->rung, &s->lock);
        if (list_empty(&s->waiting))
            break;
        move(&s->waiting, &batch, STORE_BATCH);
        pthread_mutex_unlock(&s->lock);
        do_batch(s, &batch);
        pthread_mutex_lock(&s->lock);
        move(&batch, &s->done, UINT32_MAX);
        pthread_mutex_unlock(&s->lock); /* whom it wakes wants it */
        (void)eventfd_write(s->fd, 1);
        if (s->db)
            database_tidy(s->db); /* nobody waits for it who has been there before */
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Signals are the loop's. */
static int thread_start(struct store *s)
{
    sigset_t all, before;
    int r;

    if (s->running)
        return 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&s->thread, NULL, thread, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0)
        return -r;
    pthread_setname_np(s->thread, "wsd-store");
    s->running = true;
    return 0;
}

/* --- the loop's side ------------------------------------------------------------------------------------------------ */

static int read_all(struct store *s, int (*each)(const struct store_row *row, void *userdata), void *userdata)
{
    char why[STORE_WHY];
    int r = database_open(&s->db, s->path, false, why);

    if (r == -ENOENT || r == -ENOTDIR)
        return 0; /* made at the first request */
    if (r == 0)
        r = database_each(s->db, each, userdata, why);
    if (r >= 0)
        return 0;
    s->lost = true;
    s->lost_error = r == -ENOSPC || r == -ENOMEM ? -EIO : r;
    snprintf(s->why, sizeof(s->why), "%.80s: %.70s", s->path, why);
    s->db = database_free(s->db);
    return r == -ENOMEM ? r : 0;
}

int store_open(struct store **ret_store, const char *directory, int (*each)(const struct store_row *row, void *userdata),
               void *userdata)
{
    struct store *s = calloc(1, sizeof(*s));
    int r = 0;

    if (!s)
        return -ENOMEM;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->rung, NULL);
    list_init(&s->posted);
    list_init(&s->waiting);
    list_init(&s->done);
    s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->fd < 0)
        r = -errno;
    if (directory && ((s->directory = strdup(directory)) == NULL || asprintf(&s->path, "%s/" STORE_FILE, directory) < 0))
        r = -ENOMEM;
    if (!directory) {
        s->lost = true;
        s->lost_error = -EACCES;
        snprintf(s->why, sizeof(s->why), "there is no state directory");
    }
    if (r == 0 && directory)
        r = read_all(s, each, userdata);
    if (r < 0) {
        store_free(s, NULL);
        return r;
    }
    *ret_store = s;
    return 0;
}

int store_schedules(struct store *s, int (*each)(const struct store_row *row, void *userdata), void *userdata)
{
    char why[STORE_WHY];

    return s->db ? database_schedules(s->db, each, userdata, why) : 0;
}

/* What is too large for a record goes without. */
static int pack(struct store_request *r, struct buffer *to)
{
    struct store_row *row = &r->row;
    const void *args = row->args, *input = row->input, *output = row->output;
    int result;

    if (r->op == STORE_ADD && !store_given_fits(row))
        row->args = row->input = NULL;
    if (!store_output_fits(row))
        row->output = NULL;
    result = record_pack(r->op == STORE_ADD ? RECORD_GIVEN : RECORD_KNOWN, row, to);
    row->args = args;
    row->input = input;
    row->output = output;
    return result;
}

/* Where that fails, the request will. */
static void make_record(struct store *s, struct store_request *r)
{
    struct buffer *b = &s->record;

    r->record = NULL;
    r->record_size = 0;
    buffer_drop(b, buffer_size(b));
    if (!store_has_record(r->op) || pack(r, b) < 0)
        return;
    r->record_size = buffer_size(b);
    r->record = r->record_size <= sizeof(r->room) ? r->room : malloc(r->record_size);
    if (r->record)
        memcpy(r->record, buffer_data(b), r->record_size);
}

static void drop_record(struct store_request *r)
{
    if (r->record != r->room)
        free(r->record);
    r->record = NULL;
}

struct store *store_free(struct store *s, void (*unanswered)(struct store_request *r))
{
    if (!s)
        return NULL;
    store_ring(s);
    if (s->running) {
        pthread_mutex_lock(&s->lock);
        s->ending = true;
        pthread_cond_signal(&s->rung);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    move(&s->waiting, &s->done, UINT32_MAX);
    for (struct list *l; (l = list_pop_front(&s->done));) {
        struct store_request *r = container_of(l, struct store_request, link);

        drop_record(r);
        if (unanswered)
            unanswered(r);
    }
    buffer_deinit(&s->record);
    database_free(s->db);
    pthread_cond_destroy(&s->rung);
    pthread_mutex_destroy(&s->lock);
    close_fd(s->fd);
    free(s->directory);
    free(s->path);
    free(s);
    return NULL;
}

int store_fd(const struct store *s)
{
    return s->fd;
}

const char *store_problem(const struct store *s)
{
    return s->lost ? s->why : NULL;
}

void store_post(struct store *s, struct store_request *r)
{
    make_record(s, r);
    r->reply_fd = -1;
    s->n_open++;
    list_push_back(&s->posted, &r->link);
    if (++s->n_posted == STORE_RING_EARLY)
        store_ring(s);
}

bool store_posted(const struct store *s)
{
    return !list_empty(&s->posted);
}

void store_ring(struct store *s)
{
    int error;

    s->n_posted = 0;
    if (!store_posted(s))
        return;
    error = thread_start(s);
    if (error < 0)
        list_for_each(l, &s->posted) take_words(container_of(l, struct store_request, link), error, "no thread can be had for it");
    pthread_mutex_lock(&s->lock);
    move(&s->posted, error < 0 ? &s->done : &s->waiting, UINT32_MAX);
    pthread_mutex_unlock(&s->lock);
    if (error < 0)
        (void)eventfd_write(s->fd, 1);
    else
        pthread_cond_signal(&s->rung);
}

void store_answers(struct store *s)
{
    struct list done;
    eventfd_t n;

    list_init(&done);
    (void)eventfd_read(s->fd, &n);
    pthread_mutex_lock(&s->lock);
    move(&s->done, &done, UINT32_MAX);
    pthread_mutex_unlock(&s->lock);
    for (struct list *l; (l = list_pop_front(&done));) {
        struct store_request *r = container_of(l, struct store_request, link);

        s->n_open--;
        drop_record(r);
        r->answer(r);
    }
}

void store_finish(struct store *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLIN};

    while (s->n_open) {
        store_ring(s);
        (void)poll(&p, 1, -1);
        store_answers(s);
    }
}
