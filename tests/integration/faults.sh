#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# faults.sh: wsd while calls of libc fail beneath it (support/shims/faults.c): no memory, no descriptors, no space, interrupted
# calls, parts of what was asked for, a clock that jumps. Executors are killed meanwhile, so that what only happens at
# their start is met, too. wsd does not end, nobody waits for ever, no answer is wrong or comes twice; and once the faults
# are over all goes on, and nothing is left.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/inject.sh"

LOAD=$BUILD/tests/support/clients/load
PAYLOAD=$BUILD/tests/support/clients/payload
DIRECT=$BUILD/tests/support/clients/direct
SHIM=$BUILD/tests/support/shims/faults.so
SEED=${WSD_SEED:-$((RANDOM + 1))}
ROUNDS=${WSD_ROUNDS:-$((TIME_SCALE > 1 ? 1 : 2))}
[ -z "${WSD_THOROUGH:-}" ] || ROUNDS=25

if [ -n "${WSD_SANITIZE:-}" ]; then
  skip "injected faults" "a sanitizer has to be the first library of a process, and has its own malloc"
  exit 0
fi

nothing_is_left() {
  holds_nothing traces && [ "$(counter connections)" = 1 ]
}

injected() {
  od -An -t u8 -j 8 -N 8 "$WORK/faults" | tr -d ' '
}

# What comes under it: jobs with small and large inputs and outputs, questions, connections, reloads.
under_faults() {
  local loads=() pid i status_of status=0
  timeout $((60 * TIME_SCALE)) "$LOAD" -f -p 4 -w 32 -n 4000 echo >"$WORK/small" 2>&1 &
  loads+=($!)
  timeout $((60 * TIME_SCALE)) "$LOAD" -f -p 2 -w 4 -n 200 -b 300000 echo >"$WORK/large" 2>&1 &
  loads+=($!)
  timeout $((60 * TIME_SCALE)) "$LOAD" -f -p 2 -w 4 -n 100 -b 200000 echo:stream >"$WORK/streams" 2>&1 &
  loads+=($!)
  note_started "${loads[@]}"
  for pid in "${loads[@]}"; do
    until gone "$pid"; do
      pkill -KILL -P "$WSD_PID"
      kill -HUP "$WSD_PID" || return 1
      timeout 5 wsctl plugin list >/dev/null 2>&1
      timeout 5 wsctl --json list >/dev/null 2>&1
      timeout 5 wsctl submit --detach bigoutput 200000 >/dev/null 2>&1
      sleep 0.05
    done
    wait "$pid" || {
      status=1
      echo "exit $?"
    }
  done
  cat "$WORK/small" "$WORK/large" "$WORK/streams"
  # Arenas, with nothing beside them that would have wsd look again. Each may be refused, or lose its connection: none waits for ever.
  head -c 10000 /dev/zero >"$WORK/input"
  for ((i = 0; i < 60; i++)); do
    timeout $((20 * TIME_SCALE)) "$PAYLOAD" arena "$WORK/input" echo:shared 2 >/dev/null 2>&1
    [ $? != 124 ] || {
      echo "a job in an arena waits for ever"
      return 1
    }
  done
  # Direct lanes: a connection has one after some brief calls, and the next one when its executor has died.
  for ((i = 0; i < 8; i++)); do
    timeout $((20 * TIME_SCALE)) "$DIRECT" -p 2 -n 200 direct:again >"$WORK/direct" 2>/dev/null &
    pid=$!
    pkill -KILL -P "$WSD_PID"
    status_of=0
    wait "$pid" || status_of=$?
    [ "$status_of" != 124 ] || {
      echo "a direct call waits for ever"
      return 1
    }
    ! grep -E '(strange|wrong)=[1-9]' "$WORK/direct" || return 1
  done
  return $status
}

round() { # KIND RATE SEED
  local status=0
  head -c 16 /dev/zero >"$WORK/faults"
  WSD_PREFIX=(env "LD_PRELOAD=$SHIM" "FAULTS=$1" "FAULTS_RATE=$2" "FAULTS_SEED=$3" "FAULTS_FILE=$WORK/faults")
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || return 1
  WSD_PREFIX=()
  set_faults 1
  under_faults || status=1
  set_faults 0
  drawn=$(injected)
  echo "seed $3, $drawn faults"
  if gone "$WSD_PID"; then
    echo "wsd has ended"
    show "$WSD_LOG"
    return 1
  fi
  wait_until timeout 10 wsctl submit fib 20 || {
    echo "wsd does not serve any more"
    status=1
  }
  timeout $((60 * TIME_SCALE)) "$LOAD" -p 4 -n 2000 echo || status=1
  wait_until nothing_is_left || {
    echo "something is left"
    wsctl --json stats
    wsctl list
    status=1
  }
  if [ "$status" != 0 ]; then
    kill -KILL "$WSD_PID"
    show "$WSD_LOG"
    return 1
  fi
  stop_wsd
}

