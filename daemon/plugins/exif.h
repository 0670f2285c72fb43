/* SPDX-License-Identifier: Apache-2.0
 *
 * exif.h: of the metadata of a picture the one thing that changes how it looks. [any]
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns the orientation, 1 to 8, that an APP1 segment of a JPEG says, without the segment's marker and length.
 * Returns 1 where it says none, or nothing that can be read. */
unsigned exif_orientation(const uint8_t *data, size_t size);

/* The same of the first such segment of a JPEG, of which these are the bytes. It is looked for among the first thousand
 * segments. */
unsigned exif_of_jpeg(const uint8_t *data, size_t size);
