#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# top.sh: `wsctl top`: what it says in lines and in JSON, and its screen on a terminal of its own: keys, sizes, and that the
# terminal is given back whichever way it ends.
. "$(dirname "$0")/../support/lib.sh"

export PYTHONPATH=$SRC/tests/support PYTHONDONTWRITEBYTECODE=1

check "no daemon: 69" refused 69 "no daemon there" wsctl --socket "$WORK/nobody.sock" top --batch
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "no terminal: 64, and what to do" refused 64 "use --batch" wsctl top
for wrong in "-n 0" "-d soon" "-s size" "-r -1" "now"; do
  # shellcheck disable=SC2086
  check "top $wrong: 64" refused 64 "" wsctl top --batch $wrong
done

# --- lines and objects ---

before_any_work() {
  wsctl top -b -n 1 -d 10ms >"$WORK/out" && cat "$WORK/out" && grep -q '^0\.0 jobs/s  0 open' "$WORK/out" &&
    ! grep -q 'EXECUTOR\|JOB\|PAUSED' "$WORK/out"
}
check "before there is any work" before_any_work

is_running() { # ID
  wsctl --json status "$1" | grep -q '"state":"running"'
}
everything_in_lines() {
  local running waiting
  running=$(wsctl submit --detach sleep:sleep 600000) && wait_until is_running "$running" && wsctl pause echo && waiting=$(wsctl submit --detach echo:echo x) &&
    wsctl limit sleep:sleep 3 && wsctl top --batch --iterations 2 --delay 10ms >"$WORK/out" || return 1
  cat "$WORK/out"
  grep -c '^[0-9.]* jobs/s  2 open: 1 handed to executors, 1 queued  0 refused$' "$WORK/out" | grep -qx 2 &&
    grep -qE "^ +1  $(id -un) +[0-9]+ +[0-9]+ +2 +[0-9]+% +[0-9.]+ ( +[0-9]+){2}\$" "$WORK/out" &&
    grep -qE '^echo +- +0 +1  paused' "$WORK/out" && grep -qE '^sleep:sleep +3 +1 +0' "$WORK/out" &&
    grep -qE "^$(id -un) +1 +1 +0\$" "$WORK/out" && grep -qE "^$running  running .* sleep:sleep\$" "$WORK/out" &&
    grep -qE "^$waiting  queued .* echo:echo\$" "$WORK/out" &&
    [ "$(grep -n "$running" "$WORK/out" | head -n 1 | cut -d : -f 1)" -lt "$(grep -n "$waiting" "$WORK/out" | head -n 1 | cut -d : -f 1)" ] &&
    wsctl --json top -n 1 -d 10ms -s new -r 1 >"$WORK/out" && grep -q '"jobs":\[{"id":"'"$waiting" "$WORK/out"
}
check "jobs, executors, users and gates, in lines; the longest first, or the newest" everything_in_lines
functions_in_lines() {
  for _ in 1 2 3 4 5 6 7; do wsctl submit echo:echo x >/dev/null || return 1; done # the one that waited ran before them
  wsctl top --batch --functions -n 2 -d 10ms >"$WORK/out" || return 1
  cat "$WORK/out"
  grep -q '^FUNCTION .*QUEUE P99' "$WORK/out" && grep -qE "^echo:echo +$(id -un) +0\.0 \[ {20}\] +8 +0 " "$WORK/out" && ! grep -q '^JOB ' "$WORK/out" || return 1
  wsctl --json top -f -n 1 -d 10ms | python3 -c '
import json, sys
(f,) = [f for f in json.loads(sys.stdin.readline())["functions"] if f["name"] == "echo:echo"]
assert f["jobs"] == 8 and f["bad"] == 0 and f["run_p99_usec"] >= f["run_p50_usec"] and not f["in_quarantine"], f'
}
rates_in_lines() { # a look has a rate, and the line of it begins
  background sh -c 'while :; do wsctl submit echo:echo x; done >/dev/null'
  wsctl top -b -f -n 4 -d 300ms >"$WORK/out"
  kill "$BACKGROUND_PID"
  tail -n 3 "$WORK/out"
  grep -qE '^echo:echo .* [1-9][0-9]*\.[0-9] \[ {16}[-.:=+*#]{3,4}\]' "$WORK/out" || grep -qE '^echo:echo .* [1-9][0-9]*\.[0-9] \[ +[-.:=+*#]+\]' "$WORK/out"
}
wsctl resume echo
check "functions, with their times" functions_in_lines
check "and with their rates" rates_in_lines
wsctl cancel "$(wsctl --json list | sed -n 's/^{"id":"\([0-9a-f]*\)".*"state":"running".*/\1/p')"

