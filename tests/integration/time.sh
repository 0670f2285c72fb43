#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2015,SC2016 # `A && B || { say; return 1; }` is meant; what is quoted is for the inner shell
#
# time.sh: jobs that go on later, after a span or at a time, and jobs that may wait only so long: also when wsd is killed
# meanwhile.
. "$(dirname "$0")/../support/lib.sh"

WSD_OPTIONS=(--workers 1)

apart() { # COMMAND...: with a wsd of its own, beside the others
  serve || return 1
  "$@" || {
    show "$WSD_LOG"
    return 1
  }
  kill -TERM "$WSD_PID"
  wait_for_exit "$WSD_PID" && clean_log "$WSD_LOG"
}
passed() { # SECONDS: since now, by the clock
  wait_until sh -c "[ \$(date +%s%N) -gt $(($(date +%s%N) + $1 * 1000000000)) ]"
}
usec() { # since the epoch
  echo $(($(date +%s%N) / 1000))
}
began() { # ID: when, since the epoch
  wsctl --json status "$1" | sed 's/.*"queued_usec":\([0-9]*\).*"submitted_usec":\([0-9]*\).*/\1 + \2/' | { read -r sum && echo $((sum)); }
}
at() { # SECONDS from now: as @EPOCH
  date +@%s.%N --date="$1 seconds"
}

