#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# inside-apparmor.sh: runs inside the machine that cgroups.sh boots, behind inside-cgroups.sh: the AppArmor profile, as it is shipped and
# enforced, under the hardened units. Whatever it does not know of would be in the kernel's log.
SRC=/box BUILD=/box
WSD=$PREFIX/sbin/wsd WSCTL=$PREFIX/bin/wsctl EXECUTOR=$PREFIX/libexec/wsd-executor
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/inside.sh"
set +o pipefail
chmod 755 "$WORK"
etc=/etc/wsd
[ "$PREFIX" = /usr ] || etc=$PREFIX/etc/wsd

if [ "$(cat /sys/module/apparmor/parameters/enabled 2>/dev/null)" != Y ]; then
  skip "AppArmor" "not in this kernel"
  exit
fi
printf '[daemon]\nworkers = 2\n[executor]\nuser-ids = yes\nfirst-user-id = 1000\n' >"$etc/wsd.conf"
echo "what everybody may read" >/srv/open
chmod 644 /srv/open

profile() { # MODE: the shipped one, for this prefix
  sed "s,/usr/\(sbin\|libexec\|lib/@{multiarch}/wsd\),$PREFIX/\1,; s,/etc/wsd,$etc,; s/,complain)/${1:+,$1})/" \
    /box/usr.sbin.wsd >"$WORK/profile" && apparmor_parser --replace --skip-cache "$WORK/profile"
}
mode_is() { # MODE
  grep -x "wsd ($1)" /sys/kernel/security/apparmor/profiles
}
confined() { # PID MODE
  [ "$(cat "/proc/$1/attr/current")" = "wsd ($2)" ] || {
    cat "/proc/$1/attr/current"
    return 1
  }
}
work() { # all that an administrator has it do
  local id
  systemctl restart wsd-spawn.socket wsd.socket wsd.service &&
    [ "$(as alice wsctl submit fib 20)" = 6765 ] && as alice wsctl submit checksum /srv/open &&
    head -c 3000000 /dev/zero | as alice wsctl submit --input - compress >"$WORK/packed" &&
    as bob wsctl submit --input "$WORK/packed" decompress | cmp - <(head -c 3000000 /dev/zero) &&
    id=$(as alice wsctl submit --durable --detach fib 21) && as alice wsctl await "$id" && as alice wsctl status "$id" &&
    as alice wsctl bench --count 300 fib:nothing && as alice wsctl plugin reload fib && wsctl workers && systemctl reload wsd.service &&
    systemctl restart wsd.service && [ "$(as bob wsctl submit fib 20)" = 6765 ]
}
complaints() {
  ! journalctl -k --no-pager -o cat | grep -E 'apparmor="(ALLOWED|DENIED)".*profile="wsd"' | sort -u | tee /dev/stderr | grep -q .
}

check "the profile is shipped in complain mode" eval 'profile complain && mode_is complain'
check "wsd works in it" work
check "wsd is in it" confined "$(main_pid)" complain
check "and does nothing that it does not know of" complaints
check "enforced" eval 'profile "" && mode_is enforce'
check "all works" work
check "wsd is in it" confined "$(main_pid)" enforce
check "and its executors" confined "$(pgrep -u bob -f wsd-executor | tail -n 1)" enforce
check "and wsd-spawn" confined "$(main_pid wsd-spawn.service)" enforce
check "nothing of that is refused" complaints
check "a plugin does not read what is nobody's business" expect_exit 3 as alice wsctl submit self:get /srv/open
check "which is in the log" eval '! complaints 2>/dev/null'
check "stop" systemctl stop wsd.socket wsd-spawn.socket wsd.service
