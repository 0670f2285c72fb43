/* SPDX-License-Identifier: Apache-2.0
 *
 * throws.cpp: test plugin in C++: uncaught exceptions. */
#include <stdexcept>
#include <string>
#include <thread>

#include <wsd/plugin.h>
#include <wsd/task.h>

namespace moon {
struct no_cheese : std::runtime_error {
    using std::runtime_error::runtime_error;
};
} // namespace moon

namespace moon {
template <typename T> struct crater {
    /* Burns CPU until it is told to stop. */
    [[gnu::noinline]] static T dig(wsd_job *job, const std::string &with)
    {
        volatile T depth = 0;

        while (!wsd_job_cancelled(job))
            for (int i = 0; i < 100000; i++)
                depth = depth + (T)with.size();
        return depth;
    }
    [[gnu::noinline]] static T fall(volatile T *into)
    {
        *into = 1;
        return *into;
    }
};
} // namespace moon

static int burns(wsd_job *job, wsd_worker *)
{
    return moon::crater<int>::dig(job, "spoon") < 0;
}

/* By a fault, in a function with a long name. */
static int faults(wsd_job *, wsd_worker *)
{
    volatile int *volatile nowhere = nullptr;

    return moon::crater<int>::fall(nowhere);
}

/* Out of the job's function. */
static int leaves_job(wsd_job *, wsd_worker *)
{
    throw moon::no_cheese("the moon is no cheese");
}

/* One that is none of std::exception. */
static int leaves_number(wsd_job *, wsd_worker *)
{
    throw 5;
}

[[gnu::noinline]] static void find(int n)
{
    throw std::out_of_range("no such crater: " + std::to_string(n));
}

WSD_VOID_TASK_1(thrower, int, n)
{
    find(n);
}

/* Out of a task. */
static int leaves_task(wsd_job *, wsd_worker *self)
{
    WSD_SPAWN(thrower, 5);
    WSD_SYNC(thrower);
    return 0;
}

/* Out of a thread. */
static int leaves_thread(wsd_job *, wsd_worker *)
{
    std::thread t([] { throw moon::no_cheese("nor is the thread"); });

    t.join();
    return 0;
}

/* A caught exception changes nothing. */
static int is_caught(wsd_job *job, wsd_worker *)
{
    try {
        throw moon::no_cheese("caught");
    } catch (const std::exception &e) {
        return wsd_job_print(job, "%s\n", e.what());
    }
}

static const wsd_function functions[] = {
    {"job", "throws", 0, leaves_job},
    {"number", "throws", 0, leaves_number},
    {"task", "throws", 0, leaves_task},
    {"thread", "throws", 0, leaves_thread},
    {"caught", "throws", 0, is_caught},
    {"burns", "burns CPU until cancelled", 0, burns},
    {"faults", "faults in a template", 0, faults},
};
WSD_PLUGIN(.n_functions = 7, .functions = functions, .name = "throws", .version = "1", .help = "throws exceptions");
