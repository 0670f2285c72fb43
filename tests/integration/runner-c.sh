#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# runner-c.sh: runners in C by <wsd/runner.h>: by threads, and by a loop of their own. The runner is tests/support/clients/c-runner.c,
# its functions are the plugin tests/support/plugins/runnable.c as it is.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/runners.sh"

RUNNER=("$BUILD/tests/support/clients/c-runner" -n crunner) RUNNER_NAME=crunner PAYLOAD=$BUILD/tests/support/clients/payload
JOBS=2000 KILLS=10 FALLS=4
[ -z "${WSD_THOROUGH:-}" ] || JOBS=100000 KILLS=100 FALLS=20

printf '[limits]\ncancel-grace = 300ms\nexecutor-answer = 1s\nquarantine-after = 3\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1

# --- the services of a job, as a plugin and as a runner ------------------------------------------------------------------

echoes() { # NAME BYTES
  head -c "$2" /dev/urandom >"$WORK/input"
  # in pieces, and by descriptor
  wsctl submit -i - "$1:echo" <"$WORK/input" >"$WORK/output" && cmp "$WORK/input" "$WORK/output" || return 1
  wsctl submit -i "$WORK/input" "$1:echo" >"$WORK/output" && cmp "$WORK/input" "$WORK/output"
}
counts() { # NAME
  [ "$(wsctl submit -i "$WORK/input" "$1:count")" = 3000000 ] && [ "$(wsctl submit -i - "$1:count" <"$WORK/input")" = 3000000 ]
}
fails() { # NAME
  [ "$(wsctl submit "$1:fail" 3 2>"$WORK/err")" = "so far" ] && grep -q 'as asked' "$WORK/err" && expect_exit 3 wsctl submit "$1:fail" 3
}
tells() { # NAME
  wsctl submit --json "$1:say" 'hello there' 2>"$WORK/err" | grep -q '"status":"said 1".*"done":3,"total":7' && grep -q '^hello there' "$WORK/err"
}
goes_far() { # NAME
  wsctl submit --json "$1:far" 100000 | grep -q '"done":100000,"total":100000'
}
opens() { # NAME
  (cd "$WORK" && echo words >some.file && expect_output words wsctl submit "$1:cat" some.file && says 1 'No such file' wsctl submit "$1:cat" no.file)
}
TRACE=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
services() { # HOW NAME
  local size
  check "$1: arguments" expect_output 'a|b c|' wsctl submit "$2:args" a 'b c' ''
  check "$1: a status, an error, and the output so far" fails "$2"
  check "$1: messages, progress, and a status text" tells "$2"
  for size in 0 1 65000 700000 3000000; do
    check "$1: input and output of $size bytes" echoes "$2" "$size"
  done
  check "$1: a function that streams" counts "$2"
  check "$1: a traceparent" expect_output "$TRACE" wsctl submit --traceparent "$TRACE" "$2:trace"
  check "$1: or none" expect_output none wsctl submit "$2:trace"
  check "$1: files named in arguments" opens "$2"
  check "$1: 12 MB of output" bash -c '[ "$(wsctl submit '"$2"':stream 12000000 | wc -c)" = 12000000 ]'
  check "$1: the end of its time" says 124 'its time was up' wsctl submit --timeout 100ms "$2:sleep" 60
  check "$1: progress that is told 100,000 times" goes_far "$2"
  check "$1: an array" bash -c 'seq 500 | wsctl map '"$2"':line | sort -n | cmp - <(seq 500)'
}
services plugin runnable
run_runner a || fail "a runner connects"
services threads crunner
end_runner a
run_runner a -l || fail "a runner connects"
services loop crunner
gets_an_arena() {
  "$PAYLOAD" lent "$WORK/input" crunner:echo 3 >"$WORK/output" && cmp "$WORK/output" <(cat "$WORK/input" "$WORK/input" "$WORK/input")
}
check "an input in an arena" gets_an_arena

# --- output in an arena, as a plugin's ------------------------------------------------------------------------------------

