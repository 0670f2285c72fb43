#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# planted.sh: root's wsd, and directories that a user can write to, or that lie below one: he plants files, links and directories
# where wsd looks for its own. It follows none of them, writes and runs nothing there, and says which directory it is.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

[ "$(id -u)" = 0 ] || {
  skip "what a user plants" "only root can act as one"
  exit 0
}
command -v setpriv >/dev/null || {
  skip "what a user plants" "no setpriv here"
  exit 0
}

HOSTILE=$TEST_PLUGINS/hostile
OPEN=$WORK/open # bob writes there
bob() { as $BOB "$@"; }
untouched() { # what wsd would damage by following a link
  [ "$(cat "$WORK/precious")" = precious ] && [ "$(stat -c '%a %u %g' "$WORK/precious")" = "644 0 0" ]
}
clean() { rm -rf "$OPEN" && mkdir -m 777 "$OPEN" && echo precious >"$WORK/precious" && chmod 644 "$WORK/precious"; }
# shellcheck disable=SC2119 # nothing but wsd's own
install_for_all
printf '[daemon]\nsystem = yes\n' >"$WSD_CONFIG"

# --- state ---------------------------------------------------------------------------------------------------------------

serves_without_a_store() { # STATE-DIRECTORY DIRECTORY: the one that it names
  local status=0
  start_wsd --workers 1 --state-dir "$1" || return 1
  wsctl submit --durable --delay 1h --detach fib 5 2>"$WORK/err" || status=$?
  cat "$WORK/err"
  [ "$status" = 74 ] && grep -q "not permitted: others than root could write to $2" "$WORK/err" &&
    grep -q "no durable jobs: .*$2" "$WSD_LOG" && expect_output 6765 wsctl submit fib 20 && stop_wsd && untouched
}
has_no_files() { [ -z "$(find "$1" -newer "$WORK/precious" -type f -user 0)" ]; }
state_below() { # bob moves it away, and puts a link in its place
  clean && mkdir "$OPEN/state" && serves_without_a_store "$OPEN/state" "$OPEN" && has_no_files "$OPEN"
}
state_not_there() { # nor is one made there
  clean && serves_without_a_store "$OPEN/a/state" "$OPEN" && [ ! -e "$OPEN/a" ]
}
state_by_a_link() {
  clean && mkdir -p "$WORK/target" && bob ln -s "$WORK/target" "$OPEN/state" && serves_without_a_store "$OPEN/state" "$OPEN" &&
    [ -z "$(ls "$WORK/target")" ] && rmdir "$WORK/target"
}
state_by_a_link_in_tmp() {
  clean && chmod 1777 "$OPEN" && mkdir -p "$WORK/target" && bob ln -s "$WORK/target" "$OPEN/state" &&
    serves_without_a_store "$OPEN/state" "$OPEN" && [ -z "$(ls "$WORK/target")" ] && rmdir "$WORK/target"
}
state_of_ours_in_tmp() {
  clean && chmod 1777 "$OPEN" && start_wsd --workers 1 --state-dir "$OPEN/state" &&
    wsctl submit --durable --delay 1h --detach fib 5 && stop_wsd && [ -s "$OPEN/state/jobs.db" ]
}
check "a state directory below one that he can write to" state_below
check "one that is to be made there" state_not_there
check "a link of his to one of root's" state_by_a_link
check "the same in a directory like /tmp" state_by_a_link_in_tmp
check "root's own in a directory like /tmp is taken" state_of_ours_in_tmp

