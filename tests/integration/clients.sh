#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# clients.sh: what each user may have, below, at and above each limit; and crowds of clients that stand still, drip, flood
# or vanish (support/clients/crowd.c): wsd stays small, and the jobs of others go on.
. "$(dirname "$0")/../support/lib.sh"

# The command fails with 75 and one line that names the key.
refused_by() { # KEY COMMAND...
  refused 75 "\($1 in wsd.conf\)" "${@:2}"
}

CROWD=$BUILD/tests/support/clients/crowd
LOAD=$BUILD/tests/support/clients/load
NOW=()

one() { # CASE WORDS
  WSD_PID=$WSD_PID check "$2" "$CROWD" "$1"
}

# --- quotas ----------------------------------------------------------------------------------------------------------

# N connections are held open until let_go.
hold() { # N [COMMAND...]
  local n=$1
  shift
  background "$@" "$LOAD" -c "$n" >"$WORK/held" 2>"$WORK/held.err"
  HOLDER=$BACKGROUND_PID
  wait_until grep -q held "$WORK/held" || {
    cat "$WORK/held.err"
    return 1
  }
}
let_go() {
  kill -KILL "$HOLDER"
  wait "$HOLDER" 2>/dev/null
  true
}

# With a limit of 10 connections, one of which is to be wsctl's.
connections() { # KEY
  hold 8 || return 1
  wsctl ping && let_go && wait_until counter_is connections 1 || return 1 # below
  hold 9 || return 1
  wsctl ping && let_go && wait_until counter_is connections 1 || return 1 # at
  hold 10 || return 1
  for _ in 1 2 3 4 5 6 7 8 9 10; do # above; who is refused is counted nowhere
    refused_by "$1" wsctl ping || return 1
  done
  let_go && wait_until wsctl ping && wait_until counter_is connections 1
}

# As many jobs, each a request of its own.
sleepers_graph() { # N
  local n
  printf '{"nodes": ['
  for ((n = 1; n <= $1; n++)); do
    [ $n = 1 ] || printf ', '
    # alike, they would be one request
    printf '{"name": "n%d", "plugin": "sleep:sleep", "args": ["600000"], "priority": %d}' $n $n
  done
  printf ']}'
}

# With a limit of 10 requests; those of two connections count together.
requests() {
  local n
  for n in 4 5 6; do
    sleepers_graph 4 >"$WORK/four"
    sleepers_graph $n >"$WORK/more"
    background wsctl run "$WORK/four"
    HOLDER=$BACKGROUND_PID
    background wsctl run "$WORK/more"
    wait_until counter_is jobs_open $((4 + n)) || return 1
    case $n in
      6) refused_by max-requests-per-user wsctl --json list || return 1 ;;
      *) wsctl list >"$WORK/output" || return 1 ;; # below, at
    esac
    kill "$HOLDER" "$BACKGROUND_PID"
    wait "$HOLDER" "$BACKGROUND_PID"
    wait_until counter_is jobs_open 0 || return 1
  done
  wsctl list >"$WORK/output"
}

# A job that waits and is not waited for.
sleeper() { # [OPTION...]
  wsctl submit --detach "$@" sleep:sleep 600000 >>"$WORK/ids"
}
no_sleepers() {
  xargs -r wsctl cancel <"$WORK/ids" && wait_until counter_is jobs_open 0 && wait_until counter_is bytes_charged 0
  rm -f "$WORK/ids"
}

jobs() {                                    # KEY: it is 3
  sleeper && sleeper && sleeper || return 1 # below, at
  refused_by "$1" wsctl submit fib 20 || return 1
  wsctl cancel "$(head -n 1 "$WORK/ids")" && wait_until expect_output 6765 wsctl submit fib 20 && no_sleepers
}

# KEY is 40000: "600000", its NUL, and the input.
bytes_queued() { # KEY
  local n
  for n in 39992 39993; do # below, at
    head -c "$n" /dev/zero >"$WORK/input"
    sleeper --input "$WORK/input" && counter_is bytes_charged $((n + 7)) && no_sleepers || return 1
  done
  head -c 39994 /dev/zero >"$WORK/input"
  refused_by "$1" wsctl submit --detach --input "$WORK/input" sleep:sleep 600000 || return 1
  head -c 30000 /dev/zero >"$WORK/input" # two that are too much together
  sleeper --input "$WORK/input" || return 1
  refused_by "$1" wsctl submit --detach --input "$WORK/input" sleep:sleep 600000 || return 1
  no_sleepers
}

