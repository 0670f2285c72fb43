/* SPDX-License-Identifier: Apache-2.0
 *
 * exec.c: the plugin `exec`: runs a command; its output and status are the job's.
 * Owns the child, its session and the pipes while its job runs.
 * Keeps: when the function returns, the child is reaped and what is left of its process group killed; no descriptor
 * but 0, 1 and 2 goes to the child. Off unless the configuration names it.
 * Does not feed the input through a pipe: a memfd cannot make this process a victim of SIGPIPE, or of a child that
 * reads slowly while it writes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
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
    pid_t pid;
    int pidfd;
    int input, output[2], error[2]; /* [0] is ours */
    bool ended;
    int lost; /* the output's error */
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

static int set_actions(struct command *command, posix_spawn_file_actions_t *actions)
{
    int r = posix_spawn_file_actions_addchdir_np(actions, command->directory);

    if (!r)
        r = posix_spawn_file_actions_adddup2(actions, command->input, 0);
    if (!r)
        r = posix_spawn_file_actions_adddup2(actions, command->output[1], 1);
    if (!r)
        r = posix_spawn_file_actions_adddup2(actions, command->error[1], 2);
    if (!r)
        r = posix_spawn_file_actions_addclosefrom_np(actions, 3);
    return r;
}

static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    int r;

    sigemptyset(&none);
    sigfillset(&all);
    r = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    if (!r)
        r = posix_spawnattr_setsigdefault(attributes, &all);
    if (!r)
        r = posix_spawnattr_setsigmask(attributes, &none);
    return r;
}

/* Where the threads of this process may run: what a command gets, also from a worker that sits on one CPU. [const after
 * init] */
static cpu_set_t all_cpus;
static bool has_all_cpus;

static int find_cpus(void)
{
    has_all_cpus = sched_getaffinity(0, sizeof(all_cpus), &all_cpus) == 0;
    return 0;
}

/* posix_spawnp() on this thread, with its CPUs as they were before it was pinned. */
static int spawn_unpinned(struct command *command, const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *attributes, char *const *argv, char *const *environment)
{
    cpu_set_t mine;
    bool pinned = has_all_cpus && pthread_getaffinity_np(pthread_self(), sizeof(mine), &mine) == 0 &&
                  !CPU_EQUAL(&mine, &all_cpus) &&
                  pthread_setaffinity_np(pthread_self(), sizeof(all_cpus), &all_cpus) == 0;
    int r = posix_spawnp(&command->pid, argv[0], actions, attributes, argv, environment);

    if (pinned)
        (void)pthread_setaffinity_np(pthread_self(), sizeof(mine), &mine);
    return r;
}

/* 0 or a negative errno: that of exec too. */
static int spawn(struct command *command)
{
    struct wsd_job *job = command->job;
    /* Neither strings nor array are written to: exec's prototype is older than const. */
    char *const *argv = (char *const *)(uintptr_t)(job->argv + 1);
    char *environment[] = {command->path, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int r = posix_spawn_file_actions_init(&actions);

    if (r)
        return -r;
    r = posix_spawnattr_init(&attributes);
    if (!r) {
        r = set_actions(command, &actions);
        if (!r)
            r = set_attributes(&attributes);
        if (!r)
            r = spawn_unpinned(command, &actions, &attributes, argv, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (r)
        return -r;
    command->pidfd = pidfd_open(command->pid, 0);
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

/* The child is not reaped yet, so that its group's number is still its own. */
static void kill_group(struct command *command, int signal)
{
    kill(-command->pid, signal);
}

static unsigned now_msec(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    /* Never 0, which means "not yet"; differences are right across an overflow. */
    return ((unsigned)now.tv_sec * 1000u + (unsigned)now.tv_nsec / 1000000u) | 1u;
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
        {.fd = command->ended ? -1 : command->pidfd, .events = POLLIN},
    };

    wait_polled(command, polled, ARRAY_SIZE(polled));
    if (polled[0].revents)
        take_pipe(command, &command->output[0], data);
    if (polled[1].revents)
        take_pipe(command, &command->error[0], data);
    if (polled[2].revents) {
        command->ended = true;
        command->ended_msec = now_msec();
    }
    if (to_be_killed(command)) {
        if (!command->killed_msec) {
            command->killed_msec = now_msec();
            kill_group(command, SIGTERM);
        } else if (now_msec() - command->killed_msec > LINGER_MSEC) {
            kill_group(command, SIGKILL);
        }
    }
    if (!command->ended)
        return true;
    return (command->output[0] >= 0 || command->error[0] >= 0) && now_msec() - command->ended_msec <= LINGER_MSEC;
}

/* Returns the wait status. */
static int wait_end(struct command *command)
{
    _cleanup_(freep) char *data = malloc(PIECE);
    int status = 0;

    if (data && command->pidfd >= 0)
        while (wait_turn(command, data))
            ;
    else
        wsd_job_fail(command->job, WSD_STATUS_MAX, "out of memory or descriptors");
    kill_group(command, SIGKILL);
    while (waitpid(command->pid, &status, 0) < 0)
        if (errno != EINTR)
            break;
    if (command->n_line)
        log_line(command);
    return status;
}

/* ---- the job ---- */

static int fail_exit(struct wsd_job *job, int code, const char *why)
{
    wsd_job_status(job, "exit %d", code);
    return wsd_job_fail(job, WSD_STATUS_MAX, "%s: %s", job->argv[1], why);
}

static int report(struct wsd_job *job, int status)
{
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
    struct wsd_job *job = command->job;
    int r = make_pipes(command);

    if (!r)
        r = spawn(command);
    command->input = close_fd(command->input);
    command->output[1] = close_fd(command->output[1]);
    command->error[1] = close_fd(command->error[1]);
    if (r == -ENOENT)
        return fail_exit(job, 127, strchr(job->argv[1], '/') ? error_text(r) : "command not found");
    if (r == -EACCES || r == -ENOEXEC || r == -EISDIR)
        return fail_exit(job, 126, error_text(r));
    if (r)
        return wsd_job_fail(job, WSD_STATUS_MAX, "%s: %s", job->argv[1], error_text(r));
    r = wait_end(command);
    return report(job, r);
}

static int exec(struct wsd_job *job, struct wsd_worker *self)
{
    struct command command = {.job = job, .self = self, .pidfd = -1, .input = -1, .output = {-1, -1}, .error = {-1, -1}};
    const char *path = getenv("PATH");
    struct stat st;
    int status;

    if (job->argc < 2)
        return wsd_job_fail(job, 2, "no command; usage: exec COMMAND [ARGUMENT]...");
    command.directory = wsd_job_directory(job);
    if (!command.directory)
        return wsd_job_fail(job, WSD_STATUS_MAX, "this wsd does not run with your rights, so it runs no commands");
    if (stat(command.directory, &st) < 0)
        return wsd_job_fail(job, WSD_STATUS_MAX, "%s: %s", command.directory, error_text(errno));
    if (asprintf(&command.path, "PATH=%s", path && *path ? path : PATH_DEFAULT) < 0)
        return wsd_job_fail(job, WSD_STATUS_MAX, "out of memory");
    status = run_command(&command);
    free(command.path);
    close_fd(command.pidfd);
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

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .init = find_cpus, .name = "exec",
           .version = "0.1.0", .help = "runs a command in the submitter's directory");
