#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# gate.sh: pause, resume, drain and limits, by hand, by configuration, and who may.
. "$(dirname "$0")/../support/lib.sh"

gate() { # NAME KEY: of `wsctl limit`; NAME is plugin, function as JSON says them
  wsctl --json limit | sed -n "s/^{\"plugin\":\"${1%%:*}\",\"function\":\"${1#*:}\",.*\"$2\":\([a-z0-9]*\).*/\1/p"
}
has() { # NAME KEY VALUE
  [ "$(gate "$1" "$2")" = "$3" ]
}

printf '[plugin slow]\nmax-running = 1\n' >"$WSD_CONFIG"
start_wsd --workers 4 --plugin-dir "$TEST_PLUGINS" || exit 1

paused_waits() {
  local id
  wsctl pause echo && id=$(wsctl submit --detach echo:echo hello) && wait_until has echo: waiting 1 || return 1
  job_is queued "$id" && [ "$(wsctl submit sleep:sleep 1)" = slept ] && job_is queued "$id" || return 1
  wsctl resume echo && [ "$(wsctl await "$id")" = hello ] && expect_exit 66 wsctl resume echo
}
check "a paused plugin's jobs wait, others do not, resume lets them go" paused_waits

paused_function() {
  local id
  wsctl pause sleep:again && id=$(wsctl submit --detach sleep:again 1) && wait_until has sleep:again waiting 1 || return 1
  [ "$(wsctl submit sleep:sleep 1)" = slept ] && job_is queued "$id" || return 1
  wsctl cancel "$id" && wait_until job_is cancelled "$id" && has sleep:again waiting 0 && wsctl resume sleep:again
}
check "a function alone is paused; what waits there can be cancelled" paused_function

all_paused() {
  local id
  wsctl pause && id=$(wsctl submit --detach echo:echo hello) && job_is queued "$id" && wsctl ping && wsctl resume &&
    [ "$(wsctl await "$id")" = hello ]
}
check "all can be paused" all_paused

# Two of them run, for as long as the gate is shut; and no more than two when they follow each other.
limited() {
  local most n
  rm -f "$WORK/go"
  wsctl limit ledger:gate 2 || return 1
  # shellcheck disable=SC2046
  background wsctl map --jobs 40 ledger:gate ::: $(yes "$WORK/go" | head -n 40) >/dev/null
  wait_until has ledger:gate waiting 38 && has ledger:gate running 2 || return 1
  most=2
  touch "$WORK/go"
  while kill -0 "$BACKGROUND_PID" 2>/dev/null; do
    n=$(gate ledger:gate running)
    [ "${n:-0}" -le "$most" ] || most=$n
  done
  wait "$BACKGROUND_PID" && echo "at most $most" && [ "$most" = 2 ] && wsctl limit ledger:gate none && ! has ledger:gate limit 2
}
check "a limit holds, and all jobs run" limited

by_configuration() {
  has slow: limit 1 && printf '[plugin slow]\nmax-running = 3\n' >"$WSD_CONFIG" && kill -HUP "$WSD_PID" &&
    wait_until has slow: limit 3 && : >"$WSD_CONFIG" && kill -HUP "$WSD_PID" && wait_until has slow: limit ''
}
check "max-running by configuration, read again, and taken back" by_configuration

drained() {
  local id
  id=$(wsctl submit --detach sleep:sleep 300) && [ "$(wsctl drain)" = "drained: \`wsctl resume\` lets wsd take jobs again" ] ||
    return 1
  job_is succeeded "$id" && expect_exit 75 wsctl submit echo:echo x 2>"$WORK/err" && grep -q 'wsctl drain.*wsctl resume' "$WORK/err" &&
    [ "$(wsctl --json drain)" = '{"drained":true,"waited_for":0}' ] && wsctl resume && [ "$(wsctl submit echo:echo x)" = x ]
}
check "drain waits for what is there, refuses what comes, and is ended" drained

drains() { # N: so many have been asked for
  [ "$(grep -c 'drain.* by user' "$WSD_LOG")" -ge "$1" ]
}
no_wait() {
  local id n
  wsctl pause && id=$(wsctl submit --detach echo:echo x) && wsctl drain --no-wait >/dev/null && job_is queued "$id" || return 1
  n=$(grep -c 'drain.* by user' "$WSD_LOG")
  background wsctl drain >/dev/null 2>"$WORK/err"
  wait_until drains $((n + 1)) && wsctl resume && expect_exit 0 wsctl await "$id" >/dev/null
  local status=0
  wait "$BACKGROUND_PID" || status=$?
  cat "$WORK/err"
  # it saw the queue empty, or that somebody has resumed
  [ "$status" = 0 ] || { [ "$status" = 125 ] && grep -q resumed "$WORK/err"; }
}
check "--no-wait returns at once; who waits is told that somebody resumed" no_wait

survives() {
  local id
  rm -f "$WORK/go"
  wsctl limit ledger 1 && id=$(wsctl submit --detach ledger:gate "$WORK/go") && wait_until has ledger: running 1 || return 1
  pkill -KILL -P "$WSD_PID" # its executor
  touch "$WORK/go"
  [ "$(wsctl await "$id")" = open ] && wait_until has ledger: running 0 && [ "$(wsctl submit ledger:gate "$WORK/go")" = open ] &&
    wsctl limit ledger none
}
check "an executor's death gives its places back" survives

