#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# breaker.sh: a function that crashes again and again is in quarantine a while, and runs apart; others do not notice.
. "$(dirname "$0")/../support/lib.sh"

numbers() { # NUMBER TIMES
  for ((k = 0; k < $2; k++)); do
    echo "$1"
  done
}

# Crashes are counted, and the first pause is a second: so until it is refused.
to_quarantine() { # FUNCTION [ARG]
  wait_until expect_exit 75 wsctl submit "crash:$1" "${@:2}"
}

crash_once() { # FILE
  rm -f "$1"
  expect_exit 70 wsctl submit crash:once "$1"
}

refused_with_words() {
  to_quarantine segv || return 1
  wsctl submit crash:segv 2>"$WORK/err"
  # a pause that was just over makes it crash again: then it is refused now
  [ $? = 75 ] || wsctl submit crash:segv 2>"$WORK/err"
  cat "$WORK/err"
  grep -Eq "^wsctl: crash:segv: in quarantine: crashed [0-9]+ times, at last: Segmentation fault at address 0x1238; (it is tried again in [0-9]+ s|a job of it runs on trial now), or after .wsctl plugin release crash:segv.$" "$WORK/err"
}

shown() {
  wsctl --json plugin show crash >"$WORK/json" && wsctl plugin show crash >"$WORK/text" && wsctl plugin list >"$WORK/list" || return 1
  cat "$WORK/json" "$WORK/text" "$WORK/list"
  grep -q '"name":"segv","[^}]*"crashes":[0-9]*,"quarantine":"refused","quarantine_usec":[0-9]*,"last_crash":"Segmentation fault' "$WORK/json" &&
    grep -q '"isolation":"crashed"' "$WORK/json" && grep -q 'in quarantine: tried again in .*wsctl plugin release crash:segv' "$WORK/text" &&
    grep -q '^crash .*\[quarantine\]' "$WORK/list"
}

state_of() { # FUNCTION
  wsctl --json plugin show crash | sed -n "s/.*\"name\":\"$1\",[^}]*\"quarantine\":\"\([a-z]*\)\".*/\1/p"
}

released() {
  to_quarantine abort || return 1
  wsctl plugin release crash:abort || return 1
  [ -z "$(state_of abort)" ] && expect_exit 70 wsctl submit crash:abort && expect_exit 66 wsctl plugin release crash:nothing
}

# What ends a quarantine by itself: the pause passes, and one job goes well.
trial_releases() {
  local file=$WORK/once
  for _ in 1 2 3; do crash_once "$file" || return 1; done
  rm -f "$file"
  [ "$(state_of once)" = refused ] || return 1
  touch "$file"
  wait_until expect_output survived wsctl submit crash:once "$file" || return 1
  [ -z "$(state_of once)" ] && expect_output survived wsctl submit crash:once "$file"
}

# Each pause is longer than the one before: seen in the log, not by a clock.
pauses_grow() {
  wsctl plugin release crash
  to_quarantine bus || return 1
  wait_until sh -c 'wsctl submit crash:bus; grep -q "crash:bus crashed .* quarantine for 4 s" "$0"' "$WSD_LOG" || return 1
  grep -o "crash:bus crashed .*" "$WSD_LOG"
  [ "$(grep -o 'crash:bus crashed .* quarantine for [0-9]* s' "$WSD_LOG" | sed 's/.* for //' | head -3 | tr '\n' ' ')" = "1 s 2 s 4 s " ]
}

# Many at once: each ends, as crashed or with the refusal; innocents beside it all succeed.
flood() {
  local innocents crashed interrupted refused told
  wsctl plugin release crash
  numbers 15 400 | wsctl map -j 32 fib >"$WORK/fib" 2>&1 &
  innocents=$!
  seq 1000 | wsctl --json map --keep-going -j 200 crash:segv >"$WORK/flood" 2>"$WORK/flood.err"
  wait "$innocents" || {
    cat "$WORK/fib"
    return 1
  }
  [ "$(grep -c '^610$' "$WORK/fib")" = 400 ] || return 1
  crashed=$(grep -c '"state":"crashed"' "$WORK/flood")
  refused=$(grep -c 'in quarantine' "$WORK/flood")                                     # before it was accepted, or behind that (125)
  interrupted=$(grep '"state":"interrupted"' "$WORK/flood" | grep -vc 'in quarantine') # ran beside one that crashed
  told=$(grep -c . "$WORK/flood")
  echo "told $told, crashed $crashed, interrupted $interrupted, refused $refused"
  # each item has its line, also where not even a job came of it
  [ "$crashed" -ge 3 ] && [ "$refused" -ge 100 ] && [ "$told" -ge 200 ] && [ "$((crashed + interrupted + refused))" = "$told" ] &&
    [ "$(grep -c '^wsctl: [0-9]*: ' "$WORK/flood.err")" = 1000 ] &&
    wsctl --json stats | grep -q '"jobs_open":0'
}

