/* SPDX-License-Identifier: Apache-2.0
 *
 * exec.c: the plugin `exec`: runs a command; its output and status are the job's.
 * Owns the pipes, and the handle of the command, while its job runs.
 * Keeps: when the function returns, nothing of the command is left. Off unless the configuration names it.
 * Does not start processes: wsd_job_command() does, and sees to their end where this process dies.
 * Does not feed the input through a pipe: a memfd cannot make this process a victim of SIGPIPE, or of a child that
 * reads slowly while it writes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "wsd/task.h"

#define POLL_MSEC    20   /* between two looks at the cancel flag */
#define SHORTLY_USEC 200  /* a command that says nothing for longer is waited for without a CPU */
#define LINGER_MSEC  1000 /* for output after the child's end, and between SIGTERM and SIGKILL */
#define PIECE        (64u * 1024)
#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct command {
    struct wsd_job *job;
    struct wsd_worker *self;
    const char *directory;
    char *path; /* PATH=... */
    int handle; /* of wsd_job_command() */
    struct wsd_command_end end;
    int input, output[2], error[2]; /* [0] is ours */
    bool ended;
    bool orphaned; /* the process that watched it was killed */
    int lost;      /* the output's error */
    unsigned killed_msec, ended_msec;
    char line[WSD_TEXT_MAX - 1]; /* of stderr, not yet complete */
    size_t n_line;
};

/* ---- start ---- */

static int make_input(struct command *command)
{
    const char *data = command->job->input;
    uint64_t left = data ? command->job->input_size : 0;

    if (!left) {
        command->input = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return command->input < 0 ? -errno : 0;
    }
    command->input = memfd_create("wsd-exec-input", MFD_CLOEXEC);
    if (command->input < 0)
        return -errno;
    while (left) {
        ssize_t n = write(command->input, data, left);

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            data += n;
            left -= (uint64_t)n;
        }
    }
    return lseek(command->input, 0, SEEK_SET) < 0 ? -errno : 0;
}

static int make_pipes(struct command *command)
{
    int r = make_input(command);

    if (r)
        return r;
    if (pipe2(command->output, O_CLOEXEC) < 0 || pipe2(command->error, O_CLOEXEC) < 0)
        return -errno;
    return 0;
}

/* 0 or a negative errno: that of exec too. */
static int start_command(struct command *command)
{
    const char *const environment[] = {command->path, NULL};
    const struct wsd_command c = {
        .argv = command->job->argv + 1,
        .environment = environment,
        .directory = command->directory,
        .fds = {command->input, command->output[1], command->error[1]},
    };
    int r = wsd_job_command(command->job, &c);

    if (r < 0)
        return r;
    command->handle = r;
    return 0;
}

/* ---- run ---- */

static void log_line(struct command *command)
{
    wsd_job_log(command->job, WSD_LOG_INFO, "%.*s", (int)command->n_line, command->line);
    command->n_line = 0;
}

static void take_error(struct command *command, const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (data[i] != '\n')
            command->line[command->n_line++] = data[i];
        if (data[i] == '\n' || command->n_line == sizeof(command->line))
            log_line(command);
    }
}

/* Reads what is there; closes the pipe at its end. */
static void take_pipe(struct command *command, int *fd, char *data)
{
    ssize_t n = read(*fd, data, PIECE);

    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0) {
        if (n < 0 && !command->lost)
            command->lost = -errno;
        *fd = close_fd(*fd);
        return;
    }
    if (fd == &command->error[0]) {
        take_error(command, data, (size_t)n);
    } else if (!command->lost) {
        command->lost = wsd_job_write(command->job, data, (size_t)n);
        if (!command->lost)
            command->lost = wsd_job_flush(command->job);
    }
}

static unsigned now_msec(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    /* Never 0, which means "not yet"; differences are right across an overflow. */
    return ((unsigned)now.tv_sec * 1000u + (unsigned)now.tv_nsec / 1000000u) | 1u;
}

