// SPDX-License-Identifier: Apache-2.0
//
// thrower.cpp: what only C++ can do: an exception that passes through C.
#include "thrower.h"

namespace
{
struct thrown
{
    int magic;
};
} // namespace

void thrower_throw(void)
{
    throw thrown{42};
}

int thrower_catches(int (*call)(void), int *ret)
{
    try {
        *ret = call();
    } catch (const thrown &t) {
        return t.magic == 42;
    }
    return 0;
}
