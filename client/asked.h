/* SPDX-License-Identifier: Apache-2.0
 *
 * asked.h: questions that no call waits for. One thread a handle.
 */
#pragma once

#include <stdint.h>

struct wsd_client;

/* The first deadline of one (CLOCK_MONOTONIC); UINT64_MAX: none. It may move on. */
uint64_t asked_deadline(const struct wsd_client *client);
/* Ends those that are past their deadline, until the connection has told as much as stop_at. */
void asked_expire(struct wsd_client *client, uint64_t stop_at);
/* No callback is under way any more: some were left by an exception or longjmp(). */
void asked_tear(struct wsd_client *client);
void asked_mend(struct wsd_client *client); /* does what comes behind those */
