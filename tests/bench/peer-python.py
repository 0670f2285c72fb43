#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""peer-python.py: what a task of nothing costs by the queues that people use for Python: Celery and RQ, both over Redis.

    tests/bench/peer-python.py celery|rq

Two worker processes, as many as wsd's tasks have. Redis has a unix socket and keeps nothing on disk. Each is called as
its guide says. In a closed loop one task after the other is awaited; then 256 are under way. Prints lines for
tests/bench/run."""
import os
import subprocess
import sys
import tempfile
import time

PROCESSES = 2
FLIGHT = 256
SECONDS = 3.0


def nothing(data=b''):
    return data


class Celery:
    def __init__(self, where, path):
        os.environ['PEER_REDIS'] = path
        self.app = self.make(path)
        code = 'import sys; sys.path.insert(0, %r); import importlib; m = importlib.import_module("peer-python"); ' \
               'm.Celery.make(%r).worker_main(["worker", "-c", "%d", "-l", "ERROR", "--without-gossip", "--without-mingle", ' \
               '"--without-heartbeat"])' % (os.path.dirname(os.path.abspath(__file__)), path, PROCESSES)
        self.workers = [subprocess.Popen([sys.executable, '-c', code], cwd=where, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)]

    @staticmethod
    def make(path):
        import celery
        app = celery.Celery('peer', broker='redis+socket://' + path, backend='redis+socket://' + path)
        app.conf.update(task_serializer='json', worker_prefetch_multiplier=128)
        app.task(nothing, name='nothing')
        return app

    def submit(self):
        return self.app.tasks['nothing'].delay('')

    @staticmethod
    def result(job):
        return job.get(timeout=60)


class RQ:
    def __init__(self, where, path):
        import redis
        import rq
        self.queue = rq.Queue(connection=redis.Redis(unix_socket_path=path))
        with open(os.path.join(where, 'peer_rq.py'), 'w', encoding='ascii') as f:
            f.write("def nothing(data=b''):\n    return data\n")
        code = 'import sys; sys.path.insert(0, %r); import redis, rq; ' \
               'rq.Worker(["default"], connection=redis.Redis(unix_socket_path=%r)).work(logging_level="ERROR")' % (where, path)
        self.workers = [subprocess.Popen([sys.executable, '-c', code], cwd=where, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL) for _ in range(PROCESSES)]

    def submit(self):
        return self.queue.enqueue('peer_rq.nothing', b'')

    @staticmethod
    def result(job):
        import rq.results
        while True:
            result = job.latest_result(timeout=60) if 'timeout' in job.latest_result.__code__.co_varnames else job.latest_result()
            if result is not None:
                return result.return_value
            time.sleep(0.0005)


def measure(peer):
    peer.result(peer.submit())
    begun, n = time.monotonic(), 0
    while time.monotonic() - begun < SECONDS:
        peer.result(peer.submit())
        n += 1
    print('what=task,flight=1 us/job %.3f' % ((time.monotonic() - begun) / n * 1e6))
    begun, n, under_way = time.monotonic(), 0, []
    while time.monotonic() - begun < SECONDS:
        while len(under_way) < FLIGHT:
            under_way.append(peer.submit())
        for job in under_way[:FLIGHT // 2]:
            peer.result(job)
            n += 1
        del under_way[:FLIGHT // 2]
    print('what=task,flight=%d us/job %.3f' % (FLIGHT, (time.monotonic() - begun) / n * 1e6))
    for job in under_way:
        peer.result(job)


def main(name):
    with tempfile.TemporaryDirectory(prefix='wsd-peer.') as where:
        path = os.path.join(where, 'redis')
        redis = subprocess.Popen(['redis-server', '--port', '0', '--unixsocket', path, '--save', '', '--dir', where],
                                 stdout=subprocess.DEVNULL)
        peer = None
        try:
            while not os.path.exists(path):
                time.sleep(0.01)
            peer = {'celery': Celery, 'rq': RQ}[name](where, path)
            measure(peer)
        finally:
            for worker in peer.workers if peer else []:
                worker.terminate()
                worker.wait()
            redis.terminate()
            redis.wait()
    sys.stdout.flush()
    os._exit(0)  # Celery's results would look for the server that is gone


if __name__ == '__main__':
    if len(sys.argv) != 2 or sys.argv[1] not in ('celery', 'rq'):
        sys.exit(__doc__)
    main(sys.argv[1])
