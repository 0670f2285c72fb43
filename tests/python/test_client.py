# SPDX-License-Identifier: Apache-2.0
"""wsd.Client against a real wsd."""
import array
import datetime
import io
import os
import pathlib
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import wsd
from conftest import LIMIT, SRC, same, server, wait_until
from wsd import _wire

MIB = 1 << 20


def test_results(client):
    assert client.submit('echo', 'a', 'b').result() == b'a\nb\n'
    assert client.submit('echo:echo', input=b'in').result() == b'in'
    job = client.submit('echo', 'x')
    info = job.wait()
    assert info.state is wsd.State.SUCCEEDED and info.plugin == 'echo' and info.id == job.id and len(job.id) == 32
    assert info.attempts == 1 and abs(info.submitted - time.time()) < 60 and info.exit == 0
    assert job.result() == job.result() == b'x\n' and job.done() and job.exception() is None


def test_failed(client):
    job = client.submit('echo:status', 7, 'why')
    with pytest.raises(wsd.Failed) as caught:
        job.result()
    error = caught.value
    assert (error.status, error.code, error.said) == (7, 7, 'asked for 7') and 'why' in str(error)
    assert error.job.state is wsd.State.FAILED and error.job.id == job.id
    assert isinstance(error, wsd.JobError) and isinstance(job.exception(), wsd.Failed) and job.wait().exit == 7
    other = pickle.loads(pickle.dumps(error))
    assert (type(other), other.status, other.job, str(other)) == (wsd.Failed, 7, error.job, str(error)) and wsd.Failed.__module__ == 'wsd'


def test_crashed(client):
    with pytest.raises(wsd.Crashed) as caught:
        client.submit('crash:segv').result()
    assert 'segv' in caught.value.backtrace and 'Segmentation fault' in str(caught.value) and caught.value.code == 70


def test_timed_out(client):
    with pytest.raises(wsd.TimedOut):
        client.submit('ends:heed', timeout=0.05).result()
    with pytest.raises(wsd.TimedOut):
        client.submit('ends:heed', timeout=datetime.timedelta(milliseconds=50)).result()


def test_cancelled(client):
    job = client.submit('ends:heed')
    assert next(job.output()) == b'begun\n'
    job.cancel()
    with pytest.raises(wsd.Cancelled) as caught:
        job.result()
    assert caught.value.code == 130 and caught.value.job.id == job.id
    other = client.submit('ends:heed', detach=True)
    client.cancel(other.id)
    with pytest.raises(wsd.Cancelled):
        other.result()
    with pytest.raises(wsd.NotFound):
        client.cancel(other.id)


def test_refused(client):
    for name, kind in (('nowhere', wsd.NotFound), ('echo:nothing', wsd.NotFound)):
        with pytest.raises(kind) as caught:
            client.submit(name).result()
        assert caught.value.code == 66 and caught.value.job is None
        with pytest.raises(kind):
            _ = client.submit(name).id
    with pytest.raises(wsd.NotFound):
        client.submit('nowhere', detach=True)
    with pytest.raises(wsd.BadRequest):
        client.submit('echo', durable=True, after=client.submit('echo', detach=True)).result()
    with pytest.raises(wsd.NotFound):
        client.status('0' * 32)


def test_interrupted_and_crashed_by_the_death_of_the_executor(start):
    daemon = start()
    with wsd.Client(daemon.socket, native=False) as c:
        jobs = [c.submit('ends:heed') for _ in range(2)]
        for job in jobs:
            assert next(job.output()) == b'begun\n'
        daemon.kill_executor()
        for job in jobs:
            error = job.exception(LIMIT)
            assert isinstance(error, (wsd.Crashed, wsd.Interrupted)) and error.job.id == job.id, error
        assert c.submit('echo', 'again').result() == b'again\n'


