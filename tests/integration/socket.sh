#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# socket.sh: the file of wsd's socket: a wsd removes only the one that it made, and of several that start at the same place one gets it.
. "$(dirname "$0")/../support/lib.sh"

ROUNDS=6
[ -z "${WSD_THOROUGH:-}" ] || ROUNDS=100
PLACE=$WORK/place.sock
export WSD_SOCKET=$PLACE

start_at_place() { # NAME: in the background
  background "$WSD" --socket "$PLACE" --config "$WSD_CONFIG" --executor "$EXECUTOR" --spawner "$SPAWNER" --state-dir "$WORK/state-$1" \
    --plugin-dir "$PLUGINS" --workers 1 >"$WORK/log-$1" 2>&1 </dev/null
}
ready() { # NAME
  grep -q 'is ready at' "$WORK/log-$1"
}
ended_well() { # PID
  kill -TERM "$1" && wait_for_exit "$1"
}

the_others_stays() {
  local first second
  start_at_place first
  first=$BACKGROUND_PID
  wait_until ready first && rm "$PLACE" || return 1
  start_at_place second
  second=$BACKGROUND_PID
  wait_until ready second && ended_well "$first" || return 1
  [ -S "$PLACE" ] && expect_output 6765 wsctl submit fib 20 && ended_well "$second" && [ ! -e "$PLACE" ]
}
check "a wsd whose socket was removed leaves the next one's alone, which removes its own" the_others_stays

what_is_no_socket() {
  echo text >"$PLACE"
  start_at_place file
  expect_exit 74 wait_for_exit "$BACKGROUND_PID" && [ "$(cat "$PLACE")" = text ] && rm "$PLACE"
}
check "a file at the socket's place stays" what_is_no_socket

long_path() { # at the limit it serves; above it the words name the limit and what sets the path
  local short=$PLACE most above
  most=$WORK/$(printf 'x%.0s' $(seq $((106 - ${#WORK}))))
  above=${most}x
  PLACE=$most
  start_at_place most
  wait_until ready most && expect_output 6765 wsctl --socket "$most" submit fib 20 && ended_well "$BACKGROUND_PID" || return 1
  PLACE=$above
  start_at_place above
  PLACE=$short
  expect_exit 74 wait_for_exit "$BACKGROUND_PID" || return 1
  cat "$WORK/log-above"
  grep -q 'at most 107 bytes; give a shorter one with --socket, WSD_SOCKET or \[daemon\] socket' "$WORK/log-above"
}
check "a path that is too long: refused with the limit and the cure" long_path

# What kill -9 leaves is found by several at once: one has it, and the others say so.
one_of_several() {
  local round name pids serving left status
  for ((round = 0; round < ROUNDS; round++)); do
    start_at_place "$round-stale"
    wait_until ready "$round-stale" && kill -KILL "$BACKGROUND_PID" && wait_until gone "$BACKGROUND_PID" && [ -S "$PLACE" ] || return 1
    pids=()
    for name in a b c d; do
      start_at_place "$round-$name"
      pids+=("$BACKGROUND_PID")
    done
    wait_until one_left "${pids[@]}" || return 1
    serving='' left=0
    for name in "${pids[@]}"; do
      if gone "$name"; then
        status=0
        wait "$name" || status=$?
        [ "$status" = 69 ] || {
          echo "one ended with $status"
          return 1
        }
      else
        serving=$name left=$((left + 1))
      fi
    done
    [ "$left" = 1 ] && wait_until wsctl ping && ended_well "$serving" && [ ! -e "$PLACE" ] || return 1
  done
}
one_left() { # PID...: three of four have ended, the last is ready
  local n=0 pid
  for pid in "$@"; do gone "$pid" || n=$((n + 1)); done
  [ "$n" -le 1 ] && cat "$WORK/log-$round"-[a-d] | grep -q 'is ready at'
}
check "of several that find a dead socket one serves, and the others end with 69" one_of_several
