#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2015 # `A && B || { say; return 1; }` is meant
#
# ends.sh: one table of ends, and every way in which a job can run: each end is told alike in all of them.
. "$(dirname "$0")/../support/lib.sh"

# a process that ends while its job goes on cannot be searched for leaks
[ -z "${WSD_SANITIZE:-}" ] || export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0

# NAME | JOB | TIMEOUT, `cancel` or `-` | EXIT | STATE | OUTPUT | ERROR (a pattern)
ENDS="
succeeds|ends:ends|-|0|succeeded|done|
fails|ends:ends 7|-|7|failed|done|as was wanted
succeeds within its time|ends:ends|1min|0|succeeded|done|
heeds that its time is up, and returns 0|ends:heed|100ms|124|timed-out|begun|its time was up
heeds that its time is up, and returns 9|ends:heed 9|100ms|124|timed-out|begun|its time was up
is done behind its time without a look, and returns 0|ends:deaf 150|50ms|124|timed-out||its time was up
does not heed that its time is up|ends:deaf 600000|100ms|124|timed-out||its time was up, and it did not heed its cancel flag
heeds a cancel, and returns 0|ends:heed|cancel|130|cancelled|begun|
heeds a cancel, and returns 9|ends:heed 9|cancel|130|cancelled|begun|
is cancelled while it reads|ends:reads|cancel|130|cancelled||
does not heed a cancel|ends:deaf 600000|cancel|130|cancelled||
unknown function|ends:none|-|66|||has no function
unknown plugin|nowhere|-|66|||
"

text() { # KEY FILE: of a JSON object
  grep -o "\"$1\":\"[^\"]*\"" "$2" | sed 's/^[^:]*:"//; s/"$//'
}
is_told() { # DIRECTORY EXIT STATE OUTPUT ERROR: what the way has left there
  local dir=$1
  [ "$(cat "$dir/exit")" = "$2" ] || {
    echo "exit $(cat "$dir/exit") where it is $2"
    tail "$dir/json" "$dir/err"
    return 1
  }
  [ -z "$3" ] || [ "$(text state "$dir/json")" = "$3" ] || {
    echo "not $3"
    cat "$dir/json"
    return 1
  }
  [ -z "$3" ] || [ "$(text output "$dir/json" | base64 -d)" = "$4" ] || {
    echo "not the output '$4'"
    cat "$dir/json"
    return 1
  }
  [ -z "$5" ] || grep -q -- "$5" "$dir/err" || {
    echo "it does not say '$5'"
    cat "$dir/err"
    return 1
  }
}

