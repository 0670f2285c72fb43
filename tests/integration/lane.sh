#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# lane.sh: direct lanes: wsd_call() goes through shared memory where it can, and by the socket where not, with the same
# answers; time limits, crashes, kills, drains and clients that scribble cost what they may, and each call has one end.
. "$(dirname "$0")/../support/lib.sh"

D=$BUILD/tests/support/clients/direct
KILLS=20
CALLS=300 # a process, of a millisecond each, and as many again until the executors have been killed so often
[ -z "${WSD_THOROUGH:-}" ] || KILLS=200

direct() { # WORDS OPTION...
  has_counts "$1" timeout "${DIRECT_LIMIT:-$((60 * TIME_SCALE))}" "$D" "${@:2}"
}
counter_above() { # NAME VALUE
  [ "$(counter "$1")" -gt "$2" ]
}
executor() {
  pgrep -P "$WSD_PID" -n -f wsd-executor
}
held() { # FILE
  grep -q held "$1"
}

if ! "$D" -x >/dev/null; then
  skip "direct lanes" "this kernel has no futex_waitv (Linux 5.16)"
  exit 0
fi

printf '[limits]\ncancel-grace = 1s\nexecutor-answer = 2s\nquarantine-after = 1000\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1

greedy() { # HOW: a client that keeps to the layout of a lane and to nothing else
  timeout $((60 * TIME_SCALE)) "$BUILD/tests/support/clients/lane-scribbler" "$1" direct:direct || return 1
  wait_until counter_is direct_lanes 0
}

# --- what goes, and how -------------------------------------------------------------------------------------------------

check "calls go direct after a few, and all are right" direct "succeeded=2000 direct=2000 wrong=0" -w -n 2000 direct:direct
check "so do those of several clients at once" direct "succeeded=4000 direct=4000 wrong=0" -w -p 4 -n 1000 direct:direct
check "a few calls go by the socket" direct "succeeded=3 direct=0" -n 3 direct:direct
check "the flag keeps them there" direct "succeeded=50 direct=0" -f 2 -n 50 direct:direct
check "with more room than a lane has they do too" direct "succeeded=2 direct=0" -w -r 4000 -n 2 direct:direct ok
check "and what is streamed" direct "succeeded=20 direct=0" -n 20 direct:stream ok
long=$(printf '%01900d' 0)
check "arguments that fit a lane" direct "succeeded=2 direct=2" -w -n 2 direct:direct ok "$long"
check "arguments that do not" direct "succeeded=2 direct=0" -w -n 2 direct:direct ok "$long$long"
check "output up to the room" direct "succeeded=1 direct=1" -w -r 2048 direct:direct big 2048
check "and above, direct" direct "too-large=1 calls=1" -w -r 2048 direct:direct big 2049
check "and above, by the socket" direct "too-large=1 calls=1" -f 2 -r 2048 direct:direct big 2049
check "output that may have any size, by the socket" direct "succeeded=3 direct=0 bytes=3000000" -f 4 -n 3 bigoutput 3000000
check "little of it" direct "succeeded=2 direct=0 bytes=6" -w -f 4 -n 2 direct:direct name
check "none of it" direct "succeeded=2 direct=0 bytes=0" -f 4 -n 2 direct:direct ok
check "of many at once" direct "succeeded=3000 direct=0 wrong=0" -c -f 4 -n 3000 direct:direct
check "where one fails" direct "failed=1 exit=7 seven" -f 4 direct:direct fail 7 "because seven "
for flags in 0 2; do
  check "a status with its words (flags $flags)" direct "failed=1 exit=7 seven" -w -f $flags direct:direct fail 7 "because seven "
done
check "a file, where wsd is the user's own" direct "succeeded=1 direct=1" -w direct:direct open /etc/passwd
before=$(counter direct_calls)
check "they are counted" direct "succeeded=100 direct=100" -w -n 100 direct:direct
check "in stats" counter_above direct_calls $((before + 99))
check "and their lanes go with them" wait_until counter_is direct_lanes 0

check "a limit on a function keeps it out of lanes" wsctl limit direct:again 1
check "so that it holds" direct "succeeded=200 direct=0" -n 200 direct:again
check "others go on" direct "succeeded=10 direct=10" -w -n 10 direct:direct
check "without the limit" wsctl limit direct:again none
check "it is direct again" direct "succeeded=10 direct=10" -w -n 10 direct:again

check "what wsd has not bound, or is pushed twice, is not begun" greedy greedy

# --- many at once -------------------------------------------------------------------------------------------------------

