/* SPDX-License-Identifier: Apache-2.0
 *
 * recycle.h: replaces an executor that has run many jobs or has grown, without a gap. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct control;
struct domain;

/* What a domain knows of its executor's age, and of the one that is to replace it. */
struct recycling {
    bool spoilt;               /* jobs have left the executor in a state that later jobs should not inherit */
    bool starved;              /* being spoilt, it could not load a plugin: the next executor loads it */
    uint64_t started_usec;     /* when it was started, or the one that replaces a spoilt one */
    uint64_t n_ended;          /* its ended jobs */
    uint64_t resident_first;   /* its first resident bytes */
    uint64_t looked_usec;      /* when its memory was last looked at */
    struct domain *standby;    /* the domain in which the next executor gets ready */
    struct domain *standby_of; /* this is the standby of that domain */
    uint32_t n_expected;       /* plugins that the standby still has to load */
};

void recycle_look(struct domain *d, uint32_t n);           /* n jobs have ended */
void recycle_spoilt(struct domain *d, const char *reason); /* its jobs have spoilt the executor */
/* it cannot load a plugin; false: nor could another executor */
bool recycle_starved(struct domain *d, const char *reason);
void recycle_abandon(struct domain *d);                          /* drops the standby */
void recycle_ready(struct domain *n);                            /* the standby's executor is ready */
void recycle_control(struct domain *n, const struct control *c); /* LOADED or FUNCTION from the standby */
/* Called when recover() is done. True: the domain was for this executor only, and is freed. */
bool recycle_gone(struct domain *d);
