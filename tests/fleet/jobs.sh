#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# jobs.sh: two machines and a NATS server: jobs of one run on the other one, in all the ways that jobs are submitted.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/fleet.sh"

# --- setting up -------------------------------------------------------------------------------------------------------

NATS_URL=nats://127.0.0.1:$(free_port)
check "no server" says 69 'start nats-server with JetStream' "$FLEET" -n "$NATS_URL" --init
start_nats one || exit 1
check "no streams yet" says 69 'WSD_JOBS: stream not found: .wsctl fleet init' "$FLEET" -n "$NATS_URL" --status
made() { "$FLEET" -n "$NATS_URL" --init >"$WORK/made" && same 4 "$(grep -c ': made, kept by 1 server$' "$WORK/made")"; }
check "they are made" made
check "wsctl does so, too" wsctl fleet init --servers "$NATS_URL"
check "wsctl fleet and something else" refused 64 'usage: wsctl fleet' wsctl fleet start
check "and stay when made again" "$FLEET" -n "$NATS_URL" --init
other() { "$FLEET" -n "$NATS_URL" --init --jobs-max 5 >"$WORK/made" && grep -q '^WSD_JOBS: is there with other settings, and stays' "$WORK/made"; }
check "with other settings it says so" other
for wrong in '--node a.b' '--held 0' '--held 4097' '--ack-wait 0' '--no-in --no-out' '--jobs-max x' '--replicas 6' '--keep 59min' '--keep 31d' '--keep x' 'word'; do
  # shellcheck disable=SC2086
  check "refused: $wrong" says 64 "wsd-fleet: " "$FLEET" $wrong
done

# --- jobs -------------------------------------------------------------------------------------------------------------

start_node here --no-in || exit 1
start_node there --no-out || exit 1
here() { on here "$@"; }
check "a job runs elsewhere" expect_output 6765 here wsctl submit @fleet/fib 20
counted() { same 1 "$(fleet_counter here out ended)" && same 1 "$(fleet_counter there in ended)" && same 0 "$(fleet_counter there in held)"; }
check "and is counted" counted
nodes() { # [NAME FIELD]: of --status, in order; a field of one
  "$FLEET" -n "$NATS_URL" --status --json | python3 -c '
import json, sys
nodes = json.load(sys.stdin)["nodes"]
print(*[n["node"] for n in nodes] if len(sys.argv) < 2 else [n.get(sys.argv[2]) for n in nodes if n["node"] == sys.argv[1]])' "$@"
}
all_answer() { [ "$(nodes)" = "$1" ]; } # NAMES: no one was too busy
told_by_nodes() {
  wait_until all_answer 'here there' && same 'None 128' "$(nodes here most) $(nodes there most)" && same '0 None' "$(nodes here elsewhere) $(nodes there elsewhere)" &&
    same 1 "$(nodes there ended)" && [[ $(nodes there takes) == *"'echo'"* ]] && same True "$([ "$(nodes there plugins)" -ge 3 ] && echo True)"
}
check "each node says that it is there" told_by_nodes
says_so() { wait_until says_both; }
says_both() {
  "$FLEET" -n "$NATS_URL" --status >"$WORK/status" && grep -qE '^there +wsd-fleet [0-9.]+: holds 0 of 128 jobs, has done 1, takes .*echo' "$WORK/status" &&
    grep -qE '^here +wsd-fleet [0-9.]+: 0 of its own are elsewhere$' "$WORK/status"
}
check "also for people" says_so
check "arguments" expect_output 'a b' here wsctl submit @fleet/echo 'a b'
TRACE=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
check "the trace that a job belongs to" expect_output "$TRACE" here wsctl submit --traceparent "$TRACE" @fleet/runnable:trace
check "or none" expect_output none here wsctl submit @fleet/runnable:trace
input() { head -c "$1" /dev/urandom >"$WORK/in" && here wsctl submit -i "$WORK/in" @fleet/echo | cmp - "$WORK/in"; }
for size in 0 1 60000 65536 1000000 1031500 1032191 1032192 1032193 2064384 2064385 5000000 40000000; do
  check "an input and output of $size bytes" input $size
