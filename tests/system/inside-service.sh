#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# inside-service.sh: runs inside the box that service.sh boots. Starts wsd as an administrator would and looks at what
# systemctl, journalctl and users see.
SRC=/box BUILD=/box
WSD=$PREFIX/sbin/wsd WSCTL=$PREFIX/bin/wsctl EXECUTOR=$PREFIX/libexec/wsd-executor
. "$(dirname "$0")/../support/lib.sh"
set +o pipefail # grep -q ends before journalctl does
chmod 755 "$WORK"

units=$PREFIX/lib/systemd/system
etc=/etc/wsd
[ "$PREFIX" = /usr ] || etc=$PREFIX/etc/wsd

show_property() { # PROPERTY [UNIT]
  systemctl show --value -p "$1" "${2:-wsd.service}"
}
is() { # PROPERTY VALUE [UNIT]
  local value
  value=$(show_property "$1" "${3:-wsd.service}")
  [ "$value" = "$2" ] || {
    echo "$1 is \`$value\`, not \`$2\`"
    return 1
  }
}
main_pid() {
  show_property MainPID
}
as() { # USER COMMAND...: with that user's groups
  local user=$1
  shift
  runuser -u "$user" -- env HOME="/home/$user" "$@"
}
said() { # PRIORITY PATTERN: wsd itself has written such a line to the journal
  journalctl --sync
  journalctl -u wsd.service -o json --no-pager | grep -F '"_TRANSPORT":"journal"' | grep -F "\"PRIORITY\":\"$1\"" |
    grep -qE "\"MESSAGE\":\"[^\"]*$2"
}

# --- installed ---------------------------------------------------------------------------------------------------------

ldconfig
check "sysusers makes the user" systemd-sysusers
check "tmpfiles makes the directory" systemd-tmpfiles --create
check "the user is there" id wsd
systemctl daemon-reload
for unit in wsd.socket wsd.service; do
  check "systemd finds no fault with $unit" systemd-analyze verify --man=no "$units/$unit"
done
for user in alice bob mallory; do
  useradd -m -s /bin/bash "$user"
  chmod 700 "/home/$user"
done
usermod -aG wsd alice
usermod -aG wsd bob

# --- socket activation ---------------------------------------------------------------------------------------------------

check "wsd.socket starts" systemctl start wsd.socket
check "the socket is for root and the group" expect_output "660 root wsd" stat -c '%a %U %G' /run/wsd/wsd.sock
check "its directory is root's" expect_output "755 root root" stat -c '%a %U %G' /run/wsd
check "the service is not running yet" is ActiveState inactive
check "the first submit starts it" expect_output 6765 wsctl submit fib 20
check "now it is running" is ActiveState active
check "it says that it is ready" is StatusText ready
status_words() {
  systemctl status wsd.service --no-pager | tee /dev/stderr | grep -F 'Status: "ready"'
}
check "systemctl status shows that" status_words
runs_as() { # USER
  [ "$(ps -o user= -p "$(main_pid)")" = "$1" ] &&
    [ "$(ps -o user= --ppid "$(main_pid)" | sort -u)" = "$1" ]
}
check "wsd and its executors run as wsd" runs_as wsd
check "the journal has its first line, as info" said 6 'is ready at'
log_is_quiet() {
  ! journalctl -u wsd.service -o json --no-pager | grep -F '"_TRANSPORT":"stdout"'
}
check "nothing of it comes by stderr" log_is_quiet

# --- the sandbox -----------------------------------------------------------------------------------------------------------

