#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# inside-service.sh: runs inside the box that service.sh boots, where the packages have been installed with a lower version.
# Uses wsd as an administrator would, and looks at what dpkg, systemctl, journalctl and users see.
SRC=/box BUILD=/box
WSD=/usr/sbin/wsd WSCTL=/usr/bin/wsctl EXECUTOR=/usr/libexec/wsd-executor
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/inside.sh"
set +o pipefail # grep -q ends before journalctl does
chmod 755 "$WORK"

etc=/etc/wsd
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
said() { # PRIORITY PATTERN: wsd itself has written such a line to the journal
  journalctl --sync
  journalctl -u wsd.service -o json --no-pager | grep -F '"_TRANSPORT":"journal"' | grep -F "\"PRIORITY\":\"$1\"" |
    grep -qE "\"MESSAGE\":\"[^\"]*$2"
}

# --- installed ---------------------------------------------------------------------------------------------------------

check "the package made the user" id wsd
nobody_logs_in() {
  [ "$(getent passwd wsd | cut -d : -f 7)" = /usr/sbin/nologin ] && passwd -S wsd | grep -q '^wsd L'
}
check "who cannot log in" nobody_logs_in
check "the socket listens" is ActiveState active wsd.socket
check "and will after the next boot" expect_output enabled systemctl is-enabled wsd.socket
check "which starts the service, not the boot" expect_exit 1 systemctl is-enabled --quiet wsd.service
conffiles() {
  dpkg-query -W -f '${Conffiles}' wsd | grep -q ' /etc/wsd/wsd.conf '
}
check "the configuration is the administrator's" conffiles
check "and right" wsd --check-config
for unit in wsd{,-spawn}{,@more}.{socket,service}; do
  check "systemd finds no fault with $unit" systemd-analyze verify --man=no "$unit"
done
exposed() { # UNIT TENTHS, at most; the threshold counts offline only
  systemd-analyze security --offline=yes --threshold="$2" --no-pager "/lib/systemd/system/$1"
}
check "systemd finds wsd.service no more exposed than 0.8" exposed wsd.service 8
check "nor wsd@.service" exposed wsd@.service 8
check "and wsd-spawn.service no more than 1.5" exposed wsd-spawn.service 15
check "which is off" expect_exit 1 systemctl is-enabled --quiet wsd-spawn.socket
for user in alice bob mallory; do
  useradd -m -s /bin/bash "$user"
  chmod 700 "/home/$user"
done
usermod -aG wsd alice
usermod -aG wsd bob

# --- socket activation ---------------------------------------------------------------------------------------------------

