#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# shellcheck disable=SC2015 # `A && B || { say; return 1; }` is meant
#
# accounts.sh: a user database (/etc/passwd, LDAP) that fails is not one without the user: nothing is granted, refused for good
# or weakened for it, and wsd says so. One that never answers costs the jobs and the reload that need it, in a bounded
# time; all others go on.
# shellcheck disable=SC2119 # words of their own
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

SHIM=$BUILD/tests/support/shims/faults.so
if [ -n "${WSD_SANITIZE:-}" ]; then
  skip "a user database that fails" "a sanitizer has to be the first library of a process"
  exit 0
fi

FILE=$WORK/it.conf
faulty() { # KIND COMMAND...: with each such call failing
  local kind=$1
  shift
  { printf 1 && head -c 23 /dev/zero; } >"$WORK/always"
  env LD_PRELOAD="$SHIM" FAULTS="$kind" FAULTS_RATE=1 FAULTS_FILE="$WORK/always" "$@"
}
unknown() { # TEXT WORDS: temporary, and said
  printf '%b' "$1" >"$FILE"
  expect_exit 75 faulty accounts "$WSD" --config "$FILE" --check-config 2>"$WORK/err" || {
    cat "$WORK/err"
    return 1
  }
  cat "$WORK/err"
  [ "$(wc -l <"$WORK/err")" = 1 ] && grep -qF "$2: the user database could not be asked (Input/output error): try again when" "$WORK/err"
}
faults_too() { # a fault that is known counts more than what is not known
  printf '[daemon]\nsocket-group = root\nexecutor = /no/such\n' >"$FILE"
  expect_exit 64 faulty accounts "$WSD" --config "$FILE" --check-config
}

check "socket-group" unknown '[daemon]\nsocket-group = root\n' '[daemon] socket-group: root'
check "a user in a list of access" unknown '[access]\nsubmit = root\n' 'submit: root'
check "a group" unknown '[access]\nsubmit = @root\n' 'submit: @root'
check "a list of a plugin" unknown '[plugin fib]\nusers = nobody\n' 'users: nobody'
check "a domain" unknown '[domain d]\nusers = nobody\n' 'users: nobody'
check "a schedule's user" unknown '[schedule s]\njob = fib 3\non = daily\nuser = nobody\n' 'user: nobody'
check "beside a fault: 64" faults_too

does_not_start() {
  expect_exit 75 faulty accounts "$WSD" --config "$FILE" --socket "$WORK/no.sock" --executor "$EXECUTOR" --plugin-dir "$PLUGINS" 2>"$WORK/err"
  cat "$WORK/err"
  grep -q 'the user database could not be asked' "$WORK/err" && ! test -S "$WORK/no.sock"
}
printf '[daemon]\nsocket-group = root\n' >"$FILE"
check "wsd does not start without the group of its socket, for now (75)" does_not_start

lists() { # CODE USER COMMAND...
  expect_exit "$1" "${@:3}" "$WSCTL" list --user "$2" 2>"$WORK/err"
  local status=$?
  cat "$WORK/err"
  return $status
}
check "wsctl list --user: for now (75)" lists 75 nobody faulty accounts
check "and of one that is not there: 66" lists 66 no-such-user

# --- a wsd that runs ------------------------------------------------------------------------------------------------------------

start_with() { # KIND
  head -c 24 /dev/zero >"$WORK/faults"
  WSD_PREFIX=(env "LD_PRELOAD=$SHIM" "FAULTS=$1" FAULTS_RATE=1 "FAULTS_FILE=$WORK/faults")
  start_wsd --workers 2 || return 1
  WSD_PREFIX=()
  chmod 755 "$(dirname "$WSD_SOCKET")"
}
log_lines() { grep -cF -- "$1" "$WSD_LOG"; }
log_has() { [ "$(log_lines "$1")" -ge "$2" ]; } # WORDS TIMES

