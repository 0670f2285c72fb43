#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# durable.sh: durable jobs and the deaths of wsd. kill -9 at random moments while four clients submit; power cuts (writes that
# were not synced are lost); SIGTERM with jobs that wait. After each of them every job that was acknowledged is there once, has
# its result or runs, and none that may not run twice has done so; the database passes its integrity check.
. "$(dirname "$0")/../support/lib.sh"

PROMISED=$BUILD/tests/support/clients/promised
ROUNDS=${WSD_ROUNDS:-10}
[ -z "${WSD_THOROUGH:-}" ] || ROUNDS=100
SEED=${WSD_SEED:-$((RANDOM * 32768 + RANDOM))}
RANDOM=$((SEED % 32768))
a_new_store() { # NAME
  export WSD_SOCKET=$WORK/$1.sock
  WSD_STORE=$WORK/$1.state
}
is_sound() { # a copy: who opens it writes
  rm -rf "$WORK/copy"
  cp -r "$WSD_STORE" "$WORK/copy"
  expect_output ok sqlite3 "$WORK/copy/jobs.db" 'PRAGMA integrity_check'
}
lines() { # FILE...
  cat "$@" 2>/dev/null | wc -l
}
at_least_lines() { # N FILE...
  local n=$1
  shift
  [ "$(lines "$@")" -ge "$n" ]
}

# What was entered into the ledger against what became of the jobs.
compare() { # LEDGER ENDS
  awk 'NR == FNR { runs[$1]++; next }
    $3 == "once" && runs[$1] > 1 { print $1 " has run " runs[$1] " times"; bad = 1 }
    $2 == "succeeded" && !runs[$1] { print $1 " has never run"; bad = 1 }
    END { exit bad }' "$1" "$2"
}

killed() { # NAME ROUNDS
  local i c pids pid acks goal
  a_new_store "$1"
  : >"$WORK/$1.ledger"
  serve || return 1
  for ((i = 1; i <= $2; i++)); do
    pids=() acks=()
    goal=$((1 + RANDOM % 150))
    for c in 1 2 3 4; do
      acks+=("$WORK/$1.acks.$i.$c")
      : >"$WORK/$1.acks.$i.$c"
      background "$PROMISED" submit "$([ "$c" -le 2 ] && echo once || echo again)" "$WORK/$1.ledger" "$i.$c" $((1 + RANDOM % 32)) \
        "$WORK/$1.acks.$i.$c" 2>>"$WORK/promised.err"
      pids+=("$BACKGROUND_PID")
    done
    wait_until at_least_lines "$goal" "${acks[@]}" || {
      echo "round $i: too slow"
      return 1
    }
    kill_wsd
    for pid in "${pids[@]}"; do
      wait_for_exit "$pid" || {
        cat "$WORK/promised.err"
        return 1
      }
    done
    is_sound || {
      echo "round $i: damaged"
      return 1
    }
    WSD_PREFIX=("${WSD_PREFIX[@]/#POWERLOSS_SEED=*/POWERLOSS_SEED=$((SEED + i))}")
    serve || {
      echo "round $i: no restart"
      show "$WSD_LOG"
      return 1
    }
    "$PROMISED" check "${acks[@]}" 3>"$WORK/ends" || {
      echo "round $i"
      show "$WSD_LOG"
      return 1
    }
    compare "$WORK/$1.ledger" "$WORK/ends" || {
      echo "round $i"
      return 1
    }
  done
  # and all of them are still there
  if ! "$PROMISED" check "$WORK/$1".acks.* 3>"$WORK/ends" || ! compare "$WORK/$1.ledger" "$WORK/ends"; then
    show "$WSD_LOG"
    return 1
  fi
  kill -TERM "$WSD_PID"
  wait_for_exit "$WSD_PID" && is_sound
}

