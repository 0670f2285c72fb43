#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# lane-share.sh: more clients than direct lanes: one that is idle gives its lane to one that calls, one that works keeps
# it, and no call is lost on the way.
. "$(dirname "$0")/../support/lib.sh"

D=$BUILD/tests/support/clients/direct
TURNS=6 CALLS=300
[ -z "${WSD_THOROUGH:-}" ] || TURNS=100

if ! "$D" -x >/dev/null; then
  skip "direct lanes" "this kernel has no futex_waitv (Linux 5.16)"
  exit 0
fi
printf '[limits]\nmax-lanes-per-user = 2\ncancel-grace = 1h\n' >"$WSD_CONFIG"
start_wsd --workers 4 --plugin-dir "$TEST_PLUGINS" || exit 1

counter_above() { # NAME VALUE
  [ "$(counter "$1")" -gt "$2" ]
}
has_said() { # FILE WORDS...
  local word
  for word in "${@:2}"; do
    grep -qF -- "$word" "$1" || {
      cat "$1"
      return 1
    }
  done
}
# A client that has its lane, has called, and waits until it is let go on: CLIENTS[NAME] is its process.
declare -A CLIENTS
idle() { # NAME OPTION...
  rm -f "$WORK/go.$1"
  : >"$WORK/$1"
  "$D" -l -w -h "$WORK/go.$1" "${@:2}" direct:again >"$WORK/$1" 2>&1 &
  CLIENTS[$1]=$!
  note_started $!
  wait_until grep -q held "$WORK/$1"
}
takes_one() { # NAME: the lane of another one, when that has been idle for long enough
  local before
  before=$(counter direct_lanes_taken_back)
  wait_until lane_is_there && idle "$1" && counter_above direct_lanes_taken_back "$before"
}
lane_is_there() { "$D" -l -n 0 direct:again; }
goes_on() { # NAME WORDS...: it ends, having said that
  touch "$WORK/go.$1"
  wait "${CLIENTS[$1]}" || {
    cat "$WORK/$1"
    return 1
  }
  has_said "$WORK/$1" "${@:2}"
}
# One that wants a lane at once and calls.
calls() { # WORDS OPTION...
  timeout $((60 * TIME_SCALE)) "$D" -l "${@:2}" direct:again >"$WORK/calls" 2>&1
  echo "exit $?" >>"$WORK/calls"
  # shellcheck disable=SC2086
  has_said "$WORK/calls" $1
}
# Two that are at work: their calls run until $WORK/end is there.
work() {
  rm -f "$WORK/end"
  "$D" -l -w -p 2 -n 1 direct:again gate "$WORK/end" >"$WORK/work" 2>&1 &
  CLIENTS[work]=$!
  note_started $!
  wait_until counter_is direct_running 2
}

check "a client has a lane" idle first
check "and another one" idle second
check "which are all that there may be" counter_is direct_lanes 2
check "a third one has that of one which is idle, in the end" wait_until calls "succeeded=200 direct=200 wrong=0" -w -n 200
check "which was taken back" counter_is direct_lanes_taken_back 1
check "the first one, which was idle for longest, goes on without it" goes_on first succeeded=1 wrong=0
check "so does the second one" goes_on second succeeded=1 wrong=0
check "their lanes go with them" wait_until counter_is direct_lanes 0

check "a client whose lane was taken back has one again when it calls on" idle first -n 2000
check "(others have both)" idle second
check "(and one more)" takes_one third
check "(one of them gives its lane to one that ends at once)" wait_until lane_is_there
check "it calls on, and all is right" goes_on first succeeded=2000 wrong=0
direct_again() { # at least half of them
  local n
  n=$(sed -nE 's/.*\bdirect=([0-9]+).*/\1/p' "$WORK/first")
  echo "$n of 2000 were direct"
  [ "$n" -ge 1000 ] && [ "$n" -lt 2000 ]
}
check "some by the socket, most of them direct" direct_again
check "the others go on, too" goes_on second succeeded=1
check "each of them" goes_on third succeeded=1

check "(two clients are idle, of which one will open its lane again)" idle first -l -n 100
check "(and another one)" idle second
check "(a third one has the lane of the first)" takes_one third
check "(and ends)" goes_on third succeeded=1
touch "$WORK/go.first"
check "a client opens its lane again that was taken back" wait_until gone "${CLIENTS[first]}"
check "and calls by it" goes_on first succeeded=100 direct=100
check "the other one goes on by its own" goes_on second direct=1
check "(no lane is there)" wait_until counter_is direct_lanes 0

