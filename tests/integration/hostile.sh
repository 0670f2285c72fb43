#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# hostile.sh: a plugin that reaches for its wsd, for another executor, for clients and for what others left behind gets
# nothing of it, and they go on. Without the sandbox each of its tries goes well: that is shown first.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/inject.sh"
. "$(dirname "$0")/../support/users.sh"
install_for_all echo sleep hostile

if [ "$(id -u)" = 0 ]; then own=yes; else own=; fi

executors_of() { # WSD-PID
  pgrep -P "$1"
}
# Somewhere that the process can write to, as hexadecimal digits.
address_in() { # PID
  sed -n 's/^\([0-9a-f]*\)-[0-9a-f]* rw.*/\1/p' "/proc/$1/maps" 2>/dev/null | head -n 1
}
# Every line of the file ends like this, and there are so many.
all_say() { # WORD LINES FILE
  cat "$3"
  [ "$(wc -l <"$3")" = "$2" ] && ! grep -v " $1\$" "$3"
}
# One that strace looks at is stopped for moments (t).
alive() { # PID...
  local pid
  for pid in "$@"; do
    [[ $(sed -n 's/^State:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null) == [RSDt]* ]] || {
      echo "$pid is no more"
      return 1
    }
  done
}

ATTACKS=22 # lines of hostile:attack
OWNERS=5   # lines of hostile:async

attack_is_refused() { # WHO-PID COMMAND...: an attack on that process, by a job that the command submits
  local pid=$1 address
  shift
  address=$(address_in "$pid")
  "$@" hostile:attack "$pid" "${address:-1000}" >"$WORK/attack" || return 1
  all_say refused "$ATTACKS" "$WORK/attack" && "$@" hostile:async "$pid" >"$WORK/async" || return 1
  all_say refused "$OWNERS" "$WORK/async" && alive "$pid"
}

# --- the tries are real ------------------------------------------------------------------------------------------------

# It sleeps: before, the loader may still make read-only what address_in() finds.
is_sleep() { # PID
  [[ $(cat "/proc/$1/stat") == *"(sleep) S "* ]]
}
works_unconfined() {
  local victim
  background sleep 1000
  victim=$BACKGROUND_PID
  wait_until is_sleep "$victim" || return 1
  "$RUN" "$PLUGINS/hostile.so:attack" "$victim" "$(address_in "$victim")" >"$WORK/attack" || return 1
  all_say 'done' "$ATTACKS" "$WORK/attack" && wait_until gone "$victim" || return 1
  background sleep 1000
  wait_until is_sleep "$BACKGROUND_PID" || return 1
  "$RUN" "$PLUGINS/hostile.so:async" "$BACKGROUND_PID" >"$WORK/async" || return 1
  all_say 'done' "$OWNERS" "$WORK/async" && wait_until gone "$BACKGROUND_PID"
}
calls_unconfined() {
  "$RUN" "$PLUGINS/hostile.so:calls" >"$WORK/calls"
  cat "$WORK/calls"
  [ "$(wc -l <"$WORK/calls")" -ge 20 ] && ! grep ' refused$' "$WORK/calls"
}
if [ -n "$own" ]; then
  check "each attack goes well without a sandbox" works_unconfined
  check "each call is open to root without a sandbox" calls_unconfined
else
  skip "each attack goes well without a sandbox" "only root can be sure of it"
fi

# --- a user's own wsd: everything runs as the same user --------------------------------------------------------------------

start_wsd --workers 2 || exit 1
other_wsd=$WSD_PID other_socket=$WSD_SOCKET
wsctl submit fib 5 >/dev/null
other_executor=$(executors_of "$other_wsd")
start_wsd --workers 2 || exit 1
background wsctl submit sleep 600000 >/dev/null # no file, which its executor would have
client=$BACKGROUND_PID
background sleep 1000
stranger=$BACKGROUND_PID
check "a client waits" wait_until sh -c "'$WSCTL' --json list | grep -q '\"running\"'"

check "its wsd is out of reach" attack_is_refused "$WSD_PID" wsctl submit
check "an executor of another wsd is out of reach" attack_is_refused "$other_executor" wsctl submit
check "its client is out of reach" attack_is_refused "$client" wsctl submit
check "any process of the user is out of reach" attack_is_refused "$stranger" wsctl submit
# The leak checker of an executor that was built with AddressSanitizer needs these two.
excepted='^$'
[[ ${WSD_SANITIZE:-} != *address* ]] || excepted='^ptrace |^dumpable '
calls_refused() {
  "$@" hostile:calls | grep -vE "$excepted" >"$WORK/calls" || return 1
  cat "$WORK/calls"
  [ "$(wc -l <"$WORK/calls")" -ge 20 ] && ! grep -v ' refused$' "$WORK/calls"
}
check "calls that are nobody's business are refused" calls_refused wsctl submit

only_these_descriptors() {
  wsctl submit hostile:fds | tee "$WORK/fds" || return 1 # a file would be one of them
  # 0 to 2, the bell, the control socket, what the next wsd waits for, and the sealed copy of each plugin that was loaded
  ! grep -vE '^0 /dev/null$|^[12] |^5 anon_inode:\[eventfd\]$|^6 socket:\[|^8 .*/executors\.lock$|^[0-9]+ /memfd:(fib|sleep|hostile)\.so ' \
    "$WORK/fds" && [ "$(grep -vc memfd "$WORK/fds")" = 6 ]
}
check "an executor has the descriptors that it needs, and no other" only_these_descriptors

before=$(executors_of "$WSD_PID")
scribbled() {
  local status=0
  wsctl submit hostile:scribble || status=$?
  # its control socket took junk: wsd replaces it, unless it was faster
  [ "$status" = 0 ] || [ "$status" = 125 ]
}
check "who writes to every descriptor hurts only himself" scribbled
check "the executor that said nonsense is replaced" wait_until gone "$before"
check "wsd goes on" expect_output 6765 wsctl submit fib 20
lingers() {
  background wsctl submit hostile:linger "$WORK/begin" "$WORK/end"
  wait_until sh -c "'$WSCTL' --json list | grep '\"linger\"' | grep -q '\"running\"'" || return 1
  # so that its own descriptors are closed before wsd looks
  stop_process "$WSD_PID"
  : >"$WORK/begin"
  wait_until test -e "$WORK/end"
  kill -CONT "$WSD_PID"
  wait_until gone "$BACKGROUND_PID" # its executor is replaced for its nonsense
  expect_output 6765 timeout 60 wsctl submit fib 20
}
check "wsd waits for no socket that an executor sent" lingers
descriptors() { # at most N of wsd's
  [ "$(find "/proc/$WSD_PID/fd" -mindepth 1 | wc -l)" -le "$1" ]
}
smuggled() { # COMMAND...: by a job that the command submits; nothing of it stays
  local before
  expect_output 6765 timeout 60 "$@" fib 20 || return 1
  before=$(find "/proc/$WSD_PID/fd" -mindepth 1 | wc -l)
  expect_exit 125 timeout 60 "$@" hostile:smuggle "${LIFE[@]}" && expect_output 6765 timeout 60 "$@" fib 20 &&
    wait_until descriptors "$before"
}
LIFE=()
check "who sends wsd the socket between them is replaced" smuggled wsctl submit
LIFE=(life)
check "also as the life of a reaper, which never ends" smuggled wsctl submit
LIFE=()
client_told() {
  wait_for_exit "$client"
  [ $? = 125 ]
}
if client_told; then ok "its client was told"; else fail "its client was told" "another status than 125"; fi
check "wsd, the other one and the stranger live" alive "$WSD_PID" "$other_wsd" "$other_executor" "$stranger"
check "the other wsd goes on" expect_output 6765 wsctl --socket "$other_socket" submit fib 20
stop_wsd
WSD_PID=$other_wsd WSD_SOCKET=$other_socket WSD_LOG=$WORK/wsd-1/log stop_wsd

# --- older kernels --------------------------------------------------------------------------------------------------------

# The executor asks for Landlock's version by its first call. Version 0 is a kernel without Landlock: there only wsd itself is out of
# reach, since it makes itself so.
attacked_at() { # VERSION
  local wsd
  wsd=$(pgrep -P "$WSD_PID" -x wsd)
  attack_is_refused "$wsd" wsctl submit && calls_refused wsctl submit && WSD_PID=$wsd smuggled wsctl submit
}
if can_inject; then
  for version in 0 2 3 4 5; do
    if [ "$version" = 0 ]; then
      inject landlock_create_ruleset:error=ENOSYS
      excepted='^mknod ' # devices are what Landlock refuses
    else
      inject "landlock_create_ruleset:retval=$version:when=1"
      excepted='^$'
    fi
    start_wsd --workers 2 || exit 1
    check "with Landlock's version $version wsd is out of reach" attacked_at "$version"
    stop_traced
  done
else
  skip "older versions of Landlock" "needs root and strace, and no sanitizer"
fi

# --- a wsd of all users -------------------------------------------------------------------------------------------------

need_users
printf '[daemon]\nsystem = yes\nsocket-group = %s\n' "$(getent group "$GROUP_ID" | cut -d: -f1)" >"$WSD_CONFIG"
start_wsd --workers 2 || exit 1
chmod 755 "$(dirname "$WSD_SOCKET")"

secret=wombat-$RANDOM$RANDOM-$RANDOM
backwards=$(rev <<<"$secret")
# small, so that it lies in the slot's own area; and large, so that it goes by chunks
printf '%s' "$secret" >"$WORK/small"
for ((i = 0; i < 20000; i++)); do printf '%s %d\n' "$secret" "$i"; done >"$WORK/large"
chmod 644 "$WORK/small" "$WORK/large"
as $ALICE "$CTL" submit --input "$WORK/small" echo | cmp - "$WORK/small" || fail "echo small" "another answer"
as $ALICE "$CTL" submit --input "$WORK/large" echo | cmp - "$WORK/large" || fail "echo large" "another answer"
if [ -n "${WSD_SANITIZE:-}" ]; then
  skip "bytes of another user's jobs" "a sanitizer's memory takes hours to look through"
else
  alices=$(as $ALICE "$CTL" submit hostile:whoami)
  check "bytes of her own earlier jobs are where the hunter looks" expect_output found \
    as $ALICE "$CTL" submit hostile:hunt "$backwards"
  check "bytes of another user's jobs are not" expect_output nothing as $BOB "$CTL" submit hostile:hunt "$backwards"
  kill -KILL "$alices"
  check "also not when her executor has died" expect_output nothing as $BOB "$CTL" submit hostile:hunt "$backwards"
fi

background as $ALICE "$CTL" submit sleep 600000
check "alice's client waits" wait_until sh -c "'$WSCTL' --json list | grep -q '\"running\"'"
client=$(pgrep -n -u $ALICE -x wsctl)
alices=$(as $ALICE "$CTL" submit hostile:whoami)
bobs=$(as $BOB "$CTL" submit hostile:whoami)
check "alice and bob have an executor each" test "$alices" != "$bobs"
check "bob's jobs do not reach wsd" attack_is_refused "$WSD_PID" as $BOB "$CTL" submit
check "bob's jobs do not reach alice's executor" attack_is_refused "$alices" as $BOB "$CTL" submit
check "bob's jobs do not reach alice's client" attack_is_refused "$client" as $BOB "$CTL" submit
check "calls that are nobody's business are refused there" calls_refused as $BOB "$CTL" submit
nudges_refused() {
  as $BOB "$CTL" submit hostile:nudge "$WSD_PID" >"$WORK/nudge" || return 1
  all_say refused 4 "$WORK/nudge"
}
check "bob's jobs do not slow wsd" nudges_refused

mkdir "$WORK/open"
: >"$WORK/open/there"
chmod -R 777 "$WORK/open"
files_refused() {
  as $BOB "$CTL" submit hostile:files "$WORK/open" "$WSD_SOCKET" >"$WORK/files" || return 1
  cat "$WORK/files"
  [ "$(grep -c ' refused$' "$WORK/files")" = 8 ] && [ "$(grep -c ' done$' "$WORK/files")" = 3 ] &&
    [ "$(ls "$WORK/open")" = there ]
}
check "jobs write no files, start nothing and do not pose as wsd's user" files_refused
check "alice's job still runs" alive "$client" "$alices"
check "wsd goes on for both" expect_output 6765 as $ALICE "$CTL" submit fib 20
kill "$client"
stop_wsd

# what the administrator opens
printf '[sandbox]\nwritable = %s\n' "$WORK/open" >>"$WSD_CONFIG"
start_wsd --workers 2 || exit 1
chmod 755 "$(dirname "$WSD_SOCKET")"
files_written() {
  as $BOB "$CTL" submit hostile:files "$WORK/open" "$WSD_SOCKET" >"$WORK/files" || return 1
  cat "$WORK/files"
  [ "$(grep ' refused$' "$WORK/files" | tr '\n' ' ')" = "spawn refused connect refused " ] && [ -e "$WORK/open/made" ]
}
check "a directory can be opened for writing" files_written
stop_wsd
