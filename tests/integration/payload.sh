#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# payload.sh: input that does not go through the socket: files by their descriptors, changed, cut, wrong, and beyond limits.
. "$(dirname "$0")/../support/lib.sh"

PAYLOAD=$BUILD/tests/support/clients/payload
MIB=1048576

sum() { sha256sum | cut -d' ' -f1; }

same_by_each_way() { # SIZE
  local file=$WORK/big-$1 wanted
  head -c "$1" "$WORK/big" >"$file"
  wanted=$(sum <"$file")
  for f in echo echo:stream; do
    [ "$(wsctl submit --input "$file" $f | sum)" = "$wanted" ] || {
      echo "$f by file"
      return 1
    }
    [ "$(wsctl submit --input - $f <"$file" | sum)" = "$wanted" ] || {
      echo "$f by stdin"
      return 1
    }
    [ "$(wsctl submit --input - $f < <(cat "$file") | sum)" = "$wanted" ] || {
      echo "$f by pipe"
      return 1
    }
  done
  [ "$(wsctl submit --input "$file" checksum | cut -d' ' -f1)" = "$wanted" ] || return 1
  [ "$("$PAYLOAD" file "$file" 0 "$1" echo | sum)" = "$wanted" ] || {
    echo "by library"
    return 1
  }
  for f in echo echo:stream echo:shared; do
    [ "$("$PAYLOAD" arena "$file" $f 2 | sum)" = "$wanted" ] || {
      echo "$f by arena"
      return 1
    }
  done
  rm "$file"
}

bare() { # what goes to wsd is the descriptor: a few system calls, none of them with bytes of the file
  [ "$("$PAYLOAD" file "$WORK/big" 4097 100000 echo | sum)" = "$(tail -c +4098 "$WORK/big" | head -c 100000 | sum)" ]
}

rest_of_stdin() { # as if wsctl had read it, from where the file stood
  local got
  got=$( (head -c 70000 >"$WORK/head" && wsctl submit --input - echo && cat) <"$WORK/mid" | sum)
  [ "$(wc -c <"$WORK/head")" = 70000 ] && [ "$got" = "$(tail -c +70001 "$WORK/mid" | sum)" ]
}

# Starts a reader of $WORK/file, which is a fresh one; it waits for $WORK/go.
reader() { # FUNCTION [OPTION...]
  local f=$1
  shift
  rm -f "$WORK/begun" "$WORK/go"
  rm -f "$WORK/file"
  cp "$WORK/mid" "$WORK/file"
  wsctl submit "$@" --input "$WORK/file" "reader:$f" "$WORK/begun" "$WORK/go" >"$WORK/out" 2>"$WORK/err" &
  READER=$!
  wait_until test -e "$WORK/begun"
}

# Nothing happens to an executor, nor to a job that reads another file there meanwhile.
is_cut() { # FUNCTION SIZE
  local died other
  died=$(counter executors_died)
  reader "$1" || return 1
  wsctl submit --input "$WORK/mid" reader:once "$WORK/begun.too" "$WORK/go" >"$WORK/other.out" &
  other=$!
  wait_until test -e "$WORK/begun.too" || return 1
  truncate -s "$2" "$WORK/file"
  touch "$WORK/go"
  expect_exit 63 wait "$READER" && grep -q 'its input was cut while it ran' "$WORK/err" &&
    wait "$other" && cmp "$WORK/other.out" "$WORK/mid" && counter_is executors_died "$died" || return 1
  rm "$WORK/begun.too"
}

unharmed() { # COMMAND...: to the file while it is read; what was in it before comes back
  reader reader && "$@" && touch "$WORK/go" && wait "$READER" && cmp "$WORK/out" "$WORK/mid"
}
replace() { echo other >"$WORK/new" && mv "$WORK/new" "$WORK/file"; }
append() { echo more >>"$WORK/file"; }

cut_before() {
  local id
  cp "$WORK/mid" "$WORK/file"
  wsctl pause echo && id=$(wsctl submit --detach --input "$WORK/file" echo) && truncate -s -1 "$WORK/file" && wsctl resume echo ||
    return 1
  expect_exit 63 wsctl await "$id" 2>"$WORK/err" && grep -q 'its input was cut before it began' "$WORK/err"
}

killed() { # the executor, while the file is mapped: idempotent, so it runs again, with the same input
  local died
  died=$(counter executors_died)
  reader reader || return 1
  rm "$WORK/begun"
  pkill -KILL -P "$WSD_PID" # its executor
  wait_until test -e "$WORK/begun" && touch "$WORK/go" && wait "$READER" && cmp "$WORK/out" "$WORK/mid" &&
    counter_is executors_died $((died + 1))
}

killed_gathered() { # the same where the input came by a pipe, and went through the ring
  rm -f "$WORK/begun" "$WORK/go"
  head -c 500000 "$WORK/mid" >"$WORK/half"
  wsctl submit --input - reader "$WORK/begun" "$WORK/go" < <(cat "$WORK/half") >"$WORK/out" &
  wait_until test -e "$WORK/begun" || return 1
  rm "$WORK/begun"
  pkill -KILL -P "$WSD_PID" # its executor
  wait_until test -e "$WORK/begun" && touch "$WORK/go" && wait $! && cmp "$WORK/out" "$WORK/half"
}