not_before() { # OPTION...: it begins when it is due, not before
  local id before
  before=$(usec)
  id=$(wsctl submit --detach "$@" echo later) || return 1
  expect_output later wsctl await "$id" || return 1
  [ "$(began "$id")" -ge $((before + 300000)) ] || {
    wsctl --json status "$id"
    return 1
  }
}
is_shown() { # OPTION...
  local id left
  id=$(wsctl submit --detach "$@" echo later) || return 1
  job_has "$id" '"state":"delayed"' && wsctl status "$id" | grep -q '^due in' || {
    wsctl --json status "$id"
    return 1
  }
  left=$(wsctl --json status "$id" | sed 's/.*"due_usec":\([0-9]*\).*/\1/')
  [ "$left" -gt 3500000000 ] && [ "$left" -le 3600000000 ] || {
    echo "$left"
    return 1
  }
  wsctl --json list | grep "$id" | grep -q '"state":"delayed"' || return 1
  wsctl cancel "$id" && expect_exit 130 wsctl await "$id"
}
in_order_of_time() { # not of submitting
  local i ids=() base
  base=$(($(date +%s) + 3 * TIME_SCALE)) # all are there before the first is due
  rm -f "$WORK/ledger"
  for i in 5 3 1 4 2; do
    ids+=("$(wsctl submit --detach --at "@$base.$i" ledger:once "$WORK/ledger" "$i")")
  done
  wsctl await "${ids[@]}" >/dev/null && expect_output "1 2 3 4 5" sh -c 'sed "s/.* //" "$1" | tr "\n" " " | sed "s/ $//"' - "$WORK/ledger"
}
holds_nobody_up() {
  local id
  id=$(wsctl submit --detach --priority 100 --delay 1h echo later) || return 1
  expect_output now wsctl submit echo now && wsctl cancel "$id"
}
past() {
  expect_output x wsctl submit --at @0.5 echo x && expect_output x wsctl submit --at '1999-12-31 23:59' echo x &&
    expect_output x wsctl submit --at 'today 00:00' echo x && expect_output x wsctl submit --at 2001-02-03T04:05:06.7+01:00 echo x
}
due_at() { # WHEN: in seconds since the epoch, as wsctl reads it
  local id now
  id=$(TZ=$1 wsctl submit --detach --at "$2" echo later) || return 1
  now=$(usec)
  wsctl --json status "$id" | sed 's/.*"due_usec":\([0-9]*\).*/\1/' | { read -r left && echo $(((left + now + 500000) / 1000000)); }
  wsctl cancel "$id"
}
as_date_reads_it() { # ZONE WHEN [AS]
  local got wanted
  got=$(due_at "$1" "$2") && wanted=$(TZ=$1 date +%s --date="${3:-$2}") || return 1
  [ $((got - wanted)) -ge -2 ] && [ $((got - wanted)) -le 2 ] || {
    echo "$1 $2: $got where $wanted was expected"
    return 1
  }
}
times() {
  local zone
  for zone in UTC Europe/Berlin America/New_York Asia/Kolkata; do
    as_date_reads_it $zone '2031-05-17 08:00' && as_date_reads_it $zone 2031-12-17 && as_date_reads_it $zone 2031-05-17T08:00:30Z &&
      as_date_reads_it $zone '2031-05-17 08:00 UTC' && as_date_reads_it $zone '2031-05-17 08:00:01-05:30' &&
      as_date_reads_it $zone 'tomorrow 08:00' && as_date_reads_it $zone tomorrow 'tomorrow 00:00' && as_date_reads_it $zone @1937001600 || return 1
  done
}
# What systemd takes and is not past, wsctl takes, too; it and wsctl read the same.
as_systemd_reads_it() {
  local text got wanted
  command -v systemd-analyze >/dev/null || return 0
  for text in now +5min '+1h 30min' '5min left' '2031-05-17 08:00' 2031-05-17 'Sat 2031-05-17 08:00:30' '2031-05-17 08:00 UTC' tomorrow @1937001600; do
    wanted=$(TZ=Europe/Berlin systemd-analyze timestamp -- "$text" | sed -n 's/.*UNIX seconds: @\([0-9]*\).*/\1/p') && [ -n "$wanted" ] || return 1
    if [ "$text" = now ]; then expect_output x wsctl submit --at now echo x && continue; fi
    got=$(due_at Europe/Berlin "$text") && [ $((got - wanted)) -ge -5 ] && [ $((got - wanted)) -le 5 ] ||
      {
        echo "$text: $got where $wanted was expected"
        return 1
      }
  done
}
no_times() {
  local text
  for text in '' x 24:00 12:60 1:00 12:00:60 12 2031-02-30 2031-13-01 2031-00-01 2031-01-00 '2031-05-17 25:00' '2031-05-17 08:00 CET' @ @x \
    @253402300800 -1 'tomorrow 8' tomorrow08:00 today '12:00 ' '2031-05-17 08:00+1:00'; do
    expect_exit 64 wsctl submit --at "$text" echo x 2>"$WORK/err" || {
      echo "[$text]"
      return 1
    }
    grep -q 'not a time; write' "$WORK/err" || return 1
  done
  expect_exit 64 wsctl submit --at @1 --delay 1s echo x && expect_exit 64 wsctl submit --local --delay 1s echo x &&
    expect_exit 64 wsctl submit --delay 0 echo x
}
spans() { # ten years, below, at and above
  local id
  for span in 315575999s 315576000s; do
    id=$(wsctl submit --detach --delay "$span" echo x) && wsctl cancel "$id" || return 1
  done
  expect_exit 64 wsctl submit --delay 315576001s echo x && expect_exit 64 wsctl submit --max-wait 315576001s echo x &&
    expect_output x wsctl submit --max-wait 315576000s echo x
}
counts_for_limits() {
  local id
  printf '[limits]\nmax-jobs-per-user = 1\n' >"$WSD_CONFIG"
  reload_config || return 1
  id=$(wsctl submit --detach --delay 1h echo x) || return 1
  expect_exit 75 wsctl submit echo y || return 1
  wsctl cancel "$id" && wait_until expect_output y wsctl submit echo y || return 1
  : >"$WSD_CONFIG"
  reload_config
}
with_key_and_retries() { # OPTION...
  local id
  rm -f "$WORK/ledger"
  id=$(wsctl submit --detach --delay 200ms --key "late $*" --retries 3 --retry-delay 5ms "$@" ledger:nth "$WORK/ledger" x 3) || return 1
  [ "$(wsctl submit --detach --key "late $*" "$@" echo other)" = "$id" ] || return 1
  expect_output "try 3" wsctl await "$id" && job_has "$id" '"attempts":3'
}
survives() { # OPTION...: what is left after kill -9 is waited for, and no more than that
  local id before
  before=$(usec)
  id=$(wsctl submit --durable --detach "$@" echo later) || return 1
  kill_wsd && serve || return 1
  expect_output later wsctl await "$id" && [ "$(usec)" -ge $((before + 1000000)) ]
}
still_waits() { # OPTION...: after a restart, killed or in order
  local id left
  id=$(wsctl submit --durable --detach "$@" echo later) || return 1
  kill_wsd && serve || return 1
  job_has "$id" '"state":"delayed"' || return 1
  kill -TERM "$WSD_PID"
  wait_for_exit "$WSD_PID" && serve || return 1
  left=$(wsctl --json status "$id" | sed 's/.*"due_usec":\([0-9]*\).*/\1/')
  [ "$left" -gt 3400000000 ] && [ "$left" -le 3600000000 ] || {
    wsctl --json status "$id"
    return 1
  }
  wsctl cancel "$id" && expect_exit 130 wsctl await "$id"
}
overdue() { # OPTION...: at once; beside the others: it is killed before the time has come, however slow it all is
  local id
  id=$(wsctl submit --durable --detach "$@" echo later) || return 1
  job_has "$id" '"state":"delayed"' || return 1
  kill_wsd
  passed 4 || return 1
  serve || return 1
  expect_output later wsctl await "$id"
}
overdue_at() {
  overdue --at "$(at 4)"
}
drained() { # one that is not durable and not due holds no drain, and says so
  local client status=0
  background wsctl submit --delay 1h echo later 2>"$WORK/err"
  client=$BACKGROUND_PID
  wait_until some_job_is delayed || return 1
  kill -TERM "$WSD_PID"
  wait_for_exit "$client" || status=$?
  [ "$status" = 125 ] && grep -q 'before it was due' "$WORK/err" || {
    echo "exit $status"
    cat "$WORK/err"
    return 1
  }
  wait_for_exit "$WSD_PID" && serve
}

