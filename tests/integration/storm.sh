#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# storm.sh: plugins that crash, hang, leak and scribble over their own process, at random and all at once, round after
# round, beside an innocent load: each of their jobs has its end, and the innocents' answers are all right.
. "$(dirname "$0")/../support/lib.sh"

LOAD=$BUILD/tests/support/clients/load
ROUNDS=120 # of each kind; with TIME_SCALE fewer
[ -z "${WSD_THOROUGH:-}" ] || ROUNDS=1000
ROUNDS=$((ROUNDS / TIME_SCALE))
SEED=${WSD_SEED:-$RANDOM}
LARGE=large # a frame larger than the stack: what a sanitizer makes of it need not be a crash
[ -z "${WSD_SANITIZE:-}" ] || LARGE=segv
cd "$WORK" || exit 1

pick() { # WORD...: one of them
  shift $((RANDOM % $#))
  echo "$1"
}

# One line in the kind's file a round: the exit code. What it said is kept where the code is none that can be.
round() { # KIND CODES COMMAND...
  local kind=$1 codes=$2 status=0
  shift 2
  "$@" >"said-$kind" 2>&1 </dev/null || status=$?
  echo "$status" >>"codes-$kind"
  [[ " $codes " == *" $status "* ]] || {
    echo "$kind: exit $status: $*"
    cat "said-$kind"
  } >>strange
}

# 70: as it wants; 125: it died of another's crash, in the same executor.
crash_round() {
  round crash "70 125" wsctl submit "crash:$(pick segv abort exit kill at-once bus illegal divide jump overflow \
    stolen deep segv-again abort-again overflow-again jump-again "$LARGE")"
}

# Until it heeds nothing apart from the others, it may die of their crash, too.
hang_round() {
  case $((RANDOM % 3)) in
    0) round hang "124 125" wsctl submit --timeout "$((RANDOM % 40 + 1))ms" spin:deaf ;;
    1) round hang "124 125" wsctl submit --timeout "$((RANDOM % 40 + 1))ms" spin:deaf-again ;;
    2) round hang "124 125 1" wsctl submit --timeout "$((RANDOM % 40 + 1))ms" spin:spin ;;
  esac
}

# The plugin crashes too, in the same executor: then it is 125, or succeeds on the next.
leak_round() {
  round leak "0 1 70 125" wsctl submit "$(pick leak:leak leak:leak-again)" "$((RANDOM % 24 + 1))"
}

# Whatever comes of it, but an end: it may seem to go well, fail with any status, crash, hang, lie.
scribble_round() {
  round scribble "$(echo {0..63}) 66 70 124 125" wsctl submit --timeout 200ms "scribble:$(pick scribble again)" "$RANDOM" "$(pick 1 10 100 1000 10000)"
}

