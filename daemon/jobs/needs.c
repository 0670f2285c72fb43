/* SPDX-License-Identifier: Apache-2.0
 *
 * needs.c: what wsd and its executors cannot do without: limits, /proc, /dev/null.
 * Owns nothing. [before anything is started]
 * Keeps: what is missing is named, with the number that is wanted.
 * Does not measure: the numbers are those of pool/ and ring/, and tests/integration/inherit.sh starts a wsd with just
 * these. */
#include "jobs/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/inherit.h"
#include "ring/layout.h"

#define DESCRIPTORS   512u /* connections and inputs have most of them; see FDS_SPARED of frontend/ */
#define CPU_SECONDS   60u
#define THREADS_OWN   16u /* of wsd and of one executor, beside its workers */
#define STACK_DEFAULT ((uint64_t)8 << 20)
#define TASKS_RESERVED                                                                                                 \
    ((uint64_t)340 << 20) /* a worker's task stack: address space until it is used (pool/deque.c)   \
                                              */
#define HEAP_RESERVED                                                                                                  \
    ((uint64_t)66 << 20)                 /* a thread's heap as malloc() reserves it, and the guard below its stack \
                                              */
#define DATA_OWN   ((uint64_t)64 << 20)  /* private memory of an executor, apart from its workers, with some plugins */
#define MAPPED_OWN ((uint64_t)376 << 20) /* that, the rings and the libraries */

static uint64_t page_up(uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return (size + page - 1) / page * page;
}

static int missing(const char *path, int flags, const char *what, char error[static INHERIT_ERROR])
{
    _cleanup_(close_fdp) int fd = open(path, flags | O_CLOEXEC);
    int r = fd < 0 ? -errno : 0;

    if (r < 0)
        snprintf(error, INHERIT_ERROR, "%s: %s: %s", path, strerror(-r), what);
    return r;
}

int jobs_needs(const struct jobs_options *o, char error[static INHERIT_ERROR])
{
    uint64_t stack = o->stack_size ? o->stack_size : STACK_DEFAULT;
    const struct inherit_need needs[] = {
        {RLIMIT_NOFILE, DESCRIPTORS},
        {RLIMIT_FSIZE,
         page_up(MAX(sizeof(struct up), sizeof(struct down))) + RING_UP_TAIL}, /* memory files count, too */
        {RLIMIT_AS, MAPPED_OWN + o->workers * (TASKS_RESERVED + HEAP_RESERVED + stack)},
        {RLIMIT_DATA, DATA_OWN + o->workers * (TASKS_RESERVED + stack)},
        {RLIMIT_CPU, CPU_SECONDS},
        {RLIMIT_NPROC, o->workers + THREADS_OWN}, /* the last: root is exempt */
    };
    int r = inherit_check(needs, ARRAY_SIZE(needs) - (getuid() == 0), error);

    if (r == 0)
        r = missing("/proc/self/fd", O_RDONLY | O_DIRECTORY, "wsd needs a /proc (mount -t proc proc /proc)", error);
    if (r == 0)
        r = missing("/dev/null", O_RDWR, "wsd needs a /dev with null in it", error);
    return r;
}
