#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # for_workers and as_nobody call functions by name
# text.sh: text:unique, text:frequency and text:join against uniq, sort | uniq -c and join in the C locale.
set -eu
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2034 # lib.sh reads them
unique() { PLUGIN=text:unique TOOL=(uniq); }
# shellcheck disable=SC2034
frequency() { PLUGIN=text:frequency TOOL=(bash -c 'set -o pipefail; sort "$@" | uniq -c' sort); }
# shellcheck disable=SC2034
join_() { PLUGIN=text:join TOOL=(join); }

odd_names "$work/odd"
big "$work/big" 6
: >"$work/none"
printf 'one line, no newline' >"$work/one"
printf '\n' >"$work/newline"
printf '\n\n\n\n' >"$work/newlines"
printf 'a\na\n\na\0\na\0b\na\0b\n\377\n\377' >"$work/short"
yes same | head -n 400000 >"$work/equal"
awk 'BEGIN { for (i = 0; i < 90000; i++) print "a line", int(i / (i % 11 + 1)) }' >"$work/alike"
sort "$work/alike" >"$work/ordered"
seq 300000 >"$work/distinct"
head -c 2000000 /dev/urandom >"$work/random"
# Blocks of 256 KiB are cut in front of, behind and in a group of equal lines.
for extra in 0 1 2 3 4; do
  { head -c $((262140 + extra)) /dev/zero | tr '\0' x && printf '\n%s' $'aa\naa\naa\nb\nb\n'; } >"$work/cut$extra"
done
long() { # MEBIBYTES: lines that are longer than a block, twice the same
  local i
  for i in 1 2; do
    head -c "$(($1 * 1048576))" /dev/zero | tr '\0' l
    echo
  done
  echo short
}
long 3 >"$work/long"
tr -cs A-Za-z '\n' <"$work/big" | awk '{ print $0; if (NR % 3) print $0 NR % 1009 }' >"$work/words"
files=(big none one newline newlines short equal alike ordered distinct random cut0 cut1 cut2 cut3 cut4 long)

of_unique() {
  local file flags
  unique
  for file in "${files[@]}"; do
    input "$work/$file"
    for flags in -c -d -cu; do same "unique $file $flags" "$flags" "$work/$file"; done
  done
}

of_frequency() {
  local file
  frequency
  for file in "${files[@]}"; do
    input "$work/$file"
    same "frequency $file" "$work/$file"
  done
  input "$work/words"
  same "frequency of words" "$work/words"
  awk '{ n[$0]++ } END { for (word in n) printf "%7d %s\n", n[word], word }' "$work/words" | sort -k 2 >"$work.want"
  verdict "frequency of words, as awk counts them"
  same "frequency of several large files" "$work/big" "$work/words" "$work/distinct" "$work/long" "$work/random" "$work/alike" "$work/big"
  same "frequency of several files" "$work/short" "$work/one" "$work/none" "$work/short" "$work/one" "$work/big" "$work/alike"
}

# Pairs, lines without a partner, keys that many lines have, fields that are not there.
awk 'BEGIN { for (i = 0; i < 60000; i++) printf "%06d left %d\n", i - i % 3, i }' >"$work/left"
awk 'BEGIN { for (i = 0; i < 60000; i += 2) printf "%06d\tright  %d \n", i, i % 7 }' >"$work/right"
awk 'BEGIN { for (i = 0; i < 1500; i++) printf "000300 many %d\n", i }' >"$work/many"
awk 'BEGIN { for (i = 0; i < 3000; i++) print "k," i ",v" }' | sort >"$work/same-key"
sort -t, -k2,2 "$work/same-key" >"$work/by-second"
printf 'b x\na y\nc z\n' >"$work/disorder"
printf ' a  b \n\t\n a\tc\nb\n\nb c d\n' | sort -b -k1,1 >"$work/blanks"

of_join() {
  local flags
  join_
  for flags in '' '-a1 -a2' '-v 1' -v2; do
    # The flags are several words.
    # shellcheck disable=SC2086
    {
      same "join $flags" $flags "$work/left" "$work/right"
      same "join $flags, the larger one second" $flags "$work/right" "$work/left"
      same "join $flags with none" $flags "$work/none" "$work/right"
      same "join $flags of blanks" $flags "$work/blanks" "$work/blanks"
      same "join $flags out of order" $flags "$work/disorder" "$work/left"
    }
  done
  same "join of many equal keys" "$work/many" "$work/many"
  same "join of one key" -t, "$work/same-key" "$work/by-second"
  same "join by other fields" -t, -1 2 -2 2 "$work/by-second" "$work/by-second"
  same "join by a field that is not there" -t, -1 9 -2 4 "$work/same-key" "$work/many"
  same "join of the same file" "$work/distinct" "$work/distinct"
  same "join of long lines" "$work/long" "$work/long"
  same "join of whole lines" -t '' "$work/ordered" "$work/alike"
  same "join by NUL" -t '\0' "$work/short" "$work/short"
  same "join of random bytes" "$work/random" "$work/random"
  want join "$work/left" - <"$work/right"
  options=(--input "$work/right")
  got text:join "$work/left" -
  options=()
  verdict "join with the input"
}

