#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # for_workers and as_nobody call functions by name
# search.sh: search against grep -E -n in the C locale.
set -eu
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2034 # lib.sh reads them
PLUGIN=search TOOL=(grep -E -n)

odd_names "$work/odd"
big "$work/big" 9
: >"$work/none"
# Text before the first NUL is printed as far as whole reads of 96 KiB go.
(
  head -c 700000 "$work/big"
  printf 'a\0 fox\n'
  head -c 300000 "$work/big"
) >"$work/late-nul"
(
  head -c 4000000 "$work/big"
  printf 'a\0 fox\n'
  head -c 300000 "$work/big"
) >"$work/later-nul"
(
  printf 'fox\0'
  head -c 300000 "$work/big"
) >"$work/early-nul"
(
  head -c 300000 "$work/big"
  printf 'fox'
) >"$work/no-newline"
(
  head -c 5000000 /dev/zero | tr '\0' x
  printf ' fox\nfox\n'
) >"$work/long-line"
head -c 200000 "$work/big" >"$work/holes"
truncate -s 1M "$work/holes"

# Of the last one: the same number of them.
messages_as_grep() {
  if [ "$(grep -c ': missing: ' "$work.want.err")" = "$(grep -c ': missing: ' "$work.got.err")" ]; then
    good "$1"
  else
    bad "$1"
  fi
}

cuts() {
  local file pattern
  for file in big late-nul later-nul early-nul no-newline long-line holes none; do
    for pattern in 'fox jumps$' '^[0-9]+7 [0-7]*1 ' fox 'dog'; do
      same "$pattern in $file" "$pattern" "$work/$file"
      # Holes are known of files only.
      if [ "$file" != holes ]; then
        input "$work/$file" "$pattern"
      fi
    done
  done
  same "several files" 'quick.*7f' "$work/big" "$work/none" "$work/late-nul" "$work/no-newline"
}

for_workers cuts
head -c 400000 "$work/big" >"$work/text"
for pattern in '' 'a' '.' '^' '$' '^$' 'fox|jumps' '(qu|br)[a-z]+' 'x{2}' 'o[wx] ' '[[:digit:]]{7} ' '\bfox\b' '\<t' \
  '(.)\1\1' 'ab\.c' '7+e' '(fox )?jumps$' '*7' '7{' '{7' 'a{x}' ')' '7)' '\.' 'Q' 'brown fox j' $'jumps\nfff' '\w+$'; do
  same "pattern $pattern" "$pattern" "$work/text"
  same "pattern $pattern, case folded" -i "$pattern" "$work/text"
  same "pattern $pattern, inverted" -v "$pattern" "$work/text"
done
# shellcheck disable=SC1003 # a backslash at the end is the point
for pattern in '(' '[a' 'a\' 'a{2,1}' '[[:foo:]]' '[:space:]' '\1' 'a{99999}' 'x(' '[b-a]'; do
  same "wrong pattern $pattern" -- "$pattern" "$work/text"
done
{
  printf '%s\n' a A t T d D x X n N 9 0 0000 aa _ '\t' "\\" 'a-b' '' ' ' 'AtA' 'w x' $'tab\tbed' $'\351' $'form\ffeed'
  cat "$work/text"
} | head -c 20000 >"$work/letters"
for c in {a..z} {A..Z} {0..9} _ / % @ ',' ';' ':' '"' '#' '&' '~' '=' '!' '-' ' ' $'\t' $'\351'; do
  same "a stray backslash: \\$c" -- "\\$c" "$work/letters"
  same "a stray backslash, case folded: \\$c" -i -- "(.\\$c)+|^\\$c*a" "$work/letters"
done
same "a pattern that begins with -" -- -7 "$work/text"
same "options in one word" -nivE FOX "$work/text"
cd "$work/odd"
for pattern in o '^' c 'z$'; do
  same "odd names: $pattern" "$pattern" -- * missing 'miss ing' ''
  messages "odd names: $pattern: messages" grep search
  same "all in a folder: $pattern" "$pattern" folder
done
same "nothing found" nothing-like-it -- *
for pattern in '' $'\n' $'\n\n' '^' '()' 'x*' $'o\n' '(' $'\n('; do
  for files in missing 'missing empty' empty 'folder nul' $'with\nnewline'; do
    # Names, but for the last one.
    IFS=' ' read -d '' -ra list <<<"$files" || true
    list[-1]=${list[-1]%$'\n'}
    same "nearly empty pattern ${pattern@Q} in ${list[*]@Q}" -- "$pattern" "${list[@]}"
    same "nearly empty pattern ${pattern@Q} in ${list[*]@Q}, inverted" -v -- "$pattern" "${list[@]}"
    messages_as_grep "nearly empty pattern ${pattern@Q} in ${list[*]@Q}, inverted: messages"
  done
done
same "one file of two missing" o "with space" missing
input "$work/text" fox -
input "$work/text" fox - "$work/text" -
input "$work/early-nul" fox "with space" -
refused "no pattern" 2 search
refused "an unknown option" 2 search --frobnicate x

unreadable() {
  same "a file that may not be read" o "$work/odd/with space" "$work/odd/secret"
  messages "a file that may not be read: message" grep search
}
echo secret >secret
chmod 000 secret
as_nobody unreadable

cd /
# "$work/none" keeps the names where the last group has one file.
tree "$top" 16 400 'static|[0-9]{3}' "$work/none"
tree /usr/share/doc 16 100000 'GNU' "$work/none"
tree /usr/share/doc 16 3000 '[Ll]icen[cs]e.*version ?[0-9]+' "$work/none"
tree /usr/lib 16 2000 'lib[a-z]+\.so' "$work/none"
no_files search 2 x
finish