fills_an_arena() { # NAME BYTES: exactly as much as there is room for, less one byte
  head -c "$2" /dev/urandom >"$WORK/input" && "$PAYLOAD" arena "$WORK/input" "$1" 3 | cmp - "$WORK/input"
}
arenas() { # OPTION...
  local size case
  local RUNNER=("$BUILD/tests/support/clients/runner-echo" -n lent-echo)
  run_runner e "$@" || fail "a runner connects"
  RUNNER=("$BUILD/tests/support/clients/runner-reader" -n lent-reader)
  run_runner r "$@" || fail "a runner connects"
  for size in 1 4096 700000 3000000; do
    check "$* $size bytes of output in an arena" fills_an_arena lent-echo "$size"
    check "$* the same, reserved" fills_an_arena crunner:echo "$size"
    check "$* in place" fills_an_arena lent-echo:shared "$size"
    check "$* of an input that streams" fills_an_arena lent-echo:stream "$size"
  done
  for case in parts too_little_room busy_parts holes; do
    check "$* by hand, as with plugins: $case" env -C "$WORK" PAYLOAD_ECHO=lent-echo PAYLOAD_READER=lent-reader "$PAYLOAD" $case
  done
  check "$* the runner is killed: the arena is lost, as with an executor" killed_in_arena
  end_runner e
}
killed_in_arena() {
  rm -f "$WORK/begun" "$WORK/go"
  PAYLOAD_READER=lent-reader "$PAYLOAD" killed "$WORK/begun" "$WORK/go" &
  local pid=$!
  wait_until test -e "$WORK/begun" && end_runner r && wait "$pid"
}
arenas -t 4
arenas -l

# --- a loop of its own ---------------------------------------------------------------------------------------------------

answers_while_it_runs() { wsctl submit crunner:sleep 2 && ! closed a; } # executor-answer is 1s
check "loop: a job that asks whether it is cancelled answers wsd meanwhile" answers_while_it_runs
leaves() { # KEY
  rm -f "$WORK/leave"
  submit_behind l crunner:sleep 600 "$WORK/leave"
  wait_until is_running 1 || return 1
  kill "${RUNNERS[$1]}" && touch "$WORK/leave" && has_ended l 0 && wait_until grep -q '^left' "$WORK/runner.$1" && wait "${RUNNERS[$1]}"
}
check "loop: it leaves in order" leaves a
run_runner a -l
heeds_nothing() { says 124 'did not heed' wsctl submit --timeout 100ms crunner:deaf 2 && wait_until closed a; }
check "loop: one that heeds nothing loses its connection" heeds_nothing
wait "${RUNNERS[a]}"

# --- threads ---------------------------------------------------------------------------------------------------------------

run_runner a -t 2
answers_beside() {
  local i
  for i in 1 2; do submit_behind "d$i" crunner:deaf 2; done
  has_ended d1 0 && has_ended d2 0 && [ "$(n_logged 'executor .* hangs')" = 0 ]
}
check "threads: wsd has its answers while every thread is busy" answers_beside
cancels() {
  submit_behind c crunner:sleep 60
  wait_until is_running 1 || return 1
  wsctl cancel "$(wsctl list --state running --json | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p')" && has_ended c 130
}
check "threads: a cancel reaches a job" cancels
read_slowly() {
  local i
  for i in 1 2; do
    wsctl submit crunner:stream 5000000 | (
      wait_until test -e "$WORK/read"
      wc -c
    ) >"$WORK/slow.$i" &
  done
  wait_until is_running 2 || return 1
  touch "$WORK/read"
  for i in 1 2; do
    wait_until test -s "$WORK/slow.$i" && [ "$(cat "$WORK/slow.$i")" = 5000000 ] || return 1
  done
}
check "threads: readers that are slow lose nothing" read_slowly
goes_on() {
  says 124 'did not heed' wsctl submit --timeout 100ms crunner:deaf 2 && wait_until n_connected 1 && expect_output on wsctl submit crunner:args on
}
check "threads: beside a job that heeds nothing it connects again, with one thread less" goes_on
survives() {
  local pid=${RUNNERS[a]}
  kill_wsd && run_wsd --state-dir "$WORK/next" --workers 2 --plugin-dir "$TEST_PLUGINS" && wait_until n_connected 1 &&
    expect_output again wsctl submit crunner:args again && ! gone "$pid"
}
check "threads: it comes back to the next wsd" survives
check "threads: it leaves in order" leaves a
unset "RUNNERS[a]"

sed -i 's/^quarantine-after.*/quarantine-after = 1000000/' "$WSD_CONFIG"
reload_config || fail "the configuration is read again"
STORMY=(-t 2 -c 8)
check "runners that are killed again and again: each job is answered once" storm again "$WORK/ledger" crunner:slow "$WORK/ledger"
check "and what may run once is begun once" storm once "$WORK/ledger" crunner:once "$WORK/ledger"