many() { # WORDS OPTION...: with 5,000 calls
  direct "$1" -w -c -n 5000 "${@:2}"
}
before=$(counter direct_calls)
check "many at once go direct, and all are right" many "calls=5000 succeeded=5000 direct=5000 wrong=0" direct:direct
check "and are all counted" counter_above direct_calls $((before + 4999))
check "those of several clients, too" direct "succeeded=20000 direct=20000 wrong=0" -w -c -p 4 -n 5000 direct:direct
check "without a lane at first" direct "calls=5000 succeeded=5000 wrong=0" -c -n 5000 direct:direct
some_direct() {
  [[ $(direct "" -c -n 5000 direct:direct) =~ direct=[1-9] ]]
}
check "which there is before they are through" wait_until some_direct # unless the executor sleeps meanwhile: once is enough
check "by the socket" direct "succeeded=5000 direct=0 wrong=0" -c -n 5000 -f 2 direct:direct
check "none" direct "calls=0" -c -n 0 direct:direct
check "one" direct "succeeded=1 direct=1 wrong=0" -w -c -n 1 direct:direct
check "failures in between are theirs alone" many "succeeded=4950 failed=50 direct=5000 wrong=0 seven" -m 100 direct:direct fail 7 "because seven "
check "so are words of who succeeds" many "succeeded=5000 direct=5000 wrong=0" -m 100 direct:direct say hello
check "and outputs that are too large" many "succeeded=4950 too-large=50 wrong=0" -m 100 -r 100 direct:direct big 101
check "up to the room" many "succeeded=5000 direct=5000 wrong=0" -m 100 -r 600 direct:direct big 600
check "what fits no lane goes by the socket, the others direct" many "succeeded=5000 direct=4950 wrong=0" -m 100 direct:direct ok "$long$long"
check "a time limit is that of each" direct "succeeded=996 timed-out=4 direct=1000 wrong=0" -w -c -n 1000 -m 250 -t 500 direct:direct nap 60000
check "one that takes long in between" direct "succeeded=1000 direct=1000 wrong=0" -w -c -n 1000 -m 250 direct:direct nap 50
check "those that wait for each other have them, though they were brief before" direct "succeeded=1000 direct=1000 wrong=0" -w -c -n 1000 -m 20 direct:direct meet 50
check "two that wait for each other, when one was woken for both" direct "succeeded=20 direct=20" -w -c -n 20 direct:direct meet 2
meet_alone() {
  local i
  for ((i = 0; i < 10; i++)); do
    direct "succeeded=2 direct=2" -w -c -n 2 direct:direct meet 2 || return 1
  done
}
check "and when there are no others" meet_alone
check "as many as there are slots" direct "succeeded=64 direct=64" -w -c -n 64 direct:direct meet 64
check "many that take a millisecond each" direct "succeeded=400 direct=400" -w -c -n 400 direct:direct nap 1

renumbered() { # wsd takes all numbers back, and the other function asks first
  : >"$WORK/held"
  "$D" -w -n 100 -o again -h "$WORK/go" direct:direct >"$WORK/held" &
  local load=$!
  wait_until held "$WORK/held" || return 1
  wsctl pause || return 1
  wsctl resume || return 1
  touch "$WORK/go"
  wait $load || {
    cat "$WORK/held"
    return 1
  }
  rm "$WORK/go"
  grep -q "succeeded=100 .*wrong=0" "$WORK/held"
}
check "a number is that of one function, whoever asks first when they are taken back" renumbered

# --- time ----------------------------------------------------------------------------------------------------------------

check "a time limit, heeded" direct "timed-out=2 direct=2 exit=124" -w -n 2 -t 100 direct:direct nap 60000
check "not heeded: its executor is replaced" direct "timed-out=1 direct=1 exit=124" -w -t 100 direct:direct deaf
check "and said so" grep -q "does not heed that its time is up" "$WSD_LOG"

gone_with_client() { # WHAT...
  : >"$WORK/held"
  background "$D" -w -h "$WORK/go" direct:direct "$@" >"$WORK/held"
  wait_until held "$WORK/held" || return 1
  touch "$WORK/go"
  wait_until counter_is direct_running 1 || return 1
  kill -KILL "$BACKGROUND_PID"
  rm "$WORK/go"
  wait_until counter_is direct_running 0 && wait_until counter_is direct_lanes 0
}
check "a call is cancelled when its client goes" gone_with_client nap 600000
check "also one that heeds no cancel" gone_with_client deaf

# --- deaths ----------------------------------------------------------------------------------------------------------------

