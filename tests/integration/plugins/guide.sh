#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# guide.sh: the author's guide: its example is tests/support/guide/mine.c, builds as it says and does what it shows.
# Headers: those that pkg-config finds, else those of this tree.
set -eu
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

page=$top/packaging/man/wsd-plugin.7
source=$top/tests/support/guide/mine.c

sed -n '/^\.\\" BEGIN mine\.c$/,/^\.\\" END mine\.c$/p' "$page" | sed '1d;$d' |
  sed "s/^\\\\&//; s/\\\\-/-/g; s/\\\\(aq/'/g; s/\\\\(ha/^/g; s/\\\\(ti/~/g; s/\\\\(ga/\`/g; s/\\\\e/\\\\/g" >"$work.got"
cp "$source" "$work.want"
echo 0 | tee "$work.want.status" >"$work.got.status"
: >"$work.got.err"
verdict "the guide has the example to the byte"

if command -v man >/dev/null; then
  warnings=$(man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null || echo "man failed")
  if [ -z "$warnings" ]; then
    good "man has no warnings"
  else
    bad "man has no warnings"
    echo "$warnings" >&2
  fi
else
  echo "skip man has no warnings: no man here"
fi

flags=("-I$top/include")
if pkg-config --exists wsd-plugin 2>/dev/null; then
  read -ra flags < <(pkg-config --cflags wsd-plugin)
fi
cp "$source" "$work/mine.c"
cd "$work"
for compiler in ${CC:-cc} gcc clang; do
  if ! command -v "$compiler" >/dev/null; then
    echo "skip built by $compiler: not here"
    continue
  fi
  "$compiler" -Wall -Wextra -Wno-unused-parameter -Werror -g -O2 -shared -fPIC "${flags[@]}" -o mine.so mine.c
  good "built by $compiler"
done

PLUGINS=.
options=()
prints "primes" "78498 primes below 1000000" mine 1000000
printf 'hello\n' >"$work/hello"
printf 'HELLO\n' >"$work.want"
status=0
# shellcheck disable=SC2086 # a command with its arguments
$RUN --input "$work/hello" ./mine.so:upper >"$work.got" 2>"$work.got.err" || status=$?
echo "$status" >"$work.got.status"
verdict "upper"
refused "a wrong number" 2 mine x
finish