def test_refused_for_now_and_waiting_for_room(start):
    daemon = start('[limits]\nmax-jobs-per-user = 2\n')
    with wsd.Client(daemon.socket, native=False) as c:
        busy = [c.submit('ends:heed') for _ in range(2)]
        assert all(job.id for job in busy)
        with pytest.raises(wsd.Refused) as caught:
            c.submit('echo').result()
        assert caught.value.code == 75 and not caught.value.accepted
        with pytest.raises(wsd.Refused):
            c.submit('echo', wait_for_room=0.05)
        threading.Timer(0.1, busy[0].cancel).start()
        assert c.submit('echo', 'room', wait_for_room=True).result() == b'room\n'
        with pytest.raises(TypeError):
            c.submit('echo', input=[b'x'], wait_for_room=True)
        busy[1].cancel()


def test_connection_lost(start):
    daemon = start()
    with wsd.Client(daemon.socket, native=False) as c:
        job = c.submit('ends:heed')
        id = job.id
        daemon.kill()
        with pytest.raises(wsd.ConnectionLost) as caught:
            job.result()
        assert caught.value.job.id == id and caught.value.accepted
        with pytest.raises(wsd.ConnectionLost):
            c.submit('echo')
        with pytest.raises(ConnectionError):
            c.ping()
    with pytest.raises(wsd.NoDaemon):
        wsd.Client(daemon.socket)


def test_where_the_socket_is(shared, monkeypatch, tmp_path):
    monkeypatch.setenv('WSD_SOCKET', shared.socket)
    with wsd.Client() as c:
        assert c.ping(b'x') < LIMIT
    monkeypatch.delenv('WSD_SOCKET')
    (tmp_path / 'wsd').mkdir()
    (tmp_path / 'wsd/wsd.sock').symlink_to(shared.socket)
    monkeypatch.setenv('XDG_RUNTIME_DIR', str(tmp_path))
    with wsd.connect() as c:
        assert c.stats()['jobs_open'] >= 0
    with pytest.raises(wsd.NoDaemon) as caught:
        wsd.Client(tmp_path / 'none')
    assert caught.value.code == 69 and isinstance(caught.value, ConnectionError)


def test_large_input_and_output_are_streamed(client):
    data = os.urandom(MIB) * 64
    assert same(client.submit('echo:stream', input=data).result(), data)
    got = bytearray()
    for piece in client.submit('echo:stream', input=memoryview(data)).output():
        got += piece
    assert same(got, data)


def test_inputs_of_all_kinds(client, tmp_path):
    file = tmp_path / 'file'
    file.write_bytes(b'0123456789' * 20000)
    data = file.read_bytes()

    def echoed(given):
        return client.submit('echo', input=given).result()
    assert echoed(bytearray(b'ba')) == b'ba' and echoed(memoryview(b'xabcx')[1:4]) == b'abc'
    assert echoed(array.array('H', [1, 2])) == array.array('H', [1, 2]).tobytes()
    assert same(echoed(file), data) and echoed(io.BytesIO(b'bio')) == b'bio'
    with open(file, 'rb') as f:
        f.seek(10)
        assert same(echoed(f), data[10:])
    assert same(echoed(data[i:i + 999] for i in range(0, len(data), 999)), data)
    assert echoed([b'a', bytearray(b'b'), memoryview(b'')]) == b'ab'
    with subprocess.Popen(['cat', file], stdout=subprocess.PIPE) as cat:
        assert same(echoed(cat.stdout), data)
    first = client.submit('echo:stream', input=data)
    assert same(client.submit('echo:stream', input=first.output()).result(), data)
    with pytest.raises(TypeError):
        client.submit('echo', input='text')
    with pytest.raises(OSError):
        client.submit('echo', input=tmp_path / 'none')
    with pytest.raises(BufferError):
        client.submit('echo', input=memoryview(bytes(10))[::2])

    def breaks():
        yield b'x'
        raise KeyError('mine')
    with pytest.raises(KeyError):
        client.submit('echo', input=breaks())
    assert echoed(b'still') == b'still'


