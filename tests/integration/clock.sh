#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2015,SC2016 # `A && B || { say; return 1; }` is meant; what is quoted is for the inner shell
#
# clock.sh: the clock is set, or the machine has slept, while jobs and schedules wait: spans are spans, and times are times of
# the clock as it is. wsd runs on support/shims/clocks.c, which sets its clocks and nobody else's.
. "$(dirname "$0")/../support/lib.sh"

if [[ ${WSD_SANITIZE:-} == address* ]]; then
  skip "clocks that are set" "a sanitizer wants to be first in the process"
  exit 0
fi
export WSD_SOCKET=$WORK/wsd.sock
clocks() { # REALTIME BOOTTIME: seconds ahead of the real ones
  python3 -c 'import struct, sys; open(sys.argv[1], "r+b").write(struct.pack("<qq", int(sys.argv[2]), int(sys.argv[3])))' "$WORK/clocks" "$1" "$2"
}
head -c 16 /dev/zero >"$WORK/clocks"
start() {
  serve_with LD_PRELOAD="$BUILD/tests/support/shims/clocks.so" CLOCKS_FILE="$WORK/clocks"
}
start || exit 1

left() { # ID: seconds until it is due
  wsctl --json status "$1" | sed 's/.*"due_usec":\([0-9]*\).*/\1/' | { read -r usec && echo $((usec / 1000000)); }
}
next() { # NAME: seconds since the epoch
  wsctl --json schedule list | grep "\"name\":\"$1\"" | sed 's/.*"next_usec":\([0-9]*\).*/\1/' | { read -r usec && echo $((usec / 1000000)); }
}
runs() { # NAME
  wsctl --json schedule list | grep "\"name\":\"$1\"" | sed 's/.*"runs":\([0-9]*\).*/\1/'
}
within() { # N LOW HIGH
  if [ "$1" -lt "$2" ] || [ "$1" -gt "$3" ]; then
    echo "$1 where $2 to $3 was expected"
    return 1
  fi
}
in_hours() { # N: as --at has it
  date -u +%Y-%m-%dT%H:%M:%SZ --date="$1 hours"
}

forward() { # a time comes sooner, a span does not
  local at span
  at=$(wsctl submit --detach --at "$(in_hours 2)" echo at) && span=$(wsctl submit --detach --delay 2h echo span) || return 1
  clocks 10800 0
  expect_output at wsctl await "$at" && job_is delayed "$span" && within "$(left "$span")" 7100 7200 || return 1
  clocks 0 0
  wsctl cancel "$span"
}
back() { # it comes later
  local at span
  at=$(wsctl submit --detach --at "$(in_hours 2)" echo at) && span=$(wsctl submit --detach --delay 2h echo span) || return 1
  clocks -86400 0
  within "$(left "$at")" 93500 93601 && within "$(left "$span")" 7100 7200 || return 1
  clocks 0 0
  within "$(left "$at")" 7100 7200 && wsctl cancel "$at" "$span"
}
slept() { # both clocks have gone on, without CLOCK_MONOTONIC
  local at span
  at=$(wsctl submit --detach --at "$(in_hours 2)" echo at) && span=$(wsctl submit --detach --delay 2h echo span) || return 1
  clocks 7300 7300
  expect_output at wsctl await "$at" && expect_output span wsctl await "$span" || return 1
  clocks 0 0
}
schedule_back() { # its next time is one of the new day
  local before
  wsctl schedule add daily --on '*-*-* 12:00:00 UTC' fib 5 && before=$(next daily) || return 1
  clocks -864000 0
  wait_until sh -c "[ \$(wsctl --json schedule list | sed 's/.*\"next_usec\":\([0-9]*\)......,.*/\1/') = $((before - 864000)) ]" ||
    {
      next daily
      return 1
    }
  [ "$(runs daily)" = 0 ] && wsctl schedule remove daily || return 1
  clocks 0 0
}
schedule_forward() { # over ten of its times: one run, and the next is ahead
  local before
  wsctl schedule add daily --on '*-*-* 12:00:00 UTC' fib 5 && before=$(next daily) || return 1
  clocks 864000 0
  wait_until sh -c "[ \$(wsctl --json schedule list | sed 's/.*\"next_usec\":\([0-9]*\)......,.*/\1/') = $((before + 864000)) ]" ||
    {
      wsctl --json schedule list
      return 1
    }
  # a run counts when it has ended; no other one comes, since the next time lies ahead
  wait_until sh -c "wsctl --json schedule list | grep -q '\"runs\":1,.*\"last\":\"succeeded\"'" || {
    wsctl --json schedule list
    return 1
  }
  clocks 0 0
  wsctl schedule remove daily
}
a_little_back() { # a run does not come again where the clock is put right by seconds
  local runs
  wsctl schedule add often --on '*:*:*' fib 5 && wait_until sh -c 'wsctl --json schedule list | grep -q "\"runs\":[1-9]"' || return 1
  clocks -30 0
  wait_until sh -c "[ \$(date +%s%N) -gt $(($(date +%s%N) + 1500000000)) ]"
  runs=$(runs often)
  wait_until sh -c "[ \$(date +%s%N) -gt $(($(date +%s%N) + 2500000000)) ]"
  [ "$(runs often)" = "$runs" ] || {
    wsctl --json schedule list
    return 1
  }
  clocks 0 0
  wait_until sh -c "[ \$(wsctl --json schedule list | sed 's/.*\"runs\":\([0-9]*\).*/\1/') -gt $runs ]" && wsctl schedule remove often
}

repeated() { # 02:30 comes at 00:30 and at 01:30 of UTC, and runs at the first: not again where the clock is set, or wsd starts anew
  local first after
  first=$(date -u +%s --date='2027-10-31T00:30:00Z') && after=$(date -u +%s --date='2027-11-01T01:30:00Z') || return 1
  clocks $((first - 60 - $(date +%s))) 0
  wsctl schedule add night --on '02:30 Europe/Berlin' fib 5 && clocks $((first - $(date +%s))) 0 && wait_until eval '[ "$(runs night)" = 1 ]' || return 1
  [ "$(next night)" = "$after" ] || {
    next night
    return 1
  }
  clocks $((first + 1800 + 600 - $(date +%s))) 0
  wait_until eval '[ "$(next night)" = '"$after"' ]' || {
    next night
    return 1
  }
  wsctl ping >/dev/null && [ "$(next night)" = "$after" ] || {
    next night
    return 1
  }
  kill -TERM "$WSD_PID" && wait_for_exit "$WSD_PID" && start || return 1
  [ "$(next night)" = "$after" ] && [ "$(runs night)" = 1 ] || {
    wsctl --json schedule list
    return 1
  }
  clocks $((first + 3600 + 5 - $(date +%s))) 0
  wsctl schedule add later --on '*:*:*' fib 5 && wait_until eval '[ "$(runs later)" -gt 1 ]' || return 1
  [ "$(runs night)" = 1 ] || {
    wsctl --json schedule list
    return 1
  }
  clocks 0 0
  wsctl schedule remove later && wsctl schedule remove night
}

check "the clock is set forward: a time comes, a span does not" forward
check "back: a time comes later, a span does not" back
check "the machine has slept: both come" slept
check "set back, a schedule has its next time by the new clock" schedule_back
check "set forward over many of its times, it runs once" schedule_forward
check "set back a little, no run comes twice" a_little_back
check "in the night when a clock is turned back, a time that has run does not run again" repeated
kill -TERM "$WSD_PID"
check "wsd ends in order" wait_for_exit "$WSD_PID"
clean_log "$WSD_LOG"
