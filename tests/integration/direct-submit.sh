#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# direct-submit.sh: WSD_SUBMIT_DIRECT: jobs that a program on an event loop hands to its direct lane, with one end each,
# whatever dies, is cancelled or takes long.
. "$(dirname "$0")/../support/lib.sh"

D=$BUILD/tests/support/clients/direct-loop
# a client opens its lane again after a pause of seconds, so restarts are few
KILLS=8 RESTARTS=1
[ -z "${WSD_THOROUGH:-}" ] || KILLS=200 RESTARTS=3

loop() { # WORDS OPTION...
  has_counts "$1" timeout $((60 * TIME_SCALE)) "$D" "${@:2}"
}
executor() {
  pgrep -P "$WSD_PID" -n -f wsd-executor
}

if ! "$BUILD/tests/support/clients/direct" -x >/dev/null; then
  skip "direct lanes" "this kernel has no futex_waitv (Linux 5.16)"
  exit 0
fi

printf '[limits]\ncancel-grace = 1s\nexecutor-answer = 2s\nquarantine-after = 1000\n' >"$WSD_CONFIG"
WSD_SOCKET=$WORK/wsd.sock
export WSD_SOCKET
serve || exit 1

# --- what goes, and how -------------------------------------------------------------------------------------------------

check "they go direct after a few, and all are right" loop "direct=20000 succeeded=20000 wrong=0 told=20000" -w -n 20000 direct:direct
check "by a loop that waits for the handle alone" loop "direct=5000 succeeded=5000 wrong=0" -b -w -n 5000 direct:direct
check "one at a time" loop "direct=500 succeeded=500 wrong=0" -w -a 1 -n 500 direct:direct
check "several in a slot" loop "direct=20000 succeeded=20000 wrong=0" -w -r 64 -n 20000 direct:direct
check "their output by callback" loop "direct=5000 succeeded=5000 wrong=0" -w -o -r 64 -n 5000 direct:direct
check "more than a lane has slots" loop "succeeded=5000 wrong=0 told=5000" -w -a 1000 -n 5000 direct:direct
check "a callback that waits for another one" loop "succeeded=2000 wrong=0 twice=0 told=2000" -w -r 64 -i 50 -n 2000 direct:direct
check "without the flag they go by the socket" loop "direct=0 succeeded=1000 wrong=0" -s -n 1000 direct:direct
check "and so they do at first" loop "direct=0 succeeded=3 wrong=0" -n 3 direct:direct
check "with more room than a lane has, too" loop "direct=0 succeeded=10 wrong=0" -w -r 2049 -n 10 direct:direct
check "and what is streamed" loop "direct=0 succeeded=20 wrong=0" -n 20 direct:stream ok
long=$(printf '%01900d' 0)
check "arguments that fit" loop "direct=2 succeeded=2" -w -n 2 direct:direct ok "$long"
check "and that do not" loop "direct=0 succeeded=2" -w -n 2 direct:direct ok "$long$long"
check "output up to the room" loop "direct=1 succeeded=1" -w -r 100 direct:direct big 100
check "and above" loop "direct=0 too-large=1 errors=1 told=1" -w -r 100 direct:direct big 101
check "the same by the socket" loop "too-large=1 errors=1 told=1" -w -r 4000 direct:direct big 4001
check "where the room is not given" loop "direct=1 succeeded=1" -w direct:direct big 2048
check "and above, which is direct, too" loop "too-large=1 errors=1 told=1" -w direct:direct big 2049
check "a failure with its words" loop "direct=1 failed=1 seven" -w direct:direct fail 7 "because seven "
check "failures in between are theirs alone" loop "direct=5000 succeeded=4950 failed=50 wrong=0" -w -r 64 -m 100 -n 5000 direct:direct fail 7
before=$(counter direct_calls)
check "they are counted" loop "direct=100" -w -n 100 direct:direct
counted() {
  [ "$(counter direct_calls)" -ge $((before + 200)) ]
}
check "in stats" counted
check "and their lanes go with them" wait_until counter_is direct_lanes 0

# --- ends before their time ---------------------------------------------------------------------------------------------