systemctl stop wsd.service
check "the socket is for root and the group" expect_output "660 root wsd" stat -c '%a %U %G' /run/wsd/wsd.sock
check "its directory is root's" expect_output "755 root root" stat -c '%a %U %G' /run/wsd
check "the service is not running yet" is ActiveState inactive
check "the first submit starts it" expect_output 6765 wsctl submit fib 20
check "now it is running" is ActiveState active
says_ready() {
  [[ $(show_property StatusText) == ready* ]]
}
check "it says that it is ready" says_ready
status_words() {
  systemctl status wsd.service --no-pager | tee /dev/stderr | grep -F 'Status: "ready'
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
forbidden() {
  expect_output "inet open: Address family not supported by protocol
netlink open: Address family not supported by protocol
set-user-id refused
others' processes open: No such file or directory
homes refused" wsctl submit hostile:unit
}
check "a plugin tries what only the unit forbids" forbidden
calls_refused() {
  wsctl submit hostile:calls >"$WORK/calls" || return 1
  cat "$WORK/calls"
  [ "$(wc -l <"$WORK/calls")" -ge 20 ] && ! grep -v ' refused$' "$WORK/calls"
}
check "and what unit and executor do" calls_refused
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
in_force() { # the level is that of the file when the command returns
  local i level
  for i in {1..5}; do
    for level in debug info; do
      printf '[daemon]\nlog-level = %s\n' "$level" >"$etc/wsd.conf"
      systemctl reload wsd.service || return 1
      journalctl --sync
      wsctl ping && journalctl --sync
      [ "$(journalctl -u wsd.service --no-pager -o cat | grep -E 'connection of uid|was read again' | tail -n 1 |
        grep -c 'connection of uid')" = "$([ "$level" = debug ] && echo 1 || echo 0)" ] || {
        echo "$i: not $level"
        return 1
      }
    done
  done
}
check "when it returns, the new configuration is in force" in_force
printf '[daemon]\nno-such-key = 1\n' >"$etc/wsd.conf"
check "reload with a bad file fails" expect_exit 1 systemctl reload wsd.service
names_it() {
  journalctl --sync
  journalctl -u wsd.service --no-pager -o cat | grep -F 'wsd.conf:2:'
}
check "the journal names file and line" names_it
check "the unit is active still" is ActiveState active
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
  journalctl --update-catalog || return 1
  journalctl -u wsd.service -x --no-pager MESSAGE_ID=25d4237c7dfe437fb80a303a58e44770 | tee /dev/stderr |
    grep -q 'It is a defect of the plugin: .wsctl status [0-9a-f]\{32\}. has the backtrace too' &&
    [ "$(journalctl --dump-catalog 2>/dev/null | grep -c '^Defined-By: wsd$')" = 18 ]
}
check "journalctl -x explains it" explained
refused_configuration() { # by a signal, which comes without systemctl's look before
  local status=0
  cp "$etc/wsd.conf" "$WORK/good.conf" && printf '[daemon]\nno-such-key = 1\n' >"$etc/wsd.conf" || return 1
  systemctl kill --kill-whom=main --signal=HUP wsd.service &&
    wait_until fields MESSAGE_ID=394344e63eea457eb278af3225e993df PRIORITY=3 || status=$?
  cp "$WORK/good.conf" "$etc/wsd.conf" && systemctl reload wsd.service && return "$status"
}
check "a configuration that is refused" refused_configuration

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

# --- a restart keeps clients ---------------------------------------------------------------------------------------------------

printf '[daemon]\ndrain-timeout = 2s\n' >"$etc/wsd.conf"
check "a short drain" systemctl reload wsd.service
status_counts() {
  [[ $(show_property StatusText) =~ :\ 1\ jobs\ running,\ 8\ waiting ]]
}
listed() { # STATE N
  [ "$(wsctl --json list | grep -c "\"state\":\"$1\"")" = "$2" ]
}
durable=$WORK/durable
mkdir -m 777 "$durable"
wait_for_durable() { # in this shell, whose children they are
  local i
  clients=()
  wsctl pause echo || return 1
  for ((i = 0; i < 8; i++)); do
    as alice wsctl submit --durable echo "text $i" >"$durable/$i" 2>"$durable/$i.err" &
    clients+=($!)
  done
  as alice wsctl submit sleep 60000 >"$durable/sleep" 2>"$durable/sleep.err" &
  sleeper=$!
  wait_until listed queued 8 && wait_until listed running 1
}
answered_by_the_next() {
  local i
  for ((i = 0; i < 8; i++)); do
    if ! wait_for_exit "${clients[i]}" || [ "$(cat "$durable/$i")" != "text $i" ] || [ -s "$durable/$i.err" ]; then
      cat "$durable/$i" "$durable/$i.err"
      return 1
    fi
  done
  wait_for_exit "$sleeper"
  [ $? = 125 ] || {
    cat "$durable/sleep.err"
    return 1
  }
}
kept_over() { # NAME COMMAND...: clients wait, the command restarts wsd
  local name=$1
  shift
  if wait_for_durable >"$WORK/said" 2>&1; then ok "$name: 8 clients wait for durable jobs"; else
    fail "$name: 8 clients wait for durable jobs" "$(cat "$WORK/said")"
  fi
  check "$name: the status line counts jobs" wait_until status_counts
  pid=$(main_pid)
  check "$name" "$@"
  check "$name: it is another process" another_pid
  if answered_by_the_next >"$WORK/said" 2>&1; then ok "$name: they have their answers on the same connections, others an end"; else
    fail "$name: they have their answers on the same connections, others an end" "$(cat "$WORK/said")"
  fi
  check "$name: and systemd keeps none of those" wait_until is NFileDescriptorStore 0
}
another_pid() {
  local now
  now=$(main_pid)
  [ "$now" != 0 ] && [ "$now" != "$pid" ] && is ActiveState active
}
kept_over "restart" systemctl restart wsd.service
pinged() { # N
  [ "$(wc -l <"$WORK/pings")" -ge "$1" ]
}
no_attempt_lost() {
  local i status n=0 pinging
  : >"$WORK/pings"
  (
    while [ ! -e "$WORK/enough" ]; do
      status=0
      as alice wsctl -q ping || status=$?
      echo "$status"
    done >>"$WORK/pings" 2>"$WORK/pings.err"
  ) &
  pinging=$!
  for i in 1 2 3; do # a ping takes as long as a restart
    systemctl restart wsd.service && wait_until pinged "$i" || return 1
  done
  : >"$WORK/enough"
  wait "$pinging"
  n=$(wc -l <"$WORK/pings")
  echo "$n pings"
  cat "$WORK/pings.err"
  [ "$n" -ge 3 ] && ! grep -v '^0$' "$WORK/pings"
}
check "a restart loses no connection attempt" no_attempt_lost
as_is=$(stat -c %i /run/wsd/wsd.sock)
kept_over "upgrade" dpkg --force-confold -i /box/debs-new/wsd_*.deb /box/debs-new/libwsclient0_*.deb
check "it is the new version" expect_output "$(dpkg-deb -f /box/debs-new/wsd_*.deb Version)" dpkg-query -W -f '${Version}' wsd
check "the socket has been there all the time" expect_output "$as_is" stat -c %i /run/wsd/wsd.sock
check "the administrator's configuration is untouched" grep -q 'drain-timeout = 2s' "$etc/wsd.conf"

