/* SPDX-License-Identifier: Apache-2.0
 *
 * ctl.h: what every verb of wsctl shares. A verb is one file with one function, listed in main.c's table.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/code.h"
#include "wsd/client.h"

struct ctl;

struct verb {
    const char *name;
    const char *usage; /* what follows the name; completion reads it, and the options in details */
    const char *help;  /* one line; NULL: not for people */
    const char *details;
    int (*run)(struct ctl *ctl, int argc, char **argv);
    /* options stop at the first argument: what comes then may be a job's. Else they may stand anywhere */
    bool in_order;
    unsigned takes; /* enum submit_verbs: the options of submit-options.h that it has, too, behind those in details */
};

/* The common options. */
struct ctl {
    const struct verb *verb;
    const char *socket;
    struct wsd_tls tls; /* what was given of a wsd on another machine */
    bool json, quiet, no_progress;
};

int verb_submit(struct ctl *ctl, int argc, char **argv);
int verb_run(struct ctl *ctl, int argc, char **argv);
int verb_map(struct ctl *ctl, int argc, char **argv);
int verb_await(struct ctl *ctl, int argc, char **argv);
int verb_attach(struct ctl *ctl, int argc, char **argv);
int verb_status(struct ctl *ctl, int argc, char **argv);
int verb_list(struct ctl *ctl, int argc, char **argv);
int verb_cancel(struct ctl *ctl, int argc, char **argv);
int verb_dead(struct ctl *ctl, int argc, char **argv);
int verb_schedule(struct ctl *ctl, int argc, char **argv);
int verb_plugin(struct ctl *ctl, int argc, char **argv);
int verb_bench(struct ctl *ctl, int argc, char **argv);
int verb_ping(struct ctl *ctl, int argc, char **argv);
int verb_stats(struct ctl *ctl, int argc, char **argv);
int verb_pause(struct ctl *ctl, int argc, char **argv);
int verb_resume(struct ctl *ctl, int argc, char **argv);
int verb_drain(struct ctl *ctl, int argc, char **argv);
int verb_limit(struct ctl *ctl, int argc, char **argv);
int verb_limits(struct ctl *ctl, int argc, char **argv);
int verb_workers(struct ctl *ctl, int argc, char **argv);
int verb_top(struct ctl *ctl, int argc, char **argv);
int verb_trace(struct ctl *ctl, int argc, char **argv);
int verb_version(struct ctl *ctl, int argc, char **argv);
int verb_complete(struct ctl *ctl, int argc, char **argv);

/* main.c: NULL where there is none. */
const struct verb *ctl_verb(const char *name);
const struct verb *ctl_verb_at(size_t index);

/* list.c: a line, or an object, for each job; userdata is the ctl. */
void list_heading(const struct ctl *ctl);
int list_show(const struct wsd_job_info *info, void *userdata);

/* --- options.c -------------------------------------------------------------------------------------------------- */

#define CTL_END  (-1) /* no more options: optind is the first argument */
#define CTL_EXIT (-2) /* --help was answered or something was wrong: return *ret_exit */

/* The next option of a verb: its own (values above 0, short ones by their letter) or one of the above. The common
 * options are dealt with. `own` ends with zeros. Options stop at the first argument where the verb is in_order, and may
 * be asked for again behind it. */
int ctl_getopt(struct ctl *ctl, int argc, char **argv, const char *letters, const struct option *own, int *ret_exit);
/* The same directly behind the plugin, where only long options, spelled out, are ours; anything else, `--` too, begins
 * the plugin's own arguments. Not to be called where `--` stood before the plugin: that ended our options. */
int ctl_getopt_behind(struct ctl *ctl, int argc, char **argv, const char *letters, const struct option *own,
                      int *ret_exit);
/* For verbs without options of their own: parses, and checks the number of arguments. Returns CTL_END or CTL_EXIT. */
int ctl_arguments(struct ctl *ctl, int argc, char **argv, int min, int max, int *ret_exit);
void ctl_help(const struct verb *verb);
extern const char ctl_common_help[]; /* a line an option */

