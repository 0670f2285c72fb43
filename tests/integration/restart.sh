#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# restart.sh: an orderly restart of wsd under a service manager that keeps descriptors (support/boxes/manager.py): clients stay
# connected, those that wait for durable jobs have their answer from the next wsd, others an end; nothing is lost between two
# halves of a frame. What is not a restart says so; memory that is not what was left costs the connections only.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/ca.sh"

ROUNDS=25
[ -z "${WSD_THOROUGH:-}" ] || ROUNDS=500
SEED=${WSD_SEED:-$RANDOM}
export WSD_SOCKET=$WORK/wsd.sock WSD_SEED=$SEED
SAYS=$WORK/says
STATE=$WORK/kept.state
printf '[daemon]\ndrain-timeout = 1s\n' >"$WSD_CONFIG"

serve_managed() { # [MANAGER OPTION...]
  : >"$SAYS"
  rm -f "$WORK/notify" "$WSD_SOCKET"
  background "$SRC/tests/support/boxes/manager.py" "$@" "$SAYS" "$WSD" --socket "$WSD_SOCKET" --config "$WSD_CONFIG" \
    --executor "$EXECUTOR" --spawner "$SPAWNER" --plugin-dir "$PLUGINS" --plugin-dir "$TEST_PLUGINS" --workers 2 \
    --state-dir "$STATE" >>"$WORK/log" 2>&1 </dev/null
  MANAGER=$BACKGROUND_PID
  wait_until lives_are 1
}
lives_are() { # N: so many wsds have got ready
  [ "$(grep -c 'notified READY=1' "$SAYS")" = "$1" ]
}
again() { # SIGNAL: and the next one is ready
  local n
  n=$(grep -c 'notified READY=1' "$SAYS")
  kill -s "$1" "$MANAGER"
  wait_until lives_are $((n + 1))
}
wsd_pid() {
  sed -n 's/^started //p' "$SAYS" | tail -n 1
}
stop() {
  kill -TERM "$MANAGER"
  wait_for_exit "$MANAGER"
}
ended() { # PID STATUS [TEXT]: a client of ours
  local status=0
  wait_for_exit "$1" || status=$?
  [ "$status" = "$2" ] && { [ -z "${3:-}" ] || [ "$(cat "$WORK/out.$1")" = "$3" ]; } && return 0
  echo "exit $status where $2 was expected, said: $(cat "$WORK/out.$1" "$WORK/err.$1")"
  return 1
}
# Its connection has been the same all the time: wsctl says it where it had to come back.
stayed() { # PID STATUS [TEXT]
  ended "$@" && ! grep 'wsd is gone' "$WORK/err.$1"
}
came_back() { # PID STATUS [TEXT]
  ended "$@" && grep -q 'wsd is gone' "$WORK/err.$1"
}
client() { # COMMAND...: its output is in out.PID
  local n=${#started[@]}
  touch "$WORK/out-$n" "$WORK/err-$n"
  "$@" >"$WORK/out-$n" 2>"$WORK/err-$n" </dev/null &
  CLIENT=$!
  note_started "$CLIENT"
  ln "$WORK/out-$n" "$WORK/out.$CLIENT"
  ln "$WORK/err-$n" "$WORK/err.$CLIENT"
}
in_this_shell() { # NAME COMMAND...: whose children the clients are
  local name=$1
  shift
  if "$@" >"$WORK/said" 2>&1; then ok "$name"; else
    fail "$name" "$*"
    show "$WORK/said"
    show "$WORK/log" 15
  fi
}

# --- clients that wait for durable jobs ----------------------------------------------------------------------------------

durable() {
  local i id clients=() await
  wsctl pause || return 1
  for i in {1..8}; do
    client wsctl submit --durable checksum md5 "$WSD_CONFIG"
    clients+=("$CLIENT")
  done
  wait_until jobs_are queued 8 || return 1
  id=$(wsctl --json list | sed -n '1s/.*"id":"\([0-9a-f]*\)".*/\1/p')
  client wsctl await "$id"
  await=$CLIENT
  wait_until connections 10 || return 1 # nine, and who asks
  again USR1 || return 1
  grep -q 'connections of the last wsd go on' "$WORK/log" || return 1
  for i in "${clients[@]}"; do
    stayed "$i" 0 "$(md5sum "$WSD_CONFIG")" || return 1
  done
  stayed "$await" 0 "$(md5sum "$WSD_CONFIG")"
}
connections() { # N
  wsctl --json stats | grep -q "\"connections\":$1\\b"
}
by_kind() {
  local once again_ plain
  rm -f "$WORK/gate"
  client wsctl submit --durable ledger:gate-once "$WORK/gate"
  once=$CLIENT
  wait_until jobs_are running 1 || return 1
  client wsctl submit ledger:gate "$WORK/gate"
  plain=$CLIENT
  wait_until jobs_are running 2 && wsctl pause ledger || return 1 # a spare worker would run it: the others sleep
  client wsctl submit --durable ledger:gate "$WORK/gate"
  again_=$CLIENT
  wait_until jobs_are queued 1 || return 1
  again USR1 || return 1
  stayed "$once" 125 || return 1
  stayed "$plain" 125 || return 1
  : >"$WORK/gate"
  stayed "$again_" 0 open
}
# With nothing to say and nothing to hear, past the time in which a frame has to be whole.
quiet() {
  local waits
  rm -f "$WORK/gate"
  printf '[daemon]\ndrain-timeout = 1s\n[limits]\nframe-timeout = 1s\n' >"$WSD_CONFIG"
  wsctl pause || return 1
  client wsctl submit --durable ledger:gate "$WORK/gate"
  waits=$CLIENT
  wait_until jobs_are queued 1 && again USR1 && wait_until jobs_are running 1 || return 1
  # the time is up of one that has come later
  expect_exit 0 python3 -c 'import os, socket
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["WSD_SOCKET"])
while s.recv(4096):
    pass' && connections 2 || return 1
  : >"$WORK/gate"
  stayed "$waits" 0 open || return 1
  printf '[daemon]\ndrain-timeout = 1s\n' >"$WSD_CONFIG"
  read_again # or those who come next have as little time
}
n_read() { grep -c 'was read again' "$WORK/log"; }
has_read() { [ "$(n_read)" -gt "$1" ]; } # N
read_again() {
  local before
  before=$(n_read)
  kill -HUP "$(wsd_pid)" && wait_until has_read "$before"
}
cancelled() {
  local kept plain
  rm -f "$WORK/gate"
  wsctl pause echo || return 1
  client wsctl submit --durable echo text
  kept=$CLIENT
  client wsctl submit ledger:gate "$WORK/gate"
  plain=$CLIENT
  wait_until jobs_are running 1 && wait_until jobs_are queued 1 || return 1
  printf '[daemon]\ndrain-timeout = 60s\n' >"$WSD_CONFIG"
  read_again || return 1
  kill -USR1 "$MANAGER"
  wait_until grep -q 'notified STOPPING' "$SAYS" || return 1
  wait_until jobs_are queued 0 || return 1 # it has left
  # bash gives a background child SIGINT ignored, wsctl takes SIGTERM alike; the answer to a ping comes behind the cancel
  kill -TERM "$kept"
  wait_until has_heeded "$kept" 15 && wsctl ping || return 1
  : >"$WORK/gate"
  stayed "$plain" 0 open || return 1
  stayed "$kept" 130 || return 1
  printf '[daemon]\ndrain-timeout = 1s\n' >"$WSD_CONFIG"
}

