#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# wire.sh: clients that break the rules of the wire cost themselves only.
. "$(dirname "$0")/../support/lib.sh"

busy_client() { # longer than frame-timeout, with half a frame at the end of most reads
  "$BUILD/tests/support/clients/load" -p 1 -w 64 -b 40000 -n $((60000 / TIME_SCALE)) echo
}

cut_at_every_byte() {
  local frame=$WORK/frame n
  # HELLO and SUBMIT of a real client, as they go over the wire
  "$BUILD/tests/support/clients/capture" >"$frame" || return 1
  for ((n = 1; n < $(wc -c <"$frame"); n += 1)); do
    head -c "$n" "$frame" | "$BUILD/tests/support/clients/capture" "$WSD_SOCKET" || return 1
  done
  wsctl ping && wait_until sh -c "wsctl --json stats | grep -q '\"jobs_open\":0'"
}

printf '[limits]\nframe-timeout = %ss\n' "$TIME_SCALE" >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
"$BUILD/tests/support/clients/wire" || n_failed=$((n_failed + 1))
check "a busy client is not taken for a slow one" busy_client
check "connections that vanish at every byte of a frame" cut_at_every_byte
stop_wsd
