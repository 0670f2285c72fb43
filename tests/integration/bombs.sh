#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bombs.sh: alice's plugin starts processes without end, and takes memory without end, where no cgroup is delegated: bob is
# answered, and wsd lives on.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

[ "$(id -u)" = 0 ] || {
  skip "bombs" "only root can act as several users"
  exit 0
}
command -v setpriv >/dev/null || {
  skip "bombs" "no setpriv here"
  exit 0
}

install_for_all hostile
start() {
  printf '[daemon]\nsystem = yes\n[executor]\ncgroups = no\n[limits]\nmax-jobs = 1000000\nmax-jobs-per-user = 1000000\n' >"$WSD_CONFIG"
  start_wsd --workers 2 || exit 1
  chmod 755 "$(dirname "$WSD_SOCKET")" && chmod 666 "$WSD_SOCKET"
  WSD_PREFIX=()
}
answered() { # bob: by an executor of his own
  expect_output 2 as $BOB timeout 60 "$CTL" submit nqueens 4
}
adj() { # PID
  cat "/proc/$1/oom_score_adj"
}
executor_of() { # UID
  as "$1" "$CTL" submit hostile:whoami
}
goes_on() { # WSD and wsd-spawn are the same, bob is answered, and alice as soon as her executor is another one
  kill -0 "$WSD_PID" && [ "$(pgrep -P "$WSD_PID" -x wsd-spawn)" = "$helper" ] && answered &&
    kill -KILL "$(executor_of $ALICE)" && expect_output 2 as $ALICE timeout 60 "$CTL" submit nqueens 4
}

# --- processes ----------------------------------------------------------------------------------------------------------

# The limit is one of alice's uid in all of the machine: other tests may have processes of hers, too.
LIMIT=400
WSD_PREFIX=(prlimit "--nproc=$LIMIT:$LIMIT")
start
helper=$(pgrep -P "$WSD_PID" -x wsd-spawn)
processes() {
  as $ALICE "$CTL" submit hostile:bomb 10000 0 >"$WORK/out" || return 1
  cat "$WORK/out"
  grep -qE '^[0-9]+ children: Resource temporarily unavailable$' "$WORK/out" &&
    [ "$(sed 's/ .*//' "$WORK/out")" -lt $LIMIT ] && goes_on
}
check "processes without end: wsd's limit of a user's processes ends it" processes
check "and bob's executor starts beside them" answered
stop_wsd

# --- who is killed where memory runs out --------------------------------------------------------------------------------

start
helper=$(pgrep -P "$WSD_PID" -x wsd-spawn)
first() { # UID PID: it goes first, and cannot help it
  local wanted=$(($(adj "$WSD_PID") + 500))
  expect_output "$((wanted < 1000 ? wanted : 1000))
lower refused" "${@}"
}
check "a user's executor goes before wsd where memory runs out" first as $ALICE "$CTL" submit hostile:victim
check "... and wsd's own" first "$WSCTL" submit hostile:victim
check "wsd-spawn goes with wsd" test "$(adj "$helper")" = "$(adj "$WSD_PID")"
stop_wsd
WSD_PREFIX=(choom -n 700 --)
start
check "it is never above what there is" first as $ALICE "$CTL" submit hostile:victim
stop_wsd

if [ -n "${WSD_SANITIZE:-}" ]; then
  skip "memory without end" "a sanitizer takes more memory than there is here"
  exit 0
fi
# The machine is a cgroup with little memory here: all of wsd is in it. The bomb's processes are smaller than wsd.
MACHINE=/sys/fs/cgroup/memory/wsd-bombs-$$
if ! mkdir "$MACHINE" 2>/dev/null || ! echo $((400 << 20)) >"$MACHINE/memory.limit_in_bytes"; then
  rmdir "$MACHINE" 2>/dev/null
  skip "memory without end" "no cgroup of version 1 for memory"
  exit 0
fi
on_exit rmdir "$MACHINE"
kills() { # by the kernel, in there
  [ "$(sed -n 's/^oom_kill //p' "$MACHINE/memory.oom_control")" -ge "$1" ]
}
# shellcheck disable=SC2016 # the shell's
WSD_PREFIX=(sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$MACHINE")
start
helper=$(pgrep -P "$WSD_PID" -x wsd-spawn)
grown() {
  answered && "$WSCTL" pause fib && "$BUILD/tests/support/clients/many" 300000 &&
    [ "$(awk '/^VmRSS/ { print $2 }' "/proc/$WSD_PID/status")" -gt 65536 ]
}
memory() {
  local status=0
  as $ALICE "$CTL" submit hostile:bomb 100 $((16 << 20)) >"$WORK/out" 2>&1 || status=$?
  cat "$WORK/out"
  wait_until kills 20 && { [ "$status" = 0 ] || { [ "$status" = 125 ] && grep -q 'for want of memory' "$WORK/out"; }; } && goes_on
}
check "wsd is larger than each process of the bomb" grown
check "memory without end, taken by many: the kernel ends those, and not wsd" memory
echo -1 >"$MACHINE/memory.limit_in_bytes" # what is queued takes more before it is gone
"$WSCTL" cancel --all >/dev/null
stop_wsd
