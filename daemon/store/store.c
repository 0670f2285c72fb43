/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c: the store's thread, and the way to it and back.
 * Owns the thread, the two queues and, through database.c, the file. store_open() and store_free() have the database
 * while no thread runs; in between only the thread touches it.
 * Keeps: requests are done in the order in which they were posted and answered once, on the loop; what is answered with
 * 0 is on disk. A request that fails makes no other fail: a failed transaction is done again in pieces. Requests that
 * come before a transaction is over share it, so the loop takes in jobs while the thread writes others.
 * Does not log or decide; it does not know what becomes of a job. */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/trust.h"
#include "store/database.h"
#include "store/record.h"

#define STORE_MADE "jobs.made" /* beside the database, and empty */
#define STORE_NEW  ".new"      /* of a database that is written again: not all of it is there */
/* all of it is there: it takes the place of what is there else, now or at the next start */
#define STORE_WHOLE ".whole"

#define ANSWERS_TURN 128u /* requests that are answered in one turn of the loop: some 10 us each */

struct store {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t rung;
    struct list posted;   /* [loop] since the last store_ring() */
    uint32_t n_posted;    /* [loop] of them */
    uint64_t n_open;      /* [loop] posted and not answered */
    struct buffer record; /* [loop] that is being made */
    struct list finished; /* [loop] taken from `done`, and not answered */
    struct list waiting;  /* [lock] not looked at */
    struct list done;     /* [lock] not answered */
    bool ending;          /* [lock] */
    bool running;         /* [loop] there is a thread */
    bool lost;            /* [const after store_open] what is there cannot be read: it is left alone */
    int fd;               /* eventfd */
    int lost_error;
    char why[STORE_WHY]; /* [const after store_open] of lost, or of there being no directory */
    char *directory, *path;
    struct database *db; /* [thread, while it runs] */
    /* struct store_health [atomic: relaxed, each by itself; the thread writes, the loop reads] */
    _Atomic uint64_t commits, commit_usec, commit_last_usec, commit_most_usec;
    atomic_bool has_said;  /* [atomic: release where `says` is written, acquire in store_says()] */
    char says[STORE_SAYS]; /* [lock] */
};

/* --- the thread --------------------------------------------------------------------------------------------------- */

static void take_words(struct store_request *r, int result, const char *why)
{
    r->result = result;
    snprintf(r->why, sizeof(r->why), "%s", why);
}

/* A wsd of root's does not write where other users can write, or could replace the directory. A missing directory is
 * fine. */
static int look_at_directory(const char *directory, char why[static STORE_WHY])
{
    char where[PATH_MAX];
    struct stat st;

    if (geteuid() != 0)
        return 0;
    _cleanup_(close_fdp) int fd = trust_open(directory, where);
    if (fd == -EPERM && *where)
        snprintf(why, STORE_WHY, "not permitted: others than root could write to %.110s", where);
    else if (fd >= 0 && fstat(fd, &st) == 0 && !trust_only_ours(&st))
        snprintf(why, STORE_WHY, "not permitted: others than root could write to the directory");
    else
        return 0; /* what else is wrong, its use tells */
    return -EACCES;
}

/* Makes the directory and those above it, as far as they are missing. */
static int make_directory(const char *path, char why[static STORE_WHY])
{
    char part[PATH_MAX];
    int r = look_at_directory(path, why);

    if (r < 0)
        return r;
    if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part)) {
        snprintf(why, STORE_WHY, "%s", strerror(ENAMETOOLONG));
        return -ENAMETOOLONG;
    }
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(part, 0700); /* the last one tells what is wrong */
        *slash = '/';
    }
    if (mkdir(part, 0700) == 0 || errno == EEXIST)
        return look_at_directory(path, why);
    r = -errno;
    snprintf(why, STORE_WHY, "%s", strerror(-r));
    return r;
}

