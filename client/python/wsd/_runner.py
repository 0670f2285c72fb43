# SPDX-License-Identifier: Apache-2.0
"""A runner: a connection over which wsd hands jobs to tasks of this process.

With one thread, jobs run in the thread that called run(), which also reads the connection between two jobs: a job takes
no hop to another thread. A second thread, the watcher, reads while a job runs for longer than a moment: it answers wsd's
checks, and notes that a job is to stop. With several threads, the one that called run() reads, and hands the jobs on.
Keeps: of the threads, at most one reads. What came is handled under the lock. A frame is sent whole, under a lock of its own.
"""
from __future__ import annotations

import array
import os
import queue
import select
import socket
import sys
import threading
import time
import traceback
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Tuple, Union

from . import _wire
from ._errors import ConnectionLost, Error, NoDaemon, ProtocolError, Refused
from ._memory import Mappings
from ._protocol import FEATURE_PLACED, FEATURE_RUNNERS, error_of
from ._socket import Path, connect_error, find
from ._task import ALL, FUNCTIONS_MAX, NAME, PLACE, Task, TaskCancelled, TaskFailed, TaskJob, cut, output_view, tasks_of
from ._types import shown
from ._version import PROGRAM

WINDOW = 128 << 10  # bytes of output that a job may send ahead
LAST_MAX = 4096  # bytes beyond it that may come with the end
THREADS_MAX = 256  # jobs at once
STATUS_MAX = 63  # of a job that has failed
RECEIVE = 1 << 16
TICK = 0.02  # seconds that a job runs before the watcher reads
GRACE = 5.0  # seconds that a job may still run when its connection has ended, in a process that may end itself
PAUSE_LEAST, PAUSE_MOST = 0.05, 5.0  # seconds between two tries to connect
CONNECT_TIMEOUT = 5.0
TRACEBACK_LINES = 100
TAG = 1
ANCILLARY = socket.CMSG_SPACE(16 * array.array('i').itemsize)
EXIT_STUCK = 71  # of a process that ends itself, since it cannot end a job in another way
LEVEL_ERROR = 3
CLOEXEC = int(socket.MSG_CMSG_CLOEXEC)  # a number: an enum takes a microsecond each time
NOW = int(socket.MSG_DONTWAIT)
TRUNCATED = int(socket.MSG_CTRUNC)


