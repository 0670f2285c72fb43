# SPDX-License-Identifier: Apache-2.0
"""wsd.Executor: a concurrent.futures.Executor over a pool of processes that all programs of this user share (_pool.py).

Owns a connection and one thread, the engine's, which reads it and completes futures. At most `max_workers` jobs are
under way. What else was submitted waits here, and can be cancelled. A job is a bundle of calls: one, or as many as take
some milliseconds together, where calls of this function have been that short.

A thread that waits in result() for the one call under way reads its answer itself, so that it takes no hop. The
engine's thread then *rests*: it looks every TICK whether that goes on, and is called by whatever else there is to do.
Keeps: a call runs once, unless the executor was told that calls are idempotent. Calls of which it is not known whether
they ran get WorkerDied. Those that certainly did not begin go again.
Nothing blocks, and no code of the user runs, under the lock. Callbacks of futures run in the engine's thread, or in the
one that adds them. At most one thread reads. If an exception such as Ctrl-C interrupts it, what arrived is left to the
engine's thread, and each step can be done once more.
"""
from __future__ import annotations

import array
import os
import pickle
import select
import socket
import struct
import sys
import threading
import time
import weakref
from collections import deque
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Optional, Set, Tuple, TypeVar, Union

from . import _pool, _wire
from ._client import Client, open_connection
from ._errors import ConnectionLost, Error, ForkedError, NoDaemon, ProtocolError, Refused
from ._pool import PROTOCOL, Raised
from ._protocol import FEATURE_RUNNERS, Core, JobCall, Question
from ._socket import RECEIVE_LEAST, RECEIVE_MOST, Directory, Path, drop, find, write_some
from ._types import NO_ACCEPTED, State, args_field, shown

T = TypeVar('T')

TARGET = 3e6  # nanoseconds that a bundle is to take
GROWTH = 8  # times as many calls as in the bundle before
BUNDLE_MAX = 4096  # calls
BYTES_MAX = 1 << 20  # of the pickles of a bundle, unless one alone has more
BY_FILE = 48 << 10  # bytes of a bundle from which on it goes as a descriptor
TICK = 0.005  # seconds that the thread rests at most while a call is under way that nobody has asked for
LOOK = 0.25  # seconds between two looks whether the pool is there, while calls are under way
PAUSE_LEAST, PAUSE_MOST = 0.005, 0.5  # seconds before a refused job goes again
PATIENCE = 30.0  # seconds for the pool to start
RECONNECT = 10.0  # seconds for wsd to come back
CONNECT_TIMEOUT = 5.0
IDLE = 60.0  # seconds after which the pool goes


class WorkerDied(BrokenProcessPool):
    """The process that ran this call has died, or it is not known how the call ended. Other calls go on. Since 0.1."""


RUNNING: str = futures._base.RUNNING  # states of a future
FINISHED: str = futures._base.FINISHED


class Waiters(List[Any]):
    """Those of wait() and as_completed(), in a future. They need the engine's thread."""

    __slots__ = ('engine',)
    engine: Engine

    def append(self, waiter: Any) -> None:
        self.engine.call_thread()
        super().append(waiter)


class Future(futures.Future[T]):
    """One whose result may be read by the thread that waits for it."""

    _state: str  # these are of the standard library; a state is set after what belongs to it
    _result: T
    _exception: Optional[BaseException]
    _condition: threading.Condition
    _done_callbacks: List[Any]

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self._waiters = waiters = Waiters()
        waiters.engine = engine

    def done(self) -> bool:
        self._engine.call_thread()
        return super().done()

    def add_done_callback(self, fn: Callable[[futures.Future[T]], object]) -> None:
        super().add_done_callback(fn)
        self._engine.call_thread()

    def result(self, timeout: Optional[float] = None) -> T:
        if self._state == RUNNING:
            timeout = self._engine.read_for(self, timeout)
        if self._state == FINISHED and self._exception is None:
            return self._result
        return super().result(timeout)

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        if self._state == RUNNING:
            timeout = self._engine.read_for(self, timeout)
        return super().exception(timeout)


class Role:
    """What a thread does that waits for a result."""

    __slots__ = ('reads',)

    def __init__(self) -> None:
        self.reads = False


class Speed:
    """How long calls of a function take."""

    __slots__ = ('mean', 'most')

    def __init__(self) -> None:
        self.mean = 0.0  # nanoseconds; 0: not known
        self.most = 1  # calls of the next bundle

    def learn(self, n: int, spent: float) -> None:
        """A bundle of n calls took that long."""
        mean = max(spent / n, 1.0)
        self.mean = mean if not self.mean or mean < self.mean else (self.mean + mean) / 2
        self.most = max(1, min(int(TARGET / self.mean), self.most * GROWTH, BUNDLE_MAX))


class Call:
    """A call that was submitted."""

    __slots__ = ('future', 'pickle', 'main', 'speed')

    def __init__(self, future: Future[Any], data: bytes, main: bool, speed: Speed) -> None:
        self.future, self.pickle, self.main, self.speed = future, data, main, speed