rounds() { # KIND RATE
  local i n=0 drawn
  for ((i = 0; n < ROUNDS; i++)); do
    [ "$i" -lt $((ROUNDS * 5)) ] || {
      echo "hardly any call has failed: this tests nothing"
      return 1
    }
    round "$1" "$2" $((SEED + i)) || return 1
    n=$((n + (drawn > 0))) # where few calls could fail, none may be drawn: the next seed
  done
}

shimmed() { # KINDS RATE [OPTION...]
  head -c 16 /dev/zero >"$WORK/faults"
  WSD_PREFIX=(env "LD_PRELOAD=$SHIM" "FAULTS=$1" "FAULTS_RATE=$2" "FAULTS_SEED=$SEED" "FAULTS_FILE=$WORK/faults")
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" "${@:3}" || return 1
  WSD_PREFIX=()
}
injected_are() { # AT LEAST
  [ "$(injected)" -ge "$1" ]
}
no_executor() {
  [ "$(counter executors)" = 0 ]
}

# The times that wsd sets for itself: where there is no memory for one it is set when there is again.
idle_time() {
  rm -f "$WORK/go"
  shimmed timers 1 && wsctl submit --detach ledger:gate "$WORK/go" && wait_until counter_is jobs_handed_over 1 || return 1
  set_faults 1
  touch "$WORK/go"
  wait_until injected_are 3 || return 1 # for the result, and for the executor that has nothing to do now
  set_faults 0
  wait_until no_executor && stop_wsd
}
two_connections() {
  [ "$(counter connections)" = 2 ]
}
pause_time() {
  local pid
  shimmed timers,spawn 1 && mkfifo "$WORK/items" || return 1
  exec 7<>"$WORK/items"
  wsctl map fib <"$WORK/items" >"$WORK/output" 7>&- &
  pid=$!
  note_started "$pid"
  wait_until two_connections || return 1
  set_faults 1
  echo 20 >&7
  exec 7>&-
  wait_until injected_are 20 || return 1
  set_faults 0
  wait_until gone "$pid" && [ "$(cat "$WORK/output")" = 6765 ] && stop_wsd
}
trial_time() {
  local i
  shimmed timers 2 && wsctl submit fib 20 || return 1
  set_faults 1
  for ((i = 0; i < 30; i++)); do
    timeout 10 wsctl plugin reload fib >/dev/null 2>&1
  done
  set_faults 0
  wait_until no_executor && stop_wsd
}

# A job has ended with words, and there is no memory for them: that is said in their place.
lost_words() { # OPTION...
  local id status=0
  set_faults 1
  id=$(wsctl submit --detach "$@" echo:status 5 words) && wait_until has_failed "$id" || return 1
  set_faults 0
  wsctl await "$id" 2>"$WORK/err" || status=$?
  cat "$WORK/err" "$WORK/json"
  [ "$status" = 5 ] && grep -q ': (wsd had no memory to keep the words)$' "$WORK/err" && grep -q '"status":"(wsd had no memory to keep the words)"' "$WORK/json"
}
has_failed() { # ID
  wsctl --json status "$1" >"$WORK/json" && grep '"state":"failed"' "$WORK/json"
}
words() {
  shimmed copies 1 && expect_exit 5 wsctl submit --durable echo:status 5 words && lost_words && lost_words --durable && stop_wsd
}

# An executor has said what a plugin is, and wsd could not take it: that is no fault of the executor's, nor of whose job it runs.
description() {
  local pid status=0
  shimmed texts 1 || return 1
  wsctl submit sleep:sleep 600000 &
  pid=$!
  note_started "$pid"
  wait_until sh -c "wsctl --json list | grep -q '\"running\"'" || return 1
  set_faults 1
  wsctl submit fib 20 2>"$WORK/err"
  [ $? = 75 ] && cat "$WORK/err" && grep -q 'out of memory' "$WORK/err" || return 1
  set_faults 0
  expect_output 6765 wsctl submit fib 20 && [ "$(counter executors_distrusted)$(counter executors_died)" = 00 ] || return 1
  wsctl --json list | grep -o '"id":"[0-9a-f]*"' | cut -d '"' -f 4 | xargs wsctl cancel
  wait "$pid" || status=$?
  [ "$status" = 130 ] && stop_wsd
}

