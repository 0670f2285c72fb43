#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# incidents.sh: brings about each of the twelve incidents of packaging/doc/incidents.md, and runs the commands that it
# gives: they say what stands below them there.
. "$(dirname "$0")/../support/lib.sh"

export WSD_SOCKET=$WORK/wsd.sock
GUIDE=$SRC/packaging/doc/incidents.md
# the blocks of a section are run with ID and FILE as the job and the file that it is about
cat >"$WORK/guide.py" <<'END'
import re, subprocess, sys

path, section, job, file = sys.argv[1:]
text = open(path, encoding='utf8').read()
parts = re.split(r'^## (.*)$', text, flags=re.M)
body = parts[0] if section == 'begin' else dict(zip(parts[1::2], parts[2::2]))[section]
blocks = re.findall(r'^```console\n(.*?)^```$', body, flags=re.M | re.S)
assert blocks, 'the section has no commands'


def fits(wanted, line):
    words = [re.sub(r'(\\ )+', r'\\s+', re.escape(word.strip())) for word in wanted.split('…')]
    return re.fullmatch('.*'.join(words), line.strip())


for block in blocks:
    for command, wanted in re.findall(r'^\$ (.*)\n((?:(?!\$ ).*\n)*)', block, flags=re.M):
        command = command.replace('ID', job).replace('FILE', file)
        run = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        said = (run.stdout + run.stderr).splitlines()
        for line in wanted.replace('ID', job, 1 if 'wsctl: ID' in wanted else 0).replace('FILE', file).splitlines():
            assert any(fits(line, s) for s in said), f'{command}: nothing like {line!r} in\n' + '\n'.join(said[:30])
END
guide() { # SECTION [JOB [FILE]]
  /usr/bin/python3 "$WORK/guide.py" "$GUIDE" "$1" "${2:-}" "${3:-}"
}
every_section() {
  grep '^## ' "$GUIDE" | sed 's/^## //' | sort >"$WORK/sections"
  sort "$WORK/followed" | comm -3 "$WORK/sections" - | tee "$WORK/left"
  [ ! -s "$WORK/left" ]
}
follows() { # SECTION [JOB [FILE]]
  echo "$1" >>"$WORK/followed"
  check "$1" guide "$@"
}

printf '[limits]\nmax-jobs-per-user = 50\ncancel-grace = 200ms\nexecutor-memory = 512M\nquarantine-after = 100\n' >"$WSD_CONFIG"
WSD_OPTIONS=(--workers 2 --plugin-dir "$TEST_PLUGINS:$PLUGINS" --state-dir "$WORK/state")
serve || exit 1

job_runs() { wsctl --json status "$1" | grep -q '"state":"running"'; }
wsctl submit incidents:leak 40 && wsctl submit incidents:leak 40
check "where to begin" guide begin
follows "Memory grows"

job=$(wsctl submit --detach incidents:deadlock)
wait_until job_runs "$job"
follows "A job never ends, and uses no CPU" "$job"
job=$(wsctl submit --detach incidents:spin)
wait_until job_runs "$job"
follows "A job never ends, and uses a CPU" "$job"
wsctl cancel "$job"
wsctl await "$job" >/dev/null 2>&1

for _ in 1 2 3; do wsctl submit incidents:slow 100; done
follows "Everything is slow"
seq 100 | wsctl map --keep-going incidents:rare >/dev/null 2>&1
crashed=$(wsctl submit --detach incidents:rare 13)
wsctl await "$crashed" >/dev/null 2>&1
follows "One job in a hundred crashes" "$crashed"
hungry=$(wsctl submit --detach incidents:hungry)
wsctl await "$hungry" >/dev/null 2>&1
follows "A function needs too much memory" "$hungry"

for _ in $(seq 50); do wsctl submit --detach incidents:slow 600000; done >/dev/null
follows "One user floods the queue"
follows "A user has reached a limit"
wsctl cancel --all >/dev/null
follows "A plugin was built for another wsd"
follows "A library or a symbol is missing"
stop_wsd

# a disk whose fsync takes half a second
if strace -o /dev/null -e trace=fdatasync -e inject=fdatasync:delay_exit=1000 true 2>/dev/null; then
  WSD_PREFIX=(strace -f -o /dev/null -e 'trace=fdatasync,fsync' -e 'inject=fdatasync,fsync:delay_exit=500000' --)
  serve || exit 1
  WSD_PREFIX=()
  wsctl submit --durable fib 5 >/dev/null
  is_slow() { [ "$(counter store_commit_most_usec)" -ge 500000 ] && [ "$(counter store_commits)" -ge 1 ]; }
  check "its transactions are counted, and how long they take" is_slow
  follows "The store is slow"
  pkill -KILL -P "$WSD_PID" # wsd itself
  wait "$WSD_PID" 2>/dev/null
else
  skip "The store is slow" "strace cannot inject here"
  echo "The store is slow" >>"$WORK/followed"
fi

# somebody else's file
if [ "$UID" = 0 ] && command -v setpriv >/dev/null; then
  . "$(dirname "$0")/../support/users.sh"
  install_for_all fork
  printf '[daemon]\nsystem = yes\nsocket-group = %s\n' "$(getent group $GROUP_ID | cut -d: -f1)" >"$WSD_CONFIG"
  chmod 644 "$WSD_CONFIG" "$WORK/guide.py"
  WSD_OPTIONS=(--workers 2)
  serve || exit 1
  echo needle >"$WORK/inst/secret"
  chmod 600 "$WORK/inst/secret"
  cp "$GUIDE" "$WORK/guide.md"
  chmod 644 "$WORK/guide.md"
  as_alice() { as "$ALICE" env PATH="$WORK/inst:$PATH" /usr/bin/python3 "$WORK/guide.py" "$WORK/guide.md" "$1" '' "$WORK/inst/secret"; }
  check "A file is not permitted" as_alice "A file is not permitted"
  kill_wsd
else
  skip "A file is not permitted" "only root can act as another user"
fi
echo "A file is not permitted" >>"$WORK/followed"
check "each section was followed" every_section
