#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# faults.sh: each shipped plugin with each allocation failing, one at a time and all from there on: the same output with
# exit 0, or words and another status; never less output with 0, no crash, no end that does not come.
# Without a daemon: RUN is run-plugin, which is in the same process as the plugin.
set -eu
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

runner=${RUN%% *}
support=$(dirname "$runner")
if [ "${runner##*/}" != run-plugin ] || [ -z "${PLUGINS:-}" ]; then
  echo "skip each allocation: wants run-plugin"
  finish
fi
if nm -D "$runner" | grep -q '__[at]san_init'; then
  echo "skip each allocation: a sanitizer has an allocator of its own"
  finish
fi

# each NAME KINDS RUNS PLUGIN[:FUNCTION] ARG...: with calls of those kinds failing, at most so many runs of each sort; without
# --thorough an eighth of them, spread over all calls.
more=()
each() {
  local name=$1 plugin=$4 runs=$3
  [ -n "${WSD_THOROUGH:-}" ] || runs=$(((runs + 7) / 8))
  if FAULTS=$2 "$support/shims/each-fault" --runs "$runs" ${more[@]+"${more[@]}"} "$support/shims/faults.so" "$runner" "${options[@]}" \
    "$(path_of "$plugin")" "${@:5}" >"$work.got" 2>&1; then
    good "$name, each fault ($2): $(tail -n 1 "$work.got")"
  else
    bad "$name, each fault ($2): $(tail -n 1 "$work.got")"
    head -n 20 "$work.got" >&2
  fi
}

big "$work/text" 1
head -c 3000 "$work/text" >"$work/small"
zstd -q "$work/text" -o "$work/text.zst"
zstd -q --no-content-size "$work/small" -o "$work/small.zst"
sort "$work/small" >"$work/ordered"
newline="$work/with"$'\n'"newline"
cp "$work/small" "$newline"
# one of many lines, so that not each run has to look at all of them
grep -n jumps "$work/small" | head -n 20 >"$work/lines"

options=(--workers 1)
each fib memory 200 fib 10
each nqueens memory 200 nqueens 6
each uts memory 8 uts
each checksum memory 60 checksum md5 "$work/small" "$newline"
each "checksum xxh128" memory 60 checksum xxh128 "$work/small" "$newline"
mkdir -p "$work/below/a"
cp "$work/small" "$work/below/a"
cp "$work/small" "$work/below/b"
each "checksum -r" memory 100 checksum xxh3 -r "$work/below"
each count memory 200 count "$work/small" "$newline"
each sort memory 200 sort "$work/text" "$work/small"
each text:unique memory 100 text:unique -c "$work/text"
each text:frequency memory 200 text:frequency "$work/text" "$work/small"
each text:join memory 100 text:join -a1 "$work/ordered" "$work/ordered"
each compress memory 100 compress "$work/text"
ln "$work/below/b" "$work/below/hard"
ln -s b "$work/below/link"
each archive memory,descriptors 200 archive -C "$work" below text
each decompress memory 100 decompress "$work/text.zst"
each "decompress, a frame that does not say its size" memory 100 decompress "$work/small.zst"
# Hyperscan's compiler writes into what it did not get, and glibc's own regexec() dereferences NULL or frees twice where
# memory is short in a backreference.
more=(--may-crash)
each "search, a word" memory 400 search jumps "$work/small"
each "search, an expression" memory 400 search '(quick|slow) .*(fox|cow) (jumps|sits)$' "$work/lines" "$work/small"
each "search -i" memory 400 search -i '[0-9a-f]+ THE .* (j|k)umps' "$work/lines"
each "search -r -w -C" memory 200 search -r -w -C 2 'fox' "$work/small"
each "search -o" memory 200 search -o '[a-z]+ fox' "$work/lines"
each "search -v, a backreference" memory 200 search -v '(.)\1[a-z]' "$work/lines"
# Each codec decodes and encodes what the one before has made.
pictures() {
  local format
  [ -e "$PLUGINS/image.so" ] || return 0
  convert -size 30x20 plasma:red-blue -alpha set -channel A -evaluate set 50% +channel "$work/picture.png"
  cjpeg -outfile "$work/picture.jpeg" <(convert "$work/picture.png" ppm:-)
  convert "$work/picture.png" "$work/picture.webp"
  for format in jpeg png webp; do
    each "image, $format" memory 60 image:resize --width 10 "$work/picture.$format"
  done
}
pictures
more=()
options+=(--input "$work/small")
each exec memory,descriptors 200 exec sh -c 'cat; seq 10; echo said >&2'
each "sort of the input" memory 200 sort -u
each "count of the input" memory 200 count
options=(--workers 2)
more=(--may-crash)
each "search on 2 workers" memory 100 search '(quick|slow) .*(fox|cow) (jumps|sits)$' "$work/text" "$work/small"
more=()
each "sort on 2 workers" memory 100 sort "$work/text"
each "text:frequency on 2 workers" memory 100 text:frequency "$work/text"
each "text:unique on 2 workers" memory 100 text:unique "$work/text"
each "compress on 2 workers" memory 100 compress "$work/text"
each "archive on 2 workers" memory,descriptors 100 archive -C "$work" below text
finish
