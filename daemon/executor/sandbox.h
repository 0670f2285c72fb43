/* SPDX-License-Identifier: Apache-2.0
 *
 * sandbox.h: an executor confines itself before it runs any foreign code. All [main, before threads] unless stated
 * otherwise.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SANDBOX_ERROR 512u

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

/* A part of it: empties all sets of capabilities. 0 or a negative errno. */
int capabilities_drop(void);
