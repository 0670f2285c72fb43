#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# shellcheck disable=SC2034 # start_wsd reads WSD_PREFIX and EXECUTOR
#
# each-fault.sh: the N-th allocation in one verb fails, alone and with some behind it: of wsd (support/clients/armed.py), of wsctl
# (support/shims/each-fault.c), of wsd-executor and of wsd-spawn (support/shims/faulty.c). --thorough: each N. allocations.sh has a row of verbs, and rights.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

[ -z "${WSD_SANITIZE:-}" ] || {
  skip "each fault" "a sanitizer has to be the first library of a process"
  exit 0
}
SHIM=$BUILD/tests/support/shims/faults.so
RUNS=10
[ -z "${WSD_THOROUGH:-}" ] || RUNS=100000

head -c 40 /dev/zero >"$WORK/faults"
printf '[plugin exec]\nenabled = yes\n[limits]\nkeep-results = 1h\n' >"$WSD_CONFIG"
WSD_PREFIX=(env "LD_PRELOAD=$SHIM" FAULTS=memory FAULTS_NTH=0 "FAULTS_FILE=$WORK/faults")
start_wsd --workers 2 || exit 1
WSD_PREFIX=()

armed() { # SCENARIO...
  WSD_LOG=$WSD_LOG "$SRC/tests/support/clients/armed.py" "$WORK/faults" "$RUNS" "$WSCTL" "$WSD_PID" "$@"
}
for scenario in submit 'submit, a new executor' 'input and output' map detached durable 'tag and retries' after batch graph exec cancel \
  schedule 'list, status, plugins' reload; do
  check "wsd: $scenario" armed "$scenario"
done

client() { # WSCTL-ARGUMENT...
  FAULTS=memory "$BUILD/tests/support/shims/each-fault" --runs $((RUNS * 6)) "$SHIM" "$WSCTL" "$@"
}
printf 'b\na\n' >"$WORK/text"
printf '{"nodes":[{"name":"a","plugin":"fib","args":["20"]},{"name":"b","plugin":"fib","args":["10"],"after":["a"]}]}' >"$WORK/one.json"
check "wsctl submit" client submit fib 20
check "wsctl submit --input" client submit --input "$WORK/text" sort
check "wsctl map" client map fib ::: 1 2 3
check "wsctl run" client run "$WORK/one.json"
check "wsctl list" client list
check "wsctl plugin list" client plugin list
# Each key that names something of the machine, and a warning of each sort.
CONFIGURATION='[daemon]
socket-group = root
workers = 2
[plugins]
directories = %s:/no/such/place
[sandbox]
writable = /tmp:/dev/shm
deny = times
[access]
submit = root @root
administer = root
[domains]
trust = user
[domain d]
users = root
cpu-weight = 400
[tag t]
max-running = 2
[plugin fib]
max-run = 1h
users = @root
[plugin fibb]
max-running = 1
[plugin fib.so]
enabled = yes
[schedule a]
on = daily
job = fib 20
[schedule b]
on = 2001-02-03 Europe/Berlin
job = fibb "two words" 3
'
configuration() { # EACH-FAULT-OPTION... WSD-OPTION FILE
  FAULTS=memory "$BUILD/tests/support/shims/each-fault" --runs $((RUNS * 10)) "${@:1:$#-2}" "$SHIM" "$WSD" "${@: -2:1}" --config "${@: -1}"
}
fails_never_with_0() { # TEXT
  printf '%b' "$1" >"$WORK/wrong.conf"
  configuration --exit 64 --check-config "$WORK/wrong.conf"
}
# shellcheck disable=SC2059 # the format is made
printf "$CONFIGURATION" "$PLUGINS" >"$WORK/all.conf"
check "wsd --print-config" configuration --words --print-config "$WORK/all.conf"
check "wsd --check-config" configuration --words --check-config "$WORK/all.conf"
for fault in '[sandbox]\nwritable = /tmp:/no/such\n' '[daemon]\nsocket-group = no-such-group\n' '[daemon]\nexecutor = /no/such\n' \
  '[access]\nsee = @no-such-group\n' '[schedule c]\non = *-02-30\njob = fib 1\n' '[tls]\nlisten = :0\ncertificate = /x\nkey = /x\nca = /x\nuser-map = /x\n'; do
  check "wsd --check-config: $fault" fails_never_with_0 "$fault"
done
check "stop" stop_wsd

head -c 40 /dev/zero >"$WORK/faults"
WSD_PREFIX=(env "MALLOC_LD_PRELOAD=$SHIM" MALLOC_FAULTS=memory "MALLOC_FAULTS_FILE=$WORK/faults")
REAL_EXECUTOR=$EXECUTOR
EXECUTOR=$BUILD/tests/support/shims/faulty
# libseccomp's seccomp_load() may turn for ever where an allocation of its own has failed: wsd replaces such an executor
printf '[plugin exec]\nenabled = yes\n[limits]\nexecutor-answer = %ss\n' $((5 * TIME_SCALE)) >"$WSD_CONFIG"
start_wsd --workers 2 || exit 1
for scenario in submit 'submit, a new executor' 'input and output' map detached durable batch graph exec; do
  check "wsd-executor: $scenario" armed "$scenario"
done
check "stop" stop_wsd

# wsd-spawn allocates nothing, and this holds it to that; its other calls fail, or are made in part.
if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
  skip "wsd-spawn" "only root can act as others"
  exit 0
fi
EXECUTOR=$REAL_EXECUTOR
install_for_all echo
printf '[daemon]\nsystem = yes\n[limits]\nexecutor-answer = %ss\n' $((5 * TIME_SCALE)) >"$WSD_CONFIG"
SPAWNER=$BUILD/tests/support/shims/faulty-spawn
printf '#!/bin/bash\nexec setpriv --reuid=%s --regid=%s --clear-groups --inh-caps=-all -- %s "$@"\n' $ALICE $ALICE "$CTL" >"$WORK/inst/as-alice"
chmod 755 "$WORK/inst/as-alice"
helper() { # KINDS SCENARIO
  local status=0
  "$SRC/tests/support/clients/armed.py" "$WORK/faults" "$RUNS" "$WORK/inst/as-alice" "$WSD_PID" "$2" >"$WORK/said" || status=$?
  cat "$WORK/said"
  [ "$status" = 0 ] && { [ "$1" != memory ] || grep -q ': 0 calls, ' "$WORK/said"; }
}
for kinds in memory descriptors,spawn,short; do
  head -c 40 /dev/zero >"$WORK/faults"
  WSD_PREFIX=(env "MALLOC_LD_PRELOAD=$SHIM" "MALLOC_FAULTS=$kinds" "MALLOC_FAULTS_FILE=$WORK/faults" MALLOC_FAULTS_ALONE=1)
  start_wsd --workers 2 || exit 1
  WSD_PREFIX=()
  chmod 755 "$(dirname "$WSD_SOCKET")"
  chmod 666 "$WSD_SOCKET"
  for scenario in 'a new executor of wsd-spawn' 'a new wsd-spawn'; do
    check "wsd-spawn, $kinds: $scenario" helper "$kinds" "$scenario"
  done
  check "stop" stop_wsd
done
