#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python.py: what a no-op costs from Python, by each way of the package in client/python.

    tests/bench/python.py [--seconds N] SOCKET

SOCKET is that of a wsd with the plugin fib. The ways go alternately, in short rounds. Printed are the best round, the
tenth best of a hundred, and the median: on a busy machine the first says what the client takes. WSD_LIBWSCLIENT names
the library for the direct lane."""
import argparse
import asyncio
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../client/python'))

import wsd  # noqa: E402  pylint: disable=wrong-import-position
import wsd.aio  # noqa: E402  pylint: disable=wrong-import-position

NOTHING = 'fib:nothing'


def show(name, unit, values):
    print(f'{name:34} {values[0]:12,.1f} {values[len(values) // 10]:12,.1f} {values[len(values) // 2]:12,.1f} {unit}')


def closed(path, seconds):
    with wsd.Client(path) as lane, wsd.Client(path, native=False) as client:
        ways = {'ping': (client.ping, 50), 'submit().result()': (lambda: client.submit(NOTHING).result(), 50),
                'call() by the socket': (lambda: client.call(NOTHING), 50)}
        if lane.native:
            ways['call() by the direct lane'] = (lambda: lane.call(NOTHING, small=True), 1000)
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
            for name, run, n in (('asyncio, 1,000 in flight, call()', calls, 1000), ('asyncio, 1,000 in flight, submit()', submits, 1000),
                                 ('asyncio, map()', maps, 1)):
                begun = time.perf_counter()
                await asyncio.gather(*(run() for _ in range(n)))
                rates.setdefault(name, []).append(20000 / (time.perf_counter() - begun))
        for name, values in rates.items():
            show(name, 'jobs/s', sorted(values, reverse=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--seconds', type=float, default=5, help='for each half')
    parser.add_argument('socket')
    options = parser.parse_args()
    print(f'{"":34} {"best":>12} {"10th of 100":>12} {"median":>12}   load {os.getloadavg()[0]:.1f}')
    closed(options.socket, options.seconds)
    asyncio.run(many(options.socket, options.seconds))


if __name__ == '__main__':
    main()
