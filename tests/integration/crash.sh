#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# crash.sh: a function that crashes, hangs or calls exit costs its own job; it is named; others go on.
. "$(dirname "$0")/../support/lib.sh"

crashed() { # FUNCTION WORDS
  local status=0
  wsctl submit "crash:$1" >"$WORK/out" 2>"$WORK/err" || status=$?
  cat "$WORK/err"
  [ "$status" = 70 ] && grep -q -- "$2" "$WORK/err" && expect_output 6765 wsctl submit fib 20
}

overflow='stack overflow: needs more than 8 MiB of stack; raise \[pool\] stack in wsd.conf, or recurse less'

overflows_locally() { # FUNCTION
  local status=0
  wsctl submit --local --workers 2 "$TEST_PLUGINS/crash.so:$1" 2>"$WORK/err" || status=$?
  cat "$WORK/err"
  [ "$status" = 139 ] && grep -q "^wsctl: stack overflow: needs more than 8 MiB of stack; recurse less$" "$WORK/err"
}

# FUNCTION FRAME WORDS: it is told where it crashed, in `wsctl status`, in JSON and in the log.
traced() {
  local id
  id=$(wsctl submit --detach "crash:$1") || return 1
  expect_exit 70 wsctl await "$id" || return 1
  wsctl status "$id" >"$WORK/status" || return 1
  wsctl --json status "$id" >"$WORK/json" || return 1
  cat "$WORK/status" "$WORK/json" "$WSD_LOG"
  grep -q "^error  *$3" "$WORK/status" && grep -Eq "^(backtrace )? *#[0-9]+ $2\+0x[0-9a-f]+ in crash\+0x[0-9a-f]+$" "$WORK/status" &&
    grep -Eq "^ *build-id of crash: [0-9a-f]{8,}$" "$WORK/status" &&
    grep -Eq "\"backtrace\":\[\"#0 .*\"#[0-9]+ $2\+0x|\"backtrace\":\[\"#0 $2\+0x" "$WORK/json" &&
    grep -Eq "crash:$1: #[0-9]+ $2\+0x[0-9a-f]+ in crash" "$WSD_LOG"
}

# wsd knows it from the note, and waits for no process that the kernel takes down.
acts_at_the_note() {
  local number
  wsctl submit crash:fat 256
  [ $? = 70 ] || return 1
  cat "$WSD_LOG"
  number=$(sed -n 's/.*executor \([0-9]*\) ended: a job crashed.*/\1/p' "$WSD_LOG" | tail -1)
  wait_until grep -q "executor $number: its process is gone" "$WSD_LOG" || return 1
  [ "$(grep -n "executor $number ended" "$WSD_LOG" | cut -d: -f1)" -lt \
    "$(grep -n "executor $number: its process is gone" "$WSD_LOG" | cut -d: -f1)" ]
}

# Its first thread and a worker have ended, the others go on.
ends_piecemeal() {
  local status=0
  wsctl submit crash:piecemeal 2>"$WORK/err" || status=$?
  cat "$WORK/err"
  [ "$status" = 125 ] && grep -q "Killed, by hand or for want of memory" "$WORK/err"
}

json_state() { # STATE EXIT COMMAND...
  local state=$1 exit=$2 status=0
  shift 2
  "$@" >"$WORK/json" 2>&1 || status=$?
  cat "$WORK/json"
  [ "$status" = "$exit" ] && grep -q "\"state\":\"$state\"" "$WORK/json"
}

# While one job crashes, one that may run twice succeeds in the end, and one that may not is told. The first ends no sooner than
# that: it waits for a file.
neighbours() {
  local again once status=0 runs=0
  wsctl plugin release crash || return 1 # it has crashed before, so it has an executor of its own by now
  rm -f "$WORK/go"
  wsctl --json submit ledger:gate "$WORK/go" >"$WORK/again" 2>&1 &
  again=$!
  wsctl --json submit sleep:sleep 600000 >"$WORK/once" 2>&1 &
  once=$!
  wait_until sh -c "[ \$(wsctl --json list | grep -c '\"running\"') = 2 ]" || return 1
  wsctl submit crash:segv
  [ $? = 70 ] || return 1
  touch "$WORK/go"
  wait "$again" || status=$?
  cat "$WORK/again"
  [ "$status" = 0 ] && grep -q '"attempts":2' "$WORK/again" || runs=1
  status=0
  wait "$once" || status=$?
  cat "$WORK/once"
  [ "$status" = 125 ] && grep -q '"state":"interrupted"' "$WORK/once" && [ "$runs" = 0 ]
}