class Calls:
    """A part of a map(): elements start to stop."""

    __slots__ = ('map', 'start', 'stop')

    def __init__(self, of: MapCall, start: int, stop: int) -> None:
        self.map, self.start, self.stop = of, start, stop


class MapCall:
    """A map(). Its results come in parts, by the first element of each."""

    def __init__(self, function: Callable[..., Any], arguments: List[Any], chunk: Optional[int]) -> None:
        self.function, self.arguments, self.chunk = function, arguments, chunk
        self.speed = Speed()
        self.parts: Dict[int, Tuple[int, Union[bytes, BaseException]]] = {}  # start -> number, and results or an exception
        self.changed = threading.Condition(threading.Lock())
        self.wanted = -1
        self.cancelled = False

    def put(self, start: int, n: int, results: Union[bytes, BaseException]) -> None:
        """The results of a part."""
        with self.changed:
            self.parts[start] = (n, results)
            if start == self.wanted:
                self.changed.notify_all()

    def take(self, start: int, until: Optional[float]) -> Tuple[int, Union[bytes, BaseException]]:
        """Waits for a part. Raises TimeoutError."""
        with self.changed:
            self.wanted = start
            while start not in self.parts:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise futures.TimeoutError()
                self.changed.wait(left)
            self.wanted = -1
            return self.parts.pop(start)


