#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# foreign.sh: the RPM and the Arch package, built here from packaging/rpm and packaging/arch, have what the Debian packages have.
# Dependencies have other names there, and are those of Debian here. What they do when they are installed only their systems show.
. "$(dirname "$0")/../support/lib.sh"

if [ -z "${WSD_THOROUGH:-}" ]; then
  skip foreign "builds all three kinds of packages: with --thorough; the suite install looks at the lists"
  exit
fi
if [ "$(id -u)" != 0 ] || ! "$SRC/packaging/install-deps" build package foreign >"$WORK/deps" 2>&1; then
  skip foreign "needs root and packages: $(tail -n 1 "$WORK/deps" 2>/dev/null)"
  exit
fi
unset LD_LIBRARY_PATH
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" "$SRC/meson.build")

# The same names for the same things, a line each: libraries in LIB, units in /usr/lib; without what is each system's own.
plain() { # LIBDIR
  sed -E "s,^\./,/,; s,^$1/,LIB/,; s,^/lib/systemd/,/usr/lib/systemd/,; s,/zsh/vendor-completions/,/zsh/site-functions/,; s,(/man[0-9]/.*)\.gz$,\1," |
    grep -vE '/$|^/usr/share/(doc|licenses|lintian)/|^/etc/apparmor\.d/|/\.build-id|^/\.' | LC_ALL=C sort
}
deb_files() { # PACKAGE...
  local package
  for package; do
    dpkg-deb --fsys-tarfile "$WORK/debs/${package}_"*.deb | tar -t
  done | plain "/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)"
}
same_files() { # LIST LIST
  [ -s "$1" ] && diff "$1" "$2"
}

check "packaging/build-deb" "$SRC/packaging/build-deb" --quick --output "$WORK/debs" || exit

# --- RPM -----------------------------------------------------------------------------------------------------------------

mkdir -p "$WORK/rpm/SOURCES"
(cd "$SRC" && git ls-files -z -c -o --exclude-standard | tar --null --transform "s,^,wsd-$version/," -czf "$WORK/rpm/SOURCES/wsd-$version.tar.gz" -T -)
check "rpmbuild" rpmbuild -bb --nodeps --nocheck --load "$SRC/tests/support/macros.rpm" --define "_topdir $WORK/rpm" --define "_datadir /usr/share" \
  --define "debug_package %{nil}" "$SRC/packaging/rpm/wsd.spec" || exit
rpm_files() { # PACKAGE
  rpm -qp --nosignature --qf '[%{FILENAMES} %{FILEMODES:perms}\n]' "$WORK"/rpm/RPMS/*/"$1"-"$version"-*.rpm | sed -n 's/ [^d].\{9\}$//p' |
    plain "$(rpm --eval %_libdir)"
}
for names in wsd:wsd wsd-fleet:wsd-fleet wsd-web:wsd-web libwsclient0:libwsclient libwsclient-dev:libwsclient-devel python3-wsd:python3-wsd; do
  deb_files "${names%:*}" >"$WORK/deb.list"
  rpm_files "${names#*:}" >"$WORK/rpm.list"
  check "the RPM ${names#*:} has what Debian's ${names%:*} has" same_files "$WORK/deb.list" "$WORK/rpm.list"
done
is_config() {
  rpm -qp --nosignature --configfiles "$WORK"/rpm/RPMS/*/wsd-"$version"-*.rpm | grep -x /etc/wsd/wsd.conf
}
check "the configuration is the administrator's there, too" is_config

# --- Arch ----------------------------------------------------------------------------------------------------------------

# makepkg is not to be run by root, and builds the commit of a clone
builder=65534 clone=$WORK/clone
chmod 755 "$WORK"
mkdir "$clone"
(cd "$SRC" && git ls-files -z -c -o --exclude-standard | tar --null -cf - -T -) | tar -xf - -C "$clone"
printf '#!/bin/sh\nexec meson setup --prefix /usr --libdir lib --sysconfdir /etc --buildtype plain --auto-features enabled --wrap-mode nodownload "$@"\n' >"$WORK/bin/arch-meson"
chmod 755 "$WORK/bin/arch-meson"
chown -R "$builder:$builder" "$clone"
arch_build() {
  setpriv --reuid=$builder --regid=$builder --clear-groups env HOME="$clone" PATH="$WORK/bin:$PATH" CARCH=x86_64 PKGEXT=.pkg.tar.gz sh -c '
    git -C "$0" init -q && git -C "$0" add -A && git -C "$0" -c user.name=x -c user.email=x@x commit -qm x &&
      cd "$0/packaging/arch" && makepkg --nodeps --nocheck --noconfirm' "$clone"
}
check "makepkg" arch_build || exit
for package in "$clone"/packaging/arch/wsd-*.pkg.tar.gz; do bsdtar -tf "$package"; done | sed 's,^,/,; s,^/usr/lib/wsd/wsd-\(executor\|spawn\|fleet\|web\)$,/usr/libexec/wsd-\1,; s,^/usr/bin/wsd$,/usr/sbin/wsd,' |
  plain /usr/lib | sed 's,^LIB/\(systemd\|sysusers\.d\|tmpfiles\.d\)/,/usr/lib/\1/,' | LC_ALL=C sort >"$WORK/arch.list"
deb_files wsd wsd-fleet wsd-web libwsclient0 libwsclient-dev python3-wsd | LC_ALL=C sort >"$WORK/deb.list"
check "the Arch packages have what Debian's six have" same_files "$WORK/deb.list" "$WORK/arch.list"
