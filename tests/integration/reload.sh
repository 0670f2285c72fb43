#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# reload.sh: `wsctl plugin reload`: from its answer on new jobs get the new file, what was submitted before ends on the old
# one, and a file that cannot be loaded changes nothing.
. "$(dirname "$0")/../support/lib.sh"

HOSTILE=$TEST_PLUGINS/hostile
cd "$WORK" || exit 1

# In one step, as `meson install` and packages do it.
put() { # FILE-OF-A-PLUGIN NAME
  cp "$1" fresh && mv fresh "dir/$2.so"
}

# One of the strings that `plugin reload` said about the first executor.
said() { # KEY
  sed -n "1s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" reloaded
}

reload() { # NAME [OUTCOME]
  wsctl --json plugin reload "$1" >reloaded || {
    echo "exit $?"
    return 1
  }
  cat reloaded
  [ -z "${2:-}" ] || [ "$(said outcome)" = "$2" ]
}

build_id() { # FILE
  readelf -n "$1" | sed -n 's/ *Build ID: //p'
}

# N jobs that have begun and wait for the file `go`; each says its version and what it reads of itself.
begin() { # PLUGIN N
  local i
  rm -f go said-*
  begun=()
  for ((i = 0; i < $2; i++)); do
    wsctl submit "$1:when" "$WORK/go" >"said-$i" 2>&1 &
    begun+=("$!")
    note_started "$!"
  done
  wait_until all_open "$2"
}

all_open() {
  [ "$(counter jobs_open)" = "$1" ]
}

end_as() { # VERSION
  local i
  touch go
  for i in "${!begun[@]}"; do
    wait "${begun[i]}" || {
      echo "exit $?"
      cat "said-$i"
      return 1
    }
    [ "$(cat "said-$i")" = "$1 $((7 << 20))" ] || {
      cat "said-$i"
      return 1
    }
  done
}

first_time() {
  put "$HOSTILE/file-one.so" file
  reload file loaded && [ "$(said version)" = one ] && [ -z "$(said old_version)" ] &&
    [ "$(said build)" = "$(build_id dir/file.so)" ] && expect_output one wsctl submit file
}

nothing_changed() {
  expect_output one wsctl submit file || return 1
  reload file unchanged && [ "$(said changed)" = false ] && [ "$(said old_build)" = "$(said build)" ] &&
    [ "$(said path)" = "$WORK/dir/file.so" ] || return 1
  # another file with the same bytes is the same plugin
  put "$HOSTILE/file-one.so" file
  reload file unchanged && expect_output one wsctl submit file
}

# More of them than there are workers, so that some have not begun.
running_ones_end_on_the_old_one() {
  begin file 6 || return 1
  put "$HOSTILE/file-two.so" file
  reload file changed && [ "$(said changed)" = true ] && [ "$(said version)" = two ] && [ "$(said old_version)" = one ] &&
    [ "$(said old_build)" = "$(build_id "$HOSTILE/file-one.so")" ] &&
    [ "$(said build)" = "$(build_id "$HOSTILE/file-two.so")" ] || return 1
  # both workers wait in the old one: this one gets its turn after it
  wsctl submit file >new 2>&1 &
  local new=$!
  note_started "$new"
  end_as one && wait "$new" && [ "$(cat new)" = two ]
}

# It is not the look once a second that does it: the answer has come when the next job is submitted.
at_once() {
  local i
  for i in 1 2 3 4 5; do
    put "$HOSTILE/file-one.so" file
    reload file changed && expect_output one wsctl submit file || return 1
    put "$HOSTILE/file-two.so" file
    reload file changed && expect_output two wsctl submit file || return 1
  done
}

# Words, exit 66, one line; jobs that run and jobs that come are on the old one, and no executor with jobs has died.
broken() { # FILE WORDS
  local status=0 pid jobs
  put "$HOSTILE/file-two.so" file
  reload file || return 1
  begin file 2 || return 1
  pid=$(executor_of_jobs)
  put "$1" file
  wsctl plugin reload file >out 2>err || status=$?
  cat out err
  [ "$status" = 66 ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] &&
    grep -q "^wsctl: file: .*$2.*: version two (build .*) stays in use" err || return 1
  status=0
  wsctl --json plugin reload file >reloaded 2>/dev/null || status=$?
  cat reloaded
  [ "$status" = 66 ] && [ "$(said outcome)" = kept ] && [ "$(said version)" = two ] || return 1
  wsctl --json submit file >job & # both workers wait
  jobs=$!
  note_started "$jobs"
  end_as two && wait "$jobs" && grep -q '"output":"dHdvCg=="' job && [ "$(executor_of_jobs)" = "$pid" ] &&
    wait_until sole_executor
}

