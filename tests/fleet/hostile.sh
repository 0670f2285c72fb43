#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# hostile.sh: messages that are made by hand hurt nobody: huge ones, cut ones, of another version, for another plugin than
# their subject says, replayed, under a known id. A job of high priority does not wait behind others.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/fleet.sh"

here() { on here "$@"; }
start_nats one && "$FLEET" -n "$NATS_URL" --init >"$WORK/made" && start_node here --no-in && start_node there --no-out && start_node other --no-out || exit 1
leave() { # NAME...
  local n
  for n in "$@"; do kill "${NODE_FLEET[$n]}" && wait_for_exit "${NODE_FLEET[$n]}" || return 1; done
}
in_stream() { "$FLEET" -n "$NATS_URL" --status | grep -qE "^jobs +$1 "; } # N
parts() { python3 "$SRC/tests/support/parts.py" "${NATS_URL##*:}" "$@"; }
LETTER=$WORK/letter
ledger() { cat "$WORK/ledger" 2>/dev/null; }

# --- one job, many messages -----------------------------------------------------------------------------------------------

ten_times() { # FUNCTION: the message of a job comes ten times more under its id, by connections of their own
  local i
  rm -f "$WORK/ledger"
  leave there other && id=$(here wsctl submit --detach "@fleet/ledger:$1" "$WORK/ledger" ran) && wait_until in_stream 1 || return 1
  parts last 'wsd.job.00.norm.ledger' >"$LETTER"
  for i in 1 2 3 4 5 6 7 8 9 10; do parts publish wsd.job.00.norm.ledger "$id-1" <"$LETTER" || return 1; done
  in_stream 1 && start_node_fleet there --no-out && start_node_fleet other --no-out && expect_exit 0 here wsctl await "$id" && wait_until in_stream 0 && same ran "$(ledger)"
}
check "the same id ten times from other machines: one run" ten_times again
taken() { echo $(($(fleet_counter there in taken) + $(fleet_counter other in taken))); }
took_more() { [ "$(taken)" -gt "$1" ]; } # THAN
replayed() {                             # TIMES under no id
  local i before
  before=$(taken)
  for ((i = 0; i < $1; i++)); do parts publish wsd.job.00.norm.ledger <"$LETTER" || return 1; done
  wait_until took_more $((before + $1 - 1)) && wait_until in_stream 0
}
check "of one that may not run twice, too" ten_times once
once() { replayed 3 && same ran "$(ledger)"; }
check "its message is replayed when it has ended: it does not run" once
second() { [ "$(fleet_counter here out held)" = 0 ] && expect_output x here wsctl submit @fleet/echo x; }
check "the sender minds no end that it does not wait for" second

# --- what is no machine ---------------------------------------------------------------------------------------------------