# --- restart, crash ------------------------------------------------------------------------------------------------------------

pid=$(main_pid)
check "restart" systemctl restart wsd.service
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

# --- under the uids of users -------------------------------------------------------------------------------------------------

printf '[daemon]\ndrain-timeout = 2s\n[executor]\nuser-ids = yes\n' >"$etc/wsd.conf"
check "restart with user-ids = yes" systemctl restart wsd.service
check "without wsd-spawn no job runs" expect_exit 77 as alice wsctl submit fib 20
check "enable wsd-spawn, as wsd(8) says" systemctl enable --now wsd-spawn.socket
check "and restart" systemctl restart wsd.service
check "its socket is for wsd alone" expect_output "600 wsd" stat -c '%a %U' /run/wsd/wsd.spawn
check "alice's jobs run" expect_output 6765 as alice wsctl submit fib 20
check "and bob's" expect_output 6765 as bob wsctl submit fib 20
executor_of() { # USER: those that are alive
  pgrep -u "$1" -f wsd-executor
}
in_spawns() { # PID
  grep -qx "0::/system.slice/wsd-spawn.service\(/.*\)\?" "/proc/$1/cgroup"
}
each_his_own() {
  in_spawns "$(executor_of alice)" && in_spawns "$(executor_of bob)" && ! executor_of wsd
}
check "each under his own uid, in the unit of wsd-spawn" each_his_own
check "while wsd is the user wsd" expect_output wsd ps -o user= -p "$(main_pid)"
check "without a capability" kernel_says CapPrm 0000000000000000
check "an executor has none either" grep -qx 'CapPrm:	0000000000000000' "/proc/$(executor_of alice)/status"
three_capabilities() {
  grep -qx 'CapPrm:	00000000000000e0' "/proc/$(spawner)/status" && grep -qx 'CapBnd:	00000000000000e0' "/proc/$(spawner)/status" &&
    [ "$(stat -c %U "/proc/$(spawner)/cgroup")" = root ] && runuser -u wsd -- sh -c "! cat /proc/$(spawner)/environ" # not dumpable
}
check "wsd-spawn has three, and nobody looks into it" three_capabilities
check "a private file of hers, by a relative path" own_files
check "not for bob" not_his
pid=$(main_pid) old=$(spawner) alices=$(executor_of alice)
kill -KILL "$old"
check "wsd-spawn is killed: its executors die with it" wait_until gone "$alices"
check "and jobs run again" expect_output 6765 as alice wsctl submit fib 20
check "by another one" expect_exit 1 test "$(spawner)" = "$old"
check "for the same wsd" expect_output "$pid" main_pid
check "restart" systemctl restart wsd.service
check "jobs run" expect_output 6765 as alice wsctl submit fib 20
kill -KILL "$(main_pid)"
check "wsd is killed: they run, too" wait_until expect_output 6765 as alice wsctl submit fib 20
check "under her uid" executor_of alice

