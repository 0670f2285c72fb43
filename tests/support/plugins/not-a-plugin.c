/* SPDX-License-Identifier: Apache-2.0
 *
 * not-a-plugin.c: a shared object that is no plugin. Loading it would end the process. */
#include <stdlib.h>

__attribute__((visibility("default"))) int not_a_plugin(void);

__attribute__((constructor)) static void never(void)
{
    abort();
}

int not_a_plugin(void)
{
    return 0;
}
