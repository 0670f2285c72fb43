/* SPDX-License-Identifier: Apache-2.0
 *
 * sandbox.h: an executor confines itself before it runs anybody's code. All [main, before threads] but where it says
 * otherwise.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SANDBOX_ERROR  512u
#define LANDLOCK_WHERE 400u

/* What wsd's configuration wants. */
struct sandbox {
    bool required;      /* a part that cannot be had, or does not hold, is the end of the executor */
    bool commands;      /* programs may be started, and Unix sockets made */
    bool children;      /* and they are to be signalled, even where only by allowing signals to everybody */
    uint64_t core_size; /* UINT64_MAX: without limit */
    uint64_t memory;    /* bytes that plugins may allocate; 0: without limit */
    char *deny;         /* names of system calls with blanks between */
    char *writable;     /* directories with colons between; "/": all, "": none */
};

/* The text that wsd hands over: see control.h. It is cut in pieces, which *ret points into. 0 or -EINVAL. */
int sandbox_parse(struct sandbox *ret, char *text);

/* Confines this process and tries out that it holds. Landlock is had where the kernel has it. 0; or a negative errno
 * with the words, only where it is required: else they are logged. */
int sandbox_enter(const struct sandbox *s, char error[static SANDBOX_ERROR]);

/* Bounds what is allocated from now on. After the workers, whose stacks are none of a plugin's. 0 or a negative errno.
 */
int sandbox_limit_memory(const struct sandbox *s);

/* --- its parts: each 0 or a negative errno ------------------------------------------------------------------------ */

int capabilities_drop(void);

/* The version of Landlock that the kernel has; 0: none, or one that is too old; or a negative errno. */
int landlock_version(void);
/* ret_where: LANDLOCK_WHERE bytes, written where it is a directory that is in the way, or NULL. */
int landlock_enter(const struct sandbox *s, int version, char *ret_where);
/* Whether this version keeps signals inside. */
bool landlock_keeps_signals(int version);

/* signals: to others are refused here too. */
int filter_enter(const struct sandbox *s, bool signals);

/* Tries them all; NULL, or what does not hold. landlock: its version. */
const char *verify(const struct sandbox *s, int landlock, pid_t witness);

/* A process of the same user, outside of what is about to be entered: its memory and signals are what verify() tries.
 * wsd, unless it or wsd-spawn is of another user: then a child, for as long as it takes. */
struct witness {
    pid_t pid;
    int fd; /* -1: it is our parent */
};
int witness_begin(struct witness *ret);
void witness_end(struct witness *w);
