#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# deadline.sh: no call of the library blocks longer than its deadline or its program wants, behind a full pool, with a
# wsd or an executor that is stopped, direct and by the socket; its job is cancelled, and its late answer is nobody's.
. "$(dirname "$0")/../support/lib.sh"

HANDLES=$BUILD/tests/support/clients/handle
DIRECT=0 SOCKET=2            # flags of a call
LATE=-110 INTERRUPTED=-4     # -ETIMEDOUT, -EINTR
LIMIT=$((2000 * TIME_SCALE)) # ms for what has a deadline of 100 ms: a busy machine is slow, what waits for a job waits longer
[ -z "${WSD_THOROUGH:-}" ] || LIMIT=150

printf '[limits]\ncancel-grace = 5min\nexecutor-answer = 10min\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
coproc HANDLE { exec "$HANDLES"; }
note_started "$HANDLE_PID"

# The handle does what the line says; its answer is in SAID.
tell() { # WORD...
  printf '%s\n' "$*" >&"${HANDLE[1]}" && IFS= read -r -t $((60 * TIME_SCALE)) SAID <&"${HANDLE[0]}" && echo "$SAID"
}
field() { # NAME
  [[ " $SAID" =~ " $1="([^ ]*) ]] && echo "${BASH_REMATCH[1]}"
}
# The answer has each of these words.
asked() { # WORDS LINE...
  local words=$1 word
  shift
  tell "$@" || return 1
  for word in $words; do
    [[ " $SAID " == *" $word "* ]] || {
      echo "not there: $word"
      return 1
    }
  done
}
in_time() { # WORDS LINE...: the same, and what ends after 100 ms has ended then; an alarm counts from the line on
  asked "$@" || return 1
  [ "$(field usec)" -le $((LIMIT * 1000)) ] && { [ "$(field code)" != "$LATE" ] || [ "$(field usec)" -ge 100000 ]; }
}
executor() {
  pgrep -P "$WSD_PID" -n -f wsd-executor
}
is_direct() {
  asked "code=0 state=succeeded direct=1" call 5000 0 direct:direct ok
}
fill_pool() { # until the file is there
  local i
  rm -f "$WORK/gate"
  for ((i = 0; i < 6; i++)); do
    wsctl submit --detach ledger:gate-once "$WORK/gate" >/dev/null || return 1
  done
  wait_until jobs_are running 2
}
free_pool() {
  touch "$WORK/gate"
  wait_until counters_are_zero jobs_open direct_running
}
cancels_heard() { # nothing of the handle's runs any longer
  wait_until counters_are_zero jobs_open direct_running
}
unchanged() { # no line more in the ledger: what comes behind it in the same queue has ended
  asked "code=0 state=succeeded" call 0 "$1" ledger:once "$WORK/ledger" last || return 1
  same last "$(cat "$WORK/ledger")" && rm "$WORK/ledger"
}

if ! "$BUILD/tests/support/clients/direct" -x >/dev/null; then
  skip "deadlines in direct lanes" "this kernel has no futex_waitv (Linux 5.16)"
  WAYS=("$SOCKET")
else
  WAYS=("$DIRECT" "$SOCKET")
fi
name_of() {
  if [ "$1" = "$DIRECT" ]; then echo direct; else echo "by the socket"; fi
}
warm() {
  [ "${#WAYS[@]}" = 1 ] || asked code=0 warm direct:direct ok && asked code=0 warm ledger:once /dev/null x
}

check "a handle" asked code=0 open 5000
check "its lane is there" warm

# --- behind a full pool ---------------------------------------------------------------------------------------------------

check "a full pool" fill_pool
for way in "${WAYS[@]}"; do
  untouched=$([ "$way" = "$DIRECT" ] && echo exit=124 || echo exit=125)
  name=$(name_of "$way")
  check "$name: a call ends at its deadline" in_time "code=$LATE $untouched direct=0" call 100 "$way" ledger:once "$WORK/ledger" late
  check "$name: so do many" in_time "code=$LATE succeeded=0 late=200" calls 200 100 "$way" ledger:once "$WORK/ledger" late
  check "$name: the handle's deadline" asked code=0 deadline 100
  check "$name: is that of a call without one" in_time "code=$LATE" call 0 "$way" ledger:once "$WORK/ledger" late
  check "$name: not of others" asked code=0 deadline 0
  check "$name: a signal" asked code=0 alarm 100
  check "$name: ends a call without a deadline" in_time "code=$INTERRUPTED" call 0 "$way" ledger:once "$WORK/ledger" late
