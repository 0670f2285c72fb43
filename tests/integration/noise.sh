#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# noise.sh: clients that send random bytes and damaged frames, in pieces, and vanish anywhere (support/clients/chaos-noise.c): each costs
# itself only. Others are answered right meanwhile, and nothing is left of it.
. "$(dirname "$0")/../support/lib.sh"

SECONDS_EACH=6
[ -z "${WSD_THOROUGH:-}" ] || SECONDS_EACH=600
SECONDS_EACH=${WSD_SECONDS:-$SECONDS_EACH}

all_is_gone() {
  wsctl --json list | grep -E '"(held|queued|running)"' | grep -o '"id":"[0-9a-f]*"' | cut -d '"' -f 4 |
    xargs -r -n 200 wsctl cancel
  # one that somebody wanted kept beyond his connection
  wsctl trace --stop -q -o "$WORK/kept.json" 2>/dev/null
  holds_nothing traces executors || return 1
  [ "$(n_descriptors)" -le "$before" ] || {
    echo "$before descriptors before, $(n_descriptors) now"
    return 1
  }
}

no_executors() {
  [ "$(counter executors)" = 0 ]
}

nothing_is_left() {
  wait_until all_is_gone || {
    all_is_gone
    return 1
  }
}

noise() {
  "$BUILD/tests/support/clients/chaos" -n -s "$SECONDS_EACH" -c 12 -r "${WSD_SEED:-$((RANDOM + 1))}"
}

innocent_clients() {
  while ! gone "$noisy"; do
    "$BUILD/tests/support/clients/load" -p 2 -n 400 -w 8 -b 500 echo >"$WORK/load.out" 2>&1 || {
      cat "$WORK/load.out"
      return 1
    }
  done
  cat "$WORK/load.out"
}

everybody() {
  local innocent=0 noise=0 noisy
  noise &
  noisy=$!
  note_started "$noisy"
  innocent_clients || innocent=$?
  wait "$noisy" || noise=$?
  [ "$innocent $noise" = "0 0" ]
}

printf '[limits]\nexecutor-idle = 300ms\ncancel-grace = 200ms\nkeep-results = 500ms\nframe-timeout = %ss\n' "$TIME_SCALE" >"$WSD_CONFIG"
mkdir "$WORK/plugins"
cp "$TEST_PLUGINS/echo.so" "$WORK/plugins"
start_wsd --workers 2 --plugin-dir "$WORK/plugins" || exit 1
wsctl submit --durable echo first >/dev/null || fail "a durable job" "it did not go well" # its files are open from then on
wait_until no_executors
wsctl plugin list >/dev/null # its watch stays open
before=$(n_descriptors)
check "noise costs who makes it, others are answered right" everybody
show "$WORK/check.out" 3
check "nothing is left of it" nothing_is_left
stop_wsd
