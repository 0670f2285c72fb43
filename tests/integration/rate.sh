#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# rate.sh: how many jobs a user may submit in a second and run at once; refusals that say when to try again; and
# `--wait-for-room`, which does so.
. "$(dirname "$0")/../support/lib.sh"

configure() { # LINE...
  {
    echo '[limits]'
    printf '%s\n' "$@"
  } >"$WSD_CONFIG"
}

count() { # STATE PLUGIN
  wsctl --json list --state "$1" --plugin "$2" | wc -l
}

# --- rate -------------------------------------------------------------------------------------------------------------------

# A wsd that takes one job a second of each user, and has taken all that it takes at once. Those that wait there wait beside the others.
slow() { # BURST
  configure 'max-rate-per-user = 1' "rate-burst = $1"
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" && seq "$1" | wsctl map fib >/dev/null
}

burst() { # the fourth at once is refused, wherever in a second we are, unless a second passes meanwhile
  python3 - "$WSD_SOCKET" <<'END'
import socket, struct, sys, time
def varint(b, at):
    value = shift = 0
    while True:
        value |= (b[at] & 0x7f) << shift
        shift += 7
        at += 1
        if not b[at - 1] & 0x80:
            return value, at
def fields(b):
    at, found = 0, {}
    while at < len(b):
        key, at = varint(b, at)
        value, at = varint(b, at)
        if key & 7 == 2:
            value, at = b[at:at + value], at + value
        found[key >> 3] = value
    return found
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
s.connect(sys.argv[1])
def send(kind, tag, header):
    s.sendall(struct.pack('<BBHIII', 0x57, 1, kind, tag, len(header), 0) + header)
def receive():
    magic, version, kind, tag, header, body = struct.unpack('<BBHIII', s.recv(16, socket.MSG_WAITALL))
    h = s.recv(header, socket.MSG_WAITALL) if header else b''
    if body:
        s.recv(body, socket.MSG_WAITALL)
    return kind, tag, h
send(1, 0, b'\x08\x01\x10\x01\x30\x80\x80\x04')
assert receive()[0] == 65
for attempt in range(20):
    start = time.monotonic()
    for tag in range(1, 5):
        send(2, 10 * attempt + tag, b'\x0a\x03fib\x1a\x011')
    refused = []
    ended = 0
    while ended < 4:
        kind, tag, header = receive()
        ended += kind in (70, 71)
        if kind == 71:
            refused.append((tag % 10, fields(header)))
    took = time.monotonic() - start
    if took < 0.9:
        assert [tag for tag, _ in refused] == [4], refused
        e = refused[0][1]
        assert e[1] == 75 and b'max-rate-per-user' in e[2] and b'try again in' in e[2], e
        assert 0 < e[55] <= 1000000, e
        break
    time.sleep(3)  # all three again
END
}
waits() { # each of them is refused at first, and all of them succeed
  local i pids=()
  slow 3 || return 1
  for i in 1 2 3 4 5 6; do
    background wsctl submit --wait-for-room fib "$i" >"$WORK/out.$i" 2>"$WORK/err.$i"
    pids+=("$BACKGROUND_PID")
  done
  for i in "${pids[@]}"; do expect_exit 0 wait "$i" || return 1; done
  same '1 1 2 3 5 8' "$(cat "$WORK"/out.? | tr '\n' ' ' | sed 's/ $//')" && same '' "$(cat "$WORK"/err.?)" && stop_wsd
}

map_waits() { # until it is told: nobody asks again and again, though there are some to ask for
  local n
  slow 3 || return 1
  same "$(printf '1\n1\n2\n3\n5\n8')" "$(wsctl map --wait-for-room fib ::: 1 2 3 4 5 6)" || return 1
  n=$(wsctl --json stats | sed 's/.*"jobs_refused":\([0-9]*\).*/\1/')
  echo "refused $n times"
  [ "$n" -ge 6 ] && [ "$n" -le 40 ] && stop_wsd
}

detached_input() { # a detached job with a stream of input, which must not be lost by the first try
  local id
  slow 1 || return 1
  id=$(head -c 300000 /dev/zero | wsctl submit --wait-for-room --detach --input - checksum) || return 1
  same "$(head -c 300000 /dev/zero | sha256sum)" "$(wsctl await "$id")" && stop_wsd
}

beside "--wait-for-room: waits, and gets in" waits
beside "map --wait-for-room" map_waits
beside "input is not lost by a refusal" detached_input

