#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# shellcheck disable=SC2034 # start_wsd reads WSD_PREFIX and EXECUTOR
#
# each-fault.sh: the N-th allocation in one verb fails, alone and with some behind it: of wsd (support/armed.py), of wsctl
# (support/each-fault.c), of wsd-executor and of wsd-spawn (support/faulty.c). --thorough: each N. allocations.sh has a row of verbs, and rights.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

[ -z "${WSD_SANITIZE:-}" ] || { skip "each fault" "a sanitizer has to be the first library of a process"; exit 0; }
SHIM=$BUILD/tests/support/faults.so
RUNS=15
[ -z "${WSD_THOROUGH:-}" ] || RUNS=100000

head -c 40 /dev/zero >"$WORK/faults"
printf '[plugin exec]\nenabled = yes\n[limits]\nkeep-results = 1h\n' >"$WSD_CONFIG"
WSD_PREFIX=(env "LD_PRELOAD=$SHIM" FAULTS=memory FAULTS_NTH=0 "FAULTS_FILE=$WORK/faults")
start_wsd --workers 2 || exit 1
WSD_PREFIX=()

armed() { # SCENARIO...
  WSD_LOG=$WSD_LOG "$SRC/tests/support/armed.py" "$WORK/faults" "$RUNS" "$WSCTL" "$WSD_PID" "$@"
}
for scenario in \
  reload; do
  check "wsd: $scenario" armed "$scenario"
done

