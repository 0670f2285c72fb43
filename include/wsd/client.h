/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd/client.h: hand jobs to a running wsd and get their results (libwsclient, pkg-config wsclient).
 *
 * A handle (struct wsd_client) is one connection. There is no global state. Several threads may each use a handle of
 * their own. Only one thread at a time may use a handle, but for wsd_client_post(). The library prints nothing, touches
 * no signal and starts no thread.
 *
 * Two ways to use it, which mix freely:
 *  - blocking: wsd_client_submit(), then wsd_call_wait(). Calls that ask, such as wsd_client_job(), return the answer.
 *  - in an event loop: watch wsd_client_fd() for wsd_client_events(), then call wsd_client_process(). It makes the
 *    callbacks and never blocks.
 *
 * Errors are negative errno values; wsd_client_error() returns the text of the last one. These values have a meaning of
 * their own:
 *
 *   -ENOENT        no daemon at the socket (also -ECONNREFUSED), or no such job or plugin
 *   -ECONNRESET    the connection ended; see below
 *   -EPROTONOSUPPORT  daemon and library have no protocol version in common
 *   -EAGAIN        refused for now: queue full, quota, draining
 *   -EACCES        not permitted
 *   -EINVAL        the request is wrong
 *   -E2BIG         the program was built for a newer library, and sets a field that this one does not know
 *   -ETIMEDOUT     the time given to a waiting call is up; see "how long calls wait"
 *   -EINTR         the program has ended the wait; see there
 *   -ECHILD        the handle is another process's; see "fork"
 *   -EDEADLK       the call cannot be made in this callback
 *   -EPROTO        the program at the socket does not speak wsd's protocol
 *   -EIO, -EREMOTEIO, -EOWNERDEAD  wsd had an I/O error, had an internal error, or does not know how the job ended
 *
 * When the connection ends, every call in flight gets -ECONNRESET, once. Use a new handle, or wsd_client_reconnect(). A
 * handle with WSD_OPEN_AGAIN connects by itself, and submits calls with WSD_SUBMIT_AGAIN or WSD_SUBMIT_TWICE again.
 * For a call with a job that may have run, wsd_client_exit() is 125. For a job that wsd never had, it is another
 * number, mostly 69. For a durable job it is 75 if wsd ended in order and is not back: the job is in wsd's store. An
 * orderly restart of a wsd that systemd runs does not end the connection. Calls for durable jobs then take longer.
 *
 * The error text and the exit code of a failed call are available in its done callback, and after wsd_call_wait(). */
#ifndef WSD_CLIENT_H
#define WSD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WSD_EXPORT __attribute__((visibility("default")))

/* The version of this header, for #if: 10000 times major, 100 times minor, and patch. Since 0.1. */
#define WSD_CLIENT_VERSION 100

/* Structures that begin with `size` grow from version to version. Set `size` to the size of the structure, and zero all
 * fields that are not used, as WSD_INIT() does:
 *
 *     struct wsd_submit job = WSD_INIT(struct wsd_submit);
 *
 * A library that is newer takes the fields that are missing for zero. A library that is older refuses the call if a
 * field that it does not know is set (-E2BIG). Otherwise it does what it is told. If size is not set, the call returns
 * -EINVAL. Since 0.1. */
#ifdef __cplusplus
#define WSD_INIT(type) (wsd_init<type>())
#else
#define WSD_INIT(type) ((type){.size = sizeof(type)})
#endif

struct wsd_client;
struct wsd_call;
struct wsd_batch;
struct wsd_arena;

/* A job's id: 128 bits, as text 32 lower-case hexadecimal digits. Since 0.1. */
struct wsd_id {
    uint8_t bytes[16];
};
#define WSD_ID_TEXT 33 /* room for the text of an id, with its NUL */

/* States of a job, in the order of their life. From WSD_JOB_SUCCEEDED on they are final. Since 0.1. */
enum wsd_job_state {
    WSD_JOB_HELD = 1,
    WSD_JOB_DELAYED = 2,
    WSD_JOB_QUEUED = 3,
    WSD_JOB_RUNNING = 4,
    WSD_JOB_SUCCEEDED = 5,
    WSD_JOB_FAILED = 6,
    WSD_JOB_CANCELLED = 7,
    WSD_JOB_TIMED_OUT = 8,
    WSD_JOB_CRASHED = 9,
    WSD_JOB_INTERRUPTED = 10,
};

/* A job as wsd knows it. Texts are never NULL. They belong to the library, and live as long as stated at the call that
 * returned them. Fields are appended, never moved; `size` is the number of bytes that the library filled. Since 0.1. */
struct wsd_job_info {
    size_t size;
    struct wsd_id id;
    const char *plugin;
    const char *function;
    enum wsd_job_state state;
    int exit;           /* what `wsctl submit` would exit with; the job's own status where it failed */
    const char *error;  /* one line; "" if there is none */
    const char *status; /* text that the plugin set; "" if there is none */
    const char *worker; /* EXECUTOR.WORKER, "" before it ran */
    uint32_t attempts;
    uint32_t uid;
    uint64_t queued_usec; /* waiting time */
    uint64_t run_usec;
    uint64_t cpu_usec;
    uint64_t submitted_usec; /* since the epoch */
    uint64_t done, total;    /* progress; total 0: unknown */
    const char *backtrace;   /* of a job that crashed, one line a frame; "" if there is none */
    const char *key;         /* of wsd_submit, "" */
    bool durable;
    bool dead;          /* durable, ended badly, and out of retries: see wsd_client_dead() */
    uint32_t retries;   /* as submitted */
    uint64_t due_usec;  /* delayed: time until it goes on, or runs again */
    uint32_t waits_for; /* held: number of jobs it runs after that have not ended */
    const char *tags;   /* of wsd_submit, with commas between; "" */
    bool in_batch;      /* it belongs to the batch `batch` */
    struct wsd_id batch;
    uint64_t placed; /* bytes of its output that are in its part of the arena */
    /* Told by wsd_client_job() alone: the first 16 of those that it runs after and that have not ended, and of those that
     * run after it. Batches are among the former. */
    const struct wsd_id *waits_on, *awaited_by;
    size_t n_waits_on, n_awaited_by;
};

/* Files: a job may want to read a file that its arguments name. If wsd cannot open it with the submitter's rights, it
 * asks the library. The library opens the file for reading, while the connection is processed. The path is relative to
 * the working directory at wsd_client_open(). The library opens only what an argument of that job names: the path
 * itself, something below it, or `--option=PATH`. It opens only regular files and directories. */

/* --- the connection ------------------------------------------------------------------------------------------- */

/* Connects and shakes hands. Blocks for at most timeout_usec (0: 5 seconds). socket NULL: WSD_HOST if it is set, else
 * WSD_SOCKET, else a user's own wsd, else the system's, as for wsctl. On failure *ret_client is a handle for
 * wsd_client_error(), or NULL; free it in either case. Returns 0, -ENOENT, -ECONNREFUSED, -EACCES, -ETIMEDOUT,
 * -EPROTONOSUPPORT, -EPROTO, -EAGAIN, -ENOMEM, -ENAMETOOLONG or -ECONNRESET. Since 0.1. */
WSD_EXPORT int wsd_client_open(struct wsd_client **ret_client, const char *socket, uint64_t timeout_usec);

/* A wsd on another machine that listens for TLS ([tls] in wsd.conf(5)). Set size to sizeof(struct wsd_tls). A field
 * that is NULL is taken from the environment variable that it names. Texts are not kept. Fields are appended. Since
 * 0.1. */
struct wsd_tls {
    size_t size;
    const char *host;        /* HOST:PORT or [ADDRESS]:PORT; the server's certificate must name HOST. WSD_HOST */
    const char *certificate; /* file in PEM: ours, followed by those between it and the CA. WSD_TLS_CERT */
    const char *key;         /* file in PEM, without a password, which other users cannot read. WSD_TLS_KEY */
    const char *ca;          /* file in PEM: the CAs that may sign the server's certificate. WSD_TLS_CA */
};

/* Connects to a wsd on another machine, as wsd_client_open() does on this one. If tls is NULL, all comes from the
 * environment. A plain wsd_client_open() does the same if socket is NULL and WSD_HOST is set. Looking up HOST may block
 * for longer than timeout_usec.
 *
 * Two things differ on such a connection. There are no direct lanes: wsd_call() goes by the socket. No file that an
 * argument names is opened, neither here nor there: give it as input.
 *
 * Returns as wsd_client_open(). Also returns -EACCES if one side refuses the other's certificate, or if the certificate
 * belongs to no user there. Returns -EOPNOTSUPP if the library was built or installed without TLS. Returns -EINVAL if a
 * field is missing, or if a file has no certificate, key or CA. Returns -EHOSTUNREACH if there is no way to the host.
 * Since 0.1. */
WSD_EXPORT int wsd_client_open_tls(struct wsd_client **ret_client, const struct wsd_tls *tls, uint64_t timeout_usec);

/* --- fork -------------------------------------------------------------------------------------------------------- */

/* A handle belongs to the process that opened it. In a child of fork() its copy can only be freed: every other call
 * returns -ECHILD at once, and wsd_client_fd() returns -1. Nothing is sent, received or cancelled there, no callback is
 * made, and the parent notices nothing. This holds for what belongs to the handle, too. It holds whatever other threads
 * of the parent were doing with the handle at the fork.
 *
 * Call wsd_client_free() in a child. As long as a child has the connection open, wsd does not notice that the parent
 * has ended. The call closes the descriptors of the copy and frees its memory, as far as no thread or callback was
 * using the handle at the fork.
 *
 * What wsd_call_free() and wsd_batch_free() would free goes with the handle: in a child they do nothing. A child shares
 * the memory of an arena with its parent until it calls wsd_arena_free(), which unmaps it.
 *
 * A child that needs wsd opens a handle of its own. A child of vfork() or posix_spawn() shares its parent's memory, so
 * the library cannot tell it from the parent. Such a child may call only exec() or _exit(). Descriptors of the library
 * are closed by exec(). */

/* Moves a handle from the parent process into this one, with all that is open on it: jobs, batches and arenas. This is
 * for a program that opens a handle and then becomes a daemon. From then on the parent makes no call on the handle and
 * does not free it. The parent ends by _exit(), or by exit() without freeing. The client that wsd knows is still the
 * process that connected.
 *
 * Call it before anything else in the child. Returns 0, also in the process that has the handle. Returns -EBUSY if a
 * thread or a callback was using the handle at the fork: the copy may be half-way. Since 0.1. */
WSD_EXPORT int wsd_client_adopt(struct wsd_client *client);

/* --- how long calls wait ------------------------------------------------------------------------------------------ */