def test_output_goes_to_a_descriptor(client, tmp_path):
    data = b'0123456789' * 20000
    (tmp_path / 'in').write_bytes(data)
    before = len(os.listdir('/proc/self/fd'))
    for given, size in ((b'', 0), (b'in', 2), (data, len(data)), (tmp_path / 'in', len(data)), ((data[i:i + 999] for i in range(0, len(data), 999)), len(data))):
        with open(tmp_path / 'out', 'wb') as file:
            file.write(b'head ')  # which is not written yet
            job = client.submit('echo', input=given, output=file)
            assert job.result() == b'' and job.wait().placed == size
            file.write(b' tail')
        whole = (tmp_path / 'out').read_bytes()
        assert whole[:5] == b'head ' and whole[-5:] == b' tail' and same(whole[5:-5], (b'in' if size == 2 else data)[:size])
    reader, writer = os.pipe()
    job = client.submit('bigoutput', 300_000, output=writer, wait_for_room=1)
    os.close(writer)
    with open(reader, 'rb') as pipe:
        assert len(pipe.read()) == 300_000
    assert job.result() == b'' and job.wait().placed == 300_000
    with open(tmp_path / 'in', 'rb') as file, pytest.raises(wsd.BadRequest, match='writing'):
        client.submit('echo', output=file).result()
    with open(tmp_path / 'out', 'wb') as file, pytest.raises(wsd.BadRequest):
        client.submit('echo', output=file, detach=True)
    with socket.socket() as other, pytest.raises(wsd.Failed):
        client.submit('echo', 'a', output=other.fileno()).result()
    with pytest.raises(OSError):
        client.submit('echo', output=12345)
    with open(tmp_path / 'out', 'wb') as file, pytest.raises(BufferError):
        client.submit('echo', input=memoryview(bytes(10))[::2], output=file)
    assert len(os.listdir('/proc/self/fd')) == before


def test_buffers_are_sent_from_where_they_lie(client):
    import tracemalloc
    data = bytearray(32 * MIB)
    tracemalloc.start()
    try:
        job = client.submit('count', input=data)
        job.result()
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_output_waits_for_its_reader(client):
    job = client.submit('bigoutput', 8 * MIB)
    time.sleep(0.05)
    client.ping()
    assert not job.done()  # the window is full
    assert len(next(job.output())) <= MIB
    assert len(job.result()) <= 8 * MIB


def test_files_that_arguments_name(shared, tmp_path):
    secret, named = tmp_path / 'secret', tmp_path / 'named'
    secret.write_text('secret')
    named.write_text('named')
    from wsd._socket import Directory, argument_names
    assert argument_names(b'/a/b', b'/a/b') and argument_names(b'--file=/a/b', b'/a/b') and argument_names(b'-f/a', b'/a')
    assert argument_names(b'/a', b'/a/b') and argument_names(b'/a/', b'/a/b/../c') is False and argument_names(b'@x', b'x')
    assert not argument_names(b'/a/b', b'/a') and not argument_names(b'x/a', b'/a') and not argument_names(b'/a', b'/ab')
    directory = Directory(tmp_path)
    try:
        opener = directory.opener()
        args = _wire.encode('Submit', {'args': [b'named', b'pipe', b'none']})
        for path in (b'named', os.fsencode(named)):
            fd = opener(path, args)
            assert os.read(fd, 9) == b'named'
            os.close(fd)
        os.mkfifo(tmp_path / 'pipe')
        assert [opener(path, args) for path in (os.fsencode(secret), b'pipe', b'none', b'', b'../etc')] == [-1, -6, -2, -1, -1]
    finally:
        directory.close()
    with wsd.Client(shared.socket, directory=tmp_path, native=False) as c:
        assert c.submit('echo:cat', 'named').result() == b'named'


