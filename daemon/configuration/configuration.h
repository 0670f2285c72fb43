/* SPDX-License-Identifier: Apache-2.0
 *
 * configuration.h: the configuration: files, then the command line. [before the loop, and in it at a reload]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "frontend/frontend.h"
#include "jobs/jobs.h"

#define CONFIG_PLUGINS_MAX   256u
#define CONFIG_ERROR         2048u
#define CONFIG_FILE_MAX      (16 << 20)   /* bytes */
#define CONFIG_MEMORY_MIN    (1ull << 20) /* of executor-memory */
#define CONFIG_MEMORY_MAX    (1ull << 50)
#define CONFIG_DENY_MAX      4096u
#define CONFIG_DOMAINS_MAX   64u
#define CONFIG_SCHEDULES_MAX 256u
#define CONFIG_TAGS_MAX      256u
#define CONFIG_RUNNERS_MAX   256u
#define CONFIG_USERS_MAX     1024u /* users of a domain, or of an access list, which has as many groups too */
#define CONFIG_SERVERS_MAX   16u   /* [fleet] servers */
#define CONFIG_NODE          32u   /* bytes of the name of a node of the fleet, with NUL */
#define CONFIG_HELD_MAX      4096u
#define CONFIG_FLEET_USER    "wsd-fleet"
#define CONFIG_RUN_AS_SAME   "same"
#define CONFIG_ACK_WAIT_MIN  1000000u /* us */
#define CONFIG_ACK_WAIT_MAX  3600000000u
#define CONFIG_WAIT_MIN      1000000u /* us */
#define CONFIG_WAIT_MAX      86400000000u

/* Where a setting stands. file NULL: on the command line, or nowhere. */
struct config_origin {
    const char *file; /* owned by the configuration */
    unsigned line;
};

/* Settings of executors that [domain NAME] or [plugin NAME] may make. */
struct config_share {
    uint32_t workers; /* 0: not said */
    uint64_t memory;
    bool has_memory;
    uint64_t tasks;      /* 0: not said */
    uint32_t cpu_weight; /* 0: not said */
};

struct config_plugin {
    char name[64];
    int enabled;               /* 1 yes, 0 no, -1: not set */
    bool own;                  /* an executor of its own */
    uint64_t max_run_usec;     /* 0: not said */
    uint32_t max_running;      /* jobs at once; 0: not said */
    struct config_share share; /* if it has an executor of its own */
    struct access_list users;  /* its users, if set */
    struct config_origin origin;
};

/* [tag NAME] */
struct config_tag {
    char name[64];
    uint32_t max_running; /* jobs at once */
};

/* [runner NAME] */
struct config_runner {
    char name[64];
    struct access_list offer; /* whose runners serve all users, if set */
    struct access_list users; /* its users, if set */
    uint64_t wait_usec;       /* how long a job waits for a runner that is not there */
    uint32_t max;             /* runners at once; 0: any number */
    struct config_origin origin;
};

/* [domain NAME] */
struct config_domain {
    char name[64];
    uint32_t *uids;
    uint32_t n_uids;
    struct config_share share;
};

/* [schedule NAME] */
struct config_schedule {
    char name[SCHEDULE_NAME_MAX];
    char *on;
    char *plugin, *function, *args; /* the parts of `job`; args: each with its NUL */
    size_t args_size;
    uint32_t argc, uid;
    bool has_uid; /* false: wsd's own */
    bool persistent;
    struct config_origin origin, on_origin, job_origin;
};

/* [fleet]: for wsd-fleet. wsd checks the values and uses none but `user`. A text is NULL where nothing is said. */
struct config_fleet {
    char *user;    /* that wsd-fleet runs as */
    char *run_as;  /* whose jobs the foreign ones are; CONFIG_RUN_AS_SAME: of the user of the same name */
    char *servers; /* URLs with commas between */
    char *node;
    char *plugins; /* names with commas between */
    uint64_t held, ack_usec;
    uint64_t wait_usec; /* for a server that takes a job; UINT64_MAX: for ever */
    int in, out;        /* 1 yes, 0 no */
    int builds;         /* likewise: takes jobs for its builds of plugins, too */
    char *tls_ca, *tls_certificate, *tls_key, *credentials;
};

