#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# runner-conf.sh: jobs that wait for a runner that is not there, by --wait-runner and by [runner NAME] of wsd.conf; durable
# ones also over the end of wsd. Who may run for whom, and how many (two users).
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/runners.sh"

WSD_OPTIONS=(--workers 2)
export WSD_SOCKET=$WORK/w.sock
waits() { # FILE ARGUMENT...: a job that waits for its runner
  local file=$1
  shift
  submit_behind "$file" --wait-runner "$@"
  wait_until is_queued 1
}
id_of_queued() { wsctl list --state queued --json | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p'; }

printf '[limits]\nkeep-results = 500ms\n' >"$WSD_CONFIG"
serve || exit 1

# --- a submission that waits ------------------------------------------------------------------------------------------

check "without the flag, a runner that is not there is a refusal" refused 66 'pyrunner' wsctl submit pyrunner:args x
comes_later() { waits a pyrunner:args late && run_runner a && has_ended a 0 && same late "$(cat "$WORK/a.out")" && end_runner a; }
check "with it the job waits, and runs when one comes" comes_later
cancelled() { waits a pyrunner:args x && wsctl cancel "$(id_of_queued)" && has_ended a 130 && is_queued 0; }
check "it can be cancelled meanwhile" cancelled
check "its time in the queue ends it" says 124 'max-wait' wsctl submit --wait-runner --max-wait 100ms pyrunner:args x
interrupted() {
  background wsctl submit --wait-runner pyrunner:args x
  wait_until is_queued 1 && kill -TERM "$BACKGROUND_PID" && wait_until is_queued 0
}
check "so does the end of its connection" interrupted
other_function() { waits a pyrunner:nothing && run_runner a && has_ended a 66 && grep -q 'no runner of this name offers' "$WORK/a.err" && end_runner a; }
check "one whose function no runner offers ends when one comes" other_function
check "a function must be named while none is known" refused 64 'name it, as other:FUNCTION' wsctl submit --wait-runner other
check "a plugin needs no runner" expect_output hello wsctl submit --wait-runner echo hello
array_waits() {
  local pid
  (seq 50 | wsctl map --wait-runner pyrunner:line >"$WORK/map.out") &
  pid=$!
  wait_until is_queued 50 && run_runner a --credit 8 && wait $pid && sort -n "$WORK/map.out" | cmp - <(seq 50) && end_runner a
}
check "those of an array wait" array_waits
scheduled() {
  wsctl schedule add waiting --on '2030-01-01' --wait-runner -- pyrunner:args by schedule || return 1
  wsctl schedule run waiting && wait_until is_queued 1 && run_runner a && wait_until is_queued 0 && end_runner a &&
    wsctl schedule remove waiting
}
check "and those of schedules" scheduled
functions() {
  local i
  for ((i = 0; i < 32; i++)); do wsctl submit --detach --wait-runner many:f$i >>"$WORK/many" || return 1; done
  wsctl submit --detach --wait-runner many:f31 >>"$WORK/many" && refused 75 'name 32 functions' wsctl submit --wait-runner many:f32 || return 1
  xargs wsctl cancel <"$WORK/many" && wait_until jobs_are queued 0
}
check "jobs of a name wait for 32 functions at most" functions
names() {
  local i
  wait_until holds_nothing || return 1 # else the names of results that are kept count
  for ((i = 0; i < 64; i++)); do wsctl submit --detach --wait-runner name-$i:f >>"$WORK/names" || return 1; done
  refused 75 'have 64 names' wsctl submit --wait-runner name-64:f && wsctl submit --detach --wait-runner name-0:f >>"$WORK/names" || return 1
  xargs wsctl cancel <"$WORK/names" && wait_until holds_nothing && wsctl submit --detach --wait-runner name-64:f >"$WORK/names" &&
    xargs wsctl cancel <"$WORK/names"
}
check "those of a user wait for 64 names, and names that nothing needs do not count" names

# --- durable ones, over the end of wsd --------------------------------------------------------------------------------

has_run() { same "$1" "$(wsctl await "$id")" && same 1 "$(grep -c "^$1\$" "$WORK/ledger")"; } # WORD: once
durable_waits() {
  id=$(wsctl submit --durable --detach --wait-runner pyrunner:args first) || return 1
  kill_wsd
  serve || return 1
  job_is queued "$id" && run_runner a --ledger "$WORK/ledger" && has_run first && end_runner a
}
check "a durable job that waits does so in the next wsd" durable_waits
durable_runs() {
  run_runner a --ledger "$WORK/ledger" && id=$(wsctl submit --durable --detach pyrunner:sleep 1 second) &&
    wait_until job_is running "$id" || return 1
  kill_wsd
  wait_until closed a
  serve || return 1
  job_is queued "$id" && run_runner a --ledger "$WORK/ledger" && expect_output 'stopped 0' wsctl await "$id" &&
    same 2 "$(grep -c "^1 second\$" "$WORK/ledger")" && end_runner a
}
check "one that ran, and may run twice, waits there for its runner" durable_runs
durable_interrupted() {
  run_runner a --ledger "$WORK/ledger" && id=$(wsctl submit --durable --detach pyrunner:mute third) &&
    wait_until grep -q third "$WORK/ledger" || return 1
  kill_wsd
  wait_until closed a
  serve && expect_exit 125 wsctl await "$id" && same 1 "$(grep -c '^third$' "$WORK/ledger")"
}
check "one that ran, and may not, is interrupted" durable_interrupted
durable_behind() { # it waits for a runner that is full
  local first
  run_runner a --credit 1 --ledger "$WORK/ledger" && first=$(wsctl submit --detach pyrunner:sleep 60) && wait_until job_is running "$first" &&
    id=$(wsctl submit --durable --detach pyrunner:say fourth) && job_is queued "$id" || return 1
  kill_wsd
  wait_until closed a
  serve && job_is queued "$id" && run_runner a --ledger "$WORK/ledger" && expect_exit 0 wsctl await "$id" &&
    same 1 "$(grep -c '^fourth$' "$WORK/ledger")" && end_runner a
}
check "one that waited for a runner that was full has not begun" durable_behind
stop_wsd