tag() { # NAME KEY: of `wsctl limit`
  wsctl --json limit | sed -n "s/^{\"tag\":\"$1\",.*\"$2\":\([a-z0-9]*\).*/\1/p"
}
tag_has() { # NAME KEY VALUE
  [ "$(tag "$1" "$2")" = "$3" ]
}
tags() { # across plugins; a job waits at each of its tags, and others pass
  local a b
  wsctl pause --tag x && a=$(wsctl submit --detach --tag x echo:echo a) && b=$(wsctl submit --detach --tag y --tag x sleep:sleep 1) &&
    wait_until tag_has x waiting 2 && [ "$(wsctl submit --tag y echo:echo c)" = c ] && job_is queued "$a" || return 1
  wsctl status "$b" | grep -q '^tags      y,x$' && wsctl list | grep -q "^$b .*\[y,x\]" && wsctl --json status "$b" | grep -q '"tags":\["y","x"\]' || return 1
  wsctl limit | grep -q '^tag x .*paused' && wsctl pause --tag y && wsctl resume --tag x && [ "$(wsctl await "$a")" = a ] &&
    wait_until tag_has y waiting 1 && wsctl resume --tag y && [ "$(wsctl await "$b")" = slept ] && expect_exit 66 wsctl resume --tag x || return 1
  wait_until sh -c '! wsctl limit | grep tag' # nothing is left of them
}
tag_limit() {
  local most=2 n pids=()
  rm -f "$WORK/go"
  wsctl limit --tag few 2 || return 1
  while [ ${#pids[@]} -lt 12 ]; do
    background wsctl submit --tag few --tag few ledger:gate "$WORK/go" >/dev/null
    pids+=("$BACKGROUND_PID")
  done
  wait_until tag_has few waiting 10 && tag_has few running 2 || return 1
  touch "$WORK/go"
  while kill -0 "${pids[@]}" 2>/dev/null; do
    n=$(tag few running)
    [ "${n:-0}" -le "$most" ] || most=$n
  done
  wait "${pids[@]}" && echo "at most $most" && [ "$most" = 2 ] && wsctl limit --tag few none
}
tag_configured() {
  printf '[tag many]\nmax-running = 7\n' >"$WSD_CONFIG" && kill -HUP "$WSD_PID" && wait_until tag_has many limit 7 && : >"$WSD_CONFIG" &&
    kill -HUP "$WSD_PID" && wait_until tag_has many limit '' || return 1
  bad_config '[tag a b]\nmax-running = 7\n' '2: \[tag a b\]: at most 256 tags'
}
tag_names() { # 63 bytes, at most 3 of them
  local long
  long=$(printf '%063d' 0)
  [ "$(wsctl submit --tag "$long" --tag "$long" --tag "$long" echo:echo x)" = x ] && expect_exit 64 wsctl submit --tag "0$long" echo:echo x &&
    expect_exit 64 wsctl submit --tag a --tag b --tag c --tag d echo:echo x && expect_exit 64 wsctl submit --tag '' echo:echo x &&
    expect_exit 64 wsctl submit --tag a,b echo:echo x && expect_exit 64 wsctl pause --tag 'a b' && expect_exit 64 wsctl limit --tag x && expect_exit 64 wsctl limit --tag x 0 &&
    expect_exit 64 wsctl pause --tag x echo
} 2>/dev/null
check "a tag is paused and resumed" tags
check "a tag's limit holds" tag_limit
check "[tag NAME] max-running" tag_configured
check "names of tags, and how many" tag_names

errors() {
  expect_exit 64 wsctl limit sleep 0 && expect_exit 64 wsctl limit sleep && expect_exit 64 wsctl limit sleep x && expect_exit 64 wsctl drain now &&
    expect_exit 64 wsctl pause a b && expect_exit 64 wsctl pause a: && expect_exit 66 wsctl resume nothing
} 2>/dev/null
check "errors" errors

many_at_a_gate() {
  local n=5000
  wsctl pause echo || return 1
  # shellcheck disable=SC2046
  background wsctl map --jobs $n echo:echo ::: $(seq $n) >"$WORK/out"
  wait_until -t 60 has echo: waiting $n || return 1
  [ "$(wsctl submit sleep:sleep 1)" = slept ] && wsctl resume echo && wait "$BACKGROUND_PID" && cmp "$WORK/out" <(seq $n)
}
check "thousands wait at a gate, and go on in order" many_at_a_gate
stop_wsd

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  others() {
    printf '[daemon]\nsystem = yes\n' >"$WSD_CONFIG"
    mkdir -p "$WORK/inst" && cp "$WSCTL" "$BUILD"/client/libwsclient.so.0 "$WORK/inst/" && chmod 755 "$WORK" "$WORK/inst"
    start_wsd --plugin-dir "$TEST_PLUGINS" && chmod 666 "$WSD_SOCKET" && chmod 755 "${WSD_SOCKET%/*}" || return 1
    as_other() {
      setpriv --reuid=1001 --regid=1001 --clear-groups --inh-caps=-all -- \
        env LD_LIBRARY_PATH="$WORK/inst" "$WORK/inst/wsctl" "$@" 2>>"$WORK/err"
    }
    expect_exit 77 as_other pause && expect_exit 77 as_other drain && expect_exit 77 as_other limit echo 1 && expect_exit 77 as_other resume &&
      as_other limit >/dev/null && wsctl pause echo && grep -q 'echo: paused by user 0' "$WSD_LOG"
  }
  check "others may look, and not steer; who did is in the log" others
  stop_wsd
else
  skip "others may look, and not steer" "only root can act as another user"
fi
