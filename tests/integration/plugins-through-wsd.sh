#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# plugins-through-wsd.sh: the scripts of plugins/ again, this time as people call them: `wsctl submit` to a daemon, and
# `wsctl submit --local`. Plugins go by name, so that looking them up is part of it.
. "$(dirname "$0")/../support/lib.sh"

one() { # WAY SCRIPT
  local status=0 name
  name=${2##*/}
  # shellcheck disable=SC2030 # for that script alone
  (
    unset PLUGINS
    export RUN
    case $1 in
    daemon) RUN="$WORK/bin/wsctl submit" ;;
    local) RUN="$WORK/bin/wsctl submit --local --plugin-dir $PLUGIN_LINK" ;;
    esac
    "$2"
  ) >"$WORK/said" 2>&1 || status=$?
  # each line under a name that tells the way
  sed -E "s/^(ok|FAIL|skip) /\1 $1 ${name%.sh} /" "$WORK/said"
  n_failed=$((n_failed + $(grep -c '^FAIL ' "$WORK/said")))
  if [ "$status" != 0 ] && ! grep -q '^FAIL ' "$WORK/said"; then
    fail "$1 $name" "exit status $status"
  fi
}

PLUGIN_LINK=$WORK/plugins
ln -s "$PLUGINS" "$PLUGIN_LINK"
printf '[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"
# readable for nobody, too: some scripts try what another user may
chmod 755 "$WORK"
start_wsd --workers 2 || exit
for script in "$SRC"/tests/integration/plugins/*.sh; do
  [ ! -x "$script" ] || one daemon "$script"
done
stop_wsd
