#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# recycle.sh: an executor that has done much or has grown makes room for a fresh one; nobody notices.
. "$(dirname "$0")/../support/lib.sh"

numbers() { # NUMBER TIMES
  for ((k = 0; k < $2; k++)); do
    echo "$1"
  done
}

took_over() { # at least N times
  [ "$(grep -c 'takes the place of executor' "$WSD_LOG")" -ge "$1" ]
}

one_left() {
  [ "$(counter executors)" = 1 ]
}

small_ones() { # more than an executor does before it makes room
  [ "$(numbers 20 60 | wsctl map fib | sort -u)" = 6765 ]
}

# One that may not run twice goes on, where it began, while executors come and go.
long_job_stays() {
  local pid status=0
  # longer than an executor has that was told to end
  wsctl --json submit sleep:sleep 4000 >"$WORK/long" 2>&1 &
  pid=$!
  wait_until sh -c "wsctl --json list | grep -q '\"running\"'" || return 1
  until took_over 2; do # the first of them while it runs, which a hundred wsctl might not manage
    small_ones || return 1
  done
  wait "$pid" || status=$?
  cat "$WORK/long" "$WSD_LOG"
  [ "$status" = 0 ] && grep -q '"attempts":1,"worker":"1\.' "$WORK/long" && grep -q "executor 1, which finishes [1-9]" "$WSD_LOG"
}

# Every answer is right, none comes from an executor that died.
many_go_well() {
  local before
  before=$(grep -c 'takes the place of executor' "$WSD_LOG")
  until took_over $((before + 2)); do # one that takes long to start may come when all is done
    numbers 15 3000 | wsctl map -j 64 fib >"$WORK/out" || return 1
    [ "$(sort "$WORK/out" | uniq -c | tr -s ' ')" = " 3000 610" ] || return 1
  done
  [ "$(counter executors_died)" = 0 ]
}

three_at_once() {
  [ "$(counter executors)" -ge 3 ]
}

# What waits when the executors change goes to the fresh one at once, while the old one still has all that it can have:
# so the fresh one makes room in its turn before the old one has ended.
queue_goes_on() {
  local map
  numbers 4 1500 | wsctl map -j 1500 sleep:sleep >"$WORK/out" &
  map=$!
  wait_until three_at_once || return 1
  wait "$map" && [ "$(sort "$WORK/out" | uniq -c | tr -s ' ')" = " 1500 slept" ]
}

# Output, input and a file of the submitter's go with the job, whichever executor it is at.
all_goes_along() {
  for _ in 1 2 3 4 5 6 7 8; do
    seq 300000 | wsctl submit --input - echo | cmp - <(seq 300000) || return 1
    seq 30000 | wsctl submit --input - echo:stream | cmp - <(seq 30000) || return 1
    wsctl submit count "$SRC/README.md" >/dev/null || return 1
  done
}

# The old one dies with a job that may run twice: it runs again at the new one.
old_one_dies() {
  local id before executor
  id=$(wsctl submit --detach spin:again) || return 1
  wait_until sh -c "wsctl --json status $id | grep -q '\"running\"'" || return 1
  before=$(grep -c 'takes the place of executor' "$WSD_LOG")
  until took_over $((before + 1)); do
    expect_output 6765 wsctl submit fib 20 || return 1
  done
  executor=$(pgrep -o -P "$WSD_PID")
  kill -KILL "$executor"
  wait_until sh -c "wsctl --json status $id | grep -q '\"state\":\"running\".*\"attempts\":2'" || {
    wsctl status "$id"
    return 1
  }
  wsctl cancel "$id" && expect_exit 130 wsctl await "$id"
}

killed_meanwhile() {
  for _ in 1 2 3 4 5; do
    numbers 15 600 | wsctl map -k -j 64 fib >"$WORK/out" &
    wait_until sh -c "[ -n \"\$(pgrep -P $WSD_PID)\" ]"
    kill -KILL "$(pgrep -o -P "$WSD_PID")"
    wait $! || return 1
    [ "$(grep -c '^610$' "$WORK/out")" = 600 ] || return 1
  done
}

# Of a job that ended at an executor which had made room already, and is gone.
kept_results_stay() {
  local id before
  id=$(wsctl submit --detach sleep:sleep 2000) || return 1
  before=$(grep -c 'takes the place of executor' "$WSD_LOG")
  until took_over $((before + 1)); do
    expect_output 6765 wsctl submit fib 20 || return 1
  done
  wait_until sh -c "wsctl --json status $id | grep -q succeeded" || return 1
  wait_until one_left || return 1
  expect_output slept wsctl await "$id"
}

grown() {
  for _ in $(seq 60); do
    wsctl submit crash:leak 16 || return 1
    took_over 1 && break
    sleep 0.1 # it is looked at once a second
  done
  cat "$WSD_LOG"
  took_over 1 && wait_until one_left
}

printf '[executor]\nrecycle-jobs = 50\n' >"$WSD_CONFIG"
start_wsd --log-level debug --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "a long job stays where it began, and ends well" long_job_stays
check "3000 jobs at once: all right, no executor has died" many_go_well
check "the old ones end" wait_until one_left
check "what waits at the change goes to the fresh one at once" queue_goes_on
check "and again they end" wait_until one_left
check "inputs, streams and files go along" all_goes_along
check "a result is kept longer than its executor" kept_results_stay
check "wsctl workers" wsctl workers
check "the old one dies: what it still did runs again at the new one" old_one_dies
check "executors killed at any time meanwhile: nothing is lost" killed_meanwhile
stop_wsd

printf '[executor]\nrecycle-growth = 64M\n' >"$WSD_CONFIG"
start_wsd --log-level debug --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "an executor that has grown makes room" grown
check "nothing has died" [ "$(counter executors_died)" = 0 ]
stop_wsd
