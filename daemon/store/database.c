/* SPDX-License-Identifier: Apache-2.0
 *
 * database.c: the tables of the store's database, and the statements for them.
 * Owns the connection. One thread at a time: the one that opens it, then the store's own.
 * Keeps: a request is completely on disk, or not at all. What a job was given stays until it cannot be needed, its
 * output until the job is dropped.
 * Events of jobs stand in the log (job-log.h), with up to STORE_SMALL bytes of what the jobs were given or wrote.
 * Larger data have a table of their own each, where they are written once and removed when they are not needed. So
 * have keys, for SQLite to compare.
 * Does not know what a state means, or when something has to go. */
#include "store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/seal.h"
#include "base/trust.h"
#include "store/job-log.h"

#define VERSION   8    /* of the tables */
#define LOG_PAGES 1000 /* of the write-ahead log, at which they are copied into the database: 4 MiB */

enum statement {
    BEGIN,
    COMMIT,
    ROLLBACK,
    ADD_KEY,
    DROP_KEY,
    ADD_INPUT,
    INPUT,
    GIVEN,
    DROP_INPUT,
    ADD_RESULT,
    RESULT,
    DROP_RESULT,
    ADD_SCHEDULE,
    NOTE_SCHEDULE,
    DROP_SCHEDULE,
    N_STATEMENTS
};

static const char *const sql[N_STATEMENTS] = {
    [BEGIN] = "BEGIN",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [ADD_KEY] = "INSERT INTO keys (number, uid, job_key) VALUES (?1,?2,?3)",
    [DROP_KEY] = "DELETE FROM keys WHERE number = ?1",
    [ADD_INPUT] = "INSERT INTO inputs (number, args, input) VALUES (?1,?2,?3)",
    [INPUT] = "SELECT input FROM inputs WHERE number = ?1",
    [GIVEN] = "SELECT args, CASE WHEN length(input) <= ?2 THEN input END, ifnull(length(input), 0) FROM inputs WHERE "
              "number = ?1",
    [DROP_INPUT] = "DELETE FROM inputs WHERE number = ?1",
    [ADD_RESULT] = "INSERT OR REPLACE INTO results (number, output) VALUES (?1,?2)",
    [RESULT] = "SELECT output FROM results WHERE number = ?1",
    [DROP_RESULT] = "DELETE FROM results WHERE number = ?1",
    [ADD_SCHEDULE] =
        "INSERT INTO schedules (number, uid, name, calendar, plugin, function, directory, args, argc, priority, "
        "timeout_usec, retries, retry_on, retry_usec, wait_usec, durable, persistent, configured, due_usec, "
        "traceparent) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20)",
    [NOTE_SCHEDULE] =
        ("UPDATE schedules SET due_usec = ?2, id = ?3, ran_usec = ?4, runs = ?5, skipped = ?6, state = ?7, exit = ?8, "
         "error = ?9 WHERE number = ?1"), /* clang wants to be sure */
    [DROP_SCHEDULE] = "DELETE FROM schedules WHERE number = ?1",
};

/* Before anything is read: no other process may write what this one believes to know, and two daemons never share a
 * store. */
static const char lock[] = "PRAGMA locking_mode = EXCLUSIVE;";
static const char setup[] = "PRAGMA journal_mode = WAL;"
                            "PRAGMA synchronous = FULL;"
                            "PRAGMA foreign_keys = OFF;"
                            "PRAGMA wal_autocheckpoint = 0;"; /* database_tidy() */

static const char tables[] =
    "BEGIN;"
    "CREATE TABLE jobs (number INTEGER PRIMARY KEY, id BLOB NOT NULL, uid INTEGER NOT NULL, plugin BLOB NOT NULL, "
    "function BLOB NOT NULL, directory BLOB, job_key BLOB, priority INTEGER NOT NULL, function_flags INTEGER NOT NULL, "
    "timeout_usec INTEGER NOT NULL, retry_usec INTEGER NOT NULL, retries INTEGER NOT NULL, retry_on INTEGER NOT NULL, "
    "retried INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0, state INTEGER NOT NULL, "
    "started INTEGER NOT NULL DEFAULT 0, dead INTEGER NOT NULL DEFAULT 0, exit INTEGER NOT NULL DEFAULT 0, "
    "argc INTEGER NOT NULL, submitted_usec INTEGER NOT NULL, due_usec INTEGER NOT NULL, "
    "ended_usec INTEGER NOT NULL DEFAULT 0, queued_usec INTEGER NOT NULL DEFAULT 0, run_usec INTEGER NOT NULL DEFAULT "
    "0, "
    "cpu_usec INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0, total INTEGER NOT NULL DEFAULT 0, "
    "output_size INTEGER NOT NULL DEFAULT 0, error BLOB, status BLOB, worker BLOB, backtrace BLOB);"
    "CREATE UNIQUE INDEX jobs_key ON jobs (uid, job_key) WHERE job_key IS NOT NULL;"
    "CREATE TABLE inputs (number INTEGER PRIMARY KEY, args BLOB, input BLOB);"
    "CREATE TABLE results (number INTEGER PRIMARY KEY, output BLOB);"
    "PRAGMA user_version = 1;"
    "COMMIT;";

