#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# limits.sh: `wsctl limits`: limits that are moved while wsd runs, of all users and of one; who may, what is logged, and that a reload
# takes all back.
. "$(dirname "$0")/../support/lib.sh"

me=$(id -u)
is() { # KEY VALUE [UID]
  wsctl --json limits | grep -qF "{\"key\":\"$1\",\"value\":\"$2\"${3:+,\"uid\":$3}"
}

printf '[limits]\nmax-jobs-per-user = 40\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1

shown() { # each key that a reload applies is there, once, as --print-config has it
  wsctl limits | tee "$WORK/out" | grep -qE '^max-jobs-per-user +40 \* +-$' && grep -qE '^max-rate +- \*' "$WORK/out" || return 1
  [ "$(wsctl --json limits | sort | uniq -d)" = '' ] && [ "$(wsctl -q limits | wc -l)" = "$(($(wc -l <"$WORK/out") - 1))" ] || return 1
  wsd --print-config --config "$WSD_CONFIG" | sed -n '/^\[limits\]/,/^\[/{s/^\(# \)\?\([a-z-]*\) = .*/\2/p}' >"$WORK/keys"
  while read -r key; do # those of executors come with the next start
    grep -q "^$key " "$WORK/out" || [[ $key = executor-memory || $key = executor-tasks ]] || { echo "$key is not shown" && return 1; }
  done <"$WORK/keys"
}
check "all limits are shown" shown

fits() { # N: so many jobs of ours may be open, and no more
  local i ok=0
  wsctl pause echo || return 1
  for ((i = 0; i < $1 + 1; i++)); do
    wsctl submit --detach echo:echo x >>"$WORK/ids" 2>"$WORK/err" || break
    ok=$((ok + 1))
  done
  wsctl resume echo && wsctl cancel --plugin echo >/dev/null
  wait_until no_jobs && echo "$ok" && [ "$ok" = "$1" ] && grep -q max-jobs-per-user "$WORK/err"
}
no_jobs() {
  wsctl --json stats | grep -q '"jobs_open":0[,}]'
}
everybody() {
  wsctl limits max-jobs-per-user=3 max-run=1h && is max-jobs-per-user 3 && is max-run 3600000ms && fits 3 &&
    logged "max-jobs-per-user = 3 for all users: set by user $me" && wsctl limits max-jobs-per-user=5 && fits 5
}
check "one of all users is moved, holds at once, and is logged" everybody

one() {
  wsctl limits --user "$me" max-jobs-per-user=2 && fits 2 && is max-jobs-per-user 5 && is max-jobs-per-user 2 "$me" &&
    logged "max-jobs-per-user = 2 for user $me: set by user $me" &&
    wsctl limits --user "$me" | tail -n 1 | grep -qE "^max-jobs-per-user +2 $(id -un) +$(id -un)\$" || return 1
  wsctl limits --user 12345 max-jobs-per-user=1 && fits 2 && is max-jobs-per-user 1 12345 && # another's does not count for us
    wsctl limits --user "$(id -un)" max-jobs-per-user= && fits 5 && ! is max-jobs-per-user 2 "$me" &&
    logged "max-jobs-per-user = as the configuration says for user $me"
}
check "one of a single user stands above it, until it is taken back" one

kinds() { # each kind that counts by user
  # however slow this machine is, of 40 at once most are refused
  wsctl limits --user "$me" max-rate-per-user=1 && expect_exit 75 wsctl map -k -j 40 echo:echo ::: {1..40} 2>"$WORK/err" &&
    grep -q max-rate-per-user "$WORK/err" && wsctl limits --user "$me" max-rate-per-user= && wsctl submit echo:echo x || return 1
  head -c 4000 /dev/zero >"$WORK/bytes"
  wsctl limits --user "$me" max-bytes-per-user=1K && expect_exit 75 wsctl submit --input "$WORK/bytes" echo:echo x 2>"$WORK/err" &&
    grep -q max-bytes-per-user "$WORK/err" && wsctl limits --user "$me" max-bytes-per-user= &&
    wsctl submit --input "$WORK/bytes" echo:echo x || return 1
  wsctl limits max-bytes=1K && expect_exit 75 wsctl submit --input "$WORK/bytes" echo:echo x 2>"$WORK/err" && grep -q '(max-bytes in wsd.conf)' "$WORK/err" &&
    expect_exit 64 wsctl limits --user "$me" max-bytes=1K && expect_exit 64 wsctl limits --user "$me" max-running=1 &&
    logged "max-bytes = 1K for all users: set by user $me" && wsctl limits max-bytes= && wsctl submit --input "$WORK/bytes" echo:echo x || return 1
  wsctl limits --user "$me" max-schedules-per-user=1 && wsctl schedule add a --on yearly echo:echo &&
    expect_exit 75 wsctl schedule add b --on yearly echo:echo &&
    wsctl limits --user "$me" max-schedules-per-user= && wsctl schedule add b --on yearly echo:echo && wsctl schedule remove a &&
    wsctl schedule remove b
} >/dev/null
check "rates, bytes and schedules, too" kinds