class Job(JobCall):
    """A bundle under way."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._collect = True
        self.calls: List[Call] = []
        self.part: Optional[Calls] = None
        self.data = b''
        self.n = 0
        self.sent_at = 0.0
        self.recovers: Optional[Job] = None  # this asks for the journal of that

    def _frame(self, core: Core, kind: int, header: bytes, body: bytes) -> None:
        if kind == _wire.MESSAGE:
            self._engine.said.append(header)
        else:
            JobCall._frame(self, core, kind, header, body)

    def _end(self, core: Core) -> None:
        JobCall._end(self, core)
        self._engine.ended.append(self)


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
_exiting = False


def _at_exit() -> None:
    """As the executors of the standard library: what was submitted still runs."""
    global _exiting
    _exiting = True
    for engine in list(_engines):
        engine.close(wait=True, cancel=False)


threading._register_atexit(_at_exit)  # type: ignore[attr-defined]


class Engine:
    """What an executor does, without the executor: its thread must not keep that alive."""

    def __init__(self, path: str, most: int, idempotent: bool, idle: float) -> None:
        self.path, self.most = path, most
        self.function = 'again' if idempotent else 'call'
        self.idempotent = idempotent
        cpus = len(os.sched_getaffinity(0))
        self.pool = _pool.spec(path, max(cpus, most), idle)
        self.grow = most > cpus
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.queue: Deque[Union[Call, Calls, Job]] = deque()
        self.under_way: Set[Job] = set()
        self.ended: List[Job] = []
        self.said: List[bytes] = []
        self.speeds: Dict[Any, Speed] = {}
        self.closed = False
        self.broken: Optional[BaseException] = None
        self.pause = self.paused_until = self.absent_since = 0.0
        self.sleeping = False  # the thread waits until it is woken
        self.arrived: Deque[bytes] = deque()  # received, and not yet handled
        self.reading = True  # a thread reads: the engine's unless it rests
        self.resting = False
        self.asked = False  # a thread waits for a result that the engine's thread reads
        self.read = 0  # results that others have read
        self.gate = threading.Lock()  # what calls the thread from its rest opens it
        self.gate.acquire()
        self.finishing = False  # the thread has jobs that have ended, and some of them may go again
        self.directory = Directory(None)
        prefixes = {name: _wire.encode('Submit', {'plugin': self.pool.name.encode(), 'function': name.encode()})
                    for name in (self.function, 'journal', 'size')}
        self.prefix = prefixes[self.function]
        self.prefixes = prefixes
        try:
            self.use(*self.connect())
        except BaseException:
            self.directory.close()
            raise
        self.wake_fd, self.waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.thread = threading.Thread(target=self.run, name='wsd-executor')
        self.thread.start()
        _engines.add(self)

    def __del__(self) -> None:
        for descriptor in (getattr(self, 'wake_fd', -1), getattr(self, 'waker', -1)):  # not before: abandon() may still write
            if descriptor >= 0:
                os.close(descriptor)

    def connect(self) -> Tuple[socket.socket, Core, bytes]:
        """Raises NoDaemon and its kin."""
        sock, core, rest = open_connection(self.path, CONNECT_TIMEOUT, self.directory)
        if not core.features & FEATURE_RUNNERS:
            sock.close()
            raise ProtocolError(f'{self.path}: this wsd ({core.server}) knows no runners; it needs a newer one', code=76)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 0, int(LOOK * 1e6)))
        return sock, core, rest

    def use(self, sock: socket.socket, core: Core, rest: bytes) -> None:
        """[lock] From now on this connection."""
        self.socket, self.core, self.rest = sock, core, rest
        if self.grow:
            self.ask_size()

    def ask_size(self) -> None:
        """If the pool is there with fewer processes. One that is not there refuses it, and is started with as many."""
        if _pool.is_there(self.pool):
            self.core.submit(JobCall(), self.prefixes['size'], NO_ACCEPTED, args_field([self.pool.processes]), b'')
            write_some(self.socket, self.core)

    # --- any thread --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """[lock] Before something is added."""
        if self.broken is not None:
            raise futures.BrokenExecutor(str(self.broken)) from self.broken
        if self.closed:
            raise RuntimeError('cannot schedule new futures after shutdown')
        if _exiting:
            raise RuntimeError('cannot schedule new futures after interpreter shutdown')

    def add(self, one: Calls) -> None:
        """Something to do."""
        with self.lock:
            self.check()
            self.look_at_thread(True)
            self.queue.append(one)
        self.pump()

    def add_call(self, data: bytes, main: bool, speed: Speed) -> Future[Any]:
        """A new call. If it need not wait for anything, it is sent before all the rest is done."""
        with self.lock:
            self.check()
            room = self.has_room()
            if room and not self.queue and not main and len(data) < BY_FILE:
                job = Job(self)
                job.data = _pool.ALONE.pack(_pool.CALLS, 0, 1, 0, len(data)) + data
                self.core.submit(job, self.prefix, NO_ACCEPTED, b'', job.data)
                write_some(self.socket, self.core)
                future: Future[Any] = Future(self)
                future.set_running_or_notify_cancel()
                job.calls.append(Call(future, data, main, speed))
                job.n = 1
                job.sent_at = time.monotonic()
                self.look_at_thread(False)
                self.under_way.add(job)
            else:
                future = Future(self)
                self.look_at_thread(False)
                self.queue.append(Call(future, data, main, speed))
        if room and (self.queue or self.core.outgoing):
            self.pump()
        return future

    def look_at_thread(self, needed: bool) -> None:
        """[lock] Before something is added: the engine's thread awakes, or is called if there is more than one call."""
        if not self.under_way:
            self.absent_since = 0.0
        if self.sleeping:
            self.sleeping = False
            self.wake()
        elif self.resting and (needed or self.under_way or self.queue):
            self.call_thread()

    def has_room(self) -> bool:
        """[lock] Whether one more bundle may be under way now."""
        return (len(self.under_way) < self.most and self.broken is None and self.core.failure is None and
                not (self.paused_until and time.monotonic() < self.paused_until))

    def pump(self) -> None:
        """Sends as many bundles as may be under way."""
        while self.queue:
            with self.lock:
                if not self.queue or not self.has_room():
                    break
                job = self.cut()
                if job is None:
                    continue
                self.under_way.add(job)
            if job.data or self.load(job):
                self.send(job)
            else:
                with self.lock:
                    self.under_way.discard(job)
        if self.core.outgoing and threading.current_thread() is not self.thread:
            self.call_thread()
            self.drain()

    def cut(self) -> Optional[Job]:
        """[lock] The next bundle of the queue. None: what was there was cancelled."""
        first = self.queue.popleft()
        if type(first) is Job:
            return first
        job = Job(self)
        if type(first) is Calls:
            of = first.map
            if of.cancelled:
                return None
            n = of.chunk or max(1, min(of.speed.most, (first.stop - first.start) // self.most))
            if first.start + n < first.stop:
                self.queue.appendleft(Calls(of, first.start + n, first.stop))
                first.stop = first.start + n
            job.part, job.n = first, first.stop - first.start
            return job
        size, spent = 0, 0.0
        share = max(1, len(self.queue) // self.most)
        one: Any = first
        while True:
            if one.future.set_running_or_notify_cancel():
                job.calls.append(one)
                size += len(one.pickle)
                spent += one.speed.mean or TARGET
            if not self.queue or type(self.queue[0]) is not Call or spent >= TARGET or len(job.calls) >= share:
                break
            one = self.queue[0]
            if job.calls and (spent + (one.speed.mean or TARGET) > TARGET or len(job.calls) >= one.speed.most or
                              size + len(one.pickle) > BYTES_MAX):
                break
            self.queue.popleft()
        job.n = len(job.calls)
        return job if job.n else None

    def load(self, job: Job) -> bool:
        """Makes what is sent. False: nothing is to be."""
        if job.part is None:
            sizes = array.array('I', [len(call.pickle) for call in job.calls]).tobytes()
            extra = self.extra() if any(call.main for call in job.calls) else b''
            job.data = b''.join([_pool.HEAD.pack(_pool.CALLS, 0, job.n, len(extra)), extra, sizes, *[call.pickle for call in job.calls]])
            return True
        part = job.part
        try:
            data, main = encode((part.map.function, part.map.arguments[part.start:part.stop]))
        except BaseException as error:
            self.unpicklable(job, part, error)
            return False
        extra = self.extra() if main else b''
        job.data = b''.join((_pool.HEAD.pack(_pool.MAP, 0, job.n, len(extra)), extra, _pool.SIZE.pack(len(data)), data))
        return True

    def unpicklable(self, job: Job, part: Calls, error: BaseException) -> None:
        """One of its elements cannot be pickled: that one has the error."""
        if job.n == 1:
            part.map.put(part.start, 1, error)
        else:
            self.one_by_one(part)

    def one_by_one(self, part: Calls) -> None:
        """The elements of a part that has not run go again, each alone."""
        with self.lock:
            for n in range(part.stop - 1, part.start - 1, -1):
                self.queue.appendleft(Calls(part.map, n, n + 1))

    @staticmethod
    def extra() -> bytes:
        """How a worker gets at this program's main module."""
        main = _pool.main_of_program()
        return pickle.dumps(main) if main is not None else b''

    def send(self, job: Job) -> None:
        """It was counted as under way."""
        function = self.prefix
        args = b''
        if job.recovers is not None:
            known = job.recovers._known()
            function = self.prefixes['journal']
            args = args_field([known.id if known is not None else '', str(job.recovers.sent_at)])
        job.sent_at = time.monotonic()
        descriptor = memory_file(job.data) if len(job.data) > BY_FILE else -1
        with self.lock:
            core = self.core
            if core.failure is not None:
                if descriptor >= 0:
                    os.close(descriptor)
                self.queue.appendleft(job)
                self.under_way.discard(job)
                return
            if descriptor >= 0:
                core.submit_file(job, function, NO_ACCEPTED, args, descriptor, 0, len(job.data))
            else:
                core.submit(job, function, NO_ACCEPTED, args, job.data)
            write_some(self.socket, core)

    def drain(self) -> None:
        """[not its thread] What could not be written at once. Meanwhile the thread reads."""
        while self.core.outgoing and self.core.failure is None:
            poll = select.poll()
            try:
                poll.register(self.socket, select.POLLOUT)
            except ValueError:
                return
            poll.poll(20)
            with self.lock:
                if self.core.failure is None:
                    write_some(self.socket, self.core)

    def close(self, wait: bool, cancel: bool) -> None:
        """No more calls. What is there still runs, or is cancelled."""
        if os.getpid() != self.pid:
            return
        dropped: List[Any] = []
        with self.lock:
            self.closed = True
            if cancel:
                dropped, kept = list(self.queue), [one for one in self.queue if type(one) is Job]
                self.queue.clear()
                self.queue.extend(kept)
            self.sleeping = False
            self.wake()
            if self.done():
                self.hang_up()
        for one in dropped:
            if type(one) is Call:
                one.future.cancel()
                one.future.set_running_or_notify_cancel()
            elif type(one) is Calls:
                one.map.put(one.start, one.stop - one.start, futures.CancelledError())
        if wait and threading.current_thread() is not self.thread:
            self.thread.join()

    def abandon(self) -> None:
        """Its executor is gone. May be called wherever the garbage collector runs."""
        if os.getpid() == self.pid:
            self.closed = True
            self.wake()

    def wake(self) -> None:
        """If the thread sleeps or rests. Takes no lock."""
        try:
            os.write(self.waker, b'.')
        except BlockingIOError:
            pass  # it is awake
        self.call_thread()

    def call_thread(self) -> None:
        """Ends its rest, unless another thread reads. Takes no lock."""
        if self.resting:
            try:
                self.gate.release()
            except RuntimeError:
                pass  # it is open

    def done(self) -> bool:
        """[lock] It is closed and nothing is left."""
        return self.closed and not self.under_way and not self.queue and not self.finishing

    def hang_up(self) -> None:
        """[lock] Wakes the thread, which then closes."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    # --- a thread that waits for a result ----------------------------------------------------------------------------

    def read_for(self, future: Future[Any], timeout: Optional[float]) -> Optional[float]:
        """For a future whose call runs: reads its result if that is what comes next. Else the engine's thread does.

        Returns what is left of `timeout`.
        """
        if not self.resting:
            self.asked = True
            return timeout
        if os.getpid() != self.pid:
            return timeout
        if timeout is not None and timeout < LOOK:
            self.call_thread()
            return timeout
        begun = time.monotonic() if timeout is not None else 0.0
        role = Role()
        try:
            with self.lock:
                if not (self.reading or self.arrived or self.queue or self.core.outgoing) and len(self.under_way) == 1:
                    self.reading = role.reads = True
            if role.reads:
                # in one step for the interpreter: an exception leaves the bytes in the socket, or in arrived
                self.arrived.extend(map(self.socket.recv, (RECEIVE_LEAST,)))
                self.take(future, role)
        except OSError:
            pass  # nothing came for long, or the engine's thread has it, too
        finally:
            self.leave(role)
        return None if timeout is None else max(0.0, timeout - (time.monotonic() - begun))

    def take(self, future: Future[Any], role: Role) -> None:
        """[the thread that reads] Completes the future, and reads no longer, if what arrived is its result and no more.

        Each step may be the last one: the engine's thread then handles what arrived as if there had been none.
        """
        data = self.arrived[0]
        if self.rest or len(data) < _wire.FRAME.size:
            return
        magic, kind, tag, header_size, body_size = _wire.FRAME.unpack_from(data)
        start = _wire.FRAME.size + header_size
        if magic != _wire.MAGIC or kind != _wire.FINISHED or start + body_size != len(data):
            return
        job = self.core.calls.get(tag)
        if type(job) is not Job or job._chunks or len(job.calls) != 1 or job.calls[0].future is not future:
            return
        try:
            value = pickle.loads(data[start + _pool.SIZE.size:-_pool.END.size])
        except Exception:
            return  # it comes to the same in the engine's thread
        with future._condition:
            if future._done_callbacks:
                return
            settle(future, value)
        with self.lock:
            self.under_way.discard(job)
            job.calls[0].speed.learn(1, _pool.END.unpack_from(data, len(data) - _pool.END.size)[0])
            self.pause = self.absent_since = 0.0
            self.core.calls.pop(tag, None)
            self.arrived.clear()
            if not self.under_way and not self.queue and not self.closed:
                self.read += 1
                self.reading = role.reads = False

    def leave(self, role: Role) -> None:
        """The thread reads no longer. A signal handler that raises here does not keep it from leaving."""
        try:
            self.leave_once(role)
        except BaseException:
            self.leave_once(role)
            raise

    def leave_once(self, role: Role) -> None:
        """What is left is the engine's thread's."""
        if role.reads:
            with self.lock:
                self.reading = role.reads = False
        if not self.reading and (self.under_way or self.arrived or self.queue or self.closed):
            self.call_thread()

    # --- its thread --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until it is closed and nothing is left."""
        size = RECEIVE_LEAST
        quiet = False  # nothing came for a while
        try:
            while True:
                with self.lock:
                    if self.done():
                        break
                if self.asked:
                    self.asked = False
                    self.rest_a_while()
                data = self.arrived.popleft() if self.arrived else self.receive(size, quiet)
                if data is None:
                    quiet = True
                    self.look()
                    continue
                quiet = False
                size = RECEIVE_LEAST if len(data) < RECEIVE_LEAST else RECEIVE_MOST
                self.handle(data)
        except BaseException as error:
            self.fail(error)
            if not isinstance(error, Error):
                raise
        finally:
            with self.lock:
                self.closed = True
                self.socket.close()
                drop(self.core.outgoing)
                self.directory.close()

    def rest_a_while(self) -> None:
        """Leaves the reading to those that wait for results, for as long as calls come one behind the other."""
        with self.lock:
            if self.under_way or self.queue or self.closed or self.core.outgoing or self.paused_until:
                return
            self.reading, self.resting = False, True
        while self.resting:
            read = self.read
            called = self.gate.acquire(timeout=TICK)
            with self.lock:
                if not self.reading and (called or read == self.read):
                    self.reading, self.resting = True, False
                    self.gate.acquire(False)
        self.pump()

    def receive(self, size: int, quiet: bool) -> Optional[bytes]:
        """What has come. None: nothing, and there is something to look after."""
        if self.core.outgoing or self.paused_until or (quiet and not self.under_way):
            poll = select.poll()
            poll.register(self.socket, select.POLLIN | (select.POLLOUT if self.core.outgoing else 0))
            poll.register(self.wake_fd, select.POLLIN)
            left: Optional[float] = LOOK
            with self.lock:
                if self.paused_until:
                    left = max(0.0, self.paused_until - time.monotonic())
                elif not self.under_way and not self.queue and not self.closed:
                    self.sleeping, left = True, None
            found = dict(poll.poll(None if left is None else left * 1e3 + 1))
            self.sleeping = False
            if self.wake_fd in found:
                os.read(self.wake_fd, 64)
                return None
            if self.core.outgoing:
                with self.lock:
                    write_some(self.socket, self.core)
            if not found.get(self.socket.fileno(), 0) & ~select.POLLOUT:
                return None
        try:
            return self.socket.recv(size)
        except BlockingIOError:
            return None
        except OSError:
            return b''

    def handle(self, data: bytes) -> None:
        """Frames have come, or the end of the connection."""
        with self.lock:
            core = self.core
            try:
                if data:
                    if self.rest:
                        data = self.rest + data
                    self.rest = data[core.receive(data):]
                else:
                    core.lost()
            except ProtocolError as error:
                core.fail(error)
            if core.outgoing:
                write_some(self.socket, core)
            ended, said = self.ended, self.said
            if ended:
                self.ended = []
                self.finishing = True
                self.under_way.difference_update(ended)
                for job in ended:
                    self.learn(job)
            if said:
                self.said = []
        if self.queue:
            self.pump()
        for header in said:
            say(header)
        for job in ended:
            self.finish(job)
        with self.lock:
            self.finishing = False
            lost = core.failure is not None and not self.done()
        if lost:
            self.connect_again()

    @staticmethod
    def learn(job: Job) -> None:
        """[lock] How long its calls took."""
        chunks = job._chunks
        if chunks and len(chunks[-1]) >= 8 and job.recovers is None:
            spent = _pool.END.unpack_from(chunks[-1], len(chunks[-1]) - 8)[0]
            if job.part is not None:
                job.part.map.speed.learn(job.n, spent)
            else:
                for call in job.calls[:1]:
                    call.speed.learn(job.n, spent)

    def finish(self, job: Job) -> None:
        """It has ended: completes futures, or sees to what went wrong."""
        failure = job._failure
        info = None
        if failure is None and job._kind != _wire.FINISHED:
            info = job._known()
            if info is None or info.state == State.SUCCEEDED:
                info = None
            elif info.exit == 66 and info.state == State.FAILED:
                failure = Refused(info.error, code=66)  # it waited, and no worker came
        if failure is not None:
            self.refused(job, failure)
        elif job.recovers is not None:
            if info is not None and info.state in (State.INTERRUPTED, State.CRASHED):
                self.died(job.recovers)  # so did that one: another one is asked
            else:
                self.recovered(job.recovers, output(job))
        elif info is None:
            self.pause = self.absent_since = 0.0
            self.deliver(job, output(job))
        elif info.state in (State.INTERRUPTED, State.CRASHED):
            self.died(job)
        else:
            outcome = job._outcome()
            self.give_up(job, outcome if outcome is not None else Error(info.error))

    def deliver(self, job: Job, data: bytes) -> None:
        """The results of all calls of a bundle."""
        if job.part is not None:
            part = job.part
            if job.n > 1 and len(data) > 12 and _pool.SIZE.unpack_from(data)[0] == len(data) - 12:
                self.one_by_one(part)  # one record in place of all: it could not be unpickled
                self.pump()
            else:
                part.map.put(part.start, job.n, data)
            return
        at = 0
        for call in job.calls:
            at = complete(call.future, data, at)
        job.calls = []

    def died(self, job: Job) -> None:
        """A worker died with it: which of its calls it had begun, the journal says."""
        asks = Job(self)
        asks.recovers, asks.n, asks.data = job, 1, b'.'
        with self.lock:
            self.queue.appendleft(asks)
        self.pump()

    def recovered(self, job: Job, answer: bytes) -> None:
        """What the journal has of a bundle whose worker died. Empty: nothing is known."""
        data = output(job)  # that was delivered before
        known = job._known()
        lost = WorkerDied(f'the process that ran this call has died: {known.error if known is not None else ""}')
        if not answer:
            self.give_up(job, WorkerDied(f'{lost}, and it is not known whether this call was begun'))
            return
        before, here = _pool.FOUND.unpack_from(answer)
        if before == _pool.LOADING:
            with self.lock:
                self.queue.appendleft(self.anew(job))
            self.pump()
            return
        done = count(data)
        if here != _pool.LOADING and before <= done:
            data = data[:skip(data, before)] + answer[_pool.FOUND.size:]
            done = before + here
        begun = here != _pool.LOADING or job.n == 1
        if job.part is not None:
            part = job.part
            if done:
                part.map.put(part.start, done, data + bytes(8))
            at = part.start + done
            if begun and at < part.stop:
                part.map.put(at, 1, lost)
                at += 1
            if at < part.stop:
                self.one_by_one(Calls(part.map, at, part.stop))
        else:
            at = 0
            for call in job.calls[:done]:
                at = complete(call.future, data, at)
            for call in job.calls[done:done + begun]:
                call.future.set_exception(lost)
            for call in reversed(job.calls[done + begun:]):
                again = Job(self)
                again.calls, again.n = [call], 1
                with self.lock:
                    self.queue.appendleft(again)
        self.pump()

    def give_up(self, job: Job, error: BaseException) -> None:
        """All its calls have this outcome."""
        if job.part is not None:
            job.part.map.put(job.part.start, job.n, error)
        for call in job.calls:
            call.future.set_exception(error)
        if job.recovers is not None:
            self.give_up(job.recovers, error)

    def refused(self, job: Job, failure: Error) -> None:
        """wsd did not take it, or the connection ended."""
        if isinstance(failure, Refused) and failure.code in (66, 75):
            self.again(job, failure)
        elif self.core.failure is None:
            self.give_up(job, failure)
        elif self.idempotent or job.recovers is not None:
            with self.lock:
                self.queue.appendleft(self.anew(job))
        else:
            self.give_up(job, WorkerDied(f'it is not known how this call ended: {failure.text}'))

    def anew(self, job: Job) -> Job:
        """The same bundle, to be sent once more."""
        found = Job(self)
        found.calls, found.part, found.data, found.n, found.recovers = job.calls, job.part, job.data, job.n, job.recovers
        return found

    def again(self, job: Job, failure: Refused) -> None:
        """It has certainly not run: it goes again after a pause. If the pool is not there, it is started."""
        now = time.monotonic()
        if failure.code == 66:
            with self.lock:
                since = self.absent_since = self.absent_since or now
            self.start_pool()
            if now - since > PATIENCE:
                self.give_up(job, futures.BrokenExecutor(f'the pool does not start; {self.pool.log} says why'))
                return
        elif 'quarantine' in failure.text:
            self.release()
        with self.lock:
            self.pause = min(max(2 * self.pause, PAUSE_LEAST), PAUSE_MOST)
            self.paused_until = now + max(self.pause, min(failure.retry_after or 0.0, 5.0) if failure.code == 75 else 0.0)
            self.queue.appendleft(self.anew(job))

    def release(self) -> None:
        """Processes died of some calls. Calls have nothing to do with each other, so the others go on."""
        with self.lock:
            if self.core.failure is None:
                self.core.ask(Question((), False), _wire.RELEASE, _wire.encode('Release', {
                    'name': self.pool.name.encode(), 'function': self.function.encode()}))
                write_some(self.socket, self.core)

    def start_pool(self) -> None:
        """If there is none."""
        try:
            if not _pool.is_there(self.pool):
                _pool.start(self.pool)
        except OSError:
            pass  # it is tried again, for PATIENCE

    def look(self) -> None:
        """From time to time: whether the pool is there, and what was paused."""
        with self.lock:
            if self.paused_until and time.monotonic() >= self.paused_until:
                self.paused_until = 0.0
            needed = self.under_way or self.queue
        if needed:
            self.start_pool()
            self.pump()

    def connect_again(self) -> None:
        """wsd ended the connection. What certainly has not run waits here."""
        until = time.monotonic() + RECONNECT
        pause = PAUSE_LEAST
        self.socket.close()
        while True:
            try:
                fresh = self.connect()
                break
            except (NoDaemon, ConnectionLost, Refused) as error:
                if time.monotonic() > until or (isinstance(error, Refused) and error.code != 75):
                    raise
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_MOST)
        with self.lock:
            drop(self.core.outgoing)
            self.use(*fresh)
        self.pump()

    def fail(self, error: BaseException) -> None:
        """The end of the executor."""
        with self.lock:
            self.broken = error
            left = list(self.queue)
            self.queue.clear()
            jobs = [call for call in self.core.calls.values() if isinstance(call, Job)] + self.ended
        words = futures.BrokenExecutor(f'the executor has ended: {error}')
        for one in [*left, *jobs]:
            if isinstance(one, Job):
                self.give_up(one, words)
            elif isinstance(one, Call):
                if one.future.set_running_or_notify_cancel():
                    one.future.set_exception(words)
            else:
                one.map.put(one.start, one.stop - one.start, words)


# --- bytes ------------------------------------------------------------------------------------------------------------

def memory_file(data: bytes) -> int:
    """A descriptor of a file in memory with these bytes."""
    descriptor = os.memfd_create('wsd-bundle', os.MFD_CLOEXEC)
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left):]
    return descriptor


