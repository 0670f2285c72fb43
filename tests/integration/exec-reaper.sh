#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # text for another shell
#
# exec-reaper.sh: nothing of a command of `exec` is left when its job, its executor or its wsd ends, by whatever end, and
# none begins before the last one's processes are gone.
. "$(dirname "$0")/../support/lib.sh"

mark=3600.$$                            # what all the processes of this script that stay are called by
on_exit pkill -KILL -f "^sleep $mark\$" # where something is left
cd "$WORK" || exit
printf '[daemon]\ndrain-timeout = 300ms\n[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"

# Processes that do not want to end: other sessions, orphans, such as ignore every signal that can be. MARK, then how it ends.
cat >tree <<'END'
trap '' TERM HUP INT QUIT
setsid sleep "$1" &
(setsid sh -c 'sleep "$0" & (sleep "$0" &)' "$1" &)
sh -c 'setsid setsid sleep "$0"; sleep "$0"' "$1" &
echo >>"${3:-started}"
case $2 in
stay) exec sleep "$1" ;;
*) exit "$2" ;;
esac
END
left() { # what is left of MARK
  pgrep -f "^sleep $mark\$"
}
nothing_left() {
  ! left
}
begun() { # FILE: so many trees are there as the test waits for
  [ -s "${1:-started}" ] && [ "$(left | wc -l)" -ge 5 ]
}
reaper_of() {
  pgrep -P "$(pgrep -P "$WSD_PID")" -r R,S,D,T -x wsd-reaper # not one that was killed
}
keeper_of() {
  pgrep -P "$(reaper_of)" -x wsd-reaper
}
# A tree that stays, of a job in the background. Its id is in JOB.
plant() { # [OPTION...]
  rm -f started
  JOB=$(wsctl submit --detach --timeout 60s "$@" exec sh tree "$mark" stay) && wait_until begun
}
gone_after() { # CODE COMMAND...: the command goes well; when the job has ended so, nothing is left, without waiting for it
  local code=$1
  shift
  "$@" && expect_exit "$code" wsctl await "$JOB" && nothing_left
}

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit

# --- the job ends --------------------------------------------------------------------------------------------------------

by_itself() { # STATUS
  expect_exit "$1" wsctl submit exec sh tree "$mark" "$1" && nothing_left
}
check "a command that ends leaves nothing" by_itself 0
check "nor does one that fails" by_itself 3
plant
check "one that is cancelled leaves nothing" gone_after 130 wsctl cancel "$JOB"
plant --timeout 1s
check "nor does one whose time is up" gone_after 124 true

# Each of them is gone before it could be killed by its number.
cat >flee <<'END'
[ ! -e stop ] && setsid sh flee "$1" &
[ ! -e stop ] || exit
sleep "$1" &
END
cat >fleeing <<'END'
for i in 1 2 3 4; do setsid sh flee "$1" & done
sleep "$1"
END
fled() {
  expect_exit 124 wsctl submit --timeout 500ms exec sh fleeing "$mark" && nothing_left && ! pgrep -f "^sh flee $mark\$"
}
check "a command that forks all the time leaves nothing" fled
: >stop

# --- the executor ends ---------------------------------------------------------------------------------------------------

# A new wsd: on a busy machine the forks took longer than cancel-grace, perhaps, and exec would have an executor of its own now.
stop_wsd
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit

killed() {
  kill -KILL "$(pgrep -P "$WSD_PID")"
}
plant
check "kill -9 of the executor leaves nothing" gone_after 125 killed
plant
check "nor does the crash of another job" gone_after 125 expect_exit 70 wsctl submit crash:segv
check "wsd goes on" expect_output here wsctl submit exec echo here

# The lock is held by all that an attempt has started; the next one must not meet it.
cat >alone <<'END'
exec 9>lock
flock -n 9 || { echo 'two at once'; exit 9; }
[ "$2" != "$(cat attempt)" ] || { echo alone; exit; }
echo "$2" >attempt
. ./tree
END
one_at_a_time() { # TIMES HOW...
  local i
  for ((i = 0; i < $1; i++)); do
    rm -f started
    : >attempt
    JOB=$(wsctl submit --detach --timeout 30s --retries 1 --retry-delay 1ms exec sh alone "$mark" stay) &&
      wait_until begun || return 1
    "${@:2}" >/dev/null
    expect_output alone wsctl await "$JOB" && nothing_left || return 1
  done
}
check "with --retries the next attempt begins when nothing of the last one is left: kill -9" one_at_a_time 5 killed
stop_wsd
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" # a plugin that has crashed has an executor of its own
check "... and a crash" one_at_a_time 1 wsctl submit crash:segv

# --- the reaper ends -----------------------------------------------------------------------------------------------------

