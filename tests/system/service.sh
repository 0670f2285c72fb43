#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# service.sh: wsd as a service of a real systemd: installs the build into a box, boots it, and runs inside-service.sh
# there, which does the testing.
. "$(dirname "$0")/../support/lib.sh"

if [ "$(id -u)" != 0 ]; then
  skip service "needs root"
  exit
fi
if ! "$SRC/packaging/install-deps" system >"$WORK/deps" 2>&1; then
  skip service "packages are missing: $(tail -n 1 "$WORK/deps")"
  exit
fi
box=$SRC/tests/support/systemd-box
if ! "$box" --timeout 60 -- true >"$WORK/box" 2>&1; then
  skip service "no box can be booted here: $(tail -n 1 "$WORK/box")"
  exit
fi

check "meson install" env DESTDIR="$WORK/dest" meson install -C "$BUILD" --no-rebuild --quiet || exit
prefix=$(meson introspect "$BUILD" --buildoptions | python3 -c '
import json, sys
print({o["name"]: o["value"] for o in json.load(sys.stdin)}["prefix"])')
inputs=(--dir "$WORK/dest" --copy "$SRC/tests/support/lib.sh:/box/support/lib.sh"
  --copy "$SRC/tests/system/inside-service.sh:/box/system/inside-service.sh")
plugindir=$(PKG_CONFIG_PATH=$(dirname "$(find "$WORK/dest" -name wsd-plugin.pc)") pkg-config --variable=plugindir wsd-plugin)
for plugin in sleep crash echo; do
  inputs+=(--copy "$TEST_PLUGINS/$plugin.so:$plugindir/$plugin.so")
done
for package in libevent-core-2.1-7 libprotobuf-c1 libssl3 libzstd1 libinih1 libhwloc15 libseccomp2 libsqlite3-0; do
  inputs+=(--pkg "$package")
done
status=0
"$box" "${inputs[@]}" --out "$WORK/out" --timeout $((240 * TIME_SCALE)) --env "PREFIX=$prefix" \
  --env "TIME_SCALE=$TIME_SCALE" -- bash /box/system/inside-service.sh >"$WORK/said" 2>&1 || status=$?
cat "$WORK/said"
n_failed=$(grep -c '^FAIL ' "$WORK/said")
[ "$status" = 0 ] || [ "$n_failed" -gt 0 ] || fail service "the box exited $status"
if [ "$n_failed" -gt 0 ]; then
  echo "the journal:"
  grep -E 'wsd' "$WORK/out/journal.txt" | tail -n 80 | sed 's/^/    | /'
fi
nothing_failed() {
  [ ! -s "$WORK/out/failed.txt" ] || {
    cat "$WORK/out/failed.txt"
    return 1
  }
}
check "no unit has failed at the end" nothing_failed