sole_executor() {
  [ "$(counter executors)" = 1 ]
}

# The oldest process of ours: what tries files is younger.
executor_of_jobs() {
  pgrep -o -P "$WSD_PID"
}

deleted() {
  put "$HOSTILE/file-two.so" file
  reload file && rm dir/file.so || return 1
  local status=0
  wsctl plugin reload file 2>err || status=$?
  cat err
  [ "$status" = 66 ] && grep -q 'not found.*stays in use' err && expect_output two wsctl submit file
}

mended() {
  put "$BUILD/tests/support/plugins/unresolved.so" file
  expect_exit 66 wsctl plugin reload file || return 1
  put "$HOSTILE/file-one.so" file
  reload file changed && expect_output one wsctl submit file
}

unknown() {
  local status=0
  wsctl plugin reload nobody-has-this >out 2>err || status=$?
  cat out err
  [ "$status" = 66 ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -q '^wsctl: nobody-has-this: not found in ' err
}

by_path() {
  cp "$HOSTILE/file-one.so" mine.so
  expect_output one wsctl submit ./mine.so || return 1
  cp "$HOSTILE/file-two.so" fresh && mv fresh mine.so
  reload ./mine.so changed && expect_output two wsctl submit ./mine.so
}

# A path is looked at with each submit: that one must not try again what the reload could not load.
not_tried_again() {
  { cat "$HOSTILE/file-one.so" && echo "its own bytes"; } >own.so
  expect_output one wsctl submit ./own.so || return 1
  cp "$TEST_PLUGINS/unresolved.so" fresh && mv fresh own.so
  expect_exit 66 wsctl plugin reload ./own.so && expect_output one wsctl submit ./own.so || return 1
  # it is when it changes
  { cat "$HOSTILE/file-two.so" && echo "its own bytes"; } >fresh && mv fresh own.so
  expect_output two wsctl submit ./own.so
}

for_people() {
  put "$HOSTILE/file-one.so" file
  reload file || return 1
  put "$HOSTILE/file-two.so" file
  wsctl plugin reload file >out || return 1
  cat out
  grep -Eq '^file: two \(build [0-9a-f]{16}\), was one \(build [0-9a-f]{16}\)$' out || return 1
  wsctl plugin reload file >out && grep -Eq '^file: two \(build [0-9a-f]{16}\), unchanged$' out
}

# Many at once, among them ones whose asker goes away: each has its end, and no executor is left of the trials.
many_at_once() {
  local i pids=() status
  for ((i = 0; i < 24; i++)); do
    wsctl plugin reload "$([ $((i % 3)) = 0 ] && echo "none-$i" || echo file)" >/dev/null 2>>many &
    pids+=("$!")
    [ $((i % 5)) != 0 ] || kill -KILL "$!"
  done
  for i in "${!pids[@]}"; do
    status=0
    wait "${pids[i]}" || status=$?
    case $status in
      0 | 66 | 75 | 137) ;;
      *)
        echo "exit $status"
        cat many
        return 1
        ;;
    esac
  done
  wait_until sole_executor && reload file unchanged && expect_output two wsctl submit file
}

# More reloads than an executor has room for plugins, and it never ends.
no_number_is_lost() {
  local i n=20
  [ -z "${WSD_THOROUGH:-}" ] || n=300
  begin file 1 || return 1
  for ((i = 0; i < n; i++)); do
    reload file unchanged || return 1
  done
  end_as two
}

# Jobs come without end while the file changes all the time: each has one of the two answers, and all succeed.
jobs_until_enough() {
  while [ ! -e enough ]; do
    wsctl map -j 32 file:says <items >>answers || return 1
  done
}

