#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# chaos.sh: clients that do anything that is allowed in any order, executors that are killed or that lie: wsd stays, each
# request is answered once, and when all have gone nothing is left of them: no job, no byte, no descriptor.
. "$(dirname "$0")/../support/lib.sh"

CHAOS=$BUILD/tests/support/clients/chaos
LIAR=$BUILD/tests/support/shims/liar
SECONDS_EACH=6
[ -z "${WSD_THOROUGH:-}" ] || SECONDS_EACH=60
HONEST=(echo echo:echo=hello echo:stream echo:status=3 bigoutput=300000 bigoutput=6000000 bigoutput:written=100000
  sleep:sleep=50 sleep:again=50 spin:spin spin:again crash:segv crash:exit fib=15 echo:cat=/etc/hostname nothing)

as_before() {
  holds_nothing traces && [ "$(counter executors)" = 0 ] && [ "$(n_descriptors)" -le "$before" ]
}

# Detached jobs go on without their clients, some for ever.
cancel_all() {
  wsctl --json list | grep -v '"cancelled"\|"succeeded"\|"failed"' | grep -o '"id":"[0-9a-f]*"' | cut -d '"' -f 4 |
    xargs -r -n 200 wsctl cancel
}

nothing_is_left() {
  cancel_all >"$WORK/cancelled" 2>&1
  wait_until as_before && return 0
  wsctl --json stats
  echo "descriptors: $before before, $(n_descriptors) now"
  ls -l /proc/"$WSD_PID"/fd
  return 1
}

# Kills executors now and then while the command runs.
while_executors_die() { # COMMAND...
  local command
  "$@" &
  command=$!
  note_started "$command"
  while ! gone "$command"; do
    sleep 0.3
    pkill -KILL -P "$WSD_PID"
  done
  wait "$command"
}

reload_and_run() { # COMMAND...
  local command
  "$@" &
  command=$!
  note_started "$command"
  while ! gone "$command"; do
    sleep 0.05
    kill -HUP "$WSD_PID"
  done
  wait "$command"
}

printf '[limits]\nexecutor-idle = 300ms\ncancel-grace = 200ms\nkeep-results = 700ms\nmax-result = 2M\nmax-bytes-per-user = 40M\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
wsctl plugin list >/dev/null # its watch stays open
before=$(n_descriptors)
check "anything in any order" "$CHAOS" -s "$SECONDS_EACH" -r $((RANDOM + 1)) "${HONEST[@]}"
check "and nothing is left of it" nothing_is_left
check "while executors are killed" while_executors_die "$CHAOS" -s "$SECONDS_EACH" -r $((RANDOM + 1)) "${HONEST[@]}"
check "and nothing is left of that" nothing_is_left
check "while the configuration is read again and again" reload_and_run "$CHAOS" -s 3 -r $((RANDOM + 1)) "${HONEST[@]}"
check "and nothing is left of that either" nothing_is_left
stop_wsd

EXECUTOR=$LIAR
start_wsd --workers 2 || exit 1
wsctl plugin list >/dev/null # its watch stays open
before=$(n_descriptors)
check "an executor that scribbles and lies at random" "$CHAOS" -s "$SECONDS_EACH" -r $((RANDOM + 1)) random random honest
check "and nothing is left" nothing_is_left
stop_wsd