ANSWER=$((2 * TIME_SCALE))
SILENT="could not be read in the time of executor-answer"
# The configuration is read on a thread: the loop, and so all others, goes on, and what is in force stays.
reloads() {
  local verb before
  before=$(log_lines 'the configuration was read again')
  set_faults 1
  kill -HUP "$WSD_PID"
  for verb in ping list stats 'schedule list'; do
    # shellcheck disable=SC2086 # a verb of two words
    "$WSCTL" $verb >/dev/null || {
      echo "$verb"
      return 1
    }
  done
  expect_output 6765 "$WSCTL" submit fib 20 || return 1
  kill -HUP "$WSD_PID" # before that one is done
  wait_until log_has "$SILENT" 1 || return 1
  kill -HUP "$WSD_PID" # behind one that is late
  wait_until log_has "$SILENT" 2 || return 1
  expect_output 6765 "$WSCTL" submit fib 20 && [ "$(log_lines 'the configuration was read again')" = "$before" ] || return 1
  set_faults 0
  kill -HUP "$WSD_PID"
  wait_until log_has 'the configuration was read again' $((before + 1))
}
ends_meanwhile() {
  set_faults 1
  kill -HUP "$WSD_PID"
  "$WSCTL" ping && stop_wsd && set_faults 0
}

printf '[limits]\nexecutor-answer = %ss\n[access]\nsubmit = root *\n' $ANSWER >"$WSD_CONFIG"
start_with silence || exit 1
check "a reload while the user database does not answer" reloads
check "and wsd ends meanwhile" ends_meanwhile

[ "$(id -u)" = 0 ] || {
  skip "groups of other users" "only root can act as several users"
  exit 0
}
command -v setpriv >/dev/null || {
  skip "groups of other users" "no setpriv here"
  exit 0
}
install_for_all
NOBODY=65534

others_go_on() { # COMMAND...: fails as it should, while who has an executor, and root, are served
  expect_output 6765 as $BOB "$CTL" submit fib 20 || return 1
  set_faults 1
  "$@" || return 1
  expect_output 6765 as $BOB "$CTL" submit fib 20 && expect_output 6765 "$WSCTL" submit fib 20 || return 1
  set_faults 0
}
for_a_while() { # UID WORDS
  others_go_on says 75 "the user database could not be asked \($2\)" as "$1" "$CTL" submit fib 20 &&
    expect_output 6765 as "$1" "$CTL" submit fib 20
}
silent() {
  others_go_on silently && expect_output 6765 as $ALICE "$CTL" submit fib 20
}
silently() { # two of them, who share the question: one thread asks, and each of the two users has one (far-end/)
  local other status=0
  as $ALICE "$CTL" submit fib 20 2>"$WORK/other.err" &
  other=$!
  expect_output 6765 as $BOB "$CTL" submit fib 20 || return 1
  says 75 'the user database could not be asked \(no answer in the time of executor-answer\)' as $ALICE "$CTL" submit fib 20 || return 1
  wait "$other" || status=$?
  cat "$WORK/other.err"
  [ "$status" = 75 ] && [ "$(ps -o nlwp= -p "$WSD_PID")" -le $((threads + 3)) ]
}

printf '[daemon]\nsystem = yes\nsocket-group = %s\n[limits]\nexecutor-answer = %ss\n' "$(getent group $GROUP_ID | cut -d: -f1)" $ANSWER >"$WSD_CONFIG"
chmod 644 "$WSD_CONFIG"
start_with accounts || exit 1
check "a user who cannot be looked up has no jobs for now, and then has" for_a_while $ALICE 'Input/output error'
stop_wsd
start_with membership || exit 1
check "nor has one whose groups are not known: they are never fewer" for_a_while $NOBODY 'Input/output error'
check "who is not in the database has none" expect_output 6765 as $ALICE "$CTL" submit fib 20
stop_wsd
start_with silence || exit 1
threads=$(ps -o nlwp= -p "$WSD_PID")
check "one that does not answer: an error in the time of executor-answer, and the jobs of all others" silent
stop_wsd
