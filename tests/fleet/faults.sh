#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# faults.sh: jobs that run elsewhere while nodes, their wsd, executors and the NATS server die and stand still. Each has its
# end, once. 1,000 jobs for each fault; WSD_THOROUGH: 20,000.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/fleet.sh"

JOBS=1000
[ -z "${WSD_THOROUGH:-}" ] || JOBS=20000
here() { on here "$@"; }
NATS_URL=nats://127.0.0.1:$(free_port)
start_nats one && "$FLEET" -n "$NATS_URL" --init >"$WORK/made" || exit 1
start_node here --no-in && start_node b --no-out --ack-wait 2 && start_node c --no-out --ack-wait 2 || exit 1

# JOBS jobs of `here`, as $MAP.
many() {
  rm -f "$WORK/map.out"
  (seq "$JOBS" | here wsctl map --jobs 300 @fleet/echo:echo >"$WORK/map.out" 2>"$WORK/map.err") &
  MAP=$!
  note_started $MAP
}
ended() { [ -s "$WORK/map.out" ] && [ "$(wc -l <"$WORK/map.out")" -ge "$1" ]; }
# All have come, each once.
all_right() {
  wait_for_exit "$MAP" || {
    cat "$WORK/map.err"
    return 1
  }
  sort -n "$WORK/map.out" | cmp - <(seq "$JOBS")
}
beside() { # COMMAND...: while jobs are on their way
  many
  wait_until ended $((JOBS / 10)) && "$@" && all_right
}
empty() { "$FLEET" -n "$NATS_URL" --status | grep -qE '^jobs +0 '; }

check "nothing happens" beside true
in_parcels() { [ "$(fleet_counter here out parcels)" -gt 0 ]; }
check "most of these jobs go in parcels" in_parcels

# --- nodes

fleet_dies() {
  kill_process "${NODE_FLEET[b]}"
  sleep 0.5
  start_node_fleet b --no-out --ack-wait 2
}
check "kill -9 of a node's wsd-fleet" beside fleet_dies
node_dies() {
  kill_process "${NODE_FLEET[b]}"
  kill_process "${NODE_WSD[b]}"
}
check "kill -9 of a node: another one does its jobs" beside node_dies
check "it comes again" start_node b --no-out --ack-wait 2
LARGE=$WORK/large
head -c 3000000 /dev/urandom >"$LARGE"
no_parts() { "$FLEET" -n "$NATS_URL" --status | grep -qE '^parts +0 '; }
node_dies_large() { # while inputs and outputs are on their way
  local i ids=()
  for i in 1 2 3 4 5 6 7 8; do ids+=("$(here wsctl submit --detach -i "$LARGE" @fleet/echo)"); done
  node_dies
  for i in "${ids[@]}"; do here wsctl await "$i" | cmp - "$LARGE" || return 1; done
}
check "the same with inputs and outputs in parts" node_dies_large
check "it comes again" start_node b --no-out --ack-wait 2
check "no part is left" wait_until no_parts
wsd_dies() {
  kill_process "${NODE_WSD[b]}"
  sleep 0.3
  start_node_wsd b
}
check "kill -9 of a node's wsd alone" beside wsd_dies
executors_of() { # NAME
  local of
  of=${NODE_WSD[$1]},$(pgrep -d , -P "${NODE_WSD[$1]}")
  pgrep -f wsd-executor -P "${of%,}"
}
executors_die() {
  local i n
  for i in 1 2 3; do
    for n in b c; do executors_of $n | xargs -r kill -9 2>/dev/null; done
    sleep 0.1
  done
}
check "kill -9 of executors" beside executors_die
stands_still() {
  kill -STOP "${NODE_FLEET[b]}"
  sleep 4.5
  kill -CONT "${NODE_FLEET[b]}"
}
check "a node's wsd-fleet stands still for longer than the server waits" beside stands_still

# --- the one that sends

