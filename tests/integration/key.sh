#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# key.sh: the same user and the same key are the same job: while it waits, runs, has ended, and after a restart.
. "$(dirname "$0")/../support/lib.sh"

n_known() {
  wsctl --json list | wc -l
}
n_lines() { # FILE N
  [ "$(wc -l <"$1")" = "$2" ]
}

same_job() { # OPTION...
  local first second
  rm -f "$WORK/ledger"
  first=$(wsctl submit "$@" --detach --key "same $*" ledger:once "$WORK/ledger" one) || return 1
  second=$(wsctl submit "$@" --detach --key "same $*" ledger:once "$WORK/ledger" two) || return 1
  [ "$first" = "$second" ] || {
    echo "$first is not $second"
    return 1
  }
  expect_output one wsctl submit "$@" --key "same $*" ledger:once "$WORK/ledger" three || return 1
  expect_output one wsctl await "$first" && n_lines "$WORK/ledger" 1
}
other_keys() {
  rm -f "$WORK/ledger"
  wsctl submit --key a ledger:once "$WORK/ledger" a >/dev/null && wsctl submit --key b ledger:once "$WORK/ledger" b >/dev/null &&
    wsctl submit ledger:once "$WORK/ledger" c >/dev/null && n_lines "$WORK/ledger" 3
}
while_it_runs() { # OPTION...: many come while it runs, and when it has ended each has its answer
  local i pids=()
  rm -f "$WORK/gate"
  for i in 1 2 3 4 5; do
    background wsctl submit "$@" --key "runs $*" ledger:gate "$WORK/gate" >"$WORK/out.$i" 2>&1
    pids+=("$BACKGROUND_PID")
  done
  wait_until sh -c "[ \"\$(wsctl --json stats | grep -o '\"connections\":[0-9]*')\" = '\"connections\":6' ]" || return 1
  : >"$WORK/gate"
  for i in 1 2 3 4 5; do
    if ! wait_for_exit "${pids[i - 1]}" || [ "$(cat "$WORK/out.$i")" != open ]; then
      cat "$WORK/out.$i"
      return 1
    fi
  done
}
lost_connection() { # the first one's client is killed; the job goes on, and the second one gets its answer
  local client
  rm -f "$WORK/gate"
  background wsctl submit --key lost ledger:gate "$WORK/gate"
  client=$BACKGROUND_PID
  wait_until some_job_is running || return 1
  kill -KILL "$client"
  wait "$client" 2>/dev/null
  : >"$WORK/gate"
  expect_output open wsctl submit --key lost echo another
}
its_input_is_not_needed() {
  head -c 3000000 /dev/urandom >"$WORK/large"
  wsctl submit --durable --key large --input "$WORK/large" echo | cmp - "$WORK/large" || return 1
  wsctl submit --durable --key large --input "$WORK/large" echo | cmp - "$WORK/large" || return 1
  [ -n "$(wsctl submit --durable --detach --key large --input "$WORK/large" echo)" ]
}
a_failure_is_an_answer() {
  expect_exit 7 wsctl submit --durable --key fails echo:status 7 2>/dev/null && expect_exit 7 wsctl submit --durable --key fails echo:status 0 2>/dev/null
}
a_refusal_is_none() {
  expect_exit 66 wsctl submit --durable --key none nothing-of-that-name 2>/dev/null && expect_output x wsctl submit --durable --key none echo x
}
after_a_restart() {
  local first second n
  first=$(wsctl submit --durable --detach --key restart echo first) && expect_output first wsctl await "$first" || return 1
  n=$(wsctl --json list | grep -c '"durable":true')
  kill_wsd
  serve || return 1
  second=$(wsctl submit --durable --detach --key restart echo second) || return 1
  [ "$first" = "$second" ] && expect_output first wsctl submit --key restart echo third || return 1
  [ "$(n_known)" = "$n" ] || {
    wsctl list
    return 1
  }
}
expired() { # OPTION...: when its end is kept no longer, the same key is another job
  local first second
  rm -f "$WORK/ledger"
  first=$(id_and_output "$@" --key "gone $*" ledger:once "$WORK/ledger" one) && [ "${first#* }" = one ] || return 1
  wait_until expect_exit 66 wsctl status "${first% *}" || return 1
  second=$(id_and_output "$@" --key "gone $*" ledger:once "$WORK/ledger" two) && [ "${second#* }" = two ] &&
    [ "${first% *}" != "${second% *}" ] && n_lines "$WORK/ledger" 2
}
id_and_output() { # ARGUMENT...: of one submit; when the next wsctl asks the job may be gone already
  wsctl --json submit "$@" | python3 -c 'import base64, json, sys; j = json.load(sys.stdin); print(j["id"], base64.b64decode(j["output"]).decode().strip())'
}
briefly() { # from here on ends are kept for a second
  printf '[limits]\nkeep-results = 1s\nmax-result = 8M\n[store]\nkeep = 1s\n' >"$WSD_CONFIG"
  reload_config
}
# One end that is being read stays; those behind it go at their time.
held_up() {
  local read other reader
  read=$(wsctl submit --durable --detach bigoutput 6000000) || return 1
  mkfifo "$WORK/unread" || return 1
  exec 8<>"$WORK/unread" # opening one end would wait for the other
  background wsctl await "$read" >"$WORK/unread"
  reader=$BACKGROUND_PID
  wait_until counter_is results_being_read 1 && other=$(wsctl submit --durable --detach fib 5) || return 1
  wait_until expect_exit 66 wsctl status "$other" && wsctl status "$read" >/dev/null || return 1
  [ "$(head -c 6000000 <&8 | wc -c)" = 6000000 ] && wait "$reader" && exec 8<&- && wait_until expect_exit 66 wsctl status "$read"
}
limits() {
  local key
  key=$(printf 'k%.0s' {1..255})
  expect_output x wsctl submit --key "$key" echo x && expect_exit 64 wsctl submit --key "k$key" echo x && expect_exit 64 wsctl submit --key '' echo x
}

export WSD_SOCKET=$WORK/wsd.sock
serve || exit 1
check "a job with a key is one job" same_job
check "a durable one too" same_job --durable
check "other keys are other jobs" other_keys
check "while it runs" while_it_runs
check "while a durable one runs" while_it_runs --durable
check "its client has lost its connection" lost_connection
check "its input comes again" its_input_is_not_needed
check "it has failed" a_failure_is_an_answer
check "a refused one leaves no key" a_refusal_is_none
check "after kill -9" after_a_restart
check "1 to 255 bytes" limits
briefly
check "when its end has expired it is another job" expired
check "also where it was durable" expired --durable
check "an end that is being read does not hold up the others" held_up
kill -TERM "$WSD_PID"
check "wsd ends in order" wait_for_exit "$WSD_PID"
clean_log "$WSD_LOG"
