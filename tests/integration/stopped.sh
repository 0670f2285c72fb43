#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# stopped.sh: processes that wsd depends on and that answer nothing: wsd-spawn, executors of other users.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

[ "$(id -u)" = 0 ] || {
  skip "a wsd-spawn that is stopped" "only root can act as several users"
  exit 0
}
command -v setpriv >/dev/null || {
  skip "a wsd-spawn that is stopped" "no setpriv here"
  exit 0
}

spawn_pid() { pgrep -P "$WSD_PID" -x wsd-spawn; }

listed() { # UID STATE: a job of this user is in the list of root
  "$WSCTL" --json list --user "$1" | grep -q "\"state\":\"$2\""
}

# Every kind of submit of a user without an executor ends by itself, in the time that it names.
waits_are_bounded() {
  as $BOB "$CTL" submit --max-wait 700ms fib 20 >/dev/null 2>"$WORK/wait.err" &
  local waiter=$! timed timed_status=0 wait_status=0
  as $BOB "$CTL" submit -t 1200ms fib 20 >/dev/null 2>"$WORK/timed.err" &
  timed=$!
  wait_until listed $BOB queued || {
    echo "a job that waits for an executor is not listed"
    return 1
  }
  wait "$waiter" || wait_status=$?
  wait "$timed" || timed_status=$?
  cat "$WORK/wait.err" "$WORK/timed.err"
  [ "$wait_status" = 124 ] && [ "$timed_status" = 124 ] && grep -q -- '--max-wait = 700ms' "$WORK/wait.err" &&
    grep -q 'its executor had not started' "$WORK/timed.err" && wait_until sh -c "[ -z \"\$('$WSCTL' --json list --user $BOB)\" ]"
}