# With executors that wsd does not end while one is stopped and has nothing to do.
patient() { # COMMAND...
  local status=0
  sed -i 's/^executor-idle = .*/executor-idle = 10min/' "$WSD_CONFIG"
  "$@" || status=$?
  sed -i 's/^executor-idle = .*/executor-idle = 500ms/' "$WSD_CONFIG"
  return "$status"
}

# An executor without a descriptor is asked for a plugin by somebody who has gone, and no other executor can be started: what is
# freed is filled, so that a look at it shows.
asked_to_load() { # LINES-BEFORE
  tail -n "+$(($1 + 1))" "$WSD_LOG" | grep 'executor 1 is to load it'
}
starved() {
  local executor asker before
  GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.perturb=171 shimmed spawn 1 --log-level debug && expect_output 6765 wsctl submit fib 20 || return 1
  executor=$(pgrep -P "$WSD_PID" -x wsd-executor) && prlimit --pid "$executor" --nofile=3: && stop_process "$executor" || return 1
  before=$(wc -l <"$WSD_LOG")
  wsctl plugin list &
  asker=$!
  note_started "$asker"
  wait_until asked_to_load "$before" && kill "$asker" && wait_until counter_is connections 1 || return 1
  set_faults 1
  kill -CONT "$executor"
  wait_until injected_are 1 || return 1
  set_faults 0
  expect_output 6765 wsctl submit fib 20 && wait_until wsctl plugin list && stop_wsd
}

# A plugin cannot be loaded, and there is no memory to keep why: the same refusal, and words that say so, for the one that waits for the load
# and for a job that was queued when its plugin could be loaded.
lost_reason() { # PID-OF-CLIENT
  local status=0
  wait "$1" || status=$?
  set_faults 0
  cat "$WORK/err"
  [ "$status" = 66 ] && grep -qF '(wsd had no memory to keep the words)' "$WORK/err"
}
reason() {
  local executor before asker
  cp "$PLUGINS/fib.so" "$WORK/own.so" && echo garbage >"$WORK/bad.so" && shimmed copies 1 --log-level debug || return 1
  expect_output 6765 wsctl submit "$WORK/own.so" 20 && executor=$(pgrep -P "$WSD_PID" -x wsd-executor) && stop_process "$executor" || return 1
  before=$(wc -l <"$WSD_LOG")
  wsctl submit "$WORK/bad.so" 2>"$WORK/err" &
  asker=$!
  note_started "$asker"
  wait_until asked_to_load "$before" && set_faults 1 && kill -CONT "$executor" && lost_reason "$asker" || return 1
  stop_process "$executor" || return 1
  wsctl submit "$WORK/own.so" 21 2>"$WORK/err" &
  asker=$!
  note_started "$asker"
  wait_until counter_is jobs_open 1 && cp "$WORK/bad.so" "$WORK/new.so" && mv "$WORK/new.so" "$WORK/own.so" && set_faults 1 && kill -KILL "$executor" &&
    lost_reason "$asker" && stop_wsd
}

# What the kernel lists, and does not say to the end, is not taken for less.
unlisted_threads() {
  start_wsd --workers 2 && inject_now getdents64:error=EIO && expect_output 6765 wsctl submit fib 20 &&
    wait_until grep -q 'executor 1: its threads cannot be listed: Input/output error' "$WSD_LOG" && end_injection &&
    kill_executor && expect_output 6765 wsctl submit fib 20 && stop_wsd
}
unread_cgroup() {
  inject openat:error=EMFILE && WSD_PREFIX+=(-P /proc/self/cgroup) && start_wsd --workers 2 || return 1
  stop_traced
  grep -q "executors have no cgroups: wsd's own cannot be read: Too many open files" "$WSD_LOG"
}
unread_mark() {
  inject getxattr:error=EIO && start_wsd --workers 2 || return 1
  expect_output 6765 wsctl submit fib 20
  stop_traced
  grep 'executors have no cgroups: whether /sys/fs/cgroup.* was delegated to wsd cannot be read: Input/output error' "$WSD_LOG"
}