def output(job: Job) -> bytes:
    """All output of a job."""
    chunks = job._chunks
    return b'' if not chunks else chunks[0] if len(chunks) == 1 else b''.join(chunks)


def skip(data: bytes, n: int) -> int:
    """Where the record after n records begins."""
    at = 0
    for _ in range(n):
        at += 4 + _pool.SIZE.unpack_from(data, at)[0]
    return at


def count(data: bytes) -> int:
    """The number of whole records."""
    n = at = 0
    while len(data) - at >= 4:
        at += 4 + _pool.SIZE.unpack_from(data, at)[0]
        if at > len(data):
            break
        n += 1
    return n


def complete(future: futures.Future[Any], data: bytes, at: int) -> int:
    """Gives a future the record at that place. Returns where the next one is."""
    end: int = at + 4 + _pool.SIZE.unpack_from(data, at)[0]
    try:
        try:
            value = pickle.loads(data[at + 4:end])
        except BaseException as error:
            future.set_exception(error)
        else:
            settle(future, value)
    except futures.InvalidStateError:
        pass  # the thread that waits for it had just given it this result when it was interrupted
    return end


def settle(future: futures.Future[Any], value: Any) -> None:
    """Completes it."""
    if type(value) is Raised:
        future.set_exception(value.rebuilt())
    else:
        future.set_result(value)