# Looks while jobs run: each object's rates have to be what its counters say against the object before.
cat >"$WORK/rates.py" <<'END'
import json, os, subprocess, time

ENDS = ['jobs_' + end for end in ('succeeded', 'failed', 'cancelled', 'timed_out', 'crashed', 'interrupted')]
top = subprocess.Popen(['wsctl', 'top', '--json', '--delay', '50ms'], stdout=subprocess.PIPE, text=True)
before, moved, busy = None, 0, False
end = time.monotonic() + 30 * int(os.environ['TIME_SCALE'])
for line in top.stdout:
    assert time.monotonic() < end, (moved, busy, line)
    now = json.loads(line)
    assert sorted(now) == ['counters', 'executors', 'gates', 'interval_usec', 'jobs', 'jobs_per_second', 'listed',
                           'submitted_per_second', 'time_usec', 'users'], sorted(now)
    assert now['listed'] and now['interval_usec'] >= 50000
    if before:
        ended = sum(now['counters'][end] - before['counters'][end] for end in ENDS)
        assert abs(now['jobs_per_second'] - ended * 1e6 / now['interval_usec']) < 0.01, (ended, now)
        moved += ended > 0
    for executor in now['executors']:
        shares = sorted(w['busy_percent'] for w in executor['workers'] if w['kind'] == 'worker')
        assert len(shares) == 2 and 0 <= shares[0] and shares[1] <= 100
        # one job that spins, and small ones beside it
        busy = busy or (shares[1] > 20 and any(w['tasks_per_second'] > 0 for w in executor['workers']))
    before = now
    if moved >= 3 and busy:
        break
top.terminate()
top.stdout.read()
assert top.wait() == 130
END
rates() {
  local load spin
  spin=$(wsctl submit --detach spin:again) || return 1
  background wsctl bench --seconds 1h sleep:sleep 1
  load=$BACKGROUND_PID
  python3 "$WORK/rates.py" && kill -TERM "$load" && wait "$load" && wsctl cancel "$spin"
}
check "rates are what the counters say, and who is busy is seen" rates

flood() {
  # shellcheck disable=SC2046
  wsctl pause echo && background wsctl map --jobs 10001 echo:echo ::: $(seq 10001) >/dev/null || return 1
  wait_until -t 60 sh -c 'wsctl --json stats | grep -q "\"jobs_open\":10001,"' || return 1
  wsctl top -b -n 1 -d 10ms >"$WORK/out" && grep '^more than 10000 jobs' "$WORK/out" &&
    wsctl --json top -n 1 -d 10ms | grep '"listed":false,"users":\[\],"jobs":\[\]' && wsctl resume echo && wait "$BACKGROUND_PID"
}
check "more jobs than anybody reads are not asked for" flood

# --- the screen ---

cat >"$WORK/screen.py" <<'END'
import os, signal, subprocess, sys
from terminal import Terminal

def top(*options, **more):
    return Terminal(['wsctl', 'top', '--delay', '100ms'] + list(options), **more)

def draws_and_quits():
    with top(rows=30, columns=110) as t:
        t.until(r'^wsd .* every 100\.0 ms')
        t.until(r'^[0-9.]+ jobs/s  1 open')
        t.until(r'^JOB +STATE +USER +WORKER')
        t.until(r'^[0-9a-f]{32}  running .* sleep:sleep$')
        t.until(r'^ +1  \S+ +\d+ +\d+ +2 +\d+% ')
        t.send('f')
        t.until(r'^FUNCTION +USER +JOBS/S')
        t.send('f')
        t.until(r'^JOB +STATE +USER +WORKER')
        t.send('q')
        assert t.end() == 0
        assert '\x1b[?1049h' in t.raw and t.raw.count('\x1b[?1049l') == 1 and '\x1b[?25h' in t.raw.split('\x1b[?1049l')[0]

