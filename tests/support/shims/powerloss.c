/* SPDX-License-Identifier: Apache-2.0
 *
 * powerloss.c: an SQLite VFS that becomes the default one. Only what was synced to its files survives the process.
 * Other writes stay in its memory, as in a page cache that a power cut destroys. As a page cache does, it writes
 * some of them early, out of order and in parts. In a unit test it is linked in; wsd gets it by LD_PRELOAD.
 *
 * With POWERLOSS_EARLY=N one write in about N goes to the disk before it is synced (0, the default: none).
 * With POWERLOSS_SEED=N the random numbers are the same again.
 * With POWERLOSS_AFTER=TEXT the process dies (SIGKILL) when bytes with that text are on the disk, before it can know.
 * With POWERLOSS_HOLD=FILE a sync waits as long as FILE exists.
 * With POWERLOSS_FAIL=FILE writes and syncs fail as on a broken disk, as long as FILE exists.
 *
 * It has no shared memory, so it also shows that the store needs none (locking_mode EXCLUSIVE). */
#include "powerloss.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pending {
    struct pending *next;
    sqlite3_int64 at;
    int size;
    char data[];
};

struct file {
    sqlite3_file base;
    struct pending *first, **last;
    sqlite3_int64 end; /* of what is pending */
    sqlite3_file real[];
};

static sqlite3_vfs *below;
static uint64_t early, state;
static const char *fatal;         /* what kills us when it is on the disk */
static const char *broken, *held; /* the disk is, while this file is there */
static bool doomed;               /* it is on its way */
static _Atomic unsigned n_syncs;
static _Atomic int failure;
static _Atomic uint64_t room;
static void (*_Atomic at_write)(void);

unsigned powerloss_syncs(void)
{
    return atomic_load(&n_syncs);
}

void powerloss_fail(int code)
{
    atomic_store(&failure, code);
}

void powerloss_at_write(void (*f)(void))
{
    atomic_store(&at_write, f);
}

void powerloss_room(uint64_t bytes)
{
    atomic_store(&room, bytes);
}

/* The store has one thread. */
static uint64_t dice(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
    return (state >> 33) % n;
}

void powerloss_dice(uint64_t seed, uint64_t one_in)
{
    state = seed;
    early = one_in;
}

static struct file *file_of(sqlite3_file *f)
{
    return (struct file *)(void *)f;
}

static void forget(struct file *f)
{
    for (struct pending *p; (p = f->first);) {
        f->first = p->next;
        free(p);
    }
    f->last = &f->first;
    f->end = 0;
}

static int apply(struct file *f)
{
    int r = SQLITE_OK;

    for (struct pending *p = f->first; p && r == SQLITE_OK; p = p->next)
        r = f->real->pMethods->xWrite(f->real, p->data, p->size, p->at);
    if (r == SQLITE_OK)
        forget(f);
    return r;
}

static int x_close(sqlite3_file *base)
{
    struct file *f = file_of(base);

    (void)apply(f); /* an orderly end loses nothing */
    forget(f);
    return f->real->pMethods->xClose(f->real);
}

static int size_of(struct file *f, sqlite3_int64 *ret)
{
    int r = f->real->pMethods->xFileSize(f->real, ret);

    if (r == SQLITE_OK && *ret < f->end)
        *ret = f->end;
    return r;
}

static int x_read(sqlite3_file *base, void *data, int size, sqlite3_int64 at)
{
    struct file *f = file_of(base);
    sqlite3_int64 whole;
    int r = f->real->pMethods->xRead(f->real, data, size, at);

    if (r != SQLITE_OK && r != SQLITE_IOERR_SHORT_READ)
        return r;
    for (struct pending *p = f->first; p; p = p->next) {
        sqlite3_int64 from = p->at > at ? p->at : at;
        sqlite3_int64 to = p->at + p->size < at + size ? p->at + p->size : at + size;

        if (from < to)
            memcpy((char *)data + (from - at), p->data + (from - p->at), (size_t)(to - from));
    }
    r = size_of(f, &whole);
    return r != SQLITE_OK ? r : at + size > whole ? SQLITE_IOERR_SHORT_READ : SQLITE_OK;
}

static int failure_now(int code)
{
    return broken && access(broken, F_OK) == 0 ? code : atomic_load(&failure);
}

