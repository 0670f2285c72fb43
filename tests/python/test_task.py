# SPDX-License-Identifier: Apache-2.0
"""Tasks in Python, as the one that submits sees them: served by `python3 -m wsd run`, against a real wsd."""
import os
import signal
import sys
import threading
import time

import pytest

import wsd
from conftest import LIMIT, server, wait_until
from wsd import _memory, _wire

sys.path.insert(0, os.path.join(os.environ['SRC'], 'tests/support/clients'))
from protocol import Peer, open_arena  # noqa: E402  pylint: disable=wrong-import-position

TASKS = '''
import os, time

@wsd.task(idempotent=True, help='gives its input')
def echo(job):
    return job.input

@wsd.task
def mapped(job):
    """Gives its input, which it does not copy.

    More words.
    """
    return job.buffer

@wsd.task
def about(job):
    return repr((job.function, job.args, job.attempt, job.user, job.priority, job.deadline is not None, job.directory, job.traceparent, job.id))

@wsd.task
def pieces(job):
    for n in range(int(job.args[0])):
        yield b'%d,' % n

@wsd.task
def write(job):
    for n in range(int(job.args[0])):
        job.write(bytes([n]) * int(job.args[1]))
    return b'.'

@wsd.task
def say(job):
    job.progress(3, 7)
    job.log('one\\ntwo', 4)
    job.status('well')

@wsd.task
def fills(job):
    """The input, in a way of giving output: returned, in pieces, or all at once and then more."""
    how, data = job.args[0], job.input
    if how == 'pieces':
        return iter([data[:3], data[3:]])
    if how == 'heedless':
        try:
            job.write(data)
        except wsd.TaskFailed:
            pass
        return None
    return data

@wsd.task
def adds_up(job):
    import numpy
    return str(numpy.frombuffer(job.buffer).sum())

@wsd.task
def mapped_now(job):
    data = job.buffer
    with open('/proc/self/maps', encoding='ascii') as f:
        return f'{len(data)} {sum("wsd-memory" in line for line in f)}'

@wsd.task
def number(job):
    return 5

@wsd.task
def raises(job):
    raise ValueError('these words')

@wsd.task
def fails(job):
    raise wsd.TaskFailed('as asked', status=int(job.args[0]))

@wsd.task
def leaves(job):
    raise SystemExit(3)

@wsd.task
def waits(job):
    job.log('it runs')
    while not job.cancelled:
        time.sleep(0.005)
    job.log('it is to stop')
    job.check()

@wsd.task
def computes(job):
    job.log('it runs')
    while not job.cancelled:
        sum(range(1000))

@wsd.task
def floods(job):
    job.log('it runs')
    while True:
        job.write(bytes(50000))

@wsd.task(streaming=True)
def counts(job):
    n = 0
    while piece := job.stream.read1():
        n += len(piece)
        job.progress(n)
    return str(n)

@wsd.task(streaming=True)
def all_of_it(job):
    return str(len(job.input))

@wsd.task
def cat(job):
    with job.open(job.args[0]) as file:
        return file.read()

@wsd.task(name='another-name')
def pid(job):
    return str(os.getpid())
'''


@pytest.fixture(scope='module')
def jobs(shared, tmp_path_factory):
    from conftest import Serving
    served = Serving(shared, tmp_path_factory.mktemp('tasks'), TASKS)
    yield served
    assert served.stop() == 0, served.said()
    assert 'Error' not in served.said() and 'Warning' not in served.said(), served.said()


def test_they_are_listed_with_their_words(jobs, client):
    found = {f.name: f for f in client.plugins('jobs')[0].functions}
    assert found['echo'].help == 'gives its input' and found['echo'].idempotent
    assert found['mapped'].help == 'Gives its input, which it does not copy.' and not found['mapped'].idempotent
    assert 'another-name' in found and 'pid' not in found


