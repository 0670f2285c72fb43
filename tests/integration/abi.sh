#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# abi.sh: plugins that were built long ago run on the engine of today: the binaries of tests/abi, without wsd and
# through it, on 1, 2 and 16 workers.
. "$(dirname "$0")/../support/lib.sh"

if [ "${WSD_SANITIZE:-}" = thread ]; then
  skip "kept binaries" "ThreadSanitizer does not see what they do inline"
  exit 0
fi
ABI=$SRC/tests/abi
ROUNDS=5

engine() { # EXPECTED WSCTL-COMMAND...
  local i
  for ((i = 0; i < ROUNDS; i++)); do
    "${@:2}" >"$WORK/got" 2>"$WORK/err" || {
      cat "$WORK/err"
      return 1
    }
    diff "$1" "$WORK/got" || return 1
  done
}

services() { # WSCTL-COMMAND...
  printf 'hello, world' >"$WORK/input"
  printf 'a file\n' >"$WORK/file"
  "$@" argument "$WORK/file" <"$WORK/input" >"$WORK/got" 2>"$WORK/err"
  local status=$?
  cat "$WORK/err" "$WORK/got"
  [ "$status" = 5 ] && grep -q 'failed as it should' "$WORK/err" && grep -q 'logged 1' "$WORK/err" &&
    printf 'services argument 12\nreserved\nhello\na file\n' | cmp - "$WORK/got"
}

stream() { # WSCTL-COMMAND...
  head -c 3000000 /dev/zero | "$@" >"$WORK/got" && [ "$(cat "$WORK/got")" = "stream 3000000 1" ]
}

machine=$(uname -m)
found=0
for binary in "$ABI"/abi*-"$machine"-*.so; do
  [ -f "$binary" ] || break
  found=$((found + 1))
  name=$(basename "$binary" .so)
  expected=$ABI/${name%%-*}.expected
  for workers in 1 2 16; do
    local_run=(wsctl submit --local --workers "$workers")
    check "$name, $workers workers, --local" engine "$expected" "${local_run[@]}" "$binary:engine"
    start_wsd --workers "$workers" --plugin-dir "$ABI" || exit 1
    check "$name, $workers workers, through wsd" engine "$expected" wsctl submit "$name:engine"
    if [ "$workers" = 2 ]; then
      check "$name: services of a job, --local" services "${local_run[@]}" --input - "$binary:services"
      check "$name: services of a job, through wsd" services wsctl submit --input - "$name:services"
      check "$name: a stream, --local" stream "${local_run[@]}" --input - "$binary:stream"
      check "$name: a stream, through wsd" stream wsctl submit --input - "$name:stream"
    fi
    stop_wsd
  done
done
for compiler in gcc clang; do
  compgen -G "$ABI/abi1-$machine-$compiler*.so" >/dev/null ||
    skip "abi1-$machine-$compiler" "there is no binary of it for this machine"
done
[ "$found" -gt 0 ] || skip "binaries of old plugins" "there are none for $machine"
