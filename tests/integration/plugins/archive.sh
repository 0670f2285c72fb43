#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # for_workers and as_nobody call functions by name
# archive.sh: what archive makes is, without zstd, what GNU tar makes, byte for byte, and tar extracts it.
set -eu
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TAR=(tar --format=posix --sort=name --pax-option='exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime' -cf -)

# opened: what was got is decompressed in place.
opened() {
  zstd -qdc <"$work.got" >"$work.got.tar" || bad "zstd reads it"
  mv "$work.got.tar" "$work.got"
}

# as_tar NAME ARG...: the same archive and status.
as_tar() {
  want "${TAR[@]}" "${@:2}"
  got archive "${@:2}"
  opened
  verdict "$1"
}

# says NAME TEXT: that is among the messages.
says() {
  if grep -qF -- "$2" "$work.got.err"; then
    good "$1"
  else
    bad "$1"
    head -c 1000 "$work.got.err" >&2
  fi
}

# status NAME N
status() {
  if [ "$(cat "$work.got.status")" = "$2" ]; then
    good "$1"
  else
    bad "$1: $(cat "$work.got.status")"
    head -c 1000 "$work.got.err" >&2
  fi
}

# extracted NAME FOLDER: tar --zstd makes of what was got what is in the folder, in every respect that tar keeps.
extracted() {
  local there="$work/extracted"
  rm -rf "$there"
  mkdir "$there"
  tar --zstd --warning=no-timestamp -xpf "$work.got" -C "$there" || bad "$1: tar"
  if diff <(listing "$2") <(listing "$there/$(basename "$2")") >&2; then
    good "$1"
  else
    bad "$1"
  fi
}

# listing FOLDER: everything below, with the contents of files.
listing() {
  (
    cd "$1"
    find . -printf '%p %y %m %U %G %T@ %l %n\n' | sort
    find . -type f -exec sha256sum {} + | sort
  )
}

odd_names "$work/odd"
tree="$work/tree"
mkdir -p "$tree/folder/empty" "$tree/folder.d" "$tree/long"
for size in 1 511 512 513 100000; do head -c $size /dev/urandom >"$tree/size-$size"; done
: >"$tree/size-0"
ln -s size-1 "$tree/link"
ln -s missing "$tree/dangling"
ln "$tree/size-513" "$tree/folder/hard"
ln "$tree/size-513" "$tree/aaa"
ln -P "$tree/link" "$tree/hard-link"
mkfifo "$tree/fifo"
chmod 4755 "$tree/size-511"
chmod 1777 "$tree/folder/empty"
name=$(printf 'n%.0s' $(seq 150))
mkdir "$tree/long/$name"
echo long >"$tree/long/$name/$name"
ln -s "$name/$name" "$tree/long/to"
ln "$tree/long/$name/$name" "$tree/long/again"
touch -d '1960-01-01 00:00:00.25' "$tree/size-1"
touch -d '2300-01-01' "$tree/folder.d"
if [ "$(id -u)" = 0 ]; then
  chown 3000000:2097152 "$tree/size-0"
  mknod "$tree/null" c 1 3
  mknod "$tree/block" b 7 300
fi

# Files around the parts of a block from which on they are cut, and larger than a block.
mkdir "$work/large"
for size in 1048575 1048576 1048577 4194304 9000000; do head -c $size /dev/urandom >"$work/large/$size"; done
ln "$work/large/9000000" "$work/large/too"
truncate -s 3M "$work/large/holes"

cd "$work"
large_files() { as_tar "large files" large; }
for_workers large_files
whole_tree() { as_tar "a tree" tree; }
for_workers whole_tree
as_tar "odd names" odd
as_tar "several paths, one of them missing" tree/size-1 missing tree/folder odd
as_tar "an absolute path" "$tree/folder"
says "an absolute path: message" "Removing leading '/' from member names"
as_tar "a path with dots" tree/../odd tree/folder/../link
as_tar "the working directory" -C tree .
as_tar "-C" -C tree folder size-1 "$work/odd/nul"
as_tar "a link that is named, with slashes" tree/link// tree/folder//
as_tar "a FIFO that is named" tree/fifo
as_tar "an empty name" "" tree/size-1
for pattern in 'size-*' 'folder' 'tree' '*' 'tree/folder' 'hard' '*/hard' 'f*r' 'n*n/n*n' '[a' 'tree/*d' '\link' 'size-1/' '.'; do
  as_tar "--exclude $pattern" --exclude "$pattern" tree
  as_tar "--exclude $pattern, an absolute path" --exclude "$pattern" "$tree"
done
for pattern in '*' 'folder' './folder' '*/hard' '.'; do
  as_tar "--exclude=$pattern of ." --exclude="$pattern" --exclude=zzz -C tree .
done