done
check "a submitted job ends at its deadline" in_time "code=$LATE" wait 100 ledger:once "$WORK/ledger" late
check "a signal" asked code=0 alarm 100
check "ends the wait for one" in_time "code=$INTERRUPTED" wait 0 ledger:once "$WORK/ledger" late
check "a map ends at its deadline, each item is told once" in_time "code=$LATE told=300 twice=0" map 300 100 ledger:once "$WORK/ledger" late
check "a signal" asked code=0 alarm 100
check "ends a map" in_time "code=$INTERRUPTED told=300 twice=0" map 300 0 ledger:once "$WORK/ledger" late
check "a free pool" free_pool
for way in "${WAYS[@]}"; do
  check "what was late has not run ($(name_of "$way"))" unchanged "$way"
done

# --- what runs ------------------------------------------------------------------------------------------------------------

for way in "${WAYS[@]}"; do
  name=$(name_of "$way")
  check "$name: a call that runs ends at its deadline" in_time "code=$LATE exit=125" call 100 "$way" direct:direct nap 600000
  check "$name: and its job" cancels_heard
  check "$name: some of many" asked "code=$LATE" calls 100 300 "$way" direct:direct nap 20
  check "$name: have ended, each other is late" test $(($(field succeeded) + $(field late))) = 100
  check "$name: and not all are" test "$(field succeeded)" -gt 0
  check "$name: their jobs end" cancels_heard
  check "$name: the next answer is the next call's" asked "code=0 state=succeeded output=direct" call 5000 "$way" direct:direct name
done
check "many that run, each in a slot" asked "code=$LATE" calls 64 200 0 direct:direct meet 63
check "end" cancels_heard

# --- a wsd that is stopped ------------------------------------------------------------------------------------------------

check "a wsd that is stopped" stop_process "$WSD_PID"
check "a call by the socket ends at its deadline" in_time "code=$LATE exit=125" call 100 $SOCKET direct:direct ok
[ "${#WAYS[@]}" = 1 ] || check "a direct call needs no wsd" asked "code=0 state=succeeded direct=1" call 100 $DIRECT direct:direct ok
check "a direct one that runs ends at its deadline too" in_time "code=$LATE exit=125" call 100 0 direct:direct nap 600000
check "the handle's deadline" asked code=0 deadline 100
for what in ping list stats "wait 0 direct:direct ok" "map 300 0 direct:direct ok"; do
  check "$what ends at it" in_time "code=$LATE" "$what"
done
check "no deadline" asked code=0 deadline 0
for what in ping list stats "wait 0 direct:direct ok" "map 300 0 direct:direct ok"; do
  check "a signal" asked code=0 alarm 100
  check "ends $what" in_time "code=$INTERRUPTED" "$what"
done
check "connecting is bounded" in_time "code=$LATE" open 100
check "a signal" asked code=0 alarm 100
check "ends that" in_time "code=$INTERRUPTED" open 60000
kill -CONT "$WSD_PID"
check "it goes on" asked code=0 open 5000
check "and answers" asked "code=0 state=succeeded output=direct" call 5000 $SOCKET direct:direct name
check "nothing is left" cancels_heard

# --- an executor that is stopped ---------------------------------------------------------------------------------------------

check "the lane again" warm
stopped=$(executor)
check "an executor that is stopped" stop_process "$stopped"
for way in "${WAYS[@]}"; do
  check "$(name_of "$way"): a call ends at its deadline" in_time "code=$LATE direct=0" call 100 "$way" ledger:once "$WORK/ledger" late
done
check "more than a lane has slots do, too" in_time "code=$LATE late=200" calls 200 100 0 ledger:once "$WORK/ledger" late
check "and the next" in_time "code=$LATE late=100" calls 100 100 0 ledger:once "$WORK/ledger" late
check "wsd answers" asked code=0 ping
kill -CONT "$stopped"
check "it goes on" asked "code=0 state=succeeded output=direct" call 20000 0 direct:direct name
check "nothing is left of what was late" cancels_heard
check "the lane is as good as before" wait_until is_direct
check "it was the same executor" test "$(executor)" = "$stopped"
for way in "${WAYS[@]}"; do
  check "what was late has not run ($(name_of "$way"))" unchanged "$way"
done

# --- a callback frees the handle ------------------------------------------------------------------------------------------------

rm -f "$WORK/gate"
for way in "${WAYS[@]}"; do
  name=$(name_of "$way")
  check "$name: a handle with a lane" asked code=0 open 5000
  check "$name: warm" warm
  check "$name: a job whose end frees it" asked code=0 doom direct:direct nap 300
  check "$name: comes in the midst of a call" asked "code=-104 exit=125" call 0 "$way" direct:direct nap 600000
  check "$name: whose job ends" cancels_heard
done

tell quit
check "nothing is left in wsd" wait_until counters_are_zero jobs_open jobs_queued jobs_handed_over direct_lanes
stop_wsd