# In a directory like /tmp the administrator removes it under a running wsd; he is the next one who makes it.
made_anew_by_him() {
  local status=0 name
  clean
  chmod 1777 "$OPEN"
  start_wsd --workers 1 --state-dir "$OPEN/state" && wsctl submit --durable --delay 1h --detach fib 5 && rm -r "$OPEN/state" || return 1
  bob mkdir "$OPEN/state"
  for name in jobs.db jobs.db-wal jobs.db.whole jobs.made executors.lock; do bob ln -s "$WORK/precious" "$OPEN/state/$name"; done
  bob mkfifo "$OPEN/state/jobs.db.new" && bob rm "$OPEN/state/jobs.db" || return 1
  wsctl submit --durable --delay 1h --detach fib 6 2>"$WORK/err" || status=$?
  cat "$WORK/err"
  [ "$status" = 74 ] && grep -q 'cannot be written again: not permitted' "$WORK/err" && [ -p "$OPEN/state/jobs.db.new" ] &&
    has_no_files "$OPEN/state" && untouched || return 1
  rm -r "$OPEN/state" && wsctl submit --durable --delay 1h --detach fib 7 && [ -s "$OPEN/state/jobs.db" ] && stop_wsd && untouched
}
check "removed under a running wsd, and made anew by him: nothing is written there" made_anew_by_him

# What was planted before the directory became root's alone: a job of before is there, or nothing is done to the store before it is said
# what is wrong; then it is taken away, and the job is there.
planted() { # CODE NAME COMMAND...: 74 where durable jobs are refused meanwhile
  local code=$1 name=$2 status=0
  shift 2
  clean
  chmod 755 "$OPEN"
  start_wsd --workers 1 --state-dir "$OPEN/state" && wsctl submit --durable --delay 1h --detach fib 5 >"$WORK/id" && stop_wsd || return 1
  [ "$name" != jobs.db ] || mv "$OPEN/state/jobs.db" "$WORK/real"
  rm -f "$OPEN/state/$name" && "$@" "$OPEN/state/$name" || return 1
  start_wsd --workers 1 --state-dir "$OPEN/state" || return 1
  wsctl submit --durable --delay 1h --detach fib 5 2>"$WORK/err" || status=$?
  cat "$WORK/err"
  [ "$status" = "$code" ] && { [ "$code" = 0 ] || grep -q "$name: not permitted" "$WORK/err"; } && expect_output 6765 wsctl submit fib 20 && stop_wsd &&
    untouched || return 1
  rm -f "$OPEN/state/$name"
  [ "$name" != jobs.db ] || mv "$WORK/real" "$OPEN/state/jobs.db"
  start_wsd --workers 1 --state-dir "$OPEN/state" && wsctl --json status "$(cat "$WORK/id")" | grep -q '"state":"delayed"' && stop_wsd
}
his() { cp "$WORK/his.db" "$1" && chown $BOB "$1" && chmod 600 "$1"; } # a whole database, in which are no jobs
cp_his() { clean && chmod 755 "$OPEN" && start_wsd --workers 1 --state-dir "$OPEN/state" && wsctl submit --durable fib 5 && stop_wsd && cp "$OPEN/state/jobs.db" "$WORK/his.db"; }
check "a database of his" cp_his
for name in jobs.db jobs.db-wal jobs.db.whole jobs.db.new jobs.made executors.lock; do
  case $name in jobs.db | *-wal | *.whole) code=74 ;; *) code=0 ;; esac
  check "$name is a FIFO" planted $code $name mkfifo
  check "$name is a link to a file" planted $code $name ln -s "$WORK/precious"
  check "$name is a hard link" planted $code $name ln "$WORK/precious"
  check "$name is a file of his" planted $code $name his
done

# Whoever has its lock makes each start wait.
lock_of_his() {
  clean
  mkdir -m 755 "$OPEN/state" && : >"$OPEN/state/executors.lock" && chown $BOB "$OPEN/state/executors.lock" && chmod 755 "$OPEN" || return 1
  exec 8<"$OPEN/state/executors.lock"
  flock -x 8
  start_wsd --workers 1 --state-dir "$OPEN/state"
  exec 8<&-
  cat "$WSD_LOG"
  grep -q 'executors.lock: .*the next one will not wait' "$WSD_LOG" && ! grep -q 'waits for the end' "$WSD_LOG" && stop_wsd
}
check "nobody waits for a lock of his" lock_of_his

# --- the socket ------------------------------------------------------------------------------------------------------------

