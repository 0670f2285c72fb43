# SPDX-License-Identifier: Apache-2.0
"""call(), with libwsclient and without."""
import threading
import time

import pytest

import wsd
from conftest import LIMIT, same


@pytest.fixture(params=[True, False], ids=['libwsclient', 'socket'])
def caller(shared, request):
    with wsd.Client(shared.socket, native=request.param) as c:
        if request.param and not c.native:
            pytest.skip('there is no libwsclient that Python can load')
        assert c.native == request.param
        yield c


def test_calls(caller):
    for _ in range(50):  # the lane opens after some
        assert caller.call('echo', 'a', b'b', 3) == b'a\nb\n3\n'
        assert caller.call('echo:echo', input=b'in') == b'in' and caller.call('echo', input=memoryview(b'view')) == b'view'
    assert caller.call('fib', 20) == b'6765\n'
    assert caller.call('echo', input=[b'a', b'b']) == b'ab'


def test_outcomes(caller):
    for small in (None, True, False):
        with pytest.raises(wsd.Failed) as caught:
            caller.call('ends', 5, small=small)
        assert caught.value.status == 5 and 'as was wanted' in str(caught.value)
        with pytest.raises(wsd.NotFound):
            caller.call('nowhere', small=small)
        with pytest.raises(wsd.TimedOut):
            caller.call('ends:heed', timeout=0.05, small=small)
        with pytest.raises(ValueError):
            caller.call('echo', 'a\0b', small=small)
        with pytest.raises(wsd.Crashed):
            caller.call('crash:segv', small=small)
    assert caller.call('echo', 'on') == b'on\n'


def test_sizes(caller):
    for size in (0, 1, 1999, 2000, 2001, 2048, 2049, 100000, 3 << 20):
        data = bytes([size % 251]) * size
        assert same(caller.call('echo', input=data), data)
        assert caller.call('echo', input=b'small') == b'small'


def test_an_output_larger_than_a_lane(shared):
    with wsd.Client(shared.socket) as c:
        if not c.native:
            pytest.skip('there is no libwsclient that Python can load')
        assert len(c.call('bigoutput', 5000)) == 5000  # idempotent: called again
        assert c._lanes['bigoutput'] is False
        with pytest.raises(wsd.Error):
            c.call('bigoutput', 5000, small=True)
        assert c.call('ends') == b'done\n' and c._lanes['ends'] is False  # not idempotent: by the socket


def test_threads(caller):
    failures = []

    def work(n):
        try:
            for i in range(200):
                assert caller.call('echo', n, i) == b'%d\n%d\n' % (n, i)
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not failures


def test_wsd_is_killed_and_back(start):
    daemon = start()
    with wsd.Client(daemon.socket) as c:
        for _ in range(20):
            c.call('echo')
        daemon.kill()
        with pytest.raises((wsd.ConnectionLost, wsd.Interrupted)):
            until = time.monotonic() + 10
            while time.monotonic() < until:  # an executor answers for a moment, until it is killed, too
                c.call('echo')


def test_without_the_library(shared, monkeypatch):
    for name in ('', '/nonexistent.so'):
        monkeypatch.setenv('WSD_LIBWSCLIENT', name)
        with wsd.Client(shared.socket) as c:
            assert not c.native and c.call('echo', 'x') == c.call('echo', 'x', small=True) == b'x\n'


def test_closed(shared):
    with wsd.Client(shared.socket) as c:
        c.call('echo')
    with pytest.raises(wsd.ClosedError):
        c.call('echo')