taken=$(counter direct_lanes_taken_back)
check "a client keeps its lane" idle first -K
check "(another one is idle)" idle second
check "a third one has the other's" wait_until calls "succeeded=20 direct=20" -w -n 20
check "which was taken back" counter_is direct_lanes_taken_back $((taken + 1))
check "the kept one goes on by its lane" goes_on first "calls=1" direct=1
check "the other one without" goes_on second succeeded=1
check "(no lane is left)" wait_until counter_is direct_lanes 0
check "two clients keep both" idle first -K
check "of them" idle second -K
refused_for_long() { # for longer than the 10 ms that a lane must be idle to be taken
  local until
  until=$(($(date +%s%3N) + 100))
  while [ "$(date +%s%3N)" -lt "$until" ]; do
    calls "75: max-lanes-per-user" -n 1 || return 1
  done
}
check "a third one has none, and hears why" refused_for_long
check "and calls by the socket" "$D" -n 20 direct:again
check "each goes on by its own" goes_on first direct=1
check "and the other" goes_on second direct=1
check "(no lane is left again)" wait_until counter_is direct_lanes 0

check "a client that closes its lane leaves room" idle first -k -n 60
check "nothing is taken back" counter_is direct_lanes 0
check "it calls on, and has a lane again by itself" goes_on first succeeded=60 direct=60

check "(as many calls as one lane has)" wsctl limits --user "$(id -un)" max-jobs-per-user=64
check "a client that is idle" idle first
check "does not keep them from another one" wait_until calls "succeeded=20 direct=20" -w -n 20
check "(any number)" wsctl limits --user "$(id -un)" max-jobs-per-user=
check "and goes on" goes_on first succeeded=1

# One whose call does not end when its client has gone.
deaf() {
  "$D" -l -w -n 1 direct:again deaf >"$WORK/deaf" 2>&1 &
  note_started $!
  wait_until counter_is direct_running 1 && kill -KILL $! # and with it the process that calls
}
check "a client leaves a call that does not end" deaf
check "another one is idle" idle first
check "whose lane a third one has, whatever the other does" wait_until calls "succeeded=20 direct=20" -w -n 20
pkill -KILL -P "$WSD_PID"
check "the idle one goes on when the executor has died" goes_on first calls=1
check "no lane is left" wait_until counter_is direct_lanes 0

before=$(counter direct_lanes_taken_back)
check "two clients are at work" work
# A client asks after 3 calls, and then after 64, 128, 256 ...
refused=$(counter direct_lanes_refused)
by_the_socket() { "$D" -n 20000 -u "$WORK/enough" direct:again >"$WORK/calls"; }
by_the_socket &
check "a third one asks again and again" wait_until counter_above direct_lanes_refused $((refused + 8))
touch "$WORK/enough"
check "and calls by the socket meanwhile" wait $!
check "with success" has_said "$WORK/calls" direct=0 wrong=0 failed=0 lost=0 strange=0
check "no third one has a lane" calls "75: max-lanes-per-user" -n 1
check "and nobody's lane was taken" counter_is direct_lanes_taken_back "$before"
touch "$WORK/end"
check "those at work succeed" wait "${CLIENTS[work]}"
check "both" has_said "$WORK/work" succeeded=2 direct=2

# As the connections of a database do: many, each of which makes its calls when it has its turn.
turns() {
  "$D" -p 8 -t 0 -n $((CALLS * TURNS)) -w direct:again >"$WORK/turns" 2>&1 || {
    cat "$WORK/turns"
    return 1
  }
  has_said "$WORK/turns" succeeded=$((8 * CALLS * TURNS)) wrong=0
}
check "eight clients at once share two lanes, and no call is lost" turns

check "the limit can be moved" wsctl limits --user "$(id -un)" max-lanes-per-user=3
check "two are at work" work
check "and a third one has a lane" calls "succeeded=20 direct=20" -w -n 20
touch "$WORK/end"
wait "${CLIENTS[work]}"

check "two clients are at work again" work
pkill -KILL -P "$WSD_PID"
touch "$WORK/end"
wait "${CLIENTS[work]}"
check "their executor dies: each call has its end" has_said "$WORK/work" calls=2 succeeded=2
check "wsd stops" stop_wsd
clean_log "$WSD_LOG"