own_fleet_dies() {
  kill_process "${NODE_FLEET[here]}"
  start_node_fleet here --no-in
}
check "kill -9 of the sender's wsd-fleet" beside own_fleet_dies
large_durable() {
  local id
  id=$(here wsctl submit --durable --detach -i "$LARGE" @fleet/echo) || return 1
  kill_process "${NODE_FLEET[here]}"
  start_node_fleet here --no-in && here wsctl await "$id" | cmp - "$LARGE" && wait_until no_parts
}
check "the same while it sends parts" large_durable
server_dies_large() {
  local i ids=()
  for i in 1 2 3 4; do ids+=("$(here wsctl submit --detach -i "$LARGE" @fleet/echo)"); done
  kill_nats one
  start_nats one || return 1
  for i in "${ids[@]}"; do here wsctl await "$i" | cmp - "$LARGE" || return 1; done
  wait_until no_parts
}
durable() {
  local id
  id=$(here wsctl submit --durable --detach @fleet/echo kept) || return 1
  kill_process "${NODE_WSD[here]}"
  kill_process "${NODE_FLEET[here]}"
  start_node here --no-in && expect_output kept here wsctl await "$id"
}
check "kill -9 of the sender, with a durable job" durable

# --- the server

server_dies() {
  local i
  for i in 1 2 3; do
    kill_nats one
    sleep 0.3
    start_nats one || return 1
    sleep 0.3
  done
}
check "kill -9 of the only server, three times" beside server_dies
check "kill -9 of it with inputs and outputs in parts" server_dies_large
away() { # jobs wait, those of this machine do not
  kill_nats one
  here wsctl submit --detach @fleet/echo waited >"$WORK/id" && expect_output 5 here wsctl submit fib 5 || return 1
  start_nats one && expect_output waited here wsctl await "$(cat "$WORK/id")"
}
check "without a server, jobs of this machine run, and others wait" away
# What a killed server can forget: that jobs are acknowledged, which it has removed. It is given the older state of its
# consumer.
in_stream() { "$FLEET" -n "$NATS_URL" --status | grep -qE "^jobs +$1 "; }  # N
n_connected() { grep -c ': connected to NATS' "$WORK/node-$1/fleet.log"; } # NAME
has_connected() { [ "$(n_connected "$1")" -gt "$2" ]; }                    # NAME N: again, after so many times
# a killed server may count a job as ended that it has still: its consumer is made anew when there is nothing else to do
check "what such a server has kept of jobs that have ended goes" wait_until -t 60 in_stream 0
gone_jobs() {
  local n id before state="$WORK/nats-one/jetstream/\$G/streams/WSD_JOBS/obs/norm_echo/o.dat"
  for n in b c; do kill "${NODE_FLEET[$n]}" && wait_for_exit "${NODE_FLEET[$n]}" || return 1; done
  id=$(here wsctl submit --detach @fleet/no-such-plugin) || return 1 # the oldest one in the stream, so that they are behind it
  # too large for a parcel, so that each has a message of its own
  (seq -f '%05000g' 300 | here wsctl map --jobs 250 @fleet/echo:echo >"$WORK/map.out" 2>&1) &
  wait_until in_stream 251 && python3 "$SRC/tests/support/parts.py" "${NATS_URL##*:}" take norm_echo 250 >"$WORK/taken" || return 1
  before=$(n_connected here) # the end of a server is not known at once
  kill "${NATS_PIDS[one]}" && wait "${NATS_PIDS[one]}"
  cp "$state" "$WORK/o.dat" && start_nats one && wait_until has_connected here "$before" && here wsctl cancel --plugin @fleet/echo && wait_until in_stream 1 && kill_nats one &&
    cp "$WORK/o.dat" "$state" && start_nats one && for n in b c; do start_node_fleet $n --no-out --ack-wait 2 || return 1; done
  wait_until -t 60 none_held && expect_output waited here wsctl submit @fleet/echo waited && here wsctl cancel "$id"
}
none_held() { ! "$FLEET" -n "$NATS_URL" --status | grep -E '^norm +echo '; } # nor waits
check "jobs that the server takes for held, and that are gone, are found" gone_jobs

# --- a server that cannot look into its streams