plant
check "kill -9 of what keeps a command: the job fails, and nothing is left" gone_after 63 kill -KILL "$(keeper_of)"
says_so() {
  wsctl status "$JOB" 2>&1 | grep -q 'the process that watched it was killed'
}
check "... and says why" says_so
plant
check "kill -9 of the reaper: its commands are kept" gone_after 130 eval 'kill -KILL "$(reaper_of)" && left && wsctl cancel "$JOB"'
check "and the next one has another" expect_output here wsctl submit exec echo here
plant
kill -KILL "$(reaper_of)" && killed
check "of the reaper, then of the executor" gone_after 125 true
one_dies() {
  local reaper keeper command
  reaper=$(reaper_of) keeper=$(keeper_of) command=$(pgrep -P "$(keeper_of)" -o)
  kill -KILL "$reaper" "$keeper"
  wait_until dead "$command"
}
dead() { # PID: perhaps nobody has waited for it
  ! grep -q '^State:[[:space:]]*[RSDT]' "/proc/$1/status"
}
plant
check "of both: the command dies with them; what it has started stays" one_dies
ends_with_it() {
  left && kill_executor && wait_until nothing_left
}
check "... until the executor ends" ends_with_it

# --- wsd ends ------------------------------------------------------------------------------------------------------------

plant
orderly() {
  stop_wsd && nothing_left
}
check "an orderly stop of wsd leaves nothing" orderly
start_wsd --workers 2
plant
disown "$WSD_PID"
kill -KILL "$WSD_PID"
check "kill -9 of wsd leaves nothing" wait_until nothing_left

# A new wsd, at once, with the same durable job.
again() {
  start_wsd --workers 2 --state-dir "$WORK/kept" >/dev/null
}
restarted() {
  local i
  for i in 1 2 3 4 5; do
    rm -f started
    : >attempt
    again && JOB=$(wsctl submit --durable --detach --timeout 60s --retries 1 --retry-delay 1ms exec sh alone "$mark" stay) &&
      wait_until begun || return 1
    disown "$WSD_PID"
    kill -KILL "$WSD_PID"
    again && expect_output alone wsctl await "$JOB" && nothing_left && stop_wsd || return 1
  done
}
check "with --durable the next wsd begins it when nothing of the last one is left" restarted
locked() {
  ! flock --nonblock "$WORK/kept/executors.lock" true
}
# Has the locks of a wsd that was killed and is not gone yet, until the new one has said that it waits: DATABASE LOG
cat >dying <<'END'
import os, sqlite3, sys, time
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute("PRAGMA locking_mode = EXCLUSIVE")
store.execute("BEGIN EXCLUSIVE")
open("holds", "w")
while not os.path.exists(sys.argv[2]) or "waits for the end of the last one" not in open(sys.argv[2]).read():
    time.sleep(0.02)
os._exit(0)
END
waits() {
  again && wait_until locked && JOB=$(wsctl submit --durable --detach --retries 1 --delay 100ms exec echo later) || return 1
  disown "$WSD_PID"
  kill -KILL "$WSD_PID"
  background flock "$WORK/kept/executors.lock" python3 dying "$WORK/kept/jobs.db" "$WORK/wsd-$((n_daemons + 1))/log"
  wait_until test -e holds && again && expect_output later wsctl await "$JOB" && grep -q 'waits for the end of the last one' "$WSD_LOG"
}
check "... and waits for it" waits
holds_it() { # PID...
  local pid
  for pid in "$@"; do
    readlink "/proc/$pid"/fd/* | grep -q 'executors\.lock$' || return 1
  done
}
held() {
  wsctl submit exec true && holds_it "$(pgrep -P "$WSD_PID")" && stop_wsd
}
check "an executor holds what it waits for" held

# --- how a command begins ------------------------------------------------------------------------------------------------

start_wsd --workers 2
printf 'echo "a script: $1"\n' >script
chmod +x script
check "a script without #! is run by sh, by its path" expect_output "a script: one" wsctl submit exec ./script one
if [ "${WSD_SANITIZE:-}" = thread ]; then
  skip "an option of exec's" "under ThreadSanitizer vfork() is fork(), and why a command has not begun is lost"
else
  check "an option of exec's is told that it is the command" says 63 'no command of this name, and exec has no options' wsctl submit exec --help
fi
removed() {
  mkdir removed && (cd removed && rmdir ../removed && says_removed)
}
says_removed() {
  expect_exit 63 wsctl submit exec true 2>"$WORK/err" || return 1
  cat "$WORK/err"
  grep -q 'the directory that it was submitted in is gone' "$WORK/err"
}
check "a directory that was removed is the reason that is told" removed
stopped() {
  wsctl submit exec true && stop_process "$(reaper_of)" && says 63 'did not answer, and is replaced' wsctl submit exec true &&
    expect_output here wsctl submit exec echo here
}
check "a reaper that is stopped is replaced" stopped
stop_wsd

locally() {
  rm -f started
  background wsctl submit --local exec sh tree "$mark" stay
  wait_until begun || return 1
  disown "$BACKGROUND_PID"
  kill -KILL "$BACKGROUND_PID"
  wait_until nothing_left
}
check "kill -9 of wsctl submit --local leaves nothing" locally
