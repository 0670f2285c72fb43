/* SPDX-License-Identifier: Apache-2.0
 *
 * constructor.c: test plugin: what CONSTRUCTOR_... says happens while it is loaded. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <wsd/plugin.h>

#ifdef CONSTRUCTOR_STARTS_A_THREAD
static void *crash(void *arg)
{
    usleep(1000);
    raise(SIGSEGV);
    return arg;
}
#endif

static void harm(void)
{
#if defined CONSTRUCTOR_CRASHES
    raise(SIGBUS);
#elif defined CONSTRUCTOR_EXITS
    exit(0);
#elif defined CONSTRUCTOR_LEAVES
    _exit(0);
#elif defined CONSTRUCTOR_STARTS_A_THREAD
    pthread_t thread;

    pthread_create(&thread, NULL, crash, NULL);
    pause();
#else
    for (;;)
        pause();
#endif
}

#ifdef CONSTRUCTOR_HANGS_IN_INIT
#define INIT init
static int init(void)
{
    harm();
    return 0;
}
#else
#define INIT NULL
__attribute__((constructor)) static void construct(void)
{
    harm();
}
#endif

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    return 0;
}

static const struct wsd_function functions[] = {{.name = "run", .help = "never runs", .run = run}};
WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "constructor", .version = "1", .help = "cannot be loaded",
           .init = INIT);
