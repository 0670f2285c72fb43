/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd/plugin.h: what a plugin and wsd promise each other.
 *
 * A plugin is a shared object that exports one descriptor, made with WSD_PLUGIN(). It links against nothing of wsd:
 * every service is reached through the job that a function is given. Build it with
 *
 *     cc -shared -fPIC $(pkg-config --cflags wsd-plugin) -o mine.so mine.c
 *
 * and run it with `wsctl submit --local ./mine.so`. The guide is wsd-plugin(7).
 *
 * All text is bytes ending in NUL, in no particular encoding. All times are microseconds. Unless a call says otherwise
 * it may be made from any task of the job, on any worker, and from threads of the plugin's own, until the job's
 * function returns. A later call changes nothing: it returns -ECANCELED, NULL or true (cancelled). What it says becomes
 * a line of wsd's log, with the names of plugin and function.
 */
#ifndef WSD_PLUGIN_H
#define WSD_PLUGIN_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The binary interface of plugins. A host loads plugins of every number from 1 to its own: what a plugin was compiled
 * with stays where it is and does what it did. The number is raised when something that plugins can use is appended. An
 * older host refuses a plugin with the higher number. (0 was not final.) Since 1. */
#define WSD_PLUGIN_ABI 1

/* The largest status that a function can return. 0 is success, 1 to this are failures. Since 1. */
#define WSD_STATUS_MAX 63

/* The largest piece that wsd_job_reserve() gives out in one go. Since 1. */
#define WSD_RESERVE_MAX (1024u * 1024u)

/* The longest error, status or log text that is kept, with its NUL; more is cut off. Since 1. */
#define WSD_TEXT_MAX 256

struct wsd_job;
struct wsd_worker; /* wsd/task.h */

/* Properties of a function. Since 1. */
enum wsd_function_flags {
    /* Running it twice does no harm: after another job's crash wsd may run it again. */
    WSD_FN_IDEMPOTENT = 1u << 0,
    /* It reads its input with wsd_job_read() as it comes; job->input is NULL. Without this flag the whole input
     * is there, as one piece, before the function starts. */
    WSD_FN_STREAMING = 1u << 1,
    /* Off until the configuration of wsd names it (the shipped `exec` is such a one). */
    WSD_FN_OPT_IN = 1u << 2,
    /* The submitter may read and write the memory that the function works on, while it runs: job->input, and what
     * wsd_job_reserve() gives. If both lie in an arena of the submitter's (wsd/client.h), the function works in place.
     * Without this flag it gets a private copy of the input, and its output is copied. The function must expect a byte
     * to change between two reads: it checks a copy of its own, or reads once. An older wsd ignores this flag. Since 1.
     */
    WSD_FN_SHARED = 1u << 3,
};

/* One callable function. Fields are appended, never moved. Since 1. */
struct wsd_function {
    const char *name; /* 1 to 63 bytes of A-Z a-z 0-9 _ - */
    const char *help; /* one line, for `wsctl plugin show` */
    uint64_t flags;   /* enum wsd_function_flags */
    /* Runs one job on one worker. Returns 0, or a status of 1 to WSD_STATUS_MAX; any other value becomes
     * WSD_STATUS_MAX. `self` is for the macros of wsd/task.h. */
    int (*run)(struct wsd_job *job, struct wsd_worker *self);
};

/* The descriptor. Fields are appended, never moved. A wsd that does not know a field refuses the plugin if the field is
 * set, here and in struct wsd_function. Since 1. */
