#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench.sh: `wsctl bench`: that it counts what it has run, keeps so many in flight, and ends when it should. What it
# measures is nobody's promise. And the report of tests/bench/run, of samples by hand.
. "$(dirname "$0")/../support/lib.sh"

check "no daemon: 69" expect_exit 69 wsctl --socket "$WORK/nobody.sock" bench
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1

counts() {
  local before after
  before=$(counter jobs_succeeded) && wsctl --json bench -n 203 -c 3 -f 4 >"$WORK/out" && after=$(counter jobs_succeeded) || return 1
  cat "$WORK/out"
  [ $((after - before)) = 206 ] && python3 - "$WORK/out" <<'END'
import json, sys
(b,) = [json.loads(line) for line in open(sys.argv[1])]
assert (b['function'], b['connections'], b['in_flight'], b['size'], b['jobs']) == ('fib:nothing', 3, 4, 0, 203)
assert 0 < b['p50_usec'] <= b['p99_usec'] <= b['max_usec'] <= b['usec']
assert abs(b['jobs_per_second'] - b['jobs'] * 1e6 / b['usec']) < 0.01
END
}
check "--count: as many jobs as it says, and they add up" counts

words() {
  wsctl bench --count 10 --size 70000 upper >"$WORK/out" && cat "$WORK/out" &&
    grep -q '^upper: 1 connection, 1 in flight on each, 70000 bytes of input$' "$WORK/out" &&
    grep -q '^10 jobs in .*: [0-9]* jobs/s$' "$WORK/out" && grep -q '^latency: p50 .*, p99 .*, max ' "$WORK/out" &&
    [ "$(sed -n 's/^  from  *[0-9.]* [mu]*s .* \([0-9]*\)$/\1/p' "$WORK/out" | paste -sd + | bc)" = 10 ]
}
check "in words, with input" words
words_of_one() {
  wsctl bench --count 1 --size 1 upper >"$WORK/out" && cat "$WORK/out" &&
    grep -q '1 in flight on each, 1 byte of input$' "$WORK/out" && grep -q '^1 job in ' "$WORK/out"
}
check "one job is one job" words_of_one

in_flight() {
  local most=0 n
  background wsctl --json bench --seconds 1h --connections 2 --in-flight 3 sleep:sleep 20 >"$WORK/out"
  wait_until counter_is jobs_open 6 || return 1
  for _ in $(seq 20); do
    n=$(counter jobs_open)
    [ "$n" -le "$most" ] || most=$n
  done
  kill -TERM "$BACKGROUND_PID" && wait "$BACKGROUND_PID" && echo "at most $most" && [ "$most" -le 6 ] && cat "$WORK/out" &&
    grep -q '"jobs":[1-9]' "$WORK/out" && counter_is jobs_open 0
}
check "so many in flight and no more; a signal ends it, and it still says" in_flight

check "--seconds ends it" sh -c 'wsctl bench --seconds 100ms | grep -q jobs/s'
check "a failing function's status" expect_exit 2 wsctl bench fib 94
check "no such plugin: 66" expect_exit 66 wsctl bench no-such-plugin
for wrong in "-n 0" "-c 0" "-f x" "--size -1" "-s soon" "fib:"; do
  # shellcheck disable=SC2086
  check "bench $wrong: 64" expect_exit 64 wsctl bench $wrong
done
stop_wsd

# --- tests/bench/run ----------------------------------------------------------------------------------------------------

report() { # SUBMIT-USEC...: of so many runs, beside a command that does nothing
  for usec; do printf 'shell wsd what=submit us %s\nshell wsd what=nothing us 100\n' "$usec"; done >"$WORK/samples"
  awk -v json="$WORK/report.json" -v check=1 -f "$SRC/tests/bench/report.awk" "$WORK/samples" >"$WORK/out"
}
medians() {
  report 300 100 200 && cat "$WORK/out" &&
    grep -Eq '^shell +wsd +what=submit +200\.000 us +100\.000 \.\. 300\.000$' "$WORK/out" &&
    [ "$(grep -c ' met$' "$WORK/out")" = 2 ] &&
    [ "$(head -n 1 "$WORK/report.json")" = '{"bench":"shell","impl":"wsd","params":{"what":"submit"},"metric":"us","value":200,"runs":[300,100,200],"better":"lower"}' ]
}
check "a report has the medians, as a table and as JSON, and the marks" medians
missed() {
  expect_exit 1 report 300 290 280 && cat "$WORK/out" &&
    grep -Eq '^wsctl submit / fork and exec of nothing +2\.900  at most 2\.500 +MISSED$' "$WORK/out"
}
check "--check: a mark that is missed is exit status 1" missed
