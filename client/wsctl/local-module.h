/* SPDX-License-Identifier: Apache-2.0
 *
 * local-module.h: what wsctl asks of the module that runs a plugin inside wsctl itself (`wsctl submit --local`).
 *
 * The module, daemon/host/wsctl-local.so, is loaded on demand, so a plain submit does without it. The module and wsctl
 * are built and installed together. `size` detects a module of another build.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Work and span, as daemon/pool/measure.h has them. */
struct local_measure {
    uint64_t work_nsec, work_strands, span_nsec, span_strands, burdened_nsec, spawns, hidden;
};

struct local_request {
    size_t size;          /* sizeof(struct local_request) */
    const char *plugin;   /* as given to `wsctl submit`: a name, or a path with a slash */
    const char *function; /* NULL or "": the plugin's own */
    const char *const *args;
    size_t n_args;
    int input_fd;     /* -1: none. Read from where it stands; not closed */
    unsigned workers; /* 0: as wsd */
    const char *const *plugin_dirs;
    size_t n_plugin_dirs;
    const char *traceparent; /* NULL: none */
    uint64_t timeout_usec;   /* 0: none */
    size_t stack_size;       /* bytes, of a worker; 0: as wsd */
    /* Measures work and span; the job believes that it has `workers`, and has one. NULL: does not */
    struct local_measure *measure;
    /* The three are called on threads of the pool, never two at once, and not after wsctl_local_run() has returned. */
    int (*output)(const void *data, size_t size, void *userdata); /* not 0: no reader is left; the job is cancelled */
    void (*message)(int level, const char *text, void *userdata); /* every level, also WSD_LOG_DEBUG */
    void (*progress)(uint64_t done, uint64_t total, void *userdata);
    /* These two are called on the caller's thread. NULL: nothing is to be done, and the job is not cancelled. */
    /* Called when the input is there. Returns the descriptor that is readable when the job is to be cancelled; -1:
     * none. */
    int (*begins)(void *userdata);
    void (*cancelling)(void *userdata); /* it is readable, and the job is about to be cancelled */
    void *userdata;
};

struct local_result {
    int state; /* enum wsd_job_state */
    int exit;
    char plugin[64], function[64], error[256], status[256];
    uint64_t run_usec, cpu_usec;
};

/* Runs one job to its end. Returns 0, or a negative errno with ret->error set. The errors are those of loader_load()
 * (daemon/host/loader.h), also -ENOENT for a function that the plugin does not have. For the rest they are -EINVAL,
 * -ENOMEM, .. If a job ignores its timeout or its cancel, this returns some seconds after that with the job's threads
 * still there. The process should end then. */
int wsctl_local_run(const struct local_request *request, struct local_result *ret);