done
output() { same "$1" "$(here wsctl submit @fleet/bigoutput "$1" | wc -c)"; }
check "an output as large as may be" output 67108864
check "a larger one is refused, with the reason" says 63 'its output is larger than the fleet carries .64 MiB.' here wsctl submit @fleet/bigoutput 67108865
parts_are() { "$FLEET" -n "$NATS_URL" --status | grep -qE "^parts +$1 "; } # N
check "no part is left of them" wait_until parts_are 0
check "a job that fails: its status and words" says 3 '' here wsctl submit @fleet/echo:status 3
check "a function that there is not" says 63 'refused on there: .*no function' here wsctl submit @fleet/echo:no-such
check "a plugin whose name no subject can have" says 63 'letters, digits, _ and - only' here wsctl submit @fleet/a.b
has_ended_more() { [ "$(fleet_counter there in ended)" -gt "$1" ]; } # THAN
unread() {                                                           # a submitter that does not read holds up nobody else
  local n
  n=$(fleet_counter there in ended)
  mkfifo "$WORK/unread"
  here wsctl submit @fleet/bigoutput "$1" >"$WORK/unread" &
  exec 9<"$WORK/unread"
  wait_until has_ended_more "$n" && expect_output beside here timeout 20 wsctl submit @fleet/echo beside &&
    same "$1" "$(wc -c <&9)" && wait $! && rm "$WORK/unread"
}
check "a submitter that does not read holds up nobody else" unread 900000
check "nor one whose output comes in parts" unread 30000000
crashed() { says 70 'crashed on there: ' here wsctl submit @fleet/crash; }
check "a job that crashes has crashed" crashed
mapped() { seq 500 | here wsctl map @fleet/echo:echo | sort -n | cmp - <(seq 500); }
check "an array" mapped

# --- parcels

in_parcels() { # COMMAND...: some of its jobs go together, at the latest when they are as brief as they can be
  local before i
  before=$(fleet_counter here out parcels)
  for i in {1..20}; do
    "$@" || return 1
    [ "$(fleet_counter here out parcels)" -eq "$before" ] || return 0
  done
  return 1
}
alone() { # COMMAND...: none do
  local before
  before=$(fleet_counter here out parcels)
  "$@" && same "$before" "$(fleet_counter here out parcels)"
}
small() { seq 3000 | here wsctl map @fleet/echo:echo | cmp - <(seq 3000); }
check "small jobs go together" in_parcels small
traced() { seq 500 | here wsctl map --traceparent "$TRACE" @fleet/runnable:trace | sort -u | cmp - <(echo "$TRACE"); }
check "each with its trace" in_parcels traced
counted_together() { same "$(fleet_counter here out parcels)" "$(fleet_counter there in parcels)" && same 0 "$(fleet_counter there in held)"; }
check "and are counted" wait_until counted_together
not_twice() { times 200 0 | here wsctl map @fleet/echo:status; }
check "those that may not run twice go alone" alone not_twice
keyed_many() { # at once, of a function that goes in parcels
  local i pids=()
  for i in {1..40}; do
    here wsctl submit --key "many $i" @fleet/echo:echo x >"$WORK/keyed-$i" &
    pids+=($!)
  done
  wait "${pids[@]}" && same 40 "$(cat "$WORK"/keyed-* | wc -l)"
}
check "nor do those with a key" alone keyed_many
lines() { # of all sizes around what a parcel takes
  python3 -c 'for i in range(1, 701): print(str(i).rjust(4094 + i % 5 if i % 7 == 0 else 40000 if i % 50 == 0 else i, "x"))'
}
mixed() { lines | here wsctl map @fleet/echo:echo | cmp - <(lines) && input 1032193; }
check "small ones beside larger ones" in_parcels mixed
touch "$WORK/open"
gates() { # N FILE: jobs that wait for a file; before that some that do not, so that the function counts as brief
  times 50 "$WORK/open" | here wsctl map @fleet/ledger:gate >"$WORK/gates" || return 1
  (
    times "$1" "$WORK/open"
    echo "$2"
  ) | here wsctl map --unordered --keep-going @fleet/ledger:gate >"$WORK/gates" 2>"$WORK/gates.err" &
  GATES=$!
  note_started $GATES
}
opened() { [ "$(wc -l <"$WORK/gates")" = "$1" ]; } # N
long_one() {
  rm -f "$WORK/shut" && gates 300 "$WORK/shut" && wait_until opened 300 && ! gone "$GATES" && touch "$WORK/shut" && wait_for_exit "$GATES" && opened 301
}
check "one that takes long holds up no other of its parcel" in_parcels long_one
cancelled_of_many() {
  gates 300 "$WORK/never" && wait_until opened 300 && wait_until there_runs 1 &&
    here wsctl cancel "$(here wsctl list --state running | awk 'NR > 1 { print $1 }')" && expect_exit 130 wait "$GATES" && wait_until nothing_runs
}
nothing_runs() { on there jobs_are running 0; }
there_runs() { on there jobs_are running "$1"; }
check "one of them is cancelled" in_parcels cancelled_of_many
crash_among_many() { # its end is its own
  (
    seq 300
    echo crash
    seq 301 600
  ) | here wsctl map --unordered --keep-going @fleet/crash:word-again >"$WORK/words" 2>"$WORK/words.err"
  same 70 $? && sort -n "$WORK/words" | cmp - <(seq 600)
}
check "one that crashes each time costs no other its end" in_parcels crash_among_many
once_each() { # while the node leaves in order, and comes again
  local i
  rm -f "$WORK/ledger"
  (seq 3000 | here wsctl map @fleet/ledger:again "$WORK/ledger" {} >"$WORK/entered" 2>"$WORK/entered.err") &
  GATES=$!
  note_started $GATES
  for i in 400 800 1200; do
    wait_until entered "$i" && leaves there && start_node_fleet there --no-out || return 1
  done
  wait_for_exit "$GATES" && sort -n "$WORK/ledger" | cmp - <(seq 3000)
}
entered() { [ "$(wc -l <"$WORK/ledger")" -ge "$1" ]; }
leaves() { kill "${NODE_FLEET[$1]}" && wait_for_exit "${NODE_FLEET[$1]}"; }
check "a node that leaves in order ends what it has: none runs twice" in_parcels once_each
output_of_many() { # together more than a message may have
  times 40 100000 | here wsctl map @fleet/bigoutput | wc -c | grep -qx 4000000
}
check "large outputs of small jobs" output_of_many