/* Three things end a wait:
 *  - the time that a call is given: timeout_usec of wsd_call_wait() and the like. The job goes on. -ETIMEDOUT.
 *  - a deadline: deadline_usec of struct wsd_call_request and struct wsd_submit, or that of the handle. It counts all
 *    that happens in the call: waiting for room, in the queue, running, and a wsd or an executor that does not answer.
 *    The job is cancelled. -ETIMEDOUT.
 *  - the program: interrupted() has returned another value than 0. The job is cancelled. -EINTR.
 *
 * Cancelling does not wait: wsd, or the executor, is told that the job is to stop, and its late answer is discarded.
 * Jobs are cancelled as by wsd_call_free(): those that are attached or detached go on. If the job of a wsd_call() may
 * have run, wsd_client_exit() is 125. Else it is 124 (-ETIMEDOUT) or 130 (-EINTR).
 *
 * A call returns within some milliseconds after its deadline; the CPU may be busy. Callbacks that run meanwhile, and
 * looking up the name of another machine, count, but are not ended. */

/* Sets the deadline of blocking calls that are given no time of their own. Those are:
 *  - wsd_call(), wsd_calls() and wsd_map() without deadline_usec;
 *  - calls with timeout_usec UINT64_MAX, but not for a job with deadline_usec;
 *  - wsd_client_reconnect() with 0;
 *  - all calls that ask, and otherwise block for at most 30 seconds.
 *
 * 0: none, as at the beginning. Counts from the beginning of each call. Returns 0 or -ECHILD. Since 0.1. */
WSD_EXPORT int wsd_client_set_deadline(struct wsd_client *client, uint64_t deadline_usec);

/* Sets a function that tells whether a wait is to end. It is called at the beginning of each blocking call on the
 * handle, after each signal, and each 20 ms. Any return value but 0 ends the wait: the call returns -EINTR. The next
 * call asks it again. So a signal handler that sets a flag ends a wait, if interrupted() returns that flag. It is
 * called on the thread of the call, must return, and makes no call on the handle. NULL: nothing is asked, as at the
 * beginning.
 *
 * A call that begins or ends a trace or a profile, or asks for a stack, does not return -EINTR if wsd ends its answer
 * within a second. Executors that have not answered then have the error ETIMEDOUT. Returns 0 or -ECHILD. Since 0.1. */
WSD_EXPORT int wsd_client_set_interrupt(struct wsd_client *client, int (*interrupted)(void *userdata), void *userdata);

enum wsd_open_flags {
    /* Does not wait. The connection is made while it is processed, in an event loop. Only looking up the name of
     * another machine blocks. Until then, calls that need wsd return -EAGAIN. wsd_client_connected() and state() tell
     * when the connection is there. */
    WSD_OPEN_LATER = 1u << 0,
    /* As WSD_OPEN_LATER, and the library connects again when a connection has failed or ended, as often as it takes.
     * The pauses between two tries double from 20 ms to 5 s. Each pause is shortened by up to a half, at random. They
     * begin anew when a connection has stood for 5 s.
     *
     * Calls that were open end with -ECONNRESET, as on any handle, but for those with WSD_SUBMIT_AGAIN or
     * WSD_SUBMIT_TWICE. While there is no connection, wsd_client_submit() takes only jobs with one of these flags, and
     * returns -EAGAIN for others. wsd_client_process() returns 0 then. */
    WSD_OPEN_AGAIN = 1u << 1,
};

/* How to connect. Zero all fields that are not used, and set size to sizeof(struct wsd_open). Texts are not kept.
 * Fields are appended. Since 0.1. */
struct wsd_open {
    size_t size;
    const char *socket;                 /* as for wsd_client_open() */
    const struct wsd_tls *tls;          /* not NULL: as wsd_client_open_tls() */
    uint64_t timeout_usec;              /* for connecting; 0: deadline_usec, or 5 seconds if that is 0, too. With flags:
                                           of each try, and 0 is 5 seconds */
    uint64_t deadline_usec;             /* as wsd_client_set_deadline() */
    int (*interrupted)(void *userdata); /* as wsd_client_set_interrupt(), for connecting, too */
    void *userdata;                     /* of interrupted */
    uint32_t flags;                     /* enum wsd_open_flags */
    /* With flags. error 0: the handle is connected now. A negative errno: it could not connect, or the connection has
     * ended. What wsd_client_open_with() itself has returned is not told again. It is a callback like those of struct
     * wsd_callbacks, called by wsd_client_process() and the like. It may be NULL. */
    void (*state)(int error, void *userdata);
    void *state_userdata;
    /* Acts for the user of this name, on this machine: the connection and its jobs are that user's. It may submit, and
     * see and cancel what is that user's. It offers no runners, and no descriptors and files of this process go along.
     * Only root and the user of wsd-fleet may do so, for the users that [access] submit-as in wsd.conf names: -EACCES
     * else. NULL or empty: the own one. Since 0.1. */
    const char *user;
};

/* Connects as wsd_client_open() or wsd_client_open_tls(), with these settings from the beginning. Returns as they do.
 * Also returns -EINTR if interrupted() has ended it, and -EINVAL if size is not set, a flag is unknown, or user goes with TLS or
 * is too long. Returns -EOPNOTSUPP if wsd is too old for user. With WSD_OPEN_AGAIN it returns 0 even if no wsd is there. Since 0.1. */
WSD_EXPORT int wsd_client_open_with(struct wsd_client **ret_client, const struct wsd_open *how);

/* Connects again, to the same place, after the connection has ended: a call on the handle returned -ECONNRESET, or
 * wsd_client_open() failed. The handle is then as new. Blocks for at most timeout_usec (0: 5 seconds). Until then it
 * keeps trying while there is no wsd, as between a crash and the next start.
 *
 * Calls that were open on the old connection have ended with -ECONNRESET, and stay ended. A durable job goes on in the
 * next wsd, and wsd_client_attach() follows it there. Make batches and arenas anew, and free the old ones.
 *
 * If the connection is being made (WSD_OPEN_LATER), it waits for that. Returns 0, also if the connection still stands.
 * Returns -EDEADLK in a callback of the handle. Otherwise returns as wsd_client_open(). Since 0.1. */
WSD_EXPORT int wsd_client_reconnect(struct wsd_client *client, uint64_t timeout_usec);

/* Closes the connection and frees the handle. wsd cancels the jobs of this connection that were not detached. Calls
 * that are still open get their done callback first, with -ECONNRESET.
 *
 * Allowed in a callback. Then the connection ends at once, and the memory of the handle goes when the outermost call on
 * the handle returns. That call returns an error, mostly -ECONNRESET, and leaves no texts behind.
 *
 * NULL is allowed. Returns NULL. Since 0.1. */
WSD_EXPORT struct wsd_client *wsd_client_free(struct wsd_client *client);

/* Returns the text of the last failure on this handle, one line; valid until the next call. Since 0.1. */
WSD_EXPORT const char *wsd_client_error(const struct wsd_client *client);

/* Returns the exit code of wsctl(1) (64 to 130) for the last failure. Since 0.1. */
WSD_EXPORT int wsd_client_exit(const struct wsd_client *client);

/* Returns the microseconds after which to try again, if the last failure was a refusal for now (-EAGAIN); 0: unknown.
 * For a call it is available in the done callback and after wsd_call_wait(). Add a random part to the time, so that
 * many clients that were refused together do not come back together. Since 0.1. */
WSD_EXPORT uint64_t wsd_client_retry_usec(const struct wsd_client *client);

/* The descriptor, and the poll(2) events to wait for, for event loops. -1 and 0 if the handle is not connected: it did
 * not open, or the connection has ended. Since 0.1. */
WSD_EXPORT int wsd_client_fd(const struct wsd_client *client);
WSD_EXPORT short wsd_client_events(const struct wsd_client *client);

/* Whether wsd is there: it has answered, and the connection has not ended. Since 0.1. */
WSD_EXPORT bool wsd_client_connected(const struct wsd_client *client);

/* The microseconds after which to call wsd_client_process() even if the descriptor reports nothing: a call has a
 * deadline, or it is time to connect. UINT64_MAX: never. Any call on the handle may change it. Since 0.1. */
WSD_EXPORT uint64_t wsd_client_timeout_usec(const struct wsd_client *client);

/* Sets a function that is told of each change of what a loop waits for: descriptor, events and timeout, as the three
 * calls return them. It is called at the end of the call on the handle that has changed one of them, and at the end of
 * this one. The function makes no call on the handle but those three.
 *
 * With fd -1 there is no descriptor now, only a timeout. With a descriptor and events 0, the library is about to close
 * that descriptor: the loop must forget it. NULL: nothing is called, as at the beginning. The adapters in wsd/adapters/
 * are made with this. Returns 0 or -ECHILD. Since 0.1. */
WSD_EXPORT int wsd_client_set_watch(struct wsd_client *client,
                                    void (*watch)(int fd, short events, uint64_t timeout_usec, void *userdata),
                                    void *userdata);

/* Reads and writes what it can without blocking, and makes the callbacks. Returns 0 or a negative errno. After an error
 * the connection is over, and every open call has had its done callback. Since 0.1. */
WSD_EXPORT int wsd_client_process(struct wsd_client *client);

/* Does as wsd_client_process(), for a loop that has other work. Stops after max callbacks of calls (at least 1), at the
 * end of the frame that it has in hand. A frame has at most 512 callbacks. Returns 1 if there is more that the
 * descriptor does not report: call it again in the next turn. Otherwise returns as wsd_client_process(), or -EINVAL if
 * max is 0. Since 0.1. */
WSD_EXPORT int wsd_client_process_some(struct wsd_client *client, unsigned max);

/* Writes what it can without blocking, and reads nothing. Jobs that were just submitted leave at once. This takes one
 * system call less than wsd_client_process() if there is nothing to read. Returns as wsd_client_process(). Since
 * 0.1. */
WSD_EXPORT int wsd_client_flush(struct wsd_client *client);

/* Bytes of submits, batches and questions that wait in memory to be sent. They wait because wsd reads slower than the
 * program submits, because the connection was not processed since, or because there is no connection. Input that is
 * sent from the caller's memory does not count. Since 0.1. */
WSD_EXPORT size_t wsd_client_unsent(const struct wsd_client *client);

/* Calls that wsd has, or will get, and has not ended; also such calls that were freed. Since 0.1. */
WSD_EXPORT size_t wsd_client_open_calls(const struct wsd_client *client);

/* Sets bounds: wsd_client_submit() and wsd_batch_submit() return -EAGAIN while so many bytes are unsent, or so many
 * calls are open. 0: no bound, as at the beginning. Calls that block, as wsd_map() does, are not refused.
 *
 * After such a refusal, room is called once: when all has been sent, and a call may be made again. It is also called
 * once after a refusal because wsd was not connected. It is a callback like those of struct wsd_callbacks, and may be
 * NULL. Returns 0 or -ECHILD. Since 0.1. */
WSD_EXPORT int wsd_client_set_bounds(struct wsd_client *client, size_t unsent_max, size_t calls_max,
                                     void (*room)(void *userdata), void *userdata);

/* Waits until something has happened and processes it, for at most timeout_usec (UINT64_MAX: until the deadline of the
 * handle). Returns 0 (also after a signal), -ETIMEDOUT, -EINTR, or as wsd_client_process(). Since 0.1. */
WSD_EXPORT int wsd_client_wait(struct wsd_client *client, uint64_t timeout_usec);

/* --- submitting ----------------------------------------------------------------------------------------------- */

