#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# fork.sh: programs that have handles and fork: a child's copy fails at once and tells wsd nothing, whatever the parent's
# threads are doing; a program that becomes a daemon takes its handle along.
. "$(dirname "$0")/../support/lib.sh"

CHILDREN=1000
[ -z "${WSD_THOROUGH:-}" ] || CHILDREN=10000

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
coproc HANDLE { exec "$BUILD/tests/support/clients/handle"; }
note_started "$HANDLE_PID"

# The handle does what the line says; its answer has each of the words.
asked() { # WORDS LINE...
  local words=$1 word said
  shift
  printf '%s\n' "$*" >&"${HANDLE[1]}" && IFS= read -r -t $((60 * TIME_SCALE)) said <&"${HANDLE[0]}" || return 1
  echo "$said"
  for word in $words; do
    [[ " $said " == *" $word "* ]] || {
      echo "not there: $word"
      return 1
    }
  done
}
if ! "$BUILD/tests/support/clients/direct" -x >/dev/null; then
  skip "fork with a direct lane" "this kernel has no futex_waitv (Linux 5.16)"
  warm() { :; }
else
  warm() {
    asked code=0 warm direct:direct ok
  }
fi

# --- children -------------------------------------------------------------------------------------------------------------

FOREIGN=code=-10 # -ECHILD
check "a handle" asked code=0 open 5000
check "with a lane" warm
check "and a job" asked code=0 begin ledger:gate "$WORK/gate"
check "that runs" wait_until jobs_are running 1
for what in "call 0 0 direct:direct ok" "call 0 2 direct:direct ok" ping list stats "wait 0 direct:direct ok" again; do
  check "in a child, $what fails" asked "$FOREIGN" fork "$what"
done
check "in its child, too" asked "$FOREIGN" fork fork call 0 0 direct:direct ok
check "a child frees the handle" asked code=0 fork free
check "which cancels nothing" jobs_are running 1
check "the parent calls" asked "code=0 state=succeeded output=direct" call 5000 0 direct:direct name
check "by the socket, too" asked "code=0 state=succeeded output=direct" call 5000 2 direct:direct name
touch "$WORK/gate"
check "and its job ends" asked "code=0 state=succeeded" end

if [[ ${WSD_SANITIZE:-} == *address* || ${WSD_SANITIZE:-} == *thread* ]]; then
  skip "threads at work while a process forks" "a sanitizer's malloc hangs in a child of a process with threads"
else
  check "threads at work notice nothing of $CHILDREN children" \
    "$BUILD/tests/support/clients/forked" "$CHILDREN" direct:direct
  check "and leave nothing" wait_until counters_are_zero jobs_open direct_running
fi

# --- a daemon -------------------------------------------------------------------------------------------------------------

rm -f "$WORK/gate"
check "a lane" warm
check "and a job" asked code=0 begin ledger:gate "$WORK/gate"
check "that runs" wait_until jobs_are running 1
check "go over to a child" asked code=0 daemon
check "which calls" asked "code=0 state=succeeded output=direct" call 5000 2 direct:direct name
touch "$WORK/gate"
check "and has its job" asked "code=0 state=succeeded" end
check "it gets a lane of its own" warm
check "and its child has none" asked "$FOREIGN" fork call 0 0 direct:direct ok
check "it may become a daemon again" asked code=0 daemon
check "with a lane" warm

printf 'quit\n' >&"${HANDLE[1]}"
check "nothing is left in wsd" wait_until holds_nothing direct_lanes
stop_wsd
