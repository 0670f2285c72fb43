#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# pinned.sh: [pool] in wsd.conf: workers that stay on CPUs of their own, within those that wsd may use, and the size of
# their stacks.
. "$(dirname "$0")/../support/lib.sh"

cpus() { # of this process, as a list
  python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))'
}

threads() { # the CPUs that each worker may run on, one line each
  local executor
  executor=$(pgrep -P "$WSD_PID" | head -n 1)
  for task in /proc/"$executor"/task/*; do
    case $(cat "$task/comm") in wsd-worker-*) sed -n 's/^Cpus_allowed_list:\t*//p' "$task/status" ;; esac
  done
}

each_on_one() {
  threads >"$WORK/threads"
  cat "$WORK/threads"
  [ "$(wc -l <"$WORK/threads")" -ge "$1" ] && ! grep -q '[-,]' "$WORK/threads"
}

tells_cpus() { # each worker names a CPU that wsd may use, and they are spread
  wsctl --json workers | python3 -c '
import json, os, sys
workers = [json.loads(line) for line in sys.stdin]
assert len(workers) >= int(sys.argv[1])
assert all(w["cpu"] in os.sched_getaffinity(0) for w in workers), workers
assert len({w["cpu"] for w in workers}) == min(len(workers), len(os.sched_getaffinity(0))), workers' "$1"
}

check "a bad pin: file and line" bad_config '[pool]\npin = perhaps\n' "2: .*yes or no"
check "a stack too small: file and line" bad_config '[pool]\nstack = 255K\n' "2: .*from 256K to 1G"
check "a stack too large: file and line" bad_config '[pool]\nstack = 1025M\n' "2: .*from 256K to 1G"
printf '[pool]\npin = yes\nstack = 16M\n' >"$WSD_CONFIG"
check "--print-config has both" sh -c 'wsd --config "$WSD_CONFIG" --print-config >"$WORK/printed" &&
    grep -q "^pin = yes" "$WORK/printed" && grep -q "^stack = 16777216" "$WORK/printed" &&
    wsd --config "$WORK/printed" --check-config'

for workers in 2 5; do
  start_wsd --workers "$workers" || exit 1
  check "$workers pinned workers: fib" expect_output 2178309 wsctl submit fib 32
  # a worker that has just begun pins itself, and another one may have done the job meanwhile
  check "each has one CPU" wait_until each_on_one "$workers"
  check "wsctl workers tells which" wait_until tells_cpus "$workers"
  stop_wsd
done

if [ "$(cpus | wc -w)" -gt 1 ] && command -v taskset >/dev/null; then
  last=$(cpus | awk '{ print $NF }')
  WSD_PREFIX=(taskset -c "$last")
  start_wsd --workers 2 || exit 1
  check "a mask of one CPU: fib" expect_output 832040 wsctl submit fib 30
  check "all sit there" wait_until sh -c "test \"\$(wsctl --json workers | grep -c '\"cpu\":$last,')\" -ge 2"
  stop_wsd
  WSD_PREFIX=()
else
  skip "affinity of wsd" "one CPU only, or no taskset"
fi

printf '[pool]\npin = yes\n[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"
start_wsd --workers 1 || exit 1
check "a command has all CPUs, not its worker's" expect_output "$(cpus)" \
  wsctl submit exec python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))'
check "and the worker is where it was" wait_until each_on_one 1
stop_wsd

: >"$WSD_CONFIG"
start_wsd --workers 2 || exit 1
check "without [pool]: fib" expect_output 832040 wsctl submit fib 30
check "nobody is pinned" sh -c '! wsctl --json workers | grep -q "\"cpu\""'
stop_wsd

stack() { # SIZE DEPTH: fork/join as deep as that, of which each level takes 1 KiB or so
  printf '[pool]\nstack = %s\n' "$1" >"$WSD_CONFIG"
  start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
  wsctl submit deep "$2"
  local status=$?
  stop_wsd
  return "$status"
}
check "a stack of 64M: 32 MiB deep" expect_output 32 stack 64M 32
too_small() {
  local status=0
  stack 1M 32 2>"$WORK/err" || status=$?
  cat "$WORK/err"
  [ "$status" = 70 ] || return 1
  [ -n "${WSD_SANITIZE:-}" ] || grep -q "stack overflow: needs more than 1 MiB of stack" "$WORK/err"
}
check "a stack of 1M: is not enough, and says so" too_small
