/* SPDX-License-Identifier: Apache-2.0
 *
 * direct.h: jobs that go by the direct lane and are told by callbacks (WSD_SUBMIT_DIRECT). One thread a handle.
 */
#pragma once

#include "call.h"

/* A job with WSD_SUBMIT_DIRECT, by either way. 0 or an error, said: the call is still the caller's. */
int direct_submit(struct wsd_call *call, const struct wsd_submit *submit);
/* Has workers begin what was gathered. */
void direct_push(struct wsd_client *client);
/* Tells the ends of what has ended, as far as the turn allows. True: there may be more at once. False: the notice
 * socket will be readable when there is. */
bool direct_look(struct wsd_client *client);
/* When direct_look() has to be called in any case (CLOCK_MONOTONIC); UINT64_MAX: never. */
uint64_t direct_due(const struct wsd_client *client);
/* Something is to be done that no descriptor reports. */
bool direct_has_more(const struct wsd_client *client);
/* No callback is under way any more: some were left by an exception or longjmp(). */
void direct_tear(struct wsd_client *client);
void direct_mend(struct wsd_client *client); /* does what comes behind those */
/* For a child of fork(), which does not have the lane's memory: the calls there are lost. */
void direct_forget(struct wsd_client *client);
