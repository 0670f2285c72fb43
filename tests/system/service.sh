#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# service.sh: wsd as a service of a real systemd: builds the Debian packages, boots a box, installs them there with a lower
# version, and runs inside-service.sh, which does the testing: also the upgrade, and the removal.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/ca.sh"

if [ "$(id -u)" != 0 ]; then
  skip service "needs root"
  exit
fi
if ! "$SRC/packaging/install-deps" system build package >"$WORK/deps" 2>&1; then
  skip service "packages are missing: $(tail -n 1 "$WORK/deps")"
  exit
fi
box=$SRC/tests/support/boxes/systemd-box
if ! "$box" --timeout 60 -- true >"$WORK/box" 2>&1; then
  skip service "no box can be booted here: $(tail -n 1 "$WORK/box")"
  exit
fi

debs=$WORK/debs old=$WORK/old
# Where the cache of compiled objects is: debhelper has a HOME of its own. With --thorough nothing comes from there, and
# programs are optimised as a whole; the suites install, integration and bench have those of this machine's build.
if [ -n "${WSD_THOROUGH:-}" ]; then
  export CCACHE_DISABLE=1
else
  ! command -v ccache >/dev/null || export CCACHE_DIR="${CCACHE_DIR:-$(ccache --get-config cache_dir)}"
  export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-} optimize=-lto"
