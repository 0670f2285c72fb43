/* SPDX-License-Identifier: Apache-2.0
 *
 * failure.c: the words and the exit code of the last failure of a handle.
 * Owns nothing. One thread a handle.
 * Keeps: no byte that wsd or a job has said reaches a terminal unescaped. */
#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/code.h"
#include "base/escape.h"
#include "text.h"

int failure_problem(struct failure *f, const char *problem)
{
    if (strstr(problem, "of arguments") || strstr(problem, "of the arguments"))
        return failure_set(f, -EINVAL, CODE_USAGE,
                           "arguments: at most %u for one job, and %u KiB of them together, each with its NUL",
                           CODEC_ARGS_MAX, CODEC_ARGS_SIZE >> 10);
    return failure_set(f, -EINVAL, CODE_USAGE, "%s: above the limit, or missing", problem);
}

int failure_set(struct failure *f, int error, int exit, const char *format, ...)
{
    char text[sizeof(f->text)];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    escape_text(f->text, sizeof(f->text), text);
    f->exit = exit;
    f->retry_usec = 0;
    return error;
}

int failure_remote(struct failure *f, const struct msg_error *error)
{
    int r = error_of_exit(error->code);

    failure_set(f, r, exit_of_error(r), "%s", error->text.size ? error->text.data : "refused by wsd");
    f->retry_usec = r == -EAGAIN ? error->retry_usec : 0;
    return r;
}
