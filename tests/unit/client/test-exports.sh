#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The library exports what the installed headers declare, and nothing else. Arguments: library, headers.
set -eu
library=$1
shift
declared=$(grep -oh 'wsd_[a-z_]*(' "$@" | tr -d '(' | sort -u | while read -r name; do
  cat "$@" | grep -Eq "^WSD_EXPORT .*[ *]$name\(" && echo "$name"
done)
exported=$(nm -D --defined-only "$library" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort -u)
[ "$declared" = "$exported" ] || {
  echo "declared:"
  echo "$declared"
  echo "exported:"
  echo "$exported"
  exit 1
}
readelf -d "$library" | grep -q 'soname: \[libwsclient.so.0\]'
! readelf -d "$library" | grep NEEDED | grep -Ev 'libprotobuf-c|libc\.so|ld-linux|lib[a-z]*san|libgcc_s|libm\.so'
