# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# lib.sh: what integration and system scripts share. Sourced:
#
#     . "$(dirname "$0")/../support/lib.sh"
#
# tests/run gives the environment; a script run by hand finds its own:
#   SRC  BUILD  WSD  WSCTL  EXECUTOR  SPAWNER  PLUGINS (shipped ones)  TEST_PLUGINS  RUN (runs one plugin without a daemon)
#   TIME_SCALE  by how much every time limit grows (sanitizers, valgrind)
# and from here come
#   WORK        a private directory, removed at the end; also TMPDIR
#   WSD_CONFIG  the configuration of start_wsd, empty until a script writes to it
#   WSD_PID, WSD_LOG, WSD_SOCKET  of the wsd that start_wsd started last
# `wsctl` and `wsd` are in PATH.
#
# Every result is one line on stdout: `ok NAME`, `FAIL NAME: why` or `skip NAME: why`. What a failing command said
# follows, indented. The script exits 1 if anything failed, and what it started is killed at its end, whichever end.
set -u -o pipefail

SRC=${SRC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
if [ -z "${BUILD:-}" ]; then
  BUILD=$SRC/build-test
  [ -d "$BUILD" ] || BUILD=$SRC/build
fi
WSD=${WSD:-$BUILD/daemon/wsd}
EXECUTOR=${EXECUTOR:-$BUILD/daemon/executor/wsd-executor}
SPAWNER=${SPAWNER:-$BUILD/daemon/spawner/wsd-spawn}
WSCTL=${WSCTL:-$BUILD/client/wsctl/wsctl}
PLUGINS=${PLUGINS:-$BUILD/daemon/plugins}
TEST_PLUGINS=${TEST_PLUGINS:-$BUILD/tests/support/plugins}
RUN=${RUN:-$BUILD/tests/support/run-plugin}
TIME_SCALE=${TIME_SCALE:-1}
export SRC BUILD WSD EXECUTOR SPAWNER WSCTL PLUGINS TEST_PLUGINS RUN TIME_SCALE

WORK=$(mktemp -d "${TMPDIR:-/tmp}/wsd-test.XXXXXX") || exit 1
mkdir "$WORK/bin" "$WORK/tmp" "$WORK/state"
ln -s "$WSCTL" "$WORK/bin/wsctl"
ln -s "$WSD" "$WORK/bin/wsd"
# Debian's, also where another one comes first in PATH, such as a wrapper of pyenv, which takes longer than what it runs.
[ ! -x /usr/bin/python3 ] || ln -s /usr/bin/python3 "$WORK/bin/python3"
WSD_CONFIG=$WORK/wsd.conf
: >"$WSD_CONFIG"
PATH=$WORK/bin:$PATH
export WORK WSD_CONFIG PATH TMPDIR=$WORK/tmp XDG_STATE_HOME=$WORK/state
export LC_ALL=C.UTF-8 NO_COLOR=1
unset NOTIFY_SOCKET LISTEN_FDS LISTEN_PID WATCHDOG_USEC WATCHDOG_PID WSD_SOCKET XDG_RUNTIME_DIR

n_failed=0
n_daemons=0
started=() STARTED=$WORK/started # the file: those of subshells
beside_names=() beside_pids=()
exit_commands=()
WSD_PID='' WSD_LOG=''
WSD_PREFIX=() WSD_OPTIONS=(--workers 2)

# --- results ---------------------------------------------------------------------------------------------------------

ok() { # NAME
  printf 'ok %s\n' "$*"
}

fail() { # NAME WHY...
  local name=$1
  shift
  printf 'FAIL %s: %s\n' "$name" "${*:-failed}"
  n_failed=$((n_failed + 1))
}

skip() { # NAME WHY...
  local name=$1
  shift
  printf 'skip %s: %s\n' "$name" "${*:-not here}"
}

# The last lines of a file, so that nobody takes them for results.
show() { # FILE
  tail -n "${2:-40}" "$1" 2>/dev/null | sed 's/^/    | /'
}

# One case: `ok NAME` when the command (a function too) succeeds, else FAIL with what it said.
check() { # NAME COMMAND...
  local name=$1 status=0
  shift
  "$@" >"$WORK/check.out" 2>&1 </dev/null || status=$?
  if [ "$status" = 0 ]; then
    ok "$name"
  else
    fail "$name" "\`$*\` exited $status"
    show "$WORK/check.out"
    return 1
  fi
}

# Succeeds when the command exits with CODE. Its output passes through.
expect_exit() { # CODE COMMAND...
  local wanted=$1 status=0
  shift
  "$@" || status=$?
  [ "$status" = "$wanted" ] && return 0
  echo "exit $status where $wanted was expected: $*" >&2
  return 1
}

# Succeeds when the command exits 0 and says exactly TEXT on stdout (a last newline does not count).
expect_output() { # TEXT COMMAND...
  local wanted=$1 got status=0
  shift
  got=$("$@") || status=$?
  [ "$status" = 0 ] && [ "$got" = "$wanted" ] && return 0
  printf 'exit %s, said: %s\nwhere this was expected: %s\n' "$status" "$got" "$wanted" >&2
  return 1
}

# Succeeds when the command exits with CODE and says WORDS (a pattern of grep -E) on stderr. Its stdout is in $WORK/out,
# its stderr in $WORK/err, which is shown.
says() { # CODE WORDS COMMAND...
  local code=$1 words=$2 status=0
  shift 2
  expect_exit "$code" "$@" >"$WORK/out" 2>"$WORK/err" || status=1
  cat "$WORK/err"
  [ "$status" = 0 ] || return 1
  grep -qE -e "$words" "$WORK/err" || {
    echo "not there: $words"
    return 1
  }
}

# The same for an error as each of ours has to be: one line, which begins with the program's name, and no stdout.
refused() { # CODE WORDS COMMAND...
  says "$@" || return 1
  if [ "$(wc -l <"$WORK/err")" != 1 ] || ! grep -qE '^(wsctl|wsd): ' "$WORK/err" || [ -s "$WORK/out" ]; then
    echo "not one line of wsctl or wsd, or something on stdout"
    return 1
  fi
}

# Two texts are the same.
same() { # WANTED GOT
  [ "$1" = "$2" ] && return 0
  printf 'wanted:\n%s\ngot:\n%s\n' "$1" "$2"
  return 1
}

# wsd --check-config refuses a configuration, with WORDS (grep -E) behind the file's name.
bad_config() { # TEXT WORDS
  printf '%b' "$1" >"$WORK/bad.conf"
  refused 64 "^wsd: $WORK/bad.conf:$2" wsd --config "$WORK/bad.conf" --check-config
}

run_apart() { # DIRECTORY COMMAND...: in a subshell
  WORK=$1 WSD_CONFIG=$1/wsd.conf WSD_SOCKET=$1/wsd.sock WSD_PID='' started=() n_failed=0
  export WORK WSD_CONFIG WSD_SOCKET
  : >"$WSD_CONFIG"
  trap 'status=$?; kill_started "${started[@]}"; exit "$status"' EXIT
  shift
  "$@" && [ "$n_failed" = 0 ]
}

# A case that has to wait for seconds of the clock, beside others: in a subshell, with a WORK of its own (WSD_CONFIG and
# WSD_SOCKET in there), without a wsd; what it has started ends with it. gather tells how it went.
beside() { # NAME COMMAND...
  local name=$1 dir=$WORK/beside-${#beside_names[@]}
  shift
  mkdir "$dir"
  run_apart "$dir" "$@" >"$dir.out" 2>&1 </dev/null &
  note_started $!
  beside_names+=("$name") beside_pids+=("$!")
}

# Waits for all that run beside, and tells their results.
gather() {
  local i status
  for i in "${!beside_names[@]}"; do
    status=0
    wait "${beside_pids[i]}" || status=$?
    if [ "$status" = 0 ]; then
      ok "${beside_names[i]}"
    else
      fail "${beside_names[i]}" "it exited $status"
      show "$WORK/beside-$i.out"
    fi
  done
  beside_names=() beside_pids=()
  rm -f "$STARTED"
}

# --- waiting -----------------------------------------------------------------------------------------------------------

# Polls until the command succeeds; fails after 30 s (or -t SECONDS), longer under sanitizers. A wait that takes long polls
# less often, each 20 ms to 50 ms: a twentieth of what it took.
wait_until() { # [-t SECONDS] COMMAND...
  local limit=30 until pause from=${EPOCHREALTIME/[.,]/}
  if [ "$1" = -t ]; then
    limit=$2
    shift 2
  fi
  until=$((SECONDS + limit * TIME_SCALE + 1))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$until" ] || return 1
    pause=$(((${EPOCHREALTIME/[.,]/} - from) / 20))
    printf -v pause '0.%06d' $((pause < 20000 ? 20000 : pause > 50000 ? 50000 : pause))
    sleep "$pause"
  done
}

gone() { # PID
  ! kill -0 "$1" 2>/dev/null
}

is_stopped() { # PID: each of its threads
  ! sed 's/^.*) //' "/proc/$1"/task/*/stat 2>/dev/null | grep -qv '^[TZX]'
}

# kill -STOP returns before the process has stopped, which may do what it is asked next.
stop_process() { # PID
  kill -STOP "$1" && wait_until is_stopped "$1"
}

has_heeded() { # PID SIGNAL-NUMBER: it waits again, and the signal is no longer pending; what it does then, it has done
  awk -v bit="$2" '/^State:/ { sleeps = $2 == "S" } /^(SigPnd|ShdPnd):/ { n = length($2) - int((bit - 1) / 4)
    if (int((index("0123456789abcdef", substr($2, n, 1)) - 1) / 2 ^ ((bit - 1) % 4)) % 2) pending = 1 } END { exit !(sleeps && !pending) }' "/proc/$1/status"
}

# --- processes -----------------------------------------------------------------------------------------------------------

note_started() { # PID...
  local pid
  for pid; do
    identify "$pid"
    started+=("$IDENTITY")
    [ "$BASHPID" = "$$" ] || echo "$IDENTITY" >>"$STARTED"
  done
}
# IDENTITY is the process of that number, and no later one: numbers are used again, on a busy machine within minutes.
identify() { # PID
  local stat='' after_name
  IDENTITY=$1
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0 # it is gone
  read -ra after_name <<<"${stat##*) }"
  IDENTITY=$1:${after_name[19]} # and when it began
}
kill_started() { # IDENTITY...
  local was
  for was; do
    identify "${was%:*}"
    [[ $was != *:* ]] || [ "$IDENTITY" != "$was" ] || kill -KILL "${was%:*}" 2>/dev/null
  done
}

# Starts a command in the background; it is killed at the script's end. Its pid is in BACKGROUND_PID. It reads what is
# given to this call: without a redirection of its own, bash gives it /dev/null or not by what the shell did before.
background() { # COMMAND...
  "$@" <&0 &
  BACKGROUND_PID=$!
  note_started "$BACKGROUND_PID"
}

# Runs at the script's end, the last first.
on_exit() { # COMMAND...
  exit_commands=("$(printf '%q ' "$@")" "${exit_commands[@]}")
}

answers() { # PID SOCKET
  gone "$1" || "$WSCTL" --socket "$2" ping
}

# Starts wsd on $WSD_SOCKET with the options beside the usual ones; what it says is added to $WSD_LOG. Succeeds when it
# is ready. A prefix such as `strace -f` goes into the array WSD_PREFIX.
run_wsd() { # OPTION...
  "${WSD_PREFIX[@]}" "$WSD" --socket "$WSD_SOCKET" --config "$WSD_CONFIG" --executor "$EXECUTOR" \
    --spawner "$SPAWNER" --plugin-dir "$PLUGINS" "$@" >>"$WSD_LOG" 2>&1 </dev/null &
  WSD_PID=$!
  note_started "$WSD_PID"
  wait_until answers "$WSD_PID" "$WSD_SOCKET" && ! gone "$WSD_PID"
}

# A private wsd on a socket of its own, ready when this returns. Options are added to the usual ones:
#   start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS"
start_wsd() { # [OPTION...]
  local dir
  n_daemons=$((n_daemons + 1))
  dir=$WORK/wsd-$n_daemons
  mkdir "$dir"
  export WSD_SOCKET=$dir/wsd.sock
  WSD_LOG=$dir/log
  if ! run_wsd --state-dir "$dir/state" "$@"; then
    fail "start wsd" "wsd $* did not get ready"
    show "$WSD_LOG"
    return 1
  fi
}

# For scripts in which one wsd follows another: on the same $WSD_SOCKET, which the script has set, with the same store
# ($WSD_STORE, or $WORK/store) and log ($WORK/log), whatever became of the one before it. It has the test plugins, and
# two workers, or what else is in the array WSD_OPTIONS.
serve() {
  WSD_LOG=$WORK/log
  run_wsd --state-dir "${WSD_STORE:-$WORK/store}" --plugin-dir "$TEST_PLUGINS" "${WSD_OPTIONS[@]}"
}
serve_with() { # NAME=VALUE...: with that in its environment
  local WSD_PREFIX=(env "$@")
  serve
}

# kill -9, and returns when it is gone.
kill_wsd() {
  kill -KILL "$WSD_PID"
  wait "$WSD_PID" 2>/dev/null || :
}

# wsd's log has a line like this.
logged() { # PATTERN: of grep -E
  grep -qE -e "$1" "$WSD_LOG"
}

n_logged() { # PATTERN: in how many lines
  grep -cE -e "$1" "$WSD_LOG"
}

# SIGHUP, and succeeds when the configuration was read again since.
reload_config() {
  local before
  before=$(n_logged 'the configuration was read again')
  kill -HUP "$WSD_PID" && wait_until read_since "$before"
}
read_since() { # N
  [ "$(n_logged 'the configuration was read again')" -gt "$1" ]
}

# Those of our wsd.
n_descriptors() {
  local all=("/proc/$WSD_PID/fd"/*)
  echo ${#all[@]}
}

# What faults.so, preloaded with FAULTS_FILE=$WORK/faults, does from now on.
set_faults() { # 1: fail; 0: not
  printf '%s' "$1" | dd of="$WORK/faults" conv=notrunc status=none
}

# Gives a port of this machine that nobody listens at, below those that the kernel gives to whoever asks for any.
free_port() {
  local i port
  for ((i = 0; i < 20; i++)); do
    port=$((20000 + RANDOM % 12000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo "$port"
}

counter() { # NAME: one of wsd's
  wsctl --json stats | grep -o "\"$1\":[0-9]*" | grep -o '[0-9]*$'
}

# Succeeds when the command exits 0 and what it prints, NAME=COUNT and other words, has each of the words.
has_counts() { # WORDS COMMAND...
  local words=$1 said word
  shift
  said=$("$@") || {
    echo "exit $?: $said"
    return 1
  }
  echo "$said"
  for word in $words; do
    grep -qF " $word " <<<" ${said//$'\n'/ } " || {
      echo "not there: $word"
      return 1
    }
  done
}

counter_is() { # NAME VALUE
  [ "$(counter "$1")" = "$2" ]
}

counters_are_zero() { # NAME...
  local name
  for name in "$@"; do
    counter_is "$name" 0 || {
      echo "$name is $(counter "$name")"
      return 1
    }
  done
}

# Succeeds when nothing of a job, a result or a byte of anybody is left in wsd.
holds_nothing() { # [COUNTER...]: and these are zero, too
  counters_are_zero jobs_open jobs_queued jobs_handed_over results_kept results_being_read bytes_charged "$@"
}

job_has() { # ID PATTERN: what wsd says of the job
  wsctl --json status "$1" | grep -q -e "$2"
}

job_is() { # STATE ID
  job_has "$2" "\"state\":\"$1\""
}

n_jobs() { # STATE: of those that we may see
  wsctl --json list | grep -c "\"state\":\"$1\""
}

jobs_are() { # STATE N
  [ "$(n_jobs "$1")" = "$2" ]
}

some_job_is() { # STATE
  [ "$(n_jobs "$1")" -gt 0 ]
}

# kill -9 for the executor of our wsd; returns when wsd has counted that, and with it what was done.
kill_executor() {
  local deaths
  deaths=$(counter executors_died)
  pkill -KILL -P "$WSD_PID" || return 1
  wait_until another_died || return 1
  done_at_kill=$(counter jobs_succeeded)
}
another_died() {
  [ "$(counter executors_died)" -gt "$deaths" ]
}

# That many jobs have succeeded since kill_executor, or who has them run is gone.
moved_on() { # N PID
  [ "$(counter jobs_succeeded)" -ge $((${done_at_kill:-0} + $1)) ] || gone "$2"
}

# Waits for a process of ours and gives its exit status; 124 when it does not end in time (60 s).
wait_for_exit() { # PID
  wait_until -t 60 gone "$1" || return 124
  wait "$1"
}

# SIGTERM, then waits. Anything but exit 0 and a clean log is a failure. WSD_PID: which one, when there are several.
stop_wsd() {
  local status=0
  kill -TERM "$WSD_PID" 2>/dev/null
  wait_for_exit "$WSD_PID" || status=$?
  if [ "$status" != 0 ]; then
    [ "$status" != 124 ] || kill -KILL "$WSD_PID" 2>/dev/null
    fail "stop wsd" "exit status $status where 0 was expected"
    show "$WSD_LOG"
    return 1
  fi
  clean_log "$WSD_LOG"
}

# No sanitizer, assertion or crash spoke there.
clean_log() { # FILE
  if grep -qaE 'Sanitizer|runtime error:|Assertion .* failed' "$1"; then
    fail "clean log" "a sanitizer or an assertion spoke in wsd's log"
    grep -aE -A 30 'Sanitizer|runtime error:|Assertion .* failed' "$1" | head -60 | sed 's/^/    | /'
    return 1
  fi
}

cleanup() {
  local status=$? command
  trap - EXIT INT TERM HUP
  for command in ${exit_commands[@]+"${exit_commands[@]}"}; do
    eval "$command"
  done
  exec 2>/dev/null # bash would tell of each one that it sees killed
  [ ! -e "$STARTED" ] || mapfile -t -O "${#started[@]}" started <"$STARTED"
  kill_started ${started[@]+"${started[@]}"}
  wait
  rm -rf --one-file-system "$WORK"
  [ "$n_failed" = 0 ] || [ "$status" != 0 ] || status=1
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
