#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# workers.sh: what each worker did, and their number changed while jobs run: by `wsctl workers set` and by SIGHUP. No
# task is lost. Who may not, and executors that answer nonsense.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/inject.sh"

LIAR=$BUILD/tests/support/shims/liar
JOBS=$((400 / TIME_SCALE))

sum() { # COUNTER: over all workers
  wsctl --json workers >"$WORK/workers.json" && python3 -c '
import json, sys
print(sum(json.loads(line)[sys.argv[1]] for line in open(sys.argv[2])))' "$1" "$WORK/workers.json"
}

present() { # N: so many workers are there
  [ "$(wsctl --json workers | grep -c '"kind":"worker"')" = "$1" ]
}

# Runs fib until there is more of it than before: which worker does what is chance.
rises() { # COUNTER
  local before after
  before=$(sum "$1") || return 1
  for _ in $(seq 200); do
    wsctl submit fib 27 >/dev/null || return 1
    after=$(sum "$1")
    [ "$after" -gt "$before" ] && return 0
  done
  echo "$1: $before before, $after now"
  return 1
}

table_adds_up() {
  wsctl workers >"$WORK/table" && cat "$WORK/table" &&
    awk 'NR == 1 { next } $1 == "all" { all = $2; next } { sum += $4 } END { exit !(NR >= 4 && sum == all) }' "$WORK/table"
}

executors() {
  pgrep -P "$WSD_PID" | sort
}

# Hundreds of jobs that spawn, while the number goes up and down; each answer is looked at.
none_is_lost() { # COMMAND...: changes the number of workers, N appended
  local load i
  seq "$JOBS" | sed 's/.*/22/' >"$WORK/items"
  executors >"$WORK/executors"
  wsctl map -j 64 fib <"$WORK/items" >"$WORK/answers" &
  load=$!
  note_started "$load"
  i=0
  until gone "$load"; do
    for n in 4 1 3 2 8 1; do
      "$@" "$n" || return 1
      i=$((i + 1))
    done
  done
  wait "$load" || return 1
  echo "changed $i times"
  [ "$(grep -c '^17711$' "$WORK/answers")" = "$JOBS" ] && [ "$(wc -l <"$WORK/answers")" = "$JOBS" ] &&
    executors | cmp - "$WORK/executors"
}

# Each job waits for the others, and between two rows everybody sleeps.
all_come() { # N
  for _ in {1..20}; do
    seq "$1" | wsctl map -j "$1" -t $((10 * TIME_SCALE))s sleep:together "$1" {} || return 1
  done
}