/* The changes from each version to the next: a new database takes the same steps as an old one. */
static const char *const upgrades[VERSION] = {
    [0] = tables,
    [1] = "BEGIN;"
          "ALTER TABLE jobs ADD COLUMN due_at INTEGER NOT NULL DEFAULT 0;"
          "ALTER TABLE jobs ADD COLUMN delay_usec INTEGER NOT NULL DEFAULT 0;"
          "ALTER TABLE jobs ADD COLUMN wait_usec INTEGER NOT NULL DEFAULT 0;"
          "CREATE TABLE schedules (number INTEGER PRIMARY KEY, uid INTEGER NOT NULL, name BLOB NOT NULL, calendar BLOB "
          "NOT NULL, "
          "plugin BLOB NOT NULL, function BLOB NOT NULL, directory BLOB, args BLOB, argc INTEGER NOT NULL, "
          "priority INTEGER NOT NULL, timeout_usec INTEGER NOT NULL, retries INTEGER NOT NULL, retry_on INTEGER NOT "
          "NULL, "
          "retry_usec INTEGER NOT NULL, wait_usec INTEGER NOT NULL, durable INTEGER NOT NULL, persistent INTEGER NOT "
          "NULL, "
          "configured INTEGER NOT NULL, due_usec INTEGER NOT NULL, id BLOB, ran_usec INTEGER NOT NULL DEFAULT 0, "
          "runs INTEGER NOT NULL DEFAULT 0, skipped INTEGER NOT NULL DEFAULT 0, state INTEGER NOT NULL DEFAULT 0, "
          "exit INTEGER NOT NULL DEFAULT 0, error BLOB);"
          "PRAGMA user_version = 2;"
          "COMMIT;",
    [2] = "BEGIN;"
          "ALTER TABLE jobs ADD COLUMN tags BLOB;"
          "ALTER TABLE jobs ADD COLUMN runs_after BLOB;"
          "PRAGMA user_version = 3;"
          "COMMIT;",
    [3] = "BEGIN;"
          "ALTER TABLE jobs ADD COLUMN args BLOB;"
          "ALTER TABLE jobs ADD COLUMN input BLOB;"
          "ALTER TABLE jobs ADD COLUMN output BLOB;"
          "PRAGMA user_version = 4;"
          "COMMIT;",
    [4] =
        "BEGIN;"
        "ALTER TABLE jobs RENAME TO old;"
        "CREATE TABLE jobs (number INTEGER PRIMARY KEY, id BLOB NOT NULL, uid INTEGER NOT NULL, job_key BLOB, "
        "state INTEGER NOT NULL, given BLOB NOT NULL, args BLOB, input BLOB, started INTEGER, dead INTEGER, known "
        "BLOB, "
        "output BLOB);"
        "INSERT INTO jobs SELECT number, id, uid, job_key, state, record(plugin, function, "
        "directory, CASE WHEN priority < 0 THEN -2 * priority - 1 ELSE 2 * priority END, function_flags, timeout_usec, "
        "retry_usec, retries, retry_on, submitted_usec, due_usec, due_at, delay_usec, wait_usec, argc, tags, "
        "runs_after), "
        "args, input, started, dead, "
        "CASE WHEN state >= 5 OR retried > 0 THEN record(exit, retried, attempts, due_usec, due_at, ended_usec, "
        "queued_usec, run_usec, cpu_usec, done, total, output_size, error, status, worker, backtrace) END, output FROM "
        "old;"
        "DROP TABLE old;"
        "CREATE UNIQUE INDEX jobs_key ON jobs (uid, job_key) WHERE job_key IS NOT NULL;"
        "PRAGMA user_version = 5;"
        "COMMIT;",
    [5] = "BEGIN;" JOB_LOG_TABLE
          "CREATE TABLE keys (number INTEGER PRIMARY KEY, uid INTEGER NOT NULL, job_key BLOB NOT NULL);"
          "CREATE UNIQUE INDEX keys_key ON keys (uid, job_key);"
          "INSERT INTO keys SELECT number, uid, job_key FROM jobs WHERE job_key IS NOT NULL;"
          "INSERT INTO log SELECT j.number, entries(j.number, id, uid, job_key, state, started, dead, given, known, "
          "j.args, j.input, "
          "output, ifnull(length(i.args), 0), ifnull(length(i.input), 0)) FROM jobs j LEFT JOIN inputs i ON i.number = "
          "j.number;"
          "DROP TABLE jobs;"
          "PRAGMA user_version = 6;"
          "COMMIT;",
    /* records may have a field more (title), which a wsd of before takes for damage */
    [6] = "PRAGMA user_version = 7;",
    [7] = "BEGIN;"
          "ALTER TABLE schedules ADD COLUMN traceparent BLOB;"
          "PRAGMA user_version = 8;"
          "COMMIT;",
};

struct database {
    sqlite3 *sqlite;
    char *path, *wal;
    dev_t dev; /* of the file */
    ino_t inode;
    struct job_log log;
    int n_frames; /* pages in SQLite's own log, as far as is known */
    sqlite3_stmt *statements[N_STATEMENTS];
};

/* --- errors ------------------------------------------------------------------------------------------------------- */

static bool no_room(int error)
{
    return error == ENOSPC || error == EFBIG || error == EDQUOT;
}

static int errno_of(sqlite3 *s, int code)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_CONSTRAINT:
        return -EEXIST;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return -EACCES;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return -EBADMSG;
    case SQLITE_TOOBIG:
        return -EFBIG;
    /* other calls than write report a full file system, too; a limit of file size, and a quota, are treated alike */
    default:
        return s && no_room(sqlite3_system_errno(s)) ? -ENOSPC : -EIO;
    }
}

