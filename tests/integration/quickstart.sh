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
serve() {
  "$copy/packaging/quickstart" --serve >"$WORK/served" 2>"$WORK/served.err" || {
    cat "$WORK/served" "$WORK/served.err"
    return 1
  }
}
check "quickstart --serve" serve || exit
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
pid=$(served_pid)
check "it is stopped as it says" kill "$pid"
check "and ends" wait_until gone "$pid"
