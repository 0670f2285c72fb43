#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# output-to.sh: output that a job writes into its submitter's descriptor by itself: files, pipes, slow and closed readers,
# executors that die, full disks, and what is refused.
. "$(dirname "$0")/../support/lib.sh"

OUTPUT_TO=$BUILD/tests/support/clients/output-to
MIB=1048576

bytes() { # N: what `writer` writes
  seq -f %015.0f 0 16 $(($1 - 1)) | head -c "$1"
}

# Whether that file has what `writer` writes, twice the same way, without holes.
has_bytes() { # FILE N
  cmp -n "$2" "$1" <(bytes "$2") && [ "$(stat -c %s "$1")" = "$2" ]
}

# Its stdout is left alone.
fails_with() { # CODE WORDS COMMAND...
  local code=$1 words=$2 status=0
  shift 2
  "$@" 2>"$WORK/said" || status=$?
  [ $status = "$code" ] && grep -q "$words" "$WORK/said" && return 0
  echo "$status" >>"$WORK/said"
  cat "$WORK/said" >&2
  return 1
}

by_itself() { # WANTED: none of it came through the connection
  [ "$(cat "$WORK/said")" = "0 by callback, $1 placed" ] || {
    cat "$WORK/said"
    return 1
  }
}

into_a_file() { # N
  "$OUTPUT_TO" plain writer again "$1" >"$WORK/out" 2>"$WORK/said" && by_itself "$1" && has_bytes "$WORK/out" "$1"
}

into_a_pipe() { # N
  "$OUTPUT_TO" plain writer again "$1" 2>"$WORK/said" | cat >"$WORK/out" || return 1
  by_itself "$1" && has_bytes "$WORK/out" "$1"
}

by_wsctl() {
  wsctl submit writer:again $MIB >"$WORK/out" && has_bytes "$WORK/out" $MIB || return 1
  wsctl submit --output "$WORK/out" writer:again 70000 && has_bytes "$WORK/out" 70000 || return 1
  wsctl submit writer:again $MIB | cat >"$WORK/out" && has_bytes "$WORK/out" $MIB || return 1
  wsctl submit --output /dev/stdout writer:again $MIB | cat >"$WORK/out" && has_bytes "$WORK/out" $MIB
}

with_input_by_file() { # both descriptors with one frame
  bytes $((4 * MIB)) >"$WORK/in"
  wsctl submit --input "$WORK/in" echo >"$WORK/out" && cmp "$WORK/in" "$WORK/out" || return 1
  wsctl submit --input "$WORK/in" echo | cmp "$WORK/in" - || return 1
  wsctl submit --input - echo <"$WORK/in" >"$WORK/out" && cmp "$WORK/in" "$WORK/out" || return 1
  bytes $((4 * MIB)) | wsctl submit --input - echo:stream | cmp "$WORK/in" -
}

behind_what_is_there() { # the position is that of any other writer
  {
    echo before
    wsctl submit writer:again 100
    echo between
    wsctl submit writer:again 50
    echo after
  } >"$WORK/out"
  cmp "$WORK/out" <(
    echo before
    bytes 100
    echo between
    bytes 50
    echo after
  ) || return 1
  echo first >"$WORK/out"
  wsctl submit writer:again 100 >>"$WORK/out" && cmp "$WORK/out" <(
    echo first
    bytes 100
  )
}

side_by_side() { # two jobs with one stdout: neither overwrites the other
  {
    wsctl submit writer:again $MIB &
    wsctl submit writer:again $MIB
    wait $!
  } >"$WORK/out"
  [ "$(stat -c %s "$WORK/out")" = $((2 * MIB)) ]
}

# --- readers ----------------------------------------------------------------------------------------------------------

# Begins a job that writes N bytes, says so, and waits for $WORK/go. JOB is the wsctl.
begin() { # FUNCTION N FILE
  rm -f "$WORK/begun" "$WORK/go"
  if [ -p "$3" ]; then
    wsctl submit --output "$3" "writer:$1" "$2" "$WORK/begun" "$WORK/go" 2>"$WORK/said" &
  else
    wsctl submit "writer:$1" "$2" "$WORK/begun" "$WORK/go" >"$3" 2>"$WORK/said" &
  fi
  JOB=$!
  wait_until test -e "$WORK/begun"
}

