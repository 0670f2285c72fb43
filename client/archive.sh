#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# archive.sh OUT OBJECTS LIBRARY...: a static library of one object, with all of OBJECTS and what they need of each
# LIBRARY. Only the calls of client.h are global in it: the names of its own functions are not its user's.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$1 objects=$2
shift 2
# takes the ordinary code, where an object also has that for optimising as a whole
ld -r -o "$work/wsclient.o" --whole-archive "$objects" --no-whole-archive --start-group "$@" --end-group
objcopy --localize-hidden --remove-section '.gnu.lto_*' "$work/wsclient.o"
rm -f "$out"
ar rcsD "$out" "$work/wsclient.o"
