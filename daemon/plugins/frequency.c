/* SPDX-License-Identifier: Apache-2.0
 *
 * frequency.c: `text:frequency`, equal to LC_ALL=C sort | uniq -c.
 * Owns, while its job runs, a table of the distinct lines, in shards, and a counter for each task at once. Files are
 * counted at the same time, a large one and the input in ranges. A task counts the lines of a range by themselves, and
 * adds what it has found to the shards, each of which has a lock. At the end what is in the shards is sorted.
 * Keeps: each distinct line is in memory once, whatever the number of workers and the size of the files; beside that a range
 * for each task. A line belongs to the range where it begins. Does not use temporary files. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "plugins/lines.h"
#include "plugins/text.h"
#include "wsd/forms.h"

#define RANGE     (128u * 1024) /* bytes of a file that are counted together */
#define TAIL      (4u * 1024)   /* first read behind a range, for the end of its last line */
#define SHARDS    16u           /* a power of 2 */
#define CHUNK_MIN (4u * 1024)   /* of records, allocated at once; each one is twice as large as that before it */
#define CHUNK_MAX (4u * 1024 * 1024)
#define SLOTS_MIN 64u        /* of a table; a power of 2 */
#define AHEAD     16u        /* lines with slots that are fetched before the first of them is looked at */
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

/* Lines by their hash, with linear probing; at least half of the slots are free. [lock] */
struct table {
    pthread_mutex_t lock;
    struct slot *slots;
    size_t n_slots, n; /* n_slots is 0 or a power of 2 */
    struct chunk *chunks;
};

/* Random numbers of the job, so that no text can be made with lines that all meet in one slot. */
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
    struct slot *old = table->slots, *grown;
    size_t n_old = table->n_slots, n_slots = MAX(2 * n_old, SLOTS_MIN);

    if (2 * (table->n + n) <= n_old)
        return 0;
    grown = calloc(n_slots, sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    prefer_large_pages(grown, n_slots * sizeof(*grown));
    table->slots = grown;
    table->n_slots = n_slots;
    for (size_t i = 0; i < n_old; i++) {
        struct slot *to = table_slot(table, old[i].hash);

        if (!old[i].record)
            continue;
        while (to->record)
            to = to + 1 == grown + n_slots ? grown : to + 1;
        *to = old[i];
    }
    free(old);
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

static void table_deinit(struct table *table)
{
    while (table->chunks) {
        struct chunk *chunk = table->chunks;

        table->chunks = chunk->next;
        free(chunk);
    }
    free(table->slots);
    pthread_mutex_destroy(&table->lock);
}

/* ---- counters ---- */

/* A distinct line of a range, and how often it is there. */
struct found {
    uint64_t hash, n;
    const char *line;
    size_t size;
    uint32_t next; /* of its shard: its place, from 1 on; 0: there is none */
};

/* The lines of one range, by their hash, with linear probing; at least half of the slots are free. [one task at a time] */
struct counter {
    struct buffer text; /* the range, where it is not a part of the input as it lies */
    struct found *found;
    uint32_t n, allocated;
    uint32_t *slots; /* places in `found`, from 1 on; 0: free */
    uint32_t n_slots;
    uint32_t first[SHARDS]; /* as `next` */
};

static void *counter_new(void *context)
{
    return calloc(1, sizeof(struct counter));
}

static void counter_free(void *object)
{
    struct counter *counter = object;

    buffer_deinit(&counter->text);
    free(counter->found);
    free(counter->slots);
    free(counter);
}

static void counter_clear(struct counter *counter)
{
    if (counter->n)
        memset(counter->slots, 0, counter->n_slots * sizeof(*counter->slots));
    memset(counter->first, 0, sizeof(counter->first));
    counter->n = 0;
}

static void counter_place(struct counter *counter, uint32_t place)
{
    uint32_t mask = counter->n_slots - 1, at = (uint32_t)counter->found[place - 1].hash & mask;

    while (counter->slots[at])
        at = (at + 1) & mask;
    counter->slots[at] = place;
}

/* Makes room for one more line. */
static int counter_reserve(struct counter *counter)
{
    uint32_t n = counter->n_slots ? 2 * counter->n_slots : 2 * SLOTS_MIN, *slots;
    struct found *found;

    if (counter->n < counter->allocated)
        return 0;
    found = reallocarray(counter->found, n / 2, sizeof(*found));
    if (!found)
        return -ENOMEM;
    counter->found = found;
    slots = calloc(n, sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    free(counter->slots);
    counter->slots = slots;
    counter->n_slots = n;
    counter->allocated = n / 2;
    for (uint32_t place = 1; place <= counter->n; place++)
        counter_place(counter, place);
    return 0;
}

/* Requires room for the line. */
static void counter_add(struct counter *counter, uint64_t hash, const char *line, size_t size)
{
    uint32_t mask = counter->n_slots - 1, at = (uint32_t)hash & mask, *first;

    for (; counter->slots[at]; at = (at + 1) & mask) {
        struct found *found = &counter->found[counter->slots[at] - 1];

        if (found->hash == hash && found->size == size && memcmp(found->line, line, size) == 0) {
            found->n++;
            return;
        }
    }
    first = &counter->first[hash / (UINT64_MAX / SHARDS + 1)];
    counter->found[counter->n++] = (struct found){.hash = hash, .n = 1, .line = line, .size = size, .next = *first};
    counter->slots[at] = *first = counter->n;
}

static int counter_add_text(struct counter *counter, const struct secret *secret, const char *at, size_t size)
{
    const char *end = at + size;

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);

        if (counter_reserve(counter))
            return -ENOMEM;
        counter_add(counter, line_hash(secret, at, length), at, length);
        at += length + 1;
    }
    return 0;
}