cancelled_while_it_waits() { # by its id, and by who it is
  local id waiter status=0
  as $BOB "$CTL" submit fib 20 >/dev/null 2>&1 &
  waiter=$!
  wait_until listed $BOB queued || return 1
  id=$("$WSCTL" --json list --user $BOB | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p')
  as $BOB "$CTL" status "$id" && expect_exit 66 as $ALICE "$CTL" status "$id" && as $BOB "$CTL" cancel "$id" || return 1
  wait "$waiter" || status=$?
  [ "$status" = 130 ]
}

# All verbs answer while it is stopped; that an executor does not, is said after ten seconds.
others_are_served() {
  local verb
  for verb in ping list stats workers version 'schedule list'; do
    # shellcheck disable=SC2086 # a verb of two words
    timeout $((20 * TIME_SCALE)) "$CTL" $verb >/dev/null || [ "$verb $?" = "workers 75" ] || {
      echo "$verb"
      return 1
    }
  done
  expect_output 6765 as $ALICE timeout 20 "$CTL" submit fib 20
}

replaced() { # and a job that waited for it goes on
  expect_output 6765 as $BOB timeout 60 "$CTL" submit fib 20 || return 1
  wait_until gone "$stopped" && grep -q "wsd-spawn (process $stopped) has not answered for" "$WSD_LOG"
}

goes_on() { # what ran then is run again
  local status=0
  wait "$running" || status=$?
  cat "$WORK/running"
  [ "$status" = 0 ] && grep -q '"state":"succeeded"' "$WORK/running"
}

stop_while_one_ends() { # wsd sees that an executor has ended; wsd-spawn, which was to say how, is stopped
  local executor
  expect_output 6765 as $ALICE "$CTL" submit fib 20 && stopped=$(spawn_pid) || return 1
  executor=$(pgrep -P "$stopped" -u $ALICE) && stop_process "$stopped" && kill -KILL "$executor" || return 1
  expect_output 6765 as $ALICE timeout 60 "$CTL" submit fib 20 && wait_until gone "$stopped"
}

stopped_executor_of_a_stopped_helper() {
  local executor
  expect_output 6765 as $ALICE "$CTL" submit fib 20 && stopped=$(spawn_pid) || return 1
  executor=$(pgrep -P "$stopped" -u $ALICE) && stop_process "$executor" && stop_process "$stopped" || return 1
  expect_output 6765 as $ALICE timeout 60 "$CTL" submit fib 20 && wait_until gone "$stopped" && wait_until gone "$executor"
}

drains() {
  stop_process "$(spawn_pid)" && background as $BOB "$CTL" submit fib 20 && wait_until listed $BOB queued && stop_wsd
}

install_for_all ledger
configure() { # EXECUTOR-ANSWER; wsd-spawn has half of that
  printf '[daemon]\nsystem = yes\nsocket-group = %s\n[limits]\nexecutor-answer = %s\n' "$(getent group $GROUP_ID | cut -d: -f1)" "$1" >"$WSD_CONFIG"
  chmod 644 "$WSD_CONFIG"
}

configure 60s
start_wsd --workers 2 || exit 1
chmod 755 "$(dirname "$WSD_SOCKET")"

check "an executor of one user" expect_output 6765 as $ALICE "$CTL" submit fib 20
as $ALICE "$CTL" --json submit ledger:gate "$WORK/gate" >"$WORK/running" 2>&1 &
running=$!
check "that runs a job" wait_until listed $ALICE running
stopped=$(spawn_pid)
stop_process "$stopped"
check "wsd-spawn stopped: --max-wait and --timeout of a job that waits for an executor" waits_are_bounded
check "such a job can be seen and cancelled" cancelled_while_it_waits
check "all others are served" others_are_served
configure $((3 * TIME_SCALE))s
kill -HUP "$WSD_PID"
: >"$WORK/gate"
chmod 644 "$WORK/gate"
check "it is replaced, and the job that waited goes on" replaced
check "so does the one that ran" goes_on
check "stopped when an executor ends: replaced" stop_while_one_ends
check "it and an executor stopped: both are replaced" stopped_executor_of_a_stopped_helper
check "wsd ends although it is stopped" drains

# --- one of a unit of its own: wsd has no right to kill it ------------------------------------------------------------------

mkdir "$WORK/nobody"
chown 65534:65534 "$WORK/nobody"
chmod 755 "$WORK/nobody"
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
three=-all,+setuid,+setgid,+kill
printf '[daemon]\nsystem = yes\n[executor]\nuser-ids = yes\n[limits]\nexecutor-answer = %ss\n' $((2 * TIME_SCALE)) >"$WSD_CONFIG"
WATCHDOG_SEC=$((6 * TIME_SCALE)) background "$SRC/tests/support/boxes/activate.py" "$WORK/nobody/spawn" 65534 "${nobody[@]}" \
  --inh-caps=$three --ambient-caps=$three "$WSD" --spawn --config "$WSD_CONFIG" --executor "$EXECUTOR" --spawner "$SPAWNER" \
  --plugin-dir "$PLUGINS" 2>"$WORK/spawn.log"
unit=$BACKGROUND_PID
check "the unit's socket is there" wait_until test -S "$WORK/nobody/spawn"
export WSD_SOCKET=$WORK/nobody/wsd.sock
WSD_LOG=$WORK/nobody.log
background "${nobody[@]}" --inh-caps=-all "$WSD" --socket "$WSD_SOCKET" --config "$WSD_CONFIG" --executor "$EXECUTOR" \
  --spawner "$WORK/nobody/spawn" --state-dir "$WORK/nobody/state" --plugin-dir "$PLUGINS" 2>"$WSD_LOG"
WSD_PID=$BACKGROUND_PID
check "a wsd without rights starts" wait_until "$CTL" ping
chmod 666 "$WSD_SOCKET"
check "a wsd-spawn that answers is not killed by the watchdog" expect_output 6765 as $ALICE "$CTL" submit fib 20
helper=$(pgrep -P "$unit")
pings() { # longer than the watchdog's limit
  sleep $((7 * TIME_SCALE))
  [ "$(pgrep -P "$unit")" = "$helper" ] && expect_output 6765 as $ALICE "$CTL" submit fib 20
}
check "nor one that has nothing to do" pings
unit_replaced() {
  stop_process "$helper" || return 1
  background as $BOB timeout 120 "$CTL" submit fib 20 >"$WORK/bob.out"
  wait_until grep -q "wsd-spawn of $WORK/nobody/spawn has not answered" "$WSD_LOG" || return 1
  # who has an executor goes on with it
  expect_output 6765 as $ALICE "$CTL" submit fib 20 && wait "$BACKGROUND_PID" && [ "$(cat "$WORK/bob.out")" = 6765 ] && gone "$helper"
}
check "one that is stopped: its watchdog ends it, and the job that waited goes on" unit_replaced
