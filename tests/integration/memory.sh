#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# memory.sh: what a burst of jobs needed is given back within a minute, and then wsd is as idle as before.
. "$(dirname "$0")/../support/lib.sh"

[ -z "${WSD_SANITIZE:-}" ] || {
  skip "memory after a burst" "a sanitizer keeps what was freed"
  exit 0
}

ROOM=24576 # KiB above what there was before: kept results, and what the allocator cannot give back
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$WSD_PID/status"; }
given_back() { [ "$(resident)" -le $((before + ROOM)) ]; }
has_grown() { [ "$(resident)" -gt $((before + 2 * ROOM)) ]; }
switches() { cat "/proc/$WSD_PID"/task/*/status | awk '/ctxt_switches/ { n += $2 } END { print n }'; }
still() { # for three seconds nothing of it runs
  local n
  n=$(switches)
  sleep 3
  [ "$(switches)" = "$n" ]
}

queue() {
  wsctl pause fib && "$BUILD/tests/support/clients/many" 300000 && counter_is jobs_queued 300000 && has_grown
}
queue_durable() {
  wsctl pause fib || return 1
  yes 1 | head -60000 >"$WORK/ones"
  # shellcheck disable=SC2016 # a command in the background has no stdin but this
  background sh -c 'exec wsctl map -j 60000 --durable fib <"$WORK/ones"' >/dev/null
  wait_until counter_is jobs_queued 60000 && has_grown && kill -KILL "$BACKGROUND_PID" # they stay
}
schedules() { # add|remove: 20,000, the most that are allowed
  "$SRC/tests/support/clients/schedules.py" "$WSD_SOCKET" "$1" 20000
}
add_schedules() {
  schedules add && [ "$(wsctl --json schedule list | wc -l)" = 20000 ] && has_grown
}
remove_schedules() {
  schedules remove && [ -z "$(wsctl --json schedule list)" ] && wait_until -t 60 given_back
  local status=$?
  echo "$before KiB before, $(resident) now"
  return "$status"
}
goes() {
  wsctl cancel --all && wait_until -t 60 given_back && wsctl resume fib && expect_output 6765 wsctl submit fib 20
  local status=$?
  echo "$before KiB before, $(resident) now"
  return "$status"
}
trickle() { # until the script ends: a job now and then is no reason to keep it
  while wsctl submit nqueens 4; do sleep 0.3; done
}

printf '[limits]\nmax-schedules-per-user = 20000\nmax-jobs = 1000000\nmax-jobs-per-user = 1000000\nmax-bytes-per-user = 2G\nmax-bytes = 4G\n[store]\nkeep = 1s\n' >"$WSD_CONFIG"
start_wsd --workers 1 || exit 1
wsctl submit fib 5 >/dev/null
before=$(resident)
check "300,000 jobs are queued" queue
check "their memory is given back" goes
check "then wsd is idle" wait_until still
check "queued once more" queue
background trickle >/dev/null 2>&1
check "and given back while others come" goes
kill "$BACKGROUND_PID"
stop_wsd

start_wsd --workers 1 || exit 1
wsctl submit --durable fib 5 >/dev/null
before=$(resident)
check "60,000 durable jobs" queue_durable
check "their memory is given back" goes
stop_wsd

start_wsd --workers 1 || exit 1
wsctl submit --durable fib 5 >/dev/null
ROOM=8192
before=$(resident)
check "20,000 schedules" add_schedules
check "their memory is given back" remove_schedules
check "then wsd is idle" wait_until still
stop_wsd
