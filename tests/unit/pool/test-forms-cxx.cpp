/* SPDX-License-Identifier: Apache-2.0
 *
 * test-forms-cxx.cpp: wsd/forms.h compiles and works in C++, with lambdas as functions; called from test-group.c. */
#include <wsd/forms.h>

extern "C" int cxx_forms(wsd_worker *self);

static int group(wsd_worker *self)
{
    wsd_group g;
    int value = 0;

    wsd_group_begin(self, &g, nullptr);
    wsd_group_spawn(self, &g, [](wsd_worker *, void *arg) { return *static_cast<int *>(arg) = 1, 0; }, &value);
    int error = wsd_group_end(self, &g);
    return error || value != 1 || wsd_group_cancelled(nullptr);
}

static int loops(wsd_worker *self)
{
    unsigned char seen[100] = {};
    uint64_t found = 0;
    int error = wsd_for_each(
        self, nullptr, 0, 100, 0,
        [](wsd_worker *, wsd_group *, uint64_t begin, uint64_t end, void *arg) {
            for (; begin < end; begin++)
                static_cast<unsigned char *>(arg)[begin] = begin >= 60;
            return 0;
        },
        seen);
    error += wsd_find_first(
        self, nullptr, 0, 100, 1,
        [](wsd_worker *, wsd_group *, uint64_t begin, uint64_t, void *arg, uint64_t *ret) {
            if (static_cast<unsigned char *>(arg)[begin])
                *ret = begin;
            return 0;
        },
        seen, &found);
    return error || found != 60;
}

static int sums(wsd_worker *self)
{
    wsd_reduction r = {};
    wsd_scan_args s = {};
    long zero = 0, sum, in[50], out[50];

    r.size = sizeof(long);
    r.identity = &zero;
    r.body = [](wsd_worker *, wsd_group *, uint64_t begin, uint64_t end, void *value, void *) {
        for (; begin < end; begin++)
            *static_cast<long *>(value) += static_cast<long>(begin);
        return 0;
    };
    r.combine = [](wsd_worker *, wsd_group *, void *left, void *right, void *) {
        *static_cast<long *>(left) += *static_cast<long *>(right);
        return 0;
    };
    int error = wsd_reduce(self, nullptr, 0, 1000, 0, &r, &sum);
    for (long &i : in)
        i = 2;
    s.in = in;
    s.out = out;
    s.count = 50;
    s.size = sizeof(long);
    s.grain = 3;
    s.combine = [](void *left, const void *right, void *) {
        *static_cast<long *>(left) += *static_cast<const long *>(right);
        return 0;
    };
    error += wsd_scan(self, nullptr, &s);
    error += wsd_sort(
        self, nullptr, out, 50, sizeof(long),
        [](const void *a, const void *b, void *) {
            long x = *static_cast<const long *>(a), y = *static_cast<const long *>(b);
            return (y > x) - (y < x);
        },
        nullptr);
    return error || sum != 499500 || out[0] != 100 || out[49] != 2;
}

static int pipeline(wsd_worker *self)
{
    wsd_stage stages[2] = {};
    struct {
        long numbers[100], n;
    } made = {};
    long sum = 0;

    stages[0].kind = WSD_STAGE_SERIAL;
    stages[0].arg = &made;
    stages[0].run = [](wsd_worker *, wsd_group *, void **item, void *arg) {
        auto m = static_cast<decltype(made) *>(arg);
        if (m->n < 100) {
            m->numbers[m->n] = m->n + 1;
            *item = &m->numbers[m->n++];
        }
        return 0;
    };
    stages[1].kind = WSD_STAGE_ORDERED;
    stages[1].arg = &sum;
    stages[1].run = [](wsd_worker *, wsd_group *, void **item, void *arg) {
        *static_cast<long *>(arg) += *static_cast<long *>(*item);
        return 0;
    };
    int error = wsd_pipeline(self, nullptr, stages, 2, 4, [](void *, uint32_t, void *) {}, nullptr);
    return error || sum != 5050;
}

int cxx_forms(wsd_worker *self)
{
    return group(self) + loops(self) + sums(self) + pipeline(self);
}