/* Of its process group; what has left that is ended at the end. */
static void terminate(struct command *command)
{
    const int32_t signal = SIGTERM;

    (void)send(command->handle, &signal, sizeof(signal), MSG_NOSIGNAL);
}

/* False: how it ended is unknown, since the process that watched it was killed. */
static bool take_end(struct command *command)
{
    command->ended = true;
    command->ended_msec = now_msec();
    return recv(command->handle, &command->end, sizeof(command->end), MSG_WAITALL) == sizeof(command->end);
}

/* Everything that it has started is killed, and gone on return. */
static void end_all(struct command *command)
{
    struct wsd_command_end end;
    ssize_t n;

    shutdown(command->handle, SHUT_WR);
    wsd_blocking_begin(command->self);
    do {
        n = recv(command->handle, &end, sizeof(end), MSG_WAITALL);
        if (n == sizeof(end))
            command->end = end;
    } while (n > 0 || (n < 0 && errno == EINTR));
    wsd_blocking_end(command->self);
}

static bool to_be_killed(const struct command *command)
{
    return wsd_job_cancelled(command->job) || command->lost;
}

/* Until something comes, or a clock is to be looked at. Other jobs use the CPU meanwhile. */
static void wait_polled(struct command *command, struct pollfd *polled, nfds_t n)
{
    const struct timespec shortly = {.tv_nsec = SHORTLY_USEC * 1000L};

    if (ppoll(polled, n, &shortly, NULL) != 0)
        return;
    wsd_blocking_begin(command->self);
    while (poll(polled, n, POLL_MSEC) == 0 && !command->ended && !to_be_killed(command))
        ;
    wsd_blocking_end(command->self);
}

/* One turn of the loop: false once there is nothing to wait for. */
static bool wait_turn(struct command *command, char *data)
{
    struct pollfd polled[] = {
        {.fd = command->output[0], .events = POLLIN},
        {.fd = command->error[0], .events = POLLIN},
        {.fd = command->ended ? -1 : command->handle, .events = POLLIN},
    };

    wait_polled(command, polled, ARRAY_SIZE(polled));
    if (polled[0].revents)
        take_pipe(command, &command->output[0], data);
    if (polled[1].revents)
        take_pipe(command, &command->error[0], data);
    if (polled[2].revents && !take_end(command)) {
        command->orphaned = true;
        return false;
    }
    if (to_be_killed(command)) {
        if (command->ended)
            return false;
        if (!command->killed_msec) {
            command->killed_msec = now_msec();
            terminate(command);
        } else if (now_msec() - command->killed_msec > LINGER_MSEC) {
            return false;
        }
    }
    if (!command->ended)
        return true;
    return (command->output[0] >= 0 || command->error[0] >= 0) && now_msec() - command->ended_msec <= LINGER_MSEC;
}

static void wait_end(struct command *command, char *data)
{
    while (wait_turn(command, data))
        ;
    if (!command->ended || command->end.left || command->orphaned)
        end_all(command);
    if (command->n_line)
        log_line(command);
}

/* ---- the job ---- */

static int fail_exit(struct wsd_job *job, int code, const char *why)
{
    wsd_job_status(job, "exit %d", code);
    return wsd_job_fail(job, WSD_STATUS_MAX, "%s: %s", job->argv[1], why);
}

/* What was meant as an option of exec, which has none, is the name of a command here. */
static int not_found(struct wsd_job *job)
{
    if (job->argv[1][0] != '-')
        return fail_exit(job, 127, "command not found");
    wsd_job_status(job, "exit 127");
    return wsd_job_fail(
        job, WSD_STATUS_MAX,
        "%s: there is no command of this name, and exec has no options: usage: exec COMMAND [ARGUMENT]...; "
        "see `wsctl plugin show exec`",
        job->argv[1]);
}

