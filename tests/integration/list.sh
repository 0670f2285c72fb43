#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# list.sh: jobs by what they are: `wsctl list` and `wsctl cancel` with filters, in wsd; and that neither holds up the loop.
. "$(dirname "$0")/../support/lib.sh"

ids() { # ARGUMENT...: of `wsctl list`
  wsctl --json list "$@" | python3 -c 'import json, sys; [print(json.loads(line)["id"]) for line in sys.stdin]'
}

oldest_first() { # ids, by the time in them, then by their number
  python3 -c '
import sys
key = lambda i: (int(i[:16], 16) >> 6, int.from_bytes(bytes.fromhex(i[16:32]), "little"))
sys.stdout.writelines(sorted(sys.stdin, key=key))'
}

start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
succeeded_id=$(wsctl submit --detach fib 1)
failed_id=$(wsctl submit --detach fib nonsense)
wsctl await "$succeeded_id" >/dev/null && wsctl await "$failed_id" >/dev/null 2>&1
wsctl pause fib
running_id=$(wsctl submit --detach sleep 3600000)
queued_ids=$(for i in 1 2 3; do wsctl submit --detach fib "$i"; done)
nothing_id=$(wsctl submit --detach fib:nothing)
wait_until job_is running "$running_id"

by_state() {
  same "$running_id" "$(ids --state running)" && same "$queued_ids
$nothing_id" "$(ids --state queued)" &&
    same "$succeeded_id
$failed_id" "$(ids --state succeeded,failed)" && same '' "$(ids --state crashed)"
}
check "list by state" by_state

by_plugin() {
  same "$running_id" "$(ids --plugin sleep)" && same "$running_id" "$(ids --plugin sleep:sleep)" &&
    same "$nothing_id" "$(ids --plugin fib:nothing)" && same '' "$(ids --plugin sleep:again)" && same '' "$(ids --plugin 'fi')" &&
    same "$queued_ids" "$(ids --plugin fib:fib --state queued)"
}
check "list by plugin and function" by_plugin

by_user() {
  same "$(ids)" "$(ids --user "$(id -u)")" && same "$(ids)" "$(ids --user "$(id -un)")" && same '' "$(ids --user 4242)" &&
    expect_exit 66 wsctl list --user no-such-user-there
}
check "list by user" by_user

by_age() {
  same "$(ids)" "$(ids --since 1h)" && same '' "$(ids --older-than 1h)" && same "$(ids)" "$(ids --older-than 1us)" &&
    same '' "$(ids --since 1us)"
}
check "list by age" by_age

newest() {
  same "$(ids | tail -n 1)" "$(ids --limit 1)" && same "$(ids | tail -n 3)" "$(ids -n 3)" && same "$(ids)" "$(ids -n 7)" &&
    same "$(ids | tail -n 6)" "$(ids -n 6)" && same "$(ids)" "$(ids -n 8)"
}
check "the newest, oldest first" newest

usage() {
  expect_exit 64 wsctl list --state running,asleep && expect_exit 64 wsctl list --since soon && expect_exit 64 wsctl list -n 0 &&
    expect_exit 64 wsctl list --delay 1ms && expect_exit 64 wsctl cancel && expect_exit 64 wsctl cancel --dry-run &&
    expect_exit 64 wsctl cancel --state queued "$running_id"
}
check "what is mistyped is said" usage

# --- watching ---------------------------------------------------------------------------------------------------------

watched() { # ID STATE
  grep -q "\"id\":\"$1\".*\"state\":\"$2\"" "$WORK/watch"
}

watch() {
  background wsctl --json list --watch --delay 100ms --plugin fib:nothing >"$WORK/watch"
  local pid=$BACKGROUND_PID id
  wait_until watched "$nothing_id" queued || return 1
  wsctl cancel "$nothing_id" && wait_until watched "$nothing_id" cancelled || return 1
  id=$(wsctl submit --detach fib:nothing) && wait_until watched "$id" queued || return 1
  kill -INT "$pid"
  expect_exit 130 wait "$pid" && same 3 "$(wc -l <"$WORK/watch")"
}
left() { # ID
  grep -qx "{\"id\":\"$1\",\"gone\":true}" "$WORK/watch"
}
watch_filtered() { # what the filter holds no more is told, too
  background wsctl --json list --watch --delay 100ms --state queued --user "$(id -un)" --plugin fib:nothing --since 1h >"$WORK/watch"
  local pid=$BACKGROUND_PID id
  id=$(wsctl submit --detach fib:nothing) && wait_until watched "$id" queued || return 1
  wsctl cancel "$id" && wait_until left "$id" || return 1
  kill -INT "$pid"
  expect_exit 130 wait "$pid" && ! watched "$id" cancelled
}
set -m # so that the one behind hears Ctrl-C
check "--watch says what has changed, each change once" watch
check "with filters, what has left them is told" watch_filtered
set +m