kernel_says() { # FIELD VALUE
  local value
  value=$(sed -n "s/^$1:[[:space:]]*//p" "/proc/$(main_pid)/status")
  [ "$value" = "$2" ] || {
    echo "$1 is $value, not $2"
    return 1
  }
}
check "no new privileges" kernel_says NoNewPrivs 1
check "a system call filter" kernel_says Seccomp 2
check "no capabilities" kernel_says CapBnd 0000000000000000
executors_say() { # FIELD VALUE
  local pid value
  pid=$(pgrep -P "$(main_pid)" -n)
  value=$(sed -n "s/^$1:[[:space:]]*//p" "/proc/$pid/status")
  [ "$value" = "$2" ] || {
    echo "$1 is $value, not $2"
    return 1
  }
}
check "its executors have no capabilities" executors_say CapPrm 0000000000000000
filters() { # PID
  sed -n 's/^Seccomp_filters:[[:space:]]*//p' "/proc/$1/status"
}
one_more_filter() {
  [ "$(filters "$(pgrep -P "$(main_pid)" -n)")" = $(($(filters "$(main_pid)") + 1)) ]
}
check "and a filter of their own above wsd's" one_more_filter
confined_in_full() {
  ! journalctl -u wsd.service --no-pager | grep -E 'not confined|no Landlock'
}
check "and nothing of their sandbox is missing" confined_in_full
sees_no_home() {
  [ -z "$(ls -A "/proc/$(main_pid)/root/home")" ]
}
check "sees no home directory" sees_no_home
own_tmp() {
  : >/tmp/of-the-machine
  [ ! -e "/proc/$(main_pid)/root/tmp/of-the-machine" ]
}
check "has a /tmp of its own" own_tmp
read_only() {
  local where wrong=0
  for where in /usr /etc; do
    if nsenter -t "$(main_pid)" -m touch "$where/x" 2>/dev/null; then
      echo "$where can be written"
      wrong=1
    fi
  done
  return "$wrong"
}
check "can write neither /usr nor /etc" read_only
# so that it cannot put another socket in the place of its own
check "nor beside the socket" expect_exit 1 nsenter -t "$(main_pid)" -m setpriv --reuid wsd --regid wsd --clear-groups \
  touch /run/wsd/x
writes_state() {
  nsenter -t "$(main_pid)" -m sh -c 'touch /var/lib/wsd/x && rm /var/lib/wsd/x'
}
check "can write its state" writes_state
few_devices() {
  [ ! -e "/proc/$(main_pid)/root/dev/tty1" ] && [ -e "/proc/$(main_pid)/root/dev/null" ]
}
check "sees no device but the plain ones" few_devices
echo "  $(systemd-analyze security wsd.service --no-pager 2>/dev/null | tail -n 1)"

# --- users -------------------------------------------------------------------------------------------------------------------

seq 1 100000 >/home/alice/numbers
chmod 600 /home/alice/numbers
chown alice: /home/alice/numbers
check "a user in the group may submit" expect_output 6765 as alice wsctl submit fib 20
check "one outside may not" expect_exit 77 as mallory wsctl submit fib 20
own_files() {
  (cd /home/alice && expect_output "$(sha256sum numbers)" as alice wsctl submit checksum numbers)
}
check "a user's private file, which wsd cannot see, by a relative path" own_files
not_his() {
  local out status=0
  out=$(as bob wsctl submit checksum /home/alice/numbers) || status=$?
  [ "$status" != 0 ] && [ -z "$out" ]
}
check "not for another user" not_his
each_plugin() {
  local packed=$WORK/packed
  as alice wsctl submit --input /home/alice/numbers compress >"$packed" &&
    wsctl submit --input "$packed" decompress | cmp - /home/alice/numbers &&
    [ "$(as alice wsctl submit --input /home/alice/numbers count | awk '{ print $1 }')" = 100000 ] &&
    [ "$(as alice wsctl submit --input /home/alice/numbers search '^9{5}$' | cut -d : -f 2)" = 99999 ] &&
    as alice wsctl submit --input /home/alice/numbers sort | cmp - <(LC_ALL=C sort /home/alice/numbers) &&
    [ "$(as alice wsctl submit nqueens 8)" = 92 ]
}
check "the plugins work in the sandbox" each_plugin
check "exec is off" expect_exit 77 as alice wsctl submit exec id

