#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# shellcheck disable=SC2015,SC2016 # `A && B || { say; return 1; }` is meant; what is quoted is for the inner shell
#
# check-config.sh: what a configuration says that the machine cannot do is said by --check-config and at a reload, by key, file and
# line: what each job or the next start would fail with is an error, what has no effect a warning. A reload names each key that
# needs a start, and counts CPUs again.
. "$(dirname "$0")/../support/lib.sh"

FILE=$WORK/bad.conf

file_says() { # CODE WORDS: --check-config of $FILE
  expect_exit "$1" timeout 20 wsd --config "$FILE" --check-config >"$WORK/out" 2>"$WORK/err" || {
    cat "$WORK/err"
    return 1
  }
  cat "$WORK/err"
  [ ! -s "$WORK/out" ] && grep -qF -- "$2" "$WORK/err" && [ "$(grep -c '' "$WORK/err")" = 1 ]
}
wrong() { # TEXT WORDS: behind FILE:
  printf '%b' "$1" >"$FILE"
  file_says 64 "wsd: $FILE:$2"
}
warned() { # TEXT WORDS
  printf '%b' "$1" >"$FILE"
  file_says 0 "wsd: warning: $FILE:$2"
}
quiet() { # TEXT
  printf '%b' "$1" >"$FILE"
  wsd --config "$FILE" --check-config >"$WORK/out" 2>&1 && [ ! -s "$WORK/out" ] || {
    cat "$WORK/out"
    return 1
  }
}
long=/$(printf 'x%.0s' $(seq 107))

check "a writable directory that is not there" wrong "[sandbox]\n\nwritable = /tmp:/no/such/place\n" \
  '3: [sandbox] writable: /no/such/place: No such file or directory'
check "one that is there, none, all" quiet '[sandbox]\nwritable = /tmp:/dev/shm\nwritable = none\nwritable = /\n'
check "a group that is not there" wrong '[daemon]\nsocket-group = no-such-group\n' '2: [daemon] socket-group: there is no group no-such-group'
check "in a list of access" wrong '[access]\nsubmit = @no-such-group\n' '2: submit: @no-such-group: there is no such group'
check "in a list of a plugin" wrong '[plugin fib]\nusers = @no-such-group\n' '2: users: @no-such-group: there is no such group'
check "the path of a socket: one byte too many" wrong "[daemon]\nsocket = $long\n" \
  "2: [daemon] socket: the path has 108 bytes, and a socket's has at most 107"
check "and at the limit" quiet "[daemon]\nsocket = ${long%x}\n"
check "an executor that is not there" wrong '[daemon]\nexecutor = /no/such\n' '2: [daemon] executor: /no/such: No such file'
check "a time that never comes" wrong '[schedule s]\njob = /dev/null\non = *-02-30\n' '3: [schedule s] on = *-02-30: that time never comes'
check "one that is past" warned '[schedule s]\njob = /dev/null\non = 2001-02-03\n' '3: [schedule s] on = 2001-02-03: the last of its times is past'
check "a schedule of a plugin that is not there" warned "[plugins]\ndirectories = $PLUGINS\n[schedule s]\non = daily\njob = fibb 3\n" \
  '5: [schedule s] job: there is no plugin fibb'
check "of one that is there" quiet "[plugins]\ndirectories = $PLUGINS\n[schedule s]\non = daily\njob = fib.so 3\n[plugin fib]\nmax-run = 1s\n"
check "[plugin fib.so]" warned "[plugins]\ndirectories = $PLUGINS\n[plugin fib.so]\nmax-run = 1s\n" \
  '4: [plugin fib.so]: names of plugins have no directory and no .so: [plugin fib] is meant'
check "a plugin that no directory has" warned "[plugins]\ndirectories = $PLUGINS\n[plugin fibb]\nmax-run = 1s\n" \
  '4: [plugin fibb]: no plugin directory has a fibb.so'
