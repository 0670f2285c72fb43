# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# users.sh: what scripts that act as several users share. Sourced after lib.sh, by root.

# shellcheck disable=SC2034 # scripts read them
ALICE=1001 BOB=1002
GROUP_ID=100 # users: a supplementary group of both
# shellcheck disable=SC2034
CTL=$WORK/inst/wsctl

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

as() { # UID COMMAND...
  local uid=$1
  shift
  setpriv --reuid="$uid" --regid="$uid" --groups="$GROUP_ID" --inh-caps=-all -- env \
    LD_LIBRARY_PATH="$WORK/inst" WSD_SOCKET="$WSD_SOCKET" TMPDIR="$WORK/tmp" "$@"
}
