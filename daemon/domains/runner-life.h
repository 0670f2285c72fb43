/* SPDX-License-Identifier: Apache-2.0
 *
 * runner-life.h: runners come and go. As struct domain_part. [loop]
 */
#pragma once

struct domain;

int runners_init(struct domain *d); /* 0 */
void runners_deinit(struct domain *d);