enum wsd_submit_flags {
    WSD_SUBMIT_DETACH = 1u << 0,   /* the job outlives this connection; its result is kept for wsd_client_attach() */
    WSD_SUBMIT_PROGRESS = 1u << 1, /* call progress as it moves */
    WSD_SUBMIT_STREAM = 1u << 2,   /* the input comes through wsd_call_feed() */
    /* wsd accepts the job only when it is on disk. The job goes on when this connection ends, and after every end of
     * wsd. So does its result: wsd_client_attach() gets it by id, as long as the daemon's configuration says. A job
     * that may have been running when wsd ended runs again if its function is idempotent, else it ends as interrupted.
     * Its output comes when it has ended. Input: at most 256 MiB. -EOPNOTSUPP: wsd is too old for it. Since 0.1. */
    WSD_SUBMIT_DURABLE = 1u << 3,
    /* With WSD_SUBMIT_DETACH, and not with STREAM: the call is done as soon as the job is accepted. done is called
     * then, with error 0 and no info. This is the cheapest way to hand over many jobs. The library does not open files
     * that the arguments name. Since 0.1. */
    WSD_SUBMIT_LEAVE = 1u << 4,
    /* The input is a part of a file: input_size bytes of input_fd, from input_offset on. The descriptor goes to wsd,
     * not the bytes. Not with STREAM or DURABLE. See wsd_client_takes_files(). Since 0.1. */
    WSD_SUBMIT_FILE = 1u << 5,
    /* The input is a part of the arena: input_size bytes from input_offset on. Not with STREAM, DURABLE or DETACH.
     * Since 0.1. */
    WSD_SUBMIT_ARENA = 1u << 6,
    /* The job may go straight to a worker, by the direct lane that wsd_call() uses. The submit does not wait for its
     * end. The handle gets a lane after some such submits, or by wsd_client_lane(). Jobs that are gathered go at the
     * next wsd_client_process(), wsd_client_flush(), or wait. Jobs of batches have no such flag (-EINVAL).
     *
     * A job that cannot go by the lane goes by the socket, as without this flag. It cannot while there is no lane, or
     * no room in it. Neither can a job with more than 2,000 bytes of arguments and input, or with another flag. Nor can
     * one with a field that a lane does not know, such as priority or key.
     *
     * The field output_size is the most bytes that the job may write; 0: 2048. A larger output ends the call with
     * -EMSGSIZE, whichever way the job went. The smaller output_size is, the more calls go together. With another flag,
     * or such a field, output_size means what it means without this flag.
     *
     * A job that went by the lane has no id (info->id is zero), no place in lists, no messages and no progress.
     * `accepted` is not called for it. Its end is told once, as that of any other job, also after the end of wsd or its
     * executor. A job that had begun by then may run twice if its function is idempotent.
     *
     * From the first such submit of a connection on, wsd_client_fd() returns another descriptor, one of epoll(7).
     * wsd_client_events() sets that descriptor up: call it before each wait. After wsd_client_adopt(), calls that were
     * in the lane end with -ECONNRESET. Since 0.1. */
    WSD_SUBMIT_DIRECT = 1u << 7,
    /* For a handle with WSD_OPEN_AGAIN (else -EINVAL), and not with STREAM or an arena. A connection that is not there,
     * or ends, does not end the call. The call waits for the next connection. The library then submits the job again if
     * wsd has certainly not had it: not all of the submit had been sent. It also does so, up to 5 times, if wsd may
     * have had a durable job with a key: wsd does not run it a second time.
     *
     * Otherwise the call ends with -ECONNRESET, as without this flag. It also ends so if its output callback was
     * called, if a part of its output was taken away, or if it was cancelled before.
     *
     * The field deadline_usec counts from the first submit, and ends the wait. Without it, and without wsd, a call
     * waits for ever. Calls that wait are submitted in their order, before state() is told of the connection. They
     * count for wsd_client_set_bounds(). A submit that wsd refuses (-EAGAIN and others) is not repeated: the refusal is
     * told. Input stays the caller's until done, as for other calls; input_fd is copied. When the job is submitted
     * again, the callbacks accepted, message and progress begin anew. The id that accepted has may then be another one.
     * wsd_call_cancel() ends a call that waits as WSD_JOB_CANCELLED, without having run. If the job may have run, it
     * ends the call with -ECONNRESET. Since 0.1. */
    WSD_SUBMIT_AGAIN = 1u << 8,
    /* As WSD_SUBMIT_AGAIN, and the job may run twice: it is also submitted again, up to 5 times, if it may have run.
     * For a job that does no harm when it runs twice. With a key, a wsd that has not ended does not run it twice. Since
     * 0.1. */
    WSD_SUBMIT_TWICE = 1u << 9,
    /* Where `plugin` is a name that runners offer and none of them is connected, the job is no refusal (-ENOENT): it
     * waits in the queue until one is. It waits until queue_usec is over, or until it is cancelled. `function` must be
     * named then (else -EINVAL), unless a runner has been there before. Such jobs of a user wait for at most 64 names
     * and 32 functions of each (-EAGAIN). When a runner comes that does not offer a job's function, the job fails. The
     * flag changes nothing for a plugin. It works for arrays, batches and schedules, too. -EOPNOTSUPP: wsd is too old
     * for it. Since 0.1. */
    WSD_SUBMIT_WAIT_RUNNER = 1u << 11,
    /* The output goes to output_fd, not through the connection: the job itself writes there. Not with DETACH, DURABLE,
     * AGAIN or TWICE, a key, retries, an output_size, or in a batch (-EINVAL). -EOPNOTSUPP: wsd is too old for it, or
     * is on another machine. Since 0.1. */
    WSD_SUBMIT_OUTPUT = 1u << 12,
    /* With WSD_SUBMIT_OUTPUT: where that cannot be, the output comes by the output callback as without it. It cannot be
     * with an older wsd, one of another machine, a runner, or an executor that several users share. Since 0.1. */
    WSD_SUBMIT_EITHER = 1u << 13,
    /* With STREAM, and without input: input_fd is a pipe that has it, open for reading. Where it can, the job reads the
     * pipe itself, and wsd_call_window() stays 0. Else the window opens: only then read the pipe, and feed what you read.
     * So nothing is to be read before that. The bytes are fed if the function does not stream, for jobs that are detached
     * or durable, wait for others, or have a key or retries, for a runner, an executor that several users share, an older
     * wsd and one of another machine. The library copies the descriptor. The flags of the open file stay as they are. The
     * input ends when the pipe has no writer any longer, also when the writer was killed. Since 0.1. */
    WSD_SUBMIT_PIPE = 1u << 14,
};

/* One job. Zero all fields that are not used, and set size to sizeof(struct wsd_submit). wsd_client_submit() copies
 * everything except input. The input must stay until the call is done or freed, since it is sent as wsd takes it. With
 * WSD_SUBMIT_STREAM it is the first piece of the input. Fields are appended. Since 0.1. */
struct wsd_submit {
    size_t size;
    const char *plugin;   /* name, or path with a slash */
    const char *function; /* NULL: the plugin's main function */
    const char *const *args;
    size_t n_args;
    const void *input;
    size_t input_size;
    uint64_t timeout_usec; /* of its run time; 0: none */
    int priority;          /* -100 to 100 */
    uint32_t flags;
    /* NULL: none. At most 255 bytes. As long as wsd knows a job of this user with this key, another submit with the key
     * stands for that job. It then gets the id, output and end of that job, whatever else it says. A job with a key
     * goes on when this connection ends. Its result is kept as that of a detached job, or of a durable one if it is
     * durable. Since 0.1. */
    const char *key;
    /* How often a job that ends badly runs again (0 to 1000). The pauses begin with retry_usec (0: one second; at most
     * a day). They double up to five minutes; if the first pause is longer, all are as long as the first. Each is
     * shortened by up to a half, at random. The ends that count as bad are the bits 1u << state of retry_on. If it is
     * 0, they are WSD_JOB_FAILED, WSD_JOB_TIMED_OUT, WSD_JOB_CRASHED and WSD_JOB_INTERRUPTED. Only the output of the
     * last try is delivered, when it has ended. Since 0.1. */
    uint32_t retries, retry_on;
    uint64_t retry_usec;
    /* When the job goes on, at the earliest; until then it is WSD_JOB_DELAYED. Set at most one of the two.
     *
     * With delay_usec: this long after it was accepted, at most ten years. Time that the machine sleeps counts. Setting
     * its clock changes nothing.
     *
     * With at_usec: at that time by the machine's clock, in microseconds since the epoch, even if the clock is set
     * meanwhile. A time in the past means at once.
     *
     * A durable job goes on waiting after the end of wsd. A delayed job counts for its user's limits. Since 0.1. */
    uint64_t delay_usec, at_usec;
    /* The longest time in the queue once the job may go on, for each try anew; 0: any. Beyond it the job ends as
     * WSD_JOB_TIMED_OUT without having run, and is not retried. -EOPNOTSUPP: wsd is too old for one of delay_usec,
     * at_usec and queue_usec. Since 0.1. */
    uint64_t queue_usec;
    /* Ids of this user's jobs that the job runs after; at most 1024 in all. The id of a batch stands for all of its
     * jobs, once it is closed. The job is held until each of them has ended, after its last try.
     *
     * If one of the jobs in `after` has not succeeded, the new job is cancelled, with an error that names that one. So
     * are the jobs that are to run after the new one. How the jobs in `after_any` end does not matter.
     *
     * A job that has ended before counts as long as wsd knows it. An unknown id is refused (-ENOENT). A job with
     * WSD_SUBMIT_DURABLE may only name durable jobs, and no batch (-EINVAL). -EOPNOTSUPP: wsd is too old for it. Since
     * 0.1. */
    const struct wsd_id *after, *after_any;
    size_t n_after, n_after_any;
    /* At most 3 names, each of 1 to 63 letters, digits, dots, underscores and hyphens. The users choose what a tag
     * means. The administrator chooses how many jobs with a tag may run at once (wsd_client_gate_tag()). A name is the
     * same tag on the jobs of all users. -EOPNOTSUPP: wsd is too old for it. Since 0.1. */
    const char *const *tags;
    size_t n_tags;
    /* With WSD_SUBMIT_FILE: a regular file, or a memfd, open for reading; `input` is NULL. The library copies the
     * descriptor, so you may close it when wsd_client_submit() has returned. The file position is neither used nor
     * moved.
     *
     * A function that gets its input whole reads the file in place. The job may or may not see what is written into the
     * file before it has ended. If the file is cut below that size meanwhile, the job fails, and says so.
     *
     * Input by file counts in full for the user's quota, and for max-input unless the function streams. Since 0.1. */
    int input_fd;
    uint64_t input_offset;
    /* NULL: none. If output_size is not 0, the output goes to that part of the arena, from output_offset on. None of it
     * goes through the connection. The field placed of wsd_job_info is the number of bytes that came, also for a job
     * that failed. Output that is larger fails the job.
     *
     * With an arena, the input comes with WSD_SUBMIT_ARENA, or is small enough for one frame (-EMSGSIZE). The job has
     * no key and no retries, and is not detached. Since 0.1. */
    struct wsd_arena *arena;
    uint64_t output_offset, output_size;
    /* When wsd_call_wait(), wsd_batch_wait() or wsd_map() ends at the latest, with -ETIMEDOUT, and cancels the job. It
     * counts from the submit, from wsd_batch_open() or from wsd_map(). 0: that of the handle, for calls that are given
     * no time of their own.
     *
     * In an event loop, done gets -ETIMEDOUT then, and the job is cancelled, unless it is detached.
     * wsd_client_process() and the like do this after they have read what has come. Call them by the time that
     * wsd_client_timeout_usec() returns. Jobs of batches have no such deadline. Since 0.1. */
    uint64_t deadline_usec;
    /* NULL: none. A traceparent of W3C Trace Context, version 00, in lower case: it says which trace the job belongs to.
     * The job's function gets it by wsd_job_traceparent(), and spans of the job have it as their parent. Anything else is
     * refused (-EINVAL). An older wsd ignores it. Such a job does not go by a lane. A schedule gives it to each of its runs.
     * Since 0.1. */
    const char *traceparent;
    /* With WSD_SUBMIT_OUTPUT: a regular file or a pipe, open for writing. The library copies the descriptor, so you may
     * close it when wsd_client_submit() has returned. The job fails where it is anything else, such as a socket.
     *
     * A file is written from its position on, which moves as with any other writer. When the call is done, everything
     * is written, and the field placed of wsd_job_info says how many bytes. What a job has written stays there, also if
     * it fails.
     *
     * If the job's executor dies, an idempotent job begins anew if it has written nothing. It also does so if it has
     * written at the end of a regular file that no other writes to and that is not O_APPEND. The file is then cut to
     * where the job began. If others may have written there since, it fails, and what they wrote stays. Otherwise the
     * job ends as WSD_JOB_INTERRUPTED.
     *
     * A pipe that is full holds up the job, which can be cancelled. Its time goes on, and it counts as running. A pipe
     * without a reader fails it. Since 0.1. */
    int output_fd;
};