struct wsd_plugin {
    uint32_t size;          /* sizeof(struct wsd_plugin), filled by WSD_PLUGIN() */
    uint32_t abi;           /* WSD_PLUGIN_ABI, filled by WSD_PLUGIN() */
    uint32_t function_size; /* sizeof(struct wsd_function), filled by WSD_PLUGIN() */
    uint32_t n_functions;   /* 1 to 64 */
    const struct wsd_function *functions;
    const char *name;    /* as wsd_function.name */
    const char *version; /* free text, at most 63 bytes */
    const char *help;    /* one line */
    /* Optional. init runs before the first job, and fini at an orderly end, each once a process. No job of the plugin
     * runs meanwhile. If init returns a positive status instead of 0, the load fails. */
    int (*init)(void);
    void (*fini)(void);
    /* Optional, for caches and handles of a thread. The call worker_start comes on each worker before the first thing
     * of the plugin's that this worker runs: a job's function, or a task of a job that came there. The call worker_stop
     * comes once on the same thread when the thread ends in order: with the process, before fini. It does not come if
     * the process is killed or crashes. A worker that is not wanted for a while (`wsctl workers set`) sleeps and stays
     * started. Each thread has its own number, `worker`.
     *
     * Neither may call a job's services or spawn. A crash in worker_start counts as one of the job that made the worker
     * come. Since 1. */
    void (*worker_start)(uint32_t worker);
    void (*worker_stop)(uint32_t worker);
};

/* A command, for wsd_job_command(). Since 1. */
struct wsd_command {
    /* ends with NULL; argv[0] is looked up in the PATH of its environment, unless it has a slash */
    const char *const *argv;
    const char *const *environment; /* ends with NULL; all that it gets */
    const char *directory;          /* where it begins */
    int fds[3];                     /* its 0, 1 and 2; they stay the caller's, and may be closed at once */
};

/* What is read from the descriptor of a command when it has ended. Since 1. */
struct wsd_command_end {
    int32_t status; /* as waitpid(2) tells */
    uint32_t left;  /* 1: processes that it has started are still there; 0: nothing is left */
};

/* The services of a job: use the inline functions below. Fields are appended, never moved. Since 1. */
struct wsd_job_ops {
    uint32_t size;
    void *(*reserve)(struct wsd_job *job, size_t min, size_t *ret_size);
    int (*commit)(struct wsd_job *job, size_t size);
    int (*write)(struct wsd_job *job, const void *data, size_t size);
    int (*flush)(struct wsd_job *job);
    int64_t (*read)(struct wsd_job *job, void *data, size_t size);
    int (*open)(struct wsd_job *job, const char *path);
    const char *(*directory)(struct wsd_job *job);
    bool (*cancelled)(struct wsd_job *job);
    void (*progress)(struct wsd_job *job, uint64_t done, uint64_t total);
    void (*vlog)(struct wsd_job *job, int level, const char *format, va_list args);
    void (*verror)(struct wsd_job *job, const char *format, va_list args);
    void (*vstatus)(struct wsd_job *job, const char *format, va_list args);
    int (*vprint)(struct wsd_job *job, const char *format, va_list args);
    int (*command)(struct wsd_job *job, const struct wsd_command *command);
    const char *(*traceparent)(struct wsd_job *job);
};

/* What a function is given. Read only for the plugin; valid until its function returns. Fields are appended, never
 * moved. Since 1. */
struct wsd_job {
    uint32_t size; /* bytes of this structure that the host fills */
    uint32_t argc; /* as in main(): at least 1 */
    /* As in main(): argv[0] is the function's name, argv[argc] is NULL. Owned by the host. */
    const char *const *argv;
    /* The whole input; NULL where there is none or the function is WSD_FN_STREAMING. It may be a file of the
     * submitter's, in place: a write to that file while the function runs changes what is here. Where it is cut, it
     * reads as zeros, and the job fails at its end. */
    const void *input;
    uint64_t input_size;
    uint64_t deadline_usec; /* CLOCK_MONOTONIC; 0: none */
    uint8_t id[16];
    const struct wsd_job_ops *ops;
};

/* Returns room for at least min bytes of output, in place, and sets *ret_size to its true size. Returns NULL if min is
 * above WSD_RESERVE_MAX, or if the output will not be read (the job is cancelled). What was reserved before and not
 * committed is given up. The room is the host's; it is valid until the next commit, reserve, write or flush. May wait
 * until the reader of the output has caught up. One task of the job at a time. Since 1. */