got archive tree
extracted "tar --zstd extracts a tree" tree
cp "$work.got" "$work.want"
again() {
  got archive tree
  echo 0 >"$work.want.status"
  verdict "the same bytes again"
}
for_workers again
if [ -z "${PLUGINS:-}" ]; then
  options=(--output "$work/tree.tar.zst")
  got archive tree
  options=()
  mv "$work/tree.tar.zst" "$work.got"
  verdict "the same bytes in a file that wsctl --output names"
fi
for level in -1 -9 -19; do
  want "${TAR[@]}" tree/folder tree/size-100000
  got archive $level tree/folder tree/size-100000
  opened
  verdict "level $level"
done

for seed in $(seq "${RANDOM_TREES:-6}"); do
  "$top/tests/support/random-tree.py" "$seed" 150 "$work/random-$seed"
  as_tar "random tree $seed" "random-$seed"
done
got archive random-1
extracted "tar --zstd extracts a random tree" random-1

# Paths of at most 4,095 bytes, with the slash behind a folder, can be opened.
deep() { # FOLDER BYTES NAME: a chain of folders of so many bytes with their slashes, with an empty file and one of a byte
  (
    local left=$2 part
    mkdir -p "$1"
    cd "$1"
    left=$((left - ${#1} - 1))
    while [ "$left" -gt 0 ]; do
      part=$((left > 240 ? 200 : left))
      part=$(printf "%0$((part - 1))d" 0)
      mkdir "$part"
      cd -P "$part" 2>/dev/null || cd "$part"
      left=$((left - ${#part} - 1))
    done
    [ -z "${3:-}" ] || echo x >"$3"
  )
}
deep deep-1 4094 f # the file's path has 4,095 bytes
as_tar "a file whose path has 4,095 bytes" deep-1
deep deep-2 4095 f
got archive deep-2
status "a file whose path has 4,096 bytes" 2
says "a file whose path has 4,096 bytes: message" "Cannot open: File name too long"
deep deep-3 4095
as_tar "a folder whose path has 4,095 bytes" deep-3
deep deep-4 4096
got archive deep-4
status "a folder whose path has 4,096 bytes" 2
says "a folder whose path has 4,096 bytes: message" "Cannot open: File name too long"
rm -rf deep-1 deep-2 deep-3 deep-4

# Names of more than 150 bytes are shortened in messages.
for size in 149 150 151; do
  name=$(printf "%0${size}d" 0)
  got archive "$name"
  [ "$size" -lt 151 ] || name="...${name:1}"
  says "a name of $size bytes in a message" "archive: $name: Cannot stat: No such file or directory"
done

# Sizes from 8 GiB on have a record of their own.
if [ -n "${WSD_THOROUGH:-}" ]; then
  truncate -s 8589934593 huge
  if [ "$(plugin archive -1 huge | zstd -qdc | tar tvf - | awk '{print $3, $6}')" = "8589934593 huge" ]; then
    good "a file of more than 8 GiB"
  else
    bad "a file of more than 8 GiB"
  fi
  rm huge
fi

# The sizes that a sysfs tells are those of a page, and less can be read.
if [ -r /sys/kernel/uevent_seqnum ]; then
  as_tar "a file that is shorter than it said" -C /sys/kernel uevent_seqnum
  says "a file that is shorter than it said: message" "archive: uevent_seqnum: File shrank by "
fi
perl -MIO::Socket::UNIX -e 'chdir $ARGV[0]; IO::Socket::UNIX->new(Local => "socket", Listen => 1) or die' "$work/odd"
as_tar "a socket" odd
says "a socket: message" "archive: odd/socket: socket ignored"

unreadable() {
  as_tar "what may not be read" closed
  says "a file that may not be read: message" "archive: closed/file: Cannot open: Permission denied"
  says "an empty file that may not be read: message" "archive: closed/empty: Cannot open: Permission denied"
  says "a folder that may not be read: message" "archive: closed/folder: Cannot open: Permission denied"
  says "a folder that may not be searched: message" "archive: closed/names/inside: Cannot "
  says "what may not be read: the job's error" "some files are not in the archive, or not as a whole"
}
mkdir -p closed/folder closed/names closed/open
echo secret | tee closed/file >closed/names/inside
: >closed/empty
echo open >closed/open/file
ln closed/file closed/file-too
ln closed/open/file closed/open/too
chmod 0 closed/file closed/folder closed/empty
chmod 744 closed/names
as_nobody unreadable

# What changes while it is read: the output waits for its reader, and what is read ahead of it is bounded.
mkdir changing changing/h changing/i
head -c $(((2 * 16 + 8) * 4 * 1024 * 1024)) /dev/urandom >changing/a
head -c 2000000 changing/a | tee changing/b >changing/c
for file in d e f g i/inside j; do head -c 1000 changing/a >"changing/$file"; done
echo new >replacement
changed() {
  local path=archive
  [ -z "${PLUGINS:-}" ] || path=$(path_of archive)
  mkfifo "$work/through"
  # RUN is a command with its arguments.
  # shellcheck disable=SC2086
  $RUN "$path" -1 changing >"$work/through" 2>"$work.got.err" &
  {
    head -c 1 # it has begun, and has looked at what is in the folder
    echo more | tee -a changing/a >>changing/e
    truncate -s 100 changing/c
    truncate -s 0 changing/d
    rm -r changing/f changing/h
    mv replacement changing/g
    cat
  } <"$work/through" >"$work.got"
  wait $! && echo 0 >"$work.got.status" || echo $? >"$work.got.status"
}
changed
status "what changes while it is read" 1
says "a large file that grows" "archive: changing/a: file changed as we read it"
says "a large file that shrinks" "archive: changing/c: File shrank by 1999900 bytes; padding with zeros"
says "a small file that shrinks" "archive: changing/d: File shrank by 1000 bytes; padding with zeros"
says "a small file that grows" "archive: changing/e: file changed as we read it"
says "a file that goes" "archive: changing/f: File removed before we read it"
says "a file that is replaced" "archive: changing/g: Another file has taken its place"
says "a folder that goes" "archive: changing/h: File removed before we read it"
says "what changes: the job's error" "some files changed while they were read"
tar --zstd -tvf "$work.got" | awk '{print $3, $6}' >"$work.got.list"
if diff - "$work.got.list" >&2 <<END; then good "what changes: its sizes"; else bad "what changes: its sizes"; fi
0 changing/
167772160 changing/a
2000000 changing/b
2000000 changing/c
1000 changing/d
1000 changing/e
0 changing/i/
1000 changing/i/inside
1000 changing/j
END
if tar --zstd -xf "$work.got" -O changing/j | cmp - changing/j >&2; then
  good "what changes: what is behind it"
else
  bad "what changes: what is behind it"
fi

# limited N WORKERS PATH: archived by a process that may have so many descriptors. Both figures are those of run-plugin.
limited() {
  local status=0
  # RUN is a command with its arguments.
  # shellcheck disable=SC2086
  (ulimit -n "$1" && exec $RUN --workers "$2" "$(path_of archive)" "$3") >"$work.got" 2>"$work.got.err" || status=$?
  echo "$status" >"$work.got.status"
}
few_descriptors() {
  local i least=5 blocks
  mkdir small cut
  for i in $(seq 300); do head -c 100000 changing/a >"small/$i"; done
  for i in $(seq $((12 * $(nproc)))); do head -c 1100000 changing/a >"cut/$i"; done
  until [ "$least" = 40 ] || { limited "$least" 1 small/1 && [ "$(cat "$work.got.status")" = 0 ]; }; do least=$((least + 1)); done
  want "${TAR[@]}" small
  limited "$least" 2 small
  opened
  verdict "waits for a descriptor where there is one"
  blocks=$(($(nproc) < 16 ? 2 * $(nproc) : 32))
  want "${TAR[@]}" cut
  limited $((least + blocks + 6)) 2 cut
  opened
  verdict "one file a block is open beside those that are read"
  rm -r small cut
}
# peak FOLDER: of a run with one worker, in KiB.
peak() {
  # RUN is a command with its arguments.
  # shellcheck disable=SC2086
  python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' $RUN --workers 1 "$(path_of archive)" "$1"
}
# How many blocks there are at once hangs on who waits for a CPU. So the most that a few names took is held against the least
# that many did.
many_names() {
  local few many
  python3 -c 'import os
for name, n in ("few", 40000), ("many", 100000):
    os.mkdir(name)
    for i in range(n):
        os.close(os.open("%s/file-%06d" % (name, i), os.O_CREAT))'
  few=$(for _ in 1 2 3; do peak few; done | sort -n | tail -n 1)
  many=$(for _ in 1 2 3; do peak many; done | sort -n | head -n 1)
  echo "at most $few KiB for 40000 empty files, at least $many KiB for 100000" >&2
  if [ "$many" -lt $((few + 5000)) ]; then good "names take little memory"; else bad "names take little memory"; fi
  as_tar "a folder of 40000 files" few
  rm -r few many
}
if [ -n "${PLUGINS:-}" ] && ! sanitized; then # what wsctl takes says nothing
  few_descriptors
  many_names
fi

# It would compress for seconds, in short pieces.
mapfile -t often < <(yes changing/a | head -n 60)
options=(--timeout 200ms)
AS='timeout -s KILL 60' got archive -9 "${often[@]}"
options=()
status "heeds that its time is up" 124
if grep -q 'did not heed' "$work.got.err"; then bad "and before it is told again"; else good "and before it is told again"; fi

refused "no path" 2 archive
says "no path: message" "nothing to archive: name files or folders; usage: archive"
refused "an unknown option" 2 archive --frobnicate tree
refused "level 20" 2 archive -20 tree
refused "level 0" 2 archive -0 tree
refused "an option without its value" 2 archive tree -C
refused "an empty folder's name" 2 archive -C '' tree
says "an empty folder's name: message" "-C '': no folder has an empty name"
refused "an empty folder's name behind =" 2 archive -C= tree
finish