# Ended in order: what has not begun stays, and goes on later; who waits is told, and waits for the next wsd.
drained() {
  local id
  a_new_store drained
  serve || return 1
  for id in 1 2; do
    wsctl submit --durable --detach ledger:gate "$WORK/gate" >"$WORK/id.$id" || return 1
  done
  for id in {1..20}; do
    wsctl submit --durable --detach ledger:once "$WORK/drained.ledger" "$id" >>"$WORK/waiting" || return 1
  done
  background wsctl submit --durable echo waits >"$WORK/waits.out" 2>"$WORK/waits.err"
  local client=$BACKGROUND_PID
  wait_until jobs_are queued 21 || {
    wsctl list
    return 1
  }
  : >"$WSD_LOG"
  kill -TERM "$WSD_PID"
  wait_until grep -q draining "$WSD_LOG" || return 1
  : >"$WORK/gate"
  wait_for_exit "$WSD_PID" || {
    echo "no end in order"
    return 1
  }
  [ ! -s "$WORK/drained.ledger" ] || {
    echo "jobs that could wait were run"
    return 1
  }
  serve || return 1
  xargs "$WSCTL" await <"$WORK/waiting" >"$WORK/out" || return 1
  [ "$(sort -n "$WORK/out")" = "$(seq 20)" ] && [ "$(sort -n "$WORK/drained.ledger")" = "$(seq 20)" ] || return 1
  expect_output open wsctl await "$(cat "$WORK/id.1")" || return 1
  wait_for_exit "$client" || {
    cat "$WORK/waits.err"
    return 1
  }
  [ "$(cat "$WORK/waits.out")" = waits ]
}

connects_again() { # killed while the client's durable job runs; it tries until the next one is there
  local pid
  a_new_store again
  rm -f "$WORK/gate"
  serve || return 1
  background "$BUILD/tests/support/clients/reconnect" "$WORK/gate" >"$WORK/again"
  pid=$BACKGROUND_PID
  wait_until grep -q accepted "$WORK/again" || {
    cat "$WORK/again"
    return 1
  }
  kill_wsd
  : >"$WORK/gate"
  serve || return 1
  wait_until grep -q mapping "$WORK/again" || {
    cat "$WORK/again"
    return 1
  }
  wait_until sh -c 'wsctl --json list --state running --plugin sleep | grep -q id' || {
    cat "$WORK/again"
    return 1
  }
  kill_wsd
  serve || return 1
  wait_for_exit "$pid" || {
    cat "$WORK/again"
    return 1
  }
  grep -q ok "$WORK/again"
}

# Who waits when wsd is killed waits for the next one.
followed() {
  rm "$WORK/gate"
  background wsctl submit --durable ledger:gate "$WORK/gate" >"$WORK/waits.out" 2>"$WORK/waits.err"
  local client=$BACKGROUND_PID
  wait_until some_job_is running || return 1
  kill_wsd
  serve || return 1
  : >"$WORK/gate"
  wait_for_exit "$client" || {
    cat "$WORK/waits.err"
    return 1
  }
  [ "$(cat "$WORK/waits.out")" = open ]
}

# What may have been running, and must not run twice, says so.
interrupted() {
  local id
  id=$(wsctl submit --durable --detach sleep:sleep 600000) || return 1
  wait_until job_is running "$id" || return 1
  kill_wsd
  serve || return 1
  expect_exit 125 wsctl await "$id" && wsctl --json status "$id" | grep -q '"state":"interrupted".*"durable":true'
}

# Its end is there before the first question is heard, however slow the disk is.
restored_first() {
  local id
  id=$(wsctl submit --durable --detach sleep:sleep 600000) || return 1
  wait_until job_is running "$id" || return 1
  kill_wsd
  serve_with "LD_PRELOAD=$BUILD/tests/support/shims/powerloss.so" POWERLOSS_DELAY=300000 || return 1
  wsctl --json status "$id" | tee "$WORK/out"
  grep -q '"state":"interrupted"' "$WORK/out" || return 1
  kill_wsd
  serve && wsctl --json status "$id" | grep -q '"state":"interrupted"'
}

# What waits for a slow disk holds up nobody else.
beside_a_slow_disk() {
  local slow
  kill_wsd
  serve_with "LD_PRELOAD=$BUILD/tests/support/shims/powerloss.so" POWERLOSS_HOLD="$WORK/held" || return 1
  : >"$WORK/held"
  background wsctl submit --durable echo slow >"$WORK/slow.out"
  slow=$BACKGROUND_PID
  wait_until sh -c 'wsctl --json stats | grep -q "\"jobs_open\":1[,}]"' || return 1
  expect_output 6765 wsctl submit fib 20 && wsctl ping && [ -z "$(wsctl --json list --state held,queued,running)" ] || return 1 # not acknowledged yet
  rm "$WORK/held"
  wait_for_exit "$slow" && [ "$(cat "$WORK/slow.out")" = slow ]
}

