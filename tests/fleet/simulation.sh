#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# simulation.sh: what has to hold in the model of a fleet (tests/simulation). With WSD_THOROUGH also the plot of the guide,
# and two real nodes against one, beside the same in the model.
. "$(dirname "$0")/../support/lib.sh"

SIMULATION=$SRC/tests/simulation
"$SIMULATION/check" >"$WORK/results" 2>"$WORK/errors"
status=$?
cat "$WORK/results"
[ "$status" = 0 ] || fail "the model" "$(tail -1 "$WORK/errors")"
check "an unknown option" expect_exit 64 "$SIMULATION/figures" --no-such
[ -n "${WSD_THOROUGH:-}" ] || exit 0
check "the plot is of the model" "$SIMULATION/figures" --check "$SRC/packaging/doc/fleet.svg"

# Both nodes, the sender and the server share the CPUs of this machine, so a second node changes little, and other programs
# change much. A factor of two apart is a model that is wrong: one of a machine for each node has a ratio of two.
. "$(dirname "$0")/../support/fleet.sh"
JOBS=20000
NATS_URL=nats://127.0.0.1:$(free_port)
start_nats one && "$FLEET" -n "$NATS_URL" --init >"$WORK/made" && start_node here --no-in && start_node a --no-out || exit 1
# Microseconds that JOBS jobs take.
takes() {
  local begin=${EPOCHREALTIME/./}
  seq "$JOBS" | on here wsctl map --jobs 300 @fleet/echo:echo | wc -l >"$WORK/lines" || return 1
  same "$JOBS" "$(cat "$WORK/lines")" >&2 && echo $((${EPOCHREALTIME/./} - begin))
}
compared() {
  local one two model
  takes >"$WORK/warm" && one=$(takes) && start_node b --no-out && takes >"$WORK/warm" && two=$(takes) && model=$("$SIMULATION/check" --ratio) || return 1
  echo "two nodes against one: real $one us / $two us, model $model"
  awk -v real="$one/$two" -v model="$model" 'BEGIN { split(real, r, "/"); q = r[1] / r[2] / model; exit !(q > 0.5 && q < 2) }'
}
check "two real nodes against one, as in the model" compared
check "they leave in order" end_fleet