static inline void *wsd_job_reserve(struct wsd_job *job, size_t min, size_t *ret_size)
{
    return job->ops->reserve(job, min, ret_size);
}

/* Makes the first size bytes of the last reservation output. Returns 0, or -EINVAL if size is larger than the
 * reservation. Only a thread that is no worker gets -ECANCELED, if the output will not be read. Since 1. */
static inline int wsd_job_commit(struct wsd_job *job, size_t size)
{
    return job->ops->commit(job, size);
}

/* Appends a copy of the bytes to the output; any size, any number of times. May wait until the reader of the output has
 * caught up. Returns 0, or -ECANCELED if it will not be read. Calls from several tasks do not mix their bytes. Since 1.
 */
static inline int wsd_job_write(struct wsd_job *job, const void *data, size_t size)
{
    return job->ops->write(job, data, size);
}

/* Sends what was written so far on its way now, instead of when a buffer is full or the job ends. Returns 0 or
 * -ECANCELED. Since 1. */
static inline int wsd_job_flush(struct wsd_job *job)
{
    return job->ops->flush(job);
}

/* wsd_job_write() of formatted text of any length. Since 1. */
__attribute__((format(printf, 2, 3))) static inline int wsd_job_print(struct wsd_job *job, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int r = job->ops->vprint(job, format, args);
    va_end(args);
    return r;
}

/* Takes the next at most size bytes of the input, and waits for them if the function is WSD_FN_STREAMING. Returns their
 * number, 0 at the end, or -ECANCELED if the rest will not come. Works for every function, so that one piece of code
 * can serve both kinds. It does not change job->input. One task of the job at a time. Since 1. */
static inline int64_t wsd_job_read(struct wsd_job *job, void *data, size_t size)
{
    return job->ops->read(job, data, size);
}

/* Opens one of the submitter's files for reading, with the submitter's rights, relative to the submitter's working
 * directory. Returns a descriptor that the caller closes, or a negative errno: those of open(2), or -ENOTCONN where
 * the submitter has gone and its rights with it. Never blocks on a FIFO or device: those give -ENXIO. Since 1. */
static inline int wsd_job_open(struct wsd_job *job, const char *path)
{
    return job->ops->open(job, path);
}

/* Returns the submitter's working directory, owned by the host. Returns NULL if this process does not run with the
 * submitter's own rights. Then only wsd_job_open() may be used there. Returns "" if the process has these rights, but
 * the directory was removed or cannot be reached. Since 1. */
static inline const char *wsd_job_directory(struct wsd_job *job)
{
    return job->ops->directory(job);
}

/* Starts a command as a process of the submitter's, outside of this one. When this process, wsd or the job ends, in any
 * way, the command ends with everything that it has started. The job's next attempt begins only after that. Returns a
 * descriptor that the caller closes, or a negative errno of execve(2). Returns -EPERM if this process does not run with
 * the submitter's rights, and -ENOSYS if the host is older.
 *
 * One struct wsd_command_end can be read from the descriptor when the command has ended, and the end of the file when
 * nothing of it is left. Write an int32_t to it (send(2) with MSG_NOSIGNAL) to send that signal to the command's
 * process group. When it is closed, or shut down for writing, everything that is left gets SIGKILL. Since 1. */
static inline int wsd_job_command(struct wsd_job *job, const struct wsd_command *command)
{
    if (job->ops->size < offsetof(struct wsd_job_ops, command) + sizeof(job->ops->command))
        return -ENOSYS;
    return job->ops->command(job, command);
}

/* Returns the traceparent that the job was submitted with, as W3C Trace Context writes it in version 00, for spans of the
 * function's own and for what it calls. Owned by the host. Returns NULL if there is none, or if the host is older. Since
 * 1. */