# The fault is on a worker that has the task of another's job: that job is named, and none that ran beside it.
stolen_beside() {
  local once status=0
  wsctl --json submit sleep:sleep 600000 >"$WORK/once" 2>&1 &
  once=$!
  wait_until sh -c "wsctl --json list | grep -q '\"running\"'" || return 1
  wsctl --json submit crash:stolen >"$WORK/json" 2>&1
  [ $? = 70 ] || {
    cat "$WORK/json"
    return 1
  }
  wait "$once" || status=$?
  cat "$WORK/json" "$WORK/once"
  grep -q '"function":"stolen","state":"crashed"' "$WORK/json" && [ "$status" = 125 ] && grep -q '"state":"interrupted"' "$WORK/once"
}

# wsd stands still while two jobs end and a third one takes their executor down: what those two had written is theirs.
zombie() { # PID
  grep -q '^State:.*Z' "/proc/$1/status"
}
written_is_kept() { # FUNCTION CODE: of what takes it down
  local first second third executor status=0
  rm -f "$WORK/go"
  first=$(wsctl submit --detach "$TEST_PLUGINS/hostile/file-one.so:when" "$WORK/go") && wait_until sh -c "wsctl --json list | grep -q '\"running\"'" &&
    second=$(wsctl submit --detach echo:echo hello) && third=$(wsctl submit --detach "crash:$1") &&
    wait_until sh -c "wsctl --json stats | grep -q '\"jobs_handed_over\":3'" && executor=$(pgrep -P "$WSD_PID" -f wsd-executor) || return 1
  stop_process "$WSD_PID"
  touch "$WORK/go"
  wait_until zombie "$executor" || status=1
  kill -CONT "$WSD_PID"
  [ "$status" = 0 ] && expect_output "one $((7 << 20))" wsctl await "$first" && expect_output hello wsctl await "$second" &&
    expect_exit "$2" wsctl await "$third" && wsctl --json status "$first" | grep -q '"attempts":1' &&
    wsctl --json status "$second" | grep -q '"attempts":1'
}

interrupt_cancels() {
  local status=0 pid
  # a background job of a shell ignores SIGINT unless it is told otherwise
  env --default-signal=INT "$WSCTL" submit spin:spin >"$WORK/out" 2>&1 &
  pid=$!
  wait_until sh -c "wsctl --json list | grep -q '\"running\"'" || return 1
  kill -INT "$pid"
  wait "$pid" || status=$?
  [ "$status" = 130 ] && wait_until sh -c "! wsctl --json list | grep -q '\"running\"'"
}

detached_is_awaited_and_cancelled() {
  local id
  id=$(wsctl submit --detach echo:echo hello) || return 1
  expect_output hello wsctl await "$id" || return 1
  expect_output hello wsctl await "$id" || return 1
  id=$(wsctl submit --detach spin:spin) || return 1
  wsctl status "$id" || return 1
  wsctl cancel "$id" || return 1
  expect_exit 130 wsctl await "$id"
}

round_trip() { # FUNCTION
  seq 6000000 | wsctl submit --input - "$1" | cmp - <(seq 6000000)
}

