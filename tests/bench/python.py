#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python.py: what a no-op costs from Python, by each way of the package in client/python, and in it: tasks in Python, and
wsd.Executor beside ProcessPoolExecutor.

    tests/bench/python.py [--seconds N] [--processes N] [--lines] SOCKET

SOCKET is that of a wsd with the plugin fib. The ways go alternately, in short rounds. Printed are the best round, the
tenth best of a hundred, and the median: on a busy machine the first says what the client takes. With --lines it prints
the medians for tests/bench/run. WSD_LIBWSCLIENT names the library for the direct lane."""
import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from concurrent import futures

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../client/python'))

import wsd  # noqa: E402  pylint: disable=wrong-import-position
import wsd.aio  # noqa: E402  pylint: disable=wrong-import-position

NOTHING = 'fib:nothing'


LINES = False


def show(params, unit, values):
    """Of times: in us, the best first."""
    if LINES:
        print(f'{params} us {values[len(values) // 2]:.3f}')
        return
    if unit == 'jobs/s':
        values = [1e6 / v for v in values]
    print(f'{params:46} {values[0]:12,.1f} {values[len(values) // 10]:12,.1f} {values[len(values) // 2]:12,.1f} {unit}')


def closed(path, seconds):
    with wsd.Client(path) as lane, wsd.Client(path, native=False) as client:
        ways = {'what=ping': (client.ping, 50), 'what=submit': (lambda: client.submit(NOTHING).result(), 50),
                'what=call,lane=socket': (lambda: client.call(NOTHING), 50)}
        if lane.native:
            ways['what=call,lane=direct'] = (lambda: lane.call(NOTHING, small=True), 1000)
        times = {name: [] for name in ways}
        for run, _ in ways.values():
            for _ in range(200):
                run()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for name, (run, n) in ways.items():
                begun = time.perf_counter()
                for _ in range(n):
                    run()
                times[name].append((time.perf_counter() - begun) / n * 1e6)
        for name, values in times.items():
            show(name, 'us', sorted(values))


async def many(path, seconds):
    async with await wsd.aio.connect(path) as client:
        async def calls():
            for _ in range(20):
                await client.call(NOTHING)

        async def submits():
            for _ in range(20):
                await (await client.submit(NOTHING))

        async def maps():
            async for _ in client.map(NOTHING, [b''] * 20000):
                pass
        rates = {}
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for name, run, n in (('what=asyncio,way=call,flight=1000', calls, 1000), ('what=asyncio,way=submit,flight=1000', submits, 1000),
                                 ('what=asyncio,way=map', maps, 1)):
                begun = time.perf_counter()
                await asyncio.gather(*(run() for _ in range(n)))
                rates.setdefault(name, []).append((time.perf_counter() - begun) / 20000 * 1e6)
        for name, values in rates.items():
            show(name, 'jobs/s', sorted(values))


TASKS = '''
import wsd

@wsd.task(idempotent=True)
def nothing(job):
    return b''
'''


@contextlib.contextmanager
def serving(path, name, code, processes):
    """A client, beside processes that serve the tasks of a module."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(wsd.__file__)))
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, name + '.py'), 'w', encoding='ascii') as file:
            file.write(code)
        with subprocess.Popen([sys.executable, '-m', 'wsd', 'run', name, '--processes', str(processes), '--socket', path],
                              cwd=directory, env={**os.environ, 'PYTHONPATH': package}) as server, \
                wsd.Client(path, native=False) as client:
            while f'runners: {processes}' not in ''.join(p.path for p in client.plugins() if p.name == name):
                time.sleep(0.01)
            yield client
            server.terminate()


def tasks(path, seconds, processes):
    """A task in Python, in a closed loop and with 256 in flight."""
    with serving(path, 'bench_tasks', TASKS, processes) as client:
        loops, rates = [], []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            begun = time.perf_counter()
            for _ in range(100):
                client.call('bench_tasks:nothing')
            loops.append((time.perf_counter() - begun) / 100 * 1e6)
            begun = time.perf_counter()
            for _ in client.map('bench_tasks:nothing', [b''] * 5000, in_flight=256):
                pass
            rates.append((time.perf_counter() - begun) / 5000 * 1e6)
    show('what=task,flight=1', 'us', sorted(loops))
    show('what=task,flight=256', 'jobs/s', sorted(rates))


def executors(path, seconds, processes):
    """A call of nothing by wsd.Executor and by ProcessPoolExecutor."""
    times = {}
    with wsd.Executor(processes, socket=path, idle=5) as ours, futures.ProcessPoolExecutor(processes) as theirs:
        def closed_loop(executor, n):
            for _ in range(n):
                executor.submit(abs, 1).result()

        def at_once(executor, n):
            for one in [executor.submit(abs, 1) for _ in range(n)]:
                one.result()

        def by_map(executor, n):
            for _ in executor.map(abs, range(n)):
                pass
        ways = (('result', closed_loop, 200, 200), ('at-once', at_once, 2000, 2000), ('map', by_map, 100000, 4000))
        for executor in (ours, theirs):
            at_once(executor, 200)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for name, run, n_ours, n_theirs in ways:
                for label, executor, n in (('executor', ours, n_ours), ('processpool', theirs, n_theirs)):
                    begun = time.perf_counter()
                    run(executor, n)
                    times.setdefault((name, label), []).append((time.perf_counter() - begun) / n * 1e6)
    for (name, label), values in times.items():
        show(f'what={label},way={name}', 'us', sorted(values))


SUM = '''
import numpy
import wsd

@wsd.task
def total(job):
    return str(numpy.frombuffer(job.buffer).sum())
'''


def arrays(path, seconds):
    """A task that sums 64 MiB of numbers, and the sum itself."""
    try:
        import numpy
    except ImportError:
        return
    memory = wsd.Memory(64 << 20)
    numbers = numpy.frombuffer(memory.view)
    numbers[:] = numpy.random.default_rng(1).random(len(numbers))
    with serving(path, 'bench_sum', SUM, 1) as client:
        times = {'what=numpy,of=sum': [], 'what=numpy,of=task': []}
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for name, run in zip(times, (numbers.sum, lambda: client.call('bench_sum:total', input=memory))):
                begun = time.perf_counter()
                run()
                times[name].append((time.perf_counter() - begun) * 1e6)
    for name, values in times.items():
        show(name, 'us', sorted(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--seconds', type=float, default=5, help='for each part')
    parser.add_argument('--processes', type=int, default=2, help='of tasks and executors')
    parser.add_argument('--lines', action='store_true', help='the medians, for tests/bench/run')
    parser.add_argument('socket')
    options = parser.parse_args()
    global LINES  # pylint: disable=global-statement
    LINES = options.lines
    if not LINES:
        print(f'{"":46} {"best":>12} {"10th of 100":>12} {"median":>12}   load {os.getloadavg()[0]:.1f}')
    closed(options.socket, options.seconds)
    asyncio.run(many(options.socket, options.seconds))
    tasks(options.socket, options.seconds, options.processes)
    executors(options.socket, options.seconds, options.processes)
    arrays(options.socket, options.seconds)


if __name__ == '__main__':
    main()
