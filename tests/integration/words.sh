#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# words.sh: what wsctl takes on its command line, wherever it stands there, and what it says where it does not: numbers, times,
# arguments above the limits, graph files, names that are too long.
. "$(dirname "$0")/../support/lib.sh"

start_wsd --plugin-dir "$TEST_PLUGINS" || exit 1

refused_briefly() { # CODE WORDS COMMAND...: in at most 600 bytes
  refused "$@" && [ "$(wc -c <"$WORK/err")" -le 600 ]
}

# --- options behind verbs and sub-verbs ---------------------------------------------------------------------------------

sub_verbs() { # VERB: those of its usage, `-` for the verb itself
  wsctl "$1" --help | sed -n "1s/^usage: wsctl \[OPTION...\] $1 *//p" | sed 's/\[set N\]/set N/' | tr '|' '\n' | awk '/^ *[a-z]+( |$)/ { print $1 }'
  echo -
}
verbs() {
  wsctl --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'
}
all_help() {
  local verb sub n=0 words
  for verb in $(verbs); do
    for sub in $(sub_verbs "$verb"); do
      for words in "${sub#-} --help" "${sub#-} -h"; do
        # shellcheck disable=SC2086 # none or two words
        wsctl $verb $words 2>&1 | grep -q "^usage: wsctl .*$verb" || {
          echo "wsctl $verb $words"
          return 1
        }
        n=$((n + 1))
      done
    done
  done
  [ $n -ge 70 ] || {
    echo "only $n"
    return 1
  }
  wsctl workers set 5 --help | grep -q '^usage' && wsctl schedule run x --help | grep -q '^usage' && wsctl await --help x | grep -q '^usage'
}
json_behind() { # the same objects as with --json before
  local id
  wsctl schedule add here --on yearly fib 5 && id=$(wsctl submit --detach fib 5) && wsctl await "$id" || return 1
  for command in "schedule list" list "list --limit 1" "status $id" "plugin show fib" "plugin list" limit limits "dead list"; do
    # shellcheck disable=SC2086 # words
    { wsctl --json $command >"$WORK/before" && wsctl $command --json >"$WORK/behind" && cmp "$WORK/before" "$WORK/behind"; } || {
      echo "$command"
      return 1
    }
  done
  wsctl schedule list --json | grep -q '"name":"here"' && wsctl schedule --json list | cmp - <(wsctl schedule list --json) &&
    wsctl schedule run here --json | grep -q '"id":' && wsctl ping --json | grep -q usec && wsctl await "$id" --json | grep -q '"state":"succeeded"' &&
    wsctl workers --json | grep -q '"kind"' && wsctl workers set 2 --json | grep -q '"workers":2' && wsctl limit fib 5 --json && wsctl limit --json fib none &&
    wsctl pause --quiet fib && wsctl resume fib -q && wsctl schedule remove here --json
}
still_the_jobs() { # what is behind a plugin is its own
  expect_output --help wsctl submit echo --help && expect_output $'-q\n--json=x' wsctl submit echo -q --json=x &&
    expect_output $'-h\nx' wsctl map echo -h ::: x && expect_output --json wsctl submit -- echo --json || return 1
  # options of ours behind the plugin end where the job's arguments begin
  echo precious >"$WORK/precious"
  expect_output $'-o\n'"$WORK/precious" wsctl submit echo --quiet -o "$WORK/precious" &&
    expect_output $'-i\n--quiet' wsctl submit echo --no-progress --quiet -i --quiet &&
    expect_output $'--unknown' wsctl submit echo --quiet --timeout 1min --unknown && [ "$(cat "$WORK/precious")" = precious ]
}
stdout_named() { # by a hyphen: as without it
  expect_output 55 wsctl submit --output - fib 10 && wsctl submit --json --output - fib 10 | grep -q '"output":"NTUK"' &&
    wsctl submit --json --local --plugin-dir "$PLUGINS" --output - fib 10 | grep -q '"output":"NTUK"'
}
nothing_named() { # an empty variable is no wider choice
  refused_briefly 64 "tag" wsctl pause --tag '' && refused_briefly 64 "tag" wsctl resume --tag '' &&
    refused_briefly 64 "PLUGIN" wsctl plugin release fib: && refused_briefly 64 PLUGIN wsctl pause fib:
}
check "--help behind each verb and sub-verb" all_help
check "--json behind verbs and sub-verbs" json_behind
check "but not what is a job's own" still_the_jobs
check "--output -" stdout_named
check "an empty tag or function is refused" nothing_named

# --- numbers --------------------------------------------------------------------------------------------------------------

