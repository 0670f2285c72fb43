/* SPDX-License-Identifier: Apache-2.0
 *
 * predecessor.c: waits for what the wsd before has left.
 * Owns nothing: the lock is the open file's, which wsd, its own executors and wsd-spawn share. It is free when the last
 * of them has ended. The executors and wsd-spawn end when nothing is below them. [main, before the loop turns]
 * Does not keep another wsd away: the store does. */
#include "supervisor/predecessor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/trust.h"

#define NAME "executors.lock"
/* Only a process that the kernel does not end, or that was stopped, takes longer. Before READY=1: it counts against
 * TimeoutStartSec=, which is systemd's 90 s in the units, and WatchdogSec= is not in force. */
#define DEADLINE_SEC 10
#define AGAIN_USEC   5000

int predecessor_open(const char *directory)
{
    _cleanup_(freep) char *path = NULL;

    if (asprintf(&path, "%s/" NAME, directory) < 0)
        return -1;
    /* not to be written by those that have it */
    int fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    struct stat st;
    /* any other process that holds it could make each start wait */
    if (fd >= 0 && geteuid() == 0 && (fstat(fd, &st) < 0 || !trust_only_here(&st))) {
        close_fd(fd);
        fd = -1;
        errno = EPERM;
    }
    if (fd < 0)
        log_warning("%s: %s: after a kill -9 of wsd, the next one will not wait for the end of its executors", path,
                    strerror(errno));
    return fd;
}

void predecessor_wait(int fd)
{
    uint64_t end = clock_monotonic_usec() + DEADLINE_SEC * UINT64_C(1000000);

    for (bool told = false; flock(fd, LOCK_EX | LOCK_NB) < 0; told = true) {
        if (errno != EWOULDBLOCK || clock_monotonic_usec() >= end) {
            log_warning(NAME ": executors of the last wsd, or what they have started, are still there after %d s: wsd "
                             "goes on without waiting "
                             "for them; fuser(1) names them",
                        DEADLINE_SEC);
            return;
        }
        if (!told)
            log_info("wsd waits for the end of the last one's executors");
        usleep(AGAIN_USEC);
    }
}
