#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# smoke.sh: the shortest way through everything: a daemon, an executor, a few jobs, an orderly end.
# `tests/run --quick` runs it and no other.
. "$(dirname "$0")/../support/lib.sh"

start_wsd --workers 2 || exit
check "ping" wsctl ping
check "fib 20" expect_output 6765 wsctl submit fib 20
check "nqueens 8" expect_output 92 wsctl submit nqueens 8

checksum_equals_sha256sum() {
  expect_output "$(sha256sum "$SRC/LICENSE" "$SRC/meson.build")" wsctl submit checksum "$SRC/LICENSE" "$SRC/meson.build"
}
check "checksum equals sha256sum" checksum_equals_sha256sum

input_and_output() {
  wsctl submit --input "$SRC/LICENSE" --output "$WORK/packed" compress &&
    wsctl submit --input "$WORK/packed" --output "$WORK/back" decompress && cmp "$SRC/LICENSE" "$WORK/back"
}
check "compress and back" input_and_output
check "no such plugin is 66" expect_exit 66 wsctl submit no-such-plugin
check "no daemon is 69" expect_exit 69 wsctl --socket "$WORK/nowhere.sock" ping
check "wsd drains and exits 0" stop_wsd