no_time() {
  refused_briefly 64 "above 0" wsctl submit --timeout 0 fib 2 && refused_briefly 64 "above 0" wsctl profile --seconds 0s
}
check "no time at all is said to be none" no_time
no_numbers() {
  local text
  for text in 0x10 1e3 1e-3s inf nan +5 -5 ' 5x' 1,5 0x1p3 1E3 infinity '' 5.5.5 .5; do
    for option in --timeout --delay --max-wait --retry-delay --wait-for-room; do
      refused_briefly 64 "not a duration" wsctl submit "$option=$text" fib 2 || return 1
    done
    for option in --priority --retries --workers; do
      [ "$option$text" = --priority-5 ] || refused_briefly 64 "not a" wsctl submit "$option=$text" fib 2 || return 1
    done
    refused_briefly 64 "not a" wsctl map "--jobs=$text" fib ::: 2 && refused_briefly 64 "not a|wanted" wsctl list "--since=$text" &&
      refused_briefly 64 "" wsctl list "--limit=$text" && refused_briefly 64 "" wsctl bench "--count=$text" && refused_briefly 64 "" wsctl bench "--size=$text" &&
      refused_briefly 64 "" wsctl top "--delay=$text" && refused_briefly 64 "" wsctl top "--rows=$text" && refused_briefly 64 "" wsctl trace "--seconds=$text" &&
      refused_briefly 64 "" wsctl workers set -- "$text" && refused_briefly 64 "" wsctl limit -- fib "$text" || return 1
  done
  refused_briefly 64 "1:49: timeout: 1e3: not a duration" wsctl run - <<<'{"nodes":[{"name":"a","plugin":"echo","timeout":1e3}]}'
}
check "no hexadecimal, no exponent, no inf, no sign, no blank" no_numbers

# --- sizes and names --------------------------------------------------------------------------------------------------------

long() { # BYTES
  head -c "$1" /dev/zero | tr '\0' x
}
large_arguments() {
  refused_briefly 64 'echo: arguments: at most 4096.*48 KiB.*wsctl map' wsctl submit echo "$(long 50000)" &&
    refused_briefly 64 '4096.*wsctl map' wsctl submit echo $(seq 5000) && wsctl submit echo "$(long 49151)" >/dev/null &&
    refused_briefly 64 '48 KiB' wsctl map echo < <(long 100000) && refused_briefly 64 '48 KiB' wsctl map echo ::: "$(long 100000)" &&
    refused_briefly 64 '48 KiB' wsctl schedule add x --on yearly echo "$(long 50000)" && refused_briefly 2 'usage' wsctl map fib ::: "$(long 40000)" &&
    refused_briefly 64 "not a duration" wsctl submit --timeout "$(long 100000)" fib && refused_briefly 64 "not the id" wsctl status "$(long 100000)"
}
long_socket() {
  refused_briefly 64 'at most 107 bytes' wsctl --socket "/tmp/$(long 103)" ping && refused_briefly 69 'no daemon' wsctl --socket "/tmp/$(long 102)" ping &&
    refused_briefly 64 'at most 107 bytes' env WSD_SOCKET="/tmp/$(long 103)" wsctl ping
}
check "arguments above the limit: it is named, and what takes more; they are not repeated whole" large_arguments
check "a socket's path above the limit" long_socket

# --- graphs -----------------------------------------------------------------------------------------------------------------

byte_order_mark() {
  printf '\xef\xbb\xbf{"nodes":[{"name":"a","plugin":"echo","args":["x"]}]}' >"$WORK/graph" && expect_output x wsctl run "$WORK/graph" &&
    refused_briefly 64 'graph:1:1: an object' sh -c "printf '\357\273\277[]' >'$WORK/graph'; wsctl run '$WORK/graph'" &&
    refused_briefly 64 'it ends' sh -c "printf '\357\273\277' | wsctl run -" && refused_briefly 64 '1:1: no value begins so' sh -c "printf '\376\377{' | wsctl run -"
}
one_thing() { # WORDS JSON
  refused_briefly 64 "$1" wsctl run - <<<"$2" && ! grep -q 'and nothing else\|no number, and' "$WORK/err"
}
check "a graph's file with a byte order mark" byte_order_mark
check "JSON: no value" one_thing '1:10: no value begins so: an object, .*a number, true, false or null is wanted$' '{"nodes":nope}'
check "JSON: no number" one_thing '1:10: no digit behind the minus of a number$' '{"nodes":-x}'
check "JSON: a zero too many" one_thing '1:10: a number begins with no zero' '{"nodes":01}'
stop_wsd

printf '[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"
PATH=$WORK/bin:/usr/bin:/bin start_wsd || exit 1
environment() { # of commands: as wsd.conf(5) has it
  (umask 022 && X=1 expect_output "PATH=$WORK/bin:/usr/bin:/bin" wsctl submit exec env && cd / && expect_output $'0077\n/' wsctl submit exec sh -c 'umask; pwd')
}
check "exec: directory, umask and PATH, and no other variable" environment
stop_wsd
