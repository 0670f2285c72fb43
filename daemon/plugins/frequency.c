/* SPDX-License-Identifier: Apache-2.0
 *
 * frequency.c: `text:frequency`, equal to LC_ALL=C sort | uniq -c.
 * Owns, while its job runs, the blocks on their way, and as many tables as there were tasks at once. A task takes a
 * table, counts the lines of its block in it, and gives it back. At the end what is in the tables is sorted, and the
 * counts of equal lines are added up as they are written.
 * Keeps: memory is bounded by the distinct lines of each table, not by the size of the files. Does not use temporary files. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "plugins/blocks.h"
#include "plugins/common.h"
#include "plugins/lines.h"
#include "plugins/text.h"
#include "wsd/forms.h"

#define CHUNK_MIN (64u * 1024) /* of records, allocated at once; each one is twice as large as that before it */
#define CHUNK_MAX (16u * 1024 * 1024)
#define SLOTS_MIN 1024u      /* of a table; a power of 2 */
#define AHEAD     16u        /* lines whose slots are fetched before the first of them is looked at */
#define SHARE     8192u      /* distinct lines that are written by one task, at most */
#define SHARE_MAX (1u << 20) /* bytes of them, and a line */

/* ---- tables ---- */

/* A distinct line. Its bytes are what a struct line of the sort points to. */
struct record {
    uint64_t n;
    size_t size;
    char line[];
};

struct slot {
    uint64_t hash;
    struct record *record; /* NULL: free */
};

struct chunk {
    struct chunk *next;
    size_t used, size;
    char data[];
};

/* Lines by their hash, with linear probing; at least half of the slots are free. [one task at a time] */
struct table {
    struct table *next_idle, *next;
    struct slot *slots;
    size_t n_slots, n; /* n_slots is 0 or a power of 2 */
    struct chunk *chunks;
};

/* Random numbers of the job, so that no text can be made whose lines all meet in one slot. */
struct secret {
    uint64_t words[2];
};

static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load(const char *data, size_t size)
{
    uint64_t word = 0;

    memcpy(&word, data, size);
    return word;
}

/* Multiplies 16 bytes at a time, each half masked by the secret, and folds the product. */
static uint64_t line_hash(const struct secret *secret, const char *line, size_t size)
{
    uint64_t hash = secret->words[1] ^ size, a, b;

    for (; size > 16; line += 16, size -= 16)
        hash = fold(load(line, 8) ^ secret->words[0], load(line + 8, 8) ^ hash);
    if (size >= 8) {
        a = load(line, 8);
        b = load(line + size - 8, 8);
    } else if (size >= 4) {
        a = load(line, 4);
        b = load(line + size - 4, 4);
    } else {
        a = load(line, size);
        b = 0;
    }
    hash = fold(a ^ secret->words[0], b ^ hash);
    return fold(hash ^ secret->words[0], secret->words[1]);
}

static struct slot *table_slot(const struct table *table, uint64_t hash)
{
    return &table->slots[hash & (table->n_slots - 1)];
}

/* The slot that has the line, or the free one where it belongs. */
static struct slot *table_find(const struct table *table, uint64_t hash, const char *line, size_t size)
{
    struct slot *slot = table_slot(table, hash), *end = table->slots + table->n_slots;

    while (slot->record &&
           !(slot->hash == hash && slot->record->size == size && memcmp(slot->record->line, line, size) == 0))
        slot = slot + 1 == end ? table->slots : slot + 1;
    return slot;
}

/* Makes room for n more lines. */
static int table_reserve(struct table *table, size_t n)
{
    struct table grown = *table;

    if (2 * (table->n + n) <= table->n_slots)
        return 0;
    grown.n_slots = MAX(2 * table->n_slots, SLOTS_MIN);
    grown.slots = calloc(grown.n_slots, sizeof(*grown.slots));
    if (!grown.slots)
        return -ENOMEM;
    prefer_large_pages(grown.slots, grown.n_slots * sizeof(*grown.slots));
    for (size_t i = 0; i < table->n_slots; i++) {
        const struct slot *slot = &table->slots[i];
        struct slot *to = table_slot(&grown, slot->hash);

        if (!slot->record)
            continue;
        while (to->record)
            to = to + 1 == grown.slots + grown.n_slots ? grown.slots : to + 1;
        *to = *slot;
    }
    free(table->slots);
    *table = grown;
    return 0;
}