/* What happens to a call. The callbacks run on the thread that made a call which processes the connection:
 * wsd_client_process(), all calls that wait or ask, wsd_call_resume(), wsd_client_free(). Set size to sizeof(struct
 * wsd_callbacks). Each callback may be NULL.
 *
 * A callback may make any call on the handle. A callback that processes the connection may cause further callbacks
 * inside itself. Each level keeps what was read for it, and the 33rd is refused (-EDEADLK). The output callback of a
 * call is not entered again while it runs. A callback may throw: see wsd_client_unwound(). Fields are appended. Since
 * 0.1. */
struct wsd_callbacks {
    size_t size;
    /* wsd has the job and will see it to its end. */
    void (*accepted)(struct wsd_call *call, const struct wsd_id *id, void *userdata);
    /* The next bytes of the output. They are valid during the callback, and count as taken when it returns. Any return
     * value but 0 holds the flow: no more output is delivered or asked for until wsd_call_resume(). done waits for the
     * output that has already arrived. Without this callback the library gathers the output for wsd_call_output(). */
    int (*output)(struct wsd_call *call, const void *data, size_t size, void *userdata);
    void (*message)(struct wsd_call *call, int level, const char *text, void *userdata);
    void (*progress)(struct wsd_call *call, uint64_t done, uint64_t total, void *userdata);
    /* Called once, last. error 0: info says how the job ended. A negative errno: there was no job, or its end is
     * unknown; info is NULL and text is the error text. */
    void (*done)(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata);
    void *userdata;
};

/* Tells the handle that a callback was left by longjmp(). Without need it does nothing. Returns 0 or -ECHILD. Since
 * 0.1.
 *
 * A callback of C++ may throw. The exception ends the call on the handle that has made the callback, and passes through
 * it. The callback counts as returned: an output callback has taken its bytes. Everything else stays. The next call
 * that processes the connection goes on behind the callback. So each other call, and this one, still has its end, once.
 * wsd_client_timeout_usec() is 0 until then. wsd_call(), wsd_calls() and wsd_map() cancel what they have under way.
 *
 * An exception out of a callback of wsd_client_free() does not keep the handle. The other calls are told while the
 * exception passes, and their callbacks may not throw.
 *
 * longjmp() out of a callback does the same, with three differences. It must leave all calls on the handle: it goes to
 * where none of them is under way. There, wsd_client_unwound() comes first. It must not leave wsd_call(), wsd_calls(),
 * wsd_map(), or a call that asks and waits for the answer: their memory is on the stack. */
WSD_EXPORT int wsd_client_unwound(struct wsd_client *client);

/* Whether WSD_SUBMIT_FILE may be used on this connection. It may not (-EOPNOTSUPP) with a wsd that is on another
 * machine or too old: send the bytes then. Since 0.1. */
WSD_EXPORT bool wsd_client_takes_files(const struct wsd_client *client);

/* Submits a job without blocking. callbacks may be NULL, and is copied. A refusal by wsd comes through done.
 *
 * Returns 0, and sets *ret_call, unless ret_call is NULL. Otherwise sets it to NULL and returns -EINVAL (a limit is
 * exceeded: the error text says which), -ENOMEM, -ECONNRESET, or -EAGAIN: see wsd_client_set_bounds(). With
 * WSD_SUBMIT_FILE also -EOPNOTSUPP, -EBADF, -EMFILE, and -EAGAIN if too many descriptors wait to be sent: process the
 * connection first.
 *
 * Similar jobs that are submitted one after the other leave together, 128 in a frame, and their ends come in few
 * frames. Such jobs have only plugin, function, timeout, priority, DETACH and LEAVE set, and have these alike. A full
 * frame leaves at once. The last frame leaves when the connection is processed, so submit all jobs before that. Since
 * 0.1. */
WSD_EXPORT int wsd_client_submit(struct wsd_client *client, const struct wsd_submit *submit,
                                 const struct wsd_callbacks *callbacks, struct wsd_call **ret_call);

/* Submits a job from any thread, while the handle's own thread is in its event loop. This is the only call on a handle
 * that other threads may make. It takes what wsd_client_submit() takes, and copies all but the input, too. The handle's
 * thread submits the job in its next wsd_client_process() or wsd_client_wait(), and runs the callbacks. Jobs of one
 * thread are submitted in the order in which they were posted.
 *
 * The callback done is called in any case. If the submit failed, call is NULL and error is what wsd_client_submit()
 * would have returned. error is -ECONNRESET also if the handle was freed before. The program has the call only in done,
 * which frees it by wsd_call_free().
 *
 * Returns 0; -EINVAL: no wake is set, or a size is not; -E2BIG; -ENOMEM; -EBADF or -EMFILE for input_fd; -ECHILD. It
 * sets no error text. No thread may post any longer when the handle is freed. Since 0.1. */
WSD_EXPORT int wsd_client_post(struct wsd_client *client, const struct wsd_submit *submit,
                               const struct wsd_callbacks *callbacks);

/* Sets a function that wakes the loop of the handle's thread when something was posted. The loop then calls
 * wsd_client_process(). The function wake() writes to an eventfd(2) that the loop watches, or calls uv_async_send(),
 * g_main_context_wakeup() or the like. It is called on the thread that posts, once for all that is posted until the
 * handle's thread has taken it. Call wsd_client_set_wake() before other threads know the handle. Returns 0 or -ECHILD.
 * Since 0.1. */
WSD_EXPORT int wsd_client_set_wake(struct wsd_client *client, void (*wake)(void *userdata), void *userdata);

/* Follows a job by its id, from any connection of the same user. Delivers its output, its messages, its progress (if
 * there is a callback for it), then done. If the job was detached, is durable or has a key, the output comes from its
 * start, as far as it is kept. Otherwise it comes from now on. Any number of calls may follow a job. wsd_call_free()
 * only stops following. Since 0.1. */
WSD_EXPORT int wsd_client_attach(struct wsd_client *client, const struct wsd_id *id,
                                 const struct wsd_callbacks *callbacks, struct wsd_call **ret_call);

/* Gives more input to a WSD_SUBMIT_STREAM call. Copies what fits in the window that wsd has opened, and returns how
 * much. 0 means: try again after the next wsd_client_process(), which is when the window opens. If last is set and
 * everything was taken, the input ends. -EPIPE: the input or the call has ended; -EINVAL: no such call; -ENOMEM. Since
 * 0.1. */
WSD_EXPORT int64_t wsd_call_feed(struct wsd_call *call, const void *data, size_t size, bool last);

/* How many bytes wsd_call_feed() would take now, at most. 0: none until a later wsd_client_process(), or none at all: the call is
 * over, is no WSD_SUBMIT_STREAM call, or its job reads the pipe of WSD_SUBMIT_PIPE itself. Since 0.1. */
WSD_EXPORT size_t wsd_call_window(const struct wsd_call *call);

/* Lets the output of a call flow again. Output that waits here is delivered before this call returns; then comes the
 * rest. In the call's own output callback it does nothing: there the return value decides. Returns 0. Since 0.1. */
WSD_EXPORT int wsd_call_resume(struct wsd_call *call);

/* Asks wsd to cancel the job. Its end comes through done as usual. Returns 0 (also if it has ended) or -ENOMEM. Since
 * 0.1. */
WSD_EXPORT int wsd_call_cancel(struct wsd_call *call);

/* Processes the connection until this call is done. Callbacks of this call and of others run meanwhile. A call does not
 * end while its output is held.
 *
 * Returns 0, and sets *ret_info, unless ret_info is NULL; the info lives until wsd_call_free(). Otherwise returns:
 *  - -ETIMEDOUT after timeout_usec (UINT64_MAX: none is given). The job goes on.
 *  - -ETIMEDOUT at the deadline, and -EINTR. The job is cancelled.
 *  - -EDEADLK in the call's own output callback.
 *  - the error that done was given.
 *
 * After -ETIMEDOUT and -EINTR the call is still open: free it, or wait again. Since 0.1. */
WSD_EXPORT int wsd_call_wait(struct wsd_call *call, uint64_t timeout_usec, const struct wsd_job_info **ret_info);

/* Returns the output gathered so far; valid until the next call on the handle or wsd_call_free(). When a call with 256
 * KiB of output or more is freed, the memory stays with the handle for the next large output. The handle keeps that of
 * one call, the largest, and at most 64 MiB. It frees the memory with the next call that gathers less, however that
 * call is made, or with itself. Since 0.1. */
WSD_EXPORT const void *wsd_call_output(const struct wsd_call *call, size_t *ret_size);

/* Takes away the output gathered so far, without a copy if it is more than 64 bytes. The caller frees it by free(3), so
 * it can go to evbuffer_add_reference() and the like. What comes later is gathered anew. Sets *ret_size. Returns NULL
 * if there is no output (*ret_size is 0). Also returns NULL if there is no memory; then the output stays. Since 0.1. */
WSD_EXPORT void *wsd_call_take_output(struct wsd_call *call, size_t *ret_size);

/* Forgets a call: no more callbacks come. A call that is not done is cancelled. But an attached job goes on, and so
 * does a detached job after its input was sent. NULL is allowed; returns NULL. Allowed in any callback, also the call's
 * own. wsd_client_free() frees the remaining calls. For the memory of a large output see wsd_call_output(). Since
 * 0.1. */