/* ---- adding up ---- */

/* Adds what was found from this place on; returns the place behind, or 0. Slots are fetched before the first is looked at. */
static int add_some(struct table *table, struct counter *counter, uint32_t *place)
{
    struct found *found[AHEAD];
    size_t n = 0;

    if (table_reserve(table, AHEAD))
        return -ENOMEM;
    for (; *place && n < AHEAD; *place = found[n++]->next) {
        found[n] = &counter->found[*place - 1];
        __builtin_prefetch(table_slot(table, found[n]->hash));
    }
    for (size_t i = 0; i < n; i++)
        if (table_slot(table, found[i]->hash)->record)
            __builtin_prefetch(table_slot(table, found[i]->hash)->record);
    for (size_t i = 0; i < n; i++) {
        struct slot *slot = table_find(table, found[i]->hash, found[i]->line, found[i]->size);

        if (!slot->record) {
            slot->record = record_new(table, found[i]->line, found[i]->size);
            if (!slot->record)
                return -ENOMEM;
            slot->hash = found[i]->hash;
            table->n++;
        }
        slot->record->n += found[i]->n;
    }
    return 0;
}

static int add_shard(struct table *table, struct counter *counter, uint32_t place)
{
    int r = 0;

    pthread_mutex_lock(&table->lock);
    while (place && !r)
        r = add_some(table, counter, &place);
    pthread_mutex_unlock(&table->lock);
    return r;
}

/* ---- ranges ---- */

struct file {
    const char *name; /* NULL: the input */
    bool empty;       /* the input was read already */
};

struct run {
    struct wsd_job *job;
    struct secret secret;
    struct file *files;
    size_t n_files;
    struct cache counters;
    struct table shards[SHARDS];
    atomic_uint turn;           /* the shard that the next task begins with; relaxed */
    atomic_uint_fast64_t bytes; /* that were counted, for the progress; relaxed */
    atomic_size_t failed;       /* the first file that failed; relaxed: a hint outside of the lock */
    pthread_mutex_t lock;
    int error;    /* [lock] of that file */
    bool reading; /* [lock] it was open */
    struct line *lines, *spare;
    size_t n_lines;
};

static int add_up(struct run *run, struct counter *counter)
{
    unsigned begin = atomic_fetch_add_explicit(&run->turn, 7, memory_order_relaxed);
    int r = 0;

    for (unsigned i = 0; i < SHARDS && !r; i++) {
        unsigned shard = (begin + i) % SHARDS;

        if (counter->first[shard])
            r = add_shard(&run->shards[shard], counter, counter->first[shard]);
    }
    return r;
}

static int count_text(struct run *run, struct counter *counter, const char *text, size_t size)
{
    int r = counter_add_text(counter, &run->secret, text, size);

    if (!r)
        r = add_up(run, counter);
    counter_clear(counter);
    wsd_job_progress(run->job, atomic_fetch_add_explicit(&run->bytes, size, memory_order_relaxed) + size, 0);
    return r;
}

/* A file that is being counted, or the input where it lies. */
struct reading {
    struct run *run;
    size_t index;     /* of the file */
    int fd;           /* -1: the input */
    const char *data; /* the input */
    uint64_t size;
    uint64_t ranges;
};

/* Keeps the error of the first file that has one. Those behind it need not be counted then. */
static void keep_error(struct run *run, size_t index, int error, bool reading)
{
    pthread_mutex_lock(&run->lock);
    if (index < atomic_load_explicit(&run->failed, memory_order_relaxed)) {
        atomic_store_explicit(&run->failed, index, memory_order_relaxed);
        run->error = error;
        run->reading = reading;
    }
    pthread_mutex_unlock(&run->lock);
}