parts() { python3 "$SRC/tests/support/parts.py" "${NATS_URL##*:}" "$@"; }
looks_for_ends() { # yes|no: whether the server answers who looks for a stored end
  parts ask '$JS.API.STREAM.INFO.WSD_RES' </dev/null | python3 -c '
import ast, json, sys
config = ast.literal_eval(sys.stdin.read())["config"]
config["allow_direct"] = sys.argv[1] == "yes"
print(json.dumps(config))' "$1" | parts ask '$JS.API.STREAM.UPDATE.WSD_RES' >"$WORK/updated"
}
of_both() { echo $(($(fleet_counter b in "$1") + $(fleet_counter c in "$1"))); } # COUNTER
took() { [ "$(of_both taken)" -ge "$1" ]; }                                      # N
held() { [ "$(of_both held)" -ge "$1" ]; }                                       # N: or more, since a job may be handed out again while its node is slow
looks() { echo $(($(fleet_counter b servers looks) + $(fleet_counter c servers looks))); }
have_looked() { [ "$(looks)" -ge "$1" ]; }                 # N
look_again() { wait_until have_looked $(($(looks) + 8)); } # each of the three jobs twice, or more often: in vain
began_again() {                                            # FILE: once, or twice where the server has handed it out to both nodes, as it may when it comes again
  [[ $(wc -l <"$1") = [23] ]]
}
without_jetstream() { # the server comes again, and answers that nothing responds
  local connected
  connected=$(n_connected b)
  kill_nats one
  "$NATS_SERVER" -a 127.0.0.1 -p "${NATS_PORTS[one]}" >>"$WORK/nats-one.log" 2>&1 &
  NATS_PIDS[one]=$!
  note_started $!
  wait_until has_connected b "$connected"
}
blind() { # the second try of a job looks whether it has ended, and so does what its nodes have begun
  local n i taken back connected ids=()
  taken=$(of_both taken) back=$(of_both back)
  looks_for_ends no || return 1
  for i in 1 2 3; do ids+=("$(here wsctl submit --detach --retries 3 --retry-delay 50ms @fleet/ledger:nth "$WORK/blind-$i" x 2)"); done
  ids+=("$(here wsctl submit --detach --retries 3 --retry-delay 50ms @fleet/ledger:after / "$WORK/blind-4" once)")
  wait_until took $((taken + 7)) && wait_until held 3 && look_again || return 1
  held 3 && without_jetstream && look_again && connected=$(n_connected b) && kill_nats one && start_nats one && wait_until has_connected b "$connected" || return 1
  for i in 1 2 3; do same 1 "$(wc -l <"$WORK/blind-$i")" || return 1; done
  held 3 && looks_for_ends yes || return 1
  for i in 0 1 2; do here wsctl await "${ids[i]}" | grep -qx 'try 2' && began_again "$WORK/blind-$((i + 1))" || return 1; done
  expect_output once here wsctl await "${ids[3]}" && same 1 "$(wc -l <"$WORK/blind-4")" && same "$back" "$(of_both back)"
}
check "what a server that starts anew cannot tell is waited for: no job is new, or given back" blind

# --- jobs that may not run twice, long ones, and poison

runs_somewhere() { on b jobs_are running 1 || on c jobs_are running 1; }
ended_or_again() { # ID
  runs_somewhere || ! here wsctl --json status "$1" | grep -q '"state":"running"'
}
interrupted_on_c() { # ID
  wait_until ended_or_again "$1" && ! runs_somewhere && says 125 'interrupted on c: another node had begun it' here wsctl await "$1"
}
not_twice() {
  local id r
  # where it runs again it waits for the file
  id=$(here wsctl submit --detach @fleet/ledger:gate-once "$WORK/never$1") && wait_until runs_somewhere || return 1
  for n in b c; do
    kill_process "${NODE_FLEET[$n]}"
    kill_process "${NODE_WSD[$n]}"
  done
  start_node c --no-out --ack-wait 2 && interrupted_on_c "$id"
  r=$?
  touch "$WORK/never$1"
  start_node b --no-out --ack-wait 2 && return $r
}
for round in 1 2 3; do # nats-server 2.9 says of the second that it hands it out for the first time
  check "a job that may not run twice, and whose node died, is interrupted ($round)" not_twice "$round"
