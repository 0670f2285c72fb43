#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bundle.sh: brief jobs of an array travel together, and nobody can tell: each has its own answer, end, id and place in the queue, whatever
# those beside it do, and whatever is done to wsd meanwhile.
. "$(dirname "$0")/../support/lib.sh"

BUNDLE=$BUILD/tests/support/clients/bundle
DIR=$WORK/tmp/bundle
mkdir "$DIR"

one() { # WORDS CASE [FUNCTION]
  check "$1, $WORKERS workers, ${3:-again}" "$BUNDLE" "$2" "${3:-again}" "$DIR"
}

with_workers() { # N
  export WORKERS=$1
  start_wsd --workers "$1" --plugin-dir "$TEST_PLUGINS"
}

# Nothing is open, nothing is charged, and no executor has died.
counters_are_back() {
  wait_until counter_is jobs_open 0 && wait_until counter_is bytes_charged 0 &&
    wsctl --json stats | grep -q '"executors_died":0,'
}

# Maps numbers, again and again, while the command is run; each answer is looked at.
while_mapping() { # WORDS COMMAND...
  check "every answer is right, once: $1, $WORKERS workers" mapped_beside "${@:2}"
}
mapped_beside() { # COMMAND...
  local map status=0
  rm -f "$DIR/enough"
  "$BUNDLE" maps again "$DIR/enough" &
  map=$!
  note_started "$map"
  "$@" || status=$?
  touch "$DIR/enough"
  wait "$map" && [ "$status" = 0 ]
}
unhindered() { # so that there are bundles again for what comes
  local before
  before=$(bundled)
  wait_until more_bundled $((before + 1000))
}
more_bundled() { # THAN
  [ "$(bundled)" -gt "$1" ]
}
bundled() {
  wsctl --json stats | sed 's/.*"jobs_bundled":\([0-9]*\).*/\1/'
}
paused() {
  for _ in {1..12}; do
    unhindered && wsctl pause fickle:again && wsctl resume fickle:again && wsctl pause fickle && wsctl resume fickle || return 1
  done
}
limited() {
  for _ in {1..10}; do
    unhindered && wsctl limit fickle:again 1 && wsctl limit fickle 3 && wsctl limit fickle:again none && wsctl limit fickle none || return 1
  done
}
max_running() {
  for _ in {1..10}; do
    unhindered && wsctl limits max-running=1 && wsctl limits max-running=7 max-running-per-user=2 && wsctl limits max-running= max-running-per-user= || return 1
  done
}
workers_set() {
  for n in 4 1 3 2 1 "$WORKERS" 4 1 3 2 1 "$WORKERS"; do
    wsctl workers set "$n" >/dev/null || return 1
  done
}
traced() {
  for _ in {1..5}; do
    wsctl trace --start && wsctl trace --stop -q -o "$WORK/trace.json" || return 1
  done
}
reloaded() {
  for _ in {1..8}; do
    cp "$TEST_PLUGINS/fickle.so" "$DIR/fickle.so" && mv "$DIR/fickle.so" "$DIR/plugins/fickle.so" && wsctl plugin reload fickle || return 1
  done
}
looked_at() {
  for _ in {1..20}; do
    wsctl list >"$WORK/list" && wsctl --json list --state queued,running >"$WORK/list" || return 1
  done
}
took_over() { # TIMES
  [ "$(grep -c 'takes the place of executor' "$WSD_LOG")" -ge "$1" ]
}
recycled() {
  wait_until took_over 5
}
submitted() {
  wsctl --json stats | sed -n 's/.*"jobs_submitted":\([0-9]*\).*/\1/p'
}
submits() { # BEFORE
  [ "$(submitted)" -ge $(($1 + 20000)) ]
}
# What wsd has taken before it was told to end comes to its end.
drained() {
  local map before
  before=$(submitted)
  "$BUNDLE" drained again &
  map=$!
  note_started "$map"
  wait_until submits "$before" && stop_wsd && wait "$map"
}

for n in 1 2; do
  with_workers "$n" || exit 1
  one "numbers of all sizes" numbers
  one "its id, and nothing of others" inside
  one "what says more than output" odd
  one "a crash in the middle" crash
  one "an executor that is killed" killed
  one "an executor that is killed" killed once
  one "cancels" cancels
  one "what was before one that hangs" told
  one "a client that goes" leaves
  one "a failure stops the batch" stops
  one "what nobody waits for" detached
  one "a reader who does not read" unread
  one "output that is held" held
  if [ "$n" = 1 ]; then
    one "a crash in the middle" crash once
    one "asked for while one hangs" asked
  else
    one "one that waits for the one behind it" meetings
    one "slow all of a sudden" slow
  fi
  stop_wsd
done

mkdir "$DIR/plugins"
cp "$TEST_PLUGINS/fickle.so" "$DIR/plugins/"
for WORKERS in 1 2; do
  export WORKERS
  : >"$WSD_CONFIG"
  start_wsd --workers "$WORKERS" --plugin-dir "$DIR/plugins" || exit 1
  while_mapping "pause and resume" paused
  while_mapping "a limit comes and goes" limited
  while_mapping "max-running" max_running
  while_mapping "more and fewer workers" workers_set
  while_mapping "a trace begins and ends" traced
  while_mapping "the plugin is loaded anew" reloaded
  while_mapping "jobs are listed" looked_at
  check "and nothing is left, $WORKERS workers" counters_are_back
  check "wsd ends in the middle, $WORKERS workers" drained
  printf '[executor]\nrecycle-jobs = 5000\n' >"$WSD_CONFIG"
  start_wsd --workers "$WORKERS" --plugin-dir "$DIR/plugins" || exit 1
  while_mapping "executors take turns" recycled
  check "and nothing is left behind, $WORKERS workers" counters_are_back
  stop_wsd
done

# One whose executor may not open the submitter's files: they are opened by his library, and wsd has to know whose they are.
opened_elsewhere() {
  setpriv --reuid=1001 --regid=1001 --clear-groups --inh-caps=-all -- env LD_LIBRARY_PATH="$WORK/inst" "$WORK/inst/bundle" odd again "$WORK/theirs"
}
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  mkdir -p "$WORK/inst" "$WORK/theirs"
  cp "$BUNDLE" "$BUILD"/client/libwsclient.so.0 "$WORK/inst/"
  chown 1001 "$WORK/theirs"
  printf '[daemon]\nsystem = yes\n[domains]\ntrust = all\n' >"$WSD_CONFIG"
  start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
  chmod 755 "$WORK" "${WSD_SOCKET%/*}" "$WORK/inst"
  chmod 666 "$WSD_SOCKET"
  check "what says more than output, of another user than wsd's" opened_elsewhere
  stop_wsd
else
  skip "another user" "only root can be one, with setpriv"
fi