screen() { # a terminal of 70 columns: each line fits
  python3 - <<'END'
import os, sys
sys.path.insert(0, os.environ['SRC'] + '/tests/support')
import fcntl, pty, struct, subprocess, termios
a, b = pty.openpty()
fcntl.ioctl(b, termios.TIOCSWINSZ, struct.pack('HHHH', 20, 70, 0, 0))
p = subprocess.Popen(['wsctl', 'list'], stdout=b, env=dict(os.environ, TERM='xterm'))
os.close(b)
text = b''
while True:
    try:
        data = os.read(a, 65536)
    except OSError:
        break
    if not data:
        break
    text += data
lines = text.decode().split('\r\n')
print(lines)
assert p.wait() == 0
assert len(lines) > 7 and max(map(len, lines)) == 70, max(map(len, lines))
END
}
check "columns fit the terminal" screen

# --- cancelling -------------------------------------------------------------------------------------------------------

dry() {
  local before
  before=$(ids --state queued)
  wsctl --json cancel --state queued --dry-run >"$WORK/dry" || return 1
  same "$before" "$(head -n -1 "$WORK/dry" | python3 -c 'import json, sys; [print(json.loads(line)["id"]) for line in sys.stdin]')" &&
    same '{"would_cancel":4}' "$(tail -n 1 "$WORK/dry")" && same "$before" "$(ids --state queued)"
}
check "--dry-run shows, and cancels nothing" dry

by_filter() {
  same 'cancelled 0 jobs' "$(wsctl cancel --older-than 1h)" && same 'cancelled 0 jobs' "$(wsctl cancel --state succeeded)" &&
    same 'cancelled 0 jobs' "$(wsctl cancel --user 4242)" && same 'cancelled 1 job' "$(wsctl cancel --plugin fib:nothing)" &&
    same '{"cancelled":3}' "$(wsctl --json cancel --state queued --plugin fib --since 1h)" && job_is running "$running_id" &&
    same '' "$(ids --state queued)"
}
check "cancel by filter, and no more than that" by_filter

all() {
  wsctl submit --detach fib 1 >/dev/null && same 'cancelled 1 job' "$(wsctl cancel --all --state queued)" &&
    job_is running "$running_id" && same 'cancelled 1 job' "$(wsctl cancel --all)" && expect_exit 130 wsctl await "$running_id"
}
check "cancel --all is everything that has not ended" all

# A client of its own: nothing named is refused by wsd, too.
by_hand() {
  python3 - "$WSD_SOCKET" <<'END'
import socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
s.connect(sys.argv[1])
def send(kind, tag, header):
    s.sendall(struct.pack('<BBHIII', 0x57, 1, kind, tag, len(header), 0) + header)
def receive():
    head = s.recv(16, socket.MSG_WAITALL)
    magic, version, kind, tag, header, body = struct.unpack('<BBHIII', head)
    return kind, tag, s.recv(header, socket.MSG_WAITALL) if header else b''
send(1, 0, b'\x08\x01\x10\x01')
assert receive()[0] == 65
send(26, 5, b'')
kind, tag, header = receive()
assert kind == 71 and tag == 5 and header.startswith(b'\x08\x40'), (kind, tag, header)  # ERROR, code 64
send(26, 6, b'\x08\xe0\x0f')  # only final states
assert receive() == (88, 6, b'')
send(25, 7, b'\x40\x01')  # the newest
assert [receive()[0], receive()[0]] == [72, 76]
send(25, 8, b'\x08\x01')  # a state that there is not
assert receive()[:2] == (71, 0)
END
}
check "what comes by hand is checked" by_hand
stop_wsd

# --- many -------------------------------------------------------------------------------------------------------------

N=$((${WSD_THOROUGH:+2}40000 / TIME_SCALE))
many() {
  local id
  wsctl pause fib && "$BUILD/tests/support/clients/many" "$N" || return 1
  id=$(wsctl submit --detach sleep 3600000) || return 1
  same "$N" "$(ids --plugin fib | wc -l)" && same "$(ids | oldest_first)" "$(ids)" && same "$id" "$(ids --plugin sleep)" &&
    same "$(ids | tail -n 5000)" "$(ids -n 5000)" && same "cancelled $N jobs" "$(wsctl cancel --plugin fib)" &&
    same "$id" "$(ids --state running,queued)" && wsctl cancel "$id"
}
: >"$WSD_CONFIG"
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
check "of many: whole, in order, and cancelled at once" many
stop_wsd