given() { # BYTES: that many, which wsctl sends in its SUBMIT or behind it, or as a file, come back
  head -c "$1" /dev/urandom >"$WORK/input"
  wsctl submit --input "$WORK/input" echo >"$WORK/output" && cmp "$WORK/input" "$WORK/output" &&
    wsctl submit --input - echo < <(cat "$WORK/input") >"$WORK/output" && cmp "$WORK/input" "$WORK/output"
}
piped() { # FILE COMMAND...
  local file=$1
  shift
  "$@" < <(cat "$file")
}
too_much() { # EXIT WORDS COMMAND...
  local code=$1 words=$2
  shift 2
  expect_exit "$code" "$@" >"$WORK/said" 2>&1
  local status=$?
  cat "$WORK/said"
  [ "$status" = 0 ] && grep -q -- "$words" "$WORK/said"
}

one_input() { # LIMIT
  given $(($1 - 1)) && given "$1" || return 1
  head -c $(($1 + 1)) /dev/zero >"$WORK/input"
  # of a file it is known before the job is accepted
  too_much 75 "(max-input in wsd.conf)" wsctl submit --input "$WORK/input" echo &&
    too_much 63 "(max-input in wsd.conf)" piped "$WORK/input" wsctl submit --input - echo && wait_until counter_is bytes_charged 0
}

# max-result is 100000.
one_result() {
  local id n
  for n in 99999 100000; do
    id=$(wsctl submit --detach bigoutput $n) && wsctl await "$id" >"$WORK/output" &&
      [ "$(wc -c <"$WORK/output")" = $n ] || return 1
  done
  id=$(wsctl submit --detach bigoutput 100001) || return 1
  too_much 63 "max-result and max-bytes-per-user in wsd.conf" wsctl await "$id"
}

# What is piped is charged as it comes.
bytes_piped() { # KEY: it is 40000
  head -c 40000 /dev/zero >"$WORK/input"
  piped "$WORK/input" wsctl submit --input - checksum >/dev/null && head -c 40001 /dev/zero >"$WORK/input" &&
    too_much 63 "($1 in wsd.conf)" piped "$WORK/input" wsctl submit --input - echo && wait_until counter_is bytes_charged 0
}

# max-bytes is 40000, and one has 30000 of it: whoever waits for as much gets in when that goes, one after the other.
bytes_waited_for() {
  local pids=() n
  head -c 30000 /dev/zero >"$WORK/input"
  sleeper --input "$WORK/input" || return 1
  for n in 1 2 3; do
    background wsctl submit --wait-for-room --input "$WORK/input" echo >"$WORK/waited.$n"
    pids+=("$BACKGROUND_PID")
  done
  expect_exit 75 wsctl submit --wait-for-room=300ms --input "$WORK/input" echo 2>"$WORK/said" && grep -q '(max-bytes in wsd.conf)' "$WORK/said" || return 1
  ! gone "${pids[0]}" && no_sleepers && wait "${pids[@]}" && cmp "$WORK/input" "$WORK/waited.1" && cmp "$WORK/input" "$WORK/waited.2" && cmp "$WORK/input" "$WORK/waited.3"
}

# max-bytes is 250000: one's own results give way, another user's do not.
results_of_all() {
  local first second third
  first=$(wsctl submit --detach bigoutput 124990) && second=$(wsctl submit --detach bigoutput 124990) && wait_until counter_is results_kept 2 &&
    wsctl await "$first" >/dev/null && third=$(wsctl submit --detach bigoutput 124990) && wsctl await "$third" >/dev/null &&
    expect_exit 66 wsctl await "$first" && wsctl await "$second" >/dev/null && [ "$(counter bytes_charged)" -le 250000 ] || return 1
  third=$(wsctl submit --detach bigoutput 250001) && too_much 63 "(max-bytes in wsd.conf)" wsctl await "$third"
}