# out_of_order NAME: both name the same lines.
out_of_order() {
  local late='s/^.*join: \([01]:[0-9]*\): is not sorted.*/\1/p'
  sed -n "$late" "$work.want.err" >"$work.want.lines"
  sed -n "$late" "$work.got.err" >"$work.got.lines"
  if cmp "$work.want.lines" "$work.got.lines" >&2; then good "$1"; else bad "$1"; fi
}

for_workers of_unique
for_workers of_frequency
for_workers of_join

# Random tables, in order or not.
"$top/tests/support/random-tables.py" 3 "${RANDOM_TABLES:-$((60 / TIME_SCALE))}" "$work/random-tables"
for i in "$work"/random-tables/*/; do
  cd "$i"
  name="random ${i#"$work"/random-tables/}"
  mapfile -t flags <./unique
  unique
  same "unique $name" "${flags[@]}" 0
  frequency
  same "frequency $name" 0 1
  mapfile -t flags <./join
  join_
  same "join $name" "${flags[@]}" 0 1
  out_of_order "join $name: what is out of order"
done

cd "$work/odd"
unique
input "$work/short" -
same "unique of what is missing" missing
same "unique of a folder" folder
same "unique of an odd name" -- $'with\nnewline'
refused "unique of two files" 1 text:unique "$work/short" "$work/one"
refused "unique: an unknown option" 1 text:unique -x
frequency
input "$work/short" - "with space" -
find . -type f -print0 | sort -z >"$work/list"
mapfile -d '' -t names <"$work/list"
same "frequency of odd names" "${names[@]}"
same "frequency of what is missing" "$work/short" missing
same "frequency of a folder" "$work/short" folder
[ -z "${PLUGINS:-}" ] || same "frequency of a file that says it is empty" /proc/version "$work/short"
# blames NAME WORDS FILE...: whatever is read first, the first file that fails is the one that is named.
blames() {
  refused "$1" 2 text:frequency "${@:3}"
  if grep -q -e "$2" "$work.got.err"; then good "$1: message"; else bad "$1: message"; fi
}
blames "frequency of several that are missing" "cannot read: missing: No such" "$work/big" missing absent "$work/big" folder
blames "frequency of a folder before what is missing" "read failed: folder: Is a dir" "$work/big" folder missing
refused "frequency: an unknown option" 2 text:frequency -c
join_
same "join of what is missing" missing "$work/left"
same "join with a folder" "$work/left" folder
same "join of the input twice" - -
same "join of one file" "$work/left"
same "join of three files" "$work/left" "$work/left" "$work/left"
for flags in '-t ab' '-a 3' '-v 0' '-1 0' '-1 x' '-2 1x' '-1 1 -1 2' '-t a -t b' '-t'; do
  # The flags are several words.
  # shellcheck disable=SC2086
  {
    want join "$work/left" "$work/left" $flags
    refused "join: $flags" "$(cat "$work.want.status")" text:join "$work/left" "$work/left" $flags
  }
done
refused "join: an unknown option" 1 text:join -x "$work/left" "$work/left"

unreadable() {
  unique
  same "unique of a file that may not be read" "$work/odd/secret"
  frequency
  same "frequency of a file that may not be read" "$work/short" "$work/odd/secret"
  join_
  same "join of a file that may not be read" "$work/left" "$work/odd/secret"
}
echo secret >secret
chmod 000 secret
as_nobody unreadable

# Each line is in memory once, however many tasks there are.
peak() { # WORKERS: of a run, in KiB
  # RUN is a command with its arguments.
  # shellcheck disable=SC2086
  python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' \
    $RUN --workers "$1" "$PLUGINS/text.so:frequency" "$work/again" "$work/again"
}
takes_as_much() {
  local one many
  [ -n "${PLUGINS:-}" ] && ! sanitized || return 0 # what wsctl takes says nothing
  for _ in 1 2 3 4 5 6 7 8; do seq 100000000 100150000; done >"$work/again"
  one=$(peak 1) many=$(peak 8)
  echo "$one KiB with one worker, $many KiB with 8" >&2
  [ "$many" -lt $((one + 50000)) ]
}
if takes_as_much; then good "frequency takes no more memory with more workers"; else bad "frequency takes no more memory with more workers"; fi

find /usr/share/doc -type f -print0 | head -z -n 500 >"$work/list"
mapfile -d '' -t names <"$work/list"
frequency
same "frequency of files of /usr/share/doc" "${names[@]}"
no_files text:unique 1
finish