# wsd itself dies, with short and long jobs and cancels under way. Each round has other threads and credits.
upheaval() {
  local i key pids=()
  RUNNER_AS=(taskset -c 0)
  for i in "1 1" "2 64" "4 4" "8 3" "3 16"; do
    key=u${i/ /x}
    run_runner "$key" -t "${i% *}" -c "${i#* }" || return 1
    [ "$key" != u4x4 ] || RUNNER_AS=() # the first three on one processor
  done
  RUNNER_AS=()
  churn() { # until there is a file `calm`; what becomes of these is not said
    until [ -e "$WORK/calm" ]; do
      timeout 20 wsctl map --keep-going crunner:line < <(seq 300)
      timeout 20 wsctl submit crunner:stream 700000 | head -c 100000
      timeout 0.1 wsctl submit crunner:sleep 60 & # a client that goes cancels its job
      timeout 20 wsctl submit --timeout 30ms crunner:sleep 60
      head -c 300000 /dev/zero | timeout 20 wsctl submit -i - crunner:count
      wait $!
    done >/dev/null 2>&1
  }
  for i in 1 2 3; do
    churn &
    pids+=($!)
  done
  for ((i = 0; i < FALLS; i++)); do
    sleep "0.$((RANDOM % 9))"
    kill_wsd && run_wsd --state-dir "$WORK/fall-$i" --workers 2 --plugin-dir "$TEST_PLUGINS" && wait_until n_connected 5 || return 1
  done
  touch "$WORK/calm"
  wait "${pids[@]}"
  for ((i = 0; i < 10; i++)); do
    seq 500 | wsctl map crunner:line | sort -n | cmp - <(seq 500) || return 1
  done
  for key in "${!RUNNERS[@]}"; do
    kill "${RUNNERS[$key]}"
    if ! wait "${RUNNERS[$key]}" || ! grep -q '^left' "$WORK/runner.$key"; then
      cat "$WORK/runner.$key"
      return 1
    fi
    unset "RUNNERS[$key]"
  done
}
check "wsd is killed again and again: runners come back with all their threads, and leave in order" upheaval

# --- the guide ------------------------------------------------------------------------------------------------------------

guide_part() { # NAME: of wsd-runner(7)
  sed -n "/BEGIN $1\$/,/END $1\$/p" "$SRC/packaging/man/wsd-runner.7" | sed '/^\./d; s/\\-/-/g; s/\\en/\\n/g; s/^\\&//'
}
follows_the_guide() {
  mkdir "$WORK/guide" "$WORK/lib" && cd "$WORK/guide" && guide_part runner.c >"$PWD/runner.c" && ln -s "$BUILD/client/libwsclient.so.0" "$WORK/lib/libwsclient.so" || return 1
  export PKG_CONFIG_PATH=$WORK/lib LD_LIBRARY_PATH=$BUILD/client
  printf 'Name: wsd-plugin\nDescription: x\nVersion: 1\nCflags: -I%s/include\n' "$SRC" >"$WORK/lib/wsd-plugin.pc"
  printf 'Name: wsclient\nDescription: x\nVersion: 1\nCflags: -I%s/include\nLibs: -L%s/lib -lwsclient\n' "$SRC" "$WORK" >"$WORK/lib/wsclient.pc"
  { guide_part build && echo "echo \$! >pid" && echo 'until wsctl plugin show hello >/dev/null 2>&1; do sleep 0.02; done' && guide_part call && echo 'kill $(cat pid)'; } >guide.sh
  bash -eu -o pipefail guide.sh >said 2>&1 || cat guide.sh said
  grep -q '^Hello, world!' said && grep -q '^WIND' said
}
if [ -n "${WSD_SANITIZE:-}" ]; then
  skip "the example of wsd-runner(7), as it is printed" "its programs are built without the sanitizer of the library"
else
  check "the example of wsd-runner(7), as it is printed" bash -c "$(declare -f guide_part follows_the_guide); follows_the_guide"
fi

# --- what it is not given -------------------------------------------------------------------------------------------------

refuses() { # NAME WORDS
  "$BUILD/tests/support/clients/c-runner" -n "$1" >"$WORK/refused" 2>&1 && return 1
  grep -q "$2" "$WORK/refused" || {
    cat "$WORK/refused"
    return 1
  }
}
at_a_place() { # OPTION...
  RUNNER=("$BUILD/tests/support/clients/c-runner" -n @crew)
  run_runner place "$@" && same 'any:args|x' "$(wsctl submit @crew/any:args x)" && same 'any|x' "$(wsctl submit @crew/any x)" && end_runner place
}
check "a place gets the jobs of whatever plugin" at_a_place
check "also by a loop" at_a_place -l
check "the name of a plugin" refuses runnable 'is a plugin'
check "a name that is none" refuses a/b 'the name of a runner'
stop_wsd
check "no wsd" refuses crunner 'No such file\|Connection refused'
