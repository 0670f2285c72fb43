#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# forgets.sh: a server that begins with older files than its consumers know of, as nats-server 2.9 does after kill -9 with a
# full disk. Its stream numbers jobs from 1 on, or has jobs that had ended. Each job has its end, and none is taken away.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/fleet.sh"

here() { on here "$@"; }
start_nats one && "$FLEET" -n "$NATS_URL" --init >"$WORK/made" && start_node here --no-in && start_node there --no-out --ack-wait 2 || exit 1
MESSAGES="$WORK/nats-one/jetstream/\$G/streams/WSD_JOBS/msgs"
in_stream() { "$FLEET" -n "$NATS_URL" --status | grep -qE "^jobs +$1 "; } # N
leaves() { kill "${NODE_FLEET[$1]}" && wait_for_exit "${NODE_FLEET[$1]}"; }
connections() { grep -c ': connected to NATS' "$WORK/node-$1/fleet.log"; }
connected_more() { [ "$(connections "$1")" -gt "$2" ]; } # NAME THAN
stop_nats() {
  kill "${NATS_PIDS[one]}"
  wait "${NATS_PIDS[one]}" # its status is 1
  :
}
forget() { # NODE...: the stream is empty and begins at 1 again; these have a connection then
  local n
  declare -A before
  for n in "$@"; do before[$n]=$(connections "$n"); done
  stop_nats && rm -r "$MESSAGES" && mkdir "$MESSAGES" && start_nats one || return 1
  for n in "$@"; do wait_until connected_more "$n" "${before[$n]}" || return 1; done
}
numbers() { seq -f '%05000g' "$1"; }                                                  # too large for a parcel
letters() { numbers "$1" | here wsctl map @fleet/echo:echo | cmp - <(numbers "$1"); } # N
parcels() { seq 300 | here wsctl map @fleet/echo:echo | cmp - <(seq 300); }
delivered() { # CONSUMER
  python3 "$SRC/tests/support/parts.py" "${NATS_URL##*:}" ask "\$JS.API.CONSUMER.INFO.WSD_JOBS.$1" </dev/null |
    python3 -c 'import ast, sys; print(ast.literal_eval(sys.stdin.read())["delivered"]["stream_seq"])'
}
renewed() { grep -c "consumer $1 is made anew" "$WORK/node-there/fleet.log"; } # CONSUMER

check "jobs run" letters 20
check "in parcels, too" parcels
ahead() { [ "$(delivered norm_echo)" -ge 20 ] && forget here there && letters 5 && parcels && letters 5; }
check "the stream begins at 1 again, while its consumers remember more" ahead
once_each() { same 1 "$(renewed norm_echo)"; }
check "such a consumer is made anew, once" once_each
sender_first() { # its jobs have numbers above those, too, when a node comes
  local n i
  leaves there && n=$(delivered norm_echo) && forget here || return 1
  : >"$WORK/ids"
  for i in $(numbers $((n + 5))); do here wsctl submit --detach @fleet/echo:echo "$i" >>"$WORK/ids" || return 1; done
  wait_until in_stream $((n + 5)) && start_node_fleet there --no-out --ack-wait 2 || return 1
  while read -r i; do here timeout 60 wsctl await "$i" >>"$WORK/sent" || return 1; done <"$WORK/ids"
  cmp "$WORK/sent" <(numbers $((n + 5)))
}
check "jobs that are sent before a node has looked run, too" sender_first
check "nothing is left" wait_until in_stream 0
old_receipt() { # a node ends what it had before: it removes no other job that has its number now
  local id n i
  leaves there && start_node_fleet there --no-out --ack-wait 2 --held 1 --plugins ledger && rm -f "$WORK/shut" && id=$(here wsctl submit --detach @fleet/ledger:gate "$WORK/shut") &&
    wait_until on there jobs_are running 1 && n=$(delivered norm_ledger) && forget here there || return 1
  : >"$WORK/ids"
  for ((i = 0; i < n + 5; i++)); do here wsctl submit --detach @fleet/ledger:gate "$WORK/open" >>"$WORK/ids" || return 1; done
  wait_until in_stream $((n + 5)) && touch "$WORK/shut" "$WORK/open" || return 1
  for i in "$id" $(cat "$WORK/ids"); do here timeout 60 wsctl await "$i" >>"$WORK/opened" || return 1; done
  wait_until in_stream 0 && leaves there && start_node_fleet there --no-out --ack-wait 2
}
check "what a node had before has its end, and takes no other one away" old_receipt
ended_before() { # a server that was killed has jobs that were acknowledged
  local id again
  leaves there && id=$(here wsctl submit --detach @fleet/ledger:once "$WORK/ledger" ran) && again=$(here wsctl submit --detach @fleet/ledger:again "$WORK/again" ran) &&
    wait_until in_stream 2 && stop_nats && cp -r "$MESSAGES" "$WORK/msgs" && start_nats one && start_node_fleet there --no-out --ack-wait 2 &&
    here wsctl await "$id" && here wsctl await "$again" && wait_until in_stream 0 && leaves there && stop_nats && rm -r "$MESSAGES" && cp -r "$WORK/msgs" "$MESSAGES" && start_nats one &&
    in_stream 2 && start_node_fleet there --no-out --ack-wait 2 && wait_until -t 60 in_stream 0 && same ran "$(cat "$WORK/ledger")"
}
check "jobs that had ended go, and what may not run twice does not" ended_before
cancelled() { # its number is another one's now
  local id other
  leaves there && forget here && id=$(here wsctl submit --detach @fleet/echo:echo gone) && wait_until in_stream 1 && forget here &&
    other=$(here wsctl submit --detach @fleet/echo:echo stays) && wait_until in_stream 1 && here wsctl cancel "$id" && expect_exit 130 here wsctl await "$id" &&
    start_node_fleet there --no-out --ack-wait 2 && same stays "$(here timeout 60 wsctl await "$other")"
}
check "a cancel takes no other job away" cancelled
cancelled_later() { # the server was away meanwhile, and has it still
  local id
  leaves there && id=$(here wsctl submit --detach @fleet/ledger:again "$WORK/not" ran) && wait_until in_stream 1 && stop_nats && here wsctl cancel "$id" &&
    expect_exit 130 here wsctl await "$id" && start_nats one && wait_until -t 60 in_stream 0 && [ ! -e "$WORK/not" ] && start_node_fleet there --no-out --ack-wait 2
}
check "one that is cancelled without a connection goes when there is one" cancelled_later
check "all leave in order" end_fleet
