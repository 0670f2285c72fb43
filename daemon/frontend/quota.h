/* SPDX-License-Identifier: Apache-2.0
 *
 * quota.h: limits the connections of all users and of each, and the open requests and unread bytes of a user. [loop]
 */
#pragma once

#include <stdbool.h>

struct peer;

/* Counts the connection, or gives the words of a refusal. Returns 0 or -ENOMEM. */
int quota_take(struct peer *p, const char **ret_refusal);
void quota_give_back(struct peer *p); /* it counts for no user from now on. Outside of its user's share */
/* Counts an open request of a counted connection. Returns NULL, or the words of a refusal. */
const char *quota_request(struct peer *p);
void quota_request_ended(struct peer *p);
void quota_output(struct peer *p);       /* its output has changed */
bool quota_unread(const struct peer *p); /* its user has as many unread bytes as allowed */
