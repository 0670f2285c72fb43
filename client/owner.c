/* SPDX-License-Identifier: Apache-2.0
 *
 * owner.c: the process that a handle belongs to.
 * Owns the page that tells. One thread a handle; in a child of fork(), whichever thread has the copy.
 * Keeps: a child knows itself without a system call a call. A child of vfork() shares the memory of its parent and so
 * takes itself for it: it only calls exec().
 * Does not know what a handle has. */
#include "owner.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u /* or what the kernel rounds it up to */

void owner_take(struct owner *o)
{
    atomic_store_explicit(o->here, 1, memory_order_relaxed);
    if (o->pid)
        o->pid = getpid();
}

int owner_init(struct owner *o)
{
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return -ENOMEM;
    o->here = page;
    o->pid = madvise(page, PAGE, MADV_WIPEONFORK) < 0 ? getpid() : 0;
    owner_take(o);
    return 0;
}

void owner_deinit(struct owner *o)
{
    if (o->here)
        munmap((void *)o->here, PAGE);
    o->here = NULL;
}

bool owner_is_here(const struct owner *o)
{
    return atomic_load_explicit(o->here, memory_order_relaxed) != 0 && (!o->pid || o->pid == getpid());
}

/* release, both: a child that finds 0 finds all that was changed before, and nothing that was changed after. */
void owner_enter(struct owner *o)
{
    atomic_store_explicit(&o->in_use, atomic_load_explicit(&o->in_use, memory_order_relaxed) + 1, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); /* nothing moves before it */
}

void owner_leave(struct owner *o)
{
    atomic_store_explicit(&o->in_use, atomic_load_explicit(&o->in_use, memory_order_relaxed) - 1, memory_order_release);
}

void owner_leave_all(struct owner *o)
{
    atomic_store_explicit(&o->in_use, 1, memory_order_release);
}

uint32_t owner_depth(const struct owner *o)
{
    return atomic_load_explicit(&o->in_use, memory_order_relaxed);
}

bool owner_was_idle(const struct owner *o)
{
    return owner_depth(o) == 0;
}
