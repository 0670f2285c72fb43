#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# stuck.sh: alice has a file system that answers her client and nobody else, not even a SIGKILL (support/boxes/never.py). She hands over files of
# it, names them and works in it: bob is answered, and wsd looks at none of it where others would wait.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

[ "$(id -u)" = 0 ] || {
  skip "a file system that never answers" "only root can mount one"
  exit 0
}
command -v setpriv >/dev/null || {
  skip "a file system that never answers" "no setpriv here"
  exit 0
}

mount_stuck() { # NAME: it is $STUCK, and its process $fs
  STUCK=$WORK/$1
  mkdir "$STUCK"
  background "$SRC/tests/support/boxes/never.py" "$STUCK" wsctl bash setpriv env python3 >"$STUCK.mounted"
  fs=$BACKGROUND_PID
  wait_until test -s "$STUCK.mounted"
  grep -q mounted "$STUCK.mounted" || return 1
  on_exit umount -l "$STUCK"
  on_exit kill -KILL "$fs"
}
mount_stuck stuck || {
  skip "a file system that never answers" "$(cat "$STUCK.mounted")"
  exit 0
}

answered() { # bob: his calls, his files; and wsd itself
  timeout 60 setpriv --reuid=$BOB --regid=$BOB --clear-groups env LD_LIBRARY_PATH="$WORK/inst" WSD_SOCKET="$WSD_SOCKET" "$CTL" submit fib 20 >"$WORK/out" &&
    [ "$(cat "$WORK/out")" = 6765 ] && expect_output x as $BOB timeout 60 "$CTL" submit echo x && timeout 60 "$CTL" --socket "$WSD_SOCKET" --json list >/dev/null
}
nobody_waits() { # COMMAND...: alice's, who may
  background as $ALICE "$@" >"$WORK/hers" 2>&1
  # shellcheck disable=SC2034 # eval's
  local hers=$BACKGROUND_PID
  wait_until -t 10 eval 'gone "$hers" || [ -s "$STUCK.taken" ] || grep -q running <("$WSCTL" --json list)'
  cat "$WORK/hers" "$STUCK.taken"
  answered && answered && answered || return 1
  ! awk '{print $3}' "$STUCK.taken" | grep -qx "$WSD_PID"
}
within() { cd "$STUCK" && nobody_waits "$@"; }

install_for_all echo
printf '[daemon]\nsystem = yes\n' >"$WSD_CONFIG"
start_wsd --workers 2 || exit 1
chmod 755 "${WSD_SOCKET%/*}" && chmod 666 "$WSD_SOCKET"
check "bob has an executor" answered
check "as an input" nobody_waits "$CTL" submit --input "$STUCK/file" checksum
check "as an input that is piped" nobody_waits "$CTL" submit --input - checksum <"$STUCK/file"
check "as a durable job's input" nobody_waits "$CTL" submit --durable --detach --input "$STUCK/file" checksum
check "as an argument that names a file" nobody_waits "$CTL" submit checksum "$STUCK/file"
check "for which her executor waits" test -s "$STUCK.taken"
# wsd closes what it has not asked for: the file system is told of that, and does not answer.
flushed() { grep -q '^25 of ' "$STUCK.taken"; }
unasked() {
  as $ALICE python3 -c "import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ['WSD_SOCKET'])
socket.send_fds(s, [b'x'], [os.open(sys.argv[1], os.O_RDONLY)] * 20)" "$STUCK/file" && wait_until flushed && nobody_waits true
}
check "as descriptors that wsd closes" unasked
check "as the place of an output" nobody_waits "$CTL" submit --output "$STUCK/other" echo x
check "as the working directory" eval '(within "$CTL" submit checksum file)'
check "as the working directory of a detached job" eval '(within "$CTL" submit --durable --detach checksum file)'
kill -KILL "$fs" # what waits has an error now, else it could not end
wait_until gone "$fs"
stop_wsd

# --- one executor for all ---------------------------------------------------------------------------------------------

# wsd has descriptors of hers, and starts executors itself: what it starts has them at no time, else it closes them first.
mount_stuck shared || exit 1
printf '[domains]\ntrust = all\n' >>"$WSD_CONFIG"
start_wsd --workers 2 || exit 1
chmod 755 "${WSD_SOCKET%/*}" && chmod 666 "$WSD_SOCKET"
held() {
  as $ALICE timeout 60 "$CTL" submit --detach --delay 1h --input "$STUCK/file" checksum &&
    [ -n "$(find "/proc/$WSD_PID/fd" -lname "$STUCK/file" 2>/dev/null)" ]
}
check "one executor for all starts beside a descriptor of hers" held
check "and serves bob" answered
started_again() {
  kill -KILL "$(pgrep -P "$WSD_PID" -x wsd-executor)" && answered
}
check "and so does the next one" started_again
kill -KILL "$fs"
wait_until gone "$fs"
stop_wsd