static int failed(sqlite3 *s, int code, char why[static STORE_WHY])
{
    int r = errno_of(s, code);

    if (r == -ENOSPC && s && sqlite3_system_errno(s) == EFBIG)
        snprintf(why, STORE_WHY, "the files are as large as they may be (RLIMIT_FSIZE, LimitFSIZE= of the unit)");
    else if (r == -ENOSPC && s && sqlite3_system_errno(s) == EDQUOT)
        snprintf(why, STORE_WHY, "the user's quota of the file system is used up");
    else if (r == -ENOSPC)
        snprintf(why, STORE_WHY, "the file system is full");
    else if (r == -EBUSY)
        snprintf(why, STORE_WHY, "another wsd uses it");
    else if (r == -ENOMEM) /* SQLite may not know of it */
        snprintf(why, STORE_WHY, "out of memory");
    else if (r == -EBADMSG && s && errno_of(s, sqlite3_errcode(s)) != r) /* nor of this */
        snprintf(why, STORE_WHY, "what it says of jobs is damaged");
    else if (s && sqlite3_system_errno(s) && ((code & 0xff) == SQLITE_CANTOPEN || (code & 0xff) == SQLITE_IOERR))
        snprintf(why, STORE_WHY, "%.80s: %.70s", sqlite3_errmsg(s), strerror(sqlite3_system_errno(s)));
    else
        snprintf(why, STORE_WHY, "%.120s", s ? sqlite3_errmsg(s) : sqlite3_errstr(code));
    return r;
}

/* --- open --------------------------------------------------------------------------------------------------------- */

static int version_get(sqlite3 *s, int *ret)
{
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(s, "PRAGMA user_version", -1, &st, NULL);

    if (code == SQLITE_OK && (code = sqlite3_step(st)) == SQLITE_ROW) {
        *ret = sqlite3_column_int(st, 0);
        code = SQLITE_OK;
    }
    sqlite3_finalize(st);
    return code;
}

static int on_commit(void *userdata, sqlite3 *sqlite, const char *name, int n_frames)
{
    ((struct database *)userdata)->n_frames = n_frames;
    return SQLITE_OK;
}

/* For an upgrade: columns as the record of those fields. */
static void record(sqlite3_context *context, int n, sqlite3_value **values)
{
    _cleanup_(buffer_deinit) struct buffer b = {0};
    int r = 0;

    for (int i = 0; i < n && r == 0; i++)
        if (sqlite3_value_type(values[i]) == SQLITE_INTEGER)
            r = record_put_number(&b, (uint64_t)sqlite3_value_int64(values[i]));
        else
            r = record_put_bytes(&b, sqlite3_value_blob(values[i]), (size_t)sqlite3_value_bytes(values[i]));
    if (r < 0)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_blob64(context, buffer_data(&b), buffer_size(&b), SQLITE_TRANSIENT);
}

static const void *bytes_of(sqlite3_value *value, size_t *ret_size)
{
    *ret_size = (size_t)sqlite3_value_bytes(value);
    return sqlite3_value_blob(value);
}

/* As text(). */
static const char *text_of(sqlite3_value *value)
{
    size_t n;
    const char *p = bytes_of(value, &n);

    return p && n > 0 && !p[n - 1] ? p : NULL;
}

static int put_record(struct buffer *to, enum entry_kind kind, unsigned flags, const struct store_row *row)
{
    _cleanup_(buffer_deinit) struct buffer b = {0};
    struct entry e = {.kind = kind, .flags = flags, .number = row->number};

    if (kind != ENTRY_STARTED && record_pack(kind == ENTRY_GIVEN ? RECORD_GIVEN : RECORD_KNOWN, row, &b) < 0)
        return -ENOMEM;
    e.data = buffer_data(&b);
    e.size = buffer_size(&b);
    return entry_put(to, &e);
}

/* For an upgrade: a row of the fifth version as entries of the log. Its columns are the parameters. */
static void entries(sqlite3_context *context, int n, sqlite3_value **v)
{
    _cleanup_(buffer_deinit) struct buffer b = {0};
    struct store_row row = {.input_fd = -1};
    size_t size, n_known;
    const void *given = bytes_of(v[7], &size), *known = bytes_of(v[8], &n_known);

    if (!record_unpack(RECORD_GIVEN, given, size, &row)) {
        sqlite3_result_error_code(context, SQLITE_CORRUPT);
        return;
    }
    row.number = (uint64_t)sqlite3_value_int64(v[0]);
    if (sqlite3_value_bytes(v[1]) == sizeof(row.id))
        memcpy(row.id, sqlite3_value_blob(v[1]), sizeof(row.id));
    row.uid = (uint32_t)sqlite3_value_int64(v[2]);
    row.key = text_of(v[3]);
    row.state = (uint32_t)sqlite3_value_int64(v[4]);
    row.args = bytes_of(v[9], &row.args_size);
    row.input = bytes_of(v[10], &row.input_size);
    row.args_size += (size_t)sqlite3_value_int64(v[12]);
    row.input_size += (size_t)sqlite3_value_int64(v[13]);
    if (n_known) /* it waits for no job now, and an entry must begin near its row's begin */
        row.after_size = 0;
    bool apart = !row.args && !row.input && row.args_size + row.input_size;
    bool started = sqlite3_value_int(v[5]), dead = sqlite3_value_int(v[6]);
    int r = put_record(&b, ENTRY_GIVEN, (apart ? ENTRY_APART : 0u) | (row.key ? ENTRY_KEYED : 0u), &row);
    if (r == 0 && n_known) {
        if (!record_unpack(RECORD_KNOWN, known, n_known, &row)) {
            sqlite3_result_error_code(context, SQLITE_CORRUPT);
            return;
        }
        row.output = bytes_of(v[11], &size);
        apart = !row.output && row.output_size;
        r = put_record(&b, ENTRY_KNOWN, (apart ? ENTRY_APART : 0u) | (dead ? ENTRY_DEAD : 0u), &row);
    }
    if (r == 0 && started)
        r = put_record(&b, ENTRY_STARTED, 0, &row);
    if (r < 0)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_blob64(context, buffer_data(&b), buffer_size(&b), SQLITE_TRANSIENT);
}

