#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# protocol.sh: each numbered sentence of proto/PROTOCOL.md, held against wsd by a client that was written from that page alone
# (tests/support/clients/protocol.py).
. "$(dirname "$0")/../support/lib.sh"

P=$SRC/tests/support/clients/protocol.py

# Every number stands in PROTOCOL.md once, and has a case; and no case has a number that does not stand there.
numbers() {
  grep -o '\[P[0-9]*\]' "$SRC/proto/PROTOCOL.md" | tr -d '[]' | sort -V >"$WORK/said" || return 1
  uniq -d "$WORK/said" >"$WORK/twice"
  [ ! -s "$WORK/twice" ] || {
    echo "twice:"
    cat "$WORK/twice"
    return 1
  }
  python3 "$P" numbers | sort -V | diff "$WORK/said" -
}
check "each number of PROTOCOL.md has a case, and each case a number" numbers

started=()
WORK=$WORK timeout $((300 * TIME_SCALE)) python3 "$P" run >"$WORK/cases" 2>"$WORK/cases.err" || n_failed=$((n_failed + 1))
cat "$WORK/cases"
show "$WORK/cases.err"
for log in "$WORK"/protocol-*/log; do
  clean_log "$log"
done
