/* SPDX-License-Identifier: Apache-2.0
 *
 * inherit.h: what a process inherits from its parent, put right before it does anything else. tests/faults.md has the
 * table of states.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INHERIT_ERROR 256

enum inherit_kind {
    /* A process of wsd's own. No signal stays ignored but SIGPIPE and SIGXFSZ, which always are. Soft limits become
       hard ones. */
    INHERIT_DAEMON,
    /* Somebody's command. What nohup and shells ignore for their children stays ignored: SIGHUP, SIGINT, SIGQUIT and
     * the signals of job control. SIGXFSZ is ignored. Limits stay as they are, apart from too small a stack. */
    INHERIT_TOOL,
};

/* The first call of each main(), whose own frame has to be small: there may be little stack before it.
 * Descriptors 0, 1 and 2: where one is closed, /dev/null takes its place, so that no later open() gets the number.
 * Reading such a 0 and writing to such a 1 is EBADF; 2 swallows what is written. Others that are open stay so here, and
 * are not passed on by exec. Signals: the mask is empty, and
 * dispositions are as `kind` says. Handlers that are there already, a sanitizer's, stay. Limits: as `kind` says; new
 * threads have a stack of at least INHERIT_STACK. Returns 0, or a negative errno with the words where that cannot be.
 * [main, before threads] */
int inherit_begin(enum inherit_kind kind, char error[static INHERIT_ERROR]);

#define INHERIT_STACK       (8u << 20) /* bytes that the soft limit of the stack is raised to */
#define INHERIT_STACK_LEAST (1u << 20) /* bytes of stack without which no program begins */

struct inherit_need {
    int resource; /* of getrlimit(2) */
    uint64_t wanted;
};

/* Returns 0, or -EPERM where a hard limit is below what is wanted, with the limit's name, its value and the number
 * wanted. [any] */
int inherit_check(const struct inherit_need *needs, size_t n, char error[static INHERIT_ERROR]);

/* Returns "; RLIMIT_NAME is N ...", for the limit in force that explains this negative or positive errno, or "" where
 * none does. [any] */
const char *inherit_blame(int error, char words[static INHERIT_ERROR]);
