#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# fair.sh: who has few jobs does not wait for all of those that somebody else, or a lower priority, had queued before.
# Counted in jobs that end meanwhile, not in time.
. "$(dirname "$0")/../support/lib.sh"

MANY=2000 # more than wsd hands ahead, RING_SLOTS
FEW=10
# milliseconds: all that are handed ahead would take two workers 100 s. The longer it is, the fewer end while a client starts.
NAP=200

# What another user needs lies where he can read it.
mkdir -p "$WORK/inst/plugins"
cp "$WSCTL" "$BUILD"/client/libwsclient.so.0 "$WORK/inst/"
cp "$TEST_PLUGINS/sleep.so" "$WORK/inst/plugins/"
chmod 755 "$WORK" "$WORK/inst" "$WORK/inst/plugins"
PLUGINS=$WORK/inst/plugins
export PLUGINS

as() { # UID COMMAND...
  local uid=$1
  shift
  setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all -- env LD_LIBRARY_PATH="$WORK/inst" "$@"
}

many_wait() {
  [ "$(counter jobs_submitted)" -ge $MANY ]
}
many() { # COMMAND...
  # shellcheck disable=SC2046
  background "$@" map --jobs $MANY sleep:sleep ::: $(yes $NAP | head -n $MANY) >"$WORK/many.out" 2>&1
  wait_until many_wait
}
# Their client goes, and they with it.
many_go() {
  pkill -KILL -P "$BACKGROUND_PID" # where `as` is a shell around it
  kill -KILL "$BACKGROUND_PID" 2>/dev/null
  wait "$BACKGROUND_PID" 2>/dev/null
  stop_wsd
}

# At most so many of the many end before the few have: in turn these would be as many as the few, and some more have
# begun until somebody looks. Without turns it would be a thousand. Where whoever looks has to wait for a CPU it is more than is
# theirs: so it may be tried again, for as long as more of the many are there than may come before.
few_come_first() { # COMMAND...
  local before n
  for _ in {1..5}; do
    before=$(counter jobs_succeeded)
    seq $FEW | "$@" sleep:sleep >/dev/null || return 1
    n=$(($(counter jobs_succeeded) - before - FEW))
    echo "$n of the many before the last of the few"
    [ "$(counter jobs_open)" -gt $((FEW + 40)) ] || return 1
    [ "$n" -gt $((FEW + 40)) ] || return 0
  done
  return 1
}

higher_priority() {
  start_wsd --workers 2 && many wsctl && few_come_first wsctl map --priority 1
}
check "a higher priority goes before what was handed ahead" higher_priority
many_go

# --- a low priority beside a flood of a high one ---

# The flood is twice as large as what is handed ahead, so that the low one, which comes last, would be the last to end. So many
# of the flood end before it: those handed ahead twice (when it comes, and when its turn has come), and what runs while it ages.
NAP=2
starves_not() {
  local id n
  printf '[limits]\nageing = 100ms\n' >"$WSD_CONFIG"
  MANY=6000
  start_wsd --workers 2 || return 1
  # shellcheck disable=SC2046
  background wsctl map --priority 100 --jobs $MANY sleep:sleep ::: $(yes $NAP | head -n $MANY) >"$WORK/many.out" 2>&1
  wait_until many_wait || return 1
  id=$(wsctl submit --priority -100 --detach sleep:sleep 0) && wsctl await "$id" >/dev/null || return 1
  n=$(counter jobs_succeeded)
  echo "$n of $MANY before it"
  [ "$n" -lt $MANY ]
}
check "a low priority does not starve behind a flood of a high one" starves_not
no_more_than_a_share() { # the high one still goes first: of two workers one is always its
  local low status=0
  # shellcheck disable=SC2046
  background wsctl map --priority -100 --jobs 3000 sleep:sleep ::: $(yes $NAP | head -n 3000) >/dev/null 2>&1
  low=$BACKGROUND_PID
  wait "$FLOOD" && ! gone "$low" || status=1 # of which seconds are left then
  kill -KILL "$low"
  wait "$low"
  return $status
}
FLOOD=$BACKGROUND_PID
check "and a flood of it does not hold up the high one" no_more_than_a_share
stop_wsd
: >"$WSD_CONFIG"
NAP=200 MANY=2000

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  printf '[daemon]\nsystem = yes\nsocket-group = nogroup\n[domains]\ntrust = all\n' >"$WSD_CONFIG"
  another_user() {
    start_wsd --workers 2 || return 1
    chmod 666 "$WSD_SOCKET" && chmod 755 "${WSD_SOCKET%/*}"
    many as 1001 "$WORK/inst/wsctl" && few_come_first as 1002 "$WORK/inst/wsctl" map
  }
  check "users that share an executor take turns" another_user
  with_priority() {
    few_come_first as 1001 "$WORK/inst/wsctl" map --priority 2
  }
  check "and so does a priority beside them" with_priority
  many_go

  # Each in his own executor, and one job at a time of all.
  printf '[daemon]\nsystem = yes\nsocket-group = nogroup\n[limits]\nmax-running = 1\n' >"$WSD_CONFIG"
  one_place() {
    start_wsd --workers 2 || return 1
    chmod 666 "$WSD_SOCKET" && chmod 755 "${WSD_SOCKET%/*}"
    MANY=1500 NAP=100
    many as 1001 "$WORK/inst/wsctl" && FEW=40 && few_come_first as 1002 "$WORK/inst/wsctl" map
  }
  check "users take turns at a limit of all" one_place
  many_go
  NAP=200 MANY=2000 FEW=10
  printf '[daemon]\nsystem = yes\nsocket-group = nogroup\n[domains]\ntrust = all\n' >"$WSD_CONFIG"

  if [ -n "${WSD_THOROUGH:-}" ]; then
    printf '[limits]\nmax-jobs-per-user = 2000000\nmax-requests-per-user = 2000000\n' >>"$WSD_CONFIG"
    MANY=1000000
    a_million() {
      start_wsd --workers 2 || return 1
      chmod 666 "$WSD_SOCKET" && chmod 755 "${WSD_SOCKET%/*}"
      background as 1001 "$WORK/inst/wsctl" bench --count $MANY --connections 10 --in-flight 100000 sleep:sleep $NAP >"$WORK/many.out" 2>&1
      wait_until -t 120 many_wait && few_come_first as 1002 "$WORK/inst/wsctl" map && echo "$(counter jobs_open) still queued" &&
        [ "$(counter jobs_open)" -ge $((MANY - MANY / 100)) ]
    }
    check "a million of one user before ten of another" a_million
    many_go
  else
    skip "a million of one user before ten of another" "with --thorough"
  fi
else
  skip "users that share an executor take turns" "only root can act as two users"
fi
