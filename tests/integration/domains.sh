#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# domains.sh: trust domains. Executors run under the uid of their user where wsd has the right, through wsd-spawn, which
# does nothing else; without it they run under wsd's, or not at all, as configured. Domains of several users, and their limits.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/inject.sh"
. "$(dirname "$0")/../support/users.sh"

[ "$(id -u)" = 0 ] || {
  skip "trust domains" "only root can act as several users"
  exit 0
}
command -v setpriv >/dev/null || {
  skip "trust domains" "no setpriv here"
  exit 0
}

SPAWNING=$BUILD/tests/support/shims/spawning
CAROL=1003 # whom the user database does not know
install_for_all hostile self sleep crash spin
mkdir -p "$WORK/alice" "$WORK/bob" "$WORK/open"
echo "alice's secret" >"$WORK/alice/secret"
chown -R $ALICE:$ALICE "$WORK/alice"
chown -R $BOB:$BOB "$WORK/bob"
chmod 700 "$WORK/alice" "$WORK/bob"
chmod 1777 "$WORK/open"

# shellcheck disable=SC2119 # words of their own
know_users

start() { # CONFIGURATION: a wsd of all users
  printf '[daemon]\nsystem = yes\n%b' "$1" >"$WSD_CONFIG"
  chmod 644 "$WSD_CONFIG"
  WSD_PREFIX=("${known[@]}")
  start_wsd --workers 2 || exit 1
  chmod 755 "$(dirname "$WSD_SOCKET")"
  chmod 666 "$WSD_SOCKET"
}
submit() { # UID JOB...
  as "$1" "$CTL" submit "${@:2}"
}
executor_of() { # UID
  submit "$1" hostile:whoami
}
field() { # PID FIELD: of its status
  sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"
}
helper_of() { # WSD-PID
  pgrep -P "$1" -x wsd-spawn
}
has() { # PID FIELD VALUE
  local value
  value=$(field "$1" "$2" | tr '\t' ' ' | sed 's/ *$//')
  [ "$value" = "$3" ] || {
    echo "$2 of $1 is \`$value\`, not \`$3\`"
    return 1
  }
}
no_rights() { # PID
  has "$1" CapInh 0000000000000000 && has "$1" CapPrm 0000000000000000 && has "$1" CapEff 0000000000000000 &&
    has "$1" CapAmb 0000000000000000 && has "$1" NoNewPrivs 1
}
runs_as() { # PID UID GID GROUPS
  has "$1" Uid "$2 $2 $2 $2" && has "$1" Gid "$3 $3 $3 $3" && has "$1" Groups "$4" && no_rights "$1"
}

# --- the helper by itself ------------------------------------------------------------------------------------------------

check "wsd-spawn refuses what is wrong, and goes on" "$SPAWNING" "$SPAWNER" $ALICE
check "wsd-spawn is started by wsd only" expect_exit 64 "$SPAWNER"
by_hand() {
  expect_exit 74 "$SPAWNER" 1000 /x dirs 3 free 65536 writable=/ 3</dev/null 4</dev/null
}
check "and not by hand" by_hand

# --- whose executors are -------------------------------------------------------------------------------------------------