# One that cannot start says why, and does not crash; one that can serves once the faults are over.
starts() { # KIND
  local i pid status told=0 served=0
  for ((i = 1; i <= ROUNDS * 10; i++)); do
    { printf '1' && head -c 15 /dev/zero; } >"$WORK/faults"
    : >"$WORK/log" # else the last one's may still be there, with its "is ready at"
    LD_PRELOAD=$SHIM FAULTS=$1 FAULTS_RATE=$((10 + i * 20)) FAULTS_SEED=$((SEED + i)) FAULTS_FILE=$WORK/faults \
      exec_wsd --socket "$WORK/start.sock" --executor "$EXECUTOR" --plugin-dir "$PLUGINS" >"$WORK/log" 2>&1 </dev/null &
    pid=$!
    note_started "$pid"
    wait_until ended_or_ready "$pid" || {
      echo "neither ready nor ended"
      return 1
    }
    set_faults 0
    if gone "$pid"; then
      status=0
      wait "$pid" || status=$?
      told=$((told + 1))
      [ "$status" -lt 126 ] && [ "$status" != 0 ] && [ -s "$WORK/log" ] && continue
      echo "seed $((SEED + i)): exit $status"
      show "$WORK/log"
      return 1
    fi
    wait_until wsctl --socket "$WORK/start.sock" submit fib 20 || {
      echo "seed $((SEED + i)): it does not serve"
      timeout 10 wsctl --socket "$WORK/start.sock" submit fib 20 2>&1
      show "$WORK/log"
      return 1
    }
    served=$((served + 1))
    kill -TERM "$pid"
    wait_for_exit "$pid" || {
      echo "seed $((SEED + i)): it does not end in order"
      return 1
    }
  done
  echo "$told could not start, $served served"
}
exec_wsd() {
  exec "$WSD" "$@"
}
ended_or_ready() { # PID
  gone "$1" || grep -q 'is ready at' "$WORK/log"
}

printf '[limits]\nexecutor-idle = 500ms\ncancel-grace = 300ms\nkeep-results = 500ms\nframe-timeout = 5s\n' >"$WSD_CONFIG"
check "hardly ever no memory, seed $SEED" rounds memory 300
check "often no memory, seed $SEED" rounds memory 40
check "no descriptors, seed $SEED" rounds descriptors 10
check "no space, seed $SEED" rounds space 10
check "no processes, seed $SEED" rounds spawn 3
check "calls interrupted or done in part, seed $SEED" rounds short 20
check "signals all the time, seed $SEED" rounds signals,short 50
check "the clock jumps by years, seed $SEED" rounds clock 10
check "all of it, seed $SEED" rounds memory,descriptors,space,spawn,short,signals,clock 200
check "no memory for the time after which an executor is ended" idle_time
check "no memory for the pause before the next executor" pause_time
check "no memory for the end of a trial" trial_time
check "no memory for what an executor says of a plugin" description
check "an executor without descriptors, and no other, for a plugin that nobody wants now" patient starved
# What starts executors does not get the descriptors for one: they are not the next one's.
starter() { # the thread with four descriptors; the others have the loop's
  local task
  for task in "/proc/$WSD_PID/task/"*; do
    [ "$(find "$task/fd" -mindepth 1 | wc -l)" != 4 ] || echo "${task##*/}"
  done
}
is_traced_thread() { # TID
  ! grep -q '^TracerPid:[[:space:]]*0$' "/proc/$WSD_PID/task/$1/status"
}
unreceived() {
  local tid
  : >"$WSD_CONFIG"
  start_wsd --workers 1 && tid=$(starter) && [ -n "$tid" ] || return 1
  background strace -qq -o "$WORK/trace" -p "$tid" -e trace=recvmsg -e inject=recvmsg:error=ENOMEM:when=1
  wait_until is_traced_thread "$tid" && expect_output 6765 timeout $((30 * TIME_SCALE)) wsctl submit fib 20 || return 1
  kill "$BACKGROUND_PID"
  wait_for_exit "$BACKGROUND_PID"
  grep -q INJECTED "$WORK/trace" && stop_wsd
}

check "no memory for why a plugin cannot be loaded" patient reason
if can_inject; then
  check "an executor's descriptors are not received by what starts it" unreceived
  check "the list of an executor's threads ends with an error" unlisted_threads
  check "wsd's cgroup cannot be read" unread_cgroup
  check "the mark of delegation cannot be read" unread_mark
else
  skip "an executor's descriptors are not received by what starts it" "needs root and strace"
  skip "the list of an executor's threads ends with an error" "needs root and strace"
  skip "wsd's cgroup cannot be read" "needs root and strace"
  skip "the mark of delegation cannot be read" "needs root and strace"
fi
check "no memory for the words of an end" words
check "started with hardly any memory, seed $SEED" starts memory
check "started with hardly any descriptors or space, seed $SEED" starts descriptors,space
