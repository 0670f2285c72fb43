#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# profile.sh: `wsctl profile`: what is sampled and how it is told, who may, and executors that die or lie meanwhile;
# `wsctl status --stack`: where a job stands.
. "$(dirname "$0")/../support/lib.sh"

LIAR=$BUILD/tests/support/shims/liar
FOLDED=$WORK/stacks

traces() { # N: so many are under way
  [[ $(wsctl --json stats) == *'"traces":'"$1",* ]]
}

# The samples of all stacks in which this comes.
samples() { # PATTERN
  grep -E "$1" "$FOLDED" | awk '{ n += $NF } END { print n + 0 }'
}

# Succeeds when the command does, and a line of its stdout has the PATTERN of grep -E.
prints() { # PATTERN COMMAND...
  local pattern=$1
  shift
  "$@" >"$WORK/printed" || return 1
  grep -qE -e "$pattern" "$WORK/printed" || {
    cat "$WORK/printed"
    return 1
  }
}

# As long as it takes to have so many: a machine that is busy has few.
until_sampled() { # N SUBJECT
  for _ in $(seq 60); do
    wsctl profile -q --folded -s 300ms --rate 499 -o "$WORK/more" "$2" || return 1
    cat "$WORK/more" >>"$FOLDED"
    [ "$(samples "^$2")" -ge "$1" ] && return 0
  done
  return 1
}

shares() { # PATTERN OF LEAST MOST: so many hundredths
  local part all
  part=$(samples "$1") all=$(samples "$2")
  echo "$part of $all samples"
  [ "$all" -gt 0 ] && [ $((100 * part)) -ge $(($3 * all)) ] && [ $((100 * part)) -le $(($4 * all)) ]
}

runs() { # [ARG...]: a job, until the next call of ends
  background wsctl submit "$@"
  JOB=$BACKGROUND_PID
  wait_until sh -c 'wsctl list | grep -q running'
}

ends() {
  kill -TERM "$JOB"
  wait_for_exit "$JOB" >"$WORK/ended" 2>&1
}

id_of_job() {
  wsctl list | awk '/running/ { print $1; exit }'
}

cd "$WORK" || exit 1
check "no duration: 64" refused 64 "not a duration" wsctl profile --seconds soon
check "rate 0: 64" refused 64 "write 1 to 999" wsctl profile --rate 0
check "rate 1000: 64" refused 64 "write 1 to 999" wsctl profile --rate 1000
check "two functions: 64" refused 64 "takes one PLUGIN" wsctl profile a b
check "two forms: 64" refused 64 "exclude each other" wsctl profile --folded --pprof
check "options behind the plugin count: 64" refused 64 "exclude each other" wsctl profile fib --folded --pprof
check "an unknown one: 64" refused 64 "no-such" wsctl profile fib --no-such
check "behind the plugin of a job stand its arguments" refused 2 "usage: fib N" wsctl profile --parallelism fib --folded

check "--parallelism without a job: 64" refused 64 "no plugin is named" wsctl profile --parallelism
check "--workers 0: 64" refused 64 "write 1 to 256" wsctl profile --scale --workers 0 fib 1
check "--workers 257: 64" refused 64 "write 1 to 256" wsctl profile --scale --workers 257 fib 1
check "--workers of a profile: 64" refused 64 "is for --parallelism" wsctl profile --workers 2
check "--parallelism and --scale: 64" refused 64 "exclude each other" wsctl profile --parallelism --scale fib 1
check "a job that fails: its code" refused 2 "usage: fib N" wsctl profile --parallelism fib x

# --- work and span: counted in strands, against the trees of the programs

cat >"$WORK/strands.py" <<'EOF'
"""strands.py fib|nqueens N: those of `wsctl profile --parallelism` are exact; times are in order."""
import json, subprocess, sys

def join(children):
    """Work and span of: spawn each child, then sync each; without the last strand."""
    work, path, ends = 0, 0, []
    for child_work, child_path in children:
        path += 1
        ends.append(path + child_path + 1)
        work += 1 + child_work + 1
    for end in reversed(ends):
        path = max(path + 1, end)
        work += 1
    return work, path

