#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# builds.sh: two nodes with different builds of one plugin: a job goes to the build that it names.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/fleet.sh"

# The same plugin with another build id.
mkdir "$WORK/one" "$WORK/two" && cp "$TEST_PLUGINS/echo.so" "$WORK/one/" && python3 - "$TEST_PLUGINS/echo.so" "$WORK/two/echo.so" <<'END' || exit 1
import sys
file = open(sys.argv[1], 'rb').read()
at = file.index(b'\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0') + 16
open(sys.argv[2], 'wb').write(file[:at] + bytes(b ^ 0xff for b in file[at:at + 20]) + file[at + 20:])
END
both=$TEST_PLUGINS
start_nats one && "$FLEET" -n "$NATS_URL" --init >"$WORK/made" && start_node here --no-in || exit 1
TEST_PLUGINS=$WORK/one
start_node a --no-out --builds || exit 1
TEST_PLUGINS=$WORK/two
start_node b --no-out --builds || exit 1
TEST_PLUGINS=$both
here() { on here "$@"; }
build_of() { on "$1" wsctl --json plugin show echo | sed -n 's/.*"build":"\([0-9a-f]\{16\}\).*/\1/p'; } # NODE
A=$(build_of a) B=$(build_of b)
check "the builds differ" eval '[ ${#A} = 16 ] && [ ${#B} = 16 ] && [ "$A" != "$B" ]'
shown() { on a wsctl plugin show echo | grep -q "^echo 1 .build $A.$"; }
check "wsctl tells them" shown
ended() { fleet_counter "$1" in ended; } # NODE
only_at() {                              # NODE BUILD OTHER: 20 jobs for that build
  local here_before there_before
  here_before=$(ended "$1") there_before=$(ended "$3")
  seq 20 | here wsctl map "@fleet/echo.$2:echo" | sort -n | cmp - <(seq 20) && same $((here_before + 20)) "$(ended "$1")" && same "$there_before" "$(ended "$3")"
}
check "jobs for one build go to its node" only_at a "$A" b
check "and for the other one to the other" only_at b "$B" a
check "the plugin's own function, and --fleet" expect_output x here wsctl submit --fleet "echo.$A" x
check "jobs without a build go to any" expect_output x here wsctl submit @fleet/echo x
waits() { says 124 '' here wsctl submit --timeout 500ms "@fleet/echo.0000000000000000" x; }
check "for a build that there is not, it waits" waits
for wrong in echo.123 "echo.${A}0" "echo.${A^^}"; do
  [ "$wrong" != "echo.$A" ] || continue # digits only
  check "refused: $wrong" says 63 '16 digits of a build id' here wsctl submit "@fleet/$wrong" x
done
listed() { "$FLEET" -n "$NATS_URL" --status --json | grep -q "\"plugin\":\"echo+$A\""; }
check "the status has them" listed
without() { # --builds
  kill "${NODE_FLEET[a]}" && wait_for_exit "${NODE_FLEET[a]}" && start_node_fleet a --no-out && says 124 '' here wsctl submit --timeout 500ms "@fleet/echo.$A" x
}
check "a node that is not told of builds takes none" without
check "all leave in order" end_fleet
