#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# again.sh: calls that libwsclient submits again when wsd has died (WSD_SUBMIT_AGAIN, WSD_SUBMIT_TWICE): each is told
# once, none runs twice that may not, and those that may all succeed.
. "$(dirname "$0")/../support/lib.sh"

D=$BUILD/tests/support/clients/direct-loop
KILLS=4
[ -z "${WSD_THOROUGH:-}" ] || KILLS=100

printf '[limits]\nquarantine-after = 1000\n' >"$WSD_CONFIG"
WSD_SOCKET=$WORK/wsd.sock
export WSD_SOCKET
serve || exit 1

ended_since() { # N
  [ "$(wsctl stats | awk '$1 == "jobs_succeeded" || $1 == "direct_calls" { n += $2 } END { print n + 0 }')" -gt "$1" ]
}
under_kills() { # WORDS OPTION...: wsd dies, again and again, and is away for a moment
  local words=$1 i load word
  shift
  rm -f "$WORK/enough"
  timeout $((120 * TIME_SCALE)) "$D" -u "$WORK/enough" "$@" >"$WORK/load" &
  load=$!
  for ((i = 0; i < KILLS; i++)); do
    wait_until ended_since 0 || return 1
    kill_wsd
    serve || return 1
  done
  wait_until ended_since 0 || return 1
  touch "$WORK/enough"
  wait $load || {
    cat "$WORK/load"
    return 1
  }
  cat "$WORK/load"
  for word in $words wrong=0 twice=0; do
    grep -q " $word " "$WORK/load" || return 1
  done
}
entered_once() { # each at most
  [ -s "$WORK/ledger" ] && [ -z "$(sort "$WORK/ledger" | uniq -d | head -3)" ]
}
entered_under_kills() { # WORDS OPTION...
  rm -f "$WORK/ledger"
  under_kills "$1" -L "$WORK/ledger" "${@:2}" ledger:once && entered_once
}

check "without either flag calls are lost, and some have not run" under_kills "errors=[1-9][0-9]*" -s direct:direct
check "what may run twice succeeds" under_kills "errors=0 interrupted=0" -s -G direct:again
check "its output, by callback, is told once" under_kills "lost=[0-9]*" -s -G -o direct:again
check "by the direct lane, too" under_kills "errors=0" -w -G direct:again
check "several in a slot" under_kills "errors=0" -w -r 64 -G direct:again
check "by a program that waits" under_kills "errors=0" -b -s -G direct:again
check "what may not run twice is lost only if it may have run" under_kills "unrun=0" -s -g direct:direct
check "and by the lane" under_kills "unrun=0" -w -r 64 -g direct:direct
check "and none runs twice" entered_under_kills "unrun=0" -s -a 8 -g
check "durable ones with a key are not lost" entered_under_kills "errors=0" -s -a 8 -g -k
stop_wsd