under_load() {
  local i load
  yes says | head -n 200 >items
  rm -f enough answers
  jobs_until_enough 2>err &
  load=$!
  note_started "$load"
  wait_until test -s answers || return 1
  for i in {1..20}; do
    put "$HOSTILE/file-$([ $((i % 2)) = 0 ] && echo one || echo two).so" file
    wsctl plugin reload file || return 1
  done
  touch enough
  wait "$load" || {
    echo "exit $?"
    cat err
    return 1
  }
  sort answers | uniq -c
  [ "$(($(wc -l <answers) % 200))" = 0 ] && [ "$(grep -cvx 'one\|two' answers)" = 0 ] &&
    grep -qx one answers && grep -qx two answers
}

# What other users may run and read, wherever the repository lies.
install_for_all() {
  mkdir inst
  cp "$WSD" "$EXECUTOR" "$WSCTL" "$BUILD"/client/libwsclient.so.0 inst/
  chmod -R go-w inst dir
  chmod 755 . inst dir
}

as_alice() {
  setpriv --reuid=1001 --regid=1001 --groups=100 --inh-caps=-all -- env LD_LIBRARY_PATH="$WORK/inst" \
    WSD_SOCKET="$WSD_SOCKET" "$WORK/inst/wsctl" "$@"
}

other_users_too() {
  put "$HOSTILE/file-one.so" file
  expect_output one as_alice submit file && expect_output one wsctl submit file || return 1
  put "$HOSTILE/file-two.so" file
  reload file changed || return 1
  [ "$(grep -c '"outcome":"changed"' reloaded)" = 2 ] && grep -q '"uid":1001\b' reloaded && grep -q '"uid":0\b' reloaded &&
    expect_output two as_alice submit file || return 1
  wsctl plugin reload file >out
  cat out
  grep -q '^user 1001: file: two .*, unchanged$' out && grep -q '^file: two .*, unchanged$' out || return 1
  # who is not root speaks for himself
  as_alice --json plugin reload file >reloaded
  cat reloaded
  [ "$(wc -l <reloaded)" = 1 ] && [ "$(said uid)" = 1001 ] && expect_exit 77 as_alice plugin reload "$WORK/dir/file.so"
}

started_more_than() { # N
  [ "$(counter executors_started)" -gt "$1" ]
}

# The executor that tries a file answers nothing meanwhile, and what it has is gone with it.
not_traced() {
  local before
  before=$(counter executors_started)
  put "$HOSTILE/ctor-hang.so" hung
  background wsctl plugin reload hung
  wait_until started_more_than "$before" && wsctl trace --seconds 10ms -o trace.json && ! gone "$BACKGROUND_PID"
}

mkdir dir
start_wsd --workers 2 --plugin-dir "$WORK/dir" || exit 1
check "what nobody has used yet is loaded" first_time
check "nothing has changed" nothing_changed
check "what was submitted before ends on the old file, what comes gets the new one" running_ones_end_on_the_old_one
check "at once, again and again" at_once
check "no ELF file: the old one stays in use" broken /bin/sh "not a plugin"
check "a missing symbol: the old one stays" broken "$TEST_PLUGINS/unresolved.so" "undefined symbol"
check "a constructor that crashes: the old one stays, and so do its jobs" broken "$HOSTILE/ctor-crash.so" "crashed or hung"
check "an init that says no: the old one stays" broken "$TEST_PLUGINS/bad-init.so" "init failed"
[ -z "${WSD_THOROUGH:-}" ] || check "a constructor that hangs: likewise" broken "$HOSTILE/ctor-hang.so" "crashed or hung"
check "deleted: the old one stays" deleted
check "mended after that" mended
check "unknown: 66, and where it was looked for" unknown
check "by path" by_path
check "what could not be loaded is not tried again before it changes" not_tried_again
check "for people" for_people
check "many at once, and askers that go" many_at_once
check "reloads without end take up no room" no_number_is_lost
check "under load: every job succeeds, on one or the other" under_load
check "who tries a file is in no trace" not_traced
stop_wsd

if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
  skip "root reloads for all users, others for themselves" "not root, or no setpriv here"
else
  install_for_all
  WSD=$WORK/inst/wsd EXECUTOR=$WORK/inst/wsd-executor
  export PLUGINS=$WORK/dir
  printf '[daemon]\nsystem = yes\nsocket-group = %s\n' "$(getent group 100 | cut -d: -f1)" >"$WSD_CONFIG"
  chmod 644 "$WSD_CONFIG"
  start_wsd --workers 1 || exit 1
  chmod 755 "$(dirname "$WSD_SOCKET")"
  check "root reloads for all users, others for themselves" other_users_too
  stop_wsd
fi
