#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# shellcheck disable=SC2015 # `A && B || { say; return 1; }` is meant
#
# allocations.sh: wsd with its N-th allocation failing while clients go through the verbs, for each N (by strides; each one with
# --thorough), alone and with those behind it. A verb does what it does with memory, or says why not with a status that is not
# 0: never less output with 0. What was accepted ends as it should, who has no right gets none, and wsd goes on.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

SHIM=$BUILD/tests/support/shims/faults.so
STRIDE=${WSD_STRIDE:-29}
[ -z "${WSD_THOROUGH:-}" ] || STRIDE=1
if [ -n "${WSD_SANITIZE:-}" ]; then
  skip "each allocation of wsd" "a sanitizer has to be the first library of a process"
  exit 0
fi

number() { # 8 bytes
  local i n=$1
  for ((i = 0; i < 8; i++)); do
    # shellcheck disable=SC2059 # the format is made
    printf "\\x$(printf '%02x' $((n & 255)))"
    n=$((n >> 8))
  done
}
arm() { # N SPAN
  { printf '1\0\0\0\0\0\0\0' && number 0 && number 0 && number "$1" && number "$2"; } | dd of="$WORK/faults" conv=notrunc bs=40 status=none
}
seen() { od -An -t u8 -j 16 -N 8 "$WORK/faults" | tr -d ' '; }

verb() { # OUTPUT COMMAND...: this output with 0, or words and another status
  local wanted=$1 got status=0
  shift
  got=$(timeout $((20 * TIME_SCALE)) "$WSCTL" "$@" 2>"$WORK/err") || status=$?
  if [ "$status" = 124 ]; then
    echo "$*: does not end"
  elif [ "$status" = 0 ] && [ "$wanted" != '*' ] && [ "$got" != "$wanted" ]; then
    echo "$*: exits with 0 and \`$got\`"
  elif [ "$status" != 0 ] && [ "$span" = 0 ]; then
    echo "$*: exits with $status: $(cat "$WORK/err")"
  elif [ "$status" != 0 ] && [ ! -s "$WORK/err" ]; then
    echo "$*: exits with $status and no word"
  elif [ "$status" -ge 128 ] && [ "$status" != 130 ]; then
    echo "$*: exits with $status"
  else
    return 0
  fi
  return 1
}
accepted=()
detach() { # OUTPUT ARG...: its id is kept
  local id wanted=$1
  shift
  id=$(timeout $((20 * TIME_SCALE)) "$WSCTL" submit --detach "$@" 2>"$WORK/err") && accepted+=("$id $wanted")
  [ -n "$id" ] || [ -s "$WORK/err" ] || {
    echo "--detach $*: neither an id nor words"
    return 1
  }
}
verbs() {
  accepted=()
  verb 6765 submit fib 20 && verb hello submit --input "$WORK/hello" echo && verb "$BIG" submit checksum "$WORK/big" && verb $'55\n89\n144' map fib <"$WORK/items" &&
    detach 6765 fib 20 && detach 55 --durable fib 10 && detach 34 --durable --key "k$n.$span" fib 9 || return 1
  [ "${#accepted[@]}" = 0 ] || detach 21 --after "${accepted[0]%% *}" fib 8 || return 1
  verb '*' list && verb '*' --json list && verb '*' stats && verb '*' workers && verb '*' limits && verb '*' plugin list && verb '*' schedule list &&
    verb '*' schedule add "s$n.$span" --on yearly fib 7 && verb '*' schedule remove "s$n.$span" && verb "$GRAPH" run "$WORK/graph.json" &&
    verb hello submit exec echo hello && verb '*' cancel --all --state queued
}
nobody_else_is_served() {
  [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null || ! as $BOB timeout 20 "$CTL" submit fib 20 >/dev/null 2>&1 ||
    {
      echo "somebody without a right has had a job run"
      return 1
    }
}
kept() { # what was accepted is there, and ends as it should; or says why not
  local one id got status
  for one in ${accepted[@]+"${accepted[@]}"}; do
    id=${one%% *} status=0
    got=$(timeout $((20 * TIME_SCALE)) "$WSCTL" await "$id" 2>&1) || status=$?
    [ "$status" = 0 ] && [ "$got" = "${one#* }" ] && continue
    # the words may be lost with the output: there was no memory for either
    [ "$status" != 0 ] && [ "$span" != 0 ] && grep -qE 'no memory|failed with status 63|not run: it was to run after' <<<"$got" && continue
    echo "job $id, ${one#* }: exit $status: $got"
    return 1
  done
}
each() { # SPAN STRIDE
  local span=$1 step=$2 n most=1 tried=0 bad=0 was
  for ((n = 1; n <= most; n += step)); do
    was=$bad
    arm "$n" "$span"
    verbs && nobody_else_is_served || bad=$((bad + 1))
    [ "$(seen)" -le "$most" ] || most=$(seen)
    set_faults 0
    kept || bad=$((bad + 1))
    gone "$WSD_PID" && {
      echo "wsd has ended with N=$n"
      show "$WSD_LOG"
      return 1
    }
    [ "$bad" -lt 5 ] || break
    [ "$bad" = "$was" ] || echo "(N=$n, and $((span - 1)) behind it)"
    tried=$((tried + 1))
  done
  echo "$most allocations, $tried tried"
  [ "$bad" = 0 ] && [ "$tried" -gt 5 ]
}

install_for_all echo
printf hello >"$WORK/hello"
printf '10\n11\n12\n' >"$WORK/items"
head -c 300000 /dev/zero >"$WORK/big"
printf '{"nodes":[{"name":"a","plugin":"fib","args":["10"]},{"name":"b","plugin":"fib","args":["11"],"after":["a"]}]}' >"$WORK/graph.json"
BIG=$(sha256sum "$WORK/big")
printf '[daemon]\nsystem = yes\n[access]\nsubmit = root\nsee = root\n[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"
head -c 40 /dev/zero >"$WORK/faults"
WSD_PREFIX=(env "LD_PRELOAD=$SHIM" FAULTS=memory FAULTS_NTH=0 "FAULTS_FILE=$WORK/faults")
GRAPH='*'
start_wsd --workers 2 --state-dir "$WORK/state" || exit 1
WSD_PREFIX=()
chmod 755 "$(dirname "$WSD_SOCKET")"
chmod 777 "$WSD_SOCKET"
n=0 span=0
check "with memory" verbs
check "what was accepted" kept
check "each allocation alone" each 1 "$STRIDE"
check "each allocation and 7 behind it" each 8 "$STRIDE"
n=end span=0
check "all is as before" verbs
stop_wsd