/* In a chunk. */
static size_t record_size(size_t size)
{
    return (sizeof(struct record) + size + 7) / 8 * 8;
}

static struct record *record_new(struct table *table, const char *line, size_t size)
{
    size_t wanted = record_size(size);
    struct chunk *chunk = table->chunks;
    struct record *record;

    if (!chunk || chunk->size - chunk->used < wanted) {
        size_t allocated = MAX(chunk ? MIN(2 * chunk->size, CHUNK_MAX) : CHUNK_MIN, wanted);

        chunk = malloc(sizeof(*chunk) + allocated);
        if (!chunk)
            return NULL;
        prefer_large_pages(chunk, allocated);
        *chunk = (struct chunk){.next = table->chunks, .size = allocated};
        table->chunks = chunk;
    }
    record = (struct record *)(void *)(chunk->data + chunk->used);
    chunk->used += wanted;
    *record = (struct record){.size = size};
    memcpy(record->line, line, size);
    return record;
}

/* Requires room for the line. */
static int table_add(struct table *table, uint64_t hash, const char *line, size_t size)
{
    struct slot *slot = table_find(table, hash, line, size);

    if (!slot->record) {
        slot->record = record_new(table, line, size);
        if (!slot->record)
            return -ENOMEM;
        slot->hash = hash;
        table->n++;
    }
    slot->record->n++;
    return 0;
}

static void table_free(struct table *table)
{
    while (table->chunks) {
        struct chunk *chunk = table->chunks;

        table->chunks = chunk->next;
        free(chunk);
    }
    free(table->slots);
    free(table);
}

/* ---- counting ---- */

struct run {
    struct wsd_job *job;
    struct secret secret;
    const char *const *names; /* files that are still to be read, each "-" for the input */
    size_t n_names;
    const char *name; /* the last one that was opened */
    bool input;       /* was read */
    bool reading;     /* reader is open */
    struct block_reader reader;
    struct cache blocks;
    pthread_mutex_t lock;
    struct table *tables; /* [lock] all */
    struct table *idle;   /* [lock] those that no task has */
    struct line *lines, *spare;
    size_t n_lines, n_written;
    uint64_t bytes_done;
};

static void *block_new(void *context)
{
    return calloc(1, sizeof(struct block));
}

static void block_free(void *object)
{
    block_deinit(object);
    free(object);
}

/* A table that no other task has; NULL: out of memory. */
static struct table *table_take(struct run *run)
{
    struct table *table;

    pthread_mutex_lock(&run->lock);
    table = run->idle;
    if (table) {
        run->idle = table->next_idle;
    } else {
        table = calloc(1, sizeof(*table));
        if (table) {
            table->next = run->tables;
            run->tables = table;
        }
    }
    pthread_mutex_unlock(&run->lock);
    return table;
}

static void table_give(struct run *run, struct table *table)
{
    pthread_mutex_lock(&run->lock);
    table->next_idle = run->idle;
    run->idle = table;
    pthread_mutex_unlock(&run->lock);
}

static int open_next(struct run *run)
{
    bool dash = strcmp(run->names[0], "-") == 0;
    int r = 0;

    run->name = run->names[0];
    run->reader = (struct block_reader){.source = {.fd = -1}};
    if (dash && run->input)
        source_open_empty(&run->reader.source, run->job);
    else
        r = source_open(&run->reader.source, run->job, dash ? NULL : run->name);
    run->input |= dash;
    run->reading = !r;
    run->names++;
    run->n_names--;
    return r;
}

/* Reads from file after file; size 0 is the end of the last one. */
static int read_next(struct run *run, struct block *block)
{
    int r = 0;

    block->size = 0;
    while (!r && !block->size) {
        if (!run->reading) {
            if (!run->n_names)
                return 0;
            r = open_next(run);
            continue;
        }
        r = block_read(&run->reader, block);
        if (!r && !block->size) {
            block_reader_deinit(&run->reader);
            run->reading = false;
        }
    }
    return r;
}