running() { # how many at most
  local most=0 n
  # shellcheck disable=SC2046
  background wsctl map --jobs 8 sleep:sleep ::: $(yes 20 | head -n 12)
  while kill -0 "$BACKGROUND_PID" 2>/dev/null; do
    n=$(wsctl --json limit | sed -n '1s/.*"running":\([0-9]*\).*/\1/p')
    [ "${n:-0}" -le "$most" ] || most=$n
  done
  wait "$BACKGROUND_PID" && echo "at most $most" && [ "$most" -le "$1" ]
}
at_once() {
  wsctl limits --user "$me" max-running-per-user=1 && running 1 && wsctl limits --user "$me" max-running-per-user= &&
    wsctl limits max-running=1 && is max-running 1 && logged "max-running = 1 for all users: set by user $me" && running 1 && wsctl limits max-running=
}
check "how many run at once" at_once

wrong() {
  expect_exit 64 wsctl limits nonsense=1 2>"$WORK/err" && grep -q 'no limit that can be moved' "$WORK/err" &&
    expect_exit 64 wsctl limits workers=1 && expect_exit 64 wsctl limits max-jobs && expect_exit 64 wsctl limits =3 &&
    expect_exit 64 wsctl limits max-jobs=0 && expect_exit 64 wsctl limits max-run=soon && expect_exit 64 wsctl limits max-bytes-per-user=1X &&
    expect_exit 64 wsctl limits --user "$me" max-jobs=3 2>"$WORK/err" && grep -q 'of one user; there are: max-jobs-per-user' "$WORK/err" &&
    expect_exit 64 wsctl limits --user "$me" max-connections-per-user=3 &&
    expect_exit 66 wsctl limits --user no-such-user max-jobs-per-user=3 &&
    expect_exit 64 wsctl limits max-jobs=7 nonsense=1 && is max-jobs 7 && # one after the other
    wsctl limits max-jobs=
} 2>/dev/null
check "what cannot be moved, and wrong values: 64, with what is wanted" wrong

again() {
  wsctl limits max-jobs-per-user=3 frame-timeout=20s && wsctl limits --user "$me" max-jobs-per-user=2 && reload_config && fits 40 &&
    is max-jobs-per-user 40 && is frame-timeout 30000ms && ! wsctl --json limits | grep -qE '"(by|uid)"' &&
    logged "as the configuration says again"
}
check "a reload takes all back" again

most() { # MOVED_MAX: below, at and above
  local uid all=(max-{jobs,rate,running,schedules,bytes}-per-user=1)
  for ((uid = 20000; uid < 20204; uid++)); do wsctl limits --user "$uid" "${all[@]}" || return 1; done
  wsctl limits --user 29999 "${all[@]:0:4}" && expect_exit 75 wsctl limits --user 30000 max-jobs-per-user=1 2>"$WORK/err" &&
    grep -q '1024 limits are moved already' "$WORK/err" && wsctl limits --user 20000 max-jobs-per-user=2 &&
    wsctl limits --user 20000 max-jobs-per-user= && wsctl limits --user 30000 max-jobs-per-user=1
}
check "how many may be moved" most
stop_wsd

if [ "$(id -u)" = 0 ]; then
  others() { # everybody sees what holds for all and for himself; nobody else moves anything
    chmod 711 "$WORK" "$WORK/wsd-2" && chmod 666 "$WSD_SOCKET" && wsctl limits --user 4242 max-jobs-per-user=1 &&
      wsctl limits --user 4243 max-jobs-per-user=1 || return 1
    setpriv --reuid 4242 --regid 4242 --clear-groups "$WORK/bin/wsctl" --json limits >"$WORK/out" && grep -q '"uid":4242' "$WORK/out" &&
      ! grep -q '"uid":4243' "$WORK/out" && grep -q '"key":"max-jobs",' "$WORK/out" &&
      expect_exit 77 setpriv --reuid 4242 --regid 4242 --clear-groups "$WORK/bin/wsctl" limits max-jobs=1 &&
      expect_exit 77 setpriv --reuid 4242 --regid 4242 --clear-groups "$WORK/bin/wsctl" limits --user 4242 max-jobs-per-user=
  }
  printf '[daemon]\nsystem = yes\n' >"$WSD_CONFIG"
  start_wsd && check "who sees and who may" others && stop_wsd
else
  skip "who sees and who may" "needs root"
fi