check "a crash is told to its caller" direct "crashed=1 direct=1 exit=70 Segmentation" -w direct:direct segv
check "in the midst of others: they are begun again" direct "succeeded=996 crashed=4 wrong=0" -w -c -n 1000 -m 250 direct:again segv
some_end() { # of calls that may not run twice: each has an end, and at most those that ran beside a crash are interrupted
  direct "calls=1000 crashed=4 wrong=0" -w -c -n 1000 -m 250 direct:direct segv >"$WORK/out" || {
    cat "$WORK/out"
    return 1
  }
  cat "$WORK/out"
  # shellcheck disable=SC1090
  . <(sed -n '1s/-/_/gp' "$WORK/out")
  # shellcheck disable=SC2154
  [ $((succeeded + interrupted)) = 996 ] && [ "$interrupted" -le 4 ]
}
check "or interrupted, where they ran and may not run twice" some_end
check "and counts against the function" grep -q "direct:direct crashed in a direct call" "$WSD_LOG"
check "exit() is a crash too" direct "crashed=1 direct=1 exit()" -w direct:direct exit

stopped() {
  : >"$WORK/held"
  "$D" -w -h "$WORK/go" direct:again >"$WORK/stopped" &
  wait_until held "$WORK/stopped" || return 1
  stop_process "$(executor)"
  touch "$WORK/go"
  wait $! || return 1
  rm "$WORK/go"
  cat "$WORK/stopped"
  grep -q "succeeded=1 " "$WORK/stopped"
}
check "an executor that is stopped is replaced under its direct calls" stopped

moved_or_gone() { # PID CALLS
  gone "$1" || counter_above direct_calls "$2"
}
killed_under_load() { # FUNCTION OPTION...
  local i before
  rm -f "$WORK/enough"
  "$D" -w -p 3 -n $CALLS -u "$WORK/enough" "${@:2}" "direct:$1" nap 1 >"$WORK/load" &
  local load=$!
  for ((i = 0; i < KILLS; i++)); do
    before=$(counter direct_calls)
    wait_until moved_or_gone $load "$before" # they go direct again
    gone $load && break
    pkill -KILL -P "$WSD_PID"
  done
  touch "$WORK/enough"
  wait $load || {
    cat "$WORK/load"
    return 1
  }
  cat "$WORK/load"
  echo "killed $i times"
  # shellcheck disable=SC1090
  . <(sed -n '1s/-/_/gp' "$WORK/load")
  # shellcheck disable=SC2154
  [ "$i" = $KILLS ] && [ "$calls" -ge $((3 * CALLS)) ] && [ $((succeeded + interrupted)) = "$calls" ] &&
    [ "$interrupted" -le $((KILLS * 2)) ]
}
check "kill -9 under load: every idempotent call succeeds" killed_under_load again
check "none of them was interrupted" grep -q "interrupted=0 " "$WORK/load"
check "others are interrupted or succeed, each once" killed_under_load direct
check "some of them were" grep -q "interrupted=[1-9]" "$WORK/load"

check "the same for many at once: idempotent ones" killed_under_load again -c
check "none of them was interrupted" grep -q "interrupted=0 " "$WORK/load"
check "and others" killed_under_load direct -c

# --- clients that scribble -----------------------------------------------------------------------------------------------------

scribbling=()
scribblers() {
  local i died
  for i in 1 2 3; do
    background "$BUILD/tests/support/clients/lane-scribbler" "$i" direct:direct >"$WORK/scribbler-$i"
    scribbling+=("$BACKGROUND_PID")
  done
  for i in 1 2 3; do
    wait_until grep -q scribbling "$WORK/scribbler-$i" || return 1
  done
  died=$(counter executors_died)
  direct "succeeded=6000 wrong=0" -w -p 3 -n 2000 direct:direct || return 1
  direct "succeeded=60000 wrong=0" -w -c -p 3 -n 20000 direct:direct || return 1
  expect_output 6765 wsctl submit fib 20 || return 1
  counter_is executors_died "$died" || {
    echo "an executor died"
    return 1
  }
}
check "clients that scribble over their lanes hurt nobody" scribblers
for pid in "${scribbling[@]}"; do
  kill -KILL "$pid"
  wait "$pid" 2>/dev/null
done
check "and leave nothing" wait_until counter_is direct_lanes 0

# --- the end ---------------------------------------------------------------------------------------------------------------------

