#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# inherit.sh: states that a parent may leave behind (support/boxes/inherit.c), by program. A row of a table is a state and what is right in it;
# tests/faults.md has the tables in words.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

INHERIT=$BUILD/tests/support/boxes/inherit
printf '[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"
# Sanitizers reserve address space and have signal handlers, threads and descriptors of their own.
sanitized=${WSD_SANITIZE:-}
is_root=''
[ "$(id -u)" = 0 ] && is_root=1

mask() { # PID FIELD: of its status, as a number
  echo $((16#$(sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status")))
}
ignores() { # PID SIGNAL
  [ $(($(mask "$1" SigIgn) >> ($(kill -l "$2") - 1) & 1)) = 1 ]
}

# --- wsd, wsd-executor: serving -----------------------------------------------------------------------------------------

SIGCHLD_BIT=$((1 << 16)) # which wsd-spawn takes from a descriptor
settled() {              # PID STATE...: nothing blocked, no signal ignored that brings the ends of children, 0 to 2 open, and a file by its name
  local fd target
  [ $(($(mask "$1" SigBlk) & ~SIGCHLD_BIT)) = 0 ] || {
    echo "signals are blocked"
    return 1
  }
  ! ignores "$1" CHLD || {
    echo "SIGCHLD is ignored"
    return 1
  }
  for fd in 0 1 2; do
    target=$(readlink "/proc/$1/fd/$fd") || {
      echo "$fd is closed"
      return 1
    }
    # what an executor says goes through a pipe to wsd
    [[ $target == pipe:* && $fd != 0 && $(readlink "/proc/$1/exe") == "$EXECUTOR" ]] && continue
    [[ $target == /* && ($target == /dev/null || " $* " != *" close=$fd "*) ]] || {
      echo "$fd is $target"
      return 1
    }
  done
}

# A job, the death of the executor noticed, a command with the signals of a new program, the end.
serves() { # STATE...
  local wsd
  WSD_PREFIX=("$INHERIT" "$@" --)
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || return 1
  WSD_PREFIX=()
  wsd=$WSD_PID
  expect_output 6765 wsctl submit fib 20 && settled "$wsd" "$@" || return 1
  [ -z "$is_root" ] || settled "$(pgrep -P "$wsd")" "$@" || return 1 # others may not look into it
  [[ " $*" != *" user="* ]] || {
    stop_wsd
    return
  } # it runs no commands of ours
  wsctl submit exec grep -E '^Sig(Blk|Ign):' /proc/self/status >"$WORK/signals" || return 1
  ! grep -q '[1-9a-f]$' <(cut -f2 "$WORK/signals") || {
    cat "$WORK/signals"
    return 1
  }
  kill_executor && expect_output 6765 wsctl submit fib 20 && stop_wsd
}

while read -r name states; do
  if [ -n "$sanitized" ] && [[ $states == *DATA:16M* ]]; then
    skip "wsd serves: $name" "a sanitizer needs more by itself"
    continue
  fi
  # shellcheck disable=SC2086 # states are words
  check "wsd serves: $name" serves $states
done <<'STATES'
descriptor-0-closed close=0
descriptor-1-closed close=1
descriptor-2-closed close=2
descriptors-0-to-2-closed close=0 close=1 close=2
SIGCHLD-ignored ignore=CHLD
all-signals-ignored ignore=all
all-signals-blocked block=all
soft-limits-that-are-low limit=NOFILE:20:4096 limit=FSIZE:1M:unlimited limit=CPU:1:unlimited
soft-limits-of-memory-that-are-low limit=STACK:64K:unlimited limit=DATA:16M:unlimited
limits-that-do-not-matter limit=MEMLOCK:0 limit=SIGPENDING:0 limit=MSGQUEUE:0 limit=LOCKS:0 limit=RSS:0 limit=CORE:0
stack-of-1-MiB limit=STACK:1M
stack-without-limit limit=STACK:unlimited
STATES

# --- wsd: what does not suffice -----------------------------------------------------------------------------------------

run_limited() { # STATE... -- OPTION...: until it ends, at most for 20 s
  local states=()
  while [ "$1" != -- ]; do
    states+=("$1")
    shift
  done
  shift
  timeout -k 1 $((20 * TIME_SCALE)) "$INHERIT" "${states[@]}" -- "$WSD" --socket "$WORK/refused.sock" --config "$WSD_CONFIG" \
    --executor "$EXECUTOR" --spawner "$SPAWNER" --state-dir "$WORK/refused" --plugin-dir "$PLUGINS" --workers 2 "$@"
}

# The limit's name and the number that is wanted; with that number it serves.
refuses() { # NAME VALUE [STATE...]
  local name=$1 value=$2 wanted
  shift 2
  expect_exit 74 run_limited "$@" "limit=$name:$value" -- 2>&1 | cat >"$WORK/refused.log" || {
    cat "$WORK/refused.log"
    return 1
  }
  wanted=$(sed -n "s/^wsd: cannot start: RLIMIT_$name is [0-9]*, and at least \([0-9]*\) .* wanted.*/\1/p" "$WORK/refused.log")
  [ -n "$wanted" ] || {
    cat "$WORK/refused.log"
    return 1
  }
  [ -n "$sanitized" ] || serves "$@" "limit=$name:$wanted"
}
while read -r name value; do
  if [ -n "$sanitized" ] && [[ $name == AS || $name == DATA || $name == STACK ]]; then
    skip "wsd refuses RLIMIT_$name $value" "a sanitizer needs more by itself"
  elif [ "${WSD_SANITIZE:-}" = thread ] && [ "$name $value" = "FSIZE 0" ]; then
    skip "wsd refuses RLIMIT_$name $value" "ThreadSanitizer writes a file before main()"
  else
    check "wsd refuses RLIMIT_$name $value, and serves with what it wants" refuses "$name" "$value"
  fi
done <<'LIMITS'
NOFILE 12
NOFILE 32
FSIZE 0
FSIZE 32M
AS 512M
DATA 16M
STACK 64K
CPU 5
LIMITS

# A hard limit of CPU time ends a process by SIGKILL; a second before, SIGXCPU says why.
the_limit_of_cpu_time_is_told() {
  local pid deaths n
  WSD_PREFIX=("$INHERIT" limit=CPU:1:1000 --)
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || return 1
  WSD_PREFIX=()
  expect_output 6765 wsctl submit fib 20 || return 1
  for pid in "$WSD_PID" "$(pgrep -P "$WSD_PID")"; do
    grep -qE '^Max cpu time +999 +1000' "/proc/$pid/limits" || {
      grep cpu "/proc/$pid/limits"
      return 1
    }
  done
  # with so much memory wsd hears of the end before the process is gone, and says nothing before it knows how it was
  for n in 1 2 3 4 5; do
    wsctl submit crash:leak 300 && deaths=$(counter executors_died) && pkill -XCPU -P "$WSD_PID" || return 1
    wait_until another_died || return 1
    [ "$(grep -c 'executor [0-9]* ended: CPU time limit exceeded' "$WSD_LOG")" = "$n" ] || {
      tail -n 3 "$WSD_LOG"
      return 1
    }
  done
  stop_wsd
}
check "an executor at the limit of CPU time: the log names it" the_limit_of_cpu_time_is_told

# One that has more workers than wsd has by itself: it is the executor's refusal, in the words of the job.
a_domain_with_more_workers() {
  local status
  printf '[domain many]\nusers = %s\nworkers = 64\n' "$(id -un)" >>"$WSD_CONFIG"
  WSD_PREFIX=("$INHERIT" limit=AS:2G --)
  start_wsd --workers 2 || return 1
  WSD_PREFIX=()
  expect_exit 75 wsctl submit fib 20 2>"$WORK/words"
  status=$?
  cat "$WORK/words"
  # "Cannot allocate memory", or what pthread_create() says of a stack: "Resource temporarily unavailable"
  grep -qE 'no executor can be started: [A-Z][a-z ]+; RLIMIT_AS is 2147483648 bytes' "$WORK/words" && [ "$status" = 0 ] && stop_wsd
  status=$?
  printf '[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"
  return $status
}
[ -n "$sanitized" ] || check "an executor that a limit refuses: the job's error names it" a_domain_with_more_workers

# An input that goes into a memory file, which the limit counts.
an_input_above_the_limit() {
  WSD_PREFIX=("$INHERIT" limit=FSIZE:140M --)
  start_wsd --workers 2 || return 1
  WSD_PREFIX=()
  head -c 160M /dev/zero | expect_exit 63 wsctl submit --input - count 2>"$WORK/words"
  cat "$WORK/words"
  grep -q 'RLIMIT_FSIZE is 146800640 bytes' "$WORK/words" && expect_output 6765 wsctl submit fib 20 && stop_wsd
}
check "an input above the limit of files: the job's error names it" an_input_above_the_limit

# --- wsd: what is not there ---------------------------------------------------------------------------------------------

# The files of the store are as large as they may be: as a full disk.
a_store_at_the_limit_of_files() {
  local i status=0
  WSD_PREFIX=("$INHERIT" limit=FSIZE:140M --)
  start_wsd --workers 2 || return 1
  WSD_PREFIX=()
  head -c 24M /dev/zero >"$WORK/large"
  for i in {1..12}; do
    status=0
    wsctl submit --durable --detach --delay 1h --input "$WORK/large" count >"$WORK/id" 2>"$WORK/words" || status=$?
    [ "$status" = 0 ] || break
  done
  echo "the job $i: $status: $(cat "$WORK/words")"
  [ "$status" = 75 ] && grep -q 'as large as they may be (RLIMIT_FSIZE' "$WORK/words" || return 1
  expect_output 6765 wsctl submit fib 20 && stop_wsd
}
check "the limit of files at jobs.db is a full disk" a_store_at_the_limit_of_files

# A log that is as large as it may be loses what is said, as on a full disk: wsd serves, and ends in order.
a_log_at_the_limit_of_files() {
  local pid status=0
  truncate -s 160M "$WORK/large.log"
  background run_limited limit=FSIZE:140M -- 2>>"$WORK/large.log"
  pid=$BACKGROUND_PID
  wait_until refused_serves || status=1
  pkill -TERM -P "$(pgrep -P "$pid" -x timeout || echo "$pid")" -x wsd
  wait_for_exit "$pid" && [ "$status" = 0 ] && [ "$(stat -c %s "$WORK/large.log")" = $((160 * 1024 * 1024)) ]
}
refused_serves() {
  [ "$(wsctl --socket "$WORK/refused.sock" submit fib 20)" = 6765 ]
}
check "a log at the limit of files: wsd serves" a_log_at_the_limit_of_files

lacks() { # DIRECTORY TEXT
  expect_exit 74 run_limited "hide=$1" -- 2>"$WORK/words"
  cat "$WORK/words"
  grep -q "^wsd: cannot start: $2: " "$WORK/words"
}
loses_proc() {
  local status=0
  WSD_PREFIX=("$INHERIT" hide=/mnt --)
  start_wsd --workers 2 || return 1
  WSD_PREFIX=()
  nsenter --mount --target "$WSD_PID" mount -t tmpfs none /proc || return 1
  expect_exit 75 wsctl submit fib 20 2>"$WORK/words" || status=1
  cat "$WORK/words"
  grep -q 'no executor can be started: No such file or directory: wsd needs a /proc' "$WORK/words" && [ "$status" = 0 ] && stop_wsd
}
if [ -n "$is_root" ] && "$INHERIT" hide=/mnt -- true 2>/dev/null; then
  check "no /proc: wsd says so" lacks /proc /proc/self/fd
  check "no /dev: wsd says so" lacks /dev /dev/null
  [ -n "$sanitized" ] || check "a /proc that goes is named in the job's error" loses_proc # where leaks are looked for
  check "no /dev, and stdout closed: wsctl writes nowhere" expect_exit 74 "$INHERIT" hide=/dev close=1 -- wsctl --version
  check "a user in 1,500 groups is served" serves groups=1500
else
  skip "no /proc, no /dev, 1,500 groups" "only root can make them so"
fi

# --- wsd: orphans -------------------------------------------------------------------------------------------------------

zombies_of() { # PID
  local n=0 pid
  for pid in $(pgrep -P "$1"); do
    ! grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" 2>/dev/null || n=$((n + 1))
  done
  echo "$n"
}
reaps() { # STATE
  local wsd i
  WSD_PREFIX=("$INHERIT" "$1" --)
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || return 1
  WSD_PREFIX=()
  wsd=$WSD_PID
  [ "$1" != pid1 ] || wsd=$(pgrep -P "$WSD_PID")
  for i in {1..20}; do
    wsctl submit exec sh -c '(sleep 0.05 &) >/dev/null 2>&1; sleep 0' || return 1
  done
  wait_until no_zombie "$wsd" || {
    ps -o pid,ppid,stat,comm --ppid "$wsd"
    return 1
  }
  # the ends of its own children are still noticed
  local deaths # another_died() reads it
  # shellcheck disable=SC2034
  deaths=$(counter executors_died)
  pkill -KILL -P "$wsd" && wait_until another_died && expect_output 6765 wsctl submit fib 20 || return 1
  [ "$(zombies_of "$wsd")" = 0 ] && stop_wsd
}
no_zombie() { # PID: none, and no orphan that still runs
  [ "$(zombies_of "$1")" = 0 ] && ! pgrep -P "$1" -x sleep
}
check "a wsd that is a child subreaper reaps orphans" reaps subreaper
if [ -n "$is_root" ] && "$INHERIT" pid1 -- true 2>/dev/null; then
  check "a wsd that is process 1 reaps orphans" reaps pid1
else
  skip "a wsd that is process 1 reaps orphans" "no PID namespace can be had"
fi

# --- wsctl --------------------------------------------------------------------------------------------------------------

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
wsctl submit fib 20 >"$WORK/warm" || exit 1

# `state of the descriptors | exit | stdout | command`; a command that hangs ends with 124.
closed() { # STATES EXIT STDOUT COMMAND
  local got status=0
  # shellcheck disable=SC2086 # states are words
  got=$(eval "timeout -k 1 $((10 * TIME_SCALE)) $INHERIT $1 -- $4" 2>"$WORK/words" <"$WORK/items") || status=$?
  echo "exit $status: $got"
  cat "$WORK/words"
  [ "$status" = "$2" ] && [ "$got" = "$3" ]
}
printf '3\n4\n' >"$WORK/items"
export LOCAL="--local --plugin-dir $PLUGINS"
while IFS='|' read -r states code output command; do
  check "$states: wsctl $command: $code" closed "$states" "$code" "$output" "wsctl $command"
done <<'ROWS'
close=1|74||submit fib 20
close=1|74||--json submit fib 20
close=1|74||submit --detach fib 20
close=1|74||submit $LOCAL fib 20
close=1|74||map fib ::: 3 4
close=1|74||stats
close=1|74||ping
close=1|74||--help
close=1|74||trace -s 0.01 -o -
close=1|0||submit --output $WORK/output fib 20
close=0|74||submit --input - count
close=0|74||submit $LOCAL --input - count
close=0|74||map fib
close=0|74||run -
close=0|0|6765|submit fib 20
close=0|0|6765|submit $LOCAL fib 20
close=2|3|hi|submit exec sh -c 'echo hi; echo words >&2; exit 3'
close=2|66||submit no-such-plugin
close=0 close=2|3|hi|submit exec sh -c 'echo hi; echo words >&2; exit 3'
close=0 close=1 close=2|74||submit fib 20
ignore=all block=all|0|6765|submit fib 20
ignore=CHLD|0|hi|submit $LOCAL exec echo hi
limit=STACK:64K:unlimited|0|6765|submit fib 20
limit=STACK:64K|74||submit fib 20
limit=FSIZE:4K|74||submit --output $WORK/output exec seq 100000
limit=NOFILE:4|0|6765|submit fib 20
ROWS

names_the_limit() { # NAME VALUE
  expect_exit 70 "$INHERIT" "limit=$1:$2" -- wsctl submit --local --plugin-dir "$PLUGINS" fib 20 2>"$WORK/words"
  cat "$WORK/words"
  grep -q "RLIMIT_$1 is " "$WORK/words"
}
for limit in AS DATA; do
  [ -n "$sanitized" ] || check "--local below RLIMIT_$limit names it" names_the_limit "$limit" 100M
done

commands_have_plain_signals() {
  local said
  said=$("$INHERIT" ignore=all block=all -- wsctl submit --local --plugin-dir "$PLUGINS" exec grep -E '^Sig(Blk|Ign):' /proc/self/status) || return 1
  echo "$said"
  ! grep -q '[1-9a-f]$' <<<"$said"
}
check "what exec runs in --local has the signals of a new program" commands_have_plain_signals

waits_for_job() { # PID
  [ "$(counter jobs_running)" = 1 ] || wsctl --json list | grep -q '"state":"running"'
}
nohup_stays() {
  local pid status=0
  background "$INHERIT" ignore=HUP ignore=INT ignore=TERM ignore=CHLD block=all -- wsctl submit sleep 600000
  pid=$BACKGROUND_PID
  wait_until waits_for_job "$pid" || return 1
  grep Sig "/proc/$pid/status"
  ignores "$pid" HUP && ignores "$pid" INT && ! ignores "$pid" TERM && ! ignores "$pid" CHLD || return 1
  kill -HUP "$pid" && kill -INT "$pid" && wait_until has_heeded "$pid" 1 && ! gone "$pid" || return 1
  kill -TERM "$pid"
  wait_for_exit "$pid" || status=$?
  [ "$status" = 130 ]
}
check "wsctl: what nohup ignores stays ignored, SIGTERM cancels" nohup_stays
stop_wsd

# --- wsd-spawn; limits that root is exempt of -----------------------------------------------------------------------------

helper_settled() {
  local helper
  printf '[daemon]\nsystem = yes\n[executor]\nuser-ids = yes\n' >"$WSD_CONFIG"
  chmod 644 "$WSD_CONFIG"
  WSD_PREFIX=("$INHERIT" close=0 close=1 close=2 ignore=all block=all --)
  start_wsd --workers 2 || return 1
  WSD_PREFIX=()
  chmod 755 "$(dirname "$WSD_SOCKET")"
  chmod 666 "$WSD_SOCKET"
  expect_output 6765 as $ALICE "$CTL" submit fib 20 || return 1
  helper=$(pgrep -P "$WSD_PID" -x wsd-spawn) && settled "$helper" close=0 close=1 close=2 || return 1
  settled "$(pgrep -P "$helper")" close=0 close=1 close=2 || return 1
  pkill -KILL -P "$helper" && expect_output 6765 as $ALICE "$CTL" submit fib 20 && stop_wsd
}
if [ -n "$is_root" ] && command -v setpriv >/dev/null; then
  install_for_all sleep
  check "wsd-spawn and its executors: descriptors and signals" helper_settled
  printf '[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"
  refuses_threads() { # as a user of whom nothing else runs
    (umask 0 && refuses NPROC 4 user=61234)
  }
  check "wsd refuses RLIMIT_NPROC 4" refuses_threads
elif [ -z "$is_root" ]; then
  check "wsd refuses RLIMIT_NPROC 4" expect_exit 74 run_limited limit=NPROC:4 --
fi
