/* SPDX-License-Identifier: Apache-2.0
 *
 * test-throws-cxx.cpp: tasks that an exception leaves; called from test-throws.c. */
#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include <wsd/task.h>

static std::atomic<bool> started;

static void leave()
{
    started = true;
    throw std::runtime_error("left a task");
}

WSD_TASK_1(int, with_result, int, x)
{
    leave();
    return x;
}

WSD_VOID_TASK_0(without_result)
{
    leave();
}

static void plain(wsd_worker *, void *)
{
    leave();
}

static void piece(wsd_worker *, uint64_t begin, uint64_t, void *)
{
    if (begin == 0)
        leave();
}

static void wait_for_thief(bool stolen)
{
    while (stolen && !started)
        ;
}

/* Exits with 0 where a caller could catch it. */
extern "C" void cxx_throw(wsd_worker *self, int how, bool stolen);

extern "C" void cxx_throw(wsd_worker *self, int how, bool stolen)
{
    try {
        switch (how) {
        case 0:
            WSD_SPAWN(with_result, 1);
            wait_for_thief(stolen);
            WSD_SYNC(with_result);
            break;
        case 1:
            WSD_SPAWN(without_result);
            wait_for_thief(stolen);
            WSD_SYNC(without_result);
            break;
        case 2:
            wsd_spawn(self, plain, nullptr);
            wait_for_thief(stolen);
            wsd_sync(self);
            break;
        case 3:
            wsd_for(self, 0, 1000, 1, piece, nullptr);
            break;
        default:
            WSD_CALL(with_result, 1);
        }
    } catch (const std::runtime_error &) {
    }
    std::_Exit(0);
}