WSD_EXPORT struct wsd_call *wsd_call_free(struct wsd_call *call);

/* --- arenas: memory shared with jobs ----------------------------------------------------------------------------- */

/* Makes memory in which jobs of this connection read their input and put their output. It is for large inputs and
 * outputs, again and again. A function with WSD_FN_SHARED of wsd/plugin.h works there. Another function gets a copy of
 * the input, and its output is copied. In both cases no bytes go through the connection.
 *
 * A job owns its parts until it has ended. It may or may not see bytes that are written there meanwhile. The bytes of
 * the output mean nothing before the end, nor after an end without success. Parts may begin anywhere; begin them at
 * multiples of 4096. wsd refuses a job (-EAGAIN) if its output overlaps with a part of a job that has not ended. It
 * also refuses a job if its input overlaps with the output of such a job. Inputs may overlap.
 *
 * If an executor dies while a job writes to an arena, or its runner loses the connection, that job is not run again,
 * and its part may still change. No job may write to that arena after that (-EAGAIN): make a new one.
 *
 * size bytes are charged to the user as long as wsd knows the arena. For that time, an executor that has run a job
 * there has it mapped, too. A connection may have 8 arenas at a time. The memory is the caller's, all of it from the
 * beginning. It stays until wsd_arena_free(), also after the end of the connection. But then no job can use it.
 *
 * Call it on the handle's thread; any thread may use the memory. Blocks for as long as wsd takes to answer. Returns 0;
 * -EOPNOTSUPP: wsd is too old, or on another machine (the input goes by the connection then); -EINVAL; -ENOMEM;
 * -ENOSPC; -EAGAIN: quota, or too many; -ETIMEDOUT; -EINTR; -ECONNRESET. Since 0.1. */
WSD_EXPORT int wsd_arena_new(struct wsd_client *client, size_t size, struct wsd_arena **ret_arena);
/* The address of an arena's memory, and its size in bytes. Since 0.1. */
WSD_EXPORT void *wsd_arena_data(struct wsd_arena *arena);
WSD_EXPORT size_t wsd_arena_size(const struct wsd_arena *arena);
/* Unmaps an arena and frees it. Jobs that use it go on, and their output is lost. NULL is allowed; returns NULL. Since
 * 0.1. */
WSD_EXPORT struct wsd_arena *wsd_arena_free(struct wsd_arena *arena);

/* --- calling: one job, awaited --------------------------------------------------------------------------------- */

enum wsd_call_flags {
    WSD_CALL_FILES = 1u << 0,  /* the function opens files that the arguments name */
    WSD_CALL_SOCKET = 1u << 1, /* never by a direct lane */
    /* The output may have any size. output and output_room are 0. The result's output has it, in memory of its own. By
     * the socket, since a direct lane has no room for that. Since 0.1. */
    WSD_CALL_GROW = 1u << 2,
};

/* What to call. Zero all fields that are not used, and set size to sizeof(struct wsd_call_request). Fields are
 * appended. Since 0.1. */
struct wsd_call_request {
    size_t size;
    const char *plugin;   /* name, or path with a slash */
    const char *function; /* NULL: the plugin's main function */
    const char *const *args;
    size_t n_args;
    const void *input;
    size_t input_size;
    void *output; /* where the output goes, unless WSD_CALL_GROW is set */
    size_t output_room;
    uint64_t timeout_usec; /* of its run time; 0: none */
    uint32_t flags;
    /* When the call ends at the latest, from the beginning of wsd_call() or wsd_calls(), queueing and all; 0: that of
     * the handle. -ETIMEDOUT. Since 0.1. */
    uint64_t deadline_usec;
};

/* How a call ended. Set size to sizeof(struct wsd_call_result) before the call. Texts are never NULL and live until the
 * next wsd_call() or wsd_calls() on the handle is over. Fields are appended. Since 0.1. */
struct wsd_call_result {
    size_t size;
    enum wsd_job_state state; /* a final one */
    int exit;                 /* as in struct wsd_job_info */
    size_t output_size;       /* bytes of the output */
    const char *error, *status;
    uint64_t run_usec, cpu_usec;
    bool direct; /* it went by a direct lane */
    /* 0 if there is a result, else the error that wsd_call() returned for this call, or would have returned. Then exit
     * and error are those of wsd_client_exit() and wsd_client_error(), and the rest is zero. Since 0.1. */
    int code;
    /* With WSD_CALL_GROW: the output, output_size bytes; free it by free(3). NULL: there is none, or no result. Since
     * 0.1. */
    void *output;
};

/* Runs one job and waits for its end. This is the fastest way to call a small function again and again.
 *
 * After some calls the library opens a direct lane by itself: a ring in shared memory into the executor of the caller's
 * user. A call goes through the lane if its arguments and input are at most 2,000 bytes, with room for at most 2,048
 * bytes of output. Such a call does not pass through wsd. When both sides are awake, it makes no system call. Every
 * other call goes by the socket, with the same result.
 *
 * Some differences are visible. A direct call has no id and is in no list. The log lines and the progress of the
 * function are not delivered. If wsd runs as another user than the caller, wsd_job_open() in the function returns
 * -ENOTCONN, unless WSD_CALL_FILES is set; calls with that flag go by the socket.
 *
 * While wsd_call() waits, it processes the connection now and then, so callbacks of other calls on the handle may run.
 * It spins for at most 50 us if that has paid off lately; then it sleeps. As with every call, one thread at a time uses
 * a handle. Threads that call at the same time have a handle each.
 *
 * Returns 0: the call ended, and *ret_result says how. Otherwise *ret_result has only code, exit and error. -EMSGSIZE:
 * the output is larger than output_room; the job was cancelled or has run. Others are as for wsd_client_submit() and
 * wsd_call_wait(): refused (-EAGAIN, -ENOENT, -EACCES), -EINVAL, -ENOMEM; -ETIMEDOUT at the deadline, -EINTR and
 * -ECONNRESET (wsd_client_exit() is then 125 if the job may have run). Since 0.1. */
WSD_EXPORT int wsd_call(struct wsd_client *client, const struct wsd_call_request *request,
                        struct wsd_call_result *ret_result);

/* Makes n calls like wsd_call(), up to 256 at a time, in any order. This is the fastest way to call small functions
 * many times. results[i] belongs to requests[i]. All requests have the size of the first, and so have all results. What
 * a request points to stays until the end, and no two outputs may overlap. Calls for which there is no room
 * (max-jobs-per-user) wait until others of these calls have ended.
 *
 * Brief calls in a direct lane go together: one worker runs up to 32 of them, one after the other. Such calls follow
 * one another in requests, and have the same two pointers to the names, the same flags and the same timeout. If none of
 * them ends for 5 ms, they go on separately. Then as many run as there are workers and spares for them
 * (wsd_blocking_begin()), at most 64. So calls may wait for each other, but then they are not fast.
 *
 * Returns 0: each call has ended, as its result says, also with a failure. Otherwise returns the code of the first
 * call, in the order of the requests, that has no result. Its code, exit and error say why. All other calls have been
 * made nevertheless. If the program has ended the wait, each call without a result has -EINTR. Also returns -EINVAL or
 * -ENOMEM before any call; no result is touched then. With n 0 it does nothing. Since 0.1. */
WSD_EXPORT int wsd_calls(struct wsd_client *client, const struct wsd_call_request *requests,
                         struct wsd_call_result *results, size_t n);

enum wsd_lane_action {
    WSD_LANE_OPEN = 1,  /* opens the direct lane of the handle now, and waits for it */
    WSD_LANE_CLOSE = 2, /* gives it back to wsd */
    WSD_LANE_KEEP = 3,  /* as OPEN, and the handle keeps it while it is idle */
};

/* Opens the direct lane of the handle, closes it, or keeps it, for a program that knows when it calls. No program needs
 * this: wsd_call() opens a lane by itself after a few calls, which go by the socket.
 *
 * A user may have max-lanes-per-user lanes of wsd.conf(5) into one executor. When there are no more, wsd takes a lane
 * from its handle: the lane that was idle for longest, and for 10 ms at least. That handle's next calls go by the
 * socket until it has a lane again. A handle that will be idle for long does well to close its lane. A handle that is
 * about to make many calls does well to open it.
 *
 * WSD_LANE_KEEP is for a handle that makes rare calls which must be fast. Other handles of this user have one lane less
 * then, until WSD_LANE_OPEN or WSD_LANE_CLOSE. A lane that replaces this one, after a reconnect for instance, is kept,
 * too. wsd still takes the lane where all 64 lanes of an executor are in use. A wsd that is older than this value takes
 * the lane like any other.
 *
 * Returns 0: the lane is there, or after WSD_LANE_CLOSE it is not there. Returns -EAGAIN if there is none for now: the
 * error text says why. Returns -EOPNOTSUPP if this wsd or the kernel has no lanes, or if wsd is on another machine.
 * Returns -EDEADLK for WSD_LANE_CLOSE while calls are under way in the lane. Also returns -EINVAL, -ETIMEDOUT, -EINTR
 * or -ECONNRESET. Since 0.1. */
WSD_EXPORT int wsd_client_lane(struct wsd_client *client, enum wsd_lane_action action);

/* --- batches: many jobs of one function as a unit --------------------------------------------------------------- */

enum wsd_batch_flags {
    WSD_BATCH_KEEP_GOING = 1u << 0, /* a job that does not succeed stops no others */
    /* The batch outlives this connection. Its id is known as long as a detached job after its end. Its jobs need
     * WSD_SUBMIT_DETACH. */
    WSD_BATCH_DETACH = 1u << 1,
    /* For wsd_map(): items for which wsd has no room (quota, rate, full queue) are submitted again when there may be
     * some, however long that takes. Without this flag they are submitted again only while other jobs of the batch are
     * under way. */
    WSD_BATCH_WAIT = 1u << 2,
};

/* The state of a batch. Set size to sizeof(struct wsd_batch_info) first. Fields are appended. Since 0.1. */
struct wsd_batch_info {
    size_t size;
    struct wsd_id id; /* zeros if wsd has no batch for it: see wsd_batch_open() */
    uint32_t uid;
    bool closed;  /* no more jobs come */
    bool ended;   /* and all of its jobs have ended */
    bool stopped; /* after a failure or a cancel: jobs that had not begun end as cancelled */
    /* what `wsctl submit` would exit with for the first job that failed, in the order of submitting; 0: none did */
    int exit;
    uint64_t total; /* accepted so far; the sum of the next three */
    uint64_t queued, running, done;
    uint64_t failed;         /* those of done that did not succeed */
    uint64_t submitted_usec; /* since the epoch */
};

/* One job of a batch. Zero all fields that are not used, and set size to sizeof(struct wsd_item). Fields are appended.
 * Since 0.1. */
struct wsd_item {
    size_t size;
    const char *const *args;
    size_t n_args;
    const void *input; /* must stay until the call is done if it is larger than 32 KiB, or the batch is durable */
    size_t input_size;
};

