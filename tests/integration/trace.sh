#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# trace.sh: `wsctl trace` and `wsctl submit --trace`: what is in the file, when it begins and ends, who may, and executors
# that die or lie meanwhile.
. "$(dirname "$0")/../support/lib.sh"

LIAR=$BUILD/tests/support/shims/liar
FILE=$WORK/trace.json

LOOK=$SRC/tests/support/clients/trace.py

look() { # [WANTED...]
  python3 "$LOOK" "$FILE" "$@"
}

# Which worker does what is chance: until there is a steal.
until_stolen() {
  for _ in $(seq 100); do
    wsctl trace --start || return 1
    wsctl submit fib 30 >/dev/null && wsctl submit fib 30 >/dev/null || return 1
    wsctl trace --stop -q -o "$FILE" && look fib || return 1
    look fib steals 2>/dev/null && return 0
  done
  return 1
}

json() {
  python3 -m json.tool "$FILE" /dev/null
}

traces() { # N: so many are under way
  [[ $(wsctl --json stats) == *'"traces":'"$1",* ]]
}

cd "$WORK" || exit 1
check "--start and --stop: 64" refused 64 "exclude each other" wsctl trace --start --stop
check "--start with --output: 64" refused 64 "exclude each other" wsctl trace --start --output x
check "no duration: 64" refused 64 "not a duration" wsctl trace --seconds soon
check "an argument: 64" refused 64 "takes options only" wsctl trace now

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "--stop without --start: 66" refused 66 "no trace is under way" wsctl trace --stop
check "and no file is left" test ! -e wsd-trace.json
check "no executor: a trace without events" wsctl trace --seconds 10ms
check "which is one, under its own name" sh -c "mv wsd-trace.json '$FILE'"
check "and sane" look none
check "fib 30 on two workers shows jobs and stolen tasks" until_stolen
check "with arrows from wsd to a worker and back" look fib steals ways
check "what was before and after it is not in it" sh -c 'wsctl trace --start && wsctl trace --stop -q -o "'"$FILE"'"'
check "no job" look none
check "--start" wsctl trace --start
check "a second one: 75" refused 75 "under way already" wsctl trace --start
check "also for a while: 75" refused 75 "under way already" wsctl trace --seconds 10ms
check "the file of a trace that is refused is as before" test -s "$FILE"
check "a job" expect_output 6765 wsctl submit fib 20
check "an output that cannot be written: 74" refused 74 "No such file" wsctl trace --stop -o "$WORK/no/such"
check "does not end it" sh -c 'wsctl trace --stop -o - >"'"$FILE"'"'
check "and stdout is the trace" look fib
check "a full disk: 74" refused 74 "No space left" sh -c 'wsctl trace --start && wsctl trace --stop -o /dev/full'

OTLP=$WORK/spans.jsonl
spans() { # [TRACEPARENT]
  python3 "$LOOK" --otlp "$OTLP" "$@"
}
until_stolen_alone() {
  for _ in $(seq 100); do
    wsctl submit --trace "$FILE" --otlp "$OTLP" fib 30 >/dev/null && look one client ways || return 1
    look steals 2>/dev/null && return 0
  done
  return 1
}
check "--otlp with --detach: 64" refused 64 "wsctl trace --job" wsctl submit -d --otlp x fib 1
check "--trace with --detach: 64" refused 64 "wsctl trace --job" wsctl submit -d --trace x fib 1
check "--trace to stdout: 64" refused 64 "stdout is for the output" wsctl submit --trace - fib 1
check "both into one file: 64" refused 64 "name another file" wsctl submit --trace x --otlp x fib 1
check "a trace of one job, with its tasks and what wsctl did" until_stolen_alone
check "its spans are OTLP" spans
rm -f "$OTLP"
check "spans without a picture" expect_output 6765 wsctl submit --otlp "$OTLP" fib 20
check "these are OTLP, too" spans
background wsctl submit spin 100000
check "while another job runs" wait_until sh -c 'wsctl list | grep -q running'
check "it has its own alone" expect_output 6765 wsctl submit --trace "$FILE" fib 20
check "so it has" look fib one client ways
kill -TERM "$BACKGROUND_PID"
wait_for_exit "$BACKGROUND_PID" >"$WORK/spin" 2>&1
check "a job that fails: its exit code" expect_exit 2 wsctl submit --trace "$FILE" fib no
check "and its trace" look one client ways
cp "$FILE" "$WORK/before"
check "one that is refused: as without" refused 66 "not found" wsctl submit --trace "$FILE" no-such-plugin
check "and the file is as it was" cmp "$WORK/before" "$FILE"
check "a file that cannot be written: 74, and no job" refused 74 "No such file" wsctl submit --trace "$WORK/no/such" fib 1
check "while another trace is under way" wsctl trace --start
check "75, and no job" refused 75 "under way already" wsctl submit --trace "$FILE" fib 1
check "it goes on" wsctl trace --stop -q -o "$WORK/other.json"

