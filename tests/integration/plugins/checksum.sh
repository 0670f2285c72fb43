#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # for_workers and as_nobody call functions by name
# checksum.sh: checksum against sha256sum and its siblings, and against xxhsum.
set -eu
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2034 # lib.sh reads them
PLUGIN=checksum TOOL=(sha256sum)

algorithms="md5 sha1 sha224 sha256 sha384 sha512 b2"
odd_names "$work/odd"
big "$work/big" 12
head -c 65536 "$work/big" >"$work/piece"
head -c 65537 "$work/big" >"$work/piece+1"
: >"$work/none"

cd "$work/odd"
for algorithm in $algorithms; do
  want "${algorithm}sum" -- * missing 'miss ing' "it's not" $'new\nline' $'\351'
  got checksum "$algorithm" -- * missing 'miss ing' "it's not" $'new\nline' $'\351'
  verdict "$algorithm of odd names and a folder"
  messages "$algorithm: messages" "${algorithm}sum" checksum
  want "${algorithm}sum" "$work/big" "$work/none" "$work/piece" "$work/piece+1"
  got checksum "$algorithm" "$work/big" "$work/none" "$work/piece" "$work/piece+1"
  verdict "$algorithm of a big file and of small ones"
  for file in "$work/big" "$work/none"; do
    want "${algorithm}sum" <"$file"
    options=(--input "$file")
    got checksum "$algorithm"
    options=()
    verdict "$algorithm of $(basename "$file") as input"
  done
done

# xxh ALGORITHM TOOL ARG...: the same of odd names, of a big file and of the input.
xxh() {
  local algorithm=$1 file
  shift
  want "$@" -- * missing
  got checksum "$algorithm" -- * missing
  verdict "$algorithm of odd names and a folder"
  want "$@" "$work/big" "$work/none" "$work/piece" "$work/piece+1"
  got checksum "$algorithm" "$work/big" "$work/none" "$work/piece" "$work/piece+1"
  verdict "$algorithm of a big file and of small ones"
  for file in "$work/big" "$work/none"; do
    want "$@" <"$file"
    options=(--input "$file")
    got checksum "$algorithm"
    options=()
    verdict "$algorithm of $(basename "$file") as input"
  done
}
xxh xxh3 xxhsum -H3
xxh xxh64 xxh64sum
xxh xxh128 xxh128sum

# find_sum NAME FOLDER TOOL...: as the tool says it of the files that find sees. An algorithm is in the array `algorithm`.
algorithm=()
find_sum() {
  find "$2" -type f -print0 | sort -z >"$work/list"
  xargs -0 -a "$work/list" "${@:3}" >"$work.want" 2>/dev/null
  echo 0 >"$work.want.status"
  got checksum "${algorithm[@]}" -r "$2"
  verdict "$1"
}
below="$work/below"
mkdir -p "$below/a/b" "$below/a.b" "$below/a-b" "$below/empty"
for file in a.c a/z a/b/one 'a/b/two words' a.b/x a-b/y a0 $'new\nline' $'\351'; do echo "$file" >"$below/$file"; done
echo dash >"$below/-"
ln -s a.c "$below/link"
ln -s a "$below/linked"
mkfifo "$below/fifo"
find_sum "-r of a folder, sorted" "$below" sha256sum
find_sum "-r of a folder with a slash behind it" "$below/" sha256sum
find_sum "-r of a file" "$below/a.c" sha256sum
find_sum "-r of an empty folder" "$below/empty" true
algorithm=(xxh3)
find_sum "-r with xxh3" "$below" xxhsum -H3
algorithm=()
below_workers() { find_sum "-r of the manuals" "$top/packaging" sha256sum; }
for_workers below_workers
cd "$below"
find . -type f -print0 | sort -z | xargs -0 md5sum >"$work.want"
got checksum -r md5
verdict "-r of the working directory"
want md5sum a.c - a0 <"$work/piece"
options=(--input "$work/piece")
got checksum md5 -r a.c - a0
options=()
verdict "-r of files and the input"
refused "-r of a folder that is not there" 1 checksum -r missing
unread() {
  got checksum -r .
  if grep -q "checksum: \./secret: Permission denied" "$work.got.err" && grep -q '  \./a\.c$' "$work.got" &&
    [ "$(cat "$work.got.status")" = 1 ]; then
    good "-r says which folder may not be read, and hashes the rest"
  else
    bad "-r says which folder may not be read, and hashes the rest"
  fi
}
mkdir -m 0 "$below/secret"
as_nobody unread
cd "$work/odd"

cp empty sha256
want sha256sum sha256
got checksum ./sha256
sed -i 's,\./sha256,sha256,' "$work.got"
verdict "a file called sha256"
want sha256sum /proc/version /proc/filesystems /sys/kernel/mm/transparent_hugepage/enabled missing
got checksum /proc/version /proc/filesystems /sys/kernel/mm/transparent_hugepage/enabled missing
verdict "files of the kernel's, whose sizes are 0 and 4096"
want sha256sum - empty - <"$work/piece"
options=(--input "$work/piece")
got checksum - empty -
options=()
verdict "the input between files, twice"
refused "an unknown option" 1 checksum --frobnicate
want sha256sum ''
got checksum ''
messages "an empty name" sha256sum checksum

unreadable() {
  same "a file that may not be read" "$work/odd/empty" "$work/odd/secret"
  messages "a file that may not be read: message" sha256sum checksum
}
echo secret >secret
chmod 000 secret
as_nobody unreadable

every_tree() {
  tree "$top" 64 400
}
cd /
for_workers every_tree
tree /usr/share/doc 64 100000
tree /usr/lib 64 3000
no_files checksum 1 md5
finish