static int prepare_tables(struct database *db, char why[static STORE_WHY])
{
    int version = 0, code = sqlite3_exec(db->sqlite, lock, NULL, NULL, NULL);

    if (code == SQLITE_OK)
        code = version_get(db->sqlite, &version);
    if (code == SQLITE_OK && version > VERSION) {
        snprintf(why, STORE_WHY, "it was written by a newer wsd");
        return -EPROTO;
    }
    if (code == SQLITE_OK)
        code = sqlite3_exec(db->sqlite, setup, NULL, NULL, NULL);
    if (code == SQLITE_OK && version < VERSION)
        code = sqlite3_create_function(db->sqlite, "record", -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, record, NULL,
                                       NULL);
    if (code == SQLITE_OK && version < VERSION)
        code = sqlite3_create_function(db->sqlite, "entries", 14, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, entries,
                                       NULL, NULL);
    sqlite3_wal_hook(db->sqlite, on_commit, db);
    for (; version < VERSION && code == SQLITE_OK; version++)
        code = sqlite3_exec(db->sqlite, upgrades[version], NULL, NULL, NULL);
    for (int i = 0; i < N_STATEMENTS && code == SQLITE_OK; i++)
        code = sqlite3_prepare_v3(db->sqlite, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &db->statements[i], NULL);
    if (code == SQLITE_OK)
        code = job_log_open(&db->log, db->sqlite);
    return code == SQLITE_OK ? 0 : failed(db->sqlite, code, why);
}

int database_file(const char *path, bool follow, struct stat *ret, char why[static STORE_WHY])
{
    int r = (follow ? stat(path, ret) : lstat(path, ret)) == 0 ? 1 : errno == ENOENT || errno == ENOTDIR ? 0 : -errno;

    if (r < 0)
        snprintf(why, STORE_WHY, "%s", strerror(-r));
    return r;
}

int database_trusts(const char *path, char why[static STORE_WHY])
{
    struct stat st;
    int r = geteuid() == 0 ? database_file(path, false, &st, why) : 0;

    if (r <= 0 || trust_only_here(&st))
        return r < 0 ? r : 0;
    const char *name = strrchr(path, '/');
    snprintf(why, STORE_WHY, "%s: %s%s", name ? name + 1 : path, S_ISDIR(st.st_mode) ? "" : "not permitted: ",
             S_ISLNK(st.st_mode)     ? "it is a symbolic link"
             : S_ISDIR(st.st_mode)   ? strerror(EISDIR)
             : !S_ISREG(st.st_mode)  ? "it is no regular file"
             : !trust_only_ours(&st) ? "others than root could write to it"
                                     : "it has another name, too: see find(1), -samefile");
    return -EACCES;
}

/* Looks at the file before SQLite does, since SQLite's errors do not say why. A wsd of root's acts on what stands in
 * it. */
static int look_at(struct database *db, bool create, char why[static STORE_WHY])
{
    int r = database_trusts(db->path, why);

    if (r == 0)
        r = database_trusts(db->wal, why);
    if (r < 0)
        return r;
    _cleanup_(close_fdp) int fd = open(db->path, O_RDWR | O_CLOEXEC | O_NONBLOCK | (create ? O_CREAT : 0), 0600);
    struct stat st;
    r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;

    if (r < 0) {
        snprintf(why, STORE_WHY, "%s", r == -ENOSPC ? "the file system is full, or has no inodes left" : strerror(-r));
        return r;
    }
    if (!S_ISREG(st.st_mode)) {
        snprintf(why, STORE_WHY, "it is no regular file");
        return -EINVAL;
    }
    (void)fchmod(fd, 0600); /* the files beside it are made alike */
    db->dev = st.st_dev;
    db->inode = st.st_ino;
    return 0;
}

int database_open(struct database **ret_database, const char *path, bool create, char why[static STORE_WHY])
{
    struct database *db = calloc(1, sizeof(*db));
    int code, r;

    snprintf(why, STORE_WHY, "%s", strerror(ENOMEM));
    if (!db)
        return -ENOMEM;
    if ((db->path = strdup(path)) == NULL || asprintf(&db->wal, "%s-wal", path) < 0) {
        database_free(db);
        return -ENOMEM;
    }
    r = look_at(db, create, why);
    if (r < 0) {
        database_free(db);
        return r;
    }
    code = sqlite3_open_v2(path, &db->sqlite,
                           SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0), NULL);
    r = code == SQLITE_OK ? prepare_tables(db, why) : failed(db->sqlite, code, why);
    if (r < 0) {
        database_free(db);
        return r;
    }
    *ret_database = db;
    return 0;
}

