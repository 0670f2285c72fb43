#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# blocking.sh: jobs that wait for something outside give their CPU to others: four times as many as there are workers run
# at the same time, and one more runs to its end beside them. They wait for a command, for input that comes late, for a
# reader of output who stands still.
. "$(dirname "$0")/../support/lib.sh"

N=8
BIG=20000000

of_each() { # COMMAND...: with 1 to N
  local i
  for ((i = 1; i <= N; i++)); do
    "$@" "$i" || return 1
  done
}

make_gate() {
  mkfifo "$WORK/gate.$1"
}

# Whoever reads the gate waits until it is opened.
open_gate() {
  : >"$WORK/gate.$1"
}

# Each job leaves its answer in out.N, complete once done.N is there.
start() { # SHELL-COMMAND N: in it $0 is N's gate
  rm -f "$WORK/done.$2"
  background sh -c "$1 >'$WORK/out.$2' 2>'$WORK/err.$2'; touch '$WORK/done.$2'" "$WORK/gate.$2"
}

is_done() {
  [ -e "$WORK/done.$1" ]
}

answer_is() { # TEXT N
  [ "$(cat "$WORK/out.$2")" = "$1" ]
}

run_at_once() { # SHELL-COMMAND
  of_each start "$1"
  wait_until jobs_are running "$N" && expect_output 6765 wsctl submit fib 20 && jobs_are running "$N"
}

end_with() { # TEXT
  of_each open_gate && wait_until of_each is_done && of_each answer_is "$1"
}

printf '[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
of_each make_gate
check "$N commands that wait on 2 workers run at once, and a job beside them ends" \
  run_at_once 'wsctl submit exec sh -c "cat $0; echo said"'
check "and end well" end_with said
check "$N jobs that wait for input" \
  run_at_once "(head -c 200000 /dev/zero; cat \$0) | wsctl submit --input - echo:stream | wc -c"
check "and end well with all of it" end_with 200000
check "$N jobs whose output nobody reads" run_at_once "wsctl submit bigoutput $BIG | (cat \$0; wc -c)"
check "and end well with all of it" end_with "$BIG"
stop_wsd
