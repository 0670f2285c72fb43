#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# cgroups.sh: wsd with cgroups and wsd-spawn, as a service of a systemd in a machine of its own, whose kernel has the
# controllers, and AppArmor: installs the build there, and runs inside-cgroups.sh and inside-apparmor.sh, which do the testing.
. "$(dirname "$0")/../support/lib.sh"

if [ "$(id -u)" != 0 ]; then
  skip cgroups "needs root"
  exit
fi
if [ -z "${WSD_THOROUGH:-}" ]; then
  skip cgroups "emulates a machine for a minute: with --thorough"
  exit
fi
box=$SRC/tests/support/boxes/systemd-box

check "meson install" env DESTDIR="$WORK/dest" meson install -C "$BUILD" --no-rebuild --quiet || exit
prefix=$(meson introspect "$BUILD" --buildoptions | python3 -c '
import json, sys
print({o["name"]: o["value"] for o in json.load(sys.stdin)}["prefix"])')
plugins=$(PKG_CONFIG_PATH=$(dirname "$(find "$WORK/dest" -name wsd-plugin.pc)") pkg-config --variable=plugindir wsd-plugin)
# the machine has no network, and to install packages would take it long
mkdir -p "$WORK/dest/usr/lib/wsd-libraries"
tools=()
! command -v strace >/dev/null || tools=("$(command -v strace)")
ldd "$WORK/dest$prefix/sbin/wsd" "$WORK/dest$prefix/libexec/wsd-executor" "$WORK/dest$plugins"/*.so "$WORK/dest$prefix/bin/wsctl" "${tools[@]}" |
  sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u | grep -vE '/(libc|libm|ld-linux.*|libwsclient)\.so' |
  xargs -I{} cp -L {} "$WORK/dest/usr/lib/wsd-libraries/"
mkdir -p "$WORK/dest/etc/ld.so.conf.d"
echo /usr/lib/wsd-libraries >"$WORK/dest/etc/ld.so.conf.d/zz-wsd.conf"
inputs=(--dir "$WORK/dest" --copy "$SRC/tests/support/lib.sh:/box/support/lib.sh"
  --copy "$SRC/packaging/apparmor/usr.sbin.wsd:/box/usr.sbin.wsd")
for part in inside inside-cgroups inside-apparmor; do
  inputs+=(--copy "$SRC/tests/system/$part.sh:/box/system/$part.sh")
done
for tool in "${tools[@]}"; do
  inputs+=(--copy "$tool:/usr/bin/${tool##*/}")
done
for plugin in sleep self hostile; do
  inputs+=(--copy "$TEST_PLUGINS/$plugin.so:$plugins/$plugin.so")
done
status=0
"$box" --mode vm "${inputs[@]}" --out "$WORK/out" --timeout $((480 * TIME_SCALE)) --env "PREFIX=$prefix" \
  --env "TIME_SCALE=$((TIME_SCALE * 4))" -- bash -c 'bash /box/system/inside-cgroups.sh; bash /box/system/inside-apparmor.sh' >"$WORK/said" 2>&1 || status=$?
cat "$WORK/said"
n_failed=$(grep -c '^FAIL ' "$WORK/said")
[ "$status" = 0 ] || [ "$n_failed" -gt 0 ] || fail cgroups "the machine exited $status"
if [ "$n_failed" -gt 0 ]; then
  echo "the journal:"
  grep -E 'wsd' "$WORK/out/journal.txt" | tail -n 80 | sed 's/^/    | /'
fi