def fib(n):
    if n < 2:
        return 0, 0
    if n not in known:
        (work, path), (beside, beside_path) = fib(n - 1), fib(n - 2)
        known[n] = work + beside + 3, max(1 + path + 1, 1 + beside_path + 1)
    return known[n]

def place(n, columns=0, left=0, right=0):
    free = ~(columns | left | right) & (1 << n) - 1
    bits = [1 << i for i in range(n) if free >> i & 1]
    return join([place(n, columns | b, (left | b) << 1, (right | b) >> 1) for b in bits])

known, (name, n) = {}, (sys.argv[1], int(sys.argv[2]))
work, span = (w + 1 for w in (fib if name == 'fib' else place)(n))
told = json.loads(subprocess.run(['wsctl', '--json', 'profile', '--parallelism', name, str(n)], check=True, capture_output=True).stdout)
assert (told['work_strands'], told['span_strands']) == (work, span), (told, work, span)
assert told['burdened_nsec'] >= told['span_nsec'] and told['work_nsec'] >= told['span_nsec'], told
print(told, 'known parallelism of strands %.1f' % (work / span))
EOF
for n in 0 1 2 3 20; do
  check "work and span of fib $n" python3 "$WORK/strands.py" fib "$n"
done
for n in 1 4 8; do
  check "work and span of nqueens $n" python3 "$WORK/strands.py" nqueens "$n"
done
check "--scale: a row for each number of workers" prints '^ +3 +[0-9.]+ ' wsctl profile --scale --workers 3 fib 20
check "and a drawing" python3 -c "import xml.etree.ElementTree as t; assert len(t.parse('wsd-scale.svg').findall('.//{*}circle')) == 3"

start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check "no executor: a profile without samples" prints "no executor ran" wsctl profile --seconds 10ms
check "which is one, under its own name" grep -q "</svg>" wsd-profile.svg
check "rate 1" wsctl profile -q --rate 1 --seconds 10ms
check "rate 999" wsctl profile -q --rate 999 --seconds 10ms

runs profiled:work
check "a job is sampled" until_sampled 400 profiled:work
check "a flame graph is XML, with the function in it" wsctl profile -q -s 300ms --rate 499 -o flame.svg
check "so it is" python3 -c "import xml.etree.ElementTree as t; assert any(g.get('data-n') == 'profiled_heavy' for g in t.parse('flame.svg').iter())"
if command -v go >/dev/null; then
  check "--pprof" wsctl profile -q --pprof -s 500ms --rate 499 -o p.pb.gz profiled
  check "is what pprof reads" prints 'profiled_heavy$' go tool pprof -top p.pb.gz
else
  skip "--pprof" "no go tool pprof here"
fi
check "in its functions, by their names" shares 'profiled:work;work;profiled_pair;profiled_(heavy|light) ' . 90 100
check "in the one that burns three quarters" shares ';profiled_heavy ' ';profiled_(heavy|light) ' 65 85
check "a stack is whole" shares 'no unwind table|cut off' . 0 2
: >"$FOLDED"
check "another function's samples are left out" wsctl profile -q --folded -s 200ms -o "$FOLDED" profiled:nap
check "all of them" same 0 "$(samples .)"
check "--json names the function first" prints '"functions":\[\{"name":"profiled_heavy",' \
  wsctl profile --json -s 500ms --rate 499 profiled
ends

: >"$FOLDED"
runs profiled:tasks
check "a job with a task that is stolen" until_sampled 400 profiled:tasks
ends
check "its task stands below the function that spawned it" \
  shares ';tasks;profiled_spawner;\[stolen\];(.*;)?profiled_leaf[a-z_]*;profiled_heavy ' ';profiled_heavy ' 90 100
check "and not below one that was called afterwards" shares ';profiled_light;\[stolen\]' . 0 5

: >"$FOLDED"
runs profiled:wild
check "a job whose stack is wild is sampled" until_sampled 200 profiled:wild
[ "$(uname -m)" != x86_64 ] ||
  check "to where it breaks, and no further" shares 'profiled:wild;\[no unwind table\];profiled_wild ' . 50 100
check "and goes on" some_job_is running
ends

