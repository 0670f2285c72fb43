#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# escape.sh: whatever a user, a job or an executor calls something, nothing that wsctl or wsd says of it for people steers a
# terminal. Every verb with hostile bytes in each of its fields, on a terminal and off, looked at by support/printable.py, which
# has a definition of its own of what is printable.
# shellcheck disable=SC2119 # words of their own
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/runners.sh"
cd "$WORK" || exit 1 # an option that names a file makes it here

# A title of the window, a line that looks like another one, C1 as UTF-8 and as bytes, what turns text around, half a character.
H=$'h\e]0;x\a\nstate     succeeded\r\b\x7f\xc2\x9b31m\x9b2J\xe2\x80\xae\xe2\x80\xa8\xf3\xa0\x81\xa1\xe2\x82'
F=${H//\//} # as the name of a file
LIAR=$BUILD/tests/support/shims/liar
PRINTABLE=$SRC/tests/support/printable.py

look() { # ARGUMENTS of printable.py: what it finds is shown at the end; any other status is its own fault
  "$PRINTABLE" "$@" >>"$WORK/found" || [ $? = 3 ] || echo "printable.py broke" >>"$WORK/found"
}
together=''      # a file, where many commands are for one call of printable.py: to start it takes longer than they do
those_before() { # what stands there is done now
  look --each "$together"
  : >"$together"
}
prints() { # [--stderr] COMMAND...
  if [ -n "$together" ]; then
    printf '%s\0' $# "$@" >>"$together"
  else
    look "$@"
  fi
}
clean() {
  cat "$WORK/found"
  [ ! -s "$WORK/found" ]
}
walk() { # NAME COMMAND...
  local together=$WORK/together
  : >"$WORK/found"
  : >"$together"
  "${@:2}" >"$WORK/walk.out" 2>&1
  those_before
  check "$1" clean
}
both() { # ARGUMENTS...: for people and as JSON
  prints wsctl "$@"
  prints wsctl --json "$@"
}

# --- what any verb may be given -------------------------------------------------------------------------------------------

verbs() {
  wsctl --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'
  echo complete
}
options() { # VERB: those with a value
  wsctl "$1" --help | grep -o -- '^ *\(-[a-zA-Z], \)\?--[a-z-]* [A-Z]' | grep -o -- '--[a-z-]*' | sort -u
  printf -- '--%s\n' socket host tls-cert tls-key tls-ca
}
sub_verbs() { # VERB
  wsctl "$1" --help | sed -n "1s/^usage: wsctl \[OPTION...\] $1 *//p" | sed 's/\[set N\]/set N/' | tr '|' '\n' | awk '/^ *[a-z]+( |$)/ { print $1 }'
}
any_arguments() { # VERB
  local verb=$1 option sub few=()
  [ "$verb" != bench ] || few=(--count 1)
  [ "$verb" != profile ] || few=(--seconds 0.1)
  both "$verb" "${few[@]}" "$H"
  both "$verb" "--$H"
  both "$verb" "-$H"
  for sub in $(sub_verbs "$verb"); do
    both "$verb" "$sub" "$H"
    both "$verb" "$sub" "$H" "$H"
  done
  for option in $(options "$verb"); do
    prints wsctl "$verb" "${few[@]}" "$option=$H" escapes
    [ -z "${WSD_THOROUGH:-}" ] || prints wsctl "$verb" "${few[@]}" escapes "$option" "$H"
  done
}
any_verb() {
  prints wsctl "$H"
  prints wsctl "--$H"
  prints env WSD_SOCKET="$WORK/$F" wsctl ping
  prints env WSD_HOST="$H:1" wsctl ping
  prints env WSD_CONFIG="$WORK/$F" wsctl list
  prints wsctl --socket "$WORK/$F" --json ping
}

# --- each verb, with what it alone has --------------------------------------------------------------------------------------
# liars: ids of jobs whose executor said hostile things; keyed, dead, batch, graph: of others.

liars=()
hostile_jobs() {
  local plugin id
  for plugin in escapes escapes-load escapes-fault escapes-spoilt; do
    id=$(wsctl submit --detach --key "$H$plugin" --durable "$plugin" "$H" 2>/dev/null) || continue
    liars+=("$id")
    wsctl await "$id" >/dev/null 2>&1
  done
  [ ${#liars[@]} -ge 3 ] && waiting=$(wsctl submit --detach --durable --key "$H-waiting" --delay 1h escapes "$H") &&
    batch=$(printf '%s\0' "$H" "$H" | wsctl map --null --detach escapes) && (cd "$WORK/$F" && wsctl submit --detach escapes)
}

walk_submit() {
  prints --stderr wsctl submit escapes "$H"
  prints wsctl --json submit escapes "$H"
  prints --stderr wsctl submit escapes-load
  prints --stderr wsctl submit "./$F.so:f"
  prints --stderr wsctl submit "escapes:$H"
  prints --stderr wsctl submit --input "$WORK/$F/none" escapes
  prints --stderr wsctl submit --output "$WORK/$F" escapes
  prints --stderr wsctl submit --output "$WORK/none/$F" escapes
  prints --stderr wsctl submit --key "$H-other" --durable escapes "$H"
  prints --stderr wsctl submit --local "./$F.so"
  prints --stderr wsctl submit --local --plugin-dir "$WORK/$F" "$F"
  prints --stderr wsctl submit --local sleep "$H"
  prints --stderr wsctl submit --local --plugin-dir "$TEST_PLUGINS" self "$H"
  those_before
  (together='' && cd "$WORK/$F" && cp "$PLUGINS/fib.so" . && prints --stderr wsctl submit ./fib.so 3 && prints --stderr wsctl submit fib.so "$H" && prints --stderr wsctl submit ./none)
}
walk_map() {
  prints --stderr wsctl map escapes ::: "$H" "b$H"
  prints wsctl --json map escapes ::: "$H"
  prints --stderr wsctl map --unordered escapes ::: "$H" b
  prints --stderr wsctl map --output-dir "$WORK/$F" escapes ::: "$H"
  prints --stderr wsctl map "./$F.so" ::: a
  prints --stderr sh -c 'printf "%s\0" "$1" "$1" | wsctl map -0 escapes' sh "$H"
  prints --stderr sh -c 'printf "%s\n" "$1" "$1" | wsctl map escapes {}' sh "$H"
  prints --stderr wsctl map escapes ::: "$(head -c 60000 /dev/zero | tr '\0' '\033')"
}
walk_run() {
  local n=0 graph
  for graph in "{\"nodes\":[{\"name\":\"a\",\"plugin\":\"escapes\"}]}" "{\"nodes\":[{\"name\":\"$H\",\"plugin\":\"escapes\"}]}" "$H" "{\"nodes\":[$H" \
    '{"nodes":[{"name":"a","plugin":"\u001b]0;x\u0007\u009b"}]}' '{"nodes":[{"name":"\u001b]0;\u202e","plugin":"fib"}]}' \
    '{"nodes":[{"name":"a","plugin":"fib","after":["\u001b]0;\u202e"]}]}' '{"nodes":[{"name":"a","plugin":"fib","\u001b]0;\u202e":1}]}' \
    '{"nodes":[{"name":"a","plugin":"fib","timeout":"\u001b]0;\u202e"}]}' '{"nodes":[{"name":"a","plugin":"fib","input":"\u001b]0;\u202e"}]}'; do
    n=$((n + 1))
    printf '%s' "$graph" >"$WORK/$F/$n$F"
    prints --stderr wsctl run "$WORK/$F/$n$F"
    prints wsctl --json run "$WORK/$F/$n$F"
    prints wsctl run --dot - --dry-run "$WORK/$F/$n$F"
  done
  prints --stderr wsctl run --output-dir "$WORK/none/$F" "$WORK/$F/1$F"
  prints --stderr wsctl run "$WORK/$F/none"
}
walk_await() {
  prints --stderr wsctl await "${liars[@]}"
  prints wsctl --json await "${liars[@]}"
  prints --stderr wsctl await "$batch"
}
walk_attach() {
  prints --stderr wsctl attach "${liars[@]}"
  prints wsctl --json attach "${liars[@]}"
}
walk_status() {
  local id
  for id in "${liars[@]}" "$waiting" "$batch"; do both status "$id"; done
}
walk_list() {
  both list
  both list --key "$H"
  both list --plugin "$H"
  prints timeout 2 wsctl list --watch --delay 500ms
}
walk_cancel() {
  both cancel --plugin "$H"
  both cancel --dry-run --plugin "$H"
  both cancel --dry-run --all
}
walk_dead() {
  both dead list
  both dead retry "${liars[0]}"
  both dead drop "${liars[0]}"
}
walk_schedule() {
  both schedule add "$H" --on daily fib 2
  both schedule add hostile --on "$H" fib 2
  both schedule add hostile --on yearly --key "$H" escapes "$H"
  both schedule add other --on yearly "./$F.so" "$H"
  both schedule list
  both schedule run hostile
  both schedule list
  both schedule remove hostile
}
walk_plugin() {
  both plugin list
  for name in escapes escapes-load escapes-fault "$F" "$WORK/$F/fib.so"; do
    both plugin show "$name"
    both plugin reload "$name"
    both plugin release "$name:$H"
  done
}
walk_runner() {
  run_runner hostile --words "$H" || echo "no runner" >>"$WORK/found"
  both runner list
  both runner show pyrunner
  both plugin show pyrunner
  prints --stderr wsctl submit pyrunner:say "$H"
  those_before
  end_runner hostile
}
walk_web() { both web --listen "$H"; }
walk_fleet() { both fleet status --servers "$H"; }
walk_ping() { both ping; }
walk_bench() { prints --stderr wsctl bench --count 3 escapes "$H"; }
walk_stats() {
  both stats
  both stats --functions
  both stats --functions --sort "$H"
  both stats --functions --user "$H"
  both stats escapes "$H" "./$F.so:$H"
}
walk_workers() { both workers; }
walk_top() {
  prints wsctl top --batch --iterations 2 --delay 100ms
  prints wsctl top --json --iterations 2 --delay 100ms
  prints --screen timeout 3 wsctl top --iterations 2 --delay 200ms
  prints env TERM="$H" wsctl top
}
walk_trace() {
  wsctl submit asked-text
  wsctl trace --start && prints wsctl trace --stop -o -
  prints wsctl trace --seconds 0.1 -o "$WORK/$F/trace"
  prints wsctl trace --seconds 0.1 -o "$WORK/none/$F"
}
walk_profile() {
  wsctl submit asked-text
  prints wsctl profile --seconds 0.1 --folded
  prints wsctl profile --seconds 0.1 -o -
  prints wsctl profile --seconds 0.1 "$H"
  prints wsctl --json profile --seconds 0.1 "$H"
  prints wsctl profile --seconds 0.1 -o "$WORK/$F/profile"
  prints wsctl profile --seconds 0.1 --pprof -o "$WORK/none/$F"
}
walk_pause() {
  both pause "./$F.so"
  both pause "escapes:$H"
  both list
}
walk_limit() {
  both limit "./$F.so" 3
  both limit
  both limit "$H" none
}
walk_limits() {
  both limits
  both limits "$H=1"
  both limits "max-jobs=$H"
  both limits --user "$H"
}
walk_actions() {
  both pause "./$F.so"
  both pause "$H"
  both limits "$H=$H"
  both plugin reload "$H"
  both actions
  both actions --limit "$H"
}
walk_resume() {
  both resume "./$F.so"
  both resume "escapes:$H"
}
walk_drain() {
  prints timeout 5 wsctl drain --wait "$H"
  those_before
  wsctl resume
}
walk_version() { both version; }
walk_complete() {
  local words
  for words in "submit " "submit e" "status " "cancel " "schedule remove " "plugin show " "submit --output=$H" "limit "; do
    # shellcheck disable=SC2086 # words
    prints wsctl complete ${words% } ""
  done
  prints wsctl complete submit "--$H=" && prints wsctl complete "$H" ""
}

# --- wsd ------------------------------------------------------------------------------------------------------------------

wsd_itself() {
  printf '[limits]\n%s = 1\n' "$H" >"$WORK/$F/conf"
  prints wsd "$H"
  prints wsd "--$H"
  prints wsd --config "$WORK/$F/none"
  prints wsd --check-config --config "$WORK/$F/conf"
  prints wsd --config "$WORK/$F/conf" --socket "$WORK/x"
  prints wsd --config /dev/null --socket "$WORK/none/$F"
  prints wsd --config /dev/null --socket "$WORK/x" --log-level "$H"
  prints wsd --config /dev/null --socket "$WORK/x" --state-dir "/dev/null/$F"
  prints wsd --print-config --config /dev/null --plugin-dir "$WORK/$F"
}
# Seen through JSON, where wsctl would write \u001b for what it had to escape itself.
escaped_in_wsd() {
  local id
  for id in "${liars[@]}"; do wsctl --json status "$id" | sed 's/"key":"[^"]*"//'; done >"$WORK/json"
  wsctl --json submit escapes >>"$WORK/json"
  wsctl --json plugin show escapes | sed 's/"path":"[^"]*"//' >>"$WORK/json"
  ! grep -aE '\\u(00|20|d[b-f])|�' "$WORK/json" && for word in error status help frame '1' f -spoilt; do
    grep -qF "\"$word\\\\x1b]0;x\\\\x07\\\\x0a" "$WORK/json" || grep -qF "#0 $word\\\\x1b]0;x\\\\x07" "$WORK/json" || {
      echo "no $word"
      cat "$WORK/json"
      return 1
    }
  done
}
log_is_printable() { # LOG WORDS...: which stand there as escapes
  local word
  "$PRINTABLE" --file "$1" || return 1
  for word in "${@:2}"; do grep -aqF -- "$word" "$1" || {
    echo "no $word"
    tail -n 20 "$1"
    return 1
  }; done
}

# --- no other way out -------------------------------------------------------------------------------------------------------

# print.c is the only file of wsctl that writes text to stdout or stderr; these write constants, ids, JSON, and DOT, whose names are tags.
one_way_out() {
  ! grep -nE '(^|[^a-z_])(printf|vprintf|puts|putchar|perror)\(|f(puts|printf|write)\([^;]*(stdout|stderr)|dprintf\(|write\(STD' "$SRC"/client/wsctl/*.c |
    grep -vE '/(print|progress|json-write)\.c:|/(main|options)\.c:.*printf\($|/(main|options)\.c:.*(usage: wsctl|WSD_VERSION|verbs\[i\])|list\.c:.*fputs\("\\033\[H\\033\[J", stdout\)|screen\.c:.*farewell|submit\.c:.*leaving'
}

mkdir "$WORK/$F"
EXECUTOR=$LIAR
start_wsd || exit 1
check "jobs whose executor would steer terminals" hostile_jobs
check "what an executor says is escaped in wsd, for each client" escaped_in_wsd
for verb in $(verbs); do
  if [ "$(type -t "walk_$verb")" = function ]; then
    walk "wsctl $verb" "walk_$verb"
  else
    fail "wsctl $verb" "a new verb: it needs a walk_$verb here"
  fi
  walk "wsctl $verb: any arguments and options" any_arguments "$verb"
done
walk "wsctl without a verb, and its environment" any_verb
check "wsd's log" log_is_printable "$WSD_LOG" 'stderr\x1b]0;x\x07' 'spoilt\x1b]0;x'
stop_wsd
EXECUTOR=$BUILD/daemon/executor/wsd-executor
walk "wsd itself" wsd_itself
check "what is printed goes one way" one_way_out