static inline const char *wsd_job_traceparent(struct wsd_job *job)
{
    if (job->ops->size < offsetof(struct wsd_job_ops, traceparent) + sizeof(job->ops->traceparent))
        return NULL;
    return job->ops->traceparent(job);
}

/* Returns true once the job was cancelled, its time is up, or its submitter has gone. The job then ends as cancelled or
 * timed out, whatever it returns. Cheap: ask often (each millisecond of work is a good measure) and return early. Since
 * 1. */
static inline bool wsd_job_cancelled(struct wsd_job *job)
{
    return job->ops->cancelled(job);
}

/* Tells how far the job is, in units of its own. Set total to 0 if it is not known. Cheap. Since 1. */
static inline void wsd_job_progress(struct wsd_job *job, uint64_t done, uint64_t total)
{
    job->ops->progress(job, done, total);
}

/* Levels of wsd_job_log(), those of syslog. Since 1. */
enum wsd_log_level {
    WSD_LOG_ERROR = 3,
    WSD_LOG_WARNING = 4,
    WSD_LOG_INFO = 6,
    WSD_LOG_DEBUG = 7,
};

/* Sends one line (no newline at its end) to the submitter; `wsctl submit` prints it to stderr. WSD_LOG_DEBUG is
 * left out unless asked for. Since 1. */
__attribute__((format(printf, 3, 4))) static inline void wsd_job_log(struct wsd_job *job, int level, const char *format,
                                                                     ...)
{
    va_list args;

    va_start(args, format);
    job->ops->vlog(job, level, format, args);
    va_end(args);
}

/* Sets the one-line error that goes with a status of 1 to 63; the last call counts. Returns the status, so that a
 * function can say `return wsd_job_fail(job, 2, "no such algorithm: %s", name);`. Since 1. */
__attribute__((format(printf, 3, 4))) static inline int wsd_job_fail(struct wsd_job *job, int status,
                                                                     const char *format, ...)
{
    va_list args;

    va_start(args, format);
    job->ops->verror(job, format, args);
    va_end(args);
    return status;
}

/* Sets the `status` text of the job, for plugins that have more to say than a number. Since 1. */
__attribute__((format(printf, 2, 3))) static inline void wsd_job_status(struct wsd_job *job, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    job->ops->vstatus(job, format, args);
    va_end(args);
}

#ifdef __cplusplus
#define WSD_EXTERN_C_ extern "C"
#else
#define WSD_EXTERN_C_ extern
#endif

/* The ELF note that lets a host refuse a plugin of another ABI before a byte of it is run. */
struct wsd_abi_note_ {
    uint32_t name_size, desc_size, type;
    char name[4];
    uint32_t abi;
};
#define WSD_ABI_NOTE_TYPE 1

/* Defines the descriptor. Takes designated initialisers, in the order of struct wsd_plugin:
 *
 *     static const struct wsd_function functions[] = {
 *         {.name = "greet", .help = "greets", .flags = WSD_FN_IDEMPOTENT, .run = greet},
 *     };
 *     WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "mine", .version = "1", .help = "says hello");
 *
 * `wsctl submit mine` calls the function that has the plugin's own name, or else the first one. Since 1. */
#define WSD_PLUGIN(...)                                                                                                \
    __attribute__((section(".note.wsd"), used, aligned(4))) static const struct wsd_abi_note_ wsd_abi_note_ = {        \
        4, 4, WSD_ABI_NOTE_TYPE, {'w', 's', 'd', 0}, WSD_PLUGIN_ABI};                                                  \
    WSD_EXTERN_C_ __attribute__((visibility("default"))) const struct wsd_plugin wsd_plugin;                           \
    const struct wsd_plugin wsd_plugin = {.size = sizeof(struct wsd_plugin),                                           \
                                          .abi = WSD_PLUGIN_ABI,                                                       \
                                          .function_size = sizeof(struct wsd_function),                                \
                                          __VA_ARGS__}

#ifdef __cplusplus
}
#endif

#endif
