/* SPDX-License-Identifier: Apache-2.0
 *
 * clocks.c: preloaded into wsd (LD_PRELOAD), sets its clocks as an administrator, or a machine that slept, does. Each
 * 10 ms it reads
 *
 *     CLOCKS_FILE=PATH   two numbers of 8 bytes: seconds that CLOCK_REALTIME and CLOCK_BOOTTIME are ahead
 *
 * When the first has changed, timers of CLOCK_REALTIME with TFD_TIMER_CANCEL_ON_SET give ECANCELED. Timers of both
 * clocks expire by the new time of their clock. All else is the kernel's. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define TIMERS 16

static struct timer {
    int fd, clock, flags;
    struct itimerspec at; /* by the clock as wsd sees it */
    bool armed;
    bool cancelled;
} timers[TIMERS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int n_timers;
static _Atomic int64_t *ahead;
static int64_t nothing[2];

#define REAL(function)                                                                                                 \
    ({                                                                                                                 \
        static __typeof__(function) *real_;                                                                            \
        if (!real_)                                                                                                    \
            *(void **)(&real_) = dlsym(RTLD_NEXT, #function);                                                          \
        real_;                                                                                                         \
    })

static int64_t ahead_of(int clock)
{
    return clock == CLOCK_REALTIME ? ahead[0] : clock == CLOCK_BOOTTIME ? ahead[1] : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    int r = (int)syscall(SYS_clock_gettime, clock, t);

    if (r == 0 && ahead)
        t->tv_sec += ahead_of(clock);
    return r;
}

/* By the kernel's clock. */
static int set(const struct timer *t)
{
    struct itimerspec at = t->at;

    if (at.it_value.tv_sec || at.it_value.tv_nsec) {
        at.it_value.tv_sec -= ahead_of(t->clock);
        if (at.it_value.tv_sec < 0)
            at.it_value.tv_sec = 0;
        if (!at.it_value.tv_sec && !at.it_value.tv_nsec)
            at.it_value.tv_nsec = 1;
    }
    return REAL(timerfd_settime)(t->fd, t->flags, &at, NULL);
}

static void *look(void *unused)
{
    int64_t last[2] = {ahead[0], ahead[1]};
    const struct timespec pause = {.tv_nsec = 10000000}, soon = {.tv_nsec = 1};

    for (;; nanosleep(&pause, NULL)) {
        int64_t now[2] = {ahead[0], ahead[1]};

        pthread_mutex_lock(&lock);
        for (int i = 0; i < n_timers; i++) {
            struct timer *t = &timers[i];
            int which = t->clock == CLOCK_BOOTTIME;

            if (now[which] == last[which] || !t->armed)
                continue;
            if (t->flags & TFD_TIMER_CANCEL_ON_SET) {
                t->cancelled = true;
                REAL(timerfd_settime)(t->fd, 0, &(struct itimerspec){.it_value = soon}, NULL);
            } else {
                set(t);
            }
        }
        pthread_mutex_unlock(&lock);
        last[0] = now[0];
        last[1] = now[1];
    }
    return unused;
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CLOCKS_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    sigset_t all, before;
    pthread_t thread;
    void *at = fd >= 0 ? mmap(NULL, sizeof(nothing), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    ahead = at == MAP_FAILED ? (void *)nothing : at;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&thread, NULL, look, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int timerfd_create(int clock, int flags)
{
    int fd = REAL(timerfd_create)(clock, flags);

    pthread_mutex_lock(&lock);
    if (fd >= 0 && n_timers < TIMERS)
        timers[n_timers++] = (struct timer){.fd = fd, .clock = clock};
    pthread_mutex_unlock(&lock);
    return fd;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old)
{
    int r = -1;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_timers; i++)
        if (timers[i].fd == fd && flags & TFD_TIMER_ABSTIME) {
            timers[i] = (struct timer){.fd = fd, .clock = timers[i].clock, .flags = flags, .at = *at, .armed = true};
            r = set(&timers[i]);
            pthread_mutex_unlock(&lock);
            return r;
        }
    pthread_mutex_unlock(&lock);
    return REAL(timerfd_settime)(fd, flags, at, old);
}

ssize_t read(int fd, void *data, size_t size)
{
    bool cancelled = false;
    ssize_t n = REAL(read)(fd, data, size);

    if (n != 8)
        return n;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_timers; i++)
        if (timers[i].fd == fd) {
            cancelled = timers[i].cancelled;
            timers[i].cancelled = timers[i].armed = false;
        }
    pthread_mutex_unlock(&lock);
    if (!cancelled)
        return n;
    errno = ECANCELED;
    return -1;
}
