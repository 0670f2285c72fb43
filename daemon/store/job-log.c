/* SPDX-License-Identifier: Apache-2.0
 *
 * job-log.c: the log of durable jobs and its index.
 * Owns the rows of the table `log`, and the places of its entries. One thread at a time: the one that opens the
 * database, then the store's own.
 * Keeps: the index is what reading the log would yield, except for changes of the present transaction, which are undone
 * with it. Of a job that exists, the entry GIVEN and the newest KNOWN are valid, and a STARTED behind that; none of
 * them goes with its row.
 * Does not know what a record says. */
#include "store/job-log.h"

#include <stdlib.h>

#include "base/cleanup.h"

#define SHRINK_BUCKETS 8192u /* a transaction */

struct job_log_undo {
    struct logged *job;
    struct logged_places before;
    bool added, drops;
};

/* --- the index ---------------------------------------------------------------------------------------------------- */

static struct logged *of_link(struct hash_link *l)
{
    return container_of(l, struct logged, by_number);
}

/* Numbers come one after the other, so they are better keys as they are: neighbours lie beside each other. */
static struct logged *logged_find(const struct job_log *log, uint64_t number)
{
    struct hash_link *l = hash_first(&log->index, number);

    return l ? of_link(l) : NULL;
}

void job_log_shrink(struct job_log *log)
{
    (void)hash_shrink(&log->index, SHRINK_BUCKETS);
}

struct logged *job_log_find(const struct job_log *log, uint64_t number)
{
    struct logged *job = logged_find(log, number);

    return job && !job->at.gone ? job : NULL;
}

static struct logged *logged_insert(struct job_log *log, uint64_t number)
{
    struct logged *job = calloc(1, sizeof(*job));

    if (!job)
        return NULL;
    if (hash_insert(&log->index, &job->by_number, number) == 0)
        return job;
    free(job);
    return NULL;
}

static void logged_forget(struct job_log *log, struct logged *job)
{
    hash_remove(&log->index, &job->by_number);
    free(job);
}

static uint64_t started_size(const struct logged *job)
{
    return job->at.started ? entry_size(&(struct entry){.kind = ENTRY_STARTED, .number = logged_number(job)}) : 0;
}

/* Of its entries, those that count. */
static uint64_t counting(const struct logged *job)
{
    return job->at.gone ? 0 : job->at.given_size + job->at.known_size + started_size(job);
}

/* Takes over into the index what an entry says of its job, and its place. */
static void take_entry(struct job_log *log, struct logged *job, const struct entry *e, uint64_t row, uint16_t offset)
{
    struct logged_places *at = &job->at;

    log->n_counting -= counting(job);
    switch (e->kind) {
    case ENTRY_GIVEN:
        at->given = row;
        at->given_offset = offset;
        at->given_size = (uint32_t)entry_size(e);
        at->given_flags = (uint8_t)e->flags;
        break;
    case ENTRY_STARTED:
        at->started = row;
        break;
    case ENTRY_KNOWN:
        at->known = row;
        at->known_offset = offset;
        at->known_size = (uint32_t)entry_size(e);
        at->known_flags = (uint8_t)e->flags;
        at->started = 0;
        break;
    case ENTRY_GONE:
        at->gone = true;
        break;
    }
    log->n_counting += counting(job);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = logged_number(*(struct logged *const *)a), y = logged_number(*(struct logged *const *)b);

    return (x > y) - (x < y);
}

struct logged **job_log_sorted(const struct job_log *log)
{
    struct logged **all = calloc(log->index.n + 1, sizeof(struct logged *));
    size_t n = 0;

