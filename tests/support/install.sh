#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# install.sh: the suite `install`. Installs into a directory of its own and looks at that as a packager and a plugin
# author would: every promised place, headers and pkg-config from there, soname, exported symbols, hardening.
# Uses BUILD only to install from it.
. "$(dirname "$0")/lib.sh"
set +o pipefail # grep -q ends before nm and readelf do

dest=$WORK/dest
prefix=$(meson introspect "$BUILD" --buildoptions | python3 -c '
import json, sys
print({o["name"]: o["value"] for o in json.load(sys.stdin)}["prefix"])')
libdir=$prefix/$(meson introspect "$BUILD" --buildoptions | python3 -c '
import json, sys
print({o["name"]: o["value"] for o in json.load(sys.stdin)}["libdir"])')
check "meson install" env DESTDIR="$dest" meson install -C "$BUILD" --no-rebuild --quiet || exit 1

# --- places ------------------------------------------------------------------------------------------------------------

python_path() { # where the Python package is
  local found
  found=$(cd "$dest" && find "$PWD" -path '*-packages/wsd/__init__.py')
  found=${found%/wsd/__init__.py}
  echo "${found#"$dest"}"
}
python_package() { # without what a build leaves behind, and as it is installed
  [ "$(find "$dest$(python_path)/wsd" -type f | wc -l)" = "$(git -C "$SRC" ls-files client/python/wsd | wc -l)" ] &&
    PYTHONPATH=$dest$(python_path) PYTHONDONTWRITEBYTECODE=1 WSD_LIBWSCLIENT='' python3 -c 'import wsd, wsd.aio; print(wsd.__file__)'
}
there() {
  [ -e "$dest$1" ]
}
fleet=()
[ ! -x "$BUILD/daemon/fleet/wsd-fleet" ] || fleet=("$prefix/libexec/wsd-fleet" "$prefix/share/man/man8/wsd-fleet.8"
  "$prefix/lib/systemd/system/wsd-fleet.service" "$prefix/lib/sysusers.d/wsd-fleet.conf")
web=()
[ ! -x "$BUILD/daemon/web/wsd-web" ] || web=("$prefix/libexec/wsd-web" "$prefix/share/man/man8/wsd-web.8"
  "$prefix/lib/systemd/system/wsd-web."{service,socket} "$prefix/lib/sysusers.d/wsd-web.conf")
for file in "${fleet[@]}" "${web[@]}" "$prefix/sbin/wsd" "$prefix/libexec/wsd-executor" "$prefix/libexec/wsd-spawn" "$prefix/bin/wsctl" "$libdir/libwsclient.so.0" \
  "$libdir/libwsclient.so" "$libdir/wsd/wsctl-local.so" "$libdir/wsd/wsctl-top.so" "$libdir/wsd/wsctl-pprof.so" "$libdir/wsd/wsd-tls.so" "$libdir/pkgconfig/wsclient.pc" \
  "$libdir/pkgconfig/wsd-plugin.pc" "$prefix/include/wsd/plugin.h" "$prefix/include/wsd/task.h" \
  "$prefix/include/wsd/forms.h" "$prefix/include/wsd/future.h" "$prefix/include/wsd/graph.h" "$prefix/include/wsd/client.h" \
  "$prefix/include/wsd/adapters/epoll.h" "$prefix/include/wsd/adapters/glib.h" "$prefix/include/wsd/adapters/libevent.h" \
  "$prefix/include/wsd/adapters/libuv.h" "$prefix/share/doc/libwsclient-dev/examples/libuv.c" \
  "$prefix/share/doc/libwsclient-dev/examples/postgresql/"{Makefile,wsd_call--1.0.sql,wsd_call.c,wsd_call.control} \
  "$prefix/share/doc/libwsclient-dev/examples/nginx/config" "$prefix/share/doc/libwsclient-dev/examples/nginx/ngx_http_wsd_module.c" \
  "$prefix/share/bash-completion/completions/wsctl" "$prefix/share/zsh/site-functions/_wsctl" \
  "$prefix/share/fish/vendor_completions.d/wsctl.fish"; do
  check "installs ${file#"$prefix"/}" there "$file"
done
for plugin in archive checksum compress decompress count search sort exec text fib nqueens uts; do
  check "installs plugin $plugin" there "$libdir/wsd/plugins/$plugin.so"
done
if [ -e "$BUILD/daemon/plugins/image.so" ]; then
  check "installs plugin image" there "$libdir/wsd/plugins/image.so"
fi
check "installs the Python package, whole" python_package
nothing_of_tests() {
  ! find "$dest" -type f | grep -E '/tests?[/-]|run-plugin|libcheck'
}
check "installs nothing of the tests" nothing_of_tests

# --- what packages list ------------------------------------------------------------------------------------------------

# For Debian debhelper looks: what no package has is an error there. Arch's takes all. system/foreign.sh builds them.
without=()
[ ${#fleet[@]} -gt 0 ] || without=(--define '_without_fleet 1')
[ ${#web[@]} -gt 0 ] || without+=(--define '_without_web 1')
spec_files() { # as the spec has them, for this prefix
  rpmspec --load "$SRC/tests/support/macros.rpm" --define "_prefix $prefix" --define "_datadir $prefix/share" --define "_libdir $libdir" \
    --define "python3_sitelib $(python_path)" "${without[@]}" \
    --define "_mandir $prefix/share/man" --define "_sysconfdir $etc" --parse "$SRC/packaging/rpm/wsd.spec" |
    awk '/^%files/ { on = 1; next } /^%changelog/ { on = 0 } on && NF && !/^%(doc|license|dir) / { sub(/^%config[^ ]* /, ""); print }'
}
# The static library is not in packages: it is built with -Ddefault_library=both only.
spec_has_all() {
  local file pattern n bad=0 patterns
  mapfile -t patterns < <(spec_files)
  while IFS= read -r file; do
    n=0
    for pattern in "${patterns[@]}"; do
      # shellcheck disable=SC2053 # a pattern; one that ends with a slash is all that is beneath
      [[ $file != ${pattern/%\//\/*} ]] || n=$((n + 1))
    done
    [ "$n" = 1 ] || {
      echo "$file is in $n lines of %files"
      bad=1
    }
  done < <(cd "$dest" && find . ! -type d ! -path "*/apparmor.d/*" ! -name libwsclient.a | sed 's/^\.//')
  for pattern in "${patterns[@]}"; do
    compgen -G "$dest$pattern" >/dev/null || {
      echo "$pattern: nothing is installed there"
      bad=1
    }
  done
  return "$bad"
}
if command -v rpmspec >/dev/null; then
  etc=$(dirname "$(dirname "$(cd "$dest" && find "$PWD" -path '*/wsd/wsd.conf')")")
  etc=${etc#"$dest"}
  check "the RPM spec has each file, once" spec_has_all
else
  skip "the files of the RPM spec" "there is no rpmspec here (rpm)"
fi

# These builds take each automatic feature for a must, and only x86-64 has hyperscan.
rpm_options() { # CPU [OPTION...]
  rpmspec --load "$SRC/tests/support/macros.rpm" --target "$1" "${@:2}" --parse "$SRC/packaging/rpm/wsd.spec"
}
arch_options() { # CPU
  CARCH=$1 srcdir='' bash -c 'arch-meson() { echo "$@"; }; meson() { :; }; . "$0"; build' "$SRC/packaging/arch/PKGBUILD"
}
hyperscan_is() { # enabled|disabled COMMAND...
  "${@:2}" | grep -e "-Dhyperscan=$1"
}
if command -v rpmspec >/dev/null; then
  check "the RPM has hyperscan on x86_64" hyperscan_is enabled rpm_options x86_64
  check "the RPM has no hyperscan where it is not wanted" hyperscan_is disabled rpm_options x86_64 --define '_without_hyperscan 1'
  check "the RPM has no hyperscan on aarch64" hyperscan_is disabled rpm_options aarch64
fi
check "Arch's package has hyperscan on x86_64" hyperscan_is enabled arch_options x86_64
check "Arch's package has no hyperscan on aarch64" hyperscan_is disabled arch_options aarch64

# --- as a plugin author and as a client's author -------------------------------------------------------------------------

pc() { # PACKAGE FLAG...
  PKG_CONFIG_SYSROOT_DIR=$dest PKG_CONFIG_PATH=$dest$libdir/pkgconfig PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
    pkg-config "${@:2}" "$1"
}
words() { # STRING: its words on lines
  read -ra list <<<"$1"
  printf '%s\n' "${list[@]}"
}

cat >"$WORK/mine.c" <<'END'
#include <stdio.h>
#include <wsd/plugin.h>
#include <wsd/task.h>

static int shout(struct wsd_job *job, struct wsd_worker *self)
{
  char text[64];
  int n = snprintf(text, sizeof(text), "%s!\n", job->argc > 1 ? job->argv[1] : "");

  (void)self;
  return wsd_job_write(job, text, (size_t)n) < 0 ? 1 : 0;
}

static const struct wsd_function functions[] = {{.name = "shout", .help = "says it loudly", .run = shout}};
WSD_PLUGIN(.n_functions = 1, .functions = functions, .name = "mine", .version = "1", .help = "a test");
END
cat >"$WORK/client.c" <<'END'
#include <stdio.h>
#include <wsd/client.h>

int main(void)
{
  printf("%s\n", wsd_client_library_version());
  return 0;
}
END

plugindir() {
  expect_output "$libdir/wsd/plugins" pkg_plugindir
}
pkg_plugindir() {
  PKG_CONFIG_PATH=$dest$libdir/pkgconfig pkg-config --variable=plugindir wsd-plugin
}
check "wsd-plugin.pc names the plugin directory" plugindir

examples() { # COMPILER
  local file
  for file in "$SRC"/tests/support/guide/*.c; do
    "$1" -std=c11 -shared -fPIC -Wall -Wextra -Werror -Wno-unused-parameter "${flags[@]}" "$file" -o "$WORK/example.so" ||
      return 1
  done
}

for compiler in gcc clang; do
  command -v "$compiler" >/dev/null || continue
  mapfile -t flags < <(words "$(pc wsd-plugin --cflags)")
  check "$compiler builds a plugin from the installed headers" "$compiler" -std=c11 -shared -fPIC -Wall -Wextra -Werror \
    -Wno-unused-parameter "${flags[@]}" "$WORK/mine.c" -o "$WORK/mine.so"
  check "$compiler builds the guide's examples from the installed headers" examples "$compiler"
  mapfile -t flags < <(words "$(pc wsclient --cflags --libs)")
  check "$compiler builds a client from the installed library" "$compiler" -std=c11 -Wall -Wextra -Werror \
    "$WORK/client.c" "${flags[@]}" -o "$WORK/client"
done
if [ -x "$WORK/client" ]; then
  check "the client runs on the installed library" env LD_LIBRARY_PATH="$dest$libdir" "$WORK/client"
fi

# The installed daemon, client and plugins together, from where they are.
installed() {
  local said
  said=$("$WSCTL" submit fib 20) && [ "$said" = 6765 ]
}
own_plugin() {
  local said
  said=$("$WSCTL" submit "$WORK/mine.so" hello) && [ "$said" = "hello!" ]
}
export LD_LIBRARY_PATH=$dest$libdir
WSD=$dest$prefix/sbin/wsd
WSCTL=$dest$prefix/bin/wsctl
EXECUTOR=$dest$prefix/libexec/wsd-executor
SPAWNER=$dest$prefix/libexec/wsd-spawn
PLUGINS=$dest$libdir/wsd/plugins
if start_wsd --workers 2; then
  check "the installed wsd runs the installed fib" installed
  check "the installed wsd runs a plugin built from its headers" own_plugin
  stop_wsd
fi
unset LD_LIBRARY_PATH

# --- the library's face ----------------------------------------------------------------------------------------------------

soname() {
  readelf -d "$dest$libdir/libwsclient.so.0" | grep -F 'SONAME' | grep -F '[libwsclient.so.0]'
}
check "soname is libwsclient.so.0" soname
only_wsd_symbols() {
  local others
  others=$(nm -D --defined-only "$dest$libdir/libwsclient.so.0" | awk '{ print $3 }' | sed 's/@.*//' |
    grep -vE '^(wsd_|WSCLIENT_|LIBWSCLIENT_|WSD_)')
  [ -z "$others" ] || {
    echo "$others"
    return 1
  }
}
check "libwsclient exports wsd_ names only" only_wsd_symbols
versioned() {
  local bare
  bare=$(nm -D --with-symbol-versions --defined-only "$dest$libdir/libwsclient.so.0" | awk '$2 == "T" { print $3 }' |
    grep -v '@')
  [ -z "$bare" ] || {
    echo "$bare"
    return 1
  }
}
check "each has a symbol version" versioned
documented_symbols() { # what the header declares is what the library has
  local declared exported
  declared=$(grep -ohE '\bwsd_[a-z_]+\(' "$dest$prefix"/include/wsd/{client,runner}.h | tr -d '(' | sort -u)
  exported=$(nm -D --defined-only "$dest$libdir/libwsclient.so.0" | awk '$2 == "T" { print $3 }' | sed 's/@.*//' |
    sort -u)
  # a callback's type in the header is no function of the library
  [ -z "$(comm -13 <(echo "$declared") <(echo "$exported"))" ] || {
    echo "exported, not in the header:"
    comm -13 <(echo "$declared") <(echo "$exported")
    return 1
  }
}
check "what it exports is in the header" documented_symbols
if ! command -v abidiff >/dev/null; then
  skip "what was compiled before still fits" "there is no abidiff here (abigail-tools)"
elif [ "$(uname -m)" != x86_64 ]; then
  skip "what was compiled before still fits" "the files are of x86-64"
else
  check "what was compiled before still fits" "$SRC/tests/abi/watch" "$dest$prefix/include" "$dest$libdir/libwsclient.so.0"
fi
debian_symbols() { # what the symbols file of the package promises, and nothing that it has not been told of
  diff <(sed -n 's/^ \(wsd_[a-z_]*\)@\([A-Z0-9_]*\) .*/\1@@\2/p' "$SRC/packaging/debian/libwsclient0.symbols" | sort) \
    <(nm -D --with-symbol-versions --defined-only "$dest$libdir/libwsclient.so.0" | awk '$2 == "T" { print $3 }' | sort)
}
check "the symbols file of the Debian package is up to date" debian_symbols
plain_submit() { # neither the pool nor ncurses for a plain `wsctl submit`
  ! readelf -d "$dest$prefix/bin/wsctl" | grep NEEDED | grep -E 'ncurses|libevent|systemd|wsctl-local'
}
check "wsctl links little" plain_submit
plugins_export_one() {
  local file names bad=0
  for file in "$dest$libdir"/wsd/plugins/*.so; do
    names=$(nm -D --defined-only "$file" | awk '{ print $3 }' | grep -vE '^wsd_' | tr '\n' ' ')
    [ -z "$names" ] || {
      echo "${file##*/}: $names"
      bad=1
    }
  done
  return $bad
}
check "plugins export wsd_ names only" plugins_export_one

# --- units -------------------------------------------------------------------------------------------------------------------

units=$dest$prefix/lib/systemd/system
for file in {wsd,wsd-spawn}{,@}.{service,socket}; do
  check "installs $file" there "$prefix/lib/systemd/system/$file"
done
check "the user's pair too" there "$prefix/lib/systemd/user/wsd.socket"
time_to_drain() { # what a stop may take is above what a drain does, as wsd asks for it: see daemon/drain.c
  local unit drain stop
  drain=$("$dest$prefix/sbin/wsd" --config /dev/null --print-config | sed -n 's/^drain-timeout = \([0-9]*\)000ms$/\1/p')
  for unit in "$units"/wsd{,@}.service "$dest$prefix/lib/systemd/user/wsd.service"; do
    stop=$(sed -n 's/^TimeoutStopSec=\([0-9]*\)s$/\1/p' "$unit")
    [ "${stop:-0}" -gt $((${drain:-999999} + 13)) ] || {
      echo "$unit: $stop s, the drain $drain s"
      return 1
    }
  done
}
check "TimeoutStopSec= of each unit exceeds drain-timeout" time_to_drain
if command -v systemd-analyze >/dev/null; then
  for file in wsd.service wsd@.service; do # the box of the suite system has them verified, too, where they are installed
    check "$file is no more exposed than 0.8" systemd-analyze security --offline=yes --threshold=8 --no-pager "$units/$file"
  done
  for file in wsd-spawn.service wsd-spawn@.service; do
    check "$file is no more exposed than 1.5" systemd-analyze security --offline=yes --threshold=15 --no-pager "$units/$file"
  done
  found_in() { # UNIT
    systemd-analyze security --offline=yes --json=short --no-pager "$units/$1.service" | python3 -c '
import json, sys
for found in json.load(sys.stdin):
    if float(found["exposure"] or 0) > 0:
        print(found["name"].split("/")[0].split("~")[-1])' >"$WORK/found.$1"
  }
  is_explained() { # UNIT
    local words
    [ -s "$WORK/found.$1" ] || return 1
    while IFS= read -r words; do
      grep -qF -- "$words" <(grep '^#' "$units/$1.service") || {
        echo "$1.service does not explain $words"
        return 1
      }
    done <"$WORK/found.$1"
  }
  if [ ${#fleet[@]} -gt 0 ]; then
    check "wsd-fleet.service is no more exposed than 1.5" systemd-analyze security --offline=yes --threshold=15 --no-pager "$units/wsd-fleet.service"
    drop_in() { # with a server's address, as its comment has it
      sed 's/^# *\(IPAddressAllow=\)/\1/' "$units/wsd-fleet.service" >"$WORK/wsd-fleet.service" && grep -q '^IPAddressAllow=192' "$WORK/wsd-fleet.service" &&
        systemd-analyze security --offline=yes --threshold=15 --no-pager "$WORK/wsd-fleet.service"
    }
    check "nor with the drop-in of its comment" drop_in
    fleet_explained() { found_in wsd-fleet && is_explained wsd-fleet; }
    check "each thing that systemd still finds in wsd-fleet.service is explained there" fleet_explained
  fi
  if [ ${#web[@]} -gt 0 ]; then
    check "wsd-web.service is no more exposed than 0.5" systemd-analyze security --offline=yes --threshold=5 --no-pager "$units/wsd-web.service"
    web_explained() { found_in wsd-web && is_explained wsd-web; }
    check "each thing that systemd still finds in wsd-web.service is explained there" web_explained
  fi
  explained() { # what systemd still finds in it is a word of its comments; in the other unit beside that only what is of capabilities
    local unit
    for unit in wsd wsd-spawn; do
      found_in "$unit" || return 1
    done
    is_explained wsd && ! grep -vxF -f "$WORK/found.wsd" "$WORK/found.wsd-spawn" | grep -vE 'Capabilit|CAP_'
  }
  check "each thing that systemd still finds in wsd.service is explained there" explained
else
  skip "exposure" "there is no systemd-analyze here"
fi
if command -v apparmor_parser >/dev/null; then
  check "the AppArmor profile is one" apparmor_parser --skip-kernel-load --skip-cache --warn=all "$SRC/packaging/apparmor/usr.sbin.wsd"
else
  skip "the AppArmor profile" "there is no apparmor_parser here"
fi

# --- hardening ---------------------------------------------------------------------------------------------------------------

pie() {
  readelf -h "$1" | grep -qE 'Type: +DYN' && readelf -d "$1" | grep -q 'FLAGS_1.*PIE'
}
relro() {
  readelf -lW "$1" | grep -q GNU_RELRO && readelf -d "$1" | grep -qE 'BIND_NOW|FLAGS.*NOW'
}
no_exec_stack() {
  readelf -lW "$1" | grep GNU_STACK | grep -qv 'RWE'
}
stack_protector() {
  nm -D "$1" | grep -q __stack_chk_fail
}
fortified() {
  nm -D "$1" | grep -qE '__[a-z]+_chk(@|$)'
}
no_rpath() {
  ! readelf -d "$1" | grep -E 'RPATH|RUNPATH'
}
for program in sbin/wsd libexec/wsd-executor libexec/wsd-spawn bin/wsctl; do
  check "${program##*/} is position-independent" pie "$dest$prefix/$program"
  check "${program##*/} is fortified" fortified "$dest$prefix/$program"
done
for file in "$prefix/sbin/wsd" "$prefix/libexec/wsd-executor" "$prefix/bin/wsctl" "$libdir/libwsclient.so.0"; do
  check "${file##*/} has full RELRO" relro "$dest$file"
  check "${file##*/} has no executable stack" no_exec_stack "$dest$file"
  check "${file##*/} has stack protectors" stack_protector "$dest$file"
  check "${file##*/} has no run path" no_rpath "$dest$file"
done
for file in "$dest$libdir"/wsd/plugins/*.so; do
  check "plugin ${file##*/} has full RELRO" relro "$file"
  check "plugin ${file##*/} has no run path" no_rpath "$file"
done
