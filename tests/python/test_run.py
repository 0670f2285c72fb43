# SPDX-License-Identifier: Apache-2.0
"""`python3 -m wsd run` and `tasks`: processes that are supervised, reloaded, and leave in order."""
import os
import re
import signal
import subprocess
import sys

import pytest

import wsd
from conftest import LIMIT, SRC, wait_until

PID = '''
    import os

    @wsd.task(idempotent=True)
    def pid(job):
        """The process."""
        return str(os.getpid())
    '''
SLOW = '''
    import os, time

    @wsd.task
    def until(job):
        job.log('it runs')
        while not os.path.exists(job.args[0]):
            time.sleep(0.005)
        return b'done'
    '''


def wsd_command(directory, *arguments, **more):
    return subprocess.run([sys.executable, '-X', 'dev', '-W', 'error', '-m', 'wsd', *arguments], cwd=directory, capture_output=True,
                          text=True, timeout=LIMIT, check=False, env={**os.environ, 'PYTHONPATH': os.path.join(SRC, 'client/python'), **more})


def gone(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii') as f:
            return f.read().rsplit(')', 1)[1].split()[0] == 'Z'
    except FileNotFoundError:
        return True


def test_several_processes_share_the_jobs(serve, client):
    served = serve(PID, n=3)
    assert {int(pid) for pid in client.map('jobs:pid', [b''] * 1000)} <= set(served.runners())
    assert served.stop() == 0
    with pytest.raises(wsd.JobError, match='no runner of jobs came') as caught:
        client.call('jobs:pid')
    assert caught.value.code == 66


def test_one_that_is_killed_is_started_again(serve, client):
    served = serve(PID, n=2)
    victim, other = served.runners()
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: len(served.runners()) == 2 and victim not in served.runners())
    assert other in served.runners()
    assert 'was killed by SIGKILL; starting it again' in served.said()
    assert client.submit('jobs:pid').result()


@pytest.mark.parametrize('n,line', [(1, 'wsd: jobs: 1 process takes jobs\n'), (2, 'wsd: jobs: 2 processes take jobs\n')])
def test_it_says_when_all_processes_take_jobs(serve, n, line):
    served = serve(PID, '--verbose', n=n)
    wait_until(lambda: served.said() == line)
    os.kill(served.runners()[0], signal.SIGKILL)
    wait_until(lambda: re.fullmatch(f'{line}wsd: process . was killed by SIGKILL; starting it again\n{line}', served.said()))


def test_it_says_so_in_a_terminal(serve):
    reader, terminal = os.openpty()
    served = serve(PID, terminal=terminal)
    os.close(terminal)
    with open(reader, 'rb') as said:
        assert said.readline() == b'wsd: jobs: 1 process takes jobs\r\n'
    assert served.stop() == 0


def test_elsewhere_it_is_quiet(serve, client):
    served = serve(PID)
    client.call('jobs:pid')
    assert served.stop() == 0 and served.said() == ''


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_it_leaves_in_order(serve, client, tmp_path, number):
    served = serve(SLOW)
    job = client.submit('jobs:until', tmp_path / 'go')
    wait_until(lambda: job.messages)
    os.kill(served.process.pid, number)
    later = client.submit('jobs:until', tmp_path / 'go')  # which waits for a runner, and gets none
    client.ping()
    assert not job.done() and served.process.poll() is None
    (tmp_path / 'go').touch()
    assert job.result() == b'done'
    assert served.process.wait(LIMIT) == 0
    later.cancel()


def test_a_second_signal_kills(serve, client, tmp_path):
    served = serve(SLOW)
    job = client.submit('jobs:until', tmp_path / 'go')
    wait_until(lambda: job.messages)
    pids = served.runners()
    served.process.terminate()
    wait_until(lambda: 'SigBlk' in status_of(served.process.pid) and not int(field_of(served.process.pid, 'ShdPnd'), 16))
    served.process.terminate()
    assert served.process.wait(LIMIT) == 0
    with pytest.raises(wsd.Interrupted):
        job.result()
    assert all(map(gone, pids))