blocked() { # the only worker is held until $WORK/gate is there; see freed()
  rm -f "$WORK/gate"
  background wsctl submit ledger:gate "$WORK/gate" >/dev/null
  wait_until some_job_is running
}
freed() { # and not before it has seen that
  : >"$WORK/gate"
  expect_output y wsctl submit echo y
}
waited_too_long() { # OPTION...
  rm -f "$WORK/ledger"
  blocked || return 1
  expect_exit 124 wsctl submit --max-wait 200ms "$@" ledger:once "$WORK/ledger" x 2>"$WORK/err" || return 1
  freed || return 1
  cat "$WORK/err"
  grep -q 'it waited in the queue for longer than --max-wait = 200ms' "$WORK/err" && [ ! -e "$WORK/ledger" ] &&
    [ -z "$(wsctl --json dead list)" ] # nor is it one that is out of retries
}
is_said() { # state, exit and attempts
  local id
  blocked || return 1
  id=$(wsctl submit --detach --max-wait 1ms "$@" echo x) || return 1
  wait_until job_has "$id" '"state":"timed-out","exit":124.*"attempts":0' || {
    wsctl --json status "$id"
    return 1
  }
  freed
}
one_that_runs() { # is not stopped by it; beside the others: it begins in time, however slow it all is
  local id
  rm -f "$WORK/gate"
  id=$(wsctl submit --detach --max-wait 3s ledger:gate "$WORK/gate") || return 1
  wait_until job_has "$id" '"state":"running"' || return 1
  passed 4 && job_has "$id" '"state":"running"' || return 1
  : >"$WORK/gate"
  expect_output open wsctl await "$id"
}
not_while_it_is_delayed() {
  expect_output x wsctl submit --delay 400ms --max-wait 5s echo x
}
at_a_gate() { # paused: it is in the queue all the same
  wsctl pause echo && expect_exit 124 wsctl submit --max-wait 50ms echo x 2>/dev/null && wsctl resume echo
}
configured() {
  blocked || return 1 # before: it is not to wait for too long itself
  printf '[limits]\nmax-wait = 250ms\n' >"$WSD_CONFIG"
  reload_config || return 1
  expect_exit 124 wsctl submit echo x 2>"$WORK/err"
  cat "$WORK/err"
  grep -q 'longer than max-wait = 250ms of \[limits\] in wsd.conf' "$WORK/err" || return 1
  expect_exit 124 wsctl submit --max-wait 1h echo x 2>"$WORK/err" && grep -q 'in wsd.conf' "$WORK/err" || return 1
  expect_exit 124 wsctl submit --max-wait 1ms echo x 2>"$WORK/err" && grep -q -e '--max-wait = 1ms' "$WORK/err" || return 1
  : >"$WORK/gate"
  : >"$WSD_CONFIG"
  reload_config
}
waits_on_after_a_restart() { # the time in the queue counts from the submit on
  local id
  wsctl pause echo || return 1
  id=$(wsctl submit --durable --detach --max-wait 600ms echo x) || return 1
  kill_wsd && serve || return 1
  wsctl pause echo # what has gone by meanwhile counts
  wsctl await "$id" >/dev/null 2>&1
  job_has "$id" '"state":"timed-out"\|"state":"succeeded"' || return 1
  wsctl resume echo
}

beside "overdue after a restart: at once" apart overdue --delay 4s
beside "also a time" apart overdue_at
beside "one that runs has not waited too long" apart one_that_runs

export WSD_SOCKET=$WORK/wsd.sock
serve || exit 1
check "not before its delay is over" not_before --delay 300ms
check "not before its time" not_before --at "$(at 2)"
check "a durable one" not_before --durable --delay 300ms
check "it is shown, and can be cancelled" is_shown --delay 1h
check "one with a time, too" is_shown --at "$(at 3600)"
check "a durable one, too" is_shown --durable --delay 1h
check "in the order of their times" in_order_of_time
check "who waits holds nobody up" holds_nobody_up
check "a time that is past is now" past
check "times are read as date(1) reads them" times
check "times are read as systemd-analyze reads them" as_systemd_reads_it
check "what is no time is refused" no_times
check "a span is at most ten years" spans
check "delayed jobs count for the limits" counts_for_limits
check "key, delay and retries go together" with_key_and_retries
check "and for durable ones" with_key_and_retries --durable
check "a delay survives wsd" survives --delay 1s
check "a time survives wsd" survives --at "$(at 4)"
check "what is left is waited for" still_waits --delay 1h
check "until the time" still_waits --at "$(at 3600)"
check "a drain does not wait for it" drained
check "who waits too long ends without having run" waited_too_long
check "a durable one, too" waited_too_long --durable
check "one with retries is not tried again" waited_too_long --retries 3 --durable
check "its state says so" is_said
check "a delay does not count" not_while_it_is_delayed
check "a pause does" at_a_gate
check "the configuration may say so" configured
check "its time goes on after a restart" waits_on_after_a_restart
kill -TERM "$WSD_PID"
check "wsd ends in order" wait_for_exit "$WSD_PID"
clean_log "$WSD_LOG"
gather
