#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# live.sh: what a job says while it runs elsewhere, messages and progress, is seen where it comes from, at most a few times a
# second. Nothing depends on it. A job that cannot be read elsewhere ends, and says so.
# shellcheck disable=SC2094 # both ends of the FIFO are ours
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/fleet.sh"

FIFO=$WORK/fifo
mkfifo "$FIFO" && chmod 666 "$FIFO"
exec 9<>"$FIFO"
here() { on here "$@"; }
tell() { echo "$*" >&9; }
has_line() { grep -qx "$2" "$1"; } # FILE LINE
parts() { python3 "$SRC/tests/support/parts.py" "${NATS_URL##*:}" "$@"; }
in_stream() { "$FLEET" -n "$NATS_URL" --status | grep -qE "^jobs +$1 "; } # N
leaves() { kill "${NODE_FLEET[$1]}" && wait_for_exit "${NODE_FLEET[$1]}"; }
start_nats one && "$FLEET" -n "$NATS_URL" --init >"$WORK/made" && start_node here --no-in && start_node there --no-out || exit 1

# --- seen -----------------------------------------------------------------------------------------------------------------

followed() {
  local id pid
  id=$(here wsctl submit --detach @fleet/teller "$FIFO") && tell progress 1 3 && wait_until on there jobs_are running 1 || return 1
  on here wsctl --json attach "$id" >"$WORK/a.out" 2>"$WORK/a.err" &
  pid=$!
  wait_until grep -q '"event":"progress","id":"'"$id"'","done":1,"total":3' "$WORK/a.out" && tell say 'half way' &&
    wait_until grep -q '"event":"message","id":"'"$id"'","level":6,"text":"half way"' "$WORK/a.out" && tell progress 2 3 &&
    wait_until grep -q '"event":"progress","id":"'"$id"'","done":2,"total":3' "$WORK/a.out" &&
    here wsctl --json list --state running | grep -q '"done":2,"total":3' && tell end 7 && expect_exit 7 wait "$pid"
}
check "attach and list show messages and progress of a job elsewhere" followed
submitted() {
  local pid
  here wsctl submit @fleet/teller "$FIFO" >"$WORK/b.out" 2>"$WORK/b.err" &
  pid=$!
  tell say 'once more' && wait_until has_line "$WORK/b.err" 'once more' && tell say 'the last word' && tell end 0 && expect_exit 0 wait "$pid"
}
check "submit shows messages" submitted

# --- seldom ---------------------------------------------------------------------------------------------------------------

listen() { # SUBJECT
  background python3 "$SRC/tests/support/parts.py" "${NATS_URL##*:}" listen "$1" >"$WORK/heard"
  wait_until subscribed
}
subscribed() { [ -s "$WORK/heard" ] || { echo hello | parts tell wsd.live.here.hello && false; }; }
heard() { grep -c "^wsd.live.here.$1 " "$WORK/heard"; } # ID
heard_more() { [ "$(heard "$1")" -ge "$2" ]; }
check "what is told can be heard" listen 'wsd.live.>'
seldom() { # it tells of its progress all the time
  local id start took
  start=$SECONDS
  id=$(here wsctl submit --detach @fleet/spin) && wait_until heard_more "$id" 8 && here wsctl cancel "$id" && wait_until on there jobs_are running 0 || return 1
  took=$((SECONDS - start + 1))
  echo "$(heard "$id") messages in less than $took s"
  [ "$(heard "$id")" -le $((4 * took + 1)) ] && [ "$(awk '{ print $2 }' "$WORK/heard" | sort -n | tail -1)" -le 4096 ]
}
check "at most a few a second" seldom
chatter() { # more lines than there is room for: some are lost, the job is not
  local i
  here wsctl submit --json @fleet/teller "$FIFO" >"$WORK/d.out" 2>&1 &
  local pid=$!
  for ((i = 0; i < 300; i++)); do tell say "$(printf 'line %0100d' "$i")"; done
  tell end 0
  expect_exit 0 wait "$pid" && [ "$(awk '{ print $2 }' "$WORK/heard" | sort -n | tail -1)" -le 4096 ]
}
check "many lines" chatter

# --- nothing depends on it ------------------------------------------------------------------------------------------------

noise() {
  local id pid
  id=$(here wsctl submit --detach @fleet/teller "$FIFO") && wait_until on there jobs_are running 1 || return 1
  head -c 3000 /dev/urandom | parts tell "wsd.live.here.$id" && head -c 100000 /dev/urandom | parts tell "wsd.live.here.$id" && parts tell "wsd.live.here.$id" </dev/null &&
    parts tell wsd.live.here.nothing </dev/null && head -c 20 "$WORK/heard" | parts tell "wsd.live.here" && tell out right && tell end 0 && expect_output right here wsctl await "$id"
}
check "noise in its place does no harm" noise
older() { # a node that does not name itself is told nothing
  local old new
  leaves there && old=$(here wsctl submit --detach @fleet/spin) && wait_until in_stream 1 && parts spoil wsd.job.00.norm.spin nameless && start_node_fleet there --no-out &&
    wait_until on there jobs_are running 1 && new=$(here wsctl submit --detach @fleet/spin) && wait_until heard_more "$new" 6 && same 0 "$(heard "$old")" &&
    here wsctl cancel "$old" "$new" && wait_until on there jobs_are running 0
}
check "a node of an older version is told nothing" older

# --- what cannot be read --------------------------------------------------------------------------------------------------

unread() { # COMMAND...: makes another letter of the one on standard input, under the same header
  local id
  leaves there && id=$(here wsctl submit --detach @fleet/echo x) && wait_until in_stream 1 && parts spoil wsd.job.00.norm.echo "$@" &&
    start_node_fleet there --no-out && says 63 'there could not read it: .*Submit it again, or update it there' here wsctl await "$id" && wait_until in_stream 0
}
check "a letter that is cut: its sender is told" unread cut
check "one of another version, too" unread version
check "and one for another plugin" unread plugin
unread_parcel() { # those before the damage run
  local pid
  touch "$WORK/open" && times 100 "$WORK/open" | here wsctl map @fleet/ledger:gate >"$WORK/gates" && leaves there || return 1
  times 100 "$WORK/open" | here wsctl map --keep-going @fleet/ledger:gate >"$WORK/gates" 2>"$WORK/gates.err" &
  pid=$!
  wait_until parcel_waits && parts spoil 'wsd.job.00.norm.ledger.*' "$1" && start_node_fleet there --no-out && wait_until gone "$pid" && expect_exit 63 wait "$pid" && wait_until in_stream 0 &&
    grep -q 'there could not read it' "$WORK/gates.err"
}
parcel_waits() { parts last 'wsd.job.00.norm.ledger.*'; }
check "a parcel that is cut: each of its jobs has its end" unread_parcel cut
check "one that cannot be read at all" unread_parcel version
check "all leave in order" end_fleet
