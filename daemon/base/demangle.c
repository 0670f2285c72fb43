/* SPDX-License-Identifier: Apache-2.0
 *
 * demangle.c: names of C++ functions as people write them.
 * Owns the names and what they become.
 * A child process reads them, by the library of C++ (__cxa_demangle()): names are hostile, a short one may stand for
 * gigabytes, and that library has no limits. The child's memory and CPU time have. What it has done when it ends counts.
 * Keeps: the program itself never loads that library. What the child has written is checked like any other hostile text.
 * Does not know what the text is. */
#include "base/demangle.h"

#include <dlfcn.h>
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#define LIBRARY "libstdc++.so.6"

typedef char *demangler(const char *name, char *buffer, size_t *size, int *status);

struct demangle_name {
    size_t place;
    char text[];
};

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$";

/* The next name at or behind `at`, and its size; NULL: none. What no name holds stands before it. */
static const char *find_name(const char *text, const char *at, size_t *ret_size)
{
    while ((at = strstr(at, "_Z"))) {
        *ret_size = strspn(at, letters);
        if (at == text || !strchr(letters, at[-1]))
            return at;
        at += *ret_size;
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct demangle_name *)a)->text, ((const struct demangle_name *)b)->text);
}

static struct demangle_name *name_new(const char *text, size_t size)
{
    struct demangle_name *n = malloc(sizeof(*n) + size + 1);

    if (!n)
        return NULL;
    memcpy(n->text, text, size);
    n->text[size] = 0;
    return n;
}

static int grow(struct demangle *d)
{
    size_t room = d->room ? 2 * d->room : 64;
    struct demangle_name **names = d->n < d->room ? d->names : realloc(d->names, room * sizeof(*names));

    if (!names)
        return -ENOMEM;
    d->room = d->n < d->room ? d->room : room;
    d->names = names;
    return 0;
}

static int note(struct demangle *d, const char *text, size_t size)
{
    struct demangle_name *n, **found;

    if (size > DEMANGLE_FROM || d->n == DEMANGLE_NAMES)
        return 0;
    if (grow(d) < 0 || !(n = name_new(text, size)))
        return -ENOMEM;
    found = tsearch(n, &d->by_name, compare);
    if (!found || *found != n) {
        free(n);
        return found ? 0 : -ENOMEM;
    }
    n->place = d->n;
    d->names[d->n++] = n;
    return 0;
}

int demangle_note(struct demangle *d, const char *text)
{
    size_t size;
    int r = 0;

    for (const char *at = text; r == 0 && (at = find_name(text, at, &size)); at += size)
        r = note(d, at, size);
    return r;
}

/* --- in the child ------------------------------------------------------------------------------------------------- */

/* What the process has already does not count. */
static int limit(void)
{
    unsigned long pages;
    FILE *f = fopen("/proc/self/statm", "re");
    int found = f ? fscanf(f, "%lu", &pages) : 0;

    if (f)
        fclose(f);
    if (found != 1)
        return -ENOENT;
    rlim_t bytes = pages * (rlim_t)sysconf(_SC_PAGESIZE) + DEMANGLE_ROOM;
    const struct rlimit room = {bytes, bytes}, cpu = {DEMANGLE_SEC, DEMANGLE_SEC}, core = {0, 0};

    return setrlimit(RLIMIT_AS, &room) < 0 || setrlimit(RLIMIT_CPU, &cpu) < 0 || setrlimit(RLIMIT_CORE, &core) < 0
               ? -errno
               : 0;
}

/* The first byte last: the limit may end the child in between. */
static void put(char *to, const char *text)
{
    for (size_t i = strlen(text); i-- > 0;)
        ((volatile char *)to)[i] = text[i];
}

static void read_all(const struct demangle *d)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL), *entry = library ? dlsym(library, "__cxa_demangle") : NULL;
    demangler *demangle;

    if (!entry || limit() < 0)
        return;
    memcpy(&demangle, &entry, sizeof(demangle)); /* what POSIX wants where ISO C has no conversion */
    for (size_t i = 0; i < d->n; i++) {
        int status;
        char *text = demangle(d->names[i]->text, NULL, NULL, &status);

        if (text && strlen(text) < DEMANGLE_MAX)
            put(d->texts + i * DEMANGLE_MAX, text);
        free(text);
    }
}

/* ------------------------------------------------------------------------------------------------------------------ */

/* Returns when the child has ended. Its CPU time is limited, and it waits for nothing. */
static void run_child(const struct demangle *d)
{
    pid_t pid = fork();

    if (pid == 0) {
        read_all(d);
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* A text that is no good is none. */
static void check(char *text)
{
    size_t n = strnlen(text, DEMANGLE_MAX);

    for (size_t i = 0; i < n; i++)
        if (text[i] < 0x20 || text[i] >= 0x7f || text[i] == ';')
            n = DEMANGLE_MAX;
    if (n == DEMANGLE_MAX)
        *text = 0;
}

void demangle_run(struct demangle *d)
{
    void *map = d->n > 0 ? mmap(NULL, d->n * DEMANGLE_MAX, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                         : MAP_FAILED;

    if (map == MAP_FAILED)
        return;
    d->texts = map;
    run_child(d);
    for (size_t i = 0; i < d->n; i++)
        check(d->texts + i * DEMANGLE_MAX);
}

bool demangle_has(const struct demangle *d)
{
    for (size_t i = 0; d->texts && i < d->n; i++)
        if (d->texts[i * DEMANGLE_MAX])
            return true;
    return false;
}

/* "": it stays as it is. */
static const char *text_of(const struct demangle *d, const char *name, size_t size)
{
    _cleanup_(freep) struct demangle_name *wanted = d->texts && size <= DEMANGLE_FROM ? name_new(name, size) : NULL;
    struct demangle_name **found = wanted ? tfind(wanted, &d->by_name, compare) : NULL;

    return found ? d->texts + (*found)->place * DEMANGLE_MAX : "";
}

int demangle_put(const struct demangle *d, const char *text, struct buffer *to)
{
    const char *from = text;
    size_t size;
    int r = 0;

    for (const char *at = text; r == 0 && (at = find_name(text, at, &size)); at += size) {
        const char *said = text_of(d, at, size);

        if (!*said)
            continue;
        r = buffer_put(to, from, (size_t)(at - from)) < 0 || buffer_put(to, said, strlen(said)) < 0 ? -ENOMEM : 0;
        from = at + size;
    }
    return r < 0 || buffer_put(to, from, strlen(from)) < 0 ? -ENOMEM : 0;
}

static void leave(void *name)
{
}

void demangle_deinit(struct demangle *d)
{
    tdestroy(d->by_name, leave);
    for (size_t i = 0; i < d->n; i++)
        free(d->names[i]);
    free(d->names);
    if (d->texts)
        munmap(d->texts, d->n * DEMANGLE_MAX);
    *d = (struct demangle){.n = 0};
}

int demangle_text(const char *text, struct buffer *to)
{
    struct demangle names = {.n = 0};
    int r = demangle_note(&names, text);

    if (r == 0)
        demangle_run(&names);
    r = r < 0 ? r : demangle_put(&names, text, to);
    demangle_deinit(&names);
    return r;
}
