/* SPDX-License-Identifier: Apache-2.0
 *
 * slab.h: cells of one size, cut from blocks of SLAB_LEAST bytes, and of up to SLAB_MOST where there are many.
 * All calls [one thread].
 *
 * The C library's malloc() locks its arena for each block that none of the seven that it keeps fits. It merges what is
 * freed with its neighbours, only to split it again. Millions of jobs that wait, and calls that come and go in
 * hundreds, pay for that each time; here they do once a block. After J. Bonwick, "The Slab Allocator", USENIX Summer
 * 1994.
 *
 * A cell costs as much as malloc()'s own word: a pointer to its block stands before it. A block is freed when its last
 * cell comes back and SLAB_KEPT cells are kept empty already.
 */
#pragma once

#include <stdint.h>
#include <stddef.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SLAB_OFF /* clang's */
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SLAB_OFF
#endif
#ifdef SLAB_OFF
#define SLAB_MOST 0u /* off: each cell is a block of malloc(), so that the sanitizer sees uses after free */
#else
#define SLAB_MOST 32760u /* small ones leave holes between them that fit none */
#endif
#define SLAB_LEAST 4088u
#define SLAB_KEPT  512u

struct slab_block;

/* All zero: none yet. */
struct slab {
    struct slab_block *partial; /* has used cells and free ones */
    struct slab_block *empty;
    uint32_t block;  /* bytes of the last one that was made */
    uint32_t n_kept; /* cells of those that are empty */
};

/* A cell that is aligned to 8 bytes and not zeroed; NULL: no memory. All cells of one slab have one size. A slab of NULL:
 * a block of its own. */
void *slab_take(struct slab *s, size_t size);
/* Of any slab, which still is where it was. NULL is fine. */
void slab_give(void *cell);
/* Frees the empty blocks. All of them, where all cells came back. */
void slab_trim(struct slab *s);
