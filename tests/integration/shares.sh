#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2015 # `A && B || { say; return 1; }` is meant
#
# shares.sh: what wsd keeps for one user gives way to his own jobs only: ends and keys of durable jobs, by size and by number.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

[ "$(id -u)" = 0 ] || {
  skip "shares of several users" "only root can act as them"
  exit 0
}
command -v setpriv >/dev/null || {
  skip "shares of several users" "no setpriv here"
  exit 0
}
ENDS=100000 # that are kept: STORE_RECORDS of durable/durable.h

durable() { # UID OPTION...: and awaits its end; prints its id
  local uid=$1 id
  shift
  id=$(as "$uid" "$CTL" submit --durable --detach "$@") && as "$uid" "$CTL" await "$id" >/dev/null && echo "$id"
}
ends_of() { # UID
  as "$1" "$CTL" --json list | grep -c '"durable":true'
}

# Each end takes 1 KiB: of 300 one who takes what he can has half.
by_size() {
  local promised first i
  promised=$(durable $BOB --key once echo bob) && first=$(durable $ALICE echo first) || return 1
  for i in {1..20}; do as $ALICE "$CTL" map --durable echo ::: {1..20} >/dev/null || {
    echo "map $i: $?"
    return 1
  }; done
  [ "$(ends_of $ALICE)" -ge 140 ] && [ "$(ends_of $ALICE)" -le 150 ] || {
    echo "she has $(ends_of $ALICE)"
    return 1
  }
  expect_exit 66 as $ALICE "$CTL" status "$first" || return 1
  expect_output bob as $BOB "$CTL" await "$promised" && [ "$(durable $BOB --key once echo again)" = "$promised" ]
}
# Her own end gives way for a larger job of hers; above her share she is refused, and he is not.
one_is_refused() {
  head -c $((140 * 1024)) /dev/zero >"$WORK/much" && head -c $((160 * 1024)) /dev/zero >"$WORK/too-much" && chmod 644 "$WORK/much" "$WORK/too-much" || return 1
  expect_exit 75 as $ALICE "$CTL" submit --durable --input "$WORK/too-much" checksum >"$WORK/out" 2>"$WORK/err"
  cat "$WORK/err"
  grep -q 'share of it.*max-size' "$WORK/err" || return 1
  durable $BOB echo bob && durable $ALICE --input "$WORK/much" checksum
}
# A wsd that starts again counts them again.
after_a_restart() {
  local promised
  promised=$(durable $BOB --key twice echo bob) && stop_wsd && start_again || return 1
  as $ALICE "$CTL" map --durable echo ::: {1..200} >/dev/null && [ "$(ends_of $ALICE)" -le 150 ] || {
    echo "she has $(ends_of $ALICE)"
    return 1
  }
  [ "$(durable $BOB --key twice echo again)" = "$promised" ]
}
by_number() {
  local promised
  printf '[daemon]\nsystem = yes\n' >"$WSD_CONFIG"
  start_again && promised=$(durable $BOB --key much echo bob) || return 1
  seq $((ENDS + 1000)) | as $ALICE "$CTL" map --durable --quiet echo >/dev/null || return 1
  [ "$(ends_of $ALICE)" -ge $((ENDS / 2 - 10)) ] && [ "$(ends_of $ALICE)" -le $((ENDS / 2)) ] || {
    echo "she has $(ends_of $ALICE)"
    return 1
  }
  [ "$(durable $BOB --key much echo again)" = "$promised" ]
}
start_again() {
  start_wsd --workers 2 --state-dir "$WORK/state" && chmod 666 "$WSD_SOCKET" && chmod 755 "${WSD_SOCKET%/*}"
}

install_for_all echo
printf '[daemon]\nsystem = yes\n[store]\nmax-size = 300K\n' >"$WSD_CONFIG"
start_again || exit 1
check "what is kept for one user does not give way to another's, by size" by_size
check "who is above his share is refused, and others are not" one_is_refused
check "and after a restart" after_a_restart
stop_wsd
if [ -n "${WSD_THOROUGH:-}" ]; then
  check "by number" by_number
  stop_wsd
else
  skip "101,000 ends of one user" "with --thorough"
fi
