/* SPDX-License-Identifier: Apache-2.0
 *
 * reload.h: reads the configuration again, and puts it in force. [loop]
 */
#pragma once

#include "daemon.h"

extern const struct reread_ops reload_ops; /* context: the daemon */
void on_reload(void *daemon);              /* a reload is requested */
void log_fault(bool warning, const char *text, void *userdata);
