#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# sandbox.sh: the sandbox of executors by configuration: what is denied beside, what happens where a part of it cannot be
# had or does not hold, core sizes, and the memory limit.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/inject.sh"

start() { # CONFIGURATION: a wsd with it
  printf '%b' "$1" >"$WSD_CONFIG"
  start_wsd --plugin-dir "$TEST_PLUGINS"
}
stop_here() {
  stop_wsd
  WSD_PREFIX=()
}
status_of_executor() { # FIELD
  sed -n "s/^$1:[[:space:]]*//p" "/proc/$(wsctl submit hostile:whoami)/status"
}

# --- what wsd.conf may say -----------------------------------------------------------------------------------------------

config_lacks() { # TEXT WORDS...
  local status=0 word
  printf '%b' "$1" >"$WSD_CONFIG"
  wsd --config "$WSD_CONFIG" --check-config >"$WORK/said" 2>&1 || status=$?
  cat "$WORK/said"
  [ "$status" = 64 ] && [ "$(wc -l <"$WORK/said")" = 1 ] || return 1
  shift
  for word in "$WSD_CONFIG:" "$@"; do grep -qF "$word" "$WORK/said" || return 1; done
}
check "an unknown system call is refused with file and line" \
  config_lacks '[sandbox]\n\ndeny = socket conect\n' ':3: deny: conect: there is no such system call'
check "so is one that executors need" config_lacks '[sandbox]\ndeny = futex\n' ':2: deny: futex: executors themselves'
check "so is a directory that is none" config_lacks '[sandbox]\nwritable = tmp\n' ':2: writable = tmp: none, or absolute'
printed() {
  printf '[sandbox]\ndeny = socket connect\ndeny = times\nwritable = /var/tmp\nrequired = no\n[executor]\ncore-size = 2M\n[limits]\nexecutor-memory = 64M\n' \
    >"$WSD_CONFIG"
  wsd --config "$WSD_CONFIG" --print-config >"$WORK/printed" || return 1
  cat "$WORK/printed"
  grep -qx 'deny = socket connect times' "$WORK/printed" && grep -qx 'writable = /var/tmp' "$WORK/printed" &&
    grep -qx 'required = no' "$WORK/printed" && grep -qx 'core-size = 2097152' "$WORK/printed" &&
    grep -qx 'executor-memory = 67108864' "$WORK/printed" &&
    wsd --config "$WORK/printed" --check-config
}
check "what is in force is printed, and can be read again" printed

# --- what is denied beside -----------------------------------------------------------------------------------------------

start '' || exit 1
check "by default a plugin may use the network" expect_output $'socket done\ntimes done' wsctl submit hostile:network
[ "$(id -u)" != 0 ] || check "what a unit forbids is done without one" expect_output 5 sh -c "wsctl submit hostile:unit | grep -c ' done$'"
check "an executor leaves no core" expect_output 0 sh -c \
  "sed -n 's/^Max core file size  *\\([^ ]*\\).*/\\1/p' /proc/$(wsctl submit hostile:whoami)/limits"
stop_here
start '[sandbox]\ndeny = socket connect\ndeny = times\n' || exit 1
check "what is denied is refused" expect_output $'socket refused\ntimes refused' wsctl submit hostile:network
check "and the rest goes on" expect_output 6765 wsctl submit fib 20
stop_here
if [ "$(ulimit -H -c)" = unlimited ]; then
  start '[executor]\ncore-size = 1M\n' || exit 1
  check "a core size by configuration" expect_output 1048576 sh -c \
    "sed -n 's/^Max core file size  *\\([^ ]*\\).*/\\1/p' /proc/$(wsctl submit hostile:whoami)/limits"
  stop_here
  # Where the kernel writes it into the executor's working directory.
  if [ "$(cat /proc/sys/kernel/core_pattern)" = core ] && [ -w / ] && [ ! -e /core ] && command -v readelf >/dev/null; then
    on_exit rm -f /core
    start '[executor]\ncore-size = unlimited\n' || exit 1
    check "a crash is told" expect_exit 70 wsctl submit crash:segv
    written() {
      readelf -n /core >"$WORK/notes" && grep -q SIGINFO "$WORK/notes" && [ -z "$(pgrep -P "$WSD_PID")" ]
    }
    check "and leaves a core" wait_until written
    stop_here
  else
    skip "a crash leaves a core" "the kernel puts it elsewhere"
  fi
