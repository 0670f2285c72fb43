#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# batch.sh: many jobs in one frame, and batches: each item is a job of its own, and all of them are one unit.
. "$(dirname "$0")/../support/lib.sh"

one() { # CASE WORDS
  check "$2" "$BUILD/tests/support/clients/array" "$1"
}

start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
one many_items "thousands of items in one frame, each with its own answer"
one items_that_speak "what items say comes behind ACCEPTED"
one quiet_items "no ACCEPTED where none is wanted"
one output_beyond_the_window "each item has a window of its own"
one nothing_that_can_be_called "what cannot be called is said for each item"
one flags_that_do_not_go "flags of a SUBMIT that an ARRAY cannot have"
one a_batch_that_goes_well "two frames, one batch, which ends when it is closed"
one a_failure_stops_those_behind "a failure stops those behind it, and no others"
one a_failure_that_stops_nothing "a failure stops nothing where that is not wanted"
one cancel_all "a batch of thousands is cancelled, by id and by tag"
one a_batch_that_is_detached "a detached batch outlives its connection"
one a_connection_that_goes "another one does not"
one too_many_batches "open batches are limited, below, at and above"
stop_wsd

printf '[limits]\nmax-jobs-per-user = 5\n' >"$WSD_CONFIG"
start_wsd --workers 8 --plugin-dir "$TEST_PLUGINS" || exit 1
one quota_in_the_middle "the quota of jobs, below, at and above"
stop_wsd
printf '[limits]\nmax-bytes-per-user = 1000\n' >"$WSD_CONFIG"
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
one bytes_in_the_middle "the quota of bytes in the middle of a frame"
stop_wsd
printf '[limits]\nmax-rate-per-user = 1\nrate-burst = 5\n' >"$WSD_CONFIG"
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
one rate_in_the_middle "the rate in the middle of a frame, and when to try again"
stop_wsd

MAPPED=$BUILD/tests/support/clients/mapped

# A hundred thousand items beside executors that are killed: as often as it goes.
beside_killed_executors() {
  local pid n=0
  "$MAPPED" $((${WSD_THOROUGH:+10}100000)) echo &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    wait_until moved_on 100 "$pid"
    kill_executor && n=$((n + 1))
    read -rt 0.15 <> <(:)
  done
  wait "$pid" && [ "$n" -ge 1 ]
}

# Others' answers are not held back as long as somebody's go on.
beside_millions() {
  local pid n=0
  "$MAPPED" 3000000 echo &
  pid=$!
  while kill -0 "$pid" 2>/dev/null && "$MAPPED" 200 echo; do
    n=$((n + 1))
  done
  echo "$n times 200 beside three million"
  wait "$pid" && [ "$n" -ge 5 ]
}

statuses() {
  local words
  words=$("$MAPPED" statuses 0 9 0 7 0)
  [ $? = 9 ] && [ "$(grep -v "^item" <<<"$words" | sort -n)" = $'0 succeeded\n1 failed\n2 succeeded\n3 failed\n4 succeeded' ] &&
    grep -q 'item 1: ' <<<"$words"
}

: >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "wsd_map(): each item of many has its own answer" "$MAPPED" 20000 echo
check "and so it is beside executors that are killed" beside_killed_executors
check "those of others are told meanwhile" beside_millions
check "with --keep-going the others go on, the first failure is the error" statuses
check "items of all kinds: what is told of each" "$MAPPED" mixed 2000
check "and when their callbacks go on with the connection" "$MAPPED" mixed 2000 again
check "inputs of all sizes" "$MAPPED" large 200000
check "inputs at the edge of a frame" "$MAPPED" large 32768
check "and above it" "$MAPPED" large 32769
check "a batch's handle, and its id" "$MAPPED" handle
check "what cannot be called is said for each" expect_exit 66 "$MAPPED" 10 no-such-plugin
check "no item at all" "$MAPPED" 0 echo
check "wsd_map() of durable jobs, each by itself" "$MAPPED" 200 echo durable

