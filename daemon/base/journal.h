/* SPDX-License-Identifier: Apache-2.0
 *
 * journal.h: the log's way to systemd's journal. Not part of log.h, so that an executor, which has no such way, does
 * not load libsystemd and the six libraries that it needs.
 */
#pragma once

/* The log goes to the journal where systemd started us with stderr as its stream (JOURNAL_STREAM). [before threads] */
void journal_init(void);
