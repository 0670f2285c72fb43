#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# full.sh: where no server takes jobs: there is none, its stream is full, its disk is full, or that of a node. Jobs wait, and
# run when there is room; with `wait` they fail with words. Jobs of the own machine run.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/fleet.sh"

JOBS=1000
[ -z "${WSD_THOROUGH:-}" ] || JOBS=20000
here() { on here "$@"; }
in_stream() { "$FLEET" -n "$NATS_URL" --status | grep -qE "^jobs +$1 "; } # N
sent_again() { [ "$(fleet_counter here out again)" -gt 0 ]; }
runs_here() { expect_output 5 here wsctl submit fib 5; }
leave() { kill "${NODE_FLEET[$1]}" && wait_for_exit "${NODE_FLEET[$1]}"; } # NAME

# --- no server, and `wait` ----------------------------------------------------------------------------------------------

NATS_URL=nats://127.0.0.1:$(free_port)
start_nats one && "$FLEET" -n "$NATS_URL" --init >"$WORK/made" || exit 1
start_node here --no-in --wait 2s && start_node_wsd there || exit 1
not_there='no NATS server was there for 2 s, which is .fleet. wait in wsd.conf: see .wsctl fleet status'
no_server() {
  local id
  id=$(here wsctl submit --detach @fleet/echo accepted) && wait_until in_stream 1 && kill_nats one || return 1
  says 63 "$not_there" here wsctl submit @fleet/echo x && says 63 "$not_there., then submit it again" here wsctl submit @fleet/echo x &&
    head -c 3000000 /dev/urandom >"$WORK/in" && says 63 "$not_there" here wsctl submit -i "$WORK/in" @fleet/echo && runs_here &&
    here jobs_are running 1 || return 1
  start_nats one && start_node_fleet there --no-out && expect_output accepted here wsctl await "$id"
}
check "without a server jobs fail after their wait, and one that it had does not" no_server
check "then they run again" expect_output x here wsctl submit @fleet/echo x
check "the node leaves" leave there
waits_for_node() {
  local id
  id=$(here wsctl submit --detach @fleet/echo late) && wait_until in_stream 1 && sleep 3 && start_node_fleet there --no-out && expect_output late here wsctl await "$id"
}
check "a job that a server has waits for a node, however long" waits_for_node
bounded() { # 64 MiB of inputs are on their way at most: 67 of these, and one byte for each
  local i ids=()
  leave here && start_node_fleet here --no-in && head -c 1000000 /dev/urandom >"$WORK/in" && kill_nats one || return 1
  for i in {1..67}; do ids+=("$(here wsctl submit --detach -i "$WORK/in" @fleet/echo)"); done
  wait_until holds 67 && same 67000067 "$(fleet_counter here out bytes)" && same 0 "$(fleet_counter here out waiting)" || return 1
  for i in {68..70}; do ids+=("$(here wsctl submit --detach -i "$WORK/in" @fleet/echo)"); done
  wait_until holds 70 && wait_until waiting 3 && same 67000067 "$(fleet_counter here out bytes)" && here wsctl cancel "${ids[68]}" && wait_until waiting 2 &&
    start_nats one && unset 'ids[68]' || return 1
  for i in "${ids[@]}"; do here wsctl await "$i" | cmp - "$WORK/in" || return 1; done
  same 0 "$(fleet_counter here out bytes)" && same 0 "$(fleet_counter here out waiting)"
}
holds() { [ "$(fleet_counter here out held)" = "$1" ]; }
waiting() { [ "$(fleet_counter here out waiting)" = "$1" ]; }
check "inputs that no server takes are bounded by their bytes: others wait, and run then" bounded
crowded() { # a node whose wsd takes two jobs of its user keeps what it has, and gives none back
  local i ids=()
  kill "${NODE_WSD[there]}" && wait_for_exit "${NODE_WSD[there]}" && printf '[limits]\nmax-jobs-per-user = 2\n' >"$WORK/crowded.conf" &&
    WSD_CONFIG=$WORK/crowded.conf start_node_wsd there && leave there && start_node_fleet there --no-out || return 1
  for i in {1..40}; do ids+=("$(here wsctl submit --detach @fleet/sleep 500)"); done
  for i in "${ids[@]}"; do here wsctl await "$i" || return 1; done
  same 0 "$(fleet_counter there in back)" && kill "${NODE_WSD[there]}" && wait_for_exit "${NODE_WSD[there]}" && start_node_wsd there
}
check "a node whose wsd has no room for more of them ends them one after the other" crowded
check "they leave in order" end_fleet
kill_nats one

