/* SPDX-License-Identifier: Apache-2.0
 *
 * inherit.h: repairs what a process inherits from its parent, before it does anything else. tests/faults.md has the
 * table of states.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INHERIT_ERROR 256

enum inherit_kind {
    /* A process of wsd's own. No signal stays ignored except SIGPIPE and SIGXFSZ, which always are. Soft limits are
     * raised to the hard ones. */
    INHERIT_DAEMON,
    /* A user's command. Signals that nohup and shells ignore for their children stay ignored: SIGHUP, SIGINT, SIGQUIT
     * and the signals of job control. SIGXFSZ is ignored. Limits stay as they are, except for a stack that is too
     * small. */
    INHERIT_TOOL,
};

/* The first call of each main(), which must have a small frame: there may be little stack before this. Descriptors 0, 1
 * and 2: /dev/null replaces a closed one, so that no later open() gets the number. Reading from such a 0 and writing to
 * such a 1 fails with EBADF; 2 discards what is written. Other open descriptors stay open here, and are not passed on
 * by exec. Signals: the mask is empty, and dispositions are as `kind` says. Handlers that exist already, as a
 * sanitizer's, stay. Limits: as `kind` says; new threads have a stack of at least INHERIT_STACK. Returns 0, or a
 * negative errno with the words. [main, before threads] */
int inherit_begin(enum inherit_kind kind, char error[static INHERIT_ERROR]);

/* Makes room in the table of descriptors for as many as are allowed, up to INHERIT_TABLE. The kernel lets a process with
 * threads wait, for up to 30 ms, in a call that makes a descriptor for which the table has no room. [main, before
 * threads] */
void inherit_widen_table(void);

#define INHERIT_TABLE       65536u     /* descriptors; 8.2 bytes of the kernel's memory each */
#define INHERIT_STACK       (8u << 20) /* bytes that the soft limit of the stack is raised to */
#define INHERIT_STACK_LEAST (1u << 20) /* bytes of stack without which no program begins */

struct inherit_need {
    int resource; /* of getrlimit(2) */
    uint64_t wanted;
};

/* Returns 0, or -EPERM if a hard limit is below what is wanted; the error has the limit's name, its value and the
 * number wanted. [any] */
int inherit_check(const struct inherit_need *needs, size_t n, char error[static INHERIT_ERROR]);

/* Returns "; RLIMIT_NAME is N ...", for the limit in force that explains this negative or positive errno, or "" if none
 * does. [any] */
const char *inherit_blame(int error, char words[static INHERIT_ERROR]);