/* Allocated apart: jobs keep using that of the start when the files are read again. */
struct config_domains {
    struct config_domain list[CONFIG_DOMAINS_MAX];
    uint32_t n;
};

struct config {
    char *socket; /* NULL: by the rule in wsd(8) */
    char *socket_group;
    char *state_dir;
    char *plugin_dirs; /* colon-separated */
    char *executor;
    char *spawner;
    int keep_awake;      /* enum awake_mode */
    int pin;             /* 1 yes, 0 no */
    uint64_t stack_size; /* of a worker */
    uint64_t static_tls; /* bytes of each thread of an executor, for plugins */
    uint32_t workers;    /* 0: the CPUs that wsd may use */
    int log_level;
    int sandbox_required;     /* 1 yes, 0 no */
    char *deny;               /* names of system calls, separated by blanks; NULL: none */
    char *writable;           /* directories, separated by colons; "none"; NULL: depends on the user that runs wsd */
    uint64_t core_size;       /* UINT64_MAX: without limit */
    uint64_t executor_memory; /* 0: without limit */
    int is_system;            /* 1 yes, 0 no, -1: depends on the socket's path */
    bool one_domain;
    int user_ids; /* enum jobs_user_ids */
    uint64_t first_user_id;
    int cgroups;             /* enum jobs_cgroups */
    uint64_t executor_tasks; /* 0: without limit */
    struct config_domains *domains;
    uint64_t drain_usec;
    struct access_rules access; /* only its lists are set, and by config_check(), agent */
    char *tls_listen;           /* NULL: no clients of other machines */
    char *tls_certificate, *tls_key, *tls_ca, *tls_crl, *tls_user_map;
    struct frontend_limits frontend_limits;
    struct jobs_limits limits;
    struct config_fleet fleet;
    struct config_plugin plugins[CONFIG_PLUGINS_MAX];
    uint32_t n_plugins;
    struct config_schedule *schedules;
    uint32_t n_schedules;
    struct config_tag *tags; /* CONFIG_TAGS_MAX of them, or NULL: none */
    uint32_t n_tags;
    struct config_runner *runners; /* CONFIG_RUNNERS_MAX of them, or NULL: none */
    uint32_t n_runners;
    struct config_origin *origins; /* of the keys that are in no section with a name */
    struct config_origin now;      /* the place that is being read */
    char **files;
    uint32_t n_files;
};

/* Sets the defaults. Returns 0 or -ENOMEM. */
int config_init(struct config *c);
void config_deinit(struct config *c);

/* Reads one file over the present settings. Returns 0; -ENOENT: there is no such file; -EINVAL or another negative
 * errno. On failure, error has `FILE:LINE: what is wrong and what would be right`. */
int config_read(struct config *c, const char *path, char error[static CONFIG_ERROR]);
/* Reads the standard places: wsd.conf, then wsd.conf.d/NAME.conf, sorted by name. A missing file is fine. */
int config_read_standard(struct config *c, const char *directory, char error[static CONFIG_ERROR]);
/* Sets one key, as on the command line. Returns 0, or -EINVAL with the words. */
int config_set(struct config *c, const char *section, const char *key, const char *value,
               char error[static CONFIG_ERROR]);
/* Sets one of the limits that may change while wsd runs. They are in `limits` and `frontend_limits`, whatever their
 * section. own: the limit is one user's, and its key ends in -per-user. value "": takes the value in `from`. Returns 0,
 * or -EINVAL with the words. */
int config_set_limit(struct config *c, const struct config *from, const char *key, const char *value, bool own,
                     char error[static CONFIG_ERROR]);
/* Checks what needs the whole configuration, and looks up the user of wsd-fleet, where somebody is in submit-as. Returns
 * 0; -EINVAL; or -EAGAIN: the user database did not answer; with the words. */
int config_check(struct config *c, char error[static CONFIG_ERROR]);
/* Returns what cannot go together in [fleet], in words, and the key that they are about. NULL: all can. */
const char *config_fleet_contradiction(const struct config *c, const char **ret_key);
/* Where that key was last set. */
struct config_origin config_origin(const struct config *c, const char *section, const char *key);
