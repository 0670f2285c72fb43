#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# places.sh: runners that take jobs for whatever plugin: `@PLACE/PLUGIN:FUNCTION`. What is refused, what waits, what runs
# again, and what one user's jobs there can do to another's (two users).
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/runners.sh"

WSD_OPTIONS=(--workers 2)
RUNNER_NAME=@here
export WSD_SOCKET=$WORK/w.sock
place() { # KEY OPTION...
  local key=$1
  shift
  run_runner "$key" --name @here "$@"
}
queued() { [ "$(wsctl list --state queued --json | grep -c '"@here/')" = "$1" ]; }
running() { [ "$(wsctl list --state running --json | grep -c '"@here/')" = "$1" ]; }
id_of_queued() { wsctl list --state queued --json | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p'; }

printf '[limits]\nkeep-results = 500ms\n' >"$WSD_CONFIG"
serve || exit 1

# --- what is refused --------------------------------------------------------------------------------------------------

check "a place that no runner has" refused 66 'no runner of @here is connected: start the program that offers it' wsctl submit @here/fib 5
for wrong in @here @here/ @/fib @here/a/b '@he re/fib' @-x/fib @here/.x "@here/$(printf 'x%.0s' {1..64})" "@$(printf 'x%.0s' {1..63})/fib"; do
  check "no place: ${wrong:0:20}" refused 64 'what begins with @ is for a place: write @PLACE/PLUGIN' wsctl submit "$wrong" 5
done
check "nothing to show of it" refused 66 'no runner has this name' wsctl plugin show @here/fib
offers_others() { ! place a --only args && grep -q '^closed refused 64: what begins with @ is a place: it offers one function, `\*`' "$WORK/runner.a"; }
check "a place offers one function for all" offers_others
no_name() { ! run_runner a --name @ && grep -q '^closed refused 64: the name of a runner' "$WORK/runner.a"; }
check "and has a name" no_name

# --- whose jobs it gets -----------------------------------------------------------------------------------------------

place a || exit 1
who() { [ "$(wsctl submit "@here/$1" a b)" = "$2|a|b" ] || wsctl submit "@here/$1" a b; }
check "PLUGIN:FUNCTION" who plain:who plain:who
check "the main function by the plugin's name" who who who
check "also where it is named" who who:who who
longest=$(printf 'p%.0s' {1..63})
check "the longest names" who "$longest:who" "$longest:who"
check "the machine's own plugin is another one" expect_output 5 wsctl submit fib 5
check "what the place does not have, its runner ends" says 1 'this place has no checksum:no-such' wsctl submit @here/checksum:no-such

# --- what is shown ----------------------------------------------------------------------------------------------------

shown() {
  wsctl runner list >"$WORK/list" && wsctl runner show @here >"$WORK/show" && wsctl plugin list >"$WORK/plugins" || return 1
  cat "$WORK/list" "$WORK/show" "$WORK/plugins"
  grep -q '^@here  *1  *0  *4  *0  for tests$' "$WORK/list" && grep -q "pid ${RUNNERS[a]} " "$WORK/show" && grep -q '\* .*\[idempotent\]' "$WORK/show" &&
    grep -q '^@here ' "$WORK/plugins" && wsctl plugin show @here/any >"$WORK/any" && cmp <(wsctl plugin show @here) "$WORK/any"
}
check "wsctl runner and wsctl plugin show the place" shown
seen() {
  local id
  id=$(wsctl submit --detach @here/checksum:sleep 60) && wait_until job_is running "$id" || return 1
  wsctl --json status "$id" | grep -q '"plugin":"@here/checksum","function":"sleep"' &&
    same "$id" "$(wsctl list --plugin @here/checksum --json | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p')" && wsctl cancel "$id"
}
check "a job has its plugin's and function's names" seen

# --- in the ways that jobs are submitted ------------------------------------------------------------------------------

mapped() { seq 200 | wsctl map @here/any:line | sort -n | cmp - <(seq 200); }
check "an array" mapped
in_graph() {
  cat >"$WORK/graph.json" <<'END'
{"nodes": [{"name": "first", "plugin": "@here/any:args", "args": ["one"]},
           {"name": "second", "plugin": "echo", "args": ["two"], "after": ["first"]}]}
END
  wsctl run "$WORK/graph.json" >"$WORK/graph.out" 2>&1 || {
    cat "$WORK/graph.out"
    return 1
  }
}
check "a graph" in_graph
scheduled() {
  local before
  before=$(counter jobs_succeeded)
  wsctl schedule add elsewhere --on '2030-01-01' -- @here/any:args by schedule && wsctl schedule run elsewhere &&
    wait_until counter_above jobs_succeeded "$before" && wsctl schedule remove elsewhere
}
counter_above() { [ "$(counter "$1")" -gt "$2" ]; }
check "a schedule" scheduled
input() { head -c 300000 /dev/urandom >"$WORK/in" && wsctl submit -i "$WORK/in" @here/any:echo | cmp - "$WORK/in"; }
check "with an input" input
end_runner a

# --- jobs that wait, and that run again ---------------------------------------------------------------------------------

waits() { # FILE ARGUMENT...
  local file=$1
  shift
  submit_behind "$file" --wait-runner "$@"
  wait_until queued 1
}
waited() { waits w @here/late:args x && place a && has_ended w 0 && same x "$(cat "$WORK/w.out")"; }
check "--wait-runner: it runs when the place is there" waited
again() {
  submit_behind r @here/any:sleep 600 "$WORK/go-r"
  wait_until running 1 && end_runner a && wait_until queued 1 && touch "$WORK/go-r" && place a && has_ended r 0 && same 'stopped 0' "$(cat "$WORK/r.out")"
}
check "* may run twice: so may all of its jobs" again
early() { # accepted before the place has said so
  end_runner a
  waits e @here/any:sleep 600 "$WORK/go-e" && place a && wait_until running 1 && end_runner a && wait_until queued 1 &&
    touch "$WORK/go-e" && place a && has_ended e 0
}
check "also one that waited for it" early
durable() {
  local id
  end_runner a
  id=$(wsctl submit --durable --detach --wait-runner @here/kept:who x) || return 1
  kill_wsd
  serve && job_is queued "$id" && place a && expect_output 'kept:who|x' wsctl await "$id" && end_runner a
}
check "a durable job waits for the place in the next wsd" durable

# --- limits -------------------------------------------------------------------------------------------------------------

fills() { # N FORMAT: as many wait, and one more is refused
  local i
  : >"$WORK/ids"
  for ((i = 0; i < $1; i++)); do
    # shellcheck disable=SC2059
    wsctl submit --detach --wait-runner "$(printf "$2" $i)" >>"$WORK/ids" || return 1
  done
  # shellcheck disable=SC2059
  wsctl submit --detach --wait-runner "$(printf "$2" 0)" >>"$WORK/ids" && refused 75 "$3" wsctl submit --wait-runner "$(printf "$2" "$1")"
}
empties() { xargs wsctl cancel <"$WORK/ids" && wait_until jobs_are queued 0 && wait_until holds_nothing; }
check "jobs of a user name 64 plugins at a place" fills 64 '@there/p%d:f' 'too many plugins in use'
check "those that no job names any more do not count" empties
check "and 64 functions of one" fills 64 '@there/p:f%d' 'name 64 functions'
check "which do not count when they have ended" empties
others() { wsctl submit --detach --wait-runner @there/p:g >"$WORK/ids" && empties; }
check "so there is room again" others

# --- limits that an administrator sets ------------------------------------------------------------------------------------

place a || exit 1
paused() {
  wsctl pause @here/held && submit_behind p @here/held:args x && wait_until queued 1 && expect_output y wsctl submit @here/other:args y &&
    wsctl resume @here/held && has_ended p 0
}
check "a plugin of it can be paused" paused
end_runner a
printf '[limits]\nkeep-results = 500ms\n[runner @here]\nwait = 300ms\nmax = 1\n' >"$WSD_CONFIG"
reload_config
check "[runner @here]: how long a job waits" says 66 'no runner of @here came within 300ms' wsctl submit @here/any:args x
one_only() { place a && ! place b && grep -q '@here has 1 runners, as many as may be' "$WORK/runner.b"; }
check "and how many runners there may be" one_only
end_runner a
stop_wsd

# --- whose jobs, with two users -----------------------------------------------------------------------------------------------

if [ "$(id -u)" != 0 ]; then
  skip "a place of one user for others" "needs root"
  exit $((n_failed > 0))
fi
. "$SRC/tests/support/users.sh"
install_for_all echo
install_runner
alice() { as $ALICE "$CTL" "$@"; }
bob() { as $BOB "$CTL" "$@"; }
rules() { printf '[daemon]\nsystem = yes\n[access]\nsubmit = %s %s\n%b' $ALICE $BOB "$1" >"$WSD_CONFIG"; }
rules ''
start_wsd --workers 2 && chmod 755 "${WSD_SOCKET%/*}" && chmod 666 "$WSD_SOCKET"
run_as $ALICE alice --name @here
own_only() { expect_output x alice submit @here/any:args x && refused 66 'no runner of @here is connected' bob submit @here/any:args x; }
check "without a section it gets jobs of its own user only" own_only
end_runner alice
rules "[runner @here]\noffer = $ALICE\nwait = 1h\n"
reload_config
run_as $ALICE alice --name @here
serves_all() { expect_output 'any:who|a' alice submit @here/any:who a && expect_output 'any:who|b' bob submit @here/any:who b; }
check "with one it serves all" serves_all
end_runner alice
crowds() {
  local i
  for ((i = 0; i < 64; i++)); do bob submit --detach "@here/p$i:f" >>"$WORK/bobs" || return 1; done
  for ((i = 1; i < 64; i++)); do bob submit --detach "@here/p0:f$i" >>"$WORK/bobs" || return 1; done
  refused 75 'too many plugins' bob submit @here/p64:f && refused 75 'name 64 functions' bob submit @here/p0:f64 || return 1
  alice submit --detach @here/p64:f >>"$WORK/tmp/alices" && alice submit --detach @here/p0:f64 >>"$WORK/tmp/alices"
}
: >"$WORK/tmp/alices"
check "the names that one user's jobs take keep no other user out" crowds
may_not() {
  rules "[runner @here]\noffer = $ALICE\nusers = $ALICE\nwait = 1h\n" && reload_config &&
    refused 77 '@here/p0 is not for this user \(\[runner @here\] users in wsd.conf\)' bob submit @here/p0:f1 x
}
check "users: others may not submit to it" may_not
stop_wsd
