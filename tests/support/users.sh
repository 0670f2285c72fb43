# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# users.sh: what scripts that act as several users share. Sourced after lib.sh, by root.

# shellcheck disable=SC2034 # scripts read them
ALICE=1001 BOB=1002
GROUP_ID=100 # users: a supplementary group of both
# shellcheck disable=SC2034
CTL=$WORK/inst/wsctl

# Ends the script, with a skip, where it cannot act as several users.
need_users() {
  [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null || return 0
  skip "several users" "needs root and setpriv"
  exit 0
}

# What other users may run and read, wherever the repository lies.
install_for_all() { # TEST-PLUGIN...
  local name
  mkdir -p "$WORK/inst/plugins"
  cp "$WSD" "$EXECUTOR" "$SPAWNER" "$WSCTL" "$BUILD"/client/libwsclient.so.0 "$WORK/inst/"
  cp "$PLUGINS"/*.so "$WORK/inst/plugins/"
  for name in "$@"; do cp "$TEST_PLUGINS/$name.so" "$WORK/inst/plugins/"; done
  chmod -R go-w "$WORK/inst"
  chmod 755 "$WORK" "$WORK/inst" "$WORK/inst/plugins"
  chmod 1777 "$WORK/tmp"
  WSD=$WORK/inst/wsd EXECUTOR=$WORK/inst/wsd-executor SPAWNER=$WORK/inst/wsd-spawn PLUGINS=$WORK/inst/plugins
}

# Who the users are, for what runs behind "${known[@]}": files of our own in the place of the machine's, with alice, bob,
# and others. Alice is in the groups sudo and team. Where that cannot be, known is empty.
know_users() { # [NAME:UID...]
  local one
  grep -vE "^(alice|bob|carol|mallory|wsd-fleet):|:($ALICE|$BOB|1003):" /etc/passwd >"$WORK/passwd"
  grep -vE "^(alice|bob|team|wsd-fleet):" /etc/group | sed '/^sudo:/s/$/,alice/; s/:,/:/' >"$WORK/group"
  for one in "alice:$ALICE" "bob:$BOB" "$@"; do
    printf '%s:x:%s:%s::/:/bin/sh\n' "${one%:*}" "${one#*:}" "${one#*:}" >>"$WORK/passwd"
    printf '%s:x:%s:\n' "${one%:*}" "${one#*:}" >>"$WORK/group"
  done
  printf 'team:x:2001:alice\n' >>"$WORK/group"
  chmod 644 "$WORK/passwd" "$WORK/group"
  known=(unshare --mount sh -c 'mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/group" /etc/group && exec "$@"' "$WORK")
  "${known[@]}" true 2>/dev/null || known=()
}

as() { # UID COMMAND...
  local uid=$1
  shift
  setpriv --reuid="$uid" --regid="$uid" --groups="$GROUP_ID" --inh-caps=-all -- env \
    LD_LIBRARY_PATH="$WORK/inst" WSD_SOCKET="$WSD_SOCKET" TMPDIR="$WORK/tmp" "$@"
}