# Opens a pipe without a reader's haste: 9 reads, nothing is taken until somebody does.
open_pipe() {
  rm -f "$WORK/pipe"
  mkfifo "$WORK/pipe"
  exec 9<>"$WORK/pipe"
}

several_run() {
  [ "$(n_jobs running)" -ge "$1" ]
}

# A pipe that is full holds up its job and no other, though all workers have such a job.
slow_readers() {
  local jobs=() i
  open_pipe
  for i in 1 2 3; do
    wsctl submit --output "$WORK/pipe" writer:again $MIB 9<&- 2>/dev/null &
    jobs+=($!)
  done
  wait_until several_run 2 || return 1
  expect_output 55 wsctl submit fib 10 || return 1
  head -c $((3 * MIB)) <&9 | sha256sum >/dev/null
  for i in "${jobs[@]}"; do
    wait_for_exit "$i" || return 1
  done
  exec 9<&-
}

# What wsctl was not told to give away: the job ends, and wsctl waits for the reader.
pipes_as_ever() {
  local ended job
  ended=$(counter jobs_succeeded)
  open_pipe
  wsctl submit writer:again 300000 >&9 9<&- &
  job=$!
  wait_until counter_is jobs_succeeded $((ended + 1)) && [ -d /proc/$job ] || return 1
  head -c 300000 <&9 | cmp - <(bytes 300000) && wait_for_exit $job || return 1
  exec 9<&-
}

cancelled_while_full() {
  local id
  open_pipe
  wsctl submit --output "$WORK/pipe" writer:once $MIB 9<&- 2>"$WORK/said" &
  JOB=$!
  wait_until some_job_is running || return 1
  id=$(wsctl --json list | sed -n 's/.*"id":"\([^"]*\)".*"state":"running".*/\1/p')
  wsctl cancel "$id" >/dev/null
  wait_for_exit $JOB
  [ $? = 130 ] || return 1
  exec 9<&-
}

timed_out_while_full() {
  open_pipe
  fails_with 124 "its time was up" wsctl submit --output "$WORK/pipe" --timeout 200ms writer:once $MIB || return 1
  exec 9<&-
  expect_output 55 wsctl submit fib 10
}

reader_gone() { # the job fails and says why; where wsctl writes, it ends as any writer does
  {
    "$OUTPUT_TO" plain writer again $((4 * MIB)) 2>"$WORK/said"
    echo $? >"$WORK/status"
  } | head -c 1 >/dev/null
  cat "$WORK/status" "$WORK/said"
  [ "$(cat "$WORK/status")" = 63 ] && grep -q "the reader of its output has gone" "$WORK/said" || return 1
  wsctl submit writer:again $((4 * MIB)) | head -c 1 >/dev/null
  ends=("${PIPESTATUS[@]}")
  [ "${ends[0]}" = 141 ]
}

full_disk() {
  local r=0
  mkdir -p "$WORK/small" && mount -t tmpfs -o size=64k none "$WORK/small" || return 1
  fails_with 63 "No space left on device" wsctl submit writer:again $MIB >"$WORK/small/out" || r=1
  umount "$WORK/small" && return $r
}

# --- executors that die -----------------------------------------------------------------------------------------------

# Kills the executor of a job that has written half of it.
killed() { # FUNCTION N FILE
  begin "$1" "$2" "$3" || return 1
  rm "$WORK/begun"
  kill_executor
}

killed_again() { # it begins anew, and the file has each byte once
  echo before >"$WORK/out"
  exec 8<>"$WORK/out"
  cat <&8 >/dev/null
  rm -f "$WORK/begun" "$WORK/go"
  wsctl submit writer:again 100000 "$WORK/begun" "$WORK/go" >&8 2>"$WORK/said" &
  JOB=$!
  wait_until test -e "$WORK/begun" || return 1
  rm "$WORK/begun"
  kill_executor && wait_until test -e "$WORK/begun" && touch "$WORK/go" && wait_for_exit $JOB || return 1
  exec 8>&-
  cmp "$WORK/out" <(
    echo before
    bytes 200000
  )
}

killed_twice() {
  killed again 300000 "$WORK/out" || return 1
  wait_until test -e "$WORK/begun" && rm "$WORK/begun" && kill_executor && wait_until test -e "$WORK/begun" || return 1
  touch "$WORK/go"
  wait_for_exit $JOB && has_bytes "$WORK/out" 600000
}

