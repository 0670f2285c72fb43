#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# idle.sh: an idle wsd burns nothing: with an executor up, 100 connections and a direct lane open no thread of either runs at
# all. Told from the kernel's count of context switches: whoever makes a system call that waits, or is woken, is switched.
. "$(dirname "$0")/../support/lib.sh"

switches() { # of every thread of wsd and its executors, and how many threads there are
  local pid
  for pid in "$WSD_PID" $(pgrep -P "$WSD_PID"); do
    cat /proc/"$pid"/task/*/status
  done | awk '/ctxt_switches/ {n += $2} /^Pid:/ {threads++} END {print threads, n}'
}

all_sleep() { # who waits for a CPU has something to do yet, however long nothing is seen of it
  local pid
  ! for pid in "$WSD_PID" $(pgrep -P "$WSD_PID"); do
    cat /proc/"$pid"/task/*/status
  done | grep '^State:' | grep -qv 'S (sleeping)'
}

settled() { # what a job has stirred up has come to rest
  local before
  before=$(switches)
  sleep 0.2
  all_sleep && [ "$(switches)" = "$before" ]
}

quiet_for_three_seconds() {
  local before
  before=$(switches)
  sleep 3 # the length of the measurement
  echo "$before before, $(switches) after"
  [ "$(switches)" = "$before" ]
}

if [ "${WSD_SANITIZE:-}" = thread ]; then
  skip "idle" "ThreadSanitizer has a thread of its own that runs all the time"
  exit 0
fi
printf '[limits]\nexecutor-answer = 4s\n' >"$WSD_CONFIG" # looked at every two seconds, where there is work
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "a job, so that an executor is there" expect_output 6765 wsctl submit fib 20
background "$BUILD/tests/support/clients/load" -c 100 >"$WORK/held"
check "100 connections" wait_until grep -q held "$WORK/held"
if "$BUILD/tests/support/clients/direct" -x >/dev/null; then
  background "$BUILD/tests/support/clients/direct" -w -h "$WORK/go" direct:direct >"$WORK/lane"
  check "a direct lane, which has been used" wait_until grep -q held "$WORK/lane"
else
  skip "a direct lane, which has been used" "this kernel has no futex_waitv"
fi
check "everything comes to rest" wait_until settled
check "and then nothing runs" quiet_for_three_seconds
check "a job after that" expect_output 6765 wsctl submit fib 20
stop_wsd

# Three deaths are followed by a pause, in which there is no executor to be ended. The next one comes for a job that is cancelled before
# its plugin is loaded, and so has nothing to do, ever.
cancelled_at_its_start() {
  local first second i executor
  first=$(wsctl submit --detach late) && second=$(wsctl submit --detach late) || return 1
  for i in 1 2 3; do
    wait_until job_is running "$first" && executor=$(pgrep -P "$WSD_PID") && kill -KILL "$executor" && wait_until gone "$executor" || return 1
  done
  expect_exit 125 wsctl await "$first" && job_is queued "$second" && wait_until pgrep -P "$WSD_PID" && wsctl cancel "$second" &&
    expect_exit 130 wsctl await "$second" && wait_until counter_is executors 0
}
printf '[limits]\nexecutor-idle = 1ms\nquarantine-after = 1000\n' >"$WSD_CONFIG"
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
check "an executor that never had anything to do ends, too" cancelled_at_its_start
stop_wsd

stays_while_it_is_used() { # where this machine stood still between two jobs, the executor of the later one counts
  local executor end last=$SECONDS
  expect_output 55 wsctl submit fib 10 && executor=$(pgrep -P "$WSD_PID") && end=$((SECONDS + 5)) || return 1
  while [ "$SECONDS" -lt "$end" ]; do
    expect_output 55 wsctl submit fib 10 || return 1
    [ $((SECONDS - last)) -lt 2 ] || executor=$(pgrep -P "$WSD_PID")
    last=$SECONDS
    sleep 0.2 # now and then
  done
  echo "$executor before, $(pgrep -P "$WSD_PID") after"
  [ $((SECONDS - last)) -ge 2 ] || [ "$(pgrep -P "$WSD_PID")" = "$executor" ]
}
printf '[limits]\nexecutor-idle = 3s\n' >"$WSD_CONFIG"
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
check "an executor that has something to do now and then stays" stays_while_it_is_used
check "and ends when it has not" wait_until counter_is executors 0
stop_wsd