# --- a full stream ------------------------------------------------------------------------------------------------------

start_nats small && "$FLEET" -n "$NATS_URL" --init --jobs-max 100 >"$WORK/made" && start_node_fleet here --no-in || exit 1
more_than_fit() { # it has room for fewer than a sender hands out at once
  (seq "$JOBS" | here wsctl map --jobs 300 @fleet/echo:echo >"$WORK/map.out" 2>"$WORK/map.err") &
  local map=$!
  wait_until in_stream 100 && wait_until sent_again && runs_here && start_node_fleet there --no-out && wait "$map" && sort -n "$WORK/map.out" | cmp - <(seq "$JOBS")
}
check "$JOBS jobs through a stream that has room for 100" more_than_fit
check "nothing is left in it" wait_until in_stream 0
full_for_long() {
  local i
  leave there && leave here && start_node_fleet here --no-in --wait 1s || return 1
  for ((i = 0; i < 100; i++)); do here wsctl submit --detach --timeout 60s @fleet/echo "$i" >>"$WORK/ids" || return 1; done
  wait_until in_stream 100 && says 63 'the NATS servers have not taken it for 1 s, which is .fleet. wait in wsd.conf: .*, then submit it again' here wsctl submit @fleet/echo x &&
    start_node_fleet there --no-out || return 1
  i=0
  while read -r id; do
    expect_output "$i" here wsctl await "$id" || return 1
    i=$((i + 1))
  done <"$WORK/ids"
}
check "with a wait, one more fails, and those in it do not" full_for_long
check "all leave in order" end_fleet
kill_nats small

# --- full disks ---------------------------------------------------------------------------------------------------------

small() { # DIR SIZE
  mkdir -p "$1" && mount -t tmpfs -o size="$2",mode=0700 none "$1" 2>"$WORK/mount.err" && on_exit umount -l "$1"
}
if ! small "$WORK/nats-full" 24m || ! small "$WORK/node-there/store" 2m; then
  skip "full disks" "no tmpfs of its own: $(head -n 1 "$WORK/mount.err")"
  exit 0
fi
fill() { # DIR
  head -c 40000000 /dev/zero >"$1/filler" 2>/dev/null
  [ "$(df --output=avail "$1" | tail -n 1)" -eq 0 ]
}
many() {
  rm -f "$WORK/map.out"
  (seq "$JOBS" | here wsctl map --jobs 300 @fleet/echo:echo >"$WORK/map.out" 2>"$WORK/map.err") &
  MAP=$!
  note_started $MAP
}
all_right() { wait_for_exit "$MAP" && sort -n "$WORK/map.out" | cmp - <(seq "$JOBS"); }
ended() { [ -s "$WORK/map.out" ] && [ "$(wc -l <"$WORK/map.out")" -ge "$1" ]; }

kill "${NODE_WSD[there]}" && wait_for_exit "${NODE_WSD[there]}"
check "a node whose disk is full" fill "$WORK/node-there/store"
start_nats full && "$FLEET" -n "$NATS_URL" --init >"$WORK/made" && start_node_fleet here --no-in && start_node there --no-out || exit 1
node_full() { many && all_right; }
check "runs jobs of others" node_full
# nats-server 2.9 turns JetStream off where its disk is full, until it is started anew. If the stream runs empty before that,
# it begins at 1 again, and its consumers do not.
server_full() {
  many
  wait_until ended $((JOBS / 10)) && fill "$WORK/nats-full"
  here wsctl submit --detach @fleet/echo waited >"$WORK/id" && runs_here || return 1
  rm "$WORK/nats-full/filler" && kill_nats full && start_nats full && all_right && expect_output waited here wsctl await "$(cat "$WORK/id")"
}
check "the disk of the only server is full, until it has room and is started anew" server_full
check "nothing is left in the stream" wait_until -t 60 in_stream 0
check "the last ones leave in order" end_fleet