# The disk fails: new ones are refused with the reason, the one that runs ends, nothing is damaged, and it goes on when that is over.
broken_disk() {
  local id
  kill_wsd
  a_new_store broken
  rm -f "$WORK/gate" "$WORK/broken"
  serve_with "LD_PRELOAD=$BUILD/tests/support/shims/powerloss.so" POWERLOSS_FAIL="$WORK/broken" || return 1
  expect_output before wsctl submit --durable --key before echo before || return 1
  id=$(wsctl submit --durable --detach ledger:gate "$WORK/gate") || return 1
  wait_until job_is running "$id" || return 1
  : >"$WORK/broken"
  expect_exit 74 wsctl submit --durable echo now >"$WORK/out" 2>"$WORK/err" || return 1
  cat "$WORK/err"
  grep -q '^wsctl: echo: the job cannot be kept: .*I/O error' "$WORK/err" && expect_output 6765 wsctl submit fib 20 || return 1
  : >"$WORK/gate"
  expect_output open wsctl await "$id" || return 1
  rm "$WORK/broken"
  wait_until expect_output after wsctl submit --durable echo after || return 1
  kill_wsd
  is_sound && serve && wait_until expect_output open wsctl await "$id" && expect_output before wsctl submit --durable --key before echo other
}

# Large inputs and outputs come back whole; an output is read from the disk as often as somebody asks.
large() {
  local id
  head -c 3000000 /dev/urandom >"$WORK/large"
  rm "$WORK/gate"
  for id in 1 2; do
    wsctl submit --durable --detach ledger:gate "$WORK/gate" >/dev/null || return 1
  done
  id=$(wsctl submit --durable --detach --input "$WORK/large" echo) || return 1
  kill_wsd
  serve || return 1
  : >"$WORK/gate"
  wsctl await "$id" | cmp - "$WORK/large" && wsctl await "$id" | cmp - "$WORK/large"
}

# A limit counts a job once, also where it waits for the disk before it is handed over, or is cancelled there.
limited() {
  local i id
  wsctl limit ledger 1 || return 1
  rm -f "$WORK/limited.ledger" "$WORK/limited"
  for i in {1..30}; do
    id=$(wsctl submit --durable --detach ledger:once "$WORK/limited.ledger" "$i") || return 1
    echo "$id" >>"$WORK/limited"
    [ $((i % 3)) != 0 ] || wsctl cancel "$id" 2>/dev/null || [ $? = 66 ] || return 1 # it may have ended
  done
  while read -r id; do
    wsctl await "$id" >/dev/null 2>&1
    case $? in 0 | 130) ;; *)
      wsctl status "$id"
      return 1
      ;;
    esac
  done <"$WORK/limited"
  wait_until sh -c 'wsctl --json limit | grep "\"plugin\":\"ledger\"" | grep -q "\"running\":0,\"waiting\":0"' ||
    {
      wsctl --json limit
      return 1
    }
  expect_output free wsctl submit --durable ledger:once "$WORK/limited.ledger" free && wsctl limit ledger none
}

