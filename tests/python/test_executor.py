# SPDX-License-Identifier: Apache-2.0
"""wsd.Executor: CPython's own cases for executors, and what is its own: a shared pool, bundles, deaths."""
import asyncio
import collections
import concurrent.futures
import functools
import math
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref
from concurrent.futures.process import BrokenProcessPool

import pytest

import wsd
from conftest import LIMIT, SRC, wait_until
from wsd import _executor, _pool

try:
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        import test.test_concurrent_futures as theirs
except ImportError:
    theirs = None

SOCKET = ''


class Executor(wsd.Executor):
    """At the daemon of these tests. What CPython's cases give to choose a kind of process means nothing."""

    def __init__(self, max_workers=None, *, mp_context=None, **options):
        super().__init__(max_workers, **{'socket': SOCKET, 'idle': 5, **options})


@pytest.fixture(autouse=True, scope='module')
def runtime(shared, tmp_path_factory):
    """Locks and logs of the pools are here."""
    global SOCKET
    SOCKET = shared.socket
    directory = tmp_path_factory.mktemp('run')
    old = os.environ.get('XDG_RUNTIME_DIR')
    os.environ['XDG_RUNTIME_DIR'] = str(directory)
    path = list(sys.path)
    sys.path.insert(0, os.path.join(SRC, 'tests/python'))  # workers import the functions of this file
    yield directory
    sys.path[:] = path
    if old is None:
        del os.environ['XDG_RUNTIME_DIR']
    else:
        os.environ['XDG_RUNTIME_DIR'] = old
    wait_until(lambda: not any(locked(lock) for lock in directory.glob('wsd-python/*.lock')))


def locked(path):
    return _pool.is_there(_pool.Spec(path.stem, str(path.parent), '', [], '', 1, 1.0))


@pytest.fixture
def executor():
    with Executor(2) as found:
        yield found


# --- CPython's cases --------------------------------------------------------------------------------------------------

OWN_PROCESSES = 'it looks at processes, threads or queues that a ProcessPoolExecutor has and this one has not'
SHARED = 'it shares a semaphore or a manager with processes that it started itself'
UNPICKLE = 'it wants that an argument or a result that cannot be unpickled breaks the pool; here it costs its call (below)'
TEXT = 'its program names an executor of concurrent.futures (below it names this one)'
LEFT_OUT = {
    'test_initializer': 'the processes are shared by programs, so there is no initializer (below)',
    'test_interpreter_shutdown': TEXT, 'test_submit_after_interpreter_shutdown': TEXT, 'test_hang_gh83386': TEXT,
    'test_processes_terminate': OWN_PROCESSES, 'test_context_manager_shutdown': OWN_PROCESSES, 'test_del_shutdown': OWN_PROCESSES,
    'test_shutdown_no_wait': OWN_PROCESSES, 'test_idle_process_reuse_one': OWN_PROCESSES,
    'test_idle_process_reuse_multiple': OWN_PROCESSES, 'test_max_tasks_per_child': OWN_PROCESSES,
    'test_max_tasks_per_child_defaults_to_spawn_context': OWN_PROCESSES, 'test_max_tasks_early_shutdown': OWN_PROCESSES,
    'test_shutdown_deadlock_pickle': OWN_PROCESSES, 'test_max_workers_too_large': 'it is about Windows',
    'test_killed_child': 'it wants that the death of a process breaks the pool; here it costs its call (below)',
    'test_saturation': SHARED, 'test_ressources_gced_in_workers': SHARED,
    'test_exit_at_task_unpickle': UNPICKLE, 'test_error_at_task_unpickle': UNPICKLE,
    'test_error_during_result_unpickle_in_result_handler': UNPICKLE, 'test_exit_during_result_unpickle_in_result_handler': UNPICKLE,
}