# Others meanwhile: how many jobs a second, in turns without and with 10,000 submissions of a function that crashes or is refused,
# while a hundred thousand of theirs are done, which is about a second.
succeeded() {
  counter jobs_succeeded
}
microseconds() {
  echo "${EPOCHREALTIME/[.,]/}"
}
has_done() { # JOBS
  [ "$(succeeded)" -ge "$1" ]
}
others_meanwhile() {
  local JOBS=$((100000 / TIME_SCALE)) from began jobs=(0 0) usec=(0 0) alone beside crashed=0
  background "$BUILD/tests/support/clients/load" -p 2 -w 16 -n 2000000000 echo >/dev/null
  wait_until has_done 1000 || return 1
  for _ in 1 2; do
    wsctl plugin release crash
    from=$(succeeded) began=$(microseconds)
    wait_until has_done $((from + JOBS)) || return 1
    jobs[0]=$((jobs[0] + $(succeeded) - from)) usec[0]=$((usec[0] + $(microseconds) - began))
    from=$(succeeded) began=$(microseconds)
    seq 10000 | wsctl --json map --keep-going -j 64 crash:segv >"$WORK/flood" 2>"$WORK/flood.err"
    wait_until has_done $((from + JOBS)) || return 1
    jobs[1]=$((jobs[1] + $(succeeded) - from)) usec[1]=$((usec[1] + $(microseconds) - began))
    [ "$(grep -c '^wsctl: [0-9]*: ' "$WORK/flood.err")" = 10000 ] || {
      tail -n 3 "$WORK/flood.err"
      return 1
    }
    crashed=$((crashed + $(grep -c '"state":"crashed"' "$WORK/flood")))
  done
  kill "$BACKGROUND_PID"
  alone=$((jobs[0] * 1000000 / usec[0])) beside=$((jobs[1] * 1000000 / usec[1]))
  echo "$alone jobs a second alone, $beside beside $crashed crashes and $((20000 - crashed)) refusals"
  [ "$crashed" -ge 6 ] && [ $((beside * 2)) -ge "$alone" ]
}

# The worst of it: two connections whose thousands of open requests are all refused. However fast the machine, they get no more of
# the loop than REFUSAL_USEC of daemon/frontend/refusals.c has for each, and others are served meanwhile.
REFUSAL_USEC=32
many_refused() { # JOBS
  [ "$(counter jobs_refused)" -ge "$1" ]
}
refusals_have_their_share() {
  local from began done_before usec
  background "$BUILD/tests/support/clients/load" -p 2 -w 16 -n 2000000000 echo >/dev/null
  local load=$BACKGROUND_PID
  wait_until has_done $(($(succeeded) + 1000)) || return 1
  wsctl plugin release crash:segv >"$WORK/released" 2>&1
  wait_until refused_for_long || return 1
  background "$BUILD/tests/support/clients/load" -x -p 2 -w 2000 -n 2000000000 crash:segv >/dev/null 2>&1
  wait_until many_refused $(($(counter jobs_refused) + 10000)) || return 1 # what was read before there was a reason not to
  done_before=$(succeeded) began=$(microseconds) from=$(counter jobs_refused)
  wait_until many_refused $((from + 60000)) || return 1
  from=$(($(counter jobs_refused) - from)) usec=$(($(microseconds) - began))
  kill "$load" "$BACKGROUND_PID"
  pkill -P "$load,$BACKGROUND_PID"
  echo "$from refusals of two connections in $usec us, and $(($(succeeded) - done_before)) jobs of others"
  [ $((from * REFUSAL_USEC / 2)) -le $((usec + 100000)) ] && [ "$(succeeded)" -gt "$done_before" ]
}
refused_for_long() { # no trial comes meanwhile
  wsctl submit crash:segv 2>"$WORK/err"
  grep -Eq 'tried again in ([2-9]|[0-9]{2,}) s' "$WORK/err"
}

