/* SPDX-License-Identifier: Apache-2.0
 *
 * daemon.h: wsd: its parts, and what they were made of. [loop]
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "configuration/configuration.h"
#include "frontend/address.h"
#include "frontend/frontend.h"
#include "jobs/jobs.h"
#include "ops/awake.h"
#include "ops/limits.h"
#include "ops/reread.h"
#include "ops/service.h"
#include "ops/trim.h"

#define SYSTEM_SOCKETS "/run/wsd/" /* root alone can make sockets there: a wsd that listens there serves all users */
#define SYSTEM_SOCKET  SYSTEM_SOCKETS "wsd.sock"
#define SYSTEM_STATE   "/var/lib/wsd"

struct daemon {
    struct config config;
    struct limits limits; /* moved since it was read */
    const char *config_file;
    struct event_base *base;
    struct far_ends *far_ends; /* NULL: no user is a stranger */
    struct jobs *jobs;
    struct frontend *frontend;
    struct service *service;
    struct reread *reread;
    struct awake *awake; /* NULL: CPUs without work are left to the kernel */
    struct trim *trim;
    struct event *drain_timer;
    char *sandbox;    /* as executors are told */
    char *at_start;   /* what of the configuration takes effect with the next start only, as it is in force */
    uint32_t workers; /* in force, but for what was moved by hand */
    struct jobs_domain *domains;
    uint32_t n_domains;
    char *state;                     /* where durable jobs are */
    char *socket;                    /* that was bound, and is removed at the end */
    struct frontend_address address; /* of it */
    int executor_fd;
    struct service_kept kept; /* by the service manager, from the last wsd */
    bool keeps;               /* it keeps ours for the next one */
    bool draining, ending, is_system;
    bool listens_remote; /* to clients of other machines */
    uint64_t ending_usec;
    int argc;
    char **argv;
};
