#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# store-loss.sh: a database that is removed, replaced, damaged, or cannot be opened: said with its cause, and nothing is acknowledged
# that the next wsd does not have. The commands of BACKUP in wsd(8) do what is said there.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/inject.sh"

STATE=$WORK/jobs
start_here() { start_wsd --workers 1 --state-dir "$STATE"; }
submits() { wsctl submit --durable --delay 1h --detach fib 5 >"$WORK/id"; }
known() { wsctl --json status "$(cat "$1")" | grep -q '"state":"delayed"'; }
durable_refused() { # CODE WORDS: a durable job is, with these words, which stand in the log too
  local status=0
  submits 2>"$WORK/err" || status=$?
  cat "$WORK/err"
  [ "$status" = "$1" ] && grep -q -- "$2" "$WORK/err" && logged "$2"
}
fails_to_be_read() { # WORDS: nothing durable is taken, and the log of the start says why
  start_here && logged "no durable jobs: .*$1" && durable_refused 74 "$1" && is_not_denied "$1" && expect_output 6765 wsctl submit fib 20 && stop_wsd
}
is_not_denied() { # WORDS: of an id that may be on disk nobody says that there is no such job; one of a batch is as ever
  local unknown=0123456789abcdef0123456789abcdef verb batch
  for verb in status await cancel; do
    expect_exit 74 wsctl "$verb" $unknown >"$WORK/err" 2>&1 || return 1
    grep "the durable ones cannot be read: .*$1" "$WORK/err" || return 1
  done
  expect_exit 74 wsctl submit --key k fib 5 >"$WORK/err" 2>&1 || return 1
  grep "a job with that key is on disk cannot be read: .*$1" "$WORK/err" || return 1
  batch=$(printf '1\n' | wsctl map --detach fib) && wsctl await "$batch" >"$WORK/out" && wsctl status "$batch" >"$WORK/out"
}
clean() { rm -rf "$STATE"; }

# --- removed under a running wsd ------------------------------------------------------------------------------------------

removed() { # COMMAND...: what was acknowledged before and after it is there for the next wsd
  clean
  start_here && submits && cp "$WORK/id" "$WORK/before" && "$@" && submits && cp "$WORK/id" "$WORK/after" &&
    logged 'removed while wsd had it: all of it was written again' && stop_wsd && start_here && known "$WORK/before" && known "$WORK/after" && stop_wsd
}
check "the state directory is removed" removed rm -rf "$STATE"
check "the database is removed" removed rm "$STATE/jobs.db"
check "its log is removed" removed rm "$STATE/jobs.db-wal"
check "all of its files are removed" removed sh -c "rm $STATE/jobs.db*"
killed_behind_it() { # what it acknowledged behind the removal is on disk already
  clean
  start_here && submits && rm -rf "$STATE" && submits && kill -KILL "$WSD_PID" && wait_until gone "$WSD_PID" && start_here &&
    known "$WORK/id" && stop_wsd
}
check "and wsd is killed behind the next job" killed_behind_it
cannot_come_back() {
  clean
  mkdir -p "$WORK/above"
  STATE=$WORK/above/jobs
  start_here && submits && cp "$WORK/id" "$WORK/before" && rm -rf "$WORK/above" && : >"$WORK/above" &&
    durable_refused 74 'removed while wsd had it, and cannot be written again: Not a directory' && rm "$WORK/above" && submits && stop_wsd &&
    start_here && known "$WORK/before" && known "$WORK/id" && stop_wsd
  status=$?
  STATE=$WORK/jobs
  return "$status"
}
check "a directory that cannot come back: refused until it can" cannot_come_back
replaced() {
  clean
  start_here && submits && cp "$STATE/jobs.db" "$STATE/other" && mv "$STATE/other" "$STATE/jobs.db" &&
    durable_refused 74 'another file was put in its place' && stop_wsd
}
check "another file is in its place: refused" replaced

