# SPDX-License-Identifier: Apache-2.0
"""client.profile(), with and without asyncio: what is sampled, and executors that write what they like."""
import asyncio
import time

import pytest

import wsd
from wsd import _profile, _protocol, _wire


def has_work(profile):
    return any(stack[:2] == ('profiled:work', 'work') for stack in profile.stacks)


def test_a_job_is_sampled(client):
    job = client.submit('profiled:work')
    found = wsd.Profile(0)
    while not has_work(found):
        with client.profile('profiled', rate=499) as found:
            time.sleep(0.1)
            assert found.samples == 0 and 'samples' in repr(found)
    job.cancel()
    assert found.rate == 499 and found.bad == 0 and found.errors == []
    assert found.samples == sum(found.stacks.values()) == sum(one.own for one in found.functions())
    first = found.functions()[0]
    assert first.name in ('profiled_heavy', 'profiled_light') and 0 < first.own <= first.total <= found.samples
    lines = found.folded().splitlines()
    assert len(lines) == len(found.stacks) and sum(int(line.rpartition(' ')[2]) for line in lines) == found.samples
    with client.profile('profiled:nap') as other:
        pass
    assert other.stacks == {} and other.samples == 0 and other.functions() == [] and other.folded() == ''
    assert job.wait().state is wsd.State.CANCELLED


def test_one_at_a_time(client, shared):
    with wsd.Client(shared.socket) as second, client.profile():
        with pytest.raises(wsd.Refused, match='trace or profile is under way'):
            with second.profile():
                pass
    with client.profile():
        pass


@pytest.mark.parametrize('rate', [0, 1000, -1, 1.5, 'fast'])
def test_a_rate_has_bounds(client, rate):
    with pytest.raises(ValueError, match='rate'):
        with client.profile(rate=rate):
            pass
    for good in (1, 999):
        with client.profile(rate=good):
            pass


def test_an_exception_ends_the_profile(client):
    with pytest.raises(KeyError), client.profile():
        raise KeyError
    with client.profile():  # else it is refused
        pass


def test_asyncio(run):
    async def body(c):
        job = await c.submit('profiled:work')
        found = wsd.Profile(0)
        while not has_work(found):
            async with c.profile('profiled:work', rate=499) as found:
                await asyncio.sleep(0.1)
        job.cancel()
        assert found.samples == sum(found.stacks.values())
        with pytest.raises(KeyError):
            async with c.profile():
                raise KeyError
        async with c.profile():
            pass
        with pytest.raises(ValueError, match='rate'):
            async with c.profile(rate=1000):
                pass
    run(body)


def test_an_older_wsd(client):
    core = _protocol.Core(b'', b'test', lambda path, args: -1)
    core.receive(_wire.frame(_wire.WELCOME, 0, _wire.encode('Welcome', {'version': 1, 'features': 262144, 'window': 1 << 20})))
    with pytest.raises(wsd.ProtocolError, match='needs a newer one'):
        _profile.ProfileCall('', 99).starts(core)


class Told:
    """What an executor says, without a wsd."""

    def __init__(self, name=''):
        self.core = _protocol.Core(b'', b'test', lambda path, args: -1)
        self.core.receive(_wire.frame(_wire.WELCOME, 0, _wire.encode('Welcome', {
            'version': 1, 'features': _protocol.FEATURES, 'window': 1 << 20})))
        self.call = _profile.ProfileCall(name, 99)
        self.core.ask(self.call, _wire.TRACE)
        self.profile = self.call.profile

    def says(self, *texts):
        for text in texts:
            for at in range(0, len(text), 60000):
                self.core.receive(_wire.frame(_wire.PIECE, self.call._tag, b'', text[at:at + 60000]))
        return self.profile.bad

    def executor(self, **values):
        self.core.receive(_wire.frame(_wire.EXECUTOR, self.call._tag, _wire.encode('Executor', values)))


def test_pieces_of_any_size():
    told = Told()
    told.executor(executor=1, lost=3)
    told.says(*(bytes((c,)) for c in b'a:b;x;y 1\na:b;x 2\na:b;x;y 4\n'))
    told.executor(executor=2, lost=4, error=28)
    assert told.profile.stacks == {('a:b', 'x', 'y'): 5, ('a:b', 'x'): 2}
    assert told.profile.lost == 7 and told.profile.errors == [28] and told.profile.bad == 0
    assert told.profile.functions() == [('y', 5, 5), ('x', 2, 7)]
    assert told.profile.folded() == 'a:b;x 2\na:b;x;y 5\n'


def test_half_a_line_of_the_executor_before_is_dropped():
    told = Told()
    told.says(b'a;b 1')
    told.executor(executor=2)
    told.says(b'c;d 2\n')
    assert told.profile.stacks == {('c', 'd'): 2}


@pytest.mark.parametrize('line', [b'', b'a', b'a ', b' 1', b'a 0', b'a -1', b'a 1x', b'a;;b 1', b';a 1', b'a; 1', b'a\t 1',
                                  b'a\x1b[31m 1', b'a\x7f 1', b'\xc2\x9b 1', b'a 1e3', b'a 99999999999999999999'])
def test_what_is_no_stack_is_left_out(line):
    told = Told()
    assert told.says(line + b'\n') == 1 and told.profile.stacks == {} and told.profile.samples == 0


def test_limits():
    most = _profile.LINE_MAX
    for size, bad in ((most, 0), (most + 1, 1), (2 * most, 1)):
        told = Told()
        assert told.says(b'x' * (size - 2) + b' 1\na 1\n') == bad and told.profile.samples == 2 - bad
    for frames, bad in ((_profile.FRAMES_MAX, 0), (_profile.FRAMES_MAX + 1, 1)):
        assert Told().says(b';'.join([b'f'] * frames) + b' 1\n') == bad
    told = Told()
    assert told.says(b'a %d\n' % (_profile.COUNT_MAX - 1), b'b 2\n') == 1 and told.says(b'b 1\n', b'a 1\n') == 2
    assert told.profile.samples == _profile.COUNT_MAX


def test_so_many_stacks(monkeypatch):
    monkeypatch.setattr(_profile, 'STACKS_MAX', 2)
    told = Told()
    assert told.says(b'a 1\nb 1\nc 1\na 1\n') == 1 and told.profile.stacks == {('a',): 2, ('b',): 1}


def test_other_subjects_are_left_out():
    told = Told('a')
    assert told.says(b'a;x 1\na:f;x 2\nab;x 4\n[wsd];x 8\n') == 0 and told.profile.samples == 3
    told = Told('a:f')
    assert told.says(b'a;x 1\na:f;x 2\na:fg;x 4\n') == 0 and told.profile.samples == 2
