#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# traceparent.sh: the trace that a job belongs to, from the submitter to the job's function, over queues, disk and tries.
. "$(dirname "$0")/../support/lib.sh"

TRACE=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
OTHER=00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00
LOOK=$SRC/tests/support/clients/trace.py

cd "$WORK" || exit 1

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" --state-dir "$WORK/state" || exit 1
check "a job without one has none" expect_output none wsctl submit runnable:trace
check "--traceparent comes to the function" expect_output "$TRACE" wsctl submit --traceparent "$TRACE" runnable:trace
check "as does TRACEPARENT" expect_output "$TRACE" env TRACEPARENT="$TRACE" wsctl submit runnable:trace
check "the option comes first" expect_output "$OTHER" env TRACEPARENT="$TRACE" wsctl submit --traceparent "$OTHER" runnable:trace
check "an empty TRACEPARENT is none" expect_output none env TRACEPARENT= wsctl submit runnable:trace
for wrong in '' "${TRACE%1}" "${TRACE}0" "01${TRACE#00}" "${TRACE/0af/0AF}" "${TRACE%01}0g" \
  00-00000000000000000000000000000000-b7ad6b7169203331-01 00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01; do
  check "'$wrong' is none: 64" refused 64 "not a traceparent" wsctl submit --traceparent "$wrong" runnable:trace
done
check "likewise in the environment, with what to do" refused 64 "unset it" env TRACEPARENT=nonsense wsctl submit runnable:trace
check "and for a map" refused 64 "unset it" env TRACEPARENT=nonsense wsctl map runnable:trace ::: a

check "with --local, too" expect_output "$TRACE" wsctl submit --local --plugin-dir "$TEST_PLUGINS" --traceparent "$TRACE" runnable:trace
check "and from the environment" expect_output "$TRACE" env TRACEPARENT="$TRACE" wsctl submit --local --plugin-dir "$TEST_PLUGINS" runnable:trace
check "or none" expect_output none wsctl submit --local --plugin-dir "$TEST_PLUGINS" runnable:trace
check "a wrong one is refused there as well" refused 64 "unset it" env TRACEPARENT=nonsense wsctl submit --local fib 1

each() {
  wsctl map "$@" runnable:trace {} ::: a b c >"$WORK/out" && [ "$(sort -u "$WORK/out")" = "$TRACE" ] && [ "$(wc -l <"$WORK/out")" = 3 ]
}
check "each job of a map" each --traceparent "$TRACE"
check "also as jobs by themselves" each --traceparent "$TRACE" --durable
cat >"$WORK/graph.json" <<EOF
{"nodes": [{"name": "a", "plugin": "runnable:trace"},
  {"name": "b", "plugin": "runnable:trace", "after": ["a"], "traceparent": "$OTHER"}]}
EOF
graph() {
  TRACEPARENT=$TRACE wsctl run "$WORK/graph.json" >"$WORK/out" && grep -q "$TRACE" "$WORK/out" && grep -q "$OTHER" "$WORK/out"
}
check "the nodes of a graph" graph
after() {
  local first
  first=$(wsctl submit -d sleep 50) && expect_output "$TRACE" wsctl submit --traceparent "$TRACE" --after "$first" runnable:trace
}
check "a job after another" after
check "one that waits for its time" expect_output "$TRACE" wsctl submit --traceparent "$TRACE" --delay 20ms runnable:trace
with_input() {
  echo x | wsctl submit --traceparent "$TRACE" -i - runnable:trace | grep -qx "$TRACE"
}
check "with input that comes later" with_input
long_arguments() { # BYTES
  expect_output "$TRACE" wsctl submit --traceparent "$TRACE" runnable:trace "$(head -c "$1" /dev/zero | tr '\0' x)"
}
for size in 60 130 3000 40000; do
  check "with $size bytes of arguments" long_arguments "$size"
done
check "a durable job" expect_output "$TRACE" wsctl submit --traceparent "$TRACE" --durable runnable:trace
job=$(wsctl submit -d --durable --delay 1s --traceparent "$TRACE" runnable:trace)
runs_of() { # NAME: the output of a run
  wsctl schedule run "$1" >"$WORK/id" && expect_output "$2" wsctl await "$(cat "$WORK/id")"
}
adds() { # NAME [OPTION...]
  local name=$1
  shift
  wsctl schedule add "$name" --on yearly "$@" runnable:trace
}
check "a schedule has one" adds traced --traceparent "$TRACE"
check "so has a durable one" adds durable --durable --traceparent "$OTHER"
check "the environment is not asked: the schedule outlives what it says" env TRACEPARENT="$OTHER" wsctl schedule add none --on yearly runnable:trace
check "each run gets it" runs_of traced "$TRACE"
check "the same in the next one" runs_of traced "$TRACE"
check "of a durable one, too" runs_of durable "$OTHER"
check "and none without" runs_of none none
check "a wrong one is refused: 64" refused 64 "not a traceparent" adds wrong --traceparent nonsense
stop_wsd
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" --state-dir "$WORK/state" || exit 1
check "each run in the next wsd gets it" runs_of traced "$TRACE"
check "also of the durable one" runs_of durable "$OTHER"
check "and none without, still" runs_of none none
check "one that the next wsd runs" expect_output "$TRACE" wsctl await "$job"

check "spans belong to it" wsctl submit --traceparent "$TRACE" --trace "$WORK/t.json" --otlp "$WORK/t.otlp" fib 20
check "as OTLP says" python3 "$LOOK" --otlp "$WORK/t.otlp" "$TRACE"
check "and the trace" grep -q "\"traceparent\":\"$TRACE\"" "$WORK/t.json"
each_size() { # what has no room beside it in the ring goes by memory of its own
  local size
  for ((size = 1048576 - 140; size <= 1048576; size += 4)); do
    [ "$(head -c "$size" /dev/zero | tr '\0' x | timeout $((20 * TIME_SCALE)) wsctl submit --traceparent "$TRACE" --input - upper | wc -c)" = "$size" ] || {
      echo "with $size bytes of input"
      return 1
    }
  done
}
check "it goes with each size of input" each_size
stop_wsd
