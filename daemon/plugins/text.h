/* SPDX-License-Identifier: Apache-2.0
 *
 * text.h: the functions of the plugin `text`, each in a file of its own, and what they share.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "plugins/common.h"
#include "wsd/plugin.h"

/* Appends a line and its newline, behind its number as uniq -c writes it; 0: without one. 0 or -ENOMEM. [any] */
int text_put_line(struct buffer *text, uint64_t n, const char *line, size_t size);

int text_unique(struct wsd_job *job, struct wsd_worker *self);
int text_frequency(struct wsd_job *job, struct wsd_worker *self);
int text_join(struct wsd_job *job, struct wsd_worker *self);