if [ -e "$TEST_PLUGINS/throws.so" ]; then
  : >"$FOLDED"
  runs throws:burns
  check "a job in C++ is sampled" until_sampled 50 throws:burns
  check "its functions have the names that people write" \
    shares ';moon::crater<int>::dig\(wsd_job\*, std::.*string.*\) ' . 80 100
  check "also in a flame graph" wsctl profile -q -s 300ms --rate 499 -o flame.svg
  check "which is XML" python3 -c "import xml.etree.ElementTree as t; assert any((g.get('data-n') or '').startswith('moon::crater<int>::dig(') for g in t.parse('flame.svg').iter())"
  check "and in --json" prints '"name":"moon::crater<int>::dig\(wsd_job\*' wsctl profile --json -s 500ms --rate 499 throws
  check "and where the job stands" prints 'moon::crater<int>::dig\(wsd_job\*.*\)\+0x[0-9a-f]+ in throws\+0x' \
    wsctl status --stack "$(id_of_job)"
  mkdir "$WORK/none" && : >"$WORK/none/libstdc++.so.6"
  check "without libstdc++ they stay" prints '_ZN4moon6craterIiE3dig[A-Za-z0-9_]*\+0x' \
    env LD_LIBRARY_PATH="$WORK/none" wsctl status --stack "$(id_of_job)"
  ends
else
  skip "names of C++" "there is no C++ compiler here"
fi

check "a trace begins" wsctl trace --start
check "a profile, too: 75" refused 75 "trace or profile is under way" wsctl profile -s 10ms -o "$WORK/no"
check "and has left no file" test ! -e "$WORK/no"
check "the trace ends as one" wsctl trace --stop -q -o "$WORK/trace"
background wsctl profile --quiet --seconds 1h -o "$WORK/p.svg"
wait_until traces 1
check "while a profile is under way, a trace: 75" refused 75 "trace or profile is under way" wsctl trace -s 10ms
check "and its end is not a trace's: 66" refused 66 "no trace is under way" wsctl trace --stop
check "SIGTERM, as Ctrl-C," kill -TERM "$BACKGROUND_PID"
check "ends it, with a file" wait_for_exit "$BACKGROUND_PID"
check "that is one" grep -q "</svg>" "$WORK/p.svg"
background wsctl profile --quiet --seconds 1h -o "$WORK/killed.svg"
wait_until traces 1
kill -KILL "$BACKGROUND_PID"
check "who is killed leaves no profile running" wait_until traces 0
check "a full disk: 74" refused 74 "No space left" wsctl profile -s 10ms -o /dev/full

background wsctl profile --quiet --seconds 1h --rate 999 -o "$WORK/p.svg"
wait_until traces 1
check "a job that sleeps is not disturbed" expect_output slept wsctl submit profiled:nap 300
check "its executor is killed; the next one serves" sh -c "pkill -KILL -P $WSD_PID; wsctl submit echo x >/dev/null"
kill -TERM "$BACKGROUND_PID"
check "the profile's end says so: 74" expect_exit 74 wait_for_exit "$BACKGROUND_PID"

# --- an executor that is stopped

signal_executor() { # SIGNAL
  pkill "-$1" -P "$WSD_PID" -x wsd-executor
}
# SIGTERM ends PROFILE before another client has its answer, which waits for as long as wsd does.
ends_while_another_waits() {
  local asker status=0
  background wsctl workers >"$WORK/workers" 2>&1
  asker=$BACKGROUND_PID
  kill -TERM "$PROFILE"
  expect_exit 74 wait_for_exit "$PROFILE" || status=1
  kill -0 "$asker" || status=1
  signal_executor CONT
  cat "$WORK/err"
  wait_for_exit "$asker" && [ "$status" = 0 ] && grep -q '^wsctl: executor [0-9]*: it does not answer' "$WORK/err"
}
stopped_before() { # COMMAND...
  signal_executor STOP
  background "$@" 2>"$WORK/err"
  PROFILE=$BACKGROUND_PID
  wait_until traces 1 && ends_while_another_waits
}
stopped_meanwhile() { # COMMAND...
  background "$@" 2>"$WORK/err"
  PROFILE=$BACKGROUND_PID
  wait_until traces 1 && wsctl workers >/dev/null && signal_executor STOP && ends_while_another_waits
}
check "stopped before a profile: its end comes at once, and names the executor" \
  stopped_before wsctl profile --quiet --seconds 1h -o "$WORK/p.svg"
