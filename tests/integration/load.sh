#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# load.sh: nothing is lost and nothing is answered twice: many clients, executors that die, a daemon that is told to
# stop, clients that are killed.
. "$(dirname "$0")/../support/lib.sh"

LOAD=$BUILD/tests/support/clients/load
ALL=100000
JOBS=$((ALL / TIME_SCALE / 160 * 160)) # shared out among 8, also a twentieth of it
KILLS=20
[ -z "${WSD_THOROUGH:-}" ] || KILLS=200

count() { # NAME FILE: one of the numbers that load printed
  sed -n "s/.*\b$1 \([0-9]*\).*/\1/p" "$2"
}

# kill -9 for the executors of our wsd, again and again while the command runs; each has got to work.
while_executors_die() { # COMMAND...
  local n=0 load
  "$@" &
  load=$!
  note_started "$load"
  while ! gone "$load" && [ "$n" -lt "$KILLS" ]; do
    wait_until moved_on 100 "$load" || break
    sleep 0.04
    kill_executor && n=$((n + 1))
  done
  echo "$n" >"$WORK/kills"
  wait "$load"
}

all_right() { # FILE
  [ "$(count right "$1")" = "$JOBS" ] && [ "$(count answered "$1")" = "$JOBS" ]
}

every_answer_is_right() {
  "$LOAD" -p 8 -n "$JOBS" echo | tee "$WORK/load" && all_right "$WORK/load"
}

large_payloads_too() {
  "$LOAD" -p 4 -n 2000 -w 8 -b 50000 echo | tee "$WORK/load" && [ "$(count right "$WORK/load")" = 2000 ]
}

# Idempotent jobs run again: all of them succeed.
idempotent_jobs_survive() {
  while_executors_die "$LOAD" -p 8 -n $((JOBS * 5)) echo >"$WORK/load"
  local status=$?
  cat "$WORK/load" "$WORK/kills"
  [ "$status" = 0 ] && [ "$(count succeeded "$WORK/load")" = $((JOBS * 5)) ] && [ "$(cat "$WORK/kills")" -gt 0 ]
}

# Others are told; no more of them than could have been running.
other_jobs_are_told() {
  while_executors_die "$LOAD" -p 8 -n $((JOBS / 20)) slow >"$WORK/load"
  local status=$? hurt
  cat "$WORK/load" "$WORK/kills"
  hurt=$(($(count crashed "$WORK/load") + $(count interrupted "$WORK/load")))
  [ "$status" = 0 ] && [ "$(count answered "$WORK/load")" = $((JOBS / 20)) ] &&
    [ "$hurt" -le $(($(cat "$WORK/kills") * 2)) ] && [ "$hurt" -gt 0 ] &&
    [ "$(count succeeded "$WORK/load")" = $((JOBS / 20 - hurt)) ]
}

# Most of them. None begins before that.
queue_is_long() {
  [ "$(counter jobs_open)" -gt $((JOBS * 3 / 4)) ]
}

# Half of the jobs may run twice, half may not. They are queued before the first kill; each kill finds an executor, at a random time
# after the one before, every other one an executor that has done a lot, whatever the machine: a function that is in an executor's
# first jobs three times running is to blame for it (a job has three attempts, a function as many deaths that nobody explained).
# Adds to kills and hurt.
a_round_of_kills() {
  local JOBS=$ALL load status=0 before=$kills interrupted
  wsctl pause slow || return 1
  "$LOAD" -p 8 -n "$JOBS" -w "$JOBS" -m slow slow:again >"$WORK/load" 2>&1 &
  load=$!
  note_started "$load"
  wait_until queue_is_long || {
    echo "no long queue"
    cat "$WORK/load"
    return 1
  }
  wsctl resume slow || return 1
  while [ "$kills" -lt 50 ] && ! gone "$load"; do
    [ $((kills % 2)) = 0 ] || wait_until moved_on 400 "$load" || {
      echo "at rest after $kills kills"
      return 1
    }
    sleep "0.0$((RANDOM % 90 + 10))"
    kill_executor && kills=$((kills + 1))
  done
  wait "$load" || status=$?
  cat "$WORK/load"
  interrupted=$(($(count crashed "$WORK/load") + $(count interrupted "$WORK/load")))
  hurt=$((hurt + interrupted))
  [ "$status" = 0 ] && [ "$(count submitted "$WORK/load")" = "$JOBS" ] && [ "$(count answered "$WORK/load")" = "$JOBS" ] &&
    [ "$(count lost "$WORK/load")" = 0 ] && [ "$(count doubled "$WORK/load")" = 0 ] &&
    [ "$(count wrong "$WORK/load")" = 0 ] && [ "$(count others "$WORK/load")" = $((JOBS / 2)) ] &&
    # the idempotent ones: all; the others: no more are interrupted than could have been running
    [ "$(($(count succeeded "$WORK/load") - $(count others-succeeded "$WORK/load")))" = $((JOBS / 2)) ] &&
    [ "$(count right "$WORK/load")" = $((JOBS - interrupted)) ] && [ "$interrupted" -le $(((kills - before) * 8)) ]
}

