#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# runner.sh: runners: clients that take jobs over their connections. What they are handed, what becomes of jobs when one
# dies, hangs, leaves or says what is impossible, and that a runner gets jobs of its own user only. The runner is
# tests/support/clients/runner.py.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/runners.sh"

JOBS=2000 KILLS=10 PAYLOAD=$BUILD/tests/support/clients/payload
[ -z "${WSD_THOROUGH:-}" ] || JOBS=100000 KILLS=100

printf '[limits]\ncancel-grace = 300ms\nexecutor-answer = 3s\nquarantine-after = 3\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1

# --- what it is handed ------------------------------------------------------------------------------------------------

check "nothing is known of a runner that is not there" refused 66 'pyrunner' wsctl submit pyrunner:args
run_runner a || fail "a runner connects"
check "it is shown as a plugin is" bash -c 'wsctl plugin show pyrunner | grep -q "^runners: 1 pid='"${RUNNERS[a]}"'" && wsctl plugin show pyrunner | grep -q "echo .*idempotent"'
check "and listed beside plugins" bash -c 'wsctl plugin list | grep -q "^pyrunner .*for tests" || { wsctl plugin list; false; }'
check "arguments" expect_output "a|b c|" wsctl submit pyrunner:args a 'b c' ''
check "a function that it does not offer" refused 66 'pyrunner has no function nothing' wsctl submit pyrunner:nothing
check "a status, an error, and the output so far" bash -c '[ "$(wsctl submit pyrunner:fail 3 2>"$WORK/err")" = "so far" ]; [ $? = 0 ] && grep -q "as asked" "$WORK/err"'
check "exit code" expect_exit 3 wsctl submit pyrunner:fail 3
counts_attempts() {
  local id
  id=$(wsctl submit --detach --durable --retries 2 --retry-delay 10ms pyrunner:fail 3) && wsctl await "$id" >/dev/null 2>&1
  wsctl status --json "$id" | grep -q '"attempts":3,.*"status":"attempt 3"'
}
check "which attempt it is, of all tries" counts_attempts
check "what it says" says 0 'hello there' wsctl submit pyrunner:say 'hello there'
shows_progress() { wsctl submit --json pyrunner:progress | grep -q '"cpu_usec":5,.*"done":3,"total":7'; }
check "progress, and CPU time" shows_progress
echoes() { # BYTES
  head -c "$1" /dev/urandom >"$WORK/input"
  # in pieces, and by descriptor
  wsctl submit -i - pyrunner:echo <"$WORK/input" >"$WORK/output" && cmp "$WORK/input" "$WORK/output" || return 1
  wsctl submit -i "$WORK/input" pyrunner:echo >"$WORK/output" && cmp "$WORK/input" "$WORK/output"
}
for size in 0 1 4096 65000 700000 3000000; do
  check "input and output of $size bytes" echoes "$size"
done
fills_an_arena() { # BYTES: exactly as much as there is room for, less one byte
  head -c "$1" /dev/urandom >"$WORK/input" && "$PAYLOAD" arena "$WORK/input" pyrunner:echo 3 | cmp - "$WORK/input"
}
for size in 1 3000000; do
  check "$size bytes of output in an arena" fills_an_arena "$size"
done
streams() { [ "$(wsctl submit -i - pyrunner:read <"$WORK/input")" = 3000000 ]; }
check "a function that streams gets its input as a pipe" streams
read_slowly() {
  local i
  for i in 1 2 3; do
    wsctl submit pyrunner:stream 5000000 | (
      wait_until test -e "$WORK/read"
      wc -c
    ) >"$WORK/slow.$i" &
  done
  wait_until is_running 3 || return 1
  expect_output beside wsctl submit pyrunner:args beside || return 1
  touch "$WORK/read"
  for i in 1 2 3; do
    wait_until test -s "$WORK/slow.$i" && [ "$(cat "$WORK/slow.$i")" = 5000000 ] || return 1
  done
}
check "readers that are slow lose nothing, and hold up no other job of the runner" read_slowly
opens() { (cd "$WORK" && echo words >some.file && expect_output words wsctl submit pyrunner:cat some.file); }
check "files named in arguments" opens
check "an array" bash -c 'seq 300 | wsctl map pyrunner:line | sort -n | cmp - <(seq 300)'
check "wsd_call() and direct lanes leave such a job to the socket" "$BUILD/tests/support/clients/direct-loop" -n 50 -a 4 pyrunner:args x

