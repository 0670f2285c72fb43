#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""armed: drives a wsd in which faults.so can be armed (by a FAULTS_FILE of 40 bytes) through each verb, with each N-th call of wsd failing.

  armed FAULTS-FILE RUNS WSCTL EXECUTOR-PARENT-PID [SCENARIO...]

RUNS: how many N of each scenario at most. Each verb ends with 0 and exactly what it should say, or with another status and words. What
was accepted is there afterwards and ends as it should, or as failed with a reason; another client's answers are right."""
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import time

path, runs, wsctl, parent = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
work = os.environ['WORK']
limit = 60 * int(os.environ.get('TIME_SCALE', '1'))
with open(path, 'r+b') as f:
    state = mmap.mmap(f.fileno(), 40)
bad = 0
turn = 0
now = ''


def arm(nth, behind):
    state[16:40] = struct.pack('=QQQ', 0, nth, behind + 1)
    state[0:1] = b'1'


def disarm():
    state[0:1] = b'0'
    return struct.unpack('=Q', state[16:24])[0]


def wrong(why):
    global bad
    bad += 1
    print(f'{now}: {why}')


def call(*args, given=''):
    try:
        r = subprocess.run([wsctl, *args], input=given, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        wrong(f'{args}: no end in {limit} s')
        return 124, '', 'timeout'
    if r.returncode < 0:
        wrong(f'{args}: ended by signal {-r.returncode}')
    elif r.returncode and not r.stderr:
        wrong(f'{args}: {r.returncode} without a word')
    return r.returncode, r.stdout, r.stderr


def expect(output, *args, given=''):
    code, out, _ = call(*args, given=given)
    if code == 0 and out != output:
        wrong(f'{args}: 0, but {out[:200]!r} is not {output[:200]!r}')
    return code == 0


def fresh(*options):
    """The executor is replaced while calls fail."""
    subprocess.run(['pkill', '-KILL', '-P', parent, '-x', 'wsd-executor'], check=False)
    expect('6765\n', 'submit', *options, 'fib', '20')


def spawned(what):
    """So is a user's, whom wsd-spawn starts it for, or wsd-spawn itself."""
    helper = subprocess.run(['pgrep', '-P', parent, '-x', 'wsd-spawn'], capture_output=True, text=True, check=False).stdout.strip()
    subprocess.run(['pkill', '-KILL', '-P', helper or '0', '-x', 'wsd-executor'] if what == 'wsd-executor' else
                   ['pkill', '-KILL', '-P', parent, '-x', 'wsd-spawn'], check=False)
    expect('6765\n', 'submit', 'fib', '20')


def later(*options):
    """An id was given: the job is there when the calls go well again, and has its output, or says why not."""
    code, out, _ = call('submit', '--detach', *options, 'fib', '20')
    return (lambda: there(out.strip())) if code == 0 else None


def there(job):
    code, out, err = call('await', job)
    if code == 0 and out != '6765\n':
        wrong(f'job {job}: {out!r} {err!r} {call("--json", "status", job)}')
    if code in (66, 75, 76):
        wrong(f'job {job} was accepted, and is lost: {code}: {err}')


def cancel():
    code, out, _ = call('submit', '--detach', '--delay', '1h', 'fib', '20')
    if code:
        return None
    job = out.strip()
    said = call('cancel', job)[0] == 0

    def judge():
        end = call('status', job)[1] if said else ''
        if said and 'cancelled' not in end:
            wrong(f'job {job} was told to be cancelled: {end!r}')
        call('cancel', job)
    return judge


def after():
    code, out, _ = call('submit', '--detach', 'fib', '10')
    return later('--after', out.strip()) if code == 0 else None


def schedule():
    name = f's{random.getrandbits(40)}'
    added = call('schedule', 'add', name, '--on', 'daily', 'fib', '20')[0] == 0
    tried = random.getrandbits(1)
    removed = tried and call('schedule', 'remove', name)[0] == 0

    def judge():
        listed = name in call('schedule', 'list')[1]
        if listed and removed or not listed and added and not tried: # the answer, too, may have been lost behind what was done
            wrong(f'schedule {name}: added {added}, removed {removed}, listed {listed}')
        if listed:
            call('schedule', 'remove', name)
    return judge


def lists():
    code, out, _ = call('--json', 'list')
    if code == 0 and sorted(job for job in held if job in out) != sorted(held):
        wrong(f'list: 0, without some of the {len(held)} jobs')
    for job in held[:1]:
        code, out, _ = call('status', job)
        if code == 0 and 'fib' not in out:
            wrong(f'status: {out!r}')
    code, out, _ = call('plugin', 'list')
    if code == 0 and out != plugins:
        wrong(f'plugin list: {out!r}')
    call('stats')
    call('workers')


def batch():
    code, out, _ = call('map', '--detach', 'fib', given='20\n' * 30)
    if code:
        return None

    def judge():
        code, _, err = call('await', out.strip())
        if code in (66, 76):
            wrong(f'batch {out!r} was accepted, and is lost: {code}: {err}')
    return judge


lines_seen = []  # when


def reloads():
    """The configuration is the new one, or stays, and the log says which. What could not be had besides stands in the log."""
    global turn
    config, log = os.environ['WSD_CONFIG'], os.environ['WSD_LOG']
    with open(config, encoding='utf-8') as f:
        before = f.read()
    with open(log, encoding='utf-8', errors='replace') as f:
        f.seek(0, os.SEEK_END)
        end = f.tell()
    turn += 1
    with open(config, 'w', encoding='utf-8') as f:
        f.write(f'[plugin exec]\nenabled = yes\n[limits]\nkeep-results = 1h\nmax-jobs-per-user = {100000 + turn}\n[access]\nsubmit = root @root\n'
                f'[schedule s{turn}]\non = yearly\njob = fib 20\n[plugin none{turn}]\nmax-run = 1h\n')
    os.kill(int(parent), signal.SIGHUP)
    said = ''
    for _ in range(limit * 100):
        time.sleep(0.01)
        with open(log, encoding='utf-8', errors='replace') as f:
            f.seek(end)
            said = f.read()
        if 'read again\n' in said or 'stays as it was' in said:
            break
    else:
        wrong(f'no end of a reload: {said!r}')
    taken = 'read again\n' in said
    number = turn

    def judge():
        limits, schedules = call('limits')[1], call('schedule', 'list')[1]
        if (str(100000 + number) in limits) != taken:
            wrong(f'reload: {said!r}, but {limits!r}')
        if taken and f's{number} ' not in schedules and 'schedule' not in said:
            wrong(f'reload: {said!r}, but {schedules!r}')
        if taken and f'none{number}.so' not in said:
            wrong(f'reload: no warning of what has no effect: {said!r}')
        if not taken:
            with open(config, 'w', encoding='utf-8') as f:
                f.write(before)
    lines_seen.extend([time.monotonic()] * said.count('\n'))
    return judge


def room_in_the_log():
    """The log takes 40 lines of a kind in ten seconds: waits until a reload's fit, were all of one kind."""
    while sum(time.monotonic() - seen < 10 for seen in lines_seen) > 30:
        time.sleep(0.05)


with open(f'{work}/graph.json', 'w', encoding='ascii') as f:
    f.write('{"nodes":[{"name":"a","plugin":"fib","args":["20"]},{"name":"b","plugin":"fib","args":["10"],"after":["a"]}]}')
with open(f'{work}/large', 'w', encoding='ascii') as f:
    f.write('a line of words\n' * 20000)

scenarios = {
    'submit': lambda: expect('6765\n', 'submit', 'fib', '20'),
    'submit, a new executor': fresh,
    'a new executor of wsd-spawn': lambda: spawned('wsd-executor'),
    'a new wsd-spawn': lambda: spawned('wsd-spawn'),
    'input and output': lambda: expect('a line of words\n', 'submit', '--input', f'{work}/large', 'sort', '-u'),
    'map': lambda: expect('55\n' * 40, 'map', 'fib', given='10\n' * 40),
    'detached': later,
    'durable': lambda: later('--durable', '--key', str(random.getrandbits(60))),
    'tag and retries': lambda: later('--tag', 'one', '--retries', '2'),
    'after': after,
    'batch': batch,
    'graph': lambda: expect('6765\n55\n', 'run', f'{work}/graph.json'),
    'exec': lambda: expect('said\n', 'submit', 'exec', 'echo', 'said'),
    'cancel': cancel,
    'schedule': schedule,
    'list, status, plugins': lists,
    'reload': reloads,
}
# Before it: nothing is being loaded. Who dies twice at a load is not tried again for 10 seconds.
settle = lambda: expect('6765\n', 'submit', 'fib', '20') or wrong('wsd does not serve')
prepare = {name: settle for name in scenarios if 'new' in name}
prepare['reload'] = room_in_the_log
# Once before all: the first schedule makes thousands of calls that no later one makes.
once = {'reload': reloads}
held = [call('submit', '--detach', '--delay', '1h', 'fib', '1')[1].strip() for _ in range(20)]
plugins = call('plugin', 'list')[1]
wanted = sys.argv[5:] or list(scenarios)
for name in wanted:
    now = name
    once.get(name, lambda: None)()
    arm(0, 0)
    judge = scenarios[name]()
    n = disarm()
    if callable(judge):
        judge()
    step = max(1, -(-n // runs))
    tried = 0
    for nth in range(1 + random.randrange(step), n + 1, step):
        for behind in (0, 30):
            now = f'{name}, call {nth} of {n} and {behind} behind it'
            prepare.get(name, lambda: None)()
            arm(nth, behind)
            judge = scenarios[name]()
            disarm()
            if callable(judge):
                judge()
            tried += 1
    now = f'{name}, afterwards'
    if not expect('6765\n', 'submit', 'fib', '20'):
        wrong('wsd does not serve')
    print(f'{name}: {n} calls, {tried} runs')
sys.exit(bad != 0)