@pytest.mark.parametrize('size', [0, 1, 4096, 4097, 65000, 131072, 135168, 135169, 3_000_000])
def test_input_and_output(jobs, client, size):
    data = os.urandom(size)
    assert client.call('jobs:echo', input=data) == data
    assert client.call('jobs:mapped', input=data) == data


@pytest.mark.parametrize('how', ['returned', 'pieces', 'heedless'])
@pytest.mark.parametrize('size', [0, 4, 99_999, 100_000, 100_001])
def test_output_in_an_arena(jobs, shared, how, size):
    data, room = os.urandom(size), 100_000
    with Peer(shared.socket) as p:
        arena, memory = open_arena(p, 300_000)
        os.pwrite(memory, data, 150_000)
        end = p.end(p.submit('jobs:fills', how.encode(), arena=arena, input_from=2, input_offset=150_000, input_size=size,
                             output_offset=100, output_size=room))[0][-1]
        if size > room:
            assert (end.message.exit, end.message.error) == (63, b'its output is larger than its part of the arena')
        else:
            assert end.kind == 'FINISHED'
        assert end.message.placed == min(size, room) and os.pread(memory, end.message.placed, 100) == data[:room]
        assert os.pread(memory, 100, 0) == bytes(100) and os.pread(memory, 100, 100 + room) == bytes(100)
        # with input that comes as bytes
        end = p.end(p.submit('jobs:fills', how.encode(), arena=arena, body=data[:4], output_offset=260_000, output_size=4))[0][-1]
        assert end.kind == 'FINISHED' and os.pread(memory, 5, 260_000) == data[:4].ljust(5, b'\0')
        os.close(memory)


def test_a_file_is_mapped(jobs, client, tmp_path):
    data = os.urandom(700_000)
    (tmp_path / 'in').write_bytes(data)
    assert client.submit('jobs:mapped', input=tmp_path / 'in').result() == data
    assert client.submit('jobs:echo', input=tmp_path / 'in').result() == data
    with open(tmp_path / 'in', 'rb') as file:
        file.seek(5001)
        assert client.submit('jobs:mapped', input=file).result() == data[5001:]


@pytest.mark.parametrize('size', [1, 4096, 3_000_000])
def test_memory_goes_without_a_copy(jobs, client, size):
    with wsd.Memory(size) as memory:
        assert len(memory) == size and bytes(memory.view) == bytes(size)
        memory.view[:] = data = os.urandom(size)
        assert client.call('jobs:mapped', input=memory) == data  # in a runner,
        assert client.call('echo', input=memory) == data  # an executor,
        assert client.call('jobs:counts', input=memory) == str(size).encode()  # a stream,
        assert list(client.map('jobs:echo', [memory, memory])) == [data, data]
    assert repr(memory) == '<wsd.Memory, closed>'
    with pytest.raises(ValueError, match='closed'):
        client.call('jobs:echo', input=memory)


def test_memory_has_a_size():
    with pytest.raises(ValueError, match='at least 1'):
        wsd.Memory(0)


def test_memory_that_is_used_again_stays_mapped(jobs, client):
    """For a while. What it has then is what is there now."""
    wait_until(lambda: client.call('jobs:mapped_now') == b'0 0')
    with wsd.Memory(2 << 20) as memory:
        assert client.call('jobs:mapped_now', input=memory) == f'{2 << 20} 1'.encode()
        assert client.call('jobs:mapped_now') == b'0 0'  # once is not again

        def stays():
            for data in (b'one', b'two', b'six'):
                memory.view[:3] = data
                assert client.call('jobs:mapped', input=memory)[:3] == data
            return client.call('jobs:mapped_now') == b'0 1'
        wait_until(stays)
    wait_until(lambda: client.call('jobs:mapped_now') == b'0 0')


def mapping(mappings, memory, size=None, user=1):
    found = mappings.map(user, memory.descriptor, 0, size or len(memory))
    assert memoryview(found)[:3] == memory.view[:3]
    return found