def say(header: bytes) -> None:
    """A line that a call has printed."""
    m = _wire.decode('Message', header)
    stream = sys.stdout if m['level'] == _pool.LEVEL_OUT else sys.stderr
    try:
        if stream is not None:
            print(shown(m['text']), file=stream, flush=True)
    except (OSError, ValueError):
        pass


def encode(value: Any) -> Tuple[bytes, bool]:
    """A pickle, and whether it needs the main module of this program."""
    try:
        data = pickle.dumps(value, PROTOCOL)
    except Exception:
        cloud = _pool.cloudpickle()
        if cloud is None:
            raise
        return cloud.dumps(value, PROTOCOL), False
    if b'__main__' in data or b'__mp_main__' in data:
        cloud = _pool.cloudpickle()
        if cloud is not None:
            return cloud.dumps(value, PROTOCOL), False
        return data, True
    return data, False


# --- the executor -----------------------------------------------------------------------------------------------------

class Executor(futures.Executor):
    """Calls ordinary functions in processes that all programs of this user share. Since 0.1.

    It takes the place of concurrent.futures.ProcessPoolExecutor. `max_workers` calls run at once: as many as there are
    CPUs, unless given. The processes are started when they are first needed, and go when they had nothing to do for
    `idle` seconds. `idempotent`: calls may run twice, and do so when their process dies.

    The socket is that of `client`, or `socket`, or found as Client finds it. Functions and values go by pickle, and by
    cloudpickle if that is installed where pickle cannot. What calls print is printed here.

    Raises NoDaemon and its kin if it cannot connect. ValueError: an option is wrong.
    """

    def __init__(self, max_workers: Optional[int] = None, *, client: Optional[Client] = None, socket: Optional[Path] = None,
                 idempotent: bool = False, idle: float = IDLE, initializer: Optional[Callable[..., object]] = None,
                 initargs: Tuple[Any, ...] = ()) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError('max_workers must be greater than 0')
        if initializer is not None or initargs:
            raise ValueError('initializer: the processes belong to all programs of this user; '
                             'have the function set up what it needs when it is first called')
        if not idle > 0:
            raise ValueError(f'idle: not a number of seconds above 0: {idle!r}')
        if _pool.importing_main:
            raise RuntimeError("this program's main module is imported by a process of the pool: "
                               "put what it does behind `if __name__ == '__main__':`")
        self._max_workers = max_workers if max_workers is not None else len(os.sched_getaffinity(0))
        sys.modules.setdefault('__mp_main__', sys.modules['__main__'])
        self._engine = Engine(client._path if client is not None else find(socket), self._max_workers, idempotent, idle)
        weakref.finalize(self, Engine.abandon, self._engine).atexit = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> futures.Future[T]:
        """Calls fn(*args, **kwargs) in one of the processes. Returns a Future.

        Its result() raises what the call raised, with the remote traceback as the cause. WorkerDied: the process died.
        Raises RuntimeError after shutdown(), BrokenExecutor if wsd has gone, ForkedError in a child of fork(). Since 0.1.
        """
        engine = self._engine
        if os.getpid() != engine.pid:
            raise ForkedError('this executor belongs to the parent of this process; make another one', code=69)
        try:
            data, main = encode((fn, args, kwargs))
        except BaseException as error:
            with engine.lock:
                engine.check()
            future: futures.Future[T] = futures.Future()
            future.set_running_or_notify_cancel()
            future.set_exception(error)
            return future
        return engine.add_call(data, main, self._speed(fn))

    def _speed(self, fn: Callable[..., Any]) -> Speed:
        speeds = self._engine.speeds
        key = getattr(fn, '__module__', None), getattr(fn, '__qualname__', type(fn))
        found = speeds.get(key)
        if found is None:
            if len(speeds) >= 1024:
                speeds.clear()
            found = speeds[key] = Speed()
        return found

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: Optional[float] = None,
            chunksize: Optional[int] = None) -> Iterator[T]:
        """Calls fn with the elements of the iterables, and gives the results in order, as the built-in map().

        It needs no `chunksize`: short calls go in bundles, of a size that is measured. Raises TimeoutError if a result is
        not there `timeout` seconds after this call, and as submit(). Since 0.1.
        """
        if chunksize is not None and chunksize < 1:
            raise ValueError('chunksize must be >= 1.')
        engine = self._engine
        if os.getpid() != engine.pid:
            raise ForkedError('this executor belongs to the parent of this process; make another one', code=69)
        until = None if timeout is None else timeout + time.monotonic()
        of = MapCall(fn, list(zip(*iterables)), chunksize)
        total = len(of.arguments)
        if total:
            engine.add(Calls(of, 0, total))
        else:
            with engine.lock:
                engine.check()
        return results(of, total, until)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more calls. Those that were submitted still run; with `cancel_futures` only those that are under way do.

        `wait`: until they have ended. Since 0.1.
        """
        self._engine.close(wait, cancel_futures)


def results(of: MapCall, total: int, until: Optional[float]) -> Iterator[Any]:
    """Those of a map(). What is left when the iterator is closed does not run."""
    start = 0
    try:
        while start < total:
            n, found = of.take(start, until)
            start += n
            if isinstance(found, BaseException):
                raise found
            at = 0
            for _ in range(n):
                end = at + 4 + _pool.SIZE.unpack_from(found, at)[0]
                values = [pickle.loads(found[at + 4:end])]
                at = end
                if type(values[0]) is Raised:
                    raise values.pop().rebuilt()
                yield values.pop()
    finally:
        of.cancelled = True


__all__ = ['Executor', 'WorkerDied']
