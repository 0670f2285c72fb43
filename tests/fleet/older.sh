#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# older.sh: a wsd-fleet of before parcels beside this one, 200 jobs each way, small and large. It is built here from the
# history, which takes minutes: only with WSD_THOROUGH. WSD_OLDER_BUILD names a directory where one was built already.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/fleet.sh"

OLDER=487fc42c # fleet: a job can name the build of its plugin
JOBS=200
here() { on here "$@"; }
if [ -z "${WSD_THOROUGH:-}" ] && [ -z "${WSD_OLDER_BUILD:-}" ]; then
  skip "an older wsd-fleet" "building it takes minutes: WSD_THOROUGH=1"
  exit 0
fi
git -C "$SRC" cat-file -e "$OLDER^{commit}" 2>/dev/null || {
  skip "an older wsd-fleet" "its commit $OLDER is not in the history here: clone all of it"
  exit 0
}
build_older() {
  OLDER_BUILD=${WSD_OLDER_BUILD:-$WORK/older/build}
  [ ! -x "$OLDER_BUILD/daemon/fleet/wsd-fleet" ] || return 0
  mkdir -p "$WORK/older" && git -C "$SRC" archive "$OLDER" | tar -x -C "$WORK/older" && meson setup "$OLDER_BUILD" "$WORK/older" && ninja -C "$OLDER_BUILD" daemon/fleet/wsd-fleet
}
check "the older one is built" build_older
[ -x "$OLDER_BUILD/daemon/fleet/wsd-fleet" ] || exit 1
NEW=$FLEET
start_nats one && "$FLEET" -n "$NATS_URL" --init >"$WORK/made" || exit 1
start_node_wsd here && start_node_wsd there || exit 1
pair() { # SENDER RECEIVER: programs
  FLEET=$1 start_node_fleet here --no-in && FLEET=$2 start_node_fleet there --no-out
}
leave() { for n in here there; do kill "${NODE_FLEET[$n]}" && wait_for_exit "${NODE_FLEET[$n]}" || return 1; done; }
small() { seq "$JOBS" | here wsctl map @fleet/echo:echo | cmp - <(seq "$JOBS"); }
not_twice() { times "$JOBS" 0 | here wsctl map @fleet/echo:status; }
large() {
  local i
  for i in 1 2 3; do
    head -c 3000000 /dev/urandom >"$WORK/in" && here wsctl submit -i "$WORK/in" @fleet/echo | cmp - "$WORK/in" || return 1
  done
}
fails() { says 3 '' here wsctl submit @fleet/echo:status 3; }
cancels() {
  local id
  id=$(here wsctl submit --detach @fleet/spin) && wait_until on there jobs_are running 1 && here wsctl cancel "$id" && expect_exit 130 here wsctl await "$id" &&
    wait_until on there jobs_are running 0
}
empty() { "$NEW" -n "$NATS_URL" --status | grep -qE '^jobs +0 ' && "$NEW" -n "$NATS_URL" --status | grep -qE '^parts +0 '; }
all_ways() { # WHO
  check "$1: $JOBS small jobs" small
  check "$1: $JOBS that may not run twice" not_twice
  check "$1: inputs and outputs in parts" large
  check "$1: a job that fails" fails
  check "$1: one that is cancelled" cancels
  check "$1: nothing is left" wait_until empty
}
check "an older node takes jobs of this one" pair "$NEW" "$OLDER_BUILD/daemon/fleet/wsd-fleet"
all_ways "to an older one"
no_parcels() { same 0 "$(fleet_counter here out parcels)"; }
check "it is sent no parcel" no_parcels
check "they leave" leave
check "this one takes jobs of an older node" pair "$OLDER_BUILD/daemon/fleet/wsd-fleet" "$NEW"
all_ways "from an older one"
check "these leave" leave
both() { # nodes of both versions take jobs of this one, in parcels and letters
  start_node_wsd older && pair "$NEW" "$NEW" && FLEET=$OLDER_BUILD/daemon/fleet/wsd-fleet start_node_fleet older --no-out || return 1
  local i
  for i in 1 2 3 4 5; do small || return 1; done
  large && wait_until empty
}
check "both take jobs of one sender" both
check "all leave in order" end_fleet