static int read_block(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct run *run = arg;
    struct block *block = cache_take(&run->blocks);
    int r = block ? read_next(run, block) : -ENOMEM;

    if (block && (r || !block->size)) {
        cache_give(&run->blocks, block);
        return r;
    }
    *item = block;
    if (block)
        run->bytes_done += block->size;
    wsd_job_progress(run->job, run->bytes_done, 0);
    return r;
}

struct found {
    const char *line;
    size_t size;
    uint64_t hash;
};

/* Finds some lines, and fetches their slots; returns how many. */
static size_t find_some(const struct run *run, const struct table *table, const char **at, const char *end,
                        struct found *ret_found)
{
    size_t n = 0;

    for (; *at < end && n < AHEAD; n++) {
        const char *newline = memchr(*at, '\n', (size_t)(end - *at));
        size_t size = (size_t)((newline ? newline : end) - *at);

        ret_found[n] = (struct found){.line = *at, .size = size, .hash = line_hash(&run->secret, *at, size)};
        __builtin_prefetch(table_slot(table, ret_found[n].hash));
        *at += size + 1;
    }
    return n;
}

static int count_lines(const struct run *run, struct table *table, const char *at, size_t size)
{
    const char *end = at + size;
    struct found found[AHEAD];
    int r = 0;

    while (at < end && !r) {
        r = table_reserve(table, AHEAD);
        if (r)
            break;

        size_t n = find_some(run, table, &at, end, found);

        for (size_t i = 0; i < n; i++)
            if (table_slot(table, found[i].hash)->record)
                __builtin_prefetch(table_slot(table, found[i].hash)->record);
        for (size_t i = 0; i < n && !r; i++)
            r = table_add(table, found[i].hash, found[i].line, found[i].size);
    }
    return r;
}

static int count_block(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct run *run = arg;
    struct block *block = *item;
    struct table *table = table_take(run);
    int r = table ? count_lines(run, table, block->data, block->size) : -ENOMEM;

    if (table)
        table_give(run, table);
    if (!r) {
        cache_give(&run->blocks, block);
        *item = NULL;
    }
    return r;
}

static void drop_block(void *item, uint32_t stage, void *arg)
{
    block_free(item);
}

static int count_files(struct run *run, struct wsd_worker *self)
{
    const struct wsd_stage stages[] = {
        {.run = read_block, .arg = run, .kind = WSD_STAGE_ORDERED},
        {.run = count_block, .arg = run},
    };
    int r;

    if (getrandom(&run->secret, sizeof(run->secret), 0) != sizeof(run->secret))
        return -errno;
    cache_init(&run->blocks, block_new, block_free, NULL);
    r = wsd_pipeline(self, NULL, stages, ARRAY_SIZE(stages), 0, drop_block, NULL);
    cache_deinit(&run->blocks);
    return r;
}

/* ---- the order ---- */

/* In the order in which they lie in memory, not in that of their hashes: the sort begins with near ones. */
static struct line *take_records(const struct table *table, struct line *to)
{
    for (const struct chunk *chunk = table->chunks; chunk; chunk = chunk->next) {
        for (size_t at = 0; at < chunk->used;) {
            const struct record *record = (const struct record *)(const void *)(chunk->data + at);

            *to++ =
                (struct line){.data = record->line, .size = record->size, .key = line_key(record->line, record->size)};
            at += record_size(record->size);
        }
    }
    return to;
}

/* Frees the slots: the lines lead to the records. */
static int sort_records(struct run *run, struct wsd_worker *self)
{
    for (const struct table *table = run->tables; table; table = table->next)
        run->n_lines += table->n;
    run->lines = lines_new(run->n_lines);
    run->spare = lines_new(run->n_lines);
    if (!run->lines || !run->spare)
        return -ENOMEM;

    struct line *to = run->lines;

    for (struct table *table = run->tables; table; table = table->next) {
        to = take_records(table, to);
        free(TAKE(table->slots));
    }
    return lines_sort(self, run->job, run->lines, run->spare, run->n_lines) ? 0 : -ECANCELED;
}

/* ---- writing ---- */

/* Lines in order, with all that are equal; and what is written of them. */
struct share {
    const struct line *begin, *end;
    struct buffer text;
};

static void *share_new(void *context)
{
    return calloc(1, sizeof(struct share));
}

static void share_free(void *object)
{
    struct share *share = object;

    buffer_deinit(&share->text);
    free(share);
}