if ! serve_managed --listen "$WSD_SOCKET" --keep 1000; then
  fail "start" "wsd does not get ready"
  show "$WORK/log"
  exit
fi
in_this_shell "who waits for a durable job has its answer from the next wsd, on the same connection" durable
in_this_shell "who waits and says nothing stays" quiet
in_this_shell "what ran: again where it may, else interrupted" by_kind

# --- frames ------------------------------------------------------------------------------------------------------------------

# Connections by hand: one that was greeted, one whose HELLO is cut in two by the restart, one that has said nothing.
cat >"$WORK/frames.py" <<'END_OF_PYTHON'
import os, signal, socket, struct, sys, time

def frame(kind, tag, header=b'', body=b''):
    return struct.pack('<BBHIII', 0x57, 1, kind, tag, len(header), len(body)) + header + body

HELLO = frame(1, 0, b'\x08\x01\x10\x01\x30\x80\x80\x04')

def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(30 * int(os.environ['TIME_SCALE']))
    s.connect(os.environ['WSD_SOCKET'])
    return s

def receive(s):
    head = b''
    while len(head) < 16:
        got = s.recv(16 - len(head))
        if not got:
            return None
        head += got
    _, _, kind, tag, h, b = struct.unpack('<BBHIII', head)
    rest = b''
    while len(rest) < h + b:
        rest += s.recv(h + b - len(rest))
    return kind, tag, rest[h:]