grows() { # SIZE
  [ "$(stat -c %s "$STATE/jobs.db-wal" 2>/dev/null || echo 0)" -gt "$1" ]
}
n_jobs_are() { # N
  [ "$(wsctl --json list | wc -l)" = "$1" ] || {
    wsctl --json list
    return 1
  }
}
refused_on_its_way() { # the disk takes its time, and the files go meanwhile: what is refused then is not there later
  local size status=0
  rm -rf "$WORK/above"
  mkdir "$WORK/above"
  STATE=$WORK/above/jobs
  WSD_PREFIX=()
  start_here && submits && size=$(stat -c %s "$STATE/jobs.db-wal") && inject_now fdatasync,fsync:delay_enter=2000000 || return 1
  background wsctl submit --durable --delay 1h --detach fib 6 2>"$WORK/err"
  wait_until grows "$size" && rm -rf "$WORK/above" && : >"$WORK/above"
  wait_for_exit "$BACKGROUND_PID" || status=$?
  end_injection
  cat "$WORK/err"
  [ "$status" = 74 ] && grep -q 'cannot be written again' "$WORK/err" && rm "$WORK/above" && submits && n_jobs_are 2 && stop_wsd && start_here &&
    n_jobs_are 2 && known "$WORK/id" && stop_wsd
}
is_back() { [ -s "$STATE/jobs.db" ]; }
is_whole() { [ -s "$STATE/jobs.db.whole" ]; }
has_no_log() { is_whole && [ ! -e "$STATE/jobs.db-wal" ]; }
killed_while_it_comes_back() { # INJECTION CONDITION: where all of it is written; its old log is gone; it is in its place
  local i
  clean
  WSD_PREFIX=()
  start_here || return 1
  for i in {1..12}; do head -c 3000 /dev/zero | wsctl submit --durable --detach --delay 1h --input - count >"$WORK/id$i" || return 1; done
  submits && cp "$WORK/id" "$WORK/before" && stop_wsd || return 1
  inject "$1"
  start_here || return 1
  for i in {1..10}; do wsctl cancel "$(cat "$WORK/id$i")" || return 1; done # the new file has its pages elsewhere
  submits && rm "$STATE/jobs.db" || return 1
  cp "$WORK/id" "$WORK/after"
  background wsctl submit --durable --delay 1h --detach fib 6 2>/dev/null
  wait_until "$2" || return 1
  pkill -KILL -P "$WSD_PID" -x wsd
  kill -KILL "$WSD_PID" "$BACKGROUND_PID" # strace would wait for its delay
  wait_until gone "$WSD_PID" || return 1
  WSD_PREFIX=()
  start_here && known "$WORK/before" && known "$WORK/after" && n_jobs_are 14 && stop_wsd && [ ! -e "$STATE/jobs.db.whole" ]
}
if can_inject; then
  check "killed while its files come back, before they are moved: they are whole" killed_while_it_comes_back rename:delay_exit=60000000:when=1 is_whole
  check "behind the end of the old log" killed_while_it_comes_back rename:delay_enter=60000000:when=2 has_no_log
  check "behind the rename: the log of the old file is not taken for theirs" killed_while_it_comes_back rename:delay_exit=60000000:when=2 is_back
  STATE=$WORK/jobs WSD_PREFIX=()
  check "one that was refused while its files went is not there later" refused_on_its_way
  STATE=$WORK/jobs WSD_PREFIX=()
else
  skip "killed while its files come back" "needs root and strace, and no sanitizer"
  skip "one that was refused while its files went is not there later" "needs root and strace, and no sanitizer"
fi

# --- at the start ----------------------------------------------------------------------------------------------------------

full_store() {
  clean
  start_here && submits && cp "$WORK/id" "$WORK/before" && stop_wsd
}
begins_anew() { # WORDS
  start_here && logged "$1: durable jobs that were in it are lost" && submits && stop_wsd && start_here && known "$WORK/id" && stop_wsd
}
check "a store with a job" full_store
rm "$STATE/jobs.db"
check "lost: it begins anew, and says so" begins_anew 'it has been there, and is missing'
: >"$STATE/jobs.db"
check "empty: the same" begins_anew 'it is empty'
truncate -s -4096 "$STATE/jobs.db"
check "torn: left alone" fails_to_be_read 'malformed'
with_wal() { # one that wsd was killed with
  clean
  start_here && submits && cp "$WORK/id" "$WORK/before" && kill -KILL "$WSD_PID" && wait_until gone "$WSD_PID" && [ -s "$STATE/jobs.db-wal" ] && rm "$STATE/jobs.db"
}
check "a database is lost, and its log is there" with_wal
check "nothing is begun beside it" fails_to_be_read 'it is missing, but its -wal is there'

# --- files of which it cannot be known whether they are there ---------------------------------------------------------------

