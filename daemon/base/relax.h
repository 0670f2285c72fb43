/* SPDX-License-Identifier: Apache-2.0
 *
 * relax.h: between two looks of a spinning thread. [any]
 */
#pragma once

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
