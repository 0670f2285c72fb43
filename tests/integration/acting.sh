#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# acting.sh: connections of root and of wsd-fleet's account act for users that submit-as names, and for no others. They have
# that user's executor, quota and groups, the right to submit, and no other one.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

[ "$(id -u)" = 0 ] || {
  skip "acting for users" "only root can act as several users"
  exit 0
}
command -v setpriv >/dev/null || {
  skip "acting for users" "no setpriv here"
  exit 0
}

# --- by frames ----------------------------------------------------------------------------------------------------------

numbered() { # NUMBER...
  WORK=$WORK python3 "$SRC/tests/support/clients/protocol.py" run "$@" >"$WORK/cases" 2>&1
  local status=$?
  cat "$WORK/cases"
  return $status
}
check "only root and wsd-fleet's user act for others, and for those that submit-as names" numbered P86
check "it sees and cancels that user's jobs only, and administers nothing" numbered P84 P85
check "it goes when the right is taken away, and its jobs with it" numbered P87

# --- by the library -----------------------------------------------------------------------------------------------------

AGENT=1990
install_for_all hostile spin
cp "$BUILD/tests/support/clients/handle" "$WORK/inst/"
know_users wsd-fleet:$AGENT
[ ${#known[@]} -gt 0 ] || {
  skip "users by name" "no mount namespace of our own here"
  exit 0
}
rules() { # LINES
  printf '[daemon]\nsystem = yes\n%b' "$1" >"$WSD_CONFIG"
}
lines() { # UID LINE...: what the handle of that user answers to them
  local uid=$1
  shift
  printf '%s\n' "$@" | as "$uid" "$WORK/inst/handle" | tee "$WORK/answers"
}
answered() { # N PATTERN: the Nth line
  sed -n "$1p" "$WORK/answers" | grep -qE -e "$2"
}

rules '[access]\nsubmit-as = alice @sudo\nadminister = wsd-fleet\n[limits]\nmax-jobs-per-user = 1\n'
chmod 644 "$WSD_CONFIG"
WSD_PREFIX=("${known[@]}")
start_wsd --workers 2 || exit 1
chmod 755 "$(dirname "$WSD_SOCKET")"
chmod 666 "$WSD_SOCKET"

runs_as_alice() { # N: the process that the Nth answer names
  local pid
  pid=$(sed -n "$1s/.* output=\([0-9]*\) .*/\1/p" "$WORK/answers") && [ -n "$pid" ] && grep -P "^Uid:\t$ALICE\t$ALICE\t" "/proc/$pid/status"
}
is_alice() {
  lines $AGENT 'open 5000 alice' 'call 0 0 hostile:whoami' 'call 0 0 hostile:whoami' && answered 1 'code=0' && runs_as_alice 2 && answered 3 'direct=0'
}
check "its jobs run in the user's executor" is_alice
in_log() { logged "connection of uid $AGENT pid [0-9]* acts for alice, uid $ALICE"; }
check "the log says who acts for whom" in_log
root_too() { lines 0 'open 5000 alice' 'call 0 0 hostile:whoami' && runs_as_alice 2; }
check "root may, too" root_too
denied() { lines "$1" "open 5000 $2" 'ping' && answered 1 "code=-13 exit=77 .*$3" && answered 2 'code=-'; } # UID USER WORDS
check "for bob it may not" denied $AGENT bob 'uid 1990 may not act for bob: \[access\] submit-as in wsd.conf does not name this user'
check "alice may not, not even for herself" denied $ALICE alice 'only root and the user of wsd-fleet act for others \(\[fleet\] user in wsd.conf\)'
check "nor bob" denied $BOB alice '\[fleet\] user in wsd.conf'
check "such a client is never root" denied 0 root 'nobody acts for root'
check "nor a user that is not there" denied $AGENT nosuch 'there is no user nosuch here'
one_more() { # the limit is hers
  local id
  id=$(as $ALICE "$CTL" submit --detach spin:spin) && lines $AGENT 'open 5000 alice' 'call 0 0 hostile:whoami' && answered 2 'code=-11 .*exit=75' &&
    as $ALICE "$CTL" cancel "$id" && { expect_exit 130 as $ALICE "$CTL" await "$id" || :; }
}
check "it counts as that user" one_more
install -o $AGENT -m 600 /dev/null "$WORK/agents"
no_file() { lines $AGENT 'open 5000 alice' "call 0 1 checksum $WORK/agents" "call 0 1 checksum /etc/passwd" && answered 2 'exit=1' && answered 3 'exit=1'; }
check "it opens no file for the user's jobs" no_file
by_path() { lines $AGENT 'open 5000 alice' "call 0 0 $WORK/inst/plugins/fib.so:fib 5" && answered 2 'code=-13 .*plugins by path'; }
check "it names no plugin by path" by_path
other_account() {
  rules "[access]\nsubmit-as = *\n[fleet]\nuser = $BOB\n" && reload_config && denied $AGENT alice '\[fleet\] user in wsd.conf' &&
    lines $BOB 'open 5000 alice' 'ping' && answered 2 'code=0' && denied $BOB root 'nobody acts for root'
}
check "[fleet] user says which account, and * are all but root" other_account
nobody() { rules '' && reload_config && denied $AGENT alice 'submit-as|\[fleet\] user' && denied 0 alice 'submit-as in wsd.conf'; }
check "without submit-as, nobody acts for others" nobody
no_account() { rules "[access]\nsubmit-as = alice\n[fleet]\nuser = nosuch\n" && kill -HUP "$WSD_PID" && wait_until logged 'stays as it was: .*:6: user: nosuch: there is no such user' && denied 0 alice submit-as; }
check "an account that is not there is refused, and changes nothing" no_account
stop_wsd
