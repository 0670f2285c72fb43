#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# attacks.sh: root's wsd with two ordinary users: one attacks (support/neighbour.c), the other one calls a function every 2 ms. His
# answers are right and all there; wsd and his executor are the processes that they were; nothing of the attack stays. How long
# it takes decides nothing: that is tests/bench/run neighbour.
#
#     attacks.sh [ATTACK...]    all where none is given
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

[ "$(id -u)" = 0 ] || { skip "several users" "only root can act as them"; exit 0; }
command -v setpriv >/dev/null || { skip "several users" "no setpriv here"; exit 0; }

NEIGHBOUR=$BUILD/tests/support/neighbour

counters_are_zero() { # NAME...
  local name
  for name; do counter_is "$name" 0 || return 1; done
}
neighbours_executor() { # is the first one
  wsctl --json workers | grep -q '"executor":1,' && counter_is executors_died 0
}
beside() { # ATTACK CALLS
  "$NEIGHBOUR" "$1" 0 "$2" || return 1
  ! gone "$WSD_PID" && neighbours_executor || return 1
  wait_until -t 5 counter_is connections 1 && wait_until -t 5 counters_are_zero jobs_open connections_closing
}

install_for_all bigoutput
printf '[daemon]\nsystem = yes\n[access]\nsubmit = %s %s\n' $ALICE $BOB >"$WSD_CONFIG"
start_wsd --workers 2 || exit 1
chmod 755 "${WSD_SOCKET%/*}" && chmod 666 "$WSD_SOCKET"
check "the neighbour has an executor" expect_output 1 as $BOB "$CTL" submit fib 1
attacks=("$@")
[ $# -gt 0 ] || mapfile -t attacks < <("$NEIGHBOUR" --list)
for attack in "${attacks[@]}"; do
  check "$attack: the neighbour's answers are all there and right" beside "$attack" 50
done
stop_wsd
