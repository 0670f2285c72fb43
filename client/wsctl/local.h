/* SPDX-License-Identifier: Apache-2.0
 *
 * local.h: what wsctl asks of the module that runs a plugin inside wsctl itself (`wsctl submit --local`). The module,
 * daemon/host/wsctl-local.so, is loaded on demand, so that a plain submit links only libwsclient. wsctl and module are
 * built and installed together; `size` tells a module that is not.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct local_request {
    size_t size;
    const char *plugin;
    const char *function;
    const char *const *args;
    size_t n_args;
    int input_fd;     /* -1 none */
    unsigned workers; /* 0: as wsd */
    const char *const *plugin_dirs;
    size_t n_plugin_dirs;
    uint64_t timeout_usec;
    int (*output)(const void *data, size_t size, void *userdata);
    void (*message)(int level, const char *text, void *userdata);
    void (*progress)(uint64_t done, uint64_t total, void *userdata);
    void *userdata;
};

struct local_result {
    int state; /* enum wsd_job_state */
    int exit;
    char plugin[64], function[64], error[256], status[256];
    uint64_t run_usec, cpu_usec;
};

/* 0, or negative errno with ret->error set (-ENOENT not found, -ENOEXEC no plugin or another ABI, ...). */
int wsctl_local_run(const struct local_request *request, struct local_result *ret);