def keys():
    with top() as t:
        t.until('s sort .run.')
        for by in 'cpu', 'new', 'run':
            t.send('s')
            t.until('s sort .%s.' % by)
        t.send('xyz\x1b[A')  # nothing of that is a key
        t.send(' ')
        t.until('stopped')
        t.send('p')
        t.until('stopped', gone=True)
        t.send('q')
        assert t.end() == 0

def sizes():
    with top(rows=40, columns=140) as t:
        t.until(r'^[0-9a-f]{32}  running .* sleep:sleep$')
        for rows, columns in (12, 50), (3, 20), (1, 1), (60, 200):
            t.resize(rows, columns)
            t.until(r'^w' if columns == 1 else r'^wsd 0')
            assert len(t.lines) == rows
        t.until(r'^[0-9a-f]{32}  running .* sleep:sleep$')
        t.resize(4, 80)
        t.until(r'^q quit')
        t.send('q')
        assert t.end() == 0

def ends_by_itself():
    with top('--iterations', '2') as t:
        assert t.end() == 0

def signals():
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        with top() as t:
            t.until('^q quit')
            t.signal(number)
            assert t.end() == 130
            assert t.raw.count('\x1b[?1049l') == 1
    with top() as t:
        t.until('^q quit')
        t.send('\x1c\x03')  # Ctrl-\ does nothing, Ctrl-C ends it
        assert t.end() == 130

def stopped_by_hand():
    """Ctrl-Z gives the terminal back, too, and fg takes it again."""
    with Terminal(['bash', '--norc', '--noprofile', '-i'], rows=30, columns=110) as t:
        t.send('PS1="ready"\\> ; wsctl top --delay 100ms\n')
        t.until('^q quit')
        t.send('\x1a')
        t.until('Stopped')
        t.send('fg\n')
        t.until('^q quit')
        t.send('q')
        t.until('^ready> *$')
        t.send('exit\n')
        assert t.end() == 0

def standing_daemon():
    """It waits for an answer: the second Ctrl-C ends it, and the terminal is as it was."""
    wsd = int(os.environ['WSD_PID'])
    with top() as t:
        t.until('^[0-9.]+ jobs/s')
        os.kill(wsd, signal.SIGSTOP)
        try:
            while t.read(1):  # until nothing more is drawn
                pass
            t.signal(signal.SIGINT)  # a Ctrl-C of which we know when it has come: two that it has not seen are one
            t.until_heeded(signal.SIGINT)
            t.read(0.5)
            assert t.process.poll() is None  # or this shows nothing
            t.send('\x03')
            assert t.end() == 130
            assert t.raw.count('\x1b[?1049l') == 1 and '\x1b[?25h' in t.raw
        finally:
            os.kill(wsd, signal.SIGCONT)

def unknown_terminal():
    # ncurses keeps what it has made for a terminal before it finds that it does not know it
    with top(env={'TERM': 'no-such-terminal', 'ASAN_OPTIONS': 'detect_leaks=0'}) as t:
        t.until('^wsctl: top: cannot draw .*no-such-terminal')
        assert t.end() == 64

def dead_daemon():
    with top('--delay', '1h', columns=100) as t:
        t.until('^q quit')
        os.kill(int(os.environ['WSD_PID']), signal.SIGKILL)
        assert t.end() == 69  # at once, not after an hour
        assert t.raw.split('\x1b[?1049l')[1].count('wsctl: top: ') == 1, t.raw[-300:]

globals()[sys.argv[1]]()
END
id=$(wsctl submit --detach sleep:sleep 600000)
export WSD_PID
for what in draws_and_quits keys sizes ends_by_itself signals stopped_by_hand standing_daemon unknown_terminal; do
  check "screen: ${what//_/ }" python3 "$WORK/screen.py" "$what"
done
wsctl cancel "$id"
check "screen: dead daemon" python3 "$WORK/screen.py" dead_daemon
