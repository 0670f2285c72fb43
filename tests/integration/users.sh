#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# users.sh: one wsd for several users: files named in arguments are opened with the submitter's rights and from his
# working directory, never with wsd's; a user sees and touches only his own jobs; only the socket's group gets in.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

need_users

private_files() {
  mkdir -p "$WORK/alice/sub dir" "$WORK/bob"
  echo "alice's secret" >"$WORK/alice/secret"
  printf 'more\n' >"$WORK/alice/sub dir/$(printf 'n\303\244me \377')"
  echo "bob's own" >"$WORK/bob/own"
  chown -R $ALICE:$ALICE "$WORK/alice"
  chown -R $BOB:$BOB "$WORK/bob"
  chmod 700 "$WORK/alice" "$WORK/bob"
  echo "root's" >"$WORK/inst/root-only"
  chmod 600 "$WORK/inst/root-only"
}

in_dir() { # DIR UID COMMAND...
  local dir=$1 uid=$2
  shift 2
  # the directory is entered by the user himself
  # shellcheck disable=SC2016
  as "$uid" sh -c 'cd "$1" && shift && exec "$@"' sh "$dir" "$@"
}

same_as_tool() { # UID DIR FILE...: checksum equals sha256sum, output, messages and status
  local uid=$1 dir=$2 a=0 b=0
  shift 2
  in_dir "$dir" "$uid" "$CTL" submit checksum "$@" >"$WORK/a.out" 2>"$WORK/a.err" || a=$?
  in_dir "$dir" "$uid" sha256sum "$@" >"$WORK/b.out" 2>"$WORK/b.err" || b=$?
  cat "$WORK/a.out" "$WORK/a.err" "$WORK/b.err"
  # wsctl adds its own line about the status
  grep -v '^wsctl: ' "$WORK/a.err" | sed 's/^checksum: /sha256sum: /' >"$WORK/a.lines"
  [ "$a" = "$b" ] && cmp "$WORK/a.out" "$WORK/b.out" && cmp "$WORK/a.lines" "$WORK/b.err"
}

denied() { # UID DIR FILE
  same_as_tool "$@" && grep -q 'Permission denied' "$WORK/a.err" && [ ! -s "$WORK/a.out" ]
}

jobs_are_private() {
  local id
  id=$(as $ALICE "$CTL" submit --detach spin:spin) || return 1
  as $ALICE "$CTL" status "$id" || return 1
  [ "$(as $ALICE "$CTL" --json list | wc -l)" = 1 ] || return 1
  [ "$(as $BOB "$CTL" --json list | wc -l)" = 0 ] || return 1
  expect_exit 66 as $BOB "$CTL" status "$id" || return 1
  expect_exit 66 as $BOB "$CTL" cancel "$id" || return 1
  expect_exit 66 as $BOB "$CTL" await "$id" || return 1
  expect_exit 66 as $BOB "$CTL" attach "$id" || return 1
  [ "$(as $BOB "$CTL" --json list --user $ALICE | wc -l)" = 0 ] || return 1
  [ "$(as $BOB "$CTL" --json cancel --user $ALICE)" = '{"cancelled":0}' ] || return 1
  [ "$(as $BOB "$CTL" --json cancel --all)" = '{"cancelled":0}' ] || return 1
  [ "$("$WSCTL" --json list --user $ALICE | wc -l)" = 1 ] || return 1
  [ "$("$WSCTL" --json cancel --user $BOB)" = '{"cancelled":0}' ] || return 1
  wait_until sh -c "'$WSCTL' --json list | grep -q '\"running\"'" || return 1
  as $ALICE "$CTL" cancel "$id" || return 1
  expect_exit 130 as $ALICE "$CTL" await "$id"
}

admin_cancels() { # and the log says who did it
  local id
  id=$(as $ALICE "$CTL" submit --detach spin:spin) && "$WSCTL" cancel "$id" && expect_exit 130 as $ALICE "$CTL" await "$id" ||
    return 1
  grep -q "job $id of user $ALICE: cancelled by user 0" "$WSD_LOG" || return 1
  id=$(as $ALICE "$CTL" submit --detach spin:spin) &&
    [ "$("$WSCTL" --json cancel --user $ALICE)" = '{"cancelled":1}' ] && expect_exit 130 as $ALICE "$CTL" await "$id" &&
    grep -q "1 jobs of other users: cancelled by user 0" "$WSD_LOG"
}