static bool is_in_vain(const struct run *run, size_t index)
{
    return index > atomic_load_explicit(&run->failed, memory_order_relaxed);
}

/* Lines that begin in the range. */
static int count_input_range(struct reading *reading, struct counter *counter, uint64_t offset)
{
    uint64_t size = reading->size, end = MIN(offset + RANGE, size);
    const char *begin = reading->data + offset, *behind = reading->data + end;

    if (offset) {
        begin = memchr(begin - 1, '\n', end - offset);
        if (!begin++)
            return 0;
    }
    if (end < size && behind[-1] != '\n') {
        behind = memchr(behind, '\n', size - end);
        behind = behind ? behind + 1 : reading->data + size;
    }
    return count_text(reading->run, counter, begin, (size_t)(behind - begin));
}

/* Appends up to n bytes. Returns how many there were, or a negative errno. */
static int64_t read_more(struct reading *reading, struct buffer *text, uint64_t offset, size_t n)
{
    char *room = buffer_room(text, n);
    int64_t got;

    if (!room)
        return -ENOMEM;
    if (wsd_job_cancelled(reading->run->job))
        return -ECANCELED;
    got = pread_full(reading->fd, room, n, offset);
    text->size += (size_t)MAX(got, 0);
    return got;
}

/* Reads to the end of the line that goes on behind the text. */
static int read_tail(struct reading *reading, struct buffer *text, uint64_t offset)
{
    int64_t got = 1;

    for (size_t n = TAIL; got > 0; n = MIN(2 * n, RANGE)) {
        const char *newline;

        got = read_more(reading, text, offset, n);
        if (got <= 0)
            break;
        newline = memchr(text->data + text->size - got, '\n', (size_t)got);
        if (newline) {
            text->size = (size_t)(newline + 1 - text->data);
            break;
        }
        offset += (uint64_t)got;
    }
    return (int)MIN(got, 0);
}

/* Lines that begin in the range. *ret_full: the file does not end within it. 0 or a negative errno. */
static int count_file_range(struct reading *reading, struct counter *counter, uint64_t offset, bool *ret_full)
{
    struct buffer *text = &counter->text;
    size_t before = offset > 0;
    const char *begin;
    int64_t n;
    int r = 0;

    text->size = 0;
    n = read_more(reading, text, offset - before, RANGE + before);
    if (n <= 0)
        return (int)n;
    *ret_full = (size_t)n == RANGE + before;
    begin = text->data;
    if (before) {
        begin = memchr(begin, '\n', (size_t)n);
        if (!begin++)
            return 0;
    }
    before = (size_t)(begin - text->data);
    if (*ret_full && text->data[text->size - 1] != '\n')
        r = read_tail(reading, text, offset + RANGE);
    return r ? r : count_text(reading->run, counter, text->data + before, text->size - before);
}

/* The last range of a file is followed by what the file has more than it said. */
static int count_range(struct reading *reading, struct counter *counter, uint64_t i)
{
    bool full = true;
    int r = 0;

    if (reading->fd < 0)
        return count_input_range(reading, counter, i * RANGE);
    do {
        full = false;
        r = count_file_range(reading, counter, i * RANGE, &full);
    } while (!r && full && ++i >= reading->ranges);
    return r;
}

/* Only what ends the job is an error here; what is wrong with a file is kept. */
static int count_ranges(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    struct reading *reading = arg;
    struct run *run = reading->run;
    struct counter *counter = cache_take(&run->counters);
    int r = counter ? 0 : -ENOMEM;

    for (uint64_t i = begin; i < end && !r && !is_in_vain(run, reading->index); i++)
        r = wsd_job_cancelled(run->job) ? -ECANCELED : count_range(reading, counter, i);
    if (counter)
        cache_give(&run->counters, counter);
    if (!r || r == -ECANCELED || r == -ENOMEM)
        return r;
    keep_error(run, reading->index, r, true);
    return 0;
}

static int count_reading(struct reading *reading, struct wsd_worker *self, struct wsd_group *group)
{
    reading->ranges = (reading->size + RANGE - 1) / RANGE;
    if (reading->fd >= 0)
        reading->ranges = MAX(reading->ranges, 1); /* some files do not say their size */
    return wsd_for_each(self, group, 0, reading->ranges, 1, count_ranges, reading);
}

static int count_input(struct run *run, struct wsd_worker *self, struct wsd_group *group, size_t index)
{
    struct reading reading = {
        .run = run, .index = index, .fd = -1, .data = run->job->input, .size = run->job->input_size};

    return run->files[index].empty || !reading.data ? 0 : count_reading(&reading, self, group);
}