check "[fleet]: a key without its certificate" warned '[fleet]\ntls-key = /dev/null\n' '2: [fleet] tls-key: a key without its certificate'
check "a file that is not there" warned '[fleet]\ncreds = /no/such\n' '2: [fleet] creds: /no/such: No such file'
getent passwd wsd-fleet >/dev/null || check "submit-as without a user of wsd-fleet" warned '[access]\nsubmit-as = nobody\n[fleet]\nrun-as = same\n' '2: [access] submit-as: there is no user wsd-fleet, so only root may act for others'
check "submit-as without run-as" warned '[access]\nsubmit-as = nobody\n[fleet]\nuser = nobody\n' '2: [access] submit-as: jobs of other machines run as the user of wsd-fleet'
check "a user of wsd-fleet that is not there" wrong '[access]\nsubmit-as = nobody\n[fleet]\nuser = no-such-user\n' '4: user: no-such-user: there is no such user'
check "with both it is well" quiet '[access]\nsubmit-as = nobody\n[fleet]\nuser = nobody\nrun-as = same\n'
check "all that is well" quiet '[fleet]\nservers = tls://a:1,nats://b\nin = no\ntls-ca = /dev/null\n'
check "a plugin directory that is not there" warned "[plugins]\ndirectories = $PLUGINS:/no/such\n" '2: [plugins] directories: /no/such: No such'

several() { # all of them, not the first
  printf '[daemon]\nsocket-group = no-such-group\n[sandbox]\nwritable = /no/such\n' >"$FILE"
  expect_exit 64 wsd --config "$FILE" --check-config 2>"$WORK/err"
  cat "$WORK/err"
  [ "$(wc -l <"$WORK/err")" = 2 ]
}
check "each fault is said" several

fifo() {
  mkfifo "$WORK/fifo.conf" && FILE=$WORK/fifo.conf file_says 64 "wsd: $WORK/fifo.conf: it is no regular file" || return 1
  for key in certificate key ca crl user-map; do
    printf '[tls]\nlisten = :0\ncertificate = /x\nkey = /x\nca = /x\nuser-map = /x\n%s = %s\n' "$key" "$WORK/fifo.conf" >"$FILE"
    file_says 64 "wsd: [tls] $key: $WORK/fifo.conf: it is no regular file" || return 1
  done
}
check "a FIFO is refused, not waited for" fifo

# Root looks with the rights of wsd.service at the standard files. In mounts of its own: a user wsd, and those files.
conf_dir=$("$WSD" --help | sed -n 's|.*instead of \(.*\)/wsd.conf and.*|\1|p')
as_the_service() {
  mkdir -p "$WORK/closed/in" && chmod 711 "$WORK" && chmod 700 "$WORK/closed" || return 1
  { grep -v '^wsd:' /etc/passwd && echo 'wsd:x:31337:31337::/:/bin/false'; } >"$WORK/passwd"
  chmod 644 "$WORK/passwd"
  conf_dir=$conf_dir unshare -m bash -c 'mount --bind "$WORK/passwd" /etc/passwd && mount -t tmpfs -o mode=755 none "${conf_dir%/*}" &&
    mkdir "$conf_dir" && printf "[sandbox]\nwritable = %s/closed/in\n" "$WORK" >"$conf_dir/wsd.conf" && "$WSD" --check-config &&
    exec "$WSD" --config "$conf_dir/wsd.conf" --check-config' 2>"$WORK/err" || {
    cat "$WORK/err"
    return 1
  }
  cat "$WORK/err"
  grep -q "^wsd: warning: $conf_dir/wsd.conf:2: .sandbox. writable: .*closed/in: Permission denied" "$WORK/err" &&
    [ "$(grep -c '' "$WORK/err")" = 1 ] # a file that is named is looked at as root
}
if [ "$(id -u)" = 0 ] && [ -d "${conf_dir%/*}" ] && [ "${conf_dir%/*}" != /etc ] && unshare -m true 2>/dev/null; then
  check "checked as the service's user" as_the_service
else
  skip "checked as the service's user" "it takes root, mounts of one's own, and a prefix that is not /usr"
fi

# --- a reload -----------------------------------------------------------------------------------------------------------