struct writing {
    struct run *run;
    struct cache shares;
    const struct line *next, *end;
};

static int cut_share(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct writing *writing = arg;
    struct share *share;
    const struct line *end = writing->next, *last = writing->next + MIN(SHARE, writing->end - writing->next);

    if (writing->next == writing->end)
        return 0;
    share = cache_take(&writing->shares);
    if (!share)
        return -ENOMEM;
    for (size_t bytes = 0; end < last && bytes < SHARE_MAX; end++)
        bytes += end->size;
    while (end < writing->end && line_compare(end - 1, end) == 0)
        end++;
    share->begin = writing->next;
    share->end = writing->next = end;
    *item = share;
    return 0;
}

static uint64_t line_count(const struct line *line)
{
    return container_of(line->data, const struct record, line)->n;
}

static int put_share(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct share *share = *item;

    share->text.size = 0;
    for (const struct line *line = share->begin; line < share->end;) {
        const struct line *first = line;
        uint64_t n = 0;

        for (; line < share->end && line_compare(first, line) == 0; line++)
            n += line_count(line);
        if (text_put_line(&share->text, n, first->data, first->size))
            return -ENOMEM;
    }
    return 0;
}

static int write_share(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    struct writing *writing = arg;
    struct share *share = *item;
    int r = wsd_job_write(writing->run->job, share->text.data, share->text.size);

    if (!r)
        cache_give(&writing->shares, share);
    return r;
}

static void drop_share(void *item, uint32_t stage, void *arg)
{
    share_free(item);
}

static int write_lines(struct run *run, struct wsd_worker *self)
{
    struct writing writing = {.run = run, .next = run->lines, .end = run->lines + run->n_lines};
    const struct wsd_stage stages[] = {
        {.run = cut_share, .arg = &writing, .kind = WSD_STAGE_ORDERED},
        {.run = put_share, .arg = &writing},
        {.run = write_share, .arg = &writing, .kind = WSD_STAGE_ORDERED},
    };
    int r;

    cache_init(&writing.shares, share_new, share_free, NULL);
    r = wsd_pipeline(self, NULL, stages, ARRAY_SIZE(stages), 0, drop_share, NULL);
    cache_deinit(&writing.shares);
    return r;
}

/* ---- arguments ---- */

static int take_arguments(struct wsd_job *job, const char **names, size_t *ret_n)
{
    bool operands = false;
    size_t n = 0;

    for (uint32_t i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i];

        if (!operands && strcmp(arg, "--") == 0)
            operands = true;
        else if (!operands && arg[0] == '-' && arg[1])
            return wsd_job_fail(job, 2, "unrecognized option '%s'; usage: text:frequency [FILE]...", arg);
        else
            names[n++] = arg;
    }
    if (!n)
        names[n++] = "-";
    *ret_n = n;
    return 0;
}

static int fail(const struct run *run, int error)
{
    _cleanup_(freep) char *quoted = run->name ? name_quote(run->name) : NULL;

    if (error == -ECANCELED)
        return 2;
    if (error == -ENOMEM || !run->name)
        return wsd_job_fail(run->job, 2, "%s", error_text(error));
    return wsd_job_fail(run->job, 2, "%s: %s: %s", error == -EISDIR || run->reading ? "read failed" : "cannot read",
                        quoted ? quoted : run->name, error_text(error));
}

static void run_deinit(struct run *run)
{
    if (run->reading)
        block_reader_deinit(&run->reader);
    while (run->tables) {
        struct table *table = run->tables;

        run->tables = table->next;
        table_free(table);
    }
    free(run->lines);
    free(run->spare);
}

int text_frequency(struct wsd_job *job, struct wsd_worker *self)
{
    _cleanup_(freep) const char **names = calloc(job->argc + 1, sizeof(*names));
    struct run run = {.job = job, .names = names, .lock = PTHREAD_MUTEX_INITIALIZER};
    int r;

    if (!names)
        return wsd_job_fail(job, 2, "out of memory");
    r = take_arguments(job, names, &run.n_names);
    if (r)
        return r;
    r = count_files(&run, self);
    if (!r)
        r = sort_records(&run, self);
    if (!r)
        r = write_lines(&run, self);
    run_deinit(&run);
    return r ? fail(&run, r) : 0;
}