# --- wsd-fleet, which hands jobs to the machine itself ---------------------------------------------------------------------------

fleet_is() { # PROPERTY VALUE
  is "$1" "$2" wsd-fleet.service
}
fleet_said() { # WORDS
  journalctl --sync
  journalctl -u wsd-fleet.service -o cat --no-pager | grep -F -- "$1"
}
check "wsd-fleet is installed" dpkg -i /box/debs-new/wsd-fleet_*.deb
check "the package made its user, who is in the group wsd" eval 'id -nG wsd-fleet | grep -qw wsd'
check "the service is off" expect_exit 1 systemctl is-enabled --quiet wsd-fleet.service
check "and was not started" fleet_is ActiveState inactive
check "systemd finds no fault with it" systemd-analyze verify --man=no wsd-fleet.service
check "and finds it no more exposed than 1.5" exposed wsd-fleet.service 15
printf '[daemon]\ndrain-timeout = 2s\n[executor]\nuser-ids = yes\n[access]\nsubmit-as = alice\n[runner @fleet]\noffer = wsd-fleet\n' >"$etc/wsd.conf"
printf '[fleet]\nservers = nats://127.0.0.1:4222\nrun-as = same\n' >>"$etc/wsd.conf"
check "the configuration has a user of wsd-fleet" expect_output '' wsd --check-config
check "reload, as wsd-fleet(8) says" systemctl reload wsd.service
systemctl stop nats-server.service # of its package, without streams
check "it starts before its servers" systemctl start wsd-fleet.service
check "and says what it waits for" wait_until fleet_said 'no connection to NATS yet: nats://127.0.0.1:4222'
if command -v nats-server >/dev/null; then
  systemd-run --quiet --unit=nats -p StateDirectory=nats -p SuccessExitStatus=1 nats-server -js -a 127.0.0.1 -sd /var/lib/nats
  check "the streams" wait_until wsctl fleet init
  check "it connects" wait_until fleet_said 'connected to NATS'
  check "alice's job goes out and comes in" expect_output 6765 as alice wsctl submit --fleet --timeout 60s fib 20
  check "under her uid" executor_of alice
  not_bobs() {
    expect_exit 63 as bob wsctl submit --fleet --timeout 60s fib 20 2>"$WORK/not-bobs" || return 1
    grep -E "refused on .*: uid $(id -u wsd-fleet) may not act for bob: \[access\] submit-as" "$WORK/not-bobs"
  }
  check "bob's is refused" not_bobs
  stops_in_order() {
    local id
    id=$(as alice wsctl submit --detach --fleet sleep:sleep 2000) && wait_until listed running 2 && systemctl stop wsd-fleet.service &&
      fleet_is Result success && fleet_is ExecMainStatus 0 && as alice wsctl await "$id"
  }
  check "a stop waits for the job that it has" stops_in_order
  systemctl stop nats.service
else
  skip "jobs of wsd-fleet" "there is no nats-server in the box"
  check "it stops in order" systemctl stop wsd-fleet.service
fi
check "it is removed, and its service with it" dpkg --purge wsd-fleet
printf '[daemon]\ndrain-timeout = 2s\n' >"$etc/wsd.conf"
check "without the key" systemctl restart wsd.service
check "those of the system run under wsd's uid" expect_output 6765 wsctl submit fib 20

# --- wsd-web, which shows it -----------------------------------------------------------------------------------------------------

web_metric() { # NAME
  curl -sS --max-time $((20 * TIME_SCALE)) http://localhost:9473/metrics | sed -n "s/^$1 //p"
}
web_by_path() { # USER
  setpriv --reuid="$1" --regid="$1" --init-groups curl -sS --unix-socket /run/wsd-web/web.sock http://localhost/metrics
}
check "wsd-web is installed" dpkg -i /box/debs-new/wsd-web_*.deb
check "the package made its user, who is in the group wsd" eval 'id -nG wsd-web | grep -qw wsd'
for unit in wsd-web.{socket,service}; do
  check "$unit is off" expect_exit 1 systemctl is-enabled --quiet "$unit"
  check "and was not started" is ActiveState inactive "$unit"
  check "systemd finds no fault with it" systemd-analyze verify --man=no "$unit"
