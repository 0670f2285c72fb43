#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# awake.sh: [pool] keep-awake: the kernel is asked not to halt idle CPUs while jobs follow each other closely, and no longer; however
# wsd ends. Told from /dev/cpu_dma_latency, which whoever reads it tells what all who asked want together (us).
. "$(dirname "$0")/../support/lib.sh"

DEVICE=/dev/cpu_dma_latency

asked() { [ "$(od -An -td4 -N4 $DEVICE | tr -d ' ')" = 0 ]; }
not_asked() { ! asked; }
has_request() { # PID: it holds the device
  find /proc/"$1"/fd -lname $DEVICE | grep -q .
}
told_once() { # once
  [ "$(grep -c 'idle CPUs are kept awake' "$WSD_LOG")" = 1 ]
}
has_none() { ! has_request "$1"; }

check "a bad keep-awake: file and line" bad_config '[pool]\nkeep-awake = perhaps\n' '2: .*auto, yes or no'
check "--print-config has it" sh -c 'printf "[pool]\nkeep-awake = no\n" >"$WSD_CONFIG" && wsd --config "$WSD_CONFIG" --print-config | grep -q "^keep-awake = no"'

if [ ! -w $DEVICE ]; then
  skip "asking the kernel" "no right to write $DEVICE"
elif [ "${WSD_SANITIZE:-}" = thread ]; then
  skip "asking the kernel" "under ThreadSanitizer jobs do not follow each other closely"
else
  printf '[pool]\nkeep-awake = yes\n' >"$WSD_CONFIG"
  start_wsd --workers 2 || exit 1
  check "yes: a job" expect_output 6765 wsctl submit fib 20
  check "yes: wsd may ask" has_request "$WSD_PID"
  check "nothing is asked for by the way" wait_until not_asked
  background wsctl bench --seconds 60 >"$WORK/bench"
  bench=$BACKGROUND_PID
  check "jobs that follow each other closely: it is asked" wait_until asked
  check "which is told" wait_until told_once # the kernel hears of it first
  kill "$bench"
  wait "$bench" 2>/dev/null
  check "no jobs: it is asked no more" wait_until not_asked
  background wsctl bench --seconds 60 >"$WORK/bench"
  bench=$BACKGROUND_PID
  check "jobs again: it is asked again" wait_until asked
  kill -KILL "$WSD_PID"
  check "wsd is killed: what it asked for goes with it" wait_until not_asked
  wait "$WSD_PID" "$bench" 2>/dev/null # it ends with its wsd
  check "which was told once" told_once
  WSD_PID=''

  printf '[pool]\nkeep-awake = no\n' >"$WSD_CONFIG"
  start_wsd --workers 2 || exit 1
  check "no: a job" expect_output 6765 wsctl submit fib 20
  check "no: wsd cannot even ask" has_none "$WSD_PID"
  stop_wsd

  : >"$WSD_CONFIG"
  start_wsd || exit 1
  check "auto: a job" expect_output 6765 wsctl submit fib 20
  usable=$(wsctl --json workers | grep -c '"kind":"worker"')
  if [ "$(getconf _NPROCESSORS_ONLN)" -le 4 ] && [ "$usable" -ge 2 ]; then
    check "auto, on four CPUs at most, of which it has two: wsd may ask" has_request "$WSD_PID"
  else
    check "auto, on more than four CPUs, or with one of them: wsd does not ask" has_none "$WSD_PID"
  fi
  stop_wsd
  WSD_PREFIX=(taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')")
  start_wsd || exit 1
  check "auto, with one CPU: a job" expect_output 6765 wsctl submit fib 20
  check "auto, with one CPU: wsd does not ask" has_none "$WSD_PID"
  stop_wsd
  printf '[pool]\nkeep-awake = yes\n' >"$WSD_CONFIG"
  start_wsd || exit 1
  check "yes, with one CPU: wsd may ask" has_request "$WSD_PID"
  stop_wsd
  WSD_PREFIX=()
fi

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  mkdir "$WORK/nobody"
  printf '[daemon]\nsystem = yes\n[pool]\nkeep-awake = yes\n' >"$WORK/nobody/wsd.conf"
  chown -R 65534:65534 "$WORK/nobody"
  chmod 711 "$WORK"
  export WSD_SOCKET=$WORK/nobody/wsd.sock
  background setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$WSD" --socket "$WSD_SOCKET" --config "$WORK/nobody/wsd.conf" \
    --executor "$EXECUTOR" --state-dir "$WORK/nobody/state" --plugin-dir "$PLUGINS" 2>"$WORK/nobody.log"
  nobody=$BACKGROUND_PID
  check "without the right: wsd starts" wait_until wsctl --quiet ping || cat "$WORK/nobody.log"
  check "and says what it cannot do" grep 'idle CPUs cannot be kept awake: /dev/cpu_dma_latency: .*see keep-awake in wsd.conf' "$WORK/nobody.log"
  kill "$nobody"
  wait "$nobody" 2>/dev/null
else
  skip "without the right" "needs root"
fi
