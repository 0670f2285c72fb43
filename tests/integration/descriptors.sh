#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# descriptors.sh: each process that wsd starts has the descriptors that the table in tests/faults.md gives it, and no other; and
# what a job does to its stdout and stderr does not harm wsd's log.
# shellcheck disable=SC2119,SC2086 # words of their own
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

# --- the table ----------------------------------------------------------------------------------------------------------------

kind() { # PATH: what a descriptor is
  case $1 in
    "$WSD_LOG") echo "wsd's log" ;;
    /dev/null) echo /dev/null ;;
    /memfd:*) echo memfd ;;
    pipe:* | socket:*) echo "${1%%:*}" ;;
    anon_inode:*) tr -d '[]' <<<"${1#anon_inode:}" ;;
    *) echo file ;;
  esac
}
note() { # PROGRAM FD PATH
  printf '%s|%s|%s\n' "$1" "$2" "$(kind "$3")" >>"$WORK/seen"
}
note_process() { # PROGRAM PID...
  local pid fd program=$1
  shift
  [ $# -gt 0 ] || return 1
  for pid in "$@"; do
    for fd in "/proc/$pid/fd"/*; do note "$program" "${fd##*/}" "$(readlink "$fd")"; done
  done
}
rows() { # of the table: PROGRAM|DESCRIPTOR|KIND, one descriptor each
  sed -n '/^## Descriptors, by program/,/^## Inherited/p' "$SRC/tests/faults.md" | awk -F ' *[|] *' '$2 != "program" && $2 !~ /^-|^$/ && NF > 4 {
        n = split($3, fds, ", *"); for (i = 1; i <= n; i++) print $2 "|" fds[i] "|" $4 }'
}
as_the_table() {
  local program fd is
  rows >"$WORK/rows"
  [ "$(wc -l <"$WORK/rows")" -ge 40 ] || {
    echo "the table is not read"
    return 1
  }
  : >"$WORK/used"
  while IFS='|' read -r program fd is; do
    # wsd's stdin is /dev/null here
    grep -qxF "$program|$fd|$is" "$WORK/rows" && {
      echo "$program|$fd|$is" >>"$WORK/used"
      continue
    }
    [ "$is" = /dev/null ] && grep -qxF "$program|$fd|wsd's stdin" "$WORK/rows" && {
      echo "$program|$fd|wsd's stdin" >>"$WORK/used"
      continue
    }
    grep -qxF "$program|any|$is" "$WORK/rows" && {
      echo "$program|any|$is" >>"$WORK/used"
      continue
    }
    echo "not in the table: $program $fd: $is"
  done < <(sort -u "$WORK/seen") >"$WORK/wrong"
  sort -u "$WORK/used" | comm -13 - <(sort -u "$WORK/rows") | sed 's/^/in the table, and not seen: /' >>"$WORK/wrong"
  cat "$WORK/wrong"
  [ ! -s "$WORK/wrong" ]
}

# --- the processes ------------------------------------------------------------------------------------------------------------

commands_run() { # N
  [ "$(pgrep -fxc 'sleep 31\.4159')" = "$1" ]
}
executors() { # PID: of wsd or wsd-spawn
  pgrep -P "$1" -x wsd-executor
}
look_at() { # PARENT-PID: of executors
  local parent=$1 reaper keepers
  wsctl submit fib 5 && wsctl submit --detach exec sleep 31.4159 && wsctl submit --detach exec sleep 31.4159 && wait_until commands_run 2 || return 1
  # shellcheck disable=SC2046 # some pids
  note_process executor $(executors "$parent") && reaper=$(pgrep -P "$(executors "$parent")" -x wsd-reaper) &&
    note_process reaper "$reaper" && keepers=$(pgrep -P "$reaper" -x wsd-reaper) && note_process keeper $keepers &&
    note_process command $(pgrep -fx 'sleep 31\.4159')
}
only_wsd_reads() { # EXECUTOR-PID: the other end of its stdout and stderr
  local end holders
  end=$(readlink "/proc/$1/fd/2")
  holders=$(find /proc/[0-9]*/fd -lname "${end/[/\\[}" 2>/dev/null | cut -d/ -f3 | sort -nu | tr '\n' ' ')
  echo "$end: $holders"
  [ "$end" = "$(readlink "/proc/$1/fd/1")" ] && [ "$holders" = "$(printf '%s\n' "$1" "$WSD_PID" | sort -n | tr '\n' ' ')" ]
}
starts() {
  local line
  EXECUTOR=$BUILD/tests/support/shims/liar start_wsd --plugin-dir "$WORK/descriptors" || return 1
  wsctl submit honest && wait_until grep -q 'descriptor 7' "$WSD_LOG" || return 1
  while read -r line; do
    # shellcheck disable=SC2086 # two words
    note starts $line
  done < <(sed -n 's/^wsd: executor [0-9]*: descriptor //p' "$WSD_LOG")
  stop_wsd
}

