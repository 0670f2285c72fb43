#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# retry.sh: jobs that end badly are tried again, with pauses, as often as asked for; durable ones that never go well are kept
# until somebody decides.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/inject.sh"

n_lines() { # FILE N
  [ "$(wc -l <"$1")" = "$2" ]
}
again() { # N OPTION...: the submit's
  local n=$1
  shift
  wsctl submit --retries "$n" --retry-delay 5ms "$@"
}

goes_well_at_last() { # OPTION...: only the last try's output is told
  rm -f "$WORK/ledger"
  expect_output "try 3" again 5 "$@" ledger:nth "$WORK/ledger" x 3 && n_lines "$WORK/ledger" 3 || return 1
  rm -f "$WORK/ledger"
  again 2 --detach "$@" ledger:nth "$WORK/ledger" x 3 >"$WORK/id" || return 1
  expect_output "try 3" wsctl await "$(cat "$WORK/id")" || return 1
  job_has "$(cat "$WORK/id")" '"state":"succeeded".*"attempts":3.*"retries":2'
}
as_often_as_asked() { # OPTION...
  rm -f "$WORK/ledger"
  expect_exit 7 again 2 "$@" ledger:nth "$WORK/ledger" x 99 >"$WORK/out" 2>"$WORK/err" || return 1
  cat "$WORK/out" "$WORK/err"
  n_lines "$WORK/ledger" 3 && [ "$(cat "$WORK/out")" = "try 3" ] && grep -q 'not yet: 3' "$WORK/err"
}
what_counts() {
  rm -f "$WORK/ledger"
  expect_exit 7 again 2 --retry-on crashed,timed-out ledger:nth "$WORK/ledger" x 3 2>/dev/null && n_lines "$WORK/ledger" 1 || return 1
  expect_exit 124 again 1 --timeout 20ms --detach --retry-on timed-out sleep:sleep 60000 >"$WORK/id" && return 1
  expect_exit 124 wsctl await "$(cat "$WORK/id")" && job_has "$(cat "$WORK/id")" '"attempts":2' || return 1
  expect_exit 64 again 1 --retry-on succeeded echo && expect_exit 64 again 1 --retry-on , echo && expect_exit 64 wsctl submit --retry-on failed echo
}
crashes() {
  again 1 --detach crash:segv >"$WORK/id" || return 1
  expect_exit 70 wsctl await "$(cat "$WORK/id")" && job_has "$(cat "$WORK/id")" '"attempts":2' || return 1
  wsctl plugin release crash
}
input_comes_again() { # also where it is large, or the function reads it as it comes
  head -c 3000000 /dev/zero >"$WORK/large"
  expect_output x sh -c 'printf x | "$0" submit --retries 1 --input - echo:stream' "$WSCTL" || return 1
  wsctl submit --retries 1 --input "$WORK/large" echo:stream | cmp - "$WORK/large"
}
waits() { # a long pause: delayed, and can be cancelled
  local id
  id=$(wsctl submit --detach --retries 1 --retry-delay 1h "$@" echo:status 3) || return 1
  wait_until job_has "$id" '"state":"delayed".*"attempts":1.*"due_usec":[0-9]*' || {
    wsctl --json status "$id"
    return 1
  }
  wsctl status "$id" | grep -q '^due in' || return 1
  wsctl cancel "$id" && expect_exit 130 wsctl await "$id"
}
due() { # ATTEMPTS: of each job that waits after so many, a line
  wsctl --json list --state delayed --plugin echo | sed -n 's/.*"attempts":'"$1"',.*"due_usec":\([0-9]*\).*/\1/p' | sort -n
}
n_due() { # N
  [ "$(due 1 | wc -l)" = "$1" ]
}
pauses_differ() { # what fails together does not come again together: up to half of a pause is left out, at random
  local i
  for i in {1..20}; do wsctl submit --detach --retries 1 --retry-delay 1h echo:status 3 >/dev/null || return 1; done
  wait_until n_due 20 && due 1 >"$WORK/due" && wsctl cancel --state delayed || return 1
  cat "$WORK/due"
  awk 'NR == 1 { least = $1 } { most = $1 } END { exit !(least > 1740e6 && most <= 3600e6 && most - least > 120e6) }' "$WORK/due"
}
grows() { # beside the others: it takes seconds
  serve && pauses_grow && kill -TERM "$WSD_PID" && wait_for_exit "$WSD_PID"
}
all_ended() {
  [ -z "$(wsctl --json list --state delayed,queued,running)" ]
}
pauses_grow() { # the second is twice the first, less what is left out: of ten, one at least is longer than the first can be
  local i
  : >"$WORK/due"
  for i in {1..10}; do wsctl submit --detach --retries 2 --retry-delay 1s echo:status 3 >/dev/null || return 1; done
  until all_ended; do due 2 >>"$WORK/due"; done
  sort -n "$WORK/due" | tail -n 1 | { read -r most && echo "$most" && [ "$most" -gt 1000000 ] && [ "$most" -le 2000000 ]; }
}
# Cancelled while it runs, and it ends as STATUS says only then.
no_other_try() { # EXIT STATUS OPTION...
  local code=$1 status=$2 id
  shift 2
  rm -f "$WORK/go" "$WORK/told"
  id=$(again 3 --detach "$@" puppet:again "$WORK/go" "$WORK/told") || return 1
  wait_until job_has "$id" '"state":"running"' || return 1
  case "$*" in *--timeout*) wait_until test -e "$WORK/told" || return 1 ;; esac # its time was up first
  wsctl cancel "$id" && wait_until test -e "$WORK/told" || return 1
  echo "$status" >"$WORK/go.new" && mv "$WORK/go.new" "$WORK/go"
  wait_until job_has "$id" '"state":"\(cancelled\|crashed\)".*"attempts":1' && expect_exit "$code" wsctl await "$id"
}
a_pause_survives() { # beside the others: the pause is long enough for a slow disk
  local id
  serve || return 1
  id=$(wsctl submit --durable --detach --retries 3 --retry-delay 4s ledger:nth "$WORK/ledger" x 2) || return 1
  wait_until job_has "$id" '"state":"delayed"' || return 1
  # it can be seen before it is on disk; the store keeps the order, so it is there when what comes after it has been taken on
  wsctl submit --durable --detach echo || return 1
  job_has "$id" '"state":"delayed".*"attempts":1' || {
    wsctl --json status "$id"
    return 1
  }
  kill_wsd
  serve || return 1
  expect_output "try 2" wsctl await "$id" && job_has "$id" '"attempts":2' || return 1
  kill -TERM "$WSD_PID" && wait_for_exit "$WSD_PID" && clean_log "$WSD_LOG"
}
interrupted_ones() { # wsd dies while it may be running: that counts, too
  local id
  rm -f "$WORK/gate"
  id=$(wsctl submit --durable --detach --retries 1 --retry-delay 5ms ledger:gate-once "$WORK/gate") || return 1
  wait_until job_has "$id" '"state":"running"' || return 1
  kill_wsd
  : >"$WORK/gate"
  serve || return 1
  expect_output open wsctl await "$id"
}
dead() {
  local id other
  rm -f "$WORK/ledger"
  expect_exit 7 again 1 --durable ledger:nth "$WORK/ledger" x 4 >/dev/null 2>&1 || return 1
  id=$(wsctl --json dead list | grep -o '"id":"[0-9a-f]*"' | cut -d '"' -f 4)
  [ "${#id}" = 32 ] && job_has "$id" '"dead":true' && wsctl status "$id" | grep -q 'out of retries' || return 1
  other=$(wsctl submit --durable --detach echo x) && wsctl await "$other" >/dev/null || return 1
  expect_exit 66 wsctl dead requeue "$other" || return 1
  kill_wsd
  serve || return 1
  job_has "$id" '"dead":true' && expect_exit 7 wsctl await "$id" 2>/dev/null || return 1
  wsctl dead requeue "$id" || return 1
  expect_output "try 4" wsctl await "$id" && n_lines "$WORK/ledger" 4 && job_has "$id" '"state":"succeeded"' || return 1
  expect_exit 66 wsctl dead drop "$id" || return 1
  expect_exit 9 again 1 --durable --key dead echo:status 9 2>/dev/null || return 1
  id=$(wsctl --json dead list | grep -o '"id":"[0-9a-f]*"' | cut -d '"' -f 4)
  wsctl dead drop "$id" && expect_exit 66 wsctl status "$id" && [ -z "$(wsctl --json dead list)" ] || return 1
  expect_output fresh wsctl submit --durable --key dead echo fresh # the key went with it
}
listed_as_dead() { # ID
  wsctl --json dead list | grep -q "\"id\":\"$1\""
}
dead_when_on_disk() { # what is listed can be decided on: a disk that takes its time
  local id
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || return 1
  for _ in 1 2 3; do
    id=$(again 1 --detach --durable echo:status 9) && wait_until listed_as_dead "$id" && wsctl dead drop "$id" || return 1
  done
}