@pytest.mark.skipif(os.geteuid() != 0, reason='needs root, to have a wsd of another user')
def test_wsd_asks_for_files_that_it_may_not_read(tmp_path):
    work = tmp_path
    import conftest
    os.chmod(os.environ['WORK'], 0o755)
    for path in [work, *work.parents][:4]:
        os.chmod(path, 0o755)
    secret = work / 'secret'
    secret.write_bytes(b'only mine')
    secret.chmod(0o600)

    class Other(conftest.Daemon):
        def start(self):
            os.chown(self.dir, 65534, 65534)
            e = os.environ
            self.process = subprocess.Popen(
                [e['WSD'], '--config', self.config, '--executor', e['EXECUTOR'], '--workers', '1', '--state-dir', self.dir + '/state',
                 '--plugin-dir', e['PLUGINS'], '--plugin-dir', e['TEST_PLUGINS'], '--socket', self.socket],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=65534, group=65534, extra_groups=[])
            wait_until(lambda: os.path.exists(self.socket) or self.process.poll() is not None)
            if self.process.poll() is not None:
                pytest.skip('the build is not readable for another user')
    daemon = Other()
    try:
        with wsd.Client(daemon.socket, native=False) as c:
            assert c.submit('echo:cat', secret).result() == b'only mine'
            assert list(c.map('echo:cat', [b''], args=[secret])) == [b'only mine']
            with pytest.raises(wsd.Failed):
                c.submit('echo:cat', '/etc/shadow-not').result()
    finally:
        daemon.stop()


def test_options(client):
    a = client.submit('echo', 'a', detach=True)
    b = client.submit('echo', 'b', detach=True, after=a, after_any=[a.id], tag=['x', 'y.z'], priority=-5, max_wait=30, timeout=9,
                      retries=2, retry_delay=0.5, retry_on='failed,crashed')
    assert b.result() == b'b\n'
    info = b.status()
    assert info.tags == ('x', 'y.z') and client.status(b.id).retries == 2
    late = client.submit('echo', detach=True, delay=3600)
    assert late.state is wsd.State.DELAYED and 3500 < late.status().due <= 3600
    late.cancel()
    later = client.submit('echo', detach=True, at=datetime.datetime.now() + datetime.timedelta(hours=1))
    assert later.state is wsd.State.DELAYED
    later.cancel()
    first, second = (client.submit('echo', text, key='python-key') for text in ('one', 'two'))
    assert first.id == second.id and second.result() == b'one\n'
    failing = client.submit('ends', 3, retries=1, retry_delay=0.01, retry_on=[wsd.State.FAILED])
    assert failing.wait().attempts == 2
    waiting = client.submit('no-such-runner:f', detach=True, wait_runner=True)
    assert waiting.state is wsd.State.QUEUED
    waiting.cancel()
    only = client.submit('ledger:nth', '/dev/null', 'x', 1)
    only.wait()


@pytest.mark.parametrize('options', [
    {'priority': 101}, {'priority': 'high'}, {'timeout': 0}, {'timeout': -1}, {'key': ''}, {'key': 'x' * 256}, {'retries': 1001}, {'tag': 'a b'},
    {'traceparent': ''}, {'traceparent': '00-' + 32 * '0' + '-b7ad6b7169203331-01'}, {'traceparent': '01-' + 32 * 'a' + '-b7ad6b7169203331-01'},
    {'tag': ['a'] * 4}, {'delay': 1, 'at': time.time() + 9}, {'retry_on': 'succeeded'}, {'after': 'nonsense'}, {'delay': 4e8},
    {'after': ['0' * 32] * 1025}, {'key': 'a\0b'}, {'at': 1e12}])
def test_options_that_are_wrong(client, options):
    with pytest.raises(ValueError):
        client.submit('echo', **options)
    client.ping()  # the connection stands