schedules_are_private() { # each user has names of his own, and his runs are his jobs
  local id
  as $ALICE "$CTL" schedule add nightly --on yearly echo:echo alice && as $BOB "$CTL" schedule add nightly --on yearly echo:echo bob || return 1
  [ "$(as $BOB "$CTL" --json schedule list | grep -c "\"uid\":$BOB,")" = 1 ] && [ "$(as $BOB "$CTL" --json schedule list | wc -l)" = 1 ] &&
    [ "$("$WSCTL" --json schedule list | wc -l)" = 2 ] || return 1
  id=$(as $ALICE "$CTL" schedule run nightly) && expect_output alice as $ALICE "$CTL" await "$id" && expect_exit 66 as $BOB "$CTL" await "$id" &&
    id=$(as $BOB "$CTL" schedule run nightly) && expect_output bob as $BOB "$CTL" await "$id" || return 1
  as $BOB "$CTL" schedule remove nightly && expect_exit 66 as $BOB "$CTL" schedule run nightly && expect_exit 66 as $BOB "$CTL" schedule remove nightly &&
    as $ALICE "$CTL" schedule run nightly && as $ALICE "$CTL" schedule remove nightly && [ -z "$("$WSCTL" --json schedule list)" ]
}

several_users() { # WHO
  check "$1: relative paths in a private directory" same_as_tool $ALICE "$WORK/alice" secret
  check "$1: names with spaces and odd bytes" same_as_tool $ALICE "$WORK/alice" "sub dir/$(printf 'n\303\244me \377')"
  check "$1: many files in one job" same_as_tool $ALICE "$WORK/alice" secret secret /etc/passwd /etc/group secret
  check "$1: another user's client fails as in his shell" denied $BOB "$WORK/bob" "$WORK/alice/secret"
  check "$1: and by a relative path" denied $BOB "$WORK/bob" ../alice/secret
  check "$1: root's files are nobody else's" denied $ALICE "$WORK/alice" "$WORK/inst/root-only"
  check "$1: root's own jobs open what root may" expect_output "$(sha256sum "$WORK/alice/secret")" \
    "$WSCTL" submit checksum "$WORK/alice/secret"
  check "$1: /etc/shadow" denied $BOB "$WORK/bob" /etc/shadow
  check "$1: a file that is not there" same_as_tool $BOB "$WORK/bob" secret
  check "$1: a directory" same_as_tool $BOB "$WORK/bob" .
  check "$1: each has an executor of his own" sh -c \
    "[ \"\$('$WSCTL' --json stats | grep -o '\"executors\":[0-9]*' | grep -o '[0-9]*')\" -ge 2 ]"
  check "$1: plugins by path are refused" expect_exit 77 in_dir "$WORK/bob" $BOB "$CTL" submit "$WORK/inst/plugins/../plugins/fib.so" 5
  check "$1: jobs of others can be neither seen nor touched" jobs_are_private
  check "$1: and so with schedules" schedules_are_private
  check "root cancels jobs of others, and that is logged" admin_cancels
  check "$1: exec would need the user's own rights" expect_exit 77 as $ALICE "$CTL" submit exec true
}

install_for_all echo spin
private_files
printf '[daemon]\nsystem = yes\nsocket-group = %s\n' "$(getent group $GROUP_ID | cut -d: -f1)" >"$WSD_CONFIG"
chmod 644 "$WSD_CONFIG"

start_wsd || exit 1
chmod 755 "$(dirname "$WSD_SOCKET")"
several_users "wsd of root"
GROUP_ID=101
check "who is not in the socket's group does not get in, and is told why" refused 77 'Permission denied: the group of this socket' as $ALICE "$CTL" ping
GROUP_ID=100
stop_wsd

printf '[daemon]\nsystem = yes\n[domains]\ntrust = all\n' >"$WSD_CONFIG"
mkdir "$WORK/nobody"
chown 65534:100 "$WORK/nobody"
chmod 755 "$WORK/nobody"
export WSD_SOCKET=$WORK/nobody/wsd.sock
# a wsd with no rights of its own; its primary group is the socket's
background setpriv --reuid=65534 --regid=100 --clear-groups --inh-caps=-all "$WSD" --socket "$WSD_SOCKET" \
  --config "$WSD_CONFIG" --executor "$EXECUTOR" --plugin-dir "$PLUGINS"
check "wsd of nobody starts" wait_until "$WSCTL" ping
check "wsd of nobody: relative paths in a private directory" same_as_tool $ALICE "$WORK/alice" secret
check "wsd of nobody: another user's client fails as in his shell" denied $BOB "$WORK/bob" "$WORK/alice/secret"
check "wsd of nobody: all users share one executor" sh -c \
  "'$WSCTL' --json stats | grep -q '\"executors\":1\b'"
kill -TERM "$BACKGROUND_PID"
check "wsd of nobody ends" wait_for_exit "$BACKGROUND_PID"

printf '' >"$WSD_CONFIG"
start_wsd --plugin-dir "$TEST_PLUGINS" || exit 1
chmod 755 "$(dirname "$WSD_SOCKET")"
chmod 666 "$WSD_SOCKET"
check "a user's own wsd serves nobody else, whatever the socket's mode" expect_exit 77 as $ALICE "$CTL" submit fib 5
stop_wsd
