#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# full.sh: the state directory has no room left. New durable jobs are refused with the reason, those that run end and are
# told, nothing is damaged, and all goes on when there is room again.
. "$(dirname "$0")/../support/lib.sh"

STATE=$WORK/small
mkdir "$STATE"
if ! mount -t tmpfs -o size=2m,mode=0700 none "$STATE" 2>"$WORK/err"; then
  skip full "no tmpfs of its own: $(head -n 1 "$WORK/err")"
  exit 0
fi
on_exit umount -l "$STATE"

fill() {
  head -c 4000000 /dev/zero >"$STATE/filler" 2>/dev/null
  [ "$(df --output=avail "$STATE" | tail -n 1)" -eq 0 ]
}
refused_for_room() {
  expect_exit 75 wsctl submit --durable echo "$1" >"$WORK/out" 2>"$WORK/err" || {
    cat "$WORK/err"
    return 1
  }
  grep -q '^wsctl: echo: .*the file system is full' "$WORK/err" || {
    cat "$WORK/err"
    return 1
  }
}
# The disk as it is at one moment: files that are copied one after the other while wsd writes are of several.
copy() {
  local status=0
  rm -rf "$WORK/copy"
  mkdir -m 700 "$WORK/copy"
  stop_process "$WSD_PID" && cp "$STATE"/jobs.db* "$WORK/copy" || status=1
  kill -CONT "$WSD_PID"
  return $status
}
is_sound() {
  copy && expect_output ok sqlite3 "$WORK/copy/jobs.db" 'PRAGMA integrity_check'
}
start_there() {
  start_wsd --plugin-dir "$TEST_PLUGINS" --workers 2 --state-dir "$STATE"
}

refuses_and_recovers() {
  local id _
  id=$(wsctl submit --durable --detach ledger:gate "$WORK/gate") || return 1
  wait_until job_is running "$id" || return 1
  fill || {
    echo "it is not full"
    return 1
  }
  # what lies in the log's file already is room: a few more may fit
  for _ in {1..500}; do
    wsctl submit --durable --detach --input "$WORK/piece" echo >/dev/null 2>&1 || break
  done
  refused_for_room now || return 1
  expect_output 6765 wsctl submit fib 20 || return 1
  expect_output there wsctl submit echo there || return 1
  : >"$WORK/gate"
  expect_output open wsctl await "$id" || {
    echo "one that ran does not end"
    return 1
  }
  rm "$STATE/filler"
  expect_output after wsctl submit --durable echo after || return 1
  # an end that could not be written is, now
  wait_until saved "$id" || {
    echo "its end is never written"
    return 1
  }
  is_sound
}
# By what another wsd reads from a copy of the disk.
saved() { # ID
  local socket=$WSD_SOCKET pid=$WSD_PID log=$WSD_LOG status=0
  copy || return 1
  start_wsd --state-dir "$WORK/copy" && job_is succeeded "$1" || status=1
  stop_wsd || status=1
  WSD_SOCKET=$socket WSD_PID=$pid WSD_LOG=$log
  return $status
}

# One that may not run twice, and cannot be marked, waits for room.
waits_for_room() {
  local id _
  rm -f "$WORK/gate"
  for _ in 1 2 3 4; do
    wsctl submit --durable --detach ledger:gate-once "$WORK/gate" >/dev/null || return 1
  done
  id=$(wsctl submit --durable --detach ledger:once "$WORK/ledger" name) || return 1
  fill || return 1
  for _ in {1..500}; do
    wsctl submit --durable --detach --priority -100 --input "$WORK/piece" echo >/dev/null 2>&1 || break
  done
  : >"$WORK/gate"
  rm "$STATE/filler"
  expect_output name wsctl await "$id" && expect_output name cat "$WORK/ledger" && is_sound
}

