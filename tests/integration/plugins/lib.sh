# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib.sh: what the scripts of this folder share: they run a shipped plugin and the tool that it equals, and compare.
#   RUN          how to run a plugin: "…/run-plugin", "wsctl submit", "wsctl submit --local"
#   PLUGINS      the folder of the .so files; without it plugins are called by name
#   RUN_WORKERS  numbers of workers to try, each given as --workers N; without it RUN decides
# Each check prints "ok NAME", "FAIL NAME" or "skip NAME"; finish gives the exit code.

: "${RUN:?RUN must say how to run a plugin}"
: "${TIME_SCALE:=1}" # a slow machine has longer limits, and fewer random cases
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034 # used by the scripts
top=$(cd "$here/../../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/wsd-plugins.XXXXXX")
trap 'chmod -R u+rwx "$work" 2>/dev/null; rm -rf "$work"' EXIT
failures=0
workers=

good() {
  echo "ok $1${workers:+ ($workers workers)}"
}

bad() {
  echo "FAIL $1${workers:+ ($workers workers)}"
  failures=$((failures + 1))
}

finish() {
  exit $((failures > 0))
}

find_path() { # NAME[:FUNCTION]: as $path
  case $1 in
    *:*) path=$PLUGINS/${1%%:*}.so:${1#*:} ;;
    *) path=$PLUGINS/$1.so ;;
  esac
}
path_of() { # NAME[:FUNCTION]
  local path
  find_path "$1"
  echo "$path"
}

# plugin NAME[:FUNCTION] [ARG…]; options for RUN, such as --input FILE, in the array `options`.
options=()
plugin() {
  local path=$1
  [ -z "${PLUGINS:-}" ] || find_path "$1"
  # RUN is a command with its arguments.
  # shellcheck disable=SC2086
  ${AS:-} $RUN ${workers:+--workers "$workers"} "${options[@]}" "$path" "${@:2}"
}

# want TOOL…: what the tool does. got PLUGIN…: what the plugin does. They keep output, messages and status.
want() {
  local status=0
  ${AS:-} "$@" >"$work.want" 2>"$work.want.err" || status=$?
  echo "$status" >"$work.want.status"
}

got() {
  local status=0
  plugin "$@" >"$work.got" 2>"$work.got.err" || status=$?
  echo "$status" >"$work.got.status"
}

# What a script compares: a plugin and the tool that it equals, with its first arguments.
PLUGIN='' TOOL=()

# same NAME ARG…: both do the same with these arguments.
same() {
  want "${TOOL[@]}" "${@:2}"
  got "$PLUGIN" "${@:2}"
  verdict "$1"
}

# input FILE [ARG…]: the same with FILE as their input.
input() {
  want "${TOOL[@]}" "${@:2}" <"$1"
  options=(--input "$1")
  got "$PLUGIN" "${@:2}"
  options=()
  verdict "input $(basename "$1"): ${*:2}"
}