/* --- parse.c ---------------------------------------------------------------------------------------------------- */

/* 0 or -1. `10`, `1.5s`, `500ms`, `1min 30s`, `2h`. */
int parse_duration(const char *text, uint64_t *ret_usec);
int parse_number(const char *text, long long min, long long max, long long *ret);
/* A time of day or a date, after now (microseconds since the epoch): see when.c. 0 or -1. */
int parse_when(const char *text, uint64_t now_usec, uint64_t *ret_usec);
/* Splits PLUGIN[:FUNCTION] in place: *ret_function is NULL where there is none. 0 or -1. */
int parse_plugin(char *text, const char **ret_function);

/* --- print.c ---------------------------------------------------------------------------------------------------- */

/* One line on stderr, `wsctl: what: why`. Returns exit. */
__attribute__((format(printf, 3, 4))) int ctl_error(int exit, const char *what, const char *format, ...);
/* Where what is said from now on was found: it stands before the rest. NULL: nowhere. */
void ctl_error_where(const char *where);
/* A line of a job's: what may be NULL. */
void print_message(const char *what, const char *text);
/* A part of a line on stdout, and the rest of one with its end: all that they say is escaped (base/escape.h), ends of
 * lines too. */
__attribute__((format(printf, 1, 2))) void print_text(const char *format, ...);
#define print_line(...) (print_text(__VA_ARGS__), (void)putchar('\n'))
/* The name of a state, coloured where stdout is a terminal that wants it. */
void print_state(enum wsd_job_state state);
/* "12 us", "3.4 ms", "5.6 s" */
const char *duration_text(uint64_t usec, char *buffer, size_t size);
/* What is paused or limited: `PLUGIN:FUNCTION`, `tag NAME`, `(all)` */
const char *gate_text(const struct wsd_gate_info *info, char *buffer, size_t size);
/* What is wrong with a job that did not succeed: its error or its state. */
const char *job_error_text(const struct wsd_job_info *info, char *buffer, size_t size);
/* Flushes stdout. 0 or CODE_IO, said. */
int print_end(void);

/* --- connect.c -------------------------------------------------------------------------------------------------- */

/* Connects to whichever wsd the options and the environment mean: as wsd_client_open(). */
int ctl_open(const struct ctl *ctl, struct wsd_client **ret_client, uint64_t timeout_usec);
/* Connects, or says what is wrong and what to do. 0 or the exit code. */
int ctl_connect(const struct ctl *ctl, struct wsd_client **ret_client);
/* Says the client's last error; returns its exit code. plugin: where it may be in the working directory only; or NULL.
 */
int ctl_client_error(const struct wsd_client *client, const char *what, const char *plugin);
/* The hint for a plugin that was not found: "" or how to name the one that is here. */
const char *plugin_hint(const char *plugin, char *buffer, size_t size);
/* Parses an id or says so. 0 or CODE_USAGE. */
int ctl_id(const char *text, struct wsd_id *ret_id);

/* --- workers.c -------------------------------------------------------------------------------------------------- */

const char *worker_kind_name(enum wsd_worker_kind kind);
/* 0 where there is none of that name. */
uint64_t worker_counter(const struct wsd_worker_info *info, const char *name);
/* Roots, ready pieces and stolen tasks: what was run beside the children that a task called itself. */
uint64_t worker_run(const struct wsd_worker_info *info);
/* What wsd_executor_info.error says. */
const char *executor_error_text(int error);

/* --- signals.c -------------------------------------------------------------------------------------------------- */

/* From now on the first SIGINT, SIGTERM or SIGHUP only makes signals_fd() readable; the second ends wsctl at once with
 * 130. */
int signals_init(void);
/* What the second does first, in a signal handler; NULL: nothing. */
void signals_before_quitting(void (*function)(void));
int signals_fd(void);
/* True once, after the first. */
bool signals_take(void);
