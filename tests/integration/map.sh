#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# map.sh: items of `wsctl map` of any bytes and sizes, and what is left to wsd whole or not at all.
. "$(dirname "$0")/../support/lib.sh"

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
mkdir "$WORK/d"
cd "$WORK/d" || exit 1

stops_with() { # CODE WORDS COMMAND...: one line with the words; what came before it may have been done
  says "$@" && [ "$(wc -l <"$WORK/err")" = 1 ]
}

nul_in_a_line() {
  refused 64 'stdin:1: .*NUL.*--null' sh -c "printf 'a\0b\n' | wsctl map checksum" &&
    stops_with 64 'stdin:3: ' sh -c "printf 'a\nb\nc\0\nd\n' | wsctl map -j 1 echo" &&
    stops_with 64 'stdin:2: ' sh -c "printf 'a\n\0' | wsctl map echo" &&
    refused 64 '--null' wsctl map --null echo ::: a
}
ends_in_nul() {
  expect_output $'a\nb\nc' sh -c "printf 'a\0b\nc' | wsctl map -0 echo" &&
    expect_output $'a\n\nb' sh -c "printf 'a\0\0b\0' | wsctl map --null echo" &&
    expect_output '' sh -c "wsctl map -0 echo </dev/null" &&
    expect_output '<a>' sh -c "printf 'a\0' | wsctl map echo --null '<{}>'"
}
as_xargs() {
  local name
  for name in $'two\nlines' ' blank ' $'\xff' '{}' -- $'\\' "'\""; do echo "$name" >"./$name"; done
  [ "$(find . -type f -print0 | wsctl map -0 count -l | sort)" = "$(find . -type f -print0 | xargs -0 -n 1 wc -l | sort)" ] &&
    [ "$(find . -type f -print0 | wsctl map -0 checksum | sort)" = "$(find . -type f -print0 | xargs -0 sha256sum | sort)" ]
}
sizes() { # outputs that leave together, and by themselves
  awk 'BEGIN { for (i = 0; i < 1500; i++) { s = i; while (length(s) < i * 37 % 9000) s = s " " s; print s } }' >"$WORK/lines"
  wsctl map echo <"$WORK/lines" >"$WORK/out" && cmp "$WORK/lines" "$WORK/out"
}
in_turn() { # what is said of an item stands between the outputs of its neighbours
  local i
  echo x >x
  for ((i = 0; i < 1000; i++)); do echo x && echo missing; done >"$WORK/lines"
  expect_exit 1 wsctl --quiet map -k checksum <"$WORK/lines" >"$WORK/out" 2>&1
  { sha256sum x && grep -m1 '^wsctl: missing: ' "$WORK/out"; } >"$WORK/two" &&
    awk '{ two = two $0 "\n" } END { for (i = 0; i < 1000; i++) printf "%s", two }' "$WORK/two" | cmp - "$WORK/out"
}
check "a NUL in a line is an error that names the line" nul_in_a_line
check "--null: items that end in NUL" ends_in_nul
check "names with newlines work through" as_xargs
check "outputs of any size, in order" sizes
check "what is said of an item, in its turn" in_turn
stop_wsd

printf '[limits]\nmax-jobs-per-user = 20\n' >"$WSD_CONFIG"
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
# wsctl map would wait for ever for an item that was refused and is forgotten, after a first SIGTERM, too.
BOUNDED=(timeout --signal KILL $((60 * TIME_SCALE)))
batch_is() { # KEY VALUE
  wsctl --json status "$ID" | grep -q "\"$1\":$2[,}]"
}
taken_back() { # the id, and nothing that a second try would do twice
  expect_exit 75 "${BOUNDED[@]}" wsctl "$@" map --detach sleep:sleep ::: {600001..600100} >"$WORK/out" 2>"$WORK/err"
  local r=$?
  cat "$WORK/out" "$WORK/err"
  ID=$(grep -o '[0-9a-f]\{32\}' "$WORK/out")
  [ $r = 0 ] && [ "$(wc -l <"$WORK/out")" = 1 ] && [ ${#ID} = 32 ] && grep -q "wsctl status $ID" "$WORK/err" &&
    wait_until batch_is ended true && batch_is total 20 && batch_is failed 20 && [ -z "$(wsctl -q list --state queued,running)" ]
}
kept() {
  expect_exit 75 "${BOUNDED[@]}" wsctl map -k --detach sleep:sleep ::: {600001..600030} >"$WORK/out" 2>/dev/null && ID=$(cat "$WORK/out") && batch_is total 20 &&
    batch_is ended false && wsctl cancel "$ID"
}
first() { # before anything is submitted: so with a bad item, too
  refused 64 'stdin:1: ' sh -c "printf 'a\0b\n' | wsctl --quiet map echo" || return 1
  ID=$(printf '600001\n6\0\n' | "${BOUNDED[@]}" wsctl map --detach sleep:sleep 2>/dev/null)
  [ ${#ID} = 32 ] && wait_until batch_is ended true && [ -z "$(wsctl -q list --state queued,running)" ]
}
interrupted() {
  mkfifo items && exec 7<>items
  background sh -c 'exec env --default-signal=INT wsctl map --detach sleep:sleep <items >"$WORK/out"'
  echo 600001 >&7
  wait_until grep -q . "$WORK/out" && ID=$(cat "$WORK/out") && wait_until batch_is running 1 || return 1
  kill -INT "$BACKGROUND_PID"
  wait_for_exit "$BACKGROUND_PID"
  [ $? = 130 ] && exec 7>&- && wait_until batch_is ended true && batch_is failed 1
}
again() { # more than there is room for
  same "$(seq 300)" "$(seq 300 | "${BOUNDED[@]}" wsctl map echo)"
}
check "items that are refused for now are submitted again, in order" again
check "map --detach that is refused half way: its id, and what was accepted is cancelled" taken_back
check "the same with --json" taken_back --json
check "with --keep-going it goes on" kept
check "an item that is none, half way" first
check "map --detach, interrupted" interrupted
stop_wsd