killed_in_arena() {
  local pid
  rm -f "$WORK/begun" "$WORK/go"
  "$PAYLOAD" killed "$WORK/begun" "$WORK/go" &
  pid=$!
  wait_until test -e "$WORK/begun" || return 1
  pkill -KILL -P "$WSD_PID" # its executor
  wait "$pid"
}

executor() { pgrep -P "$WSD_PID" | head -1; }

page_faults() { # PID: page faults so far
  cut -d' ' -f10 "/proc/$1/stat"
}

arenas_mapped_are() { # N: by the executor
  [ "$(grep -c wsd-arena "/proc/$(executor)/maps")" = "$1" ]
}

few_faults_in_arena() {
  local pid before few many
  head -c $((8 * MIB)) "$WORK/big" >"$WORK/eight"
  pid=$(executor) before=$(page_faults "$pid")
  "$PAYLOAD" arena "$WORK/eight" echo:shared 1 >/dev/null || return 1
  few=$(($(page_faults "$pid") - before)) before=$(page_faults "$pid")
  "$PAYLOAD" arena "$WORK/eight" echo:shared 21 >/dev/null || return 1
  many=$(($(page_faults "$pid") - before))
  echo "the executor: $few faults of one job, $many of 21"
  [ "$many" -lt $((2 * few + 1000)) ]
}

# More than an executor keeps: whose number was taken is shown anew. Gone are they with their client.
as_many_arenas() { # N MAPPED
  local client
  rm -f "$WORK/begun" "$WORK/go"
  "$PAYLOAD" arenas "$1" "$WORK/begun" "$WORK/go" &
  client=$!
  wait_until -t 60 test -e "$WORK/begun" && arenas_mapped_are "$2" || return 1
  touch "$WORK/go"
  wait "$client" && wait_until arenas_mapped_are 0
}
arena_of_the_killed() {
  local client
  rm -f "$WORK/begun" "$WORK/go"
  "$PAYLOAD" arenas 3 "$WORK/begun" "$WORK/go" &
  client=$!
  wait_until test -e "$WORK/begun" && arenas_mapped_are 3 || return 1
  kill -KILL "$client"
  wait "$client"
  wait_until arenas_mapped_are 0
}

no_more_descriptors_than() { # N
  [ "$(n_descriptors)" -le "$1" ]
}

gone_with_its_client() {
  local before
  wait_until counter_is jobs_open 0 || return 1
  before=$(n_descriptors)
  reader once || return 1
  kill -KILL "$READER"
  wait "$READER"
  wait_until counter_is jobs_open 0 && wait_until no_more_descriptors_than "$before"
}

durable() { # its bytes go to the store
  [ "$(wsctl submit --durable --input "$WORK/mid" echo | sum)" = "$(sum <"$WORK/mid")" ]
}