# --- reload --------------------------------------------------------------------------------------------------------------------

mkdir -p "$etc"
pid=$(main_pid)
printf '[daemon]\nlog-level = debug\n' >"$etc/wsd.conf"
check "reload" systemctl reload wsd.service
check "the journal tells of it" wait_until said 6 'configuration was read again'
printf '[daemon]\nno-such-key = 1\n' >"$etc/wsd.conf"
check "reload with a bad file" systemctl reload wsd.service
check "the journal names file and line, as an error" wait_until said 3 'wsd.conf:2:'
check "it runs on" expect_output 6765 wsctl submit fib 20
check "the same process" expect_output "$pid" main_pid
printf '[daemon]\ndrain-timeout = 60s\n' >"$etc/wsd.conf"
check "reload with a good one again" systemctl reload wsd.service

# --- the journal ---------------------------------------------------------------------------------------------------------------

fields() { # NAME=VALUE...: some line of wsd has all of them, and none that says where in its source it was written
  local lines pair
  journalctl --sync
  lines=$(journalctl -u wsd.service -o json --no-pager "$1")
  for pair in "$@"; do
    lines=$(grep -F "\"${pair%%=*}\":\"${pair#*=}\"" <<<"$lines") || return 1
  done
  ! grep -q '"CODE_' <<<"$lines"
}
job_fields() {
  local id alice
  alice=$(id -u alice)
  id=$(as alice wsctl submit --detach crash:segv a-Secret-argument) || return 1
  expect_exit 70 as alice wsctl await "$id" || return 1
  wait_until fields "JOB_ID=$id" PLUGIN=crash FUNCTION=segv "USER=$alice" MESSAGE_ID=25d4237c7dfe437fb80a303a58e44770 &&
    ! journalctl -u wsd.service -o json --no-pager | grep -q a-Secret-argument
}
check "a crash: id of the job, plugin, function, user; and not its arguments" job_fields
job_says() {
  local id
  id=$(as alice wsctl submit --detach echo:status 0) && as alice wsctl await "$id" &&
    wait_until fields "JOB_ID=$id" PLUGIN=echo "MESSAGE=ends with 0" MESSAGE_ID=60bb89eba2f749aa970f2c6a26a269c8
}
check "what a job says, with its id" job_says
administrator() {
  wsctl pause fib && wsctl resume fib &&
    wait_until fields PLUGIN=fib USER=0 MESSAGE_ID=03a8d712fa754f80b1f2442d6f1a56aa "MESSAGE=fib: paused by user 0"
}
check "what an administrator did" administrator
explained() {
  local catalog=$PREFIX/lib/systemd/catalog/wsd.catalog
  [ "$PREFIX" = /usr ] || { mkdir -p /etc/systemd/catalog; ln -sf "$catalog" /etc/systemd/catalog/; }
  journalctl --update-catalog || return 1
  journalctl -u wsd.service -x --no-pager MESSAGE_ID=25d4237c7dfe437fb80a303a58e44770 | tee /dev/stderr |
    grep -q 'It is a defect of the plugin: .wsctl status [0-9a-f]\{32\}. has the backtrace too' &&
    [ "$(journalctl --dump-catalog 2>/dev/null | grep -c '^Defined-By: wsd$')" = 12 ]
}
check "journalctl -x explains it" explained
refused_configuration() {
  fields MESSAGE_ID=394344e63eea457eb278af3225e993df PRIORITY=3
}
check "the configuration that was refused above" refused_configuration

# --- stop under load -----------------------------------------------------------------------------------------------------------

