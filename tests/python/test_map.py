# SPDX-License-Identifier: Apache-2.0
"""map() of both clients."""
import io
import itertools
import sys
import time

import pytest

import wsd
from conftest import LIMIT, same
from wsd import _bar

MIB = 1 << 20


def test_in_order(client):
    assert list(client.map('echo', (b'%d' % i for i in range(5000)))) == [b'%d' % i for i in range(5000)]
    assert list(client.map('echo', [])) == []
    assert list(client.map('echo', [b'', b'x'], args=['a', 'b'])) == [b'a\nb\n'] * 2


def test_as_they_end(client):
    found = dict(client.map('echo', [b'%d' % i for i in range(3000)], ordered=False))
    assert found == {i: b'%d' % i for i in range(3000)}


def test_inputs_and_outputs_of_all_sizes(client, tmp_path):
    (tmp_path / 'file').write_bytes(b'from a file')
    inputs = [b'', b'x' * 100, bytearray(b'y' * 47000), b'z' * 48000, b'w' * 3 * MIB, tmp_path / 'file', io.BytesIO(b'bio'), [b'a', b'b']] * 3
    got = list(client.map('echo', inputs[:4] + [inputs[4]] + inputs[5:6] + inputs[8:13]))
    wanted = [b'', b'x' * 100, b'y' * 47000, b'z' * 48000, b'w' * 3 * MIB, b'from a file', b'', b'x' * 100, b'y' * 47000, b'z' * 48000,
              b'w' * 3 * MIB]
    assert same(got, wanted)
    assert list(client.map('echo', inputs[5:8])) == [b'from a file', b'bio', b'ab']
    sizes = [len(out) for out in client.map('bigoutput', [b''] * 4, args=[3 * MIB])]
    assert sizes == [3 * MIB] * 4


def test_lazily(client):
    taken = itertools.count()
    results = client.map('echo', (b'%d' % next(taken) for _ in iter(int, 1)), in_flight=100)
    for i in range(1000):
        assert next(results) == b'%d' % i
    results.close()
    assert next(taken) <= 1000 + 101
    assert client.submit('echo', 'x').result() == b'x\n'


def test_a_failure_is_raised_in_its_place(client):
    results = client.map('ends', [b''] * 3, args=[4])
    with pytest.raises(wsd.Failed) as caught:
        list(results)
    assert caught.value.status == 4 and len(caught.value.job.id) == 32 and caught.value.job.exit == 4
    with pytest.raises(wsd.NotFound):
        list(client.map('nowhere', [b'']))
    outcomes = list(client.map('ends', [b''] * 300, args=[4], return_exceptions=True))
    assert len(outcomes) == 300 and all(isinstance(one, wsd.Failed) for one in outcomes)
    with pytest.raises(wsd.Crashed):
        list(client.map('crash:segv', [b'']))
    with pytest.raises(ValueError):
        list(client.map('echo', [b''], in_flight=0))
    with pytest.raises(TypeError):
        list(client.map('echo', ['text']))

    def breaks():
        yield b'a'
        raise KeyError('mine')
    with pytest.raises(KeyError):
        list(client.map('echo', breaks()))


def test_what_is_left_is_cancelled(client):
    results = client.map('ends:heed', [b''] * 50, timeout=60, ordered=False)
    import threading
    closer = threading.Timer(0.2, lambda: [client.cancel(job.id) for job in client.list(states=[wsd.State.RUNNING], plugin='ends')[:1]])
    closer.start()
    with pytest.raises(wsd.Cancelled):
        next(results)
    closer.join()
    until = time.monotonic() + LIMIT
    while client.list(states=[wsd.State.RUNNING, wsd.State.QUEUED], plugin='ends'):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_more_than_the_limit_of_jobs(start):
    daemon = start('[limits]\nmax-jobs-per-user = 5\n')
    with wsd.Client(daemon.socket, native=False) as c:
        assert list(c.map('echo', (b'%d' % i for i in range(200)))) == [b'%d' % i for i in range(200)]


def test_wsd_is_killed_under_a_map(start):
    daemon = start()
    with wsd.Client(daemon.socket, native=False) as c:
        results = c.map('echo', (b'%d' % i for i in iter(int, 1)))
        next(results)
        daemon.kill()
        with pytest.raises(wsd.ConnectionLost):
            for _ in results:
                pass


def test_progress_bar(client, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True
    said = Terminal()
    monkeypatch.setattr(sys, 'stderr', said)
    monkeypatch.setattr(_bar, 'PERIOD', 0.0)
    list(client.map('echo', [b'x'] * 10, progress=True))
    assert '10/10' in said.getvalue() and said.getvalue().endswith('\n') and '100%' in said.getvalue()
    quiet = io.StringIO()
    monkeypatch.setattr(sys, 'stderr', quiet)
    list(client.map('echo', [b'x'] * 10, progress=True))
    assert quiet.getvalue() == ''
    for width in (5, 20, 79):
        assert len(_bar.Bar('a-name', 10).line(time.monotonic(), width)) <= width


def test_asyncio(run):
    async def body(c):
        assert [r async for r in c.map('echo', (b'%d' % i for i in range(3000)))] == [b'%d' % i for i in range(3000)]
        assert len({i async for i, _ in c.map('echo', [b'x'] * 500, ordered=False)}) == 500
        with pytest.raises(wsd.Failed):
            async for _ in c.map('ends', [b''] * 3, args=[4]):
                pass
        assert same([r async for r in c.map('echo', [b'w' * 2 * MIB])], [b'w' * 2 * MIB])
    run(body)