# Takes the room that the smallest records find, too: those of ends.
fill_log() {
  local id
  for _ in {1..100}; do wsctl submit --durable --detach --delay 1h echo; done >"$WORK/fillers" && fill || return 1
  for _ in {1..500}; do
    wsctl submit --durable --detach --delay 1h --input "$WORK/piece" echo >/dev/null 2>&1 || break
  done
  while read -r id; do
    wsctl cancel "$id" 2>/dev/null || return 0
  done <"$WORK/fillers"
  echo "there is room for all ends"
  return 1
}
# Jobs 1 to 3 that wait: 1 is cancelled by its id, 2 by what it is, 3 by the Ctrl-C of its submitter. No client is told that one
# has ended.
cancelled_while_full() {
  local name before
  rm -f "$WORK/ledger"
  wsctl pause ledger || return 1
  for name in 1 2; do
    wsctl submit --durable --detach ledger:once "$WORK/ledger" $name >"$WORK/job$name" || return 1
  done
  background env --default-signal=INT wsctl submit --durable ledger:nth "$WORK/ledger" 3 2>/dev/null
  wait_until the_three_are queued && fill_log || return 1
  before=$(n_logged "$UNWRITTEN") # fill_log()'s
  cancel_refused "$(cat "$WORK/job1")" && cancel_refused --plugin ledger:once || return 1
  kill -INT "$BACKGROUND_PID"
  wait_until n_unwritten_are $((before + 3)) || return 1
  cancel_refused "$(cat "$WORK/job1")" && the_three_are queued && kill -0 "$BACKGROUND_PID"
}
UNWRITTEN='the end of a durable job cannot be written'
n_unwritten_are() { # N
  same "$1" "$(n_logged "$UNWRITTEN")"
}
cancel_refused() { # ARGUMENT...
  refused 75 'the cancel cannot be kept: the file system is full' wsctl cancel "$@"
}
the_three_are() { # STATE
  same 3 "$(wsctl --json list --plugin ledger --limit 3 | grep -c "\"state\":\"$1\"")"
}
have_run() { # NAME...
  same "$(printf '%s\n' "$@")" "$(sort "$WORK/ledger" 2>/dev/null)"
}
rests() { # nothing is left over for the next case
  wsctl cancel --all >/dev/null && is_sound
}

acknowledged_cancel_stays() {
  local id
  rm -f "$WORK/ledger"
  wsctl pause ledger && id=$(wsctl submit --durable --detach ledger:once "$WORK/ledger" 1) && wsctl cancel "$id" || return 1
  kill_wsd
  start_there && job_is cancelled "$id" && [ ! -e "$WORK/ledger" ]
}
refused_cancel_goes_on() {
  cancelled_while_full || return 1
  kill_wsd
  rm "$STATE/filler"
  start_there && wait_until have_run 1 2 3 && the_three_are succeeded && rests
}
refused_cancel_is_written() {
  cancelled_while_full || return 1
  rm "$STATE/filler"
  wait_until the_three_are cancelled && expect_exit 130 wait "$BACKGROUND_PID" || return 1
  refused 66 'it has ended' wsctl cancel "$(cat "$WORK/job1")" || return 1
  kill_wsd
  start_there && the_three_are cancelled && [ ! -e "$WORK/ledger" ] && rests
}
# It does not wait for room.
refused_cancel_and_a_stop() {
  cancelled_while_full && stop_wsd || return 1
  rm "$STATE/filler"
  start_there && wait_until have_run 1 2 3 && the_three_are succeeded && rests
}

survives_a_restart() {
  local id
  id=$(wsctl submit --durable --detach echo kept) && wsctl await "$id" >/dev/null || return 1
  fill || return 1
  kill_wsd
  start_there || return 1
  expect_output kept wsctl await "$id" || return 1
  rm "$STATE/filler"
  expect_output after wsctl submit --durable echo after && is_sound
}

full_from_the_start() {
  kill -TERM "$WSD_PID"
  wait_for_exit "$WSD_PID" || return 1
  rm -f "$STATE"/*
  fill || return 1
  start_there || return 1
  refused_for_room first || return 1
  rm "$STATE/filler"
  expect_output after wsctl submit --durable echo after && is_sound
}

head -c 20000 /dev/urandom >"$WORK/piece"
start_there || exit 1
check "no room: refused with the reason, running ones end, it recovers" refuses_and_recovers
check "no room: what cannot be marked waits" waits_for_room
check "a cancel is on disk when it is acknowledged" acknowledged_cancel_stays
check "no room: a cancel is refused, and after kill -9 the job runs" refused_cancel_goes_on
check "no room: a cancel is refused, and written when there is room" refused_cancel_is_written
check "no room: a cancel is refused, and wsd ends in order" refused_cancel_and_a_stop
check "no room at a restart: what is there is read" survives_a_restart
check "no room from the start" full_from_the_start
stop_wsd
