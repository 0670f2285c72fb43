#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# keys.sh: jobs with the same key from two machines: one runs, and both have its end.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/fleet.sh"

start_nats one && "$FLEET" -n "$NATS_URL" --init >"$WORK/made" && start_node here --no-in && start_node far --no-in && start_node there --no-out || exit 1
here() { on here "$@"; }
far() { on far "$@"; }
in_stream() { "$FLEET" -n "$NATS_URL" --status | grep -qE "^jobs +$1 "; } # N
parts() { python3 "$SRC/tests/support/parts.py" "${NATS_URL##*:}" "$@"; }
leave() { kill "${NODE_FLEET[$1]}" && wait_for_exit "${NODE_FLEET[$1]}"; } # NAME
sent() { echo $(($(fleet_counter here out sent) + $(fleet_counter far out sent))); }
same_key() {
  expect_output one here wsctl submit --key k1 @fleet/echo one && expect_output one far wsctl submit --key k1 @fleet/echo two && same 1 "$(sent)"
}
check "the second job with a key has the end of the first" same_key
fails() { says 3 '' here wsctl submit --key k2 @fleet/echo:status 3 && says 3 '' far wsctl submit --key k2 @fleet/echo three; }
check "also one that failed" fails
other_key() { expect_output two far wsctl submit --key k3 @fleet/echo two; }
check "another key is another job" other_key
no_key() { expect_output two far wsctl submit @fleet/echo two; }
check "and so is one without" no_key
forgotten() {
  expect_output one here wsctl submit --key k9 @fleet/echo one && echo '{"filter":"wsd.res.key.>"}' | parts ask '$JS.API.STREAM.PURGE.WSD_RES' &&
    expect_output again far wsctl submit --key k9 @fleet/echo again
}
check "when the record is gone, the next one runs" forgotten
large() { same 3000000 "$(here wsctl submit --key k4 @fleet/bigoutput 3000000 | wc -c)" && says 63 'output is there only: use another key' far wsctl submit --key k4 @fleet/bigoutput 3000000; }
check "an output in parts is there only once" large
leave there || exit 1
waiting() { # both wait for a node: one is in the stream
  first=$(here wsctl submit --detach --key "$1" @fleet/echo one) && wait_until in_stream 1 && second=$(far wsctl submit --detach --key "$1" @fleet/echo two) || return 1
}
both() { waiting k5 && start_node_fleet there --no-out && expect_output one here wsctl await "$first" && expect_output one far wsctl await "$second" && in_stream 0 && leave there; }
check "of two that wait for a node one runs" both
cancelled() { waiting k6 && here wsctl cancel "$first" && wait_until sent_by_far && start_node_fleet there --no-out && expect_output two far wsctl await "$second"; }
sent_by_far() { [ "$(fleet_counter far out sent)" -gt "$before" ]; }
before=$(fleet_counter far out sent)
check "the first one is cancelled: the second one runs" cancelled
retried() { expect_output 'try 2' here wsctl submit --key k7 --retries 3 --retry-delay 50ms @fleet/ledger:nth "$WORK/tries" x 2; }
check "a job with a key is tried again" retried
durable() { # its wsd-fleet dies: it is handed out again, and has its key
  local id
  leave there && id=$(here wsctl submit --durable --detach --key k8 @fleet/echo kept) && wait_until in_stream 1 && kill_process "${NODE_FLEET[here]}" &&
    start_node_fleet here --no-in && start_node_fleet there --no-out && expect_output kept here wsctl await "$id" && expect_output kept far wsctl submit --key k8 @fleet/echo other
}
check "it keeps its key when its wsd-fleet dies" durable
check "nothing is left in the stream" wait_until in_stream 0
check "all leave in order" end_fleet