# --- the ways of a job

in_time() { says 124 '' here wsctl submit --timeout 300ms @fleet/spin; }
check "its time is kept" in_time
check "there, too" wait_until nothing_runs
cancelled() {
  local id
  id=$(here wsctl submit --detach @fleet/spin) && wait_until there_runs 1 && here wsctl cancel "$id" && expect_exit 130 here wsctl await "$id" && wait_until nothing_runs
}
check "a job is cancelled, wherever it runs" cancelled
durable() {
  local id
  id=$(here wsctl submit --durable --detach @fleet/echo kept) && expect_output kept here wsctl await "$id"
}
check "a durable job" durable
keyed() { same "$(here wsctl submit --detach --key k @fleet/echo one)" "$(here wsctl submit --detach --key k @fleet/echo two)"; }
check "a key" keyed
tried_again() { # it goes well at the second time, elsewhere as here
  expect_output 'try 2' here wsctl submit --retries 3 --retry-delay 50ms @fleet/ledger:nth "$WORK/tries" x 2
}
check "retries: each one runs" tried_again
fails_again() {
  local id
  id=$(here wsctl submit --detach --retries 2 --retry-delay 50ms @fleet/echo:status 3) && expect_exit 3 here wsctl await "$id" &&
    here wsctl --json status "$id" | grep -q '"exit":3,' && here wsctl status "$id" | grep -qE '^attempts +3'
}
check "also of what may not run twice" fails_again
after() {
  local id
  id=$(here wsctl submit --detach @fleet/echo first) && expect_output second here wsctl submit --after "$id" @fleet/echo second
}
check "one after another" after
graph() {
  echo '{"nodes": [{"name": "a", "plugin": "echo:echo", "fleet": true, "args": ["x"]}, {"name": "b", "plugin": "echo", "args": ["y"], "after": ["a"]}]}' >"$WORK/graph"
  sent_more 1 here wsctl run "$WORK/graph"
}
sent_more() { # N COMMAND...: so many jobs go elsewhere
  local n before
  n=$1 before=$(fleet_counter here out sent)
  shift
  "$@" && same "$((before + n))" "$(fleet_counter here out sent)"
}
check "a graph of both" graph
check "--fleet" sent_more 1 expect_output far here wsctl submit --fleet echo far
check "--fleet and a function" sent_more 1 expect_output far here wsctl submit --fleet echo:echo far
mapped_far() { seq 20 | here wsctl map --fleet echo | sort -n | cmp - <(seq 20); }
check "an array with --fleet" sent_more 20 mapped_far
scheduled() {
  here wsctl schedule add far --on 2040-01-01 --fleet -- echo x && here wsctl schedule run far && wait_until far_has_run && here wsctl schedule remove far
}
far_has_run() { [ "$(fleet_counter here out ended)" -gt "$ended" ]; }
ended=$(fleet_counter here out ended)
check "a schedule" sent_more 1 scheduled
for wrong in @here/echo ./echo.so /lib/echo.so '' :echo; do
  check "--fleet with '$wrong' is refused" refused 64 'write (the )?PLUGIN or PLUGIN:FUNCTION' here wsctl submit --fleet "$wrong"