fi

# --- parts that cannot be had --------------------------------------------------------------------------------------------

refuses() { # WORDS TIMES: so often an executor has said so, one for each job
  local status=0
  wsctl submit fib 20 >"$WORK/out" 2>"$WORK/err" || status=$?
  cat "$WORK/out" "$WORK/err" "$WSD_LOG"
  [ "$status" = 77 ] && [ ! -s "$WORK/out" ] && grep -qF "$1" "$WORK/err" && grep -qF '[sandbox]' "$WORK/err" &&
    [ "$(grep -cF "is not confined as it should be: $1" "$WSD_LOG")" = "$2" ]
}
goes_on() { # WORDS
  expect_output 6765 wsctl submit fib 20 && grep -F "$1" "$WSD_LOG" && grep -F 'required = no' "$WSD_LOG"
}
# The first eight calls of seccomp() are libseccomp asking what the kernel can.
if can_inject; then
  while IFS='|' read -r what injected words; do
    inject "$injected"
    start '' || exit 1
    check "$what: no job runs, and it is said why" refuses "$words" 1
    check "$what: and again, for the next one" refuses "$words" 2
    stop_traced
    inject "$injected"
    start '[sandbox]\nrequired = no\n' || exit 1
    check "$what: unless the configuration says otherwise" goes_on "$words"
    stop_traced
  done <<'EOT'
capabilities stay|capset:error=EPERM|capabilities: Operation not permitted
capabilities stay, and the kernel says they went|capset:retval=0|capabilities: some are still there
a filter that cannot be loaded|seccomp:error=ENOMEM:when=9+|seccomp: 
a filter that is not in force|seccomp:retval=0:when=9+|seccomp: the filter is not in force
Landlock that fails|landlock_restrict_self:error=E2BIG|Landlock: Argument list too long
Landlock that is not in force|landlock_restrict_self:retval=0|signals: are not kept inside
EOT
  inject landlock_create_ruleset:error=ENOSYS
  start '' || exit 1
  no_landlock() {
    expect_output 6765 wsctl submit fib 20 && kill -KILL "$(wsctl submit hostile:whoami)" &&
      expect_output 6765 wsctl submit fib 20 && cat "$WSD_LOG" && [ "$(grep -c 'no Landlock' "$WSD_LOG")" = 1 ]
  }
  check "a kernel without Landlock is told of once, and no refusal" no_landlock
  stop_traced
else
  skip "parts that cannot be had" "needs root and strace, and no sanitizer"
fi

# --- memory --------------------------------------------------------------------------------------------------------------

if [ -n "${WSD_SANITIZE:-}" ]; then
  skip "the memory limit" "a sanitizer's allocator ends the process instead of returning NULL"
  exit
fi
start '[limits]\nexecutor-memory = 64M\n[plugin exec]\nenabled = yes\n' || exit 1
ends() { # CODE WORDS COMMAND...
  local code=$1 words=$2
  shift 2
  expect_exit "$code" "$@" >"$WORK/out" 2>"$WORK/err" || {
    cat "$WORK/err"
    return 1
  }
  cat "$WORK/err"
  grep -qE "$words" "$WORK/err"
}
executor=$(wsctl submit hostile:whoami)
# what malloc() has by itself, and the job's own, are of it
check "a plugin that looks at malloc() ends with its own error" ends 3 'no more memory after (5[0-9]|6[0-4]) MiB' \
  wsctl submit hostile:eat
