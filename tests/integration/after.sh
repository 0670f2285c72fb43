#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# after.sh: jobs that run after others: when they are let go, whom a failure takes along, and what survives a restart.
. "$(dirname "$0")/../support/lib.sh"

WSD_OPTIONS=(--workers 4)

MAX=1024 # jobs that one may wait for: CODEC_AFTER_MAX

end_of() { # PID
  wait_for_exit "$1"
}
restart() { # SIGNAL
  kill "-$1" "$WSD_PID"
  wait "$WSD_PID" 2>/dev/null
  serve
}
later() { # ARG...: a job of which nobody waits for the end
  wsctl submit --detach "$@"
}
gate() { # NAME OPTION...: runs until the file is there
  local name=$1
  shift
  later "$@" ledger:gate "$WORK/$name"
}
open_gate() { # NAME
  : >"$WORK/$1"
}
# The end of a job that never ran because of another.
not_run() { # ID ORIGIN WHAT
  expect_exit 130 wsctl await "$1" 2>"$WORK/err"
  cat "$WORK/err"
  grep -q "not run: it was to run after job $2, which $3\$" "$WORK/err" && job_is cancelled "$1" && job_has "$1" '"attempts":0'
}

in_order() { # OPTION...
  local a b c
  rm -f "$WORK/ledger" "$WORK/in-order"
  a=$(gate in-order "$@") && b=$(later --after "$a" "$@" ledger:once "$WORK/ledger" b) &&
    c=$(later --after "$b,$a" "$@" ledger:once "$WORK/ledger" c) || return 1
  wait_until job_is running "$a" && job_is held "$b" && job_has "$b" '"waits_for":1' && job_has "$c" '"waits_for":2' || return 1
  wsctl status "$c" | grep -q '^waits for 2 jobs$' && [ ! -e "$WORK/ledger" ] || return 1
  open_gate in-order
  expect_output c wsctl await "$c" && [ "$(tr '\n' ' ' <"$WORK/ledger")" = "b c " ] && ! job_has "$c" waits_for
}
# Held first, then delayed for what is left of the time since it was submitted, and never lost, whenever wsd is killed.
and_later() {
  local a b c
  a=$(later --durable --delay 1h echo:echo a) && b=$(later --durable --after-any "$a" --delay 2h echo:echo b) &&
    c=$(later --durable --after-any "$a" --delay 1ms echo:echo c) || return 1
  job_is held "$b" && job_is held "$c" && restart KILL && job_is held "$b" && job_is held "$c" || return 1
  wsctl cancel "$a" >/dev/null
  wait_until job_is delayed "$b" && job_has "$b" '"due_usec":7' && expect_output c wsctl await "$c" || return 1
  restart KILL && job_is delayed "$b" && job_has "$b" '"due_usec":7' && wsctl cancel "$b" >/dev/null && wait_until job_is cancelled "$b"
}
one_that_has_ended() { # its end counts
  local a b
  a=$(later echo:echo x) && wsctl await "$a" >/dev/null && expect_output y wsctl submit --after "$a" echo:echo y || return 1
  b=$(later echo:status 3)
  expect_exit 3 wsctl await "$b" 2>/dev/null
  expect_exit 130 wsctl submit --after "$b" echo:echo y 2>"$WORK/err" || return 1
  grep -q "job $b, which failed" "$WORK/err" && expect_output y wsctl submit --after-any "$b" echo:echo y
}
passed_on() { # what fails takes along those behind it, and those behind them; the error names the first
  local a b c d
  rm -f "$WORK/passed"
  a=$(gate passed) && b=$(later --after "$a" echo:status 9) && c=$(later --after "$b" echo:echo c) &&
    d=$(later --after "$c" echo:echo d) && e=$(later --after-any "$c" echo:echo e) || return 1
  open_gate passed
  not_run "$c" "$b" failed && not_run "$d" "$b" failed && expect_output e wsctl await "$e"
}
every_bad_end() {
  local a b
  a=$(later crash:segv) && b=$(later --after "$a" echo:echo x) && not_run "$b" "$a" crashed || return 1
  wsctl plugin release crash
  a=$(later --timeout 20ms sleep:sleep 60000) && b=$(later --after "$a" echo:echo x) && not_run "$b" "$a" "timed out" || return 1
  a=$(later sleep:sleep 60000) && b=$(later --after "$a" echo:echo x) && wsctl cancel "$a" && not_run "$b" "$a" "was cancelled" || return 1
  # the other job of that executor, which may not run twice
  rm -f "$WORK/never"
  a=$(later ledger:gate-once "$WORK/never") && b=$(later --after "$a" echo:echo x) && wait_until job_is running "$a" || return 1
  pkill -KILL -P "$WSD_PID" # its executor
  not_run "$b" "$a" "was interrupted"
}
retries_first() { # an end counts that is the last one
  local a b
  rm -f "$WORK/tries"
  a=$(later --retries 3 --retry-delay 5ms ledger:nth "$WORK/tries" x 3) && b=$(later --after "$a" echo:echo b) || return 1
  expect_output b wsctl await "$b" && job_has "$a" '"attempts":3' || return 1
  a=$(later --retries 1 --retry-delay 1h echo:status 3) && b=$(later --after-any "$a" echo:echo b) && wait_until job_is delayed "$a" &&
    job_is held "$b" && wsctl cancel "$a" && expect_output b wsctl await "$b"
}
cancelled_itself() { # one that is held can go; nobody minds
  local a b c
  rm -f "$WORK/itself"
  a=$(gate itself) && b=$(later --after "$a" echo:echo b) && c=$(later --after-any "$b" echo:echo c) && wsctl cancel "$b" || return 1
  job_is cancelled "$b" && expect_output c wsctl await "$c" && open_gate itself && wsctl await "$a" >/dev/null
}
its_client_goes() { # a job that is not detached goes with its client, also while it is held
  local a b
  rm -f "$WORK/client"
  a=$(gate client) || return 1
  background wsctl submit --after "$a" echo:echo b
  b=$BACKGROUND_PID
  wait_until some_job_is held || return 1
  kill -KILL "$b"
  wait_until jobs_are held 0 && open_gate client && wsctl await "$a" >/dev/null
}
after_batch() { # when all of its jobs have ended, and well
  local a b c d e
  rm -f "$WORK/batch" "$WORK/ledger"
  a=$(wsctl map --detach ledger:gate "$WORK/batch" ::: a b c) && b=$(later --after "$a" ledger:once "$WORK/ledger" b) &&
    c=$(later --after "$b" --after-any "$a" ledger:once "$WORK/ledger" c) || return 1
  job_is held "$b" && job_has "$b" '"waits_for":1' && job_has "$c" '"waits_for":2' && [ ! -e "$WORK/ledger" ] || return 1
  open_gate batch
  expect_output c wsctl await "$c" && [ "$(tr '\n' ' ' <"$WORK/ledger")" = "b c " ] || return 1
  expect_output x wsctl submit --after "$a" echo:echo x || return 1 # it has ended
  # many jobs, and one that runs after all of them
  a=$(seq 3000 | wsctl map --detach echo:echo) && expect_output x wsctl submit --after "$a" echo:echo x || return 1
  # one of them fails, and the others are stopped or not
  a=$(wsctl map --detach --keep-going echo:status ::: 0 3 0) && b=$(later --after "$a" echo:echo b) && c=$(later --after "$b" echo:echo c) &&
    d=$(later --after-any "$a" echo:echo d) || return 1
  expect_output d wsctl await "$d" || return 1
  for e in "$b" "$c"; do # the second may have come when the first had ended
    expect_exit 130 wsctl await "$e" 2>"$WORK/err"
    grep -qE "not run: it was to run after (batch $a, of which a job failed|job $b, which was cancelled)\$" "$WORK/err" || {
      cat "$WORK/err"
      return 1
    }
  done
  rm -f "$WORK/batch"
  a=$(wsctl map --detach ledger:gate "$WORK/batch" ::: a b) && b=$(later --after "$a" echo:echo b) && wsctl cancel "$a" || return 1
  expect_exit 130 wsctl await "$b" 2>"$WORK/err"
  grep -q "batch $a, of which a job was cancelled" "$WORK/err" || {
    cat "$WORK/err"
    return 1
  }
  expect_exit 64 wsctl submit --durable --after "$a" echo:echo x 2>"$WORK/err" && grep -q 'no batch is on disk' "$WORK/err"
}
with_input() { # in one piece, in many, and as it comes
  local a size f
  rm -f "$WORK/input"
  for size in 100 3000000; do
    head -c $size /dev/urandom >"$WORK/bytes"
    for f in echo:echo echo:stream; do
      a=$(gate input) && b=$(later --after "$a" --input "$WORK/bytes" $f) || return 1
      job_is held "$b" && open_gate input && wsctl await "$b" | cmp - "$WORK/bytes" || return 1
      rm "$WORK/input"
    done
  done
}
with_key() { # the same key is the same job, whatever it is to run after
  local a b
  rm -f "$WORK/key"
  a=$(gate key) && b=$(later --key same --after "$a" echo:echo b) && [ "$(later --key same echo:echo c)" = "$b" ] && job_is held "$b" || return 1
  open_gate key && expect_output b wsctl await "$b"
}
refusals() {
  local a unknown=00000000000000000000000000000000
  expect_exit 66 wsctl submit --after $unknown echo:echo x 2>"$WORK/err" && grep -q "nothing can run after job $unknown" "$WORK/err" &&
    [ "$(wc -l <"$WORK/err")" = 1 ] || return 1
  expect_exit 64 wsctl submit --after 123 echo && expect_exit 64 wsctl submit --after "$unknown," echo &&
    expect_exit 64 wsctl submit --after "" echo && expect_exit 64 wsctl submit --local --after $unknown echo &&
    expect_exit 64 wsctl submit --local --tag x echo || return 1
  a=$(later echo:echo x) && expect_exit 64 wsctl submit --durable --after "$a" echo x 2>"$WORK/err" &&
    grep -q -- 'submit that one with --durable, too' "$WORK/err"
}
as_many_as() { # the limit, one below, one above, and both kinds together
  local ids
  ids=$(for ((i = 0; i < MAX - 1; i++)); do printf '%s,' "$1"; done)
  expect_output x wsctl submit --after "${ids%,}" echo:echo x && expect_output x wsctl submit --after "$ids$1" echo:echo x &&
    expect_output x wsctl submit --after "${ids%,}" --after-any "$1" echo:echo x &&
    expect_exit 64 wsctl submit --after "$ids$1,$1" echo:echo x 2>/dev/null &&
    expect_exit 64 wsctl submit --after "$ids$1" --after-any "$1" echo:echo x 2>/dev/null
}
the_limit() {
  local a
  a=$(later echo:echo x) && wsctl await "$a" >/dev/null && as_many_as "$a" || return 1
  rm -f "$WORK/limit"
  a=$(gate limit) || return 1
  background sh -c 'while ! wsctl --json list | grep -q "\"waits_for\":'$((MAX - 1))'"; do :; done; : >"$0"' "$WORK/limit"
  as_many_as "$a"
}
charged() { # what waiting costs is the user's, and given back
  local a b before
  wait_until sh -c '[ "$(wsctl --json stats | sed "s/.*\"jobs_open\":\([0-9]*\).*/\1/")" = 0 ]' || return 1
  rm -f "$WORK/charged"
  a=$(gate charged) && before=$(counter bytes_charged) && b=$(later --after "$a,$a,$a,$a" echo:echo) || return 1
  [ "$(counter bytes_charged)" -gt $((before + 4 * 40)) ] && wsctl cancel "$b" && [ "$(counter bytes_charged)" -le "$before" ] &&
    open_gate charged && wsctl await "$a" >/dev/null
}
in_units() { # of its user's share of the loop: COST_AFTER each
  local a ids before
  a=$(later echo:echo x) && wsctl await "$a" >/dev/null && before=$(counter request_units) || return 1
  ids=$(for ((i = 1; i < MAX; i++)); do printf '%s,' "$a"; done)
  expect_output x wsctl submit --after "$ids$a" echo:echo x && [ "$(counter request_units)" -gt $((before + MAX * 100)) ]
}
many() { # behind one, and in a row, where the first fails: more than one turn of wsd takes
  local a n=3000
  rm -f "$WORK/many"
  a=$(gate many) || return 1
  background "$BUILD/tests/support/clients/follow-on" star "$a" $n
  wait_until jobs_are held $n && open_gate many && wait "$BACKGROUND_PID" || return 1
  "$BUILD/tests/support/clients/follow-on" row $n
}
admin_drain() { # what is held is waited for
  local a b
  rm -f "$WORK/drain"
  a=$(gate drain) && b=$(later --after "$a" echo:echo b) && wsctl drain --no-wait >/dev/null && expect_exit 75 later echo:echo x 2>/dev/null || return 1
  open_gate drain && wsctl drain >/dev/null && job_is succeeded "$b" && wsctl resume
}

