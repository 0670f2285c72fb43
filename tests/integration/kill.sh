#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# kill.sh: kill -9 of wsd, at each stage and at random. Its executors die with it, nothing is left that would block a
# restart, each client is told with the exit code of wsctl(1), and a wsd that is started on the same path serves.
. "$(dirname "$0")/../support/lib.sh"

LOAD=$BUILD/tests/support/clients/load
ROUNDS=${WSD_ROUNDS:-12}
[ -z "${WSD_THOROUGH:-}" ] || ROUNDS=300

at_least() { # NAME VALUE
  [ "$(counter "$1")" -ge "$2" ]
}

children() {
  pgrep -P "$WSD_PID" | tr '\n' ' '
}
all_gone() { # PID...
  local pid
  for pid; do
    [ ! -e "/proc/$pid" ] || [ "$(sed 's/.*) //; s/ .*//' "/proc/$pid/stat" 2>/dev/null)" = Z ] || return 1
  done
}

client() { # COMMAND...: it goes on in the background, and what it says and exits with is kept
  (
    "$@" >"$WORK/client.out" 2>"$WORK/client.err"
    echo $? >"$WORK/client.exit"
  ) </dev/null &
  CLIENT=$!
  note_started "$CLIENT"
}

# The client has been told in one line: 69, no daemon there; 125 where wsd had its job, which may have run.
client_is_told() { # EXIT
  wait_until gone "$CLIENT" || {
    echo "the client waits on"
    return 1
  }
  cat "$WORK/client.err"
  [ "$(cat "$WORK/client.exit")" = "$1" ] || {
    echo "exit $(cat "$WORK/client.exit") where $1 was expected"
    return 1
  }
  [ "$(wc -l <"$WORK/client.err")" = 1 ] && grep -q '^wsctl: ' "$WORK/client.err"
}

# Kills it now; afterwards another one on the same path does all that the first one did.
kill_and_serve() {
  local pids
  pids=$(children)
  kill_wsd
  # shellcheck disable=SC2086
  wait_until all_gone $pids || {
    echo "left: $pids"
    return 1
  }
  serve || {
    echo "no restart"
    show "$WSD_LOG"
    return 1
  }
  expect_output 6765 wsctl submit fib 20
}

stage_accepted() { # its input has not come to its end
  mkfifo "$WORK/input"
  client "$WSCTL" submit --input "$WORK/input" echo
  exec 9>"$WORK/input"
  head -c 400000 /dev/zero >&9
  wait_until some_job_is held || return 1
  kill_and_serve
  exec 9>&-
  client_is_told 125
}
stage_queued() {
  client sh -c 'yes 60000 | head -n 40 | "$0" map --jobs 40 sleep:sleep' "$WSCTL"
  wait_until at_least jobs_open 40 || return 1
  kill_and_serve && client_is_told 125
}
stage_running() {
  client "$WSCTL" submit spin:deaf
  wait_until some_job_is running || return 1
  kill_and_serve && client_is_told 125
}
stage_streaming() { # a reader that stands still: the job is in the middle of its output
  client sh -c '"$0" submit bigoutput 2000000000 | { head -c 1000000 >/dev/null; sleep 600; }' "$WSCTL"
  wait_until some_job_is running && wait_until reader_stands || return 1
  kill_and_serve || return 1
  kill -KILL "$READER"
  wait_until gone "$CLIENT"
}
reader_stands() { # it has read what it wanted
  READER=$(pgrep -P "$(pgrep -P "$CLIENT")" sleep)
}
stage_loading() { # the plugin's constructor hangs
  client "$WSCTL" submit "$TEST_PLUGINS/hostile/$1.so"
  wait_until is_loading "$1" || return 1
  kill_and_serve && client_is_told 125 # it was sent, so it may have run
}
is_loading() { # PLUGIN: the executor that was there has it mapped
  grep -q "$1.so" "/proc/$(pgrep -P "$WSD_PID")/maps"
}
stage_executor_starting() {
  client "$WSCTL" submit fib 20
  wait_until pgrep -P "$WSD_PID" >/dev/null
  kill_and_serve
  # it may have got ready meanwhile: then the job was accepted, and lost, or had even ended
  wait_until gone "$CLIENT" && case $(cat "$WORK/client.exit") in 0 | 69 | 125) true ;; *) false ;; esac
}
stage_draining() {
  : >"$WSD_LOG"
  client "$WSCTL" submit sleep:sleep 600000
  wait_until some_job_is running || return 1
  kill -TERM "$WSD_PID"
  wait_until grep -q draining "$WSD_LOG" || return 1
  expect_exit 75 wsctl submit fib 20
  kill_and_serve && client_is_told 125
}

# At any moment under load of everything: clients end, each with one end for each of its jobs; nothing is left.
at_random() {
  local i pid loads pids
  for ((i = 1; i <= ROUNDS; i++)); do
    loads=()
    "$LOAD" -t -p 3 -w 32 -n 300000000 echo >"$WORK/small" 2>"$WORK/load.err" &
    loads+=($!)
    "$LOAD" -t -p 2 -w 4 -n 1000000 -b 200000 echo:stream >"$WORK/large" 2>>"$WORK/load.err" &
    loads+=($!)
    yes 100000 | head -n 1000000 | wsctl map --jobs 8 bigoutput >/dev/null 2>&1 &
    loads+=($!)
    note_started "${loads[@]}"
    wait_until at_least jobs_succeeded $((RANDOM % 3000)) || return 1
    pids=$(children)
    kill_wsd
    for pid in "${loads[@]}"; do
      wait_until gone "$pid" || {
        echo "round $i: a client waits on"
        return 1
      }
    done
    # shellcheck disable=SC2086
    wait_until all_gone $pids || {
      echo "round $i: executors are left: $pids"
      return 1
    }
    for f in small large; do
      cat "$WORK/$f"
      grep -q 'wrong 0 doubled 0 .* strange 0 ' "$WORK/$f" || {
        echo "round $i: see above"
        return 1
      }
    done
    if ! serve || ! expect_output 6765 wsctl submit fib 20 || ! counter_is connections 1; then
      echo "round $i: not as before"
      show "$WSD_LOG"
      return 1
    fi
  done
}

# Restarts without anything between them. From the kill to the first answer most take less than a second.
again_and_again() {
  local i began took slow=0
  for ((i = 0; i < ROUNDS; i++)); do
    began=${EPOCHREALTIME/[.,]/}
    kill_wsd
    serve || return 1
    took=$((${EPOCHREALTIME/[.,]/} - began))
    echo "$took us"
    [ "$took" -lt $((1000000 * TIME_SCALE)) ] || slow=$((slow + 1))
  done
  [ $((slow * 2)) -lt "$ROUNDS" ] && expect_output 6765 wsctl submit fib 20
}

mkdir "$WORK/run"
export WSD_SOCKET=$WORK/run/wsd.sock
serve || exit 1
check "while a job's input comes" stage_accepted
check "while jobs are queued" stage_queued
check "while a job runs that heeds nothing" stage_running
check "while output goes to a reader who stands still" stage_streaming
check "while a plugin is loaded" stage_loading ctor-hang
check "while an executor starts" stage_executor_starting
check "while it drains" stage_draining
check "at random under load, $ROUNDS times" at_random
check "$ROUNDS restarts one upon the other" again_and_again
kill -TERM "$WSD_PID"
check "the last one ends in order" wait_for_exit "$WSD_PID"
clean_log "$WSD_LOG"
check "and nothing is left" sh -c '[ -z "$(ls -A "$0")" ]' "$WORK/run"