printf '[limits]\ncancel-grace = 300ms\n' >"$WSD_CONFIG"
start_wsd --log-level debug --workers 3 --plugin-dir "$TEST_PLUGINS" || exit 1
check "a crash in a stolen child names its job, and none beside it" stolen_beside
check "SIGSEGV: 70, with signal and address" crashed segv "Segmentation fault at address 0x1238"
check "abort: 70" crashed abort "Aborted"
check "exit(): 70, and says so" crashed exit "exit()"
check "_exit(): 70, and says so" crashed at-once "exit()"
check "SIGBUS: 70" crashed bus "Bus error at address 0x"
check "SIGILL: 70" crashed illegal "Illegal instruction\|Trace/breakpoint trap"
check "SIGFPE: 70" crashed divide "Floating point exception"
check "a call to nowhere: 70" crashed jump "Segmentation fault at address 0x1238"
check "kill -9 leaves no note: 125" expect_exit 125 wsctl submit crash:kill
check "a forked child's end is none of its job's" expect_output alone wsctl submit crash:forks
check "a backtrace is told: SIGSEGV" traced deep deep_segv "Segmentation fault"
check "a backtrace is told: abort" traced abort on_abort "Aborted"
check "a backtrace is told: exit" traced exit on_exit_call "called exit"
check "a backtrace is told: a stolen child" traced stolen "[a-z_A-Z]*child[a-zA-Z_0-9.]*" "Segmentation fault"
in_cxx() { # people read names of C++ as they write them; programs, as the compiler writes them
  local id
  id=$(wsctl submit --detach throws:faults) || return 1
  expect_exit 70 wsctl await "$id" || return 1
  wsctl status "$id" >"$WORK/status" && wsctl --json status "$id" >"$WORK/json" || return 1
  cat "$WORK/status" "$WORK/json"
  grep -Eq '#[0-9]+ moon::crater<int>::fall\(int volatile\*\)\+0x[0-9a-f]+ in throws\+0x[0-9a-f]+$' "$WORK/status" &&
    grep -Eq '"#[0-9]+ _ZN4moon6craterIiE4fallEPVi\+0x' "$WORK/json" && wsctl plugin show throws >"$WORK/show" &&
    grep -q '  crashed 1 time, at last: Segmentation fault' "$WORK/show"
}
if [ -e "$TEST_PLUGINS/throws.so" ]; then
  check "a backtrace is told: C++" in_cxx
else
  skip "a backtrace is told: C++" "there is no C++ compiler here"
fi
check "a death with much memory is not waited for" acts_at_the_note
if [ -n "${WSD_SANITIZE:-}" ]; then
  check "stack overflow: 70" crashed overflow "Segmentation fault at address\|stack"
  skip "what is said of a stack overflow" "sanitizers have frames and handlers of their own"
else
  for how in overflow large stolen-overflow; do
    check "stack overflow ($how): 70, and says what to do" crashed "$how" "$overflow"
    check "--local says so too ($how)" overflows_locally "$how"
  done
fi
check "a fault deep in the stack is none of its own" crashed deep "Segmentation fault at address 0x1238"
check "a crash in a stolen child names the job" crashed stolen "Segmentation fault at address"
check "neighbours of a crash: run again, or told" neighbours
check "--timeout: 124" json_state timed-out 124 wsctl --json submit --timeout 100ms spin:spin
check "--timeout of a job that does not heed: 124" json_state timed-out 124 wsctl --json submit --timeout 100ms spin:deaf
check "and wsd goes on" expect_output 6765 wsctl submit fib 20
check "time enough: 0" expect_output 6765 wsctl submit --timeout 60s fib 20
check "SIGINT cancels: 130" interrupt_cancels
check "detached jobs: await, await again, status, cancel" detached_is_awaited_and_cancelled
check "output larger than any buffer" sh -c '[ "$(wsctl submit bigoutput 200000000 | wc -c)" = 200000000 ]'
check "a reader that stops early harms nobody" sh -c 'wsctl submit bigoutput 200000000 | head -c 1000 >/dev/null; wsctl submit fib 20'
check "input by stream, larger than any window" round_trip echo:stream
check "input in one piece, larger than any window" round_trip echo
stop_wsd

for how in segv:70 kill:125; do
  start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
  check "results that were written before the executor died (${how%:*}) are kept" written_is_kept "${how%:*}" "${how#*:}"
  stop_wsd
done

# With one worker, which is looked at: of several, only two are.
if [ "$(uname -r | awk -F. '{print $1 * 1000 + $2}')" -ge 6009 ]; then
  start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
  check "one of which threads have ended is ended" ends_piecemeal
  check "and the next one works" expect_output 6765 wsctl submit fib 20
  stop_wsd
else
  skip "one of which threads have ended is ended" "threads cannot be looked at before Linux 6.9"
fi