# Of two workers one retires behind a job, and comes back after a while for one that cannot have run for longer than it is there.
there_are() { # N STATE
  [ "$(wsctl --json list --state "$2" | wc -l)" = "$1" ]
}
back_from_retirement() {
  local first second begin ran
  wsctl -q workers set 2 || return 1
  rm -f "$WORK/gate"
  wsctl submit ledger:gate "$WORK/gate" &
  first=$!
  wsctl submit ledger:gate "$WORK/gate" &
  second=$!
  wait_until there_are 2 running && wsctl -q workers set 1 && touch "$WORK/gate" && wait "$first" && wait "$second" || return 1
  sleep 2 # the while: what a job seems to have run for would be longer by that
  first=$(wsctl submit --detach sleep 600000)
  wait_until there_are 1 running || return 1
  begin=${EPOCHREALTIME//[^0-9]/}
  wsctl --json submit sleep 10 >"$WORK/second" &
  second=$!
  wait_until there_are 1 queued && wsctl -q workers set 2 && wait "$second" && wsctl cancel "$first" || return 1
  ran=$(sed -n 's/.*"run_usec":\([0-9]*\).*/\1/p' "$WORK/second")
  [ "${ran:-none}" -le $((${EPOCHREALTIME//[^0-9]/} - begin)) ] && return 0
  cat "$WORK/second"
  return 1
}

by_sighup() { # N
  printf '[daemon]\nworkers = %s\n' "$1" >"$WSD_CONFIG"
  kill -HUP "$WSD_PID" && wait_until grep -q "each executor has $1 workers from now on" "$WSD_LOG"
}

start_wsd --plugin-dir "$TEST_PLUGINS" || exit 1
check "no executor runs: says so" expect_output "no executor runs: there is no work" wsctl workers
check "and with --json: nothing" expect_output "" wsctl --json workers
check "a number that none can be: 64" refused 64 "write 1 to 1024" wsctl workers set 0
check "one above the limit: 64" refused 64 "write 1 to 1024" wsctl workers set 1025
check "no number: 64" refused 64 "write 1 to 1024" wsctl workers set many
check "set without a number: 64" refused 64 "usage: wsctl workers" wsctl workers set
check "something else: 64" refused 64 "usage: wsctl workers" wsctl workers frobnicate 2
check "set where no executor runs" expect_output "new executors: 3 workers" wsctl workers set 3
check "the next executor has as many" expect_output 6765 wsctl submit fib 20
check "as is told" present 3
for counter in roots published stolen parks wakeups; do
  check "$counter rises under fib" rises "$counter"
done
check "the totals of the table add up" table_adds_up
check "each line of --json is an object" sh -c 'wsctl --json workers | python3 -c "
import json, sys
for line in sys.stdin:
    w = json.loads(line)
    assert w[\"kind\"] in (\"worker\", \"retired\") and w[\"run\"] == w[\"roots\"] + w[\"ready\"] + w[\"stolen\"] and w[\"executor\"] > 0, w"'

said=$(wsctl workers set 3 2>&1)
if [[ $said == *"Function not implemented"* ]]; then
  skip "set while it runs" "this engine cannot"
else
  check "so many are there" wait_until present 3
  check "set says what it did" sh -c 'wsctl workers set 4 | grep -q "^executor [0-9]*: 4 workers$"'
  check "and with --json" sh -c 'wsctl --json workers set 2 | grep -q "\"workers\":2,\"error\":\"\""'
  check "set 1: one is left" sh -c 'wsctl workers set 1'
  check "one is left" wait_until present 1
  check "set 8, again" wsctl workers set 8
  check "all of them come for what comes together" all_come 8
  check "the limit itself" wsctl workers set 1024
  check "and a job there" expect_output 2178309 wsctl submit fib 32
  check "up and down while $JOBS jobs run: none is lost" none_is_lost wsctl -q workers set
  check "the same by SIGHUP" none_is_lost by_sighup
fi
printf '[daemon]\nworkers = 2\n' >"$WSD_CONFIG"
kill -HUP "$WSD_PID"
check "SIGHUP: the number of the file" wait_until present 2
kill -HUP "$WSD_PID"
check "who comes back from retirement knows what time it is" back_from_retirement
check "another number" wsctl workers set 3
pkill -KILL -P "$WSD_PID"
check "an executor that starts later has as many" expect_output 6765 wsctl submit fib 20
check "as is told again" present 3
stop_wsd

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  mkdir "$WORK/inst"
  cp "$WSCTL" "$BUILD"/client/libwsclient.so.0 "$WORK/inst/"
  cp -r "$PLUGINS" "$WORK/inst/plugins"
  chmod -R go+rX,go-w "$WORK/inst"
  chmod 755 "$WORK"
  printf '[daemon]\nsystem = yes\n' >"$WSD_CONFIG"
  PLUGINS=$WORK/inst/plugins start_wsd --workers 2 || exit 1
  chmod 666 "$WSD_SOCKET"
  chmod 755 "$(dirname "$WSD_SOCKET")"
  as() { # UID COMMAND...
    local uid=$1
    shift
    LD_LIBRARY_PATH=$WORK/inst setpriv --reuid="$uid" --regid="$uid" --clear-groups -- "$WORK/inst/wsctl" "$@"
  }
  check "a user's job" expect_output 6765 as 1001 submit fib 20
  check "another's" expect_output 6765 as 1002 submit fib 20
  # Executors, of which each has two workers or more: where a join waits for long, a spare one runs in its place.
  seen() {
    local n
    "$@" --json workers >"$WORK/seen" && n=$(wc -l <"$WORK/seen") && cat "$WORK/seen" || return 1
    n_executors=$(grep -o '"executor":[0-9]*' "$WORK/seen" | sort -u | wc -l)
    [ "$n" -ge $((2 * n_executors)) ]
  }
  own_only() {
    seen as 1001 && [ "$n_executors" = 1 ]
  }
  all_seen() {
    seen wsctl && [ "$n_executors" = 2 ] && cp "$WORK/seen" "$WORK/all"
  }
  nor_changes() {
    wsctl --json workers >"$WORK/seen" && [ "$(wc -l <"$WORK/seen")" = "$(wc -l <"$WORK/all")" ]
  }
  check "a user sees his own workers only" own_only
  check "root sees all" all_seen
  check "a user may not change the number: 77" refused 77 "administrator" as 1001 workers set 3
  check "nor does it change" nor_changes
  stop_wsd
  : >"$WSD_CONFIG"
else
  skip "users" "only root can act as them"
fi

# --- the CPUs that wsd may use, by what the configuration leaves open -----------------------------------------------------

if [ -w /sys/fs/cgroup/cpu/cgroup.procs ]; then
  group=/sys/fs/cgroup/cpu/wsd-workers-$$
  quota() { # CPUS, in tenths
    echo $(($1 * 10000)) >"$group/cpu.cfs_quota_us"
  }
else
  group=/sys/fs/cgroup/wsd-workers-$$
  quota() {
    echo "$(($1 * 10000)) 100000" >"$group/cpu.max"
  }
fi
follows() { # N
  kill -HUP "$WSD_PID" && wait_until present "$1"
}
leave_group() {
  wait_until rmdir "$group"
}
if [ "$(nproc)" -ge 2 ] && mkdir "$group" 2>/dev/null && quota 10 2>/dev/null; then
  on_exit leave_group
  start_wsd || exit 1
  check "as many workers as CPUs" wsctl submit fib 20
  check "that is" present "$(nproc)"
  echo "$WSD_PID" >"$group/cgroup.procs"
  check "CPUQuota= of one CPU, at reload: one worker" follows 1
  quota 11
  check "of a little more: two" follows 2
  quota 5
  check "of less than one: one" follows 1
  quota 20
  check "of two again" follows 2
  stop_wsd
else
  rmdir "$group" 2>/dev/null
  skip "CPUQuota=" "needs two CPUs and a cgroup with the controller"
fi
if [ "$(nproc)" -ge 2 ]; then
  start_wsd || exit 1
  check "a job runs" wsctl submit fib 20
  cpus=$(taskset -cp "$WSD_PID") cpus=${cpus##* }
  taskset -cp "${cpus%%[,-]*}" "$WSD_PID" >/dev/null
  check "AllowedCPUs= of one CPU, at reload: one worker" follows 1
  taskset -cp "$cpus" "$WSD_PID" >/dev/null
  check "of all again: as many as there are" follows "$(nproc)"
  if can_inject; then
    taskset -cp "${cpus%%[,-]*}" "$WSD_PID" >/dev/null
    unread() {
      inject_now openat:error=EMFILE -P /proc/self/cgroup && kill -HUP "$WSD_PID" &&
        wait_until grep -q "the CPU quota of wsd cannot be read: Too many open files: each executor has $(nproc) workers" "$WSD_LOG" && end_injection && present "$(nproc)"
    }
    check "a quota that cannot be read, at reload: as many as before" unread
    check "it is read again" follows 1
  fi
  stop_wsd
fi

EXECUTOR=$LIAR
for lie in late twice size error kinds order die; do
  start_wsd || exit 1
  check "an executor that answers '$lie': its job" wsctl submit "asked-$lie"
  wsctl workers >"$WORK/said" 2>&1
  status=$?
  check "'$lie' does no harm" sh -c "[ $status = 0 ] || [ $status = 75 ]"
  found_out() { wsctl --json stats | grep -q "\"executors_died\":[1-9].*\"executors_distrusted\":$([ "$lie" = die ] && echo 0 || echo 1)"; }
  check "'$lie' is found out" wait_until found_out
  check "and the next one serves" wait_until wsctl submit honest
  stop_wsd
done
start_wsd || exit 1
check "one that never answers: its job" wsctl submit asked-never
check "it is passed over" refused 75 "does not answer" wsctl workers
check "and serves on" wsctl submit honest
stop_wsd