class Runner:
    """Offers tasks to wsd under a name, and runs the jobs that come. Since 0.1.

    `name` stands where the name of a plugin stands: 1 to 63 letters, digits, `_`, `-` and `.`. `tasks` are functions
    marked by @wsd.task, or a module or mapping that has some. `threads` is the number of jobs at once: with 1, they run
    in the thread that calls run(); else each in a thread of its own.

    A name that begins with `@` is a place. It has one task, with the name `*`, which gets the jobs for whatever plugin:
    `@NAME/PLUGIN:FUNCTION`. The job's `function` says which.

    `may_exit`: this process has a supervisor. It ends itself if a job runs on after wsd has given it up.

    Raises ValueError for a name that wsd does not take, or where there is no task or more than 64.
    """

    def __init__(self, name: str, tasks: Union[Any, Iterable[Callable[..., Any]]], *, socket: Optional[Path] = None, threads: int = 1,
                 version: str = '', help: str = '', may_exit: bool = False, on_ready: Optional[Callable[[], None]] = None) -> None:
        check_name(name)
        if not 1 <= threads <= THREADS_MAX:
            raise ValueError(f'threads: not a number from 1 to {THREADS_MAX}: {threads!r}')
        found = [one for holder in tasks for one in tasks_of(holder)] if isinstance(tasks, (list, tuple)) else tasks_of(tasks)
        if not found:
            raise ValueError(f'{name}: there is no task; mark functions with @wsd.task')
        if len(found) > FUNCTIONS_MAX:
            raise ValueError(f'{name}: {len(found)} tasks; at most {FUNCTIONS_MAX} go with one name, so split the module')
        if name.startswith('@') and [one.name for one in found] != [ALL]:
            raise ValueError(f'{name}: a place has one task, which gets all jobs; mark it with @wsd.task(name="{ALL}")')
        self.name = name
        self._tasks: Dict[bytes, Task] = {one.name.encode(): one for one in found}
        self._place = ALL.encode() if name.startswith('@') else b''  # the task for all jobs
        self._path = find(socket)
        self._offer = _wire.encode('Offer', {
            'name': name.encode(), 'version': cut(version), 'help': cut(help), 'credit': threads,
            'functions': [{'name': one.name.encode(), 'help': cut(one.help), 'flags': one.flags} for one in found]})
        self._threads, self._may_exit, self._on_ready = threads, may_exit, on_ready
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0  # threads that wait for _changed
        self._send_lock = threading.Lock()
        self._leaving = False
        self._close_sent = False
        self._connected = False
        self._over = True  # the connection has ended
        self._failure: Optional[Error] = None  # why, if run() is to end with it
        self._begun = 0  # jobs
        self._idle = True  # the thread of run() reads
        self._watching: Optional[threading.Thread] = None
        self._watcher_sleeps = False
        self._gate = threading.Semaphore(0)
        self._ended = False  # run() returns
        self._home = 0  # the thread of run()
        self._mappings = Mappings()

    # --- life --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serves jobs until leave() was called and all have ended. Connects again when wsd was restarted.

        Raises Refused and its kin if wsd does not take the offer, ProtocolError if it does not keep to the protocol, and
        ConnectionLost if this process has too many open files. Since 0.1.
        """
        self._home = threading.get_ident()
        self._ended = False
        said = False
        pause = PAUSE_LEAST
        try:
            while not self._leaving:
                try:
                    self._connect()
                except (NoDaemon, ConnectionLost) as error:
                    if not said:
                        print(f'wsd: {self.name}: {error.text}; trying again', file=sys.stderr, flush=True)
                    said = True
                except Refused as error:
                    if error.code != 75:
                        raise
                else:
                    said, pause = False, PAUSE_LEAST
                    if self._on_ready is not None:
                        self._on_ready()
                    self._serve()
                    self._hang_up()
                    if self._failure is not None:
                        raise self._failure
                    continue
                self._pause(pause)
                pause = min(2 * pause, PAUSE_MOST)
        finally:
            self._ended = True
            self._hang_up()
            self._gate.release()
            if self._watching is not None:
                self._watching.join()
                self._watching = None

    def leave(self) -> None:
        """No more jobs: run() returns when those that run have ended. May be called in any thread, and by a signal handler.

        Since 0.1.
        """
        self._leaving = True
        self._say_close()

    def _say_close(self) -> None:
        """If another thread sends, or this one was interrupted in the midst of it, that goes on with this."""
        while self._leaving and self._connected and not self._close_sent and self._send_lock.acquire(False):
            try:
                if not self._close_sent:
                    self._close_sent = True
                    self._socket.sendall(_wire.frame(_wire.RUNNER_CLOSE, TAG))
            except OSError:
                pass  # the thread that reads sees the end
            finally:
                self._send_lock.release()

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._leaving and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
            self._mappings.let_go()

    def _connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._descriptors: Deque[int] = deque()  # that came, and belong to frames that did not yet
        try:
            sock.settimeout(CONNECT_TIMEOUT)
            try:
                sock.connect(self._path)
            except OSError as error:
                raise connect_error(self._path, error) from None
            rest = self._handshake(sock)
            sock.settimeout(None)
        except BaseException:
            sock.close()
            raise
        self._socket = sock
        self._pending: Deque[TaskJob] = deque()  # not yet begun
        self._jobs: Dict[int, TaskJob] = {}  # that have not ended
        self._over = self._close_sent = False
        self._failure = None
        self._idle = True
        self._connected = True
        with self._lock:
            self._frames(rest)
        self._say_close()

    def _handshake(self, sock: socket.socket) -> bytes:
        """Says who this is and what it offers. Returns what came behind the answer."""
        data = b''

        def answer(wanted: int) -> bytes:
            nonlocal data
            while True:
                if len(data) >= 16:
                    magic, kind, _, header_size, body_size = _wire.FRAME.unpack_from(data)
                    size = 16 + header_size + body_size
                    if magic != _wire.MAGIC or size > _wire.FRAME_MAX:
                        raise ProtocolError('what came is no frame', code=76)
                    if len(data) >= size:
                        header, data = data[16:16 + header_size], data[size:]
                        if kind == _wire.GOODBYE:
                            continue
                        if kind == _wire.ERROR:
                            raise error_of(_wire.decode('Error', header))
                        if kind != wanted:
                            raise ProtocolError(f'a frame of type {kind} where none can be', code=76)
                        return header
                more, ancillary, _, _ = sock.recvmsg(RECEIVE, ANCILLARY, CLOEXEC)
                self._keep(ancillary)
                if not more:
                    raise ConnectionLost('wsd has ended the connection', code=69)
                data += more
        try:
            sock.sendall(_wire.frame(_wire.HELLO, 0, _wire.encode('Hello', {
                'version_min': 1, 'version_max': 1, 'features': FEATURE_RUNNERS | FEATURE_PLACED, 'program': PROGRAM})))
            welcome = _wire.decode('Welcome', answer(_wire.WELCOME))
            if not welcome['features'] & FEATURE_RUNNERS:
                raise ProtocolError(f'{self._path}: this wsd ({shown(welcome["program"])}) knows no runners; it needs a newer one', code=76)
            sock.sendall(_wire.frame(_wire.RUNNER_OPEN, TAG, self._offer))
            answer(_wire.RUNNER)
        except TimeoutError:
            raise NoDaemon(f'{self._path}: wsd does not answer', code=69) from None
        except (BrokenPipeError, ConnectionResetError):
            raise ConnectionLost('wsd has ended the connection', code=69) from None
        return data

    def _hang_up(self) -> None:
        if not self._connected:
            return
        with self._send_lock:
            self._connected = False
        with self._lock:
            self._over = True
            for job in self._pending:
                job._close()
            self._pending.clear()
            for descriptor in self._descriptors:
                os.close(descriptor)
            self._descriptors.clear()
            self._socket.close()

    # --- reading -----------------------------------------------------------------------------------------------------

    def _receive(self, flags: int) -> None:
        """[the thread that reads; with MSG_DONTWAIT under the lock] Takes what has come."""
        if not flags:
            self._let_go()
        try:
            data, ancillary, marks, _ = self._socket.recvmsg(RECEIVE, ANCILLARY, flags | CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary, marks = b'', [], 0
        if flags:
            self._received(data, ancillary, marks)
        else:
            with self._lock:
                self._received(data, ancillary, marks)

    def _let_go(self) -> None:
        """Until something comes: lets go of mappings that no job uses."""
        poll = None
        while (left := self._mappings.let_go()) is not None:
            if poll is None:
                poll = select.poll()
                poll.register(self._socket, select.POLLIN)
            if poll.poll(left * 1e3 + 1):
                return

    def _received(self, data: bytes, ancillary: List[Tuple[int, int, bytes]], marks: int) -> None:
        """[lock]"""
        if ancillary:
            self._keep(ancillary)
        if marks & TRUNCATED:  # which frame it was for is not known
            self._break(ConnectionLost('too many open files: no room for the input of a job; raise RLIMIT_NOFILE (ulimit -n)', code=69))
            return
        if not data:
            self._lost()
            return
        self._frames(self._rest + data if self._rest else data)

    def _keep(self, ancillary: List[Tuple[int, int, bytes]]) -> None:
        """Descriptors that came belong to the next frames that speak of one."""
        for _, kind, descriptors in ancillary:
            if kind == socket.SCM_RIGHTS:
                found = array.array('i')
                found.frombytes(descriptors[:len(descriptors) - len(descriptors) % found.itemsize])
                self._descriptors.extend(found)

    def _frames(self, data: bytes) -> None:
        """[lock] Handles all whole frames. The rest waits for more. What is against the protocol ends the connection."""
        try:
            self._rest = data[self._handle(data):]
        except ProtocolError as error:
            self._break(error)

    def _handle(self, data: bytes) -> int:
        """[lock] All whole frames. Returns their size. Raises ProtocolError."""
        at, end = 0, len(data)
        unpack = _wire.FRAME.unpack_from
        while end - at >= 16:
            magic, kind, _, header_size, body_size = unpack(data, at)
            start = at + 16
            body = start + header_size
            stop = body + body_size
            if magic != _wire.MAGIC or stop - at > _wire.FRAME_MAX:
                raise ProtocolError('what came is no frame', code=76)
            if stop > end:
                break
            at = stop
            self._frame(kind, data[start:body], data[body:stop])
        return at

    def _take_descriptor(self, kind: str) -> int:
        """[lock] The one that came with a frame of that type. Raises ProtocolError."""
        if not self._descriptors:
            raise ProtocolError(f'wsd does not keep to the protocol: no descriptor with {kind}', code=76)
        return self._descriptors.popleft()

    def _frame(self, kind: int, header: bytes, body: bytes) -> None:
        """[lock]"""
        if kind == _wire.RUN:
            m = _wire.decode('Run', header)
            descriptor = self._take_descriptor('RUN') if m['input_from'] or m['output_size'] else -1
            job = TaskJob(self, m, body, descriptor, WINDOW)
            self._jobs[job._run] = job
            if m['flags'] & 2:
                job._pieces = [body]
            else:
                self._pending.append(job)
        elif kind == _wire.RUN_PING:
            self._send(_wire.frame(_wire.RUN_PONG, TAG, header))
        elif kind == _wire.END:
            self._over = True
            self._changed.notify_all()
        elif kind == _wire.ERROR:
            m = _wire.decode('Error', header)
            print(f'wsd: {self.name}: {shown(m["text"])}', file=sys.stderr, flush=True)
            self._lost()
        elif kind in (_wire.RUN_INPUT, _wire.RUN_STOP, _wire.RUN_CREDIT, _wire.RUN_OPENED):
            self._frame_of_job(kind, header, body)

    def _frame_of_job(self, kind: int, header: bytes, body: bytes) -> None:
        """[lock] One for a job, which may have ended meanwhile."""
        if kind == _wire.RUN_INPUT:
            m = _wire.decode('RunChunk', header)
            found = self._jobs.get(m['run'])
            if found is not None and found._pieces is not None:
                found._pieces.append(body)
                if m['last']:
                    found._body, found._pieces = b''.join(found._pieces), None
                    self._pending.append(found)
            return
        if kind == _wire.RUN_OPENED:
            m = _wire.decode('RunOpened', header)
            descriptor = -m['error'] if m['error'] else self._take_descriptor('RUN_OPENED')
            found = self._jobs.get(m['run'])
            if found is not None:
                found._opened[m['serial']] = descriptor
            elif descriptor >= 0:
                os.close(descriptor)
        elif kind == _wire.RUN_STOP:
            m = _wire.decode('RunRef', header)
            found = self._jobs.get(m['run'])
            if found is not None:
                found._stopped = m['why'] or 1
        else:
            m = _wire.decode('RunCredit', header)
            found = self._jobs.get(m['run'])
            if found is not None:
                found._allowed += m['bytes']
        if self._waiting:
            self._changed.notify_all()

    def _break(self, failure: Error) -> None:
        """[lock] Ends the connection, and run() with it."""
        self._failure = failure
        self._lost()

    def _lost(self) -> None:
        """[lock] The connection has ended: jobs that run are to stop. Of one that does not, this process may get rid."""
        self._over = True
        stuck = any(job._stopped for job in self._jobs.values())
        for job in self._jobs.values():
            job._stopped = job._stopped or 1
        self._changed.notify_all()
        if self._may_exit and self._jobs and not self._idle:
            if stuck:
                _exit_stuck()
            timer = threading.Timer(GRACE, self._exit_if_stuck, (self._begun,))
            timer.daemon = True
            timer.start()

    def _exit_if_stuck(self, begun: int) -> None:
        if begun == self._begun and self._over and self._jobs:
            _exit_stuck()

    # --- the watcher -------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Reads while one job runs for long. Sleeps while there are none."""
        while not self._ended:
            begun = self._begun
            time.sleep(TICK)
            if begun != self._begun:
                continue
            if self._idle:
                self._watcher_sleeps = True
                if self._idle and begun == self._begun and not self._ended:
                    self._gate.acquire()
                self._watcher_sleeps = False
                continue
            poll = select.poll()
            try:
                poll.register(self._socket, select.POLLIN)
            except ValueError:  # closed
                continue
            while begun == self._begun and not self._idle and not self._over and not self._ended:
                if poll.poll(TICK * 1e3):
                    with self._lock:
                        if begun == self._begun and not self._idle and not self._over:
                            self._receive(NOW)
                else:
                    self._mappings.let_go()

    def _busy(self) -> None:
        """A job begins, or goes on."""
        self._idle = False
        if self._watcher_sleeps:
            self._watcher_sleeps = False
            self._gate.release()

    def _read_until(self, ready: Callable[[], bool]) -> None:
        """[the thread of run()] Reads until then, or until the connection is over."""
        with self._lock:
            self._idle = True
        while not self._over and not ready():
            self._receive(0)

    # --- jobs --------------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Until the connection is over."""
        if self._threads > 1:
            self._serve_by_threads()
            return
        if self._watching is None:
            self._watching = threading.Thread(target=self._watch, name='wsd-watcher', daemon=True)
            self._watching.start()
        pending = self._pending
        while True:
            if not pending:
                self._read_until(pending.__len__)  # type: ignore[arg-type]
                if not pending:
                    return
            job = pending.popleft()
            self._begun += 1
            self._busy()
            self._execute(job)
            if self._over:
                return

    def _serve_by_threads(self) -> None:
        jobs: queue.SimpleQueue[Optional[TaskJob]] = queue.SimpleQueue()

        def work() -> None:
            while (job := jobs.get()) is not None:
                self._begun += 1
                self._execute(job)
        threads = [threading.Thread(target=work, name=f'wsd-task-{n}', daemon=True) for n in range(self._threads)]
        for thread in threads:
            thread.start()
        while not self._over:
            self._receive(0)
            self._idle = not self._jobs
            while self._pending:
                jobs.put(self._pending.popleft())
        for _ in threads:
            jobs.put(None)
        for thread in threads:
            thread.join()

    def _execute(self, job: TaskJob) -> None:
        """Runs a job to its end."""
        status, error = 0, b''
        rest: Union[bytes, memoryview] = b''
        began = time.thread_time_ns()
        try:
            task = self._tasks[self._place or job._m['function']]
            if job._stopped:
                job.check()
            result = task.function(job)
            if result is not None:
                if type(result) is bytes and len(result) <= LAST_MAX and job._place < 0:
                    rest = result
                elif type(result) is not bytes and hasattr(result, '__next__'):
                    for piece in result:
                        job.write(piece)
                else:
                    rest = self._write_most(job, output_view(result))
        except TaskFailed as failed:
            status, error = failed.status, cut(failed.text or 'it failed')
        except TaskCancelled as cancelled:
            status, error = 1, cut(str(cancelled) or 'it was cancelled')
        except BaseException as raised:
            status, error = 1, self._tell_exception(job, raised)
        if job._overflow:
            status, error = STATUS_MAX, b'its output is larger than its part of the arena'
        job._close()
        spent = (time.thread_time_ns() - began) // 1000
        header = b'\x08' + _wire.varint(job._run)
        if status:
            header += b'\x10' + bytes((status,)) + _wire.text_field(3, error)
        if job._text:
            header += _wire.text_field(4, job._text)
        if spent:
            header += b'\x28' + _wire.varint(spent)
        if job._m['output_size']:
            header += b'\x30' + _wire.varint(job._sent)
        if self._threads == 1:
            self._jobs.pop(job._run, None)
        else:
            with self._lock:
                self._jobs.pop(job._run, None)
        self._send(_wire.FRAME.pack(_wire.MAGIC, _wire.RUN_END, TAG, len(header), len(rest)) + header + rest)

    def _tell_exception(self, job: TaskJob, raised: BaseException) -> bytes:
        """Sends the traceback without the frames of this file. Returns the last line."""
        lines = traceback.format_exception(type(raised), raised, raised.__traceback__ and raised.__traceback__.tb_next)
        text = ''.join(lines).rstrip('\n').split('\n')
        for line in text[-TRACEBACK_LINES:]:
            self._say(job, LEVEL_ERROR, line)
        last = traceback.format_exception_only(type(raised), raised)[-1].strip()
        return cut(last)

    # --- for TaskJob -------------------------------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        """One frame, whole. After the end of the connection it goes nowhere."""
        with self._send_lock:
            if self._connected:
                try:
                    self._socket.sendall(data)
                except OSError:
                    pass  # the thread that reads sees the end
        if self._leaving:
            self._say_close()

    def _await(self, job: TaskJob, ready: Callable[[], bool]) -> None:
        """Waits in a job. Raises TaskCancelled when it is to stop, or when the connection has ended."""
        def done() -> bool:
            return ready() or job._stopped != 0
        if self._threads == 1 and threading.get_ident() == self._home:
            self._read_until(done)
            self._busy()
        else:
            with self._lock:
                self._waiting += 1
                try:
                    while not done() and not self._over:
                        self._changed.wait()
                finally:
                    self._waiting -= 1
        if not ready():
            job.check()
            raise TaskCancelled('the connection to wsd has ended')

    def _write(self, job: TaskJob, data: memoryview) -> None:
        if job._place >= 0:
            job._put(data)
            return
        while data:
            if job._sent >= job._allowed:
                self._await(job, lambda: job._allowed > job._sent)
            n = min(len(data), job._allowed - job._sent, _wire.CHUNK_MAX)
            header = b'\x08' + _wire.varint(job._run) + (b'\x10' + _wire.varint(job._sent) if job._sent else b'')
            self._send(_wire.FRAME.pack(_wire.MAGIC, _wire.RUN_OUTPUT, TAG, len(header), n) + header + data[:n])
            job._sent += n
            data = data[n:]

    def _write_most(self, job: TaskJob, data: memoryview) -> memoryview:
        """All but what may go with the end."""
        if job._place >= 0:
            job._put(data)
            return data[:0]
        room = min(job._allowed - job._sent, _wire.CHUNK_MAX - LAST_MAX) + LAST_MAX
        if len(data) > room:
            self._write(job, data[:-LAST_MAX])
            return data[-LAST_MAX:]
        return data

    def _progress(self, job: TaskJob, done: int, total: int) -> None:
        self._send(_wire.frame(_wire.RUN_PROGRESS, TAG, _wire.encode('RunProgress', {'run': job._run, 'done': done, 'total': total})))

    def _say(self, job: TaskJob, level: int, line: str) -> None:
        if not 0 <= level <= 7:
            raise ValueError(f'level: not a number from 0 to 7: {level!r}')
        self._send(_wire.frame(_wire.RUN_MESSAGE, TAG, _wire.encode('RunMessage', {'run': job._run, 'level': level, 'text': cut(line)})))

    def _open(self, job: TaskJob, path: bytes) -> int:
        """A descriptor of a file that wsd opens. Raises OSError."""
        serial = len(job._opened) + 1
        self._send(_wire.frame(_wire.RUN_OPEN, TAG, _wire.encode('RunOpen', {'run': job._run, 'serial': serial, 'path': path})))
        self._await(job, lambda: serial in job._opened)
        descriptor = job._opened[serial]
        job._opened[serial] = -1  # it is the caller's
        if descriptor < 0:
            raise OSError(-descriptor, os.strerror(-descriptor), shown(path))
        return descriptor


def _exit_stuck() -> None:
    """The supervisor starts another process."""
    sys.stderr.flush()
    os._exit(EXIT_STUCK)


def check_name(name: str) -> None:
    """ValueError: wsd takes no runner of this name."""
    if not (NAME.fullmatch(name) or PLACE.fullmatch(name)) or name.endswith('.so'):
        raise ValueError(f'{name!r} is no name of a runner: 1 to 63 letters, digits, `_`, `-` and `.`, begins with neither of the '
                         'last two, and does not end in .so; that of a place has an @ before it; give --name')


__all__ = ['EXIT_STUCK', 'Runner', 'check_name']