# max-bytes-per-user is 250000: what is kept gives way to what is new, and one that finds no room at all is told.
results_kept() {
  local first second third
  first=$(wsctl submit --detach bigoutput 124990) && wait_until counter_is results_kept 1 || return 1
  second=$(wsctl submit --detach bigoutput 124990) && wait_until counter_is results_kept 2 || return 1
  wsctl await "$first" >"$WORK/output" && [ "$(wc -c <"$WORK/output")" = 124990 ] || return 1
  third=$(wsctl submit --detach bigoutput 124990) && wsctl await "$third" >/dev/null || return 1
  expect_exit 66 wsctl await "$first" && wsctl await "$second" >"$WORK/output" &&
    [ "$(wc -c <"$WORK/output")" = 124990 ] && [ "$(counter bytes_charged)" -le 250000 ] || return 1
  third=$(wsctl submit --detach bigoutput 250001) || return 1
  too_much 63 "max-result and max-bytes-per-user in wsd.conf" wsctl await "$third"
}

limits() { # TEXT: of [limits], for a wsd that is started
  printf '[limits]\n%b' "$1" >"$WSD_CONFIG"
  start_wsd --workers 8 --plugin-dir "$TEST_PLUGINS"
}

limits 'max-connections-per-user = 10\n' || exit 1
check "connections of a user: below, at and above the limit" connections max-connections-per-user
printf '[limits]\nmax-connections = 10\n' >"$WSD_CONFIG"
check "SIGHUP: another limit" reload_config
check "connections of all: below, at and above the limit" connections max-connections
stop_wsd
limits 'max-requests-per-user = 10\n' || exit 1
check "open requests of a user: below, at and above the limit" requests
stop_wsd
limits 'max-jobs-per-user = 3\n' || exit 1
check "jobs of a user: below, at and above the limit" jobs max-jobs-per-user
stop_wsd
limits 'max-jobs = 3\n' || exit 1
check "jobs of all: below, at and above the limit" jobs max-jobs
stop_wsd
limits 'max-bytes-per-user = 40000\n' || exit 1
check "bytes queued by a user: below, at and above the limit" bytes_queued max-bytes-per-user
check "bytes piped by a user" bytes_piped max-bytes-per-user
printf '[limits]\nmax-bytes = 40000\n' >"$WSD_CONFIG"
reload_config || exit 1
check "bytes queued by all: below, at and above the limit" bytes_queued max-bytes
check "bytes piped by all" bytes_piped max-bytes
check "--wait-for-room waits for bytes" bytes_waited_for
stop_wsd
limits 'max-bytes = 250000\n' || exit 1
check "results kept of all: below, at and above the limit" results_of_all
stop_wsd
limits 'max-input = 1000\n' || exit 1
check "a small input: below, at and above the limit" one_input 1000
stop_wsd
limits 'max-input = 300000\n' || exit 1
check "an input in pieces: below, at and above the limit" one_input 300000
stop_wsd
limits 'max-result = 100000\n' || exit 1
check "a result kept: below, at and above the limit" one_result
stop_wsd
limits 'max-bytes-per-user = 250000\n' || exit 1
check "results kept of a user: below, at and above the limit" results_kept
stop_wsd

# Of two users who share a wsd, one takes all that he may have.
two_users() {
  chmod 755 "$WORK" "${WSD_SOCKET%/*}" && chmod 666 "$WSD_SOCKET" && mkdir -p "$WORK/inst" || return 1
  cp "$LOAD" "$WSCTL" "$BUILD"/client/libwsclient.so.0 "$WORK/inst/"
  chmod -R a+rX "$WORK/inst"
  NOW=(setpriv --clear-groups --inh-caps=-all --reuid=1001 --regid=1001 -- env "LD_LIBRARY_PATH=$WORK/inst")
  LOAD=$WORK/inst/load hold 10 "${NOW[@]}" || return 1
  refused_by max-connections-per-user "${NOW[@]}" "$WORK/inst/wsctl" ping || return 1
  NOW[3]=--reuid=1002
  "${NOW[@]}" "$WORK/inst/wsctl" ping && "${NOW[@]}" "$WORK/inst/wsctl" submit fib 20 && let_go
}
# One user has all that there is for all: it stays his.
two_users_of_all() {
  local id
  id=$(wsctl submit --detach bigoutput 39990) && wait_until counter_is results_kept 1 && head -c 100 /dev/zero >"$WORK/input" || return 1
  chmod 644 "$WORK/input"
  refused_by max-bytes "${NOW[@]}" "$WORK/inst/wsctl" submit --input "$WORK/input" echo && wsctl await "$id" | wc -c | grep -qx 39990
}
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  printf '[daemon]\nsystem = yes\n[domains]\ntrust = all\n[limits]\nmax-connections-per-user = 10\nmax-bytes = 40000\n' >"$WSD_CONFIG"
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
  check "one user has all that he may, and another gets in" two_users
  check "what one user keeps gives no way to another" two_users_of_all
  stop_wsd
  printf '[daemon]\nsystem = yes\n[domains]\ntrust = all\n' >"$WSD_CONFIG"
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
  chmod 755 "$WORK" "${WSD_SOCKET%/*}" && chmod 666 "$WSD_SOCKET"
  one beside_tiny_requests "a user is answered beside many connections full of tiny requests of another one"
  one beside_questions "and full of questions"
  one beside_lists "and full of requests for lists"
  one beside_refusals "and full of requests that are refused"
  one beside_selections "and that each look through all jobs"
  one beside_arrays "and arrays that are submitted, cancelled, forgotten and left behind"
  stop_wsd
  WSD_PREFIX=(prlimit --nofile=512:512)
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
  WSD_PREFIX=()
  chmod 755 "${WSD_SOCKET%/*}" && chmod 666 "$WSD_SOCKET"
  one what_cannot_be_closed_counts "descriptors of a user that cannot be closed count as his"
  stop_wsd