done
leaves() { kill "${NODE_FLEET[$1]}" && wait_for_exit "${NODE_FLEET[$1]}"; }
marks() { # N: the stream has so many marks of the job $id
  echo "{\"subjects_filter\":\"wsd.res.begun.$id\"}" | parts ask '$JS.API.STREAM.INFO.WSD_RES' | grep -q "'wsd.res.begun.$id': $1[,}]"
}
first_mark() { echo "{\"seq\":1,\"next_by_subj\":\"wsd.res.begun.$id\"}" | parts ask '$JS.API.STREAM.MSG.GET.WSD_RES' | grep -o "'seq': [0-9]*" | grep -o '[0-9]*'; }
runs_long() { # the clock of its node goes on by 11 minutes, and the server forgets the first mark, as it does after an hour
  local r
  leaves c && leaves b && head -c 16 /dev/zero >"$WORK/clocks" || return 1
  FLEET_PREFIX=(env LD_PRELOAD="$BUILD/tests/support/shims/clocks.so" CLOCKS_FILE="$WORK/clocks")
  start_node_fleet b --no-out --ack-wait 2
  r=$?
  FLEET_PREFIX=()
  [ $r = 0 ] && id=$(here wsctl submit --detach @fleet/ledger:gate-once "$WORK/long-one") && wait_until on b jobs_are running 1 && marks 1 || return 1
  python3 -c 'import struct, sys; open(sys.argv[1], "r+b").write(struct.pack("<qq", 0, 660))' "$WORK/clocks"
  wait_until marks 2 && echo "{\"seq\":$(first_mark)}" | parts ask '$JS.API.STREAM.MSG.DELETE.WSD_RES' && marks 1 || return 1
  kill_process "${NODE_FLEET[b]}"
  kill_process "${NODE_WSD[b]}"
  start_node_fleet c --no-out --ack-wait 2 && interrupted_on_c "$id"
  r=$?
  touch "$WORK/long-one"
  start_node b --no-out --ack-wait 2 && return $r
}
if [[ ${WSD_SANITIZE:-} == address* ]]; then
  skip "the mark of a job that runs for long" "a sanitizer wants to be first in the process"
else
  check "the mark of a job that runs for long is renewed" runs_long
fi
given_back() {
  local i ids=()
  for i in 1 2 3 4 5 6; do ids+=("$(here wsctl submit --detach @fleet/echo:status 0)"); done
  for i in "${ids[@]}"; do expect_exit 0 here wsctl await "$i" || return 1; done
}
check "others of them run" given_back
long() { # it would be interrupted
  local id
  id=$(here wsctl submit --detach @fleet/ledger:after "$WORK/gate" "$WORK/long" once) || return 1
  sleep 6.5
  touch "$WORK/gate"
  expect_output once here wsctl await "$id" && same once "$(cat "$WORK/long")"
}
check "one that takes longer than the server waits is not handed out twice" long
poison() {
  many
  for i in 1 2 3; do says 70 'crashed on' here wsctl submit @fleet/crash || return 1; done
  all_right
}
check "one that crashes each time harms no other" poison
# A job that its nodes die of, in the parcel of others. They are there twice together; then they run one by one.
touch "$WORK/open"
has_all() { [ "$(fleet_counter c in held)" = 101 ]; }
opened() { [ "$(wc -l <"$WORK/gates")" -ge "$1" ]; }
c_dies() {
  kill_process "${NODE_FLEET[c]}"
  kill_process "${NODE_WSD[c]}"
  start_node c "${ALL[@]}"
}
ALL=(--no-out --ack-wait 2 --held 512 --plugins ledger) # takes all, even if none go together
one_by_one() {                                          # nats-server 2.9 does not say of all that they came before; where jobs take long, few go together
  [ "$(fleet_counter c in redelivered)" -lt 101 ] || [[ $(fleet_counter c in parcels) != [12] ]] || [ "$(on c n_jobs queued)" -le 2 ]
}
innocent() {
  local i
  leaves b && leaves c && start_node_fleet c "${ALL[@]}" || return 1
  times 50 "$WORK/open" | here wsctl map @fleet/ledger:gate >"$WORK/gates" || return 1
  (
    echo "$WORK/never"
    times 100 "$WORK/shut"
  ) | here wsctl map --unordered --keep-going @fleet/ledger:gate >"$WORK/gates" &
  MAP=$!
  note_started $MAP
  wait_until has_all && c_dies && wait_until has_all && c_dies && wait_until has_all && wait_until one_by_one && touch "$WORK/shut" || return 1
  for i in 1 2 3 4 5; do # one that had begun beside it may stand behind it, for a turn
    c_dies && wait_until few_left || return 1
    [ "$(fleet_counter c in held)" -gt 1 ] || break
  done
  wait_until opened 100 && on c jobs_are running 1 && touch "$WORK/never" && wait_for_exit "$MAP" && opened 101
}
few_left() { [[ $(fleet_counter c in held) == [123] ]]; }
check "a job that its nodes die of costs none of its parcel its end" innocent
both_again() { leaves c && start_node_fleet c --no-out --ack-wait 2 && start_node_fleet b --no-out --ack-wait 2; }
check "both take all jobs again" both_again
check "nothing is left in the stream" wait_until empty
held_most() { [ "$(fleet_counter b in most)" -le 384 ] && same 0 "$(fleet_counter b in held)"; }
check "a node never held more than it may" held_most
check "the others leave in order" end_fleet
