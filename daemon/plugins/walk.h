/* SPDX-License-Identifier: Apache-2.0
 *
 * walk.h: the regular files below folders, in the order of their names' bytes. Symbolic links below a folder are not
 * followed, and devices, FIFOs and sockets are left out, as by grep -r. All calls [a task].
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "wsd/plugin.h"

struct names {
    char **names;
    size_t n, allocated;
    bool failed; /* a folder could not be read, which is in the job's log */
};

/* Adds one name. 0 or -ENOMEM. */
int names_add(struct names *names, const char *name);

/* Adds the files below a folder; another name as it is. NULL: the working directory, and names relative to it.
 * *ret_folder: it is a folder. 0, -ENOMEM or -ECANCELED. */
int names_walk(struct names *names, struct wsd_job *job, const char *name, bool *ret_folder);

void names_deinit(struct names *names);
