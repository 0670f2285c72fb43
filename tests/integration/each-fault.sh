#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# shellcheck disable=SC2034 # start_wsd reads WSD_PREFIX and EXECUTOR
#
# each-fault.sh: the N-th allocation in one verb fails, alone and with some behind it: of wsd (support/armed.py), of wsctl
# (support/each-fault.c) and of wsd-executor (support/faulty.c). --thorough: each N. allocations.sh has a row of verbs, and rights.
. "$(dirname "$0")/../support/lib.sh"

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
  "$SRC/tests/support/armed.py" "$WORK/faults" "$RUNS" "$WSCTL" "$WSD_PID" "$@"
}
for scenario in submit 'submit, a new executor' 'input and output' map detached durable 'tag and retries' after batch graph exec cancel \
  schedule 'list, status, plugins'; do
  check "wsd: $scenario" armed "$scenario"
done

client() { # WSCTL-ARGUMENT...
  FAULTS=memory "$BUILD/tests/support/each-fault" --runs $((RUNS * 6)) "$SHIM" "$WSCTL" "$@"
}
printf 'b\na\n' >"$WORK/text"
printf '{"nodes":[{"name":"a","plugin":"fib","args":["20"]},{"name":"b","plugin":"fib","args":["10"],"after":["a"]}]}' >"$WORK/one.json"
check "wsctl submit" client submit fib 20
check "wsctl submit --input" client submit --input "$WORK/text" sort
check "wsctl map" client map fib ::: 1 2 3
check "wsctl run" client run "$WORK/one.json"
check "wsctl list" client list
check "wsctl plugin list" client plugin list
check "stop" stop_wsd

head -c 40 /dev/zero >"$WORK/faults"
WSD_PREFIX=(env "MALLOC_LD_PRELOAD=$SHIM" MALLOC_FAULTS=memory "MALLOC_FAULTS_FILE=$WORK/faults")
EXECUTOR=$BUILD/tests/support/faulty
# libseccomp's seccomp_load() may turn for ever where an allocation of its own has failed: wsd replaces such an executor
printf '[plugin exec]\nenabled = yes\n[limits]\nexecutor-answer = %ss\n' $((5 * TIME_SCALE)) >"$WSD_CONFIG"
start_wsd --workers 2 || exit 1
for scenario in submit 'submit, a new executor' 'input and output' map detached durable batch graph exec; do
  check "wsd-executor: $scenario" armed "$scenario"
done
check "stop" stop_wsd
