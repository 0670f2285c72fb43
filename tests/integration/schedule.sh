#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2015,SC2016 # `A && B || { say; return 1; }` is meant; what is quoted is for the inner shell
#
# schedule.sh: jobs that come again and again, from `wsctl schedule` and from wsd.conf: they run when they are due, one at a
# time, survive kill -9 of wsd, and what was missed is made up for by one run, or by none.
. "$(dirname "$0")/../support/lib.sh"

on_disk() { # the store does one thing after the other: what was before this is there, too
  wsctl submit --durable echo x >/dev/null
}
n_lines_at_least() { # FILE N
  [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]
}
apart() { # COMMAND...: with a wsd of its own, beside the others
  serve || return 1
  "$@" || {
    show "$WSD_LOG"
    return 1
  }
  kill -TERM "$WSD_PID"
  wait_for_exit "$WSD_PID" && clean_log "$WSD_LOG"
}
of() { # NAME PATTERN
  wsctl --json schedule list | grep "\"name\":\"$1\"" | grep -q "$2"
}
number_of() { # NAME KEY
  wsctl --json schedule list | grep "\"name\":\"$1\"" | sed "s/.*\"$2\":\([0-9]*\).*/\1/"
}
passed() { # SECONDS: since now, by the clock
  wait_until sh -c "[ \$(date +%s%N) -gt $(($(date +%s%N) + $1 * 1000000000)) ]"
}