# Refused from the first item on: with --keep-going each item is told, without it the first.
both_maps() {
  seq 50 | expect_exit 75 wsctl map -j 10 --keep-going crash:divide 2>"$WORK/all" >"$WORK/none" &&
    seq 50 | expect_exit 75 wsctl map -j 10 crash:divide 2>"$WORK/first"
}
map_is_refused() {
  to_quarantine divide || return 1
  both_maps || both_maps || return 1 # a pause that was just over makes it crash again, and then it is longer
  cat "$WORK/all" "$WORK/first"
  [ "$(cut -d : -f 2 "$WORK/all" | tr -d ' \n')" = "$(seq 50 | tr -d '\n')" ] && ! [ -s "$WORK/none" ] &&
    [ "$(grep -c 'in quarantine' "$WORK/all")" = 50 ] && grep -q '^wsctl: 1: in quarantine' "$WORK/first" &&
    [ "$(wc -l <"$WORK/first")" = 1 ]
}

# A job that may not run twice sleeps in the shared executor while the plugin crashes.
neighbour_survives() { # FUNCTION
  local pid status=0
  wsctl submit sleep:sleep 1500 >"$WORK/sleeper" 2>&1 &
  pid=$!
  wait_until sh -c "wsctl --json list | grep -q '\"running\"'" || return 1
  wsctl plugin show crash
  expect_exit 70 wsctl submit "crash:$1" || return 1
  wait "$pid" || status=$?
  cat "$WORK/sleeper"
  [ "$status" = 0 ]
}

# What was queued moves too: the shared executor dies of the first crash, and of no other.
queue_moves() {
  local pid
  rm -f "$WORK/gate"
  wsctl --json submit ledger:gate "$WORK/gate" >"$WORK/again" 2>&1 &
  pid=$!
  wait_until sh -c "wsctl --json list | grep -q '\"running\"'" || return 1
  seq 200 | wsctl --json map --keep-going -j 200 crash:abort >"$WORK/flood" 2>&1
  touch "$WORK/gate"
  wait "$pid"
  cat "$WORK/again" "$WSD_LOG"
  [ "$(grep -c '"state":"crashed"' "$WORK/flood")" -ge 3 ] && grep -q '"state":"succeeded".*"attempts":2' "$WORK/again"
}

isolation() {
  wsctl --json plugin show "$1" | grep -o '"isolation":"[a-z]*"'
}

nothing_is_open() {
  wsctl --json stats | grep -q '"jobs_open":0,'
}

proves_itself() {
  wait_until nothing_is_open || return 1 # a job of the flood may be about to crash yet
  touch "$WORK/once"
  wsctl plugin release crash
  expect_exit 70 wsctl submit crash:jump || return 1
  [ "$(isolation crash)" = '"isolation":"crashed"' ] || return 1
  seq 64 | wsctl map crash:once "$WORK/once" >/dev/null || return 1
  [ "$(isolation crash)" = '"isolation":"shared"' ]
}

# A function that its executor never survives, and that leaves no note; the same submissions in the pause are refused.
dies_silently() {
  expect_output 6765 wsctl submit fib 20 && to_quarantine kill || return 1
  wsctl submit crash:kill 2>"$WORK/err"
  [ $? = 75 ] || wsctl submit crash:kill 2>"$WORK/err"
  cat "$WORK/err"
  grep -q "in quarantine: crashed [0-9]* times, at last: Killed, by hand or for want of memory; " "$WORK/err" &&
    expect_output 6765 wsctl submit fib 20
}

# The executors are killed by hand while so many jobs run.
kill_under() { # JOBS
  wait_until sh -c "[ \"\$(wsctl --json list | grep -c '\"running\"')\" = $1 ]" && pkill -KILL -P "$WSD_PID" &&
    wait_until sh -c "[ \"\$(wsctl --json list | grep -c '\"running\"')\" = 0 ]"
}

