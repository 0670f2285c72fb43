#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # for_workers and as_nobody call functions by name
# checksum.sh: checksum against sha256sum and its siblings.
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

cp empty sha256
want sha256sum sha256
got checksum ./sha256
sed -i 's,\./sha256,sha256,' "$work.got"
verdict "a file called sha256"
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
