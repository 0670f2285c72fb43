#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# errors.sh: what wsctl says and exits with when something is wrong: one line on stderr that names the fix, and the exit
# code of wsctl(1).
. "$(dirname "$0")/../support/lib.sh"

export WSD_SOCKET=$WORK/nobody.sock
check "no daemon: 69" refused 69 "nobody.sock" wsctl submit fib 20
check "no daemon, ping: 69" refused 69 "nobody.sock" wsctl ping
check "usage: no verb: 64" expect_exit 64 wsctl
check "usage: unknown verb: 64" refused 64 "frobnicate" wsctl frobnicate
check "usage: unknown option: 64" refused 64 "wsctl submit --help|no-such" wsctl submit --no-such fib
check "usage: an unknown letter behind a long option: 64" refused 64 "^wsctl: -x: no such option" wsctl --json -xyz
check "usage: a long option that takes no value: 64" refused 64 "detach=1: takes no value" wsctl submit --detach=1 fib
check "usage: no plugin: 64" refused 64 "PLUGIN|plugin" wsctl submit
check "usage: bad priority: 64" refused 64 "priority" wsctl submit --priority 101 fib 2
check "usage: bad timeout: 64" refused 64 "duration" wsctl submit --timeout soon fib 2

# The one that is free while the libraries are opened is that of stdin, which wsctl then has /dev/null for.
for verb in list stats ping workers "status 0123456789abcdef0123456789abcdef" "submit fib 3" "cancel --all"; do
  check "no descriptor is left, $verb: 74" refused 74 'wsctl: socket: Too many open files; .*ulimit -n' \
    sh -c "exec <&-; ulimit -n 3; exec wsctl --json $verb"
done

background "$BUILD/tests/support/shims/other-version" "$WORK/other.sock"
wait_until test -S "$WORK/other.sock"
check "wrong version: 76" refused 76 "version" wsctl --socket "$WORK/other.sock" submit fib 20

start_wsd --plugin-dir "$TEST_PLUGINS"
cd "$WORK" || exit 1
cp "$PLUGINS/fib.so" ./mine.so
echo "not an ELF file" >text.so
head -c 100 "$PLUGINS/fib.so" >cut.so
check "missing plugin: 66" refused 66 "no-such-plugin" wsctl submit no-such-plugin
check "missing function: 66" refused 66 "plugin show fib" wsctl submit fib:no-such-function
check "only here: 66, and says to write ./" refused 66 "\./mine.so" wsctl submit mine.so 20
check "by path it works" expect_output 6765 wsctl submit ./mine.so 20
check "plugin show by a relative path, too" sh -c 'wsctl plugin show ./mine.so | grep -q "^fib "'
check "another ABI: 66" refused 66 "ABI" wsctl submit wrong-abi
check "no plugin: 66" refused 66 "not a plugin|no plugin" wsctl submit not-a-plugin
check "no ELF file: 66" refused 66 "text.so" wsctl submit ./text.so
check "half an ELF file: 66" refused 66 "cut.so" wsctl submit ./cut.so
check "missing symbol: 66" refused 66 "symbol" wsctl submit unresolved
check "init says no: 66" refused 66 "init" wsctl submit bad-init
check "a directory: 66" refused 66 "plugin" wsctl submit /usr/
check "full disk for --output: 74" refused 74 "/dev/full" wsctl submit --output /dev/full fib 20
check "full disk on stdout: 74" expect_exit 74 sh -c 'wsctl submit fib 20 >/dev/full'
check "input that is not there: 66" refused 66 "no-such-file" wsctl submit --input no-such-file echo
check "bad arguments of a function: its own status" refused 2 "fib" wsctl submit fib many
check "off by default: 77, and says how" refused 77 "enabled = yes" wsctl submit exec true
check "no such job: 66" refused 66 "job" wsctl status 0123456789abcdef0123456789abcdef
check "await of no such job: 66" refused 66 "job" wsctl await 0123456789abcdef0123456789abcdef
check "no id: 64" refused 64 "id" wsctl status xyz
check "the job's own status: 1 to 63" expect_exit 63 wsctl submit echo:status 63
check "a status that is none becomes 63" expect_exit 63 wsctl submit echo:status 64
check "a crash at load: 66" refused 66 "crash" wsctl submit crash-init
check "and wsd goes on" expect_output 6765 wsctl submit fib 20
stop_wsd