# --- durable ones ---

survive() { # SIGNAL: held jobs are held after a restart, by those that have not ended, and go on
  local a b c d e f
  rm -f "$WORK/survive" "$WORK/ledger"
  f=$(later --durable echo:echo x) && wsctl await "$f" >/dev/null && a=$(gate survive --durable) &&
    b=$(later --durable --after "$a,$f" ledger:again "$WORK/ledger" b) && c=$(later --durable --after "$b" ledger:again "$WORK/ledger" c) &&
    d=$(later --durable --after-any "$a" --tag kept ledger:again "$WORK/ledger" d) && wait_until job_is running "$a" || return 1
  if [ "$1" = TERM ]; then # and one that is not, which cannot wait for another wsd
    background wsctl submit --after "$b" echo:echo e 2>"$WORK/err"
    e=$BACKGROUND_PID
    wait_until jobs_are held 4 || return 1
    kill -TERM "$WSD_PID"
    local status=0
    wait_for_exit "$e" || status=$?
    cat "$WORK/err"
    [ "$status" = 125 ] && grep -q "wsd is ending, and job $b" "$WORK/err" || return 1
    ! gone "$WSD_PID" && job_is running "$a" || return 1 # it drains: the one that runs is waited for
    kill_wsd
    serve || return 1
  else
    restart "$1" || return 1
  fi
  job_is held "$b" && job_has "$b" '"waits_for":1' && job_is held "$c" && job_is held "$d" && job_has "$d" '"tags":\["kept"\]' && wait_until job_is running "$a" || return 1
  open_gate survive
  expect_output c wsctl await "$c" && expect_output d wsctl await "$d" && [ "$(sort "$WORK/ledger" | tr '\n' ' ')" = "b c d " ]
}
bad_end_at_restart() { # what was interrupted by the death of wsd takes along those behind it
  local a b c
  rm -f "$WORK/bad"
  a=$(later --durable ledger:gate-once "$WORK/bad") && b=$(later --durable --after "$a" echo:echo b) &&
    c=$(later --durable --after-any "$a" echo:echo c) && wait_until job_is running "$a" && restart KILL || return 1
  not_run "$b" "$a" "was interrupted" && expect_output c wsctl await "$c"
}
on_disk() { # a cancelled one is cancelled after a restart, too
  local a b
  a=$(later --durable echo:status 4) && b=$(later --durable --after "$a" echo:echo b) && not_run "$b" "$a" failed && restart KILL &&
    job_is cancelled "$b" && job_has "$b" "which failed"
}
dead_and_again() { # a dead one took those behind it along; queued again, it takes others with it
  local a b
  rm -f "$WORK/ledger"
  a=$(later --durable --retries 1 --retry-delay 5ms ledger:nth "$WORK/ledger" x 3) && b=$(later --durable --after "$a" echo:echo b) || return 1
  not_run "$b" "$a" failed && wait_until wsctl dead requeue "$a" && expect_output c wsctl submit --after "$a" echo:echo c
}
end_is_met_once() { # who has met the end of a dead one does not wait for its next one, after a restart either; who came since does
  local a b c
  rm -f "$WORK/met"
  a=$(later --durable --retries 1 --retry-delay 5ms ledger:fails "$WORK/met") &&
    b=$(later --durable --after-any "$a" --delay 1h echo:echo b) && job_is held "$b" && open_gate met && wait_until is_dead "$a" || return 1
  rm "$WORK/met"
  wsctl dead requeue "$a" && c=$(later --durable --after-any "$a" --delay 1h echo:echo c) && job_is delayed "$b" && job_is held "$c" && restart KILL || return 1
  job_is delayed "$b" && job_is held "$c" && open_gate met && wait_until job_is delayed "$c" && job_is delayed "$b"
}
is_dead() { # ID
  wsctl --json dead list | grep -q "\"id\":\"$1\""
}

