#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# runner-tasks.sh: functions that fork and join, in runners in C: the sources of plugins, unchanged. What they answer is
# compared with what the plugins answer. The runner is tests/support/clients/c-runner.c.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/runners.sh"

ROUNDS=2 QUEENS=9 LINES=200000
[ -z "${WSD_THOROUGH:-}" ] || ROUNDS=5
[ -z "${WSD_SANITIZE:-}" ] || ROUNDS=2 QUEENS=7 LINES=20000

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1

begin() { # PLUGIN OPTION...: as lent-PLUGIN
  RUNNER=("$BUILD/tests/support/clients/runner-$1" -n "lent-$1")
  run_runner "$@"
}
wanted() { # NAME COMMAND...: what the plugin answers, each time, is in $WORK/wanted-NAME
  [ -s "$WORK/wanted-$1" ] || "${@:2}" >"$WORK/wanted-$1"
}
as_the_plugin() { # PLUGIN ARGUMENT...
  local i
  wanted "$1" wsctl submit "$@" || return 1
  for ((i = 0; i < ROUNDS; i++)); do
    wsctl submit "lent-$1" "${@:2}" >"$WORK/got" && cmp "$WORK/wanted-$1" "$WORK/got" || return 1
  done
}
sorts() {
  wanted sort wsctl submit -i "$WORK/lines" sort && wsctl submit -i "$WORK/lines" lent-sort >"$WORK/got" && cmp "$WORK/wanted-sort" "$WORK/got"
}
every_call() {
  local i
  for ((i = 0; i < ROUNDS; i++)); do
    wsctl submit lent-abi:engine >"$WORK/got" && diff "$SRC/tests/abi/abi1.expected" "$WORK/got" || return 1
  done
}
services() { # those of a job, from tasks
  printf 'hello, world' >"$WORK/input"
  printf 'a file\n' >"$WORK/file"
  (cd "$WORK" && wsctl submit -i - lent-abi:services argument "$WORK/file" <"$WORK/input" >"$WORK/got" 2>"$WORK/err")
  [ $? = 5 ] && printf 'services argument 12\nreserved\nhello\na file\n' | cmp - "$WORK/got"
}
at_once() { # several jobs that fork
  seq 20 | wsctl map lent-fib:fib >"$WORK/got" && seq 20 | wsctl map fib >"$WORK/wanted" && cmp "$WORK/wanted" "$WORK/got"
}
heeds() { # a cancel, which the tasks look for
  submit_behind c lent-fib:fib 60
  RUNNER_NAME=lent-fib wait_until is_running 1 || return 1
  wsctl cancel "$(wsctl list --state running --json | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p')" && has_ended c 130
}
head -c $((LINES * 20)) /dev/urandom | base64 -w 20 >"$WORK/lines"

results() { # OPTION...
  local plugin
  for plugin in abi fib nqueens sort uts; do
    begin $plugin "$@" || fail "a runner connects"
  done
  check "$*: each call of the headers" every_call
  check "$*: what a job may call" services
  check "$*: fib" as_the_plugin fib 22
  check "$*: nqueens" as_the_plugin nqueens $QUEENS
  check "$*: uts" as_the_plugin uts T3
  check "$*: sort" sorts
  check "$*: a usage error" says 2 'usage: fib N' wsctl submit lent-fib:fib x
  check "$*: jobs that fork, at once" at_once
  check "$*: a cancel reaches the tasks" heeds
  for plugin in abi fib nqueens sort uts; do
    end_runner $plugin
  done
}
results -t 1
results -t 3 -c 8
results -l
RUNNER_AS=(taskset -c 0)
results -t 2 # on one processor
RUNNER_AS=()

# --- threads --------------------------------------------------------------------------------------------------------------

n_threads() { # KEY
  local threads=("/proc/${RUNNERS[$1]}"/task/*)
  echo ${#threads[@]}
}
begin fib -t 2
helps_when_asked() {
  wsctl submit lent-fib:nothing && same 3 "$(n_threads fib)" || return 1 # two, and the one that looks after the connection
  wsctl submit lent-fib:fib 25 >"$WORK/got" && same 75025 "$(cat "$WORK/got")" || return 1
  local n
  n=$(n_threads fib)
  echo "$n threads"
  # with the monitor of those that help
  [ "$n" -gt 4 ] && [ "$n" -le $((4 + ($(nproc) > 2 ? $(nproc) - 1 : 1))) ]
}
check "threads that help begin with the first job that forks" helps_when_asked
kill "${RUNNERS[fib]}"
check "and end with the runner" wait "${RUNNERS[fib]}"
unset "RUNNERS[fib]"

hooks() {
  begin hooks -t 2 || return 1
  local i
  for ((i = 0; i < ROUNDS; i++)); do
    wsctl submit lent-hooks:hooks >"$WORK/got" || return 1
    cat "$WORK/got"
    grep -q '^0 strangers' "$WORK/got" || return 1
  done
  kill "${RUNNERS[hooks]}"
  wait "${RUNNERS[hooks]}" # fini() aborts where a thread was not stopped
}
check "worker_start comes on each thread before its first task, and worker_stop before fini" hooks
unset "RUNNERS[hooks]"

# More than a pool has places for outside threads, elsewhere: none waits for another one's end.
JOBS=24
all_at_once() {
  local i
  begin reader -t $JOBS || return 1
  for ((i = 0; i < JOBS; i++)); do submit_behind "r$i" lent-reader:reader "$WORK/begun.$i" "$WORK/go"; done
  for ((i = 0; i < JOBS; i++)); do wait_until test -e "$WORK/begun.$i" || return 1; done
  touch "$WORK/go"
  for ((i = 0; i < JOBS; i++)); do has_ended "r$i" 0 || return 1; done
}
check "as many jobs run at once as there are threads" all_at_once
end_runner reader
stop_wsd