does_not_listen() { # SOCKET
  local status=0
  wsd --socket "$1" --config "$WSD_CONFIG" --executor "$EXECUTOR" --spawner "$SPAWNER" --state-dir "$WORK/state" --plugin-dir "$PLUGINS" \
    >"$WORK/out" 2>&1 || status=$?
  cat "$WORK/out"
  [ "$status" != 0 ] && grep -q 'others than root could write to its directory, or to one above it' "$WORK/out" && untouched
}
socket_where_he_writes() { clean && does_not_listen "$OPEN/wsd.sock" && [ ! -e "$OPEN/wsd.sock" ]; }
socket_below() { clean && mkdir "$OPEN/run" && does_not_listen "$OPEN/run/wsd.sock"; }
socket_by_a_link() {
  clean && mkdir -p "$WORK/target" && bob ln -s "$WORK/target" "$OPEN/run" && chmod 1777 "$OPEN" && does_not_listen "$OPEN/run/wsd.sock" &&
    [ -z "$(ls "$WORK/target")" ]
}
socket_in_tmp() {
  clean && chmod 1777 "$OPEN" && start_wsd --socket "$OPEN/wsd.sock" --workers 1 &&
    expect_output 6765 wsctl --socket "$OPEN/wsd.sock" submit fib 20 && expect_exit 1 bob rm -f "$OPEN/wsd.sock" && stop_wsd
}
check "a socket in a directory that he can write to" socket_where_he_writes
check "in one below it" socket_below
check "by a link of his" socket_by_a_link

# --- the configuration -------------------------------------------------------------------------------------------------------

configuration_below() {
  clean && mkdir "$OPEN/etc" && cp "$WSD_CONFIG" "$OPEN/etc/" || return 1
  ! wsd --config "$OPEN/etc/wsd.conf" --check-config 2>"$WORK/err" && grep -q 'others than root could write to it or to a directory above it' "$WORK/err"
}
check "a configuration below a directory that he can write to" configuration_below

# --- plugins ------------------------------------------------------------------------------------------------------------------

# Each file is root's: he only chooses which one it is.
is_refused() { # DIRECTORY PLUGIN
  local status=0
  start_wsd --workers 1 --plugin-dir "$1" || return 1
  chmod 755 "${WSD_SOCKET%/*}" && chmod 666 "$WSD_SOCKET"
  as $ALICE "$CTL" submit "$2" >"$WORK/out" 2>"$WORK/err" || status=$?
  cat "$WORK/out" "$WORK/err"
  [ "$status" = 77 ] && [ ! -s "$WORK/out" ] && grep -q "others than root and the owner of wsd could write to $OPEN" "$WORK/err" && stop_wsd
}
plugins_below() {
  clean && mkdir "$OPEN/plugins" "$WORK/old" && cp "$HOSTILE/file-one.so" "$OPEN/plugins/file.so" && cp "$HOSTILE/file-two.so" "$WORK/old/file.so" &&
    is_refused "$OPEN/plugins" file && bob mv "$OPEN/plugins" "$OPEN/away" && bob ln -s "$WORK/old" "$OPEN/plugins" &&
    is_refused "$OPEN/plugins" file
}
plugin_by_a_link() { # the plugin directory is root's alone, and so is the link
  clean && mkdir "$WORK/links" "$OPEN/lib" && cp "$HOSTILE/file-one.so" "$OPEN/lib/file.so" && ln -s "$OPEN/lib/file.so" "$WORK/links/file.so" &&
    is_refused "$WORK/links" file && chmod 755 "$OPEN" || return 1
  start_wsd --workers 1 --plugin-dir "$WORK/links" && chmod 755 "${WSD_SOCKET%/*}" && chmod 666 "$WSD_SOCKET" &&
    expect_output one as $ALICE "$CTL" submit file && stop_wsd
}
check "a plugin directory below one that he can write to, also where a link of his leads to another of root's" plugins_below
check "a plugin by root's link through a directory that he can write to" plugin_by_a_link