def test_so_many_mappings_are_kept():
    for n, kept in ((_memory.KEPT_MAX - 1, True), (_memory.KEPT_MAX, True), (_memory.KEPT_MAX + 1, False)):
        mappings, memories = _memory.Mappings(), [wsd.Memory(10) for _ in range(n)]
        for number, memory in enumerate(memories):
            memory.view[0] = number
            first, second = mapping(mappings, memory), mapping(mappings, memory)
            assert first is not second and mapping(mappings, memory) is second
        known = mappings.kept_bytes()
        mapping(mappings, memories[0])
        assert mappings.kept_bytes() == known - 10 * (not kept) and known == 10 * min(n, _memory.KEPT_MAX)


def test_so_many_bytes_are_kept(monkeypatch):
    monkeypatch.setattr(_memory, 'KEPT_BYTES', 100)
    for size, kept in ((99, 99), (100, 100), (101, 0)):
        mappings, memory = _memory.Mappings(), wsd.Memory(size)
        assert [mapping(mappings, memory) and mappings.kept_bytes() for _ in range(3)] == [0, kept, kept]
    mappings = _memory.Mappings()
    for size, kept in ((40, 40), (59, 99), (1, 100), (1, 61), (99, 100)):
        memory = wsd.Memory(size)
        mapping(mappings, memory)
        mapping(mappings, memory)
        assert mappings.kept_bytes() == kept


def test_mappings_are_let_go(monkeypatch):
    mappings, memory = _memory.Mappings(), wsd.Memory(10)
    assert mappings.let_go() is None
    kept = [mapping(mappings, memory) for _ in range(2)][1]
    assert 0 < mappings.let_go() <= _memory.KEPT_FOR and mapping(mappings, memory) is kept
    monkeypatch.setattr(_memory, 'KEPT_FOR', 0.0)
    assert mappings.let_go() is None and mappings.kept_bytes() == 0
    assert kept[:1] == b'\0'  # it is still somebody's


def test_mappings_are_of_one_user_file_and_part():
    mappings, memory = _memory.Mappings(), wsd.Memory(10)
    keys = [(size, user) for user in (1, 2) for size in (3, 10)]
    found = [mapping(mappings, memory, *key) for key in keys for _ in range(3)]
    assert len({id(one) for one in found}) == 8  # each once, and then the same one twice
    assert [id(mapping(mappings, memory, *key)) for key in keys] == [id(one) for one in found[2::3]]


def test_numpy_works_in_memory(jobs, client):
    numpy = pytest.importorskip('numpy')
    memory = wsd.Memory(8 * 100_000)
    numbers = numpy.frombuffer(memory.view)
    numbers[:] = numpy.arange(100_000)
    assert float(client.call('jobs:adds_up', input=memory)) == numbers.sum()


def test_what_it_knows_of_its_job(jobs, client):
    trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    job = client.submit('jobs:about', 'a', 'b c', '', 'ü', timeout=50, priority=-5, traceparent=trace)
    found = eval(job.result())  # of this test's own task  pylint: disable=eval-used
    assert found == ('about', ['a', 'b c', '', 'ü'], 1, os.getuid(), -5, True, os.getcwd(), trace, job.id)
    assert eval(client.call('jobs:about'))[-2] == ''  # likewise  pylint: disable=eval-used


def test_a_generator_gives_pieces(jobs, client):
    assert client.call('jobs:pieces', 5) == b'0,1,2,3,4,'


def test_output_beyond_the_window(jobs, client):
    assert client.call('jobs:write', 200, 10007) == b''.join(bytes([n]) * 10007 for n in range(200)) + b'.'


def test_a_reader_that_is_slow_holds_it_up(jobs, client):
    job = client.submit('jobs:write', 100, 60000)
    output = job.output()
    first = next(output)
    client.ping()
    assert not job.done()
    assert len(first) + sum(map(len, output)) == 6_000_001