def make_cases():
    """Classes of CPython's cases, with our executor."""
    class Mixin(theirs.ExecutorMixin):
        executor_type = Executor

        def get_context(self):
            return None
    for case in (theirs.ExecutorShutdownTest, theirs.WaitTests, theirs.AsCompletedTests, theirs.ProcessPoolShutdownTest,
                 theirs.ProcessPoolExecutorTest, theirs.ExecutorDeadlockTest, theirs.InitializerMixin, theirs.FailingInitializerMixin):
        left = {name: None for name in dir(case) if name in LEFT_OUT}
        if case in (theirs.InitializerMixin, theirs.FailingInitializerMixin):
            assert [name for name in dir(case) if name.startswith('test')] == list(left)
            continue
        globals()[f'Test{case.__name__}'] = type(f'Test{case.__name__}', (Mixin, case, theirs.BaseTestCase), left)
    for name in LEFT_OUT:
        assert any(hasattr(case, name) for case in vars(theirs).values()), name


if theirs is not None:
    make_cases()
else:
    def test_cases_of_cpython():
        pytest.skip('there is no test.test_concurrent_futures here (Debian: libpython3.11-testsuite; packaging/install-deps test)')


# --- what those left out want, of this executor -----------------------------------------------------------------------

def program(lines, *, code=0, path=None, apart='', site='/nowhere'):
    """Runs a program, and returns what it printed. Those with the same `apart` and `site`, a folder of modules, share a pool."""
    head = 'import os, sys, time\nimport wsd\n'
    done = subprocess.run([sys.executable, '-X', 'dev', '-W', 'error', *([path] if path else ['-c', head + lines])], capture_output=True,
                          text=True, timeout=LIMIT, check=False,
                          env={**os.environ, 'WSD_SOCKET': SOCKET, 'PYTHONPATH': os.pathsep.join(
                              (os.path.join(SRC, 'client/python'), os.path.join(SRC, 'tests/python'), f'/nowhere/{apart}', str(site)))})
    assert done.returncode == code, done.stderr
    return done


def test_the_end_of_the_program_waits_for_calls():
    for end in ('', 't.shutdown(wait=False)', 'del t'):
        done = program('from helpers import sleep_and_print\nt = wsd.Executor(2, idle=1)\n'
                       f't.submit(sleep_and_print, 0.2, "apple")\n{end}\n')
        assert (done.stdout, done.stderr) == ('apple\n', ''), end


def test_a_call_that_starts_the_pool_outlives_the_shutdown(start, monkeypatch):
    """wsd has refused it, for there is no pool. While that starts, the call neither is under way nor waits."""
    began = _pool.start

    def shut_down_and_start(pool):
        executor.shutdown(wait=False)
        return began(pool)
    monkeypatch.setattr(_pool, 'start', shut_down_and_start)
    executor = Executor(1, socket=start().socket, idle=1)
    assert executor.submit(give, 1).result() == 1


def test_no_submit_after_the_end_of_the_interpreter():
    done = program('import atexit\n'
                   '@atexit.register\n'
                   'def last():\n'
                   '    try:\n'
                   '        t.submit(id, None)\n'
                   '    except RuntimeError as error:\n'
                   '        print(error)\n'
                   't = wsd.Executor(2, idle=1)\nt.submit(id, 42).result()\n')
    assert done.stdout.startswith('cannot schedule new futures after') and done.stderr == ''


def test_its_thread_ends():
    executor = Executor(2)
    results = executor.map(abs, range(-5, 5))
    thread = executor._engine.thread
    executor.shutdown(wait=False)
    thread.join(LIMIT)
    assert not thread.is_alive() and list(results) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]
    executor = Executor(2)
    results = executor.map(abs, range(-5, 5))
    thread, gone = executor._engine.thread, weakref.ref(executor)
    del executor
    assert gone() is None
    thread.join(LIMIT)
    assert not thread.is_alive() and list(results) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]


def test_there_is_no_initializer():
    with pytest.raises(ValueError, match='belong to all programs'):
        Executor(initializer=print)


