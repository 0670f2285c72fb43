#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# missed.sh: jobs that block without saying so, in a read of a FIFO: as many as there are workers hold up no other job,
# neither by the socket nor by a direct lane. When they have come back there are as many workers as before. Where nothing
# waits, or a worker only waits for a CPU, none comes in its place.
. "$(dirname "$0")/../support/lib.sh"

make_gates() { # NAME...
  local name
  for name; do
    rm -f "$WORK/$name" "$WORK/done.$name"
    mkfifo "$WORK/$name" || return 1
  done
}

# Each leaves its answer in out.NAME, complete once done.NAME is there.
read_gates() { # NAME...
  local name
  for name; do
    background sh -c "wsctl submit ledger:reads '$WORK/$name' >'$WORK/out.$name' 2>&1; touch '$WORK/done.$name'"
  done
  wait_until jobs_are running $#
}

open_gates() { # NAME...: both ends meet
  local name
  for name; do
    echo said >"$WORK/$name" || return 1
  done
  for name; do
    wait_until test -e "$WORK/done.$name" && [ "$(cat "$WORK/out.$name")" = said ] || return 1
  done
}

sum() { # COUNTER: over all workers
  wsctl --json workers >"$WORK/workers.json" && python3 -c '
import json, sys
print(sum(json.loads(line)[sys.argv[1]] for line in open(sys.argv[2])))' "$1" "$WORK/workers.json"
}

workers_are() { # N: those that have not retired
  [ "$(wsctl --json workers | grep -c '"kind":"worker"')" = "$1" ]
}

# A worker retires between two jobs.
back_to() { # N
  wsctl submit fib 5 >/dev/null && workers_are "$1"
}

served() { # N: so many jobs, each begun when the one before has ended
  local i
  for ((i = 0; i < $1; i++)); do
    expect_output 6765 timeout $((20 * TIME_SCALE)) "$WSCTL" --socket "$WSD_SOCKET" submit fib 20 || return 1
  done
}

served_directly() {
  timeout $((20 * TIME_SCALE)) "$BUILD/tests/support/clients/direct" -n 20 direct:direct >/dev/null
}

switches() { # how often the monitor has slept
  awk '/^voluntary/ { print $2 }' "$(grep -l '^wsd-monitor$' /proc/"$(pgrep -P "$WSD_PID")"/task/*/comm | sed 's/comm$/status/')"
}
stands_still() {
  local before
  before=$(switches)
  sleep 0.3 # the length of the measurement
  echo "$before before, $(switches) after"
  [ "$(switches)" = "$before" ]
}

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "a job, so that an executor is there" served 1
check "an idle executor's monitor sleeps" wait_until stands_still

make_gates alone
check "a job that reads, and nothing waits" read_gates alone
check "the monitor sleeps" wait_until stands_still
check "it is not missed" [ "$(sum blocked)" = 0 ]
check "and ends well" open_gates alone

make_gates one two
check "two jobs that read, on two workers" read_gates one two
check "the monitor sleeps" wait_until stands_still
check "other jobs are served" served 20
check "and run beside them" jobs_are running 2
check "they were missed" [ "$(sum blocked)" -ge 1 ]
check "they end well" open_gates one two
check "two workers are left" wait_until back_to 2
if "$BUILD/tests/support/clients/direct" -x >/dev/null; then
  make_gates one two
  check "two jobs that read, again" read_gates one two
  check "calls of a direct lane are served" served_directly
  check "they end well" open_gates one two
  check "two workers are left" wait_until back_to 2
else
  skip "calls of a direct lane are served" "this kernel has no futex_waitv"
fi
stop_wsd

# More that compute than there are CPUs: each worker waits for one again and again.
spin() {
  local i
  for ((i = 0; i < 4 * $(nproc); i++)); do
    background sh -c 'while :; do :; done'
    spinning+=("$!")
  done
}
spinning=()
start_wsd --workers 2 || exit 1
check "a job, so that an executor is there" served 1
check "processes that compute" spin
check "jobs that compute beside them, while others wait" sh -c 'yes 38 | head -n 8 | wsctl map -j 8 fib >/dev/null'
check "none was missed" [ "$(sum blocked)" = 0 ]
check "none came" workers_are 2
kill "${spinning[@]}"
stop_wsd