# Each time that it is not killed it goes well.
killed_by_hand() {
  for _ in 1 2 3 4 5; do
    wsctl submit sleep:sleep 60000 >/dev/null 2>&1 &
    kill_under 1 && wsctl submit sleep:sleep 1 >/dev/null || return 1
  done
  [ "$(isolation sleep)" = '"isolation":"shared"' ]
}

# Nobody knows who it was of two that run, however often.
two_suspects() {
  for _ in 1 2 3 4 5; do
    wsctl submit sleep:sleep 60000 >/dev/null 2>&1 &
    wsctl submit spin:deaf >/dev/null 2>&1 &
    kill_under 2 || return 1
  done
  [ "$(isolation sleep)" = '"isolation":"shared"' ] && [ "$(isolation spin)" = '"isolation":"shared"' ] &&
    wsctl submit sleep:sleep 1 >/dev/null
}

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "one that dies without a note, alone, again and again: refused" dies_silently
check "one that is killed by hand, and goes well between: not refused" killed_by_hand
stop_wsd
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "two that run when the executor is killed: neither is to blame" two_suspects
stop_wsd

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "the fourth is refused with 75: what, how often, when, how to release" refused_with_words
check "plugin show and list tell" shown
check "another function of the plugin goes on" expect_exit 70 wsctl submit crash:illegal
check "other plugins go on" expect_output 6765 wsctl submit fib 20
check "a plugin that has crashed runs apart: a neighbour survives" neighbour_survives divide
check "plugin release lets it out" released
check "a job on trial that goes well lets it out" trial_releases
check "pauses grow: 1 s, 2 s, 4 s" pauses_grow
check "a flood of crashes: each has its end, innocents succeed" flood
half_as_much() { # what else this machine does may fall into one of the two halves: not three times running
  others_meanwhile || others_meanwhile || others_meanwhile
}
check "twice 10,000 submissions of it: others do half as much as without at least" half_as_much
show "$WORK/check.out" 1
check "a flood of nothing but refusals gets its share, and no more" refusals_have_their_share
show "$WORK/check.out" 1
check "64 jobs that go well: together with the others again" proves_itself
stop_wsd

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "a burst costs a neighbour one run: what is queued moves away from him" queue_moves
stop_wsd

printf '[limits]\nquarantine-after = 1\nquarantine-max = 1h\n[plugin crash]\nisolation = own\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "isolation = own: a neighbour survives the first crash" neighbour_survives segv
check "isolation = own is told" [ "$(isolation crash)" = '"isolation":"own"' ]
check "others share" [ "$(isolation sleep)" = '"isolation":"shared"' ]
check "quarantine-after = 1: the second is refused" to_quarantine segv
check "map of a function in quarantine goes through all items, or ends at the first" map_is_refused
stop_wsd

# A plugin whose file has another name than it gives itself.
by_its_own_name() {
  wsctl --json submit other:once "$WORK/once" >"$WORK/first" || {
    cat "$WORK/first"
    return 1
  }
  # the executor that found out is one, and that of the plugin the next
  grep -o '"worker":"[0-9]*' "$WORK/first" && grep -q '"worker":"2\.' "$WORK/first" &&
    [ "$(wsctl --json plugin show other | grep -o '"isolation":"[a-z]*"')" = '"isolation":"own"' ] &&
    wsctl --json submit other:once "$WORK/once" | grep -q '"worker":"2\.'
}
by_its_files_name_no_more() {
  wsctl submit other:once "$WORK/once" >/dev/null &&
    [ "$(wsctl --json plugin show other | grep -o '"isolation":"[a-z]*"')" = '"isolation":"shared"' ]
}
mkdir "$WORK/plugins"
cp "$TEST_PLUGINS/crash.so" "$WORK/plugins/other.so"
touch "$WORK/once"
printf '[plugin crash]\nisolation = own\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$WORK/plugins" || exit 1
check "isolation = own by the name that the plugin gives itself, from the first job on" by_its_own_name
stop_wsd
printf '[plugin other]\nisolation = own\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$WORK/plugins" || exit 1
check "and not by its file's, once it is loaded" by_its_files_name_no_more
stop_wsd