configure 'max-rate-per-user = 1' 'rate-burst = 3'
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "a burst goes through, the next is refused, and told when to try again" burst

by_reload() { # SIGHUP takes effect on the next submit
  configure 'max-rate-per-user = 1000000'
  reload_config && wsctl map fib ::: 1 2 3 4 5 6 7 8 9 >/dev/null || return 1
  configure 'max-rate = 1' 'rate-burst = 1'
  reload_config || return 1
  # of all users; however slow this machine is, of 40 at once most are refused
  wsctl map -j 40 -k fib ::: {1..40} >"$WORK/map.out" 2>"$WORK/map.err"
  grep -q 'max-rate' "$WORK/map.err"
}
check "limits that are read again hold from the next submit on" by_reload
stop_wsd

# --- room: nothing says when ------------------------------------------------------------------------------------------------

configure 'max-jobs-per-user = 2'
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1

is_empty() {
  wsctl --json stats | grep -q '"jobs_open":0[,}]'
}

full() {
  local one two pid
  one=$(wsctl submit --detach spin) && two=$(wsctl submit --detach spin) || return 1
  expect_exit 75 wsctl submit fib 10 || return 1
  expect_exit 75 wsctl submit --wait-for-room=300ms fib 10 2>"$WORK/err" || return 1
  grep -q 'max-jobs-per-user' "$WORK/err" || return 1
  wsctl submit --wait-for-room fib 10 >"$WORK/out" &
  pid=$!
  wsctl cancel "$one" && expect_exit 0 wait "$pid" && same 55 "$(cat "$WORK/out")" && wsctl cancel "$two"
}
check "--wait-for-room goes on when there is room, or gives up at its time" full

usage() {
  expect_exit 64 wsctl submit --wait-for-room=soon fib 1 && expect_exit 64 wsctl submit --local --wait-for-room fib 1
}
check "what is mistyped is said" usage

refused_more_than() { # N
  [ "$(counter jobs_refused)" -gt "$1" ]
}

leave() { # Ctrl-C while it waits: there is no job
  local one two pid before
  wait_until is_empty && one=$(wsctl submit --detach spin) && two=$(wsctl submit --detach spin) || return 1
  before=$(counter jobs_refused)
  wsctl submit --wait-for-room fib 10 >"$WORK/out" 2>/dev/null &
  pid=$!
  wait_until refused_more_than "$before" || return 1
  kill -INT "$pid"
  expect_exit 130 wait "$pid" && same '' "$(wsctl --json list --plugin fib --state queued,running)" && wsctl cancel "$one" "$two"
}
set -m
check "Ctrl-C ends the waiting" leave
set +m

told_when() { # a refusal for want of a place says when to come again, and each one another time
  local one two
  wait_until is_empty && one=$(wsctl submit --detach spin) && two=$(wsctl submit --detach spin) || return 1
  python3 - "$BUILD/client/libwsclient.so.0" "$WSD_SOCKET" <<'END' || return 1
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
lib.wsd_client_retry_usec.restype = ctypes.c_uint64
class Submit(ctypes.Structure): # the first fields, and the rest as nothing
    _fields_ = [('size', ctypes.c_size_t), ('plugin', ctypes.c_char_p), ('rest', ctypes.c_char * 240)]
def wait():
    client, call, info = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert lib.wsd_client_open(ctypes.byref(client), sys.argv[2].encode(), 0) == 0
    submit = Submit(size=144, plugin=b'fib')
    assert lib.wsd_client_submit(client, ctypes.byref(submit), None, ctypes.byref(call)) == 0
    assert lib.wsd_call_wait(call, ctypes.c_uint64(2**64 - 1), ctypes.byref(info)) < 0
    return lib.wsd_client_retry_usec(client)
times = [wait() for _ in range(5)]
print(times)
assert 0 < times[0] < 5000000 and all(a < b <= 5000000 or a == b == 5000000 for a, b in zip(times, times[1:]))
END
  wsctl cancel "$one" "$two"
}
if [ -z "${WSD_SANITIZE:-}" ]; then
  check "a refusal says when to come again" told_when
else
  skip "a refusal says when to come again" "a sanitizer wants to be first in python's process"
fi
stop_wsd

configure 'max-jobs-per-user = 600'
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1

n_open() { # N: of ours, and none of them has ended
  [ "$(wsctl --json list --state running,queued --plugin ledger | wc -l)" = "$1" ]
}