done
check "and finds the service no more exposed than 0.5" exposed wsd-web.service 5
zcat /usr/share/man/man8/wsd-web.8.gz | sed -n '/^\.SH "AS A SERVICE"/,$p' | sed -n '/^\[access\]/,/^\.EE/p' | sed '/^\.EE/,$d; s/\\-/-/g' >>"$etc/wsd.conf"
check "the configuration of wsd-web(8)" grep -qx 'watch = @wsd-web' "$etc/wsd.conf"
check "reload, as it says" systemctl reload wsd.service
check "the socket is enabled" systemctl enable --now --quiet wsd-web.socket
check "the service waits for a request" is ActiveState inactive wsd-web.service
check "metrics, by the network" expect_output 1 web_metric wsd_up
check "which the service gives, as its user" expect_output wsd-web ps -o user= -p "$(main_pid wsd-web.service)"
check "it has no network" eval '[ "$(readlink "/proc/$(main_pid wsd-web.service)/ns/net")" != "$(readlink /proc/self/ns/net)" ]'
check "and no users" eval '[ "$(readlink "/proc/$(main_pid wsd-web.service)/ns/user")" != "$(readlink /proc/self/ns/user)" ]'
check "the page" eval 'curl -sS http://localhost:9473/ | grep -qi "<!doctype html>"'
check "metrics, by the path" eval 'web_by_path wsd-web | grep -qx "wsd_up 1"'
check "which is not for others" expect_exit 7 web_by_path alice
succeeded=$(web_metric 'wsd_jobs_total{outcome="succeeded"}')
check "a job of alice" expect_output 6765 as alice wsctl submit fib 20
check "counts" wait_until expect_output "$((succeeded + 1))" web_metric 'wsd_jobs_total{outcome="succeeded"}'
id=$(as alice wsctl submit --detach --key secret sleep:sleep 60000)
looked() { curl -sS http://localhost:9473/api/look >"$WORK/look" && grep -q "$id" "$WORK/look"; }
check "a job of hers is seen" wait_until looked
check "without what she wrote" eval '! grep -o secret "$WORK/look"'
check "by its id, too" eval 'curl -sS "http://localhost:9473/api/jobs/$id" >"$WORK/look" && grep sleep "$WORK/look" && ! grep -o secret "$WORK/look"'
check "and is not cancelled" expect_exit 66 setpriv --reuid=wsd-web --regid=wsd-web --init-groups wsctl cancel "$id"
check "but by her" as alice wsctl cancel "$id"
kill -KILL "$(main_pid wsd-web.service)"
check "wsd-web is killed: it is there again" wait_until expect_output 1 web_metric wsd_up
systemctl stop wsd.socket wsd.service
check "wsd is away: so it says" wait_until expect_output 0 web_metric wsd_up
systemctl start wsd.socket
check "wsd is back: so it says" wait_until expect_output 1 web_metric wsd_up
check "it stops in order" systemctl stop wsd-web.socket wsd-web.service
check "with a success" is Result success wsd-web.service
check "and nothing listens" expect_exit 7 curl -sS http://localhost:9473/
check "it is removed, and its units with it" dpkg --purge wsd-web
printf '[daemon]\ndrain-timeout = 2s\n' >"$etc/wsd.conf"
check "without the key" systemctl reload wsd.service

# --- clients of other machines ---------------------------------------------------------------------------------------------------

mkdir "$etc/tls"
cp /box/tls/good/{server.pem,server.key,ca.pem,crl.pem} "$etc/tls/"
echo 'CN:alice of the lab = alice' >"$etc/tls/users"
chmod 755 "$etc/tls"
chmod 644 "$etc"/tls/*
chmod 600 "$etc/tls/server.key"
chown wsd "$etc/tls/server.key"
printf '[tls]\nlisten = localhost:7373\n' >>"$etc/wsd.conf"
printf '%s = %s\n' certificate "$etc/tls/server.pem" key "$etc/tls/server.key" ca "$etc/tls/ca.pem" crl "$etc/tls/crl.pem" \
  user-map "$etc/tls/users" >>"$etc/wsd.conf"
from_elsewhere() { # WSCTL-ARGUMENT...: somebody who has alice's certificate, and may not connect here
  as mallory env WSD_HOST=localhost:7373 WSD_TLS_CERT=/home/mallory/alice.pem WSD_TLS_KEY=/home/mallory/alice.key \
    WSD_TLS_CA=/box/tls/good/ca.pem wsctl "$@"
}
chmod -R a+rX /box/tls
install -m 600 -o mallory /box/tls/good/alice.{pem,key} /home/mallory
check "certificates are in order" wsd --check-config
no_network() {
  expect_exit 1 systemctl restart wsd.service && wait_until said 3 'localhost:7373: no network is allowed here'
}
check "the service as shipped has no network, and says so" no_network
drop_in() { # as wsd(8) has it, where it is installed
  mkdir -p /etc/systemd/system/wsd.service.d
  zcat /usr/share/man/man8/wsd.8.gz | sed -n '/^\.SH CLIENTS OF OTHER MACHINES/,$p' | sed -n '/^\[Service\]/,/^\.fi/p' | sed '/^\.fi/,$d' \
    >/etc/systemd/system/wsd.service.d/override.conf
  cat /etc/systemd/system/wsd.service.d/override.conf
  systemctl daemon-reload && systemctl reset-failed wsd.service && systemctl restart wsd.service
}
check "with the drop-in of the manual it starts" drop_in
check "a client with a certificate submits" expect_output 6765 from_elsewhere submit fib 20
sends() {
  from_elsewhere submit --input /home/mallory/alice.pem compress | wsctl submit --input - decompress | cmp - /home/mallory/alice.pem
}
check "with its input" sends
is_alices() {
  as alice wsctl status "$(from_elsewhere submit --detach fib 20)"
}
check "as the user of the map" is_alices
check "no file of this machine for it" expect_exit 1 from_elsewhere submit checksum /etc/hostname
check "plain text gets no answer" eval '[ -z "$(timeout 5 bash -c "exec 3<>/dev/tcp/127.0.0.1/7373; echo x >&3; cat <&3")" ]'
check "the drop-in opens the network" is RestrictAddressFamilies "AF_INET AF_INET6 AF_UNIX"
check "and nothing else: no privileges" kernel_says NoNewPrivs 1
check "no capabilities" kernel_says CapBnd 0000000000000000
check "nothing to write to" read_only
check "no home directory" sees_no_home
rm -r /etc/systemd/system/wsd.service.d
systemctl daemon-reload
printf '[daemon]\ndrain-timeout = 2s\n' >"$etc/wsd.conf"
check "without both" systemctl restart wsd.service
check "nobody of another machine is there" expect_exit 69 from_elsewhere ping
rm -r "$etc/tls"

# --- where plugins may lie -------------------------------------------------------------------------------------------------------

mkdir -m 755 /srv/plugins
cp "$PLUGINS/sleep.so" /srv/plugins/outside.so
printf '[daemon]\ndrain-timeout = 2s\n[plugins]\ndirectories = %s:/srv/plugins\n' "$PLUGINS" >"$etc/wsd.conf"
exec_paths() { # LINE...: of a drop-in; users' executors are in the other unit
  local unit
  for unit in wsd wsd-spawn; do
    mkdir -p "/run/systemd/system/$unit.service.d"
    printf '%s\n' '[Service]' "$@" >"/run/systemd/system/$unit.service.d/exec.conf"
  done
  systemctl daemon-reload && systemctl restart wsd.service
}
check "another plugin directory" systemctl restart wsd.service
check "a plugin from there runs" expect_output slept as alice wsctl submit outside 1
check "a drop-in that has nothing executed there" exec_paths NoExecPaths=/srv/plugins
outside() {
  expect_exit 77 as alice wsctl submit outside 1 2>"$WORK/err" || return 1
  cat "$WORK/err"
  [ "$(wc -l <"$WORK/err")" = 1 ] && grep -q 'ExecPaths= of the service' "$WORK/err" &&
    wait_until fields PLUGIN=outside MESSAGE_ID=3189819c58a24021a334eb6b2c1d2b1c PRIORITY=4 &&
    [ "$(journalctl -u wsd.service -o cat --no-pager | grep -c 'plugin outside: refused')" = 1 ]
}
check "outside of ExecPaths a plugin is refused, with one line in the journal" outside
check "another one that excepts the place" exec_paths NoExecPaths=/srv ExecPaths=/srv/plugins
check "it runs again" expect_output slept as alice wsctl submit outside 1
rm -r /run/systemd/system/wsd{,-spawn}.service.d /srv/plugins
systemctl daemon-reload

# --- a drain that takes longer than TimeoutStopSec= ------------------------------------------------------------------------------

mkdir -p /run/systemd/system/wsd.service.d
printf '[Service]\nTimeoutStopSec=2s\n' >/run/systemd/system/wsd.service.d/stop.conf
printf '[daemon]\ndrain-timeout = 60s\n' >"$etc/wsd.conf"
systemctl daemon-reload
check "a drain-timeout above TimeoutStopSec=" systemctl restart wsd.service
as alice wsctl submit sleep 6000 >"$WORK/long" 2>&1 &
long=$!
check "a job runs" wait_until listed running 1
check "the drain takes as long as the job" systemctl stop wsd.service
check "and systemd waits, as wsd asks it to" is Result success
if wait "$long" && [ "$(cat "$WORK/long")" = slept ]; then ok "the job has its end"; else fail "the job has its end" "$(cat "$WORK/long")"; fi
rm -r /run/systemd/system/wsd.service.d
systemctl daemon-reload
printf '[daemon]\ndrain-timeout = 2s\n' >"$etc/wsd.conf"

# --- idle CPUs -------------------------------------------------------------------------------------------------------------------

awake_drop_in() { # as wsd.conf(5) has it, where it is installed
  mkdir -p /etc/systemd/system/wsd.service.d
  zcat /usr/share/man/man5/wsd.conf.5.gz | sed -n '/^\.I keep-awake/,/^\.I pin/p' | sed -n '/^\[Service\]/,/^\.fi/p' | sed '/^\.fi/d' \
    >/etc/systemd/system/wsd.service.d/override.conf
  cat /etc/systemd/system/wsd.service.d/override.conf
  systemctl daemon-reload && systemctl restart wsd.service
}
may_ask() { find "/proc/$(main_pid)/fd" -lname /dev/cpu_dma_latency | grep -q .; }
may_not_ask() { ! may_ask; }
printf '[daemon]\ndrain-timeout = 2s\n[pool]\nkeep-awake = yes\n' >"$etc/wsd.conf"
check "keep-awake = yes" systemctl restart wsd.service
check "the service as shipped has no device for it" may_not_ask
check "and says so" wait_until said 4 'idle CPUs cannot be kept awake'
minor=$(awk '$2 == "cpu_dma_latency" { print $1 }' /proc/misc)
if [ -c /dev/cpu_dma_latency ] || mknod -m 600 /dev/cpu_dma_latency c 10 "${minor:-none}"; then
  check "with the drop-in of the manual" awake_drop_in
  check "it may ask the kernel" may_ask
  rm -r /etc/systemd/system/wsd.service.d
  systemctl daemon-reload
else
  skip "with the drop-in of the manual" "no /dev/cpu_dma_latency in here"
fi
printf '[daemon]\ndrain-timeout = 2s\n' >"$etc/wsd.conf"
check "without both" systemctl restart wsd.service

# --- watchdog --------------------------------------------------------------------------------------------------------------------

mkdir -p /run/systemd/system/wsd.service.d
printf '[Service]\nWatchdogSec=2s\n' >/run/systemd/system/wsd.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart wsd.service
pid=$(main_pid)
began=$(show_property ActiveEnterTimestampMonotonic)
pinged_for() { # MICROSECONDS, since $began
  [ $(($(show_property WatchdogTimestampMonotonic) - began)) -gt "$1" ]
}
check "an idle wsd pings its watchdog" wait_until pinged_for 5000000
check "and is not killed" expect_output "$pid" main_pid
busy() { # with all that it can do, and an executor that stands still
  local executor stands
  expect_output 6765 as bob wsctl submit fib 20 && executor=$(executor_of bob) && stop_process "$executor" || return 1
  as bob wsctl submit fib 20 >"$WORK/stands" 2>&1 &
  stands=$!
  began=$(show_property WatchdogTimestampMonotonic)
  as alice wsctl bench --connections 8 --in-flight 64 --seconds 7 && wait_until pinged_for 6000000 || return 1
  kill -CONT "$executor"
  wait "$stands" && expect_output 6765 cat "$WORK/stands"
}
check "nor does a busy one miss a ping, nor one whose executor hangs" busy
check "it is the same" expect_output "$pid" main_pid
stop_process "$pid"
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
  for unit in wsd.socket wsd.service; do
    check "systemd finds no fault with a user's $unit" own systemd-analyze --user verify --man=no "/usr/lib/systemd/user/$unit"
  done
  check "a user's own socket" own systemctl --user start wsd.socket
  check "starts his own wsd" expect_output 6765 own wsctl submit fib 20
  check "which runs as himself" expect_output bob ps -o user= -p \
    "$(own systemctl --user show --value -p MainPID wsd.service)"
  check "its reload returns" own systemctl --user reload wsd.service
  check "it pauses" own wsctl pause echo
  own wsctl submit --durable echo "bob's own" >"$WORK/bobs" 2>&1 &
  waits=$!
  check "a client waits there" wait_until eval '[ "$(own wsctl --json list | grep -c queued)" = 1 ]'
  check "its restart" own systemctl --user restart wsd.service
  if wait_for_exit "$waits" && [ "$(cat "$WORK/bobs")" = "bob's own" ]; then ok "keeps the client"; else
    fail "keeps the client" "$(cat "$WORK/bobs")"
  fi
  check "and stops in order" own systemctl --user stop wsd.service wsd.socket
  rm -r /home/bob/.local # his own durable jobs are no package's
  check "with exit 0" expect_output 0 own systemctl --user show --value -p ExecMainStatus wsd.service
  systemctl stop "user@$uid.service"
else
  skip "a user's own wsd" "no user manager in this box"
fi

# --- another one for all users ---------------------------------------------------------------------------------------------------

cp "$etc/wsd.conf" "$etc/more.conf"
check "wsd@more starts" systemctl start wsd@more.socket
check "and serves another user" expect_output 6765 as alice wsctl --socket /run/wsd/more.sock submit fib 20
check "which one outside of the group is not" expect_exit 77 as mallory wsctl --socket /run/wsd/more.sock submit fib 20
check "its state is its own" test -d /var/lib/wsd/more
check "it reloads" systemctl reload wsd@more.service
check "and stops" systemctl stop wsd@more.socket wsd@more.service
rm "$etc/more.conf"

# --- the end ---------------------------------------------------------------------------------------------------------------------

check "the package's own test" env PATH=/usr/sbin:/usr/bin:/sbin:/bin sh /box/autopkgtest/service
check "both stop" systemctl stop wsd.socket wsd.service
check "and the socket is gone" test ! -e /run/wsd/wsd.sock
check "the last end was a success" is Result success
systemctl start wsd.socket
as alice wsctl submit --durable fib 20 >/dev/null
rm -f "$PLUGINS"/{sleep,ledger,echo,crash,hostile}.so
check "remove" dpkg --remove wsd
check "nothing of it runs" expect_exit 1 pgrep -u wsd
check "what was configured and stored stays" test -e /etc/wsd/wsd.conf -a -d /var/lib/wsd
check "purge" dpkg --purge wsd libwsclient0
nothing_left() {
  local left
  left=$(find / -xdev \( -path /proc -o -path /box -o -path "$WORK" -o -path /sys -o -path /var/cache/apt \) -prune -o \
    \( -name '*wsd*' -o -name '*wsclient*' -o -user wsd -o -group wsd \) -print)
  [ -z "$left" ] || {
    echo "$left"
    return 1
  }
}
check "purge leaves nothing" nothing_left
gone_units() {
  [ -z "$(systemctl list-units --all --no-legend --plain 'wsd*')" ]
}
check "nor a unit" wait_until gone_units
check "but the user, as the policy of Debian has it" id wsd