rounds() { # KIND
  local i
  RANDOM=$((SEED + ${#1}))
  for ((i = 0; i < ROUNDS; i++)); do
    "$1_round"
  done
}

# Loads of ours, one after the other until the storm is over; each is checked answer by answer.
innocents() { # FILE COMMAND...
  local file=$1
  shift
  while [ ! -e over ]; do
    "$@" >>"$file" 2>&1 || {
      echo "innocent: exit $?: $*" >>strange
      return 1
    }
  done
}

sum() { # NAME FILE
  sed -n "s/.*\b$1 \([0-9]*\).*/\1/p" "$2" | awk '{ n += $1 } END { print n + 0 }'
}

all_right() { # FILE
  local answered
  tail -n 3 "$1"
  answered=$(sum answered "$1")
  echo "$answered answers, $(sum right "$1") right"
  [ "$answered" -gt 0 ] && [ "$(sum submitted "$1")" = "$answered" ] && [ "$(sum right "$1")" = "$answered" ] &&
    [ "$(sum lost "$1")$(sum doubled "$1")$(sum wrong "$1")" = 000 ]
}

answered() {
  [ -s innocent ] && [ -s slow ]
}

storm() {
  local pids=() kind load
  rm -f over strange codes-*
  innocents innocent "$LOAD" -p 2 -n 400 -w 16 echo &
  load=("$!")
  # these take a millisecond: some run whenever their executor dies
  innocents slow "$LOAD" -p 2 -n 100 -w 8 slow:again &
  load+=("$!")
  if [ -n "$other_user" ]; then
    innocents other as_other "$WORK/inst/load" -p 2 -n 400 -w 16 echo &
    load+=("$!")
  fi
  note_started "${load[@]}"
  wait_until answered || return 1
  for kind in crash hang leak scribble; do
    rounds "$kind" &
    pids+=("$!")
  done
  note_started "${pids[@]}"
  wait "${pids[@]}"
  touch over
  wait "${load[@]}"
  for kind in crash hang leak scribble; do
    echo "$kind: $(sort -n "codes-$kind" | uniq -c | awk '{ printf "%s times %s, ", $1, $2 }')"
  done
  [ ! -s strange ] || {
    head -n 40 strange
    return 1
  }
}

each_kind_had_its_rounds() {
  local kind
  for kind in crash hang leak scribble; do
    [ "$(wc -l <"codes-$kind")" = "$ROUNDS" ] || {
      echo "$kind: $(wc -l <"codes-$kind") rounds"
      return 1
    }
  done
  # and it was a storm
  sort codes-crash | uniq -c
  echo "$(counter executors_died) executors died"
  [ "$(grep -c 70 codes-crash)" -ge $((ROUNDS / 2)) ] && [ "$(grep -c 124 codes-hang)" -ge $((ROUNDS / 2)) ] &&
    [ "$(grep -cx 0 codes-leak)" -ge $((ROUNDS / 4)) ] && [ "$(counter executors_died)" -ge $((ROUNDS / 2)) ]
}

# What a damaged executor says at its end is no fault of ours: a plugin has leaked, or written where ld.so keeps its lists.
ends_in_order() {
  kill -TERM "$WSD_PID" && wait_for_exit "$WSD_PID" &&
    ! grep -aE 'wsd: .*Assertion|AddressSanitizer|runtime error' "$WSD_LOG" |
    grep -avE 'executor [0-9]+: .*([Oo]ut of memory|Inconsistency detected by ld.so)'
}

no_job_is_left() {
  [ "$(counter jobs_open)" = 0 ] && [ "$(counter jobs_handed_over)" = 0 ]
}

mkdir -p inst/plugins
cp "$WSD" "$EXECUTOR" "$WSCTL" "$BUILD"/client/libwsclient.so.0 "$LOAD" inst/
cp "$PLUGINS"/*.so "$TEST_PLUGINS"/{echo,slow,crash,spin,scribble}.so inst/plugins/
cp "$TEST_PLUGINS/crash.so" inst/plugins/leak.so
echo >>inst/plugins/leak.so # another file: another plugin
chmod -R go-w inst
chmod 755 . inst inst/plugins
WSD=$WORK/inst/wsd EXECUTOR=$WORK/inst/wsd-executor
export PLUGINS=$WORK/inst/plugins
as_other() {
  setpriv --reuid=1001 --regid=1001 --groups=100 --inh-caps=-all -- env LD_LIBRARY_PATH="$WORK/inst" \
    WSD_SOCKET="$WSD_SOCKET" "$@"
}
other_user=''
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  other_user=1
  printf '[daemon]\nsystem = yes\nsocket-group = %s\n' "$(getent group 100 | cut -d: -f1)" >"$WSD_CONFIG"
fi
# No quarantine: each round is to do its harm. What writes over its own process is kept apart from the first time on.
cat >>"$WSD_CONFIG" <<'CONFIG'
[limits]
quarantine-after = 1000000
cancel-grace = 20ms
[executor]
recycle-growth = 64M
[plugin scribble]
isolation = own
CONFIG
[ -n "${WSD_SANITIZE:-}" ] || sed -i 's/^\[limits\]/&\nexecutor-memory = 1G/' "$WSD_CONFIG"
chmod 644 "$WSD_CONFIG"
start_wsd --workers 4 || {
  cat "$WSD_LOG"
  exit 1
}
chmod 755 "$(dirname "$WSD_SOCKET")"
echo "seed $SEED"
check "$ROUNDS rounds each of crash, hang, leak and scribble: each job has its end" storm
check "and it was a storm" each_kind_had_its_rounds
check "the innocents' answers are all right" all_right innocent
check "and of those that ran when their executor died" all_right slow
if [ -n "$other_user" ]; then
  check "and another user's" all_right other
else
  skip "another user's answers" "not root, or no setpriv here"
fi
check "no job is left behind" wait_until no_job_is_left
check "wsd works on" expect_output 6765 wsctl submit fib 20
check "and ends in order" ends_in_order