done
check "--fleet is not for --local" refused 64 'not with --local' wsctl submit --local --fleet echo
status() { wsctl fleet status --json --servers "$NATS_URL" | python3 -m json.tool >"$WORK/status" && grep -q '"plugin": "fib"' "$WORK/status"; }
check "status" status
consumer_gone() { python3 "$SRC/tests/support/parts.py" "${NATS_URL##*:}" ask '$JS.API.CONSUMER.DELETE.WSD_JOBS.norm_fib' </dev/null; }
check "a consumer is taken away" consumer_gone
check "it is made again" expect_output 6765 here wsctl submit --timeout 20s @fleet/fib 20
empty() { "$FLEET" -n "$NATS_URL" --status | grep -qE '^jobs +0 '; }
check "nothing is left in the stream" wait_until empty

# --- parts that are gone or wrong, and jobs that wait -------------------------------------------------------------------

check "a node leaves in order" leaves there
waits() {
  here wsctl submit --detach @fleet/echo waited >"$WORK/id" && wait_until in_stream 1 && start_node_fleet there --no-out &&
    expect_output waited here wsctl await "$(cat "$WORK/id")"
}
in_stream() { "$FLEET" -n "$NATS_URL" --status | grep -qE "^jobs +$1 "; }
parts() { python3 "$SRC/tests/support/parts.py" "${NATS_URL##*:}" "$@"; }
part() { parts list | sed -n "$1p"; } # N
large() {                             # a job with an input of three parts waits, and has the id $id
  head -c 3000000 /dev/urandom >"$WORK/in" && id=$(here wsctl submit --detach -i "$WORK/in" @fleet/echo) && wait_until in_stream 1 && parts_are 3
}
spoilt() { # WORDS COMMAND...: a part of a job's input is spoilt before it is taken
  local id words=$1
  shift
  large && "$@" && start_node_fleet there --no-out && says 63 "its input could not be read on there: $words" here wsctl await "$id" &&
    wait_until parts_are 0 && leaves there
}
taken_away() { parts delete "$(part "$1")"; }
replaced() { head -c "$2" /dev/zero | parts replace "$(part "$1")"; }
check "a part of an input is not there" spoilt 'part 2 of 3 is not there' taken_away 2
check "one is shorter" spoilt 'part 3 of 3 has another size' replaced 3 100
check "one is longer" spoilt 'part 3 of 3 has another size' replaced 3 1000000
check "one has other bytes" spoilt 'its parts have another SHA-256' replaced 1 1032192
cancelled_large() {
  local id
  large && here wsctl cancel "$id" && expect_exit 130 here wsctl await "$id" && wait_until in_stream 0 && wait_until parts_are 0
}
check "a job that waits is cancelled: its parts are gone" cancelled_large
spoilt_output() { # WORDS COMMAND...: likewise of an output, while its own node stands still
  local id words=$1
  shift
  id=$(here wsctl submit --detach @fleet/bigoutput 3000000) && wait_until in_stream 1 && kill -STOP "${NODE_FLEET[here]}" &&
    start_node_fleet there --no-out && wait_until in_stream 0 && parts_are 3 && "$@"
  local status=$?
  kill -CONT "${NODE_FLEET[here]}"
  [ $status = 0 ] && says 63 "its output could not be read: $words" here wsctl await "$id" && wait_until parts_are 0 && leaves there
}
check "a part of an output is not there" spoilt_output 'part 1 of 3 is not there' taken_away 1
check "one has other bytes" spoilt_output 'its parts have another SHA-256' replaced 2 1032192
tells_of_init() { grep -q 'Is there no stream WSD_PARTS? .wsctl fleet init. makes it' "$WORK/node-here/fleet.log"; }
without_stream() { # of a fleet that an earlier version has set up
  local id
  parts ask '$JS.API.STREAM.DELETE.WSD_PARTS' </dev/null && head -c 3000000 /dev/urandom >"$WORK/in" && id=$(here wsctl submit --detach -i "$WORK/in" @fleet/echo) &&
    wait_until tells_of_init && "$FLEET" -n "$NATS_URL" --init >"$WORK/made" && wait_until in_stream 1 &&
    start_node_fleet there --no-out && here wsctl await "$id" | cmp - "$WORK/in" && wait_until parts_are 0 && leaves there
}
check "without their stream jobs with parts wait, and the log says for what" without_stream
check "jobs wait for one that can" waits
check "the other one leaves" leaves here
gone_for_good() { refused 66 "no runner of @fleet (is connected|came within)" here wsctl submit @fleet/echo x; }
check "without it a job ends" gone_for_good
check "the last one leaves in order" leaves there