comes_again() { # OPTION...
  rm -f "$WORK/ledger"
  wsctl schedule add often --on '*:*:*' "$@" ledger:once "$WORK/ledger" x || return 1
  wait_until n_lines_at_least "$WORK/ledger" 3 && wait_until of often '"last":"succeeded","exit":0' || {
    wsctl --json schedule list
    return 1
  }
  [ "$(number_of often runs)" -ge 3 ] || return 1
  wsctl schedule remove often && expect_exit 66 wsctl schedule remove often && [ -z "$(wsctl --json schedule list)" ]
}
is_listed() {
  local next
  wsctl schedule add daily --on '*-*-* 12:34:56 UTC' --persistent fib 5 || return 1
  next=$(($(date -u -d "$(LC_ALL=C TZ=UTC systemd-analyze calendar '*-*-* 12:34:56 UTC' 2>/dev/null | sed -n 's/.*Next elapse: //p')" +%s) * 1000000))
  if command -v systemd-analyze >/dev/null; then
    of daily "\"on\":\"\*-\*-\* 12:34:56 UTC\",\"plugin\":\"fib\",\"function\":\"\",\"uid\":$(id -u),\"persistent\":true,\"configured\":false,\"next_usec\":$next,\"runs\":0,\"skipped\":0,\"last\":\"-\"" ||
      {
        wsctl --json schedule list
        return 1
      }
  fi
  wsctl schedule list | grep -q '^daily .* 0 *0 *fib  \*-\*-\* 12:34:56 UTC$' || {
    wsctl schedule list
    return 1
  }
  wsctl schedule remove daily
}
runs_now() {
  local id
  wsctl schedule add later --on yearly fib 20 || return 1
  id=$(wsctl schedule run later) && expect_output 6765 wsctl await "$id" || return 1
  wsctl --json status "$id" | grep -q '"key"' && {
    wsctl --json status "$id"
    return 1
  } # only what is durable has one
  of later "\"runs\":1.*\"last\":\"succeeded\",\"exit\":0.*\"id\":\"$id\"" || {
    wsctl --json schedule list
    return 1
  }
  [ "$(wsctl --json schedule run later | grep -o '"id":"[0-9a-f]\{32\}"' | wc -l)" = 1 ] || return 1
  wsctl schedule remove later && expect_exit 66 wsctl schedule run later
}
one_at_a_time() { # what comes due meanwhile is skipped, and counted
  rm -f "$WORK/gate"
  wsctl schedule add slow --on '*:*:*' ledger:gate "$WORK/gate" || return 1
  wait_until of slow '"skipped":[1-9].*"last":"running"' || {
    wsctl --json schedule list
    return 1
  }
  expect_exit 75 wsctl schedule run slow 2>"$WORK/err" && grep -q 'not done' "$WORK/err" || return 1
  [ "$(number_of slow runs)" = 1 ] && jobs_are running 1 || return 1
  : >"$WORK/gate"
  wait_until of slow '"runs":2' && wsctl schedule remove slow
}
ends_badly() {
  wsctl schedule add bad --on yearly echo:status 7 && wsctl schedule run bad >/dev/null && wait_until of bad '"last":"failed","exit":7' || return 1
  wsctl schedule remove bad
  wsctl schedule add none --on yearly no-such-plugin && expect_exit 66 wsctl schedule run none || return 1
  of none '"runs":0.*"last":"refused","exit":66,"error":"not found in' || {
    wsctl --json schedule list
    return 1
  }
  wsctl schedule remove none
}
options() { # of submit: each has its effect on the job
  wsctl schedule add full --on yearly --timeout 50ms --retries 1 --retry-delay 1ms --retry-on timed-out --durable --priority 5 sleep:sleep 60000 || return 1
  wsctl schedule run full >"$WORK/id" && expect_exit 124 wsctl await "$(cat "$WORK/id")" 2>/dev/null || return 1
  wsctl --json status "$(cat "$WORK/id")" | grep -q '"attempts":2.*"durable":true.*"retries":1' || {
    wsctl --json status "$(cat "$WORK/id")"
    return 1
  }
  wsctl --json status "$(cat "$WORK/id")" | grep -qE "\"key\":\"wsd-schedule full [0-9]{16}\"" || {
    wsctl --json status "$(cat "$WORK/id")"
    return 1
  }
  wsctl dead drop "$(cat "$WORK/id")"
  wsctl schedule remove full
}
removed_while_it_runs() {
  local id
  rm -f "$WORK/gate"
  wsctl schedule add gone --on yearly ledger:gate "$WORK/gate" && id=$(wsctl schedule run gone) && wsctl schedule remove gone || return 1
  : >"$WORK/gate"
  expect_output open wsctl await "$id"
}
refusals() {
  local text
  for text in '' x 'Mon..' 25:00 '*-13-01' '12:00 Nowhere/City' "$(printf '1,%.0s' {1..200})1:00"; do
    expect_exit 64 wsctl schedule add x --on "$text" fib 2>"$WORK/err" || {
      echo "[$text]"
      cat "$WORK/err"
      return 1
    }
  done
  refused 64 'there is no time zone Europe/Nowhere here' wsctl schedule add x --on 'Mon 10:00 Europe/Nowhere' fib &&
    refused 64 'not a calendar expression' wsctl schedule add x --on 'Mon 30:00 Europe/Nowhere' fib || return 1
  expect_exit 64 wsctl schedule add x --on '2001-01-01' fib 2>"$WORK/err" && grep -q 'never comes' "$WORK/err" || return 1
  for text in '' 'a b' 'ä' "$(printf 'n%.0s' {1..64})" 'a/b'; do
    expect_exit 64 wsctl schedule add "$text" --on daily fib || {
      echo "[$text]"
      return 1
    }
  done
  text=$(printf 'n%.0s' {1..63})
  wsctl schedule add "$text" --on daily fib && wsctl schedule remove "$text" || return 1
  wsctl schedule add twice --on daily fib && expect_exit 64 wsctl schedule add twice --on daily fib 2>"$WORK/err" && grep -q 'remove' "$WORK/err" || return 1
  wsctl schedule remove twice
  expect_exit 64 wsctl schedule add x fib && expect_exit 64 wsctl schedule add x --on daily && expect_exit 64 wsctl schedule && expect_exit 64 wsctl schedule list x &&
    expect_exit 64 wsctl schedule remove && expect_exit 64 wsctl schedule frob x && [ -z "$(wsctl --json schedule list)" ]
}
limited() { # below, at, above
  printf '[limits]\nmax-schedules-per-user = 2\n' >"$WSD_CONFIG"
  reload_config || return 1
  wsctl schedule add a --on daily fib && wsctl schedule add b --on daily fib || return 1
  expect_exit 75 wsctl schedule add c --on daily fib 2>"$WORK/err" && grep -q max-schedules-per-user "$WORK/err" || return 1
  wsctl schedule remove a && wsctl schedule add c --on daily fib && wsctl schedule remove b && wsctl schedule remove c || return 1
  : >"$WSD_CONFIG"
  reload_config
}
within_limits_of_jobs() { # a run that the limits refuse is told
  printf '[limits]\nmax-jobs-per-user = 1\n' >"$WSD_CONFIG"
  reload_config || return 1
  wsctl schedule add x --on yearly fib 1 || return 1
  rm -f "$WORK/gate"
  background wsctl submit ledger:gate "$WORK/gate" >/dev/null
  wait_until some_job_is running || return 1
  expect_exit 75 wsctl schedule run x 2>/dev/null && of x '"last":"refused","exit":75' || return 1
  : >"$WORK/gate"
  wsctl schedule remove x
  : >"$WSD_CONFIG"
  reload_config
}

