#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# daemon.sh: wsd as a program: its options, its configuration, its socket, SIGHUP, and the fork/join yardsticks through
# it with 1, 2 and 16 workers.
. "$(dirname "$0")/../support/lib.sh"

says_version() { # NAME COMMAND...
  "${@:2}" --version | grep -q "^$1 [0-9]" && "${@:2}" -V | grep -q "^$1 [0-9]"
}
check "--version" says_version wsd wsd
check "of wsctl" says_version wsctl wsctl
check "of wsctl, behind a verb" says_version wsctl wsctl submit
check "of wsctl, behind a verb's argument" says_version wsctl wsctl status x
for program in web fleet; do
  [ ! -x "$BUILD/daemon/$program/wsd-$program" ] || check "of wsd-$program" says_version "wsd-$program" "$BUILD/daemon/$program/wsd-$program"
done
check "--help" sh -c 'wsd --help | grep -q -- --socket'
check "an unknown option: 64" expect_exit 64 wsd --frobnicate
check "an argument: 64" expect_exit 64 wsd now
check "a missing configuration: 66" expect_exit 66 wsd --config "$WORK/missing.conf" --check-config
check "an unknown key: file and line" bad_config '[daemon]\n\nworker = 2\n' '3: \[daemon\] has no key `worker`'
check "a bad value: file and line" bad_config '[daemon]\nworkers = many\n' '2: workers = many: a number of workers'
check "an unknown section: file and line" bad_config '[deamon]\nworkers = 2\n' '2: there is no section \[deamon\]'
check "an option with a bad value: 64" expect_exit 64 wsd --workers 0 --check-config
check "a good configuration" wsd --config "$WSD_CONFIG" --check-config
check "--print-config reads back" sh -c 'wsd --config "$WSD_CONFIG" --workers 7 --print-config >$WORK/printed &&
    wsd --config $WORK/printed --print-config | cmp - $WORK/printed && grep -q "^workers = 7" $WORK/printed'
check "no executor: says which" refused 74 "no-such-executor" wsd --socket "$WORK/x.sock" --executor /no-such-executor
check "no directory for the socket: says so" refused 74 "make its directory" wsd --socket "$WORK/no/x.sock" --executor "$EXECUTOR"

for workers in 1 2 16; do
  start_wsd --workers "$workers" || exit 1
  check "fib.so 32, $workers workers" expect_output 2178309 wsctl submit fib.so 32
  check "nqueens.so 12, $workers workers" expect_output 14200 wsctl submit nqueens.so 12
  stop_wsd
done

start_wsd
first=$WSD_PID
check "the socket's mode is 0660" expect_output 660 stat -c %a "$WSD_SOCKET"
check "a second wsd on the same socket: says so" refused 69 "another wsd answers there" \
  wsd --socket "$WSD_SOCKET" --executor "$EXECUTOR"
check "and the first goes on" expect_output 6765 wsctl submit fib 20

check "exec is off" expect_exit 77 wsctl submit exec true
printf '[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"
kill -HUP "$WSD_PID"
check "SIGHUP: exec is on" wait_until wsctl submit exec true
printf '[plugin exec]\nenabled = maybe\n' >"$WSD_CONFIG"
kill -HUP "$WSD_PID"
check "SIGHUP with a bad file says where" wait_until grep -q "wsd.conf:2: enabled = maybe" "$WSD_LOG"
check "and the old configuration stays" wsctl submit exec true
printf '[limits]\nmax-jobs-per-user = 1\n' >"$WSD_CONFIG"
kill -HUP "$WSD_PID"
check "SIGHUP: exec is off again" wait_until expect_exit 77 wsctl submit exec true
background wsctl submit --timeout 60s "$TEST_PLUGINS/sleep.so" 60000
wait_until sh -c 'wsctl list | grep -q running' # before another one takes its place
check "a limit is kept: 75" wait_until expect_exit 75 wsctl submit fib 20
kill -TERM "$BACKGROUND_PID"
check "and below it there is room again" wait_until expect_output 6765 wsctl submit fib 20
stop_wsd
check "the socket is gone" test ! -e "$WSD_SOCKET"
: >"$WSD_CONFIG"
start_wsd
kill -KILL "$WSD_PID"
check "kill -9 of wsd: its executors end too" wait_until gone "$WSD_PID"
stale=$WSD_SOCKET
check "a socket that a dead wsd left is replaced" test -S "$stale"
background wsd --socket "$stale" --config "$WSD_CONFIG" --executor "$EXECUTOR" --plugin-dir "$PLUGINS"
check "and served" wait_until wsctl ping
[ "$first" != "$WSD_PID" ]