def test_what_it_says(jobs, client):
    job = client.submit('jobs:say')
    assert job.result() == b''
    assert [(m.level, m.text) for m in job.messages] == [(4, 'one'), (4, 'two')]
    info = job.wait()
    assert (info.done, info.total, info.status) == (3, 7, 'well')


def test_an_exception_is_its_error_and_the_traceback_its_messages(jobs, client):
    job = client.submit('jobs:raises')
    with pytest.raises(wsd.Failed, match='ValueError: these words') as caught:
        job.result()
    assert caught.value.status == 1
    assert any("raise ValueError('these words')" in m.text for m in job.messages)
    assert not any('_runner.py' in m.text for m in job.messages)


def test_a_status_of_its_own(jobs, client):
    for status in (1, 63):
        with pytest.raises(wsd.Failed, match='as asked') as caught:
            client.call('jobs:fails', status)
        assert caught.value.status == status
    for status in (0, 64):
        with pytest.raises(wsd.Failed, match='ValueError: status: not a number from 1 to 63'):
            client.call('jobs:fails', status)


def test_what_is_no_output(jobs, client):
    with pytest.raises(wsd.Failed, match='the output of a task is bytes, a str, a buffer or None, not int'):
        client.call('jobs:number')
    with pytest.raises(wsd.Failed, match='SystemExit: 3'):
        client.call('jobs:leaves')


@pytest.mark.parametrize('task', ['waits', 'computes', 'floods'])
def test_cancel_reaches_it(jobs, client, task):
    before = client.call('jobs:another-name')
    job = client.submit(f'jobs:{task}')
    wait_until(lambda: job.messages)
    job.cancel()
    with pytest.raises(wsd.Cancelled):
        job.result()
    assert client.call('jobs:another-name') == before


def test_so_does_the_end_of_its_time(jobs, client):
    before = client.call('jobs:another-name')
    with pytest.raises(wsd.TimedOut):
        client.submit('jobs:waits', timeout=0.1).result()
    assert client.call('jobs:another-name') == before


def test_input_as_it_comes(jobs, client):
    gate = threading.Event()

    def parts():
        yield bytes(1000)
        assert gate.wait(LIMIT)
        yield bytes(100_000)
    found = []

    def submit():
        found.append(client.submit('jobs:counts', input=parts(), progress=True).result())
    thread = threading.Thread(target=submit)
    thread.start()
    with wsd.Client(jobs.daemon.socket, native=False) as other:
        wait_until(lambda: any(job.done == 1000 for job in other.list(states=[wsd.State.RUNNING])))
    gate.set()
    thread.join()
    assert found == [b'101000']
    assert client.submit('jobs:all_of_it', input=[bytes(70000)] * 30).result() == b'2100000'


def test_a_file_of_the_submitter(jobs, tmp_path):
    (tmp_path / 'words').write_text('in here')
    with wsd.Client(jobs.daemon.socket, directory=tmp_path, native=False) as c:
        assert c.call('jobs:cat', 'words') == b'in here'
        with pytest.raises(wsd.Failed, match='No such file'):
            c.call('jobs:cat', 'nothing')
        with pytest.raises(wsd.Failed, match='Is a directory'):
            c.call('jobs:cat', '.')
        os.mkfifo(tmp_path / 'fifo')
        with pytest.raises(wsd.Failed, match='No such device'):  # which would wait for a writer
            c.call('jobs:cat', 'fifo')


def test_many_at_once(jobs, client):
    inputs = [b'%d' % n for n in range(2000)]
    assert list(client.map('jobs:echo', inputs)) == inputs


def test_wsctl_calls_it(jobs, client):
    import subprocess
    done = subprocess.run([os.environ['WSCTL'], '--socket', jobs.daemon.socket, 'submit', '-i', '-', 'jobs:echo'], input=b'words',
                          capture_output=True, timeout=LIMIT, check=False)
    assert (done.returncode, done.stdout) == (0, b'words'), done.stderr


