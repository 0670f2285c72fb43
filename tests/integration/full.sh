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
check "no room at a restart: what is there is read" survives_a_restart
check "no room from the start" full_from_the_start
stop_wsd