survives() { # kill -9: what was told is there, and what was removed is not
  wsctl schedule add stays --on yearly --persistent ledger:once "$WORK/ledger" 'b c' && wsctl schedule add goes --on yearly fib && wsctl schedule remove goes || return 1
  wsctl schedule run stays >"$WORK/id" && expect_output 'b c' wsctl await "$(cat "$WORK/id")" || return 1
  wait_until of stays '"last":"succeeded"' || {
    wsctl --json schedule list
    return 1
  }
  wsctl --json schedule list >"$WORK/before"
  on_disk || return 1
  kill_wsd && serve || return 1
  wsctl --json schedule list | diff "$WORK/before" - || return 1
  wsctl schedule run stays >"$WORK/id" && expect_output 'b c' wsctl await "$(cat "$WORK/id")" && wsctl schedule remove stays || return 1
  kill_wsd && serve && [ -z "$(wsctl --json schedule list)" ]
}
stays_away() { # killed while the disk stands still: whoever was not told that it is removed may see it again, whoever was may not
  local status=0 remover
  kill_wsd
  serve_with "LD_PRELOAD=$BUILD/tests/support/shims/powerloss.so" POWERLOSS_HOLD="$WORK/held" && wsctl schedule add away --on yearly fib || return 1
  : >"$WORK/held"
  background wsctl schedule remove away
  remover=$BACKGROUND_PID
  wait_until sh -c '[ -z "$(wsctl --json schedule list)" ]' || return 1
  kill_wsd
  rm "$WORK/held"
  wait "$remover" || status=$?
  serve || return 1
  [ "$status" != 0 ] || [ -z "$(wsctl --json schedule list)" ] || return 1
  wsctl schedule remove away && [ -z "$(wsctl --json schedule list)" ] # it is there: nothing of this went by the disk
}
goes_on() { # after a restart
  rm -f "$WORK/ledger"
  wsctl schedule add often --on '*:*:*' ledger:once "$WORK/ledger" x && wait_until n_lines_at_least "$WORK/ledger" 1 || return 1
  kill_wsd && serve || return 1
  wait_until n_lines_at_least "$WORK/ledger" $(($(wc -l <"$WORK/ledger") + 2)) && wsctl schedule remove often
}
soon() { # FIRST LAST: each second from so many on, all of them in this minute
  local now
  wait_until sh -c "[ \$(date -u +%-S) -lt $((58 - $2)) ]"
  now=$(date -u +%s)
  date -u -d "@$((now + $1))" "+%F %H:%M:%S$([ "$1" = "$2" ] || date -u -d "@$((now + $2))" +..%S) UTC"
}
are_over() { # N: so many seconds from now
  wait_until sh -c "[ \$(date +%s) -gt $(($(date +%s) + $1)) ]"
}
runs_of() { # NAME N
  [ "$(number_of "$1" runs)" = "$2" ] || {
    wsctl --json schedule list
    return 1
  }
}
in_time() { # SECONDS COMMAND...: done before so many seconds have passed, which a busy machine may need more tries for
  local seconds=$1 began
  shift
  for _ in {1..20}; do
    began=$(date +%s%N)
    "$@" || return 1
    [ $(($(date +%s%N) - began)) -ge $((seconds * 1000000000)) ] || return 0
    serve && "$@" undo || return 1
  done
  return 1
}
killed_with() { # NAME OPTION... [undo]: wsd is killed while it has a schedule for the 4th and 5th second from now
  local name=$1
  shift
  [ "${*: -1}" != undo ] || { wsctl schedule remove "$name" && rm -f "$WORK/ledger" && return; }
  wsctl schedule add "$name" --on "$(soon 4 5)" "$@" ledger:once "$WORK/ledger" x && kill_wsd
}
killed_with_file() { # PERSISTENT [undo]: the same, of a schedule in wsd.conf
  [ "${2:-}" != undo ] || { : >"$WSD_CONFIG" && reload_config && on_disk && rm -f "$WORK/ledger" && return; }
  printf '[schedule tick]\non = %s\njob = ledger:once %s x\npersistent = %s\n' "$(soon 4 5)" "$WORK/ledger" "$1" >"$WSD_CONFIG"
  reload_config && on_disk && kill_wsd
}
missed() { # N OPTION...: at the start there are N runs for all that was missed; it does not matter that no more will come
  local n=$1
  shift
  rm -f "$WORK/ledger"
  in_time 4 killed_with rare "$@" && are_over 5 && serve || return 1
  [ "$n" = 0 ] || wait_until of rare '"last":"succeeded"' || {
    wsctl --json schedule list
    return 1
  }
  on_disk && runs_of rare "$n" && wsctl schedule remove rare && { [ "$n" = 0 ] || [ "$(wc -l <"$WORK/ledger")" = "$n" ]; }
}
missed_in_file() { # N PERSISTENT: the same of one that stands in wsd.conf
  local n=$1
  rm -f "$WORK/ledger"
  in_time 4 killed_with_file "$2" && are_over 5 && serve || return 1
  [ "$n" = 0 ] || wait_until of tick '"last":"succeeded"' || {
    wsctl --json schedule list
    return 1
  }
  on_disk && runs_of tick "$n" && { [ "$n" = 0 ] || [ "$(wc -l <"$WORK/ledger")" = "$n" ]; }
}
not_twice() { # wsd dies with the run on disk, when the schedule does not know of it
  rm -f "$WORK/ledger"
  kill_wsd
  serve_with "LD_PRELOAD=$BUILD/tests/support/shims/powerloss.so" "POWERLOSS_AFTER=wsd-schedule once" || return 1
  local i
  for i in 1 2 3 4 5; do # the time may be over before it is there
    wsctl schedule add once --on "$(soon 2 2)" --durable --persistent ledger:once "$WORK/ledger" x && break
  done
  wait_until gone "$WSD_PID" && [ ! -e "$WORK/ledger" ] ||
    return 1
  wait "$WSD_PID" 2>/dev/null
  serve && wait_until of once '"last":"succeeded"' && runs_of once 1 && [ "$(wc -l <"$WORK/ledger")" = 1 ] &&
    [ "$(wsctl --json list | grep -c '"key":"wsd-schedule once')" = 1 ] && wsctl schedule remove once
}
due_on_its_way() { # its time comes while the disk has not answered yet
  rm -f "$WORK/ledger"
  kill_wsd
  serve_with "LD_PRELOAD=$BUILD/tests/support/shims/powerloss.so" "POWERLOSS_HOLD=$WORK/hold" || return 1
  : >"$WORK/hold"
  background wsctl schedule add once --on "$(soon 3 3)" ledger:once "$WORK/ledger" x
  are_over 4
  [ ! -e "$WORK/ledger" ] && rm "$WORK/hold" && wait_for_exit "$BACKGROUND_PID" && wait_until n_lines_at_least "$WORK/ledger" 1 && runs_of once 1 &&
    wsctl schedule remove once
}
though_killed() { # durable runs, killed again and again: it goes on
  local i
  rm -f "$WORK/ledger"
  wsctl schedule add kills --on '*:*:*' --durable --persistent ledger:once "$WORK/ledger" x || return 1
  for i in 1 2 3 4 5; do
    wait_until n_lines_at_least "$WORK/ledger" "$i" || return 1
    kill_wsd && serve || return 1
  done
  wait_until n_lines_at_least "$WORK/ledger" 8 && wsctl schedule remove kills
}
still_followed() { # a durable run goes on in the next wsd, and is the one run still
  rm -f "$WORK/gate"
  wsctl schedule add long --on yearly --durable --retries 3 --retry-delay 5ms ledger:gate "$WORK/gate" && wsctl schedule run long >"$WORK/id" || return 1
  wait_until sh -c 'wsctl --json status "$(cat "$1")" | grep -q running' - "$WORK/id" || return 1
  kill_wsd && serve || return 1
  wait_until of long '"last":"running"' && expect_exit 75 wsctl schedule run long || {
    wsctl --json schedule list
    return 1
  }
  : >"$WORK/gate"
  wait_until of long '"last":"succeeded"' && wsctl schedule remove long
}

configured() {
  rm -f "$WORK/ledger"
  printf '[schedule tick]\non = *:*:*\njob = ledger:once %s "two words"\n' "$WORK/ledger" >"$WSD_CONFIG"
  reload_config && wait_until n_lines_at_least "$WORK/ledger" 2 && grep -q 'two words' "$WORK/ledger" || {
    cat "$WSD_LOG"
    return 1
  }
  of tick '"configured":true' && expect_exit 77 wsctl schedule remove tick && on_disk || return 1
  kill_wsd && serve && of tick '"configured":true' && [ "$(wsctl --json schedule list | wc -l)" = 1 ] || return 1
  [ "$(number_of tick runs)" -ge 2 ] || {
    wsctl --json schedule list
    return 1
  }
  printf '[schedule tick]\non = yearly\njob = fib 5\n' >"$WSD_CONFIG"
  reload_config && of tick '"on":"yearly","plugin":"fib"' || return 1
  : >"$WSD_CONFIG"
  reload_config && [ -z "$(wsctl --json schedule list)" ] || return 1
  kill_wsd && serve && [ -z "$(wsctl --json schedule list)" ]
}
gone_meanwhile() { # from the file, while wsd was not there
  printf '[schedule tick]\non = yearly\njob = fib 5\n' >"$WSD_CONFIG"
  reload_config && of tick yearly || return 1
  kill_wsd
  : >"$WSD_CONFIG"
  serve && [ -z "$(wsctl --json schedule list)" ]
}
misconfigured() {
  local line
  for line in 'on = never' 'on =' 'job = "a' 'persistent = perhaps' 'user = nobody-knows-him' 'frob = 1'; do
    printf '[schedule x]\n%s\n' "$line" >"$WORK/bad.conf"
    expect_exit 64 wsd --config "$WORK/bad.conf" --check-config || {
      echo "$line"
      return 1
    }
  done
  printf '[schedule x]\non = daily Europe/Nowhere\njob = fib\n' >"$WORK/bad.conf"
  says 64 'on = daily Europe/Nowhere: there is no time zone Europe/Nowhere here' wsd --config "$WORK/bad.conf" --check-config || return 1
  printf '[schedule x]\non = daily\n' >"$WORK/bad.conf"
  expect_exit 64 wsd --config "$WORK/bad.conf" --check-config 2>"$WORK/err" && grep -q 'has no .job' "$WORK/err" || return 1
  printf '[schedule a b]\non = daily\njob = fib\n' >"$WORK/bad.conf"
  expect_exit 64 wsd --config "$WORK/bad.conf" --check-config || return 1
  printf '[schedule x]\non = daily\njob = fib:nothing 1 "two words" ""\npersistent = yes\n' >"$WORK/good.conf"
  wsd --config "$WORK/good.conf" --print-config >"$WORK/printed" && grep -q '^job = fib:nothing 1 "two words" ""$' "$WORK/printed" &&
    wsd --config "$WORK/printed" --print-config | diff "$WORK/printed" -
}
drained() { # a wsd that ends starts nothing more
  wsctl schedule add often --on '*:*:*' fib 5 && kill -TERM "$WSD_PID" && wait_for_exit "$WSD_PID" && serve && wsctl schedule remove often
}
without_a_store() {
  local old=$WSD_SOCKET
  : >"$WORK/no-directory"
  export WSD_SOCKET=$WORK/other.sock
  background "$WSD" --socket "$WSD_SOCKET" --config "$WSD_CONFIG" --executor "$EXECUTOR" --plugin-dir "$PLUGINS" --state-dir "$WORK/no-directory/x" >>"$WSD_LOG" 2>&1 </dev/null
  wait_until answers "$BACKGROUND_PID" "$WSD_SOCKET" || return 1
  expect_exit 74 wsctl schedule add x --on daily fib && [ -z "$(wsctl --json schedule list)" ] || return 1
  kill -TERM "$BACKGROUND_PID" && wait_for_exit "$BACKGROUND_PID"
  export WSD_SOCKET=$old
}

# Those that wait for the seconds of a schedule to come do so at once.
beside "it comes again and again" apart comes_again
beside "durable ones, too" apart comes_again --durable
beside "one run at a time" apart one_at_a_time
beside "and goes on after kill -9" apart goes_on
beside "missed: one run, with persistent" apart missed 1 --persistent
beside "missed: none, without" apart missed 0
beside "missed, in wsd.conf: one run, with persistent" apart missed_in_file 1 yes
beside "missed, in wsd.conf: none, without" apart missed_in_file 0 no
if [ -z "${WSD_SANITIZE:-}" ]; then
  beside "killed when a durable run is on disk: it is not run twice" apart not_twice
  beside "its time comes while it is on its way to the disk" apart due_on_its_way
fi
beside "killed again and again, durable runs go on" apart though_killed
beside "from wsd.conf, read again" apart configured

export WSD_SOCKET=$WORK/wsd.sock
serve || exit 1
check "what there is, and when it comes" is_listed
check "run now" runs_now
check "a bad end is told" ends_badly
check "options of submit" options
check "removed while it runs" removed_while_it_runs
check "what cannot be is refused" refusals
check "so many a user" limited
check "within its user's limits" within_limits_of_jobs
check "it survives kill -9" survives
if [ -z "${WSD_SANITIZE:-}" ]; then
  check "what was removed stays away" stays_away
else
  skip "with a disk that stands still" "a sanitizer wants to be first in a process"
fi
check "a durable run is followed after a restart" still_followed
check "from wsd.conf, and no longer" gone_meanwhile
check "a bad section is refused" misconfigured
check "not while wsd ends" drained
check "without a state directory" without_a_store
kill -TERM "$WSD_PID"
check "wsd ends in order" wait_for_exit "$WSD_PID"
clean_log "$WSD_LOG"
gather