static int x_write(sqlite3_file *base, const void *data, int size, sqlite3_int64 at)
{
    struct file *f = file_of(base);
    uint64_t largest = atomic_load(&room);
    void (*call)(void) = atomic_exchange(&at_write, NULL);
    if (call)
        call();
    int fails = largest && (uint64_t)at + (uint64_t)size > largest ? SQLITE_FULL : failure_now(SQLITE_IOERR_WRITE);
    struct pending *p = fails ? NULL : malloc(sizeof(*p) + (size_t)size);

    if (!p)
        return fails ? fails : SQLITE_IOERR_WRITE;
    p->next = NULL;
    p->at = at;
    p->size = size;
    memcpy(p->data, data, (size_t)size);
    *f->last = p;
    f->last = &p->next;
    if (f->end < at + size)
        f->end = at + size;
    if (fatal && memmem(data, (size_t)size, fatal, strlen(fatal)))
        doomed = true;
    if (early && dice(early) == 0)
        (void)f->real->pMethods->xWrite(f->real, data, dice(3) ? size : (size + 1) / 2, at);
    return SQLITE_OK;
}

static int x_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    struct file *f = file_of(base);
    int r = apply(f);

    return r == SQLITE_OK ? f->real->pMethods->xTruncate(f->real, size) : r;
}

static int x_sync(sqlite3_file *base, int flags)
{
    struct file *f = file_of(base);
    int r = failure_now(SQLITE_IOERR_FSYNC);

    atomic_fetch_add(&n_syncs, 1);
    while (held && access(held, F_OK) == 0)
        usleep(1000);
    if (r == SQLITE_OK)
        r = apply(f);
    if (r == SQLITE_OK)
        r = f->real->pMethods->xSync(f->real, flags);
    if (doomed && r == SQLITE_OK)
        raise(SIGKILL);
    return r;
}

static int x_file_size(sqlite3_file *base, sqlite3_int64 *ret)
{
    return size_of(file_of(base), ret);
}

static int x_lock(sqlite3_file *base, int how)
{
    return file_of(base)->real->pMethods->xLock(file_of(base)->real, how);
}

static int x_unlock(sqlite3_file *base, int how)
{
    return file_of(base)->real->pMethods->xUnlock(file_of(base)->real, how);
}

static int x_check_lock(sqlite3_file *base, int *ret)
{
    return file_of(base)->real->pMethods->xCheckReservedLock(file_of(base)->real, ret);
}

static int x_control(sqlite3_file *base, int what, void *argument)
{
    return what == SQLITE_FCNTL_SIZE_HINT || what == SQLITE_FCNTL_CHUNK_SIZE
               ? SQLITE_NOTFOUND
               : file_of(base)->real->pMethods->xFileControl(file_of(base)->real, what, argument);
}

static int x_sector(sqlite3_file *base)
{
    return file_of(base)->real->pMethods->xSectorSize(file_of(base)->real);
}

static int x_traits(sqlite3_file *base)
{
    return 0; /* nothing is promised: no atomic write, no order */
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = x_close,
    .xRead = x_read,
    .xWrite = x_write,
    .xTruncate = x_truncate,
    .xSync = x_sync,
    .xFileSize = x_file_size,
    .xLock = x_lock,
    .xUnlock = x_unlock,
    .xCheckReservedLock = x_check_lock,
    .xFileControl = x_control,
    .xSectorSize = x_sector,
    .xDeviceCharacteristics = x_traits,
};

static int x_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *ret_flags)
{
    struct file *f = file_of(base);
    int r;

    memset(f, 0, sizeof(*f));
    f->last = &f->first;
    r = below->xOpen(below, name, f->real, flags, ret_flags);
    base->pMethods = r == SQLITE_OK ? &methods : NULL;
    return r;
}

__attribute__((constructor)) void powerloss_register(void)
{
    static sqlite3_vfs vfs;
    const char *seed = getenv("POWERLOSS_SEED"), *rate = getenv("POWERLOSS_EARLY");

    if (below)
        return;
    fatal = getenv("POWERLOSS_AFTER");
    broken = getenv("POWERLOSS_FAIL");
    held = getenv("POWERLOSS_HOLD");
    below = sqlite3_vfs_find(NULL);
    vfs = *below; /* the other calls are those of the one below, which take any sqlite3_vfs for their own */
    vfs.zName = "powerloss";
    vfs.szOsFile = (int)sizeof(struct file) + below->szOsFile;
    vfs.xOpen = x_open;
    vfs.pNext = NULL;
    state = seed ? strtoull(seed, NULL, 10) : 1;
    early = rate ? strtoull(rate, NULL, 10) : 0;
    sqlite3_vfs_register(&vfs, 1);
}