job=$(wsctl submit -d sleep 3600000)
until_running() {
  wait_until sh -c "wsctl status '$1' | grep -q running"
}
background wsctl submit spin 100000
spin=$BACKGROUND_PID
check "--job of one that runs" until_running "$job"
background_trace() {
  background wsctl trace -q --job "$job" -o "$FILE" --otlp "$OTLP"
  wait_until traces 1
}
check "is traced" background_trace
trace=$BACKGROUND_PID
check "until it has ended" wsctl cancel "$job"
check "and then ends" wait_for_exit "$trace"
check "with that job alone" look one
check "and its end" grep -q '"state":"cancelled"' "$FILE"
check "and OTLP" spans
check "one that has ended: 66" refused 66 "it has ended" wsctl trace --job "$job" -o "$FILE"
check "one that never was: 66" refused 66 "no such job" wsctl trace --job "$(printf 0%.0s $(seq 32))" -o "$FILE"
check "no id: 64" refused 64 "not the id of a job" wsctl trace --job some -o "$FILE"
check "--job with --start: 64" refused 64 "until the job has ended" wsctl trace --job "$job" --start
check "none of these leaves a trace" traces 0
kill -TERM "$spin"
wait_for_exit "$spin" >"$WORK/spin" 2>&1

background wsctl submit spin 100000
check "a job that runs all the time" wait_until sh -c 'wsctl list | grep -q running'
check "is in a trace of a moment" wsctl trace --quiet -s 50ms -o "$FILE"
check "by its name" sh -c "grep -q 'spin:spin' '$FILE'"
check "sane" look
kill -TERM "$BACKGROUND_PID"
wait_for_exit "$BACKGROUND_PID" >"$WORK/spin" 2>&1

background wsctl trace --quiet --seconds 1h -o "$FILE"
wait_until traces 1
check "SIGTERM, as Ctrl-C," kill -TERM "$BACKGROUND_PID"
check "ends it, with a file" wait_for_exit "$BACKGROUND_PID"
check "that is one" look
background wsctl trace --quiet --seconds 1h -o "$WORK/killed.json"
wait_until traces 1
kill -KILL "$BACKGROUND_PID"
check "who is killed leaves no trace running" wait_until traces 0
check "and another can begin" wsctl trace --start
check "and be ended" wsctl trace --stop -q -o "$FILE"
check "none is under way" traces 0

check "a job, for an executor" expect_output 6765 wsctl submit fib 20
check "a trace begins" wsctl trace --start
pkill -KILL -P "$WSD_PID"
check "its executor is killed; the next one serves" wait_until expect_output 6765 wsctl submit fib 20
check "the end says so: 74" says 74 "executor [0-9]*: it ended while it was traced" wsctl trace --stop -o "$FILE"
check "the file has what the next one did" look fib
check "and again: none is under way" refused 66 "no trace is under way" wsctl trace --stop
background wsctl submit spin 100000
wait_until sh -c 'wsctl list | grep -q running'
background wsctl trace --quiet --seconds 1h -o "$FILE"
trace=$BACKGROUND_PID
wait_until traces 1
stop_process "$(pgrep -P "$WSD_PID")"
kill -TERM "$trace"
pkill -KILL -P "$WSD_PID"
check "an executor that dies while it is asked: a clear end, 74" expect_exit 74 wait_for_exit "$trace"
check "and a file" look
stop_wsd

EXECUTOR=$LIAR
start_wsd || exit 1
check "an executor that writes nonsense: its job" wsctl submit asked-text
check "a trace of it: 74" expect_exit 74 sh -c 'wsctl trace --start && wsctl trace --stop -o "'"$FILE"'" 2>"'"$WORK"'/said"'
check "it is told" grep -q "of an executor: not JSON" "$WORK/said"
check "and the file is JSON" json
stop_wsd
start_wsd || exit 1
check "one that ends when it is asked: its job" wsctl submit asked-die
check "a trace begins, or not" expect_exit 74 sh -c 'wsctl trace --start; wsctl trace --stop -o "'"$FILE"'"'
check "its end is JSON" json
stop_wsd