check "stopped meanwhile" stopped_meanwhile wsctl profile --quiet --seconds 1h -o "$WORK/p.svg"
check "stopped before a trace" stopped_before wsctl trace --quiet --seconds 1h -o "$WORK/trace"
check "stopped meanwhile" stopped_meanwhile wsctl trace --quiet --seconds 1h -o "$WORK/trace"
check "it goes on" expect_output slept wsctl submit profiled:nap 1

# --- where a job stands

runs profiled:work
check "a job that spins: its functions" prints 'profiled_(heavy|light|pair)\+0x' wsctl status --stack "$(id_of_job)"
check "and its worker" prints '^worker [01], it (runs|sleeps)' wsctl status --stack "$(id_of_job)"
check "--json has it, too" prints '"stack":"worker [01]' wsctl --json status --stack "$(id_of_job)"
check "one that does not exist: 66" refused 66 "no such job" wsctl status --stack 0123456789abcdef0123456789abcdef
ends
id=$(wsctl submit --detach profiled:nap 1)
check "one that has ended" wait_until job_is succeeded "$id"
check "stands nowhere: 66" refused 66 "does not run now" wsctl status --stack "$id"
runs profiled:nap 100000
check "one that sleeps in a system call: there" prints 'profiled_wait\+0x' wsctl status --stack "$(id_of_job)"
wait_for_exit "$JOB" >"$WORK/ended" 2>&1
runs profiled:deadlock
check "one that is deadlocked: there" prints 'profiled_lock\+0x' wsctl status --stack "$(id_of_job)"
check "and it still is" prints 'profiled_lock\+0x' wsctl status --stack "$(id_of_job)"
ends
stop_wsd

# --- beside perf

# The functions of a plugin with most samples in perf, the first three.
perf_names() { # PLUGIN
  perf report -i "$WORK/perf.data" --no-children --dsos "$1.so" -F overhead,sym --stdio 2>/dev/null |
    awk '$1 ~ /%$/ && $2 == "[.]" { print $3 }' | head -n 3
}

# Whether these are among the first of the profile. perf sees the job inside wsctl, where the plugin's file has a name.
agrees() { # PLUGIN [ARG...]
  local name names loop
  perf record -q -e cpu-clock -F 499 -o "$WORK/perf.data" -- \
    sh -c 'for i in 1 2 3 4 5 6 7 8; do wsctl submit --local "$@" >/dev/null; done' sh "$@" || return 1
  touch "$WORK/go"
  (while [ -e "$WORK/go" ]; do wsctl submit "$@" >/dev/null; done) &
  loop=$!
  note_started "$loop"
  wsctl --json profile -s 4s --rate 499 "$1" >"$WORK/profile.json"
  rm "$WORK/go"
  wait "$loop"
  names=$(perf_names "$1")
  [ -n "$names" ] || return 1
  for name in $names; do
    python3 -c "import json, sys; f = [x['name'] for x in json.load(open('$WORK/profile.json'))['functions']][:5]; sys.exit(sys.argv[1] not in f)" "$name" || {
      echo "$name is not among the first: perf has" "$names"
      cat "$WORK/profile.json"
      return 1
    }
  done
}
if [ -z "${WSD_THOROUGH:-}" ]; then
  skip "the same functions as perf" "only in the thorough run"
elif ! perf record -q -e cpu-clock -o /dev/null true >/dev/null 2>&1; then
  skip "the same functions as perf" "no perf here"
else
  start_wsd --workers 2 || exit 1
  head -c 3000000 /dev/urandom | base64 -w 60 >"$WORK/lines"
  check "sort: the functions that perf names" agrees sort --input "$WORK/lines"
  check "fib: the same" agrees fib 36
  stop_wsd
fi

# --- an executor that lies

EXECUTOR=$LIAR
start_wsd || exit 1
check "an executor that writes nonsense: its job" wsctl submit asked-text
check "a profile of it: 74" says 74 "of an executor: no stacks" wsctl profile -s 10ms -o "$WORK/p.svg"
check "and the file is a graph" grep -q "</svg>" "$WORK/p.svg"
stop_wsd
start_wsd || exit 1
check "one that ends when it is asked: its job" wsctl submit asked-die
check "its end is told: 74" expect_exit 74 wsctl profile -s 10ms -o "$WORK/p.svg"
stop_wsd