# Where all jobs are done before the last kill, as many are queued again.
fifty_random_kills() {
  local kills=0 hurt=0 before
  before=$(counter executors_died)
  while [ "$kills" -lt 50 ]; do
    a_round_of_kills || return 1
  done
  echo "kills $kills, executors died $(($(counter executors_died) - before)), interrupted $hurt"
  [ "$hurt" -gt 0 ] && [ "$(($(counter executors_died) - before))" -ge "$kills" ]
}

killed_clients_harm_nobody() {
  local victim
  "$LOAD" -p 4 -n $((JOBS * 2)) echo >"$WORK/load" &
  local innocent=$!
  note_started "$innocent"
  for _ in 1 2 3 4 5; do
    "$LOAD" -p 2 -n 10000000 -b 3000 echo >/dev/null 2>&1 &
    victim=$!
    note_started "$victim"
    wait_until pgrep -P "$victim"
    sleep 0.05
    pkill -KILL -P "$victim"
    kill -KILL "$victim"
    wait "$victim"
  done 2>/dev/null
  wait "$innocent" && cat "$WORK/load" && [ "$(count right "$WORK/load")" = $((JOBS * 2)) ]
}

enough_answers() { # well under way
  [ "$(counter jobs_succeeded)" -gt "$under_way" ]
}

term_under_load_answers_what_was_accepted() {
  local under_way
  under_way=$(($(counter jobs_succeeded) + 5000))
  "$LOAD" -t -p 8 -n 100000000 echo >"$WORK/load" &
  local load=$!
  note_started "$load"
  wait_until enough_answers || return 1
  stop_wsd || return 1
  wait "$load"
  local status=$?
  cat "$WORK/load"
  [ "$status" = 0 ] && [ "$(count accepted "$WORK/load")" = "$(count answered "$WORK/load")" ] &&
    [ "$(count succeeded "$WORK/load")" -gt 0 ]
}

second_term_ends_at_once() {
  local job exit=0
  wsctl submit spin:deaf >"$WORK/deaf" 2>&1 &
  job=$!
  wait_until sh -c "wsctl --json list | grep -q running"
  kill -TERM "$WSD_PID"
  wait_until grep -q draining "$WSD_LOG"
  gone "$WSD_PID" && return 1
  stop_wsd || return 1
  wait "$job" || exit=$?
  cat "$WORK/deaf"
  [ "$exit" = 125 ]
}

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS"
check "$JOBS jobs from 8 clients: as many right answers, none twice" every_answer_is_right
check "large payloads too" large_payloads_too
check "executors killed under load: idempotent jobs all succeed" idempotent_jobs_survive
check "executors killed under load: others succeed or are told" other_jobs_are_told
check "clients killed in mid-submit harm nobody" killed_clients_harm_nobody
check "no job is left behind" wait_until counter_is jobs_open 0
check "SIGTERM under load: what was accepted is answered, exit 0" term_under_load_answers_what_was_accepted
start_wsd --workers 8 --plugin-dir "$TEST_PLUGINS"
check "$ALL jobs queued from 8 clients, the executor killed 50 times at random: lost 0, doubled 0, idempotent ones succeed" \
  fifty_random_kills
check "and none of them is left behind" wait_until counter_is jobs_open 0
stop_wsd
start_wsd --workers 16 --plugin-dir "$TEST_PLUGINS"
check "16 workers: every answer right" every_answer_is_right
stop_wsd
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS"
check "a second SIGTERM ends at once, and the job is told" second_term_ends_at_once