interrupted() { # FUNCTION FILE
  killed "$1" 100000 "$2" || return 1
  wait_for_exit $JOB
  [ $? = 125 ]
}

killed_once() { # what it has written stays
  interrupted once "$WORK/out" && has_bytes "$WORK/out" 100000
}

killed_into_a_pipe() { # idempotent, and delivered
  rm -f "$WORK/pipe"
  mkfifo "$WORK/pipe"
  cat "$WORK/pipe" >"$WORK/copy" &
  local reader=$!
  interrupted again "$WORK/pipe" && wait_for_exit $reader && has_bytes "$WORK/copy" 100000
}

killed_before_the_first_byte() { # into a pipe: it may run again
  rm -f "$WORK/pipe"
  mkfifo "$WORK/pipe"
  cat "$WORK/pipe" >"$WORK/copy" &
  local reader=$!
  killed again 0 "$WORK/pipe" && wait_until test -e "$WORK/begun" && touch "$WORK/go" && wait_for_exit $JOB &&
    wait_for_exit $reader
}

killed_while_others_write() { # the file cannot be cut
  : >"$WORK/out"
  exec 8>>"$WORK/out" # a second open file, so that the position of the first stays
  begin again 100000 "$WORK/out" || return 1
  rm "$WORK/begun"
  head -c 2000000 /dev/zero >&8
  exec 8>&-
  kill_executor
  wait_for_exit $JOB
  [ $? = 63 ] && grep -q "others may have written into the file" "$WORK/said" || return 1
  [ "$(stat -c %s "$WORK/out")" = 2100000 ]
}

# By the same open file, as a line of the shell behind `wsctl submit ... >log &`: what they wrote stays.
killed_while_another_shares() {
  exec 8>"$WORK/out"
  rm -f "$WORK/begun" "$WORK/go"
  wsctl submit writer:again 1000 "$WORK/begun" "$WORK/go" >&8 2>"$WORK/said" &
  JOB=$!
  wait_until test -e "$WORK/begun" && rm "$WORK/begun" || return 1
  echo "a line" >&8
  kill_executor
  wait_for_exit $JOB
  [ $? = 63 ] && exec 8>&- && cmp "$WORK/out" <(
    bytes 1000
    echo "a line"
  )
}

killed_appending() {
  : >"$WORK/out"
  rm -f "$WORK/begun" "$WORK/go"
  wsctl submit writer:again 100000 "$WORK/begun" "$WORK/go" >>"$WORK/out" 2>"$WORK/said" &
  JOB=$!
  wait_until test -e "$WORK/begun" && rm "$WORK/begun" && kill_executor || return 1
  wait_for_exit $JOB
  [ $? = 125 ] && has_bytes "$WORK/out" 100000
}

killed_in_the_middle() { # the content behind the position is not cut
  bytes 300000 >"$WORK/out"
  exec 8<>"$WORK/out"
  rm -f "$WORK/begun" "$WORK/go"
  wsctl submit writer:again 100000 "$WORK/begun" "$WORK/go" >&8 2>"$WORK/said" &
  JOB=$!
  wait_until test -e "$WORK/begun" && rm "$WORK/begun" && kill_executor || return 1
  wait_for_exit $JOB
  local status=$?
  exec 8>&-
  [ $status = 125 ] && has_bytes "$WORK/out" 300000
}

# What was written stays, and nothing more comes: the executor ends with its wsd.
wsd_killed() {
  local executor
  begin once 100000 "$WORK/out" || return 1
  executor=$(pgrep -P "$WSD_PID" -x wsd-executor)
  kill_wsd
  wait_for_exit $JOB
  [ $? = 125 ] && wait_until test ! -d "/proc/$executor" && touch "$WORK/go" && has_bytes "$WORK/out" 100000
}

# --- limits -----------------------------------------------------------------------------------------------------------

# The submitter's limit of a file's size holds: wsctl writes by itself.
limited_size() {
  local status=0
  (
    ulimit -f $((MIB / 1024))
    wsctl submit writer:again $MIB >"$WORK/out" && has_bytes "$WORK/out" $MIB || exit 1
    trap '' XFSZ
    wsctl submit writer:again $((MIB + 1)) >"$WORK/out"
  ) 2>"$WORK/said" || status=$?
  cat "$WORK/said"
  [ $status = 74 ] && grep -q "File too large" "$WORK/said" && has_bytes "$WORK/out" $MIB
}