/* Begins a batch of jobs that are all like `common`, except for arguments and input. Those of `common` are ignored.
 * `common` may not have WSD_SUBMIT_STREAM, WSD_SUBMIT_PROGRESS, WSD_SUBMIT_FILE or a key. The flags are those of enum
 * wsd_batch_flags. Everything is copied. Does not block.
 *
 * Many jobs go to wsd in one message, and their ends come back in one. So many small jobs cost little. Each is a job
 * like any other: it has its own id and end, its own charge to its user's limits, and its own place in recovery. If a
 * job does not succeed, those that came into the batch after it are cancelled, unless WSD_BATCH_KEEP_GOING is set.
 *
 * With WSD_SUBMIT_DURABLE in `common`, or with a wsd that knows no batches, the library submits each job by itself and
 * does the rest. Then the batch has no id, no other client can ask for it, and WSD_BATCH_DETACH has no effect. No batch
 * outlives wsd. Returns 0, or -EINVAL, -ENOMEM, -ECONNRESET, -EOPNOTSUPP as wsd_client_submit(). Since 0.1. */
WSD_EXPORT int wsd_batch_open(struct wsd_client *client, const struct wsd_submit *common, uint32_t flags,
                              struct wsd_batch **ret_batch);

/* Adds a job to a batch without blocking. The job leaves when there are enough for a message, or when the connection is
 * processed. Its call is like that of wsd_client_submit(), with its callbacks. But messages of the job come only after
 * it was accepted or refused.
 *
 * Returns 0; -EINVAL; -ENOMEM; -EPIPE: the batch was closed; -ECONNRESET. After wsd_client_reconnect(), this call and
 * those below return -ECONNRESET for good, unless all of the batch had ended and been reported before. A batch that was
 * stopped refuses the job through done, with -ECANCELED. Since 0.1. */
WSD_EXPORT int wsd_batch_submit(struct wsd_batch *batch, const struct wsd_item *item,
                                const struct wsd_callbacks *callbacks, struct wsd_call **ret_call);

/* Closes a batch: it takes no more jobs. Returns 0, -ENOMEM or -ECONNRESET. Since 0.1. */
WSD_EXPORT int wsd_batch_close(struct wsd_batch *batch);
/* Cancels all jobs of a batch that have not ended; it accepts no more. Returns 0, -ENOMEM or -ECONNRESET. Since 0.1. */
WSD_EXPORT int wsd_batch_cancel(struct wsd_batch *batch);
/* Gives the last known state of a batch. The state is renewed about ten times a second while the connection is
 * processed. When the connection has ended, it stays as it was. Returns 0. Since 0.1. */
WSD_EXPORT int wsd_batch_look(const struct wsd_batch *batch, struct wsd_batch_info *ret_info);
/* Closes a batch, and processes the connection until all of its jobs have ended. ret_info may be NULL. Returns 0;
 * -ETIMEDOUT and -EINTR, as wsd_call_wait(); -ECONNRESET; or why wsd refused the batch (-EAGAIN: too many are open,
 * -EACCES). Since 0.1. */
WSD_EXPORT int wsd_batch_wait(struct wsd_batch *batch, uint64_t timeout_usec, struct wsd_batch_info *ret_info);
/* Forgets a batch: closes it, and cancels it unless WSD_BATCH_DETACH is set. Its calls are freed separately, before or
 * after. Allowed in any callback; a wait for the batch then returns -ECANCELED. NULL is allowed; returns NULL. Since
 * 0.1. */
WSD_EXPORT struct wsd_batch *wsd_batch_free(struct wsd_batch *batch);

/* How one item of wsd_map() ended: error 0 and info, as for wsd_callbacks.done; output is all of its output. Called
 * once for each item, in the order of their ends. info, output and text last as long as the call. Any return value but
 * 0 cancels the rest. Since 0.1. */
typedef int (*wsd_map_result)(size_t index, int error, const struct wsd_job_info *info, const void *output,
                              size_t output_size, const char *text, void *userdata);

/* Runs one job for each item, some thousands at a time, and waits for all of them. Uses wsd_batch_open() with common
 * and flags, and the calls after it. This is the cheapest way to run many small jobs. Each item has the size of the
 * first. The items stay until the end.
 *
 * Returns 0: each job has succeeded. Otherwise returns the error of the first item without success, in the order of the
 * items. That is -EREMOTEIO if the job failed, was cancelled or the like. Else it is what wsd_batch_submit() and done
 * give. Returns -ETIMEDOUT and -EINTR if the wait has ended before: each item without an end is told that.
 * wsd_client_exit() returns the number that `wsctl map` would exit with. Since 0.1. */
WSD_EXPORT int wsd_map(struct wsd_client *client, const struct wsd_submit *common, uint32_t flags,
                       const struct wsd_item *items, size_t n_items, wsd_map_result result, void *userdata);

/* Looks at, waits for or cancels a batch by its id, from any connection of the same user. These calls block for at most
 * 30 seconds. But wsd_client_batch_await() waits for the batch's end, for at most timeout_usec (UINT64_MAX: for ever).
 * It calls progress, unless that is NULL, when something has changed. -ENOENT: there is no such batch now; -EOPNOTSUPP.
 * Since 0.1. */
WSD_EXPORT int wsd_client_batch(struct wsd_client *client, const struct wsd_id *id, struct wsd_batch_info *ret_info);
WSD_EXPORT int wsd_client_batch_await(struct wsd_client *client, const struct wsd_id *id, uint64_t timeout_usec,
                                      void (*progress)(const struct wsd_batch_info *info, void *userdata),
                                      void *userdata, struct wsd_batch_info *ret_info);
WSD_EXPORT int wsd_client_batch_cancel(struct wsd_client *client, const struct wsd_id *id);

/* --- asking: these block for at most 30 seconds ---------------------------------------------------------------- */

/* Gives what is known of one job by its id. Set ret_info->size to sizeof(struct wsd_job_info) first. The texts live
 * until the next wsd_client_job() on the handle. Returns 0, -ENOENT or -EACCES; like all of these also -ETIMEDOUT,
 * -EINTR, -ENOMEM, -ECONNRESET. Since 0.1. */
WSD_EXPORT int wsd_client_job(struct wsd_client *client, const struct wsd_id *id, struct wsd_job_info *ret_info);

/* Lists the caller's jobs (root: those of all users), the oldest first. Each is valid during its callback. A callback
 * that returns non-zero ends the listing with that value. Since 0.1. */
WSD_EXPORT int wsd_client_list(struct wsd_client *client, int (*each)(const struct wsd_job_info *info, void *userdata),
                               void *userdata);

/* Cancels a job by its id: a queued job at once, a running one by its flag. Returns 0; -ENOENT: there is no such job,
 * or it has ended, whether its end is known or not. Of a durable job it returns when its end is on disk: a running one
 * has the grace time of wsd.conf. -EAGAIN: that cannot be written; call again. Since 0.1. */
WSD_EXPORT int wsd_client_cancel(struct wsd_client *client, const struct wsd_id *id);

/* What jobs to list or cancel, among those that the caller may see. Zero all fields that do not matter, and set size to
 * sizeof(struct wsd_filter). Fields are appended. Since 0.1. */
struct wsd_filter {
    size_t size;
    uint32_t states; /* 1u << state, several together; 0: any */
    bool by_uid;     /* only jobs of the user `uid` */
    uint32_t uid;
    const char *plugin;         /* its name, or the one that it was submitted as; NULL: any */
    const char *function;       /* NULL: any */
    uint64_t newer_usec;        /* submitted within that time; 0: any */
    uint64_t older_usec;        /* submitted before that time; 0: any */
    uint32_t limit;             /* only this many, the newest; 0: all. wsd_client_cancel_where() ignores it */
    const struct wsd_id *batch; /* only jobs of this batch; NULL: any. -EOPNOTSUPP if wsd knows no batches */
};

/* Lists the jobs that match, as wsd_client_list() does. wsd does the search. -EOPNOTSUPP: wsd is too old for it. Since
 * 0.1. */
WSD_EXPORT int wsd_client_list_where(struct wsd_client *client, const struct wsd_filter *filter,
                                     int (*each)(const struct wsd_job_info *info, void *userdata), void *userdata);

/* Cancels every job that matches and has not ended. Sets *ret_n to their number, unless ret_n is NULL. An empty filter
 * is -EINVAL, so that nothing is cancelled by accident; to cancel everything, name the states 1 to 4. -EOPNOTSUPP.
 * Durable jobs: as wsd_client_cancel(). Since 0.1. */
WSD_EXPORT int wsd_client_cancel_where(struct wsd_client *client, const struct wsd_filter *filter, uint64_t *ret_n);

/* Lists, requeues or drops durable jobs that have ended badly and are out of retries. Such jobs do not expire.
 *
 * wsd_client_dead() lists them as wsd_client_list() does. wsd_client_dead_requeue() queues one again under its id, as
 * if it had never run. wsd_client_dead_drop() forgets one.
 *
 * Errors: -ENOENT: there is no such job; -EAGAIN: it is being read, or wsd is draining; -EOPNOTSUPP. Since 0.1. */
WSD_EXPORT int wsd_client_dead(struct wsd_client *client, int (*each)(const struct wsd_job_info *info, void *userdata),
                               void *userdata);
WSD_EXPORT int wsd_client_dead_requeue(struct wsd_client *client, const struct wsd_id *id);
WSD_EXPORT int wsd_client_dead_drop(struct wsd_client *client, const struct wsd_id *id);

/* --- schedules: jobs that wsd submits again and again; these block for at most 30 seconds ---------------------- */

/* A schedule to add. Zero all fields that are not used, and set size to sizeof(struct wsd_schedule). Fields are
 * appended. Since 0.1. */
struct wsd_schedule {
    size_t size;
    const char *name;     /* 1 to 63 letters, digits and _-.@+, not - first; its user's own */
    const char *calendar; /* when, as systemd.time(7) has it: "Mon..Fri 08:00", "*:0/15", "daily Europe/Berlin" */
    bool persistent;      /* if times passed while there was no wsd, one run comes at its start */
    /* What to run: plugin, function, arguments, timeout, priority, retries, queue_usec, and of the flags
     * WSD_SUBMIT_DURABLE. Each run is a detached job of its own. There is no client that could open files which
     * arguments name. */
    const struct wsd_submit *job;
};

/* Fields are appended. Since 0.1. */
struct wsd_schedule_info {
    size_t size;
    const char *name, *calendar, *plugin, *function;
    uint32_t uid;
    bool persistent;
    bool configured;              /* it comes from wsd.conf */
    bool running;                 /* the last run's job is not done: runs that come due meanwhile are skipped */
    uint64_t next_usec, ran_usec; /* since the epoch; 0: never, not yet */
    uint64_t runs, skipped;
    struct wsd_id id;         /* the job of the last run; zeros before the first */
    enum wsd_job_state state; /* how it ended; 0: not yet, or it was refused with exit and error */
    int exit;
    const char *error;
};

/* Adds a schedule. Returns 0 when the schedule is on disk. Its job then runs as the caller whenever its time comes,
 * until the schedule is removed. Returns -EINVAL if the name or time is wrong, or if there is a schedule of that name.
 * Returns -EAGAIN if there are too many, or no room. Also returns -EIO or -EOPNOTSUPP. Since 0.1. */