def wait(s, kind):
    while True:
        got = receive(s)
        if got is None or got[0] == kind:
            return got

greeted, half, silent, gone = (connect() for _ in range(4))
for s in (greeted, gone):
    s.sendall(HELLO)
    assert wait(s, 65), 'no WELCOME'
half.sendall(HELLO[:9])
ping = frame(11, 7, body=b'half and half')
greeted.sendall(ping[:20])
print('ready', flush=True)
sys.stdin.readline()  # it has ended, or is about to
gone.close()
sys.stdin.readline()
greeted.sendall(ping[20:])
got = wait(greeted, 75)
assert got == (75, 7, b'half and half'), got
half.sendall(HELLO[9:] + frame(11, 3))
assert wait(half, 75) == (75, 3, b''), 'no PONG behind the second half'
silent.sendall(HELLO + frame(11, 4))
assert wait(silent, 75) == (75, 4, b''), 'no PONG'
END_OF_PYTHON
frames() {
  mkfifo "$WORK/to" || return 1
  python3 "$WORK/frames.py" <"$WORK/to" >"$WORK/from" 2>&1 &
  local pid=$!
  note_started "$pid"
  exec 5>"$WORK/to"
  if ! wait_until grep -q ready "$WORK/from" || ! wait_until connections 5; then
    cat "$WORK/from"
    return 1
  fi
  echo >&5
  again USR1 || return 1
  echo >&5
  wait_for_exit "$pid" || {
    cat "$WORK/from"
    return 1
  }
  exec 5>&-
}
in_this_shell "a frame may be cut in two by the restart" frames

in_this_shell "a cancel while no wsd has the job is heeded by the next one" cancelled

# --- other ends --------------------------------------------------------------------------------------------------------------

# The service manager's listening socket is there all the time: whoever comes waits, or is answered.
killed() {
  local inode
  inode=$(stat -c %i "$WSD_SOCKET")
  again HUP && expect_output "$inode" stat -c %i "$WSD_SOCKET" && expect_output 6765 wsctl submit fib 20
}
check "after a kill -9 the socket is still there" killed
damaged() { # ROUNDS
  local waits i
  printf '[daemon]\ndrain-timeout = 1s\n[limits]\nframe-timeout = 1h\n' >"$WSD_CONFIG" # one that cannot be taken does not stay until then
  again USR1 || return 1
  for ((i = 1; i <= $1; i++)); do
    wsctl pause || return 1
    client wsctl submit --durable echo damaged "$i"
    waits=$CLIENT
    wait_until jobs_are queued 1 || return 1
    again USR2 || return 1
    expect_output 6765 wsctl submit fib 20 || return 1
    # whether its connection could be taken or not; a changed tag leaves it without an answer
    wait_until jobs_are queued 0 || return 1
    kill -KILL "$waits"
    wait_for_exit "$waits"
    wait_until connections 1 || return 1 # who asks
  done
  printf '[daemon]\ndrain-timeout = 1s\n' >"$WSD_CONFIG"
  grep -q 'not all connections' "$WORK/log"
}
in_this_shell "memory that is not what was left costs the connections only: $ROUNDS rounds, seed $SEED" damaged "$ROUNDS"
stopped() {
  local waits
  wsctl pause || return 1
  client wsctl submit --durable echo stopped
  waits=$CLIENT
  wait_until jobs_are queued 1 || return 1
  stop || return 1
  wait_until grep -q 'wsd is gone; the job is durable' "$WORK/err.$waits" || return 1
  kill -TERM "$waits"
  ended "$waits" 125 && grep -q 'later: wsctl await' "$WORK/err.$waits"
}
in_this_shell "a stop is told to who waits, with what to do" stopped

# --- without a socket unit ---------------------------------------------------------------------------------------------------