/* Marks that there has been a database, so that its loss is noticed. */
static void mark_made(const struct store *s)
{
    _cleanup_(freep) char *path = NULL;

    if (asprintf(&path, "%s/" STORE_MADE, s->directory) >= 0)
        /* where it cannot be, nothing is lost yet */
        close_fd(open(path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
}

static int open_now(struct store *s, char why[static STORE_WHY])
{
    char text[STORE_WHY];
    int r = make_directory(s->directory, text);

    if (r == 0)
        r = database_open(&s->db, s->path, true, text);
    if (r < 0)
        snprintf(why, STORE_WHY, "%.100s: %.150s", s->directory, text);
    else
        mark_made(s);
    return r;
}

static void note_failure(struct store *s, const char *what, const char *then)
{
    pthread_mutex_lock(&s->lock);
    snprintf(s->says, sizeof(s->says), "%.200s: %.160s: %.140s", s->path, what, then);
    pthread_mutex_unlock(&s->lock);
    atomic_store_explicit(&s->has_said, true, memory_order_release);
}

static int sync_directory(const struct store *s)
{
    _cleanup_(close_fdp) int fd = open(s->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int move_to(const struct store *s, const char *from, const char *to)
{
    return rename(from, to) < 0 ? -errno : sync_directory(s);
}

/* The log is that of the old file: SQLite would take it for the new one's, and write it into that. */
static int unlink_log(const struct store *s)
{
    _cleanup_(freep) char *log = NULL;

    if (asprintf(&log, "%s-wal", s->path) < 0)
        return -ENOMEM;
    return unlink(log) < 0 && errno != ENOENT ? -errno : 0;
}

/* The complete copy becomes the database. If wsd is killed here, the next one does it again. */
static int take_place(const struct store *s, const char *whole)
{
    int r = unlink_log(s);

    return r < 0 ? r : move_to(s, whole, s->path);
}

/* The acknowledged jobs are in files that were removed: writes them again in their place. */
static int put_back(struct store *s, char why[static STORE_WHY])
{
    _cleanup_(freep) char *copy = NULL, *whole = NULL;
    char text[STORE_WHY] = "";
    int r = asprintf(&copy, "%s" STORE_NEW, s->path) < 0 || asprintf(&whole, "%s" STORE_WHOLE, s->path) < 0
                ? -ENOMEM
                : make_directory(s->directory, text);

    if (r == 0 && (r = database_copy(s->db, copy, text)) == 0)
        r = move_to(s, copy, whole);
    if (r == 0)
        r = take_place(s, whole);
    if (r < 0) { /* all of it is still in the files that have no name: the next one tries again */
        snprintf(why, STORE_WHY, "%.60s: removed while wsd had it, and cannot be written again: %.110s", s->path,
                 *text ? text : strerror(-r));
        return r;
    }
    s->db = database_free(s->db);
    return open_now(s, why);
}

/* Ensures that commits go to the files that the next wsd will read. */
static int ensure_there(struct store *s, char why[static STORE_WHY])
{
    char text[STORE_WHY];
    int r = database_there(s->db, text);

    if (r < 0 && r != -ENOENT)
        snprintf(why, STORE_WHY, "%.80s: %.75s", s->path, text);
    if (r != -ENOENT)
        return r;
    r = put_back(s, why);
    if (r == 0)
        note_failure(s, text, "all of it was written again, and nothing is lost");
    return r;
}

static void move_requests(struct list *from, struct list *to, uint32_t max)
{
    for (uint32_t n = 0; n < max && !list_empty(from); n++)
        list_push_back(to, list_pop_front(from));
}

/* Adds requests that came meanwhile to the same transaction: all that are there before the sync share it. */
static void join_requests(struct store *s, struct list *batch, uint32_t max)
{
    pthread_mutex_lock(&s->lock);
    move_requests(&s->waiting, batch, max);
    pthread_mutex_unlock(&s->lock);
}

/* An fsync for the most part. [thread] */
static int commit(struct store *s, char why[static STORE_WHY])
{
    uint64_t began = clock_monotonic_usec();
    int r = database_commit(s->db, why);
    uint64_t usec = clock_monotonic_usec() - began;

    atomic_fetch_add_explicit(&s->commits, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->commit_usec, usec, memory_order_relaxed);
    atomic_store_explicit(&s->commit_last_usec, usec, memory_order_relaxed);
    if (usec > atomic_load_explicit(&s->commit_most_usec, memory_order_relaxed))
        atomic_store_explicit(&s->commit_most_usec, usec, memory_order_relaxed);
    return r;
}

/* Does at most max requests in one transaction. False: nothing of it is on disk; result and why of the requests say
 * why. */
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
            join_requests(s, batch, max - n);
    }
    if (whole) {
        r = commit(s, why);
        whole = r == 0;
    }
    if (whole)
        return true;
    database_rollback(s->db);
    list_for_each_entry (struct store_request, q, batch, link) {
        database_undo_reply(q);
        take_words(q, r, why);
    }
    return false;
}

/* Removes jobs that were refused although they are in the removed files: they must not be there when those are written
 * again. */
static void take_out(struct store *s, struct list *batch)
{
    char why[STORE_WHY];
    bool ok = database_begin(s->db, why) == 0;

    list_for_each_entry (const struct store_request, q, batch, link) {
        struct store_request drop = {.op = STORE_DROP, .row = {.number = q->row.number, .input_fd = -1}};

        if (q->op == STORE_ADD)
            ok = ok && database_do(s->db, &drop);
    }
    if (ok && commit(s, why) == 0)
        return;
    database_rollback(s->db);
    note_failure(s, "jobs that were refused stay in it", "they may run after wsd's next start");
}

/* The files may have gone while these were written. */
static void check_again(struct store *s, struct list *batch)
{
    char why[STORE_WHY];
    int r = ensure_there(s, why);

    if (r == 0)
        return;
    if (s->db)
        take_out(s, batch);
    list_for_each_entry (struct store_request, q, batch, link) {
        if (q->result < 0)
            continue;
        database_undo_reply(q);
        take_words(q, r, why);
    }
}

static void do_batch(struct store *s, struct list *batch)
{
    char why[STORE_WHY];
    int r = s->lost ? s->lost_error : s->db ? ensure_there(s, why) : open_now(s, why);
    if (r < 0) {
        list_for_each_entry (struct store_request, store_request, batch, link)
            take_words(store_request, r, s->lost ? s->why : why);
        return;
    }
    if (do_all(s, batch, STORE_BATCH)) {
        check_again(s, batch);
        return;
    }
    if (batch->next == batch->prev)
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
    check_again(s, batch);
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
        move_requests(&s->waiting, &batch, STORE_BATCH);
        pthread_mutex_unlock(&s->lock);
        do_batch(s, &batch);
        pthread_mutex_lock(&s->lock);
        move_requests(&batch, &s->done, UINT32_MAX);
        pthread_mutex_unlock(&s->lock); /* the thread that it wakes needs the lock */
        (void)eventfd_write(s->fd, 1);
        if (s->db)
            database_tidy(s->db); /* no request posted before waits for this */
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

/* --- the loop's side ---------------------------------------------------------------------------------------------- */

/* Looks for remains of a database that was removed. */
static int look_for_remains(struct store *s, char why[static STORE_WHY])
{
    _cleanup_(freep) char *wal = NULL, *made = NULL;
    struct stat st, st_wal, st_made;

    if (asprintf(&wal, "%s-wal", s->path) < 0 || asprintf(&made, "%s/" STORE_MADE, s->directory) < 0)
        return -ENOMEM;
    int there = database_file(s->path, true, &st, why);
    if (there < 0 || (there && (st.st_size > 0 || !S_ISREG(st.st_mode))))
        return MIN(there, 0);
    int had_made = database_file(made, true, &st_made, why), had_wal = database_file(wal, true, &st_wal, why);
    if (had_made < 0 || had_wal < 0)
        return MIN(had_made, had_wal);
    if (had_wal && st_wal.st_size > 0) {
        snprintf(why, STORE_WHY, "it is %s, but its -wal is there: see BACKUP in wsd(8)", there ? "empty" : "missing");
        return -EBADMSG;
    }
    if (there || had_made)
        note_failure(
            s, there ? "it is empty" : "it has been there, and is missing",
            "durable jobs that were in it are lost, and it begins anew; to put back a copy, see BACKUP in wsd(8)");
    return 0;
}

/* A wsd was killed while it did so. */
static int finish_put_back(struct store *s, char why[static STORE_WHY])
{
    _cleanup_(freep) char *whole = NULL;
    struct stat st;

    if (asprintf(&whole, "%s" STORE_WHOLE, s->path) < 0)
        return -ENOMEM;
    int r = database_file(whole, true, &st, why);
    if (r <= 0)
        return r;
    r = database_trusts(whole, why);
    if (r < 0)
        return r;
    r = take_place(s, whole);
    if (r == 0)
        note_failure(s, "it was written again when wsd ended", "that was finished, and nothing is lost");
    else
        snprintf(why, STORE_WHY, "%s: %s", STORE_FILE STORE_WHOLE, strerror(-r));
    return r;
}

static int read_all(struct store *s, int (*each)(const struct store_row *row, void *userdata), void *userdata)
{
    char why[STORE_WHY];
    int r = look_at_directory(s->directory, why);

    if (r == 0)
        r = finish_put_back(s, why);
    if (r == 0)
        r = look_for_remains(s, why);
    if (r == 0)
        r = database_open(&s->db, s->path, false, why);
    if (r == -ENOENT || r == -ENOTDIR)
        return 0; /* made at the first request */
    if (r == 0)
        mark_made(s);
    if (r == 0)
        r = database_each(s->db, each, userdata, why);
    if (r >= 0)
        return 0;
    s->lost = true;
    s->lost_error = r == -ENOSPC || r == -ENOMEM ? -EIO : r;
    snprintf(s->why, sizeof(s->why), "%.100s: %.150s", s->path, why);
    s->db = database_free(s->db);
    return r == -ENOMEM ? r : 0;
}

int store_open(struct store **ret_store, const char *directory,
               int (*each)(const struct store_row *row, void *userdata), void *userdata)
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
    list_init(&s->finished);
    s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->fd < 0)
        r = -errno;
    if (directory &&
        ((s->directory = strdup(directory)) == NULL || asprintf(&s->path, "%s/" STORE_FILE, directory) < 0))
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

int store_make_directory(const char *directory)
{
    char why[STORE_WHY];

    return make_directory(directory, why);
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
    move_requests(&s->done, &s->finished, UINT32_MAX);
    move_requests(&s->waiting, &s->finished, UINT32_MAX);
    for (struct list *l; (l = list_pop_front(&s->finished));) {
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

bool store_says(struct store *s, char text[static STORE_SAYS])
{
    if (!atomic_exchange_explicit(&s->has_said, false, memory_order_acquire))
        return false;
    pthread_mutex_lock(&s->lock);
    memcpy(text, s->says, STORE_SAYS);
    pthread_mutex_unlock(&s->lock);
    return true;
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
        list_for_each_entry (struct store_request, store_request, &s->posted, link)
            take_words(store_request, error, "no thread can be had for it");
    pthread_mutex_lock(&s->lock);
    move_requests(&s->posted, error < 0 ? &s->done : &s->waiting, UINT32_MAX);
    pthread_mutex_unlock(&s->lock);
    if (error < 0)
        (void)eventfd_write(s->fd, 1);
    else
        pthread_cond_signal(&s->rung);
}

static void take_finished(struct store *s)
{
    eventfd_t n;

    (void)eventfd_read(s->fd, &n);
    pthread_mutex_lock(&s->lock);
    move_requests(&s->done, &s->finished, UINT32_MAX);
    pthread_mutex_unlock(&s->lock);
}

void store_answers(struct store *s)
{
    if (list_empty(&s->finished))
        take_finished(s);
    for (uint32_t i = 0; i < ANSWERS_TURN && !list_empty(&s->finished); i++) {
        struct store_request *r = container_of(list_pop_front(&s->finished), struct store_request, link);

        s->n_open--;
        drop_record(r);
        r->answer(r);
    }
    if (!list_empty(&s->finished))
        (void)eventfd_write(s->fd, 1); /* the loop comes back */
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

struct store_health store_health(const struct store *s)
{
    return (struct store_health){.commits = atomic_load_explicit(&s->commits, memory_order_relaxed),
                                 .usec = atomic_load_explicit(&s->commit_usec, memory_order_relaxed),
                                 .last_usec = atomic_load_explicit(&s->commit_last_usec, memory_order_relaxed),
                                 .most_usec = atomic_load_explicit(&s->commit_most_usec, memory_order_relaxed)};
}