fills() { # what is free is filled at once, also where no end of its own tells it of that; each item goes once
  local pid batch
  batch=$(wsctl map --detach spin ::: {1..600}) || return 1
  rm -f "$WORK/gate" "$WORK/entered"
  background wsctl map --wait-for-room ledger:after "$WORK/gate" "$WORK/entered" ::: {1..700} >"$WORK/out"
  pid=$BACKGROUND_PID
  wait_until sh -c "wsctl --json stats | grep -q '\"jobs_refused\":[1-9]'" || return 1
  wsctl cancel "$batch" || return 1
  wait_until -t 15 n_open 600 || {
    wsctl stats
    return 1
  }
  : >"$WORK/gate"
  expect_exit 0 wait "$pid" && same "$(seq 700)" "$(cat "$WORK/out")" && same "$(seq 700)" "$(sort -n "$WORK/entered")"
}
check "map --wait-for-room fills the room that there is" fills

gives_up() { # at its time, with what was told, where nothing was taken in between
  local batch
  wait_until is_empty && batch=$(wsctl map --detach spin ::: {1..600}) || return 1
  expect_exit 75 wsctl map --wait-for-room=300ms fib ::: {1..20} >"$WORK/out" 2>"$WORK/err" || return 1
  cat "$WORK/err"
  grep -q max-jobs-per-user "$WORK/err" && [ "$(wc -l <"$WORK/err")" = 1 ] && expect_exit 75 wsctl map -k --wait-for-room=300ms fib ::: {1..20} 2>"$WORK/err" &&
    [ "$(wc -l <"$WORK/err")" = 20 ] && wsctl cancel "$batch"
}
check "and gives up at its time" gives_up
stop_wsd

# --- running at once --------------------------------------------------------------------------------------------------------

configure 'max-running-per-user = 2'
start_wsd --workers 4 --plugin-dir "$TEST_PLUGINS" || exit 1

running_and_queued() { # RUNNING QUEUED
  [ "$(count running spin)" = "$1" ] && [ "$(count queued spin)" = "$2" ]
}

running() { # [KEY]
  local i key=${1:-max-running-per-user}
  for i in 1 2 3 4 5; do wsctl submit --detach spin >/dev/null || return 1; done
  wait_until running_and_queued 2 3 || return 1
  # what comes behind them waits, and is there to be cancelled
  i=$(wsctl submit --detach fib 5) && same 4 "$(wsctl --json list --state queued | wc -l)" && wsctl cancel "$i" || return 1
  same 3 "$(count queued spin)" || return 1
  wsctl cancel "$(wsctl --json list --state running | head -n 1 | sed 's/.*"id":"\([0-9a-f]*\)".*/\1/')"
  wait_until running_and_queued 2 2 || return 1
  configure "$key = 3"
  reload_config || return 1
  wait_until running_and_queued 3 1 || return 1
  : >"$WSD_CONFIG"
  reload_config || return 1
  wait_until running_and_queued 4 0 && same 'cancelled 4 jobs' "$(wsctl cancel --all)"
}
check "so many of a user run at once; changed while they run" running

many() { # all get their turn
  configure 'max-running-per-user = 1'
  reload_config && same "$(seq 200 | sed 's/.*/55/')" "$(seq 200 | sed 's/.*/10/' | wsctl map fib)"
}
check "a limit of one passes all of them on" many

direct() { # calls that wsd does not see are not made
  "$BUILD/tests/support/clients/direct" -n 100 direct:direct >"$WORK/out" && cat "$WORK/out" && grep -q 'direct=0 succeeded=100 ' "$WORK/out"
}
check "no direct calls meanwhile" direct

# --- of all users -------------------------------------------------------------------------------------------------------------

of_all() {
  configure 'max-running = 1' # calls in lanes were let through before
  reload_config && direct && configure 'max-running = 2' && reload_config && limit_shown && wsctl --json limit | head -n 1 | grep -q '"limit":2' && running max-running
}
limit_shown() {
  wsctl --json limits | grep -qF '{"key":"max-running","value":"2"'
}
check "so many of all users run at once; changed while they run" of_all
all_many() {
  configure 'max-running = 1'
  reload_config && same "$(seq 200 | sed 's/.*/55/')" "$(seq 200 | sed 's/.*/10/' | wsctl map fib)"
}
check "a limit of one passes all of them on" all_many
stop_wsd