static int count_file(struct run *run, struct wsd_worker *self, struct wsd_group *group, size_t index)
{
    _cleanup_(source_closep) struct source source = {.fd = -1};
    struct reading reading = {.run = run, .index = index};
    struct stat st;
    int r = source_open(&source, run->job, run->files[index].name);

    if (!r && fstat(source.fd, &st) < 0)
        r = -errno;
    if (r == -ECANCELED)
        return r;
    if (r) {
        keep_error(run, index, r, false);
        return 0;
    }
    reading.fd = source.fd;
    reading.size = (uint64_t)st.st_size;
    return count_reading(&reading, self, group);
}

static int count_some(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    struct run *run = arg;
    int r = 0;

    for (uint64_t i = begin; i < end && !r && !is_in_vain(run, i); i++)
        r = wsd_job_cancelled(run->job) ? -ECANCELED
            : run->files[i].name        ? count_file(run, self, group, i)
                                        : count_input(run, self, group, i);
    return r;
}

static int count_files(struct run *run, struct wsd_worker *self)
{
    int r;

    if (getrandom(&run->secret, sizeof(run->secret), 0) != sizeof(run->secret))
        return -errno;
    cache_init(&run->counters, counter_new, counter_free, NULL);
    r = wsd_for_each(self, NULL, 0, run->n_files, 1, count_some, run);
    cache_deinit(&run->counters);
    return r ? r : run->error;
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
    for (size_t i = 0; i < SHARDS; i++)
        run->n_lines += run->shards[i].n;
    run->lines = lines_new(run->n_lines);
    run->spare = lines_new(run->n_lines);
    if (!run->lines || !run->spare)
        return -ENOMEM;

    struct line *to = run->lines;

    for (size_t i = 0; i < SHARDS; i++) {
        to = take_records(&run->shards[i], to);
        free(TAKE(run->shards[i].slots));
    }
    return lines_sort(self, run->job, run->lines, run->spare, run->n_lines) ? 0 : -ECANCELED;
}

/* ---- writing ---- */

/* Lines in order, and what is written of them. */
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
    for (const struct line *line = share->begin; line < share->end; line++)
        if (text_put_line(&share->text, line_count(line), line->data, line->size))
            return -ENOMEM;
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

/* A second `-` is empty, as when a tool finds its input at the end. */
static void add_file(struct run *run, const char *name)
{
    struct file *file = &run->files[run->n_files++];

    *file = (struct file){.name = strcmp(name, "-") == 0 ? NULL : name};
    for (const struct file *before = run->files; !file->name && before < file; before++)
        file->empty |= !before->name;
}

static int take_arguments(struct run *run)
{
    struct wsd_job *job = run->job;
    bool operands = false;

    for (uint32_t i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i];

        if (!operands && strcmp(arg, "--") == 0)
            operands = true;
        else if (!operands && arg[0] == '-' && arg[1])
            return wsd_job_fail(job, 2, "unrecognized option '%s'; usage: text:frequency [FILE]...", arg);
        else
            add_file(run, arg);
    }
    if (!run->n_files)
        add_file(run, "-");
    return 0;
}

static int fail(const struct run *run, int error)
{
    size_t failed = atomic_load_explicit(&run->failed, memory_order_relaxed);
    const char *name = failed < run->n_files ? run->files[failed].name : NULL;
    _cleanup_(freep) char *quoted = name ? name_quote(name) : NULL;

    if (error == -ECANCELED)
        return 2;
    if (error == -ENOMEM || !name)
        return wsd_job_fail(run->job, 2, "%s", error_text(error));
    return wsd_job_fail(run->job, 2, "%s: %s: %s", error == -EISDIR || run->reading ? "read failed" : "cannot read",
                        quoted ? quoted : name, error_text(error));
}

static void run_init(struct run *run)
{
    atomic_init(&run->failed, SIZE_MAX);
    pthread_mutex_init(&run->lock, NULL);
    for (size_t i = 0; i < SHARDS; i++)
        pthread_mutex_init(&run->shards[i].lock, NULL);
}

static void run_deinit(struct run *run)
{
    for (size_t i = 0; i < SHARDS; i++)
        table_deinit(&run->shards[i]);
    pthread_mutex_destroy(&run->lock);
    free(run->files);
    free(run->lines);
    free(run->spare);
}

int text_frequency(struct wsd_job *job, struct wsd_worker *self)
{
    struct run run = {.job = job, .files = calloc(job->argc, sizeof(*run.files))};
    int r;

    if (!run.files)
        return wsd_job_fail(job, 2, "out of memory");
    run_init(&run);
    r = take_arguments(&run);
    if (!r) {
        r = count_files(&run, self);
        if (!r)
            r = sort_records(&run, self);
        if (!r)
            r = write_lines(&run, self);
        r = r ? fail(&run, r) : 0;
    }
    run_deinit(&run);
    return r;
}
