#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# kin.sh: nothing of what a plugin starts outlives its executor or wsd, by whatever end, where no cgroup is delegated: children,
# other sessions, orphans (leaves:family).
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

mark=k$$ # what all these processes are called
on_exit pkill -KILL -x "$mark(-bob)?"
executor_of() { # WSD-PID
  pgrep -P "$1" -f '^wsd-executor'
}
begun() {
  [ "$(pgrep -r S -cx "$mark")" = 4 ]
}
none_left() {
  ! pgrep -r R,S,D,T -x "$mark"
}
# In the background: a job that runs beside its four processes.
plant() {
  background "$@" leaves:family "$mark" stay
  wait_until begun || {
    fail "plant" "no family"
    pgrep -ax "$mark"
  }
}

printf '[executor]\ncgroups = no\n[daemon]\ndrain-timeout = 300ms\n[limits]\ncancel-grace = 200ms\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
stays() {
  wsctl submit leaves:family "$mark" && wait_until begun && expect_output 6765 wsctl submit fib 20 && wait_until begun
}
check "they live on when their job has ended" stays
killed() {
  kill_executor && wait_until none_left && expect_output 6765 wsctl submit fib 20
}
check "a killed executor leaves none" killed
plant wsctl submit
crashed() {
  expect_exit 70 wsctl submit leaves:segv && wait_until none_left && expect_output 6765 wsctl submit fib 20
}
check "nor does one that crashes" crashed
plant wsctl submit
orderly() {
  stop_wsd && none_left
}
check "an orderly stop of wsd leaves none" orderly

wsd_dies() { # [STOPPED]
  local executor
  executor=$(executor_of "$WSD_PID")
  [ -z "${1:-}" ] || stop_process "$executor"
  disown "$WSD_PID"
  kill -KILL "$WSD_PID"
  wait_until none_left && wait_until gone "$executor"
}
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
plant wsctl submit
check "kill -9 of wsd leaves none" wsd_dies
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
plant wsctl submit
check "... also where the executor is stopped" wsd_dies stopped

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
zombie() {
  expect_exit 0 wsctl submit leaves:zombie && wait_until replaced
}
replaced() {
  wsctl submit fib 2 && grep -q 'nobody waits for: a fresh one takes its place' "$WSD_LOG"
}
check "one that nobody waits for costs its executor, and no job" zombie
stop_wsd

# A script that ends by exec: what it has in the background is a child of wsd, and no plugin's.
WSD_PREFIX=(bash -c 'sleep 1000 <&- >&- 2>&- & exec "$@"' script)
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
WSD_PREFIX=()
inherited=$(pgrep -P "$WSD_PID" -x sleep)
on_exit kill "$inherited"
plant wsctl submit
spares_inherited() {
  kill -KILL "$(executor_of "$WSD_PID")" && wait_until none_left && expect_output 6765 wsctl submit fib 20 && stop_wsd && pgrep -r S -x sleep | grep -x "$inherited"
}
check "what wsd was started beside lives on" spares_inherited
kill "$inherited"

# --- under the uids of users, by wsd-spawn -------------------------------------------------------------------------------

if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
  skip "under the uids of users" "only root can act as them"
  exit 0
fi
install_for_all leaves
printf '[daemon]\nsystem = yes\ndrain-timeout = 300ms\n[executor]\ncgroups = no\n[limits]\ncancel-grace = 200ms\n[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"
chmod 644 "$WSD_CONFIG"
start_for_all() {
  start_wsd --workers 2 --state-dir "$WORK/kept" || exit 1
  chmod 755 "$(dirname "$WSD_SOCKET")"
  chmod 666 "$WSD_SOCKET"
  as $ALICE "$CTL" submit fib 2 >/dev/null
  HELPER=$(pgrep -P "$WSD_PID" -x wsd-spawn)
}
are_alices() {
  [ "$(pgrep -u $ALICE -cx "$mark")" = 4 ]
}
kill_alices() { # and bob's are not touched
  as $BOB "$CTL" submit leaves:family "$mark-bob" || return 1
  are_alices && kill -KILL "$(pgrep -P "$HELPER" -u $ALICE)" && wait_until none_left &&
    [ "$(pgrep -u $BOB -cx "$mark-bob")" = 4 ] && expect_output 6765 as $ALICE "$CTL" submit fib 20
}
start_for_all
plant as $ALICE "$CTL" submit
check "a user's executor that is killed leaves none" kill_alices
plant as $ALICE "$CTL" submit
kill_helper() {
  are_alices && kill -KILL "$HELPER" && wait_until none_left && expect_output 6765 as $ALICE "$CTL" submit fib 20
}
check "nor does a wsd-spawn that is killed" kill_helper
stop_wsd
start_for_all
plant as $ALICE "$CTL" submit
check "nor an orderly stop of wsd" orderly
start_for_all
plant as $ALICE "$CTL" submit
kill_wsd_of_all() { # [STOPPED]
  [ -z "${1:-}" ] || stop_process "$HELPER"
  disown "$WSD_PID"
  kill -KILL "$WSD_PID"
  wait_until none_left && wait_until gone "$HELPER"
}
check "nor kill -9 of wsd" kill_wsd_of_all
start_for_all
plant as $ALICE "$CTL" submit
check "... also where wsd-spawn is stopped" kill_wsd_of_all stopped

# A command never is a user's: wsd runs those of its own user only.
no_commands() {
  expect_exit 63 as $ALICE "$CTL" submit exec true 2>"$WORK/err" || return 1
  grep -q 'this wsd does not run with your rights, so it runs no commands' "$WORK/err"
}
start_for_all
check "no command runs for another user than wsd's" no_commands
commands() {
  pgrep -f "^sleep 3600\\.$$\$"
}
all_run() {
  [ "$(commands | wc -l)" = 5 ]
}
on_exit pkill -KILL -f "^sleep 3600\\.$$\$"
roots_command() { # in a wsd of all users
  background wsctl submit exec sh -c "for i in 1 2; do setsid sh -c 'sleep 3600.$$ & sleep 3600.$$' & done; exec sleep 3600.$$"
  wait_until all_run || return 1
  kill -KILL "$(pgrep -P "$WSD_PID" -f '^wsd-executor')"
  wait_for_exit "$BACKGROUND_PID"
  [ $? = 125 ] && ! commands
}
check "wsd's own user's executor that is killed leaves nothing of a command, other sessions included" roots_command
stop_wsd
