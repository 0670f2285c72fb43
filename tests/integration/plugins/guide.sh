#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# guide.sh: the author's guide: its examples are tests/support/guide/*.c, build as it says and do what it shows.
# Headers: those that pkg-config finds, else those of this tree.
set -eu
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

examples=$top/tests/support/guide
pages=(mine wsd-plugin lines wsd-plugin tally wsd-graph shapes wsd-forms)
names=(mine lines tally shapes)

for ((i = 0; i < ${#pages[@]}; i += 2)); do
  name=${pages[i]} page=$top/packaging/man/${pages[i + 1]}.7
  sed -n "/^\\.\\\\\" BEGIN $name\\.c\$/,/^\\.\\\\\" END $name\\.c\$/p" "$page" | sed '1d;$d' |
    sed "s/^\\\\&//; s/\\\\-/-/g; s/\\\\(aq/'/g; s/\\\\(ha/^/g; s/\\\\(ti/~/g; s/\\\\(ga/\`/g; s/\\\\e/\\\\/g" >"$work.got"
  cp "$examples/$name.c" "$work.want"
  echo 0 | tee "$work.want.status" >"$work.got.status"
  : >"$work.got.err"
  verdict "the guide has the example $name to the byte"
done

if command -v man >/dev/null; then
  for page in wsd-plugin wsd-graph wsd-forms; do
    warnings=$(man --warnings -E UTF-8 -l -Tutf8 -Z "$top/packaging/man/$page.7" 2>&1 >/dev/null || echo "man failed")
    if [ -z "$warnings" ]; then
      good "man has no warnings about $page"
    else
      bad "man has no warnings about $page"
      echo "$warnings" >&2
    fi
  done
else
  echo "skip man has no warnings: no man here"
fi

flags=("-I$top/include")
if pkg-config --exists wsd-plugin 2>/dev/null; then
  read -ra flags < <(pkg-config --cflags wsd-plugin)
fi
cp "$examples"/*.c "$work"
cd "$work"
for compiler in ${CC:-cc} gcc clang; do
  if ! command -v "$compiler" >/dev/null; then
    echo "skip built by $compiler: not here"
    continue
  fi
  for name in "${names[@]}"; do
    "$compiler" -Wall -Wextra -Wno-unused-parameter -Werror -g -O2 -shared -fPIC "${flags[@]}" -o "$name.so" "$name.c"
    good "$name built by $compiler"
  done
done

PLUGINS=.
options=()
prints "primes" "78498 primes below 1000000" mine 1000000
said() { # NAME PLUGIN: its input is in $work/input, what it is to say in $work.want
  local status=0
  # shellcheck disable=SC2086 # a command with its arguments
  $RUN --input "$work/input" "./$2" >"$work.got" 2>"$work.got.err" || status=$?
  echo "$status" >"$work.got.status"
  verdict "$1"
}
printf 'hello\n' >"$work/input"
printf 'HELLO\n' >"$work.want"
said "upper" mine.so:upper
printf 'one\nthree\ntwo\n' >"$work/input"
echo "longest line 5" >"$work.want"
said "lines" lines.so
# larger than some pieces, and lines that cross them
awk 'BEGIN { for (i = 0; i < 300000; i++) print i * i % 7919 * 104729; for (i = 0; i < 300000; i++) printf "wide"; print "\303\244"; print "" }' \
  >"$work/input"
printf 'not ASCII at %d\nlongest line 1200002\n' "$(($(wc -c <"$work/input") - 4))" >"$work.want"
said "lines, of a large input" lines.so
: >"$work/input"
echo "longest line 0" >"$work.want"
said "lines, of nothing" lines.so
echo "0 lines, no words" >"$work.want"
said "tally, of nothing" tally.so
printf 'one two\nthree\n' >"$work/input"
echo "2 lines, 3 words, the longest of 5 bytes" >"$work.want"
said "tally" tally.so
# shellcheck disable=SC2034 # used by prints
options=()
dot=$(plugin tally dot) || true
if [[ $dot == "digraph wsd {"*'n2 -> n4 [style=dashed label="1"];'*"}" ]]; then
  good "tally dot"
else
  bad "tally dot: $dot"
fi
refused "a wrong number" 2 mine x
PLUGINS=
prints "shapes: a group" "1 4 9" ./shapes.so:group 1 2 3
refused "shapes: a group with an error" 1 ./shapes.so:group 1 -2 3
prints "shapes: a sort" "-5 1 2 10" ./shapes.so:sort 10 2 1 -5
prints "shapes: a scan" "1 3 6 10" ./shapes.so:scan 1 2 3 4
prints "shapes: futures" "6" ./shapes.so:future 2 4 6
refused "shapes: futures with an error" 1 ./shapes.so:future 2 3
printf 'one\ntwo\nthree' >"$work/input"
printf 'eno\nowt\neerht\n' >"$work.want"
said "shapes: a pipeline" shapes.so:pipeline
finish