reload_with() { # TEXT: it is in force
  printf '%b' "$1" >"$WSD_CONFIG"
  reload_config
}
reload_refused() { # TEXT WORDS
  printf '%b' "$1" >"$WSD_CONFIG"
  kill -HUP "$WSD_PID" && wait_until grep -qF -- "$2" "$WSD_LOG" && wait_until grep -q 'the configuration stays as it was' "$WSD_LOG"
}
printf '[sandbox]\nwritable = /tmp:/no/such\n' >"$WSD_CONFIG"
start_wsd || exit 1
at_the_start() { # it runs, and says so; so does each job
  grep -qF "$WSD_CONFIG:2: [sandbox] writable: /no/such: No such file or directory" "$WSD_LOG" || return 1
  expect_exit 75 wsctl submit fib 5 2>"$WORK/err" || wsctl submit fib 5
  cat "$WORK/err" "$WSD_LOG"
  grep -qF '[sandbox] writable in wsd.conf: /no/such: No such file or directory' "$WORK/err" "$WSD_LOG"
}
if ! grep -q 'no Landlock' "$WSD_LOG"; then
  check "a start with a directory that is missing names it, and so does what is refused" at_the_start
else
  skip "a start with a directory that is missing" "no Landlock"
fi
stop_wsd
: >"$WSD_CONFIG"
start_wsd --plugin-dir "$TEST_PLUGINS" || exit 1
check "a reload refuses what each job would fail with" reload_refused '[sandbox]\nwritable = /no/such\n' \
  "$WSD_CONFIG:2: [sandbox] writable: /no/such: No such file or directory"
warns() {
  reload_with '[plugin fib.so]\nmax-run = 1s\n' && grep -qF "$WSD_CONFIG:2: [plugin fib.so]: names of plugins" "$WSD_LOG"
}
check "and warns of what has no effect" warns

# The keys are those that the manual marks with (start); the values are others than the defaults.
at_start() {
  cat >"$WORK/start.conf" <<END
[daemon]
socket-group = root
system = yes
[pool]
keep-awake = no
pin = yes
stack = 16M
[executor]
core-size = 1M
user-ids = no
first-user-id = 2000
cgroups = no
[sandbox]
required = no
deny = times
writable = /tmp
[domains]
trust = all
[tls]
[limits]
executor-memory = 8G
executor-tasks = 999
[domain d]
users = 4242
END
  reload_with "$(cat "$WORK/start.conf")\n" || return 1
  local section='' line key
  while read -r line; do
    case $line in
      '[domain d]') key='[domain NAME]' ;;
      '['*) section=$line && continue ;;
      users*) continue ;;
      *) key="$section ${line%% *}" ;;
    esac
    grep -qF "$key changes with the next start" "$WSD_LOG" || {
      echo "$key: not said"
      return 1
    }
  done <"$WORK/start.conf"
  [ "$(grep -c 'changes with the next start' "$WSD_LOG")" = 16 ] || {
    grep 'next start' "$WSD_LOG"
    return 1
  }
}
check "a reload names each key that needs a start" at_start
again() { # they differ from what is in force, still; and back
  reload_with '[executor]\ncgroups = no\n[limits]\nmax-jobs = 77\n[daemon]\ndrain-timeout = 7s\n' &&
    [ "$(grep -c 'cgroups changes with the next start' "$WSD_LOG")" = 2 ] && reload_with '' && [ "$(grep -c 'cgroups changes' "$WSD_LOG")" = 2 ] &&
    ! grep -q 'max-jobs changes\|drain-timeout changes' "$WSD_LOG"
}
check "as long as it differs from what is in force, and no other" again
stop_wsd

follow() {
  local all
  all=$(taskset -p $$ | sed 's/.*: //')
  reload_with '' && grep -q 'each executor has' "$WSD_LOG" && return 1
  taskset -p "$all" "$WSD_PID" >/dev/null && reload_with '' && grep -q "each executor has $(nproc) workers from now on" "$WSD_LOG" || return 1
  reload_with '' && [ "$(grep -c 'each executor has' "$WSD_LOG")" = 1 ] # once
}
if [ "$(nproc)" -gt 1 ] && command -v taskset >/dev/null; then
  : >"$WSD_CONFIG"
  WSD_PREFIX=(taskset 1)
  taskset 1 true 2>/dev/null || WSD_PREFIX=(taskset 2)
  start_wsd || exit 1
  check "the number of workers follows the CPUs at a reload" follow
  stop_wsd
else
  skip "the number of workers follows the CPUs at a reload" "one CPU, or no taskset"
fi
