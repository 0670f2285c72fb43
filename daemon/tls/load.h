/* SPDX-License-Identifier: Apache-2.0
 *
 * load.h: the way to the module of tls.h.
 */
#pragma once

#include "tls/tls.h"

/* Loads the module, once. NULL: there is none; error has the words. */
const struct tls_ops *tls_load(char error[TLS_ERROR]);
