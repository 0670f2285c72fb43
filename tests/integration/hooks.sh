#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# hooks.sh: a plugin's worker_start and worker_stop: before its first task on a worker, and at the orderly end of the
# worker's thread.
. "$(dirname "$0")/../support/lib.sh"

FILE=$WORK/tmp/stopped

no_strangers() { # COMMAND...
  "$@" >"$WORK/said" && cat "$WORK/said" && grep -q '^0 strangers, started [1-9]' "$WORK/said"
}

# Runs jobs until so many workers were started; which of them come is chance. Where joins have to wait, spare ones do too.
all_started() { # N
  for _ in $(seq 300); do
    no_strangers wsctl submit hooks "$FILE" >/dev/null || return 1
    [[ $(cat "$WORK/said") =~ started\ ([0-9]+),\ stopped\ 0,\ process\ ([0-9]+) ]] || break
    n_started=${BASH_REMATCH[1]} executor=${BASH_REMATCH[2]}
    [ "$n_started" -lt "$1" ] || return 0
  done
  cat "$WORK/said"
  return 1
}

# Each that was started, once. That as many stop as start the plugin sees to itself, at its end. An executor before that one may
# have been idle for too long, on a slow machine, and have left its lines.
stopped() {
  [ "$(grep -c " of $executor\$" "$FILE")" -ge "$n_started" ] && [ "$(wc -l <"$FILE")" = "$(sort -u "$FILE" | wc -l)" ]
}

check "--local: started before its tasks" no_strangers wsctl submit --local --workers 3 "$TEST_PLUGINS/hooks.so" "$FILE"
check "--local: and stopped at the end" test -s "$FILE"
rm -f "$FILE"

printf '[limits]\nexecutor-idle = 200ms\n' >"$WSD_CONFIG"
start_wsd --workers 4 --plugin-dir "$TEST_PLUGINS" || exit 1
check "started before its tasks, on each worker once" all_started 4
check "an executor that is idle ends: each is stopped once" wait_until stopped
stop_wsd

rm -f "$FILE"
: >"$WSD_CONFIG"
start_wsd --workers 4 --plugin-dir "$TEST_PLUGINS" || exit 1
check "again" all_started 4
check "fewer" wsctl -q workers set 1
check "those that are not wanted stay started" no_strangers wsctl submit hooks "$FILE"
check "more again" wsctl -q workers set 6
check "new ones are started, the others not again" all_started 6
check "the job's own end is orderly" expect_output 6765 wsctl submit fib 20
stop_wsd
check "and so is wsd's: each is stopped once" stopped
