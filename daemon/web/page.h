/* SPDX-License-Identifier: Apache-2.0
 *
 * page.h: the files of the page, which are in the program. page.c is made of page/ by the script `embed`. [any]
 */
#pragma once

#include <stddef.h>

struct page_file {
    const char *path, *type;
    const unsigned char *data;
    size_t size;
};

/* NULL: there is none at that path. */
const struct page_file *page_find(const char *path);
