/* SPDX-License-Identifier: Apache-2.0
 *
 * connect.h: the way to wsd, and what is said where there is none.
 */
#pragma once

#include "ctl.h"

/* Connects to whichever wsd the options and the environment mean: as wsd_client_open(). */
int ctl_open(const struct ctl *ctl, struct wsd_client **ret_client, uint64_t timeout_usec);
/* Connects, or says what is wrong and what to do. 0 or the exit code. */
int ctl_connect(const struct ctl *ctl, struct wsd_client **ret_client);
/* Says the client's last error; returns its exit code. plugin: where it may be in the working directory only; or NULL.
 */
int ctl_client_error(const struct wsd_client *client, const char *what, const char *plugin);
/* The hint for a plugin that was not found: "" or how to name the one that is here. */
const char *plugin_hint(const char *plugin, char *buffer, size_t size);
/* Parses an id or says so. 0 or CODE_USAGE. */
int ctl_id(const char *text, struct wsd_id *ret_id);
