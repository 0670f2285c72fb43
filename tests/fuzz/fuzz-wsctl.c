/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-wsctl.c: any command line through wsctl's own main(). Input: the arguments one behind the other, each ending in
 * NUL. The linker puts stand-ins where wsctl would leave the process: connecting (which fails), running a plugin in
 * wsctl itself, opening an input, and what goes to stderr.
 * Keeps: The exit code is one of wsctl(1). Each line about an error begins with `wsctl: `, and has nothing that steers
 * a terminal. There is a message exactly where there is an error. What --local is given is within its limits. */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <string.h>
#include <unistd.h>

#include "base/code.h"
#include "client/wsctl/local.h"
#include "client/wsctl/ctl.h"
#include "client/wsctl/print.h"
#include "client/wsctl/stream.h"
#include "client/wsctl/submit.h"

#define ARGS_MAX 64

int wsctl_main(int argc, char **argv);
int __wrap_ctl_connect(const struct ctl *ctl, struct wsd_client **ret_client);
int __wrap_wsd_client_open(struct wsd_client **ret_client, const char *socket, uint64_t timeout_usec);
int __wrap_wsd_client_open_tls(struct wsd_client **ret_client, const struct wsd_tls *tls, uint64_t timeout_usec);
int __wrap_submit_local(const struct ctl *ctl, const struct submit_options *options);
int __wrap_local_probe(const struct ctl *ctl, const struct submit_options *options, struct local_measure *measure,
                       uint64_t *ret_usec);
int __wrap_output_open(struct output *output, const char *path, const struct outfile_reads *reads);
int __wrap_input_open(struct input *input, const char *path);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __real_write(int fd, const void *data, size_t size);

static char said[16384];
static size_t n_said;
static bool listening;

ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    if (fd != STDERR_FILENO || !listening)
        return __real_write(fd, data, size);
    FUZZ_CHECK(n_said + size < sizeof(said));
    memcpy(said + n_said, data, size);
    n_said += size;
    return (ssize_t)size;
}

int __wrap_ctl_connect(const struct ctl *ctl, struct wsd_client **ret_client)
{
    *ret_client = NULL;
    return ctl_error(CODE_NO_DAEMON, ctl->socket ? ctl->socket : "wsd", "nobody is there");
}

int __wrap_wsd_client_open(struct wsd_client **ret_client, const char *socket, uint64_t timeout_usec)
{
    *ret_client = NULL;
    return -ENOENT;
}

int __wrap_wsd_client_open_tls(struct wsd_client **ret_client, const struct wsd_tls *tls, uint64_t timeout_usec)
{
    *ret_client = NULL;
    return -ENOENT;
}

/* Nothing is written. */
int __wrap_output_open(struct output *output, const char *path, const struct outfile_reads *reads)
{
    return ctl_error(CODE_IO, "output", "is not written here");
}

int __wrap_local_probe(const struct ctl *ctl, const struct submit_options *o, struct local_measure *measure,
                       uint64_t *ret_usec)
{
    FUZZ_CHECK(o->job.plugin && *o->job.plugin && o->name && *o->name && o->workers <= 256);
    for (size_t i = 0; i < o->job.n_args; i++)
        FUZZ_CHECK(o->job.args[i]);
    *ret_usec = 1;
    return 0;
}

int __wrap_submit_local(const struct ctl *ctl, const struct submit_options *o)
{
    FUZZ_CHECK(o->local && !submit_detaches(o) && o->job.plugin && *o->job.plugin && o->name && *o->name);
    FUZZ_CHECK(!o->job.function || *o->job.function);
    FUZZ_CHECK(o->workers <= 1024 && o->job.priority >= -100 && o->job.priority <= 100 && o->n_plugin_dirs <= 16);
    FUZZ_CHECK(o->job.timeout_usec <= 1000000000000000000u);
    for (size_t i = 0; i < o->job.n_args; i++)
        FUZZ_CHECK(o->job.args[i]);
    FUZZ_CHECK(!o->job.args[o->job.n_args]);
    return 0;
}

int __wrap_input_open(struct input *input, const char *path)
{
    *input = (struct input){.fd = -1, .name = path ? path : "none"};
    return 0;
}

static void check_said(int exit)
{
    static const int codes[] = {0, 64, 66, 69, 74, 77};
    bool known = false;
    size_t n = 0;

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        known = known || exit == codes[i];
    if (!known || (exit == 0) != (n_said == 0))
        fprintf(stderr, "exit %d, said: %.*s\n", exit, (int)n_said, said);
    FUZZ_CHECK(known && (exit == 0) == (n_said == 0));
    for (char *line = said, *end; n < n_said; n += (size_t)(end - line) + 1, line = end + 1) {
        end = memchr(line, '\n', n_said - n);
        FUZZ_CHECK(end && end - line > 9 && strncmp(line, "wsctl: ", 7) == 0);
        for (const char *p = line; p < end; p++)
            FUZZ_CHECK(((unsigned char)*p >= ' ' || *p == '\t') && *p != 0x7f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool quiet;
    char *argv[ARGS_MAX + 2] = {(char[]){"wsctl"}}, *all = malloc(size + 1);
    int argc = 1, exit;

    FUZZ_CHECK(all);
    if (!quiet) /* what --help says is not looked at */
        FUZZ_CHECK(freopen("/dev/null", "we", stdout));
    quiet = true;
    memcpy(all, data, size);
    all[size] = 0;
    for (size_t at = 0; at < size && argc <= ARGS_MAX; at += strlen(all + at) + 1)
        argv[argc++] = all + at;
    n_said = 0;
    optind = 0; /* glibc: begin anew */
    listening = true;
    exit = wsctl_main(argc, argv);
    listening = false;
    check_said(exit);
    free(all);
    return 0;
}
