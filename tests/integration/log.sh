#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# log.sh: what is in wsd's log: who did what to others; no argument, input or output; no line that a client made up; and not more
# of a kind than anybody reads.
. "$(dirname "$0")/../support/lib.sh"

soon_logged() { # PATTERN
  wait_until grep -qE "$1" "$WSD_LOG"
}
me=$(id -u)

printf '[limits]\nmax-jobs-per-user = 3\nquarantine-after = 1\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1

actions() {
  wsctl pause fib && soon_logged "fib: paused by user $me" && wsctl resume fib && soon_logged "fib: resumed by user $me" &&
    wsctl limit fib:fib 3 && soon_logged "fib:fib: limited to 3 by user $me" && wsctl limit fib:fib none &&
    soon_logged "fib:fib: limited no more by user $me" && wsctl drain --no-wait && soon_logged "all functions: drained by user $me" &&
    wsctl resume && soon_logged "all functions: resumed by user $me" && wsctl workers set 1 &&
    soon_logged "executors have 1 workers: set by user $me" && wsctl plugin reload fib &&
    soon_logged "plugin fib: reload asked for by user $me"
}
check "who paused, limited, drained, reloaded, set the workers" actions

secret=a-Secret-that-nobody-else-may-see
crash() {
  expect_exit 70 wsctl submit crash:segv "$secret" || return 1
  printf %s "input-$secret" | wsctl submit --input - echo >/dev/null
  wsctl submit echo:status 3 "error-$secret"
  soon_logged 'crash:segv crashed: ' && wsctl plugin release crash && soon_logged "crash: released by uid $me" && ! grep -q "$secret" "$WSD_LOG"
}
check "no argument, input, output or error of a job is in it, also where it crashes" crash

lines() {
  head -c 100 "$PLUGINS/fib.so" >"$WORK/$(printf 'a\nwsd- forged.so')"
  expect_exit 66 wsctl submit "$WORK/$(printf 'a\nwsd- forged.so')" && soon_logged 'a\\x0awsd- forged' &&
    ! grep -q '^wsd- forged' "$WSD_LOG"
}
check "no line of it is made up by a client" lines

rest_is_told() { # the next one that is written tells how many were not
  wsctl submit --detach spin
  wsctl submit --detach spin
  wsctl submit --detach spin
  wsctl submit fib 1
  wsctl cancel --all
  wait_until counter_is jobs_open 0 # what was cancelled may run for a moment yet
  grep -qE '[0-9]+ more lines of the kind limit were left out' "$WSD_LOG"
}

flood() { # more refusals than are written, and their number
  wsctl submit --detach spin && wsctl submit --detach spin && wsctl submit --detach spin || return 1
  "$BUILD/tests/support/clients/load" -x -p 100 -n 100 fib >/dev/null || return 1 # each by a connection of its own: those of one are told together
  local n
  n=$(grep -c "user $me: refused: too many jobs of this user" "$WSD_LOG")
  echo "$n lines"
  [ "$n" -ge 40 ] && [ "$n" -le $((40 * (1 + SECONDS / 10))) ] || return 1
  wsctl cancel --all
  wait_until rest_is_told
}
check "a flood of one kind is cut short, and counted" flood

# Lines that anybody can have made, again and again: each kind is cut short.
few_logged() { # PATTERN: not more than are written
  local n
  n=$(grep -cE "$1" "$WSD_LOG")
  echo "$n lines of: $1"
  [ "$n" -ge 1 ] && [ "$n" -le $((40 * (1 + SECONDS / 10))) ]
}
broken() {
  SECONDS=0
  python3 -c '
import socket, sys
for i in range(int(sys.argv[2])):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(sys.argv[1])
        s.sendall(b"no frame of any kind" * 2)
        while s.recv(4096): pass' "$WSD_SOCKET" 400 && few_logged 'connection of uid .* is closed' && wsctl ping
}
check "connections that break the rules, by the hundred" broken
due() { # all of them each second, and only three jobs may be
  local i
  wsctl submit --detach spin && wsctl submit --detach spin && wsctl submit --detach spin || return 1
  SECONDS=0 # the first may be refused before the last is there
  for i in {1..60}; do wsctl schedule add "s$i" --on '*:*:*' spin || return 1; done
  wait_until eval '[ "$(wsctl --json schedule list | grep -c "\"last\":\"refused\"")" = 60 ]'
  few_logged 'schedule .* its run was refused' || return 1
  for i in {1..60}; do wsctl schedule remove "s$i" || return 1; done
  wsctl cancel --all
}
check "runs of schedules that are refused" due
reloaded() {
  local i
  SECONDS=0
  cp "$PLUGINS/fib.so" "$WORK/mine.so"
  for i in {1..60}; do
    printf %s "$i" >>"$WORK/mine.so"
    wsctl plugin reload "$WORK/mine.so" >/dev/null || return 1
  done
  few_logged 'mine.so: reloaded'
}
check "plugins that are loaded anew" reloaded
ids() { # each kind of line that has an id is explained
  diff <(sed -n 's/^    \[LOG_KIND_.*{"[a-z-]*", "\([0-9a-f]\{32\}\)".*/\1/p' "$SRC/daemon/base/log.c" | sort) \
    <(sed -n 's/^-- \([0-9a-f]\{32\}\)$/\1/p' "$SRC/packaging/catalog/wsd.catalog" | sort)
}
check "the catalog explains each MESSAGE_ID" ids
stop_wsd
