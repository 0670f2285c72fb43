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
for pattern in '(' '[a' 'a\' 'a{2,1}' '[[:foo:]]' '[:space:]' '\1' 'a{99999}' 'x(' '[b-a]' '[a-z-9]' '[[=a=]-z]' \
  '[a-[=z=]]'; do
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

# Options, alone and together.
for options_of in -c -l '-c -v' '-l -v' '-o' '-o -i' '-o -v' '-c -o' '-l -c' '-w' '-w -v' '-w -o' '-w -i -c' '-F' '-F -w' '-F -i -o' '-A 2' '-B 2' '-C 1' \
  '-A 1 -B 3' '-C 2 -A 0' '-A 0' '-C 3 -v' '-A 2 -c' '-B 2 -l' '-A 10000' '-w -C 1' '-I' '-I -c' '-c -i' '-l -I'; do
  # Each is some options.
  # shellcheck disable=SC2206
  some=($options_of)
  for pattern in 'fox jumps$' '7+e' 'x' '[0-9]*7f ' '.*'; do
    tool=(grep -n -E)
    [[ $options_of != *-F* ]] || tool=(grep -n)
    TOOL=("${tool[@]}")
    same "$options_of $pattern" "${some[@]}" -- "$pattern" "$work/text"
    same "$options_of $pattern of several" "${some[@]}" -- "$pattern" "$work/text" "$work/none" "$work/early-nul" "$work/late-nul" \
      "$work/later-nul" "$work/no-newline" "$work/odd/it's"
  done
done
TOOL=(grep -E -n)
same "context over cuts" -C 3 '^[0-9]+7 [0-7]*1 ' "$work/big"
same "context in one argument" -A3 -B1 'fox jumps$' "$work/text"
TOOL=(grep -n)
same "a literal that is no pattern" -F -- '7+e' "$work/text"
TOOL=(grep -E -n)
printf ' _x\n \n\nx\n_x_ _y\n' >"$work/words"
for pattern in 'x*' 'y*x*' '' '^' '$' '\b' '_*' '\<' '(x|)' ' *' ' ?'; do
  same "words that may be empty: $pattern" -w "$pattern" "$work/words"
  same "words that may be empty: -o $pattern" -w -o "$pattern" "$work/words"
done
same "words" -w 'th[a-z]|quick|bro' "$work/text"
for wrong in '-A' '-A x' '-A 10001' '-B -1' '-o -A 1'; do
  # Each is some options.
  # shellcheck disable=SC2086
  refused "search $wrong" 2 search -- -x $wrong
  # shellcheck disable=SC2086
  refused "search $wrong" 2 search $wrong x "$work/text"
done

# Folders: what grep -rI finds, in the order of the names.
mkdir -p "$work/walk/b" "$work/walk/a.d/c" "$work/walk/empty"
cp "$work/text" "$work/walk/b/text"
cp "$work/text" "$work/walk/a.d/c/text"
cp "$work/early-nul" "$work/walk/binary"
cp "$work/odd/it's" "$work/walk/a"
cp "$work/text" "$work/walk/-"
ln -s ../text "$work/walk/b/link"
mkfifo "$work/walk/b/fifo"
# walked NAME ARG…
walked() {
  want grep -rIn -E "${@:2}"
  sort -s -t: -k 1,1 "$work.want" >"$work.sorted" && mv "$work.sorted" "$work.want"
  got search -r "${@:2}"
  verdict "$1"
}
cd "$work/walk"
for pattern in 'fox jumps$' 'x' nothing-like-it; do
  walked "-r $pattern, one folder" "$pattern" .
  walked "-r $pattern, no name" "$pattern"
  walked "-r $pattern, two folders" "$pattern" a.d b
  walked "-r $pattern, folders and files" "$pattern" a a.d/c/text b/
  same "-r $pattern, one file" -r "$pattern" a.d/c/text
  same "-r $pattern, a link" -r "$pattern" b/link
  walked "-r -c $pattern" -c "$pattern" .
  walked "-r -l $pattern" -l "$pattern" .
done
cd "$work/odd"
same "-r of a missing name" -r o missing
input "$work/text" fox -
input "$work/text" fox - "$work/text" -
input "$work/early-nul" fox "with space" -
refused "no pattern" 2 search
refused "an unknown option" 2 search --frobnicate x
printf 'a.c\nabc\n' >"$work/dot"
prints "of -E and -F the last counts: -F" 1:a.c search -E -F a.c "$work/dot"
prints "of -E and -F the last counts: -E" $'1:a.c\n2:abc' search -F -E a.c "$work/dot"

# Patterns that cost others minutes or gigabytes, in an address space of 2 GB.
words=$(awk 'BEGIN { for (i = 0; i < 2000; i++) printf "%sw%xz%d", i ? "|" : "", i * 7919, i }')
# bounded PATTERN SAME: grep may take long for the first; the second matches the same lines.
bounded() {
  want grep -E -n -- "$2" "$work/text"
  (
    ulimit -v 2000000
    got search -- "$1" "$work/text"
  )
  verdict "bounded: ${1:0:40}"
}
bounded '(a*)*b' b
bounded 'a{1,32767}' a
bounded '(x+x+)+y' xxy
bounded '(o|oo)+w' ow
bounded '(([a-z]{1,30}){1,30}){1,20}' '[a-z]'
bounded "$words|jumps" jumps
bounded '.*.*.*.*x' x
for pattern in '(ab|c){1,32767}x' '((a{1,255}){1,255}){1,255}' '((x{1,200}){1,201})\1'; do
  refused "too large: $pattern" 2 search "$pattern" "$work/text"
  if grep -q 'more than 40000 bytes and sets.*make its repeats smaller' "$work.got.err"; then
    good "too large: $pattern: the message names the limit"
  else
    bad "too large: $pattern: the message names the limit"
  fi
done

# What ends soon, as grep does: soon NAME ARG…
soon() {
  AS='timeout 20' same "soon: $1" "${@:2}"
}
echo x >"$work/one-line"
soon "many matches behind the last line" '\B|\B|\B|\B|\B|\B|\B|\B|\B' "$work/one-line"
awk 'BEGIN { for (i = 0; i < 500000; i++) printf "a "; print "b_" }' >"$work/wide"
TOOL=(grep -n)
soon "-o with a word that is not there" -o -F $'a\nzzz' "$work/wide"
soon "-o -w with words that are far away" -o -w -F $'a\nb\nzzz' "$work/wide"
TOOL=(grep -n -E)
soon "-o with patterns that are far away" -o $'a\nz|b_$' "$work/wide"
awk 'BEGIN { for (i = 0; i < 30000; i++) printf "x"; printf "_"; for (i = 0; i < 3000; i++) printf "y"; print "" }' >"$work/touching"
soon "-w in a line where all matches touch" -w 'y*x*' "$work/touching"

# Only the C library knows that it is wrong: its words, before any line is printed.
refused "wrong for the C library alone, with -o" 2 search -o '[a-z-9]' "$work/text"
if grep -q 'Invalid range end' "$work.got.err"; then
  good "wrong for the C library alone, with -o: message"
else
  bad "wrong for the C library alone, with -o: message"
fi

# Operators in a row are one.
row() {
  awk -v n="$1" -v op="$2" 'BEGIN { s = "j"; for (i = 0; i < n; i++) s = s op; print s "u" }'
}
bounded "$(row 40 +)" 'j+u'
bounded "$(row 40 '*')" 'j*u'
bounded "$(row 40 '?')" 'j?u'
bounded "$(row 13 '{1,2}')" 'j+u'

# Neither what the translation does not know nor many alternatives lead past the limit.
deep=$(printf '%201s' '')
alternatives=$(awk 'BEGIN { for (i = 0; i < 60; i++) printf "%s(a%d|b){9000}", i ? "|" : "", i }')
for pattern in "${deep// /(}${deep// /)}((a{1,255}){1,255}){1,255}" '((a{1,255}){1,255}){1,255}[[.space.]]' "$alternatives"; do
  refused "too large: ${pattern: -40}" 2 search "$pattern" "$work/text"
  if grep -q 'more than 40000 bytes and sets' "$work.got.err"; then
    good "too large: ${pattern: -40}: the message names the limit"
  else
    bad "too large: ${pattern: -40}: the message names the limit"
  fi
done
# What takes the C library minutes, or all of its stack, is refused where it would be asked.
anchors=$(printf '%64s' '')
for given in "-o (a?b?){19999}" "-o .{0,4000}x" "-o ${anchors// /\\b}" "${anchors// /^}b" '(a?b?){2000}(c)\2'; do
  # shellcheck disable=SC2086 # an option and a pattern without blanks
  AS='timeout 20' refused "too large: ${given:0:40}" 2 search $given "$work/text"
  if grep -q 'more than 1000 pieces in a row that may match nothing' "$work.got.err"; then
    good "too large: ${given:0:40}: the message names the limit"
  else
    bad "too large: ${given:0:40}: the message names the limit"
  fi
done
lines=$(for _ in 1 2 3; do echo '(a[bc]){9999}'; done)
refused "too large: all lines count" 2 search "$lines" "$work/text"
same "at the limit of pieces that may match nothing" -o '.{0,1000}x' "$work/text"
few=${anchors:0:16}
same "anchors in a row" "${few// /^}[a-z]" "$work/text"
deep=$(printf '%60s' '')
refused "60 repeats in repeats" 2 search "${deep// /(}a${deep// /)*}" "$work/text"

# nested N: that many groups in groups.
nested() {
  awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) s = s "("; s = s "a"; for (i = 0; i < n; i++) s = s ")"; print s }'
}
same "1000 groups in groups" "$(nested 1000)" "$work/text"
refused "20000 groups in groups" 2 search "$(nested 20000)" "$work/text"
if grep -q 'more than 1000 groups in groups' "$work.got.err"; then
  good "20000 groups in groups: the message names the limit"
else
  bad "20000 groups in groups: the message names the limit"
fi

# Random patterns, options and inputs; with --thorough 500.
patterns=$((200 / TIME_SCALE))
[ -z "${WSD_THOROUGH:-}" ] || patterns=500
"$top/tests/support/random-lines.py" 1 "${RANDOM_PATTERNS:-$patterns}" "$work/random"
for i in "$work"/random/*/; do
  cd "$i"
  mapfile -t some <options
  TOOL=(grep -n -E)
  [[ " ${some[*]-} " != *' -F '* ]] || TOOL=(grep -n)
  same "random ${i#"$work"/random/} ${some[*]-}" "${some[@]}" -- "$(cat pattern)" [012]
done
TOOL=(grep -E -n)
cd "$work/odd"

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
