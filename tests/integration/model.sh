#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# model.sh: random operations on a real wsd against a model of the states of a job (support/clients/model.c). WSD_SEED repeats a row as far
# as timing lets it; with WSD_THOROUGH=1 it is 100,000 steps.
. "$(dirname "$0")/../support/lib.sh"

STEPS=${WSD_STEPS:-600}
[ -z "${WSD_THOROUGH:-}" ] || STEPS=100000
SEED=${WSD_SEED:-$((RANDOM * 32768 + RANDOM))}

agrees() {
  mkdir -p "$WORK/told" && printf '[plugin puppet]\nisolation = own\n[limits]\nquarantine-after = 1000000\ncancel-grace = 30s\n' >"$WSD_CONFIG"
  export WSD_SOCKET=$WORK/wsd.sock
  background "$BUILD/tests/support/clients/model" "$STEPS" "$SEED" "$WORK/told" "$WSD" --socket "$WSD_SOCKET" --config "$WSD_CONFIG" \
    --executor "$EXECUTOR" --plugin-dir "$TEST_PLUGINS" --workers 3 --state-dir "$WORK/store" --log-level warning 2>"$WORK/log"
  wait "$BACKGROUND_PID"
  local status=$?
  echo "seed $SEED"
  grep '^model:' "$WORK/log"
  [ "$status" = 0 ] || tail -n 20 "$WORK/log"
  return $status
}
check "every state is the model's, for $STEPS steps" agrees
clean_log "$WORK/log"