class Unloadable:
    """Raises when it is unpickled."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        return raises, (self.error,)


def raises(error):
    raise error('these words')


def give(value):
    return value


def test_what_cannot_be_unpickled_costs_its_call(executor):
    for error in (KeyError, SystemExit):
        with pytest.raises(error):
            executor.submit(give, Unloadable(error)).result()
        with pytest.raises(error):
            executor.submit(Unloadable, error).result()
    assert executor.submit(give, 1).result() == 1
    values = executor.map(give, [1, 2, Unloadable(KeyError), 4], chunksize=4)
    assert [next(values), next(values)] == [1, 2]
    with pytest.raises(KeyError, match='these words'):
        next(values)


# --- its own ----------------------------------------------------------------------------------------------------------

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def maybe_die(n, ledger):
    with open(ledger, 'a', encoding='ascii') as f:
        f.write(f'{n}\n')
    if n % 10 == 7:
        die()
    return n


def outcomes(calls):
    """Of futures: the result, or the class of the exception."""
    return [call.result() if call.exception() is None else type(call.exception()) for call in calls]


def test_a_worker_that_dies_costs_its_call(executor):
    running = executor.submit(time.sleep, 0.3)
    with pytest.raises(wsd.WorkerDied, match='has died') as caught:
        executor.submit(die).result()
    assert isinstance(caught.value, BrokenProcessPool)
    running.result()
    assert executor.submit(pow, 2, 8).result() == 256


def test_it_goes_on_after_many_deaths(start):
    """wsd would let no more calls go to a function of which processes die."""
    daemon = start('[limits]\nquarantine-after = 2\n')
    with Executor(2, socket=daemon.socket, idle=1) as executor:
        assert outcomes([executor.submit(die) for _ in range(8)]) == [wsd.WorkerDied] * 8
        assert executor.submit(pow, 2, 8).result() == 256


def wanted(n):
    return [wsd.WorkerDied if i % 10 == 7 else i for i in range(n)]


def test_so_does_one_in_a_bundle(executor, tmp_path):
    """Each call has run once, and those beside the one that killed their process have their results."""
    calls = executor.submit(time.sleep, 0.2), executor.submit(time.sleep, 0.2)  # what comes now waits, and is bundled
    executor._speed(maybe_die).learn(1, 1.0)
    executor._speed(maybe_die).most = 100
    found = [executor.submit(maybe_die, n, tmp_path / 'ledger') for n in range(50)]
    assert outcomes(found) == wanted(50), {str(f.exception()) for f in found}
    assert sorted(map(int, (tmp_path / 'ledger').read_text().split())) == list(range(50))
    concurrent.futures.wait(calls)


def test_so_does_one_in_a_map(executor, tmp_path):
    for start in range(0, 40, 20):
        numbers = range(start, start + 20)
        found = executor.map(functools.partial(maybe_die, ledger=tmp_path / 'ledger'), numbers, chunksize=20)
        got = [next(found) for _ in range(7)]
        assert got == list(numbers)[:7]
        with pytest.raises(wsd.WorkerDied):
            next(found)
        assert list(found) == []
    ran = (tmp_path / 'ledger').read_text().split()
    assert len(ran) == len(set(ran))


def note_pid(n, ledger):
    with open(ledger, 'a', encoding='ascii') as f:
        f.write(f'{n}\n')
    return n, os.getpid()


def test_no_call_runs_twice_or_is_lost_whenever_a_worker_is_killed(start, tmp_path):
    daemon = start()
    with Executor(3, socket=daemon.socket, idle=1) as executor:
        found = [executor.submit(note_pid, n, tmp_path / 'ledger') for n in range(20_000)]
        killed, died = set(), set()
        for n, future in enumerate(found):
            if future.exception() is None:
                value, pid = future.result()
                assert value == n
                if n % 500 == 0 and pid not in killed and not gone(pid):
                    killed.add(pid)
                    os.kill(pid, signal.SIGKILL)
            else:
                assert type(future.exception()) is wsd.WorkerDied
                died.add(n)
    ran = [int(n) for n in (tmp_path / 'ledger').read_text().split()]
    assert killed and len(ran) == len(set(ran)) and set(ran) | died == set(range(20_000))


def gone(pid):
    """The process of this pid is none of a pool."""
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as f:
            return b'py-' not in f.read()
    except FileNotFoundError:
        return True


def huge(n):
    if n == 5:
        die()
    return bytes(60_000)


def test_so_does_one_whose_bundle_has_much_output(executor):
    """More than the journal has room for."""
    found = executor.map(huge, range(9), chunksize=9)
    assert [len(next(found)) for _ in range(5)] == [60_000] * 5
    with pytest.raises(wsd.WorkerDied):
        next(found)


def once(path):
    if not os.path.exists(path):
        with open(path, 'w', encoding='ascii'):
            pass
        die()
    return 'again'


def test_calls_that_are_idempotent_run_again(tmp_path):
    with Executor(2, idempotent=True) as executor:
        assert executor.submit(once, tmp_path / 'once').result() == 'again'


class Picky(Exception):
    """Cannot be unpickled."""

    def __init__(self, a, b):
        super().__init__(f'{a} and {b}')


def raise_picky():
    raise Picky(1, 2)


def deep():
    {}['a key']


def test_exceptions_are_themselves(executor):
    with pytest.raises(KeyError, match='a key') as caught:
        executor.submit(deep).result()
    assert "in deep\n    {}['a key']" in str(caught.value.__cause__)
    assert '_pool.py' not in str(caught.value.__cause__)
    with pytest.raises(RuntimeError, match='Picky: 1 and 2 .which cannot be pickled'):
        executor.submit(raise_picky).result()
    with pytest.raises(Exception, match='pickle'):
        executor.submit(threading.Lock).result()


@pytest.mark.parametrize('size', [1, 40_000, 60_000, 131_072, 140_000, 5_000_000])
def test_large_values(executor, size):
    data = os.urandom(size)
    assert executor.submit(give, data).result() == data
    assert list(executor.map(give, [data] * 3)) == [data] * 3
    assert list(executor.map(give, [data] * 3, chunksize=3)) == [data] * 3


def test_many_small_calls(executor):
    assert list(executor.map(math.sqrt, range(20_000))) == [math.sqrt(n) for n in range(20_000)]
    assert [f.result() for f in [executor.submit(math.sqrt, n) for n in range(3000)]] == [math.sqrt(n) for n in range(3000)]


def test_a_map_that_is_left_cancels_the_rest(executor, tmp_path):
    results = executor.map(slow_note, range(100), [tmp_path / 'ledger'] * 100)
    assert next(results) == 0
    results.close()
    executor.shutdown()
    assert len((tmp_path / 'ledger').read_text()) < 50


def slow_note(n, path):
    with open(path, 'a', encoding='ascii') as f:
        f.write('.')
    time.sleep(0.02)
    return n


def test_at_most_so_many_at_once(tmp_path):
    with Executor(1) as executor:
        numbers = [executor.submit(alone, tmp_path / 'here') for _ in range(20)]
        assert all(f.result() for f in numbers)


def alone(path):
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL)
    os.close(descriptor)
    time.sleep(0.005)
    os.unlink(path)
    return True


def meet(directory, n):
    """Waits until n calls are here."""
    with open(os.path.join(directory, str(os.getpid())), 'w', encoding='ascii'):
        pass
    wait_until(lambda: len(os.listdir(directory)) >= n)
    return os.getpid()


def test_the_pool_grows_with_what_is_asked(executor, tmp_path):
    executor.submit(give, 1).result()
    with Executor(5) as more:
        assert len({f.result() for f in [more.submit(meet, tmp_path, 5) for _ in range(5)]}) == 5


def where():
    return os.getcwd()


def test_a_call_has_the_directory_of_its_program(executor, tmp_path, monkeypatch):
    executor.submit(give, 1).result()
    monkeypatch.chdir(tmp_path)
    with Executor(1) as other:
        assert other.submit(where).result() == str(tmp_path)
    assert executor.submit(where).result() != str(tmp_path)


def test_what_calls_print_is_printed(executor, capfd):
    executor.submit(print, 'one\ntwo', end='').result()
    executor.submit(print, 'three', file=None).result()
    wait_until(lambda: True)
    assert capfd.readouterr().out == 'one\ntwo\nthree\n'


# --- a thread that waits for a result reads it ------------------------------------------------------------------------

@pytest.fixture
def resting(monkeypatch):
    """An executor whose thread rests until it is called."""
    monkeypatch.setattr(_executor, 'TICK', 3600.0)
    with Executor(2) as found:
        rest(found)
        yield found


def rest(executor):
    """Calls one behind the other, until its thread rests."""
    wait_until(lambda: executor.submit(give, 1).result() == 1 and executor._engine.resting)


def test_a_thread_that_waits_reads(resting):
    before = resting._engine.read
    for n in range(50):
        future = resting.submit(give, n)
        assert future.result() == n and future.exception() is None
    for timeout in (_executor.LOOK, 60):
        assert isinstance(resting.submit(deep).exception(timeout), KeyError)
    assert resting._engine.read > before


def called_back(future):
    ran = threading.Event()
    future.add_done_callback(lambda _: ran.set())
    return ran.wait(LIMIT)


def by_asyncio(future):
    async def wait():
        return await asyncio.wrap_future(future)
    return asyncio.run(wait())


@pytest.mark.parametrize('look', [
    lambda future: concurrent.futures.wait([future], LIMIT).done,
    lambda future: next(concurrent.futures.as_completed([future], LIMIT)),
    lambda future: wait_until(future.done), called_back, by_asyncio,
    lambda future: wait_until(lambda: has_result(future, 0.01))])
def test_other_ways_to_look_call_its_thread(resting, look):
    assert look(resting.submit(give, 2))


def has_result(future, timeout):
    try:
        return future.result(timeout)
    except concurrent.futures.TimeoutError:
        return False


def test_what_no_thread_waits_for_ends_all_the_same(executor, tmp_path):
    rest(executor)
    executor.submit(os.mkdir, tmp_path / 'here')
    wait_until(lambda: not executor._engine.under_way)
    assert (tmp_path / 'here').is_dir()


@pytest.mark.parametrize('run', [
    lambda t: [f.result() for f in [t.submit(give, n) for n in range(3)]] == [0, 1, 2],
    lambda t: list(t.map(abs, range(9))) == list(range(9)),
    lambda t: t.submit(time.sleep, 2 * _executor.LOOK).result() is None,
    lambda t: len(t.submit(give, bytes(300_000)).result()) == 300_000,
    lambda t: t.submit(print, 'a line').result() is None,
    lambda t: isinstance(t.submit(die).exception(), wsd.WorkerDied),
    lambda t: isinstance(t.submit(give, Unloadable(SystemExit)).exception(), SystemExit),
    lambda t: isinstance(t.submit(Unloadable, KeyError).exception(), KeyError)])
def test_its_thread_does_the_rest(resting, run):
    for _ in range(3):
        assert run(resting)
        rest(resting)


def test_callbacks_run_in_its_thread(resting):
    """The thread that waits may hold a lock that they want."""
    for _ in range(20):
        rest(resting)
        future, ran = resting.submit(give, 3), []
        future.add_done_callback(lambda _, ran=ran: ran.append(threading.current_thread()))
        assert future.result() == 3
        wait_until(lambda ran=ran: ran == [resting._engine.thread])


def test_a_cancelled_call_is_not_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(_executor, 'TICK', 3600.0)
    with Executor(1) as executor:
        first, second = executor.submit(once_there, tmp_path / 'go'), executor.submit(give, 2)
        assert second.cancel()
        (tmp_path / 'go').touch()
        first.result()
        rest(executor)
        third = executor.submit(once_there, tmp_path / 'go on')
        with monkeypatch.context() as m:
            m.setattr(executor._engine, 'socket', None)  # nothing is read
            with pytest.raises(concurrent.futures.CancelledError):
                second.result()
        (tmp_path / 'go on').touch()
        assert third.result() == 'there'


def test_a_map_of_threads_that_wait(executor):
    def many(n):
        return all(executor.submit(give, (n, i)).result() == (n, i) for i in range(200))
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert all(threads.map(many, range(8)))


class Interrupt(BaseException):
    """As a signal handler may raise."""


def interrupting(method, late):
    """That method, which an exception interrupts in this thread: before it has done its work, or behind that."""
    here = threading.get_ident()

    def run(*args):
        if threading.get_ident() != here:
            return method(*args)
        if late:
            method(*args)
        raise Interrupt
    return run


@pytest.mark.parametrize('late', [False, True])
@pytest.mark.parametrize('step', ['settle', 'discard', 'learn', 'pop', 'clear'])
def test_an_interrupt_in_any_step_leaves_the_rest_to_its_thread(resting, monkeypatch, step, late):
    engine = resting._engine
    future = resting.submit(give, 7)
    with monkeypatch.context() as m:
        if step in ('settle', 'learn'):
            of = _executor if step == 'settle' else _executor.Speed
            m.setattr(of, step, interrupting(getattr(of, step), late))
        else:
            of = engine.core if step == 'pop' else engine
            name = {'discard': 'under_way', 'pop': 'calls', 'clear': 'arrived'}[step]
            kind = type(getattr(of, name))
            broken = type('Broken', (kind,), {step: interrupting(getattr(kind, step), late)})
            setattr(of, name, broken(getattr(of, name)))
        with pytest.raises(Interrupt):
            future.result()
        assert future.result() == 7
        wait_until(lambda: not engine.under_way and not engine.arrived)
        assert not engine.core.calls
    engine.under_way, engine.core.calls, engine.arrived = set(), {}, collections.deque()
    rest(resting)


def test_an_interrupt_while_it_waits(resting, tmp_path):
    def interrupt(*_):
        raise Interrupt
    old = signal.signal(signal.SIGUSR1, interrupt)
    try:
        future = resting.submit(once_there, tmp_path / 'go')

        def send():
            wait_until(lambda: resting._engine.reading)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        thread = threading.Thread(target=send)
        thread.start()
        with pytest.raises(Interrupt):
            future.result()
        thread.join()
        (tmp_path / 'go').touch()
        assert future.result() == 'there'
    finally:
        signal.signal(signal.SIGUSR1, old)


def once_there(path):
    wait_until(path.exists)
    return 'there'


def test_a_child_of_fork_does_not_read(resting, tmp_path):
    future = resting.submit(once_there, tmp_path / 'go')
    pid = os.fork()
    if not pid:
        try:
            os._exit(has_result(future, _executor.LOOK) is not False)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    (tmp_path / 'go').touch()
    assert future.result() == 'there'


def test_wsd_ends_while_a_thread_reads(start, monkeypatch, tmp_path):
    monkeypatch.setattr(_executor, 'TICK', 3600.0)
    daemon = start()
    with Executor(1, socket=daemon.socket, idle=1) as executor:
        rest(executor)
        future = executor.submit(once_there, tmp_path / 'go')
        thread = threading.Thread(target=lambda: wait_until(lambda: executor._engine.reading) and daemon.kill())
        thread.start()
        assert isinstance(future.exception(), wsd.WorkerDied)
        thread.join()
        daemon.start()
        (tmp_path / 'go').touch()
        assert executor.submit(give, 4).result() == 4


def test_a_shutdown_while_its_thread_rests(monkeypatch):
    monkeypatch.setattr(_executor, 'TICK', 3600.0)
    for end in (lambda: executor.shutdown(wait=False), lambda: executor.shutdown(cancel_futures=True)):
        executor = Executor(1)
        rest(executor)
        thread = executor._engine.thread
        end()
        thread.join(LIMIT)
        assert not thread.is_alive()
    executor = Executor(1)
    rest(executor)
    thread = executor._engine.thread
    del executor
    thread.join(LIMIT)
    assert not thread.is_alive()


# --- the pool --------------------------------------------------------------------------------------------------------

def pools_of_programs(n, directory, apart):
    """Starts them one behind the other, or all at once. Returns the pools that have served each."""
    lines = (f'import helpers\nhelpers.call_until_all_are_there(wsd.Executor(2, idle=2), {os.fspath(directory)!r}, {n})\n')
    found = []
    threads = [threading.Thread(target=lambda: found.append(program(lines, apart=apart).stdout)) for _ in range(n)]
    for i, thread in enumerate(threads):
        thread.start()
        if not apart:
            assert i == n - 1 or wait_until(lambda: len(os.listdir(directory)) > i)
    for thread in threads:
        thread.join()
    return found


def test_two_programs_share_one_pool(tmp_path):
    first, second = pools_of_programs(2, tmp_path, apart='')
    assert first == second and len(first.split()) == 1


def test_programs_at_once_start_one_pool(tmp_path):
    found = pools_of_programs(6, tmp_path, apart='at-once')
    assert len(set(found)) == 1 and len(found) == 6


def test_it_goes_when_it_is_idle_and_comes_again():
    """Calls meet the pool as it leaves: none is lost or refused."""
    lines = ('t = wsd.Executor(1, idle=0.05)\n'
             'seen = set()\n'
             'n = 0\n'
             'while len(seen) < 3:\n'
             '    assert t.submit(pow, n, 2).result() == n * n\n'
             '    seen.add(t.submit(os.getppid).result())\n'
             '    time.sleep(n % 40 * 0.005)\n'
             '    n += 1\n'
             'print("well")\n')
    assert program(lines, apart='brief').stdout == 'well\n'


def test_one_that_takes_longer_to_begin_than_it_may_be_idle_does_not_go(tmp_path):
    (tmp_path / 'sitecustomize.py').write_text('import os, time\nos.register_at_fork(after_in_child=lambda: time.sleep(0.5))\n')
    assert program('print(wsd.Executor(1, idle=0.05).submit(pow, 3, 2).result())\n', site=tmp_path).stdout == '9\n'


def test_a_pool_that_is_killed_comes_again(executor, tmp_path):
    parent = executor.submit(os.getppid).result()
    running = executor.submit(meet, tmp_path, 2)
    wait_until(lambda: len(os.listdir(tmp_path)) == 1)
    os.kill(parent, signal.SIGKILL)  # its workers leave in order
    wait_until(lambda: executor.submit(os.getppid).result() not in (parent, 1))
    (tmp_path / 'go').touch()
    assert running.result() > 0


def test_when_wsd_is_restarted(start):
    daemon = start()
    with Executor(1, socket=daemon.socket, idle=1) as executor, Executor(1, socket=daemon.socket, idempotent=True, idle=1) as again:
        parent = executor.submit(os.getppid).result()
        first = executor.submit(time.sleep, 0.5)
        waits = executor.submit(pow, 2, 8)
        twice = again.submit(give, 5)
        daemon.kill()
        daemon.start()
        assert isinstance(first.exception(), wsd.WorkerDied)
        assert waits.result() == 256 and twice.result() == 5
        assert executor.submit(os.getppid).result() == parent


def test_when_wsd_has_gone(start, monkeypatch):
    monkeypatch.setattr(_executor, 'RECONNECT', 0.2)
    daemon = start()
    executor = Executor(1, socket=daemon.socket, idle=0.2)
    assert executor.submit(give, 1).result() == 1
    daemon.kill()
    wait_until(lambda: executor._engine.broken)
    with pytest.raises(concurrent.futures.BrokenExecutor):
        executor.submit(give, 1)
    executor.shutdown()
    with pytest.raises(wsd.NoDaemon):
        Executor(1, socket=daemon.socket)


def test_a_child_of_fork_has_another_one(executor):
    executor.submit(give, 1).result()
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            executor.submit(give, 1)
        except wsd.ForkedError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    assert os.read(reader, 1000) == b'this executor belongs to the parent of this process; make another one'
    os.close(reader)
    os.waitpid(pid, 0)
    assert executor.submit(give, 2).result() == 2


MAIN = '''
import sys
import wsd

class Thing:
    def __init__(self, n):
        self.n = n

def double(thing):
    return Thing(thing.n * 2)

if __name__ == '__main__':
    if 'plain' in sys.argv:
        sys.modules['cloudpickle'] = None
    with wsd.Executor(1, idle=1) as t:
        found = t.submit(double, Thing(WORTH)).result()
        assert type(found) is Thing
        print(found.n, [one.n for one in t.map(double, [Thing(1), Thing(2)])])
'''


def test_functions_of_the_main_module(tmp_path):
    """By its file, as multiprocessing does, if there is no cloudpickle; else by value."""
    for name, n in (('first.py', 21), ('second.py', 4), ('first.py', 100)):
        (tmp_path / name).write_text(MAIN.replace('WORTH', str(n)).replace("'plain' in sys.argv", 'True'))
        assert program('', path=str(tmp_path / name)).stdout == f'{2 * n} [2, 4]\n'
    (tmp_path / 'guard.py').write_text('import wsd\ndef f():\n    pass\nt = wsd.Executor(1, idle=1)\nimport sys\n'
                                       'sys.modules["cloudpickle"] = None\nt.submit(f).result()\n')
    assert "behind `if __name__ == '__main__':`" in program('', path=str(tmp_path / 'guard.py'), code=1).stderr


def test_functions_by_value():
    pytest.importorskip('cloudpickle', reason='there is no cloudpickle here (packaging/install-deps test)')
    done = program('class Thing:\n    def __init__(self, n):\n        self.n = n\n'
                   'with wsd.Executor(1, idle=1) as t:\n'
                   '    print(t.submit(lambda x: x + 1, 4).result())\n'
                   '    found = t.submit(lambda x: Thing(x.n + 1), Thing(4)).result()\n'
                   '    print(found.n, type(found) is Thing)\n')
    assert done.stdout == '5\n5 True\n'


def test_the_directory_of_locks_is_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_RUNTIME_DIR', str(tmp_path))
    (tmp_path / 'wsd-python').mkdir()
    (tmp_path / 'wsd-python').chmod(0o777)
    with pytest.raises(wsd.Error, match='chmod 700'):
        Executor(1)
    (tmp_path / 'wsd-python').rmdir()
    (tmp_path / 'wsd-python').symlink_to('/tmp')
    with pytest.raises(wsd.Error, match='not a directory of yours'):
        Executor(1)


def test_a_pool_that_does_not_start_says_where_to_look(start, monkeypatch):
    monkeypatch.setattr(_executor, 'PATIENCE', 0.1)
    daemon = start()
    executor = Executor(1, socket=daemon.socket)
    monkeypatch.setattr(_pool, 'start', lambda pool: False)  # as where the interpreter has gone
    with pytest.raises(concurrent.futures.BrokenExecutor, match='the pool does not start; .*log says why'):
        executor.submit(give, 1).result()
    executor.shutdown()


def test_options():
    for n in (0, -1):
        with pytest.raises(ValueError, match='max_workers must be greater than 0'):
            Executor(n)
    for idle in (0, -1.0):
        with pytest.raises(ValueError, match='idle'):
            Executor(1, idle=idle)
    with wsd.Client(SOCKET, native=False) as c, wsd.Executor(1, client=c, idle=5) as executor:
        assert executor.submit(give, 1).result() == 1
        assert executor._max_workers == 1


def test_wsd_lists_the_pool(executor, client):
    executor.submit(give, 1).result()
    assert any(p.name.startswith('py-') and p.help == 'calls of wsd.Executor' for p in client.plugins())