struct database *database_free(struct database *db)
{
    if (!db)
        return NULL;
    for (int i = 0; i < N_STATEMENTS; i++)
        sqlite3_finalize(db->statements[i]);
    job_log_deinit(&db->log);
    sqlite3_close(db->sqlite);
    free(db->path);
    free(db->wal);
    free(db);
    return NULL;
}

int database_there(const struct database *db, char why[static STORE_WHY])
{
    struct stat st, wal;
    int there = database_file(db->path, true, &st, why), r = there;

    if (there > 0 && (st.st_dev != db->dev || st.st_ino != db->inode)) {
        snprintf(why, STORE_WHY, "another file was put in its place while wsd had it: restart wsd");
        return -ESTALE;
    }
    if (there > 0 && db->n_frames > 0)
        r = database_file(db->wal, true, &wal, why);
    if (r != 0)
        return r > 0 ? 0 : r;
    snprintf(why, STORE_WHY, "it was removed while wsd had it");
    return -ENOENT;
}

int database_copy(struct database *db, const char *path, char why[static STORE_WHY])
{
    sqlite3_stmt *st = NULL;

    (void)unlink(path);
    /* SQLite accepts an empty file, and no other user ever reads it */
    _cleanup_(close_fdp) int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        int r = -errno;

        snprintf(why, STORE_WHY, "%s", strerror(-r));
        return r;
    }
    int code = sqlite3_prepare_v2(db->sqlite, "VACUUM INTO ?1", -1, &st, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(st, 1, path, -1, SQLITE_STATIC);
    if (code == SQLITE_OK && (code = sqlite3_step(st)) == SQLITE_DONE)
        code = SQLITE_OK;
    sqlite3_finalize(st);
    if (code != SQLITE_OK)
        return failed(db->sqlite, code, why);
    int r = fsync(fd) < 0 ? -errno : 0;
    if (r < 0)
        snprintf(why, STORE_WHY, "%s", strerror(-r));
    return r;
}

/* --- out of the tables -------------------------------------------------------------------------------------------- */

static uint64_t number(sqlite3_stmt *st, int *at)
{
    return (uint64_t)sqlite3_column_int64(st, (*at)++);
}

static uint32_t small(sqlite3_stmt *st, int *at)
{
    return (uint32_t)sqlite3_column_int64(st, (*at)++);
}

/* Texts are stored with their NUL, since a file name need not be UTF-8; what lacks it is damage. */
static const char *text(sqlite3_stmt *st, int *at)
{
    const char *p = sqlite3_column_blob(st, *at);
    int n = sqlite3_column_bytes(st, (*at)++);

    return p && n > 0 && !p[n - 1] ? p : NULL;
}

static void id_of(sqlite3_stmt *st, int at, struct store_row *row)
{
    if (sqlite3_column_bytes(st, at) == sizeof(row->id))
        memcpy(row->id, sqlite3_column_blob(st, at), sizeof(row->id));
}

static int unpack(struct database *db, const struct logged *job, enum entry_kind kind, struct store_row *row)
{
    struct entry e;
    int code = job_log_read(&db->log, job, kind, &e);

    if (code != SQLITE_OK)
        return code;
    return record_unpack(kind == ENTRY_GIVEN ? RECORD_GIVEN : RECORD_KNOWN, e.data, e.size, row) ? SQLITE_OK
                                                                                                 : SQLITE_CORRUPT;
}

/* Finds the arguments and, if small, the input, with their sizes, for which the record is not trusted. They may be
 * apart from the log, and live until the statement is reset. */
static int given_bytes(struct database *db, const struct logged *job, struct store_row *row)
{
    sqlite3_stmt *st = db->statements[GIVEN];
    int code;

    if (!(job->at.given_flags & ENTRY_APART))
        return (!row->args && row->args_size) || (!row->input && row->input_size) ? SQLITE_CORRUPT : SQLITE_OK;
    sqlite3_bind_int64(st, 1, (sqlite3_int64)logged_number(job));
    sqlite3_bind_int64(st, 2, STORE_INLINE);
    code = sqlite3_step(st);
    if (code != SQLITE_ROW)
        return code == SQLITE_DONE ? SQLITE_CORRUPT : code;
    row->args = sqlite3_column_blob(st, 0);
    row->args_size = (size_t)sqlite3_column_bytes(st, 0);
    row->input = sqlite3_column_blob(st, 1);
    row->input_size = (size_t)sqlite3_column_int64(st, 2);
    return SQLITE_OK;
}

/* Reads a row. At the start, the arguments and input of an ended job are left out, and so is a large input. */
static int row_of(struct database *db, const struct logged *job, struct store_row *row)
{
    *row = (struct store_row){.input_fd = -1};
    int code = unpack(db, job, ENTRY_GIVEN, row);

    if (code == SQLITE_OK && job->at.known)
        code = unpack(db, job, ENTRY_KNOWN, row);
    row->number = logged_number(job);
    row->started = job->at.started != 0;
    row->dead = job->at.known_flags & ENTRY_DEAD ? 1 : 0;
    bool final = row->state >= STORE_FINAL;
    if (final || job->at.known) /* it waits for no job now */
        row->after_size = 0;
    if (code == SQLITE_OK && !final)
        code = given_bytes(db, job, row);
    if (final)
        row->args = row->input = NULL;
    if (final && !row->dead)
        row->args_size = row->input_size = 0;
    return code == SQLITE_OK && !(row->plugin && row->function) ? SQLITE_CORRUPT : code;
}

