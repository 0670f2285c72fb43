#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# input-pipe.sh: input in a pipe that the job reads by itself: which jobs do, executors that die, slow and lasting
# writers, pipes of other users, and what is left in the pipe.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

MIB=1048576

bytes() { # N
  seq -f %015.0f 0 16 $(($1 - 1)) | head -c "$1"
}

open_pipe() { # as descriptor 9
  rm -f "$WORK/pipe"
  mkfifo "$WORK/pipe"
  exec 9<>"$WORK/pipe"
}

copied() { # N
  bytes "$1" >"$WORK/in"
  bytes "$1" | wsctl submit --input - echo:stream | cmp - "$WORK/in"
}

# Its wsctl is stopped, and could pass nothing on: as much goes through as no buffers have room for.
past_wsctl() {
  local writer
  rm -f "$WORK/begun" "$WORK/go"
  open_pipe
  bytes $((8 * MIB)) >"$WORK/in"
  wsctl submit --input - ends:reads <"$WORK/pipe" 9<&- &
  JOB=$!
  wait_until some_job_is running && kill -STOP $JOB || return 1
  cat "$WORK/in" >"$WORK/pipe" 9<&- &
  writer=$!
  exec 9<&-
  wait_for_exit $writer && kill -CONT $JOB && wait_for_exit $JOB
}

# The bytes come through wsctl where the job cannot read the pipe, or may be begun again.
as_ever() { # KEY
  bytes $MIB >"$WORK/in"
  bytes $MIB | wsctl submit --input - echo | cmp - "$WORK/in" || return 1
  bytes $MIB | wsctl submit --input - --retries 1 echo:stream | cmp - "$WORK/in" || return 1
  bytes $MIB | wsctl submit --input - --key "$1" echo:stream | cmp - "$WORK/in" || return 1
  id=$(bytes $MIB | wsctl submit --input - --detach echo:stream) && wsctl await "$id" | cmp - "$WORK/in" || return 1
  printf '' | wsctl submit --input - echo:stream | cmp - /dev/null
}

refused() { # nothing is taken out of it
  {
    ! wsctl submit --input - echo:nothing 2>"$WORK/said" && cat >"$WORK/rest"
  } < <(bytes 1000)
  grep -q "nothing" "$WORK/said" && cmp "$WORK/rest" <(bytes 1000)
}

# The job ends before its input does: whoever goes on writing is told as by any reader.
not_all_is_read() {
  local ends
  seq 1000000 | wsctl submit --input - reader:stream 2>/dev/null
  ends=("${PIPESTATUS[@]}")
  echo "${ends[@]}"
  [ "${ends[0]}" = 141 ] && [ "${ends[1]}" = 2 ]
}

flags_stay() { # of the open file, which others have, too
  local before after
  open_pipe
  before=$(grep flags /proc/self/fdinfo/0 <"$WORK/pipe")
  exec 8<"$WORK/pipe"
  seq 10 >&9
  exec 9<&-
  wsctl submit --input - echo:stream <&8 >"$WORK/out" && cmp "$WORK/out" <(seq 10) || return 1
  after=$(grep flags /proc/self/fdinfo/0 <&8)
  exec 8<&-
  echo "$before, $after"
  [ "$before" = "$after" ]
}

cancelled() { # while nothing comes
  open_pipe
  wsctl submit --input - echo:stream <"$WORK/pipe" 9<&- 2>"$WORK/said" &
  JOB=$!
  wait_until some_job_is running && wsctl cancel --plugin echo >/dev/null || return 1
  wait_for_exit $JOB
  [ $? = 130 ] || return 1
  exec 9<&-
}

# Ctrl-C ends the writer, too, and the job succeeds with what was written before wsctl can cancel it.
cut_by_a_signal() {
  local ended
  open_pipe
  echo before >"$WORK/out"
  wsctl submit --input - --output "$WORK/out" echo:stream <"$WORK/pipe" 9<&- 2>"$WORK/said" &
  JOB=$!
  wait_until some_job_is running || return 1
  ended=$(counter jobs_succeeded)
  kill -STOP $JOB && kill -TERM $JOB || return 1
  echo cut >&9
  exec 9<&-
  wait_until counter_is jobs_succeeded $((ended + 1)) && kill -CONT $JOB || return 1
  wait_for_exit $JOB
  [ $? = 130 ] && grep -q "may be that of its writer" "$WORK/said" && [ "$(cat "$WORK/out")" = before ]
}