# Ends expire by their time and, the oldest first, by their size.
expired() {
  local first second
  kill_wsd
  printf '[store]\nkeep = 1s\nmax-size = 300K\n' >"$WSD_CONFIG"
  a_new_store expired
  serve || return 1
  first=$(wsctl --json submit --durable echo first | sed 's/.*"id":"\([0-9a-f]*\)".*/\1/') && [ ${#first} = 32 ] || return 1
  wait_until expect_exit 66 wsctl status "$first" || {
    echo "nothing expires"
    return 1
  }
  printf '[store]\nmax-size = 300K\n' >"$WSD_CONFIG"
  reload_config || return 1
  first=$(wsctl submit --durable --detach bigoutput 200000) && wsctl await "$first" >/dev/null || return 1
  second=$(wsctl submit --durable --detach bigoutput 200000) && wsctl await "$second" >/dev/null || return 1
  expect_exit 66 wsctl status "$first" && wsctl status "$second" >/dev/null || return 1
  head -c 400000 /dev/zero >"$WORK/zeros"
  expect_exit 75 wsctl submit --durable --input "$WORK/zeros" echo >"$WORK/out" 2>"$WORK/err"
  cat "$WORK/err"
  grep -q 'max-size' "$WORK/err"
}

# With a copy of a text failing, each of those of a start in turn: what is on disk comes whole, or not, which is said.
restored_whole() {
  local n at=0 got="" lines
  a_new_store whole
  serve && wsctl submit --durable --detach --delay 1h --tag red fib 5 >/dev/null && ! wsctl submit --durable fib x 2>/dev/null || return 1
  for n in $(seq 300); do
    gone "$WSD_PID" || kill_wsd
    lines=$(wc -l <"$WSD_LOG")
    { printf '1' && head -c 39 /dev/zero; } >"$WORK/faults"
    serve_with "LD_PRELOAD=$BUILD/tests/support/shims/faults.so" FAULTS=copies "FAULTS_NTH=$n" "FAULTS_FILE=$WORK/faults"
    set_faults 0
    at=$(od -An -t u8 -j 8 -N 8 "$WORK/faults" | tr -d " ")
    tail -n +$((lines + 1)) "$WSD_LOG" >"$WORK/said"
    if gone "$WSD_PID"; then
      [ -s "$WORK/said" ] || {
        echo "copy $n: it ends without a word"
        return 1
      }
      continue
    fi
    [ "$at" != 0 ] || break
    got=$(wsctl --json list)
    grep -q 'stays on disk: Cannot allocate memory' "$WORK/said" ||
      { grep -q '"state":"delayed".*"tags":\["red"\]' <<<"$got" && grep -q '"state":"failed".*"error":"[^"]' <<<"$got"; } ||
      {
        echo "copy $n: what is left is $got"
        return 1
      }
  done
  echo "$n copies"
  [ "$at" = 0 ] && got=$(wsctl --json list) && grep -q '"tags":\["red"\]' <<<"$got"
}

# Without a place for it everything else goes on.
nowhere() {
  kill_wsd
  WSD_STORE=/proc/nowhere serve || return 1
  expect_output 6765 wsctl submit fib 20 || return 1
  expect_exit 74 wsctl submit --durable fib 20 2>"$WORK/err" || return 1
  grep -q '^wsctl: fib: .*/proc/nowhere' "$WORK/err" || {
    cat "$WORK/err"
    return 1
  }
}

# Two do not share a store, and the second one says so.
shared() {
  a_new_store shared
  serve && wsctl submit --durable fib 20 >/dev/null || return 1
  local first=$WSD_PID
  WSD_SOCKET=$WORK/other.sock serve || return 1
  expect_exit 74 wsctl --socket "$WORK/other.sock" submit --durable fib 20 2>"$WORK/err" || return 1
  grep -q 'another wsd' "$WORK/err" || {
    cat "$WORK/err"
    return 1
  }
  kill_wsd
  WSD_PID=$first
  expect_output 6765 wsctl submit --durable fib 20
}

check "kill -9 at $ROUNDS random moments, seed $SEED" killed killed "$ROUNDS"
if [ -z "${WSD_SANITIZE:-}" ]; then
  WSD_PREFIX=(env "LD_PRELOAD=$BUILD/tests/support/shims/powerloss.so" POWERLOSS_EARLY=3 POWERLOSS_SEED=0)
  check "power cut at $((ROUNDS * 2 / 5)) random moments, seed $SEED" killed cut $((ROUNDS * 2 / 5))
  WSD_PREFIX=()
else
  skip "power cuts" "a sanitizer wants to be first in a process"
fi
check "SIGTERM leaves what has not begun in the store" drained
check "who waits is told by the next wsd" followed
check "a client connects again, with the same handle, and goes on" connects_again
check "what may have been running does not run twice" interrupted
if [ -z "${WSD_SANITIZE:-}" ]; then
  check "what was there is replayed before the socket answers" restored_first
  check "a slow disk holds up nobody else" beside_a_slow_disk
else
  skip "what was there is replayed before the socket answers" "a sanitizer wants to be first in a process"
  skip "a slow disk holds up nobody else" "so it does here"
fi
if [ -z "${WSD_SANITIZE:-}" ]; then
  check "a start without memory for a text: jobs come whole, or stay on disk" restored_whole
else
  skip "a start without memory for a text: jobs come whole, or stay on disk" "a sanitizer wants to be first in a process"
fi
check "large input and output" large
check "a limit counts it once" limited
[ -n "${WSD_SANITIZE:-}" ] || check "a disk that fails: refused with the reason, running ones end, nothing is damaged" broken_disk
check "ends expire" expired
check "two on one store" shared
check "no state directory" nowhere
kill -TERM "$WSD_PID"
check "the last one ends in order" wait_for_exit "$WSD_PID"
clean_log "$WSD_LOG"
