# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# inject.sh: wsd on system calls that fail, or that are swallowed, by strace. Sourced after lib.sh.

can_inject() {
  [ "$(id -u)" = 0 ] && command -v strace >/dev/null && [ -z "${WSD_SANITIZE:-}" ] &&
    strace -qq -o /dev/null -e inject=landlock_restrict_self:error=EINVAL true 2>/dev/null
}
inject() { # WHAT
  WSD_PREFIX=(strace -f -qq -o "$WORK/trace" -e "trace=${1%%:*}" -e "inject=$1")
}
# The wsd that is traced is not the process that start_wsd knows: that one is strace, and ends with it.
stop_traced() {
  pkill -TERM -P "$WSD_PID" -x wsd
  wait_for_exit "$WSD_PID" || fail "stop wsd" "under strace it ended with $?"
  # shellcheck disable=SC2034 # start_wsd's
  WSD_PREFIX=()
}
# The same with a wsd that serves: until end_injection.
inject_now() { # WHAT [STRACE-OPTION...]
  background strace -f -qq -o "$WORK/trace" -p "$WSD_PID" -e "trace=${1%%:*}" -e "inject=$1" "${@:2}"
  INJECTOR=$BACKGROUND_PID
  wait_until is_traced
}
is_traced() {
  ! grep -q '^TracerPid:[[:space:]]*0$' "/proc/$WSD_PID/task/"*/status
}
end_injection() {
  kill "$INJECTOR"
  wait_for_exit "$INJECTOR"
  return 0
}