roll() { # BODY...: these answer when it is asked which machines there are, beside those that are there
  local answerer
  : >"$WORK/answerer"
  (IFS=$'\n' && echo "$*") | parts answer wsd.roll >"$WORK/answerer" &
  answerer=$!
  note_started "$answerer"
  wait_until grep -q ready "$WORK/answerer" && "$FLEET" -n "$NATS_URL" --status --json >"$WORK/status" && wait "$answerer"
}
no_machine() { wait_until shows_no_machine; } # all that are answer, if none is too busy
shows_no_machine() {
  roll '{' '[]' '{"node":"x"}' '{"node":"\u001b[2J","version":"1","leaving":false}' '{"node":"y","version":"\"<b>"}' \
    '{"node":"z","version":"1","takes":["a\nb"]}' '{"node":"w","version":"1","takes":["<script>"]}' "{\"node\":\"$(head -c 97 /dev/zero | tr '\0' n)\",\"version\":\"1\"}" \
    "{\"node\":\"v\",\"version\":\"1\",\"takes\":[$(printf '"p",%.0s' {1..32})\"p\"]}" "$(head -c 900000 /dev/zero | tr '\0' '[')" '' '{"node":"u","version":"1"}' \
    '{"node":"t","version":"1","held":"<b>","most":-1,"leaving":"no","more":"\u009b31m"}' &&
    ! grep -qE '<|more|31m|-1' "$WORK/status" && [ 'here other t there u v w z' = "$(python3 -c 'import json, sys; print(*[n["node"] for n in json.load(open(sys.argv[1]))["nodes"]])' "$WORK/status")" ]
}
check "answers that are none when it is asked which machines there are" no_machine
asked_elsewhere() { # a question whose answer would go to another subject has none
  same no "$(timeout 2 python3 "$SRC/tests/support/parts.py" "${NATS_URL##*:}" read wsd.roll wsd.cancel.x </dev/null || echo no)"
}
check "a question with another way back has no answer" asked_elsewhere

# --- what is no job -------------------------------------------------------------------------------------------------------

refused() { grep -hc 'is no job: ' "$WORK/node-there/fleet.log" "$WORK/node-other/fleet.log" | awk '{ n += $1 } END { print n }'; }
is_refused_more() { [ "$(refused)" -gt "$1" ]; }
no_job() { # WORDS [SUBJECT [ID]]: the message on standard input is refused by a node, which says why, and is away
  local before
  cat >"$WORK/message"
  before=$(refused)
  parts publish "${2:-wsd.job.00.norm.ledger}" "${@:3}" <"$WORK/message" && wait_until is_refused_more "$before" && wait_until in_stream 0 &&
    grep -qE "is no job: $1" "$WORK/node-there/fleet.log" "$WORK/node-other/fleet.log"
}
huge() { head -c 1000000 /dev/urandom | no_job ''; }
check "a megabyte of noise" huge
nothing() { no_job 'a message that ends in the middle' </dev/null; }
check "nothing" nothing
status() { # in a header, as in the server's word that no job has come
  no_job 'a message that ends in the middle' wsd.job.00.norm.ledger $'status\r\nStatus: 404' </dev/null
}
check "nothing, with a server's status" status
size=$(wc -c <"$LETTER")
for n in 1 15 16 $((size / 2)) $((size - 1)); do
  cut_at() { head -c "$1" "$LETTER" | no_job 'a message that ends in the middle'; }
  check "a job that is cut behind $n bytes" cut_at "$n"
done
longer() { cat "$LETTER" "$LETTER" | no_job 'an input of another size'; }
check "two jobs in one message" longer
version() { # the second byte
  head -c 1 "$LETTER" >"$WORK/newer" && printf '\377' >>"$WORK/newer" && tail -c +3 "$LETTER" >>"$WORK/newer" && no_job '.*version' <"$WORK/newer"
}
check "a job of another version" version
other_plugin() { no_job 'it is for another plugin than its subject says' wsd.job.00.norm.echo <"$LETTER" && same ran "$(ledger)"; }
check "a job for another plugin than its subject says" other_plugin
flipped() { # each byte of the header, and some of the rest: a job, or none, and gone
  python3 - "$LETTER" "$WORK" <<'END' || return 1
import sys
letter = open(sys.argv[1], 'rb').read()
for n, at in enumerate(list(range(16)) + list(range(16, len(letter), 7))):
    open('%s/flipped-%d' % (sys.argv[2], n), 'wb').write(letter[:at] + bytes([letter[at] ^ 0x55]) + letter[at + 1:])
END
  local f
  for f in "$WORK"/flipped-*; do parts publish wsd.job.00.norm.ledger <"$f" || return 1; done
  wait_until in_stream 0
}
check "jobs with a byte that is wrong" flipped

# --- what is no end, and other noise --------------------------------------------------------------------------------------

noise() {
  local id
  leave there other && id=$(here wsctl submit --detach @fleet/echo right) && wait_until in_stream 1 || return 1
  head -c 100000 /dev/urandom | parts publish "wsd.res.here.$id" && head -c 100 "$LETTER" | parts publish "wsd.res.here.$id" && parts publish "wsd.res.here.no-id" </dev/null || return 1
  wait_until grep -q 'its end cannot be read' "$WORK/node-here/fleet.log" && start_node_fleet there --no-out && start_node_fleet other --no-out && expect_output right here wsctl await "$id"
}
check "noise in place of an end: the right one is waited for" noise
healthy() { for n in there other; do same 0 "$(fleet_counter $n in held)" || return 1; done && same 0 "$(fleet_counter here out held)" && expect_output 6765 here wsctl submit @fleet/fib 20; }
check "all are well" wait_until healthy

# --- classes --------------------------------------------------------------------------------------------------------------

JOBS=1000
[ -z "${WSD_THOROUGH:-}" ] || JOBS=4000
done_so_far() { wc -l <"$WORK/map.out"; }
begun() { [ "$(done_so_far)" -ge 50 ]; }
high() { # each job takes 20 ms, two nodes with two workers each; what is held, 256, would go first by order of submission
  local before between
  (seq "$JOBS" | here wsctl map --jobs 2000 @fleet/sleep:again 20 >"$WORK/map.out" 2>"$WORK/map.err") &
  local map=$!
  wait_until begun && before=$(done_so_far) && expect_output hi here wsctl submit --priority 5 @fleet/echo hi && between=$(($(done_so_far) - before)) || return 1
  echo "$between of $JOBS ended meanwhile"
  [ "$between" -lt 128 ] && wait "$map"
}
check "a job of high priority behind $JOBS others overtakes them" high
check "all leave in order" end_fleet
