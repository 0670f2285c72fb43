/* SPDX-License-Identifier: Apache-2.0
 *
 * test-task-cxx.cpp: wsd/task.h compiles and works in C++; called from test-task.c. */
#include <wsd/task.h>

struct pair {
    int a, b;
};

WSD_TASK_1(long, fib, int, n)
{
    if (n < 2)
        return n;
    WSD_SPAWN(fib, n - 1);
    long b = WSD_CALL(fib, n - 2);
    return WSD_SYNC(fib) + b;
}

WSD_VOID_TASK_2(store, pair *, p, int, v)
{
    p->a = v;
}

WSD_TASK_0(pair, make)
{
    return pair{1, 2};
}

extern "C" long cxx_run(wsd_worker *self, int n);

extern "C" long cxx_run(wsd_worker *self, int n)
{
    pair p{0, 0};

    WSD_SPAWN(store, &p, 1);
    WSD_SPAWN(make);
    wsd_spawn(self, [](wsd_worker *, void *arg) { static_cast<pair *>(arg)->b = 0; }, &p);
    long v = WSD_CALL(fib, n);
    wsd_sync(self);
    pair made = WSD_SYNC(make);
    WSD_SYNC(store);
    return v + p.a + made.b;
}