check "each is told once where some are cancelled at once" loop "wrong=0 twice=0 told=20000" -w -r 64 -c 7 -n 20000 direct:direct
check "freed at once" loop "wrong=0 twice=0 told=20000" -w -r 64 -f 7 -n 20000 direct:direct
check "or both" loop "wrong=0 twice=0 told=20000" -w -r 64 -c 5 -f 7 -i 100 -n 20000 direct:direct
check "one that runs is cancelled" loop "cancelled=4 told=4" -w -a 4 -c 1 -n 4 direct:direct nap 60000
check "and one that waits" loop "cancelled=40 told=40" -w -a 40 -c 1 -n 40 direct:direct nap 60000
check "a deadline" loop "late=8 errors=8 told=8" -w -a 8 -n 8 -d 100000 direct:direct nap 60000
check "a time limit is that of each" loop "direct=1000 succeeded=996 timed-out=4 wrong=0" -w -n 1000 -m 250 -t 500 direct:direct nap 60000
check "one that takes long in between holds none up" loop "succeeded=1000 wrong=0" -w -r 64 -n 1000 -m 250 direct:direct nap 50
check "those that wait for each other have them" loop "succeeded=1000 wrong=0" -w -r 64 -n 1000 -m 20 direct:direct meet 2
check "nor do those beside a wsd_call() that is given up" loop "direct=200 succeeded=200" -w -a 2 -n 200 -y 100 direct:direct meet 2
check "a time limit that is not heeded" loop "timed-out=1 told=1" -w -t 100 direct:direct deaf

# --- fork ---------------------------------------------------------------------------------------------------------------

check "children that free the handle, or exit, are not noticed" loop "direct=20000 succeeded=20000 wrong=0 twice=0" -w -r 64 -F 500 -n 20000 direct:direct
adopted() { # what was in the lane at the fork is lost, and nothing else
  loop "wrong=0 twice=0 told=20000" -w -r 64 -a 16 -A 10000 -n 20000 direct:direct >"$WORK/out" || {
    cat "$WORK/out"
    return 1
  }
  cat "$WORK/out"
  # shellcheck disable=SC1090
  . <(grep -o 'lost=[0-9]*\|succeeded=[0-9]*' "$WORK/out")
  # shellcheck disable=SC2154
  [ $((succeeded + lost)) = 20000 ] && [ "$lost" -le 16 ]
}
check "one that adopts it goes on" adopted

# --- deaths -------------------------------------------------------------------------------------------------------------

check "a crash is told once" loop "direct=1 crashed=1 told=1 Segmentation" -w direct:direct segv
check "in the midst of others: they go on" loop "crashed=4 succeeded=996 wrong=0 twice=0 told=1000" -w -n 1000 -m 250 direct:again segv
calls_since() { # N
  [ "$(counter direct_calls)" -gt "$1" ]
}
killed_under_load() { # FUNCTION WORDS: its executors die, again and again
  local i load before
  rm -f "$WORK/enough"
  "$D" -w -r 64 -u "$WORK/enough" "direct:$1" >"$WORK/load" &
  load=$!
  for ((i = 0; i < KILLS; i++)); do
    before=$(counter direct_calls)
    wait_until calls_since "$before" || return 1
    kill -KILL "$(executor)" 2>/dev/null
  done
  touch "$WORK/enough"
  wait $load || {
    cat "$WORK/load"
    return 1
  }
  cat "$WORK/load"
  grep -q " $2 .*wrong=0 twice=0" "$WORK/load"
}
check "executors that are killed: what may run twice succeeds" killed_under_load again "errors=0"
check "the rest is interrupted at worst" killed_under_load direct "crashed=0"
restarted_under_load() { # wsd dies, again and again
  local i load
  rm -f "$WORK/enough"
  "$D" -w -r 64 -u "$WORK/enough" direct:direct >"$WORK/load" &
  load=$!
  for ((i = 0; i < RESTARTS; i++)); do
    wait_until calls_since 0 || return 1
    kill_wsd
    serve || return 1
  done
  wait_until calls_since 0 || return 1
  touch "$WORK/enough"
  wait $load || {
    cat "$WORK/load"
    return 1
  }
  cat "$WORK/load"
  grep -q "wrong=0 twice=0" "$WORK/load"
}
check "wsd that is killed: each is told once" restarted_under_load
stop_wsd