def test_an_option_that_there_is_not(client):
    with pytest.raises(TypeError, match='nonsense'):
        client.submit('echo', nonsense=1)
    client.ping()


@pytest.mark.parametrize('name', ['', 'echo:', 'a\0b', 'x' * 5000, 'echo:' + 'x' * 64],
                         ids=['empty', 'no-function', 'nul', 'long', 'long-function'])
def test_names_that_are_wrong(client, name):
    with pytest.raises(ValueError):
        client.submit(name)


def test_arguments_that_are_wrong(client):
    for args in (['a\0'], ['x'] * 4097, ['x' * 49152]):
        with pytest.raises(ValueError):
            client.submit('echo', *args)
    assert len(client.submit('echo', 'x' * 49151).result()) >= 49151
    assert client.submit('echo', 'x' * 40000, input=b'y' * 60000).result()
    with pytest.raises(TypeError):
        client.submit('echo', nonsense=1)


def test_durable_and_attach(start):
    daemon = start()
    with wsd.Client(daemon.socket, native=False) as c:
        durable = c.submit('echo', 'kept', durable=True)
        detached = c.submit('bigoutput', 3 * MIB, detach=True)
        wanted = durable.id
        assert durable.result() == b'kept\n'
        with wsd.Client(daemon.socket, native=False) as other:
            assert len(other.attach(detached).result()) == 3 * MIB and other.attach(wanted).result() == b'kept\n'
            running = c.submit('ends:heed', detach=True)
            follows = other.attach(running.id)
            running.forget()
            with pytest.raises(wsd.Error):
                running.result()
            follows.cancel()
            with pytest.raises(wsd.Cancelled):
                follows.result()
            with pytest.raises(wsd.NotFound):
                other.attach('0' * 32).result()
    daemon.kill()
    daemon.start()
    with wsd.Client(daemon.socket, native=False) as c:
        assert c.attach(wanted).result() == b'kept\n' and c.status(wanted).durable


def test_progress_and_messages(client):
    job = client.submit('ends:steps', 5, progress=True)
    job.wait()
    assert job.progress.done >= 1
    spin = client.submit('spin', progress=True)
    wait_until(lambda: spin.progress.done > 0)
    spin.cancel()
    assert isinstance(spin.exception(), wsd.Cancelled)


def test_timeout_of_a_wait_leaves_the_job(client):
    job = client.submit('ends:heed')
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        job.result(0.05)
    assert 0.04 < time.monotonic() - begun < 5 * LIMIT and not job.done()
    with pytest.raises(TimeoutError):
        job.wait(datetime.timedelta(milliseconds=1))
    assert job.state in (wsd.State.RUNNING, wsd.State.QUEUED)
    job.cancel()
    assert job.wait(LIMIT).state is wsd.State.CANCELLED


def test_asking(client):
    job = client.submit('ends:heed', detach=True)
    assert next(job.output()) == b'begun\n'
    assert job.id in [one.id for one in client.list()]
    assert [one.id for one in client.list(plugin='ends', states=[wsd.State.RUNNING])] == [job.id]
    assert len(client.list(limit=1)) == 1 and client.list(plugin='ends:nothing') == []
    job.cancel()
    assert client.stats()['jobs_submitted'] > 0
    client.call('echo', 'counted')
    assert job.wait(LIMIT).state is wsd.State.CANCELLED
    (ends,) = client.functions('ends:heed')
    assert ends.cancelled >= 1 and ends.uid == os.getuid()
    echo = client.functions('echo:echo', uid=os.getuid())[0]
    assert echo.succeeded >= 1 and echo.output.count >= 1 and echo.run.quantile(1) == echo.run.max <= echo.run.sum
    assert sum(n for _, _, n in echo.output.buckets) == echo.output.count
    assert client.functions('none') == [] and {('ends', 'heed')} <= {(one.plugin, one.function) for one in client.functions()}
    with pytest.raises(ValueError):
        client.functions('echo', uid=-1)
    assert all(one.code in (0, 66, 77) and one.uid == os.getuid() and one.time > 1e9 for one in client.actions())
    assert client.actions(limit=1) == client.actions()[-1:]
    with pytest.raises(ValueError):
        client.actions(limit=-1)
    (echo,) = client.plugins('echo')
    assert echo.name == 'echo' and any(f.name == 'stream' and not f.idempotent for f in echo.functions)
    assert len(client.plugins()) > 5
    assert client.ping(b'x' * 61440) > 0
    with pytest.raises(wsd.NotFound):
        client.plugins('nowhere')


