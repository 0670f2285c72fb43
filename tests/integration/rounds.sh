#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# rounds.sh: programs that call, fork, throw, cancel and give up, while wsd and its executors are killed, stopped and
# started again: each call is told once, and nothing lasts longer than its deadline and 50 ms (clients/rounds.c says by
# which clock). The adapters' examples run beside. WSD_SEED and WSD_FIRST repeat a round, as far as timing allows.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/disturb.sh"

ROUNDS=500
[ -z "${WSD_THOROUGH:-}" ] || ROUNDS=10000
[ -z "${WSD_SANITIZE:-}" ] || ROUNDS=$((ROUNDS / 5))
ROUNDS=${WSD_ROUNDS:-$ROUNDS}
FIRST=${WSD_FIRST:-0}
SEED=${WSD_SEED:-$((RANDOM * 32768 + RANDOM))}
RANDOM=$((SEED & 32767))
PROGRAM=$BUILD/tests/support/clients/rounds

if [ ! -x "$PROGRAM" ]; then
  skip "rounds" "there is no C++ compiler, without which nothing throws"
  exit
fi
printf '[limits]\nquarantine-after = 100000\n' >"$WSD_CONFIG"
export WSD_SOCKET=$WORK/wsd.sock
check "wsd is there" serve || exit 1

# An example, again and again until $WORK/enough is there. Its words, and how each ended: $WORK/said.ADAPTER.
example_goes_on() { # ADAPTER
  local status
  while [ ! -e "$WORK/enough" ]; do
    status=0
    timeout $((60 * TIME_SCALE)) "$BUILD/client/examples/example-$1" direct direct 1000 || status=$?
    [ "$status" -le 1 ] || echo "exit status $status"
  done >"$WORK/said.$1" 2>&1
}
told_each() { # ADAPTER
  local wrong
  wrong=$(grep -vxE '1000 calls, [0-9]+ succeeded' "$WORK/said.$1")
  wc -l "$WORK/said.$1"
  [ -s "$WORK/said.$1" ] && [ -z "$wrong" ] && return
  head -20 <<<"$wrong"
  return 1
}
examples=() pids=()
for adapter in epoll glib libevent libuv; do
  if [ -x "$BUILD/client/examples/example-$adapter" ]; then
    background example_goes_on "$adapter"
    examples+=("$adapter") pids+=("$BACKGROUND_PID")
  else
    skip "the example of $adapter" "its library is not installed"
  fi
done

program() {
  "$PROGRAM" -s "$SEED" -b "$FIRST" -n "$ROUNDS" direct >"$WORK/rounds" 2>&1
}
background program
rounds=$BACKGROUND_PID
check "wsd and executors come and go" disturb_while "$rounds"
status=0
wait "$rounds" || status=$?
if [ "$status" = 0 ]; then
  ok "in $ROUNDS rounds each call was told once, and in time"
else
  fail "$ROUNDS rounds" "exit status $status; again by WSD_SEED=$SEED WSD_FIRST=${FIRST}"
fi
show "$WORK/rounds"
echo "    | wsd was disturbed $n_disturbed times, seed $SEED"
: >"$WORK/enough"
for i in "${!examples[@]}"; do
  check "the example of ${examples[i]} ends" wait_for_exit "${pids[i]}"
  check "it was told of each of its calls" told_each "${examples[i]}"
done
check "nothing is left in wsd" wait_until holds_nothing direct_lanes direct_running
check "wsd stops" stop_wsd
