/* SPDX-License-Identifier: Apache-2.0
 *
 * fleet.h: what fleet.c and peer-fleet.c share: NATS servers with the streams of a fleet, and the sizes of what is
 * measured. */
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "process.h"

#define FLEET_SERVERS_MAX 3u
#define FLEET_NODES_MAX   2u
#define FLEET_HELD        256u /* a node */
#define FLEET_FLIGHT      256u /* as many jobs as wsd gives to a runner such as wsd-fleet */
#define FLEET_LETTER      128u /* bytes of a message: what wsd-fleet sends for a job of 16 bytes has as many */
#define FLEET_CALLS       2000u
#define FLEET_WARM_NSEC   1000000000u
#define FLEET_NSEC        3000000000u
#define FLEET_RATE        2000u /* jobs a second beside a local job */

static char fleet_dir[] = BENCH_DIR "fleet.XXXXXX";
static char fleet_urls[128];

static inline int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, size) < 0 || getsockname(fd, (struct sockaddr *)&a, &size) < 0)
        give_up("no free port");
    close(fd);
    return ntohs(a.sin_port);
}

/* Runs the program to its end. Returns its exit status. */
static inline int run_quietly(const char *const *argv)
{
    int status, null;
    pid_t pid = fork();

    if (pid == 0) {
        null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    return pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

/* n servers, each of which keeps each message, and the streams. */
static inline void start_nats(unsigned n, const char *wsd_fleet)
{
    int ports[FLEET_SERVERS_MAX], cluster[FLEET_SERVERS_MAX];
    char routes[128] = "", replicas[4], name[4], store[64], port[8], listen[40];

    if (!mkdtemp(fleet_dir))
        give_up("no directory");
    for (unsigned i = 0; i < n; i++) {
        ports[i] = free_port();
        cluster[i] = free_port();
        snprintf(routes + strlen(routes), sizeof(routes) - strlen(routes), "%snats://127.0.0.1:%d", i ? "," : "",
                 cluster[i]);
        snprintf(fleet_urls + strlen(fleet_urls), sizeof(fleet_urls) - strlen(fleet_urls), "%snats://127.0.0.1:%d",
                 i ? "," : "", ports[i]);
    }
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        snprintf(store, sizeof(store), "%s/%s", fleet_dir, name);
        snprintf(port, sizeof(port), "%d", ports[i]);
        snprintf(listen, sizeof(listen), "nats://127.0.0.1:%d", cluster[i]);
        if (fork_server() == 0)
            exec_server((const char *[]){"nats-server", "-a", "127.0.0.1", "-p", port, "-js", "-sd", store, "-n", name,
                                         "-l", "/dev/null", n > 1 ? "--cluster" : NULL, listen, "--cluster_name",
                                         "bench", "--routes", routes, NULL});
    }
    snprintf(replicas, sizeof(replicas), "%u", n);
    for (int i = 0; run_quietly((const char *[]){wsd_fleet, "--init", "-n", fleet_urls, "--replicas", replicas, NULL});
         i++) {
        if (i == 300)
            give_up("no streams");
        usleep(100000);
    }
}

static inline void remove_fleet_dir(void)
{
    run_quietly((const char *[]){"/bin/rm", "-rf", fleet_dir, NULL});
}