static int report_start(struct wsd_job *job, int error)
{
    if (error == -ENOENT && !strchr(job->argv[1], '/'))
        return not_found(job);
    if (error == -ENOENT)
        return fail_exit(job, 127, error_text(error));
    if (error == -EACCES || error == -ENOEXEC || error == -EISDIR)
        return fail_exit(job, 126, error_text(error));
    if (error == -ETIMEDOUT || error == -ECONNRESET)
        return wsd_job_fail(job, WSD_STATUS_MAX, "%s: the process that starts commands %s", job->argv[1],
                            error == -ETIMEDOUT ? "did not answer, and is replaced" : "was killed");
    return wsd_job_fail(job, WSD_STATUS_MAX, "%s: %s", job->argv[1], error_text(error));
}

static int report(struct command *command)
{
    struct wsd_job *job = command->job;
    int status = command->end.status;

    if (command->orphaned)
        return wsd_job_fail(job, WSD_STATUS_MAX, "%s: the process that watched it was killed, and it was ended",
                            job->argv[1]);
    if (WIFSIGNALED(status)) {
        wsd_job_status(job, "signal %d", WTERMSIG(status));
        return wsd_job_fail(job, WSD_STATUS_MAX, "%s: ended by signal %d", job->argv[1], WTERMSIG(status));
    }
    if (WEXITSTATUS(status) > WSD_STATUS_MAX) {
        wsd_job_status(job, "exit %d", WEXITSTATUS(status));
        return wsd_job_fail(job, WSD_STATUS_MAX, "%s: exit %d", job->argv[1], WEXITSTATUS(status));
    }
    return WEXITSTATUS(status);
}

static int run_command(struct command *command)
{
    _cleanup_(freep) char *data = malloc(PIECE);
    int r = data ? make_pipes(command) : -ENOMEM;

    if (!r)
        r = start_command(command);
    command->input = close_fd(command->input);
    command->output[1] = close_fd(command->output[1]);
    command->error[1] = close_fd(command->error[1]);
    if (r)
        return report_start(command->job, r);
    wait_end(command, data);
    if (command->lost)
        return wsd_job_fail(command->job, WSD_STATUS_MAX, "output: %s", error_text(command->lost));
    return report(command);
}

/* 0, or the status of a job that has none which it could use. */
static int find_directory(struct command *command)
{
    struct wsd_job *job = command->job;
    struct stat st;

    command->directory = wsd_job_directory(job);
    if (!command->directory)
        return wsd_job_fail(job, WSD_STATUS_MAX, "this wsd does not run with your rights, so it runs no commands");
    if (!*command->directory)
        return wsd_job_fail(
            job, WSD_STATUS_MAX,
            "the directory that it was submitted in is gone (removed, or without a name that wsd could use)");
    if (stat(command->directory, &st) < 0)
        return wsd_job_fail(job, WSD_STATUS_MAX, "the directory that it was submitted in, %s: %s", command->directory,
                            error_text(errno));
    return 0;
}

static int exec(struct wsd_job *job, struct wsd_worker *self)
{
    struct command command = {
        .job = job, .self = self, .handle = -1, .input = -1, .output = {-1, -1}, .error = {-1, -1}};
    const char *path = getenv("PATH");
    int status;

    if (job->argc < 2)
        return wsd_job_fail(job, 2, "no command; usage: exec COMMAND [ARGUMENT]...");
    status = find_directory(&command);
    if (status)
        return status;
    if (asprintf(&command.path, "PATH=%s", path && *path ? path : PATH_DEFAULT) < 0)
        return wsd_job_fail(job, WSD_STATUS_MAX, "out of memory");
    status = run_command(&command);
    free(command.path);
    close_fd(command.handle);
    close_fd(command.output[0]);
    close_fd(command.error[0]);
    return status;
}

static const struct wsd_function functions[] = {
    {.name = "exec",
     .help = "COMMAND [ARGUMENT]...: runs a command; its output and status are the job's",
     .flags = WSD_FN_OPT_IN,
     .run = exec},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "exec", .version = "0.1.0",
           .help = "runs a command in the submitter's directory");
