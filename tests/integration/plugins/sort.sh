#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # for_workers and as_nobody call functions by name
# sort.sh: sort against sort in the C locale.
set -eu
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2034 # lib.sh reads them
PLUGIN=sort TOOL=(sort)

odd_names "$work/odd"
big "$work/big" 6
: >"$work/none"
printf 'one line, no newline' >"$work/one"
printf 'b\na\nb\na\0\na\0b\na\n\n\n\377\n\200\n' >"$work/short"
# Equal beginnings, equal lines, lines in order and in reverse.
awk 'BEGIN { for (i = 0; i < 60000; i++) print "the same beginning " i % 977 }' >"$work/alike"
yes same | head -n 50000 >"$work/equal"
seq -w 200000 >"$work/ordered"
tac "$work/ordered" >"$work/reversed"
head -c 3000000 /dev/urandom >"$work/random"

kinds() {
  local file flags
  for file in big none one short alike equal ordered reversed random; do
    input "$work/$file"
    for flags in -r -u -ru; do
      same "$file $flags" "$flags" "$work/$file"
    done
  done
  same "several files" "$work/short" "$work/one" "$work/none" "$work/short" "$work/one" "$work/big"
}

for_workers kinds
# Random lines, without order.
"$top/tests/support/random-lines.py" 2 "${RANDOM_LINES:-$((200 / TIME_SCALE))}" "$work/random-lines"
for i in "$work"/random-lines/*/; do
  cd "$i"
  same "random ${i#"$work"/random-lines/}" [012]
  same "random ${i#"$work"/random-lines/}, -u" -u [012]
  same "random ${i#"$work"/random-lines/}, -r" -r [012]
done
cd "$work/odd"
cd "$work/odd"
input "$work/short" - "with space" -
find . -type f -print0 | sort -z >"$work/list"
mapfile -d '' -t files <"$work/list"
same "odd names" "${files[@]}"
same "several flags" -r "$work/short" -u
same "what is missing" "$work/short" missing
same "a folder" "$work/short" folder
refused "an unknown option" 2 sort --frobnicate

unreadable() {
  same "a file that may not be read" "$work/odd/with space" "$work/odd/secret"
}
echo secret >secret
chmod 000 secret
as_nobody unreadable

find /usr/lib -type f -size -4M -print0 2>/dev/null | head -z -n 120 >"$work/list"
mapfile -d '' -t files <"$work/list"
same "binary files of /usr/lib" "${files[@]}"
find /usr/share/doc -type f -print0 | head -z -n 500 >"$work/list"
mapfile -d '' -t files <"$work/list"
same "files of /usr/share/doc" "${files[@]}"
no_files sort 2
finish