    if (!all)
        return NULL;
    for (size_t i = 0; i < log->index.n_buckets; i++)
        for (struct hash_link *l = log->index.buckets[i]; l; l = l->next)
            all[n++] = of_link(l);
    qsort(all, n, sizeof(struct logged *), by_number);
    return all;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* What a job was given may have been written again, behind what is known of it. */
static int load_entry(struct job_log *log, const struct entry *e, uint64_t row, uint16_t offset)
{
    struct logged *job = logged_find(log, e->number);

    if (!job && e->kind == ENTRY_GONE)
        return SQLITE_OK;
    if (!job && !(job = logged_insert(log, e->number)))
        return SQLITE_NOMEM;
    take_entry(log, job, e, row, offset);
    if (job->at.gone)
        logged_forget(log, job);
    return SQLITE_OK;
}

static int load_row(struct job_log *log, uint64_t row, const uint8_t *data, size_t size)
{
    const uint8_t *begin = data;
    struct entry e;
    int code = SQLITE_OK;

    log->n_bytes += size;
    log->next = row + 1;
    while (size && code == SQLITE_OK) {
        size_t offset = (size_t)(data - begin);

        code = offset < JOB_LOG_ROW && entry_next(&data, &size, &e) ? load_entry(log, &e, row, (uint16_t)offset)
                                                                    : SQLITE_CORRUPT;
    }
    return code;
}

static int load_rows(struct job_log *log, sqlite3 *sqlite)
{
    sqlite3_stmt *all = NULL;
    int code = sqlite3_prepare_v2(sqlite, "SELECT number, bytes FROM log ORDER BY number", -1, &all, NULL);

    while (code == SQLITE_OK && (code = sqlite3_step(all)) == SQLITE_ROW)
        code = sqlite3_column_int64(all, 0) < 1
                   ? SQLITE_CORRUPT
                   : load_row(log, (uint64_t)sqlite3_column_int64(all, 0), sqlite3_column_blob(all, 1),
                              (size_t)sqlite3_column_bytes(all, 1));
    sqlite3_finalize(all);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

int job_log_open(struct job_log *log, sqlite3 *sqlite)
{
    const struct {
        sqlite3_stmt **statement;
        const char *sql;
    } statements[] = {{&log->insert, "INSERT INTO log (number, bytes) VALUES (?1,?2)"},
                      {&log->select, "SELECT bytes, number FROM log WHERE number = ?1"},
                      {&log->oldest, "SELECT bytes, number FROM log ORDER BY number LIMIT 1"},
                      {&log->delete, "DELETE FROM log WHERE number = ?1"}};
    int code = SQLITE_OK;

    for (size_t i = 0; i < ARRAY_SIZE(statements) && code == SQLITE_OK; i++)
        code =
            sqlite3_prepare_v3(sqlite, statements[i].sql, -1, SQLITE_PREPARE_PERSISTENT, statements[i].statement, NULL);
    log->next = 1;
    return code == SQLITE_OK ? load_rows(log, sqlite) : code;
}

void job_log_deinit(struct job_log *log)
{
    sqlite3_finalize(log->insert);
    sqlite3_finalize(log->select);
    sqlite3_finalize(log->oldest);
    sqlite3_finalize(log->delete);
    for (size_t i = 0; i < log->index.n_buckets; i++)
        for (struct hash_link *l = log->index.buckets[i], *next; l; l = next) {
            next = l->next;
            free(of_link(l));
        }
    hash_deinit(&log->index);
    buffer_deinit(&log->row);
    buffer_deinit(&log->given.bytes);
    buffer_deinit(&log->known.bytes);
    buffer_deinit(&log->cleaned.bytes);
    free(log->undo);
    memset(log, 0, sizeof(*log));
}

static int statement_done(sqlite3_stmt *st, int code)
{
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}

/* SQLITE_DONE: there is none. */
static int read_row(struct job_log_reader *reader, sqlite3_stmt *st)
{
    int code = sqlite3_step(st);

    reader->row = 0;
    if (code != SQLITE_ROW) {
        int r = statement_done(st, code);

        return code == SQLITE_DONE ? SQLITE_DONE : r;
    }
    buffer_drop(&reader->bytes, buffer_size(&reader->bytes));
    if (buffer_put(&reader->bytes, sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0)) == 0)
        reader->row = (uint64_t)sqlite3_column_int64(st, 1);
    else
        code = SQLITE_NOMEM;
    return statement_done(st, code);
}

int job_log_read(struct job_log *log, const struct logged *job, enum entry_kind kind, struct entry *ret)
{
    struct job_log_reader *reader = kind == ENTRY_GIVEN ? &log->given : &log->known;
    uint64_t row = kind == ENTRY_GIVEN ? job->at.given : job->at.known;
    size_t offset = kind == ENTRY_GIVEN ? job->at.given_offset : job->at.known_offset;
    int code = row == log->next ? job_log_flush(log) : SQLITE_OK;

    if (code == SQLITE_OK && reader->row != row) {
        sqlite3_bind_int64(log->select, 1, (sqlite3_int64)row);
        code = read_row(reader, log->select);
    }
    if (code != SQLITE_OK)
        return code == SQLITE_DONE ? SQLITE_CORRUPT : code;
    if (offset > buffer_size(&reader->bytes))
        return SQLITE_CORRUPT;
    const uint8_t *data = buffer_data(&reader->bytes) + offset;
    size_t size = buffer_size(&reader->bytes) - offset;
    return entry_next(&data, &size, ret) && ret->number == logged_number(job) && ret->kind == kind ? SQLITE_OK
                                                                                                   : SQLITE_CORRUPT;
}

/* --- a transaction ------------------------------------------------------------------------------------------------ */

void job_log_begin(struct job_log *log)
{
    log->n_bytes_before = log->n_bytes;
    log->n_counting_before = log->n_counting;
}

static int remember(struct job_log *log, struct logged *job, enum entry_kind kind)
{
    if (log->n_undo == log->undo_room) {
        size_t room = log->undo_room ? log->undo_room * 2 : 64;
        struct job_log_undo *undo = realloc(log->undo, room * sizeof(*undo));

        if (!undo)
            return SQLITE_NOMEM;
        log->undo = undo;
        log->undo_room = room;
    }
    log->undo[log->n_undo++] =
        (struct job_log_undo){.job = job, .before = job->at, .added = !job->at.given, .drops = kind == ENTRY_GONE};
    return SQLITE_OK;
}

/* On failure, the transaction has to be rolled back. */
static int append(struct job_log *log, struct logged *job, const struct entry *e)
{
    size_t offset = buffer_size(&log->row);
    int code = remember(log, job, e->kind);

    if (code != SQLITE_OK)
        return code;
    if (entry_put(&log->row, e) < 0) {
        log->n_undo--;
        return SQLITE_NOMEM;
    }
    take_entry(log, job, e, log->next, (uint16_t)offset);
    return buffer_size(&log->row) >= JOB_LOG_ROW ? job_log_flush(log) : SQLITE_OK;
}

int job_log_give(struct job_log *log, uint64_t number, unsigned flags, const void *record, size_t size)
{
    struct logged *job = logged_insert(log, number);

    if (!job)
        return SQLITE_NOMEM;
    int code = append(log, job, &(struct entry){ENTRY_GIVEN, flags, number, record, size});
    if (!job->at.given)
        logged_forget(log, job);
    return code;
}

int job_log_start(struct job_log *log, struct logged *job)
{
    return append(log, job, &(struct entry){.kind = ENTRY_STARTED, .number = logged_number(job)});
}

int job_log_know(struct job_log *log, struct logged *job, unsigned flags, const void *record, size_t size)
{
    return append(log, job, &(struct entry){ENTRY_KNOWN, flags, logged_number(job), record, size});
}

int job_log_drop(struct job_log *log, struct logged *job)
{
    return append(log, job, &(struct entry){.kind = ENTRY_GONE, .number = logged_number(job)});
}

int job_log_flush(struct job_log *log)
{
    size_t size = buffer_size(&log->row);
    int code;

    if (!size)
        return SQLITE_OK;
    sqlite3_bind_int64(log->insert, 1, (sqlite3_int64)log->next);
    sqlite3_bind_blob64(log->insert, 2, buffer_data(&log->row), size, SQLITE_STATIC);
    code = statement_done(log->insert, sqlite3_step(log->insert));
    if (code != SQLITE_OK)
        return code;
    log->next++;
    log->n_bytes += size;
    log->n_written += size;
    buffer_drop(&log->row, size);
    return SQLITE_OK;
}

void job_log_committed(struct job_log *log)
{
    for (size_t i = 0; i < log->n_undo; i++)
        if (log->undo[i].drops) /* the last change of its job */
            logged_forget(log, log->undo[i].job);
    log->n_undo = 0;
}

void job_log_rolled_back(struct job_log *log)
{
    while (log->n_undo) {
        struct job_log_undo *u = &log->undo[--log->n_undo];

        u->job->at = u->before;
        if (u->added)
            logged_forget(log, u->job);
    }
    log->n_bytes = log->n_bytes_before;
    log->n_counting = log->n_counting_before;
    buffer_drop(&log->row, buffer_size(&log->row));
}

/* --- cleaning ----------------------------------------------------------------------------------------------------- */

bool job_log_wants_cleaning(const struct job_log *log)
{
    return log->n_written >= JOB_LOG_EACH && log->n_bytes > 2 * log->n_counting + JOB_LOG_SLACK;
}

/* For an entry of the oldest row: writes it again if it is valid. */
static int keep_entry(struct job_log *log, const struct entry *e, uint64_t row)
{
    struct logged *job = job_log_find(log, e->number);
    int code;

    if (!job)
        return SQLITE_OK;
    bool was_started = job->at.started;
    switch (e->kind) {
    case ENTRY_GIVEN:
        return job->at.given == row ? append(log, job, e) : SQLITE_OK;
    case ENTRY_STARTED:
        return job->at.started == row ? append(log, job, e) : SQLITE_OK;
    case ENTRY_KNOWN:
        if (job->at.known != row)
            return SQLITE_OK;
        code = append(log, job, e);
        return code == SQLITE_OK && was_started ? job_log_start(log, job) : code; /* it stays behind what is known */
    case ENTRY_GONE:
        break;
    }
    return SQLITE_OK;
}

int job_log_clean(struct job_log *log)
{
    size_t looked = 0;
    int code = SQLITE_OK;

    while (code == SQLITE_OK && looked < JOB_LOG_CLEAN && job_log_wants_cleaning(log)) {
        code = read_row(&log->cleaned, log->oldest);
        if (code != SQLITE_OK)
            break;
        const uint8_t *data = buffer_data(&log->cleaned.bytes);
        size_t size = buffer_size(&log->cleaned.bytes);
        struct entry e;

        looked += size;
        log->n_bytes -= size;
        while (size && code == SQLITE_OK)
            code = entry_next(&data, &size, &e) ? keep_entry(log, &e, log->cleaned.row) : SQLITE_CORRUPT;
        if (code == SQLITE_OK) {
            sqlite3_bind_int64(log->delete, 1, (sqlite3_int64)log->cleaned.row);
            code = statement_done(log->delete, sqlite3_step(log->delete));
        }
    }
    if (code == SQLITE_OK || code == SQLITE_DONE)
        code = job_log_flush(log);
    log->n_written = 0; /* on failure, too: the next cleaning comes when there is more to gain */
    return code;
}
