#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# graph.sh: `wsctl run`: a graph of jobs from a file: order, outputs, failures, Ctrl-C, and what is wrong with a file.
. "$(dirname "$0")/../support/lib.sh"

write() { # JSON
  printf '%s\n' "$1" >"$WORK/graph.json"
}
run() { # OPTION...
  wsctl run "$@" "$WORK/graph.json"
}

in_order() { # of the jobs: as the edges say; of the outputs: as the file does
  rm -f "$WORK/ledger"
  write '{"nodes": [
    {"name": "last", "plugin": "ledger:once", "args": ["'"$WORK"'/ledger", "last"], "after": ["left", "right"]},
    {"name": "left", "plugin": "ledger", "function": "once", "args": ["'"$WORK"'/ledger", "side"], "after": ["first"]},
    {"name": "right", "plugin": "ledger:once", "args": ["'"$WORK"'/ledger", "side"], "after-any": ["first"], "priority": 5},
    {"name": "first", "plugin": "ledger:once", "args": ["'"$WORK"'/ledger", "first"], "timeout": "10s", "retries": 2}]}'
  expect_output "last side side first" sh -c 'wsctl run "$0" | xargs' "$WORK/graph.json" &&
    [ "$(xargs <"$WORK/ledger")" = "first side side last" ]
}
example() { # as wsctl(1) prints it
  cd "$WORK" || return 1
  printf '3\n1\n2\n' >numbers
  sed -n '/^\.\\" graph\.sh: graph$/,/^\.EE/{/^[^.]/p}' "$SRC/packaging/man/wsctl.1" | sed 's/\\-/-/g; s/\\(dq/"/g; s/\\\\/\\/g' >pipeline.json
  [ -s pipeline.json ] && wsctl run --output-dir out pipeline.json && [ "$(xargs <out/sorted)" = "1 2 3" ] && [ -s out/sum ] && [ -s out/lines ]
}
shapes() { # one node; no edges; a long chain, backwards in the file; a wide fan
  write '{"nodes":[{"name":"only","plugin":"echo","args":["x"]}]}'
  expect_output x run || return 1
  python3 - >"$WORK/graph.json" <<'PYTHON'
import json
n = 300
print(json.dumps({"nodes": [{"name": "n%d" % i, "plugin": "echo", "args": [str(i)], "after": ["n%d" % (i + 1)] if i < n - 1 else []}
                            for i in range(n)] + [{"name": "fan", "plugin": "echo", "args": ["fan"], "after": ["n%d" % i for i in range(n)]}]}))
PYTHON
  run | cmp - <(
    seq 0 299
    echo fan
  )
}
options() { # what submit has
  local n
  head -c 2000000 /dev/urandom >"$WORK/input"
  rm -f "$WORK/tries"
  write '{"nodes":[{"name":"in","plugin":"echo:echo","input":"'"$WORK/input"'","tags":["a","b"],"durable":true,"key":"k"},
    {"name":"tried","plugin":"ledger:nth","args":["'"$WORK"'/tries","x","3"],"retries":5,"retry-delay":"5ms","after":["in"]}]}'
  run --output-dir "$WORK/out" && cmp "$WORK/input" "$WORK/out/in" && [ "$(cat "$WORK/out/tried")" = "try 3" ] || return 1
  run --json >"$WORK/json" && [ "$(wc -l <"$WORK/json")" = 2 ] || return 1
  head -n 1 "$WORK/json" | grep -q '^{"item":"in",.*"tags":\["a","b"\].*"output":"'
}
failures() { # what follows is not run and does not count; with --keep-going what does not follow goes on
  write '{"nodes":[{"name":"follows","plugin":"echo","after":["fails"]},{"name":"fails","plugin":"echo:status","args":["7"]},
    {"name":"anyway","plugin":"echo","args":["anyway"],"after-any":["follows"]},{"name":"other","plugin":"echo","args":["other"]},
    {"name":"worse","plugin":"echo:status","args":["9"],"after":["other"]}]}'
  expect_exit 7 run --keep-going --dot-to "$WORK/dot" 2>"$WORK/err" >"$WORK/said" && [ "$(grep -x -e anyway -e other "$WORK/said" | xargs)" = "anyway other" ] || return 1
  grep -q '^wsctl: follows: not run: it was to run after fails' "$WORK/err" && grep -q '"follows" \[label="follows\\ncancelled"' "$WORK/dot" &&
    grep -q '"other" \[label="other\\nsucceeded"' "$WORK/dot" || return 1
  write '{"nodes":[{"name":"long","plugin":"sleep:sleep","args":["600000"]},{"name":"fails","plugin":"echo:status","args":["7"]}]}'
  expect_exit 7 run 2>"$WORK/err" && expect_exit 66 wsctl run "$WORK/none" 2>"$WORK/err"
}
odd_inputs() { # no wait for who never writes, and the exit codes of any other file
  mkfifo "$WORK/fifo"
  write '{"nodes":[{"name":"a","plugin":"echo","input":"'"$WORK/fifo"'"}]}'
  expect_exit 66 run 2>"$WORK/err" && grep -q "regular file" "$WORK/err" || return 1
  write '{"nodes":[{"name":"a","plugin":"echo","input":"'"$WORK/none"'"}]}'
  expect_exit 66 run 2>"$WORK/err" || return 1
  [ "$(id -u)" = 0 ] && return 0 # may read all
  touch "$WORK/secret" && chmod 0 "$WORK/secret" && expect_exit 77 wsctl run "$WORK/secret" 2>"$WORK/err" || return 1
  write '{"nodes":[{"name":"a","plugin":"echo","input":"'"$WORK/secret"'"}]}'
  expect_exit 77 run 2>"$WORK/err"
}
many_outputs() { # more than the soft limit of descriptors has room for
  python3 -c 'import json
print(json.dumps({"nodes": [{"name": "n%d" % i, "plugin": "echo", "args": ["%d" % i]} for i in range(100)]}))' >"$WORK/graph.json"
  (ulimit -S -n 64 && wsctl run --output-dir "$WORK/outputs" "$WORK/graph.json") && [ "$(cat "$WORK"/outputs/n* | wc -l)" = 100 ]
}
late() { # predecessors that end while a node is on its way: again and again, since it is a matter of luck
  write '{"nodes":[{"name":"a","plugin":"echo"},{"name":"b","plugin":"echo","after":["a"]},{"name":"c","plugin":"echo","after":["a","b"]}]}'
  for ((i = 0; i < 100; i++)); do
    run || return 1
  done
}
interrupted() { # all of it goes
  write '{"nodes":[{"name":"long","plugin":"sleep:sleep","args":["600000"]},{"name":"behind","plugin":"echo","after":["long"]}]}'
  background env WSD_SOCKET="$WSD_SOCKET" python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])' wsctl run "$WORK/graph.json"
  wait_until sh -c 'wsctl --json list | grep -q "\"state\":\"held\"" && wsctl --json list | grep -q "\"state\":\"running\""' || return 1
  kill -INT "$BACKGROUND_PID"
  local status=0
  wait_for_exit "$BACKGROUND_PID" || status=$?
  [ "$status" = 130 ] && wait_until sh -c '! wsctl --json list | grep -qE "\"state\":\"(held|running|queued)\""'
}
dot() {
  write '{"nodes":[{"name":"a","plugin":"echo"},{"name":"b","plugin":"echo","after":["a"]},{"name":"c","plugin":"echo","after-any":["a"]}]}'
  WSD_SOCKET=/nonexistent run --dot >"$WORK/dot" && grep -q '"a" -> "b";' "$WORK/dot" && grep -q '"a" -> "c" \[style=dashed\];' "$WORK/dot"
}
wrong() { # PATTERN JSON: one line with the place, and nothing runs
  write "$2"
  expect_exit 64 run 2>"$WORK/err" || {
    echo "not 64: $2"
    return 1
  }
  [ "$(wc -l <"$WORK/err")" = 1 ] && grep -q "^wsctl: $WORK/graph.json:$1" "$WORK/err"
}
all_wrong() {
  local n='{"name":"a","plugin":"echo"}'
  wrong '1:1: an object with an array' '[]' && wrong '1:10: there are no nodes' '{"nodes":[]}' && wrong '1:6: no such member' '{"x":1,"nodes":[1]}' &&
    wrong '1:11: a node, which is an object' '{"nodes":[1]}' && wrong '1:11: a node needs a name' '{"nodes":[{"plugin":"x"}]}' &&
    wrong '1:11: a node needs a plugin' '{"nodes":[{"name":"x"}]}' && wrong '2:9: another node' '{"nodes":['"$n"$',\n{"name":"a","plugin":"echo"}]}' &&
    wrong '1:19: a name is' '{"nodes":[{"name":"a/b","plugin":"x"}]}' && wrong '1:19: a name is' '{"nodes":[{"name":"..","plugin":"x"}]}' &&
    wrong '1:48: there is no node `b`' '{"nodes":[{"name":"a","plugin":"echo","after":["b"]}]}' &&
    wrong '1:47: an array is wanted' '{"nodes":[{"name":"a","plugin":"echo","after":"b"}]}' &&
    wrong '1:48: no such member of a node' '{"nodes":[{"name":"a","plugin":"echo","behind":"b"}]}' &&
    wrong '1:11: node `a` runs after itself' '{"nodes":[{"name":"a","plugin":"echo","after":["a"]}]}' &&
    wrong '1:[0-9]*: node `[bc]` runs after itself, by way of `[bc]`' '{"nodes":['"$n"',{"name":"b","plugin":"x","after":["c"]},{"name":"c","plugin":"x","after-any":["b"]},{"name":"d","plugin":"x","after":["c"]}]}' &&
    wrong '1:49: timeout: soon: not a duration' '{"nodes":[{"name":"a","plugin":"echo","timeout":"soon"}]}' &&
    wrong '1:51: priority: 101: not a priority' '{"nodes":[{"name":"a","plugin":"echo","priority": 101}]}' &&
    wrong '1:49: true or false' '{"nodes":[{"name":"a","plugin":"echo","durable":1}]}' &&
    wrong '1:47: at most 3 tags' '{"nodes":[{"name":"a","plugin":"echo","tags":["a b"]}]}' &&
    wrong '2:1: a comma or ] is wanted' $'{"nodes":[1\n}' && wrong '2:1: it ends' '{"nodes":' && wrong '1:5: a colon' '{"a"}' || return 1
  printf '{"nodes": [{"name":"a","plugin":"echo"}]} x' >"$WORK/graph.json"
  expect_exit 64 run 2>"$WORK/err" && grep -q ':1:43: something behind the end' "$WORK/err" && expect_exit 64 wsctl run 2>"$WORK/err" && expect_exit 66 wsctl run "$WORK/none" 2>"$WORK/err"
}
limits() {  # GRAPH_NODES_MAX, VALUE_DEPTH_MAX
  nodes() { # N AFTER: so many nodes, the last after so many of them
    python3 -c 'import json, sys
n, after = map(int, sys.argv[1:])
print(json.dumps({"nodes": [{"name": "n%d" % i, "plugin": "echo", "args": ["x"], "after": ["n%d" % k for k in range(after)] if i == n - 1 else []} for i in range(n)]}))' "$@" >"$WORK/graph.json"
  }
  nodes 1025 1024 && run --dot >/dev/null && [ "$(run | wc -l)" = 1025 ] || return 1
  nodes 2501 2500 && run --dot >/dev/null && [ "$(run | wc -l)" = 2501 ] || return 1 # more than one SUBMIT can name
  nodes 10000 1 && run --dot >/dev/null && nodes 10001 1 && expect_exit 64 run --dot 2>"$WORK/err" && grep -q 'more than 10000' "$WORK/err" || return 1
  wrong '1:16: an array is wanted\|1:[0-9]*: an object' "$(printf '%016d' 0 | sed 's/0/[/g')1$(printf '%016d' 0 | sed 's/0/]/g')" &&
    wrong '1:18: too deep' "$(printf '%017d' 0 | sed 's/0/[/g')1$(printf '%017d' 0 | sed 's/0/]/g')"
}
full() { # what wsd refuses for now goes when others have ended
  printf '[limits]\nmax-jobs-per-user = 3\n' >"$WSD_CONFIG" && kill -HUP "$WSD_PID" && wait_until sh -c '! wsctl map -j 5 sleep:sleep ::: 30 30 30 30 30 30 2>&1 >/dev/null | grep -q x; grep -q "read again" "$0"' "$WSD_LOG" || return 1
  python3 -c 'import json
print(json.dumps({"nodes": [{"name": "n%d" % i, "plugin": "sleep", "args": ["5"], "after": ["n%d" % (i - 4)] if i > 3 else []} for i in range(30)]}))' >"$WORK/graph.json"
  [ "$(run | grep -c slept)" = 30 ]
}

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "each after those that it names, outputs in the file's order" in_order
check "the manual's example" example
check "chains, fans, and nodes alone" shapes
check "options, inputs and outputs" options
check "inputs that are none" odd_inputs
check "outputs of more nodes than there are descriptors" many_outputs
check "failures" failures
check "who ends while another is on its way" late
check "Ctrl-C takes all of it" interrupted
check "drawn" dot
check "what is wrong is said in one line, with its place" all_wrong
check "limits, at and above" limits
check "what is refused for now goes later" full
stop_wsd