# --- cancel, time limits ------------------------------------------------------------------------------------------------

cancels() {
  submit_behind c pyrunner:sleep 60
  wait_until is_running 1 || return 1
  wsctl cancel "$(wsctl list --state running --json | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p')" && has_ended c 130 && ! closed a
}
check "a cancel reaches it" cancels
check "so does the end of its time" says 124 'its time was up' wsctl submit --timeout 100ms pyrunner:sleep 60
check "one that heeds neither loses its connection" says 124 'did not heed' wsctl submit --timeout 100ms pyrunner:deaf 60
check "and is told" wait_until closed a
wait "${RUNNERS[a]}"
unset "RUNNERS[a]"

# --- several, and their ends ----------------------------------------------------------------------------------------------

run_runner a --credit 2 && run_runner b --credit 2
check "both are there" n_connected 2
shares() {
  local i
  for i in 1 2 3 4; do submit_behind "s$i" pyrunner:sleep 600 "$WORK/share"; done
  wait_until is_running 4 && touch "$WORK/share" && for i in 1 2 3 4; do has_ended "s$i" 0 || return 1; done
}
check "they share the jobs" shares
runs_again() {
  local i
  for i in 1 2 3 4; do submit_behind "k$i" --json pyrunner:sleep 600 "$WORK/again"; done
  wait_until is_running 4 || return 1
  end_runner b
  touch "$WORK/again"
  for i in 1 2 3 4; do has_ended "k$i" 0 || return 1; done
  [ "$(grep -c '"attempts":2' "$WORK"/k?.out | grep -c ':1$')" = 2 ]
}
check "what ran in one that dies runs again, if it may" runs_again
interrupts() {
  submit_behind m pyrunner:mute
  wait_until is_running 1 || return 1
  end_runner a
  has_ended m 125 && grep -q 'the runner was ended while it ran: its connection ended' "$WORK/m.err"
}
check "else it ends as interrupted" interrupts
waits_for_next() {
  submit_behind w pyrunner:args late
  wait_until is_queued 1 || return 1
  run_runner a --credit 2 && has_ended w 0
}
check "a job waits for the next one for a moment" waits_for_next
is_leaving() { wsctl --json runner list | grep -q '"leaving":true'; }
leaves() {
  submit_behind l pyrunner:sleep 600 "$WORK/done"
  run_runner c --leave "$WORK/leave" --credit 4 || return 1
  wait_until is_running 1 || return 1
  submit_behind l2 pyrunner:sleep 600 "$WORK/done"
  submit_behind l3 pyrunner:sleep 600 "$WORK/done"
  wait_until is_running 3 || return 1
  touch "$WORK/leave"
  wait_until is_leaving || return 1
  touch "$WORK/done"
  has_ended l 0 && has_ended l2 0 && has_ended l3 0 && wait_until grep -q '^left' "$WORK/runner.c" && wait "${RUNNERS[c]}"
}
check "one that leaves finishes what it has" leaves
unset "RUNNERS[c]"
hangs() {
  submit_behind h pyrunner:sleep 600 "$WORK/hangs"
  wait_until is_running 1 || return 1
  stop_process "${RUNNERS[a]}" || return 1
  wait_until grep -q 'executor .* hangs: it did not answer' "$WSD_LOG" || return 1
  touch "$WORK/hangs"
  run_runner b --credit 2 && has_ended h 0
}
check "one that is stopped is replaced by the rule of executors" hangs
end_runner a