drained_by_hand() {
  "$D" -w -h "$WORK/go2" direct:direct gate "$WORK/gate" >"$WORK/drained" &
  local load=$!
  wait_until held "$WORK/drained" || return 1
  touch "$WORK/go2"
  wait_until counter_is direct_running 1 || return 1
  background wsctl --json drain >"$WORK/out"
  wait_until grep -q 'all functions: drained by' "$WSD_LOG" && ! gone "$BACKGROUND_PID" || return 1
  touch "$WORK/gate"
  wait_for_exit "$BACKGROUND_PID" && counter_is direct_running 0 && wsctl resume || return 1
  wait $load
  cat "$WORK/out" "$WORK/drained"
  grep -q '"waited_for":1}' "$WORK/out" && grep -q "succeeded=1 " "$WORK/drained"
}
check "wsctl drain waits for direct calls" drained_by_hand
drained() {
  : >"$WORK/drained"
  rm "$WORK/gate"
  "$D" -w -h "$WORK/go" direct:direct gate "$WORK/gate" >"$WORK/drained" &
  local load=$!
  wait_until held "$WORK/drained" || return 1
  touch "$WORK/go"
  wait_until counter_is direct_running 1 || return 1
  kill -TERM "$WSD_PID"
  wait_until grep -q draining "$WSD_LOG" && ! gone "$WSD_PID" || return 1
  touch "$WORK/gate"
  wait_for_exit "$WSD_PID" && clean_log "$WSD_LOG" || return 1
  wait $load
  cat "$WORK/drained"
  grep -q "succeeded=1 " "$WORK/drained"
}
check "a drain waits for direct calls" drained

# --- limits ------------------------------------------------------------------------------------------------------------------------

printf '[plugin direct]\nmax-run = 200ms\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "max-run" direct "timed-out=1 direct=1 exit=124" -w direct:direct nap 600000
stop_wsd
printf '[limits]\nmax-jobs-per-user = 1\n' >"$WSD_CONFIG" # without it: a worker that has to wait for a CPU is not in time
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
all_credit() {
  background "$D" -K -h "$WORK/never" direct:direct >"$WORK/held" # one that is idle and not kept would give it away
  wait_until held "$WORK/held" || return 1
  direct "succeeded=200 direct=0" -n 200 direct:direct || return 1
  kill -KILL "$BACKGROUND_PID"
  wait_until counter_is direct_lanes 0 || return 1
  direct "succeeded=10 direct=10" -w -n 10 direct:direct
}
check "who has all the credit of his user leaves none, and gives it back" all_credit
check "who pushes more calls than he has credit for has them refused" greedy credit
check "many by the socket, where there is room for one" direct "succeeded=200 direct=0 wrong=0" -c -n 200 -f 2 direct:direct
check "a call by the socket beside it has its own quota" direct "succeeded=20 direct=0" -f 2 -n 20 direct:direct
stop_wsd

: >"$WSD_CONFIG"
# Its executor dies with wsd; the connection says so.
killed_wsd() {
  rm -f "$WORK/go"
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || return 1
  "$D" -w -h "$WORK/go" direct:again nap 600000 >"$WORK/killed" &
  local load=$!
  wait_until held "$WORK/killed" || return 1
  touch "$WORK/go"
  wait_until counter_is direct_running 1 || return 1
  kill -KILL "$WSD_PID"
  wait $load
  cat "$WORK/killed"
  grep -q "lost=1 .*exit=125" "$WORK/killed"
}
check "kill -9 of wsd is told to who waits in a lane" killed_wsd

killed_wsd_many() {
  rm -f "$WORK/go"
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || return 1
  "$D" -w -c -n 300 -h "$WORK/go" direct:again nap 600000 >"$WORK/killed" &
  local load=$!
  wait_until held "$WORK/killed" || return 1
  touch "$WORK/go"
  wait_until counter_above direct_running 1 || return 1
  kill -KILL "$WSD_PID"
  wait $load || return 1
  cat "$WORK/killed"
  grep -q "lost=300 calls=300 exit=125" <(sed 's/strange=0 wrong=0 //' "$WORK/killed")
}
check "to each of many" killed_wsd_many
start_wsd --workers 8 --plugin-dir "$TEST_PLUGINS" || exit 1
check "who waits for long beside idle workers is not shut out" direct "succeeded=1000 direct=1000 wrong=0" -w -c -n 1000 -m 1000 direct:direct nap 2000
killed_behind() {
  local succeeded lost
  rm -f "$WORK/go"
  "$D" -w -c -n 300 -m 300 -h "$WORK/go" direct:again nap 600000 >"$WORK/killed" &
  local load=$!
  wait_until held "$WORK/killed" || return 1
  touch "$WORK/go"
  wait_until counter_above direct_running 0 || return 1
  kill -KILL "$WSD_PID"
  wait $load || return 1
  cat "$WORK/killed"
  read -r succeeded lost <<<"$(sed -n 's/.* succeeded=\([0-9]*\) .* lost=\([0-9]*\) .*/\1 \2/p' "$WORK/killed")"
  [ $((succeeded + lost)) = 300 ] && [ "$lost" -gt 0 ]
}
check "and hears of a wsd that was killed" killed_behind
