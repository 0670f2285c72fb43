#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scribble.sh: executors that write at random over everything they share with wsd (support/shims/scribbler.c), one life after
# the other: wsd never crashes and never stands still, each job ends once and under its own id, each liar is replaced,
# and another user's jobs, in a domain with a real executor, are all answered right meanwhile.
. "$(dirname "$0")/../support/lib.sh"

ROUNDS=60 SECONDS_MIN=0 # lives of an executor, and for how long at least
[ -z "${WSD_THOROUGH:-}" ] || ROUNDS=1000 SECONDS_MIN=600
ROUNDS=${WSD_ROUNDS:-$ROUNDS}
EXECUTOR=$BUILD/tests/support/shims/scribbler
VICTIM=1001
SCRIBBLED=(scribble scribble=x scribble scribble-b) # what is submitted: the executor has whatever it is asked for

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  several=1
else
  several=
  skip "another user meanwhile" "only root can act as somebody else; wsctl ping is the innocent one"
fi

# Whose jobs the scribbler gets.
victim() { # COMMAND...
  if [ -n "$several" ]; then
    setpriv --reuid=$VICTIM --regid=$VICTIM --clear-groups --inh-caps=-all -- \
      env LD_LIBRARY_PATH="$WORK/inst" WSD_SOCKET="$WSD_SOCKET" TMPDIR="$WORK/tmp" "$@"
  else
    env WSD_SOCKET="$WSD_SOCKET" "$@"
  fi
}

install_for_all() {
  mkdir "$WORK/inst"
  cp "$BUILD"/tests/support/clients/{load,chaos} "$BUILD"/client/libwsclient.so.0 "$WORK/inst/"
  chmod 755 "$WORK" "$WORK/inst"
  chmod 1777 "$WORK/tmp"
}

enough() {
  gone "$WSD_PID" || { [ "$(counter executors_started)" -ge "$ROUNDS" ] && [ "$SECONDS" -ge "$end" ]; }
}

# Each batch: what became of it is added up at the end. A batch fails where a job was lost, ended twice, or ended as
# another one.
clients_of_the_scribbler() {
  local n=0
  until enough; do
    n=$((n + 1))
    victim "$WORK/inst/load" -x -p 3 -n 300 -w 20 -b $((24 + RANDOM % 3000)) scribble >>"$WORK/load.out" 2>&1 || {
      echo "batch $n of load failed" >>"$WORK/load.failed"
      break
    }
  done
}

chaos_of_the_scribbler() {
  until enough; do
    victim "$WORK/inst/chaos" -s 2 -c 6 -r $((RANDOM + 1)) "${SCRIBBLED[@]}" >>"$WORK/chaos.out" 2>&1 || {
      tail -n 1 "$WORK/chaos.out" >>"$WORK/chaos.failed"
      break
    }
  done
}

innocent_clients() {
  until enough; do
    [ -z "$several" ] || "$BUILD/tests/support/clients/load" -p 2 -n 600 -w 10 -b 300 innocent >>"$WORK/innocent.out" 2>&1 || {
      tail -n 2 "$WORK/innocent.out" >>"$WORK/innocent.failed"
      break
    }
    # a ping is given up after 30 seconds: a loop that stands still would show
    wsctl ping >>"$WORK/ping.out" 2>&1 || {
      tail -n 1 "$WORK/ping.out" >>"$WORK/innocent.failed"
      break
    }
  done
}

none_failed() { # FILE OF FAILURES, FILE WITH RESULTS
  tail -n 3 "$2"
  [ ! -s "$1" ] || {
    cat "$1"
    return 1
  }
  [ -s "$2" ]
}

sum() { # NAME FILE: over all lines
  grep -o "\b$1 [0-9]*" "$2" | awk '{n += $2} END {print n + 0}'
}

# A scribbler also answers rightly, else nothing of this would be a test.
some_answers_came() {
  local n
  n=$(sum succeeded "$WORK/load.out")
  echo "succeeded: $n, other ends: $(sum interrupted "$WORK/load.out") $(sum crashed "$WORK/load.out")"
  [ "$n" -gt 0 ] && [ $(($(sum interrupted "$WORK/load.out") + $(sum crashed "$WORK/load.out"))) -gt 0 ]
}

innocent_answers_are_right() {
  [ "$(sum submitted "$WORK/innocent.out")" -gt 0 ] &&
    [ "$(sum submitted "$WORK/innocent.out")" = "$(sum right "$WORK/innocent.out")" ] &&
    ! grep -q 'SCRIBBLE' "$WORK/innocent.out"
}

liars_were_replaced() {
  echo "started $(counter executors_started), liars $(counter executors_distrusted), died $(counter executors_died)"
  [ "$(counter executors_started)" -ge "$ROUNDS" ] && grep -q 'it is replaced' "$WSD_LOG"
}

all_is_gone() {
  victim "$WSCTL" --json list | grep -E '"(held|queued|running)"' | grep -o '"id":"[0-9a-f]*"' | cut -d '"' -f 4 |
    xargs -r -n 200 "$WSCTL" cancel
  holds_nothing executors || return 1
  [ "$(n_descriptors)" -le "$before" ] || {
    echo "$before descriptors before, $(n_descriptors) now"
    return 1
  }
}

nothing_is_left() {
  wait_until all_is_gone || {
    all_is_gone
    return 1
  }
}

system=no
[ -z "$several" ] || system=yes
printf '[daemon]\nsystem = %s\n[limits]\nexecutor-idle = 300ms\ncancel-grace = 200ms\nkeep-results = 500ms\nmax-result = 1M\n' \
  "$system" >"$WSD_CONFIG"
install_for_all
mkdir "$WORK/plugins"
cp "$TEST_PLUGINS/echo.so" "$WORK/plugins/innocent.so"
start_wsd --workers 1 --plugin-dir "$WORK/plugins" || exit 1
chmod 755 "$(dirname "$WSD_SOCKET")"
chmod 666 "$WSD_SOCKET"
# Its watch stays open. Not by root, whose executor is to be asked for `innocent` first.
victim "$WSCTL" plugin list >/dev/null 2>&1
wait_until counter_is executors 0
before=$(n_descriptors)
end=$((SECONDS + SECONDS_MIN))
clients_of_the_scribbler &
note_started $!
scribbled=$!
chaos_of_the_scribbler &
note_started $!
chaos=$!
innocent_clients &
note_started $!
innocent=$!
wait "$scribbled" "$chaos" "$innocent"
check "wsd is there after $ROUNDS executors that scribble" wsctl ping
check "each job ended once, as the one that it was" none_failed "$WORK/load.failed" "$WORK/load.out"
check "some were answered, some were hurt" some_answers_came
check "every frame was in order, whatever clients did" none_failed "$WORK/chaos.failed" "$WORK/chaos.out"
check "wsd answered all the time" none_failed "$WORK/innocent.failed" "$WORK/ping.out"
[ -z "$several" ] || check "another user's answers are all right" innocent_answers_are_right
check "the liars were found out, and replaced" liars_were_replaced
check "nothing is left of them" nothing_is_left
stop_wsd
[ -z "${WSD_KEEP_LOG:-}" ] || cp "$WSD_LOG" "$WSD_KEEP_LOG"
