/* SPDX-License-Identifier: Apache-2.0
 *
 * sandbox.h: an executor confines itself before it runs any foreign code. All [main, before threads] unless stated
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
    bool required;      /* the executor ends if a part is not available or does not hold */
    bool commands;      /* programs may be started, and Unix sockets made */
    bool children;      /* and may be signalled, even if that takes allowing signals to all processes */
    uint64_t core_size; /* UINT64_MAX: without limit */
    uint64_t memory;    /* bytes that plugins may allocate; 0: without limit */
    char *deny;         /* names of system calls with blanks between */
    char *writable;     /* directories with colons between; "/": all, "": none */
};

/* Parses the text that wsd passes (control.h). Cuts it in pieces, which *ret points into. 0 or -EINVAL. */
int sandbox_parse(struct sandbox *ret, char *text);

/* Confines this process and verifies that the confinement holds. Uses Landlock if the kernel has it. 0; or a negative
 * errno with the words, but only if `required`: else the words are logged. */
int sandbox_enter(const struct sandbox *s, char error[static SANDBOX_ERROR]);

/* Limits what is allocated from now on. Call after the workers were started: their stacks are not a plugin's. 0 or a
 * negative errno. */
int sandbox_limit_memory(const struct sandbox *s);

/* --- its parts: each 0 or a negative errno ------------------------------------------------------------------------ */

int capabilities_drop(void);

/* The version of Landlock that the kernel has; 0: none, or one that is too old; or a negative errno. */
int landlock_version(void);
/* ret_where: LANDLOCK_WHERE bytes, set to the directory that is in the way if there is one; or NULL. */
int landlock_enter(const struct sandbox *s, int version, char *ret_where);
/* Whether this version keeps signals inside. */
bool landlock_keeps_signals(int version);

/* signals: refuse signals to other processes here too. */
int filter_enter(const struct sandbox *s, bool signals);

/* Tries all of them. Returns NULL, or the name of what does not hold. landlock: its version. */
const char *verify(const struct sandbox *s, int landlock, pid_t witness);

/* A process of the same user outside the sandbox to be entered: verify() tries to reach its memory and to signal it. It
 * is wsd, if wsd and wsd-spawn run as this user; else a child that lives for as long as this takes. */
struct witness {
    pid_t pid;
    int fd; /* -1: it is our parent */
};
int witness_begin(struct witness *ret);
void witness_end(struct witness *w);
