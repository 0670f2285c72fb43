#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# cancel.sh: an order to cancel many jobs says how many jobs it ended: those of batches that end with one of theirs, those that
# wait for others, those of which some are done meanwhile; in its answer and in wsd's log. And `list` goes by age.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

N=$((5000 / TIME_SCALE))

queued() { # N
  [ "$(wsctl --json list --state queued,held | wc -l)" = "$1" ]
}
batch_of() { # N OPTION...: detached
  local n=$1
  shift
  seq "$n" | sed 's/.*/1/' | wsctl map --detach "$@" fib >/dev/null
}
cancels_all() { # N: by --dry-run, and by the order
  same "would cancel $1 jobs" "$(wsctl cancel --all --dry-run | tail -n 1)" && same "cancelled $1 jobs" "$(wsctl cancel --all)" &&
    same 'cancelled 0 jobs' "$(wsctl cancel --all)" && queued 0 &&
    wait_until counter_is jobs_open 0 # the ends of durable jobs are on disk
}

start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
wsctl pause fib

one_batch() {
  batch_of "$N" && queued "$N" && cancels_all "$N"
}
check "of a batch that ends with the first of its jobs" one_batch

several() {
  batch_of 700 && batch_of 900 --keep-going && batch_of 1500 && queued 3100 && cancels_all 3100
}
check "of several batches" several

attached() { # its client cancels, too
  seq "$N" | sed 's/.*/1/' | wsctl map -j "$N" fib >/dev/null 2>&1 &
  local pid=$!
  note_started "$pid"
  wait_until queued "$N" && cancels_all "$N" && expect_exit 130 wait "$pid"
}
check "of a batch with its client" attached

chain() {
  local id i
  id=$(wsctl submit --detach --durable fib 1) || return 1
  for i in $(seq 30); do
    id=$(wsctl submit --detach --durable --after "$id" fib 1) || return 1
    wsctl submit --detach --after "$id" fib 1 >/dev/null || return 1
  done
  queued 61 && cancels_all 61
}
check "of jobs that wait for each other" chain

limited() {
  batch_of 2000 --keep-going && same 2000 "$(wsctl --json list --state queued | wc -l)" &&
    wsctl --json list --state queued -n 700 >"$WORK/newest" && wsctl --json list --state queued | tail -n 700 | cut -d, -f1 >"$WORK/tail" &&
    same "$(cat "$WORK/tail")" "$(cut -d, -f1 "$WORK/newest")" && cancels_all 2000
}
check "the newest are those that came last, within a batch too" limited

in_order() { # what a batch is given runs in this order, and is listed in it
  seq 1000 | wsctl map --detach fib >/dev/null && wsctl --json list --state queued | python3 -c '
import json, sys
ids = [json.loads(line)["id"] for line in sys.stdin]
keys = [(int(i[:16], 16) >> 6, int.from_bytes(bytes.fromhex(i[16:]), "little")) for i in ids]
assert len(ids) == 1000 and keys == sorted(keys)' && cancels_all 1000
}
check "list goes by age within a batch" in_order

twice() { # a job that does not heed its cancel is cancelled by the first order
  local id
  id=$(wsctl submit --detach spin) && wait_until eval 'wsctl --json status '"$id"' | grep -q running' || return 1
  same 'cancelled 1 job' "$(wsctl cancel --all)" && same 'cancelled 0 jobs' "$(wsctl cancel --all)"
  expect_exit 130 wsctl await "$id"
}
check "an order does not count what another has cancelled" twice

wsctl resume fib
by_the_answer() { # WORDS WANTED ID: what there is to cancel is found by what wsd answers, whatever its words are
  background "$SRC/tests/support/shims/relay.py" words "$WORK/relay" "$WSD_SOCKET" "$1" "${1//[a-z]/x}"
  wait_until test -S "$WORK/relay" || return 1
  local status=0
  wsctl --socket "$WORK/relay" cancel "$3" >"$WORK/out" 2>&1 || status=$?
  wait_for_exit "$BACKGROUND_PID"
  rm "$WORK/relay"
  same "$2" "$status $(sed "s/^wsctl: $3: //" "$WORK/out")"
}
ended=$(wsctl submit --detach fib 1) && wsctl await "$ended" >/dev/null
unknown=${ended//[0-9a-f]/1}
ended_batch=$(wsctl map --detach fib ::: 1 2) && wsctl await "$ended_batch" >/dev/null
wsctl pause fib
batch=$(wsctl map --detach fib ::: 1 2)
check "a batch by its id, in whatever words wsd says that it is no job" by_the_answer 'no such job' '0 ' "$batch"
check "none of them" by_the_answer 'no such' '66 no such job or batch' "$unknown"
check "a job that has ended" by_the_answer 'it has ended' '66 it has ended: there is nothing to cancel' "$ended"
check "a batch that has ended" by_the_answer 'it has ended' '66 it has ended: there is nothing to cancel' "$ended_batch"
wsctl resume fib

# What runs meanwhile is done or cancelled, and the order counts exactly the latter: a job whose answer was there before its flag was
# raised is done, any other is cancelled, whatever it returns.
racing() {
  local before after said finished
  before=$(counter jobs_cancelled) finished=$(counter jobs_succeeded)
  seq 1000 | sed 's/.*/25/' | wsctl map --detach --keep-going fib >/dev/null && said=$(wsctl cancel --all) && said=${said#cancelled } && said=${said%% *} && queued 0 || return 1
  wait_until counter_is jobs_open 0 || return 1
  after=$(counter jobs_cancelled) finished=$(($(counter jobs_succeeded) - finished))
  echo "said $said, cancelled $((after - before)), done $finished"
  [ "$said" -gt 0 ] && [ "$said" = $((after - before)) ] && [ $((said + finished)) = 1000 ]
}
races() { # the order and an answer meet in one round of some
  local i
  for ((i = 0; i < 10; i++)); do
    racing || return 1
  done
}
check "of jobs that run meanwhile" races
stop_wsd

if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
  skip "the log of an administrator's cancel" "only root can act as others"
  exit 0
fi
install_for_all echo
printf '[daemon]\nsystem = yes\n' >"$WSD_CONFIG"
start_wsd --workers 1 || exit 1
chmod 755 "$(dirname "$WSD_SOCKET")"
chmod 666 "$WSD_SOCKET"
audited() {
  wsctl pause fib && seq 3000 | as "$ALICE" "$CTL" map --detach fib >/dev/null && queued 3000 && cancels_all 3000 &&
    grep -q ' 3000 jobs of other users: cancelled by user 0' "$WSD_LOG"
}
check "the log of an administrator's cancel has the number" audited
stop_wsd