# --- one that lies hurts its own jobs only -------------------------------------------------------------------------------

for kind in run old twice offset flood tag status noise; do
  lies() {
    run_runner liar --name "liar-$kind" --credit 2 || return 1
    submit_behind bystander pyrunner:sleep 0.2
    wsctl submit "liar-$kind:lie" "$kind" 2>/dev/null > >(sleep 1) # which reads nothing
    wait_until closed liar && has_ended bystander 0
  }
  check "a runner that lies ($kind) loses its connection, and no other job suffers" lies
  end_runner liar
done
refuses_names() {
  local name
  for name in fib 'a/b' x.so -x .x; do
    "${RUNNER[@]}" --name="$name" >"$WORK/named" 2>&1 && return 1
    grep -qE 'is a plugin|the name of a runner' "$WORK/named" || {
      cat "$WORK/named"
      return 1
    }
  done
}
check "a name that a plugin has, or that is none, is refused" refuses_names

# --- nothing is lost, nothing runs twice ------------------------------------------------------------------------------------

for key in "${!RUNNERS[@]}"; do end_runner "$key"; done
sed -i 's/^quarantine-after.*/quarantine-after = 1000000/' "$WSD_CONFIG"
reload_config || fail "the configuration is read again"
STORMY=(--credit 8 --ledger "$WORK/ledger")
check "runners that are killed again and again: each job is answered once" storm again "$WORK/ledger" pyrunner:slow
check "and what may run once is begun once" storm once "$WORK/ledger" pyrunner:once
sed -i 's/^quarantine-after.*/quarantine-after = 3/' "$WSD_CONFIG"
reload_config || fail "the configuration is read again"

# --- quarantine ------------------------------------------------------------------------------------------------------------

breaks() {
  local i
  for i in 1 2 3 4; do run_runner "d$i" --credit 1 || return 1; done
  for i in 1 2 3; do expect_exit 125 wsctl submit pyrunner:die || return 1; done
  says 75 'quarantine' wsctl submit pyrunner:die
}
check "a function that ends its runners again and again is put into quarantine" breaks
for key in "${!RUNNERS[@]}"; do end_runner "$key"; done

# --- wsd ends, and another one begins -----------------------------------------------------------------------------------------

run_runner a
stop_cleanly() { stop_wsd && wait_until closed a; }
check "wsd ends in order with a runner" stop_cleanly

# --- only one's own jobs ---------------------------------------------------------------------------------------------------------

if [ "$(id -u)" != 0 ]; then
  skip "another user's runner" "needs root"
  exit $((n_failed > 0))
fi
. "$SRC/tests/support/users.sh"
install_for_all echo
install_runner
printf '[daemon]\nsystem = yes\n[access]\nsubmit = %s %s\n' $ALICE $BOB >"$WSD_CONFIG"
start_wsd --workers 2 && chmod 755 "${WSD_SOCKET%/*}" && chmod 666 "$WSD_SOCKET"
run_as $ALICE alice --ledger "$WORK/tmp/alice"
check "a user's runner gets this user's jobs" expect_output mine as $ALICE "$CTL" submit pyrunner:args mine
check "and no other's" refused 66 'pyrunner' as $BOB "$CTL" submit pyrunner:args theirs
run_as $BOB bob --ledger "$WORK/tmp/bob"
check "who has a runner of that name" expect_output theirs as $BOB "$CTL" submit pyrunner:args theirs
check "each got its own" bash -c '[ "$(cat "$WORK/tmp/alice")" = mine ] && [ "$(cat "$WORK/tmp/bob")" = theirs ]'
reads_own() { (cd "$WORK/tmp" && echo secret >alices && chmod 600 alices && chown $ALICE alices && expect_output secret as $ALICE "$CTL" submit pyrunner:cat alices); }
check "files are opened by the runner, with its user's rights" reads_own
end_runner alice
end_runner bob
stop_wsd