# More descriptors wait than wsd may have open: each of the jobs succeeds, or is refused before it begins.
many_wait() { # N
  local jobs=() i status n=0
  bytes 10 >"$WORK/ten"
  begin once 10 "$WORK/out" || return 1
  for ((i = 0; i < $1; i++)); do
    wsctl submit writer:once 10 >"$WORK/out.$i" 2>"$WORK/said.$i" &
    jobs+=($!)
  done
  wait_until one_is_told || return 1
  touch "$WORK/go"
  for ((i = 0; i < $1; i++)); do
    status=0
    wait "${jobs[i]}" || status=$?
    case $status in
      0) cmp "$WORK/ten" "$WORK/out.$i" && n=$((n + 1)) || return 1 ;;
      69 | 75) [ -s "$WORK/said.$i" ] && [ ! -s "$WORK/out.$i" ] || return 1 ;;
      *) cat "$WORK/said.$i" && return 1 ;;
    esac
  done
  wait_for_exit $JOB && echo "$n of $1" && [ $n -ge 50 ] && [ $n -lt "$1" ]
}
one_is_told() {
  cat "$WORK"/said.* | grep .
}

# --- refused ----------------------------------------------------------------------------------------------------------

old_way() { # what wsctl does not give away
  wsctl submit writer:again 100 >/dev/null || return 1
  [ "$(wsctl submit --retries 1 writer:again 100 | sha256sum)" = "$(bytes 100 | sha256sum)" ] || return 1
  [ "$(wsctl submit --key k1 writer:again 100 | sha256sum)" = "$(bytes 100 | sha256sum)" ] || return 1
  fails_with 74 "No space left on device" wsctl submit writer:again 1000 >/dev/full
}

not_with() { # HOW WORDS
  fails_with 64 "$2" "$OUTPUT_TO" "$1" writer again 10 >/dev/null
}

holds_no_descriptor() {
  local before
  wait_until counter_is jobs_open 0 && wsctl submit writer:again 10 >"$WORK/out" || return 1
  before=$(n_descriptors)
  into_a_file 100000 && into_a_pipe 100000 || return 1
  wait_until no_more_than "$before"
}
no_more_than() {
  [ "$(n_descriptors)" -le "$1" ]
}

start_wsd --plugin-dir "$TEST_PLUGINS" || exit 1
for n in 0 1 16 262143 262144 262145 3000000; do
  check "$n bytes into a file" into_a_file $n
  check "$n bytes into a pipe" into_a_pipe $n
done
check "wsctl chooses it by itself" by_wsctl
check "with input by descriptor" with_input_by_file
check "behind what is there" behind_what_is_there
check "two jobs with one stdout" side_by_side
check "slow readers hold up their jobs only" slow_readers
check "a pipe that wsctl was not told to give away" pipes_as_ever
check "cancelled while its pipe is full" cancelled_while_full
check "timed out while its pipe is full" timed_out_while_full
check "its reader has gone" reader_gone
if [ "$(id -u)" = 0 ]; then
  check "a full disk" full_disk
else
  skip "a full disk" "needs root, to mount a small one"
fi
check "its executor is killed: it begins anew" killed_again
check "its executor is killed twice" killed_twice
check "its executor is killed: not idempotent" killed_once
check "its executor is killed: into a pipe" killed_into_a_pipe
check "its executor is killed before it wrote into a pipe" killed_before_the_first_byte
check "its executor is killed while others write" killed_while_others_write
check "its executor is killed while another has the same open file" killed_while_another_shares
check "its executor is killed while it appends" killed_appending
check "its executor is killed: content behind the position" killed_in_the_middle
check "the submitter's limit of a file's size" limited_size
check "the connection has what the job cannot write" old_way
for how in detach durable key retries; do
  check "not with $how" not_with $how "attached jobs"
done
check "not in a batch" not_with batch "jobs of a batch"
check "not open for writing" not_with read-only "not open for writing"
check "not into a socket" fails_with 63 "neither a regular file nor a pipe" "$OUTPUT_TO" socket writer again 10
check "no descriptor is left" holds_no_descriptor
check "its wsd is killed" wsd_killed
WSD_PREFIX=(prlimit --nofile=640:640)
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
check "250 wait in a wsd that may have 640 descriptors" many_wait 250
stop_wsd