int database_each(struct database *db, int (*each)(const struct store_row *row, void *userdata), void *userdata,
                  char why[static STORE_WHY])
{
    _cleanup_(freep) struct logged **all = job_log_sorted(&db->log);
    struct store_row row;
    int r = 0, code = all ? SQLITE_OK : SQLITE_NOMEM;

    for (size_t i = 0; i < db->log.index.n && r == 0 && code == SQLITE_OK; i++) {
        code = row_of(db, all[i], &row);
        if (code == SQLITE_OK)
            r = each(&row, userdata);
        sqlite3_reset(db->statements[GIVEN]);
    }
    if (code != SQLITE_OK)
        return failed(db->sqlite, code, why);
    if (r < 0)
        snprintf(why, STORE_WHY, "%s", strerror(-r));
    return r;
}

static const char schedules[] = "SELECT number, uid, name, calendar, plugin, function, directory, args, length(args), "
                                "argc, priority, timeout_usec, retries, "
                                "retry_on, retry_usec, wait_usec, durable, persistent, configured, due_usec, id, "
                                "ran_usec, runs, skipped, state, exit, error, traceparent "
                                "FROM schedules ORDER BY number";

static void schedule_of(sqlite3_stmt *st, struct store_row *row)
{
    int at = 0;

    *row = (struct store_row){.input_fd = -1};
    row->number = number(st, &at);
    row->uid = small(st, &at);
    row->key = text(st, &at);
    row->calendar = text(st, &at);
    row->plugin = text(st, &at);
    row->function = text(st, &at);
    row->directory = text(st, &at);
    row->args = sqlite3_column_blob(st, at++);
    row->args_size = number(st, &at);
    row->argc = small(st, &at);
    row->priority = (int)sqlite3_column_int(st, at++);
    row->timeout_usec = number(st, &at);
    row->retries = small(st, &at);
    row->retry_on = small(st, &at);
    row->retry_usec = number(st, &at);
    row->wait_usec = number(st, &at);
    row->durable = small(st, &at);
    row->persistent = small(st, &at);
    row->configured = small(st, &at);
    row->due_usec = number(st, &at);
    id_of(st, at++, row);
    row->submitted_usec = number(st, &at);
    row->done = number(st, &at);
    row->total = number(st, &at);
    row->state = small(st, &at);
    row->exit = small(st, &at);
    row->error = text(st, &at);
    row->traceparent = text(st, &at);
}

int database_schedules(struct database *db, int (*each)(const struct store_row *row, void *userdata), void *userdata,
                       char why[static STORE_WHY])
{
    sqlite3_stmt *st = NULL;
    struct store_row row;
    int r = 0, code = sqlite3_prepare_v2(db->sqlite, schedules, -1, &st, NULL);

    while (code == SQLITE_OK && r == 0 && sqlite3_step(st) == SQLITE_ROW) {
        schedule_of(st, &row);
        r = row.key && row.calendar && row.plugin && row.function ? each(&row, userdata) : 0;
    }
    if (code != SQLITE_OK)
        r = failed(db->sqlite, code, why);
    sqlite3_finalize(st);
    return r;
}

/* --- into the tables ---------------------------------------------------------------------------------------------- */