fi
check "packaging/build-deb" "$SRC/packaging/build-deb" --quick --output "$debs" || exit
# beside the box, which waits more than it works
lintian=''
if command -v lintian >/dev/null; then
  background lintian --pedantic --display-info --allow-root --tag-display-limit 0 --fail-on error,warning,info,pedantic \
    "$debs"/*.changes >"$WORK/lintian" 2>&1
  lintian=$BACKGROUND_PID
else
  skip "lintian" "there is none here"
fi
# What would make each build another one: where it was done, and when.
no_traces() {
  local deb tree=$WORK/traces latest
  latest=$(git -C "$SRC" log -1 --format=%ct 2>/dev/null) || latest=$(date +%s)
  for deb in "$debs"/*.deb; do
    rm -rf "$tree"
    dpkg-deb --raw-extract "$deb" "$tree" || return 1
    ! grep -rlF -e "$SRC" -e /wsd-deb. "$tree" || return 1
    ! dpkg-deb --fsys-tarfile "$deb" | tar -tv --full-time | awk '{ print $4, $5 }' | sort -u | while read -r when; do
      [ "$(date -d "$when" +%s)" -le "$latest" ] || echo "$when"
    done | grep . || return 1
  done
}
check "no package tells where and when it was built" no_traces
# The same packages with a lower version: what dpkg and the maintainer scripts do in an upgrade does not hang on more.
lower() { # DEB
  local tree=$WORK/lower
  rm -rf "$tree"
  dpkg-deb --raw-extract "$1" "$tree" &&
    sed -i -E 's/^Version: .*/Version: 0.0.1/; /^Depends:/s/(libwsclient0 \()[>=]+ [^)]*/\1>= 0.0.1/' "$tree/DEBIAN/control" &&
    dpkg-deb --root-owner-group -Znone --build "$tree" "$old/$(basename "${1%%_*}")_0.0.1.deb"
}
all_lower() {
  local deb
  mkdir "$old"
  for deb in "$debs"/{wsd,libwsclient0}_*.deb; do lower "$deb" || return 1; done
}
check "the same with a lower version" all_lower || exit
if [ -n "${WSD_THOROUGH:-}" ]; then
  another_time() { # another directory, other names, another user's mask
    mkdir -p "$WORK/elsewhere/deeper" &&
      (umask 077 && cd / && TMPDIR=$WORK/elsewhere/deeper TZ=Asia/Kathmandu "$SRC/packaging/build-deb" --quick --output "$WORK/debs-2") &&
      (cd "$debs" && sha256sum ./*.deb) | (cd "$WORK/debs-2" && sha256sum --check)
  }
  check "two builds, the same bytes" another_time
fi

plugins=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)/wsd/plugins
certificates() {
  ca_new good && ca_sign good server localhost 'extendedKeyUsage = serverAuth\nsubjectAltName = DNS:localhost' &&
    ca_sign good alice 'alice of the lab' 'extendedKeyUsage = clientAuth' && mkdir "$WORK/tls" && mv "$WORK/good" "$WORK/tls/"
}
check "certificates" certificates
inputs=(--copy "$debs:/box/debs-new" --copy "$WORK/tls:/box/tls" --copy "$SRC/tests/support/lib.sh:/box/support/lib.sh"
  --copy "$SRC/tests/system/inside.sh:/box/system/inside.sh" --copy "$SRC/tests/system/inside-service.sh:/box/system/inside-service.sh"
  --copy "$SRC/packaging/debian/tests:/box/autopkgtest")
for plugin in sleep ledger echo crash hostile; do inputs+=(--copy "$TEST_PLUGINS/$plugin.so:$plugins/$plugin.so"); done
for deb in "$old"/wsd_*.deb "$old"/libwsclient0_*.deb; do inputs+=(--deb "$deb"); done
# for wsd-fleet and wsd-web, which inside-service.sh installs
for package in nats-server libnats3.4 libjansson4 libevent-2.1-7 curl; do inputs+=(--pkg "$package"); done
status=0
"$box" "${inputs[@]}" --out "$WORK/out" --timeout $((240 * TIME_SCALE)) --env "PLUGINS=$plugins" \
  --env "TIME_SCALE=$TIME_SCALE" -- bash /box/system/inside-service.sh >"$WORK/said" 2>&1 || status=$?
cat "$WORK/said"
n_failed=$(grep -c '^FAIL ' "$WORK/said")
[ "$status" = 0 ] || [ "$n_failed" -gt 0 ] || fail service "the box exited $status"
if [ "$n_failed" -gt 0 ]; then
  echo "the journal:"
  grep -E 'wsd' "$WORK/out/journal.txt" | tail -n 80 | sed 's/^/    | /'
fi
if [ -n "${WSD_THOROUGH:-}" ]; then
  inputs=(--copy "$SRC/packaging/debian:/box/source/debian")
  for deb in "$debs"/*.deb; do inputs+=(--deb "$deb"); done
  for package in autopkgtest dpkg-dev gcc libc6-dev pkg-config; do inputs+=(--pkg "$package"); done
  # the box is the isolation that autopkgtest cannot see
  check "autopkgtest" "$box" "${inputs[@]}" --timeout $((300 * TIME_SCALE)) -- \
    autopkgtest --no-built-binaries --ignore-restrictions=isolation-machine /box/source/ -- null
  # in a box that has what the packages depend on, and no more: by a wsd of the user's own, and by the system's
  inputs=(--copy "$SRC/packaging/debian/tests/python:/box/python")
  for deb in "$debs"/{wsd,libwsclient0,python3-wsd}_*.deb; do inputs+=(--deb "$deb"); done
  # shellcheck disable=SC2016 # for the box
  check "python3-wsd from its package" "$box" "${inputs[@]}" --timeout $((120 * TIME_SCALE)) -- bash -c '
    useradd -m -G wsd tester && runuser -u tester -- sh /box/python &&
      runuser -u tester -- env WSD_SOCKET=/run/wsd/wsd.sock sh /box/python'
fi
if [ -z "$lintian" ]; then
  :
elif wait "$lintian"; then
  ok "lintian finds nothing, pedantic"
else
  fail "lintian finds nothing, pedantic" "$(cat "$WORK/lintian")"
fi
nothing_failed() {
  [ ! -s "$WORK/out/failed.txt" ] || {
    cat "$WORK/out/failed.txt"
    return 1
  }
}
check "no unit has failed at the end" nothing_failed