start "[executor]\nuser-ids = yes\nfirst-user-id = 1000\n[sandbox]\nwritable = $WORK/open\n"
alices=$(executor_of $ALICE) bobs=$(executor_of $BOB) carols=$(executor_of $CAROL)
if [ ${#known[@]} != 0 ]; then
  check "alice's executor is hers, with her groups but those of the system" runs_as "$alices" $ALICE $ALICE "$ALICE 2001"
  check "bob's is his" runs_as "$bobs" $BOB $BOB $BOB
else
  skip "groups" "no mount namespaces here"
fi
check "who is in no user database has the group of nobody" runs_as "$carols" $CAROL 65534 ""
helper=$(helper_of "$WSD_PID")
check "they are children of wsd-spawn" test "$(field "$alices" PPid) $(field "$bobs" PPid)" = "$helper $helper"
helpers_rights() {
  has "$helper" CapPrm 00000000000000e0 && has "$helper" CapEff 00000000000000e0 &&
    has "$helper" CapBnd 00000000000000e0 && has "$helper" CapInh 0000000000000000 &&
    has "$helper" CapAmb 0000000000000000 && has "$helper" NoNewPrivs 1
}
check "which has three capabilities" helpers_rights
roots=$("$WSCTL" submit hostile:whoami)
check "root's own is wsd's child" has "$roots" PPid "$WSD_PID"

check "a plugin reads what its user may" expect_output "alice's secret" submit $ALICE self:get "$WORK/alice/secret"
check "and not what another may" says 3 'Permission denied' submit $BOB self:get "$WORK/alice/secret"
makes() {
  submit $ALICE self:make "$WORK/open/alices" && [ "$(stat -c %u:%g "$WORK/open/alices")" = "$1" ]
}
check "what it makes is its user's" makes "$(field "$alices" Gid | sed 's/\([0-9]*\).*/1001:\1/')"
as $ALICE rm -f "$WORK/open/alices"

closed() { # UID PID
  local what
  for what in mem maps environ fd/6 stack; do
    ! as "$1" dd if="/proc/$2/$what" of=/dev/null bs=1 count=1 2>/dev/null || {
      echo "$what is open"
      return 1
    }
  done
  ! as "$1" ls "/proc/$2/fd"
}
check "her own processes do not look into it" closed $ALICE "$alices"
check "nor bob's" closed $BOB "$alices"
check "bob does not kill it" expect_exit 1 as $BOB kill -KILL "$alices"

# --- groups ---------------------------------------------------------------------------------------------------------------

GROUPS_MAX=4096 # SPAWN_GROUPS_MAX
in_groups() {   # N: bob, his own among them
  sed -i '/^many[0-9]*:/d' "$WORK/group.all" && cp "$WORK/group.all" "$WORK/group.now" &&
    seq 10001 $((10000 + $1 - 1)) | sed 's|.*|many&:x:&:bob|' >>"$WORK/group.now" && cat "$WORK/group.now" >"$WORK/group"
}
all_groups() { # N: he is in all of them
  in_groups "$1" && kill -KILL "$(executor_of $BOB)" || return 1
  local pid n
  pid=$(executor_of $BOB) && n=$(field "$pid" Groups | wc -w)
  [ "$n" = "$1" ] || {
    echo "$n groups"
    return 1
  }
}
too_many_groups() {
  in_groups $((GROUPS_MAX + 1)) && kill -KILL "$(executor_of $BOB)" || return 1
  says 75 "user $BOB is in $((GROUPS_MAX + 1)) groups, and an executor can be in $GROUPS_MAX" submit $BOB fib 20
}
if [ ${#known[@]} != 0 ]; then
  cp "$WORK/group" "$WORK/group.all"
  check "a user in as many groups as a packet has room for has all of them" all_groups "$GROUPS_MAX"
  check "one in more of them is refused, in these words" too_many_groups
  cat "$WORK/group.all" >"$WORK/group"
  bobs=$(executor_of $BOB)
else
  skip "a user in many groups" "no mount namespaces here"
fi

# --- deaths ---------------------------------------------------------------------------------------------------------------

at_least_run() { # N
  [ "$("$WSCTL" --json list | grep -c '"running"')" -ge "$1" ]
}
asks() { # UID FILE: a job that is not to be run again, in the background
  background as "$1" "$CTL" submit sleep 600000 2>"$2"
}
asks $ALICE "$WORK/alices.err"
alices_client=$BACKGROUND_PID
asks $BOB "$WORK/bobs.err"
bobs_client=$BACKGROUND_PID
check "both have work" wait_until at_least_run 2
check "alice kills her own executor" as $ALICE kill -KILL "$alices"
if expect_exit 125 wait_for_exit "$alices_client"; then ok "her job is interrupted"; else fail "her job is interrupted"; fi
check "she goes on, in another one" expect_output 6765 submit $ALICE fib 20
check "bob's is the same as before" expect_output "$bobs" executor_of $BOB

kill -KILL "$helper"
if expect_exit 125 wait_for_exit "$bobs_client"; then ok "wsd-spawn is killed: executors die with it"; else fail "wsd-spawn is killed" "bob's job is not told of"; fi
check "root's own, which it had not started, goes on" expect_output "$roots" "$WSCTL" submit hostile:whoami
check "another one is started for alice" expect_output 6765 submit $ALICE fib 20
check "and for bob" expect_output 6765 submit $BOB fib 20
check "that is another process" test "$(helper_of "$WSD_PID")" != "$helper"
check "what crashes is told as ever" says 70 'Segmentation fault at address' submit $ALICE crash:segv
check "what exits too" says 70 'exit' submit $ALICE crash:exit

helper=$(helper_of "$WSD_PID") alices=$(executor_of $ALICE) bobs=$(executor_of $BOB)
disown "$WSD_PID" # bash would tell of it
kill -KILL "$WSD_PID"
all_gone() {
  gone "$helper" && gone "$alices" && gone "$bobs" && gone "$roots"
}
check "kill -9 of wsd leaves neither wsd-spawn nor executors" wait_until all_gone

# --- by configuration -----------------------------------------------------------------------------------------------------

start '[executor]\nuser-ids = no\n'
check "user-ids = no: all run under wsd's uid" has "$(executor_of $ALICE)" Uid "0 0 0 0"
check "and there is no wsd-spawn" expect_exit 1 helper_of "$WSD_PID"
stop_wsd

if can_inject; then # exec is on, so that files may be written: that is not what shows it
  inject landlock_restrict_self:retval=0
  known_wsd=("${known[@]}") known=("${WSD_PREFIX[@]}")
  start '[executor]\nuser-ids = yes\n[plugin exec]\nenabled = yes\n'
  check "Landlock that is not in force there is found" says 77 'signals: are not kept inside|Landlock: the memory' \
    submit $ALICE fib 20
  stop_traced
  known=("${known_wsd[@]}")
else
  skip "Landlock that is not in force there" "needs strace, and no sanitizer"
fi

if [ "$(ulimit -H -c)" = unlimited ] && [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" = 0 ]; then
  start '[executor]\nuser-ids = yes\ncore-size = 1M\n'
  check "where cores are allowed, a user's processes do look into his executor" \
    expect_exit 1 closed $ALICE "$(executor_of $ALICE)"
  stop_wsd
fi

start '[executor]\nuser-ids = yes\nfirst-user-id = 1002\n'
check "a user below first-user-id is refused" says 77 'first-user-id' submit $ALICE fib 20
check "one above is not" has "$(executor_of $BOB)" Uid "$BOB $BOB $BOB $BOB"
stop_wsd

start "[limits]\nexecutor-memory = none\n[domain team]\nusers = $ALICE $BOB\nworkers = 3\n[domain guest]\nusers = $CAROL\nexecutor-memory = 64M\nworkers = 1\n"
alices=$(executor_of $ALICE) carols=$(executor_of $CAROL)
check "users of one domain share an executor" expect_output "$alices" executor_of $BOB
check "which is nobody's of them" has "$alices" Uid "0 0 0 0"
cp "$BUILD/tests/support/clients/output-to" "$WORK/inst/"
shared_output() { # it comes by the connection, where that will do
  local status=0
  as $BOB "$WORK/inst/output-to" plain fib "" 20 >"$WORK/open/f" 2>"$WORK/said" || status=$?
  cat "$WORK/said"
  [ $status = 64 ] && grep -q "executors that several users share write to no descriptor" "$WORK/said" && [ ! -s "$WORK/open/f" ] &&
    as $BOB "$WORK/inst/output-to" either fib "" 20 2>&1 >"$WORK/open/f" | grep -x "5 by callback, 0 placed"
}
check "it writes into no descriptor of a user" shared_output
check "a domain of one user is his own" has "$carols" Uid "$CAROL $CAROL $CAROL $CAROL"
workers_of() { # UID
  as "$1" "$CTL" --json workers | grep -c '"kind":"worker"'
}
check "its number of workers" expect_output 1 workers_of $CAROL
check "and that of the other" expect_output 3 workers_of $ALICE
if [ -z "${WSD_SANITIZE:-}" ]; then
  check "its memory limit" says 3 'no more memory after (5[0-9]|6[0-4]) MiB' submit $CAROL hostile:eat
  check "and the key, where a plugin crashes of it" says 70 '\[domain guest\] executor-memory in wsd.conf is 64 MiB' \
    submit $CAROL hostile:burst
fi
stop_wsd

# --- what users of one domain can do to each other ------------------------------------------------------------------------

# alice has a job that runs and a key; bob tries.
nothing_of_hers() { # COMMAND...
  says 66 'no such job' as $BOB "$CTL" "$@" "$hers" && "$WSCTL" --json status "$hers" | grep -q '"running"'
}
lists_none() {
  [ -z "$(as $BOB "$CTL" --json list)" ]
}
key_is_his_own() { # the same one: a job of his, not hers
  local his
  his=$(submit $BOB --detach --key shared fib 20) && [ "$his" != "$hers" ] && expect_output 6765 as $BOB "$CTL" await "$his"
}
cancels_none() { # of all that there are
  as $BOB "$CTL" cancel --state running
  "$WSCTL" --json status "$hers" | grep -q '"running"'
}
crash_of_bobs() { # ends her job, whose end names nothing of his
  says 70 'Segmentation fault' submit $BOB crash:segv && says 125 'a job crashed' as $ALICE "$CTL" await "$hers" &&
    ! grep -q 'crash:segv' "$WORK/err" && "$WSCTL" --json status "$hers" | grep -q '"uid":'$ALICE
}
quarantined() { # by bob, for both; alice releases it
  local i
  for i in 1 2; do says 70 'Segmentation fault' submit $BOB crash:segv || return 1; done
  says 75 'in quarantine' submit $ALICE crash:segv && as $ALICE "$CTL" plugin release crash &&
    says 70 'Segmentation fault' submit $BOB crash:segv
}
between_users() { # NAME CONFIGURATION
  start "$2"
  hers=$(submit $ALICE --detach --key shared spin:spin)
  wait_until at_least_run 1
  check "$1: they share an executor under wsd's user id" has "$(executor_of $BOB)" Uid "0 0 0 0"
  check "$1: that is one" expect_output "$(executor_of $BOB)" executor_of $ALICE
  check "$1: which has no rights to files of users" says 3 'Permission denied' submit $BOB self:get "$WORK/alice/secret"
  check "$1: no file for an argument that he could not open" expect_exit 1 submit $BOB checksum "$WORK/alice/secret"
  check "$1: no state of another's job" nothing_of_hers status
  check "$1: no cancel" nothing_of_hers cancel
  check "$1: no result" nothing_of_hers await
  check "$1: no place behind it" says 66 'there is none, or its end is not known' submit $BOB --after "$hers" fib 20
  check "$1: no list of them" lists_none
  check "$1: no cancel of all" cancels_none
  check "$1: no job by its key" key_is_his_own
  check "$1: no plugin of his own" says 77 'plugins by path' submit $BOB "$PLUGINS/fib.so" 20
  check "$1: no pause" says 77 'administer' as $BOB "$CTL" pause
  check "$1: a crash ends the jobs of all, and says nothing of whose it was" crash_of_bobs
  check "$1: what crashes again and again is in quarantine for all, and each releases it" quarantined
  stop_wsd
}
between_users "trust = all" '[domains]\ntrust = all\n'
between_users "a domain of two" "[domain team]\nusers = $ALICE $BOB\n"

# --- a wsd that is not root's ---------------------------------------------------------------------------------------------

mkdir "$WORK/nobody"
chown 65534:65534 "$WORK/nobody"
chmod 755 "$WORK/nobody"
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
of_nobody() { # CONFIGURATION SPAWNER
  printf '[daemon]\nsystem = yes\n%b' "$1" >"$WSD_CONFIG"
  export WSD_SOCKET=$WORK/nobody/wsd.sock
  WSD_LOG=$WORK/nobody.log
  background "${nobody[@]}" --inh-caps=-all "$WSD" --socket "$WSD_SOCKET" --config "$WSD_CONFIG" --executor "$EXECUTOR" \
    --spawner "$2" --plugin-dir "$PLUGINS" 2>"$WSD_LOG"
  WSD_PID=$BACKGROUND_PID
  wait_until answers "$WSD_PID" "$WSD_SOCKET" || fail "wsd of nobody starts"
  chmod 666 "$WSD_SOCKET"
}
of_nobody '[executor]\nuser-ids = yes\n' "$WORK/nobody/spawn"
check "without the right, user-ids = yes runs no job" says 77 'no right to run jobs under the uid' submit $ALICE fib 20
check "and says what is missing" grep -q 'no wsd-spawn.socket is there to ask' "$WSD_LOG"
stop_wsd
of_nobody '' "$SPAWNER"
check "and auto runs them under wsd's uid" has "$(executor_of $ALICE)" Uid "65534 65534 65534 65534"
stop_wsd

# --- wsd-spawn.service ------------------------------------------------------------------------------------------------------

no_socket() {
  expect_exit 74 "$WSD" --spawn --config "$WSD_CONFIG" --executor "$EXECUTOR" 2>"$WORK/err" && grep 'it is for wsd-spawn.service' "$WORK/err"
}
check "wsd --spawn wants the socket of its unit" no_socket
three=-all,+setuid,+setgid,+kill
background "$SRC/tests/support/boxes/activate.py" "$WORK/nobody/spawn" 65534 "${nobody[@]}" --inh-caps=$three --ambient-caps=$three "$WSD" \
  --spawn --config "$WSD_CONFIG" --executor "$EXECUTOR" --spawner "$SPAWNER" --plugin-dir "$PLUGINS" 2>"$WORK/spawn.log"
unit=$BACKGROUND_PID
check "its socket is there" wait_until test -S "$WORK/nobody/spawn"
not_heard() { # root, whom no mode of the socket keeps out
  python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
s.settimeout(20)
sys.exit(len(s.recv(4096)))' "$WORK/nobody/spawn" && grep 'user 0 is not heard: wsd runs as user 65534' "$WORK/spawn.log"
}
check "who is not wsd's user is not heard" not_heard
of_nobody '[executor]\nuser-ids = yes\n' "$WORK/nobody/spawn"
alices=$(executor_of $ALICE) bobs=$(executor_of $BOB)
check "with it jobs of a wsd without rights run under the user's uid" has "$alices" Uid "$ALICE $ALICE $ALICE $ALICE"
check "each under his own" has "$bobs" Uid "$BOB $BOB $BOB $BOB"
check "without a capability" no_rights "$alices"
check "wsd itself has none" has "$WSD_PID" CapPrm 0000000000000000
helper=$(helper_of "$unit")
its_rights() {
  has "$helper" Uid "65534 65534 65534 65534" && has "$helper" CapPrm 00000000000000e0 &&
    has "$helper" CapAmb 0000000000000000 && has "$helper" NoNewPrivs 1
}
check "wsd-spawn is wsd's user with three capabilities" its_rights
check "and wsd has no other" expect_exit 1 helper_of "$WSD_PID"
check "a job that hangs is ended all the same" expect_exit 124 \
  as $ALICE timeout -s KILL $((30 * TIME_SCALE)) "$CTL" submit --timeout 50ms spin:deaf
asks $BOB "$WORK/bobs.err"
bobs_client=$BACKGROUND_PID
check "bob has work" wait_until at_least_run 1
kill -KILL "$helper"
if expect_exit 125 wait_for_exit "$bobs_client"; then ok "it is killed: executors die with it"; else fail "it is killed" "bob's job is not told of"; fi
check "wsd goes on with the next one" expect_output 6765 submit $ALICE fib 20
check "which is another process" test "$(helper_of "$unit")" != "$helper"
helper=$(helper_of "$unit") alices=$(executor_of $ALICE)
stop_wsd
unit_is_empty() {
  gone "$helper" && gone "$alices"
}
check "wsd ends: so do they" wait_until unit_is_empty
of_nobody '' "$WORK/nobody/spawn"
check "auto finds it" has "$(executor_of $ALICE)" Uid "$ALICE $ALICE $ALICE $ALICE"
helper=$(helper_of "$unit") alices=$(executor_of $ALICE)
disown "$WSD_PID"
kill -KILL "$WSD_PID"
check "wsd is killed: so do they" wait_until unit_is_empty
of_nobody '' "$WORK/nobody/spawn"
alices=$(executor_of $ALICE) helper=$(helper_of "$unit")
kill -TERM "$helper"
check "the service manager ends it by SIGTERM" wait_until unit_is_empty
kill -TERM "$unit"
check "the unit ends" wait_until gone "$unit"
check "wsd goes on, and refuses" says 75 'no executor can be started' submit $ALICE fib 20
stop_wsd
