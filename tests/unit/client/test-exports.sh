#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The library exports what the installed header declares, and nothing else. Arguments: library, header.
set -eu
declared=$(grep -o 'wsd_[a-z_]*(' "$2" | tr -d '(' | sort -u | while read -r name; do
  grep -Eq "^WSD_EXPORT .*[ *]$name\(" "$2" && echo "$name"
done)
exported=$(nm -D --defined-only "$1" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort -u)
[ "$declared" = "$exported" ] || {
  echo "declared:"
  echo "$declared"
  echo "exported:"
  echo "$exported"
  exit 1
}
readelf -d "$1" | grep -q 'soname: \[libwsclient.so.0\]'
! readelf -d "$1" | grep NEEDED | grep -Ev 'libprotobuf-c|libc\.so|ld-linux|lib[a-z]*san|libgcc_s|libm\.so'