in_order() {
  same "$(seq 3000)" "$(seq 3000 | wsctl map echo)" && same 3000 "$(seq 3000 | wsctl --json map -u echo | grep -c '"batch":"[0-9a-f]\{32\}"')"
}
stops() {
  expect_exit 7 wsctl --quiet map echo:status ::: 0 0 7 0 2>"$WORK/err" && same "wsctl: 7: failed with status 7" "$(cat "$WORK/err")" && expect_exit 9 wsctl map -k echo:status ::: 0 9 0 7 0 2>"$WORK/err" && grep -q "wsctl: 7: " "$WORK/err"
}
batch_is() { # KEY VALUE
  wsctl --json status "$ID" | grep -q "\"$1\":$2[,}]"
}
by_its_id() {
  ID=$(seq 300 311 | wsctl map --detach sleep:sleep) && [ ${#ID} = 32 ] || return 1
  batch_is total 12 && batch_is closed true && wsctl status "$ID" | grep -q '^jobs      12$' &&
    same 12 "$(wsctl --json list --batch "$ID" | wc -l)" || return 1
  wsctl await "$ID" && batch_is "done" 12 && batch_is failed 0 && batch_is ended true &&
    wsctl --json await "$ID" | grep -q '"total":12' || return 1
  ID=$(wsctl map --detach -k echo:status ::: 0 0 5 3) && expect_exit 5 wsctl await "$ID" 2>"$WORK/err" &&
    grep -q "2 of 4 jobs did not succeed" "$WORK/err" || return 1
  ID=$(wsctl map --detach echo:status ::: 5) && expect_exit 5 wsctl await "$ID" 2>"$WORK/err" &&
    grep -q "1 of 1 job did not succeed" "$WORK/err"
}
cancelled_by_its_id() {
  ID=$(seq 600001 600500 | wsctl map --detach sleep:sleep) || return 1
  background wsctl await "$ID"
  wait_until batch_is running 2 && wsctl cancel "$ID" || return 1
  wait "$BACKGROUND_PID"
  [ $? = 130 ] && batch_is "done" 500 && batch_is failed 500 && batch_is stopped true &&
    ID=$(seq 600001 600050 | wsctl map --detach sleep:sleep) &&
    same "cancelled 50 jobs" "$(wsctl cancel --batch "$ID")" && expect_exit 130 wsctl await "$ID"
}
heeds_term() { # PID
  local caught
  caught=$(sed -n 's/^SigCgt:\t//p' "/proc/$1/status") && [ -n "$caught" ] && ((0x$caught >> 14 & 1))
}
awaited_no_more() { # a signal ends the wait for all that are named
  local first
  first=$(seq 600001 600003 | wsctl map --detach sleep:sleep) && ID=$(seq 600001 600003 | wsctl map --detach sleep:sleep) || return 1
  background wsctl await "$first" "$ID"
  wait_until heeds_term "$BACKGROUND_PID" && kill -TERM "$BACKGROUND_PID" || return 1
  wait_for_exit "$BACKGROUND_PID"
  [ $? = 130 ] && wsctl cancel "$first" && wsctl cancel "$ID"
}
cancelled_while_mapped() {
  background wsctl map sleep:sleep ::: {600001..600020} 2>"$WORK/err"
  wait_until sh -c "wsctl --json list --state running | grep -q batch" || return 1
  ID=$(wsctl --json list --state running | sed -n 's/.*"batch":"\([0-9a-f]*\)".*/\1/p' | head -n 1)
  wsctl cancel "$ID" || return 1
  wait "$BACKGROUND_PID"
  [ $? = 130 ] && [ "$(wc -l <"$WORK/err")" -le 3 ] # of those that ran, and of the first that did not
}
no_such_one() {
  local id=0123456789abcdef0123456789abcdef
  for verb in status cancel await; do
    expect_exit 66 wsctl $verb $id 2>"$WORK/err" || return 1
  done
  [ -z "$(wsctl --json list --batch $id)" ] && expect_exit 64 wsctl list --batch x && expect_exit 64 wsctl map --durable --detach echo ::: 1
}
mapped_right() { # N COMMAND...
  same "$(seq "$1")" "$(seq "$1" | "${@:2}")"
}
check "wsctl map: in order, and each item says its batch" in_order
check "a failure stops the rest, --keep-going does not" stops
check "map --detach gives an id: status, list, await" by_its_id
check "a batch is cancelled by its id" cancelled_by_its_id
check "wsctl await of several ends with a signal" awaited_no_more
check "so it is while wsctl map waits for it" cancelled_while_mapped
check "ids that are no batch" no_such_one
check "map --durable" mapped_right 20 wsctl map --durable echo
stop_wsd

printf '[limits]\nmax-jobs-per-user = 50\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "wsd_map() goes on where the quota ends" "$MAPPED" 20000 echo
check "and so does wsctl map" mapped_right 3000 wsctl map echo
stop_wsd
printf '[limits]\nmax-rate-per-user = 500\nrate-burst = 100\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "wsd_map() waits for the rate" "$MAPPED" 500 echo wait
check "wsctl map --wait-for-room does" mapped_right 300 wsctl map --wait-for-room echo
stop_wsd