# tree FOLDER MIBIBYTES LIMIT [ARG…]: the same of so many files below that size, 150 at once, with the arguments before them.
tree() {
  local batch
  files_of "$1" "$2" "$3" >"$work/list"
  xargs -0 -n 150 "${TOOL[@]}" "${@:4}" <"$work/list" >"$work.want" 2>/dev/null || true
  while mapfile -d '' -t -n 150 batch && [ ${#batch[@]} -gt 0 ]; do
    plugin "$PLUGIN" "${@:4}" "${batch[@]}" 2>/dev/null || true
  done <"$work/list" >"$work.got"
  echo 0 | tee "$work.want.status" >"$work.got.status"
  verdict "${4:+$4 in }every file of $1"
}

clean() {
  rm -f "$work".want* "$work".got*
}
trap 'chmod -R u+rwx "$work" 2>/dev/null; rm -rf "$work"; clean' EXIT

# verdict NAME: the same output and status.
verdict() {
  local wanted was
  read -r wanted <"$work.want.status"
  read -r was <"$work.got.status"
  if cmp "$work.want" "$work.got" >&2 && [ "$was" = "$wanted" ]; then
    good "$1"
  else
    bad "$1"
    echo "its status is $was, the tool's $wanted" >&2
    head -c 1000 "$work.got.err" >&2
  fi
}

# messages NAME TOOL PLUGIN: the same messages, but for the speaker's name and for the job's own last line. A byte that is no
# UTF-8 (the scripts' names have \351 only) comes as an escape, for terminals.
messages() {
  sed -n "s/^$2: /$3: /; T; s/\xe9/\\\\xe9/g; p" "$work.want.err" >"$work.want.lines"
  sed -n "s/^\(wsctl: \|[0-9]: \)\{0,1\}$3: /$3: /p" "$work.got.err" |
    grep -v 'some files could not be' >"$work.got.lines" || true
  if [ -s "$work.want.lines" ] && cmp "$work.want.lines" "$work.got.lines" >&2; then
    good "$1"
  else
    bad "$1"
    head -c 1000 "$work.got.err" >&2
  fi
}

# refused NAME STATUS PLUGIN…: exits with the status, prints nothing, says something.
refused() {
  local name=$1 status=$2
  shift 2
  got "$@"
  if [ ! -s "$work.got" ] && [ -s "$work.got.err" ] && [ "$(cat "$work.got.status")" -eq "$status" ]; then
    good "$name"
  else
    bad "$name"
  fi
}

# prints NAME TEXT PLUGIN…: the output is the text, with a newline.
prints() {
  local name=$1
  printf '%s\n' "$2" >"$work.want"
  echo 0 >"$work.want.status"
  shift 2
  got "$@"
  verdict "$name"
}

# files_of FOLDER MIBIBYTES LIMIT: names of files below that size, each with a NUL. Nothing of the checkout that tests write
# meanwhile: other suites build beside this one.
files_of() {
  find "$1" \( -path "$top/build*" -o -path "$top/.git" \) -prune -o -type f -size "-$2M" -print0 2>/dev/null |
    sort -z | head -z -n "$3"
}

# for_workers FUNCTION: once with each number of workers.
for_workers() {
  local n
  for n in ${RUN_WORKERS:-default}; do
    workers=${n#default}
    "$1"
  done
  workers=
}

# Runs the function as somebody who may not read everything, or says why not.
as_nobody() {
  local nobody="runuser -u nobody --"
  if [ "$(id -u)" -ne 0 ]; then
    "$1"
  elif command -v runuser >/dev/null && AS=$nobody plugin fib 1 >/dev/null 2>&1; then
    chmod 755 "$work"
    AS=$nobody "$1"
  else
    echo "skip $1: root reads everything, and nobody cannot run $RUN"
  fi
}

# odd_names FOLDER: files whose names and contents are where tools differ.
odd_names() {
  mkdir -p "$1"
  printf 'one\ntwo\n' >"$1/with space"
  printf 'no newline' >"$1/with"$'\n'"newline"
  printf '\n\n' >"$1/back\\slash"
  printf 'a\001b\377 \0 c\n' >"$1/latin-"$'\351'
  printf 'x y\tz\vq\fr\rs\n' >"$1/it's"
  printf 'cr\r\n' >"$1/with"$'\r'"return"
  printf '%s\n' "dollar" >"$1/\$dollar"
  printf '%s' "" >"$1/empty"
  printf '\0' >"$1/nul"
  printf '%0100d' 0 >"$1/tab"$'\t'"tab"
  mkdir -p "$1/folder"
}

# big FILE MIBIBYTES: lines of text, the same each time.
big() {
  awk -v n="$2" 'BEGIN {
    x = 42
    for (size = 0; size < n * 1048576; size += length(line) + 1) {
      x = (x * 1103515245 + 12345) % 2147483648
      line = sprintf("%d %o %x the quick brown fox %s", x, x % 65536, x, x % 7 ? "jumps" : "")
      print line
    }
  }' >"$1"
}

# sanitized: sanitizers take memory of their own, several times what a plugin takes.
sanitized() {
  [ -n "${WSD_SANITIZE:-}" ]
}

# no_file NAME STATUS PLUGIN ARG…: refused; the message says that it is no regular file, and what takes it.
no_file() {
  refused "$@"
  if grep -q ': Not a regular file; --input takes it' "$work.got.err"; then
    good "$1: message"
  else
    bad "$1: message"
    cat "$work.got.err" >&2
  fi
}

# no_files PLUGIN STATUS [ARG…]: of a FIFO, a socket, devices.
no_files() {
  local file
  mkfifo "$work/fifo"
  perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die' "$work/socket"
  for file in "$work/fifo" "$work/socket" /dev/null /dev/zero; do
    no_file "$1 of ${file##*/}" "$2" "$1" "${@:3}" "$file"
  done
}
