#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# runner-conf.sh: jobs that wait for a runner that is not there, by --wait-runner and by [runner NAME] of wsd.conf; durable
# ones also over the end of wsd. Who may run for whom, and how many (two users).
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/runners.sh"

WSD_OPTIONS=(--workers 2)
export WSD_SOCKET=$WORK/w.sock
waits() { # FILE ARGUMENT...: a job that waits for its runner
  local file=$1
  shift
  submit_behind "$file" --wait-runner "$@"
  wait_until is_queued 1
}
id_of_queued() { wsctl list --state queued --json | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p'; }

printf '[limits]\nkeep-results = 500ms\n' >"$WSD_CONFIG"
serve || exit 1

# --- a submission that waits ------------------------------------------------------------------------------------------

check "without the flag, a runner that is not there is a refusal" refused 66 'pyrunner' wsctl submit pyrunner:args x
comes_later() { waits a pyrunner:args late && run_runner a && has_ended a 0 && same late "$(cat "$WORK/a.out")" && end_runner a; }
check "with it the job waits, and runs when one comes" comes_later
cancelled() { waits a pyrunner:args x && wsctl cancel "$(id_of_queued)" && has_ended a 130 && is_queued 0; }
check "it can be cancelled meanwhile" cancelled
check "its time in the queue ends it" says 124 'max-wait' wsctl submit --wait-runner --max-wait 100ms pyrunner:args x
interrupted() {
  background wsctl submit --wait-runner pyrunner:args x
  wait_until is_queued 1 && kill -TERM "$BACKGROUND_PID" && wait_until is_queued 0
}
check "so does the end of its connection" interrupted
other_function() { waits a pyrunner:nothing && run_runner a && has_ended a 66 && grep -q 'no runner of this name offers' "$WORK/a.err" && end_runner a; }
check "one whose function no runner offers ends when one comes" other_function
check "a function must be named while none is known" refused 64 'name it, as other:FUNCTION' wsctl submit --wait-runner other
check "a plugin needs no runner" expect_output hello wsctl submit --wait-runner echo hello
array_waits() {
  local pid
  (seq 50 | wsctl map --wait-runner pyrunner:line >"$WORK/map.out") &
  pid=$!
  wait_until is_queued 50 && run_runner a --credit 8 && wait $pid && sort -n "$WORK/map.out" | cmp - <(seq 50) && end_runner a
}
check "those of an array wait" array_waits
scheduled() {
  wsctl schedule add waiting --on '2030-01-01' --wait-runner -- pyrunner:args by schedule || return 1
  wsctl schedule run waiting && wait_until is_queued 1 && run_runner a && wait_until is_queued 0 && end_runner a &&
    wsctl schedule remove waiting
}
check "and those of schedules" scheduled
functions() {
  local i
  for ((i = 0; i < 32; i++)); do wsctl submit --detach --wait-runner many:f$i >>"$WORK/many" || return 1; done
  wsctl submit --detach --wait-runner many:f31 >>"$WORK/many" && refused 75 'name 32 functions' wsctl submit --wait-runner many:f32 || return 1
  xargs wsctl cancel <"$WORK/many" && wait_until jobs_are queued 0
}
check "jobs of a name wait for 32 functions at most" functions
names() {
  local i
  wait_until holds_nothing || return 1 # else the names of results that are kept count
  for ((i = 0; i < 64; i++)); do wsctl submit --detach --wait-runner name-$i:f >>"$WORK/names" || return 1; done
  refused 75 'have 64 names' wsctl submit --wait-runner name-64:f && wsctl submit --detach --wait-runner name-0:f >>"$WORK/names" || return 1
  xargs wsctl cancel <"$WORK/names" && wait_until holds_nothing && wsctl submit --detach --wait-runner name-64:f >"$WORK/names" &&
    xargs wsctl cancel <"$WORK/names"
}
check "those of a user wait for 64 names, and names that nothing needs do not count" names

# --- what is shown ----------------------------------------------------------------------------------------------------

shown() {
  run_runner a --credit 3 && run_runner b && submit_behind s pyrunner:sleep 60 && wait_until is_running 1 || return 1
  wsctl runner list >"$WORK/list" && wsctl runner show pyrunner >"$WORK/show" && wsctl runner --json show pyrunner >"$WORK/json" || return 1
  cat "$WORK/list" "$WORK/show" "$WORK/json"
  grep -q '^pyrunner  *2  *1  *7  *0  for tests$' "$WORK/list" && ! grep -q '^fib' "$WORK/list" &&
    grep -q "pid ${RUNNERS[a]}  *user $(id -u)  *runs [01] of 3, since 20" "$WORK/show" && grep -q 'sleep .*\[idempotent\]' "$WORK/show" &&
    grep -q "\"pid\":${RUNNERS[b]},\"credit\":4,\"running\":[01],\"since_usec\":" "$WORK/json" && counter_is runners 2 || return 1
  wsctl complete -- runner show py >"$WORK/complete" && grep -q '^pyrunner' "$WORK/complete" || return 1
  wsctl cancel --all && has_ended s 130 && end_runner a && end_runner b && wait_until counter_is runners 0
}
check "wsctl runner: who is connected, with how much" shown
shown_waiting() {
  waits a pyrunner:args x && wsctl runner list | grep -q '^pyrunner  *0  *0  *0  *1 ' && wsctl runner show pyrunner | grep -q 'no runner is connected' &&
    wsctl cancel --all && has_ended a 130
}
check "and a name for which jobs wait" shown_waiting
check "nothing of a name that there is not" refused 66 'no runner of this name' wsctl runner show no-such

# --- durable ones, over the end of wsd --------------------------------------------------------------------------------

has_run() { same "$1" "$(wsctl await "$id")" && same 1 "$(grep -c "^$1\$" "$WORK/ledger")"; } # WORD: once
durable_waits() {
  id=$(wsctl submit --durable --detach --wait-runner pyrunner:args first) || return 1
  kill_wsd
  serve || return 1
  job_is queued "$id" && run_runner a --ledger "$WORK/ledger" && has_run first && end_runner a
}
check "a durable job that waits does so in the next wsd" durable_waits
durable_runs() {
  run_runner a --ledger "$WORK/ledger" && id=$(wsctl submit --durable --detach pyrunner:sleep 600 "$WORK/second") &&
    wait_until job_is running "$id" || return 1
  kill_wsd
  wait_until closed a
  serve || return 1
  touch "$WORK/second"
  job_is queued "$id" && run_runner a --ledger "$WORK/ledger" && expect_output 'stopped 0' wsctl await "$id" &&
    same 2 "$(grep -c "^600 $WORK/second\$" "$WORK/ledger")" && end_runner a
}
check "one that ran, and may run twice, waits there for its runner" durable_runs
durable_interrupted() {
  run_runner a --ledger "$WORK/ledger" && id=$(wsctl submit --durable --detach pyrunner:mute third) &&
    wait_until grep -q third "$WORK/ledger" || return 1
  kill_wsd
  wait_until closed a
  serve && expect_exit 125 wsctl await "$id" && same 1 "$(grep -c '^third$' "$WORK/ledger")"
}
check "one that ran, and may not, is interrupted" durable_interrupted
durable_behind() { # it waits for a runner that is full
  local first
  run_runner a --credit 1 --ledger "$WORK/ledger" && first=$(wsctl submit --detach pyrunner:sleep 60) && wait_until job_is running "$first" &&
    id=$(wsctl submit --durable --detach pyrunner:say fourth) && job_is queued "$id" || return 1
  kill_wsd
  wait_until closed a
  serve && job_is queued "$id" && run_runner a --ledger "$WORK/ledger" && expect_exit 0 wsctl await "$id" &&
    same 1 "$(grep -c '^fourth$' "$WORK/ledger")" && end_runner a
}
check "one that waited for a runner that was full has not begun" durable_behind

# --- how long jobs wait, and how many runners -----------------------------------------------------------------------------

conf() { # LINES
  printf '[limits]\nkeep-results = 500ms\n%b' "$1" >"$WSD_CONFIG"
}
reload_conf() { conf "$1" && reload_config; }
nobody_came="no runner of pyrunner came within"

reload_conf '[runner pyrunner]\nwait = 300ms\nmax = 2\n'
check "with a section a job comes before its runner, and waits for so long" says 66 "$nobody_came 300ms: start the program that offers it" \
  wsctl submit pyrunner:args x
check "by --wait-runner it waits as long as it takes" comes_later
longer() { # its own: that the other one has ended tells that it waits longer
  waits a pyrunner:args longer && says 66 "$nobody_came" wsctl submit pyrunner:args shorter && is_queued 1 && run_runner a &&
    has_ended a 0 && end_runner a
}
check "also beside one that does not" longer
below_and_above() {
  run_runner a && run_runner b || return 1
  ! run_runner c && grep -q '^closed refused 75: pyrunner has 2 runners, as many as may be (\[runner pyrunner\] max' "$WORK/runner.c" &&
    end_runner b && run_runner b
}
check "max: two connect, the third is refused, until one goes" below_and_above
gone_while_it_waits() {
  local i
  for i in 1 2 3 4 5 6 7 8; do submit_behind "f$i" pyrunner:sleep 60; done # which fill both
  wait_until is_running 8 && submit_behind w pyrunner:args x && wait_until is_queued 1 || return 1
  end_runner a
  end_runner b
  for i in w f1 f2 f3 f4 f5 f6 f7 f8; do has_ended $i 66 && grep -q "$nobody_came" "$WORK/$i.err" || return 1; done
}
check "jobs that wait when the last one goes have the time from then on" gone_while_it_waits
longer_by_reload() {
  reload_conf '[runner pyrunner]\nwait = 1h\n'
  submit_behind r pyrunner:args x
  wait_until is_queued 1 && reload_conf '[runner pyrunner]\nwait = 10ms\n' && has_ended r 66
}
check "another time by a reload holds for jobs that wait" longer_by_reload
at_zero() {
  reload_conf '[runner pyrunner]\nwait = 0\n'
  refused 66 'no runner of pyrunner is connected \(\[runner pyrunner\] wait = 0' wsctl submit pyrunner:args x && comes_later &&
    run_runner a --credit 1 && submit_behind w pyrunner:mute && wait_until is_running 1 && submit_behind z pyrunner:args x &&
    wait_until is_queued 1 && end_runner a && has_ended z 66 && has_ended w 125
}
check "wait = 0: none waits, unless it asks for that" at_zero
durable_with_wait() {
  local id
  reload_conf '[runner pyrunner]\nwait = 1h\n'
  id=$(wsctl submit --durable --detach pyrunner:args fifth) || return 1
  kill_wsd
  serve && job_is queued "$id" && run_runner a && expect_output fifth wsctl await "$id" && end_runner a
}
check "a durable job waits so long in the next wsd, too" durable_with_wait
both() {
  local words='fib is a plugin in .* \[runner fib\] of wsd.conf'
  printf '[runner fib]\nwait = 1s\n' >"$WORK/bad.conf"
  refused 64 "^wsd: $WORK/bad.conf:2: \[runner fib\]: a plugin directory has a plugin fib" wsd --config "$WORK/bad.conf" --plugin-dir "$PLUGINS" --check-config || return 1
  stop_wsd
  conf '[runner fib]\nwait = 1s\n'
  serve || return 1
  refused 64 "$words" wsctl submit fib 5 && ! run_runner f --name fib && grep -qE "$words" "$WORK/runner.f"
}
check "a name that is a plugin's too: each side says so" both
drained() {
  local id
  conf ''
  serve || return 1
  waits d pyrunner:args x && id=$(wsctl submit --durable --detach --wait-runner pyrunner:args sixth) || return 1
  stop_wsd && has_ended d 125 && grep -q 'wsd was ended before a runner of pyrunner came' "$WORK/d.err" || return 1
  serve && job_is queued "$id" && run_runner a && expect_output sixth wsctl await "$id" && end_runner a
}
stop_wsd
check "an orderly end of wsd waits for no runner, and leaves durable jobs to the next one" drained
stop_wsd

# --- whose jobs, with two users -----------------------------------------------------------------------------------------------

if [ "$(id -u)" != 0 ]; then
  skip "runners of one user for others" "needs root"
  exit $((n_failed > 0))
fi
. "$SRC/tests/support/users.sh"
install_for_all echo
install_runner
alice() { as $ALICE "$CTL" "$@"; }
bob() { as $BOB "$CTL" "$@"; }
rules() { printf '[daemon]\nsystem = yes\n[access]\nsubmit = %s %s\n%b' $ALICE $BOB "$1" >"$WSD_CONFIG"; }
reload_rules() { rules "$1" && reload_config; }
left() { grep -q '^left' "$WORK/runner.$1"; }

SHARED="[runner pyrunner]\noffer = $ALICE\nwait = 1h\n"
rules "$SHARED"
start_wsd --workers 2 && chmod 755 "${WSD_SOCKET%/*}" && chmod 666 "$WSD_SOCKET"
refused_offer() { # UID KEY
  ! run_as "$1" "$2" && grep -q '^closed refused 77: this user may not offer pyrunner (\[runner pyrunner\] offer in wsd.conf)' "$WORK/runner.$2"
}
check "a user that is not named may not offer the name" refused_offer $BOB bob
run_as $ALICE alice --ledger "$WORK/tmp/alice"
serves_all() { expect_output mine alice submit pyrunner:args mine && expect_output theirs bob submit pyrunner:args theirs && same 'mine theirs' "$(paste -sd' ' "$WORK/tmp/alice")"; }
check "who is named serves all users" serves_all
opens_for_bob() {
  (cd "$WORK/tmp" && echo "bob's" >bobs && chmod 600 bobs && chown $BOB bobs && expect_output "bob's" bob submit pyrunner:cat bobs) || return 1
  (cd "$WORK/tmp" && echo "alice's" >alices && chmod 600 alices && chown $ALICE alices && expect_exit 1 bob submit pyrunner:cat alices)
}
check "files are opened with the rights of the submitter: bob's own, not those of the runner's user" opens_for_bob
input_of_bob() { head -c 300000 /dev/urandom >"$WORK/tmp/in" && chmod 644 "$WORK/tmp/in" && bob submit -i "$WORK/tmp/in" pyrunner:echo | cmp - "$WORK/tmp/in"; }
check "input comes by descriptor" input_of_bob
# bob's job with its input and its output in an arena, which waits for its runner
cat >"$WORK/inst/lends.py" <<'EOF'
import os
from protocol import Peer, open_arena
with Peer(os.environ['WSD_SOCKET']) as p:
    arena, memory = open_arena(p)
    os.pwrite(memory, b'mine', 8)
    tag = p.submit('pyrunner:echo', flags=64, arena=arena, input_from=2, input_offset=8, input_size=4, output_size=4)
    answer = p.next('ACCEPTED|ERROR', tag)
    if answer.kind == 'ERROR':
        print(answer.message.code, answer.message.text.decode())
    else:
        m = p.end(tag)[0][-1].message
        print(getattr(m, 'exit', 0), m.placed, getattr(m, 'error', b'').decode(), os.pread(memory, 4, 0).decode())
EOF
lends() { as $BOB python3 "$WORK/inst/lends.py"; }
no_arena='a runner of another user cannot use an arena: send the input by its bytes or as a file'
check "but an arena, all of which the runner would have, does not" same "64 $no_arena" "$(lends)"
dies_on_bob() {
  expect_exit 125 bob submit pyrunner:die && wait_until closed_or_gone alice && run_as $ALICE alice
}
closed_or_gone() { ! kill -0 "${RUNNERS[$1]}" 2>/dev/null; }
check "a job of another user that ends the runner is interrupted" dies_on_bob
only_users() {
  reload_rules "${SHARED}users = $ALICE\n" && refused 77 'pyrunner is not for this user \(\[runner pyrunner\] users in wsd.conf\)' bob submit pyrunner:args x &&
    expect_output x alice submit pyrunner:args x
}
check "users: others may not submit to it" only_users

taken_back() { # alice's runner leaves, bob's gets what waits
  reload_rules "$SHARED" || return 1
  as $ALICE "$CTL" submit pyrunner:sleep 1 >"$WORK/tmp/finished" &
  local pid=$!
  wait_until is_running_as_root || return 1
  reload_rules "[runner pyrunner]\noffer = $BOB\nwait = 1h\n" || return 1
  wait $pid && same 'stopped 0' "$(cat "$WORK/tmp/finished")" && wait_until left alice && refused_offer $ALICE alice || return 1
  alice submit pyrunner:args waited >"$WORK/tmp/waited" &
  pid=$!
  wait_until some_job_is queued && run_as $BOB bob && wait $pid && same waited "$(cat "$WORK/tmp/waited")"
}
is_running_as_root() { some_job_is running; }
check "a reload that names another user: the runner finishes what it has, and leaves" taken_back
end_runner bob
own_again() { # a job that waits for the machine's runner goes to the user's own
  local pid
  bob submit --wait-runner pyrunner:args moved >"$WORK/tmp/moved" &
  pid=$!
  wait_until some_job_is queued && reload_rules '' && run_as $BOB bob && wait $pid && same moved "$(cat "$WORK/tmp/moved")"
}
check "without the section, jobs that wait go to the user's own runner" own_again
check "which gets the arena" same '0 4  mine' "$(lends)"
end_runner bob
arena_moves() {
  local pid
  lends >"$WORK/tmp/moved" &
  pid=$!
  wait_until some_job_is queued && reload_rules "$SHARED" && run_as $ALICE alice && wait $pid &&
    same "66 0 $no_arena" "$(tr -d '\0' <"$WORK/tmp/moved" | sed 's/ $//')"
}
check "a job that waits with an arena does not go to the machine's" arena_moves
end_runner alice
reload_rules ''
shared_again() {
  local pid
  bob submit --wait-runner pyrunner:args moved >"$WORK/tmp/moved" &
  pid=$!
  wait_until some_job_is queued && reload_rules "$SHARED" && run_as $ALICE alice && wait $pid && same moved "$(cat "$WORK/tmp/moved")"
}
check "and with it, to the machine's" shared_again
end_runner alice

# Frames made by hand: alice's runner, without `offer`, and bob's jobs.
reload_rules ''
cat >"$WORK/inst/grabs.py" <<'EOF'
"""A runner that does all that frames can, and tells of each job that it gets."""
import os, sys
from protocol import Peer, Closed
with Peer(os.environ['WSD_SOCKET']) as victim:
    pass
offers = []
for name in ('theirs', 'theirs', 'other'):
    p = Peer(os.environ['WSD_SOCKET'])
    p.runner = p.send('RUNNER_OPEN', name=name, credit=256, functions=[{'name': 'f'}, {'name': 'theirs'}])
    p.next('RUNNER', p.runner)
    offers.append(p)
print('ready', flush=True)
sys.stdin.readline() # bob's jobs wait, or are refused
for p in offers:
    if not p.quiet(p.runner, 0.2):
        print('got a job')
guess = offers[0]
for kind in ('RUN_END', 'RUN_OUTPUT', 'RUN_OPEN'): # of a run that it was not given
    try:
        guess.send(kind, guess.runner, run=1 << 32)
        guess.next('ERROR', 0)
    except (Closed, ConnectionError):
        pass
    guess = offers.pop()
print('done', flush=True)
EOF
by_hand() {
  local pid
  mkfifo "$WORK/tmp/go" && chmod 666 "$WORK/tmp/go"
  as $ALICE python3 "$WORK/inst/grabs.py" <"$WORK/tmp/go" >"$WORK/grabs" 2>&1 &
  pid=$!
  note_started $pid
  exec 9>"$WORK/tmp/go"
  wait_until grep -q ready "$WORK/grabs" || return 1
  refused 66 theirs bob submit theirs:f || return 1
  bob submit --detach --wait-runner theirs:f >"$WORK/tmp/bobs-job" && echo go >&9
  wait $pid
  exec 9>&-
  cat "$WORK/grabs"
  grep -q '^done' "$WORK/grabs" && ! grep -q 'got a job' "$WORK/grabs" && wsctl --json status "$(cat "$WORK/tmp/bobs-job")" | grep -q '"queued"'
}
check "another user's runner gets no job of mine, whatever frames it sends" by_hand
stop_wsd