# Each way runs JOB..., and leaves exit, json (with the output) and err in the directory.
followed() { # DIRECTORY TIMEOUT OPTION... JOB...: by a wsctl that waits for it
  local dir=$1 timeout=$2 status=0 fed=0
  shift 2
  case "$*" in *:reads*) fed=1 ;; esac
  if [ "$timeout" != cancel ]; then
    [ "$timeout" = - ] || set -- --timeout "$timeout" "$@"
    wsctl --json submit "$@" >"$dir/json" 2>"$dir/err" </dev/null || status=$?
    echo $status >"$dir/exit"
    return 0
  fi
  [ "$fed" = 0 ] || set -- --input - "$@"
  mkfifo "$dir/never"
  # the shell ignores SIGINT in what it starts in the background
  background python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])' \
    "$WSCTL" --json submit "$@" >"$dir/json" 2>"$dir/err" <>"$dir/never"
  if [ "$LOCAL" = 1 ]; then
    wait_until has_begun "$BACKGROUND_PID"
  else
    wait_until some_job_is running
  fi
  kill -INT "$BACKGROUND_PID"
  wait_for_exit "$BACKGROUND_PID" || status=$?
  echo $status >"$dir/exit"
}
has_begun() { # PID: ends.c names the thread so
  cat "/proc/$1/task/"*/comm 2>/dev/null | grep -qx begun
}
by_local() {
  local dir=$1 timeout=$2 LOCAL=1
  shift 2
  followed "$dir" "$timeout" --local --workers 2 --plugin-dir "$TEST_PLUGINS" "$@"
}
by_submit() {
  local LOCAL=0
  followed "$@"
}
by_id() { # DIRECTORY TIMEOUT OPTION...: from afar
  local dir=$1 timeout=$2 status=0 id
  shift 2
  case "$timeout" in
    - | cancel) ;;
    *) set -- --timeout "$timeout" "$@" ;;
  esac
  case "$timeout $*" in "cancel "*:reads*)
    mkfifo "$dir/never"
    background wsctl submit --detach --input - "$@" >/dev/null 2>&1 <>"$dir/never"
    wait_until some_job_is running
    id=$(wsctl --json list --state running | grep -o '"id":"[^"]*"' | cut -d'"' -f4)
    ;;
  *) id=$(wsctl submit --detach "$@" 2>"$dir/err") || {
    echo $? >"$dir/exit"
    return 0
  } ;;
  esac
  if [ "$timeout" = cancel ]; then
    wait_until some_job_is running
    wsctl cancel "$id" || return 1
  fi
  wsctl --json await "$id" >"$dir/json" 2>"$dir/err" || status=$?
  echo $status >"$dir/exit"
}
by_detached() {
  by_id "$@"
}
by_durable() {
  local dir=$1 timeout=$2
  shift 2
  by_id "$dir" "$timeout" --durable "$@"
}
by_array() { # in an ARRAY, and a batch
  local dir=$1 timeout=$2 status=0
  shift 2
  [ $# -gt 1 ] || set -- "$1" 0
  case "$timeout" in
    - | cancel) ;;
    *) set -- --timeout "$timeout" "$@" ;;
  esac
  background wsctl --json map "${@:1:$#-1}" ::: "${@: -1}" >"$dir/json" 2>"$dir/err" </dev/null
  if [ "$timeout" = cancel ]; then
    wait_until some_job_is running
    wsctl cancel "$(wsctl --json list --state running | grep -o '"id":"[^"]*"' | cut -d'"' -f4)" || return 1
  fi
  wait_for_exit "$BACKGROUND_PID" || status=$?
  echo $status >"$dir/exit"
}

# A row in one way; what the way cannot have (input of a durable job or an array that does not end) is not asked.
row() { # WAY NAME JOB TIMEOUT EXIT STATE OUTPUT ERROR
  local dir=$WORK/$1-$2
  local -a job
  mkdir "$dir"
  read -ra job <<<"$3"
  "by_$1" "$dir" "$4" "${job[@]}" && is_told "$dir" "$5" "$6" "$7" "$8"
}

printf '[limits]\ncancel-grace = 500ms\nquarantine-after = 1000\n[plugin nowhere]\nmax-run = 100ms\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
for way in local submit detached durable array; do
  while IFS='|' read -r name job timeout code state output error; do
    case "$way $job" in " "* | *" " | "durable ends:reads" | "array ends:reads") continue ;; esac
    [ -n "$name" ] && check "$way: $name" row "$way" "$name" "$job" "$timeout" "$code" "$state" "$output" "$error"
  done <<<"$ENDS"
done

# --- what hangs on the end ------------------------------------------------------------------------------------------------

tried_again() {
  wsctl --json submit --timeout 50ms --retries 2 --retry-delay 1ms ends:heed >"$WORK/retried" 2>/dev/null
  [ $? = 124 ] && grep -q '"attempts":3' "$WORK/retried" || {
    cat "$WORK/retried"
    return 1
  }
}
holds_up() {
  local a b
  a=$(wsctl submit --detach --timeout 50ms ends:heed) && b=$(wsctl submit --detach --after "$a" ends:ends) || return 1
  expect_exit 130 wsctl --quiet await "$b"
}
check "one whose time was up is tried again, whatever it returned" tried_again
check "and what was to run after it does not" holds_up

