/* SPDX-License-Identifier: Apache-2.0
 *
 * cleanup.h: owning locals. `_cleanup_(x_freep) struct x *x = NULL;` frees at the end of the scope; success moves the
 * value out with TAKE(x). (systemd's and nbdkit's habit.)
 */
#pragma once

#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

#define TAKE(pointer)                                                                                                  \
    ({                                                                                                                 \
        __typeof__(pointer) take_ = (pointer);                                                                         \
        (pointer) = NULL;                                                                                              \
        take_;                                                                                                         \
    })

#define SWAP(a, b)                                                                                                     \
    do {                                                                                                               \
        __typeof__(a) swap_ = (a);                                                                                     \
        (a) = (b);                                                                                                     \
        (b) = swap_;                                                                                                   \
    } while (0)

#define TAKE_FD(fd)                                                                                                    \
    ({                                                                                                                 \
        int take_ = (fd);                                                                                              \
        (fd) = -1;                                                                                                     \
        take_;                                                                                                         \
    })

/* Defines f##p for _cleanup_: calls the destructor, which accepts NULL. */
#define DEFINE_CLEANUP(type, f)                                                                                        \
    static inline void f##p(type **p)                                                                                  \
    {                                                                                                                  \
        f(*p);                                                                                                         \
    }

static inline void freep(void *p)
{
    free(*(void **)p);
}

static inline int close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
    return -1;
}

static inline void close_fdp(int *fd)
{
    close_fd(*fd);
}

#define container_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
#define ARRAY_SIZE(a)                       (sizeof(a) / sizeof(*(a)))
#define MIN(a, b)                           ((a) < (b) ? (a) : (b))
#define MAX(a, b)                           ((a) > (b) ? (a) : (b))