WSD_EXPORT int wsd_client_schedule_add(struct wsd_client *client, const struct wsd_schedule *schedule);
/* Lists the caller's schedules (root: those of all users), by user and name. Each is valid during its callback. A
 * callback that returns non-zero ends the listing with that value. -EOPNOTSUPP. Since 0.1. */
WSD_EXPORT int wsd_client_schedules(struct wsd_client *client,
                                    int (*each)(const struct wsd_schedule_info *info, void *userdata), void *userdata);
/* Forgets one of the caller's schedules; a run in progress goes on. -ENOENT; -EACCES: it comes from wsd.conf;
 * -EOPNOTSUPP. Since 0.1. */
WSD_EXPORT int wsd_client_schedule_remove(struct wsd_client *client, const char *name);
/* Runs one of the caller's schedules now, in addition to its times. Returns 0 when the job was accepted, and sets
 * *ret_id to its id, unless ret_id is NULL. -ENOENT; -EAGAIN: its last run is not done; others as for
 * wsd_client_submit(). -EOPNOTSUPP. Since 0.1. */
WSD_EXPORT int wsd_client_schedule_run(struct wsd_client *client, const char *name, struct wsd_id *ret_id);

/* Does not grow: it stands in arrays. Since 0.1. */
struct wsd_function_info {
    const char *name, *help;
    uint64_t flags; /* enum wsd_function_flags of wsd/plugin.h */
};

/* The recent crashes of a function. Does not grow: it stands in arrays. Since 0.1. */
struct wsd_function_crashes {
    uint32_t crashes;         /* recent ones */
    uint32_t quarantine;      /* 0: none; 1: its jobs are refused; 2: they are, but for one that runs on trial */
    uint64_t quarantine_usec; /* time until one job is let through on trial */
    const char *why;          /* of the last crash, "" */
};

/* A runner that is connected. Does not grow: it stands in arrays. Since 0.1. */
struct wsd_plugin_runner {
    uint32_t uid, pid;
    uint32_t credit;     /* jobs that it takes at once */
    uint32_t running;    /* jobs that it has */
    uint64_t since_usec; /* when it came, since the epoch */
    bool leaving;        /* it takes no more jobs */
};

/* A plugin as wsd sees it; error is "" or says why it cannot be used. Fields are appended. Since 0.1. */
struct wsd_plugin_info {
    size_t size;
    const char *name, *version, *help, *path, *error;
    const struct wsd_function_info *functions;
    size_t n_functions;
    const struct wsd_function_crashes *crashes; /* of each function */
    int apart; /* 1: the configuration gives it an executor of its own; 2: it has one because it has crashed; 0: none */
    bool runs; /* it is a name of runners */
    uint64_t waiting; /* jobs that wait for one of them */
    const struct wsd_plugin_runner *runners;
    size_t n_runners;  /* at most 256 are shown */
    const char *build; /* the file's build id in hexadecimal; "": it has none, or wsd is older */
};

/* Lists the plugins of the plugin directories by name (name NULL), or shows the one named (also a path). Each is valid
 * during its callback. A callback that returns non-zero ends the listing with that value. wsd may have to load each
 * first, so the 30 seconds begin anew with each that comes. -ENOENT. Since 0.1. */
WSD_EXPORT int wsd_client_plugins(struct wsd_client *client, const char *name,
                                  int (*each)(const struct wsd_plugin_info *info, void *userdata), void *userdata);

/* The same for names of runners: those that are connected, or that jobs of the caller wait for. Since 0.1. */
WSD_EXPORT int wsd_client_runners(struct wsd_client *client, const char *name,
                                  int (*each)(const struct wsd_plugin_info *info, void *userdata), void *userdata);

/* Lets a function out of quarantine (NULL or "": all functions of the plugin). Returns 0; -ENOENT: no crashes of it are
 * known. Since 0.1. */
WSD_EXPORT int wsd_client_plugin_release(struct wsd_client *client, const char *plugin, const char *function);

/* What to do with a gate. A gate decides which jobs are handed to the pool, and how many at once. For administrators
 * ([access] in wsd.conf). Since 0.1. */
enum wsd_gate_action {
    WSD_GATE_PAUSE = 1,  /* jobs are accepted, and wait; those that run go on */
    WSD_GATE_RESUME = 2, /* ends a pause; of everything also the drain */
    WSD_GATE_DRAIN = 3,  /* of everything only: new jobs are refused (75), present jobs run */
    WSD_GATE_LIMIT = 4,  /* at most `limit` jobs at once, of all users together; 0: any number. Not of everything */
};

/* Pauses, resumes, limits or drains. plugin: its name as submitted, without directory and .so; NULL or "": everything.
 * function: NULL or "": all functions of the plugin; a limit counts them together. Returns 0; -EACCES; -ENOENT: it is
 * to be resumed, and is neither paused nor limited; -EAGAIN: too many are paused or limited; -EINVAL. Since 0.1. */
WSD_EXPORT int wsd_client_gate(struct wsd_client *client, enum wsd_gate_action action, const char *plugin,
                               const char *function, uint32_t limit);

/* Pauses, resumes or limits all jobs with a tag, of all users. Not for WSD_GATE_DRAIN. Returns as wsd_client_gate(),
 * and -EOPNOTSUPP if wsd is too old. Since 0.1. */
WSD_EXPORT int wsd_client_gate_tag(struct wsd_client *client, enum wsd_gate_action action, const char *tag,
                                   uint32_t limit);

/* What is paused or limited now. Fields are appended. Since 0.1. */
struct wsd_gate_info {
    size_t size;
    const char *plugin, *function; /* "", "": everything */
    int paused, drained;           /* drained: of everything only */
    uint32_t limit;                /* 0: none */
    uint64_t running;              /* jobs handed to the pool */
    uint64_t waiting;              /* jobs that wait for this; of everything: all open jobs that do not run */
    const char *tag;               /* of a tag: its name, and plugin is ""; else "" */
};

/* Lists what is paused or limited: first everything, then each plugin, function and tag. Each is valid during its
 * callback. A callback that returns non-zero ends the listing with that value. Since 0.1. */
WSD_EXPORT int wsd_client_gates(struct wsd_client *client,
                                int (*each)(const struct wsd_gate_info *info, void *userdata), void *userdata);

/* A limit of wsd.conf(5) in force. Fields are appended. Since 0.1. */
struct wsd_limit_info {
    size_t size;
    const char *key, *value; /* as wsd.conf has them; value "": no limit */
    int of_user;             /* of the user `uid`, instead of all users */
    uint32_t uid;
    int moved; /* changed from the configuration by the user `by`, until the configuration is read again */
    uint32_t by;
};

/* Lists the limits that are in force: first those of all users, then those that were changed for single users. Of the
 * latter a caller sees its own; an administrator with the right to see all jobs sees each. Each is valid during its
 * callback. A callback that returns non-zero ends the listing with that value. -EOPNOTSUPP: wsd is too old. Since 0.1.
 */
WSD_EXPORT int wsd_client_limits(struct wsd_client *client,
                                 int (*each)(const struct wsd_limit_info *info, void *userdata), void *userdata);

/* Changes a limit from now on, until wsd reads its configuration again or ends. It is the limit of all users, or
 * (of_user) of the user uid, for keys that end with -per-user. What is there already stays. value: as in wsd.conf; NULL
 * or "": as the configuration says. For administrators. Returns 0; -EINVAL: no such limit or value, the error text says
 * what is wanted; -EACCES; -EAGAIN: too many are changed; -EOPNOTSUPP. Since 0.1. */
WSD_EXPORT int wsd_client_set_limit(struct wsd_client *client, int of_user, uint32_t uid, const char *key,
                                    const char *value);

/* A user has changed something in wsd, or was refused. Texts are one line of printable UTF-8 each, cut off where they
 * are long. Fields are appended. Since 0.1. */
struct wsd_action_info {
    size_t size;
    uint64_t time_usec; /* since the epoch */
    uint32_t uid;       /* of the client */
    int exit;           /* 0: granted, and perhaps still under way; else refused: what wsctl exits with */
    const char *person; /* that the client named (wsd_client_person()); "" */
    const char *action; /* such as "pause", "limit", "cancel", "schedule add" */
    const char *object; /* what it was about, such as "fib:fib", "job ID" or "max-run = 1h"; "": everything */
};

/* Lists what administrators have changed since wsd's start, or were refused. Also lists what other users attempted that
 * is for administrators, and what was done for persons. The oldest is first. wsd keeps the last 256 of administrators,
 * and of others. A user sees its own. Administrators, and users that see or watch all jobs, see those of all. To those
 * that only watch, person and object are "" where a user without rights over others wrote them. limit: the newest so
 * many; 0: all. Each is valid during its callback. A callback that returns non-zero ends the listing with that value.
 * Returns 0; -EOPNOTSUPP: wsd is too old. Since 0.1. */
WSD_EXPORT int wsd_client_actions(struct wsd_client *client, uint32_t limit,
                                  int (*each)(const struct wsd_action_info *info, void *userdata), void *userdata);

/* The result of a reload. Fields are appended. Since 0.1. */
enum wsd_reload_outcome {
    WSD_RELOAD_FIRST = 1,   /* nothing was loaded before */
    WSD_RELOAD_SAME = 2,    /* the file has not changed */
    WSD_RELOAD_CHANGED = 3, /* jobs submitted from now on get the new file; earlier ones end with the old one */
    WSD_RELOAD_KEPT = 4,    /* the new file cannot be loaded (error): the old one stays in use */
};
struct wsd_reload_info {
    size_t size;
    enum wsd_reload_outcome outcome;
    uint32_t uid; /* the user of the executor; UINT32_MAX: shared by all */
    const char *name, *path;
    const char *version, *build;         /* in use now; build: the file's build id in hexadecimal, "" if it has none */
    const char *old_version, *old_build; /* before; "" with FIRST */
    const char *error;
    int exit; /* with KEPT: what wsctl exits with */
};

/* Loads a plugin's file now, by name or path, and waits for it. This happens once in each executor of the caller that
 * has the plugin; for administrators, in those of all users. each may be NULL. Returns 0; -ENOENT: there is no such
 * plugin, or it cannot be loaded and none is in use; -EAGAIN: another client is reloading it; -EACCES. A callback that
 * returns non-zero ends it with that value. Since 0.1. */
WSD_EXPORT int wsd_client_plugin_reload(struct wsd_client *client, const char *plugin,
                                        int (*each)(const struct wsd_reload_info *info, void *userdata),
                                        void *userdata);

/* Lists wsd's counters, by name. A callback that returns non-zero ends the listing with that value. Since 0.1. */
WSD_EXPORT int wsd_client_stats(struct wsd_client *client,
                                int (*each)(const char *name, uint64_t value, void *userdata), void *userdata);

/* How many values were from low to high, both included. Does not grow: it stands in arrays. Since 0.1. */
struct wsd_bucket {
    uint64_t low, high, count;
};

/* How often which values came. The buckets with values rise. The middle of each is within 1.6 % of its values, but for
 * values from 2^40 on: these are in the last bucket. Does not grow. Since 0.1. */
struct wsd_histogram {
    uint64_t count, sum, max; /* number of values; sum of all; the largest one */
    const struct wsd_bucket *buckets;
    size_t n_buckets;
};

