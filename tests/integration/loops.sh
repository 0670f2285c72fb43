#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# loops.sh: the adapters' examples, each in its real loop: with a wsd that comes late, is stopped, killed and started
# again, each call is told once, and the program goes on.
. "$(dirname "$0")/../support/lib.sh"

N=2000 MANY=150000
WSD_SOCKET=$WORK/wsd.sock
export WSD_SOCKET
[ -z "${WSD_THOROUGH:-}" ] || MANY=2000000

# An example with N calls, as $PROGRAM; its words are in $SAID.
begin() { # ADAPTER PLUGIN FUNCTION N
  SAID=$WORK/said.$1
  "$BUILD/client/examples/example-$1" "$2" "$3" "$4" >"$SAID" 2>&1 &
  PROGRAM=$!
  note_started "$PROGRAM"
}
has_ended() { gone "$PROGRAM"; }
sleeps() { grep -q '^State:.S' "/proc/$PROGRAM/status"; }
all_told() { # N
  cat "$SAID"
  [[ $(<"$SAID") == "$1 calls, "*" succeeded" ]]
}
few_failed() { # at most the 64 that were open, each of three times
  local n ok
  read -r n _ ok _ <"$SAID" && [ $((n - ok)) -le 192 ]
}
all_well() { # N
  cat "$SAID"
  [ "$(cat "$SAID")" = "$1 calls, $1 succeeded" ]
}

# Calls of an example are under way. Where one has ended before it was seen, which a busy machine makes likely, another
# one begins that has more to do.
under_way() {
  if has_ended; then
    all_told "$many" >/dev/null && few_failed || return 1
    many=$((many * 2))
    begin "$adapter" direct direct "$many"
  fi
  [ "$(counter jobs_succeeded)" -ge 100 ] && ! has_ended
}
sleeps_or_has_ended() { sleeps || has_ended; }
# It sleeps, since wsd has stopped and some of its calls are not done.
waits_for_the_stopped() {
  under_way || return 1
  stop_process "$WSD_PID"
  wait_until sleeps_or_has_ended
  ! has_ended || ! kill -CONT "$WSD_PID"
}

for adapter in epoll glib libevent libuv; do
  if [ ! -x "$BUILD/client/examples/example-$adapter" ]; then
    skip "the example of $adapter" "its library is not installed"
    continue
  fi
  begin "$adapter" direct direct "$N"
  check "$adapter: wsd comes after the program" serve
  check "it ends" wait_until has_ended
  check "$N calls have succeeded" all_well "$N"

  many=$MANY
  begin "$adapter" direct direct "$many"
  for i in 1 2 3; do
    check "calls are under way" wait_until under_way
    kill_wsd
    check "wsd was killed, and is there again ($i)" serve
  done
  check "it waits for a wsd that was stopped" wait_until waits_for_the_stopped
  kill -CONT "$WSD_PID"
  check "it ends" wait_until has_ended
  check "each of $MANY calls was told once" all_told "$many"
  check "few have failed" few_failed
  check "wsd stops" stop_wsd
done

# Deadlines of calls that never end, while wsd says nothing.
check "wsd is there" serve
n=0
programs=()
for adapter in epoll glib libevent libuv; do
  [ -x "$BUILD/client/examples/example-$adapter" ] || continue
  begin "$adapter" spin spin 10
  programs+=("$PROGRAM") n=$((n + 10))
done
all_gone() {
  local pid
  for pid in "${programs[@]}"; do gone "$pid" || return 1; done
}
check "$n calls that never end are there" wait_until counter_is jobs_open "$n"
stop_process "$WSD_PID"
check "their programs do not wait for a wsd that was stopped" wait_until all_gone
kill -CONT "$WSD_PID"
for SAID in "$WORK"/said.*; do
  check "${SAID##*.}: each call was told its deadline" expect_output "10 calls, 0 succeeded" cat "$SAID"
done
check "and is cancelled" wait_until counter_is jobs_open 0
check "wsd stops" stop_wsd
