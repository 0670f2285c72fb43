#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# attacks.sh: root's wsd with two ordinary users: one attacks (support/clients/neighbour.c), the other one calls a function every 2 ms. His
# answers are right and all there; wsd and his executor are the processes that they were; nothing of the attack stays. How long
# it takes decides nothing: that is tests/bench/run neighbour.
#
#     attacks.sh [ATTACK...]    all where none is given
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"
. "$(dirname "$0")/../support/ca.sh"

need_users

NEIGHBOUR=$BUILD/tests/support/clients/neighbour

neighbours_executor() { # is the first one, still. One of the attacker's may have no time to answer
  grep -q '"executor":1,' <<<"$(wsctl --json workers 2>/dev/null)"
}
fewer_are_open() { # than LEFT
  [ "$(counter jobs_open)" -lt "$LEFT" ]
}
all_is_cleared() { # by slices: however many there are, some of them go in each wait
  LEFT=$(counter jobs_open)
  while [ "$LEFT" -gt 0 ]; do
    wait_until fewer_are_open || return 1
    LEFT=$(counter jobs_open)
  done
  wait_until counters_are_zero jobs_open connections_closing
}
calls_beside() { # ATTACK CALLS
  "$NEIGHBOUR" "$1" 0 "$2" || return 1
  if gone "$WSD_PID" || ! neighbours_executor; then
    echo "wsd is gone, or its executor is another one: $(wsctl --json workers 2>&1)"
    return 1
  fi
  if ! wait_until counter_is connections 1 || ! all_is_cleared; then
    echo "left: $(counter connections) connections, $(counter connections_closing) that close, $(counter jobs_open) jobs"
    return 1
  fi
}

# The loop's first call on a far end that takes long is its last one for that user: a thread makes the others.
a_thread_wakes_them() {
  local slow
  slow=$(counter far_end_slow_calls)
  echo "slow calls of the loop: $slow"
  [ "$slow" -le 2 ]
}

# The neighbour's certificate, and what calls fib with it.
listen_by_tls() {
  local dir=$WORK/lab
  mkdir "$WORK/inst/tls" && cp "$BUILD/daemon/tls/wsd-tls.so" "$WORK/inst/tls/" && ca_new lab &&
    ca_sign lab server localhost 'extendedKeyUsage = serverAuth\nsubjectAltName = DNS:localhost' &&
    ca_sign lab bob bob 'extendedKeyUsage = clientAuth' && chown $BOB "$dir/bob.key" && echo "CN:bob = games" >"$dir/users" || return 1
  export TLS_PORT
  TLS_PORT=$(free_port)
  printf '[tls]\nlisten = localhost:%s\n' "$TLS_PORT" >>"$WSD_CONFIG"
  printf '%s = %s\n' certificate "$dir/server.pem" key "$dir/server.key" ca "$dir/ca.pem" user-map "$dir/users" >>"$WSD_CONFIG"
  export TLS_CALL="env -u WSD_SOCKET LD_LIBRARY_PATH=$WORK/inst WSD_HOST=localhost:$TLS_PORT WSD_TLS_CERT=$dir/bob.pem WSD_TLS_KEY=$dir/bob.key \
    WSD_TLS_CA=$dir/ca.pem $CTL submit fib"
}

install_for_all bigoutput crash waiters
printf '[daemon]\nsystem = yes\n[access]\nsubmit = %s %s games\n' $ALICE $BOB >"$WSD_CONFIG"
if command -v openssl >/dev/null && [ -e "$BUILD/daemon/tls/wsd-tls.so" ]; then
  listen_by_tls || exit 1
else
  skip "attacks on the TLS listener" "no openssl command here, or this build has no TLS"
fi
start_wsd --workers 2 || exit 1
chmod 755 "${WSD_SOCKET%/*}" && chmod 666 "$WSD_SOCKET"
check "the neighbour has an executor" expect_output 1 as $BOB "$CTL" submit fib 1
# A table that grows stops the loop for as long as an RCU grace period takes.
has_room_for_connections() {
  local limit
  limit=$(awk '/^Max open files/ { print $4 }' /proc/"$WSD_PID"/limits)
  [ "$(awk '/^FDSize/ { print $2 }' /proc/"$WSD_PID"/status)" -ge "$((limit < 65536 ? limit : 65536))" ]
}
check "wsd's table of descriptors does not have to grow" has_room_for_connections
attacks=("$@")
[ $# -gt 0 ] || mapfile -t attacks < <("$NEIGHBOUR" --list)
for attack in "${attacks[@]}"; do
  check "$attack: the neighbour's answers are all there and right" calls_beside "$attack" 50
  case $attack in
    waiters*) check "$attack: it is the attacker's thread that wakes them" a_thread_wakes_them ;;
  esac
done
stop_wsd