static int run_statement(struct database *db, enum statement which)
{
    sqlite3_stmt *st = db->statements[which];
    int code = sqlite3_step(st);

    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int run_simple(struct database *db, enum statement which, char why[static STORE_WHY])
{
    int code = run_statement(db, which);

    return code == SQLITE_OK ? 0 : failed(db->sqlite, code, why);
}

int database_begin(struct database *db, char why[static STORE_WHY])
{
    job_log_begin(&db->log);
    return run_simple(db, BEGIN, why);
}

int database_commit(struct database *db, char why[static STORE_WHY])
{
    int code = job_log_flush(&db->log);
    int r = code == SQLITE_OK ? run_simple(db, COMMIT, why) : failed(db->sqlite, code, why);

    if (r == 0)
        job_log_committed(&db->log);
    return r;
}

void database_rollback(struct database *db)
{
    if (!sqlite3_get_autocommit(db->sqlite)) /* else it has been done already */
        (void)run_statement(db, ROLLBACK);
    job_log_rolled_back(&db->log);
}

void database_tidy(struct database *db)
{
    char why[STORE_WHY];

    job_log_shrink(&db->log);
    if (job_log_wants_cleaning(&db->log) &&
        (database_begin(db, why) < 0 || job_log_clean(&db->log) != SQLITE_OK || database_commit(db, why) < 0))
        database_rollback(db); /* on failure nothing is lost, and the next call does it */
    if (db->n_frames < LOG_PAGES)
        return;
    db->n_frames = 0; /* where it fails, the next transaction says so again */
    (void)sqlite3_wal_checkpoint_v2(db->sqlite, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

static void put_number(sqlite3_stmt *st, int at, uint64_t value)
{
    sqlite3_bind_int64(st, at, (sqlite3_int64)MIN(value, (uint64_t)INT64_MAX));
}

static void put_text(sqlite3_stmt *st, int at, const char *value)
{
    if (value)
        sqlite3_bind_blob64(st, at, value, strlen(value) + 1, SQLITE_STATIC);
}

static void put_bytes(sqlite3_stmt *st, int at, const void *data, size_t size)
{
    if (data && size)
        sqlite3_bind_blob64(st, at, data, size, SQLITE_STATIC);
}

static sqlite3_stmt *of(struct database *db, enum statement which, uint64_t row)
{
    sqlite3_stmt *st = db->statements[which];

    put_number(st, 1, row);
    return st;
}

static int add_input(struct database *db, const struct store_row *row)
{
    sqlite3_stmt *st = of(db, ADD_INPUT, row->number);
    const void *input = row->input;
    void *map = MAP_FAILED;
    int code;

    if (!input && row->input_size) {
        map = mmap(NULL, row->input_size, PROT_READ, MAP_SHARED, row->input_fd, 0);
        if (map == MAP_FAILED)
            return SQLITE_NOMEM;
        input = map;
    }
    put_bytes(st, 2, row->args, row->args_size);
    put_bytes(st, 3, input, row->input_size);
    code = run_statement(db, ADD_INPUT);
    if (map != MAP_FAILED)
        munmap(map, row->input_size);
    return code;
}

static int add_key(struct database *db, const struct store_row *row)
{
    sqlite3_stmt *st = of(db, ADD_KEY, row->number);

    put_number(st, 2, row->uid);
    put_text(st, 3, row->key);
    return run_statement(db, ADD_KEY);
}

static int drop_row(struct database *db, enum statement which, uint64_t row)
{
    of(db, which, row);
    return run_statement(db, which);
}

static int add_job(struct database *db, const struct store_request *r)
{
    const struct store_row *row = &r->row;
    bool apart = !store_given_fits(row);
    int code = row->key ? add_key(db, row) : SQLITE_OK;

    if (code == SQLITE_OK && apart)
        code = add_input(db, row);
    if (code != SQLITE_OK)
        return code;
    return job_log_give(&db->log, row->number, (apart ? ENTRY_APART : 0u) | (row->key ? ENTRY_KEYED : 0u), r->record,
                        r->record_size);
}

/* Of one that is not there nothing is noted. */
static int note_known(struct database *db, struct logged *job, unsigned flags, const struct store_request *r)
{
    return job ? job_log_know(&db->log, job, flags, r->record, r->record_size) : SQLITE_OK;
}

static int end_job(struct database *db, struct logged *job, const struct store_request *r)
{
    const struct store_row *row = &r->row;
    bool apart = !store_output_fits(row);
    int code = SQLITE_OK;

    if (!job)
        return SQLITE_OK;
    if (job->at.given_flags & ENTRY_APART && !row->dead)
        code = drop_row(db, DROP_INPUT, row->number);
    if (code == SQLITE_OK && apart) {
        put_bytes(of(db, ADD_RESULT, row->number), 2, row->output, row->output_size);
        code = run_statement(db, ADD_RESULT);
    }
    if (code != SQLITE_OK)
        return code;
    return note_known(db, job, (apart ? ENTRY_APART : 0u) | (row->dead ? ENTRY_DEAD : 0u), r);
}

static int add_schedule(struct database *db, const struct store_row *row)
{
    sqlite3_stmt *st = of(db, ADD_SCHEDULE, row->number);

    put_number(st, 2, row->uid);
    put_text(st, 3, row->key);
    put_text(st, 4, row->calendar);
    put_text(st, 5, row->plugin);
    put_text(st, 6, row->function);
    put_text(st, 7, row->directory);
    put_bytes(st, 8, row->args, row->args_size);
    put_number(st, 9, row->argc);
    sqlite3_bind_int(st, 10, row->priority);
    put_number(st, 11, row->timeout_usec);
    put_number(st, 12, row->retries);
    put_number(st, 13, row->retry_on);
    put_number(st, 14, row->retry_usec);
    put_number(st, 15, row->wait_usec);
    put_number(st, 16, row->durable);
    put_number(st, 17, row->persistent);
    put_number(st, 18, row->configured);
    put_number(st, 19, row->due_usec);
    put_text(st, 20, row->traceparent);
    return run_statement(db, ADD_SCHEDULE);
}

static int note_schedule(struct database *db, const struct store_row *row)
{
    sqlite3_stmt *st = of(db, NOTE_SCHEDULE, row->number);

    put_number(st, 2, row->due_usec);
    sqlite3_bind_blob(st, 3, row->id, sizeof(row->id), SQLITE_STATIC);
    put_number(st, 4, row->submitted_usec);
    put_number(st, 5, row->done);
    put_number(st, 6, row->total);
    put_number(st, 7, row->state);
    put_number(st, 8, row->exit);
    put_text(st, 9, row->error);
    return run_statement(db, NOTE_SCHEDULE);
}

static int drop_job(struct database *db, struct logged *job)
{
    int code = SQLITE_OK;

    if (!job)
        return SQLITE_OK;
    if (job->at.given_flags & ENTRY_KEYED)
        code = drop_row(db, DROP_KEY, logged_number(job));
    if (code == SQLITE_OK && job->at.given_flags & ENTRY_APART)
        code = drop_row(db, DROP_INPUT, logged_number(job));
    if (code == SQLITE_OK && job->at.known_flags & ENTRY_APART)
        code = drop_row(db, DROP_RESULT, logged_number(job));
    return code == SQLITE_OK ? job_log_drop(&db->log, job) : code;
}

static void not_there(struct store_request *r)
{
    r->result = -ENOENT;
    snprintf(r->why, STORE_WHY, "it is not in the store");
}

static void took(struct store_request *r, int result)
{
    r->result = result;
    if (result < 0)
        snprintf(r->why, STORE_WHY, "%s", strerror(-result));
}

/* Copies the one column of the one row. */
static int read_bytes(struct database *db, enum statement which, struct store_request *r,
                      int (*take)(struct store_request *r, const void *data, size_t size))
{
    sqlite3_stmt *st = of(db, which, r->row.number);
    int code = sqlite3_step(st);

    if (code == SQLITE_ROW)
        took(r, take(r, sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0)));
    else if (code == SQLITE_DONE)
        not_there(r);
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Allocates so many bytes, and copies the first ones. */
static int take_memory(struct store_request *r, const void *data, size_t room, size_t size)
{
    r->reply = malloc(room + 1);
    if (!r->reply)
        return -ENOMEM;
    if (size)
        memcpy(r->reply, data, size);
    r->reply_size = room;
    return 0;
}

static int take_output(struct store_request *r, const void *data, size_t size)
{
    return take_memory(r, data, size, size);
}

static int take_file(struct store_request *r, const void *data, size_t size)
{
    int fd = memfd_create("wsd-input", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    for (size_t at = 0; fd >= 0 && at < size;) {
        ssize_t n = write(fd, (const char *)data + at, size - at);

        if (n < 0 && errno != EINTR) {
            int error = -errno;

            close(fd);
            return error;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    int sealed = fd < 0 ? -errno : seal_memory(fd);
    if (sealed < 0) {
        close_fd(fd);
        return sealed;
    }
    r->reply_fd = fd;
    return 0;
}

static int start_job(struct database *db, struct logged *job, struct store_request *r)
{
    int code = SQLITE_OK;

    if (r->row.started && job)
        code = job_log_start(&db->log, job);
    if (code == SQLITE_OK && r->want_input)
        code = read_bytes(db, INPUT, r, take_file);
    return code;
}

static int read_output(struct database *db, const struct logged *job, struct store_request *r)
{
    struct store_row row = {0};
    int code = SQLITE_OK;

    if (job && job->at.known_flags & ENTRY_APART)
        return read_bytes(db, RESULT, r, take_output);
    if (job && job->at.known)
        code = unpack(db, job, ENTRY_KNOWN, &row);
    if (code == SQLITE_OK && row.output)
        took(r, take_output(r, row.output, row.output_size));
    else if (code == SQLITE_OK)
        not_there(r);
    return code;
}

/* The arguments and, where it is small, the input, one behind the other. */
static int read_given(struct database *db, const struct logged *job, struct store_request *r)
{
    struct store_row row = {0};
    int code = unpack(db, job, ENTRY_GIVEN, &row);

    if (code == SQLITE_OK)
        code = given_bytes(db, job, &row);
    if (code == SQLITE_OK) {
        size_t input = row.input ? row.input_size : 0;

        r->row.args_size = row.args_size;
        r->row.input_size = row.input_size;
        r->result = take_memory(r, row.args, row.args_size + input, row.args_size);
        if (r->result == 0 && input)
            memcpy((char *)r->reply + row.args_size, row.input, input);
    }
    sqlite3_reset(db->statements[GIVEN]);
    return r->result == -ENOMEM ? SQLITE_NOMEM : code;
}

static int requeue(struct database *db, struct logged *job, struct store_request *r)
{
    int code = SQLITE_OK;

    if (!job || !(job->at.known_flags & ENTRY_DEAD)) {
        not_there(r);
        return SQLITE_OK;
    }
    if (job->at.known_flags & ENTRY_APART)
        code = drop_row(db, DROP_RESULT, logged_number(job));
    if (code == SQLITE_OK)
        code = note_known(db, job, 0, r);
    return code == SQLITE_OK ? read_given(db, job, r) : code;
}

static int act(struct database *db, struct store_request *r)
{
    struct logged *job = r->op == STORE_ADD ? NULL : job_log_find(&db->log, r->row.number);

    switch (r->op) {
    case STORE_ADD:
        return add_job(db, r);
    case STORE_START:
        return start_job(db, job, r);
    case STORE_RETRY:
        return note_known(db, job, 0, r);
    case STORE_END:
        return end_job(db, job, r);
    case STORE_READ:
        return read_output(db, job, r);
    case STORE_REQUEUE:
        return requeue(db, job, r);
    case STORE_DROP:
        return drop_job(db, job);
    case STORE_SCHEDULE_ADD:
        return add_schedule(db, &r->row);
    case STORE_SCHEDULE_NOTE:
        return note_schedule(db, &r->row);
    case STORE_SCHEDULE_DROP:
        return drop_row(db, DROP_SCHEDULE, r->row.number);
    }
    return SQLITE_MISUSE;
}

bool database_do(struct database *db, struct store_request *r)
{
    int code;

    r->result = 0;
    r->reply_fd = -1;
    code = store_has_record(r->op) && !r->record ? SQLITE_NOMEM : act(db, r);
    if (code == SQLITE_OK)
        return true;
    r->result = failed(db->sqlite, code, r->why);
    /* a key that is there undoes the one statement, which is the first of its request */
    return r->result == -EEXIST && !sqlite3_get_autocommit(db->sqlite);
}

void database_undo_reply(struct store_request *r)
{
    free(TAKE(r->reply));
    r->reply_size = 0;
    r->reply_fd = close_fd(r->reply_fd);
}