head -c $((64 * MIB)) /dev/urandom >"$WORK/big"
head -c $((MIB + 17)) "$WORK/big" >"$WORK/mid"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
wsctl submit --durable echo warm >/dev/null # the store has descriptors too
before=$(n_descriptors)
ring=$((MIB - 16 - ${#PWD} - 1)) # what goes through the ring at most, beside the client's directory
for size in 0 1 61440 61441 65535 65536 65537 $((ring - 1)) $ring $((ring + 1)) $MIB; do
  check "$size bytes are the same by each way" same_by_each_way "$size"
done
large() { [ "$(wsctl submit --input "$WORK/big" checksum)" = "$(wsctl submit checksum "$WORK/big" | cut -d' ' -f1)  -" ]; }
large_in_arena() { "$PAYLOAD" arena "$WORK/big" echo:shared 2 | cmp - "$WORK/big"; }
check "64 MiB too" large
check "64 MiB too, by an arena" large_in_arena
check "a part of a file, from within a page" bare
check "stdin: from where it stands, and what comes behind is left to others" rest_of_stdin
check "cut to nothing while it runs: that job fails, and says so" is_cut reader 0
check "cut within its last page" is_cut reader $((MIB + 16))
check "cut under one that streams" is_cut stream 5000
check "cut before it began" cut_before
check "replaced while it runs" unharmed replace
check "appended to while it runs" unharmed append
check "removed while it runs" unharmed rm "$WORK/file"
check "its executor is killed" killed
check "its executor is killed, and the input was gathered" killed_gathered
check "a durable job's input is copied" durable
while read -r case; do
  check "by hand: $case" env -C "$WORK" "$PAYLOAD" "$case"
done < <("$PAYLOAD" cases)
check "by an arena: its executor is killed" killed_in_arena
check "the client is killed" gone_with_its_client
if [ -n "${WSD_SANITIZE:-}" ]; then
  skip "pages stay where they are" "a sanitizer has memory of its own"
else
  check "pages stay where they are in an arena" few_faults_in_arena
fi
check "few arenas" as_many_arenas 9 9
check "as many arenas as an executor keeps" as_many_arenas 1024 1024
check "more arenas than an executor keeps" as_many_arenas 1030 1024
check "arenas of a client that is killed" arena_of_the_killed
left() {
  echo "descriptors: $(n_descriptors), where there were $before; bytes: $(counter bytes_charged)"
  [ "$(n_descriptors)" -le "$before" ] && counter_is bytes_charged 0 && counter_is jobs_open 0
}
check "nothing is left open, nor charged" wait_until -t 5 left # wsd hears of the end of a wsctl a moment after us
stop_wsd

# --- limits -----------------------------------------------------------------------------------------------------------

# Each of the paused jobs holds its bytes.
quota() {
  local id
  truncate -s $((2 * MIB)) "$WORK/two"
  truncate -s $((2 * MIB + 1)) "$WORK/more"
  truncate -s $MIB "$WORK/one"
  wsctl submit --input "$WORK/one" echo >/dev/null && wsctl submit --input "$WORK/two" echo >/dev/null || return 1
  expect_exit 75 wsctl submit --input "$WORK/more" echo 2>"$WORK/err" && grep -q max-input "$WORK/err" || return 1
  [ "$(wsctl submit --input "$WORK/more" echo:stream | wc -c)" = $((2 * MIB + 1)) ] || return 1
  wsctl pause echo && id=$(wsctl submit --detach --input "$WORK/two" echo:status) || return 1
  expect_exit 75 wsctl submit --input "$WORK/two" echo 2>"$WORK/err" && grep -q max-bytes-per-user "$WORK/err" || return 1
  id="$id $(wsctl submit --detach --input "$WORK/one" echo:status)" || return 1 # the quota, to the byte
  expect_exit 75 wsctl submit echo one >/dev/null || return 1
  # shellcheck disable=SC2086 # several
  wsctl resume echo && wsctl await $id >/dev/null && wsctl submit --input "$WORK/two" echo >/dev/null
}
printf '[limits]\nmax-input = 2M\nmax-bytes-per-user = 3M\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
arena_quota() { # a file of N bytes makes an arena of 2 * N + 1000
  truncate -s $(((3 * MIB - 1000) / 2)) "$WORK/fits"
  truncate -s $(((3 * MIB - 1000) / 2 + 1)) "$WORK/does-not"
  "$PAYLOAD" arena "$WORK/one" echo 2 >/dev/null && "$PAYLOAD" arena "$WORK/fits" echo:shared 2 | cmp - "$WORK/fits" || return 1
  expect_exit 75 "$PAYLOAD" arena "$WORK/does-not" echo:shared 2 2>"$WORK/err" && grep -q max-bytes-per-user "$WORK/err"
}
check "max-input and max-bytes-per-user: below, at and above" quota
check "max-bytes-per-user of an arena: below, at and above" arena_quota
stop_wsd

# --- executors come and go ----------------------------------------------------------------------------------------------

printf '[executor]\nrecycle-jobs = 3\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
at_least_executors() { # N
  [ "$(counter executors_started)" -ge "$1" ]
}
# It checks each answer, and ends with the first that is wrong.
one_arena_many_executors() { # FUNCTION
  local client code
  "$PAYLOAD" arena "$WORK/mid" "$1" 1000000 >/dev/null &
  client=$!
  wait_until -t 60 at_least_executors $(($(counter executors_started) + 10))
  kill "$client"
  wait "$client"
  code=$?
  [ "$code" = 143 ] # ours
}
check "one arena, and many executors" one_arena_many_executors echo:shared
check "the same with copies" one_arena_many_executors echo
stop_wsd

# --- output that is gathered ----------------------------------------------------------------------------------------------

# 20 MB are 4,883 pages. No less, since glibc keeps smaller room by itself once it was used.
again() {
  local faults usec submitted mapped direct
  read -r faults usec submitted mapped direct < <("$PAYLOAD" again 20000000 6 echo) || return 1
  echo "$faults page faults and $usec us a call; given back by a small one: $submitted, $mapped, $direct KiB"
  [ "$faults" -lt 200 ] && [ "$submitted" -gt 15000 ] && [ "$mapped" -gt 15000 ] && [ "$direct" -gt 15000 ]
}
: >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
# What one job has touched the next one finds.
few_faults() { # without keep_pages() in daemon/main.c: 512 a job in a wsd that has had no larger one
  local before n=40
  "$PAYLOAD" again 1000000 3 echo >/dev/null && before=$(page_faults "$WSD_PID") && "$PAYLOAD" again 1000000 $n echo || return 1
  echo "wsd: $((($(page_faults "$WSD_PID") - before) / n)) page faults a job"
  [ $(($(page_faults "$WSD_PID") - before)) -lt $((n * 60)) ]
}
if [ -n "${WSD_SANITIZE:-}" ]; then
  skip "a large output again costs few page faults" "a sanitizer's own memory is counted with it"
else
  check "pages stay where they are in wsd" few_faults
  check "a large output again costs few page faults, and a small one gives its room back" again
fi
stop_wsd
