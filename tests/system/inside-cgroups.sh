#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# inside-cgroups.sh: runs inside the machine that cgroups.sh boots: limits of executors by cgroup, executors under the uids of
# users, both under the hardened unit, and what is left when something is killed.
SRC=/box BUILD=/box
WSD=$PREFIX/sbin/wsd WSCTL=$PREFIX/bin/wsctl EXECUTOR=$PREFIX/libexec/wsd-executor
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/inside.sh"
chmod 755 "$WORK"
etc=/etc/wsd
[ "$PREFIX" = /usr ] || etc=$PREFIX/etc/wsd

ldconfig
systemd-sysusers
for user in alice bob; do
  useradd -m "$user"
  usermod -aG wsd "$user"
done
mkdir -p "$etc"
cat >"$etc/wsd.conf" <<EOT
[daemon]
workers = 2
[executor]
user-ids = yes
[limits]
executor-memory = 64M
[domain alice]
users = alice
cpu-weight = 400
executor-tasks = 10
EOT
systemctl daemon-reload

executor_of() { # USER
  as "$1" wsctl submit hostile:whoami
}
cgroup_of() { # PID
  sed -n 's/^0:://p' "/proc/$1/cgroup"
}
is_limited() { # PID FILE VALUE
  local value
  value=$(cat "/sys/fs/cgroup$(cgroup_of "$1")/$2")
  [ "$value" = "$3" ] || {
    echo "$2 is $value, not $3"
    return 1
  }
}
uid_of() {              # PID
  stat -c %U "/proc/$1" # root's, where it cannot be looked into
  sed -n 's/^Uid:\t\([0-9]*\).*/\1/p' "/proc/$1/status"
}

check "wsd.socket starts" systemctl start wsd-spawn.socket wsd.socket
check "the first submit starts wsd" wait_until expect_output 6765 as alice wsctl submit fib 20
unit=/system.slice/wsd-spawn.service
check "wsd is in a leaf" expect_output /system.slice/wsd.service/daemon cgroup_of "$(main_pid)"
check "and so is wsd-spawn, of its own unit" expect_output "$unit/daemon" cgroup_of "$(spawner)"
alices=$(executor_of alice) bobs=$(executor_of bob)
is_of() { # PID USER
  uid_of "$1" | tail -n 1 | grep -qx "$(id -u "$2")"
}
check "alice's executor is hers" is_of "$alices" alice
check "bob's is his" is_of "$bobs" bob
own_cgroups() {
  [[ $(cgroup_of "$alices") == "$unit"/executor-* ]] && [[ $(cgroup_of "$bobs") == "$unit"/executor-* ]] &&
    [ "$(cgroup_of "$alices")" != "$(cgroup_of "$bobs")" ]
}
check "each has a cgroup of its own" own_cgroups
mib=$((1024 * 1024))
check "its memory" is_limited "$bobs" memory.max $(((64 + 68 + 16) * mib))
check "no swap beyond that" is_limited "$bobs" memory.swap.max 0
check "what is in it goes together" is_limited "$bobs" memory.oom.group 1
check "a weight by configuration" is_limited "$alices" cpu.weight 400
check "and without" is_limited "$bobs" cpu.weight 100
check "tasks by configuration" is_limited "$alices" pids.max $((10 + 2 + 16))
check "and without" is_limited "$bobs" pids.max max
few_threads() {
  local n
  n=$(as alice wsctl submit self:threads) && echo "$n" && [ "$n" -ge 10 ] && [ "$n" -le 26 ]
}
check "no more tasks than that" few_threads
check "where there is no limit, as many as are wanted" expect_output 200 as bob wsctl submit self:threads

background as bob wsctl submit sleep 600000
bobs_client=$BACKGROUND_PID
bob_runs() {
  wsctl --json list | grep '"sleep"' | grep -q '"running"'
}
check "bob has work" wait_until bob_runs
pid=$(main_pid)
out_of_memory() {
  expect_exit 125 as alice wsctl submit self:fill 2>"$WORK/err" || {
    cat "$WORK/err"
    return 1
  }
  cat "$WORK/err"
  grep -F 'out of memory: [limits] executor-memory in wsd.conf is 64 MiB' "$WORK/err"
}
check "memory that no process's limit counts ends her job, with the key" out_of_memory
check "she goes on" expect_output 6765 as alice wsctl submit fib 20
check "bob has not noticed" bob_runs
check "his executor is the same" expect_output "$bobs" executor_of bob
check "nor wsd" expect_output "$pid" main_pid
check "the journal has it" grep -q 'out of memory: \[limits\] executor-memory' <(journalctl -u wsd --no-pager)
no_cgroup_is_left() { # that nobody is in
  local c
  for c in /sys/fs/cgroup"$unit"/executor-*; do
    grep -q 'populated 1' "$c/cgroup.events" || {
      echo "$c"
      return 1
    }
  done
}
check "her old cgroup is gone" wait_until no_cgroup_is_left