def test_threads_share_a_client(client):
    failures = []

    def work(n):
        try:
            for i in range(60):
                text = f'{n}-{i}'
                assert client.submit('echo', text).result(LIMIT) == text.encode() + b'\n'
                if i % 20 == 0:
                    data = bytes([n]) * 300000
                    assert same(client.submit('echo:stream', input=data).result(LIMIT), data)
                    assert list(client.map('echo', [b'%d' % n] * 30)) == [b'%d' % n] * 30
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not failures and not any(thread.is_alive() for thread in threads)


def test_a_thread_that_waits_long_holds_up_no_other(client):
    long = client.submit('ends:heed')
    waiter = threading.Thread(target=long.wait)
    waiter.start()
    time.sleep(0.05)
    for i in range(20):
        assert client.submit('echo', i).result(LIMIT) == b'%d\n' % i
    both = [threading.Thread(target=client.submit('sleep', 100).result) for _ in range(4)]
    for thread in both:
        thread.start()
    long.cancel()
    for thread in (waiter, *both):
        thread.join(LIMIT)
        assert not thread.is_alive()


def test_close_wakes_those_that_wait(shared):
    c = wsd.Client(shared.socket, native=False)
    job = c.submit('ends:heed')
    found = []
    waiters = [threading.Thread(target=lambda: found.append(job.exception())) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    time.sleep(0.05)
    c.close()
    c.close()
    for waiter in waiters:
        waiter.join(LIMIT)
    assert len(found) == 3 and all(isinstance(error, wsd.ClosedError) for error in found)
    with pytest.raises(wsd.ClosedError):
        c.submit('echo')
    assert c.closed and 'closed' in repr(c)


def test_a_fork_is_noticed(shared):
    with wsd.Client(shared.socket) as c:
        job = c.submit('sleep', 200)
        assert c.call('echo', 'x') == b'x\n'
        pid = os.fork()
        if not pid:
            status = 1
            try:
                for action in (c.ping, job.result, lambda: c.submit('echo'), lambda: c.call('echo'), lambda: list(c.map('echo', [b'']))):
                    with pytest.raises(wsd.ForkedError):
                        action()
                c.close()
                with wsd.Client(shared.socket) as own:
                    assert own.call('echo', 'child') == b'child\n'
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        assert job.result() == b'slept\n' and c.ping() > 0


CTRL_C = '''
import os, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
import wsd
c = wsd.Client(sys.argv[2], native=sys.argv[3] == 'call')
waits = {'result': lambda: c.submit('ends:heed').result(), 'output': lambda: list(c.submit('ends:heed').output()),
         'map': lambda: list(c.map('ends:heed', [b''])), 'call': lambda: c.call('ends:heed', small=True),
         'other': lambda: c.submit('ends:heed').result(60)}
if sys.argv[3] == 'other':  # another thread reads
    threading.Thread(target=c.submit('ends:heed').exception, daemon=True).start()
    time.sleep(0.1)
sent = []
def kill():
    time.sleep(0.2)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=kill).start()
try:
    waits[sys.argv[3]]()
    print('not interrupted')
except KeyboardInterrupt:
    late = time.monotonic() - sent[0]
    print('at once' if late < float(sys.argv[4]) else late, 'goes on' if c.ping() else '')
c.close()
'''


@pytest.mark.parametrize('how', ['result', 'output', 'map', 'call', 'other'])
def test_ctrl_c_while_waiting(shared, how):
    done = subprocess.run([sys.executable, '-X', 'dev', '-W', 'error', '-c', CTRL_C, os.path.join(SRC, 'client/python'), shared.socket, how,
                           str(0.5 * LIMIT / 30)], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.stdout.split('\n')[0] == 'at once goes on', done.stdout + done.stderr
    assert done.stderr == ''


AT_ANY_MOMENT = '''
import os, random, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
import wsd
c, rng, stop, bad, armed = wsd.Client(sys.argv[2]), random.Random(int(sys.argv[3])), [], [], False
def interrupt(*_):
    if armed:
        raise KeyboardInterrupt
signal.signal(signal.SIGUSR1, interrupt)
def killer():
    while not stop:
        time.sleep(rng.random() * 0.003)
        os.kill(os.getpid(), signal.SIGUSR1)
def other():
    while not stop:
        try:
            assert c.submit('echo', 'other').result(60) == b'other\\n'
        except wsd.ConnectionLost:
            pass  # the main thread was interrupted in the midst of a frame
        except BaseException as error:
            bad.append(repr(error))
            return
threads = [threading.Thread(target=run) for run in (killer, other)]
for thread in threads:
    thread.start()
inputs = [b'%d' % i for i in range(200)]
ways = (lambda: c.submit('echo', 'm').result(60) == b'm\\n', lambda: list(c.map('echo', inputs)) == inputs,
        lambda: c.call('echo', 'k') == b'k\\n', lambda: len(c.submit('echo:stream', input=bytes(200000)).result(60)) == 200000,
        lambda: c.ping() > 0)
until, interrupted = time.monotonic() + 1.5, 0
while time.monotonic() < until and not bad:
    try:
        armed = True
        good = rng.choice(ways)()
        armed = False
        assert good
    except KeyboardInterrupt:
        armed = False
        interrupted += 1
    except (wsd.ConnectionLost, wsd.Interrupted):
        armed = False
stop.append(1)
for thread in threads:
    thread.join()
print('interrupted' if interrupted > 10 else interrupted, bad, c.submit('echo', 'end').result(60))
c.close()
'''


@pytest.mark.parametrize('seed', [1, 2])
def test_ctrl_c_at_any_moment(shared, seed):
    done = subprocess.run([sys.executable, '-c', AT_ANY_MOMENT, os.path.join(SRC, 'client/python'), shared.socket, str(seed)],
                          capture_output=True, text=True, timeout=2 * LIMIT, check=False)
    assert done.stdout == "interrupted [] b'end\\n'\n" and done.stderr == '', done.stdout + done.stderr


def test_a_thread_leaves_however_often_it_is_interrupted(shared):
    with wsd.Client(shared.socket) as c:
        leave, times = c._leave_once, [KeyboardInterrupt()] * 3

        def interrupted(*args):
            if times:
                raise times.pop()
            leave(*args)

        c._leave_once = interrupted
        with pytest.raises(KeyboardInterrupt):
            c.submit('echo', 'first').result(60)
        assert not times and c.submit('echo', 'second').result(20) == b'second\n'


def test_an_exception_in_the_midst_of_a_frame(client):
    core = client._core
    real = core.receive

    def broken(data):
        real(data[:1])
        raise KeyboardInterrupt
    job = client.submit('ends:heed')
    core.receive = broken
    with pytest.raises(KeyboardInterrupt):
        job.result()
    assert isinstance(job.exception(), wsd.ConnectionLost)
    assert client.submit('echo', 'anew').result() == b'anew\n'


def test_many_submits_without_reading(client):
    jobs = [client.submit('echo', i, input=b'x' * 2000) for i in range(3000)]
    assert [job.result() for job in jobs] == [b'%d\n' % i for i in range(3000)]


WELCOME = _wire.frame(_wire.WELCOME, 0, _wire.encode('Welcome', {'version': 1, 'features': 4095, 'window': 1 << 20, 'program': b'evil'}))


def test_a_server_that_says_nothing(tmp_path):
    path, thread = server(tmp_path, lambda peer: None)
    begun = time.monotonic()
    with pytest.raises(wsd.NoDaemon):
        wsd.Client(path, timeout=0.1)
    assert time.monotonic() - begun < LIMIT
    thread.join(LIMIT)


@pytest.mark.parametrize('greeting,said', [
    (b'', b'HTTP/1.1 400 Bad Request\r\n\r\n'), (b'', WELCOME + b'\xff' * 100), (WELCOME, WELCOME),
    (WELCOME, _wire.frame(_wire.DONE, 1, b'\x08'))], ids=['http', 'noise', 'twice', 'half'])
def test_a_server_that_breaks_the_rules(tmp_path, greeting, said):
    path, thread = server(tmp_path, lambda peer: peer.sendall(said), greeting)
    with pytest.raises(wsd.ProtocolError):
        with wsd.Client(path, native=False) as c:
            c.submit('echo').result()
    thread.join(LIMIT)


@pytest.mark.parametrize('code,kind', [(76, wsd.ProtocolError), (77, wsd.NotPermitted), (75, wsd.Refused)])
def test_a_server_that_refuses_the_connection(tmp_path, code, kind):
    path, thread = server(tmp_path, lambda peer: peer.sendall(_wire.frame(_wire.ERROR, 0, _wire.encode('Error', {'code': code, 'text': b'no'}))))
    with pytest.raises(kind, match='no'):
        wsd.Client(path)
    thread.join(LIMIT)


def test_a_server_that_asks_for_files_without_end(tmp_path):
    path, thread = server(tmp_path, lambda peer: peer.sendall(
        _wire.frame(_wire.OPEN, 1, _wire.encode('Open', {'serial': 1, 'path': b'/etc/passwd'})) * 1000 +
        _wire.frame(_wire.ERROR, 1, _wire.encode('Error', {'code': 66, 'text': b'enough'}))), WELCOME)
    with wsd.Client(path, native=False) as c:
        n = len(os.listdir('/proc/self/fd'))
        with pytest.raises(wsd.NotFound):
            c.submit('echo', '/etc/passwd').result()
        assert len(os.listdir('/proc/self/fd')) <= n
    thread.join(LIMIT)


def test_html(client):
    job = client.submit('echo:status', 7, '<script>')
    job.wait()
    html = job._repr_html_()
    assert 'failed' in html and '&lt;script&gt;' in html and '<script>' not in html
    assert 'connected' in client._repr_html_() and job.id in html and 'failed' in repr(job)
    assert '<progress' in wsd.JobInfo(id='', done=1, total=3)._repr_html_()
    assert client.submit('echo')._repr_html_()


def test_no_descriptor_is_left(shared):
    before = len(os.listdir('/proc/self/fd'))
    for _ in range(3):
        with wsd.Client(shared.socket) as c:
            c.call('echo')
            c.submit('echo', input=pathlib.Path(__file__)).result()
    assert len(os.listdir('/proc/self/fd')) == before


def test_versions_agree():
    with open(os.path.join(SRC, 'meson.build'), encoding='ascii') as f:
        assert f"version: '{wsd.__version__}'" in f.read()


def test_signals_do_not_break_a_wait(client):
    seen = []
    old = signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    job = client.submit('sleep', 200)

    def disturb():
        for _ in range(20):
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.005)
    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        assert job.result() == b'slept\n'
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, old)
    assert seen


def test_the_state_of_jobs_that_are_just_ending(client):
    for _ in range(200):
        assert client.submit('echo').state in (wsd.State.QUEUED, wsd.State.RUNNING, wsd.State.SUCCEEDED)