mkdir "$WORK/descriptors"
: >"$WORK/seen"
check "an executor at its start" starts
printf '[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"
start_wsd --workers 2 || exit 1
check "executor, reaper and commands of a user's own wsd" look_at "$WSD_PID"
check "what it writes only wsd reads" only_wsd_reads "$(executors "$WSD_PID")"
wsctl cancel --all >/dev/null
stop_wsd

# --- the log -----------------------------------------------------------------------------------------------------------------

cp "$TEST_PLUGINS/hostile.so" "$WORK/descriptors"
start_wsd --workers 2 --plugin-dir "$WORK/descriptors" || exit 1
log_holds() { # 10 MB of lines, some of which look like wsd's own; then both are cut to nothing
  local before
  wsctl submit fib 5 && before=$(head -n 1 "$WSD_LOG") && wsctl submit hostile:log 10000000 >"$WORK/cut" && wsctl submit fib 5 || return 1
  cat "$WORK/cut"
  [ "$(cat "$WORK/cut")" = $'1 refused\n2 refused' ] && [ "$(head -n 1 "$WSD_LOG")" = "$before" ] && [ -n "$before" ] || return 1
  ! grep -av '^wsd: ' "$WSD_LOG" && ! grep -a '^wsd: forged' "$WSD_LOG" && grep -q '^wsd: executor [0-9]*: wsd: forged\\x1b\[2J' "$WSD_LOG" &&
    [ "$(wc -c <"$WSD_LOG")" -lt 100000 ]
}
if [[ ${WSD_SANITIZE:-} == *address* || ${WSD_SANITIZE:-} == *thread* ]]; then
  skip "lines that a job forges, 10 MB of them, and a log that it cuts" "the limit is not for sanitizers"
else
  check "lines that a job forges, 10 MB of them, and a log that it cuts" log_holds
fi
stop_wsd

# --- through wsd-spawn -----------------------------------------------------------------------------------------------------------

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  install_for_all
  printf '[daemon]\nsystem = yes\n[executor]\nuser-ids = yes\nfirst-user-id = 1000\n[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"
  chmod 644 "$WSD_CONFIG"
  start_wsd --workers 2 || exit 1
  chmod 755 "$(dirname "$WSD_SOCKET")"
  chmod 666 "$WSD_SOCKET"
  through_spawner() {
    # shellcheck disable=SC2046 # some pids
    as $ALICE "$CTL" submit fib 5 && note_process executor $(executors "$(pgrep -P "$WSD_PID" -x wsd-spawn)") &&
      note_process wsd-spawn $(pgrep -P "$WSD_PID" -x wsd-spawn)
  }
  check "wsd-spawn, and what it starts under the uid of a user" through_spawner
  check "what that writes only wsd reads" only_wsd_reads "$(executors "$(pgrep -P "$WSD_PID" -x wsd-spawn)")"
  stop_wsd
  check "each descriptor is in the table of tests/faults.md, and each row was seen" as_the_table
else
  skip "each descriptor is in the table of tests/faults.md" "wsd-spawn needs root"
fi
