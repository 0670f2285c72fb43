#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2317 # text for another shell; for_workers calls functions by name
# exec.sh: the plugin exec against the command itself. The runner must allow it (EXEC=no: it does not, skip).
set -eu
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2034 # lib.sh reads them
PLUGIN=exec TOOL=()

if [ "${EXEC:-yes}" = no ]; then
  echo "skip exec: not allowed here"
  exit 0
fi

# status NAME STATUS TEXT COMMAND…: the exit code, and what the error says.
status() {
  local name=$1 wanted=$2 text=$3
  shift 3
  got exec "$@"
  if [ "$(cat "$work.got.status")" -eq "$wanted" ] && grep -q -e "$text" "$work.got.err"; then
    good "$name"
  else
    bad "$name"
    cat "$work.got.err" >&2
  fi
}

big "$work/big" 3
: >"$work/none"
cd "$work"
same "cat of a file in the working directory" cat big
same "the working directory" pwd
input big cat
input none cat
input big sha256sum
input big head -n 1
same "arguments as they are" printf '%s|' 'a b' '' "it's" $'new\nline' $'\351'
for n in 0 1 2 63; do
  same "status $n" sh -c "echo out; exit $n"
done
status "status 64" 63 "exit 64" sh -c 'exit 64'
status "status 255" 63 "exit 255" sh -c 'exit 255'
status "a signal" 63 "signal 9" sh -c 'kill -9 $$'
status "not found" 63 "not found" no-such-command-here
status "no such path" 63 "No such file" ./no-such-command-here
status "not executable" 63 "Permission denied" ./big
status "stderr arrives" 3 "to stderr" sh -c 'echo to stderr >&2; exit 3'
status "a long line on stderr" 0 "xxxxx" sh -c 'head -c 100000 /dev/zero | tr "\0" x >&2'
refused "no command" 2 exec

echo 0 >"$work.want.status"
cat >"$work.want" <<'END'
PATH
END
got exec sh -c 'env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= | cut -d= -f1'
verdict "PATH is the only variable"
# ls itself opens the folder, as 3
printf '0\n1\n2\n3\n' >"$work.want"
got exec ls /proc/self/fd
verdict "no other descriptor"
echo '0000000000000000 0000000000000000' >"$work.want"
got exec sh -c 'set -- $(grep -e SigBlk -e SigIgn /proc/self/status); echo "$2 $4"'
verdict "signals are as usual"

begin=$(date +%s)
got exec sh -c 'sleep 30 & echo started'
printf 'started\n' >"$work.want"
verdict "what stays in the background does not keep the job"
if [ $(($(date +%s) - begin)) -lt 10 ]; then
  good "... and it ends soon"
else
  bad "... and it ends soon"
fi
mark=31.$$
got exec sh -c "sleep $mark & echo started"
sleep 0.2
if grep -z -l -x -e "$mark" /proc/[0-9]*/cmdline >"$work/left" 2>/dev/null; then
  bad "nothing is left running"
else
  good "nothing is left running"
fi
finish