old=$(spawner)
kill -KILL "$old"
wait "$bobs_client"
check "wsd-spawn is killed: jobs run by another one" expect_output 6765 as bob wsctl submit fib 20
check "which is another process" expect_exit 1 test "$(spawner)" = "$old"
check "with cgroups of its own" is_limited "$(executor_of bob)" memory.max $(((64 + 68 + 16) * mib))
check "for the same wsd" expect_output "$pid" main_pid
another_pid() {
  local now
  now=$(main_pid)
  [ "$now" != 0 ] && [ "$now" != "$pid" ]
}
kill -KILL "$pid"
check "wsd is killed: another one is started" wait_until another_pid
check "and works" expect_output 6765 as bob wsctl submit fib 20
check "with cgroups" is_limited "$(executor_of alice)" cpu.weight 400
check "and none is left of the old one" wait_until no_cgroup_is_left
check "stop" systemctl stop wsd.socket wsd-spawn.socket wsd.service
check "a success" expect_output success systemctl show --value -p Result wsd.service
nothing_is_left() {
  [ ! -e "/sys/fs/cgroup$unit" ] && [ ! -e /sys/fs/cgroup/system.slice/wsd.service ]
}
check "nothing is left" wait_until nothing_is_left

# --- more tasks than its service may have ---------------------------------------------------------------------------------

few() {
  wsctl --socket /run/few.sock "$@"
}
systemd-run --quiet --unit=few "$WSD" --socket /run/few.sock --config /dev/null --executor "$EXECUTOR" --state-dir "$WORK/few"
check "a wsd without delegation" wait_until few ping
tasks=$(cat /sys/fs/cgroup/system.slice/few.service/pids.current)
systemctl set-property --runtime few.service TasksMax="$tasks"
names_it() {
  expect_exit 75 few submit fib 20 2>"$WORK/err"
  cat "$WORK/err"
  grep -F "TasksMax= of the service is $tasks (pids.max of /system.slice/few.service)" "$WORK/err"
}
check "TasksMax= is reached: the refusal names it" names_it
journal_names_it() {
  journalctl -u few --no-pager | grep -F "cannot start an executor: no more processes or threads: TasksMax= of the service is $tasks"
}
check "and so does the log" journal_names_it
systemctl set-property --runtime few.service TasksMax=infinity
serves() {
  [ "$(few submit fib 20)" = 6765 ]
}
check "with more, it serves" wait_until serves
systemctl stop few

# --- what a wsd that was killed has left -----------------------------------------------------------------------------------
# A cgroup that was delegated to wsd by hand, with a leaf for it: no service manager removes what is left below.

own=/sys/fs/cgroup/own
mkdir -p "$own/daemon"
perl -e 'exit(syscall(188, $ARGV[0], $ARGV[1], $ARGV[2], 1, 0) != 0)' "$own" user.delegate 1 || fail "mark a cgroup as delegated" "setxattr failed"
own() {
  wsctl --socket /run/own.sock "$@"
}
start_own() { # [PREFIX...]
  bash -c 'echo $$ >"$0/daemon/cgroup.procs" && exec "$@"' "$own" "$@" "$WSD" --socket /run/own.sock --config /dev/null \
    --executor "$EXECUTOR" --state-dir "$WORK/own" >>"$WORK/own.log" 2>&1 &
  own_pid=$!
  note_started "$own_pid"
  wait_until own ping
}
below() { # NAME...: the cgroups that there are besides the leaf
  local there
  there=$(find "$own" -mindepth 1 -maxdepth 1 -type d ! -name daemon -printf '%f\n' | sort | tr '\n' ' ')
  echo "$there"
  [ "$there" = "${*:+$* }" ]
}
check "a wsd in a leaf that was made for it" start_own
check "has a cgroup for its executor" expect_output /own/executor-1 cgroup_of "$(own submit hostile:whoami)"
kill -KILL "$own_pid"
is_empty() { # CGROUP
  ! grep -q 'populated 1' "$1/cgroup.events"
}
check "it is killed: the cgroup stays" wait_until is_empty "$own/executor-1"
mkdir "$own/executor-77" "$own/others"
# so much memory takes the kernel a while: the cgroup cannot be removed at once
perl -e '$x = "x" x (200 << 20); $| = 1; print "there\n"; sleep' >"$WORK/left" &
left=$!
note_started "$left"
echo "$left" >"$own/executor-1/cgroup.procs"
wait_until grep -q there "$WORK/left"
check "the next wsd" start_own
check "serves" expect_output 6765 own submit fib 20
check "and has ended what was left" wait_until gone "$left"
kill -TERM "$own_pid"
check "its end" wait_for_exit "$own_pid"
check "nothing is left but what is another's" below others

if command -v strace >/dev/null; then
  mkdir "$own/executor-78"
  check "a wsd that cannot list it" start_own strace -f -qq -o /dev/null -P "$own" -e trace=getdents64 -e inject=getdents64:error=EIO
  check "says so" grep 'the cgroups that a wsd before has left cannot be listed: Input/output error' "$WORK/own.log"
  check "serves" expect_output 6765 own submit fib 20
  pkill -TERM -P "$own_pid" -x wsd
  check "its end" wait_for_exit "$own_pid"
  check "what it did not see is there" below executor-78 others
else
  skip "a wsd that cannot list what is left" "no strace"
fi
