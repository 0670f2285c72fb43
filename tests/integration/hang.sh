#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# hang.sh: jobs that run too long, jobs that heed nothing, executors that stop: none holds a drain or other jobs.
. "$(dirname "$0")/../support/lib.sh"

executor_of() { # the pid of wsd's only executor
  pgrep -P "$WSD_PID" -f wsd-executor
}

cancel_of_the_deaf() {
  local id
  id=$(wsctl submit --detach spin:deaf) || return 1
  wait_until some_job_is running || return 1
  wsctl cancel "$id" || return 1
  expect_exit 130 wsctl await "$id" && expect_output 6765 wsctl submit fib 20
}

# A process that is stopped does not die: it is noticed because it does not answer. Its job ends only on the next one.
stopped_executor() {
  local status=0 job executor
  executor=$(executor_of) || return 1
  wsctl --json submit ledger:gate "$WORK/gate" >"$WORK/again" 2>&1 &
  job=$!
  wait_until some_job_is running || return 1
  stop_process "$executor" && wait_until gone "$executor" || return 1
  : >"$WORK/gate"
  wait "$job" || status=$?
  cat "$WORK/again" "$WSD_LOG"
  [ "$status" = 0 ] && grep -q '"attempts":2' "$WORK/again" && grep -q "hangs: it did not answer for $answer" "$WSD_LOG"
}

# Stopped before it gets any: what is handed over then is not lost.
stopped_before() {
  local executor
  # there is one: on a slow machine the last one may not have answered in time
  expect_output 6765 wsctl submit fib 20 && executor=$(executor_of) || return 1
  stop_process "$executor"
  expect_output 6765 wsctl submit fib 20 && wait_until gone "$executor" && return
  ps -o pid,ppid,stat,args "$executor"
  cat "$WSD_LOG"
  return 1
}

# Stopped before it is to load a plugin, which is not to blame: the next one loads it.
stopped_before_a_load() {
  local executor
  expect_output 6765 wsctl submit fib 20 && executor=$(executor_of) || return 1
  stop_process "$executor"
  expect_output hello wsctl submit echo hello && expect_output "$(printf '1\n1')" wsctl map fib ::: 1 2 &&
    grep 'hangs: it did not begin to load plugin echo' "$WSD_LOG"
}

interrupted_tells_why() {
  local status=0 job
  wsctl submit sleep:sleep 20000 >"$WORK/once" 2>&1 &
  job=$!
  wait_until some_job_is running || return 1
  stop_process "$(executor_of)"
  wait "$job" || status=$?
  cat "$WORK/once"
  [ "$status" = 125 ] && grep -q "it did not answer for $answer" "$WORK/once"
}

# Longer than executor-answer, and answering all the time.
long_is_no_hang() {
  wsctl --json submit sleep:sleep 2500 >"$WORK/long"
  cat "$WORK/long"
  grep -q '"attempts":1' "$WORK/long"
}

drains_in_spite_of() { # FUNCTION
  local status=0 job
  wsctl submit "spin:$1" >"$WORK/out" 2>&1 &
  job=$!
  wait_until some_job_is running || return 1
  stop_wsd || return 1
  wait "$job" || status=$?
  cat "$WORK/out"
  [ "$status" = 125 ]
}

cat >"$WSD_CONFIG" <<'CONF'
[daemon]
drain-timeout = 300ms
[limits]
cancel-grace = 200ms
max-run = 400ms
[plugin sleep]
max-run = 100ms
[plugin fib]
max-run = 1h
CONF
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "max-run of [limits]: 124, and says which" says 124 "longer than max-run = 400ms of \[limits\] in wsd.conf" wsctl submit spin:spin
check "max-run of [plugin]: 124, and says which" says 124 "longer than max-run = 100ms of \[plugin sleep\] in wsd.conf" wsctl submit sleep:sleep 20000
check "a shorter --timeout comes first" says 124 "its time was up" wsctl submit --timeout 50ms spin:spin
each_item() { # of one message: what holds for the first job of an array holds for the others
  wsctl --json map -k -j 3 sleep:sleep ::: 20000 20000 20000 >"$WORK/items" 2>/dev/null
  [ $? = 124 ] && [ "$(grep -c '"state":"timed-out"' "$WORK/items")" = 3 ]
}
check "max-run of each item of an array" each_item
check "a longer one does not" says 124 "longer than max-run = 400ms" wsctl submit --timeout 1h spin:spin
check "one that heeds nothing: the same" says 124 "longer than max-run = 400ms .*did not heed" wsctl submit spin:deaf
check "time enough: 0" expect_output 6765 wsctl submit fib 20
stop_wsd

# One that is alive may have to wait so long for a CPU.
answer="$TIME_SCALE s"
printf "[daemon]\ndrain-timeout = 300ms\n[limits]\ncancel-grace = 200ms\nexecutor-answer = %ss\nplugin-load = %ss\n" "$TIME_SCALE" $((4 * TIME_SCALE)) >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "a first job" expect_output 6765 wsctl submit fib 20
check "an executor that stops is replaced, and its job runs again" stopped_executor
check "one that stopped while it had no work too" stopped_before
check "one that stopped before it was to load a plugin" stopped_before_a_load
check "who may not run again is told why" interrupted_tells_why
check "a long job is no hang" long_is_no_hang
check "wsctl cancel of a job that heeds nothing: 130" cancel_of_the_deaf
check "a drain ends in spite of a job that heeds nothing" drains_in_spite_of deaf

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "and of one that would heed" drains_in_spite_of spin

# What follows are executors that are alive and do not do their work.
export EXECUTOR=$BUILD/tests/support/shims/liar
start_wsd --workers 2 || exit 1
background wsctl submit lazy 2>/dev/null
check "an executor that begins none of its jobs" wait_until grep -q "hangs: it took none of its jobs for $answer" "$WSD_LOG"
wsctl cancel "$(wsctl --json list | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p')"
is_kept() { # MODE BYTES
  wsctl --json submit "$1" >"$WORK/json" && cat "$WORK/json" && grep -q '"attempts":1' "$WORK/json" &&
    [ "$(wsctl submit "$1" | wc -c)" = "$2" ]
}
check "one that is killed between its answer and the word that it is there: the answer is kept" is_kept written 8
check "and before it has woken wsd: so is all of its output" is_kept unheard $((65536 + 8))
stop_wsd
cat >>"$WSD_CONFIG" <<'END'
[executor]
core-size = unlimited
END
start_wsd --workers 2 || exit 1
only_says_so() {
  expect_exit 70 wsctl submit faulty && wait_until sh -c "! pgrep -P $WSD_PID"
}
check "one that may leave a core, and only says that it has crashed, is killed" only_says_so
stop_wsd
printf '[limits]\nplugin-load = 100ms\n' >>"$WSD_CONFIG"
start_wsd --workers 2 || exit 1
never_loads() { # each is replaced, until it is told that none can be had
  expect_exit 75 timeout $((30 * TIME_SCALE)) wsctl submit unbegun 2>"$WORK/err" || return 1
  cat "$WORK/err"
  grep -q 'no executor can be started' "$WORK/err" && [ "$(grep -c 'did not begin to load plugin unbegun' "$WSD_LOG")" -ge 8 ]
}
check "executors that never begin to load a plugin: the job is told" never_loads
stop_wsd
start_wsd --workers 2 --plugin-dir /never-ready || exit 1
background wsctl submit honest 2>/dev/null
check "an executor that does not get ready" wait_until grep -q "hangs: it did not get ready for $answer" "$WSD_LOG"
stop_wsd
