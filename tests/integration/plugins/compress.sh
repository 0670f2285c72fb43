#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # for_workers and as_nobody call functions by name
# compress.sh: compress and decompress against zstd.
set -eu
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

big "$work/big" 60
head -c 5000000 /dev/urandom >"$work/random"
head -c 70000000 /dev/zero >"$work/zeroes"
head -c 4194304 "$work/big" >"$work/block"
head -c 4194305 "$work/big" >"$work/block+1"
printf 'x' >"$work/byte"
: >"$work/none"
files="big random zeroes block block+1 byte none"

# equal NAME FILE: what was got is the file.
equal() {
  echo 0 >"$work.want.status"
  cp "$2" "$work.want"
  verdict "$1"
}

# broken NAME FILE: decompress refuses it with a message.
broken() {
  options=(--input "$2")
  got decompress
  options=()
  if [ "$(cat "$work.got.status")" -eq 1 ] && [ -s "$work.got.err" ]; then
    good "$1"
  else
    bad "$1"
  fi
}

there_and_back() {
  local file
  for file in $files; do
    options=(--input "$work/$file")
    got compress
    zstd -q -t <"$work.got" || bad "zstd accepts $file"
    mv "$work.got" "$work/$file.zst"
    zstd -q -d -c "$work/$file.zst" >"$work.got"
    equal "zstd reads the compressed $file" "$work/$file"
    options=(--input "$work/$file.zst")
    got decompress
    equal "decompress reads the compressed $file" "$work/$file"
    options=()
  done
}

for_workers there_and_back
find /usr/share/doc /usr/include -type f -exec cat {} + 2>/dev/null | head -c 50000000 >"$work/real"
got compress "$work/real"
if [ "$(stat -c %s "$work.got")" -lt $(($(zstd -q -c "$work/real" | wc -c) * 105 / 100)) ]; then
  good "at most 5 % larger than zstd on real files"
else
  bad "at most 5 % larger than zstd on real files"
fi
for level in 1 9 19; do
  got compress "-$level" "$work/block+1"
  zstd -q -d -c <"$work.got" >"$work/back"
  mv "$work/back" "$work.got"
  equal "level $level, a file by name" "$work/block+1"
done
for file in $files; do
  for how in -1 -19 --no-check --long=27; do
    case $how$file in -19*big | -19*zeroes) continue ;; esac
    zstd -q -f "$how" "$work/$file" -o "$work/z"
    got decompress "$work/z"
    equal "what zstd $how made of $file" "$work/$file"
  done
  zstd -q -c <"$work/$file" >"$work/z" # a frame that does not say its size
  options=(--input "$work/z")
  got decompress
  options=()
  equal "what zstd made of $file as a stream" "$work/$file"
done

# Frames of all kinds in a row: known and unknown sizes, empty ones, one to skip.
{
  cat "$work/byte.zst" "$work/none.zst"
  zstd -q -c <"$work/big"
  printf '\120\052\115\030\005\000\000\000skip!'
  cat "$work/block+1.zst"
  for _ in $(seq 300); do cat "$work/byte.zst"; done
} >"$work/many.zst"
zstd -q -d -c "$work/many.zst" >"$work/many"
got decompress "$work/many.zst"
equal "frames of all kinds" "$work/many"

size=$(stat -c %s "$work/block+1.zst")
head -c $((size - 1)) "$work/block+1.zst" >"$work/cut"
broken "the last byte is missing" "$work/cut"
head -c 3 "$work/byte.zst" >"$work/cut"
broken "three bytes" "$work/cut"
zstd -q -c <"$work/random" | head -c 1000000 >"$work/cut"
broken "a stream that is cut off" "$work/cut"
broken "no input" "$work/none"
broken "something else" "$work/big"
(
  cat "$work/byte.zst"
  echo junk
) >"$work/cut"
broken "something behind the end" "$work/cut"
(
  head -c $((size / 2)) "$work/block+1.zst"
  printf 'XXXXXXXX'
  tail -c +$((size / 2 + 9)) "$work/block+1.zst"
) >"$work/cut"
broken "changed bytes" "$work/cut"
# The library of some systems reads formats before 1.0, too, and gives bytes of its memory for what is broken.
{
  printf '\x27\xb5\x2f\xfd'
  zstd -q -c <"$work/byte"
} >"$work/old"
refused "a frame of zstd 0.7 that is broken" 1 decompress "$work/old"
cat "$work/byte.zst" "$work/old" >"$work/cut"
got decompress "$work/cut"
echo 1 >"$work.want.status"
cp "$work/byte" "$work.want"
verdict "a frame of zstd 0.7 behind another"
# What README.md says of frames that zstd refuses, or takes.
printf '\050\265\057\375\000\250\011\000\000x' >"$work/z"
got decompress "$work/z"
equal "a small frame that asks for a window of 2 GiB" "$work/byte"
printf '\050\265\057\375\240\000\000\200\000\001\000\000' >"$work/z"
refused "an empty frame that claims 8 MiB" 1 decompress "$work/z"
head -c 100000 "$work/random" >"$work/part"
zstd -q -f --no-check "$work/part" -o "$work/z"
got decompress "$work/z"
equal "a raw block" "$work/part"

refused "an unknown option" 1 compress --frobnicate
refused "level 20" 1 compress -20
refused "two files" 1 compress a b
refused "a missing file" 1 compress missing
refused "a folder" 1 compress "$work"
refused "decompress: an unknown option" 1 decompress --frobnicate
refused "decompress: a missing file" 1 decompress missing
no_files compress 1
rm "$work/fifo" "$work/socket"
no_files decompress 1
finish