# Its descriptor does not block: the job waits for it as for any other.
writer_comes_later() {
  rm -f "$WORK/pipe"
  mkfifo "$WORK/pipe"
  python3 -c '
import os, sys
os.dup2(os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK), 0)
os.execvp(sys.argv[2], sys.argv[2:])' "$WORK/pipe" "$WSCTL" submit --input - echo:stream >"$WORK/out" &
  JOB=$!
  wait_until some_job_is running && seq 10 >"$WORK/pipe" && wait_for_exit $JOB && cmp "$WORK/out" <(seq 10)
}

timed_out() {
  local status=0
  open_pipe
  wsctl submit --input - --timeout 200ms echo:stream <"$WORK/pipe" 9<&- 2>"$WORK/said" || status=$?
  exec 9<&-
  [ $status = 124 ] && expect_output 55 wsctl submit fib 10
}

# --- executors that die -----------------------------------------------------------------------------------------------

# Two workers have a job each, and a third one has been handed over. Only that one begins with the next executor.
killed() {
  local i jobs=() status
  rm -f "$WORK"/begun.* "$WORK/go"
  bytes 100000 >"$WORK/in"
  for i in 1 2 3; do
    bytes 100000 | wsctl submit --input - reader:stream "$WORK/begun.$i" "$WORK/go" >"$WORK/out.$i" 2>"$WORK/said.$i" &
    jobs+=($!)
    [ $i = 3 ] || wait_until test -e "$WORK/begun.$i" || return 1
  done
  wait_until counter_is jobs_open 3 && kill_executor && touch "$WORK/go" || return 1
  for i in 0 1; do
    wait_for_exit "${jobs[i]}"
    status=$?
    [ $status = 125 ] || return 1
  done
  wait_for_exit "${jobs[2]}" && cmp "$WORK/out.3" "$WORK/in"
}

wsd_killed() {
  open_pipe
  wsctl submit --input - echo:stream <"$WORK/pipe" 9<&- >"$WORK/out" 2>"$WORK/said" &
  JOB=$!
  wait_until some_job_is running && kill_wsd || return 1
  wait_for_exit $JOB
  [ $? = 125 ] || return 1
  exec 9<&-
}

holds_no_descriptor() {
  local before
  wait_until counter_is jobs_open 0 && copied 1000 || return 1
  before=$(n_descriptors)
  copied 100000 && as_ever k2 && refused || return 1
  wait_until no_more_than "$before"
}
no_more_than() {
  [ "$(n_descriptors)" -le "$1" ]
}

# --- users ------------------------------------------------------------------------------------------------------------

# A pipe that root has made cannot be opened anew by alice's executor, which reads it as it came. Nor can one for output.
of_another_user() {
  bytes $((3 * MIB)) >"$WORK/in"
  bytes $((3 * MIB)) | as $ALICE "$CTL" submit --input - echo:stream | cmp - "$WORK/in" || return 1
  as $ALICE "$WORK/inst/output-to" plain writer again $((3 * MIB)) 2>"$WORK/said" | cmp - "$WORK/in"
}

idle_of_another_user() { # it can be cancelled all the same
  open_pipe
  as $ALICE "$CTL" submit --input - --timeout 200ms echo:stream <"$WORK/pipe" 9<&- 2>"$WORK/said"
  [ $? = 124 ] || return 1
  exec 9<&-
}

shared_executor() { # the bytes come through wsctl
  bytes $MIB >"$WORK/in"
  bytes $MIB | as $BOB "$CTL" submit --input - echo:stream | cmp - "$WORK/in"
}

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
for n in 0 1 65536 65537 3000000; do
  check "$n bytes from a pipe" copied $n
done
check "the job reads it itself" past_wsctl
check "the bytes come through wsctl where the job cannot" as_ever k1
check "a refused one takes nothing" refused
check "the job ends before its input" not_all_is_read
check "the flags of the open file stay" flags_stay
check "cancelled while nothing comes" cancelled
check "a signal that its writer has got, too" cut_by_a_signal
check "its writer comes later" writer_comes_later
check "timed out while nothing comes" timed_out
check "its executor is killed" killed
check "no descriptor is left" holds_no_descriptor
check "its wsd is killed" wsd_killed

need_users
install_for_all echo writer
cp "$BUILD/tests/support/clients/output-to" "$WORK/inst/"
printf '[daemon]\nsystem = yes\n[domain team]\nusers = %s %s\n' $BOB $((BOB + 1)) >"$WSD_CONFIG"
chmod 644 "$WSD_CONFIG"
start_wsd --workers 2 || exit 1
chmod 755 "$(dirname "$WSD_SOCKET")"
chmod 666 "$WSD_SOCKET"
check "a pipe of another user" of_another_user
check "one in which nothing comes" idle_of_another_user
check "an executor that several users share" shared_executor
stop_wsd
