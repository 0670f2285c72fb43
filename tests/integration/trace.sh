#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# trace.sh: `wsctl trace`: what is in the file, when it begins and ends, who may, and executors that die or lie meanwhile.
. "$(dirname "$0")/../support/lib.sh"

LIAR=$BUILD/tests/support/shims/liar
FILE=$WORK/trace.json

cat >"$WORK/look.py" <<'EOF'
"""look.py FILE [WANTED...]: an error where the trace is not sane, or lacks `fib` (a job), `steals` or `events`."""
import collections, json, sys
trace = json.load(open(sys.argv[1]))
events = trace['traceEvents']
kinds = collections.Counter((e['ph'], e.get('cat')) for e in events)
workers = {(e['pid'], e['tid']) for e in events if e.get('name') == 'thread_name'}
lanes = collections.defaultdict(list)
flows = collections.Counter()
for e in events:
    assert e['ph'] in 'XMsfi', e
    if 'tid' in e:
        assert (e['pid'], e['tid']) in workers, e
    if 'ts' in e:
        e['ts'] = round(e['ts'] * 1000)  # nanoseconds
    if e['ph'] == 'X':
        e['dur'] = round(e['dur'] * 1000)
        assert e['dur'] >= 0 and e['ts'] > 0, e
        lanes[e['pid'], e['tid']].append(e)
    if e.get('cat') == 'task':
        assert (e['pid'], e['args']['victim']) in workers and e['args']['victim'] != e['tid'], e
    if e['ph'] in 'sf':
        flows[e['id']] += 1 if e['ph'] == 's' else -1
assert not any(flows.values()), flows
for lane in lanes.values():  # what one worker does is one thing within another, never across
    open_ends = []
    for e in sorted(lane, key=lambda e: (e['ts'], -e['dur'])):
        while open_ends and open_ends[-1] <= e['ts']:
            open_ends.pop()
        end = e['ts'] + e['dur']
        assert not open_ends or end <= open_ends[-1], e
        open_ends.append(end)
jobs = {e['args']['job'] for e in events if e['ph'] == 'X' and 'job' in e['args']}
assert all(len(j) == 32 and int(j, 16) for j in jobs), jobs
print(len(events), kinds, len(jobs), 'jobs')
for wanted in sys.argv[2:]:
    if wanted == 'fib':
        assert any(e['ph'] == 'X' and e['name'] == 'fib:fib' for e in events)
    if wanted == 'steals':
        assert kinds['X', 'task'] > 0 and kinds['s', 'steal'] > 0
    if wanted == 'none':
        assert not jobs
EOF
look() { # [WANTED...]
  python3 "$WORK/look.py" "$FILE" "$@"
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
check "it is told" grep -q "were not JSON" "$WORK/said"
check "and the file is JSON" look
stop_wsd
start_wsd || exit 1
check "one that ends when it is asked: its job" wsctl submit asked-die
check "a trace begins, or not" expect_exit 74 sh -c 'wsctl trace --start; wsctl trace --stop -o "'"$FILE"'"'
check "its end is JSON" look
stop_wsd