export WSD_SOCKET=$WORK/wsd.sock
serve || exit 1
check "one after the other" in_order
check "durable ones too" in_order --durable
check "one that has ended before" one_that_has_ended
check "a failure is passed on, and named" passed_on
check "every bad end counts as one" every_bad_end
check "retries come first" retries_first
check "one that is held is cancelled" cancelled_itself
check "the client of one that is held goes" its_client_goes
check "after a batch, with thousands of jobs, too" after_batch
check "with input of every kind" with_input
check "with a key" with_key
check "what cannot be is refused, with words" refusals
check "at most $MAX, below, at and above" the_limit
check "each costs units of a turn" in_units
check "charged, and given back" charged
check "thousands behind one, and thousands in a row" many
check "wsctl drain waits for what is held" admin_drain
check "kill -9 of wsd: what was held is held" survive KILL
check "held, then delayed, by kill -9 too" and_later
check "SIGTERM: durable ones stay held, others are told" survive TERM
check "interrupted by the death of wsd" bad_end_at_restart
check "cancelled for good" on_disk
check "dead, and queued again" dead_and_again
check "an end is met once" end_is_met_once
kill -TERM "$WSD_PID"
check "wsd ends in order" wait_for_exit "$WSD_PID"
clean_log "$WSD_LOG"

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  others() {
    local a
    printf '[daemon]\nsystem = yes\n' >"$WSD_CONFIG"
    mkdir -p "$WORK/inst" && cp "$WSCTL" "$BUILD"/client/libwsclient.so.0 "$WORK/inst/" && chmod 755 "$WORK" "$WORK/inst"
    start_wsd --plugin-dir "$TEST_PLUGINS" && chmod 666 "$WSD_SOCKET" && chmod 755 "${WSD_SOCKET%/*}" || return 1
    a=$(later echo:echo x) || return 1
    expect_exit 66 setpriv --reuid=1001 --regid=1001 --clear-groups --inh-caps=-all -- \
      env LD_LIBRARY_PATH="$WORK/inst" "$WORK/inst/wsctl" submit --after "$a" echo:echo y
  }
  check "another user's job is none" others
  stop_wsd
else
  skip "another user's job is none" "only root can act as another user"
fi