/* One function of one user: how its jobs have ended, and how long they took, since wsd's start. Histograms have those
 * that have run. A direct call counts as a job; it is in no queue. Fields are appended. Since 0.1. */
struct wsd_function_stats {
    size_t size;
    /* Both "": of all users together (uid UINT32_MAX), what has made room for others; see wsctl(1). */
    const char *plugin, *function;
    uint32_t uid;
    uint64_t succeeded, failed, cancelled, timed_out, crashed, interrupted;
    uint64_t refused; /* not accepted, although the function was known */
    uint64_t direct;  /* of these, direct calls */
    struct wsd_histogram queue_usec, run_usec, cpu_usec, output_bytes; /* time from submit to begin; ...; result */
    /* Its circuit breaker, as in struct wsd_plugin_function. */
    uint32_t crashes;         /* of late */
    const char *why;          /* of the last of them; "" */
    bool in_quarantine;       /* new jobs of it are refused */
    bool on_trial;            /* but for one that runs now */
    uint64_t quarantine_usec; /* until one is let through on trial */
};

/* Lists the functions with jobs that have ended: the caller's own; administrators, and users that see all jobs, those
 * of all. Of the filter only plugin, function, by_uid and uid may be set; NULL: all. Each is valid during its callback.
 * A callback that returns non-zero ends the listing with that value. Returns 0; -EINVAL; -EOPNOTSUPP: wsd is too old
 * for it. Blocks for at most 30 seconds. Since 0.1. */
WSD_EXPORT int wsd_client_functions(struct wsd_client *client, const struct wsd_filter *filter,
                                    int (*each)(const struct wsd_function_stats *stats, void *userdata),
                                    void *userdata);

/* Returns the value below or at which this part of the values is: 0.5 the median, 0.99, 1 the largest. It is within
 * 1.6 % of the exact one. 0 without values. Since 0.1. [any thread] */
WSD_EXPORT uint64_t wsd_histogram_quantile(const struct wsd_histogram *histogram, double quantile);

/* --- what the pools do: these block for at most 30 seconds ------------------------------------------------------ */

enum wsd_worker_kind {
    WSD_WORKER = 1,
    WSD_WORKER_RETIRED = 2, /* there are fewer now: it has no thread, its counters stay */
    WSD_WORKER_GUEST = 3,   /* an outside thread that helps */
};

/* Does not grow: it stands in arrays. Since 0.1. */
struct wsd_counter_info {
    const char *name;
    uint64_t value;
};

/* One worker of an executor, with its counters since the executor's start; wsctl(1) says what they count. Fields are
 * appended. Since 0.1. */
struct wsd_worker_info {
    size_t size;
    uint32_t executor, worker;
    enum wsd_worker_kind kind;
    int cpu; /* the CPU that it is pinned to; -1: none */
    const struct wsd_counter_info *counters;
    size_t n_counters;
};

/* One executor. Fields are appended. Since 0.1. */
struct wsd_executor_info {
    size_t size;
    uint32_t executor; /* its number; 0: one that ended while it was traced, or (error 0) wsd */
    uint32_t uid;      /* of the user that it works for; UINT32_MAX: of all */
    uint32_t workers;  /* in force */
    int error;         /* 0, or a positive errno: ETIMEDOUT no answer, ESRCH it ended, or what it could not do */
    uint64_t lost;     /* events of its trace that newer ones have overwritten; samples that found no room */
    /* Its process, for wsd_client_workers() only. 0: not known. */
    uint32_t pid;
    uint32_t descriptors; /* that it has open */
    uint64_t age_usec;    /* since it was started */
    uint64_t memory;      /* bytes of its own that are resident */
};

/* Lists the workers of the caller's executor (administrators: of all), and each executor after its workers. Either
 * callback may be NULL. Each thing is valid during its callback. A callback that returns non-zero ends the listing with
 * that value. Returns 0 or -EAGAIN. Since 0.1. */
WSD_EXPORT int wsd_client_workers(struct wsd_client *client,
                                  int (*worker)(const struct wsd_worker_info *info, void *userdata),
                                  int (*executor)(const struct wsd_executor_info *info, void *userdata),
                                  void *userdata);

/* Gives every executor n workers (1 to 1024), present and future ones. The callback executor, which may be NULL, gets
 * each present one. Returns 0, -EACCES (for administrators only) or -EINVAL. Since 0.1. */
WSD_EXPORT int wsd_client_set_workers(struct wsd_client *client, uint32_t n,
                                      int (*executor)(const struct wsd_executor_info *info, void *userdata),
                                      void *userdata);

/* Begins a trace of the caller's executors, present and future ones (administrators: of all). It ends with this
 * connection, unless keep is set. Returns 0, -EAGAIN (a trace is under way) or -EACCES (the executor is shared with
 * other users). Since 0.1. */
WSD_EXPORT int wsd_client_trace_start(struct wsd_client *client, bool keep);

/* Ends the trace that this user began, on any connection, and delivers it. Each executor comes first, then its events.
 * What wsd itself did with the jobs comes likewise, as that of `executor` 0 with `error` 0, where wsd can tell. Events are
 * one JSON object of the Chrome trace format a line, in pieces of any size. An executor may write anything there: check
 * it. A callback that returns non-zero ends it with that value. Returns 0 or -ENOENT (no trace is under way). Since
 * 0.1. */
WSD_EXPORT int wsd_client_trace_stop(struct wsd_client *client,
                                     int (*executor)(const struct wsd_executor_info *info, void *userdata),
                                     int (*events)(const void *data, size_t size, void *userdata), void *userdata);

/* As wsd_client_trace_start(), for a profile: samples of where the workers spend their CPU time, `rate` (1 to 999) in a
 * second of it. Only one of the two can be under way. Returns 0, -EAGAIN, -EACCES, -EINVAL (the rate) or -EOPNOTSUPP (wsd
 * is older). Since 0.1. */
WSD_EXPORT int wsd_client_profile_start(struct wsd_client *client, uint32_t rate, bool keep);

/* Ends the profile that this user began, on any connection, and delivers it. Each executor comes first; its `lost` counts
 * the samples that found no room. Then come its stacks, in pieces of any size: a line each, PLUGIN:FUNCTION;FRAME;FRAME
 * COUNT, the outermost frame first, COUNT in periods of the rate. The same stack may come several times. An executor may
 * write anything there: check it. A callback that returns non-zero ends it with that value. Returns 0, -ENOENT (no
 * profile is under way) or -EOPNOTSUPP. Since 0.1. */
WSD_EXPORT int wsd_client_profile_stop(struct wsd_client *client,
                                       int (*executor)(const struct wsd_executor_info *info, void *userdata),
                                       int (*stacks)(const void *data, size_t size, void *userdata), void *userdata);

/* Tells where a running job stands. First comes the executor that has it, then for each of its workers a line with the
 * state of the thread and its backtrace, a frame a line. The text comes in pieces of any size. An executor may write
 * anything there. A system call that a signal handler interrupts for good, such as poll(2), returns EINTR in the job.
 * Returns 0, -ENOENT (no such job, or it does not run now) or -EOPNOTSUPP (wsd is older). Since 0.1. */
WSD_EXPORT int wsd_client_stack(struct wsd_client *client, const struct wsd_id *id,
                                int (*executor)(const struct wsd_executor_info *info, void *userdata),
                                int (*text)(const void *data, size_t size, void *userdata), void *userdata);

/* Sends a message to wsd and waits for its answer. Sets *ret_usec to the time that this took, unless ret_usec is NULL.
 * Since 0.1. */
WSD_EXPORT int wsd_client_ping(struct wsd_client *client, uint64_t *ret_usec);

/* Names the person that the next requests of this connection are for. A service that acts for others, such as wsd-web,
 * says it before each. It stands in wsd's log beside what they want changed. It gives no right, and is not checked.
 * NULL and "": no person. At most 255 bytes. Does not block. Returns 0; -EINVAL; -EOPNOTSUPP: wsd is too old for it;
 * -ENOMEM. Since 0.1. */
WSD_EXPORT int wsd_client_person(struct wsd_client *client, const char *name);

/* --- asking in an event loop ------------------------------------------------------------------------------------ */

/* Asks without blocking what wsd_client_ping(), wsd_client_job(), wsd_client_list_where() and wsd_client_stats() ask.
 * With filter NULL, wsd_client_ask_list() asks what wsd_client_list() asks. Answers come as callbacks, as those of
 * struct wsd_callbacks do:
 *
 * each is called for each job or counter, with what is valid during the callback. A return value other than 0 ends the
 * answer, and is the error of done.
 *
 * done is called once, last. error 0: the answer is complete. Otherwise text is the error text; it is valid until the
 * next call on the handle. It is "" if each has ended the answer. The values of error are those of the blocking call.
 * It is -ETIMEDOUT if no answer came before the deadline of the handle (wsd_client_set_deadline(), else 30 seconds). It
 * is -ECONNRESET after wsd_client_free() and the end of the connection.
 *
 * Both may be NULL. Any number of questions may be under way; a filter and an id are copied. Each call returns 0, or a
 * negative errno: then nothing was asked, and neither callback is called. -EAGAIN: not connected yet. Since 0.1. */
WSD_EXPORT int wsd_client_ask_ping(struct wsd_client *client, void (*done)(int error, const char *text, void *userdata),
                                   void *userdata);
WSD_EXPORT int wsd_client_ask_job(struct wsd_client *client, const struct wsd_id *id,
                                  int (*each)(const struct wsd_job_info *info, void *userdata),
                                  void (*done)(int error, const char *text, void *userdata), void *userdata);
WSD_EXPORT int wsd_client_ask_list(struct wsd_client *client, const struct wsd_filter *filter,
                                   int (*each)(const struct wsd_job_info *info, void *userdata),
                                   void (*done)(int error, const char *text, void *userdata), void *userdata);
WSD_EXPORT int wsd_client_ask_stats(struct wsd_client *client,
                                    int (*each)(const char *name, uint64_t value, void *userdata),
                                    void (*done)(int error, const char *text, void *userdata), void *userdata);

/* The daemon's name and version, as long as the handle lives; the version of this library. Since 0.1. */
WSD_EXPORT const char *wsd_client_daemon_version(const struct wsd_client *client);
WSD_EXPORT const char *wsd_client_library_version(void);

/* --- helpers ---------------------------------------------------------------------------------------------------- */

/* Turns an id into text, and text into an id. wsd_id_parse() returns 0, or -EINVAL if the text is no id. From any
 * thread. Since 0.1. */
WSD_EXPORT void wsd_id_text(const struct wsd_id *id, char ret_text[WSD_ID_TEXT]);
WSD_EXPORT int wsd_id_parse(const char *text, struct wsd_id *ret_id);

/* Returns the name of a state as wsctl prints it ("timed-out"); valid for ever. From any thread. Since 0.1. */
WSD_EXPORT const char *wsd_job_state_name(enum wsd_job_state state);

#ifdef __cplusplus
}

template <typename T> inline T wsd_init()
{
    T t = T();

    t.size = sizeof(T);
    return t;
}
#endif

#endif
