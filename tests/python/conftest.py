# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share: daemons, and results as the other suites print them.

tests/support/python.sh runs them, and gives WSD, EXECUTOR, SPAWNER, WSCTL, PLUGINS, TEST_PLUGINS, SRC, WORK.
"""
import asyncio
import gc
import glob
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import traceback

import pytest

SRC = os.environ['SRC']
sys.path.insert(0, os.path.join(SRC, 'client/python'))

import wsd  # noqa: E402  pylint: disable=wrong-import-position
import wsd.aio  # noqa: E402  pylint: disable=wrong-import-position

SCALE = int(os.environ.get('TIME_SCALE', '1'))
LIMIT = 30 * SCALE


class Daemon:
    """A wsd of its own."""

    n = 0

    def __init__(self, config='', workers=2):
        Daemon.n += 1
        self.dir = os.path.join(os.environ['WORK'], f'python-{Daemon.n}')
        os.makedirs(self.dir)
        self.socket, self.config = os.path.join(self.dir, 's'), os.path.join(self.dir, 'conf')
        with open(self.config, 'w', encoding='ascii') as f:
            f.write(config)
        self.workers, self.process = workers, None
        self.start()

    def start(self):
        e = os.environ
        with open(os.path.join(self.dir, 'log'), 'ab') as log:
            self.process = subprocess.Popen(
                [e['WSD'], '--config', self.config, '--executor', e['EXECUTOR'], '--spawner', e['SPAWNER'], '--workers', str(self.workers),
                 '--state-dir', os.path.join(self.dir, 'state'), '--plugin-dir', e['PLUGINS'], '--plugin-dir', e['TEST_PLUGINS'],
                 '--socket', self.socket], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + LIMIT
        while True:
            try:
                wsd.Client(self.socket, native=False).close()
                return
            except wsd.Error:
                assert self.process.poll() is None and time.monotonic() < until, 'wsd did not get ready'
                time.sleep(0.02)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def executors(self):
        """Their pids."""
        found = []
        for path in glob.glob(f'/proc/{self.process.pid}/task/*/children'):
            with open(path, encoding='ascii') as f:
                found += [int(pid) for pid in f.read().split() if name_of(pid) == 'wsd-executor']
        return found

    def kill_executor(self):
        pids = self.executors()
        assert pids
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                assert self.process.wait(LIMIT) == 0
            finally:
                if self.process.poll() is None:
                    self.kill()


class Serving:
    """`python3 -m wsd run` of a module of these lines."""

    def __init__(self, daemon, directory, lines, *options, name='jobs', n=1, ready=True, terminal=None):
        self.daemon, self.directory, self.name, self.n = daemon, str(directory), name, n
        self.write(lines)
        self.errors = os.path.join(self.directory, f'{name}.err')
        with open(self.errors, 'wb') as errors:
            self.process = subprocess.Popen(
                [sys.executable, '-X', 'dev', '-W', 'error', '-m', 'wsd', 'run', name, '--processes', str(n), '--socket', daemon.socket,
                 *options], cwd=self.directory, stdin=subprocess.DEVNULL, stdout=errors, stderr=terminal or errors,
                env={**os.environ, 'PYTHONPATH': os.path.join(SRC, 'client/python')})
        if ready:
            wait_until(lambda: len(self.runners()) == n)

    def write(self, lines):
        with open(os.path.join(self.directory, f'{self.name}.py'), 'w', encoding='utf-8') as f:
            f.write('import wsd\n' + textwrap.dedent(lines))

    def runners(self):
        """Their pids, as wsd knows them."""
        assert self.process.poll() is None, self.said()
        with wsd.Client(self.daemon.socket, native=False) as c:
            try:
                return [int(pid) for pid in re.findall(r'pid=(\d+)', c.plugins(self.name)[0].path)]
            except (wsd.NotFound, IndexError):
                return []

    def said(self):
        with open(self.errors, encoding='utf-8') as f:
            return f.read()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                return self.process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                self.process.terminate()
                self.process.wait(LIMIT)
                raise
        return self.process.returncode


def server(tmp_path, answer, greeting=b''):
    """A server that says what it likes, after a greeting at the first request."""
    path = tmp_path / 'evil'
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve():
        with listener:
            peer, _ = listener.accept()
        with peer:
            peer.settimeout(LIMIT)
            peer.recv(65536)
            if greeting:
                peer.sendall(greeting)
                peer.recv(65536)
            answer(peer)
            try:
                while peer.recv(65536):
                    pass
            except OSError:
                pass
    thread = threading.Thread(target=serve)
    thread.start()
    return path, thread


def name_of(pid):
    try:
        with open(f'/proc/{pid}/comm', encoding='ascii') as f:
            return f.read().strip()
    except FileNotFoundError:
        return ''


def wait_until(ready):
    until = time.monotonic() + LIMIT
    while not (found := ready()):
        assert time.monotonic() < until, 'it did not come'
        time.sleep(0.005)
    return found


def same(got, wanted):
    """Of large values, whose difference nobody wants to read."""
    return got == wanted


@pytest.fixture(autouse=True)
def limit():
    """A test that hangs fails, and the others go on."""
    def late(*_):
        for ident, frame in sys._current_frames().items():
            print(f'thread {ident}:', *traceback.format_stack(frame)[-6:], file=sys.stderr)
        pytest.fail('it takes too long')
    old = signal.signal(signal.SIGALRM, late)
    signal.alarm(4 * LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


@pytest.fixture(scope='session')
def shared():
    daemon = Daemon('[limits]\nquarantine-after = 1000\n')
    yield daemon
    daemon.stop()


@pytest.fixture
def start():
    """Starts daemons of the test's own."""
    started = []

    def one(config='', **options):
        started.append(Daemon(config, **options))
        return started[-1]
    yield one
    for daemon in started:
        daemon.stop()


@pytest.fixture
def serve(shared, tmp_path):
    """Serves tasks of the test's own."""
    started = []

    def one(lines, *options, daemon=None, **more):
        started.append(Serving(daemon or shared, tmp_path, lines, *options, **more))
        return started[-1]
    yield one
    for served in started:
        served.stop()


@pytest.fixture
def client(shared):
    with wsd.Client(shared.socket, native=False) as found:
        yield found


@pytest.fixture
def run(shared):
    """Runs a coroutine function with a client of asyncio."""
    def one(function, *args):
        async def main():
            async with await wsd.aio.connect(shared.socket) as c:
                return await asyncio.wait_for(function(c, *args), LIMIT)
        return asyncio.run(main())
    return one


def pytest_addoption(parser):
    parser.addoption('--verbose', action='store', type=int, default=0)  # pytest's own is one of the terminal, which is off


def pytest_collection_finish():
    """CPython's cases collect garbage hundreds of times: what was imported until now is none."""
    gc.collect()
    gc.freeze()


# --- results ----------------------------------------------------------------------------------------------------------

def pytest_runtest_logreport(report):
    if report.when != 'call' and not report.failed and not report.skipped:
        return
    name = report.nodeid.split('tests/python/')[-1].replace('.py::', ': ').replace('_', ' ')
    if report.passed:
        print(f'ok {name}', flush=True)
    elif report.skipped:
        print(f'skip {name}: {report.longrepr[2]}', flush=True)
    else:
        lines = report.longreprtext.splitlines()
        said = [line for title, text in report.sections for line in (title + ':', *text.splitlines()[-20:])]
        why = next((line[1:].strip() for line in lines if line.startswith('E ')), report.when)
        print(f'FAIL {name}: {why[:300]}')
        for line in lines[-40:] + said:
            print(f'    | {line[:200]}')
        sys.stdout.flush()