own() {
  local inode waits
  serve_managed --keep 1000 || return 1
  inode=$(stat -c %i "$WSD_SOCKET")
  wsctl pause || return 1
  client wsctl submit --durable echo own
  waits=$CLIENT
  wait_until jobs_are queued 1 || return 1
  again USR1 || return 1
  stayed "$waits" 0 own || return 1
  expect_output 6765 wsctl submit fib 20 && expect_output "$inode" stat -c %i "$WSD_SOCKET" && stop
}
in_this_shell "its own listening socket goes along" own
# What the service manager is told, beside descriptors: systemd-notify(1) has the words.
manager_is_told() { # the time of a drain of 50 s, with what comes behind it
  local n
  printf '[daemon]\ndrain-timeout = 50s\n' >"$WSD_CONFIG"
  serve_managed --keep 1000 || return 1
  kill -HUP "$(wsd_pid)"
  wait_until grep -qE 'notified RELOADING=1 MONOTONIC_USEC=[1-9][0-9]{6,}$' "$SAYS" && wait_until lives_are 2 || return 1
  n=$(grep -nE 'RELOADING=1|READY=1' "$SAYS" | sed 's/.* \([A-Z]*\)=1.*/\1/' | tr '\n' ' ')
  [[ $n == "READY RELOADING READY "* ]] || {
    cat "$SAYS"
    return 1
  }
  kill -TERM "$MANAGER"
  wait_for_exit "$MANAGER" && n=$(sed -nE 's/^notified STOPPING=1 EXTEND_TIMEOUT_USEC=([0-9]+) STATUS=draining.*/\1/p' "$SAYS") || return 1
  echo "a drain of 50 s: $n us"
  [ "${n:-0}" -gt 50000000 ] && [ "$n" -lt 80000000 ]
}
in_this_shell "systemd is told of a reload and its end, and how long a drain may take" manager_is_told
printf '[daemon]\ndrain-timeout = 1s\n' >"$WSD_CONFIG"
few() {
  local waits
  serve_managed --listen "$WSD_SOCKET" || return 1
  wsctl pause || return 1
  client wsctl submit --durable echo few
  waits=$CLIENT
  wait_until jobs_are queued 1 || return 1
  again USR1 || return 1
  came_back "$waits" 0 few || return 1
  stop
}
in_this_shell "a service manager that keeps nothing: as ever" few

# --- clients of other machines -----------------------------------------------------------------------------------------------

# What TLS knows of a connection ends with the process, so that those come anew; the clients of this machine stay.
remote() {
  local near far inode
  PORT=$((20000 + RANDOM % 12000))
  ca_new ca && ca_sign ca server localhost 'extendedKeyUsage = serverAuth\nsubjectAltName = DNS:localhost' &&
    ca_sign ca far far 'extendedKeyUsage = clientAuth' || return 1
  echo 'CN:far = games' >"$WORK/map"
  printf '[daemon]\nsystem = yes\ndrain-timeout = 1s\n[tls]\nlisten = localhost:%s\n' "$PORT" >"$WSD_CONFIG"
  printf '%s = %s\n' certificate "$WORK/ca/server.pem" key "$WORK/ca/server.key" ca "$WORK/ca/ca.pem" user-map "$WORK/map" >>"$WSD_CONFIG"
  serve_managed --keep 1000 || return 1
  inode=$(stat -c %i "$WSD_SOCKET")
  wsctl pause || return 1
  client wsctl submit --durable echo near
  near=$CLIENT
  client env -u WSD_SOCKET WSD_HOST="localhost:$PORT" WSD_TLS_CERT="$WORK/ca/far.pem" WSD_TLS_KEY="$WORK/ca/far.key" \
    WSD_TLS_CA="$WORK/ca/ca.pem" "$WSCTL" submit --durable echo far
  far=$CLIENT
  if ! wait_until jobs_are queued 2 || ! wait_until connections 3; then
    cat "$WORK/err.$near" "$WORK/err.$far"
    return 1
  fi
  again USR1 || return 1
  expect_output 'wsd: 1 connections are left for the next wsd' last_left || return 1
  stayed "$near" 0 near && came_back "$far" 0 far && expect_output "$inode" stat -c %i "$WSD_SOCKET" && stop
}
last_left() {
  grep 'are left for the next wsd' "$WORK/log" | tail -n 1
}
if [ "$(id -u)" != 0 ] || ! command -v openssl >/dev/null || [ ! -e "$BUILD/daemon/tls/wsd-tls.so" ]; then
  skip "clients of other machines come anew" "that wants root, the openssl command, and a build with TLS"
else
  in_this_shell "clients of other machines come anew, those of this one stay" remote
fi
check "nothing spoke in the logs" clean_log "$WORK/log"