def test_a_runner_in_a_program_of_ones_own(shared, client):
    """Also with several jobs at once, and in a thread that is not the main one."""
    both = threading.Barrier(2, timeout=LIMIT)

    @wsd.task
    def meet(job):
        both.wait()
        return job.input

    @wsd.task
    def big(job):
        job.write(bytes(1_000_000))
    runner = wsd.Runner('own.program', [meet, big], socket=shared.socket, threads=2, version='7', help='of a test')
    thread = threading.Thread(target=runner.run)
    thread.start()
    wait_until(lambda: any(p.name == 'own.program' and p.path for p in client.plugins()))
    assert [p.version for p in client.plugins('own.program')] == ['7']
    assert list(client.map('own.program:meet', [b'a', b'b'] * 20)) == [b'a', b'b'] * 20
    assert len(client.call('own.program:big')) == 1_000_000
    runner.leave()
    thread.join(LIMIT)
    assert not thread.is_alive()


def frame(kind, name, **values):
    return _wire.frame(kind, 1, _wire.encode(name, values))


WELCOME = _wire.frame(_wire.WELCOME, 0, _wire.encode('Welcome', {'version': 1, 'features': 8192, 'program': b'evil'}))
RUN = {'run': 1, 'id': b'0' * 16, 'function': b'one', 'attempt': 1}


@pytest.mark.parametrize('said,words', [
    (frame(_wire.RUN, 'Run', **RUN, input_from=1, input_size=5), 'no descriptor with RUN'),
    (frame(_wire.RUN, 'Run', **RUN, input_from=2), 'no descriptor with RUN'),
    (frame(_wire.RUN_OPENED, 'RunOpened', run=1, serial=1), 'no descriptor with RUN_OPENED'),
    (b'\xff' * 100, 'no frame'),
    (_wire.frame(_wire.RUN, 1, b'\x08'), '')], ids=['file', 'pipe', 'opened', 'noise', 'half'])
def test_a_wsd_that_breaks_the_rules(tmp_path, said, words):
    """The end of run(), with words. No job has run."""
    ran = []

    @wsd.task
    def one(job):
        ran.append(job.input)
    path, thread = server(tmp_path, lambda peer: peer.sendall(frame(_wire.RUNNER, 'Empty') + said), WELCOME)
    with pytest.raises(wsd.ProtocolError, match=words + '$' if words else None):
        wsd.Runner('mine', one, socket=path).run()
    thread.join(LIMIT)
    assert not thread.is_alive() and not ran


def test_a_process_with_too_many_open_files(start, serve):
    """It ends, so that another one takes its jobs: one with an input that did not get in would have run without."""
    daemon = start()
    served = serve('''
        import resource

        @wsd.task
        def fill(job):
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

        @wsd.task(idempotent=True)
        def give(job):
            return job.input
        ''', daemon=daemon)
    with open(served.errors, 'rb') as errors, wsd.Client(daemon.socket, native=False) as c:
        c.call('jobs:fill')
        with open(os.path.join(served.directory, 'jobs.py'), 'rb') as file:
            words = file.read()
            file.seek(0)
            assert c.submit('jobs:give', input=file).result() == words
        assert b'too many open files' in errors.read()


@wsd.task(name='*', idempotent=True)
def anything(job):
    return ' '.join([job.function, *job.args])


def test_a_place(shared):
    runner = wsd.Runner('@place', anything, socket=shared.socket, threads=2)
    thread = threading.Thread(target=runner.run)
    thread.start()
    with wsd.Client(shared.socket) as c:
        for plugin, told in (('any:f', 'any:f'), ('any', 'any'), ('any:any', 'any')):
            assert c.submit('@place/' + plugin, 'x', wait_runner=True).result() == f'{told} x'.encode()
    runner.leave()
    thread.join()


