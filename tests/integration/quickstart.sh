#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# quickstart.sh: packaging/quickstart in a copy of the repository whose path has spaces, run from elsewhere, twice; then
# --serve, whose wsd is used and stopped.
. "$(dirname "$0")/../support/lib.sh"

if [ -n "${WSD_SANITIZE:-}" ]; then
  skip quickstart "it builds for itself, without sanitizers"
  exit
fi
if ! "$SRC/packaging/install-deps" build >"$WORK/deps" 2>&1; then
  skip quickstart "packages are missing: $(tail -n 1 "$WORK/deps")"
  exit
fi

copy="$WORK/a clone with spaces"
mkdir "$copy"
# what a clone of the work tree as it is now would have
if git -C "$SRC" rev-parse >/dev/null 2>&1; then
  (cd "$SRC" && git ls-files -z -c -o --exclude-standard) >"$WORK/files"
else
  (cd "$SRC" && find . -path './build*' -prune -o -type f -print0) >"$WORK/files"
fi
tar -C "$SRC" --null --ignore-failed-read -T "$WORK/files" -cf - 2>/dev/null | tar -C "$copy" -xf -

# The build of the other suites has what is optimised as a whole; once more is for --thorough (and the suite fresh).
if [ -z "${WSD_THOROUGH:-}" ]; then
  meson=$(command -v meson)
  cat >"$WORK/bin/meson" <<END
#!/bin/sh
if [ "\$1" = setup ]; then set -- "\$@" -Dwhole=false; fi
exec "$meson" "\$@"
END
  chmod +x "$WORK/bin/meson"
fi

cd / || exit
first() {
  "$copy/packaging/quickstart" >"$WORK/first" 2>&1 || {
    cat "$WORK/first"
    return 1
  }
}
check "quickstart, first time" first || exit
check "it shows fib 32" grep -qx 2178309 "$WORK/first"
check "it shows nqueens 12" grep -qx 14200 "$WORK/first"
check "quickstart, again" "$copy/packaging/quickstart"
check "no other option" expect_exit 64 "$copy/packaging/quickstart" --no-such-option
left_nothing() {
  ! ls -d "$TMPDIR"/wsd-quickstart.*
}
check "leaves nothing in TMPDIR" left_nothing

# --- --serve

served_pid() {
  sed -n 's/^stop it with: kill //p' "$WORK/served"
}
serve_in_copy() {
  "$copy/packaging/quickstart" --serve >"$WORK/served" 2>"$WORK/served.err" || {
    cat "$WORK/served" "$WORK/served.err"
    return 1
  }
}
check "quickstart --serve" serve_in_copy || exit
kill_served() {
  kill -KILL "$(served_pid)" 2>/dev/null
}
on_exit kill_served
eval "$(tail -n 1 "$WORK/served")"
check "its last line sets WSD_SOCKET" test -S "$WSD_SOCKET"
check "that wsd does work" expect_output 6765 "$copy/build/client/wsctl/wsctl" submit fib 20
own_plugin() { # of the README: as it stands there, in the clone
  sed -n '/^```c$/,/^```$/p' "$copy/README.md" | grep -v '^```' >"$copy/mine.c"
  (cd "$copy" && eval "$(grep '^cc .* mine.c' README.md)" && PATH=$copy/build/client/wsctl:$PATH && expect_output 2178309 wsctl submit --local ./mine.so &&
    expect_output 2178309 wsctl submit ./mine.so)
}
check "the README's own plugin, by the README's commands" own_plugin
# The README's tour, in the clone: each line after `$` is run as it is printed, in one shell; what follows it is what it says, where … stands
# for anything.
cat >"$WORK/tour.py" <<'END'
import fnmatch, re, subprocess, sys

block = re.search(r'^```console\n(.*?)^```', open('README.md', encoding='utf-8').read(), re.S | re.M).group(1)
steps = re.findall(r'^\$ (.*)\n((?:(?!\$ ).*\n)*)', block, re.M)
shell = subprocess.Popen(['bash'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding='utf-8')
good = len(steps) >= 8
for command, expected in steps:
    shell.stdin.write(command + '\nprintf "\\nEND OF STEP\\n"\n')
    shell.stdin.flush()
    said = ''
    while not said.endswith('\nEND OF STEP\n'):
        line = shell.stdout.readline()
        if not line:
            sys.exit('the shell ended at: ' + command)
        said += line
    said = said[:-len('\nEND OF STEP\n')]
    if not fnmatch.fnmatchcase(said, re.sub(r'([\[*?])', r'[\1]', expected).replace('…', '*')):
        print('$ %s\n%s--- but README.md has:\n%s' % (command, said, expected))
        good = False
shell.stdin.write('echo "$WSD_SOCKET"\n')
shell.stdin.close()
open(sys.argv[1], 'w').write(shell.stdout.read().strip())
sys.exit(0 if good else 1)
END
tour() {
  (cd "$copy" && python3 "$WORK/tour.py" "$WORK/tour-socket")
}
kill_toured() { # the wsd that listens there
  python3 - "$(cat "$WORK/tour-socket")" <<'END'
import os, signal, socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
os.kill(struct.unpack('3i', s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0], signal.SIGTERM)
END
}
check "the README's tour, as printed" tour
check "its wsd is stopped" kill_toured
pid=$(served_pid)
check "it is stopped as it says" kill "$pid"
check "and ends" wait_until gone "$pid"