drains() { # what waits for its next try holds no drain: durable ones stay, others end as they ended last
  local durable
  durable=$(wsctl submit --durable --detach --retries 1 --retry-delay 1h echo:status 3) || return 1
  background wsctl submit --retries 1 --retry-delay 1h echo:status 5 2>/dev/null
  local client=$BACKGROUND_PID status=0
  wait_until jobs_are delayed 2 || return 1
  kill -TERM "$WSD_PID"
  wait_for_exit "$client" || status=$?
  [ "$status" = 5 ] || {
    echo "exit $status"
    return 1
  }
  wait_for_exit "$WSD_PID" || return 1
  serve || return 1
  job_has "$durable" '"state":"delayed"'
}

export WSD_SOCKET=$WORK/wsd.sock
serve || exit 1
check "tried until it goes well" goes_well_at_last
check "a durable one too" goes_well_at_last --durable
check "as often as asked for" as_often_as_asked
check "what counts can be said" what_counts
check "a crash counts" crashes
check "its input is there again" input_comes_again
check "a pause can be seen and cancelled" waits
check "also of a durable one" waits --durable
check "pauses differ" pauses_differ
beside "and grow" grows
beside "a pause survives wsd" a_pause_survives
check "cancelled when its time was up already: no other try" no_other_try 130 9 --timeout 20ms
check "a durable one that was cancelled then" no_other_try 130 9 --timeout 20ms --durable
check "a crash of one that was cancelled: no other try" no_other_try 70 -1
wsctl plugin release puppet
check "the death of wsd counts where it may have been running" interrupted_ones
check "out of retries: kept, queued again, dropped" dead
check "a pause holds no drain" drains
kill -TERM "$WSD_PID"
check "wsd ends in order" wait_for_exit "$WSD_PID"
clean_log "$WSD_LOG"
if can_inject; then
  inject fdatasync,fsync:delay_enter=300000
  check "out of retries once that is on disk" dead_when_on_disk
  stop_traced
else
  skip "out of retries once that is on disk" "needs root and strace, and no sanitizer"
fi
gather