def status_of(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as f:
        return f.read()


def field_of(pid, name):
    return next(line for line in status_of(pid).splitlines() if line.startswith(name)).split()[1]


def test_processes_go_with_their_supervisor(serve):
    served = serve(PID, n=2)
    pids = served.runners()
    served.process.kill()
    served.process.wait()
    wait_until(lambda: all(map(gone, pids)))


def test_it_is_there_before_wsd_and_outlives_it(start, serve):
    daemon = start()
    daemon.stop()
    served = serve(PID, daemon=daemon, ready=False)
    wait_until(lambda: 'trying again' in served.said())
    daemon.start()
    wait_until(served.runners)
    pids = served.runners()
    daemon.kill()
    daemon.start()
    wait_until(lambda: served.runners() == pids)
    with wsd.Client(daemon.socket, native=False) as c:
        assert int(c.call('jobs:pid')) == pids[0]


def test_several_jobs_in_one_process(serve, client, tmp_path):
    serve('''
        import threading
        both = threading.Barrier(4, timeout=60)

        @wsd.task
        def meet(job):
            both.wait()
            return job.input
        ''', '--threads', '4')
    assert list(client.map('jobs:meet', [b'%d' % n for n in range(40)])) == [b'%d' % n for n in range(40)]


def test_reload(serve, client, tmp_path):
    (tmp_path / 'helper.py').write_text('WORDS = "first"\n')
    served = serve('''
        import helper

        @wsd.task
        def words(job):
            return helper.WORDS
        ''', '--reload')
    assert client.call('jobs:words') == b'first'
    (tmp_path / 'helper.py').write_text('WORDS = "another one"\n')
    wait_until(lambda: client.submit('jobs:words').result() == b'another one')
    served.write('this is no Python')
    wait_until(lambda: 'waiting for a change' in served.said())
    served.write('@wsd.task\ndef words(job):\n    return b"third"\n')
    wait_until(lambda: served.runners() and client.submit('jobs:words').result() == b'third')


def test_another_name_and_a_part_of_a_module(serve, client):
    served = serve('''
        class Group:
            @wsd.task
            def bound(self, job):
                return job.input[::-1]

            @staticmethod
            @wsd.task
            def free(job):
                return b'free'

        group = Group()

        @wsd.task
        def other(job):
            pass
        ''', '--name', 'a.group', ready=False, name='jobs')
    wait_until(lambda: any(p.name == 'a.group' for p in client.plugins()))
    assert [f.name for f in client.plugins('a.group')[0].functions] == ['other']
    assert served.stop() == 0
    part = subprocess.Popen([sys.executable, '-m', 'wsd', 'run', 'jobs:group', '--processes', '1', '--socket', served.daemon.socket],
                            cwd=served.directory, env={**os.environ, 'PYTHONPATH': os.path.join(SRC, 'client/python')})
    try:
        wait_until(lambda: any(p.name == 'jobs' and p.path for p in client.plugins()))
        assert client.call('jobs:bound', input=b'abc') == b'cba'
        assert client.call('jobs:free') == b'free'
    finally:
        part.terminate()
        assert part.wait(LIMIT) == 0


@pytest.mark.parametrize('arguments, code, words', [
    ([], 64, 'required'),
    (['run'], 64, 'required'),
    (['run', 'jobs', '--processes', '0'], 64, '--processes'),
    (['run', 'jobs', '--processes', '257'], 64, '--processes'),
    (['run', 'jobs', '--threads', '0'], 64, '--threads'),
    (['run', './jobs.py'], 64, 'as import does'),
    (['run', 'jobs', '--name', 'a b'], 64, 'give --name'),
    (['run', 'no_such_module'], 66, 'there is no such module on the path'),
    (['run', 'jobs:nothing'], 66, 'has no nothing'),
    (['run', 'empty'], 66, 'mark functions with @wsd.task'),
    (['run', 'broken'], 66, 'cannot be imported: ZeroDivisionError'),
    (['run', 'fib'], 64, 'fib is a plugin'),
    (['tasks', 'empty'], 66, 'mark functions with @wsd.task'),
])
def test_what_does_not_go_says_so(shared, tmp_path, arguments, code, words):
    (tmp_path / 'jobs.py').write_text('import wsd\n@wsd.task\ndef one(job):\n    pass\n')
    (tmp_path / 'fib.py').write_text('from jobs import one\n')
    (tmp_path / 'empty.py').write_text('')
    (tmp_path / 'broken.py').write_text('1 / 0\n')
    done = wsd_command(tmp_path, *arguments, WSD_SOCKET=shared.socket)
    assert done.returncode == code and words in done.stderr, done.stderr


def test_tasks_lists_them(tmp_path):
    (tmp_path / 'jobs.py').write_text('import wsd\n@wsd.task(idempotent=True, streaming=True)\n'
                                      'def one(job):\n    """Does it.\n\n    More."""\n'
                                      '@wsd.task(name="a-longer-name")\ndef two(job):\n    pass\n')
    done = wsd_command(tmp_path, 'tasks', 'jobs')
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout == 'a-longer-name\none            Does it. (idempotent, streaming)\n' or done.stdout == (
        'one            Does it. (idempotent, streaming)\na-longer-name\n')
