#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# function-stats.sh: how the jobs of each function and user have ended, and how long they took: held against what each
# job says of itself; each kind of end; users apart; what is kept and what begins anew.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

D=$BUILD/tests/support/clients/direct
JOBS=3000
[ -z "${WSD_THOROUGH:-}" ] || JOBS=100000
[ "$TIME_SCALE" = 1 ] || JOBS=1000

# Of `wsctl --json stats NAME` a number: PATH is a key, or KEY.KEY.
stat_of() { # NAME PATH [WSCTL-OPTION...]
  wsctl --json stats "${@:3}" "$1" | python3 -c '
import json, sys
total = 0
for line in sys.stdin:
    one = json.loads(line)
    for key in sys.argv[1].split("."):
        one = one[key]
    total += one
print(total)' "$2"
}
stat_is() { # NAME PATH N
  [ "$(stat_of "$1" "$2")" = "$3" ]
}

# --- exact --------------------------------------------------------------------------------------------------------------

# Holds the histograms of a function against its jobs, one JSON object a line, of which `output` is in base64.
exact() { # JOBS-FILE NAME
  wsctl --json stats "$2" >"$WORK/stats.json" || return 1
  python3 - "$1" "$WORK/stats.json" <<'END'
import base64, json, math, sys
jobs = [json.loads(line) for line in open(sys.argv[1])]
stats = json.load(open(sys.argv[2]))
assert all(job['state'] == 'succeeded' for job in jobs), 'not all have succeeded'
assert stats['succeeded'] == len(jobs), (stats['succeeded'], len(jobs))
for job in jobs:
    job['output_bytes'] = len(base64.b64decode(job.get('output', '')))
worst = 0
for name in ('queue_usec', 'run_usec', 'cpu_usec', 'output_bytes'):
    exact = sorted(job[name.replace('queue', 'queued')] for job in jobs)
    h = stats[name]
    assert h['count'] == len(exact), (name, h['count'], len(exact))
    assert h['sum'] == sum(exact), (name, h['sum'], sum(exact))
    assert h['max'] == exact[-1], (name, h['max'], exact[-1])
    shown = [(low, high) for low, high, n in h['buckets'] for _ in range(n)]
    for value, (low, high) in zip(exact, shown):
        assert low <= value <= high, (name, value, low, high)
        error = abs((low + high) // 2 - value) / max(value, 1)
        worst = max(worst, error)
        assert error < 0.03, (name, value, low, high)
    for q in (50, 90, 99):
        value = exact[max(1, math.ceil(q * len(exact) / 100)) - 1]
        assert abs(h[f'p{q}'] - value) <= 0.03 * value, (name, q, h[f'p{q}'], value)
print(f'{len(jobs)} jobs, the largest error is {worst:.2%}')
END
}

mapped() { # a map of many sizes: run times from a microsecond up, and outputs from two bytes up
  python3 -c '
import random
random.seed(39)
for i in range('"$JOBS"'):
    print(random.choice((1, 5, 10, 15, 18, 20, 22, 24)) if i % 100 else 27)' >"$WORK/items"
  wsctl map --json fib {} <"$WORK/items" >"$WORK/jobs" && exact "$WORK/jobs" fib:fib
}
bundles() { # of brief jobs, until some have travelled together
  : >"$WORK/brief"
  for _ in {1..20}; do
    seq "$JOBS" | wsctl map --json fib:nothing >>"$WORK/brief" || return 1
    [ "$(counter jobs_bundled)" = 0 ] || break
  done
  [ "$(counter jobs_bundled)" -gt 0 ] && exact "$WORK/brief" fib:nothing && stat_is fib:nothing direct 0
}
outputs() {
  seq 1 97 "$((JOBS * 3))" | wsctl map --json bigoutput {} >"$WORK/outputs" && exact "$WORK/outputs" bigoutput
}

start_wsd --plugin-dir "$PLUGINS:$TEST_PLUGINS" || exit 1
check "histograms hold against the times of $JOBS jobs" mapped
check "those of bundles, too" bundles
check "and against sizes of outputs" outputs
check "a name of no jobs is not there" refused 66 "no job of it has ended" wsctl stats nosuch
check "nor is a function of a plugin that has others" refused 66 "no job of it has ended" wsctl stats bigoutput:nothing
stop_wsd

# --- each end -----------------------------------------------------------------------------------------------------------

P=$WORK/tmp/p
submit() { # a puppet that waits for $P
  rm -f "$P"
  background wsctl submit "$@" >/dev/null 2>&1
}
runs() {
  wait_until some_job_is running
}
ended_as() { # KEY N: so many of puppet:once
  wait_until stat_is puppet:once "$1" "$2"
}
lets_go() { # STATUS
  echo "$1" >"$P.new" && mv "$P.new" "$P"
}
succeeds() {
  submit puppet:once "$P" && runs && lets_go 0 && ended_as succeeded 1
}
fails() {
  submit puppet:once "$P" && runs && lets_go 5 && ended_as failed 1
}
crashes() {
  submit puppet:once "$P" && runs && lets_go -1 && ended_as crashed 1
}
cancelled_running() {
  submit puppet:once "$P" && runs && wsctl cancel --all && ended_as cancelled 1 && stat_is puppet:once run_usec.count 4
}
cancelled_waiting() { # it has not run: it is in no histogram
  wsctl pause puppet || return 1
  submit puppet:once "$P"
  wait_until some_job_is queued && wsctl cancel --all && wsctl resume puppet && ended_as cancelled 2 &&
    stat_is puppet:once run_usec.count 4
}
times_out() {
  submit --timeout 50ms puppet:once "$P" && ended_as timed_out 1
}
interrupted() {
  submit puppet:once "$P" && runs && kill_executor && ended_as interrupted 1
}
refused_once() { # and one of a function that is not there is not counted
  wsctl drain --no-wait && says 75 "drained" wsctl submit puppet:once "$P" && says 75 "drained" wsctl submit puppet:never "$P"
  wsctl resume && stat_is puppet:once refused 1 && refused 66 "no job" wsctl stats puppet:never
}
goes_on() { # PATH N COMMAND...: the counter goes on from N
  "${@:3}" && submit puppet:once "$P" && runs && lets_go 0 && ended_as "$1" "$(($2 + 1))"
}
rebuilt() {
  cp "$TEST_PLUGINS/puppet.so" "$WORK/plugins/puppet.new" && mv "$WORK/plugins/puppet.new" "$WORK/plugins/puppet.so" &&
    wsctl plugin reload puppet
}
table_is_right() {
  wsctl --quiet stats --functions >"$WORK/table" && grep -qE "^puppet:once +[^ ]+ +$1 +$2 " "$WORK/table"
}
shows_all() {
  wsctl stats puppet:once >"$WORK/shown" && grep -q "1 timed out, 1 crashed, 1 interrupted, 1 refused" "$WORK/shown" &&
    grep -qE '^  queue ' "$WORK/shown" && grep -qE '^  output ' "$WORK/shown"
}

mkdir "$WORK/plugins"
cp "$TEST_PLUGINS/puppet.so" "$WORK/plugins/"
printf '[limits]\nquarantine-after = 100\n' >"$WSD_CONFIG"
start_wsd --plugin-dir "$PLUGINS:$WORK/plugins" || exit 1
check "a job that succeeded" succeeds
check "one that failed" fails
check "one that crashed" crashes
check "one that was cancelled as it ran" cancelled_running
check "one that was cancelled before" cancelled_waiting
check "one whose time was up" times_out
check "one whose executor was killed" interrupted
check "one that was refused" refused_once
check "for people" shows_all
check "all of this survives a reload of the plugin" goes_on succeeded 1 rebuilt
check "and one of the configuration" goes_on succeeded 2 reload_config
check "and the death of an executor" goes_on succeeded 3 kill_executor
check "a line a function" table_is_right 10 6
check "sorted by what is asked for" wsctl stats --functions --sort p99
check "and by nothing else" refused 64 "not a key" wsctl stats --functions --sort size
check "what is for functions wants some" refused 64 "add --functions" wsctl stats --user root
check "all of them, or some" refused 64 "without it" wsctl stats --functions puppet
stop_wsd
start_wsd --plugin-dir "$PLUGINS:$WORK/plugins" || exit 1
check "after a restart they begin at zero" refused 66 "no job of it has ended" wsctl stats puppet
stop_wsd

# --- direct calls -------------------------------------------------------------------------------------------------------

direct_is_all() { # the sum by function is what the lanes have counted
  local calls
  calls=$(($(counter direct_calls) - $(counter direct_running)))
  [ "$calls" -gt "$1" ] && stat_is direct direct "$calls"
}
calls_direct() {
  timeout $((60 * TIME_SCALE)) "$D" -w -n 2000 direct:direct >"$WORK/direct" && grep -q "direct=2000" "$WORK/direct" || return 1
  wait_until direct_is_all 1999 || return 1
  # each has its run time, as the jobs do that went by the socket
  [ "$(stat_of direct:direct run_usec.count)" = "$(stat_of direct:direct succeeded)" ] &&
    [ "$(($(stat_of direct:direct queue_usec.count) + $(stat_of direct:direct direct)))" = "$(stat_of direct:direct succeeded)" ]
}
calls_many() { # several in a slot, and several clients
  timeout $((60 * TIME_SCALE)) "$D" -w -c -p 3 -n 3000 direct:direct >"$WORK/direct" || return 1
  wait_until direct_is_all 5000 && [ "$(stat_of direct:direct run_usec.count)" = "$(stat_of direct:direct succeeded)" ]
}
calls_badly() {
  timeout $((60 * TIME_SCALE)) "$D" -w -n 10 direct:direct fail 3 >"$WORK/direct"
  wait_until direct_is_all 5000 && [ "$(stat_of direct:direct failed)" -ge 10 ]
}
crashes_direct() { # by the verdict of wsd
  timeout $((60 * TIME_SCALE)) "$D" -w -n 1 direct:direct segv >"$WORK/direct"
  [ "$(counter direct_crashed)" -gt 0 ] && [ "$(stat_of direct:direct crashed)" -ge "$(counter direct_crashed)" ]
}

if "$D" -x >/dev/null; then
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
  check "direct calls are counted, each with its run time" calls_direct
  check "those of one slot and of several clients, too" calls_many
  check "those that fail" calls_badly
  check "and those that crash" crashes_direct
  stop_wsd
else
  skip "direct calls" "this kernel has no futex_waitv (Linux 5.16)"
fi

# --- users --------------------------------------------------------------------------------------------------------------

rows() { # UID [OPTION...]: uids and jobs of checksum, as this user sees them
  as "$1" "$CTL" --json stats "${@:2}" checksum 2>/dev/null | python3 -c '
import json, sys
print(" ".join(sorted("%d:%d" % (one["uid"], one["succeeded"]) for one in map(json.loads, sys.stdin))))'
}
sees() { # WANTED UID [OPTION...]
  same "$1" "$(rows "${@:2}")"
}

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  install_for_all echo
  printf '[daemon]\nsystem = yes\n[access]\nsee = 1003\nwatch = 1004\n' >"$WSD_CONFIG"
  start_wsd --workers 1 || exit 1
  chmod 755 "$(dirname "$WSD_SOCKET")"
  chmod 666 "$WSD_SOCKET"
  for uid in $ALICE $BOB $BOB; do as "$uid" "$CTL" submit checksum /etc/passwd >/dev/null; done
  check "a user sees its own" sees "$ALICE:1" $ALICE
  check "and so does another one" sees "$BOB:2" $BOB
  check "and nothing of others, whatever it asks for" sees "" $ALICE --user $BOB
  check "root sees all" sees "$ALICE:1 $BOB:2" 0
  check "or one of them" sees "$BOB:2" 0 --user $BOB
  check "as does who may see all" sees "$ALICE:1 $BOB:2" 1003
  check "or watch all" sees "$ALICE:1 $BOB:2" 1004
  stop_wsd
else
  skip "users" "only root can act as them"
fi
