#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # for_workers and as_nobody call functions by name
# yardsticks.sh: fib, nqueens and uts against the published counts.
set -eu
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

counts() {
  prints "fib 32" 2178309 fib 32
  prints "nqueens 12" 14200 nqueens 12
  prints "uts T1" "4130071 10 3305118" uts T1
  prints "uts T3" "4112897 1572 3599034" uts T3
}

for_workers counts
n=0
for wanted in 0 1 1 2 3 5 8 13; do
  prints "fib $n" "$wanted" fib "$n"
  n=$((n + 1))
done
n=1
for wanted in 1 0 0 2 10 4 40 92 352 724; do
  prints "nqueens $n" "$wanted" nqueens "$n"
  n=$((n + 1))
done
prints "uts" "4130071 10 3305118" uts
prints "uts T2" "4117769 81 2342762" uts T2
prints "uts T4" "4132453 134 3108986" uts T4
prints "uts T5" "4147582 20 2181318" uts T5
for wrong in "fib" "fib x" "fib 94" "fib -1" "fib 1 2" "nqueens" "nqueens 0" "nqueens 25" "nqueens 8x" "uts T9" "uts T1 T3"; do
  # Each is a plugin and its arguments.
  # shellcheck disable=SC2086
  refused "$wrong" 2 $wrong
done
finish
