#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # for_workers and as_nobody call functions by name
# count.sh: count against wc in the C locale.
set -eu
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2034 # lib.sh reads them
PLUGIN=count TOOL=(wc)

odd_names "$work/odd"
big "$work/big" 9
head -c 1048576 "$work/big" >"$work/piece"
head -c 1048577 "$work/big" >"$work/piece+1"
# Words across the cuts of pieces: one word of 3 MiB, bytes that belong to no word, and separators only.
head -c 3145728 /dev/zero | tr '\0' x >"$work/word"
head -c 3145728 /dev/zero | tr '\0' '\001' >"$work/unprintable"
head -c 3145728 /dev/zero | tr '\0' '\v' >"$work/separators"
(
  head -c 1048576 /dev/zero
  printf ' a'
  head -c 1048574 /dev/zero
  printf ' b '
) >"$work/zeroes"
: >"$work/none"

cuts() {
  local file
  for file in big piece piece+1 word unprintable separators zeroes none; do
    same "pieces of $file" "$work/$file"
    input "$work/$file"
  done
  same "all of them" "$work/big" "$work/piece" "$work/piece+1" "$work/word" "$work/zeroes" "$work/none"
}

for_workers cuts
# Random lines, without order.
"$top/tests/support/random-lines.py" 2 200 "$work/random-lines"
for i in "$work"/random-lines/*/; do
  cd "$i"
  same "random ${i#"$work"/random-lines/}" [012]
done
cd "$work/odd"
cd "$work/odd"
for flags in -l -w -c -lw -lc -wc -lwc '-c -l' --lines --words --bytes; do
  # The flags are several words.
  # shellcheck disable=SC2086
  {
    same "$flags of one" $flags "$work/big"
    same "$flags of several" $flags "$work/big" "$work/none" it\'s
    same "$flags of a folder" $flags folder
    same "$flags of a folder and a file" $flags folder empty
    same "$flags of what is missing" $flags missing
    input "$work/big" $flags
    input "$work/none" $flags
  }
done
same "odd names" -- * missing 'miss ing' "it's not" $'new\nline' $'\351' '' "a'b\$c"
messages "odd names: messages" wc count
input "$work/big" -
input "$work/big" - it\'s -
input "$work/big" -l -
same "a file of /proc" -l /proc/version
same "bytes of a file of /proc" -c /proc/version
refused "an unknown option" 1 count --frobnicate
refused "an unknown letter" 1 count -lx

unreadable() {
  same "a file that may not be read" "$work/odd/empty" "$work/odd/secret" "$work/odd/it's"
  messages "a file that may not be read: message" wc count
}
head -c 123456 "$work/big" >secret
chmod 000 secret
as_nobody unreadable

cd /
tree "$top" 64 400
tree /usr/share/doc 64 100000
tree /usr/lib 64 3000
no_files count 1
finish