# --- wsd.conf -----------------------------------------------------------------------------------------------------------

conf=$WORK/node-there/wsd.conf
file() { printf '%b' "$1" >"$conf"; }
wrong_file() { # TEXT CODE WORDS: behind FILE:
  file "$1" && says "$2" "^wsd-fleet: $conf$3" "$FLEET" -c "$conf"
}
check "an unknown key: file, line and fix" wrong_file '[fleet]\nserver = x\n' 64 ':2: \[fleet\] has no key `server`; it has: user run-as servers node'
check "a wrong value" wrong_file '[fleet]\n\nheld = 0\n' 64 ':3: held = 0: a number of jobs from 1 to 4096 is wanted'
check "a certificate alone" wrong_file '[fleet]\ntls-cert = /dev/null\n' 64 ':2: \[fleet\] tls-cert: a certificate without its key: set tls-key'
check "nothing to do" wrong_file '[fleet]\nin = no\nout = no\n' 64 ':3: \[fleet\] out: .* set one of them to yes'
check "a file that is not there" wrong_file '[fleet]\ncreds = /no/such\n' 66 ':2: \[fleet\] creds: /no/such: No such file'
check "what is wrong for wsd" wrong_file '[demon]\nworkers = 1\n' 64 ':2: there is no section \[demon\]'
check "no such wsd.conf" says 66 "/no/such: No such file" "$FLEET" -c /no/such
file "[daemon]\nworkers = 2\n[fleet]\nservers = $NATS_URL\nnode = there\nout = no\nplugins = echo\nheld = 8\n"
check "the file names the servers" "$FLEET" -c "$conf" --status
check "the command line is over it" says 69 'nats://127.0.0.1:1: ' "$FLEET" -c "$conf" -n nats://127.0.0.1:1 --status
start_node_fleet_by_file there || exit 1
start_node_fleet here --no-in || exit 1
check "a node that is told by a file takes jobs" expect_output told here wsctl submit @fleet/echo told
only_its_plugins() { says 124 '' here wsctl submit --timeout 300ms @fleet/fib 20; }
check "only for the plugins that the file names" only_its_plugins
oldest() { # USEC PLUGIN: the oldest job for it waits that long at least
  "$FLEET" -n "$NATS_URL" --status --json | python3 -c '
import json, sys
found = [c for c in json.load(sys.stdin)["classes"] if c["plugin"] == sys.argv[2] and c["class"] == "norm"]
sys.exit(not any(c["waiting"] == 1 and int(sys.argv[1]) <= c["oldest_usec"] < 60e6 for c in found))' "$@"
}
how_old() {
  local id
  id=$(here wsctl submit --detach @fleet/fib 20) && wait_until oldest 1000000 fib && ! oldest 59000000 fib && here wsctl cancel "$id"
}
check "how long the oldest job has waited" how_old
check "all leave in order" end_fleet

# --- a stream that is full ----------------------------------------------------------------------------------------------

start_nats small && "$FLEET" -c /dev/null -n "$NATS_URL" --init --jobs-max 2 --keep 30h >"$WORK/made" && start_node_fleet here --no-in || exit 1
more_than_fit() {
  local i ids=()
  for i in 1 2 3 4 5; do ids+=("$(here wsctl submit --detach --timeout 60s @fleet/echo "$i")"); done
  wait_until in_stream 2 && wait_until sent_again && start_node_fleet there --no-out || return 1
  for i in 1 2 3 4 5; do expect_output "$i" here wsctl await "${ids[i - 1]}" || return 1; done
}
sent_again() { [ "$(fleet_counter here out again)" -gt 0 ]; }
check "jobs that it has no room for wait, and run" more_than_fit
kept_for() { # STREAM SECONDS
  python3 "$SRC/tests/support/parts.py" "${NATS_URL##*:}" ask "\$JS.API.STREAM.INFO.WSD_$1" </dev/null | grep -E "'max_age': $2"'0{9}[,}]'
}
check "ends are kept as long as was asked for" kept_for RES $((30 * 3600))
check "and parts as long" kept_for PARTS $((30 * 3600))
check "dead jobs for a week as ever" kept_for DEAD $((7 * 24 * 3600))
check "all of these leave in order" end_fleet