unknown_at_the_start() { # FILE-OF-THE-STORE: none is begun beside it, and it stays
  cp -r "$STATE" "$WORK/copy" || return 1
  inject newfstatat:error=EIO
  WSD_PREFIX+=(-P "$STATE/$1")
  start_here && logged 'no durable jobs: .*Input/output error' && durable_refused 74 'Input/output error' && stop_traced && diff -r "$WORK/copy" "$STATE" && rm -r "$WORK/copy"
}
whole_is_there() { # wsd was killed when it had written all of it again
  full_store && mv "$STATE/jobs.db" "$STATE/jobs.db.whole"
}
unknown_while_it_runs() {
  full_store && start_here && inject_now newfstatat:error=EIO -P "$STATE/jobs.db" && durable_refused 74 'Input/output error' && end_injection &&
    submits && ! logged 'written again' && stop_wsd && start_here && known "$WORK/before" && known "$WORK/id" && stop_wsd
}
back_again() { start_here && known "$WORK/before" && stop_wsd; }
if can_inject; then
  check "its log, at the start" with_wal
  check "is taken for none nowhere" unknown_at_the_start jobs.db-wal
  WSD_PREFIX=()
  check "all of it written again, at the start" whole_is_there
  check "is taken for none nowhere, either" unknown_at_the_start jobs.db.whole
  WSD_PREFIX=()
  check "and is put back by the next one" back_again
  check "the database, while it runs: it is not written again" unknown_while_it_runs
else
  skip "files of which it cannot be known whether they are there" "needs root and strace, and no sanitizer"
fi

# --- the real cause ----------------------------------------------------------------------------------------------------------

cause() { # WORDS COMMAND...
  local words=$1
  shift
  clean
  start_here && "$@" && durable_refused 74 "$words" && stop_wsd
}
check "no directory can be made" cause 'Not a directory' sh -c "rm -r $STATE && : >$STATE"
check "a directory in the place of the database" cause 'Is a directory' mkdir -p "$STATE/jobs.db"
check "a FIFO" cause 'no regular file' sh -c "mkdir -p $STATE && mkfifo $STATE/jobs.db"
if [ "$(id -u)" = 0 ]; then
  check "others could write to it" cause 'others than root could write to it' sh -c "mkdir -p $STATE && : >$STATE/jobs.db && chmod 666 $STATE/jobs.db"
  check "or to its directory" cause 'others than root could write to the directory' sh -c "mkdir -p $STATE && chmod 777 $STATE"
  clean
  foreign_configuration() { # MODE OF
    local status=0
    cp "$WSD_CONFIG" "$WORK/etc/wsd.conf"
    chmod "$1" "$2"
    wsd --config "$WORK/etc/wsd.conf" --check-config 2>"$WORK/err" || status=$?
    cat "$WORK/err"
    chmod 755 "$WORK/etc"
    chmod 644 "$WORK/etc/wsd.conf"
    [ "$status" != 0 ] && grep -q 'not permitted: others than root could write to it' "$WORK/err"
  }
  mkdir "$WORK/etc"
  check "a configuration that others can write is refused" foreign_configuration 666 "$WORK/etc/wsd.conf"
  check "and one whose directory they can write to" foreign_configuration 777 "$WORK/etc"
  check "but not in a directory like /tmp" sh -c "chmod 1777 $WORK/etc && wsd --config $WORK/etc/wsd.conf --check-config"
fi

# --- wsd(8), BACKUP ------------------------------------------------------------------------------------------------------------

commands() { # NAME: those of the manual, for our directory
  sed -n "/^\.\\\\\" $1\$/,/^\.EE/p" "$SRC/packaging/man/wsd.8" | sed '/^\./d; /^systemctl/d; s/\\\([-e]\)/\1/g; s/\\e/\\/g' |
    sed "s|/var/lib/wsd|$STATE|g; s|/var/backups/wsd|$WORK/backup|g; s|wsd:wsd|$(id -u):$(id -g)|"
}
run_commands() { # NAME
  commands "$1" >"$WORK/commands" && cat "$WORK/commands" && [ -s "$WORK/commands" ] && sh -e "$WORK/commands"
}
check "a store to be saved" full_store
check "backup" run_commands backup
clean
check "restore" run_commands restore
restored() { start_here && known "$WORK/before" && stop_wsd; }
check "the job is there" restored
if command -v sqlite3 >/dev/null; then
  many() { # some pages of jobs
    local i
    start_here || return 1
    for ((i = 0; i < 8; i++)); do head -c 3000 /dev/zero | tr '\0' x | wsctl submit --durable --detach --delay 1h --input - count >"$WORK/id" || return 1; done
    stop_wsd
  }
  check "more of them" many
  damage() { # the index of keys, which nothing else says
    local page
    page=$(sqlite3 "$STATE/jobs.db" "SELECT rootpage FROM sqlite_schema WHERE name = 'keys_key'") &&
      dd if=/dev/zero of="$STATE/jobs.db" bs=4096 seek=$((page - 1)) count=1 conv=notrunc 2>/dev/null
    head -c 100 /dev/urandom | dd of="$STATE/jobs.db" bs=1 seek=$(((page - 1) * 4096)) conv=notrunc 2>/dev/null
  }
  check "a page is damaged" damage
  check "salvage" run_commands salvage
  check "what could be read is there" restored
fi