direct() { # WORDS OPTION...
  has_counts "$1" timeout $((60 * TIME_SCALE)) "$BUILD/tests/support/clients/direct" "${@:2}"
}
if "$BUILD/tests/support/clients/direct" -x >/dev/null; then
  check "a direct call that heeds that its time is up, and returns 0" direct "timed-out=2 direct=2 exit=124" -w -n 2 -t 50 direct:direct gate "$WORK/never"
  check "several of them together" direct "succeeded=6 timed-out=2 direct=8" -w -c -n 8 -m 4 -t 200 direct:direct gate "$WORK/never"
else
  skip "direct calls" "this kernel has no futex_waitv (Linux 5.16)"
fi
stop_wsd

printf '[limits]\ncancel-grace = 500ms\n[plugin ends]\nmax-run = 100ms\n[plugin direct]\nmax-run = 100ms\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "max-run: heeded, and 0 returned" row submit "max-run" ends:heed - 124 timed-out begun 'it ran longer than max-run = 100ms'
check "max-run: in an array" row array "max-run" ends:heed - 124 timed-out begun 'it ran longer than max-run = 100ms'
if "$BUILD/tests/support/clients/direct" -x >/dev/null; then
  check "max-run: a direct call" direct "timed-out=1 direct=1 exit=124" -w direct:direct gate "$WORK/never"
fi
stop_wsd

# --- limits ---------------------------------------------------------------------------------------------------------------

limits() { # OPTION...: the same with and without a daemon
  local -a many
  local long
  mapfile -t many < <(seq 4096)
  expect_exit 0 wsctl submit "$@" ends:ends 0 "${many[@]:1}" >/dev/null || return 1
  expect_exit 64 wsctl submit "$@" ends:ends 0 "${many[@]}" || return 1
  long=$(printf '%049149d' 0)
  expect_exit 0 wsctl submit "$@" ends:ends 0 "$long" >/dev/null || return 1
  expect_exit 64 wsctl submit "$@" ends:ends 0 "${long}0"
}
printf '' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "arguments: up to the limit, and above" limits
check "--local: likewise" limits --local --plugin-dir "$TEST_PLUGINS"
full() {
  [ -c /dev/full ] || return 0
  expect_exit 74 sh -c 'wsctl submit "$@" >/dev/full' sh "$@" bigoutput:bigoutput 200000
}
check "output that cannot be written" full
check "--local: likewise" full --local --plugin-dir "$TEST_PLUGINS"
stop_wsd

deep() { # OPTION...: more than the usual stack
  wsctl submit --local --plugin-dir "$TEST_PLUGINS" "$@"
}
stacks() {
  expect_exit 64 deep --stack 1K ends:ends || return 1
  expect_exit 64 deep --stack 2G ends:ends || return 1
  expect_exit 64 deep --stack x ends:ends || return 1
  expect_exit 64 wsctl submit --stack 1M ends:ends || return 1
  expect_output 'done' deep --stack 256K ends:ends || return 1
  expect_output 'done' deep --stack 64M ends:ends
}
check "--stack: 256K to 1G, with --local" stacks

# --- the last progress ------------------------------------------------------------------------------------------------------

last_progress() {
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || return 1
  wsctl --json submit ends:steps 5 | grep -q '"done":5,"total":6' || return 1
  wsctl --json submit --local --plugin-dir "$TEST_PLUGINS" ends:steps 5 | grep -q '"done":5,"total":6' || return 1
  { wsctl --json submit ends:steps 5 3 2>/dev/null || :; } | grep -q '"done":5,"total":6' || return 1
  [ "$(wsctl --json map ends:steps ::: 1 2 3 | grep -c '"done":\([123]\),"total":')" = 3 ] || return 1
  wsctl --json await "$(wsctl submit --detach --durable ends:steps 7)" | grep -q '"done":7,"total":8' || return 1
  stop_wsd
}
check "the end of a job has its last progress, however short it was" last_progress