else
  skip "one user has all that he may, and another gets in" "only root can act as two users"
  skip "a user is answered beside many connections of another one" "only root can act as two users"
fi

# With few descriptors, and limits that say nothing of it.
descriptors_run_out() {
  hold 160 || return 1
  wsctl ping && let_go && wait_until counter_is connections 1 || return 1
  background "$LOAD" -c 400 >"$WORK/held" 2>"$WORK/held.err"
  wait_until grep -q "descriptors (LimitNOFILE" "$WORK/held.err" && wait_until wsctl submit fib 20
}
: >"$WSD_CONFIG"
WSD_PREFIX=(prlimit --nofile=512:512)
start_wsd --workers 2 || exit 1
WSD_PREFIX=()
check "connections leave descriptors for others, and say so" descriptors_run_out
stop_wsd

# --- crowds ----------------------------------------------------------------------------------------------------------

printf '[limits]\nframe-timeout = 1s\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
one writers_of_single_bytes "frames that come a byte at a time"
one readers_of_single_bytes "readers of a byte at a time"
one floods "floods of those who do not read: wsd reads no more of them"
one followers "one who follows a job 100,000 times, and goes"
one an_end_for_many "a job that 100,000 wait for ends in slices"
one messages_for_many "what a job says is heard by 128"
one joiners_of_a_load "128 may wait for a key whose job is not accepted yet"
one descriptors_that_linger "descriptors whose last close waits: nobody else does"
one comings_and_goings "thousands of connections that vanish"
stop_wsd
# one that is told to stop is given time to hear of it: else the others of its executor go with it
limits 'max-bytes-per-user = 32M\ncancel-grace = 30s\n' || exit 1
one results_that_nobody_reads "results that nobody reads are charged to their user"
stop_wsd

limits 'max-unread-per-user = 4M\n' || exit 1
one outputs_that_nobody_reads "outputs of many connections that nobody reads are one user's"
stop_wsd
: >"$WSD_CONFIG"
start_wsd --workers 2 || exit 1 # all plugins are asked for, so only with those that can be loaded
one questions_that_pile_up "questions with large answers that wait for the same load"
stop_wsd

memory() { # KiB
  sed -n 's/^VmRSS: *\([0-9]*\).*/\1/p' "/proc/$WSD_PID/status"
}
ten_thousand() {
  local before first
  wsctl submit fib 20 && before=$(memory) && ulimit -S -n "$most" || return 1
  hold 5000 && first=$HOLDER && hold 5000 || return 1 # a client of the library has two descriptors
  [ "$(counter connections)" = 10001 ] && "$LOAD" -p 4 -n 4000 echo || return 1
  echo "$(($(memory) - before)) KiB for 10,000 connections"
  # four KiB each, of all that a connection is; a sanitizer wants more
  [ $(($(memory) - before)) -le $((40000 * TIME_SCALE + 20000)) ] || return 1
  let_go
  HOLDER=$first
  let_go && wait_until counter_is connections 1 && wsctl submit fib 20
}
most=$(ulimit -Hn)
[ "$most" != unlimited ] || most=20000
if [ "$most" -ge 14000 ]; then # three quarters of it are one user's at most
  : >"$WSD_CONFIG"
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
  check "10,000 connections of one user" ten_thousand
  stop_wsd
else
  skip "10,000 connections" "at most $most descriptors here (ulimit -Hn), and 14000 are wanted"
fi