def test_names_that_do_not_go():
    @wsd.task
    def one(job):
        pass

    @wsd.task(name='one')
    def two(job):
        pass
    wsd.Runner('a' * 63, one)
    wsd.Runner('@' + 'a' * 62, anything)
    for tasks in (one, {'x': one, 'y': anything}):
        with pytest.raises(ValueError, match='a place has one task'):
            wsd.Runner('@a', tasks)
    for name in ('', '@', '@' + 'a' * 63, '@a/b', 'a' * 64, '.a', '-a', 'a.so', 'a b', 'ä'):
        with pytest.raises(ValueError, match='no name of a runner'):
            wsd.Runner(name, one)
    with pytest.raises(ValueError, match='no name of a task'):
        wsd.task(name='a:b')(one)
    with pytest.raises(ValueError, match='two tasks have the name one'):
        wsd.Runner('a', {'x': one, 'y': two})
    with pytest.raises(ValueError, match='no task'):
        wsd.Runner('a', {})
    many = {str(n): wsd.task(name=f't{n}')(lambda job: None) for n in range(65)}
    with pytest.raises(ValueError, match='65 tasks; at most 64'):
        wsd.Runner('a', many)
    many.popitem()
    wsd.Runner('a', many)
    for threads in (0, 257):
        with pytest.raises(ValueError, match='threads'):
            wsd.Runner('a', one, threads=threads)


def test_a_name_that_is_a_plugins_is_refused(shared):
    @wsd.task
    def one(job):
        pass
    with pytest.raises(wsd.BadRequest, match='fib is a plugin'):
        wsd.Runner('fib', one, socket=shared.socket).run()


def test_a_job_that_does_not_heed_costs_its_process(start, serve):
    """wsd ends the connection after the grace. The process ends itself, and its supervisor starts another one."""
    daemon = start('[limits]\ncancel-grace = 200ms\n')
    serve('''
        import os, time

        @wsd.task
        def deaf(job):
            job.log('it runs')
            time.sleep(3600)

        @wsd.task
        def pid(job):
            return str(os.getpid())
        ''', daemon=daemon)
    with wsd.Client(daemon.socket, native=False) as c:
        before = int(c.call('jobs:pid'))
        with pytest.raises(wsd.TimedOut):
            c.submit('jobs:deaf', timeout=0.1).result()
        assert int(c.submit('jobs:pid').result()) != before
        with pytest.raises(ProcessLookupError):
            wait_until(lambda: os.kill(before, 0))


def test_a_process_that_dies_costs_its_job(start, serve):
    daemon = start('[limits]\nquarantine-after = 1000\n')
    served = serve('''
        import os, time

        @wsd.task
        def dies(job):
            os.kill(os.getpid(), 9)

        @wsd.task(idempotent=True)
        def again(job):
            if job.attempt < 3:
                os.kill(os.getpid(), 9)
            return str(job.attempt)

        @wsd.task
        def long(job):
            job.log('it runs')
            time.sleep(3600)
        ''', daemon=daemon, n=2)
    with wsd.Client(daemon.socket, native=False) as c:
        with pytest.raises(wsd.Interrupted):
            c.call('jobs:dies')
        assert c.submit('jobs:again').result() == b'3'
        job = c.submit('jobs:long')
        wait_until(lambda: job.messages)
        for pid in served.runners():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(wsd.Interrupted):
            job.result()
        wait_until(lambda: len(served.runners()) == 2)


def test_it_answers_wsd_while_it_computes(start, serve):
    """One that does not answer loses its connection."""
    daemon = start('[limits]\nexecutor-answer = 500ms\n')
    serve('''
        import time

        @wsd.task
        def computes(job):
            until = time.monotonic() + 2
            while time.monotonic() < until:
                sum(range(1000))
            return b'done'
        ''', daemon=daemon)
    with wsd.Client(daemon.socket, native=False) as c:
        assert c.call('jobs:computes') == b'done'
    assert time.monotonic()