check "its executor lives" expect_output "$executor" wsctl submit hostile:whoami
LIMIT='perhaps for want of memory: \[limits\] executor-memory in wsd.conf is 64 MiB'
check "one that does not crashes, and the limit is named" ends 70 "Segmentation fault at address 0x0; $LIMIT" \
  wsctl submit hostile:gorge
check "one that aborts too" ends 70 "Aborted; $LIMIT" wsctl submit hostile:burst
check "wsd goes on" expect_output 6765 wsctl submit fib 20
other_crash() { # a fault that has nothing to do with it
  ends 70 'Segmentation fault at address 0x1238' wsctl submit crash:segv && ! grep -q memory "$WORK/err"
}
check "a fault elsewhere is not blamed on it" other_crash
# What grep finds, or an error: never a part of it with exit 0, where the C library's regexec() runs out of memory.
as_grep() { # [-i] PATTERN FILE
  local status=0
  LC_ALL=C grep -E -n "$@" >"$WORK/want"
  wsctl submit search "$@" >"$WORK/out" 2>"$WORK/err" || status=$?
  cat "$WORK/err"
  echo "exit $status, $(wc -l <"$WORK/out") of $(wc -l <"$WORK/want") lines"
  if [ "$status" = 0 ]; then
    cmp "$WORK/want" "$WORK/out"
  else
    [ -s "$WORK/err" ] && [ "$status" -gt 1 ]
  fi
}
awk 'BEGIN { srand(1); for (i = 0; i < 1000; i++) {
  line = ""
  for (j = 0; j < 400; j++) line = line (rand() < 0.5 ? "a" : "b")
  print line (i % 2 ? "c" : "d") } }' >"$WORK/ab"
words=$(awk 'BEGIN { srand(2); for (i = 0; i < 500; i++) {
  word = ""
  for (j = 0; j < 8; j++) word = word sprintf("%c", 97 + int(rand() * 26))
  printf "%s%s", i ? "|" : "", word } }')
tr '|' '\n' <<<"$words" | awk '{ print toupper($0); print $0 "s"; print substr($0, 2) }' >"$WORK/words"
check "search with a large automaton finds all or says that it does not" as_grep '^(a|b)*a(a|b){14}c' "$WORK/ab"
check "and with 500 alternatives, case folded" as_grep -i "$words" "$WORK/words"
killed_by_hand() {
  local status=0
  background wsctl submit sleep 600000
  wait_until sh -c "wsctl --json list | grep -q '\"running\"'" || return 1
  kill -KILL "$(pgrep -P "$WSD_PID" -n)"
  wait_until grep -q 'Killed, by hand or for want of memory' "$WSD_LOG"
}
check "an executor that is killed may have had too much" killed_by_hand
stop_here
start '' || exit 1
check "without a limit nothing is blamed on it" ends 70 'Aborted$' wsctl submit crash:abort
stop_here
start '[plugin hostile]\nisolation = own\nexecutor-memory = 64M\nworkers = 1\n' || exit 1
LIMIT='perhaps for want of memory: \[plugin hostile\] executor-memory in wsd.conf is 64 MiB'
own_limits() {
  expect_output 6765 wsctl submit fib 20 && # beside it, with what all have
    ends 3 'no more memory after (5[0-9]|6[0-4]) MiB' wsctl submit hostile:eat &&
    ends 70 "Aborted; $LIMIT" wsctl submit hostile:burst && ends 70 'Aborted$' wsctl submit crash:abort
}
check "a plugin with an executor of its own has its own memory limit" own_limits
own_workers() {
  expect_output 6765 wsctl submit fib 20 && wsctl submit hostile:whoami >/dev/null &&
    wsctl --json workers >"$WORK/workers" && cat "$WORK/workers" && grep -c '"kind":"worker"' "$WORK/workers" | grep -qx 3
}
check "and its own number of workers" own_workers
stop_here