# Two executors of one user: `sleep` has its own. Who floods has one nap after the other; those of the other executor come in turn.
own() { # LINE...: of [limits]
  configure "$@"
  printf '[plugin sleep]\nisolation = own\n[plugin spin]\nisolation = own\n' >>"$WSD_CONFIG"
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS"
}
flood() { # N MILLISECONDS [OPTION...]
  local n=$1 nap=$2
  shift 2
  # shellcheck disable=SC2046
  FLOOD=$(wsctl map --detach "$@" sleep:sleep ::: $(yes "$nap" | head -n "$n")) && wait_until flooded "$n"
}
flooded() { # N: all of them are there, and one runs
  [ "$(counter jobs_submitted)" -ge "$1" ] && [ "$(count running sleep)" -ge 1 ]
}
in_turn() { # N MOST: so many of the flood begin between the first and the last of N others, which come all at once
  local n batch
  batch=$(wsctl map --detach fib ::: $(seq "$1")) && wsctl await "$batch" >/dev/null || return 1
  # by wsd's own times: how long wsctl takes to ask does not matter
  n=$(wsctl --json list --state running,succeeded | sed -n 's/.*"plugin":"\([a-z]*\)".*"queued_usec":\([0-9]*\).*"submitted_usec":\([0-9]*\).*/\2 \3 \1/p' |
    awk '{ printf "%.0f %s\n", $1 + $2, $3 }' | sort -n | awk -v last="$1" '$2 == "fib" { fibs++ } $2 == "sleep" && fibs && fibs < last { n++ } END { print n }')
  echo "$n of the flood before the last of $1"
  [ "$n" -ge $(($1 / 2)) ] && [ "$n" -le "$2" ]
}
executors() { # a place that becomes free is not always that of the executor that has left it
  own 'max-running = 1' && flood 400 10 && in_turn 20 25 && wsctl cancel "$FLOOD" >/dev/null && wait_until is_empty && stop_wsd
}
check "executors take turns" executors

ahead() { # what one executor has ahead, and has not begun, holds no place that another one could use at once
  own 'max-running = 6' && flood 20 600000 && same 6 "$(counter jobs_handed_over)" && same 55 "$(timeout $((30 * TIME_SCALE)) wsctl submit fib 10)" &&
    wsctl cancel "$FLOOD" >/dev/null && wait_until is_empty && stop_wsd
}
check "what has not begun makes room" ahead

blocked() { # neither a function that is paused, nor one at another limit, nor a plugin whose executor is stopped before it has taken anything
  own 'max-running = 2' || return 1
  wsctl pause sleep && wsctl map --detach sleep:sleep ::: 1 2 3 4 5 >/dev/null && wsctl limit spin 1 && wsctl map --detach spin ::: 1 2 3 4 5 >/dev/null &&
    wait_until running_and_queued 1 4 || return 1
  same "$(seq 20 | sed 's/.*/55/')" "$(seq 20 | sed 's/.*/10/' | wsctl map fib)" && same 5 "$(count queued sleep)" &&
    wsctl resume sleep && wait_until all_slept && wsctl cancel --all >/dev/null && wait_until is_empty && stop_wsd
}
all_slept() {
  same 0 "$(count queued sleep)" >/dev/null && same 0 "$(count running sleep)" >/dev/null
}
check "what is paused, or at another limit, holds no place" blocked

priorities() { # over executors: the higher first, and what has waited for `ageing` in between
  own 'max-running = 1' 'ageing = 1h' && flood 60 20 --priority 5 || return 1
  wsctl submit fib 10 >/dev/null && same 60 "$(counter jobs_succeeded | awk '{ print $1 - 1 }')" && stop_wsd || return 1
  own 'max-running = 1' 'ageing = 100ms' && flood 400 20 --priority 5 && wsctl submit --priority -5 fib 10 >/dev/null || return 1
  echo "$(counter jobs_succeeded) before it"
  [ "$(counter jobs_succeeded)" -lt 200 ] && wsctl cancel "$FLOOD" >/dev/null && wait_until is_empty && stop_wsd
}
check "priority and ageing hold over executors" priorities

durable() { # two executors, of which one asks the disk before each
  own 'max-running = 1' || return 1
  # shellcheck disable=SC2046
  background wsctl map sleep:sleep ::: $(yes 3 | head -n 60) >/dev/null
  same "$(seq 60)" "$(wsctl map --durable echo ::: {1..60})" && wait "$BACKGROUND_PID" && stop_wsd
}
check "durable jobs have their turns" durable
: >"$WSD_CONFIG"

gather
