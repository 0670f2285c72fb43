#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# turn.sh: a turn of wsd's loop takes so many bytes of output, of all executors together, however many wait.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

[ "$(id -u)" = 0 ] || {
  skip "outputs of many executors" "only root can act as several users"
  exit 0
}
command -v setpriv >/dev/null || {
  skip "outputs of many executors" "no setpriv here"
  exit 0
}

TURN=$((1024 << 10)) # DOMAINS_TAKE of domains/completions.h: a KiB counts as a completion
SIZE=200000          # of each output
EACH=10
USERS=(2001 2002 2003 2004 2005 2006)

install_for_all bigoutput self
mkdir -m 1777 "$WORK/open"
printf '[daemon]\nsystem = yes\n[sandbox]\nwritable = %s\n[limits]\nexecutor-answer = 10min\n' "$WORK/open" >"$WSD_CONFIG"
start_wsd --workers 1 || exit 1
chmod 755 "${WSD_SOCKET%/*}" && chmod 666 "$WSD_SOCKET"

executors() {
  pgrep -P "$(pgrep -P "$WSD_PID" -x wsd-spawn)" -x wsd-executor
}
outputs() { # each executor's are there at once, and a file behind them
  local uid executor clients=()
  for uid in "${USERS[@]}"; do as "$uid" "$CTL" submit bigoutput 1 >/dev/null && as "$uid" "$CTL" plugin show self >/dev/null || return 1; done
  for executor in $(executors); do stop_process "$executor" || return 1; done
  for uid in "${USERS[@]}"; do
    # shellcheck disable=SC2046
    background as "$uid" "$CTL" map --jobs $EACH bigoutput ::: $(yes $SIZE | head -n $EACH) >"$WORK/out-$uid"
    clients+=("$BACKGROUND_PID")
  done
  wait_until counter_is jobs_handed_over $((EACH * ${#USERS[@]})) || return 1
  for uid in "${USERS[@]}"; do
    background as "$uid" "$CTL" submit self:make "$WORK/open/$uid"
    clients+=("$BACKGROUND_PID")
  done
  wait_until counter_is jobs_handed_over $(((EACH + 1) * ${#USERS[@]})) && stop_process "$WSD_PID" || return 1
  for executor in $(executors); do kill -CONT "$executor"; done
  for uid in "${USERS[@]}"; do wait_until test -e "$WORK/open/$uid" || {
    echo "no file of $uid"
    return 1
  }; done
  kill -CONT "$WSD_PID"
  for executor in "${clients[@]}"; do wait_for_exit "$executor" || {
    echo "exit $?"
    return 1
  }; done
  for uid in "${USERS[@]}"; do [ "$(wc -c <"$WORK/out-$uid")" = $((SIZE * EACH)) ] || {
    echo "$uid has not all"
    return 1
  }; done
}
bounded() { # it is one output late, at most
  local most
  most=$(counter output_bytes_turn_most)
  echo "$most bytes"
  [ "$most" -gt $((TURN / 2)) ] && [ "$most" -le $((TURN + SIZE)) ]
}
check "outputs of many executors that wait are all read" outputs
check "and no turn takes more than its share of them" bounded
stop_wsd