answered=$WORK/answered
mkdir -m 777 "$answered"
n_clients=24
load() {
  local i
  clients=()
  for ((i = 0; i < n_clients; i++)); do
    as alice wsctl submit fib 30 >"$answered/$i" 2>"$answered/$i.err" &
    clients+=($!)
  done
}
accepted() { # as many as that, ended or not
  [ "$(wsctl --json list 2>/dev/null | grep -c fib)" -ge "$1" ]
}
load
wait_until -t 20 accepted 6
check "stop under load" systemctl stop wsd.service
check "it exited 0" is ExecMainStatus 0
check "as a success" is Result success
every_client_answered() {
  local i status n=0 refused=0
  for ((i = 0; i < n_clients; i++)); do
    status=0
    wait "${clients[i]}" || status=$?
    if [ "$status" = 0 ] && [ "$(cat "$answered/$i")" = 832040 ]; then
      n=$((n + 1))
    elif [ "$status" = 75 ] || [ "$status" = 69 ]; then
      refused=$((refused + 1)) # came too late, and was told so
    else
      echo "client $i: exit $status: $(cat "$answered/$i" "$answered/$i.err")"
      return 1
    fi
  done
  echo "$n answered, $refused refused"
  [ "$n" -ge 6 ]
}
# in this shell, whose children they are
if every_client_answered >"$WORK/said"; then ok "every client got its answer or a refusal"; else
  fail "every client got its answer or a refusal" "$(cat "$WORK/said")"
fi
check "the socket still starts it" expect_output 6765 wsctl submit fib 20

# --- restart, crash ------------------------------------------------------------------------------------------------------------

pid=$(main_pid)
check "restart" systemctl restart wsd.service
another_pid() {
  local now
  now=$(main_pid)
  [ "$now" != 0 ] && [ "$now" != "$pid" ] && is ActiveState active
}
check "it is another process" another_pid
check "that works" expect_output 6765 wsctl submit fib 20
pid=$(main_pid)
kill -KILL "$pid"
check "after a kill -9 it is started again" wait_until another_pid
check "and works" expect_output 6765 wsctl submit fib 20
pid=$(main_pid)
pkill -KILL -P "$pid"
check "after a kill -9 of its executors, too" expect_output 6765 wsctl submit fib 20
check "by the same wsd" expect_output "$pid" main_pid

# --- watchdog --------------------------------------------------------------------------------------------------------------------

mkdir -p /run/systemd/system/wsd.service.d
printf '[Service]\nWatchdogSec=1s\n' >/run/systemd/system/wsd.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart wsd.service
pid=$(main_pid)
began=$(show_property ActiveEnterTimestampMonotonic)
pinged_for_4_s() {
  [ $(($(show_property WatchdogTimestampMonotonic) - began)) -gt 4000000 ]
}
check "an idle wsd pings its watchdog" wait_until pinged_for_4_s
check "and is not killed" expect_output "$pid" main_pid
kill -STOP "$pid"
check "one that hangs is replaced" wait_until another_pid
check "and the new one works" expect_output 6765 wsctl submit fib 20
rm -r /run/systemd/system/wsd.service.d
systemctl daemon-reload

# --- a user's own --------------------------------------------------------------------------------------------------------------

uid=$(id -u bob)
own() { # COMMAND...: in bob's session
  as bob env XDG_RUNTIME_DIR="/run/user/$uid" "$@"
}
if systemctl start "user@$uid.service" 2>/dev/null; then
  check "a user's own socket" own systemctl --user start wsd.socket
  check "starts his own wsd" expect_output 6765 own wsctl submit fib 20
  check "which runs as himself" expect_output bob ps -o user= -p \
    "$(own systemctl --user show --value -p MainPID wsd.service)"
  check "and stops in order" own systemctl --user stop wsd.service wsd.socket
  check "with exit 0" expect_output 0 own systemctl --user show --value -p ExecMainStatus wsd.service
  systemctl stop "user@$uid.service"
else
  skip "a user's own wsd" "no user manager in this box"
fi

# --- the end ---------------------------------------------------------------------------------------------------------------------

check "both stop" systemctl stop wsd.socket wsd.service
check "and the socket is gone" test ! -e /run/wsd/wsd.sock
check "the last end was a success" is Result success
